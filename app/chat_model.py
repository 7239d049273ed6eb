"""The conversation as it happens: ask, stream, stop, try again, compare.

`ChatModel` owns the messages and the one task that answers. A message leaves as a frozen value, in
`message_added` once and in `message_changed` with the pulse. No widgets, no HTTP:
the engine is whatever `Engine` gives a ready client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from app.connection import ReadyEngine
from app.conversation import Message, Progress, Role, history
from app.engine_words import fixed_speculation_text
from app.examples import Example
from app.figures import SEPARATOR, Answer, Tally, answer_line, comparison_text
from app.pulse import Pulse
from app.tasks import Tasks
from app.telemetry import Telemetry
from app.wire import AnswerSettings, ChatRequest, Ended, EngineError, Fault, PlanReport, Step

_COMPARED = AnswerSettings(speculation=True, max_tokens=256)
"""Of the first half of a comparison; the second differs in speculation alone."""
_PROGRESS_MS = 100
_CLOSE_S = 0.5
_LINE_S = 0.15
"""The figures under a growing answer change no oftener: they are to be read."""


class Engine(Protocol):
    """Where answers come from."""

    async def ready(self) -> ReadyEngine:
        """Wait until there is a model. Raises `EngineError` when waiting cannot help."""
        ...


@dataclass(slots=True)
class _Open:
    """The answer that is being made."""

    message: Message
    question: Message
    started: float
    tally: Tally = field(default_factory=Tally)
    pieces: list[str] = field(default_factory=list[str])
    line: str = ""
    line_due: float = 0.0
    is_asked: bool = False
    """The engine has the question."""


class ChatModel(QObject):
    """One conversation. Every method returns at once."""

    message_added = Signal(object)
    message_changed = Signal(object)
    cleared = Signal()
    busy_changed = Signal(bool)
    speculation_changed = Signal(bool)
    speculation_fixed = Signal(str)
    """`fixed_speculation` has changed."""

    def __init__(
        self,
        engine: Engine,
        telemetry: Telemetry,
        pulse: Pulse,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self._telemetry = telemetry
        self._messages: dict[int, Message] = {}
        self._last_id = 0
        self._plan: PlanReport | None = None
        self._wish: bool | None = None  # None: speculation as the engine's plan has it
        self._tasks = Tasks(self._on_failure)
        self._task: asyncio.Task[Message] | None = None
        self._open: _Open | None = None
        self._pulse = pulse
        pulse.beat.connect(self._show_open)
        self._progress = QTimer(self)
        self._progress.setInterval(_PROGRESS_MS)
        self._progress.timeout.connect(self._pulse.request)

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, oldest first."""
        return tuple(self._messages.values())

    @property
    def is_busy(self) -> bool:
        """An answer is being made."""
        return self._task is not None

    @property
    def speculation(self) -> bool:
        """Whether the next answer may draft: as a person set it, else as the engine's plan has it;
        on until that is known."""
        if self._wish is not None and not self.fixed_speculation:
            return self._wish
        return self._plan is None or self._plan.speculates is not False

    @property
    def fixed_speculation(self) -> str:
        """Why a person cannot set it; empty where they can."""
        return fixed_speculation_text(self._plan)

    def set_speculation(self, on: bool) -> None:
        """Turn drafting on or off for the next answers; the one under way goes on as it is."""
        if on != self.speculation and not self.fixed_speculation:
            self._wish = on
            self.speculation_changed.emit(on)

    def follow_plan(self, plan: PlanReport | None) -> None:
        """Speculation stands where ``plan`` has it, unless a person has set it."""
        before, fixed_before = self.speculation, self.fixed_speculation
        self._plan = plan or self._plan
        if self.speculation != before:
            self.speculation_changed.emit(self.speculation)
        if self.fixed_speculation != fixed_before:
            self.speculation_fixed.emit(self.fixed_speculation)

    def send(self, text: str) -> None:
        """Ask. Blank text and a question while an answer is made are ignored."""
        if self.is_busy or not text.strip():
            return
        self._ask(text, AnswerSettings(self._wish))

    def compare(self, text: str) -> None:
        """Ask with speculation and then without, and say what the difference is; where there is one
        way only, ask once and say why."""
        if self.is_busy or not text.strip():
            return
        question = self._add(Role.USER, text.strip())
        self._run(self._compare(question, self._begin(question, _COMPARED)))

    def try_example(self, example: Example) -> None:
        """Ask what an example asks, in the way that it wants."""
        if example.is_comparison:
            self.compare(example.prompt)
        elif not self.is_busy:
            self._ask(
                example.prompt,
                AnswerSettings(self._wish, example.max_tokens, example.temperature),
            )

    def retry(self, answer_id: int) -> None:
        """Ask again what the failed or stopped answer ``answer_id`` was to answer."""
        answer = self._messages.get(answer_id)
        if self.is_busy or answer is None or answer.question is None:
            return
        question = self._messages[answer.question]
        now = self._begin(question, answer.settings, remembered=answer.remembered, replacing=answer)
        self._run(self._answer(now))

    def stop(self) -> None:
        """End the answer under way: shown at once, and the engine sees the connection close."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        self._settle(Progress.STOPPED)
        self._rest()

    def clear(self) -> None:
        """Begin a new conversation."""
        self.stop()
        self._messages.clear()
        self._telemetry.clear()
        self.cleared.emit()

    async def close(self) -> None:
        """Stop, and wait a moment for the connection to be closed in order."""
        task = self._task
        self.stop()
        if task:
            await asyncio.wait({task}, timeout=_CLOSE_S)

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _add(self, role: Role, text: str) -> Message:
        message = Message(self._new_id(), role, text)
        self._messages[message.id] = message
        self.message_added.emit(message)
        return message

    def _ask(self, text: str, settings: AnswerSettings) -> None:
        question = self._add(Role.USER, text.strip())
        self._run(self._answer(self._begin(question, settings)))

    def _run(self, work: Coroutine[Any, Any, Message]) -> None:
        self._task = task = self._tasks.start(work)
        task.add_done_callback(self._on_done)
        self._progress.start()
        self.busy_changed.emit(True)

    def _on_failure(self, task: asyncio.Task[Any]) -> None:
        if task is self._task:
            self._settle(Progress.FAILED, Fault("The window stumbled over this answer.", ""))

    def _on_done(self, task: asyncio.Task[Message]) -> None:
        if task is self._task:
            self._task = None
            self._rest()

    def _rest(self) -> None:
        self._progress.stop()
        self.busy_changed.emit(False)

    async def _compare(self, question: Message, now: _Open) -> Message:
        first = await self._answer(now)
        if first.progress is not Progress.DONE:
            return first
        if self.fixed_speculation:
            self._put(replace(first, notes=(*first.notes, self.fixed_speculation)))
            return first
        plain = replace(_COMPARED, speculation=False)
        second = await self._answer(self._begin(question, plain, remembered=False))
        if second.progress is Progress.DONE and first.figures and second.figures:
            verdict = comparison_text(
                Answer(first.text, first.figures), Answer(second.text, second.figures)
            )
            self._put(replace(second, notes=(*second.notes, verdict)))
        return second

    async def _answer(self, now: _Open) -> Message:
        try:
            engine = await self._engine.ready()
            settings = now.message.settings
            # Asked as the plan has it, before the plan was known, or where there is one way only.
            if settings.speculation is None or self.fixed_speculation:
                settings = replace(settings, speculation=self.speculation)
                now.message = replace(now.message, settings=settings)
            now.is_asked = True
            now.started = perf_counter()
            self._telemetry.begin(speculation=settings.may_draft)
            request = ChatRequest(history(self.messages, now.question), settings)
            answer = engine.client.chat(request, engine.model.id, engine.plan)
            async with aclosing(answer) as events:
                async for event in events:
                    self._take(now, event.text, event.step)
                    if isinstance(event, Ended):
                        self._settle(Progress.DONE, ended=event)
        except EngineError as error:
            self._settle(Progress.FAILED, error.fault)
        return self._messages.get(now.message.id, now.message)

    def _begin(
        self,
        question: Message,
        settings: AnswerSettings,
        *,
        remembered: bool = True,
        replacing: Message | None = None,
    ) -> _Open:
        """Show an answer that waits, in a place of its own or in that of ``replacing``."""
        message = Message(
            replacing.id if replacing else self._new_id(),
            Role.ASSISTANT,
            progress=Progress.WAITING,
            question=question.id,
            settings=settings,
            remembered=remembered,
        )
        self._open = now = _Open(message, question, perf_counter())
        if replacing is None:
            self._messages[message.id] = message
            self.message_added.emit(message)
        self._show_open()
        return now

    def _take(self, now: _Open, text: str, step: Step | None) -> None:
        if self._open is not now:
            return
        if step:
            now.tally.add(step)
            self._telemetry.add(step)
        if text:
            now.pieces.append(text)
        self._pulse.request()

    def _show_open(self) -> None:
        now = self._open
        if now is None:
            return
        if perf_counter() >= now.line_due:
            now.line_due = perf_counter() + _LINE_S
            now.line = answer_line(now.tally.figures(), speculation=now.message.settings.may_draft)
        line = now.line
        progress = Progress.STREAMING
        if not now.tally.num_tokens and not now.pieces:
            progress = Progress.WAITING
            line = _waiting_line(now)
        text = "".join(now.pieces)
        self._put(replace(now.message, text=text, progress=progress, line=line))

    def _settle(
        self, progress: Progress, fault: Fault | None = None, ended: Ended | None = None
    ) -> None:
        now, self._open = self._open, None
        self._telemetry.end(ended)
        if now is None:
            return
        figures = now.tally.settled(ended) if ended else now.tally.figures()
        reason = ended.finish_reason if ended else ""
        speculation = now.message.settings.may_draft
        line = answer_line(figures, speculation=speculation, finish_reason=reason)
        if progress is Progress.STOPPED:
            line = f"{line}{SEPARATOR}stopped" if figures.num_tokens else "Stopped"
        elif progress is Progress.FAILED and not figures.num_tokens:
            line = ""
        self._put(
            replace(
                now.message,
                text="".join(now.pieces),
                progress=progress,
                line=line,
                notes=ended.notes if ended else (),
                figures=figures,
                fault=fault,
            )
        )

    def _put(self, message: Message) -> None:
        if message.id not in self._messages:
            return  # the conversation was cleared meanwhile
        self._messages[message.id] = message
        self.message_changed.emit(message)


def _waiting_line(now: _Open) -> str:
    elapsed = perf_counter() - now.started
    doing = "Reading your message" if now.is_asked else "Waiting for the model"
    return f"{doing}{SEPARATOR}{elapsed:.1f} s"
