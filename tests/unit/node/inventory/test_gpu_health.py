"""Counters of GPUs, Xids and processes, as NVIDIA's tools and the kernel print them.

`nvidia-smi -q -x` is an H100's own output (tests/data/gpu/inventory). That of `nvlink -e` and the
lines of Xids are typed from published ones: github stas00/ml-engineering, compute/accelerator/
nvidia/debug.md. No output of a node with NVLink of ours is at hand.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.inventory import gpu_health, kinds, nvidia
from railgauge.node.inventory.sheet import Places
from railgauge.node.system.rdma_devices import FactError

H100 = (Path(__file__).parents[3] / "data/gpu/inventory/nvidia-smi-q-x.xml").read_text()
ME = pwd.getpwuid(os.getuid()).pw_name


def links(errors: int = 0, gpus: int = 2, names: tuple[str, ...] = ("CRC",)) -> str:
    text = ""
    for gpu in range(gpus):
        text += f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu})\n"
        for link in range(3):
            text += f"\t Link {link}: Replay Errors: 0\n\t Link {link}: Recovery Errors: 0\n"
            text += "".join(f"\t Link {link}: {name} Errors: {errors}\n" for name in names) + "\n"
    return text


DMESG = (
    "[    1.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04\n"
    "[ 1234.567890] NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for "
    "remapping, reset gpu to activate.\n"
    "[ 1300.000000] NVRM: Xid (PCI:0000:01:00): 79, pid=1122, GPU has fallen off the bus.\n"
    "[ 1300.000001] NVRM: Xid (PCI:0000:01:00): 79, pid=1122, GPU has fallen off the bus.\n"
)


def of_h100(text: str = H100) -> dict[str, Any]:
    (gpu,) = nvidia.smi(text).gpus.values()
    return dict(gpu)


def changed(place: str, value: str) -> str:
    """The H100's output with another value at a place below its GPU."""
    root = xml.fromstring(H100)
    entry = root.find(f"gpu/{place}")
    assert entry is not None
    entry.text = value
    return xml.tostring(root, encoding="unicode")


def with_process(pid: int | str, kind: str = "C") -> str:
    entry = (
        f"<process_info><pid>{pid}</pid><type>{kind}</type>"
        "<process_name>/usr/bin/python3</process_name><used_memory>512 MiB</used_memory>"
        "</process_info>"
    )
    return H100.replace("<processes>", f"<processes>{entry}")


# ---- nvidia-smi -q -x ----


def test_a_healthy_h100_has_counted_nothing() -> None:
    said = of_h100()
    assert {name: said[name] for name in gpu_health.SMI_COUNTERS} == dict.fromkeys(
        gpu_health.SMI_COUNTERS, 0
    )
    assert said["processes"] == "none"
    assert said["ecc_sram_threshold_exceeded"] == "No"


@pytest.mark.parametrize(
    ("place", "value", "counter", "counted"),
    [
        ("ecc_errors/volatile/dram_uncorrectable", "2", "ecc_uncorrected", 2),
        ("ecc_errors/volatile/sram_uncorrectable_parity", "1", "ecc_uncorrected", 1),
        ("remapped_rows/remapped_row_unc", "3", "rows_remapped_uncorrectable", 3),
        ("remapped_rows/remapped_row_corr", "1", "rows_remapped_correctable", 1),
        ("pci/replay_counter", "41", "pcie_replays", 41),
        (
            "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown",
            "120034 us",
            "slowed_hw_thermal_us",
            120034,
        ),
    ],
)
def test_what_is_counted_is_read(place: str, value: str, counter: str, counted: int) -> None:
    assert of_h100(changed(place, value))[counter] == counted


def test_corrected_errors_are_not_those() -> None:
    assert of_h100(changed("ecc_errors/volatile/dram_correctable", "9"))["ecc_uncorrected"] == 0


def test_a_gpu_without_ecc_has_no_such_counter() -> None:
    root = xml.fromstring(H100)
    for entry in root.findall("gpu/ecc_errors/volatile/*"):
        entry.text = "N/A"
    assert "ecc_uncorrected" not in of_h100(xml.tostring(root, encoding="unicode"))


def test_errors_are_counted_on_gpus_before_ampere() -> None:
    root = xml.fromstring(
        "<gpu><ecc_errors><volatile><double_bit><total>4</total></double_bit></volatile>"
        "</ecc_errors></gpu>"
    )
    assert gpu_health.counters(root) == {"ecc_uncorrected": 4}


def test_a_leaked_process_is_named_with_its_user() -> None:
    leaked = with_process(os.getpid())
    assert of_h100(leaked)["processes"] == f"{os.getpid()} {ME} /usr/bin/python3"


def test_a_process_that_another_container_hides_is_named_all_the_same() -> None:
    assert of_h100(with_process(2**30))["processes"] == f"{2**30} ? /usr/bin/python3"
    assert of_h100(with_process("N/A"))["processes"] == "N/A ? /usr/bin/python3"


def test_a_display_is_no_program_that_computes() -> None:
    assert of_h100(with_process(os.getpid(), "G"))["processes"] == "none"
    assert of_h100(with_process(os.getpid(), "C+G"))["processes"] != "none"


@pytest.mark.parametrize("text", ["<gpu/>", "<gpu><processes>N/A</processes></gpu>"])
def test_without_a_list_of_processes_it_is_not_known_whether_there_are_any(text: str) -> None:
    with pytest.raises(FactError):
        gpu_health.processes(xml.fromstring(text), "/proc")


# ---- nvidia-smi nvlink -e ----


def test_errors_of_all_links_of_a_gpu_are_added() -> None:
    assert gpu_health.link_errors(links(2)) == {
        gpu: {"nvlink_replay_errors": 0, "nvlink_recovery_errors": 0, "nvlink_crc_errors": 6}
        for gpu in (0, 1)
    }


def test_both_kinds_of_crc_errors_are_added() -> None:
    text = links(2, names=("CRC Flit", "CRC Data"))
    assert gpu_health.link_errors(text)[0]["nvlink_crc_errors"] == 12


def test_other_counters_of_newer_drivers_are_no_errors() -> None:
    text = links().replace("Replay Errors: 0", "Tx packets: 123456")
    assert gpu_health.link_errors(text)[0] == {"nvlink_recovery_errors": 0, "nvlink_crc_errors": 0}


def test_of_a_single_gpu_nothing_shows_whether_all_is_there() -> None:
    assert gpu_health.link_errors(links(gpus=1)) == {}


@given(st.integers(0, len(links(3, gpus=3))))
def test_a_cut_output_never_shows_fewer_errors(cut: int) -> None:
    whole = gpu_health.link_errors(links(3, gpus=3))
    for gpu, counted in gpu_health.link_errors(links(3, gpus=3)[:cut]).items():
        # Of the first GPU nothing tells its end, unless another stands behind it.
        assert counted == whole[gpu]


@given(st.text() | st.lists(st.sampled_from(links(1).splitlines(keepends=True))).map("".join))
def test_nothing_crashes(text: str) -> None:
    gpu_health.link_errors(text)
    gpu_health.xids(text)
    with contextlib.suppress(FactError):
        nvidia.smi(text)


# ---- the kernel's log ----


def test_xids_are_counted_by_gpu_and_number() -> None:
    assert gpu_health.xids(DMESG) == {"xid/0000:10:1c/63": 1, "xid/0000:01:00/79": 2}


@given(st.integers(0, len(DMESG)))
def test_a_cut_log_has_no_other_xids(cut: int) -> None:
    whole = gpu_health.xids(DMESG)
    for key, count in gpu_health.xids(DMESG[:cut]).items():
        assert count <= whole[key]


def places(answer: str | Exception) -> Places:
    def ask(argv: list[str]) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Places("/sys", "/proc", "/", ask)


def test_a_log_without_xids_was_read_all_the_same() -> None:
    assert gpu_health.xid_sheet(places("")).fields == {"xid/log": 1}


def test_a_log_that_users_may_not_read_says_so() -> None:
    refused = FactError(
        "dmesg: exit code 1: dmesg: read kernel buffer failed: Operation not permitted"
    )
    sheet = gpu_health.xid_sheet(places(refused))
    assert sheet.fields == {} and "not permitted" in sheet.unknown["xid/log"]


def test_every_counter_stands_apart_from_the_fields() -> None:
    sheet = gpu_health.link_sheet(places(links(1)), 2)
    sheet.add(gpu_health.xid_sheet(places(DMESG)))
    counted = [*sheet.fields, *(f"gpu/0/{name}" for name in gpu_health.SMI_COUNTERS)]
    assert all(kinds.is_counter(key) for key in counted)
    fields = ("processes", "ecc", "nvlink_active", "rows_remap_pending", "throttled_hw_slowdown")
    assert not any(kinds.is_counter(f"gpu/0/{name}") for name in fields)
