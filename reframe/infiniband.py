"""The InfiniBand subnet between the nodes, as its own management sees it."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.preflight import subnet_state
from railgauge.checks.preflight.infiniband_fabric import (
    InfinibandCases,
    find_changes,
    find_unexpected,
    judge_subnet,
    subnet_run,
)


@simple_test
class InfinibandFabric(SweepCheck):
    """Cables, links, ports and routes of the subnet, read by one node before all else.

    Good is: every node has its HCAs in the subnet, each link has the width and speed that both of
    its ends can do, and the cables are as `subnet.json` of the system says, where there is one.
    """

    descr = "the InfiniBand subnet is as it should be"
    tags = {"preflight", "infiniband", "acceptance"}
    tool = subnet_state
    metrics = ["links"]
    turn = -1

    cases = InfinibandCases()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return subnet_run(place, partition, self.pinned_nodes)

    def judge_whole(self, left):
        return judge_subnet(left, find_unexpected)


@simple_test
class InfinibandCounters(SweepCheck):
    """The same subnet, read again after all else.

    Good is: no cable or link has changed since InfinibandFabric, and no error counter has grown by
    more than the system's description allows.
    """

    descr = "the InfiniBand subnet counted no errors meanwhile"
    tags = {"infiniband", "acceptance"}
    tool = subnet_state
    metrics = ["links"]
    turn = 1

    cases = InfinibandCases()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return subnet_run(place, partition, self.pinned_nodes)

    def judge_whole(self, left):
        return judge_subnet(left, find_changes)
