"""NCCL's collectives, by nccl-tests: within a node, between two, over a segment, over all.

At each scale the operations of the system's description run with NCCL's own choice of transport;
all_reduce also with each other one that the partition has (MNNVL forced on, MNNVL off, one HCA,
sockets), so that every way between the nodes has its own number. Messages from 8 bytes up.

Good is, for each: all ranks in one world on the nodes asked for, every size there and its values
right, the transport and the rails that were asked for, and the largest message at the reference,
out of place and in place. All sizes are recorded; the smallest gives the latency.
"""

from reframe.core.builtins import parameter

from railgauge.checks.collectives.nccl import NcclCheck, NcclPrograms
from railgauge.checks.collectives.nccl_cases import NcclCases
from railgauge.checks.framework.check import simple_test


@simple_test
class NcclNode(NcclCheck):
    """All GPUs of one node: NVLink and its switches, or PCIe."""

    descr = "NCCL within a node"
    tags = {"nccl", "gpu", "acceptance"}
    scale = "node"
    programs = NcclPrograms("node")

    cases = NcclCases("node")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class NcclPair(NcclCheck):
    """Two neighbours, around the ring: a bad node or rail shows in two of them."""

    descr = "NCCL between two nodes"
    tags = {"nccl", "gpu", "acceptance"}
    scale = "pair"
    programs = NcclPrograms("pair")

    cases = NcclCases("pair")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class NcclSegment(NcclCheck):
    """All nodes of a rack or scalable unit: its NVLink domain, or its leaf switches."""

    descr = "NCCL within a segment"
    tags = {"nccl", "gpu", "acceptance"}
    scale = "segment"
    programs = NcclPrograms("segment")

    cases = NcclCases("segment")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class NcclAll(NcclCheck):
    """All nodes of the partition: the spine is in it."""

    descr = "NCCL over all nodes"
    tags = {"nccl", "gpu", "acceptance"}
    scale = "all"
    programs = NcclPrograms("all")

    cases = NcclCases("all")
    sweep = parameter(cases.sweeps, loggable=True)
