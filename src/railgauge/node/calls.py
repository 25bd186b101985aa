"""What the node programs share: running one tool call, and leaving the proof of how it ended."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railgauge.node import provenance


def write_whole(path: str, document: Any) -> None:
    """Write a JSON file that other nodes see whole or not at all."""
    whole = Path(path)
    beside = whole.with_name(f".{whole.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as stream:
        json.dump(document, stream)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(whole)


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or host_name()


def host_name() -> str:
    """What programs call this machine; Slurm may know it by another name."""
    return socket.gethostname().partition(".")[0]


def read_sysfs(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def address_of(names: Sequence[str]) -> str:
    """The IPv4 address of the first of a node's names that leads to another machine; OSError where
    none does.
    """
    problems = []
    for name in dict.fromkeys(names):
        try:
            address = socket.gethostbyname(name)
        except OSError as error:
            problems.append(f"{name}: {error.strerror or error}")
            continue
        # What some installers write of a machine's own name, copied to another.
        if address == name or not address.startswith("127."):
            return address
        problems.append(f"{name}: leads to {address}")
    raise OSError("; ".join(problems))


def path_facts(peer: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """The interface and address that lead to `peer`, and what the kernel says of them.

    `names` are those that Slurm has for it beside its own, tried in this order where that is not
    known here.
    """
    facts: dict[str, Any] = {"kernel": platform.release()}
    try:
        address = address_of([peer, *names])
    except OSError as error:
        facts["unresolved"] = {peer: str(error)}
        return facts
    try:
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


#: Where programs put what they need for themselves: sockets, sessions, shared memory, their spool.
_OWN_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/var/spool")

#: Less than this, and a program that needs room may hang or fail with any other word.
_LEAST_BYTES = 64 * 1024


def folders_without_room() -> dict[str, int]:
    """Folder -> bytes that are free there, of those in which a program can write next to nothing.

    By file system: of two folders on one the first is told.
    """
    found = {}
    seen = set()
    for folder in dict.fromkeys((os.environ.get("TMPDIR") or "/tmp", *_OWN_FOLDERS)):
        try:
            device, state = Path(folder).stat().st_dev, os.statvfs(folder)
        except OSError:
            continue
        free = state.f_bavail * state.f_frsize
        # Mounted to be read only, it is full on purpose.
        if device not in seen and free < _LEAST_BYTES and not state.f_flag & os.ST_RDONLY:
            found[folder] = free
        seen.add(device)
    return found


def filled(argv: list[str], values: dict[str, str]) -> list[str]:
    """The words of `argv` with each {name} of `values` replaced."""
    words = []
    for word in argv:
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)
        words.append(word)
    return words


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


class Call:
    """One call of a tool, with its outputs kept in `<role>.out` and `<role>.err`."""

    def __init__(
        self, role: str, argv: list[str], environment: dict[str, str] | None = None
    ) -> None:
        """`environment` stands in place of this process's own."""
        self.role = role
        self.program = argv[0]
        self.search = (os.environ if environment is None else environment).get("PATH")
        self.seconds = 0.0
        self.note = ""
        self._started = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.process = self._open(argv, environment)
        except OSError as error:
            self.note = f"cannot be started: {error}"

    def _open(self, argv: list[str], environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
        with Path(f"{self.role}.out").open("wb") as out, Path(f"{self.role}.err").open("wb") as err:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env=environment,
            )

    @classmethod
    def never_started(cls, role: str, note: str) -> Call:
        """A call that could not be made, for its exit line."""
        call = cls.__new__(cls)
        call.role, call.seconds, call.note, call.process = role, 0.0, note, None
        call.program, call.search = "", None
        return call

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def ends_within(self, limit_s: float) -> bool:
        """Whether the tool ends by itself in that time. It looks seldom: the tool needs the CPU."""
        if self.process is None:
            return True
        try:
            self.process.wait(max(limit_s, 0))
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self, limit_s: float) -> None:
        """Wait for the tool's own end; past the limit it is killed, and the note says so."""
        if self.process is None:
            return
        try:
            self.process.wait(max(limit_s, 0))
        except subprocess.TimeoutExpired:
            self.kill(f"still running after {time.monotonic() - self._started:.1f} s, killed")
        self.seconds = time.monotonic() - self._started

    def kill(self, note: str) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.note = note
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.seconds = time.monotonic() - self._started

    @property
    def exit_code(self) -> int | None:
        return None if self.process is None or self.note else self.process.returncode


def boot_id() -> str:
    """What tells one boot of this node from the next (random(4)); "" where the kernel says none."""
    return read_sysfs("/proc/sys/kernel/random/boot_id") or ""


def _clock_lead() -> float:
    """Seconds that the clock of dates is ahead of the one that nobody sets (clock_gettime(2))."""
    best = None
    # Of several looks the one in which the least time passed between the clocks.
    for _ in range(5):
        before = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        date = time.time()
        gap = time.clock_gettime(time.CLOCK_MONOTONIC_RAW) - before
        if best is None or gap < best[0]:
            best = (gap, date - before)
    assert best is not None
    return best[1]


_FIRST_LEAD, _FIRST_TIME = _clock_lead(), time.monotonic()


def clock() -> dict[str, float]:
    """By how many seconds this node's clock was set since this program began, and when that was.

    Tools measure with that clock, and Slurm's credentials and time limits rest on it.
    """
    return {
        "moved_s": round(_clock_lead() - _FIRST_LEAD, 3),
        "watched_s": round(time.monotonic() - _FIRST_TIME, 3),
    }


def exit_line(call: Call, tool: str, version: list[str], facts: dict[str, Any], rank: int) -> None:
    """Leave `<role>.json`, the proof that this call has ended, and how.

    `version` is the argv that asks the tool for its version, none where its output states it;
    `facts` is what the node says of itself.
    """
    path, package = provenance.of(call.program, call.search) if call.program else ("", "")
    line = {
        "tool": tool,
        "role": call.role,
        "rank": rank,
        "host": node_name(),
        "exit_code": call.exit_code,
        "seconds": round(call.seconds, 3),
        "version": tool_version(version) if version else "",
        "path": path,
        "package": package,
        "note": call.note,
    }
    full = folders_without_room()
    told = {"boot_id": boot_id(), "clock": clock(), **facts}
    if full:
        told["no_room"] = full
    write_whole(f"{call.role}.json", {"call": line, "facts": told})
