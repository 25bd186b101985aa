#!/usr/bin/env python3
"""A stand-in for nccl-tests' programs, for rehearsals: prints what they print, after `replay.json`.

It is started as they are, by the name of the operation (bin/all_reduce_perf), and finds its peers
by MPI as they do: singletons are real. Where NCCL_TESTS_SPLIT makes groups, each rank's log is of
its own group, and the table has the slowest of all (-a 3). Its first line says SIMULATED, and so do
its JSON and its debug log. Standard library only: it runs on the lab's nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from railgauge.lab.replay import debug_log
from railgauge.node.runners.mpi_world import World

SIMULATED = "SIMULATED: replayed in a rehearsal, no GPU was used"

#: As nccl-tests ends: 3 NCCL, 6 usage.
EXIT_USAGE = 6

#: Operations whose count is what one rank gives to one other.
PER_RANK = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube")
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
#: In place the tool does not look at the values.
UNCHECKED_IN_PLACE = ("alltoall", "sendrecv")

#: Of an empty message.
LATENCY_US = 25.0

SOCKETS_GBYTES_S = 2.0

#: What fits into the GPUs, as a part of the largest message that was asked for.
FITS = {"less-memory": 0.5, "no-memory": 2**-10}

Replay = dict[str, Any]


class Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def arguments() -> argparse.Namespace:
    parser = Arguments(prog=Path(sys.argv[0]).name, add_help=False, allow_abbrev=False)
    parser.add_argument("-b", "--minbytes", type=int, default=32 * 2**20)
    parser.add_argument("-e", "--maxbytes", type=int, default=32 * 2**20)
    parser.add_argument("-f", "--stepfactor", type=int, default=1)
    parser.add_argument("-g", "--ngpus", type=int, default=1)
    parser.add_argument("-w", "--warmup_iters", type=int, default=1)
    parser.add_argument("-n", "--iters", type=int, default=20)
    parser.add_argument("-c", "--check", type=int, default=1)
    parser.add_argument("-T", "--timeout", type=int, default=0)
    parser.add_argument("-d", "--datatype", default="float")
    parser.add_argument("-o", "--op", default="sum")
    parser.add_argument("-J", "--output_file")
    # The slowest of all: what the stand-ins' ranks take differs by their groups alone.
    parser.add_argument("-a", "--average", type=int, choices=[3], default=3)
    # Taken and not replayed: a recording has no times of single iterations.
    parser.add_argument("-I", "--per_iter", type=int, default=0)
    return parser.parse_args()


class Table:
    """The rows of one run, as (size, count, (time_us, algbw, busbw) out of place, in place)."""

    def __init__(self, replay: Replay, ranks: int, busbw_gbytes_s: float) -> None:
        self.factor = replay["factor"]
        largest = replay["sizes"][-1]
        operation = replay["operation"]
        self.rows = []
        for size in replay["sizes"]:
            count = size // 4 // (ranks if operation in PER_RANK else 1)
            times = replay["recorded"].get(str(size))
            if times is None:
                rest = LATENCY_US * (1 - size / largest)
                # One rank moves nothing between GPUs: its factor may be 0.
                full = size * (self.factor or 1) / busbw_gbytes_s / 1e3
                times = [rest + full, rest + full * 1.002]
            self.rows.append((size, count, self._side(size, times[0]), self._side(size, times[1])))

    def _side(self, size: int, time_us: float) -> tuple[float, float, float]:
        algbw = size / time_us / 1e3
        return time_us, algbw, algbw * self.factor

    @property
    def average(self) -> float:
        return sum(out[2] + inside[2] for _, _, out, inside in self.rows) / (2 * len(self.rows))


def number(value: float, width: int) -> str:
    """As nccl-tests prints it: two decimals, one or none, by what fits."""
    digits = len(str(int(value))) if value >= 1 else 0
    decimals = 2 if digits < width - 2 else 1 if digits < width - 1 else 0
    text = f"{value:.{decimals}f}" if digits < width + 1 else f"{value:.1e}"
    return text.rjust(width)


def columns(side: tuple[float, float, float]) -> str:
    return "  ".join(number(value, width) for value, width in zip(side, (7, 6, 6)))  # noqa: B905


def group_size(ranks: int) -> int:
    """How many ranks in a row are a group, by the one kind of split that is used here."""
    split = os.environ.get("NCCL_TESTS_SPLIT", "")
    return int(split[len("DIV ") :], 0) if split.startswith("DIV ") else ranks


def groups_of(hosts: list[str]) -> list[list[str]]:
    """The hosts of each group."""
    size = group_size(len(hosts))
    return [hosts[first : first + size] for first in range(0, len(hosts), size)]


def print_header(replay: Replay, options: argparse.Namespace, hosts: list[str]) -> None:
    program = Path(sys.argv[0]).name
    print(f"# {SIMULATED}")
    print(f"# nccl-tests version {replay['version']} nccl-headers=22809 nccl-library=22809")
    print(f"# Collective test starting: {program}")
    print(
        f"# nThread 1 nGpus {options.ngpus} "
        f"minBytes {options.minbytes} maxBytes {options.maxbytes} "
        f"step: {options.stepfactor}(factor) warmup iters: {options.warmup_iters} "
        f"iters: {options.iters} agg iters: 1 validation: {options.check} graph: 0"
    )
    print("#\n# Using devices")
    for d in devices(replay, hosts):
        print(
            f"#  Rank {d['rank']:2d} Group {d['group']:2d} "
            f"Pid {d['pid']:6d} on {d['hostname']:>10} "
            f"device {d['device']:2d} [{d['device_hex']}] {d['device_info']}"
        )
    if "reduced_bytes" in replay:
        print(f"#\n# Reducing maxBytes to {replay['reduced_bytes']} due to memory limitation")
    print(
        "#\n#                                                              out-of-place"
        "                       in-place          \n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "     time   algbw   busbw  #wrong \n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"
        "             (us)  (GB/s)  (GB/s)         "
    )


def print_row(row: Any, replay: Replay, options: argparse.Namespace, wrong: int) -> None:
    size, count, out, inside = row
    operation = replay["operation"]
    redop = options.op if operation in REDUCING else "none"
    root = 0 if operation in ROOTED else -1
    in_place_wrong = "N/A" if operation in UNCHECKED_IN_PLACE else str(wrong)
    print(
        f"{size:12d}  {count:12d}  {options.datatype:>8}  {redop:>6}  {root:6d}  "
        f"{columns(out)}  {wrong:6d}  {columns(inside)}  {in_place_wrong:>6}"
    )


def happens(replay: Replay, hosts: list[str], name: str) -> bool:
    """Whether the scenario happens to ranks on these hosts: those of a node, of a pair, or all."""
    return replay["scenario"] == name and set(replay["nodes"]) <= set(hosts)


def in_any(replay: Replay, groups: list[list[str]], name: str) -> bool:
    """Whether it happens in one of the groups, which share the table and the tool's barriers."""
    return any(happens(replay, group, name) for group in groups)


def write_log(replay: Replay, rank: int, hosts: list[str]) -> None:
    """NCCL's debug log of this rank of a group, where it was asked for."""
    path = os.environ.get("NCCL_DEBUG_FILE")
    if not path:
        return
    environment = {n: v for n, v in os.environ.items() if n.startswith("NCCL_")}
    fabric = dict(replay["fabric"])
    if happens(replay, hosts, "sockets"):
        fabric["hcas"] = []
    if happens(replay, [hosts[rank]], "lost-nic"):
        fabric["hcas"] = fabric["hcas"][:-1]
        environment.pop("NCCL_IB_HCA", None)
    if happens(replay, hosts, "no-mnnvl"):
        fabric["nvlink_domain_nodes"] = 1
        environment.pop("NCCL_MNNVL_ENABLE", None)
    lines = debug_log.lines(
        rank=rank, hosts=hosts, pid=os.getpid(), environment=environment, fabric=fabric
    )
    if happens(replay, hosts, "hang"):
        lines = [line for line in lines if "Destroy" not in line]
    if happens(replay, hosts, "cut-log") and rank == len(hosts) - 1:
        lines = lines[: len(lines) // 2]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def busbw(replay: Replay, hosts: list[str]) -> float:
    """GB/s of the largest message of a group in this scenario."""
    rate = float(replay["busbw_gbytes_s"])
    if happens(replay, hosts, "slow") or happens(replay, hosts, "slow-pair"):
        rate /= 2
    if happens(replay, hosts, "lost-nic"):
        count = len(replay["fabric"]["hcas"])
        rate *= (count - 1) / count if count > 1 else 1
    if happens(replay, hosts, "sockets"):
        rate = SOCKETS_GBYTES_S
    return rate


def devices(replay: Replay, hosts: list[str]) -> list[dict[str, Any]]:
    """Each rank's device: the next one of its host."""
    listed, size = [], group_size(len(hosts))
    for rank, host in enumerate(hosts):
        place = hosts[:rank].count(host)
        listed.append(
            {
                "rank": rank,
                "group": rank // size,
                "pid": 1000 + rank,
                "hostname": host,
                "device": place,
                "device_hex": f"0000:{0x18 + place:02x}:00",
                "device_info": replay["gpu"],
            }
        )
    return listed


def json_side(side: tuple[float, float, float], wrong: float | None) -> dict[str, Any]:
    time_us, algbw, busbw_gbytes_s = side
    return {"time": time_us, "alg_bw": algbw, "bus_bw": busbw_gbytes_s, "nwrong": wrong}


def write_json(
    replay: Replay, options: argparse.Namespace, table: Table, hosts: list[str], wrong: int
) -> None:
    """The document of -J; the environment is in it, as in the tool's own."""
    operation = replay["operation"]
    results = []
    for size, count, out, inside in table.rows:
        bad = float(wrong if size == table.rows[-1][0] else 0)
        results.append(
            {
                "size": size,
                "count": count,
                "type": options.datatype,
                "redop": options.op if operation in REDUCING else "none",
                "root": "0" if operation in ROOTED else "-1",
                "out_of_place": json_side(out, bad),
                "in_place": json_side(inside, None if operation in UNCHECKED_IN_PLACE else bad),
            }
        )
    document = {
        "version": 1,
        "simulated": True,
        "start_time": time.strftime("%Y-%m-%d %H:%M:%S"),
        "args": sys.argv,
        "env": [f"{name}={value}" for name, value in os.environ.items()],
        "nccl_version": 22809,
        "config": {
            "nthreads": 1,
            "ngpus": options.ngpus,
            "minimum_bytes": options.minbytes,
            "maximum_bytes": options.maxbytes,
            "step_factor": options.stepfactor,
            "warmup_iters": options.warmup_iters,
            "iterations": options.iters,
            "aggregated_iterations": 1,
            "validation": options.check,
            "graph": 0,
            "devices": devices(replay, hosts),
        },
        "results": results,
        "out_of_bounds": {"count": wrong, "okay": "false" if wrong else "true"},
        # As 2.17.6 spells it.
        "average_bus_bandwidith": {"bandwidith": table.average, "okay": "unchecked"},
        "end_time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    Path(options.output_file).write_text(json.dumps(document), encoding="utf-8")


#: What makes a group another one than the one that was recorded.
_OTHER = ("slow", "slow-pair", "sockets", "lost-nic")


def table_of(replay: Replay, hosts: list[str]) -> Table:
    """What a group alone would print."""
    recorded = replay["recorded"]
    if happens(replay, hosts, "no-mnnvl"):
        recorded = replay["fallback"]
    elif any(happens(replay, hosts, name) for name in _OTHER):
        recorded = {}
    return Table({**replay, "recorded": recorded}, len(hosts), busbw(replay, hosts))


def show(replay: Replay, options: argparse.Namespace, hosts: list[str]) -> None:
    """What rank 0 prints."""
    groups = groups_of(hosts)
    if len(groups) > 1 and in_any(replay, groups, "crowded"):
        replay["recorded"], replay["busbw_gbytes_s"] = {}, replay["busbw_gbytes_s"] / 2
    for name, share in FITS.items():
        if in_any(replay, groups, name):
            replay["reduced_bytes"] = fits = int(options.maxbytes * share)
            replay["sizes"] = [size for size in replay["sizes"] if size <= fits]
    table = min((table_of(replay, group) for group in groups), key=lambda t: t.average)
    named = list(hosts)
    if in_any(replay, groups, "wrong-host"):
        named[-1] = "elsewhere"
    print_header(replay, options, named)
    sys.stdout.flush()
    if in_any(replay, groups, "hang"):
        time.sleep(3600)
    rows = table.rows
    if in_any(replay, groups, "truncated"):
        rows = rows[: len(rows) // 2]
    wrong = 0
    for row in rows:
        if row is table.rows[-1] and in_any(replay, groups, "wrong-results"):
            wrong = 3
        print_row(row, replay, options, wrong)
    if in_any(replay, groups, "truncated"):
        return
    print(f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}")
    print(f"# Avg bus bandwidth    : {table.average:g} ")
    print(f"#\n# Collective test concluded: {Path(sys.argv[0]).name}")
    if options.output_file:
        write_json(replay, options, table, named, wrong)


def main() -> int:
    options = arguments()
    replay: Replay = json.loads(Path("replay.json").read_text(encoding="utf-8"))
    world = World()
    hosts = world.hosts()
    if replay["scenario"] == "singletons":
        # Where mpirun starts the ranks, MPI finds its peers; then only this pretends.
        hosts = [world.host]
    rank = world.rank if len(hosts) > 1 else 0
    size = group_size(len(hosts))
    if len(hosts) % size:
        print(f"{len(hosts)} ranks are no groups of {size}", file=sys.stderr)
        return EXIT_USAGE
    groups = groups_of(hosts)
    write_log(replay, rank % size, groups[rank // size])
    if rank == 0:
        show(replay, options, hosts)
        sys.stdout.flush()
    elif in_any(replay, groups, "hang"):
        time.sleep(3600)
    world.barrier()
    world.finalize()
    return 7 if happens(replay, groups[rank // size], "exit-7") else 0


if __name__ == "__main__":
    sys.exit(main())
