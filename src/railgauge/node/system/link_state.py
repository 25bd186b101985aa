"""Say what state this node's network path is in: one JSON document on stdout.

    python3 -m railgauge.node.system.link_state ORDERS

ORDERS is JSON: {"rdma": {"devices": <regular expression>, "names": of the rails' devices where
known, "gid_type": "RoCE v2" or null} or null, "bond": {"device": "bond0"} or null}. What is missing
is a fact, not an error: it stands with its reason under `unknown`, and the document is whole
whatever the node lacks. Nothing is judged here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from railgauge.node.system.rdma_devices import (
    FactError,
    ask,
    collect,
    devices,
    gid_index,
    int_of,
    memlock_kib,
    names_in,
    port_facts,
    ports,
    rail_ports,
    text_of,
)
from railgauge.node.system.tool_call import node_name

Facts = dict[str, Any]

#: What /proc/net/bonding calls the modes (Linux, drivers/net/bonding/bond_main.c bond_mode_name).
BOND_MODES = {
    "load balancing (round-robin)": "balance-rr",
    "fault-tolerance (active-backup)": "active-backup",
    "load balancing (xor)": "balance-xor",
    "fault-tolerance (broadcast)": "broadcast",
    "IEEE 802.3ad Dynamic link aggregation": "802.3ad",
    "transmit load balancing": "balance-tlb",
    "adaptive load balancing": "balance-alb",
}


def root_qdiscs(text: str) -> dict[str, str]:
    """The kind of each interface's root queueing discipline, from `tc -j qdisc show`."""
    try:
        entries = json.loads(text)
        return {entry["dev"]: entry["kind"] for entry in entries if entry.get("root")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FactError(f"tc -j qdisc show: not the JSON expected: {text[:80]!r}") from None


def _qdisc_of() -> Callable[[str], str]:
    """A look-up that asks tc once for all interfaces."""
    kinds: dict[str, str] = {}
    reason = "tc shows no root qdisc"
    try:
        kinds = root_qdiscs(ask(["tc", "-j", "qdisc", "show"]))
    except FactError as error:
        reason = str(error)

    def look_up(interface: str) -> str:
        if interface not in kinds:
            raise FactError(reason)
        return kinds[interface]

    return look_up


def _speed(path: Path) -> int:
    """Mb/s; drivers say -1 where there is none."""
    speed = int_of(path)
    if speed < 0:
        raise FactError(f"{path}: {speed}, not known to the driver")
    return speed


def interfaces(root: str, qdisc: Callable[[str], str]) -> Facts:
    """MTU, state, speed and root qdisc of every network interface but the loopback."""
    folder = Path(root, "class/net")

    def one(home: Path) -> Facts:
        return collect(
            {
                "mtu_bytes": lambda: int_of(home / "mtu"),
                "operstate": lambda: text_of(home / "operstate"),
                "speed_mbits": lambda: _speed(home / "speed"),
                "qdisc": lambda: qdisc(home.name),
            }
        )

    return {n: one(folder / n) for n in names_in(folder) if n != "lo" and (folder / n).is_dir()}


def rails(wanted: Facts, root: str, qdisc: Callable[[str], str]) -> list[Facts]:
    """Every port of the devices that carry the fabric, with the number of its rail."""
    there = [(d, port) for d in devices(wanted["devices"], root) for port in ports(d, root)]
    return [
        {
            "rail": rail,
            "device": device,
            "port": port,
            **_rail(device, port, wanted.get("gid_type"), root, qdisc),
        }
        for rail, (device, port) in rail_ports(wanted.get("names", ()), there).items()
    ]


def _rail(
    device: str, port: int, gid_type: str | None, root: str, qdisc: Callable[[str], str]
) -> Facts:
    facts = port_facts(device, port, root)

    def home() -> Path:
        if "netdev" not in facts:
            raise FactError("no interface is known for this port")
        return Path(root, "class/net", facts["netdev"])

    more = collect(
        {
            "netdev_mtu_bytes": lambda: int_of(home() / "mtu"),
            "netdev_operstate": lambda: text_of(home() / "operstate"),
            "qdisc": lambda: qdisc(home().name),
            "gid_index": lambda: _gid(device, port, gid_type, root),
        }
    )
    return {**facts, **more, "unknown": {**facts["unknown"], **more["unknown"]}}


def _gid(device: str, port: int, gid_type: str | None, root: str) -> Facts:
    """Without a type, which only RoCE has, it is the port's own GID, the first."""
    if gid_type is None:
        path = Path(root, "class/infiniband", device, "ports", str(port), "gids/0")
        return {"gid_index": 0, "gid": text_of(path)}
    gid = gid_index(device, port, gid_type, root=root)
    return {
        "gid_index": gid.number,
        "gid": gid.gid,
        "address": gid.address,
        "gid_candidates": list(gid.candidates),
    }


def parse_bond(text: str) -> Facts:
    """Mode, links and active aggregator from /proc/net/bonding/<device>.

    Speeds are in Mb/s; a speed or an aggregator that the kernel does not know is None. Only root
    is shown the active aggregator there.
    """
    bond: Facts = {"links": []}
    link: Facts | None = None
    in_active = False
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "Slave Interface":
            link = {"name": value, "mii_status": None, "speed_mbits": None, "aggregator_id": None}
            bond["links"].append(link)
        elif name == "Active Aggregator Info":
            in_active = True
        elif name == "Bonding Mode":
            bond["mode"] = BOND_MODES.get(re.sub(r" \(fail_over_mac .*", "", value), value)
        elif name == "Aggregator ID" and link is not None:
            link["aggregator_id"] = _number(value)
        elif name == "Aggregator ID" and in_active:
            bond["active_aggregator"] = _number(value)
        elif name == "MII Status" and link is not None:
            link["mii_status"] = value
        elif name == "Speed" and link is not None:
            link["speed_mbits"] = _number(value)
        elif name == "Link Failure Count" and link is not None:
            link["failures"] = _number(value)
    return bond


def _number(value: str) -> int | None:
    match = re.match("[0-9]{1,20}", value)
    return int(match[0]) if match else None


def bond(device: str, root: str, proc: str) -> Facts:
    """The bond as the kernel shows it; `mode` in the words of `ip link` (802.3ad)."""
    home = Path(root, "class/net", device)
    shown = collect({"links": lambda: parse_bond(text_of(Path(proc, "net/bonding", device)))})
    # sysfs says both to everyone, but is not there for a bond of another network namespace.
    more = collect(
        {
            "mode": lambda: text_of(home / "bonding/mode").partition(" ")[0],
            "active_aggregator": lambda: int_of(home / "bonding/ad_aggregator"),
        }
    )
    facts = {"device": device, "links": [], **shown, **more}
    unknown = {**shown["unknown"], **more["unknown"]}
    facts["unknown"] = {name: why for name, why in unknown.items() if not facts.get(name)}
    return facts


def state(spec: Facts, root: str = "/sys", proc: str = "/proc") -> Facts:
    """The document; `root` stands for /sys."""
    qdisc = _qdisc_of()
    sections: dict[str, Callable[[], Any]] = {
        "memlock_kib": memlock_kib,
        "rails": lambda: rails(spec["rdma"], root, qdisc) if spec.get("rdma") else [],
        # One fact each, although they are dicts.
        "bond": lambda: {"bond": bond(spec["bond"]["device"], root, proc)},
        "interfaces": lambda: {"interfaces": interfaces(root, qdisc)},
    }
    if not spec.get("bond"):
        del sections["bond"]
    return {
        "node": node_name(),
        "kernel": os.uname().release,
        "rails": [],
        "bond": None,
        "interfaces": {},
        **collect(sections),
    }


def read_spec(text: str) -> Facts:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FactError(f"orders: {error}") from None
    if not isinstance(spec, dict):
        raise FactError(f"orders: found {type(spec).__name__}, expected an object")
    return spec


def main() -> int:
    unread = {}
    spec: Facts = {}
    try:
        spec = read_spec(sys.argv[1])
    except FactError as error:
        unread["spec"] = str(error)
    document = state(spec)
    document["unknown"].update(unread)
    print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
