"""Slow for the load alone: low while others are busy, and good each time that all else is quiet."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from railgauge.locating.parts import Path, Paths
from railgauge.locating.results import End

#: The chance that a fault which comes and goes was away each time that all else was quiet, below
#: which it is load.
BY_CHANCE = 0.01


def away(low: int, loaded: int, quiet: int) -> float:
    """The chance that a fault which comes and goes was away in all of so many `quiet` results, by
    the number of `low` ones of all `loaded`: that none of those that are low is a quiet one (R. A.
    Fisher's exact test).
    """
    return math.comb(loaded, low) / math.comb(loaded + quiet, low)


def quiet_needed(low: int) -> int:
    """How many good quiet results show load, of an end that was low each time that others were
    busy: 7 after 3 low ones, 5 after 4.
    """
    return next(count for count in itertools.count(1) if away(low, low, count) < BY_CHANCE)


def missed_when_quiet(paths: Paths, ends: Sequence[End], lows: Iterable[Path]) -> float | None:
    """The chance that a fault which comes and goes was away each time that all else was quiet, of
    the end where it is likeliest; None where an end was not measured so, or was not good then.
    """
    evidence = paths.evidence
    low, loaded, quiet = Counter[End](), Counter[End](), Counter[End]()
    if not evidence.any_quiet:
        return None
    for path in lows:
        for end in set(path).intersection(ends):
            low[end] += len(paths.low_results[path])
    for number, result in enumerate(evidence.results):
        for end in low.keys() & set(result.ends):
            if result.quiet and not evidence.good[number]:
                return None
            (quiet if result.quiet else loaded)[end] += 1
    if not low or any(not quiet[end] for end in low):
        return None
    return max(away(count, loaded[end], quiet[end]) for end, count in low.items())
