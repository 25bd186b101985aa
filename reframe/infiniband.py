"""The InfiniBand subnet between the nodes, as its own management sees it."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.preflight.infiniband_fabric import InfinibandCases, InfinibandCheck


@simple_test
class InfinibandFabric(InfinibandCheck):
    """Cables, links, ports, routes and error counters of the subnet, read by one node.

    Good is: every node has its HCAs in the subnet at the width and speed that both ends of a link
    can do, and what is cabled is as `subnet.json` of the system says, where there is one. The
    outputs are kept, so that error counters can be compared with a later reading.
    """

    descr = "the InfiniBand subnet is as it should be"
    tags = {"preflight", "infiniband", "acceptance"}

    cases = InfinibandCases()
    sweep = parameter(cases.sweeps, loggable=True)
