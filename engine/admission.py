"""May this request be answered, and how: everything that can be known before the first step.

Turns a `GenerationRequest` into one `Choice` for each answer it asked for, or refuses it with a
sentence. Asks nothing of the model; safe from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.backends.base import Cache
from engine.draft_mode import InfoOf, draft_mode
from engine.drafters import drafter_info
from engine.errors import (
    CacheTooSmallError,
    EmptyPromptError,
)
from engine.events import GenerationRequest
from engine.grammar import GrammarCompiler
from engine.plan import Plan
from engine.sequence import Choice
from engine.tokens import TextStream, Tokenizer


@dataclass(frozen=True, slots=True)
class Admission:
    """What requests are measured against. ``context_length`` None: only the cache limits them."""

    plan: Plan
    tokenizer: Tokenizer
    cache: Cache
    vocab_size: int
    context_length: int | None
    info_of: InfoOf = drafter_info
    grammars: GrammarCompiler = field(init=False)

    def __post_init__(self) -> None:
        grammars = GrammarCompiler(self.tokenizer, self.vocab_size)
        object.__setattr__(self, "grammars", grammars)

    def choices(self, request: GenerationRequest) -> list[Choice]:
        """One choice for each of the request's answers.

        Raises:
            EmptyPromptError, ContextLengthError, CacheTooSmallError: prompt and limits do not fit.
            UnknownDrafterError, InvalidOptionError, UnsupportedOptionError: drafting options that
                do not fit each other or the drafter; a structure that cannot be had.
        """
        config = request.config
        if not request.prompt_ids:
            raise EmptyPromptError("The prompt is empty: give it some text.", param="prompt")
        config.require_known_ends(max(self.vocab_size, self.tokenizer.vocab_size))
        max_new_tokens = self._limit(request)
        mode = draft_mode(request, self.plan, self.info_of)
        grammar = self.grammars.compile(config)
        # The text is then the one that the grammar has read, with nothing tidied up afterwards.
        tokenizer = self.tokenizer if grammar is None else self.tokenizer.verbatim()
        echo = self.tokenizer.decode(request.prompt_ids) if config.echo else ""
        return [
            Choice(
                index=index,
                mode=mode,
                max_new_tokens=max_new_tokens,
                vocab_size=self.vocab_size,
                stream=TextStream(
                    tokenizer, config.stop_strings, config.include_stop_str_in_output
                ),
                echo=echo,
                constraint=None if grammar is None else grammar.begin(),
            )
            for index in range(config.num_return_sequences)
        ]

    def _limit(self, request: GenerationRequest) -> int:
        """Most new tokens; refuses what the cache can never hold, however long it waits."""
        config, prompt_len = request.config, len(request.prompt_ids)
        total = self.cache.total_tokens
        context = self.context_length or max(total, prompt_len + 1)
        limit = config.limit_new_tokens(prompt_len, context)
        is_explicit = config.max_new_tokens is not None or config.max_length is not None
        # The last token needs no cache row; an open-ended answer may end early instead.
        needed = prompt_len + (limit - 1 if is_explicit else 0)
        if needed > total:
            raise CacheTooSmallError(
                f"The request needs {needed} rows of the key/value cache, which has {total}: "
                "ask for fewer tokens, or start with a larger cache (cache_size_gib).",
                param="max_new_tokens" if prompt_len <= total else "prompt",
            )
        return limit
