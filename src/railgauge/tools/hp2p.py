"""hp2p of CEA: the pairs of all ranks of an MPI job at once, by the summary that it prints.

Every rank sends to and receives from its partner at the same time; a bandwidth is that of one way.
What hp2p calls MB/s are 2^20 bytes a second (hp2p_result_display of src/hp2p_result.c of 4.0).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, integer
from railgauge.tools.common.lines import quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.one_output import Conclusion, by_hand, differences, judge, plain_lines
from railgauge.tools.common.options import require_integers

TOOL = "hp2p"


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """What was asked for; ValueError where it cannot be run."""

    iterations: int
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        require_integers(TOOL, self, iterations=(1, None), size_bytes=(1, None))


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Output:
    """The last summary. `values` are in MiB/s, us and %, by their names: `Min bandwidth`. Those of
    the bisection are left out where a rank was its own partner: hp2p adds `inf` for it.
    """

    iterations: int
    #: of the configuration that it printed; None where that is not in the output
    asked_iterations: int | None
    size_bytes: int | None
    values: Mapping[str, float]
    #: warnings of slow pairs: (rank, rank, seconds, the mean's seconds)
    slow: tuple[tuple[int, int, float, float], ...]
    #: it wrote its result, which it does at the end
    ended: bool


# ---- parse ---------------------------------------------------------------------------------

_FAILURE = re.compile(r"^Cannot |^Usage:|mpi_abort|an error occurred in mpi", re.IGNORECASE)
_SETTING = re.compile(r"(Number of iterations|Message size) +: ([0-9]+)")
_COUNT = re.compile(r"Number of iteration +: ([0-9]+)")
_VALUE = re.compile(
    r"((?:Min|Max|Avg|Std) (?:bandwidth|latency|bisection bandwidth|bisection efficiency)) *: "
    r"(-?[0-9]+\.[0-9]{2}|-?nan|inf) (MB/s|us|%)"
)
_NO_NUMBER = ("inf", "nan", "-nan")
_SLOW = re.compile(r"warning: the communication between ([0-9]+) and ([0-9]+) was slow\.")
_SECONDS = re.compile(r"(Time of|Mean Time of) communication : ([0-9.]+)")
_RULE = re.compile(r"={15}")
_NAMES = tuple(
    f"{which} {what}"
    for what in ("bandwidth", "latency", "bisection bandwidth", "bisection efficiency")
    for which in ("Min", "Max", "Avg", "Std")
    if what != "bisection efficiency" or which != "Std"
)


def parse(text: str) -> Output:
    """The last summary: hp2p may print one now and then. ParseError where it is not whole, or a
    value is no number.
    """
    settings: dict[str, int] = {}
    values: dict[str, float] = {}
    slow: list[tuple[int, int, float, float]] = []
    pair: list[float] = []
    iterations, whole, ended, number = 0, False, False, 0
    for number, line in plain_lines(text, _FAILURE):
        if found := _SETTING.fullmatch(line):
            if settings.setdefault(found[1], int(found[2])) != int(found[2]):
                raise ParseError(number, "a second configuration", "one run")
        elif line == "=== SUMMARY ===":
            values, iterations, whole = {}, 0, False
        elif found := _COUNT.fullmatch(line):
            iterations = int(found[1])
        elif found := _VALUE.fullmatch(line):
            is_none = found[2] in _NO_NUMBER and "bisection" in found[1]
            if found[1] in values or not (found[2][0].isdigit() or is_none):
                raise ParseError(number, quote(line), "each value once, and a number")
            values[found[1]] = float(found[2])
        elif _RULE.fullmatch(line) and iterations:
            whole = True
        elif found := _SLOW.fullmatch(line):
            pair = [float(found[1]), float(found[2])]
        elif pair and (found := _SECONDS.fullmatch(line)):
            pair.append(float(found[2]))
            if len(pair) == 4:
                slow.append((int(pair[0]), int(pair[1]), pair[2], pair[3]))
                pair = []
        elif line == "Writing final result... Done":
            ended = True
    missing = [name for name in _NAMES if name not in values]
    if missing or not whole or not iterations:
        found_ = f"no {missing[0]}" if missing else "no end of the summary"
        raise ParseError(number, found_, "the whole summary below '=== SUMMARY ==='")
    if values["Max bisection bandwidth"] == math.inf:
        values = {name: value for name, value in values.items() if "bisection" not in name}
    for what in ("bandwidth", "latency", "bisection bandwidth"):
        if f"Avg {what}" not in values:
            continue
        least, mean, most = (values[f"{which} {what}"] for which in ("Min", "Avg", "Max"))
        if not 0 < least <= mean <= most:
            raise ParseError(
                number, f"a {what} of {least}, {mean}, {most}", "0 < min <= avg <= max"
            )
    if not all(map(math.isfinite, values.values())):
        raise ParseError(number, "a value that is nan or inf", "numbers where no rank is alone")
    return Output(
        iterations,
        settings.get("Number of iterations"),
        settings.get("Message size"),
        values,
        tuple(slow),
        ended,
    )


# ---- read ----------------------------------------------------------------------------------

_MIB = 2**20
_METRICS: Mapping[str, tuple[str, str, float]] = {
    "Avg bandwidth": ("bandwidth", "pairs", _MIB * 8e-9),
    "Avg bisection bandwidth": ("bandwidth", "bisection", _MIB * 8e-9),
    "Avg latency": ("latency_avg", "pairs", 1.0),
    "Min latency": ("latency_min", "pairs", 1.0),
    "Max latency": ("latency_max", "pairs", 1.0),
}


def read(text: str, *, calls: Sequence[Call] = (), options: Options | None = None) -> Reading:
    """Judge one run. Its last line proves its end; all of it with exit code 0 and what was asked
    for.
    """
    return judge(text, parse, _conclude, calls, options)


def _conclude(output: Output, options: Options | None) -> Conclusion:
    seen = {"iterations": output.iterations, "size_bytes": output.size_bytes}
    seen = {name: value for name, value in seen.items() if value is not None}
    complaints = list(differences(seen, options))
    asked = output.asked_iterations
    if options is None and asked is not None and output.iterations < asked:
        complaints.append(f"{output.iterations} of {asked} iterations: it was stopped, or is cut")
    notes = tuple(
        f"ranks {first} and {second} were slow: {seconds:g} s, {mean:g} s are the mean"
        for first, second, seconds, mean in output.slow
    )
    if "Avg bisection bandwidth" not in output.values:
        notes += ("no bisection bandwidth: in an iteration a rank was its own partner",)
    measurements = tuple(
        Measurement(
            metric,
            output.values[name] * factor,
            TOOL,
            operation,
            "any",
            output.size_bytes,
            samples=output.iterations,
        )
        for name, (metric, operation, factor) in _METRICS.items()
        if name in output.values
    )
    return Conclusion(
        f"{output.iterations} iterations",
        measurements,
        seen,
        tuple(complaints),
        notes,
        ended=output.ended and asked is not None,
    )


# ---- by hand -------------------------------------------------------------------------------


def _joins(section: str, line: str) -> bool:
    """A run prints its summary now and then, and at the end."""
    return "SUMMARY" in line and "Writing final result" not in section


BY_HAND = ByHand(
    ("what rank 0 printed",),
    "Its last line, with the iterations of its configuration, proves that the run came to its end. "
    "All of it is `proved` by the exit code and what was expected.",
    {"iterations": integer, "size_bytes": parse_size},
    Options,
    by_hand(TOOL, read),
    example=("iterations=5000",),
    needed=("iterations",),
    marks=Marks(
        (
            Mark("=== Benchmark configuration", r"=== Benchmark configuration ==="),
            Mark("=== SUMMARY ===", r"=== SUMMARY ==="),
        ),
        joins=_joins,
        shared=True,
    ),
)
