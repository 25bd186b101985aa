"""Run a client/server tool between two nodes of one Slurm job.

    srun --ntasks=2 --ntasks-per-node=1 python3 pair.py pair.json

Both ranks read `pair.json` in the folder that they share; the node's name decides the role. The
server's side picks a free port, starts the server, waits until it listens and says so in
`ready.json`; the client's side waits for that file and runs the client. No one sleeps for a guess,
and every wait has a limit. Each side leaves its tool's `<role>.out` and `<role>.err`, and last,
renamed into place, `<role>.json`: the exit line, without which the run counts as failed.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

POLL_S = 0.02

Spec = dict[str, Any]


def write_whole(path: str, document: Any) -> None:
    """Write a JSON file that other nodes see whole or not at all."""
    beside = Path(f".{path}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as stream:
        json.dump(document, stream)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


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


def read_sysfs(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def path_facts(peer: str) -> dict[str, Any]:
    """The interface and address that lead to `peer`, and what the kernel says of them."""
    facts: dict[str, Any] = {"kernel": platform.release()}
    try:
        address = socket.gethostbyname(peer)
        answer = subprocess.run(
            ["ip", "-j", "route", "get", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=10,
        )
        route = json.loads(answer.stdout)[0]
        facts["device"], facts["address"] = route["dev"], route["prefsrc"]
    except (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as error:
        facts["route_unknown"] = f"{type(error).__name__}: {error}"
        return facts
    mtu = read_sysfs(f"/sys/class/net/{facts['device']}/mtu")
    if mtu is not None and mtu.isdigit():
        facts["mtu_bytes"] = int(mtu)
    congestion = read_sysfs("/proc/sys/net/ipv4/tcp_congestion_control")
    if congestion:
        facts["congestion"] = congestion
    return facts


def tool_version(argv: list[str]) -> str:
    """The first line that the tool prints of its version, on whichever stream."""
    try:
        answer = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"
    lines = answer.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0].strip() if lines else "unknown"


class Tool:
    """One call of the tool, with its outputs kept in files."""

    def __init__(self, role: str, argv: list[str]) -> None:
        self.role = role
        self.argv = argv
        self.started = time.monotonic()
        self.note = ""
        self.process: subprocess.Popen[bytes] | None = None
        with Path(f"{role}.out").open("wb") as out, Path(f"{role}.err").open("wb") as err:
            try:
                self.process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
                )
            except OSError as error:
                self.note = f"cannot be started: {error}"

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def wait(self, limit_s: float) -> None:
        """Wait for the tool's own end; past the limit it is killed, and the note says so."""
        if self.process is None:
            return
        try:
            self.process.wait(max(limit_s, 0))
        except subprocess.TimeoutExpired:
            self.kill(f"still running after {time.monotonic() - self.started:.1f} s, killed")

    def kill(self, note: str) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.note = note
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def exit_code(self) -> int | None:
        return None if self.process is None or self.note else self.process.returncode


def exit_line(
    spec: Spec,
    role: str,
    exit_code: int | None,
    seconds: float,
    note: str,
    facts: dict[str, Any],
) -> None:
    """Leave the proof that this side's call has ended, and how."""
    call = {
        "tool": spec["tool"],
        "role": role,
        "rank": int(os.environ.get("SLURM_PROCID", 0 if role == "server" else 1)),
        "host": node_name(),
        "exit_code": exit_code,
        "seconds": round(seconds, 3),
        "version": tool_version(spec["version"]),
        "note": note,
    }
    write_whole(f"{role}.json", {"call": call, "facts": facts})


def wait_for(path: str, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        # Listing the folder makes an NFS client look again; a stat may be answered from its cache.
        if any(entry.name == path for entry in Path().iterdir()):
            return True
        time.sleep(POLL_S)
    return False


def start_server(spec: Spec) -> tuple[Tool, int | None]:
    """The server, once it listens on a port of its own; a port that was taken is tried again."""
    deadline = time.monotonic() + spec["start_limit_s"]
    for attempt in range(3):
        port = free_port()
        server = Tool("server", [word.replace("{port}", str(port)) for word in spec["server"]])
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
        server.note = f"ended before it listened, exit code {server.exit_code}"
    seconds = time.monotonic() - server.started
    exit_line(spec, "server", server.exit_code, seconds, server.note, facts)
    return server.exit_code


def connect(spec: Spec) -> int | None:
    facts = path_facts(spec["server_host"])
    if not wait_for("ready.json", spec["start_limit_s"] + 5):
        note = f"no server on {spec['server_host']} within {spec['start_limit_s'] + 5} s"
        exit_line(spec, "client", None, 0, note, facts)
        return None
    ready = json.loads(Path("ready.json").read_text(encoding="utf-8"))
    fill = {"{server}": ready["address"], "{port}": str(ready["port"])}
    argv = []
    for word in spec["client"]:
        for mark, value in fill.items():
            word = word.replace(mark, value)
        argv.append(word)
    client = Tool("client", argv)
    client.wait(spec["run_limit_s"])
    seconds = time.monotonic() - client.started
    exit_line(spec, "client", client.exit_code, seconds, client.note, facts)
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
