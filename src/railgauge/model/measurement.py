"""A measurement: one number with its unit and the full condition it was taken under."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import pydantic

from railgauge.model.leaves import Within
from railgauge.model.sizes import format_size

#: Whether a place was measured while all others were idle, or others at the same time.
Load = Literal["quiet", "loaded"]

#: Names of congestion control, as under net.ipv4.tcp_available_congestion_control.
CONGESTION_CONTROL = "[a-z0-9][a-z0-9_-]*"


#: Above this modified z-score a number is an outlier: B. Iglewicz and D. Hoaglin, How to Detect and
#: Handle Outliers, 1993.
STANDS_OUT = 3.5


class Metric(NamedTuple):
    """What is measured: its one unit, which way it gets better, and what it is.

    `comparable`: the same at all places where all is well. Others count events, are tails, or
    depend on the path: a latency grows with every switch. `by_chance`: an extreme of a run, which
    differs by a third and more in healthy runs. It needs no reference, and no baseline is made of
    it.
    """

    unit: str
    better: Literal["more", "less"]
    meaning: str
    comparable: bool = False
    by_chance: bool = False


#: Every metric that a check may report: another one cannot be reported, and a reference in another
#: unit is an error when it is loaded. A published number without bounds of its own gates on the
#: side that is not the better one. Rates are decimal: Gb/s are 10^9 bits, GB/s 10^9 bytes a second.
METRICS: Mapping[str, Metric] = {
    "bandwidth": Metric("Gb/s", "more", "payload, as received", comparable=True),
    "bandwidth_peak": Metric("Gb/s", "more", "the best stretch of a run, as the tool defines it"),
    "stream_bandwidth_min": Metric(
        "Gb/s", "more", "the slowest of several parallel streams", by_chance=True
    ),
    "message_rate": Metric("Mmsg/s", "more", "10^6 messages per second", comparable=True),
    "retransmits": Metric("segments", "less", "TCP segments sent again, all streams together"),
    "time_to_stable": Metric("s", "less", "until the rate is that of the run's second half"),
    "transfer_time": Metric("s", "less", "of a set of files, from the sender's start to its end"),
    "jain_index": Metric("1", "more", "(sum x)^2 / (n sum x^2) of the bytes that n links carried"),
    "rtt": Metric("ms", "less", "round trip time of the path, idle: the least but one of five"),
    "links": Metric("links", "more", "a node's rails and bonded links that are as they should be"),
    "expectations": Metric("entries", "more", "of expected.yaml that hold on a node"),
    "latency": Metric("us", "less", "the typical one: perftest's median, half of a round trip"),
    "latency_min": Metric("us", "less", "the least"),
    "latency_avg": Metric("us", "less", "the mean"),
    "latency_p99": Metric("us", "less", "the 99th percentile"),
    "latency_p999": Metric("us", "less", "the 99.9th percentile"),
    "latency_max": Metric("us", "less", "the longest", by_chance=True),
    "mpi_time": Metric("s", "less", "of an MPI program's operations, until its last rank has them"),
    "application_time": Metric(
        "s", "less", "of a program's runs, the olympic mean: without the fastest and the slowest"
    ),
    "startup": Metric("s", "less", "of a parallel program, until its slowest rank has ended"),
    "busbw": Metric(
        "GB/s", "more", "as nccl-tests defines it: of one link, one way", comparable=True
    ),
    "busbw_in_place": Metric("GB/s", "more", "the same, with results in the buffer of the data"),
    "copy_bandwidth": Metric(
        *("GB/s", "more", "of copies between GPUs and hosts, the mean of a matrix"),
        comparable=True,
    ),
    "copy_bandwidth_min": Metric("GB/s", "more", "the slowest of them", comparable=True),
    "time": Metric("us", "less", "of one collective operation, out of place"),
    "time_in_place": Metric("us", "less", "of one collective operation, in place"),
}

#: Metrics that never become a baseline.
BY_CHANCE = tuple(name for name, metric in METRICS.items() if metric.by_chance)

#: Units of what is counted, and not measured.
COUNTS = ("links", "entries", "segments")


@pydantic.with_config(extra="forbid", defer_build=True)
@dataclasses.dataclass(frozen=True)
class Measurement:
    """One number, in the metric's unit, with its conditions and its nodes.

    `size_bytes` is the message size, None where the tool streams. `streams` are TCP streams or RDMA
    queue pairs. `nodes` are in the tool's own order (receiver, sender) or as the job listed them;
    empty where only a bare file was read. `rails` are the two ends' rails ("0-1"), by their place
    among the node's RDMA devices; `nics` are the logical NICs that were measured at once
    ("eth1+eth2"), where each was chosen. `samples` is the number of iterations behind the value,
    `warmup` the number of iterations before them; None where the tool has none or states none.
    `window_bytes`, `congestion` and `delay_ms` (added round trip time) are what was asked for, None
    where nothing was. `within` says whether both nodes are on one leaf, `load` whether other places
    were measured at the same time; None where that is not known. `simulated` numbers come from a
    stand-in program: they never are a reference.
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
    within: Within | None = None
    load: Load | None = None
    warmup: int | None = None
    simulated: bool = False

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            known = ", ".join(METRICS)
            raise ValueError(f"metric {self.metric!r} is unknown; one of: {known}")
        if not math.isfinite(self.value) or self.value < 0:
            raise ValueError(f"{self.metric} is {self.value}: not a finite number of 0 or more")

    @property
    def unit(self) -> str:
        return METRICS[self.metric].unit

    @property
    def variable(self) -> str:
        """The name of ReFrame's performance variable.

        The metric, with the state that follows the operation ("allreduce alone") and the size,
        where there are such.
        """
        state = self.operation.partition(" ")[2]
        size = "" if self.size_bytes is None else f"{self.size_bytes}B"
        return "_".join(part for part in (self.metric, state, size) if part)

    @property
    def words(self) -> str:
        """What was measured how, for people: `bandwidth 64 KiB, write, roce, 4 streams`."""
        size = "" if self.size_bytes is None else f" {format_size(self.size_bytes)}"
        return ", ".join([f"{self.metric}{size}", *self.conditions])

    @property
    def conditions(self) -> list[str]:
        """How it was measured, for people: `write`, `roce`, `4 streams`."""
        window = "" if self.window_bytes is None else f"window {format_size(self.window_bytes)}"
        parts = (
            self.operation,
            self.transport if self.transport != self.operation else "",
            "" if self.streams is None else f"{self.streams} streams",
            "" if self.ranks is None else f"{self.ranks} ranks",
            "" if self.delay_ms is None else f"{self.delay_ms:g} ms",
            window,
            self.congestion,
        )
        return [part for part in parts if part]

    def with_state(self, state: str) -> Measurement:
        """The same, with a state as part of what was measured: `tcp busy`, `write rdma_cm`."""
        return dataclasses.replace(self, operation=f"{self.operation} {state}")

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "unit": self.unit, "nodes": list(self.nodes)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measurement:
        """The inverse of `as_dict`; ValueError where the document is not one."""
        plain = dict(fields)
        unit = plain.pop("unit", None)
        measurement: Measurement = _DOCUMENT.validator.validate_python(plain)
        if unit != measurement.unit:
            raise ValueError(f"{measurement.metric} in {unit!r}, expected {measurement.unit!r}")
        return measurement


_DOCUMENT = pydantic.TypeAdapter(Measurement)
