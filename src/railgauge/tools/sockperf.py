"""sockperf: round trips and message rates of sockets, by the client's summary.

A time is half of a round trip, unless --full-rtt was given. The server prints no numbers. What
sockperf calls MBps are 2^20 bytes a second, and its Mbps 2^20 bits (client_statistics of
src/client.cpp; the recorded outputs agree).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, integer
from railgauge.tools.common.lines import quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.one_output import Conclusion, by_hand, differences, judge, plain_lines
from railgauge.tools.common.options import require_integers

TOOL = "sockperf"


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """What was asked for: a time, and of a throughput the message size; ValueError where it cannot
    be run.
    """

    duration_s: int
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        require_integers(TOOL, self, duration_s=(1, None), size_bytes=(1, None))


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Output:
    """What one side printed. `times_us` are by name: mean, percentiles and both ends; half of a
    round trip each. It is empty of a throughput, and both are of a server, which has no numbers.
    """

    version: str
    role: str
    transport: str
    duration_s: float | None
    times_us: Mapping[str, float]
    messages_s: float | None
    bandwidth_mib_s: float | None
    size_bytes: int | None
    #: sent, and answered, in the time that counts
    sent: int | None = None
    received: int | None = None
    dropped: int = 0
    duplicated: int = 0


# ---- parse ---------------------------------------------------------------------------------

_FAILURE = re.compile(
    r"^sockperf: ERROR|No messages were received|interrupted by signal (?!2\))|^Usage:|"
    r"^sockperf: .*\bfailed\b",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"sockperf: ?")
_VERSION = re.compile(r"== version #(\S+) ==")
_ROLE = re.compile(r"(?:sockperf)?\[(CLIENT|SERVER)\] (?:send|listen) on:.*")
_ADDRESS = re.compile(r"\[ *[0-9]+\] IP = .* PORT = +[0-9]+ # (TCP|UDP)")
_DURATION = re.compile(
    r"\[Total Run\] RunTime=([0-9]+\.[0-9]{3}) sec;.*|"
    r"Total of [0-9]+ messages sent in ([0-9]+\.[0-9]{3}) sec"
)
_VALID = re.compile(
    r"\[Valid Duration\] RunTime=([0-9.]+) sec; SentMessages=([0-9]+); ReceivedMessages=([0-9]+)"
)
_LOST = re.compile(
    r"# dropped messages = ([0-9]+); # duplicated messages = ([0-9]+); "
    r"# out-of-order messages = ([0-9]+)"
)
_MEAN = re.compile(r"Summary: (Latency|Round trip) is ([0-9]+\.[0-9]{3}) usec")
_TIME = re.compile(r"---> (?:<(MIN|MAX)> observation|percentile ([0-9.]+)) = +([0-9]+\.[0-9]{3})")
_RATE = re.compile(r"Summary: Message Rate is ([0-9]+) \[msg/sec\](?:, Packet Rate is .*)?")
_BANDWIDTH = re.compile(
    r"Summary: BandWidth is ([0-9]+\.[0-9]{3}) MBps \(([0-9]+\.[0-9]{3}) Mbps\)"
)
_SIZE = re.compile(r"NOTE: test was performed, using msg-size=([0-9]+)\..*")


def parse(text: str) -> Output:
    """What one side printed. ParseError where a client's is not whole: its last line is the least
    time, or the bandwidth.
    """
    found: dict[str, re.Match[str]] = {}
    times: dict[str, float] = {}
    stopped = timed = False
    number = 0
    for number, line in plain_lines(text, _FAILURE):
        words = _PREFIX.sub("", line, count=1)
        if time := _TIME.fullmatch(words):
            name = time[1] or time[2]
            if name in times:
                raise ParseError(number, f"a second {name}", "the times of one server")
            times[name] = float(time[3])
        elif words.startswith("---> "):
            raise ParseError(number, quote(line), "a time with three decimals")
        stopped |= "interrupted by signal" in words
        timed |= "interrupted by timer" in words
        for name, pattern in _LINES.items():
            if matched := pattern.fullmatch(words):
                if name in found and matched[0] != found[name][0] and name != "address":
                    raise ParseError(number, f"a second {name}", "the output of one run")
                found[name] = matched
    if "version" not in found or "role" not in found:
        raise ParseError(0, "no client and no server", "what sockperf prints, from its version on")
    if stopped and not timed:
        raise ParseError(0, "interrupted by a signal", "a run for its whole time")
    role = found["role"][1].lower()
    if role == "client" and not (("MIN" in times and "mean" in found) or "bandwidth" in found):
        raise ParseError(number, "no end of the summary", "its <MIN> observation, or its BandWidth")
    return _output(role, found, times)


_LINES = {
    "version": _VERSION,
    "role": _ROLE,
    "address": _ADDRESS,
    "duration": _DURATION,
    "valid": _VALID,
    "lost": _LOST,
    "mean": _MEAN,
    "rate": _RATE,
    "bandwidth": _BANDWIDTH,
    "size": _SIZE,
}


def _output(role: str, found: Mapping[str, re.Match[str]], times: dict[str, float]) -> Output:
    mean, rate, bandwidth = found.get("mean"), found.get("rate"), found.get("bandwidth")
    valid, lost, size = found.get("valid"), found.get("lost"), found.get("size")
    if mean:
        times["mean"] = float(mean[2])
        if mean[1] == "Round trip":
            times = {name: value / 2 for name, value in times.items()}
        order = [times[name] for name in ("MIN", "mean", "MAX") if name in times]
        if order != sorted(order):
            raise ParseError(0, "a mean outside of its least and longest time", "min <= avg <= max")
    if bandwidth and abs(float(bandwidth[2]) - 8 * float(bandwidth[1])) > 0.006:
        raise ParseError(0, quote(bandwidth[0]), "8 Mbps a MBps")
    duration = found.get("duration")
    return Output(
        found["version"][1],
        role,
        found["address"][1].lower() if "address" in found else "any",
        float(duration[1] or duration[2]) if duration else None,
        times if mean else {},
        float(rate[1]) if rate else None,
        float(bandwidth[1]) if bandwidth else None,
        int(size[1]) if size else None,
        int(valid[2]) if valid else None,
        int(valid[3]) if valid else None,
        int(lost[1]) if lost else 0,
        int(lost[2]) if lost else 0,
    )


# ---- read ----------------------------------------------------------------------------------

_MIB = 2**20
_METRICS = {
    "50.000": "latency",
    "mean": "latency_avg",
    "MIN": "latency_min",
    "99.000": "latency_p99",
    "99.900": "latency_p999",
    "MAX": "latency_max",
}
_SHORT = 0.95


def read(text: str, *, calls: Sequence[Call] = (), options: Options | None = None) -> Reading:
    """Judge what one client printed. Proved with exit code 0 and what was asked for."""
    return judge(text, parse, _conclude, calls, options)


def _conclude(output: Output, options: Options | None) -> Conclusion:
    seen: dict[str, Any] = {"version": output.version}
    if output.role == "server":
        reason = "what the server printed: the client's output has the numbers"
        wrong = ("the server's output, expected the client's",) if options else ()
        return Conclusion(reason, (), seen, wrong, (reason,))
    seen |= {"duration_s": output.duration_s}
    complaints: list[str] = []
    if output.size_bytes is not None:
        seen["size_bytes"] = output.size_bytes
        complaints += differences({"size_bytes": output.size_bytes}, options)
        moved = (output.messages_s or 0) * output.size_bytes / _MIB
        if abs(moved - (output.bandwidth_mib_s or 0)) > output.size_bytes / _MIB + 0.001:
            complaints.append(f"{output.bandwidth_mib_s} MBps, but {moved:.3f} by the messages")
    if options and (output.duration_s or 0) < _SHORT * options.duration_s:
        ran = f"it ran for {output.duration_s} s"
        complaints.append(f"{ran}, {options.duration_s} s were asked for")
    # Under load the client sends at a rate of its own, and not all messages are answered.
    kind = "throughput" if not output.times_us else "ping-pong"
    if output.received is not None and output.sent is not None:
        kind = "under-load" if output.received < output.sent else kind
    notes: tuple[str, ...] = ()
    if output.dropped or output.duplicated:
        lost = f"{output.dropped} messages dropped and {output.duplicated} duplicated"
        notes = (f"{lost}: the times are those of the others",)
        if kind != "under-load":
            complaints += notes
    metrics = {_METRICS[name]: us for name, us in output.times_us.items() if name in _METRICS}
    if output.bandwidth_mib_s is not None:
        metrics["bandwidth"] = output.bandwidth_mib_s * _MIB * 8e-9
    if output.messages_s is not None:
        metrics["message_rate"] = output.messages_s * 1e-6
    if not metrics or not all(metrics.values()):
        complaints.append("a time or a rate of 0, expected above 0")
    # It counts what the client sent, and not what arrived.
    operation = f"{output.transport} sent" if kind == "throughput" else kind
    measurements = tuple(
        Measurement(
            metric,
            value,
            TOOL,
            operation,
            output.transport,
            output.size_bytes,
            samples=output.received,
        )
        for metric, value in metrics.items()
    )
    return Conclusion(f"{kind} to its end", measurements, seen, tuple(complaints), notes)


# ---- by hand -------------------------------------------------------------------------------


BY_HAND = ByHand(
    ("what the client printed",),
    "Its summary stands at the end, but does not say that the program ended well, so its "
    "completeness is `unknown`. It is `proved` by the exit code and what was expected.",
    {"duration_s": integer, "size_bytes": parse_size},
    Options,
    by_hand(TOOL, read),
    example=("duration_s=5",),
    needed=("duration_s",),
    marks=Marks((Mark("== version #", r"sockperf: == version #\S+ =="),)),
)
