"""Slurm's partitions and their nodes, for describing a cluster."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

from railgauge import hostlist
from railgauge.slurm import client
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode, fields_of, parse

#: As `scontrol show` has a time: [days-]hours:minutes:seconds.
_TIME = re.compile(r"(?:([0-9]+)-)?([0-9]+):([0-9]{2}):([0-9]{2})")

#: Runs a Slurm command and returns what it prints, as `client.output`.
Run = Callable[..., str]


@dataclasses.dataclass(frozen=True)
class Cluster:
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


def cluster(run: Run) -> Cluster:
    """All partitions and nodes, hidden ones and those that are down with them.

    SlurmError where Slurm does not answer, or with something else.
    """
    partitions = {}
    for line in filter(str.strip, run(*_show("partition")).splitlines()):
        fields = fields_of(line)
        if "PartitionName" in fields:
            names = fields.get("Nodes", "")
            try:
                members = hostlist.in_order(hostlist.expand(names)) if names else ()
            except ValueError:
                raise _no_answer("partition", line, "a list of nodes") from None
            partitions[fields["PartitionName"]] = members
        elif not line.startswith("No partitions"):
            raise _no_answer("partition", line, "PartitionName=... Nodes=...")
    answer = run(*_show("node"))
    nodes = parse(answer)
    if answer.strip() and not nodes and not answer.startswith("No nodes"):
        raise _no_answer("node", answer.splitlines()[0], "NodeName=... State=...")
    for name in set().union(*partitions.values()) - nodes.keys():
        nodes[name] = SlurmNode(name)
    return Cluster(nodes, partitions)


def _show(what: str) -> tuple[str, ...]:
    return ("scontrol", "show", what, "--all", "--oneliner")


def _no_answer(what: str, line: str, expected: str) -> SlurmError:
    return SlurmError(f"scontrol show {what} printed {line!r}, expected {expected}")


def time_limits_s() -> dict[str, float]:
    """The longest that a job may take, in seconds, of each partition that has such a limit
    (MaxTime); nothing where Slurm does not answer.
    """
    try:
        answer = client.output(*_show("partition"))
    except SlurmError:
        return {}
    limits_s = {}
    for line in answer.splitlines():
        fields = fields_of(line)
        matched = _TIME.fullmatch(fields.get("MaxTime", ""))
        if matched and "PartitionName" in fields:
            days, hours, minutes, seconds = (int(part or 0) for part in matched.groups())
            all_minutes = (24 * days + hours) * 60 + minutes
            limits_s[fields["PartitionName"]] = 60.0 * all_minutes + seconds
    return limits_s
