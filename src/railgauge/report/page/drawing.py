"""A suspect with its partners as a small drawing: who it is bad with, and who clears it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from railgauge.verdict.compare import Case, Outcome

#: More partners do not fit; those that it is bad with come first.
_MOST = 14

_WIDTH, _HEIGHT = 400, 200
_RADIUS_X, _RADIUS_Y = 95, 70


@dataclasses.dataclass(frozen=True)
class Line:
    """One pair: to whom, where, and how many of its measurements were bad."""

    partner: str
    x: int
    y: int
    #: where the partner's name stands, and which end of it
    text_x: int
    text_y: int
    anchor: str
    bad: int
    good: int
    #: that came to nothing
    silent: int

    @property
    def kind(self) -> str:
        """`bad`, `good`, or `silent`."""
        return "bad" if self.bad else "good" if self.good else "silent"


@dataclasses.dataclass(frozen=True)
class Drawing:
    """`lines` begin in the middle; `left_out` counts partners that do not fit."""

    node: str
    width: int
    height: int
    lines: tuple[Line, ...]
    left_out: int

    @property
    def words(self) -> str:
        """The same for who does not see it."""
        parts = []
        for kind, said in (("bad", "bad with"), ("good", "good with"), ("silent", "nothing with")):
            names = [line.partner for line in self.lines if line.kind == kind]
            if names:
                parts.append(f"{said} {', '.join(names)}")
        return f"{self.node} is {'; '.join(parts)}" if parts else f"{self.node} has no partner"


def draw(node: str, cases: Sequence[Case]) -> Drawing | None:
    """Of a node, or of None where it was measured with nobody."""
    counts: dict[str, list[int]] = {}
    for case in cases:
        if len(case.nodes) == 2 and node in case.nodes:
            partner = case.nodes[1] if case.nodes[0] == node else case.nodes[0]
            place = (Outcome.FAILED, Outcome.PASSED, Outcome.UNMEASURED).index(case.outcome)
            counts.setdefault(partner, [0, 0, 0])[place] += 1
    if not counts:
        return None
    ordered = sorted(counts, key=lambda name: (not counts[name][0], not counts[name][1], name))
    shown = ordered[:_MOST]
    lines = []
    for number, partner in enumerate(shown):
        angle = 2 * math.pi * number / len(shown) + math.pi
        dx, dy = math.cos(angle), math.sin(angle)
        x = round(_WIDTH / 2 + _RADIUS_X * dx)
        y = round(_HEIGHT / 2 + _RADIUS_Y * dy)
        anchor = "middle" if abs(dx) < 0.4 else "start" if dx > 0 else "end"
        lines.append(
            Line(partner, x, y, round(x + 9 * dx), round(y + 12 * dy + 4), anchor, *counts[partner])
        )
    return Drawing(node, _WIDTH, _HEIGHT, tuple(lines), len(ordered) - len(shown))
