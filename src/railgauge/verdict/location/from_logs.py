"""Outputs of tools, from anywhere, as evidence: between two nodes, and of the GPUs of one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import PurePath

from railgauge.locating import End, Evidence, Missing, Result
from railgauge.model.measurement import Measurement
from railgauge.textfiles import Large, Text, Unread
from railgauge.verdict.location import gpus_in_logs
from railgauge.verdict.location.gpus_in_logs import GpusOfRun
from railgauge.verdict.logs import names
from railgauge.verdict.logs.runs import LogRun
from railgauge.verdict.logs.runs import read as read_runs

#: What measures a path, the first that a run has: more is better, and all paths should be equal.
_RATES = ("busbw", "bandwidth", "message_rate")
#: What data does that goes to the client, in the words of an operation.
_TO_CLIENT = frozenset({"reverse", "read"})
_BOTH_WAYS = ("bidirectional", "duplex", "both", "full")


@dataclasses.dataclass(frozen=True)
class _Run:
    """A run between two hosts: the rate at each size, by the condition; none of one that failed."""

    run: LogRun
    condition: Hashable = ""
    rates: dict[int | None, float] = dataclasses.field(default_factory=dict)
    #: whether data went from the first to the second of its pair; None: both ways, or not known
    forward: bool | None = None


@dataclasses.dataclass(frozen=True)
class LogEvidence:
    """The evidence of logs. `lacking` are files with unknown hosts and the ending of those with a
    result: the nodes in them are not judged. `gpus` are nodes by the copies between their GPUs.
    """

    evidence: Evidence
    files: int
    lacking: tuple[str, ...]
    gpus: tuple[GpusOfRun, ...] = ()


def read(sources: Iterable[Text | Large | Unread]) -> LogEvidence:
    """The evidence of outputs. The pair of an output is that of its hosts, or of its file's name;
    its value is the rate of the largest size that most have.

    A run in which the output itself states a failure, or wrong data, failed. What is not between
    two hosts, and what is not whole, is missing with its reason: it accuses nothing. Of a file with
    several runs each counts.
    """
    results: list[_Run] = []
    missing: list[Missing] = []
    lacking: list[str] = []
    files: set[str] = set()
    gpus: list[GpusOfRun] = []
    taken: dict[bytes, LogRun] = {}
    for run in read_runs(sources):
        if isinstance(run, Unread):
            files.add(run.name)
            ends = names.hosts_in(run.name)
            missing.append(Missing(run.name, None, run.reason, tuple(map(End, ends))))
            if not ends:
                lacking.append(run.name)
            continue
        files.add(run.file)
        if copied := taken.get(run.digest):
            missing.append(Missing(run.where, None, f"a copy of {copied.where}: it counts once"))
            continue
        taken[run.digest] = run
        if of_run := gpus_in_logs.judge(run):
            gpus.append(of_run)
            if of_run.why:
                missing.append(Missing(run.where, None, of_run.why))
            continue
        if run.tool in gpus_in_logs.TOOLS:
            missing.append(Missing(run.where, None, _why_no_rate(run)))
            continue
        why = _why_no_pair(run)
        found = _Run(run) if run.failure and not why else _rated(run)
        if why:
            missing.append(Missing(run.where, None, why))
            if not run.pair and not run.reading.ok and len(run.hosts) < 2:
                lacking.append(run.file)
        elif found is None:
            missing.append(Missing(run.where, None, _why_no_rate(run), tuple(map(End, run.pair))))
        else:
            results.append(found)
    directed = all(not one.rates or one.forward is not None for one in results)
    evidence = Evidence(directed=bool(results) and directed)
    evidence.add(_results(results), missing)
    endings = {PurePath(one.run.file).suffix for one in results} - {""}
    return LogEvidence(
        evidence,
        len(files),
        tuple(dict.fromkeys(name for name in lacking if PurePath(name).suffix in endings)),
        tuple(gpus),
    )


def _why_no_pair(run: LogRun) -> str:
    """Why an output says nothing of what is between two hosts."""
    if run.ends.why:
        return run.ends.why
    if len(run.hosts) > 2:
        return f"{len(run.hosts)} hosts, expected two"
    if len(run.hosts) == 1:
        return f"1 host, {run.hosts[0]}, expected two"
    if run.ends.role == "server":
        return "a server's output: that of its client counts"
    if not run.pair:
        return (
            "its two hosts are in neither the output nor the file's name, expected a name such as "
            "n1-n2.log"
        )
    return ""


def _why_no_rate(run: LogRun) -> str:
    if not run.reading.ok:
        return f"not a whole run: {run.reading.reason}"
    measured = ", ".join(dict.fromkeys(m.metric for m in run.reading.measurements)) or "nothing"
    return f"it measured {measured}, expected a rate: {', '.join(_RATES)}"


def _rated(run: LogRun) -> _Run | None:
    """A valid run by its rates; None where it has none."""
    if not run.reading.ok:
        return None
    measured = run.reading.measurements
    metric = next((name for name in _RATES if any(m.metric == name for m in measured)), "")
    rated = [m for m in measured if m.metric == metric]
    if not rated:
        return None
    # Rows of another kind, such as another data type, are of another condition: the first counts.
    condition = _condition(run, rated[0])
    rates = {m.size_bytes: m.value for m in rated if _condition(run, m) == condition}
    return _Run(run, condition, rates, _forward(run, rated[0]))


def _condition(run: LogRun, m: Measurement) -> Hashable:
    seen = run.reading.seen
    devices = tuple(seen.get("devices") or ())
    stated = (seen.get("connection_type"), seen.get("rdma_cm"), seen.get("device"), devices)
    return (m.metric, m.tool, m.operation, m.transport, m.streams, m.ranks, stated)


def _forward(run: LogRun, m: Measurement) -> bool | None:
    known = run.ends.role == "client" and run.pair == run.hosts
    if not known or any(word in m.operation for word in _BOTH_WAYS):
        return None
    return not _TO_CLIENT.intersection(m.operation.split())


def _results(runs: Sequence[_Run]) -> list[Result]:
    """Each at the size that most runs of its condition have, the largest of such."""
    counts: dict[Hashable, Counter[int | None]] = {}
    for one in runs:
        counts.setdefault(one.condition, Counter()).update(list(one.rates))
    results = []
    for one in runs:
        a, b = map(End, one.run.pair)
        sender, receiver = (b, a) if one.forward is False else (a, b)
        if not one.rates:
            results.append(Result(sender, receiver, None))
            continue
        of = counts[one.condition]
        size = max(one.rates, key=lambda size: (of[size], size or 0))
        condition = (one.condition, size)
        results.append(Result(sender, receiver, one.rates[size], condition=condition))
    # A run that failed is one of those that the others are.
    usual = Counter(r.condition for r in results if r.value is not None).most_common(1)
    return [r._replace(condition=usual[0][0]) if r.value is None and usual else r for r in results]
