"""The strict base class of all checks."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import reframe.core.runtime as rt
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

import reframe as rfm
from railgauge import hostlist, paths, systems
from railgauge.campaign.folder import RESULT_FILE
from railgauge.checks.framework import bounds, reframe_guard, schedule, slurm_queue, topology
from railgauge.checks.framework.cases import Case, Cases, PairCase, RailCase
from railgauge.checks.framework.dependencies import Preconditions
from railgauge.checks.framework.observation import ExitLine, Facts, Judged, Observation
from railgauge.checks.framework.place_run import PlaceRun
from railgauge.checks.framework.programs import Programs
from railgauge.checks.framework.protections import JobEvidence, failures
from railgauge.model import record, references
from railgauge.model.call import Call
from railgauge.model.failure import OVERRIDING_KINDS, PRECONDITION_FAILED, Failure
from railgauge.model.leaves import Leaves, Within
from railgauge.model.limits import Limit
from railgauge.model.measurement import BY_CHANCE, Load, Measurement
from railgauge.model.uplinks import Uplink
from railgauge.node.orders.codec import Order
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import reservations
from railgauge.systems import rehearsal
from railgauge.tools.common.lines import with_errors

reframe_guard.install()

#: The checks that `simple_test` marks, also those that the session's system has nothing for.
TESTS: set[type] = set()


def simple_test(check: Any) -> Any:
    """ReFrame's `simple_test`, for checks that a system may have nothing for.

    ReFrame warns of a parameter without values, and warnings are errors here. A check that is
    required and not there is missed by the verdict.
    """
    TESTS.add(check)
    return check if check.num_variants == 0 else rfm.simple_test(check)


class StrictCheck(rfm.RunOnlyRegressionTest):
    """A check that passes only on complete evidence.

    It is the ReFrame test: the job, its places and the record. A concrete check names its parts:
    `cases`, `programs`, `preconditions`, and `run_at()`, which makes the run of a place (PlaceRun).
    `protections` closes every way in which a bad run could pass, for each place by itself: `here`
    is the place at hand, inside `at(place)`.
    """

    valid_prog_environs = ["*"]
    #: whole nodes: another job there, also of another campaign, would be measured, too
    exclusive_access = True
    #: `acceptance` fails without a reference, `baseline` records (reframe --mode baseline)
    gate = variable(str, value="acceptance")
    #: performance variables that a complete result has
    metrics = variable(list, value=[])
    #: nodes that the job must run on, by name
    pinned_nodes = variable(list, value=[])
    #: the values that the tool's own output must state, beside what `read()` judges
    expected = variable(dict, value={})
    #: the values that every node must state of itself
    expected_on_nodes = variable(dict, value={})
    #: longest stay in the queue: a job that waits longer is cancelled and failed
    max_pending_time = "5m"
    time_limit = "2m"

    #: what moves data, where transfers by several tools are compared
    transfer_tool: str = ""
    #: no job of a partition is submitted before all checks with a lower turn have ended there
    turn: int = 0
    #: the metrics that must have a reference; none: as `gates` says, as a rule all
    gating: tuple[str, ...] = ()

    #: the place at hand; None outside of `at`
    _here: Case | None = None
    _run_here: PlaceRun | None = None
    #: what `read` has returned for it
    observed: Observation | None = None
    #: the result of each place, once the job has ended
    results: Sequence[Judged] = ()
    #: the places that a resumed session is to measure; None for all
    only: frozenset[str] | None = None
    #: place that was not measured -> why
    not_run: dict[str, str]

    # --- without an instance: for `railgauge system check` -------------------------------------

    #: its places, which are the values of its first parameter: `parameter(cases)`
    cases: Cases[Any] | None = None
    #: the programs that it runs on nodes
    programs: Programs = Programs()
    #: the places of other checks that its places need
    preconditions: Preconditions = Preconditions()

    @classmethod
    def needs_references_of(cls) -> tuple[str, ...]:
        """The metrics that must have a reference, as far as that is known before a run."""
        named = (re.sub("_[0-9]+B$", "", name) for name in cls.metrics.default_value)
        return cls.gating or tuple(name for name in named if name not in BY_CHANCE)

    @classmethod
    def unstated(cls, extras: systems.Extras) -> Sequence[str] | None:
        """The fields that the description lacks for a reference to follow from it alone; empty
        where it follows, None where no description could give one.
        """
        return () if cls.cases is not None and cls.cases.by_description else None

    # --- the place at hand -------------------------------------------------------------------

    @contextlib.contextmanager
    def at(self, place: Case) -> Iterator[None]:
        """Make `place` the one at hand for what is asked of the check inside, and nowhere else."""
        before = self._here, self._run_here
        self._here, self._run_here = place, None
        try:
            yield
        finally:
            self._here, self._run_here = before

    @property
    def here(self) -> Case:
        """The place at hand. A kind of check declares its kind of case: `here: PairCase`."""
        if self._here is None:
            raise RuntimeError(f"{type(self).__name__} has no place at hand: use `with at(place)`")
        return self._here

    @property
    def place_run(self) -> PlaceRun:
        """The run of the place at hand."""
        if self._run_here is None:
            self._run_here = self.run_at(self.here, self.partition_data)
        return self._run_here

    # --- for subclasses ----------------------------------------------------------------------

    @property
    def target(self) -> Case:
        """The case: the value of the check's first parameter."""
        raise NotImplementedError

    @property
    def places(self) -> Sequence[Case]:
        """All places of the case."""
        return (self.target,)

    def run_at(self, place: Any, partition: systems.Partition) -> PlaceRun:
        """The run of a place: what is to be done there, and how it is judged."""
        return PlaceRun(place=place, partition=partition)

    @property
    def tool_name(self) -> str:
        """The tool's name in exit lines and claims."""
        return self.transfer_tool or str(self.tool.TOOL)

    @property
    def ranks(self) -> int:
        """The number of the tool's ranks at a place."""
        return int(self.num_tasks)

    def needs(self, place: Case) -> Sequence[tuple[str, str]]:
        """The preconditions of a place: the unique name of another check's case, and its place. A
        case that depends on others (`depends_on`) measures the places whose preconditions passed.
        """
        return self._find_needs(place)

    @functools.cached_property
    def _find_needs(self) -> Callable[[Case], Sequence[tuple[str, str]]]:
        return self.preconditions.finder(self.partition_data)

    def read(self) -> Observation:
        """What the job left of the place at hand. Called once a place; `observed` keeps it."""
        raise NotImplementedError

    def required_metrics(self) -> Sequence[str]:
        """The performance variables of a complete result of the place at hand."""
        required = self.observed.required if self.observed else None
        required = self.place_run.required if required is None else required
        return list(self.metrics if required is None else required)

    def requested(self) -> Mapping[str, Any]:
        """The values that the tool's own output must state, of the place at hand."""
        return {**self.expected, **self.place_run.states}

    def requested_of_nodes(self) -> Mapping[str, Any]:
        """The values that every node of the place at hand must state of itself."""
        return {**self.expected_on_nodes, **self.place_run.states_of_nodes}

    def limit(self, measurement: Measurement) -> Limit | None:
        """The physical limit of this measurement; None where it is not known."""
        return self.place_run.limit(measurement, self.observed.facts if self.observed else {})

    def gates(self, measurement: Measurement) -> bool:
        """Whether this number must have a reference; others are judged only where they have one."""
        gated = self.observed.gated if self.observed else None
        if (gated := self.place_run.gated if gated is None else gated) is not None:
            return measurement.variable in gated
        if self.gating and measurement.metric not in self.gating:
            return False
        if not self.gating and measurement.metric in BY_CHANCE:
            return False
        return (
            not self.place_run.has_peers
            or self.gate == "baseline"
            or self.limit(measurement) is not None
            or bounds.find_stored(self.bound_inputs, measurement) is not None
        )

    def floor(self, measurement: Measurement) -> references.Reference | None:
        """The bound of the system's description that proves function where nothing is stored."""
        return None

    def provider(self, program: str) -> str:
        """The command, or the package to install, for a program that a node lacks."""
        return self.programs.provider(program, self.current_system.name)

    @property
    def expected_seconds(self) -> float | None:
        """How long the job holds its nodes, about, for `accept --plan`; None where unknown."""
        return None

    @property
    def rehearsal(self) -> bool:
        """Whether stand-ins run in place of the tools."""
        return rehearsal.scenario() is not None

    @functools.cached_property
    def stored(self) -> references.References:
        """The stored numbers of the system, read when the case first needs them."""
        return references.load(self.current_system.name)

    @property
    def partition_data(self) -> systems.Partition:
        """The partition of the check, known before ReFrame has set one up."""
        return systems.load(rt.runtime().system.name).partition(self.target.partition)

    # --- the job -------------------------------------------------------------------------------

    @run_after("init")
    def place_job(self) -> None:
        self.valid_systems = [f"{rt.runtime().system.name}:{self.target.partition}"]
        self.pinned_nodes = list(self.target.nodes)
        self.not_run = {}

    @run_after("init")
    def add_dependencies(self) -> None:
        for case in self.cases_needed():
            self.depends_on(case)

    def cases_needed(self) -> Iterable[str]:
        """The cases that any place needs."""
        # Bound once: ReFrame looks at every access, and a large partition has many places.
        needs, every = self.needs, self.preconditions.cases()
        needed: dict[str, None] = {}
        for place in self.places:
            if every is not None and len(needed) == len(every):
                break
            needed.update(dict.fromkeys(case for case, _ in needs(place)))
        return needed

    def failed_preconditions(self, places: Iterable[Case]) -> dict[str, str]:
        """Place -> why it must not be measured, where its preconditions have not all passed."""
        checks: dict[str, str] = {}
        passed: dict[str, set[str]] = {}
        reasons = {}
        for place in places:
            unmet_places = []
            for case, name in self.needs(place):
                if case not in passed:
                    check = self.getdep(case)
                    checks[case] = type(check).__name__
                    passed[case] = {
                        judged.place.place
                        for judged in check.results
                        if judged.satisfies(self.preconditions.stopped_by)
                    }
                if name not in passed[case]:
                    unmet_places.append(f"{checks[case]} {name}")
            if unmet_places:
                reasons[place.place] = f"{PRECONDITION_FAILED}{'; '.join(unmet_places)}"
        return reasons

    def select_places(self) -> None:
        """Leave out places that must not be measured, before the job is submitted."""
        if not self.is_dry_run() and (wanting := self.failed_preconditions([self.target])):
            self.skip(wanting[self.target.place])

    @run_before("run")
    def pin_job(self) -> None:
        self.select_places()
        self.prerun_cmds.insert(0, "set -o errexit")
        self.job.options += ["--no-requeue"]
        if paths.campaign_folder():
            # By it `railgauge accept` finds what an interrupted session left in the queue.
            self.job.options += [slurm_jobs.comment()]
        self.job.options += reservations.options()
        if self.pinned_nodes:
            self.job.options += [f"--nodelist={hostlist.fold(self.pinned_nodes)}"]

    @run_before("run")
    def ask_the_queue(self) -> None:
        if not self.is_dry_run():
            slurm_queue.session.submit(self.job, self.current_partition.access, self.pinned_nodes)

    # --- the judgement -------------------------------------------------------------------------

    @sanity_function
    def judge(self) -> bool:
        self.results = [self.judge_place(place) for place in self.places_to_judge()]
        of_job = self.job_failures()
        self._store(of_job)
        messages = [f.message for f in of_job] + self.complaints()
        if messages:
            raise SanityError("; ".join(messages))
        return True

    def places_to_judge(self) -> Sequence[Case]:
        """The places that have something to judge."""
        return self.places

    def judge_place(self, place: Case) -> Judged:
        with self.at(place):
            evidence, place_failures = self._evidence()
            aspects = self.place_run.aspects
        place_failures = failures(evidence, place_failures)
        if any(failure.kind in OVERRIDING_KINDS for failure in place_failures):
            # Its output belongs to a job that did not come to its own end.
            evidence = dataclasses.replace(evidence, reading=None)
        return Judged(place, evidence, place_failures, aspects)

    def job_failures(self) -> Sequence[Failure]:
        """The failures of the job as a whole, which are of no single place."""
        return ()

    def complaints(self) -> list[str]:
        """The failures of the places, for ReFrame's own report."""
        return [failure.message for judged in self.results for failure in judged.failures]

    @run_before("performance")
    def compare(self) -> None:
        """Give ReFrame the numbers and their bounds, which it compares, reports and keeps."""
        if self.is_dry_run():
            return
        shown = self.numbers()
        self.reference = {
            self.current_partition.fullname: {
                name: (r.value, r.lower, r.upper, r.unit)
                for name, (_, _, r) in shown.items()
                if r is not None
            }
        }
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(value), unit)
            for name, (value, unit, _) in shown.items()
        }

    def numbers(self) -> Mapping[str, tuple[float, str, references.Reference | None]]:
        """Performance variable -> its value, unit, and what it is compared with."""
        return {
            m.variable: (m.value, m.unit, judged.evidence.references.get(m.variable))
            for judged in self.results
            for m in judged.evidence.measurements
        }

    def _evidence(self) -> tuple[JobEvidence, list[Failure]]:
        """The evidence of the place at hand, and the failures in reading it."""
        place_failures: list[Failure] = []
        if self.gate not in ("acceptance", "baseline"):
            place_failures.append(
                Failure("gate", f"gate is {self.gate!r}, expected acceptance or baseline")
            )
        self.observed = None
        try:
            self.observed = self.read()
            place_failures += self.observed.failures
        except (OSError, ValueError) as error:
            place_failures.append(Failure("output", f"{type(error).__name__}: {error}"))
        nodes = self.nodes_here()
        observed = self.observed
        reading, calls = (observed.reading, tuple(observed.calls)) if observed else (None, ())
        facts, prefix = (observed.facts, observed.prefix) if observed else ({}, "")
        if reading is not None:
            placed = tuple(map(self.placed, reading.measurements))
            reading = dataclasses.replace(reading, measurements=placed)
        measurements = reading.measurements if reading else ()
        vouched = reading is not None and reading.ok
        limits = {m.variable: limit for m in measurements if (limit := self.limit(m))}
        return JobEvidence(
            job_id=self.job.jobid,
            job_state=self.job_end.state,
            job_exit_code=self.job.exitcode,
            job_error=self.job_end.error,
            tool_errors={call.role: self.text(f"{prefix}{call.role}.err") for call in calls},
            left_output=self.job_end.left_output,
            failed_nodes=self._failed_nodes(nodes),
            nodes=nodes,
            ranks=self.ranks,
            calls=calls,
            reading=reading,
            expected=self.requested(),
            expected_on=self.requested_of_nodes(),
            seen_on=facts,
            required=tuple(self.required_metrics()),
            limits=limits,
            references=bounds.find_references(self.bound_inputs, measurements),
            recorded=frozenset(m.variable for m in measurements if not self.gates(m)),
            budgets=self.place_run.budgets,
            # A tool's stand-in moves nothing.
            claims=tuple(observed.claims) if observed and vouched and not self.rehearsal else (),
            counted=self.place_run.counted and not self.rehearsal,
            acceptance=self.gate == "acceptance" and not self.is_quiet(self.here),
            rehearsal=self.rehearsal,
            missing_program=self.place_run.missing(facts) or self._missing_program(facts),
            optional=self.may_be_left_out(facts),
            settled=self.is_settled(),
        ), place_failures

    def placed(self, m: Measurement) -> Measurement:
        """A measurement with the place at hand as part of its condition."""
        rails = self.here.rails if isinstance(self.here, RailCase) else m.rails
        nodes = m.nodes or self.nodes_here()
        return dataclasses.replace(
            m, nodes=nodes, ranks=self.ranks, rails=rails, within=self.within, load=self.load
        )

    @property
    def load(self) -> Load | None:
        """Whether other pairs are measured at the same time; None where that is not known."""
        return None

    @property
    def within(self) -> Within | None:
        """Whether the two nodes are on one leaf; None where that is not known."""
        return schedule.within(self.here, self._leaves) if isinstance(self.here, PairCase) else None

    @functools.cached_property
    def _leaves(self) -> Leaves | None:
        return topology.leaves_of(self.partition_data)

    def bound_before(self, metric: str, streams: int | None) -> bounds.Bound | None:
        """The bound of one of its metrics before the run, when the tool has not stated its
        condition yet.
        """
        if metric not in self.metrics:
            return None
        number = Measurement(
            *(metric, 0, self.tool_name, "tcp", "tcp"),
            streams=streams,
            within=self.within,
            load=self.load,
        )
        return bounds.find_bound(self.bound_inputs, number, known="place")

    def nodes_here(self) -> tuple[str, ...]:
        """The nodes of the place at hand."""
        return tuple(self.pinned_nodes) or tuple(self.job.nodelist or ())

    def may_be_left_out(self, facts: Facts) -> bool:
        """Whether the place at hand fails nothing where its nodes lack what it needs."""
        return self.place_run.may_be_left_out(facts) or self.programs.may_be_missing(
            self.partition_data
        )

    def is_settled(self) -> bool:
        """Whether the end of the place at hand was recorded before the job's own."""
        return False

    def _failed_nodes(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        failed = self.job.state == "NODE_FAIL"
        return slurm_jobs.failed_nodes(self.job.jobid, nodes) if failed else ()

    def _missing_program(self, facts: Facts) -> Failure | None:
        lacking = {
            node: node_facts["missing"]
            for node, node_facts in sorted(facts.items())
            if node_facts.get("missing")
        }
        if not lacking:
            return None
        message = "; ".join(f"{', '.join(names)} not found on {n}" for n, names in lacking.items())
        programs = dict.fromkeys(name for names in lacking.values() for name in names)
        steps = dict.fromkeys(self.provider(program) for program in programs)
        return Failure("tool-missing", message, tuple(lacking), "; ".join(steps))

    @functools.cached_property
    def job_end(self) -> JobEnd:
        """The job's end; of a cancelled one Slurm says who cancelled it."""
        state = str(self.job.state) if self.job.state else None
        if state and state.startswith("CANCELLED"):
            state = slurm_jobs.cancelled(self.job.jobid) or state
        error = _text_of(Path(self.stagedir, self.job.stderr))
        return JobEnd(state, error, Path(self.stagedir, self.job.stdout).exists())

    @property
    def bound_inputs(self) -> bounds.Inputs:
        """What the bounds of the place at hand follow from."""
        return bounds.Inputs(
            check=type(self).__name__,
            partition=self.partition_data.name,
            gate=self.gate,
            references=self.stored,
            least_shares=self.partition_data.extras.least_shares,
            described=self.place_run.described,
            minimum=self.floor,
            limit=self.limit,
            gates=self.gates,
            adjust=self.place_run.adjusted,
        )

    def _result(self, judged: Judged) -> record.Result:
        stored = self.stored
        check, partition = type(self).__name__, self.current_partition.name
        evidence = judged.evidence
        with self.at(judged.place):
            # `gates()` itself would speak of the place that was observed last.
            of = dataclasses.replace(
                self.bound_inputs, gates=lambda m: m.variable not in evidence.recorded
            )
            rows = tuple(
                record.Row(
                    m,
                    evidence.references.get(m.variable),
                    evidence.limits.get(m.variable),
                    tuple(stored.context(check, partition, m)),
                    m.variable not in evidence.recorded,
                    own=self.place_run.described(m) is not None,
                    elsewhere=""
                    if m.variable in evidence.references
                    else bounds.baseline_elsewhere(of, m),
                )
                for m in evidence.measurements
            )
        return record.Result(
            place=judged.place.place,
            nodes=evidence.nodes,
            calls=evidence.calls,
            claims=evidence.claims,
            facts={node: dict(facts) for node, facts in evidence.seen_on.items()},
            rows=rows,
            notes=evidence.reading.notes if evidence.reading else (),
            left_out=evidence.missing_program if evidence.optional else None,
            failures=tuple(judged.failures),
            repeats=self.like(judged.place),
            quiet=self.is_quiet(judged.place),
            round=self.round_of(judged.place),
        )

    def like(self, place: Case) -> str:
        """The planned place that an added one is like; "" for a planned one."""
        return ""

    def is_quiet(self, place: Case) -> bool:
        """Whether it was added to be measured while all else is quiet: for that load nothing need
        be stored.
        """
        return False

    def uplinks_carried(self) -> tuple[Sequence[Uplink], Mapping[str, tuple[int, int]]]:
        """The bytes that each uplink between the nodes carried, and the flows that each of their
        leaves sent and received; empty where they are not known.
        """
        return (), {}

    def notes_of_job(self) -> Sequence[str]:
        """What is worth knowing of the job as a whole, and speaks against nothing."""
        return ()

    def round_of(self, place: Case) -> int | None:
        """The round of its job in which a place was measured, from 0; None without rounds."""
        return None

    def _store(self, of_job: Sequence[Failure]) -> None:
        """Write the results for the campaign, whole or not at all."""
        extras = self.partition_data.extras
        readings = [judged.evidence.reading for judged in self.results]
        uplinks, flows = self.uplinks_carried()
        record.Record(
            check=type(self).__name__,
            case=self.display_name,
            system=self.current_system.name,
            partition=self.current_partition.name,
            gate=self.gate,
            strict_provenance=extras.strict_provenance,
            peer_spread=extras.peer_spread,
            simulated=any(reading is not None and reading.simulated for reading in readings),
            run=rt.runtime().current_run,
            job=record.Job(
                id=self.job.jobid,
                state=self.job_end.state,
                exit_code=self.job.exitcode,
                nodes=tuple(self.job.nodelist or ()),
            ),
            ratios=tuple(self.stored.ratios_of(type(self).__name__)),
            not_run=dict(self.not_run),
            failures=tuple(of_job),
            results=tuple(self._result(judged) for judged in self.results),
            uplinks=tuple(uplinks),
            flows=dict(flows),
            notes=tuple(self.notes_of_job()),
            floors_suffice=extras.floors_suffice or "",
        ).write(Path(self.stagedir, RESULT_FILE))

    # --- for the kinds of job in this package ------------------------------------------------

    @property
    def rank_variable(self) -> str:
        """The launcher's own variable, not MPI's, by which a rank knows its number."""
        by_mpirun = self.job.launcher.registered_name == "mpirun"
        return "OMPI_COMM_WORLD_RANK" if by_mpirun else "SLURM_PROCID"

    def run_on_nodes(self, program: str, orders_file: str, order: Order) -> None:
        """Make the job start `railgauge.node.<program>` on every task, and write its order."""
        orders = Path(self.stagedir, orders_file)
        orders.write_text(json.dumps(order.document(), indent=2), encoding="utf-8")
        words = paths.on_node(program)
        self.executable, *self.executable_opts = [*map(shlex.quote, words), orders.name]

    def exit_line(self, role: str) -> ExitLine | None:
        """The exit line that `role` left when its tool had ended; None where it left none."""
        path = Path(self.stagedir, f"{role}.json")
        if not path.exists():
            return None
        content = json.loads(path.read_text(encoding="utf-8"))
        try:
            return ExitLine(Call(**content["call"]), content["facts"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path.name}: not an exit line: {error!r}") from None

    def text(self, file: str) -> str:
        """The text of a file that the place at hand left; "" where there is none."""
        return _text_of(Path(self.stagedir, file))

    def output(self, role: str) -> str:
        """What the tool of `role` printed, with the lines of its standard error marked."""
        return with_errors(self.text(f"{role}.out"), self.text(f"{role}.err"))


class JobEnd(NamedTuple):
    """Slurm's state of a job, its standard error, and whether its output is where it belongs."""

    state: str | None
    error: str
    left_output: bool


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
