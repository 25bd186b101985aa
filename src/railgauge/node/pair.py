"""Run a client/server tool between two nodes of one Slurm job.

    srun --ntasks=2 --ntasks-per-node=1 python3 -m railgauge.node.pair pair.json

Both ranks read `pair.json` in the folder that they share; the node's name decides the role. The
server's side picks a free port, starts the server, waits until it listens and says so in
`ready.json`; the client's side waits for that file and runs the client. No one sleeps for a guess,
and every wait has a limit. Each side leaves its tool's `<role>.out` and `<role>.err`, and last,
renamed into place, `<role>.json`: the exit line, without which the run counts as failed.

`ways` lists several ways (`interface`, `rdma`) on which the tool runs at the same time, all clients
started once all servers listen. The files of the first are then `server0` and `client0`, and so on.

In the tools' argv, {port} is the server's port, {server} its address; {own_address} is that of the
`interface` that the side should use; {device}, {ib_port} and {gid_index} are those of the rail that
`rdma` names for the side.

With `least_gbits` the other direction is measured too where the first was slower (back.py).

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

from railgauge.node import back, rdma, way
from railgauge.node.calls import Call, exit_line, filled, node_name, write_whole
from railgauge.node.counters import Watch

POLL_S = 0.02
#: how often a server's side looks whether the client has given up
LOOK_S = 1.0
#: So long what a client left in its socket may take to be sent.
_DRAIN_S = 10.0

#: Where servers are, which a user's PATH may not have.
SERVER_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")

Spec = dict[str, Any]
Values = dict[str, str]
Facts = dict[str, Any]


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


class Lane:
    """One of the ways on which the tool runs: its orders, what this side says of it, its files."""

    def __init__(self, spec: Spec, number: str = "") -> None:
        self.spec = spec
        self.number = number
        self.facts: Facts = {}
        self.values: Values = {}

    def call(self, role: str, **values: str) -> Call:
        """Start the tool of `role`."""
        argv = filled(self.spec[role], {**self.values, **values})
        return Call(f"{role}{self.number}", argv)


def lanes_of(spec: Spec) -> list[Lane]:
    """Of several ways each has a number behind the names of its files; an only one has none."""
    if "ways" not in spec:
        return [Lane(spec)]
    return [Lane({**spec, **one}, str(number)) for number, one in enumerate(spec["ways"])]


#: what a side does between the snapshots of its counters: a call for each way
Work = Callable[[Spec, list[Lane]], list[Call]]


def start_server(
    lane: Lane, deadline: float, prepare: Callable[[Values], None] = lambda values: None
) -> tuple[Call, int | None]:
    """The server, once it listens on a port of its own; a port that was taken is tried again.

    `prepare` gets the values with {port} before each try.
    """
    listening = is_listening_by_cm if by_connection_manager(lane.spec) else is_listening
    for attempt in range(3):
        port = free_port()
        prepare({**lane.values, "port": str(port)})
        server = lane.call("server", port=str(port))
        while not server.ended and time.monotonic() < deadline:
            if listening(port):
                return server, port
            time.sleep(POLL_S)
        if server.process is None or attempt == 2 or time.monotonic() >= deadline:
            break
    server.kill(f"did not listen within {lane.spec['start_limit_s']} s")
    return server, None


def attend(
    servers: list[Call], limit_s: float, client: str = "client", look_s: float = LOOK_S
) -> None:
    """Return when all servers, or the client, have ended, or after `limit_s`."""
    deadline = time.monotonic() + limit_s
    # A healthy server ends when it has served. Looking at shared files disturbs it.
    while time.monotonic() < deadline:
        if all(server.ends_within(look_s) for server in servers):
            return
        if wait_for(f"{client}.json", 0):
            return


def serve(spec: Spec, lanes: list[Lane]) -> list[Call]:
    deadline = time.monotonic() + spec["start_limit_s"]
    servers, ports = [], []
    try:
        for lane in lanes:
            server, port = start_server(lane, deadline)
            servers.append(server)
            ports.append(port)
        if None in ports:
            for server, port in zip(servers, ports):
                if port is not None:
                    server.kill("ended: the server of another way did not listen")
                elif not server.note:
                    server.wait(0)
                    server.note = f"ended before it listened, exit code {server.exit_code}"
            return servers
        write_whole("ready.json", [address_of(lane, port) for lane, port in zip(lanes, ports)])
        # The client may wait as long to start as the server did; then it has its time.
        limit_s = spec["start_limit_s"] + spec["run_limit_s"] + 10
        attend(servers, limit_s, f"client{lanes[0].number}")
        deadline = time.monotonic() + 10
        for server in servers:
            server.wait(deadline - time.monotonic())
    finally:
        for server in servers:
            server.kill("ended with the job")
    return servers


def address_of(lane: Lane, port: int | None) -> dict[str, Any]:
    """Where the client finds the server of this way."""
    # The control connection; rdma_cm's is over the rail itself.
    kind = "rail_address" if by_connection_manager(lane.spec) else "address"
    return {"address": lane.facts.get(kind) or lane.spec["server_host"], "port": port}


def find_servers(spec: Spec, lane: Lane, limit_s: float) -> list[dict[str, Any]]:
    """What the server's side says of each way once its servers listen; NoWay where it does not."""
    began = time.monotonic()
    if not wait_for("ready.json", limit_s, given_up=f"server{lane.number}.json"):
        waited = time.monotonic() - began
        raise way.NoWay(f"no server on {spec['server_host']} after {waited:.1f} s")
    ready: list[dict[str, Any]] = json.loads(Path("ready.json").read_text(encoding="utf-8"))
    if spec.get("ping"):
        lane.facts.update(way.round_trip(ready[0]["address"], spec["ping"]))
    return ready


def connect(spec: Spec, lanes: list[Lane]) -> list[Call]:
    ready = find_servers(spec, lanes[0], spec["start_limit_s"] + 5)
    clients: list[Call] = []
    began = time.monotonic()
    try:
        for lane, there in zip(lanes, ready):
            clients.append(lane.call("client", server=there["address"], port=str(there["port"])))
        for client in clients:
            client.wait(began + spec["run_limit_s"] - time.monotonic())
        # From the start of the first to the end of the last: what they moved took that long.
        lanes[0].facts["span_s"] = round(time.monotonic() - began, 3)
        way.wait_until_sent([there["port"] for there in ready], _DRAIN_S)
    finally:
        for client in clients:
            client.kill("ended with the job")
    return clients


@contextlib.contextmanager
def watched(spec: Spec, lanes: list[Lane]) -> Iterator[None]:
    """The counters of this node around what happens inside, kept with the first way."""
    sampled = {name for lane in lanes for name in lane.facts.get("sampled", ())}
    watch = Watch(sorted(sampled), budgets=spec.get("budgets", ()))
    watch.start()
    try:
        yield
    finally:
        lanes[0].facts["counters"] = watch.stop()


def find_programs(spec: Spec, role: str, facts: Facts) -> None:
    """NoWay, and a fact, where this node lacks a program that its side runs."""
    folders = [*spec.get("path", ()), os.environ.get("PATH", os.defpath), *SERVER_FOLDERS]
    os.environ["PATH"] = os.pathsep.join(folders)
    programs = spec.get("programs", {}).get(role, ())
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        facts["missing"] = missing
        raise way.NoWay(f"{', '.join(missing)} not found on this node")


def is_missing_there(call: str) -> bool:
    """Whether that call of the other side has left its exit line because a program lacks there."""
    try:
        line = json.loads(Path(f"{call}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    return "missing" in line["facts"]


def run(spec: Spec, role: str, works: Mapping[str, Work]) -> int:
    """This side's part; leaves its exit lines, also where the tool could not be started."""
    other = "client" if role == "server" else "server"
    lanes = lanes_of(spec)
    first = lanes[0]
    try:
        for lane in lanes:
            lane.values = way.describe(lane.spec, role, spec[f"{other}_host"], lane.facts)
        find_programs(spec, role, first.facts)
        with watched(spec, lanes), way.made(spec.get("wan"), role, first.facts):
            calls = works[role](spec, lanes)
    except way.NoWay as error:
        note = f"not started: {error}"
        calls = [Call.never_started(f"{role}{lane.number}", note) for lane in lanes]
    number = rank(spec, 0 if role == "server" else 1)
    for lane, call in zip(lanes, calls):
        lane.facts.update(way.state_after(lane.facts))
        exit_line(call, spec["tool"], spec["version"], lane.facts, number)
    lacks = "missing" in first.facts or is_missing_there(f"{other}{first.number}")
    return 0 if lacks or all(call.exit_code == 0 for call in calls) else 1


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
            code = run(spec, role, works)
            if "least_gbits" in spec:
                back.measure(spec, role, lambda spec, role: run(spec, role, works), wait_for)
            return code
    print(
        f"pair.py: this is {name}, expected {spec['server_host']} or {spec['client_host']}",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main({"server": serve, "client": connect}))
