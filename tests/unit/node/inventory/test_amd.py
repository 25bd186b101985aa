"""AMD's GPUs. The answers of amd-smi are typed in the shapes that published readers of them have
(github ROCm/cvs, ROCm/device-metrics-exporter); no output of a machine with such a GPU is at hand.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.inventory import amd, kinds
from railgauge.node.inventory.sheet import Places
from railgauge.node.system.rdma_devices import FactError


def gpu(number: int = 0, errors: Any = 0, replays: Any = 0) -> dict[str, Any]:
    return {
        "gpu": number,
        "ecc": {"total_correctable_count": 5, "total_uncorrectable_count": errors},
        "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": replays},
    }


@pytest.mark.parametrize("wrapped", [True, False])
def test_both_shapes_of_the_document_are_read(wrapped: bool) -> None:
    listed = [gpu(0), gpu(1, 2, 41)]
    text = json.dumps({"gpu_data": listed} if wrapped else listed)
    assert amd.counters(text) == {
        "amd_gpu/0/ecc_uncorrected": 0,
        "amd_gpu/0/pcie_replays": 0,
        "amd_gpu/1/ecc_uncorrected": 2,
        "amd_gpu/1/pcie_replays": 41,
    }


@pytest.mark.parametrize("value", ["N/A", None, -1, True, 1.5, {}, []])
def test_what_is_no_count_is_not_counted(value: Any) -> None:
    assert amd.counters(json.dumps([gpu(0, value)])) == {"amd_gpu/0/pcie_replays": 0}


def test_a_count_with_a_unit_is_read() -> None:
    assert (
        amd.counters(json.dumps([gpu(0, {"value": 3, "unit": ""})]))["amd_gpu/0/ecc_uncorrected"]
        == 3
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '[{"gpu": "0"}]', '[{"gpu": true}]', "[1]"])
def test_another_document_is_unknown(text: str) -> None:
    with pytest.raises(FactError):
        amd.counters(text)


WHOLE = json.dumps([gpu(0), gpu(1, 2)])


@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_document_is_unknown(cut: int) -> None:
    with pytest.raises(FactError):
        amd.counters(WHOLE[:cut])


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["gpu", "gpu_data", "ecc", "process_list", "process_info", "pid"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_document_crashes_it(document: Any) -> None:
    text = json.dumps(document)
    for read in (amd.counters, lambda one: amd.processes(one, "/proc")):
        with contextlib.suppress(FactError):
            read(text)


def test_processes_are_named_with_their_users() -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    listed = [
        {"gpu": 0, "process_list": [{"process_info": {"name": "python3", "pid": os.getpid()}}]},
        {"gpu": 1, "process_list": [{"process_info": "No running processes detected"}]},
        {"gpu": 2, "process_list": []},
        {"gpu": 3},
    ]
    assert amd.processes(json.dumps(listed), "/proc") == {
        "amd_gpu/0/processes": f"{os.getpid()} {me} python3",
        "amd_gpu/1/processes": "none",
        "amd_gpu/2/processes": "none",
    }


def device(sys: Path, address: str, vendor: str, kind: str) -> None:
    folder = sys / "bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, text in {
        **{"vendor": vendor, "class": kind, "numa_node": "1", "vbios_version": "113-M3000100-102"},
        **{"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"},
        "current_link_width": "16",
    }.items():
        (folder / name).write_text(f"{text}\n")


def places(sys: Path) -> Places:
    def ask(argv: list[str]) -> str:
        raise FactError(f"{argv[0]} is not installed")

    return Places(str(sys), "/proc", "/", ask)


def test_accelerators_are_found_and_displays_are_not(tmp_path: Path) -> None:
    device(tmp_path, "0000:05:00.0", "0x1002", "0x120000")
    device(tmp_path, "0000:06:00.0", "0x1002", "0x030000")
    device(tmp_path, "0000:07:00.0", "0x10de", "0x030200")
    sheet = amd.look(places(tmp_path))
    assert sheet.fields["amd_gpu/count"] == 1
    assert sheet.fields["amd_gpu/0/pcie_now_lanes"] == 16
    assert sheet.fields["amd_gpu/0/vbios"] == "113-M3000100-102"
    (counted, listed) = [source() for source in amd.sources(places(tmp_path))]
    assert set(counted.unknown) == {"amd_gpu/0/ecc_uncorrected", "amd_gpu/0/pcie_replays"}
    assert all(kinds.is_counter(key) for key in counted.unknown)
    assert kinds.kind("amd_gpu/0/processes") == "state" and list(listed.unknown)


def test_a_node_without_such_a_gpu_has_no_field_of_it(tmp_path: Path) -> None:
    device(tmp_path, "0000:07:00.0", "0x10de", "0x030200")
    assert amd.look(places(tmp_path)).fields == {} and amd.sources(places(tmp_path)) == []
