"""Whether Slurm starts a job that asks for what measuring jobs ask for: whole nodes, all of their
memory, and as much time.

`sbatch --test-only` does not say it: most limits only show as the reason of a job that waits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import time
from collections.abc import Sequence

from railgauge import hostlist
from railgauge.cluster.look import job_options
from railgauge.slurm import client
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm.client import SlurmError
from railgauge.slurm.waiting import STANDING
from railgauge.systems import Partition

#: How long the job may wait. Slurm says within a few seconds what limit a job is over.
_LIMIT_S = 20
_POLL_S, _SETTLE_S = 0.3, 2.0

_BEGAN = ("CONFIGURING", "RUNNING", "COMPLETING", "COMPLETED")
_THERE = ("PENDING", "RUNNING", "COMPLETING")

#: What Slurm's reason, or the error of sbatch, is about -> what to type.
_STEPS = (
    (
        "Time|Wall",
        "let jobs take {minutes} minutes: scontrol update partitionname={name} MaxTime={minutes}, "
        "or MaxWall of the QOS or account; or nodes_per_job in extras.sweep, for shorter jobs",
    ),
    (
        "NodeLimit|NodePerJob|Node count",
        "let jobs have {count} nodes: scontrol update partitionname={name} MaxNodes={count}, or "
        "MaxTRES of the QOS or account; or nodes_per_job in extras.sweep, for smaller jobs",
    ),
    (
        "Mem",
        "let jobs have all memory of their nodes: scontrol update partitionname={name} "
        "MaxMemPerNode=0 (no limit), or MaxTRES of the QOS or account",
    ),
)


@dataclasses.dataclass(frozen=True)
class Probe:
    """What became of the job. `reason` is why it did not start, "" where it did; `standing` if
    time does not change that, and `next_step` what to type then.
    """

    asked: str
    reason: str = ""
    standing: bool = False
    next_step: str = ""


#: What sbatch, or we, say where the controller did not answer in time: no limit of a partition.
_NO_ANSWER = re.compile(r"timed out|did not answer|Unable to contact|try again", re.IGNORECASE)


def start(partition: Partition, nodes: Sequence[str], limit_s: float) -> Probe:
    """Submit a job on `nodes` that may take `limit_s` and does nothing, and wait for its start."""
    minutes = math.ceil(limit_s / 60)
    # To Slurm no minutes are no limit.
    limit = (f"--time={minutes}",) if minutes else ()
    options = (f"--nodes={len(nodes)}", "--exclusive", "--mem=0", *limit)
    asked = " ".join(options)
    try:
        job = client.output(
            *("sbatch", "--parsable", "--no-requeue", "--job-name=railgauge-probe"),
            *("--output=/dev/null", "--ntasks-per-node=1", slurm_jobs.comment(), *options),
            *(*job_options(partition), f"--nodelist={hostlist.fold(nodes)}", "--wrap=true"),
        )
    except SlurmError as error:
        reason = error.message.splitlines()[-1].rpartition(": ")[2]
        if _NO_ANSWER.search(error.message):
            return Probe(asked, reason, False, "")
        return Probe(asked, reason, True, _step(reason, partition, len(nodes), minutes))
    job = job.strip().partition(";")[0]
    try:
        reason = _reason(job)
    finally:
        with contextlib.suppress(SlurmError):
            client.output("scancel", "--quiet", job)
            # Until its nodes are free again, for the next job that asks for them.
            deadline = time.monotonic() + _LIMIT_S
            while _state(job)[0] in _THERE and time.monotonic() < deadline:
                time.sleep(_POLL_S)
    standing = reason in STANDING
    step = _step(reason, partition, len(nodes), minutes) if standing else ""
    return Probe(asked, reason, standing, step)


def _reason(job: str) -> str:
    """Why the job did not begin: Slurm's reason, once it stays, or how it ended; "" where it
    began.
    """
    deadline, standing = time.monotonic() + _LIMIT_S, ""
    while True:
        state, reason = _state(job)
        if state != "PENDING":
            return "" if state in _BEGAN else f"{state or 'not in the queue'} {reason}".strip()
        if (reason in STANDING and reason == standing) or time.monotonic() > deadline:
            return reason
        # Of a job over MaxNodes the first one is PartitionConfig, and then PartitionNodeLimit.
        time.sleep(_SETTLE_S if reason in STANDING else _POLL_S)
        standing = reason


def _state(job: str) -> tuple[str, str]:
    """The job's state, and why it waits."""
    options = ("--noheader", "--all", "--states=all", "--format=%T|%r")
    state, _, reason = client.output("squeue", *options, f"--jobs={job}").strip().partition("|")
    return state, reason


def _step(reason: str, partition: Partition, count: int, minutes: int) -> str:
    name = partition.slurm_partition or partition.name
    for pattern, step in _STEPS:
        if re.search(pattern, reason, re.IGNORECASE):
            return step.format(name=name, count=count, minutes=minutes)
    return f"scontrol show partition {name}; sacctmgr show qos: which limit is below this?"
