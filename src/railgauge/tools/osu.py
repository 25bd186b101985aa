"""OSU micro-benchmarks: the tables of osu_latency, osu_bw, osu_allreduce and osu_alltoall.

Rank 0 prints the table; no line says how many ranks there were or that the run has finished. So
only exit code 0 of every rank, with all sizes that were asked for, proves it. Versions 5.6 to 7.5
differ in the order of two header lines and in the columns, which are read by their names.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, identifier, integer
from railgauge.tools.common.lines import DIED, NOTICE, STDERR, numbered, plain, quote, searched
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.options import require_integers, require_one_of

TOOL = "osu"

Benchmark = Literal["osu_latency", "osu_bw", "osu_allreduce", "osu_alltoall"]

#: The Spack packages that it needs, with the programs that each brings.
PACKAGES = {"osu-micro-benchmarks": get_args(Benchmark), "openmpi": (), "ucx": ()}


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """One collective at one size; ValueError where it cannot be run."""

    benchmark: Benchmark
    size_bytes: int
    iterations: int
    warm_up: int = 10

    def __post_init__(self) -> None:
        require_one_of(TOOL, self, benchmark=_KNOWN)
        require_integers(TOOL, self, size_bytes=(1, None), iterations=(1, None), warm_up=(0, None))


def argv(options: Options) -> list[str]:
    """The program of one rank. -f adds the slowest rank and the number of iterations."""
    size = f"{options.size_bytes}:{options.size_bytes}"
    counts = ["-i", str(options.iterations), "-x", str(options.warm_up)]
    full = ["-f"] if options.benchmark in _COLLECTIVES else []
    return [options.benchmark, "-m", size, *counts, *full]


def version_argv() -> list[str]:
    """None: asked for its version the program starts MPI; the table's title has it."""
    return []


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """One size: the average over the ranks, or the bandwidth; what -f adds, where it was given."""

    size_bytes: int
    latency_us: float | None = None
    bandwidth_mbytes_s: float | None = None
    latency_min_us: float | None = None
    latency_max_us: float | None = None
    iterations: int | None = None


@dataclasses.dataclass(frozen=True)
class Output:
    """One table. `device` is where the buffers were: "" is the host's memory, else CUDA, ROCM."""

    benchmark: Benchmark
    version: str
    device: str
    rows: tuple[Row, ...]


# ---- parse ---------------------------------------------------------------------------------

_TITLES: Mapping[str, Benchmark] = {
    "Latency Test": "osu_latency",
    "Bandwidth Test": "osu_bw",
    "Allreduce Latency Test": "osu_allreduce",
    "All-to-All Personalized Exchange Latency Test": "osu_alltoall",
}
_KNOWN = tuple(_TITLES.values())
_COLLECTIVES = ("osu_allreduce", "osu_alltoall")

_TITLE = re.compile(r"# OSU MPI(?:-(?P<device>[A-Z]+))? (?P<title>.*) v(?P<version>[0-9][\w.-]*)")
_COLUMNS: Mapping[str, str] = {
    "size": "size_bytes",
    "avg latency(us)": "latency_us",
    "latency (us)": "latency_us",
    "bandwidth (mb/s)": "bandwidth_mbytes_s",
    "min latency(us)": "latency_min_us",
    "max latency(us)": "latency_max_us",
    "iterations": "iterations",
    "validation": "validation",
}
_WHOLE = ("size_bytes", "iterations")
# All of them print two decimals: with fewer a number is cut.
_NUMBER = re.compile(r"[0-9]{1,15}\.[0-9]{2}")
_COUNT = re.compile(r"[0-9]{1,15}")
# What starts as a row, or as a part of one, does. UCX prints lines of its own in between, which
# begin with an address such as 0x556b, and logs begin with a date or a time.
_ROW_LIKE = re.compile(
    r"(?!0x[0-9a-f]{4,}\s)(?![0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}:[0-9]{2}:)[0-9.]"
)
# A row behind something else, or the end of one.
_HIDDEN_ROW = re.compile(r"[0-9]\s+[0-9]+\.[0-9]|(?:^|\s)(?:pass|fail)$", re.IGNORECASE)
# Whoever prints it: OSU, MPI, the launcher or the loader. The words error and failed alone are in
# notices too; then the exit code tells.
_FAILURE = re.compile(
    r"requires (?:at least|exactly) |validation (?:error|fail)|^\W*(?:fatal )?error\b *[:!]|"
    r"\b(?:hydra_\w+|osu_\w+): error\b|\ban error occurred in mpi|\bcuda (?:runtime )?error\b|"
    r"\bmpi_\w+ (?:call )?failed\b|\bcall '.*' failed\b|\bmpi_err\w*:|"
    r"\bfatal\b|\babort\b|mpi_abort|not found|no such file|could not|\bcannot\b|unrecognized|"
    r"invalid option|^\s*usage:|unreachable|timed out|" + DIED,
    re.IGNORECASE,
)
_failure = searched(_FAILURE)


def parse(text: str) -> Output:
    """The table in the output of one run.

    ParseError where there is none, more than one, a row that contradicts the header or itself, a
    validation that failed, a line in the table that may hold a row and is none, a size left out, or
    an error message. The tags of launchers and colour codes are passed over.
    """
    lines = numbered(text)
    for number, line in lines:
        if _failure(plain(line.removeprefix(STDERR))[0]) and not NOTICE.match(line):
            raise ParseError(number, quote(line), "no error message")
    table = _Table()
    for number, line in lines:
        if not line.startswith(STDERR):
            table.take(number, *plain(line))
    if table.benchmark is None:
        raise ParseError(0, "no title", "a line such as '# OSU MPI Latency Test v7.5'")
    if not table.rows:
        raise ParseError(0, "no row", "a row such as '65536  20.84' below the header")
    if not text.endswith("\n"):
        raise ParseError(len(lines), "no end of line", "a whole last line")
    return Output(table.benchmark, table.version, table.device, tuple(table.rows))


class _Table:
    """Takes the lines of one output in their order."""

    def __init__(self) -> None:
        self.benchmark: Benchmark | None = None
        self.version = self.device = ""
        self.columns: list[str] = []
        self.datatypes = 0
        self.rows: list[Row] = []
        #: what a launcher put before the title
        self.tag = ""

    def take(self, number: int, line: str, tag: str) -> None:
        if title := _TITLE.fullmatch(line):
            self._take_title(number, line, title)
            self.tag = tag
        elif re.match(r"# Size\s", line):
            self._take_header(number, line)
        elif line.startswith("# Datatype:"):
            self.datatypes += 1
            if self.datatypes > 1 or self.rows:
                raise ParseError(number, quote(line), "one datatype a run")
        elif self.columns and line:
            if _ROW_LIKE.match(line):
                self._take_row(number, line)
            elif _HIDDEN_ROW.search(line):
                raise ParseError(number, quote(line), "a row, or nothing that may hold one")
            else:
                return
            if tag != self.tag:
                mine, other = self.tag or "no tag", tag or "no tag"
                raise ParseError(number, f"a row of {other} in the table of {mine}", "one table")

    def _take_title(self, number: int, line: str, title: re.Match[str]) -> None:
        if self.benchmark is not None:
            raise ParseError(number, "a second title", "one table: did every rank start alone?")
        benchmark = _TITLES.get(title["title"])
        if benchmark is None:
            expected = f"that of {', '.join(_KNOWN)}"
            raise ParseError(number, quote(line), expected)
        self.benchmark = benchmark
        self.version, self.device = title["version"], title["device"] or ""

    def _take_header(self, number: int, line: str) -> None:
        if self.benchmark is None or self.columns:
            raise ParseError(number, quote(line), "one header, below the title")
        names = [name.lower() for name in re.split(r"\s{2,}", line.removeprefix("# "))]
        self.columns = [_COLUMNS.get(name, "") for name in names]
        value = "bandwidth_mbytes_s" if self.benchmark == "osu_bw" else "latency_us"
        known = [column for column in self.columns if column]
        if self.columns[0] != "size_bytes" or value not in known or len(known) != len(set(known)):
            raise ParseError(number, quote(line), f"the columns Size and {value}")

    def _take_row(self, number: int, line: str) -> None:
        words = line.split()
        if len(words) != len(self.columns):
            expected = f"{len(self.columns)} columns as the header has"
            raise ParseError(number, quote(line), expected)
        fields: dict[str, Any] = {}
        for column, word in zip(self.columns, words, strict=True):
            if column == "validation":
                if word != "Pass":
                    raise ParseError(number, f"validation {quote(word, 20)}", "Pass")
            elif column:
                if not (_COUNT if column in _WHOLE else _NUMBER).fullmatch(word):
                    raise ParseError(number, f"{column} {quote(word, 20)}", "a number")
                fields[column] = int(word) if column in _WHOLE else float(word)
        row = Row(**fields)
        if self.rows and row.size_bytes <= self.rows[-1].size_bytes:
            found = f"size {row.size_bytes} after {self.rows[-1].size_bytes}"
            raise ParseError(number, found, "ascending sizes")
        following = 2 * self.rows[-1].size_bytes or 1 if self.rows else row.size_bytes
        if row.size_bytes != following:
            found = f"no row of {following} bytes above {quote(line)}"
            raise ParseError(number, found, "every size, each twice the one before")
        least, most = row.latency_min_us, row.latency_max_us
        if row.latency_us is not None and not (
            (0 if least is None else least)
            <= row.latency_us
            <= (row.latency_us if most is None else most)
        ):
            raise ParseError(number, quote(line), "min <= avg <= max")
        if row.iterations == 0 or not (row.latency_us or row.bandwidth_mbytes_s):
            raise ParseError(number, quote(line), "numbers above 0")
        self.rows.append(row)


# ---- read ----------------------------------------------------------------------------------


def read(
    outputs: Mapping[int, str] | str,
    *,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judge all that is known of one run; `outputs` are those of all ranks, or one text of all.

    Proved only with exit code 0 of every rank and what was asked for.
    """
    for call in calls:
        if call.failure:
            return Reading.refused(call.failure)
    texts = {0: outputs} if isinstance(outputs, str) else dict(outputs)
    text = "".join(texts[rank] for rank in sorted(texts))
    try:
        output = parse(text)
    except ParseError as error:
        return Reading.refused(str(error))
    seen: dict[str, Any] = {"benchmark": output.benchmark, "version": output.version}
    seen["sizes"] = [row.size_bytes for row in output.rows]
    if output.device:
        seen["device"] = output.device
    if len(calls) == 2:
        # With fewer than two ranks each of these benchmarks ends with an error.
        seen["ranks"] = 2
    if complaint := _contradiction(output, options):
        return Reading.refused(complaint, seen=seen)
    missing = [] if options else ["what was asked for"]
    if not calls or {call.rank for call in calls} != set(range(len(calls))):
        missing.append("the exit codes of all ranks")
    elif len(texts) not in (1, len(calls)):
        missing.append("the output of all ranks")
    return Reading.accepted(
        f"{output.benchmark} {output.version}: {len(output.rows)} sizes, every rank ended",
        missing,
        tuple(m for row in output.rows for m in _measurements(output.benchmark, row)),
        seen,
    )


def _contradiction(output: Output, options: Options | None) -> str:
    """What in the output is not as asked for."""
    if options is None:
        return ""
    if output.benchmark != options.benchmark:
        return f"the table is that of {output.benchmark}, expected {options.benchmark}"
    sizes = [row.size_bytes for row in output.rows]
    if sizes != [options.size_bytes]:
        return f"sizes {sizes}, expected {options.size_bytes} alone"
    if options.benchmark in _COLLECTIVES and output.rows[0].iterations != options.iterations:
        return f"{output.rows[0].iterations} iterations, expected {options.iterations}"
    return ""


def _measurements(benchmark: Benchmark, row: Row) -> list[Measurement]:
    operation = benchmark.removeprefix("osu_")
    metrics: dict[str, float] = {}
    if row.bandwidth_mbytes_s is not None:
        metrics["bandwidth"] = row.bandwidth_mbytes_s * 8e-3
    elif row.latency_us is not None:
        metrics["time" if benchmark in _COLLECTIVES else "latency_avg"] = row.latency_us
    if row.latency_max_us is not None and row.iterations is not None:
        metrics["mpi_time"] = row.latency_max_us * 1e-6 * row.iterations
    return [
        Measurement(metric, value, TOOL, operation, "any", row.size_bytes, samples=row.iterations)
        for metric, value in metrics.items()
    ]


# ---- by hand -------------------------------------------------------------------------------


def _read_by_hand(texts: Sequence[str], codes: Sequence[int], options: Options | None) -> Reading:
    calls = [Call(TOOL, "all", 0, "here", code, math.inf) for code in codes]
    return read(texts[0], calls=calls, options=options)


_OSU = r"# OSU MPI(?:-[A-Z]+)? "
_MARKS = Marks(
    (
        Mark("# OSU MPI", rf"{_OSU}(?:{'|'.join(_TITLES)}) v"),
        Mark("# OSU ", "# OSU ", unread=f"another benchmark of OSU than {', '.join(_KNOWN)}"),
    ),
    shared=True,
)

BY_HAND = ByHand(
    ("what one run printed",),
    "No line of it says that the run finished, so its completeness is `unknown`. It is `proved` by "
    "the launcher's exit code, which is that of the worst rank, and what was expected: size_bytes "
    "and iterations.",
    {"benchmark": identifier, "size_bytes": parse_size, "iterations": integer},
    Options,
    _read_by_hand,
    example=("size_bytes=64KiB", "iterations=100"),
    needed=("size_bytes", "iterations"),
    stated=lambda text: {"benchmark": parse(text).benchmark},
    marks=_MARKS,
)
