"""A campaign that broke off: what of it counts, what is still to be measured, who may go on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reframe.core.exceptions import ReframeError
from reframe.core.schedulers import Job

from railgauge import paths
from railgauge.acceptance import accept, follow, session
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import ENDED, STANDING, Campaign, Requested, Session
from railgauge.checks.framework import plan, reframe_guard
from railgauge.checks.framework.cases import (
    Case,
    NodeCase,
    PairCase,
    PartitionCase,
    Places,
    SweepCase,
)
from railgauge.cli import cli
from railgauge.common import atomic
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.model.failure import DISTURBED, Failure
from railgauge.model.record import Place, PlaceKey
from railgauge.slurm import client
from railgauge.slurm import jobs as slurm_jobs
from railgauge.verdict.campaign.cases import remaining
from railgauge.verdict.decision import node_status
from railgauge.verdict.decision.rules import decide
from railgauge.verdict.decision.verdict import Verdict
from tests.command_line import invoke
from tests.properties import tries
from tests.unit import records
from tests.unit.verdict.decision.test_rules import NODE_FAILURE, Recorded, kinds

REQUESTED = Requested([], {"RFM_SYSTEM": "lab:ns"}, accept.judged_by("lab"))


class Resumed(Recorded):
    """A campaign of up to two sessions; the first one broke off without a report."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, nodes=("n1", "n2", "n3"), state="running", session=None)
        #: case number -> changes to what it left of its end
        self.ends: dict[int, dict[str, Any]] = {0: {}, 1: {}, 2: {}}
        #: the second session, where there is one: its report as in `Recorded`
        self.second: Recorded | None = None

    def key(self, number: int) -> PlaceKey:
        """That of a case's only place."""
        return self.plan[number]["unique_name"], "ns", ""

    def again(self, *numbers: int) -> Recorded:
        """A second session that ran these cases and came to its end; they pass until changed."""
        self.second = Recorded(paths.session_in(self.folder, 2), nodes=self.nodes)
        self.second.plan = self.plan
        self.second.runs[0] = {n: self.second.runs[0][n] for n in numbers}
        return self.second

    def write(self) -> Campaign:
        campaign = super().write()
        (self.folder / "report.json").unlink()
        shutil.rmtree(self.folder / ENDED)
        for number, changes in self.ends.items():
            for run in range(len(self.runs)):
                self._end(run, number, changes)
        campaign.requested = REQUESTED
        if self.second is not None:
            campaign.begin_again(["railgauge", "accept", "--resume", campaign.id])
            self.second.write()
            campaign.session = self.second.session
            campaign.end(self.second.state)
        campaign.save()
        return campaign

    def _end(self, run: int, number: int, changes: dict[str, Any]) -> None:
        if number not in self.runs[run]:
            return
        ran = {"stagedir": str(self.stagedir(run, number)), **self.runs[run][number]}
        end = records.end(self.folder, self.plan[number], run, ran, **changes)
        (self.folder / ENDED).mkdir(exist_ok=True)
        (self.folder / ENDED / f"{number}.{run}.json").write_text(json.dumps(end))

    def missing(self) -> list[int]:
        found = remaining(self.write())
        assert found is not None
        return [number for number in range(len(self.plan)) if self.key(number) in found.missing]


@pytest.fixture
def broken(tmp_path: Path) -> Resumed:
    return Resumed(tmp_path / "20261121T042325Z-lab-91c33c")


def results(verdict: Verdict) -> list[str]:
    return [case.result for case in verdict.cases]


# ---- what counts of a session without a report ----


def test_cases_that_ended_keep_their_results(broken: Resumed) -> None:
    verdict = broken.decide()
    assert results(verdict) == ["pass"] * 3
    assert verdict.decision == "inconclusive"
    assert verdict.findings[0].next_step == f"railgauge accept --resume {broken.folder.name}"


def test_a_record_without_its_end_is_not_finished(broken: Resumed) -> None:
    del broken.ends[1]
    assert results(broken.decide()) == ["pass", "not run", "pass"]
    assert broken.missing() == [1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"campaign": "20261120T042325Z-lab-000000"}, "campaign is"),
        ({"session": 2}, "session is 2"),
        ({"system": "dgx-h100"}, "system is"),
        ({"check": "MpiWorld"}, "check is"),
        ({"nodes": ["n7", "n8"]}, "nodes is"),
        ({"record_sha256": "0" * 64}, "is not as it was when the case ended"),
        ({"record_sha256": None}, "is not as it was when the case ended"),
        ({"stage": "../20261120T042325Z-lab-000000/stage/Iperf2Pair_1"}, "not of this session"),
        ({"stage": "stage/elsewhere"}, "railgauge.jsonl: is gone"),
    ],
)
def test_an_end_that_is_not_of_this_case_is_no_result(
    broken: Resumed, change: dict[str, Any], says: str
) -> None:
    broken.ends[1] = change
    case = broken.decide().cases[1]
    assert says in case.damage and not case.passed and not case.rows
    assert broken.missing() == [1]


@pytest.mark.parametrize(
    "change", [{"partition": "vm"}, {"unique_name": "Other"}, {"result": "abort"}, {"run": -1}]
)
def test_an_end_of_no_planned_case_is_ignored(broken: Resumed, change: dict[str, Any]) -> None:
    broken.ends[1] = change
    assert results(broken.decide()) == ["pass", "not run", "pass"]


def test_a_pass_with_failures_in_its_record_is_rejected(broken: Resumed) -> None:
    broken.result(1, failures=[NODE_FAILURE])
    assert broken.decide().decision == "reject"


def test_a_pass_that_is_out_of_its_reference_is_rejected(broken: Resumed) -> None:
    broken.result(1, value=4.0)
    assert kinds(broken.decide())[1:] == ["out-of-reference"]


def test_a_retry_without_the_run_before_it_is_no_pass(broken: Resumed) -> None:
    broken.ends[1] = {"run": 1}
    assert "broken-record" in kinds(broken.decide())
    assert broken.missing() == []


def test_a_session_that_ended_well_is_known_by_its_report(broken: Resumed) -> None:
    broken.state, broken.session = "finished", Session(0, "")
    assert results(broken.decide()) == ["not run"] * 3


def test_a_report_that_was_cut_short_is_none(broken: Resumed) -> None:
    campaign = broken.write()
    (campaign.folder / "report.json").write_text('{"runs": [{"testca')
    assert results(decide(campaign)) == ["pass"] * 3


# ---- what is missing ----


def test_a_case_that_failed_is_not_run_again(broken: Resumed) -> None:
    broken.fail(1, NODE_FAILURE)
    del broken.ends[2]
    assert broken.missing() == [2]


def test_a_case_that_left_no_result_is_run_again(broken: Resumed) -> None:
    broken.no_result(1, "fail", "OS error: No space left on device")
    assert broken.missing() == [1]


def test_a_case_with_a_node_that_does_not_answer_has_failed(broken: Resumed) -> None:
    broken.no_result(1, "fail", "blocked: ReqNodeNotAvail, UnavailableNodes:n2")
    campaign = broken.write()
    campaign.unavailable = ["n2"]
    left = remaining(campaign)
    assert left is not None and left.missing == ()


def test_a_case_with_a_node_that_was_held_on_purpose_is_run_again(broken: Resumed) -> None:
    broken.no_result(1, "fail", "blocked: ReqNodeNotAvail, UnavailableNodes:n2")
    assert broken.missing() == [1]


def test_a_case_with_a_job_that_a_user_cancelled_is_run_again(broken: Resumed) -> None:
    broken.fail(1, Failure(DISTURBED, "not measured: Slurm says CANCELLED by alice"))
    assert broken.missing() == [1]


def test_a_case_that_failed_with_an_unreadable_record_has_failed(broken: Resumed) -> None:
    broken.fail(1, NODE_FAILURE)
    broken.ends[1] = {"record_sha256": "0" * 64}
    assert broken.missing() == []


def test_what_depends_on_a_failed_case_is_not_missing(broken: Resumed) -> None:
    broken.fail(0, NODE_FAILURE)
    del broken.ends[1], broken.ends[2]
    broken.plan[1]["places"][0]["needs"] = [["Iperf2Pair_0", ""]]
    broken.plan[2]["places"][0]["needs"] = [["Iperf2Pair_1", ""]]
    assert broken.missing() == []
    assert broken.decide().cases[1].reason.startswith("its precondition failed")


def test_a_case_that_was_to_run_twice_and_ran_once_is_missing(broken: Resumed) -> None:
    broken.plan[1]["runs"] = 2
    assert broken.missing() == [1]


def test_without_a_plan_all_is_missing(broken: Resumed) -> None:
    campaign = broken.write()
    (campaign.folder / "plan.json").unlink()
    assert remaining(campaign) is None


# ---- the verdict of two sessions ----


def test_sessions_that_complete_each_other_are_accepted(broken: Resumed) -> None:
    del broken.ends[1]
    broken.again(1)
    verdict = broken.decide()
    assert (verdict.decision, verdict.findings) == ("accept", ())
    assert [case.session for case in verdict.cases] == [1, 2, 1]
    assert len(verdict.as_dict()["sessions"]) == 2


def test_an_attempt_without_result_stands_until_a_later_session_has_one(broken: Resumed) -> None:
    broken.no_result(1, "fail", "OS error: No space left on device")
    assert broken.decide().decision == "inconclusive"
    broken.again(1)
    assert broken.decide().decision == "accept"


def test_a_precondition_that_fails_the_second_time_is_flaky(broken: Resumed) -> None:
    del broken.ends[1]
    broken.again(0, 1).fail(0, NODE_FAILURE)
    verdict = broken.decide()
    assert verdict.decision == "reject"
    assert {"condition", "flaky"} <= set(kinds(verdict))


def test_a_case_that_failed_first_and_passes_then_is_flaky(broken: Resumed) -> None:
    broken.fail(1, NODE_FAILURE)
    broken.again(1)
    verdict = broken.decide()
    assert "flaky" in kinds(verdict)
    assert any("of session 1" in finding.message for finding in verdict.findings)


def test_a_second_try_within_a_session_is_not_made_good_by_another_session(
    broken: Resumed,
) -> None:
    broken.add_run()
    broken.runs[1] = {1: broken.runs[1][1]}
    broken.no_result(1, "fail", "job submission failed")
    broken.again(1)
    assert broken.decide().decision == "inconclusive"


def test_a_second_attempt_without_result_is_not_made_good_by_the_first(broken: Resumed) -> None:
    """The nodes may have changed between the sessions; their preflight must say that they have
    not.
    """
    del broken.ends[1]
    broken.again(0, 1).no_result(0, "abort")
    assert broken.decide().decision == "inconclusive"
    assert broken.missing() == [0]


def test_nodes_that_changed_between_the_sessions_are_not_accepted(broken: Resumed) -> None:
    del broken.ends[1]
    second = broken.again(1)
    for recorded, number, fingerprint in ((broken, 0, "a"), (second, 1, "b")):
        recorded.only(number)["facts"] = {"n2": {"fingerprint": fingerprint}}
    verdict = broken.decide()
    assert (verdict.decision, kinds(verdict)) == ("inconclusive", ["two-states"])
    assert "a, then b" in verdict.findings[0].message


def test_a_field_that_could_not_be_read_once_is_no_other_state(broken: Resumed) -> None:
    del broken.ends[1]
    second = broken.again(1)
    for recorded, number, facts in (
        (broken, 0, {"fingerprint": "a"}),
        (second, 1, {"fingerprint": "b", "unknown_fields": ["gpu/0/vbios"]}),
    ):
        recorded.only(number)["facts"] = {"n2": facts}
    verdict = broken.decide()
    assert (verdict.decision, kinds(verdict)) == ("accept", [])
    assert node_status.standings(verdict)["n2"].unknown == ("gpu/0/vbios",)


ATTEMPTS = ("none", "pass", "fail", "fail without record", "pass without record", "abort", "forged")


@settings(max_examples=tries(60))
@given(
    first=st.lists(st.sampled_from(ATTEMPTS), min_size=3, max_size=3),
    second=st.lists(st.sampled_from(ATTEMPTS[:-1]), min_size=3, max_size=3),
)
def test_only_what_was_measured_and_never_failed_is_accepted(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], second: list[str]
) -> None:
    broken = Resumed(tmp_path_factory.mktemp("campaign") / "20261121T042325Z-lab-91c33c")
    again = broken.again(*(n for n in range(3) if second[n] != "none"))
    for recorded, attempts in ((broken, first), (again, second)):
        for number, attempt in enumerate(attempts):
            if attempt == "fail":
                recorded.fail(number, NODE_FAILURE)
            elif attempt in ("fail without record", "pass without record", "abort"):
                recorded.no_result(number, attempt.split()[0])
    broken.ends = {n: {} for n in range(3) if first[n] not in ("none", "abort")}
    broken.ends |= {n: {"record_sha256": "0" * 64} for n in range(3) if first[n] == "forged"}
    again.runs[0] = {n: ran for n, ran in again.runs[0].items() if second[n] != "none"}
    each = list(zip(first, second, strict=True))
    accepted = all("pass" in pair and "fail" not in pair for pair in each) and all(
        # What was tried again and came to nothing is not known any more.
        after in ("none", "pass")
        for _, after in each
    )
    assert (broken.decide().decision == "accept") == accepted


# ---- the guard in a resumed session ----


def case(
    name: str,
    *places: Case,
    needs: Sequence[tuple[Any, Callable[[Case], Sequence[str]]]] = (),
    tags: tuple[str, ...] = (),
) -> Any:
    """A case of these places, each of which needs some of other cases' places."""

    def needed(place: Case) -> list[tuple[str, str]]:
        return [(c.check.unique_name, name) for c, names in needs for name in names(place)]

    check = SimpleNamespace(
        unique_name=name,
        display_name=name,
        short_name=name,
        target=places[0] if len(places) == 1 else SweepCase("ns", Places(places)),
        places=places,
        needs=needed,
        only=None,
        tags=set(tags),
        max_pending_time="5m",
        time_limit=60,
        stagedir=None,
    )
    for dependency, _ in needs:
        dependency.in_degree += 1
    return SimpleNamespace(
        check=check,
        # What ReFrame makes a repeated case of.
        _check_orig=SimpleNamespace(only=None),
        partition=SimpleNamespace(name="ns"),
        deps=[dependency for dependency, _ in needs],
        in_degree=0,
    )


def names(cases: list[Any]) -> list[str]:
    return [c.check.unique_name for c in cases]


def chosen(cases: list[Any]) -> dict[str, set[str]]:
    """Which places each case is to measure."""
    return {c.check.unique_name: set(c.check.only) for c in cases}


def same(place: Case) -> Sequence[str]:
    return [place.place]


def nodes_of(place: Case) -> Sequence[str]:
    return place.nodes


@pytest.fixture
def selected() -> list[Any]:
    """A ring of three nodes, of which n4 is none; MPI needs nothing."""
    pairs = [PairCase("ns", *ends) for ends in (("n1", "n2"), ("n2", "n3"), ("n3", "n1"))]
    path = case("Path", *(NodeCase("ns", f"n{n}") for n in (1, 2, 3)), tags=("preflight",))
    probe = case("Probe", *pairs, needs=[(path, nodes_of)], tags=("preflight",))
    return [
        path,
        probe,
        case("Link", *pairs, needs=[(path, nodes_of), (probe, same)]),
        case("Tcp", PairCase("ns", "n1", "n2"), NodeCase("ns", "n4")),
        case("Mpi", PartitionCase("ns", ("n1", "n2"))),
    ]


def missing(check: str, *places: str) -> set[PlaceKey]:
    return {(check, "ns", place) for place in places}


def test_a_missing_place_is_measured_with_what_it_needs(selected: list[Any]) -> None:
    kept = plan.to_run(selected, missing("Link", "n2:n3"), missing("Probe", "n1:n2", "n3:n1"))
    assert chosen(kept) == {"Path": {"n2", "n3"}, "Probe": {"n2:n3"}, "Link": {"n2:n3"}}


def test_what_reframe_repeats_gets_its_places_too(selected: list[Any]) -> None:
    for kept in plan.to_run(selected, missing("Link", "n2:n3"), ()):
        assert kept._check_orig.only == kept.check.only


def test_a_precondition_is_waited_for_by_those_alone_that_are_run(selected: list[Any]) -> None:
    kept = plan.to_run(selected, missing("Link", "n2:n3"), ())
    assert names(kept) == ["Path", "Probe", "Link"]
    assert [c.in_degree for c in kept] == [2, 1, 0]
    path, probe, tcp = (selected[n] for n in (0, 1, 3))
    (only,) = plan.to_run([path, probe, tcp], missing("Tcp", "n4"), ())
    assert (only, path.in_degree) == (tcp, 1)


def test_a_missing_place_is_measured_with_the_preflight_of_its_nodes(selected: list[Any]) -> None:
    kept = plan.to_run(selected, missing("Tcp", "n1:n2"), ())
    assert chosen(kept) == {
        "Path": {"n1", "n2", "n3"},
        "Probe": {"n1:n2", "n2:n3", "n3:n1"},
        "Tcp": {"n1:n2"},
    }


def test_a_missing_place_of_a_node_without_a_preflight_is_measured_alone(
    selected: list[Any],
) -> None:
    assert chosen(plan.to_run(selected, missing("Tcp", "n4"), ())) == {"Tcp": {"n4"}}


def test_a_case_that_is_one_place_is_measured_whole(selected: list[Any]) -> None:
    kept = plan.to_run(selected, missing("Mpi", ""), missing("Probe", "n1:n2", "n2:n3", "n3:n1"))
    assert chosen(kept) == {"Path": {"n1", "n2"}, "Mpi": {""}}


def test_a_preflight_that_failed_is_not_measured_again(selected: list[Any]) -> None:
    """Nor is what waits for it."""
    kept = plan.to_run(selected, missing("Tcp", "n1:n2"), missing("Path", "n1"))
    assert chosen(kept) == {"Path": {"n2", "n3"}, "Probe": {"n2:n3"}, "Tcp": {"n1:n2"}}


def test_a_case_with_a_precondition_that_is_not_needed_again_does_not_wait(
    selected: list[Any],
) -> None:
    path, _, link, *_ = selected
    link.check.needs = lambda place: []
    (kept,) = plan.to_run([link, path], missing("Link", "n2:n3"), missing("Path", "n2", "n3"))
    assert (kept, kept.deps) == (link, [])


def test_nothing_missing_is_nothing_to_run(selected: list[Any]) -> None:
    assert plan.to_run(selected, (), ()) == []


def test_another_selection_than_before_is_refused(selected: list[Any]) -> None:
    before = [plan.planned_case(c, 1) for c in selected]
    plan.refuse_another_plan(list(reversed(before)), before)
    (first, *others), path = before[0].places, before[0]
    for places in (
        (Place(first.name, ("n9",)), *others),
        (Place(first.name, first.nodes, needs=(("Other", ""),)), *others),
        tuple(others),
        tuple(reversed(path.places)),
    ):
        changed = [path.model_copy(update={"places": places}), *before[1:]]
        with pytest.raises(ReframeError, match="are not those of the campaign's plan: Path"):
            plan.refuse_another_plan(changed, before)
    with pytest.raises(ReframeError, match="are not those of the campaign's plan: Path"):
        plan.refuse_another_plan(before[1:], before)


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session's folder, and what ReFrame knows in it."""
    folder = tmp_path / "20261121T042325Z-lab-91c33c"
    folder.mkdir()
    runtime = SimpleNamespace(system=SimpleNamespace(name="lab"), current_run=0)
    monkeypatch.setattr(reframe_guard.runtime, "runtime", lambda: runtime)
    monkeypatch.setenv(paths.CAMPAIGN_VARIABLE, str(folder))
    monkeypatch.delenv(paths.SESSION_VARIABLE, raising=False)
    return folder


def task(stage: Path | None) -> Any:
    found = case("Tcp_1", NodeCase("ns", "n1"))
    found.check.stagedir = str(stage) if stage else None
    return SimpleNamespace(check=found.check, testcase=found, exc_info=(ValueError, "why", None))


def test_a_session_that_would_be_staged_elsewhere_does_not_begin(
    working: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(working)
    for stage in (working / "stage", tmp_path / "link" / "stage"):
        monkeypatch.setattr(
            reframe_guard.runtime.runtime(), "stage_prefix", str(stage), raising=False
        )
        reframe_guard.refuse_other_stage()
    for other in (Path("/scratch/stage"), working / "other"):
        monkeypatch.setattr(reframe_guard.runtime.runtime(), "stage_prefix", str(other))
        with pytest.raises(reframe_guard.ReframeError, match=rf"staged in {other}.*RFM_STAGE_DIR"):
            reframe_guard.refuse_other_stage()


def test_a_case_leaves_its_end_bound_to_its_record(working: Path) -> None:
    stage = working / "stage" / "Tcp_1"
    stage.mkdir(parents=True)
    (stage / "railgauge.jsonl").write_text("{}")
    reframe_guard.EndKeeper().on_task_success(task(stage))
    (path,) = (working / ENDED).iterdir()
    end = json.loads(path.read_text())
    assert (end["result"], end["stage"], end["nodes"]) == ("pass", "stage/Tcp_1", ["n1"])
    assert end["record_sha256"] == hashlib.sha256(b"{}").hexdigest()


def test_a_case_that_never_had_a_stage_leaves_that_it_failed(working: Path) -> None:
    reframe_guard.EndKeeper().on_task_failure(task(None))
    (path,) = (working / ENDED).iterdir()
    end = json.loads(path.read_text())
    assert (end["result"], end["stage"], end["record_sha256"]) == ("fail", None, None)


def test_a_full_results_area_does_not_end_the_session(
    working: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic, "write_text", full)
    reframe_guard.EndKeeper().on_task_success(task(None))
    assert list((working / ENDED).iterdir()) == []


def test_a_case_that_is_aborted_has_not_ended(working: Path) -> None:
    reframe_guard.EndKeeper().on_task_abort(task(None))
    assert not (working / ENDED).exists()


# ---- two campaigns at once ----

SQUEUE = """\
7|RUNNING|railgauge:A|n[1-2]|n[1-2]
8|PENDING|railgauge:B||n[2-3]
9|PENDING|railgauge:B||n4
10|PENDING|somebody||n1
11|RUNNING|somebody|n4|
12|PENDING|odd|comment||n1
"""


def test_a_job_that_waits_for_a_campaigns_nodes_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "output", lambda *_: SQUEUE)
    assert slurm_jobs.waiting_for_campaigns() == {"8": "B"}


@pytest.mark.parametrize(
    ("answer", "waits"),
    [(lambda *_: SQUEUE, True), (lambda *_: "", False), (None, True)],
    ids=["for a campaign", "for others", "nobody answers"],
)
def test_a_job_is_given_up_only_where_it_does_not_wait_for_a_campaign(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[..., str] | None, waits: bool
) -> None:
    def silent(*_: str) -> str:
        raise PrerequisiteError("squeue did not answer")

    monkeypatch.setattr(client, "output", answer or silent)
    job = Job(name="check")
    job._jobid, job._state, job._submit_time, job.max_pending_time = "8", "PENDING", 0.0, "5m"
    late: list[Job] = []

    def original(_: object, jobs: Sequence[Job]) -> None:
        late.extend(j for j in jobs if time.time() - j.submit_time >= j.max_pending_time)

    reframe_guard.wrap_pending_timeout(original)(None, [job])
    assert (late == []) == waits
    assert (job._exception is None) == waits


def test_a_session_with_a_job_that_waits_for_a_campaign_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow.Watchdog, "MARGIN_S", 0)
    case = records.planned("Tcp", "Tcp 1", "Tcp_1", ["n1"], limit_s=0.2)
    (tmp_path / "plan.json").write_text(json.dumps([case]))
    answers = iter([True, True, False])
    said: list[str] = []
    program = (
        "print('[----------] start processing checks', flush=True); import time; time.sleep(600)"
    )
    follow.follow(
        [sys.executable, "-c", program],
        os.environ,
        tmp_path / "reframe.out",
        said.append,
        waits=lambda: next(answers),
    )
    assert next(answers, None) is None and "no case has ended" in said[0]


# ---- who may go on ----


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    campaigns.campaigns_folder().mkdir()
    return campaigns.campaigns_folder()


@pytest.fixture
def found(area: Path) -> Campaign:
    """A campaign of this host that broke off."""
    resumed = Resumed(area / "20261121T042325Z-lab-91c33c")
    del resumed.ends[1]
    campaign = resumed.write()
    campaign.context = {"host": campaigns.socket.gethostname(), "pid": 2**22 + 1}
    campaign.save()
    return campaign


def refused(campaign: Campaign) -> str:
    campaign.save()
    with pytest.raises(RailgaugeError) as error:
        accept.resume(campaign, [], lambda _: None)
    assert campaigns.load(str(campaign.folder)).sessions == 1
    return str(error.value)


def test_a_finished_campaign_is_not_resumed(area: Path) -> None:
    resumed = Resumed(area / "20261121T042325Z-lab-91c33c")
    resumed.state, resumed.session = "finished", Session(1, "")
    message = refused(resumed.write())
    assert "nothing is missing: ACCEPT 3 of 3" in message or "is finished" in message
    assert "railgauge verdict" in message


def test_a_campaign_that_selected_nothing_is_finished(found: Campaign) -> None:
    (found.folder / "plan.json").unlink()
    found.state, found.session = "finished", Session(1, "no test was selected")
    assert "REJECT nothing was measured" in refused(found)


def test_a_running_campaign_is_not_resumed(found: Campaign) -> None:
    found.context["pid"] = os.getppid()
    with found.hold():
        message = refused(found)
    assert "is still running" in message and f"kill -INT {os.getppid()}" in message


def test_a_session_that_lost_its_railgauge_still_holds_the_campaign(
    found: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept, "_ENDING_S", 0)
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    with found.hold() as lock:
        orphan = subprocess.Popen(program, pass_fds=(lock,))
    try:
        assert "is still running" in refused(found)
    finally:
        orphan.kill()
        orphan.wait()
    assert found.broke_off


def test_a_campaign_of_another_host_needs_certainty(found: Campaign) -> None:
    found.context["host"] = "login2"
    with found.hold():
        pass
    message = refused(found)
    assert "login2" in message and f"rm {found.lock_file}" in message


def test_other_references_than_before_are_refused(found: Campaign, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("changed")
    before = {**REQUESTED.judged_by, str(file): hashlib.sha256(b"before").hexdigest()}
    found.requested = Requested([], {}, before)
    assert f"{file} has changed" in refused(found)


@pytest.mark.parametrize("name", ["expected.yaml", "reframe.yaml", "fabric.json"])
def test_another_system_than_before_is_refused(
    found: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its data changed, or came to be, after the campaign began."""
    shutil.copytree(accept.paths.SYSTEMS / "lab", tmp_path / "systems" / "lab")
    monkeypatch.setattr(accept.paths, "SYSTEMS", tmp_path / "systems")
    found.requested = Requested([], {}, accept.judged_by("lab"))
    file = tmp_path / "systems" / "lab" / name
    file.write_text(file.read_text() + "# \n" if file.exists() else "{}")
    assert f"{file} has changed" in refused(found)


@pytest.mark.parametrize("where", ["SETTINGS", "LEAST_SHARES", "CHECKS"])
def test_other_settings_shares_or_checks_than_before_are_refused(
    found: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = getattr(accept.paths, where)
    copy = tmp_path / path.name
    (shutil.copytree if path.is_dir() else shutil.copyfile)(path, copy)
    monkeypatch.setattr(accept.paths, where, copy)
    found.requested = Requested([], {}, accept.judged_by("lab"))
    accept._require_resumable(found)
    file = copy / "rdma.py" if copy.is_dir() else copy
    file.write_text(f"{file.read_text()}# changed\n")
    assert f"{file} has changed" in refused(found)


def test_another_railgauge_than_before_is_refused(
    found: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its readers judge, too: the first nodes would be judged by the old ones."""
    monkeypatch.setattr(accept.paths, "SOURCE", tmp_path)
    reader = tmp_path / "railgauge" / "tools" / "iperf2.py"
    reader.parent.mkdir(parents=True)
    reader.write_text("old")
    found.requested = Requested([], {}, accept.judged_by("lab"))
    (reader.parent / "notes.txt").write_text("no reader")
    accept._require_resumable(found)
    reader.write_text("new")
    assert f"{tmp_path / 'railgauge'} has changed" in refused(found)


def test_a_copy_is_not_gone_on_with(found: Campaign) -> None:
    """What it would measure would be of another campaign than what it has."""
    found.recorded_id = "20261124T101655Z-lab-7578a0"
    assert f"is a copy or link of campaign {found.recorded_id}" in refused(found)


def test_a_campaign_of_a_gate_run_is_resumed_by_that_run_only(found: Campaign) -> None:
    found.owner = "gate run 20261121T042300Z_0a1b"
    assert "railgauge gate run --act" in refused(found)


def test_a_patrols_campaign_is_not_resumed_by_accept(found: Campaign) -> None:
    found.owner = "railgauge patrol"
    assert f"campaign {found.id} is that of railgauge patrol" in refused(found)
    assert found.next_command == "railgauge patrol"


def test_a_gate_run_resumes_no_campaign_of_another_user(found: Campaign) -> None:
    found.save()
    with pytest.raises(RailgaugeError, match="that of railgauge accept"):
        accept.resume(found, [], lambda _: None, owner="gate run 20261121T042300Z_0a1b")


def test_references_that_are_gone_are_refused(found: Campaign, tmp_path: Path) -> None:
    found.requested = Requested(
        [], {}, {str(tmp_path / "gone"): hashlib.sha256(b"before").hexdigest()}
    )
    assert "has changed" in refused(found)


def test_a_rehearsal_is_not_resumed(found: Campaign) -> None:
    found.simulated = "healthy"
    assert "railgauge rehearse lab" in refused(found)


def test_a_record_that_does_not_say_what_was_requested_is_refused(found: Campaign) -> None:
    found.save()
    record = found.folder / "campaign.json"
    fields = json.loads(record.read_text())
    del fields["requested"]
    record.write_text(json.dumps(fields))
    with pytest.raises(RailgaugeError, match="requested: Field required") as caught:
        campaigns.load(str(found.folder))
    assert caught.value.next_step is not None


def test_a_campaign_that_lacks_only_its_verdict_gets_it(
    area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "output", lambda *_: "")
    campaign = Resumed(area / "20261121T042325Z-lab-91c33c").write()
    verdict = accept.resume(campaign, ["railgauge"], lambda _: None)
    assert verdict.decision == "accept"
    assert json.loads((campaign.folder / "verdict.json").read_text())["verdict"] == "accept"


FILES = ("verdict.json", "verdict.txt", "failing_nodes.txt", "passing_nodes.txt", STANDING)


@pytest.mark.parametrize("killed_at", range(len(FILES) + 1))
def test_killed_before_its_verdict_is_complete_a_campaign_is_concluded_again(
    area: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """At each file that it writes after the last case, and at its state, in turn."""
    monkeypatch.setattr(client, "output", lambda *_: "")
    campaign = Resumed(area / "20261121T042325Z-lab-91c33c").write()
    campaign.session = Session(1, "it failed")
    campaign.context = {"host": campaigns.socket.gethostname(), "pid": 2**22 + 1}
    written: list[str] = []
    real = os.replace

    def replace(source: Any, target: Any, **other: Any) -> None:
        name = Path(target).name
        if name in FILES or (name == "campaign.json" and written):
            if len(written) == killed_at:
                raise KeyboardInterrupt
            written.append(name)
        real(source, target, **other)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            accept._conclude(campaign, "finished", lambda _: None)
    left = campaigns.load(str(campaign.folder))
    assert left.state == "running" and left.broke_off
    verdict = accept.resume(left, ["railgauge"], lambda _: None)
    assert verdict.campaign.session == Session(1, "it failed")
    concluded = campaigns.load(str(campaign.folder))
    assert concluded.state == "finished" and (campaign.folder / STANDING).exists()
    document = json.loads((campaign.folder / "verdict.json").read_text())
    assert document["verdict"] == verdict.decision
    assert not {"unfinished", "interrupted"} & set(kinds(verdict))


def test_a_campaign_that_broke_off_differs_from_a_running_one(found: Campaign) -> None:
    assert found.broke_off
    with found.hold():
        assert not found.broke_off


def test_a_session_gets_a_ctrl_c_when_its_railgauge_is_killed(tmp_path: Path) -> None:
    waits = (
        "import sys, time, signal\n"
        "from railgauge.acceptance import session\n"
        "session._end_with_parent()\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try: print('ready', flush=True); time.sleep(600)\n"
        "except KeyboardInterrupt: open(sys.argv[1], 'w').close()\n"
    )
    parent = (
        "import os, subprocess, sys\n"
        f"os.environ['{session.PARENT_VARIABLE}'] = str(os.getpid())\n"
        "subprocess.run([sys.executable, '-c', sys.argv[2], sys.argv[1]])\n"
    )
    mark = tmp_path / "interrupted"
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(mark), waits], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Until the child has closed its end.
    process.stdout.read()
    assert mark.exists()


@pytest.mark.parametrize(
    "option", [["--nodes", "n1"], ["--mode", "acceptance"], ["--series"], ["--seed", "1"]]
)
def test_what_a_campaign_is_about_cannot_be_given_again(option: list[str]) -> None:
    answer = invoke(cli, ["accept", "--system", "lab", "--resume", "latest", *option])
    assert isinstance(answer.exception, RailgaugeError)
    assert str(answer.exception).startswith(f"{option[0]} and --resume:")


def test_a_campaign_that_broke_off_is_listed_as_such(found: Campaign) -> None:
    assert "broken off" in invoke(cli, ["campaigns"]).output
