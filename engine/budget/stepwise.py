"""The draft length that adapts from step to step, as OpenVINO GenAI documents it for its stateful
pipeline: two more after a draft that was accepted as a whole, else one less.

It knows no cost and no evidence; where the budget decides, it is not asked. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_MORE = 2
_FEWER = 1
_SHORTEST = 1
_LONGEST_FACTOR = 2


@dataclass(frozen=True, slots=True)
class StepwiseLength:
    """Draft ``length`` tokens in the next step, and never more than ``longest``."""

    length: int
    longest: int

    @staticmethod
    def starting_at(length: int) -> StepwiseLength:
        """The first step; ``length`` > 0 is ``num_assistant_tokens``."""
        assert length > 0
        return StepwiseLength(length, _LONGEST_FACTOR * length)

    def after(self, num_accepted: int) -> StepwiseLength:
        """The next step, when this one has accepted ``num_accepted`` draft tokens.

        A draft that was cut short, where the answer nears its end, counts as not accepted.
        """
        if num_accepted >= self.length:
            return replace(self, length=min(self.length + _MORE, self.longest))
        return replace(self, length=max(self.length - _FEWER, _SHORTEST))
