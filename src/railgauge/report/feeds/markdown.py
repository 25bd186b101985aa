"""A verdict in Markdown, for a ticket: the verdict, suspects, findings, numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from railgauge.report import located, numbers
from railgauge.report.page.content import folded
from railgauge.report.visible import clean
from railgauge.verdict.campaign.finding import places_of
from railgauge.verdict.decision.verdict import Verdict

#: In the campaign's folder.
FILE = "summary.md"

#: A ticket is read, not searched: the campaign has the others.
_MOST = 20

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#!~])")


def plain(text: str) -> str:
    """Text that no reader of Markdown takes for markup, a mention or a link."""
    escaped = _MARKUP.sub(r"\\\1", " ".join(clean(text).split()))
    return escaped.replace("@", "&#64;").replace("://", ":&#47;/")


def code(text: str) -> str:
    """As code, fenced by more backticks than are in it."""
    text = " ".join(clean(text).split())
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def markdown(verdict: Verdict) -> str:
    campaign = verdict.campaign
    mark = "SIMULATED " if verdict.simulated else ""
    lines = [f"## {mark}{verdict.decision.upper()}: {plain(campaign.system)}", ""]
    if verdict.simulated:
        lines += ["**SIMULATED**: by stand-ins; this says nothing of any node.", ""]
    lines += [plain(located.sentence(verdict)), ""]
    for partition, nodes in campaign.scope.nodes.items():
        lines.append(f"- {plain(partition)}: {len(nodes)} nodes, {code(folded(nodes))}")
    lines += [f"- campaign {code(campaign.id)}, {campaign.started} to {campaign.finished}", ""]
    if verdict.suspects:
        lines += [f"### {mark}Suspects", ""]
        accused = [
            (located.name(s) + ("" if s.confirmed else ", not confirmed"), s.why)
            for s in verdict.suspects
        ]
        lines += _some([f"- **{plain(name)}**: {plain(why)}" for name, why in accused])
    for one in verdict.unnamed:
        step = one.next_step(campaign.accept_command)
        lines += [f"- {plain(one.why)}", f"    - next: {code(step)}", ""]
    groups = places_of(verdict.findings)
    if groups:
        lines += [f"### {mark}Findings", ""]
        entries = []
        for group in groups:
            first = group[0]
            where = " ".join(filter(None, [first.check, first.partition, first.place]))
            entry = [f"- {first.weight}: **{plain(where or 'the campaign')}**"]
            entry += [f"    - {plain(finding.message)}" for finding in group]
            steps = dict.fromkeys(finding.next_step for finding in group if finding.next_step)
            entry += [f"    - next: {code(step)}" for step in steps]
            entries.append("\n".join(entry))
        lines += _some(entries)
    lines += _numbers(verdict, mark)
    return "\n".join([*lines, f"All of it: {code(f'railgauge report {campaign.id}')}", ""])


def _some(entries: Sequence[str]) -> list[str]:
    more = [f"- and {len(entries) - _MOST} more"] if len(entries) > _MOST else []
    return [*entries[:_MOST], *more, ""]


def _numbers(verdict: Verdict, mark: str) -> list[str]:
    """The numbers that gate: the bad conditions first."""
    rows = [
        (
            line.worst.case.check,
            numbers.measured(line.worst.row.measurement),
            str(line.places),
            numbers.quantity(line.worst.row.measurement),
            numbers.location(line.worst),
            line.median,
            numbers.reference_of(line.worst.row),
            numbers.share_of_limit(line.worst.row),
            line.status,
        )
        for line in numbers.conditions(numbers.collect(verdict))
    ]
    if not rows:
        return []
    rows.sort(key=lambda row: row[-1] == "ok")
    head = "check|measured|places|worst|at|median|reference|of limit|verdict"
    shown = [f"| {' | '.join(plain(cell) for cell in row)} |" for row in rows[:_MOST]]
    more = [f"{len(rows) - _MOST} more conditions", ""] if len(rows) > _MOST else []
    heading = [f"### {mark}Numbers", "", f"| {head.replace('|', ' | ')} |"]
    return [*heading, "|" + "---|" * 9, *shown, "", *more]
