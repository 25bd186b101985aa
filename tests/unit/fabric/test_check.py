"""Faults in a fabric of 512 hosts: each planted one is found at its place, and nothing else."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

import pytest

from railgauge import paths
from railgauge.fabric import expected, folder
from railgauge.fabric.check import check, not_checked
from railgauge.fabric.compare import compare
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.fabric.reading.counters import Counted
from railgauge.fabric.reading.managers import Manager, State
from railgauge.fabric.subnet import Cable, Clash, PortId, PortState, Rate
from railgauge.lab.subnet_topology import fat_tree, leaf_spine
from tests.unit.fabric.planted import fabric, with_cables, with_devices

DATA = paths.HOME / "tests" / "data" / "infiniband"

COUNT = 20
LARGE = fabric(fat_tree(4, 8, 16, 8, 4))
WANTED = expected.of_fabric(LARGE)

#: (kind, device, port) of each finding that is to be reported
Places = set[tuple[str, str, int]]


def name(guid: int) -> str:
    return LARGE.subnet.devices[guid].name


def between_switches(chance: random.Random, count: int = COUNT) -> list[Cable]:
    """Cables without a switch in common."""
    subnet = LARGE.subnet
    cables = [c for c in subnet.cables if not subnet.is_hca(c.a.guid) | subnet.is_hca(c.b.guid)]
    chosen: list[Cable] = []
    seen: set[int] = set()
    for cable in chance.sample(cables, len(cables)):
        if not {cable.a.guid, cable.b.guid} & seen and len(chosen) < count:
            seen |= {cable.a.guid, cable.b.guid}
            chosen.append(cable)
    return chosen


def upper(cable: Cable) -> PortId:
    return max((cable.a, cable.b), key=lambda end: LARGE.subnet.level[end.guid])


def lower(cable: Cable) -> PortId:
    return cable.other(upper(cable))


def without_cables(chance: random.Random) -> tuple[Fabric, Places]:
    gone = between_switches(chance)
    faulty = with_cables(LARGE, [c for c in LARGE.subnet.cables if c not in gone])
    return faulty, {("cable-missing", name(upper(c).guid), upper(c).port) for c in gone}


def with_more_cables(chance: random.Random) -> tuple[Fabric, Places]:
    """At ports that a switch does not have free here; a port has a number, and that is enough."""
    leaves = [d for d in LARGE.subnet.switches() if LARGE.subnet.level[d.guid] == 1]
    spines = [d for d in LARGE.subnet.switches() if LARGE.subnet.level[d.guid] == 2]
    pairs = zip(chance.sample(leaves, COUNT), chance.sample(spines, COUNT), strict=True)
    added = [
        Cable(*sorted((PortId(leaf.guid, 90), PortId(spine.guid, 91))), Rate(12, "QDR"))
        for leaf, spine in pairs
    ]
    faulty = with_cables(LARGE, [*LARGE.subnet.cables, *added])
    return faulty, {("cable-unexpected", name(upper(c).guid), 91) for c in added}


def moved_cables(chance: random.Random) -> tuple[Fabric, Places]:
    """Of HCAs, to free ports of other leaves; in half of the cases two cables are swapped."""
    subnet = LARGE.subnet
    hosts = [c for c in subnet.cables if subnet.is_hca(c.a.guid) | subnet.is_hca(c.b.guid)]
    chosen = chance.sample(hosts, COUNT)
    kept = [c for c in subnet.cables if c not in chosen]
    swapped = chosen[: COUNT // 2]
    turned = [upper(c) for c in swapped[1:] + swapped[:1]]
    spare = [PortId(upper(c).guid, 200 + n) for n, c in enumerate(chosen[COUNT // 2 :])]
    new = [
        Cable(*sorted((lower(c), port)), c.rate)
        for c, port in zip(chosen, [*turned, *spare], strict=True)
    ]
    return with_cables(LARGE, [*kept, *new]), {
        ("cable-moved", name(lower(c).guid), lower(c).port) for c in chosen
    }


def narrow(chance: random.Random) -> tuple[Fabric, Places]:
    slow = set(chance.sample(LARGE.subnet.cables, COUNT))
    cables = [
        dataclasses.replace(c, rate=Rate(1, "QDR")) if c in slow else c for c in LARGE.subnet.cables
    ]
    return with_cables(LARGE, cables), {
        ("link-width", name(upper(c).guid), upper(c).port) for c in slow
    }


def slow(chance: random.Random) -> tuple[Fabric, Places]:
    of = set(chance.sample(LARGE.subnet.cables, COUNT))
    cables = [
        dataclasses.replace(c, rate=Rate(12, "SDR")) if c in of else c for c in LARGE.subnet.cables
    ]
    return with_cables(LARGE, cables), {
        ("link-speed", name(upper(c).guid), upper(c).port) for c in of
    }


def not_active(chance: random.Random) -> tuple[Fabric, Places]:
    of = chance.sample(LARGE.subnet.cables, COUNT)
    states = dict(LARGE.subnet.states)
    for cable in of:
        for end in (cable.a, cable.b):
            states[end] = PortState("Initialize", "LinkUp", cable.rate)
    subnet = dataclasses.replace(LARGE.subnet, states=states)
    return dataclasses.replace(LARGE, subnet=subnet), {
        ("port-not-active", name(upper(c).guid), upper(c).port) for c in of
    }


def gone_hosts(chance: random.Random) -> tuple[Fabric, Places]:
    guids = {d.guid for d in chance.sample(LARGE.subnet.hcas(), COUNT)}
    faulty = with_cables(LARGE, [c for c in LARGE.subnet.cables if lower(c).guid not in guids])
    left = {g: d for g, d in LARGE.subnet.devices.items() if g not in guids}
    return with_devices(faulty, left), {("device-missing", name(guid), 0) for guid in guids}


def gone_switches(chance: random.Random) -> tuple[Fabric, Places]:
    cores = [d for d in LARGE.subnet.switches() if LARGE.subnet.level[d.guid] == 3]
    guids = {d.guid for d in chance.sample(cores, COUNT)}
    faulty = with_cables(LARGE, [c for c in LARGE.subnet.cables if upper(c).guid not in guids])
    left = {g: d for g, d in LARGE.subnet.devices.items() if g not in guids}
    return with_devices(faulty, left), {("device-missing", name(guid), 0) for guid in guids}


def same_names(chance: random.Random) -> tuple[Fabric, Places]:
    of = chance.sample(LARGE.subnet.hcas(), 2 * COUNT)
    devices = dict(LARGE.subnet.devices)
    for copy, original in zip(of[:COUNT], of[COUNT:], strict=True):
        devices[copy.guid] = dataclasses.replace(copy, name=original.name)
    return with_devices(LARGE, devices), {("name-duplicated", d.name, 0) for d in of[COUNT:]}


def renamed(chance: random.Random) -> tuple[Fabric, Places]:
    of = chance.sample(LARGE.subnet.hcas(), COUNT)
    devices = dict(LARGE.subnet.devices)
    for device in of:
        devices[device.guid] = dataclasses.replace(device, name=f"new-{device.name}")
    return with_devices(LARGE, devices), {("device-renamed", d.name, 0) for d in of}


def same_guids(chance: random.Random) -> tuple[Fabric, Places]:
    """As ibnetdiscover shows them: one device, which two ports claim to be cabled to."""
    of = chance.sample(LARGE.subnet.hcas(), 2 * COUNT)
    gone = {d.guid for d in of[:COUNT]}
    at = {lower(c).guid: upper(c) for c in LARGE.subnet.cables}
    faulty = with_cables(LARGE, [c for c in LARGE.subnet.cables if lower(c).guid not in gone])
    clashes = tuple(
        Clash(PortId(kept.guid, 1), (at[kept.guid], at[copy.guid]))
        for copy, kept in zip(of[:COUNT], of[COUNT:], strict=True)
    )
    left = {g: d for g, d in LARGE.subnet.devices.items() if g not in gone}
    subnet = dataclasses.replace(faulty.subnet, clashes=clashes, devices=left)
    return dataclasses.replace(faulty, subnet=subnet), {
        ("guid-duplicated", d.name, 1) for d in of[COUNT:]
    }


def other_firmware(chance: random.Random) -> tuple[Fabric, Places]:
    of = chance.sample(LARGE.subnet.switches(), COUNT)
    devices = dict(LARGE.subnet.devices)
    for device in of:
        devices[device.guid] = dataclasses.replace(device, firmware="31.2012.1024")
    return with_devices(LARGE, devices), {("switch-firmware", d.name, 0) for d in of}


def uneven_routes(chance: random.Random) -> tuple[Fabric, Places]:
    """A leaf sends by one uplink also what another one carried."""
    leaves = [d for d in LARGE.subnet.switches() if LARGE.subnet.level[d.guid] == 1]
    assert LARGE.tables is not None
    tables = {guid: dict(table) for guid, table in LARGE.tables.items()}
    places = set()
    for leaf in chance.sample(leaves, COUNT):
        ups = [
            p.port
            for p, c in LARGE.subnet.cable_at.items()
            if p.guid == leaf.guid and lower(c) == p
        ]
        more, less = chance.sample(ups, 2)
        tables[leaf.guid] = {
            lid: more if port == less else port for lid, port in tables[leaf.guid].items()
        }
        places.add(("routes-unbalanced", leaf.name, more))
    return dataclasses.replace(LARGE, tables=tables), places


KINDS: list[Callable[[random.Random], tuple[Fabric, Places]]] = [
    *(without_cables, with_more_cables, moved_cables, narrow, slow, not_active),
    *(gone_hosts, gone_switches, same_names, renamed, same_guids, other_firmware, uneven_routes),
]


@pytest.mark.parametrize("plant", KINDS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_planted_faults_are_found_and_nothing_else_is(
    plant: Callable[[random.Random], tuple[Fabric, Places]], seed: int
) -> None:
    faulty, places = plant(random.Random(seed))
    assert len(places) == COUNT
    assert {(f.kind, f.device, f.port) for f in check(faulty, WANTED)} == places


def test_a_fabric_without_faults_has_no_finding() -> None:
    assert check(LARGE, WANTED) == []
    assert not_checked(LARGE, WANTED) == []


def test_a_host_with_fewer_hcas_is_found_without_an_expected_cabling() -> None:
    whole = fabric(leaf_spine(["n1", "n2", "n3"], 1, 1))
    gone = next(d.guid for d in whole.subnet.hcas() if d.name == "n2 mlx5_1")
    left = {guid: d for guid, d in whole.subnet.devices.items() if guid != gone}
    cables = [c for c in whole.subnet.cables if gone not in (c.a.guid, c.b.guid)]
    found = check(with_devices(with_cables(whole, cables), left), None)
    assert [(f.kind, f.device) for f in found] == [("host-hcas", "n2")]


def test_an_hca_without_a_description_is_no_host() -> None:
    whole = fabric(leaf_spine(["n1", "n2", "n3"], 1, 1))
    named = next(d for d in whole.subnet.hcas() if d.name == "n2 mlx5_1")
    devices = {**whole.subnet.devices, named.guid: dataclasses.replace(named, name="")}
    (found,) = check(with_devices(whole, devices), None)
    assert (found.kind, found.device) == ("host-hcas", "n2")
    assert "1 more without a description" in found.message


def test_a_port_that_is_not_active_is_found_at_either_end() -> None:
    whole = fabric(leaf_spine(["n1", "n2"], 1, 1))
    cable = whole.subnet.cables[0]
    for end in (cable.a, cable.b):
        states = {**whole.subnet.states, end: PortState("Initialize", "LinkUp", cable.rate)}
        subnet = dataclasses.replace(whole.subnet, states=states)
        (found,) = check(dataclasses.replace(whole, subnet=subnet), None)
        place = (whole.subnet.devices[end.guid].name, end.port)
        assert (found.kind, found.device, found.port) == ("port-not-active", *place)


def test_a_subnet_without_a_manager_is_one_finding() -> None:
    whole = fabric(leaf_spine(["n1", "n2"], 1, 1))
    states = {p: PortState("Initialize", "LinkUp", s.rate) for p, s in whole.subnet.states.items()}
    faulty = dataclasses.replace(whole, subnet=dataclasses.replace(whole.subnet, states=states))
    assert [f.kind for f in check(faulty, None)] == ["subnet-not-active"]


def test_a_device_without_a_description_is_checked() -> None:
    whole = fabric(leaf_spine(["n1", "n2"], 1, 1, hcas=1))
    devices = dict(whole.subnet.devices)
    first = whole.subnet.hcas()[0]
    devices[first.guid] = dataclasses.replace(first, name="")
    nameless = with_devices(whole, devices)
    gone = with_devices(whole, {g: d for g, d in devices.items() if g != first.guid})
    cables = [c for c in gone.subnet.cables if first.guid not in (c.a.guid, c.b.guid)]
    found = check(with_cables(gone, cables), expected.of_fabric(nameless))
    assert [(f.kind, f.device) for f in found] == [("device-missing", "")]


def test_what_was_not_read_is_said() -> None:
    bare = Fabric(dataclasses.replace(LARGE.subnet, states={}))
    assert len(not_checked(bare, None)) == 5


def test_names_that_are_there_twice_are_no_expected_cabling() -> None:
    faulty, _ = same_names(random.Random(1))
    with pytest.raises(FabricError):
        expected.of_fabric(faulty)


def counted(**values: int) -> Fabric:
    port = next(iter(LARGE.subnet.cable_at))
    return dataclasses.replace(LARGE, counted=Counted({port: values}))


@pytest.mark.parametrize(
    ("before", "after", "weights"),
    [
        ({"SymbolErrorCounter": 5}, {"SymbolErrorCounter": 5}, []),
        ({"SymbolErrorCounter": 5}, {"SymbolErrorCounter": 9}, ["fault"]),
        ({}, {"LinkDownedCounter": 1}, ["fault"]),
        # At its greatest value it says nothing, unless it got there in between.
        ({"SymbolErrorCounter": 65535}, {"SymbolErrorCounter": 65535}, ["note"]),
        ({"SymbolErrorCounter": 65534}, {"SymbolErrorCounter": 65535}, ["fault"]),
        ({"LinkDownedCounter": 255}, {"LinkDownedCounter": 255}, ["note"]),
        # With 64 bits it goes on.
        ({"SymbolErrorCounter": 70000}, {"SymbolErrorCounter": 70000}, []),
        ({"SymbolErrorCounter": 65535}, {"SymbolErrorCounter": 70000}, ["fault"]),
        # It was cleared, and counts again.
        ({"SymbolErrorCounter": 65535}, {"SymbolErrorCounter": 3}, ["fault"]),
        ({"PortXmitDiscards": 1}, {"PortXmitDiscards": 7}, ["note"]),
        ({"PortXmitData": 1}, {"PortXmitData": 7}, []),
    ],
)
def test_counters_that_moved_are_found(
    before: dict[str, int], after: dict[str, int], weights: list[str]
) -> None:
    found, _ = compare(counted(**before), counted(**after))
    assert [f.weight for f in found] == weights


def test_a_counter_that_was_below_a_threshold_moved_by_an_unknown_amount() -> None:
    before = dataclasses.replace(LARGE, counted=Counted({}, thresholds=True))
    (found,) = compare(before, counted(SymbolErrorCounter=11))[0]
    assert found.kind == "counter-moved" and "threshold" in found.message


def test_a_counter_of_64_bits_wraps() -> None:
    found, _ = compare(counted(SymbolErrors64=2**64 - 2), counted(SymbolErrors64=3))
    assert "moved by 5," in found[0].message


def test_an_update_of_a_switch_and_other_lids_are_notes() -> None:
    devices = {
        guid: dataclasses.replace(d, firmware="x" if d.firmware else "", lid=d.lid + 1)
        for guid, d in LARGE.subnet.devices.items()
    }
    small = dataclasses.replace(LARGE, tables=None)
    found, _ = compare(small, with_devices(small, devices))
    assert {(f.kind, f.weight) for f in found} == {
        ("firmware-changed", "note"),
        ("lids-changed", "note"),
    }


@pytest.mark.parametrize(
    ("name", "first", "value", "weight"),
    [
        ("SymbolErrorCounter", 0, 10, "note"),
        ("SymbolErrorCounter", 0, 11, "fault"),
        ("SymbolErrorCounter", 65530, 65535, "fault"),
        ("SymbolErrorCounter", 400, 3, "note"),
        ("SymbolErrorCounter", 400, 30, "fault"),
        ("LinkDownedCounter", 1, 2, "fault"),
        ("LinkErrorRecoveryCounter", 1, 2, "fault"),
        ("PortXmitDiscards", 0, 5000, "note"),
    ],
)
def test_a_few_errors_are_a_note_where_they_are_allowed(
    name: str, first: int, value: int, weight: str
) -> None:
    port = next(iter(LARGE.subnet.cable_at))
    before = dataclasses.replace(LARGE, counted=Counted({port: {name: first}}))
    after = dataclasses.replace(LARGE, counted=Counted({port: {name: value}}))
    found, _ = compare(before, after, allowed=10)
    assert [(one.kind, one.weight) for one in found] == [("counter-moved", weight)]


# ---- subnet managers ----


def managed(*states: State) -> Fabric:
    """A subnet with a manager on the first HCAs, of priorities 0, 1, ..."""
    whole = fabric(leaf_spine([f"n{number}" for number in range(1, 5)], 2, 1, hcas=1))
    hcas = whole.subnet.hcas()
    ports = {device.guid + 1: PortId(device.guid, 1) for device in hcas}
    known = [
        Manager(hca.lid, hca.guid + 1, number, state)
        for number, (hca, state) in enumerate(zip(hcas, states, strict=False))
    ]
    return dataclasses.replace(
        whole,
        subnet=dataclasses.replace(whole.subnet, port_guids=ports),
        managers=tuple(known),
        manager_lids=tuple(one.lid for one in known),
    )


def test_two_masters_are_one_finding_that_names_both() -> None:
    (found,) = check(managed("master", "standby", "master"), None)
    assert (found.kind, found.device, found.weight) == ("masters-several", "n3 mlx5_0", "fault")
    # The one of the higher priority is to stay.
    assert "n3 mlx5_0 (LID 3, priority 2) and n1 mlx5_0 (LID 1, priority 0)" in found.message
    assert "on n1;" in found.next


@pytest.mark.parametrize("others", [(), ("standby",), ("standby", "discovering", "not active")])
def test_one_master_is_none(others: Sequence[State]) -> None:
    assert check(managed("master", *others), None) == []


def test_a_manager_that_was_not_asked_is_said() -> None:
    two = managed("master", "master")
    assert two.managers is not None
    one = dataclasses.replace(two, managers=two.managers[:1])
    assert check(one, None) == []
    assert "subnet managers with LID 2: no output of sminfo LID" in not_checked(one, None)
    none = dataclasses.replace(two, managers=None, manager_lids=None)
    assert any("no output of saquery -s" in words for words in not_checked(none, None))
    assert not any("saquery" in words or "sminfo" in words for words in not_checked(two, None))


def test_two_masters_of_the_lab_are_found() -> None:
    found = check(folder.from_folder(DATA / "masters"), None)
    assert [one.kind for one in found] == ["masters-several"]
    assert "headib mlx5_0 (LID 1, priority 0) and n8 mlx5_0 (LID 9, priority 0)" in found[0].message
