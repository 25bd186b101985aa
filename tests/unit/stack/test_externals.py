"""What a site provides: is it there, in the version that its scope says?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.common.errors import PrerequisiteError
from railgauge.stack import externals, manifest
from tests.unit.stack.spack_scopes import change, copied


def answers(command: list[str]) -> str:
    """A site as configs/systems/eth400g describes it."""
    return "11.5.0" if command[-1] == "-dumpfullversion" else ""


def detected(asked: Sequence[tuple[str, str]]) -> list[list[str]]:
    """What Spack finds there."""
    versions = {"rdma-core": ["51.0"], "slurm": ["23.11.11"]}
    return [versions.get(name, []) for name, _ in asked]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """eth400g with every external where its scope says."""
    home = copied(tmp_path)
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
    found = externals.problems(stack, answers, machine)
    return [line.removeprefix(f"{stack.folder}/") for line in found]


def version_problems(site: Path, detect: externals.Detect = detected) -> list[str]:
    stack = manifest.read("eth400g", site)
    found = externals.version_problems(stack, detect, answers)
    return [line.removeprefix(f"{stack.folder}/") for line in found]


def test_site_with_all_externals_may_build(site: Path) -> None:
    assert site_problems(site) == []
    assert version_problems(site) == []


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
    [problem] = version_problems(site)
    assert problem.endswith(
        f"slurm: found 23.11.11 below {site}/usr, expected 25-05-1-1 as in this line"
    )


def test_rdma_without_headers_is_found(site: Path) -> None:
    (site / "usr/include/infiniband/verbs.h").unlink()
    [problem] = site_problems(site)
    assert "infiniband/verbs.h, expected rdma-core@51.0 there" in problem


def test_machine_of_another_kind_cannot_build(site: Path) -> None:
    [problem] = site_problems(site, machine="aarch64")
    assert "this machine is aarch64, expected x86_64" in problem


def declare(site: Path, spec: str, prefix: Path | str) -> None:
    """One more external of the site's."""
    name = spec.partition("@")[0]
    change(
        site / "configs/systems/eth400g/spack/packages.yaml",
        "  perftest:",
        f"  {name}:\n    buildable: false\n    externals:\n"
        f"      - spec: {spec} target=x86_64_v3\n        prefix: {prefix}\n\n  perftest:",
    )


def test_prefix_that_is_not_there_is_found_without_spack(site: Path) -> None:
    declare(site, "cuda@12.6.3", "/nowhere/cuda")
    [problem] = site_problems(site)
    assert problem.endswith("cuda: found no folder /nowhere/cuda, expected cuda@12.6.3 there")


RECORDED = json.loads((paths.HOME / "tests/data/stack/detected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in RECORDED["found"] if name != "rdma-core"])
def test_usual_externals_are_taken_in_the_version_that_spack_finds(site: Path, name: str) -> None:
    (version,), prefix = RECORDED["found"][name], site / "opt" / name
    prefix.mkdir(parents=True)
    declare(site, f"{name}@{version}", prefix)

    def detect(asked: Sequence[tuple[str, str]]) -> list[list[str]]:
        here = {name: RECORDED["found"][name]}
        return [here.get(n, d) for (n, _), d in zip(asked, detected(asked), strict=True)]

    assert site_problems(site) == []
    assert version_problems(site, detect) == []
    change(
        site / "configs/systems/eth400g/spack/packages.yaml", f"{name}@{version}", f"{name}@9.9.9"
    )
    [problem] = version_problems(site, detect)
    shown = ", ".join(RECORDED["found"][name])
    assert problem.endswith(f"{name}: found {shown} below {prefix}, expected 9.9.9 as in this line")


PC = """prefix=/usr
includedir=${prefix}/include
major=0.6
VERSION=${major}.0

Name: libglog
Description: Google Log (glog) C++ logging framework
Version: ${VERSION}
Libs: -L${prefix}/lib -lglog
"""
EVENT = "Name: libevent\nVersion: 2.1.12-stable\n"
CMAKE = """set(PACKAGE_VERSION 1.83.0)
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
"""


@pytest.mark.parametrize(
    ("spec", "file", "text"),
    [
        ("glog@0.6.0", "lib/pkgconfig/libglog.pc", PC),
        ("boost@1.83.0", "lib/cmake/Boost-1.83.0/BoostConfigVersion.cmake", CMAKE),
        ("fmt@1.83.0", "lib64/cmake/fmt/fmt-config-version.cmake", CMAKE),
        ("pmix@4.2.9", "lib64/pkgconfig/pmix.pc", "Name: pmix\nVersion: 4.2.9\n"),
        ("libevent@2.1.12", "lib/x86_64-linux-gnu/pkgconfig/libevent.pc", EVENT),
    ],
)
def test_version_of_what_spack_has_no_detection_for_is_read_from_its_own_files(
    site: Path, spec: str, file: str, text: str
) -> None:
    prefix, name = site / "opt", spec.partition("@")[0]
    (prefix / file).parent.mkdir(parents=True)
    (prefix / file).write_text(text, encoding="utf-8")
    declare(site, spec, prefix)
    assert version_problems(site) == []
    change(site / "configs/systems/eth400g/spack/packages.yaml", spec, f"{name}@9.9.9")
    [problem] = version_problems(site)
    assert problem.endswith("expected 9.9.9 as in this line")


@pytest.mark.parametrize(("asked", "right"), [("4.1.4", True), ("5.0.9", False)])
def test_open_mpi_with_programs_that_do_not_run_here_has_its_version_in_its_own_file(
    site: Path, asked: str, right: bool
) -> None:
    """ompi_info finds its libraries only where its module is loaded."""
    file = site / "opt/lib/pkgconfig/ompi.pc"
    file.parent.mkdir(parents=True)
    file.write_text("Name: Open MPI\nVersion: 4.1.4\n", encoding="utf-8")
    stack = manifest.read("eth400g", site)
    own = manifest.External("openmpi", asked, f"{site}/opt", {}, True, stack.folder, 1)
    stack = dataclasses.replace(stack, externals=(own,))
    assert (externals.version_problems(stack, lambda _: [[]], answers) == []) is right


def test_version_of_a_distributions_package_is_asked_of_the_distribution(site: Path) -> None:
    stack = manifest.read("lab")
    (pciutils,) = [external for external in stack.externals if external.name == "pciutils"]

    def ask(command: list[str]) -> str:
        is_it = command[0] == "dpkg-query" and command[-1] == "pciutils"
        return "1:3.9.0-4" if is_it else ""

    def nothing(asked: Sequence[tuple[str, str]]) -> list[list[str]]:
        return [[] for _ in asked]

    lines = [
        line
        for line in externals.version_problems(stack, nothing, ask)
        if line.startswith(pciutils.where)
    ]
    assert lines == []


def test_external_that_nothing_says_the_version_of_is_an_error(site: Path) -> None:
    prefix = site / "opt/openssl"
    prefix.mkdir(parents=True)
    declare(site, "openssl@9.9.9", prefix)
    [problem] = version_problems(site)
    assert f"openssl: found nothing below {prefix} that says its version" in problem
    assert problem.endswith("expected openssl@9.9.9")


def test_all_that_is_wrong_is_one_error_which_names_the_file_to_change(site: Path) -> None:
    stack = manifest.read("eth400g", site)
    with pytest.raises(PrerequisiteError, match=f"a line\n.*{stack.folder}/packages.yaml"):
        externals.require(stack, ["a line"])


@pytest.mark.parametrize(("asked", "right"), [("12.6.3", True), ("12.4.1", False)])
def test_nvcc_counts_by_itself_behind_the_first_two_numbers_of_cuda(
    site: Path, asked: str, right: bool
) -> None:
    (site / "opt").mkdir()
    declare(site, f"cuda@{asked}", site / "opt")
    found = version_problems(site, lambda asked: [*detected(asked[:-1]), ["12.6.85"]])
    assert (found == []) is right
