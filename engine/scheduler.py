"""Which sequences take part in the next forward pass, and with how many rows. Pure: no model, no
clock.

Every sequence that already answers takes part in each pass with its pending token (its draft comes
on top); prompts fill what is left of the row budget in order of arrival, a long one in chunks, so
that answers go on streaming while a prompt is read. A sequence is admitted when the cache can hold
its prompt and leave each that runs room to grow; an answer that cannot get its next cache row
waits until others end. If nobody can move, the youngest gives way: its answer ends early.
(Preemption with recomputation will take the place of that last resort.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from engine.backends.base import Cache
from engine.values import SeqId


class Schedulable(Protocol):
    """What the scheduler sees of a sequence."""

    @property
    def seq(self) -> SeqId: ...

    @property
    def prompt_len(self) -> int: ...

    @property
    def num_computed(self) -> int:
        """Cache rows that are valid: ``L`` once the prompt is read."""
        ...


@dataclass(frozen=True, slots=True)
class PrefillShare:
    """``num_rows`` prompt rows of one sequence; ``is_last`` if they end with the prompt's last
    token."""

    seq: SeqId
    num_rows: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """One pass: answers to continue, prompts to read, and at most one answer that has to give
    way."""

    verify: tuple[SeqId, ...]
    prefill: tuple[PrefillShare, ...]
    starved: SeqId | None = None

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to run."""
        return not self.verify and not self.prefill


class Scheduler:
    """Admission, chunked prefill and fairness over one cache."""

    def __init__(self, cache: Cache, max_rows: int, max_sequences: int) -> None:
        """``max_rows`` bounds the rows of a pass, drafts apart; ``max_sequences`` those that run at
        once."""
        self._cache = cache
        self._max_rows = max_rows
        self._max_sequences = max_sequences
        self._waiting: deque[Schedulable] = deque()
        self._running: dict[SeqId, Schedulable] = {}

    @property
    def num_waiting(self) -> int:
        """Sequences that are not admitted yet."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Sequences that own cache rows."""
        return len(self._running)

    def add(self, sequence: Schedulable) -> None:
        """Queue a sequence behind those that came before."""
        self._waiting.append(sequence)

    def remove(self, seq: SeqId) -> None:
        """Forget a sequence that has ended, wherever it stood; its cache rows are the caller's to
        free."""
        self._running.pop(seq, None)
        self._waiting = deque(one for one in self._waiting if one.seq != seq)

    def schedule(self) -> Schedule:
        """Decide the next pass, and reserve the cache rows that it needs (drafts apart)."""
        answering = [one for one in self._running.values() if not _reads_prompt(one)]
        verify = [one.seq for one in answering if self._reserve(one, one.num_computed + 1)]
        prefill = list(self._prefill_shares(self._max_rows - len(verify)))
        starved = None
        if answering and not verify and not prefill:
            starved = answering[-1].seq
        return Schedule(tuple(verify), tuple(prefill), starved)

    def _prefill_shares(self, num_rows: int) -> Iterator[PrefillShare]:
        for one in [*self._running.values()]:
            if num_rows > 0 and _reads_prompt(one):
                share = _next_chunk(one, num_rows)
                num_rows -= share.num_rows
                yield share
        while num_rows > 0 and self._waiting and self._admit(self._waiting[0]):
            one = self._waiting.popleft()
            self._running[one.seq] = one
            share = _next_chunk(one, num_rows)
            num_rows -= share.num_rows
            yield share

    def _admit(self, one: Schedulable) -> bool:
        if len(self._running) >= self._max_sequences:
            return False
        # Otherwise a newcomer would starve those before it.
        return self._cache.can_admit(one.prompt_len) and self._reserve(one, one.prompt_len)

    def _reserve(self, one: Schedulable, length: int) -> bool:
        if not self._cache.can_reserve(one.seq, length):
            return False
        self._cache.reserve(one.seq, length)
        return True


def _reads_prompt(one: Schedulable) -> bool:
    return one.num_computed < one.prompt_len


def _next_chunk(one: Schedulable, num_rows: int) -> PrefillShare:
    missing = one.prompt_len - one.num_computed
    return PrefillShare(one.seq, min(missing, num_rows), is_last=missing <= num_rows)
