from __future__ import annotations

from dataclasses import dataclass

from engine.kv import BlockPool
from engine.scheduler import PrefillShare, Schedule, Scheduler


@dataclass
class Job:
    seq: int
    prompt_len: int
    num_computed: int = 0


def run(scheduler: Scheduler, jobs: dict[int, Job]) -> Schedule:
    """One pass: every scheduled row is computed, answers grow by one token."""
    schedule = scheduler.schedule()
    for share in schedule.prefill:
        jobs[share.seq].num_computed += share.num_rows
    for seq in schedule.verify:
        jobs[seq].num_computed += 1
    return schedule


def make(num_blocks: int, *, max_rows: int = 10, max_sequences: int = 4) -> Scheduler:
    return Scheduler(BlockPool(num_blocks, block_size=4), max_rows, max_sequences)


def test_reads_a_long_prompt_in_chunks_and_marks_the_last() -> None:
    scheduler, job = make(20), Job(0, prompt_len=25)
    scheduler.add(job)
    shares = [run(scheduler, {0: job}).prefill for _ in range(3)]
    assert shares == [
        (PrefillShare(0, 10, is_last=False),),
        (PrefillShare(0, 10, is_last=False),),
        (PrefillShare(0, 5, is_last=True),),
    ]
    assert run(scheduler, {0: job}).verify == (0,)


def test_answers_go_on_while_a_prompt_is_read() -> None:
    scheduler, first, second = make(20), Job(0, 3), Job(1, 25)
    jobs = {0: first, 1: second}
    scheduler.add(first)
    run(scheduler, jobs)
    scheduler.add(second)
    for _ in range(2):
        schedule = run(scheduler, jobs)
        assert schedule.verify == (0,)
        assert schedule.prefill == (PrefillShare(1, 9, is_last=False),)


def test_short_prompts_share_one_pass_in_order_of_arrival() -> None:
    scheduler, jobs = make(20), {seq: Job(seq, 4) for seq in range(3)}
    for job in jobs.values():
        scheduler.add(job)
    assert run(scheduler, jobs).prefill == (
        PrefillShare(0, 4, is_last=True),
        PrefillShare(1, 4, is_last=True),
        PrefillShare(2, 2, is_last=False),
    )


def test_waits_for_room_rather_than_starving_those_before() -> None:
    scheduler, jobs = make(3), {0: Job(0, 6), 1: Job(1, 4)}
    scheduler.add(jobs[0])
    run(scheduler, jobs)
    scheduler.add(jobs[1])
    # One block of four is free, but the running answer will want it.
    assert run(scheduler, jobs).prefill == ()
    assert scheduler.num_waiting == 1


def test_the_blocks_that_running_answers_need_next_are_not_given_away() -> None:
    scheduler, jobs = make(4), {0: Job(0, 3), 1: Job(1, 3), 2: Job(2, 6)}
    for seq in (0, 1):
        scheduler.add(jobs[seq])
    run(scheduler, jobs)
    scheduler.add(jobs[2])
    # Two of four blocks are free; each answer fills its block now and wants another one next.
    taken_part = [run(scheduler, jobs) for _ in range(3)]
    assert [schedule.verify for schedule in taken_part] == [(0, 1)] * 3
    assert all(not schedule.prefill for schedule in taken_part)


def test_runs_no_more_sequences_than_the_backend_can() -> None:
    scheduler, jobs = make(20, max_sequences=2), {seq: Job(seq, 2) for seq in range(3)}
    for job in jobs.values():
        scheduler.add(job)
    assert [share.seq for share in run(scheduler, jobs).prefill] == [0, 1]
    scheduler.remove(0)
    assert [share.seq for share in run(scheduler, jobs).prefill] == [2]


def test_an_answer_waits_for_a_block_and_the_youngest_gives_way_when_all_wait() -> None:
    scheduler, jobs = make(3), {0: Job(0, 4), 1: Job(1, 3)}
    for job in jobs.values():
        scheduler.add(job)
    taken_part = [run(scheduler, jobs).verify for _ in range(6)]
    # The prompts, then both; then the third block is the first answer's, and the second one waits.
    assert taken_part == [(), (0, 1), (0,), (0,), (0,), ()]
    assert scheduler.schedule() == Schedule((), (), starved=1)


def test_a_removed_sequence_is_not_scheduled_wherever_it_stood() -> None:
    scheduler, jobs = make(20, max_sequences=1), {0: Job(0, 2), 1: Job(1, 2)}
    for job in jobs.values():
        scheduler.add(job)
    run(scheduler, jobs)
    scheduler.remove(1)
    scheduler.remove(0)
    assert scheduler.schedule().is_empty
    assert scheduler.num_waiting == scheduler.num_running == 0
