"""Limits of a process, raised to what it needs."""

from __future__ import annotations

import resource

_INFINITE = resource.RLIM_INFINITY


class LimitError(Exception):
    """A limit is too low and cannot be raised here; the text says where, and what to do."""


def raise_open_files(needed: int, where: str) -> int:
    """Let this process have `needed` open files and sockets; how many it may have now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == _INFINITE or soft >= needed:
        return needed if soft == _INFINITE else soft
    _require(hard, needed, "open files", "NOFILE", where)
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return needed


def raise_processes(needed: int, where: str) -> None:
    """Let this process start `needed` processes and threads. As the limit counts all of the user's
    (setrlimit(2)), it is raised as far as it goes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    _require(hard, needed, "processes of the user", "NPROC", where)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))


def _require(hard: int, needed: int, what: str, name: str, where: str) -> None:
    if hard != _INFINITE and hard < needed:
        raise LimitError(
            f"{where}: at most {hard} {what} (the hard limit of RLIMIT_{name}), expected "
            f"{needed} or more\nnext: Limit{name}={needed} in slurmd's systemd unit, or fewer "
            "nodes a job (nodes_per_job)"
        )
