"""The share of the limit, where a person says what link was measured."""

from __future__ import annotations

from typing import Any

import pytest

from railgauge.model.measurement import Measurement
from railgauge.model.nic import Nic


def measured(transport: str, operation: str, **more: Any) -> Measurement:
    return Measurement("bandwidth", 10.0, "t", operation, transport, **more)


@pytest.mark.parametrize("word", ["", "400", "400g", "g-roce", "0g-ib", "400G-roce", "99999g-ib"])
def test_another_word_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(ValueError, match="400g-roce"):
        Nic.of(word)


@pytest.mark.parametrize(
    ("nic", "measurement", "seen", "gbits"),
    [
        ("400g-roce", measured("roce", "write", size_bytes=2**20), {}, 392.15),
        (
            "25g-roce",
            measured("roce", "write", size_bytes=65536),
            {"active_mtu_bytes": 1024},
            23.14,
        ),
        ("25g-roce", measured("roce", "send_bidirectional", size_bytes=65536), {}, 49.02),
        ("400g-ib", measured("infiniband", "read", size_bytes=65536), {}, 397.48),
        ("400g-ib", measured("rdma", "read", size_bytes=65536), {}, 397.48),
        ("10g-tcp", measured("tcp", "tcp"), {"mss_bytes": 1448}, 9.41),
        ("10g-roce", measured("tcp", "tcp reverse"), {}, 9.90),
    ],
)
def test_the_limit_is_that_of_the_link(
    nic: str, measurement: Measurement, seen: dict[str, Any], gbits: float
) -> None:
    limit = Nic.of(nic).limit(measurement, seen)
    assert limit is not None and limit.value == pytest.approx(gbits, abs=0.01)


@pytest.mark.parametrize(
    ("nic", "measurement"),
    [
        ("400g-ib", measured("roce", "write")),
        ("400g-roce", measured("infiniband", "write")),
        ("400g-ib", measured("tcp", "tcp")),
        ("400g-roce", measured("efa", "send")),
        ("400g-tcp", measured("roce", "write")),
        ("400g-roce", Measurement("latency", 2.0, "t", "write", "roce")),
    ],
)
def test_what_is_not_of_the_link_has_no_limit(nic: str, measurement: Measurement) -> None:
    assert Nic.of(nic).limit(measurement, {}) is None


def busbw(operation: str = "all_reduce") -> Measurement:
    return Measurement("busbw", 80.0, "t", operation, "any", ranks=8)


HOSTS = {"hosts": ("a",) * 4 + ("b",) * 4}


def test_a_collective_has_one_where_the_nics_of_a_node_are_known() -> None:
    limit = Nic.of("400g-ib", 2).limit(busbw(), HOSTS)
    assert limit is not None and limit.value == pytest.approx(175.0)


@pytest.mark.parametrize(
    ("count", "seen", "operation"),
    [
        (None, HOSTS, "all_reduce"),
        (2, {}, "all_reduce"),
        (2, {"hosts": ("a",) * 8}, "all_reduce"),
        (2, HOSTS, ""),
        (2, {"hosts": ("a",) * 4 + ("b", "c", "d", "d")}, "gather_all"),
    ],
)
def test_a_collective_of_which_something_is_unknown_has_none(
    count: int | None, seen: dict[str, Any], operation: str
) -> None:
    assert Nic.of("400g-ib", count).limit(busbw(operation), seen) is None
