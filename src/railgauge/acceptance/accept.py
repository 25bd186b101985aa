"""`railgauge accept`: a ReFrame session as a campaign, more of them where it broke off, and the
verdict.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from railgauge import notify, paths, systems
from railgauge.acceptance import request, session
from railgauge.acceptance.follow import follow
from railgauge.campaign import folder as campaigns
from railgauge.campaign import variables
from railgauge.campaign.folder import (
    BEFORE,
    PLAN,
    REMAINING,
    STANDING,
    Campaign,
    Gate,
    Requested,
    RunningError,
    Scope,
    Session,
    State,
)
from railgauge.cluster import ready, store
from railgauge.cluster.look import FILTERS, from_reframe
from railgauge.common.atomic import write_json, write_text
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.hooks import Say
from railgauge.model import inventory, record, references, shares
from railgauge.model.record import BrokenRecordError, Remaining
from railgauge.report import page, text
from railgauge.report.feeds import junit, markdown
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.waiting import NOT_AVAILABLE
from railgauge.systems import expected, rehearsal
from railgauge.verdict.campaign.cases import fingerprints, remaining
from railgauge.verdict.decision.node_status import standings
from railgauge.verdict.decision.rules import decide
from railgauge.verdict.decision.verdict import Verdict

#: A campaign writes a few hundred kB a case; below this it would break off with half of them.
_NEEDED_BYTES = 64 * 2**20

#: A command that gets the paths of verdict.json and of the summary once a campaign is over.
VERDICT_VARIABLE = "RAILGAUGE_ON_VERDICT"

#: How long a session may take to cancel its jobs and to end if its `railgauge accept` was killed.
_ENDING_S = 60

#: How the files of a system's data end.
_DATA = (".yaml", ".json")


def run(
    system: str,
    chosen: Scope,
    nodes: str | None,
    gate: Gate,
    options: Sequence[str],
    command: list[str],
    say: Say,
    begun: Callable[[Campaign], None] = lambda _: None,
    owner: str | None = None,
    stop: Callable[[], str] = lambda: "",
) -> Verdict:
    """A new campaign of one session; `begun` gets it before anything runs. `owner` is set in a gate
    run or a patrol. `stop` is asked every few seconds why the session is
    to end, "" while it may go on. With variables.COMPARE it is compared with that campaign.

    Raises PrerequisiteError before anything has run where Slurm, the results area, or what the
    nodes see is unusable.
    """
    _require_configuration(system)
    request.require_schedule(system, chosen)
    _require_room()
    slurm_jobs.require_answer()
    _require_ready(system, chosen, options, say, owner)
    requested = Requested(
        options=list(options),
        environment=request.measured_by(chosen, nodes),
        judged_by=judged_by(system),
    )
    # A gate run knows more: its partners are as they were accepted.
    may_differ = chosen.tested or store.tested(system, chosen.nodes)
    chosen = dataclasses.replace(chosen, tested=may_differ)
    rates = _rates_of(requested.environment.get(variables.COMPARE))
    campaign = Campaign.create(system, gate, chosen, command, requested, owner)
    if rates is not None:
        write_json(campaign.folder / BEFORE, rates)
    say(f"campaign {campaign.id}")
    begun(campaign)
    try:
        with campaign.hold() as lock:
            return _session(campaign, lock, say, stop)
    except OSError as error:
        raise _no_room(campaign, error) from None


def compared_with(system: str, name: str) -> str:
    """The campaign that a new one is compared with, as it is recorded: `accepted` is the last
    accepted one. RailgaugeError where it cannot be compared.
    """
    other = campaigns.last_accepted(system) if name == "accepted" else campaigns.load(name)
    problem = ""
    if other.system != system:
        problem = f"it is of system {other.system}, and this is {system}"
    elif other.simulated:
        problem = "it is a rehearsal"
    elif other.state != "finished":
        problem = f"it is {other.state}, expected a finished one"
    if problem:
        raise RailgaugeError(
            f"--compare {name}: {problem}", next_step="railgauge campaigns lists them"
        )
    return str(other.folder.resolve()) if "/" in name else other.id


def _rates_of(name: str | None) -> record.Rates | None:
    """The rate at each place of the campaign that a new one is compared with."""
    if name is None:
        return None
    # Polars takes its time to load, which other campaigns need not wait for.
    from railgauge.verdict.comparison import regressions

    try:
        return regressions.rates(campaigns.load(name))
    except BrokenRecordError as error:
        raise RailgaugeError(str(error), next_step="compare with another campaign") from None


def resume(campaign: Campaign, command: list[str], say: Say, owner: str | None = None) -> Verdict:
    """Measure what a campaign that broke off still lacks, and decide on all of it.

    Scope, gate and options are those of its record. RailgaugeError, with nothing changed, where it
    is at its end, still running, another owner's, or would be judged by something else than before.
    """
    _require_owner(campaign, owner)
    _require_resumable(campaign)
    try:
        with _hold(campaign, say) as lock:
            # Read again: from here on no other process writes it.
            campaign = campaigns.load(str(campaign.folder))
            lacks = _require_something_missing(campaign)
            _require_configuration(campaign.system)
            _require_room()
            slurm_jobs.require_answer()
            if lacks is None or lacks.missing:
                requested = campaign.requested.options
                _require_ready(campaign.system, campaign.scope, requested, say, owner)
            for job in slurm_jobs.cancel_jobs_of(campaign.id):
                say(f"cancelled job {job}, which an earlier session had left")
            campaign.begin_again(command)
            say(f"campaign {campaign.id}")
            if lacks is None:
                say(f"session {campaign.sessions}: all cases")
                return _session(campaign, lock, say)
            lacks.write(campaign.session_folder(campaign.sessions) / REMAINING)
            if lacks.missing:
                count = len(lacks.missing)
                say(f"session {campaign.sessions}: {count} missing, and their nodes' preflight")
                return _session(campaign, lock, say)
            # All cases had ended; only the verdict was missing.
            before = campaign.earlier[-1].session
            ended = before is not None and not before.interrupted_by
            campaign.session = before if ended else Session(0, "")
            return _conclude(campaign, "finished", say)
    except OSError as error:
        raise _no_room(campaign, error) from None


def _require_configuration(system: str) -> None:
    """ConfigurationError for what would end the session before it has a plan: all systems and
    references, which ReFrame loads with this one's, and what this one's nodes must show.
    """
    for name in {*systems.names(), system}:
        systems.load(name)
        references.load(name)
    shares.of_every_system()
    expected.load(system)
    inventory.fabric_of(system)


def _require_owner(campaign: Campaign, owner: str | None) -> None:
    """A gate run's campaign runs in its reservation, and decides which nodes return; a patrol's is
    over with its budget.
    """
    if campaign.owner == owner:
        return
    own = [folder.name for folder in campaigns.all_folders() if _owner_in(folder) == owner]
    raise RailgaugeError(
        f"campaign {campaign.id} is that of {campaign.owner or 'railgauge accept'}, and only that "
        "continues it",
        next_step=campaign.next_command
        + (f"; the newest of accept: railgauge accept --resume {own[-1]}" if own else ""),
    )


def _owner_in(folder: Path) -> str | None:
    """The owner of the campaign in a folder; `unknown` if it cannot be read."""
    try:
        return campaigns.load(str(folder)).owner
    except RailgaugeError:
        return "unknown"


def _require_resumable(campaign: Campaign) -> None:
    """Raise RailgaugeError for what prevents a resume and no waiting changes."""
    if campaign.simulated is not None:
        raise RailgaugeError(
            f"campaign {campaign.id} is a rehearsal",
            next_step=f"railgauge rehearse {campaign.system}",
        )
    if campaign.recorded_id not in ("", campaign.id):
        raise RailgaugeError(
            f"{campaign.folder} is a copy or link of campaign {campaign.recorded_id}",
            next_step=f"railgauge accept --resume {campaign.recorded_id}",
        )
    host = campaign.context.get("host")
    if campaign.state == "running" and host != socket.gethostname() and campaign.lock_file.exists():
        raise RailgaugeError(
            f"campaign {campaign.id} ran on {host} as process {campaign.context.get('pid')}, and "
            "from here it cannot be seen whether it still does",
            next_step=f"resume it on {host}; or, once you are sure that {host} is down or has no "
            f"such process: rm {campaign.lock_file}",
        )
    before = campaign.requested.judged_by
    now = judged_by(campaign.system) | {path: _digest(Path(path)) for path in before}
    for path, digest in sorted(now.items()):
        if digest != before.get(path):
            raise RailgaugeError(
                f"{path} has changed since campaign {campaign.id} began: its cases would be judged "
                "by two of them",
                next_step="bring the file back as it was, or measure again: railgauge accept",
            )


@contextlib.contextmanager
def _hold(campaign: Campaign, say: Say) -> Iterator[int]:
    """The campaign's lock. A session that lost its `railgauge accept` is given time to end."""
    deadline = time.monotonic() + _ENDING_S
    warned = False
    while True:
        with contextlib.ExitStack() as stack:
            try:
                lock = stack.enter_context(campaign.hold())
            except RunningError:
                if campaign.process_lives or time.monotonic() > deadline:
                    raise
            else:
                yield lock
                return
        if not warned:
            say("waiting for the session that it had to end")
            warned = True
        time.sleep(0.5)


def _require_something_missing(campaign: Campaign) -> Remaining | None:
    """What is missing, None for all of it; RailgaugeError where the campaign is at its end."""
    try:
        lacks = remaining(campaign)
    except BrokenRecordError as error:
        raise RailgaugeError(str(error), next_step="measure again: railgauge accept") from None
    ended = campaign.state == "finished" and campaign.session is not None
    # Without a plan and at its end: nothing was selected.
    if ended and (lacks is None or not lacks.missing):
        verdict = decide(campaign)
        raise RailgaugeError(
            f"campaign {campaign.id} is finished, nothing is missing: "
            f"{verdict.decision.upper()} {verdict.reason}",
            next_step=f"railgauge verdict {campaign.id}, or measure again: railgauge accept",
        )
    return lacks


def judged_by(system: str) -> dict[str, str | None]:
    """The files that say what is measured and what is good, with their SHA-256: the system's data
    but what only the gate or the lab reads, the references, the checks, the settings, and Railgauge
    itself as one.
    """
    data = [path for path in paths.system_folder(system).glob("*") if path.suffix in _DATA]
    files = [
        references.file_of(system),
        *(path for path in data if path.name not in ("gate.yaml", "lab.yaml")),
        paths.SETTINGS,
        paths.LEAST_SHARES,
        *paths.CHECKS.glob("*.py"),
        paths.SOURCE / "railgauge",
    ]
    return {str(path): _digest(path) for path in sorted(files)}


def _digest(path: Path) -> str | None:
    """The SHA-256 of a file, or of all Python files below a folder; None where it is not there."""
    try:
        if not path.is_dir():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        of_all = hashlib.sha256()
        for file in sorted(path.rglob("*.py")):
            of_all.update(f"{file.relative_to(path)} {_digest(file)}\n".encode())
        return of_all.hexdigest()
    except FileNotFoundError:
        return None


def _no_room(campaign: Campaign, error: OSError) -> PrerequisiteError:
    return PrerequisiteError(
        f"{campaign.folder}: {error.strerror or error}: the campaign is not complete",
        next_step=f"make room in the results area, then: railgauge accept --resume {campaign.id}",
    )


def _session(
    campaign: Campaign, lock: int, say: Say, stop: Callable[[], str] = lambda: ""
) -> Verdict:
    """Run the campaign's last session, and leave a campaign that is complete or says why not."""
    number = campaign.sessions
    folder = campaign.session_folder(number)
    environment = {
        **request.environment(campaign.folder, campaign.requested.environment, number),
        session.PARENT_VARIABLE: str(os.getpid()),
    }
    try:
        code, interrupted = follow(
            request.command(campaign.gate, ["-r", *campaign.requested.options]),
            environment,
            folder / "reframe.out",
            say,
            keep_open=(lock,),
            waits=lambda: campaign.id in slurm_jobs.waiting_for_campaigns().values(),
            why=lambda: slurm_jobs.describe_jobs_of(campaign.id),
            stop=stop,
        )
    finally:
        for job in slurm_jobs.cancel_jobs_of(campaign.id):
            say(f"cancelled job {job}, which the session had left")
    output = (folder / "reframe.out").read_text(errors="replace")
    campaign.session = Session(code, request.last_error(output), interrupted)
    if not interrupted:
        _require_begun(campaign, output)
    if NOT_AVAILABLE in output:
        everyone = [node for members in campaign.scope.nodes.values() for node in members]
        campaign.unavailable = sorted({*campaign.unavailable, *slurm_nodes.dead(everyone)})
    return _conclude(campaign, "interrupted" if interrupted else "finished", say)


def _require_begun(campaign: Campaign, output: str) -> None:
    """PrerequisiteError where ReFrame did not come to its checks: of a configuration that it
    refuses, or an option that it does not know, nothing follows for any node. No campaign is left.
    """
    assert campaign.session is not None
    begun = (campaign.folder / PLAN).exists() or request.REFUSED in output
    if begun or campaign.session.exit_code <= 0:
        return
    last = [line for line in output.splitlines() if line.strip()][-1:]
    reason = campaign.session.last_error or "".join(last) or "it said nothing"
    shutil.rmtree(campaign.folder, ignore_errors=True)
    raise PrerequisiteError(
        f"ReFrame ended before it had a plan, and nothing was measured: {reason}",
        next_step="reframe --help: what stands behind -- is for ReFrame"
        if reason.startswith("reframe: error:")
        else f"railgauge system check {campaign.system}, and of each of the other systems: ReFrame "
        "loads them all",
    )


def _conclude(campaign: Campaign, state: State, say: Say) -> Verdict:
    """Decide, and write what follows; that the campaign is at its end is written last. Killed in
    between, it has broken off, and `resume` concludes it.
    """
    campaign.save()
    campaign.end(state)
    verdict = decide(campaign)
    campaign.fingerprints = fingerprints(verdict.cases)
    write_json(campaign.folder / "verdict.json", verdict.as_dict())
    write_text(campaign.folder / "verdict.txt", text.plain(verdict))
    for name, nodes in (("failing", verdict.failing_nodes), ("passing", verdict.passing_nodes)):
        write_text(campaign.folder / f"{name}_nodes.txt", "".join(f"{node}\n" for node in nodes))
    record.write_standings(campaign.folder / STANDING, standings(verdict))
    campaign.save()
    _write_reports(verdict, say)
    if not verdict.simulated:
        # By the key of its last session the verdict is one message, also if it is concluded again.
        key = notify.key_of(campaign.id, str(campaign.sessions))
        files = [str(campaign.folder / name) for name in ("verdict.json", markdown.FILE)]
        notify.send(VERDICT_VARIABLE, files, key, say)
    return verdict


def _write_reports(verdict: Verdict, say: Say) -> None:
    """Whatever keeps one from being written changes no verdict, which is written already."""
    # Polars takes its time to load, which `--plan` need not wait for.
    from railgauge.verdict.comparison import measurement_table

    campaign = verdict.campaign

    def with_text(name: str, make: Callable[[Verdict], str]) -> Callable[[], object]:
        return lambda: write_text(campaign.folder / name, make(verdict))

    again = f"try: railgauge report {campaign.id}"
    for name, write, then in (
        (
            measurement_table.FILE,
            lambda: measurement_table.write(campaign, verdict.cases),
            "compare writes it if need be",
        ),
        (page.FILE, with_text(page.FILE, page.html), again),
        (junit.FILE, with_text(junit.FILE, junit.xml), again),
        (markdown.FILE, with_text(markdown.FILE, markdown.markdown), again),
    ):
        try:
            write()
        except Exception as error:
            say(f"{name} was not written: {error!r}; {then}")


def _require_room() -> None:
    root = paths.results_root()
    existing = next(folder for folder in (root, *root.parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if free < _NEEDED_BYTES:
        raise PrerequisiteError(
            f"the results area {root} has {free / 2**20:.0f} MiB free, a campaign needs "
            f"{_NEEDED_BYTES / 2**20:.0f} MiB",
            next_step="make room, or set RAILGAUGE_RESULTS to another shared folder",
        )


def _require_ready(
    system: str, chosen: Scope, options: Sequence[str], say: Say, owner: str | None
) -> None:
    """Check that the nodes see what the checks need there; not in a rehearsal: its stand-ins run
    on other nodes. In a gate run or a patrol the checks themselves say of a node that it lacks a
    tool, as it must not keep the others from being tested.
    """
    if rehearsal.scenario() is not None:
        return
    # Of a filter only ReFrame knows whether it leaves MPI in.
    with_mpi = () if any(word.startswith(FILTERS) for word in options) else chosen.nodes
    tools = ready.none
    if not owner:
        # ReFrame is loaded here only, as this takes half a second.
        from railgauge.site.check import checks

        tools = functools.partial(checks.needed, options=options)
    # With this variable a node that is busy is left out, and nothing waits for it.
    own = () if variables.IDLE in os.environ else slurm_jobs.own_nodes()
    ready.require(system, chosen.nodes, from_reframe(options), say, with_mpi, tools, own)
