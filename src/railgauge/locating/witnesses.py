"""The results that are shown with a suspect, and the partners for what is still to be measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from railgauge.locating.parts import Path, Paths
from railgauge.locating.results import End
from railgauge.locating.suspects import Says, Witness

#: The most results that are named as evidence, of either kind.
_MOST_NAMED = 8


def convicting(paths: Paths, lows: Iterable[Path]) -> Iterator[Witness]:
    """The low results of these paths, the lowest first."""
    levels = paths.evidence.levels
    numbers = {number for path in lows for number in paths.low_results[path]}
    ordered = [number for number in paths.evidence.lows if number in numbers]
    strongest = sorted(ordered, key=lambda number: -levels[number])
    return (_witness(paths, number, "convicts") for number in strongest[:_MOST_NAMED])


def counting(paths: Paths, numbers: Iterable[int]) -> Iterator[Witness]:
    """The results in which error counters grew."""
    return (_witness(paths, number, "counter") for number in list(numbers)[:_MOST_NAMED])


def clearing(paths: Paths, partners: Iterable[End], without: Collection[str]) -> Iterator[Witness]:
    """A good result of each partner with another node."""
    shown: dict[int, None] = {}
    for end in dict.fromkeys(partners):
        good = {**paths.good_with[end, True], **paths.good_with[end, False]}
        shown.update((n, None) for n in [n for node, n in good.items() if node not in without][:1])
    return (_witness(paths, number, "clears") for number in list(shown)[:_MOST_NAMED])


def _witness(paths: Paths, number: int, says: Says) -> Witness:
    result, expected = paths.evidence.results[number], paths.evidence.expected[number]
    a, b = result.ends
    if says == "counter" and not result.sender_events:
        a, b = b, a
    return Witness(a.name, b.name, result.round, result.value, expected, says)


def good_partner(paths: Paths, end: End, without: Iterable[str], leaf: str | None = None) -> str:
    """A partner on the same rail that is good and was never low, of this leaf or of the end's own
    where possible.
    """
    excluded = {end.node, *without}
    own = leaf or paths.leaf_of.get(end)
    there = paths.never_low[end.rail]
    clean = (other.name for other in there if other.node not in excluded)
    at_home = (e.name for e in there if paths.leaf_of.get(e) == own and e.node not in excluded)
    anyone = next(clean, None) if leaf is None else None
    return next(at_home, None) or anyone or "one that is good with others"
