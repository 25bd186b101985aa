"""The verdict in a terminal: the answer, a line a check, what fails in full, the answer again."""

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
from railgauge.report import layout, located, transfers
from railgauge.report.layout import console, print_table, say, say_step
from railgauge.report.numbers import (
    bounds,
    by_check,
    by_condition,
    by_place,
    collect,
    new_table,
    number,
)
from railgauge.verdict.campaign import tool_builds
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.finding import Finding, places_of
from railgauge.verdict.campaign.ratios import RatioRow
from railgauge.verdict.decision.verdict import Verdict

if TYPE_CHECKING:
    pass

_STYLES = {
    "accept": "bold green",
    "provisional accept": "bold cyan",
    "reject": "bold red",
    "inconclusive": "bold yellow",
}

__all__ = ["console", "plain", "render", "say_if_simulated"]


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
    """Each published number once, next to all that was measured under what it states."""
    measured: dict[tuple[str, str, Reference], list[float]] = {}
    for case in cases:
        for row in case.rows:
            for published in row.context:
                key = case.check, row.measurement.variable, published
                measured.setdefault(key, []).append(row.measurement.value)
    if not measured:
        return None
    table = new_table()
    for name in ("check", "metric"):
        table.add_column(name, no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("elsewhere", justify="right", no_wrap=True)
    table.add_column("context, gating nothing", overflow="fold")
    for (check, variable, published), values in measured.items():
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
    first = findings[0]
    named = list(dict.fromkeys(node for finding in findings for node in finding.nodes))
    nodes = " ".join(named) if len(named) <= 2 else hostlist.fold(named)
    place = " ".join(filter(None, [first.check, first.partition, nodes])) or "the campaign"
    heading, *rest = layout.wrap(f"{first.weight}: {place}", console.width, "  ", "    ")
    style = f"bold {_STYLES[first.weight]}"
    console.print(Text(heading).append("".join(f"\n{line}" for line in rest)), style=style)
    for finding in findings:
        say(console, f"{finding.message} [{finding.kind}]", "    - ")
    for step in dict.fromkeys(f.next_step for f in findings if f.next_step):
        say_step(console, "next", step, "    ")
    if first.place and first.evidence:
        where = shlex.quote(first.place)
        command = f"railgauge show {campaign} {where} --check {first.check}"
        say_step(console, "evidence", command, "    ")
    elif first.evidence:
        say(console, f"evidence: {first.evidence}", "    ", "      ")


def _sessions(verdict: Verdict) -> list[str]:
    """Of a campaign that was resumed: when, and whether the checkout was another one."""
    contexts = verdict.campaign.contexts
    if len(contexts) == 1:
        return []
    started = ", ".join(str(context.get("started", "unknown")) for context in contexts)
    commits = list(dict.fromkeys(str(context.get("commit", "unknown")) for context in contexts))
    changed = f"; the checkout changed from {' to '.join(commits)}" if len(commits) > 1 else ""
    return [f"measured in {len(contexts)} sessions, begun at {started}{changed}"]


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
        say(console, f"{tool} {described}{where}", "  ", "    ")
    if lines:
        console.print()


def say_if_simulated(verdict: Verdict, console: Console) -> None:
    if verdict.simulated:
        for line in layout.wrap(
            f"SIMULATED: a rehearsal ({verdict.campaign.simulated}) with stand-ins for the "
            "programs that are measured. It is no result of any node.",
            console.width,
        ):
            console.print(line, style="bold yellow", markup=False, soft_wrap=True)
        console.print()


def _print_numbers(console: Console, verdict: Verdict, all_places: bool) -> None:
    if not any(case.rows for case in verdict.cases):
        return
    if all_places:
        print_table(console, by_condition(verdict), 1, ("median", "of limit", "reference"))
        say(console, "worst: of the places; ±: how far from the median the farthest one is")
    else:
        for line in by_check(verdict, console.width):
            console.print(line, soft_wrap=True)
    places = by_place(verdict, all_places)
    if places is not None:
        heading = "all places" if all_places else "places that fail or stand out"
        console.print(f"\n[bold]{heading}[/]")
        print_table(console, places, 3, ("of limit",))
    if any(one.words == "failed otherwise" for one in collect(verdict)):
        say(console, "failed otherwise: within its bounds; the findings say what is wrong there")
    if verdict.by_published:
        say(console, "bounds marked (published): published, not your baseline")
    if verdict.by_floors:
        say(console, "bounds marked (floor): they prove function only, and are no baseline")
    console.print()


def render(verdict: Verdict, console: Console, all_places: bool = False) -> None:
    """Print the verdict and its reason, the numbers, the findings, the suspects, and the verdict
    again as the last line.

    The numbers are a line a check, and one a place for those that fail or stand out; or a line a
    condition, and one for each of `all_places`. All fits the console's width, but names and
    commands that are wider.
    """
    say_if_simulated(verdict, console)
    _print_answer(console, verdict)
    _print_numbers(console, verdict, all_places)
    everything = all_places or verdict.decision != "accept"
    for table in (
        _ratio_table(verdict.ratios) if verdict.ratios else None,
        _context_table(verdict.cases) if everything else None,
    ):
        if table is not None:
            print_table(console, table)
            console.print()
    if everything and not verdict.simulated:
        _print_tools(console, verdict)
    transfers.render(verdict, console)
    for group in places_of(verdict.findings):
        _print_findings(console, group, verdict.campaign.id)
    for suspect in verdict.suspects:
        _print_suspect(console, suspect)
    for one in verdict.unnamed:
        say(console, one.why, "  ")
        say_step(console, "next", one.next_step(verdict.campaign.accept_command), "    ")
    for line in (
        *filter(None, [located.left_open(verdict.min_good_results_of_cleared_end)]),
        *_sessions(verdict),
        *(
            f"left out, declared absent: {n}: {why}"
            for n, why in verdict.campaign.scope.absent.items()
        ),
        *(f"note: {notice.message}" for notice in verdict.notices),
        *(_power_lines(verdict) if everything else ()),
        *transfers.left_out(verdict),
    ):
        say(console, line, "  ", "    ")
    if not all_places and any(case.rows for case in verdict.cases):
        say_step(console, "all numbers", f"railgauge verdict --all {verdict.campaign.id}", "")
    # A path with a blank in it stays whole.
    files = f"files: {verdict.campaign.folder}"
    console.print(files, highlight=False, markup=False, soft_wrap=True)
    answer = _answer(verdict)
    shown = layout.first_part(_reason(verdict), console.width - len(answer) - 1)
    console.print(Text(answer, style=_STYLES[verdict.decision]), Text(shown), soft_wrap=True)


def _answer(verdict: Verdict) -> str:
    return ("SIMULATED " if verdict.simulated else "") + verdict.decision.upper()


def _reason(verdict: Verdict) -> str:
    """The sentence at the top of the page, without its full stop."""
    return located.sentence(verdict).removesuffix(".")


def _print_answer(console: Console, verdict: Verdict) -> None:
    """The verdict with the whole reason, as it stands at the top of the page."""
    answer = _answer(verdict)
    first, *rest = layout.wrap(f"{answer} {_reason(verdict)}", console.width, rest="  ")
    line = Text(first)
    line.stylize(_STYLES[verdict.decision], 0, len(answer))
    console.print(line, soft_wrap=True)
    for text in rest:
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print()


def _power_lines(verdict: Verdict) -> list[str]:
    """What the campaign would have found: the smallest losses, and under how many conditions."""
    power = verdict.power
    best = power.sharpest
    if best is None:
        return []
    place = "place" if best.places == 1 else f"one of {best.places} places"
    losses = ((best.link, place), (best.node, "one node"), (best.all, "all"))
    share = [f"{loss:.1%} on {where}" for loss, where in losses if loss is not None]
    finding = [one for one in power.conditions if one.link is not None]
    of = f" (the sharpest of {len(finding)} conditions)" if len(finding) > 1 else ""
    return [
        f"finds with {power.power:.0%}: a loss of {', '.join(share)}: {best.check} "
        f"{best.partition}, {best.measured}{of}; false alarms expected: {power.false_alarms:.2g}"
    ]


def _print_suspect(console: Console, suspect: Suspect) -> None:
    name = located.name(suspect)
    first, *rest = layout.wrap(
        f"{name} {located.state(suspect)}: {suspect.why}", console.width, "  ", "    "
    )
    line = Text(first)
    line.stylize("bold", 2, min(2 + len(name), len(first)))
    console.print(line, soft_wrap=True)
    for text in rest:
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    for text in located.evidence(suspect):
        say(console, text, "    ", "      ")


def plain(verdict: Verdict, width: int = layout.WIDTH, all_places: bool = False) -> str:
    """The same without colours, for a file."""
    buffer = io.StringIO()
    render(verdict, Console(file=buffer, width=width, color_system=None), all_places)
    return buffer.getvalue()
