"""Log probabilities of emitted tokens, in the two forms that OpenAI has for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imports OpenVINO, for which the first answer should not wait
    from engine.tokens import Tokenizer
    from engine.values import EmittedToken, TokenScore


LOWEST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON cannot hold; OpenAI uses the same number."""


@dataclass(frozen=True, slots=True)
class TokenTexts:
    """Emitted tokens, and the part of the answer's text that each brought.

    The latter is empty for a token that is not shown or only begins a character; a token's own name
    is another thing, and comes from the tokenizer.
    """

    tokens: Sequence[EmittedToken]
    texts: Sequence[str]

    def chat(self, tokenizer: Tokenizer) -> dict[str, object]:
        """``{"content": [{token, logprob, bytes, top_logprobs}, ...], "refusal": null}``."""
        content = [
            _entry(tokenizer, token.token, score.logprob)
            | {"top_logprobs": [_entry(tokenizer, other, logprob) for other, logprob in score.top]}
            for token, score in self._scored()
        ]
        return {"content": content, "refusal": None}

    def completion(self, tokenizer: Tokenizer, offset: int) -> dict[str, object]:
        """Parallel lists with one entry a token; ``text_offset`` counts characters of the answer.

        ``top_logprobs`` always has the emitted token beside the most likely ones, as OpenAI's has.
        """
        offsets: list[int] = []
        for text in self.texts:
            offsets.append(offset)
            offset += len(text)
        name = tokenizer.token_text
        return {
            "tokens": [name(token.token) for token in self.tokens],
            "token_logprobs": [_finite(score.logprob) for _, score in self._scored()],
            "top_logprobs": [
                {name(other): _finite(logprob) for other, logprob in score.top}
                | {name(token.token): _finite(score.logprob)}
                for token, score in self._scored()
            ],
            "text_offset": offsets,
        }

    def _scored(self) -> Iterator[tuple[EmittedToken, TokenScore]]:
        for token in self.tokens:
            assert token.score is not None, "a backend that tells no scores is never asked for them"
            yield token, token.score


def _entry(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, object]:
    """``bytes`` are exact also for a token that holds a part of a character."""
    return {
        "token": tokenizer.token_text(token),
        "logprob": _finite(logprob),
        "bytes": list(tokenizer.token_bytes(token)),
    }


def _finite(logprob: float) -> float:
    return logprob if logprob > LOWEST_LOGPROB else LOWEST_LOGPROB
