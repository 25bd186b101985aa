"""Which of Slurm's partitions is which of a description's, and what Slurm says of their nodes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from railgauge import hostlist
from railgauge.common.errors import RailgaugeError
from railgauge.slurm.nodes import SlurmNode, gpus_in
from railgauge.slurm.partitions import Cluster
from railgauge.systems import Partition, System


@dataclasses.dataclass(frozen=True)
class Mapped:
    """A partition of the description as Slurm has it; `gpus` only where all nodes agree."""

    partition: str
    slurm_partition: str
    nodes: tuple[SlurmNode, ...]
    gpus: int | None
    unclear: str = ""

    @property
    def names(self) -> str:
        return hostlist.fold(node.name for node in self.nodes)

    def __str__(self) -> str:
        gpus = "" if self.gpus is None else f", GPUs a node: {self.gpus}"
        lost = [node.name for node in self.nodes if "DOWN" in node.flags]
        down = f"; {hostlist.fold(lost)} down, and kept" if lost else ""
        return (
            f"{self.partition} is Slurm's {self.slurm_partition}: "
            f"{len(self.nodes)} nodes, {self.names}{gpus}{down}"
        )


def chosen(options: Sequence[str]) -> dict[str, str]:
    """`ours=theirs` of every --partition; RailgaugeError where one is not of that form."""
    choices = {}
    for option in options:
        ours, equals, theirs = option.partition("=")
        if not (ours and equals and theirs):
            raise RailgaugeError(
                f"--partition {option}: expected PARTITION=SLURM_PARTITION",
                next_step="name the partition of the description, then Slurm's: "
                "--partition gpu=batch",
            )
        choices[ours] = theirs
    return choices


def mapped(system: System, slurm: Cluster, choices: Mapping[str, str]) -> dict[str, Mapped]:
    """Slurm's partitions for those of the description, as far as it is clear which is which.

    By choice, by name, or because there is only one of each. RailgaugeError where a choice names
    what does not exist, or where nothing is clear.
    """
    names = [partition.name for partition in system.partitions]
    for ours, theirs in choices.items():
        if ours not in names:
            raise RailgaugeError(
                f"--partition {ours}={theirs}: {system.name} has no partition {ours!r}; "
                f"it has: {', '.join(names)}",
                next_step=f"--partition {names[0]}={theirs}",
            )
        if not slurm.partitions.get(theirs):
            raise RailgaugeError(
                f"--partition {ours}={theirs}: Slurm has no partition {theirs!r} with nodes; "
                f"it has: {slurm.describe()}",
                next_step=f"--partition {ours}=ONE_OF_THESE",
            )
    peopled = [name for name, nodes in slurm.partitions.items() if nodes]
    partitions = {}
    for partition in system.partitions:
        named = (choices.get(partition.name), partition.name, partition.slurm_partition)
        only = peopled if len(peopled) == len(names) == 1 else []
        theirs_or_none = next((n for n in (*named, *only) if n in peopled), None)
        if theirs_or_none is not None:
            nodes = tuple(slurm.nodes[name] for name in slurm.partitions[theirs_or_none])
            of_gpus = _gpus(partition, nodes)
            partitions[partition.name] = Mapped(partition.name, theirs_or_none, nodes, *of_gpus)
    if not partitions:
        raise RailgaugeError(
            f"cannot tell which of Slurm's partitions is which of {system.name}'s "
            f"({', '.join(names)}): Slurm has {slurm.describe()}; nothing was made",
            next_step=f"the same command with --partition {names[0]}=ONE_OF_THESE",
        )
    return partitions


def _gpus(partition: Partition, nodes: Sequence[SlurmNode]) -> tuple[int | None, str]:
    """The number of GPUs of every node, or why there is none such."""
    if partition.extras.nccl is None:
        return None, ""
    by_count: dict[int, list[str]] = {}
    for node in nodes:
        try:
            by_count.setdefault(gpus_in(node.gres), []).append(node.name)
        except ValueError as error:
            return None, f"gpus_per_node of {partition.name}: {node.name}: {error}"
    if len(by_count) == 1 and 0 not in by_count:
        return next(iter(by_count)), ""
    parts = [f"{count} on {hostlist.fold(names)}" for count, names in sorted(by_count.items())]
    return None, (
        f"gpus_per_node of {partition.name}: Slurm's Gres has {', '.join(parts)}, expected one "
        f"number for all; still {partition.extras.nccl.gpus_per_node}: fix gres.conf, or make a "
        "partition of each kind"
    )


def fragments(folder: Path, source: System, mapping: Mapping[str, Mapped]) -> list[str]:
    """Put Slurm's nodes into slurm/*.conf in place of the original's; what could not be done."""
    lines = []
    for path, text in texts(folder) if mapping else []:
        changed, stale, written = [], [], set()
        for number, line in _lines(text):
            values = _for_fragment(line, source, mapping)
            nodes = (values or {}).get("nodename")
            if values is None and re.match("(?i)(node|partition|block|switch)name=", line):
                stale += [] if re.match("(?i)[a-z]+name=default", line) else [str(number)]
            if nodes is None or nodes not in written:
                # Of several lines for the original's nodes the first is for all of ours.
                changed.append(_with_values(line, values or {}))
            written.add(nodes)
        path.write_text("".join(changed), encoding="utf-8")
        if stale:
            where = f"slurm/{path.relative_to(folder)}:{', '.join(stale)}"
            lines.append(f"not mapped: {where}, still {source.name}'s")
    return lines


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers (from 1); one that a backslash continues is one."""
    for line in re.finditer(r"(?:[^\n]*\\\n)*[^\n]*(?:\n|$)", text):
        yield text.count("\n", 0, line.start()) + 1, line[0]


def _with_values(line: str, values: Mapping[str, str]) -> str:
    """A line of slurm.conf with other values of the options that it has."""
    return re.sub(
        r"(\w+)=(\S+)",
        lambda o: f"{o[1]}={values.get(o[1].lower(), o[2])}" if values else o[0],
        line,
    )


def _for_fragment(
    line: str, source: System, mapping: Mapping[str, Mapped]
) -> dict[str, str] | None:
    """What a line about a mapped partition, or its nodes, is to say; None of any other line."""
    if not re.match("(?i)(node|partition)name=", line):
        return None
    options = {key.lower(): value for key, value in re.findall(r"(\w+)=(\S+)", line)}
    for partition in source.partitions:
        ours = mapping.get(partition.name)
        if ours is None:
            continue
        if _nodes(options.get("nodename")) & _nodes(partition.extras.nodes):
            return {"nodename": ours.names, **_agreed(ours.nodes)}
        if options.get("partitionname") == partition.slurm_partition:
            same = _nodes(options.get("nodes")) == _nodes(partition.extras.nodes)
            nodes = {"nodes": ours.names} if same else {}
            return {"partitionname": ours.slurm_partition, **nodes}
    return None


def _nodes(names: str | None) -> set[str]:
    try:
        return set(hostlist.expand(names or ""))
    except ValueError:
        return set()


def _agreed(nodes: Sequence[SlurmNode]) -> dict[str, str]:
    """What Slurm says of all these nodes alike, by slurm.conf's names."""
    stated: dict[str, set[str]] = {
        "cpus": {str(node.cpus or "") for node in nodes},
        "realmemory": {str(node.memory_mib or "") for node in nodes},
        "gres": {re.sub(r"\([^)]*\)", "", node.gres) for node in nodes},
        "feature": {node.features for node in nodes},
    }
    agreed = {name: values.pop() for name, values in stated.items() if len(values) == 1}
    return {name: value for name, value in agreed.items() if value}


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of a folder that are text."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
