"""What a partition's data says of the switches between its nodes: `extras.fabric`."""

from __future__ import annotations

import pydantic

from railgauge.yamlfile import Strict


class Fabric(Strict):
    """Leaves and spines between the nodes of a partition, whose switches count what they carry."""

    counters: list[str] = pydantic.Field(min_length=1)
    """A command and its arguments, run in this checkout's folder where ReFrame runs, that prints
    what every uplink has carried so far: `{"uplinks": [{"leaf": "leaf1", "spine": "spine1",
    "sent_bytes": 1, "received_bytes": 2}, ...]}`, as the leaf sent and received it. A collector's
    file will do: `[cat, FILE]`.
    """
    streams: int = pydantic.Field(default=8, ge=1, le=128)
    """TCP streams of each pair of nodes: of few flows, a hash puts several on one uplink."""
    duration_s: int = pydantic.Field(default=3, ge=2)
    """Of one round, of which there are six or nine."""
