"""The fabric between the nodes: how evenly its uplinks share what goes over them."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.tcp.fabric_balance import FabricCases, FabricCheck


@simple_test
class FabricBalance(FabricCheck):
    """iperf2 between all nodes at once, to nodes of other leaves.

    Good is: the uplinks of every leaf carried about as much as each other, both ways: Jain's index
    of the least even ones at the reference, by the switches' own counters. Next to it stands what
    all nodes sent together, which `railgauge balance` compares by the leaves' modes.
    """

    descr = "how evenly the uplinks of a leaf share the traffic"
    tags = {"tcp", "fabric", "acceptance"}
    metrics = ["jain_index", "bandwidth"]
    gating = ("jain_index",)

    cases = FabricCases()
    sweep = parameter(cases.sweeps, loggable=True)
