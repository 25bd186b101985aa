"""Which node is at fault: what the failing cases have in common and the passing ones have not."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from railgauge.verdict.compare import Case


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A node that the evidence points at, and why."""

    node: str
    why: str


def suspects(cases: Sequence[Case]) -> list[Suspect]:
    """The nodes to look at first; none where the failures have nothing in common.

    A node that a failure names itself comes first. Else a node is suspect when it is in two or
    more failing cases of a kind and in none of that kind that passed. Where that is so for every
    node it says nothing of any of them, and nobody is named.
    """
    failed = [case for case in cases if case.failed]
    passed = {(*_kind(case), node) for case in cases if case.passed for node in case.nodes}
    named: dict[str, str] = {}
    cleared: dict[str, bool] = {}
    for case in failed:
        told = [(node, failure.message) for failure in case.failures for node in failure.nodes]
        told += [(node, "Slurm cannot start a job on it") for node in case.unavailable]
        for node, why in told:
            named.setdefault(node, why)
            # A job that never started leaves its healthy node silent too; another case clears it.
            cleared[node] = cleared.get(node, True) and (*_kind(case), node) in passed
    if named:
        guilty = {node: why for node, why in named.items() if not cleared[node]} or named
        return [Suspect(node, why) for node, why in sorted(guilty.items())]
    counts: dict[str, int] = {}
    for kind in sorted({_kind(case) for case in failed}):
        for node, count in _odd_ones_out([case for case in cases if _kind(case) == kind]).items():
            counts[node] = counts.get(node, 0) + count
    return [
        Suspect(node, f"in {count} failing cases, and in none of the same kind that passed")
        for node, count in sorted(counts.items())
    ]


def _kind(case: Case) -> tuple[str, str, str]:
    """NVLink says nothing of a node's NIC, nor one rail of another."""
    return case.check, case.partition, case.kind


def _odd_ones_out(cases: Sequence[Case]) -> dict[str, int]:
    """Node -> number of failing cases, of one kind: that all nodes find each other over MPI
    says nothing of a link's rate.
    """
    cleared = {node for case in cases if case.passed for node in case.nodes}
    failed = [node for case in cases if case.failed for node in case.nodes]
    found = {n: failed.count(n) for n in failed if failed.count(n) >= 2 and n not in cleared}
    everyone = {node for case in cases for node in case.nodes}
    return {} if set(found) == everyone else found
