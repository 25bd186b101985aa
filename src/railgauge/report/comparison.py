"""Before and after in a terminal: a line a class of places, then the places that moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from railgauge import hostlist
from railgauge.report import layout
from railgauge.report.numbers import new_table, number
from railgauge.verdict.comparison.before_after import Class, Comparison
from railgauge.verdict.comparison.inventory_drift import Drift
from railgauge.verdict.comparison.link_changes import Word

#: How many places are listed; the others are counted, and in the JSON.
_LISTED = 20

_STYLES: dict[Word, str] = {
    "better": "green",
    "same": "green",
    "worse": "bold red",
    "unknown": "yellow",
}

_SHOWN: dict[Word, str] = {
    "worse": "worse",
    "better": "better",
    "same": "same",
    "unknown": "cannot tell",
}


def render(compared: Comparison, drift: Sequence[Drift], console: Console) -> None:
    """Print the answer, the table of the conditions, what moved or is missing, and the answer again
    as the last line.

    The table is as benchstat's: medians, the change with its interval and p, `~` where there is
    none; `finds` is the smallest loss on one place that would have been found with 99 %. Where it
    is too wide, the change has no interval.
    """
    *details, verdict = lines(compared, drift)
    _say(console, verdict)
    console.print()
    table = _table(compared, with_interval=True)
    if not layout.fits(console, table):
        table = _table(compared, with_interval=False)
    layout.print_table(console, table, optional=("p", "finds", "shift of all"))
    if details:
        console.print()
    for line in (*details, verdict):
        _say(console, line)


def _say(console: Console, line: str) -> None:
    """Print a line of `lines`, wrapped between words, with its first word in its colour."""
    text = Text.from_markup(line)
    first, *rest = layout.wrap(text.plain, console.width, rest="  ")
    shown = Text(first, spans=[span for span in text.spans if span.end <= len(first)])
    console.print(shown, highlight=False, soft_wrap=True)
    for more in rest:
        console.print(more, highlight=False, markup=False, soft_wrap=True)


def _table(compared: Comparison, with_interval: bool) -> Table:
    table = new_table()
    table.add_column("condition", overflow="fold")
    for name in ("before", "after", "shift of all", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in (*_SHOWN.values(), "finds"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in sorted(compared.classes, key=lambda one: one.name):
        table.add_row(
            escape(one.name),
            number(one.before),
            f"{number(one.after)} {one.unit.removeprefix('1')}".rstrip(),
            _change(one, with_interval),
            _p(one.shift["p"]) if one.shift else "",
            *(f"[{_STYLES[w]}]{one.words[w]}[/]" if one.words[w] else "-" for w in _SHOWN),
            "-" if one.finds is None else f"{one.finds:.1%}",
        )
    return table


def _change(one: Class, with_interval: bool) -> str:
    """`~` where the class is the same; nothing where it has too few places for one."""
    if one.shift is None:
        return ""
    word = one.shift["verdict"]
    if word == "same":
        return "~"
    change = one.shift["change"]
    text = _interval(change, *one.shift["interval"]) if with_interval else f"{change:+.1%}"
    return f"[{_STYLES[word]}]{text}[/]"


def _interval(change: float, low: float, high: float) -> str:
    return f"{change:+.1%} ({low:+.1%} to {high:+.1%})"


def _p(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def lines(compared: Comparison, drift: Sequence[Drift]) -> list[str]:
    """What moved, what is missing, what changed on the nodes, and the answer, with markup."""
    texts = [
        f"[{_STYLES[shift['verdict']]}]{shift['verdict']}[/]: all {shift['places']} places of "
        f"{escape(shift['class'])}: {_interval(shift['change'], *shift['interval'])}"
        for shift in _moved_alike(compared)
    ]
    moved: tuple[Word, ...] = ("worse", "better")
    for word in moved:
        texts += _moved(compared.places.filter(pl.col("verdict") == word), word)
    for side in ("before", "after"):
        places = compared.missing.filter(pl.col("side") == side)
        texts += [
            f"[yellow]missing[/] {side}: {escape(row['place'])}, {escape(row['condition'])}"
            for row in places.sort("condition", "place").head(_LISTED).iter_rows(named=True)
        ]
        texts += _more(places.height, f"missing {side}")
    texts += [f"changed: {escape(_drifted(one, compared.places))}" for one in drift]
    return [
        *texts,
        f"[{_STYLES[compared.word]}]{_SHOWN[compared.word].upper()}[/]: {answer(compared)}",
    ]


def _moved_alike(compared: Comparison) -> list[dict[str, Any]]:
    """What all places of a class lost, or gained."""
    shifts = (one.shift for one in compared.classes)
    return [shift for shift in shifts if shift and shift["verdict"] in ("worse", "better")]


def _moved(places: pl.DataFrame, word: Word) -> list[str]:
    """The places, that with the largest change first, each by its own change."""
    ordered = places.sort(pl.col("change").abs(), descending=True)
    texts = [
        f"[{_STYLES[word]}]{word}[/]: {escape(row['place'])}, {escape(row['condition'])}: "
        f"{number(row['before'])} to {number(row['after'])}, "
        f"its own change {_interval(row['change'], row['low'], row['high'])}, p {_p(row['p'])}"
        for row in ordered.head(_LISTED).iter_rows(named=True)
    ]
    return [*texts, *_more(ordered.height, word)]


def _more(height: int, word: str) -> list[str]:
    return [f"{word}: and {height - _LISTED} more: --json has all"] if height > _LISTED else []


def _drifted(drift: Drift, places: pl.DataFrame) -> str:
    """A change, the nodes that have it, and whether their places moved more than the others."""
    nodes, others = (hostlist.fold(n) if n else "none" for n in (drift.nodes, drift.others))
    if not drift.others:
        return f"{drift.change} (all {len(drift.nodes)} nodes)"
    text = f"{drift.change} on {nodes}, not on {others}"
    changed = pl.col("nodes").str.split(",").list.eval(pl.element().is_in(drift.nodes)).list.any()
    moved = [
        f"{side.filter(pl.col('verdict').is_in(['worse', 'better'])).height} of {side.height}"
        for side in (places.filter(changed), places.filter(~changed))
    ]
    if moved[0].startswith("0 ") and moved[1].startswith("0 "):
        return text
    return f"{text}; better or worse: {moved[0]} places with these nodes, {moved[1]} others"


def answer(compared: Comparison) -> str:
    """How many places came to which word, and what the others need; plain."""
    counts = {
        shown: compared.places.filter(pl.col("verdict") == word).height
        for word, shown in _SHOWN.items()
    }
    counted = ", ".join(f"{many} {shown}" for shown, many in counts.items() if many)
    # What all have lost stands in no place of its own.
    alike = "".join(
        f"all {shift['places']} places of {shift['class']} {shift['verdict']} by "
        f"{abs(shift['change']):.1%}; apart from that, "
        for shift in _moved_alike(compared)
    )
    text = (
        f"{alike}{counted} of {compared.places.height} places under a condition, against a change "
        "of " + " and ".join(f"{margin:.1%}" for margin in compared.margins)
    )
    return text + _more_runs(compared)


def _more_runs(compared: Comparison) -> str:
    """How many more runs a side would decide half of the undecided places."""
    unknown = compared.places.filter(pl.col("verdict") == "unknown")
    needed: Any = unknown["runs_needed"].drop_nulls().median()
    if unknown.is_empty():
        return ""
    if unknown["p"].null_count() == unknown.height:
        return "; one run of few places has no spread: measure them twice a side or more"
    if needed is None:
        return "; no number of runs would decide the others at this spread"
    return f"; {needed:.0f} more runs a side would decide half of the others"
