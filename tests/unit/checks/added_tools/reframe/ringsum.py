"""A toy check of a group of nodes."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.cases import Cases, GroupCase, chosen_nodes
from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.group_launches import GroupLaunches, GroupRun
from railgauge.checks.jobs.sweep import SweepCheck
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
class RingSum(SweepCheck):
    """ringsum over each half of the partition. Good is: the rate at the reference."""

    descr = "a sum over a group of nodes"
    tags = {"acceptance"}
    tool = ringsum
    driver = GroupLaunches()
    metrics = ["busbw_1048576B"]

    cases = Halves("rings")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        options = ringsum.Options(ranks=2 * len(place.nodes), size_bytes=2**20)
        return GroupRun(
            place=place,
            partition=partition,
            tool=ringsum,
            options=options,
            command=ringsum.argv(options),
            table=TableOrder(ringsum.COLUMN, ("busbw",), wrong=ringsum.WRONG, end=ringsum.END),
            ranks_per_node=2,
            expected_run_s=5,
            run_limit_s=60,
        )
