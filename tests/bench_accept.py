"""Acceptances of two builds in turn: `python -m tests.bench --against REV accept`.

Each build is a clone with nothing in it. It takes minutes and a gigabyte a build.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from railgauge import paths
from tests import bench_against, bench_parts

#: What is measured from nothing, in a clone of its own each time, and how often.
COLD, COLD_TIMES = "make accept, from nothing", 3

#: What is measured while the lab of the last one is up, by which command, and how often.
WARM = (
    ("railgauge accept", ("bin/railgauge", "accept"), 3),
    ("railgauge accept --partition ns", ("bin/railgauge", "accept", "--partition", "ns"), 5),
)


def compare(revision: str, area: Path) -> None:
    """Print what the acceptances of `revision` and of HEAD took, over their tools' own time too,
    where it went, and the ratios; SystemExit where a command fails.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for number in range(1, COLD_TIMES + 1):
        for build, commit in ((revision, revision), ("this", "HEAD")):
            with _clone(commit, area / f"clone-{build}") as clone:
                for what, value in _figures(clone, warm=number == COLD_TIMES):
                    found.setdefault(what, {}).setdefault(build, []).append(value)
    for what, of_builds in found.items():
        shown = ", ".join(
            f"{name}: {bench_against.spread(of, 2)}, n={len(of)}" for name, of in of_builds.items()
        )
        before, after = (statistics.median(of) for of in of_builds.values())
        print(f"{what}: {shown}; ratio {after / before:.2f}", flush=True)


def _figures(clone: Path, warm: bool) -> Iterator[tuple[str, float]]:
    """What each acceptance in a new clone took, and its parts: seconds, or over its tools' time."""
    yield COLD, _seconds(clone, ("make", "accept"))
    for what, command, times in WARM if warm else ():
        for _ in range(times):
            taken_s = _seconds(clone, command)
            campaign = max((clone / "results" / "campaigns").iterdir())
            _, tools_s = bench_parts.tools(campaign / "stage")
            yield what, taken_s
            yield f"{what}, over its tools", taken_s / tools_s
            for part, of_part_s in bench_parts.parts(campaign, taken_s, tools_s):
                yield f"{what}, {part}", of_part_s


@contextlib.contextmanager
def _clone(commit: str, folder: Path) -> Iterator[Path]:
    """A clone at that commit; at the end its lab is down, and it is gone."""
    _must(paths.HOME, ("git", "clone", "--quiet", str(paths.HOME), str(folder)))
    _must(folder, ("git", "checkout", "--quiet", "--detach", commit))
    try:
        yield folder
    finally:
        if (folder / ".venv").exists():
            _must(folder, ("bin/railgauge", "lab", "down"))
        shutil.rmtree(folder, ignore_errors=True)


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
