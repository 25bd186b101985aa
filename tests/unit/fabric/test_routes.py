"""Leaves, routes and Slurm's topology, of the cables of a subnet."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from railgauge.fabric import routes
from railgauge.fabric.folder import FabricError
from railgauge.fabric.subnet import Cable, Device, PortId, Subnet
from railgauge.lab import subnet_topology
from railgauge.lab.subnet_topology import fat_tree, leaf_spine
from railgauge.locating import End
from railgauge.verdict.location import from_csv
from tests.unit.fabric.planted import fabric

SMALL = fabric(leaf_spine([f"n{number}" for number in range(1, 9)], 4, 2, hcas=1))
RAILS = fabric(leaf_spine(["n1", "n2"], 2, 2))
LARGE = fabric(fat_tree(2, 2, 4, 2, 2))


def test_routes_are_what_locate_reads() -> None:
    assert SMALL.tables is not None
    rows = routes.routes(SMALL.subnet, SMALL.tables)
    read = from_csv.read_routes(
        "leaf,destination,spine\n" + "".join(",".join(r) + "\n" for r in rows)
    )
    assert read.spines == 2
    for row in rows:
        assert read.spine(row.leaf, End("n1"), End(row.destination)) == row.spine
    # Every leaf has routes to the six hosts of other leaves.
    assert len(rows) == 4 * 6


def test_a_spine_is_the_one_that_the_tables_lead_to() -> None:
    assert SMALL.tables is not None
    subnet = SMALL.subnet
    of_name = {device.name: device for device in subnet.devices.values()}
    for row in routes.routes(subnet, SMALL.tables):
        sender = next(d for d in subnet.hcas() if row.leaf == leaf_of(d.guid))
        receiver = next(d for d in subnet.hcas() if d.host == row.destination)
        ports = routes.path(subnet, SMALL.tables, sender, receiver)
        assert ports[1].guid == of_name[row.spine].guid


def leaf_of(guid: int) -> str:
    return SMALL.subnet.devices[SMALL.subnet.leaf_of_hca[guid][0]].name


def test_a_route_names_the_rail_of_a_host_with_several() -> None:
    assert RAILS.tables is not None
    rows = routes.routes(RAILS.subnet, RAILS.tables)
    assert {row.destination for row in rows} == {f"n{n}:mlx5_{r}" for n in (1, 2) for r in (0, 1)}


def test_of_three_levels_a_spine_is_a_plane() -> None:
    """What goes up from a leaf to a plane comes down from it to another pod's leaf."""
    assert LARGE.tables is not None
    rows = routes.routes(LARGE.subnet, LARGE.tables)
    assert {row.spine for row in rows} == {"plane1", "plane2"}
    planes = routes.planes(LARGE.subnet)
    assert sorted(map(len, planes.values())) == [4, 4]


def test_parallel_cables_are_an_uplink_each() -> None:
    wide = fabric(leaf_spine(["n1", "n2", "n3", "n4"], 2, 1, hcas=1, links=2))
    assert wide.tables is not None
    rows = routes.routes(wide.subnet, wide.tables)
    assert {row.spine for row in rows if row.leaf == "leaf1"} == {"spine1#3", "spine1#4"}


def test_a_table_that_leads_nowhere_is_an_error() -> None:
    assert SMALL.tables is not None
    sender, receiver = SMALL.subnet.hcas()[0], SMALL.subnet.hcas()[-1]
    empty: dict[int, dict[int, int]] = {guid: {} for guid in SMALL.tables}
    with pytest.raises(FabricError, match="no route"):
        routes.path(SMALL.subnet, empty, sender, receiver)


def test_leaves_have_their_hosts() -> None:
    assert routes.leaves(SMALL.subnet) == {
        "leaf1": ["n1", "n2"],
        "leaf2": ["n3", "n4"],
        "leaf3": ["n5", "n6"],
        "leaf4": ["n7", "n8"],
    }
    assert routes.ports(RAILS.subnet)["n2"] == {"mlx5_0": "leaf2 1", "mlx5_1": "leaf2 2"}


def test_leaves_of_the_rails_of_the_same_hosts_are_one() -> None:
    """A rail-optimised fabric: the second HCA of every host is on a leaf of its own."""
    lab = leaf_spine(["n1", "n2"], 1, 1)
    moved = {"n1 mlx5_1": 7, "n2 mlx5_1": 8}
    other = dataclasses.replace(lab.device("leaf1"), name="leaf2", guid=0x0200000000000009)
    cables = [
        dataclasses.replace(c, b=c.b._replace(device="leaf2", port=moved[c.a.device]))
        if c.a.device in moved
        else c
        for c in lab.cables
    ]
    both = dataclasses.replace(lab, devices=(*lab.devices, other), cables=tuple(cables))
    assert routes.leaves(fabric_of(both)) == {"leaf1": ["n1", "n2"]}


def test_hosts_without_a_description_of_their_own_are_an_error() -> None:
    devices = {
        guid: dataclasses.replace(device, name="MT4123") if device.kind == "hca" else device
        for guid, device in SMALL.subnet.devices.items()
    }
    routes.require_names(SMALL.subnet)
    with pytest.raises(FabricError, match="8 HCAs have the description 'MT4123'"):
        routes.require_names(dataclasses.replace(SMALL.subnet, devices=devices))
    first = SMALL.subnet.hcas()[0]
    one = {**SMALL.subnet.devices, first.guid: dataclasses.replace(first, name="")}
    with pytest.raises(FabricError, match="1 HCA has the description ''"):
        routes.require_names(dataclasses.replace(SMALL.subnet, devices=one))


def fabric_of(lab: subnet_topology.Subnet) -> Subnet:
    guid = {d.name: d.guid for d in lab.devices}
    cables = [
        Cable(*sorted(PortId(guid[e.device], e.port) for e in (c.a, c.b)), None) for c in lab.cables
    ]
    return Subnet(
        {d.guid: Device(d.guid, d.kind, d.name, d.ports) for d in lab.devices}, tuple(cables)
    )


def test_topology_conf_is_a_tree_of_all_hosts() -> None:
    switches = routes.slurm_switches(LARGE.subnet)
    below = [name for switch in switches for name in switch.switches]
    assert len(below) == len(set(below)) == len(switches) - 1
    assert sum(len(switch.nodes) for switch in switches) == 16
    text = routes.topology_conf(switches)
    assert "SwitchName=pod1-leaf1 Nodes=n[0001-0004]\n" in text
    assert list(routes.differences(LARGE.subnet, routes.leaves_of_conf(text))) == []


def test_topology_yaml_has_the_same_tree() -> None:
    switches = routes.slurm_switches(SMALL.subnet)
    (topology,) = yaml.safe_load(routes.topology_yaml(switches))
    assert topology["cluster_default"] is True
    assert topology["tree"]["switches"] == [
        *({"switch": f"leaf{n}", "nodes": f"n[{2 * n - 1}-{2 * n}]"} for n in (1, 2, 3, 4)),
        {"switch": "spine1", "children": "leaf[1-4]"},
    ]


def test_a_node_on_another_leaf_in_slurm_is_a_difference() -> None:
    """Slurm's leaves have other names: those with most of a leaf's nodes are meant."""
    text = (
        "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-5]\nSwitchName=s3 Nodes=n6\n"
        "SwitchName=s4 Nodes=n7\nSwitchName=top Switches=s[1-4]\n"
    )
    found = list(routes.differences(SMALL.subnet, routes.leaves_of_conf(text)))
    assert found == [("n5", "leaf3", "s2"), ("n8", "leaf4", "")]


def test_a_line_that_is_none_of_topology_conf_is_named() -> None:
    with pytest.raises(FabricError, match="line 2"):
        routes.leaves_of_conf("SwitchName=s1 Nodes=n1\nSwitch=s2\n")
