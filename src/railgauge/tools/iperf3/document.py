"""The JSON that iperf3 prints: with --json one document, with --json-stream one event a line.

A document that is cut is no JSON any more, and an error stands in it. But a document without an
error may still say that nothing arrived, so its totals, intervals and streams must agree. What a
run omits at its start (-O) is in no total.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from railgauge.tools import ParseError
from railgauge.tools.common.documents import Count, Number, Part, decoder, document, validated
from railgauge.tools.common.lines import LABELS, STDERR, numbered, quote
from railgauge.tools.common.tcp import Row
from railgauge.tools.iperf3.result import Flow, Output

# A rate is the bytes over a time that is not printed to the last digit in older versions.
_SLACK = 0.01
# How much more may arrive than was sent, where both count only after an omitted start.
_UNDER_WAY = 0.1
# Timers fire late, and a run ends between two intervals.
_EDGE_SHARE = 0.1
# 3.12 writes them into `start` once for every stream, and every server of 3.9 and later the rate
# of -b twice (iperf_api.c); they are not read.
_BUFFERS = {"sock_bufsize", "sndbuf_actual", "rcvbuf_actual", "target_bitrate"}
_INTERVALS = re.compile(r'"intervals"\s*:\s*\[')
_BETWEEN = re.compile(r"\s*(,|\])?\s*")
#: What stands around the intervals, and one of them, is small; else a document is read as a whole.
_LARGEST_PART = 16 * 2**20
_EVENT = re.compile(r'\s*\{\s*"event"\s*:')


class _Moved(Part):
    bytes: Count


class _Counted(_Moved):
    #: whether the side that printed it sends
    sender: Any = None


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


class _Side(_Span):
    #: whether the side that printed it sends
    sender: Any = None


class _Stream(Part):
    sender: _Side
    # The times of a stream's receiver are the sender's in some versions: `end` is its own.
    receiver: _Side


class _Datagrams(Part):
    udp: _Moved


class _Sums(Part):
    """The totals of one direction."""

    sent: _Span
    received: _Span


class _End(Part):
    sum_sent: _Span
    sum_received: _Span
    sum_sent_bidir_reverse: _Span | None = None
    sum_received_bidir_reverse: _Span | None = None
    #: of a client what the server got of each stream, and what was handed over for it
    streams: list[Any]
    sender_tcp_congestion: Any = None


class _Interval(Part):
    sum: _Span
    sum_bidir_reverse: _Span | None = None
    streams: list[_Counted]


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


def parse_json(text: str) -> Output:
    """Read what one side printed with --json or --json-stream; ParseError for whatever is no whole,
    good run.
    """
    return _output(_document(text), "# SIMULATED" in text)


def _output(run: Mapping[str, Any], simulated: bool = False) -> Output:
    if "error" in run:
        raise ParseError(0, f"the error {quote(run['error'])}", "a run without an error")
    start = validated(_Start, run.get("start"), "start")
    requested = start.test_start
    if requested.protocol not in ("TCP", "UDP"):
        raise ParseError(0, f"protocol {quote(requested.protocol)}", "TCP or UDP")
    for name, value in (("reverse", requested.reverse), ("bidir", requested.bidir)):
        if value not in (0, 1):
            raise ParseError(0, f"{name} {quote(value)}", "0 or 1")
    if run.get("end") == {}:
        raise ParseError(0, "an empty 'end'", "the totals of the run")
    is_client = start.connecting_to is not None
    if is_client == (start.accepted_connection is not None):
        raise ParseError(0, "no side", "start.connecting_to or start.accepted_connection")
    end = validated(_End, run.get("end"), "end")
    flows = tuple(_flows(run, end, requested, is_client))
    mss = start.tcp_mss_default or start.tcp_mss
    congestion = end.sender_tcp_congestion
    return Output(
        "client" if is_client else "server",
        start.version,
        start.cookie if isinstance(start.cookie, str) else None,
        requested.protocol,
        requested.num_streams,
        requested.duration,
        int(requested.bytes or requested.blocks * requested.blksize),
        requested.omit,
        flows,
        mss if isinstance(mss, int) and not isinstance(mss, bool) else None,
        congestion if isinstance(congestion, str) else None,
        _lost(run) if requested.protocol == "UDP" else None,
        simulated=run.get("simulated", False) is not False or simulated,
    )


def _flows(
    run: Mapping[str, Any], end: _End, requested: _Requested, is_client: bool
) -> Iterator[Flow]:
    """The directions of a run, each checked by itself."""
    udp = requested.protocol == "UDP"
    # 3.12 does not say it at the start.
    both = bool(requested.bidir) or end.sum_received_bidir_reverse is not None
    parts = [
        validated(_Datagrams if udp else _Stream, stream, f"end.streams[{place}]")
        for place, stream in enumerate(end.streams)
    ]
    streams = [part for part in parts if isinstance(part, _Stream)]
    expected = requested.num_streams * (2 if both else 1)
    if len(end.streams) != expected:
        raise ParseError(
            0, f"{len(end.streams)} streams at the end", f"the {expected} of test_start"
        )
    rows = _intervals(run, both, is_client)
    for reverse in (False, True) if both else (bool(requested.reverse),):
        sums = _sums(end, both and reverse)
        sends = is_client != reverse
        own = streams
        if both:
            own = [stream for stream in streams if (stream.sender.sender is True) == sends]
        if not udp:
            _check_totals(own, sums, requested, sends, is_client)
        else:
            _check_datagrams(sums, sends)
        known = sums.received.bytes or not sends or is_client
        received = sums.received.row() if known else None
        sent = sums.sent.row() if sends or is_client or not udp else None
        measured = sums.sent.row() if sends else sums.received.row()
        intervals = tuple(each[reverse if both else 0] for each in rows)
        _check_intervals(intervals, measured, requested.num_streams * requested.blksize)
        sides = (s.receiver if received else s.sender for s in own)
        yield Flow(reverse, sent, received, tuple(side.row() for side in sides), intervals)


def _sums(end: _End, second: bool) -> _Sums:
    if not second:
        return _Sums(sent=end.sum_sent, received=end.sum_received)
    sent, received = end.sum_sent_bidir_reverse, end.sum_received_bidir_reverse
    if sent is None or received is None:
        raise ParseError(0, "no end.sum_received_bidir_reverse", "it, as in a whole document")
    return _Sums(sent=sent, received=received)


def _lost(run: Mapping[str, Any]) -> int | None:
    """The datagrams that the receiver missed."""
    count = run["end"].get("sum_received", {}).get("lost_packets")
    known = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= 10**18
    return count if known else None


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


def _of_events(lines: Iterable[str], compact: bool = False) -> dict[str, Any]:
    """The document that the events of --json-stream are the parts of, one a line; with `compact`
    only the sums of the intervals.
    """
    run: dict[str, Any] = {"intervals": []}
    place = -1
    for place, line in enumerate(lines):
        if not line.strip():
            continue
        # The empty lines keep its number.
        event = document(line if compact else "\n" * place + line, repeated=_BUFFERS)
        name, data = event.get("event"), event.get("data")
        if "start" not in run and name not in ("start", "error"):
            raise ParseError(place + 1, f"event {quote(name)}", "the event 'start' before it")
        if name in ("start", "end") and name in run:
            raise ParseError(place + 1, f"event {quote(name)} twice", "the events of one run")
        if name == "interval" and "end" in run:
            raise ParseError(place + 1, "an interval after the end", "the events of one run")
        if name == "interval":
            known = run["intervals"]
            known.append(interval_of(run, data, len(known)) if compact else data)
        elif name in ("start", "end", "error"):
            run[name] = data
    if "end" not in run and "error" not in run:
        raise ParseError(place + 1, "no event 'end'", "all events of --json-stream, to its end")
    return run


def parse_pieces(pieces: Iterable[str]) -> Output | None:
    """The same of a document that comes piece by piece: of its intervals only the sums are kept.
    None where it is no such document, or has more than that around it; then the whole text is read.
    """
    source = iter(pieces)
    text = next(source, "")
    if not text.lstrip().startswith("{") or "SIMULATED" in text:
        return None
    if _EVENT.match(text):
        return _output(_of_events(_lines(text, source), compact=True))
    while not (begins := _INTERVALS.search(text)):
        if len(text) > _LARGEST_PART or not (piece := next(source, "")):
            return None
        text += piece
    run = _part(f"{text[: begins.end()]}]}}")
    if run is None:
        return None
    intervals = _Pieces(text[begins.end() :], source)
    rows = [interval_of(run, part, index) for index, part in enumerate(intervals)]
    below = _part(f'{{"intervals": []{intervals.rest}') if intervals.ended else None
    if below is None or below.keys() & run.keys() != {"intervals"}:
        return None
    return _output({**run, **below, "intervals": rows})


def _part(text: str) -> dict[str, Any] | None:
    try:
        return document(text, repeated=_BUFFERS)
    except ParseError:
        return None


def _lines(text: str, source: Iterator[str]) -> Iterator[str]:
    for piece in source:
        *lines, last = text.split("\n")
        yield from lines
        text = last + piece
    yield from text.split("\n")


class _Pieces:
    """The elements of a JSON list that comes piece by piece; `rest` is what follows it."""

    def __init__(self, text: str, source: Iterator[str]) -> None:
        self.rest = text
        self.ended = False
        self._source = source

    def __iter__(self) -> Iterator[object]:
        decode = decoder(_BUFFERS).raw_decode
        place = 0
        while True:
            between = _BETWEEN.match(self.rest, place)
            place = between.end() if between else place
            if between and between[1] == "]":
                self.rest = self.rest[place:] + "".join(self._source)
                self.ended = True
                return
            try:
                part, place = decode(self.rest, place)
            except (ValueError, RecursionError) as error:
                piece = next(self._source, "")
                large = len(self.rest) - place > _LARGEST_PART
                if isinstance(error, ParseError) or large or not piece:
                    return
                self.rest, place = self.rest[place:] + piece, 0
                continue
            yield part


def interval_of(run: Mapping[str, Any], part: object, index: int) -> _Rows:
    """The sums of one interval of a run that has begun so; () of one that does not count."""
    start = validated(_Start, run.get("start"), "start")
    both = isinstance(part, dict) and "sum_bidir_reverse" in part
    return _interval(part, index, both, start.connecting_to is not None)


def _check_totals(
    streams: Sequence[_Stream],
    sums: _Sums,
    requested: _Requested,
    sends: bool,
    is_client: bool,
) -> None:
    """Whether the totals are those of the streams, and no more arrived than was sent."""
    if len(streams) != requested.num_streams:
        expected = f"the {requested.num_streams} of test_start"
        raise ParseError(0, f"{len(streams)} streams of a direction", expected)
    for index, stream in enumerate(streams):
        _check_span(stream.receiver, f"end.streams[{index}].receiver")
        # Versions before 3.6 do not say it.
        if stream.sender.sender not in (None, sends):
            found = f"end.streams[{index}].sender.sender {quote(stream.sender.sender)}"
            raise ParseError(0, found, "the direction of start.test_start")
    sent, received = sums.sent, sums.received
    totals = [("received", received, sum(stream.receiver.bytes for stream in streams))]
    _check_span(sent, "end.sum_sent")
    _check_span(received, "end.sum_received")
    # What was sent a server only hears of, or not at all.
    if is_client or sends:
        totals.append(("sent", sent, sum(stream.sender.bytes for stream in streams)))
    for name, total, moved in totals:
        if moved != total.bytes:
            problem = f"end.sum_{name} of {total.bytes} bytes"
            raise ParseError(0, problem, f"the {moved} bytes of its streams")
    if is_client or not sends:
        _check_received(received)
    # What was under way when the omitted start ended counts on one side only. A total that held
    # that start, as of other tools' servers, would show more: half of its share.
    omitted, duration = requested.omit, requested.duration
    share = omitted / duration / 2 if duration else 0
    slack = min(max(_SLACK, share), _UNDER_WAY) if omitted else _SLACK
    if is_client and received.bytes > sent.bytes * (1 + slack):
        problem = f"{received.bytes} bytes received"
        raise ParseError(0, problem, f"at most the {sent.bytes} that were sent")


def _check_datagrams(sums: _Sums, sends: bool) -> None:
    """Totals of UDP: a server does not say how much of each stream it got."""
    _check_span(sums.sent, "end.sum_sent")
    _check_span(sums.received, "end.sum_received")
    if sums.received.bytes or not sends:
        _check_received(sums.received)


def _check_received(received: _Span) -> None:
    if received.bytes == 0 or received.end == received.start:
        raise ParseError(0, "nothing received", "bytes that arrived at the receiver")


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


#: The sum of an interval, and with --bidir that of the other direction.
_Rows = tuple[Row, ...]


def _intervals(run: Mapping[str, Any], both: bool, is_client: bool) -> list[_Rows]:
    """The sums of the intervals that count. Each is that of its streams."""
    intervals = run.get("intervals", [])
    if not isinstance(intervals, list):
        raise ParseError(0, f"intervals {quote(intervals)}", "a list")
    rows = []
    for index, interval in enumerate(intervals):
        # One that was read piece by piece is a row already.
        if not isinstance(interval, tuple):
            interval = _interval(interval, index, both, is_client)
        if interval:
            rows.append(interval)
    return rows


def _interval(interval: object, index: int, both: bool, is_client: bool) -> _Rows:
    """() of one that does not count."""
    part = validated(_Interval, interval, f"intervals[{index}]")
    if part.sum.omitted:
        return ()
    sums = [("sum", part.sum, part.streams)]
    if both:
        if part.sum_bidir_reverse is None:
            raise ParseError(0, f"no intervals[{index}].sum_bidir_reverse", "both directions")
        # The first direction is from the client.
        ways = [[s for s in part.streams if (s.sender is True) == w] for w in (True, False)]
        first, second = ways if is_client else reversed(ways)
        sums = [("sum", part.sum, first), ("sum_bidir_reverse", part.sum_bidir_reverse, second)]
    for name, total, streams in sums:
        _check_span(total, f"intervals[{index}].{name}", is_total=False)
        moved = sum(stream.bytes for stream in streams)
        if moved != total.bytes:
            problem = f"intervals[{index}].{name} of {total.bytes} bytes"
            raise ParseError(0, problem, f"the {moved} of its streams")
    return tuple(total.row() for _, total, _ in sums)


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
