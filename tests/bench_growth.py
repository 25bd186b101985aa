"""How the cost of a command grows with what it works on, doubled three times: `bench growth`.

Of each quantity are printed the CPU time at each size, and the slope of the logarithms: 1 is
linear. The CPU time of the same command for next to nothing is taken off first, as it is that of
the start. A quantity a slope of which is 1.05 or less grows no faster than it must.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from railgauge import paths
from tests import bench_against, bench_logs, bench_verdict
from tests.bench_against import Work

#: How often each size is measured.
TIMES = 3

_RAIL_NODES, _TREND_NODES = 1152, 8


@dataclasses.dataclass(frozen=True)
class Quantity:
    """What grows: its name, the command that works on it, its four sizes, and next to none."""

    name: str
    command: str
    sizes: tuple[int, int, int, int]
    least: int
    leave: Callable[[Path, int], Work]


def _nodes(area: Path, count: int) -> Work:
    return Work("plan", ("accept", "--system", "dgx-h100", "--plan"), nodes=count)


def _rails(area: Path, count: int) -> Work:
    # Next to none: four nodes, as there is no campaign of no rail.
    bench_verdict.leave(area, _RAIL_NODES if count else 4, count or 1)
    return Work("verdict", ("verdict",))


def _places(area: Path, count: int) -> Work:
    bench_verdict.leave(area, count // bench_verdict.RAILS)
    return Work("verdict", ("verdict",))


def _campaigns(area: Path, count: int) -> Work:
    for number in range(1, count + 1):
        bench_verdict.leave(area, _TREND_NODES, number=number)
    return Work("trend", ("trend", "RdmaBandwidth", "--system", "lab"))


def _log_bytes(area: Path, count: int) -> Work:
    bench_logs.write(area / "logs", count)
    return Work("read", ("read", str(area / "logs")))


QUANTITIES = (
    Quantity("nodes", "plan of nodes with 8 rails", (576, 1152, 2304, 4608), 4, _nodes),
    Quantity("rails", f"verdict of {_RAIL_NODES} nodes", (1, 2, 4, 8), 0, _rails),
    Quantity("places", "verdict", (4608, 9216, 18432, 36864), 32, _places),
    Quantity("campaigns", f"trend of {_TREND_NODES} nodes", (40, 80, 160, 320), 1, _campaigns),
    Quantity("log bytes", "read of logs of 2 kB", (500, 1000, 2000, 4000), 1, _log_bytes),
)


def slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The exponent with which seconds grow, by least squares of the logarithms."""
    fitted = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(one) for one in seconds]
    )
    return fitted.slope


def _measured(quantity: Quantity, size: int, area: Path) -> list[float]:
    results = area / f"{quantity.name.replace(' ', '-')}-{size}"
    results.mkdir(parents=True)
    work = quantity.leave(results, size)
    build = paths.HOME
    if work.nodes:
        build = bench_against.with_nodes(build, work.nodes, results / "build")

    used = [bench_against.run(build, work, results, results / "output") for _ in range(TIMES + 1)]
    # The first one leaves behind what later ones find.
    return [one.cpu_s for one in used[1:]]


def figures(area: Path) -> None:
    """Print them."""
    for quantity in QUANTITIES:
        start = statistics.median(_measured(quantity, quantity.least, area))
        medians = []
        print(f"{quantity.command}, CPU s by {quantity.name}; its start {start:.2f}", flush=True)
        for size in quantity.sizes:
            values = _measured(quantity, size, area)
            medians.append(statistics.median(values))
            print(f"  {size}: {bench_against.spread(values, 2)}", flush=True)
        beyond = [max(value - start, 1e-3) for value in medians]
        print(f"  slope {slope(quantity.sizes, beyond):.2f}", flush=True)
