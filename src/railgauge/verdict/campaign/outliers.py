"""Places that stand out among their peers in one campaign: fast enough for a floor, and worse.

A first look, until baselines say what is normal for a place: the modified z-score of B. Iglewicz
and D. Hoaglin (How to Detect and Handle Outliers, 1993), by median and median absolute deviation,
on the bad side of the metric only. With few places that deviation is next to nothing, so it counts
as at least what the system's data says that equal places differ by (`peer_spread`): at its default
of 5 % nothing that is less than 17.5 % worse stands out.

A place is judged by its best number, of several runs by that of the worst one: a user that tests a
node for half an hour looks for what comes and goes, and its peers have as many runs. Where every
pair of a node is slow, the node is named; where one pair is, and both of its nodes do well
elsewhere, the pair.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, TypeVar

from railgauge.common.spread import NORMAL
from railgauge.model.measurement import METRICS, STANDS_OUT, Measurement
from railgauge.model.record import Row
from railgauge.verdict.campaign.cases import Case

#: Of fewer places none is an outlier: two of three may be the odd ones.
LEAST_PLACES = 4

#: Numbers that are not comparable at all places (`Metric.comparable`) are judged where nothing else
#: does; they may differ by so many times what others may: at the default nothing stands out that
#: is less than 87.5 % worse. A choice of ours.
LOOSELY = 5

#: All of a measurement's condition but its places. (A million are asked; `replace` takes ten times
#: as long.)
_how = operator.attrgetter(
    *(
        field.name
        for field in dataclasses.fields(Measurement)
        if field.name not in ("value", "nodes", "rails", "nics", "samples")
    )
)

Place = TypeVar("Place", bound=Hashable)
Better = Literal["more", "less"]


@dataclasses.dataclass(frozen=True)
class Outlier:
    """Nodes with a best number far worse than their peers', in the metric's unit."""

    nodes: tuple[str, ...]
    measurement: Measurement
    median: float
    places: int
    case: Case

    @property
    def message(self) -> str:
        m = self.measurement
        share = m.value / self.median - 1
        return (
            f"{m.variable} of {' and '.join(self.nodes)} is {m.value:.4g} {m.unit}, {share:+.0%} "
            f"of the {self.median:.4g} that is the median of {self.places} "
            f"{'nodes' if len(self.nodes) == 1 else 'places'}: stands out"
        )


def outlying(values: Mapping[Place, float], better: Better, least_spread: float) -> list[Place]:
    """The places with a value far worse than the median of all; none among fewer than four.

    `least_spread` is a share of the median.
    """
    if len(values) < LEAST_PLACES:
        return []
    bound = threshold(list(values.values()), better, least_spread)
    sign = 1 if better == "more" else -1
    return [place for place, value in values.items() if sign * (bound - value) > 0]


def mad(values: Sequence[float], middle: float | None = None) -> float:
    """The median distance from `middle`, of the median if not given, as a normal's standard
    deviation; 0 without values.
    """
    if not values:
        return 0.0
    if middle is None:
        middle = statistics.median(values)
    return NORMAL * statistics.median(abs(value - middle) for value in values)


def threshold(values: Sequence[float], better: Better, least_spread: float) -> float:
    """The value beyond which a number stands out among these."""
    median = statistics.median(values)
    least = STANDS_OUT * max(mad(values, median), least_spread * abs(median))
    return median - least if better == "more" else median + least


def outliers(cases: Sequence[Case]) -> list[Outlier]:
    """Nodes and pairs that stand out in a condition, in cases that nothing speaks against."""
    conditions: dict[Hashable, list[tuple[Case, Row]]] = {}
    for case in cases:
        # A pair that was good when it was measured again may have been bad at first.
        if (case.passed or case.unreferenced) and not case.repeats:
            for row in case.rows:
                if is_judged(case, row):
                    conditions.setdefault(condition(case, row.measurement), []).append((case, row))
    by_nodes: dict[tuple[str, ...], Outlier] = {}
    for measured in conditions.values():
        for outlier in _of_condition(measured):
            # Of a place that stands out in many conditions the first is named.
            by_nodes.setdefault(outlier.nodes, outlier)
    return list(by_nodes.values())


def is_judged(case: Case, row: Row) -> bool:
    """Whether a number is compared with its peers: where all places should have the same, or where
    nothing else judges it.
    """
    return row.gates and (_is_comparable(row) or (case.unreferenced and not row.reference))


def have_peers(measured: Sequence[tuple[Case, Row]]) -> bool:
    """Whether these numbers of one condition can judge each other: there are several places, each
    with a number of its own; the groups of an NCCL launch share one.
    """
    places = {
        (row.measurement.nodes, row.measurement.rails, row.measurement.nics)
        if (shared := launch(case)) is None
        else (case.unique_name, case.session, case.run, shared)
        for case, row in measured
    }
    return len(places) >= LEAST_PLACES and _are_enough(measured)


def launch(case: Case) -> object:
    """The launch that gave the number of its slowest group to all its groups; None for others."""
    shared = [facts for facts in case.facts.values() if facts.get("slowest_of", 1) != 1]
    return shared[0].get("launch") if shared else None


def _are_enough(measured: Sequence[tuple[Case, Row]]) -> bool:
    """Whether these numbers of one condition show which of them stand out: there are enough nodes,
    and they do not count what usually happens nowhere, where a single count says nothing.
    """
    nodes = {node for _, row in measured for node in row.measurement.nodes}
    values = [row.measurement.value for _, row in measured]
    return len(nodes) >= LEAST_PLACES and (statistics.median(values) > 0 or not any(values))


def least_spread_of(case: Case, row: Row) -> float:
    """The least spread of the places of a condition, as a share of their median."""
    return case.peer_spread * (1 if _is_comparable(row) else LOOSELY)


def _is_comparable(row: Row) -> bool:
    return METRICS[row.measurement.metric].comparable


def condition(case: Case, measurement: Measurement) -> Hashable:
    """The key of what is measured, without where; rail and NIC belong to the place."""
    m = measurement
    return case.check, case.partition, len(m.nodes), *_kind_of_ends(m.rails, m.nics), *_how(m)


@functools.cache
def _kind_of_ends(rails: str | None, nics: str | None) -> tuple[bool, int]:
    """Whether two rails differ, and how many NICs there are."""
    return len(set(rails.split("-") if rails else [])) > 1, len(nics.split("+")) if nics else 0


def _of_condition(measured: Sequence[tuple[Case, Row]]) -> list[Outlier]:
    better = METRICS[measured[0][1].measurement.metric].better
    least_spread = least_spread_of(*measured[0])
    # Rails and directions of two nodes are no peers of each other: too few to find the odd one.
    if not _are_enough(measured):
        return []
    of_runs: dict[tuple[object, ...], tuple[Case, Measurement]] = {}
    of_nodes: dict[str, tuple[Case, Measurement]] = {}
    of_places: dict[tuple[str, ...], tuple[Case, Measurement]] = {}
    for case, row in measured:
        m = row.measurement
        _keep(of_runs, (_place(m), case.session, case.run), case, m, better)
    worse: Better = "less" if better == "more" else "more"
    for case, m in of_runs.values():
        _keep(of_places, _place(m), case, m, worse)
    for case, m in of_places.values():
        for node in m.nodes:
            _keep(of_nodes, node, case, m, better)
    nodes = {node: m.value for node, (_, m) in of_nodes.items()}
    median = statistics.median(nodes.values())
    far_off = [
        Outlier((node,), of_nodes[node][1], median, len(nodes), of_nodes[node][0])
        for node in outlying(nodes, better, least_spread)
    ]
    named = {node for outlier in far_off for node in outlier.nodes}
    places = {place: m.value for place, (_, m) in of_places.items() if not named & set(m.nodes)}
    for place in outlying(places, better, least_spread):
        case, m = of_places[place]
        median = statistics.median(places.values())
        far_off.append(Outlier(m.nodes, m, median, len(places), case))
    return far_off


def _place(m: Measurement) -> tuple[str, ...]:
    return (*m.nodes, m.rails or "", m.nics or "")


def _keep(
    kept: dict[Place, tuple[Case, Measurement]],
    place: Place,
    case: Case,
    measurement: Measurement,
    better: Better,
) -> None:
    """Keep the better measurement of a place."""
    known = kept.get(place)
    sign = 1 if better == "more" else -1
    if known is None or sign * (measurement.value - known[1].value) > 0:
        kept[place] = case, measurement
