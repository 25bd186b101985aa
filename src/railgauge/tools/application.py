"""application: a program of the site, timed run by run, that says what it came to.

Whatever the program is, its data say by which lines of its output a run counts: those that state
the value it came to, and where it has such its own time and its last line.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Completeness, ParseError, Reading
from railgauge.tools.common.lines import numbered, quote

TOOL = "application"

#: Seconds of what a program may print its time in.
UNITS: Mapping[str, float] = {"ms": 1e-3, "s": 1.0, "min": 60.0}
Unit = Literal["ms", "s", "min"]

#: The fastest and the slowest run are dropped, and something must be left.
LEAST_RUNS = 3

#: What two clocks of one machine may differ by, in seconds and as a share.
_CLOCK_S, _CLOCK_SHARE = 0.05, 0.01


@dataclasses.dataclass(frozen=True)
class Options:
    """What a run must say, by regular expressions, each with one group, of a line's part.

    `lines` lines of all ranks together match `converged`; the group of each is `equals`, or a
    number within the bounds. One matches `own_time`, if that is given, in `unit`. `end` matches the
    last line that the first rank prints.
    """

    name: str
    ranks: int
    converged: str
    equals: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    lines: int = 1
    own_time: str | None = None
    unit: Unit = "s"
    end: str | None = None


def version_argv() -> list[str]:
    """No command: it differs by program; the exit line has the file and its package."""
    return []


@dataclasses.dataclass(frozen=True)
class Output:
    """What one rank has printed."""

    out: str
    err: str = ""


@dataclasses.dataclass(frozen=True)
class Run:
    """The outputs of all ranks, by the launcher's number, and their exit lines."""

    outputs: Mapping[int, Output]
    calls: Sequence[Call]


@dataclasses.dataclass(frozen=True)
class Printed:
    """What a run says of itself: the values that it came to, and its own time, if it prints one."""

    values: tuple[str, ...]
    seconds: float | None = None


def parse(outputs: Mapping[int, Output], options: Options) -> Printed:
    """What the ranks of one run print; ParseError where a line is missing, torn, or there too
    often.

    Several worlds of one rank each print as many lines too many.
    """
    groups = _groups(outputs, options.converged, options.lines, "what it came to")
    values = [value for _, value in groups]
    for value in values:
        _require(value, options)
    if options.end is not None:
        _require_end(outputs[min(outputs)].out if outputs else "", options.end)
    return Printed(tuple(values), _own_seconds(outputs, options))


def read(runs: Sequence[Run], options: Options) -> Reading:
    """Judge all runs: the olympic mean of their times (without the fastest and the slowest, as
    MLPerf has it), and the time of each.

    MLCommons, Training rules, "Results": https://github.com/mlcommons/training_policies
    """
    if len(runs) < LEAST_RUNS:
        return Reading.invalid(f"{len(runs)} runs, expected {LEAST_RUNS} or more")
    times = []
    for number, run in enumerate(runs, 1):
        try:
            times.append(_time_of(run, options))
        except ParseError as error:
            return Reading.invalid(f"run {number} of {len(runs)}: {error}")
    mean = olympic_mean(times)
    like = Measurement(
        "application_time", mean, TOOL, options.name, "any", ranks=options.ranks, samples=len(runs)
    )
    each = [
        dataclasses.replace(like, value=t, operation=f"{options.name} run{number}", samples=1)
        for number, t in enumerate(times, 1)
    ]
    own = "as it prints" if options.own_time else "from start to exit"
    return Reading(
        True,
        f"{len(runs)} runs of {options.name}, {min(times):.4g} to {max(times):.4g} s, {own}",
        Completeness.PROVED,
        (like, *each),
        {"ranks": options.ranks, "runs": len(runs)},
    )


def olympic_mean(times: Sequence[float]) -> float:
    """The mean without one least and one greatest; of three or more."""
    kept = sorted(times)[1:-1]
    return sum(kept) / len(kept)


def _time_of(run: Run, options: Options) -> float:
    """Seconds of one run: its own, or else the wall time of its slowest rank."""
    for call in run.calls:
        if call.failure:
            raise ParseError(0, call.failure, "every rank to end with exit code 0")
    ranks = sorted(call.rank for call in run.calls)
    if ranks != list(range(options.ranks)):
        raise ParseError(
            0, f"exit lines of ranks {ranks}", f"one of each, 0 to {options.ranks - 1}"
        )
    printed = parse(run.outputs, options)
    wall = max(call.seconds for call in run.calls)
    if printed.seconds is None:
        return wall
    if printed.seconds > wall + max(_CLOCK_S, _CLOCK_SHARE * wall):
        expected = f"no more than the {wall:.4g} s that its slowest rank ran"
        raise ParseError(0, f"a time of {printed.seconds:.4g} s", expected)
    return printed.seconds


def _matches(
    outputs: Mapping[int, Output], pattern: str
) -> Iterator[tuple[int, re.Match[str], bool]]:
    """Line number, match, and whether the line is whole, of every rank's outputs."""
    wanted = re.compile(pattern)
    for _, output in sorted(outputs.items()):
        for text in (output.out, output.err):
            lines = numbered(text)
            for number, line in lines:
                if match := wanted.search(line.rstrip("\r")):
                    yield number, match, number < len(lines)


def _groups(
    outputs: Mapping[int, Output], pattern: str, count: int, what: str
) -> list[tuple[int, str]]:
    """Line number and group of the lines that match, and there must be as many."""
    matches = list(_matches(outputs, pattern))
    if len(matches) != count:
        where = matches[-1][0] if matches else 0
        words = f"{len(matches)} lines that state {what}"
        raise ParseError(where, words, f"{count} of all ranks together, like {pattern}")
    for number, _, whole in matches:
        if not whole:
            raise ParseError(number, "no end of line", "a whole line")
    return [(number, match[1] or "") for number, match, _ in matches]


def _require(value: str, options: Options) -> None:
    """ParseError unless the value is as the data expect it."""
    if options.equals is not None:
        if value != options.equals:
            raise ParseError(0, f"that it came to {quote(value)}", quote(options.equals))
        return
    number = _number(value, "what it came to")
    least, most = options.at_least, options.at_most
    if (least is not None and number < least) or (most is not None and number > most):
        bounds = [f"at least {least:g}"] if least is not None else []
        bounds += [f"at most {most:g}"] if most is not None else []
        raise ParseError(0, f"that it came to {value}", " and ".join(bounds))


def _own_seconds(outputs: Mapping[int, Output], options: Options) -> float | None:
    if options.own_time is None:
        return None
    ((line, value),) = _groups(outputs, options.own_time, 1, "its own time")
    seconds = _number(value, "its own time", line) * UNITS[options.unit]
    if seconds <= 0:
        raise ParseError(line, f"a time of {value}", "more than 0")
    return seconds


def _number(value: str, what: str, line: int = 0) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ParseError(line, f"{quote(value)} for {what}", "a finite number")
    return number


def _require_end(text: str, pattern: str) -> None:
    lines = [(number, line) for number, line in numbered(text) if line.strip()]
    number, last = lines[-1] if lines else (0, "")
    if not re.search(pattern, last.rstrip("\r")) or not text.endswith("\n"):
        raise ParseError(number, f"the last line {quote(last)}", f"one like {pattern}, and whole")
