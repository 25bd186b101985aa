"""What a campaign by itself finds: the smallest loss named with a certainty.

Pure. The bounds name: those of references, where any run of a place is out of them, and those of
the peers (`outliers.py`), where the best one is. A loss d, as a logarithm, puts a number of a place
with the deviations b (of the place) and w (of the run), both normal and of the spreads that the
campaign itself has, out of a bound that is g away where d > g + b + w.

Without NumPy: every verdict needs this, and NumPy and SciPy take a quarter of the time of a short
command to load.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from railgauge.common.spread import LEAST_SD
from railgauge.model.failure import NO_REFERENCE
from railgauge.model.measurement import COUNTS, METRICS
from railgauge.model.record import Row
from railgauge.verdict.campaign import outliers
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.comparison.smallest_loss import POWER, least, of_each, share

#: Of fewer places, or runs of one, no spread is known.
LEAST_PLACES = 4
LEAST_RUNS = 3

#: Quantiles of the places' own deviations, in standard deviations of them.
_OF_PLACES = tuple(statistics.NormalDist().inv_cdf((p + 0.5) / 101) for p in range(101))


@dataclasses.dataclass(frozen=True)
class Condition:
    """What a campaign finds under one condition: the smallest losses, as shares, that it finds with
    POWER on one place, on all places of one node, on all places; None where it would find none.

    `noise` is the standard deviation of one measurement, a share; None where there are too few.
    `by` are the kinds of bounds that find a place (of references, or `peers`); `false_alarms` is
    how many places are out of them in a campaign of healthy nodes, as a mean. `decides`: a steady
    metric that should be the same at all places.
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
        rules.smallest(of_each(links)),
        rules.smallest(of_each(len(numbers)), all_of_them=True),
        rules.false_alarms,
        metric.comparable or row.measurement.metric == "latency",
    )


def _of_peers(measured: Sequence[tuple[Case, Row]], sign: int) -> float | None:
    """How far from the median of its peers a number stands out, as a logarithm; None where they
    judge no place.
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
        medians = [statistics.median(values) for values in logs.values()]
        away = [log - statistics.median(logs[p]) for p in logs for log in logs[p]]
        # The median of few runs lies nearer to each of them than the truth does.
        within = outliers.mad(away) * math.sqrt(self.runs / max(self.runs - 1, 1))
        between = (
            outliers.mad(medians) if self.places >= LEAST_PLACES else statistics.pstdev(medians)
        )
        known = self.places >= LEAST_PLACES or self.runs >= LEAST_RUNS
        # What the estimates cost: a median absolute deviation of n is off by 1.17/sqrt(n).
        self._between = between * (1 + 1.17 / math.sqrt(self.places))
        repeated = max(len(away) - self.places, 1)
        self._within = within * (1 + 1.17 / math.sqrt(repeated)) if self.runs > 1 else 0.0
        self.noise = max(math.hypot(between, within), LEAST_SD) if known else None

    def _chance(self, loss: float, gap: float, runs: Callable[[float], float]) -> float:
        """That a place with that loss is out of a bound, where `runs` makes of the chance of one
        run that of all of its runs.
        """
        scale = -math.sqrt(2) * max(self._within, LEAST_SD)
        chances = [
            runs(math.erfc((loss - gap - self._between * of_place) / scale) / 2)
            for of_place in _OF_PLACES
        ]
        return statistics.fmean(chances)

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
        losses = [least(chance, power) for chance in self._chances(all_of_them)]
        return min((share(loss) for loss in losses if loss is not None), default=None)

    @property
    def false_alarms(self) -> float | None:
        """How many healthy places are named, as a mean."""
        if self.noise is None:
            return None
        return self.places * sum(chance(0.0) for chance in self._chances())
