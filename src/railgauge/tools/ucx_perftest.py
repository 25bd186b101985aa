"""ucx_perftest of UCX: point-to-point tests between two processes, by the client's table.

The server prints which test it is and the message size, the client the numbers: only with
loopback (-l) one process prints both. Of versions 1.13 and 1.18 outputs were recorded; those before
1.12 have `typical` in the place of the percentile. What UCX calls MB/s are 2^20 bytes a second
(print_progress of src/tools/perf).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, identifier, integer
from railgauge.tools.common.lines import quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.one_output import Conclusion, calls_of, differences, judge, plain_lines
from railgauge.tools.common.options import require_integers, require_one_of

TOOL = "ucx_perftest"

#: (what the output calls it, its layer) -> the test's name for -t, as in perftest.c
_TESTS: Mapping[tuple[str, str], str] = {
    ("active message latency", "transport"): "am_lat",
    ("put latency", "transport"): "put_lat",
    ("atomic add latency", "transport"): "add_lat",
    ("get latency / bandwidth / message rate", "transport"): "get",
    ("get bandwidth / message rate", "transport"): "get",
    ("atomic fetch-and-add latency / rate", "transport"): "fadd",
    ("atomic swap latency / rate", "transport"): "swap",
    ("atomic compare-and-swap latency / rate", "transport"): "cswap",
    ("active message bandwidth / message rate", "transport"): "am_bw",
    ("put bandwidth / message rate", "transport"): "put_bw",
    ("atomic add message rate", "transport"): "add_mr",
    ("tag match latency", "protocol"): "tag_lat",
    ("tag match bandwidth", "protocol"): "tag_bw",
    ("tag sync match latency", "protocol"): "tag_sync_lat",
    ("tag sync match bandwidth", "protocol"): "tag_sync_bw",
    ("put latency", "protocol"): "ucp_put_lat",
    ("put bandwidth", "protocol"): "ucp_put_bw",
    ("get latency / bandwidth / message rate", "protocol"): "ucp_get",
    ("atomic add bandwidth / message rate", "protocol"): "ucp_add",
    ("atomic fetch-and-add latency / bandwidth / rate", "protocol"): "ucp_fadd",
    ("atomic swap latency / bandwidth / rate", "protocol"): "ucp_swap",
    ("atomic compare-and-swap latency / bandwidth / rate", "protocol"): "ucp_cswap",
    ("stream bandwidth", "protocol"): "stream_bw",
    ("stream latency", "protocol"): "stream_lat",
    ("am latency", "protocol"): "ucp_am_lat",
    ("am bandwidth / message rate", "protocol"): "ucp_am_bw",
}
_NAMES = tuple(_TESTS.values())


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """What was asked for; None where that is not known. ValueError where it cannot be run."""

    test: str | None = None
    size_bytes: int | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        require_integers(TOOL, self, size_bytes=(1, None), iterations=(1, None))
        if self.test is not None:
            require_one_of(TOOL, self, test=_NAMES)


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """The whole of one test. `name` is that in a batch file. `percentile_us` is None with several
    threads.
    """

    name: str
    iterations: int
    percentile_us: float | None
    average_us: float
    bandwidth_mib_s: float
    messages_s: float


@dataclasses.dataclass(frozen=True)
class Output:
    """What one side printed. `rows` is empty where that is the server. `kind` is what the times
    are: of a message there and half the way back (`latency`), or what a message costs the sender
    (`overhead`); "" where the output does not say.
    """

    test: str | None
    size_bytes: int | None
    kind: str
    #: the rank of the percentile: 50.0 is the median
    percentile: float
    rows: tuple[Row, ...]
    #: of the sender's buffers and the receiver's: host, cuda, rocm
    memory: tuple[str, ...]


# ---- parse ---------------------------------------------------------------------------------

_FAILURE = re.compile(
    r"\bUCX\s+(?:ERROR|FATAL)\b|^Failed to |^\s*Usage: ucx_perftest|assertion .* failed", re.I
)
_KIND = re.compile(r"\|\s+\|\s+\|\s+(latency|overhead) \(usec\)\s+\|\s+bandwidth \(MB/s\)\s+\|.*\|")
_STAGE = re.compile(
    r"\|\s+(?:Stage|Test)\s+\| # iterations \|\s*"
    r"(?:(?P<rank>[0-9]+\.[0-9])%ile|typical) \| average \|.*\|"
)
_CSV = re.compile(
    r"(?P<files>(?:[^,\s]+,)*)iterations,(?:(?P<rank>[0-9]+\.[0-9])_percentile_lat|typical_lat),"
    r"avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr"
)
#: What may be the numbers of a row of csv, or the beginning of them.
_CSV_LIKE = re.compile(r"\s*(?:\[thread [0-9]+\])?\s*[0-9.]+,[0-9.]+,")
_FIELD = re.compile(r"\| (API|Test|Data layout|Send memory|Recv memory|Message size): +(.*?) +\|")
_BATCH = re.compile(r"\+(?P<name>[^-+|\s][^+|]*?)-+(?:\+-+)*\+|\+(?P<all>[^-+|\s][^+|]*)\+")
#: print_test_name of perftest_run.c has 200 characters for it.
_LONGEST = 200
_COUNT, _TIME, _RATE = r"[0-9][0-9,]*", r"[0-9]+\.[0-9]{3}", r"[0-9]+\.[0-9]{2}"
#: iterations, percentile, average and overall time, both of the bandwidth, both of the messages
_ONE_THREAD = (_COUNT, _TIME, _TIME, _TIME, _RATE, _RATE, _COUNT, _COUNT)
_THREADS = (_COUNT, _TIME, _RATE, _COUNT)


def parse(text: str) -> Output:
    """What one side printed; ParseError where it holds neither a test nor a table, a table has no
    row of its whole test, and at an error message.
    """
    lines = plain_lines(text, _FAILURE)
    fields: dict[str, str] = {}
    rows: list[Row] = []
    kind, percentile, final_only = "", 50.0, False
    table = 0
    #: columns of names in csv; None of a table
    names: int | None = None
    batch = ""
    batched = False
    for number, line in lines:
        if field := _FIELD.fullmatch(line):
            if fields.setdefault(field[1], field[2]) != field[2]:
                raise ParseError(number, f"a second {field[1]}", "one test a run")
        elif found := _KIND.fullmatch(line):
            kind = found[1]
        elif (found := _STAGE.fullmatch(line)) or (found := _CSV.fullmatch(line)):
            if table:
                raise ParseError(number, "a second table", "one run")
            table = number
            names = found["files"].count(",") if found.re is _CSV else None
            final_only = "Test" in line
            percentile = float(found["rank"] or 50)
        elif table and names is not None:
            if _CSV_LIKE.match(",".join(line.split(",")[names:])):
                rows += _csv_row(number, line, names)
        elif len(line) < _LONGEST and (found := _BATCH.fullmatch(line)):
            batch, batched = found["name"] or found["all"], True
        elif table and line[:1] not in ("+", "|", ""):
            rows += _table_row(number, line, batch, final_only)
    if table and not rows:
        raise ParseError(0, "no result of the whole test", "a last row of all iterations")
    if not table and "Test" not in fields:
        raise ParseError(0, "no table and no test", "what ucx_perftest prints")
    batched = batched or any(row.name for row in rows)
    if len(rows) > 1 and not batched:
        raise ParseError(0, f"{len(rows)} results", "one, of the whole test")
    size = fields.get("Message size", "")
    return Output(
        _TESTS.get((fields.get("Test", ""), fields.get("API", "").partition(" ")[0])),
        int(size) if size.isascii() and size.isdigit() else None,
        # A batch file's tests are of several kinds below one header.
        "" if batched else kind,
        percentile,
        tuple(rows),
        tuple(fields[name] for name in ("Send memory", "Recv memory") if name in fields),
    )


def _table_row(number: int, line: str, batch: str, final_only: bool) -> list[Row]:
    """A line of the table, as a row of a whole test; none for how far it has come. With -f a row
    begins with its test's name in a batch file, or nothing.
    """
    words = line.split()
    if final_only:
        for name, numbers in (("", words), (words[0] if words else "", words[1:])):
            if row := _row_of(name, numbers):
                return [row]
        damaged = sum(bool(re.fullmatch(r"[0-9.,]+", word)) for word in words) > 1
    else:
        damaged = line.startswith("Final")
        if line.startswith("Final:") and (row := _row_of(batch, words[1:])):
            return [row]
    if damaged:
        raise ParseError(number, quote(line), "a whole row of numbers")
    return []


def _csv_row(number: int, line: str, names: int) -> list[Row]:
    """The same of csv, with `names` columns of names before the numbers."""
    if "[thread " in line:
        return []
    words = [word.strip() for word in line.split(",")]
    row = _row_of("/".join(words[:names]), words[names:])
    if row is None or len(words) - names not in (len(_ONE_THREAD), len(_THREADS)):
        raise ParseError(number, quote(line), "the columns of the header")
    return [row]


def _row_of(name: str, words: Sequence[str]) -> Row | None:
    """By the numbers that `words` begin with; extra information (-I) may follow."""
    for columns in (_ONE_THREAD, _THREADS):
        own = words[: len(columns)]
        if len(own) == len(columns) and all(map(re.fullmatch, columns, own)):
            percentile = float(own[1]) if columns is _ONE_THREAD else None
            average, bandwidth = (own[3], own[5]) if columns is _ONE_THREAD else (own[1], own[2])
            return Row(
                name,
                _whole(own[0]),
                percentile,
                float(average),
                float(bandwidth),
                _whole(own[-1]),
            )
    return None


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


# ---- read ----------------------------------------------------------------------------------

_MIB = 2**20
_TAILS = {50.0: "latency", 99.0: "latency_p99", 99.9: "latency_p999"}


def read(
    client: str,
    *,
    server: str | None = None,
    calls: Sequence[Call] = (),
    options: Options | None = None,
) -> Reading:
    """Judge one run by what its client printed; the server's output adds the test and the size.

    Proved with exit code 0 and what was asked for.
    """

    def parse_both(text: str) -> Output:
        mine = parse(text)
        if server is None:
            return mine
        other = parse(server)
        if not mine.rows or other.rows:
            raise ParseError(0, "two outputs of one side", "the client's, then the server's")
        return dataclasses.replace(
            mine, test=other.test, size_bytes=other.size_bytes, memory=other.memory
        )

    return judge(client, parse_both, _conclude, calls, options)


def _conclude(output: Output, options: Options | None) -> Conclusion:
    test = output.test or (options.test if options else None)
    size = output.size_bytes or (options.size_bytes if options else None)
    seen: dict[str, Any] = {"test": output.test, "size_bytes": output.size_bytes}
    seen = {name: value for name, value in seen.items() if value is not None}
    if output.memory:
        seen["memory"] = list(output.memory)
    complaints = list(differences(seen, options))
    if not output.rows:
        reason = "what the server printed: the client's output has the numbers"
        if options is not None:
            complaints.append("no table: it is the server's output, expected the client's")
        return Conclusion(reason, (), seen, tuple(complaints), (reason,))
    measurements: list[Measurement] = []
    for row in output.rows:
        complaints += differences({"iterations": row.iterations}, options)
        complaints += _impossible(row, size)
        measurements += _measurements(row, test, output.kind, output.percentile, size)
    notes = () if test or output.kind or output.rows[0].name else (_WITHOUT_TEST,)
    count = sum(row.iterations for row in output.rows)
    reason = f"{test or 'ucx_perftest'}: {count} iterations, to the end"
    return Conclusion(reason, tuple(measurements), seen, tuple(complaints), notes)


_WITHOUT_TEST = (
    "csv does not say which test this is, so its times are not reported: give the server's output, "
    "or --expect test=NAME"
)


def _impossible(row: Row, size: int | None) -> list[str]:
    """Numbers of a row that contradict each other."""
    if not row.iterations or not row.average_us or not row.messages_s:
        return [f"{row.iterations} iterations, {row.messages_s:g} messages/s: expected above 0"]
    if size is None:
        return []
    moved, printed = row.messages_s * size, row.bandwidth_mib_s * _MIB
    slack = 0.5 * size + 0.005 * _MIB + 0.001 * moved
    if abs(moved - printed) > slack:
        return [f"{printed:.0f} bytes/s by the bandwidth, {moved:.0f} by the message rate"]
    return []


def _measurements(
    row: Row, test: str | None, kind: str, percentile: float, size: int | None
) -> list[Measurement]:
    if not kind and test:
        kind = "latency" if test.endswith(("_lat", "get", "fadd", "swap")) else "overhead"
    metrics: dict[str, float] = {}
    if kind == "latency":
        if percentile in _TAILS and row.percentile_us is not None:
            metrics[_TAILS[percentile]] = row.percentile_us
        metrics["latency_avg"] = row.average_us
    else:
        metrics["bandwidth"] = row.bandwidth_mib_s * _MIB * 8e-9
        metrics["message_rate"] = row.messages_s * 1e-6
    operation = row.name or test or ("lat" if kind == "latency" else "bw")
    return [
        Measurement(metric, value, TOOL, operation, "any", size, samples=row.iterations)
        for metric, value in metrics.items()
    ]


# ---- by hand -------------------------------------------------------------------------------


def _read_by_hand(texts: Sequence[str], codes: Sequence[int], options: Options | None) -> Reading:
    server = texts[1] if len(texts) > 1 else None
    return read(texts[0], server=server, calls=calls_of(TOOL, codes), options=options)


def _joins(section: str, line: str) -> bool:
    """With loopback the test stands above its table."""
    return "| API:" in section and "# iterations" not in section and "API:" not in line


_WAITING, _ACCEPTED = r"Waiting for connection\.\.\.", r"Accepted connection from .*"
_RULE = r"\+-+(?:\+-+)*\+"
_MARKS = Marks(
    (
        Mark("| API:", r"\| API: +(?:protocol|transport) layer ", (_RULE, _ACCEPTED, _WAITING)),
        Mark("(usec) ", r"\|\s+\|\s+\|\s+(?:latency|overhead) \(usec\)", (_RULE,)),
        Mark("avg_lat,overall_lat", r"(?:[^,\s]+,)*iterations,[^,\s]+,avg_lat,overall_lat,"),
    ),
    joins=_joins,
)

BY_HAND = ByHand(
    ("what the client printed", "what the server printed"),
    "No line of it says that the run finished, so its completeness is `unknown`. It is `proved` by "
    "the client's exit code and what was expected. The server's output adds the test and the "
    "message size.",
    {"test": identifier, "size_bytes": parse_size, "iterations": integer},
    Options,
    _read_by_hand,
    example=("test=tag_bw", "size_bytes=64KiB"),
    marks=_MARKS,
)
