"""The embedded cluster for tests: brought up once for each worker, repaired after a test that
breaks something, taken down if it was not up before.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems
from railgauge.cli.lab import open_lab
from railgauge.lab import faults, rootfs, spec
from railgauge.lab.cluster import Lab

from ..conftest import LABS

#: What a test waits for comes in seconds, a campaign of emulated machines in minutes: 6.8 of them
#: next to two more labs on two cores. It is for what hangs.
PATIENCE_S = 900

CHECKS = Path(__file__).parent / "checks"

#: The lab's namespace nodes.
NODES = ("n1", "n2", "n3", "n4")


def start_dead(lab: Lab) -> None:
    """Start again what has died of the lab as it is."""
    lab.up(nodes=[node.name for node in lab.in_use()])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/lab/"):
            item.add_marker(pytest.mark.lab)


@contextlib.contextmanager
def own_lab() -> Iterator[None]:
    """A lab of its own for each worker of xdist, with the image of the checkout's."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        yield
        return
    images = paths.lab_folder() / "rootfs"
    images.mkdir(parents=True, exist_ok=True)
    folder = Path(os.environ[LABS]) / worker
    folder.mkdir(parents=True)
    (folder / "rootfs").symlink_to(images)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAILGAUGE_LAB_DIR", str(folder))
        yield


@contextlib.contextmanager
def one_worker_at_a_time() -> Iterator[None]:
    """The first one builds the image."""
    folder = Path(os.environ[LABS]).parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "image.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[Lab]:
    """The lab, with its namespace nodes; those of a lab that was up stay in it."""
    with own_lab():
        lab = open_lab()
        was_up = lab.init is not None
        with one_worker_at_a_time():
            lab.up(nodes=[n.name for n in lab.spec.all_nodes() if n.kind == "namespace"])
        faults.clear(lab)
        yield lab
        if not was_up:
            lab.down()


@contextlib.contextmanager
def second_lab(cluster: Lab, folder: Path, system: str = "lab") -> Iterator[Lab]:
    """Another lab on this machine that is not up yet, with the same image and a folder of its own;
    taken down afterwards.
    """
    partitions = {p.name: p.extras.nodes for p in systems.load(system).partitions}
    lab = Lab(spec.load(spec.file(system)), partitions, folder, system=system)
    (folder / "rootfs").mkdir(parents=True)
    image = rootfs.location(folder)
    image.symlink_to(rootfs.location(cluster.folders.lab))
    # Whoever ends a run that was killed finds it by this.
    place = hashlib.sha256(str(folder).encode()).hexdigest()[:6]
    known = Path(os.environ[LABS], f"{system}-{os.getpid()}-{place}")
    known.parent.mkdir(parents=True, exist_ok=True)
    known.symlink_to(folder)
    yield lab
    lab.down()
    known.unlink()


def lab_command(lab: Lab, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`railgauge lab ...` on that lab; its two outputs are one."""
    return subprocess.run(
        [str(paths.HOME / "bin/railgauge"), "lab", *arguments],
        env={**os.environ, "RAILGAUGE_LAB_DIR": str(lab.folders.lab), **env},
        cwd=paths.HOME,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def running(lab: Lab, node: str, pattern: str) -> str:
    """The processes of a node with such a command line."""
    command = lab.enter(node, "pgrep", "--full", "--list-full", pattern)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    ).stdout.strip()


def assert_nothing_runs(lab: Lab) -> None:
    """No program of a sweep on any namespace node: agents end what they have started within seconds
    of their conductor's end.
    """
    deadline = time.monotonic() + PATIENCE_S
    while left := [shown for n in NODES if (shown := running(lab, n, "railgauge.node|iperf"))]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def links_here() -> str:
    """The network links of this machine, as a user outside all labs sees them."""
    return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def login_node(cluster: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A checkout without systems, whose Slurm is the lab's."""
    (tmp_path / "systems").mkdir()
    (tmp_path / "references").mkdir()
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path / "systems")
    monkeypatch.setenv("RAILGAUGE_REFERENCES", str(tmp_path / "references"))
    monkeypatch.setenv("PATH", f"{cluster.folders.bin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    systems.load.cache_clear()
    yield
    systems.load.cache_clear()


@pytest.fixture
def repaired(cluster: Lab) -> Iterator[Lab]:
    """The lab, for a test that breaks something in it."""
    yield cluster
    faults.clear(cluster)
    start_dead(cluster)


@contextlib.contextmanager
def area_of(name: str, keep: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """A results area of that name, which the nodes see; it stays where its user failed."""
    folder = paths.HOME / "results" / "tests" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    if not keep():
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def area(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A results area of the test's own."""
    # Without the parameters: an expected message in the path would be found in any output.
    case = hashlib.sha256(request.node.name.encode()).hexdigest()[:6]
    name = f"{request.node.originalname}-{case}"
    with area_of(name, keep=lambda: getattr(request.node, "failed", False)) as folder:
        yield folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.failed:
        item.failed = True  # type: ignore[attr-defined]
    return report


Run = Callable[..., subprocess.CompletedProcess[str]]


#: What the last command of this worker printed, for the message of a test that finds no verdict.
_LAST_OUTPUT = [""]


def run_command(command: list[str], area: Path, env: dict[str, str], timeout: float) -> Any:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "RAILGAUGE_NODES"))}
    own = {
        "RAILGAUGE_RESULTS": str(area),
        # What this checkout's Spack built is none of a test's business.
        "RAILGAUGE_STACK_DIR": str(area / "stack"),
    }
    environment = {**clean, **own, "RFM_COLORIZE": "no", **env}
    outcome = subprocess.run(
        command,
        cwd=paths.HOME,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    _LAST_OUTPUT[0] = outcome.stdout
    return outcome


@pytest.fixture
def reframe(cluster: Lab, area: Path) -> Run:
    """Runs `bin/reframe` as a user does, with its results in the test's own area."""

    def run(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_command([str(paths.HOME / "bin/reframe"), *options], area, env, PATIENCE_S)

    return run


@pytest.fixture
def railgauge(cluster: Lab, area: Path) -> Run:
    """Runs `bin/railgauge`, likewise."""

    def run(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_command([str(paths.HOME / "bin/railgauge"), *options], area, env, PATIENCE_S)

    return run


@pytest.fixture
def verdict(area: Path) -> Callable[[], dict[str, Any]]:
    """The verdict of the newest campaign in the test's area."""

    def read() -> dict[str, Any]:
        newest = max((area / "campaigns").glob("*/verdict.json"), default=None)
        assert newest is not None, f"no verdict was written: {_LAST_OUTPUT[0]}"
        document: dict[str, Any] = json.loads(newest.read_text())
        return document

    return read
