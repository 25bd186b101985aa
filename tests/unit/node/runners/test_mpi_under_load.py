"""An MPI program beside a transfer, for real: two processes stand for two nodes, small programs for
the tools. Only a transfer that outlasts the program counts as one that ran next to it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.checks.mpi.mpi_under_load import ended_early, stood_still
from railgauge.node.runners import mpi_under_load

SERVER, CLIENT = "127.0.0.1", "127.0.0.2"

SERVE = """\
import socket, sys
connection, _ = socket.create_server(("127.0.0.1", int(sys.argv[1]))).accept()
while connection.recv(65536): pass
"""
#: Sends 1 MiB at once, which is a transfer that flows, and then a little for so many seconds.
SEND = """\
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
connection.sendall(bytes(2**20))
until = time.monotonic() + float(sys.argv[3])
while time.monotonic() < until:
    connection.sendall(b"x"); time.sleep(0.02)
"""
MPI = "import sys, time; time.sleep(float(sys.argv[1])); print('done'); sys.exit(int(sys.argv[2]))"


@dataclasses.dataclass
class Scenario:
    """How long the transfer and the MPI program take, how that ends, and what came of it."""

    transfer_s: float = 20.0
    mpi_s: float = 0.2
    mpi_code: int = 0
    phase: str = "beside"
    server: str = SERVE
    program: str = sys.executable
    start_limit_s: float = 60
    folder: Path = Path()
    codes: list[int] = dataclasses.field(default_factory=list)

    def start(self, folder: Path) -> list[subprocess.Popen[str]]:
        self.folder = folder
        python = [sys.executable, "-S", "-E", "-c"]
        orders = {
            "rank_variable": "SLURM_PROCID",
            "tool": "tool",
            "names": {},
            "hosts": {"server": SERVER, "client": CLIENT},
            "order": {
                "start_limit_s": self.start_limit_s,
                "run_limit_s": 100,
                "budgets": [],
                "server": [*python, self.server, "{port}"],
                "client": [*python, SEND, "{server}", "{port}", str(self.transfer_s)],
                "version": [],
                "interface": "lo",
            },
            "mpi": {
                "tool": "mpi",
                "argv": [self.program, *python[1:], MPI, str(self.mpi_s), str(self.mpi_code)],
                "version": [],
                "run_limit_s": 100,
            },
        }
        (folder / "beside.json").write_text(json.dumps(orders))
        return [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "railgauge.node.runners.mpi_under_load",
                    "beside.json",
                    self.phase,
                ],
                cwd=folder,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(paths.SOURCE),
                    "SLURMD_NODENAME": node,
                    "SLURM_PROCID": str(rank),
                },
                text=True,
            )
            for rank, node in enumerate((SERVER, CLIENT))
        ]

    def line(self, role: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / f"{role}.json").read_text())
        return document


Ran = dict[str, Scenario]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """All scenarios at the same time: most of them wait, which takes no work."""
    scenarios = {
        "good": Scenario(),
        "alone": Scenario(phase="alone"),
        "no program": Scenario(phase="alone", program="osu_allreduce"),
        "transfer too short": Scenario(transfer_s=0, mpi_s=15),
        "program fails": Scenario(mpi_code=3),
        "no server": Scenario(server="raise SystemExit(1)", start_limit_s=3),
    }
    running = {
        name: scenario.start(tmp_path_factory.mktemp("beside"))
        for name, scenario in scenarios.items()
    }
    try:
        for name, processes in running.items():
            scenarios[name].codes = [process.wait(200) for process in processes]
        yield scenarios
    finally:
        for process in (p for processes in running.values() for p in processes):
            process.kill()
            process.wait()


def test_all_programs_leave_exit_lines(ran: Ran) -> None:
    roles = ("server", "client", "beside0", "beside1")
    calls = [ran["good"].line(role)["call"] for role in roles]
    assert [(call["role"], call["exit_code"]) for call in calls] == [(role, 0) for role in roles]
    assert [call["tool"] for call in calls] == ["tool", "tool", "mpi", "mpi"]
    assert ran["good"].codes == [0, 0]


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_transfer_that_outlasts_the_program_says_so(ran: Ran, role: str) -> None:
    said = ran["good"].line(role)["facts"]["beside"]
    assert said["outlasted"] is True and said["seconds"] >= 0.2


def test_the_program_starts_when_the_transfer_flows(ran: Ran) -> None:
    assert (ran["good"].folder / "flowing.json").exists()
    assert mpi_under_load.FLOWING_BYTES <= 2**20


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_transfer_that_ended_before_the_program_is_reported(ran: Ran, role: str) -> None:
    said = ran["transfer too short"].line(role)["facts"]["beside"]
    assert said["outlasted"] is False
    (failure,) = ended_early("n1", said, 2)
    assert failure.message.startswith("the transfer had ended on n1 before the MPI program did")


def test_a_program_that_fails_fails_the_job(ran: Ran) -> None:
    assert ran["program fails"].line("beside1")["call"]["exit_code"] == 3
    assert ran["program fails"].codes == [1, 1]


@pytest.mark.parametrize("role", ["beside0", "beside1"])
def test_without_a_transfer_the_program_is_not_run(ran: Ran, role: str) -> None:
    call = ran["no server"].line(role)["call"]
    assert call["exit_code"] is None
    assert call["note"] == "not started: no transfer to run with"


def test_alone_there_is_the_program_and_no_transfer(ran: Ran) -> None:
    names = {path.name for path in ran["alone"].folder.glob("*.json")}
    assert names == {"beside.json", "alone0.json", "alone1.json"}


@pytest.mark.parametrize("role", ["alone0", "alone1"])
def test_a_program_that_is_not_there_is_named(ran: Ran, role: str) -> None:
    line = ran["no program"].line(role)
    assert line["call"]["exit_code"] is None and line["facts"]["missing"] == ["osu_allreduce"]
    # Nothing comes after it, and what is known of the way must not lack for that.
    assert line["facts"]["emulation"] == "none" and line["facts"]["mtu_bytes"]
    assert ran["no program"].codes == [1, 1]


def test_a_side_that_does_not_say_that_the_transfer_lasted_is_no_pass() -> None:
    assert ended_early("n1", {"outlasted": True}, 2) == []
    assert ended_early("n1", {}, 2) != []


@pytest.mark.parametrize(
    ("sent_bytes", "stalled"), [(1_250_000_000, False), (400_000_000, False), (100_000_000, True)]
)
def test_a_transfer_that_stood_still_is_named(sent_bytes: int, stalled: bool) -> None:
    found = stood_still("n2", {"seconds": 1.0, "sent_bytes": sent_bytes}, 9.8)
    assert bool(found) is stalled
    assert all(failure.nodes == ("n2",) for failure in found)
