"""`railgauge system new --detect` on the embedded cluster's nodes, which no system describes."""

from __future__ import annotations

import pytest

from railgauge import systems
from railgauge.cli.system import system as commands
from tests.command_line import invoke

pytestmark = pytest.mark.release


def test_a_plain_cluster_is_described_by_its_nodes(login_node: None) -> None:
    words = ["new", "mine", "--like", "tcp", "--detect", "--partition", "ns"]
    answer = invoke(commands, words)
    assert answer.exit_code == 0, answer.exception
    extras = systems.load("mine").partition("ns").extras
    assert (extras.nodes, extras.mtu_bytes, extras.link_gbits) == ("n[1-4]", 4200, None)
    # A veth says 10 Gb/s, whatever it is shaped to.
    assert "link_gbits is open: eth0 is virtual" in answer.output
