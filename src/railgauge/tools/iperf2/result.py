"""What one output of iperf2 says: its totals, its intervals, and the conditions that it states."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from railgauge.tools.common.tcp import Row
from railgauge.tools.iperf2.directions import Direction

Role = Literal["client", "server", "unknown"]

# Rows round to 3 digits or to 1 KiB, and clocks to 0.1 ms or 0.1 s; that is computed per row.
#: This is what may remain: the rate is taken at another instant than the bytes.
SLACK = 0.005
#: TCP delivers what the client wrote before it closed, so both sides count the same bytes.
BYTES_SLACK = 0.01
#: The sum has a clock of its own. Where it ends before its streams by more than this, its rate was
#: never there.
SUM_SHORTER = 1.02


@dataclasses.dataclass(frozen=True)
class Stream(Row):
    """What one stream, or with the id 'SUM' all together, moved."""

    id: str = dataclasses.field(kw_only=True)


@dataclasses.dataclass(frozen=True)
class Bounceback:
    """Round trips of one small request and its reply (--bounceback), over the whole run."""

    count: int
    avg_us: float
    min_us: float
    max_us: float


@dataclasses.dataclass(frozen=True)
class Stall:
    """Whole intervals in a row in which one stream, or 'SUM' all together, moved nothing."""

    id: str
    start_s: float
    end_s: float


@dataclasses.dataclass(frozen=True)
class Clock:
    """When a side came to a stream, by its host's clock, and how long it then had it."""

    began_s: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Output:
    """One output of one run in one direction: its totals, and the conditions that it states."""

    role: Role
    #: the total of every stream; empty for --sum-only
    streams: tuple[Stream, ...]
    #: the sum row, the only stream, or (csv of 2.1.8, UDP) the streams added up
    total: Stream
    #: rows per interval: of the sum, or of the only stream
    intervals: tuple[Stream, ...]
    #: the number of streams that the rows state; None for a bare [SUM]
    stream_count: int | None
    #: 'connected with' lines
    connected: int
    #: the client's TCP ports, sorted: equal on both sides of one run
    client_ports: tuple[int, ...]
    mss_bytes: tuple[int, ...]
    congestion: str | None
    window_bytes: float | None
    bounceback: Bounceback | None
    bounceback_requested: bool
    udp: bool
    #: the rows say what arrived; False where they say only what was sent
    received: bool
    direction: Direction = "forward"
    #: what went the other way at once, or after it (-r)
    other: Output | None = None
    stalls: tuple[Stall, ...] = ()
    #: by the client's TCP port, of the streams with a time of their connection (-e)
    clocks: Mapping[int, Clock] = dataclasses.field(default_factory=dict)

    @property
    def ways(self) -> tuple[Output, ...]:
        return (self,) if self.other is None else (self, self.other)
