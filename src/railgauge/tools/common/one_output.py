"""Shared by the readers of tools that print one output a run: its lines, and the judgement."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.lines import DIED, NOTICE, STDERR, numbered, plain, quote

Output = TypeVar("Output")
Options = TypeVar("Options")

_DIED = re.compile(DIED, re.IGNORECASE)
#: More digits than any tool prints; int() and float() raise at some of these.
_TOO_LONG = re.compile(r"[0-9][0-9,]{39}")


@dataclasses.dataclass(frozen=True)
class Conclusion:
    """What an output says. `ended`: it has a last line that only a run to its end prints."""

    reason: str
    measurements: tuple[Measurement, ...]
    seen: Mapping[str, Any]
    complaints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ended: bool = False


def plain_lines(text: str, failure: re.Pattern[str]) -> list[tuple[int, str]]:
    """The lines of standard output with their numbers, without colours and the tags of launchers.

    ParseError at a line that matches `failure` or says that a program died, at a number of 40
    digits or more, and where the text's last line has no end: a number there may be cut.
    """
    lines = []
    for number, line in numbered(text):
        words, _ = plain(line.removeprefix(STDERR))
        died = failure.search(words) or _DIED.search(words)
        if died and not words.startswith("#") and not NOTICE.match(line):
            raise ParseError(number, quote(line), "no error message")
        if _TOO_LONG.search(words):
            raise ParseError(number, quote(line), "numbers of less than 40 digits")
        if not line.startswith(STDERR):
            lines.append((number, words))
    if text and not text.endswith("\n"):
        raise ParseError(len(lines), "no end of line", "a whole last line")
    return lines


def judge(
    text: str,
    parse: Callable[[str], Output],
    conclude: Callable[[Output, Options | None], Conclusion],
    calls: Sequence[Call],
    options: Options | None,
) -> Reading:
    """Judge all that is known of one run; never raises for what a tool or a job wrote.

    Exit code 0 and what was asked for prove a run, or an output that has an end of its own.
    """
    for call in calls:
        if call.failure:
            return Reading.invalid(call.failure)
    try:
        output = parse(text)
    except ParseError as error:
        return Reading.invalid(str(error))
    said = conclude(output, options)
    if said.complaints:
        return Reading.invalid("; ".join(said.complaints), seen=said.seen, notes=said.notes)
    missing = [] if options is not None or said.ended else ["what was asked for"]
    if not calls and not said.ended:
        missing.append("the exit code")
    return Reading.valid(said.reason, missing, said.measurements, said.seen, notes=said.notes)


def by_hand(
    tool: str, read: Callable[..., Reading]
) -> Callable[[Sequence[str], Sequence[int], Any], Reading]:
    """The `ByHand.read` of a tool with one output and one exit code a run, by its `read`."""

    def read_by_hand(texts: Sequence[str], codes: Sequence[int], options: Any) -> Reading:
        return read(texts[0], calls=calls_of(tool, codes), options=options)

    return read_by_hand


def calls_of(tool: str, codes: Sequence[int]) -> list[Call]:
    """Calls of known exit codes; how long they took is not known."""
    return [Call(tool, "all", 0, "here", code, math.inf) for code in codes]


def differences(stated: Mapping[str, Any], options: object) -> tuple[str, ...]:
    """What an output states otherwise than it was asked for: fields of `options` that are None
    were not asked for.
    """
    found = []
    for name, value in stated.items():
        asked = getattr(options, name, None)
        if asked is not None and value != asked:
            shown = "no " if value is None else f"{value} as "
            found.append(f"{shown}{name}, expected {asked}")
    return tuple(found)
