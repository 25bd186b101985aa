"""What `make setup` and `make test` install: nothing that a test needs is missing after them."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from railgauge import paths

#: Where nothing answers.
NO_INDEX = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One that needs a single package, whose wheel is in the folder `wheels`."""
    home = tmp_path / "a checkout"
    (home / "bin").mkdir(parents=True)
    (home / "wheels").mkdir()
    shutil.copy(paths.HOME / "bin" / "bootstrap", home / "bin")
    wheel = home / "wheels" / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("tiny.py", "NAME = 'tiny'\n")
        info = "tiny-1.0.dist-info"
        packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        packed.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (home / "requirements.txt").write_text(f"tiny==1.0 --hash=sha256:{digest}\n")
    return home


def setup(home: Path, *parts: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(home / "bin" / "bootstrap"), *(parts or ("python",))],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **NO_INDEX, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_packages_come_from_a_folder_of_wheels(checkout: Path) -> None:
    answer = setup(checkout, WHEELS=str(checkout / "wheels"))
    assert answer.returncode == 0, answer.stderr
    tiny = [str(checkout / ".venv/bin/python"), "-c", "import tiny; print(tiny.NAME)"]
    assert subprocess.run(tiny, capture_output=True, text=True, check=True).stdout == "tiny\n"


def test_a_wheel_that_is_not_the_pinned_one_is_refused(checkout: Path) -> None:
    wanted = checkout / "requirements.txt"
    wanted.write_text(f"tiny==1.0 --hash=sha256:{'0' * 64}\n")
    answer = setup(checkout, WHEELS=str(checkout / "wheels"))
    assert answer.returncode == 3
    assert not (checkout / ".venv/requirements.sha256").exists()


def test_without_an_index_the_way_without_a_network_is_said(checkout: Path) -> None:
    answer = setup(checkout)
    assert answer.returncode == 3
    assert "make setup WHEELS=DIR" in answer.stderr


def test_a_folder_of_wheels_that_is_not_there_is_named(checkout: Path) -> None:
    answer = setup(checkout, WHEELS="/nonexistent")
    assert (answer.returncode, "WHEELS is /nonexistent" in answer.stderr) == (3, True)


def builds_an_image(home: Path, *lines: str) -> None:
    """Let the checkout's builder of the lab's image run these lines."""
    builder = home / "src" / "railgauge" / "lab" / "rootfs.py"
    builder.parent.mkdir(parents=True)
    for package in (builder.parent, builder.parents[1]):
        (package / "__init__.py").touch()
    builder.write_text("\n".join(("import pathlib, sys, time", *lines)) + "\n")


def test_the_image_is_built_while_packages_are_installed(checkout: Path) -> None:
    """The builder waits for what the installation leaves, and bootstrap for the builder."""
    builds_an_image(
        checkout,
        "installed = pathlib.Path('.venv/requirements.sha256')",
        "while not installed.exists(): time.sleep(0.05)",
        "time.sleep(0.3)",
        "pathlib.Path('image').touch()",
    )
    answer = setup(checkout, "lab", "python", WHEELS=str(checkout / "wheels"))
    assert (answer.returncode, (checkout / "image").exists()) == (0, True), answer.stderr


def test_where_the_image_cannot_be_built_its_reason_is_said(checkout: Path) -> None:
    builds_an_image(checkout, "print('no mirror', file=sys.stderr)", "sys.exit(3)")
    answer = setup(checkout, "lab")
    assert (answer.returncode, "no mirror" in answer.stderr) == (3, True)


def test_a_build_of_the_image_ends_where_another_part_fails(checkout: Path) -> None:
    """Else its end of the pipes would stay open for hours."""
    builds_an_image(checkout, "time.sleep(3600)")
    answer = setup(checkout, "lab", "unknown")
    assert (answer.returncode, "unknown part" in answer.stderr) == (3, True)


#: Files with a test that may be skipped, and what no package of Debian can give it.
SKIPS = {
    "browser/conftest.py": "Chromium: Ubuntu has none as a package",
    "lab/test_slurm_changes.py": "Slurm 26.05: `make compat` has it",
    "lab/test_transfers.py": "WDT: Spack builds it",
    "unit/cli/test_commands.py": "root",
    "unit/cli/test_completion.py": "zsh and fish: each user has one shell",
    "unit/common/test_atomic.py": "a writable /dev/shm",
    "unit/node/runners/test_cpu_load.py": "two cores, or one NUMA node",
    "unit/node/runners/test_mpi_ranks.py": "root",
    "unit/project/test_bench.py": "a checkout of git",
    "unit/project/test_docs.py": "Python 3.11",
    "unit/tools/test_samples.py": "other people's outputs",
}


def test_no_test_is_skipped_for_want_of_what_make_test_can_install() -> None:
    tests = paths.HOME / "tests"
    skips = re.compile(r"pytest\.skip\(|mark\.skip|importorskip")
    files = [path for path in tests.rglob("*.py") if path != Path(__file__)]
    found = [path for path in files if skips.search(path.read_text(encoding="utf-8"))]
    assert sorted(str(path.relative_to(tests)) for path in found) == sorted(SKIPS)


@pytest.mark.parametrize(
    "package", ["curl", "groff-base", "iperf", "iproute2", "openssh-client", "util-linux"]
)
def test_make_test_installs_what_its_tests_run(package: str) -> None:
    text = (paths.HOME / "bin" / "bootstrap").read_text(encoding="utf-8")
    part = text.partition("\n    dev)\n")[2].partition(";;")[0]
    assert package in part.split() and "fetch_promtool" in part
    makefile = (paths.HOME / "Makefile").read_text(encoding="utf-8")
    assert "bin/bootstrap lab dev browser" in makefile.partition("\ntest:")[2].split("\n\n")[0]
