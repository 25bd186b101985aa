"""Anyone's CSV: what is read, and what a hostile one is answered with."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.common.table import TableError
from railgauge.locating import End, locate
from railgauge.verdict.location.from_csv import read, read_uplinks
from tests.properties import tries

HEALTHY = "a,b,value\n" + "".join(f"n{k},n{k + 1},24.{k}\n" for k in range(1, 9))


def test_three_columns_are_enough() -> None:
    evidence = read(HEALTHY)
    assert len(evidence.results) == 8 and evidence.results[0].round is None


def test_all_columns_are_read_and_others_are_left_alone() -> None:
    evidence = read(
        "when,B,a,leaf_b,leaf_a,rail,ok,round,value,condition,events_b\n"
        "noon,n2,n1,l2,l1,mlx5_3,1,4,24.5,quiet,7\n"
    )
    (o,) = evidence.results
    assert o.ends == (End("n1", "mlx5_3"), End("n2", "mlx5_3"))
    assert (o.value, o.round, o.quiet, o.sender_events, o.receiver_events) == (24.5, 4, True, 0, 7)
    assert evidence.leaves == {o.sender: "l1", o.receiver: "l2"}


@pytest.mark.parametrize("separator", [";", "\t"])
def test_what_parts_the_cells_of_a_spreadsheet_may_be_no_comma(separator: str) -> None:
    evidence = read("# of Excel\n" + HEALTHY.replace(",", separator))
    assert evidence.results == read(HEALTHY).results


def test_each_end_may_have_a_rail_of_its_own() -> None:
    (o,) = read("a,b,value,rail_a,rail_b\nn1,n2,24,0,1\n").results
    assert (o.sender.name, o.receiver.name) == ("n1:0", "n2:1")


@pytest.mark.parametrize("ok", ["0", "false", "FAILED", "no"])
def test_no_value_and_not_ok_is_a_run_that_failed(ok: str) -> None:
    evidence = read(f"a,b,value,ok\nn1,n2,,{ok}\n")
    assert evidence.results[0].value is None and evidence.missing == []


@pytest.mark.parametrize("ok", ["", "1"])
def test_no_value_alone_is_missing_and_accuses_nobody(ok: str) -> None:
    evidence = read(f"a,b,value,ok,round\nn1,n2,,{ok},3\n")
    (missing,) = evidence.missing
    assert (missing.place, missing.round) == ("n1-n2", 3)
    assert locate(evidence).suspects == ()


def test_what_is_not_ok_failed_whatever_its_value() -> None:
    assert read("a,b,value,ok\nn1,n2,24,0\n").results[0].value is None


def test_who_is_absent_from_a_full_round_is_missing() -> None:
    rows = [(f"n{k}", f"n{k + 1}", r) for r in (0, 1) for k in range(1, 12, 2)]
    text = "a,b,value,round\n" + "".join(f"{a},{b},24,{r}\n" for a, b, r in rows[:-1])
    assert [(m.place, m.round) for m in read(text).missing] == [("n11", 1), ("n12", 1)]


def test_rounds_of_one_result_beside_full_ones_are_quiet() -> None:
    full = [(f"n{k}", f"n{k + 1}", 0) for k in range(1, 12, 2)]
    alone = [("n1", "n2", 1), ("n3", "n4", 2), ("n5", "n6", 3)]
    text = "a,b,value,round\n" + "".join(f"{a},{b},24,{r}\n" for a, b, r in [*full, *alone])
    assert [o.quiet for o in read(text).results] == [False] * 6 + [True] * 3


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEALTHY,
        HEALTHY.replace("\n", "\r\n"),
        HEALTHY + "\n,,\n\n",
        HEALTHY.rstrip(),
        "# 2026\n" + HEALTHY,
        "\n".join(
            ", ".join(f'"{c}"' for c in line.split(",")) for line in HEALTHY.split("\n")[:-1]
        ),
        HEALTHY.replace("\n", ",1.0\n").replace("value,1.0", "value,ok"),
    ],
    ids=[
        *("byte order mark", "CRLF", "empty rows", "no last line end", "remark"),
        *("blanks before quotes", "numbers of pandas"),
    ],
)
def test_what_spreadsheets_write_is_read(text: str) -> None:
    assert len(read(text).results) == 8


HOSTILE = {
    "nothing": ("", "line 1: no row"),
    "a header alone": ("a,b,value\n", "no row"),
    "no value column": ("a,b,bandwidth\nn1,n2,3\n", "line 1, column value"),
    "a column twice": ("a,b,value,value\nn1,n2,3,4\n", "line 1, column value"),
    "too few cells": ("a,b,value\nn1,n2\n", "line 2: 2 cells"),
    "too many cells": ("a,b,value\nn1,n2,3,4\n", "line 2: 4 cells"),
    "no node": ("a,b,value\n,n2,3\n", "line 2, column a"),
    "with itself": ("a,b,value\nn1,n1,3\n", "line 2, column b: 'n1'"),
    "a word": ("a,b,value\nn1,n2,fast\n", "line 2, column value: 'fast'"),
    "not a number": ("a,b,value\nn1,n2,nan\n", "line 2, column value: 'nan'"),
    "infinite": ("a,b,value\nn1,n2,1e999\n", "line 2, column value"),
    "below zero": ("a,b,value\nn1,n2,-1\n", "line 2, column value: '-1'"),
    "Python's number": ("a,b,value\nn1,n2,2_4\n", "line 2, column value: '2_4'"),
    "another ok": ("a,b,value,ok\nn1,n2,3,maybe\n", "line 2, column ok: 'maybe'"),
    "half a round": ("a,b,value,round\nn1,n2,3,1.5\n", "line 2, column round: '1.5'"),
    "more events than any": (
        f"a,b,value,events_a\nn1,n2,3,{'9' * 5000}\n",
        "line 2, column events_a: '9999999999999999999999999999999999999999...', expected how many",
    ),
    "two leaves": (
        "a,b,value,leaf_a\nn1,n2,3,l1\nn1,n3,3,l2\n",
        "line 3, column leaf_a: 'l2', expected 'l1', as n1 has in line 2",
    ),
    "an open quote": ('a,b,value\n"n1,n2,3\n', "expected comma-separated cells"),
    "a name of two lines": ('a,b,value\n"n1\nn9",n2,3\n', "column a: 'n1\\nn9'"),
    "colours in a name": ("a,b,value\nn1,\x1b[31mn2,3\n", "line 2, column b"),
    "a huge cell": (f"a,b,value\nn1,n2,{'9' * 200_000}\n", "expected comma-separated cells"),
}


def test_a_row_that_is_there_twice_is_one_result() -> None:
    rows = "n1,n2,24.5,0\nn1,n2,24.5,1\nn1,n2,,1\n" * 3
    assert len(read(f"a,b,value,round\n{rows}").results) == 2
    failed = "n1,n2,,0\n" * 3
    assert len(read(f"a,b,value,ok\n{failed}").results) == 3


@pytest.mark.parametrize("name", HOSTILE)
def test_a_table_that_is_none_is_refused_with_its_place(name: str) -> None:
    text, told = HOSTILE[name]
    with pytest.raises(TableError) as refused:
        read(text)
    assert told in str(refused.value) and len(str(refused.value)) < 300


@settings(max_examples=tries(200))
@given(st.text(max_size=80))
def test_nothing_crashes_the_reader(rows: str) -> None:
    try:
        locate(read(f"a,b,value,ok,round,rail,leaf_a,leaf_b\n{rows}"))
    except TableError as error:
        assert str(error).startswith("line ")


CELL = st.sampled_from(["n1", "n2", "n3", "", "0", "1", "24.5", "x", "1.0", "-3", '"', "nan"])


@settings(max_examples=tries(200))
@given(st.lists(st.lists(CELL, min_size=8, max_size=8), max_size=12))
def test_rows_of_likely_cells_are_read_or_refused(rows: list[list[str]]) -> None:
    text = "a,b,value,ok,round,rail,leaf_a,leaf_b\n" + "\n".join(map(",".join, rows))
    try:
        locate(read(text))
    except TableError as error:
        assert str(error).startswith("line ")


@settings(max_examples=tries(100))
@given(st.integers(0, len(HEALTHY)))
def test_no_truncation_of_a_healthy_table_accuses(end: int) -> None:
    try:
        suspects = locate(read(HEALTHY[:end])).suspects
    except TableError:
        return
    assert [suspect for suspect in suspects if suspect.confirmed] == []


def test_counters_of_uplinks_are_added_up_by_leaf_and_spine() -> None:
    text = "leaf,spine,events\nl1,s1,3\nl1,s1,4\nl2,s1,\n"
    assert read_uplinks(text) == {"l1:s1": 7, "l2:s1": 0}


@pytest.mark.parametrize("row", ["l1,,3", ",s1,3", "l1,s1,many", f"l1,s1,{'9' * 5000}"])
def test_a_wrong_row_of_uplinks_is_refused(row: str) -> None:
    with pytest.raises(TableError, match="line 2"):
        read_uplinks(f"leaf,spine,events\n{row}\n")
