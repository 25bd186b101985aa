"""Pairs: low paths that no part explains.

A pair is confirmed when it is low every time, four times, and both its ends are good elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railgauge.common.names import natural
from railgauge.locating import chance
from railgauge.locating.parts import Path, Paths
from railgauge.locating.results import End
from railgauge.locating.suspects import Measure, Suspect
from railgauge.locating.witnesses import clearing, convicting, good_partner

#: A pair is confirmed when it was low so often, and its ends were good with so many others.
PAIR_TIMES, PAIR_OTHERS = 4, 3

#: The chance that some pair is low so often by itself, each time again, is less.
_BY_ITSELF = 0.01


def suspects(paths: Paths, accused: set[End]) -> Iterator[Suspect]:
    """The pairs with low paths; `accused` ends show nothing of them."""
    noise = _noise(paths)
    pairs: dict[tuple[str, str], list[Path]] = {}
    for path in paths.open:
        if _least_loss(paths, path) > noise:
            first, second = sorted((path[0].node, path[1].node), key=natural)
            pairs.setdefault((first, second), []).append(path)
    for nodes, lows in pairs.items():
        by_order = [sorted(path, key=lambda end: end.order) for path in lows]
        ends = tuple(dict.fromkeys(end for path in by_order for end in path))
        yield Suspect(
            "pair",
            "-".join(nodes),
            float(max(paths.open[path] for path in lows)),
            nodes,
            ends,
            (*convicting(paths, lows), *clearing(paths, ends, nodes)),
            tuple(_needs(paths, accused, nodes, lows)),
        )


def _least_loss(paths: Paths, path: Path) -> float:
    """How many times the least low result of a path its centre is; infinite of one that failed or
    has a reference.
    """
    evidence = paths.evidence
    losses = [float("inf")]
    for number in paths.low_results[path]:
        result, expected = evidence.results[number], evidence.expected[number]
        if not result.value or not expected or result.bound is not None:
            return float("inf")
        losses.append(expected / result.value)
    return min(losses)


def _noise(paths: Paths) -> float:
    """How many times their centre the third highest result is, and a quarter more of that. What
    noise makes of so many results is no farther below the centre than others lie above it.
    """
    evidence = paths.evidence
    shares = [
        result.value / centre
        for result, centre in zip(evidence.results, evidence.expected)
        if result.value and centre
    ]
    return sorted(shares)[-3] ** 1.25 if paths.open and len(shares) >= 100 else 1.0


def _needs(
    paths: Paths, accused: set[End], nodes: tuple[str, str], lows: Sequence[Path]
) -> Iterator[Measure]:
    """What is still to be measured; nothing where it is confirmed."""
    evidence = paths.evidence

    def others(least: int) -> Iterator[Measure]:
        """What an end lacks that is good with fewer others."""
        for end, sends in dict.fromkeys(e for a, b in lows for e in ((a, True), (b, False))):
            good = () if end in accused else paths.good_with[end, sends].keys() - set(nodes)
            if len(good) < least:
                part = f"as {'sender' if sends else 'receiver'} " * evidence.directed
                why = f"{part}with {'others' if least > 1 else 'another'}"
                yield Measure(end.name, good_partner(paths, end, nodes), why, "partner")

    if any(map(paths.is_between, lows)) and not paths.low_alone(lows):
        yield Measure(nodes[0], nodes[1], "the pair again, while no flow shares its links", "alone")
        return
    if lacking := list(others(1)):
        yield from lacking
        return
    numbers = [n for path in lows for n in paths.low_results[path]]
    rounds = {evidence.results[n].round for n in numbers}
    times = len(numbers) if None in rounds else len(rounds)
    each_time = all(len(paths.results[path]) == len(paths.low_results[path]) for path in lows)
    low = len(paths.open) + len(paths.mixed)
    rate = chance.usual(low - len(lows), max(len(paths.results) - len(lows), low))
    by_itself = rate ** (times - 1) * len(paths.open)
    if times < PAIR_TIMES or not each_time or by_itself >= _BY_ITSELF:
        yield Measure(nodes[0], nodes[1], "the pair again", "pair")
    else:
        yield from others(PAIR_OTHERS)
