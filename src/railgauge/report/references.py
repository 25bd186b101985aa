"""The stored numbers of a system as a table: where each comes from, how old, and whether stale."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from railgauge.campaign.folder import Campaign
from railgauge.model.references import Entry, Reference, References
from railgauge.model.sizes import format_size
from railgauge.report import layout
from railgauge.report.numbers import bounds, new_table, number
from railgauge.verdict.comparison import measurement_table, promotion


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
    count = 0
    for entry, metric, reference, why in _judged(stored, newer):
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
    against = f"compared with {newer.id}" if newer else "no campaign to compare with"
    layout.say(console, f"{count} of {shown.row_count} stale, {against}: {stored.path}")
    console.print()
    layout.print_table(console, shown, below=("source", "stale"))


def as_dict(system: str, stored: References, newer: Campaign | None) -> dict[str, Any]:
    """The same for programs."""
    return {
        "system": system,
        "file": str(stored.path),
        "against": newer.id if newer else None,
        "references": [
            {
                "condition": _condition(entry),
                "metric": metric,
                **reference.model_dump(mode="json"),
                "lowest": reference.lowest,
                "highest": reference.highest,
                "context": reference.is_context,
                "stale": list(why),
            }
            for entry, metric, reference, why in _judged(stored, newer)
        ],
    }


def _judged(
    stored: References, newer: Campaign | None
) -> Iterator[tuple[Entry, str, Reference, Sequence[str]]]:
    """Every number, and why it is stale; nothing of one that is not."""
    frame = measurement_table.read(newer) if newer else None
    for entry in stored.entries:
        for metric, reference in entry.metrics.items():
            why: Sequence[str] = ()
            if newer is not None and frame is not None and reference.kind == "baseline":
                why = promotion.stale(entry, metric, frame, newer.fingerprints)
            yield entry, metric, reference, why


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
        ("warm-up", entry.warmup),
    )
    parts = [f"{entry.check} {entry.partition}", size, entry.operation, entry.transport]
    parts += [f"{name} {value}" for name, value in named if value is not None]
    return ", ".join(part for part in (*parts, entry.congestion) if part)
