"""What iperf2 prints, as text or csv (-y C), as the totals of one run."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from railgauge.tools import ParseError
from railgauge.tools.common.lines import DIED, LABELS, numbered, quote, searched
from railgauge.tools.common.numbers import Shown
from railgauge.tools.iperf2 import runs
from railgauge.tools.iperf2.directions import CONNECTED, apart
from railgauge.tools.iperf2.result import (
    BYTES_SLACK,
    SLACK,
    SUM_SHORTER,
    Bounceback,
    Clock,
    Output,
    Role,
    Stall,
    Stream,
)

# The sum's clock runs on for streams that started late; never so long.
_SUM_LONGEST = 2
# A run that ends between two intervals prints the rest as a row; only a shorter tail has none.
_TAIL = 0.9

# Which stream a connection is, and when a side came to it.
_CONNECTION = re.compile(
    r"\[\s*(?P<id>[0-9]{1,9})\]\s.* on (?P<time>[0-9-]{10} [0-9:]{8}\.[0-9]{3}) \("
)

_ID = re.compile(r"\[\s*([0-9]{1,9})\]")
_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,9})?"
_ROW = re.compile(
    rf"\[\s*(?P<id>[^\]\s]{{1,40}})\]\s+(?P<start>{_NUMBER})\s?-\s*(?P<end>{_NUMBER})\s+sec\s+"
    rf"(?P<bytes>{_NUMBER})\s+(?P<bytes_unit>[KMGT]?)Bytes\s+"
    rf"(?P<rate>{_NUMBER})\s+(?P<rate_unit>[KMGT]?)(?P<rate_of>bits|Bytes)/sec(?:\s+(?P<rest>.*))?"
)
# What starts like a row; a histogram, a note on datagrams or clocks goes on with a word.
_ROW_LIKE = re.compile(
    r"\[\s*(?:\*?[0-9]+|SUM[^\]\s]*|FD[0-9]+)\]\s+\S{0,40}[0-9]\s?-\s*[-0-9a-z.]{1,40}"
    r"\s+sec\s+(?![0-9]+ +datagrams)(?:[-+.0-9]|nan|inf)",
    re.IGNORECASE,
)
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_HEADER = re.compile(r"\[\s*(?P<kind>ID|SUM-cnt)\]\s+Interval\s.*?Bandwidth(?P<columns>.*)")
_SUM_ID = re.compile(r"SUM(?:-([0-9]{1,9}))?")
_BANNER = re.compile(r"(?P<role>Client connecting to|Server listening on) .*\b(?P<net>TCP|UDP)\b")
_MSS = re.compile(r"icwnd/mss/irtt=[0-9]+/([0-9]{1,9})/|^MSS size ([0-9]{1,9}) bytes")
_CONGESTION = re.compile(r"TCP congestion control (?:set to (\S+?))?\s*(?:using (\S+))?\s*$")
_CONGESTION_SUFFIX = re.compile(
    r"\((bbr[0-9]?|bic|cdg|cubic|dctcp|highspeed|htcp|hybla|illinois|lp|nv|prague|reno|scalable|"
    r"vegas|veno|westwood|yeah)\)"
)
_WINDOW = re.compile(rf"TCP window size:\s+({_NUMBER})\s+([KMGT]?)Byte")
_CONNECT_ERRORS = re.compile(r"\(tot/err\) = [0-9]+/0*[1-9]")
_BOUNCEBACK = re.compile(
    rf"([0-9]{{1,18}})=({_NUMBER})/({_NUMBER})/({_NUMBER})/(?:{_NUMBER}|-?nan) ms(?:\s|$)"
)
_JITTER = re.compile(rf"{_NUMBER}\s+ms\s+-?[0-9]+/\s*[0-9]+")
_OTHER_DIRECTION = re.compile(r"\((?:reverse|full-duplex)\)")
# Other programs in the same job log: their failures are theirs.
_NOISE = re.compile(r"\b(?:NCCL|UCX)\b")
# iperf2 has no common form for its errors, and a shell, slurm or the loader may report for it.
_FAILURE = re.compile(
    r"\bfail(?:s|ed|ure)?\b|\berror\b|\brefused\b|reset by peer|broken pipe|timed ?out|"
    r"timer expired|\bunreachable\b|no route|unknown host|unknown server|not known|not found|"
    r"no such file|\bdenied\b|not permitted|unreco\w*gni[sz]ed|unrecoginized|"
    r"(?:illegal|invalid) (?:option|value|report|port|burst)|is ambiguous|requires (?:a|an) |"
    r"doesn't allow|ignoring extra argument|^\s*usage:|did not receive ack|\bunable to\b|"
    r"\bcannot\b|interrupt again|\babort\b|not supported|not valid|mutually exclusive|" + DIED,
    re.IGNORECASE,
)
_failure = searched(_FAILURE)
# Without -e csv has no header.
_CSV_COLUMNS = ["time", "src", "srcport", "dst", "dstport", "transferid", "interval"]
_CSV_COLUMNS += ["bytes", "speed"]
_CSV_UDP_COLUMNS = ["jitter", "errors", "datagrams", "errpercent", "outoforder"]
_CSV_TIME = re.compile(r"[-+0-9:.]{8,40}")


class _Row(NamedTuple):
    line: int
    id: str
    #: the number of streams in a row [SUM-n]
    of: int | None
    start: Shown
    end: Shown
    bytes: Shown
    rate: Shown  # bit/s
    retransmits: int | None = None
    bounceback: Bounceback | None = None
    received: bool = False
    #: when it ended, of csv
    ended_s: float | None = None

    def stream(self) -> Stream:
        return Stream(
            self.start.value,
            self.end.value,
            round(self.bytes.value),
            self.rate.value / 1e9,
            self.retransmits,
            id=self.id,
        )


def parse(text: str) -> Output:
    """The totals of one client's or one server's output (stdout, with stderr if it was kept).

    Text with or without -e of 2.0.9 to 2.2.1, and csv (-y C), whichever way the bytes went; of a
    run both ways (--full-duplex, -d, -r) the reverse direction is `other`. ParseError where the
    tool reports an error, where there is no total, and where rows contradict each other beyond
    rounding.
    """
    lines = []
    for number, raw in numbered(text):
        line = LABELS.sub("", raw).strip()
        if line and not line.startswith("#"):
            lines.append((number, line))
    if not lines:
        raise ParseError(0, "nothing", "the output of iperf")
    lines = [(number, line) for number, line in lines if not _NOISE.search(line)]
    # An error explains missing rows, so it is reported first, wherever it stands.
    for number, line in lines:
        if _failure(line) or _CONNECT_ERRORS.search(line):
            raise ParseError(number, quote(line), "no error message")
    directions = apart(lines)
    outputs = []
    for direction, own in directions.lines.items():
        reader = _Reader()
        for number, line in own:
            reader.take(number, line)
        output, stalls = reader.output(), _stalls(reader.rows)
        outputs.append(dataclasses.replace(output, direction=direction, stalls=stalls))
    first, *others = outputs
    if others:
        _check_both(directions.sums, outputs)
    return dataclasses.replace(first, other=others[0] if others else None)


def _check_both(sums: Sequence[tuple[int, str]], ways: Sequence[Output]) -> None:
    """Whether the total of the [SUM] rows, if there is one, is that of both directions."""
    reader = _Reader()
    for number, line in sums:
        reader.take(number, line)
    if not reader.rows:
        return
    total, moved = reader.rows[-1], sum(way.total.transferred_bytes for way in ways)
    if total.start.value == 0 and abs(total.bytes.value - moved) > BYTES_SLACK * moved:
        problem = f"a sum of {total.bytes.value:.0f} bytes"
        raise ParseError(total.line, problem, f"the {moved} of both directions")


class _Reader:
    """Takes the lines of one output in their order; `output` then judges the rows."""

    def __init__(self) -> None:
        self.role: Role = "unknown"
        self.udp = False
        self.bounceback_requested = False
        self.rows: list[_Row] = []
        self.seen_rows: dict[str, int] = {}
        self.stream_columns: list[str] = []
        self.sum_columns: list[str] | None = None
        self.csv_header: list[str] | None = None
        self.csv = False
        self.csv_ports: dict[str, list[str]] = {}
        self.ports: list[tuple[int, int]] = []
        self.connections: list[runs.Connection] = []
        #: id -> its ports, and when it began
        self.began: dict[str, tuple[tuple[int, int], float]] = {}
        self.mss: list[int] = []
        self.congestion: str | None = None
        self.window_bytes: float | None = None

    def take(self, number: int, line: str) -> None:
        if self._take_csv(number, line) or self._take_row(number, line):
            return
        if _OTHER_DIRECTION.search(line):
            raise ParseError(number, quote(line), "streams from client to server only")
        if header := _HEADER.match(line):
            columns = header["columns"].split()
            if header["kind"] == "ID":
                self.stream_columns = columns
                self.bounceback_requested |= "BB" in columns
            else:
                self.sum_columns = columns
        if banner := _BANNER.match(line):
            role: Role = "client" if banner["role"].startswith("Client") else "server"
            # On a busy machine 2.2.1 comes to its first lines after its first rows.
            is_late = bool(self.rows) and self.role == "unknown"
            if not is_late and (self.rows or self.role not in ("unknown", role)):
                raise ParseError(number, quote(line), "the output of one run of one side")
            self.role = role
            self.udp |= banner["net"] == "UDP"
        if connected := CONNECTED.search(line):
            self.ports.append((int(connected["local"]), int(connected["peer"])))
            self._take_time(number, line)
            self.bounceback_requested |= "(bb " in connected["marks"]
            if suffix := _CONGESTION_SUFFIX.search(connected["marks"]):
                self._take_congestion(number, line, suffix[1])
        if mss := _MSS.search(line):
            self.mss.append(int(mss[1] or mss[2]))
        # A server prints its own default ("control default bbr"): it says nothing of the sender.
        if (control := _CONGESTION.match(line)) and (name := control[2] or control[1]):
            self._take_congestion(number, line, name)
        if window := _WINDOW.search(line):
            self.window_bytes = float(window[1]) * 1024.0 ** _UNITS[window[2]]

    def _take_congestion(self, number: int, line: str, name: str) -> None:
        if self.congestion not in (None, name):
            raise ParseError(number, quote(line), f"congestion control {self.congestion} as above")
        self.congestion = name

    def _add(self, row: _Row, line: str) -> None:
        numbers = (row.start, row.end, row.bytes, row.rate)
        if not all(math.isfinite(number.value) for number in numbers):
            raise ParseError(row.line, quote(line), "finite numbers")
        if row.end.value <= row.start.value:
            raise ParseError(row.line, quote(line), "an interval that ends after its start")
        # With a clock of 0.1 s an interval and the total after it may well print alike.
        if row.end.half < 0.001:
            first = self.seen_rows.setdefault(line, row.line)
            if first != row.line:
                raise ParseError(row.line, f"line {first} a second time", "every row once")
        _check_rate(row, line)
        self.rows.append(row)

    def _take_row(self, number: int, line: str) -> bool:
        matched = _ROW.fullmatch(line)
        if matched is None:
            if _ROW_LIKE.match(line):
                raise ParseError(number, quote(line), "a whole row with Bytes and bits/sec")
            return False
        name = matched["id"]
        total = _SUM_ID.fullmatch(name)
        if total is None and not name.isdecimal():
            raise ParseError(number, quote(line), "streams from client to server only")
        rest = matched["rest"] or ""
        bounceback = None
        if total is None and self.bounceback_requested and self.role != "server":
            bounceback = _bounceback(number, rest)
        row = _Row(
            number,
            "SUM" if total else name,
            int(total[1]) if total and total[1] else None,
            Shown.of(matched["start"]),
            Shown.of(matched["end"]),
            Shown.of(matched["bytes"], 1024.0 ** _UNITS[matched["bytes_unit"]]),
            Shown.of(matched["rate"], _bits(matched["rate_unit"], matched["rate_of"])),
            self._retransmits(number, rest.split(), is_sum=total is not None),
            bounceback,
            received=_JITTER.match(rest) is not None,
        )
        self._add(row, line)
        return True

    def _retransmits(self, number: int, values: list[str], *, is_sum: bool) -> int | None:
        columns = self.stream_columns
        if is_sum and self.sum_columns is not None:
            columns = self.sum_columns
        if "Rtry" not in columns:
            return None
        place = columns.index("Rtry")
        # A cut number is still a number: only what follows it shows that it is whole. A sum row
        # has nothing behind it, but its streams have the same number.
        needed = place + 1 if is_sum or len(columns) == place + 1 else place + 2
        if len(values) >= needed and re.fullmatch(r"[0-9]{1,18}", values[place]):
            return int(values[place])
        if is_sum:
            return None
        problem = quote(" ".join(values))
        raise ParseError(number, problem, f"the columns {' '.join(columns)}, Rtry an integer")

    def _take_csv(self, number: int, line: str) -> bool:
        fields = [field.strip() for field in line.split(",")]
        if fields[0] == "time" and "transferid" in fields:
            if self.rows:
                raise ParseError(number, quote(line), "the output of one run of one side")
            self.csv_header = fields
            self.udp |= "jitter" in fields
            if "writecnt" in fields or "readcnt" in fields:
                self.role = "client" if "writecnt" in fields else "server"
            return True
        if len(fields) < 2 or not _CSV_TIME.fullmatch(fields[0]):
            return False
        names = self.csv_header
        if len(fields) < 6 and names is None and not self.csv:
            return False
        if names is None:
            if len(fields) < 9:
                raise ParseError(number, quote(line), "9 columns or more")
            names = _CSV_COLUMNS
            if len(fields) >= 14:
                names = _CSV_COLUMNS + _CSV_UDP_COLUMNS
        if len(fields) < len(names):
            raise ParseError(number, f"{len(fields)} columns", f"{len(names)} columns")
        row = dict(zip(names, fields, strict=False))
        runs.require_own_ports(number, row, self.csv_ports)
        self._add(self._csv_row(number, line, row), line)
        self.csv = True
        return True

    def _csv_row(self, number: int, line: str, field: dict[str, str]) -> _Row:
        start, end = field.get("istart", ""), field.get("iend", "")
        if "interval" in field:
            start, _, end = field["interval"].partition("-")
        moved, speed, name = (field.get(column, "") for column in ("bytes", "speed", "transferid"))
        numbers = all(re.fullmatch(_NUMBER, value) for value in (start, end, moved, speed))
        if not numbers or not re.fullmatch(r"-1|[0-9]{1,9}", name):
            expected = "an id, an interval, bytes and a rate of 0 or more"
            raise ParseError(number, quote(line), expected)
        retransmits = field.get("tcpretry")
        if retransmits is not None and not re.fullmatch(r"[0-9]{1,18}", retransmits):
            raise ParseError(number, f"tcpretry {quote(retransmits)}", "an integer of 0 or more")
        datagrams = field.get("datagrams")
        self.udp |= datagrams is not None
        return _Row(
            number,
            "SUM" if name == "-1" else name,
            None,
            Shown.of(start),
            Shown.of(end),
            Shown(float(moved), 0.5),
            Shown(float(speed), 0.5),
            int(retransmits) if retransmits is not None else None,
            # A client that got no report of the server's prints -1 datagrams.
            received=datagrams is not None and re.fullmatch(r"[0-9]{1,18}", datagrams) is not None,
            ended_s=runs.csv_time_s(field.get("time", "")),
        )

    def output(self) -> Output:
        if not self.rows:
            raise ParseError(0, "no row with a transfer", "a row such as '[ 1] 0.0000-5.0010 sec'")
        received = not self.udp or any(row.received for row in self.rows)
        groups: dict[str, list[_Row]] = {}
        for row in self.rows:
            # Of UDP the server's report counts where there is one, not what was sent.
            if not self.udp or row.received == received or row.id == "SUM":
                groups.setdefault(row.id, []).append(row)
        runs.require_one_run(self.connections, _totals(groups))
        streams = [_final(rows) for name, rows in groups.items() if name != "SUM"]
        still = [rows for name, rows in groups.items() if name != "SUM" and _stood_still(rows)]
        if still and len(still) == len(streams):
            # Where others went on it was starved, which is a note; where none did the run hung.
            raise _no_interval(still[0])
        all_sums = groups.get("SUM", [])
        # On a busy machine 2.2.1 prints one interval's sum in parts, each with the next one's time.
        whole = [row for row in all_sums if row.of is None or row.of >= len(streams)]
        if whole:
            groups["SUM"] = whole
        own = [rows for name, rows in groups.items() if name != "SUM"]
        sums = self._sum(
            [] if _is_first_interval(whole, own) else whole,
            streams,
            in_parts=len(whole) < len(all_sums),
        )
        if sums is not None and not self.udp:
            _check_sum(sums, streams)
        if streams and len(self.ports) > len(streams):
            problem = f"{len(self.ports)} 'connected with' lines but {len(streams)} totals"
            raise ParseError(0, problem, "a total for every connected stream")
        if sums is None or (streams and self.udp):
            assert streams, "there are rows, so a stream or a sum has a total"
            total = _added(streams)
        else:
            total = _whole_time(sums, streams)
        measured = groups.get("SUM") or next(iter(groups.values()))
        side = {"client": 0, "server": 1}.get(self.role)
        return Output(
            role=self.role,
            streams=tuple(row.stream() for row in streams),
            total=total,
            intervals=tuple(row.stream() for row in measured[:-1]),
            stream_count=len(streams) or (sums.of if sums else None),
            connected=len(self.ports),
            client_ports=() if side is None else tuple(sorted(pair[side] for pair in self.ports)),
            mss_bytes=tuple(self.mss),
            congestion=self.congestion,
            window_bytes=self.window_bytes,
            bounceback=streams[0].bounceback if len(streams) == 1 else None,
            bounceback_requested=self.bounceback_requested,
            udp=self.udp,
            received=received,
            clocks={} if side is None else self._clocks(streams, side),
        )

    def _take_time(self, number: int, line: str) -> None:
        connection = _CONNECTION.match(line)
        if connection is not None:
            with contextlib.suppress(ValueError):
                time = datetime.datetime.fromisoformat(f"{connection['time']}+00:00")
                self.began[connection["id"]] = self.ports[-1], time.timestamp()
        if own := _ID.match(line):
            began = self.began.get(own[1]) if connection else None
            self.connections.append(runs.Connection(number, own[1], began[1] if began else None))

    def _clocks(self, streams: Sequence[_Row], side: int) -> dict[int, Clock]:
        clocks = {}
        for row in streams:
            if row.id in self.began:
                ports, began_s = self.began[row.id]
                clocks[ports[side]] = Clock(began_s, row.end.value - row.start.value)
        return clocks

    def _sum(self, rows: list[_Row], streams: list[_Row], in_parts: bool = False) -> _Row | None:
        """The total of the [SUM] rows; None where the streams must be added up.

        2.2.1 with -P now and then ends, with exit 0, before it has printed the last [SUM] row.
        That is no loss where every connected stream has its own total. Where intervals are left
        out because they came `in_parts`, those of the streams are whole, and `_check_sum` compares.
        """
        if in_parts and rows and rows[-1].start.value == 0:
            return rows[-1]
        if rows and (rows[-1].start.value == 0 or not streams):
            if _stood_still(rows):
                raise _no_interval(rows)
            return _final(rows)
        expected = len(streams) > 1 and not self.csv and not self.udp
        if expected and len(self.ports) != len(streams):
            raise ParseError(0, f"{len(streams)} streams without a [SUM] row", "their [SUM] row")
        return None


def _totals(groups: Mapping[str, Sequence[_Row]]) -> dict[str, runs.Total]:
    """The row from 0 to its end of each stream that has one."""
    return {
        name: runs.Total(last.line, first.line, first is not last, last.end.value, last.ended_s)
        for name, rows in groups.items()
        for first, last in [(rows[0], rows[-1])]
        if name != "SUM" and last.start.value == 0
    }


def _bits(unit: str, of: str) -> float:
    """Bits in one of a rate's unit: of bits (-f m) by thousands, of bytes (-f M) by 1024."""
    return 1000.0 ** _UNITS[unit] if of == "bits" else 8 * 1024.0 ** _UNITS[unit]


def _stalls(rows: Sequence[_Row]) -> tuple[Stall, ...]:
    """The stalls of all together, or else those of streams."""
    stalls: dict[str, list[Stall]] = {}
    for name in dict.fromkeys(row.id for row in rows):
        still: list[Stall] = []
        own = [row for row in rows if row.id == name]
        for row in own[:-1]:
            start, end = row.start.value, row.end.value
            if row.bytes.value == 0 and still and still[-1].end_s == start:
                still[-1] = Stall(name, still[-1].start_s, end)
            elif row.bytes.value == 0:
                still.append(Stall(name, start, end))
        if still and _stood_still(own):
            still[-1] = Stall(name, still[-1].start_s, own[-1].end.value)
        stalls[name] = still
    everything = stalls.pop("SUM", [])
    return tuple(everything or itertools.chain.from_iterable(stalls.values()))


def _bounceback(number: int, rest: str) -> Bounceback:
    matched = _BOUNCEBACK.match(rest)
    if matched is None:
        raise ParseError(number, quote(rest), "cnt=avg/min/max/stdev ms")
    count, (average, least, most) = int(matched[1]), (float(matched[i]) for i in (2, 3, 4))
    if not least <= average <= most:
        raise ParseError(number, quote(rest), "min <= avg <= max")
    return Bounceback(count, average * 1e3, least * 1e3, most * 1e3)


def _check_rate(row: _Row, line: str) -> None:
    """Whether bytes * 8 / seconds can be the rate, with all four as rounded."""
    seconds, half = row.end.value - row.start.value, row.start.half + row.end.half
    least = 8 * (row.bytes.value - row.bytes.half) / (seconds + half)
    most = 8 * (row.bytes.value + row.bytes.half) / (seconds - half) if seconds > half else math.inf
    if (row.rate.value + row.rate.half) * (1 + SLACK) < least or (
        row.rate.value - row.rate.half
    ) * (1 - SLACK) > most:
        rate = 8e-9 * row.bytes.value / seconds
        raise ParseError(row.line, quote(line), f"a rate of {rate:.4g} Gb/s by its bytes and time")


def _final(rows: list[_Row]) -> _Row:
    """The total of one stream: the row from 0 to the end after intervals without a gap."""
    *intervals, last = rows
    name, clock, moved, half = last.id, 0.0, 0.0, last.bytes.half
    for row in intervals:
        if abs(row.start.value - clock) > row.start.half:
            problem = f"[{name}] from {row.start.value:g} s"
            raise ParseError(row.line, problem, f"its next interval from {clock:g} s, or its end")
        clock, moved, half = row.end.value, moved + row.bytes.value, half + row.bytes.half
    if last.start.value > 0:
        problem = f"[{name}] ends with {last.start.value:g}-{last.end.value:g} s and has no total"
        raise ParseError(last.line, problem, "a last row from 0 to the end of the run")
    if last.end.value < clock - last.end.half:
        problem = f"a total of [{name}] to {last.end.value:g} s"
        raise ParseError(last.line, problem, f"an end at {clock:g} s or later")
    if _ends_early(rows) and moved < last.bytes.value - half:
        raise _no_interval(rows)
    if moved > last.bytes.value * (1 + SLACK) + half:
        problem = f"a total of [{name}] of {last.bytes.value:.0f} bytes"
        raise ParseError(last.line, problem, f"at least the {moved:.0f} bytes of its intervals")
    return last


def _is_first_interval(sums: Sequence[_Row], streams: Sequence[Sequence[_Row]]) -> bool:
    """The only [SUM] row is of the first interval: some stream's ends there too, and goes on."""
    return len(sums) == 1 and any(
        len(rows) > 1 and rows[0].end.value == sums[0].end.value < rows[-1].end.value
        for rows in streams
    )


def _ends_early(rows: Sequence[_Row]) -> bool:
    """The total goes on long after the last interval: of a time in which nothing moved there is no
    row.
    """
    *intervals, last = rows
    length = max((row.end.value - row.start.value for row in intervals), default=math.inf)
    return last.end.value - intervals[-1].end.value > _TAIL * length if intervals else False


def _stood_still(rows: Sequence[_Row]) -> bool:
    """It moved nothing from before its last interval to its end; one that moved something in its
    last interval waited for its end.
    """
    return _ends_early(rows) and rows[-2].bytes.value == 0


def _no_interval(rows: Sequence[_Row]) -> ParseError:
    *_, interval, last = rows
    problem = f"no interval of [{last.id}] from {interval.end.value:g} to {last.end.value:g} s"
    return ParseError(last.line, problem, "intervals to the end of the run")


def _check_sum(total: _Row, streams: list[_Row]) -> None:
    if total.of is not None and streams and total.of != len(streams):
        raise ParseError(total.line, f"[SUM-{total.of}]", f"the sum of {len(streams)} streams")
    if not streams:
        return
    moved = sum(row.bytes.value for row in streams)
    half = total.bytes.half + sum(row.bytes.half for row in streams)
    if abs(total.bytes.value - moved) > half + SLACK * moved:
        problem = f"a sum of {total.bytes.value:.0f} bytes"
        raise ParseError(
            total.line, problem, f"the {moved:.0f} bytes of its {len(streams)} streams"
        )
    ends = max(row.end.value for row in streams)
    if total.end.value > _SUM_LONGEST * ends:
        problem = f"a sum to {total.end.value:g} s"
        raise ParseError(total.line, problem, f"an end near the {ends:g} s of its streams")
    retransmits = [row.retransmits for row in streams if row.retransmits is not None]
    if total.retransmits not in (None, sum(retransmits)) and len(retransmits) == len(streams):
        problem = f"a sum of {total.retransmits} retransmits"
        raise ParseError(total.line, problem, f"the {sum(retransmits)} of its streams")


def _whole_time(total: _Row, streams: list[_Row]) -> Stream:
    """The sum's bytes, over the time until the last of its streams has ended.

    The sum has a clock of its own: the client of 2.2.1 ended it at 3.1 s for streams that a slow
    link held until 5.2 s, so that the rate that it prints was never there. Streams that started
    late have clocks that start late; then the sum's is the longer one.
    """
    ends = max((row.end.value for row in streams), default=0.0)
    printed = total.stream()
    if ends <= SUM_SHORTER * total.end.value + total.end.half:
        return printed
    rate = 8e-9 * printed.transferred_bytes / (ends - printed.start_s)
    return dataclasses.replace(printed, end_s=ends, bandwidth_gbits_s=rate)


def _added(streams: list[_Row]) -> Stream:
    """All streams together: their bytes over the longest time of one, as a [SUM] row has it.

    Their rates do not add up where a server came to them one after the other. A rate shows its time
    more exactly than csv's tenths of a second do.
    """
    if len(streams) == 1:
        return streams[0].stream()
    retransmits = [row.retransmits for row in streams if row.retransmits is not None]
    start, end = min(row.start.value for row in streams), max(row.end.value for row in streams)
    seconds = max(
        8 * row.bytes.value / row.rate.value if row.rate.value else end - start for row in streams
    )
    moved = sum(row.bytes.value for row in streams)
    return Stream(
        start,
        end,
        round(moved),
        8e-9 * moved / seconds,
        sum(retransmits) if len(retransmits) == len(streams) else None,
        id="SUM",
    )
