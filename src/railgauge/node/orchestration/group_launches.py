"""Clear many groups of nodes by few launches of a program that all of their ranks run together.

    python3 -m railgauge.node.orchestration.group_launches sweep.json  # in a batch script

Group testing: a launch runs the tool on many groups at once, each with a communicator of its own,
and its table has the slowest of them. A launch that is good clears all of its groups. One that is
not is halved, both halves at once, until every bad one has one group. Where both halves of a bad
launch are good, none of its groups is cleared: a second try must not hide what failed at the first.
Where no bounds are known a round begins with some parts, and the best of them bounds the others: as
many bad groups as there are parts would have to be spread over all of them to pass for good ones.

The list is a LaunchList (node/orders/ranks.py), as `sweep.json`.

All goes into `raw.jsonl.gz` (results_file.py): a `launch` event for each, and behind it what its
ranks left. Ranks are counted from 0 in every group: `rank0` of a place is the first of its group.

Exit code 0 where every group came to an event, also a bad one; 143 at SIGTERM; 2 where the list or
this node does not allow it; 1 otherwise.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from railgauge.node.orders.ranks import LaunchList, TableOrder
from railgauge.node.runners.mpi_ranks import HANG_S
from railgauge.node.system import slurm_job
from railgauge.node.system.processes import end_group
from railgauge.node.system.tool_call import Call, filled, node_name, start, wait_for_any
from railgauge.node.transport import results_file

#: Time a launcher needs besides its ranks' own: to start tens of thousands and see them end.
START_S = 90.0
#: Time it has to end everything that it started.
_END_S = 10.0
#: Launches that run at once at most; each is a process here and a Slurm step.
AT_ONCE = 64
#: Files that are read at once, and ranks that are held in memory.
_READERS, _AT_A_TIME = 16, 512
#: Launches that a round begins with where no bounds are known.
_PARTS = 8
#: Characters that are kept of what a launcher prints.
_WORDS = 65536

_ORDERS, _HOSTS = "ranks.json", "hosts"

Document = dict[str, Any]
Numbers = Mapping[str, float]


# --- whether a launch clears its groups -----------------------------------------------------------


def largest(text: str, table: TableOrder) -> dict[str, float]:
    """The numbers of the largest size, by metric. ValueError where there is none, or any value is
    wrong. No more is read here: the check reads all of it, strictly.
    """
    names: list[str] = []
    rows: list[list[str]] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["#"] and table.column in words:
            names = words[1:]
        elif names and words and words[0].isdigit():
            rows.append(words)

    def columns(name: str) -> list[int]:
        # From the right: the operation's name may be blank.
        return [place - len(names) for place, known in enumerate(names) if known == name]

    if not rows:
        raise ValueError("it printed no table")
    try:
        for row in rows:
            bad = [row[place] for place in columns(table.wrong) if row[place] not in ("0", "N/A")]
            if bad:
                raise ValueError(f"{bad[0]} wrong values at {row[0]} bytes")
        values = [float(rows[-1][place]) for place in columns(table.column)]
    except IndexError:
        raise ValueError("its table breaks off") from None
    return dict(zip(table.metrics, values))


def below_bound(numbers: Numbers, bounds: Numbers) -> str:
    """Which number is below its bound, in words; "" where none is."""
    for metric, least in bounds.items():
        if numbers.get(metric, 0.0) < least:
            shown = f"{numbers[metric]:.4g}" if metric in numbers else "missing"
            return f"{metric} is {shown}, expected at least {least:.4g}"
    return ""


def rank_failure(lines: Sequence[Document | None], text: str, end: str) -> str:
    """Why ranks with these exit lines (None where missing) did not run well; "" where they did.
    `end` stands behind a good table, the `text` of rank 0.
    """
    ranks = len(lines)
    silent = [rank for rank, line in enumerate(lines) if line is None]
    if silent:
        return f"{len(silent)} of {ranks} ranks left no exit line, rank {silent[0]} first"
    for rank, line in enumerate(lines):
        call = line["call"] if line else {}
        if call.get("note") or call.get("exit_code") != 0:
            why = call.get("note") or f"exit code {call.get('exit_code')}"
            return f"rank {rank} on {call.get('host')}: {why}"
    if end not in text:
        return "its table has no end, or says of wrong values"
    return ""


def split(places: Sequence[int], parts: int) -> list[Sequence[int]]:
    """Cut into `parts` parts (fewer where there are fewer places). Their sizes differ by one at
    most.
    """
    count = min(parts, len(places))
    ends = [-(-len(places) * number // count) for number in range(count + 1)]
    return [places[first:last] for first, last in zip(ends, ends[1:])]


#: A half is as low as the launch that it is of, where its number is at most so many times that: the
#: slowest group of the launch is in it.
_SAME_FAULT_RATIO = 1.25


class Launch:
    """One run of the tool on some groups."""

    def __init__(self, places: Sequence[int], order: int, parent: int | None = None) -> None:
        self.places, self.order, self.parent = tuple(places), order, parent
        self.number = -1
        self.halves: list[Launch] = []
        #: why it does not clear its groups, "" where it does; None as long as it has not run
        self.why: str | None = None
        #: how much time it lacked, where it did not run for that
        self.lacked = ""
        #: whether its launcher was ended here, at its limit
        self.is_late = False
        self.numbers: dict[str, float] = {}
        #: whether nothing but a number is wrong with it
        self.is_low = False

    @property
    def is_bad(self) -> bool:
        return self.why != ""

    @property
    def is_explained(self) -> bool:
        """Whether a part of it shows the same fault as strongly; otherwise another fault may hide
        one that comes and goes.
        """
        return len(self.places) == 1 or any(
            half.is_bad and (not half.is_low or (self.is_low and self._is_as_low(half)))
            for half in self.halves
        )

    def _is_as_low(self, half: Launch) -> bool:
        return any(
            metric in half.numbers and half.numbers[metric] <= _SAME_FAULT_RATIO * value
            for metric, value in self.numbers.items()
        )

    def halve(self) -> list[Launch]:
        self.halves = [Launch(part, self.order, self.number) for part in split(self.places, 2)]
        return self.halves


class LauncherCall(Call):
    """A launcher, in the folder of its launch: its ranks then work there too."""

    def __init__(self, folder: Path, argv: list[str], environment: dict[str, str]) -> None:
        self._folder = folder
        super().__init__(folder.name, argv, environment)

    def _open(self, argv: list[str], environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
        with (self._folder / "launcher.err").open("wb") as err:
            return start(argv, environment, err, err, folder=self._folder)

    def end(self, note: str) -> None:
        """Let it end its ranks, which it does at SIGTERM, and then itself."""
        if self.process is not None and not self.ended:
            end_group(self.process.pid, signal.SIGTERM)
            self.ends_within(_END_S)
            self.kill(note)
            self.note, self.seconds = note, time.monotonic() - self._started


# --- a job ----------------------------------------------------------------------------------------


class Driver:
    """The launches of all rounds, and then the halves of those that are bad."""

    def __init__(self, orders: LaunchList, writer: results_file.Writer) -> None:
        self._orders, self._writer = orders, writer
        self._deadline = time.monotonic() + orders.deadline_s
        self._count = 0
        self._job_nodes = slurm_job.nodes()
        self._has_hung = False
        self._running: list[LauncherCall] = []
        # On a shared file system each of a hundred thousand files takes a while.
        self._readers = ThreadPoolExecutor(_READERS)
        self._cleaner = ThreadPoolExecutor(1)

    def run(self) -> None:
        bad: list[tuple[int, Launch, Numbers]] = []
        for number, one in enumerate(self._orders.rounds):
            began = time.monotonic()
            launches, bounds = self._first(one.places, one.order)
            seconds = round(time.monotonic() - began, 3)
            self._writer.write({"event": "round", "round": number, "seconds": seconds})
            for launch in launches:
                if launch.why and len(launch.places) > 1:
                    bad.append((number, launch, bounds))
                else:
                    self._record_outcome(launch, number)
        for number, launch, bounds in bad:
            self._bisect(launch, bounds)
            self._record_outcome(launch, number)

    def _first(self, places: Sequence[int], number: int) -> tuple[list[Launch], Numbers]:
        """The first launches of a round, and the bounds of its numbers: where these are not known,
        they follow from the best of some parts.
        """
        order = self._orders.orders[number]
        is_known = bool(order.bounds)
        bounds: Numbers = {**order.least, **order.bounds}
        count = len(places) if not order.together else 1 if is_known else _PARTS
        launches = [Launch(part, number) for part in split(places, count)]
        self._launch(launches, bounds)
        if not is_known:
            by_peers = best(launches, order.spread)
            bounds = {
                m: max(by_peers.get(m, 0.0), bounds.get(m, 0.0)) for m in (*by_peers, *bounds)
            }
            for launch in launches:
                self._bound(launch, bounds)
        return launches, bounds

    def _bisect(self, root: Launch, bounds: Numbers) -> None:
        """Halve what is bad, level by level."""
        level = [root]
        while level:
            level = [launch for launch in level if launch.why and len(launch.places) > 1]
            halves = [half for launch in level for half in launch.halve()]
            self._launch(halves, bounds)
            level = halves

    # --- what becomes of the places ---

    def _record_outcome(self, launch: Launch, round_: int) -> None:
        if launch.why is None:
            why = f"the job had no time left for it{launch.lacked}"
            apart = f"could not isolate the bad group of launch {launch.parent}: "
            self._refuse(launch, round_, why if launch.parent is None else apart + why)
        elif launch.why and not launch.is_explained:
            self._refuse(
                launch,
                round_,
                f"could not isolate the bad group: {launch.why} in launch {launch.number} of "
                f"{len(launch.places)} groups at once, and both halves passed (load, or an "
                "intermittent fault)",
            )
        elif any(half.why is not None for half in launch.halves):
            for half in launch.halves:
                self._record_outcome(half, round_)
        elif launch.why and len(launch.places) > 1:
            self._refuse(
                launch,
                round_,
                f"could not isolate the bad group: {launch.why} in launch {launch.number} of "
                f"{len(launch.places)} groups at once, and the job had no time left to halve it",
            )
        else:
            outcome = "late" if launch.is_late else "done"
            for place in launch.places:
                self._end(place, round_, outcome, launch.why or "")

    def _refuse(self, launch: Launch, round_: int, why: str) -> None:
        for place in launch.places:
            self._end(place, round_, "refused", why)

    def _end(self, place: int, round_: int, outcome: str, why: str) -> None:
        event = {"event": "place", "place": place, "round": round_, "seconds": 0.0}
        self._writer.write({**event, "outcome": outcome, "why": why})

    # --- launches at once ---

    def _launch(self, launches: Sequence[Launch], bounds: Numbers) -> None:
        """Run the launches, several at once, and judge each: a number below its bound is bad."""
        for first in range(0, len(launches), AT_ONCE):
            started = [
                (launch, limit_s)
                for launch in launches[first : first + AT_ONCE]
                if (limit_s := self._limit_s(launch)) is not None
            ]
            calls = [self._start(launch, limit_s) for launch, limit_s in started]
            self._wait(calls, max((limit_s for _, limit_s in started), default=0.0))
            for (launch, limit_s), call in zip(started, calls):
                self._has_hung = self._has_hung or call.seconds >= limit_s
                self._judge(launch, call, bounds)

    def _limit_s(self, launch: Launch) -> float | None:
        """The limit of its ranks; None where too little time is left for a launch."""
        order = self._orders.orders[launch.order]
        is_short = self._has_hung or launch.parent is not None
        own = order.short_limit_s if is_short else order.ranks.run_limit_s
        left = self._deadline - time.monotonic() - START_S - HANG_S
        if left <= order.expected_s:
            launch.lacked = f": {order.expected_s:.0f} s were expected, {max(left, 0):.0f} s left"
            return None
        return float(min(own, left))

    def _hosts(self, launch: Launch) -> list[str]:
        """Of every rank, in their order."""
        places, count = self._orders.places, self._orders.ranks_per_node
        nodes = [node for place in launch.places for node in places[place].nodes]
        return [node for node in nodes for _ in range(count)]

    def _start(self, launch: Launch, limit_s: float) -> LauncherCall:
        launch.number, self._count = self._count, self._count + 1
        order, hosts = self._orders.orders[launch.order], self._hosts(launch)
        folder = Path.cwd() / f"launch{launch.number}"
        folder.mkdir()
        ranks = dataclasses.replace(order.ranks, run_limit_s=limit_s)
        if len(launch.places) > 1:
            each = {"ranks": str(len(hosts) // len(launch.places))}
            together = order.together or {}
            split = {name: filled([word], each)[0] for name, word in together.items()}
            ranks = dataclasses.replace(ranks, environment={**ranks.environment, **split})
        for name, content in {**order.files, _ORDERS: ranks.document()}.items():
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
        (folder / _HOSTS).write_text("".join(f"{host}\n" for host in hosts), encoding="utf-8")
        launcher = self._orders.launcher
        argv = filled(launcher.argv, {"folder": str(folder)})
        environment = dict(os.environ)
        if launcher.kind == "srun":
            # In this order, also where it is not Slurm's; --nodes would contradict it.
            argv += [f"--ntasks={len(hosts)}", "--distribution=arbitrary"]
            environment["SLURM_HOSTFILE"] = str(folder / _HOSTS)
            environment.update(slurm_job.as_if_of(set(hosts), self._job_nodes))
        else:
            argv += ["-np", str(len(hosts)), "--hostfile", str(folder / _HOSTS), "--map-by", "seq"]
        call = LauncherCall(folder, [*argv, *self._orders.program, _ORDERS], environment)
        self._running.append(call)
        return call

    def _wait(self, calls: Sequence[LauncherCall], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s + HANG_S + START_S
        while not all(call.ended for call in calls) and time.monotonic() < deadline:
            deadline += wait_for_any(calls, max(deadline - time.monotonic(), 0.0))
            for call in calls:
                if call.ended and not call.seconds:
                    call.wait(0)
        self.end("still running, ended")

    def end(self, note: str) -> None:
        """End all launchers that still run."""
        for call in self._running:
            call.end(note)
        self._running.clear()

    def close(self) -> None:
        self._readers.shutdown()
        self._cleaner.shutdown()

    # --- what a launch left ---

    def _judge(self, launch: Launch, call: LauncherCall, bounds: Numbers) -> None:
        folder = Path.cwd() / f"launch{launch.number}"
        launch.is_late = bool(call.note)
        hosts = self._hosts(launch)
        files = [folder / f"rank{rank}.json" for rank in range(len(hosts))]
        lines = list(self._readers.map(_document, files))
        text = _text(folder / "rank0.out")
        table = self._orders.orders[launch.order].table
        launch.why = rank_failure(lines, text, table.end if table else "") or call.note
        try:
            launch.numbers = largest(text, table) if table else {}
        except ValueError as error:
            launch.why = launch.why or str(error)
        self._bound(launch, bounds)
        words = _text(folder / "launcher.err")[:_WORDS]
        if words:
            print(words, file=sys.stderr, end="" if words.endswith("\n") else "\n", flush=True)
        self._keep(launch, call, folder, lines, text, words)

    @staticmethod
    def _bound(launch: Launch, bounds: Numbers) -> None:
        """Judge the numbers of a launch that is good otherwise."""
        if launch.why == "":
            launch.why = below_bound(launch.numbers, bounds)
            launch.is_low = bool(launch.why)

    def _keep(
        self,
        launch: Launch,
        call: LauncherCall,
        folder: Path,
        lines: Sequence[Document | None],
        text: str,
        words: str,
    ) -> None:
        """Move all that a launch left from its files, four a rank, into the record."""
        ranks_order = self._orders.orders[launch.order].ranks
        names = [name for name in (ranks_order.result, "hang.out") if name]
        self._writer.write(
            {
                "event": "launch",
                "launch": launch.number,
                "places": launch.places,
                "parent": launch.parent,
                "why": launch.why,
                "seconds": round(call.seconds, 3),
                "out": text,
                "err": words,
                "files": {n: text for n in names if (text := _text(folder / n))},
            }
        )
        each, logs = len(lines) // len(launch.places), ranks_order.logs
        for first in range(0, len(lines), _AT_A_TIME):
            ranks = range(first, min(first + _AT_A_TIME, len(lines)))
            there = [rank for rank in ranks if lines[rank] is not None]
            # As the rank is counted in its group.
            roles = [f"rank{rank % each}" for rank in there]
            left = self._readers.map(
                lambda rank, role: _left(folder, rank, role, logs), there, roles
            )
            for rank, role, texts in zip(there, roles, left):
                place = launch.places[rank // each]
                event = {"event": "side", "place": place, "role": role, "line": lines[rank]}
                self._writer.write({**event, **texts})
            self._writer.flush()
        if self._writer.problem is None:
            self._cleaner.submit(shutil.rmtree, folder, ignore_errors=True)


def best(launches: Iterable[Launch], spread: float) -> dict[str, float]:
    """The bounds of groups that are alike, from the best of the launches."""
    highest: dict[str, float] = {}
    for launch in launches:
        for metric, value in launch.numbers.items():
            highest[metric] = max(highest.get(metric, 0.0), value)
    return {metric: (1 - spread) * value for metric, value in highest.items()}


def _left(folder: Path, rank: int, role: str, logs: Sequence[str]) -> Document:
    """What a rank printed and logged, and its exit line."""
    own = f"rank{rank}"
    texts = {suffix: _text(folder / f"{own}{suffix}") for suffix in logs}
    return {
        "out": _text(folder / f"{own}.out"),
        "err": _text(folder / f"{own}.err"),
        "files": {f"{role}{suffix}": text for suffix, text in texts.items() if text},
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _document(path: Path) -> Document | None:
    """An exit line; None where it is not there, or not whole."""
    try:
        document = json.loads(_text(path))
    except ValueError:
        return None
    return document if isinstance(document, dict) and "call" in document else None


class _TerminatedError(Exception):
    pass


def _terminate(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _TerminatedError


def main() -> int:
    try:
        document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        orders = LaunchList.read(document, sys.argv[1])
        writer = results_file.Writer(results_file.FILE)
    except (OSError, ValueError) as error:
        print(f"launches: {error}", file=sys.stderr)
        return 2
    began, why, code = time.monotonic(), "", 0
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    writer.write({"event": "begin", "host": node_name(), "time": now, "nodes": orders.nodes})
    signal.signal(signal.SIGTERM, _terminate)
    driver = Driver(orders, writer)
    try:
        driver.run()
    except _TerminatedError:
        why, code = "SIGTERM", 143
    except OSError as error:
        why, code = f"{error.filename or 'a file'}: {error.strerror}", 1
        print(f"launches on {node_name()}: {why}", file=sys.stderr)
    finally:
        driver.end("ended with the job")
        driver.close()
        seconds = round(time.monotonic() - began, 3)
        writer.write({"event": "end", "seconds": seconds, "why": why})
        writer.close()
    if writer.problem is not None:
        print(
            f"launches: {results_file.FILE} in {Path.cwd()}: {writer.problem.strerror}",
            file=sys.stderr,
        )
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
