"""Modes of leaves beside each other: medians of good runs, as times the first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from railgauge.model.failure import NO_REFERENCE, Failure
from railgauge.model.measurement import Measurement
from railgauge.report import balance


def case(operation: str, jain: float, rate: float, *failures: Failure, **more: Any) -> Any:
    numbers = {"jain_index": jain, "bandwidth": rate}
    rows = [
        SimpleNamespace(measurement=Measurement(metric, value, "iperf2", operation, "tcp"))
        for metric, value in numbers.items()
    ]
    said = {"rows": rows, "finished": True, "damage": "", "partition": "ns", "failures": failures}
    return SimpleNamespace(**{**said, **more})


def verdict(*cases: Any, name: str = "one") -> Any:
    campaign = SimpleNamespace(id=name, system="lab32")
    return SimpleNamespace(cases=list(cases), campaign=campaign, simulated=False)


def test_each_mode_is_compared_with_the_first_of_the_same_traffic() -> None:
    found = balance.compare(
        [
            verdict(case("alltoall ecmp", 0.8, 1.0), case("alltoall ecmp", 0.9, 2.0)),
            verdict(case("alltoall packet", 1.0, 3.0), case("uplinks packet", 1.0, 9.0)),
        ]
    )
    assert [(b.traffic, b.mode, b.runs, b.times_the_first) for b in found] == [
        ("alltoall", "ecmp", 2, None),
        ("alltoall", "packet", 1, pytest.approx(2.0)),
        ("uplinks", "packet", 1, None),
    ]
    assert found[0].jain_index == pytest.approx(0.85)


def test_what_only_lacks_a_reference_counts_and_what_is_wrong_does_not() -> None:
    lacks, wrong = Failure(NO_REFERENCE, "none"), Failure("output", "refused")
    numbers = case("alltoall ecmp", 0.8, 1.0, lacks), case("alltoall ecmp", 0.1, 9.0, wrong)
    unfinished = case("alltoall ecmp", 0.1, 9.0, finished=False)
    (only,) = balance.compare([verdict(*numbers, unfinished)])
    assert (only.runs, only.bandwidth_gbits) == (1, 1.0)


def test_other_numbers_are_no_balance() -> None:
    assert balance.compare([verdict(case("tcp", 0.5, 1.0))]) == []


def test_the_alltoall_of_nccl_is_no_balance() -> None:
    row = SimpleNamespace(measurement=Measurement("busbw", 36.6, "nccl-tests", "alltoall", "ib"))
    assert balance.compare([verdict(case("tcp", 1, 1), case("tcp", 1, 1, rows=[row]))]) == []


def test_a_mode_that_nobody_said_is_a_line_of_its_own() -> None:
    found = balance.compare([verdict(case("uplinks", 0.9, 1.0), case("uplinks packet", 1, 2.0))])
    assert [b.mode for b in found] == ["", "packet"]
    assert balance.as_dict([verdict(case("uplinks", 0.9, 1.0))])["modes"][0]["mode"] == ""
