"""The leaf switch of each node, and whether two nodes share one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

#: Where the way between two nodes ends: at the leaf that both are on, or beyond it in the fabric.
Within = Literal["leaf", "fabric"]


@dataclasses.dataclass(frozen=True)
class Leaves:
    """Node -> the name of its leaf. Of a rail-optimised fabric, where every rail of a node has a
    leaf of its own, the name stands for the set of them: two nodes of one set meet on every rail
    within one leaf.
    """

    of_node: Mapping[str, str]

    def within(self, nodes: Iterable[str]) -> Within:
        """`leaf` where the nodes share one, else `fabric`; KeyError for a node without a leaf."""
        return "leaf" if len({self.of_node[node] for node in nodes}) == 1 else "fabric"

    def pairs_apart(self, nodes: Sequence[str]) -> int:
        """How many ways there are from a node to another one that is on another leaf."""
        sizes = [len(members) for members in self.groups(nodes)]
        return sum(size * (len(nodes) - size) for size in sizes)

    def groups(self, nodes: Sequence[str]) -> list[tuple[str, ...]]:
        """The nodes leaf by leaf, both in the order of `nodes`."""
        groups: dict[str, list[str]] = {}
        for node in nodes:
            groups.setdefault(self.of_node[node], []).append(node)
        return [tuple(members) for members in groups.values()]
