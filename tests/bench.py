"""Figures, never asserted: `make bench`. Each with its spread, and as a ratio where it can be one.

    make bench                 all
    python -m tests.bench NAME...  some of: nothing up job campaign plan link rdma counters parse
                               logs fuzz rehearsal agents place locate suspects compare promote
                               power page coverage growth gpus
    python -m tests.bench --against REV [NAME...]  this build and that of a commit in turn, CPU time
                               and memory of: help gate verdict large-verdict plan
    python -m tests.bench_peers --help  beside programs of others, which are built elsewhere

Runs in clones and labs of its own, next to a lab that may be up.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from railgauge import paths
from railgauge.campaign.folder import (
    RESULT_FILE,
    STANDING,
    Campaign,
    Requested,
    Scope,
    Session,
)
from railgauge.cli.lab import open_lab
from railgauge.cluster import store
from railgauge.gate import coverage as records_of_coverage
from railgauge.gate import upgrade_check
from railgauge.lab import faults
from railgauge.lab.cluster import Lab
from railgauge.model import record
from railgauge.model.record import Record, Standing, write_standings
from railgauge.tools import iperf2, nccl_tests
from tests import (
    bench_accept,
    bench_against,
    bench_asked,
    bench_compare,
    bench_gpus,
    bench_growth,
    bench_logs,
    bench_page,
    bench_parts,
    bench_suspects,
    bench_sweep,
    bench_worlds,
    worlds,
)
from tests.unit.tools import nccl_outputs

AREA = paths.HOME / "results" / "bench"
STAGE = AREA / "reframe" / "stage"

#: How often a campaign is measured.
TIMES = 5


def spread(values: Sequence[float], unit: str = "s") -> str:
    """Median, least and most."""
    return (
        f"{statistics.median(values):.2f} {unit} "
        f"({min(values):.2f} to {max(values):.2f}, n={len(values)})"
    )


def timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def must(*command: str, cwd: Path = paths.HOME, **env: str) -> str:
    answer = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "RAILGAUGE_RESULTS": str(AREA), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {answer.returncode}\n{answer.stdout[-3000:]}")
    return answer.stdout


@contextlib.contextmanager
def lab_up() -> Iterator[Lab]:
    lab = open_lab()
    was_up = lab.init is not None
    lab.up()
    faults.clear(lab)
    try:
        yield lab
    finally:
        if not was_up:
            lab.down()


def nothing() -> None:
    """From a fresh clone to the verdict, and warm."""
    clone = AREA / "clone"
    must("git", "clone", "--quiet", str(paths.HOME), str(clone))
    # The clone's own results, image and environment: as after `make distclean`.
    unset = {"RAILGAUGE_RESULTS": "", "RAILGAUGE_LAB_DIR": "", "RAILGAUGE_LAB_ROOTFS": ""}
    cold = timed(lambda: must("make", "accept", cwd=clone, **unset))
    print(f"from nothing to the verdict (make accept): {cold:.0f} s (n=1)")
    warm = [timed(lambda: must("make", "accept", cwd=clone, **unset)) for _ in range(3)]
    print(f"the same, with the lab up:                 {spread(warm)}")
    must("make", "distclean", cwd=clone, **unset)


def up() -> None:
    """`lab up` with its image there."""
    folder = AREA / "lab"
    image = open_lab().folders.lab / "rootfs"
    folder.mkdir()
    (folder / "rootfs").symlink_to(image)
    lab = Lab(open_lab().spec, open_lab().partitions, folder)
    lab.up()  # finds out whether KVM works
    lab.down()
    seconds, ends, without = [], [], []
    for _ in range(5):
        seconds.append(timed(lab.up))
        ends.append(timed(lab.down))
        without.append(timed(lambda: lab.up(nodes=["n1", "n2", "n3", "n4"])))
        lab.down()
    print(f"lab up, warm, until every node is idle:    {spread(seconds)}")
    print(f"the same without the VM nodes:             {spread(without)}")
    print(f"lab down:                                  {spread(ends)}")


PLAIN = """#!/bin/bash
#SBATCH --partition=ns --nodes=2 --ntasks-per-node=1 --nodelist=n1,n2 --output=plain.log
srun -N1 -n1 -w n1 --overlap iperf -s -p 5555 -P 4 -e -f k >server.out &
until srun -N1 -n1 -w n1 --overlap ss -Hltn | grep -q :5555; do :; done
srun -N1 -n1 -w n2 --overlap iperf -c n1 -p 5555 -P 4 -t 3 -e -i 1 -f k >client.out
wait
"""


def job() -> None:
    """What the harness adds to a job, over the same tool calls in a plain batch script."""
    folder = AREA / "plain"
    folder.mkdir()
    (folder / "plain.sh").write_text(PLAIN)
    with lab_up() as lab:
        commands = {"PATH": f"{lab.folders.bin}:{os.environ['PATH']}"}

        def plain() -> None:
            number = must("sbatch", "--parsable", "plain.sh", cwd=folder, **commands).strip()
            while True:
                line = ("sacct", "-n", "-X", "-P", "-j", number, "-o", "state")
                state = must(*line, cwd=folder, **commands).strip()
                if state not in ("", "PENDING", "RUNNING"):
                    break
                time.sleep(0.05)
            if state != "COMPLETED":
                sys.exit(f"plain job {number}: {state}")

        by_hand = [timed(plain) for _ in range(10)]
        must(
            *(str(paths.HOME / "bin/reframe"), "-c", str(paths.CHECKS)),
            *("-n", r"^Iperf2Pair\b", "-r", "--reruns=9"),
            RAILGAUGE_PLACES="^n1:n2$",
        )
        report = json.loads((AREA / "reframe" / "report.json").read_text())
        ours = [t["time_total"] for run in report["runs"] for t in run["testcases"]]
    print(f"one iperf2 pair by a plain batch script:   {spread(by_hand)}")
    print(f"the same as a sweep of one place:          {spread(ours)}")
    added = statistics.median(ours) - statistics.median(by_hand)
    print(f"the harness adds to a job:                 {added:+.2f} s (medians)")


def campaign() -> None:
    """What it adds over a whole campaign and over a round: all that is not a tool's own run."""
    with lab_up():
        command = (str(paths.HOME / "bin/railgauge"), "accept")
        for what, options in (("partition ns", ("--partition", "ns")), ("the whole lab", ())):
            seconds, ratios, cases = [], [], 0
            rounds: dict[str, list[float]] = {}
            parts: dict[str, list[float]] = {}
            for _ in range(TIMES):
                seconds.append(timed(functools.partial(must, *command, *options)))
                folder = max((AREA / "campaigns").iterdir())
                cases, tools = bench_parts.tools(folder / "stage")
                ratios.append(seconds[-1] / tools)
                for check, of_check in bench_parts.rounds_over_tools(folder / "stage"):
                    rounds.setdefault(check, []).extend(of_check)
                for part, of_part in bench_parts.parts(folder, seconds[-1], tools):
                    parts.setdefault(part, []).append(of_part)
            print(f"a campaign of {cases} cases, {what}: {spread(seconds)}")
            print(f"session over the tools' own time:          {spread(ratios, '')}")
            for part, of_parts in parts.items():
                print(f"{f'  {part}:':<42} {spread(of_parts)}")
            for check, of_check in sorted(rounds.items()):
                print(f"{f'  round over tools, {check}:':<42} {spread(of_check, '')}")


def plan() -> None:
    """What a campaign of many nodes would run, and how long it takes to list that: DGX H100, eight
    rails a node.
    """
    for nodes in (32, 512, bench_against.LARGEST):
        home = bench_against.with_nodes(paths.HOME, nodes, AREA / f"{nodes}-nodes")
        command = (sys.executable, "-m", "railgauge", "accept", "--system", "dgx-h100", "--plan")
        told, seconds, cpu = "", [], []
        for _ in range(3):
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.monotonic()
            told = must(*command, PYTHONPATH=str(home / "src"), RAILGAUGE_RESULTS=str(home))
            seconds.append(time.monotonic() - began)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu.append(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime)
        what = f"plan of {nodes} nodes:"
        print(f"{what:<42} {told.splitlines()[-1]}")
        print(f"{'  to list it:':<42} {spread(seconds)}, CPU time {spread(cpu)}")


def link() -> None:
    """iperf2 through the suite over by hand, alternating, on a link shaped to 1 Gb/s."""
    asked = iperf2.Options(streams=4, duration_s=3)
    with lab_up() as lab:
        faults.add(lab, "rate", "n2", 1)

        def by_hand() -> float:
            server = subprocess.Popen(
                lab.enter("n1", *iperf2.server_argv(asked, "5556")),
                stdout=subprocess.PIPE,
                text=True,
            )
            while not lab_listens(lab, 5556):
                time.sleep(0.02)
            subprocess.run(
                lab.enter("n2", *iperf2.client_argv(asked, "n1", "5556")),
                stdout=subprocess.DEVNULL,
                check=True,
            )
            text, _ = server.communicate()
            return iperf2.parse(text).total.bandwidth_gbits_s

        def by_suite() -> float:
            must(
                *(str(paths.HOME / "bin/reframe"), "-c", str(paths.CHECKS)),
                *("-n", "^Iperf2Pair", "-r", "--mode", "baseline", "-S", "duration_s=3"),
                RAILGAUGE_NODES="n[1-2]",
            )
            rows = [row for one in records(STAGE) for result in one.results for row in result.rows]
            numbers = [row.measurement for row in rows]
            return next(number.value for number in numbers if number.metric == "bandwidth")

        try:
            ratios = []
            for _ in range(5):
                hand = by_hand()
                ratios.append(by_suite() / hand)
        finally:
            faults.clear(lab)
    print(f"iperf2 through the suite over by hand:     {spread(ratios, '')}")


def lab_listens(lab: Lab, port: int) -> bool:
    listed = subprocess.run(
        lab.enter("n1", "ss", "-Hltn"), capture_output=True, text=True, check=True
    )
    return f":{port}" in listed.stdout


def records(stage: Path) -> Iterator[Record]:
    """What the checks left below a stage folder."""
    for path in stage.glob(f"**/{RESULT_FILE}"):
        found = record.read_record(path)
        assert found is not None
        yield found


def measured(pattern: str, runs: int, places: str = "") -> dict[str, list[float]]:
    """Each performance variable of the checks that match, over several runs, of some places."""
    must(
        *(str(paths.HOME / "bin/reframe"), "-c", str(paths.CHECKS), "--mode", "baseline"),
        *("-n", pattern, "-r", f"--reruns={runs - 1}"),
        RAILGAUGE_PLACES=places,
    )
    report = json.loads((AREA / "reframe" / "report.json").read_text())
    found: dict[str, list[float]] = {}
    for run in report["runs"]:
        for case in run["testcases"]:
            for name, values in (case.get("perfvalues") or {}).items():
                found.setdefault(f"{case['name']} {name.split(':')[-1]}", []).append(values[0])
    return found


def rdma() -> None:
    """Soft-RoCE between two VM nodes: what its spread leaves to compare."""
    with lab_up():
        # Of the lab RailProbe measures the bandwidth of the same rails.
        bandwidth = measured(r"^RdmaBandwidth\b", 10, "^n5:n6:0-1$")
        latency = measured(r"^RdmaLatency\b", 10, "^n5:n6:0-0:write$")
    for name, values in {**bandwidth, **latency}.items():
        # Of one place the worst is all that there is.
        variable, _, rails = name.split()[-1].removesuffix("_worst").rpartition("B_")
        if name.endswith("_worst") and variable in (
            "bandwidth_65536",
            "latency_2",
            "latency_min_2",
        ):
            unit = "Gb/s" if "bandwidth" in name else "us"
            print(f"{f'{variable}B over rxe, {rails}:':<42} {spread(values, unit)}")


def counters() -> None:
    """What watching the counters costs during an iperf2 test, on each kind of node."""
    samples: dict[str, list[dict[str, float]]] = {"namespace": [], "VM": []}
    with lab_up():
        for _ in range(5):
            measured(r"^Iperf2Pair\b", 1)
            told = [result.facts for one in records(STAGE) for result in one.results]
            for of_nodes in told:
                for node, facts in of_nodes.items():
                    kind = "VM" if node in ("n5", "n6") else "namespace"
                    samples[kind].append(facts["counters"])
    for kind, found in samples.items():
        shares = [100 * record["sampler_cpu_share"] for record in found]
        seconds = [1e3 * record["snapshot_s"] for record in found]
        print(f"{'sampling, share of a core, ' + kind + ':':<42} {spread(shares, '%')}")
        print(f"{'two snapshots, ' + kind + ':':<42} {spread(seconds, 'ms')}")


#: Like a known corpus of public logs: 408 files, 3.2 MB.
CORPUS_BYTES = 3_200_000


def logs() -> None:
    """A thousand small logs by one command, next to one at a time."""
    bench_logs.run(AREA / "logs")


def parse() -> None:
    """nccl-tests' output, read and judged: as often as 3.2 MB of logs hold it."""
    recorded = paths.HOME / "tests/data/nccl-tests/gb200-2x4-mnnvl-16GiB.txt"
    chance = random.Random(1)
    made = (nccl_outputs.printed(nccl_outputs.random_run(chance)) for _ in range(500))
    # The corpus has 8 kB a file.
    texts = [recorded.read_text(), *(text for text in made if len(text) > 4000)]
    corpus = texts * (CORPUS_BYTES // sum(map(len, texts)) + 1)
    size = sum(map(len, corpus))

    def parsed() -> None:
        for text in corpus:
            nccl_tests.parse(text)

    def judged() -> None:
        for text in corpus:
            nccl_tests.read({0: text})

    for name, action in (("parsed", parsed), ("parsed and judged", judged)):
        rates = [size / timed(action) / 1e6 for _ in range(5)]
        print(f"{'nccl-tests, ' + name + ':':<42} {spread(rates, 'MB/s')}, {len(corpus)} files")


def fuzz() -> None:
    """Mutations of nccl-tests' output: none may pass with other numbers, or crash."""
    cases = 100_000
    seconds = timed(lambda: nccl_outputs.fuzz(cases, seed=1))
    print(f"{'mutated outputs of nccl-tests:':<42} {cases} judged as they must, {seconds:.0f} s")


def rehearsal() -> None:
    """Four nodes of a GB200 rack, rehearsed: Slurm, ReFrame and the replayer, without GPUs."""
    with lab_up():
        command = (str(paths.HOME / "bin/railgauge"), "rehearse", "gb200-nvl72")
        pairs = ("--", "-n", "NcclPair")
        seconds = [timed(lambda: must(*command, *pairs)) for _ in range(3)]
    print(f"{'a rehearsal of 16 places in 8 launches:':<42} {spread(seconds)}")


def agents() -> None:
    """Rounds of sweeps over as many simulated agents as large clusters have nodes."""
    for count in (1000, 4608):
        bench_sweep.bare(count)
        bench_sweep.simulated(count, AREA / f"agents-{count}")


def growth() -> None:
    """How CPU time grows with nodes, rails, places, campaigns and log bytes."""
    bench_growth.figures(AREA / "growth")


def place() -> None:
    """What a sweep adds to a place, over the same tools in a loop."""
    bench_sweep.added(AREA / "place")


def locate() -> None:
    """Rounds, false accusations and CPU seconds until faults are named, in simulated campaigns."""
    bench_worlds.table([*worlds.WORLDS], count=20, base=0, all_kinds=False, limit=60)
    bench_worlds.of_mixture(1000, base=0, all_kinds=False, limit=60)
    bench_asked.figures()
    bench_worlds.with_others(20, base=0)


def suspects() -> None:
    """What a verdict's suspects cost, and how often they are wrong, in campaigns of one ring."""
    bench_suspects.figures()


def compare() -> None:
    """Before and after: its cost, what it finds, and how often it is wrong."""
    bench_compare.compare(AREA)


def promote() -> None:
    bench_compare.promote(AREA)


def power() -> None:
    """The smallest loss that is found, and whether what is said of it holds."""
    bench_compare.smallest()
    bench_compare.claimed()


def page() -> None:
    """The page of a large campaign."""
    bench_page.figures(AREA)


def gpus() -> None:
    """What eight GPUs add to a node's checks beside their tools."""
    bench_gpus.figures()


def coverage() -> None:
    """What `railgauge coverage` and `upgrade-check` read of 10,000 campaigns of 32 nodes each."""
    standing = Standing(
        measured=True,
        outcome="accepted",
        why="",
        fingerprint="0123456789abcdef",
        checks=("FabricBalance", "Iperf2Pair", "MpiWorld", "NodeState"),
        rails={"0": True, "1": True},
        alarms={},
        carriers={"eth0": (2, 2)},
    )
    standings = {f"n{number}": standing for number in range(1, 33)}
    began = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    for number in range(10_000):
        stamp = (began + number * datetime.timedelta(minutes=30)).strftime("%Y%m%dT%H%M%SZ")
        folder = AREA / "campaigns" / f"{stamp}-lab32-{number:06x}"
        folder.mkdir(parents=True)
        write_standings(folder / STANDING, standings)
        _finished(folder, [*standings]).save()
    before = os.environ.get("RAILGAUGE_RESULTS")
    os.environ["RAILGAUGE_RESULTS"] = str(AREA)
    try:
        store.folder("lab32").mkdir(parents=True)
        before_s = time.process_time()
        first = timed(lambda: records_of_coverage.read("lab32"))
        coverage_s = time.process_time() - before_s
        others = [timed(lambda: records_of_coverage.read("lab32")) for _ in range(5)]
        before_s = time.process_time()
        upgrade_check.lines()
        upgrade_s = time.process_time() - before_s
    finally:
        os.environ.pop("RAILGAUGE_RESULTS")
        if before is not None:
            os.environ["RAILGAUGE_RESULTS"] = before
    print(f"coverage of 10,000 campaigns of 32 nodes, the first time: {first:.2f} s (n=1)")
    print(f"the same, when nothing is new:                            {spread(others)}")
    print(f"upgrade-check of them, CPU:                               {upgrade_s:.2f} s (n=1)")
    print(f"upgrade-check over coverage the first time, CPU:          {upgrade_s / coverage_s:.2f}")


def _finished(folder: Path, nodes: list[str]) -> Campaign:
    return Campaign(
        folder,
        "lab32",
        "acceptance",
        Scope({"ns": nodes}, {}),
        Requested([], {}, {}),
        state="finished",
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:10:00+00:00",
        session=Session(0, ""),
        fingerprints=dict.fromkeys(nodes, "0123456789abcdef"),
    )


_ALL = (
    *(nothing, up, job, campaign, plan, link, rdma, counters, parse, logs, fuzz, rehearsal),
    *(agents, growth, place, locate, suspects, compare, promote, power, page, coverage, gpus),
)

BENCHES = {f.__name__: f for f in _ALL}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", allow_abbrev=False)
    parser.add_argument("--against", metavar="REV", help="compare with the build of that commit")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    known = [*bench_against.WORKS, "accept"] if asked.against else list(BENCHES)
    unknown = [name for name in asked.names if name not in known]
    if unknown:
        sys.exit(f"bench {' '.join(unknown)} is unknown; one of {', '.join(known)}")
    if asked.against:
        with tempfile.TemporaryDirectory(prefix="railgauge-bench-") as area:
            commands = [name for name in asked.names if name != "accept"]
            if commands or not asked.names:
                bench_against.compare(asked.against, commands, Path(area))
            if "accept" in asked.names:
                bench_accept.compare(asked.against, Path(area))
        return
    chosen = asked.names or list(BENCHES)
    for name in chosen:
        shutil.rmtree(AREA, ignore_errors=True)
        AREA.mkdir(parents=True)
        BENCHES[name]()
        sys.stdout.flush()
    shutil.rmtree(AREA, ignore_errors=True)


if __name__ == "__main__":
    main()
