"""The check that times the site's own programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reframe.core.builtins import run_after, run_before

from railgauge import hostlist, paths
from railgauge.checks.framework.cases import (
    ApplicationCase,
    Cases,
    LeftOut,
    Mismatch,
    chosen_nodes,
    is_series,
    left_to_the_series,
)
from railgauge.checks.framework.observation import ExitLine, Observation
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs import container
from railgauge.checks.jobs.mpi_job import RanksCheck
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition
from railgauge.node.orders.ranks import RanksOrder
from railgauge.node.runners.mpi_ranks import role_of
from railgauge.systems import Application, Partition
from railgauge.tools import application

#: What Slurm, the launcher and a rank's own start may take beside a run.
_MARGIN_S = 60


class ApplicationCases(Cases[ApplicationCase]):
    """The programs of extras.applications, each on the first nodes that it wants, or on all."""

    grows = True

    def __init__(self) -> None:
        super().__init__("mpi", "applications")

    def on(self, partition: Partition) -> Iterable[ApplicationCase]:
        there = chosen_nodes(partition.nodes)
        for name, program in _programs(partition).items():
            count = program.nodes or len(there)
            measured = not program.placeholders and (is_series() or not program.series_only)
            if measured and 0 < count <= len(there):
                yield ApplicationCase(partition.name, name, there[:count])

    def lacks_nodes(self, partition: Partition) -> str:
        programs = _programs(partition).values()
        least = min((p.nodes or 1 for p in programs if not p.placeholders), default=1)
        if len(partition.nodes) >= least:
            return ""
        return f"needs {least} nodes, and there are {len(partition.nodes)}"

    def leaves_out(self, partition: Partition) -> Sequence[LeftOut]:
        count, left_out = len(partition.nodes), []
        for name, program in _programs(partition).items():
            field = f"extras.applications.{name}"
            if program.placeholders:
                fields = ", ".join(program.placeholders)
                reason = f"{name} never runs: {fields} only stand for what a site has"
                left_out.append(LeftOut(reason, f"{field}.placeholders"))
            elif program.series_only:
                left_out.append(left_to_the_series(f"{field}.series_only"))
            if program.nodes and program.nodes > count:
                reason = f"{name} needs {program.nodes} nodes of {count}"
                left_out.append(LeftOut(reason, f"{field}.nodes"))
            elif program.nodes and program.nodes < count:
                few = hostlist.fold(partition.nodes[: program.nodes])
                left_out.append(LeftOut(f"{name} runs on {few} alone", f"{field}.nodes"))
        return left_out

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return range(1, len(partition.nodes) + 1)

    described = "one of extras.applications"

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        return {"operation": list(_programs(partition))}

    def mismatch(self, condition: Condition, partition: Partition, gates: bool) -> Mismatch | None:
        if mismatch := super().mismatch(condition, partition, gates):
            return mismatch
        program = _programs(partition).get(condition.operation or "")
        if program is None:
            return None
        nodes = program.nodes or (condition.nodes if isinstance(condition.nodes, int) else None)
        if program.nodes and condition.nodes not in (program.nodes, "any", None):
            return Mismatch(f"nodes is {condition.nodes}, expected {program.nodes}")
        ranks = nodes and nodes * program.ranks_per_node
        if ranks and condition.ranks not in (ranks, None):
            return Mismatch(f"ranks is {condition.ranks}, expected {ranks} on {nodes} nodes")
        return None


def _programs(partition: Partition) -> Mapping[str, Application]:
    programs = partition.extras.applications
    assert programs is not None  # a partition with the feature has them
    return programs


def _programs_on_nodes(partition: Partition) -> Mapping[str, Sequence[str]]:
    """None known of a program in an image, in the system's folder or on a path of its own."""
    return {
        program: []
        for p in _programs(partition).values()
        if not (p.placeholders or p.image or "PATH" in p.environment)
        for program in (p.command[0], *p.programs)
        if "{" not in program
    }


class ApplicationCheck(RanksCheck):
    """A program, started again and again in one job: a step a run, as MPI has to be launched.

    A concrete check gives its own `cases = ApplicationCases()` and `program = parameter(cases)`.
    """

    program: ApplicationCase
    tool = application
    programs = Programs(more=_programs_on_nodes)
    metrics = ["application_time"]

    def provider(self, program: str) -> str:
        field = f"extras.applications.{self.program.application}"
        where = f"into the image {self.described.image}" if self.described.image else "there"
        return f"install {program} {where}, or fix {field}"

    @property
    def target(self) -> ApplicationCase:
        return self.program

    @property
    def described(self) -> Application:
        return _programs(self.partition_data)[self.program.application]

    @property
    def options(self) -> application.Options:
        described = self.described
        return application.Options(
            name=self.program.application,
            ranks=self.num_tasks,
            converged=described.converged.pattern,
            equals=described.converged.equals,
            at_least=described.converged.at_least,
            at_most=described.converged.at_most,
            lines=described.converged.lines,
            own_time=described.own_time.pattern if described.own_time else None,
            unit=described.own_time.unit if described.own_time else "s",
            end=described.end,
        )

    def requested(self) -> Mapping[str, Any]:
        return {"ranks": self.num_tasks, "runs": self.described.runs}

    def required_metrics(self) -> Sequence[str]:
        return [*self.metrics, *(f"application_time_run{n}" for n in self._numbers)]

    def gates(self, measurement: Measurement) -> bool:
        """The metric that must have a reference: the mean. The runs are recorded beside it."""
        return measurement.variable in self.metrics

    # --- the job -------------------------------------------------------------------------------

    @property
    def _numbers(self) -> range:
        """The numbers of its runs, from 1."""
        return range(1, self.described.runs + 1)

    @run_after("init")
    def count_ranks(self) -> None:
        described = self.described
        self.num_tasks_per_node = described.ranks_per_node
        self.num_tasks = len(self.pinned_nodes) * self.num_tasks_per_node
        self.time_limit = f"{described.runs * (described.limit_s + _MARGIN_S)}s"

    @property
    def expected_seconds(self) -> float:
        """The time of all runs, by the stored number of the program, else by their limit."""
        known = [
            number.value
            for entry in self.stored.entries
            if (entry.check, entry.operation) == (type(self).__name__, self.program.application)
            for number in entry.metrics.values()
            if number.kind != "floor"
        ]
        return self.described.runs * min(known, default=float(self.described.limit_s))

    def command(self) -> list[str]:
        return self._filled(self.described.command)

    def _filled(self, words: Sequence[str]) -> list[str]:
        folder = str(paths.system_folder(self.current_system.name))
        return [word.replace("{system}", folder) for word in words]

    def run_limit_s(self) -> int:
        return self.described.limit_s

    def order(self) -> RanksOrder:
        return replace(
            super().order(),
            environment=dict(self.described.environment),
            programs=tuple(self._filled(self.described.programs)),
        )

    @run_before("run")
    def run_again_and_again(self) -> None:
        """Make the last run the job's own program, and those before it steps of their own."""
        described, folder = self.described, self.stagedir
        self.job.launcher.options += [
            *described.launch_options,
            *container.launcher_options(described.image, folder, folder, described.mounts),
        ]
        launch = self.job.launcher.run_command(self.job)
        words = " ".join([self.executable, *self.executable_opts])
        *before, last = (f"run{number}" for number in self._numbers)
        self.prerun_cmds += [f"{launch} {words} {run}" for run in before]
        self.executable_opts += [last]

    # --- what it left --------------------------------------------------------------------------

    def _run(self, number: int) -> tuple[application.Run, list[ExitLine]]:
        roles = [role_of(rank, f"run{number}") for rank in range(self.num_tasks)]
        line_by_rank = {rank: self.exit_line(role) for rank, role in enumerate(roles)}
        lines = [line for line in line_by_rank.values() if line is not None]
        outputs = {
            rank: application.Output(self.text(f"{role}.out"), self.text(f"{role}.err"))
            for rank, role in enumerate(roles)
            if line_by_rank[rank] is not None
        }
        return application.Run(outputs, [line.call for line in lines]), lines

    def read(self) -> Observation:
        runs = [self._run(number) for number in self._numbers]
        lines = [line for _, of_run in runs for line in of_run]
        image = self.described.image
        return Observation(
            application.read([run for run, _ in runs], self.options),
            [replace(line.call, package=container.package(image, line.call)) for line in lines],
            _by_node(lines),
        )


def _by_node(lines: Sequence[ExitLine]) -> dict[str, Mapping[str, Any]]:
    """Node -> its facts: the clock of the run in which it moved most, the disks of all runs."""
    by_node: dict[str, dict[str, Any]] = {}
    for line in lines:
        before, now = by_node.get(line.call.host, {}), dict(line.facts)
        clocks = [facts["clock"] for facts in (before, now) if "clock" in facts]
        if clocks:
            now["clock"] = max(clocks, key=lambda clock: abs(clock["moved_s"]))
        if "no_room" in before:
            now["no_room"] = {**now.get("no_room", {}), **before["no_room"]}
        by_node[line.call.host] = {**before, **now}
    return dict(by_node)
