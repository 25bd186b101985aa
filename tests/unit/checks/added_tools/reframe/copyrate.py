"""A toy check of one node."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.single_node import NodeCases, NodeRun
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.tools import copyrate


@simple_test
class CopyNode(SweepCheck):
    """copyrate on every node. Good is: the rate at the reference."""

    descr = "copies within a node"
    tags = {"acceptance"}
    tool = copyrate
    metrics = ["copy_bandwidth"]

    cases = NodeCases("copies")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        options = copyrate.Options(size_mib=64)
        return NodeRun(
            place=place,
            partition=partition,
            tool=copyrate,
            options=options,
            command=copyrate.argv(options),
            version=copyrate.version_argv(),
        )
