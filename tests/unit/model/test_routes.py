"""Tables of the routes between leaves."""

from __future__ import annotations

import csv
import io
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.common.table import TableError
from railgauge.locating import End, Routes
from railgauge.model.routes import Route, parse

NAMES = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=5)
ROUTES = st.builds(Route, NAMES, st.just("") | NAMES, NAMES, NAMES)


def table(rows: list[Route]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([Route._fields, *rows])
    return text.getvalue()


@given(st.lists(ROUTES, min_size=1, max_size=20, unique_by=lambda route: route[:3]))
def test_a_table_has_its_routes(rows: list[Route]) -> None:
    assert parse(table(rows)) == rows
    assert parse(table(rows + rows)) == rows


@given(st.lists(ROUTES, min_size=1, max_size=5, unique_by=lambda route: route[:3]), st.data())
def test_a_part_of_a_table_has_no_other_routes(rows: list[Route], data: st.DataObject) -> None:
    lines = table(rows).splitlines(keepends=True)
    part = "".join(lines[: data.draw(st.integers(0, len(lines)))])
    try:
        assert parse(part) == rows[: part.count("\n") - 1] != []
    except TableError:
        assert part.count("\n") < 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("leaf,destination\nleaf1,n1\n", "line 1, column spine: the columns leaf, destination"),
        ("leaf,destination,spine\nleaf1,,spine1\n", "line 2, column destination: nothing"),
        (
            "leaf,destination,spine\nleaf1,n1,spine1\nleaf1,n1,spine2\n",
            "line 3, column spine: 'spine2', expected 'spine1', as another line",
        ),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(text: str, error: str) -> None:
    with pytest.raises(TableError, match=error):
        parse(text)


def test_the_sender_decides_where_a_row_says_so() -> None:
    rows = [Route("leaf1", "", "n9", "spine1"), Route("leaf1", "n2", "n9", "spine2")]
    routes = Routes.of_rows(rows)
    assert routes.spine("leaf1", End("n1"), End("n9", "1")) == "spine1"
    assert routes.spine("leaf1", End("n2"), End("n9")) == "spine2"
    assert routes.spine("leaf2", End("n2"), End("n9")) == ""
