"""Every term that the text of a verdict uses is explained by `railgauge explain`."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from railgauge.model import catalogue
from railgauge.report import numbers, text
from tests.unit.report.test_numbers import case, measured, pairs, verdict


def headers() -> set[str]:
    bad = verdict(pairs((9.0, 4.0, 9.2)))
    tables = [numbers.by_condition(bad), numbers.by_place(bad, True)]
    found = {str(column.header) for table in tables if table for column in table.columns}
    return found | set(re.split("  +", numbers.by_check(bad, 80)[0].plain.strip()))


STATUSES = {*numbers._STYLES, *numbers._BAD, *numbers._OPEN}
LABELS = {"finds with", "left out", "note", "evidence", "files", "±", "floor", "published"}


@pytest.mark.parametrize("term", sorted(headers() | STATUSES | LABELS))
def test_a_term_of_the_output_is_explained(term: str) -> None:
    assert catalogue.explained(term), f"add {term!r} to src/railgauge/model/terms.yaml"


@pytest.mark.parametrize("all_places", [False, True])
def test_a_verdict_fits_80_columns(all_places: bool) -> None:
    odd = case(measured(4.0, ("n7", "n8"), operation="write_bidirectional", delay_ms=44.0))
    shown = io.StringIO()
    decided = verdict([*pairs((9.0, 9.1, 4.0)), odd])
    text.render(decided, Console(file=shown, width=80, color_system=None), all_places)
    assert max(map(len, shown.getvalue().splitlines())) <= 80


@pytest.mark.parametrize("all_places", [False, True])
def test_the_answer_is_first_and_last(all_places: bool) -> None:
    first, *_, last = text.plain(verdict(pairs((9.0,))), all_places=all_places).splitlines()
    assert first.startswith("ACCEPT") and last.startswith("ACCEPT")


def test_an_accept_has_a_line_a_check() -> None:
    both = [*pairs((9.0, 8.0), load="loaded"), *pairs((9.5, 9.4), load="quiet")]
    shown = text.plain(verdict(both)).splitlines()
    assert len([line for line in shown if line.startswith("RdmaBandwidth")]) == 1
