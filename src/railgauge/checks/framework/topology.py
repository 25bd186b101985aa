"""Which leaf each node of the session's partitions is on, by the system's data or by Slurm; and the
routes between leaves, by a command of the site.

Slurm and the command are asked once a session of each partition. A campaign keeps the answers, so
that a session which resumes it has the same places.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping
from pathlib import Path

from railgauge import hostlist, paths, systems
from railgauge.campaign.folder import LEAVES, ROUTES
from railgauge.checks.framework.site_command import SiteCommandError, printed
from railgauge.common.names import natural
from railgauge.common.table import TableError
from railgauge.model import record
from railgauge.model.leaves import Leaves
from railgauge.model.record import PartitionRoutes
from railgauge.model.routes import parse
from railgauge.slurm import topology
from railgauge.systems import Partition


def leaves_of(partition: Partition) -> Leaves | None:
    """The leaves of a partition's nodes; None where not each of them has one."""
    described = partition.extras.leaves
    if described is not None:
        leaf_of = _by_node(tuple(described.items()))
    else:
        of_slurm = partition.slurm_partition or ""
        leaf_of = _of_slurm(paths.campaign_folder(), partition.name, of_slurm)
    known = bool(leaf_of) and all(node in leaf_of for node in partition.nodes)
    return Leaves(leaf_of) if known else None


def described(system: str) -> record.KnownLeaves:
    """Partition -> its leaves, of the partitions of a system that have some."""
    described: record.KnownLeaves = {}
    for partition in systems.load(system).partitions:
        leaves = leaves_of(partition)
        if leaves is not None:
            described[partition.name] = {
                leaves.of_node[members[0]]: hostlist.fold(members)
                for members in leaves.groups(partition.nodes)
            }
    return described


def switch_ports(system: str) -> dict[str, dict[str, str]]:
    """Node -> device -> switch and port, as the system's data says."""
    ports: dict[str, dict[str, str]] = {}
    for partition in systems.load(system).partitions:
        for node, of_node in partition.extras.switch_ports.items():
            ports.setdefault(node, {}).update(of_node)
    return ports


def statically_routed(system: str) -> list[str]:
    """The partitions of a system in which data takes the routes of the forwarding tables."""
    partitions = systems.load(system).partitions
    return [p.name for p in partitions if p.extras.infiniband.static_routes]


def routes_of(partition: Partition) -> PartitionRoutes:
    """The routes that `extras.fabric.routes` prints; none where it is not given, or fails."""
    command = partition.extras.fabric and partition.extras.fabric.routes
    if not command:
        return PartitionRoutes()
    known = leaves_of(partition)
    leaves = frozenset(known.of_node.values() if known else ())
    return _routes_of(paths.campaign_folder(), partition.name, tuple(command), leaves)


def routes(system: str) -> record.KnownRoutes:
    """Partition -> its routes, of the partitions of a system with `extras.fabric.routes`."""
    partitions = systems.load(system).partitions
    return {p.name: routes_of(p) for p in partitions if p.extras.fabric and p.extras.fabric.routes}


@functools.lru_cache(maxsize=64)
def _routes_of(
    campaign: Path | None, partition: str, command: tuple[str, ...], leaves: frozenset[str]
) -> PartitionRoutes:
    kept = record.read_routes(campaign / ROUTES) if campaign else None
    if kept is not None and partition in kept:
        return kept[partition]
    where = f"extras.fabric.routes, `{shlex.join(command)}`"
    try:
        text = printed(command)
        rows = parse(text) if text.strip() else []
    except (SiteCommandError, TableError) as error:
        return PartitionRoutes(problem=f"{where}: {error}")
    if unknown := {row.leaf for row in rows} - leaves:
        expected = ", ".join(sorted(leaves, key=natural)[:4]) or "none, as no leaf is known"
        found = min(unknown, key=natural)
        return PartitionRoutes(problem=f"{where}: leaf {found}, expected one of {expected}")
    return PartitionRoutes(rows=tuple(rows))


@functools.lru_cache(maxsize=64)
def _by_node(leaves: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {node: leaf for leaf, members in leaves for node in hostlist.expand(members)}


@functools.lru_cache(maxsize=64)
def _of_slurm(campaign: Path | None, partition: str, in_slurm: str) -> Mapping[str, str]:
    kept = record.read_leaves(campaign / LEAVES) if campaign else None
    if kept is None:
        return _asked(campaign, in_slurm)
    return _by_node(tuple(kept.get(partition, {}).items()))


@functools.lru_cache(maxsize=64)
def _asked(campaign: Path | None, in_slurm: str) -> Mapping[str, str]:
    return topology.leaf_of_nodes(in_slurm)
