"""The nodes of a job, as host lists that Linux takes as one argument."""

from __future__ import annotations

from railgauge.node.orchestration.conductor import launch_argv
from railgauge.node.orchestration.sweep_file import Sweep
from railgauge.node.system import slurm_job
from railgauge.slurm.nodes import fold

#: Of one argument or variable: 32 pages (MAX_ARG_STRLEN, execve(2)).
MOST_BYTES = 131_072

#: 28 characters each.
MANY = [f"dgx-h100-su{n // 32:04d}-node-{n:07d}" for n in range(4608)]


def test_agents_are_started_again_on_most_of_thousands_of_nodes() -> None:
    orders = Sweep("probe", tuple(MANY), {}, (), [], {}, (), connect_limit_s=60.0)
    argv = launch_argv(orders, "sweep.json", MANY[1:])
    assert max(len(word) for word in argv) < MOST_BYTES


def test_the_environment_of_most_of_thousands_of_nodes_is_short_enough() -> None:
    (value,) = slurm_job.as_if_of(MANY[1:], MANY).values()
    assert len(value) < MOST_BYTES


def test_every_second_node_may_be_lost() -> None:
    assert len(fold(MANY[::2])) < MOST_BYTES
