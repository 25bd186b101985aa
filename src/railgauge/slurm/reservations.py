"""The reservations of gate runs."""

from __future__ import annotations

import getpass
import os
from collections.abc import Collection

from railgauge import hostlist
from railgauge.slurm import client
from railgauge.slurm.nodes import UNTESTED, reservations

#: Set by `railgauge gate run`: the reservation that all jobs of this process's tests run in.
RESERVATION_VARIABLE = "RAILGAUGE_RESERVATION"

#: A reservation begins so long ago by this host's clock, by which scontrol reads its times: it has
#: then begun for the controller too, unless their clocks differ by so much that munge refuses
#: (300 s, munged(8) --ttl). Slurm takes a start of up to 600 s ago (MAX_RESV_DELAY, reservation.c).
_BEGAN_BEFORE_S = 290


def ours() -> set[str]:
    """The reservations of the gate run that this process works for."""
    name = os.environ.get(RESERVATION_VARIABLE)
    return {name, f"{name}{UNTESTED}"} if name else set()


def options() -> list[str]:
    """The option by which jobs start in the reservation of this process's gate run, if any."""
    name = os.environ.get(RESERVATION_VARIABLE)
    return [f"--reservation={name}"] if name else []


def nodes_of(name: str) -> tuple[str, ...] | None:
    """The nodes of a reservation; None where there is none of that name."""
    for reservation in reservations():
        if reservation.name == name:
            return hostlist.expand(reservation.hostlist)
    return None


def reserve(name: str, nodes: Collection[str], lease_s: int | None = None) -> None:
    """Nodes on which only this user's jobs start that name the reservation.

    It ends `lease_s` seconds from now, or in a year where that is None: Slurm has no longer one
    (UNLIMITED, reservation.c). MAINT: it may lie over others', its own jobs start there all the
    same, and it counts as maintenance. IGNORE_JOBS: running jobs go on.
    """
    client.output(
        *("scontrol", "create", "reservation", f"reservationname={name}"),
        *(f"nodes={hostlist.fold(nodes)}", f"users={getpass.getuser()}"),
        f"starttime=now-{_BEGAN_BEFORE_S}",
        "duration=UNLIMITED" if lease_s is None else f"endtime=now+{lease_s}",
        "flags=MAINT,IGNORE_JOBS",
    )


def renew(name: str, lease_s: int) -> None:
    """Let a reservation end `lease_s` seconds from now, and be this user's."""
    client.output(
        *("scontrol", "update", f"reservationname={name}", f"endtime=now+{lease_s}"),
        f"users={getpass.getuser()}",
    )


def unreserve(name: str) -> None:
    client.output("scontrol", "delete", f"reservationname={name}")
