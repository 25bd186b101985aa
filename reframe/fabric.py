"""The fabric between the nodes: how evenly its uplinks share what goes over them."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.tcp.fabric_balance import FabricCases, balance_run
from railgauge.tools import iperf2


@simple_test
class FabricBalance(SweepCheck):
    """iperf2 between all nodes at once, to nodes of other leaves.

    Good is: the uplinks of every leaf carried about as much as each other, both ways: Jain's index
    of the least even ones at the reference, by the switches' own counters. Next to it stands what
    all nodes sent together, which `railgauge balance` compares by the leaves' modes.
    """

    descr = "how evenly the uplinks of a leaf share the traffic"
    tags = {"tcp", "fabric", "acceptance"}
    tool = iperf2
    programs = Programs(iperf2)
    metrics = ["jain_index", "bandwidth"]
    gating = ("jain_index",)

    cases = FabricCases()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return balance_run(place, partition, self.metrics)
