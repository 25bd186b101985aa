"""The rounds of a sweep: the places that are measured at once.

In a round no node has two partners; no rail of a node where the rails are measured at once. All
places of a round are under one condition, so that what they share is loaded alike: in a round of
pairs within leaves none crosses the fabric.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import get_args

from railgauge import hostlist, systems
from railgauge.campaign import variables
from railgauge.checks.framework import pairing
from railgauge.checks.framework.cases import Case, PairCase, RailCase, chosen_nodes, groups
from railgauge.checks.framework.topology import leaves_of
from railgauge.common.errors import RailgaugeError
from railgauge.model.leaves import Leaves, Within
from railgauge.model.measurement import Load
from railgauge.systems import Partition
from railgauge.systems.schema import Schedule

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)

#: Longer ones are no numbers of this kind.
_DIGITS = 18

#: The most places of a check on a partition by schedules in which every node has many partners: a
#: dozen checks list them, and a session keeps all in memory.
MOST_PLACES = 150_000


def of(partition: Partition) -> systems.Sweep:
    """How this session measures a partition: by the session's variables, or else by its data.

    Where the data says `cover`, and all nodes of the session are on one leaf, as the gate's may be,
    they are measured as neighbours.
    """
    changes: dict[str, object] = {}
    if partition.extras.sweep.schedule == "cover" and _is_of_one_leaf(partition):
        changes["schedule"] = "neighbours"
    schedule, seed = os.environ.get(variables.SCHEDULE), os.environ.get(variables.SEED)
    if schedule:
        changes["schedule"] = schedule
    if seed:
        changes["seed"] = _number(seed)
    if more := os.environ.get(variables.LOCATE_ROUNDS):
        changes["locate_rounds"] = _number(more)
    return partition.extras.sweep.model_copy(update=changes)


def _number(text: str) -> int | str:
    """The number that it is; the text where it is none, or too long for one."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else text


def _is_of_one_leaf(partition: Partition) -> bool:
    leaves = leaves_of(partition)
    return leaves is not None and len(leaves.groups(chosen_nodes(partition.nodes))) == 1


def problem(partition: Partition) -> RailgaugeError | None:
    """Why a partition cannot be measured by the session's schedule; None where it can."""
    sweep, nodes = of(partition), chosen_nodes(partition.nodes)
    name, thing = sweep.schedule, f"partition {partition.name}: schedule {sweep.schedule}"
    if name not in SCHEDULES:
        return RailgaugeError(
            f"{variables.SCHEDULE} is {name!r}, expected one of {', '.join(SCHEDULES)}",
            next_step=f"unset {variables.SCHEDULE}, or: railgauge accept --schedule NAME",
        )
    if not isinstance(sweep.seed, int):
        return RailgaugeError(
            f"{variables.SEED} is {sweep.seed!r}, expected an integer of 0 or more",
            next_step=f"unset {variables.SEED}, or: railgauge accept --seed N",
        )
    if not isinstance(sweep.locate_rounds, int):
        return RailgaugeError(
            f"{variables.LOCATE_ROUNDS} is {sweep.locate_rounds!r}, expected an integer of 0 or "
            "more",
            next_step=f"unset {variables.LOCATE_ROUNDS}, or: railgauge accept --locate-rounds N",
        )
    leaves, jobs = None, groups(partition)
    if name == "cover":
        leaves = leaves_of(partition)
        if leaves is None:
            return RailgaugeError(
                f"{thing} needs to know the leaf of every node, and neither extras.leaves nor "
                "Slurm's topology (topology/tree) says it",
                next_step="leaves in the partition's extras: docs/sweeps.md; or another --schedule",
            )
        of_one = [members for members in jobs if len(leaves.groups(members)) < 2]
        if of_one:
            return RailgaugeError(
                f"{thing} is of pairs of leaves, and the nodes of one job, "
                f"{hostlist.fold(of_one[0])}, are all on {leaves.of_node[of_one[0][0]]}",
                next_step="more --nodes, more nodes_per_job, or another --schedule",
            )
    rdma = partition.extras.rdma if "rdma" in partition.features else None
    if name == "shift" and (rdma is None or rdma.rails < 2 or not rdma.across_rails):
        return RailgaugeError(
            f"{thing} is of rails that reach each other, and it has none: extras.rdma.rails above "
            "1 with across_rails",
            next_step="--partition NAME for one that has them, or another --schedule",
        )
    rails = rdma.rails if rdma else 1
    count = sum(pairing.count(members, leaves, sweep) for members in jobs)
    if count * rails > MOST_PLACES:
        of_rails = f" of {rails} rails" if rails > 1 else ""
        return RailgaugeError(
            f"{thing} of {len(nodes)} nodes is {count} pairs{of_rails}, and a session may have "
            f"{MOST_PLACES} places a check",
            next_step="nodes_per_job in extras.sweep, fewer --nodes, or --schedule random",
        )
    return None


def session_problem() -> RailgaugeError | None:
    """The first problem of the partitions of this ReFrame session."""
    import reframe.core.runtime as rt

    session = rt.runtime().system
    chosen = {partition.name for partition in session.partitions}
    return first_problem(p for p in systems.load(session.name).partitions if p.name in chosen)


def first_problem(partitions: Iterable[Partition]) -> RailgaugeError | None:
    """The first problem of these partitions."""
    found = (problem(partition) for partition in partitions if is_paired(partition))
    return next((one for one in found if one is not None), None)


def is_paired(partition: Partition) -> bool:
    """Whether this session has two nodes of a partition."""
    return len(chosen_nodes(partition.nodes)) > 1


def pairs(partition: Partition) -> list[tuple[str, str]]:
    """The (server, client) of every pair of this session's nodes; none where its schedule cannot be
    done here, for which the session is refused.
    """
    if problem(partition):
        return []
    return pairing.pairs(chosen_nodes(partition.nodes), leaves_of(partition), of(partition))


def within(place: Case, leaves: Leaves | None) -> Within | None:
    """Whether the two nodes of a place are on one leaf; None of other places, or where that is not
    known.
    """
    return leaves.within(place.nodes) if leaves and isinstance(place, PairCase) else None


def load(place: Case, members: Sequence[Case]) -> Load | None:
    """What else is measured in a place's round; None where nothing goes from node to node."""
    if not isinstance(place, PairCase):
        return None
    return "loaded" if len(members) > 1 else "quiet"


def rounds(
    places: Sequence[Case], sweep: systems.Sweep, leaves: Leaves | None = None
) -> list[list[int]]:
    """The places of each round, by their numbers.

    Each goes into the first round of its condition in which all that it uses is free: neighbours in
    a ring of an even number of nodes, in its order, take two rounds, of an odd number three.
    """
    by_condition: dict[tuple[object, ...], _Rounds] = {}
    at_once = sweep.rails_at_once
    for number, place in enumerate(places):
        # A large partition has rails by the hundred thousand: they are not put into functions.
        ends: Collection[Hashable]
        condition: tuple[object, ...]
        if isinstance(place, RailCase):
            server, client = place.server, place.client
            server_rail, client_rail = place.server_rail, place.client_rail
            if at_once:
                condition = (server_rail == client_rail, *place.beside_rails)
                ends = (server, server_rail), (client, client_rail)
            else:
                condition = (server_rail, client_rail, *place.beside_rails)
                ends = server, client
        else:
            condition, ends = place.condition, place.nodes
        how = (within(place, leaves), condition) if leaves else condition
        condition_rounds = by_condition.get(how)
        if condition_rounds is None:
            condition_rounds = by_condition[how] = _Rounds(sweep.schedule == "quiet")
        condition_rounds.add(number, ends)
    return [
        members
        for condition_rounds in by_condition.values()
        for members in condition_rounds.members
    ]


class _Rounds:
    """Those of one condition: the numbers of the places of each, and by what is used in which, a
    bit a round. `alone` puts every place into one of its own.
    """

    def __init__(self, alone: bool) -> None:
        self.members: list[list[int]] = []
        self._alone = alone
        self._busy: dict[Hashable, int] = {}

    def add(self, number: int, used: Collection[Hashable]) -> None:
        taken, busy = 0, self._busy
        for end in used:
            taken |= busy.get(end, 0)
        # The lowest bit that is not set.
        first = len(self.members) if self._alone else (~taken & (taken + 1)).bit_length() - 1
        if first == len(self.members):
            self.members.append([])
        self.members[first].append(number)
        for end in used:
            busy[end] = busy.get(end, 0) | 1 << first
