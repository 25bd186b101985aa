"""Checks of an MPI program beside a transfer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reframe.core.builtins import run_before

from railgauge.checks.framework.cases import (
    LeftOut,
    Mismatch,
    SettingCase,
    is_series,
    left_to_the_series,
    mismatch_of_settings,
)
from railgauge.checks.framework.check import StrictCheck
from railgauge.checks.framework.observation import ExitLine, Observation
from railgauge.checks.framework.place_run import no_bound, no_limit
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.client_server import PairRun, judge_one_link
from railgauge.checks.jobs.pairs import PairCases, first_pair_alone, neighbours
from railgauge.checks.tcp.streams import stream_run
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition
from railgauge.node.orders.ranks import MpiUnderLoadOrder, ProgramOrder
from railgauge.slurm import nodes as slurm_nodes
from railgauge.stack import activation
from railgauge.systems import Mpi, Partition
from railgauge.tools import Completeness, Reading, iperf2, mpi_allreduce, osu

PHASES = ("alone", "beside")
TRANSFER = iperf2.TOOL

#: While the MPI program ran, the interface must have carried at least this share of the transfer's
#: mean rate; programs that start cost some of it.
_CARRIED = 0.25


class MpiCases(PairCases[SettingCase]):
    """Every setting, between the first two nodes of each partition with extras.mpi."""

    def __init__(self) -> None:
        super().__init__("mpi", "tcp")

    def on(self, partition: Partition) -> Iterable[SettingCase]:
        mpi = partition.extras.mpi
        if mpi is None or (mpi.series_only and not is_series()):
            return []
        first = neighbours(partition)[:1]
        return [SettingCase(*pair.ends, setting) for pair in first for setting in mpi.settings]

    def lacks_description(self, partition: Partition) -> str:
        if partition.extras.mpi is not None:
            return ""
        return "runs the program of extras.mpi, and there is none"

    def leaves_out(self, partition: Partition) -> Sequence[LeftOut]:
        only = _mpi(partition).series_only
        left_out = [left_to_the_series("extras.mpi.series_only")] if only else []
        return [*left_out, *first_pair_alone(partition)]

    def mismatch(self, condition: Condition, partition: Partition, gates: bool) -> Mismatch | None:
        return super().mismatch(condition, partition, gates) or mismatch_of_settings(
            condition, "mpi", _mpi(partition).settings
        )


def _mpi(partition: Partition) -> Mpi:
    mpi = partition.extras.mpi
    assert mpi is not None  # or there would be no case
    return mpi


def _mpi_program(partition: Partition) -> Mapping[str, Sequence[str]]:
    program = _mpi(partition).program
    return {} if program == "allreduce" else {program: []}


class MpiBesideCheck(StrictCheck):
    """An MPI program timed alone, then while iperf2 runs between the same two nodes: a job of two
    tasks in two steps, as MPI has to be launched.

    A concrete check gives its own `cases = MpiCases()` and `pair = parameter(cases)`.
    """

    pair: SettingCase
    here: SettingCase
    tool = iperf2
    programs = Programs(iperf2, more=_mpi_program)
    num_tasks = 2
    num_tasks_per_node = 1

    def provider(self, program: str) -> str:
        step = activation.bringing(program, self.current_system.name)
        return f"{step or super().provider(program)}; or extras.mpi.program: allreduce"

    @property
    def target(self) -> SettingCase:
        return self.pair

    @property
    def mpi(self) -> Mpi:
        return _mpi(self.partition_data)

    def run_at(self, place: SettingCase, partition: Partition) -> PairRun:
        """The transfer between both nodes."""
        mpi, setting = self.mpi, self.mpi.settings[place.setting]
        options = iperf2.Options(
            streams=setting.streams,
            duration_s=mpi.transfer_s,
            window_bytes=setting.window_bytes,
            congestion=setting.congestion,
            drain_s=5,
        )
        return stream_run(
            *(place, partition, options),
            run_limit_s=int(mpi.transfer_s) + 30,
            states={**iperf2.requested(options), "ranks": self.num_tasks},
            required=["bandwidth", *(f"mpi_time_{phase}_{mpi.size_bytes}B" for phase in PHASES)],
            limit_of=no_limit,
            shares_devices=True,
        )

    def mpi_order(self, limit_s: float) -> ProgramOrder:
        """The order of the MPI program."""
        if self.mpi.program == "allreduce":
            tool, version = mpi_allreduce.TOOL, mpi_allreduce.version_argv()
            argv = mpi_allreduce.argv(self._allreduce())
        else:
            tool, version, argv = osu.TOOL, osu.version_argv(), osu.argv(self._osu())
        return ProgramOrder(tool, tuple(argv), tuple(version), limit_s)

    def _allreduce(self) -> mpi_allreduce.Options:
        return mpi_allreduce.Options(self.num_tasks, self.mpi.size_bytes, self.mpi.iterations)

    def _osu(self) -> osu.Options:
        assert self.mpi.program != "allreduce"
        return osu.Options(self.mpi.program, self.mpi.size_bytes, self.mpi.iterations)

    @run_before("run")
    def start_both(self) -> None:
        """The same program is a step of its own before the one with the transfer."""
        names = slurm_nodes.names_of(self.pinned_nodes)
        run = self.run_at(self.pair, self.partition_data)
        orders = MpiUnderLoadOrder(
            rank_variable=self.rank_variable,
            tool=str(self.tool.TOOL),
            names={node: tuple(others) for node, others in names.items()},
            hosts=run.nodes,
            order=run.order(no_bound),
            mpi=self.mpi_order(run.run_limit_s),
        )
        self.run_on_nodes("runners.mpi_under_load", "mpi_under_load.json", orders)
        self.job.launcher.options += list(self.partition_data.extras.launch_options)
        launch = self.job.launcher.run_command(self.job)
        words = " ".join([self.executable, *self.executable_opts])
        self.prerun_cmds += [f"{launch} {words} alone"]
        self.executable_opts += ["beside"]

    @property
    def expected_seconds(self) -> float:
        return float(self.mpi.transfer_s) + 5

    # --- what it left --------------------------------------------------------------------------

    def read(self) -> Observation:
        transfer = judge_one_link(self.run_at(self.here, self.partition_data), self, no_bound)
        lines = {phase: self._lines(phase) for phase in PHASES}
        calls = {phase: [line.call for line in lines[phase]] for phase in PHASES}
        readings = {phase: self._mpi(phase, calls[phase]) for phase in PHASES}
        of_mpi = [line for phase in PHASES for line in lines[phase]]
        facts: dict[str, dict[str, Any]] = {}
        # What the transfer's side says of its node is the last word.
        stated = [(line.call.host, line.facts) for line in of_mpi]
        for node, of_node in [*stated, *transfer.facts.items()]:
            facts.setdefault(node, {}).update(of_node)
        return dataclasses.replace(
            transfer,
            reading=self._together({TRANSFER: transfer.reading, **readings}),
            calls=[*transfer.calls, *(line.call for line in of_mpi)],
            facts=facts,
            failures=[*transfer.failures, *self._not_beside(transfer)],
        )

    def _lines(self, phase: str) -> list[ExitLine]:
        lines = (self.exit_line(f"{phase}{rank}") for rank in range(self.num_tasks))
        return [line for line in lines if line is not None]

    def _together(self, readings: Mapping[str, Reading]) -> Reading:
        refused = [f"{name}: {r.reason}" for name, r in readings.items() if not r.ok]
        if refused:
            return Reading.invalid("; ".join(refused))
        unproved = [r for r in readings.values() if r.completeness is not Completeness.PROVED]
        return Reading(
            True,
            "; ".join(r.reason for r in unproved or readings.values()),
            unproved[0].completeness if unproved else Completeness.PROVED,
            tuple(m for reading in readings.values() for m in reading.measurements),
            {**readings["alone"].seen, **readings["beside"].seen, **readings[TRANSFER].seen},
            moved=readings[TRANSFER].moved,
        )

    def _mpi(self, phase: str, calls: Sequence[Call]) -> Reading:
        outputs = {rank: self.output(f"{phase}{rank}") for rank in range(self.num_tasks)}
        if self.mpi.program == "allreduce":
            reading = mpi_allreduce.read(outputs, calls, self._allreduce())
        else:
            reading = osu.read(outputs, calls=calls, options=self._osu())
        timed = [m for m in reading.measurements if m.metric == "mpi_time"]
        return dataclasses.replace(reading, measurements=tuple(self._of(phase, m) for m in timed))

    def _of(self, phase: str, measurement: Measurement) -> Measurement:
        """With the transfer that it ran beside, if it did, as a part of its condition."""
        named = measurement.with_state(phase)
        if phase == "alone":
            return named
        return dataclasses.replace(named, **self.mpi.settings[self.here.setting].model_dump())

    def _not_beside(self, transfer: Observation) -> list[Failure]:
        """A transfer that was not there all the time: the program ran beside nothing."""
        failures = []
        mean = [m.value for m in transfer.reading.measurements if m.metric == "bandwidth"]
        for call in transfer.calls:
            beside = transfer.facts[call.host].get("beside")
            if beside is not None:
                failures += ended_early(call.host, beside, self.mpi.transfer_s)
            if beside is not None and call.role == "client" and mean:
                failures += stood_still(call.host, beside, mean[0])
        return failures


def ended_early(node: str, beside: Mapping[str, Any], transfer_s: int) -> list[Failure]:
    """A transfer that had ended on `node` before the MPI program did."""
    if beside.get("outlasted") is True:
        return []
    message = (
        f"the transfer had ended on {node} before the MPI program did, which took "
        f"{beside.get('seconds')} s with its start"
    )
    step = f"raise extras.mpi.transfer_s ({transfer_s}), or lower iterations"
    return [Failure("transfer-ended", message, next_step=step)]


def stood_still(node: str, beside: Mapping[str, Any], mean_gbits: float) -> list[Failure]:
    """A transfer that moved next to nothing while the MPI program ran."""
    seconds = beside.get("seconds", 0)
    carried = 8e-9 * beside.get("sent_bytes", 0) / seconds if seconds else 0.0
    if carried >= _CARRIED * mean_gbits:
        return []
    message = (
        f"{node} sent {carried:.4g} Gb/s while the MPI program ran, and {mean_gbits:.4g} over all "
        "of the transfer: it stood still"
    )
    return [Failure("transfer-stalled", message, (node,))]
