"""`railgauge system new --subnet`: what an InfiniBand subnet says of a new system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railgauge import hostlist
from railgauge.common.names import counted
from railgauge.fabric import expected, routes
from railgauge.fabric.folder import Fabric

#: The feature of a partition with which an acceptance reads its subnet.
_FEATURE = "infiniband"


def complete(document: Mapping[str, Any], fabric: Fabric, target: Path) -> list[str]:
    """Put what a subnet shows into a description, `document`, and the expected cabling into its
    folder, `target`; what was done, a line a partition. A partition with a node that is not in the
    subnet stays as it is: its leaves would not be whole.

    FabricError where hosts or devices of the subnet have no names of their own.
    """
    routes.require_names(fabric.subnet)
    wanted = expected.of_fabric(fabric)
    leaf_of = {h: leaf for leaf, hosts in routes.leaves(fabric.subnet).items() for h in hosts}
    ports = routes.ports(fabric.subnet)
    lines, taken = [], False
    for partition in document["partitions"]:
        extras = partition["extras"]
        nodes = hostlist.expand(str(extras["nodes"]))
        hosts = {n: next((h for h in (n, n.partition(".")[0]) if h in leaf_of), "") for n in nodes}
        lacking = [node for node, host in hosts.items() if not host]
        if lacking:
            without = f"which lacks {hostlist.fold(lacking)}"
            lines.append(f"{partition['name']}: nothing is taken from the subnet, {without}")
            continue
        leaves: dict[str, list[str]] = {}
        for node, host in hosts.items():
            leaves.setdefault(leaf_of[host], []).append(node)
        extras["leaves"] = {leaf: hostlist.fold(members) for leaf, members in leaves.items()}
        extras["switch_ports"] = {node: dict(ports[host]) for node, host in hosts.items()}
        if _FEATURE not in partition.setdefault("features", []):
            partition["features"].append(_FEATURE)
        many = f"{len(leaves)} leaves" if len(leaves) > 1 else "1 leaf"
        lines.append(f"{partition['name']}: {many}, and its switch ports, from the subnet")
        taken = True
    if taken:
        expected.write(wanted, target / expected.FILE)
        cables = counted(len(wanted.cables), "cable")
        lines.append(f"{expected.FILE}: {cables} are expected as they are now")
    return lines
