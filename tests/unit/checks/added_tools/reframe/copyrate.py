"""A toy check of one node."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.single_node import NodeCases, NodeCheck
from railgauge.tools import copyrate


@simple_test
class CopyNode(NodeCheck):
    """copyrate on every node. Good is: the rate at the reference."""

    descr = "copies within a node"
    tags = {"acceptance"}
    tool = copyrate
    metrics = ["copy_bandwidth"]

    cases = NodeCases("copies")
    sweep = parameter(cases.sweeps, loggable=True)
    options = copyrate.Options(size_mib=64)

    def command(self):
        return copyrate.argv(self.options)
