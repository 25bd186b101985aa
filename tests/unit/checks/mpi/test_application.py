"""ApplicationTime: a step of MPI a run, in one job; every run of which must be good."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

from railgauge import paths, systems
from railgauge.checks.jobs import container
from railgauge.checks.mpi.application import ApplicationCases
from railgauge.model import references
from railgauge.model.failure import ENVIRONMENT
from railgauge.model.references import Condition
from tests.unit.checks import ended_jobs

PHYML = Path(__file__).parents[3].joinpath("data/application/phyml-rank0.txt").read_text()
IMAGE = "/images/phyml.sqsh"

#: The lines of Pyxis and Slurm as in https://github.com/NVIDIA/pyxis, issues 127 and 135.
NO_IMAGE = """\
slurmstepd-n3: error: pyxis: container start failed with error code: 1
slurmstepd-n3: error: pyxis: printing enroot log file:
slurmstepd-n3: error: pyxis:     [ERROR] No such file or directory: /images/phyml.sqsh
slurmstepd-n3: error: pyxis: couldn't start container
slurmstepd-n3: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmstepd-n3: error: Failed to invoke spank plugin stack
srun: error: n3: task 2: Exited with exit code 1
"""

RUNS, RANKS = range(1, 4), range(4)


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Any]:
    with ended_jobs.session("lab", tmp_path, RAILGAUGE_SERIES="1") as known:
        check = ended_jobs.ended(known["ApplicationTime"].kind(variant_num=0), tmp_path / "stage")
        for number in RUNS:
            for rank in RANKS:
                leave(check, number, rank)
        yield check


def leave(check: Any, number: int, rank: int, out: str | None = None, **call: Any) -> None:
    role = f"run{number}-rank{rank}"
    line = ended_jobs.exit_line("application", role, f"n{rank + 1}", rank)
    line["call"] = {**line["call"], "seconds": float(number), **call}
    stage = Path(check._stagedir)
    stage.joinpath(f"{role}.json").write_text(json.dumps(line))
    text = out if out is not None else ("" if rank else PHYML)
    stage.joinpath(f"{role}.out").write_text(text)
    stage.joinpath(f"{role}.err").write_text("")


def test_good_runs_pass_with_the_mean_of_those_that_are_kept(check: Any) -> None:
    assert ended_jobs.judge(check) == ""
    (result,) = check.results
    values = {m.variable: m.value for m in result.evidence.measurements}
    assert values.pop("application_time") == 2.0
    assert values == {f"application_time_run{n}": float(n) for n in RUNS}
    assert result.place.place == "phyml:n[1-4]"


def test_the_mean_gates_and_the_runs_are_recorded_beside_it(check: Any) -> None:
    ended_jobs.judge(check)
    (result,) = check.results
    assert set(result.evidence.references) == {"application_time"}
    assert result.evidence.recorded == {f"application_time_run{n}" for n in RUNS}


def test_a_rank_that_left_no_exit_line_in_one_run_fails(check: Any) -> None:
    Path(check._stagedir, "run2-rank3.json").unlink()
    assert "run 2 of 3: whole output: found exit lines of ranks [0, 1, 2]" in ended_jobs.judge(
        check
    )


def test_a_job_that_ended_before_its_last_run_fails(check: Any) -> None:
    for rank in RANKS:
        Path(check._stagedir, f"run3-rank{rank}.json").unlink()
    assert "run 3 of 3: whole output: found exit lines of ranks []" in ended_jobs.judge(check)


def test_a_run_that_came_to_another_value_fails(check: Any) -> None:
    leave(check, 1, 0, PHYML.replace("-221.7775", "-230.1"))
    assert "run 1 of 3" in ended_jobs.judge(check)


def test_ranks_that_each_were_a_world_of_their_own_fail(check: Any) -> None:
    for rank in RANKS:
        leave(check, 2, rank, PHYML)
    assert "found 4 lines that state what it came to" in ended_jobs.judge(check)


@pytest.mark.parametrize("change", [{"exit_code": 1}, {"exit_code": None}, {"note": "killed"}])
def test_a_run_that_did_not_end_well_fails(check: Any, change: dict[str, Any]) -> None:
    leave(check, 3, 1, **change)
    assert "run 3 of 3" in ended_jobs.judge(check)


def test_a_plan_has_the_time_of_all_runs(check: Any) -> None:
    # A floor says nothing of how long it takes.
    assert check.expected_seconds == 3 * 60


def test_a_node_that_lacks_the_program_is_not_measured_and_not_accused(check: Any) -> None:
    """As srun leaves it, which ends all ranks where one fails; no other run begins."""
    for path in Path(check._stagedir).glob("run*"):
        path.unlink()
    gone = {"exit_code": None, "note": "not started: phyml-mpi not found on this node"}
    leave(check, 1, 2, "", **gone)
    lines = Path(check._stagedir, "run1-rank2.json")
    line = json.loads(lines.read_text())
    line["facts"]["missing"] = ["phyml-mpi"]
    lines.write_text(json.dumps(line))
    for rank in (0, 1):
        leave(check, 1, rank, "", exit_code=None, note="ended with the job")
    Path(check._stagedir, "rfm_job.err").write_text(
        "srun: error: n3: task 2: Exited with exit code 1\n"
        "srun: Terminating StepId=7.0\n"
        "srun: error: n4: task 3: Terminated\n"
    )
    check._job.state, check._job.exitcode = "FAILED", 1
    assert ended_jobs.judge(check) == "phyml-mpi not found on n3"
    (failure,) = check.results[0].failures
    assert (failure.kind, failure.nodes) == ("tool-missing", ("n3",))
    assert "install phyml-mpi there" in failure.next_step


def test_a_node_that_lacks_the_image_is_not_accused(check: Any) -> None:
    for path in Path(check._stagedir).glob("run*"):
        path.unlink()
    Path(check._stagedir, "rfm_job.err").write_text(NO_IMAGE)
    check._job.state, check._job.exitcode = "FAILED", 1
    assert "no container started on n3: No such file" in ended_jobs.judge(check)
    (failure,) = check.results[0].failures
    assert (failure.kind, failure.nodes) == (ENVIRONMENT, ("n3",))


def test_all_programs_of_the_command_are_looked_for_on_nodes(check: Any) -> None:
    assert set(check.programs.on(lab())) == {"sh", "phyml-mpi"}
    assert check.order().programs == ("phyml-mpi",)


# ---- in an image ----


def in_an_image(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    described = check.described.model_copy(update={"image": IMAGE, "mounts": ["/data/x:/data"]})
    monkeypatch.setattr(type(check), "described", described)


def test_every_run_sees_this_checkout_and_its_own_folder_in_the_container(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_an_image(check, monkeypatch)
    check._job.launcher.run_command = lambda job: " ".join(["srun", *job.launcher.options])
    check.executable, check.executable_opts = "env", []
    check.run_again_and_again()
    stage = check.stagedir
    wanted = [
        f"--container-image={IMAGE}",
        f"--container-mounts={paths.HOME},{stage},/data/x:/data",
        f"--container-workdir={stage}",
    ]
    launched = [shlex.split(command) for command in check.prerun_cmds if "srun" in command]
    assert len(launched) == 2
    assert all(set(wanted) <= set(words) for words in launched)


def test_a_container_sees_all_of_an_installed_program(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = "/usr/lib/railgauge/lib/python3.11/site-packages"
    monkeypatch.setattr(paths, "PROGRAM", Path(packages))
    _, mounts, _ = container.launcher_options(IMAGE, "/results", "/work")
    assert packages in mounts.partition("=")[2].split(",")


def test_a_container_sees_the_descriptions_of_a_site_outside_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "SITE", tmp_path)
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path / "configs" / "systems")
    _, mounts, _ = container.launcher_options(IMAGE, "/results", "/work")
    assert shlex.split(mounts) == [
        f"--container-mounts={paths.HOME},{tmp_path}/configs/systems,/results"
    ]


def test_the_package_of_what_ran_in_an_image_is_the_image(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_an_image(check, monkeypatch)
    for rank in RANKS:
        leave(check, 1, rank, path="/usr/bin/phyml-mpi", package="dpkg phyml 3.3")
    call = next(c for c in check.read().calls if c.role == "run1-rank0")
    assert call.package == f"image {IMAGE}"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"launch_options": ["--container-image=x"]}, "expected image and mounts"),
        ({"mounts": ["/data:/data"]}, "mounts without an image"),
    ],
)
def test_an_image_is_stated_in_one_way(changes: dict[str, Any], says: str) -> None:
    asked = {"command": ["x"], "limit_s": 9, "converged": {"pattern": "(x)", "equals": "x"}}
    with pytest.raises(pydantic.ValidationError, match=says):
        systems.Application.model_validate({**asked, **changes})


# ---- cases ----


def test_a_placeholder_never_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILGAUGE_SERIES", "1")
    partition = lab(placeholders=["command", "image"])
    assert list(ApplicationCases().on(partition)) == []
    assert {left.field for left in ApplicationCases().leaves_out(partition)} == {
        "extras.applications.phyml.placeholders"
    }
    h100 = systems.load("dgx-h100").partition("h100")
    assert list(ApplicationCases().on(h100)) == []


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
    (left,) = ApplicationCases().leaves_out(lab())
    assert left.field == "extras.applications.phyml.series_only"
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
