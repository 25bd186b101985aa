"""What the sweeps of `python -m tests.bench_swept` come to: here a few of each kind."""

from __future__ import annotations

import pytest

from tests import bench_locate, bench_swept
from tests.bench_locate import Fabric

_FLOWS = "one lossy uplink of 4, runs of 4 flows"


@pytest.fixture(scope="module")
def pools() -> dict[str, list[float]]:
    return {kind: bench_locate.pool(kind) for kind in ("normal", "heavy")}


@pytest.mark.parametrize("noise", bench_locate.NOISES)
@pytest.mark.parametrize(
    "fabric", [Fabric(32, 1, 4), Fabric(128, 1, 8)], ids=lambda fabric: f"{fabric.nodes} nodes"
)
def test_an_uplink_that_most_flows_of_a_leaf_meet_is_confirmed(
    fabric: Fabric, noise: str, pools: dict[str, list[float]]
) -> None:
    """Two in three of its runs are bad, of some nodes all: as if these were slow one way each."""
    found = list(bench_swept.campaigns(_FLOWS, fabric, "cover", noise, range(4), pools))
    assert [outcome.found is not None for outcome in found] == [True] * 4
    assert not any(outcome.innocent for outcome in found)
