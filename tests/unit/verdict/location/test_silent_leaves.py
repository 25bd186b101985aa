"""Leaves of which no node answers: one suspect in the place of its nodes, who stay at fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from railgauge.locating import Suspect
from railgauge.model.failure import UNREACHED, Failure
from railgauge.report import located, text
from railgauge.slurm.waiting import NOT_AVAILABLE
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.decision import node_status, rules
from railgauge.verdict.decision.rules import decide
from railgauge.verdict.decision.verdict import Verdict
from railgauge.verdict.location import locate as verdict_locate
from railgauge.verdict.location.direct_evidence import by_itself
from railgauge.verdict.location.locate import locate, name_suspects
from tests.unit.verdict.decision.test_rules import NODE_FAILURE, Recorded, case_on, ring

NODES = [f"n{place}" for place in range(1, 13)]

#: Four nodes of each of three leaves.
LEAVES = {"ns": {node: f"leaf{place // 4 + 1}" for place, node in enumerate(NODES)}}


def silent_beside(silent: Collection[str], nodes: Iterable[str] = tuple(NODES)) -> list[Case]:
    """A ring in which the pairs of nodes that do not answer Slurm have no result."""
    return [
        dataclasses.replace(
            case_on(pair, passed=not set(silent) & set(pair)),
            unavailable=tuple(node for node in pair if node in silent),
        )
        for pair in ring(list(nodes))
    ]


def named(cases: list[Case], leaves: dict[str, dict[str, str]] | None = None) -> list[str]:
    """As the verdict has them, which `railgauge locate` has too."""
    suspects = name_suspects(cases, LEAVES if leaves is None else leaves).suspects
    names = [f"{suspect.kind} {suspect.name}" for suspect in suspects]
    by_locate = locate(cases, LEAVES if leaves is None else leaves).suspects
    assert [f"{suspect.kind} {suspect.name}" for suspect in by_locate] == names
    return names


DARK = ["n5", "n6", "n7", "n8"]


def test_a_leaf_of_which_no_node_answers_is_named_in_their_place() -> None:
    assert named(silent_beside(DARK)) == ["leaf leaf2"]


def test_so_is_one_whose_nodes_a_sweep_leaves_out() -> None:
    """Each place of theirs says itself who does not answer."""
    cases = [
        dataclasses.replace(
            case_on(pair, passed=not set(DARK) & set(pair)),
            failures=tuple(
                Failure("unavailable", f"{node} does not answer Slurm", (node,))
                for node in pair
                if node in DARK
            ),
        )
        for pair in ring(NODES)
    ]
    assert named(cases) == ["leaf leaf2"]
    assert locate(cases, LEAVES).failing_nodes == DARK


def test_its_nodes_stay_at_fault() -> None:
    located_leaf = locate(silent_beside(DARK), LEAVES)
    assert located_leaf.failing_nodes == DARK
    (suspect,) = located_leaf.suspects
    assert suspect.confirmed and suspect.nodes == tuple(DARK)
    assert [witness.a for witness in suspect.evidence] == DARK


def test_the_report_of_locate_says_which_nodes_do_not_answer() -> None:
    lines = list(located.lines(locate(silent_beside(DARK), LEAVES)))
    why = "no node of leaf2 answers (n[5-8]), and nodes of other leaves do"
    assert lines[:2] == [f"leaf leaf2 is at fault: {why}", "  n5: no answer"]


def test_of_a_leaf_with_a_node_that_answers_the_silent_nodes_are_named() -> None:
    assert named(silent_beside(["n5", "n6", "n7"])) == ["node n5", "node n6", "node n7"]


def test_a_node_that_was_lost_keeps_its_leaf_from_being_named() -> None:
    """It had answered: what became of it later says nothing of the leaf."""
    lost = Failure("node-lost", "n8: its connection ended", ("n8",))
    cases = [
        dataclasses.replace(case, failures=(lost,)) if "n8" in case.nodes else case
        for case in silent_beside(["n5", "n6", "n7"])
    ]
    assert named(cases) == ["node n5", "node n6", "node n7", "node n8"]


def test_a_leaf_with_a_single_node_is_not_told_from_its_node() -> None:
    leaves = {"ns": {**LEAVES["ns"], "n1": "leaf9"}}
    assert named(silent_beside(["n1"]), leaves) == ["node n1"]


def test_a_leaf_of_which_one_node_is_in_the_campaign_is_not_told_from_it() -> None:
    assert named(silent_beside(["n5"], ["n1", "n2", "n5", "n9"])) == ["node n5"]


def test_of_a_leaf_whose_other_nodes_are_in_no_campaign_the_nodes_are_named() -> None:
    """Those may have jobs, and two nodes took the same firmware."""
    silent = silent_beside(["n5", "n6"], ["n1", "n2", "n5", "n6"])
    assert named(silent) == ["node n5", "node n6"]


def test_a_node_that_answered_later_keeps_its_leaf_from_being_named() -> None:
    later = dataclasses.replace(case_on(("n5", "n6"), passed=True), check="NodeState")
    assert named([*silent_beside(DARK), later]) == [f"node {node}" for node in DARK]


@pytest.mark.parametrize("leaves", [{}, {"ns": {}}, {"roce": LEAVES["ns"]}])
def test_where_no_leaf_is_known_the_nodes_are_named(leaves: dict[str, dict[str, str]]) -> None:
    assert named(silent_beside(DARK), leaves) == [f"node {node}" for node in DARK]


def test_a_node_that_answers_and_whose_leaf_is_not_known_may_be_of_the_silent_one() -> None:
    leaves = {"ns": {node: leaf for node, leaf in LEAVES["ns"].items() if node != "n8"}}
    silent = ["n5", "n6", "n7"]
    assert named(silent_beside(silent), leaves) == [f"node {node}" for node in silent]


def test_where_no_leaf_answers_the_nodes_are_named() -> None:
    assert named(silent_beside(NODES)) == [f"node {node}" for node in NODES]


def test_two_leaves_of_three_are_named() -> None:
    assert named(silent_beside(NODES[4:])) == ["leaf leaf2", "leaf leaf3"]


def test_nodes_that_are_silent_in_jobs_are_those_of_a_leaf_too() -> None:
    def silence(pair: tuple[str, str]) -> tuple[Failure, ...]:
        nodes = tuple(node for node in pair if node in DARK)
        return (Failure("silent-node", "no agent came", nodes),) if nodes else ()

    pairs = ring(NODES)
    cases = [case_on(pair, passed=not silence(pair), failures=silence(pair)) for pair in pairs]
    assert named(cases) == ["leaf leaf2"]


def test_a_fault_that_a_silent_node_showed_itself_stays_named() -> None:
    """It was there before its leaf went."""
    wrong = case_on(("n5", "n9"), passed=False, failures=(Failure("state", "bad", ("n5",)),))
    assert named([wrong, *silent_beside(DARK)]) == ["leaf leaf2", "node n5"]


def test_a_node_that_something_else_names_stays_named() -> None:
    odd = by_itself("n6", "it restarted")
    suspects = name_suspects(silent_beside(DARK), LEAVES, named=[odd]).suspects
    assert [suspect.name for suspect in suspects] == ["leaf2", "n6"]


def test_a_node_of_another_leaf_is_named_beside_it() -> None:
    cases = silent_beside(DARK)
    wrong = case_on(("n1", "n2"), passed=False, failures=(NODE_FAILURE,))
    assert named([wrong if case.nodes == wrong.nodes else case for case in cases]) == [
        "leaf leaf2",
        "node n2",
    ]


# ---- of a campaign ----


@pytest.fixture
def dark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A campaign of four nodes, two of which are those of a leaf that is down."""
    recorded = Recorded(tmp_path / "20261121T042325Z-lab-91c33c")
    leaves = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}
    monkeypatch.setattr(rules, "read_leaves", lambda _: {"ns": leaves})
    for place in (1, 2, 3):
        recorded.no_result(place, "fail", f"blocked: {NOT_AVAILABLE}, UnavailableNodes:n[3-4]")
    return recorded


def decided(recorded: Recorded) -> Verdict:
    campaign = recorded.write()
    campaign.unavailable = ["n3", "n4"]
    return decide(campaign)


def test_the_lists_of_nodes_are_as_if_each_was_named(dark: Recorded) -> None:
    verdict = decided(dark)
    assert [suspect.name for suspect in verdict.suspects] == ["leaf2"]
    assert verdict.failing_nodes == ["n3", "n4"] and verdict.passing_nodes == ["n1", "n2"]


def test_a_node_that_passed_before_its_leaf_went_is_not_passing(dark: Recorded) -> None:
    verdict = decided(dark)
    passed = case_on(("n2", "n3"), passed=True)
    before = dataclasses.replace(verdict, cases=(*verdict.cases, passed))
    assert before.passing_nodes == ["n1", "n2"]


def test_the_gate_keeps_its_nodes_and_tests_the_others_again(dark: Recorded) -> None:
    verdict = decided(dark)
    assert node_status.culprits(verdict, ["n1", "n2", "n3", "n4"]) == {"n3", "n4"}
    assert "does not answer Slurm" in node_status.why_not(verdict, "n3")
    assert set(node_status.alarms(verdict)) == {"n3", "n4"}


def test_the_verdict_says_where_to_look(dark: Recorded) -> None:
    said = text.plain(decided(dark))
    assert "leaf leaf2 is at fault: no node of leaf2 answers (n[3-4])" in said


@pytest.mark.parametrize(
    ("at", "nodes", "pairs"),
    [
        (("n1", "n2"), ("n1", "n9"), []),
        (("n3",), ("n9", "n1"), []),
        (("n1", "n2"), ("n1", "n2"), ["n1-n2"]),
        (("n1", "n2"), ("n5", "n9"), ["n5-n9"]),
        # A spine has nodes of several leaves.
        (("n1", "n5"), ("n5", "n9"), []),
        (("n1", "n5"), ("n5", "n6"), ["n5-n6"]),
        # Of another partition.
        (("m1", "m2"), ("n1", "n9"), ["n1-n9"]),
    ],
)
def test_a_cut_path_that_a_suspect_uplink_explains_is_named_for_nothing_else(
    at: tuple[str, ...], nodes: tuple[str, str], pairs: list[str]
) -> None:
    """It crosses from that leaf, or over that spine, to another leaf."""
    cut = Failure(UNREACHED, f"{nodes[0]} does not reach {nodes[1]}", nodes)
    cases = [case_on(nodes, passed=False, failures=(cut,), rows=())]
    uplink = Suspect("uplink", "leaf1 rail mlx5_0", 9.0, at, (), (), ())
    leaves = {**LEAVES, "other": {"m1": "leafA", "m2": "leafA", "m3": "leafB"}}
    assert [pair.name for pair in verdict_locate._cuts(cases, [uplink], leaves)] == pairs


def test_a_rail_of_all_nodes_explains_no_cut_path() -> None:
    cut = Failure(UNREACHED, "n5 does not reach n9", ("n5", "n9"))
    cases = [case_on(("n5", "n9"), passed=False, failures=(cut,), rows=())]
    rail = Suspect("leaf", "rail mlx5_0", 9.0, ("n1", "n5", "n9"), (), (), ())
    assert [pair.name for pair in verdict_locate._cuts(cases, [rail], LEAVES)] == ["n5-n9"]
