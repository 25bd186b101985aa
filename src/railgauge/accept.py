"""`railgauge accept`: one ReFrame session as a campaign, and its verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from railgauge import hostlist, paths, references, rehearsal, slurm, systems
from railgauge.atomic import write_json, write_text
from railgauge.campaign import Campaign, Gate, Scope, Session
from railgauge.checks import guard
from railgauge.checks.pair import NODES_VARIABLE
from railgauge.errors import EnvironmentProblem, RailgaugeError
from railgauge.report import text
from railgauge.verdict.rules import Verdict, decide

#: A campaign writes a few hundred kB a case; below this it would break off with half of them.
_NEEDED_BYTES = 64 * 2**20

_FINISHED = re.compile(
    r"\[\s+(?P<word>OK|FAIL|ABORT|SKIP)\s*\]\s*\(\s*(?P<done>\d+)/(?P<all>\d+)\)"
)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

Say = Callable[[str], None]


def scope(system: str, partition: str | None, nodes: str | None) -> Scope:
    """What the verdict will be about. RailgaugeError for unknown partitions or nodes."""
    description = systems.load(system)
    partitions = [description.partition(partition)] if partition else description.partitions
    known = {name for p in partitions for name in p.nodes}
    wanted = known
    if nodes is not None:
        try:
            wanted = set(hostlist.expand(nodes))
        except ValueError as error:
            raise RailgaugeError(f"--nodes {nodes}: {error}") from None
        strangers = sorted(wanted - known)
        if strangers:
            raise RailgaugeError(
                f"--nodes {nodes}: {hostlist.fold(strangers)} not in {system} "
                f"({hostlist.fold(known)})"
            )
    chosen = {p.name: [n for n in p.nodes if n in wanted] for p in partitions}
    chosen = {name: members for name, members in chosen.items() if members}
    required = {p.name: list(p.extras.required) for p in partitions if p.name in chosen}
    absent = {
        " ".join([missing.node, *missing.devices]): missing.why
        for p in partitions
        for missing in p.extras.absent
    }
    return Scope(nodes=chosen, required=required, absent=absent)


def _environment(target: Path, chosen: Scope, nodes: str | None) -> dict[str, str]:
    """What the ReFrame session of a campaign in `target` is told."""
    wanted = {NODES_VARIABLE: hostlist.fold(n for m in chosen.nodes.values() for n in m)}
    return {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "RFM_COLORIZE": "no",
        paths.CAMPAIGN_VARIABLE: str(target),
        **(wanted if nodes else {}),
    }


def _mark() -> list[str]:
    """For ReFrame's own report and history."""
    happening = rehearsal.scenario()
    return ["--session-extras", f"simulated={happening}"] if happening else []


def _checks() -> list[Path]:
    """Where the checks are; in a rehearsal those that have stand-ins."""
    if rehearsal.scenario() is None:
        return [paths.CHECKS]
    return [paths.CHECKS / name for name in ("nccl.py", "transfers.py")]


def _command(gate: Gate, options: Sequence[str]) -> list[str]:
    return [
        *(sys.executable, "-m", "railgauge.session"),
        *(word for path in _checks() for word in ("-c", str(path))),
        *("--mode", gate, *_mark(), *options),
    ]


def plan(chosen: Scope, nodes: str | None, gate: Gate, options: Sequence[str]) -> Any:
    """The test cases that a campaign would run, as plan.json has them; nothing is submitted."""
    with tempfile.TemporaryDirectory(prefix="railgauge-plan-") as folder:
        answer = subprocess.run(
            _command(gate, ["--dry-run", *options]),
            env={**_environment(Path(folder), chosen, nodes), guard.PLAN_ONLY_VARIABLE: "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        try:
            return json.loads((Path(folder) / "plan.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RailgaugeError(_last_error(answer.stdout) or answer.stdout) from None


def run(
    system: str,
    chosen: Scope,
    nodes: str | None,
    gate: Gate,
    options: Sequence[str],
    command: list[str],
    say: Say,
) -> Verdict:
    """Run the session, and leave a campaign that is complete or says why it is not.

    Raises EnvironmentProblem before anything has run where Slurm or the results area is unusable.
    """
    references.load(system)
    _require_room()
    slurm.require_answer()
    campaign = Campaign.create(system, gate, chosen, command)
    say(f"campaign {campaign.id}")
    environment = _environment(campaign.folder, chosen, nodes)
    try:
        try:
            code, interrupted = _follow(
                _command(gate, ["-r", *options]), environment, campaign.folder / "reframe.out", say
            )
        finally:
            for job in slurm.cancel_jobs_of(campaign.id):
                say(f"cancelled job {job}, which the session had left")
        output = (campaign.folder / "reframe.out").read_text(errors="replace")
        campaign.session = Session(code, _last_error(output))
        if "ReqNodeNotAvail" in output:
            everyone = [node for members in chosen.nodes.values() for node in members]
            campaign.unavailable = slurm.unavailable(everyone)
        campaign.end("interrupted" if interrupted else "finished")
        verdict = decide(campaign)
        write_json(campaign.folder / "verdict.json", verdict.as_dict())
        write_text(campaign.folder / "verdict.txt", text.plain(verdict))
    except OSError as error:
        raise EnvironmentProblem(
            f"{campaign.folder}: {error.strerror or error}: the campaign is not complete",
            next_step="make room in the results area, then: railgauge accept",
        ) from None
    return verdict


def _require_room() -> None:
    root = paths.results_root()
    existing = next(folder for folder in (root, *root.parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if free < _NEEDED_BYTES:
        raise EnvironmentProblem(
            f"the results area {root} has {free / 2**20:.0f} MiB free, a campaign needs "
            f"{_NEEDED_BYTES / 2**20:.0f} MiB",
            next_step="make room, or set RAILGAUGE_RESULTS to another shared folder",
        )


class _Interrupt:
    """Passes the first SIGINT, SIGTERM or SIGHUP on to the session as the Ctrl-C it understands.

    The session runs in a process group of its own, so that a Ctrl-C at the terminal reaches it
    once; ReFrame cancels its jobs at the first and gives up at the second.
    """

    def __init__(self, process: subprocess.Popen[str], say: Say) -> None:
        self.process = process
        self.say = say
        self.seen = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.stop(signal.Signals(number).name)

    def stop(self, why: str) -> None:
        if not self.seen:
            self.seen = True
            self.say(f"{why}: cancelling the jobs, keeping what there is")
            self.process.send_signal(signal.SIGINT)


class _Watchdog:
    """Stops a session in which no case ends within the longest time that one may take.

    A controller that crashed may forget a job, which accounting then shows as running for ever,
    and ReFrame waits as long.
    """

    #: For Slurm's own work around a job: launch, kill, accounting.
    MARGIN_S = 120

    def __init__(self, plan: Path, interrupt: _Interrupt) -> None:
        self.plan = plan
        self.interrupt = interrupt
        self._timer: threading.Timer | None = None

    def restart(self) -> None:
        self.stop()
        try:
            cases = json.loads(self.plan.read_text(encoding="utf-8"))
            limit = max(float(case["limit_s"]) for case in cases) + self.MARGIN_S
        except (OSError, ValueError, LookupError):
            return
        self._timer = threading.Timer(
            limit, self.interrupt.stop, [f"no case has ended for {limit:.0f} s"]
        )
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _follow(
    command: list[str], environment: Mapping[str, str], log: Path, say: Say
) -> tuple[int, bool]:
    """Run the session, keep its output, tell its progress. (exit code, was it interrupted)"""
    with log.open("w", encoding="utf-8") as keep:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            with _Interrupt(process, say) as interrupt:
                assert process.stdout is not None
                watchdog = _Watchdog(log.with_name("plan.json"), interrupt)
                for line in process.stdout:
                    keep.write(_ESCAPES.sub("", line))
                    keep.flush()
                    if "start processing checks" in line:
                        watchdog.restart()
                    for progress in _progress(line):
                        say(progress)
                        watchdog.restart()
                code = process.wait()
                watchdog.stop()
                return code, interrupt.seen
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _progress(line: str) -> Iterator[str]:
    found = _FINISHED.search(line)
    if found:
        name = line[found.end() :].strip().split(" /", 1)[0]
        yield f"{found['done']:>3}/{found['all']} {found['word'].lower():<5} {name}"


def _last_error(output: str) -> str:
    lines = [_ESCAPES.sub("", line) for line in output.splitlines()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    readable = [line for line in errors if not line.startswith("Traceback")]
    return readable[-1].removeprefix("run session stopped: reframe error: ") if readable else ""
