"""What vendors' tools print, read for an inventory: real outputs, cut and mutated ones.

Every output names where it was published. Addresses and serial numbers are shortened in places,
long outputs to the parts that are read; nothing else is changed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.node.inventory import ethtool, machine, mellanox, nvidia, software
from railgauge.node.system.rdma_devices import FactError
from tests.properties import tries

# github influxdata/telegraf, plugins/inputs/nvidia_smi/testdata/a100-sxm4-v12.xml (2023-08-04),
# the first GPU; attached_gpus was 4.
SMI = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
    <timestamp>Fri Aug  4 11:44:30 2023</timestamp>
    <driver_version>535.54.03</driver_version>
    <cuda_version>12.2</cuda_version>
    <attached_gpus>1</attached_gpus>
    <gpu id="00000000:01:00.0">
        <product_name>NVIDIA A100-SXM4-80GB</product_name>
        <product_architecture>Ampere</product_architecture>
        <persistence_mode>Disabled</persistence_mode>
        <mig_mode>
            <current_mig>Enabled</current_mig>
            <pending_mig>Enabled</pending_mig>
        </mig_mode>
        <serial>1650522003820</serial>
        <uuid>GPU-513536b6-7d19-9063-b049-1e69664bb298</uuid>
        <vbios_version>92.00.36.00.02</vbios_version>
        <inforom_version>
            <img_version>G506.0212.00.01</img_version>
        </inforom_version>
        <gsp_firmware_version>535.54.03</gsp_firmware_version>
        <clocks_event_reasons>
            <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
            <clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
            <clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
            <clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>
            <clocks_event_reason_sw_thermal_slowdown>Not Active</clocks_event_reason_sw_thermal_slowdown>
        </clocks_event_reasons>
        <compute_mode>Default</compute_mode>
        <ecc_mode>
            <current_ecc>Enabled</current_ecc>
            <pending_ecc>Enabled</pending_ecc>
        </ecc_mode>
        <remapped_rows>N/A</remapped_rows>
        <gpu_power_readings>
            <power_draw>67.03 W</power_draw>
            <current_power_limit>500.00 W</current_power_limit>
            <max_power_limit>500.00 W</max_power_limit>
        </gpu_power_readings>
        <max_clocks>
            <graphics_clock>1410 MHz</graphics_clock>
            <mem_clock>1593 MHz</mem_clock>
        </max_clocks>
        <fabric>
            <state>N/A</state>
            <status>N/A</status>
        </fabric>
    </gpu>
</nvidia_smi_log>
"""  # noqa: E501

# github Azure/azhpc-diagnostics, issue 73 (2022-03-23), GPU 3, behind one with all links as in
# github NVIDIA/nccl-tests, issue 228 (2024-06), of as many links.
NVLINK = """GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-a)
\t Link 0: 25.781 GB/s
\t Link 1: 25.781 GB/s
\t Link 2: 25.781 GB/s
\t Link 3: 25.781 GB/s
\t Link 4: 25.781 GB/s
\t Link 5: 25.781 GB/s
GPU 1: Tesla V100-SXM2-32GB (UUID: GPU-b)
         Link 0: 25.781 GB/s
         Link 1: 25.781 GB/s
         Link 2: 25.781 GB/s
         Link 3: <inactive>
         Link 4: 25.781 GB/s
         Link 5: <inactive>
"""

# github NVIDIA/ai-cloud-validation, tests of isvctl's imex_domain_test ("schema confirmed live",
# 2026-09-04): nvidia-imex-ctl -N -j -H of a domain of two, here with one node of its healthy
# example and one of its broken one.
IMEX = """{"nodes": {
 "0": {"status": "READY", "host": "10.0.0.1", "hostName": "gpu-node-a", "connections": {
   "0": {"host": "10.0.0.1", "status": "CONNECTED", "changed": true},
   "1": {"host": "10.0.0.2", "status": "CONNECTED", "changed": true}}},
 "1": {"status": "UNAVAILABLE", "host": "10.0.0.2", "hostName": "N/A", "connections": {
   "0": {"host": "10.0.0.1", "status": "INVALID", "changed": false},
   "1": {"host": "10.0.0.2", "status": "INVALID", "changed": false}}}},
 "timestamp": "9/4/2026 00:00:00.000", "status": "DOWN"}
"""

# github nix-community/nixGL, issue 186 (2024-12-26)
DRIVER = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  \
(dvs-builder@U16-A24-9-2)  Thu Oct 10 12:15:00 UTC 2024
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""

# github ray-project/ray, test_gpu_info_parsing (2020)
INFORMATION = """Model:           Tesla V100-SXM2-16GB
IRQ:             107
GPU UUID:        GPU-8eaaebb8-bb64-8489-fda2-62256e821983
Video BIOS:      88.00.4f.00.09
Bus Type:        PCIe
DMA Size:        47 bits
DMA Mask:        0x7fffffffffff
Bus Location:    0000:00:1e.0
Device Minor:    0
Blacklisted:     No
"""

# A thread on mlx5 and page pools, netdev mailing list (kernel 6.19, 2026)
ETHTOOL_I = """driver: mlx5_core
version: 6.19.0-061900-generic
firmware-version: 26.43.2566 (MT_0000000531)
expansion-rom-version:
bus-info: 0000:3b:00.0
supports-statistics: yes
"""

# M. Georgiev, "Add --json support for Netlink implementation of --show-ring option", netdev
# mailing list (2022)
ETHTOOL_G = """Ring parameters for enp9s0u2u1u2:
Pre-set maximums:
RX:\t\t4096
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\tn/a
Current hardware settings:
RX:\t\t100
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\tn/a
RX Buf Len:\tn/a
CQE Size:\tn/a
TX Push:\toff
TCP data split:\tn/a
"""

# ethtool 6.14 on a virtual machine of the lab (2026-11-21), the first lines
ETHTOOL_K = """Features for eth1:
rx-checksumming: on [fixed]
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
scatter-gather: on
\ttx-scatter-gather: on
tcp-segmentation-offload: on
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: off [fixed]
ntuple-filters: off [fixed]
receive-hashing: off [fixed]
hw-tc-offload: off [fixed]
rx-gro-hw: on
"""

# A. Samal, "ice: Implement ethtool get fec stats", netdev mailing list (2024)
ETHTOOL_FEC = """FEC parameters for ens21f0np0:
Supported/Configured FEC encodings: Auto RS BaseR
Active FEC encoding: RS
"""

# NVIDIA, Cumulus Linux documentation, "Switch Port Attributes": ethtool -m swp1
ETHTOOL_M = """        Transceiver type                          : 10G Ethernet: 10G Base-LR
        Vendor name                               : FINISAR CORP.
        Vendor OUI                                : 00:90:65
        Vendor PN                                 : FTLX2071D327
        Vendor rev                                : A
        Vendor SN                                 : UY30DTX
        Laser output power                        : 0.5230 mW / -2.81 dBm
"""

# github openstack/ironic-python-agent, tests of nvidia_fw_update (firmware of 2022-10-28)
FLINT = """Image type:            FS4
FW Version:            20.35.1012
FW Release Date:       28.10.2022
Product Version:       20.35.1012
Rom Info:              type=UEFI version=14.28.15 cpu=AMD64,AARCH64
                       type=PXE version=3.6.804 cpu=AMD64
Description:           UID                GuidsNumber
Base GUID:             043f720300f04c46        8
Base MAC:              043f72f04c46            8
Image VSD:             N/A
Device VSD:            N/A
PSID:                  MT_0000000228
Security Attributes:   N/A
"""

# github MrBr-github/lshca, issue 11 (2020-12-23), the first section and the recommendation
MLXLINK = """{
   "result" : {
      "output" : {
         "Operational Info" : {
            "Auto Negotiation" : "ON",
            "FEC" : "No FEC",
            "Loopback Mode" : "No Loopback",
            "Physical state" : "LinkUp",
            "Speed" : "IB-EDR",
            "State" : "Active",
            "Width" : "4x"
         },
         "Troubleshooting Info" : {
            "Recommendation" : "No issue was observed."
         }
      }
   }
}
"""

# community.mellanox.com, DOC-2792, "mlnx_qos" (MLNX_OFED 4.2, 2017)
QOS = """DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
Cable len: 10
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     1   0   1   0   0   0   1   1

tc: 0 ratelimit: unlimited, tsa: ets, bw: 10%
\t priority:  1
"""

# github NVIDIA/l2fwd-nv, issue 6: a ConnectX-6 Dx
LSPCI = """b3:00.0 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]
        NUMA node: 0
        Capabilities: [60] Express (v2) Endpoint, MSI 00
                DevCap: MaxPayload 512 bytes, PhantFunc 0, Latency L0s unlimited, L1 unlimited
                        ExtTag+ AttnBtn- AttnInd- PwrInd- RBE+ FLReset+ SlotPowerLimit 75.000W
                DevCtl: Report errors: Correctable- Non-Fatal+ Fatal+ Unsupported+
                        RlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
                        MaxPayload 256 bytes, MaxReadReq 4096 bytes
                DevSta: CorrErr- UncorrErr- FatalErr- UnsuppReq- AuxPwr- TransPend-
"""

# The lab's own: slurm 24.11, /etc/os-release of Debian 13 (2026-11-21)
SLURM = "slurm 24.11.5\n"
OS_RELEASE = """PRETTY_NAME="Debian GNU/Linux 13 (trixie)"
NAME="Debian GNU/Linux"
VERSION_ID="13"
VERSION="13 (trixie)"
ID=debian
"""


class Read(NamedTuple):
    """A text, its parser, and what it must give."""

    text: str
    parse: Callable[[str], Any]
    gives: Mapping[str, Any]


def one(parse: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    return lambda text: {"value": parse(text)}


def of_gpus(text: str) -> dict[str, Any]:
    said = nvidia.smi(text)
    return {
        **said.node,
        **{f"{a}/{name}": v for a, fields in said.gpus.items() for name, v in fields.items()},
    }


def of_links(text: str) -> dict[str, Any]:
    return {
        f"{gpu}/{name}": value
        for gpu, fields in nvidia.nvlinks(text).items()
        for name, value in fields.items()
    }


READS = {
    "nvidia-smi -q -x": Read(
        SMI,
        of_gpus,
        {
            "nvidia/driver_smi": "535.54.03",
            "nvidia/cuda_of_driver": "12.2",
            "0000:01:00.0/model": "NVIDIA A100-SXM4-80GB",
            "0000:01:00.0/vbios": "92.00.36.00.02",
            "0000:01:00.0/ecc": "Enabled",
            "0000:01:00.0/mig_mode": "Enabled",
            "0000:01:00.0/power_limit_w": 500.0,
            "0000:01:00.0/clock_graphics_most_mhz": 1410,
            "0000:01:00.0/throttled_hw_slowdown": False,
            "0000:01:00.0/fabric_state": "N/A",
        },
    ),
    "nvidia-smi nvlink -s": Read(
        NVLINK,
        of_links,
        {
            "0/nvlink_links": 6,
            "0/nvlink_active": 6,
            "0/nvlink_gbytes_s": 25.781,
            "1/nvlink_links": 6,
            "1/nvlink_active": 4,
        },
    ),
    "nvidia-imex-ctl -N -j": Read(
        IMEX,
        nvidia.imex,
        {"imex/domain_state": "DOWN", "imex/nodes": 2, "imex/nodes_ready": 1},
    ),
    "/proc/driver/nvidia/version": Read(DRIVER, one(nvidia.driver_version), {"value": "565.57.01"}),
    "/proc/driver/nvidia/gpus/*/information": Read(
        INFORMATION,
        nvidia.gpu_information,
        {"model": "Tesla V100-SXM2-16GB", "vbios": "88.00.4f.00.09"},
    ),
    "ethtool -i": Read(
        ETHTOOL_I,
        ethtool.driver_information,
        {"firmware": "26.43.2566 (MT_0000000531)", "driver_version": "6.19.0-061900-generic"},
    ),
    "ethtool -g": Read(ETHTOOL_G, ethtool.rings, {"ring_receive_most": 4096, "ring_receive": 100}),
    "ethtool -k": Read(
        ETHTOOL_K,
        ethtool.offloads,
        {"offload_tso": "on", "offload_lro": "off", "offload_gro_hardware": "on"},
    ),
    "ethtool --show-fec": Read(
        ETHTOOL_FEC, ethtool.fec, {"fec_configured": "Auto RS BaseR", "fec_active": "RS"}
    ),
    "ethtool -m": Read(
        ETHTOOL_M,
        ethtool.module,
        {"module_vendor": "FINISAR CORP.", "module_part": "FTLX2071D327"},
    ),
    "mstflint q": Read(
        FLINT, mellanox.flint, {"firmware_stored": "20.35.1012", "firmware_image": "FS4"}
    ),
    "mlxlink --json": Read(
        MLXLINK,
        mellanox.link,
        {"link_speed": "IB-EDR", "link_lanes": 4, "link_fec": "No FEC", "link_state": "Active"},
    ),
    "mlnx_qos": Read(QOS, mellanox.qos, {"qos_trust": "dscp", "pfc": "0 2 6 7"}),
    "lspci -vv": Read(
        LSPCI, mellanox.pcie_sizes, {"pcie_payload_bytes": 256, "pcie_read_request_bytes": 4096}
    ),
    "scontrol --version": Read(SLURM, one(software.slurm), {"value": "24.11.5"}),
    "os-release": Read(OS_RELEASE, software.os_release, {"name": "debian", "version": "13"}),
}


def read(tool: str, text: str) -> dict[str, Any]:
    """What the parser gives; nothing where it finds the text to be none of its tool's."""
    try:
        return dict(READS[tool].parse(text))
    except FactError:
        return {}


@pytest.mark.parametrize("tool", READS)
def test_a_real_output_gives_its_fields(tool: str) -> None:
    found = read(tool, READS[tool].text)
    assert {name: found.get(name) for name in READS[tool].gives} == READS[tool].gives


@pytest.mark.parametrize("tool", READS)
def test_a_cut_output_gives_no_wrong_value(tool: str) -> None:
    text, whole = READS[tool].text, read(tool, READS[tool].text)
    for length in range(len(text)):
        for name, value in read(tool, text[:length]).items():
            assert whole.get(name) == value, (length, name)


@pytest.mark.parametrize("tool", READS)
@settings(max_examples=tries(60))
@given(data=st.data())
def test_no_mutation_crashes_a_parser(tool: str, data: st.DataObject) -> None:
    text = READS[tool].text
    place = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 40))
    other = data.draw(st.sampled_from(["", "\n", "{", "[]", "null", "-1", "\0", "x" * 50, '"']))
    read(tool, text[:place] + other + text[place + length :])


@settings(max_examples=tries(200))
@given(st.text(max_size=200))
def test_no_text_crashes_a_parser(text: str) -> None:
    for tool in READS:
        read(tool, text)
    for parse in (
        ethtool.pause,
        mellanox.dcb_pfc,
        software.ofed,
        software.cuda,
        software.bios,
        nvidia.fabric_manager,
        machine.command_line,
        machine.processors,
        machine.memory_gib,
    ):
        with contextlib.suppress(FactError):
            parse(text)


# ---- single facts ----


def test_a_gpu_that_has_gone_from_the_bus_is_no_whole_document() -> None:
    with pytest.raises(FactError, match="2 GPUs attached, 1 listed"):
        nvidia.smi(SMI.replace("<attached_gpus>1<", "<attached_gpus>2<"))


def test_an_active_slowdown_is_reported() -> None:
    changed = SMI.replace("hw_slowdown>Not Active", "hw_slowdown>Active")
    assert read("nvidia-smi -q -x", changed)["0000:01:00.0/throttled_hw_slowdown"] is True


def test_slowdowns_of_older_drivers_are_reported() -> None:
    old = SMI.replace("clocks_event", "clocks_throttle")
    assert read("nvidia-smi -q -x", old)["0000:01:00.0/throttled_hw_slowdown"] is False


def test_a_link_of_no_rate_is_not_active() -> None:
    # "a link reporting 0 GB/s that should be active is a fault"
    dead = NVLINK.replace("Link 2: 25.781 GB/s", "Link 2: 0 GB/s")
    assert read("nvidia-smi nvlink -s", dead)["0/nvlink_active"] == 5


_LINKED = (
    "GPU {}: NVIDIA H100 80GB HBM3 (UUID: GPU-y)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"
)
#: gpud #1085: of a GPU without any
_NONE_ACTIVE = (
    "GPU {}: NVIDIA H100 80GB HBM3 (UUID: GPU-x)\n"
    "NVML: Unable to retrieve NVLink information as all links are inActive\n"
)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_gpu_without_any_active_link_hides_no_other(place: int) -> None:
    gpus = [part.format(i) for i, part in enumerate([_LINKED, _LINKED, _LINKED])]
    gpus[place] = _NONE_ACTIVE.format(place)
    links = nvidia.nvlinks("".join(gpus))
    linked = {"nvlink_links": 2, "nvlink_active": 2, "nvlink_gbytes_s": 26.562}
    assert links == {n: {"nvlink_active": 0} if n == place else linked for n in range(3)}


def test_links_that_the_last_gpu_lacks_are_unknown_not_fewer() -> None:
    # nothing tells a GPU that lost a line from an output that lost its end
    cut = NVLINK.removesuffix("         Link 5: <inactive>\n")
    assert set(read("nvidia-smi nvlink -s", cut)) == {
        "0/nvlink_links",
        "0/nvlink_active",
        "0/nvlink_gbytes_s",
    }


def test_a_port_that_is_down_keeps_its_state_and_advice() -> None:
    # mstflint's mlxlink_commander.cpp prints N/A of what a link without a partner does not have.
    operation = {"State": "Polling", "Speed": "N/A", "Width": "N/A", "FEC": "N/A"}
    output = {
        "Operational Info": operation,
        "Troubleshooting Info": {"Recommendation": "Cable is unplugged"},
    }
    said = mellanox.link(json.dumps({"result": {"output": output}}))
    assert said == {"link_state": "Polling", "link_trouble": "Cable is unplugged"}


def test_a_vbios_that_the_driver_has_not_asked_for_is_unknown() -> None:
    # github, /proc/driver/nvidia/gpus/*/information of a Tesla K80 whose driver does not fit
    assert nvidia.gpu_information("Model: Tesla K80\nVideo BIOS: ??.??.??.??.??\n") == {
        "model": "Tesla K80"
    }


def test_capabilities_are_shown_to_root_only() -> None:
    with pytest.raises(FactError, match="only root"):
        mellanox.pcie_sizes("b3:00.0 Ethernet controller\n\tCapabilities: <access denied>\n")


def test_no_priority_with_pfc_is_said() -> None:
    none = QOS.replace("1   0   1   0   0   0   1   1", "0   0   0   0   0   0   0   0")
    assert read("mlnx_qos", none)["pfc"] == "no"


def test_priorities_of_dcb_are_numbered_in_order() -> None:
    text = '{"pfc_cap":8,"prio_pfc":[false,false,false,true,false,false,false,false]}'
    assert mellanox.dcb_pfc(text) == {"dcb_pfc": "3"}


@pytest.mark.parametrize("text", ['{"prio_pfc":[true]}', '{"prio_pfc":{}}', "[]", "{}", ""])
def test_another_answer_of_dcb_is_unknown(text: str) -> None:
    with pytest.raises(FactError):
        mellanox.dcb_pfc(text)


# ---- the kernel's own ----


def test_the_command_line_is_one_field_a_parameter() -> None:
    line = 'BOOT_IMAGE=/vmlinuz root=UUID=1 ro isolcpus=2-29,34-61 hugepagesz=1G dyndbg="file a +p"'
    assert machine.command_line(line + " console=tty0 console=ttyS0 -- init=/x\n") == {
        "BOOT_IMAGE": "/vmlinuz",
        "root": "UUID=1",
        "ro": True,
        "isolcpus": "2-29,34-61",
        "hugepagesz": "1G",
        "dyndbg": "file a +p",
        "console": "tty0 ttyS0",
    }


@pytest.mark.parametrize(
    "word", ["inst.rootpw_password=abc", "rd.iscsi.secret=abc", "ip=x://user:abc@host", "key=abc"]
)
def test_no_secret_of_the_command_line_is_kept(word: str) -> None:
    assert "abc" not in str(machine.command_line(f"quiet {word}\n"))


def test_a_cut_command_line_is_unknown() -> None:
    with pytest.raises(FactError):
        machine.command_line("quiet isolcpus=2-2")


def test_processors_of_arm_have_numbers_for_a_name() -> None:
    text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\nprocessor\t: 1\n"
    assert machine.processors(text) == {
        "cpu/model": "implementer 0x41 part 0xd4f",
        "cpu/threads": 2,
    }


def test_two_microcodes_are_both_reported() -> None:
    text = "".join(f"processor: {n}\nmodel name: X\nmicrocode: 0x{n}\n" for n in range(2))
    assert machine.processors(text)["cpu/microcode"] == "0x0 0x1"


def test_an_h100_is_read_as_its_driver_shows_it() -> None:
    folder = Path(__file__).parents[3] / "data" / "gpu" / "inventory"
    (gpu,) = nvidia.smi((folder / "nvidia-smi-q-x.xml").read_text()).gpus.values()
    assert (
        gpu.items()
        >= {
            "model": "NVIDIA H100 80GB HBM3",
            "architecture": "Hopper",
            "vbios": "96.00.da.00.0c",
            "gsp_firmware": "580.159.04",
            "ecc": "Enabled",
            "mig_mode": "Disabled",
            "persistence_mode": "Enabled",
            "rows_remap_pending": "No",
            "recovery_action": "None",
            "channel_repair_pending": "No",
            "tpc_repair_pending": "No",
            "unrepairable_memory": "No",
            "fabric_health": "N/A",
            "fabric_bandwidth": "N/A",
            "power_limit_w": 700.0,
            "clock_graphics_most_mhz": 1980,
            **{f"throttled_{reason}": False for reason in nvidia.THROTTLES},
        }.items()
    )
    assert nvidia.driver_version((folder / "version").read_text()) == "580.159.04"
    information = nvidia.gpu_information((folder / "information").read_text())
    assert information == {"model": "NVIDIA H100 80GB HBM3", "vbios": "96.00.da.00.0c"}
