"""What one side of iperf3 printed: a document, or its text.

The text has three digits of each number and does not say what was asked for. Its last lines are the
totals of each stream; a run that was interrupted prints them, too, and says so in another line.

Formats: iperf 3.12, 3.18 and 3.22, with outputs in tests/data/iperf3; the lines of earlier
versions without `[Role]` and with `Bandwidth` for `Bitrate` are the same.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence

from railgauge.tools import ParseError
from railgauge.tools.common.lines import LABELS, STDERR, numbered, plain, quote
from railgauge.tools.common.tcp import Row
from railgauge.tools.iperf3.document import parse_json
from railgauge.tools.iperf3.result import Flow, Output, Role

CONNECTING = re.compile(r"Connecting to host \S+, port [0-9]{1,5}")
ACCEPTED = re.compile(r"Accepted connection from \S+, port [0-9]{1,5}")
_REVERSE = re.compile(r"Reverse mode, remote host \S+ is sending")
_CONNECTED = re.compile(
    r"\[ *([0-9]{1,9})\] local \S+ port [0-9]{1,5} connected to \S+ port [0-9]{1,5}"
)
_HEADER = re.compile(r"\[ ID\](\[Role\])? Interval +Transfer +(?:Bitrate|Bandwidth)\b(.*)")
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,6})?"
_ROW = re.compile(
    rf"\[ *(?P<id>[0-9]{{1,9}}|SUM)\](?:\[(?P<role>[TR]X-[CS])\])? +(?P<start>{_NUMBER})-"
    rf"(?P<end>{_NUMBER}) +sec +(?P<amount>{_NUMBER}) (?P<scale>[KMGT]?)Bytes +"
    rf"(?P<rate>{_NUMBER}) (?P<rate_scale>[KMGT]?)(?P<unit>bits|Bytes)/sec(?P<rest>.*)"
)
_DATAGRAMS = re.compile(rf" +{_NUMBER} ms +(-?[0-9]{{1,15}})/([0-9]{{1,15}}) \(\S+\)")
_RETRANSMITS = re.compile(r" +([0-9]{1,15})(?: |$)")
_END = re.compile(r"\b(sender|receiver)\s*$")
_FAILED = re.compile(
    r"iperf3?: (?:error\b|interrupt\b|the (?:client|server) has terminated).*"
    r"|.*\bunable to (?:connect|send|receive|start|listen)\b.*",
    re.IGNORECASE,
)
_DONE = "iperf Done."
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_RATES = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
#: Half a unit of what is printed with two digits behind the point, and what timers add.
_EDGE_S = 0.06
#: What three digits leave open, of the sum and of each stream.
_ROUNDED = 0.011


def parse(text: str) -> Output:
    """Read what one side printed, as JSON or as text; ParseError for whatever is no whole run."""
    first = next((line for _, line in numbered(text) if _body(line)), "")
    if _body(first).startswith(("{", "[ ", "[\t")) and not _ROW.match(_body(first)):
        return parse_json(text)
    if not any(
        CONNECTING.fullmatch(_body(line)) or ACCEPTED.fullmatch(_body(line)) or _said(line)
        for _, line in numbered(text)
    ):
        return parse_json(text)
    return _Text(text).output()


def _body(line: str) -> str:
    """A line without labels, comments of a recorder, and blanks."""
    body = LABELS.sub("", plain(line)[0])
    return "" if body.startswith("#") else body


def _said(line: str) -> bool:
    return bool(_FAILED.match(_body(line)))


@dataclasses.dataclass(frozen=True)
class _Line:
    """A row of the text."""

    number: int
    stream: str
    #: of --bidir: TX-C, RX-C, TX-S, RX-S
    role: str
    row: Row
    #: sender or receiver, in the totals
    end: str
    omitted: bool
    lost: int | None


class _Text:
    """The lines of one text, sorted."""

    def __init__(self, text: str) -> None:
        self.role: Role | None = None
        self.reverse = False
        self.done = False
        self.udp = False
        self.streams: list[str] = []
        self.intervals: list[_Line] = []
        self.totals: list[_Line] = []
        self.omitted = False
        self.simulated = "# SIMULATED" in text
        lines = numbered(text)
        for number, line in lines:
            if _said(line):
                raise ParseError(number, quote(line.removeprefix(STDERR)), "no error message")
        for number, line in lines[:-1]:
            self._take(number, _body(line))
        # A row that lacks its newline may lack more, and is none.
        self.lines = len(lines) - 1

    def _take(self, number: int, line: str) -> None:
        begins = CONNECTING.search(line) or ACCEPTED.search(line)
        if begins:
            # It may also follow half of another output's line.
            if self.role is not None or begins[0] != line:
                raise ParseError(number, f"a second run: {quote(line)}", "the output of one run")
            self.role = "client" if CONNECTING.match(line) else "server"
        elif _REVERSE.fullmatch(line):
            self.reverse = True
        elif match := _CONNECTED.fullmatch(line):
            self.streams.append(match[1])
        elif match := _HEADER.match(line):
            self.udp |= "Datagrams" in match[2]
        elif line == _DONE:
            if self.role != "client":
                raise ParseError(number, quote(line), "it of a client alone")
            self.done = True
        elif match := _ROW.match(line):
            self._take_row(number, match)
        elif line.startswith("[") and " sec " in line:
            raise ParseError(number, quote(line), "a row: [ID] interval, transfer, bitrate")

    def _take_row(self, number: int, match: re.Match[str]) -> None:
        if self.role is None:
            raise ParseError(number, quote(match[0]), "'Connecting to' or 'Accepted' above it")
        if self.done:
            raise ParseError(number, "a row below the end", f"nothing below {_DONE!r}")
        rate = float(match["rate"]) * _RATES[match["rate_scale"]]
        if match["unit"] == "Bytes":
            rate *= 8 * (_SIZES[match["rate_scale"]] * 1e-9) / _RATES[match["rate_scale"]]
        start, end = float(match["start"]), float(match["end"])
        if end < start:
            raise ParseError(number, quote(match[0]), "an end after its start")
        datagrams = _DATAGRAMS.match(match["rest"])
        retransmits = None if self.udp else _RETRANSMITS.match(match["rest"])
        amount = round(float(match["amount"]) * _SIZES[match["scale"]])
        row = Row(start, end, amount, rate, int(retransmits[1]) if retransmits else None)
        ending = _END.search(match["rest"])
        line = _Line(
            *(number, match["id"], match["role"] or "", row, ending[1] if ending else ""),
            "(omitted)" in match["rest"],
            int(datagrams[1]) if datagrams else None,
        )
        self.omitted |= line.omitted
        if line.end:
            self.totals.append(line)
        elif self.totals:
            raise ParseError(number, "an interval below the totals", "the output of one run")
        elif not line.omitted:
            self.intervals.append(line)

    # ---- what it comes to ----

    def output(self) -> Output:
        if self.role is None:
            raise ParseError(0, "no line of a connection", "'Connecting to' or 'Accepted'")
        if not self.streams:
            raise ParseError(self.lines, "no stream that connected", "the output of a run")
        if not self.totals:
            raise ParseError(
                self.lines, "no totals: the output breaks off", "totals of each stream"
            )
        if self.role == "client" and not self.done:
            raise ParseError(self.lines, f"no line {_DONE!r}", "it, as at the end of each run")
        flows = tuple(self._flows())
        lost = [line.lost for line in self.totals if line.lost and line.end == "receiver"]
        return Output(
            self.role,
            *("", None, "UDP" if self.udp else "TCP"),
            len(self.streams) // len(flows),
            None,
            requested_bytes=0,
            omitted_s=0.0,
            flows=flows,
            lost=lost[-1] if lost else None,
            simulated=self.simulated,
        )

    def _flows(self) -> Iterator[Flow]:
        roles = list(dict.fromkeys(line.role for line in self.totals))
        if roles != [""] and len(roles) != 2:
            raise ParseError(self.lines, f"totals of {', '.join(roles)}", "both directions")
        for role in roles:
            # A client that sends, or a server that receives, is of the first direction. Of a server
            # only its totals count.
            if role:
                reverse = role in ("RX-C", "TX-S")
            elif self.role == "server":
                reverse = all(line.end == "sender" for line in self.totals)
            else:
                reverse = self.reverse
            yield self._flow(role, reverse, len(self.streams) // len(roles))

    def _flow(self, role: str, reverse: bool, count: int) -> Flow:
        sends = (self.role == "client") != reverse
        totals = {
            end: [line for line in self.totals if line.role == role and line.end == end]
            for end in ("sender", "receiver")
        }
        needed = (
            ("sender", "receiver")
            if self.role == "client"
            else (("sender",) if sends else ("receiver",))
        )
        rows: dict[str, tuple[Row, list[Row]]] = {}
        for end in needed:
            rows[end] = self._total(totals[end], count, f"{role} {end}".strip())
        received, sent = rows.get("receiver"), rows.get("sender")
        if received and (not received[0].transferred_bytes or not received[0].duration_s):
            raise ParseError(self.lines, "nothing received", "bytes that arrived at the receiver")
        if (
            sent
            and received
            and received[0].transferred_bytes > sent[0].transferred_bytes * (1 + 2 * _ROUNDED)
        ):
            found = f"{received[0].transferred_bytes} bytes received"
            raise ParseError(
                self.lines, found, f"at most the {sent[0].transferred_bytes} that were sent"
            )
        own = (sent if sends else received) or received
        assert own is not None, "every side has totals of what it did"
        intervals = self._intervals(role, count)
        self._check_intervals(intervals, own[0])
        best = received or sent
        return Flow(
            reverse,
            sent[0] if sent else None,
            received[0] if received else None,
            tuple(best[1]) if best else (),
            tuple(intervals),
        )

    def _total(self, lines: Sequence[_Line], count: int, what: str) -> tuple[Row, list[Row]]:
        """The sum of one direction at one end, and the rows of its streams."""
        streams = [line for line in lines if line.stream != "SUM"]
        sums = [line for line in lines if line.stream == "SUM"]
        names = [line.stream for line in streams]
        if len(streams) != count or len(set(names)) != count or not set(names) <= {*self.streams}:
            found = f"totals of {len(set(names))} streams ({what})"
            raise ParseError(self.lines, found, f"those of the {count} that connected")
        if len(sums) != (count > 1):
            raise ParseError(self.lines, f"{len(sums)} sums ({what})", f"{int(count > 1)}")
        for line in [*streams, *sums]:
            _check_rate(line)
        total = sums[0] if sums else streams[0]
        moved = sum(line.row.transferred_bytes for line in streams)
        if abs(moved - total.row.transferred_bytes) > _ROUNDED * max(moved, 1) + count:
            found = f"a sum of {total.row.transferred_bytes} bytes"
            raise ParseError(total.number, found, f"the {moved} of its streams")
        return total.row, [line.row for line in streams]

    def _intervals(self, role: str, count: int) -> list[Row]:
        wanted = "SUM" if count > 1 else None
        lines = [
            line
            for line in self.intervals
            if line.role == role and (line.stream == "SUM") == (wanted is not None)
        ]
        return [line.row for line in lines]

    def _check_intervals(self, intervals: Sequence[Row], total: Row) -> None:
        """Whether the intervals follow each other and are the total of this side. A side that the
        other one left prints its last interval twice.
        """
        if not intervals:
            return
        for one, other in itertools.pairwise(intervals):
            if abs(other.start_s - one.end_s) > _EDGE_S:
                found = f"an interval from {other.start_s:g} s"
                raise ParseError(self.lines, found, f"one from {one.end_s:g} s: was it broken off?")
        span = intervals[-1].end_s - intervals[0].start_s
        if abs(span - total.duration_s) > 0.1 * max(total.duration_s, 1):
            found = f"intervals over {span:.4g} s"
            raise ParseError(self.lines, found, f"the {total.duration_s:.4g} s of the total")
        moved = sum(row.transferred_bytes for row in intervals)
        if abs(moved - total.transferred_bytes) > 2 * _ROUNDED * total.transferred_bytes + 2**20:
            found = f"intervals of {moved} bytes"
            raise ParseError(self.lines, found, f"the {total.transferred_bytes} of the total")


def _check_rate(line: _Line) -> None:
    """Whether a total's rate is its bytes over its time, as far as its digits go."""
    row = line.row
    if not row.duration_s:
        return
    rate = row.transferred_bytes * 8e-9 / row.duration_s
    # Of a short time two digits are few; a rate in gigabits of a slow run has few, too.
    slack = _ROUNDED + 0.01 / row.duration_s
    if abs(rate - row.bandwidth_gbits_s) > slack * max(rate, row.bandwidth_gbits_s) + 0.006:
        found = f"{row.bandwidth_gbits_s:.4g} Gb/s"
        raise ParseError(line.number, found, f"{rate:.4g}, by its bytes and time")
