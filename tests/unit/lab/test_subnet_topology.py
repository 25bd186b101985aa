"""The topology files of the lab's InfiniBand subnet."""

from __future__ import annotations

from collections import Counter

import pytest

from railgauge.lab.subnet_topology import Port, Subnet, fat_tree, leaf_spine


def ports(subnet: Subnet) -> list[Port]:
    return [port for cable in subnet.cables for port in (cable.a, cable.b)]


@pytest.mark.parametrize(
    ("subnet", "hcas", "switches", "cables"),
    [
        (leaf_spine([f"n{n}" for n in range(8)], 4, 2), 16, 6, 16 + 4 * 2),
        (leaf_spine(["a", "b", "c"], 2, 2, hcas=1, links=3), 3, 4, 3 + 2 * 2 * 3),
        (fat_tree(4, 8, 16, 8, 8), 512, 4 * 16 + 64, 512 + 4 * 64 + 4 * 64),
    ],
)
def test_a_subnet_has_all_devices_and_cables(
    subnet: Subnet, hcas: int, switches: int, cables: int
) -> None:
    assert Counter(device.kind for device in subnet.devices) == {"hca": hcas, "switch": switches}
    assert len(subnet.cables) == cables


@pytest.mark.parametrize("subnet", [leaf_spine(["a", "b"], 2, 1), fat_tree(2, 2, 4, 2, 2, hcas=2)])
def test_a_port_has_one_cable_and_lies_on_its_device(subnet: Subnet) -> None:
    assert max(Counter(ports(subnet)).values()) == 1
    assert all(1 <= port <= subnet.device(name).ports for name, port in ports(subnet))


def test_guids_of_all_ports_differ() -> None:
    subnet = fat_tree(4, 8, 16, 8, 8)
    guids = [device.guid + port for device in subnet.devices for port in range(device.ports + 1)]
    switches = [device.guid for device in subnet.devices if device.kind == "switch"]
    hcas = [guid for guid in guids if guid >> 48 == 0x0201]
    assert len(set(switches)) == len(switches) and len(set(hcas)) == len(hcas)


def test_a_topology_has_each_cable_at_both_ends() -> None:
    text = leaf_spine(["a"], 1, 1, hcas=1).topology()
    assert '[1]\t"S-0200000000000001"[1] w=8 s=4\n' in text
    assert '[1]\t"H-0201000000000010"[1] w=8 s=4\n' in text
    assert 'Switch\t2 "S-0200000000000001"\t\t# "leaf1"\n' in text
