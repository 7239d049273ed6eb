"""One choice of one request, from the tokens that GenAI hands over to the events that tell of it.

What it hands over is one run of tokens a step. Of a pipeline without a drafter that says all there
is to know; of one with a drafter it says that all tokens of a run but the last were drafted and
accepted. The last is the target's own, or a stop that had been drafted as well: only a run longer
than the draft settles that.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from engine.events import DraftRecord, FinishedEvent, GenerationRequest, Sink, StepEvent
from engine.metrics import RequestMetrics, StepFigures
from engine.reference.pipeline import Report
from engine.reference.terms import Terms
from engine.tokens import TextStream
from engine.values import EmittedToken, FinishReason, Origin

_NO_DRAFT = DraftRecord((), (), ())
_PLAIN = StepFigures(0, 0, 0, draft_ms=0.0, verify_ms=None, overhead_ms=None)
_UNTOLD = StepFigures(None, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class Choice:
    """What one choice needs beside its request. ``drafter`` None: the pipeline has none."""

    index: int
    terms: Terms
    drafter: str | None
    stream: TextStream
    echo: str = ""


class Answer:
    """One running choice. Used by one thread at a time."""

    def __init__(self, request: GenerationRequest, choice: Choice, sink: Sink) -> None:
        config = request.config
        self.index = choice.index
        self.terms = choice.terms
        self.finish_reason: FinishReason | None = None
        """Set once the answer is whole; its end is told by `finish`."""
        self._choice = choice
        self._sink = sink
        self._stop_ids = frozenset[int]() if config.ignore_eos else config.stop_token_ids
        self._metrics = RequestMetrics(
            prompt_tokens=len(request.prompt_ids), positions_told=choice.drafter is None
        )
        self._tokens: list[EmittedToken] = []
        self._token_texts: list[str] = []
        self._pieces = [choice.echo]
        self._num_told = 0  # pieces that a step event has carried
        self._overran = False
        self._started = perf_counter()
        if choice.terms.max_new_tokens == 0:  # an echo of the prompt, and no more
            self.finish_reason = FinishReason.LENGTH

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer so far."""
        return len(self._tokens)

    def take(self, run: tuple[int, ...]) -> bool:
        """Take in the tokens of one step and tell of them; False once the answer is whole."""
        if self.finish_reason is not None:
            self._overran = True
            return False
        now_ms = self._now_ms()
        is_plain = self._choice.drafter is None or not self._tokens
        first = len(self._tokens)
        for place, token in enumerate(run):
            origin = Origin.PLAIN if is_plain else self._origin(place, len(run))
            depth = place + 1 if origin is Origin.ACCEPTED else 0
            self._tokens.append(EmittedToken(token, origin, depth, score=None))
            self.finish_reason = self._read(token)
            if self.finish_reason is not None:
                self._overran = place + 1 < len(run)
                break
        self._metrics.num_generated_tokens = len(self._tokens)
        self._metrics.add(_PLAIN if is_plain else _UNTOLD, now_ms)
        self._tell(first, now_ms, is_plain=is_plain)
        return self.finish_reason is None

    def finish(
        self,
        reason: FinishReason,
        report: Report | None = None,
        waited_ms: float = 0.0,
        note: str | None = None,
    ) -> None:
        """Tell that the answer has ended.

        ``report`` is GenAI's own account, whose clock began ``waited_ms`` after submission.
        """
        if report is not None and self._tokens:
            self._settle(report, waited_ms)
        tail = self._choice.stream.finish()
        self._sink(
            FinishedEvent(
                choice=self.index,
                finish_reason=reason,
                text="".join(self._pieces) + tail,
                tail="".join(self._pieces[self._num_told :]) + tail,
                token_ids=tuple(token.token for token in self._tokens),
                tokens=tuple(self._tokens),
                token_texts=tuple(self._token_texts),
                metrics=self._metrics,
                notes=() if note is None else (note,),
            )
        )

    def waited_ms(self) -> float:
        """Milliseconds since submission."""
        return self._now_ms()

    def _now_ms(self) -> float:
        return 1000.0 * (perf_counter() - self._started)

    def _origin(self, place: int, run_len: int) -> Origin | None:
        if place + 1 < run_len:
            return Origin.ACCEPTED
        return Origin.BONUS if run_len - 1 == self.terms.length else None

    def _read(self, token: int) -> FinishReason | None:
        """Take in one token's text and say whether the answer ends with it."""
        if token in self._stop_ids:  # has no place in the text, whatever it would read as
            self._token_texts.append("")
            return FinishReason.STOP
        delta = self._choice.stream.push(token)
        self._pieces.append(delta.text)
        self._token_texts.append(delta.token_text)
        if delta.stopped:
            return FinishReason.STOP
        return FinishReason.LENGTH if self.num_tokens == self.terms.max_new_tokens else None

    def _tell(self, first: int, now_ms: float, *, is_plain: bool) -> None:
        text = "".join(self._pieces[self._num_told :])
        self._num_told = len(self._pieces)
        drafter = self._choice.drafter
        self._sink(
            StepEvent(
                choice=self.index,
                t_ms=now_ms,
                text=text,
                emitted=tuple(self._tokens[first:]),
                token_texts=tuple(self._token_texts[first:]),
                drafter=None if is_plain else drafter,
                draft=_NO_DRAFT if is_plain else None,
                verified=() if is_plain else None,
                num_reached=0 if is_plain else None,
                reason=_reason(drafter, self.terms, is_plain=is_plain),
                draft_ms=0.0 if is_plain else None,
                verify_ms=None,
                overhead_ms=None,
            )
        )

    def _settle(self, report: Report, waited_ms: float) -> None:
        """Replace our clock by GenAI's, and fill in the totals that it tells."""
        metrics, times = self._metrics, report.step_times_ms
        if len(times) >= metrics.num_target_steps:
            metrics.ttft_ms = waited_ms + report.ttft_ms
            last = times[metrics.num_target_steps - 1]
            metrics.last_token_ms = metrics.ttft_ms + last - times[0]
        if self._overran or len(times) != metrics.num_target_steps:
            return  # the totals count tokens that are not in the answer
        metrics.verify_ms = report.inference_ms
        if report.drafts is not None:
            metrics.draft_ms = report.drafts.draft_ms
            metrics.num_draft_tokens = report.drafts.num_draft_tokens
            metrics.num_verified_tokens = report.drafts.num_draft_tokens
            metrics.num_accepted_tokens = report.drafts.num_accepted_tokens


def _reason(drafter: str | None, terms: Terms, *, is_plain: bool) -> str:
    if drafter is None:
        return "plain: no drafter"
    if is_plain:
        return "plain: the first token"
    how_many = (
        "as many as it is sure of" if terms.length is None else f"{terms.length} draft tokens"
    )
    return f"OpenVINO GenAI's own draft: {how_many}"
