"""Nodes that were started again while a campaign measured them."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.reboots import restarts
from railgauge.verdict.decision.node_status import culprits, why_not
from tests.unit.verdict.decision.test_rules import Recorded, recorded

__all__ = ["recorded"]


def case(nodes: str, boots: str, session: int = 1) -> Case:
    """A case on those nodes, each in the boot of that letter; `-` where it told none."""
    names = tuple(nodes.split())
    facts = {
        node: {} if boot == "-" else {"boot_id": boot}
        for node, boot in zip(names, boots, strict=True)
    }
    name = f"Iperf2Pair %pair=ns:{':'.join(names)}"
    return Case(
        "Iperf2Pair",
        name,
        "ns",
        names,
        0,
        "pass",
        "",
        (),
        (),
        Path("stage"),
        session=session,
        facts=facts,
    )


def test_nodes_of_one_boot_each_are_no_concern() -> None:
    assert restarts([case("n1 n2", "ab"), case("n2 n3", "bc"), case("n3 n1", "ca")]) == []


def test_a_node_of_two_boots_is_named_with_a_case_of_each() -> None:
    (found,) = restarts([case("n1 n2", "ab"), case("n2 n3", "xc"), case("n3 n1", "ca")])
    assert (found.node, found.in_session) == ("n2", True)
    assert "Iperf2Pair n1 n2 and Iperf2Pair n2 n3 ran in different boots" in found.message


def test_between_two_sessions_it_may_be_on_purpose() -> None:
    (found,) = restarts([case("n1 n2", "ab"), case("n2 n3", "xc", session=2)])
    assert not found.in_session


def test_within_the_second_session_it_is_not() -> None:
    (found,) = restarts(
        [case("n1 n2", "ab"), case("n2 n3", "bc", session=2), case("n2 n4", "xd", session=2)]
    )
    assert found.in_session


@pytest.mark.parametrize("boots", ["--", "b-"])
def test_a_node_that_reports_no_boot_has_not_restarted(boots: str) -> None:
    assert restarts([case("n2 n3", "bc"), case("n2 n3", boots)]) == []


# ---- the verdict ----


def boot(recorded: Recorded, number: int, **boots: str) -> None:
    recorded.only(number)["facts"] = {node: {"boot_id": boot_id} for node, boot_id in boots.items()}


def test_a_node_that_restarts_is_rejected_however_fast_it_is(recorded: Recorded) -> None:
    boot(recorded, 0, n1="a", n2="b")
    boot(recorded, 1, n2="other", n3="c")
    verdict = recorded.decide()
    assert verdict.decision == "reject"
    assert [(f.kind, f.nodes) for f in verdict.findings] == [("restarted", ("n2",))]
    assert [suspect.name for suspect in verdict.suspects] == ["n2"]


def test_the_gate_keeps_it_out_and_no_other_node(recorded: Recorded) -> None:
    boot(recorded, 0, n1="a", n2="b")
    boot(recorded, 1, n2="other", n3="c")
    verdict = recorded.decide()
    kept = {node for node in recorded.nodes if why_not(verdict, node)}
    assert kept == culprits(verdict, recorded.nodes) == {"n2"}
