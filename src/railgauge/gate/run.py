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
import os
import time
from collections.abc import Collection, Sequence

from railgauge import hostlist, systems
from railgauge.acceptance import accept, request
from railgauge.campaign.folder import Campaign, RunningError, load
from railgauge.campaign.inventories import in_campaign
from railgauge.cluster import inventories, store
from railgauge.errors import EnvironmentProblem, RailgaugeError
from railgauge.gate import journal, lease, partners
from railgauge.gate.journal import Lost, Run
from railgauge.hooks import Say
from railgauge.model.inventory import Inventory
from railgauge.node import gate as node_gate
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm import reservations
from railgauge.slurm.nodes import SlurmNode
from railgauge.verdict import answer, rules, standing
from railgauge.verdict.answer import Verdict

#: How long a node may take to answer after it was resumed.
_ANSWER_LIMIT_S = 60
_POLL_S = 0.5


class Interrupted(KeyboardInterrupt):
    """A run's campaign was interrupted: the run is at its end, and nothing else begins."""


class LostReservationError(RailgaugeError):
    """Somebody has deleted a run's reservation; its nodes are drained again, and decided."""


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

    RailgaugeError where a named node is not held by Railgauge, or barred.
    """
    known = slurm_nodes.show(all_nodes(system))
    for name in nodes or ():
        _require_ours(known[name])
    updating = {} if despite_updates else journal.in_update(system, known)
    wanted = nodes if nodes is not None else [name for name, node in known.items() if node.ours]
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
        raise RailgaugeError(f"{name}: {why}", next_step=_next_step(system, name, updating))
    return Held({name: known[name] for name in wanted if name not in barred}, barred)


def _next_step(system: str, node: str, updating: Collection[str]) -> str:
    if node in updating:
        return journal.once_done(system, [node])
    return (
        f"squeue -w {node}; scontrol show reservation; then the same command again, or in "
        "somebody's reservation with their leave: --despite-reservations"
    )


def _require_ours(node: SlurmNode) -> None:
    if node.ours:
        return
    name = node.name
    if node.drained or node.taken_down:
        raise RailgaugeError(
            f"{name} is not held by railgauge ({node.outside}), and only what it held is released",
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


def all_nodes(system: str) -> list[str]:
    partitions = systems.load(system).partitions
    return sorted({node for partition in partitions for node in partition.nodes})


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
    goes on, and the partners are not kept for it. Raises Interrupted, once the run is at its end,
    where a campaign was interrupted.
    """
    interrupted: Interrupted | None = None
    _doubt(run)
    try:
        with lease.renewed(run.reservation):
            for step in STEPS:
                try:
                    step(run, command, say)
                except Interrupted as error:
                    interrupted = error
                run.step = step.__name__
                run.save()
    except LostReservationError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if not run.campaigns:
            _undo(run, str(error) or type(error).__name__, say)
        else:
            # A reservation in which a job still runs cannot be deleted; it lapses.
            with contextlib.suppress(EnvironmentProblem):
                reservations.unreserve(run.reservation)
        raise
    run.ended = store.now()
    run.save()
    if interrupted is not None:
        raise interrupted
    return run


def _doubt(run: Run) -> None:
    """Whom an earlier process of the run accepted may have been updated since: nobody of them
    returns before he was looked at. Who is in service already is no longer the run's.
    """
    accepted = [node for node, why in run.decided.items() if not why]
    if accepted and reservations.nodes_of(run.untested) is not None:
        run.doubted += accepted
        for node in accepted:
            del run.decided[node]
        run.save()


def _undo(run: Run, why: str, say: Say) -> None:
    """Drain the nodes again with their former reasons; then delete the reservations."""
    try:
        _drain_again(run, run.nodes)
        _unreserve(run)
        run.undone, run.ended = why, store.now()
        run.save()
        say(f"undone: {hostlist.fold(run.nodes)} drained as before, nothing reserved")
    except EnvironmentProblem as error:
        say(f"not undone: {error}; railgauge gate run --act goes on with gate run {run.id}")


def keep_waiting(run: Run) -> None:
    """Drain the nodes that a run which broke off has not accepted. It may wait for days before it
    goes on, and nothing is open then if somebody deletes its reservation meanwhile.
    """
    _drain_rejected(run)
    _drain_again(run, run.open_nodes)


def _drain_again(run: Run, nodes: Sequence[str]) -> None:
    """Drain these of its nodes that are not, with their former reasons."""
    for node, state in (slurm_nodes.show(nodes) if nodes else {}).items():
        if not state.stays_drained:
            slurm_nodes.drain([node], run.reasons.get(node, "to be tested"))


def _unreserve(run: Run) -> None:
    for name in (run.reservation, run.untested):
        if reservations.nodes_of(name) is not None:
            reservations.unreserve(name)


def recover(system: str, lost: Lost, say: Say) -> None:
    """Take back the nodes of a run whose journal is lost: drain them, to be tested as any other.

    Of a rolling update that may not have ended a person says which they are (roll.unknown).
    EnvironmentProblem for one whose content may be as good as ever: nothing is decided without it.
    """
    if not lost.damaged:
        raise EnvironmentProblem(lost.words, next_step=lost.next_step)
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
    """Reserve the nodes, so that nobody else's job starts on them once they are resumed."""
    run.save()
    taken_up = reservations.nodes_of(run.untested) is not None
    if not taken_up:
        if run.reasons:
            # Somebody deleted it since the nodes were resumed: the next step finds out.
            return
        # Without an end: if this run is killed, the nodes must not fall out of it untested.
        reservations.reserve(run.untested, run.nodes)
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
    _require_reserved(run)
    states = slurm_nodes.show(run.open_nodes)
    for name, node in states.items():
        if node.drained and not node.ours:
            # Somebody else has drained it since: it is theirs now.
            run.decided[name] = node.outside
        elif node.takes_no_job:
            run.decided[name] = _no_job(node)
        elif node.foreign_reservations and not run.despite_reservations:
            run.decided[name] = f"inside reservation {' '.join(node.foreign_reservations)}"
    ours = [name for name in run.open_nodes if states[name].ours]
    if ours:
        run.reasons |= {n: states[n].reason.removeprefix(slurm_nodes.OURS) for n in ours}
        run.save()
        say(f"resuming {hostlist.fold(ours)} inside of it")
        slurm_nodes.resume(ours)
    deadline = time.monotonic() + _ANSWER_LIMIT_S
    while run.open_nodes:
        states = slurm_nodes.show(run.open_nodes)
        silent = [name for name, node in states.items() if not node.answers]
        if not silent:
            return
        if time.monotonic() > deadline:
            for name in silent:
                run.decided[name] = states[name].outside
            return
        time.sleep(_POLL_S)


def test(run: Run, command: list[str], say: Say) -> None:
    """Run campaigns until every node is decided. A node at fault leaves the others after a round.

    Raises Interrupted, with every node decided, where a campaign was interrupted.
    """
    os.environ[reservations.RESERVATION_VARIABLE] = run.reservation
    try:
        _look_again(run, say)
        while run.open_nodes:
            _require_reserved(run)
            broken = _unjudged_campaign(run)
            verdict = (
                _begin_campaign(run, command, say)
                if broken is None
                else _resume_campaign(run, broken, command, say)
            )
            if verdict is None:
                continue
            # A failure for want of the reservation accuses no node.
            _require_reserved(run)
            reserved = _reserved_since(run)
            tested = [node for node in run.open_nodes if node in reserved]
            _judge(run, verdict, say, spared=reserved)
            for node in tested:
                # Whatever was measured, somebody may have worked on it since.
                failed, why = run.decided.get(node), reserved[node]
                run.decided[node] = f"{failed}; {why}" if failed else why
            if tested:
                # The jobs of a maintenance start in spite of our reservation.
                _drain_rejected(run)
            run.judged.append(verdict.campaign.id)
            run.save()
            if verdict.campaign.state == "interrupted":
                say(
                    f"campaign {verdict.campaign.id} was interrupted: nothing else begins; "
                    "railgauge gate run --act tests what stays out, and goes on"
                )
                raise Interrupted
    finally:
        del os.environ[reservations.RESERVATION_VARIABLE]


def _look_again(run: Run, say: Say) -> None:
    """Where a run goes on that broke off: accept those again that are as they were tested, and take
    no result of another state, as any time may have gone by.
    """
    doubted = [node for node in run.open_nodes if node in run.doubted]
    undecided = [node for node in run.open_nodes if node not in run.doubted]
    last = _loaded(run.campaigns[-1]) if run.campaigns else None
    broken = last if last is not None and last.id not in run.judged else None
    wanted = [*doubted, *(undecided if broken else ())]
    if not wanted:
        return
    known = set(all_nodes(run.system))
    for node in set(wanted) - known:
        run.decided[node] = f"no longer in the description of {run.system}"
    wanted = [node for node in wanted if node in known]
    seen = {one.node: one for one in inventories.collect(run.system, wanted, quick=True)[0]}
    # A job that the broken campaign left may keep a node from answering; who goes on with the
    # campaign waits for it, or ends it.
    may_be_busy = undecided if broken is not None and broken.state != "finished" else []
    changed = [
        node
        for node in wanted
        if not _is_as_tested(run, node, seen.get(node), node in doubted, node in may_be_busy)
    ]
    run.decided |= dict.fromkeys(
        (node for node in doubted if node in known and node not in changed), ""
    )
    run.doubted = []
    if changed:
        say(f"{hostlist.fold(changed)}: restarted or changed since the test; measuring anew")
        if broken is not None:
            _keep_failed(run, broken, say)
    run.save()


def _is_as_tested(
    run: Run, node: str, seen: Inventory | None, was_accepted: bool, may_be_busy: bool
) -> bool:
    """Whether a node is as its last campaign saw it. One that was not measured yet is."""
    of_campaign = _tested(run, node)
    if of_campaign is None:
        return not was_accepted
    if seen is None:
        return may_be_busy
    tested = of_campaign[1]
    # A quick look shows no more.
    known = {
        "fields": {key: value for key, value in tested.fields.items() if key in tested.quick},
        "unknown": [key for key in tested.unknown if key in tested.quick],
    }
    counted = store.rules(run.system).counted
    changes = node_gate.changes(known, seen.as_dict(), counted)
    return tested.boot_id == seen.boot_id and not changes


def _tested(run: Run, node: str) -> tuple[str, Inventory] | None:
    """The last campaign that took the inventory of a node, and that; None where none did."""
    for campaign in reversed(run.campaigns):
        kept = _loaded(campaign)
        inventory = in_campaign(kept).get(node) if kept else None
        if inventory is not None:
            return campaign, inventory
    return None


def _unjudged_campaign(run: Run) -> Campaign | None:
    """The campaign of this round, where it has begun already and was not judged."""
    last = _loaded(run.campaigns[-1]) if run.campaigns else None
    if last is None or last.id in run.judged or not set(run.open_nodes) <= _nodes_of(last):
        return None
    return last


def _resume_campaign(run: Run, broken: Campaign, command: list[str], say: Say) -> Verdict | None:
    """The verdict of the campaign that broke off; None where it cannot be continued. Then the nodes
    that failed in it are kept out.
    """
    if broken.state == "finished":
        return rules.decide(broken)
    try:
        if not _nodes_of(broken) <= {*run.open_nodes, *run.partners}:
            raise RailgaugeError(f"campaign {broken.id} had partners that are not free now")
        return accept.resume(broken, command, say, owner=_owner(run))
    except (EnvironmentProblem, RunningError):
        raise
    except RailgaugeError as error:
        say(f"{error.message}; measuring anew")
        _keep_failed(run, broken, say)
        return None


def _keep_failed(run: Run, broken: Campaign, say: Say) -> None:
    """Keep out the nodes that failed in a campaign that cannot be continued: a fault that comes and
    goes may pass in the next one. Nor do its jobs run beside that.
    """
    slurm_jobs.cancel_jobs_of(broken.id)
    verdict = rules.decide(broken)
    failed = {node: why for node in run.open_nodes if (why := standing.failed(verdict, node))}
    guilty = standing.culprits(verdict, _nodes_of(broken))
    apart = answer.failed_apart(verdict.findings, verdict.cases, guilty)
    for node, why in failed.items():
        # Nodes that only failed beside a guilty one are tested again, without it.
        if node in guilty or not guilty or node in apart:
            run.decided[node] = f"failed in {broken.id}, which could not be continued: {why}"
    _accuse_partners(run, verdict, guilty, say)
    # Drained before the next round, so that nothing can open it.
    _drain_rejected(run)
    run.judged.append(broken.id)
    run.save()


def _begin_campaign(run: Run, command: list[str], say: Say) -> Verdict:
    """The verdict of a new campaign of the undecided nodes and their partners."""
    for dropped in run.campaigns[-1:]:
        slurm_jobs.cancel_jobs_of(dropped)
    names = hostlist.fold([*run.open_nodes, *run.partners])
    say(f"testing {partners.words(run.system, run.open_nodes, run.partners)}")
    records = {node: store.readable(run.system, node) for node in run.open_nodes}
    scope = dataclasses.replace(
        request.scope(run.system, None, names),
        updated=[] if _must_be_as_peers(run) else list(run.open_nodes),
        accepted={node: record.fingerprint for node, record in records.items() if record},
    )

    def begun(campaign: Campaign) -> None:
        run.campaigns.append(campaign.id)
        run.save()

    return accept.run(
        *(run.system, scope, names, "acceptance", tuple(run.options), command, say),
        begun=begun,
        owner=_owner(run),
    )


def _must_be_as_peers(run: Run) -> bool:
    """Whether its nodes are compared with their partners field by field: after an update they
    differ on purpose, after a repair they should not. Where the partners are not more than they are
    nobody could tell which of them are odd.
    """
    there = partners.by_partition(run.system, run.open_nodes, run.partners).values()
    return run.repaired and all(len(healthy) > len(tested) for tested, healthy in there)


def _owner(run: Run) -> str:
    return f"gate run {run.id}"


def _loaded(campaign: str) -> Campaign | None:
    """The campaign; None where its folder is gone or damaged: then all is measured anew."""
    try:
        return load(campaign)
    except RailgaugeError:
        return None


def _nodes_of(campaign: Campaign) -> set[str]:
    return {node for members in campaign.scope.nodes.values() for node in members}


def _judge(run: Run, verdict: Verdict, say: Say, spared: Collection[str] = ()) -> None:
    """Decide all nodes of the round, or first those that are at fault for sure. Partners that are
    `spared` are not accused.
    """
    kept = {node: why for node in run.open_nodes if (why := standing.why_not(verdict, node))}
    guilty = standing.culprits(verdict, [*run.open_nodes, *run.partners])
    # Nodes that only failed beside a guilty one are tested again, without it.
    apart = answer.failed_apart(verdict.findings, verdict.cases, guilty)
    again = set(kept).difference(guilty, apart) if guilty else set()
    if verdict.campaign.state == "interrupted":
        again = set()
    # Of one that failed also beside a guilty node the reason is the failure without it.
    kept |= {node: standing.words(apart[node]) for node in kept if guilty and node in apart}
    for node in run.open_nodes:
        if node not in again:
            run.decided[node] = (
                _reason_to_stay_out(verdict, node, kept[node]) if node in kept else ""
            )
    _accuse_partners(run, verdict, guilty, say, spared)
    if again:
        # Drained before the next round, so that nothing can open it.
        _drain_rejected(run)
        say(f"once more without {hostlist.fold(guilty)}: {hostlist.fold(again)}")


def _accuse_partners(
    run: Run, verdict: Verdict, guilty: Collection[str], say: Say, spared: Collection[str] = ()
) -> None:
    """Record partners at fault as suspects, which are lent no more; of those that are `spared`, on
    which somebody works, nothing follows but that they are no partners any more.
    """
    for node in sorted(set(guilty) & set(run.partners)):
        run.partners.remove(node)
        if node not in spared:
            why = standing.failed(verdict, node) or standing.why_not(verdict, node)
            partners.accuse(run, node, f"{why} ({verdict.campaign.id})", say)
            run.bad_partners.append(node)


def _reason_to_stay_out(verdict: Verdict, node: str, why: str) -> str:
    """Why a node stays out, with what would confirm or clear it where it is only suspect."""
    open_questions = standing.to_measure(verdict, node)
    question = f"; not confirmed: {open_questions[0]}" if open_questions else ""
    return f"{why} ({verdict.campaign.id}){question}"


def record(run: Run, command: list[str], say: Say) -> None:
    """Record the accepted nodes before they return."""
    for node in [name for name, why in run.decided.items() if not why]:
        known, tested = store.readable(run.system, node), _tested(run, node)
        if tested is None:
            run.decided[node] = "passed, but its campaign has no inventory of it"
        elif known is None or known.by != tested[0]:
            store.accept(run.system, tested[1], "run", tested[0])


def drain(run: Run, command: list[str], say: Say) -> None:
    """Drain the nodes that stay out before the reservation goes."""
    _drain_rejected(run)


def _drain_rejected(run: Run) -> None:
    rejected = {node: why for node, why in run.decided.items() if why}
    states = slurm_nodes.show(rejected) if rejected else {}
    for node, why in rejected.items():
        if not states[node].stays_drained:
            slurm_nodes.drain([node], why)


def unreserve(run: Run, command: list[str], say: Say) -> None:
    """Return the accepted nodes and the partners to everybody, and say what Slurm says of them."""
    if run.open_nodes:
        raise RuntimeError(f"{run.open_nodes} are not decided")
    _unreserve(run)
    accepted = [node for node, why in run.decided.items() if not why]
    states = slurm_nodes.show(accepted) if accepted else {}
    run.outside = {name: node.outside for name, node in states.items() if node.outside}
    for node, why in sorted(run.decided.items()):
        if why:
            say(f"{node}: stays out: {why}")
        elif node in run.outside:
            say(f"{node}: accepted, and not in service: {run.outside[node]}")
        else:
            say(f"{node}: accepted, back in service")


STEPS = (reserve, resume, test, record, drain, unreserve)


def _reserved_since(run: Run) -> dict[str, str]:
    """Node or partner -> why it stays out, of those on which somebody's maintenance has begun since
    they were resumed.
    """
    if run.despite_reservations or not run.open_nodes:
        return {}
    maintenance = {one.name for one in slurm_nodes.reservations() if one.maintenance}
    return {
        name: f"inside reservation {' '.join(begun)}, a maintenance that began during the test"
        for name, node in slurm_nodes.show([*run.open_nodes, *run.partners]).items()
        if (begun := sorted(maintenance.intersection(node.foreign_reservations)))
    }


def _require_reserved(run: Run) -> None:
    """Drain nodes that lost their reservation; LostReservationError where a whole one is gone."""
    reserved = [reservations.nodes_of(name) for name in (run.reservation, run.untested)]
    covered = set.intersection(*(set(nodes or ()) for nodes in reserved))
    missing = sorted(set(run.open_nodes) - covered)
    if not missing:
        return
    slurm_nodes.drain(missing, f"gate run {run.id} lost its reservation")
    for node in missing:
        run.decided[node] = "its reservation was deleted by somebody during the test"
        run.lost.append(node)
    run.save()
    if None in reserved:
        raise LostReservationError(
            f"reservation {run.reservation} is gone; {hostlist.fold(missing)} drained again",
            next_step="railgauge gate run --act",
        )
