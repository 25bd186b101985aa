"""The table of `railgauge system check NAME --run`, from what nodes and Slurm said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import systems
from railgauge.cluster import mpi as starting
from railgauge.cluster import probe
from railgauge.cluster.look import Look, NodeLook
from railgauge.common.errors import PrerequisiteError
from railgauge.model.record import Listed
from railgauge.site import run as running
from railgauge.site.check import Line, checks
from railgauge.slurm import client
from railgauge.slurm import jobs as slurm_jobs
from railgauge.systems import Partition

DATA = Path(__file__).parents[2] / "data" / "job_end"


def recorded(name: str) -> str:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8").partition("\n")[2]


def partition(**more: object) -> Partition:
    fields = {
        "name": "ns",
        "launcher": "srun",
        "access": ["--partition=ns"],
        "features": ["tcp", "mpi"],
        "extras": {"nodes": "n[1-2]", "launch_options": ["--mpi=pmix"]},
    }
    return Partition.model_validate({**fields, **more})


def node(name: str, **told: object) -> NodeLook:
    whole = {"job": "7", "ended": True, "python": (3, 11, 2), "clock": 105.0}
    return NodeLook(name, **{**whole, "tools": {"ip": "ip 6", "iperf": "2.1.8"}, **told})  # type: ignore[arg-type]


def look(*nodes: NodeLook, **more: object) -> Look:
    fields = {
        "partition": "ns",
        "requested": [each.node for each in nodes],
        "nodes": {each.node: each for each in nodes},
        "left": {},
        "began": 100.0,
        "ended": 110.0,
    }
    return Look(**{**fields, **more})  # type: ignore[arg-type]


@pytest.fixture
def mpi(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What srun prints when MPI is started."""
    answer: dict[str, object] = {
        "stdout": "world of 2: rank 0 on n1\nworld of 2: rank 1 on n2\n",
        "stderr": "",
        "code": 0,
    }
    monkeypatch.setattr(
        starting, "run", lambda *_: (answer["stdout"], answer["stderr"], answer["code"])
    )
    yield answer


def lines(seen: Look, **more: object) -> list[Line]:
    return list(running._of_partition("site", partition(**more), seen))


def problems(found: list[Line]) -> list[str]:
    return [str(line) for line in found if line.status != "ok"]


@pytest.mark.usefixtures("mpi")
def test_a_partition_that_has_all_has_a_line_for_each_thing() -> None:
    found = lines(look(node("n1"), node("n2")))
    assert problems(found) == []
    assert [line.thing for line in found] == [
        *("ns: start", "ns: folders", "ns: Python", "ns: names", "ns: clocks"),
        *("ns: tools", "ns: tools", "ns: MPI"),
    ]


@pytest.mark.usefixtures("mpi")
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"unwritable": "bash: /x: Permission denied"}, "n2 cannot write into "),
        ({"python": (3, 6, 8)}, "n2 has Python 3.6.8, expected 3.9"),
        ({"clock": 95.0}, "n2 is at least 5.0 s behind this host; next: chronyc tracking, on n2"),
        ({"clock": 112.0}, "n2 is at least 2.0 s ahead of this host"),
        ({"tools": {"ip": "ip 6", "iperf": ""}}, "n2 has no iperf; next: "),
        ({"unresolved": {"n1": "n1: no"}}, "n2 does not resolve n1 (n1: no); next: `getent"),
    ],
)
def test_what_one_node_lacks_is_one_line_with_what_to_type(
    told: dict[str, object], said: str
) -> None:
    wrong = problems(lines(look(node("n1"), node("n2", **told))))
    assert any(said in line and "; next: " in line for line in wrong)


@pytest.mark.usefixtures("mpi")
def test_different_versions_are_reported_with_their_nodes() -> None:
    other = node("n2", tools={"ip": "ip 6", "iperf": "2.2.1"})
    told = [line.text for line in lines(look(node("n1"), other)) if line.thing == "ns: tools"]
    assert told == ["ip: ip 6 on n[1-2]", "iperf: 2.1.8 on n1", "iperf: 2.2.1 on n2"]


@pytest.mark.usefixtures("mpi")
def test_a_node_that_started_nothing_is_named() -> None:
    stderr = (
        "srun: error: Task launch for StepId=5.0 failed on node n2: Communication connection "
        "failure\n"
    )
    seen = look(node("n1"), requested=["n1", "n2"], stderr=stderr)
    assert any("n2 started no task: n2: Communication" in line for line in problems(lines(seen)))


@pytest.mark.usefixtures("mpi")
def test_nodes_that_were_not_asked_are_not_checked() -> None:
    found = lines(look(node("n1"), node("n2"), left={"n3": "busy", "n4": "busy"}))
    (line,) = [line for line in found if line.status == "not checked"]
    assert line.text == "n[3-4]: busy"


def test_mpi_without_the_launchers_plugin_leads_to_launch_options(mpi: dict[str, object]) -> None:
    mpi.update(stdout="", stderr=recorded("mpi_no_pmi"), code=1)
    (line,) = [each for each in lines(look(node("n1"), node("n2"))) if each.thing == "ns: MPI"]
    assert line.status == "problem"
    assert "OMPI was not built with SLURM's PMI support" in line.text
    assert "--mpi=pmix" in line.text
    assert "launch_options" in line.next_step and "configs/systems/site/" in line.next_step


def test_ranks_that_are_worlds_of_their_own_are_a_problem(mpi: dict[str, object]) -> None:
    mpi.update(stdout="world of 1: rank 0 on n1\nworld of 1: rank 0 on n2\n")
    (line,) = [each for each in lines(look(node("n1"), node("n2"))) if each.thing == "ns: MPI"]
    assert (line.status, "a world of its own" in line.text) == ("problem", True)


def test_a_world_that_lacks_a_rank_is_a_problem(mpi: dict[str, object]) -> None:
    mpi.update(stdout="world of 2: rank 0 on n1\n", stderr="n2: it crashed, error 5\n", code=1)
    (line,) = [each for each in lines(look(node("n1"), node("n2"))) if each.thing == "ns: MPI"]
    assert (line.status, "it crashed" in line.text) == ("problem", True)


def test_mpirun_is_left_to_its_check() -> None:
    found = lines(look(node("n1"), node("n2")), launcher="mpirun")
    (line,) = [each for each in found if each.thing == "ns: MPI"]
    assert line.status == "not checked"


def test_accounting_that_does_not_know_a_job_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_RECORDED_S", 0)
    monkeypatch.setattr(client, "output", lambda *_: "")
    line = running._recorded([look(node("n1"))])
    assert line.status == "problem"
    assert "sacctmgr add cluster" in line.next_step


def test_without_accounting_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def off() -> None:
        raise client.AccountingError

    monkeypatch.setattr(slurm_jobs, "require_answer", off)
    first, rest = running.lines("site")
    assert (first.status, "accounting is off" in first.text) == ("problem", True)
    assert rest.status == "not checked"


def test_a_slurm_of_another_system_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise PrerequisiteError("asked")

    monkeypatch.setattr(slurm_jobs, "require_answer", never)
    (line,) = running.lines("site", owner="other")
    assert (line.status, "other" in line.text) == ("not checked", True)


# ---- the tools of required checks ----


@pytest.mark.parametrize(
    ("options", "programs"),
    [
        ([], {"iperf"}),
        (["-n", "Iperf2Pair"], {"iperf"}),
        (["-n", "NodeState|Iperf2"], {"iperf"}),
        (["--name=^(NodeState|MpiWorld)$"], set()),
        (["-nNodeState", "-n", "Iperf2Pair"], {"iperf"}),
        (["-x", "Iperf2Pair"], set()),
        (["-n", "Iperf3Pair"], set()),
    ],
)
def test_required_checks_that_run_name_their_tools(options: list[str], programs: set[str]) -> None:
    lab = systems.load("lab").partition("ns")
    assert set(checks.needed(lab, options)) == programs


@pytest.mark.parametrize("more", [{"modules": ["iperf/2.2"]}, {"environs": ["gnu"]}])
def test_of_jobs_that_load_modules_no_tool_is_named_beforehand(more: dict[str, object]) -> None:
    lab = systems.load("lab").partition("ns")
    assert set(checks.needed(lab)) == {"iperf"}
    assert set(checks.needed(lab.model_copy(update=more))) == set()


def test_a_tool_in_a_folder_of_its_own_is_not_named_beforehand() -> None:
    eth = systems.load("eth400g").partitions[0]
    extras = eth.extras.model_copy(update={"required": ["WdtTransfer"]})
    transfers = extras.transfers
    assert transfers is not None
    for path, needed in ((["/opt/wdt/bin"], set()), ([], {"wdt"})):
        there = extras.model_copy(update={"transfers": transfers.model_copy(update={"path": path})})
        partition = eth.model_copy(update={"extras": there})
        assert set(checks.needed(partition, ["-n", "WdtTransfer"])) == needed


def test_a_program_that_only_describes_a_rail_is_not_needed() -> None:
    needed = checks.needed(systems.load("lab").partition("vm"))
    assert {"iperf", "ib_write_bw"} <= needed.keys()
    assert needed.keys().isdisjoint({"ethtool", "rdma"})


# ---- a measuring job ----


def planned(**changes: object) -> Listed:
    fields = {"case": "C", "partition": "ns", "places": 1, "rounds": 1, "node_count": 2}
    return Listed.model_validate({**fields, "seconds": 5.0, "limit_s": 600.0, **changes})


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (probe.Probe("--x"), ("ok", "a job with --x started")),
        (
            probe.Probe("--x", "PartitionTimeLimit", True, "type this"),
            ("problem", "a job with --x does not start: PartitionTimeLimit"),
        ),
        (
            probe.Probe("--x", "Resources"),
            ("not checked", "a job with --x does not start: Resources"),
        ),
    ],
)
def test_the_largest_job_of_an_acceptance_is_tried(
    monkeypatch: pytest.MonkeyPatch, result: probe.Probe, line: tuple[str, str]
) -> None:
    tried: list[object] = []

    def start(_: object, nodes: object, limit_s: float) -> probe.Probe:
        tried.extend([nodes, limit_s])
        return result

    monkeypatch.setattr(probe, "start", start)
    cases = [planned(node_count=4, limit_s=60), planned(limit_s=900)]
    found = running._measuring_job(partition(), ["n1", "n2", "n3"], cases)
    assert (found.status, found.text) == line
    assert found.next_step == result.next_step
    assert tried == [["n1", "n2", "n3"], 900]
