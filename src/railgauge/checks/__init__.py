"""What all ReFrame checks share: the strict base class, and one module per kind of job."""

from railgauge.checks.base import StrictCheck, simple_test
from railgauge.checks.nccl import NcclCheck, nccl_cases
from railgauge.checks.pair import PairCheck, neighbours, ring_pairs
from railgauge.checks.path import PathCheck, path_places
from railgauge.checks.ranks import RanksCheck, whole_partitions
from railgauge.checks.rdma import RdmaCheck, rdma_links
from railgauge.checks.transfer import FtpCheck, SshCheck, StreamCheck, WdtCheck, transfer_cases
from railgauge.checks.wan import BondCheck, WanCheck, wan_ways

__all__ = [
    "BondCheck",
    "FtpCheck",
    "NcclCheck",
    "PairCheck",
    "PathCheck",
    "RanksCheck",
    "RdmaCheck",
    "SshCheck",
    "StreamCheck",
    "StrictCheck",
    "WanCheck",
    "WdtCheck",
    "nccl_cases",
    "neighbours",
    "path_places",
    "rdma_links",
    "ring_pairs",
    "simple_test",
    "transfer_cases",
    "wan_ways",
    "whole_partitions",
]
