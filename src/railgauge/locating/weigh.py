"""How much the results speak for a fault of one part."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
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
    levels = sorted({witness.level for witness in low})
    gains = [chance.gain(_groups(paths, part, witnesses, level)) for level in levels]
    best = max(0.0, *gains)
    level = levels[gains.index(best)] if best > 0 else 1
    best -= math.log(_how_many(paths, part))
    if part.of_node and 2 * len(low) <= len(witnesses):
        best -= _MOSTLY_GOOD
    return Found(part, tuple(witnesses), tuple(_lows(paths, part)), best, level)


def _lows(paths: Paths, part: Part) -> Iterator[Path]:
    """The low paths that a part explains: a node or rail also those that the fabric does."""
    if not part.of_node:
        yield from (path for path in paths.on(part) if path in paths.open)
        return
    for _, ways in paths.with_partners(part):
        for path in (path for of in ways for path in of):
            if path in paths.open or path in paths.behind:
                yield path


def _groups(
    paths: Paths, part: Part, witnesses: Iterable[Witness], level: int, strict: bool = False
) -> list[tuple[Count, Count]]:
    """What the others of each group are, and what the witnesses are, at a level (Paths.others)."""
    own: dict[str | Part, Count] = {}
    for witness in witnesses:
        low, count = own.get(witness.group, (0, 0))
        own[witness.group] = Count(low + (witness.level >= level), count + 1)
    others = paths.others(part, own, level, strict)
    return [(others[group], count) for group, count in own.items()]


def by_chance(
    paths: Paths,
    part: Part,
    witnesses: Collection[Witness],
    levels: Collection[int],
    may_share: Iterable[Path] | None = None,
) -> float:
    """The chance that any healthy part of the kind is low so often: at the level of loss that says
    most, times the number of levels that were tried. To accuse a node (`may_share`: low paths of
    others that may share its cause) what others are is counted strictly.
    """
    chances = [1.0] * (not levels)
    for level in levels:
        groups = _groups(paths, part, witnesses, level, may_share is not None)
        low = sum(own.low for _, own in groups)
        as_many = chance.of_as_many(low, [(others, own.all) for others, own in groups])
        gathered = Count(0, 0)
        if may_share is not None:
            gathered = paths.around_others(part, level, may_share)
        if gathered.low:
            as_many = max(as_many, chance.of_as_many(low, [(gathered, len(witnesses))]))
        chances.append(as_many)
    return min(chances) * max(len(levels), 1) * _how_many(paths, part)


def of_others(paths: Paths, part: Part, witnesses: Iterable[Witness]) -> Count:
    """What other pairs are, counted strictly, of all groups of a part's witnesses."""
    groups = [others for others, _ in _groups(paths, part, witnesses, 1, strict=True)]
    return Count(sum(count.low for count in groups), sum(count.all for count in groups))


def _how_many(paths: Paths, part: Part) -> float:
    """How many parts of a kind there are. A fault one way is twice as many, and rarer. Of a spine
    counters have named the one that it may be, whatever the results.
    """
    evidence = paths.evidence
    ways = (1.5 if not part.way else 3.0) if evidence.directed else 1.0
    routes = evidence.routes.spines if evidence.routes else 0
    leaves = 4.0 * paths.leaves * (paths.rails if part.rail is not None else 1)
    return {
        "node": ways * len(evidence.ends),
        "rail": ways * paths.ends,
        "inbound": ways * paths.ends,
        "outbound": float(paths.leaves * paths.ends),
        "plane": float(paths.rails),
        "spine": 1.0,
        "link": 2.0 * paths.leaves * routes,
    }.get(part.kind, leaves)
