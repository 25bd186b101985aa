"""The lease of the reservation that a gate run's tests use: its end is moved on while the run
lives, so that it lapses with the run.

    python -m railgauge.gate.lease RESERVATION SECONDS

renews it until its standard input ends. That ends with the process that started it, however it
ends. So healthy partners of a killed run are back in service within LEASE_S and the minute after
which Slurm looks at it. Untested nodes are in a reservation of their own, without an end.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from collections.abc import Iterator

from railgauge.common.errors import PrerequisiteError
from railgauge.slurm import reservations

#: So long after its last renewal a reservation ends. A controller that is restarted, or moves to
#: another host, is back before.
LEASE_S = 600

#: A run that has deleted its reservation ends within this.
_LAST_WORDS_S = 10

#: How many renewals may fail, one after the other, before it ends.
_RENEWALS = 10


@contextlib.contextmanager
def renewed(reservation: str) -> Iterator[None]:
    """Keep moving the reservation's end on, also of one that does not exist yet."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", "railgauge.gate.lease", reservation, str(LEASE_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # A Ctrl-C is for the run: its nodes are still to be decided.
        start_new_session=True,
    )
    assert keeper.stdin is not None
    try:
        yield
    finally:
        keeper.stdin.close()
        keeper.wait()


def _keep(reservation: str, lease_s: int) -> None:
    reported = ""
    while not select.select([sys.stdin], [], [], lease_s / _RENEWALS)[0]:
        try:
            reservations.renew(reservation, lease_s)
            reported = ""
        except PrerequisiteError as error:
            # At its end the run deletes it itself.
            if not reported and not select.select([sys.stdin], [], [], _LAST_WORDS_S)[0]:
                reported = error.message
                print(
                    f"gate: {reservation} is not renewed: {reported}", file=sys.stderr, flush=True
                )


if __name__ == "__main__":
    _keep(sys.argv[1], int(sys.argv[2]))
