"""Transfers over the network's TCP path: streams, and files by the tools that people use.

A tool that the system's data requires and a node lacks keeps the nodes from being accepted; an
optional one is left out, which the verdict says.
"""

from reframe.core.builtins import parameter, variable

from railgauge.checks.framework import minimum_bounds
from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.client_server import PairCheck, RingPairs
from railgauge.checks.tcp.file_transfer import (
    FtpCheck,
    SshCheck,
    StreamCheck,
    TransferCases,
    WdtCheck,
)
from railgauge.model import limits
from railgauge.tools import iperf2


@simple_test
class Iperf2Pair(PairCheck):
    """iperf2 between neighbouring nodes: parallel TCP streams, one way.

    Good is: every stream there, both sides ended by themselves, all bytes sent were received,
    the path's MTU as the system says, and the received sum at the reference.
    """

    descr = "TCP between two nodes, by iperf2"
    tags = {"tcp", "acceptance"}
    tool = iperf2
    measure_reverse_if_slow = True
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

    @property
    def options(self):
        return iperf2.Options(
            streams=self.streams,
            duration_s=self.duration_s,
            window_bytes=self.window_bytes,
            congestion=self.congestion,
            drain_s=5,
        )

    def requested(self):
        return iperf2.requested(self.options)

    def commands(self):
        return iperf2.commands(self.options)

    def expected_run_s(self):
        return self.duration_s

    def run_limit_s(self):
        return self.duration_s + 20

    def limit(self, measurement):
        path = self.partition_data.extras
        if measurement.unit == "Gb/s" and path.link_gbits and path.mtu_bytes:
            return limits.tcp(path.link_gbits, path.mtu_bytes)

    @classmethod
    def unstated(cls, extras):
        return minimum_bounds.unstated(extras)

    def floor(self, measurement):
        extras = self.partition_data.extras
        return minimum_bounds.of_link(
            measurement, extras, self.current_system.name, self.duration_s
        )


@simple_test
class Iperf3Pair(StreamCheck):
    """iperf3 between neighbouring nodes: what TCP carries where no file is read or written.

    Good is: every stream there, both sides' documents whole and of one run, and what the server
    received at the reference.
    """

    descr = "TCP between two nodes, by iperf3"
    tags = {"tcp", "transfer", "acceptance"}

    cases = TransferCases("iperf3")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class WdtTransfer(WdtCheck):
    """WDT from the client to the server, over many connections.

    Good is: exit code 0 of both sides, which agree on blocks and bytes, and every file with its
    sha256, or all thrown away where that was asked for.
    """

    descr = "files between two nodes, by WDT"
    tags = {"tcp", "transfer", "acceptance"}

    cases = TransferCases("wdt")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class FtpTransfer(FtpCheck):
    """lftp from a ProFTPD of this job's own, in parallel pieces or files."""

    descr = "files between two nodes, by lftp from ProFTPD"
    tags = {"tcp", "transfer", "acceptance"}

    cases = TransferCases("lftp")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class ScpTransfer(SshCheck):
    """scp by OpenSSH to an sshd of this job's own."""

    descr = "files between two nodes, by scp"
    tags = {"tcp", "transfer", "acceptance"}
    transfer_tool = "scp"

    cases = TransferCases("scp")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class HpnScpTransfer(SshCheck):
    """scp by HPN-SSH, whose windows grow with the path."""

    descr = "files between two nodes, by HPN-SSH's scp"
    tags = {"tcp", "transfer", "acceptance"}
    transfer_tool = "hpn-scp"

    cases = TransferCases("hpn-scp")
    sweep = parameter(cases.sweeps, loggable=True)


@simple_test
class BbcpTransfer(SshCheck):
    """bbcp over parallel connections, started through an sshd of this job's own."""

    descr = "files between two nodes, by bbcp"
    tags = {"tcp", "transfer", "acceptance"}
    transfer_tool = "bbcp"

    cases = TransferCases("bbcp")
    sweep = parameter(cases.sweeps, loggable=True)
