"""The same results read and compared by Railgauge and by programs of others: CPU time and memory.

Outputs of nccl-tests, and measurements of 4,608 links under 22 sizes in ten campaigns, are made up
here. Each program gets them in its own form, with no more fields than it reads. What others leave
out is not asked of them: they compare with a fixed value or by a mean, without a statistic.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from railgauge import paths
from railgauge.verdict.comparison import measurement_table
from tests import bench_against, bench_compare, bench_logs

FILES, ITERATIONS = 1000, 20
_SIZES = [2**power for power in range(20, 28)]
_DAY_S = 86400
#: 2026-11-01, 0:00 UTC: the day of the first campaign.
_FIRST_S = 1793491200
CAMPAIGNS = 10

PARTS = ("files", "logs", "campaigns")


class Work(NamedTuple):
    """A command of `program` on some data; `ends` are exit codes with which it does its work."""

    data: str
    program: str
    command: Sequence[str]
    ends: tuple[int, ...] = (0,)
    environment: Mapping[str, str] = {}


# ---- outputs of nccl-tests -------------------------------------------------------------------


def _document(a: str, b: str, noise: random.Random) -> dict[str, Any]:
    """What all_reduce_perf of two ranks writes with -J and -I 1."""
    rates = []

    def timed(size: int) -> tuple[dict[str, Any], dict[str, Any]]:
        middle = size / 20.0 / 1000
        ranks = [[middle * noise.gauss(1, 0.003) for _ in range(ITERATIONS)] for _ in range(2)]
        times = [max(of_both) for of_both in zip(*ranks, strict=True)]
        mean, ordered = statistics.fmean(times), sorted(times)
        deviation = statistics.pstdev(times)
        rate = round(size / mean / 1000, 6)
        rates.append(rate)
        side = {"time": round(mean, 6), "alg_bw": rate, "bus_bw": rate, "nwrong": 0.0}
        iterations = {
            "skipped_iterations": 0,
            "min_us": ordered[0],
            "max_us": ordered[-1],
            "avg_us": mean,
            "p50_us": ordered[ITERATIONS // 2],
            "p95_us": ordered[-2],
            "p99_us": ordered[-1],
            "stdev_us": deviation,
            "cv_pct": 100 * deviation / mean,
            "times_us": times,
            "per_process_max_times_us": ranks,
        }
        return side, iterations

    results = []
    for size in _SIZES:
        (out, of_out), (into, of_into) = timed(size), timed(size)
        row = {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "-1"}
        row |= {"out_of_place": out, "out_of_place_per_iter": of_out}
        results.append(row | {"in_place": into, "in_place_per_iter": of_into})
    average = {"bandwidth": round(statistics.fmean(rates), 6), "okay": "unchecked"}
    return {
        "version": 1,
        "start_time": "2026-11-21 10:11:12",
        "args": ["/opt/all_reduce_perf", "-J", "out.json", "-I", "1"],
        "env": ["PATH=/bin"],
        "nccl_version": 22809,
        "config": {
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": _SIZES[0],
            "maximum_bytes": _SIZES[-1],
            "step_factor": 2,
            "warmup_iters": 1,
            "iterations": ITERATIONS,
            "aggregated_iterations": 1,
            "validation": 1,
            "graph": 0,
            "blocking_collectives": "false",
            "devices": [
                {
                    "rank": rank,
                    "group": 0,
                    "pid": 100 + rank,
                    "hostname": host,
                    "device": 0,
                    "device_hex": "0000:1b:00",
                    "device_info": "GPU",
                }
                for rank, host in enumerate((a, b))
            ],
        },
        "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": average,
        "errors": [""],
        "end_time": "2026-11-21 10:11:42",
    }


def write_documents(folder: Path, count: int) -> None:
    """So many JSON results in a new folder."""
    noise = random.Random(1)
    folder.mkdir(parents=True)
    for number in range(count):
        document = _document(f"n{number}", f"n{number + 1}", noise)
        (folder / f"{number:04}.json").write_text(json.dumps(document))


def of_files(area: Path, analyze: Path | None) -> Iterator[Work]:
    """A result a file. The script takes one: it is started for each, as in a loop of a shell."""
    data = f"{FILES:,} JSON results of nccl-tests"
    write_documents(area / "json", FILES)
    yield Work(data, "railgauge read", _railgauge("read", str(area / "json")), (0, 2))
    if analyze:
        loop = 'for file in "$2"/*.json; do "$0" "$1" "$file" || exit 9; done'
        command = ("/bin/sh", "-c", loop, sys.executable, str(analyze), str(area / "json"))
        yield Work(data, "analyze_perf_json.py", command)


# ---- ReFrame and superbench ------------------------------------------------------------------

Cases = Mapping[str, Mapping[str, float]]


def reframe_settings(folder: Path) -> Path:
    """A configuration of ReFrame with a database of its own in `folder`."""
    folder.mkdir(parents=True)
    partition = {"name": "ns", "scheduler": "local", "launcher": "local", "environs": ["plain"]}
    system = {"name": "peers", "hostnames": [".*"], "partitions": [partition]}
    storage = {"enable": True, "sqlite_db_file": str(folder / "results.db")}
    site = {"systems": [system], "environments": [{"name": "plain"}], "storage": [storage]}
    path = folder / "settings.py"
    path.write_text(f"site_configuration = {site!r}\n")
    return path


def store_sessions(settings: Path, sessions: Iterable[Cases]) -> None:
    """A session a day in ReFrame's database: test -> performance variable -> value."""
    # ReFrame reads one configuration in a process.
    store = multiprocessing.get_context("fork").Process(target=_store, args=(settings, sessions))
    store.start()
    store.join()
    if store.exitcode:
        sys.exit("bench: ReFrame could not store the sessions")


def _store(settings: Path, sessions: Iterable[Cases]) -> None:
    from reframe.core import config, runtime
    from reframe.frontend.reporting import storage

    site = config.load_config(str(settings))
    site.select_subconfig("peers")
    runtime.init_runtime(site)
    kept = storage.StorageBackend.default()
    for number, cases in enumerate(sessions):
        began = _FIRST_S + number * _DAY_S + 3600
        session = f"{number:08d}-0000-0000-0000-000000000000"
        common: dict[str, Any] = {"system": "peers", "partition": "ns", "environ": "plain"}
        common |= {"result": "pass", "job_completion_time_unix": began, "job_nodelist": []}
        tests = [
            common
            | {
                "name": name,
                "uuid": f"{session}:0:{place}",
                "perfvalues": {
                    f"peers:ns:{variable}": [value, 0, None, None, "GB/s", "pass"]
                    for variable, value in values.items()
                },
            }
            for place, (name, values) in enumerate(cases.items())
        ]
        information = {"uuid": session, "time_start_unix": began, "time_end_unix": began + 60}
        run = {"run_index": 0, "testcases": tests}
        kept.store({"session_info": information, "runs": [run]}, "report.json")


def _with_reframe(data: str, settings: Path, before: int, after: int) -> Work:
    """Compare the first sessions with as many days of those behind them, as CSV."""
    days = [f"202611{1 + number:02}" for number in (0, before, before + after)]
    asked = f"{days[0]}:{days[1]}/{days[1]}:{days[2]}/mean:/"
    command = [str(paths.HOME / ".venv/bin/reframe"), "-C", str(settings), "--system=peers"]
    command += ["--table-format=csv", f"--performance-compare={asked}"]
    return Work(data, "reframe --performance-compare", command, (0,), {"TZ": "UTC"})


_RULES = """version: v0.4
superbench:
  rules:
    slow:
      function: variance
      criteria: 'lambda x:x<-0.05'
      categories: Network
      metrics:
        - bandwidth/.*
"""


def _with_superbench(
    data: str, program: Path, folder: Path, rows: Iterable[tuple[str, Mapping[str, float]]]
) -> Work:
    """Judge each row by the first one's values: node -> metric -> value."""
    folder.mkdir(parents=True)
    baseline: dict[str, float] = {}
    with (folder / "results.jsonl").open("w") as stream:
        for node, values in rows:
            metrics = {f"bandwidth/{name}": value for name, value in values.items()}
            baseline = baseline or metrics
            stream.write(json.dumps({"node": node, **metrics}) + "\n")
    (folder / "rules.yaml").write_text(_RULES)
    (folder / "baseline.json").write_text(json.dumps(baseline))
    command = [str(program), "result", "diagnosis", "--data-file", str(folder / "results.jsonl")]
    command += ["--rule-file", str(folder / "rules.yaml")]
    command += ["--baseline-file", str(folder / "baseline.json")]
    command += ["--output-file-format", "jsonl", "--output-dir", str(folder)]
    return Work(data, "sb result diagnosis", command)


# ---- before and after ------------------------------------------------------------------------


def of_logs(area: Path, superbench: Path | None) -> Iterator[Work]:
    """Before and after of 1,000 runs with 16 values each: Railgauge reads the logs, the others get
    the values.
    """
    data = f"before and after of {FILES:,} runs of nccl-tests"
    for side, seed in (("before", 1), ("after", 2)):
        bench_logs.write(area / side, FILES, seed)
    folders = (str(area / "before"), str(area / "after"))
    yield Work(data, "railgauge compare", _railgauge("compare", *folders), (0, 1, 2))
    noise = random.Random(3)
    names = [f"{side}_{size}" for size in _SIZES for side in ("out", "in")]
    sessions = [
        {f"pair{run:04}": {name: noise.gauss(20, 0.06) for name in names} for run in range(FILES)}
        for _ in range(2)
    ]
    settings = reframe_settings(area / "reframe")
    store_sessions(settings, sessions)
    yield _with_reframe(data, settings, 1, 1)
    if superbench:
        rows = [
            (f"{name}-{number}", values)
            for number, cases in enumerate(sessions)
            for name, values in cases.items()
        ]
        yield _with_superbench(data, superbench, area / "superbench", rows)


def of_campaigns(area: Path, superbench: Path | None) -> Iterator[Work]:
    """Five campaigns before and five after. For superbench a row is a node in a campaign, with all
    its rails and sizes.
    """
    ids = bench_compare.campaigns(area, CAMPAIGNS)
    half = CAMPAIGNS // 2
    sides = ",".join(ids[:half]), ",".join(ids[half:])
    tables = [
        pl.read_parquet(
            area / "campaigns" / one / measurement_table.FILE,
            columns=["place", "size_bytes", "value"],
        )
        for one in ids
    ]
    data = f"before and after of {sum(map(len, tables)):,} measurements"
    stored = {"RAILGAUGE_RESULTS": str(area), "RAILGAUGE_REFERENCES": str(area)}
    command = _railgauge("compare", *sides)
    yield Work(data, "railgauge compare", command, (0, 1, 2), stored)
    settings = reframe_settings(area / "reframe")
    store_sessions(settings, map(_by_place, tables))
    yield _with_reframe(data, settings, half, half)
    if superbench:
        rows = (row for number, table in enumerate(tables) for row in _by_node(table, number))
        yield _with_superbench(data, superbench, area / "superbench", rows)


def _by_place(table: pl.DataFrame) -> Cases:
    cases: dict[str, dict[str, float]] = {}
    for place, size, value in table.iter_rows():
        cases.setdefault(place, {})[f"bandwidth_{size}"] = value
    return cases


def _by_node(table: pl.DataFrame, campaign: int) -> Iterator[tuple[str, Mapping[str, float]]]:
    nodes: dict[str, dict[str, float]] = {}
    for place, size, value in table.iter_rows():
        node, _, rail = place.split(":")
        nodes.setdefault(f"{node}-{campaign}", {})[f"{rail}_{size}"] = value
    yield from nodes.items()


# ---- the figures -----------------------------------------------------------------------------


def _railgauge(*words: str) -> list[str]:
    return [sys.executable, "-m", "railgauge", *words]


def _measured(works: Sequence[Work], area: Path, times: int) -> Iterator[str]:
    """The commands in turn: lines of their medians, and of ours over each of the others."""
    used: dict[str, list[bench_against.Used]] = {work.program: [] for work in works}
    for _ in range(times):
        for work in works:
            environment = {**os.environ, **work.environment}
            output = area / "output"
            code, one = bench_against.measured(work.command, environment, area, output)
            if code not in work.ends:
                said = output.read_text(errors="replace")[-2000:]
                sys.exit(f"{' '.join(work.command)}: exit code {code}\n{said}")
            used[work.program].append(one)
            print(f"  {work.data}, {work.program}: {one}", flush=True)
    ours = used[works[0].program]
    for work in works:
        theirs = used[work.program]
        cpu_s, memory = [one.cpu_s for one in theirs], [one.memory_mib for one in theirs]
        what = f"{work.data}, {work.program}"
        yield f"{what}: {bench_against.spread(cpu_s, 2)} s of CPU, n={times}"
        yield f"{what}: {bench_against.spread(memory, 0)} MiB, n={times}"
        if theirs is not ours:
            over = [a.cpu_s / b.cpu_s for a, b in zip(ours, theirs, strict=True)]
            size = [a.memory_mib / b.memory_mib for a, b in zip(ours, theirs, strict=True)]
            what = f"{work.data}, {works[0].program} over {work.program}"
            yield f"{what}: {bench_against.spread(over, 3)} of CPU, n={times}"
            yield f"{what}: {bench_against.spread(size, 2)} of memory, n={times}"


def figures(
    area: Path,
    analyze: Path | None,
    superbench: Path | None,
    times: int,
    only: Sequence[str] = PARTS,
) -> None:
    """Print CPU time and memory of each program on the same results, of the parts in `only`."""
    makers = {
        "files": lambda folder: of_files(folder, analyze),
        "logs": lambda folder: of_logs(folder, superbench),
        "campaigns": lambda folder: of_campaigns(folder, superbench),
    }
    for part in only:
        folder = area / part
        folder.mkdir(parents=True)
        for line in _measured(list(makers[part](folder)), folder, times):
            print(line, flush=True)
        print(f"({part}: load {os.getloadavg()[0]:.0f})", flush=True)
    for option, program in (("--analyze", analyze), ("--superbench", superbench)):
        if program is None:
            print(f"left out: {option} FILE")
