"""Results from anywhere as a CSV table: columns `a`, `b`, `value`, and further ones where known."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from railgauge.common.table import Line, quote, read_lines
from railgauge.locating import End, Evidence, Missing, Result, Routes
from railgauge.model import routes

NEEDED = ("a", "b", "value")
#: The further columns that are read; others are ignored.
KNOWN = (
    *("ok", "round", "leaf_a", "leaf_b", "rail", "rail_a", "rail_b"),
    *("condition", "events_a", "events_b", "direction"),
)

#: The values of the column `direction`: from a to b where nothing is said.
_FROM_A, _FROM_B, _BOTH_WAYS = ("", "a-b", "->"), ("b-a", "<-"), ("both", "<->")

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TRUE, _FALSE = ("1", "true", "yes", "ok", "pass", "passed"), ("0", "false", "no", "fail", "failed")

#: From so many rounds of one result each on, beside full ones, they were measured while all else
#: was idle.
_QUIET_ROUNDS = 3
_FULL_ROUND = 4

#: A round with this share of all ends was to measure all of them.
_WHOLE_ROUND = 0.8


def read_uplinks(text: str) -> dict[str, int]:
    """`leaf2:spine1` -> its events, of columns leaf,spine,events; else TableError."""
    uplinks: dict[str, int] = {}
    for line in read_lines(text, ("leaf", "spine", "events"), ()):
        if not line["leaf"] or not line["spine"]:
            raise line.error("spine" if line["leaf"] else "leaf", "a name")
        name = f"{line['leaf']}:{line['spine']}"
        uplinks[name] = uplinks.get(name, 0) + _count(line, "events")
    return uplinks


def read_routes(text: str) -> Routes:
    """Forwarding tables, of columns leaf,destination,spine and where it counts source; else
    TableError.
    """
    return Routes.of_rows(routes.parse(text))


def read(text: str) -> Evidence:
    """The evidence of a table; TableError where it is none. Lines that begin with # are remarks.

    A row without a value is a run that failed where `ok` is 0, and otherwise one that was not
    measured. `rail` is that of both ends, `rail_a` and `rail_b` of each.
    """
    lines = list(read_lines(text, NEEDED, KNOWN))
    leaves: dict[End, tuple[str, int]] = {}
    results: list[Result] = []
    missing: list[Missing] = []
    directed = not any(line["direction"] in _BOTH_WAYS for line in lines)
    for line in lines:
        row = _row(line, leaves)
        if isinstance(row, Missing):
            missing.append(row)
        else:
            results.append(row)
    evidence = Evidence({end: leaf for end, (leaf, _) in leaves.items()}, directed=directed)
    # A row that is there twice is one result; runs that failed have no value to know them by.
    numbered = itertools.count()
    once = {(o, o.value is None and o.round is None and next(numbered)): o for o in results}
    results = list(once.values())
    evidence.add(_with_quiet_rounds(results), [*missing, *_absent(results)])
    return evidence


def _row(line: Line, leaves: dict[End, tuple[str, int]]) -> Result | Missing:
    ends = [End(line[side], line[f"rail_{side}"] or line["rail"] or None) for side in ("a", "b")]
    for side, end in zip("ab", ends, strict=True):
        if not end.node:
            raise line.error(side, "the name of a node")
        _take_leaf(line, f"leaf_{side}", end, leaves)
    if ends[0].node == ends[1].node:
        raise line.error("b", f"another node than {quote(ends[0].node)}")
    a, b = ends
    number = _round(line)
    value = _value(line)
    ok = _ok(line)
    if value is None and ok is not False:
        return Missing(f"{a.name}-{b.name}", number, f"no value in line {line.number}", (a, b))
    condition = line["condition"].lower()
    if line["direction"] not in (*_FROM_A, *_FROM_B, *_BOTH_WAYS):
        raise line.error("direction", "a-b, b-a or both")
    result = Result(
        a,
        b,
        None if ok is False else value,
        number,
        condition,
        None,
        _count(line, "events_a"),
        _count(line, "events_b"),
        "quiet" in condition.split(),
    )
    if line["direction"] in _FROM_B:
        return result._replace(
            sender=b,
            receiver=a,
            sender_events=result.receiver_events,
            receiver_events=result.sender_events,
        )
    return result


def _take_leaf(line: Line, column: str, end: End, leaves: dict[End, tuple[str, int]]) -> None:
    if leaf := line[column]:
        known, where = leaves.setdefault(end, (leaf, line.number))
        if known != leaf:
            raise line.error(column, f"{quote(known)}, as {end.name} has in line {where}")


def _value(line: Line) -> float | None:
    text = line["value"]
    if not text:
        return None
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not 0 <= value < math.inf:
        raise line.error("value", "a number of 0 or more, or nothing")
    return value


def _ok(line: Line) -> bool | None:
    # Tables made with pandas have 1.0 where an ok is missing elsewhere.
    text = line["ok"].lower().removesuffix(".0")
    if text not in ("", *_TRUE, *_FALSE):
        raise line.error("ok", "1 or 0")
    return None if not text else text in _TRUE


def _round(line: Line) -> int | None:
    # Tables made with pandas have 1.0 where a round is missing elsewhere.
    text = line["round"].removesuffix(".0")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise line.error("round", "a whole number of 0 or more")
    return int(text)


def _count(line: Line, column: str) -> int:
    text = line[column].removesuffix(".0")
    if text and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise line.error(column, "how many events, 0 or more, of at most 18 digits")
    return int(text or 0)


def _with_quiet_rounds(results: Sequence[Result]) -> list[Result]:
    """The results, with `quiet` set in several rounds of one result each beside full ones."""
    sizes = Counter(result.round for result in results if result.round is not None)
    alone = {number for number, size in sizes.items() if size == 1}
    full = any(size >= _FULL_ROUND for size in sizes.values())
    if len(alone) < _QUIET_ROUNDS or not full:
        return list(results)
    return [result._replace(quiet=True) if result.round in alone else result for result in results]


def _absent(results: Sequence[Result]) -> Iterator[Missing]:
    """The ends without a result in a round in which nearly all others have one."""
    rounds: dict[int, set[End]] = {}
    for result in results:
        if result.round is not None:
            rounds.setdefault(result.round, set()).update(result.ends)
    everyone = {end for result in results for end in result.ends}
    for number, ends in sorted(rounds.items()):
        if _WHOLE_ROUND * len(everyone) <= len(ends) < len(everyone):
            for end in sorted(everyone - ends, key=lambda end: end.order):
                yield Missing(end.name, number, "no result in this round")
