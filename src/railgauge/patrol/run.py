"""`railgauge patrol`: an acceptance of a few idle nodes, and what follows for those it accuses.

Nothing is changed before the verdict: whatever ends a patrol, its nodes stay in service, and the
results until then are in its campaign.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from railgauge import hostlist, systems
from railgauge.acceptance import accept, request, session
from railgauge.campaign import variables
from railgauge.campaign.folder import ENOUGH, PATROL, Campaign
from railgauge.checks.framework.topology import leaves_of
from railgauge.cluster import rights, store
from railgauge.cluster.store import GateRules
from railgauge.common.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, EXIT_REJECT, RailgaugeError
from railgauge.gate import coverage, enforcement, partners
from railgauge.gate import journal as gate_journal
from railgauge.gate.coverage import NodeSummary
from railgauge.hooks import Say
from railgauge.patrol import journal
from railgauge.patrol.choose import (
    Candidate,
    Choice,
    Way,
    choose,
    due_after_restart,
    ways_of,
)
from railgauge.patrol.journal import Patrol
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode
from railgauge.systems import Partition
from railgauge.verdict.decision.node_status import standings
from railgauge.verdict.decision.verdict import Verdict

#: How long a session that is to end may go on, to read what its job measured. No user waits for it.
_READ_S = 12.0

#: So many times `every_days` a path between two leaves is remembered.
_WAYS_KEPT = 4

#: The beginnings of the reasons that its time is over, and that another user wanted its nodes.
#: What was measured until then is judged.
_SPENT = "used up: the budget"
PREEMPTED = "Slurm preempted job"


@dataclasses.dataclass(frozen=True)
class Fleet:
    """The nodes of a system: `candidates` by partition, nodes that are left alone with the reason,
    how many may be under test now, and the leaves of each partition where they are known.
    """

    candidates: Mapping[str, Sequence[Candidate]]
    left_alone: Mapping[str, str]
    most: int
    leaves: Mapping[str, Collection[str]]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a patrol would test: in which partition, for which risks, for about how long."""

    partition: str
    choice: Choice
    leaves: Mapping[str, list[str]]
    risks: Mapping[str, tuple[str, ...]]
    seconds: float


def survey(system: str, rules: GateRules, now: datetime.datetime) -> Fleet:
    """All nodes as Slurm and the records have them. SlurmError where Slurm does not answer."""
    known = slurm_nodes.show()
    everybody = set(systems.load(system).nodes)
    states = {node: state for node, state in known.items() if node in everybody}
    restarted = {n: s.booted.timestamp() for n, s in states.items() if s.booted is not None}
    patrol_rules = rules.patrol
    due = due_after_restart(
        restarted, patrol_rules.max_under_test, patrol_rules.settle_s, patrol_rules.turn_s
    )
    updating = gate_journal.in_update(system, states)
    left_alone = {
        node: why
        for node in sorted(everybody)
        if (
            why := updating.get(node)
            or _why_left_alone(states.get(node), due.get(node, 0) - now.timestamp())
        )
    }
    lines = coverage.lines(system, sorted(everybody), known, now)
    suspects = {
        n
        for n in everybody
        if store.suspected(system, n) or (n in states and states[n].drained_by_us)
    }
    across = journal.across(system, now, patrol_rules.every_days)
    candidates: dict[str, list[Candidate]] = {}
    leaves_by_partition: dict[str, set[str]] = {}
    for partition in systems.load(system).partitions:
        leaves = leaves_of(partition)
        of_node = leaves.of_node if leaves else {}
        if leaves:
            leaves_by_partition[partition.name] = {of_node[node] for node in partition.nodes}
        for line in lines:
            if line.partition == partition.name and line.node not in left_alone:
                leaf = of_node.get(line.node, "")
                near = [n for n in suspects if leaf and of_node.get(n) == leaf and n != line.node]
                candidates.setdefault(partition.name, []).append(
                    _candidate(line, leaf, near, across, now)
                )
        in_order = partition.nodes.index
        candidates.get(partition.name, []).sort(key=lambda candidate: in_order(candidate.node))
    under_test = slurm_jobs.nodes_of_campaigns()
    broken = gate_journal.unended(system)
    if broken is not None:
        under_test |= set(broken.open_nodes)
    most = patrol_rules.max_under_test - len(under_test & everybody)
    return Fleet(candidates, left_alone, most, leaves_by_partition)


def _why_left_alone(state: SlurmNode | None, due_in_s: float) -> str:
    """Why a node is not tested now; "" where it may be."""
    if state is None:
        return "Slurm does not know it"
    if state.unavailable_reason:
        return state.unavailable_reason
    if state.busy:
        return "has jobs"
    if state.asleep:
        return slurm_nodes.ASLEEP
    if "PLANNED" in state.flags:
        return "a job is about to start there"
    if due_in_s > 0:
        return f"restarted at {state.booted}, its turn is in {due_in_s / 60:.0f} min"
    return ""


def _candidate(
    line: NodeSummary,
    leaf: str,
    suspects_near: Sequence[str],
    across: Collection[str],
    now: datetime.datetime,
) -> Candidate:
    tested = line.judged or line.accepted
    days = coverage.days_since(tested.campaign if tested else None, now)
    risks = []
    if line.changed:
        risks.append("its fingerprint is not the accepted one")
    if line.not_held:
        risks.append(f"changed, and {line.not_held}")
    if tested is not None and tested.outcome == "not accepted":
        risks.append(f"not accepted by {tested.campaign}")
    if line.doubted is not None:
        risks.append(f"something was wrong in {line.doubted.campaign}, which broke off")
    if line.flaps:
        risks.append(line.flapped)
    if suspects_near:
        risks.append(f"on {leaf} with suspect {hostlist.fold(suspects_near)}")
    known_days = {} if days is None else {"days": days}
    retest = any(
        test is not None and test.open and test.campaign in across
        for test in (tested, line.doubted)
    )
    return Candidate(line.node, leaf, risks=tuple(risks), retest=retest, **known_days)


def plan(system: str, rules: GateRules, fleet: Fleet, nodes: int, budget_s: float) -> Plan | None:
    """The plan of nodes to test now, as many as the budget lets; None where there are too few.

    RailgaugeError where the budget is too short for the smallest test.
    """
    now = datetime.datetime.now(datetime.timezone.utc)
    ways = journal.ways(system, now, _WAYS_KEPT * rules.patrol.every_days)
    most = min(nodes, fleet.most)
    planned: Plan | None = None
    while True:
        partition, choice = _choice(system, rules, fleet, most, ways)
        if partition is None:
            break
        by_name = {candidate.node: candidate for candidate in fleet.candidates[partition.name]}
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
    """The choice in the partition with the most urgent node, among those with enough idle nodes."""
    best: tuple[float, Partition, Choice] | None = None
    for partition in systems.load(system).partitions:
        candidates = fleet.candidates.get(partition.name, ())
        least = min(rules.partners + 1, len(partition.nodes))
        choice = choose(candidates, most, least, ways)
        if choice.nodes:
            urgency = max(candidate.urgency for candidate in candidates)
            if best is None or urgency > best[0]:
                best = (urgency, partition, choice)
    return (best[1], best[2]) if best else (None, Choice())


def _seconds(system: str, rules: GateRules, partition: Partition, choice: Choice) -> float:
    folded = hostlist.fold(choice.nodes)
    with _environment(system, partition.name, choice):
        scope = request.scope(system, partition.name, folded)
        listed = request.plan(system, scope, folded, "acceptance", _options(rules))
    return sum(case.seconds or 0.0 for case in listed)


@contextlib.contextmanager
def _environment(system: str, partition: str, choice: Choice) -> Iterator[None]:
    """Set the environment variables that a patrol's session reads."""
    names = (variables.IDLE, variables.SCHEDULE, "RFM_SYSTEM")
    before = {name: os.environ.get(name) for name in names}
    os.environ[variables.IDLE] = "1"
    if choice.cover:
        os.environ[variables.SCHEDULE] = "cover"
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
    """The options of ReFrame. A preempted job must not start again, as another user has its nodes
    by then. srun has no such option, so it is a line of the jobs' scripts.
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
    """Test the planned nodes, and treat those that checks accuse as `enforcement` says.

    A patrol ends early when its budget is used up, a job of it is preempted, or a signal comes.
    What was measured until then is kept and judged; after a signal it is kept only.
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
    for words in journal.set_aside_damaged(system, _WAYS_KEPT * rules.patrol.every_days):
        say(words)
    lacking = rights.missing(system)
    if lacking:
        say(f"findings are only recorded: {lacking[0]}")
    end = _StopReason(budget_s)

    def begun(campaign: Campaign) -> None:
        patrol.campaign = campaign.id
        end.campaign = campaign
        _write_enough(campaign, "")
        patrol.save()

    folded = hostlist.fold(planned.choice.nodes)
    with _environment(system, planned.partition, planned.choice):
        scope = request.scope(system, planned.partition, folded)
        verdict = accept.run(
            *(system, scope, folded, "acceptance", _options(rules), command, say),
            begun=begun,
            owner=PATROL,
            stop=end.why,
        )
    patrol.stopped, judged = _stop_reason(verdict)
    if patrol.stopped:
        measured = sum(case.complete for case in verdict.cases)
        say(
            f"stopped: {patrol.stopped}; {measured} of {len(verdict.cases)} places were measured "
            f"and are kept in {verdict.campaign.id}" + ("" if judged else "; they judge no node")
        )
    patrol.ways = _ways_measured(patrol, verdict)
    if judged:
        patrol.exit_code = _judge(patrol, rules, verdict, say, bool(lacking))
    else:
        patrol.exit_code = EXIT_INCONCLUSIVE
        patrol.not_tested = dict.fromkeys(patrol.nodes, patrol.stopped)
    patrol.ended = store.now()
    patrol.save()
    minutes = (time.monotonic() - end.began) * len(patrol.nodes) / 60
    say(f"{verdict.campaign.id}: {verdict.decision}, {minutes:.1f} node-minutes")
    return patrol


class _StopReason:
    """Why the session of a patrol must end early; asked every few seconds."""

    def __init__(self, budget_s: float) -> None:
        self.began = time.monotonic()
        self._budget_s = budget_s
        self.campaign: Campaign | None = None
        #: since when a job of it is preempted, and since when the budget is used up
        self._lost: float | None = None
        self._spent: float | None = None

    def why(self) -> str:
        """The reason; "" while it may go on, also where Slurm does not answer."""
        now = time.monotonic()
        preempted = ""
        with contextlib.suppress(SlurmError):
            preempted = _preempted(self.campaign.id) if self.campaign else ""
        if preempted:
            self._lost = self._lost or now
            return preempted if now - self._lost >= _READ_S else ""
        if now - self.began <= self._budget_s:
            return ""
        if self._spent is None:
            self._spent = now
            if self.campaign is not None:
                _write_enough(self.campaign, "the budget is used up\n")
        return f"{_SPENT} of {self._budget_s / 60:g} min" if now - self._spent >= _READ_S else ""


def _write_enough(campaign: Campaign, words: str) -> None:
    """Write the file that ends a sweep's rounds; it is empty until then. Nodes see at once what is
    written into an existing file, a new file only after a while. On a full disk the end is harder.
    """
    with contextlib.suppress(OSError):
        (campaign.folder / ENOUGH).write_text(words, encoding="utf-8")


def _preempted(campaign: str) -> str:
    """Which jobs of a campaign Slurm preempted, in words; "" for none."""
    preempted = slurm_jobs.preempted_jobs_of(campaign)
    return f"{PREEMPTED} {' '.join(preempted)}" if preempted else ""


def _stop_reason(verdict: Verdict) -> tuple[str, bool]:
    """Why a patrol was stopped, "" where it was not; and whether its results are judged."""
    campaign = verdict.campaign
    if campaign.state == "finished":
        # Its last job may have been preempted, after which the session ended by itself.
        with contextlib.suppress(SlurmError):
            return _preempted(campaign.id), True
        return "", True
    why = (campaign.session.interrupted_by if campaign.session else "") or campaign.state
    return why, campaign.state == "interrupted" and why.startswith((_SPENT, PREEMPTED))


def _ways_measured(patrol: Patrol, verdict: Verdict) -> list[Way]:
    """The ways between two leaves on which every planned check was completed."""
    leaf = {node: name for name, nodes in patrol.leaves.items() for node in nodes}
    completed: dict[Way, dict[str, bool]] = {}
    for case in verdict.cases:
        leaves = {leaf[node] for node in case.nodes if node in leaf}
        if len(case.nodes) == len(leaves) == 2:
            by_check = completed.setdefault(ways_of(leaves)[0], {})
            by_check[case.check] = by_check.get(case.check, False) or case.complete
    return [way for way, by_check in sorted(completed.items()) if all(by_check.values())]


def _judge(patrol: Patrol, rules: GateRules, verdict: Verdict, say: Say, record_only: bool) -> int:
    """Judge the nodes by what was measured; return the exit code."""
    alarms = enforcement.alarms(patrol.system, verdict, rules)
    if record_only:
        alarms = [dataclasses.replace(alarm, enforcement="record") for alarm in alarms]
    for alarm, words in enforcement.act(patrol.system, rules, alarms, f"patrol {patrol.id}"):
        patrol.found[alarm.node] = words
        say(f"{alarm.node}: {words}")
        if alarm.enforcement != "record":
            partners.alarm(alarm.node, words, say)
    node_standings = standings(verdict)
    good = [
        n for n in patrol.nodes if n in node_standings and node_standings[n].outcome == "accepted"
    ]
    accused = {alarm.node for alarm in alarms}
    undecided = 0
    for node in sorted(set(patrol.nodes) - set(good) - accused):
        known = node_standings.get(node)
        if known is None or known.outcome == "not tested":
            patrol.not_tested[node] = known.why if known else "nothing was measured on it"
            say(f"{node}: not tested: {patrol.not_tested[node]}")
        else:
            undecided += 1
            say(f"{node}: neither accepted nor accused: {known.why}")
    if not record_only:
        for line in enforcement.clear(patrol.system, good, patrol.started):
            say(line)
    if alarms:
        return EXIT_REJECT
    if good and not undecided:
        return EXIT_ACCEPT
    return verdict.exit_code or EXIT_INCONCLUSIVE
