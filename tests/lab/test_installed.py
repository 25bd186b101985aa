"""An installed package: its lab, a rehearsal and an acceptance.

The program can be read only, also by the nodes. The site's files and the results lie elsewhere, and
nothing comes from a checkout.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.lab import rootfs
from railgauge.lab.cluster import Lab
from tests.unit.project.test_package import clone, install, package, start_read_only

pytestmark = pytest.mark.release

Railgauge = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(paths.HOME / "examples/site", tmp_path_factory.mktemp("of") / "site")


@pytest.fixture(scope="module")
def railgauge(
    tmp_path_factory: pytest.TempPathFactory, cluster: Lab, site: Path
) -> Iterator[Railgauge]:
    """The installed program, whose lab is up; of the tests' own lab it has the image alone."""
    area = tmp_path_factory.mktemp("installed")
    (wheel,) = package(clone(area / "checkout"), area / "dist", "022").glob("*.whl")
    program = install(wheel, area)
    shutil.rmtree(area / "checkout")
    named = {
        "RAILGAUGE_SITE": str(site),
        "RAILGAUGE_RESULTS": str(site.parent / "results"),
        "RAILGAUGE_LAB_ROOTFS": str(rootfs.location(cluster.folders.lab)),
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return start_read_only(program, *words, **named)

    up = run("lab", "up", "--nodes", "n[1-2]")
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        yield run
    finally:
        run("lab", "down")


def test_its_lab_lies_in_the_sites_folder(railgauge: Railgauge, site: Path) -> None:
    assert (site / ".lab" / "run" / "init.pid").is_file()
    assert "slurmctld  running" in railgauge("lab", "status").stdout


def test_a_new_system_is_rehearsed(railgauge: Railgauge, site: Path) -> None:
    made = railgauge("system", "new", "mine", "--like", "gb200-nvl72")
    assert made.returncode == 0, made.stderr
    done = railgauge("rehearse", "mine", "--nodes", "n[1-2]", "--", "-n", "^NcclPair")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "SIMULATED PROVISIONAL ACCEPT" in done.stdout
    assert list((site.parent / "results" / "rehearsals" / "campaigns").iterdir())


def test_the_lab_is_measured_by_the_references_of_the_program(railgauge: Railgauge) -> None:
    scope = ("--system", "lab", "--partition", "ns", "--nodes", "n[1-2]")
    done = railgauge("accept", *scope, "--", "-n", "NodeState|Iperf2Pair|MpiWorld")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ACCEPT 5 of 5 places passed" in done.stdout


def test_the_nodes_see_the_installed_program(railgauge: Railgauge) -> None:
    done = railgauge("system", "check", "lab", "--run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "site-packages and write into" in done.stdout
