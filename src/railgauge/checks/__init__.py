"""What all ReFrame checks share: the strict base class, and one module per kind of job."""

from railgauge.checks.base import StrictCheck
from railgauge.checks.pair import PairCheck, ring_pairs
from railgauge.checks.ranks import RanksCheck, whole_partitions

__all__ = ["PairCheck", "RanksCheck", "StrictCheck", "ring_pairs", "whole_partitions"]
