"""From a clone to ACCEPT on a cluster that Railgauge knows nothing of, by the commands that
docs/first-cluster.md gives for a plain TCP cluster, and by nothing else.

The cluster is cluster.yaml's; alice, who is not root, types the commands on its login node. It has
no way to the world: the project and the Python packages lie in folders of its own, as a site's
mirrors do.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from railgauge import paths
from railgauge.lab.cluster import Lab

CLUSTER = Path(__file__).parent / "cluster.yaml"
DOCUMENT = paths.HOME / "docs" / "first-cluster.md"
HEADING = "## A plain TCP cluster"
USER = "alice"

#: A person has ten minutes.
LIMIT_S = 600

_FENCED = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(document: str) -> list[str]:
    """What is typed under the heading: the `$ ` lines of its console blocks, in order.

    A line that ends in a backslash goes on with the next one, after `> `.
    """
    _, found, rest = document.partition(f"\n{HEADING}\n")
    assert found, f"{DOCUMENT}: no heading {HEADING!r}"
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    typed: list[str] = []
    for block in _FENCED.findall(section):
        for line in block.splitlines():
            if line.startswith("$ "):
                typed.append(line[2:])
            elif line.startswith("> ") and typed and typed[-1].endswith("\\"):
                typed[-1] += "\n" + line[2:]
    assert typed, f"{DOCUMENT}: no `$ command` below {HEADING!r}"
    return typed


def prepare(lab: Lab, wheels: Path) -> None:
    """What the site has: the project to clone from, and a mirror of the Python packages."""
    user = lab.user(USER)
    homes = lab.folders.run / "home"
    repository = homes / "railgauge.git"
    git = ["git", "-C", str(paths.HOME)]
    # With what is not committed yet, if anything.
    stash = subprocess.check_output([*git, "stash", "create"], text=True).strip()
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", repository], check=True)
    pushed = f"{stash or 'HEAD'}:refs/heads/main"
    subprocess.run([*git, "push", "--quiet", str(repository), pushed], check=True)
    for path in [repository, *repository.rglob("*")]:
        os.chown(path, user.uid, user.uid)
    shutil.copytree(wheels, homes / "wheels")
    lab.on_head(
        "sh",
        "-c",
        "printf '[global]\\nno-index = true\\nfind-links = /home/wheels\\n' >$0",
        "/etc/pip.conf",
    )


def download(wheels: Path, python: str) -> None:
    """The pinned packages, for the Python of the login node (3.11)."""
    pip = [str(paths.HOME / ".venv/bin/python"), "-m", "pip", "download", "--quiet"]
    options = ["--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"]
    wanted = ["--python-version", python, "-r", str(paths.HOME / "requirements.txt")]
    subprocess.run([*pip, *options, *wanted, "--dest", str(wheels)], check=True)


@dataclasses.dataclass(frozen=True)
class Typed:
    """One command, as it was typed on the login node."""

    command: str
    returncode: int
    output: str
    seconds: float


def type_all(lab: Lab, typed: list[str]) -> Iterator[Typed]:
    """Type them into one login shell, one after the other; it is ended after LIMIT_S.

    `$URL` is where the project is cloned from.
    """
    login = lab.enter(
        lab.spec.head.name,
        *("URL=/home/railgauge.git", "TERM=dumb", "timeout", "--kill-after=5", str(LIMIT_S)),
        *("bash", "--login"),
        workdir=Path(lab.user(USER).folder),
        user=USER,
    )
    shell = subprocess.Popen(
        login,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert shell.stdin and shell.stdout
    try:
        for command in typed:
            started = time.monotonic()
            # A command does not read what is typed after it.
            shell.stdin.write(f'{{ {command}\n}} </dev/null\necho; echo "== $?"\n')
            shell.stdin.flush()
            lines: list[str] = []
            for line in shell.stdout:
                if line.startswith("== "):
                    break
                lines.append(line)
            else:
                # The shell has ended: `timeout` says so by 124.
                line = f"== {shell.wait()}"
            seconds = time.monotonic() - started
            yield Typed(command, int(line[3:]), "".join(lines), seconds)
    finally:
        shell.kill()
        shell.wait()
