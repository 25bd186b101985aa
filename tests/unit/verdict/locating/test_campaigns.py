"""Whole adaptive campaigns, simulated as for the figures: nobody is accused falsely."""

from __future__ import annotations

import functools
import random

import pytest

from tests import bench_locate
from tests.bench_locate import Outcome

FABRIC = bench_locate.Fabric(256, 4, 16)


@functools.cache
def pools() -> dict[str, list[float]]:
    return {kind: bench_locate.pool(kind, 100_000) for kind in ("normal", "heavy")}


@pytest.mark.parametrize("noise", bench_locate.NOISES)
@pytest.mark.parametrize("model", bench_locate.MODELS)
def test_no_campaign_accuses_an_innocent(model: str, noise: str) -> None:
    outcomes = list(bench_locate.campaigns(FABRIC, model, noise, 2, pools()))
    assert [outcome.innocent for outcome in outcomes] == [[], []]


def test_of_many_ends_one_meets_a_lossy_spine_twice_and_is_low_once_by_chance() -> None:
    """All leaves are as lossy as its own: it is one of 36,864 that might have been so unlucky."""
    fabric = bench_locate.Fabric(4608, 8, 64)
    model, noise, seed = "one lossy spine of 16, with switch counters", "heavy", 3
    chance = random.Random(f"{model} {noise} {seed}")
    make, most = bench_locate.MODELS[model]
    faults, guilty = make(fabric, fabric.ends, chance)
    values = bench_locate.pool("heavy")
    sim = bench_locate.Simulation(fabric, faults, values, chance.randrange(2**60), correlated=False)
    outcome = bench_locate.run(sim, guilty, most)
    assert outcome.innocent == [] and outcome.found == 3


@pytest.mark.parametrize("noise", bench_locate.NOISES)
@pytest.mark.parametrize("count", [1, 8, 32])
def test_slow_rails_are_named_by_the_third_round(count: int, noise: str) -> None:
    model = f"{count} slow rail{'s' if count > 1 else ''}, 30 %"
    outcomes = bench_locate.campaigns(FABRIC, model, noise, 3, pools())
    assert all((outcome.found or 99) <= 3 for outcome in outcomes)


def test_of_runs_that_fail_by_themselves_there_are_as_many_as_the_model_says() -> None:
    ends = FABRIC.ends
    faults = bench_locate.Faults(failing=0.01)
    sim = bench_locate.Simulation(FABRIC, faults, [0.0], 1, correlated=False)
    places = list(zip(ends[::2], ends[1::2], strict=True))
    failed = sum(o.value is None for number in range(40) for o in sim.measure(places, number))
    assert 0.007 < failed / (40 * len(places)) < 0.013


def test_a_slow_node_is_there_in_each_round_beside_a_rail_that_comes_and_goes() -> None:
    make, _ = bench_locate.MODELS["a slow node, and a rail a fifth of the time"]
    faults, guilty = make(FABRIC, FABRIC.ends, random.Random(1))
    (at_times,) = faults.ends
    steady = next(iter(faults.steady))
    assert guilty == {at_times.name, steady.node}
    sim = bench_locate.Simulation(FABRIC, faults, [0.0], 1, correlated=False)
    clean = [end for end in FABRIC.ends if end.node not in (at_times.node, steady.node)][:2]
    places = list(zip((at_times, steady), clean, strict=True))
    values = [[o.value for o in sim.measure(places, number)] for number in range(100)]
    slow = pytest.approx(0.7 * bench_locate.RATE)
    assert all(of_steady == slow for _, of_steady in values)
    assert 8 < sum(of_rail == slow for of_rail, _ in values) < 35


def test_a_slow_rail_is_at_another_leaf_than_the_lossy_uplink() -> None:
    make, _ = bench_locate.MODELS["a slow rail, and a lossy uplink of another leaf"]
    for seed in range(50):
        faults, guilty = make(FABRIC, FABRIC.ends, random.Random(seed))
        (rail,) = faults.ends
        assert FABRIC.by_end[rail] != faults.uplink
        assert guilty == {rail.name, faults.uplink}


def test_who_is_named_by_round_25_stands_beside_what_one_run_a_round_allows() -> None:
    outcomes = [Outcome(found, [], [0.1], 60, 0, at_times=True) for found in (11, 25, 26, None)]
    assert "| 50% of 97% / 90% / 77% |" in bench_locate.line("at times", "normal", outcomes)


def test_of_what_is_always_there_no_such_bound_is_said() -> None:
    outcomes = [Outcome(2, [], [0.1], 2, 0)]
    assert "77%" not in bench_locate.line("a slow rail", "normal", outcomes)
