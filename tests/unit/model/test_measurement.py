"""A measurement: no number without a metric, a unit and a condition."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.model.measurement import METRICS, Measurement

GOOD = Measurement("bandwidth", 9.5, tool="iperf2", operation="tcp", transport="tcp")

WORDS = st.text(max_size=8)
#: Of one word, or with the state in which it was measured.
OPERATIONS = st.sampled_from(["", "write", "allreduce", "allreduce alone", "allreduce beside tcp"])
COUNTS = st.none() | st.integers(1, 2**40)
MEASUREMENTS = st.builds(
    Measurement,
    metric=st.sampled_from(sorted(METRICS)),
    value=st.floats(0, allow_nan=False, allow_infinity=False) | st.integers(0, 2**53),
    tool=WORDS,
    operation=OPERATIONS,
    transport=WORDS,
    size_bytes=COUNTS,
    streams=COUNTS,
    nodes=st.lists(WORDS, max_size=4).map(tuple),
    ranks=COUNTS,
)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, -1e-9])
def test_value_that_is_no_quantity_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"bandwidth is .*: not a finite number"):
        dataclasses.replace(GOOD, value=value)


@pytest.mark.parametrize("value", ["9.5", None, [9.5]])
def test_value_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        dataclasses.replace(GOOD, value=value)


def test_a_state_is_part_of_what_is_measured_and_of_its_name() -> None:
    busy = GOOD.with_state("busy")
    assert (busy.operation, busy.variable) == ("tcp busy", "bandwidth_busy")


def test_zero_is_a_measurement() -> None:
    assert dataclasses.replace(GOOD, value=0).value == 0


def test_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'Bandwidth' is unknown.*bandwidth, .*retransmits"):
        dataclasses.replace(GOOD, metric="Bandwidth")


@pytest.mark.parametrize("metric", METRICS)
def test_unit_is_the_metrics_own(metric: str) -> None:
    assert dataclasses.replace(GOOD, metric=metric).unit == METRICS[metric].unit


@pytest.mark.parametrize(
    ("size", "variable"), [(None, "bandwidth"), (8, "bandwidth_8B"), (65536, "bandwidth_65536B")]
)
def test_variable_is_the_metric_with_its_size(size: int | None, variable: str) -> None:
    assert dataclasses.replace(GOOD, size_bytes=size).variable == variable


@given(MEASUREMENTS, MEASUREMENTS)
def test_one_variable_never_stands_for_two_metrics_states_or_sizes(
    one: Measurement, other: Measurement
) -> None:
    def parts(measurement: Measurement) -> tuple[object, ...]:
        state = measurement.operation.partition(" ")[2]
        return measurement.metric, state, measurement.size_bytes

    assert (one.variable == other.variable) is (parts(one) == parts(other))


@given(MEASUREMENTS)
def test_what_is_stored_as_json_is_read_back_the_same(measurement: Measurement) -> None:
    stored = json.dumps(measurement.as_dict(), allow_nan=False)
    assert Measurement.from_dict(json.loads(stored)) == measurement


@given(MEASUREMENTS)
def test_what_is_stored_states_its_unit(measurement: Measurement) -> None:
    assert measurement.as_dict()["unit"] == METRICS[measurement.metric].unit


@pytest.mark.parametrize("unit", ["GB/s", "Mb/s", "gb/s", "", None])
def test_stored_number_in_another_unit_is_refused(unit: str | None) -> None:
    with pytest.raises(ValueError, match=f"bandwidth in {unit!r}, expected 'Gb/s'"):
        Measurement.from_dict({**GOOD.as_dict(), "unit": unit})


@pytest.mark.parametrize("missing", ["metric", "value", "tool", "operation", "transport"])
def test_stored_measurement_that_lacks_a_field_is_refused(missing: str) -> None:
    fields = {name: value for name, value in GOOD.as_dict().items() if name != missing}
    with pytest.raises(ValueError, match=missing):
        Measurement.from_dict(fields)


def test_stored_measurement_that_lacks_its_unit_is_refused() -> None:
    fields = {name: value for name, value in GOOD.as_dict().items() if name != "unit"}
    with pytest.raises(ValueError, match="bandwidth in None, expected 'Gb/s'"):
        Measurement.from_dict(fields)


def test_stored_measurement_with_a_strange_field_is_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        Measurement.from_dict({**GOOD.as_dict(), "colour": "red"})


@pytest.mark.parametrize("value", [math.nan, -1, math.inf])
def test_stored_value_that_is_no_quantity_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        Measurement.from_dict({**GOOD.as_dict(), "value": value})


def test_measurement_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        GOOD.value = 1.0  # type: ignore[misc]


def test_the_state_of_an_operation_is_part_of_the_variable() -> None:
    """What is measured twice in one case must not have one name."""
    names = {
        Measurement("mpi_time", 1, "osu", f"allreduce {state}", "any", size_bytes=64).variable
        for state in ("alone", "beside")
    }
    assert names == {"mpi_time_alone_64B", "mpi_time_beside_64B"}
