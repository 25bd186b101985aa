"""The lab's own references: bounds that find what they are for."""

from __future__ import annotations

from ruamel.yaml import YAML

from railgauge import paths, systems

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
