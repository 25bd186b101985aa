"""Which node, rail, pair, leaf or uplink is at fault, by results between pairs of ends.

    evidence = Evidence(leaves, directed=True)
    evidence.add(results)               # of a round, or all
    located = locate(evidence)          # suspects, and what is missing

The order to read it in is that of the model in docs/locate-model.md: evidence, parts, chance,
weigh, explain, then nodes, fabric and pairs, judge, and plan.

Pure: nothing here reads files, clocks or random numbers. It runs on the nodes too, between the
rounds of a sweep: standard library, Python 3.9.
"""

from __future__ import annotations

from railgauge.locating.evidence import Evidence
from railgauge.locating.judge import locate
from railgauge.locating.results import End, Missing, Result
from railgauge.locating.routes import Routes
from railgauge.locating.suspects import Located, Suspect, not_excluded, suspected_nodes

__all__ = [
    "End",
    "Evidence",
    "Located",
    "Missing",
    "Result",
    "Routes",
    "Suspect",
    "locate",
    "not_excluded",
    "suspected_nodes",
]
