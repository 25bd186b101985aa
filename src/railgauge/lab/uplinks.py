"""Bytes over the lab's uplinks, as its leaves count them."""

from __future__ import annotations

from pathlib import Path

from railgauge.lab.cluster import Lab
from railgauge.model.uplinks import Uplink


def count(lab: Lab) -> list[Uplink]:
    """Every uplink of every leaf in their order, since the leaf was started; none in a lab without
    leaves. EnvironmentProblem where a leaf is off.

    They are Ethernet's bytes without FCS, preamble and gap, as /proc/net/dev counts them.
    """
    uplinks = []
    for leaf in (switch.name for switch in lab.spec.all_switches() if switch.kind == "leaf"):
        text = Path(f"/proc/{lab.require_machine(leaf).pid}/net/dev").read_text()
        counted = counts(text)
        spines = (link.spine for link in lab.spec.uplinks() if link.lower == leaf)
        uplinks += [Uplink(leaf, spine, *counted[spine]) for spine in spines]
    return uplinks


def counts(text: str) -> dict[str, tuple[int, int]]:
    """Interface -> bytes sent and received (proc(5), /proc/net/dev)."""
    rows = (line.replace(":", " ", 1).split() for line in text.splitlines()[2:])
    return {row[0]: (int(row[9]), int(row[1])) for row in rows}
