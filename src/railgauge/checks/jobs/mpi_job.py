"""Checks that run one program on every rank of a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reframe.core.builtins import run_after, run_before

from railgauge.checks.framework.cases import Case, Cases, PartitionCase, chosen_nodes
from railgauge.checks.framework.check import StrictCheck
from railgauge.checks.framework.observation import ExitLine, Observation
from railgauge.model.call import Call
from railgauge.node.orders.ranks import RanksOrder
from railgauge.systems import Partition
from railgauge.tools import Reading


class WholePartitions(Cases[PartitionCase]):
    """The partitions that have the features given, and nodes in this session."""

    grows = True

    def on(self, partition: Partition) -> Iterable[PartitionCase]:
        nodes = chosen_nodes(partition.nodes)
        return [PartitionCase(partition.name, nodes)] if nodes else []

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return range(1, len(partition.nodes) + 1)


class RanksCheck(StrictCheck):
    """One Slurm job with the same program on every rank, by default on all of a partition's nodes.

    A concrete check gives its own `cases = WholePartitions(...)` and
    `partition = parameter(cases, loggable=False)` (ReFrame logs a column of that name by itself,
    and takes text alone), `command()` and `reading()`.
    """

    partition: PartitionCase
    num_tasks_per_node = 1

    # --- for subclasses ----------------------------------------------------------------------

    @property
    def target(self) -> Case:
        return self.partition

    def command(self) -> list[str]:
        """The argv of the program; nodes fill in {rank} and {scratch}, a folder of their own."""
        raise NotImplementedError

    def reading(self, calls: Sequence[Call]) -> Reading:
        """The reading of the ranks' outputs."""
        raise NotImplementedError

    def run_limit_s(self) -> int:
        """The longest time that the program may take."""
        return 60

    def order(self) -> RanksOrder:
        """The order of every rank."""
        return RanksOrder(
            rank_variable=self.rank_variable,
            tool=str(self.tool.TOOL),
            argv=tuple(self.command()),
            version=tuple(self.tool.version_argv()),
            run_limit_s=self.run_limit_s(),
        )

    # --- the job -------------------------------------------------------------------------------

    @run_after("init")
    def count_ranks(self) -> None:
        self.num_tasks = len(self.pinned_nodes) * self.num_tasks_per_node

    @run_before("run")
    def start_ranks(self) -> None:
        self.job.launcher.options += list(self.partition_data.extras.launch_options)
        self.run_on_nodes("runners.mpi_ranks", "ranks.json", self.order())

    # --- what they left ------------------------------------------------------------------------

    def exit_lines(self) -> list[ExitLine]:
        """The exit lines in the order of the ranks."""
        lines = (self.exit_line(f"rank{rank}") for rank in range(self.num_tasks))
        return [line for line in lines if line is not None]

    def read(self) -> Observation:
        lines = self.exit_lines()
        calls = [line.call for line in lines]
        return Observation(
            self.reading(calls), calls, {line.call.host: line.facts for line in lines}
        )
