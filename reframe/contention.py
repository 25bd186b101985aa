"""TCP and RDMA between hosts that are idle or busy, or with a tool far from its NIC."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.rdma.rail import (
    HELPERS,
    OTHERS,
    RailPreconditions,
    ask,
    latency_metrics,
    perftest_run,
    tuning_of,
)
from railgauge.checks.tcp.cpu_load import (
    RailStates,
    TcpStates,
    contention_of,
    in_state,
    stressors,
)
from railgauge.checks.tcp.streams import stream_run
from railgauge.tools import iperf2, perftest


@simple_test
class ContentionTcp(SweepCheck):
    """iperf2 between two hosts in one state after the other.

    Good is: the host in that state for all of the test, by what its processes used of its CPUs, and
    the bandwidth at the reference of that state.
    """

    descr = "TCP next to load on the hosts"
    tags = {"tcp", "contention", "acceptance"}
    tool = iperf2
    programs = Programs(iperf2, more=stressors)
    gating = ("bandwidth",)

    cases = TcpStates()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        data = contention_of(partition)
        run = stream_run(
            *(place, partition),
            iperf2.Options(streams=data.streams, duration_s=data.duration_s, drain_s=5),
            around_s=2,
            run_limit_s=data.duration_s + 30,
            required=[f"{name}_{place.state}" for name in ("bandwidth", "retransmits")],
        )
        return in_state(run, place.state)


@simple_test
class ContentionLatency(SweepCheck):
    """ib_write_lat with 2 bytes between two hosts in one state after the other.

    Good is: as above, and the typical latency and its percentiles at the reference of that state.
    """

    descr = "RDMA latency next to load on the hosts"
    tags = {"rdma", "latency", "contention", "acceptance"}
    tool = perftest
    programs = Programs(perftest, *OTHERS, helpers=HELPERS, more=stressors)
    preconditions = RailPreconditions()

    cases = RailStates()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        iterations = tuning_of(partition).latency_iterations
        options = ask(partition, "write", "lat", size_bytes=2, iterations=iterations)
        names = latency_metrics(iterations)
        required = [f"{name}_{place.state}_2B" for name in names]
        run = perftest_run(place, partition, options, required)
        return in_state(run, place.state)
