"""What one side of a run says: its directions, and the conditions that it states."""

from __future__ import annotations

import dataclasses
from typing import Literal

from railgauge.tools.common.tcp import Row

Role = Literal["client", "server"]


@dataclasses.dataclass(frozen=True)
class Flow:
    """What one direction moved. A side that only sends does not know what arrived, and a server
    that only receives not always what was sent.
    """

    #: from server to client
    reverse: bool
    sent: Row | None
    received: Row | None
    #: what arrived of each stream; of a side that does not know it what it sent
    streams: tuple[Row, ...]
    #: the sums per interval of this side, without those that do not count
    intervals: tuple[Row, ...]

    @property
    def own(self) -> Row | None:
        """What this side measured, and did not only hear of."""
        return self.received or self.sent


@dataclasses.dataclass(frozen=True)
class Output:
    """The document, or the text, of one side of one run."""

    role: Role
    #: "" where the output does not say
    version: str
    #: by which both sides name their run; no text has it
    cookie: str | None
    #: TCP or UDP
    protocol: str
    #: of each direction
    stream_count: int
    #: requested: a time, or an amount; 0 where it is not what ends the run; None in a text
    duration_s: float | None
    requested_bytes: int
    #: run before the duration, and in no total (-O)
    omitted_s: float
    #: one, or two with --bidir
    flows: tuple[Flow, ...]
    mss_bytes: int | None = None
    congestion: str | None = None
    #: datagrams of UDP that did not arrive
    lost: int | None = None
    simulated: bool = False

    def sends(self, flow: Flow) -> bool:
        """Whether this side sends in that direction."""
        return (self.role == "client") != flow.reverse

    @property
    def sent(self) -> Row:
        """Of the first direction."""
        row = self.flows[0].sent
        assert row is not None, "asked of a side that may not know it"
        return row

    @property
    def received(self) -> Row:
        """Of the first direction."""
        row = self.flows[0].received
        assert row is not None, "asked of a side that may not know it"
        return row

    @property
    def intervals(self) -> tuple[Row, ...]:
        """Of the first direction."""
        return self.flows[0].intervals
