"""The engine's thread: requests wait in line, and GenAI answers one choice after the other.

Every request ends in a terminal event, whatever happens. While GenAI generates, this thread is
inside the call, and events are told from the streamer's: never from both at once. A cancelled
answer ends when GenAI hands over its next step, so not before the end of its prompt.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Condition, Event, Thread

from engine.errors import CacheTooSmallError, EngineStoppedError, PacelineError
from engine.events import FailedEvent, GenerationRequest, Sink
from engine.interface import EngineStatus, RequestHandle, guarded
from engine.library.folder import ModelInfo
from engine.plan import Plan
from engine.reference.answer import Answer, Choice
from engine.reference.pipeline import DrafterKind, Pipeline, Report
from engine.reference.terms import Conditions
from engine.tokens import TextStream, Tokenizer
from engine.values import FinishReason

_logger = logging.getLogger(__name__)

_DROPPED = "GenerationStatus::IGNORED"
"""Part of GenAI's message about a request that its cache cannot hold."""
_CACHE_FULL = (
    "The key/value cache is full: {num_tokens} tokens of this answer fitted; start with a larger "
    "cache (cache_size_gib)."
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the engine is put together from; see `engine.reference.open`."""

    model: ModelInfo
    plan: Plan
    tokenizer: Tokenizer
    model_defaults: Mapping[str, object]
    pipeline: Pipeline
    drafter: DrafterKind


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    request: GenerationRequest
    sink: Sink
    answers: tuple[Answer, ...]
    cancelled: Event = field(default_factory=Event)

    def end_cancelled(self) -> None:
        for answer in self.answers:
            answer.finish(FinishReason.CANCELLED)


class GenAIEngine:
    """OpenVINO GenAI as an `interface.Engine`."""

    def __init__(self, parts: Parts) -> None:
        self.model = parts.model
        self.plan = parts.plan
        self.tokenizer = parts.tokenizer
        self.model_defaults = parts.model_defaults
        self._pipeline = parts.pipeline
        self._conditions = Conditions(
            parts.plan, parts.drafter, parts.model.context_length, parts.tokenizer.vocab_size
        )
        self._drafter = None if parts.drafter is DrafterKind.NONE else parts.plan.drafter
        self._line = Condition()
        self._waiting: deque[_Job] = deque()
        self._is_running = False
        self._closed = False
        self._thread = Thread(target=self._run, name="paceline-genai", daemon=True)
        self._thread.start()

    def submit(self, request: GenerationRequest, sink: Sink) -> RequestHandle:
        """`interface.Engine.submit`."""
        job = self._job(request, guarded(sink))
        with self._line:
            if self._closed:
                raise EngineStoppedError("The engine is closed; start it again.")
            self._waiting.append(job)
            self._line.notify()
        return RequestHandle(request.request_id, job.cancelled.set)

    def forget(self) -> None:
        """`interface.Engine.forget`: nothing is remembered from one answer to the next."""

    def status(self) -> EngineStatus:
        """`interface.Engine.status`; GenAI does not tell of its cache."""
        with self._line:
            return EngineStatus(
                num_running=int(self._is_running),
                num_waiting=len(self._waiting),
                cache_total_tokens=None,
                cache_free_tokens=None,
            )

    def close(self) -> None:
        """End every open request with an error, stop the thread, and give back the model."""
        with self._line:
            self._closed = True
            self._line.notify()
        self._thread.join()

    def _job(self, request: GenerationRequest, sink: Sink) -> _Job:
        config = request.config
        terms = self._conditions.terms(request)
        echo = self.tokenizer.decode(request.prompt_ids) if config.echo else ""
        choices = (
            Choice(
                index=index,
                terms=terms,
                drafter=self._drafter,
                stream=TextStream(
                    self.tokenizer, config.stop_strings, config.include_stop_str_in_output
                ),
                echo=echo,
            )
            for index in range(config.num_return_sequences)
        )
        return _Job(request, sink, tuple(Answer(request, choice, sink) for choice in choices))

    # Everything below runs on the engine's thread, or on the streamer's while that one waits.

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._serve(job)
            except PacelineError as error:
                job.sink(FailedEvent(error))
            except Exception:
                _logger.exception("OpenVINO GenAI failed; the request ends with an error.")
                failure = EngineStoppedError("OpenVINO GenAI failed in the middle; ask again.")
                job.sink(FailedEvent(failure))
        for job in self._waiting:
            job.sink(FailedEvent(self._closing_error()))
        del self._pipeline

    def _next(self) -> _Job | None:
        with self._line:
            self._is_running = False
            self._line.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            self._is_running = True
            return self._waiting.popleft()

    def _serve(self, job: _Job) -> None:
        """Answer every choice.

        Raises:
            CacheTooSmallError: the prompt does not fit.
            EngineStoppedError: the engine was closed on the way.
            RuntimeError: in GenAI's words.
        """
        for answer in job.answers:
            if job.cancelled.is_set():
                answer.finish(FinishReason.CANCELLED)
                continue
            waited_ms = answer.waited_ms()
            try:
                report = self._generate(job, answer)
            except RuntimeError as error:
                self._end_starved(answer, error)
                continue
            if self._closed and answer.finish_reason is None:
                raise self._closing_error()
            ended = FinishReason.CANCELLED if job.cancelled.is_set() else FinishReason.STOP
            answer.finish(answer.finish_reason or ended, report, waited_ms)

    def _generate(self, job: _Job, answer: Answer) -> Report | None:
        if answer.finish_reason is not None:
            return None
        failed: list[Exception] = []

        def listen(run: tuple[int, ...]) -> bool:
            try:
                self._end_cancelled()
                if self._closed or job.cancelled.is_set():
                    return False
                return answer.take(run)
            except Exception as error:  # GenAI's own thread must not see it
                _logger.exception("Reading the answer failed; its request ends with an error.")
                failed.append(error)
                return False

        config = answer.terms.peer_config(job.request.config, answer.index)
        report = self._pipeline.run(job.request.prompt_ids, config, listen)
        if failed:
            raise EngineStoppedError("Reading the answer failed; ask again.") from failed[0]
        return report

    def _end_starved(self, answer: Answer, error: RuntimeError) -> None:
        """End what the cache has no room to go on with; any other error goes on up."""
        if _DROPPED not in str(error):
            raise error
        if not answer.num_tokens:
            raise CacheTooSmallError(
                "The prompt does not fit into the key/value cache: shorten it, or start with a "
                "larger cache (cache_size_gib).",
                param="prompt",
            ) from error
        note = _CACHE_FULL.format(num_tokens=answer.num_tokens)
        answer.finish(FinishReason.LENGTH, note=note)

    def _end_cancelled(self) -> None:
        """End the waiting requests that nobody waits for."""
        with self._line:
            gone = [job for job in self._waiting if job.cancelled.is_set()]
            for job in gone:
                self._waiting.remove(job)
        for job in gone:
            job.end_cancelled()

    @staticmethod
    def _closing_error() -> EngineStoppedError:
        return EngineStoppedError("The engine was closed before the answer was complete.")
