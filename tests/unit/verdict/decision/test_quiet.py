"""What a sweep measured while all else was quiet: it tells load from a fault, and nothing else."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from railgauge.locating.load import quiet_needed
from railgauge.model.failure import Failure
from railgauge.verdict.campaign.cases import read
from railgauge.verdict.comparison import measurement_table
from railgauge.verdict.decision import node_status
from railgauge.verdict.location.from_campaign import families
from tests.unit.verdict.decision.test_rules import (
    AGAIN,
    Recorded,
    in_one_sweep,
    kinds,
    measured_again,
    more_rounds,
    slow,
)

#: Those with which n2 was bad while others were busy; the last ones were added by the sweep.
BAD_WITH = ("n1", "n3", "n6", "n5", "n4")

#: Those with which it is measured alone, one after the other, until that tells load.
PARTNERS = (BAD_WITH * 2)[: quiet_needed(len(BAD_WITH))]


FAILED = dataclasses.asdict(Failure("exit-code", "client ended with 1"))


@pytest.fixture
def at_fault(tmp_path: Path) -> Recorded:
    """A sweep of eight nodes, in which n2 was bad with all of five partners, and no other node."""
    names = tuple(f"n{number}" for number in range(1, 9))
    ring = Recorded(tmp_path / "20261121T042325Z-lab-91c33c", nodes=names)
    in_one_sweep(ring)
    slow(ring, "n2")
    for number, result in enumerate(results(ring)):
        result["round"] = number % 2
    more_rounds(ring, *AGAIN, bad={"n2"})
    return ring


def results(recorded: Recorded) -> list[dict[str, Any]]:
    record = recorded.results[0, 0]
    assert record is not None
    listed: list[dict[str, Any]] = record["results"]
    return listed


def alone(recorded: Recorded, *nodes: str, value: float = 9.5) -> None:
    """A pair that was measured last, while all else was quiet."""
    added = len(results(recorded)) - len(recorded.nodes)
    measured_again(recorded, *nodes, value=value)
    result = results(recorded)[-1]
    result.update(place=f"{':'.join(nodes)}@{added + 1}", quiet=True, round=2 + added)
    result["rows"][0]["measurement"]["load"] = "quiet"


def named(recorded: Recorded) -> list[tuple[str, str, bool]]:
    return [(s.kind, s.name, s.confirmed) for s in recorded.decide().suspects]


def test_a_node_that_was_good_each_time_is_no_fault(at_fault: Recorded) -> None:
    assert named(at_fault) == [("node", "n2", True)]
    for partner in PARTNERS:
        alone(at_fault, "n2", partner)
    assert named(at_fault) == [("load", "n2", True)]
    verdict = at_fault.decide()
    assert verdict.decision == "reject" and verdict.failing_nodes == []


@pytest.mark.parametrize("value", [4.0, 9.0])
def test_a_node_that_was_bad_at_last_stays_at_fault(at_fault: Recorded, value: float) -> None:
    for partner in PARTNERS[:-1]:
        alone(at_fault, "n2", partner)
    alone(at_fault, "n2", PARTNERS[-1], value=value)
    assert named(at_fault) == [("node", "n2", True)]


@pytest.mark.parametrize("count", range(len(PARTNERS)))
def test_too_few_of_a_sweep_that_broke_off_make_no_fault_doubtful(
    at_fault: Recorded, count: int
) -> None:
    for partner in PARTNERS[:count]:
        alone(at_fault, "n2", partner)
    assert named(at_fault) == [("node", "n2", True)]
    assert at_fault.decide().failing_nodes == ["n2"]


def test_a_bad_one_at_once_speaks_against_the_node_and_not_the_reference(
    at_fault: Recorded,
) -> None:
    alone(at_fault, "n2", "n1", value=4.0)
    (family,) = families(read(at_fault.write()), {})
    family.evidence.judge()
    assert family.evidence.no_evidence == []
    lows = [family.evidence.results[number] for number in family.evidence.lows]
    assert [low.receiver.node for low in lows if low.quiet] == ["n2"]


@pytest.mark.parametrize("value", [4.0, 9.5])
def test_a_single_one_is_compared_with_no_loaded_one(at_fault: Recorded, value: float) -> None:
    alone(at_fault, "n2", "n1", value=value)
    (family,) = families(read(at_fault.write()), {})
    quiet = [o for o in family.evidence.results if o.quiet]
    assert [(o.receiver.node, o.sender.node) for o in quiet] == [("n2", "n1")]


def test_what_no_reference_judges_then_clears_no_node(at_fault: Recorded) -> None:
    """It might lose packets as before."""
    for partner in PARTNERS:
        alone(at_fault, "n2", partner)
        results(at_fault)[-1]["rows"][0]["reference"] = None
    assert named(at_fault) == [("node", "n2", True)]


def test_a_run_that_failed_then_needs_no_number(at_fault: Recorded) -> None:
    # Without it the others would tell load.
    for partner in (*PARTNERS, "n3"):
        alone(at_fault, "n2", partner)
    results(at_fault)[-1].update(rows=[], failures=[FAILED])
    assert named(at_fault) == [("node", "n2", True)]


def test_they_clear_no_check(at_fault: Recorded) -> None:
    # Nothing that was added was measured while others were busy.
    del results(at_fault)[len(at_fault.nodes) :]
    # So many that it is load, and no node is at fault.
    for partner in ("n1", "n3") * quiet_needed(2):
        alone(at_fault, "n2", partner)
    assert named(at_fault) == [("load", "n2", False)]
    assert not any(one.cleared for one in node_status.standings(at_fault.decide()).values())


def test_their_numbers_are_compared_with_no_other_campaign(at_fault: Recorded) -> None:
    before = measurement_table.made_of(read(at_fault.write()))
    alone(at_fault, "n2", "n1")
    alone(at_fault, "n1", "n2")
    assert measurement_table.made_of(read(at_fault.write())).equals(before)


def test_they_need_no_reference(at_fault: Recorded) -> None:
    before = kinds(at_fault.decide())
    alone(at_fault, "n2", "n1")
    results(at_fault)[-1]["rows"][0]["reference"] = None
    assert kinds(at_fault.decide()) == before


def test_nodes_that_were_measured_next_to_the_fault_are_accepted(at_fault: Recorded) -> None:
    alone(at_fault, "n7", "n8")
    results(at_fault)[-1]["rows"][0]["reference"] = None
    judged = node_status.standings(at_fault.decide())["n7"].outcome
    assert judged == "accepted"


def test_a_published_share_that_judges_it_makes_no_node_provisional(at_fault: Recorded) -> None:
    """Where the site's own baseline is one of the loaded condition."""
    for pair in (("n2", "n1"), ("n7", "n8")):
        alone(at_fault, *pair)
        results(at_fault)[-1]["rows"][0]["reference"]["kind"] = "share"
    judged = node_status.standings(at_fault.decide())
    assert {judged[name].outcome for name in ("n7", "n8")} == {"accepted"}
