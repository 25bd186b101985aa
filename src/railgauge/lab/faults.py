"""Real faults in the lab, so that the gate is tested against truth."""

from __future__ import annotations

import dataclasses
import json
import math
import signal
import subprocess
from collections.abc import Callable
from typing import Any, Literal

from railgauge import hostlist, paths
from railgauge.atomic import write_json
from railgauge.errors import EnvironmentProblem, RailgaugeError
from railgauge.lab import switches
from railgauge.lab.cluster import Lab
from railgauge.lab.links import Links
from railgauge.lab.nodes import KINDS as NODE_KINDS
from railgauge.lab.nodes import NAMESPACE, VM, NodeKind
from railgauge.lab.spec import Node, NodeKindName, Switch

LINKS: dict[str, Links[Any]] = {**NODE_KINDS, **switches.KINDS}


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault that is in place. `value` is in the unit that its kind names."""

    kind: str
    #: a node, or a switch
    node: str | None = None
    value: float | None = None
    interface: str | None = None
    #: a pattern of command lines, as pgrep's
    process: str | None = None

    def __str__(self) -> str:
        parts = [self.kind, self.node or "", self.interface or self.process or ""]
        parts += [] if self.value is None else [f"{self.value:g}"]
        return " ".join(part for part in parts if part)


@dataclasses.dataclass(frozen=True)
class Kind:
    """How a kind of fault is made and mended. One without `clear` is over at once.

    `on` says what it strikes: the lab as a whole, a node, an interface of a machine of any kind, or
    one of a VM node, the disk of a namespace node, processes of a node.
    """

    description: str
    add: Callable[[Lab, Fault], None]
    clear: Callable[[Lab, Fault], None] | None
    on: Literal["lab", "node", "interface", "vm-interface", "disk", "process"] = "lab"
    needs_value: bool = False
    default_value: float | None = None


def _node(lab: Lab, fault: Fault) -> tuple[NodeKind, Node, str]:
    assert fault.node is not None
    node = lab.node(fault.node)
    return NODE_KINDS[node.kind], node, fault.interface or ""


def _links(lab: Lab, fault: Fault) -> tuple[Links[Any], Node | Switch, str]:
    """The interface that a fault strikes: whose it is, and how such ones are changed."""
    assert fault.node is not None
    machine = lab.member(fault.node)
    return LINKS[machine.kind], machine, fault.interface or ""


def _is_on(lab: Lab, fault: Fault) -> bool:
    return fault.node is not None and lab.machine(fault.node) is not None


def _add_rate(lab: Lab, fault: Fault) -> None:
    assert fault.value is not None
    links, machine, interface = _links(lab, fault)
    links.shape(lab, machine, interface, fault.value)


def _clear_rate(lab: Lab, fault: Fault) -> None:
    links, machine, interface = _links(lab, fault)
    links.unshape(lab, machine, interface)


def _add_mtu(lab: Lab, fault: Fault) -> None:
    assert fault.value is not None
    links, machine, interface = _links(lab, fault)
    links.set_mtu(lab, machine, interface, int(fault.value))


def _clear_mtu(lab: Lab, fault: Fault) -> None:
    links, machine, interface = _links(lab, fault)
    links.set_mtu(lab, machine, interface, lab.spec.network.mtu_bytes)


def _add_loss(lab: Lab, fault: Fault) -> None:
    assert fault.value is not None
    links, machine, interface = _links(lab, fault)
    links.lose(lab, machine, interface, fault.value)


def _clear_loss(lab: Lab, fault: Fault) -> None:
    links, machine, interface = _links(lab, fault)
    links.lose(lab, machine, interface, 0)


def _add_off(lab: Lab, fault: Fault) -> None:
    kind, node, _ = _node(lab, fault)
    kind.power_off(lab, node)


def _clear_off(lab: Lab, fault: Fault) -> None:
    kind, node, _ = _node(lab, fault)
    if not _is_on(lab, fault):
        kind.start(lab, node)
        kind.wait_until_up(lab, node)


def _netem(arguments: str) -> Callable[[Lab, Fault], None]:
    """Let netem disturb what leaves by the interface; {} in `arguments` is the fault's value."""

    def add(lab: Lab, fault: Fault) -> None:
        _, node, interface = _node(lab, fault)
        VM.emulate(lab, node, interface, arguments.format(f"{fault.value:g}"))

    return add


def _clear_netem(lab: Lab, fault: Fault) -> None:
    _, node, interface = _node(lab, fault)
    VM.emulate(lab, node, interface, "")


def _remove_rdma(lab: Lab, fault: Fault) -> None:
    _, node, interface = _node(lab, fault)
    VM.set_rdma(lab, node, interface, present=False)


def _add_rdma(lab: Lab, fault: Fault) -> None:
    _, node, interface = _node(lab, fault)
    VM.set_rdma(lab, node, interface, present=True)


def _pull_cable(lab: Lab, fault: Fault) -> None:
    _, node, interface = _node(lab, fault)
    VM.set_link(lab, node, interface, up=False)


def _plug_cable(lab: Lab, fault: Fault) -> None:
    _, node, interface = _node(lab, fault)
    VM.set_link(lab, node, interface, up=True)


#: Why slurmd drains its node when it cannot write.
_SPOOL_IS_FULL = "SlurmdSpoolDir is full"


def _fill_disk(lab: Lab, fault: Fault) -> None:
    _, node, _ = _node(lab, fault)
    NAMESPACE.fill_disk(lab, node, int(fault.value or 0))


def _empty_disk(lab: Lab, fault: Fault) -> None:
    _, node, _ = _node(lab, fault)
    NAMESPACE.empty_disk(lab, node)
    if _SPOOL_IS_FULL in lab.kept_out().get(node.name, ""):
        lab.on_head("scontrol", "update", f"nodename={node.name}", "state=resume")


def _signal(lab: Lab, fault: Fault, number: signal.Signals) -> bool:
    """Send a signal to the processes that a fault strikes; whether there were any."""
    kind, node, _ = _node(lab, fault)
    words = ["pkill", f"-{number.value}", "--full", "--", fault.process or ""]
    return kind.run(lab, node, words).returncode == 0


def _stop_process(lab: Lab, fault: Fault) -> None:
    if not _signal(lab, fault, signal.SIGSTOP):
        raise EnvironmentProblem(
            f"{fault.node} runs no process with {fault.process!r} in its command line",
            next_step=f"railgauge lab exec {fault.node} ps -ef",
        )


def _continue_process(lab: Lab, fault: Fault) -> None:
    _signal(lab, fault, signal.SIGCONT)


def _restart_slurmctld(lab: Lab, _: Fault) -> None:
    # As an upgrade does. Killed, it may forget the job of the last second, for ever `running`.
    lab.stop_service("slurmctld", signal.SIGTERM)
    lab.start_service("slurmctld")


def _stop_slurmdbd(lab: Lab, _: Fault) -> None:
    lab.stop_service("slurmdbd")


def _start_slurmdbd(lab: Lab, _: Fault) -> None:
    if not lab.service_runs("slurmdbd"):
        lab.start_service("slurmdbd")


def _fill_results(lab: Lab, fault: Fault) -> None:
    """A small file system over the results area, seen by every machine and by `accept`."""
    root = paths.results_root()
    if not any(root.is_relative_to(folder) for folder in lab.shared):
        raise RailgaugeError(f"{root} is not among the folders that the lab shares")
    size = max(int(fault.value or 0), 4096)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "railgauge-results-full", str(root)]
    subprocess.run(lab.in_lab_mounts(*command), check=True)


def _empty_results(lab: Lab, _: Fault) -> None:
    root = str(paths.results_root())
    subprocess.run(lab.in_lab_mounts("umount", "--lazy", root), check=False)


KINDS: dict[str, Kind] = {
    "rate": Kind(
        "shape the link to VALUE Gb/s, both ways",
        *(_add_rate, _clear_rate),
        on="interface",
        needs_value=True,
    ),
    "mtu": Kind(
        "give the interface an MTU of VALUE bytes",
        *(_add_mtu, _clear_mtu),
        on="interface",
        needs_value=True,
    ),
    "delay": Kind(
        "hold what leaves by the interface back for VALUE ms",
        *(_netem("delay {}ms limit 100000"), _clear_netem),
        on="vm-interface",
        needs_value=True,
    ),
    "loss": Kind(
        "lose VALUE % of the packets that leave by the interface",
        *(_add_loss, _clear_loss),
        on="interface",
        needs_value=True,
    ),
    "reorder": Kind(
        "let VALUE % of the packets overtake others by 1 ms",
        *(_netem("delay 1ms reorder {}% limit 100000"), _clear_netem),
        on="vm-interface",
        needs_value=True,
    ),
    "link-down": Kind("pull the interface's cable", *(_pull_cable, _plug_cable), on="vm-interface"),
    "rdma-removed": Kind(
        "remove the RDMA device over the interface", *(_remove_rdma, _add_rdma), on="vm-interface"
    ),
    "off": Kind("pull the node's plug", _add_off, _clear_off, on="node"),
    "disk-full": Kind(
        "leave VALUE bytes (0) on the node's disk: / and /tmp",
        *(_fill_disk, _empty_disk),
        on="disk",
        default_value=0,
    ),
    "stopped": Kind(
        "stop the node's processes (SIGSTOP) whose command line holds --process",
        *(_stop_process, _continue_process),
        on="process",
    ),
    "slurmctld-restart": Kind("stop slurmctld and start it again", _restart_slurmctld, None),
    "slurmdbd-stop": Kind("kill slurmdbd: no accounting", _stop_slurmdbd, _start_slurmdbd),
    "results-full": Kind(
        "leave VALUE bytes (0) in the results area", _fill_results, _empty_results, default_value=0
    ),
}


def active(lab: Lab) -> list[Fault]:
    """The faults in place, oldest first."""
    path = lab.folders.run / "faults.json"
    if not path.exists():
        return []
    return [Fault(**fields) for fields in json.loads(path.read_text())]


def _save(lab: Lab, faults: list[Fault]) -> None:
    write_json(lab.folders.run / "faults.json", [dataclasses.asdict(f) for f in faults])


def add(
    lab: Lab,
    kind: str,
    node: str | None = None,
    value: float | None = None,
    interface: str | None = None,
    process: str | None = None,
) -> Fault:
    """Put a fault in place; RailgaugeError where it needs another node, interface, process or
    value.
    """
    lab.require_up()
    if kind not in KINDS:
        raise RailgaugeError(f"fault {kind!r} is unknown; one of {', '.join(KINDS)}")
    description = KINDS[kind]
    if (description.on != "lab") != (node is not None):
        needed = "needs --node" if description.on != "lab" else "concerns no single node"
        raise RailgaugeError(f"fault {kind} {needed}")
    if description.needs_value and value is None:
        raise RailgaugeError(f"fault {kind} needs --value: {description.description}")
    if value is not None:
        if not description.needs_value and description.default_value is None:
            raise RailgaugeError(f"fault {kind} has no value")
        least = 0 if description.default_value == 0 else math.ulp(0)
        if not (math.isfinite(value) and value >= least):
            raise RailgaugeError(f"--value is {value:g}, expected a number above 0")
    if (description.on == "process") != (process is not None):
        needed = "needs --process" if process is None else "concerns no process"
        raise RailgaugeError(f"fault {kind} {needed}")
    interface = _interface(lab, kind, node, interface)
    value = description.default_value if value is None else value
    fault = Fault(kind, node, value, interface, process)
    with lab.locked():
        present = active(lab)
        if any(_strikes(other) == _strikes(fault) for other in present):
            raise RailgaugeError(
                f"fault {kind} is in place already", next_step="railgauge lab fault clear"
            )
        description.add(lab, fault)
        if description.clear is not None:
            _save(lab, [*present, fault])
    return fault


def _interface(lab: Lab, kind: str, name: str | None, interface: str | None) -> str | None:
    """The interface that a fault strikes: the one named, else the usual one of such a machine."""
    on = KINDS[kind].on
    if name is not None:
        _require_kind(lab, kind, name)
    if name is None or "interface" not in on:
        if interface is not None:
            raise RailgaugeError(f"fault {kind} concerns no single interface")
        return None
    links = LINKS[lab.member(name).kind]
    found = interface or links.default_interface(lab)
    known = links.interfaces(lab, rdma=kind == "rdma-removed")
    if found not in known:
        raise RailgaugeError(f"fault {kind} on {name}: no interface {found!r}; {', '.join(known)}")
    return found


#: What some faults strike is of one kind of node only, as people call it.
_ONLY: dict[str, tuple[NodeKindName, str]] = {
    "vm-interface": ("vm", "VM"),
    "disk": ("namespace", "namespace"),
}


def _require_kind(lab: Lab, kind: str, name: str) -> None:
    on = KINDS[kind].on
    machine = lab.member(name) if on == "interface" else lab.node(name)
    if on in _ONLY and machine.kind != _ONLY[on][0]:
        only, called = _ONLY[on]
        able = hostlist.fold(node.name for node in lab.spec.all_nodes() if node.kind == only)
        raise RailgaugeError(
            f"fault {kind} needs a {called} node ({able}); {name} is a {machine.kind}"
        )


def _strikes(fault: Fault) -> tuple[str, str | None, str | None]:
    """What two faults cannot both have: netem, which also makes losses, is one setting of an
    interface.
    """
    kind = "netem" if KINDS[fault.kind].clear in (_clear_netem, _clear_loss) else fault.kind
    return kind, fault.node, fault.interface or fault.process


def clear(lab: Lab, node: str | None = None) -> list[Fault]:
    """Mend all faults, or those of one node, and wait until Slurm has its nodes back."""
    lab.require_up()
    with lab.locked():
        present = active(lab)
        mended = [fault for fault in present if node in (None, fault.node)]
        # Power last: what a node is told before that is forgotten, and needs no mending.
        newest_first = mended[::-1]
        newest_first.sort(key=lambda fault: fault.kind == "off")
        for fault in newest_first:
            kind = KINDS[fault.kind]
            assert kind.clear is not None
            # Most of what a node was told is forgotten with its power.
            stays = kind.on in ("lab", "node") or fault.kind in ("rate", "loss")
            if stays or _is_on(lab, fault):
                kind.clear(lab, fault)
        _save(lab, [fault for fault in present if fault not in mended])
        lab.wait_until_idle(nodes_off={f.node for f in active(lab) if f.kind == "off"})
    return mended
