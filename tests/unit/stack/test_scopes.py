"""The stack: what the manifest asks for, whether the locks have it, what a build needs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import paths
from railgauge.common.errors import ConfigurationError, RailgaugeError
from railgauge.stack import fetching, manifest
from railgauge.stack import lock as locks
from tests.properties import tries
from tests.unit.stack.spack_scopes import SYSTEMS, change, copied


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return copied(tmp_path)


def change_lock(home: Path, system: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the nodes of a lock, by name."""
    path = manifest.read(system, home).lock
    document = json.loads(path.read_text(encoding="utf-8"))
    edit({node["name"]: node for node in document["concrete_specs"].values()})
    path.write_text(json.dumps(document), encoding="utf-8")


def differences(home: Path, system: str, *, site: bool = False) -> list[str]:
    wanted = manifest.read(system, home)
    found = locks.differences(wanted, locks.read(wanted.lock), site=site)
    return [f"{each.what}: found {each.actual}, expected {each.expected}" for each in found]


def test_every_system_with_a_scope_is_known() -> None:
    assert set(manifest.systems()) >= set(SYSTEMS)


@pytest.mark.parametrize("system", manifest.solved_systems())
def test_committed_lock_agrees_with_the_manifest(system: str) -> None:
    assert differences(paths.HOME, system) == []


def test_every_system_with_a_scope_has_a_lock() -> None:
    assert {*manifest.systems()} == {*manifest.solved_systems()}


@pytest.mark.parametrize(
    ("system", "target", "cuda_arch", "cuda"),
    [
        ("dgx-b200", "x86_64_v4", "100", "13.0.2"),
        ("gb300-nvl72", "neoverse_v2", "103", "13.0.2"),
        ("mi300x", "x86_64_v4", None, None),
        ("dgx-h100", "x86_64_v4", "90", "12.6.3"),
        ("gb200-nvl72", "neoverse_v2", "100", "13.0.2"),
        ("dgx-spark", "armv9.0a", "121", "13.0.2"),
        ("eth400g", "x86_64_v3", None, None),
        ("lab", "x86_64", None, None),
    ],
)
def test_scope_names_cpu_and_gpu(
    system: str, target: str, cuda_arch: str | None, cuda: str | None
) -> None:
    stack = manifest.read(system)
    assert (stack.target, stack.cuda_arch, stack.cuda) == (target, cuda_arch, cuda)


def test_pins_are_the_published_versions() -> None:
    pins = {str(pin) for pin in manifest.read("gb200-nvl72").pins}
    assert {"openmpi@5.0.9", "nccl@2.28.9-1", "nccl-tests@2.17.6"} <= pins


def test_system_without_a_gpu_asks_for_no_gpu_tools() -> None:
    assert not any(pin.gpu for pin in manifest.read("eth400g").pins)


@pytest.mark.parametrize("system", SYSTEMS)
def test_site_externals_are_marked(system: str) -> None:
    marked = {external.name for external in manifest.read(system).externals if external.site}
    # The lab's Slurm is in its image.
    assert marked == {"gcc", "rdma-core"} | (set() if system == "lab" else {"slurm"})


def test_rocm_is_the_sites_and_of_one_version() -> None:
    rocm = ["hip", "hsa-rocr-dev", "llvm-amdgpu", "rccl"]
    found = [external for external in manifest.read("mi300x").externals if external.name in rocm]
    assert [external.name for external in found] == rocm
    assert all(external.site for external in found)
    assert len({external.version for external in found}) == 1


def test_only_a_marked_external_is_the_sites() -> None:
    unmarked = {e.name for e in manifest.read("lab").externals if not e.site}
    assert {"autoconf", "pciutils"} <= unmarked


def test_external_names_its_line() -> None:
    external = next(e for e in manifest.read("dgx-h100").externals if e.name == "slurm")
    line = external.path.read_text(encoding="utf-8").splitlines()[external.line - 1]
    assert line.strip().startswith("- spec: slurm@")


def test_changed_pin_is_out_of_step(home: Path) -> None:
    change(home / "spack.yaml", "openmpi@5.0.9", "openmpi@5.0.8")
    assert differences(home, "lab") == ["openmpi: found openmpi@5.0.9, expected openmpi@5.0.8"]


def test_new_pin_is_out_of_step(home: Path) -> None:
    change(home / "spack.yaml", "        - lftp@4.9.2", "        - lftp@4.9.2\n        - bbcp@1")
    assert differences(home, "lab") == ["bbcp: found no root of this name, expected bbcp@1"]


def test_removed_pin_is_out_of_step(home: Path) -> None:
    change(home / "spack.yaml", "        - lftp@4.9.2\n", "")
    assert differences(home, "lab") == [
        "lftp: found root lftp@4.9.2 target=x86_64, expected none that spack.yaml lacks"
    ]


def test_changed_target_is_out_of_step_in_every_node(home: Path) -> None:
    change(home / "configs/systems/lab/spack/definitions.yaml", "target=x86_64", "target=zen4")
    found = differences(home, "lab")
    assert len(found) == len(locks.read(manifest.read("lab", home).lock).nodes)
    assert "perftest: found target=x86_64, expected target=zen4" in found


def test_one_node_for_another_cpu_is_found(home: Path) -> None:
    def edit(nodes: dict[str, Any]) -> None:
        nodes["zlib-ng"]["arch"]["target"] = "icelake"

    change_lock(home, "dgx-h100", edit)
    assert differences(home, "dgx-h100") == [
        "zlib-ng: found target=icelake, expected target=x86_64_v4"
    ]


def test_changed_gpu_is_out_of_step(home: Path) -> None:
    change(home / "configs/systems/dgx-h100/spack/definitions.yaml", "=90", "=100")
    assert "nccl: found cuda_arch=90, expected cuda_arch=100" in differences(home, "dgx-h100")


@pytest.mark.parametrize("name", ["hwloc", "nccl-tests"])
def test_wish_for_a_gpu_that_spack_dropped_is_found(home: Path, name: str) -> None:
    def edit(nodes: dict[str, Any]) -> None:
        nodes[name]["parameters"]["cuda_arch"] = ["none"]

    change_lock(home, "gb200-nvl72", edit)
    assert differences(home, "gb200-nvl72") == [
        f"{name}: found cuda_arch=none, expected cuda_arch=100"
    ]


def test_gpu_tool_without_any_architecture_is_found(home: Path) -> None:
    def edit(nodes: dict[str, Any]) -> None:
        del nodes["nccl"]["parameters"]["cuda_arch"]

    change_lock(home, "dgx-spark", edit)
    assert differences(home, "dgx-spark") == ["nccl: found cuda_arch=none, expected cuda_arch=121"]


def test_second_architecture_is_found(home: Path) -> None:
    def edit(nodes: dict[str, Any]) -> None:
        nodes["ucx"]["parameters"]["cuda_arch"] = ["90", "100"]

    change_lock(home, "dgx-h100", edit)
    assert differences(home, "dgx-h100") == ["ucx: found cuda_arch=90,100, expected cuda_arch=90"]


def test_another_cuda_is_found(home: Path) -> None:
    def edit(nodes: dict[str, Any]) -> None:
        nodes["cuda"]["version"] = "13.0.2"

    change_lock(home, "dgx-h100", edit)
    assert differences(home, "dgx-h100") == ["cuda: found 13.0.2, expected cuda@12.6.3"]


def test_cuda_where_there_is_no_gpu_is_found(home: Path) -> None:
    def edit(nodes: dict[str, Any]) -> None:
        nodes["ucx"]["parameters"]["cuda"] = True

    change_lock(home, "eth400g", edit)
    assert differences(home, "eth400g") == [
        "ucx: found ucx@1.20.1 with CUDA, expected no CUDA, for no GPU"
    ]


def test_sites_compiler_changes_no_reference_lock(home: Path) -> None:
    change(home / "configs/systems/eth400g/spack/packages.yaml", "gcc@11.5.0", "gcc@14.2.0")
    assert differences(home, "eth400g") == []


def test_sites_own_lock_must_have_its_externals(home: Path) -> None:
    change(home / "configs/systems/eth400g/spack/packages.yaml", "gcc@11.5.0", "gcc@14.2.0")
    assert differences(home, "eth400g", site=True) == [
        "gcc: found gcc@11.5.0 /usr, expected gcc@14.2.0 /usr"
    ]


def test_unknown_system_names_the_known_ones() -> None:
    with pytest.raises(RailgaugeError, match=r"found SYSTEM=dgx-h1000, expected one of dgx-b200"):
        manifest.read("dgx-h1000")


def test_system_that_is_a_path_is_refused() -> None:
    with pytest.raises(RailgaugeError, match="expected one of"):
        manifest.read("../systems/lab")


def test_pin_without_a_version_is_refused(home: Path) -> None:
    change(home / "spack.yaml", "lftp@4.9.2", "lftp")
    with pytest.raises(ConfigurationError, match=r"spack.yaml: found 'lftp', expected a pin"):
        manifest.read("lab", home)


def test_range_of_cuda_is_refused(home: Path) -> None:
    change(home / "configs/systems/dgx-h100/spack/packages.yaml", "@12.6.3", "@12.6")
    with pytest.raises(ConfigurationError, match=r"packages.yaml: cuda: found .*'@12.6'"):
        manifest.read("dgx-h100", home)


def test_cuda_of_the_site_needs_no_wish_besides_it(home: Path) -> None:
    change(
        home / "configs/systems/dgx-h100/spack/packages.yaml",
        "    require: ['@12.6.3']",
        "    buildable: false\n    externals:\n"
        "      - spec: cuda@12.6.3 target=x86_64_v4\n        prefix: /usr/local/cuda-12.6",
    )
    assert manifest.read("dgx-h100", home).cuda == "12.6.3"


def test_missing_lock_says_what_writes_it(home: Path) -> None:
    stack = manifest.read("lab", home)
    stack.lock.unlink()
    with pytest.raises(ConfigurationError, match=r"no such file.*\n.*bin/stack solve --write lab"):
        locks.read(stack.lock)


def test_lock_that_lacks_a_node_is_refused(home: Path) -> None:
    path = manifest.read("lab", home).lock
    document = json.loads(path.read_text(encoding="utf-8"))
    lost = next(k for k, n in document["concrete_specs"].items() if n["name"] == "ncurses")
    del document["concrete_specs"][lost]
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=lost):
        locks.read(path)


LAB_LOCK = (paths.SYSTEMS / "lab/spack/spack.lock").read_text(encoding="utf-8")


@settings(max_examples=tries(40))
@given(st.integers(min_value=0, max_value=len(LAB_LOCK) - 2))
def test_no_truncated_lock_is_read(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    path = tmp_path_factory.mktemp("lock") / "spack.lock"
    path.write_text(LAB_LOCK[:length], encoding="utf-8")
    with pytest.raises(ConfigurationError, match="found no lock of Spack's"):
        locks.read(path)


def stack_cli(*arguments: str) -> str:
    """What `bin/stack` says of arguments that it refuses."""
    done = subprocess.run([str(paths.HOME / "bin/stack"), *arguments], capture_output=True)
    assert done.returncode == 3
    return done.stderr.decode()


@pytest.mark.parametrize("command", [["build", ""], ["mirror", "", ""]])
def test_system_that_is_not_given_is_asked_for(command: list[str]) -> None:
    assert stack_cli(*command).startswith("stack: SYSTEM: found none, expected one of dgx-b200")


def test_mirror_is_not_made_in_whatever_folder_one_stands() -> None:
    assert stack_cli("mirror", "lab", "").startswith("stack: MIRROR: found none")


def test_repository_commit_is_the_same_in_manifest_and_driver() -> None:
    text = (paths.HOME / manifest.MANIFEST).read_text(encoding="utf-8")
    assert f"commit: {fetching.PACKAGES.commit}" in text


def test_recipe_that_changed_is_seen_by_a_fresh_solve(home: Path) -> None:
    def edit(nodes: dict[str, Any]) -> None:
        nodes["perftest"]["package_hash"] = "other"

    change_lock(home, "lab", edit)
    fresh = manifest.read("lab", home).lock
    assert locks.changes(manifest.read("lab").lock, fresh) == ["perftest"]


def test_libc_of_the_solving_machine_changes_nothing(home: Path) -> None:
    def edit(nodes: dict[str, Any]) -> None:
        nodes["glibc"]["version"] = "2.41"
        nodes["perftest"]["arch"]["platform_os"] = "ubuntu24.04"

    change_lock(home, "lab", edit)
    assert locks.changes(manifest.read("lab").lock, manifest.read("lab", home).lock) == []
