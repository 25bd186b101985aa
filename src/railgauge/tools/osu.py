"""OSU micro-benchmarks of MPI: tables of point-to-point, collective and one-sided programs.

Rank 0 prints the table; no line says how many ranks there were or that the run has finished. So
only exit code 0 of every rank, with all sizes that were asked for, proves it. Versions 5.6 to 7.5
differ in the order of two header lines and in the columns, which are read by their names.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, identifier, integer
from railgauge.tools.common.lines import DIED, NOTICE, STDERR, numbered, plain, quote, searched
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.one_output import by_hand
from railgauge.tools.common.options import require_integers, require_one_of

TOOL = "osu"

#: What the numbers of a table are: half a round trip, a rate, that of several pairs, the time of a
#: collective, or of one that computation hides.
Kind = Literal["latency", "bandwidth", "pairs", "collective", "overlap"]

_BLOCKING: Mapping[str, str] = {
    **{name: name.lower() for name in ("Allgather", "Allgatherv", "Allreduce", "Barrier")},
    **{name: name.lower() for name in ("Gather", "Gatherv", "Reduce", "Reduce_scatter")},
    **{name: name.lower() for name in ("Reduce_scatter_block", "Scatter", "Scatterv")},
    "Broadcast": "bcast",
    "All-to-All Personalized Exchange": "alltoall",
    "All-to-Allv Personalized Exchange": "alltoallv",
    "All-to-Allw Personalized Exchange": "alltoallw",
    "Neighborhood Allgather": "neighbor_allgather",
    "Neighborhood Allgatherv": "neighbor_allgatherv",
    "Neighborhood Alltoall": "neighbor_alltoall",
    "Neighborhood All-to-Allv": "neighbor_alltoallv",
}
#: Title, in small letters -> program, and what its numbers are; of one-sided programs the title
#: begins with the call.
_TITLES: Mapping[str, tuple[str, Kind]] = {
    "latency test": ("osu_latency", "latency"),
    "latency persistent test": ("osu_latency_persistent", "latency"),
    "multi latency test": ("osu_multi_lat", "latency"),
    "multi latency test test": ("osu_multi_lat", "latency"),
    "multi-threaded latency test": ("osu_latency_mt", "latency"),
    "multi-process latency test": ("osu_latency_mp", "latency"),
    "bandwidth test": ("osu_bw", "bandwidth"),
    "bandwidth persistent test": ("osu_bw_persistent", "bandwidth"),
    "bi-directional bandwidth test": ("osu_bibw", "bandwidth"),
    "bi-directional bandwidth persistent test": ("osu_bibw_persistent", "bandwidth"),
    "multiple bandwidth / message rate test": ("osu_mbw_mr", "pairs"),
    "put latency test": ("osu_put_latency", "latency"),
    "get latency test": ("osu_get_latency", "latency"),
    "put bandwidth test": ("osu_put_bw", "bandwidth"),
    "get bandwidth test": ("osu_get_bw", "bandwidth"),
    "put bi-directional bandwidth test": ("osu_put_bibw", "bandwidth"),
    **{
        f"{words} latency test".lower(): (f"osu_{name}", "collective")
        for words, name in _BLOCKING.items()
    },
    **{
        f"{words} persistent latency test".lower(): (f"osu_{name}_persistent", "collective")
        for words, name in _BLOCKING.items()
    },
    **{
        f"non-blocking {words} latency test".lower(): (f"osu_i{name}", "overlap")
        for words, name in _BLOCKING.items()
    },
    "non-blocking all-to-all latency test": ("osu_ialltoall", "overlap"),
}
_KINDS: Mapping[str, Kind] = dict(_TITLES.values())
_KNOWN = tuple(_KINDS)

#: The Spack packages that it needs, with the programs of each that must be on the path.
PACKAGES = {
    "osu-micro-benchmarks": ("osu_latency", "osu_bw", "osu_allreduce", "osu_alltoall"),
    "openmpi": (),
    "ucx": (),
}


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """One collective at one size; ValueError where it cannot be run."""

    benchmark: str
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
    full = ["-f"] if _KINDS[options.benchmark] == "collective" else []
    return [options.benchmark, "-m", size, *counts, *full]


def version_argv() -> list[str]:
    """None: asked for its version the program starts MPI; the table's title has it."""
    return []


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """One size, None of a barrier: the average over the ranks, or the bandwidth, of several pairs
    together; what -f adds, where it was given. Of a non-blocking collective the latency is that of
    its communication alone.
    """

    size_bytes: int | None
    latency_us: float | None = None
    bandwidth_mbytes_s: float | None = None
    latency_min_us: float | None = None
    latency_max_us: float | None = None
    iterations: int | None = None
    messages_s: float | None = None
    overlap_percent: float | None = None
    #: of all iterations (-z)
    latency_p50_us: float | None = None
    latency_p99_us: float | None = None


@dataclasses.dataclass(frozen=True)
class Output:
    """One table. `device` is where the buffers were: "" is the host's memory, else CUDA, ROCM.
    `pairs` are those of osu_mbw_mr.
    """

    benchmark: str
    version: str
    device: str
    rows: tuple[Row, ...]
    pairs: int | None = None


# ---- parse ---------------------------------------------------------------------------------

_TITLE = re.compile(
    r"# OSU MPI(?:_(?P<call>Put|Get))?(?:-(?P<device>[A-Z]+))? (?P<title>.*) "
    r"v(?P<version>[0-9][\w.-]*)"
)
_PAIRS = re.compile(
    r"# \[ pairs: (?P<pairs>[0-9]{1,6}) \] \[ window size: (?P<window>[0-9]+|varied) \]"
)
_COLUMNS: Mapping[str, str] = {
    "size": "size_bytes",
    "avg latency(us)": "latency_us",
    "latency (us)": "latency_us",
    "bandwidth (mb/s)": "bandwidth_mbytes_s",
    "mb/s": "bandwidth_mbytes_s",
    "messages/s": "messages_s",
    "pure comm.(us)": "latency_us",
    "min comm.(us)": "latency_min_us",
    "max comm.(us)": "latency_max_us",
    "overlap(%)": "overlap_percent",
    "p50 tail lat(us)": "latency_p50_us",
    "p99 tail lat(us)": "latency_p99_us",
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
# Of any source: OSU, MPI, the launcher or the loader. The words error and failed alone are in
# notices too; then the exit code decides.
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
    rows = tuple(table.rows)
    return Output(table.benchmark, table.version, table.device, rows, table.pairs)


class _Table:
    """Takes the lines of one output in their order."""

    def __init__(self) -> None:
        self.benchmark: str | None = None
        self.version = self.device = ""
        self.pairs: int | None = None
        self.columns: list[str] = []
        self.datatypes = 0
        self.rows: list[Row] = []
        #: what a launcher put before the title
        self.tag = ""

    def take(self, number: int, line: str, tag: str) -> None:
        if title := _TITLE.fullmatch(line):
            self._take_title(number, line, title)
            self.tag = tag
        elif re.match(r"# (?:Size\s|Avg Latency\(us\)|Overall\(us\))", line):
            self._take_header(number, line)
        elif pairs := _PAIRS.fullmatch(line):
            self.pairs = int(pairs["pairs"])
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
        known = _TITLES.get(f"{title['call'] or ''} {title['title']}".strip().lower())
        if known is None:
            expected = f"that of {', '.join(_KNOWN)}"
            raise ParseError(number, quote(line), expected)
        self.benchmark = known[0]
        self.version, self.device = title["version"], title["device"] or ""

    def _take_header(self, number: int, line: str) -> None:
        if self.benchmark is None or self.columns:
            raise ParseError(number, quote(line), "one header, below the title")
        names = [name.lower() for name in re.split(r"\s{2,}", line.removeprefix("# "))]
        self.columns = [_COLUMNS.get(name, "") for name in names]
        rate = _KINDS[self.benchmark] in ("bandwidth", "pairs")
        value = "bandwidth_mbytes_s" if rate else "latency_us"
        known = [column for column in self.columns if column]
        has_sizes = self.columns[0] == "size_bytes"
        is_barrier = "barrier" in self.benchmark
        if has_sizes == is_barrier or value not in known or len(known) != len(set(known)):
            size = "" if is_barrier else "Size and "
            raise ParseError(number, quote(line), f"the columns {size}{value}")

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
        row = Row(**{"size_bytes": None, **fields})
        last = self.rows[-1].size_bytes if self.rows else None
        if self.rows and (row.size_bytes is None or last is None):
            raise ParseError(number, "a second row", "one of a barrier")
        if last is not None and row.size_bytes is not None:
            if row.size_bytes <= last:
                found = f"size {row.size_bytes} after {last}"
                raise ParseError(number, found, "ascending sizes")
            following = 2 * last or 1
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
        moved, printed = (row.messages_s or 0) * (row.size_bytes or 0), row.bandwidth_mbytes_s
        if row.messages_s is not None and printed is not None:
            slack = 0.005 * (1e6 + (row.size_bytes or 0)) + 1
            if abs(moved - printed * 1e6) > slack:
                raise ParseError(number, quote(line), "a rate of messages that is the bandwidth's")
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
            return Reading.invalid(call.failure)
    texts = {0: outputs} if isinstance(outputs, str) else dict(outputs)
    text = "".join(texts[rank] for rank in sorted(texts))
    try:
        output = parse(text)
    except ParseError as error:
        return Reading.invalid(str(error))
    seen: dict[str, Any] = {"benchmark": output.benchmark, "version": output.version}
    seen["sizes"] = [row.size_bytes for row in output.rows]
    if output.device:
        seen["device"] = output.device
    if output.pairs is not None:
        seen["pairs"] = output.pairs
    if len(calls) == 2:
        # With fewer than two ranks each of these benchmarks ends with an error.
        seen["ranks"] = 2
    if complaint := _contradiction(output, options):
        return Reading.invalid(complaint, seen=seen)
    missing = [] if options else ["what was asked for"]
    if not calls or {call.rank for call in calls} != set(range(len(calls))):
        missing.append("the exit codes of all ranks")
    elif len(texts) not in (1, len(calls)):
        missing.append("the output of all ranks")
    return Reading.valid(
        f"{output.benchmark} {output.version}: {len(output.rows)} sizes, every rank ended",
        missing,
        tuple(m for row in output.rows for m in _measurements(output, row)),
        seen,
    )


def _contradiction(output: Output, options: Options | None) -> str:
    """What in the output is not as asked for."""
    if options is None:
        return ""
    if output.benchmark != options.benchmark:
        return f"the table is that of {output.benchmark}, expected {options.benchmark}"
    sizes = [row.size_bytes for row in output.rows]
    if sizes not in ([options.size_bytes], [None]):
        return f"sizes {sizes}, expected {options.size_bytes} alone"
    if (
        _KINDS[options.benchmark] == "collective"
        and output.rows[0].iterations != options.iterations
    ):
        return f"{output.rows[0].iterations} iterations, expected {options.iterations}"
    return ""


def _measurements(output: Output, row: Row) -> list[Measurement]:
    kind = _KINDS[output.benchmark]
    metrics: dict[str, float] = {}
    if row.bandwidth_mbytes_s is not None:
        metrics["bandwidth"] = row.bandwidth_mbytes_s * 8e-3
    elif row.latency_us is not None:
        metrics["latency_avg" if kind == "latency" else "time"] = row.latency_us
    for metric, value in (("latency", row.latency_p50_us), ("latency_p99", row.latency_p99_us)):
        if kind == "latency" and value is not None:
            metrics[metric] = value
    if row.messages_s is not None:
        metrics["message_rate"] = row.messages_s * 1e-6
    if row.latency_max_us is not None and row.iterations is not None:
        metrics["mpi_time"] = row.latency_max_us * 1e-6 * row.iterations
    return [
        Measurement(
            metric,
            value,
            TOOL,
            output.benchmark.removeprefix("osu_"),
            "any",
            row.size_bytes,
            ranks=2 * output.pairs if output.pairs else None,
            samples=row.iterations,
        )
        for metric, value in metrics.items()
    ]


# ---- by hand -------------------------------------------------------------------------------


_WORDS = "|".join(re.escape(title) for title in _TITLES if not title.startswith(("put ", "get ")))
_MARKS = Marks(
    (
        Mark("# OSU MPI", rf"# OSU MPI(?:-[A-Z]+)? (?i:{_WORDS}) v"),
        Mark(
            "# OSU MPI_", r"# OSU MPI_(?:Put|Get)(?:-[A-Z]+)? (?i:(?:bi-directional )?\w+ test) v"
        ),
        Mark("# OSU ", "# OSU ", unread="a benchmark of OSU that is not read"),
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
    by_hand(TOOL, read),
    example=("size_bytes=64KiB", "iterations=100"),
    needed=("size_bytes", "iterations"),
    stated=lambda text: {"benchmark": parse(text).benchmark},
    marks=_MARKS,
)
