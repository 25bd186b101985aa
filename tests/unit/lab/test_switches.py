"""A lab on leaves and spines: its addresses, its routes, and what Slurm is told of them."""

from __future__ import annotations

import ipaddress
import itertools
from typing import Any

import pydantic
import pytest

from railgauge import hostlist, systems
from railgauge.lab import network, render, spec, switches
from railgauge.lab.releases import RELEASES
from railgauge.lab.spec import LabSpec


def described(**changes: Any) -> LabSpec:
    return LabSpec.model_validate(
        {
            "network": {"subnet": "10.9.0.0/20", "mtu_bytes": 1500, "link_gbits": 0.1},
            "switches": {"leaves": 2, "spines": 3, "uplink_gbits": 0.2},
            "head": {"name": "login"},
            "nodes": [
                {"names": "n[1-5]", "kind": "namespace", "cpus": 1, "memory_mib": 700, "gpus": 0}
            ],
            **changes,
        }
    )


SPEC = described()
LAB32 = spec.load(spec.file("lab32"))


# ---- addresses ----


def test_nodes_are_on_the_leaves_in_their_order_and_evenly() -> None:
    assert [node.leaf for node in SPEC.all_nodes()] == ["leaf1"] * 3 + ["leaf2"] * 2
    assert SPEC.nodes_of("leaf2") == ["n4", "n5"]


def test_every_leaf_has_a_subnet_and_is_the_gateway_of_its_nodes() -> None:
    assert [str(s.subnet) for s in SPEC.all_switches()[:2]] == ["10.9.1.0/24", "10.9.2.0/24"]
    assert [(node.address, node.gateway) for node in SPEC.all_nodes()] == [
        ("10.9.1.11", "10.9.1.1"),
        ("10.9.1.12", "10.9.1.1"),
        ("10.9.1.13", "10.9.1.1"),
        ("10.9.2.11", "10.9.2.1"),
        ("10.9.2.12", "10.9.2.1"),
    ]


def test_the_head_has_a_subnet_of_its_own() -> None:
    assert (SPEC.head_address, SPEC.prefix_length) == ("10.9.0.1", 24)


def test_every_leaf_and_the_head_have_a_link_to_every_spine() -> None:
    pairs = itertools.product(["login", "leaf1", "leaf2"], ["spine1", "spine2", "spine3"])
    assert [(link.lower, link.spine) for link in SPEC.uplinks()] == list(pairs)
    assert [link.gbits for link in SPEC.uplinks()] == [None] * 3 + [0.2] * 6


@pytest.mark.parametrize("cluster", [SPEC, LAB32], ids=["small", "lab32"])
def test_no_two_subnets_overlap(cluster: LabSpec) -> None:
    subnets = [switch.subnet for switch in cluster.all_switches() if switch.subnet]
    subnets += [cluster.head_subnet, *(link.subnet for link in cluster.uplinks())]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(subnets, 2))
    assert all(subnet.subnet_of(cluster.network.subnet) for subnet in subnets)


def test_without_switches_the_nodes_are_in_one_subnet() -> None:
    flat = spec.load()
    assert flat.all_switches() == [] and flat.uplinks() == []
    assert {(node.leaf, node.gateway) for node in flat.all_nodes()} == {(None, None)}


# ---- routes ----


def test_a_leaf_spreads_what_leaves_it_over_all_spines() -> None:
    (route,) = switches.routes(SPEC, "leaf2")
    assert route == (
        "route replace 10.9.0.0/20 src 10.9.2.1 "
        "nexthop via 10.9.15.13 nexthop via 10.9.15.15 nexthop via 10.9.15.17"
    )


def test_a_packet_with_the_mark_of_a_spine_goes_by_it_and_others_as_ever() -> None:
    lines = switches.ways(SPEC, "leaf2")
    assert lines[:3] == [
        "rule flush",
        "rule add priority 32766 lookup main",
        "rule add priority 32767 lookup default",
    ]
    assert lines[3:5] == [
        "route replace 10.9.0.0/20 via 10.9.15.13 table 101",
        "rule add priority 101 fwmark 1 lookup 101",
    ]
    assert len(lines) == 3 + 2 * 3


@pytest.mark.parametrize(
    ("mode", "rules"), [("ecmp", 0), ("ecmp-l3", 0), ("flowlet", 2), ("packet", 1)]
)
def test_only_what_comes_from_a_leaf_s_own_nodes_is_marked(mode: str, rules: int) -> None:
    lines = switches.marking(mode, 4).splitlines()
    assert len(lines) == rules
    assert all(line.strip().startswith(f'iifname "{network.BRIDGE}" meta ') for line in lines)


def test_every_mode_says_how_flows_are_hashed() -> None:
    policies = {m: s["net.ipv4.fib_multipath_hash_policy"] for m, s in switches.MODES.items()}
    assert policies == {"ecmp": 3, "ecmp-l3": 0, "flowlet": 3, "packet": 3}


def test_the_head_does_as_a_leaf_does() -> None:
    (route,) = switches.routes(SPEC, "login")
    assert route.startswith("route replace 10.9.0.0/20 src 10.9.0.1 nexthop via 10.9.15.1 ")


def test_a_spine_reaches_every_leaf_and_the_head_by_its_own_link() -> None:
    assert switches.routes(SPEC, "spine2") == [
        "route replace 10.9.0.0/24 via 10.9.15.2",
        "route replace 10.9.1.0/24 via 10.9.15.8",
        "route replace 10.9.2.0/24 via 10.9.15.14",
    ]


def test_flows_are_spread_by_addresses_protocol_and_ports() -> None:
    # Documentation/networking/ip-sysctl.rst: source 0x1, destination 0x2, protocol 0x4, ports
    # 0x10 and 0x20.
    fields = switches.ROUTING["net.ipv4.fib_multipath_hash_fields"]
    assert switches.ROUTING["net.ipv4.fib_multipath_hash_policy"] == 3
    assert fields == 0x1 | 0x2 | 0x4 | 0x10 | 0x20


def test_only_a_leaf_bridges_its_nodes() -> None:
    leaf, *_, spine = SPEC.all_switches()
    assert "address add 10.9.1.1/24 dev br0" in switches.bridge(SPEC, leaf)
    assert switches.bridge(SPEC, spine) == []


# ---- what Slurm is told ----


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_slurm_is_told_of_the_leaves_as_a_tree(release: Any) -> None:
    files = render.render(SPEC, {"ns": "n[1-5]"}, release)
    assert "TopologyPlugin=topology/tree" in files["slurm.conf"].splitlines()
    lines = [line for line in files["topology.conf"].splitlines() if line[0] != "#"]
    assert lines == [
        "SwitchName=leaf1 Nodes=n[1-3]",
        "SwitchName=leaf2 Nodes=n[4-5]",
        "SwitchName=spines Switches=leaf[1-2]",
    ]


def test_the_head_and_the_nodes_find_each_other_by_name() -> None:
    hosts = render.render(SPEC, {})["hosts"].splitlines()
    assert {"10.9.0.1 login", "10.9.1.11 n1", "10.9.2.12 n5"} <= set(hosts)


# ---- what does not fit ----


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"nodes": [{"names": "n1", "kind": "vm", "cpus": 1, "memory_mib": 64, "gpus": 0}]},
            "namespace nodes only",
        ),
        ({"blocks": {"size": 5, "members": ["n[1-5]"]}}, "Slurm has one topology"),
        (
            {"network": {"subnet": "10.9.0.0/23", "mtu_bytes": 1500, "link_gbits": 1}},
            "has 2 parts of /24, expected 4",
        ),
        ({"switches": {"leaves": 6, "spines": 1, "uplink_gbits": 1}}, "5 nodes on 6 leaves"),
    ],
    ids=["a VM", "blocks", "a small subnet", "an empty leaf"],
)
def test_what_leaves_cannot_have_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=says):
        described(**changes)


# ---- the larger lab ----


def test_the_larger_lab_has_32_nodes_on_4_leaves() -> None:
    names = [node.name for node in LAB32.all_nodes()]
    assert hostlist.fold(names) == "n[1-32]"
    leaves = [switch.name for switch in LAB32.all_switches() if switch.kind == "leaf"]
    assert [len(LAB32.nodes_of(leaf)) for leaf in leaves] == [8, 8, 8, 8]


def test_the_larger_labs_uplinks_carry_what_the_nodes_of_a_leaf_send() -> None:
    assert LAB32.switches is not None
    up = LAB32.switches.spines * LAB32.switches.uplink_gbits
    assert up >= len(LAB32.nodes_of("leaf1")) * LAB32.network.link_gbits


def test_the_larger_lab_and_its_system_agree() -> None:
    (partition,) = systems.load("lab32").partitions
    assert list(partition.nodes) == [node.name for node in LAB32.all_nodes()]
    assert partition.extras.mtu_bytes == LAB32.network.mtu_bytes
    assert partition.extras.link_gbits == LAB32.network.link_gbits


def test_the_head_is_called_as_no_other_labs() -> None:
    assert LAB32.head.name != spec.load().head.name
    assert ipaddress.ip_address(LAB32.head_address) in LAB32.network.subnet
