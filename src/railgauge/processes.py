"""Processes by id and start time, so that a number used again is never taken for ours."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from pathlib import Path

#: How long a process that was killed may take to end: of a host that stands still, 20 s and more.
END_LIMIT_S = 60


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """What tells this start of the machine from all others."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat (proc(5)); None where there is no such process, or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


@dataclasses.dataclass(frozen=True)
class Process:
    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has this number now; None where it has ended."""
        ticks = _start_ticks(pid)
        return None if ticks is None else cls(pid, ticks)

    @classmethod
    def read(cls, path: Path) -> Process | None:
        """The process that `path` ("PID START") records; None where it records none."""
        try:
            pid, ticks = path.read_text().split()
            return cls(int(pid), int(ticks))
        except (FileNotFoundError, ValueError):
            return None

    @property
    def alive(self) -> bool:
        return _start_ticks(self.pid) == self.start_ticks

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal, unless the process has ended already."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # The handle keeps the number from being used again between this look and the signal.
            if self.alive:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)

    def wait_until_ended(self, timeout_s: float = END_LIMIT_S) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def running(*arguments: str) -> list[Process]:
    """Every process whose command line holds these arguments, one after the other."""
    wanted = b"\0" + b"\0".join(argument.encode() for argument in arguments) + b"\0"
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command_line = b"\0" + (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # It has ended, or it is somebody else's, of which this user sees nothing (hidepid).
            continue
        ticks = _start_ticks(int(entry.name))
        if wanted in command_line and ticks is not None:
            processes.append(Process(int(entry.name), ticks))
    return processes
