"""Describing one's own cluster: `railgauge system new` and `railgauge system check`.

Here is what both of them ask of Slurm.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from railgauge import hostlist, paths
from railgauge.errors import EnvironmentProblem

#: Runs a Slurm command and returns what it prints; EnvironmentProblem where that cannot be had.
Ask = Callable[..., str]

_SINFO_FIELDS = "%N|%P|%G|%c|%m|%f|%T"


@dataclasses.dataclass(frozen=True)
class SlurmNode:
    """A node as Slurm has it; "" and None stand for what Slurm does not say."""

    name: str
    gres: str = ""
    cpus: int | None = None
    memory_mib: int | None = None
    features: str = ""
    state: str = ""

    @property
    def gpus(self) -> int:
        """How many GPUs Slurm gives away on this node."""
        return gpus_in(self.gres)


@dataclasses.dataclass(frozen=True)
class Slurm:
    """What Slurm says of its nodes, and which of them each of its partitions has."""

    nodes: Mapping[str, SlurmNode]
    partitions: Mapping[str, tuple[str, ...]]

    def describe(self) -> str:
        """The partitions with their nodes, for a person to choose from."""
        parts = [
            f"{name} ({hostlist.fold(nodes) if nodes else 'no nodes'})"
            for name, nodes in self.partitions.items()
        ]
        return ", ".join(parts) or "none"


def shown(path: Path) -> str:
    """A path as a person would type it at the root of the checkout."""
    return str(path.relative_to(paths.HOME) if path.is_relative_to(paths.HOME) else path)


def host_pattern(host: str) -> str:
    """A pattern for `hostnames` that this host alone matches."""
    # Outside of brackets a hyphen stands for itself.
    return "^" + re.escape(host).replace(r"\-", "-") + "$"


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, n2 before n10."""
    found = set(names)
    return hostlist.expand(hostlist.fold(found)) if found else ()


def gpus_in(gres: str) -> int:
    """The GPUs in Slurm's Gres of a node: `gpu:h100:8(S:0-1),nic:4` -> 8, `(null)` -> 0.

    ValueError where a count is no number.
    """
    count = 0
    # What is in parentheses (sockets, indices) may hold commas.
    for item in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *details = item.strip().split(":")
        if name != "gpu":
            continue
        last = details[-1] if details else "1"
        if last.isdigit():
            count += int(last)
        elif len(details) == 1 or last == "no_consume":
            # A type alone. slurm.conf(5): without a number it is one.
            count += 1
        else:
            raise ValueError(f"Gres is {gres!r}, expected a number of GPUs behind the last colon")
    return count


def ask_slurm(ask: Ask) -> Slurm:
    """All partitions and nodes, hidden ones and those that are down with them.

    EnvironmentProblem where Slurm does not answer, or with something else.
    """
    partitions = _partitions(ask("scontrol", "--all", "--oneliner", "show", "partition"))
    members = {name: set(nodes) for name, nodes in partitions.items()}
    nodes: dict[str, SlurmNode] = {}
    answer = ask("sinfo", "--all", "--noheader", "--Node", f"--format={_SINFO_FIELDS}")
    for line in filter(str.strip, answer.splitlines()):
        # A node comes once for every partition that it is in.
        for node, partition in _nodes(line):
            nodes[node.name] = node
            members.setdefault(partition, set()).add(node.name)
    for name in set().union(*members.values()) - nodes.keys():
        nodes[name] = SlurmNode(name)
    return Slurm(nodes, {name: in_order(found) for name, found in members.items()})


def _partitions(answer: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for line in filter(str.strip, answer.splitlines()):
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "PartitionName" not in words:
            if line.startswith("No partitions"):
                continue
            raise _no_answer("scontrol show partition", line, "PartitionName=... Nodes=...")
        found[words["PartitionName"]] = _expanded(words.get("Nodes", ""), line)
    return found


def _expanded(names: str, line: str) -> tuple[str, ...]:
    if names in ("", "(null)"):
        return ()
    try:
        return hostlist.expand(names)
    except ValueError:
        raise _no_answer("Slurm", line, "a list of nodes") from None


def _nodes(line: str) -> list[tuple[SlurmNode, str]]:
    """The nodes of a line of sinfo, each with the name of the line's partition."""
    fields = [field.strip() for field in line.split("|")]
    if len(fields) < 7:
        raise _no_answer("sinfo", line, _SINFO_FIELDS)
    names, partition, gres, cpus, memory, *features, state = fields
    stated = ["" if field == "(null)" else field for field in (gres, "|".join(features))]
    return [
        (
            SlurmNode(
                name=name,
                gres=stated[0],
                cpus=int(cpus) if cpus.isdigit() else None,
                memory_mib=int(memory) if memory.isdigit() else None,
                features=stated[1],
                # With a mark behind it: * does not answer, ~ is powered off, and the like.
                state=state.rstrip("*~#!%$@^-+"),
            ),
            # The default partition is marked, too.
            partition.removesuffix("*"),
        )
        for name in _expanded(names, line)
    ]


def _no_answer(command: str, line: str, expected: str) -> EnvironmentProblem:
    return EnvironmentProblem(f"{command} said {line!r}, expected {expected}")
