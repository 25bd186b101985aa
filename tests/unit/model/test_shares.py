"""What part of its limit a number must reach where nothing is stored."""

from __future__ import annotations

import dataclasses
from typing import Any

import pydantic
import pytest

from railgauge.model import shares
from railgauge.model.limits import Limit, roce
from railgauge.model.measurement import Measurement
from railgauge.model.references import Entry
from railgauge.model.shares import LeastShare

WRITE = Measurement(
    "bandwidth", 390.0, "perftest", "write", "roce", size_bytes=65536, nodes=("n1", "n2")
)
LIMIT = roce(400, 4096, 65536)


def share(**parts: Any) -> LeastShare:
    return LeastShare(share=0.8, source="a test", **parts)


@pytest.mark.parametrize(
    ("size", "admitted"), [(65536, 0.95), (1 << 20, 0.95), (4096, None), (None, None)]
)
def test_a_write_of_64_kib_and_more_must_reach_95_percent(
    size: int | None, admitted: float | None
) -> None:
    found = shares.reference(dataclasses.replace(WRITE, size_bytes=size), LIMIT, [])
    assert (None if found is None else round(1 + (found.lower or 0), 6)) == admitted
    if found is not None:
        assert found.kind == "share" and found.value == LIMIT.value
        assert found.admits(0.951 * LIMIT.value) and not found.admits(0.949 * LIMIT.value)


def test_without_a_limit_there_is_no_share_of_it() -> None:
    assert shares.reference(WRITE, None, []) is None


def test_what_a_system_states_comes_first() -> None:
    found = shares.reference(WRITE, LIMIT, [share(operation="read"), share(operation="write")])
    assert found is not None and found.lower == pytest.approx(-0.2)
    assert found.provenance.source == "a test" and "80% of the limit" in found.note


@pytest.mark.parametrize(
    "parts",
    [
        {"metric": "busbw"},
        {"tool": "iperf2"},
        {"operation": "read"},
        {"transport": "ib"},
        {"nodes": "one"},
        {"from_bytes": 65537},
    ],
    ids=str,
)
def test_each_part_that_is_stated_counts(parts: dict[str, Any]) -> None:
    assert share().is_of(WRITE)
    assert not share(**parts).is_of(WRITE)


def test_each_collective_has_one_that_published_numbers_reach() -> None:
    """SYSTEMS.md: H100, B200 and GB200 in their own limits."""
    known = [
        ("all_reduce", ("a",), 478.9, 700.0),
        ("all_reduce", ("a",), 845.7, 1400.0),
        ("all_reduce", ("a", "b"), 811.0, 1400.0),
        ("all_reduce", tuple("abc"), 810.4, 1787.5),
        ("all_reduce", ("a", "b"), 84.77, 87.5),
        ("alltoall", tuple("abcdefgh"), 36.66, 56.25),
    ]
    for operation, nodes, value, limit in known:
        number = Measurement(
            "busbw", value, "nccl-tests", operation, "default", size_bytes=1 << 34, nodes=nodes
        )
        found = shares.reference(number, Limit(limit, "GB/s", "of a test"), [])
        assert found is not None and found.admits(value)
        assert not found.admits(value / 3)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"metric": "latency_p99"}, "expected one of"),
        ({"share": 1.2}, "less than or equal to 1"),
        ({"share": 0}, "greater than 0"),
        ({"source": ""}, "at least 1 character"),
        ({"operations": "write"}, "Extra inputs"),
    ],
    ids=str,
)
def test_a_share_that_is_none_is_reported(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=told):
        LeastShare(**{"share": 0.9, "source": "a test", **wrong})


def test_a_share_is_not_stored_among_references() -> None:
    number = {"value": 1.0, "lower": -0.1, "unit": "Gb/s", "kind": "share"}
    number["provenance"] = {"source": "a test", "date": "2026-11-22"}
    with pytest.raises(pydantic.ValidationError, match=r"extras\.least_shares"):
        Entry(
            check="RdmaBandwidth",
            partition="p",
            metrics={"bandwidth": number},
        )
