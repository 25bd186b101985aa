"""Shapers of the lab's links: their rate, and how much they let through at once."""

from __future__ import annotations

import pytest

from railgauge.lab import network


def shaped(gbits: float, mtu: int) -> dict[str, int]:
    """tbf's arguments by name: bits per second, and bytes."""
    words = network.shaper(gbits, mtu).split()
    return {name: int(value) for name, value in zip(words[2::2], words[3::2], strict=True)}


@pytest.mark.parametrize("mtu", [1500, 4200, 9000])
def test_rate_is_that_of_the_bytes_that_tbf_counts(mtu: int) -> None:
    # Of a full frame it does not see 4 bytes of FCS, 8 of preamble and 12 of gap.
    assert shaped(10, mtu)["rate"] == round(10e9 * (mtu + 14) / (mtu + 14 + 24))


@pytest.mark.parametrize("gbits", [0.01, 0.1, 1, 10])
def test_bucket_holds_what_the_kernel_hands_over_at_once(gbits: float) -> None:
    # 64 KiB of payload in segments of 1448 bytes, each with 66 bytes of headers.
    assert shaped(gbits, 1500)["burst"] >= 65536 + 46 * 66


@pytest.mark.parametrize("gbits", [0.1, 1, 10])
def test_bucket_adds_less_to_two_seconds_than_a_limit_tolerates(gbits: float) -> None:
    wanted = shaped(gbits, 4200)
    assert wanted["burst"] * 8 / wanted["rate"] / 2 < 0.005


@pytest.mark.parametrize("gbits", [0.01, 0.1, 1, 10])
def test_queue_is_longer_than_the_bucket(gbits: float) -> None:
    assert shaped(gbits, 4200)["limit"] > shaped(gbits, 4200)["burst"]


#: `nft --json list ruleset` (1.0.6) of a leaf with a lossy uplink.
RULES = """\
{"nftables": [{"metainfo": {"version": "1.0.6", "release_name": "Lester Gooch #5",
 "json_schema_version": 1}},
{"table": {"family": "netdev", "name": "loss_spine2", "handle": 1}},
{"chain": {"family": "netdev", "table": "loss_spine2", "name": "arriving", "handle": 1,
 "type": "filter", "hook": "ingress", "prio": 0, "policy": "accept"}},
{"rule": {"family": "netdev", "table": "loss_spine2", "chain": "arriving", "handle": 2, "expr": [
 {"match": {"op": "<", "left": {"numgen": {"mode": "random", "mod": 1000000, "offset": 0}},
  "right": 200000}}, {"counter": {"packets": 71, "bytes": 98304}}, {"drop": null}]}},
{"rule": {"family": "ip", "table": "spread", "chain": "arriving", "handle": 5, "expr": [
 {"counter": {"packets": 5, "bytes": 9}}, "notrack"]}}]}
"""


def test_lost_packets_are_counted_by_the_table_of_their_device() -> None:
    assert network.lost_by_table(RULES) == {"loss_spine2": 71, "spread": 5}
    assert network.lost_by_table('{"nftables": []}') == {}
