"""How often bounds reject healthy campaigns, against campaigns that are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from railgauge.verdict.comparison import false_rejections
from railgauge.verdict.comparison.false_rejections import Runs

#: The places of a campaign, and the runs of each that a baseline is made of.
PLACES, RUNS = 6, 40


def drawn(seed: int, tail: float) -> tuple[Runs, np.random.Generator]:
    """Runs of equal places, with a noise of 1 % and a tail on the worse side."""
    random = np.random.default_rng(seed)
    logs = noise(random, (PLACES, RUNS), tail)
    medians = np.median(logs, axis=1)
    runs = Runs(medians - np.median(medians), (logs - medians[:, None]).ravel(), RUNS)
    return runs, random


def noise(random: np.random.Generator, shape: tuple[int, int], tail: float) -> np.ndarray:
    return random.normal(0, 0.01, shape) + tail * random.exponential(0.02, shape)


@pytest.mark.parametrize("tail", [0, 1])
def test_the_rate_is_that_of_campaigns_that_are_drawn(tail: float) -> None:
    runs, random = drawn(1, tail)
    bound = runs.within(0.001, 0.05)
    campaigns = noise(random, (20_000, PLACES), tail) - tail * 0.02 * np.log(2)
    assert np.mean((campaigns > bound).any(axis=1)) == pytest.approx(0.05, abs=0.035)
    assert runs.rejected(bound) == pytest.approx(0.05, abs=0.001)


def test_a_bound_that_rejects_few_enough_stays() -> None:
    runs, _ = drawn(2, 0)
    assert runs.within(0.1, 1e-3) == 0.1


def test_a_bound_admits_all_runs_and_at_most_the_share_that_is_asked_for() -> None:
    runs, _ = drawn(3, 1)
    bound = runs.within(0.01, 1e-3)
    assert bound > (runs.of_places.max() + runs.of_runs.max()) * 0.9
    assert runs.rejected(bound) <= 1e-3 < runs.rejected(bound * 0.98)


def test_many_deviations_say_the_same_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    of_runs = np.random.default_rng(4).normal(0, 0.01, 4000)
    some = Runs(np.zeros(4), of_runs, 5).within(0.01, 1e-3)
    monkeypatch.setattr(false_rejections, "_DEVIATIONS", of_runs.size)
    assert some == pytest.approx(Runs(np.zeros(4), of_runs, 5).within(0.01, 1e-3), rel=0.1)
