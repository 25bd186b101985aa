"""The lab's own references: bounds that find what they are for."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from railgauge import paths, systems
from railgauge.checks.framework.protections import beyond_budgets

#: Of a segment: the headers of IPv4 and TCP, with time stamps.
_HEADERS = 52

#: Of a run of Iperf2Pair.
_SECONDS = 3


def test_a_port_that_loses_one_percent_exceeds_the_bound_of_retransmits() -> None:
    """The drills switch-port-loss show it on real links: 710 to 928 segments."""
    (extras,) = [p.extras for p in systems.load("lab").partitions if p.name == "ns"]
    assert extras.link_gbits and extras.mtu_bytes
    sent = extras.link_gbits * 1e9 / 8 * _SECONDS / (extras.mtu_bytes - _HEADERS)
    document = YAML(typ="safe").load((paths.HOME / "results/references/lab.yaml").read_text())
    (bound,) = [
        entry["metrics"]["retransmits"]["value"]
        for entry in document["references"]
        if entry["check"] == "Iperf2Pair" and entry["partition"] == "ns"
    ]
    assert 0.004 * sent < bound < 0.006 * sent


@pytest.mark.parametrize(("events", "fails"), [(0, False), (3, True), (8, True)])
def test_a_vm_port_that_loses_five_percent_exceeds_the_bound_of_its_counter(
    events: int, fails: bool
) -> None:
    """The drill lossy-vm, 2026-11-28: 3 to 8 gaps in 400 to 800 packets, and none on 140 healthy
    ways.
    """
    (extras,) = [p.extras for p in systems.load("lab").partitions if p.name == "vm"]
    counted = {"rdma/rxe0/1/hw_counters/out_of_seq_request": events}
    seen = {"n5": {"counters": {"counters": counted}}, "n6": {}}
    failures = list(beyond_budgets(seen, extras.counters))
    assert [failure.kind for failure in failures] == ["counter"] * fails
    assert not any(failure.nodes for failure in failures)
