"""nvbandwidth: copies between GPUs and their hosts, by its matrices as text or JSON.

A matrix has a row for each source or the host, and a column for each GPU. Rates are in 10^9 bytes
a second, latencies in ns (memcpy.cpp and output.cpp of 0.8). The JSON of a test of both ways has
the rows of three matrices in one list, and the sum of the last: that one is read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railgauge.locating import gpu_copies
from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, identifier
from railgauge.tools.common.documents import Number, Part, document, validated
from railgauge.tools.common.lines import STDERR, quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.numbers import Shown
from railgauge.tools.common.one_output import Conclusion, by_hand, judge, plain_lines

TOOL = "nvbandwidth"


# ---- options -------------------------------------------------------------------------------


def tests(value: str) -> tuple[str, ...]:
    """`host_to_device_memcpy_ce,device_to_device_memcpy_read_ce`: the tests, in their order."""
    return tuple(identifier(name) for name in value.split(","))


@dataclasses.dataclass(frozen=True)
class Options:
    """The tests that were asked for, and the node of each MPI process in tests of several nodes."""

    tests: tuple[str, ...]
    hosts: tuple[str, ...] = ()


def options_of(gpus: int) -> Options:
    """The tests that a node with so many GPUs can run."""
    tests = (
        ONE_NODE if gpus > 1 else tuple(t for t in ONE_NODE if WAYS[t] in ("from_host", "to_host"))
    )
    return Options(tests)


def version_argv() -> list[str]:
    """Its output states the version."""
    return []


def argv(options: Options) -> list[str]:
    """The command; without -d it binds itself to the CPUs near each GPU."""
    return [TOOL, "--json", "--testcase", *options.tests]


def multinode_argv(options: Options, folder: str) -> list[str]:
    """The command of every MPI process: as text, since JSON has the GPUs of the first node only.
    It leaves CPUs to the launcher, as between GPUs no CPU copies.
    """
    return [f"{folder}/{TOOL}", "--disableAffinity", "--testcase", *options.tests]


#: Tests of single copies, and which way data goes. A GPU of a row reads from that of a column or
#: writes to it: testcases_ce.cpp and testcases_sm.cpp of 0.8. The titles have it the other way
#: round.
_COPIES: Mapping[str, gpu_copies.Way] = {
    "host_to_device_memcpy": "from_host",
    "device_to_host_memcpy": "to_host",
    "device_to_device_memcpy_read": "read",
    "device_to_device_memcpy_write": "write",
    # A row or column is an MPI process, with a GPU of its own.
    "multinode_device_to_device_memcpy_read": "read",
    "multinode_device_to_device_memcpy_write": "write",
}
WAYS: Mapping[str, gpu_copies.Way] = {
    f"{test}_{engine}": way for engine in ("ce", "sm") for test, way in _COPIES.items()
}

#: How tests of several nodes begin.
_SEVERAL = "multinode_"

#: The tests of several nodes by their copy engines.
MULTINODE = tuple(test for test in WAYS if test.endswith("_ce") and test.startswith(_SEVERAL))

#: The tests of one node by its copy engines.
ONE_NODE = tuple(test for test in WAYS if test.endswith("_ce") and not test.startswith(_SEVERAL))


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Matrix:
    """One matrix of a test: GB/s, or us of a latency. `part` is Read1, Write2, Total of a test of
    both ways, else "". A cell is None where the two are not measured, as of a GPU with itself.
    """

    test: str
    part: str
    is_latency: bool
    cells: tuple[tuple[float | None, ...], ...]

    @property
    def measured(self) -> list[tuple[float, int, int]]:
        """The cells with a number: (it, row, column)."""
        rows = enumerate(self.cells)
        return [(v, r, c) for r, row in rows for c, v in enumerate(row) if v is not None]


@dataclasses.dataclass(frozen=True)
class Output:
    """One run. `ended`: what stands behind the last test, or the document's end, is there."""

    version: str
    devices: tuple[str, ...]
    matrices: tuple[Matrix, ...]
    #: tests that this machine cannot run, as far as they are named
    waived: tuple[str, ...]
    warnings: tuple[str, ...]
    ended: bool

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(matrix.test for matrix in self.matrices))


# ---- parse ---------------------------------------------------------------------------------

_FAILURE = re.compile(
    r"^ERROR\b|^Error:|\bCUDA_ERROR_|\bNVML_ERROR_|^\[[A-Z_]+\] .* in expression |"
    r"Invalid value when checking the pattern|\bMPI_ABORT\b|^Specified list of .* did not match"
)
_VERSION = re.compile(r"nvbandwidth Version: v?(\S+)")
_DEVICE = re.compile(r"(?:Process +[0-9]+ \(.*\): )?[Dd]evice [0-9]+: \S.*")
_RUNNING = re.compile(r"Running (\w+)\.")
_WAIVED = re.compile(r"Waiv(?:ed:.*|ing (\w+)\.)|WAIVED.*|.*NOT SUPPORTED.*", re.IGNORECASE)
_TITLE = re.compile(
    r"(?:(?:memcpy|multicast|memory latency|Device to Device Latency|Bisect benchmarking).*?)"
    r"(?:(?P<part>Read|Write|Total)(?P<number>[12])? )?(?:bandwidth )?"
    r"(?:\((?P<unit>GB/s|ns)\)|CE BW)",
    re.IGNORECASE,
)
_COLUMNS = re.compile(r"[0-9]+(?: +[0-9]+)*")
_ROW = re.compile(r"(?:\S+) +(?:(?:[0-9]+\.[0-9]{2}|N/A) *)+")
_SUM = re.compile(r"(?:SUM|&&&& PERF) (\w+) ([0-9]+\.[0-9]{2})(?: ?(?:GB/s|ns|\+GB/s|-ns))?")
_END = re.compile(r"NOTE: The reported results may not reflect the full capabilities.*")
#: Since this version a sum stands below each matrix.
_SUMS_SINCE = (0, 3)


def parse(text: str) -> Output:
    """The matrices of one run; ParseError where a test has none, one is not whole or not that of
    its sum, and at an error.
    """
    lines = plain_lines(text, _FAILURE)
    if any('"nvbandwidth"' in line for _, line in lines):
        return _of_json(text)
    version = ""
    devices: list[str] = []
    waived: list[str] = []
    warnings: list[str] = []
    matrices: list[Matrix] = []
    ended, sums = False, 0
    test, done = "", True
    reader: _Rows | None = None
    for number, line in lines:
        if found := _VERSION.fullmatch(line):
            if version:
                raise ParseError(number, "a second version", "one run")
            version = found[1]
        elif _DEVICE.fullmatch(line):
            devices.append(line)
        elif found := _RUNNING.fullmatch(line):
            _check_done(number, test, done, reader)
            test, done, reader, ended = found[1], False, None, False
        elif found := _WAIVED.fullmatch(line):
            waived.append(found[1] or (test if not done else ""))
            done = True
        elif test and (title := _TITLE.fullmatch(line)):
            _check_done(number, test, True, reader)
            reader, done = _Rows(test, title), True
        elif reader and (found := _SUM.fullmatch(line)):
            if found[1] != test:
                raise ParseError(number, quote(line), f"the sum of {test}")
            matrices.append(reader.matrix(number, Shown.of(found[2])))
            reader, sums = None, sums + 1
        elif reader and line:
            reader.take(number, line)
        elif _END.fullmatch(line):
            ended = True
        elif line.lower().startswith("warning:") or line.startswith("NOTE: You have chosen"):
            warnings.append(line)
    if reader is not None and sums == 0 and _before(version, _SUMS_SINCE):
        matrices.append(reader.matrix(len(lines), None))
        reader = None
    _check_done(len(lines), test, done, reader)
    if not matrices:
        raise ParseError(0, "no matrix", "'Running TEST.' with its matrix below")
    return Output(
        version,
        tuple(devices),
        tuple(matrices),
        tuple(filter(None, waived)),
        tuple(warnings),
        ended,
    )


def _check_done(number: int, test: str, done: bool, reader: _Rows | None) -> None:
    if test and not done:
        raise ParseError(number, f"no matrix of {test}", "it, below its line")
    if reader is not None:
        raise ParseError(number, f"no sum of {test}", "it, below the matrix")


def _before(version: str, since: tuple[int, ...]) -> bool:
    numbers = re.findall(r"[0-9]+", version)
    return tuple(map(int, numbers[:2])) < since


class _Rows:
    """Takes the lines of one matrix."""

    def __init__(self, test: str, title: re.Match[str]) -> None:
        self.test = test
        self.part = f"{title['part'] or ''}{title['number'] or ''}"
        self.is_latency = title["unit"] == "ns"
        self.columns = 0
        self.rows: list[list[str]] = []

    def take(self, number: int, line: str) -> None:
        if not self.columns and _COLUMNS.fullmatch(line):
            self.columns = len(line.split())
        elif self.columns and _ROW.fullmatch(line):
            words = line.split()
            if len(words) != self.columns + 1:
                raise ParseError(number, quote(line), f"a name and {self.columns} numbers")
            self.rows.append(words[1:])
        elif self.columns and re.match(r"[0-9]", line):
            raise ParseError(number, quote(line), "a row of numbers with two decimals")

    def matrix(self, number: int, total: Shown | None) -> Matrix:
        """The matrix; ParseError where its sum is not `total`."""
        if not self.rows:
            raise ParseError(number, f"no row of {self.test}", "its matrix")
        cells = [[None if w == "N/A" else float(w) for w in row] for row in self.rows]
        counted = [cell for row in cells for cell in row if cell is not None]
        if total and abs(sum(counted) - total.value) > 0.005 * (len(counted) + 1):
            found = f"{sum(counted):.2f} in the rows of {self.test}"
            raise ParseError(number, found, f"the {total.value:.2f} of its sum")
        return _matrix(self.test, self.part, self.is_latency, cells)


def _matrix(
    test: str, part: str, is_latency: bool, cells: Sequence[Sequence[float | None]]
) -> Matrix:
    """Versions before 0.5 print 0.00 for a GPU with itself."""
    square = len(cells) == len(cells[0]) and len(cells) > 1
    factor = 1e-3 if is_latency else 1.0
    return Matrix(
        test,
        part,
        is_latency,
        tuple(
            tuple(
                None if v is None or (square and r == c and v == 0) else v * factor
                for c, v in enumerate(row)
            )
            for r, row in enumerate(cells)
        ),
    )


class _Testcase(Part):
    name: str
    status: str = ""
    error: str = ""
    bandwidth_description: str = ""
    bandwidth_matrix: list[list[str]] = []
    sum: Number | None = None


class _Run(Part):
    version: str = ""
    error: str = ""
    warning: str = ""
    testcases: list[_Testcase] = []


class _Document(Part):
    nvbandwidth: _Run


def _of_json(text: str) -> Output:
    lines = ["" if line.startswith((STDERR, "#")) else line for line in text.split("\n")]
    whole = document("\n".join(lines))
    run = validated(_Document, whole).nvbandwidth
    if run.error:
        raise ParseError(0, f"the error {quote(run.error)}", "a run without an error")
    matrices, waived = [], []
    for case in run.testcases:
        if case.status.lower() == "waived":
            waived.append(case.name)
        elif case.status != "Passed" or case.error or not case.bandwidth_matrix:
            found = f"{case.name}: {case.status or 'no status'} {case.error}".strip()
            raise ParseError(0, quote(found), "the status Passed, with a matrix")
        else:
            matrices.append(_json_matrix(case))
    if not matrices:
        raise ParseError(0, "no matrix", "a test that passed")
    listed = whole["nvbandwidth"].get("GPU Device list")
    devices = tuple(map(str, listed)) if isinstance(listed, list) else ()
    warnings = (run.warning,) if run.warning else ()
    version = run.version.removeprefix("v")
    return Output(version, devices, tuple(matrices), tuple(waived), warnings, True)


def _json_matrix(case: _Testcase) -> Matrix:
    title = _TITLE.fullmatch(case.bandwidth_description)
    if not title or len({len(row) for row in case.bandwidth_matrix}) != 1:
        raise ParseError(0, f"the matrix of {quote(case.name)}", "rows of one length, and its unit")
    part = f"{title['part'] or ''}{title['number'] or ''}"
    rows = case.bandwidth_matrix
    if part.lower() == "total" and len(rows) == 3 * len(rows[0]):
        rows = rows[2 * len(rows[0]) :]
    cells: list[list[float | None]] = []
    for row in rows:
        if not all(word == "N/A" or re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", word) for word in row):
            raise ParseError(0, f"a row {quote(row)} of {case.name}", "numbers and N/A")
        cells.append([None if word == "N/A" else float(word) for word in row])
    counted = [cell for row in cells for cell in row if cell is not None]
    # Cells have six digits.
    if case.sum is None or abs(sum(counted) - case.sum) > 1e-5 * case.sum:
        found = f"{sum(counted):g} in the rows of {case.name}"
        raise ParseError(0, found, f"the {case.sum} of its sum")
    return _matrix(case.name, part, title["unit"] == "ns", cells)


# ---- read ----------------------------------------------------------------------------------


def copies(seen: Mapping[str, Any], bounds: Mapping[str, float]) -> list[gpu_copies.Matrix]:
    """The matrices of `WAYS` in what `read` saw, in GB/s: those of several nodes alone where there
    are such, as the others are of the first process. `bounds`: test -> the least value that a
    reference admits for a cell.
    """
    of_several = any(one["test"].startswith(_SEVERAL) for one in seen.get("matrices", ()))
    return [
        gpu_copies.Matrix(
            one["test"],
            WAYS[one["test"]],
            tuple(map(tuple, one["cells"])),
            bounds.get(one["test"]),
        )
        for one in seen.get("matrices", ())
        if one["test"] in WAYS and one["test"].startswith(_SEVERAL) == of_several
    ]


#: The domain of a host is left out, as nodes leave it out where they say their names.
_PROCESS = re.compile(
    r"Process +([0-9]{1,5}) \(([^\s.]{1,255})(?:\.\S{1,255})?\): device ([0-9]{1,4}): .*"
)
_HOST = re.compile(r".*\) ?: \((\S{1,255})\)")


def places(seen: Mapping[str, Any], file_host: str) -> dict[int, tuple[str, int]]:
    """Row or column of a matrix -> node and number of its GPU there. `file_host` is the node where
    the output names none, as JSON of several nodes does: it has the devices of the first process.
    """
    devices = list(map(str, seen.get("devices", ())))
    host = file_host
    if not any(test.startswith(_SEVERAL) for test in seen.get("tests", ())):
        host = next((named[1] for one in devices if (named := _HOST.fullmatch(one))), host)
    found = {gpu: (host, gpu) for gpu in range(seen.get("gpus", 0))}
    for process in filter(None, map(_PROCESS.fullmatch, devices)):
        found[int(process[1])] = process[2], int(process[3])
    return found


_ADDRESS = re.compile(
    r"(?:[Dd]evice )?([0-9]{1,4}): .*\(([0-9a-f]{4})([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\).*"
)


def gpu_numbers(seen: Mapping[str, Any]) -> dict[str, int]:
    """PCI address without its function, as sysfs has it (0000:1b:00) -> number of the GPU."""
    found = (_ADDRESS.fullmatch(device) for device in seen.get("devices", ()))
    return {one[3]: int(one[1]) for one in found if one and one[2] == "0000"}


def read(text: str, *, calls: Sequence[Call] = (), options: Options | None = None) -> Reading:
    """Judge one run. Its end is proved by the note that stands there, or the whole document; all
    of it with exit code 0 and the tests that were asked for.
    """
    return judge(text, parse, _conclude, calls, options)


def _conclude(output: Output, options: Options | None) -> Conclusion:
    matrices = [
        {"test": m.test, "part": m.part, "cells": [list(row) for row in m.cells]}
        for m in output.matrices
    ]
    gpus = max(len(m.cells[0]) for m in output.matrices)
    seen: dict[str, Any] = {"tests": list(output.tests), "gpus": gpus, "matrices": matrices}
    if output.version:
        seen["version"] = output.version
    if output.devices:
        seen["devices"] = list(output.devices)
    complaints = [
        f"{matrix.test}: 0 from {row} to {column}, expected above 0"
        for matrix in output.matrices
        for value, row, column in matrix.measured
        if not value
    ]
    complaints += [
        f"{matrix.test}: nothing measured" for matrix in output.matrices if not matrix.measured
    ]
    complaints += _odd_shapes(output)
    complaints += _odd_processes(seen, options)
    if options is not None and output.tests != options.tests:
        asked = ", ".join(options.tests)
        complaints.append(f"the tests are {', '.join(output.tests)}, expected {asked}")
    notes = [*output.warnings]
    if output.waived:
        notes.append(f"not run, as this machine cannot: {', '.join(output.waived)}")
    return Conclusion(
        f"{len(output.tests)} tests to their end",
        tuple(m for matrix in output.matrices for m in _measurements(matrix)),
        seen,
        tuple(complaints),
        tuple(notes),
        ended=output.ended,
    )


def _odd_shapes(output: Output) -> Iterator[str]:
    """Matrices of `WAYS` that have not a row for the host, or one for each GPU."""
    sizes: dict[bool, int] = {}
    for matrix in output.matrices:
        if matrix.test not in WAYS:
            continue
        of_host = WAYS[matrix.test] in ("from_host", "to_host")
        rows, columns = len(matrix.cells), len(matrix.cells[0])
        gpus = sizes.setdefault(matrix.test.startswith(_SEVERAL), columns)
        if (rows, columns) != (1 if of_host else gpus, gpus):
            expected = f"{'a row' if of_host else f'{gpus} rows'} of {gpus}"
            yield f"{matrix.test}: {rows} rows of {columns}, expected {expected}"


def _odd_processes(seen: Mapping[str, Any], options: Options | None) -> Iterator[str]:
    """MPI processes that are not where they were started, or share a GPU: a node lacks one."""
    if options is None or not options.hosts:
        return
    processes = [*filter(None, map(_PROCESS.fullmatch, map(str, seen.get("devices", ()))))]
    hosts = tuple(one[2] for one in processes)
    if hosts != options.hosts:
        found = ", ".join(dict.fromkeys(hosts)) or "no process"
        expected = ", ".join(dict.fromkeys(options.hosts))
        yield f"{len(hosts)} processes on {found}, expected {len(options.hosts)} on {expected}"
    gpus = [f"GPU {one[3]} of {one[2]}" for one in processes]
    for gpu in dict.fromkeys(gpus):
        if gpus.count(gpu) > 1:
            yield f"{gpus.count(gpu)} processes use {gpu}, expected one"


def _measurements(matrix: Matrix) -> Iterator[Measurement]:
    values = [value for value, _, _ in matrix.measured]
    if not values:
        return
    mean = sum(values) / len(values)
    operation = f"copy {matrix.test} {matrix.part.lower()}".strip()
    metrics = (
        {"latency_avg": mean, "latency_max": max(values)}
        if matrix.is_latency
        else {"copy_bandwidth": mean, "copy_bandwidth_min": min(values)}
    )
    for metric, value in metrics.items():
        yield Measurement(metric, value, TOOL, operation, "any")


# ---- by hand -------------------------------------------------------------------------------


def _joins(section: str, line: str) -> bool:
    """The tests of a run stand below its version, or below each other where that was cut."""
    ended = "NOTE: The reported results" in section or '"nvbandwidth"' in section
    return line.lstrip().startswith("Running ") and not ended


_MARKS = Marks(
    (
        Mark("nvbandwidth Version: ", r"nvbandwidth Version: \S"),
        Mark('"nvbandwidth"', r'"nvbandwidth"\s*:', (r"\{",)),
        *(Mark(f"_{end}.", rf"Running \w+_{end}\.") for end in ("ce", "sm", "copy")),
    ),
    joins=_joins,
    end=re.compile(r"\}\s*"),
)

BY_HAND = ByHand(
    ("what it printed, as text or with --json",),
    "The note at its end, or the whole JSON, proves that the run came to its end; versions before "
    "0.5 print none. All of it is `proved` by the exit code and the tests that were expected.",
    {"tests": tests},
    Options,
    by_hand(TOOL, read),
    example=("tests=host_to_device_memcpy_ce",),
    marks=_MARKS,
)
