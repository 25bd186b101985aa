"""Checks that run one program on every rank of a job."""

from __future__ import annotations

import reframe.core.runtime as rt
from reframe.core.builtins import run_after, run_before

from railgauge import systems
from railgauge.checks.base import StrictCheck
from railgauge.checks.pair import chosen_nodes
from railgauge.tools import Call


def whole_partitions(*features: str) -> list[str]:
    """The names of the partitions that have all `features`, and nodes in this session."""
    return [
        partition.name
        for partition in systems.load(rt.runtime().system.name).partitions
        if set(features) <= set(partition.features) and chosen_nodes(partition.nodes)
    ]


class RanksCheck(StrictCheck):
    """One Slurm job over all of a partition's nodes, with the same program on every rank.

    A concrete check gives its own `partition = parameter(whole_partitions(...))`, `command()` and
    `read()`.
    """

    num_tasks_per_node = 1
    #: longest time, in seconds, that the program may take
    run_limit_s = 60

    # --- for subclasses ----------------------------------------------------------------------

    def command(self) -> list[str]:
        """argv of the program."""
        raise NotImplementedError

    # --- the job -------------------------------------------------------------------------------

    @run_after("init")
    def place_on_partition(self) -> None:
        system = rt.runtime().system.name
        self.valid_systems = [f"{system}:{self.partition}"]
        self.pinned_nodes = list(chosen_nodes(systems.load(system).partition(self.partition).nodes))
        self.num_tasks = len(self.pinned_nodes) * self.num_tasks_per_node

    @run_before("run")
    def start_ranks(self) -> None:
        self.job.launcher.options += list(self.partition_data.extras.srun_options)
        self.run_on_nodes(
            "ranks",
            {
                "tool": self.tool.TOOL,
                "argv": self.command(),
                "version": self.tool.version_argv(),
                "run_limit_s": self.run_limit_s,
            },
        )

    # --- what they left ------------------------------------------------------------------------

    def calls(self) -> list[Call]:
        lines = (self.exit_line(f"rank{rank}") for rank in range(self.num_tasks))
        return [line.call for line in lines if line is not None]
