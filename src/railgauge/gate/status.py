"""What `railgauge gate status` says: of every node what was accepted, and what holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railgauge import hostlist
from railgauge.cluster import store
from railgauge.errors import ConfigurationError
from railgauge.gate import journal, run, update
from railgauge.slurm import nodes as slurm_nodes

_PHASES = {"take": "being drained for it", "test": "updated, being tested"}


def unknown(nodes: Sequence[str]) -> list[str]:
    """Those of `nodes` that Slurm does not know; SlurmProblem where it does not answer."""
    known = slurm_nodes.show()
    return [name for name in nodes if name not in known]


def lines(system: str, nodes: Sequence[str]) -> list[str]:
    """A line a node that Slurm knows, then what has not ended; SlurmProblem where it is silent."""
    states = slurm_nodes.show()
    return [*_nodes(system, [n for n in nodes if n in states], states), *_unended(system)]


def _nodes(
    system: str, nodes: Sequence[str], states: dict[str, slurm_nodes.SlurmNode]
) -> Iterator[str]:
    broken = journal.unended(system)
    updating = run.in_update(system, states)
    width = max(map(len, nodes), default=0)
    for name in nodes:
        state = states[name]
        words = [_accepted(system, name)]
        if state.drained:
            words.append(f"{state.reason} ({state.by} {state.since})")
        elif broken and name in broken.nodes:
            words.append(f"in gate run {broken.id}")
        if name in updating:
            words.append(f"in update: {updating[name]}")
        words += _suspect(system, name)
        words += [f"in reservation {other}" for other in state.foreign_reservations]
        yield f"{name:<{width}}  {state.state:<16}  " + "  ".join(words)


def _unended(system: str) -> Iterator[str]:
    broken, roll = journal.unended(system), journal.rolling(system)
    if broken:
        yield (
            f"gate run {broken.id} of {broken.by} has not ended (after {broken.step})\n"
            "  next: if nobody runs it, railgauge gate run --act goes on with it"
        )
    if roll:
        yield f"rolling update {roll.id} of {roll.by} has not ended: `{roll.command}`"
        if roll.phase == "update":
            state = update.state(roll)
            yield f"  {hostlist.fold(roll.batch)}: update {state.word}: {state.words}"
        elif roll.batch:
            yield f"  {hostlist.fold(roll.batch)}: {_PHASES[roll.phase]}"
        if roll.waiting:
            yield f"  not begun: {hostlist.fold(roll.waiting)}"
        yield "  next: if nobody runs it, railgauge gate run --act goes on with it"
    for lost in journal.lost(system):
        yield f"{lost.path}: damaged: {lost.why}\n  next: railgauge gate run --act"


def _accepted(system: str, node: str) -> str:
    try:
        record = store.accepted(system, node)
    except ConfigurationError as error:
        return f"record damaged: {error.message}; next: {error.next_step}"
    if record is None:
        return "unadopted"
    return f"accepted {record.date[:10]} by {record.how} {record.by}, firmware {record.fingerprint}"


def _suspect(system: str, node: str) -> list[str]:
    partner = store.suspected(system, node)
    if partner is None:
        return []
    by = partner.by if partner.by.startswith("patrol ") else f"gate run {partner.by}"
    return [f"suspect, by {by} {partner.date}: {partner.why}"]
