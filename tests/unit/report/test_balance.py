"""Modes of leaves next to each other: medians of good runs, as times the first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from railgauge.model import references
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
    said["ratios"] = references.load("dgx-h100").ratios
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


def of_nccl(mode: str, jain: float, busbw: float) -> Any:
    """The alltoall of NcclAll on dgx-h100, with sizes that are not the largest."""
    stored = references.load("dgx-h100")
    rows = []
    for size, value in ((8, 0.01), (2**34, busbw), (2**20, 3.0)):
        m = Measurement(
            *("busbw", value, "nccl-tests", "alltoall", "default"), size_bytes=size, ranks=64
        )
        context = stored.context("NcclAll", "h100", m)
        rows.append(SimpleNamespace(measurement=m, context=context))
    m = Measurement("jain_index", jain, "nccl-tests", f"alltoall {mode}", "default", ranks=64)
    return case("", 0, 0, rows=[*rows, SimpleNamespace(measurement=m, context=())])


def test_modes_are_compared_by_the_busbw_of_nccl_s_largest_message() -> None:
    verdicts = [verdict(of_nccl("ecmp", 0.8, 36.0)), verdict(of_nccl("packet", 1.0, 48.0))]
    found = balance.compare(verdicts)
    assert [(b.mode, b.jain_index, b.busbw_gbytes_s) for b in found] == [
        ("ecmp", 0.8, 36.0),
        ("packet", 1.0, 48.0),
    ]
    assert [b.bandwidth_gbits for b in found] == [None, None]
    assert found[1].times_the_first == pytest.approx(48 / 36)


def test_what_iperf2_and_nccl_sent_is_not_compared_with_each_other() -> None:
    found = balance.compare([verdict(case("alltoall ecmp", 1, 1.0), of_nccl("ecmp", 0.8, 36.0))])
    assert [b.times_the_first for b in found] == [None, None]


def test_what_was_published_of_nccl_s_alltoall_stands_next_to_it() -> None:
    found = balance.published([verdict(of_nccl("ecmp", 0.8, 36.0), of_nccl("ecmp", 0.8, 36.1))])
    assert {(one.value, one.unit) for one in found} == {
        *((36.66, "GB/s"), (43.48, "GB/s"), (50.39, "GB/s")),
        *((1.186, "x"), (1.375, "x")),
    }
    assert balance.published([verdict(case("alltoall ecmp", 1, 1.0))]) == []


def test_the_alltoall_of_nccl_with_uncounted_uplinks_is_no_balance() -> None:
    row = SimpleNamespace(measurement=Measurement("busbw", 36.6, "nccl-tests", "alltoall", "ib"))
    assert balance.compare([verdict(case("tcp", 1, 1), case("tcp", 1, 1, rows=[row]))]) == []


def test_an_unstated_mode_is_a_line_of_its_own() -> None:
    found = balance.compare([verdict(case("uplinks", 0.9, 1.0), case("uplinks packet", 1, 2.0))])
    assert [b.mode for b in found] == ["", "packet"]
    assert balance.as_dict([verdict(case("uplinks", 0.9, 1.0))])["modes"][0]["mode"] == ""
