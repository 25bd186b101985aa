"""What must be so before anything is worth measuring."""

import dataclasses

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.preflight import inventory_state
from railgauge.checks.preflight.node_state import (
    ASPECTS,
    GpuNodeCases,
    NodeStateCases,
    first_readings,
    judge_again,
    state_run,
)
from railgauge.checks.rdma.rail import (
    PROGRAMS,
    RailPreconditions,
    RailProbes,
    ask,
    perftest_run,
    tuning_of,
    with_floor,
)
from railgauge.tools import perftest


@simple_test
class NodeState(SweepCheck):
    """Firmware, tuning, rails and bond of every node, as its inventory has them.

    Good is: as many RDMA devices as the node has rails, each active, with the link layer, rate and
    active MTU that its system's data expects, a GID to use, and memory that may be locked; a bond
    in its mode with all its links; every entry of the system's expected.yaml holds. The verdict
    also judges whether the nodes of a partition agree in firmware and tuning. On a node where rails
    or bond fail, no check over them runs; where an entry fails, NCCL does not run.
    """

    descr = "firmware, tuning, rails and bond of one node are as they should be"
    tags = {"preflight", "acceptance"}
    tool = inventory_state
    metrics = list(ASPECTS.values())

    cases = NodeStateCases()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return state_run(place, partition)


@simple_test
class GpuCounters(SweepCheck):
    """The state of every node with GPUs once more, after all else.

    Good is: all that NodeState expects still holds, and since NodeState no GPU has counted errors
    of its memory, its NVLinks or its PCIe link, a slowdown for heat or power, or an Xid that is not
    a program's own.
    """

    descr = "no GPU of one node counted errors meanwhile"
    tags = {"gpu", "acceptance"}
    tool = inventory_state
    metrics = list(ASPECTS.values())
    turn = 1

    cases = GpuNodeCases()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return dataclasses.replace(state_run(place, partition), judge=judge_again)

    def judge_whole(self, left):
        return first_readings(left)


@simple_test
class RailProbe(SweepCheck):
    """ib_write_bw for some seconds over every rail of neighbouring nodes.

    Good is: most of what the link can carry, or a stored floor where its rate is not known. It
    finds the rail that is up, at full rate, without an error, and slow; what else would cross that
    rail does not run then.
    """

    descr = "a rail between two nodes carries what its link can"
    tags = {"preflight", "rdma", "acceptance"}
    tool = perftest
    programs = PROGRAMS
    preconditions = RailPreconditions(probed=False)
    metrics = ["bandwidth_65536B"]

    cases = RailProbes()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        seconds = tuning_of(partition).probe_s
        how = {"size_bytes": 64 * 1024, "duration_s": seconds}
        options = ask(partition, "write", "bw", **how)
        return with_floor(perftest_run(place, partition, options, self.metrics))

    @classmethod
    def unstated(cls, extras):
        if extras.rdma is None:
            return None
        return ["rdma.line_gbits"] if extras.rdma.line_gbits is None else []
