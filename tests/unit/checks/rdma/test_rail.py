"""What is measured between whom: pairs, rails, long ways and preflights from a system's data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import reframe.core.runtime as rt
from reframe.core.builtins import parameter

import reframe as rfm
from railgauge import hostlist, paths, systems
from railgauge.checks.framework.cases import NodeCase, PairCase, SweepCase
from railgauge.checks.jobs.pairs import RingPairs, neighbours
from railgauge.checks.preflight import node_state
from railgauge.checks.preflight.node_state import NodeStateCases, of_states
from railgauge.checks.rdma.rail import RailLinks
from railgauge.checks.tcp.long_distance import WanCases
from tests.unit.records import names

Describe = Callable[..., None]

RDMA = {
    "devices": "mlx5_[0-9]+",
    "rails": 2,
    "link_layer": "Ethernet",
    "active_mtu_bytes": 4096,
    "rate": "400 Gb/sec (4X NDR)",
}
WAN = {
    "round_trips_ms": [44, 0],
    "series_ms": [10, 20.5, 44],
    "reorder_percent": 0.02,
    "set": ["tc x"],
    "clear": ["tc y"],
    "window_bytes": [None, 8388608],
    "congestion": ["cubic"],
}
BOND = {"device": "bond0", "links": ["eth3", "eth4"], "link_gbits": 200, "mtu_bytes": 9000}


def partition(name: str = "gpu", nodes: str = "n[1-2]", **extras: Any) -> dict[str, Any]:
    """A partition with the features that its extras describe."""
    return {"name": name, "features": list(extras), "extras": {"nodes": nodes, **extras}}


def rails(number: int, **more: Any) -> dict[str, Any]:
    return {**RDMA, "rails": number, **more}


@pytest.fixture
def describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Describe]:
    """Makes the session's system one of these partitions."""
    monkeypatch.delenv("RAILGAUGE_NODES", raising=False)
    monkeypatch.delenv("RAILGAUGE_SERIES", raising=False)
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path)
    runtime = SimpleNamespace(system=SimpleNamespace(name="alps"))
    monkeypatch.setattr(rt, "runtime", lambda: runtime)
    systems.load.cache_clear()

    def describe(*partitions: dict[str, Any]) -> None:
        file = tmp_path / "alps" / "reframe.yaml"
        file.parent.mkdir()
        system = {"name": "alps", "hostnames": ["alps"], "partitions": list(partitions)}
        # YAML reads JSON.
        file.write_text(json.dumps(system))

    yield describe
    systems.load.cache_clear()


# ---- pairs ----


def pairs_once(*features: str) -> list[PairCase]:
    """The neighbours of each partition with these features, two nodes alone as one pair."""
    partitions = systems.load("alps").partitions
    return [p for q in partitions if set(features) <= set(q.features) for p in neighbours(q)]


def test_two_nodes_are_one_pair_of_neighbours(describe: Describe) -> None:
    describe(partition(rdma=RDMA))
    assert names(pairs_once("rdma")) == ["gpu:n1:n2"]


def test_two_nodes_are_a_ring_of_two(describe: Describe) -> None:
    describe(partition(rdma=RDMA))
    assert names(RingPairs("rdma")) == ["gpu:n1:n2", "gpu:n2:n1"]


def test_more_nodes_are_a_ring_of_neighbours(describe: Describe) -> None:
    describe(partition(nodes="n[1-3]", rdma=RDMA))
    assert names(pairs_once("rdma")) == ["gpu:n1:n2", "gpu:n2:n3", "gpu:n3:n1"]


def test_one_node_has_no_neighbour(describe: Describe) -> None:
    describe(partition(nodes="n1", rdma=RDMA))
    assert names(pairs_once("rdma")) == []


def test_only_partitions_with_every_feature_have_pairs(describe: Describe) -> None:
    describe(partition("a", rdma=RDMA), partition("b", rdma=RDMA, bond=BOND))
    assert names(pairs_once("rdma", "bond")) == ["b:n1:n2"]


def test_pairs_of_each_partition_are_its_own(describe: Describe) -> None:
    describe(partition("a", rdma=RDMA), partition("b", rdma=RDMA))
    assert names(pairs_once("rdma")) == ["a:n1:n2", "b:n1:n2"]


@pytest.mark.parametrize(
    ("chosen", "pairs"),
    [
        ("n[1-4]", ["gpu:n1:n2", "gpu:n2:n3", "gpu:n3:n4", "gpu:n4:n1"]),
        ("n1,n3", ["gpu:n1:n3"]),
        ("n3,n1", ["gpu:n1:n3"]),
        ("n[2-4],m7", ["gpu:n2:n3", "gpu:n3:n4", "gpu:n4:n2"]),
        ("n1", []),
        ("m7", []),
        ("", ["gpu:n1:n2", "gpu:n2:n3", "gpu:n3:n4", "gpu:n4:n1"]),
    ],
)
def test_chosen_nodes_are_a_ring_of_their_own(
    describe: Describe, monkeypatch: pytest.MonkeyPatch, chosen: str, pairs: list[str]
) -> None:
    describe(partition(nodes="n[1-4]", rdma=RDMA))
    monkeypatch.setenv("RAILGAUGE_NODES", chosen)
    assert names(pairs_once("rdma")) == pairs


# ---- rails ----


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("number", [1, 2, 8])
def test_first_rail_alone_is_one_link(describe: Describe, number: int, across: bool) -> None:
    describe(partition(rdma=rails(number, across_rails=across)))
    assert names(RailLinks("first")) == ["gpu:n1:n2:0-0"]


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("number", [1, 2, 8])
def test_every_rail_is_a_link_to_the_same_one(
    describe: Describe, number: int, across: bool
) -> None:
    describe(partition(rdma=rails(number, across_rails=across)))
    assert names(RailLinks("same")) == [f"gpu:n1:n2:{rail}-{rail}" for rail in range(number)]


@pytest.mark.parametrize("number", [1, 2, 8])
def test_rails_that_do_not_reach_each_other_have_no_link_across(
    describe: Describe, number: int
) -> None:
    describe(partition(nodes="n[1-3]", rdma=rails(number)))
    assert list(RailLinks("all")) == list(RailLinks("same"))


def test_each_of_two_nodes_sends_over_each_rail(describe: Describe) -> None:
    describe(partition(rdma=rails(2, across_rails=True)))
    links = list(RailLinks("all"))
    assert names(links[4:]) == ["gpu:n2:n1:0-0", "gpu:n2:n1:1-1"]


def test_single_rail_has_no_other_to_reach(describe: Describe) -> None:
    describe(partition(rdma=rails(1, across_rails=True)))
    assert names(RailLinks("all")) == ["gpu:n1:n2:0-0", "gpu:n2:n1:0-0"]


def test_two_rails_have_a_link_across_each_way(describe: Describe) -> None:
    describe(partition(rdma=rails(2, across_rails=True)))
    ends = [link.rails for link in RailLinks("all")][:4]
    assert ends == ["0-0", "1-1", "0-1", "1-0"]


def test_eight_rails_have_a_link_to_the_next_one_and_back_to_the_first(describe: Describe) -> None:
    describe(partition(rdma=rails(8, across_rails=True)))
    ends = [link.rails for link in RailLinks("all")][:16]
    across = ["0-1", "1-2", "2-3", "3-4", "4-5", "5-6", "6-7", "7-0"]
    assert ends == [*(f"{rail}-{rail}" for rail in range(8)), *across]


def test_an_absent_rail_of_a_node_is_in_no_link_and_the_others_keep_their_numbers(
    describe: Describe,
) -> None:
    named = rails(3, across_rails=True, names=["mlx5_0", "mlx5_1", "mlx5_2"])
    absent = [{"node": "n2", "devices": ["mlx5_1"], "why": "cable"}]
    describe(partition(rdma=named, absent=absent))
    assert names(RailLinks("same")) == ["gpu:n1:n2:0-0", "gpu:n1:n2:2-2"]
    across = [link.rails for link in RailLinks("all")]
    assert across == ["0-0", "2-2", "1-2", "2-0", "0-0", "2-2"]


def test_every_pair_has_all_its_links(describe: Describe) -> None:
    describe(partition(nodes="n[1-3]", rdma=rails(2)))
    assert names(RailLinks("same")) == [
        *("gpu:n1:n2:0-0", "gpu:n1:n2:1-1"),
        *("gpu:n2:n3:0-0", "gpu:n2:n3:1-1"),
        *("gpu:n3:n1:0-0", "gpu:n3:n1:1-1"),
    ]


def test_fabrics_that_cannot_do_it_are_left_out(describe: Describe) -> None:
    without = {**RDMA, "rdma_cm": False}
    describe(partition("without", rdma=without), partition("with", rdma=RDMA))
    assert names(RailLinks("first", only="rdma_cm")) == ["with:n1:n2:0-0"]


def test_system_without_rdma_has_no_links(describe: Describe) -> None:
    describe(partition(bond=BOND))
    assert names(RailLinks("all")) == []


# ---- long ways ----


def test_every_round_trip_is_measured_with_every_buffer(describe: Describe) -> None:
    describe(partition(wan=WAN))
    assert names(WanCases()) == [
        "gpu:n1:n2:0ms:default:cubic",
        "gpu:n1:n2:0ms:8388608:cubic",
        "gpu:n1:n2:44ms:default:cubic",
        "gpu:n1:n2:44ms:8388608:cubic",
    ]


def test_every_congestion_control_is_measured(describe: Describe) -> None:
    wan = {**WAN, "round_trips_ms": [44], "window_bytes": [None], "congestion": ["cubic", "bbr"]}
    describe(partition(wan=wan))
    assert names(WanCases()) == [
        "gpu:n1:n2:44ms:default:cubic",
        "gpu:n1:n2:44ms:default:bbr",
    ]


def series(describe: Describe, monkeypatch: pytest.MonkeyPatch, asked: str) -> list[float]:
    describe(partition(wan={**WAN, "window_bytes": [None]}))
    monkeypatch.setenv("RAILGAUGE_SERIES", asked)
    return [way.round_trip_ms for way in WanCases()]


def test_series_is_measured_when_it_is_asked_for_and_nothing_twice(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert series(describe, monkeypatch, "1") == [0, 10, 20.5, 44]


def test_series_is_not_measured_unasked(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert series(describe, monkeypatch, "") == [0, 44]


def test_long_ways_are_between_the_chosen_nodes(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(partition(nodes="n[1-4]", wan={**WAN, "round_trips_ms": [44]}))
    monkeypatch.setenv("RAILGAUGE_NODES", "n2,n4")
    assert {way.nodes for way in WanCases()} == {("n2", "n4")}


# ---- preflights ----


def test_every_node_with_rails_or_a_bond_has_a_preflight(describe: Describe) -> None:
    describe(
        partition("gpu", "n[1-2]", rdma=RDMA),
        partition("cpu", "c[1-9]", wan=WAN),
        partition("io", "s1", bond=BOND),
    )
    assert names(NodeStateCases()) == ["gpu:n1", "gpu:n2", "io:s1"]


def test_only_chosen_nodes_have_a_preflight(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(partition(nodes="n[1-4]", rdma=RDMA))
    monkeypatch.setenv("RAILGAUGE_NODES", "n[2-3]")
    assert names(NodeStateCases()) == ["gpu:n2", "gpu:n3"]


def numbered(values: Sequence[SweepCase]) -> Any:
    """A check of the preflight's name with a parameter of these values, as ReFrame makes one."""

    class NodeState(rfm.RunOnlyRegressionTest):
        sweep = parameter(values)

    return NodeState


@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 99, 100, 101])
def test_preflight_is_found_by_the_name_that_reframe_gives_it(
    describe: Describe, count: int
) -> None:
    describe(grouped("gpu", f"n[1-{2 * count}]"))
    sweeps = NodeStateCases().sweeps
    check = numbered(sweeps)
    assert (len(sweeps), check.__name__) == (count, node_state.NAME)
    found = {
        place: [(check.variant_name(number), place.place)]
        for number in range(check.num_variants)
        for place in check.get_variant_info(number)["params"]["sweep"].places
    }
    assert len(found) == 2 * count
    assert found == {place: of_states(place) for place in NodeStateCases()}


def grouped(name: str, nodes: str) -> dict[str, Any]:
    """A partition that is measured two nodes a job."""
    found = partition(name, nodes, rdma=RDMA)
    found["extras"]["sweep"] = {"nodes_per_job": 2}
    found["max_jobs"] = 1
    return found


def test_preflights_of_several_partitions_are_numbered_together(describe: Describe) -> None:
    describe(grouped("a", "n[1-12]"), grouped("b", "m[1-12]"))
    check = numbered(NodeStateCases().sweeps)
    (needed,) = of_states(NodeCase("b", "m9"))
    assert needed == (check.variant_name(10), "m9")
    assert check.num_variants == 12


def test_number_of_a_preflight_is_that_among_the_chosen_nodes(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(grouped("gpu", "n[1-20]"))
    monkeypatch.setenv("RAILGAUGE_NODES", "n[17-20]")
    assert of_states(NodeCase("gpu", "n20")) == [("NodeState_1", "n20")]


@pytest.mark.parametrize("rails_of", ["first", "same", "all"])
def test_every_link_has_a_preflight_at_both_ends(describe: Describe, rails_of: Any) -> None:
    describe(partition(nodes="n[1-12]", rdma=rails(2)))
    needed = {need for link in RailLinks(rails_of) for need in of_states(link)}
    assert needed == {("NodeState", node) for node in hostlist.expand("n[1-12]")}


def test_a_link_needs_no_preflight_of_another_partition(describe: Describe) -> None:
    describe(partition("a", "n[1-2]", rdma=RDMA), partition("b", "n[1-2]", wan=WAN))
    assert of_states(PairCase("b", "n1", "n2")) == []


# ---- sweeps ----


def test_a_partition_is_one_sweep_of_all_its_places(describe: Describe) -> None:
    describe(partition("a", "n[1-3]", rdma=rails(2)), partition("b", "m[1-2]", rdma=RDMA))
    sweeps = RailLinks("same").sweeps
    assert names(sweeps) == ["a", "b"]
    assert [place for sweep in sweeps for place in sweep.places] == list(RailLinks("same"))


def test_a_partition_without_places_has_no_sweep(describe: Describe) -> None:
    describe(partition("a", "n1", rdma=RDMA), partition("b", "m[1-2]", rdma=RDMA))
    assert names(RailLinks("same").sweeps) == ["b"]


@pytest.mark.parametrize(
    ("nodes", "groups"),
    [("n[1-4]", [4]), ("n[1-5]", [2, 3]), ("n[1-8]", [4, 4]), ("n[1-9]", [3, 3, 3])],
)
def test_nodes_of_a_large_partition_are_in_one_group_each(
    describe: Describe, nodes: str, groups: list[int]
) -> None:
    large = grouped("gpu", nodes)
    large["extras"]["sweep"] = {"nodes_per_job": 4}
    describe(large)
    sweeps = NodeStateCases().sweeps
    assert [len(sweep.nodes) for sweep in sweeps] == groups
    assert [node for sweep in sweeps for node in sweep.nodes] == list(hostlist.expand(nodes))
    assert len({str(sweep) for sweep in sweeps}) == len(sweeps)


def test_pairs_of_a_group_are_a_ring_of_their_own(describe: Describe) -> None:
    describe(grouped("gpu", "n[1-4]"))
    pairs = [names(sweep.places) for sweep in RingPairs("rdma").sweeps]
    assert pairs == [["gpu:n1:n2", "gpu:n2:n1"], ["gpu:n3:n4", "gpu:n4:n3"]]
