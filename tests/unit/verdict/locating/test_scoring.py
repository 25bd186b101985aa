"""Weights of results: what bounds false accusations holds of them."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.peers import peers
from tests.unit.verdict.locating.campaigns import heavy, normal

CASES = [(100, 3), (100, 6), (100, 30), (500, 3), (1000, 30)]


def healthy(z: float, degrees: int) -> float:
    return scoring.density(z, degrees)


@pytest.mark.parametrize(("spread", "degrees"), CASES)
def test_a_healthy_part_gains_nothing_on_average(spread: int, degrees: int) -> None:
    """The mean of exp(weight) is at most 1, for parts that are slower by all that is forgiven:
    what Ville's inequality needs. Weights below the least are raised to it: 1 in a hundred more.
    """
    table = scoring.weights(spread, degrees).always
    forgiven = scoring.FORGIVEN / (spread / 10_000)
    width = 0.05
    mean = sum(
        math.exp(table[scoring.Weights.place(k * width)])
        * healthy(k * width - forgiven, degrees)
        * width
        for k in range(-2000, 9000)
    )
    assert mean < 1.05


@pytest.mark.parametrize(("spread", "degrees"), CASES)
def test_the_lower_the_heavier_and_no_single_result_decides(spread: int, degrees: int) -> None:
    table = scoring.weights(spread, degrees).always
    assert table[0] < 0 and max(table) <= scoring.MOST
    assert table[scoring.Weights.place(60)] > table[scoring.Weights.place(6)] > table[0]


def test_what_comes_and_goes_is_hardly_cleared_by_a_pass() -> None:
    assert -0.23 < scoring.came_and_went(-4.6) < 0 < scoring.came_and_went(9.0) < 9.0


@pytest.mark.parametrize("degrees", [3, 6, 30])
def test_the_tail_is_bounded_from_above(degrees: int) -> None:
    for z in (2, 4, 10, 30):
        steps = [healthy(z + (k + 0.5) * 0.01, degrees) * 0.01 for k in range(40_000)]
        assert sum(steps) <= scoring.tail(z, degrees) <= 3 * sum(steps) + 2 * scoring.TRANSIENT


@pytest.mark.parametrize(("noise", "degrees"), [(normal, 30), (heavy, 3)])
def test_the_tail_of_many_values_is_seen(noise: object, degrees: int) -> None:
    chance = random.Random(5)
    known = peers([24 * (1 + noise(chance)) for _ in range(5000)], 0.001)  # type: ignore[operator]
    assert known is not None and known.degrees == degrees


def test_the_tail_of_few_values_is_taken_for_heavy() -> None:
    chance = random.Random(5)
    known = peers([24 * (1 + normal(chance)) for _ in range(50)], 0.01)
    assert known is not None and known.degrees == 3


# ---- peers ----


@pytest.mark.parametrize("values", [[], [24.0], [24.0, 12.0, 24.0]])
def test_fewer_than_four_are_no_peers(values: list[float]) -> None:
    assert peers(values, 0.01) is None


def test_of_two_groups_the_better_one_has_the_peers() -> None:
    known = peers([24.5, 24.4, 17.0, 17.1, 17.2, 17.0], 0.01)
    assert known is not None and known.centre > 24


def test_few_values_that_agree_are_not_taken_for_exact() -> None:
    known = peers([24.0] * 4, 0.01)
    assert known is not None and known.spread > 0.02


def test_the_spread_is_that_of_the_noise_where_there_are_many() -> None:
    chance = random.Random(1)
    known = peers([24 * (1 + chance.gauss(0, 0.03)) for _ in range(2000)], 0.01)
    assert known is not None and 0.028 < known.spread < 0.034


def test_noise_of_one_group_is_not_split() -> None:
    chance = random.Random(3)
    for _ in range(300):
        values = [24 * (1 + chance.gauss(0, 0.05)) for _ in range(12)]
        known = peers(values, 0.01)
        assert known is not None
        assert abs(known.centre / statistics.median(values) - 1) < 0.08
