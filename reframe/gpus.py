"""The links of GPUs, in a node and between nodes, below any collective."""

from reframe.core.builtins import parameter

from railgauge.checks.collectives.gpu_domains import GpuDomainCases, GpuDomainPrograms, domain_run
from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.group_launches import GroupLaunches
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.preflight.gpu_links import (
    GpuLinksCases,
    GpuLinksPrograms,
    copies_run,
    tool_of,
)
from railgauge.checks.preflight.node_state import StatePreconditions
from railgauge.tools import nvbandwidth


@simple_test
class GpuLinks(SweepCheck):
    """nvbandwidth on every node: from and to the host, and between all pairs of GPUs, both as reads
    and as writes.

    Good is: every cell of the matrices at the reference, or at its share of what PCIe and NVLink
    can carry, none far below the others, and each PCIe link at full speed and width under load.
    One slow row or column names a GPU, one slow cell a link.
    """

    descr = "copies to, from and between the GPUs of one node"
    tags = {"gpu", "acceptance"}
    gating = ("copy_bandwidth_min",)
    programs = GpuLinksPrograms()
    preconditions = StatePreconditions()

    cases = GpuLinksCases()
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def tool(self):
        return tool_of(self.partition_data)

    def run_at(self, place, partition):
        return copies_run(place, partition)


@simple_test
class GpuDomain(SweepCheck):
    """nvbandwidth's tests of several nodes, a process a GPU, over neighbours in an NVLink domain,
    around the ring.

    Good is: a process on each GPU of both nodes, every cell of the matrices at the reference, none
    far below the others, and copies between the nodes as fast as those within.
    """

    descr = "copies between the GPUs of two nodes of an NVLink domain"
    tags = {"gpu", "acceptance"}
    tool = nvbandwidth
    driver = GroupLaunches()
    gating = ("copy_bandwidth_min",)
    programs = GpuDomainPrograms()
    preconditions = StatePreconditions()

    cases = GpuDomainCases()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return domain_run(place, partition)
