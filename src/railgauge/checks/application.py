"""The check that times programs of the site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reframe.core.builtins import run_after, run_before

from railgauge import hostlist, paths
from railgauge.checks.cases import ApplicationCase, Cases, Mismatch, chosen_nodes
from railgauge.checks.observation import ExitLine, Observation
from railgauge.checks.ranks import RanksCheck
from railgauge.checks.wan import is_series
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition
from railgauge.node.ranks import role_of
from railgauge.systems import Application, Partition
from railgauge.tools import application

#: What Slurm, the launcher and a rank's own start may take beside a run.
_MARGIN_S = 60

#: The launcher's options that start the program in an image: nobody can look for it on a node.
_IN_AN_IMAGE = ("--container", "--image")


class ApplicationCases(Cases[ApplicationCase]):
    """Each program of extras.applications, on the first nodes that it asks for, or on all."""

    grows = True

    def __init__(self) -> None:
        super().__init__("mpi", "applications")

    def on(self, partition: Partition) -> Iterable[ApplicationCase]:
        there = chosen_nodes(partition.nodes)
        for name, program in _programs(partition).items():
            count = program.nodes or len(there)
            if 0 < count <= len(there) and (is_series() or not program.series_only):
                yield ApplicationCase(partition.name, name, there[:count])

    def lacks_nodes(self, partition: Partition) -> str:
        least = min(program.nodes or 1 for program in _programs(partition).values())
        if len(partition.nodes) >= least:
            return ""
        return f"needs {least} nodes, and there are {len(partition.nodes)}"

    def leaves_out(self, partition: Partition) -> str:
        for name, program in _programs(partition).items():
            if program.series_only:
                return f"is required, and applications.{name}.series_only leaves it out"
            if program.nodes and program.nodes > len(partition.nodes):
                return (
                    f"is required, and {name} needs {program.nodes} nodes of {len(partition.nodes)}"
                )
            if (program.nodes or len(partition.nodes)) < len(partition.nodes):
                few = hostlist.fold(partition.nodes[: program.nodes])
                return f"is required of every node, and {name} runs on {few}"
        return ""

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


class ApplicationCheck(RanksCheck):
    """A program, started again and again in one job: a step a run, as MPI has to be launched.

    A concrete check gives its own `cases = ApplicationCases()` and `program = parameter(cases)`.
    """

    program: ApplicationCase
    tool = application
    metrics = ["application_time"]

    @classmethod
    def programs_on(cls, partition: Partition) -> Mapping[str, Sequence[str]]:
        """Of one in an image, in the system's folder or on a path of its own nothing is known."""
        return {
            p.command[0]: []
            for p in _programs(partition).values()
            if not (_in_image(p) or "{" in p.command[0] or "PATH" in p.environment)
        }

    @property
    def target(self) -> ApplicationCase:
        return self.program

    @property
    def asked(self) -> Application:
        return _programs(self.partition_data)[self.program.application]

    @property
    def options(self) -> application.Options:
        asked = self.asked
        return application.Options(
            name=self.program.application,
            ranks=self.num_tasks,
            converged=asked.converged.pattern,
            equals=asked.converged.equals,
            at_least=asked.converged.at_least,
            at_most=asked.converged.at_most,
            lines=asked.converged.lines,
            own_time=asked.own_time.pattern if asked.own_time else None,
            unit=asked.own_time.unit if asked.own_time else "s",
            end=asked.end,
        )

    def requested(self) -> Mapping[str, Any]:
        return {"ranks": self.num_tasks, "runs": self.asked.runs}

    def required_metrics(self) -> Sequence[str]:
        return [*self.metrics, *(f"application_time_run{n}" for n in self._numbers)]

    def gates(self, measurement: Measurement) -> bool:
        """The mean; the runs are recorded beside it."""
        return measurement.variable in self.metrics

    # --- the job -------------------------------------------------------------------------------

    @property
    def _numbers(self) -> range:
        """Of its runs, from 1."""
        return range(1, self.asked.runs + 1)

    @run_after("init")
    def count_ranks(self) -> None:
        asked = self.asked
        self.num_tasks_per_node = asked.ranks_per_node
        self.num_tasks = len(self.pinned_nodes) * self.num_tasks_per_node
        self.time_limit = f"{asked.runs * (asked.limit_s + _MARGIN_S)}s"

    @property
    def expected_seconds(self) -> float:
        """All runs, by the number that is stored of the program; without one by their limit."""
        known = [
            number.value
            for entry in self.stored.entries
            if (entry.check, entry.operation) == (type(self).__name__, self.program.application)
            for number in entry.metrics.values()
            if number.kind != "floor"
        ]
        return self.asked.runs * min(known, default=float(self.asked.limit_s))

    def command(self) -> list[str]:
        folder = str(paths.SYSTEMS / self.current_system.name)
        return [word.replace("{system}", folder) for word in self.asked.command]

    def run_limit_s(self) -> int:
        return self.asked.limit_s

    def orders(self) -> Mapping[str, Any]:
        return {"environment": dict(self.asked.environment)}

    @run_before("run")
    def run_again_and_again(self) -> None:
        """The last run is the job's own program, those before it steps of their own."""
        self.job.launcher.options += list(self.asked.launch_options)
        launch = self.job.launcher.run_command(self.job)
        words = " ".join([self.executable, *self.executable_opts])
        *before, last = (f"run{number}" for number in self._numbers)
        self.prerun_cmds += [f"{launch} {words} {run}" for run in before]
        self.executable_opts += [last]

    # --- what it left --------------------------------------------------------------------------

    def _run(self, number: int) -> tuple[application.Run, list[ExitLine]]:
        roles = [role_of(rank, f"run{number}") for rank in range(self.num_tasks)]
        found = {rank: self.exit_line(role) for rank, role in enumerate(roles)}
        lines = [line for line in found.values() if line is not None]
        outputs = {
            rank: application.Output(self.text(f"{role}.out"), self.text(f"{role}.err"))
            for rank, role in enumerate(roles)
            if found[rank] is not None
        }
        return application.Run(outputs, [line.call for line in lines]), lines

    def read(self) -> Observation:
        runs = [self._run(number) for number in self._numbers]
        lines = [line for _, of_run in runs for line in of_run]
        return Observation(
            application.read([run for run, _ in runs], self.options),
            [line.call for line in lines],
            _by_node(lines),
        )


def _by_node(lines: Sequence[ExitLine]) -> dict[str, Mapping[str, Any]]:
    """What each node states, of its clock the run in which it moved most, of its disks all."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        before, now = found.get(line.call.host, {}), dict(line.facts)
        clocks = [facts["clock"] for facts in (before, now) if "clock" in facts]
        if clocks:
            now["clock"] = max(clocks, key=lambda clock: abs(clock["moved_s"]))
        if "no_room" in before:
            now["no_room"] = {**now.get("no_room", {}), **before["no_room"]}
        found[line.call.host] = {**before, **now}
    return dict(found)


def _in_image(program: Application) -> bool:
    return any(option.startswith(_IN_AN_IMAGE) for option in program.launch_options)
