"""`railgauge accept --plan`: what would run where, without making a plan of every place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.acceptance import request
from railgauge.common.errors import RailgaugeError
from railgauge.model.record import Listed

NODES = "dgx-h100-n[01-04]"


def plan(options: Sequence[str] = (), **environment: str) -> dict[str, Listed]:
    """The cases of four DGX H100 with eight rails each, by their titles."""
    chosen = request.scope("dgx-h100", None, NODES)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RFM_SYSTEM": "dgx-h100", **environment}.items():
            patch.setenv(name, value)
        cases = request.plan("dgx-h100", chosen, NODES, "acceptance", options)
    return {case.title: case for case in cases}


@pytest.fixture(scope="module")
def listed() -> dict[str, Listed]:
    return plan()


def test_a_sweep_is_one_case_with_all_of_its_places(listed: dict[str, Listed]) -> None:
    assert {"NodeState h100, 4 places", "RailProbe h100, 32 places"} <= set(listed)
    # Seven usages of the first rail.
    assert "RdmaUsage h100, 28 places" in listed


def test_neighbours_take_two_rounds_a_rail(listed: dict[str, Listed]) -> None:
    probe = listed["RailProbe h100, 32 places"]
    assert (probe.rounds, probe.node_count) == (16, 4)


def test_a_case_that_is_no_sweep_is_one_place_on_its_nodes(listed: dict[str, Listed]) -> None:
    world = listed["MpiWorld h100"]
    assert (world.places, world.rounds, world.node_count) == (1, 1, 4)


def test_a_case_says_about_how_long_it_takes(listed: dict[str, Listed]) -> None:
    assert all(case.seconds for case in listed.values())


def test_a_plan_of_neighbours_names_them(listed: dict[str, Listed]) -> None:
    probe, state = listed["RailProbe h100, 32 places"], listed["NodeState h100, 4 places"]
    assert (probe.schedule, probe.seed, state.schedule) == ("neighbours", None, "")


def test_shift_has_every_rail_with_every_other() -> None:
    found = plan(["-n", "RdmaBandwidth"], RAILGAUGE_SCHEDULE="shift")
    case = found["RdmaBandwidth h100, 224 places"]
    # 4 pairs of 8 rails with 7 others, one rail of each at a time.
    assert (case.rounds, case.schedule) == (112, "shift")


def test_a_plan_of_random_pairs_has_its_seed() -> None:
    found = plan(["-n", "RdmaLatency"], RAILGAUGE_SCHEDULE="random", RAILGAUGE_SEED="9")
    case = found["RdmaLatency h100, 96 places"]
    assert (case.rounds, case.schedule, case.seed) == (48, "random", 9)


def test_a_schedule_that_cannot_be_is_an_error_before_anything_runs() -> None:
    with pytest.raises(RailgaugeError, match="needs to know the leaf of every node"):
        plan(RAILGAUGE_SCHEDULE="cover")


def test_a_bare_session_refuses_it_too(tmp_path: Path) -> None:
    answer = subprocess.run(
        [str(paths.HOME / "bin/reframe"), "-c", str(paths.CHECKS), "--dry-run"],
        env={
            **os.environ,
            "RFM_SYSTEM": "dgx-h100",
            "RAILGAUGE_RESULTS": str(tmp_path),
            "RAILGAUGE_SCHEDULE": "cover",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode != 0
    assert "schedule cover needs to know the leaf of every node" in answer.stdout + answer.stderr
