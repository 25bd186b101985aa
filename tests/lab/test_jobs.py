"""The scripts in jobs/ under a real Slurm.

The lab's machines have no Python for Railgauge, so what the scheduled acceptance starts here is a
stand-in; what Slurm makes of the script is real.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.lab.cluster import Lab

from .conftest import PATIENCE_S

SCRIPTS = sorted(path.name for path in (paths.HOME / "jobs").glob("*.sbatch"))
CAMPAIGN = "20261121T093027Z-lab-409426"

Submit = Callable[..., subprocess.CompletedProcess[str]]


def on_login_node(lab: Lab, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the checkout, as a user types it."""
    return subprocess.run(
        lab.enter(lab.spec.head.name, *command, workdir=paths.HOME),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture
def submit(cluster: Lab, area: Path) -> Submit:
    """Submits jobs/accept.sbatch with a stand-in for railgauge; its output goes to area/out."""

    def run(*options: str, then: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        campaign = area / "campaigns" / CAMPAIGN
        verdict = json.dumps({"verdict": {0: "accept", 1: "reject"}.get(code)}, indent=2)
        lines = [
            "#!/bin/bash",
            f"echo campaign {CAMPAIGN} >&2",
            f'mkdir -p "{campaign}"',
            f"cat >'{campaign}/verdict.json' <<'END'\n{verdict}\nEND",
            f'env >"{area}/environment"',
            then,
            f"exit {code}",
        ]
        (area / "railgauge").write_text("\n".join(lines) + "\n")
        (area / "railgauge").chmod(0o755)
        return on_login_node(
            cluster,
            *("env", f"PATH={area}:/usr/bin:/bin", "SYSTEM=lab", f"RAILGAUGE_RESULTS={area}"),
            *("RAILGAUGE_ON_VERDICT=tell", "sbatch", "--partition=ns", f"--output={area}/out"),
            *(*options, "jobs/accept.sbatch"),
        )

    return run


def wait_for(path: Path, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists() or words not in path.read_text():
        assert time.monotonic() < deadline, f"{path} does not say {words!r}"
        time.sleep(0.1)


@pytest.mark.parametrize("script", SCRIPTS)
def test_slurm_takes_the_script(cluster: Lab, script: str) -> None:
    nodes = ["-N", "2"] if script != "accept.sbatch" else []
    answer = on_login_node(cluster, "sbatch", "--test-only", "-p", "ns", *nodes, f"jobs/{script}")
    assert answer.returncode == 0, answer.stdout
    assert "to start at" in answer.stdout


def test_slurm_takes_the_deadline_of_a_scheduled_copy(cluster: Lab) -> None:
    options = ["--deadline=now+6days", "-p", "ns"]
    answer = on_login_node(cluster, "sbatch", "--test-only", *options, "jobs/accept.sbatch")
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_job_ends_with_the_verdict(submit: Submit, area: Path, code: int) -> None:
    answer = submit("--wait", code=code)
    assert answer.returncode == code, (area / "out").read_text()


def test_what_the_script_is_given_reaches_railgauge(submit: Submit, area: Path) -> None:
    submit("--wait", code=1)
    assert "RAILGAUGE_ON_VERDICT=tell" in (area / "environment").read_text().splitlines()


def test_the_checks_jobs_get_nothing_of_this_one(submit: Submit, area: Path) -> None:
    submit("--wait")
    given = (area / "environment").read_text().splitlines()
    names = {line.partition("=")[0] for line in given if line.startswith("SLURM_")}
    # By its number railgauge finds that this job is on a node under test.
    assert names <= {"SLURM_CONF", "SLURM_JOB_ID"}


def test_slurm_says_when_the_job_ends(submit: Submit, area: Path) -> None:
    # Ten minutes are kept for the end: nine leave nothing.
    answer = submit("--wait", "--time=9")
    assert answer.returncode == 3
    assert "leaves no time" in (area / "out").read_text()


def test_a_second_copy_waits_for_the_first(submit: Submit, cluster: Lab, area: Path) -> None:
    hang = "trap 'exit 2' TERM\necho ready\nsleep 1000 &\nwait"
    first = submit("--parsable", then=hang).stdout.strip()
    try:
        wait_for(area / "out", "ready")
        second = submit("--parsable", then=hang).stdout.strip()
        try:
            listed = ["squeue", "--noheader", f"--jobs={second}", "--format=%T %r"]
            assert on_login_node(cluster, *listed).stdout.split() == ["PENDING", "Dependency"]
        finally:
            on_login_node(cluster, "scancel", second)
    finally:
        on_login_node(cluster, "scancel", first)


def test_a_cancelled_job_lets_its_session_clean_up(
    submit: Submit, cluster: Lab, area: Path
) -> None:
    # Its child may get the signal some time before itself, and end: it goes on until its own comes.
    hang = "while :; do sleep 1000 & wait; done"
    hang = f"trap 'sleep 0.5; echo cleaned up; exit 2' TERM\necho ready\n{hang}"
    job = submit("--parsable", then=hang).stdout.strip()
    wait_for(area / "out", "ready")
    on_login_node(cluster, "scancel", job)
    wait_for(area / "out", "cleaned up")
