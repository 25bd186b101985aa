"""The inventory that a node takes, of machines made of files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.model import inventory as head
from railgauge.node.inventory import document, kinds
from railgauge.node.inventory.sheet import Places, Sheet
from railgauge.node.system.rdma_devices import FactError
from tests.properties import tries
from tests.unit.node.inventory import test_inventory_parsers as outputs

GPUS = ("0000:01:00.0", "0000:02:00.0")

#: What the tools of the machine below print.
ANSWERS = {
    ("scontrol", "--version"): outputs.SLURM,
    ("ethtool", "-i", "eth1"): outputs.ETHTOOL_I,
    ("ethtool", "-g", "eth1"): outputs.ETHTOOL_G,
    ("ethtool", "-k", "eth1"): outputs.ETHTOOL_K,
    ("ethtool", "--show-fec", "eth1"): outputs.ETHTOOL_FEC,
    ("ethtool", "-m", "eth1"): outputs.ETHTOOL_M,
    ("mlnx_qos", "-i", "eth1"): outputs.QOS,
    ("mstflint", "-d", "0000:3b:00.0", "q"): outputs.FLINT,
    ("mlxlink", "-d", "mlx5_0", "-p", "1", "--json"): outputs.MLXLINK,
    ("lspci", "-vv", "-D", "-s", "0000:3b:00.0"): outputs.LSPCI,
    ("nvidia-smi", "-q", "-x"): outputs.SMI,
    ("nvidia-smi", "nvlink", "-s"): outputs.NVLINK,
    ("nvidia-imex-ctl", "-N", "-j"): outputs.IMEX,
}


def answer(argv: list[str]) -> str:
    if tuple(argv) not in ANSWERS:
        raise FactError(f"{argv[0]} is not installed")
    return ANSWERS[tuple(argv)]


def no_process(argv: list[str]) -> str:
    raise AssertionError(f"{argv} was started")


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def link(root: Path, name: str, target: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (root / target).mkdir(parents=True, exist_ok=True)
    path.symlink_to(root / target)


def build(folder: Path) -> Places:
    """A machine with one ConnectX-6, a bond and two GPUs."""
    sys_root, proc, root = folder / "sys", folder / "proc", folder / "root"
    put(
        proc,
        {
            "sys/kernel/osrelease": "6.12.0\n",
            "sys/kernel/version": "#1 SMP\n",
            "sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
            "sys/net/ipv4/tcp_congestion_control": "cubic\n",
            "sys/vm/swappiness": "60\n",
            "cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1 isolcpus=1-3 quiet\n",
            "cpuinfo": "processor : 0\nmodel name : EPYC\nmicrocode : 0xa\n",
            "meminfo": "MemTotal:       16000000 kB\n",
            "driver/nvidia/version": outputs.DRIVER,
            **{f"driver/nvidia/gpus/{a}/information": outputs.INFORMATION for a in GPUS},
        },
    )
    nic = "devices/pci0000:3a/0000:3b:00.0"
    port = "class/infiniband/mlx5_0/ports/1"
    put(
        sys_root,
        {
            f"{nic}/max_link_speed": "32.0 GT/s PCIe\n",
            f"{nic}/max_link_width": "16\n",
            f"{nic}/current_link_speed": "16.0 GT/s PCIe\n",
            f"{nic}/current_link_width": "8\n",
            f"{nic}/numa_node": "1\n",
            "class/infiniband/mlx5_0/fw_ver": "28.39.1002\n",
            "class/infiniband/mlx5_0/hca_type": "MT4129\n",
            "class/infiniband/mlx5_0/board_id": "MT_0000000838\n",
            "class/infiniband/mlx5_0/node_guid": "b83f:d203:00c9:b5d4\n",
            "class/infiniband/mlx5_0/tc/1/traffic_class": "Global tclass=96\n",
            f"{port}/state": "4: ACTIVE\n",
            f"{port}/phys_state": "5: LinkUp\n",
            f"{port}/link_layer": "Ethernet\n",
            f"{port}/rate": "200 Gb/sec (4X HDR)\n",
            f"{port}/lid": "0x0\n",
            f"{port}/gid_attrs/ndevs/0": "eth1\n",
            f"{port}/gid_attrs/types/0": "IB/RoCE v1\n",
            f"{port}/gid_attrs/types/1": "RoCE v2\n",
            f"{port}/gid_attrs/types/2": "RoCE v2\n",
            f"{port}/gids/1": "fe80:0000:0000:0000:0e42:a1ff:fe00:0001\n",
            f"{port}/gids/2": "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
            "class/net/eth1/mtu": "4200\n",
            "class/net/eth1/operstate": "up\n",
            "class/net/eth1/speed": "200000\n",
            "class/net/eth1/address": "02:00:00:00:00:01\n",
            "class/net/eth1/tx_queue_len": "1000\n",
            "class/net/eth1/queues/rx-0/x": "",
            "class/net/eth1/queues/tx-0/x": "",
            "class/net/veth12/mtu": "1500\n",
            "class/net/bond0/mtu": "9000\n",
            "class/net/bond0/bonding/mode": "802.3ad 4\n",
            "class/net/bond0/bonding/xmit_hash_policy": "layer3+4 1\n",
            "class/net/bond0/bonding/miimon": "100\n",
            "class/net/bond0/bonding/slaves": "eth4 eth3\n",
            "class/net/bond0/bonding/ad_aggregator": "1\n",
            # As typed in Linux, drivers/net/bonding/bond_sysfs_slave.c.
            "class/net/eth3/bonding_slave/mii_status": "up\n",
            "class/net/eth3/bonding_slave/ad_aggregator_id": "1\n",
            "class/net/eth4/bonding_slave/mii_status": "going down\n",
            "class/net/eth4/bonding_slave/ad_aggregator_id": "N/A\n",
            "class/dmi/id/bios_version": "1.2.3\n",
            "class/dmi/id/product_name": "Default string\n",
            "devices/system/cpu/online": "0-3\n",
            "devices/system/cpu/isolated": "\n",
            "devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
            "devices/system/cpu/cpufreq/policy1/scaling_governor": "powersave\n",
            "devices/system/node/online": "0-1\n",
            "devices/system/node/node0/cpulist": "0-1\n",
            "devices/system/node/node1/cpulist": "2-3\n",
            "kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "64\n",
            "module/mlx5_core/version": "24.10-1.1.4\n",
            "bus/platform/devices/ipmi_bmc.0/firmware_revision": "1.73\n",
        },
    )
    for home in ("class/infiniband/mlx5_0", "class/net/eth1"):
        link(sys_root, f"{home}/device", nic)
    for name in ("eth3", "eth4"):
        put(sys_root, {f"class/net/{name}/mtu": "9000\n"})
        link(sys_root, f"class/net/{name}/master", "class/net/bond0")
    link(sys_root, f"{nic}/subsystem", "bus/pci")
    link(sys_root, f"{nic}/driver", "bus/pci/drivers/mlx5_core")
    for address in GPUS:
        put(
            sys_root,
            {
                f"bus/pci/devices/{address}/vendor": "0x10de\n",
                f"bus/pci/devices/{address}/class": "0x030200\n",
                f"bus/pci/devices/{address}/max_link_speed": "32.0 GT/s PCIe\n",
            },
        )
    put(
        root,
        {
            "etc/os-release": outputs.OS_RELEASE,
            "etc/nvidia-imex/nodes_config.cfg": "10.0.0.1\n10.0.0.2\n",
            "usr/lib64/libibverbs.so.1.14.44.0": "",
        },
    )
    (root / "usr/lib64/libibverbs.so.1").symlink_to("libibverbs.so.1.14.44.0")
    return Places(str(sys_root), str(proc), str(root), answer)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    yield build(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module")
def whole(machine: Places) -> Sheet:
    return document.look(machine, quick=False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kernel/release", "6.12.0"),
        ("kernel/cmdline/isolcpus", "1-3"),
        ("kernel/cmdline/quiet", True),
        ("sysctl/net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("sysctl/vm.swappiness", 60),
        ("cpu/microcode", "0xa"),
        ("cpu/governor", "performance powersave"),
        ("cpu/isolated", "no"),
        ("numa/1/cpus", "2-3"),
        ("memory/total_gib", 15),
        ("memory/transparent_hugepages", "madvise"),
        ("memory/hugepages_2048kib", 64),
        ("bios/version", "1.2.3"),
        ("bmc/firmware", "1.73"),
        ("module/mlx5_core/version", "24.10-1.1.4"),
        ("module/nvidia_peermem/loaded", False),
        ("nic/mlx5_0/firmware", "28.39.1002"),
        ("nic/mlx5_0/psid", "MT_0000000838"),
        ("nic/mlx5_0/driver", "mlx5_core"),
        ("nic/mlx5_0/pcie_now_gts", 16.0),
        ("nic/mlx5_0/pcie_possible_gts", 32.0),
        ("nic/mlx5_0/pcie_now_lanes", 8),
        ("nic/mlx5_0/pcie_possible_lanes", 16),
        ("nic/mlx5_0/numa_node", 1),
        ("nic/mlx5_0/1/state", "ACTIVE"),
        ("nic/mlx5_0/1/rate_gbits", 200.0),
        ("nic/mlx5_0/1/netdev", "eth1"),
        ("nic/mlx5_0/1/gid_types", "IB/RoCE v1, RoCE v2"),
        ("nic/mlx5_0/1/gid_types_ipv4", "RoCE v2"),
        # ibv_devinfo is not installed: derived from the MTU of eth1.
        ("nic/mlx5_0/1/active_mtu_bytes", 4096),
        ("nic/mlx5_0/1/traffic_class", 96),
        ("nic/mlx5_0/1/link_fec", "No FEC"),
        ("nic/mlx5_0/firmware_stored", "20.35.1012"),
        ("nic/mlx5_0/pcie_read_request_bytes", 4096),
        ("net/eth1/mtu_bytes", 4200),
        ("net/eth1/firmware", "26.43.2566 (MT_0000000531)"),
        ("net/eth1/ring_receive", 100),
        ("net/eth1/fec_active", "RS"),
        ("net/eth1/pfc", "0 2 6 7"),
        ("net/bond0/bond_mode", "802.3ad"),
        ("net/bond0/bond_hash", "layer3+4"),
        ("net/bond0/bond_links", "eth3 eth4"),
        ("net/bond0/bond_aggregator", 1),
        ("net/eth3/bond_aggregator", 1),
        ("net/eth3/bond_link_status", "up"),
        ("net/eth4/bond_link_status", "going down"),
        ("gpu/count", 2),
        ("gpu/0/vbios", "88.00.4f.00.09"),
        ("gpu/0/ecc", "Enabled"),
        ("gpu/1/nvlink_active", 4),
        ("nvidia/driver", "565.57.01"),
        ("imex/domain_state", "DOWN"),
        ("software/rdma_core", "44.0"),
        ("software/slurm", "24.11.5"),
        ("os/version", "13"),
    ],
)
def test_field(whole: Sheet, key: str, value: object) -> None:
    assert whole.fields.get(key) == value, whole.unknown.get(key)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("software/ofed", "ofed_info is not installed"),
        ("software/nccl", "libnccl.so.2"),
        ("system/product", "not said"),
        ("gpu/1/ecc", "not said"),
        ("gpu/0/fabric_state", "not said"),
        ("gpu/0/pcie_possible_lanes", "No such file"),
        ("net/eth1/ring_transmit", "not said"),
        ("net/eth1/dcb_pfc", "dcb is not installed"),
        ("net/bond0/operstate", "No such file"),
        ("net/eth4/bond_aggregator", "found 'N/A', expected a whole number"),
    ],
)
def test_what_cannot_be_had_is_unknown_with_its_reason(whole: Sheet, key: str, why: str) -> None:
    assert why in whole.unknown[key] and key not in whole.fields


def test_what_containers_made_is_left_out(whole: Sheet) -> None:
    assert not any("veth12" in key for key in (*whole.fields, *whole.unknown))


def test_every_field_has_a_kind_of_its_own(whole: Sheet) -> None:
    keys = {key for key in {*whole.fields, *whole.unknown} if not kinds.is_counter(key)}
    assert [key for key in keys if not any(p.fullmatch(key) for p, _ in kinds._COMPILED)] == []


def test_quick_starts_no_process_and_agrees_with_the_whole(machine: Places, whole: Sheet) -> None:
    quick = document.look(machine._replace(ask=no_process), quick=True)
    assert {key: whole.fields.get(key) for key in quick.fields} == quick.fields
    assert quick.unknown.keys() <= whole.fields.keys() | whole.unknown.keys()


def test_a_table_without_an_ipv4_address_says_so(tmp_path: Path) -> None:
    places = build(tmp_path)
    (Path(places.sys) / "class/infiniband/mlx5_0/ports/1/gids/2").unlink()
    sheet = document.look(places, quick=True)
    assert sheet.fields["nic/mlx5_0/1/gid_types_ipv4"] == "none"


def test_a_bond_without_lacp_has_no_aggregator(tmp_path: Path) -> None:
    places = build(tmp_path)
    put(Path(places.sys), {"class/net/bond0/bonding/mode": "active-backup 1\n"})
    sheet = document.look(places, quick=True)
    assert not any("aggregator" in key for key in (*sheet.fields, *sheet.unknown))


@pytest.mark.parametrize(
    "key",
    [
        *("limits/memlock_kib", "net/bond0/bond_aggregator", "net/eth3/bond_link_status"),
        *("nic/mlx5_0/1/active_mtu_bytes", "nic/mlx5_0/1/gid_types_ipv4"),
    ],
)
def test_the_state_of_links_is_no_part_of_a_fingerprint(whole: Sheet, key: str) -> None:
    assert key in whole.fields and kinds.kind(key) == "state"


def test_two_looks_agree(machine: Places, whole: Sheet) -> None:
    again = document.look(machine, quick=False)
    assert (again.fields, again.unknown) == (whole.fields, whole.unknown)


def test_a_field_is_known_or_unknown(whole: Sheet) -> None:
    assert not whole.fields.keys() & whole.unknown.keys()


@settings(max_examples=tries(40))
@given(silent=st.sets(st.sampled_from(sorted(ANSWERS))))
def test_a_tool_that_is_silent_changes_no_field(
    machine: Places, whole: Sheet, silent: set[tuple[str, ...]]
) -> None:
    def ask(argv: list[str]) -> str:
        if tuple(argv) in silent:
            raise FactError("it does not answer")
        return answer(argv)

    less = document.look(machine._replace(ask=ask), quick=False)
    assert less.fields.items() <= whole.fields.items()
    assert whole.fields.keys() - less.fields.keys() <= less.unknown.keys() | {
        # Told next to what was asked for, where it is there.
        key
        for key in whole.fields
        if key.startswith(("net/", "nic/"))
    }


@settings(max_examples=tries(40))
@given(data=st.data())
def test_no_file_of_the_kernel_crashes_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    places = build(tmp_path_factory.mktemp("broken"))
    files = sorted(p for p in Path(places.sys).parent.rglob("*") if p.is_file())
    for path in data.draw(st.lists(st.sampled_from(files), max_size=8)):
        text = data.draw(st.sampled_from(["", "\n", "-1\n", "x y\n", "255\n", "\0\xff\n", "[]\n"]))
        path.write_text(text)
    sheet = document.look(places._replace(ask=no_process), quick=True)
    assert all(isinstance(v, (str, int, float, bool)) for v in sheet.fields.values())


def test_an_empty_machine_has_reasons_only(tmp_path: Path) -> None:
    folder = str(tmp_path)
    sheet = document.look(Places(folder, folder, folder, answer), quick=True)
    # The size of a page, and what may be locked, are this process's own.
    assert sheet.fields.keys() == {"kernel/page_bytes", "limits/memlock_kib"}
    assert {
        "kernel/release",
        "cpu/model",
        "gpu/count",
        "net",
        "bios/version",
    } <= sheet.unknown.keys()


def test_the_command_prints_the_document(tmp_path: Path) -> None:
    places = build(tmp_path)
    command = [sys.executable, "-m", "railgauge.node.inventory", "--quick"]
    answered = subprocess.run(
        [*command, "--root", places.sys, "--proc", places.proc],
        capture_output=True,
        text=True,
        check=True,
    )
    document: dict[str, Any] = json.loads(answered.stdout)
    assert document["fields"]["nic/mlx5_0/firmware"] == "28.39.1002"
    assert head.load(answered.stdout).boot_id == ""


def test_the_command_prints_short_lines_that_name_their_nodes() -> None:
    command = [sys.executable, "-m", "railgauge.node.inventory", "--quick", "--lines"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    parts = [re.fullmatch(r"(\S+) (\d+)/(\d+) (.*)", line) for line in printed.splitlines()]
    found = [part.groups() for part in parts if part is not None]
    assert len(found) == len(parts) and max(map(len, printed.splitlines())) < 1024
    document = json.loads("".join(part for *_, part in found))
    assert {(node, int(count)) for node, _, count, _ in found} == {(document["node"], len(found))}


def test_the_command_writes_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "inventory.json"
    command = [sys.executable, "-m", "railgauge.node.inventory", "--quick", "--output", str(file)]
    subprocess.run(command, check=True)
    assert head.read(file).fields["kernel/release"]
    assert [path.name for path in tmp_path.iterdir()] == ["inventory.json"]
