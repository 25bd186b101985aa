"""Checks that measure many places in one job: a sweep.

The job's first node runs the conductor (railgauge.node.orchestration.conductor). It starts an agent
on every node and has them measure the places in rounds. Its output is judged here, place by place.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before

from railgauge import paths, systems
from railgauge.campaign.folder import ENOUGH
from railgauge.checks.framework import (
    bounds,
    schedule,
    slurm_queue,
    summary,
    topology,
)
from railgauge.checks.framework.cases import Case, PairCase, SweepCase
from railgauge.checks.framework.check import StrictCheck
from railgauge.checks.framework.observation import ExitLine, Judged, Observation
from railgauge.checks.framework.protections import JobEvidence
from railgauge.checks.jobs import pair_counters, retests, sweep_output
from railgauge.checks.jobs.sweep_end import SweepEnd
from railgauge.checks.jobs.sweep_output import SweepOutput, call_of
from railgauge.checks.jobs.sweep_run import JobOutput, SweepRun, Whole, agent_run
from railgauge.checks.jobs.uplink_counters import Counting, OwnTraffic
from railgauge.model.failure import DISTURBED, TAKEN, Failure
from railgauge.model.measurement import Load, Measurement
from railgauge.model.references import Reference
from railgauge.model.uplinks import CountersError, Uplink
from railgauge.node.orchestration.sweep_file import FILE as ORDERS
from railgauge.node.orchestration.sweep_file import Place, Retests, Sweep
from railgauge.node.orders.places import ClientServerOrder, SingleNodeOrder
from railgauge.node.orders.ranks import LaunchList
from railgauge.node.transport import results_file
from railgauge.slurm import nodes as slurm_nodes

#: What the conductor, its agents and Slurm's own work take beside the places.
_MARGIN_S = 120
#: A round on a slow day takes so many times what it should, and so much more.
SLOW, SLOW_S = 3, 10
#: So many rounds may come to their limits.
_HUNG = 2
#: So long an agent may take to come, on a node that is slow to start a Python.
_CONNECT_S = 60

#: Why a place without an event was not measured.
_NO_EVENT, _UNREAD = "its job ended before it", "what its job left cannot be read"


class Agents:
    """How the job of a sweep measures its places: the conductor has agents on the nodes do it in
    rounds (railgauge.node.orchestration.conductor).
    """

    #: the module of railgauge.node that the job's batch script runs
    program = "orchestration.conductor"
    #: whether it goes from round to round, also with a part of the nodes
    by_rounds = True

    def split(
        self, rounds_of_places: Sequence[Sequence[Case]], partition: systems.Partition
    ) -> list[list[Case]]:
        """The rounds of a job, of which each is of places that are measured at once."""
        return [list(places) for places in rounds_of_places]

    def expected_s(self, rounds_of_job: Sequence[tuple[SweepRun, int]]) -> float:
        """How long all rounds take, about, by the first run and the number of places of each."""
        return sum((agent_run(run).expected_run_s for run, _ in rounds_of_job), 0.0)

    def longest_s(self, rounds_of_job: Sequence[tuple[SweepRun, int]], retests: int) -> float:
        """Time for every round on a slow day, and for some rounds that come to their limit. What
        hangs in one of these is lost, and costs no other round its time.
        """
        total = most = slow = 0.0
        for run in (agent_run(run) for run, _ in rounds_of_job):
            longest = run.longest_run_s
            likely = min(longest, SLOW * run.expected_run_s + SLOW_S)
            slow, total, most = max(slow, likely), total + likely, max(most, longest)
        return total + retests * slow + _HUNG * most

    def orders(
        self, check: SweepCheck, rounds_of_job: Sequence[Sequence[Case]]
    ) -> Sweep | LaunchList:
        """The orders for the program and what it starts, by the rounds of a job."""
        places: dict[int, Place] = {}
        order_numbers: dict[str, int] = {}
        orders: list[ClientServerOrder | SingleNodeOrder] = []
        numbers = []
        conditions: dict[object, int] = {}
        leaves, campaign = topology.leaves_of(check.partition_data), paths.campaign_folder()
        for members in rounds_of_job:
            first = len(places)
            for place in members:
                with check.at(place):
                    run = agent_run(check.place_run)
                    order = run.order(check.bound_before)
                text = json.dumps(order.document(), sort_keys=True)
                if text not in order_numbers:
                    order_numbers[text] = len(orders)
                    orders.append(order)
                condition = place.condition, schedule.within(place, leaves)
                places[len(places)] = Place(
                    number=len(places),
                    name=place.place,
                    program=run.runner,
                    roles=run.nodes,
                    order=order_numbers[text],
                    of=conditions.setdefault(condition, len(conditions)),
                )
            numbers.append(tuple(range(first, len(places))))
        names, again = slurm_nodes.names_of(check.pinned_nodes), Retests()
        if rounds := check.retest_rounds:
            case = check.display_name, check.partition_data
            again = retests.orders(rounds, *case, check.pinned_nodes, Path(check.stagedir))
        return Sweep(
            tool=check.tool_name,
            nodes=tuple(check.pinned_nodes),
            names={node: tuple(others) for node, others in names.items()},
            launch=(),
            rounds=numbers,
            places=places,
            orders=tuple(orders),
            connect_limit_s=_CONNECT_S,
            retests=again,
            enough=str(campaign / ENOUGH) if campaign and slurm_queue.idle_only() else "",
        )

    def judge_whole(self, left: JobOutput) -> Whole:
        """The judgement of a job as a whole."""
        return Whole()


class SweepCheck(StrictCheck):
    """One job over all nodes of its places, which it measures in rounds.

    A concrete check gives its own `cases`, `sweep = parameter(cases.sweeps, loggable=True)` and
    `run_at()`, which returns a PairRun for two nodes (client_server.py), a NodeRun for one
    (single_node.py), and with `driver = GroupLaunches()` a GroupRun (group_launches.py).
    """

    sweep: SweepCase
    num_tasks_per_node = 1
    #: how its job measures the places
    driver = Agents()
    #: node -> why it was left out of this job
    _absent: Mapping[str, Failure]
    #: the places that this session is to measure, also those on nodes that were left out
    _wanted: Sequence[Case] = ()
    _rounds: Sequence[Sequence[Case]] = ()
    #: where switches between the nodes count what they carry
    _counting: Counting | None = None

    # --- the place at hand -------------------------------------------------------------------

    @property
    def sweep_run(self) -> SweepRun:
        """The run of the place at hand."""
        run = self.place_run
        if not isinstance(run, SweepRun):
            raise NotImplementedError(f"{type(self).__name__} gives no SweepRun in run_at()")
        return run

    @functools.cached_property
    def _flows(self) -> Sequence[Sequence[Case]]:
        """The rounds of flows that together are the only place; none where places are measured by
        themselves.
        """
        with self.at(self.places[0]):
            run = self.place_run
        return run.flows if isinstance(run, SweepRun) else ()

    def read(self) -> Observation:
        return self.sweep_run.observe(self, self.bound_before)

    def bound_of(self, measurement: Measurement) -> bounds.Bound | None:
        """The bound of a number that was measured at the place at hand."""
        return bounds.find_bound(self.bound_inputs, self.placed(measurement))

    def judge_whole(self, left: JobOutput) -> Whole:
        """The judgement of the job as a whole. Called once; `whole` keeps it."""
        return self.driver.judge_whole(left)

    @functools.cached_property
    def whole(self) -> Whole:
        return self.judge_whole(self.job_output)

    @functools.cached_property
    def job_output(self) -> JobOutput:
        return JobOutput(
            folder=Path(self.stagedir),
            system=self.current_system.name,
            partition=self.partition_data,
            nodes=tuple(self.pinned_nodes),
            places=self.places,
            measured=self._chosen,
            output=self._output,
            counting=self._counting,
            not_run=self.not_run,
            error=self.job_end.error,
        )

    # --- the case ------------------------------------------------------------------------------

    @property
    def target(self) -> SweepCase:
        return self.sweep

    @property
    def places(self) -> Sequence[Case]:
        return self.sweep.places

    @property
    def ranks(self) -> int:
        return self.sweep_run.ranks

    def nodes_here(self) -> tuple[str, ...]:
        return self.here.nodes

    def rounds_of(self, places: Sequence[Case]) -> list[list[Case]]:
        if self._flows:
            return [list(members) for members in self._flows]
        partition = self.partition_data
        leaves = topology.leaves_of(partition)
        rounds = schedule.rounds(places, schedule.of(partition), leaves)
        split = [[places[n] for n in numbers] for numbers in rounds]
        return self.driver.split(split, partition)

    @property
    def paired_by(self) -> systems.Sweep | None:
        """How its pairs follow from its nodes; None for a check without pairs."""
        return schedule.of(self.partition_data) if self._between_pairs else None

    @property
    def _between_pairs(self) -> bool:
        return isinstance(self.places[0], PairCase)

    @functools.cached_property
    def _all_rounds(self) -> Sequence[Sequence[Case]]:
        """The rounds of all places, whether or not this session measures them."""
        return self.rounds_of(self.places)

    @property
    def planned_rounds(self) -> int:
        return len(self._all_rounds)

    @property
    def expected_seconds(self) -> float:
        # Starting the agents, and Slurm's own second for a job.
        return self.driver.expected_s(self._first_runs(self._all_rounds)) + 2

    # --- the job -------------------------------------------------------------------------------

    def select_places(self) -> None:
        """Choose the places of this job: without those whose preconditions failed, and without
        those on nodes that take no job, or took none when the preconditions were to be measured.
        """
        wanted = [p for p in self.places if self.only is None or p.place in self.only]
        taken: Mapping[str, Failure] = {}
        absent: Mapping[str, Failure] = {}
        free = wanted
        if not self.is_dry_run():
            taken = self._taken_before(wanted)
            self.not_run.update(
                self.failed_preconditions(p for p in wanted if not taken.keys() & set(p.nodes))
            )
            wanted = [place for place in wanted if place.place not in self.not_run]
            free = [place for place in wanted if not taken.keys() & set(place.nodes)]
            if not free:
                reasons = [*self.not_run.values(), *(failure.message for failure in taken.values())]
                self.skip(reasons[0])
            absent = slurm_queue.session.takes_no_job(
                {node for place in free for node in place.nodes}
            )
        chosen = [place for place in free if not absent.keys() & set(place.nodes)]
        if not chosen:
            # The queue says why, of a job with all of their nodes.
            absent, chosen = {}, free
        self._wanted, self._absent = wanted, {**taken, **absent}
        self._rounds = self.rounds_of(chosen)
        there = {node for place in chosen for node in place.nodes}
        self.pinned_nodes = [node for node in self.sweep.nodes if node in there]
        with self.at(chosen[0]):
            run = self.sweep_run
        needs = run.job_needs(self.pinned_nodes)
        self.num_tasks_per_node = run.ranks_per_node
        self.num_tasks = len(self.pinned_nodes) * run.ranks_per_node
        if needs.gpus_per_node is not None:
            self.job.options += [f"--gpus-per-node={needs.gpus_per_node}"]
        # The others go on where a node dies; and of whole nodes all of their memory.
        self.job.options += ["--no-kill", "--mem=0", *needs.options]
        if needs.modules:
            self.modules = list(needs.modules)
        self.prerun_cmds += list(needs.commands)
        self.time_limit = f"{int(self._longest_s(self._rounds)) + 1}s"

    def _taken_before(self, places: Sequence[Case]) -> Mapping[str, Failure]:
        """Node -> why, of the nodes that were somebody else's when the places' preconditions were
        to be measured: their partners are judged as if they still were.
        """
        needed = dict.fromkeys(case for place in places for case, _ in self.needs(place))
        results = (judged for case in needed for judged in self.getdep(case).results)
        failures = (failure for judged in results for failure in judged.failures)
        return {n: failure for failure in failures if failure.kind == TAKEN for n in failure.nodes}

    def _longest_s(self, rounds_of_job: Sequence[Sequence[Case]]) -> float:
        longest = self.driver.longest_s(self._first_runs(rounds_of_job), self.retest_rounds)
        return longest + _CONNECT_S + _MARGIN_S

    def _first_runs(self, rounds_of_job: Sequence[Sequence[Case]]) -> list[tuple[SweepRun, int]]:
        """The first run of each round, and the number of its places."""
        firsts = []
        for places in rounds_of_job:
            with self.at(places[0]):
                firsts.append((self.sweep_run, len(places)))
        return firsts

    @property
    def retest_rounds(self) -> int:
        """The most rounds that may be added, of pairs that tell who is at fault."""
        if not self._between_pairs:
            return 0
        with self.at(self.places[0]):
            located = agent_run(self.place_run).runner == "client_server"
        return schedule.of(self.partition_data).locate_rounds if located else 0

    @property
    def longest_seconds(self) -> float:
        """The longest that the job may take, with all of its places."""
        return self._longest_s(self._all_rounds)

    @run_before("run")
    def start_sweep(self) -> None:
        orders = self.orders()
        Path(self.stagedir, ORDERS).write_text(json.dumps(orders.document()), encoding="utf-8")
        if self.driver.by_rounds:
            slurm_queue.session.may_shrink.add(self.job.name)
        # The driver starts what runs on the nodes itself.
        self.job.launcher = getlauncher("local")()
        words = paths.on_node(self.driver.program)
        self.executable, *self.executable_opts = [*map(shlex.quote, words), ORDERS]

    @run_before("run")
    def count_before(self) -> None:
        if not self.is_dry_run():
            with self.at((self.places if self._flows else self._chosen)[0]):
                self._counting = self.sweep_run.counting(alone=len(self._chosen) == 1)

    @run_after("run")
    def count_after(self) -> None:
        if self._counting is not None:
            self._counting.end()

    def orders(self) -> Sweep | LaunchList:
        """The orders for the driver."""
        return self.driver.orders(self, self._rounds)

    # --- what it left --------------------------------------------------------------------------

    @functools.cached_property
    def _output(self) -> SweepOutput:
        return sweep_output.read(Path(self.stagedir, results_file.FILE), self._chosen)

    @property
    def _raw(self) -> results_file.Raw:
        return self._output.recorded

    @property
    def _chosen(self) -> list[Case]:
        """The places of this job, by the numbers that the conductor has for them."""
        return [place for members in self._rounds for place in members]

    def like(self, place: Case) -> str:
        added = self._output.added_as(place)
        return added.like if added else ""

    def is_quiet(self, place: Case) -> bool:
        added = self._output.added_as(place)
        return added is not None and added.quiet

    @property
    def load(self) -> Load | None:
        here = self.here
        if isinstance(here, PairCase) and here.again:
            added = [one.place for one in self._output.added if one.place.again == here.again]
            return schedule.load(here, added)
        number = self._round_of.get(here.place)
        return None if number is None else schedule.load(here, self._rounds[number])

    @functools.cached_property
    def _round_of(self) -> Mapping[str, int]:
        return {p.place: number for number, members in enumerate(self._rounds) for p in members}

    def round_of(self, place: Case) -> int | None:
        if isinstance(place, PairCase) and place.again:
            return len(self._rounds) + place.again - 1
        return self._round_of.get(place.place)

    def exit_line(self, role: str) -> ExitLine | None:
        return self._output.exit_line(self.here, role)

    def text(self, file: str) -> str:
        return self._output.text(self.here, file)

    def places_to_judge(self) -> Sequence[Case]:
        """The places that came to an end. `not_run` gets the others, with the reason.

        A lost node fails the first place in which it is lost, and no other. If the job was ended
        from outside, its agents were too, and none of them is lost.
        """
        if self._flows:
            if self._raw.places or self._raw.lost:
                return self.places
            # The failures of the job say why.
            self.not_run = {place.place: _NO_EVENT for place in self.places}
            return []
        gone = [node for node, why in self._raw.lost.items() if why == results_file.NOT_OURS]
        why = "not measured: another job had it when this one began"
        without = slurm_queue.session.left_out(self.job.name)
        left_out = {n: without.get(n) or Failure(TAKEN, f"{why}: {n}", (n,)) for n in gone}
        self._absent = {**self._absent, **left_out}
        judged: list[Case] = [p for p in self._wanted if self._absent.keys() & set(p.nodes)]
        known_lost: set[str] = set()
        for place in (*self._chosen, *(added.place for added in self._output.added)):
            if self._absent.keys() & set(place.nodes):
                continue
            event = self._output.event(place)
            is_lost = event is not None and event["outcome"] == "lost"
            lost = {node for node in place.nodes if node in self._raw.lost} if is_lost else set()
            has_output = event is not None and event["outcome"] in ("done", "late")
            is_news = has_output or (lost - known_lost and self._end.came_to_its_end)
            if self.like(place) and not is_news:
                # It was not planned, and says nothing new.
                continue
            if event is None:
                self.not_run[place.place] = _UNREAD if self._output.unreadable else _NO_EVENT
            elif is_lost and not self._end.came_to_its_end:
                self.not_run[place.place] = _NO_EVENT
            elif event["outcome"] == "refused" or (lost and lost <= known_lost):
                self.not_run[place.place] = event["why"]
            else:
                judged.append(place)
                known_lost |= lost
        return judged

    def judge_place(self, place: Case) -> Judged:
        if self._flows:
            lost_of_all = [f for node in sorted(self._raw.lost) for f in self._end.lost(node)]
            if not lost_of_all:
                return super().judge_place(place)
            return Judged(place, dataclasses.replace(self._end.job, nodes=place.nodes), lost_of_all)
        failures = [self._absent[node] for node in place.nodes if node in self._absent]
        event = {} if failures else self._raw.places[self._output.number(place)]
        if event.get("outcome") == "lost":
            lost = [node for node in place.nodes if node in self._raw.lost]
            failures = [failure for node in lost for failure in self._end.lost(node)]
        if not failures:
            judged = super().judge_place(place)
            if judged.passed or not self._end.was_cut(event):
                return judged
            failures = [
                Failure(DISTURBED, f"not measured: Slurm says {self.job_end.state} for its job")
            ]
        return Judged(place, dataclasses.replace(self._end.job, nodes=place.nodes), failures)

    def is_settled(self) -> bool:
        return self._output.event(self.here) is not None

    def _evidence(self) -> tuple[JobEvidence, list[Failure]]:
        evidence, failures = super()._evidence()
        event = self._output.event(self.here)
        if event and event["outcome"] != "done" and not evidence.missing_program:
            failures.append(Failure("late", f"{event['outcome']}: {event['why']}"))
        return evidence, failures

    def job_failures(self) -> Sequence[Failure]:
        """The failures of a job that did not come to its own end."""
        lost = slurm_queue.session.lost_host(self.job.jobid)
        return [*(self._end.failures() if lost is None else [lost]), *self.whole.failures]

    @functools.cached_property
    def _end(self) -> SweepEnd:
        """The end of the job itself, without its places.

        Only the failure of the conductor's node ends a job with --no-kill. Accounting may name
        another node, on which it looked for the conductor afterwards.
        """
        begin, nodes = self._raw.begin, tuple(self.pinned_nodes)
        host = str(begin["host"]) if begin else nodes[0]
        failed = self.job.state == "NODE_FAIL" and slurm_nodes.dead([host])
        lines = [side.line for sides in self._raw.sides.values() for side in sides.values()]
        calls = tuple(call for line in lines if (call := call_of(line)) is not None)
        job = JobEvidence(
            job_id=self.job.jobid,
            job_state=self.job_end.state,
            job_exit_code=self.job.exitcode,
            job_error=self.job_end.error,
            left_output=self.job_end.left_output,
            failed_nodes=(host,) if failed else (),
            nodes=nodes,
            calls=calls,
            acceptance=self.gate == "acceptance",
            tool_errors={},
            ranks=0,
            reading=None,
            expected={},
            expected_on={},
            seen_on={},
            required=(),
            limits={},
            references={},
            recorded=frozenset(),
            budgets=(),
        )
        return SweepEnd(job, self._output, host, by_rounds=self.driver.by_rounds)

    def _failed_nodes(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        return self._end.job.failed_nodes

    def uplinks_carried(self) -> tuple[Sequence[Uplink], Mapping[str, tuple[int, int]]]:
        """Of leaves whose uplinks nothing else used; FabricBalance checks that they are read."""
        leaves, fabric = self._leaves, self.partition_data.extras.fabric
        if self._counting is None or leaves is None or fabric is None or not self._between_pairs:
            return (), {}
        own = OwnTraffic(leaves.of_node, apart=fabric.hash == "layer3+4")
        for place in (judged.place for judged in self.results):
            if len({leaves.of_node.get(node) for node in place.nodes} - {None}) == 2:
                with self.at(place):
                    streams = agent_run(self.place_run).streams or 1
                for counted in pair_counters.counted_runs(place, self._output):
                    own.add(counted, streams)
        try:
            return own.alone_on(self._counting.carried())
        except CountersError:
            return (), {}

    def notes_of_job(self) -> Sequence[str]:
        """Those of the job as a whole, and what of uplinks and routes could not be read: a report
        of a bad uplink must not take what is missing for what is good.
        """
        notes = list(self.whole.notes)
        if not self._between_pairs:
            return notes
        if unread := self._counting.unread if self._counting else "":
            fix = "run it by hand, or fix extras.fabric.counters"
            notes.append(f"the counters of the uplinks could not be read {unread}; {fix}")
        if problem := topology.routes_of(self.partition_data).problem:
            notes.append(f"the routes are not known: {problem}; run it by hand, or fix it")
        return notes

    # --- for ReFrame ---------------------------------------------------------------------------

    def complaints(self) -> list[str]:
        return summary.complaints(self.results, self.not_run)

    def numbers(self) -> Mapping[str, tuple[float, str, Reference | None]]:
        """Of each condition the worst, the median, and how many places failed."""
        planned = [judged for judged in self.results if not self.like(judged.place)]
        not_run = [place for place in self.places if place.place in self.not_run]
        return summary.numbers(planned, not_run)
