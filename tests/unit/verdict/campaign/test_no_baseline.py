"""Numbers for which no baseline is stored: what judges them, and how far a verdict may go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from railgauge.cli import cli
from railgauge.model.failure import Failure
from railgauge.report import text
from railgauge.verdict.decision import node_status
from railgauge.verdict.decision.rules import decide
from tests.command_line import invoke
from tests.unit.verdict.decision.test_rules import NODE_FAILURE, Recorded, kinds, recorded

__all__ = ["recorded"]

BARE = Failure("no-reference", "no reference for bandwidth under this condition")


def without_references(recorded: Recorded, **values: float) -> Recorded:
    """Every case fails for want of a reference alone; `n1` is the value of the pair n1 n2."""
    for number, plan in enumerate(recorded.plan):
        node = plan["places"][0]["nodes"][0]
        recorded.fail(number, BARE, value=values.get(node, 9.5))
    for row in recorded.rows():
        row["reference"] = None
    return recorded


def judged_by(recorded: Recorded, kind: str) -> Recorded:
    for row in recorded.rows():
        row["reference"]["kind"] = kind
    return recorded


def test_peers_alone_accept_provisionally_in_one_finding(recorded: Recorded) -> None:
    verdict = without_references(recorded).decide()
    assert (verdict.decision, kinds(verdict)) == ("provisional accept", ["no-baseline"])
    assert "1 by their peers" in verdict.reason and "no baseline" in verdict.reason
    assert verdict.exit_code == 2 and verdict.as_dict()["provisional"]
    assert verdict.suspects == ()


@pytest.mark.parametrize(
    ("kind", "words"),
    [("share", "1 by their share of the limit"), ("published", "1 by published numbers")],
)
def test_what_is_no_baseline_accepts_provisionally(
    recorded: Recorded, kind: str, words: str
) -> None:
    verdict = judged_by(recorded, kind).decide()
    assert verdict.decision == "provisional accept" and words in verdict.reason


def test_a_baseline_accepts(recorded: Recorded) -> None:
    assert judged_by(recorded, "baseline").decide().decision == "accept"


def test_floors_alone_accept_provisionally_and_return_no_node(recorded: Recorded) -> None:
    verdict = judged_by(recorded, "floor").decide()
    first, *_, last = text.plain(verdict, width=200).splitlines()
    assert first.startswith("PROVISIONAL ACCEPT ") and "1 by floors" in first
    assert last == first
    assert "by floors" in node_status.why_not(verdict, "n1")


def test_a_system_may_take_floors_for_enough_and_says_so(recorded: Recorded) -> None:
    judged_by(recorded, "floor")
    for record in filter(None, recorded.results.values()):
        record["floors_suffice"] = "a lab"
    verdict = recorded.decide()
    assert verdict.decision == "accept" and node_status.why_not(verdict, "n1") == ""
    assert "1 condition by floors, as lab allows" in text.plain(verdict, width=120).splitlines()[-1]


def test_a_floor_next_to_a_baseline_of_the_same_place_accepts(recorded: Recorded) -> None:
    for record in filter(None, recorded.results.values()):
        for result in record["results"]:
            second = json.loads(json.dumps(result["rows"][0]))
            second["measurement"]["metric"] = "stream_bandwidth_min"
            second["reference"].update(kind="floor", value=1.0)
            result["rows"].append(second)
    assert recorded.decide().decision == "accept"


def test_floors_that_no_number_replaces_accept_nothing_alone(recorded: Recorded) -> None:
    judged_by(recorded, "floor")
    for row in recorded.rows():
        row["own"] = True
    assert recorded.decide().decision == "provisional accept"
    next(recorded.rows())["reference"]["kind"] = "baseline"
    assert recorded.decide().decision == "accept"


def test_a_baseline_for_another_condition_is_named(recorded: Recorded) -> None:
    without_references(recorded)
    recorded = without_references(Recorded(recorded.folder, nodes=("n1", "n2", "n3")))
    for row in recorded.rows():
        row["elsewhere"] = "load loaded"
        row["measurement"]["load"] = "quiet"
    verdict = recorded.decide()
    (finding,) = verdict.findings
    assert verdict.decision == "inconclusive"
    assert "the baseline of Iperf2Pair bandwidth is for load loaded" in finding.message
    assert "--mode baseline --schedule quiet --runs 5" in finding.next_step


def test_one_far_below_its_peers_is_not_accepted(recorded: Recorded) -> None:
    verdict = without_references(recorded, n1=5.0).decide()
    assert verdict.decision == "inconclusive" and "stands-out" in kinds(verdict)


def test_without_four_nodes_nothing_judges(recorded: Recorded) -> None:
    few = without_references(Recorded(recorded.folder, nodes=("n1", "n2", "n3")))
    verdict = few.decide()
    assert (verdict.decision, kinds(verdict)) == ("inconclusive", ["no-reference"])
    assert "1 conditions" in verdict.reason and "Iperf2Pair bandwidth" in verdict.reason


def test_a_share_below_the_least_is_rejected(recorded: Recorded) -> None:
    judged_by(recorded, "share")
    recorded.runs[0][1] = {"result": "fail", "fail_reason": "performance error"}
    recorded.only(1)["rows"][0]["measurement"]["value"] = 4.0
    verdict = recorded.decide()
    assert (verdict.decision, kinds(verdict)[0]) == ("reject", "out-of-reference")


def test_any_other_failure_of_a_place_without_a_reference_counts_as_ever(
    recorded: Recorded,
) -> None:
    without_references(recorded)
    recorded.fail(1, BARE, NODE_FAILURE)
    for row in recorded.rows():
        row["reference"] = None
    verdict = recorded.decide()
    assert verdict.decision == "reject" and NODE_FAILURE.kind in kinds(verdict)


def test_what_compared_nothing_at_all_is_not_judged_by_peers(recorded: Recorded) -> None:
    without_references(recorded)
    for row in recorded.rows():
        row["gates"] = False
    assert recorded.decide().decision == "inconclusive"


def test_a_check_that_was_set_to_pass_without_a_reference_is_inconclusive(
    recorded: Recorded,
) -> None:
    for row in recorded.rows():
        row["reference"] = None
    assert recorded.decide().decision == "inconclusive"


def latencies(recorded: Recorded, *values: float) -> Recorded:
    without_references(recorded)
    for row, value in zip(recorded.rows(), values, strict=True):
        row["limit"] = None
        row["measurement"].update(metric="latency_p99", unit="us", value=value)
    return recorded


def test_numbers_that_are_not_comparable_are_held_to_their_peers_loosely(
    recorded: Recorded,
) -> None:
    verdict = latencies(recorded, 1.5, 1.6, 2.4, 1.4).decide()
    assert verdict.decision == "provisional accept"


def test_one_that_is_far_worse_stands_out(recorded: Recorded) -> None:
    verdict = latencies(recorded, 1.5, 1.6, 9.0, 1.4).decide()
    assert (verdict.decision, kinds(verdict)[-1]) == ("inconclusive", "stands-out")


def counts(recorded: Recorded, *values: float) -> Recorded:
    latencies(recorded, *values)
    for row in recorded.rows():
        row["measurement"].update(metric="retransmits", unit="segments")
    return recorded


def test_of_what_happens_nowhere_one_count_more_says_nothing(recorded: Recorded) -> None:
    verdict = counts(recorded, 0, 0, 3, 0).decide()
    assert (verdict.decision, kinds(verdict)) == ("inconclusive", ["no-reference"])


def test_what_happens_nowhere_is_the_same(recorded: Recorded) -> None:
    assert counts(recorded, 0, 0, 0, 0).decide().decision == "provisional accept"


def test_the_table_names_the_places_without_a_stored_number(recorded: Recorded) -> None:
    shown = text.plain(without_references(recorded).decide())
    assert "no reference" in shown and "failed" not in shown
    assert "PROVISIONAL ACCEPT" in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "code"), [([], 2), (["--provisional"], 0), (["--json"], 2)], ids=str
)
def test_only_the_option_takes_a_provisional_accept_for_one(
    recorded: Recorded, options: list[str], code: int
) -> None:
    without_references(recorded).write()
    answer = invoke(cli, ["verdict", str(recorded.folder), *options])
    assert answer.exit_code == code, answer.output


@pytest.mark.parametrize("damage", ["reject", "inconclusive"])
def test_nothing_else_becomes_one_by_asking(recorded: Recorded, damage: str) -> None:
    without_references(recorded)
    if damage == "reject":
        recorded.fail(1, NODE_FAILURE)
    else:
        recorded.no_result(1, "fail", "job killed")
    campaign = recorded.write()
    assert decide(campaign).decision == damage
    answer = invoke(cli, ["verdict", str(recorded.folder), "--provisional"])
    assert answer.exit_code == {"reject": 1, "inconclusive": 2}[damage]


def test_a_gate_returns_no_node_on_a_provisional_accept(recorded: Recorded) -> None:
    from railgauge.verdict.decision.node_status import why_not

    verdict = without_references(recorded).decide()
    assert all("no baseline" in why_not(verdict, node) for node in recorded.nodes)


def test_a_baseline_run_needs_no_reference(recorded: Recorded) -> None:
    recorded.gate = "baseline"
    changed: dict[str, Any] = {"gate": "baseline"}
    for record in filter(None, recorded.results.values()):
        record.update(changed)
    for row in recorded.rows():
        row["reference"] = None
    assert recorded.decide().reason.startswith("baseline: ")
