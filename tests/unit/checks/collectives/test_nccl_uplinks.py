"""NCCL's alltoall and the uplinks between leaves: when they are counted, and what is believed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import systems
from railgauge.checks.jobs import uplink_counters
from railgauge.model.uplinks import CountersError, Uplink
from railgauge.systems import Fabric
from tests.unit.checks import ended_jobs
from tests.unit.checks.collectives import nccl_left

#: Of these four nodes two are on each of two leaves.
NODES = tuple(f"dgx-h100-n0{number}" for number in (1, 2, 3, 4))
LEAVES = {"leaf1": "dgx-h100-n[01-02]", "leaf2": "dgx-h100-n[03-04]"}


def on_nodes(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    places: str,
    leaves: dict[str, str] = LEAVES,
) -> Iterator[Any]:
    """NcclAll on these nodes, with leaves whose uplinks are counted."""
    partition = systems.load("dgx-h100").partition("h100")
    fabric = Fabric(counters=["site-counters"], mode="packet")
    described = partition.extras.of_nodes(NODES).model_copy(
        update={"leaves": leaves, "fabric": fabric}
    )
    monkeypatch.setitem(vars(partition), "extras", described)
    monkeypatch.setattr(uplink_counters, "count", lambda command, limit_s: [])
    with ended_jobs.session("dgx-h100", folder, RAILGAUGE_PLACES=places) as known:
        made = ended_jobs.ended(known["NcclAll"].kind(variant_num=0), folder / "stage")
        made._rfm_dry_run = True
        made.select_places()
        yield made


@pytest.fixture
def alltoall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from on_nodes(tmp_path, monkeypatch, "^alltoall:")


@pytest.fixture
def everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from on_nodes(tmp_path, monkeypatch, "^al")


@pytest.fixture
def on_one_leaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    one = {"leaf1": "dgx-h100-n[01-04]"}
    yield from on_nodes(tmp_path, monkeypatch, "^alltoall:", leaves=one)


def sent_between_leaves(check: Any) -> int:
    """A rank sends a 32nd of each message to each of the 16 that are on the other leaf."""
    (place,) = check._chosen
    with check.at(place):
        options = check.sweep_run.options
        return 32 * 16 * int(options.run_bytes(options.sizes())) // 32


def counted(check: Any, times: float = 1.0) -> uplink_counters.Counting:
    """Of the first leaf one spine has three quarters."""
    unit = int(times * sent_between_leaves(check)) // 8
    parts = {("leaf1", "s1"): 3, ("leaf1", "s2"): 1, ("leaf2", "s1"): 2, ("leaf2", "s2"): 2}
    counting = uplink_counters.Counting(["site-counters"])
    counting.before = [Uplink(leaf, spine, 0, 0) for leaf, spine in parts]
    counting.after = [
        Uplink(leaf, spine, part * unit, 2 * unit) for (leaf, spine), part in parts.items()
    ]
    return counting


def counting(check: Any) -> uplink_counters.Counting | None:
    """What is counted during the job of a check."""
    with check.at(check._chosen[0]):
        found = check.sweep_run.counting(alone=len(check._chosen) == 1)
    assert found is None or isinstance(found, uplink_counters.Counting)
    return found


def judged(check: Any, counted_by: uplink_counters.Counting | None) -> Any:
    check._counting = counted_by
    # What it knew of an earlier job.
    vars(check).pop("job_output", None)
    vars(check).pop("whole", None)
    nccl_left.leave(check)
    ended_jobs.judge(check)
    (result,) = check.results
    return result


def index(result: Any) -> list[Any]:
    return [m for m in result.evidence.measurements if m.metric == "jain_index"]


def test_the_least_even_leaf_is_a_number_beside_the_busbw_with_the_mode(alltoall: Any) -> None:
    result = judged(alltoall, counted(alltoall))
    (jain,) = index(result)
    assert jain.value == pytest.approx(0.8)
    assert (jain.operation, jain.transport, jain.ranks) == ("alltoall packet", "default", 32)
    busbw = {m.operation for m in result.evidence.measurements if m.metric == "busbw"}
    assert busbw == {"alltoall"}
    assert jain.variable in result.evidence.recorded
    assert Path(alltoall.stagedir, uplink_counters.CARRIED).exists()


@pytest.mark.parametrize("times", [0.4, 1.3])
def test_what_leaves_cannot_have_sent_of_it_is_no_number(alltoall: Any, times: float) -> None:
    result = judged(alltoall, counted(alltoall, times))
    assert index(result) == []
    assert "while nccl-tests moved" in result.evidence.reading.notes[-1]


def test_counters_that_cannot_be_read_fail_nothing(alltoall: Any) -> None:
    counting = counted(alltoall)
    counting.after = CountersError("no route")
    result = judged(alltoall, counting)
    assert index(result) == [] and "no route" in result.evidence.reading.notes[-1]
    kinds = {failure.kind for failure in judged(alltoall, None).failures}
    assert {failure.kind for failure in result.failures} == kinds


def test_an_alltoall_between_leaves_that_is_all_of_the_job_is_counted(alltoall: Any) -> None:
    assert counting(alltoall) is not None


def test_what_several_operations_sent_is_not_told_apart(everything: Any) -> None:
    assert counting(everything) is None


def test_within_a_leaf_nothing_is_counted(on_one_leaf: Any) -> None:
    assert counting(on_one_leaf) is None


def test_without_known_leaves_nothing_is_counted(
    alltoall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(alltoall.partition_data.extras), "leaves", {})
    assert counting(alltoall) is None
