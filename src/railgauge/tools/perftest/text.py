"""What perftest prints, as the rows of one test."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from railgauge.tools import ParseError
from railgauge.tools.common.lines import DIED, NOTICE, STDERR, numbered, plain, quote, searched
from railgauge.tools.common.numbers import Shown
from railgauge.tools.perftest.document import is_document, parse_json
from railgauge.tools.perftest.options import SWEEP_SIZES, Operation, Test
from railgauge.tools.perftest.result import Address, Bandwidth, Latency, Output, Role

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
    r"rdma_cm QPs|NUMA node)\s*: *(\S+)"
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

# https://github.com/linux-rdma/perftest 26.04, src/perftest_resources.c:
# data_validation_stop_and_report. The exit code says nothing of it. `VALIDATION: FAILED` is a line
# of failure like others.
_VALIDATION = re.compile(
    r"VALIDATION: (?:PASSED(?: \([\w ]{1,40}\))? - [0-9]{1,18} chunks, ([0-9]{1,18}) bytes\b.*)?"
)

#: What --report-both prints above the table of each way, in its order.
_PARTS = ["Local results:", "Remote results:"]
# The sum of two rounded numbers. Small ones have six digits.
_WAYS, _WAYS_GBITS_S = 0.01, 0.015

# Beyond the rounding of the digits: perftest truncates cycles to whole numbers.
_SLACK = 1e-3

# Harmless, although they read like an error; and the comments and prompts around a kept output.
# https://github.com/linux-rdma/perftest, src, 25.07 to 26.07: perftest goes on after each of them.
_NOISE = re.compile(
    r"# |Perftest doesn't supports .{1,40} tests with inline messages: inline|"
    r"new post send flow is not supported, falling back|"
    r"\[HOST_MEMORY\] .{1,20} pages not available, trying next"
)
# Whatever else it says, a warning is none of an end.
_WARNING = re.compile(r"(?:libibverbs: )?warning:", re.IGNORECASE)
_died = searched(re.compile(DIED, re.IGNORECASE))
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
    r"\b(?:available|supported) (?:only|in|on)\b|^duplicated argument|(?<!\bmight be )\btoo big\b|"
    r"\brefused\b|\brejected\b|\breset by peer\b|broken pipe|timed ?out|\bunreachable\b|no route|"
    r"\bdenied\b|\bnot permitted\b|unrecogni[sz]ed option|requires an argument|^usage:|"
    r"\bplease (?:check|choose|increase|provide)\b|\buser stopped\b|\babort\b|"
    r"out of range|" + DIED,
    re.IGNORECASE,
)
_failure = searched(_FAILURE)
#: --run_infinitely says so where a user ends it; of another run it is a failure.
_STOPPED = "User stopped traffic"
# Why a completion failed: ibv_wc_status_str.
_STATUS = re.compile(r"Failed status\b")


def _harmless(message: str) -> bool:
    """Whether a line with words of failure is none of a failure."""
    if message == _STOPPED:
        return True
    warns = _WARNING.match(message) is not None and not _died(message)
    return warns or bool(_NOISE.match(message) or NOTICE.match(message))


class _Column(NamedTuple):
    #: '' for a column that is not read
    field: str
    factor: float


def parse(text: str) -> Output:
    """The result of one client's or one server's output (stdout, with stderr if it was kept).

    Columns are found by their header. ParseError where perftest reports an error, where the table
    or its end is missing, where rows contradict themselves beyond rounding, where a size stands
    there twice, and where the text holds more than one test: two sides of one run are two outputs.
    --run_infinitely prints a row of one size every few seconds, without a peak, and no end.
    """
    if is_document(text):
        return parse_json(text)
    lines = [(number, line.strip()) for number, line in numbered(text)]
    if not any(line for _, line in lines):
        raise ParseError(0, "nothing", "the output of perftest")
    # An error explains missing rows, so it is reported first, wherever it stands; and one that says
    # why before one that says that there was one.
    messages = [(number, plain(line.removeprefix(STDERR))[0]) for number, line in lines]
    errors = [each for each in messages if _failure(each[1]) and not _harmless(each[1])]
    if errors:
        number, message = next((each for each in errors if _STATUS.match(each[1])), errors[0])
        raise ParseError(number, quote(message), "no error message")
    reader = _Reader()
    for number, line in lines:
        body, tag = plain(line)
        if body and not line.startswith(STDERR):
            reader.take(number, body, tag)
    output = reader.output()
    if output.sampled and not text.endswith("\n"):
        raise ParseError(lines[-1][0], "a row without a line end", "whole rows")
    return output


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
        #: of --report-both: the table of each way, below that of both
        self.parts: list[_Reader] = []
        self.ruled = False
        #: of --data_validation
        self.validated_bytes: int | None = None
        #: the line in which a user ended it
        self.stopped = 0
        #: what a launcher put before the name of the test
        self.tag = ""

    def take(self, number: int, line: str, tag: str) -> None:
        if line == _STOPPED:
            self.stopped = number
        elif _WAITING in line or _BANNER.fullmatch(line) or _OTHER_BANNER.fullmatch(line):
            self._take_banner(number, line)
            self.tag = tag
        elif self.banner is None:
            return
        elif validation := _VALIDATION.match(line):
            self._take_validation(number, line, validation[1])
        elif line in _PARTS:
            self._take_part(number, line)
        elif self.parts:
            self.parts[-1].take(number, line, tag)
        elif line.startswith("#bytes"):
            self._take_header(number, line)
        elif self.place == "head":
            self._take_head(number, line)
        elif self.place == "table":
            self._take_table(number, line, tag)
        elif self.place == "closed" and _ROW_LIKE.match(line):
            raise ParseError(number, "a row below the end of the table", "nothing more")

    def _take_validation(self, number: int, line: str, validated: str | None) -> None:
        """How the bytes of a run with --data_validation compared with those that were sent."""
        if validated is None or int(validated) == 0:
            raise ParseError(number, quote(line), "VALIDATION: PASSED, with the bytes")
        if self.validated_bytes is not None:
            raise ParseError(number, "another validation", "one of each side")
        self.validated_bytes = int(validated)

    def _take_banner(self, number: int, line: str) -> None:
        if self.banner is not None or (self.role and _WAITING in line):
            raise ParseError(number, f"another test, {quote(line)}", "one run of one side")
        if _WAITING in line:
            self.role = "server"
            return
        self.banner = _BANNER.fullmatch(line)
        if self.banner is None:
            expected = "a BW or Latency test of RDMA_Write, RDMA_Read or Send"
            raise ParseError(number, quote(line), expected)

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
            raise ParseError(number, quote(line), "LID, QPN and PSN")
        for name, value in _INFO.findall(line):
            if self.info.setdefault(name, value) != value:
                expected = f"{name} {self.info[name]} as above"
                raise ParseError(number, quote(line), expected)

    def _take_header(self, number: int, line: str) -> None:
        if self.place in ("table", "closed"):
            raise ParseError(number, "another table", "one table")
        columns = _columns(number, line)
        if self.columns not in ([], columns):
            raise ParseError(number, quote(line), "the columns of the first header")
        self.columns, self.place = columns, "table"

    def _take_part(self, number: int, line: str) -> None:
        assert self.banner is not None, "parts come after the banner"
        expected = _PARTS[len(self.parts) : len(self.parts) + 1]
        if self.place != "closed" or not self.banner["both"] or [line] != expected:
            raise ParseError(number, quote(line), "it once, below the table of both ways")
        part = _Reader()
        part.banner, part.tag = self.banner, self.tag
        self.parts.append(part)

    def _require_parts(self) -> None:
        """Of --report-both: both ways are there, and what they moved is what both together did."""
        if not self.parts:
            return
        ways = [part.rows for part in self.parts if part.place == "closed"]
        if len(ways) != len(_PARTS):
            raise ParseError(0, "one way of --report-both", "a whole table of each way")
        for rows in itertools.zip_longest(self.rows, *ways):
            rates = [row.bandwidth_gbits_s for row in rows if isinstance(row, Bandwidth)]
            if len({row and row.size_bytes for row in rows}) > 1 or len(rates) < len(rows):
                raise ParseError(0, "ways of other sizes than both together", "the same sizes")
            both, added = rates[0], sum(rates[1:])
            if abs(added - both) > _WAYS_GBITS_S + _WAYS * both:
                found = f"{added:.6g} Gb/s of both ways added up"
                raise ParseError(0, found, f"the {both:.6g} of the first table")

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
            if self._is_sample(row):
                self.rows.append(row)
                return
            if self.rows and row.size_bytes <= self.rows[-1].size_bytes:
                problem = f"{row.size_bytes} bytes after {self.rows[-1].size_bytes}"
                raise ParseError(number, problem, "every size once, in rising order")
            # Only -a has several sizes, from 2 bytes on.
            if self.rows:
                sizes = [*(row.size_bytes for row in self.rows), row.size_bytes]
                left_out = next(
                    (s for s, size in zip(SWEEP_SIZES, sizes, strict=False) if s != size), None
                )
                if left_out is not None:
                    problem = f"no row of {left_out} bytes above {quote(line)}"
                    raise ParseError(
                        number, problem, "a sweep from 2 bytes, each size twice the last"
                    )
            self.rows.append(row)
        elif _HIDDEN_ROW.search(line):
            raise ParseError(number, quote(line), "a row, or nothing that may hold one")

    def _is_sample(self, row: Bandwidth | Latency) -> bool:
        """Whether it is one more row of --run_infinitely: of the size of all above it."""
        return bool(self.rows) and all(
            isinstance(each, Bandwidth)
            and each.peak_gbits_s is None
            and each.size_bytes == row.size_bytes
            for each in (*self.rows, row)
        )

    def _row(self, number: int, line: str) -> Bandwidth | Latency:
        words = line.split()
        if len(words) != len(self.columns):
            problem = f"{len(words)} values in {quote(line)}"
            raise ParseError(number, problem, f"one for each of {len(self.columns)} columns")
        shown: dict[str, Shown] = {}
        for word, column in zip(words, self.columns, strict=True):
            whole = column.field in ("size", "iterations")
            if column.field == "stdev" and word in _NO_STDEV:
                continue
            if column.field and not (_INTEGER if whole else _NUMBER).fullmatch(word):
                expected = "an integer" if whole else "a number of 0 or more"
                raise ParseError(number, f"{quote(word)} for {column.field}", expected)
            if column.field:
                shown[column.field] = Shown.of(word, column.factor)
        if not shown["size"].value or not shown["iterations"].value:
            raise ParseError(number, quote(line), "a size and iterations of 1 or more")
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
        self._require_parts()
        # A sweep has all sizes; datagrams, and EFA's, end at what one of them may be.
        swept = len(self.rows) > 1 and not self._sampled
        largest = self.rows[-1].size_bytes if swept else SWEEP_SIZES[-1]
        if largest != SWEEP_SIZES[-1] and self._stated("Connection type") in ("RC", "UC"):
            missing = f"no row of {2 * largest} bytes below that of {largest}"
            raise ParseError(0, missing, f"a sweep to {SWEEP_SIZES[-1]} bytes")
        queue_pairs = self._integer("Number of qps")
        for side, addresses in self.addresses.items():
            if len(addresses) != queue_pairs and (any(self.addresses.values())):
                expected = f"{queue_pairs}, one a queue pair"
                raise ParseError(0, f"{len(addresses)} {side} addresses", expected)
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
            bound_to_numa="NUMA node" in self.info,
            validated_bytes=self.validated_bytes,
            rdma_cm=self._stated("rdma_cm QPs") == "ON",
            local=tuple(self.addresses["local"]),
            remote=tuple(self.addresses["remote"]),
            rows=tuple(self.rows),
            sampled=self._sampled,
        )

    @property
    def _sampled(self) -> bool:
        several = len(self.rows) > 1 or bool(self.stopped)
        return several and bool(self.rows) and self._is_sample(self.rows[-1])

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
        if self.stopped and not self._sampled:
            raise ParseError(self.stopped, quote(_STOPPED), "no error message")
        if self._sampled:
            if self.place == "closed" and not self.stopped:
                problem = f"{self.rows[-1].size_bytes} bytes after {self.rows[0].size_bytes}"
                raise ParseError(0, problem, "every size once, in rising order")
        elif self.place != "closed":
            problem = f"the table open after {self.rows[-1].size_bytes} bytes"
            raise ParseError(0, problem, "a line of dashes below the last row")

    def _stated(self, name: str) -> str:
        if name not in self.info:
            raise ParseError(0, f"no {name!r}", "the head of the output")
        return self.info[name]

    def _integer(self, name: str) -> int:
        text = self._stated(name).removesuffix("[B]")
        if not _INTEGER.fullmatch(text):
            raise ParseError(0, f"{name} {quote(text)}", "an integer")
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
        raise ParseError(number, quote(line), expected)
    return columns


def _bandwidth(number: int, line: str, shown: Mapping[str, Shown]) -> Bandwidth:
    """A few bytes that took long (5 messages of 2 bytes: 0.2 s) round to a bandwidth of 0, where
    the message rate has digits left: it gives the bandwidth then.
    """
    size, average, peak = shown["size"].value, shown["average"], shown["peak"]
    # Gb/s from Mmsg/s
    factor = size * 8e-3
    rate = shown["message_rate"]
    if average.value == rate.value == 0:
        raise ParseError(number, quote(line), "a bandwidth above 0")
    allowed = average.half + rate.half * factor + 1e-9 * average.value
    if abs(average.value - rate.value * factor) > allowed:
        expected = f"the {rate.value * factor:.6g} Gb/s of its message rate and size"
        raise ParseError(number, f"{average.value:.6g} Gb/s in {quote(line)}", expected)
    if peak.value > 0 and (peak.value + peak.half) * (1 + _SLACK) < average.value - average.half:
        raise ParseError(number, quote(line), "a peak of the average or more")
    return Bandwidth(
        size_bytes=int(size),
        iterations=int(shown["iterations"].value),
        bandwidth_gbits_s=average.value or rate.value * factor,
        peak_gbits_s=peak.value or None,
        message_rate_mmsg_s=rate.value,
    )


def _latency(number: int, line: str, shown: Mapping[str, Shown], ways: int) -> Latency:
    """`ways`: how often a round trip is halved, 2, or not, 1."""
    value = {name: number.value for name, number in shown.items()}
    if value["avg"] == 0:
        raise ParseError(number, quote(line), "a latency above 0")
    # Rounding keeps an order, so no slack is needed.
    if "tps" not in value:
        least, most = value["min"], value["max"]
        ordered = least <= value["typical"] <= value["p99"] <= value["p999"] <= most
        if not (value["typical"] > 0 and ordered and least <= value["avg"] <= most):
            expected = "0 < min <= typical <= 99 % <= 99.9 % <= max, and the average between"
            raise ParseError(number, quote(line), expected)
    else:
        average, rate = shown["avg"], shown["tps"]
        allowed = average.half / average.value + rate.half / max(rate.value, rate.half) + _SLACK
        if abs(average.value * rate.value * ways / 1e6 - 1) > allowed:
            raise ParseError(number, quote(line), f"tps of {1e6 / ways:.0f} / t_avg")
    return Latency(
        size_bytes=int(value["size"]),
        iterations=int(value["iterations"]),
        avg_us=value["avg"],
        min_us=value.get("min"),
        max_us=value.get("max"),
        typical_us=value.get("typical"),
        p99_us=value.get("p99"),
        p999_us=value.get("p999"),
        transactions_per_s=value.get("tps"),
    )
