"""What is measured of NCCL: which groups of nodes, operations and transports."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

from railgauge import hostlist
from railgauge.checks.framework.cases import (
    Cases,
    GroupCase,
    Mismatch,
    chosen_nodes,
    from_to,
    is_series,
)
from railgauge.model.references import Condition
from railgauge.model.sizes import format_size
from railgauge.systems import Partition
from railgauge.systems.nccl import OF_THE_SERIES, Nccl, Scale, Transport


def fabric_of(partition: Partition) -> Nccl:
    fabric = partition.extras.nccl
    assert fabric is not None  # a partition with the feature has it
    return fabric


#: Groups of other than one or two nodes are measured whole or not at all.
_IN_PARTS: tuple[Scale, ...] = ("node", "pair")


def _segments(partition: Partition) -> list[tuple[str, ...]]:
    """The racks or scalable units: consecutive nodes of the partition's list, less those absent."""
    everyone = hostlist.expand(partition.extras.nodes)
    size, present = fabric_of(partition).segment_nodes or len(everyone), frozenset(partition.nodes)
    return [
        tuple(node for node in everyone[start : start + size] if node in present)
        for start in range(0, len(everyone), size)
    ]


def node_groups(
    partition: Partition, scale: Scale, chosen: tuple[str, ...]
) -> list[tuple[str, ...]]:
    """The groups of nodes that are measured together at a scale, of those `chosen`.

    Pairs are neighbours in a ring within a segment, so that a bad node shows in two of them.
    Segments, and all, are measured only where the session has all of their nodes: for fewer there
    is no number to compare with.
    """
    segments, there = _segments(partition), frozenset(chosen)
    if scale == "node":
        return [(node,) for node in chosen]
    if scale == "pair":
        present = (tuple(node for node in segment if node in there) for segment in segments)
        return [pair for segment in present for pair in ring(segment)]
    # Two nodes are a pair, and one segment is the same as all.
    if scale == "segment":
        whole = [s for s in segments if len(s) > 2 and there.issuperset(s)]
        return whole if len(segments) > 1 else []
    return [chosen] if len(chosen) > 2 and there == set(partition.nodes) else []


def _operations(partition: Partition, scale: Scale) -> list[str]:
    fabric = fabric_of(partition)
    operations = list(fabric.operations.get(scale, []))
    if scale == "all" and len(_segments(partition)) == 1:
        # The only segment is measured as all.
        operations += fabric.operations.get("segment", [])
    return list(dict.fromkeys(operations))


def ring(nodes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Neighbours, the last of them with the first; one pair where there are two."""
    if len(nodes) < 2:
        return []
    following = (*nodes[1:], nodes[0])
    pairs = list(zip(nodes, following, strict=True))
    return pairs[:1] if len(nodes) == 2 else pairs


def places_of(partition: Partition, nodes: Sequence[str]) -> list[int]:
    """Where nodes stand in the partition's list."""
    known = _numbers(partition.extras.nodes)
    return [known[node] for node in nodes]


@functools.cache
def _numbers(nodes: str) -> Mapping[str, int]:
    return {node: number for number, node in enumerate(hostlist.expand(nodes))}


def _lacks_every_device(partition: Partition, transport: Transport, nodes: Sequence[str]) -> bool:
    """Whether it would cross RDMA devices of which a node has none left."""
    extras, fabric = partition.extras, fabric_of(partition)
    if not extras.absent and fabric.devices(transport):
        return False  # As a rule, and a large partition has many groups.
    crosses = fabric.crosses_nics(transport, fabric.domains(transport, places_of(partition, nodes)))
    return crosses and not all(
        fabric.devices(transport, extras.absent_devices(node)) for node in nodes
    )


class NcclCases(Cases[GroupCase]):
    """All that is measured at a scale.

    Every operation of the partition's description with the default transport, all_reduce also with
    each other one. Sockets are slow, and iperf2 measures TCP everywhere: the first pair stands for
    the others.
    """

    def __init__(self, scale: Scale) -> None:
        super().__init__("nccl")
        self.scale = scale
        self.in_groups = scale in _IN_PARTS

    def on(self, partition: Partition) -> Iterable[GroupCase]:
        return self.of_group(partition, chosen_nodes(partition.nodes))

    def of_group(self, partition: Partition, nodes: tuple[str, ...]) -> Iterable[GroupCase]:
        """Segments are those of the whole partition."""
        return self._among(partition, node_groups(partition, self.scale, nodes))

    def _among(
        self, partition: Partition, groups: Sequence[tuple[str, ...]]
    ) -> Iterable[GroupCase]:
        fabric = fabric_of(partition)
        for nodes, operation in itertools.product(groups, _operations(partition, self.scale)):
            ranks = len(nodes) * fabric.gpus_per_node
            if operation == "hypercube" and ranks & (ranks - 1):
                continue
            for transport in self._transports(partition, operation == "all_reduce"):
                if transport in OF_THE_SERIES and not is_series():
                    continue
                if transport == "sockets" and nodes != groups[0]:
                    continue
                if not _lacks_every_device(partition, transport, nodes):
                    yield GroupCase(partition.name, operation, transport, tuple(nodes))

    def _transports(self, partition: Partition, every: bool, *more: str) -> list[Transport]:
        """Every one, or the default, as if the partition had `more` features."""
        transports = fabric_of(partition).transports(self.scale, [*partition.features, *more])
        return transports if every else transports[:1]

    def lacks_description(self, partition: Partition) -> str:
        operations = fabric_of(partition).operations
        if self.scale in operations:
            return ""
        known = ", ".join(operations)
        return f"measures what extras.nccl.operations has for {self.scale}; it has {known}"

    def lacks_nodes(self, partition: Partition) -> str:
        fabric = fabric_of(partition)
        if self.scale not in fabric.operations or self.node_counts(partition):
            return ""
        nodes = len(partition.nodes)
        whole = ": one segment is all, which NcclAll measures"
        return (
            f"finds no group of nodes: {nodes} nodes, segment_nodes {fabric.segment_nodes}"
            f"{whole if nodes == fabric.segment_nodes else ''}"
        )

    def node_counts(self, partition: Partition) -> Sequence[int]:
        """How many nodes a case may have, with all nodes or with a part of them."""
        segments = [len(segment) for segment in _segments(partition)]
        most = {
            "node": 1,
            "pair": min(2, max(segments)),
            # One segment is the same as all, and two nodes are a pair.
            "segment": max(segments) if len(segments) > 1 else 0,
            "all": len(partition.nodes),
        }
        least = {"node": 1, "pair": 2, "segment": 3, "all": 3}
        return range(least[self.scale], most[self.scale] + 1)

    def mismatch(self, condition: Condition, partition: Partition, gates: bool) -> Mismatch | None:
        fabric, stated = fabric_of(partition), condition.stated
        # `any` is a value only where the number is context, or a ratio's.
        free = (None,) if gates else (None, "any")
        operation, operations = stated.get("operation"), fabric.operations[self.scale]
        if operation not in (*operations, *free):
            return Mismatch(
                f"operation is {operation!r}, expected one that extras.nccl.operations has for "
                f"{self.scale}: {', '.join(operations)}"
            )
        # The other transports are measured with all_reduce.
        every = operation in (*free, "all_reduce") and "all_reduce" in operations
        # A number to look at beside one's own may be of sockets, also where nobody measures them.
        known = self._transports(partition, every, *(() if gates else ("sockets",)))
        transport = stated.get("transport")
        if transport not in (*known, *free):
            return Mismatch(
                f"transport is {transport!r}, expected one that {operation or self.scale} has "
                f"here: {', '.join(known)}"
            )
        foreign = [
            part
            for part in ("streams", "rails", "window_bytes", "congestion", "delay_ms")
            if stated.get(part) not in (None, "any")
        ]
        if foreign:
            return Mismatch(f"{', '.join(foreign)} is stated, expected none: a collective has none")
        smallest = fabric.min_bytes
        largest = max(fabric.largest_bytes(t) for t in known if transport in (None, "any", t))
        size = condition.size_bytes
        if size is not None and not smallest <= size <= largest:
            return Mismatch(
                f"size_bytes is {size} ({format_size(size)}), expected one of the sweep's, "
                f"{format_size(smallest)} to {format_size(largest)}"
            )
        return self._mismatch_of_ranks(condition, partition)

    def _mismatch_of_ranks(self, condition: Condition, partition: Partition) -> Mismatch | None:
        counts, gpus = self.node_counts(partition), fabric_of(partition).gpus_per_node
        nodes, ranks = condition.nodes, condition.ranks
        if isinstance(nodes, int) and nodes not in counts:
            return Mismatch(f"nodes is {nodes}, expected {from_to(counts)}", by_count=True)
        possible = [nodes] if isinstance(nodes, int) else counts
        if ranks is None or ranks in [count * gpus for count in possible]:
            return None
        reason = f"ranks is {ranks}, expected {from_to(possible)} nodes times {gpus} GPUs"
        return Mismatch(reason, by_count=ranks % gpus == 0 and not isinstance(nodes, int))
