"""`railgauge doctor`: what is installed here, which system this is, and what is missing.

One page to paste into a ticket. It starts no job and changes nothing.
"""

from __future__ import annotations

import dataclasses
import getpass
import importlib.metadata
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from railgauge import paths, systems, version
from railgauge.campaign import folder as campaigns
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.site import redaction, run
from railgauge.site.check.line import Line
from railgauge.slurm import client
from railgauge.stack import installed

#: Variables that change what Railgauge, ReFrame or Slurm does.
_OF_INTEREST = re.compile(
    r"(?:_?RAILGAUGE|RFM|SLURM|SBATCH|SRUN|SALLOC|OMPI|UCX|NCCL)_\w+"
    r"|PATH|PYTHON\w+|VIRTUAL_ENV|LD_\w+|LANG|LC_ALL|(?:https?|no|all)_proxy",
    re.IGNORECASE,
)

#: Programs of the login node, and what needs them.
_NEEDED = {
    "git": "the commit in each campaign",
    "sinfo": "every job",
    "sbatch": "every job",
    "scontrol": "the gate",
    "sacct": "the end of each job",
}

_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)", re.MULTILINE)

#: Less free space than this is named.
_LOW_BYTES = 2**30


@dataclasses.dataclass(frozen=True)
class Page:
    """`environment` has the variables that matter, without secrets."""

    lines: list[Line]
    environment: dict[str, str]


def page(system: str | None, why_none: RailgaugeError | None, given: Mapping[str, str]) -> Page:
    """The page of this host, without secrets.

    `system` is the one to look at, and this process uses it; else `why_none` says why it is not
    known. `given` is the environment in which the command was typed.
    """
    lines = [*_program(), _host()]
    if paths.has_site():
        lines += [*_programs(), *_system(system, why_none)]
    else:
        words = "an installed package measures nothing without RAILGAUGE_SITE"
        lines.append(Line("not checked", "system", words))
    lines += _results()
    return Page(
        [
            dataclasses.replace(
                line,
                text=redaction.text(line.text),
                next_step=redaction.text(line.next_step),
            )
            for line in lines
        ],
        {
            name: redaction.variable(name, value)
            for name, value in sorted(given.items())
            if _OF_INTEREST.fullmatch(name)
        },
    )


def _program() -> Iterator[Line]:
    where = "checkout" if paths.is_checkout() else "installed package"
    yield Line("ok", "railgauge", f"{version.current()}, {where} in {paths.HOME}")
    yield Line("ok", "python", f"{platform.python_version()} ({sys.executable})")
    requirements = paths.HOME / "requirements.txt"
    if not requirements.exists():
        yield Line("not checked", "packages", "a package pins no versions")
        return
    others = different_packages(requirements.read_text(encoding="utf-8"))
    if others:
        words = f"not as pinned: {', '.join(others)}"
        yield Line("warning", "packages", words, "make setup makes .venv again")
    else:
        yield Line("ok", "packages", f"as pinned in {requirements.name}")


def different_packages(requirements: str) -> list[str]:
    """`click 8.1.0 (pinned: 8.5.1)` of each package here that has another version than its pin.

    A pin of a package that is not here is not listed: its marker may exclude this Python.
    """
    wanted: dict[str, set[str]] = {}
    for name, pinned in _PIN.findall(requirements):
        wanted.setdefault(name, set()).add(pinned)
    found = []
    for name, pins in sorted(wanted.items()):
        try:
            here = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if here not in pins:
            found.append(f"{name} {here} (pinned: {' or '.join(sorted(pins))})")
    return found


def _host() -> Line:
    try:
        release = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        release = "a system without os-release"
    kernel = f"{platform.system()} {platform.release()} {platform.machine()}"
    words = f"{socket.gethostname()}: {release}, {kernel}, as {getpass.getuser()}"
    return Line("ok", "host", words)


def _programs() -> Iterator[Line]:
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if not missing:
        yield Line("ok", "programs", f"on the path: {', '.join(_NEEDED)}")
    for name in missing:
        yield Line(
            "problem",
            "programs",
            f"{name} is not on the path; {_NEEDED[name]} needs it",
            "work on a login node of the cluster, or put its folder on PATH"
            if name != "git"
            else "install git",
        )


def _system(system: str | None, why_none: RailgaugeError | None) -> Iterator[Line]:
    if system is None:
        assert why_none is not None
        yield Line("problem", "system", why_none.message, why_none.next_step or "")
        return
    try:
        described = systems.load(system)
    except RailgaugeError as error:
        yield Line("problem", "system", error.message, error.next_step or "")
        return
    partitions = ", ".join(f"{one.name} ({len(one.nodes)} nodes)" for one in described.partitions)
    step = f"railgauge system check {system} --run checks more"
    yield Line("ok", "system", f"{system}: {partitions}", step)
    accounting = run.accounting()
    yield accounting
    if accounting.status == "ok":
        yield from _slurm(system)
    yield _stack(system)


def _slurm(system: str) -> Iterator[Line]:
    try:
        yield Line("ok", "Slurm", client.output("scontrol", "--version").strip())
    except PrerequisiteError as error:
        yield Line("problem", "Slurm", error.message, error.next_step or "")
        return
    yield from run.gate_rights(system)


def _stack(system: str) -> Line:
    try:
        tools = installed.tools(installed.folder(system))
    except RailgaugeError as error:
        return Line("problem", "stack", error.message, error.next_step or "")
    built = ", ".join(f"{tool['name']} {tool['version']}" for tool in tools)
    return Line("ok", "stack", built or "none built; jobs take what is installed on the nodes")


def _results() -> Iterator[Line]:
    if not paths.names_results():
        yield Line("not checked", "results area", "RAILGAUGE_RESULTS is not set")
        return
    try:
        root = paths.results_root()
        yield _area(root)
        names = [path.name for path in campaigns.all_folders()]
    except PrerequisiteError as error:
        yield Line("problem", "results area", error.message, error.next_step or "")
        return
    newest = f", the newest is {names[-1]}" if names else ""
    yield Line("ok", "campaigns", f"{len(names)}{newest}")


def _area(root: Path) -> Line:
    step = "RAILGAUGE_RESULTS=DIR, a folder that you may write and the compute nodes share"
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free
    except OSError as error:
        words = f"{root}: cannot be written: {error.strerror}"
        return Line("problem", "results area", words, step)
    words = f"{root}: {free / 2**30:.1f} GiB free"
    if free < _LOW_BYTES:
        return Line("warning", "results area", words, "make room: remove old campaigns")
    return Line("ok", "results area", words)


def caller() -> dict[str, str]:
    """The environment as it is now."""
    return dict(os.environ)
