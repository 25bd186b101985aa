"""Text that fits a terminal."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from railgauge.report import layout

WORDS = st.lists(st.text("abc,;:()-", min_size=1, max_size=30), min_size=1, max_size=30)


@given(WORDS, st.integers(20, 100))
def test_words_are_never_broken_and_lines_fit_but_for_a_long_word(
    words: list[str], width: int
) -> None:
    lines = layout.wrap(" ".join(words), width, "  ")
    assert " ".join(lines).split() == words
    assert all(len(line) <= max(width, 2 + max(map(len, words))) for line in lines)


def test_a_command_stays_whole_on_a_line_of_its_own() -> None:
    command = "railgauge accept --partition hdr --nodes node-001,node-004"
    text = f"measure the healthy pair with others: {command}, then add the rest one at a time"
    assert layout.wrap(text, 60) == [
        "measure the healthy pair with others:",
        f"{command},",
        "then add the rest one at a time",
    ]


def test_a_command_with_a_quoted_value_stays_whole() -> None:
    command = 'scontrol update nodename=n1 state=drain reason="railgauge: lost, its journal"'
    text = f"as a Slurm administrator: {command}; then the same again"
    assert layout.wrap(text, 60) == [
        "as a Slurm administrator:",
        f"{command};",
        "then the same again",
    ]


def test_the_end_of_a_command_is_no_part_of_the_next_sentence() -> None:
    text = "railgauge campaigns: lists them; " + "more words " * 10
    assert max(map(len, layout.wrap(text, 40))) <= 40


@given(st.text("ab ;:", max_size=80), st.integers(10, 60))
def test_the_first_part_fits_and_begins_the_text(text: str, width: int) -> None:
    part = layout.first_part(" ".join(text.split()), width)
    assert len(part) <= width
    assert " ".join(text.split()).startswith(part.removesuffix("...").rstrip())


def table(rows: int = 2) -> Table:
    made = Table(show_edge=False, pad_edge=False)
    for header in ("check", "measured", "median", "verdict"):
        made.add_column(header)
    for number in range(rows):
        made.add_row("Pair", f"bandwidth {number}", "9.5 ±3%", "ok")
    return made


def shown(width: int, optional: tuple[str, ...] = ("median",)) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None)
    layout.print_table(console, table(), 1, optional)
    return buffer.getvalue()


def test_a_table_that_fits_is_a_table() -> None:
    assert "Pair  │ bandwidth 0 │ 9.5 ±3% │ ok" in shown(80)


def test_rows_of_a_check_are_below_it_where_the_table_is_too_wide() -> None:
    assert shown(32).splitlines() == [
        "  measured     median   verdict",
        "Pair",
        "  bandwidth 0  9.5 ±3%  ok",
        "  bandwidth 1  9.5 ±3%  ok",
    ]


def test_a_column_that_is_left_out_is_named() -> None:
    lines = shown(24).splitlines()
    assert lines[2] == "  bandwidth 0  ok"
    assert lines[-1] == "not shown at 24 columns:" or lines[-2:] == [
        "not shown at 24 columns:",
        "median",
    ]


def test_what_fits_in_no_way_has_each_value_with_its_header() -> None:
    text = shown(20, ())
    assert "  bandwidth 0\n" in text and "median 9.5 ±3%" in text and "verdict ok" in text


def of_nodes(width: int) -> list[str]:
    made = Table(show_edge=False, pad_edge=False)
    for header in ("node", "now", "to know"):
        made.add_column(header)
    made.add_row("n1", "held", "not accepted by 20261121T120000Z-lab-000003: slow")
    made.add_row("n2", "in service", "")
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None)
    layout.print_table(console, made, group=0, below=("to know",))
    return buffer.getvalue().splitlines()


def test_sentences_of_a_row_follow_it_where_it_has_no_room_for_them() -> None:
    assert of_nodes(40) == [
        "node  now",
        "n1    held",
        "  to know: not accepted by",
        "    20261121T120000Z-lab-000003: slow",
        "n2    in service",
    ]
    assert "held" in of_nodes(80)[2] and "slow" in of_nodes(80)[2]


def test_standard_output_that_is_no_terminal_has_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert layout.console().width == 80


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    buffer = io.StringIO()
    Console(file=buffer, force_terminal=True).print("[bold red]REJECT[/]")
    assert "\x1b[31" not in buffer.getvalue() and "REJECT" in buffer.getvalue()
