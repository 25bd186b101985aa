"""RDMA between two nodes, by perftest: every rail, within it and across."""

from reframe.core.builtins import parameter

from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.rdma.all_rails import AllRails, AllRailsPreconditions, run_over_all
from railgauge.checks.rdma.data_validation import validated_run
from railgauge.checks.rdma.rail import (
    PROGRAMS,
    RailLinks,
    RailPreconditions,
    ask,
    latency_metrics,
    perftest_run,
    tuning_of,
)
from railgauge.checks.rdma.verbs_modes import RailUsages, state_of, variable_of
from railgauge.tools import perftest

KIB = 1024


@simple_test
class RdmaBandwidth(SweepCheck):
    """ib_write_bw over every rail of neighbouring nodes, and from each rail to the next.

    Good is: the bandwidth of 64 KiB messages at the reference; above that size a link is at its
    line rate.
    """

    descr = "RDMA WRITE bandwidth of one rail between two nodes"
    tags = {"rdma", "acceptance"}
    tool = perftest
    programs = PROGRAMS
    preconditions = RailPreconditions()
    metrics = ["bandwidth_65536B"]

    cases = RailLinks("all")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        iterations = tuning_of(partition).bandwidth_iterations
        options = ask(partition, "write", "bw", size_bytes=64 * KIB, iterations=iterations)
        return perftest_run(place, partition, options, self.metrics)


@simple_test
class RdmaUsage(SweepCheck):
    """Other ways to use a link than RdmaBandwidth's; the first rail stands for the others.

    READ and SEND, which MPI and storage use besides WRITE; both directions at once; several queue
    pairs, which a fabric may spread over its paths; a time; a connection by rdma_cm; all sizes.

    Good is: the bandwidth of each at its reference, of all sizes that of the largest.
    """

    descr = "RDMA bandwidth of one rail between two nodes, used in other ways"
    tags = {"rdma", "acceptance"}
    tool = perftest
    programs = PROGRAMS
    preconditions = RailPreconditions()
    metrics = ["bandwidth_65536B"]

    cases = RailUsages(
        *("first", "read", "send", "bidirectional", "queue_pairs", "duration", "rdma_cm", "sizes")
    )
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        tuning, usage = tuning_of(partition), place.usage
        few = {"iterations": tuning.bandwidth_iterations}
        operation, how = {
            "read": ("read", few),
            "send": ("send", few),
            "bidirectional": ("write", {"bidirectional": True, **few}),
            "queue_pairs": ("write", {"queue_pairs": tuning.queue_pairs, **few}),
            "duration": ("write", {"duration_s": tuning.duration_s}),
            "rdma_cm": ("write", {"rdma_cm": True, **few}),
            "sizes": ("write", {"sweep": True, "iterations": tuning.sweep_iterations}),
        }[usage]
        size = None if usage == "sizes" else 64 * KIB
        options = ask(partition, operation, "bw", size_bytes=size, **how)
        sizes = perftest.SWEEP_SIZES if usage == "sizes" else [64 * KIB]
        required = [variable_of("bandwidth", usage, size) for size in sizes]
        return perftest_run(
            *(place, partition, options, required),
            gated=required[-1:],
            state=state_of(usage),
        )


@simple_test
class RdmaLatency(SweepCheck):
    """ib_write_lat and ib_send_lat with 2 bytes.

    Good is: the typical latency and its percentiles at the reference. With few iterations the
    highest percentile is only the maximum, and is called so.
    """

    descr = "RDMA latency of one rail between two nodes"
    tags = {"rdma", "latency", "acceptance"}
    tool = perftest
    programs = PROGRAMS
    preconditions = RailPreconditions()

    cases = RailUsages("same", "write", "send")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        iterations = tuning_of(partition).latency_iterations
        options = ask(partition, place.usage, "lat", size_bytes=2, iterations=iterations)
        required = [f"{name}_2B" for name in latency_metrics(iterations)]
        return perftest_run(place, partition, options, required)


@simple_test
class RdmaRailsTogether(SweepCheck):
    """ib_write_bw both ways at once, over all rails of two nodes at the same time.

    Good is: the sum of all, and each rail's own both ways, at their references, and all rails at
    work while any of them was measured. With `railgauge accept --series`.
    """

    descr = "RDMA WRITE bandwidth in both directions over all rails at once"
    tags = {"rdma", "acceptance"}
    tool = perftest
    programs = PROGRAMS
    preconditions = AllRailsPreconditions()
    metrics = ["bandwidth_65536B"]

    cases = AllRails()
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        how = {"duration_s": tuning_of(partition).together_s, "bidirectional": True}
        options = ask(partition, "write", "bw", size_bytes=64 * KIB, **how)
        return run_over_all(place, partition, options, self.metrics)


@simple_test
class RdmaDataValidation(SweepCheck):
    """ib_write_bw both ways, with each byte that arrives compared with what was sent.

    Good is: no byte differs, and the bandwidth of such a run is at its reference.
    """

    descr = "RDMA WRITE in both directions, the data compared"
    tags = {"rdma", "acceptance"}
    tool = perftest
    programs = PROGRAMS
    preconditions = RailPreconditions()
    metrics = ["bandwidth_validated_65536B"]

    cases = RailLinks("same", only="perftest.data_validation")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return validated_run(place, partition)


@simple_test
class RdmaGpuMemory(SweepCheck):
    """ib_write_bw between buffers in GPU memory, where perftest is built with CUDA."""

    descr = "RDMA WRITE bandwidth of GPU memory"
    tags = {"rdma", "gpu", "acceptance"}
    tool = perftest
    programs = PROGRAMS
    preconditions = RailPreconditions()
    metrics = ["bandwidth_65536B"]

    cases = RailLinks("same", only="perftest.cuda")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        iterations = tuning_of(partition).bandwidth_iterations
        # The buffers are in the memory of the GPU that has the rail's number.
        how = {"iterations": iterations, "cuda_device": place.server_rail}
        options = ask(partition, "write", "bw", size_bytes=64 * KIB, **how)
        return perftest_run(place, partition, options, self.metrics)
