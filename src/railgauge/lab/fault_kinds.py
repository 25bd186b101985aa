"""What each kind of fault does in the lab, and how that is undone."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from typing import Any

from railgauge import paths
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.lab import flapping, subnet_faults, switches
from railgauge.lab.cluster import Lab
from railgauge.lab.fault import Fault, Kind
from railgauge.lab.links import Links
from railgauge.lab.nodes import KINDS as NODE_KINDS
from railgauge.lab.nodes import NAMESPACE, VM, NodeKind
from railgauge.lab.spec import Node, Switch


def _node(lab: Lab, fault: Fault) -> tuple[NodeKind, Node, str]:
    assert fault.node is not None
    node = lab.node(fault.node)
    return NODE_KINDS[node.kind], node, fault.interface or ""


def _links(lab: Lab, fault: Fault) -> tuple[Links[Any], Node | Switch, str]:
    """The interface that a fault strikes: whose it is, and how such ones are changed."""
    assert fault.node is not None
    return *lab.links(fault.node), fault.interface or ""


def is_on(lab: Lab, fault: Fault) -> bool:
    return fault.node is not None and lab.machine(fault.node) is not None


def _add_rate(lab: Lab, fault: Fault) -> None:
    assert fault.value is not None
    links, machine, interface = _links(lab, fault)
    links.shape(lab, machine, interface, fault.value)


def _add_send_rate(lab: Lab, fault: Fault) -> None:
    assert fault.value is not None
    links, machine, interface = _links(lab, fault)
    links.shape(lab, machine, interface, fault.value, both=False)


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


def _add_loss_both(lab: Lab, fault: Fault) -> None:
    assert fault.value is not None
    links, machine, interface = _links(lab, fault)
    links.lose_both(lab, machine, interface, fault.value)


def _clear_loss_both(lab: Lab, fault: Fault) -> None:
    links, machine, interface = _links(lab, fault)
    links.lose_both(lab, machine, interface, 0)


def _leaf(lab: Lab, fault: Fault) -> Switch:
    assert fault.node is not None
    leaf = lab.member(fault.node)
    assert isinstance(leaf, Switch)
    return leaf


def _leaf_down(lab: Lab, fault: Fault) -> None:
    switches.set_leaf(lab, _leaf(lab, fault), up=False)


def _leaf_up(lab: Lab, fault: Fault) -> None:
    leaf = _leaf(lab, fault)
    switches.set_leaf(lab, leaf, up=True)
    # Slurm pings no node that it has set down for its silence; it asks it to register every few
    # minutes.
    below = lab.spec.nodes_of(leaf.name)
    if silent := [node for node in lab.set_down_by_slurm() if node in below]:
        lab.on_head("scontrol", "update", f"nodename={','.join(silent)}", "state=resume")


def _start_flapping(lab: Lab, fault: Fault) -> None:
    assert fault.node is not None and fault.interface is not None and fault.value is not None
    flapping.start(lab, fault.node, fault.interface, fault.value)


def _end_flapping(lab: Lab, fault: Fault) -> None:
    assert fault.node is not None and fault.interface is not None
    flapping.end(lab, fault.node, fault.interface)
    if is_on(lab, fault):
        links, machine, interface = _links(lab, fault)
        links.set_link(lab, machine, interface, up=True)


def _add_off(lab: Lab, fault: Fault) -> None:
    kind, node, _ = _node(lab, fault)
    kind.power_off(lab, node)


def _clear_off(lab: Lab, fault: Fault) -> None:
    kind, node, _ = _node(lab, fault)
    if not is_on(lab, fault):
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
        raise PrerequisiteError(
            f"{fault.node} runs no process with {fault.process!r} in its command line",
            next_step=f"railgauge lab exec {fault.node} ps -ef",
        )


def _continue_process(lab: Lab, fault: Fault) -> None:
    _signal(lab, fault, signal.SIGCONT)


def _restart_slurmctld(lab: Lab, _: Fault) -> None:
    # As an upgrade does. Killed, it may forget the job of the last second, for ever `running`.
    lab.stop_service("slurmctld", signal.SIGTERM)
    lab.start_service("slurmctld")
    lab.wait_for_controller()


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
        "shape a node's link to GBITS Gb/s, both ways",
        *(_add_rate, _clear_rate),
        on="link",
        unit="GBITS",
        outlasts_power=True,
    ),
    "send-rate": Kind(
        "shape what a node sends over its link to GBITS Gb/s",
        *(_add_send_rate, _clear_rate),
        on="link",
        unit="GBITS",
    ),
    "uplink-rate": Kind(
        "shape an uplink to GBITS Gb/s, both ways",
        *(_add_rate, _clear_rate),
        on="uplink",
        unit="GBITS",
        outlasts_power=True,
    ),
    "uplink-send-rate": Kind(
        "shape what a leaf sends over an uplink to GBITS Gb/s",
        *(_add_send_rate, _clear_rate),
        on="uplink",
        unit="GBITS",
    ),
    "mtu": Kind(
        "give an interface an MTU of BYTES",
        *(_add_mtu, _clear_mtu),
        on="interface",
        unit="BYTES",
    ),
    "delay": Kind(
        "hold what leaves by an interface back for MS ms",
        *(_netem("delay {}ms limit 100000"), _clear_netem),
        on="vm-interface",
        unit="MS",
    ),
    "loss": Kind(
        "lose PERCENT of the packets that leave by an interface",
        *(_add_loss, _clear_loss),
        on="interface",
        unit="PERCENT",
        outlasts_power=True,
    ),
    "rail-loss": Kind(
        "lose PERCENT of a rail's packets, both ways; of a VM only sent ones",
        *(_add_loss_both, _clear_loss_both),
        on="rail",
        unit="PERCENT",
        outlasts_power=True,
    ),
    "uplink-loss": Kind(
        "lose PERCENT of an uplink's packets, both ways",
        *(_add_loss_both, _clear_loss_both),
        on="uplink",
        unit="PERCENT",
        outlasts_power=True,
    ),
    "reorder": Kind(
        "let PERCENT of the packets overtake others by 1 ms",
        *(_netem("delay 1ms reorder {}% limit 100000"), _clear_netem),
        on="vm-interface",
        unit="PERCENT",
    ),
    "link-down": Kind("pull an interface's cable", *(_pull_cable, _plug_cable), on="vm-interface"),
    "flap": Kind(
        "pull a cable for the first fifth of every SECONDS (5), and plug it in again",
        *(_start_flapping, _end_flapping),
        on="link-or-uplink",
        unit="SECONDS",
        default_value=5,
        outlasts_power=True,
    ),
    "leaf-down": Kind(
        "take all ports of a leaf down", *(_leaf_down, _leaf_up), on="leaf", outlasts_power=True
    ),
    "rdma-removed": Kind(
        "remove the RDMA device over an interface", *(_remove_rdma, _add_rdma), on="vm-interface"
    ),
    "off": Kind("pull a node's plug", _add_off, _clear_off, on="node", outlasts_power=True),
    "disk-full": Kind(
        "leave BYTES (0) on a node's disk: / and /tmp",
        *(_fill_disk, _empty_disk),
        on="disk",
        unit="BYTES",
        default_value=0,
    ),
    "stopped": Kind(
        "stop the processes of a node (SIGSTOP) with the pattern in their command line",
        *(_stop_process, _continue_process),
        on="process",
    ),
    "slurmctld-restart": Kind("stop slurmctld and start it again", _restart_slurmctld, None),
    "slurmdbd-stop": Kind(
        "kill slurmdbd: no accounting", _stop_slurmdbd, _start_slurmdbd, outlasts_power=True
    ),
    "results-full": Kind(
        "leave BYTES (0) in the results area",
        *(_fill_results, _empty_results),
        unit="BYTES",
        default_value=0,
        outlasts_power=True,
    ),
    **subnet_faults.KINDS,
}


def strikes(lab: Lab, fault: Fault) -> set[tuple[str, str, str]]:
    """What two faults cannot both have, as (what, machine, interface or process).

    Losses are one setting of an interface, which is netem's on VMs; so is whether it is up.
    """
    node, interface = fault.node or "", fault.interface or ""
    own = (node, interface or fault.process or "")
    both = {own, (interface, node)} if KINDS[fault.kind].on == "uplink" else {own}
    if fault.kind in ("ib-down", "ib-moved"):
        return {("ib-plug", *own)}
    undone_by = KINDS[fault.kind].clear
    if undone_by in (_clear_netem, _clear_loss, _clear_loss_both):
        return {("losses", *end) for end in both}
    if undone_by is _clear_rate:
        return {("rate", *end) for end in both}
    if undone_by is _leaf_up:
        nodes = {("plug", name, "eth0") for name in lab.spec.nodes_of(node)}
        return nodes | {("plug", node, link.spine) for link in lab.spec.uplinks()}
    if undone_by in (_plug_cable, _end_flapping):
        return {("plug", *own)}
    return {(fault.kind, *own)}


def silenced(lab: Lab, fault: Fault) -> list[str]:
    """The nodes that Slurm does not hear while a fault is in place."""
    if fault.kind == "leaf-down" and fault.node is not None:
        return lab.spec.nodes_of(fault.node)
    return [fault.node] if fault.kind == "off" and fault.node is not None else []


def problem(lab: Lab, fault: Fault) -> str:
    """Why a fault that was put in place is so no longer; "" where it is."""
    if fault.kind == "flap" and not flapping.runs(lab, fault.node or "", fault.interface or ""):
        return "its process has ended: railgauge lab fault clear"
    return ""
