"""The uplinks of each pair of HCAs, by the forwarding tables of a subnet."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.fabric import folder, routes
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.fabric.static_routes import TABLES, TOPOLOGY, StaticRoutes, Uplinks, from_reading
from railgauge.fabric.subnet import Device
from railgauge.lab.subnet_topology import fat_tree, leaf_spine
from tests.unit.fabric.planted import fabric

HOSTS64 = paths.HOME / "tests" / "data" / "infiniband" / "hosts64"

WIDE = fabric(leaf_spine([f"n{number}" for number in range(1, 9)], 4, 2, hcas=2, links=2))


def hca(of: Fabric, name: str) -> Device:
    return next(device for device in of.subnet.hcas() if device.name == name)


def changed(of: Fabric, switch: str, lid: int, port: int) -> Fabric:
    """The fabric with another port for a LID in a switch's table."""
    assert of.tables is not None
    guid = next(d.guid for d in of.subnet.switches() if d.name == switch)
    return dataclasses.replace(of, tables={**of.tables, guid: {**of.tables[guid], lid: port}})


def test_of_the_tables_of_opensm_each_pair_has_the_spine_of_its_destination() -> None:
    """As `railgauge fabric routes` has them: up to a spine, and down from the same one."""
    read = folder.from_folder(HOSTS64)
    assert read.tables is not None
    static = StaticRoutes(read)
    spines = {(r.leaf, r.destination): r.spine for r in routes.routes(read.subnet, read.tables)}
    for sender in read.subnet.hcas():
        for receiver in read.subnet.hcas():
            leaf = static.leaf(sender.guid)
            if leaf == static.leaf(receiver.guid):
                assert static.uplinks(sender.guid, receiver.guid) is None
                continue
            spine = spines[leaf, receiver.host]
            assert static.uplinks(sender.guid, receiver.guid) == Uplinks(spine, spine)


@pytest.mark.parametrize("of", [WIDE, fabric(fat_tree(2, 2, 4, 2, 2))], ids=["wide", "fat tree"])
def test_uplinks_are_the_first_and_the_last_cable_between_switches(of: Fabric) -> None:
    """Of parallel cables each is named by the port of its own leaf."""
    assert of.tables is not None
    static, subnet = StaticRoutes(of), of.subnet
    ports = static.ports()
    for sender in subnet.hcas():
        for receiver in subnet.hcas():
            uplinks = static.uplinks(sender.guid, receiver.guid)
            if uplinks is None:
                continue
            first, *_, last, _ = routes.path(subnet, of.tables, sender, receiver)
            leaves = static.leaf(sender.guid), static.leaf(receiver.guid)
            there = subnet.cable_at[last].other(last)
            far = subnet.cable_at[first].other(first)
            assert ports[f"{leaves[0]}:{uplinks.up}"] == (
                f"{subnet.end(first)} (cable to {subnet.end(far)})"
            )
            assert ports[f"{leaves[1]}:{uplinks.down}"] == (
                f"{subnet.end(there)} (cable to {subnet.end(last)})"
            )


def test_each_hca_of_a_host_has_a_route_of_its_own() -> None:
    static = StaticRoutes(WIDE)
    sender = hca(WIDE, "n1 mlx5_0").guid
    ways = {static.uplinks(sender, hca(WIDE, f"n8 mlx5_{rail}").guid) for rail in (0, 1)}
    assert len(ways) == 2 and None not in ways


def test_rows_are_the_routes_from_the_leaves_of_the_same_rail() -> None:
    static = StaticRoutes(WIDE)
    hosts = {f"n{number}" for number in range(1, 9)}
    assert len(static.hcas(hosts)) == 16
    found = {(leaf, guid): (up, down) for leaf, up, down, of in static.rows(hosts) for guid in of}
    # From each of four leaves to the twelve HCAs of the others.
    assert len(found) == 4 * 12
    for (leaf, guid), way in found.items():
        name = WIDE.subnet.devices[guid].name.split()[1]
        sender = next(
            d for d in WIDE.subnet.hcas() if static.leaf(d.guid) == leaf and d.name.endswith(name)
        )
        assert static.uplinks(sender.guid, guid) == way
    assert static.rows({"n1"}) == [] and static.hcas({"other"}) == {}


# ---- what gives no route ----


@pytest.mark.parametrize(
    ("switch", "port"),
    [("leaf1", 0), ("leaf1", 99), ("leaf4", 0), ("leaf4", 1), ("leaf1", 1)],
    ids=["no entry", "no cable", "lost at the end", "another host", "another host at once"],
)
def test_a_table_that_does_not_lead_to_the_hca_gives_no_route(switch: str, port: int) -> None:
    receiver = hca(WIDE, "n8 mlx5_1")
    sender = hca(WIDE, "n1 mlx5_0").guid
    assert StaticRoutes(WIDE).uplinks(sender, receiver.guid) is not None
    wrong = StaticRoutes(changed(WIDE, switch, receiver.lid, port))
    assert wrong.uplinks(sender, receiver.guid) is None


def test_a_way_over_a_third_leaf_or_in_a_circle_gives_no_route() -> None:
    receiver, sender = hca(WIDE, "n8 mlx5_1"), hca(WIDE, "n1 mlx5_0")
    # Ports 1 and 2 of each spine are cabled to leaf1, 3 and 4 to leaf2.
    for port in (1, 3):
        wrong = changed(changed(WIDE, "spine1", receiver.lid, port), "spine2", receiver.lid, port)
        assert StaticRoutes(wrong).uplinks(sender.guid, receiver.guid) is None
    # Up to spine1, down to leaf2, and from there by spine2: ports 5 and 6 of a leaf are cabled to
    # spine1, 7 and 8 to spine2.
    wrong = changed(WIDE, "leaf1", receiver.lid, 5)
    assert StaticRoutes(wrong).uplinks(sender.guid, receiver.guid) is not None
    wrong = changed(changed(wrong, "spine1", receiver.lid, 3), "leaf2", receiver.lid, 7)
    assert wrong.tables is not None
    assert len(routes.path(WIDE.subnet, wrong.tables, sender, receiver)) == 5
    assert StaticRoutes(wrong).uplinks(sender.guid, receiver.guid) is None


def test_an_hca_with_another_lid_by_now_is_on_no_leaf() -> None:
    static, one = StaticRoutes(WIDE), hca(WIDE, "n1 mlx5_0")
    assert static.leaf(one.guid) == static.leaf(one.guid, one.lid) == "leaf1"
    assert static.leaf(one.guid, one.lid + 1) == static.leaf(12345) == ""


def test_an_hca_with_two_cables_is_left_out() -> None:
    one, other = hca(WIDE, "n1 mlx5_0"), hca(WIDE, "n1 mlx5_1")
    cables = tuple(
        dataclasses.replace(
            cable,
            a=cable.a._replace(guid=one.guid, port=2) if cable.a.guid == other.guid else cable.a,
            b=cable.b._replace(guid=one.guid, port=2) if cable.b.guid == other.guid else cable.b,
        )
        for cable in WIDE.subnet.cables
    )
    both = dataclasses.replace(WIDE, subnet=dataclasses.replace(WIDE.subnet, cables=cables))
    static = StaticRoutes(both)
    assert (
        static.leaf(one.guid) == ""
        and static.uplinks(one.guid, hca(WIDE, "n8 mlx5_0").guid) is None
    )


def test_without_tables_or_unique_switches_there_are_no_routes() -> None:
    with pytest.raises(FabricError, match="no forwarding tables"):
        StaticRoutes(dataclasses.replace(WIDE, tables=None))
    devices = {
        guid: dataclasses.replace(device, name="leaf1") if device.name == "leaf2" else device
        for guid, device in WIDE.subnet.devices.items()
    }
    twice = dataclasses.replace(WIDE, subnet=dataclasses.replace(WIDE.subnet, devices=devices))
    with pytest.raises(FabricError, match="switches called 'leaf1'"):
        StaticRoutes(twice)


# ---- a reading ----


@functools.cache
def texts() -> dict[str, str]:
    return {name: (HOSTS64 / name).read_text() for name in (TOPOLOGY, TABLES)}


@given(st.sampled_from([TOPOLOGY, TABLES]), st.floats(0, 0.999))
def test_a_part_of_a_reading_gives_no_routes(
    tmp_path_factory: pytest.TempPathFactory, cut: str, share: float
) -> None:
    reading = tmp_path_factory.mktemp("reading")
    for name, text in texts().items():
        kept = text[: int(share * len(text.rstrip()))] if name == cut else text
        (reading / name).write_text(kept)
    assert from_reading(reading) is None


def test_a_reading_of_two_times_gives_no_routes(tmp_path: Path) -> None:
    """After a restart opensm may give other LIDs."""
    (tmp_path / TOPOLOGY).write_text(
        texts()[TOPOLOGY].replace('"leaf4" base port 0 lid 9', '"leaf4" base port 0 lid 16')
    )
    (tmp_path / TABLES).write_text(texts()[TABLES])
    assert from_reading(tmp_path) is None
    assert from_reading(tmp_path / "none") is None
    (tmp_path / TOPOLOGY).write_text(texts()[TOPOLOGY])
    assert from_reading(tmp_path) is not None
