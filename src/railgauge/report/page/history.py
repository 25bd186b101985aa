"""The page of a system's history: its campaigns, when each node was last accepted, and trends."""

from __future__ import annotations

import datetime
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from railgauge import hostlist, systems
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import Campaign
from railgauge.common.errors import RailgaugeError
from railgauge.model.measurement import METRICS, Measurement
from railgauge.report import numbers
from railgauge.report.page import whole
from railgauge.report.page.content import TableOf, folded, table
from railgauge.report.page.series import Curve, Point
from railgauge.verdict.comparison import before_after
from railgauge.verdict.comparison.measurement_table import VERSIONS

if TYPE_CHECKING:
    from railgauge.gate.coverage import NodeSummary

#: Trends that the page has: those of most campaigns first.
_MOST_CURVES = 40

#: A node that was accepted within these days counts as covered.
_RECENT_DAYS = 30

#: (check, partition, what was measured, what of the tool changes its numbers)
_Condition = tuple[str, str, str, str]


class Past(NamedTuple):
    """A campaign that is over, with its verdict.json; `changed` are nodes with
    another fingerprint than in their campaign before it.
    """

    campaign: Campaign
    verdict: dict[str, Any]
    changed: tuple[str, ...]

    @property
    def nodes(self) -> list[str]:
        return [node for members in self.campaign.scope.nodes.values() for node in members]


#: What a damaged record raises where it is read.
_UNREADABLE = (RailgaugeError, OSError, ValueError, LookupError, TypeError)


def past(system: str) -> tuple[list[Past], list[str]]:
    """The campaigns of a system that measured and have a verdict, oldest first; and what of others
    cannot be read.
    """
    read, unreadable = [], []
    fingerprints: dict[str, str] = {}
    for path in campaigns.folders_of(system):
        if not (path / "verdict.json").exists():
            continue
        try:
            campaign = campaigns.load(str(path))
            verdict = json.loads((path / "verdict.json").read_text(encoding="utf-8"))
            words = verdict["verdict"], verdict["measurements"], verdict["findings"]
        except _UNREADABLE as error:
            why = error.message if isinstance(error, RailgaugeError) else str(error)
            unreadable.append(f"{path.name}: {why}")
            continue
        if campaign.system != system or verdict.get("simulated") or None in words:
            continue
        now = campaign.fingerprints
        changed = tuple(n for n in now if fingerprints.get(n, now[n]) != now[n])
        fingerprints.update(now)
        read.append(Past(campaign, verdict, changed))
    return read, unreadable


def html(system: str, accepted: Mapping[str, str], covered: Sequence[NodeSummary] = ()) -> str:
    """The whole page; RailgaugeError where the system has no campaign. `accepted` has of nodes the
    time (ISO 8601) at which they were last accepted; `covered` are the lines of its coverage.
    """
    with_verdict, unreadable = past(system)
    if not with_verdict:
        raise RailgaugeError(
            f"no campaign of {system} with a verdict in {campaigns.campaigns_folder()}",
            next_step="railgauge campaigns lists all there are; railgauge accept makes one",
        )
    now = datetime.datetime.now(datetime.timezone.utc)
    curves = trends(with_verdict)
    data = _no_numbers([curve.as_dict() for curve in curves[:_MOST_CURVES]])
    return whole(
        "history.html.j2",
        data,
        system=system,
        now=now.isoformat(timespec="seconds"),
        unreadable=unreadable,
        campaigns=_campaigns(with_verdict),
        nodes=_nodes(with_verdict, accepted, covered, now),
        rails=_rails(covered),
        coverage=_coverage(system, with_verdict, accepted, now),
        curves=curves[:_MOST_CURVES],
        curves_left_out=max(len(curves) - _MOST_CURVES, 0),
    )


def _no_numbers(curves: list[dict[str, Any]]) -> dict[str, Any]:
    names = (
        *("statuses", "checks", "nodes", "rails", "places", "ends", "conditions", "silent"),
        *("leaves", "leaf_of"),
    )
    return {
        **{name: [] for name in names},
        "rows": [[], [], [], [], []],
        "curves": curves,
        "changes": None,
    }


def _campaigns(campaigns: Sequence[Past]) -> TableOf:
    rows = [
        (
            one.campaign.started,
            one.campaign.id,
            one.campaign.gate,
            one.verdict["verdict"],
            str(len(one.verdict["findings"])),
            str(len(one.nodes)),
            folded(one.nodes),
            folded(one.changed) if one.changed else "",
        )
        for one in reversed(campaigns)
    ]
    columns = ("began", "campaign", "mode", "verdict", "findings", "nodes", "which", "changed")
    return table("Campaigns", columns, rows, (4, 5))


def _nodes(
    campaigns: Sequence[Past],
    accepted: Mapping[str, str],
    covered: Sequence[NodeSummary],
    now: datetime.datetime,
) -> TableOf:
    """A line for each node of the system and of its campaigns, the one not accepted for longest
    first.
    """
    last: dict[str, Past] = {}
    count: dict[str, int] = {}
    for one in campaigns:
        for node in one.nodes:
            last[node] = one
            count[node] = count.get(node, 0) + 1
    # Of a node of several partitions that in which it has changed, or was accepted longest ago.
    lines: dict[str, NodeSummary] = {}
    for summary in sorted(covered, key=lambda one: (not one.changed, -_age(one))):
        lines.setdefault(summary.node, summary)
    rows = []
    for node in sorted({**lines, **last}, key=lambda node: accepted.get(node, "")):
        latest, when, line = last.get(node), accepted.get(node), lines.get(node)
        by = line.accepted if line else None
        rows.append(
            (
                node,
                when or "never",
                f"{_days(when, now):.1f}" if when else "-",
                latest.campaign.started if latest else "never tested",
                latest.verdict["verdict"] if latest else "-",
                str(count.get(node, 0)),
                latest.campaign.fingerprints.get(node, "-") if latest else "-",
                by.campaign if by else "-",
                str(len(by.checks)) if by else "-",
                "changed" if line and line.changed else "",
                line.state if line else "-",
            )
        )
    columns = (
        *("node", "last accepted", "days since", "last campaign", "its verdict"),
        *("campaigns", "fingerprint", "accepted by", "checks passed", "since then", "state"),
    )
    return table("Nodes", columns, rows, (2, 5, 8))


def _age(line: NodeSummary) -> float:
    """Days since its last acceptance, without an end where there is none."""
    return math.inf if line.age_days is None else line.age_days


def _rails(covered: Sequence[NodeSummary]) -> TableOf:
    """A line for each rail, first those that never were well, then those longest ago."""
    rails = [(line, number, rail) for line in covered for number, rail in line.rails.items()]
    rails.sort(key=lambda one: one[2].campaign or "")
    rows = [
        (
            line.node,
            line.partition,
            number,
            "never" if rail.age_days is None else f"{rail.age_days:.1f}",
            rail.campaign or "-",
            line.state,
            "-" if line.age_days is None else f"{line.age_days:.1f}",
        )
        for line, number, rail in rails
    ]
    columns = (
        *("node", "partition", "rail", "days since it was well", "campaign", "state"),
        "days since the node was accepted",
    )
    return table("Rails", columns, rows, (2, 3, 6))


def _days(when: str, now: datetime.datetime) -> float:
    return (now - datetime.datetime.fromisoformat(when)).total_seconds() / 86400


def _coverage(
    system: str, campaigns: Sequence[Past], accepted: Mapping[str, str], now: datetime.datetime
) -> str:
    """How many of the system's nodes were accepted lately."""
    nodes = {node for one in campaigns for node in one.nodes}
    try:
        partitions = systems.load(system).partitions
        described = {n for p in partitions for n in hostlist.expand(p.extras.nodes)}
    except (RailgaugeError, ValueError):
        described = set()
    every = nodes | described
    of_late = [n for n in every & accepted.keys() if _days(accepted[n], now) <= _RECENT_DAYS]
    never = sorted(every - accepted.keys())
    text = f"{len(of_late)} of {len(every)} nodes accepted within {_RECENT_DAYS} days"
    return f"{text}; never accepted: {folded(never)}." if never else f"{text}."


def trends(campaigns: Sequence[Past]) -> list[Curve]:
    """Over the campaigns, each condition of rates and latencies that two or more have."""
    values: dict[_Condition, dict[int, list[Measurement]]] = {}
    limits: dict[tuple[_Condition, int], list[dict[str, Any]]] = {}
    known = {*Measurement.__dataclass_fields__, "unit"}
    for number, one in enumerate(campaigns):
        built = _built(one.verdict)
        for row in one.verdict["measurements"]:
            try:
                m = Measurement.from_dict({n: text for n, text in row.items() if n in known})
            except (ValueError, TypeError):
                continue
            if METRICS[m.metric].comparable or m.metric == "latency":
                of = str(row.get("check")), str(row.get("partition"))
                warmup = "" if m.warmup is None else f"warm-up {m.warmup}"
                by_tool = ", ".join(filter(None, (built.get(m.tool), warmup)))
                key = *of, numbers.measured(m), by_tool
                values.setdefault(key, {}).setdefault(number, []).append(m)
                limits.setdefault((key, number), []).append(row)
    made = []
    for key, campaigns_of in values.items():
        if len(campaigns_of) < 2:
            continue
        points = tuple(
            _point(campaigns[number], float(at), measured, limits[key, number])
            for at, (number, measured) in enumerate(sorted(campaigns_of.items()))
        )
        unit = next(iter(campaigns_of.values()))[0].unit
        title = ", ".join(filter(None, (key[2], key[1], key[3])))
        made.append(Curve(key[0], title, unit, "campaign", points))
    return sorted(made, key=lambda curve: -len(curve.points))


def _built(verdict: Mapping[str, Any]) -> dict[str, str]:
    """Tool -> what its versions in a campaign changed in its numbers."""
    versions: dict[str, set[str]] = {}
    for build in verdict.get("tools", ()):
        if build["version"]:
            versions.setdefault(build["tool"], set()).add(build["version"])
    return {
        tool: before_after.changed_since(tool, VERSIONS.join(sorted(known))) or ""
        for tool, known in versions.items()
    }


def _point(
    one: Past, x: float, measured: Sequence[Measurement], rows: Sequence[dict[str, Any]]
) -> Point:
    values = [m.value for m in measured]
    more = METRICS[measured[0].metric].better == "more"
    limits = [row["limit"]["value"] for row in rows if row.get("limit")]
    return Point(
        at=f"{one.campaign.started[:16].replace('T', ' ')}{' △' if one.changed else ''}",
        x=x,
        median=statistics.median(values),
        worst=min(values) if more else max(values),
        best=max(values) if more else min(values),
        places=len(values),
        lowest=None,
        highest=None,
        limit=min(limits, default=None),
    )
