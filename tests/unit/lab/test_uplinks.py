"""Uplinks of the lab: what is read of them, differences of counts, and how even they are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.lab import uplinks
from railgauge.lab.uplinks import Uplink

#: /proc/net/dev of a leaf, as Linux 6.1 writes it.
COUNTED = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0
   br0: 1000       0    0    0    0     0          0         0        2000       0    0    0    0
spine1:     701       6    0    0    0     0          0         0     1234       9    0    0    0
spine2:12345678901234      6    0    0    0     0          0         0     0       0    0    0    0
"""


def test_sent_and_received_bytes_are_told_apart() -> None:
    counted = uplinks._counts(COUNTED)
    assert counted["spine1"] == (1234, 701)
    assert counted["spine2"] == (0, 12345678901234)


def carried(leaf: str, pairs: Sequence[tuple[int, int]]) -> list[Uplink]:
    return [Uplink(leaf, f"spine{n}", *pair) for n, pair in enumerate(pairs, start=1)]


counts = st.integers(0, 2**63)
pairs = st.lists(st.tuples(counts, counts), min_size=1, max_size=8)


@given(pairs, pairs)
def test_what_went_over_an_uplink_is_the_difference(
    first: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    before = carried("leaf1", first)
    after = carried("leaf1", [(a + c, b + d) for (a, b), (c, d) in zip(first, more, strict=False)])
    found = uplinks.since(before, after)
    assert [(one.sent_bytes, one.received_bytes) for one in found] == more[: len(first)]


def test_an_uplink_that_began_anew_or_is_new_says_nothing() -> None:
    before = carried("leaf1", [(100, 100), (5, 5)])
    after = carried("leaf1", [(50, 200), (6, 7), (9, 9)])
    assert uplinks.since(before, after) == [Uplink("leaf1", "spine2", 1, 2)]


@given(pairs)
def test_each_leaf_has_its_own_balance_of_both_directions(shares: list[tuple[int, int]]) -> None:
    both = [*carried("leaf1", shares), *carried("leaf2", [(1, 3), (1, 1)])]
    found = uplinks.balance(both)
    assert found["leaf2"] == (1, pytest.approx(16 / 20))
    for index in found["leaf1"]:
        assert index is None or 1 / len(shares) - 1e-9 <= index <= 1


def test_uplinks_that_carried_nothing_have_no_balance() -> None:
    assert uplinks.balance(carried("leaf1", [(0, 1), (0, 1)])) == {"leaf1": (None, 1)}
