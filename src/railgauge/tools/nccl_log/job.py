"""NCCL's debug log of a whole job in one text: all processes that wrote into it, and what is wrong.

The lines are taken one at a time, and of connections only the kinds are kept, so that the memory
does not grow with the log. A process is known by the `host:pid:` that NCCL puts before its lines.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from railgauge.common.names import counted
from railgauge.common.ranges import fold_numbers
from railgauge.hostlist import fold_ranks
from railgauge.tools import Reading
from railgauge.tools.common.lines import quote
from railgauge.tools.nccl_log.result import Connection, Seat
from railgauge.tools.nccl_log.text import (
    ADVICE,
    COLLNET,
    COMMUNICATOR,
    CONNECTED,
    CONNECTION,
    LONGEST_MESSAGE,
    MARK,
    NVLS_CHANNELS,
    TOPOLOGY,
    VERSION,
    about_connection,
    connection_of,
    devices_of,
    without_secrets,
)

_INFO = "NCCL INFO "
_PROCESS = re.compile(r"([^\s:>\]]+):([0-9]{1,10}):[0-9]{1,10} \[")
#: A place is looked for in so much of what stands before a message; NCCL's own prefix is short.
_HEAD = 400
_DEVICE_WORDS = ("NET/", "Using network ")
_MOST_PROCESSES = 2**16
#: So many different messages of a process are kept, and prefixes of lines remembered.
_MOST_KEPT, _MOST_THREADS = 2**16, 2**16
#: So many warnings, and ranks with an unread line, are named.
_MOST_NAMED = 6


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a log must show: the ranks of its largest communicator, and the network in use."""

    ranks: int | None = None
    network: str | None = None


class _Path(NamedTuple):
    """What a connection goes over, and whether this process is one of several ends that log it."""

    path: str
    side: str


@dataclasses.dataclass
class _Process:
    """What one process wrote."""

    host: str
    pid: str
    seats: dict[Seat, None] = dataclasses.field(default_factory=dict)
    begun: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    complete: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    destroyed: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    aborted: bool = False
    versions: dict[str, None] = dataclasses.field(default_factory=dict)
    devices: dict[str, None] = dataclasses.field(default_factory=dict)
    paths: collections.Counter[_Path] = dataclasses.field(default_factory=collections.Counter)
    channels: set[str] = dataclasses.field(default_factory=set)
    connected: dict[str, None] = dataclasses.field(default_factory=dict)
    nvls: bool = False
    mnnvl: bool = False
    warnings: dict[str, None] = dataclasses.field(default_factory=dict)
    unread: dict[str, None] = dataclasses.field(default_factory=dict)

    @property
    def initialised(self) -> bool:
        return not self.begun - self.complete

    @property
    def whole(self) -> bool:
        """Every communicator that came to be was destroyed: NCCL's last word."""
        return bool(self.destroyed) and self.initialised and not self.complete - self.destroyed

    @property
    def ranks(self) -> set[int]:
        """Its ranks in the largest communicator that it is in: several GPUs may be of a process."""
        most = max((seat.ranks for seat in self.seats), default=0)
        return {seat.rank for seat in self.seats if seat.ranks == most}


class Job:
    """Takes the lines of a log in their order."""

    def __init__(self) -> None:
        self._processes: dict[tuple[str, str], _Process] = {}
        self._by_thread: dict[str, _Process] = {}
        self._by_pid: dict[str, list[_Process]] = {}
        #: lines that others broke into: what they said is not known
        self._torn = 0
        #: lines of processes above the bound
        self._left_out = 0
        #: those that no process is named with
        self._versions: dict[str, None] = {}
        self.simulated = False
        self.lines = 0

    def take(self, line: str) -> None:
        """One whole line, without its end. Of a line that another one broke into the end counts."""
        place = line.rfind(_INFO)
        if place < 0 or "NCCL WARN " in line or "NCCL ATTN " in line:
            self._take_other(line)
            return
        self.lines += 1
        head = line[:place]
        words = head.rsplit(None, 2)
        # `host:pid:tid [device] `, perhaps behind a time that is another one in each line.
        process = self._by_thread.get(words[-2]) if len(words) > 1 else None
        if process is None or "NCCL " in head:
            self._torn += "NCCL " in head
            process = self._process(head)
            if process is not None and len(words) > 1 and len(self._by_thread) < _MOST_THREADS:
                self._by_thread[words[-2]] = process
        message = line[place + len(_INFO) :].strip()
        if process is None or len(message) > LONGEST_MESSAGE:
            return
        if " via " in message:
            self._take_connection(process, message)
        elif message.startswith(_DEVICE_WORDS):
            if len(process.devices) < _MOST_KEPT:
                process.devices[message] = None
        elif "comm " in message or "nvls channels" in message:
            self._take_communicator(process, message)
        elif match := CONNECTED.fullmatch(message):
            process.connected[match[1]] = None
        elif match := VERSION.fullmatch(message):
            process.versions[match[1]] = None

    def take_torn(self, line: str) -> None:
        """The end of a text that lacks its newline: only a warning counts."""
        if "NCCL WARN " in line or "NCCL ATTN " in line:
            self._take_other(line)

    def _process(self, head: str) -> _Process | None:
        """The one that a line's beginning names. Within a line that another broke into only one
        that is known already: its host may have lost its beginning.
        """
        end = head[-_HEAD:]
        matches = list(_PROCESS.finditer(end))
        if "NCCL " in end and matches:
            host, pid = matches[-1].groups()
            known = (p for p in self._by_pid.get(pid, ()) if host.endswith(p.host))
            return next(known, None)
        name = (matches[-1][1], matches[-1][2]) if matches else ("", "")
        process = self._processes.get(name)
        if process is None:
            if len(self._processes) >= _MOST_PROCESSES:
                self._left_out += 1
                return None
            process = self._processes[name] = _Process(*name)
            self._by_pid.setdefault(name[1], []).append(process)
        return process

    def _take_other(self, line: str) -> None:
        if line.startswith("# SIMULATED"):
            self.simulated = True
        marks = list(MARK.finditer(line))
        for number, mark in enumerate(marks):
            if mark[1] != "INFO":
                self.lines += 1
                begin = marks[number - 1].end() if number else 0
                process = self._process(line[begin : mark.start()])
                end = marks[number + 1].start() if number + 1 < len(marks) else len(line)
                if process is not None and len(process.warnings) < _MOST_KEPT:
                    process.warnings[without_secrets(line[mark.end() : end].strip())] = None
        if not marks and (match := VERSION.fullmatch(line.strip())):
            self._versions[match[1]] = None

    def _take_connection(self, process: _Process, message: str) -> None:
        if match := CONNECTION.fullmatch(message):
            channel, _, _, _, side, path = match.groups()
            if connection_of(path, side or ""):
                process.channels.add(channel)
                process.paths[_Path(path, side or "")] += 1
            else:
                process.unread.setdefault(message if len(process.unread) < _MOST_NAMED else "")
        elif match := COLLNET.fullmatch(message):
            process.channels.add(match[1])
            process.paths[_Path(f"COLLNET/{match[5]}/{match[6]}{match[7] or ''}", match[4])] += 1
        elif about_connection(message):
            process.unread.setdefault(message if len(process.unread) < _MOST_NAMED else "")

    def _take_communicator(self, process: _Process, message: str) -> None:
        if match := COMMUNICATOR.fullmatch(message):
            process.seats[Seat(int(match[2]), int(match[3]))] = None
            counts = {"Init START": process.begun, "Init COMPLETE": process.complete}
            counts["Destroy COMPLETE"] = process.destroyed
            if match[4] in counts:
                counts[match[4]][match[1]] += 1
            else:
                process.aborted = True
        elif match := TOPOLOGY.fullmatch(message):
            process.seats[Seat(int(match[1]), int(match[2]))] = None
            process.mnnvl |= match[5] != "0"
        elif match := NVLS_CHANNELS.fullmatch(message):
            process.nvls |= int(match[1]) > 0
        else:
            process.nvls |= message.startswith("NVLS comm ")

    # ---- what is said of it ----

    def reading(self, expected: Expected | None = None) -> Reading:
        """What the log says; refused where NCCL warns, stops, or its processes do not agree."""
        # Without the lines that no process is named in, if others name one.
        named = [process for process in self._processes.values() if process.host]
        processes = named or list(self._processes.values())
        seats = {seat for process in processes for seat in process.seats}
        world = max((seat.ranks for seat in seats), default=0)
        there = {seat.rank for seat in seats if seat.ranks == world}
        seen = self._seen(processes, world)
        complaints = [*self._complaints(processes), *_differences(seen, expected)]
        notes = tuple(_notes(processes, seen, there))
        if complaints:
            return Reading.invalid(
                "; ".join(complaints), seen=seen, simulated=self.simulated, notes=notes
            )
        lacking = []
        if not world or len(there) < world:
            of = f"{world - len(there)} of {world} ranks" if world else "any rank"
            lacking.append(f"the lines of {of}")
        if self._left_out:
            lacking.append(f"the lines of more than {_MOST_PROCESSES} processes")
        if self._torn:
            lacking.append(f"{counted(self._torn, 'line')} that others broke into")
        if not all(process.whole for process in processes):
            lacking.append("'Destroy COMPLETE' of every communicator")
        reason = "every communicator was destroyed, and NCCL warns of nothing"
        return Reading.valid(reason, lacking, (), seen, self.simulated, notes=notes)

    def _seen(self, processes: Sequence[_Process], world: int) -> dict[str, Any]:
        versions = {*self._versions, *(v for process in processes for v in process.versions)}
        seen: dict[str, Any] = {
            "nccl_version": " and ".join(sorted(versions)) or None,
            "ranks": world or None,
            "hosts": tuple(sorted({process.host for process in processes if process.host})),
            "network": tuple(sorted({n for process in processes for n in _networks(process)})),
            "connections": dict(sorted(_kinds(processes).items())),
            "hcas": tuple(sorted({hca for process in processes for hca in _hcas(process)})),
            "channels": len(set().union(*(process.channels for process in processes))),
            "nvls": any(process.nvls for process in processes),
            "mnnvl": any(process.mnnvl for process in processes),
            "connected": tuple(sorted({c for process in processes for c in process.connected})),
        }
        return {name: value for name, value in seen.items() if value}

    def _complaints(self, processes: Sequence[_Process]) -> Iterator[str]:
        warned: dict[str, list[_Process]] = collections.defaultdict(list)
        for process in self._processes.values():
            for warning in process.warnings:
                if not ADVICE.search(warning):
                    warned[warning].append(process)
        for warning, those in list(warned.items())[:_MOST_NAMED]:
            yield f"{_names(those)}: NCCL warns: {warning}"
        if len(warned) > _MOST_NAMED:
            yield f"and {len(warned) - _MOST_NAMED} other warnings"
        if aborted := [process for process in processes if process.aborted]:
            yield f"{_names(aborted)}: the communicator was aborted"
        begun = [process for process in processes if not process.initialised]
        # Of a line that was torn the end may have said it.
        if begun and not self._torn:
            yield (
                f"{_names(begun)}: 'Init START' without 'Init COMPLETE': NCCL stopped or waits "
                "there, or the log is cut"
            )
        if unread := [process for process in processes if process.unread]:
            message = next(iter(unread[0].unread))
            yield f"{_names(unread)}: a connection that is not understood: {quote(message)}"
        for what, named in (
            ("versions of NCCL", {p.host + p.pid: (p, list(p.versions)) for p in processes}),
            ("networks", {p.host + p.pid: (p, sorted(_networks(p))) for p in processes}),
        ):
            yield from _unequal(what, named.values())


def _unequal(what: str, named: Iterable[tuple[_Process, Sequence[str]]]) -> Iterator[str]:
    by_name: dict[str, list[_Process]] = collections.defaultdict(list)
    for process, names in named:
        for name in names:
            by_name[name].append(process)
    if len(by_name) > 1:
        each = "; ".join(f"{name} of {_names(those)}" for name, those in sorted(by_name.items()))
        yield f"different {what}: {each}"


def _differences(seen: Mapping[str, Any], expected: Expected | None) -> Iterator[str]:
    ranks, network = seen.get("ranks"), seen.get("network", ())
    if expected and expected.ranks is not None and ranks != expected.ranks:
        yield f"{ranks or 'no'} ranks in the largest communicator, expected {expected.ranks}"
    if expected and expected.network is not None and network != (expected.network,):
        yield f"network {', '.join(network) or 'not named'}, expected {expected.network}"


def _notes(
    processes: Sequence[_Process], seen: Mapping[str, Any], there: set[int]
) -> Iterator[str]:
    """What the log shows, in one line, and the processes that connected nothing."""
    hosts, world = seen.get("hosts", ()), seen.get("ranks")
    parts = [f"NCCL {seen['nccl_version']}" if "nccl_version" in seen else "NCCL"]
    if world and len(there) == world:
        parts.append(counted(world, "rank"))
    elif world:
        parts.append(f"{fold_ranks(sorted(there))} of {world}")
    if hosts:
        parts.append(counted(len(hosts), "host"))
    if kinds := seen.get("connections"):
        listed = " and ".join(f"{count} {kind}" for kind, count in kinds.items())
        parts.append(f"connections {listed} on {counted(seen['channels'], 'channel')}")
    if network := seen.get("network"):
        over = f" over {', '.join(seen['hcas'])}" if "hcas" in seen else ""
        parts.append(f"network {', '.join(network)}{over}")
    parts += [what.upper() for what in ("nvls", "mnnvl") if seen.get(what)]
    parts += [each.lower() for each in seen.get("connected", ())]
    yield "; ".join(parts)
    silent = [process for process in processes if process.complete and not process.paths]
    if 0 < len(silent) < len(processes):
        yield f"{_names(silent)}: no connection, where other processes have some"


def _kinds(processes: Iterable[_Process]) -> dict[str, int]:
    """How many connections of each kind: the two ends of a network's log it each."""
    by_side: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for process in processes:
        for (path, side), count in process.paths.items():
            connection = connection_of(path, side)
            kind = connection.kind if connection else f"COLLNET/{path.split('/')[1]}"
            by_side[kind][side] += count
    return {kind: max(counts.values()) for kind, counts in by_side.items()}


def _networks(process: _Process) -> set[str]:
    used = {c.network for c in _connections(process) if c.network is not None}
    named = {m.removeprefix("Using network ") for m in process.devices if m.startswith("Using n")}
    return used | named


def _hcas(process: _Process) -> Iterator[str]:
    """The names of the NICs that its connections go over, where the log gives them."""
    listed = devices_of(list(process.devices))
    for connection in _connections(process):
        for device in listed:
            if (device.network, device.number) == (connection.network, connection.device):
                yield from device.hcas


def _connections(process: _Process) -> Iterator[Connection]:
    for path, side in process.paths:
        if connection := connection_of(path, side):
            yield connection


def _names(processes: Sequence[_Process]) -> str:
    """Their ranks and, of few, their hosts; host and process where no line names a rank."""
    ranks = sorted(set().union(*(process.ranks for process in processes)))
    hosts = list(dict.fromkeys(process.host for process in processes if process.host))
    where = f" on {', '.join(hosts)}" if 0 < len(hosts) <= 2 else ""
    if ranks:
        return f"{fold_ranks(ranks)}{where}"
    pids = [int(process.pid) for process in processes if process.pid]
    return f"process {fold_numbers(pids)}{where}" if pids else "a process without a name"
