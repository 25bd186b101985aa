"""Which groups of nodes NCCL's checks measure, and in which jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge import systems
from railgauge.checks.collectives.nccl_cases import NcclCases, node_groups
from railgauge.checks.framework.cases import GroupCase
from railgauge.systems import Partition
from tests.unit.checks import ended_jobs


def racks(**sweep: object) -> Partition:
    """Two racks of 18 trays."""
    (found,) = systems.load("gb200-nvl72").partitions
    changed = found.extras.sweep.model_copy(update=sweep)
    return found.model_copy(update={"extras": found.extras.model_copy(update={"sweep": changed})})


def short(nodes: tuple[str, ...]) -> str:
    return " ".join(node.removeprefix("gb200-nvl72-") for node in nodes)


def test_pairs_are_neighbours_around_each_rack() -> None:
    partition = racks()
    pairs = [short(pair) for pair in node_groups(partition, "pair", partition.nodes)]
    assert len(pairs) == 36
    assert pairs[17:19] == ["r1t18 r1t01", "r2t01 r2t02"]


def test_a_job_of_some_nodes_has_no_pair_across_racks() -> None:
    partition = racks(nodes_per_job=12)
    nodes = partition.nodes[12:24]
    pairs = [short(c.nodes) for c in NcclCases("pair").of_group(partition, nodes)]
    assert {pair.split("t")[0] for pair in pairs} == {"r1", "r2"}
    assert all(pair[:2] == pair.split()[1][:2] for pair in pairs)
    assert "r1t18 r1t13" in pairs


@pytest.mark.parametrize(
    ("scale", "jobs_of"), [("node", 3), ("pair", 3), ("segment", 1), ("all", 1)]
)
def test_whole_racks_and_all_nodes_are_not_cut(
    scale: str, jobs_of: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = racks(nodes_per_job=12)
    cases = NcclCases(scale)  # type: ignore[arg-type]
    monkeypatch.setattr(cases, "_partitions", lambda: [partition])
    with ended_jobs.runtime("gb200-nvl72", tmp_path):
        sweeps = cases.sweeps
    assert len(sweeps) == jobs_of
    assert {node for sweep in sweeps for node in sweep.nodes} == set(partition.nodes)


def test_p2p_off_is_measured_in_the_series_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def transports() -> set[str]:
        return {case.transport for case in NcclCases("node").on(racks())}

    assert transports() == {"default"}
    monkeypatch.setenv("RAILGAUGE_SERIES", "1")
    assert transports() == {"default", "p2p-off"}


def test_places_are_measured_at_once_by_operation_and_transport() -> None:
    place = GroupCase("p", "all_reduce", "mnnvl", ("n1", "n2"))
    assert place.condition == ("all_reduce", "mnnvl")
    assert place.place == "all_reduce:mnnvl:n[1-2]"
