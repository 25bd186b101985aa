"""A verdict's numbers in columns: what the page's script draws, sorts and filters."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import pydantic

from railgauge import hostlist
from railgauge.campaign.folder import LEAVES, Campaign
from railgauge.common.names import natural
from railgauge.model import record
from railgauge.model.measurement import METRICS, Measurement
from railgauge.model.record import BrokenRecordError
from railgauge.model.sizes import format_size
from railgauge.report import numbers
from railgauge.report.numbers import Number
from railgauge.verdict.campaign.cases import Case, Outcome
from railgauge.verdict.campaign.outliers import condition
from railgauge.verdict.decision.verdict import Verdict

#: What is said of a number, the best first: of several in one cell the last of these is shown.
STATUSES = ("recorded", "ok", "no reference", "not run", "stands out", "failed", "out")

#: More measurements than these are not in the page: those that are not fine come first.
MOST = 200_000

#: A curve over message sizes has at least so many.
_LEAST_SIZES = 3

#: Latencies of one condition, from the least to the longest.
_PERCENTILES = {
    "latency_min": "min",
    "latency": "median",
    "latency_p99": "p99",
    "latency_p999": "p99.9",
    "latency_max": "max",
}


@dataclasses.dataclass(frozen=True)
class Point:
    """What the places of a condition have at one message size, or at one percentile."""

    at: str
    x: float
    median: float
    worst: float
    best: float
    places: int
    lowest: float | None
    highest: float | None
    limit: float | None
    #: the median of the campaign that was accepted before
    accepted: float | None = None


@dataclasses.dataclass(frozen=True)
class Curve:
    """Numbers of a check over message sizes (`by` is "size"), or over percentiles of a latency."""

    check: str
    title: str
    unit: str
    by: str
    points: tuple[Point, ...]

    def as_dict(self) -> dict[str, Any]:
        columns = ("x", "median", "worst", "best", "lowest", "highest", "limit", "accepted")
        return {
            "unit": self.unit,
            "by": self.by,
            "labels": [point.at for point in self.points],
            **{name: [getattr(point, name) for point in self.points] for name in columns},
        }


#: Gives the median of a condition in an earlier campaign, where that is known.
Earlier = Callable[[Case, Measurement], float | None]


def curves(measured: Sequence[Number], earlier: Earlier = lambda *_: None) -> list[Curve]:
    """Of every condition that was measured at several sizes, rates first, and of latencies."""
    by_size: dict[Hashable, dict[float, list[Number]]] = {}
    by_percentile: dict[Hashable, dict[float, list[Number]]] = {}
    order = list(_PERCENTILES)
    for one in measured:
        m = one.row.measurement
        if m.size_bytes:
            key = condition(one.case, dataclasses.replace(m, size_bytes=None))
            by_size.setdefault(key, {}).setdefault(m.size_bytes, []).append(one)
        if m.metric in _PERCENTILES:
            key = condition(one.case, dataclasses.replace(m, metric="latency"))
            place = float(order.index(m.metric))
            by_percentile.setdefault(key, {}).setdefault(place, []).append(one)
    curves = []
    in_order = sorted(
        by_size.values(),
        key=lambda sizes: (
            METRICS[next(iter(sizes.values()))[0].row.measurement.metric].better != "more"
        ),
    )
    for sizes in in_order:
        if len(sizes) >= _LEAST_SIZES:
            curves.append(_curve(sizes, "size", lambda m: format_size(m.size_bytes or 0), earlier))
    for percentiles in by_percentile.values():
        if len(percentiles) >= _LEAST_SIZES:
            curves.append(
                _curve(percentiles, "percentile", lambda m: _PERCENTILES[m.metric], earlier)
            )
    return curves


def _curve(
    groups: dict[float, list[Number]],
    by: Literal["size", "percentile"],
    label: Callable[[Measurement], str],
    earlier: Earlier,
) -> Curve:
    first = next(iter(groups.values()))[0]
    m = first.row.measurement
    plain = dataclasses.replace(m, size_bytes=None) if by == "size" else m
    title = numbers.measured(plain)
    if by == "percentile":
        title = title.replace(m.metric, "latency", 1)
    return Curve(
        first.case.check,
        f"{title}, {first.case.partition}",
        m.unit,
        by,
        tuple(_point(x, members, label, earlier) for x, members in sorted(groups.items())),
    )


def _point(
    x: float,
    members: Sequence[Number],
    label: Callable[[Measurement], str],
    earlier: Earlier,
) -> Point:
    values = [one.row.measurement.value for one in members]
    more = METRICS[members[0].row.measurement.metric].better == "more"
    references = [one.row.reference for one in members if one.row.reference is not None]
    lowest = [r.lowest for r in references if r.lowest is not None]
    highest = [r.highest for r in references if r.highest is not None]
    limits = [one.row.limit.value for one in members if one.row.limit is not None]
    return Point(
        at=label(members[0].row.measurement),
        x=x,
        median=statistics.median(values),
        worst=min(values) if more else max(values),
        best=max(values) if more else min(values),
        places=len(values),
        lowest=max(lowest, default=None),
        highest=min(highest, default=None),
        limit=min(limits, default=None),
        accepted=earlier(members[0].case, members[0].row.measurement),
    )


#: Partition -> leaf -> its nodes, a host list: what a campaign's folder has.
_LEAVES = pydantic.TypeAdapter(dict[str, dict[str, str]])


def leaf_of(campaign: Campaign) -> Mapping[str, str]:
    """Node -> its leaf, of those for which it is known."""
    try:
        kept = record.read(campaign.folder / LEAVES, _LEAVES.validate_json) or {}
        return {
            node: leaf
            for leaves in kept.values()
            for leaf, members in leaves.items()
            for node in hostlist.expand(members)
        }
    except (BrokenRecordError, ValueError):
        # The map of leaves is one view of numbers that are all there.
        return {}


class _Index:
    """Texts by number: each is written once."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.texts = list(known)
        self._numbers = {text: number for number, text in enumerate(self.texts)}

    def __call__(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


def as_columns(verdict: Verdict, measured: Sequence[Number]) -> dict[str, Any]:
    """All numbers, a list a column; texts and conditions by number. Shares are in thousandths.

    A place that came to no number has a row without a value. Of more than `MOST` the first are
    left out, which are fine; `left_out` counts them.
    """
    checks, places, rails = _Index(), _Index(), _Index([""])
    nodes = _Index(sorted({n for c in verdict.cases for n in c.nodes}, key=natural))
    ends: list[list[int]] = []
    conditions: dict[Hashable, int] = {}
    described: list[dict[str, Any]] = []
    rows: list[list[Any]] = []

    def place_of(name: str, at_nodes: Sequence[str], at_rails: str) -> int:
        number = places(name)
        if number == len(ends):
            # Of a group of nodes none is an end.
            known = [nodes(node) for node in at_nodes] if len(at_nodes) <= 2 else []
            ends.append([*known, *[-1] * (2 - len(known)), rails(at_rails)])
        return number

    for one in measured:
        m = one.row.measurement
        reference = numbers.reference_of(one.row)
        key = condition(one.case, m), reference
        if key not in conditions:
            conditions[key] = len(described)
            described.append(_described(one, checks(one.case.check), reference))
        name = numbers.location(one)
        share = one.row.share_of_limit
        rows.append(
            [
                conditions[key],
                place_of(name, m.nodes or one.case.nodes, m.rails or ""),
                float(f"{m.value:.6g}"),
                STATUSES.index(one.status),
                None if share is None else round(share * 1000),
            ]
        )
    silent = [
        [
            checks(case.check),
            place_of(case.place or ":".join(case.nodes[:2]), case.nodes, _rails(case)),
            STATUSES.index("failed" if case.outcome is Outcome.FAILED else "not run"),
        ]
        for case in verdict.cases
        if not case.rows and not case.of_job and not case.was_left_out
    ]
    of_node = leaf_of(verdict.campaign)
    leaves = _Index(sorted({of_node[node] for node in nodes.texts if node in of_node}, key=natural))
    kept = rows
    if len(rows) > MOST:
        kept = sorted(rows, key=lambda row: row[3])[-MOST:]
    return {
        "statuses": list(STATUSES),
        "checks": checks.texts,
        "nodes": nodes.texts,
        "rails": rails.texts,
        "places": places.texts,
        "ends": ends,
        "conditions": described,
        "rows": [list(column) for column in zip(*kept, strict=True)] or [[], [], [], [], []],
        "silent": silent,
        "leaves": leaves.texts,
        "leaf_of": [leaves(of_node[node]) if node in of_node else -1 for node in nodes.texts],
        "left_out": len(rows) - len(kept),
    }


def _rails(case: Case) -> str:
    """Of a place without a number: a rail pair is the kind of its place."""
    return case.kind if "-" in case.kind and case.kind.replace("-", "").isdigit() else ""


def _described(one: Number, check: int, reference: str) -> dict[str, Any]:
    m: Measurement = one.row.measurement
    metric = METRICS[m.metric]
    bounds = one.row.reference
    return {
        "check": check,
        "partition": one.case.partition,
        "measured": numbers.measured(m),
        "unit": metric.unit.removeprefix("1"),
        "more": metric.better == "more",
        "comparable": metric.comparable,
        "reference": reference,
        "lowest": bounds.lowest if bounds else None,
        "highest": bounds.highest if bounds else None,
        "gates": one.row.gates,
    }
