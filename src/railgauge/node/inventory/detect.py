"""What a node reports for a new system's description, as one line of JSON:

    python3 -m railgauge.node.inventory.detect n1 n2,10.0.0.2 n3,10.0.0.3,host3

    {"schema": "railgauge-detect-1", "node": "n1", "way": {"device": "eth0", "mtu_bytes": 9000},
     "link_mbits": 25000, "ports": {"mlx5_0/1": {"state": "ACTIVE", ...}}, "gpus": 8, ...}

The arguments are the nodes of the partition, each with the other names and addresses that Slurm has
for it; the way is the one to the first that is another. What cannot be had stands under `unknown`,
with the reason. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from railgauge.node.inventory.document import take
from railgauge.node.inventory.network import is_pci
from railgauge.node.system import rdma_devices, srun_output
from railgauge.node.system.tool_call import node_name, path_facts

SCHEMA = "railgauge-detect-1"

#: More of one node are of no use: each has a name of its own.
_PEERS_TRIED = 4


def look(
    peers: list[list[str]], sys_root: str = "/sys", proc_root: str = "/proc"
) -> dict[str, Any]:
    """The document of this node; `peers` are the names of each node, the NodeName first."""
    # Slurm's own name of it, which need not be the host's.
    node = os.environ.get("SLURMD_NODENAME") or node_name()
    inventory = take(quick=True, sys_root=sys_root, proc_root=proc_root)
    fields = inventory["fields"]
    unknown: dict[str, str] = {}
    way = _way([names for names in peers if names[0] != node], unknown)
    document = {
        "schema": SCHEMA,
        "node": node,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "way": way,
        "link_mbits": _link_mbits(way.get("device"), fields, sys_root, unknown),
        # The links of a bond; none of another interface.
        "bond": str(fields.get(f"net/{way.get('device')}/bond_links", "")).split(),
        "ports": _ports(sys_root, fields),
        "gpus": fields.get("gpu/count", 0),
        "gpu_model": fields.get("gpu/0/model", ""),
        "product": fields.get("system/product", ""),
    }
    return {**document, "unknown": unknown}


def _way(peers: list[list[str]], unknown: dict[str, str]) -> dict[str, Any]:
    """The interface towards another node, its address and MTU."""
    reasons = []
    for peer, *names in peers[:_PEERS_TRIED]:
        facts = path_facts(peer, names)
        if facts.get("device") not in (None, "lo"):
            named = ("device", "address", "mtu_bytes")
            return {"peer": peer, **{name: facts[name] for name in named if name in facts}}
        if "unresolved" in facts:
            reasons.append(f"no address of {peer} is known here ({facts['unresolved'][peer]})")
        else:
            reasons.append(f"{peer}: {facts.get('route_unknown', 'its address is this node')}")
    unknown["way"] = "; ".join(reasons) or "the partition has no other node"
    return {}


def _link_mbits(
    device: str | None, fields: dict[str, Any], root: str, unknown: dict[str, str]
) -> int | None:
    """The raw rate of an interface that is hardware's, or lies on one that is."""
    if device is None:
        return None
    home = Path(root, "class/net", device)
    below = sorted(p.name.partition("_")[2] for p in home.glob("lower_*"))
    if (home / "bonding").is_dir() or (home / "device").exists():
        speed = fields.get(f"net/{device}/speed_mbits")
        if speed is None:
            unknown["link_mbits"] = f"the driver of {device} does not say its speed"
        return speed
    if len(below) == 1:
        # A VLAN.
        return _link_mbits(below[0], fields, root, unknown)
    unknown["link_mbits"] = f"{device} is virtual: what it says of its speed is of no link"
    return None


def _ports(root: str, fields: dict[str, Any]) -> dict[str, Any]:
    ports = {}
    for device in rdma_devices.devices(".*", root):
        # Soft-RoCE has no link of its own, so its rate means nothing.
        hardware = is_pci(Path(root, "class/infiniband", device))
        for port in rdma_devices.ports(device, root):
            facts = rdma_devices.port_facts(device, port, root)
            types = re.findall(
                "IB/RoCE v1|RoCE v2", fields.get(f"nic/{device}/{port}/gid_types_ipv4", "")
            )
            ports[f"{device}/{port}"] = {**facts, "hardware": hardware, "gid_types": types}
    return ports


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m railgauge.node.inventory.detect", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "nodes", nargs="*", metavar="NODE[,NAME]...", help="the nodes of the partition"
    )
    parser.add_argument(
        "--lines",
        action="store_true",
        help="print it as lines that tasks of other nodes may part (srun_output.py)",
    )
    options = parser.parse_args()
    document = look([names.split(",") for names in options.nodes])
    text = json.dumps(document)
    print(*(srun_output.lines(document["node"], text) if options.lines else [text]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
