"""`mpi_ranks`: one tool on a rank, with its exit line, its result and its hang."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.node.runners.mpi_ranks import allowed_interfaces, related, without_environment
from tests.unit.node.sweeping import PATIENCE_S

#: What the first rank of a node is told to watch.
WATCHED: dict[str, Any] = {"devices": [], "interfaces": "", "budgets": []}

PROGRAM = [sys.executable, "-m", "railgauge.node.runners.mpi_ranks", "ranks.json"]


def spec(argv: list[str], **more: Any) -> dict[str, Any]:
    return {
        "tool": "probe",
        "argv": argv,
        "version": [],
        "rank_variable": "SLURM_PROCID",
        "run_limit_s": PATIENCE_S,
        **more,
    }


def environment(rank: int) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(paths.SOURCE),
        "SLURM_PROCID": str(rank),
        "SLURMD_NODENAME": "n1",
    }


def run(folder: Path, orders: dict[str, Any], rank: int = 0) -> tuple[int, dict[str, Any]]:
    (folder / "ranks.json").write_text(json.dumps(orders))
    answer = subprocess.run(PROGRAM, cwd=folder, env=environment(rank), check=False)
    return answer.returncode, json.loads((folder / f"rank{rank}.json").read_text())


def test_nothing_is_started_where_the_program_is_not_there(tmp_path: Path) -> None:
    code, line = run(tmp_path, spec(["/opt/solver/bin/solve"]))
    assert code == 1 and line["facts"]["missing"] == ["/opt/solver/bin/solve"]
    assert line["call"]["exit_code"] is None and line["call"]["note"].startswith("not started")


def test_nothing_is_started_where_what_the_program_runs_is_not_there(tmp_path: Path) -> None:
    orders = spec(["touch", "started"], programs=["sh", "no-such-solver"])
    assert run(tmp_path, orders)[1]["facts"]["missing"] == ["no-such-solver"]
    assert not (tmp_path / "started").exists()


def test_a_program_is_looked_for_on_the_path_that_it_is_given(tmp_path: Path) -> None:
    tmp_path.joinpath("solve").write_text("#!/bin/sh\n")
    tmp_path.joinpath("solve").chmod(0o755)
    orders = spec(["solve"], environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert run(tmp_path, orders)[1]["call"]["exit_code"] == 0


def test_the_rank_is_filled_in(tmp_path: Path) -> None:
    code, line = run(tmp_path, spec(["sh", "-c", "echo {rank}"]), rank=3)
    assert code == 0
    assert (tmp_path / "rank3.out").read_text() == "3\n"
    assert line["call"]["rank"] == 3 and line["call"]["exit_code"] == 0
    assert line["facts"]["hostname"]


def in_a_full_folder(tmp_path: Path, orders: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The rank with a /tmp in which there is no room, in mounts of its own."""
    (tmp_path / "ranks.json").write_text(json.dumps(orders))
    fill = "mount -t tmpfs -o size=4k none /mnt && (cat /dev/zero > /mnt/filler || true)"
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{fill}; TMPDIR=/mnt exec {shlex.join(PROGRAM)}"],
        **{"cwd": tmp_path, "env": environment(0), "check": False},
    )
    return answer.returncode, json.loads((tmp_path / "rank0.json").read_text())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_nothing_is_started_where_there_is_no_room(tmp_path: Path) -> None:
    code, line = in_a_full_folder(tmp_path, spec(["touch", str(tmp_path / "started")]))
    assert code == 1 and not (tmp_path / "started").exists()
    assert line["call"]["note"] == "not started: no room in /mnt"
    assert line["facts"]["no_room"] == {"/mnt": 0}


def test_a_node_with_room_says_nothing_of_it(tmp_path: Path) -> None:
    _, line = run(tmp_path, spec(["true"]))
    assert "no_room" not in line["facts"]


def test_variables_of_the_node_win(tmp_path: Path) -> None:
    orders = spec(
        ["sh", "-c", "echo $HCA $FILE"],
        environment={"HCA": "a,b", "FILE": "rank{rank}.log"},
        environment_on={"n1": {"HCA": "a"}, "n2": {"HCA": "none"}},
    )
    run(tmp_path, orders, rank=1)
    assert (tmp_path / "rank1.out").read_text() == "a rank1.log\n"


def test_exit_codes_are_kept(tmp_path: Path) -> None:
    code, line = run(tmp_path, spec(["sh", "-c", "exit 7"]))
    assert (code, line["call"]["exit_code"]) == (1, 7)


def test_a_result_is_kept_without_the_environment(tmp_path: Path) -> None:
    document = '{"version": 1, "env": {"KEY": "s3cr3t"}, "results": [{"size": 8}]}'
    orders = spec(["sh", "-c", f"echo '{document}' >{{scratch}}/r.json"], result="r.json")
    run(tmp_path, orders)
    assert json.loads((tmp_path / "r.json").read_text()) == {
        "version": 1,
        "results": [{"size": 8}],
    }


def test_a_broken_result_is_not_kept(tmp_path: Path) -> None:
    orders = spec(["sh", "-c", 'echo \'{"env": "s3cr3t\' >{scratch}/r.json'], result="r.json")
    run(tmp_path, orders)
    assert "s3cr3t" not in (tmp_path / "r.json").read_text()


def test_no_result_leaves_no_file(tmp_path: Path) -> None:
    run(tmp_path, spec(["true"], result="r.json"))
    assert not (tmp_path / "r.json").exists()


def test_a_tool_that_hangs_is_asked_and_ended(tmp_path: Path) -> None:
    orders = spec(["sleep", "600"], run_limit_s=0.2, on_hang=["echo", "state: waiting"])
    code, line = run(tmp_path, orders)
    assert code == 1
    assert "still running" in line["call"]["note"]
    assert (tmp_path / "hang.out").read_text() == "state: waiting\n"


def test_what_cannot_be_asked_says_so(tmp_path: Path) -> None:
    orders = spec(["sleep", "600"], run_limit_s=0.2, on_hang=["./no-such-program"])
    run(tmp_path, orders)
    assert "no-such-program" in (tmp_path / "hang.out").read_text()


def test_a_rank_that_slurm_stops_leaves_its_line(tmp_path: Path) -> None:
    (tmp_path / "ranks.json").write_text(json.dumps(spec(["sleep", "600"])))
    process = subprocess.Popen(PROGRAM, cwd=tmp_path, env=environment(0))
    while not (tmp_path / "rank0.err").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 143
    assert json.loads((tmp_path / "rank0.json").read_text())["call"]["exit_code"] is None


#: The signal comes when the tool runs, and nobody has it in hand yet.
SIGNALLED = """
import os, pathlib, signal, sys
from railgauge.node.runners import mpi_ranks
started = mpi_ranks.RankCall._open
def start(*words):
    pathlib.Path("tool").write_text(str(started(*words).pid))
    os.kill(os.getpid(), signal.SIGTERM)
mpi_ranks.RankCall._open = start
sys.exit(mpi_ranks.main())
"""


def test_a_tool_does_not_outlive_a_rank_that_is_ended_while_it_starts_it(tmp_path: Path) -> None:
    (tmp_path / "ranks.json").write_text(json.dumps(spec(["sleep", "600"])))
    answer = subprocess.run(
        [sys.executable, "-c", SIGNALLED, "ranks.json"],
        **{"cwd": tmp_path, "env": environment(0), "check": False, "timeout": PATIENCE_S},
    )
    assert answer.returncode == 143
    assert json.loads((tmp_path / "rank0.json").read_text())["call"]["exit_code"] is None
    assert not Path("/proc", (tmp_path / "tool").read_text()).exists()


#: The signal comes when the tool has ended, before the line is written.
SIGNALLED_AT_THE_END = """
import os, signal, sys
from railgauge.node.runners import mpi_ranks
ended = mpi_ranks.processes.end_children
def end():
    os.kill(os.getpid(), signal.SIGTERM)
    ended()
mpi_ranks.processes.end_children = end
sys.exit(mpi_ranks.main())
"""


def test_a_rank_that_slurm_stops_at_its_own_end_leaves_its_line(tmp_path: Path) -> None:
    """Where one rank fails srun ends the others, which may just have failed for the same reason."""
    (tmp_path / "ranks.json").write_text(json.dumps(spec(["sh", "-c", "exit 15"])))
    answer = subprocess.run(
        [sys.executable, "-c", SIGNALLED_AT_THE_END, "ranks.json"],
        **{"cwd": tmp_path, "env": environment(0), "check": False, "timeout": PATIENCE_S},
    )
    assert answer.returncode == 1
    assert json.loads((tmp_path / "rank0.json").read_text())["call"]["exit_code"] == 15


# ---- the node's counters ----


def test_the_first_rank_of_a_node_watches_its_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_LOCALID", "0")
    _, line = run(tmp_path, spec(["true"], watched={**WATCHED, "devices": ["mlx5_0"]}), rank=4)
    assert {"bytes", "peak_gbits", "seconds"} <= line["facts"]["counters"].keys()
    assert line["facts"]["netdevs"] == {"mlx5_0": []}


@pytest.mark.parametrize(
    ("local", "more"), [("1", {"watched": {**WATCHED, "devices": ["mlx5_0"]}}), ("0", {})]
)
def test_the_others_do_not_and_none_where_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: str, more: dict[str, Any]
) -> None:
    monkeypatch.setenv("SLURM_LOCALID", local)
    _, line = run(tmp_path, spec(["true"], **more))
    assert "counters" not in line["facts"]


@pytest.mark.parametrize("name", ["env", "environment", "Environ"])
def test_environments_are_dropped_at_any_depth(name: str) -> None:
    document = {"a": [{name: {"KEY": "x"}, "b": 1}]}
    assert without_environment(document) == {"a": [{"b": 1}]}


# ---- counters and links around a job ----


def watched(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    (tmp_path / "ranks.json").write_text(json.dumps(spec(["true"], watched=WATCHED | changes)))
    local = {**environment(0), "SLURM_LOCALID": "0"}
    subprocess.run(PROGRAM, cwd=tmp_path, env=local, check=False)
    facts: dict[str, Any] = json.loads((tmp_path / "rank0.json").read_text())["facts"]
    return facts


def test_every_interface_is_watched_where_nothing_names_one(tmp_path: Path) -> None:
    facts = watched(tmp_path)
    there = {entry.name for entry in Path("/sys/class/net").iterdir()} - {"lo"}
    assert set(facts["socket_interfaces"]) == there
    cables = {name for name in there if Path("/sys/class/net", name, "device").exists()}
    assert cables <= set(facts["links"]) <= there
    assert {"bytes", "counters", "gone", "reset"} <= facts["counters"].keys()
    assert all(link["before"]["states"] == [] for link in facts["links"].values())


def test_what_is_set_of_nccl_is_among_the_facts(tmp_path: Path) -> None:
    orders = spec(
        ["true"], watched=WATCHED, environment={"NCCL_ALGO": "Ring", "NCCL_DEBUG": "INFO"}
    )
    (tmp_path / "ranks.json").write_text(json.dumps(orders))
    local = {**environment(0), "SLURM_LOCALID": "0"}
    subprocess.run(PROGRAM, cwd=tmp_path, env=local, check=False)
    told = json.loads((tmp_path / "rank0.json").read_text())["facts"]["nccl"]
    assert told["variables"]["NCCL_ALGO"] == "Ring" and "NCCL_DEBUG" not in told["variables"]
    assert told.keys() == {"variables", "plugins"}


def test_an_interface_that_is_named_is_watched_whatever_it_is(tmp_path: Path) -> None:
    there = sorted({entry.name for entry in Path("/sys/class/net").iterdir()} - {"lo"})
    if there:
        facts = watched(tmp_path, interfaces=f"={there[0]}")
        assert set(facts["links"]) == {there[0]}


def test_a_budget_that_no_counter_matches_is_reported(tmp_path: Path) -> None:
    facts = watched(tmp_path, budgets=["rdma/mlx9_9/1/counters/symbol_error"])
    assert facts["counters"]["unmatched"] == ["rdma/mlx9_9/1/counters/symbol_error"]


def test_a_device_that_is_not_there_has_no_state(tmp_path: Path) -> None:
    facts = watched(tmp_path, devices=["mlx9_9"])
    assert facts["links"] == {"mlx9_9": {"before": {"states": []}, "after": {"states": []}}}


def test_counters_of_a_stand_in_say_simulated_and_nothing_else(tmp_path: Path) -> None:
    facts = watched(tmp_path, simulated=True)
    assert facts["counters"] == {"simulated": True} and "links" not in facts


THERE = ["eth0", "eth1", "eth10", "ib0", "docker0", "lo"]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("", ["eth0", "eth1", "eth10", "ib0", "docker0"]),
        ("eth1", ["eth1", "eth10"]),
        ("=eth1", ["eth1"]),
        ("=eth1,ib0", ["eth1", "ib0"]),
        ("ib,eth0", ["eth0", "ib0"]),
        ("^docker", ["eth0", "eth1", "eth10", "ib0"]),
        ("^=eth1,docker0", ["eth0", "eth10", "ib0"]),
        ("=wlan0", []),
    ],
)
def test_nccls_variable_names_the_interfaces(expression: str, allowed: list[str]) -> None:
    assert allowed_interfaces(expression, THERE) == allowed


def test_what_is_above_and_beneath_shows_the_same_traffic(tmp_path: Path) -> None:
    for entry in (
        *("eth2/upper_bond0", "eth3/upper_bond0", "bond0/lower_eth2", "bond0/lower_eth3"),
        *("bond0/upper_vlan7", "vlan7/lower_bond0", "eth9/statistics"),
    ):
        (tmp_path / "class/net" / entry).mkdir(parents=True)
    assert related(["eth2"], str(tmp_path)) == ["bond0", "eth2", "eth3", "vlan7"]
    assert related(["eth9"], str(tmp_path)) == ["eth9"]


def test_the_steps_of_a_job_leave_lines_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "ranks.json").write_text(json.dumps(spec(["echo", "{rank}"])))
    for step in ("run1", "run2"):
        subprocess.run([*PROGRAM, step], cwd=tmp_path, env=environment(3), check=True)
    lines = {
        name: json.loads((tmp_path / f"{name}-rank3.json").read_text()) for name in ("run1", "run2")
    }
    assert {name: line["call"]["role"] for name, line in lines.items()} == {
        "run1": "run1-rank3",
        "run2": "run2-rank3",
    }
    assert (tmp_path / "run2-rank3.out").read_text() == "3\n"
    assert not (tmp_path / "rank3.json").exists()
