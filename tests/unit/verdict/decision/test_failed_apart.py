"""Who failed apart from a guilty node."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from railgauge.verdict.campaign.finding import Finding
from railgauge.verdict.decision.verdict import failed_apart
from tests.unit.verdict.decision.test_rules import Recorded


def finding(*nodes: str) -> Finding:
    return Finding("reject", "job-state", "TIMEOUT", "Iperf2Pair", "ns", nodes)


def test_what_a_job_did_not_come_to_is_with_the_node_that_it_hung_on(tmp_path: Path) -> None:
    ring = Recorded(tmp_path / "20261121T042325Z-lab-91c33c")
    cases = list(ring.decide().cases)
    of_job = dataclasses.replace(cases[0], nodes=("n2", "n3"), of_job=True)
    assert set(failed_apart([finding("n2", "n3")], cases, {"n1"})) == {"n2", "n3"}
    assert failed_apart([finding("n2", "n3")], [*cases, of_job], {"n1"}) == {}
