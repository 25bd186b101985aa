"""What TCP tools share: the settings of a run, and rows of what was moved."""

from __future__ import annotations

import dataclasses

from railgauge.tools.common.options import require_congestion, require_integers, require_seconds


@dataclasses.dataclass(frozen=True)
class TcpOptions:
    """The settings of a run of parallel TCP streams."""

    #: per direction
    streams: int = 4
    duration_s: int = 5
    #: socket buffer asked for with -w; None leaves it to the kernel's autotuning
    window_bytes: int | None = None
    #: congestion control, as named under net.ipv4.tcp_available_congestion_control
    congestion: str | None = None
    #: size of one write
    length_bytes: int | None = None
    #: how long what is buffered may still be on its way when the time is up
    drain_s: float = 0

    def require_tcp(self, tool: str, most_streams: int | None = None) -> None:
        """ValueError where the tool cannot run these."""
        count = (1, None)
        require_integers(tool, self, streams=(1, most_streams), duration_s=count)
        require_integers(tool, self, window_bytes=count, length_bytes=count)
        require_seconds(tool, "drain_s", self.drain_s)
        require_congestion(tool, self.congestion)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """What was moved from `start_s` to `end_s` of a run, by one stream or by all."""

    start_s: float
    end_s: float
    transferred_bytes: int
    bandwidth_gbits_s: float
    #: None where it is not counted: on a receiver, or in an output without such a column
    retransmits: int | None = None

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s
