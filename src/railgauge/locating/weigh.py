"""How much the results speak for a fault of one part."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from railgauge.locating import chance
from railgauge.locating.chance import Count
from railgauge.locating.parts import Part, Path, Paths, Witness

#: A node that is good with most partners must gain so much more: it is named for what comes and
#: goes, and not confirmed.
_MOSTLY_GOOD = math.log(1000)

#: A part is named where it gains more.
LEAST_GAIN = 2.0


class Found(NamedTuple):
    """A part that explains low paths, what its witnesses say, and how much it gains (nats), at the
    level of loss that says most.
    """

    part: Part
    witnesses: tuple[Witness, ...]
    lows: tuple[Path, ...]
    gain: float
    level: int

    @property
    def low(self) -> list[Witness]:
        return [witness for witness in self.witnesses if witness.level]

    @property
    def share(self) -> float:
        return len(self.low) / len(self.witnesses)


def weigh(paths: Paths, part: Part) -> Found | None:
    """What a part explains; None where it is low with less than two."""
    witnesses = paths.witnesses(part)
    low = [witness for witness in witnesses if witness.level]
    if len(low) < 2:
        return None
    best, at = 0.0, 1
    for level in sorted({witness.level for witness in low}):
        gained = chance.gain(of_groups(paths, part, witnesses, level))
        if gained > best:
            best, at = gained, level
    lows = tuple(
        path
        for _, ways in paths.paths_on(part)
        for of in ways
        for path in of
        if path in paths.open or (part.of_node and path in paths.behind)
    )
    best -= math.log(how_many(paths, part))
    if part.of_node and 2 * len(low) <= len(witnesses):
        best -= _MOSTLY_GOOD
    return Found(part, tuple(witnesses), lows, best, at)


def of_groups(
    paths: Paths, part: Part, witnesses: Iterable[Witness], level: int, strict: bool = False
) -> list[tuple[Count, Count]]:
    """What the others of each group are, and what the witnesses are, at a level (Paths.others)."""
    own: dict[str | Part, Count] = {}
    for witness in witnesses:
        low, count = own.get(witness.group, (0, 0))
        own[witness.group] = Count(low + (witness.level >= level), count + 1)
    others = paths.others(part, own, level, strict)
    return [(others[group], count) for group, count in own.items()]


def how_many(paths: Paths, part: Part) -> float:
    """How many parts of a kind there are. A fault one way is twice as many, and rarer."""
    evidence = paths.evidence
    ways = (1.5 if not part.way else 3.0) if evidence.directed else 1.0
    ends, leaves, rails = paths.ends, paths.leaves, paths.rails
    if part.kind == "node":
        return ways * len(evidence.ends)
    if part.kind in ("rail", "inbound"):
        return ways * ends
    if part.kind == "outbound":
        return float(leaves * ends)
    if part.kind == "plane":
        return float(rails)
    if part.kind == "spine":
        return float(len({name.partition(":")[2] for name in evidence.uplink_events}))
    if part.kind == "link":
        assert evidence.routes is not None
        return 2.0 * leaves * evidence.routes.spines
    return 4.0 * leaves * (rails if part.rail is not None else 1)
