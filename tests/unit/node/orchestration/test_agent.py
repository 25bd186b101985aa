"""An agent that cannot take part says why, and what to do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.node.system import processes
from railgauge.node.system.tool_call import OUTPUT_BYTES, Call
from railgauge.node.transport.channel import Channel
from tests.unit.node.sweeping import PATIENCE_S, PYTHON, Sweep, pair_order


def run_agent(folder: Path, said: str, node: str = "127.0.0.1") -> tuple[int, str]:
    sweep = Sweep([pair_order()], connect_limit_s=1)
    sweep.pair(*sweep.nodes)
    (folder / "sweep.json").write_text(json.dumps(sweep.document()))
    ended = subprocess.run(
        [sys.executable, "-m", "railgauge.node.orchestration.agent", "sweep.json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(paths.SOURCE), "SLURMD_NODENAME": node},
        input=said,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr


def told(**changes: object) -> str:
    line = {"host": "127.0.0.1", "names": [], "port": 1, "secret": "00"}
    return json.dumps({**line, **changes}) + "\n"


def test_a_node_that_is_not_in_the_list_ends_with_its_reason(tmp_path: Path) -> None:
    code, said = run_agent(tmp_path, told(), node="n9")
    assert code == 2 and "this is n9, expected one of `nodes`" in said


@pytest.mark.parametrize("said", ["", "half a line", "{}\n", "[]\n", "no JSON\n"])
def test_an_agent_without_the_address_ends(tmp_path: Path, said: str) -> None:
    code, words = run_agent(tmp_path, said)
    assert code == 2 and words.startswith("agent on 127.0.0.1: ") and "Traceback" not in words


def test_an_agent_without_a_conductor_says_what_to_look_at(tmp_path: Path) -> None:
    code, said = run_agent(tmp_path, told())
    assert code == 1 and "port 1: no connection within 1 s" in said and "next: " in said


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The modules that an agent of pairs has loaded when it looks for its conductor."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    code, said = run_agent(folder, told())
    assert code == 1
    lines = [line for line in said.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def test_an_agent_loads_nothing_that_its_list_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = loaded(tmp_path, monkeypatch)
    assert {"asyncio", "railgauge.node.system.counters"} <= modules
    # An emulated CPU takes seconds for these together, in every job.
    others = {"_ssl", "argparse", "random", "platform", "railgauge.node.runners.file_set"}
    assert not modules & others


def test_a_conductor_with_a_name_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    code, said = run_agent(tmp_path, told(host="no-such-host.invalid", names=["127.0.0.1.invalid"]))
    assert code == 1 and "no-such-host.invalid or 127.0.0.1.invalid" in said


# ---- a call's outputs, in memory ----


def call(text: str) -> Call:
    made = Call("client", [*PYTHON, text])
    made.wait(PATIENCE_S)
    return made


def test_outputs_are_kept_apart() -> None:
    made = call("import sys; print('a'); print('b', file=sys.stderr)")
    assert (made.output("out"), made.output("err")) == ("a\n", "b\n")


def test_a_tool_that_ends_with_zeros_or_none_is_kept() -> None:
    assert call("pass").output("out") == ""


def test_what_a_tool_writes_by_the_name_of_its_output_is_kept() -> None:
    assert call("open('/dev/stdout', 'r+').write('by name\\n')").output("out") == "by name\n"


def test_a_tool_that_writes_too_much_fails_and_is_known() -> None:
    made = call("import os\nwhile True: os.write(1, b'x' * 70000)")
    assert made.is_cut and made.exit_code == 1 and len(made.output("out")) == OUTPUT_BYTES


def test_nothing_is_left_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call("print('a')")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by_kernel", [True, False])
def test_the_end_of_a_call_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by_kernel: bool
) -> None:
    if not by_kernel:

        def missing(pid: int) -> int:
            raise OSError("before Linux 5.3")

        monkeypatch.setattr(os, "pidfd_open", missing)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    made = Call("client", [*PYTHON, "import sys; open(sys.argv[1]).read()", str(fifo)])
    assert not made.ends_within(0.01)
    fifo.write_text("go")
    assert made.ends_within(100) and made.exit_code == 0


def test_a_call_may_be_bound_to_some_cpus() -> None:
    (cpu, *_) = sorted(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    made = Call("client", [*PYTHON, "import os; print(os.sched_getaffinity(0))"], cpus=[cpu])
    made.wait(PATIENCE_S)
    assert made.output("out") == f"{{{cpu}}}\n"
    assert os.sched_getaffinity(0) == before


# ---- processes ----


@pytest.mark.parametrize("listed", [True, False])
def test_children_are_found(listed: bool) -> None:
    child = subprocess.Popen([*PYTHON, "import time; time.sleep(600)"])
    try:
        found = processes.children() if listed else processes._children_of_all()
        assert child.pid in found
    finally:
        child.kill()
        child.wait()


def test_a_side_without_its_agent_is_ordered_to_end_only_once() -> None:
    """By the end of its socket, and by the signal of its parent's death, which comes a moment later
    while the side changes back what was changed.
    """
    ours, its = socket.socketpair()
    ours.close()
    before = signal.signal(signal.SIGTERM, processes.terminate)
    try:
        with its, pytest.raises(SystemExit):
            Channel(its).receive(0)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
