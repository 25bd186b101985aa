"""RDMA between two nodes, by perftest: every rail, within it and across."""

from reframe.core.builtins import parameter

from railgauge.checks.base import simple_test
from railgauge.checks.rails import AllRails, RailsCheck
from railgauge.checks.rdma import RailLinks, RdmaCheck
from railgauge.tools import perftest

KIB = 1024


@simple_test
class RdmaBandwidth(RdmaCheck):
    """ib_write_bw over every rail of neighbouring nodes, and from each rail to the next.

    Good is: the bandwidth of 64 KiB messages at the reference; above that size a link is at its
    line rate.
    """

    descr = "RDMA WRITE bandwidth of one rail between two nodes"
    tags = {"rdma", "acceptance"}
    metrics = ["bandwidth_65536B"]

    cases = RailLinks("all")
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        iterations = self.tuning.bandwidth_iterations
        return self.ask("write", "bw", size_bytes=64 * KIB, iterations=iterations)


@simple_test
class RdmaOperation(RdmaCheck):
    """ib_read_bw and ib_send_bw: the operations that MPI and storage use beside WRITE."""

    descr = "RDMA READ and SEND bandwidth of one rail between two nodes"
    tags = {"rdma", "acceptance"}
    metrics = ["bandwidth_65536B"]

    cases = RailLinks("first")
    sweep = parameter(cases.sweeps, loggable=True)
    operation = parameter(["read", "send"], loggable=True)

    @property
    def options(self):
        iterations = self.tuning.bandwidth_iterations
        return self.ask(self.operation, "bw", size_bytes=64 * KIB, iterations=iterations)


@simple_test
class RdmaLatency(RdmaCheck):
    """ib_write_lat and ib_send_lat with 2 bytes.

    Good is: the typical latency and its percentiles at the reference. With few iterations the
    highest percentile is only the maximum, and is called so.
    """

    descr = "RDMA latency of one rail between two nodes"
    tags = {"rdma", "latency", "acceptance"}

    cases = RailLinks("same")
    sweep = parameter(cases.sweeps, loggable=True)
    operation = parameter(["write", "send"], loggable=True)

    @property
    def options(self):
        iterations = self.tuning.latency_iterations
        return self.ask(self.operation, "lat", size_bytes=2, iterations=iterations)

    def required_metrics(self):
        few = perftest.is_maximum(self.tuning.latency_iterations, 0.999)
        tail = "latency_max" if few else "latency_p999"
        return [f"{name}_2B" for name in ("latency", "latency_p99", tail)]


class FirstRail(RdmaCheck):
    """One more way to use a link; the first rail stands for the others."""

    cases = RailLinks("first")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class RdmaSweep(FirstRail):
    """ib_write_bw over all sizes. Good is: every size there, and the largest at the reference."""

    descr = "RDMA WRITE bandwidth from 2 bytes up"
    tags = {"rdma", "sweep", "acceptance"}

    @property
    def options(self):
        return self.ask("write", "bw", sweep=True, iterations=self.tuning.sweep_iterations)

    metrics = [f"bandwidth_{size}B" for size in perftest.SWEEP_SIZES]

    def gates(self, measurement):
        return measurement.variable == self.metrics[-1]


@simple_test
class RdmaBidirectional(FirstRail):
    """ib_write_bw both ways at once. Good is: the sum of both at the reference."""

    descr = "RDMA WRITE bandwidth in both directions at once"
    tags = {"rdma", "acceptance"}
    metrics = ["bandwidth_65536B"]

    @property
    def options(self):
        iterations = self.tuning.bandwidth_iterations
        return self.ask(
            "write", "bw", size_bytes=64 * KIB, iterations=iterations, bidirectional=True
        )


@simple_test
class RdmaRailsTogether(RailsCheck):
    """ib_write_bw both ways at once, over all rails of two nodes at the same time.

    Good is: the sum of all, and each rail's own both ways, at their references, and all rails at
    work while any of them was measured. With `railgauge accept --series`.
    """

    descr = "RDMA WRITE bandwidth in both directions over all rails at once"
    tags = {"rdma", "acceptance"}
    metrics = ["bandwidth_65536B"]

    cases = AllRails()
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        seconds = self.tuning.together_s
        return self.ask("write", "bw", size_bytes=64 * KIB, duration_s=seconds, bidirectional=True)


@simple_test
class RdmaQueuePairs(FirstRail):
    """ib_write_bw over several queue pairs, which a fabric may spread over its paths."""

    descr = "RDMA WRITE bandwidth of several queue pairs"
    tags = {"rdma", "acceptance"}
    metrics = ["bandwidth_65536B"]

    @property
    def options(self):
        return self.ask(
            "write",
            "bw",
            size_bytes=64 * KIB,
            iterations=self.tuning.bandwidth_iterations,
            queue_pairs=self.tuning.queue_pairs,
        )


@simple_test
class RdmaDuration(FirstRail):
    """ib_write_bw for a time. Good is: the mean over all of it at the reference."""

    descr = "RDMA WRITE bandwidth over seconds"
    tags = {"rdma", "acceptance"}
    metrics = ["bandwidth_65536B"]

    @property
    def options(self):
        return self.ask("write", "bw", size_bytes=64 * KIB, duration_s=self.tuning.duration_s)


@simple_test
class RdmaConnectionManager(FirstRail):
    """ib_write_bw connected by rdma_cm, as storage and some MPIs do."""

    descr = "RDMA WRITE bandwidth of a connection made by rdma_cm"
    tags = {"rdma", "acceptance"}
    metrics = ["bandwidth_65536B"]

    cases = RailLinks("first", only="rdma_cm")
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        iterations = self.tuning.bandwidth_iterations
        return self.ask("write", "bw", size_bytes=64 * KIB, iterations=iterations, rdma_cm=True)


@simple_test
class RdmaGpuMemory(FirstRail):
    """ib_write_bw between buffers in GPU memory, where perftest is built with CUDA."""

    descr = "RDMA WRITE bandwidth of GPU memory"
    tags = {"rdma", "gpu", "acceptance"}
    metrics = ["bandwidth_65536B"]

    cases = RailLinks("same", only="perftest.cuda")
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        iterations = self.tuning.bandwidth_iterations
        return self.ask("write", "bw", size_bytes=64 * KIB, iterations=iterations, gpu=True)
