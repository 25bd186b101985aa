"""iperf2: TCP bandwidth of parallel streams between two nodes.

The client exits 0 when it is refused, when the server dies and on an unknown flag, and its text
does not prove that it ran to its end. So `read` believes a run only where the exit codes, the
server's own rows and the options agree with the client's rows.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from railgauge.measurement import Measurement
from railgauge.tools import Call, Completeness, Moved, ParseError, Reading
from railgauge.tools.iperf2_directions import Direction, apart
from railgauge.tools.sides import CALL_SLACK_S, collect

TOOL = "iperf2"

Role = Literal["client", "server", "unknown"]


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """What is asked of one TCP run; ValueError where it cannot be run."""

    #: per direction
    streams: int = 4
    duration_s: int = 5
    #: socket buffer asked for with -w; None leaves it to the kernel's autotuning
    window_bytes: int | None = None
    #: congestion control of the sender, as named under net.ipv4.tcp_available_congestion_control
    congestion: str | None = None
    #: size of one write
    length_bytes: int | None = None
    #: both sides report every so often; None: every second, and the sender only
    interval_s: float | None = None
    #: how long what is buffered may still be on its way when the time is up
    drain_s: float = 0
    #: from client to server, from server to client (-R), both at once (--full-duplex)
    direction: Literal["forward", "reverse", "both"] = "forward"

    def __post_init__(self) -> None:
        if self.direction not in ("forward", "reverse", "both"):
            expected = "forward, reverse or both"
            raise ValueError(f"iperf2 direction is {self.direction!r}, expected {expected}")
        for name in ("streams", "duration_s", "window_bytes", "length_bytes"):
            value = getattr(self, name)
            if value is None and name in ("window_bytes", "length_bytes"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"iperf2 {name} is {value!r}, expected an integer of 1 or more")
        for name, least in (("interval_s", 0.1), ("drain_s", 0)):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= least):
                raise ValueError(f"iperf2 {name} is {value!r}, expected {least} or more")
        congestion = self.congestion
        if congestion is not None and not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", congestion):
            raise ValueError(f"iperf2 congestion is {congestion!r}, expected a name such as cubic")


# ---- argv ----------------------------------------------------------------------------------


def version_argv() -> list[str]:
    return ["iperf", "--version"]


def server_argv(options: Options, port: str = "{port}") -> list[str]:
    """The receiver. With -P it ends by itself, with exit 0, after that many streams.

    Every accepted connection counts as a stream, so nothing may probe the port beforehand.
    """
    argv = ["iperf", "-s", "-p", port, "-P", str(options.streams), "-e", "-f", "k"]
    if options.interval_s is not None:
        argv += ["-i", f"{options.interval_s:g}"]
    if options.window_bytes is not None:
        argv += ["-w", str(options.window_bytes)]
    return argv


def client_argv(options: Options, server: str = "{server}", port: str = "{port}") -> list[str]:
    """The sender. -f k shows bytes to 1 KiB; -i keeps a total apart from a first interval."""
    argv = ["iperf", "-c", server, "-p", port, "-P", str(options.streams)]
    interval = f"{options.interval_s or 1:g}"
    argv += ["-t", str(options.duration_s), "-e", "-i", interval, "-f", "k"]
    argv += {"forward": [], "reverse": ["-R"], "both": ["--full-duplex"]}[options.direction]
    if options.window_bytes is not None:
        argv += ["-w", str(options.window_bytes)]
    if options.congestion is not None:
        argv += ["-Z", options.congestion]
    if options.length_bytes is not None:
        argv += ["-l", str(options.length_bytes)]
    return argv


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Stream:
    """What one stream, or with the id 'SUM' all together, moved from start to end."""

    id: str
    start_s: float
    end_s: float
    transferred_bytes: int
    bandwidth_gbits_s: float
    #: None where the output has no such column
    retransmits: int | None = None

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


@dataclasses.dataclass(frozen=True)
class Bounceback:
    """Round trips of one small request and its reply (--bounceback), over the whole run."""

    count: int
    avg_us: float
    min_us: float
    max_us: float


@dataclasses.dataclass(frozen=True)
class Stall:
    """Whole intervals in a row in which one stream, or 'SUM' all together, moved nothing."""

    id: str
    start_s: float
    end_s: float


@dataclasses.dataclass(frozen=True)
class Output:
    """One output of one run in one direction: its totals, and the conditions that it states."""

    role: Role
    #: the total of every stream; empty for --sum-only
    streams: tuple[Stream, ...]
    #: the sum row, the only stream, or (csv of 2.1.8, UDP) the streams added up
    total: Stream
    #: rows per interval: of the sum, or of the only stream
    intervals: tuple[Stream, ...]
    #: the number of streams that the rows state; None for a bare [SUM]
    stream_count: int | None
    #: 'connected with' lines
    connected: int
    #: the client's TCP ports, sorted: equal on both sides of one run
    client_ports: tuple[int, ...]
    mss_bytes: tuple[int, ...]
    congestion: str | None
    window_bytes: float | None
    bounceback: Bounceback | None
    bounceback_asked: bool
    udp: bool
    #: the rows say what arrived; False where they say only what was sent
    received: bool
    direction: Direction = "forward"
    #: what went the other way at once, or after it (-r)
    other: Output | None = None
    stalls: tuple[Stall, ...] = ()

    @property
    def ways(self) -> tuple[Output, ...]:
        return (self,) if self.other is None else (self, self.other)


# ---- parse ---------------------------------------------------------------------------------

# Rows round to 3 digits or to 1 KiB, and clocks to 0.1 ms or 0.1 s; that is computed per row.
# This is what may remain: the rate is taken at another instant than the bytes.
_SLACK = 0.005
# The sum has a clock of its own, which runs on for streams that started late; never so long. Where
# it ends before them by more than this, its rate was never there.
_SUM_LONGEST, _SUM_SHORTER = 2, 1.02
# A run that ends between two intervals prints the rest as a row; only a shorter tail has none.
_TAIL = 0.9

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
_CONNECTED = re.compile(
    r"local \S+ port (?P<local>[0-9]{1,5}) connected with \S+ port (?P<peer>[0-9]{1,5})(?P<rest>.*)"
)
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
_RECORDER = re.compile(r"^(?:STDERR: |\s*[0-9]{1,6}: ?)+")
# Other programs in the same job log: their failures are theirs.
_NOISE = re.compile(r"\b(?:NCCL|UCX)\b")
# iperf2 has no common form for its errors, and a shell, slurm or the loader may report for it.
_FAILURE = re.compile(
    r"\bfail(?:s|ed|ure)?\b|\berror\b|\brefused\b|reset by peer|broken pipe|timed ?out|"
    r"timer expired|\bunreachable\b|no route|unknown host|unknown server|not known|not found|"
    r"no such file|\bdenied\b|not permitted|unreco\w*gni[sz]ed|unrecoginized|"
    r"(?:illegal|invalid) (?:option|value|report|port|burst)|is ambiguous|requires (?:a|an) |"
    r"doesn't allow|ignoring extra argument|^\s*usage:|did not receive ack|\bunable to\b|"
    r"\bcannot\b|interrupt again|\bterminated\b|\bkilled\b|\bcancelled\b|\baborted?\b|"
    r"segmentation fault|core dumped|bus error|out of memory|double free|"
    r"not supported|not valid|mutually exclusive",
    re.IGNORECASE,
)
# Without -e csv has no header.
_CSV_COLUMNS = ["time", "src", "srcport", "dst", "dstport", "transferid", "interval"]
_CSV_COLUMNS += ["bytes", "speed"]
_CSV_UDP_COLUMNS = ["jitter", "errors", "datagrams", "errpercent", "outoforder"]
_CSV_TIME = re.compile(r"[-+0-9:.]{8,40}")


class _Shown(NamedTuple):
    """A number as printed, and half a unit of its last digit."""

    value: float
    half: float

    @classmethod
    def of(cls, text: str, factor: float = 1.0) -> _Shown:
        decimals = len(text.partition(".")[2])
        return cls(float(text) * factor, 0.5 * 10.0**-decimals * factor)


class _Row(NamedTuple):
    line: int
    id: str
    #: the number of streams in a row [SUM-n]
    of: int | None
    start: _Shown
    end: _Shown
    bytes: _Shown
    rate: _Shown  # bit/s
    retransmits: int | None = None
    bounceback: Bounceback | None = None
    received: bool = False

    def stream(self) -> Stream:
        return Stream(
            self.id,
            self.start.value,
            self.end.value,
            round(self.bytes.value),
            self.rate.value / 1e9,
            self.retransmits,
        )


def parse(text: str) -> Output:
    """The totals of one client's or one server's output (stdout, with stderr if it was kept).

    Text with or without -e of 2.0.9 to 2.2.1, and csv (-y C), whichever way the bytes went; of a
    run both ways (--full-duplex, -d, -r) the reverse direction is `other`. ParseError where the
    tool reports an error, where there is no total, and where rows contradict each other beyond
    rounding.
    """
    told = []
    # Not splitlines(): it also breaks at form feeds and the like, and line numbers would be off.
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _RECORDER.sub("", raw).strip()
        if line and not line.startswith("#"):
            told.append((number, line))
    if not told:
        raise ParseError(0, "nothing", "the output of iperf")
    told = [(number, line) for number, line in told if not _NOISE.search(line)]
    # An error explains missing rows, so it is told first, wherever it stands.
    for number, line in told:
        if _FAILURE.search(line) or _CONNECT_ERRORS.search(line):
            raise ParseError(number, _quote(line), "no error message")
    found = apart(told)
    outputs = []
    for direction, lines in found.lines.items():
        reader = _Reader()
        for number, line in lines:
            reader.take(number, line)
        output, stalls = reader.output(), _stalls(reader.rows)
        outputs.append(dataclasses.replace(output, direction=direction, stalls=stalls))
    first, *others = outputs
    if others:
        _check_both(found.sums, outputs)
    return dataclasses.replace(first, other=others[0] if others else None)


def _check_both(sums: Sequence[tuple[int, str]], ways: Sequence[Output]) -> None:
    """Whether the total of the [SUM] rows, if there is one, is that of both directions."""
    reader = _Reader()
    for number, line in sums:
        reader.take(number, line)
    if not reader.rows:
        return
    total, moved = reader.rows[-1], sum(way.total.transferred_bytes for way in ways)
    if total.start.value == 0 and abs(total.bytes.value - moved) > _BYTES_SLACK * moved:
        found = f"a sum of {total.bytes.value:.0f} bytes"
        raise ParseError(total.line, found, f"the {moved} of both directions")


def _quote(line: str) -> str:
    return ascii(line[:120])


class _Reader:
    """Takes the lines of one output in their order; `output` then judges the rows."""

    def __init__(self) -> None:
        self.role: Role = "unknown"
        self.udp = False
        self.bounceback_asked = False
        self.rows: list[_Row] = []
        self.seen_rows: dict[str, int] = {}
        self.stream_columns: list[str] = []
        self.sum_columns: list[str] | None = None
        self.csv_header: list[str] | None = None
        self.csv = False
        self.ports: list[tuple[int, int]] = []
        self.mss: list[int] = []
        self.congestion: str | None = None
        self.window_bytes: float | None = None

    def take(self, number: int, line: str) -> None:
        if self._take_csv(number, line) or self._take_row(number, line):
            return
        if _OTHER_DIRECTION.search(line):
            raise ParseError(number, _quote(line), "streams from client to server only")
        if header := _HEADER.match(line):
            columns = header["columns"].split()
            if header["kind"] == "ID":
                self.stream_columns = columns
                self.bounceback_asked |= "BB" in columns
            else:
                self.sum_columns = columns
        if banner := _BANNER.match(line):
            role: Role = "client" if banner["role"].startswith("Client") else "server"
            if self.rows or self.role not in ("unknown", role):
                raise ParseError(number, _quote(line), "the output of one run of one side")
            self.role = role
            self.udp |= banner["net"] == "UDP"
        if connected := _CONNECTED.search(line):
            self.ports.append((int(connected["local"]), int(connected["peer"])))
            self.bounceback_asked |= "(bb " in connected["rest"]
            if suffix := _CONGESTION_SUFFIX.search(connected["rest"]):
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
            raise ParseError(number, _quote(line), f"congestion control {self.congestion} as above")
        self.congestion = name

    def _add(self, row: _Row, line: str) -> None:
        numbers = (row.start, row.end, row.bytes, row.rate)
        if not all(math.isfinite(number.value) for number in numbers):
            raise ParseError(row.line, _quote(line), "finite numbers")
        if row.end.value <= row.start.value:
            raise ParseError(row.line, _quote(line), "an interval that ends after its start")
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
                raise ParseError(number, _quote(line), "a whole row with Bytes and bits/sec")
            return False
        name = matched["id"]
        total = _SUM_ID.fullmatch(name)
        if total is None and not name.isdecimal():
            raise ParseError(number, _quote(line), "streams from client to server only")
        rest = matched["rest"] or ""
        bounceback = None
        if total is None and self.bounceback_asked and self.role != "server":
            bounceback = _bounceback(number, rest)
        row = _Row(
            number,
            "SUM" if total else name,
            int(total[1]) if total and total[1] else None,
            _Shown.of(matched["start"]),
            _Shown.of(matched["end"]),
            _Shown.of(matched["bytes"], 1024.0 ** _UNITS[matched["bytes_unit"]]),
            _Shown.of(matched["rate"], _bits(matched["rate_unit"], matched["rate_of"])),
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
        found = ascii(" ".join(values)[:120])
        raise ParseError(number, found, f"the columns {' '.join(columns)}, Rtry an integer")

    def _take_csv(self, number: int, line: str) -> bool:
        fields = [field.strip() for field in line.split(",")]
        if fields[0] == "time" and "transferid" in fields:
            if self.rows:
                raise ParseError(number, _quote(line), "the output of one run of one side")
            self.csv_header = fields
            self.udp |= "jitter" in fields
            if "writecnt" in fields or "readcnt" in fields:
                self.role = "client" if "writecnt" in fields else "server"
            return True
        if len(fields) < 6 or not _CSV_TIME.fullmatch(fields[0]):
            return False
        names = self.csv_header
        if names is None:
            if len(fields) < 9:
                raise ParseError(number, _quote(line), "9 columns or more")
            names = _CSV_COLUMNS
            if len(fields) >= 14:
                names = _CSV_COLUMNS + _CSV_UDP_COLUMNS
        if len(fields) < len(names):
            raise ParseError(number, f"{len(fields)} columns", f"{len(names)} columns")
        self._add(self._csv_row(number, line, dict(zip(names, fields, strict=False))), line)
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
            raise ParseError(number, _quote(line), expected)
        retransmits = field.get("tcpretry")
        if retransmits is not None and not re.fullmatch(r"[0-9]{1,18}", retransmits):
            raise ParseError(number, f"tcpretry {_quote(retransmits)}", "an integer of 0 or more")
        datagrams = field.get("datagrams")
        self.udp |= datagrams is not None
        return _Row(
            number,
            "SUM" if name == "-1" else name,
            None,
            _Shown.of(start),
            _Shown.of(end),
            _Shown(float(moved), 0.5),
            _Shown(float(speed), 0.5),
            int(retransmits) if retransmits is not None else None,
            # A client that got no report of the server's prints -1 datagrams.
            received=datagrams is not None and re.fullmatch(r"[0-9]{1,18}", datagrams) is not None,
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
        streams = [_final(rows) for name, rows in groups.items() if name != "SUM"]
        all_sums = groups.get("SUM", [])
        # On a busy machine 2.2.1 prints one interval's sum in parts, each with the next one's time.
        whole = [row for row in all_sums if row.of is None or row.of >= len(streams)]
        if whole:
            groups["SUM"] = whole
        sums = self._sum(whole, streams, in_parts=len(whole) < len(all_sums))
        if sums is not None and not self.udp:
            _check_sum(sums, streams)
        if streams and len(self.ports) > len(streams):
            found = f"{len(self.ports)} 'connected with' lines but {len(streams)} totals"
            raise ParseError(0, found, "a total for every connected stream")
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
            bounceback_asked=self.bounceback_asked,
            udp=self.udp,
            received=received,
        )

    def _sum(self, rows: list[_Row], streams: list[_Row], in_parts: bool = False) -> _Row | None:
        """The total of the [SUM] rows; None where the streams must be added up.

        2.2.1 with -P now and then ends, with exit 0, before it has printed the last [SUM] row.
        That is no loss where every connected stream has its own total. Where intervals are left
        out because they came `in_parts`, those of the streams are whole, and `_check_sum` compares.
        """
        if in_parts and rows and rows[-1].start.value == 0:
            return rows[-1]
        if rows and (rows[-1].start.value == 0 or not streams):
            return _final(rows)
        expected = len(streams) > 1 and not self.csv and not self.udp
        if expected and len(self.ports) != len(streams):
            raise ParseError(0, f"{len(streams)} streams without a [SUM] row", "their [SUM] row")
        return None


def _bits(unit: str, of: str) -> float:
    """Bits in one of a rate's unit: of bits (-f m) by thousands, of bytes (-f M) by 1024."""
    return 1000.0 ** _UNITS[unit] if of == "bits" else 8 * 1024.0 ** _UNITS[unit]


def _stalls(rows: Sequence[_Row]) -> tuple[Stall, ...]:
    """The stalls of all together, or else those of streams."""
    found: dict[str, list[Stall]] = {}
    for name in dict.fromkeys(row.id for row in rows):
        still: list[Stall] = []
        for row in [row for row in rows if row.id == name][:-1]:
            start, end = row.start.value, row.end.value
            if row.bytes.value == 0 and still and still[-1].end_s == start:
                still[-1] = Stall(name, still[-1].start_s, end)
            elif row.bytes.value == 0:
                still.append(Stall(name, start, end))
        found[name] = still
    everything = found.pop("SUM", [])
    return tuple(everything or itertools.chain.from_iterable(found.values()))


def _bounceback(number: int, rest: str) -> Bounceback:
    matched = _BOUNCEBACK.match(rest)
    if matched is None:
        raise ParseError(number, _quote(rest), "cnt=avg/min/max/stdev ms")
    count, (average, least, most) = int(matched[1]), (float(matched[i]) for i in (2, 3, 4))
    if not least <= average <= most:
        raise ParseError(number, _quote(rest), "min <= avg <= max")
    return Bounceback(count, average * 1e3, least * 1e3, most * 1e3)


def _check_rate(row: _Row, line: str) -> None:
    """Whether bytes * 8 / seconds can be the rate, with all four as rounded."""
    seconds, half = row.end.value - row.start.value, row.start.half + row.end.half
    least = 8 * (row.bytes.value - row.bytes.half) / (seconds + half)
    most = 8 * (row.bytes.value + row.bytes.half) / (seconds - half) if seconds > half else math.inf
    if (row.rate.value + row.rate.half) * (1 + _SLACK) < least or (
        row.rate.value - row.rate.half
    ) * (1 - _SLACK) > most:
        rate = 8e-9 * row.bytes.value / seconds
        raise ParseError(row.line, _quote(line), f"a rate of {rate:.4g} Gb/s by its bytes and time")


def _final(rows: list[_Row]) -> _Row:
    """The total of one stream: the row from 0 to the end after intervals without a gap."""
    *intervals, last = rows
    name, clock, moved, half = last.id, 0.0, 0.0, last.bytes.half
    for row in intervals:
        if abs(row.start.value - clock) > row.start.half:
            found = f"[{name}] from {row.start.value:g} s"
            raise ParseError(row.line, found, f"its next interval from {clock:g} s, or its end")
        clock, moved, half = row.end.value, moved + row.bytes.value, half + row.bytes.half
    if last.start.value > 0:
        found = f"[{name}] ends with {last.start.value:g}-{last.end.value:g} s and has no total"
        raise ParseError(last.line, found, "a last row from 0 to the end of the run")
    if last.end.value < clock - last.end.half:
        found = f"a total of [{name}] to {last.end.value:g} s"
        raise ParseError(last.line, found, f"an end at {clock:g} s or later")
    if intervals:
        length = max(row.end.value - row.start.value for row in intervals)
        # One that moved to the last and then nothing more waited for its end, and has no row of
        # that; one that stood still before hung.
        waited = intervals[-1].bytes.value > 0 and moved >= last.bytes.value - half
        if last.end.value - clock > _TAIL * length and not waited:
            found = f"no interval of [{name}] from {clock:g} to {last.end.value:g} s"
            raise ParseError(last.line, found, "intervals to the end of the run")
    if moved > last.bytes.value * (1 + _SLACK) + half:
        found = f"a total of [{name}] of {last.bytes.value:.0f} bytes"
        raise ParseError(last.line, found, f"at least the {moved:.0f} bytes of its intervals")
    return last


def _check_sum(total: _Row, streams: list[_Row]) -> None:
    if total.of is not None and streams and total.of != len(streams):
        raise ParseError(total.line, f"[SUM-{total.of}]", f"the sum of {len(streams)} streams")
    if not streams:
        return
    moved = sum(row.bytes.value for row in streams)
    half = total.bytes.half + sum(row.bytes.half for row in streams)
    if abs(total.bytes.value - moved) > half + _SLACK * moved:
        found = f"a sum of {total.bytes.value:.0f} bytes"
        raise ParseError(total.line, found, f"the {moved:.0f} bytes of its {len(streams)} streams")
    ends = max(row.end.value for row in streams)
    if total.end.value > _SUM_LONGEST * ends:
        found = f"a sum to {total.end.value:g} s"
        raise ParseError(total.line, found, f"an end near the {ends:g} s of its streams")
    retransmits = [row.retransmits for row in streams if row.retransmits is not None]
    if total.retransmits not in (None, sum(retransmits)) and len(retransmits) == len(streams):
        found = f"a sum of {total.retransmits} retransmits"
        raise ParseError(total.line, found, f"the {sum(retransmits)} of its streams")


def _whole_time(total: _Row, streams: list[_Row]) -> Stream:
    """The sum's bytes, over the time until the last of its streams has ended.

    The sum has a clock of its own: the client of 2.2.1 ended it at 3.1 s for streams that a slow
    link held until 5.2 s, so that the rate that it prints was never there. Streams that started
    late have clocks that start late; then the sum's is the longer one.
    """
    ends = max((row.end.value for row in streams), default=0.0)
    printed = total.stream()
    if ends <= _SUM_SHORTER * total.end.value + total.end.half:
        return printed
    rate = 8e-9 * printed.transferred_bytes / (ends - printed.start_s)
    return dataclasses.replace(printed, end_s=ends, bandwidth_gbits_s=rate)


def _added(streams: list[_Row]) -> Stream:
    if len(streams) == 1:
        return streams[0].stream()
    retransmits = [row.retransmits for row in streams if row.retransmits is not None]
    return Stream(
        "SUM",
        min(row.start.value for row in streams),
        max(row.end.value for row in streams),
        round(sum(row.bytes.value for row in streams)),
        sum(row.rate.value for row in streams) / 1e9,
        sum(retransmits) if len(retransmits) == len(streams) else None,
    )


# ---- read ----------------------------------------------------------------------------------

# TCP delivers what the client wrote before it closed, so both sides count the same bytes.
_BYTES_SLACK = 0.01
# iperf ends a stream at the first write after its time; a stream that took much longer hung. A
# server starts a stream's clock when it comes to accept it, and its last one of sixteen half a run
# late on a busy machine: that nothing is lost is seen from the bytes and from the client's clock,
# and the time of the whole run makes no rate too high.
_SHORT, _SHORT_S, _LONG, _LONG_S = 0.95, 0.25, 1.1, 1.0


def read(
    client: str,
    *,
    server: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judges all that is known of one run; never raises for what a tool or a job wrote.

    Proved only with both calls at exit 0, the server's output and the options, all in agreement.
    Evidence that is not given leaves the reading unknown; evidence that contradicts refuses it.
    """
    sides = collect(TOOL, parse, client, server, calls)
    side, outputs, complaints = sides.names, sides.outputs, sides.complaints
    alone = server is None and not calls and options is None
    runs = _runs(outputs) if sides.parsed else []
    if sides.parsed:
        complaints += _direction_complaints(outputs, options, side)
    for run in runs:
        for role, output in run.items():
            if output.role not in (role, "unknown") and not alone:
                complaints.append(f"{side[role]}: the output is that of a {output.role}")
            complaints += [f"{side[role]}: {why}" for why in _complaints(output, options)]
            for call in sides.calls[role]:
                if call.seconds + CALL_SLACK_S < output.total.duration_s:
                    took = f"the call took {call.seconds:.1f} s"
                    spans = f"its rows span {output.total.duration_s:.1f} s"
                    complaints.append(f"{side[role]}: {took} but {spans}")
        if len(run) == 2:
            ends = "client", "server"
            sender, receiver = ends if run["client"].direction == "forward" else ends[::-1]
            named = {"client": side[sender], "server": side[receiver]}
            complaints += _disagreements(run[sender], run[receiver], named)
    notes = tuple(
        f"{side[role]}: [{stall.id}] moved nothing from {stall.start_s:g} to {stall.end_s:g} s, "
        f"{stall.end_s - stall.start_s:g} s long"
        for run in runs
        for role, output in run.items()
        for stall in output.stalls
    )
    if complaints:
        refused = Reading.refused("; ".join(dict.fromkeys(complaints)))
        return dataclasses.replace(refused, notes=notes, moved=tuple(map(_moved, runs)))
    receivers = [_receiver(run) for run in runs]
    measured = receivers[0]
    seen = _seen(runs[0], measured)
    if measured.udp and not measured.received:
        reason = f"{side['client']}: no report of the server: UDP rows say only what was sent"
        return dataclasses.replace(Reading.refused(reason, Completeness.UNKNOWN), seen=seen)
    measurements = tuple(
        measurement for run in runs for measurement in _measurements(run, sides.nodes, options)
    )
    moved = tuple(map(_moved, runs))
    missing = list(
        dict.fromkeys(what for run in runs for what in _missing(run, bool(calls), options))
    )
    if missing:
        reason = (
            "nothing in it is contradicted, but that the run finished is not proved without "
            + ", ".join(missing)
        )
        return Reading(
            True, reason, Completeness.UNKNOWN, measurements, seen, notes=notes, moved=moved
        )
    reason = (
        f"{measured.stream_count} stream(s) over {measured.total.duration_s:.1f} s: "
        "client and server ended with exit code 0 and agree on the bytes"
    )
    return Reading(True, reason, Completeness.PROVED, measurements, seen, notes=notes, moved=moved)


def _runs(outputs: Mapping[str, Output]) -> list[dict[str, Output]]:
    """The outputs by role, for every direction that the client's has."""
    return [
        {
            role: way
            for role, output in outputs.items()
            for way in output.ways
            if way.direction == ours.direction
        }
        for ours in outputs["client"].ways
    ]


def _receiver(run: Mapping[str, Output]) -> Output:
    """The output of the side that the bytes went to, where it is there."""
    forward = run["client"].direction == "forward"
    return run.get("server", run["client"]) if forward else run["client"]


def _moved(run: Mapping[str, Output]) -> Moved:
    """What went over the network in one direction, as its receiver counts it."""
    total = _receiver(run).total
    to: Literal["server", "client"] = "client"
    if run["client"].direction == "forward":
        to = "server"
    return Moved(total.transferred_bytes, _seconds(run, total), to)


def _seconds(run: Mapping[str, Output], row: Stream) -> float:
    """How long what the receiver's row counts took: by its own clock, or by the client's for the
    whole run where that started well before.
    """
    whole = run["client"].total.duration_s
    return whole if whole > _SUM_SHORTER * row.duration_s else row.duration_s


def _rate_gbits_s(run: Mapping[str, Output], row: Stream) -> float:
    if _seconds(run, row) == row.duration_s:
        return row.bandwidth_gbits_s
    return row.transferred_bytes * 8e-9 / _seconds(run, row)


def _direction_complaints(
    outputs: Mapping[str, Output], options: Options | None, side: Mapping[str, str]
) -> list[str]:
    told = {role: {way.direction for way in output.ways} for role, output in outputs.items()}
    complaints = []
    if len({frozenset(found) for found in told.values()}) > 1:
        ways = " and ".join(f"{side[role]} {'+'.join(sorted(w))}" for role, w in told.items())
        complaints.append(f"their streams go other ways: {ways}")
    if options is not None:
        asked = {"forward", "reverse"} if options.direction == "both" else {options.direction}
        for role, found in told.items():
            if found != asked:
                ways = " and ".join(sorted(found))
                wanted = " and ".join(sorted(asked))
                complaints.append(f"{side[role]}: streams {ways}, expected {wanted}")
    return complaints


def _buffered_s(row: Stream, options: Options) -> float:
    """How long what is in the socket buffer when the client stops writing takes, at the row's rate.

    With -w that is twice what was asked for (socket(7), SO_SNDBUF); the kernel's own is smaller.
    """
    if options.window_bytes is None or row.transferred_bytes == 0:
        return 0.0
    return row.duration_s * min(2 * options.window_bytes / row.transferred_bytes, 1)


def _complaints(output: Output, options: Options | None) -> list[str]:
    """What contradicts a good run in one output, and what was asked of it."""
    complaints = []
    still = [row.id for row in (*output.streams, output.total) if row.transferred_bytes == 0]
    if still:
        complaints.append(f"[{still[0]}] moved 0 bytes")
    if output.bounceback_asked and output.role != "server" and output.bounceback is None:
        complaints.append("a bounceback test without exactly one stream")
    if options is None:
        if output.bounceback_asked and output.role == "server":
            complaints.append("the server of a bounceback test prints no latency")
        return complaints
    if output.udp or output.bounceback_asked:
        complaints.append("the options ask for a TCP transfer, found UDP or bounceback")
    if output.stream_count not in (None, options.streams):
        complaints.append(f"{output.stream_count} streams, expected {options.streams}")
    least = 0 if output.role == "server" else _SHORT * options.duration_s - _SHORT_S
    rows = sorted((*output.streams, output.total), key=lambda row: row.duration_s)
    for row in (rows[0], rows[-1]):
        most = _LONG * options.duration_s + _LONG_S + options.drain_s + _buffered_s(row, options)
        if not least <= row.duration_s <= most:
            ran = f"[{row.id}] ran for {row.duration_s:.4g} s"
            complaints.append(f"{ran}, expected {least:g} to {most:g} s")
            break
    if options.congestion is not None and output.role != "server":
        if output.congestion != options.congestion:
            shown = output.congestion or "no congestion control shown"
            complaints.append(f"{shown}, expected {options.congestion}")
    elif options.congestion is not None and output.congestion not in (None, options.congestion):
        complaints.append(f"{output.congestion}, expected {options.congestion}")
    wanted, got = options.window_bytes, output.window_bytes
    if wanted is not None and got is not None and got < wanted * (1 - _SLACK):
        limits = "net.core.wmem_max and rmem_max"
        complaints.append(f"a window of {got:.0f} bytes, expected {wanted}: look at {limits}")
    return complaints


def _disagreements(sent: Output, received: Output, side: Mapping[str, str]) -> list[str]:
    complaints = []
    left, arrived = sent.total.transferred_bytes, received.total.transferred_bytes
    if sent.udp != received.udp:
        complaints.append(f"{side['client']} and {side['server']}: one is UDP, the other TCP")
    elif not sent.udp and abs(left - arrived) > _BYTES_SLACK * left:
        moved = f"{side['client']} sent {left} bytes but {side['server']} received {arrived}"
        complaints.append(moved)
    if None not in (sent.stream_count, received.stream_count) and (
        sent.stream_count != received.stream_count
    ):
        counts = f"{sent.stream_count} streams of {side['client']}"
        complaints.append(f"{counts} but {received.stream_count} of {side['server']}")
    ours, theirs = sent.client_ports, received.client_ports
    if ours and theirs and ours != theirs:
        complaints.append(f"{side['server']}: its connections are not those of {side['client']}")
    return complaints


def _missing(outputs: Mapping[str, Output], has_calls: bool, options: Options | None) -> list[str]:
    missing = []
    if not has_calls:
        missing.append("the exit codes of both sides")
    if "server" not in outputs:
        missing.append("the server's output")
    if options is None:
        missing.append("the options")
    for role, output in outputs.items():
        if output.role != role:
            missing.append(f"a text that names its side ({role})")
        if not output.streams:
            missing.append(f"a row for every stream ({role})")
        elif output.connected != len(output.streams):
            missing.append(f"a 'connected with' line for every stream ({role})")
    # A client cut before its total would leave its first interval in the total's place.
    interval = (options.interval_s if options else None) or 1
    if options is not None and options.duration_s <= interval and not outputs["client"].intervals:
        missing.append("an interval beside the total (client)")
    return missing


def _seen(outputs: Mapping[str, Output], measured: Output) -> dict[str, Any]:
    seen: dict[str, Any] = {"duration_s": measured.total.duration_s}
    if measured.stream_count is not None:
        seen["streams"] = measured.stream_count
    if mss := [size for output in outputs.values() for size in output.mss_bytes]:
        seen["mss_bytes"] = min(mss)
    if names := [output.congestion for output in outputs.values() if output.congestion]:
        seen["congestion"] = names[0]
    return seen


def _measurements(
    run: Mapping[str, Output], nodes: tuple[str, ...], options: Options | None
) -> tuple[Measurement, ...]:
    client, measured = run["client"], _receiver(run)
    sender = client if client.direction == "forward" else run.get("server")
    transport = "udp" if measured.udp else "tcp"
    operation = "bounceback" if client.bounceback else transport
    if client.direction == "reverse":
        # from server to client
        operation, nodes = f"{operation} reverse", nodes[::-1]
    metrics: dict[str, float] = {}
    if client.bounceback:
        metrics["latency"] = client.bounceback.avg_us
    else:
        metrics["bandwidth"] = _rate_gbits_s(run, measured.total)
        if measured.streams:
            slowest = min(_rate_gbits_s(run, stream) for stream in measured.streams)
            metrics["stream_bandwidth_min"] = slowest
        rows = (sender.streams or (sender.total,)) if sender else ()
        counts = [stream.retransmits for stream in rows]
        known = [count for count in counts if count is not None]
        if known and len(known) == len(counts):
            metrics["retransmits"] = sum(known)
        if options and options.interval_s is not None and measured.intervals:
            metrics["time_to_stable"] = time_to_stable_s(measured.intervals)
    return tuple(
        Measurement(
            metric,
            value,
            TOOL,
            operation,
            transport,
            streams=measured.stream_count,
            nodes=nodes,
            window_bytes=options.window_bytes if options else None,
            congestion=options.congestion if options else None,
        )
        for metric, value in metrics.items()
    )


#: A rate has come to stay where it is this share of what follows.
_STABLE = 0.9


def time_to_stable_s(intervals: Sequence[Stream]) -> float:
    """Seconds until the first interval that has 90 % of the median rate of the run's second half.

    The resolution is the length of an interval. ValueError where there are none.
    """
    if not intervals:
        raise ValueError("no intervals to find a stable rate in")
    rates = [interval.bandwidth_gbits_s for interval in intervals]
    stable = statistics.median(rates[len(rates) // 2 :])
    return next(i.start_s for i in intervals if i.bandwidth_gbits_s >= _STABLE * stable)
