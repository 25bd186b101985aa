"""What judges a number for which no baseline is stored yet: the first day of a system.

A stored number of somebody else, a share of what physics allows, or the peers of one campaign tell
a bad link from a good one, and not whether all of them are slow alike. So where any of them judges
the best verdict is a provisional one; what none of them judges keeps the verdict inconclusive.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

from railgauge.model.record import Row
from railgauge.verdict.compare import Case
from railgauge.verdict.outliers import condition, have_peers


@dataclasses.dataclass(frozen=True)
class FirstDay:
    """How many conditions stand on what; `unjudged` are the numbers that nothing judges, one of
    each condition.
    """

    shares: int
    published: int
    peers: int
    unjudged: tuple[tuple[Case, Row], ...]

    @property
    def provisional(self) -> bool:
        return bool(self.shares or self.published or self.peers)

    @property
    def message(self) -> str:
        counts = (
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
        if not (case.passed or case.unreferenced):
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
        kinds_found.count("share"),
        kinds_found.count("published"),
        len(with_peers),
        tuple(measured[0] for key, measured in bare.items() if key not in with_peers),
    )
