"""How fast many small logs are read, compared and located in, and what one at a time costs.

The logs are made up here, 2 kB each, of nccl-tests between two hosts.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_LOGS, _NODES, _ALONE = 1000, 250, 20
_SIZES = [2**power for power in range(20, 28)]


def _log(a: str, b: str, noise: random.Random) -> str:
    """An output of all_reduce_perf of two ranks."""
    rows = []
    for size in _SIZES:
        columns = []
        for _ in range(2):
            us = round(size / (20.0 * noise.gauss(1, 0.003)) / 1000, 2)
            rate = size / us / 1000
            columns.append(f"{us:8.2f}  {rate:6.2f}  {rate:6.2f}       0")
        rows.append(f"{size:12d}  {size // 4:12d}     float     sum      -1  {'  '.join(columns)}")
    rates = [float(row.split()[place]) for row in rows for place in (7, 11)]
    head = (
        "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809",
        "# Collective test starting: all_reduce_perf",
        f"# nThread 1 nGpus 1 minBytes {_SIZES[0]} maxBytes {_SIZES[-1]} step: 2(factor) warmup "
        "iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0",
        "#",
        "# Using devices",
        *(
            f"#  Rank  {rank} Group  0 Pid  {100 + rank} on {host} device  0 [0000:1b:00] GPU"
            for rank, host in enumerate((a, b))
        ),
        "#",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "     time   algbw   busbw  #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)      "
        "       (us)  (GB/s)  (GB/s)       ",
    )
    foot = (
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {statistics.fmean(rates):.4f}",
        "#",
        "# Collective test concluded: all_reduce_perf",
    )
    return "\n".join([*head, *rows, *foot, ""])


def write(folder: Path, count: int = _LOGS, seed: int = 1) -> list[Path]:
    """So many logs in a new folder."""
    noise = random.Random(seed)
    folder.mkdir(parents=True)
    paths = []
    for number in range(count):
        step, first = divmod(number, _NODES)
        a, b = f"n{first:03}", f"n{(first + 3 * (step + 1)) % _NODES:03}"
        paths.append(folder / f"{a}-{b}.log")
        paths[-1].write_text(_log(a, b, noise))
    return paths


def _cpu_s(*words: str) -> float:
    """User and system time of a command of Railgauge's, which answers as it will."""
    process = subprocess.Popen(
        [sys.executable, "-m", "railgauge", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1, 2)
    return used.ru_utime + used.ru_stime


def _shown(values: list[float]) -> str:
    return (
        f"{statistics.median(values):.2f} s of CPU ({min(values):.2f} to {max(values):.2f}, "
        f"n={len(values)})"
    )


def _lines(area: Path) -> Iterator[str]:
    before, after = write(area / "before"), write(area / "after", seed=2)
    size = statistics.fmean(path.stat().st_size for path in before)
    commands = {
        f"read, {_LOGS} logs of {size / 1000:.1f} kB": ("read", str(area / "before")),
        f"locate, {_LOGS} logs": ("locate", str(area / "before")),
        f"compare, {2 * _LOGS} logs": ("compare", str(area / "before"), str(area / "after")),
    }
    measured = {what: [_cpu_s(*words) for _ in range(5)] for what, words in commands.items()}
    # The start is that of Python and of the command line. To load the readers is the work of each:
    # what a log takes beyond that is less than what processes differ by.
    pairs = [
        (_cpu_s("--version"), _cpu_s("parse", "nccl-tests", str(path))) for path in after[:_ALONE]
    ]
    start, each = (statistics.median(side) for side in zip(*pairs, strict=True))
    for what, values in measured.items():
        yield f"{what}: {_shown(values)}"
    read = statistics.median(next(iter(measured.values())))
    yield (
        f"parse of each: {each:.3f} s of CPU a log ({_ALONE} measured), {start:.3f} of it its "
        f"start; {_LOGS} logs take {_LOGS * each / read:.0f} times as long as one read of all, and "
        f"without the starts {_LOGS * (each - start) / (read - start):.0f} times"
    )


def run(area: Path) -> None:
    """Print the figures."""
    began = time.monotonic()
    for line in _lines(area):
        print(line)
    print(f"({time.monotonic() - began:.0f} s)")
