"""What one output of perftest says: its rows, and the conditions that it states."""

from __future__ import annotations

import dataclasses
from typing import Literal

from railgauge.tools.perftest.options import Operation, Test

Role = Literal["client", "server", "unknown"]


@dataclasses.dataclass(frozen=True)
class Bandwidth:
    """One size of a bandwidth test; of -b both directions together."""

    size_bytes: int
    #: of all queue pairs; of -b those of this side
    iterations: int
    bandwidth_gbits_s: float
    #: None where it is not measured: with -D, above 20000 iterations, on the server of a send
    peak_gbits_s: float | None
    message_rate_mmsg_s: float


@dataclasses.dataclass(frozen=True)
class Latency:
    """One size of a latency test: half of a round trip, of a read the whole.

    With -D only the average is measured. Of n iterations perftest sorts the n - 1 times between
    them, leaves the longest out, and calls the next one the maximum.
    """

    size_bytes: int
    iterations: int
    avg_us: float
    min_us: float | None = None
    max_us: float | None = None
    typical_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    #: only with -D
    transactions_per_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Address:
    """One end of one queue pair. The PSN is drawn at random, so it differs from run to run."""

    #: 0 where the port has none (RoCE)
    lid: int
    qpn: int
    psn: int
    gid: str | None = None


@dataclasses.dataclass(frozen=True)
class Output:
    """One output of one run of one side: its rows, and the conditions that it states."""

    role: Role
    operation: Operation
    test: Test
    bidirectional: bool
    post_list: bool
    device: str
    queue_pairs: int
    #: IB (also for RoCE), IW (iWARP) or Unknown
    transport_type: str
    connection_type: str
    #: the path MTU that both sides agreed on
    mtu_bytes: int
    #: IB or Ethernet
    link_type: str
    gid_index: int | None
    rdma_cm: bool
    #: per queue pair; empty where the output does not show them
    local: tuple[Address, ...]
    remote: tuple[Address, ...]
    #: by rising size; empty only for the server of a read latency test, which has no table
    rows: tuple[Bandwidth | Latency, ...]
    #: whether perftest bound itself to a NUMA node (26.04 and later); None where it is not stated
    bound_to_numa: bool | None = None
    #: bytes that this side found to be as they were sent; None where nothing was validated
    validated_bytes: int | None = None
    #: the rows are samples of one size (--run_infinitely), which have no end
    sampled: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(row.size_bytes for row in self.rows))
