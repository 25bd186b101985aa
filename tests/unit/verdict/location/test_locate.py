"""What a verdict leaves open of a place between two nodes that is bad, beside whom it names."""

from __future__ import annotations

from pathlib import Path

from railgauge.locating.suspects import Fewest
from railgauge.report import text
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.location.locate import locate, name_suspects
from tests.unit.verdict.decision.test_rules import NODE_FAILURE, Recorded, case_on, ring
from tests.unit.verdict.location.test_retested import sweep

_RING = ring([f"n{place}" for place in range(12)])


def ring_with_bad_pair() -> list[Case]:
    """One pair of a ring fails, and no other."""
    return [case_on(pair, passed=pair != ("n8", "n9")) for pair in _RING]


def with_wrong_node(cases: list[Case]) -> list[Case]:
    """n2 has a fault that it shows itself."""
    wrong = case_on(("n1", "n2"), passed=False, failures=(NODE_FAILURE,))
    return [wrong if case.nodes == wrong.nodes else case for case in cases]


def test_of_healthy_nodes_nothing_is_left_open() -> None:
    assert name_suspects([case_on(pair, passed=True) for pair in _RING]).fewest is None


def test_of_who_is_confirmed_nothing_is_left_open() -> None:
    named = name_suspects(sweep(8, [3]))
    assert [suspect.confirmed for suspect in named.suspects] == [True]
    assert named.fewest is None


def test_of_who_is_known_by_itself_nothing_is_left_open() -> None:
    named = name_suspects(with_wrong_node([case_on(pair, passed=True) for pair in _RING]))
    assert [suspect.name for suspect in named.suspects] == ["n2"]
    assert named.fewest is None


def test_a_bad_pair_without_a_confirmed_suspect_leaves_open_what_results_do_not_exclude() -> None:
    cases = ring_with_bad_pair()
    named = name_suspects(cases)
    assert [suspect.confirmed for suspect in named.suspects] == [False]
    # Of the ring each node has two results.
    assert named.fewest == locate(cases).fewest == Fewest(2, "n0")


def test_a_bad_pair_is_left_open_beside_a_node_that_is_confirmed() -> None:
    named = name_suspects(with_wrong_node(ring_with_bad_pair()))
    assert [suspect.name for suspect in named.suspects if suspect.confirmed] == ["n2"]
    assert named.fewest is not None


def test_a_campaigns_verdict_says_what_its_results_do_not_exclude(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "20261121T042325Z-lab-91c33c")
    recorded.floor = 5.0
    for number, value in enumerate((6.0, 9.6, 9.7, 9.75)):
        recorded.result(number, value=value)
    verdict = recorded.decide()
    assert [suspect.confirmed for suspect in verdict.suspects] == [False]
    assert verdict.min_good_results_of_cleared_end == Fewest(2, "n3")
    assert "missed with probability 64 % on n3, which has only 2 good" in text.plain(verdict, 200)


def test_an_accepted_campaigns_verdict_leaves_nothing_open(tmp_path: Path) -> None:
    verdict = Recorded(tmp_path / "20261121T042325Z-lab-91c33c").decide()
    assert (verdict.decision, verdict.min_good_results_of_cleared_end) == ("accept", None)


def test_a_finding_is_printed_with_its_kind_for_railgauge_explain(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "20261121T042325Z-lab-91c33c")
    recorded.floor = 9.0
    recorded.result(0, value=6.0)
    assert ") [out-of-reference]\n" in text.plain(recorded.decide())
