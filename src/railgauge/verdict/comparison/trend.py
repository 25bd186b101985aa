"""A condition over many campaigns: where it declines slowly, before a bound is crossed.

Of each place the logarithm next to the median of its peers in the same campaign, and of all places
that median: whether it has a trend by the test of Mann and Kendall (H. B. Mann, Econometrica 13
(1945) 245; M. G. Kendall, Rank Correlation Methods, 1975), and how steep by the slope of Theil and
Sen (P. K. Sen, J. Am. Stat. Assoc. 63 (1968) 1379), the median of all pairs' slopes. Neither needs
normal noise; a single bad campaign changes neither.

Campaigns with another warm-up, with other settings of NCCL, or with a version of the tool that is
known to change its numbers are a series of their own. Other changes of the version are marked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import scipy

from railgauge.campaign.folder import Campaign
from railgauge.verdict.comparison import before_after
from railgauge.verdict.comparison.link_changes import FALSE_DISCOVERIES, LEAST_LINKS
from railgauge.verdict.comparison.significance import Floats, benjamini_hochberg

#: Of fewer campaigns the normal approximation of Kendall's S is none.
LEAST_CAMPAIGNS = 8

#: The smallest decline over all campaigns that is a finding, as a share: before any bound is
#: crossed, which are 2 % away at least.
MARGIN = 0.01


@dataclasses.dataclass(frozen=True)
class Point:
    """A campaign: the median of a condition's places, how many, the nodes with another fingerprint
    than in the campaign before, and the versions that the tool printed of itself.
    """

    campaign: str
    median: float
    places: int
    changed: tuple[str, ...]
    versions: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Decline:
    """A place that gets worse from campaign to campaign, against its peers ("" for all of them): by
    what share from the first to the last of `campaigns`.
    """

    place: str
    change: float
    p: float
    campaigns: int


@dataclasses.dataclass(frozen=True)
class Trend:
    condition: str
    unit: str
    points: tuple[Point, ...]
    declines: tuple[Decline, ...]


def mann_kendall(values: Floats) -> tuple[Floats, Floats]:
    """Two-sided p and Theil's and Sen's slope a step, of each row; NaN are steps without a value.

    S is the number of pairs that rise less those that fall; without ties its variance is
    n(n-1)(2n+5)/18, which ties only make smaller.
    """
    first, second = np.triu_indices(values.shape[1], 1)
    rise = values[:, second] - values[:, first]
    s = np.nansum(np.sign(rise), axis=1)
    n = np.isfinite(values).sum(axis=1)
    variance = n * (n - 1) * (2 * n + 5) / 18
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(s == 0, 0, np.abs(s) - 1) / np.sqrt(variance)
    p = np.where(n >= LEAST_CAMPAIGNS, 2 * scipy.special.ndtr(-z), np.nan)
    slope = np.full(values.shape[0], np.nan)
    enough = n >= 2
    slope[enough] = np.nanmedian(rise[enough] / (second - first), axis=1)
    return p, slope


def trends(
    measured: Sequence[tuple[Campaign, pl.DataFrame]],
    check: str,
    node: str | None = None,
    margin: float = MARGIN,
) -> list[Trend]:
    """Of every condition of a check, over campaigns from the oldest to the newest; of a node only
    its places are named.
    """
    sides = [
        before_after.of_tables([frame.filter(pl.col("check") == check)], {}).with_columns(
            campaign=pl.lit(number, dtype=pl.Int64)
        )
        for number, (_, frame) in enumerate(measured)
    ]
    values = _by_settings(before_after.by_tool(pl.concat(sides).filter(pl.col("value") > 0)))
    changed = _changed([campaign for campaign, _ in measured])
    return [
        _trend(str(name), of_class, measured, changed, node, margin)
        for (name,), of_class in values.sort("of_class").group_by("of_class", maintain_order=True)
    ]


def _by_settings(values: pl.DataFrame) -> pl.DataFrame:
    """Name the settings of NCCL in conditions that were measured with several of them."""
    several = pl.col("settings").drop_nulls().n_unique().over("of_class") > 1
    named = pl.when(several).then(pl.format(", with {}", pl.col("settings")))
    return values.with_columns(of_class=pl.concat_str("of_class", named.fill_null("")))


def _changed(campaigns: Sequence[Campaign]) -> list[tuple[str, ...]]:
    """Of each campaign the nodes with another fingerprint than when they were last seen."""
    last: dict[str, str] = {}
    changed = []
    for campaign in campaigns:
        now: Mapping[str, str] = campaign.fingerprints
        changed.append(tuple(n for n, fp in sorted(now.items()) if last.get(n, fp) != fp))
        last.update(now)
    return changed


def _trend(
    name: str,
    of_class: pl.DataFrame,
    measured: Sequence[tuple[Campaign, pl.DataFrame]],
    changed: Sequence[tuple[str, ...]],
    node: str | None,
    margin: float,
) -> Trend:
    medians = of_class.group_by("place", "campaign").agg(
        pl.median("value").log(), pl.first("nodes")
    )
    wide = medians.pivot("campaign", index=["place", "nodes"], values="value").sort("place")
    numbers = sorted(int(column) for column in wide.columns[2:])
    values = wide.select(str(number) for number in numbers).to_numpy().astype(float)
    common = np.nanmedian(values, axis=0)
    versions = {
        number: tuple(sorted(filter(None, of_campaign)))
        for number, of_campaign in of_class.group_by("campaign")
        .agg(pl.col("version").unique())
        .iter_rows()
    }
    points = tuple(
        Point(
            measured[number][0].id,
            float(np.exp(common[index])),
            int(np.isfinite(values[:, index]).sum()),
            changed[number],
            versions[number],
        )
        for index, number in enumerate(numbers)
    )
    has_peers = values.shape[0] >= LEAST_LINKS
    own = values - common if has_peers else values
    names = [""] * has_peers + wide["place"].to_list()
    rows = np.vstack([common[np.newaxis], own]) if has_peers else own
    nodes = [[]] * has_peers + [text.split(",") for text in wide["nodes"]]
    less = bool(of_class["less"][0])
    declines = tuple(
        decline
        for decline, at in _declines(rows, names, less, margin)
        if node is None or not names[at] or node in nodes[at]
    )
    return Trend(name, str(of_class["unit"][0]), points, declines)


def _declines(
    rows: Floats, names: Sequence[str], less: bool, margin: float
) -> Iterator[tuple[Decline, int]]:
    # All pairs of campaigns of many places at once would take much memory.
    parts = np.array_split(rows, 1 + rows.size * rows.shape[1] // 2**24)
    p, slope = (np.concatenate(both) for both in zip(*map(mann_kendall, parts), strict=True))
    tested = np.flatnonzero(np.isfinite(p))
    if not tested.size:
        return
    adjusted = benjamini_hochberg(p[tested])
    for at, q in zip(tested, adjusted, strict=True):
        present = np.flatnonzero(np.isfinite(rows[at]))
        total = float(np.expm1(slope[at] * (present[-1] - present[0])))
        worse = total if less else -total
        if q <= FALSE_DISCOVERIES and worse >= margin:
            yield Decline(names[int(at)], total, float(p[at]), int(present.size)), int(at)
