"""A verdict as a text file for node_exporter's textfile collector.

Names and base units are as Prometheus' conventions want them (prometheus.io, "Metric and label
naming"): bytes, seconds, and ratios of 0 to 1. `docs/report.md` lists them. Numbers are those of a
condition, its worst place and its median; the label `measured` is as in the verdict's table.
"""

from __future__ import annotations

import datetime
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from railgauge.campaign import folder as campaigns
from railgauge.common.errors import RailgaugeError
from railgauge.model.measurement import METRICS
from railgauge.report import numbers
from railgauge.report.numbers import Number
from railgauge.report.visible import clean
from railgauge.verdict.campaign.cases import Outcome
from railgauge.verdict.campaign.finding import WEIGHTS
from railgauge.verdict.decision.verdict import EXIT_CODES, Verdict

if TYPE_CHECKING:
    from railgauge.gate.coverage import NodeSummary

#: Our unit -> the suffix of a metric's name, and what a number is multiplied by.
UNITS: Mapping[str, tuple[str, float]] = {
    "Gb/s": ("_bytes_per_second", 1e9 / 8),
    "GB/s": ("_bytes_per_second", 1e9),
    "Mmsg/s": ("_messages_per_second", 1e6),
    "us": ("_seconds", 1e-6),
    "ms": ("_seconds", 1e-3),
    "s": ("_seconds", 1.0),
    "1": ("_ratio", 1.0),
    "segments": ("_segments", 1.0),
    "entries": ("_entries", 1.0),
    "links": ("", 1.0),
}


class Metric(NamedTuple):
    """A metric as the file has it; all are gauges."""

    name: str
    help: str


CAMPAIGN = (
    Metric("railgauge_campaign_info", "The last campaign of the system; always 1."),
    Metric("railgauge_campaign_verdict", "1 for the verdict of the last campaign, 0 for others."),
    Metric("railgauge_campaign_start_timestamp_seconds", "When the last campaign began."),
    Metric("railgauge_campaign_end_timestamp_seconds", "When the last campaign ended."),
    Metric("railgauge_places", "Places of a check in the last campaign, by their outcome."),
    Metric("railgauge_findings", "Findings of the last campaign, by their weight."),
    Metric(
        "railgauge_suspect_info",
        "A node, rail, pair, leaf or uplink to look at; always 1.",
    ),
    Metric(
        "railgauge_node_last_accept_timestamp_seconds",
        "When the last campaign began that accepted the node; 0 where there is none.",
    ),
    Metric(
        "railgauge_node_changed_since_accept",
        "Whether the node was tested since with another firmware or tuning than was accepted.",
    ),
    Metric(
        "railgauge_rail_last_well_timestamp_seconds",
        "When the last campaign began in which all results over the rail were good; 0: none.",
    ),
    Metric(
        "railgauge_node_out_of_service",
        "A node that does not take everybody's jobs, and what keeps it from them; always 1.",
    ),
    Metric(
        "railgauge_node_states_known",
        "Whether Slurm said which nodes are out of service; 0: it did not answer.",
    ),
    Metric("railgauge_limit_share_ratio", "A number as a share of what physics allows."),
)


def metric_of(name: str) -> Metric:
    """Of one of our metrics."""
    suffix, _ = UNITS[METRICS[name].unit]
    base = name.removesuffix(suffix) if suffix else name
    return Metric(f"railgauge_{base}{suffix}", f"{METRICS[name].meaning}.")


class _File:
    """Samples by metric: those of one must stand together."""

    def __init__(self) -> None:
        self._samples: dict[Metric, dict[str, float]] = {}

    def add(self, metric: Metric, value: float, **labels: str) -> None:
        text = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
        self._samples.setdefault(metric, {})[f"{metric.name}{{{text}}}"] = value

    def text(self) -> str:
        lines = []
        for metric, samples in self._samples.items():
            lines += [f"# HELP {metric.name} {_help(metric.help)}", f"# TYPE {metric.name} gauge"]
            lines += [f"{sample} {value:.10g}" for sample, value in samples.items()]
        return "".join(f"{line}\n" for line in lines)


def _escaped(label: str) -> str:
    return clean(label).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def metrics(
    verdict: Verdict,
    accepted: Mapping[str, str],
    covered: Sequence[NodeSummary] = (),
) -> str:
    """The whole file; `accepted` has of nodes the time (ISO 8601) at which they were last accepted,
    `covered` are the lines of all nodes of the system: those that this campaign left out age, too.

    RailgaugeError for a rehearsal: monitoring must not take its numbers for a cluster's.
    """
    campaign = verdict.campaign
    if verdict.simulated:
        raise RailgaugeError(
            f"campaign {campaign.id} is a rehearsal: it says nothing of any node",
            next_step="railgauge campaigns lists the others",
        )
    file = _File()
    system = campaign.system
    named = {metric.name: metric for metric in CAMPAIGN}

    def add(name: str, value: float, **labels: str) -> None:
        file.add(named[f"railgauge_{name}"], value, system=system, **labels)

    commit = str(campaign.context.get("commit", "unknown"))
    add("campaign_info", 1, campaign=campaign.id, gate=campaign.gate, commit=commit)
    for decision in EXIT_CODES:
        add("campaign_verdict", decision == verdict.decision, verdict=decision)
    add("campaign_start_timestamp_seconds", _seconds(campaign.started))
    if campaign.finished:
        add("campaign_end_timestamp_seconds", _seconds(campaign.finished))
    places = Counter((case.partition, case.check, case.outcome) for case in verdict.cases)
    for partition, check in dict.fromkeys((c.partition, c.check) for c in verdict.cases):
        for outcome in Outcome:
            labels = {"partition": partition, "check": check, "outcome": outcome.value}
            add("places", places[partition, check, outcome], **labels)
    weights = Counter(finding.weight for finding in verdict.findings)
    for weight in WEIGHTS:
        add("findings", weights[weight], weight=weight)
    for suspect in verdict.suspects:
        state = "yes" if suspect.confirmed else "no"
        add("suspect_info", 1, kind=suspect.kind, suspect=suspect.name, confirmed=state)
    in_it = [(name, node) for name, members in campaign.scope.nodes.items() for node in members]
    known = [(line.partition, line.node) for line in covered]
    for partition, node in dict.fromkeys(sorted([*in_it, *known])):
        when = _seconds(accepted[node]) if node in accepted else 0
        labels = {"partition": partition, "node": node}
        add("node_last_accept_timestamp_seconds", when, **labels)
    for line in covered:
        labels = {"partition": line.partition, "node": line.node}
        add("node_changed_since_accept", line.changed, **labels)
        for number, rail in line.rails.items():
            began = campaigns.began(rail.campaign).timestamp() if rail.campaign else 0
            add("rail_last_well_timestamp_seconds", began, **labels, rail=number)
        if line.kept_by:
            add("node_out_of_service", 1, **labels, by=line.kept_by)
    if covered:
        add("node_states_known", any(line.state != "unknown" for line in covered))
    _add_numbers(file, verdict)
    return file.text()


def _add_numbers(file: _File, verdict: Verdict) -> None:
    """Of what gates the worst place and the median, by the labels."""
    groups: dict[tuple[str, str, str], list[Number]] = {}
    for one in numbers.collect(verdict):
        measured = numbers.measured(one.row.measurement)
        groups.setdefault((one.case.partition, one.case.check, measured), []).append(one)
    for (partition, check, measured), members in groups.items():
        worst = min(members, key=numbers.goodness)
        m = worst.row.measurement
        factor = UNITS[m.unit][1]
        labels = {
            "system": verdict.campaign.system,
            "partition": partition,
            "check": check,
            "measured": measured,
        }
        median = statistics.median(one.row.measurement.value for one in members)
        for stat, value in (("worst", m.value), ("median", median)):
            file.add(metric_of(m.metric), value * factor, **labels, stat=stat)
        if worst.row.share_of_limit is not None:
            share = next(m for m in CAMPAIGN if m.name == "railgauge_limit_share_ratio")
            file.add(share, worst.row.share_of_limit, **labels, stat="worst")


def _seconds(when: str) -> float:
    """Of ISO 8601, since the epoch."""
    return datetime.datetime.fromisoformat(when).timestamp()


def names() -> Iterable[str]:
    """Of all metrics that a file may have."""
    return [metric.name for metric in (*CAMPAIGN, *map(metric_of, METRICS))]
