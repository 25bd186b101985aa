"""A program of the site in the lab: PhyML, as Debian has it, over four nodes.

Only here MPI starts again and again within one job, and a program prints what its makers let it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run

pytestmark = pytest.mark.release


def test_a_program_is_timed_run_by_run(railgauge: Run, verdict: Callable[[], Any]) -> None:
    answer = railgauge("accept", "--partition", "ns", "--series", "--", "-n", "^ApplicationTime")
    found = verdict()
    # Required checks were left out by the filter; nothing else is missing, or wrong.
    assert {f["kind"] for f in found["findings"]} == {"not-measured"}, answer.stdout
    assert all(m["passed"] for m in found["measurements"])
    times = {m["operation"]: m["value"] for m in found["measurements"]}
    runs = sorted(times.pop(f"phyml run{number}") for number in (1, 2, 3))
    assert times == {"phyml": runs[1]}
    (tool,) = [tool for tool in found["tools"] if tool["tool"] == "application"]
    assert len(tool["nodes"]) == 4
