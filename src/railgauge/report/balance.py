"""How leaves spread their traffic, mode by mode: Jain's index and what all nodes sent together, of
one campaign or several, as times the first mode.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from railgauge.model.failure import NO_REFERENCE
from railgauge.verdict.answer import Verdict
from railgauge.verdict.compare import Case

#: The first words of what is measured over uplinks, and the numbers of it.
_TRAFFIC = ("uplinks", "alltoall")
_METRICS = ("jain_index", "bandwidth")


@dataclasses.dataclass(frozen=True)
class Balance:
    """The medians of a mode over its runs; `mode` is "" where nobody said it."""

    system: str
    partition: str
    traffic: str
    mode: str
    jain_index: float
    bandwidth_gbits: float
    runs: int
    #: of its bandwidth, times that of the first mode; None of that one
    times_the_first: float | None = None


def compare(verdicts: Sequence[Verdict]) -> list[Balance]:
    """The modes of each partition and kind of traffic, in the order of the campaigns; good runs
    only.
    """
    by_place: dict[tuple[str, str, str, str], dict[str, list[float]]] = {}
    for verdict in verdicts:
        for case in filter(_is_good, verdict.cases):
            for row in case.rows:
                m = row.measurement
                traffic, _, mode = m.operation.partition(" ")
                # NCCL's alltoall has neither.
                if traffic in _TRAFFIC and m.metric in _METRICS:
                    key = verdict.campaign.system, case.partition, traffic, mode
                    values = by_place.setdefault(key, {metric: [] for metric in _METRICS})
                    values[m.metric].append(m.value)
    balances: list[Balance] = []
    for key, values in by_place.items():
        if not values["jain_index"] or not values["bandwidth"]:
            continue
        rate = statistics.median(values["bandwidth"])
        alike = (b for b in balances if (b.system, b.partition, b.traffic) == key[:3])
        first = next(alike, None)
        times = rate / first.bandwidth_gbits if first and first.bandwidth_gbits else None
        jain = statistics.median(values["jain_index"])
        balances.append(Balance(*key, jain, rate, len(values["jain_index"]), times))
    return balances


def _is_good(case: Case) -> bool:
    """A result, whatever its reference says."""
    broken = any(failure.kind != NO_REFERENCE for failure in case.failures)
    return case.finished and bool(case.rows) and not case.damage and not broken


def as_dict(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The same as a document (docs/schema/balance.json)."""
    return {
        "campaigns": [verdict.campaign.id for verdict in verdicts],
        "simulated": any(verdict.simulated for verdict in verdicts),
        "modes": [dataclasses.asdict(balance) for balance in compare(verdicts)],
    }


def render(balances: Sequence[Balance], console: Console) -> None:
    """Print a line for each mode."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("mode", no_wrap=True)
    for column in ("Jain's index", "together", "times the first", "runs"):
        table.add_column(column, justify="right")
    for one in balances:
        times = "-" if one.times_the_first is None else f"{one.times_the_first:.3g}x"
        name = f"{one.system} {one.partition}, {one.traffic}, {one.mode or 'not said'}"
        rate = f"{one.bandwidth_gbits:.4g}\u00a0Gb/s"
        table.add_row(name, f"{one.jain_index:.3f}", rate, times, str(one.runs))
    console.print(table)
