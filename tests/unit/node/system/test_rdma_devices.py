"""RDMA devices and the state of a node's path, on trees of files that stand for sysfs."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.common.names import natural
from railgauge.node.system import link_state, rdma_devices
from railgauge.node.system.rdma_devices import (
    FactError,
    gid_index,
    mapped_ipv4,
    port_facts,
    rail_ports,
)

ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:0000:0000:0000:0e42:a1ff:fe00:0001"

DEVINFO = """\
hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.39.1002
\tphys_port_cnt:\t\t\t2
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tsm_lid:\t\t\t0
\t\t\tport_lid:\t\t0
\t\t\tlink_layer:\t\tEthernet

\t\tport:\t2
\t\t\tstate:\t\t\tPORT_DOWN (1)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t2048 (4)
"""


def ipv4_gid(address: str) -> str:
    return ipaddress.IPv6Address(f"::ffff:{address}").exploded


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def port(device: str, number: int = 1, link_layer: str = "Ethernet", **more: str) -> dict[str, str]:
    """The files of one port; in names of `more`, `__` stands for `/`."""
    at = f"class/infiniband/{device}/ports/{number}"
    files = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": link_layer,
        "rate": "400 Gb/sec (4X NDR)",
        "lid": "0x0",
        **{name.replace("__", "/"): text for name, text in more.items()},
    }
    return {f"{at}/{name}": text for name, text in files.items()}


def gids(device: str, table: list[tuple[str, str]], number: int = 1) -> dict[str, str]:
    """A GID table; an entry without a type is empty, and has no file of its type to read."""
    at = f"class/infiniband/{device}/ports/{number}"
    files = {f"{at}/gids/{index}": gid for index, (gid, _) in enumerate(table)}
    files |= {f"{at}/gid_attrs/types/{i}": kind for i, (_, kind) in enumerate(table) if kind}
    return files


def roce(device: str, interface: str, address: str, mtu_bytes: int = 9000) -> dict[str, str]:
    """A port as mlx5 shows it: every GID once for RoCE v1 and once for v2."""
    home = f"class/infiniband/{device}"
    return {
        f"{home}/node_guid": "0c42:a103:0000:0001",
        f"{home}/fw_ver": "28.39.1002",
        f"{home}/hca_type": "MT4129",
        f"{home}/board_id": "MT_0000000838",
        f"{home}/device/numa_node": "1",
        f"{home}/device/current_link_speed": "32.0 GT/s PCIe",
        f"{home}/device/current_link_width": "16",
        f"{home}/device/max_link_speed": "32.0 GT/s PCIe",
        f"{home}/device/max_link_width": "16",
        **port(device, gid_attrs__ndevs__0=interface),
        **gids(
            device,
            [
                (LINK_LOCAL, "IB/RoCE v1"),
                (LINK_LOCAL, "RoCE v2"),
                (ipv4_gid(address), "IB/RoCE v1"),
                (ipv4_gid(address), "RoCE v2"),
                (ZERO_GID, ""),
            ],
        ),
        f"class/net/{interface}/mtu": str(mtu_bytes),
        f"class/net/{interface}/operstate": "up",
        f"class/net/{interface}/speed": "400000",
    }


def rxe() -> dict[str, str]:
    """Soft-RoCE: no PCIe function, an empty firmware version, holes in the GID table."""
    table = [(LINK_LOCAL, "RoCE v2"), (ZERO_GID, ""), (ipv4_gid("10.1.0.7"), "RoCE v2")]
    return {
        "class/infiniband/rxe0/fw_ver": "",
        "class/infiniband/rxe0/node_guid": "5054:00ff:fe12:3456",
        **port("rxe0", gid_attrs__ndevs__0="eth0"),
        **gids("rxe0", table),
        "class/net/eth0/mtu": "1500",
    }


def infiniband() -> dict[str, str]:
    own = "fe80:0000:0000:0000:b83f:d203:00aa:0001"
    return {
        **port("mlx5_0", link_layer="InfiniBand", lid="0x1f", gids__0=own),
        "class/infiniband/mlx5_0/device/net/ib0/dev_port": "0",
    }


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found, empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(rdma_devices, "SYSTEM_FOLDERS", "")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sys"


def install(folder: Path, program: str, script: str) -> None:
    (folder / program).write_text(f"#!/bin/sh\n{script}\n")
    (folder / program).chmod(0o755)


def install_printing(folder: Path, program: str, text: str) -> None:
    (folder / f"{program}.txt").write_text(text)
    install(folder, program, f"exec /bin/cat {folder}/{program}.txt")


# ---- devices and ports ----


def test_devices_come_in_natural_order(root: Path) -> None:
    for number in (10, 2, 11, 0, 1):
        write(root, port(f"mlx5_{number}"))
    names = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_11"]
    assert rdma_devices.devices("mlx5_[0-9]+", str(root)) == names


def test_pattern_matches_whole_names(root: Path) -> None:
    write(root, {**port("mlx5_1"), **port("mlx5_10"), **port("mlx5_bond_1")})
    assert rdma_devices.devices("mlx5_1|mlx5_bond_1", str(root)) == ["mlx5_1", "mlx5_bond_1"]


def test_machine_without_rdma_has_no_devices(root: Path) -> None:
    assert rdma_devices.devices(".*", str(root)) == []


def test_hca_with_two_ports_has_both(root: Path) -> None:
    write(root, {**port("mlx4_0", 2), **port("mlx4_0", 1)})
    assert rdma_devices.ports("mlx4_0", str(root)) == [1, 2]


@given(st.lists(st.text()))
def test_any_names_have_an_order(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural)) == sorted(names)


# ---- facts of a port ----


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", "ACTIVE"),
        ("phys_state", "LinkUp"),
        ("link_layer", "Ethernet"),
        ("rate", "400 Gb/sec (4X NDR)"),
        ("lid", "0x0"),
        ("netdev", "eth0"),
        ("node_guid", "0c42:a103:0000:0001"),
        ("fw_ver", "28.39.1002"),
        ("hca_type", "MT4129"),
        ("board_id", "MT_0000000838"),
        ("numa_node", 1),
        ("pcie_current_link_speed", "32.0 GT/s PCIe"),
        ("pcie_current_link_width", 16),
        ("pcie_max_link_width", 16),
        ("unknown", {}),
    ],
)
def test_mlx5_port_says_all_of_itself(root: Path, field: str, value: object) -> None:
    write(root, roce("mlx5_0", "eth0", "10.0.0.1"))
    assert port_facts("mlx5_0", 1, str(root))[field] == value


def test_facts_that_soft_roce_lacks_are_unknown(root: Path) -> None:
    write(root, rxe())
    assert sorted(port_facts("rxe0", 1, str(root))["unknown"]) == [
        "board_id",
        "fw_ver",
        "hca_type",
        "numa_node",
        "pcie_current_link_speed",
        "pcie_current_link_width",
        "pcie_max_link_speed",
        "pcie_max_link_width",
    ]


def test_unknown_fact_says_why(root: Path) -> None:
    write(root, rxe())
    why = port_facts("rxe0", 1, str(root))["unknown"]["board_id"]
    assert why == f"{root}/class/infiniband/rxe0/board_id: No such file or directory"


@pytest.mark.parametrize("number", [1, 2])
def test_each_port_of_an_hca_has_its_own_interface(root: Path, number: int) -> None:
    write(root, {**port("mlx4_0", 1), **port("mlx4_0", 2)})
    write(root / "class/infiniband/mlx4_0/device/net", {"b/dev_port": "0", "a/dev_port": "1"})
    assert rdma_devices.netdev("mlx4_0", number, str(root)) == {1: "b", 2: "a"}[number]


def test_port_that_is_not_there_is_all_unknown(root: Path) -> None:
    assert set(port_facts("mlx5_7", 1, str(root))) == {"unknown"}


def test_infiniband_port_has_its_ipoib_interface(root: Path) -> None:
    write(root, infiniband())
    assert port_facts("mlx5_0", 1, str(root))["netdev"] == "ib0"


def over_infiniband(**more: str) -> dict[str, str]:
    """ib0, over the second port of mlx5_0 (Documentation/ABI/testing/sysfs-class-net, type and
    dev_port), as more than one port has an interface.
    """
    files = {
        **port("mlx5_0", 2, link_layer="InfiniBand", lid="0x1f"),
        "class/net/ib0/type": "32",
        "class/net/ib0/dev_port": "1",
        "class/net/ib0/device/infiniband/mlx5_0/node_type": "1: CA",
        "class/infiniband/mlx5_0/node_guid": "b83f:d203:00aa:0001",
    }
    return {**files, **{f"class/net/ib0/{name}": text for name, text in more.items()}}


def test_an_interface_over_infiniband_has_the_guid_and_the_lid_of_its_port(root: Path) -> None:
    write(root, over_infiniband())
    facts = rdma_devices.ipoib_facts("ib0", str(root))
    assert facts == {"node_guid": "b83f:d203:00aa:0001", "lid": "0x1f"}


@pytest.mark.parametrize(
    "more", [{"type": "1"}, {"dev_port": "4"}, {"dev_port": "x"}, {"type": ""}]
)
def test_any_other_interface_has_no_hca(root: Path, more: dict[str, str]) -> None:
    write(root, over_infiniband(**more))
    assert rdma_devices.ipoib_facts("ib0", str(root)) == {}
    assert rdma_devices.ipoib_facts("eth9", str(root)) == {}


# ---- active MTU ----


@pytest.mark.parametrize(("number", "mtu"), [(1, 1024), (2, 2048)])
def test_active_mtu_is_that_of_the_port(number: int, mtu: int) -> None:
    assert rdma_devices.active_mtu(DEVINFO, number) == mtu


@pytest.mark.parametrize(
    "text", ["", DEVINFO.replace("active_mtu", "mtu"), DEVINFO.replace("1024 (3)", "invalid MTU")]
)
def test_text_without_active_mtu_is_unknown(text: str) -> None:
    with pytest.raises(FactError, match="active_mtu of port 1"):
        rdma_devices.active_mtu(text, 1)


@given(st.text())
def test_any_text_of_ibv_devinfo_gives_an_mtu_or_unknown(text: str) -> None:
    with contextlib.suppress(FactError):
        assert rdma_devices.active_mtu(f"port: 1\nactive_mtu: {text}", 1) in rdma_devices.MTUS


def test_ibv_devinfo_is_believed_before_the_interface(root: Path, tools: Path) -> None:
    write(root, roce("mlx5_0", "eth0", "10.0.0.1"))
    install_printing(tools, "ibv_devinfo", DEVINFO)
    facts = port_facts("mlx5_0", 1, str(root))
    assert (facts["active_mtu_bytes"], facts["active_mtu_from"]) == (1024, "ibv_devinfo")


def test_mtu_that_follows_from_the_interface_is_marked(root: Path) -> None:
    write(root, roce("mlx5_0", "eth0", "10.0.0.1", mtu_bytes=4200))
    facts = port_facts("mlx5_0", 1, str(root))
    derived = (4096, "derived from the MTU of eth0")
    assert (facts["active_mtu_bytes"], facts["active_mtu_from"]) == derived


def test_failing_ibv_devinfo_counts_as_missing(root: Path, tools: Path) -> None:
    write(root, roce("mlx5_0", "eth0", "10.0.0.1"))
    install(tools, "ibv_devinfo", "echo 'No IB devices found' >&2; exit 255")
    assert port_facts("mlx5_0", 1, str(root))["active_mtu_from"].startswith("derived")


def test_infiniband_mtu_is_never_derived(root: Path) -> None:
    write(root, {**infiniband(), "class/net/ib0/mtu": "65520"})
    why = port_facts("mlx5_0", 1, str(root))["unknown"]["active_mtu_bytes"]
    assert why.startswith("ibv_devinfo is not installed; derived only")


@pytest.mark.parametrize(
    ("interface_mtu", "mtu"),
    [(9000, 4096), (4200, 4096), (4192, 4096), (4191, 2048), (1500, 1024), (352, 256)],
)
def test_roce_mtu_leaves_room_for_its_headers(interface_mtu: int, mtu: int) -> None:
    assert rdma_devices.derived_mtu(interface_mtu) == mtu


def test_interface_without_room_for_roce_has_no_mtu() -> None:
    with pytest.raises(FactError, match="351 has no room"):
        rdma_devices.derived_mtu(351)


# ---- GIDs ----


def test_roce_v2_ipv4_gid_is_found(root: Path) -> None:
    write(root, roce("mlx5_0", "eth0", "10.0.0.1"))
    found = gid_index("mlx5_0", 1, "RoCE v2", root=str(root))
    assert (found.number, found.address) == (3, "10.0.0.1")


def test_type_of_gid_decides(root: Path) -> None:
    write(root, roce("mlx5_0", "eth0", "10.0.0.1"))
    assert gid_index("mlx5_0", 1, "IB/RoCE v1", root=str(root)).number == 2


def test_holes_in_the_gid_table_are_passed_over(root: Path) -> None:
    write(root, rxe())
    assert gid_index("rxe0", 1, "RoCE v2", root=str(root)).number == 2


def two_addresses(root: Path) -> str:
    """Entries 2 and 10 would do: in the order of text, 10 comes first."""
    table = [(ZERO_GID, "")] * 11
    table[2] = (ipv4_gid("10.0.0.1"), "RoCE v2")
    table[10] = (ipv4_gid("10.9.0.1"), "RoCE v2")
    write(root, gids("mlx5_0", table))
    return str(root)


def test_lowest_of_several_gids_is_taken(root: Path) -> None:
    assert gid_index("mlx5_0", 1, "RoCE v2", root=two_addresses(root)).number == 2


def test_all_gids_that_would_do_are_listed(root: Path) -> None:
    assert gid_index("mlx5_0", 1, "RoCE v2", root=two_addresses(root)).candidates == (2, 10)


def test_gid_of_the_wanted_address_is_preferred(root: Path) -> None:
    assert gid_index("mlx5_0", 1, "RoCE v2", "10.9.0.1", two_addresses(root)).number == 10


def test_wanted_address_that_is_not_there_leaves_the_lowest(root: Path) -> None:
    assert gid_index("mlx5_0", 1, "RoCE v2", "10.5.5.5", two_addresses(root)).number == 2


@pytest.mark.parametrize(
    "table",
    [
        [],
        [(LINK_LOCAL, "RoCE v2")],
        [(ipv4_gid("10.0.0.1"), "IB/RoCE v1")],
        [(ipv4_gid("0.0.0.0"), "RoCE v2")],
        [("garbage", "RoCE v2")],
    ],
)
def test_table_without_ipv4_gid_of_the_type_is_unknown(
    root: Path, table: list[tuple[str, str]]
) -> None:
    write(root, gids("mlx5_0", table))
    with pytest.raises(FactError, match="mlx5_0 port 1 has no RoCE v2 GID with an IPv4 address"):
        gid_index("mlx5_0", 1, "RoCE v2", root=str(root))


@given(st.text() | st.text("0123456789abcdef:.%/"))
def test_any_text_is_an_address_or_none(text: str) -> None:
    address = mapped_ipv4(text)
    assert address is None or ipaddress.IPv4Address(address)


@given(st.ip_addresses(v=4).filter(int))
def test_mapped_address_is_read_back(address: ipaddress.IPv4Address) -> None:
    assert mapped_ipv4(ipv4_gid(str(address))) == str(address)


# ---- locked memory ----


@pytest.mark.parametrize(("soft", "kib"), [(8 << 20, 8192), (-1, "unlimited")])
def test_locked_memory_is_the_soft_limit(
    monkeypatch: pytest.MonkeyPatch, soft: int, kib: int | str
) -> None:
    monkeypatch.setattr(rdma_devices.resource, "getrlimit", lambda _: (soft, -1))
    assert rdma_devices.memlock_kib() == kib


# ---- the state of the path ----

SPEC: dict[str, Any] = {
    "rdma": {"devices": "mlx5_[0-9]+", "gid_type": "RoCE v2"},
    "bond": {"device": "bond0"},
}

#: As root reads it; two links, the second alone in another aggregator.
BOND = """\
Ethernet Channel Bonding Driver: v6.12.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer3+4 (1)
MII Status: up
MII Polling Interval (ms): 100

802.3ad info
LACP active: on
LACP rate: fast
System priority: 65535
Active Aggregator Info:
\tAggregator ID: 1
\tNumber of ports: 1
\tPartner Mac Address: 00:00:00:00:00:00

Slave Interface: eth1
MII Status: up
Speed: 200000 Mbps
Duplex: full
Link Failure Count: 2
Aggregator ID: 1
details actor lacp pdu:
    system priority: 65535
    port key: 15

Slave Interface: eth2
MII Status: down
Speed: Unknown
Duplex: Unknown
Link Failure Count: 0
Aggregator ID: N/A
"""

QDISCS = json.dumps(
    [
        {"kind": "noqueue", "handle": "0:", "dev": "lo", "root": True},
        {"kind": "netem", "handle": "1:", "dev": "eth10", "root": True},
        {"kind": "mq", "handle": "0:", "dev": "eth2", "root": True},
        {"kind": "fq_codel", "handle": "0:", "dev": "eth2", "parent": ":1"},
        {"kind": "ingress", "handle": "ffff:", "dev": "eth2", "parent": "ffff:fff1"},
    ]
)


@pytest.fixture
def twelve(root: Path, tools: Path, tmp_path: Path) -> dict[str, Any]:
    """The state of a node with twelve rails and a bond."""
    for number in range(12):
        write(root, roce(f"mlx5_{number}", f"eth{number}", f"10.0.{number}.1"))
    write(root, {"class/net/bond0/bonding/mode": "802.3ad 4"})
    write(root, {"class/net/bond0/bonding/ad_aggregator": "1"})
    write(tmp_path / "proc", {"net/bonding/bond0": BOND})
    install_printing(tools, "tc", QDISCS)
    return link_state.state(SPEC, str(root), str(tmp_path / "proc"))


def test_rails_are_numbered_in_natural_order(twelve: dict[str, Any]) -> None:
    rails = [(rail["rail"], rail["device"]) for rail in twelve["rails"]]
    assert rails == [(number, f"mlx5_{number}") for number in range(12)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("port", 1),
        ("state", "ACTIVE"),
        ("netdev", "eth10"),
        ("netdev_mtu_bytes", 9000),
        ("netdev_operstate", "up"),
        ("gid_index", 3),
        ("gid", ipv4_gid("10.0.10.1")),
        ("address", "10.0.10.1"),
        ("gid_candidates", [3]),
        ("qdisc", "netem"),
        ("active_mtu_bytes", 4096),
        ("unknown", {}),
    ],
)
def test_rail_has_the_facts_of_its_path(twelve: dict[str, Any], field: str, value: object) -> None:
    assert twelve["rails"][10][field] == value


def test_qdisc_is_that_of_the_root(twelve: dict[str, Any]) -> None:
    assert twelve["interfaces"]["eth2"]["qdisc"] == "mq"


def test_interface_that_tc_does_not_show_has_an_unknown_qdisc(twelve: dict[str, Any]) -> None:
    assert twelve["rails"][3]["unknown"] == {"qdisc": "tc shows no root qdisc"}


def test_interface_has_mtu_state_and_speed(twelve: dict[str, Any]) -> None:
    assert twelve["interfaces"]["eth10"] == {
        "mtu_bytes": 9000,
        "operstate": "up",
        "speed_mbits": 400000,
        "qdisc": "netem",
        "unknown": {},
    }


def test_speed_that_the_driver_does_not_know_is_unknown(root: Path) -> None:
    write(root, {"class/net/eth0/speed": "-1"})
    facts = link_state.state({}, str(root))["interfaces"]["eth0"]
    assert "not known to the driver" in facts["unknown"]["speed_mbits"]


def test_state_names_node_kernel_and_limit(twelve: dict[str, Any]) -> None:
    assert {"node", "kernel", "memlock_kib"} <= twelve.keys()


def test_nothing_is_missing_where_nothing_is(twelve: dict[str, Any]) -> None:
    assert twelve["unknown"] == {}


def test_every_port_is_a_rail(root: Path) -> None:
    write(root, {**port("mlx5_0", 1), **port("mlx5_0", 2), **port("mlx5_1", 1)})
    rails = link_state.state(SPEC, str(root))["rails"]
    assert [(rail["rail"], rail["device"], rail["port"]) for rail in rails] == [
        (0, "mlx5_0", 1),
        (1, "mlx5_0", 2),
        (2, "mlx5_1", 1),
    ]


NAMED = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10")


@given(st.sets(st.sampled_from(NAMED)), st.sets(st.sampled_from(["mlx5_5", "mlx5_11"])))
def test_a_device_that_is_not_there_shifts_no_other_rail(
    there: set[str], strangers: set[str]
) -> None:
    ports = [(device, 1) for device in sorted({*there, *strangers}, key=natural)]
    found = rail_ports(NAMED, ports)
    assert {rail: d for rail, (d, _) in found.items() if rail < len(NAMED)} == {
        rail: name for rail, name in enumerate(NAMED) if name in there
    }
    assert {d for rail, (d, _) in found.items() if rail >= len(NAMED)} == strangers


def test_a_device_that_is_named_twice_is_two_rails_by_its_ports() -> None:
    ports = [("mlx4_0", 1), ("mlx4_0", 2), ("mlx4_1", 1)]
    found = rail_ports(["mlx4_0", "mlx4_0", "mlx4_1"], ports)
    assert found == dict(enumerate(ports))


def test_a_node_says_of_each_rail_its_number_by_the_names(root: Path) -> None:
    write(root, {**port("mlx5_0"), **port("mlx5_2")})
    spec = {"rdma": {"devices": "mlx5_[0-9]+", "names": ["mlx5_0", "mlx5_1", "mlx5_2"]}}
    rails = link_state.state(spec, str(root))["rails"]
    assert [(rail["rail"], rail["device"]) for rail in rails] == [(0, "mlx5_0"), (2, "mlx5_2")]


def test_infiniband_rail_has_its_first_gid(root: Path) -> None:
    write(root, infiniband())
    spec = {"rdma": {"devices": ".*", "gid_type": None}}
    rail = link_state.state(spec, str(root))["rails"][0]
    assert (rail["gid_index"], rail["gid"].startswith("fe80:")) == (0, True)


def test_rail_without_interface_says_so(root: Path) -> None:
    write(root, port("mlx5_0"))
    unknown = link_state.state(SPEC, str(root))["rails"][0]["unknown"]
    assert unknown["netdev_mtu_bytes"] == "no interface is known for this port"


# ---- the bond ----


def test_bond_has_its_mode_and_links(twelve: dict[str, Any]) -> None:
    up = {"name": "eth1", "mii_status": "up", "speed_mbits": 200000, "failures": 2}
    down = {"name": "eth2", "mii_status": "down", "speed_mbits": None, "failures": 0}
    assert twelve["bond"] == {
        "device": "bond0",
        "mode": "802.3ad",
        "active_aggregator": 1,
        "links": [{**up, "aggregator_id": 1}, {**down, "aggregator_id": None}],
        "unknown": {},
    }


def test_bond_without_sysfs_is_read_from_proc(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "proc", {"net/bonding/bond0": BOND})
    bond = link_state.bond("bond0", str(root), str(tmp_path / "proc"))
    assert (bond["mode"], bond["active_aggregator"], bond["unknown"]) == ("802.3ad", 1, {})


def test_active_aggregator_that_only_root_may_see_comes_from_sysfs(
    root: Path, tmp_path: Path
) -> None:
    start, end = BOND.index("System priority"), BOND.index("\nSlave Interface: eth1")
    write(tmp_path / "proc", {"net/bonding/bond0": BOND[:start] + BOND[end:]})
    write(root, {"class/net/bond0/bonding/ad_aggregator": "1"})
    bond = link_state.bond("bond0", str(root), str(tmp_path / "proc"))
    assert bond["active_aggregator"] == 1


def test_bond_that_is_not_there_is_unknown(root: Path, tmp_path: Path) -> None:
    bond = link_state.bond("bond0", str(root), str(tmp_path / "proc"))
    assert (bond["links"], sorted(bond["unknown"])) == ([], ["active_aggregator", "links", "mode"])


def test_bond_that_nobody_asked_for_is_not_reported(root: Path) -> None:
    assert link_state.state({"bond": None}, str(root))["bond"] is None


@given(st.text() | st.lists(st.sampled_from([*BOND.splitlines(), ":", "x"])).map("\n".join))
def test_any_text_of_a_bond_is_read(text: str) -> None:
    assert isinstance(link_state.parse_bond(text)["links"], list)


# ---- whole whatever is missing ----

SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii"))
SPECS = st.dictionaries(
    st.sampled_from(["rdma", "bond", "other"]),
    SCALARS | st.dictionaries(st.sampled_from(["devices", "gid_type", "device"]), SCALARS),
)


@given(SPECS)
def test_any_spec_gives_a_whole_document(spec: dict[str, Any]) -> None:
    document = link_state.state(spec, "/nowhere", "/nowhere")
    assert {"node", "kernel", "rails", "bond", "interfaces", "unknown"} <= document.keys()


def test_bad_expression_is_an_unknown_and_not_the_end(root: Path) -> None:
    write(root, port("mlx5_0"))
    document = link_state.state({"rdma": {"devices": "("}}, str(root))
    assert document["unknown"]["rails"].startswith("error: ")


@pytest.mark.parametrize("text", ["", "null", "{}", '[{"dev": 1}]', '[{"root": true}]', "[1]"])
def test_strange_answer_of_tc_is_never_an_error(root: Path, tools: Path, text: str) -> None:
    write(root, {"class/net/eth0/mtu": "1500"})
    install_printing(tools, "tc", text)
    facts = link_state.state({}, str(root))["interfaces"]["eth0"]
    assert facts["unknown"]["qdisc"].startswith("tc")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (json.dumps(SPEC), None),
        ("{", "orders: Expecting property name"),
        ("[]", "orders: found list, expected an object"),
    ],
)
def test_program_always_ends_with_a_whole_document(spec: str, reason: str | None) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "railgauge.node.system.link_state", spec],
        env={**os.environ, "PYTHONPATH": str(paths.SOURCE)},
        capture_output=True,
        check=True,
    )
    found = json.loads(ended.stdout)["unknown"].get("spec")
    assert found is None if reason is None else found.startswith(reason)
