"""The engine: one thread that owns the models, and the order in which a step happens.

    schedule -> draft -> budget -> target forward -> verify -> commit -> tell

Other threads reach it through `Engine.submit`, `RequestHandle.cancel` and `Engine.close`, which
leave a message; events come back on the engine's thread through the request's sink. Every request
ends in a terminal event, whatever happens: a failed step ends the requests that were running with
an error, gives back their cache rows, and the next request finds a working engine. If the thread
itself should end, the door is closed, so that nobody waits behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter

from engine.admission import Admission
from engine.backends.base import Backend, Batch
from engine.budget import StepTiming
from engine.drafting import Draft, DraftStage
from engine.errors import EngineStoppedError, PacelineError, StepFailedError
from engine.events import DraftRecord, FailedEvent, GenerationRequest, Sink
from engine.interface import EngineStatus, RequestHandle, guarded
from engine.library.folder import ModelInfo
from engine.plan import Plan
from engine.rejection import RejectionSampling
from engine.sampling import TokenDecider
from engine.scheduler import Schedule, Scheduler
from engine.sequence import Sequence, StepRecord
from engine.slices import prefill_slice, step_shape, take_in, verify_slice
from engine.tokens import Tokenizer
from engine.values import FinishReason, Scores, SeqId, Verdict
from engine.verify import AcceptanceRule, SampleThenMatch, verify

_logger = logging.getLogger(__name__)

_STARVED = (
    "The key/value cache is full: {num_tokens} tokens of this answer fitted, and the cache holds "
    "{total} for all answers; start with a larger cache (cache_size_gib)."
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine is put together from; see ``engine/load.py``."""

    model: ModelInfo
    plan: Plan
    tokenizer: Tokenizer
    model_defaults: Mapping[str, object]
    backend: Backend
    drafting: DraftStage
    admission: Admission
    max_rows: int
    on_close: Callable[[], None] = lambda: None
    """Called on the engine's thread when the last request has ended: what is to be kept, is
    kept."""


@dataclass(frozen=True, slots=True)
class _Submit:
    sequences: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True)
class _Cancel:
    sink: Sink
    """That of the submission, which has it alone; a request's id is only a label."""


class _Forget: ...


class _Close: ...


_Message = _Submit | _Cancel | _Forget | _Close


class NativeEngine:
    """Our own engine; `interface.Engine`."""

    def __init__(self, parts: Parts) -> None:
        self.model = parts.model
        self.plan = parts.plan
        self.tokenizer = parts.tokenizer
        self.model_defaults = parts.model_defaults
        self._backend = parts.backend
        self._drafting = parts.drafting
        self._admission = parts.admission
        self._on_close = parts.on_close
        self._scheduler = Scheduler(
            parts.backend.cache, parts.max_rows, parts.backend.capabilities.max_sequences
        )
        self._sequences: dict[SeqId, Sequence] = {}
        self._seq_ids = count()
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._is_to_forget = False
        self._closed = False
        self._door = Lock()  # nothing is submitted behind the message that closes
        self._thread = Thread(target=self._run, name="paceline-engine", daemon=True)
        self._thread.start()

    def submit(self, request: GenerationRequest, sink: Sink) -> RequestHandle:
        """`interface.Engine.submit`."""
        choices = self._admission.choices(request)
        own_sink = guarded(sink)
        sequences = tuple(
            Sequence(next(self._seq_ids), request, own_sink, choice) for choice in choices
        )
        with self._door:
            if self._closed:
                raise EngineStoppedError("The engine is closed; start it again.")
            self._messages.put(_Submit(sequences))
        return RequestHandle(request.request_id, lambda: self._messages.put(_Cancel(own_sink)))

    def status(self) -> EngineStatus:
        """`interface.Engine.status`."""
        cache = self._backend.cache
        return EngineStatus(
            num_running=self._scheduler.num_running,
            num_waiting=self._scheduler.num_waiting,
            cache_total_tokens=cache.total_tokens,
            cache_free_tokens=cache.free_tokens,
        )

    def forget(self) -> None:
        """`interface.Engine.forget`."""
        self._messages.put(_Forget())

    def close(self) -> None:
        """End every open request with an error, stop the thread, and give back the model."""
        with self._door:
            if not self._closed:
                self._closed = True
                self._messages.put(_Close())
        self._thread.join()

    # Everything below runs on the engine's thread.

    def _run(self) -> None:
        try:
            while self._take_messages():
                try:
                    self._step()
                except Exception:
                    _logger.exception("A step failed; its requests end with an error.")
                    self._fail_all(StepFailedError("A step of the engine failed; ask again."))
        except Exception:
            _logger.exception("The engine's thread failed.")
        finally:
            self._shut_down()

    def _shut_down(self) -> None:
        with self._door:
            self._closed = True
        while not self._messages.empty():  # what came in before the door was closed
            message = self._messages.get()
            if isinstance(message, _Submit):
                self._sequences.update((answer.seq, answer) for answer in message.sequences)
        self._fail_all(
            EngineStoppedError("The engine was closed before the answer was complete; start it.")
        )
        _try("keeping what was learnt", self._on_close)
        _try("closing the backend", self._backend.close)

    def _take_messages(self) -> bool:
        """Act on all messages, waiting for one while there is nothing to do. False: close."""
        while not self._sequences or not self._messages.empty():
            if self._is_to_forget and not self._sequences:
                self._is_to_forget = False
                self._drafting.forget()
            match self._messages.get():
                case _Close():
                    return False
                case _Forget():
                    self._is_to_forget = True
                case _Submit(sequences):
                    for sequence in sequences:
                        self._start(sequence)
                case _Cancel(sink):
                    for answer in self._of_sink(sink):
                        self._end(answer, FinishReason.CANCELLED)
        return True

    def _start(self, answer: Sequence) -> None:
        if answer.num_left == 0:  # an echo of the prompt, and no more
            answer.finish(FinishReason.LENGTH)
            return
        self._sequences[answer.seq] = answer
        self._scheduler.add(answer)

    def _step(self) -> None:
        started = perf_counter()
        schedule = self._scheduler.schedule()
        if schedule.starved is not None:
            self._end_starved(self._sequences[schedule.starved])
            return
        assert not schedule.is_empty
        answers = [self._sequences[seq] for seq in schedule.verify]
        shape = step_shape(schedule, self._sequences)
        drafts, draft_ms = self._drafting.propose(answers, shape)
        drafts = [
            self._reserve(answer, draft) for answer, draft in zip(answers, drafts, strict=True)
        ]
        prompts = [prefill_slice(self._sequences[one.seq], one) for one in schedule.prefill]
        batch = Batch((*map(verify_slice, answers, drafts), *prompts))
        before = perf_counter()
        output = self._backend.forward(batch)
        verify_ms = 1000.0 * (perf_counter() - before)
        answered = self._verify(schedule, drafts, output.scores)
        verified = answered[: len(answers)]  # behind them, prompts that were read to their end
        self._backend.commit({answer.seq: verdict.kept_rows for answer, _, verdict in verified})
        for answer, _, verdict in verified:
            answer.num_computed += len(verdict.kept_rows)
        chunks = [take_in(self._sequences[part.seq], part) for part in batch.slices[len(answers) :]]
        timing = StepTiming(
            rows=batch.num_rows,
            context_len=shape.context_len,
            verify_ms=verify_ms,
            draft_ms=draft_ms,
            contains_prefill=bool(chunks),
        )
        self._drafting.observe(answered, chunks, timing)
        overhead_ms = 1000.0 * (perf_counter() - started) - draft_ms - verify_ms
        for answer, draft, verdict in answered:
            if answer.seq not in self._sequences:
                continue  # another choice of its request has failed in this step
            answer.record(verdict, _step_record(draft, draft_ms, verify_ms, overhead_ms))
            if answer.failure is not None:
                self._fail(self._of_sink(answer.sink), answer.failure)
            elif verdict.finish is not None:
                self._end(answer, verdict.finish)

    def _reserve(self, answer: Sequence, draft: Draft) -> Draft:
        """Make room for the rows of the draft; without room, the step decodes plainly."""
        if not len(draft.kept):
            return draft
        length = answer.num_computed + 1 + len(draft.kept)
        if not self._backend.cache.can_reserve(answer.seq, length):
            return draft.dropped("plain: the cache has no room for a draft")
        self._backend.cache.reserve(answer.seq, length)
        return draft

    def _verify(
        self, schedule: Schedule, drafts: list[Draft], scores: tuple[Scores, ...]
    ) -> list[tuple[Sequence, Draft, Verdict]]:
        """A verdict for each sequence that emits in this step: answers first, then prompts that
        have been read to their end."""
        first = Draft.none("plain: the first token")
        last_chunks = [(share.seq, first, share.is_last) for share in schedule.prefill]
        parts = [(seq, draft, True) for seq, draft in zip(schedule.verify, drafts, strict=True)]
        answered: list[tuple[Sequence, Draft, Verdict]] = []
        for (seq, draft, emits), mine in zip([*parts, *last_chunks], scores, strict=True):
            if emits:
                answer = self._sequences[seq]
                rule = _rule(answer, mine)
                answered.append((answer, draft, verify(seq, draft.tree, rule, answer.on_token)))
        return answered

    def _end_starved(self, answer: Sequence) -> None:
        total = self._backend.cache.total_tokens
        note = _STARVED.format(num_tokens=answer.num_tokens, total=total)
        self._end(answer, FinishReason.LENGTH, note)

    def _end(self, answer: Sequence, reason: FinishReason, note: str | None = None) -> None:
        self._forget(answer)
        answer.finish(reason, note)

    def _forget(self, answer: Sequence) -> None:
        del self._sequences[answer.seq]
        self._scheduler.remove(answer.seq)
        _try("releasing a draft", lambda: self._drafting.release(answer))
        _try("releasing cache rows", lambda: self._backend.release(answer.seq))

    def _of_sink(self, sink: Sink) -> list[Sequence]:
        """The choices of one submission."""
        return [answer for answer in self._sequences.values() if answer.sink is sink]

    def _fail_all(self, error: PacelineError) -> None:
        self._fail([*self._sequences.values()], error)

    def _fail(self, answers: list[Sequence], error: PacelineError) -> None:
        sinks = {answer.sink: None for answer in answers}
        for answer in answers:
            self._forget(answer)
        for sink in sinks:
            sink(FailedEvent(error))


def _try(what: str, action: Callable[[], None]) -> None:
    """Do what must not keep the rest from being done."""
    try:
        action()
    except Exception:
        _logger.exception("Trouble while %s.", what)


def _rule(answer: Sequence, scores: Scores) -> AcceptanceRule:
    """How a draft of ``answer`` is verified on its scores."""
    target = TokenDecider(answer.sampling, scores)
    if answer.mode.by_rejection:
        return RejectionSampling(target, answer.sampling)
    return SampleThenMatch(target)


def _step_record(draft: Draft, draft_ms: float, verify_ms: float, overhead_ms: float) -> StepRecord:
    proposed = draft.proposed
    return StepRecord(
        drafter=draft.drafter,
        draft=DraftRecord(
            tokens=tuple(proposed.tokens.tolist()),
            parents=tuple(proposed.parents.tolist()),
            survival=tuple(draft.survival.tolist()),
        ),
        verified=tuple(draft.kept.tolist()),
        reason=draft.reason,
        draft_ms=draft_ms,
        verify_ms=verify_ms,
        overhead_ms=overhead_ms,
    )
