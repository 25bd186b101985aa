"""A node that Slurm no longer knows keeps no other from being held, tested or returned."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.gate import journal, roll, run
from railgauge.slurm import nodes as slurm_nodes

from .cluster import Campaigns, Killed, Slurm, gate, held, said

UPDATE = "true"


@pytest.fixture(autouse=True)
def all_good(tests: Campaigns) -> None:
    tests.bad = set()


def test_a_node_that_is_named_is_tested_and_nothing_is_said_of_the_other(
    area: Path, nodes: Slurm
) -> None:
    held(nodes, "n1")
    nodes.forget("n4")
    words, code = said("run", "--nodes", "n1", "--act")
    assert code == 0 and "n1: accepted, back in service" in words
    assert slurm_nodes.UNKNOWN not in words


def test_without_names_it_is_said_and_the_others_are_tested(area: Path, nodes: Slurm) -> None:
    held(nodes, "n1")
    nodes.forget("n4")
    words, code = said("run", "--act")
    assert code == 1 and "n1: accepted, back in service" in words
    assert "n4: not tested: Slurm knows no such node; take it out of `nodes`" in words


def test_one_that_is_named_is_refused(area: Path, nodes: Slurm) -> None:
    nodes.forget("n4")
    for words, code in (
        said("run", "--nodes", "n4", "--act"),
        said("run", "--nodes", "n1,n4", "--update", UPDATE, "--act"),
    ):
        assert code == 3 and "Slurm knows no n4" in words
    assert journal.rolling("lab") is None


def test_hold_compares_the_others(area: Path, nodes: Slurm) -> None:
    nodes.kernel["n1"] = "6.13"
    nodes.forget("n4")
    words, code = said("hold", "--nodes", "n[1-4]", "--act")
    assert code == 1 and "n1: held" in words and "n2: unchanged" in words
    assert "n4: alarm: Slurm knows no such node" in words


def test_a_run_that_broke_off_goes_on_without_it(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1", "n2")

    def killed() -> None:
        raise Killed

    tests.at_each = killed
    with pytest.raises(Killed):
        run.finish(run.plan("lab", ["n1", "n2"]), [], lambda _: None)
    tests.at_each = lambda: None
    nodes.forget("n2")
    nodes.forget("n3")
    assert gate("run", "--act") == 1
    assert journal.unended("lab") is None and nodes.open() == {"n1", "n4"}


def test_a_rolling_update_goes_on_without_it(area: Path, nodes: Slurm) -> None:
    roll.begin("lab", ["n1", "n2", "n3"], UPDATE, 1, 1, False)
    nodes.forget("n2")
    words, _ = said("run", "--act")
    assert "n2 left the rolling update: Slurm knows no such node" in words
    assert "n1: accepted, back in service" in words and "n3: accepted, back in service" in words
    assert journal.rolling("lab") is None


def test_a_run_ends_though_an_accepted_node_has_left_slurm(area: Path, nodes: Slurm) -> None:
    """Its reservation went before the run broke off, so that nothing is looked at again."""
    held(nodes, "n1", "n2")
    begun = run.plan("lab", ["n1", "n2"])
    begun.decided = {"n1": "", "n2": ""}
    nodes.forget("n2")
    words: list[str] = []
    run.unreserve(begun, [], words.append)
    assert f"n2: accepted, and not in service: {slurm_nodes.UNKNOWN}" in words


def test_a_reservation_that_ends_with_a_node_opens_no_other_one(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    """Slurm deletes a reservation if slurm.conf loses one of its nodes."""
    held(nodes, "n1", "n2")

    def reconfigured() -> None:
        if "n2" in nodes.flags:
            nodes.forget("n2")
            nodes.reserved.clear()

    tests.at_each = reconfigured
    words, code = said("run", "--act")
    assert code == 3 and "is gone; n1 drained again" in words
    assert "n1" not in nodes.open()
    assert [one.decided for one in journal.runs("lab")] == [
        {
            "n1": "its reservation was deleted during the test",
            "n2": slurm_nodes.UNKNOWN,
        }
    ]
