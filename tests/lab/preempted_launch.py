"""How long a user waits for a node whose job Slurm preempts while it launches its steps.

    python -m tests.lab.preempted_launch [--nodes N...] [--times N] [--seed S] [--minutes M]

A job of the patrol's QOS launches one step after the other on the first N nodes of the larger lab,
and at a random moment a user wants the first of them, where the others' steps report to. Prints a
line for each N: docs/figures.csv says what Slurm does.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

from railgauge import paths
from railgauge.slurm import client

from .drill_week import entered_lab

_STEPS = "for i in $(seq 200); do srun {options} true; done"
_OPTIONS = "--no-kill --kill-on-bad-exit=0 --wait=0 --ntasks-per-node=1 --nodes={count}"
#: What takes longer than this is no launch that was cut, but a lab that stands still.
_LIMIT_S = 150


def _sbatch(*options: str) -> str:
    words = ("--partition=ns", "--exclusive", "--chdir=/tmp", "--parsable", "--no-requeue")
    return client.output("sbatch", *words, "--output=/tmp/preempted-%j.out", *options).strip()


def _state(job: str) -> str:
    return client.output("squeue", "--noheader", f"--jobs={job}", "--format=%T").strip()


def _until(job: str, state: str) -> float:
    """The seconds until a job is in that state."""
    began = time.monotonic()
    while _state(job) != state:
        if time.monotonic() > began + _LIMIT_S:
            break
        time.sleep(0.2)
    return time.monotonic() - began


def waited(count: int, chance: random.Random) -> float:
    """The seconds that one user waited for the first of so many nodes."""
    nodes = ",".join(f"n{number}" for number in range(1, count + 1))
    steps = _STEPS.format(options=_OPTIONS.format(count=count))
    options = (f"--nodes={count}", f"--ntasks={count}", f"--nodelist={nodes}")
    launching = _sbatch(*options, "--qos=patrol", "--nice=10000", f"--wrap={steps}")
    _until(launching, "RUNNING")
    time.sleep(chance.uniform(1, 4))
    user = _sbatch("--nodes=1", "--nodelist=n1", "--wrap=sleep 60")
    seconds = _until(user, "RUNNING")
    client.output("scancel", launching, user)
    while client.output("squeue", "--noheader", f"--jobs={launching},{user}", "--format=%T"):
        time.sleep(0.5)
    return seconds


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="*", default=[8, 6])
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    chosen = parser.parse_args(words)
    chance = random.Random(chosen.seed)
    with entered_lab(paths.lab_folder()):
        for count in chosen.nodes:
            found: list[float] = []
            end = time.monotonic() + chosen.minutes * 60 / len(chosen.nodes)
            while len(found) < chosen.times and time.monotonic() < end:
                found.append(waited(count, chance))
                print(f"{count} nodes: {found[-1]:.1f} s", flush=True)
            found.sort()
            late = [f"{seconds:.0f}" for seconds in found if seconds > 30]
            print(
                f"{count} nodes: n = {len(found)}, median {found[len(found) // 2]:.1f} s, above "
                f"30 s: {', '.join(late) or 'none'}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
