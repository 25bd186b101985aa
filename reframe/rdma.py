"""RDMA between two nodes, by perftest: every rail, within it and across."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.rdma.all_rails import AllRails, RailsCheck
from railgauge.checks.rdma.rail import RailLinks, RdmaCheck
from railgauge.checks.rdma.verbs_modes import RailUsages, UsageCheck
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
class RdmaUsage(UsageCheck):
    """Other ways to use a link than RdmaBandwidth's; the first rail stands for the others.

    READ and SEND, which MPI and storage use beside WRITE; both directions at once; several queue
    pairs, which a fabric may spread over its paths; a time; a connection by rdma_cm; all sizes.

    Good is: the bandwidth of each at its reference, of all sizes that of the largest.
    """

    descr = "RDMA bandwidth of one rail between two nodes, used in other ways"
    tags = {"rdma", "acceptance"}
    metrics = ["bandwidth_65536B"]

    cases = RailUsages(
        *("first", "read", "send", "bidirectional", "queue_pairs", "duration", "rdma_cm", "sizes")
    )
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        tuning, few = self.tuning, {"iterations": self.tuning.bandwidth_iterations}
        operation, how = {
            "read": ("read", few),
            "send": ("send", few),
            "bidirectional": ("write", {"bidirectional": True, **few}),
            "queue_pairs": ("write", {"queue_pairs": tuning.queue_pairs, **few}),
            "duration": ("write", {"duration_s": tuning.duration_s}),
            "rdma_cm": ("write", {"rdma_cm": True, **few}),
            "sizes": ("write", {"sweep": True, "iterations": tuning.sweep_iterations}),
        }[self.usage]
        return self.ask(operation, "bw", size_bytes=None if "sweep" in how else 64 * KIB, **how)

    def required_metrics(self):
        sizes = perftest.SWEEP_SIZES if self.usage == "sizes" else [64 * KIB]
        return [self.variable_of("bandwidth", size) for size in sizes]

    def gates(self, measurement):
        return measurement.variable == self.required_metrics()[-1]


@simple_test
class RdmaLatency(UsageCheck):
    """ib_write_lat and ib_send_lat with 2 bytes.

    Good is: the typical latency and its percentiles at the reference. With few iterations the
    highest percentile is only the maximum, and is called so.
    """

    descr = "RDMA latency of one rail between two nodes"
    tags = {"rdma", "latency", "acceptance"}

    cases = RailUsages("same", "write", "send")
    sweep = parameter(cases.sweeps, loggable=True)

    @property
    def options(self):
        iterations = self.tuning.latency_iterations
        return self.ask(self.usage, "lat", size_bytes=2, iterations=iterations)

    def required_metrics(self):
        few = perftest.is_maximum(self.tuning.latency_iterations, 0.999)
        tail = "latency_max" if few else "latency_p999"
        return [f"{name}_2B" for name in ("latency", "latency_p99", tail)]


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
class RdmaGpuMemory(RdmaCheck):
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
