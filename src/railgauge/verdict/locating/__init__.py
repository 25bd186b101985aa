"""Which node, rail, pair, leaf or uplink is at fault, by results between pairs of ends.

    evidence = Evidence(leaves)
    evidence.add(observations)          # of a round, or all
    located = locate(evidence)          # suspects, what is missing

Pure: nothing here reads files, clocks or random numbers.
"""

from __future__ import annotations

from railgauge.verdict.locating.evidence import Evidence
from railgauge.verdict.locating.judge import locate
from railgauge.verdict.locating.results import End, Missing, Observation
from railgauge.verdict.locating.suspects import Located, Suspect, not_excluded, suspected_nodes

__all__ = [
    "End",
    "Evidence",
    "Located",
    "Missing",
    "Observation",
    "Suspect",
    "locate",
    "not_excluded",
    "suspected_nodes",
]
