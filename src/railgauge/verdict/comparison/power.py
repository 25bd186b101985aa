"""What a comparison finds, and what a campaign does: the smallest loss named with a certainty.

Pure. Of a comparison (`planned`, `of_links`): a link is named where its p against the margin is at
most alpha. Of an error `se` with `df` degrees of freedom, a loss d beyond the margin m (as
logarithms) is named with the probability P(T > t - (d - m)/se), T of Student's t and t its quantile
at 1 - alpha. That this holds for a given link of a class is what the moderated variances are made
for (Smyth 2004, 3).

Of a campaign (`of`) the bounds name: those of references, where any run of a place is out of them,
and those of the peers (`outliers.py`), where the best one is. A loss d, as a logarithm, puts a
number of a place with the deviations b (of the place) and w (of the run), both normal and of the
spreads that the campaign itself has, out of a bound that is g away where d > g + b + w.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import scipy

from railgauge.model.failure import NO_REFERENCE
from railgauge.model.measurement import COUNTS, METRICS
from railgauge.model.record import Row
from railgauge.verdict.campaign import outliers
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.comparison.link_changes import (
    FALSE_DISCOVERIES,
    LEAST_FOR_NULL,
    LEAST_LINKS,
    MARGIN,
    Contrast,
    Samples,
)
from railgauge.verdict.comparison.significance import LEAST_SD, Floats, mad, trigamma_inverse

#: How surely the smallest loss is found.
POWER = 0.99

#: How many links of a class are looked at.
_LINKS = 200


def chance_of_finding(loss: float, se: Floats, df: Floats, alpha: float, margin: float) -> Floats:
    """With which probability each link is named that has this loss; all are logarithms.

    `alpha` is of both sides together where there is no margin, as in treat.
    """
    tail = alpha if margin > 0 else alpha / 2
    critical = scipy.special.stdtrit(df, 1 - tail)
    chance: Floats = scipy.special.stdtr(df, (loss - margin) / se - critical)
    return chance


def smallest_loss(
    se: Floats, df: Floats, alpha: float, margin: float = MARGIN, power: float = POWER
) -> float | None:
    """The least loss, as a share, that is found with that power on a link of these, whichever it
    is; None where no loss is. `margin` is a share.
    """
    usable = (df > 0) & np.isfinite(se)
    if not usable.any():
        return None
    order = np.argsort(se[usable])
    # Of many links so many do, evenly among their errors.
    chosen = order[np.unique(np.linspace(0, order.size - 1, _LINKS).astype(np.int64))]
    se, df = np.maximum(se[usable][chosen], LEAST_SD), df[usable][chosen]
    log_margin = float(np.log1p(margin))

    def mean_chance(loss: float) -> float:
        return float(np.mean(chance_of_finding(loss, se, df, alpha, log_margin)))

    loss = _least(mean_chance, power, log_margin)
    return None if loss is None else _share(loss)


@dataclasses.dataclass(frozen=True)
class Power:
    """The smallest losses, as shares, that are found with POWER: on one link, on all links of one
    node, on all links of a class. None where none would be.
    """

    link: float | None
    node: float | None
    all: float | None

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "power": POWER}


def _of_node(links: int) -> float:
    """The power that each link of a node needs: the node is found where one of them is."""
    return float(1 - (1 - POWER) ** (1 / links))


def _error(se: float, own: int, links: int) -> tuple[Floats, Floats]:
    """A link's error and its degrees of freedom, of which it has `own`, where the noise is the same
    everywhere; with what the estimates cost.

    The prior and the widening of the errors are estimates from the links, and either can be one
    standard deviation of its own on the bad side: the variance of n logarithms of variances (about
    trigamma(own/2) sqrt(3/n)) makes the prior finite, and a median absolute deviation of n values
    is off by 1.17/sqrt(n).
    """
    if own == 0:
        return np.array([se]), np.array([float(links - 1 if links >= LEAST_LINKS else 0)])
    excess = float(scipy.special.polygamma(1, own / 2)) * math.sqrt(3 / links)
    prior = 2 * float(trigamma_inverse(np.array([excess]))[0])
    wider = 1 + 1.17 / math.sqrt(links) if links >= LEAST_FOR_NULL else 1.0
    return np.array([se * wider]), np.array([min(prior + own, links * own)])


def planned(
    noise: float,
    runs: int,
    baseline: int,
    links: int,
    of_node: int = 2,
    conditions: int = 1,
    margin: float = MARGIN,
    level: float = FALSE_DISCOVERIES,
) -> Power:
    """Of `links` links of one condition with the same noise of a run (a share), so many runs
    against so many of a baseline; a node has `of_node` of the links, and a family so many
    conditions.

    Of one bad place among many, Benjamini-Hochberg calls a p of at most level / places.
    """
    alpha = level / (links * conditions)
    own = runs + baseline - 2
    se, freedom = _error(noise * math.sqrt(1 / runs + 1 / baseline), own, links)
    # The median of n normal values has pi/2 times the variance of their mean.
    shift = se * np.sqrt(np.pi / 2 / links)
    return Power(
        smallest_loss(se, freedom, alpha, margin),
        smallest_loss(se, freedom, alpha, margin, _of_node(of_node)),
        smallest_loss(shift, freedom, level, margin) if links >= LEAST_LINKS else None,
    )


def of_links(
    result: Contrast, samples: Samples, number: int, margin: float, level: float
) -> float | None:
    """The smallest loss that a comparison would have found on one link of a class, whichever it is,
    if all others are well.
    """
    of_class = np.flatnonzero((samples.of_class == number) & result.compared)
    if not of_class.size:
        return None
    family = samples.family[of_class[0]]
    tested = int(((samples.family == family) & np.isfinite(result.p)).sum())
    return smallest_loss(result.se[of_class], result.df[of_class], level / max(tested, 1), margin)


# --- a campaign by itself ------------------------------------------------------------------------

#: Of fewer places, or runs of one, no spread is known.
LEAST_PLACES = 4
LEAST_RUNS = 3

#: Quantiles of the places' own deviations, in standard deviations of them.
_OF_PLACES = np.array([statistics.NormalDist().inv_cdf((p + 0.5) / 101) for p in range(101)])


@dataclasses.dataclass(frozen=True)
class Condition:
    """What a campaign finds under one condition: the smallest losses, as shares, that it finds with
    POWER on one place, on all places of one node, on all places; None where it would find none.

    `noise` is the standard deviation of one measurement, a share; None where there are too few.
    `by` are the kinds of bounds that find a place (of references, or `peers`); `false_alarms` is
    how many places are out of them in a campaign of healthy nodes, as a mean. `decides`: a steady
    metric of which all places should have the same.
    """

    check: str
    partition: str
    measured: str
    places: int
    runs: int
    noise: float | None
    by: tuple[str, ...]
    link: float | None
    node: float | None
    all: float | None
    false_alarms: float | None
    decides: bool


@dataclasses.dataclass(frozen=True)
class OfCampaign:
    """What a campaign would have found, condition by condition, with the certainty `power`."""

    conditions: tuple[Condition, ...]
    power: float = POWER

    @property
    def sharpest(self) -> Condition | None:
        """The one that finds the smallest loss on one place, of those that decide."""
        finding = [each for each in self.conditions if each.decides and each.link is not None]
        return min(finding, key=lambda each: each.link or 0.0, default=None)

    @property
    def false_alarms(self) -> float:
        """How many places of healthy nodes such a campaign names, as a mean over all conditions."""
        return sum(condition.false_alarms or 0.0 for condition in self.conditions)

    def as_dict(self) -> dict[str, Any]:
        return {
            "power": self.power,
            "false_alarms": self.false_alarms,
            "sharpest": dataclasses.asdict(self.sharpest) if self.sharpest else None,
            "conditions": [dataclasses.asdict(condition) for condition in self.conditions],
        }


def of(cases: Sequence[Case]) -> OfCampaign:
    """Of the cases of an acceptance: by those that nothing but a number may speak against."""
    conditions: dict[Hashable, list[tuple[Case, Row]]] = {}
    for case in cases:
        sound = case.finished and not case.damage and not case.repeats
        if sound and all(failure.kind == NO_REFERENCE for failure in case.failures):
            for row in case.rows:
                m = row.measurement
                if row.gates and m.value > 0 and METRICS[m.metric].unit not in COUNTS:
                    conditions.setdefault(outliers.condition(case, m), []).append((case, row))
    return OfCampaign(tuple(_of_condition(measured) for measured in conditions.values()))


def _of_condition(measured: Sequence[tuple[Case, Row]]) -> Condition:
    case, row = measured[0]
    metric = METRICS[row.measurement.metric]
    sign = 1 if metric.better == "more" else -1
    #: place -> its numbers, of groups of one launch the launch's; node -> its places
    numbers: dict[Hashable, list[float]] = {}
    of_node: dict[str, set[Hashable]] = {}
    gaps: list[float] = []
    kinds: dict[str, None] = {}
    shared: set[Hashable] = set()
    for other_case, other_row in measured:
        m = other_row.measurement
        place = (m.nodes, m.rails, m.nics)
        for node in m.nodes:
            of_node.setdefault(node, set()).add(place)
        log = sign * math.log(m.value)
        reference = other_row.reference
        bound = None if reference is None else reference.lowest if sign > 0 else reference.highest
        if reference is not None and bound is not None and bound > 0:
            gaps.append(log - sign * math.log(bound))
            kinds[reference.kind] = None
        launch = outliers.launch(other_case)
        if launch is None:
            numbers.setdefault(place, []).append(log)
        elif (
            key := (other_case.unique_name, other_case.session, other_case.run, launch)
        ) not in shared:
            shared.add(key)
            numbers[key] = [log]
    rules = _Rules(numbers, statistics.median(gaps) if gaps else None, _of_peers(measured, sign))
    links = statistics.median_low(len(places) for places in of_node.values()) if of_node else 1
    named = [*kinds, *(["peers"] if rules.of_peers is not None else [])]
    return Condition(
        case.check,
        case.partition,
        row.measurement.words,
        len({places for known in of_node.values() for places in known}),
        rules.runs,
        None if rules.noise is None else math.expm1(rules.noise),
        tuple(named),
        rules.smallest(POWER),
        rules.smallest(_of_node(links)),
        rules.smallest(_of_node(len(numbers)), all_of_them=True),
        rules.false_alarms,
        metric.comparable or row.measurement.metric == "latency",
    )


def _of_peers(measured: Sequence[tuple[Case, Row]], sign: int) -> float | None:
    """How far from the median of its peers a number stands out, as a logarithm; None where they
    judge nobody.
    """
    case, row = measured[0]
    if not outliers.is_judged(case, row) or not outliers.have_peers(measured):
        return None
    values = [one.measurement.value for _, one in measured]
    better = METRICS[row.measurement.metric].better
    bound = outliers.threshold(values, better, outliers.least_spread_of(case, row))
    return abs(math.log(statistics.median(values) / bound)) if bound > 0 else None


class _Rules:
    """The bounds of one condition, `of_references` and `of_peers` away (logarithms, None where
    there are none), and how the numbers of its places, `logs`, differ.
    """

    def __init__(
        self,
        logs: dict[Hashable, list[float]],
        of_references: float | None,
        of_peers: float | None,
    ) -> None:
        self.of_references, self.of_peers = of_references, of_peers
        self.places = len(logs)
        self.runs = int(statistics.median_low(len(values) for values in logs.values()))
        medians = np.array([statistics.median(values) for values in logs.values()])
        away = np.array([log - statistics.median(logs[p]) for p in logs for log in logs[p]])
        # The median of few runs lies nearer to each of them than the truth does.
        within = mad(away) * math.sqrt(self.runs / max(self.runs - 1, 1))
        between = mad(medians) if self.places >= LEAST_PLACES else float(np.std(medians, ddof=0))
        known = self.places >= LEAST_PLACES or self.runs >= LEAST_RUNS
        # What the estimates cost: a median absolute deviation of n is off by 1.17/sqrt(n).
        self._between = between * (1 + 1.17 / math.sqrt(self.places))
        repeated = max(away.size - self.places, 1)
        self._within = within * (1 + 1.17 / math.sqrt(repeated)) if self.runs > 1 else 0.0
        self.noise = max(math.hypot(between, within), LEAST_SD) if known else None

    def _chance(self, loss: float, gap: float, runs: Callable[[Floats], Floats]) -> float:
        """That a place with that loss is out of a bound, where `runs` makes of the chance of one
        run that of all of its runs.
        """
        away = loss - gap - self._between * _OF_PLACES
        # The normal distribution by Python's own erfc: every verdict needs this, and scipy.special,
        # which comparisons and suspects need, takes 0.3 s of CPU to be loaded.
        below = (away / (-math.sqrt(2) * max(self._within, LEAST_SD))).tolist()
        of_one_run = np.array([math.erfc(deviation) / 2 for deviation in below])
        return float(np.mean(runs(of_one_run)))

    def _of_references(self, loss: float) -> float:
        """Any run is a finding."""
        assert self.of_references is not None
        return self._chance(loss, self.of_references, lambda p: 1 - (1 - p) ** self.runs)

    def _of_peers(self, loss: float) -> float:
        """The best run is what counts."""
        assert self.of_peers is not None
        return self._chance(loss, self.of_peers, lambda p: p**self.runs)

    def _chances(self, all_of_them: bool = False) -> list[Callable[[float], float]]:
        """Of the rules that there are; what all places lose their peers do not show."""
        chances = [self._of_references] if self.of_references is not None else []
        return [
            *chances,
            *([self._of_peers] if self.of_peers is not None and not all_of_them else []),
        ]

    def smallest(self, power: float, all_of_them: bool = False) -> float | None:
        """The least loss, a share, that a place shows with that power by one of the rules."""
        if self.noise is None:
            return None
        losses = [_least(chance, power) for chance in self._chances(all_of_them)]
        return min((_share(loss) for loss in losses if loss is not None), default=None)

    @property
    def false_alarms(self) -> float | None:
        """How many healthy places are named, as a mean."""
        if self.noise is None:
            return None
        return self.places * sum(chance(0.0) for chance in self._chances())


def _least(chance: Callable[[float], float], power: float, low: float = 0.0) -> float | None:
    """The least loss above `low`, as a logarithm, that is found with that power."""
    high = 20.0
    if chance(high) < power:
        return None
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high


def _share(loss: float) -> float:
    """Of a loss as a logarithm."""
    return -math.expm1(-loss)
