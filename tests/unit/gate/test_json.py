"""What the gate prints for programs is as the published schemas say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railgauge.cli import cli
from tests.command_line import invoke
from tests.unit.report.feeds.test_schemas import require

from .cluster import Campaigns, Slurm, held


def typed(*words: str, stderr: Sequence[str] = ()) -> tuple[Any, int]:
    result = invoke(cli, ["gate", *words, "--system", "lab", "--json"], stderr=stderr)
    assert result.stdout, result.exception
    return json.loads(result.stdout), result.exit_code


def test_the_state_of_nodes_is_as_its_schema(area: Path, nodes: Slurm) -> None:
    held(nodes, "n2")
    found, code = typed("status")
    require("gate-status", found)
    (n2,) = [one for one in found["nodes"] if one["node"] == "n2"]
    assert code == 0 and "firmware changed" in n2["drained"] and n2["fingerprint"]


def test_nodes_that_were_looked_at_are_as_their_schema(area: Path, nodes: Slurm) -> None:
    nodes.kernel["n3"] = "6.13"
    found, code = typed("hold", "--nodes", "n[1-3]")
    require("gate-hold", found)
    assert code == 1 and found["nodes"][-1]["changes"][0]["after"] == "6.13"


def test_the_end_of_a_run_is_as_its_schema(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    held(nodes, "n1")
    held(nodes, "n2")
    steps = ("reserving ", "resuming ", "testing ", "once more ", "n1: accepted", "n2: stays out")
    found, code = typed("run", "--act", stderr=steps)
    require("gate-run", found)
    assert found["exit_code"] == code == 1
    assert [one for run in found["runs"] for one in run["kept_out"]] == ["n2"]


def test_a_run_without_nodes_is_as_its_schema(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    found, code = typed("run", "--act", stderr=["holds no idle node"])
    require("gate-run", found)
    assert (code, found["runs"]) == (0, [])
