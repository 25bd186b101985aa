"""Campaigns that break off and go on, and two of them at once."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from railgauge.lab.cluster import Lab

from .conftest import PATIENCE_S, Run
from .test_accept import jobs_left, start


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def campaign_of(area: Path, pid: int) -> Path:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for path in area.glob("campaigns/*/campaign.json"):
            if json.loads(path.read_text())["context"]["pid"] == pid:
                return path.parent
        time.sleep(0.1)
    raise AssertionError(f"no campaign of process {pid}")


def wait_for_ends(campaign: Path, cases: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(list(campaign.glob("ended/*.json"))) < cases:
        assert time.monotonic() < deadline, "no case came to its end"
        time.sleep(0.05)


def session_of(pid: int) -> int:
    """The ReFrame session that a `railgauge accept` has started."""
    deadline = time.monotonic() + PATIENCE_S
    while not (children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        assert time.monotonic() < deadline, "no session"
        time.sleep(0.05)
    return int(children[0])


def test_one_of_two_campaigns_is_killed_and_goes_on(
    railgauge: Run, area: Path, cluster: Lab
) -> None:
    """Both on the same nodes; all that the killed one had measured is kept as it was."""
    survivor = start(area, "--partition", "ns")
    killed = start(area, "--partition", "ns")
    campaign = campaign_of(area, killed.pid)
    wait_for_ends(campaign, 1)
    reframe = session_of(killed.pid)
    os.kill(reframe, signal.SIGSTOP)
    os.kill(killed.pid, signal.SIGKILL)
    os.kill(reframe, signal.SIGKILL)
    killed.communicate(timeout=PATIENCE_S)
    ended = [json.loads(path.read_text()) for path in campaign.glob("ended/*.json")]
    before = {end["stage"]: contents(campaign / end["stage"]) for end in ended}
    assert "broken off" in railgauge("campaigns").stdout
    answer = railgauge("verdict", campaign.name)
    assert answer.returncode == 2, answer.stdout
    assert f"next: railgauge accept --resume {campaign.name}" in answer.stdout

    answer = railgauge("accept", "--resume", campaign.name)
    assert answer.returncode == 0, answer.stdout
    plan = json.loads((campaign / "plan.json").read_text())
    places = {case["unique_name"]: len(case["places"]) for case in plan}
    left = sum(places.values()) - sum(places[end["unique_name"]] for end in ended)
    assert f"session 2: {left} missing" in answer.stdout
    assert before == {stage: contents(campaign / stage) for stage in before}
    count = sum(places.values())
    assert f"ACCEPT {count} of {count} places" in (campaign / "verdict.txt").read_text()
    output, _ = survivor.communicate(timeout=PATIENCE_S)
    assert survivor.returncode == 0, output
    assert jobs_left(cluster) == ""

    answer = railgauge("accept", "--resume", campaign.name)
    assert answer.returncode == 3, answer.stdout
    assert "is finished, nothing is missing: ACCEPT" in answer.stdout
