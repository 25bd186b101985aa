"""examples/site: a site's own repository, which the program reads by RAILGAUGE_SITE."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from railgauge import paths

SITE = paths.HOME / "examples" / "site"

Railgauge = Callable[..., str]


@pytest.fixture
def railgauge(tmp_path: Path) -> Railgauge:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAILGAUGE", "RFM_"))}
    environment |= {
        "PYTHONPATH": str(paths.SOURCE),
        "RAILGAUGE_SITE": str(SITE),
        "RAILGAUGE_RESULTS": str(tmp_path / "results"),
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "railgauge", *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_its_system_fits_the_checks_and_its_references(railgauge: Railgauge) -> None:
    said = railgauge("system", "check", "pod")
    assert "references: results/references/pod.yaml: 1 entries" in said
    assert "0 problems" in said


def test_an_acceptance_measures_its_nodes(railgauge: Railgauge) -> None:
    assert "Iperf2Pair nodes, 4 places" in railgauge("accept", "--plan", "--system", "pod")


def test_an_update_reads_its_files_only(railgauge: Railgauge) -> None:
    said = railgauge("upgrade-check")
    assert "pod: this version reads reframe.yaml, expected.yaml, gate.yaml, references" in said
    assert "lab:" not in said


def test_nothing_is_written_into_it(railgauge: Railgauge) -> None:
    before = sorted(SITE.rglob("*"))
    railgauge("accept", "--plan", "--system", "pod")
    assert sorted(SITE.rglob("*")) == before
