"""What a tool claims to have moved, against what the devices counted."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railgauge.checks.framework.byte_accounting import contradictions
from railgauge.model import limits
from railgauge.model.reported_traffic import Claim
from railgauge.node.system.counter_sampler import Peak, Reading

GB = 10**9


def record(
    counted: dict[str, dict[str, int]], peaks: dict[str, dict[str, float | None]] | None = None
) -> dict[str, Any]:
    return {"bytes": counted, "peak_gbits": peaks or {}}


def claim(payload_bytes: float, seconds: float = 3.0, **changes: Any) -> Claim:
    """iperf2's client on n2 by eth0, over TCP at MTU 4200."""
    share = limits.tcp(1, 4200).value
    return dataclasses.replace(
        Claim(
            "iperf2 (client)",
            "n2",
            "tx",
            ((("eth0",),),),
            int(payload_bytes),
            seconds,
            payload_bytes / share,
        ),
        **changes,
    )


def kinds(claim: Claim, record: dict[str, Any]) -> list[str]:
    return [found.kind for found in contradictions(claim, record)]


# ---- too little ----


def test_a_tool_that_claims_nine_times_what_its_interface_sent_is_contradicted() -> None:
    """The numbers of a fake that was accepted."""
    counted = record({"eth0": {"rx": 1 * GB, "tx": int(0.38 * GB)}}, {"net/eth0": {"tx": 0.98}})
    (found,) = contradictions(claim(3.4 * GB, 3.1), counted)
    assert found.kind == "counters"
    assert found.message == (
        "counters contradict: iperf2 (client) says it moved 3.4 GB in 3.1 s (8.77 Gb/s), "
        "eth0 of n2 sent 0.38 GB, at most 0.98 Gb/s"
    )


def test_bytes_that_took_another_way_name_the_interface() -> None:
    counted = record({"eth0": {"tx": GB // 100}, "eth1": {"tx": 2 * GB}, "eth2": {"tx": 5}})
    (found,) = contradictions(claim(2 * GB), counted)
    assert "eth1 2 GB: the traffic took that way" in found.message
    assert "eth2" not in found.message


def test_bytes_that_never_left_the_node_name_the_loopback() -> None:
    counted = record({"eth0": {"tx": 0}, "lo": {"tx": 2 * GB}})
    (found,) = contradictions(claim(2 * GB), counted)
    assert "lo 2 GB" in found.message


@given(
    payload=st.integers(2**24, 2**45),
    inflated=st.floats(1.1, 1e3),
    overhead=st.floats(1.0, 1.05),
    seconds=st.floats(0.01, 1e4),
)
def test_a_claim_inflated_by_a_tenth_never_passes(
    payload: int, inflated: float, overhead: float, seconds: float
) -> None:
    counted = record({"eth0": {"tx": int(payload * overhead / 1.05)}})
    assert kinds(claim(payload * inflated, seconds), counted) == ["counters"]


@given(
    payload=st.integers(0, 2**45),
    headers=st.floats(0, 1),
    again=st.floats(0, 0.2),
    seconds=st.floats(0.01, 1e4),
)
def test_an_honest_claim_is_never_contradicted(
    payload: int, headers: float, again: float, seconds: float
) -> None:
    """A counter shows the payload, some or all of the headers, and what was sent again."""
    honest = claim(payload, seconds)
    assert honest.wire_bytes is not None
    shown = (payload + headers * (honest.wire_bytes - payload)) * (1 + again)
    assert kinds(honest, record({"eth0": {"tx": int(shown)}})) == []


# ---- too fast ----


def test_bytes_that_are_right_in_a_time_that_is_not_are_contradicted_by_the_peak() -> None:
    counted = record({"eth0": {"tx": 4 * GB}}, {"net/eth0": {"tx": 3.3}})
    assert kinds(claim(4 * GB, 10), counted) == []
    assert kinds(claim(4 * GB, 2), counted) == ["counters"]


def test_without_a_peak_the_bytes_alone_are_judged() -> None:
    counted = record({"eth0": {"tx": 4 * GB}}, {"net/eth0": {"tx": None}})
    assert kinds(claim(4 * GB, 2), counted) == []


@example(rates=[1.0, 0.0, 0.0, 0.0], pauses=[0.21875] + [0.25] * 79, before_s=0.0)
@given(
    rates=st.lists(st.floats(0, 10), min_size=4, max_size=60),
    pauses=st.lists(st.floats(0.2, 0.3) | st.floats(0.2, 3), min_size=80, max_size=80),
    before_s=st.floats(0, 1),
)
def test_no_honest_run_is_faster_than_the_peak_of_its_own_samples(
    rates: list[float], pauses: list[float], before_s: float
) -> None:
    """A run of quarters of a second at any rates; the sampler is held up now and then."""
    total, seconds = sum(rates) * 0.25e9 / 8, len(rates) * 0.25
    if total < 2**20:
        return
    peak, now_s = Peak(1), 0.0
    for pause_s in pauses:
        inside = min(max(now_s - before_s, 0), seconds)
        whole = int(inside / 0.25)
        moved = sum(rates[:whole]) * 0.25
        if whole < len(rates):
            moved += rates[whole] * (inside - whole * 0.25)
        peak.add(Reading(now_s, now_s, int(moved * 1e9 / 8)))
        now_s += pause_s
    counted = record({"eth0": {"tx": int(total)}}, {"net/eth0": {"tx": peak.gbits}})
    assert kinds(claim(total, seconds), {**counted, "sampler_gap_s": peak.gap_s}) == []


# ---- too much ----


def test_far_more_than_was_claimed_is_somebody_elses_and_said_to_be() -> None:
    (found,) = contradictions(claim(2 * GB), record({"eth0": {"tx": 5 * GB}}))
    assert found.kind == "counters-exceeded"


def test_where_others_use_the_device_more_is_expected() -> None:
    shared = claim(2 * GB, wire_bytes=None)
    assert kinds(shared, record({"eth0": {"tx": 5 * GB}})) == []


# ---- devices ----


def test_rdma_is_found_in_whichever_counter_has_it() -> None:
    ways = ((("rdma/mlx5_0/1",), ("eth2",), ("ethtool/eth2",)),)
    over_port = claim(2 * GB, devices=ways)
    for name in ("rdma/mlx5_0/1", "eth2", "ethtool/eth2"):
        counted = {"rdma/mlx5_0/1": {"tx": 0}, "eth2": {"tx": 0}, "ethtool/eth2": {"tx": 0}}
        assert kinds(over_port, record({**counted, name: {"tx": 2 * GB}})) == []
    assert kinds(over_port, record({"eth2": {"tx": GB // 2}})) == ["counters"]


def test_the_interface_that_counted_for_a_port_is_named() -> None:
    soft = claim(2 * GB, devices=((("rdma/rxe0/1",), ("eth1",)),))
    (found,) = contradictions(soft, record({"eth1": {"tx": GB}}))
    assert "rxe0 (by eth1) of n2 sent 1 GB" in found.message


def test_links_of_one_device_are_added_up() -> None:
    bonded = claim(2 * GB, devices=((("ethtool/eth2", "ethtool/eth3"),),))
    assert kinds(bonded, record({f"ethtool/eth{n}": {"tx": GB} for n in (2, 3)})) == []


def test_devices_of_a_node_are_added_up() -> None:
    both = claim(2 * GB, devices=((("rdma/a/1",),), (("rdma/b/1",),)))
    assert kinds(both, record({"rdma/a/1": {"tx": GB}, "rdma/b/1": {"tx": GB}})) == []
    assert kinds(both, record({"rdma/a/1": {"tx": GB}, "rdma/b/1": {"tx": 0}})) == ["counters"]


def test_a_node_that_must_send_or_receive_may_do_either() -> None:
    either = claim(2 * GB, direction="either")
    assert kinds(either, record({"eth0": {"tx": 0, "rx": 2 * GB}})) == []
    assert kinds(either, record({"eth0": {"tx": GB, "rx": GB}})) == ["counters"]


# ---- what cannot be told ----


@pytest.mark.parametrize(
    "counted", [{}, {"bytes": {}}, record({"eth1": {"tx": GB}}), record({"eth0": {"rx": GB}})]
)
def test_a_device_without_a_count_is_no_pass(counted: dict[str, Any]) -> None:
    assert kinds(claim(2 * GB), counted) == ["counters-unread"]


def test_a_claim_of_no_device_is_no_pass() -> None:
    assert kinds(claim(2 * GB, devices=()), record({"eth0": {"tx": GB}})) == ["counters-unread"]
    assert kinds(claim(2 * GB, devices=(((),),)), record({})) == ["counters-unread"]


def test_next_to_nothing_is_not_judged() -> None:
    assert kinds(claim(2**20), {}) == []
