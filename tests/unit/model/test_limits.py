"""The limits: the design's numbers, what no size may break, and what is no input."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.model import limits
from railgauge.model.limits import (
    COLLECTIVES,
    Limit,
    collective,
    collective_over_nics,
    collective_over_nvlink,
    infiniband,
    roce,
    tcp,
    tcp_window,
)
from tests.properties import tries

KIB, MIB = 2**10, 2**20

Rdma = Callable[..., Limit]
#: sender, receiver, GB
Message = tuple[int, int, float]

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


@pytest.mark.parametrize("mtu", [1, 255, 1500, 4097, 9000])
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


def test_tcp_has_timestamps_unless_stated() -> None:
    assert tcp(10, 1500) == tcp(10, 1500, timestamps=True)


@given(RATES, st.integers(576, 65534))
def test_a_larger_mtu_carries_more_tcp(rate: float, mtu: int) -> None:
    assert tcp(rate, mtu).value < tcp(rate, mtu + 1).value < rate


@pytest.mark.parametrize(("timestamps", "headers"), [(True, 52), (False, 40)])
def test_mtu_without_room_for_payload_is_refused(timestamps: bool, headers: int) -> None:
    with pytest.raises(ValueError, match=f"mtu is {headers}"):
        tcp(10, headers, timestamps)


def test_mtu_larger_than_any_packet_is_refused() -> None:
    assert tcp(10, 65535).value < 10
    with pytest.raises(ValueError, match="mtu is 65536"):
        tcp(10, 65536)


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


# ---- standing next to a measurement ----


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


# ---- collectives: the design's formulas and what was measured ----

NICS_8X400G, NIC_400G = 400.0, 50.0
H100, B200 = 450.0, 900.0


def dgx(operation: str, nodes: int, nvls: bool = True) -> Limit:
    """Nodes of eight H100 with eight 400G NICs."""
    return collective(
        operation,
        nodes=nodes,
        ranks=8 * nodes,
        node_gbytes_s=NICS_8X400G,
        gpu_gbytes_s=H100,
        nvls=nvls,
    )


def nvl72(operation: str, trays: int, nic: float = 200.0) -> Limit:
    """Trays of four GB200 in racks of 18, four 400G NICs each."""
    return collective(
        operation,
        nodes=trays,
        ranks=4 * trays,
        node_gbytes_s=nic,
        gpu_gbytes_s=B200,
        nvls=True,
        domain_nodes=18,
    )


@pytest.mark.parametrize(
    ("measured", "limit"),
    [
        pytest.param(478.9, dgx("all_reduce", 1), id="H100 node"),
        pytest.param(482.3, dgx("all_reduce", 1), id="H200 node"),
        pytest.param(367.6, dgx("all_reduce", 1, nvls=False), id="H200 node, NVLS off"),
        pytest.param(215, collective_over_nvlink("all_reduce", 8, 200, nvls=True), id="H800 node"),
        pytest.param(845.7, collective_over_nvlink("all_reduce", 8, B200, nvls=True), id="B200"),
        pytest.param(834.6, nvl72("all_reduce", 18), id="GB200, 72 GPUs"),
        pytest.param(937, nvl72("all_reduce", 18), id="GB300, 18 trays"),
        pytest.param(811.71, nvl72("all_reduce", 2), id="GB200, two trays, MNNVL"),
        pytest.param(810.4, nvl72("all_reduce", 36), id="GB200, 144 GPUs"),
        pytest.param(405.7, nvl72("all_reduce", 360), id="GB200, 1440 GPUs"),
        pytest.param(386.6, dgx("all_reduce", 8), id="64 H100"),
        pytest.param(390, dgx("all_reduce", 8), id="64 H100, eBGP"),
        pytest.param(430, dgx("all_reduce", 2), id="16 H100, NVLS tree"),
        pytest.param(320, dgx("all_reduce", 4, nvls=False), id="32 H100"),
        pytest.param(360, dgx("reduce_scatter", 1), id="H100 node, reduce_scatter"),
        pytest.param(350, dgx("all_gather", 1), id="H100 node, all_gather"),
        pytest.param(50.39, dgx("alltoall", 8), id="64 H100, alltoall"),
        pytest.param(50.39, dgx("alltoall", 32), id="256 H100, alltoall"),
    ],
)
def test_no_published_number_of_a_good_cluster_is_above_its_limit(
    measured: float, limit: Limit
) -> None:
    assert measured <= limit.value


@pytest.mark.parametrize("measured", [84.52, 85.02])
def test_one_nic_between_two_trays_is_nearly_used_up(measured: float) -> None:
    limit = collective_over_nics("all_reduce", 2, 8, NIC_400G)
    assert 0.90 < limit.share(measured) < 1


@pytest.mark.parametrize(
    ("measured", "least"), [(386.6, 0.85), (390, 0.85)], ids=["8 GiB", "size not stated"]
)
def test_64_gpus_use_most_of_their_nics(measured: float, least: float) -> None:
    assert dgx("all_reduce", 8).share(measured) > least


@pytest.mark.parametrize(
    ("operation", "nodes", "ranks", "sharp", "expected"),
    [
        ("all_reduce", 2, 8, False, 50 * 2 * 7 / (1 * 8)),
        ("all_reduce", 8, 64, False, 50 * 8 * 63 / (7 * 64)),
        ("all_reduce", 8, 64, True, 2 * 50 * 63 / 64),
        ("all_reduce", 16, 16, False, 50),
        ("all_gather", 8, 64, False, 50 * 8 * 63 / (7 * 64)),
        ("reduce_scatter", 8, 64, False, 50 * 8 * 63 / (7 * 64)),
        ("reduce_scatter", 8, 64, True, 50 * 8 * 63 / (7 * 64)),
        ("hypercube", 8, 64, False, 50 * 8 * 63 / (7 * 64)),
        ("gather", 8, 64, False, 50 * 8 * 63 / (7 * 64)),
        ("scatter", 8, 64, False, 50 * 8 * 63 / (7 * 64)),
        ("alltoall", 8, 64, False, 50 / 8 * 63 / 56),
        ("alltoall", 4, 4, False, 50),
        ("broadcast", 8, 64, False, 50),
        ("reduce", 8, 64, True, 50),
        ("sendrecv", 8, 64, False, 50),
    ],
)
def test_what_the_nics_allow(
    operation: str, nodes: int, ranks: int, sharp: bool, expected: float
) -> None:
    assert collective_over_nics(operation, nodes, ranks, 50, sharp).value == pytest.approx(expected)


def test_with_two_nodes_the_network_need_not_add_up() -> None:
    plain, sharp = (
        collective_over_nics("all_reduce", 2, 16, 400, added) for added in (False, True)
    )
    assert plain.value == sharp.value


@pytest.mark.parametrize(
    ("ranks", "expected"), [(2, 450), (3, 450), (4, 540), (8, 700), (72, 450 * 142 / 73)]
)
def test_what_nvls_allows_an_all_reduce(ranks: int, expected: float) -> None:
    assert collective_over_nvlink("all_reduce", ranks, 450, nvls=True).value == pytest.approx(
        expected
    )


@pytest.mark.parametrize("nvls", [False, True])
@pytest.mark.parametrize("operation", [name for name in COLLECTIVES if name != "all_reduce"])
def test_nvls_lifts_nothing_but_an_all_reduce(operation: str, nvls: bool) -> None:
    assert collective_over_nvlink(operation, 8, 450, nvls).value == 450


# ---- collectives: which link sets the limit ----


def test_within_a_node_nics_do_not_count() -> None:
    assert dgx("all_gather", 1) == collective_over_nvlink("all_gather", 8, H100)


def test_with_mnnvl_two_trays_are_one_node() -> None:
    alone = collective_over_nvlink("all_reduce", 8, B200, nvls=True)
    assert nvl72("all_reduce", 2) == alone


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("all_reduce", 540 * 215 / 216),
        ("all_gather", 540 * 215 / 216),
        ("alltoall", 540 / 72 * 215 / 216),
        ("gather", 540 * 215 / 216),
        ("broadcast", 360),
        ("sendrecv", 360),
    ],
)
def test_racks_are_limited_by_all_their_nics(operation: str, expected: float) -> None:
    # Three racks of 18 trays with 20 GB/s each, as three nodes with 360.
    limit = collective_over_nics(operation, 54, 216, 20, domain_nodes=18)
    assert limit.value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("all_reduce", 2 * 50 * 11 / 12),
        ("all_gather", 50 * 3 / 2 * 11 / 12),
        ("alltoall", 50 / 4 * 3 / 2 * 11 / 12),
        # Each domain sends what it has to a root among the two.
        ("gather", 50 * 3 * 11 / 12),
        ("broadcast", 50),
    ],
)
def test_domain_with_fewer_nodes_sets_the_limit(operation: str, expected: float) -> None:
    # Three trays in domains of two: one of them is alone with its NICs.
    limit = collective_over_nics(operation, 3, 12, 50, domain_nodes=2)
    assert limit.value == pytest.approx(expected)


def test_slow_nvlink_limits_what_fast_nics_would_allow() -> None:
    # 16 GPUs with 8x400G but 20 GB/s of NVLink each: a GPU gets 20 over NVLink and 50 over a NIC.
    limit = collective(
        "all_gather", nodes=2, ranks=16, node_gbytes_s=NICS_8X400G, gpu_gbytes_s=20.0
    )
    assert limit.value == pytest.approx(70)


@pytest.mark.parametrize("where", ["nvls", "in_network_reduction"])
def test_slow_nvlink_carries_an_all_reduce_once_where_switches_add_up(where: str) -> None:
    limit = collective(
        "all_reduce",
        nodes=2,
        ranks=16,
        node_gbytes_s=NICS_8X400G,
        gpu_gbytes_s=20.0,
        **{where: True},
    )
    assert limit.value == pytest.approx(2 * 15 / 16 * 70)


def test_unknown_nvlink_limits_nothing_across_nodes() -> None:
    limit = collective("alltoall", nodes=2, ranks=16, node_gbytes_s=400, gpu_gbytes_s=None)
    assert limit == collective_over_nics("alltoall", 2, 16, 400)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (
            dgx("all_reduce", 8),
            "all_reduce of 64 ranks on 8 nodes with 400 GB/s of NICs a node",
        ),
        (
            dgx("all_reduce", 1),
            "all_reduce of 8 ranks with 450 GB/s of NVLink a GPU and NVLS",
        ),
        (
            nvl72("alltoall", 36),
            "alltoall of 144 ranks on 36 nodes in 2 NVLink domains with 200 GB/s of NICs a node",
        ),
        (
            nvl72("all_reduce", 36),
            "all_reduce of 144 ranks on 36 nodes in 2 NVLink domains with 900 GB/s of NVLink a GPU "
            "and 200 GB/s of NICs a node, and in-network reduction",
        ),
        (
            collective_over_nics("all_reduce", 2, 8, 50, in_network_reduction=True),
            "all_reduce of 8 ranks on 2 nodes with 50 GB/s of NICs a node and in-network reduction",
        ),
    ],
)
def test_reason_names_ranks_places_and_rates(limit: Limit, reason: str) -> None:
    assert limit.reason == reason


# ---- collectives: what is no input ----

Arguments = dict[str, object]

GOOD: Arguments = {
    "operation": "all_reduce",
    "nodes": 2,
    "ranks": 8,
    "node_gbytes_s": 50.0,
    "gpu_gbytes_s": 900.0,
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"operation": "allreduce"}, "operation is 'allreduce', expected one of all_reduce, "),
        ({"ranks": 1, "nodes": 1}, "ranks is 1, expected 2 to"),
        ({"ranks": 0}, "ranks is 0"),
        ({"ranks": 10**400}, "ranks is 1000"),
        ({"nodes": 0}, "nodes is 0, expected 1 to"),
        ({"nodes": -2}, "nodes is -2"),
        ({"nodes": 16}, "8 ranks on 16 nodes, expected the same number on each"),
        ({"ranks": 9}, "9 ranks on 2 nodes"),
        ({"domain_nodes": 0}, "domain_nodes is 0"),
        ({"node_gbytes_s": 0.0}, "node_gbytes_s is 0.0"),
        ({"node_gbytes_s": math.nan}, "node_gbytes_s is nan"),
        ({"gpu_gbytes_s": -1.0}, "gpu_gbytes_s is -1.0"),
        ({"gpu_gbytes_s": math.inf}, "gpu_gbytes_s is inf"),
        ({"node_gbytes_s": None}, "on 2 nodes is limited by NICs of unknown rate"),
        ({"nodes": 1, "gpu_gbytes_s": None}, "on 1 node is limited by NVLink"),
        ({"domain_nodes": 2, "gpu_gbytes_s": None}, "2 nodes in 1 NVLink domain is limited by"),
        ({"node_gbytes_s": None, "gpu_gbytes_s": None}, "limited by NICs"),
        # A bad rate is refused also where the limit does not need it.
        ({"nodes": 1, "node_gbytes_s": -1.0}, "node_gbytes_s is -1.0"),
    ],
)
def test_collective_that_cannot_be_limited_is_refused(change: Arguments, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        collective(**{**GOOD, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nodes", "domain_nodes", "says"), [(1, 1, "on 1 node$"), (2, 18, "2 nodes in one NVLink")]
)
def test_where_nothing_crosses_the_nics_they_limit_nothing(
    nodes: int, domain_nodes: int, says: str
) -> None:
    with pytest.raises(ValueError, match=f"nothing crosses the NICs: 8 ranks .*{says}"):
        collective_over_nics("all_reduce", nodes, 8, 50, domain_nodes=domain_nodes)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_nvlink_rate_that_is_no_quantity_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="gpu_gbytes_s"):
        collective_over_nvlink("all_reduce", 8, bad)


# ---- collectives: what holds for all of them ----

BYTE_RATES = st.floats(0.1, 4000)
NODES = st.integers(1, 400)
FLAGS = st.booleans()
PER_NODE = st.integers(1, 8)
QUICK = settings(max_examples=tries(200))


@st.composite
def clusters(draw: st.DrawFn) -> Arguments:
    nodes = draw(NODES)
    per_node = draw(st.integers(2, 8) if nodes == 1 else PER_NODE)
    return {
        "operation": draw(st.sampled_from(COLLECTIVES)),
        "nodes": nodes,
        "ranks": nodes * per_node,
        "node_gbytes_s": draw(BYTE_RATES),
        "gpu_gbytes_s": draw(BYTE_RATES),
        "nvls": draw(FLAGS),
        "domain_nodes": draw(st.sampled_from([1, 2, 3, 18])),
        "in_network_reduction": draw(FLAGS),
    }


def limit_of(cluster: Arguments, **change: object) -> Limit:
    return collective(**{**cluster, **change})  # type: ignore[arg-type]


@QUICK
@given(clusters())
def test_every_collective_has_a_limit_in_gbytes(cluster: Arguments) -> None:
    limit = limit_of(cluster)
    assert limit.unit == "GB/s" and 0 < limit.value < math.inf


@QUICK
@given(clusters(), st.floats(1, 100), st.sampled_from(["node_gbytes_s", "gpu_gbytes_s"]))
def test_a_faster_link_never_lowers_a_limit(cluster: Arguments, times: float, link: str) -> None:
    rate = cluster[link]
    assert isinstance(rate, float)
    assert limit_of(cluster, **{link: rate * times}).value >= limit_of(cluster).value


@QUICK
@given(clusters(), st.sampled_from(["nvls", "in_network_reduction"]))
def test_reduction_in_the_network_never_lowers_a_limit(cluster: Arguments, where: str) -> None:
    without, with_it = (limit_of(cluster, **{where: flag}).value for flag in (False, True))
    assert with_it >= without


@QUICK
@given(clusters())
def test_knowing_one_more_rate_never_lifts_a_limit(cluster: Arguments) -> None:
    try:
        less = limit_of(cluster, gpu_gbytes_s=None)
    except ValueError:
        return
    assert limit_of(cluster).value <= less.value


@QUICK
@given(clusters())
def test_collective_is_never_above_a_limit_that_applies(cluster: Arguments) -> None:
    values = dict(cluster)
    gpu, nvls = values.pop("gpu_gbytes_s"), values.pop("nvls")
    try:
        applies = collective_over_nics(**values)  # type: ignore[arg-type]
    except ValueError:
        operation, ranks = values["operation"], values["ranks"]
        applies = collective_over_nvlink(operation, ranks, gpu, nvls)  # type: ignore[arg-type]
    assert limit_of(cluster).value <= applies.value


# ---- collectives: no algorithm on no machine gets past its limit ----


@dataclasses.dataclass(frozen=True)
class Machine:
    """Which node each rank is on, and which NVLink domain each node is in."""

    node_of: tuple[int, ...]
    domain_of: tuple[int, ...]
    node_gbytes_s: float
    gpu_gbytes_s: float

    @property
    def ranks(self) -> int:
        return len(self.node_of)

    def seconds(self, messages: Iterable[Message]) -> float:
        """The time that the busiest link needs for all messages, in GB."""
        loads: defaultdict[tuple[str, str, int], float] = defaultdict(float)
        for sender, receiver, size in messages:
            nodes = self.node_of[sender], self.node_of[receiver]
            if self.domain_of[nodes[0]] == self.domain_of[nodes[1]]:
                ends: tuple[str, int, int] = ("gpu", sender, receiver)
            else:
                ends = ("node", *nodes)
            loads[ends[0], "out", ends[1]] += size
            loads[ends[0], "in", ends[2]] += size
        rates = {"gpu": self.gpu_gbytes_s, "node": self.node_gbytes_s}
        return max(load / rates[kind] for (kind, _, _), load in loads.items())


@st.composite
def machines(draw: st.DrawFn) -> tuple[Machine, int]:
    """A machine whose ranks and domains lie anyhow, and the most nodes of a domain."""
    nodes = draw(st.integers(1, 6))
    per_node = draw(st.integers(2 if nodes == 1 else 1, 4))
    most = draw(st.integers(1, 6))
    node_of = draw(st.permutations(list(range(nodes)) * per_node))
    domain_of: list[int] = [0] * nodes
    if most < nodes:
        domain_of = []
        while len(domain_of) < nodes:
            size = draw(st.integers(1, min(most, nodes - len(domain_of))))
            domain_of += [len(domain_of)] * size
    return Machine(tuple(node_of), tuple(domain_of), draw(BYTE_RATES), draw(BYTE_RATES)), most


def ring(order: Sequence[int], size: float) -> list[Message]:
    hops = zip(order, [*order[1:], order[0]], strict=True)
    return [(sender, receiver, size) for sender, receiver in hops if sender != receiver]


def chain(order: Sequence[int]) -> list[Message]:
    return [(sender, receiver, 1.0) for sender, receiver in itertools.pairwise(order)]


def by_node(machine: Machine) -> list[list[int]]:
    places: dict[int, list[int]] = {}
    for rank, node in enumerate(machine.node_of):
        places.setdefault(node, []).append(rank)
    return list(places.values())


def in_two_stages(machine: Machine, times: int) -> list[Message]:
    """Reduce within a node, then each rank its slice across nodes; with `times` 2 and back."""
    groups = by_node(machine)
    size, slices = len(groups[0]), list(zip(*groups, strict=True))
    inside = [m for group in groups for m in ring(group, times * (size - 1) / size)]
    share = times * (len(groups) - 1) / len(groups) / size
    return inside + [m for order in slices for m in ring(order, share)]


def doubling(ranks: int) -> list[Message]:
    """The steps of a hypercube: with rank XOR 1, 2, 4, as many blocks."""
    steps = [1 << bit for bit in range((ranks - 1).bit_length())]
    return [(rank, rank ^ step, step / ranks) for step in steps for rank in range(ranks)]


#: operation and algorithm -> messages of an operation of one GB, by machine and order of ranks
ALGORITHMS: dict[tuple[str, str], Callable[[Machine, Sequence[int]], list[Message]]] = {
    ("all_reduce", "ring"): lambda m, o: ring(o, 2 * (m.ranks - 1) / m.ranks),
    ("all_reduce", "tree"): lambda m, o: chain(o) + chain(o[::-1]),
    ("all_reduce", "two stages"): lambda m, o: in_two_stages(m, 2),
    ("all_gather", "ring"): lambda m, o: ring(o, (m.ranks - 1) / m.ranks),
    ("all_gather", "two stages"): lambda m, o: in_two_stages(m, 1),
    ("reduce_scatter", "ring"): lambda m, o: ring(o, (m.ranks - 1) / m.ranks),
    ("reduce_scatter", "two stages"): lambda m, o: in_two_stages(m, 1),
    ("all_gather", "direct"): lambda m, o: [(a, b, 1 / m.ranks) for a, b in pairs(o)],
    ("alltoall", "direct"): lambda m, o: [(a, b, 1 / m.ranks) for a, b in pairs(o)],
    ("broadcast", "chain"): lambda m, o: chain(o),
    ("reduce", "chain"): lambda m, o: chain(o),
    ("gather", "direct"): lambda m, o: [(rank, o[0], 1 / m.ranks) for rank in o[1:]],
    ("scatter", "direct"): lambda m, o: [(o[0], rank, 1 / m.ranks) for rank in o[1:]],
    ("sendrecv", "in order"): lambda m, o: ring(range(m.ranks), 1.0),
    ("hypercube", "doubling"): lambda m, o: doubling(m.ranks),
}


def pairs(order: Sequence[int]) -> Iterator[tuple[int, int]]:
    return itertools.permutations(order, 2)


def busbw_factor(operation: str, ranks: int) -> float:
    """As nccl-tests has it."""
    if operation in ("broadcast", "reduce", "sendrecv"):
        return 1
    return (2 if operation == "all_reduce" else 1) * (ranks - 1) / ranks


def limit_on(machine: Machine, operation: str, most: int, in_switches: bool = False) -> Limit:
    return collective(
        operation,
        nodes=len(machine.domain_of),
        ranks=machine.ranks,
        node_gbytes_s=machine.node_gbytes_s,
        gpu_gbytes_s=machine.gpu_gbytes_s,
        nvls=in_switches,
        domain_nodes=most,
        in_network_reduction=in_switches,
    )


@pytest.mark.parametrize(("operation", "algorithm"), ALGORITHMS)
@given(machines(), st.randoms(use_true_random=False))
@settings(max_examples=tries(100))
def test_no_algorithm_exceeds_the_limit(
    operation: str, algorithm: str, drawn: tuple[Machine, int], chance: random.Random
) -> None:
    machine, most = drawn
    if algorithm == "doubling" and machine.ranks.bit_count() != 1:
        return
    order = list(range(machine.ranks))
    chance.shuffle(order)
    if chance.random() < 0.5:
        order.sort(key=lambda rank: machine.node_of[rank])
    seconds = machine.seconds(ALGORITHMS[operation, algorithm](machine, order))
    busbw = busbw_factor(operation, machine.ranks) / seconds
    assert busbw <= limit_on(machine, operation, most).value * (1 + 1e-9)


@given(machines())
@settings(max_examples=tries(100))
def test_all_reduce_in_the_switches_does_not_exceed_the_limit(drawn: tuple[Machine, int]) -> None:
    machine, most = drawn
    ranks = Counter(machine.domain_of[node] for node in machine.node_of)
    nodes = Counter(machine.domain_of)
    # A rank gives all to its switch and gets all back, and the slice that it is in charge of again.
    inside = max(
        (1 + 1 / count) / machine.gpu_gbytes_s if count > 1 else 0 for count in ranks.values()
    )
    outside = 1 / (min(nodes.values()) * machine.node_gbytes_s) if len(nodes) > 1 else 0.0
    busbw = busbw_factor("all_reduce", machine.ranks) / max(inside, outside)
    assert busbw <= limit_on(machine, "all_reduce", most, in_switches=True).value * (1 + 1e-9)


@pytest.mark.parametrize(
    ("operation", "algorithm"),
    [
        ("all_reduce", "two stages"),
        ("all_gather", "two stages"),
        ("reduce_scatter", "two stages"),
        ("alltoall", "direct"),
        ("broadcast", "chain"),
        ("gather", "direct"),
        ("sendrecv", "in order"),
    ],
)
def test_best_algorithm_reaches_the_limit_of_the_nics(operation: str, algorithm: str) -> None:
    machine = Machine((0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2), (0, 1, 2), 50, 900)
    seconds = machine.seconds(ALGORITHMS[operation, algorithm](machine, range(machine.ranks)))
    busbw = busbw_factor(operation, machine.ranks) / seconds
    assert busbw == pytest.approx(limit_on(machine, operation, 1).value)


def test_hypercube_reaches_the_limit_with_its_ranks_dealt_out() -> None:
    machine = Machine((0, 1, 0, 1, 0, 1, 0, 1), (0, 1), 50, 900)
    busbw = busbw_factor("hypercube", 8) / machine.seconds(doubling(8))
    assert busbw == pytest.approx(limit_on(machine, "hypercube", 1).value)


# ---- what every node must carry ----


@pytest.mark.parametrize(
    ("operation", "nodes", "ranks", "share"),
    [
        ("all_reduce", 2, 16, 1),
        ("all_reduce", 32, 256, 1),
        ("all_gather", 4, 32, 3 / 4),
        ("reduce_scatter", 4, 32, 3 / 4),
        ("alltoall", 4, 32, 8 * 24 / 32),
        ("sendrecv", 4, 32, 1),
        ("gather", 4, 32, 0),
        ("all_reduce", 1, 8, 0),
    ],
)
def test_every_node_must_carry_its_share(
    operation: str, nodes: int, ranks: int, share: float
) -> None:
    assert limits.least_node_share(operation, nodes, ranks) == pytest.approx(share)
