"""Which runs of two sides measured the same place under the same condition."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Literal

from railgauge import hostlist
from railgauge.model.measurement import COUNTS, METRICS, Measurement
from railgauge.verdict.logs import names
from railgauge.verdict.logs.runs import LogRun

Side = Literal["before", "after"]

#: What is compared of a run: the first of these that it has. The others follow from it, or are
#: extremes. Of a metric that is not here any one is.
_MAIN = (
    *("busbw", "bandwidth", "latency", "latency_avg", "message_rate", "time", "mpi_time"),
    "transfer_time",
)


@dataclasses.dataclass(frozen=True)
class Series:
    """What a run measured under one condition: the value at each size (None: it streams)."""

    run: LogRun
    #: of its file, for its name's words
    path: str
    #: the metric and the condition without the size, in the words of a measurement
    metric: str
    words: str
    values: dict[int | None, float]

    @property
    def condition(self) -> tuple[str, str, str, str]:
        return self.run.tool, self.run.ends.role, self.metric, self.words

    @property
    def device(self) -> str:
        devices: Sequence[str] = self.run.reading.seen.get("devices") or ()
        return str(devices[0]) if len(devices) == 1 else ""

    @property
    def unit(self) -> str:
        return METRICS[self.metric].unit

    def by_hosts(self) -> Hashable | None:
        hosts = self.run.hosts
        if not hosts:
            return None
        ordered = hosts if self.run.ends.role else tuple(sorted(hosts))
        return ordered, self.device

    def by_hosts_in_name(self) -> Hashable | None:
        hosts = self.run.hosts_in_name
        return (hosts, self.device) if hosts else None

    def by_name(self) -> Hashable | None:
        return names.place_words(self.path), self.run.tag, self.device

    @property
    def place(self) -> str:
        """Its hosts, or the words of its file's name."""
        hosts = self.run.pair or self.run.hosts
        if hosts and self.run.ends.role:
            name = " to ".join(hosts)
        elif hosts:
            name = hostlist.fold(hosts) if len(hosts) > 2 else ",".join(hosts)
        else:
            name = "-".join(names.place_words(self.path)) or self.path
        rank = f"rank {self.run.tag}" if self.run.tag.isdigit() else ""
        return " ".join(filter(None, (name, self.device, rank)))


def series_of(run: LogRun, path: str) -> Iterator[Series]:
    """What is compared of a valid run: its main metric, a series a condition."""
    measured = run.reading.measurements
    known = [m for m in measured if METRICS[m.metric].unit not in COUNTS]
    metrics = [m.metric for m in known if not METRICS[m.metric].by_chance]
    main = next((metric for metric in (*_MAIN, *metrics) if metric in metrics), None)
    found: dict[str, dict[int | None, float]] = {}
    for m in known:
        # A value of 0 has no logarithm: nothing came through.
        if m.metric == main and m.value > 0:
            found.setdefault(_words(m, run), {}).setdefault(m.size_bytes, m.value)
    for words, values in found.items():
        yield Series(run, path, main or "", words, values)


def _words(m: Measurement, run: LogRun) -> str:
    # "any" stands for a transport that the output does not state.
    conditions = [word for word in m.conditions if word != "any"]
    seen = run.reading.seen
    also = (
        str(seen.get("connection_type") or ""),
        "rdma_cm" if seen.get("rdma_cm") else "",
        str(seen.get("device") or ""),
        "as the server counts" if run.ends.role == "server" else "",
    )
    return ", ".join(filter(None, (*conditions, *also)))


@dataclasses.dataclass(frozen=True)
class Match:
    """Series of both sides of one place and condition; `by` says how they were paired."""

    place: str
    by: str
    before: tuple[Series, ...]
    after: tuple[Series, ...]
    #: what a reader should know of the pairing
    note: str = ""

    @property
    def sides(self) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
        return self.before, self.after


_WAYS: tuple[tuple[str, Callable[[Series], Hashable | None]], ...] = (
    ("hosts in the logs", Series.by_hosts),
    ("hosts in the file names", Series.by_hosts_in_name),
    ("file names", Series.by_name),
)
ONLY = "the only place on each side"


def match(
    before: Sequence[Series], after: Sequence[Series], two_files: bool
) -> tuple[list[Match], list[Series]]:
    """The matches of all conditions, and the series that only one side has.

    `two_files`: each side is one file, so that they are compared even if their hosts differ.
    """
    matches: list[Match] = []
    alone: list[Series] = []
    sides = (_by_condition(before), _by_condition(after))
    for condition in dict.fromkeys((*sides[0], *sides[1])):
        found, left = _match_condition(
            sides[0].get(condition, []), sides[1].get(condition, []), two_files
        )
        matches += found
        alone += left
    return matches, alone


def _by_condition(series: Iterable[Series]) -> dict[Hashable, list[Series]]:
    found: dict[Hashable, list[Series]] = {}
    for one in series:
        found.setdefault(one.condition, []).append(one)
    return found


def _match_condition(
    before: Sequence[Series], after: Sequence[Series], two_files: bool
) -> tuple[list[Match], list[Series]]:
    matches: list[Match] = []
    for by, key in _WAYS:
        groups = [_grouped(side, key) for side in (before, after)]
        for value in groups[0].keys() & groups[1].keys():
            pair = groups[0][value], groups[1][value]
            # Runs with known hosts that differ, are not of one place for their files' names.
            if by == "file names" and all(any(s.run.pair or s.run.hosts for s in g) for g in pair):
                continue
            note = _pooled(pair) if by == "file names" else ""
            matches.append(Match(pair[1][0].place, by, tuple(pair[0]), tuple(pair[1]), note))
        done = {id(s) for m in matches for side in m.sides for s in side}
        before, after = ([s for s in side if id(s) not in done] for side in (before, after))
    if any(len({s.place for s in side}) != 1 for side in (before, after)):
        return matches, [*before, *after]
    places = before[0].place, after[0].place
    have_hosts = all(side[0].run.pair or side[0].run.hosts for side in (before, after))
    if have_hosts and not two_files:
        return matches, [*before, *after]
    note = f"other hosts: {places[0]} before, {places[1]} after" if have_hosts else ""
    place = places[0] if places[0] == places[1] else f"{places[0]} / {places[1]}"
    return [*matches, Match(place, ONLY, tuple(before), tuple(after), note)], []


def _pooled(sides: Sequence[Sequence[Series]]) -> str:
    """What is assumed of several files of one name but for the numbers of runs and jobs in it."""
    counts = [len({s.run.file for s in side}) for side in sides]
    if max(counts) < 2:
        return ""
    return (
        f"{counts[0]} files before and {counts[1]} after count as runs of one place, as their "
        "names differ in the number of a run or job only"
    )


def _grouped(
    series: Iterable[Series], key: Callable[[Series], Hashable | None]
) -> dict[Hashable, list[Series]]:
    found: dict[Hashable, list[Series]] = {}
    for one in series:
        value = key(one)
        if value is not None:
            found.setdefault(value, []).append(one)
    return found
