"""Two builds next to each other: `python -m tests.bench --against REV [NAME...]`.

Each command runs in both builds in turn, so that what else the machine does meets both alike. Of
each are printed the medians of CPU time and memory, with the least and the most, and the ratio.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from railgauge import paths
from tests import bench_verdict

#: The nodes of the largest partitions that are measured here.
LARGEST = 4608

#: How often each command runs in each build.
TIMES = 5

#: Other than these exit codes, a verdict's, the command failed.
_ENDED_WELL = (0, 1, 2)

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"

_SLURM = """#!/bin/sh
case "$2" in
node)
  for n in 1 2 3 4; do
    echo "NodeName=eth400g-n$n NodeAddr=eth400g-n$n NodeHostName=eth400g-n$n CPUTot=64 State=IDLE"
  done ;;
esac
"""


#: Runs a command, and writes what it used. A process of its own: a child counts the memory of what
#: it was forked from, and ours is larger than most commands.
_MEASURE = """
import json, os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
found = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss]
with open(sys.argv[1], "w") as stream:
    json.dump(found, stream)
"""


@dataclasses.dataclass(frozen=True)
class Used:
    """What a command used: seconds of CPU, of its children too, and MiB of memory at most."""

    cpu_s: float
    memory_mib: float


@dataclasses.dataclass(frozen=True)
class Work:
    """A command of `railgauge`, and the variables that it needs."""

    what: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: how many nodes the build's dgx-h100 is to have; 0: as it is described
    nodes: int = 0


def _help(area: Path) -> Work:
    return Work("railgauge --help", ("--help",))


def _gate(area: Path) -> Work:
    """Against a Slurm that answers at once."""
    program = area / "bin" / "scontrol"
    program.parent.mkdir()
    program.write_text(_SLURM)
    program.chmod(0o755)
    found_first = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return Work("gate status", ("gate", "status", "--system", "eth400g"), {"PATH": found_first})


def _small(area: Path) -> Work:
    bench_verdict.leave(area, 4)
    return Work("verdict of 32 places", ("verdict",))


def _large(area: Path) -> Work:
    bench_verdict.leave(area, LARGEST)
    return Work("verdict of 36,864 places", ("verdict",))


def _plan(area: Path) -> Work:
    """Eight rails a node."""
    return Work("plan of 4,608 nodes", ("accept", "--system", "dgx-h100", "--plan"), nodes=LARGEST)


WORKS: dict[str, Callable[[Path], Work]] = {
    "help": _help,
    "gate": _gate,
    "verdict": _small,
    "large-verdict": _large,
    "plan": _plan,
}


def with_nodes(build: Path, nodes: int, folder: Path) -> Path:
    """A copy of a build in `folder`, in which dgx-h100 has so many nodes."""
    for part in ("src", "reframe", "configs", "results/references"):
        shutil.copytree(build / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    description = folder / "configs/systems/dgx-h100/reframe.yaml"
    described = description.read_text()
    resized = described.replace("dgx-h100-n[01-32]", f"n[1-{nodes}]")
    if resized == described:
        sys.exit(f"{description}: nodes are no longer dgx-h100-n[01-32], which are to be replaced")
    description.write_text(resized)
    return folder


@contextlib.contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """The files of that commit, in a folder that is removed at the end, also after Ctrl-C or a
    SIGTERM; SystemExit where git knows no such commit.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    folder = Path(tempfile.mkdtemp(prefix="railgauge-bench-"))
    try:
        packed = subprocess.run(
            ["git", "-C", str(paths.HOME), "archive", revision, "--"], capture_output=True
        )
        if packed.returncode != 0:
            said = packed.stderr.decode(errors="replace").strip()
            sys.exit(f"bench --against {revision}: {said}\n  next: git log --oneline names commits")
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)


def run(build: Path, work: Work, results: Path, output: Path) -> Used:
    """One run of a command in the build of that checkout; SystemExit where it fails."""
    environment = {
        **os.environ,
        **work.environment,
        "PYTHONPATH": str(build / "src"),
        "RAILGAUGE_RESULTS": str(results),
    }
    command = [sys.executable, "-m", "railgauge", *work.arguments]
    code, used = measured(command, environment, results, output)
    if code not in _ENDED_WELL:
        said = output.read_text(errors="replace")[-2000:]
        sys.exit(f"{' '.join(command)} of {build}: exit code {code}\n{said}")
    return used


def measured(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, output: Path
) -> tuple[int, Used]:
    """The exit code of a command that is run in `folder`, and what it used; what it prints goes
    into `output`.
    """
    # Else each start compiles all that was not compiled before, which no user's does.
    kept = {name: value for name, value in environment.items() if name != _NO_BYTECODE}
    found = folder / "used.json"
    with output.open("wb") as stream:
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _MEASURE, str(found), *command],
            cwd=folder,
            env=kept,
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=True,
        )
    code, cpu_s, memory_kib = json.loads(found.read_text())
    return code, Used(cpu_s, memory_kib / 1024)


def spread(values: list[float], digits: int) -> str:
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def compare(revision: str, names: list[str], area: Path, times: int = TIMES) -> None:
    """Run the named works, or all, in the build of `revision` and in this one, in turn."""
    with checkout(revision) as other:
        for name in names or WORKS:
            results = area / name
            results.mkdir(parents=True)
            work = WORKS[name](results)
            _compare_one(work, {revision: other, "this": paths.HOME}, results, times)


def _compare_one(work: Work, builds: Mapping[str, Path], results: Path, times: int) -> None:
    output = results / "output"
    if work.nodes:
        builds = {
            name: with_nodes(build, work.nodes, results / f"build-{name}")
            for name, build in builds.items()
        }
    printed = {}
    for name, build in builds.items():
        # The first run leaves bytecode behind, and is not counted.
        run(build, work, results, output)
        printed[name] = output.read_bytes()
    used: dict[str, list[Used]] = {name: [] for name in builds}
    for _ in range(times):
        for name, build in builds.items():
            used[name].append(run(build, work, results, output))
    same = len(set(printed.values())) == 1
    print(f"{work.what}, {times} times in turn; {'same' if same else 'other'} output")
    for what, digits, values in (
        ("CPU, s", 2, {name: [one.cpu_s for one in of] for name, of in used.items()}),
        ("memory, MiB", 0, {name: [one.memory_mib for one in of] for name, of in used.items()}),
    ):
        before, after = (statistics.median(of) for of in values.values())
        each = ", ".join(f"{name}: {spread(of, digits)}" for name, of in values.items())
        print(f"  {what}: {each}; ratio {after / before:.2f}", flush=True)
