"""Figures of the rounds that a sweep measures by itself, by simulated campaigns.

    python -m tests.bench_swept [--campaigns N]     what docs/figures.md has
    python -m tests.bench_swept --rounds N          with other `locate_rounds` than by default

A campaign is one sweep of nodes with one rail each (`tests/swept.py`), judged at its end. The model
is that of `tests.bench_locate`, but for the uplinks: a leaf has four, of which one loses 40 %, and
each flow of a run takes any of them. Everything follows from the seed, which is the same fault by
each schedule.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence

from railgauge.systems.schema import Schedule
from railgauge.verdict.locating import End
from tests import bench_locate
from tests.bench_locate import (
    NOISES,
    SHIPPED,
    Fabric,
    Faults,
    Make,
    Outcome,
    Simulation,
    by_sweep,
    healthy,
    slow_rail_and_failing,
    slow_rails,
    uplink,
)


def uplink_of_four(flows: int) -> Make:
    """One of four uplinks, and runs of so many flows."""

    def make(fabric: Fabric, ends: Sequence[End], chance: random.Random) -> tuple[Faults, set[str]]:
        faults, guilty = uplink(fabric, ends, chance)
        faults.uplinks, faults.flows = 4, flows
        return faults, guilty

    return make


_SMALL, _MIDDLE, _LARGE = Fabric(16, 1, 4), Fabric(32, 1, 4), Fabric(128, 1, 8)

Rows = tuple[Make, tuple[Fabric, ...], tuple[Schedule, ...]]

#: Within leaves nothing takes an uplink: these are measured by `cover` alone.
MODELS: dict[str, Rows] = {
    "healthy": (healthy, (_SMALL, _LARGE), SHIPPED),
    "1 slow node, 30 %": (slow_rails(1, 0.3), (_SMALL, _LARGE), SHIPPED),
    "8 slow nodes, 30 %": (slow_rails(8, 0.3), (_SMALL, _LARGE), SHIPPED),
    "a slow node, and 1 % of runs fail": (slow_rail_and_failing, (_SMALL, _LARGE), SHIPPED),
    **{
        f"one lossy uplink of 4, runs of {flows} flow{'s' * (flows > 1)}": (
            uplink_of_four(flows),
            (_SMALL, _MIDDLE, _LARGE),
            ("cover",),
        )
        for flows in (1, 4)
    },
}

#: model, fabric and schedule of each line.
LINES: tuple[tuple[str, Fabric, Schedule], ...] = tuple(
    (model, fabric, schedule)
    for model, (_, fabrics, schedules) in MODELS.items()
    for fabric, schedule in itertools.product(fabrics, schedules)
)


def campaigns(
    model: str,
    fabric: Fabric,
    schedule: Schedule,
    noise: str,
    seeds: Iterable[int],
    pools: dict[str, list[float]],
    most: int | None = None,
) -> Iterator[Outcome]:
    make, _, _ = MODELS[model]
    for seed in seeds:
        chance = random.Random(f"{model} {fabric.nodes} {noise} {seed}")
        faults, guilty = make(fabric, fabric.ends, chance)
        values = pools["heavy" if noise == "heavy" else "normal"]
        sim = Simulation(fabric, faults, values, chance.randrange(2**60), noise == "correlated")
        yield by_sweep(sim, guilty, schedule, most)


def figures(count: int = 100, most: int | None = None) -> None:
    """A line a fault, size and schedule, and the seeds that confirmed an innocent."""
    print(f"seeds 0 to {count - 1} of each kind of noise: {', '.join(NOISES)}")
    print(
        "| fault | nodes | schedule | all confirmed, by noise | all named | rounds, median / most "
        "| an innocent confirmed | named, not confirmed |"
    )
    pools = {kind: bench_locate.pool(kind) for kind in ("normal", "heavy")}
    for model, fabric, schedule in LINES:
        of_noise = {
            noise: list(campaigns(model, fabric, schedule, noise, range(count), pools, most))
            for noise in NOISES
        }
        shares = [sum(o.found is not None for o in some) / count for some in of_noise.values()]
        confirmed = " / ".join(f"{share:.0%}" for share in shares)
        outcomes = [outcome for some in of_noise.values() for outcome in some]
        named = f"{sum(not outcome.missed for outcome in outcomes) / len(outcomes):.0%}"
        rounds = [outcome.rounds for outcome in outcomes]
        print(
            f"| {model} | {fabric.nodes} | {schedule} | "
            f"{'- | -' if model == 'healthy' else f'{confirmed} | {named}'} | "
            f"{statistics.median(rounds):g} / {max(rounds)} | "
            f"{sum(bool(o.innocent) for o in outcomes)} | "
            f"{sum(bool(o.doubted) for o in outcomes)} of {len(outcomes)} |",
            flush=True,
        )
        for noise, some in of_noise.items():
            for seed, outcome in enumerate(some):
                if outcome.innocent:
                    print(f"   {noise}, seed {seed}:", ", ".join(outcome.innocent), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--campaigns", type=int, default=100)
    parser.add_argument("--rounds", type=int)
    arguments = parser.parse_args()
    figures(arguments.campaigns, arguments.rounds)


if __name__ == "__main__":
    main()
