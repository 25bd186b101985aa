"""Host lists that people write."""

from __future__ import annotations

import pytest

from railgauge import hostlist


@pytest.mark.parametrize("text", ["r[01-48] r[49-64]", "h 1,h 2", "n1 n2"])
def test_a_blank_is_no_comma(text: str) -> None:
    with pytest.raises(ValueError, match=r"a blank in .* expected a comma"):
        hostlist.expand(text)


def test_a_blank_beside_a_comma_is_none() -> None:
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


def test_a_wildcard_asks_no_group_for_its_names() -> None:
    assert hostlist.expand("n*") == ("n*",)
