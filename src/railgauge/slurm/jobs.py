"""Slurm's jobs: whether it takes them, how they wait and ended, and those of a campaign."""

from __future__ import annotations

import contextlib
import pwd
import re
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from railgauge import hostlist, paths
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError

#: Begins Slurm's comment of the jobs of campaigns; the campaign's id follows.
_CAMPAIGN = "railgauge:"


def comment() -> str:
    """The option by which the queue says to which campaign a job belongs: the one that this process
    works for, or Railgauge outside of any.
    """
    campaign = paths.campaign_folder()
    return f"--comment={_CAMPAIGN}{campaign.name}" if campaign else "--comment=railgauge"


#: Slurm's messages about jobs that it refuses whatever their nodes are, and what to type then.
_REFUSED = (
    (
        re.compile(r"Invalid account|Invalid qos|accounting/QOS policy", re.IGNORECASE),
        "`sacctmgr show assoc user=$USER format=account,qos,partition` says what you may use; put "
        "--account=... or --qos=... into access of the partition, or behind it: railgauge accept "
        "-- -J account=...",
    ),
    (
        re.compile(
            r"not permitted to use this partition|Access/permission denied|Invalid partition"
            r"|requested reservation is invalid|invalid reservation",
            re.IGNORECASE,
        ),
        "`scontrol show partition` and `scontrol show reservation` list the users of each; edit "
        "access of the partition",
    ),
)


#: What sbatch says where the controller ended before its answer: Slurm may have the job or not.
#: Seen of 26.05.5.
_NO_ANSWER = re.compile(
    r"Batch job submission failed: (Connection reset by peer|Unexpected message received"
    r"|Zero Bytes were transmitted or received|Socket timed out on send/recv operation"
    r"|Unable to contact slurm controller)"
)

#: How long a controller that is restarted may take to answer again.
_RESTART_S = 60.0


class Refusal(NamedTuple):
    """Why Slurm takes no job, in its words, and what to type."""

    reason: str
    next_step: str


def refusal(options: Sequence[str]) -> Refusal | None:
    """Why Slurm takes no job with these options, whatever nodes it is for: its account, its QOS,
    its partition. None where it takes them. Nothing is submitted.
    """
    try:
        client.output(
            "sbatch", "--test-only", "--output=/dev/null", "--time=2", *options, "--wrap=true"
        )
    except SlurmError as error:
        for pattern, step in _REFUSED:
            reason = next((w for w in error.message.splitlines() if pattern.search(w)), None)
            if reason is not None:
                return Refusal(reason.rpartition("error: ")[2].rpartition("failure: ")[2], step)
    return None


def own_nodes() -> tuple[str, ...]:
    """The nodes of the job that this process is in; none where this Slurm has no such job."""
    if not client.OWN_JOB:
        return ()
    try:
        answer = client.output(
            "squeue", "--noheader", f"--jobs={client.OWN_JOB}", "--format=%N"
        ).split()
        return hostlist.expand(",".join(answer)) if answer else ()
    except (SlurmError, ValueError):
        return ()


def require_answer() -> None:
    """SlurmError where the controller or the accounting does not answer.

    ReFrame follows its jobs by sacct; without it a session breaks off with jobs in the queue.
    """
    client.output("sinfo", "--noheader", "--format=%P")
    client.output("sacct", "--noheader", "--allocations", "--jobs=1", "--format=jobid")


def cancelled(job_id: str | None) -> str:
    """`CANCELLED by NAME`, as accounting has it; "" where it does not answer."""
    try:
        answer = client.output(
            *("sacct", "--noheader", "--allocations", "--parsable2"),
            *(f"--jobs={job_id}", "--format=state%60"),
        ).strip()
    except SlurmError:
        return ""
    state, _, uid = answer.rpartition(" by ")
    try:
        return f"{state} by {pwd.getpwuid(int(uid)).pw_name}"
    except (KeyError, ValueError):
        return answer


def failed_nodes(job_id: str, nodes: Collection[str]) -> tuple[str, ...]:
    """Those of a job's nodes that failed and so ended it; none where Slurm knows none.

    Accounting names one node only, the first that it missed: one that was just too busy to answer,
    perhaps. So those that do not answer now are named too.
    """
    try:
        answer = client.output(
            *("sacct", "--noheader", "--allocations", "--parsable2"),
            *(f"--jobs={job_id}", "--format=failednode"),
        )
        named = hostlist.expand(answer.strip()) if answer.strip() else ()
    except (SlurmError, ValueError):
        return ()
    return tuple(sorted({*named, *slurm_nodes.dead(nodes)}))


def batch_hosts(job_ids: Collection[str]) -> dict[str, str]:
    """Job -> the node that runs its batch script, of those that run; SlurmError where Slurm does
    not answer.
    """
    options = ("--noheader", "--states=R", "--format=%A|%B")
    chosen = f"--jobs={','.join(sorted(job_ids))}"
    listed = client.output("squeue", *options, chosen) if job_ids else ""
    hosts = (line.strip().partition("|") for line in listed.splitlines())
    return {job: host for job, _, host in hosts if host not in ("", "n/a")}


def waits(job_id: str) -> bool:
    """Whether a job has not begun yet, nor ended; SlurmError where Slurm does not answer."""
    state = client.output("squeue", "--noheader", f"--jobs={job_id}", "--format=%T")
    return state.strip() == "PENDING"


def hold(job_id: str) -> bool:
    """Keep a job that waits from beginning, until `release`; False where it has begun meanwhile, or
    ended. SlurmError where Slurm does not answer, or refuses it.

    Slurm holds one that runs as well, without a word, and takes new nodes for that as an order to
    give the others back (24.11, _update_job): only one that waits after this is held.
    """
    # A hold of its owner, which the owner may end; of a job that has ended Slurm refuses it.
    refused = None
    try:
        client.output("scontrol", "uhold", job_id)
    except SlurmError as error:
        refused = error
    if waits(job_id):
        if refused is not None:
            raise refused
        return True
    with contextlib.suppress(SlurmError):
        release(job_id)
    return False


def release(job_id: str) -> None:
    """Let a job begin that was held; SlurmError where Slurm refuses."""
    client.output("scontrol", "release", job_id)


def shrink(job_id: str, nodes: Collection[str]) -> None:
    """Let a job that is held have these nodes only; SlurmError where Slurm refuses."""
    count = len(nodes)
    client.output(
        *("scontrol", "update", f"jobid={job_id}", f"reqnodelist={hostlist.fold(nodes)}"),
        *(f"numnodes={count}-{count}", f"numtasks={count}"),
    )


def was_not_answered(stderr: str) -> bool:
    """Whether sbatch, by its standard error, does not know if Slurm has the job."""
    return _NO_ANSWER.search(stderr) is not None


def cancel_unanswered(name: str, known: Collection[str]) -> None:
    """Cancel the jobs of this campaign with that name that are not `known`: Slurm has accepted them
    without an answer. Waits for a controller that restarts; SlurmError where it does not come back,
    and outside of a campaign, where the owner of a job is not known.
    """
    campaign = paths.campaign_folder()
    if campaign is None:
        raise SlurmError("it is not known which campaign has the jobs with this name")
    listed = _when_back("squeue", "--noheader", "--all", f"--name={name}", "--format=%A %k")
    rows = [line.split() for line in listed.splitlines()]
    of_campaign = [row[0] for row in rows if row[1:] == [f"{_CAMPAIGN}{campaign.name}"]]
    if unanswered := sorted(set(of_campaign).difference(known)):
        client.output("scancel", *unanswered)


def _when_back(*command: str) -> str:
    """What a command prints once the controller answers; SlurmError where it does not in time."""
    deadline = time.monotonic() + _RESTART_S
    while True:
        try:
            return client.output(*command)
        except SlurmError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def cancel_jobs_of(campaign: str) -> list[str]:
    """Cancel what a campaign has left in the queue; the ids of the jobs."""
    listed = client.output("squeue", "--noheader", "--all", "--format=%A %k").splitlines()
    left = [line.split()[0] for line in listed if line.split()[1:] == [f"{_CAMPAIGN}{campaign}"]]
    if left:
        client.output("scancel", *left)
    return left


def preempted_jobs_of(campaign: str) -> list[str]:
    """The jobs of a campaign that Slurm ended or suspended for another user's; SlurmError where
    it does not answer.
    """
    listed = client.output(
        *("squeue", "--noheader", "--all", "--states=all", "--format=%A|%T|%k"), limit_s=10
    )
    rows = (line.strip().split("|") for line in listed.splitlines())
    gone = [[state, f"{_CAMPAIGN}{campaign}"] for state in ("PREEMPTED", "SUSPENDED")]
    return [row[0] for row in rows if row[1:] in gone]


def suspended_on(nodes: Collection[str]) -> set[str]:
    """Those of `nodes` that have suspended jobs: where no other job runs Slurm calls them idle.
    SlurmError where it does not answer.
    """
    if not nodes:
        return set()
    listed = client.output("squeue", "--noheader", "--all", "--states=S", "--format=%N")
    return set(nodes) & {node for line in listed.split() for node in hostlist.expand(line)}


def preempts() -> bool:
    """Whether this Slurm ends jobs for those of a higher priority at all."""
    config = client.output("scontrol", "show", "config")
    said = dict(re.findall(r"^(PreemptType|PreemptMode)\s*= (\S+)", config, re.MULTILINE))
    by = said.get("PreemptType", "(null)")
    return not by.endswith(("none", "(null)")) and said.get("PreemptMode") != "OFF"


def describe_jobs_of(campaign: str) -> str:
    """What Slurm says of the jobs that a campaign has in the queue, or why it says nothing."""
    try:
        answer = client.output(
            *("squeue", "--noheader", "--all", "--format=%k|%A|%T|%r"), limit_s=10
        )
    except SlurmError as error:
        return error.message
    ours = [
        line.split("|")[1:]
        for line in answer.splitlines()
        if line.startswith(f"{_CAMPAIGN}{campaign}|")
    ]
    if not ours:
        return "Slurm has no job of this campaign"
    return "; ".join(f"job {job} is {state}, {reason}" for job, state, reason in ours)


def nodes_of_campaigns() -> set[str]:
    """The nodes on which a job of any campaign runs, or for which one waits; SlurmError where
    Slurm does not answer.
    """
    # Each is a state of its own to squeue: one that its nodes are started for is not R.
    states = "--states=R,CF,CG,S,ST,SO,PD"
    options = ("--noheader", "--all", states, "--format=%N|%n|%k")
    listed = client.output("squeue", *options).splitlines()
    rows = (line.strip().split("|", 2) for line in listed if line.count("|") >= 2)
    return {
        node
        for nodes, requested, comment in rows
        if (nodes or requested) and comment.startswith(_CAMPAIGN)
        for node in hostlist.expand(nodes or requested)
    }


def waiting_for_campaigns() -> dict[str, str]:
    """The jobs of campaigns that wait for nodes on which a campaign's job runs: id -> campaign."""
    options = ("--noheader", "--all", "--format=%A|%T|%k|%N|%n")
    listed = client.output("squeue", *options).splitlines()
    jobs = [line.strip().split("|") for line in listed if line.count("|") == 4]
    jobs = [job for job in jobs if job[2].startswith(_CAMPAIGN)]

    def names(text: str) -> set[str]:
        try:
            return set(hostlist.expand(text)) if text.strip() else set()
        except ValueError:
            return set()

    taken = {node for _, state, _, nodes, _ in jobs if state != "PENDING" for node in names(nodes)}
    return {
        number: comment.removeprefix(_CAMPAIGN)
        for number, state, comment, _, wanted in jobs
        if state == "PENDING" and names(wanted) & taken
    }
