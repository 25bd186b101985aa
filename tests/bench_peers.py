"""Railgauge beside programs of others, on the same work.

    python -m tests.bench_peers lab [--hp2p FILE] [--nodes N...] [--ways WAY...] [--times N]
    python -m tests.bench_peers logs [--analyze FILE] [--superbench FILE] [--only PART...]
                                     [--times N]

`lab` measures all pairs of nodes of lab32 by hp2p of CEA, by a sweep of Railgauge, and by ReFrame
alone with a test for each pair. The lab must be up with these nodes. `logs` reads and compares the
same results by Railgauge, by analyze_perf_json.py of nccl-tests, by `sb result diagnosis` of
superbench and by `reframe --performance-compare`.

The programs of others are built or installed outside this repository: FILE is the executable. A
program that is not given is left out, and the output says so.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from railgauge import paths, systems
from railgauge.lab import faults, spec
from railgauge.lab.cluster import Lab
from railgauge.node.transport import results_file
from tests import bench_peers_logs

AREA = paths.HOME / "results" / "bench-peers"
_LAB = AREA / "lab"
SYSTEM = "lab32"
LIMIT_S = 1200

#: Seconds of traffic of iperf2 in each pair, and the messages of 1 MiB of hp2p that take about as
#: long over two links of lab32, in both directions at once.
DURATION_S = 3
MESSAGES = 16
_MESSAGE_BYTES = 2**20

#: The planted fault: this node's link is slow.
CULPRIT, FAULT = "n2", ("rate", "n2", 0.03)

#: What Open MPI 5 needs in the lab, as configs/systems/lab/reframe.yaml explains; ranks that wait
#: give their core away.
_MPI = {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_opal_common_ucx_tls": "any",
    "OMPI_MCA_opal_common_ucx_devices": "any",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "UCX_TLS": "self,sm,tcp",
    "UCX_NET_DEVICES": "eth0",
}


class Took(NamedTuple):
    """All pairs: seconds of a command, of its measurement and of the tool in it; who is named."""

    command_s: float
    sweep_s: float
    tool_s: float
    named: str


def rounds_of(nodes: int) -> list[list[tuple[int, int]]]:
    """All pairs of so many nodes, an even number, by rounds: in each every node has one partner."""
    assert nodes % 2 == 0
    last, turning = nodes - 1, nodes - 1
    rounds = []
    for number in range(turning):
        pairs = [(number, last)]
        for step in range(1, nodes // 2):
            pairs.append(((number + step) % turning, (number - step) % turning))
        rounds.append([(min(pair), max(pair)) for pair in pairs])
    return rounds


def bandwidths(text: str, nodes: int) -> list[list[float]]:
    """The last matrix that hp2p printed (-f bin): MiB/s by rank and partner; 0 on the diagonal."""
    number = r"[0-9]+\.[0-9]+"
    row = re.compile(rf"^{number}(?:\t{number}){{{nodes - 1}}}\t?$", re.MULTILINE)
    rows = [[float(word) for word in found.split()] for found in row.findall(text)]
    if not rows or len(rows) % nodes:
        raise ValueError(f"hp2p printed {len(rows)} rows of {nodes} bandwidths, not as many")
    return rows[-nodes:]


def slowest_of_rounds(matrix: Sequence[Sequence[float]], message_s: float) -> float:
    """Seconds that hp2p's timed messages took, all rounds: of each the slowest pair's.

    In a round of `-c 1` the partners are those with the same sum of ranks. `message_s` is what all
    messages of a pair take at 1 MiB/s.
    """
    slowest: dict[int, float] = collections.defaultdict(float)
    for rank, row in enumerate(matrix):
        for partner, rate in enumerate(row):
            if rate:
                key = (rank + partner) % len(matrix)
                slowest[key] = max(slowest[key], message_s / rate)
    return sum(slowest.values())


_SLOW = re.compile(r"the communication between ([0-9]+) and ([0-9]+) was slow")


def warned(text: str) -> str:
    """The pairs of which hp2p warned, and in how many of them the culprit is."""
    pairs = {(f"n{int(a) + 1}", f"n{int(b) + 1}") for a, b in _SLOW.findall(text)}
    guilty = sum(CULPRIT in pair for pair in pairs)
    return f"{len(pairs)} pairs, {guilty} of them with {CULPRIT}" if pairs else "nobody"


def _run(command: Sequence[str], **env: str) -> str:
    answer = subprocess.run(
        command,
        cwd=_LAB,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if answer.returncode not in (0, 1, 2):
        sys.exit(f"{' '.join(command)}: exit code {answer.returncode}\n{answer.stdout[-3000:]}")
    return answer.stdout


def by_hp2p(lab: Lab, program: Path, nodes: int, planted: bool) -> Took:
    """All pairs by hp2p, a rank a node. With a fault it compares each pair with the mean so far."""
    own = _LAB / "hp2p.exe"
    shutil.copy(program, own)
    command = [str(lab.folders.bin / "srun"), "--partition=ns", f"--nodes={nodes}"]
    command += [f"--ntasks={nodes}", f"--nodelist=n[1-{nodes}]", "--kill-on-bad-exit=1", str(own)]
    # -c 1 is the only way to every pair once: a round for each sum of two ranks.
    command += ["-n", str(nodes), "-c", "1", "-m", str(MESSAGES), "-s", str(_MESSAGE_BYTES)]
    command += ["-f", "bin", "-o", "hp2p"]
    if planted:
        command += ["-k", "1", "-X", "1.5"]
    began = time.monotonic()
    text = _run(command, **_MPI)
    seconds = time.monotonic() - began
    tool = slowest_of_rounds(bandwidths(text, nodes), MESSAGES * _MESSAGE_BYTES / 2**20)
    return Took(seconds, seconds, tool, warned(text))


def by_sweep(nodes: int) -> Took:
    """All pairs by `railgauge accept`, with its start and its verdict, and without NodeState."""
    results = _LAB / "results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    command = [str(paths.HOME / "bin/railgauge"), "accept", "--system", SYSTEM, "--json"]
    command += ["--nodes", f"n[1-{nodes}]", "--schedule", "tournament", "--locate-rounds", "0"]
    command += ["--", "-n", "Iperf2Pair", "-S", f"duration_s={DURATION_S}"]
    began = time.monotonic()
    text = _run(command, RAILGAUGE_RESULTS=str(results))
    seconds = time.monotonic() - began
    verdict = json.loads(text[text.index("{") : text.rindex("}") + 1])
    (path,) = results.glob(f"campaigns/*/**/Iperf2Pair_*/{results_file.FILE}")
    found = results_file.read(path)
    pairs = nodes * (nodes - 1) // 2
    if found.end is None or len(found.places) != pairs:
        sys.exit(f"bench: the sweep has {len(found.places)} of {pairs} pairs: {path}")
    named = [f"{s['kind']} {s['name']}" for s in verdict["suspects"]]
    tool = sum(event["tool_seconds"] or 0 for event in found.rounds.values())
    return Took(seconds, found.end["seconds"], tool, ", ".join(named) or "nobody")


_SETTINGS = """
site_configuration = {{
    "systems": [{{
        "name": "alone", "hostnames": [".*"], "modules_system": "nomod",
        "partitions": [{{
            "name": "ns", "scheduler": "slurm", "launcher": "local", "access": ["--partition=ns"],
            "environs": ["builtin"], "max_jobs": {nodes},
        }}],
    }}],
    "environments": [{{"name": "builtin"}}],
    "storage": [{{"enable": False}}],
}}
"""

_TEST = """
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, performance_function, run_before, sanity_function


@rfm.simple_test
class Pair(rfm.RunOnlyRegressionTest):
    pair = parameter({pairs})
    valid_systems = ["alone:ns"]
    valid_prog_environs = ["builtin"]
    num_tasks = 2
    num_tasks_per_node = 1
    exclusive_access = True
    time_limit = "5m"
    executable = "bash"

    @run_before("run")
    def order(self):
        a, b = self.pair.split("-")
        self.job.options = [f"--nodelist={{a}},{{b}}"]
        self.executable_opts = ["-c", (
            f"'iperf -s -p 5555 -P 4 -e -f k >server.out & "
            f"until ss -Hltn | grep -q :5555; do sleep 0.02; done; "
            f"srun -N1 -n1 -w {{b}} --overlap iperf -c {{a}} -p 5555 -P 4 -t {duration} -e -f k; "
            f"wait; cat server.out'"
        )]

    @sanity_function
    def ended(self):
        return sn.assert_found("SUM", self.stdout)

    @performance_function("kbit/s")
    def rate(self):
        return sn.extractsingle(r"SUM.* ([0-9]+) Kbits/sec", self.stdout, 1, float, -1)
"""


def by_reframe(lab: Lab, nodes: int) -> Took:
    """All pairs by ReFrame without Railgauge: a test and a job for each, as many as Slurm has room
    for at once.
    """
    folder = _LAB / "reframe"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    pairs = [f"n{a + 1}-n{b + 1}" for of_round in rounds_of(nodes) for a, b in of_round]
    (folder / "settings.py").write_text(_SETTINGS.format(nodes=nodes))
    (folder / "pairs.py").write_text(_TEST.format(pairs=pairs, duration=DURATION_S))
    report = folder / "report.json"
    command = [str(paths.HOME / ".venv/bin/reframe"), "-C", str(folder / "settings.py")]
    command += ["-c", str(folder / "pairs.py"), "--prefix", str(folder), "-r"]
    command += ["--report-file", str(report)]
    began = time.monotonic()
    text = _run(command, PATH=f"{lab.folders.bin}:{os.environ['PATH']}", RFM_SYSTEM="alone")
    seconds = time.monotonic() - began
    if not report.exists():
        sys.exit(f"bench: ReFrame left no report\n{text[-3000:]}")
    (run,) = json.loads(report.read_text())["runs"]
    if run["num_cases"] != len(pairs) or run["num_failures"]:
        sys.exit(f"bench: {run['num_failures']} of {run['num_cases']} tests failed\n{text[-3000:]}")
    return Took(seconds, seconds, DURATION_S * len(rounds_of(nodes)), "")


def _shown(values: Sequence[float], unit: str) -> str:
    median = statistics.median(values)
    return f"{median:.2f} {unit} ({min(values):.2f} to {max(values):.2f}, n={len(values)})"


def _all_pairs(ways: Mapping[str, Callable[[], Took]], nodes: int, times: int) -> Iterator[str]:
    """The ways in turn: lines of their times, and of their ratios in the same turn."""
    took: dict[str, list[Took]] = {way: [] for way in ways}
    for _ in range(times):
        for way, action in ways.items():
            took[way].append(action())
            print(f"  {way}, {nodes} nodes: {took[way][-1]}, load {os.getloadavg()[0]:.0f}")
            sys.stdout.flush()
    pairs = nodes * (nodes - 1) // 2
    for way, of_way in took.items():
        what = f"all pairs of {nodes} nodes, {way}"
        yield f"{what}: {_shown([one.command_s for one in of_way], 's')}"
        yield f"{what}, a pair: {_shown([one.command_s / pairs for one in of_way], 's')}"
        yield f"{what}, over its tool: {_shown([one.command_s / one.tool_s for one in of_way], '')}"
        for named in dict.fromkeys(one.named for one in of_way if one.named):
            yield f"{what}, names: {named}"
    if ours := took.get("railgauge accept"):
        what = f"all pairs of {nodes} nodes, the sweep of railgauge accept"
        yield f"{what}: {_shown([one.sweep_s for one in ours], 's')}"
        yield f"{what}, over its tool: {_shown([one.sweep_s / one.tool_s for one in ours], '')}"
        for way, of_way in took.items():
            if of_way is not ours:
                both = list(zip(ours, of_way, strict=True))
                whole = [one.command_s / other.command_s for one, other in both]
                sweep = [one.sweep_s / other.command_s for one, other in both]
                yield f"railgauge accept over {way}, {nodes} nodes: {_shown(whole, '')}"
                over_tool = [
                    (one.sweep_s / one.tool_s) / (other.command_s / other.tool_s)
                    for one, other in both
                ]
                yield f"its sweep over {way}, {nodes} nodes: {_shown(sweep, '')}"
                yield f"the same, each over its tool: {_shown(over_tool, '')}"


def _lab() -> Lab:
    partitions = {p.name: p.extras.nodes for p in systems.load(SYSTEM).partitions}
    lab = Lab(spec.load(spec.file(SYSTEM)), partitions, paths.lab_folder(), system=SYSTEM)
    if lab.init is None:
        sys.exit(f"bench: the lab is down; railgauge lab up --system {SYSTEM} --nodes 'n[1-16]'")
    return lab


def in_lab(hp2p: Path | None, counts: Sequence[int], times: int, ways: Sequence[str]) -> None:
    """Print the figures of all pairs, healthy and with a slow link."""
    lab = _lab()
    faults.clear(lab)
    for nodes in counts:
        actions: dict[str, Callable[[], Took]] = {}
        planted: dict[str, Callable[[], Took]] = {}
        if hp2p and "hp2p" in ways:
            actions["hp2p"] = functools.partial(by_hp2p, lab, hp2p, nodes, False)
            planted["hp2p"] = functools.partial(by_hp2p, lab, hp2p, nodes, True)
        if "sweep" in ways:
            actions["railgauge accept"] = functools.partial(by_sweep, nodes)
            planted["railgauge accept"] = actions["railgauge accept"]
        if "reframe" in ways:
            actions["reframe"] = functools.partial(by_reframe, lab, nodes)
        for line in _all_pairs(actions, nodes, times):
            print(line)
        if "fault" in ways:
            faults.add(lab, *FAULT)
            try:
                for line in _all_pairs(planted, nodes, 1):
                    print(f"{' '.join(map(str, FAULT))}: {line}")
            finally:
                faults.clear(lab)
    if hp2p is None:
        print("hp2p is left out: --hp2p FILE")


WAYS = ("hp2p", "sweep", "reframe", "fault")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench_peers", allow_abbrev=False)
    parser.add_argument("what", choices=("lab", "logs"))
    parser.add_argument("--hp2p", type=Path, metavar="FILE")
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 16], metavar="N")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--analyze", type=Path, metavar="FILE")
    parser.add_argument("--superbench", type=Path, metavar="FILE")
    parts = bench_peers_logs.PARTS
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), metavar="PART")
    parser.add_argument("--times", type=int, default=5, metavar="N")
    asked = parser.parse_args(words)
    area = AREA / asked.what
    shutil.rmtree(area, ignore_errors=True)
    area.mkdir(parents=True)
    if asked.what == "lab":
        in_lab(asked.hp2p, asked.nodes, asked.times, asked.ways)
    else:
        programs = (asked.analyze, asked.superbench)
        bench_peers_logs.figures(area, *programs, asked.times, asked.only)
    shutil.rmtree(area, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
