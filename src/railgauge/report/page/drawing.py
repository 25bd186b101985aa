"""A suspect as a small drawing: the partners that it is bad with, and those that clear it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from railgauge.verdict.campaign.cases import Case, Outcome

#: More partners do not fit; those that it is bad with come first.
_MOST = 14

_WIDTH = 400
_RADIUS_X, _RADIUS_Y = 95, 70

#: Above the highest partner and below the lowest, for names.
_MARGIN = 34


@dataclasses.dataclass(frozen=True)
class Line:
    """One pair: to which partner, where, and how many of its measurements were bad."""

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
    #: with how many others the partner is good
    cleared: int

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
        """The same in words, for screen readers."""
        parts = []
        for kind, phrase in (
            ("bad", "bad with"),
            ("good", "good with"),
            ("silent", "nothing with"),
        ):
            names = [line.partner for line in self.lines if line.kind == kind]
            if names:
                parts.append(f"{phrase} {', '.join(names)}")
        return f"{self.node} is {'; '.join(parts)}" if parts else f"{self.node} has no partner"


def draw(node: str, cases: Sequence[Case]) -> Drawing | None:
    """The drawing of a node; None where it was measured with no partner."""
    counts = _partners([node], cases)[node]
    if not counts:
        return None
    ordered = sorted(counts, key=lambda name: (not counts[name][0], not counts[name][1], name))
    shown = ordered[:_MOST]
    of_partners = _partners(shown, cases)
    reach = max(_RADIUS_Y * abs(math.sin(2 * math.pi * n / len(shown))) for n in range(len(shown)))
    half = round(reach) + _MARGIN
    lines = []
    for number, partner in enumerate(shown):
        angle = 2 * math.pi * number / len(shown) + math.pi
        dx, dy = math.cos(angle), math.sin(angle)
        x = round(_WIDTH / 2 + _RADIUS_X * dx)
        y = round(half + _RADIUS_Y * dy)
        anchor = "middle" if abs(dx) < 0.4 else "start" if dx > 0 else "end"
        others = of_partners[partner].items()
        cleared = sum(good > 0 and not bad for other, (bad, good, _) in others if other != node)
        # Two lines of text stand above what is on top.
        lift = 13 if cleared and dy < -0.6 else 0
        text_x, text_y = round(x + 9 * dx), round(y + 12 * dy + 4) - lift
        bad, good, silent = counts[partner]
        lines.append(Line(partner, x, y, text_x, text_y, anchor, bad, good, silent, cleared))
    return Drawing(node, _WIDTH, 2 * half, tuple(lines), len(ordered) - len(shown))


def _partners(nodes: Sequence[str], cases: Sequence[Case]) -> dict[str, dict[str, list[int]]]:
    """Of each of these nodes: its partners, with how many results are bad, good, and none."""
    partners: dict[str, dict[str, list[int]]] = {node: {} for node in nodes}
    for case in cases:
        if len(case.nodes) != 2:
            continue
        a, b = case.nodes
        for node, partner in ((a, b), (b, a)):
            if node in partners:
                place = (Outcome.FAILED, Outcome.PASSED, Outcome.UNMEASURED).index(case.outcome)
                partners[node].setdefault(partner, [0, 0, 0])[place] += 1
    return partners
