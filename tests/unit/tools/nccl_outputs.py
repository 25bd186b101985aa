"""Whole outputs of nccl-tests of any version, as the tool prints them, and what can befall them.

`printed` and `document` give the text and the JSON of one run; `fuzz` damages many of them at
random and asserts that none of the damaged ones is believed.

    python -c 'from tests.unit.tools.nccl_outputs import fuzz; print(fuzz(100_000, 1))'
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from railgauge.model.call import Call
from railgauge.tools import ParseError, Reading, nccl_tests
from railgauge.tools.nccl_tests import Options

#: One version of each format: error column; #wrong; end line; short numbers and JSON; -I.
VERSIONS = ("2.12.0", "2.13.9", "2.16.9", "2.17.6", "2.19.6", "2.20.0")

_ELEMENT_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int8": 1, "uint64": 8}
_REDUCING = ("all_reduce", "reduce_scatter", "reduce")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_DIVIDED = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube")
_UNCHECKED_IN_PLACE = ("alltoall", "sendrecv")

#: A value of the environment that the tool writes into its JSON.
SECRET = "hunter2-is-the-token"


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of one size, as measured."""

    time_us: float
    algbw: float
    busbw: float


@dataclasses.dataclass(frozen=True)
class Run:
    """One run, and how its output looks. `wrong` maps (row, side) to the number of wrong values."""

    options: Options
    seed: int = 0
    #: a launcher's, before every line
    prefix: str = ""
    suffix: str = ""
    intervals: bool = False
    timestamps: bool = False
    wrong: tuple[tuple[int, int, int], ...] = ()
    #: what NCCL_TESTS_MIN_BW has to say of the average
    average: str = ""
    #: algbw of large messages in GB/s; None for any
    rate: float | None = None

    @functools.cached_property
    def version(self) -> tuple[int, ...]:
        return tuple(map(int, self.options.version.split(".")))

    @functools.cached_property
    def hosts(self) -> tuple[str, ...]:
        if self.options.hosts:
            return self.options.hosts
        half = (self.options.ranks + 1) // 2
        return tuple(f"node{1 + rank // half}" for rank in range(self.options.ranks))

    @property
    def program(self) -> str:
        return f"{self.options.operation}_perf{self.suffix}"

    def asked(self) -> Options:
        """What a check asks, with the hosts that it knows from the exit lines."""
        return dataclasses.replace(self.options, hosts=self.hosts)


@functools.lru_cache(maxsize=16)
def measured(run: Run) -> list[tuple[int, int, Side, Side]]:
    """Size, count and both sides of every row: a latency, and a bandwidth with some noise."""
    chance = random.Random(run.seed)
    options = run.options
    n = options.gpus
    latency = chance.uniform(3, 60)
    rate = run.rate or 10 ** chance.uniform(-1, 3)
    rows = []
    for size in options.sizes():
        share = n if options.operation in _DIVIDED else 1
        count = size // _ELEMENT_BYTES[options.datatype] // share
        sides = []
        for _ in range(2):
            time = (latency + size * 1e-3 / rate) * chance.uniform(0.97, 1.03)
            base = size / 1e9 / (time * 1e-6)
            factor = nccl_tests.busbw_factor(options.operation, n)
            algbw = base * factor if options.operation == "hypercube" else base
            sides.append(Side(time, algbw, base * factor))
        rows.append((size, count, sides[0], sides[1]))
    return rows


def average(run: Run) -> float:
    both = [side.busbw for row in measured(run) for side in row[2:]]
    return sum(both) / len(both)


# ---- the text ----


def _short(value: float, width: int) -> str:
    """As many digits as fit, as 2.17 and later print."""
    digits = len(str(int(value))) if value >= 1 else 0
    for least, decimals in ((width - 2, 2), (width - 1, 1), (width + 1, 0)):
        if digits < least:
            return f"{value:{width}.{decimals}f}"
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def _time(run: Run, value: float) -> str:
    if run.version >= (2, 17, 0):
        return _short(value, 7)
    return f"{value:7.{0 if value >= 10000 else 1 if value >= 100 else 2}f}"


def _bandwidth(run: Run, value: float) -> str:
    return _short(value, 6) if run.version >= (2, 17, 0) else f"{value:6.2f}"


def _columns(run: Run) -> list[str]:
    """The columns before the two sides."""
    operation = run.options.operation
    if run.version >= (2, 13, 0):
        return ["size", "count", "type", "redop", "root"]
    names = ["size", "count", "type"]
    if operation in (*_REDUCING, "alltoall", "sendrecv"):
        names.append("redop")
    if operation in _ROOTED:
        names.append("root")
    return names


_WIDTHS = {"size": 10, "count": 12, "type": 8, "redop": 6, "root": 6}


def _header(run: Run) -> list[str]:
    left = _columns(run)
    lead = "# " + "  ".join(f"{'':>{_WIDTHS[name]}}" for name in left)
    old = run.version < (2, 13, 0)
    side = ["time", "algbw", "busbw", "error" if old else "#wrong"]
    units = ["(us)", "(GB/s)", "(GB/s)", ""]
    if run.intervals:
        side += ["i_min", "i_max", "i_p99", "i_cv%"]
        units += ["(us)", "(us)", "(us)", "(%)"]
    names = "# " + "  ".join(f"{name:>{_WIDTHS[name]}}" for name in left)
    unit = {"size": "(B)", "count": "(elements)"}
    below = "# " + "  ".join(f"{unit.get(name, ''):>{_WIDTHS[name]}}" for name in left)
    names += "".join(f"  {name:>6}" for name in side * 2)
    below += "".join(f"  {name:>6}" for name in units * 2)
    if run.timestamps:
        names, below = f"{names}           timestamp", f"{below} %Y-%m-%d %H:%M:%S"
    return [
        "#",
        f"{lead}           out-of-place                       in-place          ",
        f"{names} ",
        f"{below} ",
    ]


def _device(run: Run, gpu: int) -> str:
    rank, host = gpu, run.hosts[gpu // run.options.gpus_per_rank]
    device = [g for g in range(gpu) if run.hosts[g // run.options.gpus_per_rank] == host]
    number, pid = len(device), 4000 + gpu // run.options.gpus_per_rank
    if run.version < (2, 13, 0):
        return (
            f"#   Rank {rank:2d} Pid {pid:6d} on {host:>10} device {number:2d} [0x{number:02x}] GPU"
        )
    bus = f"[0x{16 + number:02x}]" if run.version < (2, 16, 0) else f"[0000:{16 + number:02x}:00]"
    group = rank // run.options.gpus
    place = f"Group {group:2d} Pid {pid:6d} on {host:>10} device {number:2d} {bus}"
    return f"#  Rank {rank:2d} {place} NVIDIA GB200"


def _wrong(run: Run, place: int, side: int) -> str:
    wrong = {(row, where): count for row, where, count in run.wrong}.get((place, side), 0)
    if run.version < (2, 13, 0):
        return f"{3e-01 if wrong else 0:5.0e}"
    if side and run.options.operation in _UNCHECKED_IN_PLACE:
        return "   N/A"
    return f"{float(wrong):6g}"


def _row(run: Run, place: int, row: tuple[int, int, Side, Side]) -> str:
    options = run.options
    size, count, *sides = row
    redop = "none" if run.version >= (2, 13, 0) else ""
    if options.operation in (*_REDUCING, "sendrecv"):
        redop = "sum"
    elif options.operation == "hypercube":
        redop = ""
    values = {
        "size": f"{size:12d}",
        "count": f"{count:12d}",
        "type": f"{options.datatype:>8}",
        "redop": f"{redop:>6}",
        "root": f"{0 if options.operation in _ROOTED else -1:6d}",
    }
    text = "  ".join(values[name] for name in _columns(run))
    for where, side in enumerate(sides):
        text += f"  {_time(run, side.time_us):>7}  {_bandwidth(run, side.algbw):>6}"
        text += f"  {_bandwidth(run, side.busbw):>6}  {_wrong(run, place, where):>6}"
        if run.intervals:
            spread = (side.time_us * 0.9, side.time_us * 1.2, side.time_us * 1.1, 4.2)
            text += "".join(f"  {_short(value, 7):>7}" for value in spread)
    if run.timestamps:
        text += f"{'2026-11-21 10:11:12':>21}"
    return text


def _head(run: Run) -> list[str]:
    options, version = run.options, run.version
    lines = []
    if version >= (2, 17, 0):
        commit = " (b4d5bee)" if version >= (2, 20, 0) else ""
        code = "nccl-headers=22809 nccl-library=22809"
        lines.append(f"# nccl-tests version {options.version}{commit} {code}")
    if version >= (2, 16, 7):
        lines.append(f"# Collective test starting: {run.program}")
    parameters = (
        f"# nThread 1 nGpus {options.gpus_per_rank} minBytes {options.min_bytes} maxBytes "
        f"{options.max_bytes} step: {options.factor}(factor) warmup iters: {options.warmup} "
        f"iters: {options.iterations} "
    )
    if version >= (2, 13, 0):
        parameters += "agg iters: 1 validation: 1 graph: 0"
    else:
        parameters += "validation: 1 "
    lines += [parameters + (" unalign: 0" if version >= (2, 18, 0) else ""), "#"]
    lines.append("# Using devices")
    lines += [_device(run, gpu) for gpu in range(options.gpus * options.groups)]
    if version < (2, 17, 0):
        lines.append("NCCL version 2.16.2+cuda11.6")
    return lines


def printed_lines(run: Run) -> list[str]:
    """What rank 0 prints; the last line is empty, for the line end behind the one before it."""
    lines = _head(run) + _header(run)
    lines += [_row(run, place, row) for place, row in enumerate(measured(run))]
    bad = len(run.wrong)
    lines.append(f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}")
    lines += [f"# Avg bus bandwidth    : {average(run):g} {run.average}", "#"]
    if run.version >= (2, 16, 7):
        lines += [f"# Collective test concluded: {run.program}", "#", ""]
    lines = [f"{run.prefix}{line}" for line in lines]
    return [*lines, ""]


def printed(run: Run) -> str:
    return "\n".join(printed_lines(run))


def last_that_counts(run: Run) -> str:
    """How the last line begins that a reader needs."""
    return "# Collective test concluded" if run.version >= (2, 16, 7) else "# Avg bus bandwidth"


def document(run: Run) -> dict[str, Any]:
    """What -J writes of the same run."""
    options = run.options
    spelled = "bandwidth" if run.version >= (2, 17, 9) else "bandwidith"

    def side(place: int, where: int, found: Side) -> dict[str, Any]:
        wrong = _wrong(run, place, where).strip()
        return {
            "time": round(found.time_us, 6),
            "alg_bw": round(found.algbw, 6),
            "bus_bw": round(found.busbw, 6),
            "nwrong": None if wrong == "N/A" else float(wrong),
        }

    return {
        "version": 1,
        "start_time": "2026-11-21 10:11:12",
        "args": [f"/opt/{run.program}", "-b", str(options.min_bytes)],
        "env": [f"TOKEN={SECRET}", "PATH=/bin"],
        "nccl_version": 22809,
        "config": {
            "nthreads": 1,
            "ngpus": options.gpus_per_rank,
            "minimum_bytes": options.min_bytes,
            "maximum_bytes": options.max_bytes,
            "step_factor": options.factor,
            "warmup_iters": options.warmup,
            "iterations": options.iterations,
            "aggregated_iterations": 1,
            "validation": 1,
            "graph": 0,
            "blocking_collectives": "false",
            "parallel_init": "false",
            "devices": [
                {
                    "rank": gpu,
                    "group": gpu // options.gpus,
                    "pid": 4000 + gpu,
                    "hostname": run.hosts[gpu // options.gpus_per_rank],
                    "device": int(_device(run, gpu).partition(" device ")[2].split()[0]),
                    "device_hex": "0000:10:00",
                    "device_info": "NVIDIA GB200",
                }
                for gpu in range(0, options.gpus * options.groups, options.gpus_per_rank)
            ],
        },
        "results": [
            {
                "size": row[0],
                "count": row[1],
                "type": options.datatype,
                "redop": _row(run, place, row).split()[3],
                "root": f"{0 if options.operation in _ROOTED else -1:6d}",
                "out_of_place": side(place, 0, row[2]),
                "in_place": side(place, 1, row[3]),
                "actual_iterations": options.iterations,
                "experiment_name": "",
            }
            for place, row in enumerate(measured(run))
        ],
        "out_of_bounds": {
            "count": len(run.wrong),
            "okay": "false" if run.wrong else "true",
        },
        f"average_bus_{spelled}": {spelled: round(average(run), 6), "okay": "unchecked"},
        "errors": [""],
        "end_time": "2026-11-21 10:11:42",
    }


def json_text(run: Run, **changes: Any) -> str:
    return json.dumps({**document(run), **changes})


def calls(run: Run, **changes: Any) -> list[Call]:
    """The exit lines of a good run; `changes` are those of rank 0."""
    return [
        dataclasses.replace(
            Call(nccl_tests.TOOL, f"rank{rank}", rank, host, 0, 30.0),
            **(changes if rank == 0 else {}),
        )
        for rank, host in enumerate(run.hosts)
    ]


# ---- many of them ----


def random_run(chance: random.Random) -> Run:
    """Any version, operation, number of ranks, sizes and datatype."""
    operation = chance.choice(nccl_tests.OPERATIONS)
    ranks = chance.choice((2, 4, 8)) if operation == "hypercube" else chance.randint(1, 9)
    least = chance.choice((1, 4, 8, 100, 1024, 2**20, 2**30))
    factor = chance.choice((2, 2, 3, 8))
    options = Options(
        operation=operation,
        ranks=ranks,
        min_bytes=least,
        max_bytes=least * factor ** chance.randint(0, 5) + chance.choice((0, least // 2)),
        factor=factor,
        iterations=chance.choice((1, 20, 100)),
        warmup=chance.choice((0, 1, 5)),
        datatype=chance.choice(tuple(_ELEMENT_BYTES)),
        version=chance.choice(VERSIONS),
        gpus_per_rank=1 if operation == "hypercube" else chance.choice((1, 1, 1, 2)),
    )
    while not options.sizes()[-1]:
        options = dataclasses.replace(options, max_bytes=options.max_bytes * factor)
    return Run(
        options,
        seed=chance.randrange(2**32),
        prefix=chance.choice(("", "", "", "[1,0]<stdout>:", "0: ")),
        suffix=chance.choice(("", "_mpi")),
        intervals=options.has_intervals and chance.random() < 0.3,
        timestamps=options.has_json and chance.random() < 0.2,
    )


LOG_LINES = (
    "node1:21:21 [0] NCCL INFO comm 0x7f9c rank 1 nranks 2 cudaDev 0 - Destroy COMPLETE",
    "node1:21:40 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/CUMEM",
    "node1:21:41 [0] NCCL INFO [Service thread] aborted by its parent",
    "NCCL version 2.28.9+cuda13.0",
    "Warning: Permanently added 'node2' (ED25519) to the list of known hosts.",
    "",
    "#",
)

FAILURES = (
    "node1: Test NCCL failure common.cu:1285 'unhandled cuda error / '",
    "node1: Test CUDA failure common.cu:502 'an illegal memory access was encountered'",
    " .. node1 pid 4000: Test failure common.cu:1126",
    "node1: Test timeout (600s) common.cu:501",
    "node1:21:40 [0] include/socket.h:385 NCCL WARN Net : Connection closed by remote peer",
)


def random_failure(chance: random.Random, run: Run) -> list[str]:
    """The lines of a run that must not pass, printed as the tool does when it goes wrong so."""
    lines = printed_lines(run)
    rows = [i for i, line in enumerate(lines) if line[len(run.prefix) :].lstrip()[:1].isdigit()]
    kind = chance.randrange(8)
    if kind == 0:
        side = 0 if run.options.operation in _UNCHECKED_IN_PLACE else chance.randrange(2)
        where = (chance.randrange(len(rows)), side, chance.randint(1, 10**7))
        return printed_lines(dataclasses.replace(run, wrong=(where,)))
    if kind == 1:
        return [line.replace("values : 0 OK", "values : 2 FAILED") for line in lines]
    if kind == 2:
        return printed_lines(dataclasses.replace(run, average="FAILED"))
    if kind == 3:
        end = chance.choice(rows)
        return [*lines[:end], run.prefix + chance.choice(FAILURES), ""]
    if kind == 4 and run.options.max_bytes >= 2 * run.options.min_bytes:
        shorter = dataclasses.replace(run.options, max_bytes=run.options.max_bytes // 2)
        return printed_lines(dataclasses.replace(run, options=shorter))
    if kind == 5:
        other = dataclasses.replace(run.options, iterations=run.options.iterations + 1)
        return printed_lines(dataclasses.replace(run, options=other))
    if kind == 6 and run.options.ranks > 1:
        alone = dataclasses.replace(run.options, ranks=1)
        return printed_lines(dataclasses.replace(run, options=alone))
    elsewhere = run.hosts[-1]
    return [line.replace(f" on {elsewhere:>10} ", " on elsewhere ") for line in lines]


def delete(chance: random.Random, lines: list[str], others: Sequence[str]) -> list[str]:
    place = chance.randrange(len(lines))
    return lines[:place] + lines[place + 1 :]


def duplicate(chance: random.Random, lines: list[str], others: Sequence[str]) -> list[str]:
    place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    return [*lines[:other], lines[place], *lines[other:]]


def swap(chance: random.Random, lines: list[str], others: Sequence[str]) -> list[str]:
    place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    changed = list(lines)
    changed[place], changed[other] = lines[other], lines[place]
    return changed


def interleave(chance: random.Random, lines: list[str], others: Sequence[str]) -> list[str]:
    place = chance.randrange(len(lines))
    return [*lines[:place], chance.choice(others), *lines[place:]]


LINE_CHANGES: tuple[Callable[[random.Random, list[str], Sequence[str]], list[str]], ...] = (
    delete,
    duplicate,
    swap,
    interleave,
)


def scrambled(chance: random.Random, text: str) -> str:
    """A few characters changed, added or lost."""
    characters = list(text)
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(characters))
        characters[place : place + chance.choice((0, 1, 1, 9))] = chance.choice(
            ("", "0", "9", "-", ".", "e", "#", "\n", " ", "N/A", "nan", "inf", "²", "_", "1e999")
        )
    return "".join(characters)


def widened(chance: random.Random, run: Run) -> str:
    """The same run, with a column that nobody knows."""
    lines = printed_lines(run)
    header = next(i for i, line in enumerate(lines) if " algbw " in line)
    names = lines[header].split("#", 1)[1].split()
    place = chance.randint(2, len(names))
    if "timestamp" in names:
        place = min(place, len(names) - 1)
    if run.options.operation in ("hypercube", "alltoall") or run.version < (2, 13, 0):
        # Where a row has a blank, only its end is certain.
        place = len(names)
    changed = []
    for number, line in enumerate(lines):
        body = line[len(run.prefix) :]
        words = body.split()
        if number == header:
            names.insert(place, "#news")
            changed.append(f"{run.prefix}# " + "  ".join(names))
        elif words and words[0].isdigit():
            words.insert(place, "17")
            changed.append(f"{run.prefix}  " + "  ".join(words))
        else:
            changed.append(line)
    return "\n".join(changed)


def numbers(reading: Reading) -> list[tuple[str, int | None, float]]:
    return [(m.metric, m.size_bytes, m.value) for m in reading.measurements]


def expected(run: Run) -> list[tuple[str, int | None, float]]:
    """What a reading of this run must give."""
    return [
        (metric, row[0], float(shown))
        for row in measured(run)
        if row[0]
        for suffix, side in (("", row[2]), ("_in_place", row[3]))
        for metric, shown in (
            (f"busbw{suffix}", _bandwidth(run, side.busbw)),
            (f"time{suffix}", _time(run, side.time_us)),
        )
    ]


def judged(run: Run, text: str, with_calls: bool = True) -> Reading:
    """A run's output with all its evidence."""
    given = calls(run) if with_calls else []
    reading = nccl_tests.read({0: text}, calls=given, options=run.asked())
    assert reading.ok or not reading.measurements, text
    return reading


def check_complete(chance: random.Random) -> None:
    """A whole output is believed, whatever a launcher and NCCL's log print between its lines."""
    run = random_run(chance)
    lines = printed_lines(run)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(lines))
        lines.insert(place, run.prefix + chance.choice(LOG_LINES))
    reading = judged(run, "\n".join(lines), chance.random() < 0.5)
    assert reading.ok, f"{reading.reason}\n{chr(10).join(lines)}"
    assert numbers(reading) == expected(run), printed(run)


def check_truncated(chance: random.Random) -> None:
    run = random_run(chance)
    text = printed(run)
    end = text.index("\n", text.index(last_that_counts(run)))
    cut = text[: chance.randint(0, end)]
    reading = judged(run, cut)
    assert not reading.ok, f"{reading.reason}\n{cut}"


def check_line_changes(chance: random.Random) -> None:
    """A line more, less or elsewhere: a bad output stays bad, a good one keeps its numbers."""
    run = random_run(chance)
    change = chance.choice(LINE_CHANGES)
    others = printed_lines(dataclasses.replace(run, seed=run.seed + 1))
    if chance.random() < 0.5:
        lines = change(chance, random_failure(chance, run), others)
        if lines == printed_lines(run):
            # The very line that was missing: the rank that a singleton had not.
            return
        text = "\n".join(lines)
        reading = judged(run, text)
        assert not reading.ok, f"{change.__name__}: {reading.reason}\n{text}"
        return
    text = "\n".join(change(chance, printed_lines(run), others))
    reading = judged(run, text)
    if reading.ok:
        assert numbers(reading) == expected(run), f"{change.__name__}: other numbers\n{text}"


def check_two_outputs(chance: random.Random) -> None:
    """Two ranks that each print a table into one file, line by line or one after the other."""
    run = random_run(chance)
    one = printed_lines(run)
    other = printed_lines(dataclasses.replace(run, seed=run.seed + chance.randrange(2)))
    mixed = []
    left, right = list(one), list(other)
    while left and right:
        mixed.append((left if chance.random() < 0.5 else right).pop(0))
    text = "\n".join([*mixed, *left, *right])
    reading = judged(run, text)
    assert not reading.ok, f"{reading.reason}\n{text}"


def check_scrambled(chance: random.Random) -> None:
    """Whatever is damaged: nothing but a Reading or a ParseError comes out."""
    run = random_run(chance)
    text = scrambled(chance, printed(run))
    bare = nccl_tests.read({0: text})
    for measurement in (*judged(run, text).measurements, *bare.measurements):
        assert math.isfinite(measurement.value), text
    try:
        nccl_tests.parse(text)
    except ParseError:
        assert not bare.ok, text
    if chance.random() < 0.7:
        return
    damaged = scrambled(chance, json_text(run))
    reading = nccl_tests.read({0: printed(run)}, json_text=damaged, options=run.asked())
    assert SECRET not in repr(reading), damaged
    try:
        assert SECRET not in repr(nccl_tests.parse_json(damaged)), damaged
    except ParseError as error:
        assert SECRET not in str(error), damaged


def _places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a JSON document."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(document, dict):
        inner = list(document.items())
    elif isinstance(document, list):
        inner = list(enumerate(document))
    found = [path] if path else []
    for key, value in inner:
        found += _places(value, (*path, key))
    return found


def check_json(chance: random.Random) -> None:
    """One value of the JSON is another: it is refused, or it is none that counts."""
    run = random_run(chance)
    changed = document(run)
    *path, last = chance.choice(_places(changed))
    place: Any = changed
    for key in path:
        place = place[key]
    values = (None, -1, 0, 10**30, 1e300, "nan", "", "x", [], [[]], {}, {"a": 1}, True, 0.5, SECRET)
    place[last] = chance.choice(values)
    text = json.dumps(changed)
    reading = nccl_tests.read({0: printed(run)}, json_text=text, options=run.asked())
    if reading.ok:
        assert numbers(reading) == expected(run), text


def check_unknown_column(chance: random.Random) -> None:
    run = random_run(chance)
    text = widened(chance, run)
    reading = judged(run, text)
    assert reading.ok, f"{reading.reason}\n{text}"
    assert numbers(reading) == expected(run), text


CHECKS = (
    check_complete,
    check_truncated,
    check_line_changes,
    check_two_outputs,
    check_scrambled,
    check_json,
    check_unknown_column,
)


def fuzz(cases: int, seed: int) -> int:
    """Runs so many random damages; AssertionError with the text that was judged wrongly."""
    chance = random.Random(seed)
    for _ in range(cases):
        chance.choice(CHECKS)(chance)
    return cases
