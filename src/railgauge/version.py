"""Which Railgauge this is: its version, and the commit that it was taken from."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from railgauge import __version__, paths

#: The commit of a package, which has no git; bin/package writes this file.
COMMIT_FILE = Path(__file__).with_name("commit.txt")

_UNKNOWN = "unknown"


class Version(NamedTuple):
    """`number` is a version of PEP 440: `0.2.0` at the tag v0.2.0, `0.2.0+dev` at other commits.

    `commit` has 12 hexadecimal digits, and `+changes` if files differ from it; `unknown` in a
    checkout without git.
    """

    number: str
    commit: str

    def __str__(self) -> str:
        return f"{self.number} (commit {self.commit})"


def current() -> Version:
    """The version of the program that runs."""
    if not paths.is_checkout():
        return of_package(COMMIT_FILE)
    return of_checkout(paths.HOME)


def of_checkout(home: Path) -> Version:
    """The version of a checkout by its tags. Another tag at this commit makes no release."""
    tags = _git(home, "tag", "--points-at", "HEAD", "--list", "v[0-9]*")
    commit = _git(home, "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes")
    if not commit:
        return Version(f"{__version__}+dev", _UNKNOWN)
    released = f"v{__version__}" in tags.split() and not commit.endswith("+changes")
    return Version(__version__ if released else f"{__version__}+dev", commit)


def of_package(file: Path) -> Version:
    """The version and the commit as the build wrote them: `0.2.0 0123456789ab`."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return Version(f"{__version__}+dev", _UNKNOWN)
    written = re.fullmatch(r"(\S+) (\S+)\n", text)
    return Version(*written.groups()) if written else Version(f"{__version__}+dev", _UNKNOWN)


def _git(home: Path, *words: str) -> str:
    """What git prints, without its last newline; "" where there is no git or no repository."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(home), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answer.stdout.strip()
