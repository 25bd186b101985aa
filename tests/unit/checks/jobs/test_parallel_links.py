"""Several ways at the same time: what a node says of all of them."""

from __future__ import annotations

from railgauge.checks.jobs.parallel_links import merged_facts


def test_what_all_nics_of_a_node_say_is_said_once() -> None:
    both = {"mtu_bytes": 9000, "device": "eth1", "sampled": ["eth1"], "kernel": "6.12"}
    merged = merged_facts({"eth1": both, "eth2": {**both, "device": "eth2", "sampled": ["eth2"]}})
    assert (merged["mtu_bytes"], merged["device"]) == (9000, "eth1+eth2")
    assert merged["sampled"] == ["eth1", "eth2"]


def test_an_mtu_that_differs_or_is_not_stated_is_told_by_nic() -> None:
    merged = merged_facts({"eth1": {"mtu_bytes": 9000}, "eth2": {"mtu_bytes": 1500}})
    assert merged["mtu_bytes"] == "9000 (eth1), 1500 (eth2)"
    merged = merged_facts({"eth1": {"mtu_bytes": 9000}, "eth2": {}})
    assert merged["mtu_bytes"] == "9000 (eth1), not stated (eth2)"


def test_counters_are_of_the_node_and_said_once() -> None:
    counters = {"bytes": {"eth1": {"tx": 1}}}
    assert merged_facts({"eth1": {"counters": counters}, "eth2": {}})["counters"] == counters


def test_a_nodes_clock_is_that_of_the_call_in_which_it_was_set() -> None:
    left, was_set = ({"moved_s": s, "watched_s": 3.0} for s in (0.001, -30.0))
    for first, second in ((left, was_set), (was_set, left)):
        merged = merged_facts({"eth1": {"clock": first}, "eth2": {"clock": second}, "eth3": {}})
        assert merged["clock"] == was_set
