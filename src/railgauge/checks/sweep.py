"""Checks that measure many places in one job: a sweep.

The job's first node runs the conductor (railgauge.node.conductor), which starts an agent on every
node and has them measure the places in rounds. What it leaves is read here, place by place.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reframe.core.backends import getlauncher
from reframe.core.builtins import run_before

from railgauge import paths, systems
from railgauge.campaign.folder import BEFORE, ENOUGH
from railgauge.checks import protections, queue, schedule, topology
from railgauge.checks.base import StrictCheck
from railgauge.checks.cases import Case, PairCase, SweepCase
from railgauge.checks.observation import ExitLine, Judged
from railgauge.checks.protections import Evidence
from railgauge.model import record
from railgauge.model.call import Call
from railgauge.model.failure import DISTURBED, ENVIRONMENT, LOST, TAKEN, UNREACHED, Failure
from railgauge.model.leaves import Leaves
from railgauge.model.measurement import STANDS_OUT
from railgauge.model.references import Reference
from railgauge.node import raw
from railgauge.node.sweep import FILE as ORDERS
from railgauge.slurm import ends
from railgauge.slurm import nodes as slurm_nodes

#: What the conductor, its agents and Slurm's own work take beside the places.
_MARGIN_S = 120
#: A round on a slow day takes so many times what it should, and so much more.
SLOW, SLOW_S = 3, 10
#: So many rounds may come to their limits.
_HUNG = 2
#: So long an agent may take to come, on a node that is slow to start a Python.
_CONNECT_S = 60

#: Why a place was not measured of which there is no event.
_NO_EVENT, _UNREAD = "its job ended before it", "what its job left cannot be read"

#: ReFrame's own report names so many of the places that failed.
_SHOWN = 5


class _Again(NamedTuple):
    """A place that the conductor has added, and the listed one that it is like."""

    place: PairCase
    like: str


class _Left(NamedTuple):
    """What the conductor recorded, nothing where it did not begin; and why none of it counts, where
    the file cannot be read. The places that it added have their numbers.
    """

    recorded: raw.Raw = raw.Raw()
    again: Mapping[int, _Again] = {}
    unreadable: str = ""


class SweepCheck(StrictCheck):
    """One job over all nodes of its places, which it measures in rounds.

    A concrete check gives its own `cases`, and `sweep = parameter(cases.sweeps, loggable=True)`. A
    kind of check says what is to be run at the place at hand: `program`, `roles()` and `order()`.
    """

    sweep: SweepCase
    num_tasks_per_node = 1
    #: what measures all places, in the job's batch script, of railgauge.node
    driver = "conductor"
    #: what runs at a place, of railgauge.node: pair, transfer or solo
    program: str
    #: what the reasons are for which a node was left out of this job
    _absent: Mapping[str, Failure]
    #: the places that this session is to measure, also those on nodes that were left out
    _wanted: Sequence[Case] = ()
    _rounds: Sequence[Sequence[Case]] = ()

    # --- for subclasses ----------------------------------------------------------------------

    def roles(self) -> Mapping[str, str]:
        """The role of each node at the place at hand."""
        raise NotImplementedError

    def order(self) -> Mapping[str, Any]:
        """What the nodes are told of the place at hand, beside their roles."""
        raise NotImplementedError

    def expected_run_s(self) -> float:
        """About how long the place at hand takes."""
        raise NotImplementedError

    def longest_run_s(self) -> float:
        """The longest that the place at hand may take."""
        raise NotImplementedError

    # --- the case ------------------------------------------------------------------------------

    @property
    def target(self) -> SweepCase:
        return self.sweep

    @property
    def places(self) -> Sequence[Case]:
        return self.sweep.places

    @property
    def ranks(self) -> int:
        return len(self.here.nodes)

    def nodes_here(self) -> tuple[str, ...]:
        return self.here.nodes

    def rounds_of(self, places: Sequence[Case]) -> list[list[Case]]:
        partition = self.partition_data
        leaves = topology.leaves_of(partition)
        found = schedule.rounds(places, schedule.of(partition), leaves)
        return [[places[n] for n in numbers] for numbers in found]

    @property
    def paired_by(self) -> systems.Sweep | None:
        """How its pairs follow from its nodes; None where it measures none."""
        between = isinstance(self.places[0], PairCase)
        return schedule.of(self.partition_data) if between else None

    @functools.cached_property
    def _all_rounds(self) -> Sequence[Sequence[Case]]:
        """Those of all places, whether or not this session measures them."""
        return self.rounds_of(self.places)

    @property
    def planned_rounds(self) -> int:
        return len(self._all_rounds)

    @property
    def expected_seconds(self) -> float:
        total = 0.0
        for places in self._all_rounds:
            self.here = places[0]
            total += self.expected_run_s()
        # Starting the agents, and Slurm's own second for a job.
        return total + 2

    # --- the job -------------------------------------------------------------------------------

    def choose_places(self) -> None:
        """Without those whose preconditions failed, and those on nodes that take no job."""
        wanted = [p for p in self.places if self.only is None or p.place in self.only]
        self._absent = {}
        if not self.is_dry_run():
            self.not_run.update(self.unmet(wanted))
            wanted = [place for place in wanted if place.place not in self.not_run]
            if not wanted:
                self.skip(next(iter(self.not_run.values())))
            nodes = {node for place in wanted for node in place.nodes}
            self._absent = queue.session.takes_no_job(nodes)
        chosen = [place for place in wanted if not self._absent.keys() & set(place.nodes)]
        if not chosen:
            # The queue says why, of a job with all of their nodes.
            self._absent, chosen = {}, wanted
        self._wanted = wanted
        self._rounds = self.rounds_of(chosen)
        there = {node for place in chosen for node in place.nodes}
        self.pinned_nodes = [node for node in self.sweep.nodes if node in there]
        self.num_tasks = len(self.pinned_nodes) * self.num_tasks_per_node
        # The others go on where a node dies; and of whole nodes all of their memory.
        self.job.options += ["--no-kill", "--mem=0"]
        self.time_limit = f"{int(self._longest_s(self._rounds)) + 1}s"

    def _longest_s(self, rounds_of_job: Sequence[Sequence[Case]]) -> float:
        """Time for every round on a slow day, and for some that come to their limit: what hangs in
        one is lost, and costs no other.
        """
        total = most = slow = 0.0
        for places in rounds_of_job:
            self.here = places[0]
            longest = self.longest_run_s()
            slow = max(slow, min(longest, SLOW * self.expected_run_s() + SLOW_S))
            total += min(longest, SLOW * self.expected_run_s() + SLOW_S)
            most = max(most, longest)
        return total + self._retests * slow + _HUNG * most + _CONNECT_S + _MARGIN_S

    @property
    def _retests(self) -> int:
        """How many rounds more there may be, of pairs that tell who is at fault."""
        pairs = getattr(self, "program", "") == "pair" and all(
            isinstance(p, PairCase) for p in self.places
        )
        return self.partition_data.extras.sweep.locate_rounds if pairs else 0

    @property
    def longest_seconds(self) -> float:
        """The longest that its job may take, with all of its places."""
        return self._longest_s(self._all_rounds)

    @run_before("run")
    def start_sweep(self) -> None:
        orders = self.orders()
        Path(self.stagedir, ORDERS).write_text(json.dumps(orders), encoding="utf-8")
        if self.driver == "conductor":
            queue.session.may_shrink.add(self.job.name)
        # The driver starts what runs on the nodes itself.
        self.job.launcher = getlauncher("local")()
        source = shlex.quote(str(paths.SOURCE))
        self.executable = "env"
        # Without `site`: a sweep's programs need nothing that is installed beside Python.
        python = (f"PYTHONPATH={source}", "python3", "-S")
        self.executable_opts = [*python, "-m", f"railgauge.node.{self.driver}", ORDERS]

    def orders(self) -> Mapping[str, Any]:
        """What the conductor and its agents are told (railgauge.node.conductor)."""
        places: list[dict[str, Any]] = []
        known: dict[str, int] = {}
        specs: list[Mapping[str, Any]] = []
        numbers = []
        conditions: dict[object, int] = {}
        leaves, campaign = topology.leaves_of(self.partition_data), paths.campaign_folder()
        for members in self._rounds:
            first = len(places)
            for place in members:
                self.here = place
                spec = self.order()
                text = json.dumps(spec, sort_keys=True)
                if text not in known:
                    known[text] = len(specs)
                    specs.append(spec)
                condition = place.condition, schedule.within(place, leaves)
                places.append(
                    {
                        "name": place.place,
                        "program": self.program,
                        "roles": self.roles(),
                        "order": known[text],
                        "of": conditions.setdefault(condition, len(conditions)),
                    }
                )
            numbers.append(list(range(first, len(places))))
        return {
            "tool": self.tool_name,
            "nodes": list(self.pinned_nodes),
            "names": slurm_nodes.names_of(self.pinned_nodes),
            "launch": [],
            "rounds": numbers,
            "places": places,
            "orders": specs,
            "connect_limit_s": _CONNECT_S,
            **({"enough": str(campaign / ENOUGH)} if campaign and queue.idle_only() else {}),
            **({"retests": self._how_again(leaves)} if self._retests else {}),
        }

    def _how_again(self, leaves: Leaves | None) -> Mapping[str, Any]:
        extras = self.partition_data.extras
        before = self._rates_before()
        return {
            "rounds": self._retests,
            "slower": round(STANDS_OUT * extras.peer_spread, 3),
            "leaves": {n: leaves.of_node[n] for n in self.pinned_nodes} if leaves else {},
            **({"before": before, "change": extras.least_change} if before else {}),
        }

    def _rates_before(self) -> Mapping[str, float]:
        """What went at each place in the campaign that this one is compared with."""
        campaign = paths.campaign_folder()
        try:
            rates = record.read_rates(campaign / BEFORE) if campaign else None
        except record.BrokenRecordError:
            # Then nothing is measured again for what it was before; the comparison reads its own.
            rates = None
        return (rates or {}).get(self.display_name, {}).get(self.target.partition, {})

    # --- what it left --------------------------------------------------------------------------

    @functools.cached_property
    def _left(self) -> _Left:
        try:
            left = raw.read(Path(self.stagedir, raw.FILE))
            return _Left(left, _again(self._chosen, left.again))
        except FileNotFoundError:
            return _Left()
        except (OSError, ValueError) as error:
            return _Left(unreadable=str(error))

    @property
    def _raw(self) -> raw.Raw:
        return self._left.recorded

    @functools.cached_property
    def _numbers(self) -> Mapping[str, int]:
        """The numbers that the conductor has for the places of this job."""
        numbers = {place.place: number for number, place in enumerate(self._chosen)}
        return {**numbers, **{one.place.place: n for n, one in self._left.again.items()}}

    @property
    def _chosen(self) -> list[Case]:
        """The places of this job, by the numbers that the conductor has for them."""
        return [place for members in self._rounds for place in members]

    @functools.cached_property
    def _likes(self) -> Mapping[str, str]:
        """Of the places that the conductor has added those that they are like."""
        return {one.place.place: one.like for one in self._left.again.values()}

    def like(self, place: Case) -> str:
        return self._likes.get(place.place, "")

    @functools.cached_property
    def _round_of(self) -> Mapping[str, int]:
        return {p.place: number for number, members in enumerate(self._rounds) for p in members}

    def round_of(self, place: Case) -> int | None:
        if isinstance(place, PairCase) and place.again:
            return len(self._rounds) + place.again - 1
        return self._round_of.get(place.place)

    def _sides(self) -> Mapping[str, raw.Side]:
        return self._raw.sides.get(self._numbers.get(self.here.place, -1), {})

    def exit_line(self, role: str) -> ExitLine | None:
        side = self._sides().get(role)
        if side is None:
            return None
        call, facts = _call(side.line), side.line.get("facts")
        if call is None or not isinstance(facts, dict):
            raise ValueError(f"{role} of {self.here.place}: not an exit line: {side.line}")
        return ExitLine(call, facts)

    def text(self, file: str) -> str:
        sides = self._sides()
        role, _, kind = file.rpartition(".")
        if role in sides and kind in ("out", "err"):
            return sides[role].out if kind == "out" else sides[role].err
        return next((side.files[file] for side in sides.values() if file in side.files), "")

    def places_to_judge(self) -> Sequence[Case]:
        """Those that came to an end; of the others it is said why not.

        A node that is lost fails the first place that it is lost in, and no other. Where the job
        was ended from outside, its agents were too, and none of them is lost.
        """
        gone = [node for node, why in self._raw.lost.items() if why == raw.NOT_OURS]
        why = "not measured: it was somebody else's when the job began"
        self._absent = {**self._absent, **{n: Failure(TAKEN, f"{why}: {n}", (n,)) for n in gone}}
        judged: list[Case] = [p for p in self._wanted if self._absent.keys() & set(p.nodes)]
        told: set[str] = set()
        for place in (*self._chosen, *(one.place for one in self._left.again.values())):
            if self._absent.keys() & set(place.nodes):
                continue
            event = self._raw.places.get(self._numbers[place.place])
            is_lost = event is not None and event["outcome"] == "lost"
            lost = {node for node in place.nodes if node in self._raw.lost} if is_lost else set()
            told_something = event is not None and event["outcome"] in ("done", "late")
            news = told_something or (lost - told and self._came_to_its_end)
            if self.like(place) and not news:
                # It told nothing new, and nobody had asked for it.
                continue
            if event is None:
                self.not_run[place.place] = _UNREAD if self._left.unreadable else _NO_EVENT
            elif is_lost and not self._came_to_its_end:
                self.not_run[place.place] = _NO_EVENT
            elif event["outcome"] == "refused" or (lost and lost <= told):
                self.not_run[place.place] = event["why"]
            else:
                judged.append(place)
                told |= lost
        return judged

    def judge_place(self, place: Case) -> Judged:
        found = [self._absent[node] for node in place.nodes if node in self._absent]
        event = {} if found else self._raw.places[self._numbers[place.place]]
        if event.get("outcome") == "lost":
            lost = [node for node in place.nodes if node in self._raw.lost]
            found = [failure for node in lost for failure in self._lost(node)]
        if not found:
            judged = super().judge_place(place)
            if judged.passed or not self._was_cut(event):
                return judged
            found = [Failure(DISTURBED, f"not measured: Slurm says {self._job_state} for its job")]
        self.here = place
        return Judged(place, dataclasses.replace(self._whole(), nodes=place.nodes), found)

    def _was_cut(self, event: raw.Event) -> bool:
        """Whether somebody ended the job, and with it the tools, in the round of this place: what
        had failed in a round before, did so by itself.
        """
        by_others = self.driver == "conductor" and self._job_state not in ends.OF_THE_NODES
        return by_others and event["round"] not in self._raw.rounds

    def _lost(self, node: str) -> list[Failure]:
        """A node whose agent did not come, or went."""
        why = f"{node}: {self._raw.lost[node]}"
        if self._raw.lost[node] == raw.TERMINATED:
            return [Failure(DISTURBED, f"not measured: {why}", (node,))]
        if (words := ends.out_of_memory_on(self._job_error, node)) is not None:
            step = "a larger memory limit of the partition's jobs: DefMemPerNode, MaxMemPerNode"
            return [
                Failure(ENVIRONMENT, f"Slurm ended the agent of {node}: {words}", (node,), step)
            ]
        if node in self._raw.joined:
            failed = ends.launch_failed_on(self._job_error)
            if failed and self._raw.joined.keys() <= self._raw.lost.keys():
                # Told so late that the rounds had begun, srun ends the tasks that it has started.
                told = f"not measured: {why}; srun started no task on {', '.join(failed)}"
                return [Failure(DISTURBED, told, (node,))]
            step = f"scontrol show node {node}; dmesg there: was it started again, out of memory?"
            return [Failure(LOST, why, (node,), step)]
        if (lacks := protections.lacks(self._whole(), node)) is not None:
            return [lacks]
        if node in ends.launch_failed_on(self._job_error) and not slurm_nodes.dead([node]):
            launcher = self._conductors_node
            step = f"can {launcher} reach {node}? ping, and ip route get; then the other way round"
            told = f"{why}; {node} answers Slurm's controller"
            return [Failure(UNREACHED, told, (launcher, node), step)]
        return [Failure("silent-node", why, (node,), f"scontrol show node {node}")]

    @property
    def _came_to_its_end(self) -> bool:
        """Whether nobody, and nothing but its conductor, has ended the job."""
        end = self._raw.end
        return self._job_state == "COMPLETED" and end is not None and not end["why"]

    @property
    def _conductors_node(self) -> str:
        begin = self._raw.begin
        return str(begin["host"]) if begin else self.pinned_nodes[0]

    def _failed_nodes(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """No other node's failure ends a job with --no-kill than that of its conductor; accounting
        may name another, on which it looked for the conductor afterwards.
        """
        host = self._conductors_node
        failed = self.job.state == "NODE_FAIL" and slurm_nodes.dead([host])
        return (host,) if failed else ()

    def is_settled(self) -> bool:
        return self._numbers.get(self.here.place) in self._raw.places

    def _evidence(self) -> tuple[Evidence, list[Failure]]:
        evidence, found = super()._evidence()
        event = self._raw.places[self._numbers[self.here.place]]
        if event["outcome"] != "done" and not evidence.missing_program:
            found.append(Failure("late", f"{event['outcome']}: {event['why']}"))
        return evidence, found

    def job_failures(self) -> Sequence[Failure]:
        """Of a job that did not come to its own end."""
        if (lost := queue.session.lost_host(self.job.jobid)) is not None:
            return [lost]
        end, unreadable = self._raw.end, self._left.unreadable
        if unreadable:
            found = protections.failures_of_job(self._whole(), began=True)
            return [*found, Failure("output", unreadable)]
        if end is None and not self._raw.places:
            # Nothing of it began.
            return protections.failures_of_job(self._whole(), began=False)
        found = protections.failures_of_job(self._whole(), began=True)
        if not found and (end is None or end["why"]):
            why = end["why"] if end else "it left no end"
            found.append(Failure("no-exit-line", f"the conductor of the sweep: {why}"))
        return found

    def _whole(self) -> Evidence:
        """What is known of the job, without its places."""
        lines = [side.line for sides in self._raw.sides.values() for side in sides.values()]
        return Evidence(
            job_id=self.job.jobid,
            job_state=self._job_state,
            job_exit_code=self.job.exitcode,
            job_error=self._job_error,
            tool_errors={},
            left_output=self._left_output,
            failed_nodes=self._failed_nodes(tuple(self.pinned_nodes)),
            nodes=tuple(self.pinned_nodes),
            ranks=0,
            calls=tuple(call for line in lines if (call := _call(line)) is not None),
            reading=None,
            expected={},
            expected_on={},
            seen_on={},
            required=(),
            limits={},
            references={},
            recorded=frozenset(),
            budgets=(),
            acceptance=self.gate == "acceptance",
        )

    # --- for ReFrame ---------------------------------------------------------------------------

    def complaints(self) -> list[str]:
        bad = [judged for judged in self.results if judged.failures]
        told = [
            f"{judged.place.place}: {'; '.join(failure.message for failure in judged.failures)}"
            for judged in bad[:_SHOWN]
        ]
        more = [f"and {len(bad) - _SHOWN} more places"] if len(bad) > _SHOWN else []
        reasons = dict.fromkeys(self.not_run.values())
        left = [
            f"{sum(r == why for r in self.not_run.values())} places not measured: {why}"
            for why in reasons
        ]
        return [*told, *more, *left]

    def numbers(self) -> Mapping[str, tuple[float, str, Reference | None]]:
        """Of each condition the worst, the median, and how many places failed."""
        measured: dict[str, list[tuple[float, str, Reference | None]]] = {}
        planned = [judged for judged in self.results if not self.like(judged.place)]
        ways = {(m.within, m.load) for one in planned for m in one.evidence.measurements}
        for judged in planned:
            for m in judged.evidence.measurements:
                # Of the way and the load only what tells some of its places from others.
                parts = (*judged.place.condition, *((m.within, m.load) if len(ways) > 1 else ()))
                label = "_".join(_word(part) for part in parts if part is not None)
                name = f"{m.variable}_{label}" if label else m.variable
                reference = judged.evidence.references.get(m.variable)
                measured.setdefault(name, []).append((m.value, m.unit, reference))
        shown: dict[str, tuple[float, str, Reference | None]] = {}
        for name, numbers in measured.items():
            worst = min(numbers, key=_margin)
            shown[f"{name}_worst"] = worst
            shown[f"{name}_median"] = (statistics.median(n for n, _, _ in numbers), worst[1], None)
        failed = sum(not judged.passed for judged in planned)
        shown["places_failed"] = (failed + len(self.not_run), "1", None)
        return shown


def _again(chosen: Sequence[Case], added: Mapping[int, raw.Added]) -> dict[int, _Again]:
    """The places that the conductor has added, by their numbers; ValueError where one cannot be."""
    nodes = {node for place in chosen for node in place.nodes}
    found = {}
    for number, (name, like, server, client) in added.items():
        listed = chosen[like] if 0 <= like < len(chosen) else None
        if not isinstance(listed, PairCase) or not {server, client} <= nodes or server == client:
            raise ValueError(f"place {number} is like {like}, with {server} and {client}")
        again = int(name.rpartition("@")[2])
        place = dataclasses.replace(listed, server=server, client=client, again=again)
        if place.place != name:
            raise ValueError(f"place {number} is named {name}, expected {place.place}")
        found[number] = _Again(place, listed.place)
    return found


def _word(part: object) -> str:
    text = "+".join(map(str, part)) if isinstance(part, tuple) else str(part)
    return "".join(c if c.isalnum() else "_" for c in text)


def _call(line: Mapping[str, Any]) -> Call | None:
    """Of an exit line; None where it is none."""
    try:
        return Call(**line["call"])
    except (KeyError, TypeError):
        return None


def _margin(number: tuple[float, str, Reference | None]) -> float:
    """How far a number is within its bounds, as a share of its reference: below 0 where that does
    not admit it. The least is the worst.
    """
    value, _, reference = number
    if reference is None:
        return value
    away = [
        (value - reference.lowest) if reference.lowest is not None else None,
        (reference.highest - value) if reference.highest is not None else None,
    ]
    known = [distance for distance in away if distance is not None]
    return min(known, default=value) / (reference.value or 1)
