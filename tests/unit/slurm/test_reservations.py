"""What is asked of Slurm for the reservations of a gate run."""

from __future__ import annotations

import re

import pytest

from railgauge.slurm import client, reservations

#: Seconds: two clocks that differ by more are refused by munge (munged(8), --ttl), and a start that
#: is longer ago by Slurm (MAX_RESV_DELAY of reservation.c).
MUNGE_S, SLURM_S = 300, 600


@pytest.mark.parametrize("lease_s", [None, 600])
@pytest.mark.parametrize("ahead_s", [-MUNGE_S, 0, 60, 290])
def test_it_has_begun_by_the_controllers_clock(
    monkeypatch: pytest.MonkeyPatch, lease_s: int | None, ahead_s: int
) -> None:
    """Else resumed nodes would take other users' short jobs until it begins: scontrol reads `now`
    by this host's clock, which may be ahead.
    """
    asked: list[str] = []
    monkeypatch.setattr(client, "output", lambda *words: asked.extend(words))
    reservations.reserve("railgauge_x_untested", ["n1"], lease_s)
    (start,) = (word for word in asked if word.startswith("starttime="))
    before_s = int(re.sub("starttime=now-?", "", start) or 0)
    assert -SLURM_S < ahead_s - before_s <= 0
