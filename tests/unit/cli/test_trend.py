"""`railgauge trend`: a slow decline is found before a bound is crossed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from scipy import stats

from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.verdict.comparison.trend import mann_kendall
from tests.command_line import invoke
from tests.unit import measured
from tests.unit.measured import PLACES
from tests.unit.widths import assert_fits


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    return tmp_path


def leave(root: Path, many: int = 12, **steps: float) -> None:
    """Campaigns with 0.2 % noise; a place changes by that share from one to the next."""
    for number in range(many):
        noise = np.random.default_rng(number).normal(0, 0.002, len(PLACES))
        values = {
            place: 380 * float(np.exp(e)) * (1 + steps.get(place.partition(":")[0], 0)) ** number
            for place, e in zip(PLACES, noise, strict=True)
        }
        prints = dict.fromkeys(("n1", "n2"), "ba9876543210" if number >= 6 else "0123456789ab")
        measured.leave(root, number, values, fingerprints=prints)


def trend(*words: str) -> Result:
    answer = invoke(cli, ["trend", measured.CHECK, "--system", "lab", *words])
    if "--json" not in words:
        assert_fits(answer.output)
    return answer


def test_noise_is_no_trend(root: Path) -> None:
    leave(root)
    answer = trend()
    assert answer.exit_code == 0 and "declines" not in answer.output


def test_a_slow_decline_of_one_place_is_named(root: Path) -> None:
    leave(root, n3=-0.0015)
    assert trend().exit_code == 1
    (one,) = json.loads(trend("--json").output)
    (decline,) = one["declines"]
    assert decline["place"] == "n3:n4:0-0"
    assert decline["change"] == pytest.approx(-0.0164, abs=0.004)


def test_what_all_places_lose_is_named_once(root: Path) -> None:
    leave(root, **{place.partition(":")[0]: -0.0015 for place in PLACES})
    lines = [line for line in trend().output.splitlines() if "declines" in line]
    assert len(lines) == 1 and "all places" in lines[0]


def test_an_improvement_is_no_finding(root: Path) -> None:
    leave(root, n3=0.0015)
    assert trend().exit_code == 0


def test_of_few_campaigns_nothing_is_said(root: Path) -> None:
    leave(root, many=7, n3=-0.01)
    assert trend().exit_code == 0


def test_a_node_is_asked_about_alone(root: Path) -> None:
    leave(root, n3=-0.0015)
    assert (trend("--node", "n4").exit_code, trend("--node", "n5").exit_code) == (1, 0)


def test_a_campaign_with_another_firmware_is_marked(root: Path) -> None:
    leave(root)
    marked = [line for line in trend().output.splitlines() if "changed" in line]
    assert len(marked) == 1 and measured.name(6) in marked[0] and "n[1-2]" in marked[0]


def two_series(root: Path, before: dict[str, Any], later: dict[str, Any]) -> list[Any]:
    """The conditions of six campaigns `before`, and of six `later` that measure 3 % less."""
    for number in range(12):
        values = dict.fromkeys(PLACES, 380.0 if number < 6 else 368.6)
        measured.leave(root, number, values, **(later if number >= 6 else before))
    answer = trend("--json")
    assert answer.exit_code == 0
    found = json.loads(answer.output)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("before", "later", "named"),
    [
        ({"version": "6.24"}, {"version": "6.29"}, ", perftest of 26.04 and later"),
        ({"warmup": 1}, {"warmup": 5}, "warm-up 5"),
    ],
)
def test_no_series_goes_across_what_changes_the_numbers(
    root: Path, before: dict[str, Any], later: dict[str, Any], named: str
) -> None:
    """All twelve campaigns in one series would decline."""
    series = two_series(root, before, later)
    assert [len(one["points"]) for one in series] == [6, 6]
    assert series[0]["condition"] != series[1]["condition"]
    assert any(one["condition"].endswith(named) for one in series)


def test_another_version_that_changes_no_number_is_marked(root: Path) -> None:
    leave(root, many=3)
    measured.leave(root, 3, dict.fromkeys(PLACES, 380.0), version="6.25")
    lines = trend().output.splitlines()
    (marked,) = [line for line in lines if "now Version: 6.25" in line]
    assert measured.name(3) in marked


def test_programs_get_json(root: Path) -> None:
    leave(root, n3=-0.0015)
    (one,) = json.loads(trend("--json").output)
    assert len(one["points"]) == 12 and one["declines"][0]["place"] == "n3:n4:0-0"


def test_an_unknown_check_is_answered_with_the_known_ones(root: Path) -> None:
    leave(root, many=1)
    error = invoke(cli, ["trend", "Nosuch", "--system", "lab"]).exception
    assert isinstance(error, RailgaugeError) and measured.CHECK in str(error)


def test_the_test_and_the_slope_are_those_of_scipy() -> None:
    values = np.random.default_rng(0).normal(0, 1, (5, 30)) + 0.05 * np.arange(30)
    p, slope = mann_kendall(values)
    for row, of_p, of_slope in zip(values, p, slope, strict=True):
        assert of_slope == pytest.approx(stats.theilslopes(row).slope)
        expected = stats.kendalltau(np.arange(30), row, method="asymptotic").pvalue
        # Ours has the correction for continuity.
        assert of_p == pytest.approx(expected, rel=0.15) and of_p >= expected
