"""May this request be answered by OpenVINO GenAI, and how. Safe from any thread.

What GenAI cannot honour is refused by name: nothing that was asked for is dropped in silence.
"""

from __future__ import annotations

from dataclasses import dataclass

import openvino_genai as genai

from engine.config import GenerationConfig, Speculation
from engine.draft_mode import STATIC_LENGTH, refuse_options_of_others
from engine.drafters import AUTO, NO_DRAFTER
from engine.errors import EmptyPromptError, InvalidOptionError, UnsupportedOptionError
from engine.events import GenerationRequest
from engine.plan import Plan
from engine.reference.pipeline import DrafterKind

LOOKUP_NGRAM = 3
"""GenAI's longest match of prompt lookup where none is given."""

_HONOURED = {
    DrafterKind.NONE: frozenset[str](),
    DrafterKind.PROMPT_LOOKUP: frozenset({"max_ngram_size"}),
    DrafterKind.MODEL: frozenset({"assistant_confidence_threshold"}),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """How a request is answered. ``max_new_tokens`` None: until a stop, or until the cache is full.

    ``length`` is the number of draft tokens of each step: 0 without a drafter, None where a draft
    model decides by its confidence.
    """

    max_new_tokens: int | None
    length: int | None
    max_ngram_size: int | None = None

    def peer_config(self, config: GenerationConfig, choice: int) -> genai.GenerationConfig:
        """Our settings under GenAI's names, for one of the request's choices.

        Left out is what is done by us, the same for every backend: stop strings, the echo of the
        prompt, and several answers, which are several calls with seeds that follow each other.
        """
        peer = genai.GenerationConfig()
        peer.apply_chat_template = False  # the prompt is in tokens
        if self.max_new_tokens is not None:
            peer.max_new_tokens = self.max_new_tokens
        peer.min_new_tokens = config.min_new_tokens
        peer.ignore_eos = config.ignore_eos
        if not config.ignore_eos:
            peer.stop_token_ids = set(config.stop_token_ids)
            if config.eos_token_id is not None:
                peer.eos_token_id = config.eos_token_id
        peer.repetition_penalty = config.repetition_penalty
        peer.presence_penalty = config.presence_penalty
        peer.frequency_penalty = config.frequency_penalty
        if config.do_sample:
            peer.do_sample = True
            peer.temperature = config.temperature
            peer.top_k = config.top_k or peer.top_k
            peer.top_p = config.top_p
            peer.min_p = config.min_p
            peer.rng_seed = (config.rng_seed + choice) % 2**64
        if self.length is None:
            peer.assistant_confidence_threshold = config.assistant_confidence_threshold
        elif self.length:
            peer.num_assistant_tokens = self.length
        if self.max_ngram_size is not None:
            peer.max_ngram_size = self.max_ngram_size
        return peer


@dataclass(frozen=True, slots=True)
class Conditions:
    """What requests are measured against. ``context_length`` None: the folder does not say."""

    plan: Plan
    drafter: DrafterKind
    context_length: int | None
    vocab_size: int

    def terms(self, request: GenerationRequest) -> Terms:
        """Accept the request.

        Raises:
            EmptyPromptError, ContextLengthError: there is no prompt, or it does not fit.
            InvalidOptionError: drafting options that contradict each other.
            UnsupportedOptionError: an option that GenAI, or its drafter, cannot honour.
        """
        if not request.prompt_ids:
            raise EmptyPromptError("The prompt is empty: give it some text.", param="prompt")
        config = request.config
        config.require_known_ends(self.vocab_size)
        self._refuse_untold(config)
        if request.sampled_rule is not None and config.do_sample:
            raise self._unsupported("sampled_rule", "OpenVINO GenAI draws by a rule of its own")
        self._check_drafting(request)
        return Terms(
            max_new_tokens=self._limit(request),
            length=self._length(config),
            max_ngram_size=(config.max_ngram_size or LOOKUP_NGRAM)
            if self.drafter is DrafterKind.PROMPT_LOOKUP
            else None,
        )

    def _limit(self, request: GenerationRequest) -> int | None:
        config, prompt_len = request.config, len(request.prompt_ids)
        if self.context_length is not None:
            return config.limit_new_tokens(prompt_len, self.context_length)
        if config.max_new_tokens is None and config.max_length is None:
            return None
        asked = config.max_new_tokens or config.max_length or 1
        return config.limit_new_tokens(prompt_len, prompt_len + asked)

    def _length(self, config: GenerationConfig) -> int | None:
        if self.drafter is DrafterKind.NONE:
            return 0
        if config.assistant_confidence_threshold:
            return None
        return config.num_assistant_tokens or STATIC_LENGTH

    def _refuse_untold(self, config: GenerationConfig) -> None:
        if config.logprobs:
            raise self._unsupported("logprobs", "its streamer hands over tokens alone")
        if config.structure is not None:
            raise self._unsupported(config.structure, "only our own backends have it")

    def _check_drafting(self, request: GenerationRequest) -> None:
        config, own = request.config, self.plan.drafter
        if request.drafter not in (None, AUTO, own):
            raise self._unsupported("drafter", f"it was started with '{own}'")
        refuse_options_of_others(config, [_HONOURED[self.drafter]])
        if self.drafter is DrafterKind.NONE:
            if config.num_assistant_tokens:
                raise InvalidOptionError(
                    f"'num_assistant_tokens' is {config.num_assistant_tokens}, which contradicts "
                    f"drafter '{NO_DRAFTER}': leave it out.",
                    param="num_assistant_tokens",
                )
            if request.speculation not in (None, Speculation.OFF):
                raise self._unsupported("speculation", "it was started without a drafter")
            return
        if request.speculation is Speculation.ADAPTIVE:
            raise self._unsupported("speculation", "it drafts the same number at every step")
        is_off = request.speculation is Speculation.OFF
        if is_off or config.num_assistant_tokens == 0:
            raise self._unsupported(
                "speculation" if is_off else "num_assistant_tokens",
                "it was started with a drafter and drafts at every step",
            )

    def _unsupported(self, name: str, reason: str) -> UnsupportedOptionError:
        return UnsupportedOptionError(
            f"Backend '{self.plan.backend.value}' cannot honour '{name}' ({reason}): leave it "
            "unset, or start with backend paged or stateful.",
            param=name,
        )
