"""Checks of a fabric of leaves and spines: how evenly its uplinks share the traffic.

All nodes send to nodes of other leaves, in rounds or all at once; before the job and after it a
command of the site reads what every uplink has carried (uplink_counters.py).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge import systems
from railgauge.checks.framework import topology
from railgauge.checks.framework.cases import Case, Cases, PairCase, PartitionCase, chosen_nodes
from railgauge.checks.framework.check import StrictCheck
from railgauge.checks.framework.observation import Judged, Observation
from railgauge.checks.framework.programs import Programs
from railgauge.checks.framework.protections import JobEvidence
from railgauge.checks.framework.schedule import rounds
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.jobs.uplink_counters import (
    Counting,
    confirm,
    in_mode,
    least_even_first,
    least_even_note,
)
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.leaves import Leaves
from railgauge.model.measurement import Measurement
from railgauge.model.uplinks import CountersError, Shares
from railgauge.node.orders.places import ClientServerOrder
from railgauge.systems import Fabric, Partition
from railgauge.tools import Completeness, Reading, iperf2

#: How long flows may drain that have shared an uplink: one of 48 in the lab took 10 s.
_DRAIN_TOGETHER_S = 15


def flows(partition: str, nodes: Sequence[str]) -> list[list[PairCase]]:
    """Rounds of pairs (server, client): every node sends to those that are a quarter, a half and
    three quarters of all nodes away, in their order, which is on other leaves where nodes are named
    leaf by leaf.
    """
    count = len(nodes)
    rounds_of_pairs = []
    for shift in sorted({count // 4, count // 2, count - count // 4} - {0, count}):
        pairs = [PairCase(partition, nodes[(i + shift) % count], nodes[i]) for i in range(count)]
        rounds_of_pairs += [
            [pairs[n] for n in numbers] for numbers in rounds(pairs, systems.Sweep())
        ]
    return rounds_of_pairs


def all_to_all(partition: str, nodes: Sequence[str], leaves: Leaves | None) -> list[list[PairCase]]:
    """One round, in which every node sends to all nodes that are not on its own leaf; where leaves
    are not known, to all others.
    """
    ends = itertools.permutations(nodes, 2)
    apart = [e for e in ends if leaves is None or leaves.within(e) != "leaf"]
    return [[PairCase(partition, server, client) for server, client in apart]]


@dataclasses.dataclass(frozen=True)
class FabricCase(PartitionCase):
    """The uplinks between the nodes of a partition."""

    @property
    def parts(self) -> tuple[str, ...]:
        return ("uplinks",)


class FabricCases(Cases[FabricCase]):
    """The partitions whose switches count what they carry, as extras.fabric says, with all of their
    nodes: some of them need not load every leaf.
    """

    grows = True

    def __init__(self) -> None:
        super().__init__("fabric", "tcp")

    def on(self, partition: Partition) -> Iterable[FabricCase]:
        nodes = chosen_nodes(partition.nodes)
        whole = nodes == partition.nodes and partition.extras.sweep.nodes_per_job is None
        return (
            [FabricCase(partition.name, nodes)] if whole and not self.lacks_nodes(partition) else []
        )

    def lacks_description(self, partition: Partition) -> str:
        if partition.extras.sweep.nodes_per_job is None:
            return ""
        return "needs all nodes in one job, and extras.sweep has nodes_per_job"

    def lacks_nodes(self, partition: Partition) -> str:
        if len(partition.nodes) < 2:
            return "needs two nodes"
        fabric = partition.extras.fabric
        if fabric is not None and fabric.traffic == "alltoall":
            leaves = topology.leaves_of(partition)
            if not any(all_to_all(partition.name, partition.nodes, leaves)):
                return "needs nodes of two leaves, and all are on one"
        return ""

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return range(2, len(partition.nodes) + 1)


class FabricCheck(SweepCheck):
    """iperf2 between many nodes at once, and what the uplinks between them carried.

    A concrete check gives its own `cases = FabricCases()`. All pairs together are one place: what
    is measured is of the fabric, and no pair's.
    """

    here: Case
    tool = iperf2
    programs = Programs(iperf2)
    start_limit_s = 30
    runner = "client_server"

    @property
    def fabric(self) -> Fabric:
        fabric = self.partition_data.extras.fabric
        assert fabric is not None  # a partition with the feature has it
        return fabric

    @property
    def options(self) -> iperf2.Options:
        # All to all, several flows may meet on one uplink, and drain what they have buffered there.
        drain_s = _DRAIN_TOGETHER_S if self.fabric.traffic == "alltoall" else 5
        return iperf2.Options(
            streams=self.fabric.streams, duration_s=self.fabric.duration_s, drain_s=drain_s
        )

    # --- the job -------------------------------------------------------------------------------

    @property
    def operation(self) -> str:
        """The operation, with the mode as its state: `uplinks`, `alltoall packet`."""
        what = "alltoall" if self.fabric.traffic == "alltoall" else "uplinks"
        return in_mode(what, self.fabric)

    def required_metrics(self) -> Sequence[str]:
        state = self.operation.partition(" ")[2]
        return [f"{name}_{state}" if state else name for name in self.metrics]

    @functools.cached_property
    def _flows(self) -> list[list[PairCase]]:
        if self.fabric.traffic == "alltoall":
            leaves = topology.leaves_of(self.partition_data)
            return all_to_all(self.target.partition, self.target.nodes, leaves)
        return flows(self.target.partition, self.target.nodes)

    def rounds_of(self, places: Sequence[Case]) -> list[list[Case]]:
        """The rounds of the flows, which together are the place."""
        return [list(members) for members in self._flows]

    def roles(self) -> Mapping[str, str]:
        assert isinstance(self.here, PairCase)
        return {"server": self.here.server, "client": self.here.client}

    def order(self) -> ClientServerOrder:
        commands = iperf2.commands(self.options)
        return ClientServerOrder(
            start_limit_s=self.start_limit_s,
            run_limit_s=self.fabric.duration_s + self.options.drain_s + 15,
            budgets=(),
            server=tuple(commands["server"]),
            client=tuple(commands["client"]),
            version=tuple(commands["version"]),
        )

    def expected_run_s(self) -> float:
        return float(self.fabric.duration_s) + 1

    def longest_run_s(self) -> float:
        return 2 * self.start_limit_s + self.fabric.duration_s + self.options.drain_s + 35

    def count_uplinks(self) -> Counting:
        return Counting(self.fabric.counters)

    # --- what it left --------------------------------------------------------------------------

    def places_to_judge(self) -> Sequence[Case]:
        """The whole as one place, where the job began."""
        if self._raw.places or self._raw.lost:
            return self.places
        # The failures of the job say why.
        self.not_run = {place.place: "its job ended before it" for place in self.places}
        return []

    def judge_place(self, place: Case) -> Judged:
        lost = [failure for node in sorted(self._raw.lost) for failure in self._end.lost(node)]
        if lost:
            whole = dataclasses.replace(self._end.job, nodes=place.nodes)
            return Judged(place, whole, lost)
        return StrictCheck.judge_place(self, place)

    def _evidence(self) -> tuple[JobEvidence, list[Failure]]:
        return StrictCheck._evidence(self)

    def requested(self) -> Mapping[str, Any]:
        return iperf2.requested(self.options)

    def requested_of_nodes(self) -> Mapping[str, Any]:
        mtu = self.partition_data.extras.mtu_bytes
        return {"emulation": "none", **({"mtu_bytes": mtu} if mtu is not None else {})}

    def read(self) -> Observation:
        sides = [self._sides_of(flow) for members in self._flows for flow in members]
        calls = [call for _, _, of_flow, _ in sides for call in of_flow]
        facts = {
            node: node_facts for _, _, _, stated in sides for node, node_facts in stated.items()
        }
        readings = [(flow, reading) for flow, reading, _, _ in sides]
        return Observation(self._together(readings), calls, facts)

    def _sides_of(
        self, flow: PairCase
    ) -> tuple[PairCase, Reading, list[Call], dict[str, Mapping[str, Any]]]:
        """The reading of a flow, its exit lines, and its nodes' facts."""
        with self.at(flow):
            lines = [line for role in ("server", "client") if (line := self.exit_line(role))]
            client, server = self.output("client"), self.output("server")
        calls = [line.call for line in lines]
        reading = iperf2.read(client, server=server, calls=calls, options=self.options)
        stated = {line.call.host: line.facts for line in lines}
        # A node has many calls; whether it has any goes by its place among all nodes.
        ranks = self._rank_of
        numbered = [dataclasses.replace(c, rank=ranks.get(c.host, c.rank)) for c in calls]
        return flow, reading, numbered, stated

    @functools.cached_property
    def _rank_of(self) -> Mapping[str, int]:
        return {node: rank for rank, node in enumerate(self.target.nodes)}

    def _together(self, readings: Sequence[tuple[PairCase, Reading]]) -> Reading:
        refused = [
            f"{flow.place}: {reading.reason}" for flow, reading in readings if not reading.ok
        ]
        least_even: list[Shares] = []
        try:
            if self._counting is None:
                raise CountersError("they were not counted")
            uplinks = self._counting.kept(Path(self.stagedir))
            least_even = least_even_first(uplinks)
            if not refused:
                moved = sum(m.payload_bytes for _, reading in readings for m in reading.moved)
                confirm(sum(each.sent_bytes for each in uplinks), moved, iperf2.TOOL)
        except CountersError as error:
            refused.append(f"`{' '.join(self.fabric.counters)}`: {error}")
        if refused:
            more = [f"and {len(refused) - 1} more"] if len(refused) > 1 else []
            # What pairs failed for may be an uplink.
            hint = [least_even_note(least_even)] if least_even else []
            return Reading.invalid("; ".join([refused[0], *more, *hint]))
        unproved = [r for _, r in readings if r.completeness is not Completeness.PROVED]
        like = Measurement(
            *("jain_index", least_even[0].jain, iperf2.TOOL, self.operation, "tcp"),
            streams=self.fabric.streams,
        )
        by_flow = {flow.place: reading for flow, reading in readings}
        in_rounds = [[by_flow[flow.place] for flow in members] for members in self._flows]
        rate = together_gbits(in_rounds)
        together = dataclasses.replace(like, metric="bandwidth", value=rate)
        return Reading(
            True,
            unproved[0].reason
            if unproved
            else f"{len(readings)} pairs over {len(least_even)} ways",
            unproved[0].completeness if unproved else Completeness.PROVED,
            (like, together),
            dict(readings[0][1].seen),
            notes=(least_even_note(least_even),),
        )


def together_gbits(rounds: Iterable[Iterable[Reading]]) -> float:
    """The rate of all flows of a round together, in Gb/s: their bytes over the time of the longest
    flow, by its own clock. A flow that ended earlier adds no rate to the time after its end.
    """
    moved = [[m for reading in members for m in reading.moved] for members in rounds]
    seconds = sum(max((m.seconds for m in of_round), default=0.0) for of_round in moved)
    payload = sum(m.payload_bytes for of_round in moved for m in of_round)
    return payload * 8e-9 / seconds if seconds else 0.0
