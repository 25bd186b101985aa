"""What is wrong with a subnet is held against the right nodes, and against no other."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.checks.preflight import subnet_state
from railgauge.checks.preflight.subnet_state import Judgement
from railgauge.fabric import expected
from railgauge.fabric.check import check
from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.folder import Fabric
from railgauge.fabric.subnet import Cable, Clash, Device, Rate
from railgauge.lab.subnet_topology import leaf_spine
from railgauge.model.failure import ENVIRONMENT, OF_THE_SUBNET
from railgauge.tools import ParseError
from tests.unit.fabric.planted import fabric, with_cables, with_devices

NODES = ("n1", "n2", "n3", "n4")
#: storage1 is a host of the subnet and no node.
HEALTHY = fabric(leaf_spine([*NODES, "storage1"], 2, 2))
WANTED = expected.of_fabric(HEALTHY)


def judge(
    faulty: Fabric,
    nodes: Sequence[str] = NODES,
    wanted: expected.Expected | None = WANTED,
    guids: Mapping[str, frozenset[int]] | None = None,
    absent: Mapping[str, Sequence[str]] | None = None,
) -> Judgement:
    found = check(faulty, wanted)
    return subnet_state.judge(found, faulty.subnet, wanted, nodes, guids or {}, absent or {})


def device(name: str) -> Device:
    return next(one for one in HEALTHY.subnet.devices.values() if one.name == name)


def cable(a: str, b: str = "") -> Cable:
    """The first cable between two devices, or of one."""
    for one in HEALTHY.subnet.cables:
        names = {HEALTHY.subnet.devices[end.guid].name for end in (one.a, one.b)}
        if {a, *([b] if b else [])} <= names:
            return one
    raise KeyError(a)


def with_lanes(chosen: Cable, lanes: int = 1) -> Fabric:
    others = [one for one in HEALTHY.subnet.cables if one != chosen]
    return with_cables(HEALTHY, [*others, dataclasses.replace(chosen, rate=Rate(lanes, "QDR"))])


def without(name: str) -> Fabric:
    """The subnet without a device and its cables."""
    guid = device(name).guid
    cables = [c for c in HEALTHY.subnet.cables if guid not in (c.a.guid, c.b.guid)]
    kept = {g: one for g, one in HEALTHY.subnet.devices.items() if g != guid}
    return with_devices(with_cables(HEALTHY, cables), kept)


def renamed(**names: str) -> Fabric:
    """The HCAs with other descriptions: `n1="MT4129"`."""
    devices = {
        guid: dataclasses.replace(one, name=names.get(one.host, one.name))
        for guid, one in HEALTHY.subnet.devices.items()
    }
    return with_devices(HEALTHY, devices)


# ---- the judgement ----


def test_a_healthy_subnet_has_no_failure_and_every_nodes_links() -> None:
    judged = judge(HEALTHY)
    assert judged.links == {**dict.fromkeys(NODES, 2)}
    assert (judged.of_node, judged.of_subnet, judged.not_found) == ({}, (), None)
    assert [judged.failures(node) for node in NODES] == [()] * 4


def test_a_narrow_link_of_a_host_names_the_host_alone() -> None:
    judged = judge(with_lanes(cable("n2 mlx5_1")))
    (failure,) = judged.failures("n2")
    assert (failure.kind, failure.nodes) == ("link-width", ("n2",))
    assert "leaf1 port" in failure.message and "n2 mlx5_1 port 1" in failure.message
    assert failure.next_step
    assert judged.of_subnet == ()
    assert [judged.failures(node) for node in ("n1", "n3", "n4")] == [()] * 3


def test_a_narrow_link_between_switches_names_no_node() -> None:
    judged = judge(with_lanes(cable("leaf1", "spine2")))
    (failure,) = judged.of_subnet
    assert (failure.kind, failure.nodes) == ("link-width", ())
    assert "spine2" in failure.message and "leaf1" in failure.message
    assert judged.of_node == {}


def test_a_missing_hca_is_its_hosts() -> None:
    (failure,) = judge(without("n3 mlx5_0")).failures("n3")
    assert (failure.kind, failure.nodes) == ("device-missing", ("n3",))


def test_without_expected_cabling_a_host_with_fewer_hcas_is_named_by_its_peers() -> None:
    judged = judge(without("n3 mlx5_0"), wanted=None)
    assert [(f.kind, f.nodes) for f in judged.failures("n3")] == [("host-hcas", ("n3",))]


def test_a_moved_cable_is_not_held_against_its_host() -> None:
    moved = cable("n1 mlx5_0")
    leaf1, leaf2, hca = device("leaf1"), device("leaf2"), device("n1 mlx5_0")
    assert leaf1.guid in (moved.a.guid, moved.b.guid)
    (near,) = [end for end in (moved.a, moved.b) if end.guid == hca.guid]
    elsewhere = near._replace(guid=leaf2.guid, port=leaf2.ports)
    ends = sorted((near, elsewhere))
    others = [one for one in HEALTHY.subnet.cables if one != moved]
    judged = judge(with_cables(HEALTHY, [*others, Cable(ends[0], ends[1], moved.rate)]))
    assert [(f.kind, f.nodes) for f in judged.of_subnet] == [("cable-moved", ())]
    assert judged.of_node == {}


def test_a_switch_that_is_gone_names_no_node_that_has_its_links() -> None:
    judged = judge(without("spine1"))
    assert [(f.kind, f.nodes) for f in judged.of_subnet] == [("device-missing", ())]
    assert judged.of_node == {}


@pytest.mark.parametrize("nodes", [NODES, NODES[:1]])
def test_a_host_that_is_not_tested_is_a_note(nodes: Sequence[str]) -> None:
    judged = judge(with_lanes(cable("storage1 mlx5_0")), nodes)
    assert (judged.of_node, judged.of_subnet) == ({}, ())
    (note,) = judged.notes
    assert "storage1 mlx5_0 port 1" in note and "not tested here" in note


def test_a_node_of_another_session_is_a_note() -> None:
    judged = judge(with_lanes(cable("n4 mlx5_0")), ("n1", "n2"))
    assert (judged.of_node, judged.of_subnet, len(judged.notes)) == ({}, (), 1)


def test_what_is_declared_absent_is_a_note() -> None:
    judged = judge(without("n3 mlx5_0"), absent={"n3": ("mlx5_0",)})
    assert (judged.of_node, judged.of_subnet, len(judged.notes)) == ({}, (), 1)
    assert judge(without("n3 mlx5_1"), absent={"n3": ("mlx5_0",)}).failures("n3")
    by_peers = judge(without("n3 mlx5_0"), wanted=None, absent={"n3": ("mlx5_0",)})
    assert by_peers.of_node == {}


def test_a_subnet_without_a_manager_fails_wherever_that_shows() -> None:
    idle = {p: dataclasses.replace(s, state="Initialize") for p, s in HEALTHY.subnet.states.items()}
    subnet = dataclasses.replace(HEALTHY.subnet, states=idle)
    judged = judge(dataclasses.replace(HEALTHY, subnet=subnet), ("n1",))
    assert [(f.kind, f.nodes) for f in judged.of_subnet] == [("subnet-not-active", ())]


def test_a_host_is_known_by_the_guids_that_it_states() -> None:
    """The description of an HCA is that of its model until rdma-ndd has run."""
    hcas = {device(f"n2 mlx5_{number}").guid: f"MT4129 {number}" for number in (0, 1)}

    def undescribed(one: Fabric) -> Fabric:
        devices = {
            guid: dataclasses.replace(each, name=hcas.get(guid, each.name))
            for guid, each in one.subnet.devices.items()
        }
        return with_devices(one, devices)

    wanted = expected.of_fabric(undescribed(HEALTHY))
    faulty = undescribed(with_lanes(cable("n2 mlx5_1")))
    judged = judge(faulty, wanted=wanted, guids={"n2": frozenset(hcas)})
    assert judged.links["n2"] == 2
    assert [(f.kind, f.nodes) for f in judged.failures("n2")] == [("link-width", ("n2",))]
    unknown = judge(faulty, wanted=wanted)
    assert unknown.of_node == {}
    assert [(f.kind, f.nodes) for f in unknown.failures("n2")] == [(ENVIRONMENT, ())]


def test_a_node_may_have_a_longer_name_than_its_host() -> None:
    judged = judge(HEALTHY, ("n1.cluster", "n2.cluster"))
    assert judged.links == {"n1.cluster": 2, "n2.cluster": 2}


@pytest.mark.parametrize(
    ("nodes", "guids"),
    [((*NODES, "n5"), {"n5": frozenset({0x1234})}), ((*NODES, "storage1", "n5"), {})],
    ids=["it states other HCAs", "all HCAs are of others"],
)
def test_a_node_without_any_hca_in_the_subnet_is_named(
    nodes: Sequence[str], guids: Mapping[str, frozenset[int]]
) -> None:
    judged = judge(HEALTHY, nodes, wanted=None, guids=guids)
    (failure,) = judged.failures("n5")
    assert (failure.kind, failure.nodes) == ("host-hcas", ("n5",))
    assert judged.failures("n1") == ()


@pytest.mark.parametrize(
    ("faulty", "nodes"),
    [
        (HEALTHY, ("a1", "a2")),
        (renamed(n1="MT4129 ConnectX7", n2="MT4129 ConnectX7"), NODES),
        (renamed(n1=""), NODES),
        (HEALTHY, (*NODES, "n5")),
        (
            dataclasses.replace(
                without("n1 mlx5_0"),
                subnet=dataclasses.replace(
                    without("n1 mlx5_0").subnet, clashes=(Clash(cable("n2 mlx5_0").a, ()),)
                ),
            ),
            ("n2", "n5"),
        ),
    ],
    ids=["other names", "one description", "no description", "a strange host", "a GUID twice"],
)
def test_a_node_that_may_be_there_is_not_accused(faulty: Fabric, nodes: Sequence[str]) -> None:
    judged = judge(faulty, nodes, wanted=None)
    lost = [node for node in nodes if node not in judged.links]
    assert lost
    for node in lost:
        (failure,) = judged.failures(node)
        assert (failure.kind, failure.nodes) == (ENVIRONMENT, ())
        assert failure.next_step


def test_many_notes_are_counted() -> None:
    note = FabricFinding("counter-saturated", "leaf1", 1, "", "stands", "look", "note")
    judged = subnet_state.judge([note] * 30, HEALTHY.subnet, WANTED, NODES, {}, {})
    assert judged.notes[-1] == "and 25 more" and len(judged.notes) == 6


def test_what_was_not_read_fails_all_but_those_with_a_fault_of_their_own() -> None:
    unread = subnet_state.unread_file("n1", {"dump_fts.txt": "dump_fts: exit code 1"})
    judged = dataclasses.replace(judge(with_lanes(cable("n2 mlx5_1"))), unread=unread)
    assert judged.failures("n1") == (unread,)
    assert [failure.kind for failure in judged.failures("n2")] == ["link-width"]


def test_the_kinds_of_the_subnet_are_those_that_fabric_reports() -> None:
    """A further one is decided: it names no node but those of its failure."""
    from railgauge import paths
    from railgauge.model import catalogue

    text = "".join(
        path.read_text() for path in (paths.SOURCE / "railgauge" / "fabric").glob("*.py")
    )
    notes = {"counter-saturated", "firmware-changed", "lids-changed"}
    reported = {kind for kind in catalogue.kinds() if f'"{kind}"' in text}
    assert set(OF_THE_SUBNET) == reported - notes


# ---- what a node leaves ----


def packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode())).decode()


LEFT: dict[str, Any] = {
    "guids": ["0x0201000000000030"],
    "texts": {"ibnetdiscover.txt": packed("# Topology\n")},
    "errors": {"dump_fts.txt": "dump_fts: exit code 255"},
}


def test_a_document_is_read_whole() -> None:
    read = subnet_state.parse(json.dumps(LEFT))
    assert read.guids == {0x0201000000000030}
    assert read.texts == {"ibnetdiscover.txt": "# Topology\n"}
    assert read.errors == {"dump_fts.txt": "dump_fts: exit code 255"}


@given(st.integers(min_value=0, max_value=len(json.dumps(LEFT)) - 1))
def test_no_part_of_a_document_passes_for_it(length: int) -> None:
    with pytest.raises(ParseError):
        subnet_state.parse(json.dumps(LEFT)[:length])


@pytest.mark.parametrize(
    "change",
    [
        {"guids": None},
        {"guids": ["x"]},
        {"guids": [1]},
        {"texts": ["a"]},
        {"texts": {"a": "%"}},
        {"texts": {"a": None}},
        {"texts": {"a": packed("much" * 100)[:-8] + "AAAAAAA="}},
        {"texts": {"a": packed("much" * 100)[:16]}},
        {"errors": None},
    ],
)
def test_a_broken_part_is_an_error(change: Mapping[str, Any]) -> None:
    with pytest.raises(ParseError):
        subnet_state.parse(json.dumps({**LEFT, **change}))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    )
)
def test_any_other_document_is_an_error(document: Any) -> None:
    with pytest.raises(ParseError):
        subnet_state.parse(json.dumps(document))


def test_only_the_reader_is_given_commands() -> None:
    from railgauge.systems import Infiniband

    how = Infiniband(device="mlx5_2:1", prefix=["sudo", "-n"])
    assert "--read" not in subnet_state.argv(how, reads=False)
    *_, commands = subnet_state.argv(how, reads=True)
    read = json.loads(commands)
    words = ["sudo", "-n", "ibnetdiscover", "-C", "mlx5_2", "-P", "1"]
    assert read["ibnetdiscover.txt"] == {"argv": words, "good": [0]}
    assert read["ibqueryerrors.txt"]["good"] == [0, 1]
