"""Whether MPI starts as the checks of a partition start it: one world, a rank on each node."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shlex
import time
from collections.abc import Collection, Sequence

from railgauge import paths
from railgauge.cluster.look import allocating, environment, prepared, run
from railgauge.slurm import ends
from railgauge.slurm.ends import EnvironmentTrouble
from railgauge.systems import Partition
from railgauge.tools import ParseError, mpi_world

_WORLD = re.compile(r"^world of [0-9]+: rank [0-9]+ on \S+$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Start:
    """What a start of MPI came to: the ranks that spoke, and srun's end (None: it was ended)."""

    nodes: tuple[str, ...]
    options: Sequence[str]
    ranks: Sequence[mpi_world.Member]
    stderr: str
    exit_code: int | None
    seconds: float

    @property
    def whole(self) -> bool:
        sizes = {rank.world_size for rank in self.ranks}
        expected = len(self.nodes)
        return len(self.ranks) == expected and sizes == {expected} and self.exit_code == 0

    @property
    def trouble(self) -> EnvironmentTrouble | None:
        """Why MPI can start on no nodes; None where it did, or where the reason is not known."""
        if self.whole:
            return None
        trouble = ends.environment_trouble(self.stderr)
        if trouble is None and self.ranks and {rank.world_size for rank in self.ranks} == {1}:
            options = " ".join(self.options) or "no launch_options"
            words = f"every rank is a world of its own: {options} give MPI no launcher"
            return EnvironmentTrouble(words, ends.MPI_STEP)
        return trouble


def can_be_started(partition: Partition, nodes: Collection[str]) -> bool:
    """Outside of a job, by srun; mpirun starts only within one."""
    launcher = partition.model_dump().get("launcher")
    return "mpi" in partition.features and launcher == "srun" and len(nodes) >= 2


def start(
    system: str, partition: Partition, nodes: Sequence[str], more: Sequence[str] = ()
) -> Start:
    """Start one rank on each of `nodes`, which are idle; `more` are options of all jobs.

    PrerequisiteError where there is no srun.
    """
    name = f"railgauge-look-mpi-{time.time_ns()}"
    words = [f"PYTHONPATH={shlex.quote(str(paths.SOURCE))}", *mpi_world.argv()]
    shell = f"{prepared(system, partition)}\nexec env {' '.join(words)}"
    options = partition.extras.launch_options
    command = [*allocating(partition, nodes, name, more), *options, "bash", "-c", shell]
    began = time.monotonic()
    stdout, stderr, code = run(command, environment(), name)
    seconds = time.monotonic() - began
    ranks = []
    for line in _WORLD.findall(stdout):
        with contextlib.suppress(ParseError):
            ranks.append(mpi_world.parse(f"{line}\n"))
    return Start(tuple(sorted(nodes)), options, ranks, stderr, code, seconds)
