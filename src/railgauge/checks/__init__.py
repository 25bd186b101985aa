"""What all ReFrame checks share: the strict base class, and one module per kind of job."""

from railgauge.checks.base import StrictCheck, simple_test
from railgauge.checks.beside import MpiBesideCheck, mpi_cases
from railgauge.checks.nccl import NcclCheck, nccl_cases
from railgauge.checks.nics import NicsCheck, nic_cases
from railgauge.checks.node_state import NodeStateCheck, node_state_places
from railgauge.checks.pair import PairCheck, neighbours, ring_pairs
from railgauge.checks.path import PathCheck, path_places
from railgauge.checks.ranks import RanksCheck, whole_partitions
from railgauge.checks.rdma import RailProbeCheck, RdmaCheck, rail_probes, rdma_links
from railgauge.checks.transfer import FtpCheck, SshCheck, StreamCheck, WdtCheck, transfer_cases
from railgauge.checks.wan import BondCheck, WanCheck, wan_ways

__all__ = [
    "BondCheck",
    "FtpCheck",
    "MpiBesideCheck",
    "NcclCheck",
    "NicsCheck",
    "NodeStateCheck",
    "PairCheck",
    "PathCheck",
    "RailProbeCheck",
    "RanksCheck",
    "RdmaCheck",
    "SshCheck",
    "StreamCheck",
    "StrictCheck",
    "WanCheck",
    "WdtCheck",
    "mpi_cases",
    "nccl_cases",
    "neighbours",
    "nic_cases",
    "node_state_places",
    "path_places",
    "rail_probes",
    "rdma_links",
    "ring_pairs",
    "simple_test",
    "transfer_cases",
    "wan_ways",
    "whole_partitions",
]
