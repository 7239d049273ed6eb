"""May this request be answered, and how: everything that can be known before the first step.

Turns a `GenerationRequest` into one `Choice` for each answer it asked for, or refuses it with a
sentence. Asks nothing of the model; safe from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.backends.base import Cache
from engine.config import SampledRule, Speculation
from engine.drafters import NO_DRAFTER, create_drafter, split_drafters
from engine.drafting import MakeDrafter
from engine.errors import (
    CacheTooSmallError,
    EmptyPromptError,
    InvalidOptionError,
    UnsupportedOptionError,
)
from engine.events import GenerationRequest
from engine.plan import AUTO, Plan
from engine.sequence import Choice, DraftMode
from engine.tokens import TextStream, Tokenizer

STATIC_LENGTH = 5
"""Draft tokens a step with static speculation and no length given, as in OpenVINO GenAI."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What requests are measured against. ``context_length`` None: only the cache limits them."""

    plan: Plan
    tokenizer: Tokenizer
    cache: Cache
    vocab_size: int
    context_length: int | None
    make_drafter: MakeDrafter = create_drafter

    def choices(self, request: GenerationRequest) -> list[Choice]:
        """One choice for each of the request's answers.

        Raises:
            EmptyPromptError, ContextLengthError, CacheTooSmallError: prompt and limits do not fit.
            UnknownDrafterError, InvalidOptionError, UnsupportedOptionError: drafting options that
                do not fit each other or the drafter.
        """
        config = request.config
        if not request.prompt_ids:
            raise EmptyPromptError("The prompt is empty: give it some text.", param="prompt")
        max_new_tokens = self._limit(request)
        mode = self._draft_mode(request)
        echo = self.tokenizer.decode(request.prompt_ids) if config.echo else ""
        return [
            Choice(
                index=index,
                mode=mode,
                max_new_tokens=max_new_tokens,
                vocab_size=self.vocab_size,
                stream=TextStream(
                    self.tokenizer, config.stop_strings, config.include_stop_str_in_output
                ),
                echo=echo,
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

    def _draft_mode(self, request: GenerationRequest) -> DraftMode:
        config = request.config
        spec = self.plan.drafter if request.drafter in (None, AUTO) else request.drafter
        assert spec is not None
        names = split_drafters(spec)
        drafters = [self.make_drafter(name) for name in names]
        length = config.num_assistant_tokens
        speculation = request.speculation or self.plan.speculation
        if speculation is Speculation.OFF and request.speculation is None and length:
            speculation = Speculation.STATIC  # the request's length speaks louder than the engine
        is_off = not drafters or speculation is Speculation.OFF
        if is_off and length:
            is_switched_off = speculation is Speculation.OFF
            what = "speculation off" if is_switched_off else "drafter 'none'"
            raise InvalidOptionError(
                f"'num_assistant_tokens' is {length}, which contradicts {what}: leave one out.",
                param="num_assistant_tokens",
            )
        if config.max_ngram_size is not None and (is_off or "prompt_lookup" not in names):
            raise UnsupportedOptionError(
                "'max_ngram_size' belongs to prompt lookup, which this request does not use: "
                "leave it unset.",
                param="max_ngram_size",
            )
        trees = any(drafter.needs.trees for drafter in drafters)
        config.require_drafter_support(
            spec if not is_off else NO_DRAFTER, trees=trees, confidence_threshold=False
        )
        if is_off or length == 0:
            return DraftMode()
        if length is None and speculation is Speculation.STATIC:
            length = STATIC_LENGTH
        rule = request.sampled_rule or self.plan.sampled_rule
        by_rejection = config.do_sample and rule is SampledRule.REJECTION
        return DraftMode(names, length, by_rejection=by_rejection)
