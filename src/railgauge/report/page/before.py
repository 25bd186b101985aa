"""Before and after on the page: what changed since an earlier campaign."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from railgauge import systems
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import Campaign
from railgauge.campaign.inventories import in_campaign
from railgauge.common.errors import RailgaugeError
from railgauge.model.measurement import Measurement
from railgauge.report import comparison
from railgauge.report.numbers import number
from railgauge.report.page.content import TableOf, folded, table
from railgauge.report.visible import clean
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.comparison import before_after
from railgauge.verdict.comparison import measurement_table as measured
from railgauge.verdict.comparison.before_after import Class, Comparison
from railgauge.verdict.comparison.inventory_drift import Drift, drift
from railgauge.verdict.decision.verdict import Verdict

#: Places that the page draws and lists: those that moved first.
MOST = 20_000

#: The words in the order in which places are kept.
_WORDS = ("worse", "better", "unknown", "same")

#: What is drawn of a p that is smaller.
_LEAST_P = 1e-15

#: What distinguishes the medians: all of a condition.
_KEY = ("peers", "load", "within")


@dataclasses.dataclass(frozen=True)
class Before:
    """The campaign that this one is compared with, else the last one that was accepted before it,
    and what changed since.

    `medians` has those of its conditions, by `key`.
    """

    campaign: Campaign
    compared: Comparison
    drift: tuple[Drift, ...]
    medians: Mapping[tuple[str | None, ...], float]

    def median(self, case: Case, measurement: Measurement) -> float | None:
        """Of all places under that condition."""
        m = measurement
        return self.medians.get((measured.peers(case, m), m.load, m.within))

    @property
    def answer(self) -> str:
        return comparison.answer(self.compared)


def before(verdict: Verdict) -> Before | str:
    """Against the campaign that it was to be compared with, else the last accepted one before it;
    a text says why there is none. No word of it is a reason for the verdict.
    """
    campaign = verdict.campaign
    if verdict.simulated:
        return "A rehearsal is not compared with anything."
    try:
        earlier = (
            campaigns.load(campaign.compared_with)
            if campaign.compared_with
            else campaigns.last_accepted(campaign.system, before=campaign.id)
        )
        nodes = [node for members in campaign.scope.nodes.values() for node in members]
        ours = pl.col("nodes").str.split(",").list.eval(pl.element().is_in(nodes)).list.all()
        then = measured.read(earlier).filter(ours)
        margins = systems.least_changes(campaign.system)
        compared = before_after.compare(
            before_after.of_tables([then], margins),
            before_after.of_tables([measured.read(campaign)], margins),
        )
        changed = drift(in_campaign(earlier), in_campaign(campaign))
    except RailgaugeError as error:
        return f"No before and after: {error.message}."
    medians = then.group_by(_KEY).agg(pl.col("value").median())
    return Before(
        earlier, compared, tuple(changed), {row[:-1]: row[-1] for row in medians.iter_rows()}
    )


def classes(compared: Comparison) -> TableOf:
    """A line a condition: medians, what all changed by, how many came to which word."""
    rows = [
        (
            one.name,
            number(one.before),
            f"{number(one.after)} {one.unit.removeprefix('1')}".rstrip(),
            _shift(one),
            *(str(one.words[word]) for word in ("worse", "better", "same", "unknown")),
            "-" if one.finds is None else f"{one.finds:.1%}",
        )
        for one in sorted(compared.classes, key=lambda one: (one.word != "worse", one.name))
    ]
    columns = (
        *("condition", "before", "after", "shift of all"),
        *("worse", "better", "same", "cannot tell", "finds"),
    )
    return table("Before and after, by condition", columns, rows, (1, 2, 3, 4, 5, 6, 7, 8))


def _shift(one: Class) -> str:
    if one.shift is None:
        return "-"
    low, high = one.shift["interval"]
    return f"{one.shift['change']:+.1%} ({low:+.1%} to {high:+.1%})"


def missing(compared: Comparison) -> TableOf:
    """Places without a number that counts on one side: not measured, or not vouched for."""
    rows = [
        (row["side"], row["place"], row["condition"])
        for row in compared.missing.sort("side", "condition", "place").iter_rows(named=True)
    ]
    return table("Without a number on one side", ("lacks it", "place", "condition"), rows)


def changed(drift: Sequence[Drift]) -> TableOf:
    """A line a field of firmware and tuning that is not as it was."""
    rows = [
        (one.change.key, str(one.change), str(len(one.nodes)), folded(one.nodes)) for one in drift
    ]
    return table("Changed on the nodes since", ("field", "change", "nodes", "which"), rows, (2,))


def as_columns(compared: Comparison) -> dict[str, Any]:
    """Places in columns: condition, place, change (a share), p, before, after, word."""
    order = pl.col("verdict").replace_strict({word: at for at, word in enumerate(_WORDS)})
    ordered = compared.places.sort(order, pl.col("change").abs() * -1).head(MOST)
    conditions: dict[str, int] = {}
    places: dict[str, int] = {}
    rows: list[tuple[Any, ...]] = []
    for row in ordered.iter_rows(named=True):
        p = row["p"]
        rows.append(
            (
                conditions.setdefault(row["condition"], len(conditions)),
                places.setdefault(row["place"], len(places)),
                _short(row["change"]),
                None if p is None else _short(-math.log10(max(p, _LEAST_P))),
                _short(row["before"]),
                _short(row["after"]),
                _WORDS.index(row["verdict"]),
            )
        )
    return {
        "words": list(_WORDS),
        "margins": compared.margins,
        "conditions": [clean(text) for text in conditions],
        "places": [clean(text) for text in places],
        "rows": [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(7)],
        "left_out": compared.places.height - len(rows),
        # With one run of few places a side nothing is known of the spread: there is no plot.
        "drawn": any(row[3] is not None for row in rows),
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")
