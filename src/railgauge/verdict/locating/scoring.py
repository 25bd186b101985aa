"""How much a result speaks for a fault: log-likelihood ratios, and the bar for an accusation.

A result stands `z` spreads below its peers. Its weight is ln g(z)/f(z), in nats:

- f, of a healthy part: Student's t with few degrees of freedom, fitted to the tail of the
  condition's own values (K. Lange, R. Little, J. Taylor: Robust Statistical Modeling Using the t
  Distribution, JASA 84, 1989), after a loss of 2 % is forgiven, the smallest change that matters
  (as in treat: D. McCarthy, G. Smyth, Bioinformatics 25, 2009). Beside it one result in 10^5 is bad
  by itself, which bounds what a single result can say.
- g, of a faulty one: the same noise below a loss that is uniform in its logarithm, from the least
  that is looked for to a hundredth of the peers' rate. It does not depend on the result, so that
  the product of ratios is a martingale under f.

A part's score is the sum of its results' weights, for a fault that is always there, or that is
there a fifth of the time, or for one of which only is said that 85 % of its results are low (which
a small loss shows soonest): the largest of the three, each less the logarithm of its share in their
mixture (a half, a quarter, a quarter). By Ville's inequality (J. Ville 1939; A. Ramdas,
P. Grunwald, V. Vovk, G. Shafer: Game-Theoretic Statistics and Safe Anytime-Valid Inference,
Statistical Science 38, 2023) a healthy part's ratio ever exceeds 1/a with probability of at most a,
however many rounds there are, and whoever chose them. Over n parts the bar is therefore ln(n/a).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

#: The chance that a campaign accuses any healthy part, by the model.
FALSE_ACCUSATION = 1e-3

#: The chance that a healthy campaign lists an unconfirmed pair on one result, by the model.
FALSE_MENTION = 1e-2

#: The least loss that is looked for, and the most that is forgiven, shares of the peers' rate.
LEAST_LOSS = 0.03
FORGIVEN = 0.02

#: A healthy place fails, or is slow by itself, once in so many results (1 / 10^5); no result
#: weighs more than the logarithm of it.
TRANSIENT = 1e-5
MOST = -math.log(TRANSIENT)

#: A fault that is always there lets a result pass once in a hundred.
LEAST = math.log(0.01)

#: How often a fault that comes and goes is there.
SHARE_OF_TIME = 0.2

#: How often a part with a small loss is low.
SHARE_OF_LOW = 0.85

#: The weight of a result that is not low for such a part.
NOT_LOW = math.log(1 - SHARE_OF_LOW)

#: A result is low from so many spreads below its peers on, and good nearer than so many.
LOW = 4.0
GOOD = 2.5

#: Degrees of freedom, and the 1 % quantile of |z| from which on they are taken, z in units of the
#: scaled median absolute deviation: 4.0 at 3 degrees, 2.95 at 6, 2.33 of a normal distribution.
#: Fewer values than `_FIT` do not show a tail: the heaviest is assumed.
_DEGREES = ((3.0, 3), (2.6, 6), (0.0, 30))
_FIT = 100

_STEPS = 20  # of a table, per spread
_LARGEST = 480.0


def came_and_went(weight: float) -> float:
    """The weight of a result for a fault that is there a fifth of the time."""
    return math.log(1 - SHARE_OF_TIME + SHARE_OF_TIME * math.exp(weight))


def bar(parts: int, chance: float = FALSE_ACCUSATION) -> float:
    """The least score of an accusation among so many parts (module docstring)."""
    return math.log(max(parts, 1) / chance)


def mixture(always: float, at_times: float, often: float) -> float:
    """The score of a part, from the sums of its three kinds of weights."""
    return max(always, at_times - math.log(2), often - math.log(2)) - math.log(2)


@lru_cache(maxsize=256)
def often_low(hundredths_percent: int, degrees: int) -> float:
    """The weight of a result for being low at all: how often a part with a small loss is low, over
    how often a healthy part is that is slower by the forgiven loss.
    """
    first = max(0.0, LOW - FORGIVEN / (hundredths_percent / 10_000))
    width, steps = 80.0, 4000
    middles = (first + width * (k + 0.5) / steps for k in range(steps))
    healthy = sum(density(z, degrees) for z in middles) * width / steps
    healthy += tail(first + width, degrees)
    return min(MOST, math.log(SHARE_OF_LOW / healthy))


def density(z: float, degrees: int) -> float:
    """Student's t, of unit scale."""
    constant = math.gamma((degrees + 1) / 2) / (
        math.sqrt(degrees * math.pi) * math.gamma(degrees / 2)
    )
    return float(constant * (1 + z * z / degrees) ** (-(degrees + 1) / 2))


def tail(z: float, degrees: int) -> float:
    """The chance of a healthy result `z` or more spreads below its peers, from above.

    For z > 0 the tail of t is at most (1 + z^2/v) * v / ((v - 1) z) * f(z), as its density falls
    off faster than that bound's derivative.
    """
    if z <= 1:
        return 0.5
    bound = (1 + z * z / degrees) * degrees / ((degrees - 1) * z) * density(z, degrees)
    return min(0.5, bound) + TRANSIENT


class Weights(NamedTuple):
    """Weights by z, in twentieths of a spread: [0] is z <= 0."""

    always: Sequence[float]
    at_times: Sequence[float]

    @staticmethod
    def place(z: float) -> int:
        """The entry of these tables for a z."""
        return 0 if z <= 0 else int(min(z, _LARGEST) * _STEPS)


@lru_cache(maxsize=32)
def weights(hundredths_percent: int, degrees: int) -> Weights:
    """The tables for a spread in 1/10,000 of the rate, and degrees of freedom of the noise."""
    spread = hundredths_percent / 10_000
    forgiven = FORGIVEN / spread
    least = max(LEAST_LOSS / spread, 3.0)
    most = max(math.log(100) / spread, 2 * least)
    losses = [least * (most / least) ** ((k + 0.5) / 240) for k in range(240)]
    # Between two losses of the sum lies more than the noise's own width at large z.
    steps = math.log(most / least)
    always: list[float] = []
    for place in range(int(_LARGEST * _STEPS) + 1):
        z = place / _STEPS
        if z > least + 12:
            faulty = 1 / (z * steps)
        elif place % 4 and always:
            always.append(always[-1])
            continue
        else:
            faulty = sum(density(z - loss, degrees) for loss in losses) / len(losses)
        healthy = density(max(0.0, z - forgiven), degrees)
        ratio = faulty / ((1 - TRANSIENT) * healthy + TRANSIENT * faulty)
        always.append(max(LEAST, math.log(ratio)))
    return Weights(tuple(always), tuple(map(came_and_went, always)))


def degrees_of_freedom(deviations: Sequence[float], spread: float) -> int:
    """How heavy the tails are, by the farther side at 1 %, with up to two standard errors on top of
    the better side, which has no faults.

    `deviations` are those from the centre, sorted. Faulty parts among them make the tail heavier,
    which is the safe side.
    """
    count = len(deviations)
    if count < _FIT:
        return _DEGREES[0][1]
    rank = int(0.01 * count)
    safe = max(int(rank >= 3), int(rank - 2 * math.sqrt(rank)))
    farthest = max(-deviations[rank], deviations[-1 - safe]) / spread
    return next(degrees for least, degrees in _DEGREES if farthest >= least)
