"""How likely healthy parts are low so often: by what the other results of the campaign show.

Healthy pairs of nodes are low now and then: a static path through a bad link, a bad moment. How
often is not known beforehand, so it has a distribution: before the campaign, either pairs are
rarely faulty, one in a hundred, or faulty pairs are common here, one in five (each a Beta
distribution, both equally likely); after it, what the other pairs say updates that. The chance that
`low` of `count` witnesses are low follows from it (the beta-binomial distribution; A. Gelman et
al.: Bayesian Data Analysis, 3rd edition, 2.4, and 5.3 for the mixture).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

#: The chance that a campaign accuses any healthy part of a kind, by the model.
FALSE_ACCUSATION = 1e-4

#: Beta distributions of the share of healthy pairs that are low, with equal weights.
_PRIORS = ((1.0, 100.0), (1.0, 4.0))


class Count(NamedTuple):
    """So many of all are low."""

    low: int
    all: int


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@lru_cache(maxsize=4096)
def _posteriors(low: int, count: int) -> tuple[tuple[float, float, float], ...]:
    """(weight, a, b) of each Beta distribution after the other results."""
    logs = [_log_beta(a + low, b + count - low) - _log_beta(a, b) for a, b in _PRIORS]
    most = max(logs)
    total = sum(math.exp(log - most) for log in logs)
    return tuple(
        (math.exp(log - most) / total, a + low, b + count - low)
        for log, (a, b) in zip(logs, _PRIORS)
    )


@lru_cache(maxsize=16384)
def usual(low: int, count: int) -> float:
    """The expected share of low pairs where `low` of `count` others are."""
    return sum(weight * a / (a + b) for weight, a, b in _posteriors(low, count))


@lru_cache(maxsize=16384)
def _distribution(others: Count, count: int) -> tuple[float, ...]:
    """The probability of 0, 1, ... low ones of `count`, by what the others are."""
    probabilities = [0.0] * (count + 1)
    for weight, a, b in _posteriors(*others):
        base = _log_beta(a, b)
        for low in range(count + 1):
            choose = math.lgamma(count + 1) - math.lgamma(low + 1) - math.lgamma(count - low + 1)
            log = choose + _log_beta(a + low, b + count - low) - base
            probabilities[low] += weight * math.exp(log)
    return tuple(probabilities)


def of_as_many(low: int, groups: Iterable[tuple[Count, int]]) -> float:
    """The chance of `low` or more low witnesses of groups of so many, given what others are."""
    total: Sequence[float] = (1.0,)
    for others, count in groups:
        if count:
            own = _distribution(others, count)
            total = [
                sum(
                    total[k] * own[n - k]
                    for k in range(max(0, n - count), min(n, len(total) - 1) + 1)
                )
                for n in range(len(total) + count)
            ]
    return min(1.0, sum(total[low:]))


def gain(groups: Iterable[tuple[Count, Count]]) -> float:
    """How much likelier a fault makes the witnesses of some groups than the others' rate does: a
    log-likelihood ratio, in nats, with the share of low ones that fits best.

    A group is what the others are, and what its witnesses are.
    """
    known = list(groups)
    low, count = sum(own.low for _, own in known), sum(own.all for _, own in known)
    share = min(max(low / count, 0.02), 0.98) if count else 0.5
    ratio = 0.0
    for others, own in known:
        rate = usual(*others)
        if share <= rate:
            return 0.0
        ratio += own.low * math.log(share / rate)
        ratio += (own.all - own.low) * math.log((1 - share) / (1 - rate))
    return ratio
