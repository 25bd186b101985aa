"""The columns of a table of nccl-tests, by their header, and the rows below it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from railgauge.tools.nccl_tests.result import Column, Intervals, Row

_COLUMNS = {
    # the first version's names
    **{"bytes": "size", "N": "count", "op": "redop", "res": "error"},
    **{"cputime": "time", "wrong": "#wrong"},
}
_REQUIRED = ("size", "count", "type")
SIDE = ("time", "algbw", "busbw")
_INTERVALS = ("i_min", "i_max", "i_p99", "i_cv%")
HUGE = 1e18

#: DeltaMaxValue: what a value may deviate, per further rank. Integers: not at all.
_TOLERANCE = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}


class Layout(NamedTuple):
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
    def of(cls, header: str) -> Layout | None:
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
            and all(len(places.get(name, ())) == sides for name in (*SIDE, verdict))
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
            sides=tuple(zip(*(places[name] for name in (*SIDE, verdict)), strict=True)),
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
layout_of = functools.lru_cache(maxsize=64)(Layout.of)


def _positive(word: str) -> float:
    value = float(word)
    # false for nan too
    if not 0 <= value < HUGE:
        raise ValueError("no such number")
    return value


def _all_positive(words: Sequence[str]) -> list[float]:
    values = list(map(float, words))
    # the sum of anything with nan is nan
    if not (min(values) >= 0 and sum(values) < HUGE):
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
