"""A toy check of a group of nodes."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.cases import Cases, GroupCase, chosen_nodes
from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.group_launches import LaunchCheck
from railgauge.node.orders.ranks import TableOrder
from railgauge.tools import ringsum


class Halves(Cases[GroupCase]):
    """The two halves of a partition."""

    def on(self, partition):
        nodes = chosen_nodes(partition.nodes)
        middle = len(nodes) // 2
        halves = (nodes[:middle], nodes[middle:])
        return [GroupCase(partition.name, "sum", "default", half) for half in halves]

    def node_counts(self, partition):
        return range(1, len(partition.nodes) + 1)


@simple_test
class RingSum(LaunchCheck):
    """ringsum over each half of the partition. Good is: the rate at the reference."""

    descr = "a sum over a group of nodes"
    tags = {"acceptance"}
    tool = ringsum
    table = TableOrder(ringsum.COLUMN, ("busbw",), wrong=ringsum.WRONG, end=ringsum.END)
    metrics = ["busbw_1048576B"]
    ranks_per_node = 2

    cases = Halves("rings")
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        return ringsum.Options(ranks=self.ranks, size_bytes=2**20)

    def command(self):
        return ringsum.argv(self.options)

    def expected_run_s(self):
        return 5

    def run_limit_s(self):
        return 60
