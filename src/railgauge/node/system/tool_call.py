"""What the node programs share: running one tool call, and leaving the proof of how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from railgauge.common import atomic
from railgauge.node.system import tool_package

#: Where servers are, which a user's PATH may not have.
SERVER_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")

#: How often the end of a process is polled where the kernel does not report it.
LOOK_S = 0.05
_STEP_S = 0.5
#: A wait that ends so much later than it was to was one in which this host stood still, as what is
#: waited for did: that time is none of a limit's.
LATE_S = 1.0
#: More than a page, which is all that a file of sysfs has (sysfs(5)).
_SYSFS_BYTES = 1 << 16


def write_whole(path: str, document: Any) -> None:
    """Write a JSON file that other nodes see whole or not at all."""
    atomic.write_text(Path(path), json.dumps(document))


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or host_name()


def host_name() -> str:
    """The name by which programs know this machine; Slurm may use another one."""
    return socket.gethostname().partition(".")[0]


def read_sysfs(path: str) -> str | None:
    """The text of a file of sysfs or /proc/sys; None where it cannot be read. Read by descriptor,
    not by Path: nodes read hundreds of them, and emulated CPUs are slow.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(file, _SYSFS_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(file)


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

    `names` are those that Slurm has for it besides its own, tried in this order where that is not
    known here.
    """
    facts: dict[str, Any] = {"kernel": os.uname().release}
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
    except (OSError, ValueError, LookupError, RecursionError, subprocess.SubprocessError) as error:
        facts["route_unknown"] = f"{type(error).__name__}: {error}"
        return facts
    mtu = read_sysfs(f"/sys/class/net/{facts['device']}/mtu")
    if mtu is not None and mtu.isdigit():
        facts["mtu_bytes"] = int(mtu)
    congestion = read_sysfs("/proc/sys/net/ipv4/tcp_congestion_control")
    if congestion:
        facts["congestion"] = congestion
    return facts


#: Where programs put their own files: sockets, sessions, shared memory, their spool.
_OWN_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/var/spool")

#: With less room than this a program may hang, or fail with an unrelated message.
_LEAST_BYTES = 64 * 1024


def folders_without_room() -> dict[str, int]:
    """Folder -> free bytes, for folders in which a program can write next to nothing. Of two
    folders on one file system only the first is named.
    """
    full = {}
    devices = set()
    for folder in dict.fromkeys((os.environ.get("TMPDIR") or "/tmp", *_OWN_FOLDERS)):
        try:
            device, state = Path(folder).stat().st_dev, os.statvfs(folder)
        except OSError:
            continue
        free = state.f_bavail * state.f_frsize
        # Mounted to be read only, it is full on purpose.
        if device not in devices and free < _LEAST_BYTES and not state.f_flag & os.ST_RDONLY:
            full[folder] = free
        devices.add(device)
    return full


def search_path(folders: Sequence[str]) -> str:
    """The PATH for the programs of a side: first the folders of its order."""
    given = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([*folders, *given, *SERVER_FOLDERS]))


def filled(argv: Sequence[str], values: Mapping[str, str]) -> list[str]:
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
        lines = _printed(argv).strip().splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"
    return lines[0].strip() if lines else "unknown"


def help_of(program: str) -> str:
    """What `--help` of a program prints, on whichever stream; "" where it does not run."""
    try:
        return _printed([program, "--help"])
    except (OSError, subprocess.SubprocessError):
        return ""


def _printed(argv: list[str]) -> str:
    answer = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False
    )
    return answer.stdout.decode("utf-8", "replace")


#: Longest output that is kept: beyond it the tool's writes fail, and the call's note says so.
OUTPUT_BYTES = 4 * 2**20

KINDS = ("out", "err")


def memory_file(name: str) -> int:
    """A file of at most `OUTPUT_BYTES` in memory: a full disk does not spoil what is kept in it."""
    file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    # Memory is taken where something is written; beyond the end writing fails with EPERM.
    os.ftruncate(file, OUTPUT_BYTES)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return file


@contextlib.contextmanager
def bound_to(cpus: Iterable[int]) -> Iterator[None]:
    """Bind what is started inside to these CPUs; no change where there are none."""
    before, wanted = os.sched_getaffinity(0), frozenset(cpus)
    if wanted:
        os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        if wanted:
            os.sched_setaffinity(0, before)


def start(
    argv: list[str],
    environment: Mapping[str, str] | None,
    out: int | IO[bytes],
    err: int | IO[bytes],
    stdin: int = subprocess.DEVNULL,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """A tool in a session of its own, which can be ended as a whole; in this process's environment
    and folder where none is named. It inherits the launcher's PMI connection.
    """
    return subprocess.Popen(
        argv,
        stdin=stdin,
        stdout=out,
        stderr=err,
        start_new_session=True,
        cwd=folder,
        env=environment,
        pass_fds=_pmi_connection(os.environ if environment is None else environment),
    )


def _pmi_connection(environment: Mapping[str, str]) -> list[int]:
    """The open file by which an MPI program asks its launcher for its peers (PMI_FD, of PMI-1 and
    PMI-2): it is inherited, and PMIx needs none.
    """
    try:
        number = int(environment.get("PMI_FD", ""))
        os.fstat(number)
    except (ValueError, OSError, OverflowError):
        return []
    return [number]


class Call:
    """One call of a tool, with its outputs kept in memory."""

    def __init__(
        self,
        role: str,
        argv: list[str],
        environment: dict[str, str] | None = None,
        cpus: Iterable[int] = (),
    ) -> None:
        """`environment` stands in place of this process's own; `cpus` are those that it may use."""
        self.role = role
        self.program = argv[0]
        self.search = (os.environ if environment is None else environment).get("PATH")
        self.seconds = 0.0
        self.note = ""
        self._kept: dict[str, int] = {}
        self._pidfd: int | None = None
        self._started = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            with bound_to(cpus):
                self.process = self._open(argv, environment)
        except OSError as error:
            self.note = f"cannot be started: {error}"
            return
        # Before Linux 5.3 there is none.
        with contextlib.suppress(OSError):
            self._pidfd = os.pidfd_open(self.process.pid)

    def _open(self, argv: list[str], environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
        self._kept = {kind: memory_file(kind) for kind in KINDS}
        return start(argv, environment, self._kept["out"], self._kept["err"])

    @classmethod
    def never_started(cls, role: str, note: str) -> Call:
        """A call that could not be made, for its exit line."""
        call = cls.__new__(cls)
        call.role, call.seconds, call.note, call.process = role, 0.0, note, None
        call.program, call.search, call._kept, call._pidfd = "", None, {}, None
        return call

    def output(self, kind: str) -> str:
        """What the tool has written so far to its standard output (`out`) or error (`err`)."""
        return self._written(kind).decode("utf-8", "replace")

    def _written(self, kind: str) -> bytes:
        if kind not in self._kept:
            return b""
        file = self._kept[kind]
        # Only so much of it has been written to, and the rest of that is zeros.
        return os.pread(file, os.fstat(file).st_blocks * 512, 0).rstrip(b"\0")

    @property
    def is_cut(self) -> bool:
        """Whether the tool wanted to write more than is kept."""
        return any(len(self._written(kind)) >= OUTPUT_BYTES for kind in KINDS)

    @property
    def ended(self) -> bool:
        return self.process is None or self._reaped(os.WNOHANG)

    def _reaped(self, options: int = 0) -> bool:
        """Whether the tool has ended.

        Not by Popen, which takes a lock: a signal's handler that ends this process raises anywhere,
        and behind such a lock a wait for the tool would never end.
        """
        assert self.process is not None
        if self.process.returncode is None:
            try:
                process, status = os.waitpid(self.process.pid, options)
            except ChildProcessError:
                # The handler came just after the call that reported the end.
                self.process.returncode, self.note = 0, self.note or "how it ended is not known"
            else:
                if process:
                    self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode is not None

    @property
    def sleeps(self) -> bool:
        """Whether the tool waits for something to happen (proc(5), state S)."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text() if self.process else ""
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[:1] == ["S"]

    def ends_within(self, limit_s: float) -> bool:
        """Whether the tool ends by itself in that time."""
        deadline = time.monotonic() + limit_s
        while not self.ended:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            deadline += wait_for_any([self], left_s)
        return True

    def wait(self, limit_s: float) -> None:
        """Wait for the tool's own end; past the limit it is killed, and the note says so."""
        if self.process is None:
            return
        if not self.ends_within(limit_s):
            self.kill(f"still running after {time.monotonic() - self._started:.1f} s, killed")
        self.seconds = time.monotonic() - self._started

    def kill(self, note: str) -> None:
        if self.process is None or self.ended:
            return
        self.note = note
        os.killpg(self.process.pid, signal.SIGKILL)
        self._reaped()
        self.seconds = time.monotonic() - self._started

    @property
    def exit_code(self) -> int | None:
        return None if self.process is None or self.note else self.process.returncode


def wait_for_any(calls: Iterable[Call], limit_s: float, *files: int) -> float:
    """Return when a call has ended, one of the files has something to read, or at the limit: the
    seconds that this was put off, as this host stood still.

    At once where nothing is left to wait for: the last call may have ended since its caller looked.
    """
    watched = [call for call in calls if not call.ended]
    if not watched and not files:
        return 0.0
    ready = select.poll()
    for file in (*files, *(call._pidfd for call in watched if call._pidfd is not None)):
        ready.register(file, select.POLLIN)
    blind = any(call._pidfd is None for call in watched)
    deadline, put_off_s, moment_s = time.monotonic() + limit_s, 0.0, LATE_S
    while True:
        began = time.monotonic()
        left_s = max(deadline + put_off_s - began, 0)
        # An end without a signal is looked for; seldom, as the tool needs the CPU. A signal
        # that comes just before a system call does not end it: its handler runs with the next step.
        step_s = min(left_s, LOOK_S if blind else _STEP_S)
        heard, now = ready.poll(1000 * step_s), time.monotonic()
        late_s = now - began - step_s
        if late_s > LATE_S and left_s:
            # Others need a moment to go on, too. Only once: a host may stand still again and again.
            put_off_s += late_s
            if now + moment_s > deadline + put_off_s:
                put_off_s, moment_s = now + moment_s - deadline, 0.0
        elif step_s == left_s:
            return put_off_s
        if heard or any(call.ended for call in watched):
            return put_off_s


def boot_id() -> str:
    """The id of this boot of the node (random(4)); "" where the kernel gives none."""
    return read_sysfs("/proc/sys/kernel/random/boot_id") or ""


def _clock_lead() -> float:
    """Seconds that the clock of dates is ahead of the one that is never set (clock_gettime(2))."""
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


def watch_clock() -> None:
    """Watch the clock from now on, rather than from this program's start."""
    global _FIRST_LEAD, _FIRST_TIME
    _FIRST_LEAD, _FIRST_TIME = _clock_lead(), time.monotonic()


def clock() -> dict[str, float]:
    """By how many seconds this node's clock was set since the watch began, and how long ago that
    was.

    Tools measure with that clock, and Slurm's credentials and time limits rest on it.
    """
    return {
        "moved_s": round(_clock_lead() - _FIRST_LEAD, 3),
        "watched_s": round(time.monotonic() - _FIRST_TIME, 3),
    }


@functools.cache
def _version_on(path: str, argv: tuple[str, ...]) -> str:
    return tool_version(list(argv))


@functools.cache
def _provenance_on(path: str, program: str) -> tuple[str, str]:
    return tool_package.of(program, path)


def look_up(version: Sequence[str], program: str, path: str | None = None) -> tuple[str, str, str]:
    """A tool's version, and the file and package that a call runs. Looked up once for each `path`;
    forked programs inherit the answers.
    """
    search = os.environ.get("PATH", os.defpath) if path is None else path
    shown = _version_on(os.environ.get("PATH", os.defpath), tuple(version)) if version else ""
    return (shown, *(_provenance_on(search, program) if program else ("", "")))


def exit_line(
    call: Call, tool: str, version: Sequence[str], facts: dict[str, Any], rank: int
) -> dict[str, Any]:
    """The exit line, which proves that this call has ended, and how: {"call": ..., "facts": ...}.

    `version` is the argv that asks the tool for its version, none where its output states it;
    `facts` is what the node says of itself.
    """
    shown, path, package = look_up(version, call.program, call.search)
    line = {
        "tool": tool,
        "role": call.role,
        "rank": rank,
        "host": node_name(),
        "exit_code": call.exit_code,
        "seconds": round(call.seconds, 3),
        "version": shown,
        "path": path,
        "package": package,
        "note": call.note or (f"wrote more than {OUTPUT_BYTES} bytes" if call.is_cut else ""),
    }
    full = folders_without_room()
    host_facts = {"boot_id": boot_id(), "clock": clock(), **facts}
    if full:
        host_facts["no_room"] = full
    return {"call": line, "facts": host_facts}


def leave_files(call: Call, line: dict[str, Any]) -> None:
    """`<role>.out` and `<role>.err`, where the tool was started, and last `<role>.json`."""
    if call.process is not None:
        for kind in KINDS:
            Path(f"{call.role}.{kind}").write_text(call.output(kind), encoding="utf-8")
    write_whole(f"{call.role}.json", line)
