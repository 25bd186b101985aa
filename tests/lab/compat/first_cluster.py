"""From a clone to ACCEPT on a cluster that Railgauge knows nothing of, by the commands that
docs/first-cluster.md gives for a plain TCP cluster, and by nothing else.

The cluster is cluster.yaml's; alice, who is not root, types the commands on its login node. It has
no way to the world: the project and the Python packages lie in folders of its own, as a site's
mirrors do.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.markers import Marker

from railgauge import paths
from railgauge.lab.cluster import Lab
from railgauge.lab.spec import LabSpec

CLUSTER = Path(__file__).parent / "cluster.yaml"
DOCUMENT = paths.HOME / "docs" / "first-cluster.md"
HEADING = "## A plain TCP cluster"

#: Where the project is cloned from: a folder that all machines have.
URL = "/home/railgauge.git"

#: Whose home folder all machines share, and whose each machine has of its own.
USER, USER_OF_ONE_MACHINE = "alice", "bob"

#: To `accept` by what is documented, but without a job that looks at the nodes before.
UNCHECKED = (
    "git clone --quiet $URL railgauge && cd railgauge",
    "make setup",
    "bin/railgauge system new mycluster --like tcp --from-slurm --link-gbits 1",
    "bin/railgauge accept",
)

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


def without_accounting(cluster: LabSpec) -> LabSpec:
    """The same cluster before anybody has set up slurmdbd."""
    assert cluster.slurm_conf
    lines = cluster.slurm_conf.splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith("Accounting"))
    return cluster.model_copy(update={"accounting": False, "slurm_conf": kept})


def prepare(lab: Lab, wheels: Path) -> None:
    """What the site has: the project to clone from, and a mirror of the Python packages."""
    homes = lab.folders.run / "home"
    git = ["git", "-C", str(paths.HOME)]
    # With what is not committed yet, if anything.
    stash = subprocess.check_output([*git, "stash", "create"], text=True).strip()
    repository = homes / Path(URL).name
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", repository], check=True)
    pushed = f"{stash or 'HEAD'}:refs/heads/main"
    subprocess.run([*git, "push", "--quiet", str(repository), pushed], check=True)
    shutil.copytree(wheels, homes / "wheels")
    write = f"""
        git config --system safe.directory {URL}
        printf '[global]\\nno-index = true\\nfind-links = /home/wheels\\n' >/etc/pip.conf
    """
    lab.on_head("sh", "-ec", write)


def download(wheels: Path, python: str) -> None:
    """The pinned packages, for the Python of the login node: `3.11`."""
    wheels.mkdir(parents=True, exist_ok=True)
    pinned = wheels / "requirements.txt"
    pinned.write_text(of_python((paths.HOME / "requirements.txt").read_text(), python))
    pip = [str(paths.HOME / ".venv/bin/python"), "-m", "pip", "download", "--quiet"]
    options = ["--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"]
    wanted = ["--python-version", python, "-r", str(pinned)]
    subprocess.run([*pip, *options, *wanted, "--dest", str(wheels)], check=True)


def of_python(requirements: str, python: str) -> str:
    """The entries of a requirements file that are for this Python (`3.14`), without their markers:
    pip takes a marker for the Python that it runs with, whatever --python-version says.
    """
    release = {"python_version": python, "python_full_version": f"{python}.0"}
    kept = []
    for entry in re.split(r"\n(?=\S)", requirements):
        head, more, hashes = entry.partition(" \\\n")
        name, _, marker = head.partition(" ; ")
        if not marker or Marker(marker).evaluate(release):
            kept.append(f"{name}{more}{hashes}")
    return "\n".join(kept)


@dataclasses.dataclass(frozen=True)
class Typed:
    """One command, as it was typed on the login node."""

    command: str
    returncode: int
    output: str
    seconds: float


def type_all(lab: Lab, typed: Sequence[str], user: str = USER) -> Iterator[Typed]:
    """Type them into one login shell, one after the other; it is ended after LIMIT_S.

    `$URL` is where the project is cloned from.
    """
    login = lab.enter(
        lab.spec.head.name,
        *(f"URL={URL}", "TERM=dumb", "timeout", "--kill-after=5", str(LIMIT_S)),
        *("bash", "--login"),
        workdir=Path(lab.user(user).folder),
        user=user,
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
            shell.stdin.write(f'{{ {command}\n}} </dev/null\nprintf "\\n== %s\\n" $?\n')
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
