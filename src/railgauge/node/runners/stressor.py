"""Keep CPUs of a machine busy while something is measured, and say what came of it.

    python3 stressor.py '{"program": ["stress-ng"], "cpus": "0-3", "at_most_s": 60}'

Prints a line of JSON once all stressors are at work, one more for every line `look` of standard
input, and a last one when that is over: the stressors then end, as they do however this process
ends. An empty line says that the side that asked for them lives; if none comes for `SILENT_S`
they end too: a connection from a machine that lost its power stays open. They run for `at_most_s`
by themselves. `cpus` are those to load, or with `but` all others of the machine; without `program`
nothing is started, and the lines say what else loads these CPUs.

Nothing but the standard library (Python 3.7) is imported: a node gives this file's text to the
Python of its hypervisor.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

#: Time until each stressor must have used some of its CPU.
BEGIN_S = 20.0

#: The line that asks for the state now.
LOOK = "look"

#: How often the side that asked for stressors says that it lives; the silence that ends them:
#: a side that measures on a busy host may be late several times running.
BEAT_S = 3.0
SILENT_S = 30.0
#: It is waited for in so many steps: of a host that stands still for long that is one.
_SILENT_STEPS = 10

#: Time they have to end before they are killed.
_END_S = 1.0
_LOOK_S = 0.02

#: prctl(2)
_SET_PDEATHSIG = 1

_TICKS = os.sysconf("SC_CLK_TCK")


def cpus_in(text: str) -> list[int]:
    """0-2,8 as 0, 1, 2, 8 (cpuset(7))."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return sorted(set(cpus))


def _fields(process: int) -> list[str] | None:
    """What proc(5) says of a process in `stat`, from its state on; None where it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _die_with_parent(number: int) -> None:
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, number, 0, 0, 0)


class Stressors:
    """stress-ng with one process a CPU, in a session of its own, for `at_most_s`."""

    def __init__(self, program: list[str], cpus: list[int], at_most_s: int) -> None:
        self._program, self._cpus = program[0], cpus
        count, where = str(len(cpus)), ",".join(map(str, cpus))
        self.began = time.monotonic()
        self._call = subprocess.Popen(
            [*program, "--cpu", count, "--taskset", where, "--timeout", str(at_most_s)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: _die_with_parent(signal.SIGKILL),
        )

    def _members(self) -> Iterator[list[str]]:
        for entry in Path("/proc").glob("[0-9]*"):
            fields = _fields(int(entry.name))
            if fields and int(fields[3]) == self._call.pid and fields[0] not in "ZX":
                yield [entry.name, *fields]

    def cpu_s(self) -> float:
        """What all of them have used so far, those that have ended too."""
        used = sum(sum(map(int, member[12:16])) for member in self._members())
        return used / _TICKS

    def workers(self) -> list[int]:
        """The CPU time of each process below the first, in ticks."""
        below = [m for m in self._members() if int(m[0]) != self._call.pid]
        return [int(member[12]) + int(member[13]) for member in below]

    def bound_to(self) -> list[int]:
        """The CPUs on which some of them may run."""
        cpus: set[int] = set()
        for member in self._members():
            if int(member[0]) != self._call.pid:
                with contextlib.suppress(OSError):
                    cpus |= os.sched_getaffinity(int(member[0]))
        return sorted(cpus)

    @property
    def is_running(self) -> bool:
        return self._call.poll() is None and len(self.workers()) >= len(self._cpus)

    def begin(self) -> None:
        """Wait until each has used some of its CPU; ends this process where they do not."""
        deadline = time.monotonic() + BEGIN_S
        while True:
            at_work = [ticks for ticks in self.workers() if ticks]
            if len(at_work) >= len(self._cpus):
                return
            if self._call.poll() is not None or time.monotonic() > deadline:
                self.end()
                why = f"exit code {self._call.returncode}, {len(at_work)} of {len(self._cpus)} ran"
                _refuse(f"{self._program} keeps no CPU busy: {why}")
            time.sleep(_LOOK_S)

    def end(self) -> int:
        """End all stressors soon; their exit code."""
        deadline = time.monotonic() + _END_S
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._call.pid, signal.SIGTERM)
        while self._call.poll() is None and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        for member in self._members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(member[0]), signal.SIGKILL)
        return self._call.wait()


def _refuse(why: str) -> NoReturn:
    print(json.dumps({"refused": why}), flush=True)
    sys.exit(1)


def _busy_s() -> dict[int, float]:
    """CPU -> seconds of its programs, and of other guests (proc(5)): not the kernel's, which works
    for a sender, nor that of this machine's own guests.
    """
    busy_s = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *words = line.split()
        if name[:3] == "cpu" and name[3:].isdigit():
            user, nice, _, _, _, _, _, steal, guest, guest_nice = map(int, words[:10])
            busy_s[int(name[3:])] = (user + nice + steal - guest - guest_nice) / _TICKS
    return busy_s


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def numa_nodes(cpus: list[int]) -> list[int]:
    """Of these CPUs; none where the kernel says nothing."""
    homes = (Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*") for cpu in cpus)
    return sorted({int(home.name[4:]) for found in homes for home in found})


def look(cpus: list[int], stressors: Stressors | None) -> Any:
    """The state of the stressors now."""
    busy_s = _busy_s()
    return {
        "at": time.monotonic(),
        "cpus": cpus,
        "numa_nodes": numa_nodes(cpus),
        "busy_s": sum(busy_s.get(cpu, 0.0) for cpu in cpus),
        "online": len(busy_s),
        "online_busy_s": sum(busy_s.values()),
        "load": os.getloadavg()[0],
        "isolated": _read("/sys/devices/system/cpu/isolated"),
        **(
            {
                "running": stressors.is_running,
                "cpu_s": stressors.cpu_s(),
                "bound_to": stressors.bound_to(),
            }
            if stressors
            else {}
        ),
    }


def _lines() -> Iterator[str]:
    """The lines of standard input until its end; refuses to go on where it is silent."""
    rest = b""
    while True:
        step_s = SILENT_S / _SILENT_STEPS
        if not any(select.select([0], [], [], step_s)[0] for _ in range(_SILENT_STEPS)):
            _refuse(f"no word for {SILENT_S:g} s from the process that asked for the stressors")
        data = os.read(0, 1 << 12)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in lines)


def main() -> int:
    orders = json.loads(sys.argv[1])
    # Before anything is started that would be left behind.
    _die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    online = cpus_in(_read("/sys/devices/system/cpu/online") or f"0-{(os.cpu_count() or 1) - 1}")
    chosen = cpus_in(orders["cpus"]) if "cpus" in orders else []
    but = cpus_in(orders.get("but", ""))
    cpus = [cpu for cpu in online if (cpu in chosen if "cpus" in orders else cpu not in but)]
    if not cpus:
        _refuse(f"no such CPUs: {sys.argv[1]}; there are {','.join(map(str, online))}")
    stressors = None
    try:
        if "program" in orders:
            try:
                stressors = Stressors(orders["program"], cpus, orders["at_most_s"])
            except OSError as error:
                _refuse(f"cannot be started: {error}")
            stressors.begin()
        print(json.dumps(look(cpus, stressors)), flush=True)
        for line in _lines():
            if line == LOOK:
                print(json.dumps(look(cpus, stressors)), flush=True)
    finally:
        if stressors:
            seconds, code = time.monotonic() - stressors.began, stressors.end()
            with contextlib.suppress(OSError):
                print(json.dumps({"exit_code": code, "seconds": seconds}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
