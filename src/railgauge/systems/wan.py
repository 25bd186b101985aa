"""The parts of a system's `reframe.yaml` about long ways between nodes, and about bonds."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from railgauge.model.measurement import CONGESTION_CONTROL
from railgauge.systems.rdma import Gbits
from railgauge.yamlfile import Strict

RoundTrip = Annotated[float, pydantic.Field(ge=0, le=10_000)]


class Wan(Strict):
    """A long way between two nodes, and how it is made.

    `set` and `clear` are command lines, run on the nodes that `ends` names, with {device} the
    interface towards the other node, {one_way_ms} half of the round trip, {round_trip_ms} and
    {reorder_percent} filled in. They may as well set a router between the sites.
    """

    round_trips_ms: list[RoundTrip] = pydantic.Field(min_length=1)
    """Round trips that every acceptance measures."""
    series_ms: list[RoundTrip] = []
    """Round trips that only the series measures: railgauge accept --series."""
    reorder_percent: float = pydantic.Field(ge=0, le=100)
    """Packets that overtake others on the way."""
    set: list[str] = pydantic.Field(min_length=1)
    """Command lines that make the way longer."""
    clear: list[str] = pydantic.Field(min_length=1)
    """Command lines that undo it."""
    ends: Literal["both", "server", "client"] = "both"
    """The nodes that run them."""
    window_bytes: list[Annotated[int, pydantic.Field(ge=1024)] | None] = pydantic.Field(
        default=[None, 128 * 2**20], min_length=1
    )
    """The socket buffers to compare; none is the kernel's own choice."""
    congestion: list[Annotated[str, pydantic.Field(pattern=f"^{CONGESTION_CONTROL}$")]] = (
        pydantic.Field(default=["cubic", "bbr"], min_length=1)
    )
    """The congestion controls to compare."""
    duration_s: int = pydantic.Field(default=20, ge=3)
    """Of one run."""


class Bond(Strict):
    """A bond that the nodes of a partition have between them."""

    device: str
    """The interface of the bond."""
    links: list[str] = pydantic.Field(min_length=2)
    """The interfaces below it."""
    mode: str = "802.3ad"
    """As the kernel names it."""
    link_gbits: Gbits
    """Raw rate of one link."""
    mtu_bytes: int = pydantic.Field(ge=576, le=65535)
    """Of the bond."""
    streams: int = pydantic.Field(default=16, ge=2)
    """TCP streams, which spread over the links."""
