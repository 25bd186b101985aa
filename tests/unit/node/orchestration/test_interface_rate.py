"""What went between two nodes by their exit lines, and below what a pair is bad."""

from __future__ import annotations

import pytest

from railgauge.node.orchestration.interface_rate import (
    InterfaceRate,
    bound,
    bound_since,
    carried,
    most_resent,
    rates,
    resent,
)


def test_peers_say_below_what_a_pair_is_bad() -> None:
    assert bound([9.0, None, 9.1, 9.2, 8.0], 0.1) == pytest.approx(0.9 * 9.05)
    assert bound([9.0, 9.1, 8.0], 0.1) == 0.0
    assert bound([9.0, 9.1, 9.2, 8.0], 0.0) == 0.0


def test_the_mean_is_that_of_the_busiest_device() -> None:
    moved = {"eth0": {"rx": 10**6, "tx": 10**9}, "lo": {"tx": 10**12}, "eth1": {"rx": 10**8}}
    line = {"call": {"seconds": 4.0}, "facts": {"counters": {"bytes": moved}}}
    assert carried(line) == InterfaceRate(pytest.approx(2.0), seconds=4.0)


@pytest.mark.parametrize("device", ["eth0", "rdma/mlx5_0/1"])
@pytest.mark.parametrize("rate", [2.5, None])
def test_the_rate_is_that_while_the_transfer_was_under_way(device: str, rate: float | None) -> None:
    # On mlx5 an interface counts the same octets, to the byte and unsampled.
    moved = {device: {"rx": 10**6, "tx": 10**9}, "ethtool/eth0": {"tx": 10**9 + 3}}
    sampled_as = device if device.startswith("rdma/") else f"net/{device}"
    counters = {
        "bytes": moved,
        "steady_gbits": {sampled_as: {"tx": rate, "rx": None}},
        "moving_s": {sampled_as: {"tx": 3.2, "rx": 0.0}},
    }
    side = carried({"call": {"seconds": 4.0}, "facts": {"counters": counters}})
    assert side is not None and side.mean_gbits == pytest.approx(2.0)
    assert side[1:] == ((2.5, 3.2, 4.0) if rate else (None, 0.0, 4.0))


@pytest.mark.parametrize(
    "facts", [{}, {"counters": {}}, {"counters": None}, {"counters": {"bytes": {}}}]
)
def test_without_counters_there_is_no_rate(facts: dict[str, object]) -> None:
    assert carried({"call": {"seconds": 4.0}, "facts": facts}) is None


def sides(client: float, server: float = 10.0, moving_s: float = 5.0) -> dict[str, InterfaceRate]:
    return {
        "client": InterfaceRate(7.0, client, moving_s),
        "server": InterfaceRate(0.1, server, moving_s),
    }


def test_the_rate_at_a_place_is_that_of_its_slower_side() -> None:
    found = rates({1: sides(9.9), 2: sides(9.9, 9.3), 3: sides(10.0)})
    assert found == {1: 9.9, 2: 9.3, 3: 10.0}


@pytest.mark.parametrize(("moving_s", "rate"), [(5.5, 9.9), (4.5, 9.9), (4.0, 7.92), (2.5, 4.95)])
def test_a_link_that_came_late_or_went_early_has_carried_less(moving_s: float, rate: float) -> None:
    others = {number: sides(9.9) for number in range(5)}
    assert rates({**others, 9: sides(9.9, moving_s=moving_s)})[9] == pytest.approx(rate)


def test_where_one_place_was_not_sampled_all_have_the_mean_of_what_arrived() -> None:
    """Over the client's time: a server waits, before and after it."""
    sampled = {
        "client": InterfaceRate(7.0, 9.9, 3.5, 4.0),
        "server": InterfaceRate(3.5, 9.9, 3.5, 8.0),
    }
    losing = {"client": InterfaceRate(8.0, seconds=4.0), "server": InterfaceRate(2.0, seconds=8.0)}
    assert rates({1: sampled, 2: losing}) == {1: 7.0, 2: 4.0}
    assert rates({2: {"client": InterfaceRate(8.0)}}) == {2: 8.0}
    assert rates({}) == {}


def test_where_a_counter_does_not_show_for_how_long_no_place_is_taken_for_late() -> None:
    """A driver that refreshes it each second makes times of whole seconds."""
    others = {number: sides(9.9) for number in range(5)}
    assert rates({**others, 9: sides(9.9, moving_s=0.0)})[9] == 9.9
    assert set(rates({number: sides(9.9, moving_s=0.0) for number in range(5)}).values()) == {9.9}


@pytest.mark.parametrize(
    ("facts", "segments"),
    [
        ({"counters": {"counters": {"tcp/RetransSegs": 7, "net/eth0/tx_bytes": 9}}}, 7),
        ({"counters": {"counters": {}}}, 0),
        ({"counters": {"simulated": True}}, 0),
        ({"counters": {"counters": {"tcp/RetransSegs": "many"}}}, 0),
        ({"counters": {"counters": {"tcp/RetransSegs": None}}}, 0),
        ({"counters": {"counters": {"tcp/RetransSegs": float("inf")}}}, 0),
        ({"counters": {"counters": [7]}}, 0),
        ({"counters": None}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_what_a_node_sent_again(facts: dict[str, object] | None, segments: int) -> None:
    assert resent({"call": {"seconds": 3.0}, "facts": facts}) == segments


def test_besides_what_all_nodes_send_again() -> None:
    """Of a storage network, say: it is no pair's."""
    assert most_resent([30, 40, 40, 900], 150) == 190
    assert most_resent([30, 900], 150) == 150


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        # They differ by a tenth of a percent: half of the change is no noise.
        ([1.0, 1.001, 0.999, 1.0, 1.001, 0.999], 0.99),
        # By three tenths of a percent: what is less than 1.1 % may be.
        ([1.0, 1.003, 0.997, 1.003, 0.997], 1 - 2.5 * 1.4826 * 0.003),
        # The host stopped for 0.1 s in a round of four: three of its pairs, of eight, are no noise.
        ([0.983, 0.984, 0.982, 0.997, 1.0, 0.999, 1.003, 1.001], 0.99 * 0.998),
        ([1.0, 1.0, 1.0, 1.0, 0.97], 0.99),
        ([1.0, 1.05, 0.95, 1.05, 0.95], 0.98),
        ([1.0, 1.001, 0.999], 0.0),
        ([0.0, 0.0, 0.0, 0.0], 0.0),
    ],
)
def test_since_then_half_of_the_change_where_that_is_no_noise(
    shares: list[float | None], expected: float
) -> None:
    assert bound_since([*shares, None], 0.02) == pytest.approx(expected)


def test_a_stream_that_crawls_is_seen_by_the_time_that_its_client_takes() -> None:
    """Seen on leaves with one bad uplink: three of four streams filled the link for 3 s, the fourth
    crawled for as long again, and steadily went what is usual.
    """
    usual = {
        "client": InterfaceRate(0.096, 0.098, 3.5, 3.5),
        "server": InterfaceRate(0.09, 0.098, 3.5, 3.7),
    }
    late = {**usual, "client": InterfaceRate(0.094, 0.098, 3.5, 3.9)}
    crawling = {
        "client": InterfaceRate(0.055, 0.098, 3.5, 6.06),
        "server": InterfaceRate(0.034, 0.097, 3.3, 9.7),
    }
    found = rates({**dict.fromkeys(range(5), usual), 8: late, 9: crawling})
    assert {found[number] for number in (0, 8)} == {0.098}
    assert found[9] == pytest.approx(0.0544, abs=1e-3)
