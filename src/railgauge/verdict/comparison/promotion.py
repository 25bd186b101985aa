"""Baselines out of campaigns: the numbers that a system is to keep, with bounds by their spread.

The value of a condition is the median over its places of each place's median over the runs. Its
bound on the worse side is SIGMAS robust standard deviations of one measurement away, by how places
differ and how the runs of a place do, and never nearer than LEAST_TOLERANCE. It is farther away
where the runs have more of a tail: all bounds together are tried against these runs, and reject
MOST_REJECTED of healthy campaigns at most (`healthy`). A number far beyond the noise widens none:
its condition is left out.

What looks wrong is refused, and then nothing is proposed: the next campaigns would be judged by it.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from railgauge import hostlist
from railgauge.campaign.folder import Campaign
from railgauge.common.errors import RailgaugeError
from railgauge.common.spread import NORMAL
from railgauge.model import references
from railgauge.model.limits import TOLERANCE
from railgauge.model.measurement import BY_CHANCE, COUNTS, METRICS, STANDS_OUT
from railgauge.model.references import Entry
from railgauge.tools.common import version
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.outliers import LOOSELY, Better, outlying
from railgauge.verdict.comparison import false_rejections, measurement_table

#: How many standard deviations of one measurement the bound is away.
SIGMAS = 4.0

#: No bound is nearer than this share of the value; nor, if all runs are of one campaign, than the
#: second: they share a moment, and do not show how campaigns differ. (In a lab on a busy host one
#: campaign had 2.2 % less at one pair than the runs of another.)
LEAST_TOLERANCE, LEAST_OF_ONE_CAMPAIGN = 0.02, 0.03

#: A bound that lets a number be ten times worse bounds nothing. It is a difference of logarithms.
_MOST_SPREAD = math.log(10)

#: A number that is this much worse than the value, and beyond the usual noise, may be of a bad
#: place: its condition has no bound. It is a difference of logarithms, as the verdict has it for
#: numbers that are not comparable.
_STANDS_OUT = math.log1p(STANDS_OUT * LOOSELY * Case.peer_spread)

#: A rate that is the same at all good places has no bound so far below: its places differ,
#: and what is stored would let a bad link pass.
_MOST_BELOW = 0.3

#: A condition has at least so many runs, and measurements in all.
LEAST_RUNS = 3
LEAST_SAMPLES = 10

#: A bound has three digits: what the fourth one is short of counts for nothing.
_DIGITS = 1e-6

#: How many places, nodes or versions a refusal names.
_NAMED = 4

#: What distinguishes the entries of a file, besides the metric.
_PARTS = (
    *("check", "partition", "operation", "transport", "node_count", "ranks", "streams"),
    *("size_bytes", "own_rails", "nics", "window_bytes", "congestion", "delay_ms"),
    *("load", "within", "warmup"),
)


class PromotionError(RailgaugeError):
    """Campaigns that no baseline is made of, with every reason."""


@dataclasses.dataclass(frozen=True)
class Proposal:
    """Entries of a file of references, each with its metrics, and the conditions that have too few
    samples for one.

    `wider` says which bounds are farther away than the usual noise makes them, and for which
    number. `numbers` have been tried, and `rejected` is the share of healthy campaigns in which
    one of them is out of its bound.
    """

    entries: tuple[Entry, ...]
    left_out: tuple[str, ...]
    wider: tuple[str, ...] = ()
    numbers: int = 0
    rejected: float = 0.0


def propose(measured: Sequence[tuple[Campaign, pl.DataFrame]]) -> Proposal:
    """Of campaigns and their tables; PromotionError with all that speaks against them."""
    table = pl.concat(
        [
            frame.filter(pl.col("gates") & ~pl.col("again")).with_columns(
                campaign=pl.lit(campaign.id), run=pl.format("{}/{}", pl.lit(campaign.id), "run")
            )
            for campaign, frame in measured
        ]
    )
    counted = [name for name, metric in METRICS.items() if metric.unit in COUNTS]
    table = table.filter(~pl.col("metric").is_in([*counted, *BY_CHANCE]))
    campaigns = [campaign for campaign, _ in measured]
    reasons = [*_of_campaigns(campaigns), *_of_results(table), *_of_nodes(campaigns, table)]
    if table.is_empty():
        reasons.append("they have no number that needs a reference")
    reasons += _of_settings(table)
    if not reasons:
        reasons += _of_numbers(table)
    if reasons:
        text = "\n  ".join(dict.fromkeys(reasons))
        raise PromotionError(
            f"no baseline of {', '.join(campaign.id for campaign in campaigns)}:\n  {text}",
            next_step="railgauge verdict CAMPAIGN; then promote those in which all was well",
        )
    return _proposal(campaigns, table)


def lacking(path: Path, system: str, entries: Sequence[Entry]) -> list[str]:
    """What the file will lack with these entries in it: baselines of the other load, without which
    a campaign under that load is not accepted. One load's number says nothing of the other's.
    """
    all_entries = [*references.load(system, path).entries, *entries]
    return [
        f"{check} has no baseline for load {load}, and no campaign that measures it {load} is "
        f"accepted: {references.step_to_record(load)}"
        for partition in dict.fromkeys(entry.partition for entry in entries)
        for check, load in references.missing_loads(all_entries, partition)
    ]


# --- refusals ------------------------------------------------------------------------------------


def _of_campaigns(campaigns: Sequence[Campaign]) -> Iterator[str]:
    systems = dict.fromkeys(campaign.system for campaign in campaigns)
    if len(systems) > 1:
        yield f"several systems: {', '.join(systems)}"
    for campaign in campaigns:
        if campaign.simulated:
            yield f"{campaign.id}: simulated, stand-ins were run"
        if campaign.state != "finished":
            yield f"{campaign.id}: {campaign.state}, expected a finished campaign"
        for what in _held_against(campaign):
            yield f"{campaign.id}: {what}"


def _held_against(campaign: Campaign) -> Iterator[str]:
    """Suspects, and findings that reject, of the verdict that was written."""
    path = campaign.folder / "verdict.json"
    try:
        verdict = json.loads(path.read_text(encoding="utf-8"))
        findings = [f for f in verdict.get("findings", []) if f["weight"] == "reject"]
        suspects = verdict.get("suspects", [])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        yield f"no verdict can be read: {path}"
        return
    if suspects:
        yield f"{len(suspects)} suspect{'s' if len(suspects) > 1 else ''}"
    if findings:
        yield f"{len(findings)} findings that reject, such as: {findings[0].get('message')}"


def _of_results(table: pl.DataFrame) -> Iterator[str]:
    for column, wanted, what in (
        ("simulated", True, "simulated numbers"),
        ("passed", False, "results that failed"),
        ("retried", True, "results of a second try"),
    ):
        bad = table.filter(pl.col(column) == wanted)
        if not bad.is_empty():
            yield f"{what}: {_named(bad['place'].unique(maintain_order=True).to_list())}"
    versions: dict[str, set[str]] = {}
    for tool, of_ends in table.select("tool", "version").unique().iter_rows():
        versions.setdefault(tool, set()).update(of_ends.split(measurement_table.VERSIONS))
    for tool, several in sorted(versions.items()):
        if len(several) > 1:
            yield f"several versions of {tool}: {_named(sorted(several))}"


def _of_nodes(campaigns: Sequence[Campaign], table: pl.DataFrame) -> Iterator[str]:
    """Nodes that differ, among each other or from one campaign to the next."""
    by_partition = table.select("partition", "nodes").unique().sort("partition", "nodes")
    for (partition,), nodes in by_partition.group_by("partition", maintain_order=True):
        names = {node for text in nodes["nodes"] for node in text.split(",") if node}
        prints: dict[str, set[str]] = {}
        for campaign in campaigns:
            for node in sorted(names & campaign.fingerprints.keys()):
                prints.setdefault(campaign.fingerprints[node], set()).add(node)
        if len(prints) > 1:
            sides = [f"{fp} of {hostlist.fold(sorted(nodes))}" for fp, nodes in prints.items()]
            largest = max(prints.values(), key=len)
            yield (
                f"several fingerprints on {partition}: {_named(sides)}; make the nodes agree, or "
                f"measure those of one fingerprint: --nodes '{hostlist.fold(sorted(largest))}'"
            )


def _of_settings(table: pl.DataFrame) -> Iterator[str]:
    """Collectives that were measured with several settings, of the first condition."""
    settings = table.filter(pl.col("settings").is_not_null()).select("peers", "settings").unique()
    for (peers,), several in settings.group_by("peers", maintain_order=True):
        if several.height > 1:
            yield f"several settings of {peers}: {_named(several['settings'].sort().to_list())}"
            return


def _of_numbers(table: pl.DataFrame) -> Iterator[str]:
    above = table.filter(pl.col("share") > 1 + TOLERANCE)
    for row in above.unique("place", maintain_order=True).head(_NAMED).iter_rows(named=True):
        yield f"above the limit: {row['place']}, {row['condition']}: {row['share']:.1%} of it"
    # As the verdict counts a place: by the worst of its runs.
    for (peers, metric), rows in table.group_by("peers", "metric", maintain_order=True):
        known = METRICS[str(metric)]
        if not known.comparable:
            continue
        worst = rows.sort("value", descending=known.better != "more", maintain_order=True)
        worst = worst.unique("place", keep="first", maintain_order=True)
        values = dict(zip(worst["place"], worst["value"], strict=True))
        if far := outlying(values, known.better, Case.peer_spread):
            median = statistics.median(values.values())
            runs = dict(zip(worst["place"], worst["run"], strict=True))
            named = [f"{p} ({values[p] / median - 1:+.0%} in run {runs[p]})" for p in far]
            yield f"far from their peers in {peers}: {_named(named)}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


# --- numbers -------------------------------------------------------------------------------------


def _proposal(campaigns: Sequence[Campaign], table: pl.DataFrame) -> Proposal:
    # The rails of a path across them have numbers of their own; those within a rail share one.
    ends = pl.col("rails").str.split("-")
    across = (ends.list.n_unique() > 1).fill_null(False)
    table = table.with_columns(
        own_rails=pl.when(across).then("rails").otherwise(None),
        log=pl.col("value").log(),
        # What a launch of NCCL gave to all of its groups is one sample, of one place.
        sample=pl.coalesce("launch", "place"),
    )
    keys = [*_PARTS, "metric"]
    grouped = (
        table.lazy()
        .with_columns(places=pl.n_unique("place").over(keys))
        .unique([*keys, "run", "sample"], maintain_order=True)
        .with_columns(of_place=pl.median("log").over([*keys, "sample"]))
        .group_by(keys, maintain_order=True)
        .agg(
            condition=pl.first("condition"),
            samples=pl.len(),
            runs=pl.n_unique("run"),
            least=pl.min("value"),
            places=pl.first("places"),
            tool=pl.first("tool"),
            version=pl.first("version"),
            partition_nodes=pl.first("nodes"),
            deviations=pl.col("log") - pl.col("of_place"),
            medians=pl.struct("sample", "of_place").unique(maintain_order=True),
            lowest=pl.struct("log", "place", "run").sort_by("log").first(),
            highest=pl.struct("log", "place", "run").sort_by("log").last(),
        )
        .collect()
    )
    judged: list[tuple[dict[str, Any], _Bound]] = []
    left_out = []
    for row in grouped.iter_rows(named=True):
        if row["runs"] < LEAST_RUNS or row["samples"] < LEAST_SAMPLES or row["least"] <= 0:
            left_out.append(
                f"{row['condition']}: {row['samples']} measurements in {row['runs']} runs, "
                f"expected {LEAST_SAMPLES} above 0 in {LEAST_RUNS}"
            )
            continue
        least = LEAST_TOLERANCE if len(campaigns) > 1 else LEAST_OF_ONE_CAMPAIGN
        bound = _Bound.of(row, least)
        if bound.off > max(bound.usual, _STANDS_OUT):
            left_out.append(
                f"{row['condition']}: {_worst(bound)}, and a bound beyond that would let a bad "
                "node pass: find out why, and measure again"
            )
            continue
        judged.append((row, bound))
    entries: dict[tuple[object, ...], dict[str, Any]] = {}
    wider, accepted, numbers = [], 1.0, 0
    for row, bound in judged:
        metric = METRICS[row["metric"]]
        distance = bound.tried(false_rejections.MOST_REJECTED / len(judged))
        share = bound.share(distance)
        if metric.comparable and metric.better == "more" and share > _MOST_BELOW:
            left_out.append(
                f"{row['condition']}: its places differ too much, a bound would be "
                f"{share:.0%} below: which of them is right?"
            )
            continue
        if distance > _MOST_SPREAD:
            left_out.append(
                f"{row['condition']}: its measurements vary too much, a bound would be "
                f"{share:.0%} {bound.way}"
            )
            continue
        if distance > bound.usual:
            wider.append(_why_wider(row, bound, distance))
        accepted *= 1 - bound.runs.rejected(distance)
        numbers += row["samples"]
        parts = tuple(row[part] for part in _PARTS)
        entry = entries.setdefault(parts, {**_condition(row), "metrics": {}})
        entry["metrics"][row["metric"]] = _number(row, bound, distance, campaigns)
    return Proposal(
        tuple(Entry.model_validate(e) for e in entries.values()),
        tuple(left_out),
        tuple(wider),
        numbers,
        1 - accepted,
    )


@dataclasses.dataclass(frozen=True)
class _Bound:
    """How far the bound of a condition is from its value, as a difference of logarithms: `usual`
    by the noise alone. `value` is a logarithm, `worst` the worst number with its place and run.
    """

    value: float
    usual: float
    better: Better
    worst: Mapping[str, Any]
    runs: false_rejections.Runs

    @classmethod
    def of(cls, row: Mapping[str, Any], least: float) -> _Bound:
        medians = np.array([median["of_place"] for median in row["medians"]])
        deviations = np.array(row["deviations"])
        value = float(np.median(medians))
        between = float(np.median(np.abs(medians - value))) * NORMAL
        # The median of few runs lies nearer to each of them than the truth does.
        runs = row["samples"] / medians.size
        of_runs = float(np.median(np.abs(deviations))) * NORMAL
        of_runs *= math.sqrt(runs / max(runs - 1, 1))
        better = METRICS[row["metric"]].better
        worse = -1.0 if better == "more" else 1.0
        return cls(
            value,
            max(SIGMAS * math.hypot(between, of_runs), worse * math.log1p(worse * least)),
            better,
            row["highest" if worse > 0 else "lowest"],
            false_rejections.Runs(worse * (medians - value), worse * deviations, runs),
        )

    def tried(self, most: float) -> float:
        """The distance that no number of the runs is beyond, and at which at most that share of
        healthy campaigns is rejected.
        """
        return self.runs.within(max(self.usual, self.off), most)

    @property
    def off(self) -> float:
        """How far the worst number is from the value."""
        return abs(float(self.worst["log"]) - self.value)

    @property
    def way(self) -> str:
        """Where the bound is."""
        return "below" if self.better == "more" else "above"

    def share(self, distance: float) -> float:
        """The distance as a share of the value."""
        return 1 - math.exp(-distance) if self.better == "more" else math.exp(distance) - 1


def _why_wider(row: Mapping[str, Any], bound: _Bound, distance: float) -> str:
    """Which number of the runs needs a wider bound than their usual noise."""
    return (
        f"{row['condition']}: {_worst(bound)}; {bound.share(distance):.1%} {bound.way} is "
        f"admitted, {bound.share(bound.usual):.1%} by the usual noise"
    )


def _worst(bound: _Bound) -> str:
    """The worst number, as `n1:n2 is -7.0% in run ID/1.0`."""
    off = math.exp(bound.worst["log"] - bound.value) - 1
    return f"{bound.worst['place']} is {off:+.1%} in run {bound.worst['run']}"


def _condition(row: Mapping[str, Any]) -> dict[str, Any]:
    """As it stands in a file: parts that nothing was asked of are left out."""
    stated = {
        "check": row["check"],
        "partition": row["partition"],
        "operation": row["operation"],
        "transport": row["transport"],
        "nodes": row["node_count"],
        "ranks": row["ranks"],
        "streams": row["streams"],
        "size_bytes": row["size_bytes"],
        "rails": row["own_rails"],
        "nics": row["nics"],
        "window_bytes": row["window_bytes"],
        "congestion": row["congestion"],
        "delay_ms": row["delay_ms"],
        "load": row["load"],
        "within": row["within"],
        "warmup": row["warmup"],
    }
    return {name: value for name, value in stated.items() if value is not None}


def _number(
    row: Mapping[str, Any], bound: _Bound, distance: float, campaigns: Sequence[Campaign]
) -> dict[str, Any]:
    metric = METRICS[row["metric"]]
    tolerance = math.ceil(bound.share(distance) * 1000 - _DIGITS) / 1000
    fingerprints = {
        campaign.fingerprints[node]
        for campaign in campaigns
        for node in row["partition_nodes"].split(",")
        if node in campaign.fingerprints
    }
    started = [datetime.datetime.fromisoformat(campaign.started) for campaign in campaigns]
    return {
        "value": float(f"{math.exp(bound.value):.5g}"),
        **({"lower": -tolerance} if metric.better == "more" else {"upper": tolerance}),
        "unit": metric.unit,
        "kind": "baseline",
        "provenance": {
            "source": _source(campaigns, row),
            "date": max(moment.date() for moment in started),
            "tools": version.stated(row["tool"], row["version"]),
            **({"fingerprint": min(fingerprints)} if fingerprints else {}),
            "samples": row["samples"],
        },
    }


def _source(campaigns: Sequence[Campaign], row: Mapping[str, Any]) -> str:
    named = " ".join(campaign.id for campaign in campaigns)
    places = f"{row['places']} place{'s' if row['places'] > 1 else ''}"
    return f"campaigns {named}, {row['runs']} runs of {places}"


# --- age -----------------------------------------------------------------------------------------


def stale(entry: Entry, metric: str, newer: pl.DataFrame, prints: Mapping[str, str]) -> list[str]:
    """What of a stored number is no longer so: by the table and the fingerprints (by node) of a
    newer campaign. Only its own partition counts.
    """
    provenance = entry.metrics[metric].provenance
    rows = newer.filter(pl.col("partition") == entry.partition)
    used: dict[str, set[str]] = {}
    for tool, of_ends in rows.select("tool", "version").unique().iter_rows():
        for printed in of_ends.split(measurement_table.VERSIONS):
            for name, number in version.stated(tool, printed).items():
                used.setdefault(name, set()).add(number)
    reasons = [
        f"{name} {known}, now {' and '.join(sorted(used[name]))}"
        for name, known in provenance.tools.items()
        if name in used and used[name] != {version.normal(known)}
    ]
    nodes = {node for text in rows["nodes"].unique() for node in text.split(",")}
    now = {prints[node] for node in nodes if node in prints}
    if provenance.fingerprint and now and now != {provenance.fingerprint}:
        reasons.append(f"fingerprint {provenance.fingerprint}, now {' and '.join(sorted(now))}")
    return reasons
