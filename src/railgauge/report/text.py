"""The verdict in a terminal: a table of measurements, then the findings."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from railgauge import hostlist
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.model.references import Bounded, Reference
from railgauge.model.sizes import format_size
from railgauge.report import transfers
from railgauge.tools import nccl_tests
from railgauge.verdict import provenance
from railgauge.verdict.answer import Finding, Verdict
from railgauge.verdict.compare import Case
from railgauge.verdict.ratios import RatioRow

_STYLES = {"accept": "bold green", "reject": "bold red", "inconclusive": "bold yellow"}


#: Columns that the table needs.
_WIDTH = 138


def _number(value: float) -> str:
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def _nodes(names: Sequence[str]) -> str:
    """A pair in its own order, more as a host list."""
    return " ".join(names) if len(names) <= 2 else hostlist.fold(names)


def _bounds(reference: Bounded) -> str:
    lowest, highest = reference.lowest, reference.highest
    if lowest is not None and highest is not None:
        return f"{_number(lowest)} to {_number(highest)}"
    if lowest is not None:
        return f">= {_number(lowest)}"
    assert highest is not None
    return f"<= {_number(highest)}"


def _reference(row: Row) -> str:
    reference = row.reference
    return "none" if reference is None else f"{_bounds(reference)} ({reference.kind})"


def _status(case: Case, row: Row) -> Text:
    if row.within is False:
        return Text("out", style="bold red")
    if case.failures:
        return Text("failed", style="red")
    return Text("ok" if row.within else "recorded", style="green" if row.within else "yellow")


def _condition(measurement: Measurement) -> str:
    """What tells the rows of a check apart, in few words."""
    parts = []
    if measurement.rails or measurement.tool == nccl_tests.TOOL or transfers.is_of(measurement):
        parts.append(measurement.operation.replace("_bidirectional", " both ways"))
    if measurement.tool == nccl_tests.TOOL:
        parts.append(measurement.transport)
    if measurement.metric == "mpi_time":
        parts.append(measurement.operation)
    parts += [f"rails {measurement.rails}"] if measurement.rails else []
    parts += [measurement.nics] if measurement.nics else []
    if measurement.delay_ms is not None:
        parts.append(f"{measurement.delay_ms:g} ms")
    if measurement.congestion:
        parts.append(measurement.congestion)
    if measurement.window_bytes is not None:
        parts.append(format_size(measurement.window_bytes))
    return " ".join(parts)


def _metric(measurement: Measurement) -> str:
    size = measurement.size_bytes
    return measurement.metric if size is None else f"{measurement.metric} {format_size(size)}"


def _new_table() -> Table:
    return Table(show_edge=False, pad_edge=False, header_style="bold")


def _table(verdict: Verdict) -> Table:
    table = _new_table()
    table.add_column("check", no_wrap=True)
    # Where host names are long, these four fold and share what the others leave; none is cut.
    table.add_column("nodes", overflow="fold", min_width=7)
    table.add_column("condition", overflow="fold")
    table.add_column("metric", overflow="fold")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("reference", overflow="fold")
    table.add_column("of limit", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for case in verdict.cases:
        for row in case.rows:
            if not row.gates and row.within is not False:
                continue
            share = row.share_of_limit
            table.add_row(
                case.check,
                _nodes(row.measurement.nodes),
                _condition(row.measurement),
                _metric(row.measurement),
                f"{_number(row.measurement.value)} {row.measurement.unit.removeprefix('1')}",
                _reference(row),
                "-" if share is None else f"{share:.1%}",
                _status(case, row),
            )
    return table


def _ratio_status(row: RatioRow) -> Text:
    if row.within is not None:
        return Text("ok", style="green") if row.within else Text("out", style="bold red")
    return Text("not measured" if row.value is None else "context", style="yellow")


def _ratio_table(ratios: Sequence[RatioRow]) -> Table:
    table = _new_table()
    table.add_column("ratio", overflow="fold")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("reference", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in ratios:
        reference = row.reference
        table.add_row(
            escape(row.name),
            "-" if row.value is None else _number(row.value),
            f"{reference.value:g} (context)" if reference.is_context else _bounds(reference),
            _ratio_status(row),
        )
    return table


def _context_table(cases: Sequence[Case]) -> Table | None:
    """Each published number once, beside all that was measured under what it states."""
    beside: dict[tuple[str, str, Reference], list[float]] = {}
    for case in cases:
        for row in case.rows:
            for number in row.context:
                key = case.check, row.measurement.variable, number
                beside.setdefault(key, []).append(row.measurement.value)
    if not beside:
        return None
    table = _new_table()
    for name in ("check", "metric"):
        table.add_column(name, no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("elsewhere", justify="right", no_wrap=True)
    table.add_column("context, gating nothing", overflow="fold")
    for (check, variable, number), values in beside.items():
        ends = dict.fromkeys(_number(value) for value in (min(values), max(values)))
        table.add_row(
            check,
            variable,
            f"{' to '.join(ends)} {number.unit}",
            f"{number.value:g} {number.unit}",
            escape(number.note or number.provenance.source),
        )
    return table


def _print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """The findings of one place: where it is, each message, the evidence, what to do."""

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
        line(f"    - {finding.message}")
    for step in dict.fromkeys(f.next_step for f in findings if f.next_step):
        line(f"    next: {step}")
    if first.evidence:
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
    """One line a tool and build; several programs of one package are one."""
    lines: dict[tuple[str, str], set[str]] = {}
    for build in verdict.tools:
        # Of Railgauge's own programs it is the interpreter's.
        if build.package and not build.program.startswith("python3"):
            key = build.tool, provenance.describe(build)
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


def render(verdict: Verdict, console: Console) -> None:
    """Print the table, the findings, the suspects, and the verdict as the last line."""
    say_if_simulated(verdict, console)
    if any(case.rows for case in verdict.cases):
        console.print(_table(verdict))
        if verdict.provisional:
            console.print("bounds marked (published): published, not your baseline")
        if verdict.by_floors:
            console.print("bounds marked (floor): they prove function only, and are no baseline")
        console.print()
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
    for _, group in itertools.groupby(
        verdict.findings, key=lambda f: (f.weight, f.check, f.partition, f.evidence)
    ):
        _print_findings(console, list(group))
    for suspect in verdict.suspects:
        console.print(f"  look first at [bold]{escape(suspect.node)}[/]: {escape(suspect.why)}")
    for way in verdict.ways:
        between = " and ".join(way.nodes)
        console.print(
            f"  no node explains it; look at the way between [bold]{escape(between)}[/], on which "
            f"other jobs ran: {escape(way.why)}",
            soft_wrap=True,
        )
    for line in _sessions(verdict):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for what, why in verdict.campaign.scope.absent.items():
        console.print(f"  left out, declared absent: [bold]{escape(what)}[/]: {escape(why)}")
    for notice in verdict.notices:
        console.print(f"  note: {notice.message}", highlight=False, markup=False, soft_wrap=True)
    left_out = transfers.left_out(verdict)
    for line in left_out:
        console.print(line, highlight=False, soft_wrap=True)
    if (
        verdict.findings
        or verdict.campaign.scope.absent
        or verdict.notices
        or verdict.campaign.earlier
        or left_out
    ):
        console.print()
    mark = "SIMULATED " if verdict.simulated else ""
    console.print(
        Text(mark + verdict.decision.upper(), style=_STYLES[verdict.decision]),
        Text(f"{verdict.reason}  ({verdict.campaign.folder})"),
        soft_wrap=True,
    )


def plain(verdict: Verdict, width: int = _WIDTH) -> str:
    """The same without colours, for a file."""
    buffer = io.StringIO()
    render(verdict, Console(file=buffer, width=width, color_system=None))
    return buffer.getvalue()
