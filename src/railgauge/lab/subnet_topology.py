"""The InfiniBand subnet of a lab: switches, HCAs and cables as a topology file of ibsim.

ibsim reads what ibnetdiscover prints. It takes a GUID from a line such as `switchguid=0x1`, and the
node description from the remark of the header line.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

#: The first GUIDs of switches and of HCAs: locally administered, so that no vendor has them.
_SWITCH_GUIDS, _HCA_GUIDS = 0x0200_0000_0000_0000, 0x0201_0000_0000_0000
#: A node's port p has its GUID plus p: HCAs lie so far apart.
_GUIDS_OF_HCA = 0x10

#: ibsim's numbers for the lanes of a cable and for the speed of a lane, as the InfiniBand
#: specification codes them: SDR 2.5, DDR 5 and QDR 10 Gb/s. All ports of ibsim can do 12X QDR.
WIDTHS = {1: 1, 4: 2, 8: 4, 12: 8}
SPEEDS = {"SDR": 1, "DDR": 2, "QDR": 4}


class Port(NamedTuple):
    """A port of a device; ports count from 1."""

    device: str
    port: int


@dataclasses.dataclass(frozen=True)
class Device:
    """A switch or an HCA. Its name is its node description, and names are unique."""

    name: str
    kind: Literal["switch", "hca"]
    ports: int
    guid: int

    @property
    def node_id(self) -> str:
        """What ibsim's console and SIM_HOST call it: `S-0200000000000001`."""
        return f"{'S' if self.kind == 'switch' else 'H'}-{self.guid:016x}"


@dataclasses.dataclass(frozen=True)
class Cable:
    """A cable between two ports, with its lanes (`WIDTHS`) and the speed of each (`SPEEDS`)."""

    a: Port
    b: Port
    width: int = 12
    speed: str = "QDR"


@dataclasses.dataclass(frozen=True)
class Subnet:
    """The devices and cables of a subnet. The first device is where a client of ibsim attaches by
    default.
    """

    devices: tuple[Device, ...]
    cables: tuple[Cable, ...]

    def device(self, name: str) -> Device:
        """KeyError for a name that no device has."""
        for device in self.devices:
            if device.name == name:
                return device
        raise KeyError(name)

    def topology(self) -> str:
        """The file that ibsim reads."""
        at: dict[str, list[tuple[int, str]]] = {device.name: [] for device in self.devices}
        of_name = {device.name: device for device in self.devices}
        for cable in self.cables:
            rate = f"w={WIDTHS[cable.width]} s={SPEEDS[cable.speed]}"
            for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
                line = f'[{near.port}]\t"{of_name[far.device].node_id}"[{far.port}] {rate}\n'
                at[near.device].append((near.port, line))
        return "\n".join(
            f"{'switchguid' if device.kind == 'switch' else 'caguid'}={device.guid:#x}\n"
            f"{'Switch' if device.kind == 'switch' else 'Hca'}\t{device.ports} "
            f'"{device.node_id}"\t\t# "{device.name}"\n'
            f"{''.join(line for _, line in sorted(at[device.name]))}"
            for device in self.devices
        )

    def far_end(self, port: Port) -> Port | None:
        """Where the cable of a port ends; None for a port without one."""
        for cable in self.cables:
            if port in (cable.a, cable.b):
                return cable.b if port == cable.a else cable.a
        return None

    def quoted(self, port: Port) -> str:
        """A port as ibsim's console takes it: `"S-0200000000000001"[3]`."""
        return f'"{self.device(port.device).node_id}"[{port.port}]'

    def free_port(self, name: str) -> Port:
        """The first port of a switch without a cable; StopIteration where all have one."""
        ports = (Port(name, number) for number in range(1, self.device(name).ports + 1))
        return next(port for port in ports if self.far_end(port) is None)

    def limits(self) -> list[str]:
        """The options that give ibsim room for this subnet: -N nodes, -S switches, -P ports."""
        switches = [device for device in self.devices if device.kind == "switch"]
        ports = sum(device.ports + 1 for device in self.devices)
        # A LID for each HCA port and switch; forwarding tables have blocks of 64.
        lids = 64 * (len(self.devices) // 32 + 2)
        return [
            *("-N", str(len(self.devices) + 1), "-S", str(len(switches) + 1)),
            *("-P", str(ports + 1), "-L", str(lids)),
        ]


def leaf_spine(
    hosts: Sequence[str],
    leaves: int,
    spines: int,
    hcas: int = 2,
    links: int = 1,
    head: str | None = None,
    free_ports: int = 0,
) -> Subnet:
    """Each leaf has its share of the hosts, in their order, with all of their HCAs, and `links`
    cables to every spine. HCAs are called `HOST mlx5_0`, switches `leaf1` and `spine1`. `head` is
    on the first leaf too. Every switch has at least so many ports without a cable.
    """
    each = -(-len(hosts) // leaves)
    names = [f"leaf{number + 1}" for number in range(leaves)]
    down = [hosts[number * each : (number + 1) * each] for number in range(leaves)]
    if head is not None:
        down[0] = [head, *down[0]]
    tops = [f"spine{number + 1}" for number in range(spines)]
    most = max(map(len, down)) * hcas + spines * links
    return _wired(
        list(zip(names, down, strict=True)),
        hcas,
        [(names, tops, links)],
        max(most, leaves * links) + free_ports,
    )


def fat_tree(pods: int, leaves: int, hosts: int, spines: int, cores: int, hcas: int = 1) -> Subnet:
    """Three levels. Each of `pods` has `leaves` with `hosts` each and `spines`, every leaf with a
    cable to every spine of its pod. The spines that have the same number in their pods share
    `cores` core switches, with a cable to each.

    Hosts are called `n0001`, switches `pod1-leaf1`, `pod1-spine1` and `core1-1`.
    """
    number = itertools.count(1)
    down, stages = [], []
    for pod in range(1, pods + 1):
        of_pod = [f"pod{pod}-leaf{leaf}" for leaf in range(1, leaves + 1)]
        down += [(leaf, [f"n{next(number):04}" for _ in range(hosts)]) for leaf in of_pod]
        stages.append((of_pod, [f"pod{pod}-spine{spine}" for spine in range(1, spines + 1)], 1))
    for spine in range(1, spines + 1):
        lower = [f"pod{pod}-spine{spine}" for pod in range(1, pods + 1)]
        stages.append((lower, [f"core{spine}-{core}" for core in range(1, cores + 1)], 1))
    ports = max(hosts * hcas + spines, leaves + cores, pods)
    return _wired(down, hcas, stages, ports)


def _wired(
    down: Sequence[tuple[str, Sequence[str]]],
    hcas: int,
    stages: Sequence[tuple[Sequence[str], Sequence[str], int]],
    ports: int,
) -> Subnet:
    """Hosts below leaves, then each stage: every lower switch with so many cables to each upper
    one. A switch's ports are used in order; the HCAs come first in the subnet.
    """
    names = dict.fromkeys(leaf for leaf, _ in down)
    names |= dict.fromkeys(name for lower, upper, _ in stages for name in (*lower, *upper))
    switches = [
        Device(name, "switch", ports, _SWITCH_GUIDS + number)
        for number, name in enumerate(names, start=1)
    ]
    free = {name: itertools.count(1) for name in names}
    devices: list[Device] = []
    cables: list[Cable] = []
    for leaf, hosts in down:
        for host, hca in itertools.product(hosts, range(hcas)):
            guid = _HCA_GUIDS + _GUIDS_OF_HCA * (len(devices) + 1)
            device = Device(f"{host} mlx5_{hca}", "hca", 1, guid)
            devices.append(device)
            cables.append(Cable(Port(device.name, 1), Port(leaf, next(free[leaf]))))
    cables += [Cable(Port(a, next(free[a])), Port(b, next(free[b]))) for a, b in _pairs(stages)]
    return Subnet((*devices, *switches), tuple(cables))


def _pairs(
    stages: Sequence[tuple[Sequence[str], Sequence[str], int]],
) -> Iterator[tuple[str, str]]:
    for lower, upper, links in stages:
        for a, b in itertools.product(lower, upper):
            yield from [(a, b)] * links
