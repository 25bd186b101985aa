"""The limits: the design's numbers, what no size may break, and what is no input."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import limits
from railgauge.limits import Limit, infiniband, roce, tcp, tcp_window

KIB, MIB = 2**10, 2**20

Rdma = Callable[..., Limit]

FABRICS = pytest.mark.parametrize("fabric", [roce, infiniband])
OPERATIONS = st.sampled_from(["write", "send", "read"])
RATES = st.floats(0.001, 1600, allow_nan=False)
MTUS = st.sampled_from([256, 512, 1024, 2048, 4096])
SIZES = st.integers(1, 8 * MIB)


# ---- RoCE v2 and InfiniBand ----


@pytest.mark.parametrize(
    ("rate", "size", "expected"),
    [
        (25, 4 * KIB, 24.42),
        (25, 64 * KIB, 24.50),
        (25, MIB, 24.51),
        (400, None, 392.15),
        (100, None, 98.04),
    ],
)
def test_roce_at_path_mtu_4096_gives_the_designs_numbers(
    rate: float, size: int | None, expected: float
) -> None:
    assert roce(rate, 4096, size).value == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("fabric", "around"), [(roce, 82), (infiniband, 26)])
def test_every_packet_pays_its_headers(fabric: Rdma, around: int) -> None:
    in_three_packets = fabric(100, 1024, 3000, "send").value
    assert in_three_packets == pytest.approx(100 * 3000 / (3000 + 3 * around))


@FABRICS
def test_write_pays_its_extended_header_once_a_message(fabric: Rdma) -> None:
    send, write = (fabric(100, 1024, 3000, operation).value for operation in ("send", "write"))
    assert 3000 * 100 / write - 3000 * 100 / send == pytest.approx(16)


@FABRICS
def test_read_and_send_pay_the_same(fabric: Rdma) -> None:
    assert fabric(100, 1024, 3000, "read").value == fabric(100, 1024, 3000, "send").value


@FABRICS
def test_write_is_the_default_operation(fabric: Rdma) -> None:
    assert fabric(100, 1024, 3000) == fabric(100, 1024, 3000, "write")


@FABRICS
@given(RATES, MTUS, SIZES, OPERATIONS)
def test_no_message_gets_more_than_a_large_one(
    fabric: Rdma, rate: float, mtu: int, size: int, operation: str
) -> None:
    assert fabric(rate, mtu, size, operation).value <= fabric(rate, mtu).value * (1 + 1e-12)


@FABRICS
@given(RATES, MTUS, SIZES, OPERATIONS)
def test_payload_is_a_share_of_the_rate(
    fabric: Rdma, rate: float, mtu: int, size: int, operation: str
) -> None:
    assert 0 < fabric(rate, mtu, size, operation).value < rate


@FABRICS
@given(MTUS, st.integers(1, 500), OPERATIONS)
def test_one_byte_into_a_new_packet_costs(
    fabric: Rdma, mtu: int, packets: int, operation: str
) -> None:
    full = fabric(100, mtu, packets * mtu, operation).value
    assert fabric(100, mtu, packets * mtu + 1, operation).value < full


@FABRICS
@given(MTUS, st.integers(0, 500), st.data())
def test_within_the_same_packets_a_larger_message_gets_more(
    fabric: Rdma, mtu: int, packets: int, data: st.DataObject
) -> None:
    smaller = packets * mtu + data.draw(st.integers(1, mtu - 1))
    assert fabric(100, mtu, smaller).value < fabric(100, mtu, smaller + 1).value


@FABRICS
@given(MTUS, st.integers(1, 500))
def test_more_full_packets_spread_the_header_of_a_write(
    fabric: Rdma, mtu: int, packets: int
) -> None:
    more = fabric(100, mtu, (packets + 1) * mtu).value
    assert fabric(100, mtu, packets * mtu).value < more


@FABRICS
@given(st.sampled_from([256, 512, 1024, 2048]), SIZES, OPERATIONS)
def test_larger_packets_never_cost_more(fabric: Rdma, mtu: int, size: int, operation: str) -> None:
    assert fabric(100, mtu, size, operation).value <= fabric(100, 2 * mtu, size, operation).value


@given(MTUS, SIZES, OPERATIONS)
def test_infiniband_carries_more_than_roce_at_the_same_rate(
    mtu: int, size: int, operation: str
) -> None:
    assert infiniband(100, mtu, size, operation).value > roce(100, mtu, size, operation).value


@pytest.mark.parametrize(("fabric", "name"), [(roce, "RoCE v2"), (infiniband, "InfiniBand")])
def test_reason_names_fabric_rate_and_packets(fabric: Rdma, name: str) -> None:
    reason = fabric(25, 4096, 65536).reason
    assert reason == f"{name} at 25 Gb/s, 65536 byte messages in 16 packets of 4096"


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("argument", ["rate_gbits", "mtu", "size"])
@FABRICS
def test_rdma_input_that_is_no_quantity_is_refused(fabric: Rdma, argument: str, bad: float) -> None:
    good = {"rate_gbits": 25, "mtu": 4096, "size": 65536}
    with pytest.raises(ValueError, match=argument.split("_")[0]):
        fabric(**{**good, argument: bad})


@pytest.mark.parametrize("mtu", [1, 255, 4097, 9000])
@FABRICS
def test_mtu_of_an_interface_is_no_rdma_path_mtu(fabric: Rdma, mtu: int) -> None:
    with pytest.raises(ValueError, match=f"mtu is {mtu}, expected an RDMA path MTU"):
        fabric(25, mtu, 65536)


@pytest.mark.parametrize("operation", ["", "Write", "atomic"])
@FABRICS
def test_unknown_operation_is_refused(fabric: Rdma, operation: str) -> None:
    with pytest.raises(ValueError, match="operation"):
        fabric(25, 4096, 65536, operation)


# ---- TCP ----


@pytest.mark.parametrize(
    ("mtu", "timestamps", "share"),
    [
        (1500, True, 1448 / 1538),
        (1500, False, 1460 / 1538),
        (9000, True, 8948 / 9038),
        (4200, True, 4148 / 4238),
    ],
)
def test_tcp_pays_its_headers_in_every_frame(mtu: int, timestamps: bool, share: float) -> None:
    assert tcp(10, mtu, timestamps).value == pytest.approx(10 * share)


def test_tcp_has_timestamps_unless_told() -> None:
    assert tcp(10, 1500) == tcp(10, 1500, timestamps=True)


@given(RATES, st.integers(576, 65534))
def test_a_larger_mtu_carries_more_tcp(rate: float, mtu: int) -> None:
    assert tcp(rate, mtu).value < tcp(rate, mtu + 1).value < rate


@pytest.mark.parametrize(("timestamps", "headers"), [(True, 52), (False, 40)])
def test_mtu_without_room_for_payload_is_refused(timestamps: bool, headers: int) -> None:
    with pytest.raises(ValueError, match=f"mtu is {headers}"):
        tcp(10, headers, timestamps)


@pytest.mark.parametrize(("timestamps", "headers"), [(True, 52), (False, 40)])
def test_mtu_with_room_for_one_byte_is_enough(timestamps: bool, headers: int) -> None:
    assert tcp(10, headers + 1, timestamps).value > 0


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("argument", ["rate_gbits", "mtu"])
def test_tcp_input_that_is_no_quantity_is_refused(argument: str, bad: float) -> None:
    with pytest.raises(ValueError, match=argument.split("_")[0]):
        tcp(**{"rate_gbits": 10, "mtu": 1500, argument: bad})  # type: ignore[arg-type]


def test_one_flow_carries_a_window_a_round_trip() -> None:
    assert tcp_window(4 * MIB, 0.080).value == pytest.approx(4 * MIB * 8 / 0.080 / 1e9)


def test_reason_names_the_window_and_the_round_trip() -> None:
    assert tcp_window(65536, 0.08).reason == "one window of 65536 bytes per 80 ms round trip"


@given(st.integers(1, 2**31), st.floats(1e-6, 10))
def test_half_the_round_trip_carries_twice_as_much(window: int, rtt: float) -> None:
    assert tcp_window(window, rtt / 2).value == pytest.approx(2 * tcp_window(window, rtt).value)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("argument", ["window_bytes", "rtt_s"])
def test_window_input_that_is_no_quantity_is_refused(argument: str, bad: float) -> None:
    with pytest.raises(ValueError, match=argument.split("_")[0]):
        tcp_window(**{"window_bytes": 65536, "rtt_s": 0.01, argument: bad})  # type: ignore[arg-type]


# ---- standing beside a measurement ----


@pytest.mark.parametrize(
    "limit", [roce(25, 4096), infiniband(400, 4096, 8), tcp(10, 1500), tcp_window(65536, 0.01)]
)
def test_every_limit_is_in_the_unit_of_bandwidth(limit: Limit) -> None:
    assert limit.unit == "Gb/s"


def test_share_is_the_fraction_of_the_limit() -> None:
    assert Limit(20.0, "Gb/s", "a test").share(15.0) == pytest.approx(0.75)


@given(RATES, st.floats(0, 1))
def test_what_is_within_the_limit_does_not_exceed_it(rate: float, part: float) -> None:
    limit = tcp(rate, 1500)
    assert not limit.exceeded_by(limit.value * part)


@pytest.mark.parametrize(
    ("beyond", "exceeded"), [(0.9, False), (1.1, True), (2, True), (100, True)]
)
def test_limit_is_exceeded_only_beyond_the_tolerance(beyond: float, exceeded: bool) -> None:
    limit = Limit(10.0, "Gb/s", "a test")
    assert limit.exceeded_by(10.0 * (1 + beyond * limits.TOLERANCE)) is exceeded


def test_a_wrong_unit_does_not_hide_in_the_tolerance() -> None:
    # MiB for MB is the smallest mistake of unit there is: 4.9 %.
    assert limits.TOLERANCE < 2**20 / 10**6 - 1


# ---- both ways ----


@FABRICS
@given(RATES, MTUS, SIZES, OPERATIONS)
def test_sum_over_both_directions_may_be_twice_that_of_one(
    fabric: Rdma, rate: float, mtu: int, size: int, operation: str
) -> None:
    one_way = fabric(rate, mtu, size, operation)
    assert one_way.both_ways().value == 2 * one_way.value


def test_limit_of_both_ways_says_so() -> None:
    one_way = roce(100, 4096)
    both = one_way.both_ways()
    assert (both.unit, both.reason) == ("Gb/s", f"{one_way.reason}, both ways")


def test_sum_over_both_directions_does_not_exceed_the_limit_of_both_ways() -> None:
    one_way = roce(100, 4096)
    total = 2 * one_way.value
    assert (one_way.exceeded_by(total), one_way.both_ways().exceeded_by(total)) == (True, False)
