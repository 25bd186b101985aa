"""A verdict's numbers as tables: one line a condition, or one a place."""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from railgauge import hostlist
from railgauge.model.measurement import METRICS, Measurement
from railgauge.model.record import Row
from railgauge.model.references import Bounded
from railgauge.model.sizes import format_size
from railgauge.report import transfers
from railgauge.tools import names
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.outliers import condition
from railgauge.verdict.decision.verdict import Verdict

_STYLES = {
    "ok": "green",
    "recorded": "yellow",
    "no reference": "yellow",
    "failed": "red",
    "failed otherwise": "red",
    "stands out": "bold yellow",
}

#: Characters of a place that stands in one line.
_LONG = 30

#: Statuses that are bad, the worst first.
_BAD = ("out", "failed", "failed otherwise", "stands out")

#: Statuses that judge nothing.
_OPEN = ("no reference", "recorded")


def new_table() -> Table:
    return Table(show_edge=False, pad_edge=False, header_style="bold")


def number(value: float) -> str:
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def quantity(measurement: Measurement) -> str:
    """The number with its unit."""
    return f"{number(measurement.value)} {measurement.unit.removeprefix('1')}".rstrip()


def bounds(reference: Bounded) -> str:
    lowest, highest = reference.lowest, reference.highest
    if lowest is not None and highest is not None:
        return f"{number(lowest)} to {number(highest)}"
    if lowest is not None:
        return f">= {number(lowest)}"
    assert highest is not None
    return f"<= {number(highest)}"


def reference_of(row: Row) -> str:
    reference = row.reference
    return "none" if reference is None else f"{bounds(reference)} ({reference.kind})"


def share_of_limit(row: Row) -> str:
    share = row.share_of_limit
    return "-" if share is None else f"{share:.1%}"


def metric(measurement: Measurement) -> str:
    """With the message size, where there is one: `latency_p99 2 B`."""
    size = measurement.size_bytes
    return measurement.metric if size is None else f"{measurement.metric} {format_size(size)}"


def status(case: Case, row: Row) -> str:
    """What the check says of a number."""
    if row.within is False:
        return "out"
    if case.unreferenced:
        return "ok" if row.within else "no reference"
    if case.failures:
        return "failed"
    return "ok" if row.within else "recorded"


def _styled(words: str) -> Text:
    """The status of a number, or of several (`2 failed, 1 stands out`), coloured by the first."""
    first = words.split(", ")[0].lstrip("0123456789 ")
    return Text(words, style=_STYLES.get(first, "bold red"))


def condition_label(measurement: Measurement) -> list[str]:
    """What distinguishes the conditions of a check, but for the metric and where."""
    parts = []
    both_ways = "_bidirectional" in measurement.operation
    of_nccl = measurement.tool == names.NCCL_TESTS
    # As of "tcp busy".
    in_state = " " in measurement.operation
    of_a_program = measurement.metric in ("mpi_time", "application_time")
    of_its_operation = (
        both_ways or of_nccl or in_state or of_a_program or transfers.is_of(measurement)
    )
    if measurement.rails or of_its_operation:
        parts.append(measurement.operation.replace("_bidirectional", " both ways"))
    if of_nccl:
        parts.append(measurement.transport)
    return parts


def path_label(measurement: Measurement) -> list[str]:
    parts = []
    if measurement.delay_ms is not None:
        parts.append(f"{measurement.delay_ms:g} ms")
    if measurement.congestion:
        parts.append(measurement.congestion)
    if measurement.window_bytes is not None:
        parts.append(format_size(measurement.window_bytes))
    if measurement.within:
        parts.append("within a leaf" if measurement.within == "leaf" else "across leaves")
    if measurement.load:
        parts.append(measurement.load)
    return parts


@dataclasses.dataclass(frozen=True)
class Number:
    """A number of a place, and what is said of it."""

    case: Case
    row: Row
    status: str

    @property
    def words(self) -> str:
        """The status, for people: a number within its bounds did not fail its place."""
        within = self.status == "failed" and self.row.within is True
        return "failed otherwise" if within else self.status

    @property
    def is_bad(self) -> bool:
        return self.status in _BAD


def collect(verdict: Verdict, all_numbers: bool = False) -> list[Number]:
    """The numbers that gate, or that are out of a reference although they do not; or all."""
    far = {(id(outlier.case), outlier.measurement) for outlier in verdict.outliers}
    numbers = []
    for case in verdict.cases:
        for row in case.rows:
            if all_numbers or row.gates or row.within is False:
                word = status(case, row)
                if word in ("ok", "no reference") and (id(case), row.measurement) in far:
                    word = "stands out"
                numbers.append(Number(case, row, word))
    return numbers


# --- one line a condition ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ConditionLine:
    """A check and condition: how many places it has, the worst of them, and the median."""

    worst: Number
    places: int
    median: str
    status: str


def by_conditions(measured: Iterable[Number]) -> list[list[Number]]:
    """The numbers of each condition that are compared with the same."""
    groups: dict[Hashable, list[Number]] = {}
    for one in measured:
        key = condition(one.case, one.row.measurement), reference_of(one.row)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def conditions(measured: Iterable[Number]) -> list[ConditionLine]:
    """One of each condition, of those that are compared with the same."""
    return [
        ConditionLine(
            min(members, key=goodness),
            len({(one.case.unique_name, one.case.place, location(one)) for one in members}),
            _median(members),
            status_summary(members),
        )
        for members in by_conditions(measured)
    ]


def by_condition(verdict: Verdict) -> Table:
    """The table with a line for each check and condition."""
    partitions = {case.partition for case in verdict.cases}
    # What was measured again is evidence, and no place of its condition.
    numbers = [one for one in collect(verdict) if not one.case.repeats]
    loads = _loads(numbers)
    table = new_table()
    # Where names are long, these fold and share what the others leave; none is cut.
    table.add_column("check", overflow="fold", min_width=10)
    table.add_column("measured", overflow="fold")
    table.add_column("places", justify="right", no_wrap=True)
    table.add_column("worst", justify="right", no_wrap=True)
    table.add_column("at", overflow="fold", min_width=5)
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("reference", overflow="fold")
    table.add_column("of limit", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for line in conditions(numbers):
        case, row = line.worst.case, line.worst.row
        table.add_row(
            f"{case.check} {case.partition}" if len(partitions) > 1 else case.check,
            measured(row.measurement, len(loads[case.check, case.partition]) > 1),
            str(line.places),
            quantity(row.measurement),
            worst_at(line.worst),
            line.median,
            reference_of(row),
            share_of_limit(row),
            _styled(line.status),
        )
    return table


def by_check(verdict: Verdict, width: int) -> list[Text]:
    """A line a check: how many places it has, a number, and the status of all.

    The number is that of the first condition that is bad, else of the first one. It is left out
    where the line would be wider than `width`, the place of it first.
    """
    partitions = {case.partition for case in verdict.cases}
    checks: dict[str, list[Number]] = {}
    for one in collect(verdict):
        if not one.case.repeats:
            several = len(partitions) > 1
            name = f"{one.case.check} {one.case.partition}" if several else one.case.check
            checks.setdefault(name, []).append(one)
    rows = [
        ("check", "places", "worst", "at", Text("verdict")),
        *(_of_check(name, numbers) for name, numbers in checks.items()),
    ]
    shown = next((columns for columns in (4, 3, 2) if _width(rows, columns) <= width), 2)
    widths = [max(len(row[n]) for row in rows) for n in range(shown)]
    lines = []
    for row in rows:
        cells = [str(row[n]).ljust(widths[n]) for n in range(shown)]
        cells[1] = str(row[1]).rjust(widths[1])
        lines.append(Text("  ".join(cells) + "  ").append_text(row[-1]))
    lines[0].stylize("bold")
    return lines


def _of_check(name: str, numbers: Sequence[Number]) -> tuple[str, str, str, str, Text]:
    lines = conditions(numbers)
    shown = next((line for line in lines if line.worst.is_bad), lines[0])
    measurement = shown.worst.row.measurement
    return (
        name,
        str(len({(one.case.unique_name, one.case.place, location(one)) for one in numbers})),
        f"{metric(measurement)} {quantity(measurement)}",
        worst_at(shown.worst).replace("\n", ""),
        _styled(status_summary(numbers)),
    )


def _width(rows: Sequence[tuple[str, str, str, str, Text]], columns: int) -> int:
    """Of the first columns and the last one, with two blanks between them."""
    widths = [max(len(row[n]) for row in rows) for n in (*range(columns), -1)]
    return sum(widths) + 2 * columns


def goodness(one: Number) -> tuple[bool, float]:
    """Sort key, the worst first: out of its reference, then the worst value of its metric."""
    m = one.row.measurement
    sign = 1 if METRICS[m.metric].better == "more" else -1
    return one.row.within is not False, sign * m.value


def _loads(numbers: Iterable[Number]) -> Mapping[tuple[str, str], set[str]]:
    """(check, partition) -> the loads under which it measured; shown where there are two."""
    loads: dict[tuple[str, str], set[str]] = {}
    for one in numbers:
        known = loads.setdefault((one.case.check, one.case.partition), set())
        if one.row.measurement.load:
            known.add(one.row.measurement.load)
    return loads


def measured(measurement: Measurement, with_load: bool = True) -> str:
    """Metric and condition, without where: which rails and NICs these are, is a place."""
    measurement = measurement if with_load else dataclasses.replace(measurement, load=None)
    parts = condition_label(measurement)
    if len(set((measurement.rails or "").split("-"))) > 1:
        parts.append("across rails")
    nics = (measurement.nics or "").split("+")
    parts += [f"{len(nics)} NICs"] if len(nics) > 1 else []
    parts += [f"{len(measurement.nodes)} nodes"] if len(measurement.nodes) > 2 else []
    return " ".join([metric(measurement), *parts, *path_label(measurement)])


def slowest_of(case: Case) -> int:
    """How many groups of nodes share a place's numbers, those of the slowest of them."""
    return max((int(facts.get("slowest_of", 1)) for facts in case.facts.values()), default=1)


def worst_at(one: Number) -> str:
    """The worst place; of groups that ran at once it is not known which was the slowest."""
    count = slowest_of(one.case)
    if count > 1:
        return f"one of {count}"
    # A name that is broken where a column ends can neither be copied nor searched for.
    return location(one) if len(location(one)) <= _LONG else location(one).replace(":", ":\n")


def location(one: Number) -> str:
    """Where, as `railgauge show` takes it: nodes, rails and NICs."""
    m = one.row.measurement
    nodes = m.nodes or one.case.nodes
    where = [":".join(nodes)] if len(nodes) <= 2 else [hostlist.fold(nodes)]
    return ":".join(filter(None, [*where, m.rails, m.nics]))


def _median(members: Sequence[Number]) -> str:
    """The median with the largest deviation of a place, as a share: `0.98 ±3%`; without it for one
    place.
    """
    values = [one.row.measurement.value for one in members]
    if len(values) == 1:
        return "-"
    median = statistics.median(values)
    text = f"{median:.3g}" if median < 1000 else number(median)
    if not median:
        return text
    return f"{text} ±{max(abs(value - median) for value in values) / abs(median):.0%}"


def status_summary(members: Iterable[Number]) -> str:
    counts = collections.Counter(one.words for one in members)
    words = [f"{counts[word]} {word}" for word in _BAD if counts[word]]
    return ", ".join(words) or next((word for word in _OPEN if counts[word]), "ok")


# --- one line a place ----------------------------------------------------------------------------


def by_place(verdict: Verdict, all_places: bool) -> Table | None:
    """A line a place and number: of all places, or of those that fail or stand out, if any do."""
    shown = [one for one in collect(verdict) if all_places or one.is_bad]
    if not shown:
        return None
    table = new_table()
    table.add_column("check", no_wrap=True)
    table.add_column("nodes", overflow="fold", min_width=7)
    table.add_column("condition", overflow="fold")
    table.add_column("metric", overflow="fold")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("reference", overflow="fold")
    table.add_column("of limit", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in shown:
        m = one.row.measurement
        rails = [f"rails {m.rails}"] if m.rails else []
        table.add_row(
            one.case.check,
            " ".join(m.nodes) if len(m.nodes) <= 2 else hostlist.fold(m.nodes),
            " ".join(condition_label(m) + rails + ([m.nics] if m.nics else []) + path_label(m)),
            metric(m),
            quantity(m)
            + (f", slowest of {shared}" if (shared := slowest_of(one.case)) > 1 else ""),
            reference_of(one.row),
            share_of_limit(one.row),
            _styled(one.words),
        )
    return table
