"""What physics allows, so that "is this number normal?" has an answer.

Rates of links are in Gb/s (10^9 bits per second), those of collectives in GB/s (10^9 bytes per
second, as nccl-tests prints them), sizes in bytes. The header sizes are those of IEEE 802.3
(14 header, 4 FCS, 20 preamble and gap), IPv4 (20), UDP (8), the InfiniBand specification (LRH 8,
BTH 12, RETH 16, ICRC 4, VCRC 2) and its RoCE v2 annex, and TCP (20, with timestamps 32).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated

import pydantic

#: Around every Ethernet frame's payload.
ETHERNET_BYTES = 14 + 4 + 20
_IPV4_BYTES = 20
_TCP_BYTES = 20
_TCP_TIMESTAMP_BYTES = 12
#: Of a segment with timestamps, between Ethernet's header and the payload.
TCP_HEADERS_BYTES = _IPV4_BYTES + _TCP_BYTES + _TCP_TIMESTAMP_BYTES
#: The path MTUs that RDMA knows (enum ibv_mtu), and the longest IPv4 packet (RFC 791).
RDMA_MTUS = (256, 512, 1024, 2048, 4096)
_LARGEST_PACKET = 65535
#: A RoCE v2 packet around its payload: 82 bytes.
ROCE_PACKET_BYTES = ETHERNET_BYTES + _IPV4_BYTES + 8 + 12 + 4
#: An InfiniBand packet around its payload: 26 bytes.
INFINIBAND_PACKET_BYTES = 8 + 12 + 4 + 2
#: Once in a WRITE message: the RDMA extended transport header.
RETH_BYTES = 16

#: A measurement may stand this far above a limit before it is a finding: clocks of tools differ
#: in the last digits, and a shaper's bucket is full when a test starts.
TOLERANCE = 0.01


@dataclasses.dataclass(frozen=True)
class Limit:
    """The most that a measurement can be, in the metric's unit, and what sets it."""

    value: Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
    unit: str
    reason: str

    def share(self, value: float) -> float:
        """`value` as a fraction of the limit."""
        return value / self.value

    def both_ways(self) -> Limit:
        """For a sum over both directions of a link."""
        return Limit(2 * self.value, self.unit, f"{self.reason}, both ways")

    def exceeded_by(self, value: float) -> bool:
        return value > self.value * (1 + TOLERANCE)


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}, expected a number above 0")


def _rdma(
    rate_gbits: float, mtu: int, size: int | None, packet_bytes: int, operation: str, name: str
) -> Limit:
    _require_positive(rate=rate_gbits, size=1 if size is None else size)
    if mtu not in RDMA_MTUS:
        raise ValueError(
            f"mtu is {mtu}, expected an RDMA path MTU: {', '.join(map(str, RDMA_MTUS))} "
            "(active_mtu of ibv_devinfo)"
        )
    if operation not in ("write", "send", "read"):
        raise ValueError(f"operation is {operation!r}, expected write, send or read")
    once = RETH_BYTES if operation == "write" else 0
    if size is None:
        share = mtu / (mtu + packet_bytes)
        what = f"large messages at path MTU {mtu}"
    else:
        packets = math.ceil(size / mtu)
        share = size / (size + packet_bytes * packets + once)
        what = f"{size} byte messages in {packets} packet{'s' if packets > 1 else ''} of {mtu}"
    return Limit(rate_gbits * share, "Gb/s", f"{name} at {rate_gbits:g} Gb/s, {what}")


def roce(rate_gbits: float, mtu: int, size: int | None = None, operation: str = "write") -> Limit:
    """Payload rate of RoCE v2 over Ethernet: S/(S + 82k [+ 16 for a WRITE]), k = ceil(S/MTU).

    `mtu` is the RDMA path MTU (256 to 4096), `size` the message; None for large messages.
    25 GbE at 4096 gives 24.42, 24.50 and 24.51 Gb/s at 4 KiB, 64 KiB and 1 MiB, as measured in
    "Building a Multi-Node RDMA Lab on a Single Machine" (remote-lab.net).
    """
    return _rdma(rate_gbits, mtu, size, ROCE_PACKET_BYTES, operation, "RoCE v2")


def infiniband(
    rate_gbits: float, mtu: int, size: int | None = None, operation: str = "write"
) -> Limit:
    """Payload rate of native InfiniBand: as `roce`, with 26 bytes a packet."""
    return _rdma(rate_gbits, mtu, size, INFINIBAND_PACKET_BYTES, operation, "InfiniBand")


def tcp(rate_gbits: float, mtu: int, timestamps: bool = True) -> Limit:
    """Payload rate of TCP over IPv4 and Ethernet: (MTU - 52)/(MTU + 38) with timestamps.

    `mtu` is the interface's, IP header included.
    """
    _require_positive(rate=rate_gbits, mtu=mtu)
    headers = _IPV4_BYTES + _TCP_BYTES + (_TCP_TIMESTAMP_BYTES if timestamps else 0)
    if not headers < mtu <= _LARGEST_PACKET:
        raise ValueError(
            f"mtu is {mtu}, expected more than the {headers} bytes of headers, and no more than "
            f"the {_LARGEST_PACKET} of an IPv4 packet"
        )
    share = (mtu - headers) / (mtu + ETHERNET_BYTES)
    return Limit(rate_gbits * share, "Gb/s", f"TCP over {rate_gbits:g} Gb/s Ethernet, MTU {mtu}")


def tcp_window(window_bytes: int, rtt_s: float) -> Limit:
    """The most that one TCP flow can carry: a window per round trip."""
    _require_positive(window=window_bytes, rtt=rtt_s)
    return Limit(
        window_bytes * 8 / rtt_s / 1e9,
        "Gb/s",
        f"one window of {window_bytes} bytes per {rtt_s * 1e3:g} ms round trip",
    )


# ---- bus bandwidth of collectives ----------------------------------------------------------
#
# nccl-tests prints busbw = f S / t of one operation of S bytes that took t, with n ranks and
#   f = 2(n-1)/n  all_reduce
#       (n-1)/n   all_gather, reduce_scatter, alltoall, gather, scatter, hypercube
#       1         broadcast, reduce, sendrecv
# (NVIDIA/nccl-tests doc/PERFORMANCE.md and src/*.cu; hypercube prints (n-1)/n S/t as its algbw
# too). A limit is f S divided by the least t: the bytes that must cross a set of links, over the
# rate of these links in one direction. No such count depends on the algorithm, on the order of
# the ranks, or on what else the machine does, so of several limits the lowest is one, too.
#
# What is not in it: several ranks on one GPU, and GPUs of one NVLink domain that pass data
# through PCIe or NICs besides NVLink (NCCL does not).

#: The operations that nccl-tests measures.
COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "sendrecv",
    "hypercube",
)

#: NCCL counts ranks in 32 bits.
_MOST_RANKS = 2**31 - 1


def _require_collective(operation: str, ranks: int, nodes: int = 1, domain_nodes: int = 1) -> None:
    if operation not in COLLECTIVES:
        raise ValueError(f"operation is {operation!r}, expected one of {', '.join(COLLECTIVES)}")
    for name, value, least in (
        ("ranks", ranks, 2),
        ("nodes", nodes, 1),
        ("domain_nodes", domain_nodes, 1),
    ):
        if not least <= value <= _MOST_RANKS:
            raise ValueError(f"{name} is {value}, expected {least} to {_MOST_RANKS}")
    if ranks % nodes:
        raise ValueError(f"{ranks} ranks on {nodes} nodes, expected the same number on each")


def _places(operation: str, ranks: int, nodes: int, domains: int) -> str:
    where = f"{nodes} node{'s' if nodes > 1 else ''}"
    if domains < nodes:
        where += f" in {domains} NVLink domain{'s' if domains > 1 else ''}"
    return f"{operation} of {ranks} ranks on {where}"


def collective_over_nics(
    operation: str,
    nodes: int,
    ranks: int,
    node_gbytes_s: float,
    in_network_reduction: bool = False,
    domain_nodes: int = 1,
) -> Limit:
    """Bus bandwidth of a collective with ranks in several NVLink domains, in GB/s.

    `node_gbytes_s` is the rate B of all NICs of a node together, in one direction, raw or payload.
    `domain_nodes` is the most nodes that one NVLink domain holds: 1 on DGX, or where MNNVL is off;
    18 in an NVL72. With N nodes, n ranks, g = n/N, w = (n-1)/n, and where a domain is a node:

    all_reduce                             B w N/(N-1)
    ... with in-network reduction (SHARP)  2 B w
    all_gather, reduce_scatter, hypercube  B w N/(N-1)
    gather, scatter                        B w N/(N-1)
    alltoall                               (B/g) w N/(N-1) = (B/g)(n-1)/(n-g)
    broadcast, reduce, sendrecv            B

    - all_reduce: to add up N nodes' values takes N-1 messages, to hand out the sum N-1 more, so
      2(N-1) S bytes leave N nodes. A network that adds and copies still takes S from every node
      and gives S to it. With two nodes both are 2 B w: a tree is up to twice as fast as the NICs
      (NVIDIA/nccl issue 946).
    - all_gather: a node must receive the (N-1)/N S that the others have; in reduce_scatter it
      must send its part of what they get, whichever node adds it up. hypercube has the result of
      all_gather; with the ranks in order it moves as much as alltoall and stays g times lower.
    - alltoall: a node's g ranks send S/n to each of the n-g elsewhere.
    - gather, scatter: (N-1)/N S cross the NICs of the root's node. It may take all of them; a
      root that uses the NIC of its own GPU only stays far lower.
    - broadcast, reduce: S must leave or enter each node. sendrecv: rank r sends S to rank r+1, and
      a ring through all ranks leaves each node at least once. That one pair of GPUs may use all
      NICs of the node; NCCL mostly takes the nearest.

    Domains of several nodes: N nodes fill at least D = ceil(N/domain_nodes) domains. The smallest
    has at most k = floor(N/D) nodes and kB of NICs. The same counts for that domain
    give all_gather w kB N/(N-k), alltoall 1/(kg) of it, broadcast kB, all_reduce 2w kB and, from
    2(D-1) S over all NICs, w NB/(D-1). A gather's root may be in the largest domain, of k' =
    domain_nodes: w k'B N/(N-k'), and at most w NB, where each domain sends what it has.

    ValueError where nothing crosses the NICs, or an argument is no such quantity.
    """
    _require_collective(operation, ranks, nodes, domain_nodes)
    _require_positive(node_gbytes_s=node_gbytes_s)
    domains = math.ceil(nodes / domain_nodes)
    if domains == 1:
        where = "1 node" if nodes == 1 else f"{nodes} nodes in one NVLink domain"
        raise ValueError(f"nothing crosses the NICs: {ranks} ranks on {where}")
    smallest = nodes // domains
    share = (ranks - 1) / ranks
    domain = smallest * node_gbytes_s
    gathered = share * domain * nodes / (nodes - smallest)
    if operation == "all_reduce":
        value = 2 * share * domain
        if not in_network_reduction:
            value = min(value, share * nodes * node_gbytes_s / (domains - 1))
    elif operation in ("all_gather", "reduce_scatter", "hypercube"):
        value = gathered
    elif operation == "alltoall":
        value = gathered / (smallest * (ranks // nodes))
    elif operation in ("gather", "scatter"):
        value = share * nodes * node_gbytes_s * min(1, domain_nodes / (nodes - domain_nodes))
    else:
        value = domain
    reason = (
        f"{_places(operation, ranks, nodes, domains)} with {node_gbytes_s:g} GB/s of NICs a node"
    )
    if in_network_reduction and operation == "all_reduce":
        reason += " and in-network reduction"
    return Limit(value, "GB/s", reason)


#: Operations with their size over their time as busbw.
_ONCE = ("broadcast", "reduce", "sendrecv")


def least_node_share(operation: str, nodes: int, ranks: int) -> float:
    """What the NICs of every node must carry, one way or the other, as a share of the size.

    The counts of `collective_over_nics` where a domain is a node, in bytes instead of time, with
    the network adding and copying: all_reduce 1, broadcast, reduce and sendrecv 1, all_gather,
    reduce_scatter and hypercube (N-1)/N, alltoall g(n-g)/n. A NIC that counted less did not carry
    it. 0 for gather and scatter, where only the root's node must.
    """
    if operation in ("gather", "scatter") or nodes < 2:
        return 0.0
    share = 1.0 if operation in _ONCE else (ranks - 1) / ranks
    factor = 2 * share if operation == "all_reduce" else share
    whole = collective_over_nics(operation, nodes, ranks, 1.0, in_network_reduction=True)
    return factor / whole.value


def collective_over_nvlink(
    operation: str, ranks: int, gpu_gbytes_s: float, nvls: bool = False
) -> Limit:
    """Bus bandwidth of a collective within one NVLink domain, in GB/s.

    `gpu_gbytes_s` is the NVLink rate L of one GPU in one direction: 450 on H100 and H200, 900 on
    B200 and GB200. The limit is L, but for all_reduce with NVLS (NVLink SHARP): the larger of L
    and 2(n-1)/n L/(1 + 1/n).

    - all_gather, gather, alltoall, hypercube: a rank (gather: the root) must receive (n-1)/n S;
      reduce_scatter, scatter: it must send as much; broadcast, reduce, sendrecv: S. A switch that
      copies or adds saves nothing on that side, so NVLS lifts none of them; what it saves on
      the other side makes it no faster (NVIDIA/nccl issue 1083).
    - all_reduce: 2(n-1) messages of S over n ranks' links, which is L. With NVLS the switch reads
      S from every rank, its own part included, to add them up, and each rank sends the S/n of
      the sum that it is in charge of for the switch to copy: S(1 + 1/n). With two ranks that is
      more than the plain exchange, and NCCL may choose.

    An 8-GPU H100 node reaches 480 of 700, with NVLS off 368 of 450: NVLink's own headers, which
    no vendor publishes, are not taken off. ValueError where an argument is no such quantity.
    """
    _require_collective(operation, ranks)
    _require_positive(gpu_gbytes_s=gpu_gbytes_s)
    value = gpu_gbytes_s
    reason = f"{operation} of {ranks} ranks with {gpu_gbytes_s:g} GB/s of NVLink a GPU"
    if nvls and operation == "all_reduce":
        value = gpu_gbytes_s * max(1, 2 * (ranks - 1) / (ranks + 1))
        reason += " and NVLS"
    return Limit(value, "GB/s", reason)


def _collective_through_gpus(
    operation: str,
    nodes: int,
    ranks: int,
    node_gbytes_s: float,
    gpu_gbytes_s: float,
    in_network_reduction: bool,
    domains: int,
) -> Limit:
    """Bus bandwidth by what the GPUs can take where their ranks are in several NVLink domains.

    NVLink alone is no limit then: a GPU also gets data from its node's NICs. The g GPUs of a node
    take gL + B together, so what each of them must receive or send (see
    `collective_over_nvlink`) takes at least its bytes over L + B/g; the one root of a gather or
    scatter may have all of L + B. Where switches add and copy, on NVLink or behind the NICs,
    an all_reduce still takes S from each rank: 2(n-1)/n (L + B/g).
    """
    per_gpu = 1 if operation in ("gather", "scatter") else ranks // nodes
    value = gpu_gbytes_s + node_gbytes_s / per_gpu
    reason = (
        f"{_places(operation, ranks, nodes, domains)} with {gpu_gbytes_s:g} GB/s of NVLink a GPU "
        f"and {node_gbytes_s:g} GB/s of NICs a node"
    )
    if in_network_reduction and operation == "all_reduce":
        value *= 2 * (ranks - 1) / ranks
        reason += ", and in-network reduction"
    return Limit(value, "GB/s", reason)


def collective(
    operation: str,
    *,
    nodes: int,
    ranks: int,
    node_gbytes_s: float | None,
    gpu_gbytes_s: float | None,
    nvls: bool = False,
    domain_nodes: int = 1,
    in_network_reduction: bool = False,
) -> Limit:
    """Bus bandwidth of a collective in GB/s: the lowest of the limits that apply.

    Within one NVLink domain (one node, or `domain_nodes` with MNNVL) that is what NVLink allows.
    Across several it is the lower of what the NICs allow and what the GPUs' links, NVLink and
    NICs together, allow: each of the two holds whatever the other does, so both hold at once. A
    rate that is None is unknown and limits nothing.

    What is not known: `nvls` and `in_network_reduction` True is the looser answer. A `domain_nodes`
    of at least `nodes` says that they do share a domain and use it; where that is not known, take
    the larger of both answers.

    ValueError where no limit is known: no NVLink rate within one domain, no NIC rate across
    several; or where an argument is no such quantity.
    """
    _require_collective(operation, ranks, nodes, domain_nodes)
    for name, rate in (("node_gbytes_s", node_gbytes_s), ("gpu_gbytes_s", gpu_gbytes_s)):
        if rate is not None:
            _require_positive(**{name: rate})
    domains = math.ceil(nodes / domain_nodes)
    places = _places(operation, ranks, nodes, domains)
    if domains == 1:
        if gpu_gbytes_s is None:
            raise ValueError(f"{places} is limited by NVLink of unknown rate")
        return collective_over_nvlink(operation, ranks, gpu_gbytes_s, nvls)
    if node_gbytes_s is None:
        raise ValueError(f"{places} is limited by NICs of unknown rate")
    limits = [
        collective_over_nics(
            operation, nodes, ranks, node_gbytes_s, in_network_reduction, domain_nodes
        )
    ]
    if gpu_gbytes_s is not None:
        limits.append(
            _collective_through_gpus(
                operation,
                nodes,
                ranks,
                node_gbytes_s,
                gpu_gbytes_s,
                nvls or in_network_reduction,
                domains,
            )
        )
    return min(limits, key=lambda limit: limit.value)
