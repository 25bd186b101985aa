"""ApplicationTime: a step of MPI a run, in one job; every run of which must be good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import systems
from railgauge.checks.application import ApplicationCases
from railgauge.model import references
from railgauge.model.references import Condition
from tests.unit.checks import jobs

PHYML = Path(__file__).parents[2].joinpath("data/application/phyml-rank0.txt").read_text()
RUNS, RANKS = range(1, 4), range(4)


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Any]:
    with jobs.session("lab", tmp_path, RAILGAUGE_SERIES="1") as known:
        check = jobs.ended(known["ApplicationTime"].kind(variant_num=0), tmp_path / "stage")
        for number in RUNS:
            for rank in RANKS:
                leave(check, number, rank)
        yield check


def leave(check: Any, number: int, rank: int, out: str | None = None, **call: Any) -> None:
    role = f"run{number}-rank{rank}"
    line = jobs.exit_line("application", role, f"n{rank + 1}", rank)
    line["call"] = {**line["call"], "seconds": float(number), **call}
    stage = Path(check._stagedir)
    stage.joinpath(f"{role}.json").write_text(json.dumps(line))
    text = out if out is not None else ("" if rank else PHYML)
    stage.joinpath(f"{role}.out").write_text(text)
    stage.joinpath(f"{role}.err").write_text("")


def test_good_runs_pass_with_the_mean_of_those_that_are_kept(check: Any) -> None:
    assert jobs.judge(check) == ""
    (result,) = check.results
    values = {m.variable: m.value for m in result.evidence.measurements}
    assert values.pop("application_time") == 2.0
    assert values == {f"application_time_run{n}": float(n) for n in RUNS}
    assert result.place.place == "phyml:n[1-4]"


def test_the_mean_gates_and_the_runs_are_recorded_beside_it(check: Any) -> None:
    jobs.judge(check)
    (result,) = check.results
    assert set(result.evidence.references) == {"application_time"}
    assert result.evidence.recorded == {f"application_time_run{n}" for n in RUNS}


def test_a_rank_that_left_no_exit_line_in_one_run_fails(check: Any) -> None:
    Path(check._stagedir, "run2-rank3.json").unlink()
    assert "run 2 of 3: whole output: found exit lines of ranks [0, 1, 2]" in jobs.judge(check)


def test_a_job_that_ended_before_its_last_run_fails(check: Any) -> None:
    for rank in RANKS:
        Path(check._stagedir, f"run3-rank{rank}.json").unlink()
    assert "run 3 of 3: whole output: found exit lines of ranks []" in jobs.judge(check)


def test_a_run_that_came_to_another_value_fails(check: Any) -> None:
    leave(check, 1, 0, PHYML.replace("-221.7775", "-230.1"))
    assert "run 1 of 3" in jobs.judge(check)


def test_ranks_that_each_were_a_world_of_their_own_fail(check: Any) -> None:
    for rank in RANKS:
        leave(check, 2, rank, PHYML)
    assert "found 4 lines that state what it came to" in jobs.judge(check)


@pytest.mark.parametrize("change", [{"exit_code": 1}, {"exit_code": None}, {"note": "killed"}])
def test_a_run_that_did_not_end_well_fails(check: Any, change: dict[str, Any]) -> None:
    leave(check, 3, 1, **change)
    assert "run 3 of 3" in jobs.judge(check)


def test_a_plan_has_the_time_of_all_runs(check: Any) -> None:
    # A floor says nothing of how long it takes.
    assert check.expected_seconds == 3 * 60


# ---- cases ----


def lab(**changes: Any) -> systems.Partition:
    partition = systems.load("lab").partition("ns")
    assert partition.extras.applications is not None
    program = partition.extras.applications["phyml"].model_copy(update=changes)
    extras = partition.extras.model_copy(update={"applications": {"phyml": program}})
    return partition.model_copy(update={"extras": extras})


@pytest.mark.parametrize(
    ("nodes", "measured"), [(None, ("n1", "n2", "n3", "n4")), (2, ("n1", "n2"))]
)
def test_a_program_runs_on_as_many_nodes_as_it_asks_for(
    nodes: int | None, measured: tuple[str, ...]
) -> None:
    (case,) = ApplicationCases().on(lab(nodes=nodes, series_only=False))
    assert case.nodes == measured


def test_a_program_that_wants_more_nodes_has_no_case() -> None:
    partition = lab(nodes=5, series_only=False)
    assert list(ApplicationCases().on(partition)) == []
    assert ApplicationCases().lacks_nodes(partition) == "needs 5 nodes, and there are 4"


def test_the_series_alone_has_what_is_of_the_series(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(ApplicationCases().on(lab())) == []
    assert "series_only leaves it out" in ApplicationCases().leaves_out(lab())
    monkeypatch.setenv("RAILGAUGE_SERIES", "1")
    assert len(list(ApplicationCases().on(lab()))) == 1


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"operation": "phyml", "nodes": 4, "ranks": 4}, ""),
        ({"operation": "phyml", "nodes": "any"}, ""),
        ({"operation": "hpl"}, "operation is hpl, expected one of extras.applications: phyml"),
        ({"operation": "phyml", "nodes": 2}, "nodes is 2, expected 4"),
        ({"operation": "phyml", "nodes": 4, "ranks": 8}, "ranks is 8, expected 4 on 4 nodes"),
    ],
)
def test_a_stored_number_is_of_a_program_that_runs_so(stated: dict[str, Any], says: str) -> None:
    mismatch = ApplicationCases().mismatch(Condition(**stated), lab(), True)
    assert (mismatch.reason if mismatch else "") == says


@pytest.mark.parametrize(("program", "minutes"), [("llama2_70b_lora", 5.172), ("bert", 0.89)])
def test_the_published_times_stand_beside_those_measured(program: str, minutes: float) -> None:
    partition = systems.load("dgx-h100").partition("h100")
    assert partition.extras.applications is not None
    asked = partition.extras.applications[program]
    assert (asked.runs, (asked.nodes or 0) * asked.ranks_per_node) == (10, 64)
    (entry,) = [e for e in references.load("dgx-h100").entries if e.operation == program]
    number = entry.metrics["application_time"]
    assert number.is_context and number.value == pytest.approx(60 * minutes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"converged": {"pattern": "PASSED", "equals": "PASSED"}},
        {"converged": {"pattern": "(a)(b)", "equals": "ab"}},
        {"converged": {"pattern": "(a", "equals": "a"}},
        {"converged": {"pattern": "(.*)"}},
        {"converged": {"pattern": "(.*)", "equals": "1", "at_most": 2}},
        {"runs": 2},
        {"own_time": {"pattern": "([0-9]+)", "unit": "h"}},
        {"end": "(a"},
        {"command": []},
    ],
)
def test_a_description_that_proves_nothing_is_refused(wrong: dict[str, Any]) -> None:
    good = {
        "command": ["hpl"],
        "limit_s": 60,
        "converged": {"pattern": r"residual: (.*)", "at_most": 16.0},
    }
    systems.Application.model_validate(good)
    with pytest.raises(ValueError):
        systems.Application.model_validate({**good, **wrong})
