"""perftest: RDMA bandwidth and latency between two nodes (ib_write_bw and its five siblings).

Good rows may stand above `Completion with error`, and a row may be cut in the middle of a number.
So a table counts only with the line of dashes that perftest prints below its last row, and a run
only where the exit codes, the server's own output and the options agree with it.

Formulas and limits are those of perftest 25.01 (src/perftest_parameters.c).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from railgauge.measurement import Measurement
from railgauge.tools import Call, Completeness, Moved, ParseError, Reading
from railgauge.tools.lines import NOTICE, plain
from railgauge.tools.sides import CALL_SLACK_S, collect

TOOL = "perftest"

Operation = Literal["write", "read", "send"]
Test = Literal["bw", "lat"]
Role = Literal["client", "server", "unknown"]

#: The sizes of a sweep (-a), in bytes. perftest has no option to end one earlier: a sweep that
#: must stay below 8 MiB is one run a size.
SWEEP_SIZES = tuple(2**power for power in range(1, 24))


# ---- options -------------------------------------------------------------------------------

_LIMITS = {
    "size_bytes": (1, 2**31 - 1),
    "iterations": (5, 2**32),
    "duration_s": (1, 2**31 - 1),
    "queue_pairs": (1, 16384),
    "traffic_class": (0, 255),
    "pkey_index": (0, 65535),
    "cuda_device": (0, 2**15),
    "qp_timeout": (1, 31),
}
_OPTIONAL = set(_LIMITS) - {"queue_pairs"}


@dataclasses.dataclass(frozen=True)
class Options:
    """What is asked of one run, on both sides alike; ValueError where it cannot be run.

    Either one size or a sweep, and either iterations or a duration. perftest's 99.9th percentile
    is the maximum below 1003 iterations. A duration (-D) leaves out its first and last quarter,
    measures no peak, and of a latency the average only. The server prints a table too, except in
    a read latency test: its own, or that of the client's last size (write, read). With -b both
    print the sum of the two directions. With rdma_cm the server's address must be that of its
    RDMA interface.
    """

    operation: Operation
    test: Test
    size_bytes: int | None = None
    #: every size from 2 B to 8 MiB (-a)
    sweep: bool = False
    #: per size and queue pair
    iterations: int | None = None
    duration_s: int | None = None
    bidirectional: bool = False
    queue_pairs: int = 1
    #: connect through librdmacm (-R)
    rdma_cm: bool = False
    #: byte with DSCP in its upper six bits
    traffic_class: int | None = None
    pkey_index: int | None = None
    #: how long a queue pair waits for an acknowledgement before it sends again: 4.096 us x 2^this
    #: (perftest's own is 14, 67 ms); librdmacm has its own
    qp_timeout: int | None = None
    #: number of the GPU that holds the buffers
    cuda_device: int | None = None

    def __post_init__(self) -> None:
        for name, known in (("operation", ("write", "read", "send")), ("test", ("bw", "lat"))):
            if getattr(self, name) not in known:
                raise ValueError(f"perftest {name} is {getattr(self, name)!r}, expected {known}")
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                expected = f"an integer of {least} to {most}"
                raise ValueError(f"perftest {name} is {value!r}, expected {expected}")
        for name in ("sweep", "bidirectional", "rdma_cm"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"perftest {name} is {getattr(self, name)!r}, expected a bool")
        self._require_possible()

    def _require_possible(self) -> None:
        latency = self.test == "lat"
        for wrong, why in (
            (self.sweep == (self.size_bytes is not None), "needs either size_bytes or sweep"),
            (
                (self.iterations is None) == (self.duration_s is None),
                "needs either iterations or duration_s",
            ),
            (self.sweep and self.duration_s is not None, "runs no sweep with duration_s"),
            (latency and self.bidirectional, "measures no latency with bidirectional"),
            (latency and self.queue_pairs != 1, "measures latency with 1 of queue_pairs"),
            (
                latency and self.operation == "write" and self.cuda_device is not None,
                "measures no write latency with cuda_device",
            ),
        ):
            if wrong:
                raise ValueError(f"perftest {why}")

    @property
    def program(self) -> str:
        return f"ib_{self.operation}_{self.test}"

    @property
    def sizes(self) -> tuple[int, ...]:
        return SWEEP_SIZES if self.size_bytes is None else (self.size_bytes,)


# ---- argv ----------------------------------------------------------------------------------


def version_argv() -> list[str]:
    """Prints perftest's own count ('Version: 6.24' of 25.01) and exits with 1."""
    return ["ib_write_bw", "--version"]


def server_argv(
    options: Options,
    port: str = "{port}",
    *,
    device: str = "{device}",
    ib_port: str = "{ib_port}",
    gid_index: str | None = "{gid_index}",
) -> list[str]:
    """The side that waits, on TCP port `port`; it ends by itself after one client.

    `gid_index` is None on InfiniBand. A probe of the port would be taken for the client.
    """
    argv = [options.program, "-d", device, "-i", ib_port]
    if gid_index is not None:
        argv += ["-x", gid_index]
    # -F: without it perftest warns, between header and rows, of a clock that is not constant.
    argv += ["-p", port, "-F", "-c", "RC"]
    if options.test == "bw":
        argv.append("--report_gbits")
    argv += ["-a"] if options.size_bytes is None else ["-s", str(options.size_bytes)]
    if options.iterations is not None:
        argv += ["-n", str(options.iterations)]
    if options.duration_s is not None:
        argv += ["-D", str(options.duration_s)]
    if options.bidirectional:
        argv.append("-b")
    if options.queue_pairs != 1:
        argv += ["-q", str(options.queue_pairs)]
    if options.rdma_cm:
        argv.append("-R")
    if options.qp_timeout is not None:
        argv += ["-u", str(options.qp_timeout)]
    if options.traffic_class is not None:
        argv.append(f"--tclass={options.traffic_class}")
    if options.pkey_index is not None:
        argv.append(f"--pkey_index={options.pkey_index}")
    if options.cuda_device is not None:
        argv.append(f"--use_cuda={options.cuda_device}")
    return argv


def client_argv(
    options: Options,
    server: str = "{server}",
    port: str = "{port}",
    *,
    device: str = "{device}",
    ib_port: str = "{ib_port}",
    gid_index: str | None = "{gid_index}",
) -> list[str]:
    """The side that measures: the server's options, with `device` and the rest of this node."""
    common = server_argv(options, port, device=device, ib_port=ib_port, gid_index=gid_index)
    return [*common, server]


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Bandwidth:
    """One size of a bandwidth test; of -b both directions together."""

    size_bytes: int
    #: of all queue pairs; of -b those of this side
    iterations: int
    bandwidth_gbits_s: float
    #: None where it is not measured: with -D, above 20000 iterations, on the server of a send
    peak_gbits_s: float | None
    message_rate_mmsg_s: float


@dataclasses.dataclass(frozen=True)
class Latency:
    """One size of a latency test: half of a round trip, of a read the whole.

    With -D only the average is measured. Of n iterations perftest sorts the n - 1 times between
    them, leaves the longest out, and calls the next one the maximum.
    """

    size_bytes: int
    iterations: int
    avg_us: float
    min_us: float | None = None
    max_us: float | None = None
    typical_us: float | None = None
    stdev_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    #: only with -D
    transactions_per_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Address:
    """One end of one queue pair. The PSN is drawn at random, so it tells one run from another."""

    #: 0 where the port has none (RoCE)
    lid: int
    qpn: int
    psn: int
    gid: str | None = None


@dataclasses.dataclass(frozen=True)
class Output:
    """One output of one run of one side: its rows, and the conditions that it states."""

    role: Role
    operation: Operation
    test: Test
    bidirectional: bool
    post_list: bool
    device: str
    queue_pairs: int
    #: IB (also for RoCE), IW (iWARP) or Unknown
    transport_type: str
    connection_type: str
    #: the path MTU that both sides agreed on
    mtu_bytes: int
    #: IB or Ethernet
    link_type: str
    gid_index: int | None
    rdma_cm: bool
    #: None on the server of one direction
    tx_depth: int | None
    #: per queue pair; empty where the output does not show them
    local: tuple[Address, ...]
    remote: tuple[Address, ...]
    #: by rising size; empty only for the server of a read latency test, which has no table
    rows: tuple[Bandwidth | Latency, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(row.size_bytes for row in self.rows)


# ---- parse ---------------------------------------------------------------------------------

# RESULT_LINE: above the header, and below the last row.
_RULE = re.compile(r"-{87,}")
_BANNER = re.compile(
    r"(?P<verb>RDMA_Write|RDMA_Read|Send) (?P<both>Bidirectional )?(?P<list>Post List )?"
    r"(?P<test>BW|Latency) Test"
)
_OTHER_BANNER = re.compile(r"(?:RDMA_|Send|Atomic)[ \w]* Test")
_WAITING = "Waiting for client to connect"
_INFO = re.compile(
    r"\b(Device|Number of qps|Transport type|Connection type|TX depth|Mtu|Link type|GID index|"
    r"rdma_cm QPs)\s*: *(\S+)"
)
_ADDRESS = re.compile(
    r"(local|remote) address:\s+LID (0x[0-9a-f]{1,8}|0{1,8}) QPN (0x[0-9a-f]{1,8}|0{1,8}) "
    r"PSN (0x[0-9a-f]{1,8}|0{1,8})(?:\s.*)?"
)
_GID = re.compile(r"GID:\s*(\S{2,64})")
_HISTOGRAM = re.compile(r"#, \w+")
_ROW_LIKE = re.compile(r"[0-9]+\s+[0-9]+\s+[0-9]")
# A row, or its end, behind something else.
_HIDDEN_ROW = re.compile(r"[0-9]\s+[0-9]+\.[0-9]+\s+[0-9]+\.[0-9]")
_INTEGER = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")

#: Gb/s in one of the unit; perftest divides by 2^20 for both of the others (report_fmt).
_RATE_UNITS = {"Gb/sec": 1.0, "MB/sec": 2**20 * 8e-9, "MiB/sec": 2**20 * 8e-9}
_COLUMNS = {
    "#bytes": "size",
    "#iterations": "iterations",
    "MsgRate[Mpps]": "message_rate",
    "t_min[usec]": "min",
    "t_max[usec]": "max",
    "t_typical[usec]": "typical",
    "t_avg[usec]": "avg",
    "t_stdev[usec]": "stdev",
    "99% percentile[usec]": "p99",
    "99.9% percentile[usec]": "p999",
    "tps average": "tps",
    **{f"BW peak[{unit}]": "peak" for unit in _RATE_UNITS},
    **{f"BW average[{unit}]": "average" for unit in _RATE_UNITS},
}
_BW_COLUMNS = {"size", "iterations", "peak", "average", "message_rate"}
_LAT_COLUMNS = {"size", "iterations", "min", "max", "typical", "avg", "stdev", "p99", "p999"}
_LAT_DURATION_COLUMNS = {"size", "iterations", "avg", "tps"}

#: What perftest prints where rounding made its variance negative; nothing is judged by it.
_NO_STDEV = ("nan", "-nan")

# Beyond the rounding of the digits: perftest truncates cycles to whole numbers.
_SLACK = 1e-3

# Harmless, although they read like an error; and the comments and prompts around a kept output.
_NOISE = re.compile(
    r"libibverbs: Warning:|# |Perftest doesn't supports CUDA tests with inline messages: inline|"
    r"new post send flow is not supported, falling back"
)
# perftest has some 500 messages of failure without a common form; a shell, slurm, the kernel's
# provider library or the loader may report for it.
_FAILURE = re.compile(
    r"\bfail(?:s|ed|ure)?\b|error\b|\b(?:could|does|do|is|are)n't\b|\bcan't\b|\bcannot\b|"
    r"\b(?:can|could|did|do|does) not\b|\bunable to\b|\bunexpected\b|\bunknown (?:state|conn)|"
    r"\bbad (?:wc|event)\b|\bpoll (?:send|receive|recv) cq\b|\bproblems? (?:in|with)\b|"
    r"\baborting\b|\bexiting\b|\binvalid\b|\bincompatib|\bnot compatible\b|\bunsupported by\b|"
    r"\bno (?:ib )?devices? found|\bno (?:available|such)\b|"
    r"\bnot (?:found|available|supported|possible|detected)\b|"
    r"^there are no\b|^unsupported\b|\bport number [0-9]+ state is\b|^link layer on port\b|"
    r"\bmust (?:be|not|specify)\b|\bonly (?:available|supported|supports|valid|possible)\b|"
    r"\b(?:available|supported) (?:only|in|on)\b|^duplicated argument|\btoo big\b|"
    r"\brefused\b|\brejected\b|\breset by peer\b|broken pipe|timed ?out|\bunreachable\b|no route|"
    r"\bdenied\b|\bnot permitted\b|unrecogni[sz]ed option|requires an argument|^usage:|"
    r"\bplease (?:check|choose|increase|provide)\b|\buser stopped\b|\bterminated\b|\bkilled\b|"
    r"\bcancelled\b|\baborted?\b|segmentation fault|core dumped|bus error|out of memory|"
    r"double free|out of range",
    re.IGNORECASE,
)


class _Shown(NamedTuple):
    """A number as printed, and half a unit of its last digit."""

    value: float
    half: float

    @classmethod
    def of(cls, text: str, factor: float = 1.0) -> _Shown:
        decimals = len(text.partition(".")[2])
        return cls(float(text) * factor, 0.5 * 10.0**-decimals * factor)


class _Column(NamedTuple):
    #: '' for a column that is not read
    field: str
    factor: float


def parse(text: str) -> Output:
    """The result of one client's or one server's output (stdout, with stderr if it was kept).

    Columns are found by their header. ParseError where perftest reports an error, where the table
    or its end is missing, where rows contradict themselves beyond rounding, where a size stands
    there twice (the intervals of --run_infinitely are no result), and where the text holds more
    than one test: two sides of one run are two outputs.
    """
    # Not splitlines(): it also breaks at form feeds and the like, and line numbers would be off.
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1)]
    if not any(line for _, line in lines):
        raise ParseError(0, "nothing", "the output of perftest")
    # An error explains missing rows, so it is told first, wherever it stands.
    for number, line in lines:
        message, _ = plain(line.removeprefix("STDERR: "))
        harmless = _NOISE.match(message) or NOTICE.match(message)
        if _FAILURE.search(message) and not harmless:
            raise ParseError(number, _quote(message), "no error message")
    reader = _Reader()
    for number, line in lines:
        text, tag = plain(line)
        if text and not line.startswith("STDERR: "):
            reader.take(number, text, tag)
    return reader.output()


def _quote(line: str) -> str:
    return ascii(line[:120])


class _Reader:
    """Takes the lines of one output in their order; `output` then judges what is missing."""

    def __init__(self) -> None:
        self.role: Role | None = None
        self.banner: re.Match[str] | None = None
        self.info: dict[str, str] = {}
        self.addresses: dict[str, list[Address]] = {"local": [], "remote": []}
        self.last_side: str | None = None
        self.columns: list[_Column] = []
        self.rows: list[Bandwidth | Latency] = []
        # A table is open from its header to its rule; a histogram (-H) from its title to the
        # header that comes again below it.
        self.place: Literal["head", "table", "histogram", "closed"] = "head"
        self.ruled = False
        #: what a launcher put before the name of the test
        self.tag = ""

    def take(self, number: int, line: str, tag: str) -> None:
        if _WAITING in line or _BANNER.fullmatch(line) or _OTHER_BANNER.fullmatch(line):
            self._take_banner(number, line)
            self.tag = tag
        elif self.banner is None:
            return
        elif line.startswith("#bytes"):
            self._take_header(number, line)
        elif self.place == "head":
            self._take_head(number, line)
        elif self.place == "table":
            self._take_table(number, line, tag)
        elif self.place == "closed" and _ROW_LIKE.match(line):
            raise ParseError(number, "a row below the end of the table", "nothing more")

    def _take_banner(self, number: int, line: str) -> None:
        if self.banner is not None or (self.role and _WAITING in line):
            raise ParseError(number, f"another test, {_quote(line)}", "one run of one side")
        if _WAITING in line:
            self.role = "server"
            return
        self.banner = _BANNER.fullmatch(line)
        if self.banner is None:
            expected = "a BW or Latency test of RDMA_Write, RDMA_Read or Send"
            raise ParseError(number, _quote(line), expected)

    def _take_head(self, number: int, line: str) -> None:
        if _RULE.fullmatch(line):
            self.ruled = bool(self.addresses["remote"])
        elif address := _ADDRESS.fullmatch(line):
            side = address[1]
            lid, qpn, psn = (int(address[group], 16) for group in (2, 3, 4))
            self.addresses[side].append(Address(lid, qpn, psn))
            self.last_side, self.ruled = side, False
        elif (gid := _GID.fullmatch(line)) and self.last_side is not None:
            last = self.addresses[self.last_side].pop()
            self.addresses[self.last_side].append(dataclasses.replace(last, gid=gid[1]))
            self.last_side = None
        elif line.startswith(("local address", "remote address")):
            raise ParseError(number, _quote(line), "LID, QPN and PSN")
        for name, value in _INFO.findall(line):
            if self.info.setdefault(name, value) != value:
                expected = f"{name} {self.info[name]} as above"
                raise ParseError(number, _quote(line), expected)

    def _take_header(self, number: int, line: str) -> None:
        if self.place in ("table", "closed"):
            raise ParseError(number, "another table", "one table")
        columns = _columns(number, line)
        if self.columns not in ([], columns):
            raise ParseError(number, _quote(line), "the columns of the first header")
        self.columns, self.place = columns, "table"

    def _take_table(self, number: int, line: str, tag: str) -> None:
        if _RULE.fullmatch(line):
            if not self.rows:
                raise ParseError(number, "the end of a table without rows", "a row")
            self.place = "closed"
        elif _HISTOGRAM.fullmatch(line):
            self.place = "histogram"
        elif line[0] in "0123456789.":
            if tag != self.tag:
                mine, other = self.tag or "no tag", tag or "no tag"
                raise ParseError(number, f"a row of {other} in the table of {mine}", "one table")
            row = self._row(number, line)
            if self.rows and row.size_bytes <= self.rows[-1].size_bytes:
                found = f"{row.size_bytes} bytes after {self.rows[-1].size_bytes}"
                raise ParseError(number, found, "every size once, in rising order")
            # Only -a has several sizes, from 2 bytes on.
            if self.rows:
                sizes = [*(row.size_bytes for row in self.rows), row.size_bytes]
                left_out = next(
                    (s for s, size in zip(SWEEP_SIZES, sizes, strict=False) if s != size), None
                )
                if left_out is not None:
                    found = f"no row of {left_out} bytes above {_quote(line)}"
                    raise ParseError(
                        number, found, "a sweep from 2 bytes, each size twice the last"
                    )
            self.rows.append(row)
        elif _HIDDEN_ROW.search(line):
            raise ParseError(number, _quote(line), "a row, or nothing that may hold one")

    def _row(self, number: int, line: str) -> Bandwidth | Latency:
        words = line.split()
        if len(words) != len(self.columns):
            found = f"{len(words)} values in {_quote(line)}"
            raise ParseError(number, found, f"one for each of {len(self.columns)} columns")
        shown: dict[str, _Shown] = {}
        for word, column in zip(words, self.columns, strict=True):
            whole = column.field in ("size", "iterations")
            if column.field == "stdev" and word in _NO_STDEV:
                continue
            if column.field and not (_INTEGER if whole else _NUMBER).fullmatch(word):
                expected = "an integer" if whole else "a number of 0 or more"
                raise ParseError(number, f"{_quote(word)} for {column.field}", expected)
            if column.field:
                shown[column.field] = _Shown.of(word, column.factor)
        if not shown["size"].value or not shown["iterations"].value:
            raise ParseError(number, _quote(line), "a size and iterations of 1 or more")
        if "average" in shown:
            return _bandwidth(number, line, shown)
        assert self.banner is not None, "rows come after the banner"
        return _latency(number, line, shown, 1 if self.banner["verb"] == "RDMA_Read" else 2)

    def output(self) -> Output:
        if self.banner is None:
            expected = "a line such as 'RDMA_Write BW Test': the head of the output"
            raise ParseError(0, "no name of the test", expected)
        operations: dict[str, Operation] = {
            "RDMA_Write": "write",
            "RDMA_Read": "read",
            "Send": "send",
        }
        operation = operations[self.banner["verb"]]
        test: Test = "bw" if self.banner["test"] == "BW" else "lat"
        self._require_table(operation, test)
        # A sweep has all sizes; datagrams, and EFA's, end at what one of them may be.
        largest = self.rows[-1].size_bytes if len(self.rows) > 1 else SWEEP_SIZES[-1]
        if largest != SWEEP_SIZES[-1] and self._stated("Connection type") in ("RC", "UC"):
            missing = f"no row of {2 * largest} bytes below that of {largest}"
            raise ParseError(0, missing, f"a sweep to {SWEEP_SIZES[-1]} bytes")
        queue_pairs = self._integer("Number of qps")
        for side, found in self.addresses.items():
            if len(found) != queue_pairs and (any(self.addresses.values())):
                expected = f"{queue_pairs}, one a queue pair"
                raise ParseError(0, f"{len(found)} {side} addresses", expected)
        return Output(
            role=self.role or ("client" if "TX depth" in self.info else "unknown"),
            operation=operation,
            test=test,
            bidirectional=self.banner["both"] is not None,
            post_list=self.banner["list"] is not None,
            device=self._stated("Device"),
            queue_pairs=queue_pairs,
            transport_type=self._stated("Transport type"),
            connection_type=self._stated("Connection type"),
            mtu_bytes=self._integer("Mtu"),
            link_type=self._stated("Link type"),
            gid_index=self._integer("GID index") if "GID index" in self.info else None,
            rdma_cm=self._stated("rdma_cm QPs") == "ON",
            tx_depth=self._integer("TX depth") if "TX depth" in self.info else None,
            local=tuple(self.addresses["local"]),
            remote=tuple(self.addresses["remote"]),
            rows=tuple(self.rows),
        )

    def _require_table(self, operation: Operation, test: Test) -> None:
        if self.place == "head":
            silent = (self.role, operation, test) == ("server", "read", "lat")
            if not (silent and self.ruled):
                raise ParseError(0, "no table", "a header '#bytes #iterations ...' and its rows")
            return
        columns = {column.field for column in self.columns}
        if (test == "bw") != ("average" in columns):
            raise ParseError(0, "the columns of another test", f"those of a {test} test")
        if not self.rows:
            raise ParseError(0, "no row below the header", "a row for every size")
        if self.place != "closed":
            found = f"the table open after {self.rows[-1].size_bytes} bytes"
            raise ParseError(0, found, "a line of dashes below the last row")

    def _stated(self, name: str) -> str:
        if name not in self.info:
            raise ParseError(0, f"no {name!r}", "the head of the output")
        return self.info[name]

    def _integer(self, name: str) -> int:
        text = self._stated(name).removesuffix("[B]")
        if not _INTEGER.fullmatch(text):
            raise ParseError(0, f"{name} {_quote(text)}", "an integer")
        return int(text)


def _columns(number: int, line: str) -> list[_Column]:
    """What each value of a row is; names of two words have one blank, columns two or more."""
    names: list[str] = []
    for chunk in re.split(r"\s\s+|\t", line):
        open_name = False
        for word in chunk.split():
            if open_name and not word.startswith("#"):
                names[-1] += f" {word}"
            else:
                names.append(word)
            open_name = not (word.endswith("]") or word.startswith("#"))
    columns = []
    for name in names:
        unit = name.partition("[")[2].removesuffix("]")
        columns.append(_Column(_COLUMNS.get(name, ""), _RATE_UNITS.get(unit, 1.0)))
    fields = [column.field for column in columns if column.field]
    wanted = (_BW_COLUMNS, _LAT_COLUMNS, _LAT_DURATION_COLUMNS)
    if len(fields) != len(set(fields)) or set(fields) not in wanted:
        expected = "the columns of a bandwidth or latency test, each once"
        raise ParseError(number, _quote(line), expected)
    return columns


def _bandwidth(number: int, line: str, shown: Mapping[str, _Shown]) -> Bandwidth:
    size, average, peak = shown["size"].value, shown["average"], shown["peak"]
    if average.value == 0:
        raise ParseError(number, _quote(line), "a bandwidth above 0")
    # Gb/s from Mmsg/s
    factor = size * 8e-3
    rate = shown["message_rate"]
    allowed = average.half + rate.half * factor + 1e-9 * average.value
    if abs(average.value - rate.value * factor) > allowed:
        expected = f"the {rate.value * factor:.6g} Gb/s of its message rate and size"
        raise ParseError(number, f"{average.value:.6g} Gb/s in {_quote(line)}", expected)
    if peak.value > 0 and (peak.value + peak.half) * (1 + _SLACK) < average.value - average.half:
        raise ParseError(number, _quote(line), "a peak of the average or more")
    return Bandwidth(
        size_bytes=int(size),
        iterations=int(shown["iterations"].value),
        bandwidth_gbits_s=average.value,
        peak_gbits_s=peak.value or None,
        message_rate_mmsg_s=rate.value,
    )


def _latency(number: int, line: str, shown: Mapping[str, _Shown], ways: int) -> Latency:
    """`ways`: how often a round trip is halved, 2, or not, 1."""
    value = {name: number.value for name, number in shown.items()}
    if value["avg"] == 0:
        raise ParseError(number, _quote(line), "a latency above 0")
    # Rounding keeps an order, so no slack is needed.
    if "tps" not in value:
        least, most = value["min"], value["max"]
        ordered = least <= value["typical"] <= value["p99"] <= value["p999"] <= most
        if not (value["typical"] > 0 and ordered and least <= value["avg"] <= most):
            expected = "0 < min <= typical <= 99 % <= 99.9 % <= max, and the average between"
            raise ParseError(number, _quote(line), expected)
    else:
        average, rate = shown["avg"], shown["tps"]
        allowed = average.half / average.value + rate.half / max(rate.value, rate.half) + _SLACK
        if abs(average.value * rate.value * ways / 1e6 - 1) > allowed:
            raise ParseError(number, _quote(line), f"tps of {1e6 / ways:.0f} / t_avg")
    return Latency(
        size_bytes=int(value["size"]),
        iterations=int(value["iterations"]),
        avg_us=value["avg"],
        min_us=value.get("min"),
        max_us=value.get("max"),
        typical_us=value.get("typical"),
        stdev_us=value.get("stdev"),
        p99_us=value.get("p99"),
        p999_us=value.get("p999"),
        transactions_per_s=value.get("tps"),
    )


# ---- read ----------------------------------------------------------------------------------

# A run with -D counts in the middle half of its time, older versions in all but 4 s.
_SHORT, _LONG, _LONG_S = 0.2, 1.1, 1.0
# The two sides of one number may round it to another count of digits.
_AGREE, _AGREE_GBITS_S = 0.01, 0.01


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
    complaints += _short_calls(sides.calls, options)
    if sides.parsed:
        alone = server is None and not calls and options is None
        for role, output in outputs.items():
            if output.role not in (role, "unknown") and not alone:
                complaints.append(f"{side[role]}: the output is that of a {output.role}")
            complaints += [f"{side[role]}: {why}" for why in _complaints(output, role, options)]
        if server is not None:
            complaints += _disagreements(outputs["client"], outputs["server"], side)
    if complaints:
        return Reading.refused("; ".join(complaints))
    measured = outputs["client"]
    measurements = tuple(
        measurement
        for row in measured.rows
        for measurement in _measurements(measured, row, sides.nodes)
    )
    moved = _moved(measured, options)
    missing = _missing(outputs, bool(calls), options)
    if missing:
        reason = (
            "nothing in it is contradicted, but that the run finished is not proved without "
            + ", ".join(missing)
        )
        return Reading(
            True, reason, Completeness.UNKNOWN, measurements, _seen(outputs), moved=moved
        )
    reason = (
        f"{len(measured.rows)} size(s) of ib_{measured.operation}_{measured.test}: client and "
        "server ended with exit code 0 and agree on the connection"
    )
    return Reading(True, reason, Completeness.PROVED, measurements, _seen(outputs), moved=moved)


def _moved(output: Output, options: Options | None) -> tuple[Moved, ...]:
    """Every size's messages, each way that they went; a latency's are next to nothing.

    Without the options it is not known whether it was a time that was measured (-D): then what was
    counted is a part.
    """
    at_least = options is None or options.duration_s is not None
    ways: tuple[Literal["server", "client"], ...] = (
        ("server", "client")
        if output.bidirectional
        else ("client" if output.operation == "read" else "server",)
    )
    moved = []
    for row in output.rows:
        if not isinstance(row, Bandwidth) or not row.bandwidth_gbits_s:
            continue
        payload = row.size_bytes * row.iterations
        # Of both ways the rate is the sum.
        seconds = 8e-9 * payload * len(ways) / row.bandwidth_gbits_s
        moved += [Moved(payload, seconds, to, row.size_bytes, at_least) for to in ways]
    return tuple(moved)


def _short_calls(calls: Mapping[str, list[Call]], options: Options | None) -> list[str]:
    """Calls that ended before the time that they were to run."""
    asked = (options.duration_s if options else None) or 0
    return [
        f"{role} on {call.host}: the call took {call.seconds:.1f} s, asked to run {asked} s"
        for role, found in calls.items()
        for call in found
        if not call.failure and call.seconds + CALL_SLACK_S < asked
    ]


def _one_sided(output: Output) -> bool:
    """Whether the server has nothing to measure and prints what the client told it at the end."""
    return output.test == "bw" and output.operation != "send" and not output.bidirectional


def _complaints(output: Output, role: str, options: Options | None) -> list[str]:
    """What contradicts a good run in one output, and what was asked of it."""
    complaints = []
    if role == "client" and not output.rows:
        complaints.append("no row: the server of a read latency test has none")
    ours, theirs = _places(output.local), _places(output.remote)
    if ours & theirs:
        complaints.append(f"loopback: both ends are {min(ours & theirs)}")
    if _transport(output) is None:
        link = f"link type {output.link_type}, transport type {output.transport_type}"
        complaints.append(f"{link}, expected InfiniBand, RoCE or iWARP")
    if options is None:
        return complaints
    for name, found, wanted in (
        ("operation", output.operation, options.operation),
        ("test", output.test, options.test),
        ("bidirectional", output.bidirectional, options.bidirectional),
        ("post list", output.post_list, False),
        ("queue pairs", output.queue_pairs, options.queue_pairs),
        ("rdma_cm", output.rdma_cm, options.rdma_cm),
        ("connection type", output.connection_type, "RC"),
    ):
        if found != wanted:
            complaints.append(f"{name} {found}, expected {wanted}")
    expected = options.sizes
    if role == "server" and _one_sided(output):
        expected = expected[-1:]
    if output.rows and output.sizes != expected:
        missing = [size for size in expected if size not in output.sizes]
        other = [size for size in output.sizes if size not in expected]
        found = f"no row of {missing[0]} bytes" if missing else f"a row of {other[0]} bytes"
        complaints.append(f"{found}, expected {_listed(expected)}")
    for row in output.rows:
        if why := _row_complaint(row, options):
            complaints.append(f"{row.size_bytes} bytes: {why}")
            break
    return complaints


def _listed(sizes: Sequence[int]) -> str:
    return f"{sizes[0]} bytes" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} bytes"


def _places(addresses: Sequence[Address]) -> set[str]:
    """The ports that addresses name: by GID, or by LID where the port has one."""
    places = {address.gid or f"LID {address.lid:#x}" for address in addresses}
    return places - {"LID 0x0"}


def _row_complaint(row: Bandwidth | Latency, options: Options) -> str | None:
    if options.iterations is not None:
        wanted = options.iterations * options.queue_pairs
        if row.iterations != wanted:
            return f"{row.iterations} iterations, expected {wanted}"
        if isinstance(row, Latency) and row.typical_us is None:
            return "an average only, expected iterations one by one"
        return None
    assert options.duration_s is not None, "Options has iterations or a duration"
    if isinstance(row, Bandwidth):
        if row.peak_gbits_s is not None:
            return "a peak was measured, expected none with a duration"
        # the rate is printed to one message a second
        rate, half = row.message_rate_mmsg_s * 1e6, 0.5
    elif row.transactions_per_s is None:
        return "iterations one by one, expected an average over a duration"
    else:
        rate, half = row.transactions_per_s, 0.005
    if row.iterations < _SHORT * options.duration_s * (rate - half):
        return f"{row.iterations} iterations, too few for {options.duration_s} s at its rate"
    if row.iterations > (_LONG * options.duration_s + _LONG_S) * (rate + half):
        return f"{row.iterations} iterations, too many for {options.duration_s} s at its rate"
    return None


def _disagreements(ours: Output, theirs: Output, side: Mapping[str, str]) -> list[str]:
    complaints = []
    both = f"{side['client']} and {side['server']}"
    for name in (
        "operation",
        "test",
        "bidirectional",
        "post_list",
        "queue_pairs",
        "rdma_cm",
        "connection_type",
        "transport_type",
        "mtu_bytes",
        "link_type",
    ):
        one, other = getattr(ours, name), getattr(theirs, name)
        if one != other:
            complaints.append(f"{both}: {name} {one} and {other}")
    complaints += _address_disagreements(ours, theirs, side)
    if not theirs.rows:
        return complaints
    copied = _one_sided(ours)
    if theirs.sizes != (ours.sizes[-1:] if copied else ours.sizes):
        complaints.append(f"{both}: the sizes of the rows differ")
    elif copied or (ours.bidirectional and ours.operation != "send"):
        for one, other in zip(ours.rows[-len(theirs.rows) :], theirs.rows, strict=True):
            if not _same_row(one, other, copied):
                complaints.append(f"{both}: the rows of {one.size_bytes} bytes differ")
                break
    return complaints


def _address_disagreements(ours: Output, theirs: Output, side: Mapping[str, str]) -> list[str]:
    for one, other, near, far in (
        (ours.remote, theirs.local, "client", "server"),
        (theirs.remote, ours.local, "server", "client"),
    ):
        if not one or not other or one == other:
            continue
        reached, there = _places(one), _places(other)
        if reached and there and reached != there:
            return [
                f"{side[near]} reached {', '.join(sorted(reached))}, "
                f"but {side[far]} is {', '.join(sorted(there))}"
            ]
        return [f"{side['server']}: its connections are not those of {side['client']}"]
    return []


def _same_row(one: Bandwidth | Latency, other: Bandwidth | Latency, copied: bool) -> bool:
    if not (isinstance(one, Bandwidth) and isinstance(other, Bandwidth)):
        return False
    if copied and one.iterations != other.iterations:
        return False
    apart = abs(one.bandwidth_gbits_s - other.bandwidth_gbits_s)
    return apart <= _AGREE_GBITS_S + _AGREE * one.bandwidth_gbits_s


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
        if not output.local:
            missing.append(f"the addresses of both ends ({role})")
        elif _transport(output) == "rdma":
            missing.append(f"a LID: link type IB with LID 0 may be RoCE ({role})")
    return missing


def _transport(output: Output) -> str | None:
    """The transport, None where it is none that is known.

    A port whose link layer is not told counts as IB for perftest (seen of RoCE with rdma_cm). No
    InfiniBand port has LID 0, so such a run is only called 'rdma'.
    """
    if output.transport_type == "IW":
        return "iwarp"
    if output.transport_type != "IB" or output.link_type not in ("IB", "Ethernet"):
        return None
    if output.link_type == "Ethernet":
        return "roce"
    unknown = output.local and not any(end.lid for end in (*output.local, *output.remote))
    return "rdma" if unknown else "infiniband"


def _seen(outputs: Mapping[str, Output]) -> dict[str, Any]:
    measured = outputs["client"]
    sides = [outputs[role] for role in ("server", "client") if role in outputs]
    iterations = sorted({row.iterations for row in measured.rows})
    seen: dict[str, Any] = {
        "active_mtu_bytes": measured.mtu_bytes,
        "link_type": measured.link_type,
        "devices": [output.device for output in sides],
        "queue_pairs": measured.queue_pairs,
        "rdma_cm": measured.rdma_cm,
        "connection_type": measured.connection_type,
        "sizes": list(measured.sizes),
        "iterations": iterations[0] if len(iterations) == 1 else iterations,
    }
    if indices := [output.gid_index for output in sides if output.gid_index is not None]:
        seen["gid_index"] = indices[0] if len(set(indices)) == 1 else indices
    return seen


def is_maximum(iterations: int, share: float) -> bool:
    """Whether perftest's percentile of so many iterations is nothing but its maximum.

    It takes both from the same sorted times: the maximum at n - 3, the percentile at
    ceil((n - 3) share).
    """
    last = iterations - 3
    return math.ceil(last * share) >= last


def _measurements(
    output: Output, row: Bandwidth | Latency, nodes: tuple[str, ...]
) -> list[Measurement]:
    metrics: dict[str, float | None] = {}
    if isinstance(row, Bandwidth):
        metrics["bandwidth"] = row.bandwidth_gbits_s
        metrics["bandwidth_peak"] = row.peak_gbits_s
        # 0 where it is below what six digits show
        metrics["message_rate"] = row.message_rate_mmsg_s or None
    else:
        metrics["latency"] = row.typical_us
        metrics["latency_min"] = row.min_us
        metrics["latency_avg"] = row.avg_us
        metrics["latency_p99"] = None if is_maximum(row.iterations, 0.99) else row.p99_us
        if is_maximum(row.iterations, 0.999):
            metrics["latency_max"] = row.max_us
        else:
            metrics["latency_p999"] = row.p999_us
    return [
        Measurement(
            metric,
            value,
            TOOL,
            f"{output.operation}_bidirectional" if output.bidirectional else output.operation,
            _transport(output) or "",
            size_bytes=row.size_bytes,
            streams=output.queue_pairs,
            nodes=nodes,
            samples=row.iterations,
        )
        for metric, value in metrics.items()
        if value is not None
    ]
