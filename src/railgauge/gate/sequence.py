"""What one call of `railgauge gate run` does: what broke off, then the held nodes, then the batches
that are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from railgauge import systems
from railgauge.common.errors import EXIT_SUSPECT
from railgauge.gate import journal, orphaned_reservations, roll, run, testing
from railgauge.gate.journal import Run
from railgauge.hooks import Say


@dataclasses.dataclass(frozen=True)
class Ended:
    """What a call of `gate run` has done, and which nodes it could not test, and why: `barred` held
    ones, `orphaned` those in a reservation that nothing goes on with.
    """

    runs: Sequence[Run]
    barred: Mapping[str, str]
    orphaned: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        if any(one.bad_partners for one in self.runs):
            return EXIT_SUSPECT
        # A node that lost its reservation in one run may have returned by the next one.
        out = {node: node in one.kept_out for one in self.runs for node in one.nodes}
        return int(bool(self.barred or self.orphaned) or any(out.values()))

    def as_dict(self, system: str) -> dict[str, Any]:
        runs = [
            {
                "id": one.id,
                "nodes": one.nodes,
                "partners": one.partners,
                "campaigns": one.campaigns,
                "returned": [node for node in one.decided if node not in one.kept_out],
                "kept_out": {
                    node: one.decided[node] or one.outside.get(node, "") for node in one.kept_out
                },
                "bad_partners": one.bad_partners,
                "lost": one.lost,
                "undone": one.undone,
                "started": one.started,
                "ended": one.ended,
            }
            for one in self.runs
        ]
        return {
            "system": system,
            "exit_code": self.exit_code,
            "runs": runs,
            "not_tested": {**self.orphaned, **self.barred},
        }


def waits_for(broken: Run) -> roll.StuckError | None:
    """What a run that broke off waits for; None where it may go on: none of its nodes and partners
    may be in an update that nothing is known of.
    """
    return roll.unknown(broken.system, [*broken.nodes, *broken.partners])


def run_all(
    system: str,
    wanted: Sequence[str] | None,
    despite_reservations: bool,
    command: list[str],
    say: Say,
) -> Ended:
    """Bring to its end what broke off, then test the held nodes (`wanted`, else all of them), then
    take the batches that are left.

    roll.StuckError where an update waits for an operator's word: after all that can be tested, and
    before where that concerns a run that broke off.
    """
    ended: list[Run] = []
    broken = journal.unended(system)
    if broken is not None and waits_for(broken) is not None:
        # First of all: what comes next may find a store that does not answer.
        run.keep_waiting(broken)
    for lost in journal.lost(system):
        run.recover(system, lost, say)
    astray = orphaned_reservations.reservations(system, systems.load(system).nodes)
    for one in astray:
        say(f"{one.words}\n  next: {one.next_step}")
    broken, rolling = journal.unended(system), journal.rolling(system)
    updating = {*rolling.batch, *rolling.waiting} if rolling is not None else set()
    if broken is not None:
        if (wait := waits_for(broken)) is not None:
            say(f"gate run {broken.id}, which broke off after {broken.step}, does not go on")
            raise wait
        say(f"going on with gate run {broken.id}, which broke off after {broken.step}")
        broken.despite_reservations |= despite_reservations
        try:
            run.finish(broken, command, say)
        except testing.LostReservationError as error:
            # Lost while it did not run: its nodes are tested below as any other.
            say(error.message)
            run.finish(broken, command, say)
        except testing.Interrupted:
            if rolling is not None and rolling.run == broken.id:
                roll.next_batch(rolling)
            raise
        ended.append(broken)
    # Without a journal of one it is not known which nodes are healthy enough to be partners.
    stuck = roll.unknown(system)
    if rolling is not None and stuck is None:
        rolling.despite_reservations |= despite_reservations
        try:
            ended += roll.finish_batch(rolling, command, say)
        except roll.StuckError as error:
            stuck = error
    barred: dict[str, str] = {}
    if wanted != []:
        held = run.candidates(system, wanted, despite_reservations)
        # What becomes of the rolling update's batch it says itself.
        rolled = rolling.batch if rolling is not None else []
        barred = {name: why for name, why in held.barred.items() if name not in rolled}
        for name, why in sorted(barred.items()):
            say(f"{name}: not tested: {why}")
        # Those that the broken run has just kept out were tested already.
        tested = {node for one in ended for node in one.nodes if node not in one.lost}
        rest = sorted(set(held.nodes) - tested)
        if rest:
            planned = run.plan(system, rest, despite_reservations)
            ended.append(run.finish(planned, command, say))
    if stuck is not None:
        raise stuck
    if rolling is not None and rolling.ended is None:
        ended += roll.go_on(rolling, command, say)
    if not ended and not astray:
        say("railgauge holds no idle node: nothing to test")
    # If some nodes were named, the answer is for these and for those of the rolling update.
    asked = None if wanted is None else {*wanted, *updating}
    kept = {n: one.words for one in astray for n in one.nodes if asked is None or n in asked}
    return Ended(ended, barred, kept)
