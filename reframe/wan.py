"""TCP over long ways, and over bonds."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.client_server import RingPairs
from railgauge.checks.tcp.long_distance import BondCheck, WanCases, WanCheck


@simple_test
class WanTcp(WanCheck):
    """iperf2 with one stream over round trips of several lengths, by buffer and congestion control.

    Good is: the round trip as long as asked for, the bandwidth at the reference; beside it stands
    what one window per round trip allows, and how long it took to a stable rate.
    """

    descr = "one TCP stream over a long way"
    tags = {"tcp", "wan", "acceptance"}
    # The round trip is a condition, and judged as one.
    gating = ("bandwidth",)

    cases = WanCases()
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class BondPair(BondCheck):
    """iperf2 with many streams over a bond.

    Good is: the sum of all links, and Jain's index of what each carried near 1.
    """

    descr = "many TCP streams over a bond between two nodes"
    tags = {"tcp", "bond", "acceptance"}
    gating = ("bandwidth", "jain_index")

    cases = RingPairs("bond")
    sweep = parameter(cases.sweeps, loggable=True)
