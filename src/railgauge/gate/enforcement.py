"""What a check may do to a node in service that it accuses: `enforcement` in gate.yaml.

record    it is written down, and nothing else
comment   Slurm's comment of the node says it, which keeps no job from it
hold      the node is drained, as far as the cap lets
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

from railgauge.cluster import store
from railgauge.cluster.store import Enforcement, GateRules
from railgauge.common.errors import PrerequisiteError
from railgauge.node import gate as node_gate
from railgauge.slurm import nodes as slurm_nodes
from railgauge.verdict.decision import node_status
from railgauge.verdict.decision.verdict import Verdict

#: A link that went and came back is over, and no retest with others shows it: the first time it
#: holds no node.
_OVER = frozenset({"link-flap"})

#: From the mildest to the sharpest.
LEVELS: Sequence[Enforcement] = ("record", "comment", "hold")


@dataclasses.dataclass(frozen=True)
class Alarm:
    """A node that checks accuse: `enforcement` is the sharpest of theirs, `why` of the first."""

    node: str
    checks: tuple[str, ...]
    enforcement: Enforcement
    why: str


def of(rules: GateRules, check: str) -> Enforcement:
    """What gate.yaml says of a check: one that it does not name is new."""
    return rules.enforcement.get(check, "record")


def alarms(system: str, verdict: Verdict, rules: GateRules) -> list[Alarm]:
    """The nodes that a verdict accuses, sharpest first. StoreError where the store does not answer.

    What is over by itself is commented on at most, unless it was so again: in a retest, or after an
    earlier alarm.
    """
    alarms = []
    for node, by_check in node_status.alarms(verdict).items():
        sharp = max((of(rules, check) for check in by_check), key=LEVELS.index)
        accusing = node_status.accusations(verdict, node)
        first = next(one for one in accusing if of(rules, one.check) == sharp)
        rails = [s.name for s in verdict.suspects if s.kind == "rail" and node in s.failing_nodes]
        part = f"rail {' '.join(rails)}: " if rails else ""
        why = f"{part}{node_status.reason_text(first, node)} ({verdict.campaign.id})"
        once = not any(by_check.values()) and store.suspected(system, node) is None
        if sharp == "hold" and once and {one.kind for one in accusing} <= _OVER:
            sharp = "comment"
        alarms.append(Alarm(node, tuple(by_check), sharp, why))
    return sorted(alarms, key=lambda one: (-LEVELS.index(one.enforcement), one.node))


def act(
    system: str, rules: GateRules, alarms: Collection[Alarm], by: str
) -> Iterator[tuple[Alarm, str]]:
    """Act on each alarm, and say what became of it, also where the store or Slurm prevents it.

    A node that is held or commented on is lent as no partner until it is accepted again.
    """
    for one in alarms:
        try:
            yield one, f"{_done(system, rules, one, by)}: {one.why}"
        except (node_gate.StoreError, PrerequisiteError) as error:
            undone = "not held" if one.enforcement == "hold" else "no comment"
            words = str(error).splitlines()[0]
            yield one, f"alarm: {undone}: {words}: {one.why}"


def _done(system: str, rules: GateRules, one: Alarm, by: str) -> str:
    if one.enforcement == "record":
        return "recorded"
    store.suspect(system, one.node, one.why, by)
    if one.enforcement == "hold":
        reasons = {one.node: one.why}
        [outcome] = node_gate.drain_within_cap(
            store.folder(system), rules.counted, reasons, act=True
        )
        return ": ".join(filter(None, [outcome.state, outcome.why]))
    if slurm_nodes.comment(one.node, one.why):
        return "comment set"
    return "recorded only: the node has another user's comment"


def clear(system: str, nodes: Collection[str], since: str) -> Iterator[str]:
    """Take back our comments on nodes that were accepted. A node accused after `since`, when the
    test began, stays a suspect.
    """
    for node in nodes:
        known = store.suspected(system, node)
        if known is None or known.date > since:
            continue
        store.clear_suspect(system, node)
        yield f"{node}: accepted, a suspect no more"
