"""RDMA devices and the state of a node's path, on trees of files that stand for sysfs."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.common.names import natural
from railgauge.node.system import rdma_devices
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


# ---- rails ----

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
