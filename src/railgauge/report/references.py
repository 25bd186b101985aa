"""The stored numbers of a system as a table: where each comes from, how old, and whether stale."""

from __future__ import annotations

import datetime

from rich.console import Console
from rich.markup import escape

from railgauge.campaign.folder import Campaign
from railgauge.model.references import Entry, References
from railgauge.model.sizes import format_size
from railgauge.report.numbers import bounds, new_table, number
from railgauge.verdict import baselines, table


def render(
    stored: References, newer: Campaign | None, today: datetime.date, console: Console
) -> None:
    """A line a number; `newer` is the campaign that says what is stale, if there is one."""
    shown = new_table()
    for name in ("condition", "metric"):
        shown.add_column(name, overflow="fold")
    shown.add_column("value", justify="right", no_wrap=True)
    for name in ("bounds", "kind"):
        shown.add_column(name, no_wrap=True)
    shown.add_column("age", justify="right", no_wrap=True)
    for name in ("source", "stale"):
        shown.add_column(name, overflow="fold")
    frame = table.read(newer) if newer else None
    count = 0
    for entry in stored.entries:
        for metric, reference in entry.metrics.items():
            why = []
            if newer is not None and frame is not None and reference.kind == "baseline":
                why = baselines.stale(entry, metric, frame, newer.fingerprints)
            count += bool(why)
            shown.add_row(
                escape(_condition(entry)),
                metric,
                f"{number(reference.value)} {reference.unit}",
                "context" if reference.is_context else bounds(reference),
                reference.kind,
                f"{(today - reference.provenance.date).days} d",
                escape(reference.provenance.source),
                escape("; ".join(why)),
                style="yellow" if why else None,
            )
    console.print(shown)
    against = f"against {newer.id}" if newer else "no campaign of it says what is stale"
    console.print(f"{stored.path}: {count} stale, {against}", soft_wrap=True, highlight=False)


def _condition(entry: Entry) -> str:
    """All that an entry states."""
    size = "" if entry.size_bytes is None else format_size(entry.size_bytes)
    named = (
        ("rails", entry.rails),
        ("nodes", entry.nodes),
        ("ranks", entry.ranks),
        ("streams", entry.streams),
        ("window", entry.window_bytes),
        ("ms", entry.delay_ms),
        ("nics", entry.nics),
    )
    parts = [f"{entry.check} {entry.partition}", size, entry.operation, entry.transport]
    parts += [f"{name} {value}" for name, value in named if value is not None]
    return ", ".join(part for part in (*parts, entry.congestion) if part)
