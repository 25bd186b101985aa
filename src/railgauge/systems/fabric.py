"""`extras.fabric` of a partition: the switches between its nodes."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from railgauge.yamlfile import Strict

#: How leaves spread what they send over their uplinks, in the site's own words: ecmp, flowlet, ...
MODE = "[a-z][a-z0-9-]*"
Mode = Annotated[str, pydantic.Field(pattern=f"^{MODE}$")]


class Fabric(Strict):
    """Leaves and spines between the nodes of a partition, with counters of their switches."""

    counters: list[str] = pydantic.Field(min_length=1)
    """A command and its arguments, run in this checkout's folder where ReFrame runs, that prints
    what every uplink has carried so far: `{"uplinks": [{"leaf": "leaf1", "spine": "spine1",
    "sent_bytes": 1, "received_bytes": 2}, ...]}`, as the leaf sent and received it, and with
    `errors` what its ports counted of errors (CRC, symbols, FEC), without discards. A collector's
    file will do: `[cat, FILE]`. FabricBalance is measured by it, the alltoall of NcclAll has Jain's
    index by it, and a leaf that is at fault is located to an uplink.
    """
    routes: list[str] | None = pydantic.Field(default=None, min_length=1)
    """A command and its arguments, run in this checkout's folder where ReFrame runs as a campaign
    begins. It prints the spine by which data leaves a leaf, where that is always the same one: CSV
    with the columns leaf,destination,spine, and source where the sender decides it too. A file will
    do: `[cat, FILE]`. The rounds that a sweep adds then cross the links that low results suspect,
    and the verdict names a slow link. It prints nothing where the spine is not fixed.
    """
    hash: Literal["layer3", "layer3+4"] = "layer3"
    """By what leaves choose an uplink: addresses alone, so that all streams of a pair take the same
    one, or ports too, so that each takes one of its own. Of few flows, no uplink is named.
    """
    streams: int = pydantic.Field(default=8, ge=1, le=128)
    """TCP streams of each pair of nodes: of few flows, a hash puts several on one uplink."""
    duration_s: int = pydantic.Field(default=3, ge=2)
    """Of one round; of shifts there are six or nine."""
    traffic: Literal["shifts", "alltoall"] = "shifts"
    """shifts: every node sends to those a quarter, a half and three quarters of all away, in rounds
    in which it has one partner. alltoall: every node to all nodes of other leaves at once, in one
    round; of many nodes that is more processes than a small machine has room for.
    """
    mode: Mode | None = None
    """How the leaves spread it: `ecmp`, `flowlet`, `packet`, ... Numbers of each have references of
    their own. None where it is unknown; `railgauge accept --fabric-mode` states it for a campaign.
    """
