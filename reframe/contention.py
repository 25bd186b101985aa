"""TCP and RDMA between hosts that are idle, that are busy, and whose tool is far from its NIC."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.client_server import PairCheck
from railgauge.checks.rdma.rail import RdmaCheck
from railgauge.checks.tcp.cpu_load import InState, RailStates, TcpStates
from railgauge.model import limits
from railgauge.tools import iperf2, perftest


@simple_test
class ContentionTcp(InState, PairCheck):
    """iperf2 between two hosts in one state after the other.

    Good is: the host in that state for all of the test, by what its processes used of its CPUs, and
    the bandwidth at the reference of that state.
    """

    descr = "TCP beside load on the hosts"
    tags = {"tcp", "contention", "acceptance"}
    tool = iperf2
    gating = ("bandwidth",)

    cases = TcpStates()
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        data = self.contention
        return iperf2.Options(streams=data.streams, duration_s=data.duration_s, drain_s=5)

    def required_metrics(self):
        return [f"{name}_{self.state}" for name in ("bandwidth", "retransmits")]

    def requested(self):
        return iperf2.requested(self.options)

    def commands(self):
        return iperf2.commands(self.options)

    def expected_run_s(self):
        return self.contention.duration_s + 2

    def run_limit_s(self):
        return self.contention.duration_s + 30

    def limit(self, measurement):
        path = self.partition_data.extras
        if measurement.unit == "Gb/s" and path.link_gbits and path.mtu_bytes:
            return limits.tcp(path.link_gbits, path.mtu_bytes)


@simple_test
class ContentionLatency(InState, RdmaCheck):
    """ib_write_lat with 2 bytes between two hosts in one state after the other.

    Good is: as above, and the typical latency and its percentiles at the reference of that state.
    """

    descr = "RDMA latency beside load on the hosts"
    tags = {"rdma", "latency", "contention", "acceptance"}

    cases = RailStates()
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        return self.ask("write", "lat", size_bytes=2, iterations=self.tuning.latency_iterations)

    def required_metrics(self):
        few = perftest.is_maximum(self.tuning.latency_iterations, 0.999)
        tail = "latency_max" if few else "latency_p999"
        return [f"{name}_{self.state}_2B" for name in ("latency", "latency_p99", tail)]
