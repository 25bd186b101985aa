"""Limits of a process, raised to what it needs."""

from __future__ import annotations

import resource


class LimitProblem(Exception):
    """A limit is too low and cannot be raised here; the text says where, and what to do."""


def raise_open_files(needed: int, where: str) -> int:
    """Let this process have `needed` open files and sockets; how many it may have now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed if soft == resource.RLIM_INFINITY else soft
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise LimitProblem(
            f"{where}: at most {hard} open files (the hard limit of RLIMIT_NOFILE), expected "
            f"{needed} or more\nnext: LimitNOFILE={needed} in slurmd's systemd unit, or fewer "
            "nodes a job (nodes_per_job)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return needed
