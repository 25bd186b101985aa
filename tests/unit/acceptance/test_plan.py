"""`railgauge accept --plan`: what would run where, without making a plan of every place."""

from __future__ import annotations

import pytest

from railgauge.acceptance import accept
from railgauge.model.record import Listed

NODES = "dgx-h100-n[01-04]"


@pytest.fixture(scope="module")
def listed() -> dict[str, Listed]:
    """The cases of four DGX H100 with eight rails each, by their titles."""
    chosen = accept.scope("dgx-h100", None, NODES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RFM_SYSTEM", "dgx-h100")
        cases = accept.plan("dgx-h100", chosen, NODES, "acceptance", [])
    return {case.title: case for case in cases}


def test_a_sweep_is_one_case_with_all_of_its_places(listed: dict[str, Listed]) -> None:
    assert {"Path h100, 4 places", "RailProbe h100, 32 places"} <= set(listed)
    assert {"RdmaOperation h100 read, 4 places", "RdmaOperation h100 send, 4 places"} <= set(listed)


def test_neighbours_take_two_rounds_a_rail(listed: dict[str, Listed]) -> None:
    probe = listed["RailProbe h100, 32 places"]
    assert (probe.rounds, probe.node_count) == (16, 4)


def test_a_case_that_is_no_sweep_is_one_place_on_its_nodes(listed: dict[str, Listed]) -> None:
    world = listed["MpiWorld h100"]
    assert (world.places, world.rounds, world.node_count) == (1, 1, 4)


def test_a_case_says_about_how_long_it_takes(listed: dict[str, Listed]) -> None:
    assert all(case.seconds for case in listed.values())
