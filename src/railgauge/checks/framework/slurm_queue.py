"""A session's view of Slurm's queue. Each obstacle is asked for once, shown, and then decides all
cases that it keeps from starting, instead of one after the other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from reframe.core.exceptions import JobBlockedError, JobError

from railgauge import hostlist
from railgauge.campaign import variables
from railgauge.common.errors import PrerequisiteError
from railgauge.model.failure import DISTURBED, LOST, TAKEN, UNAVAILABLE, Failure
from railgauge.slurm import client, reservations, waiting
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode
from railgauge.slurm.waiting import NOT_AVAILABLE, WAITING, Obstacle

#: The fewest nodes for which a job is worth starting.
_FEWEST = 2

_SLURM_SAYS = "Slurm says "

#: How long a job waits before Slurm is asked why: longer than it takes to start one.
_PATIENCE_S = 5.0
#: The same where only idle nodes are measured, and somebody else may have got one.
_IDLE_S = 2.0
#: The interval at which it is asked again: what a job waits for may change.
_AGAIN_S = 60.0
#: The interval at which the nodes that run batch scripts must answer.
_HOSTS_S = 5.0
#: The same for the nodes of jobs that wait, and so much more for each of them, as Slurm is asked
#: for all: every 50 s for 4,000.
_NODES_S, _EACH_S = 10.0, 0.01
#: The longest time between two looks at a node that does not answer that are of one silence: of
#: thousands of nodes they are 50 s apart.
_SEEN_S = 100.0


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a job is to run: Slurm's partition, "" for the default one, the nodes it names, and
    whether in a reservation.
    """

    partition: str
    nodes: frozenset[str]
    reserved: bool = False


def _tell(line: str) -> None:
    print(f"{WAITING}{line}", flush=True)


class Queue:
    """The queue of a session. `tell` gets each obstacle once, as a line."""

    def __init__(self, tell: Callable[[str], None] = _tell) -> None:
        self._tell = tell
        self._reported: set[str] = set()
        self._asked_at: dict[str, float] = {}
        self._places: dict[str, _Place] = {}
        #: names of jobs that go on where they get fewer nodes than they asked for
        self.may_shrink: set[str] = set()
        self._our_jobs: set[str] = set()
        self._our_reservations = reservations.ours()
        #: partitions for which it was no use to wait, and nodes with their obstacles
        self._blocked_partitions: set[str] = set()
        self._blocked_nodes: dict[str, Obstacle] = {}
        #: (partition, Slurm's reason) with which a job has waited in vain
        self._waited_in_vain: set[tuple[str, str]] = set()
        #: job -> the node that runs its batch script
        self._hosts: dict[str, str] = {}
        self._hosts_looked_at = 0.0
        #: node -> since when it does not answer, and when that was last seen
        self._silent: dict[str, tuple[float, float]] = {}
        self._lost_hosts: dict[str, SlurmNode] = {}
        #: job -> when its nodes were last looked at, while it waited
        self._nodes_looked_at: dict[str, float] = {}
        #: name of a job -> node -> why the job goes on without it
        self._left_out: dict[str, dict[str, Failure]] = {}
        #: jobs that this session holds, and has not let go again
        self._held_jobs: set[str] = set()

    def begin(self, cases: Sequence[Any]) -> None:
        """Look for obstacles to all that the session needs, before it waits for any of it."""
        #: whether all cases of a partition name a reservation
        partitions: dict[str, bool] = {}
        nodes: set[str] = set()
        for case in cases:
            if case.partition.scheduler.registered_name == "slurm":
                access = case.partition.access
                name = client.option("partition", "p", access)
                reserved = bool(client.option("reservation", "", access))
                partitions[name] = reserved and partitions.get(name, True)
                nodes.update(getattr(case.check, "pinned_nodes", ()))
        for name, reserved in sorted(partitions.items()):
            obstacle = self._partition_obstacle(name, reserved)
            if obstacle is not None:
                self._say(obstacle.why)
                self._blocked_partitions.add(name)
        held = {n: o for n, o in self._node_obstacles(sorted(nodes)).items() if o.standing}
        if held:
            self._say(waiting.words(held))
            self._blocked_nodes |= held

    def submit(self, job: Any, access: Sequence[str], nodes: Sequence[str]) -> None:
        """Note a job before it is submitted; JobError where it is known not to start."""
        options = [*access, *job.options, *job.cli_options]
        reservation = client.option("reservation", "", options)
        partition = client.option("partition", "p", options)
        place = _Place(partition, frozenset(nodes), bool(reservation))
        self._our_reservations.add(reservation)
        self._places[job.name] = place
        # That was another run of the case.
        self._left_out.pop(job.name, None)
        # What was in the way may be gone since.
        if place.partition in self._blocked_partitions:
            obstacle = self._partition_obstacle(place.partition, place.reserved)
            if obstacle is not None:
                raise JobError(f"not submitted: {obstacle.why}")
        known = self._blocked_nodes.keys() & place.nodes
        left = self._node_obstacles(sorted(known)) if known else {}
        # If another job runs there by now, no case has waited for it yet.
        same = self._blocked_nodes
        left = {n: o for n, o in left.items() if not o.job or (o.told and o == same[n])}
        if left:
            raise JobError(f"not submitted: {waiting.words(left)}")

    def submitted(self, job_id: str) -> None:
        """Note that Slurm has accepted a job: it is this session's own from now on."""
        self._our_jobs.add(job_id)

    def cancel_unanswered(self, job: Any) -> None:
        """Cancel the job where Slurm has it, and sbatch does not know; SlurmError where that cannot
        be found out.
        """
        slurm_jobs.cancel_unanswered(job.name, self._our_jobs)

    def takes_no_job(self, nodes: Collection[str]) -> dict[str, Failure]:
        """Node -> why no job starts there until somebody acts; a sweep goes on without it. With
        RAILGAUGE_IDLE also nodes that are busy or reserved, and all of them count as somebody
        else's.
        """
        return {**self._held(nodes), **_unavailable(slurm_nodes.dead(nodes))}

    def left_out(self, name: str) -> dict[str, Failure]:
        """Node -> why the job of that name has gone on without it, though it was submitted for it
        too. One that did not answer Slurm, and does by now, is accused of nothing.
        """
        failures = dict(self._left_out.get(name, {}))
        silent = [node for node, failure in failures.items() if failure.kind == UNAVAILABLE]
        for node in set(silent) - set(slurm_nodes.dead(silent) if silent else ()):
            message = f"not measured: {node} did not answer Slurm, for a while"
            failures[node] = dataclasses.replace(failures[node], kind=DISTURBED, message=message)
        return failures

    def continue_without(self, job: Any, reasons: Collection[str] = (NOT_AVAILABLE,)) -> bool:
        """Let a job that waits for one of these reasons go on without those of its nodes on which
        none starts by now; False where it has none of these, or cannot do without them.
        """
        if job.is_cancelling or not any(why.startswith(NOT_AVAILABLE) for why in reasons):
            return False
        nodes = self._place(job).nodes
        out = self._without(nodes) if job.name in self.may_shrink else {}
        if not out or len(nodes - out.keys()) < _FEWEST:
            return False
        went_on = self._goes_on_without(job, out)
        self._release(job)
        return went_on

    def poll(self, scheduler: Any, jobs: Sequence[Any]) -> None:
        """Say once what the pending jobs wait for. Cancel those that wait in vain, and those whose
        batch script has gone with its node.
        """
        self._look_at_hosts(scheduler, [job for job in jobs if job.state == "RUNNING"])
        now = time.time()
        for job in jobs:
            if job.is_cancelling:
                self._explain(job)
                continue
            self._release(job)
            if self._looks_at_nodes_of(job, now) and self.continue_without(job):
                continue
            asked_at = self._asked_at.get(job.jobid)
            waited = now - (job.submit_time if asked_at is None else asked_at)
            first_s, again_s = (_IDLE_S, _IDLE_S) if idle_only() else (_PATIENCE_S, _AGAIN_S)
            if job.state != "PENDING" or waited < (first_s if asked_at is None else again_s):
                continue
            self._asked_at[job.jobid] = now
            obstacle = self._obstacle(job)
            if obstacle is None:
                continue
            self._say(f"job {job.jobid} on {self._where(job)}: {obstacle.why}", obstacle.why)
            out = self._without(self._place(job).nodes) if obstacle.standing or idle_only() else {}
            if out and self._goes_on_without(job, out):
                self._release(job)
                continue
            if obstacle.standing or out:
                self.cancel_wait(job, obstacle)
                scheduler.cancel(job)

    def lost_host(self, job_id: str | None) -> Failure | None:
        """The failure of a job that was cancelled because the node of its batch script did not
        answer: of that node, unless it answers by now.
        """
        node = self._lost_hosts.get(job_id or "")
        if node is None:
            return None
        message = f"the conductor of the sweep ran on {_silence(node)}"
        step = f"scontrol show node {node.name}"
        if slurm_nodes.stays_silent(node.name):
            return Failure(LOST, message, (node.name,), step)
        return Failure(DISTURBED, f"not measured: {message}, for a while", (node.name,), step)

    def _look_at_hosts(self, scheduler: Any, running: Sequence[Any]) -> None:
        """Cancel jobs whose batch script's node is gone. Slurm does so except for --no-kill: such a
        job goes on to its time limit without its conductor.
        """
        jobs = {j.jobid: j for j in running if "--no-kill" in j.options and not j.is_cancelling}
        now = time.monotonic()
        if not jobs or now < self._hosts_looked_at + _HOSTS_S:
            return
        self._hosts_looked_at = now
        try:
            self._hosts |= slurm_jobs.batch_hosts(jobs.keys() - self._hosts.keys())
            hosts = {self._hosts[job] for job in jobs if job in self._hosts}
            silent = slurm_nodes.silent(hosts)
        except PrerequisiteError:
            return
        gone = self._gone(hosts, silent)
        for number, job in jobs.items():
            node = silent.get(self._hosts.get(number, ""))
            if node is not None and node.name in gone:
                self._lost_hosts[number] = node
                self._say(f"job {number} is cancelled: its conductor's node {_silence(node)}")
                scheduler.cancel(job)

    def is_transient(self, job: Any, reason: str) -> bool:
        """Whether Slurm's `reason` is that nodes are not available, and only jobs that run there
        are in the way: under load Slurm gives this reason for busy nodes, too.
        """
        if not reason.startswith(NOT_AVAILABLE) or "Unavailable" in reason:
            return False
        held = self._node_obstacles(sorted(self._place(job).nodes))
        return bool(held) and all(obstacle.job for obstacle in held.values())

    def may_register(self, job: Any, reasons: Collection[str]) -> bool:
        """Whether the nodes for which a job waits may be there in a moment: a controller that has
        just started takes all of them for unavailable until they have registered.
        """
        if not any("Unavailable" in why for why in reasons):
            return False
        if time.time() - job.submit_time > slurm_nodes.REGISTERED_S:
            return False
        held = self._node_obstacles(sorted(self._place(job).nodes))
        return not any(obstacle.standing for obstacle in held.values())

    def cancel_wait(self, job: Any, obstacle: Obstacle | None = None) -> None:
        """End the wait of a job, and of every other with the same obstacle."""
        obstacle = obstacle or self._obstacle(job)
        why = f": {obstacle.why}" if obstacle else ""
        # A standing reason has no duration in it, so that several cases have the same one.
        waited = f"waited {time.time() - job.submit_time:.0f} s for its nodes"
        begins = "not started" if obstacle and obstacle.standing else waited
        job._exception = JobError(f"{begins}{why}", job.jobid)
        self._remember(job)
        if obstacle and obstacle.why.startswith(_SLURM_SAYS):
            self._waited_in_vain.add(
                (self._place(job).partition, obstacle.why.removeprefix(_SLURM_SAYS))
            )

    def _explain(self, job: Any) -> None:
        """Add who is in the way, and why, to the error of a job that ReFrame has cancelled."""
        if type(job._exception) is not JobBlockedError:
            return
        held = self._node_obstacles(sorted(self._place(job).nodes))
        why = f"; {waiting.words(held)}" if held else ""
        job._exception = JobError(f"{_message(job._exception)}{why}", job.jobid)
        self._remember(job)

    def _remember(self, job: Any) -> None:
        place = self._place(job)
        # Only the nodes that are in the way, not the others of this case.
        self._blocked_nodes |= self._node_obstacles(sorted(place.nodes))
        if self._partition_obstacle(place.partition, place.reserved):
            self._blocked_partitions.add(place.partition)

    def _obstacle(self, job: Any) -> Obstacle | None:
        """The obstacle that a job waits for, or else Slurm's own reason."""
        place = self._place(job)
        obstacle = self._partition_obstacle(place.partition, place.reserved)
        if obstacle is not None:
            return obstacle
        held = self._node_obstacles(sorted(place.nodes))
        if held:
            return Obstacle(waiting.words(held), any(o.standing for o in held.values()))
        try:
            reason = waiting.of_pending([job.jobid]).get(job.jobid, "")
        except PrerequisiteError as error:
            return Obstacle(f"{_SLURM_SAYS}{error.message}", standing=False)
        if not reason or job.jobid in self._held_jobs:
            return None
        # For a job with several nodes Slurm says only that some are down, drained or reserved.
        if "DOWN" in reason and (dead := slurm_nodes.dead(place.nodes)):
            words = f"{NOT_AVAILABLE}, UnavailableNodes:{hostlist.fold(dead)}"
            return Obstacle(f"{_SLURM_SAYS}{words}", standing=True)
        # Where one job has waited in vain, others would, too.
        standing = reason in waiting.STANDING or (place.partition, reason) in self._waited_in_vain
        return Obstacle(f"{_SLURM_SAYS}{reason}", standing)

    def _looks_at_nodes_of(self, job: Any, now: float) -> bool:
        """Whether the nodes of a job that waits are to be looked at now."""
        looked_at = self._nodes_looked_at.setdefault(job.jobid, job.submit_time)
        interval_s = _NODES_S + _EACH_S * len(self._place(job).nodes)
        if job.state != "PENDING" or now < looked_at + interval_s:
            return False
        self._nodes_looked_at[job.jobid] = now
        return True

    def _held(self, nodes: Collection[str]) -> dict[str, Failure]:
        """Node -> what keeps a job from starting there until somebody acts; where only idle nodes
        count, also what ends by itself.
        """
        kind, any_of_them = (TAKEN, True) if idle_only() else (DISTURBED, False)
        return {
            node: Failure(kind, f"not measured: {node} {obstacle.why}", (node,))
            for node, obstacle in self._node_obstacles(sorted(nodes)).items()
            if obstacle.standing or any_of_them
        }

    def _without(self, nodes: Collection[str]) -> dict[str, Failure]:
        """As `takes_no_job`, without waiting for nodes that are silent since just now."""
        try:
            gone = self._gone(nodes, slurm_nodes.silent(nodes))
        except PrerequisiteError:
            return {}
        return {**self._held(nodes), **_unavailable(gone)}

    def _gone(self, nodes: Collection[str], silent: Mapping[str, SlurmNode]) -> list[str]:
        """Those of `nodes` that Slurm has given up, and so taken out of their jobs, and those that
        have been silent for long: to a restarted controller all are until they have registered.
        """
        now = time.monotonic()
        for node in nodes:
            # What was between two looks that are far apart, nobody knows.
            since, last = self._silent.pop(node, (now, now))
            if node in silent:
                self._silent[node] = (since if now - last <= _SEEN_S else now, now)
        return sorted(
            name
            for name, node in silent.items()
            if node.is_down or now - self._silent[name][0] > slurm_nodes.REGISTERED_S
        )

    def _goes_on_without(self, job: Any, out: Mapping[str, Failure]) -> bool:
        """Whether a job has begun meanwhile with all of its nodes, or could be shrunk to those that
        are not `out`, of which two at least are left. It is to be released afterwards.
        """
        place = self._place(job)
        left = place.nodes - out.keys()
        try:
            if job.name not in self.may_shrink or len(left) < _FEWEST:
                return not slurm_jobs.waits(job.jobid)
            self._held_jobs.add(job.jobid)
            if not slurm_jobs.hold(job.jobid):
                self._held_jobs.discard(job.jobid)
                return True
            slurm_jobs.shrink(job.jobid, left)
        except PrerequisiteError:
            return False
        self._places[job.name] = dataclasses.replace(place, nodes=left)
        self._left_out[job.name] = {**self._left_out.get(job.name, {}), **out}
        return True

    def _release(self, job: Any) -> None:
        """Let go of a job that this session holds; where Slurm does not answer, at a later look."""
        if job.jobid in self._held_jobs:
            with contextlib.suppress(PrerequisiteError):
                slurm_jobs.release(job.jobid)
                self._held_jobs.discard(job.jobid)

    def _place(self, job: Any) -> _Place:
        return self._places.get(job.name, _Place("", frozenset()))

    def _where(self, job: Any) -> str:
        return hostlist.fold(self._place(job).nodes) or "any nodes"

    # A silent controller is no known obstacle.

    def _partition_obstacle(self, name: str, reserved: bool) -> Obstacle | None:
        reserved = reserved or bool(reservations.ours())
        try:
            return waiting.of_partition(name, reserved) if name else None
        except PrerequisiteError:
            return None

    def _node_obstacles(self, nodes: Sequence[str]) -> dict[str, Obstacle]:
        try:
            return waiting.of_nodes(nodes, self._our_jobs, self._our_reservations)
        except PrerequisiteError:
            return {}

    def _say(self, words: str, about: str | None = None) -> None:
        if (about or words) not in self._reported:
            self._reported.add(about or words)
            self._tell(words)


def idle_only() -> bool:
    """Whether only idle nodes are measured: `railgauge accept --idle`."""
    return bool(os.environ.get(variables.IDLE))


def _unavailable(nodes: Iterable[str]) -> dict[str, Failure]:
    return {
        node: Failure(
            UNAVAILABLE,
            f"{node} does not answer Slurm",
            (node,),
            next_step=f"scontrol show node {node}",
        )
        for node in nodes
    }


def _silence(node: SlurmNode) -> str:
    return f"{node.name}, which {node.unavailable_reason or 'does not answer Slurm'}"


def _message(error: JobError) -> str:
    return str(error).partition("] ")[2] or str(error)


#: The session's own: one process is one session.
session = Queue()
