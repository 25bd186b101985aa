"""The simulated InfiniBand subnet of a lab: ibsim on the head, and the real opensm.

The programs of infiniband-diags reach it on every machine by the library that ibsim brings. What it
shows of management, topology, counters and routes is as in a real subnet. No data goes over it.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from railgauge.common.atomic import write_text
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.lab.spec import LabSpec
from railgauge.lab.subnet_topology import Cable, Device, Port, Subnet, leaf_spine

if TYPE_CHECKING:
    from railgauge.lab.cluster import Lab

_BOOT = Path(__file__).parent / "boot"

#: Ports of each switch that stay free, for a cable that is moved there.
_FREE_PORTS = 2

#: What ibsim prints of a command that it cannot follow. It says nothing of the others.
_REFUSED = re.compile(r"^(?:sim> )*(# .+|command .+ unknown.*)$", re.MULTILINE)

_ANSWER_S = 10


def of(spec: LabSpec) -> Subnet:
    """The subnet that a lab's description asks for, with all its cables in place; RailgaugeError
    where it asks for none.
    """
    shape = spec.infiniband
    if shape is None:
        raise RailgaugeError(
            "this lab has no InfiniBand subnet", next_step="railgauge lab up --system lab-ib"
        )
    return leaf_spine(
        [node.name for node in spec.all_nodes()],
        shape.leaves,
        shape.spines,
        shape.hcas,
        head=spec.head.name,
        free_ports=_FREE_PORTS,
    )


def folder(lab: Lab) -> Path:
    return lab.folders.run / "subnet"


def prepare(lab: Lab) -> None:
    """Write what ibsim and the machines need, before the first one starts."""
    if lab.spec.infiniband is None:
        return
    if not lab.release.infiniband:
        raise PrerequisiteError(
            f"the lab has no InfiniBand subnet on {lab.release.name}",
            next_step="railgauge lab up --system lab-ib, without --release",
        )
    subnet = of(lab.spec)
    folder(lab).mkdir()
    network, first_commands = _network(subnet)
    write_text(folder(lab) / "net", network)
    write_text(folder(lab) / "commands", first_commands)
    write_text(folder(lab) / "limits", shlex.join(subnet.limits()) + "\n")
    # `simulated` on each machine finds its first HCA there.
    hosts = [lab.spec.head.name, *(node.name for node in lab.spec.all_nodes())]
    lines = [f"{host} {subnet.device(f'{host} mlx5_0').node_id}\n" for host in hosts]
    write_text(folder(lab) / "hcas", "".join(lines))
    shutil.copy2(_BOOT / "simulated", folder(lab))


def _network(subnet: Subnet) -> tuple[str, str]:
    """What ibsim reads, and what its console is told at first.

    A port that never had a cable has another width than our cables, and ibsim ends where two such
    ports are linked. So the free ports have cables until the first commands.
    """
    leaves = [one.name for one in subnet.devices if one.name.startswith("leaf")]
    ring = zip(leaves, [*leaves[1:], leaves[0]], strict=True) if len(leaves) > 1 else ()
    spare = [
        Cable(Port(near, subnet.free_port(near).port + 1), subnet.free_port(far))
        for near, far in ring
    ]
    whole = dataclasses.replace(subnet, cables=(*subnet.cables, *spare))
    return whole.topology(), "".join(f"Unlink {whole.quoted(cable.b)}\n" for cable in spare)


def console(lab: Lab, *commands: str) -> None:
    """Have ibsim change the subnet; PrerequisiteError where it refuses or does not answer."""
    if not lab.service_runs("ibsim"):
        raise PrerequisiteError("ibsim does not run", next_step="railgauge lab up starts it again")
    log = lab.folders.log / "ibsim.log"
    for command in commands:
        start = log.stat().st_size
        # The second command marks the end of the first one's answer.
        script = 'printf "%s\\nVerbose\\n" "$1" >"$0"'
        write = ("timeout", str(_ANSWER_S), "bash", "-c", script, str(folder(lab) / "console"))
        lab.on_head(*write, command)
        deadline = time.monotonic() + _ANSWER_S
        while "simulator verbose level" not in (answer := log.read_text()[start:]):
            if time.monotonic() > deadline:
                raise PrerequisiteError(
                    f"ibsim does not answer `{command}`",
                    next_step="railgauge lab logs ibsim; railgauge lab up starts it again",
                )
            time.sleep(0.05)
        if refused := _REFUSED.search(answer):
            raise PrerequisiteError(f"ibsim refused `{command}`: {refused[1]}")


def link(lab: Lab, place: str, far: str) -> tuple[Port, Port]:
    """The two ports of the cable of `n1:mlx5_0` or `leaf1:spine2`, as it is at first."""
    subnet = of(lab.spec)
    hca = f"{place} {far}"
    for cable in subnet.cables:
        ends = {cable.a.device: (cable.a, cable.b), cable.b.device: (cable.b, cable.a)}
        if hca in ends:
            return ends[hca]
        if {place, far} == set(ends):
            return ends[place]
    switches = [device.name for device in subnet.devices if device.kind == "switch"]
    raise RailgaugeError(
        f"the subnet has no link {place}:{far}; it has NODE:mlx5_N, and leaf to spine of "
        + ", ".join(switches)
    )


def switch(lab: Lab, name: str) -> Device:
    """The switch of that name; RailgaugeError where the subnet has none."""
    switches = {one.name: one for one in of(lab.spec).devices if one.kind == "switch"}
    if name not in switches:
        raise RailgaugeError(f"the subnet has no switch {name!r}; it has {', '.join(switches)}")
    return switches[name]
