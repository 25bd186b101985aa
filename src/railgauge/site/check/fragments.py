"""slurm/*.conf: do they speak of the same nodes and partitions as reframe.yaml?"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from railgauge import hostlist, paths
from railgauge.site import shown
from railgauge.site.check.description import file_of
from railgauge.site.check.line import Line
from railgauge.slurm.nodes import gpus_in
from railgauge.systems import Partition, System


def fragment_lines(text: str) -> list[tuple[int, dict[str, str]]]:
    """The lines of a Slurm configuration, as number (from 1) and options with lower-case names."""
    lines: list[tuple[int, dict[str, str]]] = []
    kept, start = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        start = start if kept else number
        content = re.split(r"(?<!\\)#", line)[0].rstrip()
        if content.endswith("\\"):
            kept += content[:-1] + " "
            continue
        options = dict(word.split("=", 1) for word in (kept + content).split() if "=" in word)
        lines.append((start, {key.lower(): value for key, value in options.items()}))
        kept = ""
    return [(number, options) for number, options in lines if options]


@dataclasses.dataclass(frozen=True)
class _Fragment:
    where: str
    options: Mapping[str, str]

    def nodes(self, option: str) -> tuple[str, ...]:
        """ValueError where it is not a host list."""
        return hostlist.expand(self.options[option])


def lines(system: System) -> list[Line]:
    """Whether slurm/*.conf speaks of the same nodes and partitions as reframe.yaml."""
    folder = paths.system_folder(system.name) / "slurm"
    thing = f"{shown(folder)}/*.conf"
    try:
        fragments = [
            _Fragment(f"{shown(path)}:{number}", options)
            for path in sorted(folder.glob("*.conf"))
            for number, options in fragment_lines(path.read_text("utf-8", errors="replace"))
            if options.get("nodename", options.get("partitionname", "DEFAULT")) != "DEFAULT"
        ]
        if not fragments:
            return [Line("not checked", thing, "there is no line for a node or a partition")]
        return [
            *_fragment_nodes(system, thing, fragments),
            *_fragment_partitions(system, thing, fragments),
        ]
    except (OSError, ValueError) as error:
        return [Line("problem", thing, str(error), f"edit the files in {shown(folder)}")]


def _expanded(fragment: _Fragment, option: str) -> set[str]:
    try:
        return set(fragment.nodes(option))
    except ValueError as error:
        raise ValueError(f"{fragment.where}: {fragment.options[option]!r}: {error}") from None


def _fragment_nodes(system: System, thing: str, fragments: Sequence[_Fragment]) -> list[Line]:
    # gres.conf has lines NodeName=... Name=gpu, which need not name all.
    named = [f for f in fragments if "nodename" in f.options]
    defining = [f for f in named if "name" not in f.options]
    everyone = {n for p in system.partitions for n in hostlist.expand(p.extras.nodes)}
    lines = []
    for fragment in named:
        unknown = _expanded(fragment, "nodename") - everyone
        if unknown:
            text = f"{hostlist.fold(unknown)} in no partition of {file_of(system.name)}"
            step = f"edit {fragment.where}, or extras.nodes"
            lines.append(Line("problem", fragment.where, text, step))
    known = set().union(*(_expanded(f, "nodename") for f in defining))
    missing = set(system.nodes) - known
    if defining and missing:
        text = f"no NodeName= for {hostlist.fold(missing)}, which {file_of(system.name)} has"
        lines.append(Line("problem", thing, text, "add them, or take them out of extras.nodes"))
    for partition in system.partitions:
        for fragment in named if partition.extras.nccl else []:
            if _expanded(fragment, "nodename") & set(partition.nodes):
                lines += _gpus(partition, fragment)
    return lines or [Line("ok", thing, f"the nodes of {file_of(system.name)}")]


def _gpus(partition: Partition, fragment: _Fragment) -> list[Line]:
    fabric = partition.extras.nccl
    assert fabric is not None  # or no GPU would be counted
    options = fragment.options
    try:
        if "gres" in options:
            count = gpus_in(options["gres"])
        elif options.get("name") == "gpu" and ("count" in options or "file" in options):
            # gres.conf; files are as many as GPUs, unless it says otherwise.
            count = int(options.get("count") or len(hostlist.expand(options["file"])))
        else:
            return []
    except ValueError as error:
        return [Line("problem", fragment.where, str(error), f"edit {fragment.where}")]
    if count == fabric.gpus_per_node:
        return []
    text = f"{count} GPUs a node, expected {fabric.gpus_per_node} as gpus_per_node of "
    text += f"{partition.name} says"
    return [Line("problem", fragment.where, text, "fix the one that is wrong")]


def _fragment_partitions(system: System, thing: str, fragments: Sequence[_Fragment]) -> list[Line]:
    named = {f.options["partitionname"]: f for f in fragments if "partitionname" in f.options}
    lines = []
    for partition in system.partitions if named else []:
        wanted = partition.slurm_partition
        fragment = named.get(wanted or "")
        if wanted is None:
            continue
        if fragment is None:
            text = f"no PartitionName={wanted}, to which {partition.name} sends its jobs; there is "
            text += ", ".join(named)
            lines.append(
                Line("problem", thing, text, f"add it, or edit access of {partition.name}")
            )
            continue
        value = fragment.options.get("nodes", "")
        if value.upper() == "ALL" or "nodes" not in fragment.options:
            continue
        nodes = _expanded(fragment, "nodes")
        everyone = set(hostlist.expand(partition.extras.nodes))
        if not set(partition.nodes) <= nodes or not nodes <= everyone:
            text = f"Nodes={value}, expected those of {partition.name}: {partition.extras.nodes}"
            lines.append(Line("problem", fragment.where, text, "fix the one that is wrong"))
    if named and not lines:
        return [Line("ok", thing, f"the partitions of {file_of(system.name)}")]
    return lines
