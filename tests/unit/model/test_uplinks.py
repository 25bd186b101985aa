"""Uplinks of a fabric: what is read of them, differences of counts, and how even they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.common.spread import jain
from railgauge.model import uplinks
from railgauge.model.uplinks import CountersError, Uplink

ONE = {"leaf": "l1", "spine": "s1", "sent_bytes": 5, "received_bytes": 7}


def test_an_uplink_is_read() -> None:
    assert uplinks.parse(json.dumps({"uplinks": [ONE]})) == [Uplink("l1", "s1", 5, 7)]


def test_an_uplinks_name_has_its_leaf_and_its_spine() -> None:
    name = str(Uplink("l1", "s1", 5, 7))
    assert (uplinks.leaf_of(name), uplinks.spine_of(name)) == ("l1", "s1")


def test_a_leafs_name_is_its_own() -> None:
    assert (uplinks.leaf_of("l1"), uplinks.spine_of("l1")) == ("l1", "")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("", "Expecting value"),
        ("[]", "expected"),
        ("{}", "uplinks: "),
        ({"uplinks": [{**ONE, "sent_bytes": -1}]}, "uplinks.0.sent_bytes: "),
        ({"uplinks": [{**ONE, "sent_bytes": "5"}]}, "uplinks.0.sent_bytes: "),
        ({"uplinks": [{**ONE, "sent_bytes": True}]}, "uplinks.0.sent_bytes: "),
        ({"uplinks": [{"leaf": "l1"}]}, "uplinks.0.spine: "),
        ({"uplinks": [ONE, ONE]}, "l1:s1 twice"),
    ],
)
def test_what_is_no_list_of_uplinks_is_one_clear_error(document: Any, says: str) -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(CountersError) as caught:
        uplinks.parse(text)
    assert says in str(caught.value) and "expected" in str(caught.value)


# ---- what went over them ----


def links(*sent: int) -> list[Uplink]:
    return [Uplink("l1", f"s{n}", value, 10 * value) for n, value in enumerate(sent, start=1)]


def test_what_was_carried_is_the_difference() -> None:
    assert uplinks.carried(links(1, 2), links(4, 6)) == links(3, 4)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (links(5), links(4), "l1:s1 went backwards"),
        (links(1), links(1, 2), "l1:s2 was counted once"),
        (links(1, 2), links(1), "l1:s2 was counted once"),
        (links(1, 2), [], "l1:s1, l1:s2 was counted once"),
    ],
)
def test_counters_that_say_nothing_of_the_job_are_refused(
    before: list[Uplink], after: list[Uplink], says: str
) -> None:
    with pytest.raises(CountersError, match=says):
        uplinks.carried(before, after)


def test_each_leaf_has_its_shares_of_both_directions() -> None:
    found = uplinks.shares([*links(1, 1), Uplink("l2", "s1", 3, 1), Uplink("l2", "s2", 1, 1)])
    assert [(one.leaf, one.way) for one in found] == [
        *(("l1", "sent"), ("l1", "received")),
        *(("l2", "sent"), ("l2", "received")),
    ]
    assert [one.jain for one in found] == [1, 1, jain([3, 1]), 1]
    assert str(found[2]) == "l2 sent 4e-06 MB: s1 75%, s2 25%"


def test_a_leaf_that_carried_nothing_is_as_uneven_as_can_be() -> None:
    assert [one.jain for one in uplinks.shares(links(0, 0))] == [0.0, 0.0]


COUNTS = st.lists(st.tuples(*[st.integers(0, 2**63)] * 4), min_size=1, max_size=8)


@given(COUNTS)
def test_what_is_written_is_read(counts: list[tuple[int, int, int, int]]) -> None:
    every = [Uplink("leaf", f"spine{n}", *pair[:2]) for n, pair in enumerate(counts)]
    assert uplinks.parse(uplinks.document(every)) == every


@given(COUNTS)
def test_differences_add_up(counts: list[tuple[int, int, int, int]]) -> None:
    before = [Uplink("leaf", f"spine{n}", a, b) for n, (a, b, _, _) in enumerate(counts)]
    after = [Uplink("leaf", f"spine{n}", a + c, b + d) for n, (a, b, c, d) in enumerate(counts)]
    found = uplinks.carried(before, after)
    assert [(one.sent_bytes, one.received_bytes) for one in found] == [pair[2:] for pair in counts]


@given(COUNTS)
def test_the_index_lies_between_one_uplink_for_all_and_equal_shares(
    counts: list[tuple[int, int, int, int]],
) -> None:
    every = [Uplink("leaf", f"spine{n}", *pair[:2]) for n, pair in enumerate(counts)]
    for one in uplinks.shares(every):
        assert one.jain == 0 or 1 / len(counts) - 1e-9 <= one.jain <= 1
