"""`railgauge system new`: what an InfiniBand subnet says of a new system, as --subnet has kept it,
or as --detect reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge import hostlist, paths
from railgauge.checks.preflight import subnet_state
from railgauge.common.errors import RailgaugeError
from railgauge.common.names import counted
from railgauge.fabric import asking, expected, routes
from railgauge.fabric import folder as folders
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.site.detect import Seen
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm.partitions import Run
from railgauge.tools import ParseError

#: The feature of a partition with which an acceptance reads its subnet.
_FEATURE = "infiniband"

#: What --detect reads: the cables.
_TOPOLOGY = "ibnetdiscover.txt"
#: Of the command, and of the job that runs it on a node, in seconds.
_LIMIT_S, _JOB_S = 60, 180


def read(
    seen: Sequence[Seen], options: Sequence[str], run: Run
) -> tuple[Fabric | None, Sequence[str]]:
    """The subnet as a node of a partition reads it, else this host; and a line that says where it
    was read, or why it was not. None without a line where no node shows InfiniBand or has the
    tools. `options` are what srun needs besides the partition.
    """
    why = ""
    for of_partition in seen:
        node = of_partition.nodes[0]
        try:
            texts = _read_on(node, of_partition.partition, options, run)
            return _named(texts), [f"the InfiniBand subnet was read on {node}"]
        except RailgaugeError as error:
            why = why or f"{node}: {' '.join(error.message.split())}"
    try:
        return _named(asking.ask(routes=False)), ["the InfiniBand subnet was read on this host"]
    except FabricError:
        pass
    shown = any(of.values.get("link_layer") == "InfiniBand" for of in seen)
    if why.endswith(" is not installed") and not shown:
        return None, []
    step = f"railgauge fabric show --save FOLDER, then --subnet FOLDER; {asking.RIGHTS}"
    return None, [f"no InfiniBand subnet was read ({why}); next: {step}"]


def _named(texts: Mapping[str, str]) -> Fabric:
    """The subnet of outputs; FabricError where its hosts have no names of their own."""
    fabric = folders.from_texts(texts)
    routes.require_names(fabric.subnet)
    return fabric


def _read_on(node: str, partition: str, options: Sequence[str], run: Run) -> dict[str, str]:
    """What a node reads of the subnet by a job; RailgaugeError where it does not."""
    command = asking.commands()[_TOPOLOGY]
    order = {_TOPOLOGY: {"argv": list(command.argv), "good": list(command.good)}}
    answer = run(
        *("srun", "--quiet", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--input=none"),
        *(f"--immediate={_LIMIT_S}", slurm_jobs.comment(), f"--partition={partition}", *options),
        *(*paths.on_node("system.fabric_outputs"), "--limit", f"{_LIMIT_S}"),
        *("--read", json.dumps(order)),
        limit_s=_JOB_S,
    )
    try:
        left = subnet_state.parse(answer)
    except ParseError:
        raise FabricError("what it printed of the subnet is not whole") from None
    if why := next(iter(left.errors.values()), ""):
        raise FabricError(why)
    return dict(left.texts)


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
