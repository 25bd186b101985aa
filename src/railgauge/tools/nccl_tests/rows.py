"""Whether the rows of a table are those of the operation, the ranks and the sizes of its header."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from railgauge.tools.nccl_tests.options import (
    ALIGNS_TO_4_ELEMENTS,
    ALIGNS_TO_16_BYTES,
    CHECKED_OUT_OF_PLACE_ONLY,
    DIVIDED,
    ELEMENT_BYTES,
    LIKE,
    OPERATIONS,
    REDUCING,
    ROOTED,
    Options,
    busbw_factor,
    printed_bytes,
    version_numbers,
)
from railgauge.tools.nccl_tests.result import Result, Row

#: Beyond the rounding of the digits: the order in which doubles are multiplied.
_SLACK = 1e-9


class Range(NamedTuple):
    """The values that a printed number can stand for."""

    least: float
    most: float

    @classmethod
    def around(cls, value: float, half: float) -> Range:
        return cls(max(value - half, 0.0) * (1 - _SLACK), (value + half) * (1 + _SLACK))

    def times(self, factor: float) -> Range:
        # 0 times infinity is no number
        return Range(self.least * factor, self.most * factor) if factor else Range(0.0, 0.0)

    def meets(self, other: Range) -> bool:
        return self.least <= other.most and other.least <= self.most


class Numbers(NamedTuple):
    time_us: Range
    algbw: Range
    busbw: Range


def numbers_of(row: Row) -> list[Numbers]:
    """Per side, the ranges that a row's digits allow."""
    return [Numbers(*map(Range.around, column[:3], column.halves)) for column in row.columns]


class _Candidate(NamedTuple):
    """An operation: algbw = share * size / time, busbw = factor * algbw."""

    operation: str
    share: float
    factor: float


def _candidates(operation: str, ranks: int | None, old: bool) -> list[_Candidate]:
    """The operations that these rows may be of; none where the ranks are not known."""
    if ranks is None:
        return []
    candidates = []
    for name in OPERATIONS:
        factor = busbw_factor(name, ranks)
        candidates.append(
            _Candidate(name, 1.0, factor) if name != "hypercube" else _Candidate(name, factor, 1.0)
        )
    if old:
        # Before 2.1 it counted as hypercube does.
        candidates.append(_Candidate("all_gather", busbw_factor("all_gather", ranks), 1.0))
    return [candidate for candidate in candidates if operation in ("", candidate.operation)]


def row_complaints(
    result: Result, operation: str, ranks: int | None, options: Options | None
) -> tuple[list[str], str]:
    """What speaks against the first bad row, and the operation that the rows are of."""
    if operation in LIKE:
        return row_complaints(result, LIKE[operation], ranks, options)[0], operation
    first = result.rows[0]
    old = not result.version and first.out_of_place.error is not None
    candidates = _candidates(operation, ranks, old)
    several = len(candidates) > 1
    known = bool(candidates)
    factors = Range(0.0, math.inf)
    for row in result.rows:
        where = f"{row.size_bytes} bytes (line {row.line})"
        if options and kind_of(row) != kind_of(first):
            return [f"{where}: another datatype, reduction or root than above"], operation
        if why := _own_complaint(row, operation, bool(options or result.validation)):
            return [f"{where}: {why}"], operation
        numbers = numbers_of(row)
        if known:
            reasons = {
                c: _mismatch(row, numbers, c, ranks or 1, result.cpu_time) for c in candidates
            }
            candidates = [candidate for candidate, reason in reasons.items() if not reason]
            if not candidates:
                why = f"no operation over {ranks} rank(s) prints such a row"
                return [f"{where}: {why if several else reasons.popitem()[1]}"], operation
            continue
        # Nothing is known of the ranks: only a factor that all rows have in common.
        for side in numbers:
            agree = side.algbw.meets(_rate(row.size_bytes, side.time_us))
            if not agree and operation != "hypercube" and not result.cpu_time:
                return [f"{where}: algbw is not size / time"], operation
            if side.algbw.least > 0:
                low, high = side.busbw.least / side.algbw.most, side.busbw.most / side.algbw.least
                factors = Range(max(factors.least, low), min(factors.most, high))
        if factors.least > factors.most:
            return [f"{where}: busbw / algbw is another than above"], operation
    if options and first.redop not in ("", "none", "sum"):
        return [f"reduction {first.redop!r}, expected 'sum'"], operation
    if options and first.root is not None and first.root > 0:
        return [f"root {first.root}, expected 0"], operation
    names = {candidate.operation for candidate in candidates}
    return [], names.pop() if not operation and len(names) == 1 else operation


def _own_complaint(row: Row, operation: str, validated: bool) -> str:
    """What is wrong with a row whatever its ranks."""
    if (row.size_bytes == 0) != (row.count == 0):
        return f"a count of {row.count}"
    for name, column in zip(("out of place", "in place"), row.columns, strict=False):
        if column.time_us == 0 and row.size_bytes:
            return f"a time of 0 {name}"
        unchecked = name == "in place" and operation in CHECKED_OUT_OF_PLACE_ONLY
        if column.wrong is None:
            # Where the operation is not known, the numbers must be those of such a one.
            if validated and not unchecked and (operation or name == "out of place"):
                return f"values were not checked (N/A) {name}"
        elif column.error is None and column.wrong:
            return f"{column.wrong} wrong value(s) {name}"
        elif column.wrong and not unchecked:
            return f"values deviate by {column.error:g} {name}"
        timed = column.intervals
        if timed and not timed.min_us <= timed.p99_us <= timed.max_us:
            return f"its iterations {name} are not in order: min, p99, max"
    return ""


def _rate(size_bytes: int, time_us: Range) -> Range:
    """GB/s that a size and a printed time can stand for."""
    if size_bytes == 0:
        return Range(0.0, 0.0)
    return Range(
        size_bytes * 1e-3 / time_us.most,
        size_bytes * 1e-3 / time_us.least if time_us.least > 0 else math.inf,
    )


def _mismatch(
    row: Row, numbers: Sequence[Numbers], candidate: _Candidate, ranks: int, cpu_time: bool
) -> str:
    """Why that operation did not print this row; "" where it may have."""
    name, share, factor = candidate
    element = ELEMENT_BYTES.get(row.datatype)
    if element and row.size_bytes != row.count * element * (ranks if name in DIVIDED else 1):
        return f"a count of {row.count} is not that of {name} over {ranks} ranks"
    if not row.redop and name in REDUCING:
        return f"no reduction, other than {name}"
    if row.redop and (row.redop == "none") == (name in (*REDUCING, "sendrecv")):
        return f"reduction {row.redop!r} is not that of {name}"
    if row.root is not None and (row.root >= 0) != (name in ROOTED):
        return f"root {row.root} is not that of {name}"
    out, inside = row.out_of_place, row.in_place
    judges = inside is not None and out.wrong is not None and out.error is None
    if judges and inside and (inside.wrong is None) != (name in CHECKED_OUT_OF_PLACE_ONLY):
        state = "not checked (N/A)" if inside.wrong is None else "checked"
        return f"values in place are {state}, other than those of {name}"
    for side in numbers:
        rate = Range(0.0, math.inf) if cpu_time else _rate(row.size_bytes, side.time_us)
        if not side.algbw.meets(rate.times(share)):
            return "algbw is not size / time"
        if not side.busbw.meets(side.algbw.times(factor)):
            return f"busbw is not algbw times the factor of {name} over {ranks} ranks"
        if not side.busbw.meets(rate.times(share * factor)):
            return f"busbw is not size / time times the factor of {name} over {ranks} ranks"
    return ""


# --- sizes ---


def kind_of(row: Row) -> tuple[str, str, int | None]:
    """What a test may run through, one sweep after the other (-d all, -o all, -r -1)."""
    return row.datatype, row.redop, row.root


def sweeps(result: Result) -> list[list[Row]]:
    """The rows of a test, a list for every kind; each holds one sweep, or with -N several."""
    return [list(rows) for _, rows in itertools.groupby(result.rows, kind_of)]


def cycles(rows: Sequence[Row], sizes: int) -> list[Sequence[Row]]:
    """The sweeps of one kind, which have so many sizes each (-N)."""
    sizes = max(sizes, 1)
    return [rows[start : start + sizes] for start in range(0, len(rows), sizes)]


def _sweep(result: Result) -> Iterator[int]:
    """The sizes that the header announces, before the tool rounds them."""
    size, most = result.min_bytes or 0, result.max_bytes or 0
    if result.reduced_bytes is not None:
        most = min(most, result.reduced_bytes)
        size = min(size, most)
    factor, step = result.step_factor or 1, result.step_bytes or 0
    while size <= most:
        yield size
        following = size * factor + step
        if following <= size:
            return
        size = following


def sizes_of_sweep(result: Result, rows: Sequence[Row]) -> int:
    """How many sizes one of the sweeps in `rows`, all of one kind, has."""
    if result.min_bytes is not None:
        # A sweep with -i may have any number: one more than rows is enough.
        return len(list(itertools.islice(_sweep(result), len(rows) + 1)))
    # No header: a sweep starts again where a size is smaller than the one before.
    falls = (i for i in range(1, len(rows)) if rows[i].size_bytes < rows[i - 1].size_bytes)
    return next(falls, len(rows))


def size_complaints(
    result: Result, operation: str, ranks: int | None, options: Options | None
) -> list[str]:
    if options:
        return _unlike(result.sizes, options.sizes(result.reduced_bytes))
    kinds = sweeps(result)
    if len({kind_of(rows[0]) for rows in kinds}) < len(kinds):
        return ["rows of different datatypes, reductions or roots are mixed"]
    counts = set()
    for rows in kinds:
        repeated = cycles(rows, sizes_of_sweep(result, rows))
        counts.add(len(repeated))
        for cycle in repeated:
            if why := _sweep_complaints(result, cycle, operation, ranks):
                return why
        shown = [tuple(row.text for row in cycle) for cycle in repeated]
        if rows[0].text and len(set(shown)) < len(shown):
            return ["the same rows are there twice"]
    if len(counts) > 1:
        return ["some datatypes, reductions or roots were run more often than others"]
    return []


def _sweep_complaints(
    result: Result, rows: Sequence[Row], operation: str, ranks: int | None
) -> list[str]:
    """Whether the sizes of one sweep are those that the header announces."""
    sizes = tuple(row.size_bytes for row in rows)
    if result.min_bytes is None:
        rising = [size for size in sizes if size] == sorted({size for size in sizes if size})
        return [] if rising else ["sizes are repeated or out of order"]
    requested = list(itertools.islice(_sweep(result), max(len(sizes) + 1, 64)))
    element = ELEMENT_BYTES.get(rows[0].datatype)
    # How those are aligned is another matter in each of its sources.
    if ranks is None or element is None or operation in LIKE:
        announced = f"{result.min_bytes} to {result.max_bytes} bytes"
        if len(requested) != len(sizes) or any(map(operator.gt, sizes, requested)):
            return [f"{len(sizes)} sizes, not those that the header announces: {announced}"]
        return []
    names = [operation] if operation in OPERATIONS else list(OPERATIONS)
    versions = [version_numbers(result.version)] if result.version else []
    expected = [
        tuple(printed_bytes(name, size, element, ranks, version) for size in requested)
        for version in versions or (ALIGNS_TO_16_BYTES, ALIGNS_TO_4_ELEMENTS, (2, 0, 0))
        for name in names
    ]
    return [] if sizes in expected else _unlike(sizes, expected[0])


def _unlike(sizes: tuple[int, ...], expected: tuple[int, ...]) -> list[str]:
    if sizes == expected:
        return []
    if not expected:
        return ["rows, although no size is in the range of the header"]
    have, want = Counter(sizes), Counter(expected)
    listed = f"{expected[0]} to {expected[-1]} bytes, {len(expected)} sizes"
    for size in expected:
        if have[size] < want[size]:
            return [f"no row of {size} bytes, expected {listed}"]
    for size in sizes:
        if have[size] > want[size]:
            again = " again" if want[size] else ""
            return [f"a row of {size} bytes{again}, expected {listed}"]
    return [f"sizes out of order, expected {listed}"]
