"""What judges a number for which no baseline is stored yet: the first day of a system.

A stored number of another site, a share of what physics allows, a floor, or the peers of one
campaign distinguish a bad link from a good one, but not whether all of them are slow. So where any
of them judges the best verdict is a provisional one; what none of them judges keeps the verdict
inconclusive. Only where a system's description takes floors for enough do they accept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence

from railgauge.model.measurement import COUNTS
from railgauge.model.record import Row
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.outliers import condition, have_peers


@dataclasses.dataclass(frozen=True)
class FirstDay:
    """How many conditions stand on what; `unjudged` are the numbers that nothing judges, one of
    each condition.
    """

    floors: int
    shares: int
    published: int
    peers: int
    unjudged: tuple[tuple[Case, Row], ...]

    @property
    def provisional(self) -> bool:
        return bool(self.floors or self.shares or self.published or self.peers)

    @property
    def message(self) -> str:
        counts = (
            (self.floors, "by floors, which prove function and not speed"),
            (self.shares, "by their share of the limit"),
            (self.published, "by published numbers"),
            (self.peers, "by their peers"),
        )
        judged = ", ".join(f"{count} {how}" for count, how in counts if count)
        return f"no baseline of this site for all of it yet: conditions judged {judged}"


def first_day(cases: Sequence[Case]) -> FirstDay:
    """Of the cases that nothing speaks against."""
    kinds: dict[Hashable, str] = {}
    bare: dict[Hashable, list[tuple[Case, Row]]] = {}
    for case in cases:
        # A place that was measured again is evidence for the node at fault, and accepts nothing.
        if case.repeats or not (case.passed or case.unreferenced):
            continue
        for row in case.rows:
            if row.gates:
                key = condition(case, row.measurement)
                if row.reference is not None:
                    kinds[key] = row.reference.kind
                elif case.unreferenced:
                    bare.setdefault(key, []).append((case, row))
    with_peers = {key for key, measured in bare.items() if have_peers(measured)}
    kinds_found = list(kinds.values())
    return FirstDay(
        0 if any(case.floors_suffice for case in cases) else floors(cases),
        kinds_found.count("share"),
        kinds_found.count("published"),
        len(with_peers),
        tuple(measured[0] for key, measured in bare.items() if key not in with_peers),
    )


def floors(cases: Iterable[Case]) -> int:
    """How many conditions of the places that passed are judged by a floor, at a place that nothing
    better judges. A floor that no stored number would replace counts only where all others are
    floors, too.
    """
    replaceable: set[Hashable] = set()
    final: set[Hashable] = set()
    better_anywhere = False
    for case in cases:
        rows = [
            row
            for row in (case.rows if case.passed else ())
            if row.reference is not None and row.gates and row.measurement.unit not in COUNTS
        ]
        if any(row.reference is not None and row.reference.kind != "floor" for row in rows):
            better_anywhere = True
            continue
        for row in rows:
            (final if row.own else replaceable).add(condition(case, row.measurement))
    return len(replaceable if better_anywhere else replaceable | final)
