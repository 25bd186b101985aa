"""TCP over long ways, and over bonds."""

from reframe.core.builtins import parameter, variable

from railgauge.checks.framework.check import simple_test
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.pairs import RingPairs
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.preflight.node_state import LinkPreconditions
from railgauge.checks.tcp.long_distance import (
    WAN_PROGRAMS,
    WanCases,
    bond_run,
    wan_run,
)
from railgauge.tools import iperf2


@simple_test
class WanTcp(SweepCheck):
    """iperf2 with one stream over round trips of several lengths, by buffer and congestion control.

    Good is: the round trip as long as asked for, the bandwidth at the reference; next to it stands
    what one window per round trip allows, and how long it took to a stable rate.
    """

    descr = "one TCP stream over a long way"
    tags = {"tcp", "wan", "acceptance"}
    tool = iperf2
    programs = WAN_PROGRAMS
    metrics = ["bandwidth", "rtt", "time_to_stable"]
    # The round trip is a condition, and judged as one.
    gating = ("bandwidth",)

    cases = WanCases()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return wan_run(place, partition)


@simple_test
class BondPair(SweepCheck):
    """iperf2 with many streams over a bond.

    Good is: the sum of all links, and Jain's index of what each carried near 1.
    """

    descr = "many TCP streams over a bond between two nodes"
    tags = {"tcp", "bond", "acceptance"}
    tool = iperf2
    programs = Programs(iperf2)
    preconditions = LinkPreconditions()
    metrics = ["bandwidth", "jain_index"]
    gating = ("bandwidth", "jain_index")

    cases = RingPairs("bond")
    sweep = parameter(cases.sweeps, loggable=True)
    duration_s = variable(int, value=4, loggable=True)

    def run_at(self, place, partition):
        return bond_run(place, partition, self.duration_s)
