"""Nodes that were started again while a campaign measured them.

By the boot id (random(4), /proc/sys/kernel/random/boot_id) that every node states with what it
measured. Slurm need not notice: between two jobs, or with ReturnToService=2, such a node is idle
again before anybody asks. What was measured before says nothing of what runs now.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from railgauge.verdict.campaign.cases import Case


@dataclasses.dataclass(frozen=True)
class Restart:
    """A node that was measured in several of its boots, with a case of each.

    `in_session`: two of the boots were in one session; between sessions a user may have started
    it again on purpose.
    """

    node: str
    cases: tuple[Case, ...]
    in_session: bool

    @property
    def message(self) -> str:
        cases_shown = " and ".join(f"{case.check} {' '.join(case.nodes)}" for case in self.cases)
        when = "during the session" if self.in_session else "between two sessions"
        return f"{self.node} was started again {when}: {cases_shown} ran in different boots of it"


def restarts(cases: Sequence[Case]) -> list[Restart]:
    """The nodes with cases in more than one boot."""
    boots: dict[str, dict[str, list[Case]]] = {}
    for case in cases:
        for node, facts in case.facts.items():
            # Where the kernel reports none, nothing is known.
            if facts.get("boot_id"):
                boots.setdefault(node, {}).setdefault(facts["boot_id"], []).append(case)
    restarts = []
    for node, seen in sorted(boots.items()):
        if len(seen) > 1:
            sessions = [session for of in seen.values() for session in {c.session for c in of}]
            firsts = tuple(of[0] for of in seen.values())
            restarts.append(Restart(node, firsts, len(set(sessions)) < len(sessions)))
    return restarts
