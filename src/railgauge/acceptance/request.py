"""What a campaign is asked for: its nodes, the ReFrame session that measures it, and the
cases that such a session would run.

Light: what reads records and decides takes its time to load, and a plan needs none of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from railgauge import hostlist, paths, systems
from railgauge.acceptance.follow import plain
from railgauge.campaign import variables
from railgauge.campaign.folder import PLAN, Gate, Scope
from railgauge.checks.framework import schedule
from railgauge.common.errors import RailgaugeError
from railgauge.model import record
from railgauge.model.record import Listed
from railgauge.systems import rehearsal

#: How the guard's own words begin: it saw the checks, and refused the session.
REFUSED = "run session stopped: reframe error: "


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
            raise RailgaugeError(
                f"--nodes {nodes}: {error}", next_step=f"--nodes '{hostlist.fold(known)}'"
            ) from None
        unknown = sorted(wanted - known)
        if unknown:
            raise RailgaugeError(
                f"--nodes {nodes}: {hostlist.fold(unknown)} not in {system} "
                f"({hostlist.fold(known)})",
                next_step=f"--nodes '{hostlist.fold(known)}', or some of them",
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


def measured_by(chosen: Scope, nodes: str | None) -> dict[str, str | None]:
    """The environment variables that say what is measured."""
    given = dict(os.environ)
    if nodes:
        given[variables.NODES] = hostlist.fold(n for m in chosen.nodes.values() for n in m)
    return {name: given.get(name) for name in variables.MEASURED_BY}


def environment(
    folder: Path, measured_by: Mapping[str, str | None], number: int = 1
) -> dict[str, str]:
    """The environment of a ReFrame session of a campaign in `folder`."""
    given = {
        **os.environ,
        **measured_by,
        "PYTHONUNBUFFERED": "1",
        "RFM_COLORIZE": "no",
        paths.CAMPAIGN_VARIABLE: str(folder),
        paths.SESSION_VARIABLE: str(number),
    }
    return {name: value for name, value in given.items() if value is not None}


def command(gate: Gate, options: Sequence[str]) -> list[str]:
    """A guarded ReFrame session of all checks; in a rehearsal of those that have stand-ins."""
    checks, extras = [paths.CHECKS], []
    if happening := rehearsal.scenario():
        checks = [paths.CHECKS / name for name in ("nccl.py", "transfers.py")]
        # For ReFrame's own report and history.
        extras = ["--session-extras", f"simulated={happening}"]
    return [
        *(sys.executable, "-m", "railgauge.acceptance.session"),
        *(word for path in checks for word in ("-c", str(path))),
        *("--mode", gate, *extras, *options),
    ]


def plan(
    system: str, chosen: Scope, nodes: str | None, gate: Gate, options: Sequence[str]
) -> tuple[Listed, ...]:
    """The cases that a campaign would run; nothing is submitted."""
    require_schedule(system, chosen)
    with tempfile.TemporaryDirectory(prefix="railgauge-plan-") as folder:
        answer = subprocess.run(
            command(gate, ["--dry-run", *options]),
            env={
                **environment(Path(folder), measured_by(chosen, nodes)),
                variables.PLAN_ONLY: "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        listed = record.read_list(Path(folder) / PLAN)
        if listed is None:
            raise RailgaugeError(last_error(answer.stdout) or answer.stdout)
        return listed


def require_schedule(system: str, chosen: Scope) -> None:
    """RailgaugeError where a partition cannot be measured by the schedule that is asked for."""
    description = systems.load(system)
    problem = schedule.first_problem(
        description.partition(name).of_nodes(members) for name, members in chosen.nodes.items()
    )
    if problem is not None:
        raise problem


def last_error(output: str) -> str:
    """The last error that a session printed, "" where it printed none."""
    lines = [plain(line) for line in output.splitlines()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    readable = [line for line in errors if not line.startswith("Traceback")]
    return readable[-1].removeprefix(REFUSED) if readable else ""
