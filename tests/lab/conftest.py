"""The embedded cluster for tests: brought up once, mended after every test, taken down if it was
not up before. RAILGAUGE_TEST_NODES=n[1-4] leaves the virtual machines out, for tests without them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import hostlist, paths
from railgauge.lab import faults
from railgauge.lab.cli import open_lab
from railgauge.lab.cluster import Lab

CHECKS = Path(__file__).parent / "checks"

NODES = os.environ.get("RAILGAUGE_TEST_NODES")


def start_dead(lab: Lab) -> None:
    """Start again what has died of the lab as it is."""
    lab.up(nodes=[node.name for node in lab.in_use()])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Lab]:
    lab = open_lab()
    was_up = lab.init is not None
    lab.up(nodes=hostlist.expand(NODES) if NODES else None)
    faults.clear(lab)
    yield lab
    if not was_up:
        lab.down()


@pytest.fixture
def mended(cluster: Lab) -> Iterator[Lab]:
    """The lab, for a test that breaks something in it."""
    yield cluster
    faults.clear(cluster)
    start_dead(cluster)


@pytest.fixture
def area(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A results area of the test's own, which the nodes see."""
    # Without the parameters: an expected message in the path would be found in any output.
    case = hashlib.sha256(request.node.name.encode()).hexdigest()[:6]
    folder = paths.HOME / "results" / "tests" / f"{request.node.originalname}-{case}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    if not getattr(request.node, "failed", False):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.failed:
        # Keeps the area of a failed test for a look at it.
        item.failed = True  # type: ignore[attr-defined]
    return report


Run = Callable[..., subprocess.CompletedProcess[str]]


def run_command(command: list[str], area: Path, env: dict[str, str], timeout: float) -> Any:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "RAILGAUGE_NODES"))}
    own = {
        "RAILGAUGE_RESULTS": str(area),
        # What this checkout's Spack built is none of a test's business.
        "RAILGAUGE_STACK_DIR": str(area / "stack"),
    }
    environment = {**clean, **own, "RFM_COLORIZE": "no", **env}
    return subprocess.run(
        command,
        cwd=paths.HOME,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def reframe(cluster: Lab, area: Path) -> Run:
    """Runs `bin/reframe` as a user does, with its results in the test's own area."""

    def run(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_command([str(paths.HOME / "bin/reframe"), *options], area, env, 300)

    return run


@pytest.fixture
def railgauge(cluster: Lab, area: Path) -> Run:
    """Runs `bin/railgauge`, likewise."""

    def run(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_command([str(paths.HOME / "bin/railgauge"), *options], area, env, 560)

    return run


@pytest.fixture
def verdict(area: Path) -> Callable[[], dict[str, Any]]:
    """The verdict of the newest campaign in the test's area."""

    def read() -> dict[str, Any]:
        newest = max((area / "campaigns").glob("*/verdict.json"))
        document: dict[str, Any] = json.loads(newest.read_text())
        return document

    return read
