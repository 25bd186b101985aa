"""`railgauge patrol`: an acceptance of a few idle nodes, and what follows for those it accuses.

Nothing is changed before the verdict: whatever ends a patrol, its nodes are in service, and what
was measured until then is in its campaign.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from railgauge import hostlist, systems
from railgauge.acceptance import accept, session
from railgauge.campaign.folder import ENOUGH, Campaign
from railgauge.checks.queue import IDLE_VARIABLE
from railgauge.checks.schedule import SCHEDULE_VARIABLE
from railgauge.checks.topology import leaves_of
from railgauge.cluster import rights, store
from railgauge.cluster.store import GateRules
from railgauge.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, EXIT_REJECT, RailgaugeError
from railgauge.gate import coverage, partners, teeth
from railgauge.gate import journal as gate_journal
from railgauge.gate.coverage import Line
from railgauge.patrol import journal
from railgauge.patrol.choose import Candidate, Choice, choose, due_after_restart
from railgauge.patrol.journal import Patrol
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmProblem
from railgauge.slurm.nodes import SlurmNode
from railgauge.systems import Partition
from railgauge.verdict.answer import Verdict
from railgauge.verdict.standing import standings

Say = Callable[[str], None]

#: How long a session goes on that is to end: until it has read what its job measured. Nobody waits
#: for that.
_READ_S = 12.0

#: How it begins to say that its time is over.
_SPENT = "used up: the budget"


@dataclasses.dataclass(frozen=True)
class Fleet:
    """The nodes of a system by what a patrol may do: `candidates` by partition, those that are left
    alone and why, and how many may be under test now.
    """

    candidates: Mapping[str, Sequence[Candidate]]
    left_alone: Mapping[str, str]
    most: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a patrol would test: of which partition, why, for about how long."""

    partition: str
    choice: Choice
    leaves: Mapping[str, list[str]]
    risks: Mapping[str, tuple[str, ...]]
    seconds: float


def survey(system: str, rules: GateRules, now: datetime.datetime) -> Fleet:
    """What Slurm and the records say of all nodes at this moment. SlurmProblem where Slurm does not
    answer.
    """
    known = slurm_nodes.show()
    everybody = {node for partition in systems.load(system).partitions for node in partition.nodes}
    states = {node: state for node, state in known.items() if node in everybody}
    restarted = {n: s.booted.timestamp() for n, s in states.items() if s.booted is not None}
    of = rules.patrol
    due = due_after_restart(restarted, of.max_under_test, of.settle_s, of.turn_s)
    left_alone = {
        node: why
        for node in sorted(everybody)
        if (why := _left_alone(states.get(node), due.get(node, 0) - now.timestamp()))
    }
    lines = coverage.lines(system, sorted(everybody), known, now)
    suspects = {
        n for n in everybody if store.suspected(system, n) or (n in states and states[n].ours)
    }
    across = journal.across(system, now, of.every_days)
    found: dict[str, list[Candidate]] = {}
    for partition in systems.load(system).partitions:
        leaves = leaves_of(partition)
        of_node = leaves.of_node if leaves else {}
        for line in lines:
            if line.partition == partition.name and line.node not in left_alone:
                leaf = of_node.get(line.node, "")
                beside = [n for n in suspects if leaf and of_node.get(n) == leaf and n != line.node]
                found.setdefault(partition.name, []).append(
                    _candidate(line, leaf, beside, across, now)
                )
        in_order = partition.nodes.index
        found.get(partition.name, []).sort(key=lambda one: in_order(one.node))
    under_test = slurm_jobs.nodes_of_campaigns()
    broken = gate_journal.unended(system)
    if broken is not None:
        under_test |= set(broken.open_nodes)
    return Fleet(found, left_alone, of.max_under_test - len(under_test & everybody))


def _left_alone(state: SlurmNode | None, due_in_s: float) -> str:
    """Why a node is not tested now; "" where it may be."""
    if state is None:
        return "Slurm does not know it"
    if state.outside:
        return state.outside
    if state.busy:
        return "has jobs"
    if "PLANNED" in state.flags:
        return "a job is about to start there"
    if due_in_s > 0:
        return f"restarted at {state.booted}, its turn is in {due_in_s / 60:.0f} min"
    return ""


def _candidate(
    line: Line,
    leaf: str,
    suspects_beside: Sequence[str],
    across: Collection[str],
    now: datetime.datetime,
) -> Candidate:
    tested = line.judged or line.accepted
    days = coverage.days_since(tested.campaign if tested else None, now)
    risks = []
    if line.changed:
        risks.append("its fingerprint is not the accepted one")
    if tested is not None and tested.outcome == "not accepted":
        risks.append(f"not accepted by {tested.campaign}")
    if line.flaps:
        risks.append(line.flapped)
    if suspects_beside:
        risks.append(f"beside {hostlist.fold(suspects_beside)} on {leaf}")
    told = {} if days is None else {"days": days}
    retest = tested is not None and tested.open and tested.campaign in across
    return Candidate(line.node, leaf, risks=tuple(risks), retest=retest, **told)


def plan(system: str, rules: GateRules, fleet: Fleet, nodes: int, budget_s: float) -> Plan | None:
    """The nodes to test now, as many as the budget lets; None where there are too few.

    RailgaugeError where the budget is too short for the fewest that can be tested.
    """
    now = datetime.datetime.now(datetime.timezone.utc)
    ways = journal.ways(system, now, 4 * rules.patrol.every_days)
    most = min(nodes, fleet.most)
    planned: Plan | None = None
    while True:
        partition, choice = _choice(system, rules, fleet, most, ways)
        if partition is None:
            break
        by_name = {one.node: one for one in fleet.candidates[partition.name]}
        leaves: dict[str, list[str]] = {}
        for node in choice.nodes:
            if by_name[node].leaf:
                leaves.setdefault(by_name[node].leaf, []).append(node)
        risks = {node: by_name[node].risks for node in choice.nodes if by_name[node].risks}
        planned = Plan(
            partition.name, choice, leaves, risks, _seconds(system, rules, partition, choice)
        )
        if planned.seconds <= budget_s:
            return planned
        most = len(choice.nodes) // 2
    if planned is not None:
        raise RailgaugeError(
            f"{len(planned.choice.nodes)} nodes of partition {planned.partition} take "
            f"{planned.seconds / 60:.1f} min, and the budget is {budget_s / 60:.1f} min",
            next_step=f"railgauge patrol --budget {planned.seconds // 60 + 1:.0f}m",
        )
    return None


def _choice(
    system: str, rules: GateRules, fleet: Fleet, most: int, ways: Mapping[tuple[str, str], float]
) -> tuple[Partition | None, Choice]:
    """Of the partition that has the most urgent node of those with enough idle ones."""
    best: tuple[float, Partition, Choice] | None = None
    for partition in systems.load(system).partitions:
        candidates = fleet.candidates.get(partition.name, ())
        least = min(rules.partners + 1, len(partition.nodes))
        choice = choose(candidates, most, least, ways)
        if choice.nodes:
            urgency = max(one.urgency for one in candidates)
            if best is None or urgency > best[0]:
                best = (urgency, partition, choice)
    return (best[1], best[2]) if best else (None, Choice())


def _seconds(system: str, rules: GateRules, partition: Partition, choice: Choice) -> float:
    folded = hostlist.fold(choice.nodes)
    with _told(system, partition.name, choice):
        scope = accept.scope(system, partition.name, folded)
        listed = accept.plan(system, scope, folded, "acceptance", _options(rules))
    return sum(case.seconds or 0.0 for case in listed)


@contextlib.contextmanager
def _told(system: str, partition: str, choice: Choice) -> Iterator[None]:
    """What the session of a patrol is told by its environment."""
    names = (IDLE_VARIABLE, SCHEDULE_VARIABLE, "RFM_SYSTEM")
    before = {name: os.environ.get(name) for name in names}
    os.environ[IDLE_VARIABLE] = "1"
    if choice.cover:
        os.environ[SCHEDULE_VARIABLE] = "cover"
    session.use(system, partition)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _options(rules: GateRules) -> list[str]:
    """A job that Slurm preempted is not started again: its nodes are somebody else's by then. srun
    knows no such option, so that it stands as a line of the jobs' scripts.
    """
    return [
        word
        for option in (*rules.patrol.job_options, "#SBATCH --no-requeue")
        for word in ("-J", option)
    ]


def run(
    system: str,
    rules: GateRules,
    planned: Plan,
    budget_s: float,
    command: list[str],
    say: Say,
) -> Patrol:
    """Test them, and do with those that checks accuse what `teeth` says.

    It ends as well when the budget is used up, a job of it is preempted, or a signal comes. What
    was measured until the budget ended is judged; else nobody is, and what was measured is kept.
    """
    patrol = Patrol(
        id=gate_journal.new_id(),
        system=system,
        started=store.now(),
        by=gate_journal.me(),
        partition=planned.partition,
        nodes=list(planned.choice.nodes),
        leaves={leaf: list(members) for leaf, members in planned.leaves.items()},
        cover=planned.choice.cover,
        risks={node: list(risks) for node, risks in planned.risks.items()},
    )
    lacking = rights.missing(system)
    if lacking:
        say(f"what is found is only recorded: {lacking[0]}")
    end = _End(budget_s)

    def begun(campaign: Campaign) -> None:
        patrol.campaign = campaign.id
        end.campaign = campaign
        _tell_enough(campaign, "")
        patrol.save()

    folded = hostlist.fold(planned.choice.nodes)
    with _told(system, planned.partition, planned.choice):
        scope = accept.scope(system, planned.partition, folded)
        verdict = accept.run(
            *(system, scope, folded, "acceptance", _options(rules), command, say),
            begun=begun,
            stop=end.why,
        )
    # Also where it was the last one, after which the session ended by itself.
    with contextlib.suppress(SlurmProblem):
        patrol.stopped = _preempted(verdict.campaign.id)
    patrol.exit_code = _judge(patrol, rules, verdict, say, bool(lacking))
    patrol.ended = store.now()
    patrol.save()
    minutes = (time.monotonic() - end.began) * len(patrol.nodes) / 60
    say(f"{verdict.campaign.id}: {verdict.decision}, {minutes:.1f} node-minutes")
    return patrol


class _End:
    """Why the session of a patrol is to end before its end, asked every few seconds."""

    def __init__(self, budget_s: float) -> None:
        self.began = time.monotonic()
        self._budget_s = budget_s
        self.campaign: Campaign | None = None
        #: since when a job of it is somebody else's, and the budget used up
        self._lost: float | None = None
        self._spent: float | None = None

    def why(self) -> str:
        """ "" while it may go on, also where Slurm does not answer."""
        now = time.monotonic()
        gone = ""
        with contextlib.suppress(SlurmProblem):
            gone = _preempted(self.campaign.id) if self.campaign else ""
        if gone:
            self._lost = self._lost or now
            return gone if now - self._lost >= _READ_S else ""
        if now - self.began <= self._budget_s:
            return ""
        if self._spent is None:
            self._spent = now
            if self.campaign is not None:
                _tell_enough(self.campaign, "the budget is used up\n")
        return f"{_SPENT} of {self._budget_s / 60:g} min" if now - self._spent >= _READ_S else ""


def _tell_enough(campaign: Campaign, words: str) -> None:
    """Nothing until it is: of a file that is there a node sees what is written into it at once, and
    that one has come only after a while. A disk that is full makes the end a harder one.
    """
    with contextlib.suppress(OSError):
        (campaign.folder / ENOUGH).write_text(words, encoding="utf-8")


def _preempted(campaign: str) -> str:
    """Which of its jobs Slurm ended for somebody else's; "" where it did not."""
    gone = slurm_jobs.preempted_jobs_of(campaign)
    return f"Slurm preempted job {' '.join(gone)}" if gone else ""


def _judge(patrol: Patrol, rules: GateRules, verdict: Verdict, say: Say, record_only: bool) -> int:
    """By what was measured; of a patrol that was stopped for anything but its budget nobody is."""
    ended = verdict.campaign.session
    if verdict.campaign.state != "finished":
        ended_by = ended.interrupted_by if ended else ""
        patrol.stopped = patrol.stopped or ended_by or verdict.campaign.state
    judged = not patrol.stopped or patrol.stopped.startswith(_SPENT)
    if patrol.stopped:
        measured = sum(case.complete for case in verdict.cases)
        say(
            f"stopped: {patrol.stopped}; {measured} of {len(verdict.cases)} places were measured "
            f"and are kept in {verdict.campaign.id}"
            + ("" if judged else "; nobody is judged by them")
        )
    if not judged:
        return EXIT_INCONCLUSIVE
    found = teeth.alarms(verdict, rules)
    if record_only:
        found = [dataclasses.replace(one, teeth="record") for one in found]
    for line in teeth.act(patrol.system, rules, found, f"patrol {patrol.id}"):
        node, _, words = line.partition(": ")
        patrol.found[node] = words
        say(line)
    for one in found:
        if one.teeth != "record":
            partners.alarm(one.node, patrol.found[one.node], say)
    told = standings(verdict)
    good = [n for n in patrol.nodes if n in told and told[n].outcome == "accepted"]
    accused = {one.node for one in found}
    untold = 0
    for node in sorted(set(patrol.nodes) - set(good) - accused):
        known = told.get(node)
        if known is None or known.outcome == "not tested":
            patrol.not_tested[node] = known.why if known else "nothing was measured on it"
            say(f"{node}: not tested: {patrol.not_tested[node]}")
        else:
            untold += 1
            say(f"{node}: neither accepted nor accused: {known.why}")
    if not record_only:
        for line in teeth.clear(patrol.system, good):
            say(line)
    if found:
        return EXIT_REJECT
    if good and not untold:
        return EXIT_ACCEPT
    return verdict.exit_code or EXIT_INCONCLUSIVE
