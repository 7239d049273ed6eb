"""From a row of scores and a request to the target's distribution, and the token drawn from it.

The order is OpenVINO GenAI's: what the answer's structure forbids (`constraint`) and, below
``min_new_tokens``, end tokens get no probability at all, then repetition,
presence and frequency penalty, top-k, temperature, min-p, top-p (`state` has what comes before the
filters, `distribution` the filters and the draw, `decide` puts them together for the rows of a
slice). Every decision is a pure function of the row, the request, and the tokens before the row:
those committed and the drafted ones on the path to it.

**Why looking at the K largest scores is enough, exactly.** A `Ranking` lists the leading tokens of
a row and knows how many of them are certain to lead the whole row too. A filter keeps the leading
tokens up to some point; where that point lies among the certain ones, no other token survives it.
Where a filter might reach further, the whole row is ranked, longer and longer pieces of it, and
the same code runs on those. Without a filter, the tokens beyond the ranking count as one group:
the largest of ``log w_i + Gumbel_i`` over a group is distributed as ``log(sum of w) + Gumbel``,
and which token attains it is independent of how large it is (max-stability; Maddison, Tarlow and
Minka, "A* sampling", 2014). So the group enters the draw with its total weight and noise of its
own; if it wins, a second draw, with the noise of its tokens, says which of them it was (itself in
two stages, blocks of tokens first). The total comes from the log-sum-exp over the vocabulary that
the graph computed.
"""

from engine.sampling.constraint import AllowedTokens, Constraint
from engine.sampling.decide import TokenDecider
from engine.sampling.distribution import Distribution
from engine.sampling.state import SamplingState, inverse_temperature

__all__ = [
    "AllowedTokens",
    "Constraint",
    "Distribution",
    "SamplingState",
    "TokenDecider",
    "inverse_temperature",
]
