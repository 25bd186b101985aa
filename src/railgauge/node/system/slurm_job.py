"""The nodes of the Slurm job that this runs in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Sequence

from railgauge.slurm.nodes import fold

#: Limit of scontrol, which asks no other machine for this.
_LIMIT_S = 30.0


def nodes() -> list[str]:
    """In Slurm's order; none outside of a job, or where scontrol fails."""
    listed = os.environ.get("SLURM_JOB_NODELIST", "")
    if not listed:
        return []
    try:
        shown = subprocess.run(
            ["scontrol", "show", "hostnames", listed],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return shown.stdout.decode(errors="replace").split()


def as_if_of(own: Collection[str], of_job: Sequence[str]) -> dict[str, str]:
    """What the environment of a step on some of the job's nodes says, that they are all of them.

    Without it srun --mpi=pmix hangs in MPI_Init in about one of fifteen steps on two nodes: of two
    that have written to each other the one of the higher number connects, but Slurm's mpi/pmix
    (24.11, pmixp_dconn_require_connect in pmixp_dconn.h) compares the other's number within the
    job with its own within the step, so that both wait.
    """
    if not set(own) < set(of_job):
        return {}
    return {"SLURM_JOB_NODELIST": fold(node for node in of_job if node in own)}
