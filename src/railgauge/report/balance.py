"""How leaves spread their traffic, mode by mode: Jain's index and what all nodes sent together, or
of NCCL's alltoall its busbw, of one campaign or several, as times the first mode.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from railgauge.model.failure import NO_REFERENCE
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.report import layout
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.decision.verdict import Verdict

#: The first words of what is measured over uplinks.
_TRAFFIC = ("uplinks", "alltoall")
#: What of it is compared, of the largest message: busbw is of NCCL's alltoall, out of place.
_RATES = ("bandwidth", "busbw")


@dataclasses.dataclass(frozen=True)
class Balance:
    """The medians of a mode over its runs; `mode` is "" if not given. The rate is what all
    nodes sent together (`bandwidth_gbits`), or of NCCL's alltoall its `busbw_gbytes_s`.
    """

    system: str
    partition: str
    traffic: str
    mode: str
    jain_index: float
    bandwidth_gbits: float | None
    busbw_gbytes_s: float | None
    runs: int
    #: of its rate, times that of the first mode; None of that one
    times_the_first: float | None = None

    @property
    def rate(self) -> float:
        return self.bandwidth_gbits or self.busbw_gbytes_s or 0.0


@dataclasses.dataclass(frozen=True)
class Published:
    """What a document says of NCCL's alltoall in some mode; its `unit` is GB/s, or x of a ratio."""

    value: float
    unit: str
    what: str


def compare(verdicts: Sequence[Verdict]) -> list[Balance]:
    """The modes of each partition and kind of traffic, in the order of the campaigns; good runs
    only.
    """
    by_mode: dict[tuple[str, str, str, str, str], list[tuple[float, float]]] = {}
    for verdict in verdicts:
        for case in filter(_is_good, verdict.cases):
            for jain, rate in _counted(case):
                traffic, _, mode = jain.operation.partition(" ")
                m = rate.measurement
                key = verdict.campaign.system, case.partition, traffic, mode, m.metric
                by_mode.setdefault(key, []).append((jain.value, m.value))
    balances: list[Balance] = []
    first_rates: dict[tuple[str, ...], float] = {}
    for (*where, mode, metric), values in by_mode.items():
        system, partition, traffic = where
        jain_index, rate = (statistics.median(numbers) for numbers in zip(*values, strict=True))
        first = first_rates.get((*where, metric))
        first_rates.setdefault((*where, metric), rate)
        gbits, gbytes_s = (None, rate) if metric == "busbw" else (rate, None)
        balances.append(
            Balance(
                *(system, partition, traffic, mode, jain_index, gbits, gbytes_s, len(values)),
                times_the_first=rate / first if first else None,
            )
        )
    return balances


def _counted(case: Case) -> Iterator[tuple[Measurement, Row]]:
    """Jain's index of uplinks, and the rate that stands next to it at the same place."""
    for jain in (row.measurement for row in case.rows):
        if jain.metric == "jain_index" and jain.operation.partition(" ")[0] in _TRAFFIC:
            rates = [r for r in case.rows if r.measurement.metric in _RATES]
            if rates:
                yield jain, max(rates, key=lambda row: row.measurement.size_bytes or 0)


def published(verdicts: Sequence[Verdict]) -> list[Published]:
    """What stands in the references of the busbw that is compared, each once: a mode of another
    fabric, which judges nothing.
    """
    known: dict[Published, None] = {}
    for case in (case for verdict in verdicts for case in filter(_is_good, verdict.cases)):
        for jain, rate in _counted(case):
            if rate.measurement.metric != "busbw":
                continue
            traffic = jain.operation.partition(" ")[0]
            elsewhere = [Published(r.value, r.unit, r.note) for r in rate.context]
            elsewhere += [
                Published(ratio.value, "x", ratio.name)
                for ratio in case.ratios
                if ratio.metric == rate.measurement.metric and ratio.of.operation == traffic
            ]
            known.update(dict.fromkeys(elsewhere))
    return list(known)


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
        "published": [dataclasses.asdict(one) for one in published(verdicts)],
    }


def render(balances: Sequence[Balance], elsewhere: Sequence[Published], console: Console) -> None:
    """Print a line for each mode, and for what was published of others."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("mode", no_wrap=True)
    for column in ("Jain's index", "together, or busbw", "times the first", "runs"):
        table.add_column(column, justify="right")
    for one in balances:
        times = "-" if one.times_the_first is None else f"{one.times_the_first:.3g}x"
        name = f"{one.system} {one.partition}, {one.traffic}, {one.mode or 'not said'}"
        unit = "Gb/s" if one.busbw_gbytes_s is None else "GB/s busbw"
        rate = f"{one.rate:.4g}\u00a0{unit}"
        table.add_row(name, f"{one.jain_index:.3f}", rate, times, str(one.runs))
    layout.print_table(console, table)
    for other in elsewhere:
        layout.say(console, f"published: {other.value:g} {other.unit}  {other.what}", rest="  ")
