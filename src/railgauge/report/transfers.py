"""The comparison of transfer tools: tool by set of files and way, on one page.

What the receiver threw away measures the network, what it wrote the disk too: a tool is compared
with those that did the same. Next to it stand the ratios that documents state, where both of their
sides were measured in the campaign.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from railgauge.model.failure import NO_REFERENCE
from railgauge.model.measurement import Measurement
from railgauge.model.sizes import format_size
from railgauge.report import layout
from railgauge.tools import names
from railgauge.tools.file_transfer import DISCARDED, PROGRAMS, FileSet
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.ratios import RatioRow
from railgauge.verdict.decision.verdict import Verdict

#: In the order of the rows.
_TOOLS = (names.IPERF3, names.WDT, *PROGRAMS)
_SETS = tuple(FileSet(files, 1).name for files in (1, 2))

#: Behind the name of a tool with a receiver that threw the files away.
_THROWN_AWAY = " (discarded)"


def is_of(measurement: Measurement) -> bool:
    return measurement.operation.removesuffix(DISCARDED) in _SETS


@dataclasses.dataclass(frozen=True)
class TransferColumn:
    """What is compared: a set of files, or streams without any, over one way."""

    files: str
    size_bytes: int | None
    delay_ms: float | None

    def __str__(self) -> str:
        way = "LAN" if self.delay_ms is None else f"{self.delay_ms:g} ms"
        if self.size_bytes is None:
            return f"no files\n{way}"
        kind = "one file" if self.files == _SETS[0] else "small files"
        return f"{kind} {format_size(self.size_bytes)}\n{way}"


@dataclasses.dataclass(frozen=True)
class Cell:
    """The median over the pairs that came to a good result, and how many those were."""

    rate_gbits_s: float
    seconds: float | None
    pairs: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The transfers of one partition: `cells` by tool and column."""

    partition: str
    columns: tuple[TransferColumn, ...]
    cells: dict[tuple[str, TransferColumn], Cell]
    #: tool -> number of its cases that failed, that were left out
    failed: dict[str, int]
    left_out: dict[str, int]

    @property
    def tools(self) -> list[str]:
        named = {tool for tool, _ in self.cells} | set(self.failed) | set(self.left_out)
        return sorted(named, key=_order)

    def times_the_slowest(self, tool: str, column: TransferColumn) -> float | None:
        """None where there is nothing to compare with, or no file is moved."""
        rates = [
            cell.rate_gbits_s
            for (other, c), cell in self.cells.items()
            if c == column and is_thrown_away(other) is is_thrown_away(tool)
        ]
        if column.size_bytes is None or len(rates) < 2 or min(rates) <= 0:
            return None
        return self.cells[tool, column].rate_gbits_s / min(rates)


def is_thrown_away(tool: str) -> bool:
    """Whether it is a row of files that the receiver threw away."""
    return tool.endswith(_THROWN_AWAY)


def _order(tool: str) -> tuple[int, str]:
    name = tool.partition(" ")[0]
    return _TOOLS.index(name) if name in _TOOLS else len(_TOOLS), tool


def compare(cases: Sequence[Case]) -> list[Comparison]:
    """One comparison for each partition that has transfers; numbers of good cases only."""
    comparisons = []
    ours = [case for case in cases if case.transfer_tool]
    for partition in dict.fromkeys(case.partition for case in ours):
        here = [case for case in ours if case.partition == partition]
        values: dict[tuple[str, TransferColumn], dict[str, list[float]]] = {}
        failed: dict[str, int] = {}
        left_out: dict[str, int] = {}
        for case in here:
            tool = case.transfer_tool
            if case.was_left_out:
                left_out[tool] = left_out.get(tool, 0) + 1
            elif not _is_good(case):
                failed[tool] = failed.get(tool, 0) + 1
            for row in case.rows if _is_good(case) else ():
                m = row.measurement
                thrown = m.operation.endswith(DISCARDED)
                moved = m.operation.removesuffix(DISCARDED)
                column = TransferColumn(moved, m.size_bytes, m.delay_ms)
                key = f"{tool}{_THROWN_AWAY}" if thrown else tool, column
                values.setdefault(key, {}).setdefault(m.metric, []).append(m.value)
        cells = {
            key: Cell(
                statistics.median(metrics["bandwidth"]),
                statistics.median(times) if (times := metrics.get("transfer_time")) else None,
                len(metrics["bandwidth"]),
            )
            for key, metrics in values.items()
            if "bandwidth" in metrics
        }
        columns = sorted(
            {column for _, column in cells},
            key=lambda c: (c.size_bytes is not None, -(c.size_bytes or 0), c.delay_ms or -1.0),
        )
        comparisons.append(Comparison(partition, tuple(columns), cells, failed, left_out))
    return comparisons


def _is_good(case: Case) -> bool:
    """A result, whatever its reference says; of a baseline, too."""
    broken = any(failure.kind != NO_REFERENCE for failure in case.failures)
    return case.finished and bool(case.rows) and not case.damage and not broken


def cell_text(comparison: Comparison, tool: str, column: TransferColumn) -> str:
    cell = comparison.cells.get((tool, column))
    if cell is None:
        return "-"
    # A number is not folded from its unit.
    parts = [f"{cell.rate_gbits_s:.4g}\u00a0Gb/s"]
    if cell.seconds is not None:
        parts.append(f"{cell.seconds:.3g}\u00a0s")
    times = comparison.times_the_slowest(tool, column)
    if times is not None:
        parts.append(f"{times:.3g}x")
    return "  ".join(parts)


def remark(comparison: Comparison, tool: str) -> str:
    pairs = [cell.pairs for (t, _), cell in comparison.cells.items() if t == tool]
    counts = {
        "pairs": max(pairs, default=0),
        "failed": comparison.failed.get(tool, 0),
        "left out": comparison.left_out.get(tool, 0),
    }
    remarks = [f"{count} {word}" for word, count in counts.items() if count and word != "pairs"]
    if counts["pairs"] > 1:
        remarks.insert(0, f"median of {counts['pairs']} pairs")
    return ", ".join(remarks)


def tables(cases: Sequence[Case]) -> list[Table]:
    """The page, as tables; none where there are no transfers."""
    made = []
    for comparison in compare(cases):
        table = Table(show_edge=False, pad_edge=False, header_style="bold")
        table.add_column(f"transfers, {comparison.partition}", no_wrap=True)
        for column in comparison.columns:
            table.add_column(str(column), justify="right")
        table.add_column("")
        for tool in comparison.tools:
            cells = [cell_text(comparison, tool, column) for column in comparison.columns]
            table.add_row(tool, *cells, remark(comparison, tool))
        made.append(table)
    return made


def stated(verdict: Verdict) -> list[RatioRow]:
    """The ratios of bandwidths that documents state of transfers, or of a long way: context, which
    judges nothing.
    """
    checks = {case.check for case in verdict.cases if case.transfer_tool}
    return [
        row
        for row in verdict.ratios
        if row.reference.is_context
        and row.reference.metric == "bandwidth"
        and ({row.reference.of.check, row.reference.over.check} & checks or _ways_differ(row))
    ]


def _ways_differ(row: RatioRow) -> bool:
    ways = [side.stated.get("delay_ms", "any") for side in (row.reference.of, row.reference.over)]
    return "any" not in ways and ways[0] != ways[1]


def stated_rows(rows: Sequence[RatioRow]) -> list[tuple[str, ...]]:
    """Name, measured, stated, and what of: the cells of a line each."""
    return [
        (
            row.name,
            "-" if row.value is None else f"{row.value:.3g}x",
            f"{row.reference.value:g}x",
            row.reference.note or "",
        )
        for row in rows
    ]


def _stated_table(rows: Sequence[RatioRow]) -> Table:
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("ratio", overflow="fold")
    table.add_column("here", justify="right", no_wrap=True)
    table.add_column("stated", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    for cells in stated_rows(rows):
        table.add_row(*map(escape, cells))
    return table


def render_page(verdict: Verdict, console: Console) -> None:
    """Print the page, and what documents state next to it."""
    render(verdict, console)
    rows = stated(verdict)
    if rows:
        layout.print_table(console, _stated_table(rows), below=("what",))
        sources = dict.fromkeys(row.reference.provenance.source for row in rows)
        for source in sources:
            layout.say(console, f"stated: {source}", rest="  ")
        console.print()


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """The page as a document (docs/schema/transfers.json)."""
    compared = compare(verdict.cases)

    def counts(of: str) -> list[dict[str, Any]]:
        return [
            {"partition": comparison.partition, "tool": tool, "cases": count}
            for comparison in compared
            for tool, count in getattr(comparison, of).items()
        ]

    return {
        "campaign": verdict.campaign.id,
        "simulated": verdict.simulated,
        "transfers": [
            {
                "partition": comparison.partition,
                "tool": tool.removesuffix(_THROWN_AWAY),
                "discarded": is_thrown_away(tool),
                **dataclasses.asdict(column),
                **dataclasses.asdict(cell),
                "times_the_slowest": comparison.times_the_slowest(tool, column),
            }
            for comparison in compared
            for (tool, column), cell in comparison.cells.items()
        ],
        "stated": [
            {
                "name": row.name,
                "measured": row.value,
                "stated": row.reference.value,
                "note": row.reference.note or "",
                "source": row.reference.provenance.source,
            }
            for row in stated(verdict)
        ],
        "failed": counts("failed"),
        "left_out": counts("left_out"),
    }


def render(verdict: Verdict, console: Console) -> None:
    """Print the page, where there are transfers."""
    for table in tables(verdict.cases):
        layout.print_table(console, table)
        layout.say(
            console,
            "x: times the slowest tool with the same files on the same path, both discarded or "
            "both written; wdt reports its own time, for the others it is from start to end of "
            "the program",
        )
        console.print()


def left_out(verdict: Verdict) -> list[str]:
    """The checks that were not run, why, and what to install: one line each."""
    lines: dict[tuple[str, str], str] = {}
    for case in verdict.cases:
        if case.was_left_out and case.left_out:
            reason = f"{case.left_out.message}; next: {case.left_out.next_step}"
            key = case.check, reason
            lines[key] = f"left out, optional: {case.check} {case.partition}: {reason}"
    return list(lines.values())
