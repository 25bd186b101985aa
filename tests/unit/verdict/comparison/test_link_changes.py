"""Before against after: who is accused, who is not, and what cannot be told."""

from __future__ import annotations

import numpy as np
import pytest

from railgauge.verdict.comparison.link_changes import (
    BETTER,
    SAME,
    UNKNOWN,
    WORSE,
    Contrast,
    Samples,
    contrast,
)
from railgauge.verdict.comparison.significance import Floats

LINKS = 1024
DROP = np.log(0.92)


def compared(values: Floats, before: int, **options: float | bool) -> Contrast:
    """`values` are logarithms, links by runs; NaN where a link was not measured."""
    links, runs = values.shape
    link, run = np.nonzero(np.isfinite(values))
    none = np.zeros(links, dtype=np.int64)
    samples = Samples(
        log=values[link, run],
        link=link,
        run=run,
        after=np.arange(runs) >= before,
        of_class=none,
        family=none,
        less=np.zeros(links, dtype=bool),
    )
    return contrast(samples, **options)  # type: ignore[arg-type]


def noise(kind: str, runs: int, seed: int) -> Floats:
    """1 % a run, by link from 0.6 to 1.6 %: links by runs."""
    random = np.random.default_rng(seed)
    sd = 0.01 * np.exp(random.normal(0, 0.25, (LINKS, 1)))
    normal: Floats = sd * random.standard_normal((LINKS, runs))
    if kind == "heavy-tailed":
        return sd * random.standard_t(3, (LINKS, runs)) / np.sqrt(3)
    if kind == "drifting":
        of_all = np.cumsum(random.normal(0, 0.003, runs))
        return normal + of_all + np.cumsum(random.normal(0, 0.005, (LINKS, runs)), axis=1)
    if kind == "bimodal":
        return normal + DROP * (random.random((LINKS, runs)) < 0.1)
    if kind == "correlated by leaf":
        leaves = random.normal(0, 0.01, (LINKS // 64, runs))
        return 0.7 * normal + np.repeat(leaves, 64, axis=0)
    assert kind == "normal"
    return normal


KINDS = ["normal", "heavy-tailed", "drifting", "bimodal", "correlated by leaf"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "after"), [(1, 1), (5, 1), (3, 3), (5, 5)])
def test_where_nothing_changed_there_are_at_most_0_1_false_findings_a_campaign(
    kind: str, before: int, after: int
) -> None:
    found = [compared(noise(kind, before + after, seed), before) for seed in range(10)]
    assert sum(int((one.word >= BETTER).sum()) for one in found) <= 1
    assert [shift.word for one in found for shift in one.shifts if shift.word >= BETTER] == []


def test_eight_bad_links_are_found_with_three_runs() -> None:
    found = 0
    for seed in range(5):
        values = noise("normal", 6, seed)
        values[:8, 3:] += DROP
        found += int((compared(values, 3).word[:8] == WORSE).sum())
    assert found >= 0.7 * 40


def test_a_shift_of_all_links_is_found_and_no_node_accused() -> None:
    values = noise("normal", 10, 0)
    values[:, 5:] += np.log(0.97)
    found = compared(values, 5)
    (shift,) = found.shifts
    assert shift.word == WORSE and np.expm1(shift.change) == pytest.approx(-0.03, abs=0.002)
    assert not (found.word >= BETTER).any()


def test_one_slower_link_of_eight_is_named_and_no_other() -> None:
    values = noise("normal", 10, 0)[:8] / 5
    values[3, 5:] += np.log(0.95)
    assert compared(values, 5).word.tolist() == [SAME] * 3 + [WORSE] + [SAME] * 4


def test_of_three_links_nothing_is_taken_out_as_common() -> None:
    values = noise("normal", 10, 0)[:3] / 5
    values[:, 5:] += np.log(0.95)
    found = compared(values, 5)
    assert found.shifts == () and found.word.tolist() == [WORSE] * 3


def test_a_faster_link_is_better_and_a_longer_latency_worse() -> None:
    values = noise("normal", 10, 0)[:8] / 5
    values[3, 5:] += np.log(1.05)
    assert compared(values, 5).word[3] == BETTER
    link, run = (axis.reshape(-1) for axis in np.indices(values.shape))
    none = np.zeros(8, dtype=np.int64)
    after = np.arange(10) >= 5
    latency = Samples(values.reshape(-1), link, run, after, none, none, np.ones(8, dtype=bool))
    assert contrast(latency).word[3] == WORSE


def test_a_change_within_the_margin_is_the_same() -> None:
    values = noise("normal", 10, 0)[:64] / 10
    values[3, 5:] += np.log(0.99)
    assert compared(values, 5).word[3] == SAME
    assert compared(values, 5, margin=0.005).word[3] == WORSE


def test_too_few_runs_decide_nothing_and_more_runs_do() -> None:
    found = compared(noise("normal", 4, 0), 2)
    unknown = np.flatnonzero((found.word == UNKNOWN) & (np.abs(found.change) < 0.01))
    needed = int(np.median(found.runs_needed[unknown]))
    assert needed > 0
    more = compared(noise("normal", 2 * (2 + needed), 0), 2 + needed)
    assert (more.word[unknown] == SAME).mean() > 0.5


def test_what_is_decided_needs_no_more_runs() -> None:
    found = compared(noise("normal", 10, 0), 5)
    assert set(found.runs_needed[found.word != UNKNOWN].tolist()) == {0}


def test_with_one_run_a_side_the_spread_between_the_links_decides() -> None:
    values = np.random.default_rng(0).normal(0, 0.003, (LINKS, 2))
    values[7, 1] += DROP
    assert np.flatnonzero(compared(values, 1).word >= BETTER).tolist() == [7]


@pytest.mark.parametrize("links", [6, 19, 20, 100])
def test_a_link_at_half_its_rate_is_seen_in_one_run(links: int) -> None:
    values = np.random.default_rng(0).normal(0, 0.001, (links, 2))
    values[3, 1] += np.log(0.5)
    assert np.flatnonzero(compared(values, 1).word >= BETTER).tolist() == [3]


def test_one_run_of_three_links_decides_nothing() -> None:
    values = np.zeros((3, 2))
    values[1, 1] = DROP
    found = compared(values, 1)
    assert found.word.tolist() == [UNKNOWN] * 3 and found.runs_needed.tolist() == [-1] * 3


def test_a_link_that_one_side_lacks_is_not_compared() -> None:
    values = noise("normal", 6, 0)
    values[5, 3:] = np.nan
    found = compared(values, 3)
    assert np.flatnonzero(~found.compared).tolist() == [5] and found.word[5] == UNKNOWN


def test_links_that_jump_by_chance_are_not_accused() -> None:
    # Each with its own share of runs in the lower mode: some are there in all three runs after.
    random = np.random.default_rng(0)
    low = random.random((LINKS, 6)) < random.beta(0.5, 2, (LINKS, 1))
    values = random.normal(0, 0.002, low.shape) + DROP * low
    assert (low[:, 3:].all(axis=1) & ~low[:, :3].any(axis=1)).any()
    assert not (compared(values, 3).word >= BETTER).any()


def test_where_every_link_moved_somewhat_none_is_accused_of_that() -> None:
    # Each by 1 % of its own, more than its runs say: cables were moved.
    values = noise("normal", 10, 0) / 5
    values[:, 5:] += np.random.default_rng(1).normal(0, 0.01, (LINKS, 1))
    assert not (compared(values, 5).word >= BETTER).any()


def test_links_that_share_switches_can_be_judged_more_strictly() -> None:
    values = noise("normal", 6, 0)
    values[:40, 3:] += DROP
    loose, strict = (compared(values, 3, dependent=d) for d in (False, True))
    assert (strict.word == WORSE).sum() < (loose.word == WORSE).sum()


def test_the_interval_covers_the_true_change_as_often_as_it_says() -> None:
    covered = []
    for seed in range(20):
        low, high = compared(noise("normal", 10, seed), 5).interval()
        covered.append(((low < 0) & (high > 0)).mean())
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_each_class_has_a_margin_of_its_own() -> None:
    """Two classes with a loss of 1.5 %: within the margin of one, and not of the other."""
    values = np.random.default_rng(3).normal(0, 0.001, (16, 10))
    values[[3, 11], 5:] += np.log1p(-0.015)
    link, run = (axis.reshape(-1) for axis in np.indices(values.shape))
    of_class = np.repeat([0, 1], 8)
    samples = Samples(
        values.reshape(-1), link, run, np.arange(10) >= 5, of_class, of_class, np.zeros(16, bool)
    )
    result = contrast(samples, np.where(of_class == 0, 0.02, 0.005))
    assert [int(result.word[place]) for place in (3, 11)] == [SAME, WORSE]
