"""A campaign against an earlier one, as `railgauge accept --compare` asks for: what is a finding.

Nothing here is judged by a bound: `before_after.py` says of each place whether it is worse than it
was, beside what all places of its condition changed by.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from railgauge import hostlist
from railgauge.campaign import folder
from railgauge.campaign.folder import PLAN, Campaign
from railgauge.campaign.inventories import in_campaign
from railgauge.errors import RailgaugeError
from railgauge.model import record
from railgauge.model.record import Rates
from railgauge.node import retest
from railgauge.verdict import before_after, compare, table
from railgauge.verdict.answer import Finding
from railgauge.verdict.before_after import Comparison
from railgauge.verdict.compare import Case
from railgauge.verdict.drift import drift
from railgauge.verdict.provenance import Notice

#: So many places, or changes of the nodes, are named.
_NAMED = 4


def rates(campaign: Campaign) -> Rates:
    """What went at each place of a campaign by its client's devices, the median of its runs: what
    the conductor of a later sweep holds its own against.
    """
    # Unlike a unique name, that of people is the same where other nodes are measured.
    names = {p.unique_name: p.case for p in record.read_plan(campaign.folder / PLAN) or ()}
    found: dict[tuple[str, str, str], list[float]] = {}
    for case in compare.read(campaign):
        for call in case.calls if not case.like and case.place else ():
            facts = case.facts.get(call.host, {})
            if call.role == "client" and call.exit_code == 0:
                line = {"call": {"seconds": call.seconds}, "facts": facts}
                rate = retest.rate_gbits(line)
                if rate:
                    key = names[case.unique_name], case.partition, case.place
                    found.setdefault(key, []).append(rate)
    by_case: Rates = {}
    for (name, partition, place), several in found.items():
        places = by_case.setdefault(name, {}).setdefault(partition, {})
        places[place] = statistics.median(several)
    return by_case


def against(
    campaign: Campaign, cases: Sequence[Case], margins: Mapping[str, float]
) -> tuple[list[Finding], list[Notice]]:
    """What `cases` of a campaign changed by since the one that it is compared with, and what has
    changed on its nodes. `margins` are by partition.
    """
    name = campaign.compared_with or ""
    try:
        other = folder.load(name)
        compared = _compared(campaign, cases, other, margins)
    except RailgaugeError as error:
        message = f"not compared with campaign {name}: {error.message}"
        step = error.next_step or ""
        return [Finding("inconclusive", "not-compared", message, next_step=step)], []
    findings = [
        *_worse(compared, campaign, other),
        *_shifts(compared, other),
        *_untold(compared, other),
        *_missing(compared, other),
    ]
    return findings, [*_summary(compared, other), *_changed(campaign, other)]


def _compared(
    campaign: Campaign, cases: Sequence[Case], other: Campaign, margins: Mapping[str, float]
) -> Comparison:
    known = table.read(other, before_after.TABLE_COLUMNS)
    now = table.made_of(cases).select(before_after.TABLE_COLUMNS)
    # Of other nodes than these nobody asks.
    nodes = [node for members in campaign.scope.nodes.values() for node in members]
    here = pl.col("nodes").str.split(",").list.eval(pl.element().is_in(nodes)).list.all()
    before = before_after.of_tables([known.filter(here)], margins)
    return before_after.compare(before, before_after.of_tables([now], margins))


def _worse(compared: Comparison, campaign: Campaign, other: Campaign) -> Iterator[Finding]:
    worse = compared.places.filter(pl.col("verdict") == "worse")
    for row in worse.iter_rows(named=True):
        yield Finding(
            "reject",
            "worse",
            f"{row['condition']}: {row['before']:.4g} to {row['after']:.4g}, "
            f"{row['change']:+.1%} ({row['low']:+.1%} to {row['high']:+.1%}) beside what all "
            f"places changed by, since {other.id}",
            check=row["family"],
            partition=row["partition"],
            nodes=tuple(row["nodes"].split(",")),
            place=row["place"],
            evidence=str(campaign.folder),
            next_step="look at the link's rate and errors, and at what changed on its nodes: "
            f"railgauge compare {other.id} {campaign.id}",
        )


def _shifts(compared: Comparison, other: Campaign) -> Iterator[Finding]:
    for one in compared.classes:
        if one.shift and one.shift["verdict"] == "worse":
            low, high = one.shift["interval"]
            yield Finding(
                "reject",
                "worse",
                f"all {one.shift['places']} places of {one.name}: {one.shift['change']:+.1%} "
                f"({low:+.1%} to {high:+.1%}) since {other.id}: a common shift, which no node or "
                "link explains",
                partition=one.partition,
                next_step="what changed on all nodes, or on the switches?",
            )
        elif one.shift and one.decides and one.shift["verdict"] == "unknown":
            low, high = one.shift["interval"]
            yield Finding(
                "inconclusive",
                "cannot-tell",
                f"all places of {one.name}: {one.shift['change']:+.1%} ({low:+.1%} to {high:+.1%}) "
                f"since {other.id}: nobody can tell whether all are as they were",
                partition=one.partition,
                next_step=f"measure more often: railgauge accept --compare {other.id} --runs 5",
            )


def _untold(compared: Comparison, other: Campaign) -> Iterator[Finding]:
    unknown = compared.places.filter((pl.col("verdict") == "unknown") & pl.col("decides"))
    if unknown.is_empty():
        return
    needed = unknown["runs_needed"].drop_nulls().median()
    runs = f" --runs {int(needed) + 1}" if isinstance(needed, (int, float)) else ""
    yield Finding(
        "inconclusive",
        "cannot-tell",
        f"of {unknown.height} of {compared.places.height} places under a condition nobody can tell "
        f"whether they are as in {other.id}",
        next_step=f"measure more often: railgauge accept --compare {other.id}{runs}",
    )


def _missing(compared: Comparison, other: Campaign) -> Iterator[Finding]:
    for side, when in (("before", f"in {other.id}"), ("after", "now")):
        places = compared.missing.filter(pl.col("side") == side)["place"].unique().sort().to_list()
        if places:
            more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
            yield Finding(
                "inconclusive",
                "missing",
                f"{', '.join(places[:_NAMED])}{more}: no number {when} to compare",
            )


def _summary(compared: Comparison, other: Campaign) -> Iterator[Notice]:
    counts = compared.places["verdict"].value_counts(sort=True).rows()
    told = ", ".join(f"{count} {word}" for word, count in counts)
    finds = [one.finds for one in compared.classes if one.finds is not None]
    power = f"; it finds a loss of {min(finds):.1%} on one place with 99 %" if finds else ""
    yield Notice("compared", f"compared with {other.id}: {told}{power}")


def _changed(campaign: Campaign, other: Campaign) -> Iterator[Notice]:
    changes = drift(in_campaign(other), in_campaign(campaign))
    for one in changes[:_NAMED]:
        where = "all nodes" if not one.others else hostlist.fold(one.nodes)
        yield Notice("changed", f"since {other.id} changed on {where}: {one.change}")
    if len(changes) > _NAMED:
        step = f"railgauge compare {other.id} {campaign.id}"
        yield Notice("changed", f"and {len(changes) - _NAMED} more changes: {step}")
