"""What is said of required places without a result, and what is typed to measure them."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.campaign import variables
from railgauge.campaign.folder import PLAN, Scope
from railgauge.verdict.campaign.cases import remaining
from railgauge.verdict.decision.rules import decide
from tests.unit.verdict.decision.test_rules import Recorded

TYPED = ["railgauge", "accept", "--partition=ns", "--nodes", "n[1-4]", "--places", "n1", "--", "-x"]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path / "20261121T042325Z-lab-91c33c")


def with_one_node(recorded: Recorded) -> Recorded:
    recorded.nodes = ("n1",)
    recorded.plan, recorded.possible = [], {}
    recorded.runs = [{}]
    return recorded


@pytest.mark.parametrize(
    ("named", "why"), [(True, "--nodes names one"), (False, "n1 was the only one of ns")]
)
def test_a_pair_of_a_single_node_is_said_with_a_partner_to_type(
    recorded: Recorded, named: bool, why: str
) -> None:
    campaign = with_one_node(recorded).write()
    campaign.context["command"] = ["railgauge", "accept", "--partition", "ns", "--nodes", "n1"]
    campaign.requested.environment[variables.NODES] = "n1" if named else None
    (finding,) = decide(campaign).findings
    assert finding.message == f"Iperf2Pair needs two nodes, and {why}"
    assert finding.next_step == "railgauge accept --partition ns --nodes n1,n2"


def test_a_gate_run_without_a_free_partner_says_so(recorded: Recorded) -> None:
    campaign = with_one_node(recorded).write()
    campaign.owner = "gate run 20261121T042325Z"
    (finding,) = decide(campaign).findings
    assert finding.message == "Iperf2Pair needs two nodes, and no partner of n1 was free"
    assert finding.next_step.endswith("free a node of ns, then: railgauge gate run --act")


def test_where_no_other_node_is_known_none_is_made_up(recorded: Recorded) -> None:
    campaign = with_one_node(recorded).write()
    campaign.scope = Scope({"new": ["n1"]}, {"new": ["Iperf2Pair"]})
    campaign.context["command"] = ["railgauge", "accept", "--partition", "new"]
    (finding,) = decide(campaign).findings
    assert finding.message == "Iperf2Pair needs two nodes, and n1 was the only one of new"
    assert finding.next_step == (
        "give --nodes n1 and a second node of partition new, with: railgauge accept --partition new"
    )


@pytest.mark.parametrize("owner", [None, "gate run 20261121T042325Z"])
def test_a_check_of_single_nodes_needs_no_partner(recorded: Recorded, owner: str | None) -> None:
    campaign = with_one_node(recorded).write()
    campaign.scope = Scope({"ns": ["n1"]}, {"ns": ["NodeState"]})
    campaign.owner = owner
    (finding,) = decide(campaign).findings
    assert finding.message == "required, and without a result on n1"


def test_without_a_plan_no_partner_is_missed(recorded: Recorded) -> None:
    campaign = with_one_node(recorded).write()
    (campaign.folder / PLAN).unlink()
    messages = [finding.message for finding in decide(campaign).findings]
    assert "required, and without a result on n1" in messages
    assert not any("two nodes" in message for message in messages)


def test_of_a_filtered_campaign_of_one_node_the_filter_is_to_blame(recorded: Recorded) -> None:
    campaign = with_one_node(recorded).write()
    campaign.requested.environment[variables.PLACES] = "n1:n2"
    (finding,) = decide(campaign).findings
    assert finding.message == "required, and without a result on n1"


def test_without_a_filter_the_partition_and_the_nodes_stay(recorded: Recorded) -> None:
    recorded.possible = {"Iperf2Pair": {"ns": 12}}
    campaign = recorded.write()
    campaign.context["command"] = TYPED
    (finding,) = decide(campaign).findings
    assert finding.next_step == (
        "run without a filter: railgauge accept --partition=ns --nodes 'n[1-4]'"
    )


@pytest.mark.parametrize("runs", [1, 2])
def test_a_campaign_is_to_be_resumed_only_where_it_lacks_something(
    recorded: Recorded, runs: int
) -> None:
    """A place without a result has one of another run of the same session: it is flaky."""
    recorded.no_result(0, "fail", "sanity error")
    if runs > 1:
        recorded.add_run()
    campaign = recorded.write()
    lacks = remaining(campaign)
    assert lacks is not None and bool(lacks.missing) == (runs == 1)
    (finding,) = decide(campaign).findings
    assert finding.next_step == (
        f"railgauge accept --resume {campaign.id}"
        if runs == 1
        else "measure again: railgauge accept"
    )
