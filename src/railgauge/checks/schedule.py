"""Which places of a sweep are measured at once: its rounds.

In a round no node, or where the rails are measured at once no rail of a node, has two partners; and
all places of a round are under one condition, so that what they share is loaded alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from railgauge import systems
from railgauge.checks.cases import Case, RailCase


def rounds(places: Sequence[Case], sweep: systems.Sweep) -> list[list[int]]:
    """The places of each round, by their numbers.

    Each goes into the first round of its condition in which all that it uses is free: neighbours in
    a ring of an even number of nodes, in its order, take two rounds, of an odd number three.
    """
    of_condition: dict[tuple[object, ...], list[tuple[list[int], set[Hashable]]]] = {}
    for number, place in enumerate(places):
        at_once = sweep.rails_at_once and isinstance(place, RailCase)
        known = of_condition.setdefault(() if at_once else place.condition, [])
        used = _uses(place, at_once)
        for members, taken in known:
            if sweep.schedule != "quiet" and not taken & used:
                members.append(number)
                taken |= used
                break
        else:
            known.append(([number], used))
    return [members for known in of_condition.values() for members, _ in known]


def _uses(place: Case, rails_at_once: bool) -> set[Hashable]:
    if rails_at_once and isinstance(place, RailCase):
        return {(place.server, place.server_rail), (place.client, place.client_rail)}
    return set(place.nodes)
