"""Acceptances of two builds in turn: `python -m tests.bench --against REV accept`.

Each build is a clone with nothing in it. It takes minutes and a gigabyte a build.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from railgauge import paths
from tests import bench_against

#: How often each acceptance runs in each build while its lab is up.
TIMES = 3

#: What is measured, and the command of each.
COLD = ("make accept, from nothing", ("make", "accept"))
WARM = (
    ("railgauge accept", ("bin/railgauge", "accept")),
    ("railgauge accept --partition ns", ("bin/railgauge", "accept", "--partition", "ns")),
)


def compare(revision: str, area: Path, times: int = TIMES) -> None:
    """Print the seconds of the acceptances of `revision` and of HEAD, and their ratios; SystemExit
    where a command fails.
    """
    seconds: dict[str, dict[str, list[float]]] = {}
    for name, commit in ((revision, revision), ("this", "HEAD")):
        with _clone(commit, area / f"clone-{name}") as clone:
            what, command = COLD
            seconds.setdefault(what, {})[name] = [_seconds(clone, command)]
            for what, command in WARM:
                of_build = [_seconds(clone, command) for _ in range(times)]
                seconds.setdefault(what, {})[name] = of_build
    for what, of_builds in seconds.items():
        shown = ", ".join(
            f"{name}: {bench_against.spread(of, 1)}, n={len(of)}" for name, of in of_builds.items()
        )
        before, after = (statistics.median(of) for of in of_builds.values())
        print(f"{what}, s: {shown}; ratio {after / before:.2f}", flush=True)


@contextlib.contextmanager
def _clone(commit: str, folder: Path) -> Iterator[Path]:
    """A clone at that commit; its lab is down at the end."""
    _must(paths.HOME, ("git", "clone", "--quiet", str(paths.HOME), str(folder)))
    _must(folder, ("git", "checkout", "--quiet", "--detach", commit))
    try:
        yield folder
    finally:
        if (folder / ".venv").exists():
            _must(folder, ("bin/railgauge", "lab", "down"))


def _seconds(folder: Path, command: Sequence[str]) -> float:
    began = time.monotonic()
    _must(folder, command)
    taken = time.monotonic() - began
    print(f"  {folder.name}: {' '.join(command)}: {taken:.1f} s", flush=True)
    return taken


def _must(folder: Path, command: Sequence[str]) -> None:
    names = ("RESULTS", "LAB_DIR", "LAB_ROOTFS", "REFERENCES")
    unset = {f"RAILGAUGE_{name}": "" for name in names}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **unset},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(command)} in {folder}: exit code {done.returncode}\n{done.stdout[-2000:]}"
        )
