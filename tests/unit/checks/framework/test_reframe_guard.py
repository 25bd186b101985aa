"""What the guard makes of Slurm's answers before ReFrame reads them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from reframe.core.schedulers import slurm

from railgauge.checks.framework import reframe_guard


def test_a_job_that_lost_a_node_is_known_by_its_last_record() -> None:
    """As sacct tells of one with --no-kill whose n2 died."""
    told = "JobID|State\n10|RESIZING|0:0|1|n[1-4]\n10|COMPLETED|0:0|2|n[1,3-4]\n"
    answer = SimpleNamespace(stdout=told)
    reframe_guard.without_resized(lambda command: answer)("sacct")
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
    asked = reframe_guard.with_preempted(slurm.slurm_state_completed)
    assert asked(state) is ended


class _Job:
    """As ReFrame's: it asks Slurm whenever somebody reads the nodes of a job that ended."""

    state, _nodespec, _nodelist = "RUNNING", "n[1-2]", []

    def __init__(self) -> None:
        self.asked = 0
        self.answer = ["n1", "n2"]

    @property
    def _nodes(self) -> list[str]:
        if self.state == "COMPLETED":
            self.asked += 1
            self._nodelist = list(self.answer)
        return self._nodelist

    nodelist = reframe_guard.cache_nodelist(_nodes)


def test_slurm_is_asked_once_for_the_nodes_of_a_job_that_ended() -> None:
    job = _Job()
    assert (job.nodelist, job.asked) == ([], 0)
    job.state = "COMPLETED"
    assert [job.nodelist for _ in range(20)] == [["n1", "n2"]] * 20
    assert job.asked == 1


def test_slurm_is_asked_again_where_it_reports_other_nodes_or_named_none() -> None:
    job = _Job()
    job.state, job.answer = "COMPLETED", []
    assert job.nodelist == []
    job.answer = ["n1", "n2"]
    assert job.nodelist == ["n1", "n2"]
    job._nodespec, job.answer = "n1", ["n1"]
    assert (job.nodelist, job.asked) == (["n1"], 3)


def test_reframes_jobs_are_such_jobs() -> None:
    """What they read is its own, and may be called otherwise in the next version."""
    job = slurm._SlurmJob("name")
    assert (job._nodespec, job._nodelist) == (None, [])
    assert isinstance(slurm._SlurmJob.nodelist, property)


def task(turn: int | None, partition: str = "ns") -> SimpleNamespace:
    check = SimpleNamespace() if turn is None else SimpleNamespace(turn=turn)
    case = SimpleNamespace(partition=SimpleNamespace(name=partition))
    return SimpleNamespace(check=check, testcase=case)


@pytest.mark.parametrize(
    ("turn", "others", "starts"),
    [
        (1, [task(0)], False),
        (1, [task(None)], False),
        (1, [task(-1)], False),
        (0, [task(-1)], False),
        (1, [task(1)], True),
        (0, [task(0), task(1)], True),
        (None, [task(1)], True),
        (-1, [task(0), task(1)], True),
        (1, [task(0, "other")], True),
    ],
)
def test_a_case_waits_for_those_of_its_partition_with_a_lower_turn(
    turn: int | None, others: list[SimpleNamespace], starts: bool
) -> None:
    advance = reframe_guard.in_turn(lambda policy, task: 1)
    own = task(turn)
    assert advance(SimpleNamespace(_current_tasks=[*others, own]), own) == int(starts)


def test_cases_that_have_the_same_turn_keep_their_order() -> None:
    """ReFrame's serial policy goes by the list."""
    cases = [SimpleNamespace(name=n, check=task(turn).check) for n, turn in enumerate((1, 0, None))]
    first = SimpleNamespace(name=3, check=task(-1).check)
    in_order = sorted([*cases, first], key=reframe_guard.turn_of)
    assert [case.name for case in in_order] == [3, 1, 2, 0]
