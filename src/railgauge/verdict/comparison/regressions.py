"""The findings of a campaign compared with an earlier one (`railgauge accept --compare`).

Nothing here is judged by a bound: `before_after.py` says of each place whether it is worse than it
was, besides what all places of its condition changed by.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from railgauge import hostlist
from railgauge.campaign import folder
from railgauge.campaign.folder import PLAN, Campaign
from railgauge.campaign.inventories import in_campaign
from railgauge.common.errors import RailgaugeError
from railgauge.model import record
from railgauge.model.record import Rates
from railgauge.node.orchestration import interface_rate
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.cases import read as read_cases
from railgauge.verdict.campaign.finding import Finding
from railgauge.verdict.campaign.tool_builds import Notice
from railgauge.verdict.comparison import before_after, measurement_table
from railgauge.verdict.comparison.before_after import Comparison
from railgauge.verdict.comparison.inventory_drift import drift

#: The most places, or changes of the nodes, that are named.
_NAMED = 4


def rates(campaign: Campaign) -> Rates:
    """The rate of each place of a campaign, by its sides' devices, as the median of its runs. The
    conductor of a later sweep compares its own with it.
    """
    # Unlike a unique name, a case's name is the same where other nodes are measured.
    plan = record.read_plan(campaign.folder / PLAN) or ()
    case_names = {planned.unique_name: planned.case for planned in plan}
    # Of one kind, as the conductor compares them: under one condition, on one kind of way.
    of_run: dict[tuple[object, ...], dict[str, dict[str, interface_rate.InterfaceRate]]] = {}
    for case in read_cases(campaign):
        if case.repeats or not case.place:
            continue
        sides = {}
        for call in case.calls:
            line = {"call": {"seconds": call.seconds}, "facts": case.facts.get(call.host, {})}
            side = interface_rate.carried(line) if call.exit_code == 0 else None
            if side is not None and side.mean_gbits and call.role in ("server", "client"):
                sides[call.role] = side
        if "client" in sides:
            ways = tuple({row.measurement.within: None for row in case.rows})
            case_name = case_names[case.unique_name]
            key = case_name, case.partition, case.run, case.condition, ways
            of_run.setdefault(key, {})[case.place] = sides
    by_place: dict[tuple[str, str, str], list[float]] = {}
    for kind, places in of_run.items():
        name, partition = str(kind[0]), str(kind[1])
        for place, rate in interface_rate.rates(places).items():
            by_place.setdefault((name, partition, place), []).append(rate)
    by_case: Rates = {}
    for (name, partition, place), runs in by_place.items():
        of_partition = by_case.setdefault(name, {}).setdefault(partition, {})
        of_partition[place] = statistics.median(runs)
    return by_case


def against(
    campaign: Campaign, cases: Sequence[Case], margins: Mapping[str, float]
) -> tuple[list[Finding], list[Notice]]:
    """The findings of `cases` against the campaign that this one is compared with, and notices of
    what has changed on the nodes. `margins` are by partition.
    """
    name = campaign.compared_with or ""
    try:
        earlier = folder.load(name)
        comparison = _comparison(campaign, cases, earlier, margins)
    except RailgaugeError as error:
        message = f"not compared with campaign {name}: {error.message}"
        next_step = error.next_step or ""
        return [Finding("inconclusive", "not-compared", message, next_step=next_step)], []
    findings = [
        *_worse(comparison, campaign, earlier),
        *_shifts(comparison, earlier),
        *_undecided(comparison, earlier),
        *_missing(comparison, earlier),
    ]
    return findings, [*_summary(comparison, earlier), *_changed(campaign, earlier)]


def _comparison(
    campaign: Campaign, cases: Sequence[Case], earlier: Campaign, margins: Mapping[str, float]
) -> Comparison:
    before_table = measurement_table.read(earlier, before_after.TABLE_COLUMNS)
    after_table = measurement_table.made_of(cases).select(before_after.TABLE_COLUMNS)
    # The earlier one may have measured more nodes.
    nodes = [node for members in campaign.scope.nodes.values() for node in members]
    of_these_nodes = pl.col("nodes").str.split(",").list.eval(pl.element().is_in(nodes)).list.all()
    before = before_after.of_tables([before_table.filter(of_these_nodes)], margins)
    return before_after.compare(before, before_after.of_tables([after_table], margins))


def _worse(compared: Comparison, campaign: Campaign, earlier: Campaign) -> Iterator[Finding]:
    worse = compared.places.filter(pl.col("verdict") == "worse")
    for row in worse.iter_rows(named=True):
        yield Finding(
            "reject",
            "worse",
            f"{row['condition']}: {row['before']:.4g} to {row['after']:.4g}, "
            f"{row['change']:+.1%} ({row['low']:+.1%} to {row['high']:+.1%}) apart from what "
            f"all places changed by, since {earlier.id}",
            check=row["family"],
            partition=row["partition"],
            nodes=tuple(row["nodes"].split(",")),
            place=row["place"],
            evidence=str(campaign.folder),
            next_step="look at the link's rate and errors, and at what changed on its nodes: "
            f"railgauge compare {earlier.id} {campaign.id}",
        )


def _shifts(compared: Comparison, earlier: Campaign) -> Iterator[Finding]:
    for each in compared.classes:
        if each.shift and each.shift["verdict"] == "worse":
            low, high = each.shift["interval"]
            yield Finding(
                "reject",
                "worse",
                f"all {each.shift['places']} places of {each.name}: {each.shift['change']:+.1%} "
                f"({low:+.1%} to {high:+.1%}) since {earlier.id}: a common shift, which no node or "
                "link explains",
                partition=each.partition,
                next_step="what changed on all nodes, or on the switches?",
            )
        elif each.shift and each.decides and each.shift["verdict"] == "unknown":
            low, high = each.shift["interval"]
            yield Finding(
                "inconclusive",
                "cannot-tell",
                f"all places of {each.name}: {each.shift['change']:+.1%} "
                f"({low:+.1%} to {high:+.1%}) since {earlier.id}: cannot tell whether "
                "all are as they were",
                partition=each.partition,
                next_step=f"measure more often: railgauge accept --compare {earlier.id} --runs 5",
            )


def _undecided(compared: Comparison, earlier: Campaign) -> Iterator[Finding]:
    unknown = compared.places.filter((pl.col("verdict") == "unknown") & pl.col("decides"))
    if unknown.is_empty():
        return
    needed = unknown["runs_needed"].drop_nulls().median()
    runs = f" --runs {int(needed) + 1}" if isinstance(needed, (int, float)) else ""
    named = sorted({f"{check} {place}" for check, place in unknown["family", "place"].rows()})
    yield Finding(
        "inconclusive",
        "cannot-tell",
        f"cannot tell whether {unknown.height} of {compared.places.height} places under a "
        f"condition are as in {earlier.id}: {_first(named)}",
        next_step=f"measure more often: railgauge accept --compare {earlier.id}{runs}",
    )


def _first(names: Sequence[str]) -> str:
    """Some of them, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _missing(compared: Comparison, earlier: Campaign) -> Iterator[Finding]:
    for side, when in (("before", f"in {earlier.id}"), ("after", "now")):
        missing = compared.missing.filter(pl.col("side") == side)
        places = missing["place"].unique().sort().to_list()
        if places:
            conditions = missing["condition"].unique().sort().to_list()
            yield Finding(
                "inconclusive",
                "missing",
                f"{_first(places)}: no number {when} to compare under {_first(conditions)}",
            )


def _summary(comparison: Comparison, earlier: Campaign) -> Iterator[Notice]:
    counts = comparison.places["verdict"].value_counts(sort=True).rows()
    counted = ", ".join(f"{count} {word}" for word, count in counts)
    losses = [group.finds for group in comparison.classes if group.finds is not None]
    power = f"; it finds a loss of {min(losses):.1%} on one place with 99 %" if losses else ""
    yield Notice("compared", f"compared with {earlier.id}: {counted}{power}")


def _changed(campaign: Campaign, earlier: Campaign) -> Iterator[Notice]:
    changes = drift(in_campaign(earlier), in_campaign(campaign))
    for change in changes[:_NAMED]:
        where = "all nodes" if not change.others else hostlist.fold(change.nodes)
        yield Notice("changed", f"since {earlier.id} changed on {where}: {change.change}")
    if len(changes) > _NAMED:
        step = f"railgauge compare {earlier.id} {campaign.id}"
        yield Notice("changed", f"and {len(changes) - _NAMED} more changes: {step}")
