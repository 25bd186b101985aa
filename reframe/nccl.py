"""NCCL's collectives, by nccl-tests: within a node, between two, over a segment, over all.

At each scale the operations of the system's description run with NCCL's own choice of transport;
all_reduce also with each other one that the partition has (MNNVL forced on, MNNVL off, one HCA,
sockets), so that every way between the nodes has its own number. Messages from 8 bytes up.

Good is, for each: all ranks in one world on the nodes asked for, every size there and its values
right, the transport and the rails that were asked for, and the largest message at the reference,
out of place and in place. All sizes are recorded; the smallest gives the latency.
"""

from reframe.core.builtins import parameter

from railgauge.checks.collectives.nccl import LAUNCHES, GroupPreconditions, NcclPrograms, nccl_run
from railgauge.checks.collectives.nccl_cases import NcclCases
from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.tools import nccl_tests


@simple_test
class NcclNode(SweepCheck):
    """All GPUs of one node: NVLink and its switches, or PCIe."""

    descr = "NCCL within a node"
    tags = {"nccl", "gpu", "acceptance"}
    tool = nccl_tests
    driver = LAUNCHES
    programs = NcclPrograms("node")
    preconditions = GroupPreconditions()

    cases = NcclCases("node")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return nccl_run(place, partition, "node")


@simple_test
class NcclPair(SweepCheck):
    """Two neighbours, around the ring: a bad node or rail shows in two of them."""

    descr = "NCCL between two nodes"
    tags = {"nccl", "gpu", "acceptance"}
    tool = nccl_tests
    driver = LAUNCHES
    programs = NcclPrograms("pair")
    preconditions = GroupPreconditions()

    cases = NcclCases("pair")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return nccl_run(place, partition, "pair")


@simple_test
class NcclSegment(SweepCheck):
    """All nodes of a rack or scalable unit: its NVLink domain, or its leaf switches."""

    descr = "NCCL within a segment"
    tags = {"nccl", "gpu", "acceptance"}
    tool = nccl_tests
    driver = LAUNCHES
    programs = NcclPrograms("segment")
    preconditions = GroupPreconditions()

    cases = NcclCases("segment")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return nccl_run(place, partition, "segment")


@simple_test
class NcclAll(SweepCheck):
    """All nodes of the partition: the spine is in it."""

    descr = "NCCL over all nodes"
    tags = {"nccl", "gpu", "acceptance"}
    tool = nccl_tests
    driver = LAUNCHES
    programs = NcclPrograms("all")
    preconditions = GroupPreconditions()

    cases = NcclCases("all")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return nccl_run(place, partition, "all")
