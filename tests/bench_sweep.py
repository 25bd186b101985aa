"""Figures of the engine of sweeps: agents by the thousand, and what a place costs next to its tool.

Simulated agents are tasks of one process with the agent's own protocol code, over real sockets;
where an agent would fork, they sleep. Both they and the conductor are on this machine. Next to them
stands a bare exchange of as many connections: what this machine takes for it at this hour.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from railgauge.node.orchestration import agent, sweep_file  # noqa: E402
from railgauge.node.runners import client_server  # noqa: E402
from railgauge.node.system import rlimits  # noqa: E402
from railgauge.node.transport import protocol, results_file  # noqa: E402

TOOL_S = 3.0
#: so many connect in the same moment
_AT_ONCE = 256
ROUNDS = 5

#: What a healthy side prints, and what it says of itself: 2.5 kB together.
_OUTPUT = "".join(
    f"[  {number}] {number:.4f}-{number + 1:.4f} sec  1.10 GBytes  9.41 Gbits/sec\n"
    for number in range(8)
)
_FACTS = {
    "boot_id": "0" * 36,
    "counters": {
        "counters": {f"net/eth{n}/{way}_bytes": 2**33 for n in range(9) for way in ("rx", "tx")},
        "peak_gbits": {f"net/eth{n}": {"rx": 9.41, "tx": 9.41} for n in range(9)},
        "notes": ["x" * 700],
    },
}


class Asleep:
    """A side whose tool takes `TOOL_S`."""

    def __init__(
        self, role: str, answered: agent.Answered, ended: agent.Ended, began: Callable[[], None]
    ):
        self._role, self._answered, self._ended, self._began = role, answered, ended, began
        answered({"do": "prepared"})

    def send(self, message: protocol.Message) -> None:
        if message["do"] == "go" and self._role == "server":
            there = [{"address": "10.0.0.1", "port": 5001}]
            self._answered({"do": "mail", "name": "ready", "body": there})
        elif message["do"] == "mail" and message["name"] == "ready":
            self._began()
            asyncio.get_running_loop().call_later(TOOL_S, self._leave)
        elif message["do"] == "mail" and message["name"] == "left":
            self._leave()

    def _leave(self) -> None:
        call = {"tool": "tool", "role": self._role, "seconds": TOOL_S, "exit_code": 0}
        line = {"call": call, "facts": _FACTS}
        side = {"do": "side", "role": self._role, "line": line, "out": _OUTPUT, "err": ""}
        self._answered({**side, "files": {}})
        self._answered({"do": "mail", "name": "left", "body": True})
        self._ended("")

    def stop(self) -> None:
        self._ended("")


async def serve_agents(file: str) -> None:
    """All agents of a list, in this process; the time at which the first tool began."""
    orders = sweep_file.read(file)
    rlimits.raise_open_files(len(orders.nodes) + 64, "bench")
    conductor = agent.read_orders(60)
    loop = asyncio.get_running_loop()
    over, first, left = loop.create_future(), [], len(orders.nodes)

    def began() -> None:
        if not first:
            first.append(time.time())
            Path("first").write_text(str(first[0]))

    def start(
        program: str, spec: Any, role: str, answered: agent.Answered, ended: agent.Ended
    ) -> Asleep:
        return Asleep(role, answered, ended, began)

    def done(why: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            over.set_result(None)

    secret = bytes.fromhex(conductor["secret"])

    def make(node: str) -> agent.Agent:
        return agent.Agent(orders, node, secret, start, done)

    # srun does not start all of them in the same moment either.
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def come(node: str) -> None:
        async with at_once:
            await agent.connect("127.0.0.1", conductor["port"], lambda: make(node), 60)

    await asyncio.gather(*map(come, orders.nodes))
    await over


#: An answer of the bare exchange, as long as what both sides of a place leave.
_ANSWER = b"x" * 2499 + b"\n"


async def serve_bare(port: int, count: int) -> None:
    """So many connections, each of which answers a line after `TOOL_S`."""
    rlimits.raise_open_files(count + 64, "bench")
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one() -> None:
        async with at_once:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while await reader.readline():
            await asyncio.sleep(TOOL_S)
            writer.write(_ANSWER)
        writer.close()

    await asyncio.gather(*(one() for _ in range(count)))


async def _bare_rounds(count: int) -> list[float]:
    rlimits.raise_open_files(count + 64, "bench")
    ends: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    all_came = asyncio.Event()

    def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append((reader, writer))
        if len(ends) == count:
            all_came.set()

    server = await asyncio.start_server(came, "127.0.0.1", 0, backlog=count)
    port = server.sockets[0].getsockname()[1]
    argv = (sys.executable, __file__, "bare", str(port), str(count))
    process = await asyncio.create_subprocess_exec(*argv)
    await all_came.wait()
    took = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        for _, writer in ends:
            writer.write(b"go\n")
        await asyncio.gather(*(reader.readline() for reader, _ in ends))
        took.append(time.monotonic() - began)
    for _, writer in ends:
        writer.close()
    server.close()
    await process.wait()
    return took


def bare(count: int) -> None:
    """Rounds of one order and one answer a connection, without proofs, records and the relay
    between two nodes; prints their figure.
    """
    ratios = [seconds / TOOL_S for seconds in asyncio.run(_bare_rounds(count))]
    print(f"{f'{count} bare connections, round over tool:':<42} {_spread(ratios)}")


def simulated(count: int, folder: Path) -> None:
    """A sweep of so many simulated agents; prints its figures."""
    nodes = [f"n{number}" for number in range(count)]
    places = []
    for number in range(ROUNDS):
        shift = number % 2
        for first in range(shift, count - 1, 2):
            roles = {"server": nodes[first], "client": nodes[first + 1]}
            places.append({"name": "", "program": "client_server", "roles": roles, "order": 0})
    sizes = [len(range(number % 2, count - 1, 2)) for number in range(ROUNDS)]
    begins = [sum(sizes[:number]) for number in range(ROUNDS)]
    limits_s = {"start_limit_s": 30, "run_limit_s": 30}
    order = {**limits_s, "budgets": [], "version": [], "server": ["s"], "client": ["c"]}
    document = {
        "tool": "tool",
        "nodes": nodes,
        "rounds": [list(range(b, b + s)) for b, s in zip(begins, sizes, strict=True)],
        "places": places,
        "orders": [order],
    }
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps(document))
    srun = folder / "srun"
    srun.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" agents sweep.json\n')
    srun.chmod(0o755)
    began = time.time()
    process = subprocess.Popen(
        [sys.executable, "-m", "railgauge.node.orchestration.conductor", "sweep.json"],
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE)},
    )
    cpu_s, rss_mb = _watch(process)
    seconds = time.time() - began
    found = results_file.read(folder / results_file.FILE)
    done = sum(event["outcome"] == "done" for event in found.places.values())
    if process.returncode or done != len(places):
        sys.exit(f"bench: {done} of {len(places)} places, exit code {process.returncode}")
    ratios = [event["seconds"] / TOOL_S for event in found.rounds.values()]
    first = float((folder / "first").read_text()) - began
    size = (folder / results_file.FILE).stat().st_size / len(places)
    label = f"{count} simulated agents"
    print(f"{label + ', round over tool:':<42} {_spread(ratios)}")
    print(f"{label + ', conductor:':<42} {cpu_s:.2f} s of CPU in {seconds:.0f} s, {rss_mb:.0f} MB")
    print(f"{label + ', start to first tool:':<42} {first:.2f} s (n=1)")
    print(f"{label + ', raw a place:':<42} {size:.0f} bytes")


#: A tool that does nothing for so long as a short one takes: what is measured is what lies around
#: it. While it runs the next place is prepared, as in any sweep.
_SERVER = "import socket, sys\nsocket.create_server(('', int(sys.argv[1]))).accept()[0].recv(1)"
_CLIENT = (
    "import socket, sys, time\n"
    f"c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\ntime.sleep({TOOL_S})"
)
PLACES = 10


def added(folder: Path) -> None:
    """The same pair of tools as places of a sweep, and by a loop in a shell."""
    python = [sys.executable, "-S", "-E", "-c"]
    order = {
        "start_limit_s": 30,
        "run_limit_s": 30,
        "budgets": [],
        "server": [*python, _SERVER, "{port}"],
        "client": [*python, _CLIENT, "{port}"],
        "version": [],
    }
    ends = {"server": "127.0.0.1", "client": "127.0.0.2"}
    document = {
        "tool": "tool",
        "nodes": sorted(ends.values()),
        "rounds": [[index] for index in range(PLACES)],
        "places": [{"name": "", "program": "client_server", "roles": ends, "order": 0}] * PLACES,
        "orders": [order],
    }
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps(document))
    srun = folder / "srun"
    agents = f'"{sys.executable}" -m railgauge.node.orchestration.agent sweep.json'
    # Both get the line that comes on its standard input.
    srun.write_text(
        "#!/bin/bash\nread -r line\nfor node in 127.0.0.1 127.0.0.2; do\n"
        f'SLURMD_NODENAME=$node {agents} <<<"$line" &\n'
        "done\nwait\n"
    )
    srun.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE)}
    subprocess.run(
        [sys.executable, "-m", "railgauge.node.orchestration.conductor", "sweep.json"],
        cwd=folder,
        env={**os.environ, **environment, "SLURMD_NODENAME": "127.0.0.1"},
        check=True,
    )
    found = results_file.read(folder / results_file.FILE)
    if any(event["outcome"] != "done" for event in found.places.values()):
        sys.exit(f"bench: {found.lost} {found.places}")
    by_sweep = [event["seconds"] for event in found.rounds.values()]
    by_hand = []
    for _ in range(PLACES):
        began = time.monotonic()
        _by_hand(python)
        by_hand.append(time.monotonic() - began)
    difference = statistics.median(by_sweep) - statistics.median(by_hand)
    print(f"{'one place of a sweep:':<42} {_spread(by_sweep)} s")
    print(f"{'the same tools in a loop:':<42} {_spread(by_hand)} s")
    print(f"{'a sweep adds to a place:':<42} {difference:+.3f} s (medians)")


def _by_hand(python: list[str]) -> None:
    """As a script would: start the server, wait until it listens, run the client."""
    port = client_server.free_port()
    server = subprocess.Popen([*python, _SERVER, str(port)])
    while not client_server.is_listening(port):
        time.sleep(0.01)
    subprocess.run([*python, _CLIENT, str(port)], check=True)
    server.wait()


def _watch(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """CPU seconds and the largest resident size in MB of a process, without its children."""
    cpu_s = rss_mb = 0.0
    while process.poll() is None:
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") or cpu_s
        peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        rss_mb = int(peak[0]) / 1024 if peak else rss_mb
        time.sleep(0.1)
    process.wait()
    return cpu_s, rss_mb


def _spread(values: list[float]) -> str:
    return (
        f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f}, n={len(values)})"
    )


if __name__ == "__main__":
    if sys.argv[1] == "bare":
        asyncio.run(serve_bare(int(sys.argv[2]), int(sys.argv[3])))
    else:
        asyncio.run(serve_agents(sys.argv[2]))
