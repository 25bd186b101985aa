"""Faults of the larger lab's fabric: fault -> who is named, and how -> rounds -> seconds.

    python -m tests.lab.drill_locate [--times N] [NAME...]

A drill is right where the nodes that are named are those with the fault, and nobody else; of all
uplinks of a leaf, where the leaf is named, and no node.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railgauge import paths, systems
from railgauge.lab import faults, spec
from railgauge.lab.cluster import Lab

from .test_accept import sweeps

SYSTEM = "lab32"


@dataclasses.dataclass(frozen=True)
class Drill:
    """Faults as `railgauge lab fault` takes them, the nodes that are measured, and who is at fault:
    node names, or `leaf leaf1`.
    """

    faults: tuple[str, ...]
    guilty: frozenset[str]
    nodes: str = "n[1-8]"
    options: tuple[str, ...] = ()


DRILLS = {
    "shaped-link": Drill(("rate n2 0.03",), frozenset({"n2"})),
    "two-neighbours": Drill(("rate n2 0.03", "rate n3 0.03"), frozenset({"n2", "n3"})),
    "healthy-between": Drill(("rate n2 0.03", "rate n4 0.03"), frozenset({"n2", "n4"})),
    "four-nodes": Drill(("rate n2 0.03",), frozenset({"n2"}), "n[1-4]"),
    "lossy-rail": Drill(("rail-loss n5 5",), frozenset({"n5"})),
    "uplinks": Drill(
        tuple(f"uplink-rate leaf1:spine{number} 0.03" for number in range(1, 5)),
        # Of three leaves one would spoil two thirds of all ways.
        frozenset({"leaf leaf1"}),
        "n[1-4,9-12,17-20,25-28]",
        ("--schedule", "cover"),
    ),
    "flap": Drill(("flap n5",), frozenset({"n5"})),
    "off": Drill(("off n3",), frozenset({"n3"})),
    "mtu": Drill(("mtu n6 1500",), frozenset({"n6"})),
}


def accept(area: Path, drill: Drill) -> dict[str, Any]:
    words = ["--system", SYSTEM, "--json", "--nodes", drill.nodes, *drill.options]
    done = subprocess.run(
        [str(paths.HOME / "bin/railgauge"), "accept", *words, "--", "-n", "Iperf2Pair"],
        cwd=paths.HOME,
        env={**os.environ, "RAILGAUGE_RESULTS": str(area)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def named(suspects: Sequence[dict[str, Any]]) -> set[str]:
    """The nodes that are named, or have a rail that is, and the fabric's parts that are."""
    found = set()
    for suspect in suspects:
        if suspect["kind"] in ("node", "rail"):
            found.update(suspect["nodes"])
        elif suspect["kind"] in ("leaf", "uplink"):
            found.add(f"{suspect['kind']} {suspect['name']}")
    return found


def run(lab: Lab, area: Path, drill: Drill) -> tuple[bool, str]:
    """Whether it was right, and what was said."""
    shutil.rmtree(area, ignore_errors=True)
    area.mkdir(parents=True)
    for words in drill.faults:
        kind, *rest = words.split()
        faults.add_typed(lab, kind, rest)
    started = time.monotonic()
    try:
        verdict = accept(area, drill)
    finally:
        seconds = time.monotonic() - started
        faults.clear(lab)
    rounds = sum(len(sweep.rounds) for sweep in sweeps(area, "Iperf2Pair"))
    said = [
        f"{s['kind']} {s['name']} {'confirmed' if s['confirmed'] else 'not confirmed'}"
        for s in verdict["suspects"]
    ]
    right = named(verdict["suspects"]) == drill.guilty
    return right, f"{rounds:>6} {seconds:>5.0f}  {', '.join(said) or 'nobody'}"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("names", nargs="*", choices=[[], *DRILLS])
    chosen = parser.parse_args(words)
    partitions = {p.name: p.extras.nodes for p in systems.load(SYSTEM).partitions}
    lab = Lab(spec.load(spec.file(SYSTEM)), partitions, paths.lab_folder(), system=SYSTEM)
    was_up = lab.init is not None
    lab.up()
    area = paths.HOME / "results" / "tests" / "drill-locate"
    wrong = 0
    print(f"{'fault':<17} {'':<5} {'rounds':>6} {'s':>5}  named")
    for name in chosen.names or DRILLS:
        for _ in range(chosen.times):
            right, told = run(lab, area / name, DRILLS[name])
            wrong += not right
            print(f"{name:<17} {'' if right else 'WRONG':<5} {told}", flush=True)
    if not was_up:
        lab.down()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
