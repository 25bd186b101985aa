"""Reservations of untested nodes that no gate run goes on with, as its journal is not here.

They have no end, so a person has to look at them. Nothing is done with them: the gate run may be
one of another checkout or results root that lives, and an untested node is never opened.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from railgauge import hostlist, systems
from railgauge.cluster import store
from railgauge.gate import journal
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import OUR_RESERVATIONS, OURS, UNTESTED


@dataclasses.dataclass(frozen=True)
class OrphanedReservation:
    """Such a reservation, and those of its nodes that are of the system."""

    name: str
    nodes: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"reservation {self.name} keeps {hostlist.fold(self.nodes)} out, and no gate run that "
            "has not ended has a journal of it here"
        )

    @property
    def next_step(self) -> str:
        run = self.name[len(OUR_RESERVATIONS) : -len(UNTESTED)]
        return (
            "if a gate run of another checkout or RAILGAUGE_RESULTS has it, that one's railgauge "
            f"gate run --act; where none has: scontrol update nodename={hostlist.fold(self.nodes)} "
            f'state=drain reason="{OURS}gate run {run} lost its journal"; scontrol delete '
            f"reservationname={self.name}; railgauge gate run --act"
        )


def reservations(system: str, nodes: Collection[str]) -> list[OrphanedReservation]:
    """Those over `nodes`; SlurmError where Slurm does not answer."""
    owned = _owned(system)
    found = [
        OrphanedReservation(
            one.name, tuple(sorted(set(hostlist.expand(one.hostlist)) & set(nodes)))
        )
        for one in slurm_nodes.reservations()
        if one.name.startswith(OUR_RESERVATIONS)
        and one.name.endswith(UNTESTED)
        and one.name not in owned
        and one.hostlist
    ]
    # A run that has begun meanwhile wrote its journal first.
    owned = _owned(system) if found else set()
    return [one for one in found if one.nodes and one.name not in owned]


def _owned(system: str) -> set[str]:
    """Those that a gate run goes on with, or takes back as its journal is damaged: also of another
    system, as two descriptions may have the same nodes.
    """
    there = {folder.parent.name for folder in store.folder(system).parent.glob("*/runs")}
    # A run of a system that is described no more is not continued.
    known = {system, *there.intersection(systems.names())}
    runs = [run for name in known for run in journal.runs(name) if run.ended is None]
    lost = [one for name in known for one in journal.lost(name)]
    return {run.untested for run in runs} | {name for one in lost for name in one.reservations}
