"""Load next to a measurement: whose CPUs it takes, that it was there, that none of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.orders.places import CpuLoadOrder
from railgauge.node.runners import cpu_load, stressor
from railgauge.node.system import network_path
from tests.unit.node.sweeping import (
    CONNECT,
    HANGS,
    HANGS_ON,
    HANGS_S,
    PATIENCE_S,
    Sweep,
    both_sides,
    marked,
    pair_of,
    pair_order,
    wait_until,
)

CPUS = sorted(os.sched_getaffinity(0))

#: What stress-ng is here: as many processes as it is told, on the CPUs that it is told, which end
#: with it. It ends by itself after its --timeout, or STRESS_S, or once the file STRESS_UNTIL is
#: there.
STRESS_NG = f"""\
#!{os.path.realpath(sys.executable)} -SE
import ctypes, os, sys, time
def said(option):
    return sys.argv[sys.argv.index(option) + 1]
os.sched_setaffinity(0, [int(cpu) for cpu in said("--taskset").split(",")])
if not os.environ.get("STRESS_NONE"):
    for _ in range(int(said("--cpu"))):
        if not os.fork():
            ctypes.CDLL(None).prctl(1, 14, 0, 0, 0)
            while True:
                if time.process_time() > float(os.environ.get("STRESS_CPU_S", "inf")):
                    time.sleep(1)
until = os.environ.get("STRESS_UNTIL", "")
ends = time.time() + float(os.environ.get("STRESS_S", said("--timeout")))
while time.time() < ends and not os.path.exists(until):
    time.sleep(0.02)
"""

#: A tool that ends all stressors itself, and ends when none is left.
ENDS_STRESS = """
import glob, os, time
def left():
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if b"--taskset" in open(path, "rb").read().split(b"\\0"):
                return True
        except OSError:
            pass
open(os.environ["STRESS_UNTIL"], "w").close()
while left():
    time.sleep(0.05)
"""

WAITS = CONNECT + "time.sleep(0.5); print('got', connection.recv(9))"


@pytest.fixture
def stress_ng(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "with stress"
    folder.mkdir()
    program = folder / "stress-ng"
    program.write_text(STRESS_NG)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield program


def order(state: str = "busy", client: str = WAITS, **more: Any) -> dict[str, Any]:
    asked = {"state": state, "cores": 1, "program": ["stress-ng"], "at_most_s": HANGS_S, "on": {}}
    asked.update(more)
    return pair_order(client=client, contention=asked)


def measured(order: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The exit line of each side."""
    pair = pair_of(order, "127.0.0.1", "127.0.0.2")
    return {left["line"]["call"]["role"]: left["line"] for left in both_sides(pair)}


def load_order(state: str, **more: Any) -> CpuLoadOrder:
    return CpuLoadOrder.read(order(state, **more)["contention"])


def stressors() -> list[int]:
    """Those of this test, which ends all of its own."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if b"--taskset" in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_the_tool_s_own_cpu_is_busy_from_before_it_starts_until_it_has_ended(
    stress_ng: Path,
) -> None:
    lines = measured(order())
    for role in ("server", "client"):
        said = lines[role]["facts"]["contention"]
        before, after = said["before"], said["after"]
        assert said["tool_cpus"] == str(CPUS[0])
        assert before["cpus"] == after["cpus"] == after["bound_to"] == [CPUS[0]]
        assert before["running"] and after["running"] and before["cpu_s"] > 0
        assert after["cpu_s"] > before["cpu_s"]
        assert after["at"] - before["at"] >= lines["client"]["call"]["seconds"] * 0.9
        assert said["end"]["exit_code"] == -signal.SIGTERM
    assert lines["client"]["call"]["exit_code"] == 0


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_load_next_to_the_tool_is_on_none_of_its_cpus(stress_ng: Path, tmp_path: Path) -> None:
    allowed = {cpu for cpu in CPUS if cpu not in cpu_load._siblings(CPUS[0])}
    if not allowed:
        pytest.skip("all CPUs are threads of one core")
    lines = measured(order("beside"))
    said = lines["client"]["facts"]["contention"]
    assert set(said["after"]["bound_to"]) == allowed and said["tool_cpus"] == str(CPUS[0])


def test_an_idle_host_is_looked_at_and_has_no_stressors(stress_ng: Path) -> None:
    said = measured(order("idle"))["client"]["facts"]["contention"]
    assert "running" not in said["after"] and said["after"]["busy_s"] >= said["before"]["busy_s"]
    assert said["own_s"] >= 0


def test_stressors_that_end_before_the_tool_are_reported(
    stress_ng: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRESS_UNTIL", str(stress_ng.with_name("until")))
    said = measured(order(client=CONNECT + ENDS_STRESS))["client"]["facts"]["contention"]
    assert said["before"]["running"] and not said["after"]["running"]
    assert said["end"]["exit_code"] == 0


@pytest.mark.parametrize("environment", ["STRESS_NONE", ""])
def test_a_tool_does_not_run_next_to_stressors_that_do_not(
    stress_ng: Path, monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    monkeypatch.setattr(stressor, "BEGIN_S", 1.0)
    monkeypatch.setenv("STRESS_S", "0.1")
    if environment:
        monkeypatch.setenv(environment, "1")
    else:
        stress_ng.write_text("no program")
    line = measured(order())["client"]
    assert line["call"]["exit_code"] is None and "not started" in line["call"]["note"]
    assert line["facts"]["no_state"] in line["call"]["note"]


def test_without_another_cpu_nothing_else_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    with pytest.raises(network_path.PathError, match="no CPU other than the tool's, 3"):
        cpu_load.place(load_order("beside"), "client", {"device": "lo"})


@pytest.mark.parametrize("near", ["", "2-3"])
def test_without_a_cpu_far_from_the_nic_nothing_is_far(
    monkeypatch: pytest.MonkeyPatch, near: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3})
    facts: dict[str, Any] = {"device": "lo", "cpus": near}
    with pytest.raises(network_path.PathError, match="near"):
        cpu_load.place(load_order("far"), "client", facts)
    assert facts["one_numa_node"] and "near" in facts["no_state"]


@pytest.mark.parametrize(("state", "cpus"), [("idle", "2"), ("busy", "2"), ("far", "0")])
def test_in_a_virtual_machine_the_data_say_which_cpus_are_near(
    monkeypatch: pytest.MonkeyPatch, state: str, cpus: str
) -> None:
    """Its own one NUMA node has all of them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    facts: dict[str, Any] = {"device": "lo", "cpus": "0-3"}
    on = {"client": {"host": "epyc", "cpus": "8-11", "near": "2-3"}}
    cpu_load.place(load_order(state, on=on), "client", facts)
    assert facts["cpus"] == facts["contention"]["tool_cpus"] == cpus
    assert facts["contention"]["near"] == "2-3"


def test_a_virtual_machine_without_the_cpus_that_are_said_to_be_near_measures_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    on = {"client": {"host": "epyc", "cpus": "8-11", "near": "12-27"}}
    with pytest.raises(network_path.PathError, match="is of 12-27"):
        cpu_load.place(load_order("idle", on=on), "client", {"device": "lo"})


@pytest.mark.parametrize(("state", "cpus"), [("idle", "2"), ("busy", "2"), ("far", "0")])
def test_the_tool_is_near_its_nic_but_where_it_is_to_be_far(
    monkeypatch: pytest.MonkeyPatch, state: str, cpus: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    facts: dict[str, Any] = {"device": "lo", "cpus": "2-3"}
    cpu_load.place(load_order(state), "client", facts)
    assert facts["cpus"] == facts["contention"]["tool_cpus"] == cpus


@pytest.fixture
def hypervisor(stress_ng: Path, tmp_path: Path) -> Path:
    """This machine, by an ssh that writes down whom it was to reach."""
    # As sshd has it: the words, joined, are the shell's.
    ssh = stress_ng.with_name("ssh")
    ssh.write_text('#!/bin/sh\nwhile case "$1" in -*) ;; *) false;; esac; do shift; done\n')
    with ssh.open("a") as stream:
        stream.write(f'echo "$1" >>{str(tmp_path)!r}/hosts\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    return tmp_path / "hosts"


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_a_hypervisor_with_one_numa_node_has_nothing_far(hypervisor: Path) -> None:
    if len(stressor.numa_nodes(CPUS)) > 1:
        pytest.skip("this machine has several")
    one = {"host": "epyc", "cpus": ",".join(map(str, CPUS)), "near": str(CPUS[0])}
    line = measured(order("far", on={"server": one, "client": one}))["server"]
    assert line["facts"]["one_numa_node"] and line["call"]["exit_code"] is None
    assert "the CPUs of epyc, " in line["facts"]["no_state"]


def test_the_hypervisor_is_kept_busy_by_ssh(hypervisor: Path) -> None:
    cpus = str(CPUS[-1])
    on = {"server": {"host": "epyc", "cpus": cpus}, "client": {"host": "epyc", "by_other": True}}
    lines = measured(order(on=on))
    said = lines["server"]["facts"]["contention"]
    assert said["on"] == "epyc" and said["after"]["bound_to"] == [int(cpus)]
    assert said["after"]["running"] and "before" not in lines["client"]["facts"]["contention"]
    assert hypervisor.read_text() == "epyc\n"


def test_a_hypervisor_that_does_not_answer_measures_nothing(stress_ng: Path) -> None:
    ssh = stress_ng.with_name("ssh")
    ssh.write_text("#!/bin/sh\necho 'epyc: Permission denied' >&2\nexit 255\n")
    ssh.chmod(0o755)
    on = {"server": {"host": "epyc", "cpus": "0"}, "client": {"host": "epyc", "cpus": "0"}}
    line = measured(order(on=on))["client"]
    assert line["call"]["exit_code"] is None and "Permission denied" in line["facts"]["no_state"]


# ---- whatever dies ----


def loaded(folder: Path, program: Path) -> Sweep:
    """A sweep whose tool hangs next to stressors on both of its nodes."""
    asked = order(client=HANGS, at_most_s=HANGS_S)
    sweep = Sweep([asked], environment={"PYTHONDONTWRITEBYTECODE": "1"})
    sweep.pair(*sweep.nodes)
    sweep.start(folder)
    wait_until(lambda: HANGS_ON in str(sweep.left_running()), "no tool runs")
    assert str(sweep.left_running()).count("--taskset") >= 4
    return sweep


def processes_of(sweep: Sweep, *words: str) -> list[int]:
    return [p for p, command in marked(sweep.mark) if all(word in command for word in words)]


def dies(sweep: Sweep, victim: str) -> None:
    assert sweep.process is not None
    if victim == "conductor, killed":
        sweep.process.kill()
    elif victim == "conductor, as Slurm stops it":
        sweep.process.terminate()
    elif victim == "agents":
        for node in sweep.nodes:
            os.kill(sweep.agent(node), signal.SIGKILL)
    elif victim == "who keeps the stressors":
        for process in processes_of(sweep, "stressor.py"):
            os.kill(process, signal.SIGKILL)
    else:
        for node in sweep.nodes:
            sides = [p for p, _ in marked(sweep.mark) if _parent(p) == sweep.agent(node)]
            for side in sides:
                os.kill(side, signal.SIGKILL)


def _parent(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    "victim",
    [
        *("conductor, killed", "conductor, as Slurm stops it"),
        *("agents", "sides", "who keeps the stressors"),
    ],
)
def test_whatever_dies_no_stressor_is_left(tmp_path: Path, stress_ng: Path, victim: str) -> None:
    sweep = loaded(tmp_path / "sweep", stress_ng)
    try:
        dies(sweep, victim)
        # Before they end because no node is heard of any more.
        soon_s = stressor.SILENT_S - 2 * stressor.BEAT_S
        wait_until(lambda: not processes_of(sweep, "--taskset"), "stressors are left", soon_s)
    finally:
        sweep.kill()


# ---- the program that keeps them ----


#: The program, with another patience.
IMPATIENT = """
import sys
from railgauge.node.runners import stressor
stressor.SILENT_S = float(sys.argv[2])
sys.exit(stressor.main())
"""


def impatient(program: Path, silent_s: float) -> list[str]:
    wanted = {"program": [str(program)], "cpus": str(CPUS[0]), "at_most_s": HANGS_S}
    return [sys.executable, "-c", IMPATIENT, json.dumps(wanted), str(silent_s)]


def started(argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def keeper(**orders: Any) -> subprocess.Popen[str]:
    return started([sys.executable, "-SE", stressor.__file__, json.dumps(orders)])


def none_is_left(program: Path) -> bool:
    return not any(str(program).encode() in _command(process) for process in stressors())


def test_stressors_end_with_the_input_of_their_keeper(stress_ng: Path) -> None:
    with keeper(program=[str(stress_ng)], cpus=str(CPUS[0]), at_most_s=HANGS_S) as process:
        assert process.stdout
        try:
            assert json.loads(process.stdout.readline())["running"] is True
            # Closes its input, and waits for its end.
            last, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert json.loads(last)["exit_code"] == -signal.SIGTERM
    wait_until(lambda: none_is_left(stress_ng), "stressors are left")


def test_stressors_end_where_no_side_is_heard_of_on_an_open_connection(stress_ng: Path) -> None:
    """What a hypervisor has of a virtual machine that lost its power."""
    with started(impatient(stress_ng, 1)) as process:
        assert process.stdin and process.stdout
        assert json.loads(process.stdout.readline())["running"] is True
        wait_until(lambda: none_is_left(stress_ng), "stressors are left")
        assert not process.stdin.closed
        assert "no word for 1 s" in json.loads(process.stdout.readline())["refused"]
        assert json.loads(process.stdout.readline())["exit_code"] == -signal.SIGTERM


def test_a_side_that_measures_for_long_is_heard_of_all_the_time(
    stress_ng: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stressor, "BEAT_S", 0.1)
    monkeypatch.setenv("STRESS_CPU_S", "0.1")
    keeps = cpu_load._Stressors(impatient(stress_ng, 10))
    try:
        keeps.receive(30)
        time.sleep(13)
        assert keeps.look()["running"] is True
    finally:
        keeps.end()


def test_a_host_that_stood_still_for_long_was_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited for a word did so for the whole of that time, and whoever says it too."""
    waits, data = iter([[], [], [0], [0]]), iter([b"look\n", b""])
    monkeypatch.setattr(stressor.select, "select", lambda *_: (next(waits), [], []))
    monkeypatch.setattr(stressor.os, "read", lambda *_: next(data))
    assert list(stressor._lines()) == [stressor.LOOK]


def test_stressors_that_nothing_ends_do_so_behind_the_limits_of_the_run(
    stress_ng: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRESS_CPU_S", "0.1")
    with keeper(program=[str(stress_ng)], cpus=str(CPUS[0]), at_most_s=15) as process:
        assert process.stdin and process.stdout
        assert json.loads(process.stdout.readline())["running"] is True
        wait_until(lambda: none_is_left(stress_ng), "stressors are left")
        process.stdin.close()
        assert json.loads(process.stdout.readline())["exit_code"] == 0


def test_a_side_says_that_it_lives_several_times_before_its_stressors_end() -> None:
    assert stressor.BEAT_S * 5 < stressor.SILENT_S


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("orders", [{"cpus": "4000"}, {"but": f"0-{max(CPUS) + 500}"}])
def test_cpus_that_are_not_there_are_refused(orders: dict[str, Any]) -> None:
    with keeper(**orders) as process:
        assert process.stdout and "no such CPUs" in json.loads(process.stdout.readline())["refused"]
        assert process.wait() == 1


@given(st.sets(st.integers(0, 4096), max_size=40))
def test_cpus_are_read_as_they_are_written(cpus: set[int]) -> None:
    assert stressor.cpus_in(network_path.folded(frozenset(cpus))) == sorted(cpus)
