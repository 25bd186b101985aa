"""MpiBesideTransfer where its program is not installed: nothing was measured, nobody is accused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.checks import ended_jobs

NODES = ("n1", "n2")


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Any]:
    """A job whose first step ended it, as srun leaves it."""
    with ended_jobs.session("eth400g", tmp_path, RAILGAUGE_SERIES="1") as known:
        check = known["MpiBesideTransfer"].kind(variant_num=0)
        yield ended_jobs.ended(check, tmp_path / "stage", "FAILED", 1)


def leave(check: Any, rank: int, **facts: Any) -> None:
    """What a rank leaves that was not started; `facts` are of its node."""
    role = f"alone{rank}"
    line = ended_jobs.exit_line("osu", role, check.pinned_nodes[rank], rank)
    way = {"mtu_bytes": check.partition_data.extras.mtu_bytes, "emulation": "none"}
    line["call"] = {**line["call"], "exit_code": None, "note": "not started"}
    line["facts"] = {**way, **facts}
    Path(check._stagedir, f"{role}.json").write_text(json.dumps(line))


def test_a_node_that_lacks_the_program_is_not_measured_and_not_accused(check: Any) -> None:
    program = check.mpi.program
    leave(check, 0)
    leave(check, 1, missing=[program])
    lacking = check.pinned_nodes[1]
    assert ended_jobs.judge(check) == f"{program} not found on {lacking}"
    (failure,) = check.results[0].failures
    assert (failure.kind, failure.nodes) == ("tool-missing", (lacking,))
    assert "extras.mpi.program: allreduce" in failure.next_step


def test_a_wrong_path_is_told_all_the_same(check: Any) -> None:
    leave(check, 0, mtu_bytes=1500)
    leave(check, 1, missing=[check.mpi.program])
    ended_jobs.judge(check)
    kinds = {(failure.kind, failure.nodes) for failure in check.results[0].failures}
    node, lacking = check.pinned_nodes
    assert kinds == {("tool-missing", (lacking,)), ("condition", (node,))}
