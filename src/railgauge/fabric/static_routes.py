"""The uplinks that data takes between two HCAs, by the forwarding tables of a subnet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from railgauge import textfile
from railgauge.fabric import folder as folders
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.fabric.routes import far_of_ports, planes, rail, uplink_names
from railgauge.fabric.subnet import Device, PortId

#: The outputs of a reading that have the cables and the tables.
TOPOLOGY, TABLES = "ibnetdiscover.txt", "dump_fts.txt"


class Uplinks(NamedTuple):
    """The spine to which data goes up from the sender's leaf, and the one from which it comes down
    to the receiver's leaf. Of parallel cables each has the port of its own leaf: `spine1#7`.
    """

    up: str
    down: str


class StaticRoutes:
    """What the tables of a subnet say of data between HCAs. An HCA is known by its node GUID.

    An HCA with two cabled ports is left out: which of them data takes is not known.
    """

    def __init__(self, fabric: Fabric) -> None:
        """FabricError without tables, and where a GUID or the name of a switch is not unique."""
        subnet = self._subnet = fabric.subnet
        if fabric.tables is None:
            raise FabricError("no forwarding tables", next_step="dump_fts > FOLDER/dump_fts.txt")
        self._tables = fabric.tables
        names = Counter(device.name for device in subnet.switches())
        name, count = max(names.items(), key=lambda item: item[1], default=("", 0))
        if subnet.clashes or count > 1:
            what = f"switches called {name!r}" if count > 1 else "devices with one GUID"
            raise FabricError(
                f"several {what}: what the tables say is not known",
                next_step="railgauge fabric check",
            )
        cabled = Counter(end.guid for end in subnet.cable_at)
        #: GUID of an HCA -> GUID of its leaf
        self._leaf = {
            guid: leaves[0]
            for guid, leaves in subnet.leaf_of_hca.items()
            if cabled[guid] == 1 and subnet.devices[guid].lid
        }
        plane_of = {guid: name for name, guids in planes(subnet).items() for guid in guids}
        far_of = far_of_ports(subnet)
        #: GUID of a leaf -> its port -> the name of the uplink there
        self._uplinks = {
            guid: uplink_names(far_of[guid], plane_of) for guid in set(self._leaf.values())
        }
        #: GUIDs of a switch above the leaves and of an HCA -> the port of the HCA's leaf
        self._arrivals: dict[tuple[int, int], PortId | None] = {}

    def hcas(self, hosts: Collection[str]) -> dict[int, tuple[str, int]]:
        """GUID -> leaf and LID of the HCAs of these hosts, by the names that the HCAs give."""
        return {one.guid: (self.leaf(one.guid), one.lid) for one in self._devices(hosts)}

    def _devices(self, hosts: Collection[str]) -> list[Device]:
        devices = (self._subnet.devices[guid] for guid in self._leaf)
        return [device for device in devices if device.host in hosts]

    def leaf(self, guid: int, lid: int | None = None) -> str:
        """The leaf of an HCA; "" where it is not known, or where the HCA has another LID by now."""
        leaf = self._leaf.get(guid)
        if leaf is None or lid not in (None, self._subnet.devices[guid].lid):
            return ""
        return self._subnet.devices[leaf].name

    def uplinks(self, sender: int, receiver: int) -> Uplinks | None:
        """The uplinks from one HCA to another one on another leaf; None where the tables do not
        lead there, or lead over a third leaf.
        """
        here, there = self._leaf.get(sender), self._leaf.get(receiver)
        if here is None or there is None or here == there:
            return None
        port = self._tables[here].get(self._subnet.devices[receiver].lid, 0)
        up = self._uplinks[here].get(port, "")
        arrival = self._arrival(self._far(here, port), receiver) if up else None
        down = self._uplinks[there].get(arrival.port, "") if arrival else ""
        return Uplinks(up, down) if down else None

    def _arrival(self, switch: int, receiver: int) -> PortId | None:
        """The port of the receiver's leaf by which data comes from a switch above the leaves."""
        leaf, lid = self._leaf[receiver], self._subnet.devices[receiver].lid
        arrival = None
        way: list[int] = []
        while (switch, receiver) not in self._arrivals and switch not in way:
            way.append(switch)
            near = PortId(switch, self._tables.get(switch, {}).get(lid, 0))
            cable = self._subnet.cable_at.get(near)
            if cable is None:
                break
            port = cable.other(near)
            if port.guid == leaf:
                last = self._far(leaf, self._tables[leaf].get(lid, 0))
                arrival = port if last == receiver else None
                break
            if self._subnet.level.get(port.guid, 0) < 2:
                break
            switch = port.guid
        else:
            arrival = self._arrivals.get((switch, receiver))
        self._arrivals.update(dict.fromkeys(((one, receiver) for one in way), arrival))
        return arrival

    def _far(self, guid: int, port: int) -> int:
        """The device at the other end of a port's cable; 0 without one."""
        near = PortId(guid, port)
        cable = self._subnet.cable_at.get(near)
        return cable.other(near).guid if cable else 0

    def ports(self) -> dict[str, str]:
        """Uplink, `leaf1:spine2` -> its ports: `leaf1 port 7 (cable to spine2 port 1)`."""
        subnet, shown = self._subnet, {}
        for leaf, names in self._uplinks.items():
            for number, name in names.items():
                near = PortId(leaf, number)
                far = subnet.cable_at[near].other(near)
                words = f"{subnet.end(near)} (cable to {subnet.end(far)})"
                shown[f"{subnet.devices[leaf].name}:{name}"] = words
        return shown

    def rows(self, hosts: Collection[str]) -> list[tuple[str, str, str, list[int]]]:
        """Leaf, uplinks up and down, and the GUIDs of the hosts' HCAs that data goes to by these;
        from the leaves that have HCAs of the same rail.
        """
        hcas = self._devices(hosts)
        first: dict[tuple[int, str], int] = {}
        for device in hcas:
            first.setdefault((self._leaf[device.guid], rail(device)), device.guid)
        found: dict[tuple[str, str, str], list[int]] = {}
        for receiver in hcas:
            for (leaf, of_rail), sender in first.items():
                if of_rail == rail(receiver) and (way := self.uplinks(sender, receiver.guid)):
                    key = self._subnet.devices[leaf].name, way.up, way.down
                    found.setdefault(key, []).append(receiver.guid)
        return [(*key, guids) for key, guids in sorted(found.items())]


def from_reading(reading: Path) -> StaticRoutes | None:
    """The routes by the outputs of a campaign's reading; None where they are not whole, or do not
    fit together.
    """
    try:
        files = [file for file in folders.files_of(reading) if file.name in (TOPOLOGY, TABLES)]
        return StaticRoutes(folders.from_texts({str(file): textfile.read(file) for file in files}))
    except (FabricError, OSError, ValueError):
        # What could not be read is said by the check that reads.
        return None
