"""Logical NICs of two nodes over TCP: one by one, those of a cable, all together.

Each with every setting of the system's description, so that what tuning does is a ratio of one
campaign: the kernel's own choice of buffers and congestion control against a setting's.
"""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.tcp.nics import PROGRAMS, NicCases, nics_run
from railgauge.tools import iperf2

NUMBERS = ["bandwidth", "stream_bandwidth_min"]


@simple_test
class NicPair(SweepCheck):
    """iperf2 over one logical NIC between neighbouring nodes.

    Good is: all of it went over that NIC, and the bandwidth is at the reference.
    """

    descr = "TCP over one logical NIC"
    tags = {"tcp", "nics", "acceptance"}
    tool = iperf2
    programs = PROGRAMS
    metrics = NUMBERS
    gating = ("bandwidth",)

    cases = NicCases("nic")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return nics_run(place, partition)


@simple_test
class CablePair(SweepCheck):
    """iperf2 over all logical NICs of one cable at the same time.

    Good is: the sum at the reference, no NIC far behind its peers, Jain's index near 1.
    """

    descr = "TCP over the logical NICs of one cable at once"
    tags = {"tcp", "nics", "acceptance"}
    tool = iperf2
    programs = PROGRAMS
    metrics = [*NUMBERS, "jain_index"]
    gating = ("bandwidth", "jain_index")

    cases = NicCases("cable")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return nics_run(place, partition)


@simple_test
class NicsTogether(SweepCheck):
    """iperf2 over all logical NICs of all cables at the same time.

    Good is: the sum at the reference, no NIC far behind its peers, Jain's index near 1.
    """

    descr = "TCP over all logical NICs at once"
    tags = {"tcp", "nics", "acceptance"}
    tool = iperf2
    programs = PROGRAMS
    metrics = [*NUMBERS, "jain_index"]
    gating = ("bandwidth", "jain_index")

    cases = NicCases("all")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return nics_run(place, partition)
