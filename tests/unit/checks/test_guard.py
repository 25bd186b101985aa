"""What the guard makes of Slurm's answers before ReFrame reads them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from reframe.core.schedulers import slurm

from railgauge.checks import guard


def test_a_job_that_lost_a_node_is_known_by_its_last_record() -> None:
    """As sacct tells of one with --no-kill whose n2 died."""
    told = "JobID|State\n10|RESIZING|0:0|1|n[1-4]\n10|COMPLETED|0:0|2|n[1,3-4]\n"
    answer = SimpleNamespace(stdout=told)
    guard.without_resized(lambda command: answer)("sacct")
    assert answer.stdout == "JobID|State\n10|COMPLETED|0:0|2|n[1,3-4]\n"


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("PREEMPTED", True),
        ("COMPLETED,PREEMPTED", True),
        ("RUNNING,PREEMPTED", False),
        ("PENDING", False),
        (None, False),
    ],
)
def test_a_preempted_job_has_ended(state: str | None, ended: bool) -> None:
    asked = guard.with_preempted(slurm.slurm_state_completed)
    assert asked(state) is ended
