"""How one request is to be answered, with the names, defaults and rules of OpenVINO GenAI.

The rules follow ``GenerationConfig::validate`` in OpenVINO GenAI 2026.4. Three things differ. What
GenAI writes as a special number (-1, ``SIZE_MAX``, 0) is None here. Where GenAI lets a setting pass
that then has no effect, it is refused here. And several answers may draft a fixed length. What
depends on the chosen drafter is a second check, `engine.draft_mode`; GenAI's fields that nothing
here can honour are listed in `engine.config.resolve`.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.config.options import Option, OptionKind, check, must_be, option, options
from engine.errors import ContextLengthError, InvalidOptionError, UnsupportedOptionError

MAX_ASSISTANT_TOKENS = 100
MAX_LOGPROBS = 20
MAX_NGRAM_SIZE = 32
"""Each size has an index of its own; a longer match tells no more."""

_STRUCTURES = ("json_schema", "regex", "choice", "grammar")

_INTEGER, _NUMBER, _SWITCH = OptionKind.INTEGER, OptionKind.NUMBER, OptionKind.SWITCH


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """The settings of one request. Nothing is checked on construction; call `validate`."""

    max_new_tokens: int | None = option(
        None,
        Option(
            _INTEGER,
            "Most tokens to generate; unset means up to the end of the context.",
            optional=True,
            at_least=0,
        ),
    )
    max_length: int | None = option(
        None,
        Option(
            _INTEGER,
            "Most tokens of prompt and answer together; max_new_tokens goes before it.",
            optional=True,
            at_least=1,
        ),
    )
    min_new_tokens: int = option(
        0, Option(_INTEGER, "Tokens to generate before a stop token may come.", at_least=0)
    )
    ignore_eos: bool = option(False, Option(_SWITCH, "Go on past the end-of-sequence token."))
    eos_token_id: int | None = option(
        None,
        Option(
            _INTEGER,
            "Id of the end-of-sequence token; unset means the model's own.",
            optional=True,
            at_least=0,
        ),
    )
    stop_token_ids: frozenset[int] = option(
        frozenset[int](), Option(OptionKind.TOKEN_IDS, "Token ids that end the answer.")
    )
    stop_strings: tuple[str, ...] = option(
        (), Option(OptionKind.TEXTS, "Strings that end the answer wherever they appear in it.")
    )
    include_stop_str_in_output: bool = option(
        False, Option(_SWITCH, "Keep the stop string that ended the answer.")
    )
    echo: bool = option(False, Option(_SWITCH, "Put the prompt before the answer."))
    logprobs: int = option(
        0,
        Option(
            _INTEGER,
            "How many of the most likely tokens to report at each position.",
            at_least=0,
            at_most=MAX_LOGPROBS,
        ),
    )
    do_sample: bool = option(
        False, Option(_SWITCH, "Draw tokens at random instead of taking the most likely.")
    )
    temperature: float = option(
        1.0,
        Option(
            _NUMBER,
            "Below 1 sharpens the distribution, above 1 flattens it; 0 means greedy.",
            at_least=0,
        ),
    )
    top_k: int | None = option(
        None,
        Option(
            _INTEGER,
            "Draw from this many most likely tokens; 0 or unset means all.",
            optional=True,
            at_least=0,
        ),
    )
    top_p: float = option(
        1.0,
        Option(
            _NUMBER,
            "Draw from the fewest tokens whose probabilities add up to this.",
            at_least=0,
            at_most=1,
        ),
    )
    min_p: float = option(
        0.0,
        Option(
            _NUMBER,
            "Leave out tokens less likely than this share of the most likely one.",
            at_least=0,
            below=1,
        ),
    )
    repetition_penalty: float = option(
        1.0,
        Option(_NUMBER, "Above 1 makes tokens of prompt and answer less likely again.", above=0),
    )
    presence_penalty: float = option(
        0.0,
        Option(
            _NUMBER,
            "Subtracted from the score of every token that was generated before.",
            at_least=-2,
            at_most=2,
        ),
    )
    frequency_penalty: float = option(
        0.0,
        Option(
            _NUMBER,
            "Subtracted from a token's score once for each time it was generated.",
            at_least=-2,
            at_most=2,
        ),
    )
    rng_seed: int = option(
        0,
        Option(
            _INTEGER,
            "Seed of random draws: the same seed gives the same answer (under sampled rule "
            "'rejection', if the drafts are the same).",
            at_least=0,
            at_most=2**64 - 1,
        ),
    )
    num_return_sequences: int = option(
        1,
        Option(_INTEGER, "How many answers to generate; more than one needs sampling.", at_least=1),
    )
    num_assistant_tokens: int | None = option(
        None,
        Option(
            _INTEGER,
            "Draft tokens per step; 0 means the model alone, unset lets the engine choose.",
            optional=True,
            at_least=0,
            at_most=MAX_ASSISTANT_TOKENS,
        ),
    )
    assistant_confidence_threshold: float = option(
        0.0,
        Option(
            _NUMBER,
            "A draft model stops drafting at a token less likely than this; 0 means off.",
            at_least=0,
            at_most=1,
        ),
    )
    max_ngram_size: int | None = option(
        None,
        Option(
            _INTEGER,
            "Longest run of tokens that prompt lookup tries to match; unset (or 0) means 3.",
            optional=True,
            at_least=1,
            at_most=MAX_NGRAM_SIZE,
        ),
    )
    branching_factor: int = option(
        1, Option(_INTEGER, "Candidates kept at each layer of a draft tree.", at_least=1)
    )
    tree_depth: int = option(
        0, Option(_INTEGER, "Layers of a draft tree; 0 means a chain.", at_least=0)
    )
    num_beams: int = option(
        1, Option(_INTEGER, "Only 1: beam search is not supported.", at_least=1)
    )
    apply_chat_template: bool = option(
        True, Option(_SWITCH, "Wrap the prompt in the model's chat template.")
    )
    json_schema: str | None = option(
        None,
        Option(OptionKind.SCHEMA, "The answer is JSON that this schema allows.", optional=True),
    )
    regex: str | None = option(
        None,
        Option(
            OptionKind.TEXT, "The answer as a whole matches this regular expression.", optional=True
        ),
    )
    choice: tuple[str, ...] = option(
        (), Option(OptionKind.TEXTS, "The answer is one of these strings.")
    )
    grammar: str | None = option(
        None,
        Option(OptionKind.TEXT, "The answer has this grammar (Lark, or GBNF).", optional=True),
    )

    @property
    def end_token_ids(self) -> frozenset[int]:
        """All tokens that end the answer."""
        eos = () if self.eos_token_id is None else (self.eos_token_id,)
        return self.stop_token_ids.union(eos)

    @property
    def structure(self) -> str | None:
        """The field that says what structure the answer must have; None where none does."""
        return next((name for name in _STRUCTURES if getattr(self, name)), None)

    def validate(self) -> None:
        """Check every field on its own, then the fields against each other.

        Raises:
            InvalidOptionError: a value has the wrong type, is out of bounds or contradicts another.
            UnsupportedOptionError: beam search.
        """
        for name, description in options(GenerationConfig).items():
            check(name, getattr(self, name), description)
        if self.num_beams != 1:
            raise UnsupportedOptionError(
                f"'num_beams' is {self.num_beams}, but beam search is not supported: set it to 1.",
                param="num_beams",
            )
        self._check_stops()
        self._check_lengths()
        self._check_sampling()
        self._check_assistant()
        self._check_tree()
        self._check_structure()

    def require_known_ends(self, vocab_size: int) -> None:
        """Refuse tokens that end the answer and that the model does not have.

        Raises:
            InvalidOptionError: naming the first one.
        """
        unknown = [token for token in sorted(self.end_token_ids) if token >= vocab_size]
        if unknown:
            name = "eos_token_id" if unknown[0] == self.eos_token_id else "stop_token_ids"
            raise InvalidOptionError(
                f"'{name}' has token id {unknown[0]}, but the ids of this model go from 0 to "
                f"{vocab_size - 1}.",
                param=name,
            )

    def limit_new_tokens(self, prompt_len: int, context_len: int) -> int:
        """Most tokens this request may generate after a prompt of ``prompt_len`` tokens.

        ``max_new_tokens`` goes before ``max_length``, as in OpenVINO GenAI; neither set means the
        rest of the context, and no limit reaches beyond it. Returns at least 1, or 0 for an
        explicit ``max_new_tokens`` of 0.

        Raises:
            ContextLengthError: the prompt leaves no room in the context.
            InvalidOptionError: ``max_length`` is not larger than the prompt.
        """
        room = context_len - prompt_len
        if room <= 0:
            raise ContextLengthError(
                f"The prompt has {prompt_len} tokens, but the context holds {context_len} with at "
                "least one for the answer: shorten the prompt.",
                param="prompt",
            )
        if self.max_new_tokens is not None:
            return min(self.max_new_tokens, room)
        if self.max_length is None:
            return room
        if self.max_length <= prompt_len:
            raise must_be(
                "max_length", f"larger than the prompt ({prompt_len} tokens)", self.max_length
            )
        return min(self.max_length - prompt_len, room)

    def _check_stops(self) -> None:
        bounded = self.max_new_tokens is not None or self.max_length is not None
        if self.eos_token_id is not None and self.eos_token_id not in self.stop_token_ids:
            raise _contradiction(
                "stop_token_ids", f"must contain 'eos_token_id' ({self.eos_token_id})"
            )
        if self.ignore_eos and not bounded:
            raise _contradiction("ignore_eos", "needs 'max_new_tokens' or 'max_length' to be set")
        stops = self.eos_token_id is not None or self.stop_token_ids or self.stop_strings
        if not stops and not bounded:
            raise _contradiction(
                "max_new_tokens",
                "must be set where the model names no end-of-sequence token and there is no "
                "'max_length', 'stop_token_ids' or 'stop_strings' either",
            )

    def _check_lengths(self) -> None:
        if self.max_new_tokens == 0 and not self.echo:
            raise _contradiction("max_new_tokens", "must be at least 1 unless 'echo' is set")
        if self.max_new_tokens is not None and self.min_new_tokens > self.max_new_tokens:
            raise _contradiction(
                "min_new_tokens",
                f"({self.min_new_tokens}) must not be larger than 'max_new_tokens' "
                f"({self.max_new_tokens})",
            )

    def _check_sampling(self) -> None:
        if self.num_return_sequences > 1 and not self.do_sample:
            raise _contradiction(
                "num_return_sequences",
                "can be more than 1 only with 'do_sample': greedy answers would all be the same",
            )
        if not self.do_sample:
            return
        for name in ("temperature", "top_p"):
            if not getattr(self, name) > 0:
                raise _contradiction(name, "must be greater than 0 when 'do_sample' is true")

    def _check_assistant(self) -> None:
        drafts = bool(self.num_assistant_tokens)
        threshold = self.assistant_confidence_threshold > 0
        if drafts and threshold:
            raise _contradiction(
                "assistant_confidence_threshold",
                "and 'num_assistant_tokens' exclude each other: set one of them",
            )
        if self.num_assistant_tokens == 0 and self.max_ngram_size is not None:
            raise _contradiction(
                "max_ngram_size", "must stay unset when 'num_assistant_tokens' is 0 (no drafts)"
            )

    def _check_tree(self) -> None:
        if not self.tree_depth:
            if self.branching_factor > 1:
                raise _contradiction("branching_factor", "needs 'tree_depth' of at least 1")
            return
        if self.do_sample:
            raise _contradiction(
                "tree_depth", "excludes 'do_sample': set one of them to its default"
            )
        drafts = self.num_assistant_tokens
        if drafts is None or drafts < self.tree_depth:
            raise _contradiction(
                "num_assistant_tokens",
                f"must be set to at least 'tree_depth' ({self.tree_depth}), or leave that one out",
            )
        nodes = self.branching_factor**2 * (self.tree_depth - 1) + self.branching_factor
        if drafts > nodes:
            raise _contradiction(
                "num_assistant_tokens",
                f"({drafts}) must be at most the {nodes} nodes of the tree "
                "(branching_factor^2 * (tree_depth - 1) + branching_factor)",
            )

    def _check_structure(self) -> None:
        given = [name for name in _STRUCTURES if getattr(self, name)]
        if len(given) > 1:
            raise _contradiction(given[0], f"and '{given[1]}' exclude each other: set one of them")
        if given and self.ignore_eos:
            raise _contradiction(
                given[0], "excludes 'ignore_eos': its end is for the structure to say"
            )


def _contradiction(name: str, sentence: str) -> InvalidOptionError:
    return InvalidOptionError(f"'{name}' {sentence}.", param=name)
