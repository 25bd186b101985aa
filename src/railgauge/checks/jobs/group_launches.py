"""Sweeps whose places are groups of nodes that one launch runs a program on, many groups at once.

The job's first node runs railgauge.node.orchestration.group_launches. A launch that is good clears
all of its groups, with the number of the slowest; one that is not is halved until the bad groups
are named.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import ModuleType
from typing import Any

from railgauge import paths
from railgauge.checks.framework.bounds import Inputs
from railgauge.checks.framework.cases import Case, GroupCase
from railgauge.checks.framework.observation import ExitLine, Observation
from railgauge.checks.framework.place_run import BoundBefore
from railgauge.checks.jobs.sweep import SLOW, SLOW_S, Agents, SweepCheck
from railgauge.checks.jobs.sweep_output import SweepOutput
from railgauge.checks.jobs.sweep_run import JobOutput, SweepPlace, SweepRun, Whole
from railgauge.model.call import Call
from railgauge.model.failure import DISTURBED, NOT_TOLD_APART, Failure
from railgauge.model.measurement import STANDS_OUT
from railgauge.node.orchestration.group_launches import AT_ONCE, START_S
from railgauge.node.orchestration.sweep_file import Sweep
from railgauge.node.orders.ranks import (
    Group,
    Launcher,
    LaunchList,
    LaunchOrder,
    LaunchRound,
    RanksOrder,
    TableOrder,
)
from railgauge.node.runners.mpi_ranks import HANG_S
from railgauge.node.transport import results_file
from railgauge.slurm import ends
from railgauge.slurm import nodes as slurm_nodes
from railgauge.systems import Partition

#: The beginning of the reason of groups that could not be isolated
#: (railgauge.node.orchestration.group_launches).
_NOT_ISOLATED = "could not isolate the bad group"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupRun(SweepRun):
    """A program on all ranks of a group of nodes."""

    place: GroupCase
    #: the module that reads what the ranks printed, with these options
    tool: ModuleType
    options: Any
    #: the argv of every rank; nodes fill in {rank} and {scratch}, a folder of their own
    command: Sequence[str]
    #: how the driver reads the number of a launch; None where exit codes alone judge it
    table: TableOrder | None = None
    #: how long the program takes, about
    expected_run_s: float
    #: the longest time that the program may take
    run_limit_s: int
    #: the variables by which one launch runs several groups, {ranks} of each; None where the tool
    #: cannot: each is then a launch of its own, and all of a round run at once
    together: Mapping[str, str] | None = None
    #: how what was left is judged
    judge: Callable[[GroupRun, SweepPlace], Observation] = dataclasses.field(
        default_factory=lambda: judge_ranks
    )

    @property
    def longest_run_s(self) -> float:
        return self.run_limit_s + HANG_S

    @property
    def short_limit_s(self) -> float:
        """The limit of later launches: by then it is known how long one should take."""
        return min(self.run_limit_s, SLOW * self.expected_run_s + 3 * SLOW_S)

    def bounds(self, inputs: Inputs) -> Mapping[str, float]:
        """The least good values of the metrics that a launch is judged by, where they are known."""
        return {}

    def least(self, inputs: Inputs) -> Mapping[str, float]:
        """The floors of these metrics where that is not known, as far as there are any."""
        return {}

    def files(self, inputs: Inputs) -> Mapping[str, Any]:
        """The documents to write into the folder of a launch, by name."""
        return {}

    def launcher_options(self, folder: str) -> list[str]:
        """More options of the launcher than the system's description has. `folder` is the job's.
        {folder} is filled in with that of a launch.
        """
        return []

    def ranks_order(self, tool: str, rank_variable: str, groups: Sequence[GroupCase]) -> RanksOrder:
        """The order for the ranks of these groups, of which its own is the first."""
        return RanksOrder(
            rank_variable=rank_variable,
            tool=tool,
            argv=tuple(self.command),
            version=tuple(self.tool.version_argv()),
            run_limit_s=self.run_limit_s,
        )

    def observe(self, left: SweepPlace, bound: BoundBefore) -> Observation:
        return self.judge(self, left)


def group_run(run: SweepRun) -> GroupRun:
    """A run, which must be one of a group."""
    if not isinstance(run, GroupRun):
        raise NotImplementedError(f"{run.place.place} has no GroupRun, see run_at() of its check")
    return run


#: The first run of each round, and the number of its groups.
FirstRuns = Sequence[tuple[SweepRun, int]]


class GroupLaunches(Agents):
    """One job over all nodes of the groups, which are launched many at once.

    Groups of one launch share size, condition and what `kind` says of them on their partition.
    """

    program = "orchestration.group_launches"
    by_rounds = False

    def __init__(
        self, kind: Callable[[Sequence[Case], Partition], Sequence[Hashable]] | None = None
    ) -> None:
        self._kind = kind

    def split(
        self, rounds_of_places: Sequence[Sequence[Case]], partition: Partition
    ) -> list[list[Case]]:
        """Rounds of groups that share no node, and are alike: a launch may have many of these."""
        rounds: list[list[Case]] = []
        for members in rounds_of_places:
            of_members = self._kind(members, partition) if self._kind else [()] * len(members)
            kinds: dict[Hashable, list[Case]] = {}
            for place, kind in zip(members, of_members, strict=True):
                kinds.setdefault((len(place.nodes), kind), []).append(place)
            rounds += kinds.values()
        return rounds

    def expected_s(self, rounds_of_job: FirstRuns) -> float:
        return _in_rounds_s(rounds_of_job, lambda run: run.expected_run_s)

    def longest_s(self, rounds_of_job: FirstRuns, retests: int) -> float:
        return _deadline_s(rounds_of_job)

    def orders(
        self, check: SweepCheck, rounds_of_job: Sequence[Sequence[Case]]
    ) -> Sweep | LaunchList:
        places: list[Group] = []
        known: dict[str, int] = {}
        orders: list[LaunchOrder] = []
        in_rounds, firsts = [], []
        for members in rounds_of_job:
            first = len(places)
            with check.at(members[0]):
                run = group_run(check.sweep_run)
                order = _order(run, check, members)
            firsts.append((run, len(members)))
            text = json.dumps(order.document(), sort_keys=True)
            if text not in known:
                known[text] = len(orders)
                orders.append(order)
            places += [Group(place.place, tuple(place.nodes)) for place in members]
            in_rounds.append(LaunchRound(tuple(range(first, len(places))), known[text]))
        (run, _), *_ = firsts
        launcher = check.job.launcher
        of_run = run.launcher_options(check.stagedir)
        words = _launcher(launcher, [*check.partition_data.extras.launch_options, *of_run])
        return LaunchList(
            tool=check.tool_name,
            nodes=tuple(check.pinned_nodes),
            ranks_per_node=run.ranks_per_node,
            deadline_s=round(_deadline_s(firsts), 1),
            launcher=Launcher(launcher.registered_name, tuple(words)),
            # Given to the launcher word by word, by no shell.
            program=tuple(paths.on_node("runners.mpi_ranks")),
            rounds=tuple(in_rounds),
            places=tuple(places),
            orders=tuple(orders),
        )

    def judge_whole(self, left: JobOutput) -> Whole:
        """One failure for all groups that could not be isolated: at least one of these is bad,
        unless Slurm itself had trouble during their launch. `shared` is of the judge of the groups.
        """
        apart = [p.nodes for p in left.places if _is_apart(left.not_run.get(p.place, ""))]
        if not apart:
            return Whole(shared={})
        reasons = dict.fromkeys(why for why in left.not_run.values() if _is_apart(why))
        message = f"{len(apart)} groups of nodes: {'; '.join(reasons)}"
        step = f"railgauge show CAMPAIGN {apart[0][0]}; measure again: railgauge accept --nodes"
        kind = DISTURBED if ends.controller_trouble(left.error) else NOT_TOLD_APART
        return Whole([Failure(kind, message, next_step=step)], shared={})


def _is_apart(why: str) -> bool:
    return why.startswith(_NOT_ISOLATED)


def _in_rounds_s(rounds_of_job: FirstRuns, a_launch_s: Callable[[GroupRun], float]) -> float:
    """The time of all first launches."""
    total = 0.0
    for run, count in ((group_run(run), count) for run, count in rounds_of_job):
        launches = math.ceil(count / AT_ONCE) if run.together is None else 1
        total += float(a_launch_s(run)) * launches
    return total


def _deadline_s(rounds_of_job: FirstRuns) -> float:
    """Time for all rounds on a slow day, for one that hangs, and to halve the largest."""
    halving = most = 0.0
    for run, count in ((group_run(run), count) for run, count in rounds_of_job):
        levels = math.ceil(math.log2(count)) if run.together is not None else 0
        halving = max(halving, levels * (run.short_limit_s + HANG_S))
        most = max(most, run.longest_run_s)
    in_rounds = _in_rounds_s(rounds_of_job, lambda run: run.short_limit_s)
    return in_rounds + most + halving + HANG_S + START_S


def _order(run: GroupRun, check: SweepCheck, members: Sequence[Case]) -> LaunchOrder:
    """The order of a launch of these groups, with `check` at the first."""
    groups = [place for place in members if isinstance(place, GroupCase)]
    inputs = check.bound_inputs
    return LaunchOrder(
        ranks=run.ranks_order(check.tool_name, check.rank_variable, groups),
        table=run.table,
        files=dict(run.files(inputs)),
        together=run.together,
        bounds=dict(run.bounds(inputs)),
        least=dict(run.least(inputs)),
        spread=round(STANDS_OUT * run.partition.extras.peer_spread, 3),
        expected_s=round(run.expected_run_s, 1),
        short_limit_s=round(run.short_limit_s, 1),
    )


def _launcher(launcher: Any, options: Sequence[str]) -> list[str]:
    words = shlex.split(" ".join([*launcher.options, *options]))
    if launcher.registered_name == "mpirun":
        # Which rank runs where is in the order of the groups.
        for option in ("--map-by", "-map-by"):
            while option in words:
                place = words.index(option)
                del words[place : place + 2]
    return [str(launcher.registered_name), *words]


def judge_ranks(run: GroupRun, left: SweepPlace) -> Observation:
    """The observation of what all ranks of a group printed."""
    lines = exit_lines(run, left)
    calls = [line.call for line in lines]
    outputs = {call.rank: left.output(call.role) for call in calls}
    reading = run.tool.read(outputs, calls=calls, options=run.options)
    facts = {line.call.host: line.facts for line in lines}
    return Observation(reading, calls, facts, not_launched(run, left))


def exit_lines(run: GroupRun, left: SweepPlace) -> list[ExitLine]:
    """The exit lines in the order of the group's ranks, which count from 0."""
    lines = []
    for rank in range(run.ranks):
        line = left.exit_line(f"rank{rank}")
        if line is not None:
            lines.append(ExitLine(_counted(line.call, rank), line.facts))
    return lines


def launch_sides(run: GroupRun, output: SweepOutput) -> dict[int, results_file.Side]:
    """Rank in the whole launch of the group -> what it left."""
    sides_by_rank = {}
    for group, number in enumerate(output.launch(run.place)["places"]):
        sides = output.recorded.sides.get(number, {})
        for rank in range(run.ranks):
            if f"rank{rank}" in sides:
                sides_by_rank[group * run.ranks + rank] = sides[f"rank{rank}"]
    return sides_by_rank


def not_launched(run: GroupRun, left: SweepPlace) -> list[Failure]:
    """The failure that Slurm's controller failed the launch, where no node of it is dead."""
    launch = left.job_output.output.launch(run.place)
    words = "" if exit_lines(run, left) else ends.controller_trouble(str(launch["err"]))
    if not words or slurm_nodes.dead(run.place.nodes):
        return []
    return [Failure(DISTURBED, f"not measured: {words}")]


def _counted(call: Call, rank: int) -> Call:
    """A call as its group counts it."""
    return Call(**{**vars(call), "rank": rank, "role": f"rank{rank}"})
