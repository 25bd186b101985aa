"""This user's crontab and scrontab: the entries that start this program, and the file without them.

Formats: crontab(5) of cron, and scrontab(1) of Slurm, in which `#SCRON` lines before an entry have
its options.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import sys
import tempfile
from pathlib import Path

from railgauge import paths
from railgauge.common.atomic import write_text
from railgauge.common.errors import RailgaugeError
from railgauge.slurm import client

COMMANDS = ("crontab", "scrontab")

_NONE = re.compile(r"no crontab for|scrontab is disabled", re.IGNORECASE)
_OPTIONS = "#SCRON"
_NAMED = re.compile("railgauge", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Crontab:
    """`ours` start this program, by its path. `unclear` name Railgauge, but not this folder. `rest`
    is the text without `ours`.
    """

    command: str
    text: str
    ours: tuple[str, ...]
    unclear: tuple[str, ...]
    rest: str


def read(command: str) -> Crontab | None:
    """The crontab of this user; None where there is none. RailgaugeError where none can be read."""
    if shutil.which(command) is None:
        return None
    text, problem = client.answer(command, "-l")
    if problem is None:
        return split(command, text)
    if _NONE.search(problem.message):
        return None
    raise RailgaugeError(problem.message, next_step=f"{command} -l, and look at the error")


def split(command: str, text: str) -> Crontab:
    """Which entries of a crontab are ours. Comments are kept, and all that is no entry of ours."""
    ours: list[str] = []
    unclear: list[str] = []
    rest: list[str] = []
    options: list[str] = []
    for line in text.splitlines(keepends=True):
        entry = line.strip()
        if entry.startswith(_OPTIONS):
            options.append(line)
            continue
        is_entry = bool(entry) and not entry.startswith("#")
        if is_entry and _starts_this_program(entry):
            ours.append(entry)
        else:
            rest += [*options, line]
            if is_entry and _NAMED.search(entry):
                unclear.append(entry)
        options = []
    return Crontab(command, text, tuple(ours), tuple(unclear), "".join([*rest, *options]))


def _starts_this_program(entry: str) -> bool:
    """Whether a line names the program's folder, a file in it, or the command that leads there."""
    home = paths.HOME if paths.is_checkout() else Path(sys.prefix)
    command = Path(shutil.which("railgauge") or home)
    names = [home, command] if command.resolve().is_relative_to(home.resolve()) else [home]
    return any(re.search(rf"(?<![\w./-]){re.escape(str(one))}(?![\w.-])", entry) for one in names)


def remove(crontab: Crontab, backup: Path) -> None:
    """Take our entries out of it; `backup` gets the text before. RailgaugeError where it has
    changed since it was read, so that no other edit is lost.
    """
    now = read(crontab.command)
    if now is None or now.text != crontab.text:
        raise RailgaugeError(
            f"{crontab.command} has changed since it was read; nothing of it was removed",
            next_step="railgauge uninstall --act, again",
        )
    backup.parent.mkdir(parents=True, exist_ok=True)
    write_text(backup, crontab.text)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".crontab") as file:
        file.write(crontab.rest)
        file.flush()
        client.output(crontab.command, file.name)
