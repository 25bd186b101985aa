"""A plot of how cost grows with what is worked on, as SVG: both axes are logarithms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from railgauge.site.figure_plot import STYLE

_WIDTH, _HEIGHT = 640, 400
#: The plot's own area within the picture; names stand on its right.
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 480, 40, 360
#: The least distance of two names.
_NAME_PX = 18
#: Both axes go so far: three times double, and as much again of a cost that grows faster.
_TICKS = (1, 2, 4, 8, 16)


def _x(times: float) -> float:
    return _LEFT + math.log2(times) / 3 * (_RIGHT - _LEFT)


def _y(times: float) -> float:
    most = math.log2(_TICKS[-1])
    return _BOTTOM - min(max(math.log2(times), 0), most) / most * (_BOTTOM - _TOP)


def svg(title: str, growth: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """The plot of each quantity's sizes and costs, by its name; both as times those of its first.

    A dashed line is what grows as its size does.
    """
    return "\n".join([*_lines(escape(title), growth), "</svg>", ""])


def _lines(title: str, growth: Mapping[str, Sequence[tuple[float, float]]]) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img">'
    )
    yield f"<title>{title}</title>"
    yield f"<style>{STYLE}</style>"
    yield f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
    yield f'<text class="text" x="16" y="24">{title}</text>'
    for tick in _TICKS:
        yield f'<path class="grid" d="M{_LEFT} {_y(tick):.1f}H{_RIGHT}"/>'
        yield f'<text class="text end" x="{_LEFT - 8}" y="{_y(tick) + 4:.1f}">{tick}</text>'
        if tick < _TICKS[-1]:
            yield f'<text class="text middle" x="{_x(tick):.1f}" y="{_BOTTOM + 22}">{tick}</text>'
    ends = f"{_x(1):.1f},{_y(1):.1f} {_x(8):.1f},{_y(8):.1f}"
    yield f'<polyline class="path" stroke-dasharray="6 4" points="{ends}"/>'
    last = -math.inf
    for name, points in sorted(growth.items(), key=lambda one: -one[1][-1][1] / one[1][0][1]):
        size, cost = points[0]
        drawn = [(_x(one / size), _y(its / cost)) for one, its in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
        yield f'<polyline class="mark" fill-opacity="0" points="{path}"/>'
        for x, y in drawn:
            yield f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        last = max(drawn[-1][1] + 4, last + _NAME_PX)
        yield f'<text class="text" x="{_RIGHT + 12}" y="{last:.1f}">{escape(name)}</text>'
