"""Rolling updates: nodes are taken out in batches, updated, tested and returned.

The journal is written first: a batch before it is drained, and its update before it starts. A node
is tested only after its update is known to have ended well, by its own end or by an operator's
word.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from railgauge import hostlist, systems
from railgauge.cluster import store
from railgauge.common.errors import EXIT_REJECT, RailgaugeError
from railgauge.gate import journal, run, testing, update
from railgauge.gate.journal import Lost, Roll, Run
from railgauge.hooks import Say
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode

_POLL_S = 2.5

_LEAVE_OUT = (
    "leave it out of --nodes; out of a rolling update that has begun: railgauge gate update-done "
    "--nodes {node} --act"
)


class StuckError(RailgaugeError):
    """A batch waits for an operator's word, or for another host: its nodes stay out."""

    exit_code = EXIT_REJECT


def begin(
    system: str,
    nodes: Sequence[str],
    command: str,
    size: int,
    wait_s: float,
    despite_reservations: bool,
) -> Roll:
    """The journal of a new rolling update; nothing is drained yet.

    RailgaugeError where there is one already, or where another user has a node.
    """
    if (stuck := unknown(system)) is not None:
        raise stuck
    unended = journal.rolling(system)
    if unended is not None:
        raise RailgaugeError(
            f"rolling update {unended.id} of {unended.by} has not ended; not begun: "
            f"{hostlist.fold([*unended.batch, *unended.waiting])}",
            next_step="railgauge gate run --act continues it; railgauge gate update-done "
            "--no-more --act drops the batches that it has not begun",
        )
    states = slurm_nodes.show_known(systems.load(system).nodes)
    if unknown_nodes := [name for name in nodes if name not in states]:
        raise slurm_nodes.UnknownNodesError(unknown_nodes)
    for name, why in journal.in_update(system, states).items():
        if name in nodes:
            raise RailgaugeError(f"{name}: {why}", next_step=journal.once_done(system, [name]))
    _require_free([states[name] for name in nodes], despite_reservations)
    roll = Roll(
        id=journal.new_id(),
        system=system,
        command=command,
        size=size,
        wait_s=wait_s,
        nodes=sorted(nodes),
        waiting=list(nodes),
        started=store.now(),
        by=journal.me(),
        despite_reservations=despite_reservations,
    )
    roll.save()
    return roll


def _require_free(states: Sequence[SlurmNode], despite_reservations: bool) -> None:
    for node in states:
        if node.drained and not node.drained_by_us:
            raise RailgaugeError(
                f"{node.name} is {node.unavailable_reason}",
                next_step=_LEAVE_OUT.format(node=node.name),
            )
        if node.foreign_reservations and not despite_reservations:
            raise RailgaugeError(
                f"{node.name} is in reservation {' '.join(node.foreign_reservations)}, which is "
                "not the gate's",
                next_step=_LEAVE_OUT.format(node=node.name)
                + "; or with their leave: --despite-reservations",
            )


def finish_batch(roll: Roll, command: list[str], say: Say) -> list[Run]:
    """Bring a batch with an update that has begun to its end; its gate run, none where there is no
    such batch. A batch with an update that did not begin is to be taken again.

    Waits for an update that runs. StuckError where nothing shows how it ended; testing.Interrupted
    where its test was interrupted.
    """
    ended = []
    if roll.phase == "update":
        state = update.state(roll)
        waiting = "waiting for " if state.word == "running" else ""
        say(f"{hostlist.fold(roll.batch)} in update: {waiting}{state.words}")
        state = update.wait(roll, say)
        if state.word == "not begun":
            roll.phase, roll.update = "take", None
        else:
            _require_good(roll, state)
            roll.phase = "test"
        roll.save()
    if roll.phase == "test":
        _drop_unknown(roll, say)
        try:
            tested = _test(roll, command, say)
        except testing.Interrupted:
            # From now on its nodes are held ones: the next run begins with those that are left.
            next_batch(roll)
            raise
        ended = [tested] if tested else []
        next_batch(roll)
    return ended


def _require_good(roll: Roll, state: update.State) -> None:
    if state.good:
        return
    nodes = hostlist.fold(roll.batch)
    left = f"; not begun: {hostlist.fold(roll.waiting)}" if roll.waiting else ""
    step = update.next_step(roll, state)
    if state.word == "elsewhere":
        raise StuckError(f"{nodes} in update by {state.words}{left}", next_step=step)
    if state.word == "ended":
        known = slurm_nodes.show_known(roll.batch)
        slurm_nodes.drain(known, f"{journal.UPDATE} failed with {state.how}")
    last = update.last_words(roll)
    printed = f"; last line: {last}" if last else ""
    words = f"its update {state.words}" if state.word == "ended" else state.words
    raise StuckError(f"{nodes} stays drained: {words}{printed}{left}", next_step=step)


def _test(roll: Roll, command: list[str], say: Say) -> Run | None:
    """The batch's gate run, at its end. Of a node that a user took meanwhile it says so, and does
    not test it; one that came back by itself, as after `scontrol reboot`, is drained again first.
    None where the batch has no node.
    """
    known = journal.run_of(roll.system, roll.run)
    if known is not None and not known.undone:
        return known if known.ended else run.finish(known, command, say)
    if not roll.batch:
        return None
    for name, node in slurm_nodes.show(roll.batch).items():
        if not node.drained:
            say(f"{name}: not drained any more, and untested: drained again")
    # From here on the nodes count as held.
    slurm_nodes.drain(roll.batch, journal.UPDATED)
    states = slurm_nodes.show(roll.batch)
    # A user may have resumed one since: it is tested as it is.
    ours = [name for name, node in states.items() if node.drained_by_us or node.in_service]
    planned = run.plan(roll.system, ours, roll.despite_reservations)
    planned.nodes = sorted(states)
    planned.decided = {name: states[name].unavailable_reason for name in states if name not in ours}
    roll.run = planned.id
    roll.save()
    if ours:
        return run.finish(planned, command, say)
    # There is nothing to reserve.
    for name, why in planned.decided.items():
        say(f"{name}: stays out: {why}")
    planned.ended = store.now()
    planned.save()
    return planned


def next_batch(roll: Roll) -> None:
    """Close the present batch: it is tested, or left to the next run that tests held nodes."""
    roll.batch, roll.phase, roll.run, roll.update = [], "take", None, None
    if not roll.waiting:
        roll.ended = store.now()
    roll.save()


def go_on(roll: Roll, command: list[str], say: Say) -> list[Run]:
    """The gate runs of the remaining batches, one after the other, as gate.yaml's budget lets."""
    ended = finish_batch(roll, command, say)
    while roll.ended is None:
        _drop_unknown(roll, say)
        if not roll.batch and not _choose(roll):
            break
        say(f"draining {hostlist.fold(roll.batch)}")
        _take(roll)
        update.start(roll)
        ended += finish_batch(roll, command, say)
    return ended


def _drop_unknown(roll: Roll, say: Say) -> None:
    """Take the nodes out of the rolling update that Slurm no longer knows."""
    known = slurm_nodes.show()
    gone = [name for name in (*roll.batch, *roll.waiting) if name not in known]
    if gone:
        say(f"{hostlist.fold(gone)} left the rolling update: {slurm_nodes.UNKNOWN}")
        roll.batch = [name for name in roll.batch if name in known]
        roll.waiting = [name for name in roll.waiting if name in known]
        roll.words.append(f"{store.now()} {hostlist.fold(gone)}: {slurm_nodes.UNKNOWN}")
        roll.save()


def _choose(roll: Roll) -> bool:
    """Choose the next batch, of no more nodes than the budget lets; False where none is left."""
    if not roll.waiting:
        next_batch(roll)
        return False
    states = slurm_nodes.show_known(systems.load(roll.system).nodes)
    out = [n for n, s in states.items() if not s.in_service and n not in roll.waiting]
    budget = store.rules(roll.system).budget
    size = min(roll.size, budget - len(out))
    if size < 1:
        afterwards = "; railgauge gate run --act continues then"
        if roll.number == 0:
            # What was refused at once must not begin with a later run.
            roll.ended, afterwards = store.now(), ", and the same command again"
            roll.save()
        raise RailgaugeError(
            f"{len(out)} nodes are out of service ({hostlist.fold(out)}), and the budget is "
            f"{budget}; not begun: {hostlist.fold(roll.waiting)}",
            next_step=f"railgauge gate status; or raise budget in gate.yaml{afterwards}",
        )
    roll.batch, roll.waiting = roll.waiting[:size], roll.waiting[size:]
    roll.number += 1
    roll.save()
    return True


def _take(roll: Roll) -> None:
    """Drain the batch and wait until its jobs have ended."""
    _require_free(list(slurm_nodes.show(roll.batch).values()), roll.despite_reservations)
    slurm_nodes.drain(roll.batch, f"{journal.UPDATE} by rolling update {roll.id}")
    deadline = time.monotonic() + roll.wait_s
    while left := _has_jobs(roll.batch):
        if time.monotonic() > deadline:
            raise RailgaugeError(
                f"{hostlist.fold(left)}: jobs still run, or are suspended, or Slurm restarts it, "
                f"after {roll.wait_s:g} s; {hostlist.fold(roll.batch)} stay drained",
                next_step="railgauge gate run --act waits again",
            )
        time.sleep(_POLL_S)
    _require_drained(roll)


def _has_jobs(nodes: Sequence[str]) -> list[str]:
    """Those of `nodes` on which something is left that an update would disturb."""
    suspended = slurm_jobs.suspended_on(nodes)
    states = slurm_nodes.show(nodes)
    return [
        n
        for n, s in states.items()
        if s.busy or s.restarts or n in suspended or "POWERING_UP" in s.flags
    ]


def _require_drained(roll: Roll) -> None:
    """RailgaugeError where a user took over or resumed nodes of the batch while we waited."""
    states = slurm_nodes.show(roll.batch)
    lost = [name for name, node in states.items() if not node.drained_by_us]
    if lost:
        roll.batch = [name for name in roll.batch if name not in lost]
        roll.words.append(
            f"{store.now()} {', '.join(states[n].unavailable_reason or n for n in lost)}"
        )
        roll.save()
        raise RailgaugeError(
            f"{hostlist.fold(lost)} left the rolling update: "
            + "; ".join(
                f"{name}: {states[name].unavailable_reason or 'in service'}" for name in lost
            ),
            next_step="railgauge gate run --act continues with the others",
        )
    # A reservation may have begun meanwhile.
    _require_free(list(states.values()), roll.despite_reservations)


def unknown(system: str, among: Collection[str] | None = None) -> StuckError | None:
    """What is to be said where a rolling update has no journal that can be read, and may be written
    on nodes `among` these.
    """
    for lost in journal.lost_rolls(system):
        if among is None or lost.nodes is None or set(among) & set(lost.nodes):
            return _stuck(lost)
    return None


def _stuck(lost: Lost) -> StuckError:
    nodes = "any node" if lost.nodes is None else hostlist.fold(lost.nodes)
    return StuckError(
        f"{lost.words}; expected that of a rolling update: its update may be written on {nodes}"
        ", so none of them is tested, lent as a partner or returned",
        next_step=lost.next_step,
    )


def _require_known(system: str, no_more: bool) -> None:
    """RailgaugeError where a rolling update has no journal, unless a person has said that no more
    nodes are in it, and its update does not run on this host.
    """
    for lost in journal.lost_rolls(system):
        if not (lost.damaged and no_more):
            raise _stuck(lost)
        for log in sorted(lost.path.parent.glob(f"{lost.path.stem}.*.log")):
            if update.runs_here(log.with_suffix(".end")):
                raise RailgaugeError(
                    f"{lost.words}, and its update still runs (log {log})",
                    next_step="wait for its end; then the same command again",
                )


def damaged(system: str) -> list[Lost]:
    """The damaged journals of rolling updates, which an operator's word settles."""
    return [lost for lost in journal.lost_rolls(system) if lost.damaged]


def require_ended(system: str, nodes: Sequence[str], no_more: bool) -> None:
    """RailgaugeError where the update of one of these nodes still runs, or may run on others than
    a person has named.
    """
    _require_known(system, no_more)
    roll = journal.rolling(system)
    if roll is None or roll.phase != "update" or not set(nodes) & set(roll.batch):
        return
    state = update.state(roll)
    if state.word == "running":
        raise RailgaugeError(
            f"the update of {hostlist.fold(roll.batch)} still runs: {state.words}",
            next_step="railgauge gate run --act waits for it",
        )


def not_begun(system: str, nodes: Sequence[str]) -> list[str]:
    """Those of these nodes on which nothing was installed: their batch's update was to begin."""
    roll = journal.rolling(system)
    if roll is None or roll.phase not in ("take", "update"):
        return []
    if roll.phase == "update" and update.state(roll).word != "not begun":
        return []
    return [name for name in nodes if name in roll.batch]


def let_go(system: str, nodes: Sequence[str], words: str) -> None:
    """Take these nodes out of the rolling update, on an operator's word."""
    roll = journal.rolling(system)
    if roll is None or not set(nodes) & set(roll.batch):
        return
    roll.batch = [name for name in roll.batch if name not in nodes]
    roll.words.append(f"{store.now()} {journal.me()}: {hostlist.fold(nodes)}: {words}")
    if not roll.batch:
        next_batch(roll)
    else:
        roll.save()


def drop_rest(system: str) -> list[str]:
    """Drop the batches that have not begun; return their nodes."""
    roll = journal.rolling(system)
    if roll is None:
        return []
    dropped, roll.waiting = roll.waiting, []
    roll.words.append(f"{store.now()} {journal.me()}: no more: {hostlist.fold(dropped)}")
    if not roll.batch:
        roll.ended = store.now()
    roll.save()
    return dropped
