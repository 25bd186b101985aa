"""iperf3: TCP bandwidth of parallel streams between two nodes, by its JSON.

iperf3 writes one JSON document when it ends: whatever is cut from it is no JSON any more, and an
error stands in it. But a document without an error may still say that nothing arrived, and a
client's own rate is of what it handed to its kernel. So `read` takes what the server received.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.measurement import Measurement
from railgauge.tools import Call, Completeness, Moved, ParseError, Reading
from railgauge.tools.sides import CALL_SLACK_S, collect

TOOL = "iperf3"

Role = Literal["client", "server"]


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """What is asked of one TCP run from client to server; ValueError where it cannot be run."""

    streams: int = 4
    duration_s: int = 5
    #: socket buffer asked for on both sides; None leaves it to the kernel's autotuning
    window_bytes: int | None = None
    #: congestion control, as named under net.ipv4.tcp_available_congestion_control
    congestion: str | None = None
    #: size of one write
    length_bytes: int | None = None
    #: the sender does not copy what it sends
    zero_copy: bool = False
    #: how long what is buffered may still be on its way when the time is up
    drain_s: float = 0

    def __post_init__(self) -> None:
        for name in ("streams", "duration_s", "window_bytes", "length_bytes"):
            value = getattr(self, name)
            if value is None and name in ("window_bytes", "length_bytes"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"iperf3 {name} is {value!r}, expected an integer of 1 or more")
        if self.streams > 128:
            raise ValueError(f"iperf3 streams is {self.streams}, expected at most 128")
        if not (math.isfinite(self.drain_s) and self.drain_s >= 0):
            raise ValueError(f"iperf3 drain_s is {self.drain_s!r}, expected 0 or more")
        congestion = self.congestion
        if congestion is not None and not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", congestion):
            raise ValueError(f"iperf3 congestion is {congestion!r}, expected a name such as cubic")


# ---- argv ----------------------------------------------------------------------------------


def version_argv() -> list[str]:
    return ["iperf3", "--version"]


def server_argv(options: Options, port: str = "{port}") -> list[str]:
    """The receiver, for one run. The client tells it everything else."""
    return ["iperf3", "-s", "-1", "-p", port, "--json"]


def client_argv(options: Options, server: str = "{server}", port: str = "{port}") -> list[str]:
    """The sender."""
    argv = ["iperf3", "-c", server, "-p", port, "-P", str(options.streams)]
    argv += ["-t", str(options.duration_s), "--json"]
    if options.window_bytes is not None:
        argv += ["-w", str(options.window_bytes)]
    if options.congestion is not None:
        argv += ["-C", options.congestion]
    if options.length_bytes is not None:
        argv += ["-l", str(options.length_bytes)]
    if options.zero_copy:
        argv += ["-Z"]
    return argv


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """What was moved from `start_s` to `end_s`, by one stream or by all."""

    start_s: float
    end_s: float
    transferred_bytes: int
    bandwidth_gbits_s: float
    #: None where it is not counted: on a receiver
    retransmits: int | None = None

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


@dataclasses.dataclass(frozen=True)
class Output:
    """The document of one side of one TCP run."""

    role: Role
    version: str
    #: by which both sides name their run
    cookie: str | None
    stream_count: int
    duration_s: float
    sent: Row
    received: Row
    #: what the server got of each stream
    streams: tuple[Row, ...]
    #: the sums per interval, without those that do not count
    intervals: tuple[Row, ...]
    mss_bytes: int | None
    congestion: str | None
    simulated: bool = False


# ---- parse ---------------------------------------------------------------------------------

# A rate is the bytes over a time that is not printed to the last digit in older versions.
_SLACK = 0.01
_RECORDER = re.compile(r"^(?:\s*[0-9]{1,6}: )+")
_STDERR = "STDERR: "


def parse(text: str) -> Output:
    """Read what one side printed with --json; ParseError for whatever is no whole, good run."""
    document = _document(text)
    if "error" in document:
        raise ParseError(0, f"the error {_quote(document['error'])}", "a run without an error")
    start, end = _object(document, "start"), _object(document, "end")
    asked = _object(start, "test_start", "start")
    protocol = asked.get("protocol")
    if protocol != "TCP":
        raise ParseError(0, f"protocol {_quote(protocol)}", "TCP")
    # Whether a server's total holds the omitted start differs by version.
    for name in ("reverse", "bidir", "omit"):
        if asked.get(name, 0) not in (0, False):
            expected = "a run from client to server that counts from its start"
            raise ParseError(0, f"{name} {_quote(asked[name])}", expected)
    if not end:
        raise ParseError(0, "an empty 'end'", "the totals of the run")
    is_client = "connecting_to" in start
    if is_client == ("accepted_connection" in start):
        raise ParseError(0, "no side", "start.connecting_to or start.accepted_connection")
    streams = _streams(end)
    sent = _row(_object(end, "sum_sent", "end"), "end.sum_sent")
    received = _row(_object(end, "sum_received", "end"), "end.sum_received")
    count = _integer(asked, "num_streams", "start.test_start")
    if len(streams) != count:
        raise ParseError(0, f"{len(streams)} streams at the end", f"the {count} of test_start")
    moved = sum(stream.transferred_bytes for stream in streams)
    if moved != received.transferred_bytes:
        found = f"end.sum_received of {received.transferred_bytes} bytes"
        raise ParseError(0, found, f"the {moved} bytes of its streams")
    if received.transferred_bytes <= 0 or received.duration_s <= 0:
        raise ParseError(0, "nothing received", "bytes that arrived at the server")
    if is_client and received.transferred_bytes > sent.transferred_bytes * (1 + _SLACK):
        found = f"{received.transferred_bytes} bytes received"
        raise ParseError(0, found, f"at most the {sent.transferred_bytes} that were sent")
    mss = start.get("tcp_mss_default") or start.get("tcp_mss")
    version = start.get("version")
    if not isinstance(version, str):
        raise ParseError(0, f"version {_quote(version)}", "start.version")
    cookie, congestion = start.get("cookie"), end.get("sender_tcp_congestion")
    return Output(
        "client" if is_client else "server",
        version,
        cookie if isinstance(cookie, str) else None,
        count,
        _real(asked, "duration", "start.test_start"),
        sent,
        received,
        streams,
        _intervals(document),
        mss if isinstance(mss, int) and not isinstance(mss, bool) else None,
        congestion if isinstance(congestion, str) else None,
        simulated=document.get("simulated", False) is not False or "# SIMULATED" in text,
    )


def _document(text: str) -> dict[str, Any]:
    """The one document in a text, which a recorder may have labelled and put comments before."""
    complaints, lines = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith(_STDERR):
            if "error" in line.lower() or "unable" in line.lower():
                complaints.append((number, line[len(_STDERR) :]))
            line = ""
        line = _RECORDER.sub("", line.rstrip("\r"))
        lines.append("" if line.startswith("#") else line)
    if complaints:
        number, line = complaints[0]
        raise ParseError(number, _quote(line), "no error message")
    body = "\n".join(lines)
    if not body.strip():
        raise ParseError(0, "nothing", "one JSON document of iperf3 --json")
    before = body[: len(body) - len(body.lstrip())].count("\n")
    if not body.lstrip().startswith("{"):
        raise ParseError(before + 1, _quote(lines[before]), "one JSON document: iperf3 --json")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        where, why = getattr(error, "lineno", 0), getattr(error, "msg", str(error))
        raise ParseError(where, f"no whole JSON ({why})", "one document, to its end") from None
    if not isinstance(document, dict):
        raise ParseError(0, _quote(document), "one JSON object")
    if "event" in document:
        raise ParseError(0, "an event of --json-stream", "one document of --json")
    return document


def _streams(end: Mapping[str, Any]) -> tuple[Row, ...]:
    rows = end.get("streams")
    if not isinstance(rows, list) or not rows:
        raise ParseError(0, f"end.streams {_quote(rows)}", "the streams of the run")
    found = []
    for index, stream in enumerate(rows):
        where = f"end.streams[{index}]"
        if not isinstance(stream, dict):
            raise ParseError(0, f"{where} {_quote(stream)}", "an object")
        # The times of a stream's receiver are the sender's in some versions: `end` is its own.
        found.append(_row(_object(stream, "receiver", where), f"{where}.receiver"))
    return tuple(found)


def _intervals(document: Mapping[str, Any]) -> tuple[Row, ...]:
    entries = document.get("intervals", [])
    if not isinstance(entries, list):
        raise ParseError(0, f"intervals {_quote(entries)}", "a list")
    found = []
    for index, entry in enumerate(entries):
        where = f"intervals[{index}]"
        total = _object(entry if isinstance(entry, dict) else {}, "sum", where)
        if not total.get("omitted"):
            found.append(_row(total, f"{where}.sum"))
    return tuple(found)


def _row(fields: Mapping[str, Any], where: str) -> Row:
    start, end = _real(fields, "start", where), _real(fields, "end", where)
    moved = _integer(fields, "bytes", where)
    rate = _real(fields, "bits_per_second", where)
    if end < start:
        raise ParseError(0, f"{where} from {start:g} to {end:g} s", "an end after its start")
    # Intervals end a little after they say; a total is over its own time.
    if (
        end > start
        and "sum_" in where
        and abs(rate * (end - start) - 8 * moved) > _SLACK * 8 * max(moved, 1)
    ):
        expected = f"{8 * moved / (end - start):.6g}, by its bytes and time"
        raise ParseError(0, f"{where}.bits_per_second of {rate:.6g}", expected)
    count = fields.get("retransmits")
    retransmits = count if isinstance(count, int) and not isinstance(count, bool) else None
    return Row(start, end, moved, rate / 1e9, retransmits if (retransmits or 0) >= 0 else None)


def _object(fields: Mapping[str, Any], name: str, where: str = "") -> dict[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict):
        path = f"{where}.{name}" if where else name
        raise ParseError(0, f"{path} {_quote(value)}", "an object")
    return value


def _real(fields: Mapping[str, Any], name: str, where: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParseError(0, f"{where}.{name} {_quote(value)}", "a number")
    if not (0 <= value <= 1e18):
        raise ParseError(0, f"{where}.{name} {_quote(value)}", "a number of 0 or more")
    return float(value)


def _integer(fields: Mapping[str, Any], name: str, where: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**18:
        raise ParseError(0, f"{where}.{name} {_quote(value)}", "an integer of 0 or more")
    return value


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


# ---- read ----------------------------------------------------------------------------------

# iperf3 ends at its time; what a server still gets then is not counted.
_SHORT, _LONG, _EDGE_S = 0.95, 1.1, 1.0


def read(
    client: str,
    *,
    server: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judges all that is known of one run; never raises for what a tool or a job wrote.

    A whole document without an error proves that the run came to its end. Evidence that
    contradicts it refuses; without exit codes, the server's document and the options the reading
    says that they were not there.
    """
    sides = collect(TOOL, parse, client, server, calls)
    side, outputs, complaints = sides.names, sides.outputs, list(sides.complaints)
    alone = server is None and not calls and options is None
    for role, output in outputs.items():
        if output.role != role and not alone:
            complaints.append(f"{side[role]}: the output is that of a {output.role}")
        complaints += [f"{side[role]}: {why}" for why in _complaints(output, options)]
        for call in sides.calls[role]:
            if call.seconds + CALL_SLACK_S < output.sent.duration_s:
                took = f"the call took {call.seconds:.1f} s"
                complaints.append(
                    f"{side[role]}: {took} but its run {output.sent.duration_s:.1f} s"
                )
    if len(outputs) == 2:
        complaints += _disagreements(outputs["client"], outputs["server"], side)
    simulated = any(output.simulated for output in outputs.values())
    if complaints:
        return dataclasses.replace(Reading.refused("; ".join(complaints)), simulated=simulated)
    sender = outputs["client"]
    measured = outputs.get("server", sender)
    seen: dict[str, Any] = {
        "streams": measured.stream_count,
        "duration_s": measured.received.duration_s,
        "version": measured.version,
    }
    if measured.mss_bytes is not None:
        seen["mss_bytes"] = measured.mss_bytes
    if sender.congestion is not None:
        seen["congestion"] = sender.congestion
    missing = [
        what
        for what, given in (
            ("the exit codes of both sides", bool(calls)),
            ("the server's output", server is not None),
            ("the options", options is not None),
        )
        if not given
    ]
    reason = (
        f"{measured.stream_count} stream(s) over {measured.received.duration_s:.1f} s to their "
        f"end, {measured.received.transferred_bytes} bytes received"
    )
    if missing:
        reason += "; not known: " + ", ".join(missing)
    # The sender's document exists only after the server's results: without it nothing is proved.
    proved = sender.role == "client"
    return Reading(
        True,
        reason,
        Completeness.PROVED if proved else Completeness.UNKNOWN,
        _measurements(measured, sender, sides.nodes, options, simulated),
        seen,
        simulated,
        (Moved(measured.received.transferred_bytes, measured.received.duration_s),),
    )


def _complaints(output: Output, options: Options | None) -> list[str]:
    complaints = []
    still = sum(stream.transferred_bytes == 0 for stream in output.streams)
    if still:
        complaints.append(f"{still} of {output.stream_count} streams moved nothing")
    if options is None:
        return complaints
    if output.stream_count != options.streams:
        complaints.append(f"{output.stream_count} streams, expected {options.streams}")
    if output.duration_s != options.duration_s:
        asked = f"{output.duration_s:g} s asked for"
        complaints.append(f"{asked}, expected {options.duration_s} s")
    least = _SHORT * options.duration_s - 0.25
    most = _LONG * options.duration_s + _EDGE_S + options.drain_s
    for what, row in (("received", output.received), ("sent", output.sent)):
        if what == "sent" and output.role == "server":
            continue
        if not least <= row.duration_s <= most:
            ran = f"{what} for {row.duration_s:.4g} s"
            complaints.append(f"{ran}, expected {least:g} to {most:g} s")
    wanted = options.congestion if output.role == "client" else None
    if wanted is not None and output.congestion != wanted:
        shown = output.congestion or "no congestion control shown"
        complaints.append(f"{shown}, expected {wanted}")
    return complaints


def _disagreements(sent: Output, received: Output, side: Mapping[str, str]) -> list[str]:
    both = f"{side['client']} and {side['server']}"
    complaints = []
    if None in (sent.cookie, received.cookie) or sent.cookie != received.cookie:
        complaints.append(f"{both}: not the same run, by their cookies")
    if sent.stream_count != received.stream_count:
        counts = f"{sent.stream_count} and {received.stream_count} streams"
        complaints.append(f"{both}: {counts}")
    told, own = sent.received.transferred_bytes, received.received.transferred_bytes
    if abs(told - own) > _SLACK * own:
        complaints.append(f"{both}: {told} bytes received by one, {own} by the other")
    return complaints


def _measurements(
    measured: Output,
    sender: Output,
    nodes: tuple[str, ...],
    options: Options | None,
    simulated: bool,
) -> tuple[Measurement, ...]:
    received = measured.received
    metrics: dict[str, float] = {
        "bandwidth": received.transferred_bytes * 8e-9 / received.duration_s,
        "stream_bandwidth_min": min(s.bandwidth_gbits_s for s in measured.streams),
    }
    if sender.role == "client" and sender.sent.retransmits is not None:
        metrics["retransmits"] = sender.sent.retransmits
    return tuple(
        Measurement(
            metric,
            value,
            TOOL,
            "tcp",
            "tcp",
            streams=measured.stream_count,
            nodes=nodes,
            window_bytes=options.window_bytes if options else None,
            congestion=options.congestion if options else None,
            simulated=simulated,
        )
        for metric, value in metrics.items()
    )
