"""all_reduce_bench.py, a benchmark of PyTorch's all_reduce: its table by payload, or by trial.

Rank 0 prints all at the end, also where a person stopped it: then the larger payloads are missing.
The definitions are those of nccl-tests: GBps are 10^9 bytes a second, and KiB, MiB and GiB cut the
payload, which is a power of two (network/benchmarks of stas00/ml-engineering).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, integer
from railgauge.tools.common.lines import quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.one_output import Conclusion, by_hand, judge, plain_lines
from railgauge.tools.common.options import require_integers

TOOL = "all_reduce_bench"


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """How many ranks, and the largest payload; ValueError where it cannot be run."""

    ranks: int
    most_bytes: int

    def __post_init__(self) -> None:
        require_integers(TOOL, self, ranks=(2, None), most_bytes=(1, None))


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """One payload, or one trial of the only one. Rates in GB/s."""

    size_bytes: int
    busbw: float
    algbw: float


@dataclasses.dataclass(frozen=True)
class Output:
    """One run. `software` has torch, cuda and nccl, as they are stated. `ended` is the last line,
    `Elapsed time`.
    """

    ranks: int
    trials: int
    rows: tuple[Row, ...]
    by_trial: bool
    #: what changes what is measured: host overhead included, symmetric memory
    state: str
    software: str
    ended: bool


# ---- parse ---------------------------------------------------------------------------------

_FAILURE = re.compile(
    r"^Traceback \(most recent call last\)|^(?:torch\.\w+\.)?\w*Error: |\bNCCL error\b|"
    r"ChildFailedError|Signal [0-9]+ \(SIG|CUDA error|^usage: "
)
_TITLE = re.compile(
    r"The (?:average|(?P<gib>[0-9.]+)GiB payload) bandwidth of all_reduce over (?P<ranks>[0-9]+) "
    r"ranks \([0-9]+ warmups / (?P<trials>[0-9]+) trials(?P<more>(?:, [^)]*)?)\):"
)
_HEADER = re.compile(r"\|(?: payload \|)? +busbw +\| +algbw +\|")
_ROW = re.compile(
    r"\|(?: +(?P<size>[0-9]+[KMGT]?iB) \|)? +(?P<busbw>[0-9]+\.[0-9]{2})GBps "
    r"\| +(?P<algbw>[0-9]+\.[0-9]{2})GBps \|"
)
_SOFTWARE = re.compile(r"- software: (.*)")
_RULE = re.compile(r"\|(?: -+: \|)+")
_ROLE = re.compile(r"\[[^\]]*\]:")
_FACTORS = {"iB": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def parse(text: str) -> Output:
    """The table; ParseError where there is none, or two, and at a row that contradicts itself."""
    title: re.Match[str] | None = None
    rows: list[Row] = []
    software, ended, header = "", False, False
    for number, tagged in plain_lines(text, _FAILURE):
        # What torchrun --tee puts before the lines of a rank.
        line = _ROLE.sub("", tagged, count=1) if tagged.startswith("[") else tagged
        if found := _TITLE.fullmatch(line):
            if title:
                raise ParseError(number, "a second table", "one run")
            title = found
        elif found := _SOFTWARE.fullmatch(line):
            software = found[1]
        elif line.startswith("Elapsed time: "):
            ended = header
        elif title and _HEADER.fullmatch(line):
            header = True
        elif header and line.startswith("|") and title:
            if found := _ROW.fullmatch(line):
                rows.append(_row(number, line, found, title))
                _check_order(number, rows, title)
            elif not _RULE.fullmatch(line):
                raise ParseError(number, quote(line), "a row of the table")
    if title is None or not rows:
        raise ParseError(0, "no table", "'The average bandwidth of all_reduce' and its rows")
    more = title["more"]
    state = ["with-host-overhead"] if "host overhead included" in more else []
    state += ["symmetric-memory"] if "symmetric memory" in more else []
    trials, by_trial = int(title["trials"]), title["gib"] is not None
    if by_trial and ended and len(rows) != trials:
        raise ParseError(0, f"{len(rows)} rows", f"the {trials} trials of the title")
    return Output(
        int(title["ranks"]), trials, tuple(rows), by_trial, " ".join(state), software, ended
    )


def _row(number: int, line: str, found: re.Match[str], title: re.Match[str]) -> Row:
    if (found["size"] is None) != (title["gib"] is not None):
        raise ParseError(number, quote(line), "the columns of the header")
    if found["size"] is None:
        size = int(float(title["gib"]) * 2**30)
    else:
        digits = re.match(r"[0-9]+", found["size"])
        size = int(digits[0]) * _FACTORS[found["size"].lstrip("0123456789")] if digits else 0
    busbw, algbw, ranks = float(found["busbw"]), float(found["algbw"]), int(title["ranks"])
    factor = 2 * (ranks - 1) / ranks if ranks else 0
    if not size or not busbw or abs(busbw - factor * algbw) > 0.006 * (1 + factor):
        raise ParseError(number, quote(line), f"a busbw of {factor:g} times the algbw, above 0")
    return Row(size, busbw, algbw)


def _check_order(number: int, rows: Sequence[Row], title: re.Match[str]) -> None:
    if title["gib"] is None and len(rows) > 1 and rows[-1].size_bytes != 2 * rows[-2].size_bytes:
        found = f"{rows[-1].size_bytes} bytes after {rows[-2].size_bytes}"
        raise ParseError(number, found, "every payload, each twice the one before")


# ---- read ----------------------------------------------------------------------------------


def read(text: str, *, calls: Sequence[Call] = (), options: Options | None = None) -> Reading:
    """Judge one run. Proved with exit code 0 and what was asked for."""
    return judge(text, parse, _conclude, calls, options)


def _conclude(output: Output, options: Options | None) -> Conclusion:
    sizes = list(dict.fromkeys(row.size_bytes for row in output.rows))
    seen: dict[str, Any] = {"ranks": output.ranks, "sizes": sizes}
    if output.software:
        seen["software"] = output.software
    complaints = []
    if options is not None and output.ranks != options.ranks:
        complaints.append(f"{output.ranks} ranks, expected {options.ranks}")
    if options is not None and sizes[-1] != options.most_bytes:
        complaints.append(f"payloads up to {sizes[-1]}, expected {options.most_bytes}")
    if options is not None and not output.ended:
        complaints.append("no last line 'Elapsed time'")
    operation = f"allreduce {output.state}".strip()
    groups = {size: [row for row in output.rows if row.size_bytes == size] for size in sizes}
    measurements = []
    for size, rows in groups.items():
        busbw = sum(row.busbw for row in rows) / len(rows)
        measurements.append(
            Measurement(
                "busbw",
                busbw,
                TOOL,
                operation,
                "any",
                size,
                ranks=output.ranks,
                samples=output.trials,
            )
        )
    reason = f"allreduce over {output.ranks} ranks, {len(sizes)} payloads"
    notes = () if len(output.rows) > 1 else (_CUT,)
    return Conclusion(reason, tuple(measurements), seen, tuple(complaints), notes)


_CUT = "a payload that is no power of two is shown cut: 1.5 GiB as 1GiB"


# ---- by hand -------------------------------------------------------------------------------


BY_HAND = ByHand(
    ("what rank 0 printed",),
    "A run that a person stopped prints its table too, so its completeness is `unknown`. It is "
    "`proved` by the exit code and what was expected.",
    {"ranks": integer, "most_bytes": parse_size},
    Options,
    by_hand(TOOL, read),
    example=("ranks=16", "most_bytes=16GiB"),
    needed=("ranks", "most_bytes"),
    marks=Marks(
        (
            Mark(
                "bandwidth of all_reduce over",
                r"(?:\[[^\]]*\]:)?The (?:average|[0-9.]+GiB payload) bandwidth of all_reduce over",
                (
                    r"(?:\[[^\]]*\]:)?",
                    r"(?:\[[^\]]*\]:)?- hardware: .*",
                    r"(?:\[[^\]]*\]:)?- software: .*",
                    r"(?:\[[^\]]*\]:)?Environment:",
                ),
            ),
        ),
        shared=True,
    ),
)
