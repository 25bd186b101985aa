"""From a campaign's folder to a verdict: what is accepted, and all that must never be."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import systems
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import RESULT_FILE, Campaign, Requested, Scope, Session
from railgauge.checks.framework.protections import beyond_budgets
from railgauge.common.errors import RailgaugeError
from railgauge.locating import Suspect
from railgauge.model import failure
from railgauge.model.failure import DISTURBED, Failure
from railgauge.model.limits import tcp
from railgauge.model.measurement import Measurement
from railgauge.model.record import BrokenRecordError, Row, read_record
from railgauge.model.references import Provenance, Ratio, Reference
from railgauge.report import text
from railgauge.slurm.waiting import unavailable_nodes
from railgauge.verdict.campaign.cases import Case, read, remaining
from railgauge.verdict.decision.rules import decide
from railgauge.verdict.decision.verdict import Verdict
from railgauge.verdict.location.locate import locate, suspects
from tests.properties import tries
from tests.unit import records

NODES = ("n1", "n2", "n3", "n4")
LIMIT = tcp(10, 4200)
REFERENCE = Reference(
    value=9.0,
    lower=-0.1,
    unit="Gb/s",
    kind="baseline",
    provenance=Provenance(source="a test", date=datetime.date(2026, 11, 21)),
)
NODE_FAILURE = Failure("condition", "mtu_bytes on n2 is 1500, expected 4200", ("n2",), "ip link")
PAIR_FAILURE = Failure("tool-failed", "iperf2 (client) on n3 ended with exit code 1")


def ring(nodes: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(nodes, (*nodes[1:], nodes[0]), strict=True))


def bandwidth(value: float, nodes: tuple[str, ...]) -> Measurement:
    return Measurement("bandwidth", value, "iperf2", "tcp", "tcp", streams=4, nodes=nodes, ranks=2)


# ---- campaigns on disk ----


@dataclasses.dataclass
class Recorded:
    """A campaign's folder in the making: every case on a ring of nodes passes until changed."""

    folder: Path
    nodes: tuple[str, ...] = NODES
    gate: campaigns.Gate = "acceptance"
    state: campaigns.State = "finished"
    session: Session | None = dataclasses.field(default_factory=lambda: Session(0, ""))
    plan: list[dict[str, Any]] = dataclasses.field(init=False)
    #: what the reference admits at least, in Gb/s; 10 % below it where none
    floor: float | None = None
    #: one dictionary a run: case number -> what ReFrame's report says
    runs: list[dict[int, dict[str, Any]]] = dataclasses.field(init=False)
    #: check -> partition -> number of cases without a filter; None as in an old campaign
    possible: dict[str, dict[str, int]] | None = dataclasses.field(init=False)
    #: (run, case number) -> what the check left; None where it left nothing
    results: dict[tuple[int, int], dict[str, Any] | None] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plan = [
            records.planned(
                "Iperf2Pair", f"Iperf2Pair %pair=ns:{a}:{b}", f"Iperf2Pair_{number}", [a, b]
            )
            for number, (a, b) in enumerate(ring(self.nodes))
        ]
        self.possible = {"Iperf2Pair": {"ns": len(self.plan)}}
        self.runs = []
        self.add_run()

    def add_run(self) -> None:
        run = len(self.runs)
        self.runs.append({number: {"result": "pass"} for number in range(len(self.plan))})
        for number in range(len(self.plan)):
            self.result(number, run)

    def result(
        self, number: int, run: int = 0, value: float = 9.5, failures: Sequence[Failure] = ()
    ) -> None:
        """What the check of that case leaves in its stage folder."""
        measurement = bandwidth(value, tuple(self.plan[number]["places"][0]["nodes"]))
        self.results[run, number] = records.record(
            [Row(measurement, self._reference(), LIMIT)],
            failures,
            [records.call(version="iperf version 2.2.1")],
            floors_suffice="a lab" if self.floor is not None else "",
        )

    def two_places(self, number: int) -> dict[str, Any]:
        """The record of a case, with its own place as `a` and one of n1 and n2 as `b`."""
        (place,) = self.plan[number]["places"]
        self.plan[number]["places"] = [
            {**place, "name": "a"},
            {**place, "name": "b", "nodes": ["n1", "n2"]},
        ]
        record = self.results[0, number]
        assert record is not None
        record["results"].append(json.loads(json.dumps(self.only(number))))
        for name, result in zip("ab", record["results"], strict=True):
            result["place"] = name
        record["results"][1]["rows"][0]["measurement"]["nodes"] = ["n1", "n2"]
        return record

    def only(self, number: int) -> dict[str, Any]:
        """The one result in the record of a case of the first run."""
        record = self.results[0, number]
        assert record is not None
        (result,) = record["results"]
        return result

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every number of every record, next to what it is compared with."""
        for record in filter(None, self.results.values()):
            for result in record["results"]:
                yield from result["rows"]

    def _reference(self) -> Reference:
        if self.floor is None:
            return REFERENCE
        return REFERENCE.model_copy(update={"value": self.floor, "lower": 0.0, "kind": "floor"})

    def fail(self, number: int, *failures: Failure, run: int = 0, value: float = 9.5) -> None:
        self.runs[run][number] = {"result": "fail", "fail_reason": "sanity error"}
        self.result(number, run, value, failures)

    def no_result(self, number: int, result: str, reason: str | None = None, run: int = 0) -> None:
        """ReFrame's word alone: the check left nothing."""
        self.runs[run][number] = {"result": result, "fail_reason": reason}
        self.results[run, number] = None

    def skip(self, number: int, because_of: Sequence[int] = (), run: int = 0) -> None:
        """As ReFrame leaves a case whose preconditions did not pass: without a stage folder."""
        before = [self.plan[n]["unique_name"] for n in because_of]
        self.plan[number]["depends_on"] = before
        self.plan[number]["places"][0]["needs"] = [[name, ""] for name in before]
        self.runs[run][number] = {"result": "skip", "stagedir": None}
        self.results[run, number] = None

    def stagedir(self, run: int, number: int) -> Path:
        return self.folder / "stage" / f"Iperf2Pair_{number}{f'_retry{run}' if run else ''}"

    def write(self) -> Campaign:
        self.folder.mkdir(exist_ok=True)
        runs = []
        for run, cases in enumerate(self.runs):
            runs.append([self._ran(run, n, ran) for n, ran in cases.items()])
        self._json("plan.json", self.plan)
        if self.possible is not None:
            self._json("possible.json", self.possible)
        records.leave_report(self.folder, self.plan, runs)
        (self.folder / "reframe.out").write_text("[  PASSED  ]\n")
        campaign = Campaign(
            self.folder,
            "lab",
            self.gate,
            Scope({"ns": list(self.nodes)}, {"ns": ["Iperf2Pair"]}),
            Requested([], {}, {}),
            state=self.state,
            started="2026-11-21T04:23:25+00:00",
            finished="2026-11-21T04:24:25+00:00",
            session=self.session,
        )
        campaign.save()
        return campaign

    def _ran(self, run: int, number: int, ran: dict[str, Any]) -> dict[str, Any]:
        stage = self.stagedir(run, number)
        stage.mkdir(parents=True, exist_ok=True)
        (stage / "client.out").write_text("[SUM] 0.0-3.0 sec\n")
        result = self.results.get((run, number))
        if result is not None:
            records.write(stage / RESULT_FILE, {**result, "gate": self.gate})
        planned = self.plan[number]
        names = {name: planned[name] for name in ("unique_name", "partition")}
        return {**names, "stagedir": str(stage), "fail_reason": None, **ran}

    def _json(self, name: str, document: Any) -> None:
        (self.folder / name).write_text(json.dumps(document, indent=1))

    def decide(self) -> Verdict:
        return decide(self.write())


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path / "20261121T042325Z-lab-91c33c")


def nodes_of(found: Iterable[Suspect]) -> list[str]:
    """The nodes that are suspects, or have a rail that is."""
    return sorted({n for s in found if s.kind in ("node", "rail") for n in s.nodes})


def kinds(verdict: Verdict) -> list[str]:
    return [finding.kind for finding in verdict.findings]


# ---- within every bound, and not right ----


def test_a_node_far_below_its_peers_is_named_and_not_accepted(recorded: Recorded) -> None:
    """n2 at 6 of 10 Gb/s, above its floor."""
    recorded.floor = 5.0
    for number, value in enumerate((6.0, 6.0, 9.7, 9.75)):
        recorded.result(number, value=value)
    verdict = recorded.decide()
    assert verdict.decision == "inconclusive"
    assert [(f.kind, f.nodes) for f in verdict.findings] == [("stands-out", ("n2",))]
    assert nodes_of(verdict.suspects) == ["n2"]


def test_a_pair_far_below_its_peers_accuses_neither_of_its_nodes(recorded: Recorded) -> None:
    recorded.floor = 5.0
    for number, value in enumerate((6.0, 9.6, 9.7, 9.75)):
        recorded.result(number, value=value)
    verdict = recorded.decide()
    assert [(f.kind, f.nodes) for f in verdict.findings] == [("stands-out", ("n1", "n2"))]
    assert [(s.kind, s.name, s.confirmed) for s in verdict.suspects] == [("pair", "n1-n2", False)]


def with_sizes(recorded: Recorded, factor_at_64_mib: float, every: bool = True) -> None:
    """Every pair, or the first alone, also has rates of messages of 1 MiB to 4 GiB, none of which
    must have a reference; one of them is multiplied.
    """
    for number in range(len(recorded.plan) if every else 1):
        (row,) = recorded.only(number)["rows"]
        for size in (2**power for power in range(20, 33)):
            sized = json.loads(json.dumps(row))
            factor = factor_at_64_mib if size == 2**26 else 1.0
            sized["measurement"].update(size_bytes=size, value=9.4 * factor)
            sized.update(reference=None, gates=False)
            recorded.only(number)["rows"].append(sized)


@pytest.mark.parametrize("every", [True, False])
def test_a_hole_at_one_size_does_not_slip_through_behind_a_good_largest_one(
    recorded: Recorded, every: bool
) -> None:
    """Every number that must have a reference is within it, and no size lacks its number."""
    with_sizes(recorded, 0.4, every)
    verdict = recorded.decide()
    assert (verdict.decision, [f.kind for f in verdict.findings]) == ("inconclusive", ["dip"])
    assert verdict.findings[0].nodes == (NODES if every else NODES[:2])
    assert verdict.suspects == ()


def test_a_smooth_curve_is_accepted(recorded: Recorded) -> None:
    with_sizes(recorded, 0.85)
    assert recorded.decide().decision == "accept"


def test_a_baseline_is_not_judged_by_curves(recorded: Recorded) -> None:
    recorded.gate = "baseline"
    with_sizes(recorded, 0.4)
    assert recorded.decide().findings == ()


def test_a_baseline_is_not_judged_by_peers(recorded: Recorded) -> None:
    recorded.gate = "baseline"
    recorded.floor = 5.0
    for number, value in enumerate((6.0, 6.0, 9.7, 9.75)):
        recorded.result(number, value=value)
    assert recorded.decide().findings == ()


CHANGED = "unknown (changed since dpkg iperf 2.2.1+dfsg-1)"


@pytest.mark.parametrize(
    ("package", "strict", "decision", "noted"),
    [
        ("dpkg iperf 2.2.1+dfsg-1", True, "accept", False),
        (CHANGED, False, "accept", True),
        (CHANGED, True, "inconclusive", False),
        ("unknown (of no package of Spack, dpkg or rpm)", False, "accept", False),
        ("unknown (of no package of Spack, dpkg or rpm)", True, "inconclusive", False),
    ],
)
def test_a_tool_that_is_not_as_packaged_is_noted_or_counts(
    recorded: Recorded, package: str, strict: bool, decision: str, noted: bool
) -> None:
    record = recorded.results[0, 0]
    assert record is not None
    record["strict_provenance"] = strict
    recorded.only(0)["calls"][0].update(host="n1", path="/usr/bin/iperf", package=package)
    verdict = recorded.decide()
    assert verdict.decision == decision
    assert ("tool-changed" in [notice.kind for notice in verdict.notices]) == noted
    assert kinds(verdict) == (["tool-changed"] if decision == "inconclusive" else [])


# ---- accept ----


def test_every_required_case_passed_on_every_node_is_accepted(recorded: Recorded) -> None:
    verdict = recorded.decide()
    assert (verdict.decision, verdict.findings, verdict.suspects) == ("accept", (), ())


@pytest.mark.parametrize("nodes", [("n1", "n2"), ("n1", "n2", "n3")])
def test_small_rings_are_accepted(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    assert Recorded(tmp_path, nodes=nodes).decide().decision == "accept"


def test_repeated_runs_that_all_pass_are_accepted(recorded: Recorded) -> None:
    recorded.add_run()
    assert recorded.decide().decision == "accept"


def test_every_run_is_reported_with_its_measurements(recorded: Recorded) -> None:
    recorded.add_run()
    assert [case.run for case in recorded.decide().cases] == [0, 1] * 4


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda recorded: None, 0),
        (lambda recorded: recorded.fail(0, NODE_FAILURE), 1),
        (lambda recorded: recorded.no_result(0, "abort"), 2),
    ],
    ids=["accept", "reject", "inconclusive"],
)
def test_decision_has_its_exit_code(recorded: Recorded, change: Any, code: int) -> None:
    change(recorded)
    assert recorded.decide().exit_code == code


# ---- reject ----


def test_number_out_of_reference_is_rejected_naming_its_pair(recorded: Recorded) -> None:
    recorded.fail(1, value=4.0)
    verdict = recorded.decide()
    (finding,) = verdict.findings
    assert (verdict.decision, finding.kind) == ("reject", "out-of-reference")
    assert finding.nodes == ("n2", "n3")


def test_number_out_of_reference_is_reported_by_how_much(recorded: Recorded) -> None:
    recorded.fail(1, value=4.5)
    (finding,) = recorded.decide().findings
    assert "bandwidth is 4.5 Gb/s, expected at least 8.1 Gb/s (baseline; -50% of 9" in (
        finding.message
    )
    assert "46% of what the link allows" in finding.message


def test_number_above_its_reference_is_reported_with_the_upper_bound(recorded: Recorded) -> None:
    recorded.fail(1)
    bounded = REFERENCE.model_copy(update={"value": 5.0, "upper": 0.2})
    recorded.only(1)["rows"][0]["reference"] = bounded.model_dump(mode="json")
    (finding,) = recorded.decide().findings
    assert "expected at most 6 Gb/s (baseline; +90% of 5" in finding.message


def test_number_out_of_reference_is_rejected_whatever_reframe_says(recorded: Recorded) -> None:
    recorded.result(1, value=4.0)
    assert recorded.decide().decision == "reject"


def test_failed_protection_is_rejected_with_its_own_words(recorded: Recorded) -> None:
    recorded.fail(2, PAIR_FAILURE)
    verdict = recorded.decide()
    (finding,) = verdict.findings
    assert verdict.decision == "reject"
    assert (finding.kind, finding.message) == (PAIR_FAILURE.kind, PAIR_FAILURE.message)


def test_failure_that_points_at_no_node_is_of_the_whole_pair(recorded: Recorded) -> None:
    recorded.fail(2, PAIR_FAILURE)
    assert recorded.decide().findings[0].nodes == ("n3", "n4")


def test_failure_that_points_at_a_node_is_of_that_node(recorded: Recorded) -> None:
    recorded.fail(1, NODE_FAILURE)
    verdict = recorded.decide()
    assert verdict.findings[0].nodes == ("n2",)
    assert nodes_of(verdict.suspects) == ["n2"]


def test_every_failure_of_a_case_is_a_finding(recorded: Recorded) -> None:
    recorded.fail(1, NODE_FAILURE, PAIR_FAILURE, value=4.0)
    assert kinds(recorded.decide()) == ["condition", "tool-failed", "out-of-reference"]


def test_listed_failure_is_rejected_though_reframe_says_pass(recorded: Recorded) -> None:
    recorded.result(0, failures=[PAIR_FAILURE])
    assert recorded.decide().decision == "reject"


def test_evidence_of_a_finding_is_the_stage_folder(recorded: Recorded) -> None:
    recorded.fail(1, NODE_FAILURE)
    assert recorded.decide().findings[0].evidence == str(recorded.stagedir(0, 1))


@pytest.mark.parametrize("failing_run", [0, 1])
def test_retry_that_passes_is_rejected_as_flaky(recorded: Recorded, failing_run: int) -> None:
    recorded.add_run()
    recorded.fail(1, PAIR_FAILURE, run=failing_run)
    verdict = recorded.decide()
    assert verdict.decision == "reject"
    assert "flaky" in kinds(verdict)


def test_retry_of_only_the_failed_case_is_rejected_as_flaky(recorded: Recorded) -> None:
    recorded.add_run()
    recorded.runs[1] = {1: recorded.runs[1][1]}
    recorded.fail(1, run=0, value=4.0)
    assert "flaky" in kinds(recorded.decide())


def test_retry_after_a_first_try_without_result_is_not_accepted(recorded: Recorded) -> None:
    recorded.add_run()
    recorded.no_result(1, "fail", "job blocked")
    assert recorded.decide().decision == "inconclusive"


BLOCKED = "job cancelled because it was blocked: ReqNodeNotAvail, UnavailableNodes:n2"


def test_node_that_does_not_answer_slurm_is_rejected(recorded: Recorded) -> None:
    recorded.no_result(0, "fail", BLOCKED)
    recorded.no_result(1, "fail", BLOCKED)
    campaign = recorded.write()
    campaign.unavailable = ["n2"]
    verdict = decide(campaign)
    assert verdict.decision == "reject"
    assert {finding.nodes for finding in verdict.findings} == {("n2",)}
    assert nodes_of(verdict.suspects) == ["n2"]


def test_slurm_may_know_the_node_that_it_does_not_name(recorded: Recorded) -> None:
    """Under load the pending reason comes without the nodes."""
    recorded.no_result(0, "fail", "blocked: ReqNodeNotAvail, May be reserved for other job")
    recorded.no_result(1, "fail", "job submission failed")
    campaign = recorded.write()
    campaign.unavailable = ["n2"]
    verdict = decide(campaign)
    assert [(f.kind, f.nodes) for f in verdict.findings][:1] == [("unavailable", ("n2",))]
    assert [finding.kind for finding in verdict.findings].count("unavailable") == 1


def test_no_case_at_all_is_rejected(recorded: Recorded) -> None:
    recorded.plan, recorded.runs = [], []
    verdict = recorded.decide()
    assert verdict.decision == "reject"
    assert verdict.reason == "nothing was measured: no test case was selected"


@pytest.mark.parametrize(
    ("session", "why"),
    [
        (None, "no test case was selected"),
        (Session(0, ""), "no test case was selected"),
        (Session(1, "no such check: Iperf9"), "no such check: Iperf9"),
    ],
)
def test_empty_folder_is_rejected(tmp_path: Path, session: Session | None, why: str) -> None:
    scope = Scope({"ns": []}, {})
    requested = Requested([], {}, {})
    campaign = Campaign(
        tmp_path, "lab", "acceptance", scope, requested, "finished", session=session
    )
    verdict = decide(campaign)
    assert (verdict.decision, verdict.reason) == ("reject", f"nothing was measured: {why}")


def test_one_bad_case_outweighs_all_that_is_inconclusive(recorded: Recorded) -> None:
    recorded.no_result(0, "abort")
    recorded.fail(1, NODE_FAILURE)
    recorded.state = "interrupted"
    assert recorded.decide().decision == "reject"


def test_bad_case_is_rejected_also_as_a_baseline(recorded: Recorded) -> None:
    recorded.gate = "baseline"
    recorded.fail(1, NODE_FAILURE)
    assert recorded.decide().decision == "reject"


# ---- inconclusive ----


def test_planned_case_that_the_report_lacks_is_inconclusive(recorded: Recorded) -> None:
    del recorded.runs[0][3]
    verdict = recorded.decide()
    assert verdict.decision == "inconclusive"
    assert "not-run" in kinds(verdict)


@pytest.mark.parametrize("result", ["abort", "skip", "xfail", "", "PASS"])
def test_case_that_came_to_no_result_is_inconclusive(recorded: Recorded, result: str) -> None:
    recorded.no_result(3, result)
    assert recorded.decide().decision == "inconclusive"


def test_aborted_case_keeps_its_reason(recorded: Recorded) -> None:
    recorded.no_result(3, "abort", "the session\nwas stopped")
    assert recorded.decide().findings[0].message == "abort: the session was stopped"


def test_cases_that_one_obstacle_kept_from_starting_are_one_finding(recorded: Recorded) -> None:
    for number in (0, 1):
        why = f"job error: [jobid={number}] not submitted: n2 drained by alice: bad disk"
        recorded.no_result(number, "fail", why)
    (finding,) = recorded.decide().findings
    assert (finding.weight, finding.nodes) == ("inconclusive", ("n1", "n2", "n3"))
    assert finding.message == (
        "2 places (Iperf2Pair): not submitted: n2 drained by alice: bad disk"
    )


# ---- preconditions ----


def not_run(verdict: Verdict) -> list[tuple[str, tuple[str, ...]]]:
    return [(f.message, f.nodes) for f in verdict.findings if f.kind == "not-run"]


def test_case_with_a_failed_precondition_is_listed_with_the_preconditions_name(
    recorded: Recorded,
) -> None:
    recorded.fail(0, NODE_FAILURE)
    recorded.skip(2, because_of=[0])
    message = "not run: its precondition failed: Iperf2Pair %pair=ns:n1:n2"
    assert not_run(recorded.decide()) == [(message, ("n3", "n4"))]


def test_case_with_a_failed_precondition_counts_as_not_run(recorded: Recorded) -> None:
    recorded.fail(0, NODE_FAILURE)
    recorded.skip(2, because_of=[0])
    assert [case.result for case in recorded.decide().cases] == ["fail", "pass", "not run", "pass"]


def test_failed_precondition_rejects_and_what_it_kept_from_running_does_not(
    recorded: Recorded,
) -> None:
    recorded.fail(0, NODE_FAILURE)
    recorded.skip(2, because_of=[0])
    verdict = recorded.decide()
    assert [(f.weight, f.kind) for f in verdict.findings] == [
        ("reject", "condition"),
        ("inconclusive", "not-run"),
    ]


def test_case_that_did_not_run_makes_no_node_a_suspect(recorded: Recorded) -> None:
    recorded.fail(1, NODE_FAILURE)
    recorded.skip(3, because_of=[1])
    assert nodes_of(recorded.decide().suspects) == ["n2"]


def test_aborted_precondition_is_a_failed_one(recorded: Recorded) -> None:
    recorded.no_result(0, "abort")
    recorded.skip(2, because_of=[0])
    ((_, _), (message, _)) = not_run(recorded.decide())
    assert message.startswith("not run: its precondition failed: ")


def test_only_preconditions_that_failed_are_named(recorded: Recorded) -> None:
    recorded.fail(0, NODE_FAILURE)
    recorded.fail(1, NODE_FAILURE)
    recorded.skip(3, because_of=[0, 1, 2])
    ((message, _),) = not_run(recorded.decide())
    assert message.endswith("failed: Iperf2Pair %pair=ns:n1:n2; Iperf2Pair %pair=ns:n2:n3")


def test_case_skipped_for_another_reason_has_that_reason(recorded: Recorded) -> None:
    recorded.skip(2, because_of=[0])
    recorded.runs[0][2]["fail_reason"] = "the compiler is missing"
    assert not_run(recorded.decide()) == [("skip: the compiler is missing", ("n3", "n4"))]


def test_skipped_case_is_not_accepted_though_its_precondition_passed(recorded: Recorded) -> None:
    recorded.skip(2, because_of=[0])
    assert recorded.decide().decision == "inconclusive"


def test_case_that_ran_all_the_same_keeps_its_own_result(recorded: Recorded) -> None:
    recorded.fail(0, NODE_FAILURE)
    recorded.plan[2]["places"][0]["needs"] = [["Iperf2Pair_0", ""]]
    verdict = recorded.decide()
    assert (verdict.cases[2].result, not_run(verdict)) == ("pass", [])


def test_required_check_that_was_kept_from_running_misses_on_its_nodes(recorded: Recorded) -> None:
    recorded.fail(0, NODE_FAILURE)
    for number in (1, 2, 3):
        recorded.skip(number, because_of=[0])
    missing = [f.nodes for f in recorded.decide().findings if f.kind == "not-measured"]
    assert missing == [("n3", "n4")]


def test_number_of_a_preflight_is_no_finding_next_to_what_it_counts(recorded: Recorded) -> None:
    wrong = Failure("path", "n1: rail 0: state is DOWN, expected ACTIVE", ("n1",), "ip link")
    recorded.fail(0, wrong, value=1.0)
    assert kinds(recorded.decide()) == ["path"]


def test_number_of_a_preflight_without_a_failure_is_judged(recorded: Recorded) -> None:
    recorded.fail(0, value=1.0)
    assert kinds(recorded.decide()) == ["out-of-reference"]


# ---- what a cluster lacks ----


def test_what_several_cases_lacked_is_one_finding_and_accuses_no_node(recorded: Recorded) -> None:
    lacks = Failure("environment", "MPI finds no launcher", (), "set launch_options")
    recorded.fail(0, lacks)
    recorded.fail(1, lacks)
    verdict = recorded.decide()
    found = [f for f in verdict.findings if f.kind == "environment"]
    assert [(f.weight, f.next_step) for f in found] == [("inconclusive", "set launch_options")]
    assert found[0].message.startswith("2 places")
    assert (verdict.decision, verdict.suspects) == ("inconclusive", ())


# ---- results that are none ----


@pytest.mark.parametrize("result", ["pass", "fail"])
def test_reframes_word_without_a_result_of_the_check_is_inconclusive(
    recorded: Recorded, result: str
) -> None:
    recorded.no_result(0, result)
    verdict = recorded.decide()
    assert (verdict.decision, kinds(verdict)) == ("inconclusive", ["no-result"])


def test_result_without_a_measurement_is_not_accepted(recorded: Recorded) -> None:
    recorded.only(0)["rows"] = []
    assert recorded.decide().decision == "inconclusive"


def test_number_without_a_reference_is_not_accepted(recorded: Recorded) -> None:
    # As a session leaves it that was told `-S gate=baseline` behind the campaign's back.
    for row in recorded.rows():
        row["reference"] = None
    assert recorded.decide().decision != "accept"


def test_reframe_fails_what_the_check_passed_is_inconclusive(recorded: Recorded) -> None:
    recorded.runs[0][0] = {"result": "fail", "fail_reason": "performance error"}
    assert recorded.decide().decision == "inconclusive"


def test_baseline_records_and_accepts_nothing(recorded: Recorded) -> None:
    recorded.gate = "baseline"
    verdict = recorded.decide()
    assert verdict.decision == "inconclusive"
    assert verdict.reason.startswith("baseline: 4 measurements recorded")


def test_node_without_a_required_check_is_inconclusive(recorded: Recorded) -> None:
    # The pairs left do not touch n4.
    recorded.plan = recorded.plan[:2]
    recorded.runs = [{number: {"result": "pass"} for number in range(2)}]
    verdict = recorded.decide()
    assert (verdict.decision, kinds(verdict)) == ("inconclusive", ["not-measured", "left-out"])
    assert verdict.findings[0].nodes == ("n4",)


def test_required_check_that_was_not_selected_is_inconclusive(recorded: Recorded) -> None:
    campaign = recorded.write()
    campaign.scope.required["ns"].append("MpiWorld")
    (finding,) = decide(campaign).findings
    assert (finding.weight, finding.check, finding.nodes) == ("inconclusive", "MpiWorld", NODES)


def test_required_check_on_another_partition_does_not_count(recorded: Recorded) -> None:
    campaign = recorded.write()
    campaign.scope.nodes["gpu"] = list(NODES)
    campaign.scope.required["gpu"] = ["Iperf2Pair"]
    verdict = decide(campaign)
    assert verdict.decision == "inconclusive"
    assert [finding.partition for finding in verdict.findings] == ["gpu"]


def test_required_check_that_did_not_finish_on_a_node_is_inconclusive(recorded: Recorded) -> None:
    recorded.no_result(2, "abort")
    recorded.no_result(3, "abort")
    (missed,) = [f for f in recorded.decide().findings if f.kind == "not-measured"]
    assert missed.nodes == ("n4",)


@pytest.mark.parametrize("finished", [0, 4])
def test_interrupted_campaign_is_inconclusive(recorded: Recorded, finished: int) -> None:
    recorded.state = "interrupted"
    for number in range(finished, 4):
        del recorded.runs[0][number]
    verdict = recorded.decide()
    assert verdict.decision == "inconclusive"
    assert verdict.reason == f"interrupted after {finished} of 4 places"


def test_interrupted_before_the_plan_is_inconclusive(recorded: Recorded) -> None:
    recorded.state = "interrupted"
    recorded.write()
    (recorded.folder / "plan.json").unlink()
    assert decide(campaigns.load(str(recorded.folder))).decision == "inconclusive"


def test_session_that_ended_badly_is_inconclusive(recorded: Recorded) -> None:
    recorded.session = Session(1, "2 test cases were skipped")
    verdict = recorded.decide()
    assert verdict.decision == "inconclusive"
    assert "exit code 1: 2 test cases were skipped" in verdict.reason


def test_session_that_broke_off_is_reported_before_the_cases_that_it_left_open(
    recorded: Recorded,
) -> None:
    recorded.session = Session(1, "the file system is full")
    recorded.runs = [{}]
    verdict = recorded.decide()
    assert kinds(verdict) == ["session", "not-run", "not-measured"]
    assert verdict.reason == "ReFrame ended with exit code 1: the file system is full"


def test_session_that_broke_off_without_a_word_leaves_it_to_the_cases(
    recorded: Recorded,
) -> None:
    recorded.session = Session(1, "")
    del recorded.runs[0][3]
    assert kinds(recorded.decide()) == ["not-run"]


def test_failures_explain_the_exit_code_of_a_session(recorded: Recorded) -> None:
    recorded.session = Session(1, "a line of another time")
    recorded.fail(1, NODE_FAILURE)
    assert kinds(recorded.decide()) == ["condition"]


def test_cases_without_their_precondition_are_no_broken_session(recorded: Recorded) -> None:
    recorded.session = Session(1, "1 of 4 test cases were skipped, so this is no pass")
    recorded.fail(0, NODE_FAILURE)
    recorded.skip(2, because_of=[0])
    assert kinds(recorded.decide()) == ["condition", "not-run"]


def test_session_that_broke_off_does_not_outweigh_a_failure(recorded: Recorded) -> None:
    recorded.session = Session(1, "the file system is full")
    recorded.fail(0, NODE_FAILURE)
    del recorded.runs[0][3]
    verdict = recorded.decide()
    assert (verdict.decision, kinds(verdict)[0]) == ("reject", "session")


def test_interruption_is_reported_before_what_it_did_to_the_session(recorded: Recorded) -> None:
    recorded.state = "interrupted"
    recorded.session = Session(1, "keyboard interrupt")
    del recorded.runs[0][3]
    assert kinds(recorded.decide())[:2] == ["interrupted", "session"]


# ---- cases that a filter left out ----


MISSING = Failure("tool-missing", "wdt not found on n1", ("n1",), "make stack SYSTEM=lab")


def leave_out(recorded: Recorded, number: int, check: str = "WdtTransfer") -> None:
    """One more case, of an optional tool that is not there."""
    while len(recorded.plan) <= number:
        recorded.plan.append(dict(recorded.plan[0], unique_name=f"WdtTransfer_{number}"))
    recorded.plan[number].update(check=check, case=f"{check} %pair=ns:n1:n2:large:lan")
    recorded.runs[0][number] = {"result": "pass"}
    recorded.result(number)
    recorded.only(number).update(rows=[], left_out=dataclasses.asdict(MISSING))


def test_what_is_optional_and_not_there_is_listed_and_gates_nothing(recorded: Recorded) -> None:
    leave_out(recorded, 4)
    verdict = recorded.decide()
    assert (verdict.decision, verdict.findings, verdict.suspects) == ("accept", (), ())
    assert verdict.reason == "4 of 5 places passed, 1 left out, 4 measurements"
    (listed,) = verdict.as_dict()["left_out"]
    assert (listed["check"], listed["message"]) == ("WdtTransfer", MISSING.message)
    assert (
        "left out, optional: WdtTransfer ns: wdt not found on n1; next: make stack SYSTEM=lab"
        in text.plain(verdict, width=300, all_places=True)
    )


def test_what_was_left_out_measures_no_node_of_a_required_check(recorded: Recorded) -> None:
    for number in (0, 3):
        leave_out(recorded, number, check="Iperf2Pair")
    verdict = recorded.decide()
    assert verdict.decision == "inconclusive"
    assert kinds(verdict) == ["not-measured"]
    assert verdict.findings[0].nodes == ("n1",)


def test_nothing_but_what_was_left_out_is_nothing_measured(recorded: Recorded) -> None:
    for number in range(4):
        leave_out(recorded, number)
    assert recorded.decide().decision != "accept"


def test_what_was_left_out_and_failed_is_rejected(recorded: Recorded) -> None:
    leave_out(recorded, 4)
    recorded.only(4)["failures"] = [dataclasses.asdict(NODE_FAILURE)]
    recorded.runs[0][4] = {"result": "fail"}
    assert recorded.decide().decision == "reject"


def test_a_missing_tool_says_nothing_against_its_node(recorded: Recorded) -> None:
    recorded.fail(0, MISSING)
    verdict = recorded.decide()
    assert verdict.decision == "inconclusive"
    assert verdict.suspects == ()
    (finding,) = verdict.findings
    assert (finding.kind, finding.next_step) == ("tool-missing", "make stack SYSTEM=lab")


def test_a_missing_tool_hides_no_slow_link(recorded: Recorded) -> None:
    recorded.fail(0, value=1.0)
    recorded.fail(1, value=1.0)
    recorded.fail(3, MISSING)
    verdict = recorded.decide()
    assert verdict.decision == "reject"
    assert nodes_of(verdict.suspects) == ["n2"]


def left_out(recorded: Recorded) -> list[tuple[str, str, str]]:
    verdict = recorded.decide()
    found = [f for f in verdict.findings if f.kind == "left-out"]
    assert verdict.decision == ("inconclusive" if found else "accept")
    return [(f.check, f.partition, f.message) for f in found]


def test_required_check_with_only_some_of_its_cases_is_inconclusive(recorded: Recorded) -> None:
    recorded.possible = {"Iperf2Pair": {"ns": 12}}
    message = "4 of 12 places were selected: a filter left the others out"
    assert left_out(recorded) == [("Iperf2Pair", "ns", message)]


def test_repeated_runs_do_not_stand_for_cases_that_were_left_out(recorded: Recorded) -> None:
    recorded.possible = {"Iperf2Pair": {"ns": 8}}
    recorded.add_run()
    assert len(left_out(recorded)) == 1


def test_case_that_did_not_run_was_selected_all_the_same(recorded: Recorded) -> None:
    del recorded.runs[0][3]
    assert kinds(recorded.decide()) == ["not-run"]


@pytest.mark.parametrize(
    "possible",
    [
        None,
        {},
        {"Iperf2Pair": {"ns": 4, "gpu": 9}},
        {"Iperf2Pair": {"ns": 4}, "RdmaLatency": {"ns": 9}},
    ],
    ids=["old campaign", "unknown", "another partition", "not required"],
)
def test_only_cases_that_are_required_here_must_be_selected(
    recorded: Recorded, possible: dict[str, dict[str, int]] | None
) -> None:
    recorded.possible = possible
    assert left_out(recorded) == []


@pytest.mark.parametrize(
    ("state", "session"), [("running", None), ("running", Session(0, "")), ("finished", None)]
)
def test_campaign_with_a_session_that_was_not_seen_to_end_is_not_accepted(
    recorded: Recorded, state: campaigns.State, session: Session | None
) -> None:
    recorded.state, recorded.session = state, session
    verdict = recorded.decide()
    assert (verdict.decision, kinds(verdict)) == ("inconclusive", ["unfinished"])
    assert verdict.reason == "still running, or broken off, after 4 of 4 places"


@pytest.mark.parametrize("state", ["broken", "", None, "Finished"])
def test_state_that_is_unknown_is_no_campaign(recorded: Recorded, state: Any) -> None:
    recorded.state = state
    recorded.write()
    with pytest.raises(RailgaugeError, match=r"campaign\.json: state: "):
        campaigns.load(str(recorded.folder))


def test_campaign_is_loaded_as_it_was_saved(recorded: Recorded) -> None:
    recorded.session = Session(3, "cut short")
    campaign = recorded.write()
    assert campaigns.load(str(recorded.folder)) == campaign


# ---- published numbers, context and ratios ----

PUBLISHED = REFERENCE.model_copy(update={"kind": "published"})
CONTEXT = Reference.model_validate(
    {
        **REFERENCE.model_dump(exclude={"lower"}),
        "value": 96,
        "kind": "published",
        "condition": "unstated",
        "note": "iperf3, one [fast] cable",
    }
)
#: What the first pair carries over what the second does: the lab's links are all alike.
RATIO: dict[str, Any] = {
    "name": "first pair over second",
    "metric": "bandwidth",
    "of": {"check": "Iperf2Pair", "streams": 4},
    "over": {"check": "Iperf2Pair", "streams": 1},
    "value": 2.0,
    "lower": -0.1,
    "provenance": {"source": "a test", "date": "2026-11-21"},
}


def with_context(recorded: Recorded) -> Recorded:
    for row in recorded.rows():
        row["context"] = [CONTEXT.model_dump(mode="json")]
    return recorded


def with_ratio(recorded: Recorded, one_stream: float | None = 4.75, **changes: Any) -> Recorded:
    """All cases know the ratio; the last one has measured its other side."""
    for result in recorded.results.values():
        assert result is not None
        result["ratios"] = [{**RATIO, **changes}]
    if one_stream is not None:
        (row,) = recorded.only(len(recorded.plan) - 1)["rows"]
        row["measurement"].update(streams=1, value=one_stream)
        row["reference"].update(value=one_stream)
    return recorded


def test_published_number_gates_until_there_is_a_baseline(recorded: Recorded) -> None:
    recorded.fail(1, value=4.0)
    for row in recorded.rows():
        row["reference"] = PUBLISHED.model_dump(mode="json")
    verdict = recorded.decide()
    assert (verdict.decision, verdict.by_published) == ("reject", True)


def test_text_says_once_that_a_published_number_is_no_baseline(recorded: Recorded) -> None:
    for row in recorded.rows():
        row["reference"] = PUBLISHED.model_dump(mode="json")
    assert text.plain(recorded.decide()).count("published, not your baseline") == 1


@pytest.mark.parametrize(("kind", "times"), [("floor", 1), ("baseline", 0)])
def test_text_says_where_nothing_but_floors_judged(
    recorded: Recorded, kind: str, times: int
) -> None:
    for row in recorded.rows():
        row["reference"] = REFERENCE.model_copy(update={"kind": kind}).model_dump(mode="json")
    report = text.plain(recorded.decide())
    assert report.count("they prove function only, and are no baseline") == times


def test_text_says_so_only_of_published_numbers(recorded: Recorded) -> None:
    assert "published" not in text.plain(with_context(recorded).decide()).replace(CONTEXT.note, "")


def test_context_gates_nothing(recorded: Recorded) -> None:
    assert with_context(recorded).decide().decision == "accept"


def test_context_is_no_reference(recorded: Recorded) -> None:
    with_context(recorded)
    for row in recorded.rows():
        row["reference"] = None
    verdict = recorded.decide()
    assert (verdict.decision, set(kinds(verdict))) == ("inconclusive", {"no-reference"})


def test_context_is_stored_next_to_each_measurement(recorded: Recorded) -> None:
    stored = with_context(recorded).decide().as_dict()["measurements"]
    assert [m["context"][0]["value"] for m in stored] == [96] * 4


def test_text_has_context_once_next_to_all_that_was_measured(recorded: Recorded) -> None:
    recorded.result(1, value=9.25)
    lines = text.plain(with_context(recorded).decide(), width=300, all_places=True).splitlines()
    (line,) = [line for line in lines if "iperf3, one [fast] cable" in line]
    assert "9.25 to 9.5 Gb/s" in line and "96 Gb/s" in line


def test_ratio_within_its_bounds_is_accepted(recorded: Recorded) -> None:
    verdict = with_ratio(recorded).decide()
    assert (verdict.decision, [row.value for row in verdict.ratios]) == ("accept", [2.0])


def test_ratio_out_of_its_bounds_is_rejected_naming_both_conditions(recorded: Recorded) -> None:
    (finding,) = with_ratio(recorded, one_stream=9.5).decide().findings
    assert (finding.weight, finding.kind) == ("reject", "out-of-ratio")
    assert "of (Iperf2Pair, streams 4) is 1 times that of (Iperf2Pair, streams 1)" in (
        finding.message
    )
    assert "expected at least 1.8 (-50% of 2)" in finding.message


def test_ratio_above_its_bounds_is_reported_with_the_upper_one(recorded: Recorded) -> None:
    (finding,) = with_ratio(recorded, value=1.0, lower=None, upper=0.5).decide().findings
    assert "expected at most 1.5 (+100% of 1)" in finding.message


def test_ratio_with_one_side_is_no_finding(recorded: Recorded) -> None:
    verdict = with_ratio(recorded, one_stream=None).decide()
    assert (verdict.decision, verdict.findings) == ("accept", ())
    assert "not measured" in text.plain(verdict)


def test_ratio_of_unstated_condition_is_no_finding(recorded: Recorded) -> None:
    ratio = {"condition": "unstated", "lower": None}
    verdict = with_ratio(recorded, one_stream=9.5, **ratio).decide()
    assert verdict.decision == "accept"
    (line,) = [n for n in text.plain(verdict).splitlines() if n.startswith(RATIO["name"])]
    assert line.split("│")[2].strip() == "2 (context)"


def test_ratio_judges_no_baseline(recorded: Recorded) -> None:
    recorded.gate = "baseline"
    verdict = with_ratio(recorded, one_stream=9.5).decide()
    assert (verdict.decision, verdict.findings) == ("inconclusive", ())


def test_text_has_each_ratio_next_to_its_reference(recorded: Recorded) -> None:
    lines = text.plain(with_ratio(recorded, one_stream=9.5).decide()).splitlines()
    (line,) = [line for line in lines if line.startswith(RATIO["name"])]
    assert [cell.strip() for cell in line.split("│")] == [RATIO["name"], "1", ">= 1.8", "out"]


def test_verdict_stores_each_ratio_as_it_was_written(recorded: Recorded) -> None:
    (stored,) = json.loads(json.dumps(with_ratio(recorded).decide().as_dict()))["ratios"]
    assert (stored["value"], stored["within"]) == (2.0, True)
    assert Ratio.model_validate(stored["reference"]) == Ratio.model_validate(RATIO)


# ---- records that are damaged or gone ----

#: Every file that a decision rests on, in the accepted campaign.
NEEDED = [
    "campaign.json",
    "plan.json",
    "report.json",
    *(f"stage/Iperf2Pair_{number}/railgauge.jsonl" for number in range(len(NODES))),
    *(f"ended/{number}.0.json" for number in range(len(NODES))),
]
#: The tools' texts and ReFrame's log were judged before; they are there for people.
NOT_NEEDED = ["reframe.out", *(f"stage/Iperf2Pair_{n}/client.out" for n in range(len(NODES)))]
#: Old campaigns lack it; where it is there, it counts.
POSSIBLE = "possible.json"


def decision_in(folder: Path) -> str:
    """As the command line would: loaded, decided, stored and printed."""
    try:
        verdict = decide(campaigns.load(str(folder)))
    except RailgaugeError:
        return "no campaign"
    json.dumps(verdict.as_dict(), allow_nan=False)
    text.plain(verdict)
    return verdict.decision


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recorded = Recorded(tmp_path_factory.mktemp("campaigns") / "accepted")
    recorded.write()
    return recorded.folder


@dataclasses.dataclass
class Damage:
    """One file of the accepted campaign, put right again afterwards."""

    path: Path

    def __enter__(self) -> Path:
        self.before = self.path.read_bytes()
        return self.path

    def __exit__(self, *_: object) -> None:
        self.path.write_bytes(self.before)


def test_needed_and_other_files_are_all_there_are(accepted: Path) -> None:
    found = {str(p.relative_to(accepted)) for p in accepted.rglob("*") if p.is_file()}
    assert found == {*NEEDED, *NOT_NEEDED, POSSIBLE}


@pytest.mark.parametrize("name", NEEDED)
def test_campaign_that_lost_a_file_is_never_accepted(accepted: Path, name: str) -> None:
    with Damage(accepted / name) as path:
        path.unlink()
        assert decision_in(accepted) != "accept"


@pytest.mark.parametrize("name", [*NEEDED, POSSIBLE])
@settings(max_examples=tries(40))
@given(data=st.data())
def test_campaign_with_a_truncated_file_is_never_accepted(
    accepted: Path, name: str, data: st.DataObject
) -> None:
    with Damage(accepted / name) as path:
        whole = path.read_bytes().rstrip()
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        assert decision_in(accepted) != "accept"


@pytest.mark.parametrize("name", NEEDED[3:])
@settings(max_examples=tries(40))
@given(data=st.data())
def test_campaign_with_another_number_in_a_record_is_never_accepted(
    accepted: Path, name: str, data: st.DataObject
) -> None:
    with Damage(accepted / name) as path:
        whole = path.read_text()
        digits = [match.start() for match in re.finditer(r"[0-9]", whole)]
        at = data.draw(st.sampled_from(digits))
        digit = data.draw(st.sampled_from("0123456789").filter(lambda one: one != whole[at]))
        path.write_text(whole[:at] + digit + whole[at + 1 :])
        assert decision_in(accepted) != "accept"


def test_report_that_says_pass_of_a_case_that_failed_is_damaged(recorded: Recorded) -> None:
    recorded.no_result(1, "fail", "sanity error")
    folder = recorded.write().folder
    report = (folder / "report.json").read_text()
    (folder / "report.json").write_text(report.replace('"fail"', '"pass"'))
    assert "says pass, the case's end fail" in read(campaigns.load(str(folder)))[1].damage


def test_a_campaign_that_was_copied_is_judged_by_its_own_files(accepted: Path) -> None:
    copied = accepted.parent / "elsewhere" / accepted.name
    shutil.copytree(accepted, copied)
    assert decision_in(copied) == "accept"
    for case in read(campaigns.load(str(copied))):
        assert case.folder is not None and case.folder.is_relative_to(copied)
    record = copied / NEEDED[3]
    record.write_text(record.read_text().replace("9.5", "9.6"))
    assert (decision_in(copied), decision_in(accepted)) == ("inconclusive", "accept")


def test_a_campaign_in_a_folder_of_another_name_is_the_same_one(
    accepted: Path, tmp_path: Path
) -> None:
    shutil.copytree(accepted, tmp_path / "evidence")
    (tmp_path / "link").symlink_to(accepted)
    assert decision_in(tmp_path / "evidence") == decision_in(tmp_path / "link") == "accept"


def test_no_campaign_goes_by_the_name_of_another_one(accepted: Path, tmp_path: Path) -> None:
    """An old acceptance in a folder of today's date would be today's."""
    other = tmp_path / "20261124T101655Z-lab-7578a0"
    shutil.copytree(accepted, other)
    assert decision_in(other) == "inconclusive"


def test_in_a_copy_too_a_case_that_failed_with_a_record_needs_its_end(
    recorded: Recorded, tmp_path: Path
) -> None:
    recorded.fail(1, NODE_FAILURE)
    folder = recorded.write().folder
    (folder / "ended" / "1.0.json").unlink()
    shutil.move(folder, tmp_path / "evidence")
    assert "has no end of this case" in read(campaigns.load(str(tmp_path / "evidence")))[1].damage


def test_a_case_that_failed_and_left_nothing_is_measured_again(recorded: Recorded) -> None:
    """The results area was full when it ended, and is not any more."""
    recorded.no_result(1, "fail", "No space left on device")
    folder = recorded.write().folder
    (folder / "ended" / "1.0.json").unlink()
    case = read(campaigns.load(str(folder)))[1]
    assert (case.result, case.damage) == ("fail", "")
    found = remaining(campaigns.load(str(folder)))
    assert found is not None and len(found.missing) == 1 and not found.failed


def test_a_case_that_failed_with_a_record_needs_its_end(recorded: Recorded) -> None:
    recorded.fail(1, NODE_FAILURE)
    folder = recorded.write().folder
    (folder / "ended" / "1.0.json").unlink()
    assert "has no end of this case" in read(campaigns.load(str(folder)))[1].damage


def test_an_aborted_case_is_not_damaged_by_the_end_that_it_left(recorded: Recorded) -> None:
    """ReFrame calls a case aborted, and tells its listeners that it failed, where scancel fails."""
    recorded.no_result(1, "fail", "interrupted")
    folder = recorded.write().folder
    report = (folder / "report.json").read_text()
    (folder / "report.json").write_text(report.replace('"fail"', '"abort"'))
    case = read(campaigns.load(str(folder)))[1]
    assert (case.result, case.damage) == ("abort", "")


@pytest.mark.parametrize("name", NOT_NEEDED)
def test_decision_does_not_read_the_tools_texts_again(accepted: Path, name: str) -> None:
    with Damage(accepted / name) as path:
        path.unlink()
        assert decision_in(accepted) == "accept"


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b"[1,"])
@pytest.mark.parametrize("name", [*NEEDED[1:4], POSSIBLE])
def test_damaged_record_is_inconclusive_and_named(
    accepted: Path, name: str, content: bytes
) -> None:
    with Damage(accepted / name) as path:
        path.write_bytes(content)
        assert decision_in(accepted) == "inconclusive"
        verdict = decide(campaigns.load(str(accepted)))
    (finding,) = verdict.findings
    assert (finding.weight, finding.kind) == ("inconclusive", "broken-record")
    assert str(accepted / name) in finding.message
    # A case's own record is of that case, the others are of the whole campaign.
    assert finding.nodes == (("n1", "n2") if name.startswith("stage") else ())


@pytest.mark.parametrize("name", ["plan.json", "report.json"])
def test_without_plan_or_report_there_are_no_cases_to_read(accepted: Path, name: str) -> None:
    with Damage(accepted / name) as path:
        path.write_text('[{"check": 1}]')
        with pytest.raises(BrokenRecordError, match=name.replace(".", r"\.")):
            read(campaigns.load(str(accepted)))


def test_damaged_record_of_one_case_hides_no_finding_of_another(recorded: Recorded) -> None:
    recorded.fail(1, NODE_FAILURE)
    campaign = recorded.write()
    (recorded.stagedir(0, 3) / RESULT_FILE).write_text("{")
    verdict = decide(campaign)
    assert verdict.decision == "reject"
    assert kinds(verdict) == ["condition", "broken-record"]
    assert verdict.findings[0].message == NODE_FAILURE.message


def _places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(document, (dict, list)):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from _places(document[key], (*place, key))


def _replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[place[0]] = _replaced(copy[place[0]], place[1:], value)
    return copy


@pytest.mark.parametrize("name", ["campaign.json", "plan.json", "report.json", NEEDED[3], POSSIBLE])
def test_strange_record_is_never_a_crash(accepted: Path, name: str) -> None:
    crashes: list[Any] = []
    stranges: list[Any] = [None, [], {}, "x", -1, 0, [None]]
    with Damage(accepted / name) as path:
        lines = (
            [json.loads(line) for line in path.read_text().splitlines()]
            if (path.suffix == ".jsonl")
            else [json.loads(path.read_text())]
        )
        for place in _places(lines):
            for strange in stranges:
                changed = _replaced(lines, place, strange)
                told = changed if isinstance(changed, list) else [changed]
                path.write_text("\n".join(json.dumps(line) for line in told))
                try:
                    decision_in(accepted)
                except Exception as error:
                    crashes.append((place, strange, error))
    assert crashes == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("measurement", {**bandwidth(9.5, ("n1", "n2")).as_dict(), "unit": "GB/s"}),
        ("measurement", {**bandwidth(9.5, ("n1", "n2")).as_dict(), "value": float("nan")}),
        ("measurement", {"metric": "bandwidth"}),
        ("reference", {"value": 9.0}),
        ("limit", {"value": 9.0}),
        ("limit", {"value": 0.0, "unit": "Gb/s", "reason": "nothing"}),
        ("context", [{"value": 9.0}]),
        ("ratios", [{"value": 9.0}]),
        ("rows", None),
        ("failures", [{"kind": "condition"}]),
        ("failures", [{"colour": "red"}]),
        ("failures", None),
        ("calls", [{"tool": "iperf2"}]),
    ],
)
def test_result_that_is_no_result_is_a_broken_record(
    recorded: Recorded, key: str, value: Any
) -> None:
    record = recorded.results[0, 0]
    assert record is not None
    # The job has failures too; the innermost is meant.
    parts = (recorded.only(0)["rows"][0], recorded.only(0), record)
    next(part for part in parts if key in part)[key] = value
    damaged, *others = read(recorded.write())
    assert str(recorded.stagedir(0, 0) / RESULT_FILE) in damaged.damage
    assert not damaged.passed
    assert all(case.passed and not case.damage for case in others)


# ---- cases, as read ----


def test_a_verdict_is_read_without_reframe() -> None:
    """It is made from records alone, where the suite's tools need not be."""
    hidden = "import sys; sys.modules['reframe'] = None"
    program = f"{hidden}; import railgauge.verdict.decision.rules, railgauge.report.text"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_accepted_campaign_does_not_wait_for_scipys_functions(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading them would be a third of what such a command takes to begin."""
    program = (
        "import sys, railgauge.acceptance.accept, railgauge.gate.trust; "
        "import railgauge.verdict.comparison.power; "
        "sys.exit('scipy.special' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    monkeypatch.setattr(scipy, "special", None)
    verdict = recorded.decide()
    assert verdict.decision == "accept" and "finds with 99%" in text.plain(
        verdict, width=300, all_places=True
    )


def test_a_case_may_measure_several_places(recorded: Recorded) -> None:
    """Each stands for itself: a bad one is no word against the others."""
    record = recorded.two_places(2)
    first, second = read(recorded.write())[2:4]
    assert (first.place, first.nodes) == ("a", ("n3", "n4"))
    assert (second.place, second.nodes) == ("b", ("n1", "n2"))
    record["results"][1]["rows"][0]["measurement"]["value"] = 4.0
    recorded.runs[0][2] = {"result": "fail", "fail_reason": "performance error"}
    assert [case.passed for case in read(recorded.write())] == [True, True, True, False, True]
    assert recorded.decide().decision == "reject"


def test_a_place_without_a_result_keeps_the_verdict_from_accept(recorded: Recorded) -> None:
    record = recorded.two_places(2)
    del record["results"][1]
    assert [c.place for c in read(recorded.write()) if not c.finished] == ["b"]
    assert recorded.decide().decision == "inconclusive"


def test_a_place_that_was_not_measured_says_why(recorded: Recorded) -> None:
    record = recorded.two_places(2)
    del record["results"][1]
    record["not_run"] = {"b": "n2 was lost"}
    (left,) = [case for case in read(recorded.write()) if not case.finished]
    assert (left.place, left.result, left.reason) == ("b", "not run", "n2 was lost")
    assert recorded.decide().decision == "inconclusive"


@pytest.mark.parametrize("name", ["a", "c"])
def test_results_that_cannot_be_of_this_case_are_damage(recorded: Recorded, name: str) -> None:
    """Twice the same place, or one that nobody planned."""
    record = recorded.two_places(2)
    record["results"][1]["place"] = name
    assert [bool(case.damage) for case in read(recorded.write())] == [
        *(False, False, True, True, False)
    ]
    assert recorded.decide().decision == "inconclusive"


def measured_again(recorded: Recorded, *nodes: str, value: float = 9.5) -> None:
    """A pair that was not planned, measured after those of one sweep."""
    record = recorded.results[0, 0]
    assert record is not None
    again = json.loads(json.dumps(record["results"][0]))
    again.update(place=f"{':'.join(nodes)}@1", nodes=list(nodes), repeats="n1:n2", failures=[])
    again["rows"][0]["measurement"].update(nodes=list(nodes), value=value)
    record["results"].append(again)


#: Rounds of eight nodes that meet others than their neighbours.
AGAIN = ("n2-n6 n3-n7 n4-n8 n1-n5", "n2-n5 n4-n7 n3-n8 n1-n6", "n2-n4 n1-n3 n5-n7 n6-n8")


def more_rounds(recorded: Recorded, *rounds: str, bad: Collection[str]) -> None:
    """Rounds that the sweep adds, each of such pairs: `n1-n4 n2-n3`. Those with a bad node are."""
    for number, pairs in enumerate(rounds, start=1):
        for pair in (tuple(each.split("-")) for each in pairs.split()):
            measured_again(recorded, *pair, value=4.0 if set(bad) & set(pair) else 9.5)
            added = recorded.results[0, 0]
            assert added is not None
            added["results"][-1].update(place=f"{':'.join(pair)}@{number}", round=1 + number)


def in_one_sweep(recorded: Recorded) -> None:
    """All pairs of the ring as places of the first case."""
    first, *others = (recorded.only(number) for number in range(len(recorded.plan)))
    places = [case["places"][0] for case in recorded.plan]
    for place, result in zip(places, (first, *others), strict=True):
        place["name"] = result["place"] = ":".join(place["nodes"])
    record = recorded.results[0, 0]
    assert record is not None
    record["results"] = [first, *others]
    recorded.plan[:] = [{**recorded.plan[0], "places": places}]
    recorded.runs[0] = {0: recorded.runs[0][0]}
    recorded.results = {(0, 0): record}


def slow(recorded: Recorded, *nodes: str) -> None:
    """All places with one of these nodes are."""
    record = recorded.results[0, 0]
    assert record is not None
    recorded.runs[0][0] = {"result": "fail", "fail_reason": "performance error"}
    for result in record["results"]:
        measurement = result["rows"][0]["measurement"]
        if set(nodes) & set(measurement["nodes"]):
            measurement["value"] = 4.0


def test_a_record_of_other_nodes_is_no_result(tmp_path: Path) -> None:
    ring = Recorded(tmp_path / "20261121T042325Z-lab-91c33c")
    ring.only(0)["nodes"] = ["n3", "n4"]
    verdict = ring.decide()
    assert verdict.decision == "inconclusive" and kinds(verdict) == ["broken-record"]
    assert any("of n3, n4" in finding.message for finding in verdict.findings)


def test_a_node_that_counts_what_its_partner_loses_is_not_at_fault(tmp_path: Path) -> None:
    """n2 loses packets that it sends: both ends of a connection count that."""
    names = ("n1", "n2", "n3")
    ring = Recorded(tmp_path / "20261121T042325Z-lab-91c33c", nodes=names)
    budgets = systems.load("dgx-h100").partitions[0].extras.counters
    for number, other in ((0, "n1"), (1, "n3")):
        seen = {
            node: {"counters": {"counters": {f"rdma/mlx5_0/1/hw_counters/{counter}": 41}}}
            for node, counter in (("n2", "packet_seq_err"), (other, "out_of_sequence"))
        }
        ring.fail(number, *beyond_budgets(seen, budgets))
    verdict = ring.decide()
    assert verdict.failing_nodes == ["n2"] and nodes_of(verdict.suspects) == ["n2"]
    assert verdict.passing_nodes == ["n1", "n3"]


@pytest.mark.parametrize("nodes", [2, 8])
def test_a_node_that_failed_with_one_that_is_good_is_not_passing(
    tmp_path: Path, nodes: int
) -> None:
    names = tuple(f"n{number}" for number in range(1, nodes + 1))
    ring = Recorded(tmp_path / "20261121T042325Z-lab-91c33c", nodes=names)
    ring.add_run()
    for planned in ring.plan:
        planned["runs"] = 2
    ring.fail(0, Failure("tool-failed", "exit code 1"))
    verdict = ring.decide()
    assert verdict.decision == "reject" and verdict.failing_nodes == []
    assert verdict.passing_nodes == list(names[2:])


def test_what_a_campaign_finds_is_what_it_finds_on_healthy_nodes(tmp_path: Path) -> None:
    names = tuple(f"n{number}" for number in range(1, 9))
    ring = Recorded(tmp_path / "20261121T042325Z-lab-91c33c", nodes=names)
    healthy = ring.decide().power
    in_one_sweep(ring)
    slow(ring, "n2")
    more_rounds(ring, *AGAIN, bad={"n2"})
    verdict = ring.decide()
    assert verdict.failing_nodes == ["n2"]
    assert [each.places for each in healthy.conditions] == [8]
    assert [each.places for each in verdict.power.conditions] == [6]
    (own,), (before,) = verdict.power.conditions, healthy.conditions
    assert own.noise == before.noise and own.false_alarms == pytest.approx(before.false_alarms)


def test_a_node_between_two_bad_nodes_is_cleared_by_a_third(tmp_path: Path) -> None:
    names = tuple(f"n{number}" for number in range(1, 13))
    ring = Recorded(tmp_path / "20261121T042325Z-lab-91c33c", nodes=names)
    in_one_sweep(ring)
    slow(ring, "n2", "n4")
    # Not even before: the fewest that explain it are the other two.
    blind = ring.decide().suspects
    assert nodes_of(blind) == ["n2", "n4"] and not any(s.confirmed for s in blind)
    more_rounds(
        ring,
        "n2-n6 n3-n7 n4-n8 n1-n5 n9-n11 n10-n12",
        "n2-n7 n3-n8 n4-n9 n1-n6 n5-n11 n10-n12",
        "n2-n8 n3-n9 n4-n10 n1-n7 n5-n11 n6-n12",
        "n2-n9 n3-n10 n4-n11 n1-n8 n5-n12",
        "n2-n10 n3-n11 n4-n12 n1-n9 n6-n8",
        bad={"n2", "n4"},
    )
    verdict = ring.decide()
    assert nodes_of(verdict.suspects) == verdict.failing_nodes == ["n2", "n4"]
    assert "n3" in verdict.passing_nodes
    # What was measured again is evidence, and no finding next to those of the plan.
    assert {finding.place for finding in verdict.findings} == {"n1:n2", "n2:n3", "n3:n4", "n4:n5"}


def test_a_pair_that_is_bad_although_nothing_of_the_plan_was_is_a_finding(
    recorded: Recorded,
) -> None:
    in_one_sweep(recorded)
    measured_again(recorded, "n1", "n3", value=4.0)
    recorded.runs[0][0] = {"result": "fail", "fail_reason": "performance error"}
    verdict = recorded.decide()
    assert (verdict.decision, verdict.findings[0].place) == ("reject", "n1:n3@1")


def test_what_was_measured_again_is_no_place_of_the_plan(recorded: Recorded) -> None:
    in_one_sweep(recorded)
    measured_again(recorded, "n1", "n3")
    assert recorded.possible is not None
    recorded.possible["Iperf2Pair"]["ns"] += 1
    verdict = recorded.decide()
    assert (verdict.decision, kinds(verdict)) == ("inconclusive", ["left-out"])


@pytest.mark.parametrize(
    "changes",
    [{"repeats": "n1:n3"}, {"repeats": ""}, {"nodes": ["n1", "n9"]}, {"place": "n1:n2"}],
    ids=str,
)
def test_a_pair_that_cannot_have_been_measured_again_is_damage(
    recorded: Recorded, changes: dict[str, Any]
) -> None:
    in_one_sweep(recorded)
    record = recorded.results[0, 0]
    assert record is not None
    measured_again(recorded, "n1", "n3")
    record["results"][-1].update(changes)
    assert recorded.decide().findings[0].kind == "broken-record"


def test_a_retest_recorded_by_an_earlier_release_is_read(recorded: Recorded) -> None:
    in_one_sweep(recorded)
    record = recorded.results[0, 0]
    assert record is not None
    measured_again(recorded, "n1", "n3")
    record["results"][-1]["like"] = record["results"][-1].pop("repeats")
    assert [case.repeats for case in read(recorded.write())][-1] == "n1:n2"


def test_what_is_wrong_with_a_sweeps_job_is_said_next_to_its_places(recorded: Recorded) -> None:
    record = recorded.two_places(2)
    record["failures"] = [{"kind": "job-state", "message": "NODE_FAIL", "nodes": ["n3"]}]
    recorded.runs[0][2] = {"result": "fail", "fail_reason": "sanity error"}
    cases = read(recorded.write())
    assert [case.of_job for case in cases].count(True) == 1
    verdict = recorded.decide()
    assert verdict.decision == "reject"
    assert [finding.kind for finding in verdict.findings] == ["job-state"]


def test_what_reframe_alone_holds_against_a_case_fails_all_of_it(recorded: Recorded) -> None:
    recorded.two_places(2)
    recorded.runs[0][2] = {"result": "fail", "fail_reason": "cleanup error"}
    assert recorded.decide().decision == "inconclusive"
    assert [case.passed for case in read(recorded.write())] == [True, True, False, False, True]


def test_a_record_is_read_as_it_was_written(recorded: Recorded, tmp_path: Path) -> None:
    path = recorded.write().folder / "stage" / "Iperf2Pair_2" / RESULT_FILE
    found = read_record(path)
    assert found is not None
    found.write(tmp_path / "again.jsonl")
    assert read_record(tmp_path / "again.jsonl") == found


def test_a_record_that_was_cut_anywhere_is_damaged(recorded: Recorded) -> None:
    recorded.two_places(2)
    path = recorded.write().folder / "stage" / "Iperf2Pair_2" / RESULT_FILE
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:size])
        with pytest.raises(BrokenRecordError):
            read_record(path)


def test_case_keeps_plan_result_and_numbers_together(recorded: Recorded) -> None:
    case = read(recorded.write())[2]
    assert (case.name, case.nodes) == ("Iperf2Pair %pair=ns:n3:n4", ("n3", "n4"))
    assert case.rows == (Row(bandwidth(9.5, ("n3", "n4")), REFERENCE, LIMIT),)


def test_case_has_the_kind_that_was_planned(recorded: Recorded) -> None:
    recorded.plan[2]["places"][0]["kind"] = "1-1"
    assert [case.kind for case in read(recorded.write())] == ["", "", "1-1", ""]


def test_case_of_the_report_that_was_not_planned_is_not_counted(recorded: Recorded) -> None:
    recorded.write()
    (recorded.folder / "plan.json").write_text(json.dumps(recorded.plan[:3]))
    assert len(read(campaigns.load(str(recorded.folder)))) == 3


def test_same_name_on_another_partition_is_another_case(recorded: Recorded) -> None:
    recorded.write()
    plan = [{**planned, "partition": "gpu"} for planned in recorded.plan]
    (recorded.folder / "plan.json").write_text(json.dumps(plan))
    cases = read(campaigns.load(str(recorded.folder)))
    assert {case.result for case in cases} == {"not run"}


def test_tools_are_reported_with_their_versions(recorded: Recorded) -> None:
    (tool,) = recorded.decide().as_dict()["tools"]
    assert (tool["tool"], tool["version"]) == ("iperf2", "iperf version 2.2.1")
    assert (tool["path"], tool["package"], tool["nodes"]) == ("", "", [])


HASH = "jujyn2sairfvqy2u4thgzkv7lobpvqui"


def ran(recorded: Recorded, number: int, **changes: str) -> None:
    """Both calls of a case, with their provenance; `changes` are those of the second node's."""
    server, client = recorded.plan[number]["places"][0]["nodes"]
    result = recorded.only(number)
    call = {
        **result["calls"][0],
        "version": "iperf version 2.2.1",
        "path": "/opt/iperf2/bin/iperf",
        "package": f"spack iperf2@2.2.1-dfsg/{HASH}",
    }
    result["calls"] = [{**call, "host": server}, {**call, "host": client, **changes}]


def ran_everywhere(recorded: Recorded) -> Recorded:
    for number in range(len(recorded.plan)):
        ran(recorded, number)
    return recorded


def measured_with(recorded: Recorded, **tools: str) -> Recorded:
    """The references of the first pair, as if measured with these."""
    recorded.only(0)["rows"][0]["reference"]["provenance"]["tools"] = tools
    return recorded


def said(verdict: Verdict) -> list[str]:
    return [notice.message for notice in verdict.notices]


def test_a_build_is_one_entry_with_all_its_nodes(recorded: Recorded) -> None:
    (tool,) = ran_everywhere(recorded).decide().as_dict()["tools"]
    assert (tool["package"], tool["nodes"]) == (f"spack iperf2@2.2.1-dfsg/{HASH}", list(NODES))


def test_what_is_to_be_known_of_a_job_is_reported_once_and_blames_no_node(
    recorded: Recorded,
) -> None:
    recorded.two_places(0)["notes"] = ["the counters of the uplinks could not be read"]
    verdict = recorded.decide()
    assert (verdict.decision, verdict.findings) == ("accept", ())
    assert said(verdict) == ["Iperf2Pair ns: the counters of the uplinks could not be read"]


def test_a_build_is_one_short_line_for_people(recorded: Recorded) -> None:
    report = text.plain(ran_everywhere(recorded).decide(), width=300, all_places=True)
    assert "  iperf2 2.2.1, spack iperf2@2.2.1-dfsg/jujyn2s\n" in report


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "iperf version 2.1.8"},
        {"path": "/usr/bin/iperf"},
        {"package": "dpkg iperf 2.2.1+dfsg-1"},
        {"package": "unknown (of no package of Spack, dpkg or rpm)"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_node_with_another_build_is_reported_and_not_blamed(
    recorded: Recorded, changes: dict[str, str]
) -> None:
    ran(ran_everywhere(recorded), 1, **changes)
    verdict = recorded.decide()
    assert (verdict.decision, verdict.findings) == ("accept", ())
    (message,) = said(verdict)
    assert message.startswith("iperf2 (iperf) is not the same everywhere: ")
    assert " on n3" in message and next(iter(changes.values())).split()[-1] in message


def test_what_a_build_does_not_state_leaves_no_gap(recorded: Recorded) -> None:
    ran(ran_everywhere(recorded), 1, version="", package="", path="/opt/iperf")
    (message,) = said(recorded.decide())
    assert ", ," not in message and ": ," not in message and "; ," not in message


def test_what_a_call_does_not_state_is_no_difference(recorded: Recorded) -> None:
    ran(ran_everywhere(recorded), 1, version="", package="")
    assert said(recorded.decide()) == []


def test_partitions_may_have_different_builds(recorded: Recorded) -> None:
    ran_everywhere(recorded)
    ran(recorded, 0, host="n1", package="dpkg iperf 2.2.1+dfsg-1")
    result = recorded.only(0)
    result["calls"] = result["calls"][1:]
    recorded.plan[0]["partition"] = "gpu"
    assert said(recorded.decide()) == []


def test_reference_of_another_version_is_reported_once_and_decides_nothing(
    recorded: Recorded,
) -> None:
    verdict = measured_with(ran_everywhere(recorded), iperf2="2.1.9").decide()
    assert verdict.decision == "accept"
    message = "reference of Iperf2Pair measured with iperf2 2.1.9, this campaign used 2.2.1"
    assert said(verdict) == [message]
    assert verdict.as_dict()["notices"] == [{"kind": "reference-version", "message": message}]
    assert text.plain(verdict, width=300, all_places=True).count(f"  note: {message}\n") == 1


@pytest.mark.parametrize("version", ["2.2.1", "2.2.1-dfsg"])
def test_reference_of_the_same_version_is_not_reported(recorded: Recorded, version: str) -> None:
    assert said(measured_with(ran_everywhere(recorded), iperf2=version).decide()) == []


def test_reference_of_a_tool_without_version_is_reported(recorded: Recorded) -> None:
    (message,) = said(measured_with(ran_everywhere(recorded), nccl="2.28.9").decide())
    assert message.endswith("measured with nccl 2.28.9; this campaign states no version of it")


# ---- which node? ----

GOOD_ROW = Row(bandwidth(9.5, ("a", "b")), REFERENCE, LIMIT)
BAD_ROW = Row(bandwidth(4.0, ("a", "b")), REFERENCE, LIMIT)


def case_on(
    nodes: Sequence[str], passed: bool, failures: tuple[Failure, ...] = (), **changes: Any
) -> Case:
    case = Case(
        check="Iperf2Pair",
        name="-".join(nodes),
        partition="ns",
        nodes=tuple(nodes),
        run=0,
        result="pass" if passed else "fail",
        reason="",
        rows=(GOOD_ROW if passed else BAD_ROW,),
        failures=failures,
        folder=None,
    )
    return dataclasses.replace(case, **changes)


def ring_with_bad(size: int, *bad: int) -> list[Case]:
    """The pairs of a ring in which every pair with a bad node fails."""
    nodes = [f"n{place}" for place in range(size)]
    wrong = {nodes[place % size] for place in bad}
    return [case_on(pair, passed=not wrong & set(pair)) for pair in ring(nodes)]


def named(cases: Sequence[Case]) -> list[str]:
    return nodes_of(suspects(cases))


def ways(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """The pairs of nodes between which something is suspected."""
    return [suspect.nodes for suspect in suspects(cases) if suspect.kind == "pair"]


@given(st.integers(3, 40), st.integers(0, 39))
def test_one_bad_node_of_a_ring_is_named_and_no_other(size: int, bad: int) -> None:
    assert named(ring_with_bad(size, bad)) == [f"n{bad % size}"]


@given(st.integers(6, 40), st.data())
def test_two_bad_nodes_far_apart_are_named_and_no_other(size: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, size - 1))
    second = first + data.draw(st.integers(3, size - 3))
    assert named(ring_with_bad(size, first, second)) == sorted([f"n{first}", f"n{second % size}"])


@given(st.integers(5, 40), st.integers(0, 39))
def test_node_between_two_bad_ones_is_never_named(size: int, first: int) -> None:
    expected = sorted(f"n{(first + step) % size}" for step in (0, 2))
    # Of a ring of five one good pair is left, which tells nobody from the others.
    assert named(ring_with_bad(size, first, first + 2)) == (expected if size > 5 else [])


@given(st.integers(2, 40))
def test_where_everything_fails_no_node_is_named(size: int) -> None:
    assert named(ring_with_bad(size, *range(size))) == []


@given(st.integers(2, 40))
def test_where_everything_passes_no_node_is_named(size: int) -> None:
    assert named(ring_with_bad(size)) == []


@given(st.integers(3, 40), st.integers(0, 39))
def test_one_bad_link_names_neither_end(size: int, bad: int) -> None:
    nodes = [f"n{place}" for place in range(size)]
    cases = [case_on(pair, passed=n != bad % size) for n, pair in enumerate(ring(nodes))]
    assert named(cases) == []


def test_one_failing_case_alone_names_neither_of_its_nodes() -> None:
    cases = [case_on("ab", passed=False), case_on("cd", passed=True)]
    assert named(cases) == []


def test_a_suspect_is_reported_with_its_partners_and_what_clears_these() -> None:
    (suspect,) = suspects(ring_with_bad(3, 1))
    assert (suspect.kind, suspect.name, suspect.confirmed) == ("node", "n1", True)
    all_slow = "slow with 2 of 2 partners (n0, n2)"
    assert suspect.why == f"{all_slow}; all are good with others (Iperf2Pair)"
    told = [(w.says, w.a, w.b) for w in suspect.evidence]
    # Data went from the client.
    assert told[:2] == [("convicts", "n1", "n0"), ("convicts", "n2", "n1")]
    assert {says for says, _, _ in told[2:]} == {"clears"}


@given(st.integers(4, 40), st.integers(0, 39))
def test_cases_that_did_not_run_accuse_no_node(size: int, bad: int) -> None:
    cases = [
        case if case.passed else dataclasses.replace(case, result="abort", rows=())
        for case in ring_with_bad(size, bad)
    ]
    assert named(cases) == []


def test_pass_of_another_check_clears_no_node() -> None:
    over_all = case_on([f"n{place}" for place in range(5)], passed=True, check="MpiWorld")
    assert named([*ring_with_bad(5, 1), over_all]) == ["n1"]


def test_pass_on_another_partition_clears_no_node() -> None:
    over_all = case_on([f"n{place}" for place in range(5)], passed=True, partition="gpu")
    assert named([*ring_with_bad(5, 1), over_all]) == ["n1"]


def test_pass_over_nvlink_does_not_clear_a_node_with_a_slow_nic() -> None:
    over_nics = [dataclasses.replace(case, kind="one-hca") for case in ring_with_bad(5, 1)]
    over_nvlink = [dataclasses.replace(case, kind="mnnvl") for case in ring_with_bad(5)]
    assert named([*over_nics, *over_nvlink]) == ["n1"]


def test_pass_over_other_rails_does_not_clear_a_node_with_a_bad_rail() -> None:
    nodes = [f"n{place}" for place in range(5)]
    cases = [
        # The server's rail and the client's: rail 1 of n1 is bad.
        case_on(pair, passed=("n1", 1) not in zip(pair, (a, b), strict=True), kind=f"{a}-{b}")
        for pair in ring(nodes)
        for a, b in [(0, 0), (1, 1), (0, 1), (1, 0)]
    ]
    assert named(cases) == ["n1"]


STATE = Failure("state", "n1: kernel/release is 6.11, expected 6.12", ("n1",))


def test_a_node_with_a_slow_link_is_named_next_to_one_that_is_not_as_expected() -> None:
    state = case_on(("n1",), passed=False, failures=(STATE,), check="NodeState")
    assert named([*ring_with_bad(5, 2), state]) == ["n1", "n2"]


def test_neighbours_of_a_named_node_are_not_named_for_its_failures() -> None:
    """n2 is between n1 and n3, which fail by themselves."""
    bad = [Failure("condition", f"mtu_bytes on {n} is 1500", (n,)) for n in ("n1", "n3")]
    cases = ring_with_bad(5, 1, 3)
    cases = [
        dataclasses.replace(c, failures=tuple(f for f in bad if f.nodes[0] in c.nodes))
        for c in cases
    ]
    assert named(cases) == ["n1", "n3"]


def test_pass_of_another_kind_does_not_clear_a_node_that_a_failure_names() -> None:
    nic = Failure("rail", "NCCL did not use mlx5_5 on a", ("a",))
    silent = Failure("silent-node", "no exit line came from it", ("c",))
    cases = [
        case_on("ab", passed=False, failures=(nic,), kind="one-hca"),
        case_on("cd", passed=False, failures=(silent,), kind="one-hca"),
        case_on("ab", passed=True, kind="mnnvl"),
    ]
    assert named(cases) == ["a", "c"]


@pytest.mark.parametrize(
    "other", [{"partition": "gpu"}, {"check": "MpiWorld"}, {"kind": "sockets"}]
)
def test_failing_cases_are_counted_by_check_partition_and_kind(other: dict[str, str]) -> None:
    cases = [case_on("ab", passed=False), case_on("bc", passed=False, **other)]
    cases += [case_on("cd", passed=True), case_on("cd", passed=True, **other)]
    assert named(cases) == []


@pytest.mark.parametrize(("passing", "left"), [("bc", "a"), ("ac", "b"), ("ab", ""), ("cd", "ab")])
def test_named_node_that_passed_elsewhere_is_left_out_next_to_one_that_did_not(
    passing: str, left: str
) -> None:
    silent = Failure("silent-node", "no exit line came from them", ("a", "b"))
    cases = [case_on("ab", passed=False, failures=(silent,)), case_on(passing, passed=True)]
    assert named(cases) == list(left)


# ---- what accuses no node ----

DISTURBED_JOB = Failure(DISTURBED, "not measured: Slurm says CANCELLED by alice")
SILENT = Failure("silent-node", "no exit line came from n[1-2]", ("n1", "n2"))
UNREACHED = Failure("launch-failed", "srun on n1 could start no task on n3", ("n3",))


def disturbed(nodes: Sequence[str]) -> Case:
    return case_on(nodes, passed=False, failures=(DISTURBED_JOB,), rows=())


@given(st.integers(3, 40), st.integers(0, 39))
def test_jobs_that_a_user_cancelled_accuse_no_node(size: int, bad: int) -> None:
    cases = [case if case.passed else disturbed(case.nodes) for case in ring_with_bad(size, bad)]
    assert (named(cases), ways(cases)) == ([], [])


@given(st.integers(3, 40), st.integers(0, 39))
def test_jobs_that_slurm_did_not_start_accuse_no_node(size: int, bad: int) -> None:
    """As next to a gate run that has borrowed the node."""
    cases = [
        case if case.passed else dataclasses.replace(case, rows=(), reason=BLOCKED)
        for case in ring_with_bad(size, bad)
    ]
    assert (named(cases), ways(cases)) == ([], [])


def test_what_is_low_and_within_its_bounds_everywhere_explains_nothing(recorded: Recorded) -> None:
    """`railgauge locate` tells it; a verdict that accepts accuses no node."""
    recorded.floor = 5.0
    for number, value in enumerate((8.2, 8.2, 9.7, 9.75)):
        recorded.result(number, value=value)
    verdict = recorded.decide()
    assert (verdict.decision, verdict.suspects) == ("accept", ())


def test_what_is_within_its_bounds_is_not_named_next_to_what_failed() -> None:
    low = REFERENCE.model_copy(update={"value": 5.0, "lower": 0.0, "kind": "floor"})
    cases = []
    for pair in ring([f"n{place}" for place in range(9)]):
        row = Row(bandwidth(8.0 if "n5" in pair else 9.7, pair), low, LIMIT)
        cases.append(case_on(pair, passed=True, rows=(row,)))
    cases[0] = case_on(("n0", "n1"), passed=False, failures=(PAIR_FAILURE,))
    assert (named(cases), ways(cases)) == ([], [("n0", "n1")])
    assert {suspect.name for suspect in locate(cases).suspects} == {"n5", "n0-n1"}


def test_a_node_that_failed_alone_is_named_and_confirmed_once_it_did_so_again() -> None:
    cases = [case_on((n,), passed=n != "n2", check="NcclNode") for n in NODES]
    (once,) = suspects(cases)
    assert (once.name, once.confirmed) == ("n2", False)
    again = case_on(("n2",), passed=False, check="NcclNode")
    (twice,) = suspects([*cases, dataclasses.replace(again, run=1)])
    assert (twice.name, twice.confirmed) == ("n2", True)
    # Another condition of the same run is no other time.
    (both,) = suspects([*cases, again])
    assert not both.confirmed


def test_what_was_not_measured_alone_accuses_no_node() -> None:
    """Traffic of another user on n1 is seen while the pair is slow."""
    disturbed = Failure("counters-exceeded", "others used eth0 of n1", ("n1",))
    cases = [case_on(pair, passed=pair != ("n1", "n2")) for pair in ring(NODES)]
    cases[0] = dataclasses.replace(cases[0], failures=(disturbed,))
    assert not any(suspect.confirmed for suspect in suspects(cases))


def test_where_all_failed_alone_no_node_is_named() -> None:
    assert suspects([case_on((n,), passed=False, check="NcclNode") for n in NODES]) == []


def test_a_pair_with_a_node_that_is_at_fault_is_not_named() -> None:
    other = [
        case_on(pair, passed=pair != ("n1", "n2"), check="RdmaRate")
        for pair in ring([f"n{place}" for place in range(5)])
    ]
    cases = [*ring_with_bad(5, 1), *other]
    assert (named(cases), ways(cases)) == (["n1"], [])


def test_nodes_that_were_silent_together_and_passed_with_others_are_not_named() -> None:
    """As a controller leaves them that hung while one job of the ring started."""
    cases = [case_on(pair, passed=True) for pair in ring(NODES)[1:]]
    cases += [case_on(("n1", "n2"), passed=False, failures=(SILENT,), rows=())]
    assert named(cases) == []
    assert ways(cases) == [("n1", "n2")]


def test_where_all_nodes_are_silent_none_is_named() -> None:
    everyone = dataclasses.replace(SILENT, nodes=NODES)
    assert named([case_on(NODES, passed=False, failures=(everyone,), rows=())]) == []


def test_a_node_silent_next_to_one_that_spoke_is_cleared_by_its_own_kind_only() -> None:
    silent = Failure("silent-node", "no exit line came from n2", ("n2",))
    cases = [case_on(("n1", "n2"), passed=False, failures=(silent,), rows=())]
    cases += [case_on(("n3", "n4"), passed=True)]
    state = case_on(NODES, passed=True, check="NodeState")
    assert named([*cases, state]) == ["n2"]
    assert named([*cases, case_on(("n2", "n3"), passed=True)]) == []


def test_a_cut_way_names_its_two_ends_and_no_node() -> None:
    cases = [case_on(pair, passed=True) for pair in ring(NODES)]
    cases += [case_on(NODES, passed=False, failures=(UNREACHED,), rows=(), check="MpiWorld")]
    assert named(cases) == []
    assert ways(cases) == [("n1", "n3")]


def test_a_node_that_was_not_reached_is_no_node_that_failed_alone() -> None:
    why = "n3: srun on n1 started no task there; n3 answers Slurm's controller"
    unreached = Failure(failure.UNREACHED, why, ("n1", "n3"))
    cases = [case_on((node,), passed=node != "n3", check="NodeState") for node in NODES]
    cases[NODES.index("n3")] = dataclasses.replace(cases[2], failures=(unreached,), rows=())
    assert named(cases) == []
    assert ways(cases) == [("n1", "n3")]


def test_a_job_that_ran_on_a_node_says_that_srun_gets_there_whatever_it_measured() -> None:
    """On a busy machine every pair may be slow: that is no silence."""
    cases = [
        case_on(pair, passed=False, calls=tuple(records.call("a", host=n) for n in pair))
        for pair in ring(NODES)
    ]
    cases += [case_on(NODES, passed=False, failures=(UNREACHED,), rows=(), check="MpiWorld")]
    assert named(cases) == []
    assert ("n1", "n3") in ways(cases)


def test_a_node_that_no_job_reaches_is_named_although_srun_says_it_of_the_way() -> None:
    gone = dataclasses.replace(UNREACHED, nodes=("n3",))
    cases = [
        case_on(pair, passed="n3" not in pair, failures=(gone,) if "n3" in pair else ())
        for pair in ring(NODES)
    ]
    assert named(cases) == ["n3"]


def test_what_the_node_itself_showed_is_not_cleared_by_others() -> None:
    """A link that flapped once is not well because it did not flap again."""
    flap = Failure("link-flap", "the carrier of eth0 on n2 changed 2 times", ("n2",))
    cases = [case_on(pair, passed=pair != ("n1", "n2")) for pair in ring(NODES)]
    cases[0] = dataclasses.replace(cases[0], failures=(flap,))
    assert named(cases) == ["n2"]


def test_a_slow_pair_of_nodes_that_pass_with_others_is_a_path_between_them() -> None:
    cases = [case_on(pair, passed=pair != ("n2", "n3")) for pair in ring(NODES)]
    assert ways(cases) == [("n2", "n3")]


def test_nodes_that_passed_alone_say_nothing_of_the_way_between_them() -> None:
    cases = [case_on((node,), passed=True, check="Path") for node in ("n1", "n2")]
    assert ways([*cases, case_on(("n1", "n2"), passed=False)]) == []


def test_a_missing_reference_accuses_no_node() -> None:
    bare = Failure("no-reference", "no reference for bandwidth")
    cases = [case_on(pair, passed=True) for pair in ring(NODES)[2:]]
    cases += [
        case_on(pair, passed=False, failures=(bare,), rows=(GOOD_ROW,)) for pair in ring(NODES)[:2]
    ]
    assert (named(cases), ways(cases)) == ([], [])


def test_a_cancelled_job_is_inconclusive_and_said_so(recorded: Recorded) -> None:
    recorded.fail(0, DISTURBED_JOB, value=1.0)
    verdict = recorded.decide()
    assert (verdict.decision, kinds(verdict)) == ("inconclusive", [DISTURBED])
    assert "CANCELLED by alice" in verdict.reason
    assert verdict.suspects == ()


def test_a_drained_or_reserved_node_is_inconclusive(recorded: Recorded) -> None:
    """Slurm names it as unavailable; but it answers, and a user holds it on purpose."""
    recorded.no_result(0, "fail", BLOCKED)
    recorded.no_result(1, "fail", BLOCKED)
    verdict = recorded.decide()
    assert (verdict.decision, verdict.suspects) == ("inconclusive", ())


def test_a_way_is_reported_in_the_text(recorded: Recorded) -> None:
    recorded.fail(1, PAIR_FAILURE)
    assert "the path between n2 and n3 is suspected" in text.plain(recorded.decide())


def test_node_that_a_failure_names_comes_before_what_is_common() -> None:
    cases = ring_with_bad(5, 1)
    cases[0] = dataclasses.replace(cases[0], failures=(dataclasses.replace(NODE_FAILURE),))
    assert [(s.name, s.why) for s in suspects(cases)] == [("n2", NODE_FAILURE.message)]


def test_order_of_the_cases_is_no_matter() -> None:
    cases = ring_with_bad(7, 2)
    assert suspects(cases) == suspects(cases[::-1])


@pytest.mark.parametrize(
    ("reason", "nodes"),
    [
        ("blocked: ReqNodeNotAvail, UnavailableNodes:n2", ("n2",)),
        ("blocked: ReqNodeNotAvail, UnavailableNodes:n[2-3],n7", ("n2", "n3", "n7")),
        ("(ReqNodeNotAvail, UnavailableNodes:n2, Reserved for maintenance)", ("n2",)),
        ("ReqNodeNotAvail, UnavailableNodes:", ()),
        ("ReqNodeNotAvail, UnavailableNodes:n[2-", ()),
        ("Priority", ()),
        ("", ()),
    ],
)
def test_nodes_that_slurm_misses_are_read_from_its_reason(
    reason: str, nodes: tuple[str, ...]
) -> None:
    assert unavailable_nodes(reason) == nodes


# ---- the text ----


REPORTED: dict[str, Callable[[Recorded], None]] = {
    "accept": lambda recorded: None,
    "reject": lambda recorded: recorded.fail(1, NODE_FAILURE, PAIR_FAILURE, value=4.0),
    "inconclusive": lambda recorded: recorded.no_result(3, "abort", "[jobid=14] cancelled"),
}


@pytest.mark.parametrize("decision", REPORTED)
def test_text_ends_with_the_verdict_and_its_reason(recorded: Recorded, decision: str) -> None:
    REPORTED[decision](recorded)
    verdict = recorded.decide()
    last = text.plain(verdict).rstrip("\n").splitlines()[-1]
    assert last.startswith(f"{decision.upper()} {verdict.reason}")


@pytest.mark.parametrize("decision", REPORTED)
def test_text_has_every_finding_with_place_evidence_and_next_step(
    recorded: Recorded, decision: str
) -> None:
    REPORTED[decision](recorded)
    verdict = recorded.decide()
    report = text.plain(verdict, width=300, all_places=True)
    for finding in verdict.findings:
        for part in (finding.message, finding.evidence, finding.next_step, *finding.nodes):
            assert part in report


def test_text_names_the_suspects(recorded: Recorded) -> None:
    recorded.fail(1, NODE_FAILURE)
    assert "n2 is at fault: " in text.plain(recorded.decide())


def test_text_has_every_measurement_next_to_its_reference_and_limit(recorded: Recorded) -> None:
    recorded.fail(1, value=4.0)
    lines = text.plain(recorded.decide(), width=300, all_places=True).splitlines()
    (line,) = [line for line in lines if line.startswith("Iperf2Pair") and "n2 n3" in line]
    for part in ("4 Gb/s", ">= 8.1 (baseline)", "40.9%", "out"):
        assert part in line


def test_number_that_passed_in_a_failed_case_is_not_called_ok(recorded: Recorded) -> None:
    recorded.fail(1, PAIR_FAILURE)
    lines = text.plain(recorded.decide(), width=300, all_places=True).splitlines()
    (line,) = [line for line in lines if line.startswith("Iperf2Pair") and "n2 n3" in line]
    assert line.endswith("failed otherwise")
    assert any(line.startswith("failed otherwise: within its bounds") for line in lines)


def test_text_keeps_brackets_that_look_like_markup(recorded: Recorded) -> None:
    recorded.no_result(3, "fail", "[bold]stage[/bold] [/nothing] is gone")
    assert "[bold]stage[/bold] [/nothing] is gone" in text.plain(recorded.decide())


def test_text_cuts_no_long_node_name(tmp_path: Path) -> None:
    nodes = tuple(f"gpu-a100-rack{rack:02}-node{rack:03}.cluster.example.org" for rack in range(3))
    report = text.plain(Recorded(tmp_path, nodes=nodes).decide(), all_places=True)
    assert all(f"{a} {b}" in " ".join(report.split()) for a, b in ring(nodes))
    assert report.count(" 9.5 Gb/s") == 3 + 1


def test_text_cuts_no_long_node_name_next_to_a_long_condition(recorded: Recorded) -> None:
    nodes = tuple(f"gpu-a100-rack{rack:02}-node{rack:03}.cluster.example.org" for rack in range(2))
    measurement = dataclasses.replace(
        bandwidth(7.125, nodes),
        metric="latency_p999",
        operation="write_bidirectional",
        size_bytes=8 * 2**20,
        rails="0-1",
        delay_ms=44.0,
        congestion="cubic",
        window_bytes=128 * 2**20,
    )
    bounded = REFERENCE.model_copy(update={"kind": "published", "upper": 0.1})
    case = case_on(nodes, passed=True, rows=(Row(measurement, bounded, LIMIT),))
    verdict = dataclasses.replace(recorded.decide(), cases=(case,))
    report = text.plain(verdict, all_places=True)
    assert all(node in report for node in nodes)
    for part in ("write both ways across rails 44 ms cubic", "latency_p999 8 MiB", "7.125 us"):
        assert part in report
    assert "8.1 to 9.9 (published)" in report


def test_text_folds_many_nodes_and_shows_their_number(recorded: Recorded) -> None:
    recorded.write()
    many = tuple(f"n{place:03}" for place in range(64))
    row = Row(bandwidth(7.125, many), REFERENCE, LIMIT)
    case = case_on(many, passed=True, rows=(row,))
    verdict = dataclasses.replace(recorded.decide(), cases=(case,))
    report = text.plain(verdict)
    assert report.count("n[000-063]") == report.count("7.125 Gb/s") == 2


def test_text_has_no_control_sequences(recorded: Recorded) -> None:
    assert "\x1b" not in text.plain(recorded.decide())


def test_verdict_can_be_stored(recorded: Recorded) -> None:
    recorded.fail(1, NODE_FAILURE, value=4.0)
    stored = json.loads(json.dumps(recorded.decide().as_dict(), allow_nan=False))
    assert (stored["verdict"], stored["exit_code"]) == ("reject", 1)
    assert [m["within_reference"] for m in stored["measurements"]] == [True, False, True, True]
    assert stored["measurements"][0]["limit"] == dataclasses.asdict(LIMIT)
    assert stored["measurements"][0]["reference"]["value"] == REFERENCE.value
    assert stored["findings"][0]["nodes"] == ["n2"]
