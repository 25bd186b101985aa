"""Pairs of nodes, between which something is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from railgauge import hostlist
from railgauge.checks.framework import schedule
from railgauge.checks.framework.cases import Cases, LeftOut, PairCase
from railgauge.systems import Partition

AnyPair = TypeVar("AnyPair", bound=PairCase)


def ring(partition: Partition) -> list[PairCase]:
    """The pairs of the partition's schedule; both ways for a node with a single partner."""
    return [PairCase(partition.name, *ends) for ends in schedule.pairs(partition)]


def neighbours(partition: Partition) -> list[PairCase]:
    """The pairs of `ring`, each once, also where its nodes meet both ways."""
    pairs: dict[frozenset[str], PairCase] = {}
    for pair in ring(partition):
        pairs.setdefault(frozenset(pair.nodes), pair)
    return list(pairs.values())


def first_pair_alone(partition: Partition, field: str = "") -> list[LeftOut]:
    """What is left out where only the first two nodes are measured, as a field may say."""
    count = len(partition.nodes)
    return [LeftOut(f"two of {count} nodes are measured", field)] if count > 2 else []


class PairCases(Cases[AnyPair]):
    """Something between two nodes."""

    def lacks_nodes(self, partition: Partition) -> str:
        if len(partition.nodes) >= 2:
            return ""
        return f"needs two nodes, and there is {hostlist.fold(partition.nodes)}"

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return (2,)


class RingPairs(PairCases[PairCase]):
    """The pairs of neighbours of each partition with the given features."""

    def on(self, partition: Partition) -> Iterable[PairCase]:
        return ring(partition)
