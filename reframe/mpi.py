"""Whether MPI works at all, and how it fares next to a transfer."""

from reframe.core.builtins import parameter, run_after

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.mpi_job import RanksCheck, WholePartitions
from railgauge.checks.mpi.mpi_under_load import MpiBesideCheck, MpiCases
from railgauge.tools import mpi_world


@simple_test
class MpiWorld(RanksCheck):
    """One rank a node, started as the system starts MPI.

    Good is: all ranks in one world. Where srun has no usable PMIx every rank is a world of its
    own, and each would print a plausible result.
    """

    descr = "one MPI world over all nodes"
    tags = {"mpi", "acceptance"}
    tool = mpi_world
    metrics = ["startup"]
    expected_seconds = 3

    cases = WholePartitions("mpi")
    # ReFrame logs the partition of every case by itself, under this very name.
    partition = parameter(cases, loggable=False)

    @run_after("init")
    def expect(self):
        self.expected = {"ranks": self.num_tasks, "hosts": len(self.pinned_nodes)}

    def command(self):
        return mpi_world.argv()

    def reading(self, calls):
        outputs = {call.rank: self.output(call.role) for call in calls}
        return mpi_world.read(outputs, calls, mpi_world.Options(self.num_tasks))


@simple_test
class MpiBesideTransfer(MpiBesideCheck):
    """An MPI program between two nodes, alone and while iperf2 runs between them.

    Good is: one world each time, a transfer that lasts as long as the program, and both times at
    the reference. With several settings of the transfer, ratios show what tuning does to MPI.
    """

    descr = "an MPI program next to a transfer"
    tags = {"mpi", "tcp", "acceptance"}

    # The transfer's own numbers, disturbed on purpose, are a condition.
    gating = ("mpi_time",)

    cases = MpiCases()
    pair = parameter(cases, loggable=True)
