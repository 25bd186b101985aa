"""What all ReFrame checks share: the strict base class, and one module per kind of job."""

from railgauge.checks.base import StrictCheck
from railgauge.checks.pair import PairCheck, ring_pairs

__all__ = ["PairCheck", "StrictCheck", "ring_pairs"]
