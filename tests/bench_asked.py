"""Figures of the locator that are asked for: how soon a fault is named, and how often it is.

    python -m tests.bench_asked [--campaigns N] [--seed-base N]

A campaign is adaptive: each round is what `railgauge.locating.plan` asks for. A result is the rate
less the largest loss on its path, times one plus noise with a standard deviation of 1 %. Everything
follows from the seeds. `tests.bench_worlds` has the false accusations.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import time
from collections.abc import Callable, Iterator

from railgauge.locating import End, Evidence, Located, Result, Suspect, locate
from railgauge.locating.plan import next_round

#: The share that a run from one node to another loses.
Loss = Callable[[int, int], float]


def number(end: End) -> int:
    return int(end.node[1:])


def campaign(
    seed: int, nodes: int, at_leaf: int, loss: Loss, rounds: int
) -> Iterator[tuple[int, Located]]:
    """Round (from 1) -> what is located."""
    noise = random.Random(seed)
    ends = [End(f"n{place:04}") for place in range(nodes)]
    evidence = Evidence({end: f"leaf{number(end) // at_leaf}" for end in ends}, directed=True)
    located = locate(evidence)
    for place in range(rounds):
        evidence.add(
            Result(a, b, 390 * (1 - loss(number(a), number(b))) * noise.gauss(1, 0.01), place)
            for a, b in next_round(evidence, located, ends, place)
        )
        located = locate(evidence)
        yield place + 1, located


def uplink(seed: int, nodes: int, at_leaf: int, spines: int, rounds: int) -> tuple[int, int]:
    """The rounds in which a leaf and the direction are named, and confirmed (99: not): the index of
    the destination picks the spine, and half is lost from, or to, one leaf at one spine.
    """
    chance = random.Random(seed)
    leaf, spine, up = chance.randrange(nodes // at_leaf), chance.randrange(spines), seed % 2 == 0

    def loss(a: int, b: int) -> float:
        here = a // at_leaf if up else b // at_leaf
        hit = a // at_leaf != b // at_leaf and b % spines == spine and here == leaf
        return 0.5 if hit else 0.0

    def is_it(suspect: Suspect) -> bool:
        way = "up" if up else "down"
        return (suspect.name, suspect.direction) == (f"leaf{leaf}", way)

    named = confirmed = 99
    for place, located in campaign(seed, nodes, at_leaf, loss, rounds):
        found = [suspect for suspect in located.suspects if is_it(suspect)]
        named = min(named, place if found else 99)
        confirmed = min(confirmed, place if any(s.confirmed for s in found) else 99)
    return named, confirmed


def node_among_pairs(seed: int) -> tuple[bool, bool]:
    """Whether n03 is named, slow with 70 % of its partners among 15 % of faulty pairs, of 17 nodes,
    all pairs twice; and whether another node is.
    """
    chance = random.Random(seed)
    names = [f"n{place:02}" for place in range(1, 18)]
    pairs = list(itertools.combinations(names, 2))
    slow = {pair: chance.uniform(0.05, 0.6) for pair in pairs if chance.random() < 0.15}
    for pair in pairs:
        if "n03" in pair and chance.random() < 0.7:
            slow.setdefault(pair, chance.uniform(0.05, 0.6))
    evidence = Evidence(directed=True)
    evidence.add(
        Result(End(a), End(b), 13.5 * chance.gauss(1, 0.01) * slow.get((a, b), 1), place)
        for place in range(2)
        for a, b in pairs
    )
    nodes = {suspect.name for suspect in locate(evidence).suspects if suspect.kind == "node"}
    return "n03" in nodes, bool(nodes - {"n03"})


def rails(seed: int, slow: int) -> tuple[int, float, float]:
    """The round in which all of so many slow rails of 36,864 are named (99: not by the fourth); and
    the CPU seconds of the decision of two rounds, and of the plan of the third.
    """
    chance = random.Random(seed)
    ends = [End(f"n{node:04}", f"mlx5_{rail}") for node in range(4608) for rail in range(8)]
    bad = set(chance.sample(ends, slow))
    evidence = Evidence({end: f"leaf{number(end) // 72}" for end in ends}, directed=True)
    located = locate(evidence)
    decided = planned = 0.0
    for place in range(4):
        began = time.process_time()
        pairs = next_round(evidence, located, ends, place)
        planned = time.process_time() - began if place == 2 else planned
        evidence.add(
            Result(a, b, 48.5 * (0.7 if bad & {a, b} else 1) * chance.gauss(1, 0.01), place)
            for a, b in pairs
        )
        began = time.process_time()
        located = locate(evidence)
        decided = time.process_time() - began if place == 1 else decided
        if {end.name for end in bad} <= {s.name for s in located.suspects if s.kind == "rail"}:
            return place + 1, decided, planned
    return 99, decided, planned


def share(values: list[int], most: int) -> str:
    return f"{sum(value <= most for value in values) / len(values):.1%}"


def figures(count: int = 200, base: int = 0) -> None:
    """Print a line for each figure."""
    seeds = range(base, base + count)
    for nodes, at_leaf, spines, most in ((64, 16, 8, len(seeds)), (512, 32, 16, len(seeds) // 4)):
        found = [uplink(seed, nodes, at_leaf, spines, 8) for seed in seeds[:most]]
        named, confirmed = map(list, zip(*found, strict=True))
        print(
            f"one slow direction of one uplink, {nodes} nodes, destination routes, n = {most}: "
            f"named by round 4 / 6: {share(named, 4)} / {share(named, 6)}; "
            f"confirmed by round 6 / 8: {share(confirmed, 6)} / {share(confirmed, 8)}",
            flush=True,
        )
    pairs = [node_among_pairs(seed) for seed in seeds]
    print(
        f"a node slow with 70 % of its partners among 15 % of faulty pairs, n = {len(pairs)}: "
        f"named {sum(named for named, _ in pairs) / len(pairs):.1%}, another node "
        f"{sum(other for _, other in pairs) / len(pairs):.1%}",
        flush=True,
    )
    for slow in (1, 8, 32):
        results = [rails(seed, slow) for seed in seeds[: max(3, len(seeds) // 40)]]
        print(
            f"{slow} slow rails of 36,864, n = {len(results)}: all named by round 3: "
            f"{share([place for place, _, _ in results], 3)}; decision of two rounds, CPU "
            f"{max(decided for _, decided, _ in results):.2f} s at most, plan of the third "
            f"{max(planned for _, _, planned in results):.2f} s",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--seed-base", type=int, default=0)
    asked = parser.parse_args()
    figures(asked.campaigns, asked.seed_base)


if __name__ == "__main__":
    main()
