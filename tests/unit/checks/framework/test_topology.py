"""Which leaves a session knows, and which schedules that allows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from railgauge import paths, systems
from railgauge.campaign import variables
from railgauge.campaign.folder import ROUTES as ROUTES_FILE
from railgauge.checks.framework import reframe_guard, schedule, topology
from railgauge.checks.framework.cases import NodeCase, PairCase, RailCase
from railgauge.model.record import PartitionRoutes
from railgauge.model.routes import Route
from railgauge.systems import Partition
from tests.unit.checks.rdma.test_rail import RDMA

LEAVES = {"leaf1": "n[1-2]", "leaf2": "n[3-4]"}
BY_SLURM = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}
PAIR = PairCase("ns", "n1", "n2")


@pytest.fixture(autouse=True)
def _new_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*variables.MEASURED_BY, paths.CAMPAIGN_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    slurm_knows(monkeypatch, {})
    yield
    forget()


def forget() -> None:
    """As at the start of another session."""
    topology._of_slurm.cache_clear()
    topology._asked.cache_clear()
    topology._routes_of.cache_clear()


def slurm_knows(monkeypatch: pytest.MonkeyPatch, leaf_of: Mapping[str, str]) -> None:
    forget()
    monkeypatch.setattr(topology.topology, "leaf_of_nodes", lambda partition: leaf_of)


def partition(nodes: str = "n[1-4]", **extras: Any) -> Partition:
    features = ["tcp", *(name for name in ("rdma",) if name in extras)]
    return Partition(name="ns", features=features, extras={"nodes": nodes, **extras})  # type: ignore[arg-type]


def leaf_of(of: Partition) -> Mapping[str, str] | None:
    known = topology.leaves_of(of)
    return None if known is None else known.of_node


# ---- what is known ----


def test_the_systems_data_says_the_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm_knows(monkeypatch, BY_SLURM)
    expected = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}
    assert leaf_of(partition(leaves=LEAVES)) == expected


def test_where_the_data_says_nothing_slurm_does(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm_knows(monkeypatch, BY_SLURM)
    assert leaf_of(partition()) == BY_SLURM


def test_data_may_say_that_slurms_tree_is_not_that_of_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slurm_knows(monkeypatch, BY_SLURM)
    assert leaf_of(partition(leaves={})) is None


def test_leaves_of_some_of_the_nodes_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm_knows(monkeypatch, BY_SLURM)
    assert leaf_of(partition("n[1-5]")) is None


def test_a_resumed_session_has_the_leaves_of_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(paths.CAMPAIGN_VARIABLE, str(tmp_path))
    (tmp_path / "leaves.json").write_text(json.dumps({"ns": LEAVES}))
    slurm_knows(monkeypatch, BY_SLURM)
    assert leaf_of(partition()) == {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}


def test_a_resumed_session_without_leaves_then_has_none_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(paths.CAMPAIGN_VARIABLE, str(tmp_path))
    (tmp_path / "leaves.json").write_text("{}")
    slurm_knows(monkeypatch, BY_SLURM)
    assert leaf_of(partition()) is None


@pytest.mark.parametrize(
    ("leaves", "says"),
    [
        ({"leaf1": "n[1-2]"}, "n[3-4] of nodes is on none of them"),
        ({"leaf1": "n[1-4]", "leaf2": "n4"}, "n4 is on leaf1 and on leaf2"),
        ({"leaf1": "n[1-"}, "not a host list"),
    ],
)
def test_wrong_leaves_are_an_error(leaves: dict[str, str], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        partition(leaves=leaves)
    assert says in str(caught.value)


# ---- switch ports ----

PORTS = {"n1": {"eth0": "leaf1 swp1"}, "n3": {"eth0": "leaf2 swp1", "mlx5_0": "leaf2 swp2"}}


def test_switch_ports_are_those_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    each = [
        partition(switch_ports={"n1": PORTS["n1"]}),
        partition(switch_ports={"n3": PORTS["n3"]}),
    ]
    system = SimpleNamespace(partitions=each)
    monkeypatch.setattr(systems, "load", lambda name: system)
    assert topology.switch_ports("lab") == PORTS


def test_a_switch_port_of_an_unknown_node_is_an_error() -> None:
    with pytest.raises(ValidationError, match=r"switch_ports: n9 is none of nodes, n\[1-4\]"):
        partition(switch_ports={"n9": {"eth0": "leaf1 swp1"}})


# ---- conditions ----


def test_a_pair_is_within_a_leaf_or_crosses_the_fabric() -> None:
    leaves = topology.leaves_of(partition(leaves=LEAVES))
    assert schedule.within(PAIR, leaves) == "leaf"
    assert schedule.within(PairCase("ns", "n2", "n3"), leaves) == "fabric"


def test_of_unknown_leaves_or_a_node_alone_nothing_is_stated() -> None:
    assert schedule.within(PAIR, None) is None
    leaves = topology.leaves_of(partition(leaves=LEAVES))
    assert schedule.within(NodeCase("ns", "n1"), leaves) is None


def test_a_pair_alone_in_its_round_is_quiet_and_others_are_loaded() -> None:
    assert schedule.load(PAIR, [PAIR]) == "quiet"
    assert schedule.load(PAIR, [PAIR, PairCase("ns", "n3", "n4")]) == "loaded"
    assert schedule.load(NodeCase("ns", "n1"), [NodeCase("ns", "n1")]) is None


def test_rails_at_once_of_one_pair_are_loaded() -> None:
    rails = [RailCase("ns", "n1", "n2", rail, rail) for rail in range(2)]
    assert schedule.load(rails[0], rails) == "loaded"


# ---- what this session is told ----


def told(monkeypatch: pytest.MonkeyPatch, name: str, seed: str = "") -> None:
    monkeypatch.setenv(variables.SCHEDULE, name)
    monkeypatch.setenv(variables.SEED, seed)


def test_a_session_may_have_another_schedule_and_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, "random", "7")
    sweep = schedule.of(partition(sweep={"schedule": "quiet", "nodes_per_job": 2}))
    assert (sweep.schedule, sweep.seed, sweep.nodes_per_job) == ("random", 7, 2)


def test_without_a_word_the_data_says_the_schedule() -> None:
    assert schedule.of(partition(sweep={"schedule": "quiet"})).schedule == "quiet"


def test_where_data_says_cover_nodes_of_one_leaf_are_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described = partition(leaves=LEAVES, sweep={"schedule": "cover"})
    assert schedule.of(described).schedule == "cover"
    monkeypatch.setenv(variables.NODES, "n[1-2]")
    assert schedule.of(described).schedule == "neighbours"
    assert schedule.problem(described) is None


@pytest.mark.parametrize(
    ("name", "extras", "says"),
    [
        ("coverr", {}, "RAILGAUGE_SCHEDULE is 'coverr', expected one of neighbours"),
        ("cover", {}, "needs to know the leaf of every node"),
        ("cover", {"leaves": {"leaf1": "n[1-4]"}}, "n[1-4], are all on leaf1"),
        (
            "cover",
            {"leaves": LEAVES, "sweep": {"nodes_per_job": 2}},
            "the nodes of one job, n[1-2], are all on leaf1",
        ),
        ("shift", {}, "of rails that reach each other"),
        ("shift", {"rdma": {**RDMA, "rails": 1, "across_rails": True}}, "rails that reach"),
        ("shift", {"rdma": {**RDMA, "across_rails": False}}, "of rails that reach each other"),
        ("tournament", {"nodes": "n[1-4608]"}, "is 10614528 pairs, and a session may have"),
        ("tournament", {"nodes": "n[1-200]", "rdma": {**RDMA, "rails": 8}}, "19900 pairs of 8"),
    ],
)
def test_a_schedule_that_a_partition_cannot_do_is_one_error(
    monkeypatch: pytest.MonkeyPatch, name: str, extras: dict[str, Any], says: str
) -> None:
    told(monkeypatch, name)
    found = schedule.problem(partition(**extras))
    assert found is not None and says in found.message and found.next_step
    assert schedule.pairs(partition(**extras)) == []


def test_a_seed_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, "random", "x")
    found = schedule.problem(partition())
    assert found is not None and "RAILGAUGE_SEED is 'x'" in found.message


@pytest.mark.parametrize("wrong", ["x", "-1", "1.5", 5000 * "9"])
def test_rounds_to_locate_that_are_no_number_are_an_error(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv(variables.LOCATE_ROUNDS, wrong)
    found = schedule.problem(partition())
    assert found is not None and f"{variables.LOCATE_ROUNDS} is '{wrong}'" in found.message
    assert found.next_step and "--locate-rounds N" in found.next_step


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("cover", {"leaves": LEAVES}),
        ("shift", {"rdma": {**RDMA, "across_rails": True}}),
        ("tournament", {"nodes": "n[1-548]"}),
        ("neighbours", {"nodes": "n[1-40000]", "rdma": {**RDMA, "rails": 8}}),
        ("random", {}),
        ("quiet", {}),
    ],
)
def test_a_schedule_that_a_partition_can_do_has_pairs(
    monkeypatch: pytest.MonkeyPatch, name: str, extras: dict[str, Any]
) -> None:
    told(monkeypatch, name)
    assert schedule.problem(partition(**extras)) is None
    assert schedule.pairs(partition(**extras))


def test_a_large_tournament_can_be_cut_into_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, "tournament")
    assert schedule.problem(partition("n[1-4608]", sweep={"nodes_per_job": 32})) is None


def test_a_partition_of_one_node_has_no_pairs_and_no_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told(monkeypatch, "cover")
    assert schedule.first_problem([partition("n1")]) is None


# ---- a session that cannot be ----


def test_a_session_is_refused_for_a_schedule_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = schedule.RailgaugeError("cover needs leaves", next_step="leaves")
    monkeypatch.setattr(schedule, "session_problem", lambda: wrong)
    with pytest.raises(reframe_guard.ReframeError, match="cover needs leaves"):
        reframe_guard.refuse_impossible_schedule(None, [])


class Long:
    display_name, pinned_nodes = "Long", ("n1",)
    expected_seconds = 7200.0


@pytest.mark.parametrize(("limit_s", "refused"), [(3600.0, True), (7200.0, False), (None, False)])
def test_a_case_that_takes_longer_than_a_job_may_is_refused(
    monkeypatch: pytest.MonkeyPatch, limit_s: float | None, refused: bool
) -> None:
    slurm = SimpleNamespace(name="gpu", access=["--partition=h100"])
    case = SimpleNamespace(check=Long(), partition=slurm)
    known = {} if limit_s is None else {"h100": limit_s}
    monkeypatch.setattr(reframe_guard.partitions, "time_limits_s", lambda: known)
    if refused:
        with pytest.raises(reframe_guard.ReframeError, match="Long: 1 rounds take about 7200 s"):
            reframe_guard.refuse_endless_case(None, [case])
    else:
        reframe_guard.refuse_endless_case(None, [case])


# ---- static routes ----


def test_the_partitions_whose_data_takes_static_routes_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = partition(infiniband={"node": "n1"}).model_copy(update={"name": "other"})
    of_system = SimpleNamespace(partitions=[partition(infiniband={"static_routes": True}), other])
    monkeypatch.setattr(topology.systems, "load", lambda system: of_system)
    assert topology.statically_routed("any") == ["ns"]


# ---- the routes between leaves ----

ROUTES = "leaf,source,destination,spine\nleaf1,n1,n3,spine1\nleaf2,,n1,spine2\n"
PRINTED = [Route("leaf1", "n1", "n3", "spine1"), Route("leaf2", "", "n1", "spine2")]


def routed(command: list[str]) -> Partition:
    return partition(leaves=LEAVES, fabric={"counters": ["true"], "routes": command})


def test_the_sites_command_prints_the_routes() -> None:
    assert topology.routes_of(routed(["printf", ROUTES])).rows == tuple(PRINTED)
    for of in (partition(), routed(["true"])):
        assert topology.routes_of(of) == PartitionRoutes()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["false"], "extras.fabric.routes, `false`: exit code 1: nothing on its standard error"),
        (["/nowhere/routes"], "`/nowhere/routes`: .*No such file"),
        (["echo", "spine1"], "`echo spine1`: line 1, column leaf: the columns spine1"),
        (["printf", ROUTES.replace("leaf2", "rack2")], "leaf rack2, expected one of leaf1, leaf2"),
    ],
)
def test_routes_that_cannot_be_read_are_a_problem_and_no_routes(
    command: list[str], problem: str
) -> None:
    found = topology.routes_of(routed(command))
    assert found.rows == () and re.search(problem, found.problem)


def test_a_resumed_campaign_has_the_routes_of_its_first_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.CAMPAIGN_VARIABLE, str(tmp_path))
    of_system = SimpleNamespace(partitions=[routed(["printf", ROUTES])])
    monkeypatch.setattr(topology.systems, "load", lambda system: of_system)
    known = topology.routes("any")
    assert known["ns"].rows == tuple(PRINTED)
    kept = {"ns": {"rows": PRINTED[:1], "problem": ""}}
    (tmp_path / ROUTES_FILE).write_text(json.dumps(kept))
    forget()
    assert topology.routes_of(routed(["printf", ROUTES])).rows == tuple(PRINTED[:1])
