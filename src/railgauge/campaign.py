"""A campaign: one acceptance run, as a folder that holds all that it saw.

campaign.json   what was asked, of what, when, by whom, and how it ended
plan.json       the test cases that ReFrame selected
possible.json   how many there are of each check, without a filter
report.json     ReFrame's report;  junit.xml  the same for CI
reframe.out     ReFrame's output;  reframe.log  its log
stage/          every case's script, tool outputs of both sides and railgauge.json
verdict.json    the verdict;  verdict.txt  the same for people
"""

from __future__ import annotations

import dataclasses
import datetime
import getpass
import json
import os
import re
import secrets
import socket
import subprocess
from pathlib import Path
from typing import Any, Literal

import pydantic

from railgauge import __version__, paths, rehearsal
from railgauge.atomic import write_json
from railgauge.errors import EnvironmentProblem, RailgaugeError

State = Literal["running", "finished", "interrupted"]
Gate = Literal["acceptance", "baseline"]

_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[A-Za-z0-9_.-]+-[0-9a-f]{6}")


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _commit() -> str:
    """The checkout's commit, with `+changes` if files differ from it; `unknown` outside git."""
    command = ["git", "-C", str(paths.HOME), "describe", "--always", "--abbrev=12"]
    try:
        answer = subprocess.run(
            [*command, "--dirty=+changes"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()


@dataclasses.dataclass(frozen=True)
class Scope:
    """What a verdict is about: per partition the nodes, and the checks that must cover them all."""

    nodes: dict[str, list[str]]
    required: dict[str, list[str]]
    #: what the system's data declares missing, and why: `n7`, `n3 mlx5_5`
    absent: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Session:
    """How the campaign's ReFrame session ended; `last_error` is its last line of that kind."""

    exit_code: int
    last_error: str


@dataclasses.dataclass
class Campaign:
    """One campaign's folder and record."""

    folder: Path
    system: str
    gate: Gate
    scope: Scope
    state: State = "running"
    started: str = ""
    finished: str | None = None
    context: dict[str, Any] = dataclasses.field(default_factory=dict)
    session: Session | None = None
    #: nodes that Slurm started no job on when the session ended
    unavailable: list[str] = dataclasses.field(default_factory=list)
    #: what stands for the firmware and tuning of each node, where its inventory was taken
    fingerprints: dict[str, str] = dataclasses.field(default_factory=dict)
    #: the scenario of a rehearsal: stand-ins were run, nothing here is a measurement
    simulated: str | None = None

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def stage(self) -> Path:
        return self.folder / "stage"

    @classmethod
    def create(cls, system: str, gate: Gate, scope: Scope, command: list[str]) -> Campaign:
        """A new folder under the results root, marked as running."""
        now = datetime.datetime.now(datetime.timezone.utc)
        name = f"{now:%Y%m%dT%H%M%SZ}-{system}-{secrets.token_hex(3)}"
        folder = campaigns_folder() / name
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise EnvironmentProblem(
                f"{folder.parent}: cannot make a campaign's folder: {error.strerror}",
                next_step="make room, or set RAILGAUGE_RESULTS to a folder that can be written "
                "and that the compute nodes share",
            ) from None
        happening = rehearsal.scenario()
        simulated = str(happening) if happening else None
        campaign = cls(folder, system, gate, scope, started=_now(), simulated=simulated)
        campaign.context = {
            "railgauge": __version__,
            "commit": _commit(),
            "host": socket.gethostname(),
            "user": getpass.getuser(),
            "pid": os.getpid(),
            "command": command,
            "references": str(paths.references_folder()),
        }
        campaign.save()
        return campaign

    def save(self) -> None:
        write_json(
            self.folder / "campaign.json",
            {
                "id": self.id,
                "system": self.system,
                "gate": self.gate,
                "simulated": self.simulated,
                "scope": dataclasses.asdict(self.scope),
                "state": self.state,
                "started": self.started,
                "finished": self.finished,
                "context": self.context,
                "unavailable": self.unavailable,
                "fingerprints": self.fingerprints,
                "session": dataclasses.asdict(self.session) if self.session else None,
            },
        )

    def end(self, state: State) -> None:
        self.state, self.finished = state, _now()
        self.save()


_RECORD = pydantic.TypeAdapter(Campaign)


def campaigns_folder() -> Path:
    return paths.results_root() / "campaigns"


def load(name: str) -> Campaign:
    """The campaign of that id, or path; `latest` is the newest one."""
    known = [folder.name for folder in all_folders()]
    if name == "latest" and known:
        name = known[-1]
    folder = Path(name) if "/" in name else campaigns_folder() / name
    record = folder / "campaign.json"
    try:
        fields = json.loads(record.read_text(encoding="utf-8"))
        known_fields = {f.name for f in dataclasses.fields(Campaign)}
        return _RECORD.validate_python(
            {"folder": folder, **{k: v for k, v in fields.items() if k in known_fields}}
        )
    except FileNotFoundError:
        newest = f"; the newest is {known[-1]}" if known else ""
        raise RailgaugeError(
            f"no campaign {name!r} in {campaigns_folder()} ({len(known)} there{newest})",
            next_step="railgauge campaigns",
        ) from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RailgaugeError(f"{record}: {place}: {first['msg']}") from None
    except (OSError, ValueError, AttributeError) as error:
        raise RailgaugeError(f"{record}: not a campaign's record: {error}") from None


def all_folders() -> list[Path]:
    """The folders of all campaigns under the results root, oldest first."""
    return sorted(p for p in campaigns_folder().glob("*") if _ID.fullmatch(p.name))
