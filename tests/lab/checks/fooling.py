"""Checks that would pass in bare ReFrame and must not: one for each hole that is closed.

Each runs as a real job in the lab. `Good` is the control: the same, with nothing wrong.
"""

import dataclasses
import datetime
import os
from pathlib import Path

from reframe.core.builtins import parameter, run_after, run_before

import reframe as rfm
from railgauge.checks.framework.cases import (
    ApplicationCase,
    PairCase,
    SettingCase,
    StateCase,
    SweepCase,
)
from railgauge.checks.jobs.client_server import PairRun, PairTool, RunPart
from railgauge.checks.jobs.mpi_job import RanksCheck, WholePartitions
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.mpi.application import ApplicationCheck
from railgauge.checks.mpi.mpi_under_load import MpiBesideCheck
from railgauge.checks.tcp.cpu_load import in_state
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Provenance, Reference
from railgauge.systems.application import Application, Converged
from railgauge.tools import Completeness, Reading, iperf2, iperf3, mpi_world, perftest


class Probe:
    """A tool of the simplest kind: prints `SIZE LATENCY` lines."""

    TOOL = "probe"

    @staticmethod
    def version_argv():
        return ["echo", "probe 1"]


class ProbeCheck(RanksCheck):
    """Runs a shell command on two nodes and reads its lines."""

    cases = WholePartitions("mpi")
    partition = parameter(cases, loggable=False)
    tool = Probe
    metrics = ["latency_1B", "latency_2B", "latency_4B"]
    script = "echo 1 1.5; echo 2 1.6; echo 4 1.7"
    first_node = 0

    @run_after("init")
    def use_two_nodes(self):
        self.pinned_nodes = self.pinned_nodes[self.first_node :][:2]
        self.num_tasks = 2

    def command(self):
        return ["sh", "-c", self.script]

    def reading(self, calls):
        lines = [line.split() for line in self.output("rank0").splitlines()]
        measurements = tuple(
            Measurement("latency", float(value), "probe", "probe", "none", size_bytes=int(size))
            for size, value in lines
        )
        return Reading(True, "", Completeness.PROVED, measurements, self.states())

    def states(self):
        return {}


@rfm.simple_test
class Good(ProbeCheck):
    pass


@rfm.simple_test
class TimesOut(ProbeCheck):
    time_limit = "1m"
    postrun_cmds = ["sleep 300"]

    # Its minute goes by next to the others.
    first_node = 2


@rfm.simple_test
class Cancelled(ProbeCheck):
    postrun_cmds = ["scancel $SLURM_JOB_ID", "sleep 60"]


@rfm.simple_test
class JobFails(ProbeCheck):
    postrun_cmds = ["exit 3"]


@rfm.simple_test
class PreparationFails(ProbeCheck):
    """As a module that cannot be loaded: the script would go on with something else."""

    prerun_cmds = ["false"]


@rfm.simple_test
class ToolFails(ProbeCheck):
    """The tool fails on one rank, and the job does not notice."""

    script = ProbeCheck.script + "; test $SLURM_PROCID = 0"

    @run_before("run")
    def ignore_exit_code(self):
        self.executable_opts += ["||", "true"]


@rfm.simple_test
class RankMissing(ProbeCheck):
    """A rank that never started."""

    @run_before("run")
    def start_one(self):
        self.job.launcher.options += ["--ntasks=1", "--nodes=1"]


@rfm.simple_test
class NotANumber(ProbeCheck):
    script = "echo 1 1.5; echo 2 fast; echo 4 1.7"


@rfm.simple_test
class NotFinite(ProbeCheck):
    script = "echo 1 1.5; echo 2 nan; echo 4 1.7"


@rfm.simple_test
class SweepStopsEarly(ProbeCheck):
    script = "echo 1 1.5; echo 2 1.6"


@rfm.simple_test
class NoReference(ProbeCheck):
    metrics = ["latency_1B", "latency_2B", "latency_4B", "latency_8B"]
    script = ProbeCheck.script + "; echo 8 1.8"


class Floored(ProbeCheck):
    """What is stored nowhere has a floor by the description: at most `most`."""

    metrics = ["latency_1B", "latency_2B", "latency_4B", "latency_8B"]
    script = ProbeCheck.script + "; echo 8 1.8"
    most = 2.0

    def floor(self, measurement):
        told = Provenance(source="the description", date=datetime.date(2026, 11, 22))
        unit = measurement.unit
        return Reference(value=self.most, upper=0, unit=unit, kind="floor", provenance=told)


@rfm.simple_test
class AboveFloor(Floored):
    pass


@rfm.simple_test
class BelowFloor(Floored):
    most = 1.0


@rfm.simple_test
class StoredNumbersWin(Floored):
    """All of these are stored, and higher."""

    metrics = ["latency_1B", "latency_2B", "latency_4B"]
    script = ProbeCheck.script
    most = 1.0


@rfm.simple_test
class OtherCondition(ProbeCheck):
    expected = {"transport": "ib"}

    def states(self):
        return {"transport": "sockets"}


@rfm.simple_test
class ConditionNotStated(ProbeCheck):
    expected = {"transport": "ib"}


@rfm.simple_test
class AboveLimit(ProbeCheck):
    def limit(self, measurement):
        return Limit(1.0, "us", "light in this fibre")


@rfm.simple_test
class Unproved(ProbeCheck):
    """Output that nothing contradicts, and nothing proves."""

    def reading(self, calls):
        return Reading(True, "", Completeness.UNKNOWN, super().reading(calls).measurements)


@rfm.simple_test
class NoResult(ProbeCheck):
    """The tool's module says that the output is no result."""

    def reading(self, calls):
        measured = super().reading(calls).measurements
        return Reading(False, "no result", Completeness.PROVED, measured)


@rfm.simple_test
class Simulated(ProbeCheck):
    """A stand-in's output, where nobody rehearses."""

    def reading(self, calls):
        return dataclasses.replace(super().reading(calls), simulated=True)


@rfm.simple_test
class CountersSimulated(ProbeCheck):
    """A stand-in's counters, where nobody rehearses."""

    def read(self):
        observed = super().read()
        facts = {n: {"counters": {"simulated": True}} for n in self.nodes_here()}
        return dataclasses.replace(observed, facts=facts)


@rfm.simple_test
class OutOfReference(ProbeCheck):
    script = "echo 1 1.5; echo 2 1.6; echo 4 99"


@rfm.simple_test
class SecondTry(ProbeCheck):
    """Fails at first, passes when tried again."""

    @run_before("run")
    def fail_once(self):
        tried = f"{os.environ['RAILGAUGE_RESULTS']}/tried"
        self.prerun_cmds += [f"test -e {tried} || {{ touch {tried}; exit 1; }}"]


@rfm.simple_test
class Skips(ProbeCheck):
    @run_after("setup")
    def give_up(self):
        self.skip("not today")


@rfm.simple_test
class Singletons(RanksCheck):
    """MPI without PMIx: every rank a world of its own."""

    cases = WholePartitions("mpi")
    partition = parameter(cases, loggable=False)
    tool = mpi_world
    metrics = ["startup"]

    @run_after("init")
    def expect(self):
        self.expected = {"ranks": self.num_tasks}

    @run_before("run")
    def start_without_pmix(self):
        self.job.launcher.options = ["--mpi=none"]

    def command(self):
        return mpi_world.argv()

    def reading(self, calls):
        outputs = {call.rank: self.output(call.role) for call in calls}
        return mpi_world.read(outputs, calls, mpi_world.Options(self.num_tasks))


@rfm.simple_test
class GivesUp(ApplicationCheck):
    """A solver that ends early, says so, and exits with 0: it would be the fastest of all."""

    program = parameter([ApplicationCase("ns", "solver", ("n1", "n2"))], loggable=True)
    described = Application(
        command=["sh", "-c", "test {rank} = 1 || echo residual: 99"],
        runs=3,
        limit_s=20,
        converged=Converged(pattern="residual: (.*)", at_most=16),
    )


def program(tool, options, **argv):
    """A tool with another server or client than its own."""
    own = {
        "server": tool.server_argv(options),
        "client": tool.client_argv(options),
        "version": tool.version_argv(),
    }
    return PairTool(module=tool, options=options, **{**own, **argv})


@rfm.simple_test
class ServerDies(SweepCheck):
    """iperf2's client exits with 0 and prints plausible rows when its server is killed."""

    sweep = parameter([SweepCase("ns", (PairCase("ns", "n1", "n2"),))])
    tool = iperf2
    metrics = ["bandwidth"]

    def run_at(self, place, partition):
        options = iperf2.Options(streams=1, duration_s=3)
        server = ["timeout", "--signal=KILL", "1.5", *iperf2.server_argv(options)]
        return PairRun(
            place=place,
            partition=partition,
            tool=program(iperf2, options, server=server),
            expected_run_s=3,
            run_limit_s=10,
        )


@rfm.simple_test
class EndedByTerm(SweepCheck):
    """iperf3 3.19 and newer end with 0 at SIGTERM, which Slurm sends before SIGKILL."""

    sweep = parameter([SweepCase("ns", (PairCase("ns", "n1", "n2"),))])
    tool = iperf3
    metrics = ["bandwidth"]

    def run_at(self, place, partition):
        options = iperf3.Options(streams=1, duration_s=4)
        # Older ones end with 1.
        ended = ["sh", "-c", 'timeout --signal=TERM 2 "$@"; exit 0', "sh"]
        client = [*ended, *iperf3.client_argv(options)]
        return PairRun(
            place=place,
            partition=partition,
            tool=program(iperf3, options, client=client),
            expected_run_s=4,
            run_limit_s=10,
        )


#: A server, or a client with an address, that prints an output once the two have met.
_SAYS = """
import socket, sys
address, port, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if address:
    socket.create_connection((address, port)).close()
else:
    with socket.create_server(("", port)) as server:
        server.accept()
print(text, end="")
"""


@rfm.simple_test
class CorruptData(SweepCheck):
    """perftest ends with 0, and with a good bandwidth, where its validation of the data failed."""

    sweep = parameter([SweepCase("ns", (PairCase("ns", "n1", "n2"),))])
    tool = perftest
    metrics = ["bandwidth_65536B"]

    def run_at(self, place, partition):
        how = {"bidirectional": True, "iterations": 200, "data_validation": True}
        options = perftest.Options("write", "bw", 65536, **how)
        # As in tests/unit/checks/rdma/test_data_validation.py.
        passed = "VALIDATION: PASSED - 100 chunks, 6553600 bytes"
        corrupt = "VALIDATION: FAILED - 2 error(s), first at QP 0, Chunk 17, Offset 4096"
        says = ["python3", "-c", _SAYS]
        server = [*says, "", "{port}", self.printed("server") + corrupt + "\n"]
        client = [*says, "{server}", "{port}", self.printed("client") + passed + "\n"]
        return PairRun(
            place=place,
            partition=partition,
            tool=PairTool(
                module=perftest,
                options=options,
                server=server,
                client=client,
                version=["echo", "stand-in"],
            ),
            expected_run_s=3,
            run_limit_s=10,
        )

    def printed(self, side):
        recorded = Path(__file__).parents[2] / f"data/perftest/bidirectional-{side}.txt"
        return recorded.read_text(encoding="utf-8")


@rfm.simple_test
class TransferTooShort(MpiBesideCheck):
    """An MPI program that goes on when the transfer next to it has ended."""

    pair = parameter([SettingCase("ns", "n1", "n2", "default")])

    def mpi_order(self, limit_s):
        program = super().mpi_order(limit_s)
        late = ("sh", "-c", f"sleep 15 && {' '.join(program.argv)}")
        return dataclasses.replace(program, argv=late)

    def run_at(self, place, partition):
        run = super().run_at(place, partition)
        options = dataclasses.replace(run.tool.options, duration_s=2)
        return dataclasses.replace(run, tool=program(iperf2, options))


class EarlyStressors(RunPart):
    """Stressors that end by themselves after 8 s."""

    def order(self, order):
        early = ("sh", "-c", 'exec stress-ng "$@" --timeout 8', "sh")
        load = dataclasses.replace(order.contention, program=early)
        return dataclasses.replace(order, contention=load)


@rfm.simple_test
class StressorsEndEarly(SweepCheck):
    """A host that is busy for a part of the test only: it has a while to begin with that."""

    sweep = parameter([SweepCase("ns", (StateCase("ns", "n1", "n2", "busy"),))])
    tool = iperf2
    metrics = ["bandwidth_busy"]

    def run_at(self, place, partition):
        options = iperf2.Options(streams=1, duration_s=9)
        run = PairRun(
            place=place,
            partition=partition,
            tool=program(iperf2, options),
            expected_run_s=9,
            run_limit_s=30,
        )
        run = in_state(run, place.state)
        return dataclasses.replace(run, parts=(*run.parts, EarlyStressors()))


class ByFake(SweepCheck):
    """iperf2 between n1 and n2, by a program that makes more of its numbers."""

    sweep = parameter([SweepCase("ns", (PairCase("ns", "n1", "n2"),))])
    tool = iperf2
    metrics = ["bandwidth"]
    factor = 1

    def run_at(self, place, partition):
        options = iperf2.Options(streams=1, duration_s=3)
        script = str(Path(__file__).resolve().with_name("fake_iperf.py"))
        fake = ["python3", script, str(self.factor)]
        server = [*fake, *iperf2.server_argv(options)]
        client = [*fake, *iperf2.client_argv(options)]
        return PairRun(
            place=place,
            partition=partition,
            tool=program(iperf2, options, server=server, client=client),
            expected_run_s=3,
            run_limit_s=20,
        )


@rfm.simple_test
class NotInflated(ByFake):
    """The control: the same, with nothing made of it."""


@rfm.simple_test
class Inflated(ByFake):
    """Moves 0.9 Gb/s and says 8.1."""

    factor = 9


class NothingMoved(RunPart):
    """A reading that does not say what was moved."""

    def reading(self, reading, facts):
        return dataclasses.replace(reading, moved=())


@rfm.simple_test
class ClaimsNothing(ByFake):
    """Rates by a reader that does not say what was moved."""

    def run_at(self, place, partition):
        return dataclasses.replace(super().run_at(place, partition), parts=(NothingMoved(),))
