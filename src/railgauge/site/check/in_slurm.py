"""Slurm itself: has it the nodes, partitions and GPUs of the description?"""

from __future__ import annotations

from collections.abc import Sequence

from railgauge import hostlist
from railgauge.common.errors import PrerequisiteError
from railgauge.site.check.description import file_of
from railgauge.site.check.hostnames import owner
from railgauge.site.check.line import Line
from railgauge.slurm.nodes import gpus_in
from railgauge.slurm.partitions import Cluster, Run, cluster
from railgauge.systems import Partition, System


def lines(
    system: System, others: Sequence[System], ask: Run, host: str, named_by: str
) -> list[Line]:
    step = f"on a login node of {system.name}: railgauge system check {system.name}"
    other = owner(system, others, host, named_by)
    if other:
        text = f"this host, {host}, is of {other}, and so is its Slurm"
        return [Line("not checked", "nodes in Slurm", text, step)]
    try:
        slurm = cluster(ask)
    except PrerequisiteError as error:
        text = f"no Slurm here: {error.message.removesuffix(': no Slurm here')}"
        return [Line("not checked", "nodes in Slurm", text, step)]
    lines = []
    for partition in system.partitions:
        lines += _nodes_in_slurm(system, partition, slurm)
        lines += _gpus_in_slurm(system, partition, slurm)
    return lines


def _nodes_in_slurm(system: System, partition: Partition, slurm: Cluster) -> list[Line]:
    thing = f"{partition.name}: nodes in Slurm"
    wanted = set(partition.nodes)
    edit = f"edit extras.nodes of {partition.name} in {file_of(system.name)}"
    name = partition.slurm_partition
    if name is not None and name not in slurm.partitions:
        text = f"Slurm has no partition {name!r}, expected one of {slurm.describe()}"
        step = f"edit access of {partition.name} in {file_of(system.name)}"
        return [Line("problem", thing, text, step)]
    members = set(slurm.partitions[name]) if name is not None else wanted & slurm.nodes.keys()
    lines = []
    unknown = wanted - slurm.nodes.keys()
    if unknown:
        text = f"Slurm knows no {hostlist.fold(unknown)}"
        lines.append(Line("problem", thing, text, edit))
    outside = wanted - unknown - members
    if outside:
        text = f"{hostlist.fold(outside)} not in Slurm's partition {name}"
        text += f" ({hostlist.fold(members) if members else 'no nodes'})"
        lines.append(Line("problem", thing, text, f"{edit}, or access"))
    covered = {
        node
        for other in system.partitions
        if other.slurm_partition == name
        for node in hostlist.expand(other.extras.nodes)
    }
    surplus = members - covered
    if surplus:
        text = f"{hostlist.fold(surplus)} of Slurm's partition {name} would never be measured"
        lines.append(Line("warning", thing, text, edit))
    if lines:
        return lines
    down = [
        n for n in hostlist.in_order(wanted) if slurm.nodes[n].flags & {"DOWN", "DRAIN", "FAIL"}
    ]
    text = f"{hostlist.fold(wanted)} in partition {name or '(any)'}"
    return [Line("ok", thing, text + (f"; down or drained: {hostlist.fold(down)}" if down else ""))]


def _gpus_in_slurm(system: System, partition: Partition, slurm: Cluster) -> list[Line]:
    fabric = partition.extras.nccl
    if fabric is None:
        return []
    thing = f"{partition.name}: GPUs in Slurm"
    edit = f"edit gpus_per_node of {partition.name} in {file_of(system.name)}, or Slurm's gres.conf"
    by_gres: dict[str, list[str]] = {}
    for node in partition.nodes:
        if node in slurm.nodes:
            by_gres.setdefault(slurm.nodes[node].gres, []).append(node)
    if not by_gres:
        return [Line("not checked", thing, "Slurm knows none of the nodes")]
    lines = []
    for gres, nodes in by_gres.items():
        try:
            count = gpus_in(gres)
        except ValueError as error:
            lines.append(Line("problem", thing, f"{hostlist.fold(nodes)}: {error}", edit))
            continue
        if count != fabric.gpus_per_node:
            text = f"{hostlist.fold(nodes)}: Gres is {gres or 'none'}, {count} GPUs, expected "
            text += f"{fabric.gpus_per_node} as gpus_per_node says"
            lines.append(Line("problem", thing, text, edit))
    return lines or [Line("ok", thing, f"{fabric.gpus_per_node} on every node")]
