"""Faults of the labs' links: fault -> who is named, and how -> rounds -> seconds.

    python -m tests.lab.drill_locate [--times N] [--only NAME...] [--minutes N] [--table]

A drill is right where the nodes that are named are those with the fault, and nobody else; of
uplinks, where their leaf is named, and no node. Each run is a line of
results/tests/drill-locate.jsonl, so that what broke off goes on where it was: `--times` counts what
is there too, of the same code or not (`--again` forgets it). `--minutes` begins no run after so
long. The lab stays up from run to run. `--table` prints what there is, for docs/figures.csv. What a
wrong run left moves to results/tests/drill-locate/wrong, so that its campaign can be read.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railgauge import hostlist, paths, systems
from railgauge.campaign.folder import load
from railgauge.lab import faults, spec, switches, vm
from railgauge.lab.cluster import Lab
from railgauge.verdict.campaign.cases import read as read_cases
from railgauge.verdict.location import locate
from railgauge.verdict.location.from_campaign import read_leaves

from . import drills_links
from .test_accept import sweeps

AREA = paths.HOME / "results" / "tests" / "drill-locate"
RUNS = AREA.with_suffix(".jsonl")

#: Four nodes of each of four leaves, and of three of them.
_FOUR_LEAVES = "n[1-4,9-12,17-20,25-28]"
_THREE_LEAVES = "n[1-4,9-12,17-20]"

_COVER = ("--schedule", "cover")
_TO_TELL_LOAD = ("--locate-rounds", "10")


@dataclasses.dataclass(frozen=True)
class Drill:
    """Faults as `railgauge lab fault` takes them, the nodes that are measured, and who is at fault:
    node names, `leaf1`, or of two nodes that nobody can tell apart their pair. `lossy_port` is a
    VM's interface of which the switch loses one packet in twenty, where the node cannot see it.
    `gives_way` is the node that is of the lowest class on its leaf, and from which rate (Gb/s) on.
    `uplink` is the one that must be named where its leaf is guilty: by the switches' counters, and
    without them no further than to the leaf. A spine is named by these counters alone; without
    them some of the leaves may be suspected: each has a faulty uplink.
    """

    faults: tuple[str, ...]
    guilty: frozenset[str]
    nodes: str = "n[1-8]"
    options: tuple[str, ...] = ()
    checks: tuple[str, ...] = ("Iperf2Pair",)
    system: str = "lab32"
    lossy_port: str = ""
    gives_way: tuple[str, float] | None = None
    uplink: str = ""
    #: how the leaves spread what their nodes send (switches.MODES); with `direction` the uplink
    #: must be named, and its direction, by the routes that the leaves' kernels have
    mode: str = "ecmp"
    direction: str = ""


def _uplinks(nodes: str) -> Drill:
    every = tuple(f"uplink-rate leaf1:spine{number} 0.03" for number in range(1, 5))
    return Drill(every, frozenset({"leaf1"}), nodes, _COVER)


def _uplink(fault: str, nodes: str = "n[1-32]") -> Drill:
    """One of several behind ECMP."""
    return Drill((fault,), frozenset({"leaf1"}), nodes, _COVER, uplink="leaf1:spine2")


DRILLS = {
    "shaped-link": Drill(("rate n2 0.03",), frozenset({"n2"})),
    "sends-slowly": Drill(("send-rate n2 0.03",), frozenset({"n2"})),
    "two-neighbours": Drill(("rate n2 0.03", "rate n3 0.03"), frozenset({"n2", "n3"})),
    "healthy-between": Drill(("rate n2 0.03", "rate n4 0.03"), frozenset({"n2", "n4"})),
    "four-nodes": Drill(("rate n2 0.03",), frozenset({"n2"}), "n[1-4]"),
    "lossy-rail": Drill(("rail-loss n5 5",), frozenset({"n5"})),
    "uplink": _uplink("uplink-rate leaf1:spine2 0.002"),
    # Static paths: all flows between two addresses take the same spine. Fast enough for the
    # acknowledgements of what comes the other way.
    "static-uplink": Drill(
        ("uplink-send-rate leaf1:spine1 0.05",),
        frozenset({"leaf1"}),
        _FOUR_LEAVES,
        (*_COVER, "--locate-rounds", "10"),
        uplink="leaf1:spine1",
        mode="ecmp-l3",
        direction="up",
    ),
    "lossy-uplink": _uplink("uplink-loss leaf1:spine2 20", _FOUR_LEAVES),
    "uplink-of-16-nodes": _uplink("uplink-rate leaf1:spine2 0.002", _FOUR_LEAVES),
    "uplinks": _uplinks(_FOUR_LEAVES),
    # Slurm takes this network too, and starts no tasks over two links that lose 20 % each.
    "spine": Drill(
        tuple(f"uplink-loss leaf{leaf}:spine2 5" for leaf in range(1, 5)),
        frozenset({"spine2"}),
        _FOUR_LEAVES,
        _COVER,
        uplink="spine2",
    ),
    "uplinks-of-three": _uplinks(_THREE_LEAVES),
    "leaf-down": Drill(("leaf-down leaf2",), frozenset({"leaf2"}), "n[1-4,9-20,25-28]"),
    "uplink-and-node": Drill(
        ("uplink-rate leaf1:spine2 0.002", "rate n18 0.03"),
        frozenset({"leaf1", "n18"}),
        _FOUR_LEAVES,
        _COVER,
        uplink="leaf1:spine2",
    ),
    "quiet": Drill(("rate n2 0.03",), frozenset({"n2"}), options=_TO_TELL_LOAD),
    "load": Drill((), frozenset({"load n2"}), options=_TO_TELL_LOAD, gives_way=("n2", 0.125)),
    "flap": Drill(("flap n5",), frozenset({"n5"})),
    "off": Drill(("off n3",), frozenset({"n3"})),
    "mtu": Drill(("mtu n6 1500",), frozenset({"n6"})),
    "lossy-vm": Drill(
        (),
        frozenset({"n5-n6"}),
        "n[5-6]",
        ("--schedule", "shift"),
        ("RailProbe", "RdmaBandwidth"),
        "lab",
        "n5:eth1",
    ),
}


class RefusedError(Exception):
    """`railgauge accept` measured nothing; the text says why."""


def accept(area: Path, drill: Drill) -> dict[str, Any]:
    """The verdict as JSON; RefusedError where there is none."""
    words = ["--system", drill.system, "--json", "--nodes", drill.nodes, *drill.options]
    chosen = [word for check in drill.checks for word in ("-n", check)]
    done = subprocess.run(
        [str(paths.HOME / "bin/railgauge"), "accept", *words, "--", *chosen],
        cwd=paths.HOME,
        env={**os.environ, "RAILGAUGE_RESULTS": str(area)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if not done.stdout.startswith("{"):
        raise RefusedError(" ".join((done.stdout + done.stderr).split()))
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def named(suspects: Sequence[dict[str, Any]]) -> set[str]:
    """The nodes that are named, or have a rail that is, the leaves that are, or have an uplink that
    is, pairs, and `load n2`, who is slow for the load alone.
    """
    found = set()
    for suspect in suspects:
        if suspect["kind"] in ("node", "rail"):
            found.update(suspect["nodes"])
        elif suspect["kind"] in ("leaf", "uplink"):
            found.add(suspect["name"].partition(":")[0])
        elif suspect["kind"] == "pair":
            found.add(suspect["name"])
        elif suspect["kind"] == "load":
            found.add(f"load {suspect['name']}")
    return found


def fabric_parts(area: Path, counted: bool) -> list[str]:
    """The leaves and uplinks that the campaign's results name, with or without what the switches
    have counted.
    """
    (folder,) = (area / "campaigns").iterdir()
    campaign = load(str(folder))
    cases = read_cases(campaign)
    if not counted:
        cases = [dataclasses.replace(case, uplinks=()) for case in cases]
    found = locate.locate(cases, read_leaves(campaign))
    return [s.name for s in found.suspects if s.kind in ("leaf", "uplink")]


def set_aside(area: Path) -> Path:
    """Move what a wrong run has left to where the next one does not remove it."""
    now = datetime.datetime.now(datetime.timezone.utc)
    kept = area.parent / "wrong" / f"{area.name}-{now:%Y%m%dT%H%M%S.%f}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    return area.rename(kept)


def run(lab: Lab, name: str) -> dict[str, Any]:
    """Whether it was right, what was said, and of a wrong run where its results are."""
    area = AREA / name
    line: dict[str, Any] = {"right": False}
    try:
        line = measure(lab, name, area)
    except RefusedError as error:
        line |= {"drill": name, "when": _now(), "rounds": 0, "seconds": 0.0, "named": str(error)}
    finally:
        kept = None if line["right"] else set_aside(area)
    return {**line, **({"kept": str(kept.relative_to(paths.HOME))} if kept else {})}


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def measure(lab: Lab, name: str, area: Path) -> dict[str, Any]:
    """Whether it was right, and what was said."""
    drill = DRILLS[name]
    shutil.rmtree(area, ignore_errors=True)
    area.mkdir(parents=True)
    with contextlib.ExitStack() as in_place:
        in_place.callback(faults.clear, lab)
        if drill.mode != "ecmp":
            in_place.callback(switches.spread, lab, "ecmp")
            switches.spread(lab, drill.mode)
        for words in drill.faults:
            kind, *rest = words.split()
            faults.add_typed(lab, kind, rest)
        if drill.lossy_port:
            node, _, interface = drill.lossy_port.partition(":")
            port = vm.tap(lab.node(node), interface)
            in_place.enter_context(drills_links.port_loss(lab, port, 50))
        if drill.gives_way:
            in_place.enter_context(drills_links.gives_way(lab, *drill.gives_way))
        began = time.monotonic()
        verdict = accept(area, drill)
        seconds = time.monotonic() - began
    suspects = verdict["suspects"]
    said = [
        f"{s['kind']} {s['name']}{'' if s['confirmed'] else ', not confirmed'}" for s in suspects
    ]
    right = named(suspects) == drill.guilty
    if drill.direction:
        right = [(s["name"], s.get("direction")) for s in suspects] == [
            (drill.uplink, drill.direction)
        ]
    elif drill.uplink:
        by_counters, without = fabric_parts(area, True), fabric_parts(area, False)
        right &= by_counters == [drill.uplink]
        leaves = {part for part in drill.guilty if part.startswith("leaf")}
        faulty = {name.partition(":")[0] for _, name, *_ in map(str.split, drill.faults)}
        right &= set(without) == leaves if leaves else set(without) <= faulty
        said.append(f"without counters {', '.join(without) or 'nobody'}")
    return {
        "drill": name,
        "when": _now(),
        "right": right,
        "rounds": sum(len(sweep.rounds) for check in drill.checks for sweep in sweeps(area, check)),
        "seconds": round(seconds, 1),
        "load": os.getloadavg()[0],
        "named": "; ".join(said) or "nobody",
        "verdict": verdict["verdict"],
    }


def runs() -> list[dict[str, Any]]:
    text = RUNS.read_text(encoding="utf-8") if RUNS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def still_to_run(names: Sequence[str], times: int) -> list[str]:
    """Each so many times, less those that are there, by turns."""
    done = Counter(line["drill"] for line in runs())
    return [name for turn in range(times) for name in names if done[name] <= turn]


def keep(line: dict[str, Any]) -> None:
    with RUNS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.0f} | {min(values):.0f} to {max(values):.0f}"


def table(names: Sequence[str]) -> str:
    """Markdown: how often each drill was right, what was named, rounds and seconds."""
    lines = [
        "| drill | right | named | rounds, median | least to most | s, median | least to most |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for name in names:
        if not (of_drill := [line for line in runs() if line["drill"] == name]):
            continue
        told = Counter(", ".join(sorted(line["named"].split("; "))) for line in of_drill)
        lines.append(
            f"| {name} "
            f"| {sum(line['right'] for line in of_drill)} of {len(of_drill)} "
            f"| {'; '.join(f'{count}: {what}' for what, count in told.most_common())} "
            f"| {_spread([line['rounds'] for line in of_drill])} "
            f"| {_spread([line['seconds'] for line in of_drill])} |"
        )
    return "\n".join(lines)


def lab_of(drill: Drill) -> Lab:
    partitions = {p.name: p.extras.nodes for p in systems.load(drill.system).partitions}
    described = spec.load(spec.file(drill.system))
    return Lab(described, partitions, paths.lab_folder(), system=drill.system)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=DRILLS, metavar="NAME", default=list(DRILLS))
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args(words)
    if chosen.table:
        print(table(chosen.only))
        return 0
    AREA.mkdir(parents=True, exist_ok=True)
    if chosen.again:
        others = [line for line in runs() if line["drill"] not in chosen.only]
        RUNS.write_text("".join(json.dumps(line) + "\n" for line in others), encoding="utf-8")
    end = time.monotonic() + 60 * chosen.minutes if chosen.minutes else float("inf")
    wrong = 0
    for system in dict.fromkeys(DRILLS[name].system for name in chosen.only):
        of_system = [n for n in chosen.only if DRILLS[n].system == system]
        left = still_to_run(of_system, chosen.times)
        if not left or time.monotonic() > end:
            continue
        lab = lab_of(DRILLS[left[0]])
        was_up = lab.init is not None
        nodes = {node for name in left for node in hostlist.expand(DRILLS[name].nodes)}
        lab.up(nodes=sorted(nodes))
        try:
            for name in left:
                if time.monotonic() > end:
                    break
                keep(line := run(lab, name))
                wrong += not line["right"]
                how = "" if line["right"] else "WRONG"
                told = f"{line['rounds']:>6} {line['seconds']:>5.0f}  {line['named']}"
                kept = f"  (kept: {line['kept']})" if "kept" in line else ""
                print(f"{name:<17} {how:<5} {told}{kept}", flush=True)
        finally:
            if not was_up:
                lab.down()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
