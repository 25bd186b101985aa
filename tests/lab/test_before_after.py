"""Before and after in the lab: a baseline, then the same again, a slower link, and all of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.lab import faults
from railgauge.lab.cluster import Lab

from .conftest import PATIENCE_S, area_of, lab_beside, lab_command
from .test_leaves import on

NODES = [f"n{number}" for number in range(1, 9)]

#: A link's rate is held to 0.3 % here, so that three runs against one tell 2 % from 5 %.
RUNS = 3
_NETWORK = ("--system", "lab32", "--nodes", "n[1-8]")
_CHECKS = ("--", "-n", "Iperf2Pair|NodeState")

#: A setting of each node's own network.
SETTING, OTHER = "net.ipv4.tcp_rmem", "4096 131072 4000000"


@pytest.fixture(scope="module")
def eight(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One leaf of the larger lab."""
    with lab_beside(cluster, tmp_path_factory.mktemp("before") / "lab", "lab32") as lab:
        answer = lab_command(lab, "up", "--system", "lab32", "--nodes", "n[1-8]")
        assert answer.returncode == 0, answer.stdout
        yield lab


@pytest.fixture
def mended(eight: Lab) -> Iterator[Lab]:
    before = on(eight, "n1", "sysctl", "-n", SETTING).strip()
    yield eight
    faults.clear(eight)
    for node in NODES:
        on(eight, node, "sysctl", "-w", f"{SETTING}={before}")


class Site:
    """Railgauge with references and results of its own."""

    def __init__(self, lab: Lab, area: Path) -> None:
        self.area = area
        shutil.copytree(paths.references_folder(), area / "references")
        self._env = {
            "RAILGAUGE_RESULTS": str(area),
            "RAILGAUGE_REFERENCES": str(area / "references"),
            "RAILGAUGE_LAB_DIR": str(lab.folders.lab),
        }

    def run(self, *words: str) -> str:
        """What it prints; its exit code is that of a verdict."""
        answer = subprocess.run(
            [str(paths.HOME / "bin/railgauge"), *words],
            cwd=paths.HOME,
            env={**os.environ, **self._env},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert answer.returncode in (0, 1, 2), answer.stdout + answer.stderr
        return answer.stdout

    def verdict(self) -> dict[str, Any]:
        newest = max((self.area / "campaigns").glob("*/verdict.json"))
        document: dict[str, Any] = json.loads(newest.read_text())
        return document


@pytest.fixture(scope="module")
def site(eight: Lab) -> Iterator[tuple[Site, str]]:
    """With a baseline that is promoted, and the campaign that it is of."""
    with area_of("before-after") as area:
        made = Site(eight, area)
        made.run("accept", *_NETWORK, "--mode", "baseline", "--runs", str(RUNS), *_CHECKS)
        campaign = made.verdict()["campaign"]
        made.run("promote", campaign, "--write")
        assert "kind: baseline" in (area / "references" / "lab32.yaml").read_text()
        yield made, campaign


def changed(site: tuple[Site, str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The findings of a campaign against the baseline's, and what is noted beside them."""
    made, before = site
    made.run("accept", *_NETWORK, "--compare", before, *_CHECKS)
    verdict = made.verdict()
    kinds = ("worse", "missing", "cannot-tell", "not-compared")
    found = [finding for finding in verdict["findings"] if finding["kind"] in kinds]
    return found, [notice["message"] for notice in verdict["notices"]]


def test_a_second_healthy_campaign_is_the_same(site: tuple[Site, str]) -> None:
    found, notes = changed(site)
    assert found == [], notes


def test_a_link_that_lost_5_percent_is_named_and_nothing_else(
    mended: Lab, site: tuple[Site, str]
) -> None:
    faults.add(mended, "rate", "n5", 0.095)
    found, notes = changed(site)
    assert found, notes
    assert all(one["kind"] == "worse" and "n5" in one["nodes"] for one in found), found


def test_what_all_links_lost_accuses_nobody_and_stands_beside_what_changed(
    mended: Lab, site: tuple[Site, str]
) -> None:
    for node in NODES:
        faults.add(mended, "rate", node, 0.097)
        on(mended, node, "sysctl", "-w", f"{SETTING}={OTHER}")
    found, notes = changed(site)
    assert found, notes
    assert all(one["kind"] == "worse" and one["nodes"] == [] for one in found), found
    assert any(f"changed on all nodes: sysctl/{SETTING}" in note for note in notes), notes
