"""Whether the nodes of a partition agree in firmware and tuning, and which one is odd.

Pure: the NodeState cases have the fields in which each node and its peers must agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from railgauge.common.names import natural
from railgauge.node.inventory.compare import by_value, same, shown
from railgauge.verdict.campaign.cases import Case

#: How many fields a finding names; the others are counted.
_NAMED = 4

#: So many nodes that all have a parameter of the kernel, each with a value of its own, do so on
#: purpose.
_STARTED_BY, _FEW = "kernel/cmdline/", 6

#: What stands for a field that a node does not have, while its peers do.
_ABSENT = "not there"


@dataclasses.dataclass(frozen=True)
class OddNodes:
    """Nodes that differ from their peers in some fields, all in the same way.

    In a tie `nodes` are all that were compared, and none is the odd one.
    """

    partition: str
    nodes: tuple[str, ...]
    message: str
    next_step: str
    case: Case
    tie: bool


@dataclasses.dataclass(frozen=True)
class _Node:
    name: str
    case: Case
    fields: Mapping[str, Any]
    keys: Mapping[str, str]
    fixes: Mapping[str, str]
    tested: Mapping[str, Any]
    #: how the fields begin that the system's description lets it go without
    absent: tuple[str, ...]

    def as_tested(self, field: str) -> bool:
        """Whether a gate run accepted the node with its present value of the field."""
        key = self.key(field)
        return key in self.tested and same(self.fields.get(field), self.tested[key])

    def value(self, field: str) -> str | None:
        """The field's value as text; None where it is unknown, which is no difference."""
        if field not in self.fields:
            return None if field.startswith(self.absent) else _ABSENT
        known = self.fields[field]
        return None if known is None else shown(known)

    def key(self, field: str) -> str:
        return self.keys.get(field, field)


def odd_nodes(
    cases: Sequence[Case],
    updated: Collection[str] = (),
    tested: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> list[OddNodes]:
    """The odd nodes of every partition; both sides where there is no majority.

    Nodes that were `updated` are each other's peers, and differ from the others on purpose.
    `tested` has for nodes the fields in which a gate run accepted them although they differ from
    the others: while the values are the same, that is not odd.
    """
    by_peers: dict[tuple[str, bool], dict[str, _Node]] = {}
    for case in cases:
        for name, facts in case.facts.items():
            agreed = facts.get("agreed")
            if isinstance(agreed, dict):
                node = _Node(
                    name,
                    case,
                    agreed.get("fields", {}),
                    agreed.get("keys", {}),
                    agreed.get("mends", {}),
                    tested.get(name, {}),
                    tuple(agreed.get("absent", ())),
                )
                by_peers.setdefault((case.partition, name in updated), {})[name] = node
    return [
        odd
        for (partition, _), nodes in by_peers.items()
        if len(nodes) > 1
        for odd in _of_partition(partition, list(nodes.values()))
    ]


def _of_partition(partition: str, nodes: list[_Node]) -> list[OddNodes]:
    #: odd nodes -> (field, its value, what the others have)
    odd: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    ties: dict[tuple[tuple[str, ...], ...], list[tuple[str, list[str]]]] = {}
    by_name = {node.name: node for node in nodes}
    for field in sorted({f for node in nodes for f in node.fields}, key=natural):
        values = {n.name: value for n in nodes if (value := n.value(field)) is not None}
        sides = by_value(values)
        # A field that one node knows and the others do not is not compared.
        if len(sides) < 2:
            continue
        # A parameter with another value on each node is how it was started, whatever its name.
        each_its_own = len(sides) == len(values) >= _FEW and _ABSENT not in values.values()
        if field.startswith(_STARTED_BY) and each_its_own:
            continue
        strange = [s for s in sides if not all(by_name[n].as_tested(field) for n in s)]
        # All others are as they were accepted, in two states or more: it must be in one of these.
        if len(sides) > 2 and len(strange) == 1:
            (names,) = strange
            if not any(by_name[name].as_tested(field) for name in names):
                expected = next(side for side in sides if side != names)
                odd.setdefault(names, []).append((field, values[names[0]], values[expected[0]]))
                continue
        if len(sides[0]) == len(sides[1]):
            if len(strange) > 1:
                ties.setdefault(tuple(sides), []).append((field, [values[s[0]] for s in sides]))
            continue
        for side in sides[1:]:
            names = tuple(name for name in side if not by_name[name].as_tested(field))
            if names:
                odd.setdefault(names, []).append((field, values[side[0]], values[sides[0][0]]))
    groups = [_odd(partition, [by_name[n] for n in names], d) for names, d in odd.items()]
    return groups + [_tie(partition, by_name, sides, d) for sides, d in ties.items()]


def _odd(partition: str, nodes: list[_Node], fields: list[tuple[str, str, str]]) -> OddNodes:
    first = nodes[0]
    differences = [f"{first.key(f)} is {value}, expected {most}" for f, value, most in fields]
    return OddNodes(
        partition,
        tuple(node.name for node in nodes),
        f"{' '.join(n.name for n in nodes)}: not as the other nodes: {_listed(differences)}",
        _fix(first, fields[0][0]),
        first.case,
        tie=False,
    )


def _tie(
    partition: str,
    by_name: Mapping[str, _Node],
    sides: tuple[tuple[str, ...], ...],
    fields: list[tuple[str, list[str]]],
) -> OddNodes:
    first = by_name[sides[0][0]]
    differences = [
        f"{first.key(field)} is "
        + ", ".join(
            f"{value} on {' '.join(names)}" for value, names in zip(values, sides, strict=True)
        )
        for field, values in fields
    ]
    return OddNodes(
        partition,
        tuple(name for names in sides for name in names),
        f"the nodes do not agree, and none has most on its side: {_listed(differences)}",
        _fix(first, fields[0][0]),
        first.case,
        tie=True,
    )


def _listed(differences: Sequence[str]) -> str:
    more = f"; and {len(differences) - _NAMED} more" if len(differences) > _NAMED else ""
    return "; ".join(differences[:_NAMED]) + more


def _fix(node: _Node, field: str) -> str:
    return node.fixes.get(field) or (
        f"make {node.key(field)} the same on all, or list it under may_differ in expected.yaml"
    )
