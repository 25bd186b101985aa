"""`railgauge gate readmit`: nodes that come back from repair are tested, and returned.

It is a gate run of nodes that a person names, with partners that a person may name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from railgauge import hostlist
from railgauge.acceptance import request
from railgauge.cluster import store
from railgauge.common.errors import RailgaugeError
from railgauge.gate import journal, partners, run
from railgauge.gate.journal import Run
from railgauge.hooks import Say
from railgauge.node import gate as node_gate
from railgauge.slurm import nodes as slurm_nodes


def plan(
    system: str, nodes: Sequence[str], partner_names: Sequence[str], soak_s: float, despite: bool
) -> Run:
    """The planned run, with nothing changed yet: `nodes` with the partners `partner_names`, or as
    many healthy ones as gate.yaml says, as often as fits into `soak_s`, and at least once.

    RailgaugeError where a node is not held by Railgauge, a partner is not free, or too few are in
    a partition of the nodes.
    """
    broken = journal.unended(system)
    if broken is not None:
        raise RailgaugeError(
            f"gate run {broken.id} of {broken.by} has not ended (after {broken.step})",
            next_step="railgauge gate run --act continues it; then the same command again",
        )
    held = sorted(run.candidates(system, nodes, despite).nodes)
    lent = _required(system, nodes, partner_names) if partner_names else partners.lent(system, held)
    # A person names as many as they want, and at least one in each partition.
    needed = 1 if partner_names else store.rules(system).partners
    for name, (tested, partners_there) in partners.by_partition(system, held, lent).items():
        if len(partners_there) < needed:
            which = "named" if partner_names else "idle and as they were accepted"
            raise RailgaugeError(
                f"{hostlist.fold(tested)} in partition {name}: {len(partners_there)} partners are "
                f"{which} there, expected at least {needed}, to find a bad node in a bad pair",
                next_step="railgauge gate status; then again, or with partners that you name, in "
                "each partition: --with n8",
            )
    planned = Run(
        id=journal.new_id(),
        system=system,
        nodes=held,
        partners=lent,
        started=store.now(),
        by=journal.me(),
        despite_reservations=despite,
        repaired=True,
    )
    times = _times(planned, soak_s) if soak_s else 1
    planned.options = [f"--reruns={times - 1}"] if times > 1 else []
    return planned


def _required(system: str, nodes: Sequence[str], partner_names: Sequence[str]) -> list[str]:
    """The partners that a person named; RailgaugeError for one that is not free, or not known to be
    healthy: with such a one a bad node looks like a bad partner.
    """
    states, named = slurm_nodes.show(partner_names), sorted(partner_names)
    updating = journal.in_update(system, states)
    for name in named:
        suspect = store.suspected(system, name)
        why = (
            "is to be readmitted itself"
            if name in nodes
            else updating.get(name, states[name].unavailable_reason)
            or ("has jobs" if states[name].busy else "")
            or (f"is a suspect: {suspect.why}" if suspect else "")
            or ("" if store.readable(system, name) else "was not accepted yet")
        )
        if why:
            raise _unfit(name, why)
    same, unknown = partners.as_accepted(system, named)
    for name in sorted({*named} - {*same}):
        lacks = f"no inventory of it: {unknown[name]}" if name in unknown else ""
        raise _unfit(name, lacks or "is not as it was accepted")
    return named


def _unfit(name: str, why: str) -> RailgaugeError:
    return RailgaugeError(
        f"--with {name}: {why}",
        next_step="railgauge gate status; name another one, or none",
    )


def _times(planned: Run, soak_s: float) -> int:
    """How often all is measured to take `soak_s`, by the durations that the cases expect."""
    names = hostlist.fold([*planned.nodes, *planned.partners])
    scope = request.scope(planned.system, None, names)
    seconds = sum(
        c.seconds or 0.0 for c in request.plan(planned.system, scope, names, "acceptance", ())
    )
    return max(1, math.ceil(soak_s / max(seconds, 1.0)))


def finish(planned: Run, command: list[str], say: Say) -> Run:
    """Test and return the nodes, or keep them out with the reason; say what of them has changed."""
    before = {node: store.readable(planned.system, node) for node in planned.nodes}
    ended = run.finish(planned, command, say)
    counted = store.rules(planned.system).counted
    for node, record in before.items():
        now = store.readable(planned.system, node)
        if now is None or ended.decided.get(node):
            continue
        if record is None:
            say(f"{node}: accepted for the first time, firmware {now.fingerprint}")
            continue
        for change in node_gate.changes(record.document, now.document, counted):
            say(f"{node}: since it was last accepted: {change.brief}")
    return ended
