"""A finding: what is wrong at one place, and the decision that it leads to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

Decision = Literal["accept", "provisional accept", "reject", "inconclusive"]

#: What a finding alone leads to, the gravest first.
WEIGHTS: tuple[Decision, ...] = ("reject", "inconclusive", "provisional accept")


@dataclasses.dataclass(frozen=True)
class Finding:
    """What is wrong, where, by how much, with what evidence, and what to do next.

    `weight` is the decision that this finding alone leads to. `place` is where it was measured, for
    `railgauge show`; "" of what is wrong with a whole job. `evidence` is a folder or a file.
    """

    weight: Decision
    kind: str
    message: str
    check: str = ""
    partition: str = ""
    nodes: tuple[str, ...] = ()
    place: str = ""
    evidence: str = ""
    next_step: str = ""


def places_of(findings: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """The findings by weight, and those of one place together, whichever run they are of."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: WEIGHTS.index(finding.weight)):
        where = finding.place or finding.evidence
        key = finding.weight, finding.check, finding.partition, where
        groups.setdefault(key, []).append(finding)
    return [tuple(group) for group in groups.values()]
