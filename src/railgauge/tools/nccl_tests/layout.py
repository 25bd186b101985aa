"""The columns of a table of nccl-tests, by their header, and the rows below it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
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

    def row(self, number: int, text: str, words: Sequence[str], other_ranks: int) -> Row:
        """The row of the values `words`. ValueError where one is none."""
        out, *inside = (self._column(place, words, other_ranks) for place in range(len(self.sides)))
        root = int(words[self.root]) if self.root >= 0 else None
        if root is not None and root < -1:
            raise ValueError("no rank")
        return Row(
            _count(words[self.size]),
            _count(words[self.elements]),
            words[self.datatype],
            words[self.redop] if self.redop >= 0 else "",
            root,
            out,
            inside[0] if inside else None,
            number,
            text,
        )

    def _column(self, side: int, words: Sequence[str], other_ranks: int) -> Column:
        time, algbw, busbw, verdict = (words[place] for place in self.sides[side])
        error = wrong = None
        if verdict != "N/A" and self.deviation:
            error = _number(verdict)
            allowed = _TOLERANCE.get(words[self.datatype], 1e-200) * max(other_ranks, 1)
            wrong = int(error > allowed)
        elif verdict != "N/A":
            # a part of a wrong value is one
            wrong = math.ceil(_number(verdict))
        numbers = _number(f"{time}e3" if self.first else time), _number(algbw), _number(busbw)
        return Column(
            *numbers,
            wrong,
            error,
            Intervals(*(_number(words[place]) for place in self.intervals[side]))
            if self.intervals
            else None,
            (
                # the first version printed ms, to three decimals
                0.5 if self.first else _half(numbers[0], time, _COARSEST_US),
                _half(numbers[1], algbw, _COARSEST_GBYTES_S),
                _half(numbers[2], busbw, _COARSEST_GBYTES_S),
            ),
        )


# A file with many tests has the same header in all of them.
layout_of = functools.lru_cache(maxsize=64)(Layout.of)


def _number(word: str) -> float:
    value = float(word)
    # false for nan too
    if not 0 <= value < HUGE:
        raise ValueError("no such number")
    return value


def _count(word: str) -> int:
    value = int(word)
    if not 0 <= value < HUGE:
        raise ValueError("no such count")
    return value


#: Below these values every version prints numbers at least so fine, in half units of the last
#: digit. So nothing coarser has to be believed.
_COARSEST_US = ((100.0, 0.005), (1e4, 0.05), (1e7, 0.5), (math.inf, math.inf))
_COARSEST_GBYTES_S = ((1e3, 0.005), (1e4, 0.05), (1e6, 0.5), (math.inf, math.inf))


def _half(value: float, shown: str, coarsest: Sequence[tuple[float, float]]) -> float:
    """Half a unit of the last digit: 0.005 of 4.32, 5e5 of 1.2e+07."""
    mantissa, _, exponent = shown.partition("e")
    power = int(exponent[:6] or 0) - len(mantissa.partition(".")[2])
    return min(
        0.5 * float(10.0 ** min(power, 300)),
        next(half for below, half in coarsest if value < below),
    )
