"""Sweeps on this machine, for real: a stand-in for `srun` starts the agents of several "nodes".

Names that are addresses need no resolver: 127.0.0.1, 127.0.0.2, ... are all this machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from railgauge import paths
from railgauge.node.orchestration import worker
from railgauge.node.orders.places import ClientServerOrder, PlaceOrder
from railgauge.node.transport import results_file

#: Limit of a wait for what comes within seconds: next to labs, on a host that stands still now and
#: then, it takes longer.
PATIENCE_S = 200

#: How long a tool that hangs would stay if nobody ended it: far longer than anybody waits.
HANGS_S = 600

#: Starts the command behind its options once for each node of NODES, with its own standard input.
SRUN = """\
#!{python} -SE
import json, os, re, signal, subprocess, sys
words = sys.argv[1:]
said = sys.stdin.buffer.read()
here = os.environ["SWEEP"]
with open(here + "/secret", "w") as kept:
    kept.write(json.loads(said)["secret"])
instead = json.loads(os.environ["INSTEAD"])
with open(here + "/srun.args", "w") as kept:
    kept.write(chr(10).join(words))
command = words[words.index("env"):]
started = []
there = os.environ["NODES"].split(",")
for word in words:
    if word.startswith("--nodelist="):
        ranges = re.findall(r"([^,=\\[]+)(?:\\[([0-9]+)-([0-9]+)\\])?(?:,|$)", word)
        there = []
        for prefix, first, last in ranges:
            numbers = range(int(first), int(last) + 1) if first else [""]
            there += [prefix + str(number) for number in numbers]
unreached = [node for node in there if node in os.environ["UNREACHED"].split(",")]
for node in there:
    if node in unreached:
        continue
    environment = {**os.environ, "SLURMD_NODENAME": node}
    one = subprocess.Popen(instead.get(node, command), stdin=subprocess.PIPE, env=environment)
    with open(here + "/agent." + node, "w") as kept:
        kept.write(str(one.pid))
    started.append(one)
signal.signal(signal.SIGTERM, lambda *_: [one.kill() for one in started])
if unreached:
    # What Slurm's does: nobody is started for good where one node is not reached.
    for node in unreached:
        print(f"srun: error: Task launch for StepId=5.0 failed on node {node}: No route to host",
              file=sys.stderr)
    for one in started:
        one.kill()
        one.wait()
    sys.exit(1)
for one in started:
    try:
        one.stdin.write(said)
        one.stdin.close()
    except BrokenPipeError:
        pass
sys.exit(max(one.wait() for one in started))
"""

PYTHON = [sys.executable, "-S", "-E", "-c"]

LISTEN = """\
import os, signal, socket, sys, time
signal.alarm(600)  # if the runner fails us
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
"""
ANSWER = LISTEN + "connection, _ = listening.accept(); connection.sendall(b'hello')\n"
CONNECT = """\
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 100)
"""
#: A client that never ends, and what its command line has.
HANGS_ON = f"time.sleep({HANGS_S})"
HANGS = CONNECT + HANGS_ON
ASK = CONNECT + "print('got', connection.recv(9)); print('aside', file=sys.stderr)"
VERSION = "print('tool 1.0'); print('more')"


def pair_order(server: str = ANSWER, client: str = ASK, **more: Any) -> dict[str, Any]:
    """An order of the program `client_server`, with small programs for the tools."""
    return {
        "start_limit_s": PATIENCE_S,
        "run_limit_s": PATIENCE_S,
        "budgets": [],
        "server": [*PYTHON, server, "{port}"],
        "client": [*PYTHON, client, "{server}", "{port}"],
        "version": [*PYTHON, VERSION],
        **more,
    }


def solo_order(text: str, **more: Any) -> dict[str, Any]:
    return {
        "argv": [*PYTHON, text, "{scratch}"],
        "version": [*PYTHON, VERSION],
        "run_limit_s": PATIENCE_S,
        **more,
    }


def nodes(count: int) -> list[str]:
    return [f"127.0.0.{number + 1}" for number in range(count)]


@dataclasses.dataclass
class Sweep:
    """A sweep: its list, its folder, and what came of it."""

    orders: list[dict[str, Any]]
    #: (program, order, node of each role) of each place
    places: list[tuple[str, int, dict[str, str]]] = dataclasses.field(default_factory=list)
    rounds: list[list[int]] = dataclasses.field(default_factory=list)
    nodes: list[str] = dataclasses.field(default_factory=lambda: nodes(2))
    #: those whose agents are started; all if none
    present: list[str] = dataclasses.field(default_factory=list)
    connect_limit_s: float = PATIENCE_S
    tool: str = "tool"
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    #: those that the launcher does not reach
    unreached: list[str] = dataclasses.field(default_factory=list)
    #: what runs in place of a node's agent, and what stands before the conductor's command
    instead: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    before: list[str] = dataclasses.field(default_factory=list)
    folder: Path = Path()
    process: subprocess.Popen[str] | None = None
    mark: str = dataclasses.field(default_factory=lambda: f"RAILGAUGE_TEST={uuid.uuid4().hex}")
    code: int | None = None
    errors: str = ""
    #: when it was seen to have ended, since its start
    seconds: float = 0.0
    _began: float = 0.0

    def pair(self, server: str, client: str, order: int = 0) -> int:
        """One more place; its number."""
        self.places.append(("client_server", order, {"server": server, "client": client}))
        return len(self.places) - 1

    def document(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "nodes": self.nodes,
            "names": {},
            "launch": [],
            "rounds": self.rounds or [[index] for index in range(len(self.places))],
            "places": [
                {"name": ":".join(roles.values()), "program": program, "roles": roles, "order": n}
                for program, n, roles in self.places
            ],
            "orders": self.orders,
            "connect_limit_s": self.connect_limit_s,
        }

    def start(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        commands = folder / "commands"
        commands.mkdir()
        srun = commands / "srun"
        srun.write_text(SRUN.replace("{python}", os.path.realpath(sys.executable)))
        srun.chmod(0o755)
        (folder / "job").mkdir(exist_ok=True)
        (folder / "job" / "sweep.json").write_text(json.dumps(self.document()))
        name, value = self.mark.split("=")
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            [
                *self.before,
                sys.executable,
                "-m",
                "railgauge.node.orchestration.conductor",
                "sweep.json",
            ],
            cwd=folder / "job",
            env={
                "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(paths.SOURCE),
                "SLURMD_NODENAME": self.nodes[0],
                "NODES": ",".join(self.present or self.nodes),
                "UNREACHED": ",".join(self.unreached),
                "INSTEAD": json.dumps(self.instead),
                "SWEEP": str(folder),
                name: value,
                **self.environment,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def has_ended(self) -> bool:
        assert self.process is not None
        if self.code is None and self.process.poll() is not None:
            self.seconds = time.monotonic() - self._began
            self.code = self.process.returncode
            self.errors = self.process.communicate()[1]
        return self.code is not None

    def wait(self, limit_s: float = PATIENCE_S) -> None:
        wait_until(self.has_ended, "the conductor goes on", limit_s)

    def run(self, folder: Path, limit_s: float = PATIENCE_S) -> results_file.Raw:
        self.start(folder)
        try:
            self.wait(limit_s)
        finally:
            self.kill()
        return self.raw()

    def raw(self) -> results_file.Raw:
        return results_file.read(self.folder / "job" / results_file.FILE)

    def agent(self, node: str) -> int:
        """The process id of a node's agent, once it is there."""
        file = self.folder / f"agent.{node}"
        wait_until(lambda: file.exists() and file.read_text(), f"no agent on {node}")
        return int(file.read_text())

    def left_running(self) -> list[str]:
        """The command lines of processes that it has started and that still run."""
        return [command for _, command in marked(self.mark)]

    def kill(self) -> None:
        """All of it, whatever has become of it."""
        assert self.process is not None
        self.process.kill()
        # First the others, which have its standard error too; one may start another meanwhile.
        while left := [process for process, _ in marked(self.mark)]:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.02)
        if self.code is None:
            self.process.communicate()


def pair_of(order: dict[str, Any], server: str, client: str) -> PlaceOrder[ClientServerOrder]:
    """What both sides of a place have of such an order."""
    hosts = {"server": server, "client": client}
    return PlaceOrder("tool", {}, hosts, ClientServerOrder.read(order))


def both_sides(
    pair: PlaceOrder[ClientServerOrder], limit_s: float = PATIENCE_S
) -> list[dict[str, Any]]:
    """The exit lines of both sides of a pair, forked from here, with mail brought to and fro."""
    ends: dict[str, socket.socket] = {}
    processes = []
    for role in ("server", "client"):
        process, ends[role] = worker.start("client_server", pair, role)
        processes.append(process)
    left: list[dict[str, Any]] = []
    rest = dict.fromkeys(ends, b"")
    try:
        for end in ends.values():
            _send(end, {"do": "go"})
        while ends:
            ready, _, _ = select.select(list(ends.values()), [], [], limit_s)
            assert ready, "the sides go on"
            for role, end in [(role, end) for role, end in ends.items() if end in ready]:
                try:
                    data = end.recv(1 << 20)
                except ConnectionResetError:
                    # It has ended with mail that it did not wait for.
                    data = b""
                *lines, rest[role] = (rest[role] + data).split(b"\n")
                other = next((ends[name] for name in ends if name != role), None)
                for message in map(json.loads, lines):
                    if message["do"] == "side":
                        left.append(message)
                    elif message["do"] == "mail" and other is not None:
                        _send(other, message)
                if not data:
                    ends.pop(role).close()
                    if other is not None:
                        _send(other, {"do": "other_ended"})
    finally:
        for process in processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    return left


def _send(end: socket.socket, message: dict[str, Any]) -> None:
    # It may have ended since.
    with contextlib.suppress(BrokenPipeError):
        end.sendall(json.dumps(message).encode() + b"\n")


def marked(*marks: str) -> Iterator[tuple[int, str]]:
    """Processes with all of that in their environment, and their command lines."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            if all(mark.encode() in environment for mark in marks):
                command = (process / "cmdline").read_text().replace("\0", " ")
                yield int(process.name), command
        except OSError:
            continue


def wait_until(condition: Callable[[], object], what: str, limit_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def run_all(sweeps: Sequence[Sweep], folders: Sequence[Path], limit_s: float = PATIENCE_S) -> None:
    """All of them at the same time: most wait for a limit, which takes no work."""
    try:
        for sweep, folder in zip(sweeps, folders, strict=True):
            sweep.start(folder)
        deadline = time.monotonic() + limit_s
        running = list(sweeps)
        while running and time.monotonic() < deadline:
            time.sleep(0.02)
            running = [sweep for sweep in running if not sweep.has_ended()]
    finally:
        for sweep in sweeps:
            if not sweep.has_ended():
                sweep.kill()
