"""Sweeps, for real: a conductor, agents for the nodes, tools, and all that may happen to them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.node.transport import results_file
from tests.unit.node.sweeping import (
    ANSWER,
    CONNECT,
    HANGS,
    HANGS_ON,
    HANGS_S,
    PATIENCE_S,
    Sweep,
    marked,
    nodes,
    pair_order,
    solo_order,
    wait_until,
)

#: Says when it starts and ends (the clock is the machine's), so that rounds can be distinguished.
#: Waits for its partner of the ring's other side, which is of the same round.
TIMED = (
    CONNECT
    + """\
import os
print(time.time()); connection.recv(9); time.sleep(0.5)
number = int(os.environ["SLURMD_NODENAME"].rpartition(".")[2])
open(f"came{number}", "w").close()
while not os.path.exists(f"came{(number + 1) % 4 + 1}"):
    time.sleep(0.02)
print(time.time())
"""
)
#: Goes on once the test has done what it does in mid-round.
WAITS = (
    CONNECT + "import os; connection.recv(9)\nwhile not os.path.exists('done'): time.sleep(0.02)"
)
#: Leaves a process that has left it, its session and its group.
ORPHAN = """\
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
"""


def neighbours(order: dict[str, Any], count: int = 4) -> Sweep:
    """Two rounds on a ring of nodes."""
    sweep = Sweep([order], nodes=nodes(count))
    ends = [(sweep.nodes[n], sweep.nodes[(n + 1) % count]) for n in range(count)]
    indices = [sweep.pair(*pair) for pair in ends]
    sweep.rounds = [indices[::2], indices[1::2]]
    return sweep


Ran = tuple[Sweep, results_file.Raw]


# ---- a good sweep ----


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    sweep = neighbours(pair_order(server=ANSWER + "connection.recv(1)", client=TIMED))
    yield sweep, sweep.run(tmp_path_factory.mktemp("good"))


def test_every_place_is_measured(good: Ran) -> None:
    sweep, found = good
    assert (sweep.code, sweep.errors) == (0, "")
    assert {index: event["outcome"] for index, event in found.places.items()} == dict.fromkeys(
        range(4), "done"
    )
    codes = [
        side.line["call"]["exit_code"] for sides in found.sides.values() for side in sides.values()
    ]
    assert codes == [0] * 8


def test_rounds_follow_each_other(good: Ran) -> None:
    _, found = good
    times = {
        index: [float(line) for line in found.sides[index]["client"].out.split()]
        for index in range(4)
    }
    first = max(times[index][1] for index in (0, 2))
    assert all(times[index][0] > first for index in (1, 3))


def test_the_places_of_a_round_are_measured_at_once(good: Ran) -> None:
    _, found = good
    begins, ends = zip(
        *([float(line) for line in found.sides[index]["client"].out.split()] for index in (0, 2)),
        strict=True,
    )
    assert max(begins) < min(ends)


def test_what_the_record_says_of_the_sweep(good: Ran) -> None:
    sweep, found = good
    assert found.begin is not None and found.begin["nodes"] == sweep.nodes
    assert set(found.joined) == set(sweep.nodes) and found.lost == {}
    assert found.end is not None and found.end["why"] == "" and found.strangers is None
    for event in found.rounds.values():
        assert 0.5 <= event["tool_seconds"] <= event["seconds"]


def test_counters_of_both_sides_run_before_the_clients_tool_starts(good: Ran) -> None:
    _, found = good
    for sides in found.sides.values():
        first, last = map(float, sides["client"].out.split())
        watched = [
            sides[role].line["facts"]["counters"]["seconds"] for role in ("server", "client")
        ]
        assert min(watched) >= last - first


def test_no_process_is_left(good: Ran) -> None:
    assert good[0].left_running() == []


def test_the_launcher_is_set_to_go_on_without_some_nodes(good: Ran) -> None:
    words = (good[0].folder / "srun.args").read_text().splitlines()
    assert {"--no-kill", "--nodes=4", "--ntasks=4", "--kill-on-bad-exit=0", "--wait=0"} <= set(
        words
    )
    assert words[-3:] == ["-m", "railgauge.node.orchestration.agent", "sweep.json"]


def test_the_secret_is_in_no_argument_environment_or_file(tmp_path: Path) -> None:
    sweep = Sweep([pair_order(client=CONNECT + "connection.recv(9); time.sleep(2)")])
    sweep.pair(*sweep.nodes)
    sweep.start(tmp_path)
    try:
        sweep.agent(sweep.nodes[0])
        seen = []
        while not sweep.has_ended():
            for process, command in marked(sweep.mark):
                try:
                    seen.append(command.encode())
                    seen.append(Path(f"/proc/{process}/environ").read_bytes())
                except OSError:
                    continue
            time.sleep(0.1)
    finally:
        sweep.kill()
    # The stand-in for srun has kept it for this test.
    secret = (tmp_path / "secret").read_text()
    assert len(secret) == 64
    seen += [path.read_bytes() for path in (tmp_path / "job").iterdir()]
    assert not any(secret.encode() in text for text in seen)


# ---- what happens to nodes ----


def test_a_node_that_dies_in_mid_round_costs_that_round_and_is_named(tmp_path: Path) -> None:
    sweep = neighbours(pair_order(client=WAITS))
    sweep.start(tmp_path)
    try:
        victim = sweep.nodes[1]
        wait_until(lambda: "exists('done')" in str(sweep.left_running()), "no tool runs")
        # All that runs on that node; the conductor's own name is another one.
        for process, _ in marked(sweep.mark, f"SLURMD_NODENAME={victim}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        (sweep.folder / "job" / "done").touch()
        sweep.wait()
    finally:
        sweep.kill()
    found = sweep.raw()
    outcomes = {index: event["outcome"] for index, event in found.places.items()}
    assert outcomes == {0: "lost", 1: "lost", 2: "done", 3: "done"}
    assert list(found.lost) == [victim] and victim in found.places[1]["why"]
    assert sweep.code == 0 and sweep.left_running() == []


def test_a_node_that_never_connects_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    sweep = neighbours(pair_order())
    sweep.present, sweep.connect_limit_s = sweep.nodes[:3], 40
    found = sweep.run(tmp_path)
    assert found.lost == {sweep.nodes[3]: "its agent did not connect within 40 s"}
    outcomes = {index: event["outcome"] for index, event in found.places.items()}
    assert outcomes == {0: "done", 1: "done", 2: "lost", 3: "lost"}
    assert sweep.code == 0


def test_agents_are_started_again_without_a_node_that_the_launcher_does_not_reach(
    tmp_path: Path,
) -> None:
    sweep = neighbours(pair_order())
    sweep.unreached = sweep.nodes[3:]
    found = sweep.run(tmp_path)
    assert list(found.lost) == sweep.nodes[3:] and "No route to host" in found.lost[sweep.nodes[3]]
    outcomes = {index: event["outcome"] for index, event in found.places.items()}
    assert outcomes == {0: "done", 1: "done", 2: "lost", 3: "lost"}
    assert sweep.code == 0 and sweep.left_running() == []


def test_a_job_that_got_fewer_nodes_measures_the_others_at_once(tmp_path: Path) -> None:
    sweep = neighbours(pair_order())
    got, commands = sweep.nodes[:3], tmp_path / "slurm"
    commands.mkdir()
    (commands / "scontrol").write_text(f"#!/bin/sh\nprintf '%s\\n' {' '.join(got)}\n")
    (commands / "scontrol").chmod(0o755)
    path = f"{commands}:{tmp_path / 'commands'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    sweep.environment = {"PATH": path, "SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "some"}
    # Whoever waited for the fourth node would wait as long.
    sweep.connect_limit_s = 600
    found = sweep.run(tmp_path)
    assert found.lost == {sweep.nodes[3]: results_file.NOT_OURS}
    outcomes = {index: event["outcome"] for index, event in found.places.items()}
    assert outcomes == {0: "done", 1: "done", 2: "lost", 3: "lost"}
    assert sweep.code == 0 and sweep.seconds < sweep.connect_limit_s


def short(folder: Path, margin_s: float) -> dict[str, str]:
    """An environment in which the conductor's own limits, and no others, are short."""
    lines = [
        "from railgauge.node.orchestration import rounds, sweep_file as sweep",
        "rounds.ANSWER_S, rounds.TICK_S = 15.0, 0.1",
        f"sweep.MARGIN_S = {margin_s}",
    ]
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("\n".join(lines))
    return {"PYTHONPATH": f"{folder}:{paths.SOURCE}"}


def test_an_agent_that_is_stopped_costs_one_round_and_is_named(tmp_path: Path) -> None:
    sweep = neighbours(pair_order(client=WAITS, run_limit_s=300))
    sweep.environment = short(tmp_path / "short", margin_s=1)
    sweep.start(tmp_path / "sweep")
    try:
        wait_until(lambda: "exists('done')" in str(sweep.left_running()), "no tool runs")
        os.kill(sweep.agent(sweep.nodes[1]), signal.SIGSTOP)
        (sweep.folder / "job" / "done").touch()
        sweep.wait()
        found = sweep.raw()
    finally:
        sweep.kill()
    assert list(found.lost) == [sweep.nodes[1]]
    outcomes = {index: event["outcome"] for index, event in found.places.items()}
    assert outcomes == {0: "lost", 1: "lost", 2: "done", 3: "done"}
    assert sweep.code == 0


GARBAGE = """\
import json, socket, sys
orders = json.loads(sys.stdin.readline())
sys.path.insert(0, {source!r})
import asyncio
from railgauge.node.orchestration import agent, sweep_file as sweep
list = sweep.read(sys.argv[1])
async def main():
    over = asyncio.get_running_loop().create_future()
    class Bad(agent.Agent):
        def _prepare(self, index, role):
            self.send({message})
    make = lambda: Bad(list, {node!r}, bytes.fromhex(orders["secret"]), None, over.set_result)
    await asyncio.get_running_loop().create_connection(make, "127.0.0.1", orders["port"])
    await over
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "message",
    [
        {"do": "side", "place": 0, "from": "client", "role": "client", "line": 9},
        {"do": "prepared", "place": 0, "from": "server"},
        {"do": "ended", "place": 99, "from": "client"},
        {"do": "mail", "place": 0, "from": "client", "name": 7},
        {"do": "everything", "place": 0, "from": "client"},
        {},
    ],
)
def test_an_agent_that_answers_garbage_is_named(tmp_path: Path, message: dict[str, Any]) -> None:
    sweep = neighbours(pair_order())
    bad = sweep.nodes[1]
    program = tmp_path / "garbage.py"
    program.write_text(GARBAGE.format(source=str(paths.SOURCE), node=bad, message=message))
    sweep.instead = {bad: [sys.executable, str(program), "sweep.json"]}
    found = sweep.run(tmp_path)
    assert list(found.lost) == [bad]
    outcomes = {index: event["outcome"] for index, event in found.places.items()}
    assert outcomes == {0: "lost", 1: "lost", 2: "done", 3: "done"}


# ---- what tools do ----


def test_a_place_that_is_late_is_ended_with_all_of_its_processes(tmp_path: Path) -> None:
    """Here the conductor's limit of the first, 2 s, is shorter than the side's own."""
    stays = f"import subprocess, time\nsubprocess.Popen(['sleep', '{HANGS_S}'])\n{HANGS_ON}"
    good = solo_order("print('good')", run_limit_s=PATIENCE_S + 28)
    sweep = Sweep([solo_order(stays, run_limit_s=30), good], nodes=nodes(1))
    sweep.places = [
        ("single_node", 0, {"node": sweep.nodes[0]}),
        ("single_node", 1, {"node": sweep.nodes[0]}),
    ]
    sweep.environment = short(tmp_path / "short", margin_s=-28)
    found = sweep.run(tmp_path / "sweep")
    assert found.places[0]["outcome"] == "late" and 0 not in found.sides
    assert re.fullmatch(r"still running after \d+ s: node on 127.0.0.1", found.places[0]["why"])
    assert found.places[1]["outcome"] == "done" and found.sides[1]["rank0"].out == "good\n"
    assert sweep.left_running() == [] and sweep.seconds < PATIENCE_S


def test_a_server_that_never_listens_costs_its_place_alone(tmp_path: Path) -> None:
    sweep = Sweep(
        [pair_order(server=f"import time; {HANGS_ON}", start_limit_s=1), pair_order()],
        nodes=nodes(4),
    )
    sweep.pair(*sweep.nodes[:2], order=0)
    sweep.pair(*sweep.nodes[2:], order=1)
    sweep.rounds = [[0, 1]]
    found = sweep.run(tmp_path)
    assert found.sides[0]["server"].line["call"]["note"] == "did not listen within 1 s"
    assert found.sides[1]["client"].line["call"]["exit_code"] == 0


def test_orphans_of_a_tool_end_with_its_place(tmp_path: Path) -> None:
    sweep = Sweep([solo_order(ORPHAN), solo_order("time = __import__('time'); time.sleep(1.5)")])
    node = sweep.nodes[0]
    sweep.places = [("single_node", 0, {"node": node}), ("single_node", 1, {"node": node})]
    sweep.start(tmp_path)
    try:
        record = sweep.folder / "job" / results_file.FILE
        wait_until(lambda: record.exists() and 0 in sweep.raw().places, "the place goes on")
        assert not any("os.setsid()" in command for command in sweep.left_running())
        sweep.wait()
    finally:
        sweep.kill()
    assert sweep.code == 0


def test_a_runaways_output_is_cut_and_said_so(tmp_path: Path) -> None:
    sweep = Sweep([solo_order("while True: print('x' * 65536)")], nodes=nodes(1))
    sweep.places = [("single_node", 0, {"node": sweep.nodes[0]})]
    side = sweep.run(tmp_path).sides[0]["rank0"]
    assert len(side.out) == 4 * 2**20
    assert side.line["call"]["note"] == "wrote more than 4194304 bytes"


def test_a_result_is_kept_without_the_environment(tmp_path: Path) -> None:
    text = (
        "import sys; open(sys.argv[1] + '/r.json', 'w').write('{\"env\": {\"KEY\": 1}, \"a\": 2}')"
    )
    sweep = Sweep([solo_order(text, result="r.json")], nodes=nodes(1))
    sweep.places = [("single_node", 0, {"node": sweep.nodes[0]})]
    side = sweep.run(tmp_path).sides[0]["rank0"]
    assert json.loads(side.files["r.json"]) == {"a": 2}
    assert side.line["call"]["role"] == "rank0" and side.line["call"]["rank"] == 0


def test_a_side_that_breaks_is_refused_with_its_reason(tmp_path: Path) -> None:
    sweep = Sweep([{**pair_order(), "client": []}])
    sweep.pair(*sweep.nodes)
    found = sweep.run(tmp_path)
    assert found.places[0]["outcome"] == "refused" and "IndexError" in found.places[0]["why"]


# ---- what happens to the conductor ----


def hanging(folder: Path) -> Sweep:
    """A sweep in mid-round, with one round behind it."""
    sweep = Sweep([pair_order(), pair_order(client=HANGS, run_limit_s=HANGS_S)])
    sweep.pair(*sweep.nodes, order=0)
    sweep.pair(*sweep.nodes, order=1)
    sweep.start(folder)
    wait_until(lambda: HANGS_ON in str(sweep.left_running()), "no tool runs")
    return sweep


def sent(sweep: Sweep, number: signal.Signals) -> results_file.Raw:
    """What the sweep left after its conductor got a signal, which leaves no process."""
    try:
        assert sweep.process is not None
        sweep.process.send_signal(number)
        sweep.wait()
        wait_until(lambda: not sweep.left_running(), "processes are left")
        return sweep.raw()
    finally:
        sweep.kill()


def test_a_conductor_that_slurm_stops_ends_all_and_says_so(tmp_path: Path) -> None:
    sweep = hanging(tmp_path)
    found = sent(sweep, signal.SIGTERM)
    assert sweep.code == 143
    assert found.end is not None and found.end["why"] == "SIGTERM"
    assert found.places[0]["outcome"] == "done" and set(found.sides[0]) == {"server", "client"}


def test_a_conductor_that_is_killed_leaves_whole_lines_and_no_process(tmp_path: Path) -> None:
    found = sent(hanging(tmp_path), signal.SIGKILL)
    assert found.end is None and set(found.sides[0]) == {"server", "client"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_ends_takes_its_tools_with_it(tmp_path: Path, number: signal.Signals) -> None:
    sweep = hanging(tmp_path)
    try:
        os.kill(sweep.agent(sweep.nodes[1]), number)
        wait_until(lambda: HANGS_ON not in str(sweep.left_running()), "the tool goes on")
        sweep.wait()
    finally:
        sweep.kill()
    assert list(sweep.raw().lost) == [sweep.nodes[1]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": [[0, 0]]}, "its rounds do not have every place once"),
        ({"orders": []}, "place 0 has order 0, and there are 0"),
        ({"nodes": ["n7"]}, "place 0 is on 127.0.0.1, 127.0.0.2, not in `nodes`"),
        ({"places": 7}, "not a sweep"),
    ],
)
def test_a_list_that_cannot_be_meant_starts_nothing(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    sweep = Sweep([pair_order()])
    sweep.pair(*sweep.nodes)
    (tmp_path / "sweep.json").write_text(json.dumps({**sweep.document(), **change}))
    code, said = run_conductor(tmp_path)
    assert code == 2 and words in said
    assert not (tmp_path / results_file.FILE).exists()


def run_conductor(folder: Path, *before: str) -> tuple[int, str]:
    ended = subprocess.run(
        [*before, sys.executable, "-m", "railgauge.node.orchestration.conductor", "sweep.json"],
        cwd=folder,
        env={"PATH": "/nowhere", "PYTHONPATH": str(paths.SOURCE), "SLURMD_NODENAME": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr


def test_without_slurm_the_conductor_says_what_to_do(tmp_path: Path) -> None:
    sweep = Sweep([pair_order()])
    sweep.pair(*sweep.nodes)
    (tmp_path / "sweep.json").write_text(json.dumps(sweep.document()))
    code, said = run_conductor(tmp_path)
    assert code == 1 and "srun" in said and "next: " in said


def test_a_limit_that_is_too_low_is_named_with_what_to_do(tmp_path: Path) -> None:
    sweep = Sweep([pair_order()])
    sweep.pair(*sweep.nodes)
    (tmp_path / "sweep.json").write_text(json.dumps(sweep.document()))
    code, said = run_conductor(tmp_path, "/usr/bin/prlimit", "--nofile=100:100")
    assert code == 2
    assert "at most 100 open files" in said and "expected 602 or more" in said and "next: " in said


def test_a_limit_that_can_be_raised_is(tmp_path: Path) -> None:
    sweep = neighbours(pair_order())
    sweep.before = ["/usr/bin/prlimit", "--nofile=100:4096"]
    found = sweep.run(tmp_path)
    assert [event["outcome"] for event in found.places.values()] == ["done"] * 4


# ---- with a real tool ----


def test_iperf2_measures_all_neighbours(tmp_path: Path) -> None:
    order = {
        "start_limit_s": 20,
        "run_limit_s": 20,
        "budgets": [],
        "server": ["iperf", "-s", "-p", "{port}", "-P", "1", "-e", "-f", "k"],
        "client": ["iperf", "-c", "127.0.0.1", "-p", "{port}", "-t", "1", "-e", "-f", "k"],
        "version": ["iperf", "-v"],
    }
    sweep = neighbours(order)
    found = sweep.run(tmp_path)
    for sides in found.sides.values():
        assert all("bits/sec" in sides[role].out for role in ("server", "client"))


def test_a_place_on_tools_that_listen_and_answer_adds_little(good: Ran) -> None:
    """A figure is the bench's; this holds that nothing sleeps between two places."""
    _, found = good
    added = [event["seconds"] - event["tool_seconds"] for event in found.rounds.values()]
    assert max(added) < 5
