"""Run a client/server tool between two nodes of one Slurm job.

    srun --ntasks=2 --ntasks-per-node=1 python3 -m railgauge.node.pair pair.json

Both ranks read `pair.json` in the folder that they share; the node's name decides the role. The
server's side picks a free port, starts the server, waits until it listens and says so in
`ready.json`; the client's side waits for that file and runs the client. No one sleeps for a guess,
and every wait has a limit. Each side leaves its tool's `<role>.out` and `<role>.err`, and last,
renamed into place, `<role>.json`: the exit line, without which the run counts as failed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from railgauge.node.calls import Call, exit_line, node_name, path_facts, write_whole

POLL_S = 0.02

Spec = dict[str, Any]


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


def rank(otherwise: int) -> int:
    return int(os.environ.get("SLURM_PROCID", otherwise))


def wait_for(path: str, limit_s: float, given_up: str = "") -> bool:
    """Whether `path` came within the limit; no longer waited for once `given_up` is there."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        # Listing the folder makes an NFS client look again; a stat may be answered from its cache.
        names = {entry.name for entry in Path().iterdir()}
        if path in names:
            return True
        if given_up in names:
            return False
        time.sleep(POLL_S)
    return False


def start_server(spec: Spec) -> tuple[Call, int | None]:
    """The server, once it listens on a port of its own; a port that was taken is tried again."""
    deadline = time.monotonic() + spec["start_limit_s"]
    for attempt in range(3):
        port = free_port()
        server = Call("server", [word.replace("{port}", str(port)) for word in spec["server"]])
        while not server.ended and time.monotonic() < deadline:
            if is_listening(port):
                return server, port
            time.sleep(POLL_S)
        if server.process is None or attempt == 2 or time.monotonic() >= deadline:
            break
    server.kill(f"did not listen within {spec['start_limit_s']} s")
    return server, None


def serve(spec: Spec) -> int | None:
    facts = path_facts(spec["client_host"])
    server, port = start_server(spec)
    if port is not None:
        address = facts.get("address") or spec["server_host"]
        write_whole("ready.json", {"address": address, "port": port})
        # The client may wait as long to start as the server did; then it has its time.
        wait_for("client.json", spec["start_limit_s"] + spec["run_limit_s"] + 10)
        server.wait(10)
    elif not server.note:
        server.wait(0)
        server.note = f"ended before it listened, exit code {server.exit_code}"
    exit_line(server, spec["tool"], spec["version"], facts, rank(0))
    return server.exit_code


def connect(spec: Spec) -> int | None:
    facts = path_facts(spec["server_host"])
    began = time.monotonic()
    if not wait_for("ready.json", spec["start_limit_s"] + 5, given_up="server.json"):
        waited = time.monotonic() - began
        note = f"not started: no server on {spec['server_host']} after {waited:.1f} s"
        missed = Call.never_started("client", note)
        exit_line(missed, spec["tool"], spec["version"], facts, rank(1))
        return None
    ready = json.loads(Path("ready.json").read_text(encoding="utf-8"))
    fill = {"{server}": ready["address"], "{port}": str(ready["port"])}
    argv = []
    for word in spec["client"]:
        for mark, value in fill.items():
            word = word.replace(mark, value)
        argv.append(word)
    client = Call("client", argv)
    client.wait(spec["run_limit_s"])
    exit_line(client, spec["tool"], spec["version"], facts, rank(1))
    return client.exit_code


def main() -> int:
    spec: Spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    name = node_name()
    if name == spec["server_host"]:
        return 0 if serve(spec) == 0 else 1
    if name == spec["client_host"]:
        return 0 if connect(spec) == 0 else 1
    print(
        f"pair.py: this is {name}, expected {spec['server_host']} or {spec['client_host']}",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
