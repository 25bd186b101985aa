"""A campaign: one acceptance run, as a folder that holds all that it saw.

campaign.json   what was asked, of what, when, by whom, and how it ended
plan.json       the test cases that ReFrame selected
leaves.json     the leaf of each node, by partition, where that is known
static_routes.json  the partitions in which data takes the routes of the forwarding tables
routes.json     the routes between leaves, by partition, where extras.fabric.routes prints them
possible.json   how many there are of each check, without a filter
report.json     ReFrame's report
reframe.out     ReFrame's output;  reframe.log  its log
stage/          every case's script, tool outputs of both sides (raw.jsonl.gz) and
                railgauge.jsonl, what was made of them place by place
ended/          how each case came to its end, also where ReFrame wrote no report
verdict.json    the verdict;  verdict.txt  the same for people;  report.html  as a page;
                junit.xml  for CI;  summary.md  for a ticket
failing_nodes.txt, passing_nodes.txt   who is at fault for sure, and who passed
before.json     what went at each place in the campaign that it is compared with
standing.json   what it says of each node, for `railgauge coverage`
lock            held by the processes that work on it
sessions/2/     where it broke off and was resumed: the same of its second ReFrame session, whose
                plan.json has what this session ran, and remaining.json what was missing

What a session left is never touched by the next one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import getpass
import json
import os
import re
import secrets
import shlex
import socket
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pydantic

from railgauge import paths, version
from railgauge.campaign import variables
from railgauge.common.atomic import write_json
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.processes import Process, boot_id
from railgauge.systems import rehearsal

State = Literal["running", "finished", "interrupted"]
Gate = Literal["acceptance", "baseline"]

#: The cases that ReFrame selected, and how many there are without a filter.
PLAN = "plan.json"
POSSIBLE = "possible.json"
#: Partition -> leaf -> its nodes, where that is known.
LEAVES = "leaves.json"
#: Node -> device -> its switch and the port of it, where the system's data says so.
SWITCH_PORTS = "switch_ports.json"
#: The partitions in which data takes the routes of the forwarding tables, as described.
STATIC_ROUTES = "static_routes.json"
#: Partition -> the routes between leaves that extras.fabric.routes printed, or why it did not.
ROUTES = "routes.json"
#: What each test case leaves in its stage folder.
RESULT_FILE = "railgauge.jsonl"
#: What a campaign that has ended says of each node.
STANDING = "standing.json"
#: The folder of a session that has the ends of its cases.
ENDED = "ended"
#: What went at each place in the campaign that this one is compared with.
BEFORE = "before.json"
#: Once this file has something in it, a sweep that runs ends before its end.
ENOUGH = "enough"
#: What a resumed session is to run.
REMAINING = "remaining.json"

#: The owner of a patrol's campaigns, and the command that makes one.
PATROL = "railgauge patrol"

#: A campaign's name: when it began (UTC), its system, and what tells it from others.
_NAME = re.compile(r"(?P<began>[0-9]{8}T[0-9]{6}Z)-(?P<system>[A-Za-z0-9_.-]+)-[0-9a-f]{6}")
_BEGAN = "%Y%m%dT%H%M%SZ"

#: The options of `railgauge accept` that say which part of which system is measured.
_OF_THE_SYSTEM = ("--system", "--partition")
#: Those that say which nodes, and how they are measured; no filter of places.
_OF_THE_NODES = ("--nodes", "--mode", "--runs", "--schedule", "--seed")

#: So far the clocks of two hosts may differ.
_CLOCKS = datetime.timedelta(minutes=5)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


@dataclasses.dataclass(frozen=True)
class Scope:
    """What a verdict is about: per partition the nodes, and the checks that must cover them all."""

    nodes: dict[str, list[str]]
    required: dict[str, list[str]]
    #: what the system's data declares missing, and why: `n7`, `n3 mlx5_5`
    absent: dict[str, str] = dataclasses.field(default_factory=dict)
    #: nodes that a gate run tests after a change: among themselves they must agree
    updated: list[str] = dataclasses.field(default_factory=list)
    #: the fingerprints that were accepted of these before: as it was, a node was not updated
    accepted: dict[str, str] = dataclasses.field(default_factory=dict)
    #: fields in which nodes may differ that a gate run accepted before, or has as partners
    tested: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Session:
    """How the campaign's ReFrame session ended; `last_error` is its last line of that kind."""

    exit_code: int
    last_error: str
    #: a signal, or that no case ended for too long, and what Slurm said then
    interrupted_by: str = ""


@dataclasses.dataclass(frozen=True)
class Requested:
    """What a resumed session needs to select the same cases, and to judge them the same way."""

    options: list[str]
    #: variables that say what is measured; None for one that was not set
    environment: dict[str, str | None]
    #: files that the cases are judged by -> SHA-256 of the content, None for one that was not there
    judged_by: dict[str, str | None]


@dataclasses.dataclass(frozen=True)
class Earlier:
    """A session that another one followed; `session` is None where its end is not known."""

    state: State
    context: dict[str, Any]
    session: Session | None
    finished: str | None


@dataclasses.dataclass
class Campaign:
    """One campaign's folder and record.

    `state`, `context` and `session` are of its last ReFrame session, `earlier` has those before.
    """

    folder: Path
    system: str
    gate: Gate
    scope: Scope
    requested: Requested
    state: State = "running"
    started: str = ""
    finished: str | None = None
    context: dict[str, Any] = dataclasses.field(default_factory=dict)
    session: Session | None = None
    #: nodes that did not answer Slurm when the session ended
    unavailable: list[str] = dataclasses.field(default_factory=list)
    #: what stands for the firmware and tuning of each node, where its inventory was taken
    fingerprints: dict[str, str] = dataclasses.field(default_factory=dict)
    #: the scenario of a rehearsal: stand-ins were run, nothing here is a measurement
    simulated: str | None = None
    #: whose campaign it is where that is a gate run or a patrol: nobody else goes on with it
    owner: str | None = None
    earlier: list[Earlier] = dataclasses.field(default_factory=list)
    #: by its record; a copy may lie in a folder of another name
    recorded_id: str = dataclasses.field(default="", compare=False)

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def first_id(self) -> str:
        """Its id as it was measured: by its record, and that of a copy under another name too; but
        no folder has the name of another campaign.
        """
        return self.id if _NAME.fullmatch(self.id) else self.recorded_id or self.id

    @property
    def next_command(self) -> str:
        """The command that measures what it lacks: continues it, or starts a new campaign."""
        if self.simulated is not None:
            return f"railgauge rehearse {self.system}"
        if self.owner == PATROL:
            return PATROL
        if self.owner is not None:
            return "railgauge gate run --act"
        return f"railgauge accept --resume {self.id}"

    @property
    def accept_command(self) -> str:
        """What measures the same partition, without the nodes and filters that were typed."""
        return self._typed(_OF_THE_SYSTEM)

    @property
    def whole_command(self) -> str:
        """What measures all of it again, without the filters that were typed."""
        if self.owner is not None or self.simulated is not None:
            return self.next_command
        return self._typed((*_OF_THE_SYSTEM, *_OF_THE_NODES))

    def _typed(self, options: Sequence[str]) -> str:
        words = [str(word) for word in self.contexts[0].get("command", ())]
        kept = [word for name in options for word in _given(words, name)]
        return shlex.join(["railgauge", "accept", *kept])

    @property
    def compared_with(self) -> str | None:
        """The campaign, an id or a path, that it is compared with at its end."""
        return self.requested.environment.get(variables.COMPARE)

    @property
    def sessions(self) -> int:
        """How many ReFrame sessions it has had."""
        return len(self.earlier) + 1

    def session_folder(self, number: int) -> Path:
        return paths.session_in(self.folder, number)

    @property
    def contexts(self) -> list[dict[str, Any]]:
        """Of every session: commit, host, command, ..."""
        return [*(session.context for session in self.earlier), self.context]

    def ended_well(self, number: int) -> bool:
        """Whether that session is known to have come to its own end, without an error."""
        last = number > len(self.earlier)
        state, session = (
            (self.state, self.session)
            if last
            else (self.earlier[number - 1].state, self.earlier[number - 1].session)
        )
        return state == "finished" and session is not None and session.exit_code == 0

    @classmethod
    def create(
        cls,
        system: str,
        gate: Gate,
        scope: Scope,
        command: list[str],
        requested: Requested,
        owner: str | None = None,
    ) -> Campaign:
        """A new folder under the results root, marked as running."""
        now = datetime.datetime.now(datetime.timezone.utc)
        name = f"{now:{_BEGAN}}-{system}-{secrets.token_hex(3)}"
        folder = campaigns_folder() / name
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise PrerequisiteError(
                f"{folder.parent}: cannot make a campaign's folder: {error.strerror}",
                next_step="make room, or set RAILGAUGE_RESULTS to a folder that can be written "
                "and that the compute nodes share",
            ) from None
        happening = rehearsal.scenario()
        simulated = str(happening) if happening else None
        campaign = cls(
            folder, system, gate, scope, requested, started=_now(), simulated=simulated, owner=owner
        )
        campaign.context = _context(command)
        campaign.save()
        return campaign

    def begin_again(self, command: list[str]) -> None:
        """Another session, after one that broke off."""
        (self.folder / ENOUGH).unlink(missing_ok=True)
        self.earlier.append(Earlier(self.state, self.context, self.session, self.finished))
        self.state, self.context = "running", _context(command)
        self.session, self.finished = None, None
        self.session_folder(self.sessions).mkdir(parents=True, exist_ok=True)
        self.save()

    def save(self) -> None:
        write_json(
            self.folder / "campaign.json",
            {
                "id": self.first_id,
                "system": self.system,
                "gate": self.gate,
                "simulated": self.simulated,
                "owner": self.owner,
                "scope": dataclasses.asdict(self.scope),
                "state": self.state,
                "started": self.started,
                "finished": self.finished,
                "context": self.context,
                "unavailable": self.unavailable,
                "fingerprints": self.fingerprints,
                "session": dataclasses.asdict(self.session) if self.session else None,
                "requested": dataclasses.asdict(self.requested),
                "earlier": [dataclasses.asdict(session) for session in self.earlier],
            },
        )

    def end(self, state: State) -> None:
        """Mark it as ended; saved to disk only after everything that follows from its end."""
        self.state, self.finished = state, _now()

    @property
    def lock_file(self) -> Path:
        return self.folder / "lock"

    @contextlib.contextmanager
    def hold(self) -> Iterator[int]:
        """Take the campaign's lock; the descriptor is passed on to the session's process.

        It is held as long as any process has the descriptor, however the others ended. RunningError
        where another one has it.
        """
        with self.lock_file.open("a", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES) or self.process_lives:
                    raise RunningError(self) from None
                # A file system without locks: the process that is recorded must do.
            yield stream.fileno()

    @property
    def process_lives(self) -> bool:
        """Whether the recorded process of this host is there. Its number may be another's by now;
        when it started tells them apart, in a boot of the machine.
        """
        if self.context.get("host") != socket.gethostname():
            return False
        try:
            os.kill(int(self.context["pid"]), 0)
        except (LookupError, ValueError, ProcessLookupError):
            return False
        except PermissionError:
            pass
        if int(self.context["pid"]) == os.getpid():
            return False
        began = self.context.get("boot_id"), self.context.get("start_ticks")
        there = _began(int(self.context["pid"]))
        # Of a process that it may not see this user is told nothing.
        known = [pair for pair in zip(began, there, strict=True) if None not in pair]
        return all(then == now for then, now in known)

    @property
    def broke_off(self) -> bool:
        """Whether it has not ended, and nothing on this host works on it."""
        if self.state != "running" or self.context.get("host") != socket.gethostname():
            return False
        if not self.lock_file.exists():
            return not self.process_lives
        try:
            with self.hold():
                return True
        except (OSError, RunningError):
            return False


def _began(pid: int) -> tuple[str | None, int | None]:
    """The boot of this machine, and the start of a process in it; None of what is not told."""
    boot = process = None
    # In a container without that file, or of another user's processes where /proc hides them.
    with contextlib.suppress(OSError):
        boot = boot_id()
    with contextlib.suppress(OSError):
        process = Process.of(pid)
    return boot, process.start_ticks if process else None


def _given(words: Sequence[str], option: str) -> Sequence[str]:
    """An option of a command with its value; nothing where it was not given."""
    words = words[: words.index("--")] if "--" in words else words
    for place, word in enumerate(words):
        if word == option:
            return words[place : place + 2]
        if word.startswith(f"{option}="):
            return [word]
    return []


def _context(command: list[str]) -> dict[str, Any]:
    program = version.current()
    return {
        "railgauge": program.number,
        "commit": program.commit,
        "host": socket.gethostname(),
        "user": getpass.getuser(),
        "pid": os.getpid(),
        **dict(zip(("boot_id", "start_ticks"), _began(os.getpid()), strict=True)),
        "command": command,
        "references": str(paths.references_folder()),
        "started": _now(),
    }


class RunningError(RailgaugeError):
    """Another process works on the campaign."""

    def __init__(self, campaign: Campaign) -> None:
        host, pid = (campaign.context.get(name, "unknown") for name in ("host", "pid"))
        super().__init__(
            f"campaign {campaign.id} is still running: process {pid} on {host}, or the ReFrame "
            "session that it started",
            next_step=f"wait for it, or end it on {host} with: kill -INT {pid}",
        )


_RECORD = pydantic.TypeAdapter(Campaign)

_OTHERS = "railgauge accept starts a new one; railgauge campaigns has the others"


def campaigns_folder() -> Path:
    folder = paths.results_root() / "campaigns"
    paths.require_folder(folder, "the folder of all campaigns")
    return folder


def load(name: str) -> Campaign:
    """The campaign of that id, or path; `latest` is the newest one."""
    if name == "latest":
        name = next((folder.name for folder in reversed(all_folders())), name)
    folder = Path(name) if "/" in name else campaigns_folder() / name
    record = folder / "campaign.json"
    try:
        fields = json.loads(record.read_text(encoding="utf-8"))
        known_fields = {f.name for f in dataclasses.fields(Campaign)}
        return _RECORD.validate_python(
            {
                **{k: v for k, v in fields.items() if k in known_fields},
                "folder": folder,
                "recorded_id": fields.get("id", ""),
            }
        )
    except FileNotFoundError:
        if record.is_symlink():
            raise RailgaugeError(
                f"{record} is a link to nothing, expected a campaign's record",
                next_step=_OTHERS,
            ) from None
        known = [folder.name for folder in all_folders()]
        newest = f"; the newest is {known[-1]}" if known else ""
        raise RailgaugeError(
            f"no campaign {name!r} in {campaigns_folder()} ({len(known)} there{newest})",
            next_step="railgauge campaigns",
        ) from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RailgaugeError(
            f"{record}: {place}: {first['msg']}, expected a campaign's record",
            next_step=_OTHERS,
        ) from None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "not the JSON of one"
        raise RailgaugeError(
            f"{record}: {why}, expected a campaign's record", next_step=_OTHERS
        ) from None


def all_folders() -> list[Path]:
    """The folders of all campaigns under the results root, oldest first; before them those that are
    dated in the future.
    """
    found = (path for path in campaigns_folder().glob("*") if _NAME.fullmatch(path.name))
    return sorted(found, key=lambda path: (not in_future(path.name), path.name))


def in_future(name: str, now: datetime.datetime | None = None) -> bool:
    """Whether a campaign or patrol is dated in the future, by its name: some clock was wrong, and
    when it was is not known. So it counts as older than all others.
    """
    now = now or datetime.datetime.now(datetime.timezone.utc)
    return name[:16] > f"{now + _CLOCKS:{_BEGAN}}"


def future_words(names: Iterable[str]) -> str:
    """Which of these campaigns are dated in the future, in words; "" for none."""
    future = [name for name in names if in_future(name)]
    if not future:
        return ""
    return f"dated in the future by a clock that was wrong: {', '.join(future)}"


def folders_of(system: str) -> list[Path]:
    """Those of one system's campaigns, by their names, oldest first."""
    return [folder for folder in all_folders() if _named(folder.name)["system"] == system]


def began(name: str) -> datetime.datetime:
    """When a campaign began (UTC), by its name."""
    when = datetime.datetime.strptime(_named(name)["began"], _BEGAN)
    return when.replace(tzinfo=datetime.timezone.utc)


def _named(name: str) -> re.Match[str]:
    match = _NAME.fullmatch(name)
    assert match is not None, f"{name} is no campaign's name"
    return match


def decision(campaign: Campaign) -> str | None:
    """The decision of its verdict; None where it has none yet."""
    path = campaign.folder / "verdict.json"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["verdict"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise RailgaugeError(
            f"{path}: not a verdict: {error}", next_step=f"railgauge verdict {campaign.id}"
        ) from None


def measured_of(system: str) -> Iterator[Campaign]:
    """The campaigns of a system that are no rehearsals, the newest first."""
    for folder in reversed(folders_of(system)):
        with contextlib.suppress(RailgaugeError):
            campaign = load(str(folder))
            if campaign.system == system and not campaign.simulated:
                yield campaign


def latest_of(system: str) -> Campaign | None:
    """The newest one of a system that came to its end."""
    return next((one for one in measured_of(system) if one.state == "finished"), None)


def last_accepted(system: str, besides: Collection[str] = (), before: str = "") -> Campaign:
    """The newest campaign that accepted nodes of a system, of all or of those that began before
    that one; RailgaugeError where there is none.
    """
    for campaign in measured_of(system):
        later = before and campaign.id >= before
        if campaign.id in besides or later or campaign.gate != "acceptance":
            continue
        with contextlib.suppress(RailgaugeError):
            if decision(campaign) == "accept":
                return campaign
    raise RailgaugeError(
        f"no other campaign in {campaigns_folder()} accepted nodes of {system}",
        next_step="railgauge campaigns lists them",
    )
