"""What has gone over the lab's uplinks, as the leaves count it, and how evenly they share it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge.lab.cluster import Lab
from railgauge.node.counters import jain


@dataclasses.dataclass(frozen=True)
class Uplink:
    """The bytes that a leaf has sent to a spine, and received from it, since it was started.

    They are Ethernet's without FCS, preamble and gap, as /proc/net/dev counts them.
    """

    leaf: str
    spine: str
    sent_bytes: int
    received_bytes: int


def count(lab: Lab) -> list[Uplink]:
    """Every uplink of every leaf that is on, in their order; EnvironmentProblem where none is."""
    found = []
    for leaf in dict.fromkeys(link.lower for link in lab.spec.uplinks()):
        if leaf == lab.spec.head.name:
            # Its links are no part of what is measured.
            continue
        counted = _counts(Path(f"/proc/{lab.require_machine(leaf).pid}/net/dev").read_text())
        spines = [link.spine for link in lab.spec.uplinks() if link.lower == leaf]
        found += [Uplink(leaf, spine, *counted[spine]) for spine in spines if spine in counted]
    return found


def _counts(text: str) -> dict[str, tuple[int, int]]:
    """Of each interface the bytes sent and received (proc(5), /proc/net/dev)."""
    rows = (line.replace(":", " ", 1).split() for line in text.splitlines()[2:])
    return {row[0]: (int(row[9]), int(row[1])) for row in rows}


def since(before: Sequence[Uplink], after: Sequence[Uplink]) -> list[Uplink]:
    """What went over each uplink between two counts; without those that began anew, or are new."""
    known = {(one.leaf, one.spine): one for one in before}
    found = []
    for one in after:
        first = known.get((one.leaf, one.spine))
        if first is None:
            continue
        sent = one.sent_bytes - first.sent_bytes
        received = one.received_bytes - first.received_bytes
        if sent >= 0 and received >= 0:
            found.append(Uplink(one.leaf, one.spine, sent, received))
    return found


def balance(uplinks: Sequence[Uplink]) -> Mapping[str, tuple[float | None, float | None]]:
    """Of each leaf Jain's index over its uplinks, of what it sent and of what it received; None
    where nothing was.
    """
    found = {}
    for leaf in dict.fromkeys(one.leaf for one in uplinks):
        own = [one for one in uplinks if one.leaf == leaf]
        sent, received = [o.sent_bytes for o in own], [o.received_bytes for o in own]
        found[leaf] = (jain(sent) if any(sent) else None, jain(received) if any(received) else None)
    return found


def document(uplinks: Sequence[Uplink]) -> dict[str, Any]:
    """As a site's own command for `extras.fabric.counters` prints it."""
    return {"uplinks": [dataclasses.asdict(one) for one in uplinks]}
