"""Fabrics as `railgauge.lab.subnet_topology` describes them, for faults to be planted in."""

from __future__ import annotations

import dataclasses
from collections import deque

from railgauge.fabric.folder import Fabric
from railgauge.fabric.reading.counters import Counted
from railgauge.fabric.subnet import Cable, Device, PortId, PortState, Rate, Subnet
from railgauge.lab import subnet_topology


def fabric(lab: subnet_topology.Subnet, firmware: str = "31.2014.2036") -> Fabric:
    """What the tools would read of it, with shortest routes that spread destinations in turn."""
    lids = {device.name: number for number, device in enumerate(lab.devices, start=1)}
    devices = {
        d.guid: Device(
            *(d.guid, d.kind, d.name, d.ports, lids[d.name]),
            firmware=firmware if d.kind == "switch" else "",
            model="0xd2f0" if d.kind == "switch" else "0x101b",
        )
        for d in lab.devices
    }
    guid = {d.name: d.guid for d in lab.devices}
    cables = []
    for cable in lab.cables:
        ends = [PortId(guid[end.device], end.port) for end in (cable.a, cable.b)]
        cables.append(Cable(min(ends), max(ends), Rate(cable.width, cable.speed)))
    cables.sort(key=lambda cable: (cable.a, cable.b))
    subnet = Subnet(devices, tuple(cables))
    states = {
        port: PortState("Active", "LinkUp", cable.rate) for port, cable in subnet.cable_at.items()
    }
    subnet = dataclasses.replace(subnet, states=states)
    return Fabric(subnet, tables(subnet), Counted({}), managers=(), manager_lids=())


def tables(subnet: Subnet) -> dict[int, dict[int, int]]:
    """Shortest paths; of several ports each destination takes the next one, as opensm does."""
    made: dict[int, dict[int, int]] = {device.guid: {} for device in subnet.switches()}
    ports: dict[int, list[tuple[int, int]]] = {}
    for end, cable in sorted(subnet.cable_at.items()):
        ports.setdefault(end.guid, []).append((end.port, cable.other(end).guid))
    used: dict[tuple[int, int], int] = {}
    for device in subnet.devices.values():
        distance = {device.guid: 0}
        front = deque([device.guid])
        while front:
            at = front.popleft()
            for _, far in ports.get(at, ()):
                if far not in distance and (at == device.guid or not subnet.is_hca(at)):
                    distance[far] = distance[at] + 1
                    front.append(far)
        for switch, table in made.items():
            if switch == device.guid:
                continue
            nearer = [p for p, far in ports[switch] if distance[far] == distance[switch] - 1]
            port = min(nearer, key=lambda port: (used.get((switch, port), 0), port))
            if device.kind == "hca":
                used[switch, port] = used.get((switch, port), 0) + 1
            table[device.lid] = port
    return made


def with_cables(fabric: Fabric, cables: list[Cable]) -> Fabric:
    """The fabric with other cables; the states are those of the ports that are cabled."""
    subnet = dataclasses.replace(
        fabric.subnet, cables=tuple(sorted(cables, key=lambda c: (c.a, c.b))), states={}
    )
    states = {
        port: PortState("Active", "LinkUp", cable.rate) for port, cable in subnet.cable_at.items()
    }
    return dataclasses.replace(fabric, subnet=dataclasses.replace(subnet, states=states))


def with_devices(fabric: Fabric, devices: dict[int, Device]) -> Fabric:
    return dataclasses.replace(fabric, subnet=dataclasses.replace(fabric.subnet, devices=devices))
