"""Figures of before and after: what it costs, what it finds, and how often it is wrong.

The noise is made up, and said with each figure; rank tests and Welch's are of the same data.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import special, stats

from railgauge import paths
from railgauge.verdict.comparison import link_changes, measurement_table, power
from railgauge.verdict.comparison.link_changes import BETTER, WORSE, Samples
from railgauge.verdict.comparison.significance import Floats, benjamini_hochberg
from railgauge.verdict.comparison.smallest_loss import POWER
from tests.unit import measured

LINKS = 4608
LEAF = 64
DROP = float(np.log(0.92))
SIZES = [2**power for power in range(1, 23)]

#: How far the noise of links differs: the standard deviation of its logarithm.
VARYING = 0.25


def _noise(kind: str, runs: int, random: np.random.Generator) -> Floats:
    """1 % a run, links by runs."""
    sd = 0.01 * np.exp(random.normal(0, VARYING, (LINKS, 1)))
    shape = (LINKS, runs)
    normal: Floats = sd * random.standard_normal(shape)
    if kind == "heavy-tailed":
        return sd * random.standard_t(3, shape) / np.sqrt(3)
    if kind == "drifting":
        of_all = np.cumsum(random.normal(0, 0.003, runs))
        return normal + of_all + np.cumsum(random.normal(0, 0.005, shape), axis=1)
    if kind == "bimodal, 10 % of runs":
        return normal + DROP * (random.random(shape) < 0.1)
    if kind == "bimodal, 30 % of runs":
        return normal + DROP * (random.random(shape) < 0.3)
    if kind == "correlated by leaf":
        of_leaf = random.normal(0, 0.01, (LINKS // LEAF, runs))
        return 0.7 * normal + np.repeat(of_leaf, LEAF, axis=0)
    assert kind == "normal"
    return normal


KINDS = (
    *("normal", "heavy-tailed", "drifting", "bimodal, 10 % of runs", "bimodal, 30 % of runs"),
    "correlated by leaf",
)


def _compared(values: Floats, before: int, margin: float) -> link_changes.Contrast:
    link, run = (axis.reshape(-1) for axis in np.indices(values.shape))
    none = np.zeros(len(values), dtype=np.int64)
    after = np.arange(values.shape[1]) >= before
    samples = Samples(values.reshape(-1), link, run, after, none, none, none.astype(bool))
    return link_changes.contrast(samples, margin)


def finds(campaigns: int = 12) -> None:
    """Eight links of all are 8 % slower."""
    random = np.random.default_rng(0)
    for kind, runs in (("normal", 3), ("normal", 5), ("heavy-tailed", 3), ("heavy-tailed", 5)):
        found: dict[str, list[float]] = {}
        for _ in range(campaigns):
            values = _noise(kind, 2 * runs, random)
            bad = random.choice(LINKS, 8, replace=False)
            values[bad, runs:] += DROP
            before, after = values[:, :runs], values[:, runs:]
            for margin in (0.0, link_changes.MARGIN):
                named = _compared(values, runs, margin).word[bad] == WORSE
                found.setdefault(f"margin {margin:.0%}", []).append(float(named.mean()))
            for name, p in (
                ("Welch", stats.ttest_ind(after, before, axis=1, equal_var=False).pvalue),
                ("Mann-Whitney", stats.mannwhitneyu(after, before, axis=1).pvalue),
            ):
                called = benjamini_hochberg(np.asarray(p)) <= link_changes.FALSE_DISCOVERIES
                found.setdefault(name, []).append(float(called[bad].mean()))
        told = ", ".join(f"{name} {np.mean(shares):.2f}" for name, shares in found.items())
        print(f"found of 8 bad links, {kind}, n={runs}, {campaigns} campaigns: {told}")


def wrong(campaigns: int = 25) -> None:
    """Nothing changed."""
    random = np.random.default_rng(1)
    for kind in KINDS:
        for before, after in ((1, 1), (5, 1), (3, 3), (5, 5)):
            ours, shifts, fixed = [], [], []
            for _ in range(campaigns):
                values = _noise(kind, before + after, random)
                found = _compared(values, before, link_changes.MARGIN)
                ours.append(int((found.word >= BETTER).sum()))
                shifts += [shift.word >= BETTER for shift in found.shifts]
                change = values[:, before:].mean(axis=1) - values[:, :before].mean(axis=1)
                fixed.append(int((np.abs(change) > 0.05).sum()))
            print(
                f"false findings a campaign, {kind}, {before} against {after}: links "
                f"{np.mean(ours):.3f}, shifts {np.mean(shifts):.3f}, fixed 5 % "
                f"{np.mean(fixed):.1f} ({campaigns} campaigns)"
            )


#: Healthy links of 0.01 Gb/s of the lab next to a busy core, Iperf2Pair of four streams for 8 s, as
#: tests/lab/test_before_after.py measured them on 2026-11-27: so many kb/s of 9,853, and how often.
_OF_LAB = {
    **{9801: 1, 9803: 1, 9804: 1, 9805: 1, 9818: 2, 9824: 1, 9825: 3, 9826: 1, 9829: 1, 9831: 1},
    **{9832: 1, 9834: 1, 9835: 1, 9838: 2, 9840: 1, 9842: 1, 9843: 2, 9845: 3, 9847: 1, 9848: 8},
    **{9849: 4, 9850: 1, 9851: 4, 9852: 7, 9853: 11, 9854: 4, 9855: 2, 9858: 1, 9867: 1, 9869: 1},
}


def few(campaigns: int = 1000) -> None:
    """Of eight links two are 5 % slower."""
    random = np.random.default_rng(5)
    noise = np.log(np.repeat([*_OF_LAB], [*_OF_LAB.values()]) / 9853)
    for scale in (1, 2):
        for before, after in ((1, 1), (2, 2), (3, 3), (5, 1)):
            told = 0
            for _ in range(campaigns):
                values = scale * random.choice(noise, (8, before + after))
                values[:2, before:] += np.log(0.95)
                words = _compared(values, before, link_changes.MARGIN).word
                told += words.tolist() == [WORSE] * 2 + [link_changes.SAME] * 6
            print(
                f"2 of 8 links lose 5 %, {scale} x the lab's noise, {before} against {after}: "
                f"they are worse and all others the same in {told} of {campaigns} campaigns"
            )


def smallest(campaigns: int = 20) -> None:
    """The loss that is found with 99 % at 1/1000 one-sided without a margin, 1 % noise."""
    random = np.random.default_rng(2)
    for baseline in (10, 50):
        needed = []
        for _ in range(campaigns):
            found = _compared(random.normal(0, 0.01, (LINKS, baseline + 10)), baseline, 0.0)
            critical = special.stdtrit(found.df, 1 - 0.001)
            needed.append(critical * found.se + found.change)
        loss = -np.expm1(-np.quantile(np.concatenate(needed), POWER))
        print(f"smallest loss found with 99 % at 1/1000, 10 runs against {baseline}: {loss:.2%}")


def claimed(trials: int = 1000) -> None:
    """What `railgauge power` says, against losses put into as much noise."""
    random = np.random.default_rng(3)
    for runs in (3, 5):
        loss = power.planned(0.01, runs, runs, LINKS).link
        assert loss is not None
        for factor in (1.0, 0.8):
            found = []
            while len(found) < trials:
                values = random.normal(0, 0.01, (LINKS, 2 * runs))
                quiet = _compared(values, runs, link_changes.MARGIN)
                # Every hundredth link alone: its change is the noise's and the loss.
                several = np.arange(0, LINKS, 100)
                p = special.stdtr(
                    quiet.df[several],
                    -((-np.log1p(-factor * loss) - quiet.change[several]) - np.log1p(0.02))
                    / quiet.se[several],
                )
                found += (p <= link_changes.FALSE_DISCOVERIES / LINKS).tolist()
            print(
                f"a loss of {factor:.1f} x {loss:.2%} on one of {LINKS} links, {runs} runs against "
                f"{runs}: found {np.mean(found):.3f} of {len(found)}"
            )


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float
    mib: float


def cost(*command: str, results: Path) -> Cost:
    """Of a command of Railgauge's; its exit code may be that of a verdict."""
    began = time.monotonic()
    process = subprocess.Popen(
        [str(paths.HOME / "bin/railgauge"), *command],
        stdout=subprocess.DEVNULL,
        env={
            **os.environ,
            "RAILGAUGE_RESULTS": str(results),
            "RAILGAUGE_REFERENCES": str(results),
        },
    )
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1, 2)
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def campaigns(root: Path, many: int) -> list[str]:
    """Campaigns of 4,608 links under 22 sizes each, as their tables; their ids."""
    random = np.random.default_rng(4)
    rows = LINKS * len(SIZES)
    rails = [f"n{n // 8 + 1}:n{n // 8 + 2}:{n % 8}-{n % 8}" for n in range(LINKS)]
    ids = []
    for number in range(many):
        campaign = measured.leave(root, number, {rails[0]: 390.0})
        row = measurement_table.read(campaign).row(0, named=True)
        columns = {
            name: pl.repeat(value, rows, dtype=measurement_table.SCHEMA[name], eager=True)
            for name, value in row.items()
        }
        conditions = [f"RdmaBandwidth ns: bandwidth {size} B, write, roce" for size in SIZES]
        columns["place"] = pl.Series(np.repeat(rails, len(SIZES)))
        columns["size_bytes"] = pl.Series(np.tile(SIZES, LINKS))
        columns["condition"] = columns["peers"] = pl.Series(np.tile(conditions, LINKS))
        columns["value"] = pl.Series(385 * np.exp(random.normal(0, 0.005, rows)))
        columns["share"] = columns["value"] / 392
        made = pl.DataFrame(columns).select(*measurement_table.SCHEMA)
        made.write_parquet(campaign.folder / measurement_table.FILE)
        ids.append(campaign.id)
    return ids


def _print(what: str, costs: list[Cost]) -> None:
    for name, unit in (("wall_s", "s"), ("cpu_s", "s of CPU"), ("mib", "MiB")):
        values = [getattr(one, name) for one in costs]
        print(
            f"{what}: {statistics.median(values):.2f} {unit} "
            f"({min(values):.2f} to {max(values):.2f}, n={len(values)})"
        )


def _repeat(action: Callable[[], Cost], times: int = 5) -> list[Cost]:
    return [action() for _ in range(times)]


def compare(area: Path) -> None:
    ids = campaigns(area, 10)
    sides = ",".join(ids[:5]), ",".join(ids[5:])
    what = f"compare, {10 * LINKS * len(SIZES):,} measurements"
    _print(what, _repeat(lambda: cost("compare", *sides, results=area)))
    finds()
    few()
    wrong()


def promote(area: Path) -> None:
    ids = campaigns(area, 10)
    what = f"promote, 10 campaigns of {LINKS * len(SIZES):,} measurements"
    _print(what, _repeat(lambda: cost("promote", *ids, results=area)))
