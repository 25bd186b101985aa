"""How evenly a switch's forwarding table spreads destinations over the cables that lead up."""

from __future__ import annotations

from collections.abc import Iterator

from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.reading.tables import Tables
from railgauge.fabric.subnet import PortId, Subnet

#: A port with this share of the mean, or more, and so many destinations above it, has too many.
_SHARE, _ABOVE = 1.5, 3


def upward(subnet: Subnet) -> dict[int, list[int]]:
    """GUID of a switch -> its ports that lead to a higher switch."""
    level = subnet.level
    ports: dict[int, list[int]] = {}
    for cable in subnet.cables:
        for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
            if 0 < level.get(near.guid, 0) < level.get(far.guid, 0):
                ports.setdefault(near.guid, []).append(near.port)
    return {guid: sorted(of) for guid, of in ports.items()}


def destinations(subnet: Subnet, tables: Tables, guid: int, ports: list[int]) -> dict[int, int]:
    """Output port -> HCAs that the switch sends there, of these ports."""
    counts = dict.fromkeys(ports, 0)
    table = tables[guid]
    for device in subnet.hcas():
        port = table.get(device.lid)
        if port in counts:
            counts[port] += 1
    return counts


def unbalanced(subnet: Subnet, tables: Tables) -> Iterator[FabricFinding]:
    """A finding for each switch, at the upward port with most destinations."""
    for guid, ports in upward(subnet).items():
        counts = destinations(subnet, tables, guid, ports)
        most = max(ports, key=lambda port: counts[port])
        mean = sum(counts.values()) / len(ports)
        if counts[most] < max(_SHARE * mean, mean + _ABOVE):
            continue
        least = min(ports, key=lambda port: counts[port])
        cable = subnet.cable_at[PortId(guid, most)]
        yield FabricFinding(
            "routes-unbalanced",
            *(subnet.devices[guid].name, most),
            str(subnet.end(cable.other(PortId(guid, most)))),
            f"{counts[most]} destinations go by this port, {mean:.1f} on average, and "
            f"{counts[least]} by port {least}",
            "the routing engine of opensm (routing_engine, root_guid_file); its log",
        )
