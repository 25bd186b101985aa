"""What a node sees of the PCIe links of its GPUs while a program loads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railgauge.node.runners import gpu_links
from railgauge.node.system.tool_call import Call


def gpu(driver: Path, address: str, **files: str) -> Path:
    home = driver / address
    home.mkdir(parents=True)
    for name, text in files.items():
        (home / name).write_text(f"{text}\n")
    return home


def test_the_best_speed_and_width_under_load_are_kept(tmp_path: Path) -> None:
    home = gpu(
        tmp_path,
        "0000:1b:00.0",
        current_link_speed="2.5 GT/s PCIe",
        current_link_width="16",
        numa_node="1",
        local_cpulist=f"{min(os.sched_getaffinity(0))}",
    )
    # The first look sees the idle link, later ones what the program did.
    script = f"sleep 0.4; echo '32.0 GT/s PCIe' > {home}/current_link_speed; sleep 0.5"
    call = Call("rank0", ["sh", "-c", script])
    (seen,) = gpu_links.watch(call, 20, [str(tmp_path)])
    assert call.exit_code == 0
    assert seen == {
        "pci": "0000:1b:00.0",
        "numa_node": 1,
        "near_cpus_allowed": 1,
        "pcie_gts": 32.0,
        "pcie_lanes": 16.0,
    }


def test_what_the_kernel_does_not_know_is_left_out(tmp_path: Path) -> None:
    gpu(tmp_path, "0000:1b:00.0", current_link_speed="Unknown", numa_node="-1")
    (tmp_path / "module").mkdir()
    call = Call("rank0", ["sleep", "0.4"])
    assert gpu_links.watch(call, 20, [str(tmp_path)]) == [{"pci": "0000:1b:00.0"}]


def test_a_job_away_from_a_gpu_is_seen(tmp_path: Path) -> None:
    gpu(tmp_path, "0000:1b:00.0", local_cpulist="9000-9007")
    call = Call("rank0", ["true"])
    (seen,) = gpu_links.watch(call, 20, [str(tmp_path)])
    assert seen["near_cpus_allowed"] == 0


def test_a_program_that_hangs_is_ended_at_its_limit(tmp_path: Path) -> None:
    call = Call("rank0", ["sleep", "60"])
    assert gpu_links.watch(call, 0.5, [str(tmp_path)]) == []
    assert call.exit_code is None and "still running after" in call.note


def test_without_the_driver_nothing_is_seen(tmp_path: Path) -> None:
    call = Call("rank0", ["true"])
    assert gpu_links.watch(call, 20, [str(tmp_path / "none")]) == []
    assert call.exit_code == 0


@pytest.mark.parametrize("program", ["single_node", "gpu_links"])
def test_a_sweep_knows_the_order_of_a_program_of_one_node(program: str) -> None:
    from railgauge.node.orchestration import sweep_file

    assert sweep_file.ORDERS[program] is sweep_file.SingleNodeOrder
    assert sweep_file.ROLES[program] == ("node",)
