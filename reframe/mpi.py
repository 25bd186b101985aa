"""Whether MPI works at all, before anything is measured with it."""

from reframe.core.builtins import parameter, run_after

from railgauge.checks import RanksCheck, simple_test, whole_partitions
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

    partition = parameter(whole_partitions("mpi"), loggable=True)

    @run_after("init")
    def expect(self):
        self.expected = {"ranks": self.num_tasks, "hosts": len(self.pinned_nodes)}

    def command(self):
        return mpi_world.argv()

    def read(self):
        calls = self.calls()
        outputs = {call.rank: self.output(call.role) for call in calls}
        return mpi_world.read(outputs, calls, mpi_world.Options(self.num_tasks)), calls
