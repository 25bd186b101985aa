"""The nodes of a job, as host lists that Linux takes as one argument."""

from __future__ import annotations

import pytest

from railgauge import hostlist
from railgauge.node import job
from railgauge.node.conductor import launch_argv
from railgauge.node.sweep import Sweep

#: Of one argument or variable: 32 pages (MAX_ARG_STRLEN, execve(2)).
MOST_BYTES = 131_072

#: 28 characters each.
MANY = [f"dgx-h100-su{n // 32:04d}-node-{n:07d}" for n in range(4608)]


@pytest.mark.parametrize(
    "names",
    [
        ["n1", "n2", "n3"],
        ["n8", "n9", "n10", "n11"],
        ["n08", "n09", "n10", "n11"],
        ["n3", "n2", "n1"],
        ["n1", "n3", "m4", "m5"],
        ["head", "n1", "n2", "login"],
        ["c1n1", "c1n2", "c2n1", "c2n2"],
        ["127.0.0.1", "127.0.0.2"],
        ["n00000000000000000001", "n00000000000000000002"],
        MANY,
    ],
    ids=lambda names: ",".join(names[:4]),
)
def test_a_folded_list_names_the_same_nodes_in_the_same_order(names: list[str]) -> None:
    assert list(hostlist.expand(job.fold(names))) == names


def test_names_that_follow_on_one_another_are_a_range() -> None:
    assert job.fold(["n1", "n2", "n3", "n9", "n10"]) == "n[1-3],n9,n10"


def test_agents_are_started_again_on_most_of_thousands_of_nodes() -> None:
    orders = Sweep("probe", tuple(MANY), {}, (), [], {}, (), connect_limit_s=60.0)
    argv = launch_argv(orders, "sweep.json", MANY[1:])
    assert max(len(word) for word in argv) < MOST_BYTES


def test_the_environment_of_most_of_thousands_of_nodes_is_short_enough() -> None:
    (value,) = job.as_if_of(MANY[1:], MANY).values()
    assert len(value) < MOST_BYTES


def test_every_second_node_may_be_lost() -> None:
    assert len(job.fold(MANY[::2])) < MOST_BYTES
