"""How one request drafts: its own wishes over the plan's, resolved once. Pure.

Two things are kept apart: *by whom* (drafters, which "none" switches off for good) and *how much*
(speculation: adaptive, static, or off until somebody turns it on). A wish of the request that
contradicts the other one is refused, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engine.budget import MAX_DRAFT_TOKENS
from engine.config import GenerationConfig, SampledRule, Speculation
from engine.drafters import AUTO, DrafterInfo, drafter_info, owners_of, split_drafters
from engine.errors import InvalidOptionError, UnsupportedOptionError
from engine.events import GenerationRequest
from engine.plan import Plan

STATIC_LENGTH = 5
"""Draft tokens a step with static speculation and no length given, as in OpenVINO GenAI."""

InfoOf = Callable[[str], DrafterInfo]
"""What is known of a drafter by its name; raises `UnknownDrafterError`."""


@dataclass(frozen=True, slots=True)
class DraftMode:
    """How a sequence drafts: by which drafters (none: not at all, for the ``reason`` given), of
    which each step takes the most promising draft, how long where that is fixed (None: the budget
    decides at every step), and whether drafts are verified by rejection, which greedy answers never
    need."""

    drafters: tuple[str, ...] = ()
    fixed_length: int | None = None
    by_rejection: bool = False
    reason: str = ""


def draft_mode(request: GenerationRequest, plan: Plan, info_of: InfoOf) -> DraftMode:
    """Resolve the wishes of ``request``.

    Raises:
        UnknownDrafterError: the request names a drafter that is not here.
        InvalidOptionError: wishes that contradict each other.
        UnsupportedOptionError: an option that belongs to another drafter.
    """
    config = request.config
    names = split_drafters(plan.drafter if request.drafter in (None, AUTO) else request.drafter)
    infos = [info_of(name) for name in names]
    length = config.num_assistant_tokens
    speculation = request.speculation or plan.speculation
    if length and request.speculation is None and speculation is Speculation.OFF:
        speculation = Speculation.STATIC  # the request's length speaks louder than the engine
    _refuse_contradictions(request, names, speculation)
    is_off = not names or speculation is Speculation.OFF
    refuse_options_of_others(config, [] if is_off else [info.options for info in infos])
    if is_off:
        return DraftMode(reason="plain: speculation is off" if names else "plain: no drafter")
    if length == 0:
        return DraftMode(reason="plain: the request asked for no draft tokens")
    if config.assistant_confidence_threshold:
        # The threshold ends a draft by looking at its tokens, so that it is verified as a whole.
        length = MAX_DRAFT_TOKENS
    elif length is None and speculation is Speculation.STATIC:
        length = STATIC_LENGTH
    rule = request.sampled_rule or plan.sampled_rule
    by_rejection = config.do_sample and rule is SampledRule.REJECTION
    return DraftMode(names, length, by_rejection)


def _refuse_contradictions(
    request: GenerationRequest, names: Sequence[str], speculation: Speculation
) -> None:
    length = request.config.num_assistant_tokens
    if length and (not names or speculation is Speculation.OFF):
        what = "speculation off" if names else "drafter 'none'"
        raise InvalidOptionError(
            f"'num_assistant_tokens' is {length}, which contradicts {what}: leave one out.",
            param="num_assistant_tokens",
        )
    if not names and request.speculation not in (None, Speculation.OFF):
        raise InvalidOptionError(
            f"'speculation' is {request.speculation}, which contradicts drafter 'none': leave it "
            "out or name a drafter.",
            param="speculation",
        )


def refuse_options_of_others(config: GenerationConfig, honoured: Iterable[frozenset[str]]) -> None:
    """Refuse a field that is set but that none of the drafters in use honours.

    Raises:
        UnsupportedOptionError: naming the field and who would honour it.
    """
    default = GenerationConfig()
    for name in sorted(DRAFTER_OPTIONS.difference(*honoured)):
        if getattr(config, name) != getattr(default, name):
            owners = [
                "a draft model" if drafter_info(owner).has_model else f"drafter {owner}"
                for owner in owners_of(name)
            ]
            remedy = f"use {' or '.join(owners)}, or leave it unset" if owners else "leave it unset"
            raise UnsupportedOptionError(
                f"'{name}' means nothing to the drafter of this request: {remedy}.", param=name
            )


DRAFTER_OPTIONS = frozenset(
    {"max_ngram_size", "tree_depth", "branching_factor", "assistant_confidence_threshold"}
)
"""Fields of `GenerationConfig` that only some drafters honour (`DrafterInfo.options`)."""
