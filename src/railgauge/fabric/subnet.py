"""An InfiniBand subnet as it was discovered: devices, ports, cables, states and counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

#: Name of a lane's speed, as ibnetdiscover prints it -> Gb/s of a lane, as iblinkinfo prints it.
#: InfiniBand Architecture Specification 1, PortInfo, LinkSpeedActive and LinkSpeedExtActive.
LANE_GBITS: Mapping[str, float] = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.3125,
    "FDR": 14.0625,
    "EDR": 25.78125,
    "HDR": 53.125,
    "NDR": 106.25,
    "XDR": 212.5,
}
SPEED_OF_LANE: Mapping[float, str] = {gbits: name for name, gbits in LANE_GBITS.items()}

Kind = Literal["switch", "hca", "router"]


class PortId(NamedTuple):
    """A port: GUID of its node, and number from 1."""

    guid: int
    port: int


class Rate(NamedTuple):
    """Lanes of a link, and the speed of each, a key of `LANE_GBITS`."""

    width: int
    speed: str

    def __str__(self) -> str:
        return f"{self.width}x {self.speed}"


class End(NamedTuple):
    """A port by the description of its device, which stays when a device is replaced."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.name} port {self.port}"


def host_of(description: str) -> str:
    """The host of an HCA: the first word of its description, `n1` of `n1 mlx5_0`."""
    return (description.split() or [description])[0]


@dataclasses.dataclass(frozen=True)
class Device:
    """A node of the subnet. `lid` is that of a switch's port 0, or of an HCA's first port; 0 where
    no subnet manager gave one. `firmware` and `model` are "" where they are not known.
    """

    guid: int
    kind: Kind
    name: str
    ports: int
    lid: int = 0
    firmware: str = ""
    model: str = ""

    @property
    def host(self) -> str:
        return host_of(self.name)


@dataclasses.dataclass(frozen=True)
class Cable:
    """A cable between two ports, the lesser one first. The rate is None where it is unknown."""

    a: PortId
    b: PortId
    rate: Rate | None

    def other(self, end: PortId) -> PortId:
        return self.b if end == self.a else self.a


@dataclasses.dataclass(frozen=True)
class Clash:
    """A port that more than one port claims to be cabled to: two devices have its GUID."""

    port: PortId
    claimed_by: tuple[PortId, ...]


@dataclasses.dataclass(frozen=True)
class PortState:
    """What iblinkinfo prints of a port. `could` is what both ends can do and the link does not."""

    state: str
    physical: str
    rate: Rate | None
    could_width: int | None = None
    could_speed: str | None = None

    @property
    def is_up(self) -> bool:
        return self.physical == "LinkUp"


@dataclasses.dataclass(frozen=True)
class Subnet:
    """Devices by GUID, and cables in order. `port_guids` gives the port of a port GUID."""

    devices: Mapping[int, Device]
    cables: tuple[Cable, ...]
    clashes: tuple[Clash, ...] = ()
    port_guids: Mapping[int, PortId] = dataclasses.field(default_factory=dict)
    #: of ports that iblinkinfo listed; empty where none was read
    states: Mapping[PortId, PortState] = dataclasses.field(default_factory=dict)

    @cached_property
    def cable_at(self) -> Mapping[PortId, Cable]:
        return {end: cable for cable in self.cables for end in (cable.a, cable.b)}

    @cached_property
    def port_of_lid(self) -> Mapping[int, Device]:
        return {device.lid: device for device in self.devices.values() if device.lid}

    @cached_property
    def leaf_of_hca(self) -> Mapping[int, tuple[int, ...]]:
        """GUID of an HCA -> GUIDs of the switches that it is cabled to, by its ports."""
        leaves: dict[int, list[int]] = {}
        for cable in self.cables:
            for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
                if self.is_hca(near.guid) and not self.is_hca(far.guid):
                    leaves.setdefault(near.guid, []).append(far.guid)
        return {guid: tuple(dict.fromkeys(of)) for guid, of in leaves.items()}

    @cached_property
    def level(self) -> Mapping[int, int]:
        """GUID -> level: 0 for an HCA, 1 for a switch with HCAs (a leaf), 2 for one that is cabled
        to a leaf, and so on. Switches that no HCA reaches are on none.
        """
        levels = {d.guid: 0 for d in self.devices.values() if d.kind == "hca"}
        leaves = [guid for of in self.leaf_of_hca.values() for guid in of]
        levels |= dict.fromkeys(leaves, 1)
        front = list(dict.fromkeys(leaves))
        while front:
            beyond = [
                far for guid in front for far in self.neighbours.get(guid, ()) if far not in levels
            ]
            front = list(dict.fromkeys(beyond))
            levels |= {guid: levels[self._below(guid, levels)] + 1 for guid in front}
        return levels

    def _below(self, guid: int, levels: Mapping[int, int]) -> int:
        known = [far for far in self.neighbours[guid] if levels.get(far)]
        return min(known, key=lambda far: levels[far])

    @cached_property
    def neighbours(self) -> Mapping[int, tuple[int, ...]]:
        near: dict[int, list[int]] = {}
        for cable in self.cables:
            near.setdefault(cable.a.guid, []).append(cable.b.guid)
            near.setdefault(cable.b.guid, []).append(cable.a.guid)
        return {guid: tuple(dict.fromkeys(of)) for guid, of in near.items()}

    def is_hca(self, guid: int) -> bool:
        device = self.devices.get(guid)
        return device is not None and device.kind == "hca"

    def switches(self) -> list[Device]:
        return [device for device in self.devices.values() if device.kind == "switch"]

    def hcas(self) -> list[Device]:
        return [device for device in self.devices.values() if device.kind == "hca"]

    def end(self, port: PortId) -> End:
        device = self.devices.get(port.guid)
        return End(device.name if device else f"{port.guid:#018x}", port.port)

    def ends(self) -> Iterator[tuple[End, End, Cable]]:
        for cable in self.cables:
            yield self.end(cable.a), self.end(cable.b), cable
