"""Nodes that come back from repair."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railgauge.acceptance import request
from railgauge.cluster import store
from railgauge.common.errors import EXIT_SUSPECT
from railgauge.gate import journal
from railgauge.model.inventory import Inventory
from railgauge.model.record import Listed
from railgauge.verdict.campaign.inventory_peers import odd_nodes

from .cluster import Campaigns, Slurm, gate, held, said, taken


def test_a_good_node_returns_and_says_what_changed(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    words, code = said("readmit", "--nodes", "n1", "--act")
    assert code == 0
    assert "n1: accepted, back in service" in words
    assert "n1: since it was last accepted: kernel/release 6.12 -> 6.13" in words
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and not nodes.reserved


def test_a_repaired_node_must_be_as_its_peers(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    """Other firmware, or fields, than its partners have reject it; after an update they may."""
    tests.bad = set()
    held(nodes, "n1")
    assert gate("readmit", "--nodes", "n1", "--act") == 0
    held(nodes, "n2")
    assert gate("run", "--nodes", "n2", "--act") == 0
    held(nodes, "n1")
    # Of two that differ nobody can tell which is odd: the partner is not accused.
    assert gate("readmit", "--nodes", "n1", "--with", "n4", "--act") == 0
    assert [one.scope.updated for one in tests.made.values()] == [[], ["n2"], ["n1"]]


def test_a_partner_from_before_an_update_may_differ_from_those_after_it(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    """n3 was updated and accepted, and n2 too, which was repaired then; n1 is still to be updated:
    two of the three have the new kernel, and n1 is as it was accepted.
    """
    tests.bad = set()
    store.accept("lab", taken("n3", "6.13"), "run", "a campaign")
    nodes.kernel["n3"] = nodes.kernel["n2"] = "6.13"
    held(nodes, "n2")
    assert gate("readmit", "--nodes", "n2", "--with", "n1,n3", "--act") == 0
    [campaign] = tests.made.values()
    may_differ = campaign.scope.tested
    assert may_differ == {"n1": {"kernel/release": "6.12"}, "n3": {"kernel/release": "6.13"}}
    states = [agreed_case(taken(name, nodes.kernel[name])) for name in ("n1", "n2", "n3")]
    assert odd_nodes(states, tested=may_differ) == []
    assert odd_nodes([agreed_case(taken("n1", "6.11")), *states[1:]], tested=may_differ)


def agreed_case(one: Inventory) -> Any:
    """A NodeState case of a node, of which only the fields count."""
    facts = {one.node: {"agreed": {"fields": dict(one.fields)}}}
    return SimpleNamespace(facts=facts, partition="ns", nodes=(one.node,))


def test_a_bad_node_is_held_with_the_reason(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    held(nodes, "n2")
    assert gate("readmit", "--nodes", "n2", "--act") == 1
    assert nodes.show(["n2"])["n2"].reason.startswith("railgauge: Iperf2Pair")


def test_without_the_word_nothing_is_changed(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    held(nodes, "n1")
    words, code = said("readmit", "--nodes", "n1")
    assert code == 0 and "would test n1 with n2 n3" in words
    assert not tests.made and not nodes.reserved and nodes.show(["n1"])["n1"].drained_by_us


def test_the_partner_is_the_one_named(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    tests.bad = set()
    held(nodes, "n1")
    assert gate("readmit", "--nodes", "n1", "--with", "n4", "--act") == 0
    [campaign] = tests.made.values()
    assert campaign.scope.nodes["ns"] == ["n1", "n4"]


@pytest.mark.parametrize("why", ["ALLOCATED", "DOWN", "DRAIN"])
def test_a_partner_that_is_not_free_is_refused(
    area: Path, nodes: Slurm, tests: Campaigns, why: str
) -> None:
    held(nodes, "n1")
    nodes.flags["n4"].add(why)
    words, code = said("readmit", "--nodes", "n1", "--with", "n4", "--act")
    assert code == 3 and "--with n4:" in words and not tests.made


@pytest.mark.parametrize(
    ("name", "kernel", "why"),
    [("n6", "6.12", "was not accepted yet"), ("n4", "6.13", "is not as it was accepted")],
)
def test_a_partner_that_is_not_known_to_be_healthy_is_refused(
    area: Path, nodes: Slurm, tests: Campaigns, name: str, kernel: str, why: str
) -> None:
    held(nodes, "n1")
    nodes.kernel[name] = kernel
    words, code = said("readmit", "--nodes", "n1", "--with", name, "--act")
    assert code == 3 and f"--with {name}: {why}" in words and not tests.made


def test_a_partner_that_is_at_fault_is_held(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    tests.bad = {"n3"}
    held(nodes, "n1")
    assert gate("readmit", "--nodes", "n1", "--act") == EXIT_SUSPECT
    assert nodes.open() == {"n1", "n2", "n4"}


def test_with_too_few_partners_nothing_begins(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    held(nodes, "n1")
    for name in ("n2", "n3"):
        nodes.flags[name].add("ALLOCATED")
    words, code = said("readmit", "--nodes", "n1", "--act")
    assert code == 3 and "1 partners are idle" in words and nodes.show(["n1"])["n1"].drained_by_us


@pytest.mark.parametrize("beside", [(), ("--with", "n[2-3]")])
def test_partners_in_another_partition_are_none(
    area: Path, nodes: Slurm, tests: Campaigns, beside: tuple[str, ...]
) -> None:
    """n1 has two in its partition, and n5 none in its own."""
    held(nodes, "n1", "n5")
    words, code = said("readmit", "--nodes", "n1,n5", *beside, "--act")
    assert code == 3 and "n5 in partition vm: 0 partners are" in words
    assert not tests.made and not nodes.reserved


def test_with_a_partner_named_in_each_partition_all_are_tested(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    store.accept("lab", taken("n6"), "adopt", "untested")
    held(nodes, "n1", "n5")
    words, code = said("readmit", "--nodes", "n1,n5", "--with", "n2,n6")
    assert code == 0 and "would test n1 with n2 (1 of 2 partners), n5 with n6" in words


def test_a_run_names_the_node_that_is_tested_without_partners(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1", "n5")
    assert "test n1 with n2 n3, n5 with no partner (0 of 2 partners), return" in said("run")[0]
    assert "testing n1 with n2 n3, n5 with no partner (0 of 2 partners)" in said("run", "--act")[0]


def test_what_a_human_drained_is_theirs(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    nodes.drain(["n1"], "bad fan", by="")
    words, code = said("readmit", "--nodes", "n1", "--act")
    assert code == 3 and "not held by railgauge" in words


def test_soaking_measures_all_again(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Listed(case="C", partition="ns", places=1, rounds=1, node_count=3, seconds=50.0)
    monkeypatch.setattr(request, "plan", lambda *_: [case, case])
    tests.bad = set()
    held(nodes, "n1")
    assert gate("readmit", "--nodes", "n1", "--soak", "4m", "--act") == 0
    [run] = journal.runs("lab")
    assert run.options == ["--reruns=2"]


def test_a_run_that_broke_off_comes_first(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    held(nodes, "n1")
    journal.Run("20261121T100000Z_abcd", "lab", ["n2"], [], store.now(), "somebody").save()
    words, code = said("readmit", "--nodes", "n1", "--act")
    assert code == 3 and "has not ended" in words and nodes.show(["n1"])["n1"].drained_by_us
