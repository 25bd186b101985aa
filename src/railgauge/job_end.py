"""How a Slurm job ended: whether that says anything of its nodes, and which line says why.

The words are those of Slurm 22.05 to 25.11 (src/srun, src/api, src/slurmd in its sources); those of
24.11 were seen in the embedded cluster.
"""

from __future__ import annotations

import re

#: The states that a job's nodes, or what ran on them, bring about. Any other end (somebody
#: cancelled it, Slurm forgot it, it was preempted) says nothing of the nodes.
OF_THE_NODES = frozenset(
    {"COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}
)

_LAUNCH_FAILED = re.compile(r"Task launch for \S+ failed on node (?P<node>[^\s:]+): (?P<why>.*)")

#: srun, where the controller does not answer it, or no longer knows its job.
_CONTROLLER = re.compile(
    r"Unable to contact slurm controller|Unable to confirm allocation|Unable to create step for job"
    r"|Socket timed out on send/recv|Zero Bytes were transmitted or received"
    r"|Invalid job id specified|Slurm job \d+ has expired"
    r"|Unable to connect to .*slurmctld",
    re.IGNORECASE,
)

_NO_SPACE = re.compile(
    r"No space left on device|Disk quota exceeded|No usable temporary directory", re.IGNORECASE
)

#: What a job's end brings with it wherever it began: never the reason.
_FOLLOWS = re.compile(
    r"task \S+: (Killed|Terminated|Exited with exit code)|tasks \S+: (Killed|Terminated)"
    r"|Job step aborted|STEP \S+ ON \S+ CANCELLED|JOB \S+ ON \S+ CANCELLED"
    r"|Terminating StepId|Application launch failed|forcing job termination|got SIG"
    r"|Timed out waiting for job step to complete|^\(null\)$"
)


def _lines(stderr: str) -> list[str]:
    # What kills a job may leave NULs behind.
    lines = ("".join(filter(str.isprintable, line)).strip() for line in stderr.splitlines())
    return [line for line in lines if line]


def quoted(stderr: str) -> str:
    """The line of a job's standard error that says why it ended; "" where there is none.

    Slurm's own reason first; else the last line that is no consequence of the job's end.
    """
    lines = _lines(stderr)
    for pattern in (_LAUNCH_FAILED, _NO_SPACE, _CONTROLLER):
        told = next((line for line in lines if pattern.search(line)), None)
        if told:
            return told
    reasons = [line for line in lines if not _FOLLOWS.search(line)]
    return (reasons or lines or [""])[-1]


def launch_failed_on(stderr: str) -> dict[str, str]:
    """The nodes on which srun could not start its tasks: node -> why."""
    found = (_LAUNCH_FAILED.search(line) for line in _lines(stderr))
    return {match["node"]: match["why"] for match in found if match}


def controller_trouble(stderr: str) -> str:
    """srun's words where it was the controller that failed the job; "" where not."""
    if launch_failed_on(stderr):
        return ""
    return next((line for line in _lines(stderr) if _CONTROLLER.search(line)), "")
