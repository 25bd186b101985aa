"""Drills: a patrol next to users' jobs, preempted, killed; a node that comes back from repair."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator

from railgauge import paths
from railgauge.lab import faults
from railgauge.lab.nodes import KINDS as NODE_KINDS
from railgauge.slurm import client

from .conftest import PATIENCE_S
from .gate_lab import NODES, Gate, first_result
from .test_accept import sweeps


@contextlib.contextmanager
def _started(gate: Gate, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A patrol, which does not outlive the drill."""
    process = subprocess.Popen(
        [str(paths.HOME / "bin" / "railgauge"), "patrol", "--system", "lab", *words],
        cwd=paths.HOME,
        env=gate.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def _patrol(gate: Gate, *words: str, code: int) -> str:
    with _started(gate, *words) as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, f"{process.returncode}\n{out}"
    return out


@contextlib.contextmanager
def _job_of_a_user(node: str) -> Iterator[str]:
    """A job that has the node alone."""
    options = ("--partition=ns", f"--nodelist={node}", "--exclusive", "--chdir=/tmp")
    words = ("--parsable", "--output=/dev/null", "--wrap=sleep 600")
    number = client.output("sbatch", *options, *words).strip()
    try:
        yield number
    finally:
        client.output("scancel", number)


def _is(job: str, state: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while True:
        found = client.output("squeue", "--noheader", f"--jobs={job}", "--format=%T").strip()
        if found == state:
            return
        assert time.monotonic() < deadline, f"job {job} is {found or 'gone'}, not {state}"
        time.sleep(0.2)


def _in_service(gate: Gate) -> set[str]:
    return {node for node in NODES if gate.state(node).in_service}


def during_a_job(gate: Gate) -> None:
    """One node has a job: the others are tested, and the job runs on."""
    with _job_of_a_user("n4") as job:
        _is(job, "RUNNING", PATIENCE_S)
        out = _patrol(gate, code=0)
        assert "ns: n[1-3]," in out, out
        _is(job, "RUNNING", 0)
    assert _in_service(gate) == set(NODES)


def preempted(gate: Gate) -> None:
    """A user wants a node that is under test: the job starts. Where Slurm preempted one of the
    patrol for it, that ends, and holds the guilty node if it has confirmed it; between two of its
    jobs it goes on without that node, and holds the guilty one.
    """
    faults.add(gate.lab, "rate", "n2", 0.4)
    with _started(gate) as process:
        first_result(gate)
        with _job_of_a_user("n3") as job:
            _is(job, "RUNNING", PATIENCE_S)
            out, _ = process.communicate(timeout=PATIENCE_S)
            # It did not wait for that job's end.
            _is(job, "RUNNING", 0)
    if stopped := re.search("stopped: Slurm preempted job [0-9 ]+;", out):
        assert process.returncode in (1, 2), out
    # Where it was measured with the guilty one before it was taken, that is said of it.
    assert re.search("^n3: (not tested|neither accepted nor accused): ", out, re.MULTILINE), out
    held = set(NODES) - _in_service(gate)
    assert held <= {"n2"} and (stopped or held), out


def killed(gate: Gate) -> None:
    """kill -9 in the middle: its jobs go, its nodes are in service, and the next one begins."""
    with _started(gate) as process:
        first_result(gate)
        process.kill()
    deadline = time.monotonic() + PATIENCE_S
    while gate.jobs():
        assert time.monotonic() < deadline, gate.jobs()
        time.sleep(0.5)
    assert _in_service(gate) == set(NODES)
    _patrol(gate, code=0)


def bad_node(fault: str, value: float, *checks: str) -> Callable[[Gate], None]:
    """The drill of a fault of n2's link that stays, and is shown by one of these checks."""

    def drill(gate: Gate) -> None:
        """The node alone is held; repaired, it is readmitted."""
        faults.add(gate.lab, fault, "n2", value)
        out = _patrol(gate, code=1)
        assert _in_service(gate) == {"n1", "n3", "n4"}, out
        reason = gate.state("n2").reason
        assert re.match(rf"railgauge: ({'|'.join(checks)})[ :]", reason), reason
        gate("readmit", "--nodes", "n2", "--act", code=1)
        assert gate.state("n2").drained_by_us
        faults.clear(gate.lab)
        out = gate("readmit", "--nodes", "n2", "--act")
        assert "n2: accepted, back in service" in out and _in_service(gate) == set(NODES), out

    return drill


def flap(gate: Gate) -> None:
    """A cable that is pulled for a moment: a comment at first, and held when it is so again."""
    out = _flapped(gate)
    assert "n2: comment set: " in out and _in_service(gate) == set(NODES), out
    assert gate.state("n2").comment.startswith("railgauge: "), out
    out = _flapped(gate)
    assert "n2: held: " in out and _in_service(gate) == {"n1", "n3", "n4"}, out
    out = gate("readmit", "--nodes", "n2", "--act")
    assert _in_service(gate) == set(NODES) and not gate.state("n2").comment, out


def _flapped(gate: Gate) -> str:
    """What a patrol prints that accuses, with n2's cable pulled for a moment in its sweep of pairs:
    so short that its rate does not suffer.
    """
    before = _running_sweeps(gate)
    with _started(gate) as process:
        deadline = time.monotonic() + PATIENCE_S
        while _running_sweeps(gate) <= before:
            assert time.monotonic() < deadline, "no sweep of pairs runs"
            time.sleep(0.05)
        # Its agents prepare the places, and go.
        time.sleep(1.5)
        node = gate.lab.node("n2")
        links = NODE_KINDS[node.kind]
        links.set_link(gate.lab, node, "eth0", False)
        time.sleep(0.1)
        links.set_link(gate.lab, node, "eth0", True)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, f"{process.returncode}\n{out}"
    return out


def _running_sweeps(gate: Gate) -> int:
    """How many sweeps of pairs have had all of their agents."""
    return sum(
        bool(sweep.begin) and len(sweep.joined) == len(sweep.begin["nodes"])
        for sweep in sweeps(gate.area, "Iperf2Pair")
    )


def readmit_soak(gate: Gate) -> None:
    """A virtual machine comes back beside one that a person names, over its rails, for a minute."""
    gate.lab.up(nodes=("n5", "n6"))
    gate("adopt", "--nodes", "n[5-6]", "--act")
    client.output("scontrol", "update", "nodename=n5", "state=drain", "reason=railgauge: a drill")
    words = ("--nodes", "n5", "--with", "n6", "--soak", "1m", "--act")
    process = gate.start("readmit", *words)
    try:
        out, _ = process.communicate(timeout=900)
        assert process.returncode == 0, f"{process.returncode}\n{out}"
        assert "n5: accepted, back in service" in out and gate.state("n5").in_service, out
    finally:
        process.kill()
        if gate.state("n5").drained:
            client.output("scontrol", "update", "nodename=n5", "state=resume")


DRILLS: dict[str, Callable[[Gate], None]] = {
    "patrol-beside-a-job": during_a_job,
    "patrol-preempted": preempted,
    "patrol-killed": killed,
    "patrol-bad-node": bad_node("rate", 0.4, "Iperf2Pair"),
    "patrol-bad-mtu": bad_node("mtu", 1500, "NodeState", "Iperf2Pair"),
    "patrol-lossy-link": bad_node("rail-loss", 5, "Iperf2Pair"),
    "patrol-flap": flap,
    "readmit-soak": readmit_soak,
}
