"""Host lists that people write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import hostlist

NAMES = st.lists(
    st.from_regex(r"[a-zA-Z]{1,2}([-.]?[0-9]{1,3}){0,2}(-?[a-cA-C])?", fullmatch=True),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("text", ["r[01-48] r[49-64]", "h 1,h 2", "n1 n2"])
def test_a_blank_is_no_comma(text: str) -> None:
    with pytest.raises(ValueError, match=r"a blank in .* expected a comma"):
        hostlist.expand(text)


def test_a_blank_next_to_a_comma_is_none() -> None:
    assert hostlist.expand(" n1, n[2-3] ") == ("n1", "n2", "n3")


@pytest.mark.parametrize("text", ["r[1-3200000]", "r[1-999]c[1-999]", "a,b[0-99999999999]"])
def test_more_names_than_any_cluster_has_are_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="names, expected at most 100,000"):
        hostlist.expand(text)


def test_many_names_are_made() -> None:
    assert len(hostlist.expand("r[1-64]n[1-72]")) == 4608
    assert hostlist.expand("n[1-9/2],m[1,3]") == ("n1", "n3", "n5", "n7", "n9", "m1", "m3")


@pytest.mark.parametrize("text", ["@x:y", "@all", "@", "n1,@all", "n[1-4]&@x:y", "n1@x"])
def test_groups_of_clustershell_are_refused_where_they_are_written(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a host list: an @ in .* names such as n\[1-4\]"):
        hostlist.expand(text)


def test_names_of_others_with_an_at_are_names() -> None:
    assert hostlist.fold(["g@n1", "g@n2", "@all"]) == "@all,g@n[1-2]"
    assert hostlist.fold(["g@n1-a", "g@n2-a"]) == "g@n1-a,g@n2-a"


def test_a_wildcard_asks_no_group_for_its_names() -> None:
    assert hostlist.expand("n*") == ("n*",)


@given(NAMES)
def test_what_was_folded_has_the_same_names(names: list[str]) -> None:
    assert sorted(hostlist.expand(hostlist.fold(names))) == sorted(set(names))


@given(NAMES)
def test_a_word_with_brackets_ends_with_one_as_slurm_22_05_asks(names: list[str]) -> None:
    for word in re.split(r",(?![^\[]*\])", hostlist.fold(names)):
        assert word.endswith("]") or "[" not in word


@given(NAMES)
def test_the_order_of_names_is_that_of_the_names_alone(names: list[str]) -> None:
    assert hostlist.in_order(names) == hostlist.in_order(names[::-1])


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ("gpu-01a gpu-01b gpu-02a gpu-02b", "gpu-01a,gpu-02a,gpu-01b,gpu-02b"),
        ("x1-ib x2-ib n1 n2", "n[1-2],x1-ib,x2-ib"),
        ("r1t01-a r1t02-a r2t01-a", "r1t01-a,r1t02-a,r2t01-a"),
        ("r1n1 r1n2 r2n1 r2n2", "r[1-2]n[1-2]"),
        ("n9 n10 n11 n2", "n[2,9-11]"),
        ("n1 n01 n2 n02 n10 n001", "n[1-2,01-02,10,001]"),
        ("N1 n1 N2", "N[1-2],n1"),
    ],
)
def test_names_are_folded_where_slurm_takes_it(names: str, folded: str) -> None:
    assert hostlist.fold(names.split()) == folded
