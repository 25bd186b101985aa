"""The GPUs of the machine under the lab, and the nodes that use them."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import pydantic
import pytest

from railgauge.common.errors import PrerequisiteError
from railgauge.lab import driver, render
from railgauge.lab.spec import LabSpec

DESCRIPTION: dict[str, Any] = {
    "network": {"subnet": "10.80.0.0/24", "mtu_bytes": 4200, "link_gbits": 1},
    "head": {"name": "headgpu"},
    "nodes": [{"names": "n[1-2]", "kind": "namespace", "cpus": 8, "memory_mib": 800, "gpus": 1}],
}


def described(**changes: Any) -> LabSpec:
    (group,) = DESCRIPTION["nodes"]
    return LabSpec.model_validate({**DESCRIPTION, "nodes": [{**group, **changes}]})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a GPU, whose driver lies where images of containers have it."""
    devices, mounted = tmp_path / "dev", tmp_path / "nvidia"
    for folder in (devices, mounted / "bin", mounted / "lib64"):
        folder.mkdir(parents=True)
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        # The null device: a node for a character device is root's to make.
        (devices / name).symlink_to("/dev/null")
    (devices / "nvidia-caps").mkdir()
    for name in ("libcuda.so.1", "libcuda.so.580.1", "libnvidia-ml.so.1", "libEGL_nvidia.so.0"):
        (mounted / "lib64" / name).touch()
    program = mounted / "bin" / "nvidia-smi"
    program.touch(mode=0o755)
    monkeypatch.setattr(driver, "_DEVICES", devices)
    monkeypatch.setattr(driver, "_MOUNTED", mounted)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    no_cache = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: no_cache)
    return tmp_path


def test_a_node_gets_the_devices_the_libraries_and_nvidia_smi(machine: Path) -> None:
    given = dict(line.split("\t") for line in driver.of_host(1).bound().splitlines())
    dev, lib = machine / "dev", machine / "nvidia" / "lib64"
    assert given == {
        **{str(dev / name): str(dev / name) for name in ("nvidia0", "nvidiactl", "nvidia-uvm")},
        str(lib / "libcuda.so.1"): "/usr/lib/libcuda.so.1",
        str(lib / "libcuda.so.580.1"): "/usr/lib/libcuda.so.580.1",
        str(lib / "libnvidia-ml.so.1"): "/usr/lib/libnvidia-ml.so.1",
        str(machine / "nvidia" / "bin" / "nvidia-smi"): "/usr/bin/nvidia-smi",
    }


def test_libraries_that_the_loader_knows_are_found(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = "2 libs found in cache\n\tlibcuda.so.1 (libc6,x86-64) => /lib/x/libcuda.so.1\n"
    known = subprocess.CompletedProcess([], 0, cache, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: known)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (machine / "nvidia" / "lib64" / "libcuda.so.1").unlink()
    assert Path("/lib/x/libcuda.so.1") in driver.of_host(1).libraries


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("dev/nvidia0", r"no .*/dev/nvidia0\n"),
        ("nvidia/lib64/libcuda.so.1", "lacks libcuda.so.1"),
        ("nvidia/lib64/libnvidia-ml.so.1", "lacks libnvidia-ml.so.1"),
        ("nvidia/bin/nvidia-smi", "lacks nvidia-smi"),
    ],
)
def test_what_lacks_is_named(machine: Path, missing: str, says: str) -> None:
    (machine / missing).unlink()
    with pytest.raises(PrerequisiteError, match=says) as raised:
        driver.of_host(1)
    assert raised.value.next_step is not None and "nvidia-smi" in raised.value.next_step


def test_a_node_needs_as_many_gpus_as_it_shall_have(machine: Path) -> None:
    with pytest.raises(PrerequisiteError, match=r"no .*/dev/nvidia1\n"):
        driver.of_host(2)


def test_libraries_of_another_kind_of_program_are_passed_over(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = (
        "\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6,x86-64) => /lib/x/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6) => /lib32/libcuda.so.1\n"
    )
    known = subprocess.CompletedProcess([], 0, cache, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: known)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    found = [path for path in driver.of_host(1).libraries if path.name == "libcuda.so.1"]
    assert found == [Path("/lib/x/libcuda.so.1")]


def test_slurm_counts_the_real_devices() -> None:
    files = {
        host: render.render(described(host_gpus=host), {"gpu": "n[1-2]"})["gres.conf"]
        for host in (True, False)
    }
    assert "NodeName=n1 Name=gpu Type=lab File=/dev/nvidia[0-0]" in files[True]
    assert "labgpu" not in files[True] and "/dev/labgpu[0-0]" in files[False]


@pytest.mark.parametrize("changes", [{"kind": "vm"}, {"gpus": 0}])
def test_host_gpus_are_of_namespace_nodes_that_have_some(changes: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError, match="host_gpus: of namespace nodes only"):
        described(host_gpus=True, **changes)
