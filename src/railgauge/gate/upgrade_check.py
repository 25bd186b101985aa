"""`railgauge upgrade-check`: what this version reads of a site's files, campaigns and store.

It changes nothing. Before an update it names what should end first, after the update what the new
version does not read.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator

from railgauge import __version__, notify, paths, systems, version
from railgauge.campaign import folder as campaigns
from railgauge.campaign.folder import STANDING
from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.gate import journal
from railgauge.model import record, references
from railgauge.model.record import BrokenRecordError
from railgauge.site.check.line import Line
from railgauge.systems import expected

#: So many names of campaigns or nodes are printed in a line.
_NAMED = 3

_NOTE = re.compile(r"^railgauge: (.*?)(?:; next: (.*))?$", re.MULTILINE)


def lines() -> list[Line]:
    return [*_checkout(), *_site_files(), *_campaigns(), *_stores(), *_messages()]


def _checkout() -> Iterator[Line]:
    program = version.current()
    if program.commit.endswith("+changes"):
        yield Line(
            "warning",
            "checkout",
            f"{program}: files of the project differ from the commit",
            "git status; commit what is yours, then git pull --rebase",
        )
    else:
        thing = "checkout" if paths.is_checkout() else "package"
        yield Line("ok", thing, str(program))


# --- the site's files -----------------------------------------------------------------------------


def _site_files() -> Iterator[Line]:
    for name in systems.names():
        files: dict[str, Callable[[], object]] = {
            "reframe.yaml": lambda name=name: systems.load(name),  # type: ignore[misc]
            "expected.yaml": lambda name=name: expected.load(name),  # type: ignore[misc]
            "gate.yaml": lambda name=name: store.rules(name),  # type: ignore[misc]
            "references": lambda name=name: references.load(name),  # type: ignore[misc]
        }
        found = [line for file, load in files.items() for line in _read(f"{name}: {file}", load)]
        yield from found or [Line("ok", name, f"this version reads {', '.join(files)}")]


def _read(thing: str, load: Callable[[], object]) -> Iterator[Line]:
    """A problem if the file is not read, and a warning for each key that has another name now."""
    notes = io.StringIO()
    try:
        with contextlib.redirect_stderr(notes):
            load()
    except RailgaugeError as error:
        yield Line("problem", thing, error.message, error.next_step or "correct it, then again")
    for words, step in _NOTE.findall(notes.getvalue()):
        yield Line("warning", thing, words, step)


# --- campaigns ------------------------------------------------------------------------------------


def _campaigns() -> Iterator[Line]:
    try:
        folders = campaigns.all_folders()
    except RailgaugeError as error:
        yield Line("problem", "campaigns", error.message, error.next_step or "")
        return
    running, newer, broken = [], [], []
    for folder in folders:
        try:
            campaign = campaigns.load(str(folder))
            record.read_standings(folder / STANDING)
        except (RailgaugeError, BrokenRecordError) as error:
            broken.append(f"{folder.name} ({str(error).splitlines()[0]})")
            continue
        if campaign.state == "running" and not campaign.broke_off:
            running.append(folder.name)
        if _numbers(str(campaign.context.get("railgauge", ""))) > _numbers(__version__):
            newer.append(folder.name)
    if running:
        step = "wait for them, or end them; then update"
        yield Line("problem", "campaigns", f"marked as running: {_some(running)}", step)
    if broken:
        step = "railgauge campaigns; verdicts and trends leave them out"
        yield Line("warning", "campaigns", f"not read: {_some(broken)}", step)
    if newer:
        step = "update to that version, or do not compare with these campaigns"
        words = f"written by a newer version than {__version__}: {_some(newer)}"
        yield Line("warning", "campaigns", words, step)
    words = f"this version reads {len(folders) - len(broken)} of {len(folders)}"
    yield Line("ok", "campaigns", words)


def _numbers(number: str) -> tuple[int, ...]:
    """Major, minor and patch of a version; () if it is none."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", number)
    return tuple(map(int, found.groups())) if found else ()


# --- the gate's store -----------------------------------------------------------------------------


def _stores() -> Iterator[Line]:
    root = paths.results_root() / "gate"
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if not (folder / "rules.json").exists():
            continue
        system, thing = folder.name, f"gate/{folder.name}"
        run, roll = journal.unended(system), journal.rolling(system)
        step = "railgauge gate run --act ends it; then update"
        if run is not None:
            yield Line("problem", thing, f"gate run {run.id} is open, since {run.started}", step)
        if roll is not None:
            words = f"rolling update {roll.id} is open, since {roll.started}"
            yield Line("problem", thing, words, step)
        for lost in journal.lost(system):
            yield Line("problem", thing, lost.words, lost.next_step)
        nodes = sorted(path.stem for path in (folder / "nodes").glob("[!.]*.json"))
        broken, refused = [], []
        for node in nodes:
            try:
                broken += [node] if store.readable(system, node) is None else []
            except PrerequisiteError as error:
                refused.append(f"{node} ({error.message})")
        if refused:
            words = f"accepted state not read: {_some(refused)}"
            yield Line("problem", thing, words, f"ls -l {folder / 'nodes'}; then the same again")
        if broken:
            step = f"railgauge gate adopt --again --act --nodes {','.join(broken)}"
            yield Line("problem", thing, f"accepted state not read: {_some(broken)}", step)
        read = len(nodes) - len(broken) - len(refused)
        words = f"this version reads the accepted state of {read} of {len(nodes)} nodes"
        yield Line("ok", thing, words)


def _messages() -> Iterator[Line]:
    waiting = notify.waiting()
    if waiting:
        step = "railgauge notify, with the variables of the commands"
        yield Line("warning", "messages", f"{len(waiting)} wait for their command", step)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[-_NAMED:]) + more
