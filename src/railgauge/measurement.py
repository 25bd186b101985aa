"""A measurement: one number with its unit and the full condition it was taken under."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import pydantic

#: Names of congestion control, as under net.ipv4.tcp_available_congestion_control.
CONGESTION_CONTROL = "[a-z0-9][a-z0-9_-]*"

#: Every metric that a check may report, with its one unit. A reference in another unit is an
#: error when it is loaded; a metric that is not listed here cannot be reported.
METRIC_UNITS: Mapping[str, str] = {
    "bandwidth": "Gb/s",  # payload, 10^9 bits per second, as received
    "bandwidth_peak": "Gb/s",  # the best stretch within one run, as the tool defines it
    "stream_bandwidth_min": "Gb/s",  # the slowest of several parallel streams
    "message_rate": "Mmsg/s",  # 10^6 messages per second
    "retransmits": "segments",  # TCP segments sent again, all streams together
    "time_to_stable": "s",  # until the rate has come to that of the run's second half
    "transfer_time": "s",  # of a set of files, from the sender's start to its end
    "jain_index": "1",  # (sum x)^2 / (n sum x^2) of the bytes that n links carried
    "rtt": "ms",  # median round trip time of the path, idle
    "links": "links",  # a node's rails and bonded links that are in the state that they should be
    "expectations": "entries",  # of a system's expected.yaml that hold on a node
    "latency": "us",  # the typical one: perftest's median, half of a round trip
    "latency_min": "us",
    "latency_avg": "us",
    "latency_p99": "us",
    "latency_p999": "us",
    "latency_max": "us",
    "mpi_time": "s",  # of an MPI program's measured operations, until its slowest rank has them
    "startup": "s",  # from starting a parallel program to the end of its slowest rank
    # Of a collective, as nccl-tests defines it: what one link would have to carry in one direction.
    "busbw": "GB/s",  # 10^9 bytes per second; results in a buffer of their own (out of place)
    "busbw_in_place": "GB/s",
    "time": "us",  # of one operation, out of place
    "time_in_place": "us",
}

#: Which way each metric gets better. A published number without bounds of its own gates on the
#: other side.
METRIC_BETTER: Mapping[str, Literal["more", "less"]] = {
    "bandwidth": "more",
    "bandwidth_peak": "more",
    "stream_bandwidth_min": "more",
    "message_rate": "more",
    "retransmits": "less",
    "time_to_stable": "less",
    "transfer_time": "less",
    "jain_index": "more",
    "rtt": "less",
    "links": "more",
    "expectations": "more",
    "latency": "less",
    "latency_min": "less",
    "latency_avg": "less",
    "latency_p99": "less",
    "latency_p999": "less",
    "latency_max": "less",
    "mpi_time": "less",
    "startup": "less",
    "busbw": "more",
    "busbw_in_place": "more",
    "time": "less",
    "time_in_place": "less",
}


#: Metrics that are the same at all places where all is well. Others count events, are tails, or
#: depend on the way: a latency grows with every switch.
METRIC_ALIKE = frozenset(("bandwidth", "message_rate", "busbw"))


@pydantic.with_config(extra="forbid")
@dataclasses.dataclass(frozen=True)
class Measurement:
    """One number, in the metric's unit, and what was measured how between whom.

    `size_bytes` is the message size, None where the tool streams. `streams` are TCP streams or RDMA
    queue pairs. `nodes` are in the tool's own order (receiver, sender) or as the job listed them;
    empty where only a bare file was read. `rails` are the two ends' rails ("0-1"), by their place
    among the node's RDMA devices; `nics` are the logical NICs that were measured at once
    ("eth1+eth2"), where each was chosen. `samples` is the number of iterations behind the value.
    `window_bytes`, `congestion` and `delay_ms` (added round trip time) are what was asked for, None
    where nothing was. `simulated` numbers come from a stand-in program: they never are a reference.
    """

    metric: str
    value: float
    tool: str
    operation: str
    transport: str
    size_bytes: int | None = None
    streams: int | None = None
    nodes: tuple[str, ...] = ()
    ranks: int | None = None
    rails: str | None = None
    samples: int | None = None
    window_bytes: int | None = None
    congestion: str | None = None
    delay_ms: float | None = None
    nics: str | None = None
    simulated: bool = False

    def __post_init__(self) -> None:
        if self.metric not in METRIC_UNITS:
            known = ", ".join(METRIC_UNITS)
            raise ValueError(f"metric {self.metric!r} is unknown; one of: {known}")
        if not math.isfinite(self.value) or self.value < 0:
            raise ValueError(f"{self.metric} is {self.value}: not a finite number of 0 or more")

    @property
    def unit(self) -> str:
        return METRIC_UNITS[self.metric]

    @property
    def variable(self) -> str:
        """The name of ReFrame's performance variable.

        The metric, with the state that follows the operation ("allreduce alone") and the size,
        where there are such.
        """
        state = self.operation.partition(" ")[2]
        size = "" if self.size_bytes is None else f"{self.size_bytes}B"
        return "_".join(part for part in (self.metric, state, size) if part)

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "unit": self.unit, "nodes": list(self.nodes)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measurement:
        """The inverse of `as_dict`; ValueError where the document is not one."""
        plain = {name: value for name, value in fields.items() if name != "unit"}
        measurement = _DOCUMENT.validate_python(plain)
        if fields.get("unit") != measurement.unit:
            raise ValueError(
                f"{measurement.metric} in {fields.get('unit')!r}, expected {measurement.unit!r}"
            )
        return measurement


_DOCUMENT = pydantic.TypeAdapter(Measurement)
