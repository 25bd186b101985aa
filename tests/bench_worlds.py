"""Figures of the location of faults in the worlds of `tests.worlds`: who is named, who falsely.

    python -m tests.bench_worlds [--campaigns N] [--seed-base N] [NAME...]   a line a world
    python -m tests.bench_worlds --mixture N [--seed-base N]    innocents in N campaigns of all
    python -m tests.bench_worlds --others [--campaigns N]       next to other ways to find a node

NAME is a world or a part of its name. Everything follows from world and seed: one that accused the
innocent is seen again by its name, `--campaigns 1` and its seed as the base.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from scipy import special

from tests import worlds
from tests.worlds import LARGE, NO_SCORE, SHARING, WORLDS, Outcome, Score, World

_COLUMNS = (
    "world | n | nodes, rails: named / confirmed | pairs, links: named / confirmed "
    "| all confirmed by round 50 / 99 % | innocent nodes or rails | other innocents "
    "| most idle ends | CPU s 50 / 100 %"
)


def at(values: Sequence[float | None], share: float) -> str:
    """The value below which this share lies; "-": it has none, as it was not found."""
    known = sorted(value for value in values if value is not None)
    place = min(len(values) - 1, int(share * len(values)))
    return f"{known[place]:g}" if place < len(known) else "-"


def upper(count: int, of: int) -> float:
    """The 95 % upper bound of a share, by Clopper and Pearson; for none of n nearly 3 / n."""
    return 1.0 if count >= of else float(special.betaincinv(count + 1, of - count, 0.95))


def score(scores: Iterable[Score]) -> str:
    """Shares of the parts at fault, over all campaigns."""
    wanted, named, confirmed = sum(scores, NO_SCORE)
    return f"{named / wanted:.0%} / {confirmed / wanted:.0%} of {wanted}" if wanted else "-"


def line(name: str, outcomes: Sequence[Outcome]) -> str:
    ends = score([outcome.of_ends for outcome in outcomes])
    others = score([outcome.of_others for outcome in outcomes])
    found = [outcome.found for outcome in outcomes if outcome.wanted]
    rounds = f"{at(found, 0.5)} / {at(found, 0.99)}" if found else "-"
    innocent = sum(bool(outcome.ends) for outcome in outcomes)
    as_well = sum(bool(outcome.others) for outcome in outcomes)
    seconds = sorted(outcome.seconds for outcome in outcomes)
    cpu = f"{seconds[len(seconds) // 2]:.2f} / {seconds[-1]:.2f}"
    if cut := sum(outcome.cut for outcome in outcomes):
        cpu += f", {cut} cut off"
    idle = max(outcome.idle for outcome in outcomes)
    shares = f"{ends} | {others} | {rounds} | {innocent} | {as_well}"
    return f"{name} | {len(outcomes)} | {shares} | {idle} | {cpu}"


def accused(name: str, outcomes: Iterable[Outcome], all_kinds: bool) -> Iterable[str]:
    """A line for each campaign with an innocent node or rail, or any innocent, or cut off."""
    for outcome in outcomes:
        if outcome.cut:
            yield f"    {name}, seed {outcome.seed}: cut off"
        innocents = [*outcome.ends, *(outcome.others if all_kinds else ())]
        if innocents:
            shown = ", ".join(innocents[:8]) + (" ..." if len(innocents) > 8 else "")
            yield f"    {name}, seed {outcome.seed}: {shown}"


def table(names: Sequence[str], count: int, base: int, all_kinds: bool, limit: float) -> None:
    print(_COLUMNS)
    for name in names:
        outcomes = [
            worlds.campaign(worlds.draw(name, seed), seed, limit=limit)
            for seed in range(base, base + count)
        ]
        print(line(name, outcomes), flush=True)
        for words in accused(name, outcomes, all_kinds):
            print(words, flush=True)


def of_mixture(count: int, base: int, all_kinds: bool, limit: float) -> None:
    """Campaigns of all kinds, and how many of them confirmed an innocent."""
    outcomes = []
    kinds: Counter[str] = Counter()
    for name, seed, world in worlds.mixture(count, base):
        outcome = worlds.campaign(world, seed, limit=limit)
        outcomes.append(outcome)
        kinds[name] += bool(outcome.ends)
        for words in accused(name, [outcome], all_kinds):
            print(words, flush=True)
    for name, wrong in kinds.most_common():
        if wrong:
            print(f"    {wrong:4} {name}")
    print(_COLUMNS)
    print(line("mixture", outcomes))
    for what, wrong in (
        ("a node or rail", sum(bool(outcome.ends) for outcome in outcomes)),
        ("a pair, leaf or link", sum(bool(outcome.others) for outcome in outcomes)),
    ):
        bound = upper(wrong, count)
        print(
            f"{what} falsely confirmed: in {wrong} of {count} campaigns, "
            f"{1000 * wrong / count:.2f} in 1,000; 95 % upper bound {1000 * bound:.2f} in 1,000"
        )


# ---- next to other ways to find a bad node ----

#: An operator knows what a healthy pair gets, and calls it low from here on.
_LOW = 0.95 * worlds.RATE


@dataclasses.dataclass
class Search:
    """Who was accused, after how many measurements of a pair (each a tool-second) and how many
    steps one after another; measurements of a step are at once.
    """

    accused: set[str]
    measured: int
    steps: int


def _lows(world: World, pairs: Iterable[tuple[str, str]], number: int) -> list[bool]:
    results = world.measure(world.of_nodes(pairs), number)
    return [result.value is None or result.value < _LOW for result in results]


def by_reference(world: World) -> Search:
    """Every node with the first one, one at a time: who is low is accused, or else the first one,
    if most are.
    """
    first, *others = world.nodes
    low = [_lows(world, [(node, first)], step)[0] for step, node in enumerate(others)]
    accused = {node for node, is_low in zip(others, low, strict=True) if is_low}
    return Search({first} if 2 * len(accused) > len(others) else accused, len(low), len(low))


def by_halving(world: World) -> Search:
    """A group whose neighbours are low with each other is cut in two, down to two nodes, each of
    which then meets one of a group that was not low.
    """
    search, good = Search(set(), 0, 0), ""
    groups, doubtful = [world.nodes], []
    while groups:
        group = groups.pop(0)
        low = _lows(world, zip(group[::2], group[1::2], strict=True), search.steps)
        search.measured += len(low)
        search.steps += 1
        half = len(group) // 2
        if not any(low):
            good = good or group[0]
        elif half == 1:
            doubtful += group
        else:
            groups += [group[:half], group[half:]]
    for node in doubtful if good else ():
        search.measured += 1
        search.steps += 1
        if _lows(world, [(node, good)], search.steps)[0]:
            search.accused.add(node)
    return search


def by_every_pair(world: World) -> Search:
    """Every two nodes: who is low with most others is accused."""
    world.plan = "every pair"
    times: Counter[str] = Counter()
    judge = world.judge()
    for step in range(world.rounds_a_pass):
        for result in world.measure(world.places(step, judge), step):
            if result.value is None or result.value < _LOW:
                times.update((result.sender.node, result.receiver.node))
    count = len(world.nodes)
    accused = {node for node, low in times.items() if 2 * low > count - 1}
    return Search(accused, count * (count - 1) // 2, world.rounds_a_pass)


def by_rounds(world: World) -> Search:
    """The planner's rounds, until the bad node is confirmed."""
    outcome = worlds.campaign(world, 0, stop=True)
    named = set(world.bad_nodes) if outcome.found else set()
    wrong = {words.removeprefix("node ") for words in outcome.ends}
    return Search(named | wrong, outcome.measured, outcome.found or world.rounds)


WAYS: dict[str, Callable[[World], Search]] = {
    "one reference node": by_reference,
    "recursive halving": by_halving,
    "every pair, most low": by_every_pair,
    "adaptive rounds": by_rounds,
}


def with_others(count: int, base: int) -> None:
    """Each way on the same campaigns: 64 nodes, one of them bad."""
    print("campaigns | way | n | named | tool-seconds 50 / 99 % | steps 50 / 99 % | innocents")
    for kind, (name, way) in itertools.product(worlds.BESIDE, WAYS.items()):
        drawn = [worlds.draw(kind, seed) for seed in range(base, base + count)]
        searches = [(world.bad_nodes, way(world)) for world in drawn]
        named = sum(bad <= search.accused for bad, search in searches)
        wrong = [len(search.accused - bad) for bad, search in searches]
        seconds = [search.measured for _, search in searches]
        steps = [search.steps for _, search in searches]
        print(
            f"{kind} | {name} | {count} | {named / count:.0%} | {at(seconds, 0.5)} / "
            f"{at(seconds, 0.99)} | {at(steps, 0.5)} / {at(steps, 0.99)} | "
            f"{sum(wrong)} in {sum(map(bool, wrong))} campaigns",
            flush=True,
        )


def _asked(parts: Sequence[str]) -> list[str]:
    """All worlds, or those whose names have one of the parts."""
    names = [*WORLDS, *SHARING, *LARGE]
    if not parts:
        return names
    exact = [part for part in parts if part in names]
    inexact = [part for part in parts if part not in names]
    return [n for n in names if n in exact or any(part in n for part in inexact)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--campaigns", type=int, default=20)
    parser.add_argument("--seed-base", type=int, default=0)
    parser.add_argument("--mixture", type=int, default=0, metavar="N")
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--all-innocents", action="store_true", help="show innocent pairs, links")
    parser.add_argument("--limit", type=float, default=60, help="CPU s of a campaign; 0: none")
    parser.add_argument("--list", action="store_true", help="the names of the worlds")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join([*WORLDS, *SHARING, *LARGE]))
    elif asked.others:
        with_others(asked.campaigns, asked.seed_base)
    elif asked.mixture:
        of_mixture(asked.mixture, asked.seed_base, asked.all_innocents, asked.limit)
    else:
        names = _asked(asked.names)
        table(names, asked.campaigns, asked.seed_base, asked.all_innocents, asked.limit)


if __name__ == "__main__":
    main()
