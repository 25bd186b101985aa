"""fi_pingpong of libfabric, and the ping-pong and bandwidth tests of fabtests, by their tables.

Both sides print the same table. It does not say which test it is of: only with -m (the form of
YAML) the command stands above it. But the total counts both ways of a ping-pong, and one of a
bandwidth test. MB are 10^6 bytes; sizes and totals are cut to k, m and g of 2^10 (show_perf and
size_str of fabtests/common/shared.c and util/pingpong.c).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, integer
from railgauge.tools.common.lines import quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.numbers import Shown
from railgauge.tools.common.one_output import Conclusion, by_hand, judge, plain_lines
from railgauge.tools.common.options import require_integers

TOOL = "fabtests"

Kind = Literal["pingpong", "bandwidth"]


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """What was asked for: one size; ValueError where it cannot be run."""

    size_bytes: int
    iterations: int | None = None

    def __post_init__(self) -> None:
        require_integers(TOOL, self, size_bytes=(1, None), iterations=(1, None))


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """One size. `size_bytes` and `iterations` are None where the table cuts them. A transfer is a
    message one way; of a ping-pong an iteration has two.
    """

    name: str
    size_bytes: int | None
    iterations: int | None
    transfers_per_iteration: int
    bandwidth_mbytes_s: float
    transfer_us: float
    #: messages that no answer came to
    lost: bool = False


@dataclasses.dataclass(frozen=True)
class Output:
    """One table. `program` is that of the command where the output has it, else ""."""

    program: str
    rows: tuple[Row, ...]

    @property
    def kind(self) -> Kind:
        return "pingpong" if self.rows[0].transfers_per_iteration == 2 else "bandwidth"


# ---- parse ---------------------------------------------------------------------------------

_FAILURE = re.compile(
    r"^\[error\] |\bret=-[0-9]+ \(|^\w+\(\): \S+:[0-9]+, |^ERROR\b|data check error|"
    r"^Usage:|cannot|unable to",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"(?P<name>name\s+)?bytes\s+(?:#sent\s+#ack|iters)\s+total\s+time\s+MB/sec\s+usec/xfer"
    r"\s+Mxfers/sec"
)
_COMMAND = re.compile(r"(?:\S*/)?(fi_\w+) (?:.* )?:")
_SIZE, _COUNT, _FLOAT = r"[0-9]+(?:\.[1-9])?[kmg]?", r"[0-9]+[kmb]?", r"[0-9]+\.[0-9]{2}"
_ROW = re.compile(
    rf"(?P<size>{_SIZE})\s+(?P<count>{_COUNT})\s+(?:(?P<sign>[=+-])(?P<acknowledged>{_COUNT})\s+)?"
    rf"(?P<total>{_SIZE})\s+(?P<time>{_FLOAT})s\s*(?P<rate>{_FLOAT})\s+(?P<us>{_FLOAT})"
    rf"\s+(?P<millions>{_FLOAT})"
)
#: What may be a row, or a part of one: no date and no time of a log's line.
_ROW_LIKE = re.compile(rf"- \{{|{_SIZE}(?:\s+{_COUNT}\b|$)")
_DECIMALS = re.compile(r"[0-9]\.[0-9]{2}\b")
_NAMED = re.compile(rf"(?P<name>\S.*?)\s+{_ROW.pattern}")
_YAML = re.compile(
    r"- \{ xfer_size: (?P<size>[0-9]+), iterations: (?P<count>[0-9]+), total: (?P<total>[0-9]+), "
    r"time: (?P<time>[0-9]+\.[0-9]{6}), MB/sec: (?P<rate>[0-9]+\.[0-9]{6}), "
    r"usec/xfer: (?P<us>[0-9]+\.[0-9]{6}), Mxfers/sec: (?P<millions>[0-9]+\.[0-9]{6}) \}"
)
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_TIMES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}


def parse(text: str) -> Output:
    """The table of one side; ParseError where there is none, or two, at a row that contradicts
    itself, and at an error message.
    """
    program = ""
    table = 0
    named = False
    rows: list[Row] = []
    for number, line in plain_lines(text, _FAILURE):
        header = _HEADER.fullmatch(line)
        if header or (command := _COMMAND.fullmatch(line)):
            if table:
                raise ParseError(number, "a second table", "one run")
            table = number
            named = bool(header and header["name"])
            program = "" if header else command[1] if command else ""
        elif table and (_ROW_LIKE.match(line) or len(_DECIMALS.findall(line)) > 1):
            rows.append(_row(number, line, named))
    if not rows:
        raise ParseError(0, "no row", "a row below the header 'bytes ... MB/sec usec/xfer'")
    return Output(program, tuple(rows))


def _row(number: int, line: str, named: bool) -> Row:
    found = (_NAMED if named else _ROW).fullmatch(line) or _YAML.fullmatch(line)
    if not found:
        raise ParseError(number, quote(line), "the columns of the header")
    exact = found.re is _YAML
    size, most_size = _range(found["size"], _BYTES, exact)
    count, most_count = _range(found["count"], _TIMES, exact)
    total, most_total = _range(found["total"], _BYTES, exact)
    rate, transfer = Shown.of(found["rate"]), Shown.of(found["us"])
    if not size or not count or not transfer.value:
        raise ParseError(number, quote(line), "numbers above 0")
    per_iteration = next(
        (
            times
            for times in (1, 2)
            if size * count * times <= most_total and most_size * most_count * times >= total
        ),
        None,
    )
    # Bytes a microsecond, times microseconds; the tests divide floats.
    least, most = rate.low * transfer.low * 0.999, rate.high * transfer.high * 1.001
    if per_iteration is None or most < size or least > most_size:
        raise ParseError(number, quote(line), "a total and rates that are those of its size")
    return Row(
        found["name"] if named and not exact else "",
        size if size == most_size or (size <= most and _is_usual(size)) else None,
        count if count == most_count else None,
        per_iteration,
        # With two decimals the time of small messages has more digits.
        rate.value if exact or rate.value >= transfer.value else size / transfer.value,
        transfer.value,
        not exact and found["sign"] in ("+", "-"),
    )


def _is_usual(size: int) -> bool:
    """A power of two, or one and a half of one, as the tests choose sizes: nothing was cut."""
    odd = size // (size & -size)
    return odd in (1, 3)


def _range(text: str, units: Mapping[str, int], exact: bool) -> tuple[int, int]:
    """The least and the most that a number with a unit may have been: it is cut, not rounded."""
    if exact or text[-1].isdigit():
        return int(text), int(text)
    unit = units[text[-1]]
    digits = text[:-1]
    least = math.ceil(float(digits) * unit)
    # Below 10 a tenth is shown, unless it is none.
    return least, least + (unit // 10 if units is _BYTES and float(digits) < 10 else unit) - 1


# ---- read ----------------------------------------------------------------------------------


def read(text: str, *, calls: Sequence[Call] = (), options: Options | None = None) -> Reading:
    """Judge one side of a run. Proved with exit code 0 and what was asked for."""
    return judge(text, parse, _conclude, calls, options)


def _conclude(output: Output, options: Options | None) -> Conclusion:
    sizes = [row.size_bytes for row in output.rows]
    seen = {"sizes": sizes, **({"program": output.program} if output.program else {})}
    complaints = [
        f"{row.size_bytes} bytes: sent and answered messages differ"
        for row in output.rows
        if row.lost
    ]
    if len({row.transfers_per_iteration for row in output.rows}) > 1:
        complaints.append("totals of one way and of both ways in one table")
    if options is not None:
        if sizes != [options.size_bytes]:
            complaints.append(f"sizes {sizes}, expected {options.size_bytes} alone")
        complaints += [
            f"{row.iterations} iterations, expected {options.iterations}"
            for row in output.rows
            if options.iterations and row.iterations not in (None, options.iterations)
        ]
    return Conclusion(
        f"{output.program or output.kind}: {len(sizes)} sizes",
        tuple(m for row in output.rows for m in _measurements(output, row)),
        seen,
        tuple(complaints),
    )


def _measurements(output: Output, row: Row) -> list[Measurement]:
    operation = row.name.strip() or output.program or output.kind
    if row.transfers_per_iteration == 2:
        metrics = {"latency_avg": row.transfer_us}
    else:
        bandwidth = row.bandwidth_mbytes_s * 8e-3
        metrics = {"bandwidth": bandwidth, "message_rate": 1 / row.transfer_us}
    return [
        Measurement(metric, value, TOOL, operation, "any", row.size_bytes, samples=row.iterations)
        for metric, value in metrics.items()
    ]


# ---- by hand -------------------------------------------------------------------------------


def _joins(section: str, line: str) -> bool:
    """With -m every row has the mark: a run goes to the next command below its rows."""
    _, row, below = section.rpartition("- { xfer_size: ")
    commands = any(_COMMAND.fullmatch(words.strip()) for words in below.split("\n")[1:])
    return line.lstrip().startswith("- {") and bool(row) and not commands


_MARKS = Marks(
    (
        Mark("usec/xfer", _HEADER.pattern.replace("(?P<name>", "(?:")),
        Mark("- { xfer_size: ", r"- \{ xfer_size: [0-9]", (_COMMAND.pattern, "---")),
        Mark("pingpong.c:", r"\w+\(\): \S+pingpong\.c:[0-9]+, ret=-[0-9]+ \(", weak=True),
    ),
    joins=_joins,
)

BY_HAND = ByHand(
    ("what one side printed",),
    "No line of it says that the run finished, so its completeness is `unknown`. It is `proved` by "
    "the exit code and what was expected.",
    {"size_bytes": parse_size, "iterations": integer},
    Options,
    by_hand(TOOL, read),
    example=("size_bytes=64KiB",),
    needed=("size_bytes",),
    marks=_MARKS,
)
