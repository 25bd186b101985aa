"""Other pairs than neighbours, and what a number says of the others that were measured with it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railgauge.campaign.folder import RESULT_FILE
from railgauge.lab.cluster import Lab
from railgauge.model.record import read_record

from .conftest import PATIENCE_S, Run, assert_nothing_runs
from .test_accept import jobs_left, start, suspects, sweeps, wait_for_traffic

pytestmark = pytest.mark.release

PAIRS = ("--partition", "ns", "--nodes", "n[1-4]")
ONLY = ("--", "-n", "Iperf2Pair")
#: A round is as long as the machine may stand still between what a test sees and what it does.
LONG = (*ONLY, "-S", "Iperf2Pair.duration_s=8")


def campaign_in(area: Path) -> Path:
    (found,) = (area / "campaigns").iterdir()
    return found


def plan(campaign: Path) -> dict[str, Any]:
    (case,) = json.loads((campaign / "plan.json").read_text())
    assert isinstance(case, dict)
    return case


def loads(campaign: Path) -> dict[str, str | None]:
    """Next to what each place was measured, of all sessions."""
    found: dict[str, str | None] = {}
    for path in sorted(campaign.rglob(RESULT_FILE)):
        record = read_record(path)
        assert record is not None
        found |= {r.place: r.rows[0].measurement.load for r in record.results if r.rows}
    return found


def test_quiet_measures_one_pair_after_the_other(railgauge: Run, area: Path) -> None:
    answer = railgauge("accept", *PAIRS, "--schedule", "quiet", *ONLY)
    assert "REJECT" not in answer.stdout
    campaign = campaign_in(area)
    assert plan(campaign)["schedule"] == "quiet"
    assert loads(campaign) == dict.fromkeys(("n1:n2", "n2:n3", "n3:n4", "n4:n1"), "quiet")
    assert json.loads((campaign / "leaves.json").read_text()) == {}


def test_a_random_sweep_that_broke_off_goes_on_with_its_own_pairs(
    railgauge: Run, area: Path, verdict: Callable[[], dict[str, Any]], cluster: Lab
) -> None:
    """Its acceptance is killed, and what its job goes on to measure is never judged."""
    killed = start(area, *PAIRS, "--schedule", "random", "--seed", "7", *LONG)
    wait_for_traffic(area, rounds=1)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=PATIENCE_S)
    campaign = campaign_in(area)
    before = plan(campaign)
    assert (before["schedule"], before["seed"], len(before["places"])) == ("random", 7, 6)
    (broken,) = sweeps(area, "Iperf2Pair")
    assert broken.rounds

    answer = railgauge("accept", "--resume", campaign.name)
    assert "session 2: " in answer.stdout and "REJECT" not in answer.stdout, answer.stdout
    assert any(sweep.begin == broken.begin for sweep in sweeps(area, "Iperf2Pair"))
    assert plan(campaign) == before
    assert set(loads(campaign)) == {place["name"] for place in before["places"]}
    assert suspects(verdict()) == []
    assert jobs_left(cluster) == ""
    assert_nothing_runs(cluster)
