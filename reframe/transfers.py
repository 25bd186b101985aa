"""Transfers over the network's TCP path: streams, and files by the tools that people use.

A tool that the system's data requires and a node lacks keeps the nodes from being accepted; an
optional one is left out, which the verdict says.
"""

from reframe.core.builtins import parameter, variable

from railgauge.checks.framework import minimum_bounds
from railgauge.checks.framework.check import simple_test
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.pairs import RingPairs
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.tcp.file_transfer import (
    TransferCases,
    TransferPrograms,
    by_ftp,
    by_ssh,
    by_wdt,
    stream_transfer,
)
from railgauge.checks.tcp.streams import stream_run
from railgauge.tools import file_transfer, iperf2, iperf3, wdt


@simple_test
class Iperf2Pair(SweepCheck):
    """iperf2 between neighbouring nodes: parallel TCP streams, one way.

    Good is: every stream there, both sides ended by themselves, all bytes sent were received,
    the path's MTU as the system says, and the received sum at the reference.
    """

    descr = "TCP between two nodes, by iperf2"
    tags = {"tcp", "acceptance"}
    tool = iperf2
    programs = Programs(iperf2)
    metrics = ["bandwidth", "stream_bandwidth_min", "retransmits"]

    cases = RingPairs("tcp")
    sweep = parameter(cases.sweeps, loggable=True)
    #: parallel TCP streams
    streams = variable(int, value=4, loggable=True)
    #: seconds of traffic
    duration_s = variable(int, value=3, loggable=True)
    #: socket buffer in bytes; the kernel's own choice if none
    window_bytes = variable(int, type(None), value=None, loggable=True)
    #: TCP congestion control (cubic, bbr, ...); the kernel's own choice if none
    congestion = variable(str, type(None), value=None, loggable=True)

    def run_at(self, place, partition):
        options = iperf2.Options(
            streams=self.streams,
            duration_s=self.duration_s,
            window_bytes=self.window_bytes,
            congestion=self.congestion,
            drain_s=5,
        )
        return stream_run(
            *(place, partition, options),
            around_s=0,
            run_limit_s=self.duration_s + 20,
            reverse_if_slow=True,
        )

    @classmethod
    def unstated(cls, extras):
        return minimum_bounds.unstated(extras)

    def floor(self, measurement):
        extras = self.partition_data.extras
        return minimum_bounds.of_link(
            measurement, extras, self.current_system.name, self.duration_s
        )


@simple_test
class Iperf3Pair(SweepCheck):
    """iperf3 between neighbouring nodes: what TCP carries where no file is read or written.

    Good is: every stream there, both sides' documents whole and of one run, and what the server
    received at the reference.
    """

    descr = "TCP between two nodes, by iperf3"
    tags = {"tcp", "transfer", "acceptance"}
    tool = iperf3
    transfer_tool = "iperf3"
    programs = TransferPrograms("iperf3", iperf3.version_argv())
    metrics = ["bandwidth", "stream_bandwidth_min", "retransmits"]
    gating = ("bandwidth",)

    cases = TransferCases("iperf3")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return stream_transfer(place, partition)


@simple_test
class WdtTransfer(SweepCheck):
    """WDT from the client to the server, over many connections.

    Good is: exit code 0 of both sides, which agree on blocks and bytes, and every file with its
    sha256, or all thrown away where that was asked for.
    """

    descr = "files between two nodes, by WDT"
    tags = {"tcp", "transfer", "acceptance"}
    tool = wdt
    transfer_tool = "wdt"
    programs = TransferPrograms("wdt", wdt.version_argv())
    gating = ("bandwidth",)

    cases = TransferCases("wdt")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return by_wdt(place, partition)


@simple_test
class FtpTransfer(SweepCheck):
    """lftp from a ProFTPD of this job's own, in parallel pieces or files."""

    descr = "files between two nodes, by lftp from ProFTPD"
    tags = {"tcp", "transfer", "acceptance"}
    tool = file_transfer
    transfer_tool = "lftp"
    programs = TransferPrograms("lftp", file_transfer.version_argv("lftp"))
    gating = ("bandwidth",)

    cases = TransferCases("lftp")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return by_ftp(place, partition)


@simple_test
class ScpTransfer(SweepCheck):
    """scp by OpenSSH to an sshd of this job's own."""

    descr = "files between two nodes, by scp"
    tags = {"tcp", "transfer", "acceptance"}
    tool = file_transfer
    transfer_tool = "scp"
    programs = TransferPrograms("scp", file_transfer.version_argv("scp"))
    gating = ("bandwidth",)

    cases = TransferCases("scp")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return by_ssh(place, partition, "scp")


@simple_test
class HpnScpTransfer(SweepCheck):
    """scp by HPN-SSH, with windows that grow with the path."""

    descr = "files between two nodes, by HPN-SSH's scp"
    tags = {"tcp", "transfer", "acceptance"}
    tool = file_transfer
    transfer_tool = "hpn-scp"
    programs = TransferPrograms("hpn-scp", file_transfer.version_argv("hpn-scp"))
    gating = ("bandwidth",)

    cases = TransferCases("hpn-scp")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return by_ssh(place, partition, "hpn-scp")


@simple_test
class BbcpTransfer(SweepCheck):
    """bbcp over parallel connections, started through an sshd of this job's own."""

    descr = "files between two nodes, by bbcp"
    tags = {"tcp", "transfer", "acceptance"}
    tool = file_transfer
    transfer_tool = "bbcp"
    programs = TransferPrograms("bbcp", file_transfer.version_argv("bbcp"))
    gating = ("bandwidth",)

    cases = TransferCases("bbcp")
    sweep = parameter(cases.sweeps, loggable=True)

    def run_at(self, place, partition):
        return by_ssh(place, partition, "bbcp")
