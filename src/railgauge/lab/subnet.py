"""The simulated InfiniBand subnet of a lab: ibsim on the head, and the real opensm.

The programs of infiniband-diags reach it on every machine by the library that ibsim brings. What it
shows of management, topology, counters and routes is as in a real subnet. No data goes over it.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from railgauge.common.atomic import write_text
from railgauge.common.errors import EnvironmentProblem, RailgaugeError
from railgauge.lab.spec import LabSpec

if TYPE_CHECKING:
    from railgauge.lab.cluster import Lab

_BOOT = Path(__file__).parent / "boot"

#: Links are 4 lanes of 10 Gb/s (QDR), the most that ibsim has; as in PortInfo.
LANES = {1: 1, 4: 2, 8: 4, 12: 8}
SPEEDS_GBITS = {2.5: 1, 5.0: 2, 10.0: 4}
_WIDTH, _SPEED = LANES[4], SPEEDS_GBITS[10.0]

#: Ports of a switch that stay free, for a cable that is moved there.
_FREE_PORTS = 2

_PORT = 7070

#: What ibsim prints of a command that it cannot follow. It says nothing of the others.
_REFUSED = re.compile(r"^(?:sim> )*(# .+|command .+ unknown.*)$", re.MULTILINE)

_ANSWER_S = 10


@dataclasses.dataclass(frozen=True)
class Device:
    """A switch or an HCA. `name` is its node description."""

    name: str
    kind: str
    guid: int
    ports: int

    @property
    def id(self) -> str:
        """The name by which ibsim knows it."""
        return f"{'S' if self.kind == 'Switch' else 'H'}-{self.guid:016x}"


@dataclasses.dataclass(frozen=True)
class Port:
    """A port of a device, by the device's name; ports count from 1."""

    device: str
    number: int


@dataclasses.dataclass(frozen=True)
class Subnet:
    """Devices by name, and cables in both directions: port -> port."""

    devices: dict[str, Device]
    cables: dict[Port, Port]

    def quoted(self, port: Port) -> str:
        """A port as ibsim's console and file take it."""
        return f'"{self.devices[port.device].id}"[{port.number}]'

    def free_port(self, switch: str) -> Port:
        ports = (Port(switch, n) for n in range(1, self.devices[switch].ports + 1))
        return next(port for port in ports if port not in self.cables)


def hca(node: str, number: int) -> str:
    return f"{node} mlx5_{number}"


def of(spec: LabSpec) -> Subnet:
    """The subnet that a lab's description asks for, with all its cables in place; RailgaugeError
    where it asks for none.
    """
    shape = spec.infiniband
    if shape is None:
        raise RailgaugeError(
            "this lab has no InfiniBand subnet", next_step="railgauge lab up --system lab-ib"
        )
    leaves = [f"leaf{number}" for number in range(1, shape.leaves + 1)]
    spines = [f"spine{number}" for number in range(1, shape.spines + 1)]
    nodes = [node.name for node in spec.all_nodes()]
    on_leaf: dict[str, list[str]] = {leaf: [] for leaf in leaves}
    on_leaf[leaves[0]].append(hca(spec.head.name, 0))
    for index, node in enumerate(nodes):
        leaf = leaves[index * len(leaves) // len(nodes)]
        on_leaf[leaf] += [hca(node, number) for number in range(shape.hcas)]
    devices: dict[str, Device] = {}
    for number, leaf in enumerate(leaves):
        ports = len(on_leaf[leaf]) + len(spines) + _FREE_PORTS
        devices[leaf] = Device(leaf, "Switch", 0x0002C90000010000 + number, ports)
    for number, spine in enumerate(spines):
        ports = len(leaves) + _FREE_PORTS
        devices[spine] = Device(spine, "Switch", 0x0002C90000020000 + number, ports)
    hosts = [name for names in on_leaf.values() for name in names]
    for number, name in enumerate(hosts):
        # ibsim gives an HCA's port the GUID after the HCA's own.
        devices[name] = Device(name, "Hca", 0x0002C90000030000 + 2 * number, 1)
    pairs = [
        *(
            (Port(leaf, n), Port(name, 1))
            for leaf in leaves
            for n, name in enumerate(on_leaf[leaf], 1)
        ),
        *(
            (Port(leaf, len(on_leaf[leaf]) + n), Port(spine, place))
            for place, leaf in enumerate(leaves, 1)
            for n, spine in enumerate(spines, 1)
        ),
    ]
    return Subnet(devices, {**dict(pairs), **{far: near for near, far in pairs}})


def text(subnet: Subnet) -> str:
    """The subnet as ibsim reads it, in the form of ibnetdiscover."""
    return "\n".join(_records(subnet))


def _records(subnet: Subnet) -> Iterator[str]:
    for device in subnet.devices.values():
        word = "switchguid" if device.kind == "Switch" else "caguid"
        yield f"{word}=0x{device.guid:x}"
        yield f'{device.kind}\t{device.ports} "{device.id}"\t# "{device.name}"'
        for number in range(1, device.ports + 1):
            far = subnet.cables.get(Port(device.name, number))
            if far:
                yield f"[{number}]\t{subnet.quoted(far)} w={_WIDTH} s={_SPEED}"
        yield ""


def folder(lab: Lab) -> Path:
    return lab.folders.run / "subnet"


def prepare(lab: Lab) -> None:
    """Write what ibsim and the machines need, before the first one starts."""
    if lab.spec.infiniband is None:
        return
    if not lab.release.infiniband:
        raise EnvironmentProblem(
            f"the lab has no InfiniBand subnet on {lab.release.name}",
            next_step="railgauge lab up --system lab-ib, without --release",
        )
    subnet = of(lab.spec)
    folder(lab).mkdir()
    write_text(folder(lab) / "net", text(subnet))
    # `simulated` on each machine reads it: its own HCA, and where ibsim listens.
    hosts = [lab.spec.head.name, *(node.name for node in lab.spec.all_nodes())]
    lines = [f"{host} {subnet.devices[hca(host, 0)].id}\n" for host in hosts]
    write_text(folder(lab) / "hcas", "".join(lines))
    write_text(folder(lab) / "server", f"{lab.spec.head_address} {_PORT}\n")
    shutil.copy2(_BOOT / "simulated", folder(lab))


def console(lab: Lab, *commands: str) -> None:
    """Have ibsim change the subnet; EnvironmentProblem where it refuses or does not answer."""
    log = lab.folders.log / "ibsim.log"
    for command in commands:
        start = log.stat().st_size
        # The second command marks the end of the first one's answer.
        script = 'printf "%s\\nVerbose\\n" "$1" >"$0"'
        lab.on_head("bash", "-c", script, str(folder(lab) / "console"), command)
        deadline = time.monotonic() + _ANSWER_S
        while "simulator verbose level" not in (answer := log.read_text()[start:]):
            if time.monotonic() > deadline:
                raise EnvironmentProblem(
                    f"ibsim does not answer `{command}`",
                    next_step="railgauge lab logs ibsim; railgauge lab up starts it again",
                )
            time.sleep(0.05)
        if refused := _REFUSED.search(answer):
            raise EnvironmentProblem(f"ibsim refused `{command}`: {refused[1]}")


def link(lab: Lab, place: str, far: str) -> tuple[Port, Port]:
    """The two ports of the cable of `n1:mlx5_0` or `leaf1:spine2`, as it is at first."""
    subnet = of(lab.spec)
    if place in subnet.devices:
        ends = [(a, b) for a, b in subnet.cables.items() if (a.device, b.device) == (place, far)]
    else:
        ends = [(a, b) for a, b in subnet.cables.items() if a.device == f"{place} {far}"]
    if not ends:
        names = [name for name, device in subnet.devices.items() if device.kind == "Switch"]
        raise RailgaugeError(
            f"the subnet has no link {place}:{far}; it has NODE:mlx5_N, and leaf to spine of "
            + ", ".join(names)
        )
    return ends[0]


def switch(lab: Lab, name: str) -> Device:
    """The switch of that name; RailgaugeError where the subnet has none."""
    switches = {d.name: d for d in of(lab.spec).devices.values() if d.kind == "Switch"}
    if name not in switches:
        raise RailgaugeError(f"the subnet has no switch {name!r}; it has {', '.join(switches)}")
    return switches[name]
