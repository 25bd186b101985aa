"""The settings of one perftest run, and the commands of both sides."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from railgauge.tools.common.options import require_integers, require_one_of

TOOL = "perftest"

#: Both ends compare all bytes that arrive with those that were sent (26.04 and later).
DATA_VALIDATION = "--data_validation"

Operation = Literal["write", "read", "send"]
Test = Literal["bw", "lat"]
#: What perftest calls the kinds of queue pairs. RawEth is that of raw_ethernet_*, which are other
#: programs: no run here asks for it.
Connection = Literal["RC", "UC", "UD", "XRC", "DC", "SRD", "RawEth"]

#: The sizes of a sweep (-a), in bytes. perftest has no option to end one earlier: a sweep that
#: must stay below 8 MiB is one run a size.
SWEEP_SIZES = tuple(2**power for power in range(1, 24))


@dataclasses.dataclass(frozen=True)
class Options:
    """The settings of one run, on both sides alike; ValueError where it cannot be run.

    Either one size or a sweep, and either iterations or a duration. perftest's 99.9th percentile
    is the maximum below 1003 iterations. A duration (-D) leaves out its first and last quarter,
    measures no peak, and of a latency the average only. The server prints a table too, except in
    a read latency test: its own, or that of the client's last size (write, read). With -b both
    print the sum of the two directions. With rdma_cm the server's address must be that of its
    RDMA interface.
    """

    operation: Operation
    test: Test
    size_bytes: int | None = None
    #: every size from 2 B to 8 MiB (-a)
    sweep: bool = False
    #: per size and queue pair
    iterations: int | None = None
    duration_s: int | None = None
    bidirectional: bool = False
    queue_pairs: int = 1
    #: connect through librdmacm (-R)
    rdma_cm: bool = False
    connection_type: Connection = "RC"
    #: byte with DSCP in its upper six bits
    traffic_class: int | None = None
    pkey_index: int | None = None
    #: how long a queue pair waits for an acknowledgement before it sends again: 4.096 us x 2^this
    #: (perftest's own is 14, 67 ms); librdmacm has its own
    qp_timeout: int | None = None
    #: number of the GPU that holds the buffers
    cuda_device: int | None = None
    #: compare each byte that arrives with what was sent (26.04 and later); costs bandwidth
    data_validation: bool = False

    def __post_init__(self) -> None:
        require_one_of(
            TOOL,
            self,
            operation=("write", "read", "send"),
            test=("bw", "lat"),
            connection_type=get_args(Connection),
            **dict.fromkeys(
                ("sweep", "bidirectional", "rdma_cm", "data_validation"), (False, True)
            ),
        )
        require_integers(
            TOOL,
            self,
            size_bytes=(1, 2**31 - 1),
            iterations=(5, 2**32),
            duration_s=(1, 2**31 - 1),
            queue_pairs=(1, 16384),
            traffic_class=(0, 255),
            pkey_index=(0, 65535),
            cuda_device=(0, 2**15),
            qp_timeout=(1, 31),
        )
        self._require_possible()

    def _require_possible(self) -> None:
        latency = self.test == "lat"
        for wrong, why in (
            (self.sweep == (self.size_bytes is not None), "needs either size_bytes or sweep"),
            (
                (self.iterations is None) == (self.duration_s is None),
                "needs either iterations or duration_s",
            ),
            (self.sweep and self.duration_s is not None, "runs no sweep with duration_s"),
            (latency and self.bidirectional, "measures no latency with bidirectional"),
            (
                self.data_validation and (latency or self.operation == "send"),
                "validates data in bandwidth tests of write and read only",
            ),
            (
                self.data_validation and (self.sweep or self.connection_type != "RC"),
                "validates data of one size and connection type RC only",
            ),
            (
                self.connection_type == "UD" and self.operation != "send",
                "runs UD with send only",
            ),
            (self.connection_type == "SRD" and self.rdma_cm, "runs no SRD with rdma_cm"),
            (latency and self.queue_pairs != 1, "measures latency with 1 of queue_pairs"),
            (
                latency and self.operation == "write" and self.cuda_device is not None,
                "measures no write latency with cuda_device",
            ),
        ):
            if wrong:
                raise ValueError(f"perftest {why}")

    @property
    def program(self) -> str:
        return f"ib_{self.operation}_{self.test}"

    @property
    def sizes(self) -> tuple[int, ...]:
        return SWEEP_SIZES if self.size_bytes is None else (self.size_bytes,)


def version_argv() -> list[str]:
    """Prints perftest's own count ('Version: 6.24' of 25.01) and exits with 1."""
    return ["ib_write_bw", "--version"]


def server_argv(
    options: Options,
    port: str = "{port}",
    *,
    device: str = "{device}",
    ib_port: str = "{ib_port}",
    gid_index: str | None = "{gid_index}",
) -> list[str]:
    """The side that waits, on TCP port `port`; it ends by itself after one client.

    `gid_index` is None on InfiniBand. A probe of the port would be taken for the client.
    """
    argv = [options.program, "-d", device, "-i", ib_port]
    if gid_index is not None:
        argv += ["-x", gid_index]
    # -F: without it perftest warns, between header and rows, of a clock that is not constant.
    argv += ["-p", port, "-F", "-c", options.connection_type]
    if options.test == "bw":
        argv.append("--report_gbits")
    argv += ["-a"] if options.size_bytes is None else ["-s", str(options.size_bytes)]
    if options.iterations is not None:
        argv += ["-n", str(options.iterations)]
    if options.duration_s is not None:
        argv += ["-D", str(options.duration_s)]
    if options.bidirectional:
        argv.append("-b")
    if options.queue_pairs != 1:
        argv += ["-q", str(options.queue_pairs)]
    if options.rdma_cm:
        argv.append("-R")
    if options.qp_timeout is not None:
        argv += ["-u", str(options.qp_timeout)]
    if options.traffic_class is not None:
        argv.append(f"--tclass={options.traffic_class}")
    if options.pkey_index is not None:
        argv.append(f"--pkey_index={options.pkey_index}")
    if options.cuda_device is not None:
        argv.append(f"--use_cuda={options.cuda_device}")
    if options.data_validation:
        argv.append(DATA_VALIDATION)
    return argv


def client_argv(
    options: Options,
    server: str = "{server}",
    port: str = "{port}",
    *,
    device: str = "{device}",
    ib_port: str = "{ib_port}",
    gid_index: str | None = "{gid_index}",
) -> list[str]:
    """The side that measures: the server's options, with `device` and the rest of this node."""
    common = server_argv(options, port, device=device, ib_port=ib_port, gid_index=gid_index)
    return [*common, server]
