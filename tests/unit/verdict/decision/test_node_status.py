"""Who may return to service."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from railgauge.campaign.folder import Session
from railgauge.model.failure import TAKEN, Failure
from railgauge.verdict.campaign.finding import Finding
from railgauge.verdict.decision import node_status
from tests.unit.verdict.campaign.test_no_baseline import without_references
from tests.unit.verdict.decision.test_rules import (
    Recorded,
    in_one_sweep,
    measured_again,
    recorded,
    slow,
)

__all__ = ["recorded"]

# ---- who may return ----


def verdict(*findings: Finding, **other: Any) -> Any:
    case = SimpleNamespace(
        check="C",
        partition="ns",
        place="",
        of_job=False,
        nodes=("n1",),
        passed=True,
        result="pass",
        failures=(),
        to_measure=False,
        was_left_out=False,
    )
    campaign = SimpleNamespace(
        id="c", gate="acceptance", state="finished", scope=SimpleNamespace(nodes={"ns": ["n1"]})
    )
    for name in ("gate", "state"):
        if name in other:
            setattr(campaign, name, other.pop(name))
    content = {"campaign": campaign, "simulated": False, "cases": [case]}
    content |= {"suspects": [], "failing_nodes": []}
    return SimpleNamespace(**{**content, "findings": findings, **other})


def suspect(node: str, *checks: str, why: str = "") -> Any:
    """`why` is what it is known for without a partner."""
    words = why or "bad with others"
    return SimpleNamespace(failing_nodes=[node], why=words, own_reason=why, checks=checks)


@pytest.mark.parametrize("state", ["running", "interrupted", "finished"])
def test_what_a_node_failed_is_known_whatever_became_of_the_campaign(state: str) -> None:
    slow = Finding("reject", "k", "slow", "C", "ns", ("n1",))
    assert node_status.failed(verdict(slow, state=state), "n1") == "C: slow"
    at_fault = verdict(state=state, failing_nodes=["n1"], suspects=[suspect("n1", "C")])
    assert node_status.failed(at_fault, "n1") == "bad with others"


def test_what_is_missing_or_anothers_is_no_failure_of_the_node() -> None:
    missing = Finding("inconclusive", "k", "not run", "C", "ns", ("n1",))
    others = Finding("reject", "k", "slow", "C", "ns", ("n2", "n3"))
    session = Finding("reject", "session", "broken")
    assert node_status.failed(verdict(missing, others, session, state="running"), "n1") == ""


def test_a_clean_verdict_lets_the_node_return() -> None:
    assert node_status.why_not(verdict(), "n1") == ""


@pytest.mark.parametrize(
    "given",
    [
        verdict(simulated=True),
        verdict(gate="baseline"),
        verdict(state="interrupted"),
        verdict(Finding("reject", "k", "slow", "C", "ns", ("n1",))),
        verdict(Finding("inconclusive", "k", "left out", "C", "ns")),
        verdict(Finding("inconclusive", "session", "broken")),
        verdict(cases=[]),
        verdict(failing_nodes=["n1"], suspects=[suspect("n1", "C")]),
        verdict(
            cases=[
                SimpleNamespace(
                    check="C",
                    partition="x",
                    place="",
                    of_job=False,
                    nodes=("n1",),
                    passed=True,
                    result="",
                    failures=(),
                    to_measure=False,
                    was_left_out=False,
                )
            ]
        ),
    ],
    ids=[
        "simulated",
        "baseline",
        "interrupted",
        "named",
        "partition",
        "all",
        "none",
        "guilty",
        "elsewhere",
    ],
)
def test_anything_else_keeps_it_out(given: Any) -> None:
    assert node_status.why_not(given, "n1")


@pytest.mark.parametrize("kind", ["guid-duplicated", "masters-several", "subnet-not-active"])
def test_a_fault_of_a_subnet_that_concerns_every_host_keeps_it_out(kind: str) -> None:
    assert node_status.why_not(verdict(Finding("reject", kind, "m", "C", "ns")), "n1")


def test_a_fault_between_switches_keeps_it_in_but_its_own_fault_out() -> None:
    assert not node_status.why_not(verdict(Finding("reject", "link-width", "m", "C", "ns")), "n1")
    own = Finding("reject", "link-width", "m", "C", "ns", ("n1",))
    assert node_status.why_not(verdict(own), "n1")


def test_a_finding_of_another_partition_keeps_no_node_out() -> None:
    assert node_status.why_not(verdict(Finding("reject", "k", "m", "C", "vm", ("n5",))), "n1") == ""
    assert node_status.why_not(verdict(Finding("inconclusive", "k", "m", "C", "vm")), "n1") == ""


@pytest.mark.parametrize(
    ("shown", "accusing"), [(("C",), ["C"]), (("C", "D"), ["C", "D"]), ((), ["C", "D"])]
)
def test_a_check_accuses_the_nodes_that_it_has_shown_to_be_at_fault(
    shown: tuple[str, ...], accusing: list[str]
) -> None:
    found = [Finding("reject", "k", "slow", check, "ns", ("n1", "n2")) for check in ("C", "D")]
    given = verdict(*found, failing_nodes=["n1"], suspects=[suspect("n1", *shown)])
    assert [one.check for one in node_status.accusations(given, "n1")] == accusing


# ---- the reason of a node that stays out: what convicts it comes first ----

SLOW = Finding(
    "reject", "direction", "n1 -> n3 carries 0.39 Gb/s", "Iperf2Pair", "ns", ("n3", "n1")
)
ODD = Finding("reject", "odd-node", "net/eth0/mtu is 1500", "NodeState", "ns", ("n3",))
SESSION = Finding("inconclusive", "session", "ReFrame ended with exit code 1")


def two_at_fault(*findings: Finding) -> Any:
    """n1 is slow, and n3 has a fault of its own."""
    suspects = [suspect("n1", "Iperf2Pair"), suspect("n3", why="net/eth0/mtu is 1500")]
    given = verdict(*findings, failing_nodes=["n1", "n3"], suspects=suspects)
    given.campaign.scope.nodes["ns"].append("n3")
    return given


@pytest.mark.parametrize("findings", [(SLOW, ODD), (SESSION, SLOW, ODD)])
def test_a_nodes_own_fault_is_its_reason_before_that_of_its_partner(
    findings: tuple[Finding, ...],
) -> None:
    given = two_at_fault(*findings)
    assert node_status.why_not(given, "n3") == "NodeState: net/eth0/mtu is 1500"
    assert node_status.failed(given, "n3") == "NodeState: net/eth0/mtu is 1500"
    assert node_status.why_not(given, "n1") == "bad with others"


def test_a_node_is_not_accused_of_what_another_did_to_a_pair() -> None:
    given = two_at_fault(SLOW, ODD)
    assert node_status.accusations(given, "n3") == [ODD]
    assert node_status.accusations(given, "n1") == [SLOW]


def test_a_node_that_nothing_else_accuses_is_accused_of_a_pair() -> None:
    assert node_status.accusations(two_at_fault(SLOW), "n3") == [SLOW]


def test_what_a_node_did_is_its_reason_before_what_the_session_says() -> None:
    died = Finding("reject", "job-state", "Slurm says NODE_FAIL", "Path", "ns", ("n1",))
    assert node_status.why_not(verdict(SESSION, died), "n1") == "Path: Slurm says NODE_FAIL"


# ---- what is left for the record of coverage ----


def outcomes(recorded: Recorded) -> dict[str, str]:
    return {node: one.outcome for node, one in node_status.standings(recorded.decide()).items()}


def test_a_good_campaign_accepts_all_of_its_nodes(recorded: Recorded) -> None:
    found = node_status.standings(recorded.decide())
    assert {one.outcome for one in found.values()} == {"accepted"}
    assert found["n1"].measured and found["n1"].checks == ("Iperf2Pair",)
    assert found["n1"].why == ""


def test_nodes_of_a_place_that_failed_are_not_accepted(recorded: Recorded) -> None:
    recorded.fail(0, Failure("condition", "the MTU of n2 is 1500", ("n2",)))
    assert outcomes(recorded) == {
        # It may be bad in the one direction that only this pair has measured.
        "n1": "not accepted",
        "n2": "not accepted",
        "n3": "accepted",
        "n4": "accepted",
    }


def test_where_no_node_is_suspect_both_of_a_pair_stay_out(recorded: Recorded) -> None:
    recorded.fail(0, Failure("direction", "n1 -> n2 is slow"), value=4.0)
    found = outcomes(recorded)
    assert (found["n1"], found["n2"]) == ("not accepted", "not accepted")


def test_without_a_baseline_they_are_accepted_provisionally(recorded: Recorded) -> None:
    assert set(outcomes(without_references(recorded)).values()) == {"provisional"}


def test_one_that_stands_out_is_not_accepted_provisionally(recorded: Recorded) -> None:
    found = outcomes(without_references(recorded, n1=5.0))
    assert "not accepted" in found.values()


def test_a_node_without_any_result_was_not_measured(recorded: Recorded) -> None:
    for number in range(len(recorded.plan)):
        recorded.no_result(number, "fail", "job killed")
    found = node_status.standings(recorded.decide())
    assert not any(one.measured for one in found.values())
    # A job that a user killed says nothing of it.
    assert {one.outcome for one in found.values()} == {"not tested"}


@pytest.mark.parametrize(("value", "well"), [(9.5, True), (4.0, False)])
def test_a_rail_is_well_where_all_that_was_measured_over_it_is(
    recorded: Recorded, value: float, well: bool
) -> None:
    for number in range(len(recorded.plan)):
        recorded.only(number)["rows"][0]["measurement"]["rails"] = "0-1"
    (row,) = recorded.only(0)["rows"]
    row["measurement"]["value"] = value
    found = node_status.standings(recorded.decide())
    # n1 is the first of the pair n1 n2, and the second of n4 n1.
    assert found["n1"].rails == {"0": well, "1": True}
    assert found["n2"].rails == {"0": True, "1": well}


def test_the_changes_of_each_carrier_are_kept(recorded: Recorded) -> None:
    facts = {"device": "eth0", "carrier_changes_before": 4, "after": {"carrier_changes": 2}}
    cases = [
        dataclasses.replace(case, facts={"n1": facts if "n2" in case.nodes else {}})
        for case in recorded.decide().cases
    ]
    found = node_status.standings(dataclasses.replace(recorded.decide(), cases=tuple(cases)))
    assert found["n1"].carriers == {"eth0": (4, 6)}
    assert found["n2"].carriers == {}


# ---- what lacks for no fault of the node ----

TAKEN_N2 = Failure(TAKEN, "not measured: n2 busy with job 7", ("n2",))


def pair(*nodes: str, taken: tuple[str, ...] = (), **other: Any) -> SimpleNamespace:
    content = {"check": "C", "partition": "ns", "kind": "", "condition": "", "was_left_out": False}
    content |= {"place": "", "of_job": False}
    told = {"nodes": nodes, "passed": not taken, "to_measure": bool(taken)}
    told["failures"] = [Failure(TAKEN, "busy", taken)] * bool(taken)
    return SimpleNamespace(**{**content, **told, "result": "fail" if taken else "pass", **other})


@pytest.mark.parametrize(
    ("other", "returns"),
    [
        (pair("n1", "n3"), True),
        (pair("n3", "n1"), False),
        (pair("n1", "n3", kind="rdma"), False),
        (pair("n1", "n3", check="D"), False),
    ],
    ids=["same", "other-direction", "other-kind", "other-check"],
)
def test_a_partner_that_was_taken_keeps_no_node_out_that_another_measured(
    other: Any, returns: bool
) -> None:
    given = verdict(cases=[pair("n1", "n2", taken=("n2",)), other])
    assert (node_status.why_not(given, "n1") == "") == returns


@pytest.mark.parametrize(("usage", "returns"), [("0-0 send", True), ("0-0 read", False)])
def test_one_use_of_a_link_makes_up_for_no_other(usage: str, returns: bool) -> None:
    send = pair("n1", "n2", taken=("n2",), kind="0-0", condition="0-0 send")
    given = verdict(cases=[send, pair("n1", "n3", kind="0-0", condition=usage)])
    assert (node_status.why_not(given, "n1") == "") == returns


def test_a_node_that_was_taken_itself_is_not_accepted() -> None:
    given = verdict(cases=[pair("n1", "n2", taken=("n1",)), pair("n1", "n3")])
    assert node_status.why_not(given, "n1")


def test_those_next_to_a_taken_node_are_not_tested(recorded: Recorded) -> None:
    for number in (0, 1):
        recorded.fail(number, TAKEN_N2)
    found = node_status.standings(recorded.decide())
    assert {node: found[node].outcome for node in ("n1", "n3", "n4")} == {
        **{"n1": "not tested", "n3": "not tested", "n4": "accepted"}
    }
    assert not any(one.open for one in found.values())


def test_a_taken_node_hides_no_failure(recorded: Recorded) -> None:
    recorded.fail(0, TAKEN_N2)
    recorded.fail(3, Failure("condition", "the MTU of n1 is 1500", ("n1",)))
    found = node_status.standings(recorded.decide())
    assert found["n1"].outcome == "not accepted" and "MTU" in found["n1"].why


def test_of_a_campaign_that_broke_off_the_rest_is_not_tested(recorded: Recorded) -> None:
    recorded.state, recorded.session = "interrupted", Session(0, "", "the budget")
    found = node_status.standings(recorded.decide())
    assert {(one.outcome, one.alarms) for one in found.values()} == {("not tested", None)}


def test_a_campaign_that_broke_off_accuses_by_what_it_measured(recorded: Recorded) -> None:
    recorded.fail(0, Failure("condition", "the MTU of n2 is 1500", ("n2",)))
    recorded.state, recorded.session = "interrupted", Session(0, "", "the budget")
    found = node_status.standings(recorded.decide())
    assert found["n2"].alarms == {"Iperf2Pair": False} and found["n1"].alarms is None


def test_what_no_node_is_confirmed_for_is_open(recorded: Recorded) -> None:
    recorded.fail(0, Failure("direction", "n1 -> n2 is slow"), value=4.0)
    found = node_status.standings(recorded.decide())
    assert [node for node, one in found.items() if one.open] == ["n1", "n2"]


def test_what_a_confirmed_node_explains_is_not_open(recorded: Recorded) -> None:
    recorded.fail(0, Failure("condition", "the MTU of n2 is 1500", ("n2",)))
    assert not any(one.open for one in node_status.standings(recorded.decide()).values())


@pytest.fixture
def slow_pair(recorded: Recorded) -> Recorded:
    """A sweep with n1:n2 slow, and its nodes good with their others."""
    in_one_sweep(recorded)
    slow(recorded, "n1")
    record = recorded.results[0, 0]
    assert record is not None
    for result in record["results"]:
        if result["place"] != "n1:n2":
            result["rows"][0]["measurement"]["value"] = 9.5
    return recorded


def test_what_a_retest_cleared_is_said_of_the_check(slow_pair: Recorded) -> None:
    measured_again(slow_pair, "n1", "n3")
    measured_again(slow_pair, "n2", "n4")
    found = node_status.standings(slow_pair.decide())
    assert {node: one.cleared for node, one in found.items() if one.cleared} == {
        **{"n1": ("Iperf2Pair",), "n2": ("Iperf2Pair",)}
    }
    assert not any(one.alarms for one in found.values())


def test_what_no_retest_looked_at_is_not_cleared(slow_pair: Recorded) -> None:
    assert not any(one.cleared for one in node_status.standings(slow_pair.decide()).values())


def test_what_a_guilty_node_explains_is_not_cleared(recorded: Recorded) -> None:
    in_one_sweep(recorded)
    slow(recorded, "n2")
    measured_again(recorded, "n1", "n3")
    measured_again(recorded, "n2", "n4", value=4.0)
    found = node_status.standings(recorded.decide())
    assert found["n2"].alarms == {"Iperf2Pair": True}
    assert not any(one.cleared for one in found.values())
