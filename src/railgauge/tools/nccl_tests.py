"""nccl-tests: bandwidth of NCCL's collectives (all_reduce_perf and its nine siblings).

A good table proves little: ranks that started alone print one each, a sweep may stop early, and
values may be wrong while the exit code of an old version is 0. So a table counts only with its
header (who took part, what was asked), its footer (out of bounds, average, end line) and exit codes
that all agree with its rows and with each other.

Formulas, alignments and exit codes are those of nccl-tests 2.19 (src/common.cu, src/util.cu and the
operations beside them); what older versions printed is noted where it differs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from railgauge.measurement import Measurement
from railgauge.node.ranks import without_environment
from railgauge.tools import Call, Completeness, ParseError, Reading
from railgauge.tools.nccl_log import ADVICE

TOOL = "nccl-tests"

#: What the programs `<operation>_perf` measure.
OPERATIONS: tuple[str, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "alltoall",
    "gather",
    "scatter",
    "sendrecv",
    "hypercube",
)

_REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
_ROOTED = {"broadcast", "reduce", "gather", "scatter"}
#: A rank's share is 1/n of the size that is printed.
_DIVIDED = {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube"}
#: The tool cannot check their results in place: N/A there.
_CHECKED_OUT_OF_PLACE_ONLY = {"alltoall", "sendrecv"}

#: Bytes of an element. The first versions said char and int.
_ELEMENT_BYTES = {
    **{"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8},
    **{"half": 2, "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1},
    **{"char": 1, "int": 4},
}

#: The first versions with a feature. -I stands in the sources of 2.19.1, but perhaps came after it.
_ALIGNS_TO_16_BYTES = (2, 14, 0)
_ALIGNS_TO_4_ELEMENTS = (2, 13, 0)
_PRINTS_END = (2, 16, 7)
_HAS_JSON = (2, 17, 3)
_HAS_INTERVALS = (2, 19, 2)


def busbw_factor(operation: str, ranks: int) -> float:
    """busbw over size / time (nccl-tests' doc/PERFORMANCE.md, and src/<operation>.cu).

    That is busbw over algbw, but for hypercube: it prints the same number as both.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"operation is {operation!r}, expected one of {', '.join(OPERATIONS)}")
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}, expected 1 or more")
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if operation in _DIVIDED else 1.0


# ---- options -------------------------------------------------------------------------------

_LIMITS = {
    "ranks": (1, 2**20),
    # sizes pass through a double; with 0 the tool would never end
    "min_bytes": (1, 2**53),
    "max_bytes": (1, 2**53),
    "factor": (2, 2**31 - 1),
    "iterations": (1, 2**31 - 1),
    "warmup": (0, 2**31 - 1),
    "timeout_s": (1, 2**31 - 1),
    "gpus_per_rank": (1, 1024),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What is asked of one run; ValueError where it cannot be run.

    `ranks` are processes, each with `gpus_per_rank` GPUs, which NCCL counts as its ranks. Sizes
    are multiplied by `factor` from `min_bytes` until they exceed `max_bytes`. `transport` is what
    NCCL was told to use: the tool does not know it.
    """

    operation: str
    ranks: int
    min_bytes: int
    max_bytes: int
    factor: int = 2
    #: timed operations per size
    iterations: int = 20
    warmup: int = 5
    #: for one wait for the GPUs, not for the run
    timeout_s: int = 600
    datatype: str = "float"
    #: the version that will run; its options and the sizes that it prints depend on it
    version: str = "2.17.6"
    transport: str = "any"
    #: of each rank, in rank order; () where they are not known
    hosts: tuple[str, ...] = ()
    gpus_per_rank: int = 1

    def __post_init__(self) -> None:
        for name, known in (("operation", OPERATIONS), ("datatype", tuple(_ELEMENT_BYTES))):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"nccl-tests {name} is {getattr(self, name)!r}, expected one of "
                    f"{', '.join(known)}"
                )
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                expected = f"an integer of {least} to {most}"
                raise ValueError(f"nccl-tests {name} is {value!r}, expected {expected}")
        if not isinstance(self.version, str) or not re.fullmatch(
            r"2\.[0-9]{1,4}\.[0-9]{1,4}", self.version
        ):
            raise ValueError(f"nccl-tests version is {self.version!r}, expected 2.minor.patch")
        if not isinstance(self.transport, str) or not self.transport:
            raise ValueError(f"nccl-tests transport is {self.transport!r}, expected a name")
        if self.min_bytes > self.max_bytes:
            raise ValueError(
                f"nccl-tests min_bytes is {self.min_bytes}, expected at most max_bytes, "
                f"{self.max_bytes}"
            )
        if self.hosts and len(self.hosts) != self.ranks:
            raise ValueError(
                f"nccl-tests hosts are {len(self.hosts)}, expected one for each of the "
                f"{self.ranks} ranks, or none"
            )
        if self.operation == "hypercube" and self.gpus & (self.gpus - 1):
            raise ValueError(f"hypercube runs on a power of 2 of GPUs, not on {self.gpus}")

    @property
    def gpus(self) -> int:
        """NCCL's ranks, n in all formulas."""
        return self.ranks * self.gpus_per_rank

    @property
    def has_json(self) -> bool:
        """Whether that version writes its results as JSON too (-J)."""
        return _version(self.version) >= _HAS_JSON

    @property
    def has_intervals(self) -> bool:
        """Whether that version times every iteration on its own (-I)."""
        return _version(self.version) >= _HAS_INTERVALS

    def sizes(self) -> tuple[int, ...]:
        """The sizes that the tool prints, in order.

        It rounds down to whole elements, and where a rank has 1/n of them, to the same multiple of
        16 bytes for each rank. So small sizes may be 0, several times.
        """
        asked = itertools.takewhile(
            lambda size: size <= self.max_bytes,
            (self.min_bytes * self.factor**power for power in itertools.count()),
        )
        element = _ELEMENT_BYTES[self.datatype]
        version = _version(self.version)
        return tuple(_printed(self.operation, size, element, self.gpus, version) for size in asked)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _printed(
    operation: str, asked_bytes: int, element: int, ranks: int, version: tuple[int, ...]
) -> int:
    """The size column for a size of the sweep (getCollByteCount of each operation)."""
    count = asked_bytes // element
    if operation not in _DIVIDED:
        return count * element
    aligned = operation in ("all_gather", "reduce_scatter", "hypercube")
    if version >= _ALIGNS_TO_16_BYTES:
        multiple = 16 // element
    elif aligned and (version >= _ALIGNS_TO_4_ELEMENTS or operation == "hypercube"):
        multiple = 4
    else:
        multiple = 1
    share = count // ranks
    return (share - share % multiple) * ranks * element


def version_argv() -> list[str]:
    """Nothing to call: the output states its version."""
    return []


def argv(options: Options, program: str, json_file: str | None = None) -> list[str]:
    """Every rank's command. `json_file` must not exist: the tool would write to another one."""
    words = [program]
    for flag, value in (
        ("-b", options.min_bytes),
        ("-e", options.max_bytes),
        ("-f", options.factor),
        ("-g", options.gpus_per_rank),
        ("-w", options.warmup),
        ("-n", options.iterations),
        ("-c", 1),
        ("-T", options.timeout_s),
        ("-d", options.datatype),
    ):
        words += [flag, str(value)]
    if options.operation in _REDUCING:
        words += ["-o", "sum"]
    if options.has_intervals:
        words += ["-I", "1"]
    if json_file is not None:
        if not options.has_json:
            raise ValueError(
                f"nccl-tests {options.version} writes no JSON (-J), 2.17.3 and later do"
            )
        if not json_file.endswith(".json"):
            raise ValueError(f"JSON file is {json_file!r}, expected a name that ends with .json")
        words += ["-J", json_file]
    return words


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Intervals:
    """The iterations of one size one by one (-I), the slowest process of each."""

    min_us: float
    max_us: float
    p99_us: float
    #: standard deviation over mean
    cv_percent: float


class Column(NamedTuple):
    """One side of a row: out of place, or in place. No dataclass, since there are so many."""

    #: of one operation
    time_us: float
    algbw_gbytes_s: float
    busbw_gbytes_s: float
    #: values that are not what they should be; None where they were not checked (N/A)
    wrong: int | None
    #: before 2.13, the largest deviation; `wrong` is then 1 where it exceeds the tool's tolerance
    error: float | None = None
    intervals: Intervals | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One size of a sweep. `line` is its number in the text, in JSON its place, from 1.

    `text` is what was printed: its digits say how far the numbers were rounded. "" in JSON.
    """

    #: of the larger one of a rank's two buffers
    size_bytes: int
    #: elements that NCCL was called with
    count: int
    datatype: str
    #: "" where the operation does not reduce, or the version does not say
    redop: str
    #: -1 where the operation has none; None where the version does not say
    root: int | None
    out_of_place: Column
    in_place: Column | None
    line: int
    text: str = dataclasses.field(default="", repr=False, compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        out, inside = self.out_of_place, self.in_place
        return (out,) if inside is None else (out, inside)


@dataclasses.dataclass(frozen=True)
class Device:
    """The GPU of one of NCCL's ranks."""

    rank: int
    host: str
    device: int
    #: domain:bus:device; the bus alone in older versions (0x1b)
    bus_id: str
    name: str
    pid: int | None
    #: the communicator, where NCCL_TESTS_SPLIT makes several
    group: int = 0


@dataclasses.dataclass(frozen=True)
class Result:
    """One test: what its header states, its rows, and its footer. None where it does not say."""

    #: "" where the text does not say
    operation: str = ""
    program: str = ""
    version: str = ""
    nccl_version: str = ""
    devices: tuple[Device, ...] = ()
    threads: int | None = None
    gpus_per_thread: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    #: sizes are multiplied by it, or `step_bytes` are added
    step_factor: int | None = None
    step_bytes: int | None = None
    warmup: int | None = None
    iterations: int | None = None
    #: operations per iteration (-m)
    aggregated: int | None = None
    #: checks of each result (-c); 0 where none is checked
    validation: int | None = None
    #: other conditions than those that Railgauge asks for
    conditions: tuple[str, ...] = ()
    #: `time_us` is that of the CPU until it has started the operation (-C)
    cpu_time: bool = False
    rows: tuple[Row, ...] = ()
    #: sides of rows with wrong values, counted on each process
    out_of_bounds: int | None = None
    out_of_bounds_ok: bool = False
    #: over all rows and both sides
    average_busbw_gbytes_s: float | None = None
    #: False below the bandwidth that NCCL_TESTS_MIN_BW asks for
    average_ok: bool = True
    #: the tool's own last line (2.16.7 and later), in JSON the time of the end
    concluded: bool = False
    #: advice that NCCL gave as WARN
    warnings: int = 0
    simulated: bool = False
    #: where the columns of the text are
    layout: _Layout | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(row.size_bytes for row in self.rows)

    @property
    def ends_with_line(self) -> bool:
        """Whether the version that printed this also prints an end line."""
        return bool(self.program) or (bool(self.version) and _version(self.version) >= _PRINTS_END)


# ---- parse ---------------------------------------------------------------------------------

# `mpirun --tag-output`, `srun --label`, and others that put the rank before a line.
_TAG = re.compile(r"\s*(?:\[[^\]\s]*,[0-9]+\]<std(?:out|err)>:|[0-9]+:(?=\s|$)|\[[0-9]+\])\s?")
_TAG_STARTS = frozenset("[0123456789")
_DIGITS = frozenset("0123456789")
_SIGNED = re.compile(r"[-+.][0-9.]")
#: First words of the lines that the first versions print without a '#'.
_WITHOUT_SIGN = frozenset({"Out", "Avg", "size", "bytes", "nThread"})
_DATE_OR_ADDRESS = re.compile(
    r"[0-9]{4}[-/][0-9]{2}[-/]|[0-9]{2}:[0-9]{2}|(?:[0-9]{1,3}\.){3}[0-9]"
)

_PROGRAM = re.compile(r"Collective test (?:starting|concluded):\s*(\S+)\s*")
_VERSION = re.compile(
    r"nccl-tests version ([0-9]+\.[0-9]+\.[0-9]+)\b.*?(?:nccl-library=([0-9]{4,6})\b.*)?"
)
_NCCL_VERSION = re.compile(r"NCCL version ([0-9]+(?:\.[0-9]+)+)")
_PARAMETERS = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|warmup iters|agg iters|iters|validation|graph|unalign)s?:?"
    r"\s+([0-9]{1,18})(?![0-9])"
)
_STEP = re.compile(r"step:\s*([0-9]{1,18})\((factor|bytes)\)")
_DEVICE = re.compile(
    r"Rank\s+([0-9]{1,9})(?:\s+Group\s+([0-9]{1,9}))?(?:\s+Pid\s+([0-9]{1,9}))?\s+on\s+(\S+)\s+"
    r"device\s+([0-9]{1,9})\s+\[([^\]\s]+)\]\s*(.*)"
)
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*([0-9]{1,18})\s+(OK|FAILED)\s*")
_AVERAGE = re.compile(
    r"Avg bus bandwidth\s*:\s*([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)\s*(OK|FAILED|)\s*"
)

# What the tool, MPI, Slurm, a shell or the loader say when a run fails; in lower case.
_FAILURE = re.compile(
    r"test (?:cuda|nccl) failure|test failure |test timeout|\bnccl failure\b|\bcuda failure\b|"
    r"\binvalid number of gpus\b|\binvalid (?:option|size specified|sizes for|type|op)\b|\busage:|"
    r"not a power of 2, skipping|or later is needed for|incompatible nccl versions|"
    r"not supported by this test|\bmpi_abort\b|exited on signal|returned a non-zero exit|"
    r"\b(?:srun|slurmstepd|mpirun|prterun|orterun): error\b|\bsegmentation fault\b|"
    r"\bcore dumped\b|\bbus error\b|\bout of memory\b|\boom.kill|\bkilled\b|\baborted\b|"
    r"error while loading shared libraries|command not found|cannot execute"
)
#: Each of these has one of them, and to look for them is fast.
_FAILURE_WORDS = (
    *("failure", "timeout", "invalid", "usage:", "skipping", "needed for", "incompatible"),
    *("not supported", "abort", "signal", "non-zero", "error", "fault", "dumped", "memory"),
    *("oom", "killed", "not found", "cannot execute"),
)
# NCCL warns of what it cannot do, but for known advice.
_WARNING = "NCCL WARN"

_COLUMNS = {
    # the first version's names
    **{"bytes": "size", "N": "count", "op": "redop", "res": "error"},
    **{"cputime": "time", "wrong": "#wrong"},
}
_REQUIRED = ("size", "count", "type")
_SIDE = ("time", "algbw", "busbw")
_INTERVALS = ("i_min", "i_max", "i_p99", "i_cv%")
_HUGE = 1e18

#: DeltaMaxValue: what a value may deviate, per further rank. Integers: not at all.
_TOLERANCE = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}


def parse(text: str) -> tuple[Result, ...]:
    """The tests in one output, in order.

    Columns are found by their header; columns that are not known, log lines and prefixes of
    launchers are passed over. ParseError where the tool reports a failure, where a row or a line of
    the header or footer cannot be read, where ranks print beside each other, and where there is
    no test. What is missing is left to `read`.
    """
    found = _scan(text)
    if not found:
        raise ParseError(0, "no test", "the output of nccl-tests")
    return found


def _quote(line: str) -> str:
    return ascii(line.strip()[:160])


def _scan(text: str) -> tuple[Result, ...]:
    reader = _Reader()
    try:
        # Not splitlines(): it also breaks at form feeds and the like.
        *lines, last = text.split("\n")
        reader.take_all(lines)
        if last.strip():
            reader.take(len(lines) + 1, last, whole=False)
        return reader.results()
    except ParseError:
        # A failure explains torn rows, so it is told first, wherever it stands.
        for number, line in enumerate(text.split("\n"), 1):
            if _fails(line) and not line.lstrip().startswith("#"):
                raise ParseError(number, _quote(line), "no failure") from None
        raise


def _fails(line: str) -> bool:
    if _WARNING in line:
        return not ADVICE.search(line)
    if "NCCL INFO" in line:
        return False
    lower = line.lower()
    return any(word in lower for word in _FAILURE_WORDS) and bool(_FAILURE.search(lower))


class _Layout(NamedTuple):
    """Where a table's columns are, by their header."""

    width: int
    size: int
    elements: int
    datatype: int
    #: -1 where there is none
    redop: int
    root: int
    #: per side: time, algbw, busbw, wrong or error
    sides: tuple[tuple[int, int, int, int], ...]
    intervals: tuple[tuple[int, ...], ...]
    deviation: bool
    cpu_time: bool
    #: the first version: times in ms, and some operations without an in-place half
    first: bool

    @classmethod
    def of(cls, header: str) -> _Layout | None:
        """None where a column is missing, or there too often."""
        words = header.split()
        names: list[str] = []
        for word in words:
            # a date and a time of day
            names += [word] * 2 if word == "timestamp" else [_COLUMNS.get(word, word)]
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(name, []).append(place)
        sides = len(places.get("time", ()))
        verdict = "#wrong" if "#wrong" in places else "error"
        complete = (
            all(len(places.get(name, ())) == 1 for name in _REQUIRED)
            and all(len(places.get(name, ())) <= 1 for name in ("redop", "root"))
            and sides in (1, 2)
            and all(len(places.get(name, ())) == sides for name in (*_SIDE, verdict))
            and all(len(places.get(name, ())) in (0, sides) for name in _INTERVALS)
        )
        if not complete:
            return None
        timed = all(name in places for name in _INTERVALS)
        return cls(
            width=len(names),
            size=places["size"][0],
            elements=places["count"][0],
            datatype=places["type"][0],
            redop=places.get("redop", [-1])[0],
            root=places.get("root", [-1])[0],
            sides=tuple(zip(*(places[name] for name in (*_SIDE, verdict)), strict=True)),
            intervals=(
                tuple(zip(*(places[name] for name in _INTERVALS), strict=True)) if timed else ()
            ),
            deviation=verdict == "error",
            cpu_time="cputime" in words,
            first="bytes" in words,
        )

    def values(self, text: str) -> list[str]:
        """The values of a row that could be read once."""
        words = text.split()
        if len(words) < self.width:
            words.insert(self.redop, "")
        return words

    def rows(
        self,
        numbers: Sequence[int],
        texts: Sequence[str],
        values: Sequence[Sequence[str]],
        other_ranks: int,
    ) -> tuple[Row, ...]:
        """Column by column, which is much faster. ValueError where a value is none."""
        shown = list(zip(*values, strict=True))
        datatypes = shown[self.datatype]
        blanks = itertools.repeat(None)
        sides: list[Iterable[Column | None]] = []
        for place, (time, algbw, busbw, verdict) in enumerate(self.sides):
            wrong: Iterable[int | None]
            errors: Iterable[float | None] = blanks
            if self.deviation:
                allowed = {t: _TOLERANCE.get(t, 1e-200) * max(other_ranks, 1) for t in {*datatypes}}
                errors = [None if w == "N/A" else _positive(w) for w in shown[verdict]]
                wrong = [
                    None if error is None else int(error > allowed[datatype])
                    for error, datatype in zip(errors, datatypes, strict=True)
                ]
            else:
                wrong = map(_wrong_values(shown[verdict]).__getitem__, shown[verdict])
            times = [f"{t}e3" for t in shown[time]] if self.first else shown[time]
            sides.append(
                map(
                    Column,
                    _all_positive(times),
                    _all_positive(shown[algbw]),
                    _all_positive(shown[busbw]),
                    wrong,
                    errors,
                    map(Intervals, *(_all_positive(shown[i]) for i in self.intervals[place]))
                    if self.intervals
                    else blanks,
                )
            )
        roots: Iterable[int | None] = blanks
        if self.root >= 0:
            known = {root: int(root) for root in {*shown[self.root]}}
            if min(known.values()) < -1:
                raise ValueError("no rank")
            roots = map(known.__getitem__, shown[self.root])
        return tuple(
            map(
                Row,
                _all_counts(shown[self.size]),
                _all_counts(shown[self.elements]),
                datatypes,
                shown[self.redop] if self.redop >= 0 else itertools.repeat(""),
                roots,
                sides[0],
                sides[1] if len(sides) > 1 else blanks,
                numbers,
                texts,
            )
        )


# A file with many tests has the same header in all of them.
_layout = functools.lru_cache(maxsize=64)(_Layout.of)


class _Test:
    """One test while its lines are read. Its parts stand in a fixed order."""

    VERSION, PROGRAM, PARAMETERS, DEVICES, TABLE, BOUNDS, AVERAGE, END = range(1, 9)

    def __init__(self) -> None:
        self.stage = 0
        self.facts: dict[str, Any] = {}
        self.conditions: list[str] = []
        self.devices: list[Device] = []
        self.layout: _Layout | None = None
        #: its rows: their line numbers, their lines, and the values of each
        self.numbers: list[int] = []
        self.texts: list[str] = []
        self.values: list[list[str]] = []

    def rows(self) -> tuple[Row, ...]:
        layout = self.layout
        if layout is None or not self.values:
            return ()
        others = len(self.devices) - 1
        try:
            return layout.rows(self.numbers, self.texts, self.values, others)
        except (ValueError, OverflowError):
            for number, text, values in zip(self.numbers, self.texts, self.values, strict=True):
                try:
                    layout.rows([number], [text], [values], others)
                except (ValueError, OverflowError):
                    raise ParseError(number, _quote(text), "a row of numbers") from None
            raise


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

    def take_all(self, lines: Sequence[str]) -> None:
        """Rows and comments are told apart here, which is fast; `take` knows all lines."""
        width, tag, test = -1, "", self.test
        for number, line in enumerate(lines, 1):
            text = line[len(tag) :] if tag and line.startswith(tag) else line
            words = text.split()
            if not words:
                continue
            tagged = not tag or text is not line
            if (
                len(words) == width
                and tagged
                and words[0].isdigit()
                and line.isascii()
                and "_" not in line
            ):
                test.numbers.append(number)
                test.texts.append(text)
                test.values.append(words)
                continue
            if words[0] == "#" and tagged:
                if len(words) == 1:
                    continue
                self._take_comment(number, text, tag)
            else:
                self.take(number, line)
            test, tag = self.test, self.tag or ""
            layout = test.layout if test.stage == _Test.TABLE else None
            width = layout.width if layout else -1

    def take(self, number: int, line: str, whole: bool = True) -> None:
        words = line.split()
        if not words:
            return
        first = words[0]
        tag = ""
        if first[0] in _TAG_STARTS and (first[-1] == ":" or first[0] == "["):
            found = _TAG.match(line)
            if found:
                tag = found[0].rstrip()
                line = line[found.end() :]
                words = line.split()
                if not words:
                    return
                first = words[0]
        self.whole = whole
        if first[0] == "#" or first in _WITHOUT_SIGN:
            self._take_comment(number, line, tag)
        elif (first[0] in _DIGITS or _SIGNED.match(first)) and self._is_row(words):
            self._belongs(number, line, tag)
            self._take_row(number, line, words)
        elif first == "NCCL" and (version := _NCCL_VERSION.match(line.strip())):
            self.nccl_version = version[1]
        elif _fails(line):
            raise ParseError(number, _quote(line), "no failure")
        elif _WARNING in line:
            self.warnings += 1

    def _take_comment(self, number: int, line: str, tag: str) -> None:
        if _WARNING in line and _fails(line):
            raise ParseError(number, _quote(line), "no warning of NCCL")
        body = line.strip(" \t\r#")
        word = body.partition(" ")[0]
        handler = _HANDLERS.get(word)
        if handler is not None:
            self._belongs(number, line, tag)
            handler(self, number, body)
        elif word == "SIMULATED":
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
            rows=test.rows(),
            warnings=self.warnings,
            layout=test.layout,
            simulated=self.simulated,
        )

    def _belongs(self, number: int, line: str, tag: str) -> None:
        """Whether the line is of the rank that printed the others."""
        if not self.whole:
            raise ParseError(number, f"{_quote(line)}, without a line end", "a whole output")
        if self.tag is None:
            self.tag = tag
        elif tag != self.tag:
            mine, other = self.tag or "no prefix", tag or "no prefix"
            raise ParseError(
                number,
                f"a table of {other} beside that of {mine}",
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
            raise ParseError(number, f"a row without a header, {_quote(line)}", "a header above it")
        if test.stage != _Test.TABLE:
            raise ParseError(number, "a row below the end of the table", "nothing more")
        if layout.first and len(words) == layout.width - 4 and not test.values:
            test.layout = layout = layout._replace(
                width=layout.width - 4, sides=layout.sides[:1], intervals=()
            )
        elif len(words) == layout.width - 1 and layout.redop >= 0:
            # operations that do not reduce print blanks
            words.insert(layout.redop, "")
        if len(words) != layout.width:
            found = f"{len(words)} values in {_quote(line)}"
            raise ParseError(number, found, f"{layout.width}, as the header has")
        if not line.isascii() or "_" in line:
            # Python would read them as numbers
            raise ParseError(number, _quote(line), "a row of plain numbers")
        test.numbers.append(number)
        test.texts.append(line)
        test.values.append(words)

    # --- header and footer ---

    def _take_version(self, number: int, body: str) -> None:
        found = _VERSION.fullmatch(body)
        if not found:
            raise ParseError(number, _quote(body), "'nccl-tests version N.N.N'")
        test = self._enter(_Test.VERSION)
        test.facts["version"] = found[1]
        if found[2]:
            test.facts["nccl_version"] = _nccl_version(int(found[2]))

    def _take_collective(self, number: int, body: str) -> None:
        found = _PROGRAM.fullmatch(body)
        if not found:
            raise ParseError(number, _quote(body), "'Collective test starting' or 'concluded'")
        program = found[1]
        if body.startswith("Collective test starting"):
            facts = self._enter(_Test.PROGRAM).facts
            facts["program"], facts["operation"] = program, _operation(program)
            return
        facts = self._enter(_Test.END).facts
        if program != facts.setdefault("program", program):
            raise ParseError(number, _quote(body), f"the end of {facts['program']}")
        facts["operation"], facts["concluded"] = _operation(program), True

    def _take_parameters(self, number: int, body: str) -> None:
        shown = {name: int(value) for name, value in _PARAMETERS.findall(body)}
        step = _STEP.search(body)
        needed = {"nThread", "nGpus", "minBytes", "maxBytes", "iters", "validation"}
        if step is None or not needed <= set(shown):
            raise ParseError(number, _quote(body), "nThread, nGpus, minBytes ... validation")
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

    def _take_devices(self, number: int, body: str) -> None:
        if body.startswith("Using devices"):
            self._enter(_Test.DEVICES)

    def _take_device(self, number: int, body: str) -> None:
        found = _DEVICE.fullmatch(body)
        if not found:
            raise ParseError(number, _quote(body), "'Rank N ... on HOST device N [ID] NAME'")
        rank, group, pid, host, device, bus_id, name = found.groups()
        if self.test.stage > _Test.DEVICES:
            self._enter(_Test.DEVICES)
        self.test.stage = _Test.DEVICES
        self.test.devices.append(
            Device(
                int(rank),
                host,
                int(device),
                bus_id,
                name.strip(),
                int(pid) if pid else None,
                int(group or 0),
            )
        )

    def _take_sides(self, number: int, body: str) -> None:
        if 0 <= body.find("in-place") < body.find("out-of-place"):
            raise ParseError(number, _quote(body), "out-of-place before in-place")

    def _take_header(self, number: int, body: str) -> None:
        if "algbw" not in body:
            return
        layout = _layout(body)
        if layout is None:
            expected = "size, count, type, and time, algbw, busbw, #wrong of one or two sides"
            raise ParseError(number, _quote(body), expected)
        self._enter(_Test.TABLE).layout = layout

    def _take_units(self, number: int, body: str) -> None:
        if not {"(us)", "(GB/s)"} <= set(body.split()):
            raise ParseError(number, _quote(body), "times in (us), bandwidths in (GB/s)")

    def _take_bounds(self, number: int, body: str) -> None:
        found = _OUT_OF_BOUNDS.fullmatch(body)
        if not found:
            raise ParseError(number, _quote(body), "'Out of bounds values : N OK' or 'FAILED'")
        facts = self._enter(_Test.BOUNDS).facts
        facts["out_of_bounds"], facts["out_of_bounds_ok"] = int(found[1]), found[2] == "OK"

    def _take_average(self, number: int, body: str) -> None:
        found = _AVERAGE.fullmatch(body)
        if not found or not float(found[1]) < _HUGE:
            raise ParseError(number, _quote(body), "'Avg bus bandwidth : X', perhaps with OK")
        facts = self._enter(_Test.AVERAGE).facts
        facts["average_busbw_gbytes_s"], facts["average_ok"] = float(found[1]), found[2] != "FAILED"

    def _take_bitwise(self, number: int, body: str) -> None:
        if "mismatch" in body and "0 OK" not in body:
            raise ParseError(number, _quote(body), "the same bits in every repetition")


#: By the first word of a line, without its '#'.
_HANDLERS = {
    "nccl-tests": _Reader._take_version,
    "Collective": _Reader._take_collective,
    "nThread": _Reader._take_parameters,
    "nThreads:": _Reader._take_parameters,
    "Blocking": _Reader._take_condition,
    "Parallel": _Reader._take_condition,
    "Reducing": _Reader._take_condition,
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
}


def _positive(word: str) -> float:
    value = float(word)
    # false for nan too
    if not 0 <= value < _HUGE:
        raise ValueError("no such number")
    return value


def _all_positive(words: Sequence[str]) -> list[float]:
    values = list(map(float, words))
    # the sum of anything with nan is nan
    if not (min(values) >= 0 and sum(values) < _HUGE):
        raise ValueError("no such number")
    return values


def _all_counts(words: Sequence[str]) -> list[int]:
    values = list(map(int, words))
    if min(values) < 0:
        raise ValueError("no count")
    return values


def _wrong_values(words: Sequence[str]) -> dict[str, int | None]:
    """What each different word says; a part of a wrong value is one."""
    return {word: None if word == "N/A" else math.ceil(_positive(word)) for word in {*words}}


def _operation(program: str) -> str:
    """all_reduce of build/all_reduce_perf_mpi; the name as it is where it is none of ours."""
    return PurePosixPath(program).name.partition("_perf")[0]


def _nccl_version(code: int) -> str:
    """NCCL_VERSION_CODE: 2.28.9 is 22809, before 2.9 2.8.4 was 2804."""
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"


# ---- JSON ----------------------------------------------------------------------------------

#: All that is kept of a document. `env` is not among it: it holds whatever the user exported.
_KEPT = (
    *("version", "start_time", "args", "nccl_version", "config", "results", "out_of_bounds"),
    *("bitwise_mismatches", "average_bus_bandwidth", "errors", "end_time", "simulated"),
)
#: Numbers are written with %lf.
_JSON_HALF = 5e-7


def _document(text: str) -> dict[str, Any]:
    """The document without the environment; ParseError tells nothing of its contents."""
    document: Any = None
    # The decoder's exception holds the whole text, so ours must not be raised while it is handled.
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
    if not isinstance(document, dict):
        raise ParseError(0, "no whole JSON document", "the file that nccl-tests -J writes")
    return {name: without_environment(document[name]) for name in _KEPT if name in document}


def _no_constant(name: str) -> float:
    raise ValueError("no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def scrubbed_json(text: str) -> str:
    """The JSON document to be kept: without the environment, and what else is not known.

    ParseError where it is not whole: its remains may hold the environment.
    """
    return json.dumps(_document(text), indent=1)


def parse_json(text: str) -> Result:
    """The result of a -J file; ParseError where it is broken off, or has no results.

    Of its devices the tool writes the first of each process.
    """
    document = _document(text)
    config = _get(document, "config", dict, "JSON")
    results = _get(document, "results", list, "JSON")
    words = _get(document, "args", list, "JSON")
    if not words or not isinstance(words[0], str):
        raise ParseError(0, "JSON without the program's name", "args")
    program = PurePosixPath(words[0]).name
    bounds = _get(document, "out_of_bounds", dict, "JSON")
    average = _get(document, "average_bus_bandwidth", dict, "JSON")
    bandwidth = _json_number(average, "bandwidth", "average_bus_bandwidth")
    conditions = [
        f"{name}: {config[name]}"
        for name in ("graph", "blocking_collectives")
        if str(config.get(name, 0)).lower() not in ("0", "false")
    ]
    code = document.get("nccl_version")
    return Result(
        operation=_operation(program),
        program=program,
        nccl_version=_nccl_version(code) if isinstance(code, int) and code > 0 else "",
        devices=tuple(_json_device(entry) for entry in _get(config, "devices", list, "config")),
        threads=_json_count(config, "nthreads"),
        gpus_per_thread=_json_count(config, "ngpus"),
        min_bytes=_json_count(config, "minimum_bytes"),
        max_bytes=_json_count(config, "maximum_bytes"),
        step_factor=_json_count(config, "step_factor") if "step_factor" in config else None,
        step_bytes=_json_count(config, "step_bytes") if "step_bytes" in config else None,
        warmup=_json_count(config, "warmup_iters"),
        iterations=_json_count(config, "iterations"),
        aggregated=_json_count(config, "aggregated_iterations"),
        validation=_json_count(config, "validation"),
        conditions=tuple(conditions),
        cpu_time=any("cpu_time" in str(row) for row in results[:1]),
        rows=tuple(_json_row(place, row) for place, row in enumerate(results, 1)),
        out_of_bounds=_json_count(bounds, "count"),
        out_of_bounds_ok=bounds.get("okay") in ("true", True),
        average_busbw_gbytes_s=bandwidth,
        average_ok=average.get("okay") in ("true", "unchecked", True),
        concluded="end_time" in document,
        simulated=document.get("simulated", False) not in (False, "false", None),
    )


def _get(mapping: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    found = mapping.get(name)
    if not isinstance(found, kind) or isinstance(found, bool):
        raise ParseError(0, f"{where} without {name}", "what nccl-tests -J writes of a whole run")
    return found


def _json_number(mapping: Mapping[str, Any], name: str, where: str) -> float:
    found = mapping.get(name)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < _HUGE:
        raise ParseError(0, f"{where}: no number as {name}", "a number of 0 or more")
    return float(found)


def _json_count(mapping: Mapping[str, Any], name: str) -> int:
    found = _get(mapping, name, int, "JSON")
    if not 0 <= found < _HUGE:
        raise ParseError(0, f"JSON: no count as {name}", "a number of 0 or more")
    return int(found)


def _json_device(entry: Any) -> Device:
    if not isinstance(entry, dict):
        raise ParseError(0, "JSON: a device that is none", "rank, hostname, device, device_hex")
    return Device(
        rank=_json_count(entry, "rank"),
        host=str(_get(entry, "hostname", str, "device")),
        device=_json_count(entry, "device"),
        bus_id=str(_get(entry, "device_hex", str, "device")),
        name=str(entry.get("device_info", "")).strip(),
        pid=_json_count(entry, "pid") if "pid" in entry else None,
        group=_json_count(entry, "group") if "group" in entry else 0,
    )


def _json_row(place: int, row: Any) -> Row:
    where = f"result {place}"
    if not isinstance(row, dict):
        raise ParseError(0, f"JSON: {where} is none", "size, count, out_of_place, in_place")
    root = str(row.get("root", "")).strip()
    if not re.fullmatch(r"-1|[0-9]{1,9}", root):
        raise ParseError(0, f"JSON: {where}: no root", "-1, or a rank")
    out = _json_column(row, "out_of_place", where)
    if out is None:
        raise ParseError(0, f"JSON: {where} without out_of_place", "both sides")
    return Row(
        size_bytes=_json_count(row, "size"),
        count=_json_count(row, "count"),
        datatype=str(_get(row, "type", str, where)),
        redop=str(_get(row, "redop", str, where)).strip(),
        root=int(root),
        out_of_place=out,
        in_place=_json_column(row, "in_place", where),
        line=place,
    )


def _json_column(row: Mapping[str, Any], name: str, where: str) -> Column | None:
    if row.get(name) is None:
        return None
    side = _get(row, name, dict, where)
    wrong = None if side.get("nwrong") is None else _json_number(side, "nwrong", where)
    timed = row.get(f"{name}_per_iter")
    return Column(
        time_us=_json_number(side, "cpu_time" if "cpu_time" in side else "time", where),
        algbw_gbytes_s=_json_number(side, "alg_bw", where),
        busbw_gbytes_s=_json_number(side, "bus_bw", where),
        wrong=None if wrong is None else math.ceil(wrong),
        intervals=Intervals(
            *(_json_number(timed, n, where) for n in ("min_us", "max_us", "p99_us", "cv_pct"))
        )
        if isinstance(timed, dict)
        else None,
    )


# ---- read ----------------------------------------------------------------------------------

#: What the tool says with its exit code (testResult_t in src/common.h).
_EXIT_CODES = {
    1: "an internal error, before 2.19 also wrong values",
    2: "a CUDA error",
    3: "an NCCL error",
    4: "a timeout (-T)",
    5: "fewer GPUs than asked for, or something that the test cannot do",
    6: "wrong usage",
    7: "wrong values, or less bandwidth than NCCL_TESTS_MIN_BW",
    255: "arguments that the tool cannot use",
}
#: Beyond the rounding of the digits: the order in which doubles are multiplied.
_SLACK = 1e-9


def read(
    outputs: Mapping[int, str],
    *,
    json_text: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judges all that is known of one run; never raises for what a tool or a job wrote.

    `outputs` are by rank; only rank 0 prints a table. Proved with the end line of the tool's newer
    versions, or with exit code 0 of every rank. A bare file (no options) is judged by what it
    states itself, and may hold several tests.
    """
    complaints = _call_complaints(calls, options)
    tables: dict[int, tuple[Result, ...]] = {}
    for rank, text in sorted(outputs.items()):
        try:
            if found := _scan(text):
                tables[rank] = found
        except ParseError as error:
            complaints.append(f"rank {rank}: {error}" if len(outputs) > 1 else str(error))
    results = next(iter(tables.values()), ())
    complaints += _table_complaints(tables, complaints, options)
    judged = [_judged(result, options) for result in results]
    for result, verdict in zip(results, judged, strict=True):
        name = f"{result.program or 'test'}: " if len(results) > 1 else ""
        complaints += [f"{name}{why}" for why in verdict.complaints]
    simulated = any(result.simulated for found in tables.values() for result in found)
    if json_text is not None and (json_text.strip() or options is None or options.has_json):
        stored, why = _stored(json_text)
        simulated = simulated or (stored is not None and stored.simulated)
        complaints += why
        if stored is not None and len(results) == 1:
            complaints += _disagreements(results[0], stored)
    seen = _seen(results)
    if complaints:
        refused = Reading.refused("; ".join(dict.fromkeys(complaints)))
        return dataclasses.replace(refused, seen=seen, simulated=simulated)
    nodes = tuple(dict.fromkeys(c.host for c in sorted(calls, key=lambda call: call.rank)))
    measurements = tuple(
        measurement
        for result, verdict in zip(results, judged, strict=True)
        for measurement in _measurements(result, verdict, options, nodes, simulated)
    )
    sizes = sum(len(result.rows) for result in results)
    reason = f"{sizes} size(s) of {', '.join(v.operation or 'a collective' for v in judged)}"
    if not all(
        result.validation or verdict.checked
        for result, verdict in zip(results, judged, strict=True)
    ):
        reason += ", whose values were not checked,"
    ended = _all_ended(results, calls, options)
    if ended or all(result.concluded for result in results):
        end = "every rank ended with exit code 0" if ended else "the tool says that it concluded"
        return Reading(True, f"{reason}: {end}", Completeness.PROVED, measurements, seen, simulated)
    reason += (
        ": nothing is contradicted, but that the run finished is not proved without exit codes"
    )
    return Reading(True, reason, Completeness.UNKNOWN, measurements, seen, simulated)


def _call_complaints(calls: Sequence[Call], options: Options | None) -> list[str]:
    complaints = []
    for call in calls:
        if why := call.failure:
            meaning = _EXIT_CODES.get(call.exit_code or 0)
            complaints.append(f"{why}: {meaning}" if meaning and not call.note else why)
    ranks = Counter(call.rank for call in calls)
    twice = [rank for rank, count in ranks.items() if count > 1]
    if twice:
        complaints.append(f"two exit lines of rank {min(twice)}")
    if calls and options:
        missing = sorted(set(range(options.ranks)) - set(ranks))
        if missing:
            complaints.append(f"no exit line of rank {_few(missing)}")
        if surplus := sorted(set(ranks) - set(range(options.ranks))):
            complaints.append(
                f"an exit line of rank {_few(surplus)}, expected {options.ranks} ranks"
            )
    return complaints


def _all_ended(results: Sequence[Result], calls: Sequence[Call], options: Options | None) -> bool:
    """Whether there is an exit line of every rank."""
    if options:
        return bool(calls)
    processes = [
        len(result.devices) // max((result.threads or 1) * (result.gpus_per_thread or 1), 1)
        for result in results
    ]
    ranks = {call.rank for call in calls}
    return bool(calls) and all(count and ranks >= set(range(count)) for count in processes)


def _few(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:4])) + (" ..." if len(ranks) > 4 else "")


def _table_complaints(
    tables: Mapping[int, tuple[Result, ...]], earlier: Sequence[str], options: Options | None
) -> list[str]:
    """Whether one rank printed one table."""
    if not tables:
        return [] if earlier else ["no output: no rank printed a table"]
    complaints = []
    if len(tables) > 1:
        found = f"ranks {_few(list(tables))} printed a table each, expected rank 0 alone"
        alone = all(len(test.devices) == 1 for tests in tables.values() for test in tests)
        complaints.append(
            f"singletons: {found}: each started alone, without the others (no usable PMIx?)"
            if alone
            else found
        )
    elif 0 not in tables:
        complaints.append(f"rank {next(iter(tables))} printed the table, expected rank 0")
    tests = next(iter(tables.values()))
    if options and len(tests) > 1:
        complaints.append(f"{len(tests)} tests in one output, expected 1")
    return complaints


class _Verdict(NamedTuple):
    complaints: list[str]
    #: "" where neither the text says it nor its numbers can only be those of one
    operation: str
    #: None where the text does not say
    ranks: int | None
    #: whether the rows say that values were checked
    checked: bool


def _judged(result: Result, options: Options | None) -> _Verdict:
    """One test by itself, and by what was asked."""
    complaints = _device_complaints(result, options)
    if options:
        complaints += _asked_complaints(result, options)
    ranks = len(result.devices) or (options.gpus if options else None)
    checked = any(row.out_of_place.wrong is not None for row in result.rows)
    operation = options.operation if options else result.operation
    if not any(result.sizes):
        why_not = "every size is 0 bytes" if result.rows else "no row"
        return _Verdict(
            [*complaints, f"{why_not}: nothing was measured"], operation, ranks, checked
        )
    why, operation = _row_complaints(result, operation, ranks, options)
    complaints += why or _size_complaints(result, operation, ranks, options)
    complaints += _footer_complaints(result, options)
    return _Verdict(complaints, operation, ranks, checked)


def _short(host: str) -> str:
    """As the tool prints it: without the domain."""
    return host.partition(".")[0]


def _device_complaints(result: Result, options: Options | None) -> list[str]:
    devices = result.devices
    if not devices:
        return ["no line of a device: which ranks took part is not known"] if options else []
    complaints = []
    if options and len(devices) != options.gpus:
        found = f"{len(devices)} rank(s) in the header, expected {options.gpus}"
        if len(devices) == options.gpus_per_rank:
            found = f"singletons: {found}: rank 0 started alone (no usable PMIx?)"
        complaints.append(found)
    numbers = [device.rank for device in devices]
    if numbers != list(range(len(devices))):
        complaints.append(
            f"the header numbers its ranks {_few(numbers)}, expected 0 to {len(devices) - 1}"
        )
    if len({device.group for device in devices}) > 1:
        complaints.append("several groups of ranks (NCCL_TESTS_SPLIT), expected one")
    used: dict[tuple[str, ...], int] = {}
    for device in devices:
        place: tuple[str, ...] = (device.host, device.bus_id)
        if ":" not in device.bus_id:
            # The bus number alone, 0 on some machines: it does not tell GPUs apart.
            place += (str(device.device),)
        if place in used:
            complaints.append(
                f"ranks {used[place]} and {device.rank} use the same GPU, {device.bus_id} on "
                f"{device.host}"
            )
            break
        used[place] = device.rank
    if options and options.hosts and not complaints:
        for device in devices:
            asked = options.hosts[device.rank // options.gpus_per_rank]
            if _short(device.host) != _short(asked):
                complaints.append(f"rank {device.rank} ran on {device.host}, expected {asked}")
                break
    return complaints


def _asked_complaints(result: Result, options: Options) -> list[str]:
    """What the header says against what was asked."""
    complaints = []
    if result.iterations is None:
        return ["no line of parameters (nThread ... validation)"]
    if result.operation and result.operation != options.operation:
        complaints.append(f"operation {result.operation}, expected {options.operation}")
    for name, found, wanted in (
        ("threads", result.threads, 1),
        ("GPUs per rank", result.gpus_per_thread, options.gpus_per_rank),
        ("smallest size", result.min_bytes, options.min_bytes),
        ("largest size", result.max_bytes, options.max_bytes),
        ("step factor", result.step_factor, options.factor),
        ("warmup", result.warmup, options.warmup),
        ("iterations", result.iterations, options.iterations),
        # told by newer versions only
        ("operations per iteration", result.aggregated or 1, 1),
    ):
        if found != wanted:
            complaints.append(f"{name} {found}, expected {wanted}")
    if not result.validation:
        complaints.append("validation 0, expected 1: nothing was checked")
    if result.cpu_time:
        complaints.append("the time is that of the CPU (-C), expected that of the operation")
    complaints += [f"{condition!r}, which was not asked for" for condition in result.conditions]
    for row in result.rows:
        if row.datatype != options.datatype:
            complaints.append(f"datatype {row.datatype}, expected {options.datatype}")
            break
    return complaints


# --- rows ---


#: Below these values every version prints numbers at least so fine, in half units of the last
#: digit. So nothing coarser has to be believed.
_COARSEST_US = ((100.0, 0.005), (1e4, 0.05), (1e7, 0.5), (math.inf, math.inf))
_COARSEST_GBYTES_S = ((1e3, 0.005), (1e4, 0.05), (1e6, 0.5), (math.inf, math.inf))


def _half(value: float, shown: str, coarsest: Sequence[tuple[float, float]]) -> float:
    """Half a unit of the last digit: 0.005 of 4.32, 5e5 of 1.2e+07."""
    mantissa, _, exponent = shown.partition("e")
    power = int(exponent[:6] or 0) - len(mantissa.partition(".")[2])
    return min(
        0.5 * float(10.0 ** min(power, 300)),
        next(half for below, half in coarsest if value < below),
    )


class _Range(NamedTuple):
    """The values that a printed number can stand for."""

    least: float
    most: float

    @classmethod
    def around(cls, value: float, half: float) -> _Range:
        return cls(max(value - half, 0.0) * (1 - _SLACK), (value + half) * (1 + _SLACK))

    def times(self, factor: float) -> _Range:
        # 0 times infinity is no number
        return _Range(self.least * factor, self.most * factor) if factor else _Range(0.0, 0.0)

    def meets(self, other: _Range) -> bool:
        return self.least <= other.most and other.least <= self.most


class _Numbers(NamedTuple):
    time_us: _Range
    algbw: _Range
    busbw: _Range


def _numbers(row: Row, layout: _Layout | None) -> list[_Numbers]:
    """Per side, the ranges that a row's digits allow."""
    found = []
    words = layout.values(row.text) if layout and row.text else []
    for place, column in enumerate(row.columns):
        halves = [_JSON_HALF] * 3
        if layout and words:
            time, algbw, busbw, _ = layout.sides[place]
            halves = [
                # the first version printed ms, to three decimals
                0.5 if layout.first else _half(column.time_us, words[time], _COARSEST_US),
                _half(column.algbw_gbytes_s, words[algbw], _COARSEST_GBYTES_S),
                _half(column.busbw_gbytes_s, words[busbw], _COARSEST_GBYTES_S),
            ]
        found.append(_Numbers(*map(_Range.around, column[:3], halves)))
    return found


class _Candidate(NamedTuple):
    """An operation: algbw = share * size / time, busbw = factor * algbw."""

    operation: str
    share: float
    factor: float


def _candidates(operation: str, ranks: int | None, old: bool) -> list[_Candidate]:
    """The operations whose rows these may be; none where the ranks are not known."""
    if ranks is None:
        return []
    found = []
    for name in OPERATIONS:
        factor = busbw_factor(name, ranks)
        found.append(
            _Candidate(name, 1.0, factor) if name != "hypercube" else _Candidate(name, factor, 1.0)
        )
    if old:
        # Before 2.1 it counted as hypercube does.
        found.append(_Candidate("all_gather", busbw_factor("all_gather", ranks), 1.0))
    return [candidate for candidate in found if operation in ("", candidate.operation)]


def _row_complaints(
    result: Result, operation: str, ranks: int | None, options: Options | None
) -> tuple[list[str], str]:
    """What speaks against the first bad row, and the operation whose rows these are."""
    first = result.rows[0]
    old = not result.version and first.out_of_place.error is not None
    candidates = _candidates(operation, ranks, old)
    several = len(candidates) > 1
    known = bool(candidates)
    factors = _Range(0.0, math.inf)
    for row in result.rows:
        where = f"{row.size_bytes} bytes (line {row.line})"
        if (row.datatype, row.redop, row.root) != (first.datatype, first.redop, first.root):
            return [f"{where}: another datatype, reduction or root than above"], operation
        if why := _own_complaint(row, operation, bool(options or result.validation)):
            return [f"{where}: {why}"], operation
        numbers = _numbers(row, result.layout)
        if known:
            reasons = {
                c: _mismatch(row, numbers, c, ranks or 1, result.cpu_time) for c in candidates
            }
            candidates = [candidate for candidate, reason in reasons.items() if not reason]
            if not candidates:
                why = f"no operation over {ranks} rank(s) prints such a row"
                return [f"{where}: {why if several else reasons.popitem()[1]}"], operation
            continue
        # Nothing is known of the ranks: only a factor that all rows have in common.
        for side in numbers:
            agree = side.algbw.meets(_rate(row.size_bytes, side.time_us))
            if not agree and operation != "hypercube" and not result.cpu_time:
                return [f"{where}: algbw is not size / time"], operation
            if side.algbw.least > 0:
                low, high = side.busbw.least / side.algbw.most, side.busbw.most / side.algbw.least
                factors = _Range(max(factors.least, low), min(factors.most, high))
        if factors.least > factors.most:
            return [f"{where}: busbw / algbw is another than above"], operation
    if options and first.redop not in ("", "none", "sum"):
        return [f"reduction {first.redop!r}, expected 'sum'"], operation
    if options and first.root is not None and first.root > 0:
        return [f"root {first.root}, expected 0"], operation
    names = {candidate.operation for candidate in candidates}
    return [], names.pop() if not operation and len(names) == 1 else operation


def _own_complaint(row: Row, operation: str, validated: bool) -> str:
    """What is wrong with a row whatever its ranks."""
    if (row.size_bytes == 0) != (row.count == 0):
        return f"a count of {row.count}"
    for name, column in zip(("out of place", "in place"), row.columns, strict=False):
        if column.time_us == 0 and row.size_bytes:
            return f"a time of 0 {name}"
        unchecked = name == "in place" and operation in _CHECKED_OUT_OF_PLACE_ONLY
        if column.wrong is None:
            # Where the operation is not known, the numbers must be those of such a one.
            if validated and not unchecked and (operation or name == "out of place"):
                return f"values were not checked (N/A) {name}"
        elif column.error is None and column.wrong:
            return f"{column.wrong} wrong value(s) {name}"
        elif column.wrong and not unchecked:
            return f"values deviate by {column.error:g} {name}"
        timed = column.intervals
        if timed and not timed.min_us <= timed.p99_us <= timed.max_us:
            return f"its iterations {name} are not in order: min, p99, max"
    return ""


def _rate(size_bytes: int, time_us: _Range) -> _Range:
    """GB/s that a size and a printed time can stand for."""
    if size_bytes == 0:
        return _Range(0.0, 0.0)
    return _Range(
        size_bytes * 1e-3 / time_us.most,
        size_bytes * 1e-3 / time_us.least if time_us.least > 0 else math.inf,
    )


def _mismatch(
    row: Row, numbers: Sequence[_Numbers], candidate: _Candidate, ranks: int, cpu_time: bool
) -> str:
    """Why that operation did not print this row; "" where it may have."""
    name, share, factor = candidate
    element = _ELEMENT_BYTES.get(row.datatype)
    if element and row.size_bytes != row.count * element * (ranks if name in _DIVIDED else 1):
        return f"a count of {row.count} is not that of {name} over {ranks} ranks"
    if not row.redop and name in _REDUCING:
        return f"no reduction, other than {name}"
    if row.redop and (row.redop == "none") == (name in (*_REDUCING, "sendrecv")):
        return f"reduction {row.redop!r} is not that of {name}"
    if row.root is not None and (row.root >= 0) != (name in _ROOTED):
        return f"root {row.root} is not that of {name}"
    out, inside = row.out_of_place, row.in_place
    judges = inside is not None and out.wrong is not None and out.error is None
    if judges and inside and (inside.wrong is None) != (name in _CHECKED_OUT_OF_PLACE_ONLY):
        state = "not checked (N/A)" if inside.wrong is None else "checked"
        return f"values in place are {state}, other than those of {name}"
    for side in numbers:
        rate = _Range(0.0, math.inf) if cpu_time else _rate(row.size_bytes, side.time_us)
        if not side.algbw.meets(rate.times(share)):
            return "algbw is not size / time"
        if not side.busbw.meets(side.algbw.times(factor)):
            return f"busbw is not algbw times the factor of {name} over {ranks} ranks"
        if not side.busbw.meets(rate.times(share * factor)):
            return f"busbw is not size / time times the factor of {name} over {ranks} ranks"
    return ""


# --- sizes ---


def _sweep(result: Result) -> Iterator[int]:
    """The sizes that the header announces, before the tool rounds them."""
    size, most = result.min_bytes or 0, result.max_bytes or 0
    factor, step = result.step_factor or 1, result.step_bytes or 0
    while size <= most:
        yield size
        following = size * factor + step
        if following <= size:
            return
        size = following


def _size_complaints(
    result: Result, operation: str, ranks: int | None, options: Options | None
) -> list[str]:
    found = result.sizes
    if options:
        return _unlike(found, options.sizes())
    if result.min_bytes is None:
        rising = [size for size in found if size] == sorted({size for size in found if size})
        return [] if rising else ["sizes are repeated or out of order"]
    # A sweep with -i may have any number: one more than there are rows shows that one is missing.
    asked = list(itertools.islice(_sweep(result), max(len(found) + 1, 64)))
    element = _ELEMENT_BYTES.get(result.rows[0].datatype)
    if ranks is None or element is None:
        announced = f"{result.min_bytes} to {result.max_bytes} bytes"
        if len(asked) != len(found) or any(map(operator.gt, found, asked)):
            return [f"{len(found)} sizes, not those that the header announces: {announced}"]
        return []
    names = [operation] if operation in OPERATIONS else list(OPERATIONS)
    versions = [_version(result.version)] if result.version else []
    expected = [
        tuple(_printed(name, size, element, ranks, version) for size in asked)
        for version in versions or (_ALIGNS_TO_16_BYTES, _ALIGNS_TO_4_ELEMENTS, (2, 0, 0))
        for name in names
    ]
    return [] if found in expected else _unlike(found, expected[0])


def _unlike(found: tuple[int, ...], expected: tuple[int, ...]) -> list[str]:
    if found == expected:
        return []
    if not expected:
        return ["rows, although no size is in the range of the header"]
    have, want = Counter(found), Counter(expected)
    listed = f"{expected[0]} to {expected[-1]} bytes, {len(expected)} sizes"
    for size in expected:
        if have[size] < want[size]:
            return [f"no row of {size} bytes, expected {listed}"]
    for size in found:
        if have[size] > want[size]:
            again = " again" if want[size] else ""
            return [f"a row of {size} bytes{again}, expected {listed}"]
    return [f"sizes out of order, expected {listed}"]


# --- footer ---


def _footer_complaints(result: Result, options: Options | None) -> list[str]:
    complaints = []
    if result.out_of_bounds is None:
        complaints.append("no line 'Out of bounds values'")
    elif result.out_of_bounds or not result.out_of_bounds_ok:
        complaints.append(f"out of bounds values: {result.out_of_bounds} FAILED")
    average = result.average_busbw_gbytes_s
    if average is None:
        complaints.append("no line 'Avg bus bandwidth'")
    elif not result.average_ok:
        complaints.append(f"average bus bandwidth {average:g}: FAILED")
    else:
        ranges = [side.busbw for row in result.rows for side in _numbers(row, result.layout)]
        mean = _Range(
            sum(r.least for r in ranges) / len(ranges), sum(r.most for r in ranges) / len(ranges)
        )
        # six digits (%g)
        half = 0.5 * float(10.0 ** (math.floor(math.log10(average)) - 5)) if average else _JSON_HALF
        if not mean.meets(_Range(average - half, average + half)):
            complaints.append(
                f"average bus bandwidth {average:g} is not the mean of the rows, "
                f"{(mean.least + mean.most) / 2:g}"
            )
    reduced = [c for c in result.conditions if c.startswith("Reducing")]
    if reduced and not options:
        complaints.append(f"{reduced[0]!r}: a smaller sweep than the header announces")
    ends = result.ends_with_line or (options and _version(options.version) >= _PRINTS_END)
    if ends and not result.concluded:
        complaints.append("no line 'Collective test concluded': the output breaks off")
    return complaints


# --- JSON beside the text ---


def _stored(json_text: str) -> tuple[Result | None, list[str]]:
    if not json_text.strip():
        return None, ["no JSON result, although the tool was asked for one (-J)"]
    try:
        stored = parse_json(json_text)
    except ParseError as error:
        return None, [f"JSON result: {error}"]
    complaints = []
    if not stored.concluded:
        complaints.append("JSON result: no end_time, it breaks off")
    return stored, complaints


def _disagreements(result: Result, stored: Result) -> list[str]:
    """Where the text and the tool's own JSON differ beyond rounding."""
    for name in (
        *("threads", "gpus_per_thread", "min_bytes", "max_bytes", "step_factor", "step_bytes"),
        *("warmup", "iterations", "validation", "out_of_bounds", "out_of_bounds_ok"),
        *("operation", "nccl_version"),
    ):
        one, other = getattr(result, name), getattr(stored, name)
        if one != other and one not in (None, "") and other != "":
            return [f"{name.replace('_', ' ')} is {one}, in the JSON result {other}"]
    ours = [(d.rank, d.host, d.device) for d in result.devices]
    theirs = [(d.rank, d.host, d.device) for d in stored.devices]
    if result.gpus_per_thread == 1 and result.threads == 1 and ours != theirs:
        return [f"{len(ours)} rank(s), in the JSON result {len(theirs)}, or others"]
    if result.sizes != stored.sizes:
        return ["the sizes of text and JSON result differ"]
    for one_row, other_row in zip(result.rows, stored.rows, strict=True):
        if why := _row_disagreement(one_row, other_row, result.layout):
            return [f"{one_row.size_bytes} bytes: {why} differ in text and JSON result"]
    mine, stated = result.average_busbw_gbytes_s, stored.average_busbw_gbytes_s
    if mine is not None and stated is not None:
        half = _JSON_HALF + (10.0 ** (math.floor(math.log10(mine)) - 5) if mine else 0.0)
        if abs(mine - stated) > half or result.average_ok != stored.average_ok:
            return [f"average bus bandwidth is {mine:g}, in the JSON result {stated:g}"]
    return []


def _row_disagreement(one: Row, other: Row, layout: _Layout | None) -> str:
    if (one.count, one.datatype) != (other.count, other.datatype):
        return "count or datatype"
    if len(one.columns) != len(other.columns):
        return "sides"
    if [column.wrong for column in one.columns] != [column.wrong for column in other.columns]:
        return "#wrong"
    for mine, theirs in zip(_numbers(one, layout), _numbers(other, None), strict=True):
        for name, shown, exact in zip(_SIDE, mine, theirs, strict=True):
            if not shown.meets(exact):
                return name
    return ""


# --- what comes out ---


def _seen(results: Sequence[Result]) -> dict[str, Any]:
    """What the first test states of itself."""
    if not results:
        return {}
    result = results[0]
    seen: dict[str, Any] = {
        "version": result.version or None,
        "nccl_version": result.nccl_version or None,
        "ranks": len(result.devices) or None,
        "hosts": tuple(device.host for device in result.devices) or None,
        **{
            name: getattr(result, name)
            for name in ("warmup", "iterations", "validation", "min_bytes", "max_bytes")
        },
        "warnings": result.warnings or None,
        "tests": len(results) if len(results) > 1 else None,
    }
    return {name: value for name, value in seen.items() if value is not None}


def _measurements(
    result: Result,
    verdict: _Verdict,
    options: Options | None,
    nodes: tuple[str, ...],
    simulated: bool,
) -> Iterator[Measurement]:
    done = set()
    for row in result.rows:
        if not row.size_bytes or row.size_bytes in done:
            continue
        done.add(row.size_bytes)
        for suffix, column in zip(("", "_in_place"), row.columns, strict=False):
            numbers = {"busbw": column.busbw_gbytes_s}
            if not result.cpu_time:
                numbers["time"] = column.time_us
            for metric, value in numbers.items():
                yield Measurement(
                    f"{metric}{suffix}",
                    value,
                    TOOL,
                    verdict.operation,
                    options.transport if options else "any",
                    size_bytes=row.size_bytes,
                    nodes=nodes,
                    ranks=verdict.ranks,
                    samples=result.iterations,
                    simulated=simulated,
                )
