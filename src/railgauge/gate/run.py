"""`railgauge gate run`: test held nodes inside a reservation, then return them or keep them out.

Slurm starts no job on a drained node, reserved or not. So the nodes get a reservation without an
end, are resumed inside it, and leave it only accepted, or drained with a reason. At every moment a
node that is not accepted is drained or reserved. When a run is killed, the next one goes on from
its journal. The tests' jobs enter a second reservation, over the first and the healthy partners; it
lapses when the run ends (`railgauge.gate.lease`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Sequence

from railgauge import hostlist, systems
from railgauge.campaign import folder as campaigns
from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.gate import journal, lease, partners, testing
from railgauge.gate.journal import Lost, Run
from railgauge.hooks import Say
from railgauge.slurm import events, reservations
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode


@dataclasses.dataclass(frozen=True)
class Held:
    """The held nodes that may be tested or released now, and why others may not."""

    nodes: dict[str, SlurmNode]
    barred: dict[str, str]


def candidates(
    system: str,
    nodes: Sequence[str] | None,
    despite_reservations: bool = False,
    despite_updates: bool = False,
) -> Held:
    """The nodes named, else all that Railgauge drained: idle, and in no update.

    RailgaugeError where a named node is not held by Railgauge, or barred; UnknownNodesError for one
    that Slurm has not. One that is not named keeps no other from its test.
    """
    described = systems.load(system).nodes
    known = slurm_nodes.show_known(described)
    unknown = [name for name in (described if nodes is None else nodes) if name not in known]
    if nodes is not None and unknown:
        raise slurm_nodes.UnknownNodesError(unknown)
    for name in nodes or ():
        _require_ours(known[name])
    updating = {} if despite_updates else journal.in_update(system, known)
    wanted = (
        nodes if nodes is not None else [name for name, node in known.items() if node.drained_by_us]
    )
    suspended = slurm_jobs.suspended_on(wanted)
    barred = {
        name: why
        for name in wanted
        if (
            why := updating.get(name)
            or ("held, but a job is suspended there" if name in suspended else "")
            or _barred(known[name], despite_reservations)
        )
    }
    if nodes is not None and barred:
        name, why = sorted(barred.items())[0]
        free = (
            f"squeue -w {name}; scontrol show reservation; then the same command again; for a node "
            "in another user's reservation, if its owner agrees: --despite-reservations"
        )
        step = journal.once_done(system, [name]) if name in updating else free
        raise RailgaugeError(f"{name}: {why}", next_step=step)
    barred |= dict.fromkeys(
        unknown,
        f"{slurm_nodes.UNKNOWN}; take it out of `nodes` in the system's reframe.yaml, or put it "
        "under `absent`",
    )
    return Held({name: known[name] for name in wanted if name not in barred}, barred)


def _require_ours(node: SlurmNode) -> None:
    if node.drained_by_us:
        return
    name = node.name
    if node.drained or node.downed_by_admin:
        raise RailgaugeError(
            f"{name} is not held by railgauge ({node.unavailable_reason}), and only what it held "
            "is released",
            next_step=f"ask {node.by or 'them'}; once they have returned it: railgauge gate hold "
            f"--nodes {name} --act",
        )
    raise RailgaugeError(
        f"{name} is not held by railgauge ({node.state}), and only what it held is released",
        next_step=f'scontrol update nodename={name} state=drain reason="railgauge: test"',
    )


def _barred(node: SlurmNode, despite_reservations: bool) -> str:
    """Why a held node cannot be tested now; "" where it can."""
    if node.busy:
        return "held, but a job still runs there"
    if node.takes_no_job:
        return f"held, and {_no_job(node)}"
    foreign = node.foreign_reservations
    if foreign and not despite_reservations:
        return f"inside reservation {' '.join(foreign)}, which is not the gate's"
    return ""


def _no_job(node: SlurmNode) -> str:
    why = f": {node.reason.removeprefix(slurm_nodes.OURS)}" if node.reason else ""
    return f"takes no job now ({node.state}){why}"


def plan(system: str, nodes: Sequence[str], despite_reservations: bool = False) -> Run:
    """A new run for these nodes, with its partners, and nothing changed yet."""
    return Run(
        id=journal.new_id(),
        system=system,
        nodes=sorted(nodes),
        partners=partners.lent(system, nodes),
        started=store.now(),
        by=journal.me(),
        despite_reservations=despite_reservations,
    )


def finish(run: Run, command: list[str], say: Say) -> Run:
    """Bring a run to its end, from wherever it is: every step skips what is done.

    A failure before anything is measured leaves nothing behind. After a later failure the next run
    goes on, and the partners are not kept for it. Raises testing.Interrupted, once the run is at
    its end, where a campaign was interrupted.
    """
    interrupted: testing.Interrupted | None = None
    _recheck_accepted(run)
    _leave_out_unknown(run)
    try:
        with lease.renewed(run.reservation):
            for step in STEPS:
                try:
                    step(run, command, say)
                except testing.Interrupted as error:
                    interrupted = error
                run.step = step.__name__
                run.save()
    except testing.LostReservationError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if not run.campaigns:
            _undo(run, str(error) or type(error).__name__, say)
        else:
            # A reservation in which a job still runs cannot be deleted; it lapses.
            with contextlib.suppress(PrerequisiteError):
                reservations.unreserve(run.reservation)
        raise
    run.ended = store.now()
    run.save()
    if interrupted is not None:
        raise interrupted
    return run


def _recheck_accepted(run: Run) -> None:
    """Test nodes that an earlier process of the run accepted once more before they return, as they
    may have been updated since. Nodes in service already are no longer the run's.
    """
    accepted = [node for node, why in run.decided.items() if not why]
    if accepted and reservations.nodes_of(run.untested) is not None:
        run.doubted += accepted
        for node in accepted:
            del run.decided[node]
        run.recorded = [node for node in run.recorded if node in run.decided]
        run.save()


def _leave_out_unknown(run: Run) -> None:
    """Decide the nodes that Slurm no longer knows: nothing of them can be tested or drained."""
    known = slurm_nodes.show()
    for name in run.open_nodes:
        if name not in known:
            run.decided[name] = slurm_nodes.UNKNOWN
    run.partners = [name for name in run.partners if name in known]


def _undo(run: Run, why: str, say: Say) -> None:
    """Drain the nodes again with their former reasons; then delete the reservations."""
    try:
        _drain_again(run, run.nodes)
        _unreserve(run)
        run.undone, run.ended = why, store.now()
        run.save()
        say(f"undone: {hostlist.fold(run.nodes)} drained as before, nothing reserved")
    except PrerequisiteError as error:
        say(f"not undone: {error}; railgauge gate run --act continues gate run {run.id}")


def keep_waiting(run: Run) -> None:
    """Drain the nodes that a run which broke off has not accepted. It may wait for days before it
    goes on, and nothing is open then if a user deletes its reservation meanwhile.
    """
    testing.drain_rejected(run)
    _drain_again(run, run.open_nodes)


def _drain_again(run: Run, nodes: Sequence[str]) -> None:
    """Drain these of its nodes that are not, with their former reasons."""
    for node, state in (slurm_nodes.show_known(nodes) if nodes else {}).items():
        if not state.stays_drained:
            slurm_nodes.drain([node], run.reasons.get(node, "to be tested"))


def _unreserve(run: Run) -> None:
    for name in (run.reservation, run.untested):
        if reservations.nodes_of(name) is not None:
            reservations.unreserve(name)


def recover(system: str, lost: Lost, say: Say) -> None:
    """Take back the nodes of a run with a lost journal: drain them, to be tested as any other.

    Of a rolling update that may not have ended a person says which they are (roll.unknown).
    PrerequisiteError if its content may still be good: nothing is decided without it.
    """
    if not lost.damaged:
        raise PrerequisiteError(lost.words, next_step=lost.next_step)
    if lost in journal.lost_rolls(system):
        return
    reserved = {
        name: nodes
        for name in lost.reservations
        if (nodes := reservations.nodes_of(name)) is not None
    }
    if reserved:
        # Without the reservation of the untested nodes it is not known which they are.
        nodes = next(iter(reserved.values()))
        say(f"{lost.words}; draining what its run had reserved: {hostlist.fold(nodes)}")
        slurm_nodes.drain(nodes, f"gate run {lost.path.stem} lost its journal")
        for name in reserved:
            reservations.unreserve(name)
    say(f"{lost.words}; set aside as {lost.set_aside()}")


# --- the steps, in their order -------------------------------------------------------------------


def reserve(run: Run, command: list[str], say: Say) -> None:
    """Reserve the nodes, so that no other user's job starts on them once they are resumed."""
    run.save()
    taken_up = reservations.nodes_of(run.untested) is not None
    if not taken_up:
        if run.reasons:
            # A user deleted it since the nodes were resumed: the next step finds out.
            return
        if not run.open_nodes:
            return
        # Without an end: if this run is killed, the nodes must not fall out of it untested.
        reservations.reserve(run.untested, run.open_nodes)
    if not run.open_nodes:
        return
    if reservations.nodes_of(run.reservation) is not None:
        reservations.renew(run.reservation, lease.LEASE_S)
        return
    if taken_up:
        # It lapsed, and its partners have been in service since then.
        run.partners = partners.lent(run.system, run.open_nodes, before=run.partners)
        run.save()
    both = [*run.open_nodes, *run.partners]
    say(f"reserving {hostlist.fold(both)} as {run.reservation}")
    reservations.reserve(run.reservation, both, lease.LEASE_S)


def resume(run: Run, command: list[str], say: Say) -> None:
    """Resume the nodes, so that they take the jobs of the reservation."""
    if not run.open_nodes:
        return
    testing.require_reserved(run)
    states = slurm_nodes.show(run.open_nodes)
    for name, node in states.items():
        if node.drained and not node.drained_by_us:
            # Another user has drained it since: it is theirs now.
            run.decided[name] = node.unavailable_reason
        elif node.takes_no_job:
            run.decided[name] = _no_job(node)
        elif node.foreign_reservations and not run.despite_reservations:
            run.decided[name] = f"inside reservation {' '.join(node.foreign_reservations)}"
    ours = [name for name in run.open_nodes if states[name].drained_by_us]
    if ours:
        run.reasons |= {n: states[n].reason.removeprefix(slurm_nodes.OURS) for n in ours}
        run.save()
        say(f"resuming {hostlist.fold(ours)} inside of it")
        slurm_nodes.resume(ours)
    # Also those that an earlier process of this run has resumed.
    for name, node in slurm_nodes.once_answering(run.open_nodes).items():
        if not node.answers:
            run.decided[name] = node.unavailable_reason


def keep_out_set_down(run: Run, command: list[str], say: Say) -> None:
    """Keep the nodes out that a person has set down since their test began: Slurm may have returned
    them itself.
    """
    if reservations.nodes_of(run.untested) is None:
        # Nodes that are in service again are no longer the run's.
        return
    started = datetime.datetime.fromisoformat(run.started)
    since = {}
    for name in run.decided:
        tested = testing.as_tested(run, name)
        since[name] = campaigns.began(tested[0]) if tested else started
    for name, node in events.set_down_since(since).items():
        why = f"set down by {node.by} during the test: {node.reason}"
        # A run that broke off after this step comes to it again.
        if not run.decided[name].startswith(why):
            run.decided[name] = "; ".join(filter(None, [why, run.decided[name]]))


def record(run: Run, command: list[str], say: Say) -> None:
    """Record the accepted nodes before they return."""
    accepted = {name for name, why in run.decided.items() if not why}
    in_service = reservations.nodes_of(run.untested) is None
    for node in sorted(accepted.difference(run.recorded)):
        known, tested = store.readable(run.system, node), testing.as_tested(run, node)
        if tested is None:
            run.decided[node] = "passed, but its campaign has no inventory of it"
            continue
        # A user may have adopted a node that came into service while nothing ran.
        adopted = known is not None and in_service and known.date > run.started
        if known is None or (known.by != tested[0] and not adopted):
            store.accept(run.system, tested[1], "run", tested[0])
        run.recorded.append(node)


def drain(run: Run, command: list[str], say: Say) -> None:
    """Drain the nodes that stay out before the reservation goes."""
    testing.drain_rejected(run)


def unreserve(run: Run, command: list[str], say: Say) -> None:
    """Return the accepted nodes and the partners to everybody, and say what Slurm says of them."""
    if run.open_nodes:
        raise RuntimeError(f"{run.open_nodes} are not decided")
    _unreserve(run)
    accepted = [node for node, why in run.decided.items() if not why]
    known = slurm_nodes.show_known(accepted) if accepted else {}
    states = slurm_nodes.once_answering(known)
    run.outside = {
        name: node.unavailable_reason for name, node in states.items() if node.unavailable_reason
    }
    run.outside |= {node: slurm_nodes.UNKNOWN for node in accepted if node not in known}
    for node, why in sorted(run.decided.items()):
        if why:
            say(f"{node}: stays out: {why}")
        elif node in run.outside:
            say(f"{node}: accepted, and not in service: {run.outside[node]}")
        else:
            say(f"{node}: accepted, back in service")


STEPS = (reserve, resume, testing.test, keep_out_set_down, record, drain, unreserve)
