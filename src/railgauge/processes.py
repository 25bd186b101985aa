"""Processes by id and start time, so that a number used again is never taken for ours."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

#: How long a process that was killed may take to end: of a host that stands still, 20 s and more.
END_LIMIT_S = 60


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """What identifies this start of the machine."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat (proc(5)) from the third on; None where there is no such
    process, or a zombie.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields


def _start_ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


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
        except OSError as error:
            # The number is free, or by now that of a thread.
            if error.errno not in (errno.ESRCH, errno.ENOENT, errno.EINVAL):
                raise
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
    """Every process with these arguments in its command line, one after the other."""
    wanted = b"\0" + b"\0".join(argument.encode() for argument in arguments) + b"\0"
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command_line = b"\0" + (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # It has ended, or it is another user's and hidden from this one (hidepid).
            continue
        ticks = _start_ticks(int(entry.name))
        if wanted in command_line and ticks is not None:
            processes.append(Process(int(entry.name), ticks))
    return processes


def marked(mark: str) -> dict[int, str]:
    """Process number -> command line, of all that run and have `mark` ("NAME=value") in the
    environment that they were started with.
    """
    return {pid: _command_line(pid) for pid in sorted(_stats()) if mark in _environment(pid)}


def started_by(leader: Process, mark: str) -> dict[int, str]:
    """The same, with the processes of the session of `leader`, and with those below it: all that it
    started. The leader itself, which may have ended, is none of them.
    """
    stats = _stats()
    there = Process.of(leader.pid)
    found = set(marked(mark))
    # The number of a leader that has ended stays that of its session, while anybody is in it.
    if there is None or there == leader:
        found |= {
            pid
            for pid, fields in stats.items()
            if int(fields[3]) == leader.pid and int(fields[19]) >= leader.start_ticks
        }
    if there == leader:
        parents = {pid: int(fields[1]) for pid, fields in stats.items()}
        found |= {pid for pid in parents if leader.pid in _above(pid, parents)}
    return {pid: _command_line(pid) for pid in sorted(found - {leader.pid})}


def _stats() -> dict[int, list[str]]:
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid: fields for pid in numbers if (fields := _stat(pid)) is not None}


def _above(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        yield pid


def _environment(pid: int) -> list[str]:
    """None of another user's process."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return []
    return os.fsdecode(text).split("\0")


def _command_line(pid: int) -> str:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).replace("\0", " ").strip()
    except OSError:
        return ""
