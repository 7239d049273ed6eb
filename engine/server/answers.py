"""From the engine's events to OpenAI's objects, whole and in chunks.

`Answer` is the part that both endpoints share (ids, usage, what rides along on a stream); a `Shape`
is what differs: the names of the objects and how one choice looks. Nothing here waits or sends.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from engine.events import FinishedEvent, GenerationRequest, StepEvent
from engine.interface import Engine
from engine.server.jobs import Presentation
from engine.server.logprobs import TokenTexts

if TYPE_CHECKING:
    from engine.tokens import Tokenizer

Json = dict[str, object]


class Shape(Protocol):
    """How one endpoint writes a choice."""

    chunk_object: str
    whole_object: str

    def opening(self, index: int) -> Json | None:
        """The choice of the first chunk, where the endpoint has one without text."""
        ...

    def piece(self, index: int, text: str, logprobs: Json | None, finish: str | None) -> Json:
        """A choice inside a chunk."""
        ...

    def whole(self, index: int, text: str, logprobs: Json | None, finish: str) -> Json:
        """A choice of a whole answer."""
        ...

    def logprobs(self, tokenizer: Tokenizer, tokens: TokenTexts, offset: int) -> Json:
        """Log probabilities of tokens whose text starts ``offset`` characters into the answer."""
        ...


@dataclass(slots=True)
class Answer:
    """Writes the answer to one request."""

    request: GenerationRequest
    presentation: Presentation
    shape: Shape
    model: str
    plan: Mapping[str, object]
    tokenizer: Tokenizer
    created: int = field(default_factory=lambda: int(time.time()))
    _offsets: dict[int, int] = field(default_factory=dict[int, int])
    _num_generated: int = 0

    @classmethod
    def to(
        cls,
        request: GenerationRequest,
        presentation: Presentation,
        shape: Shape,
        host: Engine,
    ) -> Answer:
        """The writer for one request to ``host``."""
        return cls(
            request, presentation, shape, host.model.name, host.plan.to_json(), host.tokenizer
        )

    def opening(self) -> list[Json]:
        """Chunks that come before any text."""
        choices = map(self.shape.opening, range(self.request.config.num_return_sequences))
        return [self._chunk(choice) for choice in choices if choice is not None]

    def step(self, event: StepEvent) -> list[Json]:
        """The chunk of one step; none when there is nothing in it that the client asked for."""
        logprobs = self._logprobs(event.choice, TokenTexts(event.emitted, event.token_texts))
        asked = self.presentation
        if not (event.text or asked.include_steps or (logprobs and event.emitted)):
            return []
        chunk = self._chunk(self.shape.piece(event.choice, event.text, logprobs, None))
        if asked.include_steps:
            chunk["paceline"] = {"step": event.to_json()}
        return [chunk]

    def finished(self, event: FinishedEvent) -> list[Json]:
        """The last chunks of one choice: text that was held back, then the reason of its end."""
        self._num_generated += event.metrics.num_generated_tokens
        piece = self.shape.piece
        chunks = [self._chunk(piece(event.choice, event.tail, None, None))] if event.tail else []
        last = self._chunk(piece(event.choice, "", None, event.finish_reason.value))
        if self.presentation.include_steps:
            last["paceline"] = {
                "metrics": event.metrics.to_json(),
                "plan": self.plan,
                "notes": list(event.notes),
            }
        return [*chunks, last]

    def closing(self) -> list[Json]:
        """The chunk after all choices: usage without a choice, if it was asked for."""
        if not self.presentation.include_usage:
            return []
        return [self._chunk(None) | {"usage": self._usage()}]

    def whole(self, events: Sequence[FinishedEvent]) -> Json:
        """The answer as one object; ``events`` has one for each choice."""
        choices: list[Json] = []
        for event in sorted(events, key=lambda each: each.choice):
            self._num_generated += event.metrics.num_generated_tokens
            logprobs = self._logprobs(event.choice, TokenTexts(event.tokens, event.token_texts))
            choices.append(
                self.shape.whole(event.choice, event.text, logprobs, event.finish_reason.value)
            )
        return self._head(self.shape.whole_object) | {"choices": choices, "usage": self._usage()}

    def _head(self, kind: str) -> Json:
        return {
            "id": self.request.request_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
        }

    def _chunk(self, choice: Json | None) -> Json:
        chunk = self._head(self.shape.chunk_object)
        chunk["choices"] = [] if choice is None else [choice]
        if self.presentation.include_usage:
            chunk["usage"] = None
        return chunk

    def _usage(self) -> Json:
        num_prompt = len(self.request.prompt_ids)
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": self._num_generated,
            "total_tokens": num_prompt + self._num_generated,
        }

    def _logprobs(self, choice: int, tokens: TokenTexts) -> Json | None:
        if not self.presentation.logprobs:
            return None
        offset = self._offsets.get(choice, 0)
        self._offsets[choice] = offset + sum(map(len, tokens.texts))
        return self.shape.logprobs(self.tokenizer, tokens, offset)


class ChatShape:
    """``chat.completion`` and its chunks."""

    chunk_object = "chat.completion.chunk"
    whole_object = "chat.completion"

    def opening(self, index: int) -> Json | None:
        """Names the role, as OpenAI's first chunk does."""
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def piece(self, index: int, text: str, logprobs: Json | None, finish: str | None) -> Json:
        """A delta; empty beside a finish reason."""
        delta = {"content": text} if text or finish is None else {}
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}

    def whole(self, index: int, text: str, logprobs: Json | None, finish: str) -> Json:
        """A message of the assistant."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish}

    def logprobs(self, tokenizer: Tokenizer, tokens: TokenTexts, offset: int) -> Json:
        """``content[]`` with token, logprob, bytes and top_logprobs."""
        return tokens.chat(tokenizer)


class TextShape:
    """``text_completion``, whose chunks have the same name."""

    chunk_object = "text_completion"
    whole_object = "text_completion"

    def opening(self, index: int) -> Json | None:
        """Completions begin with their text."""
        return None

    def piece(self, index: int, text: str, logprobs: Json | None, finish: str | None) -> Json:
        """Text, under the same names as in a whole answer."""
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def whole(self, index: int, text: str, logprobs: Json | None, finish: str) -> Json:
        """The whole text."""
        return self.piece(index, text, logprobs, finish)

    def logprobs(self, tokenizer: Tokenizer, tokens: TokenTexts, offset: int) -> Json:
        """Parallel lists: tokens, token_logprobs, top_logprobs, text_offset."""
        return tokens.completion(tokenizer, offset)
