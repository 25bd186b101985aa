"""The links of GPUs, in a node and between nodes, below any collective."""

from reframe.core.builtins import parameter

from railgauge.checks.collectives.gpu_domains import GpuDomainCases, GpuDomainCheck
from railgauge.checks.framework.check import simple_test
from railgauge.checks.preflight.gpu_links import GpuLinksCases, GpuLinksCheck


@simple_test
class GpuLinks(GpuLinksCheck):
    """nvbandwidth on every node: from and to the host, and between all pairs of GPUs, both as reads
    and as writes.

    Good is: every cell of the matrices at the reference, or at its share of what PCIe and NVLink
    can carry, none far below the others, and each PCIe link at full speed and width under load.
    One slow row or column names a GPU, one slow cell a link.
    """

    descr = "copies to, from and between the GPUs of one node"
    tags = {"gpu", "acceptance"}

    cases = GpuLinksCases()
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class GpuDomain(GpuDomainCheck):
    """nvbandwidth's tests of several nodes, a process a GPU, over neighbours in an NVLink domain,
    around the ring.

    Good is: a process on each GPU of both nodes, every cell of the matrices at the reference, none
    far below the others, and copies between the nodes as fast as those within.
    """

    descr = "copies between the GPUs of two nodes of an NVLink domain"
    tags = {"gpu", "acceptance"}

    cases = GpuDomainCases()
    sweep = parameter(cases.sweeps, loggable=True)
