"""A gate of the lab's namespace nodes for the drills: its commands, its nodes, and who watches.

The length of a lab node's transmit queue stands for its firmware: it is watched like one, and does
no harm.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from railgauge import paths
from railgauge.acceptance import session
from railgauge.gate import journal, lease
from railgauge.lab import faults
from railgauge.lab.cluster import Lab
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode

from .conftest import PATIENCE_S

#: What stands for firmware: the field, before and after an `update`.
FIELD, BEFORE, AFTER = "net/eth0/transmit_queue_frames", 1000, 900
NODES = ("n1", "n2", "n3", "n4")


@dataclasses.dataclass
class Gate:
    """The gate of the lab's namespace nodes, with its results in a folder of its own."""

    lab: Lab
    area: Path
    #: what was seen open without being accepted
    breaches: list[str] = dataclasses.field(default_factory=list)
    #: the nodes that must not be open until they are accepted
    watching: set[str] = dataclasses.field(default_factory=set)

    def command(self, *words: str) -> list[str]:
        return [str(paths.HOME / "bin" / "railgauge"), "gate", *words, "--system", "lab"]

    def environment(self) -> dict[str, str]:
        init = self.lab.init
        assert init is not None
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "RAILGAUGE_"))}
        return {
            **clean,
            "RAILGAUGE_RESULTS": str(self.area),
            "RAILGAUGE_LAB_DIR": str(paths.lab_folder()),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words),
            cwd=paths.HOME,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, *words: str, code: int | None = 0) -> str:
        """What `railgauge gate ...` prints; it must end with `code`."""
        process = self.start(*words)
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert code is None or process.returncode == code, f"{words}: {process.returncode}\n{out}"
        return out

    def accept(self, *words: str, code: int, references: Path | None = None) -> dict[str, Any]:
        """The verdict of `railgauge accept` on the namespace nodes; it must end with `code`."""
        command = [str(paths.HOME / "bin" / "railgauge"), "accept", "--system", "lab", "--json"]
        own = {"RAILGAUGE_REFERENCES": str(references)} if references else {}
        done = subprocess.run(
            [*command, "--nodes", "n[1-4]", *words],
            cwd=paths.HOME,
            env={**self.environment(), **own},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        verdict: dict[str, Any] = json.loads(done.stdout)
        return verdict

    def killed_after(self, step: str, lease_s: int = lease.LEASE_S) -> None:
        """`gate run --act`, killed after that step of its."""
        program = [sys.executable, "-m", "tests.lab.gate_killed", step, str(lease_s)]
        words = ["gate", "run", "--system", "lab", "--act"]
        init = self.lab.init
        assert init is not None
        done = subprocess.run(
            self.lab.in_lab_mounts(*program, *words),
            cwd=paths.HOME,
            env={**self.environment(), session.MOUNTS_VARIABLE: str(init.pid)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), done.stdout

    # --- the nodes ---

    def on(self, node: str, *command: str) -> str:
        done = subprocess.run(
            self.lab.enter(node, *command), stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    def update(self, node: str) -> None:
        """As an update of firmware: from now on the node must be held or accepted."""
        self.on(node, "ip", "link", "set", "eth0", "txqueuelen", str(AFTER))

    def hold(self, node: str, code: int = 1) -> str:
        """As cron does, on the node itself."""
        program = ["python3", "-m", "railgauge.node.gate", "hold", "--act", "--store"]
        words = ["env", f"PYTHONPATH={paths.SOURCE}", *program, str(self.store), "--node", node]
        done = subprocess.run(
            self.lab.enter(node, *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        self.watching.add(node)
        return done.stdout

    @property
    def store(self) -> Path:
        return self.area / "gate" / "lab"

    def state(self, node: str) -> SlurmNode:
        return slurm_nodes.show([node])[node]

    def accepted(self, node: str) -> Any:
        return json.loads((self.store / "nodes" / f"{node}.json").read_text())

    def is_accepted(self, node: str) -> bool:
        """Whether the store has the node as it is now."""
        with contextlib.suppress(OSError, ValueError):
            fields = self.accepted(node)["fields"]
            return bool(fields[FIELD] == AFTER)
        return False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look all the time whether a node is open that must not be."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(0.1):
                # Slurm shows all nodes where none is named.
                if not self.watching:
                    continue
                # First the state: what is accepted afterwards may have opened since.
                with contextlib.suppress(SlurmError):
                    states = slurm_nodes.show(sorted(self.watching))
                    for node in [n for n, state in states.items() if state.in_service]:
                        if not self.is_accepted(node):
                            self.breaches.append(f"{node} is open: {states[node].state}")

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def jobs(self) -> str:
        return client.output("squeue", "--noheader", "--states=PD,R")

    def nothing_left(self) -> None:
        shown = client.output("scontrol", "show", "reservation", "--oneliner")
        assert "railgauge_" not in shown, shown
        assert not self.jobs(), self.jobs()
        assert not self.breaches, self.breaches


@contextlib.contextmanager
def prepared(lab: Lab, area: Path) -> Iterator[Gate]:
    """All namespace nodes adopted as they are; afterwards as before."""
    gate = Gate(lab, area)
    os.environ["PATH"] = os.pathsep.join([str(paths.lab_folder() / "bin"), os.environ["PATH"]])
    try:
        gate("adopt", "--nodes", "n[1-4]", "--act")
        with gate.watched():
            yield gate
    finally:
        # A drained node is none that `faults.clear` waits for.
        shown = client.output("scontrol", "show", "reservation", "--oneliner").splitlines()
        for line in shown:
            if line.startswith("ReservationName=railgauge_"):
                delete_reservation(line.split()[0].partition("=")[2])
        for node, state in slurm_nodes.show(NODES).items():
            if state.drained:
                # By whomever.
                client.output("scontrol", "update", f"nodename={node}", "state=resume")
        faults.clear(lab)
        for node in NODES:
            gate.on(node, "ip", "link", "set", "eth0", "txqueuelen", str(BEFORE))
        lab.up(nodes=[node.name for node in lab.in_use()])
        lab.wait_until_idle()
        _wait_until_completed()


def delete_reservation(name: str) -> None:
    """Slurm deletes none in which a job runs: between two jobs, then."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.output("scontrol", "delete", f"reservationname={name}")
            return
        except SlurmError as error:
            if "in use" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _wait_until_completed() -> None:
    """A job of a node that lost power is `completing` until its slurmd has answered for it."""
    deadline = time.monotonic() + PATIENCE_S
    while left := client.output("squeue", "--noheader", "--states=CG"):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def first_result(gate: Gate) -> Path:
    """The first record of a case that has come to its end, which is written behind it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for end in sorted(gate.area.glob("campaigns/*/ended/*.json")):
            campaign, stage = end.parent.parent, json.loads(end.read_text())["stage"]
            record = campaign / stage / "railgauge.jsonl"
            if record.exists():
                return record
        time.sleep(0.1)
    raise AssertionError("no case came to a result")


def killed_at_first_result(gate: Gate) -> tuple[Path, bytes]:
    """n2 is held, and its run killed once a case has ended: the case's record, and what it says."""
    gate.update("n2")
    assert "held" in gate.hold("n2")
    assert gate.state("n2").reason.startswith(f"railgauge: firmware changed: {FIELD}")
    process = gate.start("run", "--act")
    first = first_result(gate)
    kept = first.read_bytes()
    process.kill()
    process.wait()
    return first, kept


def in_update(gate: Gate, process: subprocess.Popen[str]) -> journal.Roll:
    """The rolling update once its first command runs; its nodes are watched from here on."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        roll = journal.rolling("lab")
        if roll is not None and roll.phase == "update":
            gate.watching |= set(roll.batch)
            return roll
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    raise AssertionError("no update was begun")


@contextlib.contextmanager
def full(gate: Gate) -> Iterator[None]:
    """No room below the drill's own results."""
    folder = gate.area / "campaigns"
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4096", "railgauge-drill", str(folder)]
    subprocess.run(gate.lab.in_lab_mounts(*mount), check=True)
    try:
        yield
    finally:
        subprocess.run(gate.lab.in_lab_mounts("umount", "--lazy", str(folder)), check=True)
