"""Run a client/server tool between two nodes of one Slurm job.

    srun --ntasks=2 --ntasks-per-node=1 python3 -m railgauge.node.pair pair.json

Both ranks read `pair.json` in the folder that they share; the node's name decides the role. The
server's side picks a free port, starts the server, waits until it listens and says so in
`ready.json`; the client's side waits for that file and runs the client. No one sleeps for a guess,
and every wait has a limit. Each side leaves its tool's `<role>.out` and `<role>.err`, and last,
renamed into place, `<role>.json`: the exit line, without which the run counts as failed.

In the tools' argv, {port} is the server's port, {server} its address; {device}, {ib_port} and
{gid_index} are those of the rail that `rdma` names for the side.

A side that finds one of its `programs` neither in the folders of `path` nor on PATH starts nothing
and says so; both then end with 0, as the check decides what that means.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from railgauge.node import rdma, way
from railgauge.node.calls import Call, exit_line, filled, node_name, write_whole
from railgauge.node.counters import Watch

POLL_S = 0.02
#: how often a server's side looks whether the client has given up
LOOK_S = 1.0

#: Where servers are, which a user's PATH may not have.
SERVER_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")

Spec = dict[str, Any]
Values = dict[str, str]
Facts = dict[str, Any]
#: what a side does between the snapshots of its counters
Work = Callable[[Spec, Values, Facts], Call]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether any process of this node listens on the TCP port (proc(5), state 0A)."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with Path(table).open(encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[3] == "0A" and fields[1].endswith(wanted):
                        return True
        except FileNotFoundError:
            continue
    return False


def is_listening_by_cm(port: int) -> bool:
    """Whether any process of this node listens on the port of the RDMA connection manager."""
    try:
        shown = rdma.ask(["rdma", "resource", "show", "cm_id"])
    except rdma.Unknown:
        return False
    return any(
        re.search(rf"\bstate LISTEN\b.*\bsrc-addr \S*:{port}\b", line)
        for line in shown.splitlines()
    )


def rank(spec: Spec, otherwise: int) -> int:
    """The launcher's own number of this task."""
    return int(os.environ.get(spec.get("rank_variable", "SLURM_PROCID"), otherwise))


def wait_for(path: str, limit_s: float, given_up: str = "") -> bool:
    """Whether `path` came within the limit; no longer waited for once `given_up` is there."""
    deadline = time.monotonic() + limit_s
    while True:
        # Listing the folder makes an NFS client look again; a stat may be answered from its cache.
        names = {entry.name for entry in Path().iterdir()}
        if path in names:
            return True
        if given_up in names or time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)


def by_connection_manager(spec: Spec) -> bool:
    return bool((spec.get("rdma") or {}).get("connection_manager"))


def start_server(
    spec: Spec, values: Values, prepare: Callable[[Values], None] = lambda values: None
) -> tuple[Call, int | None]:
    """The server, once it listens on a port of its own; a port that was taken is tried again.

    `prepare` gets the values with {port} before each try.
    """
    deadline = time.monotonic() + spec["start_limit_s"]
    listening = is_listening_by_cm if by_connection_manager(spec) else is_listening
    for attempt in range(3):
        port = free_port()
        told = {**values, "port": str(port)}
        prepare(told)
        server = Call("server", filled(spec["server"], told))
        while not server.ended and time.monotonic() < deadline:
            if listening(port):
                return server, port
            time.sleep(POLL_S)
        if server.process is None or attempt == 2 or time.monotonic() >= deadline:
            break
    server.kill(f"did not listen within {spec['start_limit_s']} s")
    return server, None


def attend(server: Call, limit_s: float, look_s: float = LOOK_S) -> None:
    """Return when the server or the client has ended, or after `limit_s`."""
    deadline = time.monotonic() + limit_s
    # A healthy server ends when it has served. Looking at shared files disturbs it.
    while not server.ends_within(look_s) and time.monotonic() < deadline:
        if wait_for("client.json", 0):
            return


def serve(spec: Spec, values: Values, facts: Facts) -> Call:
    server, port = start_server(spec, values)
    if port is not None:
        # The control connection; rdma_cm's is over the rail itself.
        kind = "rail_address" if by_connection_manager(spec) else "address"
        address = facts.get(kind) or spec["server_host"]
        try:
            write_whole("ready.json", {"address": address, "port": port})
            # The client may wait as long to start as the server did; then it has its time.
            attend(server, spec["start_limit_s"] + spec["run_limit_s"] + 10)
            server.wait(10)
        finally:
            server.kill("ended with the job")
    elif not server.note:
        server.wait(0)
        server.note = f"ended before it listened, exit code {server.exit_code}"
    return server


def find_server(spec: Spec, facts: Facts, limit_s: float) -> dict[str, Any]:
    """What the server's side says once its server listens; NoWay where it does not."""
    began = time.monotonic()
    if not wait_for("ready.json", limit_s, given_up="server.json"):
        waited = time.monotonic() - began
        raise way.NoWay(f"no server on {spec['server_host']} after {waited:.1f} s")
    ready: dict[str, Any] = json.loads(Path("ready.json").read_text(encoding="utf-8"))
    if spec.get("ping"):
        facts.update(way.round_trip(ready["address"], spec["ping"]))
    return ready


def connect(spec: Spec, values: Values, facts: Facts) -> Call:
    ready = find_server(spec, facts, spec["start_limit_s"] + 5)
    values = {**values, "server": ready["address"], "port": str(ready["port"])}
    client = Call("client", filled(spec["client"], values))
    try:
        client.wait(spec["run_limit_s"])
    finally:
        client.kill("ended with the job")
    return client


@contextlib.contextmanager
def watched(spec: Spec, facts: Facts) -> Iterator[None]:
    """The counters of this node around what happens inside."""
    watch = Watch(facts.get("sampled"), budgets=spec.get("budgets", ()))
    watch.start()
    try:
        yield
    finally:
        facts["counters"] = watch.stop()


def find_programs(spec: Spec, role: str, facts: Facts) -> None:
    """NoWay, and a fact, where this node lacks a program that its side runs."""
    folders = [*spec.get("path", ()), os.environ.get("PATH", os.defpath), *SERVER_FOLDERS]
    os.environ["PATH"] = os.pathsep.join(folders)
    programs = spec.get("programs", {}).get(role, ())
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        facts["missing"] = missing
        raise way.NoWay(f"{', '.join(missing)} not found on this node")


def is_missing_there(role: str) -> bool:
    """Whether the side of that role has left its exit line because it lacks a program."""
    try:
        line = json.loads(Path(f"{role}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    return "missing" in line["facts"]


def run(spec: Spec, role: str, works: Mapping[str, Work]) -> int:
    """This side's part; leaves its exit line, also where the tool could not be started."""
    other = "client" if role == "server" else "server"
    facts: Facts = {}
    try:
        values = way.describe(spec, role, spec[f"{other}_host"], facts)
        find_programs(spec, role, facts)
        with watched(spec, facts), way.made(spec.get("wan"), role, facts):
            call = works[role](spec, values, facts)
    except way.NoWay as error:
        call = Call.never_started(role, f"not started: {error}")
    facts.update(way.state_after(facts))
    exit_line(call, spec["tool"], spec["version"], facts, rank(spec, 0 if role == "server" else 1))
    return 0 if call.exit_code == 0 or "missing" in facts or is_missing_there(other) else 1


def terminate(*_: object) -> None:
    """At Slurm's first signal, change back what was changed for the test; undisturbed by others."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main(works: Mapping[str, Work]) -> int:
    spec: Spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, terminate)
    name = node_name()
    for role in ("server", "client"):
        if name == spec[f"{role}_host"]:
            return run(spec, role, works)
    print(
        f"pair.py: this is {name}, expected {spec['server_host']} or {spec['client_host']}",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main({"server": serve, "client": connect}))
