"""What the names of log files say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.verdict.logs.names import hosts_in, place_words


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("n1-n2.log", ("n1", "n2")),
        ("before/ib_write_bw_65536_n1_to_n2.out", ("n1", "n2")),
        ("gpu-node-01_gpu-node-02_run3.txt", ("gpu-node-01", "gpu-node-02")),
        ("r1n3--r2n4.json", ("r1n3", "r2n4")),
        ("dgx01.dgx02.log", ("dgx01", "dgx02")),
        ("n9-n10.log", ("n9", "n10")),
        ("rack1-node3-rack1-node4.log", ("rack1-node3", "rack1-node4")),
        # Three hosts are no pair, and devices, ranks and numbers of runs no hosts.
        ("n1-n2-n3.log", ()),
        ("mlx5_0-mlx5_1.txt", ()),
        ("gpu0-gpu1.log", ()),
        ("run1-run2.log", ()),
        ("rail01.log", ()),
        ("n1-n1.log", ()),
        ("allreduce_2x8.log", ()),
        ("", ()),
    ],
)
def test_the_two_hosts_of_a_files_name(name: str, hosts: tuple[str, ...]) -> None:
    assert hosts_in(name) == hosts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("before/rail01.log", "after/rail01.log"),
        ("rail01_before.log", "rail01-after.txt"),
        ("2026-11-01/n1_run1.out", "2026-11-20/n1_run2.out"),
        ("n1-20261101T101010Z.log", "n1-20261102T101010Z.log"),
        ("slurm-1001.out", "slurm-1044.out"),
        ("run-1/rail01.log", "run-2/rail01.log"),
    ],
)
def test_the_same_place_has_the_same_words_on_both_sides(before: str, after: str) -> None:
    assert place_words(before) == place_words(after)


@pytest.mark.parametrize(
    ("one", "other"),
    [("rail01.log", "rail02.log"), ("a/n1.log", "b/n1.log"), ("node-0001.log", "node-0002.log")],
)
def test_other_places_have_other_words(one: str, other: str) -> None:
    assert place_words(one) != place_words(other)


@given(st.text(max_size=60))
def test_any_name_is_taken(name: str) -> None:
    assert len(hosts_in(name)) in (0, 2)
    assert all(isinstance(word, str) for word in place_words(name))
