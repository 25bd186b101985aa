"""Dips in a curve over message sizes: a few sizes far below what the sizes around them promise.

A reference and a limit judge each size alone, and as a rule only the largest has a reference. A
hole at one size shows between its neighbours: an algorithm, a protocol or a path that serves this
size badly. What a healthy curve does is no dip. It rises with the size, with steps where a library
changes its protocol (LL, LL128 and Simple of NCCL). So a dip is below both neighbours, and far
below the line between them, by the logarithms of size and value. It jitters, so that "far" follows
the spread of the other points. Small messages jitter most, and tools print few digits of their
rates, so they are not judged. Where out of place and in place were both measured, a dip is in both:
a disturbed moment hits one of them.

Measured again, a dip may be gone. So it rejects no node, and none is accepted with it.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from railgauge import hostlist
from railgauge.model.measurement import METRICS, STANDS_OUT, Measurement
from railgauge.model.sizes import format_size
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.outliers import condition, mad

#: What a dip is below its neighbours' line at least, as a share of it. Steps between protocols and
#: the scatter of healthy published curves reach 0.2. A choice of ours.
LEAST_DEPTH = 0.3

#: The most sizes in a row that one dip may hold.
WIDEST = 3

#: A size is judged where its neighbours promise this share of the curve's best value at least. In
#: smaller messages latency rules, which differs more from size to size.
LEAST_SHARE = 0.25

#: So many points that are not the dip's show how far the points of this curve lie apart.
LEAST_OTHERS = 3

#: What a rate that was printed as 0 counts as, as a share of the best, for it has no logarithm.
_LEAST = 1e-9

#: A dip, its two neighbours, and those others.
LEAST_POINTS = LEAST_OTHERS + 3

#: Metrics in these units rise with the size. A rate of messages does not.
_RISING = ("GB/s", "Gb/s")

#: The end of the name of a metric with results in the buffer of the data.
_IN_PLACE = "_in_place"

#: All of a measurement's condition and place but its metric and its size.
_how = operator.attrgetter(
    *(
        field.name
        for field in dataclasses.fields(Measurement)
        if field.name not in ("metric", "value", "size_bytes", "samples")
    )
)


@dataclasses.dataclass(frozen=True)
class Dip:
    """Sizes in bytes of one hole, with the lowest value in it, and what its neighbours' line has at
    that size, both in the unit of the curve. `left_bytes` and `right_bytes` are the neighbours.
    """

    sizes_bytes: tuple[int, ...]
    lowest_bytes: int
    value: float
    expected: float
    left_bytes: int
    right_bytes: int

    @property
    def depth(self) -> float:
        """The share of the expected value that is missing."""
        return 1 - self.value / self.expected


def dips(curve: Mapping[int, float], peer_spread: float = 0.05) -> list[Dip]:
    """The dips of a curve: size in bytes -> a rate, the more the better.

    `peer_spread` is what equal numbers of this system differ by, as a share. The first and the last
    size have one neighbour, and are not judged.
    """
    best = max(curve.values(), default=0.0)
    if best <= 0:
        return []
    points = [(size, max(curve[size], _LEAST * best)) for size in sorted(curve) if size > 0]
    if len(points) < LEAST_POINTS:
        return []
    found: list[Dip] = []
    after = 1
    for first in range(1, len(points) - 1):
        widths = range(1, min(WIDEST, len(points) - 1 - first) + 1) if first >= after else ()
        # Of those that begin at one size the narrowest.
        dip = next(filter(None, (_dip(points, first, w, best, peer_spread) for w in widths)), None)
        if dip:
            found.append(dip)
            after = first + len(dip.sizes_bytes)
    return found


def _dip(
    points: Sequence[tuple[int, float]], first: int, width: int, best: float, peer_spread: float
) -> Dip | None:
    """The dip of `width` points from the place `first` on; None where they are none."""
    left, right = points[first - 1], points[first + width]
    inside = points[first : first + width]
    lines = [_line(left, right, size) for size, _ in inside]
    if min(lines) < LEAST_SHARE * best:
        return None
    below_line = min(math.log(line / value) for (_, value), line in zip(inside, lines, strict=True))
    below_both = math.log(min(left[1], right[1]) / max(value for _, value in inside))
    floor = -math.log1p(-LEAST_DEPTH)
    if below_line < floor:
        return None
    others = [
        _distance(points, place)
        for place in range(1, len(points) - 1)
        if not first - 1 <= place <= first + width and points[place][1] >= LEAST_SHARE * best
    ]
    if len(others) < LEAST_OTHERS:
        return None
    # Of three equal spreads: the point's own, and half of each neighbour's.
    usual = max(mad(others, 0.0), math.sqrt(1.5) * math.log1p(peer_spread))
    least = max(floor, STANDS_OUT * usual)
    # The last point below a step up is far below the line, and hardly below its left neighbour.
    if below_line < least or below_both < least / 2:
        return None
    lowest = max(range(width), key=lambda place: lines[place] / inside[place][1])
    sizes = tuple(size for size, _ in inside)
    return Dip(sizes, *inside[lowest], lines[lowest], left[0], right[0])


def _distance(points: Sequence[tuple[int, float]], place: int) -> float:
    """How far a point is above the line of its neighbours, as a logarithm."""
    size, value = points[place]
    return math.log(value / _line(points[place - 1], points[place + 1], size))


def _line(left: tuple[int, float], right: tuple[int, float], size: int) -> float:
    """The value at a size on the line between two points, by logarithms."""
    share = math.log(size / left[0]) / math.log(right[0] / left[0])
    return math.exp((1 - share) * math.log(left[1]) + share * math.log(right[1]))


# ---- in a campaign ----


@dataclasses.dataclass(frozen=True)
class DipAtPlaces:
    """The same dip at one or several places of a check: the deepest, and the nodes of all."""

    dip: Dip
    measurement: Measurement
    case: Case
    nodes: tuple[str, ...]
    places: int

    @property
    def message(self) -> str:
        m, dip = self.measurement, self.dip
        sizes = ", ".join(map(format_size, dip.sizes_bytes))
        others = f"; so at {self.places} places, the deepest here" if self.places > 1 else ""
        return (
            f"{m.metric} of {m.operation}, {m.transport}, has a hole at {sizes}: "
            f"{dip.value:.4g} {m.unit} at {format_size(dip.lowest_bytes)} is {dip.depth:.0%} below "
            f"the {dip.expected:.4g} that {format_size(dip.left_bytes)} and "
            f"{format_size(dip.right_bytes)} let expect, on {hostlist.fold(self.case.nodes)}"
            f"{others}"
        )


def dips_at_places(cases: Sequence[Case]) -> list[DipAtPlaces]:
    """The dips of all places that nothing else speaks against, those of one condition and size
    together.
    """
    found: dict[Hashable, list[tuple[Dip, Measurement, Case]]] = {}
    for case in cases:
        if (case.passed or case.unreferenced) and not case.repeats:
            for dip, m in _of_case(case):
                alike = condition(case, dataclasses.replace(m, size_bytes=None)), dip.sizes_bytes
                found.setdefault(alike, []).append((dip, m, case))
    return [_together(same) for same in found.values()]


def _together(same: Sequence[tuple[Dip, Measurement, Case]]) -> DipAtPlaces:
    dip, m, case = max(same, key=lambda one: one[0].depth)
    nodes = dict.fromkeys(node for _, _, other in same for node in other.nodes)
    places = {(other.unique_name, other.place) for _, _, other in same}
    return DipAtPlaces(dip, m, case, tuple(nodes), len(places))


def _of_case(case: Case) -> Iterator[tuple[Dip, Measurement]]:
    """The dips of one place, each with a measurement of its curve."""
    # An emulated cluster's speed says nothing: it dips whenever its host does something else.
    if len(case.rows) < LEAST_POINTS or case.floors_suffice:
        return
    curves: dict[tuple[Any, ...], dict[int, Measurement]] = {}
    for row in case.rows:
        m = row.measurement
        if m.size_bytes and METRICS[m.metric].unit in _RISING:
            curves.setdefault((m.metric, *_how(m)), {})[m.size_bytes] = m
    for (metric, *how), measured in curves.items():
        if metric.endswith(_IN_PLACE):
            continue
        found = dips(_values(measured), case.peer_spread)
        in_place = curves.get((f"{metric}{_IN_PLACE}", *how))
        if found and in_place is not None:
            again = dips(_values(in_place), case.peer_spread)
            held = {size for dip in again for size in dip.sizes_bytes}
            found = [dip for dip in found if held.intersection(dip.sizes_bytes)]
        for dip in found:
            yield dip, measured[dip.lowest_bytes]


def _values(measured: Mapping[int, Measurement]) -> dict[int, float]:
    return {size: m.value for size, m in measured.items()}
