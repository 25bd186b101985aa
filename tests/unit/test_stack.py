"""The stack: what the manifest asks for, whether the locks have it, what a build needs."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import paths, rehearsal, systems
from railgauge.errors import ConfigurationError, EnvironmentProblem, RailgaugeError
from railgauge.stack import build, externals, installed, manifest
from railgauge.stack import lock as locks

SYSTEMS = ["dgx-h100", "dgx-spark", "eth400g", "gb200-nvl72", "lab"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkout's manifest and scopes, to be changed."""
    shutil.copy(paths.HOME / manifest.MANIFEST, tmp_path)
    for system in SYSTEMS:
        shutil.copytree(
            paths.SYSTEMS / system / "spack", tmp_path / "configs/systems" / system / "spack"
        )
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def change_lock(home: Path, system: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the nodes of a lock, by name."""
    path = manifest.read(system, home).lock
    document = json.loads(path.read_text(encoding="utf-8"))
    edit({node["name"]: node for node in document["concrete_specs"].values()})
    path.write_text(json.dumps(document), encoding="utf-8")


def differences(home: Path, system: str, *, site: bool = False) -> list[str]:
    wanted = manifest.read(system, home)
    found = locks.differences(wanted, locks.read(wanted.lock), site=site)
    return [f"{each.what}: found {each.found}, expected {each.expected}" for each in found]


def test_every_system_with_a_scope_is_known() -> None:
    assert set(manifest.systems()) >= set(SYSTEMS)


@pytest.mark.parametrize("system", manifest.systems())
def test_committed_lock_agrees_with_the_manifest(system: str) -> None:
    assert differences(paths.HOME, system) == []


@pytest.mark.parametrize(
    ("system", "target", "cuda_arch", "cuda"),
    [
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
    with pytest.raises(RailgaugeError, match=r"found SYSTEM=dgx-h1000, expected one of dgx-h100"):
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


def test_missing_lock_says_what_writes_it(home: Path) -> None:
    stack = manifest.read("lab", home)
    stack.lock.unlink()
    with pytest.raises(ConfigurationError, match=r"no such file.*\n.*make lock-check"):
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


@settings(max_examples=40, deadline=None)
@given(st.integers(min_value=0, max_value=len(LAB_LOCK) - 2))
def test_no_truncated_lock_is_read(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    path = tmp_path_factory.mktemp("lock") / "spack.lock"
    path.write_text(LAB_LOCK[:length], encoding="utf-8")
    with pytest.raises(ConfigurationError, match="found no lock of Spack's"):
        locks.read(path)


# --- building: what is looked at before Spack is asked for anything ---------------------------


def answers(command: list[str]) -> str:
    """A site as configs/systems/eth400g describes it."""
    if command[-1] == "-dumpfullversion":
        return "11.5.0"
    return {"srun": "slurm 23.11.11", "dpkg-query": "51.0-1"}.get(Path(command[0]).name, "")


@pytest.fixture
def site(home: Path) -> Path:
    """eth400g with every external where its scope says."""
    prefix = home / "usr"
    for name in ("bin/gcc", "bin/g++", "bin/gfortran", "bin/srun", "include/infiniband/verbs.h"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).touch(mode=0o755)
    packages = home / "configs/systems/eth400g/spack/packages.yaml"
    change(packages, "/SITE-EXTERNAL/slurm", str(prefix))
    change(packages, ": /usr", f": {prefix}")
    return home


def site_problems(site: Path, machine: str = "x86_64") -> list[str]:
    stack = manifest.read("eth400g", site)
    return [
        line.removeprefix(f"{stack.folder}/")
        for line in externals.problems(stack, answers, machine)
    ]


def test_site_with_all_externals_may_build(site: Path) -> None:
    assert site_problems(site) == []


def test_placeholder_is_a_missing_external(site: Path) -> None:
    packages = site / "configs/systems/eth400g/spack/packages.yaml"
    change(
        packages,
        f"        prefix: {site}/usr\n\n  perftest",
        "        prefix: /SITE-EXTERNAL/x\n\n  perftest",
    )
    [problem] = site_problems(site)
    assert "slurm: found prefix /SITE-EXTERNAL/x, expected where this site has it" in problem


def test_reference_scopes_cannot_be_built_without_a_site() -> None:
    for system in ("dgx-h100", "dgx-spark", "gb200-nvl72", "eth400g"):
        assert any("/SITE-EXTERNAL" in line for line in externals.problems(manifest.read(system)))


def test_another_compiler_than_the_scopes_is_named_with_its_line(site: Path) -> None:
    packages = site / "configs/systems/eth400g/spack/packages.yaml"
    change(packages, "gcc@11.5.0", "gcc@14.2.0")
    assert site_problems(site)[0].startswith("packages.yaml:")
    assert site_problems(site)[0].endswith(f"found 11.5.0, expected 14.2.0 ({site}/usr/bin/gcc)")


def test_missing_compiler_is_found(site: Path) -> None:
    (site / "usr/bin/gfortran").unlink()
    [problem] = site_problems(site)
    assert f"fortran: found no program {site}/usr/bin/gfortran" in problem


def test_another_slurm_than_the_scopes_is_found(site: Path) -> None:
    packages = site / "configs/systems/eth400g/spack/packages.yaml"
    change(packages, "slurm@23-11-11-1", "slurm@25-05-1-1")
    [problem] = site_problems(site)
    assert problem.endswith("slurm: found 23.11.11, expected 25-05-1-1 as in this line")


def test_rdma_without_headers_is_found(site: Path) -> None:
    (site / "usr/include/infiniband/verbs.h").unlink()
    [problem] = site_problems(site)
    assert "infiniband/verbs.h, expected rdma-core@51.0 there" in problem


def test_machine_of_another_kind_cannot_build(site: Path) -> None:
    [problem] = site_problems(site, machine="aarch64")
    assert "this machine is aarch64, expected x86_64" in problem


SOURCE = {"path": "_source-cache/archive/ab/abc.tar.gz", "url": "https://example.org/x.tar.gz"}


def package(sha256: str, installed: bool = False) -> dict[str, Any]:
    sources = [{**SOURCE, "sha256": sha256}]
    return {"name": "x", "version": "1", "installed": installed, "sources": sources}


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    archive = tmp_path / "mirror" / SOURCE["path"]
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"source")
    return tmp_path / "mirror"


RIGHT = hashlib.sha256(b"source").hexdigest()


def test_complete_mirror_has_no_problems(mirror: Path) -> None:
    build.require_mirror(mirror)
    assert list(build.source_problems([package(RIGHT)], mirror)) == []


def test_wrong_checksum_in_the_mirror_is_an_error(mirror: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=rf"found sha256 {RIGHT}, expected {'0' * 64}"):
        build.require_sources([package("0" * 64)], mirror, "lab")


def test_source_that_the_mirror_lacks_is_an_error(mirror: Path) -> None:
    (mirror / SOURCE["path"]).unlink()
    with pytest.raises(EnvironmentProblem, match=r"no such file, expected https://example.org"):
        build.require_sources([package(RIGHT)], mirror, "lab")


def test_source_of_what_is_installed_is_not_needed(mirror: Path) -> None:
    (mirror / SOURCE["path"]).unlink()
    assert list(build.source_problems([package(RIGHT, installed=True)], mirror)) == []


@pytest.mark.parametrize(("made", "found"), [(True, "no _source-cache"), (False, "no such folder")])
def test_folder_that_is_no_mirror_is_refused(tmp_path: Path, made: bool, found: str) -> None:
    folder = tmp_path / "m"
    if made:
        folder.mkdir()
    with pytest.raises(RailgaugeError, match=found):
        build.require_mirror(folder)


def spack_root(folder: Path, version: str) -> Path:
    source = folder / "lib/spack/spack/__init__.py"
    source.parent.mkdir(parents=True)
    source.write_text(f'__version__ = "{version}"\n', encoding="utf-8")
    return folder


def test_spack_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RailgaugeError, match=r"found Spack 1.1.1, expected Spack 1.2.0"):
        build.require_spack(spack_root(tmp_path, "1.1.1"))


@pytest.mark.parametrize("version", ["1.2.0", "1.2.0.dev0"])
def test_pinned_spack_is_taken(tmp_path: Path, version: str) -> None:
    build.require_spack(spack_root(tmp_path, version))


def test_folder_without_spack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RailgaugeError, match="found no Spack"):
        build.require_spack(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "==> Error: All fetchers failed for spack-stage-lftp-4.9.2",
        "curl: (6) Could not resolve host: lftp.yar.ru",
    ],
)
def test_build_without_network_and_mirror_names_both_ways_out(line: str) -> None:
    error = build.failure("install", 1, [line], "lab")
    assert error.next_step is not None and "MIRROR=dir" in error.next_step
    assert "https_proxy" in error.next_step


def test_pin_that_no_recipe_has_is_named() -> None:
    said = [
        "==> Error: No version exists that satisfies these input specs:",
        "    perftest@25.01.0-0.79 target=x86_64",
    ]
    error = build.failure("solve", 1, said, "lab")
    assert "perftest@25.01.0-0.79" in str(error)
    assert error.next_step is not None and "spack.yaml" in error.next_step


def test_mirror_whose_archive_is_cut_off_is_to_be_filled_again(tmp_path: Path) -> None:
    archive = tmp_path / build.archive_name("spack", build.SPACK_COMMIT)
    archive.write_bytes(b"cut off")
    with pytest.raises(EnvironmentProblem, match="cannot be fetched") as caught:
        build._checkout(
            tmp_path / "spack", build.SPACK_URL, build.SPACK_COMMIT, tmp_path, "SPACK_ROOT"
        )
    assert f"make mirror SYSTEM=... MIRROR={tmp_path}" in (caught.value.next_step or "")
    assert not (tmp_path / "spack").exists()


def stack_cli(*arguments: str) -> str:
    """What `bin/stack` says of arguments that it refuses."""
    done = subprocess.run([str(paths.HOME / "bin/stack"), *arguments], capture_output=True)
    assert done.returncode == 3
    return done.stderr.decode()


@pytest.mark.parametrize("command", [["build", ""], ["mirror", "", ""]])
def test_system_that_is_not_given_is_asked_for(command: list[str]) -> None:
    assert stack_cli(*command).startswith("stack: SYSTEM: found none, expected one of dgx-h100")


def test_mirror_is_not_made_in_whatever_folder_one_stands() -> None:
    assert stack_cli("mirror", "lab", "").startswith("stack: MIRROR: found none")


def test_wrong_checksum_from_the_network_is_never_skipped() -> None:
    said = ["==> Error: ChecksumError: sha256 checksum failed for /x/lftp-4.9.2.tar.gz"]
    error = build.failure("install", 1, said, "lab")
    assert error.next_step is not None and "never skip" in error.next_step


def root(tmp_path: Path, installed: bool) -> dict[str, Any]:
    prefix = str(tmp_path / "opt/iperf2-2.1.9-abcdefg")
    about = {"name": "iperf2", "version": "2.1.9", "hash": "abcdefgh", "prefix": prefix}
    return {**about, "installed": installed, "root": True, "sources": []}


def test_activation_puts_the_tools_on_the_path(tmp_path: Path) -> None:
    folder = tmp_path / "with a blank/lab"
    build.activation(manifest.read("lab"), [root(tmp_path, True)], folder)
    command = f". '{folder}/activate.sh'; echo $PATH; echo $RAILGAUGE_STACK"
    done = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, check=True)
    path, stack = done.stdout.splitlines()
    assert path.startswith(f"{tmp_path}/opt/iperf2-2.1.9-abcdefg/bin:")
    assert stack == str(folder)


def test_what_was_built_is_recorded_with_its_hash(tmp_path: Path) -> None:
    build.activation(manifest.read("lab"), [root(tmp_path, True)], tmp_path)
    [tool] = json.loads((tmp_path / "stack.json").read_text(encoding="utf-8"))
    assert (tool["name"], tool["version"], tool["hash"]) == ("iperf2", "2.1.9", "abcdefgh")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `make stack` leaves of the lab: one tool."""
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path))
    build.activation(manifest.read("lab"), [root(tmp_path, True)], tmp_path / "lab")
    return tmp_path / "lab"


def prepared(system: str) -> list[list[str]]:
    """The commands that jobs begin with, by partition."""
    configured = systems.site_configuration()["systems"]
    (found,) = [entry for entry in configured if entry["name"] == system]
    return [partition.get("prepare_cmds", []) for partition in found["partitions"]]


def test_jobs_of_every_partition_begin_with_what_was_built(built: Path) -> None:
    command = f"source {built}/activate.sh || exit 1"
    assert prepared("lab") == [[command], [command]]
    assert not any(prepared("dgx-h100"))


def test_a_rehearsal_is_not_prepared_with_the_systems_own_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path))
    build.activation(manifest.read("dgx-h100"), [root(tmp_path, True)], tmp_path / "dgx-h100")
    monkeypatch.setenv("RFM_SYSTEM", "dgx-h100")
    assert all(prepared("dgx-h100"))
    systems.load.cache_clear()
    monkeypatch.setenv(rehearsal.VARIABLE, "healthy")
    try:
        assert not any(prepared("dgx-h100"))
    finally:
        systems.load.cache_clear()


@pytest.mark.parametrize(
    ("spec", "there"),
    [
        ("iperf2", True),
        ("iperf2@2.1.9", True),
        ("iperf2@=2.1.9", True),
        ("iperf2@2.2.1", False),
        ("perftest", False),
        ("iperf2 +debug", False),
    ],
)
def test_specs_that_the_built_stack_provides(built: Path, spec: str, there: bool) -> None:
    assert installed.provides("lab", spec) is there
    assert not installed.provides("eth400g", spec)


def test_nothing_installed_activates_nothing(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="found nothing installed"):
        build.activation(manifest.read("lab"), [root(tmp_path, False)], tmp_path)
    assert not (tmp_path / "activate.sh").exists()


def test_repository_commit_is_the_same_in_manifest_and_driver() -> None:
    text = (paths.HOME / manifest.MANIFEST).read_text(encoding="utf-8")
    assert f"commit: {build.PACKAGES_COMMIT}" in text


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
