"""The links of a node's GPUs, below any collective."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.preflight.gpu_links import GpuLinksCases, GpuLinksPrograms, copies_run
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
    tool = nvbandwidth
    gating = ("copy_bandwidth_min",)
    programs = GpuLinksPrograms()
    preconditions = StatePreconditions()

    cases = GpuLinksCases()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return copies_run(place, partition)
