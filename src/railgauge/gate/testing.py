"""The campaigns of a gate run: until every node under test is decided."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection

from railgauge import hostlist, systems
from railgauge.acceptance import accept, request
from railgauge.campaign.folder import Campaign, RunningError, load
from railgauge.campaign.inventories import in_campaign
from railgauge.cluster import inventories, store
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.gate import partners
from railgauge.gate.journal import Run
from railgauge.hooks import Say
from railgauge.model.inventory import Inventory
from railgauge.node import gate as node_gate
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm import reservations
from railgauge.verdict.decision import node_status, rules
from railgauge.verdict.decision.verdict import Verdict, failed_apart


class Interrupted(KeyboardInterrupt):
    """A run's campaign was interrupted: the run is at its end, and nothing else begins."""


class LostReservationError(RailgaugeError):
    """A user has deleted a run's reservation; its nodes are drained again, and decided."""


def test(run: Run, command: list[str], say: Say) -> None:
    """Run campaigns until every node is decided. A node at fault leaves the others after a round.

    Raises Interrupted, with every node decided, where a campaign was interrupted.
    """
    os.environ[reservations.RESERVATION_VARIABLE] = run.reservation
    try:
        _look_again(run, say)
        while run.open_nodes:
            require_reserved(run)
            broken = _unjudged_campaign(run)
            verdict = (
                _begin_campaign(run, command, say)
                if broken is None
                else _resume_campaign(run, broken, command, say)
            )
            if verdict is None:
                continue
            # A failure for want of the reservation accuses no node.
            require_reserved(run)
            reserved = _reserved_since(run)
            tested = [node for node in run.open_nodes if node in reserved]
            _judge(run, verdict, say, spared=reserved)
            for node in tested:
                # Whatever was measured, a user may have worked on it since.
                failed, why = run.decided.get(node), reserved[node]
                run.decided[node] = f"{failed}; {why}" if failed else why
            if tested:
                # The jobs of a maintenance start in spite of our reservation.
                drain_rejected(run)
            run.judged.append(verdict.campaign.id)
            run.save()
            if verdict.campaign.state == "interrupted":
                say(
                    f"campaign {verdict.campaign.id} was interrupted: nothing else begins; "
                    "railgauge gate run --act tests what stays out, and continues"
                )
                raise Interrupted
    finally:
        del os.environ[reservations.RESERVATION_VARIABLE]


def _look_again(run: Run, say: Say) -> None:
    """Before a run that broke off goes on: accept the nodes again that are as they were tested.
    Take no result of another state, as any time may have passed.
    """
    doubted = [node for node in run.open_nodes if node in run.doubted]
    undecided = [node for node in run.open_nodes if node not in run.doubted]
    last = _loaded(run.campaigns[-1]) if run.campaigns else None
    broken = last if last is not None and last.id not in run.judged else None
    wanted = [*doubted, *(undecided if broken else ())]
    if not wanted:
        return
    known = set(systems.load(run.system).nodes)
    for node in set(wanted) - known:
        run.decided[node] = f"no longer in the description of {run.system}"
    wanted = [node for node in wanted if node in known]
    seen = {one.node: one for one in inventories.collect(run.system, wanted, quick=True)[0]}
    # A job that the broken campaign left may keep a node from answering; the campaign waits for it
    # or ends it when it goes on.
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
        say(f"{hostlist.fold(changed)}: restarted or changed since the test; measuring again")
        if broken is not None:
            _keep_failed(run, broken, say)
    run.save()


def _is_as_tested(
    run: Run, node: str, seen: Inventory | None, was_accepted: bool, may_be_busy: bool
) -> bool:
    """Whether a node is as its last campaign saw it. One that was not measured yet is."""
    of_campaign = as_tested(run, node)
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
    # A kernel that states no boot id may have been started again.
    same_boot = bool(seen.boot_id) and tested.boot_id == seen.boot_id
    return same_boot and not changes


def as_tested(run: Run, node: str) -> tuple[str, Inventory] | None:
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
    except (PrerequisiteError, RunningError):
        raise
    except RailgaugeError as error:
        say(f"{error.message}; measuring again")
        _keep_failed(run, broken, say)
        return None


def _keep_failed(run: Run, broken: Campaign, say: Say) -> None:
    """Keep out the nodes that failed in a campaign that cannot be continued: a fault that comes and
    goes may pass in the next one. Nor do its jobs run during that.
    """
    slurm_jobs.cancel_jobs_of(broken.id)
    verdict = rules.decide(broken)
    failed = {node: why for node in run.open_nodes if (why := node_status.failed(verdict, node))}
    guilty = node_status.culprits(verdict, _nodes_of(broken))
    apart = failed_apart(verdict.findings, verdict.cases, guilty)
    for node, why in failed.items():
        # Nodes that only failed with a guilty one are tested again, without it.
        if node in guilty or not guilty or node in apart:
            run.decided[node] = f"failed in {broken.id}, which could not be continued: {why}"
    _accuse_partners(run, verdict, guilty, say)
    # Drained before the next round, so that nothing can open it.
    drain_rejected(run)
    run.judged.append(broken.id)
    run.save()


def _begin_campaign(run: Run, command: list[str], say: Say) -> Verdict:
    """The verdict of a new campaign of the undecided nodes and their partners."""
    for dropped in run.campaigns[-1:]:
        slurm_jobs.cancel_jobs_of(dropped)
    names = hostlist.fold([*run.open_nodes, *run.partners])
    say(f"testing {partners.words(run.system, run.open_nodes, run.partners)}")
    records = {node: store.readable(run.system, node) for node in run.open_nodes}
    scope = request.scope(run.system, None, names)
    scope = dataclasses.replace(
        scope,
        updated=[] if _must_be_as_peers(run) else list(run.open_nodes),
        accepted={node: record.fingerprint for node, record in records.items() if record},
        tested=store.tested(run.system, scope.nodes, run.partners),
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
    differ on purpose, after a repair they should not. Unless the partners are more than they are,
    the comparison cannot show which of them are odd.
    """
    there = partners.by_partition(run.system, run.open_nodes, run.partners).values()
    return run.repaired and all(len(healthy) > len(tested) for tested, healthy in there)


def _owner(run: Run) -> str:
    return f"gate run {run.id}"


def _loaded(campaign: str) -> Campaign | None:
    """The campaign; None where its folder is gone or damaged: then all is measured again."""
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
    for finding in filter(node_status.between_switches, verdict.findings):
        say(f"the subnet has a fault that is at no node, and keeps none out: {finding.message}")
    kept = {node: why for node in run.open_nodes if (why := node_status.why_not(verdict, node))}
    guilty = node_status.culprits(verdict, [*run.open_nodes, *run.partners])
    # Nodes that only failed with a guilty one are tested again, without it.
    apart = failed_apart(verdict.findings, verdict.cases, guilty)
    again = set(kept).difference(guilty, apart) if guilty else set()
    if verdict.campaign.state == "interrupted":
        again = set()
    for node in run.open_nodes:
        if node not in again:
            run.decided[node] = ""
            if node in kept:
                run.decided[node] = _reason_to_stay_out(verdict, node, kept[node])
    _accuse_partners(run, verdict, guilty, say, spared)
    if again:
        # Drained before the next round, so that nothing can open it.
        drain_rejected(run)
        say(f"once more without {hostlist.fold(guilty)}: {hostlist.fold(again)}")


def _accuse_partners(
    run: Run, verdict: Verdict, guilty: Collection[str], say: Say, spared: Collection[str] = ()
) -> None:
    """Record partners at fault as suspects, which are lent no more; of those that are `spared`, on
    which a user works, nothing follows but that they are no partners any more.
    """
    for node in sorted(set(guilty) & set(run.partners)):
        run.partners.remove(node)
        if node not in spared:
            why = node_status.failed(verdict, node) or node_status.why_not(verdict, node)
            partners.accuse(run, node, f"{why} ({verdict.campaign.id})", say)
            run.bad_partners.append(node)


def _reason_to_stay_out(verdict: Verdict, node: str, why: str) -> str:
    """Why a node stays out, with the link between switches that is at fault for it, and with what
    would confirm or clear the node where it is only suspect.
    """
    if links := node_status.links_at_fault(verdict, node):
        why = f"{why}; at fault: {', '.join(links)}"
    open_questions = node_status.to_measure(verdict, node)
    question = f"; not confirmed: {open_questions[0]}" if open_questions else ""
    return f"{why} ({verdict.campaign.id}){question}"


def drain_rejected(run: Run) -> None:
    """Drain the nodes that stay out, but those that are drained for good."""
    rejected = {node: why for node, why in run.decided.items() if why}
    states = slurm_nodes.show_known(rejected) if rejected else {}
    for node, state in states.items():
        if not state.stays_drained:
            slurm_nodes.drain([node], rejected[node])


def _reserved_since(run: Run) -> dict[str, str]:
    """Node or partner -> why it stays out, of those on which a user's maintenance has begun since
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


def require_reserved(run: Run) -> None:
    """Drain nodes that lost their reservation; LostReservationError where a whole one is gone."""
    reserved = [reservations.nodes_of(name) for name in (run.reservation, run.untested)]
    covered = set.intersection(*(set(nodes or ()) for nodes in reserved))
    missing = sorted(set(run.open_nodes) - covered)
    if not missing:
        return
    # Slurm deletes a reservation if slurm.conf loses one of its nodes.
    known = slurm_nodes.show_known(missing)
    slurm_nodes.drain(known, f"gate run {run.id} lost its reservation")
    for node in missing:
        deleted = "its reservation was deleted during the test"
        run.decided[node] = deleted if node in known else slurm_nodes.UNKNOWN
        run.lost.append(node)
    run.save()
    if None in reserved:
        raise LostReservationError(
            f"reservation {run.reservation} is gone; {hostlist.fold(known)} drained again",
            next_step="railgauge gate run --act",
        )
