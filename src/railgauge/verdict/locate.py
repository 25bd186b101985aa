"""Which node is at fault: what the failing cases have in common and the passing ones have not."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from railgauge import hostlist
from railgauge.verdict.compare import Case

#: How Slurm gives the nodes that keep a job from starting.
_UNAVAILABLE = re.compile(r"UnavailableNodes:([\w\[\],.-]+)")


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A node that the evidence points at, and why."""

    node: str
    why: str


def unavailable_nodes(reason: str) -> tuple[str, ...]:
    """The nodes that Slurm's pending reason names as not available."""
    found = _UNAVAILABLE.search(reason)
    try:
        return hostlist.expand(found[1].rstrip(",")) if found else ()
    except ValueError:
        return ()


def suspects(cases: Sequence[Case]) -> list[Suspect]:
    """The nodes to look at first; none where the failures have nothing in common.

    A node that a failure names itself comes first. Else a node is suspect when it is in two or
    more failing cases and in none that passed. Where that is so for every node of the campaign it
    says nothing of any of them, and nobody is named.
    """
    failed = [case for case in cases if case.finished and not case.passed]
    named: dict[str, str] = {}
    for case in failed:
        for failure in case.failures:
            for node in failure.nodes:
                named.setdefault(node, failure.message)
        for node in unavailable_nodes(case.reason):
            named.setdefault(node, "Slurm cannot start a job on it")
    if named:
        return [Suspect(node, why) for node, why in sorted(named.items())]
    cleared = {node for case in cases if case.passed for node in case.nodes}
    counts: dict[str, int] = {}
    for case in failed:
        for node in case.nodes:
            counts[node] = counts.get(node, 0) + 1
    found = [node for node, count in counts.items() if count >= 2 and node not in cleared]
    if len(found) == len({node for case in cases for node in case.nodes}):
        return []
    return [
        Suspect(node, f"in {counts[node]} failing cases, and in none that passed")
        for node in sorted(found)
    ]
