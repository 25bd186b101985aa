"""Which node is at fault: what the failing cases have in common and the passing ones have not.

The one rule, for the verdict and for the gate: a node is named only on a case that speaks against
it (`Outcome.FAILED`), and only where nothing clears it. Whoever measured nothing accuses nobody.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator, Sequence

from railgauge.model.failure import NO_REFERENCE, UNREACHED
from railgauge.verdict.compare import Case, Outcome

#: Failures that are a node's silence. It may be healthy, and its partner or the way to it not: a
#: case that passed clears it. All others are of what the node itself said or showed.
_SILENCE = ("silent-node", "launch-failed")

#: Failures of what the suite was told, not of the nodes that it ran on.
_OF_THE_SUITE = (NO_REFERENCE, "gate", "limit-unit", "simulated")


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A node that the evidence points at, and why."""

    node: str
    why: str


@dataclasses.dataclass(frozen=True)
class Way:
    """Two nodes that failed with each other, and passed with others: what lies between them?"""

    nodes: tuple[str, str]
    why: str


def suspects(cases: Sequence[Case]) -> list[Suspect]:
    """The nodes to look at first; none where no single node explains the failures.

    A node that a failure names itself comes first. Beside it a node is suspect when it is in two or
    more failing cases of a kind that no named node explains, and in none of that kind that passed.
    Where that is so for every node it says nothing of any of them, and nobody is named.
    """
    named: dict[str, str] = {}
    for case in _failed(cases):
        for node in case.unavailable:
            named.setdefault(node, "it does not answer Slurm")
        for failure in case.failures:
            if failure.kind not in (*_SILENCE, UNREACHED):
                for node in failure.nodes:
                    named.setdefault(node, failure.message)
    for partition in {case.partition for case in cases}:
        for node, why in _silent([case for case in cases if case.partition == partition]).items():
            named.setdefault(node, why)
    counts: dict[str, int] = {}
    for kind in sorted({_kind(case) for case in _failed(cases)}):
        of_kind = [case for case in cases if _kind(case) == kind]
        for node, count in _odd_ones_out(of_kind, named).items():
            counts[node] = counts.get(node, 0) + count
    common = [
        Suspect(node, f"in {count} failing cases, and in none of the same kind that passed")
        for node, count in sorted(counts.items())
    ]
    return [*(Suspect(node, why) for node, why in sorted(named.items())), *common]


def _silent(cases: Sequence[Case]) -> dict[str, str]:
    """Node -> why: those of a partition that were silent, and that nothing clears.

    Where all are silent, none is told from the others.
    """
    silent: dict[str, str] = {}
    cleared = {
        n for c in _failed(cases) for f in c.failures if f.kind == UNREACHED for n in f.nodes
    }
    for case in _failed(cases):
        for failure in case.failures:
            for node in failure.nodes if failure.kind in _SILENCE else ():
                silent.setdefault(node, failure.message)
                if _clears(cases, case, node):
                    cleared.add(node)
    everyone = {node for case in cases for node in case.nodes}
    if set(silent) == everyone:
        return {}
    return {node: why for node, why in silent.items() if node not in cleared}


def ways(cases: Sequence[Case]) -> list[Way]:
    """The pairs of nodes between which something is wrong that neither of them explains."""
    guilty = {suspect.node for suspect in suspects(cases)}
    #: partition and node -> the jobs that ran there
    spoke: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        for node in {*case.nodes, *(call.host for call in case.calls)}:
            if _spoke(case, node):
                spoke.setdefault((case.partition, node), []).append(case)
    found: dict[tuple[str, str], str] = {}
    for case in _failed(cases):
        for failure in case.failures:
            # Both answered another: that they are there is known.
            if failure.kind == UNREACHED and not guilty & set(failure.nodes):
                one, other = sorted(failure.nodes)
                found.setdefault((one, other), failure.message)
        for a, b, why in _between(case):
            cleared = all(
                any(
                    set(other.nodes) != {a, b}
                    # With a third node: alone a node passes whatever lies between.
                    and (
                        _nobody_spoke(case)
                        or (other.outcome is Outcome.PASSED and set(other.nodes) - {a, b})
                    )
                    for other in spoke.get((case.partition, node), ())
                )
                for node in (a, b)
            )
            if cleared and not guilty & {a, b}:
                first, second = sorted((a, b))
                found.setdefault((first, second), why)
    return [Way(nodes, why) for nodes, why in sorted(found.items())]


def _between(case: Case) -> Iterator[tuple[str, str, str]]:
    """The pairs of nodes that a failing case is about, and why."""
    unreached = [failure for failure in case.failures if failure.kind == "launch-failed"]
    for failure in unreached:
        for node in failure.nodes:
            yield case.nodes[0], node, failure.message
    if not unreached and len(case.nodes) == 2:
        told = case.failures[0].message if case.failures else f"{case.check} failed between them"
        yield case.nodes[0], case.nodes[1], told


def _failed(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if case.outcome is Outcome.FAILED and not _of_the_suite(case)]


def _of_the_suite(case: Case) -> bool:
    numbers_are_good = all(row.within is not False for row in case.rows)
    told = [failure.kind in _OF_THE_SUITE for failure in case.failures]
    return bool(told) and all(told) and numbers_are_good


def _passed(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if case.outcome is Outcome.PASSED]


def _clears(cases: Sequence[Case], case: Case, node: str) -> bool:
    """Whether another case says that the silence of `node` was not its own.

    Where others of the job did speak it takes one of the same kind that passed; where nobody did,
    or srun did not get there, any job that ran on it, whatever it measured.
    """
    if _nobody_spoke(case):
        return any(_spoke(other, node) for other in cases if other.partition == case.partition)
    return any(node in other.nodes and _kind(other) == _kind(case) for other in _passed(cases))


def _nobody_spoke(case: Case) -> bool:
    """Whether its job says nothing of which of its nodes did not start."""
    return any(
        failure.kind == "launch-failed" or set(failure.nodes) >= set(case.nodes)
        for failure in case.failures
        if failure.kind in _SILENCE
    )


def _spoke(case: Case, node: str) -> bool:
    """Whether a job ran on that node."""
    passed = case.outcome is Outcome.PASSED and node in case.nodes
    return passed or any(call.host == node for call in case.calls)


def _kind(case: Case) -> tuple[str, str, str]:
    """NVLink says nothing of a node's NIC, nor one rail of another."""
    return case.check, case.partition, case.kind


def _odd_ones_out(cases: Sequence[Case], named: Collection[str]) -> dict[str, int]:
    """Node -> number of failing cases, of one kind: that all nodes find each other over MPI
    says nothing of a link's rate.

    What a case's own failures name explains that case. A `named` node explains every other failure
    that it is in too, unless it passed in a case of this kind: what it is named for is then of
    another kind.
    """
    cleared = {node for case in _passed(cases) for node in case.nodes}
    explaining = set(named) - cleared
    unexplained = [
        case
        for case in _failed(cases)
        if not explaining & set(case.nodes)
        and not any(f.nodes and f.kind not in _SILENCE for f in case.failures)
    ]
    failed = collections.Counter(n for case in unexplained for n in case.nodes if n not in named)
    found = {n: count for n, count in failed.items() if count >= 2 and n not in cleared}
    everyone = {node for case in cases for node in case.nodes} - set(named)
    return {} if set(found) == everyone else found
