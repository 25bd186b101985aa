"""The InfiniBand subnet between the nodes, as its own management sees it."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.preflight.infiniband_fabric import (
    FirstReadingCheck,
    InfinibandCases,
    SecondReadingCheck,
)


@simple_test
class InfinibandFabric(FirstReadingCheck):
    """Cables, links, ports and routes of the subnet, read by one node before all else.

    Good is: every node has its HCAs in the subnet, each link has the width and speed that both of
    its ends can do, and the cables are as `subnet.json` of the system says, where there is one.
    """

    descr = "the InfiniBand subnet is as it should be"
    tags = {"preflight", "infiniband", "acceptance"}

    cases = InfinibandCases()
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class InfinibandCounters(SecondReadingCheck):
    """The same subnet, read again after all else.

    Good is: no cable or link has changed since InfinibandFabric, and no error counter has grown by
    more than the system's description allows.
    """

    descr = "the InfiniBand subnet counted no errors meanwhile"
    tags = {"infiniband", "acceptance"}

    cases = InfinibandCases()
    sweep = parameter(cases.sweeps, loggable=True)
