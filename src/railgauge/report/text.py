"""The verdict in a terminal: a table of measurements, then the findings."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from railgauge import hostlist
from railgauge.locating import Suspect
from railgauge.model.references import Reference
from railgauge.report import located, transfers
from railgauge.report.numbers import bounds, by_condition, by_place, collect, new_table, number
from railgauge.verdict.campaign import tool_builds
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.finding import Finding, places_of
from railgauge.verdict.campaign.ratios import RatioRow
from railgauge.verdict.decision.verdict import Verdict

if TYPE_CHECKING:
    from railgauge.verdict.comparison.power import Condition

_STYLES = {
    "accept": "bold green",
    "provisional accept": "bold cyan",
    "reject": "bold red",
    "inconclusive": "bold yellow",
}


#: Columns that the table needs.
_WIDTH = 138


def _ratio_status(row: RatioRow) -> Text:
    if row.within is not None:
        return Text("ok", style="green") if row.within else Text("out", style="bold red")
    return Text("not measured" if row.value is None else "context", style="yellow")


def _ratio_table(ratios: Sequence[RatioRow]) -> Table:
    table = new_table()
    table.add_column("ratio", overflow="fold")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("reference", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in ratios:
        reference = row.reference
        table.add_row(
            escape(row.name),
            "-" if row.value is None else number(row.value),
            f"{reference.value:g} (context)" if reference.is_context else bounds(reference),
            _ratio_status(row),
        )
    return table


def _context_table(cases: Sequence[Case]) -> Table | None:
    """Each published number once, beside all that was measured under what it states."""
    beside: dict[tuple[str, str, Reference], list[float]] = {}
    for case in cases:
        for row in case.rows:
            for published in row.context:
                key = case.check, row.measurement.variable, published
                beside.setdefault(key, []).append(row.measurement.value)
    if not beside:
        return None
    table = new_table()
    for name in ("check", "metric"):
        table.add_column(name, no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("elsewhere", justify="right", no_wrap=True)
    table.add_column("context, gating nothing", overflow="fold")
    for (check, variable, published), values in beside.items():
        ends = dict.fromkeys(number(value) for value in (min(values), max(values)))
        table.add_row(
            check,
            variable,
            f"{' to '.join(ends)} {published.unit}",
            f"{published.value:g} {published.unit}",
            escape(published.note or published.provenance.source),
        )
    return table


def _print_findings(console: Console, findings: Sequence[Finding], campaign: str) -> None:
    """The findings of one place: where it is, each message, what to do, and what shows all of it
    in that campaign.
    """

    def line(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    first = findings[0]
    nodes = " ".join(dict.fromkeys(node for finding in findings for node in finding.nodes))
    place = Text(f"  {first.weight}: ", style=_STYLES[first.weight])
    place.append(
        " ".join(filter(None, [first.check, first.partition, nodes])) or "the campaign",
        style="bold",
    )
    console.print(place, soft_wrap=True)
    for finding in findings:
        line(f"    - {finding.message} [{finding.kind}]")
    for step in dict.fromkeys(f.next_step for f in findings if f.next_step):
        line(f"    next: {step}")
    if first.place and first.evidence:
        where = shlex.quote(first.place)
        line(f"    evidence: railgauge show {campaign} {where} --check {first.check}")
    elif first.evidence:
        line(f"    evidence: {first.evidence}")


def _sessions(verdict: Verdict) -> list[str]:
    """Of a campaign that was resumed: when, and whether the checkout was another one."""
    contexts = verdict.campaign.contexts
    if len(contexts) == 1:
        return []
    started = ", ".join(str(context.get("started", "unknown")) for context in contexts)
    commits = list(dict.fromkeys(str(context.get("commit", "unknown")) for context in contexts))
    changed = f"; the checkout changed from {' to '.join(commits)}" if len(commits) > 1 else ""
    return [f"  measured in {len(contexts)} sessions, begun at {started}{changed}"]


def _print_tools(console: Console, verdict: Verdict) -> None:
    """One line for each tool and build; programs of one package share a line."""
    lines: dict[tuple[str, str], set[str]] = {}
    for build in verdict.tools:
        # Of Railgauge's own programs it is the interpreter's.
        if build.package and not build.program.startswith("python3"):
            key = build.tool, tool_builds.describe(build)
            lines.setdefault(key, set()).update(build.nodes)
    several = [tool for tool, _ in lines]
    for (tool, described), nodes in lines.items():
        where = f" on {hostlist.fold(nodes)}" if several.count(tool) > 1 else ""
        console.print(f"  {tool} {described}{where}", highlight=False, markup=False, soft_wrap=True)
    if lines:
        console.print()


def console() -> Console:
    """Standard output, wide enough that no column of the table is folded."""
    return Console(width=max(Console().width, _WIDTH))


def say_if_simulated(verdict: Verdict, console: Console) -> None:
    if verdict.simulated:
        console.print(
            f"SIMULATED: a rehearsal ({verdict.campaign.simulated}) with stand-ins for the "
            "programs that are measured; this says nothing of any node\n",
            style="bold yellow",
            soft_wrap=True,
        )


def _print_numbers(console: Console, verdict: Verdict, all_places: bool) -> None:
    if not any(case.rows for case in verdict.cases):
        return
    if not all_places:
        console.print(by_condition(verdict))
        console.print("worst: of the places; ±: how far from the median the farthest one is")
    places = by_place(verdict, all_places)
    if places is not None:
        if not all_places:
            console.print("\n[bold]places that fail or stand out[/]")
        console.print(places)
    if any(one.words == "failed otherwise" for one in collect(verdict)):
        console.print("failed otherwise: within its bounds; the findings say what is wrong there")
    if verdict.by_published:
        console.print("bounds marked (published): published, not your baseline")
    if verdict.by_floors:
        console.print("bounds marked (floor): they prove function only, and are no baseline")
    console.print()


def render(verdict: Verdict, console: Console, all_places: bool = False) -> None:
    """Print the numbers, the findings, the suspects, and the verdict as the last line.

    The numbers are a line a condition, and one a place for those that fail or stand out; or one
    for each of `all_places`.
    """
    say_if_simulated(verdict, console)
    _print_numbers(console, verdict, all_places)
    for table in (
        _ratio_table(verdict.ratios) if verdict.ratios else None,
        _context_table(verdict.cases),
    ):
        if table is not None:
            console.print(table)
            console.print()
    if not verdict.simulated:
        _print_tools(console, verdict)
    transfers.render(verdict, console)
    for group in places_of(verdict.findings):
        _print_findings(console, group, verdict.campaign.id)
    for suspect in verdict.suspects:
        _print_suspect(console, suspect)
    for one in verdict.unnamed:
        line = f"  {one.why}\n    next: {one.next_step(verdict.campaign.accept_command)}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if line := located.left_open(verdict.fewest_good):
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    for line in _sessions(verdict):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for what, why in verdict.campaign.scope.absent.items():
        console.print(f"  left out, declared absent: [bold]{escape(what)}[/]: {escape(why)}")
    for notice in verdict.notices:
        console.print(f"  note: {notice.message}", highlight=False, markup=False, soft_wrap=True)
    power = _power_lines(verdict)
    left_out = transfers.left_out(verdict)
    for line in (*power, *left_out):
        console.print(line, highlight=False, soft_wrap=True)
    if (
        verdict.findings
        or verdict.campaign.scope.absent
        or verdict.notices
        or verdict.campaign.earlier
        or left_out
        or power
    ):
        console.print()
    mark = "SIMULATED " if verdict.simulated else ""
    console.print(
        Text(mark + verdict.decision.upper(), style=_STYLES[verdict.decision]),
        Text(f"{verdict.reason}  ({verdict.campaign.folder})"),
        soft_wrap=True,
    )


def _power_lines(verdict: Verdict) -> list[str]:
    """What the campaign would have found: the smallest losses, and under how many conditions."""
    power = verdict.power
    best = power.sharpest
    if best is None:
        return []
    share = [f"{loss:.1%} on {where}" for loss, where in _losses(best) if loss is not None]
    finding = [one for one in power.conditions if one.link is not None]
    of = f" (the sharpest of {len(finding)} conditions)" if len(finding) > 1 else ""
    return [
        f"  finds with {power.power:.0%}: a loss of {', '.join(share)}: {best.check} "
        f"{best.partition}, {best.measured}{of}; such a campaign names "
        f"{power.false_alarms:.2g} places of healthy nodes"
    ]


def _losses(best: Condition) -> list[tuple[float | None, str]]:
    places = "place" if best.places == 1 else f"one of {best.places} places"
    return [(best.link, places), (best.node, "one node"), (best.all, "all")]


def _print_suspect(console: Console, suspect: Suspect) -> None:
    name = escape(located.name(suspect))
    console.print(
        f"  [bold]{name}[/] {located.state(suspect)}: {escape(suspect.why)}", soft_wrap=True
    )
    for line in located.evidence(suspect):
        console.print(f"    {line}", highlight=False, markup=False, soft_wrap=True)


def plain(verdict: Verdict, width: int = _WIDTH, all_places: bool = False) -> str:
    """The same without colours, for a file."""
    buffer = io.StringIO()
    render(verdict, Console(file=buffer, width=width, color_system=None), all_places)
    return buffer.getvalue()
