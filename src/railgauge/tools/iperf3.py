"""iperf3: TCP bandwidth of parallel streams between two nodes, by its JSON.

iperf3 writes one JSON document when it ends: whatever is cut from it is no JSON any more, and an
error stands in it. But a document without an error may still say that nothing arrived, and a
client's own rate is of what it handed to its kernel. So `read` takes what the server received, and
believes a document only where its totals, its intervals, the time that was asked for and both ends
agree. What a run omits at its start (-O) is in no total.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.measurement import Measurement
from railgauge.tools import Call, Completeness, Moved, ParseError, Reading
from railgauge.tools.common.sides import CALL_SLACK_S, collect

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
    #: asked for: a time, or an amount; 0 where it is not what ends the run
    duration_s: float
    asked_bytes: int
    #: run before the duration, and in no total (-O)
    omitted_s: float
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
# How much more may arrive than was sent, where both count only after an omitted start.
_UNDER_WAY = 0.1
# Timers fire late, and a run ends between two intervals.
_EDGE_SHARE = 0.1
_RECORDER = re.compile(r"^(?:\s*[0-9]{1,6}: )+")
_STDERR = "STDERR: "
# 3.12 writes them into `start` once for every stream; they are not read.
_BUFFERS = {"sock_bufsize", "sndbuf_actual", "rcvbuf_actual"}


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
    for name in ("reverse", "bidir"):
        if asked.get(name, 0) not in (0, False):
            raise ParseError(0, f"{name} {_quote(asked[name])}", "a run from client to server")
    if not end:
        raise ParseError(0, "an empty 'end'", "the totals of the run")
    is_client = "connecting_to" in start
    if is_client == ("accepted_connection" in start):
        raise ParseError(0, "no side", "start.connecting_to or start.accepted_connection")
    streams, handed_over = _streams(end)
    sent = _row(_object(end, "sum_sent", "end"), "end.sum_sent")
    received = _row(_object(end, "sum_received", "end"), "end.sum_received")
    count = _integer(asked, "num_streams", "start.test_start")
    if len(streams) != count:
        raise ParseError(0, f"{len(streams)} streams at the end", f"the {count} of test_start")
    moved = sum(stream.transferred_bytes for stream in streams)
    # What was sent a server only hears of, or not at all.
    sides = [("received", received, moved), *([("sent", sent, handed_over)] if is_client else [])]
    for name, total, parts in sides:
        if parts != total.transferred_bytes:
            found = f"end.sum_{name} of {total.transferred_bytes} bytes"
            raise ParseError(0, found, f"the {parts} bytes of its streams")
    if received.transferred_bytes <= 0 or received.duration_s <= 0:
        raise ParseError(0, "nothing received", "bytes that arrived at the server")
    omitted, duration = (_amount(asked, name) for name in ("omit", "duration"))
    # What was under way when the omitted start ended counts on one side only. A total that held
    # that start, as of other tools' servers, would show more: half of its share.
    share = omitted / duration / 2 if duration else 0
    slack = min(max(_SLACK, share), _UNDER_WAY) if omitted else _SLACK
    if is_client and received.transferred_bytes > sent.transferred_bytes * (1 + slack):
        found = f"{received.transferred_bytes} bytes received"
        raise ParseError(0, found, f"at most the {sent.transferred_bytes} that were sent")
    mss = start.get("tcp_mss_default") or start.get("tcp_mss")
    version = start.get("version")
    if not isinstance(version, str):
        raise ParseError(0, f"version {_quote(version)}", "start.version")
    intervals = _intervals(document)
    own = sent if is_client else received
    _check_intervals(intervals, own, count * _integer(asked, "blksize", "start.test_start"))
    cookie, congestion = start.get("cookie"), end.get("sender_tcp_congestion")
    return Output(
        "client" if is_client else "server",
        version,
        cookie if isinstance(cookie, str) else None,
        count,
        duration,
        _asked_bytes(asked),
        omitted,
        sent,
        received,
        streams,
        intervals,
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
        document = json.loads(body, object_pairs_hook=_once)
    except ParseError:
        raise
    except (ValueError, RecursionError) as error:
        where, why = getattr(error, "lineno", 0), getattr(error, "msg", str(error))
        raise ParseError(where, f"no whole JSON ({why})", "one document, to its end") from None
    if not isinstance(document, dict):
        raise ParseError(0, _quote(document), "one JSON object")
    if "event" in document:
        raise ParseError(0, "an event of --json-stream", "one document of --json")
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a key that is there twice nobody knows which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        twice = [name for name, count in counted.items() if count > 1 and name not in _BUFFERS]
        if twice:
            raise ParseError(0, f"the key {_quote(twice[0])} twice in one object", "every key once")
    return found


def _streams(end: Mapping[str, Any]) -> tuple[tuple[Row, ...], int]:
    """What the server got of each stream, and the bytes that the client handed over for them."""
    rows = end.get("streams")
    if not isinstance(rows, list) or not rows:
        raise ParseError(0, f"end.streams {_quote(rows)}", "the streams of the run")
    found, handed_over = [], 0
    for index, stream in enumerate(rows):
        where = f"end.streams[{index}]"
        if not isinstance(stream, dict):
            raise ParseError(0, f"{where} {_quote(stream)}", "an object")
        # The times of a stream's receiver are the sender's in some versions: `end` is its own.
        found.append(_row(_object(stream, "receiver", where), f"{where}.receiver"))
        handed_over += _integer(_object(stream, "sender", where), "bytes", f"{where}.sender")
    return tuple(found), handed_over


def _intervals(document: Mapping[str, Any]) -> tuple[Row, ...]:
    entries = document.get("intervals", [])
    if not isinstance(entries, list):
        raise ParseError(0, f"intervals {_quote(entries)}", "a list")
    found = []
    for index, entry in enumerate(entries):
        where = f"intervals[{index}]"
        total = _object(entry if isinstance(entry, dict) else {}, "sum", where)
        if not total.get("omitted"):
            row = _row(total, f"{where}.sum")
            streams = entry.get("streams")
            if not isinstance(streams, list) or not all(isinstance(s, dict) for s in streams):
                raise ParseError(0, f"{where}.streams {_quote(streams)}", "a list of objects")
            moved = sum(_integer(stream, "bytes", f"{where}.streams") for stream in streams)
            if moved != row.transferred_bytes:
                count = row.transferred_bytes
                raise ParseError(0, f"{where}.sum of {count} bytes", f"the {moved} of its streams")
            found.append(row)
    return tuple(found)


def _check_intervals(intervals: Sequence[Row], total: Row, block_bytes: int) -> None:
    """Whether the intervals of this side are its total; that of the other side it only heard of.

    Threads may count a block of `block_bytes` on either side of an edge.
    """
    if not intervals:
        return
    clock = intervals[0].start_s
    for index, row in enumerate(intervals):
        if abs(row.start_s - clock) > _EDGE_SHARE * max(row.duration_s, 1):
            found = f"an interval from {row.start_s:g} s as number {index + 1} of those that count"
            raise ParseError(0, found, f"one from {clock:g} s")
        clock = row.end_s
    span = clock - intervals[0].start_s
    if abs(span - total.duration_s) > _EDGE_SHARE * max(total.duration_s, 1):
        found = f"intervals over {span:.4g} s"
        raise ParseError(0, found, f"the {total.duration_s:.4g} s of the total")
    moved = sum(row.transferred_bytes for row in intervals)
    if abs(moved - total.transferred_bytes) > _SLACK * total.transferred_bytes + 2 * block_bytes:
        found = f"intervals of {moved} bytes"
        raise ParseError(0, found, f"the {total.transferred_bytes} of the total")


def _amount(fields: Mapping[str, Any], name: str) -> float:
    """A number of `test_start`; 0 where this version has none."""
    return _real(fields, name, "start.test_start") if name in fields else 0.0


def _asked_bytes(fields: Mapping[str, Any]) -> int:
    """The amount that was asked for (-n, -k); 0 where a time was."""
    return int(_amount(fields, "bytes") or _amount(fields, "blocks") * _amount(fields, "blksize"))


def _row(fields: Mapping[str, Any], where: str) -> Row:
    start, end = _real(fields, "start", where), _real(fields, "end", where)
    moved = _integer(fields, "bytes", where)
    rate = _real(fields, "bits_per_second", where)
    if end < start:
        raise ParseError(0, f"{where} from {start:g} to {end:g} s", "an end after its start")
    # Intervals end a little after they say; a total is over its own time.
    if (
        end > start
        and where.startswith("end.")
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
# What a client alone says to have sent more than arrived, where it may still be in buffers.
_LOST, _BUFFER_BYTES = 0.1, 8 * 2**20


def read(
    client: str,
    *,
    server: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judges all that is known of one run; never raises for what a tool or a job wrote.

    A client's whole document proves that the run came to its end, where its totals, intervals and
    duration are there and agree, and nearly all that it sent has arrived; the server's document
    proves the latter too. Evidence that contradicts it refuses; without exit codes, the server's
    document and the options the reading says that they were not there.
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
    doubts = _doubts(outputs)
    if doubts:
        reason += "; not proved: " + ", ".join(doubts)
    return Reading(
        True,
        reason,
        Completeness.UNKNOWN if doubts else Completeness.PROVED,
        _measurements(measured, sender, sides.nodes, options, simulated),
        seen,
        simulated,
        moved=(Moved(measured.received.transferred_bytes, measured.received.duration_s),),
    )


def _doubts(outputs: Mapping[str, Output]) -> list[str]:
    """What keeps documents without a contradiction from being a proof."""
    sender = outputs["client"]
    doubts = []
    # The sender's document exists only after the server's results.
    if sender.role != "client":
        doubts.append("a server's document alone does not say what was sent")
    if not all(output.intervals for output in outputs.values()):
        doubts.append("no interval to compare the total with")
    if not sender.duration_s and not sender.asked_bytes:
        doubts.append("neither a time nor an amount was asked for")
    left = sender.sent.transferred_bytes - sender.received.transferred_bytes
    buffered = sender.stream_count * _BUFFER_BYTES
    if "server" not in outputs and left > _LOST * sender.sent.transferred_bytes + buffered:
        doubts.append(f"{left} of {sender.sent.transferred_bytes} bytes sent did not arrive")
    return doubts


def _complaints(output: Output, options: Options | None) -> list[str]:
    complaints = []
    still = sum(stream.transferred_bytes == 0 for stream in output.streams)
    if still:
        complaints.append(f"{still} of {output.stream_count} streams moved nothing")
    own = output.sent if output.role == "client" else output.received
    if options is None and own.duration_s < _SHORT * output.duration_s - 0.25:
        ran = f"it ran for {own.duration_s:.4g} s"
        complaints.append(f"{ran}, {output.duration_s:g} s were asked for")
    if output.role == "client" and own.transferred_bytes < output.asked_bytes * (1 - _SLACK):
        moved = f"{own.transferred_bytes} bytes sent"
        complaints.append(f"{moved}, {output.asked_bytes} were asked for")
    if options is None:
        return complaints
    if output.asked_bytes or output.omitted_s:
        what = f"{output.asked_bytes} bytes" if output.asked_bytes else f"-O {output.omitted_s:g}"
        complaints.append(f"{what} asked for, expected a time that counts from its start")
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
