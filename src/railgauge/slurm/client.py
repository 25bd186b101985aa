"""Slurm's client commands: what they print, with a time limit; and their options."""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
import subprocess
from collections.abc import Iterable, Sequence

from railgauge.common.errors import PrerequisiteError

#: By these variables a user chooses what the commands show, and how: not what is read here.
_SHOWN = re.compile(r"(?:SQUEUE|SCONTROL|SACCT|SINFO)_\w+|SLURM_T(?:IME_FORMAT|OPO_LEN)")

#: By these scontrol, squeue, scancel, sbatch and srun turn to another cluster. sacct does not: it
#: would list another's jobs with the same numbers.
_OTHER_CLUSTER = ("SLURM_CLUSTERS", "SBATCH_CLUSTERS")

#: Variables of the caller: sbatch and srun take options from these, MPI and NCCL settings. Jobs and
#: their steps start with what the description of the system says, and with no others.
_CALLERS = re.compile(r"(?:SLURMD?|SBATCH|SRUN|SALLOC|PMIX?|PRTE|OMPI|UCX|UCC|NCCL)_\w+")

#: By these the commands find the cluster of this host, and show that they may use it.
_OF_CLUSTER = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})

#: The job that this process is in, "" where it is in none; read before it is dropped.
OWN_JOB = os.environ.get("SLURM_JOB_ID", "")

#: The patterns of those that a site wants kept.
_kept: list[str] = []

_NO_ACCOUNTING = re.compile(r"accounting storage is disabled", re.IGNORECASE)

#: What sacct and sacctmgr say where slurmdbd does not run, or cannot be reached.
_NO_DATABASE = re.compile(r"persistent connection to (?:host:)?([\w.-]+):([0-9]+): (.*)")


class SlurmError(PrerequisiteError):
    """A Slurm command is not there, failed, or did not answer in time."""


class AccountingError(SlurmError):
    """This Slurm keeps no record of its jobs."""

    def __init__(self) -> None:
        super().__init__(
            "Slurm accounting is off, and jobs are followed by sacct",
            next_step="AccountingStorageType=accounting_storage/slurmdbd in slurm.conf, with a "
            "slurmdbd, and `sacctmgr add cluster NAME`: slurm.schedmd.com/accounting.html",
        )


def elsewhere() -> SlurmError | None:
    """That the environment turns some of Slurm's commands to another cluster, where it does."""
    for name in _OTHER_CLUSTER:
        if os.environ.get(name):
            return SlurmError(
                f"{name} is {os.environ[name]}, and Railgauge works on the cluster of this host",
                next_step=f"unset {name}; for another cluster, on a login node of it",
            )
    return None


def callers(keep: Iterable[str] = ()) -> list[str]:
    """The caller's variables in the environment of this process; `keep` has patterns of names that
    are none of them: SBATCH_ACCOUNT, UCX_*.
    """
    patterns = tuple(keep)
    return sorted(
        name
        for name in os.environ
        if _CALLERS.fullmatch(name)
        and name not in _OF_CLUSTER
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )


def drop_callers(keep: Iterable[str] = ()) -> list[str]:
    """Take the caller's variables out of the environment of this process, and so of all that it
    starts; those that were taken out.
    """
    _kept[:] = keep
    dropped = callers(_kept)
    for name in dropped:
        del os.environ[name]
    return dropped


def environment() -> dict[str, str]:
    """The environment of Slurm's commands: without the caller's variables."""
    dropped = frozenset(callers(_kept))
    return {
        name: text
        for name, text in os.environ.items()
        if not (_SHOWN.fullmatch(name) or name in dropped)
    }


def output(*command: str, limit_s: float = 60) -> str:
    """What a Slurm command prints; SlurmError where it fails."""
    printed, problem = answer(*command, limit_s=limit_s)
    if problem is not None:
        raise problem
    return printed


def answer(*command: str, limit_s: float = 60) -> tuple[str, SlurmError | None]:
    """What a Slurm command prints, as far as it came, and why it failed; None where it did not."""
    if (problem := elsewhere()) is not None:
        return "", problem
    shown = f"`{' '.join(command)}` failed"
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(),
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError:
        return "", SlurmError(
            f"{command[0]} is not on the path: no Slurm here",
            next_step="`railgauge lab up` for the embedded cluster, or work on a login node",
        )
    except OSError as error:
        return "", SlurmError(f"{shown}: {error.strerror or error}")
    except subprocess.TimeoutExpired as late:
        problem = SlurmError(f"{command[0]} did not answer within {limit_s:g} s")
        return _text(late.stdout), problem
    stdout, stderr = _text(ended.stdout), _text(ended.stderr)
    if ended.returncode == 0:
        return stdout, None
    # scontrol prints some of its errors on stdout.
    reason = stderr.strip() or stdout.strip() or f"exit code {ended.returncode}"
    if _NO_ACCOUNTING.search(reason):
        return stdout, AccountingError()
    if (database := _NO_DATABASE.search(reason)) is not None:
        host, port, why = database.groups()
        return stdout, SlurmError(
            f"slurmdbd does not answer at {host}:{port} ({why}), and jobs are followed by sacct",
            next_step=f"on {host}: systemctl status slurmdbd; journalctl -u slurmdbd; once it "
            "runs, `sacct` answers",
        )
    return stdout, SlurmError(f"{shown}: {reason}")


def _text(printed: bytes | None) -> str:
    return (printed or b"").decode("utf-8", "replace")


def option(name: str, short: str, options: Sequence[str]) -> str:
    """The value of one of sbatch's options, `--NAME=x`, `--NAME x`, `-n x`: the last one, which
    counts; "" where it is not given. `short` is "" of an option without a letter.
    """
    words = [word for each in options for word in each.split()]
    value = ""
    for word, following in itertools.zip_longest(words, words[1:]):
        if following is not None and (word == f"--{name}" or (short and word == f"-{short}")):
            value = following
        elif word.startswith(f"--{name}="):
            value = word.partition("=")[2]
        elif short and re.match(f"-{short}.", word):
            value = word[2:]
    return value
