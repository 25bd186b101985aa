"""Whether patrols come often enough: every node, and every two leaves, within `every_days`."""

from __future__ import annotations

import dataclasses
import datetime
import math
from typing import TYPE_CHECKING

from railgauge.patrol import journal
from railgauge.patrol.choose import leaves_at_once, patrols_to_meet, ways_of

if TYPE_CHECKING:
    from railgauge.patrol.run import Fleet


@dataclasses.dataclass(frozen=True)
class Pace:
    """The nodes that wait for longer than `every_days`, and of how many; how many paths between two
    leaves were measured within them, and of how many; and the least patrols a day to see all.
    """

    every_days: float
    waiting: list[str]
    system_nodes: int
    measured_ways: int
    system_ways: int
    patrols_a_day: int


def of(system: str, fleet: Fleet, most: int, every_days: float, now: datetime.datetime) -> Pace:
    """The pace of patrols of `most` nodes each."""
    idle = [one for candidates in fleet.candidates.values() for one in candidates]
    everybody = len({*(one.node for one in idle), *fleet.left_alone})
    fabrics = {frozenset(leaves) for leaves in fleet.leaves.values()}
    ways = {way for leaves in fabrics for way in ways_of(leaves)}
    # What one partition measures is measured for those on some of its leaves too.
    largest = [leaves for leaves in fabrics if not any(leaves < other for other in fabrics)]
    for_ways = sum(patrols_to_meet(len(leaves), leaves_at_once(most)) for leaves in largest)
    return Pace(
        every_days,
        waiting=list(dict.fromkeys(one.node for one in idle if one.days > every_days)),
        system_nodes=everybody,
        measured_ways=len(ways & journal.ways(system, now, every_days).keys()),
        system_ways=len(ways),
        patrols_a_day=math.ceil(max(everybody / most, for_ways) / every_days),
    )
