"""What nccl-tests prints, as the tests that are in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from railgauge.tools import ParseError
from railgauge.tools.common.lines import DIED, numbered, plain, quote, searched
from railgauge.tools.nccl_log import ADVICE
from railgauge.tools.nccl_tests.layout import HUGE, Layout, layout_of
from railgauge.tools.nccl_tests.result import Device, Result, Row

_SIGNED = re.compile(r"[-+.][0-9.]")
#: First words of the lines that the first versions print without a '#'.
_WITHOUT_SIGN = frozenset({"Out", "Avg", "size", "bytes", "nThread"})
_DATE_OR_ADDRESS = re.compile(
    r"[0-9]{4}[-/][0-9]{2}[-/]|[0-9]{2}:[0-9]{2}|(?:[0-9]{1,3}\.){3}[0-9]"
)

_PROGRAM = re.compile(r"Collective test (?:starting|concluded):\s*(\S+)\s*")
_VERSION = re.compile(
    r"nccl-tests version ([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4})\b"
    r".*?(?:nccl-library=([0-9]{4,6})\b.*)?"
)
_NCCL_VERSION = re.compile(r"NCCL version ([0-9]+(?:\.[0-9]+)+)")
_PARAMETERS = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|warmup iters|agg iters|iters|validation|graph|unalign)s?:?"
    r"\s+([0-9]{1,18})(?![0-9])"
)
_STEP = re.compile(r"step:\s*([0-9]{1,18})\((factor|bytes)\)")
DEVICE = re.compile(
    r"Rank\s+([0-9]{1,9})(?:\s+Group\s+([0-9]{1,9}))?(?:\s+Pid\s+([0-9]{1,9}))?\s+on\s+(\S+)\s+"
    r"device\s+([0-9]{1,9})\s+\[([^\]\s]+)\]\s*(.*)"
)
_REDUCING = re.compile(r"Reducing maxBytes to ([0-9]{1,18}) due to memory limitation\s*")
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*([0-9]{1,18})\s+(OK|FAILED)\s*")
_AVERAGE = re.compile(
    r"Avg bus bandwidth\s*:\s*([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)\s*(OK|FAILED|)\s*"
)

# What the tool, MPI, Slurm, a shell or the loader say when a run fails; in lower case.
_FAILURE = re.compile(
    r"test (?:cuda|nccl) failure|test failure |test timeout|\bnccl failure\b|\bcuda failure\b|"
    r"\binvalid number of gpus\b|\binvalid (?:option|size specified|sizes for|type|op)\b|\busage:|"
    r"not a power of 2, skipping|or later is needed for|incompatible nccl versions|"
    r"not supported by this test|\bmpi_abort\b|exited on signal|\boom.kill|cannot execute|" + DIED
)
_failure = searched(_FAILURE)
_PLACE = re.compile(r"pid [0-9]+: Test failure \S+:[0-9]+\s*$")
# NCCL warns of what it cannot do, but for known advice.
_WARNING = "NCCL WARN"


def parse(text: str) -> tuple[Result, ...]:
    """The tests in one output, in order.

    Columns are found by their header; columns that are not known, log lines and prefixes of
    launchers are passed over. ParseError where the tool reports a failure, where a row or a line of
    the header or footer cannot be read, where the lines of ranks mix, and where there is
    no test. What is missing is left to `read`.
    """
    tests = scan(text)
    if not tests:
        raise ParseError(0, "no test", "the output of nccl-tests")
    return tests


def scan(text: str) -> tuple[Result, ...]:
    reader = _Reader()
    try:
        *lines, last = numbered(text)
        for number, line in lines:
            reader.take(number, line)
        reader.take(*last, whole=False)
        return reader.results()
    except ParseError:
        # A failure explains torn rows, so it is reported first, wherever it stands; and one with
        # words before the mere places in the tool's source that it came through.
        failures = [
            (bool(_PLACE.search(line)), number, line)
            for number, line in numbered(text)
            if _fails(line) and not line.lstrip().startswith("#")
        ]
        if failures:
            _, number, line = min(failures)
            raise ParseError(number, quote(line), "no failure") from None
        raise


#: The lines that a test may begin with, in their order.
BEGINNINGS = ("nccl-tests version", "Collective test starting", "nThread")


def apart(text: str) -> list[str]:
    """Each test of a text by itself, with empty lines in place of what stands before it: line
    numbers are those of the text.
    """
    parts, before, padded = each(text), 0, []
    for part in parts:
        padded.append("\n" * before + part)
        before += part.count("\n")
    return padded


def each(text: str) -> list[str]:
    """Each test of a text by itself.

    So a failure in one leaves the others readable. What stands between two tests belongs to the
    first of them. Tests of several ranks are not kept apart: they ran at the same time.
    """
    lines = text.split("\n")
    starts: list[int] = []
    tags: set[str] = set()
    last = len(BEGINNINGS)
    for number, line in enumerate(lines):
        body, tag = plain(line)
        body = body.strip(" \t\r#")
        stage = next((i for i, word in enumerate(BEGINNINGS) if body.startswith(word)), None)
        if stage is not None:
            tags.add(tag)
            if stage <= last:
                starts.append(number)
            last = stage
    if len(tags) > 1:
        return [text]
    starts[:1] = [0]
    ends = [*starts[1:], len(lines)]
    return [
        "\n".join(lines[start:end]) + ("\n" if end < len(lines) else "")
        for start, end in zip(starts, ends, strict=True)
    ]


def _fails(line: str) -> bool:
    if _WARNING in line:
        return not ADVICE.search(line)
    if "NCCL INFO" in line:
        return False
    return bool(_failure(line.lower()))


class _Test:
    """One test while its lines are read. Its parts stand in a fixed order."""

    VERSION, PROGRAM, PARAMETERS, DEVICES, TABLE, BOUNDS, AVERAGE, END = range(1, 9)

    def __init__(self) -> None:
        self.stage = 0
        self.facts: dict[str, Any] = {}
        self.conditions: list[str] = []
        self.devices: list[Device] = []
        self.layout: Layout | None = None
        self.rows: list[Row] = []


class _Reader:
    """Takes the lines of one output in their order."""

    def __init__(self) -> None:
        self.tests: list[_Test] = []
        self.test = _Test()
        #: what a launcher put before the lines of the rank that prints
        self.tag: str | None = None
        self.simulated = False
        self.warnings = 0
        self.nccl_version = ""
        #: False while the last line is taken, if its end is missing
        self.whole = True

    def take(self, number: int, text: str, whole: bool = True) -> None:
        line, tag = plain(text)
        words = line.split()
        if not words:
            return
        self.whole = whole
        first = words[0]
        if first[0] == "#" or first in _WITHOUT_SIGN:
            self._take_comment(number, line, tag)
        elif (first[0] in "0123456789" or _SIGNED.match(first)) and self._is_row(words):
            self._belongs(number, line, tag)
            self._take_row(number, line, words)
        elif first == "NCCL" and (version := _NCCL_VERSION.match(line)):
            self.nccl_version = version[1]
        elif _fails(line):
            raise ParseError(number, quote(line), "no failure")
        elif _WARNING in line:
            self.warnings += 1

    def _take_comment(self, number: int, line: str, tag: str) -> None:
        if _WARNING in line and _fails(line):
            raise ParseError(number, quote(line), "no warning of NCCL")
        body = line.strip(" \t\r#")
        word = body.partition(" ")[0]
        handler = _HANDLERS.get(word)
        if handler is not None:
            self._belongs(number, line, tag)
            handler(self, number, body)
        elif word.rstrip(":") == "SIMULATED":
            self.simulated = True

    def results(self) -> tuple[Result, ...]:
        tests = [*self.tests, self.test]
        return tuple(self._result(test) for test in tests if test.stage)

    def _result(self, test: _Test) -> Result:
        facts = {"nccl_version": self.nccl_version, **test.facts}
        return Result(
            **facts,
            devices=tuple(test.devices),
            conditions=tuple(test.conditions),
            cpu_time=test.layout is not None and test.layout.cpu_time,
            rows=tuple(test.rows),
            warnings=self.warnings,
            simulated=self.simulated,
        )

    def _belongs(self, number: int, line: str, tag: str) -> None:
        """Whether the line is of the rank that printed the others."""
        if not self.whole:
            raise ParseError(number, f"{quote(line)}, without a line end", "a whole output")
        if self.tag is None:
            self.tag = tag
        elif tag != self.tag:
            mine, other = self.tag or "no prefix", tag or "no prefix"
            raise ParseError(
                number,
                f"a table of {other} next to that of {mine}",
                "one table (did every rank start alone?)",
            )

    def _enter(self, stage: int) -> _Test:
        """The test that this part belongs to: a new one where it would come too late."""
        if self.test.stage >= stage:
            self.tests.append(self.test)
            self.test = _Test()
        self.test.stage = stage
        return self.test

    # --- rows ---

    def _is_row(self, words: Sequence[str]) -> bool:
        """Within a table every line that starts with a number; elsewhere what looks like a row."""
        if self.test.stage == _Test.TABLE:
            return not _DATE_OR_ADDRESS.match(words[0])
        return len(words) >= 9 and words[0].isdigit() and words[1].isdigit()

    def _take_row(self, number: int, line: str, words: list[str]) -> None:
        test = self.test
        layout = test.layout
        if layout is None:
            raise ParseError(number, f"a row without a header, {quote(line)}", "a header above it")
        if test.stage != _Test.TABLE:
            raise ParseError(number, "a row below the end of the table", "nothing more")
        if layout.first and len(words) == layout.width - 4 and not test.rows:
            test.layout = layout = layout._replace(
                width=layout.width - 4, sides=layout.sides[:1], intervals=()
            )
        elif len(words) == layout.width - 1 and layout.redop >= 0:
            # operations that do not reduce print blanks
            words.insert(layout.redop, "")
        if len(words) != layout.width:
            found = f"{len(words)} values in {quote(line)}"
            raise ParseError(number, found, f"{layout.width}, as the header has")
        if not line.isascii() or "_" in line:
            # Python would read them as numbers
            raise ParseError(number, quote(line), "a row of plain numbers")
        try:
            test.rows.append(layout.row(number, line, words, len(test.devices) - 1))
        except ValueError:
            raise ParseError(number, quote(line), "a row of numbers") from None

    # --- header and footer ---

    def _take_version(self, number: int, body: str) -> None:
        match = _VERSION.fullmatch(body)
        if not match:
            raise ParseError(number, quote(body), "'nccl-tests version N.N.N'")
        test = self._enter(_Test.VERSION)
        test.facts["version"] = match[1]
        if match[2]:
            test.facts["nccl_version"] = nccl_version_of(int(match[2]))

    def _take_collective(self, number: int, body: str) -> None:
        match = _PROGRAM.fullmatch(body)
        if not match:
            raise ParseError(number, quote(body), "'Collective test starting' or 'concluded'")
        program = match[1]
        if body.startswith("Collective test starting"):
            facts = self._enter(_Test.PROGRAM).facts
            facts["program"], facts["operation"] = program, operation_of(program)
            return
        facts = self._enter(_Test.END).facts
        if program != facts.setdefault("program", program):
            raise ParseError(number, quote(body), f"the end of {facts['program']}")
        facts["operation"], facts["concluded"] = operation_of(program), True

    def _take_parameters(self, number: int, body: str) -> None:
        shown = {name: int(value) for name, value in _PARAMETERS.findall(body)}
        step = _STEP.search(body)
        needed = {"nThread", "nGpus", "minBytes", "maxBytes", "iters", "validation"}
        if step is None or not needed <= set(shown):
            raise ParseError(number, quote(body), "nThread, nGpus, minBytes ... validation")
        test = self._enter(_Test.PARAMETERS)
        test.facts.update(
            threads=shown["nThread"],
            gpus_per_thread=shown["nGpus"],
            min_bytes=shown["minBytes"],
            max_bytes=shown["maxBytes"],
            warmup=shown.get("warmup iters"),
            iterations=shown["iters"],
            aggregated=shown.get("agg iters"),
            validation=shown["validation"],
        )
        test.facts["step_factor" if step[2] == "factor" else "step_bytes"] = int(step[1])
        for name in ("graph", "unalign"):
            if shown.get(name):
                test.conditions.append(f"{name}: {shown[name]}")

    def _take_condition(self, number: int, body: str) -> None:
        self.test.conditions.append(body)

    def _take_reducing(self, number: int, body: str) -> None:
        match = _REDUCING.fullmatch(body)
        if not match:
            expected = "'Reducing maxBytes to N due to memory limitation'"
            raise ParseError(number, quote(body), expected)
        test = self.test
        if test.stage >= _Test.TABLE or "reduced_bytes" in test.facts:
            raise ParseError(number, quote(body), "it once, above the table")
        test.facts["reduced_bytes"] = int(match[1])

    def _take_error(self, number: int, body: str) -> None:
        """The last error of NCCL, which newer versions print below their end line."""
        if not ADVICE.search(body):
            raise ParseError(number, quote(body), "no error of NCCL")
        self.warnings += 1

    def _take_devices(self, number: int, body: str) -> None:
        if body.startswith("Using devices"):
            self._enter(_Test.DEVICES)

    def _take_device(self, number: int, body: str) -> None:
        match = DEVICE.fullmatch(body)
        if not match:
            raise ParseError(number, quote(body), "'Rank N ... on HOST device N [ID] NAME'")
        if self.test.stage > _Test.DEVICES:
            self._enter(_Test.DEVICES)
        self.test.stage = _Test.DEVICES
        self.test.devices.append(_device(match))

    def _take_sides(self, number: int, body: str) -> None:
        if 0 <= body.find("in-place") < body.find("out-of-place"):
            raise ParseError(number, quote(body), "out-of-place before in-place")

    def _take_header(self, number: int, body: str) -> None:
        if "algbw" not in body:
            return
        layout = layout_of(body)
        if layout is None:
            expected = "size, count, type, and time, algbw, busbw, #wrong of one or two sides"
            raise ParseError(number, quote(body), expected)
        self._enter(_Test.TABLE).layout = layout

    def _take_units(self, number: int, body: str) -> None:
        if not {"(us)", "(GB/s)"} <= set(body.split()):
            raise ParseError(number, quote(body), "times in (us), bandwidths in (GB/s)")

    def _take_bounds(self, number: int, body: str) -> None:
        match = _OUT_OF_BOUNDS.fullmatch(body)
        if not match:
            raise ParseError(number, quote(body), "'Out of bounds values : N OK' or 'FAILED'")
        facts = self._enter(_Test.BOUNDS).facts
        facts["out_of_bounds"], facts["out_of_bounds_ok"] = int(match[1]), match[2] == "OK"

    def _take_average(self, number: int, body: str) -> None:
        match = _AVERAGE.fullmatch(body)
        if not match or not float(match[1]) < HUGE:
            raise ParseError(number, quote(body), "'Avg bus bandwidth : X', perhaps with OK")
        facts = self._enter(_Test.AVERAGE).facts
        facts["average_busbw_gbytes_s"], facts["average_ok"] = float(match[1]), match[2] != "FAILED"

    def _take_bitwise(self, number: int, body: str) -> None:
        if "mismatch" in body and "0 OK" not in body:
            raise ParseError(number, quote(body), "the same bits in every repetition")


#: By the first word of a line, without its '#'.
_HANDLERS = {
    "nccl-tests": _Reader._take_version,
    "Collective": _Reader._take_collective,
    "nThread": _Reader._take_parameters,
    "nThreads:": _Reader._take_parameters,
    "Blocking": _Reader._take_condition,
    "Parallel": _Reader._take_condition,
    "Reducing": _Reader._take_reducing,
    "Using": _Reader._take_devices,
    "Rank": _Reader._take_device,
    "out-of-place": _Reader._take_sides,
    "in-place": _Reader._take_sides,
    "size": _Reader._take_header,
    "bytes": _Reader._take_header,
    "timestamp": _Reader._take_header,
    "(B)": _Reader._take_units,
    "Out": _Reader._take_bounds,
    "Avg": _Reader._take_average,
    "Bitwise": _Reader._take_bitwise,
    "error:": _Reader._take_error,
}


def devices(text: str) -> tuple[Device, ...]:
    """Those of every rank, of an output that may be broken off, or of a job that hangs."""
    lines = (line.lstrip("# ").rstrip() for line in text.split("\n")[:-1])
    return tuple(_device(match) for match in map(DEVICE.fullmatch, lines) if match)


def _device(match: re.Match[str]) -> Device:
    rank, group, pid, host, device, bus_id, name = match.groups()
    return Device(
        int(rank),
        host,
        int(device),
        bus_id,
        name.strip(),
        int(pid) if pid else None,
        int(group or 0),
    )


def operation_of(program: str) -> str:
    """all_reduce of build/all_reduce_perf_mpi; the name as it is where it is none of ours."""
    return PurePosixPath(program).name.partition("_perf")[0]


def nccl_version_of(code: int) -> str:
    """NCCL_VERSION_CODE: 2.28.9 is 22809, before 2.9 2.8.4 was 2804."""
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
