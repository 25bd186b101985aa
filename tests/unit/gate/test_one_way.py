"""A held node that only sends slowly, tested together with a healthy one."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.gate import run, testing
from tests.unit.verdict.decision.test_rules import (
    Recorded,
    in_one_sweep,
    measured_again,
    recorded,
    slow,
)

from .cluster import Slurm, held

__all__ = ["recorded"]

#: What the sweep adds after the ring n1-n2, n2-n3, n3-n4, n4-n1, as its planner asks: the server,
#: and the client, which sends.
_ADDED = ("n1-n3", "n2-n4", "n3-n2", "n4-n1", "n4-n2", "n1-n3")


@pytest.fixture
def n2_sends_slowly(recorded: Recorded) -> Recorded:
    in_one_sweep(recorded)
    slow(recorded)
    for number, pair in enumerate(_ADDED):
        server, client = pair.split("-")
        measured_again(recorded, server, client, value=9.5)
        record = recorded.results[0, 0]
        assert record is not None
        record["results"][-1].update(place=f"{server}:{client}@{number}", round=2 + number // 2)
    for result in record["results"]:
        measurement = result["rows"][0]["measurement"]
        if measurement["nodes"][1] == "n2":
            measurement["value"] = 2.9
    return recorded


def test_the_healthy_one_is_tested_again_without_it(
    area: Path, nodes: Slurm, n2_sends_slowly: Recorded
) -> None:
    verdict = n2_sends_slowly.decide()
    assert verdict.failing_nodes == ["n2"]
    held(nodes, "n1", "n2")
    planned = run.plan("lab", ["n1", "n2"])
    assert planned.partners == ["n3", "n4"]
    said: list[str] = []
    testing._judge(planned, verdict, said.append)
    assert list(planned.decided) == ["n2"] and planned.open_nodes == ["n1"]
    assert planned.bad_partners == [] and "once more without n2: n1" in said
