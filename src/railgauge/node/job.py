"""The nodes of the Slurm job that this runs in."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Sequence

#: Limit of scontrol, which asks no other machine for this.
_LIMIT_S = 30.0

#: A name with a number that a range of a host list can hold.
_NUMBERED = re.compile("(.*?)([0-9]{1,9})", re.DOTALL)


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


def fold(names: Iterable[str]) -> str:
    """A host list of the names in their order, those that follow on one another as a range: n1, n2,
    n3, n9, n10 are `n[1-3],n9,n10`.

    Linux takes no argument and no variable of more than 128 KiB (MAX_ARG_STRLEN, execve(2)), which
    the names of some thousand nodes exceed.
    """
    #: what stands before the numbers, the first of them, and the last
    runs: list[tuple[str, str, str]] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        prefix, number = match.groups() if match else (name, "")
        if runs and number and _follows(runs[-1], prefix, number):
            runs[-1] = (prefix, runs[-1][1], number)
        else:
            runs.append((prefix, number, number))
    return ",".join(
        f"{prefix}[{first}-{last}]" if first != last else f"{prefix}{first}"
        for prefix, first, last in runs
    )


def _follows(run: tuple[str, str, str], prefix: str, number: str) -> bool:
    """Whether a name is the next of a run; 10 after 9 and 10 after 09 are written differently."""
    before, _, last = run
    same = prefix == before and len(number) == len(last)
    return same and int(number) == int(last) + 1


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
