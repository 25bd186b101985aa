"""The usual value of a condition and its spread, where some of the values may be bad."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

from railgauge.common.spread import NORMAL

#: Among fewer values none can be told from the others.
LEAST_PEERS = 4

#: The least loss that is looked for, a share of the peers' value.
LEAST_LOSS = 0.03

#: A result is low from so many spreads below its peers on, and good nearer than so many.
LOW = 4.0
GOOD = 2.5

#: The spread that is assumed at first, and the number of values that it weighs: few values may have
#: a spread near zero by chance (G. Smyth, Linear Models and Empirical Bayes Methods, 2004, 3.2).
_PRIOR_SPREAD, _PRIOR_VALUES = 0.05, 2

#: With fewer values, two groups must have a gap between them.
MANY = 40

#: How many cuts between two groups are tried, and how many spreads these must be apart.
_CUTS, _LEAST_DISTANCE = 64, 5

#: An end in more than this share of the quiet results is no peer of its own there.
_OWN_SHARE = 0.25

_End = TypeVar("_End", bound=Hashable)


class Peers(NamedTuple):
    """The centre of a condition's healthy values, and their spread as a share of it: the least one
    that is assumed, or more. `shown` is the spread that they show.
    """

    centre: float
    spread: float
    shown: float

    def below(self, spreads: float, tolerated: float = 0.0) -> float:
        """The value that lies so many spreads below the centre, and the least loss at least."""
        return self.centre * math.exp(-max(spreads * self.spread, LEAST_LOSS, tolerated))

    @property
    def beyond_noise(self) -> float:
        """The value below which a result is none of the good ones by the spread that they show."""
        return self.centre * math.exp(-max(GOOD * self.shown, LEAST_LOSS))

    @property
    def most(self) -> float:
        """Values above it belong to another group."""
        return self.centre * math.exp(max(2 * LEAST_LOSS, _LEAST_DISTANCE * self.spread))


def peers(values: Sequence[float], least_spread: float, below: int = 0) -> Peers | None:
    """The peers of positive values; None where there are too few values.

    Of few values, the number that are `below` a reference tells the healthy ones. `least_spread` is
    the least spread of equal places, a share. The peers are all values, unless these fall into two
    groups with a gap between them. Then they are the better group: bad parts can spoil more than
    half of the results (of a ring of six with two bad nodes, two results are good).
    """
    if len(values) >= MANY:
        below = 0
    if len(values) < LEAST_PEERS and not below:
        return None
    logs = sorted(map(math.log, values))
    better = logs[max(below, _better_group_start(logs)) :]
    centre = statistics.median(better)
    spread = _shrunk_spread(_deviation(better, centre), len(better), least_spread)
    return Peers(math.exp(centre), max(least_spread, spread), spread)


def _deviation(logs: Sequence[float], centre: float) -> float:
    """1.4826 times the median absolute deviation, without its bias in small samples (C. Croux, P.
    Rousseeuw: Time-Efficient Algorithms for Two Highly Robust Estimators of Scale, 1992: about
    n/(n - 0.8)).
    """
    count = len(logs)
    middle = statistics.median([abs(log - centre) for log in logs])
    return NORMAL * middle * count / max(count - 0.8, 1)


def _shrunk_spread(spread: float, count: int, least: float) -> float:
    prior = max(_PRIOR_SPREAD, least)
    pooled = count * spread**2 + _PRIOR_VALUES * prior**2
    return math.sqrt(pooled / (count + _PRIOR_VALUES))


def _better_group_start(logs: Sequence[float]) -> int:
    """The index at which the better group begins; 0 where there is one group.

    The cut with the most variance between its sides (N. Otsu: A Threshold Selection Method from
    Gray-Level Histograms, 1979), a quarter of the values on either. It parts two groups where their
    medians differ by five spreads, and by twice the least loss that is looked for; one group cut in
    two differs by less than four.
    """
    count = len(logs)
    first, last = max(1, count // 4), count - max(2, count // 4)
    sums = [0.0, *itertools.accumulate(logs)]
    step = max(1, (last - first) // _CUTS)

    def between(place: int) -> float:
        low, high = sums[place] / place, (sums[-1] - sums[place]) / (count - place)
        return place * (count - place) * (high - low) ** 2

    place = max(range(first, last + 1, step), key=between, default=0)
    if not place:
        return 0
    worse, better = logs[:place], logs[place:]
    middles = statistics.median(worse), statistics.median(better)
    spread = max(_deviation(worse, middles[0]), _deviation(better, middles[1]))
    apart = middles[1] - middles[0]
    if count < MANY:
        # The spread of few values is small by chance: there must be nothing between the two.
        apart = better[0] - worse[-1]
    return place if apart > max(2 * LEAST_LOSS, _LEAST_DISTANCE * spread) else 0


def least_quiet(
    results: Sequence[tuple[tuple[_End, _End], float]], loaded: float, tolerated: float
) -> dict[tuple[_End, _End], float]:
    """The least good value of each pair of ends while all else was quiet.

    It is what other ends have then, and no less than `loaded`, the centre under load, less what
    equal places differ by (`tolerated`, of the logarithm). An end is not compared with itself.
    """
    counts = Counter(end for ends, _ in results for end in ends)
    often = {end for end, count in counts.items() if count > _OWN_SHARE * len(results)}
    least: dict[tuple[_End, _End], float] = {}
    by_own: dict[frozenset[_End], float] = {}
    for ends, _ in results:
        own = frozenset(often.intersection(ends))
        if own not in by_own:
            others = [value for both, value in results if value and own.isdisjoint(both)]
            usual = max(loaded, statistics.median(others) if others else 0.0)
            by_own[own] = usual * math.exp(-tolerated)
        least[ends] = by_own[own]
    return least
