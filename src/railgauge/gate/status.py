"""The lines of `railgauge gate status`: what was accepted of every node, and what holds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from railgauge import hostlist
from railgauge.cluster import store
from railgauge.common.errors import ConfigurationError
from railgauge.gate import journal, orphaned_reservations, update
from railgauge.slurm import nodes as slurm_nodes

_GO_ON = "railgauge gate run --act, unless a gate run is still working; it continues this one"
_PHASES = {"take": "being drained for it", "test": "updated, being tested"}


def unknown(nodes: Sequence[str]) -> list[str]:
    """The nodes that Slurm does not know; SlurmError where it does not answer."""
    known = slurm_nodes.show()
    return [name for name in nodes if name not in known]


def lines(system: str, nodes: Sequence[str], width: int) -> list[str]:
    """A line for each node that Slurm knows, then what has not ended; SlurmError if Slurm is
    silent. The facts of a node stand below it, a line each, if one line has no `width` for them.
    """
    known = _known(system, nodes)
    node_width = max((len(line.node) for line in known), default=0)
    state_width = max((len(line.state) for line in known), default=0)
    texts = []
    for line in known:
        row = f"{line.node:<{node_width}}  {line.state:<{state_width}}  {'  '.join(line.facts)}"
        if len(row) > width:
            row = "\n    ".join([f"{line.node:<{node_width}}  {line.state}", *line.facts])
        texts.append(row)
    return [*texts, *_unended(system, nodes, known)]


def as_dict(system: str, nodes: Sequence[str]) -> dict[str, Any]:
    """The same for programs."""
    known = _known(system, nodes)
    return {
        "system": system,
        "nodes": [dataclasses.asdict(line) for line in known],
        "not_ended": list(_unended(system, nodes, known)),
    }


@dataclasses.dataclass(frozen=True)
class NodeStatus:
    """A node that Slurm knows; "" and None where a field does not apply."""

    node: str
    state: str
    #: what was accepted of it, in words, and its fingerprint then
    accepted: str
    fingerprint: str | None
    #: why it is drained, by which user and since when
    drained: str
    gate_run: str
    in_update: str
    suspect: str
    #: why it is in service and was not held for a change
    not_held: str
    #: the reservations of others
    reservations: tuple[str, ...]

    @property
    def facts(self) -> list[str]:
        facts = (
            self.accepted,
            self.drained or (self.gate_run and f"in gate run {self.gate_run}"),
            self.in_update and f"in update: {self.in_update}",
            self.suspect,
            self.not_held and f"changed, and {self.not_held}",
            *(f"in reservation {other}" for other in self.reservations),
        )
        return [fact for fact in facts if fact]


def _known(system: str, nodes: Sequence[str]) -> list[NodeStatus]:
    states = slurm_nodes.show()
    broken = journal.unended(system)
    updating = journal.in_update(system, states)
    lines = []
    for name in (node for node in nodes if node in states):
        state = states[name]
        words, fingerprint = _accepted(system, name)
        suspected = store.suspected(system, name)
        lines.append(
            NodeStatus(
                node=name,
                state=state.state,
                accepted=words,
                fingerprint=fingerprint,
                drained=f"{state.reason} ({state.by} {state.since})" if state.drained else "",
                gate_run=broken.id if broken and name in broken.nodes else "",
                in_update=updating.get(name, ""),
                suspect=suspected.words if suspected else "",
                not_held=store.not_held(system, name) if state.in_service else "",
                reservations=tuple(state.foreign_reservations),
            )
        )
    return lines


def _unended(system: str, nodes: Sequence[str], known: Sequence[NodeStatus]) -> Iterator[str]:
    broken, roll = journal.unended(system), journal.rolling(system)
    if broken:
        yield (
            f"gate run {broken.id} of {broken.by} has not ended (after {broken.step})\n"
            f"  next: {_GO_ON}"
        )
    if roll:
        step = ""
        yield f"rolling update {roll.id} of {roll.by} has not ended: `{roll.command}`"
        if roll.phase == "update":
            state = update.state(roll)
            step = update.next_step(roll, state)
            yield f"  {hostlist.fold(roll.batch)}: update {state.word}: {state.words}"
        elif roll.batch:
            yield f"  {hostlist.fold(roll.batch)}: {_PHASES[roll.phase]}"
        if roll.waiting:
            yield f"  not begun: {hostlist.fold(roll.waiting)}"
        yield f"  next: {step or _GO_ON}"
    if not_held := {line.node: line.not_held for line in known if line.not_held}:
        changed = hostlist.fold(not_held)
        full = any("max_hold" in why for why in not_held.values())
        first = (
            "raise max_hold in gate.yaml, or wait until its window is over; then " if full else ""
        )
        yield (
            f"{changed}: changed since it was accepted, and not held\n"
            f"  next: {first}railgauge gate hold --nodes {changed} --act"
        )
    for lost in journal.lost(system):
        yield f"{lost.words}\n  next: {lost.next_step}"
    for one in orphaned_reservations.reservations(system, nodes):
        yield f"{one.words}\n  next: {one.next_step}"


def _accepted(system: str, node: str) -> tuple[str, str | None]:
    try:
        record = store.accepted(system, node)
    except ConfigurationError as error:
        return f"record damaged: {error.message}; next: {error.next_step}", None
    if record is None:
        return "unadopted", None
    by = f"{record.how} {record.by}"
    words = f"accepted {record.date[:10]} by {by}, firmware {record.fingerprint}"
    return words, record.fingerprint
