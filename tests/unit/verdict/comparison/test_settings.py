"""Settings of a collective that move its numbers: two campaigns are compared where both have the
same, or where one does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from railgauge.campaign.folder import Campaign
from railgauge.common.errors import RailgaugeError
from railgauge.verdict.comparison import before_after, measurement_table, promotion
from railgauge.verdict.decision.rules import decide
from tests.unit import measured
from tests.unit.measured import PLACES

ON: Mapping[str, Any] = {"nvls": True, "sharp": False, "warmup": 5}


def leave(root: Path, number: int, settings: Mapping[str, Any] | None, **options: Any) -> Campaign:
    facts = {"n1": {"collective": dict(settings)}} if settings else {}
    values = {place: 390.0 + 0.01 * ((7 * n + number) % 5) for n, place in enumerate(PLACES)}
    return measured.leave(root, number, values, facts=facts, **options)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    return tmp_path


def side(campaign: Campaign) -> pl.DataFrame:
    return before_after.of_tables(
        [measurement_table.read(campaign, before_after.TABLE_COLUMNS)], {}
    )


def compared(root: Path, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> int:
    """The number of places that are compared."""
    sides = [side(leave(root, n, settings)) for n, settings in enumerate((before, after))]
    return before_after.compare(sides[0], sides[1]).places.height


@pytest.mark.parametrize(("before", "after"), [(ON, ON), (None, ON), (ON, None), (None, None)])
def test_equal_or_unknown_settings_are_compared(
    root: Path, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> None:
    assert compared(root, before, after) == len(PLACES)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nvls": False}, "NVLS off, SHARP off, warm-up 5"),
        ({"sharp": True}, "NVLS on, SHARP on, warm-up 5"),
        ({"warmup": 1}, "NVLS on, SHARP off, warm-up 1"),
    ],
)
def test_other_settings_are_not_compared_and_said(
    root: Path, change: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(RailgaugeError, match="no place was measured under one condition"):
        compared(root, ON, {**ON, **change})
    later = leave(root, 2, {**ON, **change}, compare=measured.name(0))
    (finding,) = [f for f in decide(later).findings if f.kind == "not-compared"]
    assert finding.weight == "inconclusive" and words in finding.message


def test_one_place_with_other_settings_is_missing_and_the_others_are_compared(root: Path) -> None:
    before, after = side(leave(root, 0, ON)), side(leave(root, 1, ON))
    other = pl.when(pl.col("place") == PLACES[0]).then(pl.lit("NVLS off")).otherwise("settings")
    found = before_after.compare(before, after.with_columns(settings=other))
    assert found.places.height == len(PLACES) - 1
    assert found.missing["place"].to_list() == [PLACES[0]] * 2
    assert found.word == "unknown"
    assert any("with NVLS off" in text for text in found.missing["condition"])


def test_several_settings_are_promoted_to_no_baseline(root: Path) -> None:
    campaigns = [leave(root, 0, ON), leave(root, 1, {**ON, "nvls": False})]
    tables = [(one, measurement_table.read(one)) for one in campaigns]
    with pytest.raises(RailgaugeError, match="several settings of RdmaBandwidth"):
        promotion.propose(tables)
