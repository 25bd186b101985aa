"""Bytes over the lab's uplinks and their errors, as its leaves count them."""

from __future__ import annotations

from pathlib import Path

from railgauge.lab import network
from railgauge.lab.cluster import Lab
from railgauge.model.uplinks import Uplink


def count(lab: Lab) -> list[Uplink]:
    """Every uplink of every leaf in their order, since the leaf was started; none in a lab without
    leaves. PrerequisiteError where a leaf is off.

    They are Ethernet's bytes without FCS, preamble and gap, as /proc/net/dev counts them. Errors
    are the packets that a lossy uplink lost on their way to the leaf.
    """
    uplinks = []
    for leaf in (switch.name for switch in lab.spec.all_switches() if switch.kind == "leaf"):
        machine = lab.require_machine(leaf)
        counted = counts(Path(f"/proc/{machine.pid}/net/dev").read_text())
        spines = [link.spine for link in lab.spec.uplinks() if link.lower == leaf]
        errors = network.lost(machine, spines)
        uplinks += [Uplink(leaf, spine, *counted[spine], errors[spine]) for spine in spines]
    return uplinks


def counts(text: str) -> dict[str, tuple[int, int]]:
    """Interface -> bytes sent and received (proc(5), /proc/net/dev)."""
    rows = (line.replace(":", " ", 1).split() for line in text.splitlines()[2:])
    return {row[0]: (int(row[9]), int(row[1])) for row in rows}
