"""iperf3: TCP bandwidth of parallel streams between two nodes, by its JSON.

iperf3 writes one JSON document when it ends: whatever is cut from it is no JSON any more, and an
error stands in it. But a document without an error may still say that nothing arrived, and a
client's own rate is of what it handed to its kernel. So `read` takes what the server received, and
believes a document only where its totals, its intervals, the time that was asked for and both ends
agree. What a run omits at its start (-O) is in no total.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Completeness, Moved, ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, identifier, integer, of_sides
from railgauge.tools.common.changes import Change
from railgauge.tools.common.documents import Count, Number, Part, document, validated
from railgauge.tools.common.lines import LABELS, STDERR, numbered, quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.sides import collect
from railgauge.tools.common.tcp import Row, TcpOptions
from railgauge.tools.iperf3_ends import ends

TOOL = "iperf3"

#: The Spack packages that it needs, with the programs that each brings.
PACKAGES = {TOOL: ("iperf3",)}

Role = Literal["client", "server"]


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options(TcpOptions):
    """The settings of one TCP run from client to server, with its window on both sides; ValueError
    where it cannot be run.
    """

    def __post_init__(self) -> None:
        self.require_tcp(TOOL, most_streams=128)


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
    return argv


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Output:
    """The document of one side of one TCP run."""

    role: Role
    version: str
    #: by which both sides name their run
    cookie: str | None
    stream_count: int
    #: requested: a time, or an amount; 0 where it is not what ends the run
    duration_s: float
    requested_bytes: int
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
# 3.12 writes them into `start` once for every stream, and every server of 3.9 and later the rate
# of -b twice (iperf_api.c); they are not read.
_BUFFERS = {"sock_bufsize", "sndbuf_actual", "rcvbuf_actual", "target_bitrate"}
_EVENT = re.compile(r'\s*\{\s*"event"\s*:')


class _Moved(Part):
    bytes: Count


class _Span(_Moved):
    """An interval, or a total."""

    start: Number
    end: Number
    bits_per_second: Number
    retransmits: Any = None
    omitted: Any = False

    def row(self) -> Row:
        count = self.retransmits
        known = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= 10**18
        rate = self.bits_per_second / 1e9
        return Row(self.start, self.end, self.bytes, rate, count if known else None)


class _Stream(Part):
    sender: _Moved
    # The times of a stream's receiver are the sender's in some versions: `end` is its own.
    receiver: _Span


class _End(Part):
    sum_sent: _Span
    sum_received: _Span
    #: of a client what the server got of each stream, and what was handed over for it
    streams: list[_Stream]
    sender_tcp_congestion: Any = None


class _Interval(Part):
    sum: _Span
    streams: list[_Moved]


class _Intervals(Part):
    intervals: list[_Interval] = []


class _Requested(Part):
    protocol: Any = None
    reverse: Any = 0
    bidir: Any = 0
    num_streams: Count
    blksize: Count
    omit: Number = 0.0
    duration: Number = 0.0
    #: an amount (-n, -k); 0 where a time was asked for
    bytes: Number = 0.0
    blocks: Number = 0.0


class _Start(Part):
    test_start: _Requested
    version: str
    connecting_to: Any = None
    accepted_connection: Any = None
    cookie: Any = None
    tcp_mss_default: Any = None
    tcp_mss: Any = None


def parse(text: str) -> Output:
    """Read what one side printed with --json or --json-stream; ParseError for whatever is no whole,
    good run.
    """
    run = _document(text)
    if "error" in run:
        raise ParseError(0, f"the error {quote(run['error'])}", "a run without an error")
    start = validated(_Start, run.get("start"), "start")
    requested = start.test_start
    if requested.protocol != "TCP":
        raise ParseError(0, f"protocol {quote(requested.protocol)}", "TCP")
    for name, value in (("reverse", requested.reverse), ("bidir", requested.bidir)):
        if value not in (0, False):
            raise ParseError(0, f"{name} {quote(value)}", "a run from client to server")
    if run.get("end") == {}:
        raise ParseError(0, "an empty 'end'", "the totals of the run")
    is_client = start.connecting_to is not None
    if is_client == (start.accepted_connection is not None):
        raise ParseError(0, "no side", "start.connecting_to or start.accepted_connection")
    end = validated(_End, run.get("end"), "end")
    sent, received = end.sum_sent.row(), end.sum_received.row()
    _check_totals(end, requested, is_client)
    intervals = _intervals(run)
    own = sent if is_client else received
    _check_intervals(intervals, own, requested.num_streams * requested.blksize)
    mss = start.tcp_mss_default or start.tcp_mss
    congestion = end.sender_tcp_congestion
    return Output(
        "client" if is_client else "server",
        start.version,
        start.cookie if isinstance(start.cookie, str) else None,
        requested.num_streams,
        requested.duration,
        int(requested.bytes or requested.blocks * requested.blksize),
        requested.omit,
        sent,
        received,
        tuple(stream.receiver.row() for stream in end.streams),
        intervals,
        mss if isinstance(mss, int) and not isinstance(mss, bool) else None,
        congestion if isinstance(congestion, str) else None,
        simulated=run.get("simulated", False) is not False or "# SIMULATED" in text,
    )


def _document(text: str) -> dict[str, Any]:
    """The one document in a text, which a recorder may have labelled and put comments before."""
    lines = []
    for number, line in numbered(text):
        if line.startswith(STDERR):
            if "error" in line.lower() or "unable" in line.lower():
                raise ParseError(number, quote(line.removeprefix(STDERR)), "no error message")
            line = ""
        line = LABELS.sub("", line.rstrip("\r"))
        lines.append("" if line.startswith("#") else line)
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise ParseError(0, "nothing", "one JSON document of iperf3 --json")
    if not lines[first].lstrip().startswith("{"):
        raise ParseError(first + 1, quote(lines[first]), "one JSON document: iperf3 --json")
    if _EVENT.match(lines[first]):
        return _of_events(lines)
    return document("\n".join(lines), repeated=_BUFFERS)


def _of_events(lines: Sequence[str]) -> dict[str, Any]:
    """The document that the events of --json-stream are the parts of, one a line."""
    run: dict[str, Any] = {"intervals": []}
    for place, line in enumerate(lines):
        if not line.strip():
            continue
        # The empty lines keep its number.
        event = document("\n" * place + line, repeated=_BUFFERS)
        name, data = event.get("event"), event.get("data")
        if "start" not in run and name not in ("start", "error"):
            raise ParseError(place + 1, f"event {quote(name)}", "the event 'start' before it")
        if name in ("start", "end") and name in run:
            raise ParseError(place + 1, f"event {quote(name)} twice", "the events of one run")
        if name == "interval" and "end" in run:
            raise ParseError(place + 1, "an interval after the end", "the events of one run")
        if name == "interval":
            run["intervals"].append(data)
        elif name in ("start", "end", "error"):
            run[name] = data
    if "end" not in run and "error" not in run:
        raise ParseError(len(lines), "no event 'end'", "all events of --json-stream, to its end")
    return run


def _check_totals(end: _End, requested: _Requested, is_client: bool) -> None:
    """Whether the totals are those of the streams, and no more arrived than was sent."""
    if len(end.streams) != requested.num_streams:
        expected = f"the {requested.num_streams} of test_start"
        raise ParseError(0, f"{len(end.streams)} streams at the end", expected)
    for index, stream in enumerate(end.streams):
        _check_span(stream.receiver, f"end.streams[{index}].receiver")
    sent, received = end.sum_sent, end.sum_received
    totals = [("received", received, sum(stream.receiver.bytes for stream in end.streams))]
    _check_span(sent, "end.sum_sent")
    _check_span(received, "end.sum_received")
    # What was sent a server only hears of, or not at all.
    if is_client:
        totals.append(("sent", sent, sum(stream.sender.bytes for stream in end.streams)))
    for name, total, moved in totals:
        if moved != total.bytes:
            problem = f"end.sum_{name} of {total.bytes} bytes"
            raise ParseError(0, problem, f"the {moved} bytes of its streams")
    if received.bytes == 0 or received.end == received.start:
        raise ParseError(0, "nothing received", "bytes that arrived at the server")
    # What was under way when the omitted start ended counts on one side only. A total that held
    # that start, as of other tools' servers, would show more: half of its share.
    omitted, duration = requested.omit, requested.duration
    share = omitted / duration / 2 if duration else 0
    slack = min(max(_SLACK, share), _UNDER_WAY) if omitted else _SLACK
    if is_client and received.bytes > sent.bytes * (1 + slack):
        problem = f"{received.bytes} bytes received"
        raise ParseError(0, problem, f"at most the {sent.bytes} that were sent")


def _check_span(span: _Span, where: str, is_total: bool = True) -> None:
    """Whether it ends after its start and, of a total, its rate is its bytes over its time.

    Intervals end a little after they say.
    """
    seconds, moved = span.end - span.start, span.bytes
    if seconds < 0:
        problem = f"{where} from {span.start:g} to {span.end:g} s"
        raise ParseError(0, problem, "an end after its start")
    wrong = abs(span.bits_per_second * seconds - 8 * moved) > _SLACK * 8 * max(moved, 1)
    if is_total and seconds > 0 and wrong:
        expected = f"{8 * moved / seconds:.6g}, by its bytes and time"
        raise ParseError(0, f"{where}.bits_per_second of {span.bits_per_second:.6g}", expected)


def _intervals(run: Mapping[str, Any]) -> tuple[Row, ...]:
    """The sums of the intervals that count, each of which is that of its streams."""
    rows = []
    for index, interval in enumerate(validated(_Intervals, run).intervals):
        if interval.sum.omitted:
            continue
        _check_span(interval.sum, f"intervals[{index}].sum", is_total=False)
        moved = sum(stream.bytes for stream in interval.streams)
        if moved != interval.sum.bytes:
            problem = f"intervals[{index}].sum of {interval.sum.bytes} bytes"
            raise ParseError(0, problem, f"the {moved} of its streams")
        rows.append(interval.sum.row())
    return tuple(rows)


def _check_intervals(intervals: Sequence[Row], total: Row, block_bytes: int) -> None:
    """Whether the intervals of this side are its total; that of the other side it only heard of.

    Threads may count a block of `block_bytes` on either side of an edge.
    """
    if not intervals:
        return
    clock = intervals[0].start_s
    for index, row in enumerate(intervals):
        if abs(row.start_s - clock) > _EDGE_SHARE * max(row.duration_s, 1):
            problem = (
                f"an interval from {row.start_s:g} s as number {index + 1} of those that count"
            )
            raise ParseError(0, problem, f"one from {clock:g} s")
        clock = row.end_s
    span = clock - intervals[0].start_s
    if abs(span - total.duration_s) > _EDGE_SHARE * max(total.duration_s, 1):
        problem = f"intervals over {span:.4g} s"
        raise ParseError(0, problem, f"the {total.duration_s:.4g} s of the total")
    moved = sum(row.transferred_bytes for row in intervals)
    if abs(moved - total.transferred_bytes) > _SLACK * total.transferred_bytes + 2 * block_bytes:
        problem = f"intervals of {moved} bytes"
        raise ParseError(0, problem, f"the {total.transferred_bytes} of the total")


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
    sides = collect(TOOL, parse, client, server, calls, options)
    names, outputs, complaints = sides.names, sides.outputs, sides.complaints
    for role, output in outputs.items():
        sides.complain_of_role(role, output.role)
        complaints += [f"{names[role]}: {why}" for why in _complaints(output, options)]
        sides.complain_of_time(role, output.sent.duration_s, "its run")
    if len(outputs) == 2:
        complaints += _disagreements(outputs["client"], outputs["server"], names)
    simulated = any(output.simulated for output in outputs.values())
    if complaints:
        return Reading.refused("; ".join(complaints), simulated=simulated)
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
    reason = (
        f"{measured.stream_count} stream(s) over {measured.received.duration_s:.1f} s to their "
        f"end, {measured.received.transferred_bytes} bytes received"
    )
    # A whole document is a proof by itself: it exists only after the end of the run.
    if sides.missing:
        reason += "; not known: " + ", ".join(sides.missing)
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
    if not sender.duration_s and not sender.requested_bytes:
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
    if output.role == "client" and own.transferred_bytes < output.requested_bytes * (1 - _SLACK):
        moved = f"{own.transferred_bytes} bytes sent"
        complaints.append(f"{moved}, {output.requested_bytes} were asked for")
    if options is None:
        return complaints
    if output.requested_bytes or output.omitted_s:
        what = (
            f"{output.requested_bytes} bytes"
            if output.requested_bytes
            else f"-O {output.omitted_s:g}"
        )
        complaints.append(f"{what} asked for, expected a time that counts from its start")
    if output.stream_count != options.streams:
        complaints.append(f"{output.stream_count} streams, expected {options.streams}")
    if output.duration_s != options.duration_s:
        requested = f"{output.duration_s:g} s asked for"
        complaints.append(f"{requested}, expected {options.duration_s} s")
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
    received_bytes, own_bytes = sent.received.transferred_bytes, received.received.transferred_bytes
    if abs(received_bytes - own_bytes) > _SLACK * own_bytes:
        complaints.append(
            f"{both}: {received_bytes} bytes received by one, {own_bytes} by the other"
        )
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


# ---- by hand -------------------------------------------------------------------------------

_TEXT = "the text of iperf3 is not read: run it with --json"
_MARKS = Marks(
    (
        # It stands first in the document, and in the event that begins a stream of them.
        Mark(
            '"connected"',
            r'(?:\{.*"start".*)?"connected"\s*:\s*\[',
            (r'"start"\s*:\s*\{', r"\{"),
        ),
        Mark("iperf3: error", "iperf3: error ", weak=True),
        Mark("Connecting to host ", r"Connecting to host \S+, port ", unread=_TEXT),
        Mark("Server listening on ", r"Server listening on [0-9]+", unread=_TEXT),
    ),
    end=re.compile(r'\}\s*|\{"start".*\}\s*|\{\s*"event"\s*:\s*"end".*'),
)

BY_HAND = ByHand(
    ("what the client printed with --json", "what the server printed with --json"),
    "A whole document without an error proves that the run came to its end. A server's document "
    "alone does not prove what was sent. All of it is `proved` by both files, both exit codes, and "
    "what was expected: streams and duration_s.",
    {"streams": integer, "duration_s": integer, "congestion": identifier},
    Options,
    of_sides(TOOL, read),
    example=("streams=4", "duration_s=5"),
    needed=("streams", "duration_s"),
    exit_codes=2,
    marks=_MARKS,
    ends=ends,
    changes=(Change((3, 16), "runs each stream in a thread of its own"),),
)
