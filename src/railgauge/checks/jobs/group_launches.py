"""Sweeps whose places are groups of nodes that one launch runs a program on, many groups at once.

The job's first node runs railgauge.node.orchestration.group_launches. A launch that is good clears
all of its groups, with the number of the slowest; one that is not is halved until the bad groups
are named.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from reframe.core.builtins import run_after

from railgauge import paths
from railgauge.checks.framework.cases import Case, GroupCase
from railgauge.checks.framework.observation import ExitLine, Observation
from railgauge.checks.jobs.sweep import SLOW, SLOW_S, SweepCheck
from railgauge.model.call import Call
from railgauge.model.failure import DISTURBED, NOT_TOLD_APART, Failure
from railgauge.model.measurement import STANDS_OUT
from railgauge.node.orchestration.group_launches import AT_ONCE, START_S
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

#: The beginning of the reason of groups that could not be isolated
#: (railgauge.node.orchestration.group_launches).
_NOT_ISOLATED = "could not isolate the bad group"


class LaunchCheck(SweepCheck):
    """One job over all nodes of its groups.

    A check gives its own `cases`, `sweep = parameter(cases.sweeps, loggable=True)`, `tool`,
    `command()`, times, and a `table` where the tool prints one;
    its `options` go to the tool's `read()`.
    """

    here: GroupCase
    driver = "orchestration.group_launches"
    #: how the driver reads the number of a launch; None where exit codes alone judge it
    table: TableOrder | None = None

    # --- for subclasses ----------------------------------------------------------------------

    @property
    def ranks_per_node(self) -> int:
        raise NotImplementedError

    def together(self) -> Mapping[str, str] | None:
        """The variables by which one launch runs several groups, {ranks} of each; None where the
        tool cannot: each is then a launch of its own, and all of a round run at once.
        """
        return None

    def kinds_of(self, places: Sequence[Case]) -> Sequence[Hashable]:
        """Of each place a further key that groups of one launch must share, besides size and
        condition.
        """
        return [()] * len(places)

    def bounds(self) -> Mapping[str, float]:
        """The least good values of the metrics that a launch is judged by, where they are known."""
        return {}

    def least(self) -> Mapping[str, float]:
        """The floors of these metrics where that is not known, as far as there are any."""
        return {}

    def command(self) -> Sequence[str]:
        """The argv of every rank; nodes fill in {rank} and {scratch}, a folder of their own."""
        raise NotImplementedError

    def ranks_order(self, places: Sequence[GroupCase]) -> RanksOrder:
        """The order for the ranks of these groups."""
        return RanksOrder(
            rank_variable=self.rank_variable,
            tool=self.tool_name,
            argv=tuple(self.command()),
            version=tuple(self.tool.version_argv()),
            run_limit_s=self.run_limit_s(),
        )

    def files(self) -> Mapping[str, Any]:
        """The documents to write into the folder of a launch, by name."""
        return {}

    def launcher_options(self) -> list[str]:
        """Variables beside those of the system's description; {folder} is that of a launch."""
        return []

    def run_limit_s(self) -> int:
        """The longest time that the program may take."""
        raise NotImplementedError

    # --- the case ------------------------------------------------------------------------------

    @property
    def ranks(self) -> int:
        return len(self.here.nodes) * self.ranks_per_node

    @run_after("init")
    def count_tasks(self) -> None:
        self.num_tasks_per_node = self.ranks_per_node
        self.num_tasks = len(self.pinned_nodes) * self.ranks_per_node

    def rounds_of(self, places: Sequence[Case]) -> list[list[Case]]:
        """Rounds of groups that share no node, and are alike: a launch may have many of these."""
        rounds: list[list[Case]] = []
        for members in super().rounds_of(places):
            kinds: dict[Hashable, list[Case]] = {}
            for place, kind in zip(members, self.kinds_of(members), strict=True):
                kinds.setdefault((len(place.nodes), kind), []).append(place)
            rounds += kinds.values()
        return rounds

    # --- how long it takes ---------------------------------------------------------------------

    def _rounds_s(self, rounds: Sequence[Sequence[Case]], a_launch_s: Any) -> float:
        """The time of all first launches."""
        total = 0.0
        for places in rounds:
            with self.at(places[0]):
                launch_s = float(a_launch_s())
            total += launch_s * (math.ceil(len(places) / AT_ONCE) if self.together() is None else 1)
        return total

    @property
    def expected_seconds(self) -> float:
        return self._rounds_s(self._all_rounds, self.expected_run_s) + 2

    def longest_run_s(self) -> float:
        return self.run_limit_s() + HANG_S

    def short_limit_s(self) -> float:
        """The limit of later launches: by then it is known how long one should take."""
        return min(self.run_limit_s(), SLOW * self.expected_run_s() + 3 * SLOW_S)

    def _deadline_s(self, rounds: Sequence[Sequence[Case]]) -> float:
        """Time for all rounds on a slow day, for one that hangs, and to halve the largest."""
        halving = most = 0.0
        for places in rounds:
            levels = math.ceil(math.log2(len(places))) if self.together() is not None else 0
            with self.at(places[0]):
                halving = max(halving, levels * (self.short_limit_s() + HANG_S))
                most = max(most, self.longest_run_s())
        in_rounds = self._rounds_s(rounds, self.short_limit_s)
        return in_rounds + most + halving + HANG_S + START_S

    def _longest_s(self, rounds_of_job: Sequence[Sequence[Case]]) -> float:
        return self._deadline_s(rounds_of_job) + super()._longest_s([])

    # --- the job -------------------------------------------------------------------------------

    def orders(self) -> LaunchList:
        """The orders for the driver (railgauge.node.orchestration.group_launches)."""
        places: list[Group] = []
        known: dict[str, int] = {}
        orders: list[LaunchOrder] = []
        in_rounds = []
        for members in self._rounds:
            first = len(places)
            with self.at(members[0]):
                order = self._order(members)
            text = json.dumps(order.document(), sort_keys=True)
            if text not in known:
                known[text] = len(orders)
                orders.append(order)
            places += [Group(place.place, tuple(place.nodes)) for place in members]
            in_rounds.append(LaunchRound(tuple(range(first, len(places))), known[text]))
        return LaunchList(
            tool=self.tool_name,
            nodes=tuple(self.pinned_nodes),
            ranks_per_node=self.ranks_per_node,
            deadline_s=round(self._deadline_s(self._rounds), 1),
            launcher=Launcher(self.job.launcher.registered_name, tuple(self._launcher())),
            # Given to the launcher word by word, by no shell.
            program=tuple(paths.on_node("runners.mpi_ranks")),
            rounds=tuple(in_rounds),
            places=tuple(places),
            orders=tuple(orders),
        )

    def _order(self, members: Sequence[Case]) -> LaunchOrder:
        groups = [place for place in members if isinstance(place, GroupCase)]
        return LaunchOrder(
            ranks=self.ranks_order(groups),
            table=self.table,
            files=dict(self.files()),
            together=self.together(),
            bounds=dict(self.bounds()),
            least=dict(self.least()),
            spread=round(STANDS_OUT * self.partition_data.extras.peer_spread, 3),
            expected_s=round(self.expected_run_s(), 1),
            short_limit_s=round(self.short_limit_s(), 1),
        )

    def _launcher(self) -> list[str]:
        launcher = self.job.launcher
        options = [*self.partition_data.extras.launch_options, *self.launcher_options()]
        words = shlex.split(" ".join([*launcher.options, *options]))
        if launcher.registered_name == "mpirun":
            # Which rank runs where is in the order of the groups.
            for option in ("--map-by", "-map-by"):
                while option in words:
                    place = words.index(option)
                    del words[place : place + 2]
        return [str(launcher.registered_name), *words]

    # --- what it left --------------------------------------------------------------------------

    @property
    def launch(self) -> results_file.Event:
        """The last launch that the group at hand was in."""
        return self._raw.launches[self._output.number(self.here)]

    def read(self) -> Observation:
        lines = self.exit_lines()
        calls = [line.call for line in lines]
        outputs = {call.rank: self.output(call.role) for call in calls}
        reading = self.tool.read(outputs, calls=calls, options=self.options)
        facts = {line.call.host: line.facts for line in lines}
        return Observation(reading, calls, facts, self.not_launched())

    def exit_lines(self) -> list[ExitLine]:
        """The exit lines in the order of the group's ranks, which count from 0."""
        lines = []
        for rank in range(self.ranks):
            role = f"rank{rank}"
            line = self.exit_line(role)
            if line is not None:
                lines.append(ExitLine(_counted(line.call, rank), line.facts))
        return lines

    def launch_sides(self) -> dict[int, results_file.Side]:
        """Rank in the whole launch -> what it left."""
        sides_by_rank = {}
        for group, number in enumerate(self.launch["places"]):
            sides = self._raw.sides.get(number, {})
            for rank in range(self.ranks):
                if f"rank{rank}" in sides:
                    sides_by_rank[group * self.ranks + rank] = sides[f"rank{rank}"]
        return sides_by_rank

    def text(self, file: str) -> str:
        """A file of the group at hand, or of its launch."""
        return super().text(file) or str(self.launch["files"].get(file, ""))

    def not_launched(self) -> list[Failure]:
        """The failure that Slurm's controller failed the launch, where no node of it is dead."""
        words = "" if self.exit_lines() else ends.controller_trouble(str(self.launch["err"]))
        if not words or slurm_nodes.dead(self.here.nodes):
            return []
        return [Failure(DISTURBED, f"not measured: {words}")]

    def job_failures(self) -> Sequence[Failure]:
        """The failures of the job, with one for all groups that could not be isolated: at least one
        of these is bad, unless Slurm itself had trouble during their launch.
        """
        apart = [
            place.nodes
            for place in self._wanted
            if self.not_run.get(place.place, "").startswith(_NOT_ISOLATED)
        ]
        reasons = dict.fromkeys(
            why for why in self.not_run.values() if why.startswith(_NOT_ISOLATED)
        )
        failures = list(super().job_failures())
        if apart:
            message = f"{len(apart)} groups of nodes: {'; '.join(reasons)}"
            step = f"railgauge show CAMPAIGN {apart[0][0]}; measure again: railgauge accept --nodes"
            kind = DISTURBED if ends.controller_trouble(self.job_end.error) else NOT_TOLD_APART
            failures.append(Failure(kind, message, next_step=step))
        return failures


def _counted(call: Call, rank: int) -> Call:
    """A call as its group counts it."""
    return Call(**{**vars(call), "rank": rank, "role": f"rank{rank}"})
