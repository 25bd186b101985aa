"""Checks of a fabric of leaves and spines: how evenly its uplinks share the traffic.

All nodes send to nodes of other leaves, in rounds or all at once; before the job and after it a
command of the site reads what every uplink has carried (uplink_counters.py).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from railgauge import systems
from railgauge.checks.framework import topology
from railgauge.checks.framework.cases import Case, Cases, PairCase, PartitionCase, chosen_nodes
from railgauge.checks.framework.observation import Observation
from railgauge.checks.framework.place_run import BoundBefore
from railgauge.checks.framework.schedule import rounds
from railgauge.checks.jobs.client_server import SIDES, PairRun, PairTool
from railgauge.checks.jobs.sweep_run import JobOutput, SweepPlace, SweepRun
from railgauge.checks.jobs.uplink_counters import (
    Counting,
    confirm,
    in_mode,
    least_even_first,
    least_even_note,
)
from railgauge.model.call import Call
from railgauge.model.leaves import Leaves
from railgauge.model.measurement import Measurement
from railgauge.model.uplinks import CountersError, Shares
from railgauge.systems import Budget, Fabric, Partition
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


class FlowRun(PairRun):
    """iperf2 between two nodes, whose counters no budget limits: all share the uplinks."""

    @property
    def budgets(self) -> tuple[Budget, ...]:
        return ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class UplinksRun(SweepRun):
    """iperf2 between many nodes at once, and what the uplinks between them carried. All flows
    together are one place: what is measured is of the fabric, and no pair's.
    """

    place: FabricCase
    options: iperf2.Options
    #: the operation, with the mode as its state: `uplinks`, `alltoall packet`
    operation: str

    @property
    def fabric(self) -> Fabric:
        return _fabric(self.partition)

    @property
    def flows(self) -> Sequence[Sequence[PairCase]]:
        nodes = self.place.nodes
        if self.fabric.traffic == "alltoall":
            return all_to_all(self.place.partition, nodes, topology.leaves_of(self.partition))
        return flows(self.place.partition, nodes)

    @property
    def states_of_nodes(self) -> Mapping[str, Any]:
        mtu = self.partition.extras.mtu_bytes
        return {"emulation": "none", **({"mtu_bytes": mtu} if mtu is not None else {})}

    def counting(self, alone: bool) -> Counting:
        return Counting(self.fabric.counters)

    def observe(self, left: SweepPlace, bound: BoundBefore) -> Observation:
        rounds_of_flows, output = self.flows, left.job_output.output
        ranks = {node: rank for rank, node in enumerate(self.place.nodes)}
        readings: list[list[tuple[PairCase, Reading]]] = []
        all_calls: list[Call] = []
        facts: dict[str, Mapping[str, Any]] = {}
        for members in rounds_of_flows:
            readings.append([])
            for flow in members:
                lines = [line for role in SIDES if (line := output.exit_line(flow, role))]
                client, server = (output.printed(flow, role) for role in ("client", "server"))
                calls = [line.call for line in lines]
                reading = iperf2.read(client, server=server, calls=calls, options=self.options)
                readings[-1].append((flow, reading))
                # A node has many calls; whether it has any goes by its place among all nodes.
                all_calls += [
                    dataclasses.replace(call, rank=ranks.get(call.host, call.rank))
                    for call in calls
                ]
                facts.update({line.call.host: line.facts for line in lines})
        return Observation(self._together(readings, left.job_output), all_calls, facts)

    def _together(
        self, in_rounds: Sequence[Sequence[tuple[PairCase, Reading]]], left: JobOutput
    ) -> Reading:
        readings = [one for members in in_rounds for one in members]
        refused = [
            f"{flow.place}: {reading.reason}" for flow, reading in readings if not reading.ok
        ]
        least_even: list[Shares] = []
        try:
            if left.counting is None:
                raise CountersError("they were not counted")
            uplinks = left.counting.kept(left.folder)
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
        rate = together_gbits([reading for _, reading in members] for members in in_rounds)
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


def balance_run(place: Case, partition: Partition, metrics: Sequence[str]) -> SweepRun:
    """The run of the uplinks between all nodes, or of one flow over them."""
    fabric = _fabric(partition)
    is_alltoall = fabric.traffic == "alltoall"
    options = iperf2.Options(
        streams=fabric.streams,
        duration_s=fabric.duration_s,
        # All to all, several flows may meet on one uplink, and drain what they have buffered there.
        drain_s=_DRAIN_TOGETHER_S if is_alltoall else 5,
    )
    if isinstance(place, PairCase):
        return FlowRun(
            place=place,
            partition=partition,
            tool=PairTool(module=iperf2, options=options, **iperf2.commands(options)),
            expected_run_s=fabric.duration_s + 1.0,
            run_limit_s=fabric.duration_s + options.drain_s + 15,
        )
    assert isinstance(place, FabricCase)
    operation = in_mode("alltoall" if is_alltoall else "uplinks", fabric)
    state = operation.partition(" ")[2]
    return UplinksRun(
        place=place,
        partition=partition,
        options=options,
        operation=operation,
        required=[f"{name}_{state}" if state else name for name in metrics],
        states=iperf2.requested(options),
    )


def _fabric(partition: Partition) -> Fabric:
    fabric = partition.extras.fabric
    assert fabric is not None  # a partition with the feature has it
    return fabric


def together_gbits(rounds: Iterable[Iterable[Reading]]) -> float:
    """The rate of all flows of a round together, in Gb/s: their bytes over the time of the longest
    flow, by its own clock. A flow that ended earlier adds no rate to the time after its end.
    """
    moved = [[m for reading in members for m in reading.moved] for members in rounds]
    seconds = sum(max((m.seconds for m in of_round), default=0.0) for of_round in moved)
    payload = sum(m.payload_bytes for of_round in moved for m in of_round)
    return payload * 8e-9 / seconds if seconds else 0.0
