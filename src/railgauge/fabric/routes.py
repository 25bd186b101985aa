"""Leaves, routes and Slurm's topology, as a subnet has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from railgauge import hostlist
from railgauge.common.names import natural
from railgauge.fabric.folder import FabricError
from railgauge.fabric.reading.tables import Tables
from railgauge.fabric.subnet import Device, PortId, Subnet


def require_names(subnet: Subnet) -> None:
    """FabricError where an HCA has no description, or several have the same one: which host has
    which one is not known, and some of their hosts would be missing.
    """
    counts = Counter(device.name for device in subnet.hcas())
    name, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if count > 1 or "" in counts:
        name, count = ("", counts[""]) if "" in counts else (name, count)
        raise FabricError(
            f"{count} HCA{'s have' if count > 1 else ' has'} the description {name!r}, expected "
            "one each, such as 'n1 mlx5_0': their hosts are not known",
            next_step="on the hosts: restart rdma-ndd, then save again; or name their GUIDs in a "
            "node-name-map in the folder",
        )


class Route(NamedTuple):
    """At a leaf, the spine that data for an HCA goes to next: a line of `locate --routes`."""

    leaf: str
    destination: str
    spine: str


def rail(device: Device) -> str:
    """The rail of an HCA: what follows its host, `mlx5_0` of `n1 mlx5_0`."""
    return " ".join(device.name.split()[1:])


def routes(subnet: Subnet, tables: Tables) -> list[Route]:
    """The routes of every leaf to the HCAs of other leaves. A destination is the host where its
    HCA is its only one, else `HOST:RAIL`, as the locator names an end. Of three levels `spine` is
    the plane (`planes`). Parallel cables of a leaf are an uplink each: `spine1#7`, by its port.
    """
    hosts: dict[str, int] = {}
    for device in subnet.hcas():
        hosts[device.host] = hosts.get(device.host, 0) + 1
    names = {
        device.guid: device.host if hosts[device.host] == 1 else f"{device.host}:{rail(device)}"
        for device in subnet.hcas()
    }
    plane_of = {guid: name for name, guids in planes(subnet).items() for guid in guids}
    far_of = far_of_ports(subnet)
    found = []
    for guid in sorted({leaf for of in subnet.leaf_of_hca.values() for leaf in of}):
        spine_of = uplink_names(far_of[guid], plane_of)
        table = tables[guid]
        for device in subnet.hcas():
            if guid in subnet.leaf_of_hca.get(device.guid, ()):
                continue
            port = table.get(device.lid)
            if port in spine_of:
                leaf = subnet.devices[guid].name
                found.append(Route(leaf, names[device.guid], spine_of[port]))
    return sorted(found, key=lambda route: tuple(map(natural, route)))


def planes(subnet: Subnet) -> dict[str, tuple[int, ...]]:
    """Name -> GUIDs of switches that are connected without leaves. Data that goes up to a plane
    comes down from it. One of two levels is a spine, and has its name; others are `plane1` and on.
    """
    rest = [d.guid for d in subnet.switches() if subnet.level.get(d.guid, 0) > 1]
    rest.sort(key=lambda guid: natural(subnet.devices[guid].name))
    named: dict[str, tuple[int, ...]] = {}
    seen: set[int] = set()
    for first in rest:
        if first in seen:
            continue
        plane, front = [first], [first]
        seen.add(first)
        while front:
            near = subnet.neighbours[front.pop()]
            beyond = [far for far in near if subnet.level.get(far, 0) > 1 and far not in seen]
            seen.update(beyond)
            plane += beyond
            front += beyond
        name = subnet.devices[first].name if len(plane) == 1 else f"plane{len(named) + 1}"
        named[name] = tuple(plane)
    return named


def uplink_names(far_of: Mapping[int, int], plane_of: Mapping[int, str]) -> dict[int, str]:
    """Port of a leaf -> the plane that it leads to; of parallel cables with the port."""
    far = {port: plane_of[guid] for port, guid in far_of.items() if guid in plane_of}
    many = list(far.values())
    return {port: name + (f"#{port}" if many.count(name) > 1 else "") for port, name in far.items()}


def far_of_ports(subnet: Subnet) -> dict[int, dict[int, int]]:
    """Switch -> port -> the device at the cable's other end."""
    far: dict[int, dict[int, int]] = {}
    for end, cable in subnet.cable_at.items():
        far.setdefault(end.guid, {})[end.port] = cable.other(end).guid
    return far


def path(subnet: Subnet, tables: Tables, sender: Device, receiver: Device) -> list[PortId]:
    """The output ports of the switches from one HCA to another one, in order; FabricError where a
    table leads nowhere or in a circle.
    """
    at = next((leaf for leaf in subnet.leaf_of_hca.get(sender.guid, ())), None)
    ports: list[PortId] = []
    while at is not None and at != receiver.guid:
        port = PortId(at, tables[at].get(receiver.lid, 0))
        cable = subnet.cable_at.get(port)
        if cable is None or port in ports:
            name = subnet.devices[at].name
            raise FabricError(
                f"{name} has no route to {receiver.name} (LID {receiver.lid})",
                next_step=f"ibtracert {sender.lid} {receiver.lid}",
            )
        ports.append(port)
        at = cable.other(port).guid
    return ports


def leaves(subnet: Subnet) -> dict[str, list[str]]:
    """Leaf -> its hosts. Leaves with the same hosts, one a rail, are one with the first one's name;
    if the HCAs of a host are on leaves with different hosts, the leaf of its first HCA counts.
    """
    first: dict[str, tuple[str, int]] = {}
    hosts_of: dict[int, set[str]] = {}
    for device in subnet.hcas():
        for leaf in subnet.leaf_of_hca.get(device.guid, ()):
            hosts_of.setdefault(leaf, set()).add(device.host)
            first[device.host] = min(
                first.get(device.host, (device.name, leaf)), (device.name, leaf)
            )
    groups: dict[frozenset[str], str] = {}
    for guid in sorted(hosts_of, key=lambda guid: natural(subnet.devices[guid].name)):
        groups.setdefault(frozenset(hosts_of[guid]), subnet.devices[guid].name)
    named: dict[str, list[str]] = {}
    for host, (_, guid) in first.items():
        named.setdefault(groups[frozenset(hosts_of[guid])], []).append(host)
    return {leaf: sorted(named[leaf], key=natural) for leaf in sorted(named, key=natural)}


def ports(subnet: Subnet) -> dict[str, dict[str, str]]:
    """Host -> rail -> the leaf and port of its HCA, as `extras.switch_ports` of a system."""
    found: dict[str, dict[str, str]] = {}
    for end, cable in subnet.cable_at.items():
        device = subnet.devices[end.guid]
        if device.kind == "hca":
            far = subnet.end(cable.other(end))
            found.setdefault(device.host, {})[rail(device) or f"port{end.port}"] = (
                f"{far.name} {far.port}"
            )
    return {host: dict(sorted(found[host].items())) for host in sorted(found, key=natural)}


# ---- Slurm ----

_NAME = re.compile(r"[A-Za-z0-9._-]+")


class SlurmSwitch(NamedTuple):
    """A switch of topology/tree: its nodes, or the switches below it. `same` are switches with the
    same ones, for which it stands: Slurm wants a tree.
    """

    name: str
    nodes: tuple[str, ...]
    switches: tuple[str, ...]
    same: tuple[str, ...] = ()


def slurm_switches(subnet: Subnet) -> list[SlurmSwitch]:
    """The tree of a fabric: switches of a level with the same ones below them are one."""
    own = leaves(subnet)
    made = [SlurmSwitch(_slurm_name(leaf), tuple(hosts), ()) for leaf, hosts in own.items()]
    hosts_of = {host: _slurm_name(leaf) for leaf, hosts in own.items() for host in hosts}
    stands_for: dict[int, str] = {}
    for device in subnet.hcas():
        for leaf in subnet.leaf_of_hca.get(device.guid, ()):
            stands_for.setdefault(leaf, hosts_of[device.host])
    level = subnet.level
    for number in range(2, max(level.values(), default=0) + 1):
        groups: dict[tuple[str, ...], list[int]] = {}
        for guid in (g for g, of in level.items() if of == number):
            below = {
                stands_for[far]
                for far in subnet.neighbours[guid]
                if level.get(far) == number - 1 and far in stands_for
            }
            groups.setdefault(tuple(sorted(below, key=natural)), []).append(guid)
        for children, guids in sorted(groups.items(), key=lambda item: natural(item[0][0])):
            names = sorted((subnet.devices[guid].name for guid in guids), key=natural)
            name = _slurm_name(names[0])
            made.append(SlurmSwitch(name, (), children, tuple(names[1:])))
            stands_for |= dict.fromkeys(guids, name)
    return made


def _slurm_name(name: str) -> str:
    return "_".join(_NAME.findall(name)) or "switch"


def topology_conf(switches: list[SlurmSwitch]) -> str:
    """topology.conf of topology/tree (topology.conf(5))."""
    lines = ["# written by railgauge fabric slurm-topology from the cables of the subnet"]
    for switch in switches:
        if switch.same:
            lines.append(f"# {switch.name} stands for {', '.join(switch.same)} too")
        below = (
            f"Nodes={_folded(switch.nodes)}"
            if switch.nodes
            else (f"Switches={_folded(switch.switches)}")
        )
        lines.append(f"SwitchName={switch.name} {below}")
    return "".join(f"{line}\n" for line in lines)


def topology_yaml(switches: list[SlurmSwitch]) -> str:
    """topology.yaml of Slurm 25.05 and later (topology.yaml(5)), with one tree for all."""
    lines = [
        "# written by railgauge fabric slurm-topology from the cables of the subnet",
        *("- topology: default", "  cluster_default: true", "  tree:", "    switches:"),
    ]
    for switch in switches:
        lines.append(f"      - switch: {switch.name}")
        if switch.nodes:
            lines.append(f"        nodes: {_folded(switch.nodes)}")
        else:
            lines.append(f"        children: {_folded(switch.switches)}")
    return "".join(f"{line}\n" for line in lines)


def _folded(names: tuple[str, ...]) -> str:
    return hostlist.fold(names)


def leaves_of_conf(text: str) -> dict[str, str]:
    """Node -> leaf, of a topology.conf; FabricError names the line."""
    found: dict[str, str] = {}
    joined = re.sub(r"\\\n", " ", text)
    for number, raw in enumerate(joined.split("\n"), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        fields = {
            key.lower(): value for key, _, value in (word.partition("=") for word in line.split())
        }
        if "switchname" not in fields or not fields.keys() & {"nodes", "switches"}:
            raise FabricError(
                f"topology.conf, line {number}: {line[:60]!r}, expected SwitchName= with Nodes= or "
                "Switches=",
                next_step="man topology.conf",
            )
        if nodes := fields.get("nodes"):
            try:
                members = hostlist.expand(nodes)
            except ValueError as error:
                raise FabricError(
                    f"topology.conf, line {number}: {error}", next_step="man topology.conf"
                ) from None
            for node in members:
                found[node] = fields["switchname"]
    return found


def differences(subnet: Subnet, present: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(node, leaf of the cables, leaf of Slurm) where they disagree, "" for none. Names of leaves
    may differ: a leaf of Slurm is the one of the cables with most of its nodes.
    """
    own = leaves(subnet)
    leaf_of = {host: leaf for leaf, hosts in own.items() for host in hosts}
    votes: dict[str, dict[str, int]] = {}
    for node, leaf in present.items():
        if node in leaf_of:
            of = votes.setdefault(leaf, {})
            of[leaf_of[node]] = of.get(leaf_of[node], 0) + 1
    meant = {leaf: max(of, key=lambda name: of[name]) for leaf, of in votes.items()}
    for node in sorted({*leaf_of, *present}, key=natural):
        cabled, said = leaf_of.get(node, ""), present.get(node, "")
        if cabled != meant.get(said, said if said else ""):
            yield node, cabled, said
