"""Healthy nodes that a test borrows, and one that turns out to be at fault itself."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence

from railgauge import hostlist, notify, systems
from railgauge.cluster import inventories, store
from railgauge.gate import journal
from railgauge.gate.journal import Run
from railgauge.hooks import Say
from railgauge.node import gate as node_gate
from railgauge.slurm import nodes as slurm_nodes

#: The variable with the command that is run with a suspect node and the reason, where it is set.
ALARM_VARIABLE = "RAILGAUGE_ON_SUSPECT"


def lent(system: str, nodes: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """Partners for a test of `nodes`, as many as gate.yaml says, which show the node at fault of a
    failing pair.

    They are idle, in service, in no update, of the same partitions, no suspects, and as they were
    accepted: a job looks at each. Nodes that were lent `before` come first, and last those that
    a user's reservation is to have soon: a long test would delay its jobs.
    """
    wanted = store.rules(system).partners
    states = slurm_nodes.show_known(systems.load(system).nodes)
    updating = journal.in_update(system, states)
    chosen: list[str] = []
    for partition in systems.load(system).partitions:
        if not set(partition.nodes) & set(nodes):
            continue
        able = [
            name
            for name in partition.nodes
            if name in states
            and name not in nodes
            and name not in updating
            and states[name].in_service
            and not states[name].busy
            and not states[name].asleep
            and store.suspected(system, name) is None
            and store.readable(system, name) is not None
        ]
        able.sort(key=lambda name: (bool(states[name].soon_reserved), name not in before))
        missing = wanted - sum(name in chosen for name in able)
        able = [name for name in able if name not in chosen]
        while missing > 0 and able:
            candidates, able = able[:missing], able[missing:]
            good, _ = as_accepted(system, candidates)
            chosen += good
            missing -= len(good)
    return chosen


def by_partition(
    system: str, nodes: Collection[str], lent: Collection[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """Partition -> the tested nodes there, and their partners there; where a node is tested."""
    by_name = {}
    for partition in systems.load(system).partitions:
        tested = [name for name in partition.nodes if name in nodes]
        if tested:
            by_name[partition.name] = tested, [name for name in partition.nodes if name in lent]
    return by_name


def words(system: str, nodes: Collection[str], lent: Collection[str]) -> str:
    """Each node and its partners: `n7 with n8 n9, m3 with no partner (0 of 2 partners)`."""
    wanted = store.rules(system).partners
    parts = [
        f"{hostlist.fold(tested)} with {' '.join(borrowed) or 'no partner'}"
        + (f" ({len(borrowed)} of {wanted} partners)" if len(borrowed) < wanted else "")
        for tested, borrowed in by_partition(system, nodes, lent).values()
    ]
    return ", ".join(dict.fromkeys(parts))


def as_accepted(system: str, nodes: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The nodes among `nodes` that are now as they were accepted, and of those where that is not
    known why.
    """
    taken, failed = inventories.collect(system, nodes, quick=True)
    counted = store.rules(system).counted
    same = set()
    for inventory in taken:
        record = store.readable(system, inventory.node)
        if record and not node_gate.changes(record.document, inventory.as_dict(), counted):
            same.add(inventory.node)
    return [node for node in nodes if node in same], failed


def accuse(run: Run, node: str, why: str, say: Say) -> None:
    """Record a partner at fault as a suspect, hold it where the cap lets, and raise an alarm."""
    known = store.suspected(run.system, node)
    if known is not None and known.by == run.id:
        return
    counted = store.rules(run.system).counted
    reason = f"suspect: as a partner: {why}"
    try:
        outcome = node_gate.drain_within_cap(
            store.folder(run.system), counted, {node: reason}, act=True
        )[0]
        words = "held" if outcome.state == "held" else f"{outcome.state}: {outcome.why}"
    except node_gate.StoreError as error:
        words = f"alarm: not held: {error}"
    store.suspect(run.system, node, why, run.id)
    say(f"{node}: suspect, at fault as a partner ({words}): {why}")
    alarm(node, f"{words}: {why}", say)


def alarm(node: str, words: str, say: Say) -> None:
    """Run the command of RAILGAUGE_ON_SUSPECT, where it is set, with a suspect and the reason."""
    notify.send(ALARM_VARIABLE, [node, words], secrets.token_hex(16), say)
