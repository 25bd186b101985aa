"""One condition of a campaign against another: medians, judged where both were measured."""

from __future__ import annotations

import dataclasses
import datetime
import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.model.references import Provenance, Ratio, RatioSide
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.ratios import RatioRow, judge

DEFAULT = RatioSide(check="WanTcp", delay_ms=44, window_bytes=None)
LARGE = RatioSide(check="WanTcp", delay_ms=44, window_bytes=2**27)


def ratio(**changes: Any) -> Ratio:
    fields: dict[str, Any] = {
        "name": "large buffers over default",
        "metric": "bandwidth",
        "of": LARGE,
        "over": DEFAULT,
        "value": 4.0,
        "lower": -0.25,
        "provenance": Provenance(source="a test", date=datetime.date(2026, 11, 21)),
    }
    return Ratio(**{**fields, **changes})


RATIO = ratio()


def case(
    values: float | Sequence[float], window: int | None, stored: Ratio = RATIO, **changes: Any
) -> Case:
    """A case that measured `values`, one a row, with these socket buffers."""
    measured = [
        Measurement(
            "bandwidth",
            value,
            "iperf2",
            "tcp",
            "tcp",
            streams=1,
            nodes=("n1", "n2"),
            window_bytes=window,
            delay_ms=44.0,
        )
        for value in ([values] if isinstance(values, (int, float)) else values)
    ]
    made = Case(
        check="WanTcp",
        name=f"WanTcp {window}",
        partition="wan",
        nodes=("n1", "n2"),
        run=0,
        result="pass",
        reason="",
        rows=tuple(Row(measurement, None, None) for measurement in measured),
        failures=(),
        folder=None,
        ratios=(stored,),
    )
    return dataclasses.replace(made, **changes)


def judged(*cases: Case) -> RatioRow:
    (row,) = judge(cases)
    return row


def test_ratio_is_one_condition_divided_by_the_other() -> None:
    assert judged(case(8.0, 2**27), case(2.0, None)).value == 4.0


def test_ratio_keeps_its_name_and_reference() -> None:
    row = judged(case(8.0, 2**27), case(2.0, None))
    assert (row.name, row.reference) == ("large buffers over default", RATIO)


@pytest.mark.parametrize(("large", "within"), [(8.0, True), (6.0, True), (5.9, False)])
def test_ratio_is_judged_by_its_bounds(large: float, within: bool) -> None:
    assert judged(case(large, 2**27), case(2.0, None)).within is within


@given(
    st.lists(st.floats(0.1, 1e4), min_size=1, max_size=9),
    st.lists(st.floats(0.1, 1e4), min_size=1, max_size=9),
)
def test_each_side_is_the_median_of_all_its_cases(of: list[float], over: list[float]) -> None:
    cases = [case(value, 2**27) for value in of] + [case(over, None)]
    assert judged(*cases).value == statistics.median(of) / statistics.median(over)


@given(st.permutations([case(8.0, 2**27), case(9.0, 2**27), case(2.0, None), case(1.0, None)]))
def test_order_of_the_cases_is_no_matter(cases: list[Case]) -> None:
    assert judged(*cases).value == 8.5 / 1.5


@pytest.mark.parametrize("window", [2**27, None])
def test_ratio_with_one_side_is_not_measured(window: int | None) -> None:
    row = judged(case(8.0, window))
    assert (row.value, row.within) == (None, None)


def test_ratio_to_zero_is_not_measured() -> None:
    assert judged(case(8.0, 2**27), case(0.0, None)).value is None


def test_ratio_of_zero_is_out() -> None:
    assert judged(case(0.0, 2**27), case(2.0, None)).within is False


def test_ratio_of_no_check_here_is_not_reported() -> None:
    assert judge([dataclasses.replace(case(8.0, 2**27), ratios=())]) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"failures": (Failure("condition", "streams is 1, expected 4"),)},
        {"result": "abort"},
        {"check": "Iperf2Pair"},
    ],
)
def test_number_that_its_check_does_not_vouch_for_is_left_out(changes: dict[str, Any]) -> None:
    assert judged(case(8.0, 2**27, **changes), case(2.0, None)).value is None


def test_number_out_of_its_own_reference_still_counts() -> None:
    assert judged(case(8.0, 2**27, result="fail"), case(2.0, None)).value == 4.0


def test_other_metric_does_not_count() -> None:
    stored = ratio(metric="bandwidth_peak")
    assert judged(case(8.0, 2**27, stored), case(2.0, None, stored)).value is None


def test_part_that_a_side_leaves_out_may_be_anything() -> None:
    stored = ratio(of=RatioSide(check="WanTcp"), over=RatioSide(check="WanTcp", window_bytes=None))
    assert judged(case(6.0, 2**27, stored), case(2.0, None, stored)).value == 2.0


def test_side_of_another_partition_does_not_count() -> None:
    stored = ratio(of=RatioSide(check="WanTcp", partition="lan", window_bytes=2**27))
    assert judged(case(8.0, 2**27, stored), case(2.0, None, stored)).value is None


def test_ratio_of_unstated_condition_is_measured_and_not_judged() -> None:
    stored = ratio(condition="unstated", lower=None)
    row = judged(case(2.0, 2**27, stored), case(2.0, None, stored))
    assert (row.value, row.within) == (1.0, None)


def test_state_of_the_hosts_is_never_taken_from_a_measurement() -> None:
    tuned = RatioSide(check="WanTcp", window_bytes=2**27, state="tuned")
    stored = ratio(of=tuned, condition="unstated", lower=None)
    assert judged(case(8.0, 2**27, stored), case(2.0, None, stored)).value is None


def test_every_ratio_of_a_check_is_reported_once() -> None:
    second = ratio(name="another")
    cases = [case(8.0, 2**27, ratios=(RATIO, second)), case(2.0, None, ratios=(RATIO, second))]
    assert [row.name for row in judge(cases)] == ["large buffers over default", "another"]


def test_side_is_reported_in_words() -> None:
    assert str(DEFAULT) == "WanTcp, delay_ms 44.0, window_bytes none"
