"""A plot of a figure over time, as SVG: a dot for a value, a bar from the least to the greatest."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 640, 200
#: The plot's own area within the picture.
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 624, 40, 168
#: The least distance of two dates below the axis.
_DATE_PX = 90

# A picture keeps its own background, so that it is legible on any page.
STYLE = """
  .back { fill: #ffffff } .text { fill: #24292f; font: 13px sans-serif } .end { text-anchor: end }
  .middle { text-anchor: middle } .grid { stroke: #d0d7de } .mark { stroke: #0969da; fill: #0969da }
  .path { stroke: #0969da; stroke-opacity: 0.35; fill: none }
  @media (prefers-color-scheme: dark) {
    .back { fill: #161b22 } .text { fill: #e6edf3 } .grid { stroke: #3d444d }
    .mark { stroke: #58a6ff; fill: #58a6ff } .path { stroke: #58a6ff }
  }
"""


@dataclasses.dataclass(frozen=True)
class Point:
    """A value with its spread, each in the plot's unit; None is not stated."""

    date: datetime.date
    value: float | None
    least: float | None
    most: float | None

    def known(self) -> list[float]:
        return [number for number in (self.least, self.value, self.most) if number is not None]


def svg(title: str, points: Sequence[Point]) -> str:
    """The plot of points that are sorted by date, of numbers of 0 and more.

    Points of one day stand side by side in their order.
    """
    step, top = _scale(max(number for point in points for number in point.known()) or 1)
    days = _days(points)
    width = (_RIGHT - _LEFT) / ((points[-1].date - points[0].date).days + 1)

    def x(day: float) -> float:
        return _LEFT + day * width

    def y(value: float) -> float:
        return _BOTTOM - value / top * (_BOTTOM - _TOP)

    name = escape(title)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        f"<title>{name}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>',
        f'<text class="text" x="16" y="24">{name}</text>',
    ]
    for tick in range(round(top / step) + 1):
        height = y(tick * step)
        lines.append(f'<path class="grid" d="M{_LEFT} {height:.1f}H{_RIGHT}"/>')
        lines.append(
            f'<text class="text end" x="{_LEFT - 8}" y="{height + 4:.1f}">{tick * step:g}</text>'
        )
    for date, middle in _dates(points, width):
        lines.append(f'<text class="text middle" x="{x(middle):.1f}" y="190">{date}</text>')
    values = [
        f"{x(day):.1f},{y(p.value):.1f}"
        for day, p in zip(days, points, strict=True)
        if p.value is not None
    ]
    lines.append(f'<polyline class="path" points="{" ".join(values)}"/>')
    for day, point in zip(days, points, strict=True):
        at = f"{x(day):.1f}"
        low, high = y(min(point.known())), y(max(point.known()))
        if low != high:
            lines.append(f'<path class="mark" stroke-width="2" d="M{at} {low:.1f}V{high:.1f}"/>')
        if point.value is not None:
            lines.append(f'<circle class="mark" cx="{at}" cy="{y(point.value):.1f}" r="3"/>')
    return "\n".join([*lines, "</svg>", ""])


def _scale(most: float) -> tuple[float, float]:
    """The step of an axis from 0, 1 or 2 or 5 times a power of ten, and its greatest tick."""
    power = 10.0 ** math.floor(math.log10(most / 2))
    step = next(power * factor for factor in (1, 2, 5, 10) if most / (power * factor) <= 4)
    return step, step * math.ceil(most / step)


def _days(points: Sequence[Point]) -> list[float]:
    """The place of each point, in days from the start of the first one's day."""
    first = points[0].date
    return [
        (date - first).days + (place + 0.5) / len(same)
        for date, same in (
            (date, list(group)) for date, group in itertools.groupby(points, lambda p: p.date)
        )
        for place in range(len(same))
    ]


def _dates(points: Sequence[Point], width: float) -> Iterator[tuple[datetime.date, float]]:
    """The dates to write below the axis, each with the middle of its day."""
    last = -math.inf
    for date in dict.fromkeys(point.date for point in points):
        day = (date - points[0].date).days + 0.5
        if (day - last) * width >= _DATE_PX:
            last = day
            yield date, day
