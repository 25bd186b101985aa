"""Why Slurm starts no job on some nodes: in words, and whether it is any use to wait."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping

from railgauge import hostlist
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode

#: Slurm's reasons that time does not change (squeue(1), JOB REASON CODES): a limit that the job is
#: over, a right that it lacks, or a hand that holds it.
STANDING = frozenset(
    {
        *("PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "PartitionDown"),
        *("PartitionInactive", "BadConstraints", "AccountNotAllowed", "QOSNotAllowed"),
        *("InvalidAccount", "InvalidQOS", "JobHeldAdmin", "JobHeldUser"),
        *("QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit"),
        *("QOSMaxNodePerJobLimit", "AssocMaxNodePerJobLimit"),
        *("MaxMemPerLimit", "QOSMaxMemoryPerJob", "QOSMaxMemoryPerNode", "AssocMaxMemPerJob"),
    }
)

#: The beginning of the lines in which a session says what it waits for, which `accept` shows.
WAITING = "waiting: "

#: Beginning of Slurm's reason for a job that waits for unavailable nodes; under load also for nodes
#: that are only busy, and without their names.
NOT_AVAILABLE = "ReqNodeNotAvail"

#: How the reason names these nodes; under load it may say only that there are some.
_UNAVAILABLE = re.compile(r"UnavailableNodes:([\w\[\],.-]+)")

#: Jobs share nodes whatever they ask for (slurm.conf(5), OverSubscribe: "without any means for
#: users to disable it").
_FORCED = re.compile("FORCE(?::(?!1$)[0-9]+)?")


@dataclasses.dataclass(frozen=True)
class Obstacle:
    """What keeps a job from starting; `standing` if it stays until a user removes it."""

    why: str
    standing: bool
    #: a job that runs on a node which answers: it ends by itself
    job: bool = False
    #: whether `why` identifies it
    told: bool = True


def unavailable_nodes(reason: str) -> tuple[str, ...]:
    """The nodes that Slurm's pending reason names as not available."""
    matched = _UNAVAILABLE.search(reason)
    try:
        return hostlist.expand(matched[1].rstrip(",")) if matched else ()
    except ValueError:
        return ()


def of_partition(name: str, reserved: bool = False) -> Obstacle | None:
    """What keeps all jobs of a Slurm partition from starting, or from being alone on their nodes
    where those are not `reserved` for them.

    SlurmError where Slurm does not answer.
    """
    shown = client.output("scontrol", "show", "partition", name, "--oneliner")
    fields = slurm_nodes.fields_of(shown)
    state, shares = fields.get("State", "UP"), fields.get("OverSubscribe", "NO")
    if state != "UP":
        step = f"scontrol update partitionname={name} state=up"
        return Obstacle(f"partition {name} is {state} ({step})", standing=True)
    if _FORCED.fullmatch(shares) and not reserved:
        why = f"partition {name} has OverSubscribe={shares}, by which others' jobs share the nodes"
        step = "a partition over them with OverSubscribe=NO, or FORCE:1"
        return Obstacle(f"{why} of one that is exclusive ({step})", standing=True)
    return None


def of_nodes(
    nodes: Collection[str], our_jobs: Collection[str] = (), our_reservations: Collection[str] = ()
) -> dict[str, Obstacle]:
    """Node -> what keeps a job from starting there: drained by a user, reserved, busy.

    Of a node that does not answer Slurm itself speaks, in the reason of the job that waits.
    SlurmError where Slurm does not answer.
    """
    if not nodes:
        return {}
    states = slurm_nodes.show(nodes)
    return {
        **_jobs(states, our_jobs),
        **_reservations(states, our_reservations),
        **{
            name: Obstacle(
                f"drained{f' by {node.by}' if node.by else ''}: {node.reason}", standing=True
            )
            for name, node in states.items()
            if node.drained and node.answers
        },
    }


def of_pending(jobs: Collection[str]) -> dict[str, str]:
    """Job -> Slurm's own reason why it waits; without those that have none, or have begun.

    SlurmError where Slurm does not answer.
    """
    options = ("--noheader", "--states=PD", "--format=%A|%r")
    listed = client.output("squeue", *options, f"--jobs={','.join(sorted(jobs))}") if jobs else ""
    reasons = (line.strip().partition("|") for line in listed.splitlines())
    return {job: why for job, _, why in reasons if why not in ("", "None", "(null)")}


def words(obstacles: Mapping[str, Obstacle]) -> str:
    """All obstacles as text, each once, with its nodes."""
    nodes: dict[str, list[str]] = {}
    for node, obstacle in sorted(obstacles.items()):
        nodes.setdefault(obstacle.why, []).append(node)
    return "; ".join(f"{hostlist.fold(names)} {why}" for why, names in nodes.items())


def _reservations(states: Mapping[str, SlurmNode], ours: Collection[str]) -> dict[str, Obstacle]:
    """Reservations, which end by themselves, or with what they were made for."""
    reserved = {name for name, node in states.items() if "RESERVED" in node.flags}
    if not reserved:
        return {}
    obstacles = {}
    for reservation in slurm_nodes.reservations():
        if reservation.active and reservation.hostlist and reservation.name not in ours:
            why = f"reserved as {reservation.name} for {reservation.users or 'others'}"
            for node in reserved & set(hostlist.expand(reservation.hostlist)):
                obstacles[node] = Obstacle(why, standing=False)
    return obstacles


def _jobs(states: Mapping[str, SlurmNode], ours: Collection[str]) -> dict[str, Obstacle]:
    obstacles, hidden = _listed(states, ours)
    if not hidden:
        return obstacles
    # Between the two looks a job may have ended, and the next one of ours begun.
    more, hidden = _listed(slurm_nodes.show(sorted(hidden)), ours)
    # With PrivateData=jobs squeue shows a user no jobs of others (slurm.conf(5)).
    why = "busy with a job that Slurm does not show to this user"
    others = {
        name: Obstacle(why, standing=False, job=states[name].answers, told=False) for name in hidden
    }
    return {**obstacles, **more, **others}


def _listed(
    states: Mapping[str, SlurmNode], ours: Collection[str]
) -> tuple[dict[str, Obstacle], set[str]]:
    """Node -> the job of another user that keeps it busy; and the busy nodes on which Slurm lists
    no job.
    """
    busy = {name for name, node in states.items() if node.busy}
    if not busy:
        return {}, set()
    obstacles, listed_busy = {}, set()
    listed = client.output(
        *("squeue", "--noheader", "--all", "--states=R,CF,CG,S,ST,SO", "--format=%A|%u|%e|%N"),
        f"--nodelist={hostlist.fold(busy)}",
    )
    for line in listed.splitlines():
        job, user, ends, where = [*line.strip().split("|"), "", "", ""][:4]
        on = busy & set(hostlist.expand(where))
        listed_busy |= on
        if job and job not in ours:
            until = f", until {ends} at the latest" if ends not in ("", "N/A", "NONE") else ""
            for node in on:
                why = f"busy with job {job} of {user}{until}"
                obstacles[node] = Obstacle(why, standing=False, job=states[node].answers)
    return obstacles, busy - listed_busy
