"""Whole adaptive campaigns, simulated as for the figures: nobody is accused falsely."""

from __future__ import annotations

import functools

import pytest

from tests import bench_locate

FABRIC = bench_locate.Fabric(256, 4, 16)


@functools.cache
def pools() -> dict[str, list[float]]:
    return {kind: bench_locate.pool(kind, 100_000) for kind in ("normal", "heavy")}


@pytest.mark.parametrize("noise", bench_locate.NOISES)
@pytest.mark.parametrize("model", bench_locate.MODELS)
def test_no_campaign_accuses_an_innocent(model: str, noise: str) -> None:
    outcomes = list(bench_locate.campaigns(FABRIC, model, noise, 2, pools()))
    assert [outcome.innocent for outcome in outcomes] == [[], []]


@pytest.mark.parametrize("noise", bench_locate.NOISES)
@pytest.mark.parametrize("count", [1, 8, 32])
def test_slow_rails_are_named_by_the_third_round(count: int, noise: str) -> None:
    model = f"{count} slow rail{'s' if count > 1 else ''}, 30 %"
    outcomes = bench_locate.campaigns(FABRIC, model, noise, 3, pools())
    assert all((outcome.found or 99) <= 3 for outcome in outcomes)
