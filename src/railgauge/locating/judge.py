"""The answer: what explains the low results, each part confirmed or not, and all that passed."""

from __future__ import annotations

from collections import Counter

from railgauge.common.names import natural
from railgauge.locating import fabric, pairs
from railgauge.locating.evidence import Evidence
from railgauge.locating.explain import explain
from railgauge.locating.nodes import Nodes
from railgauge.locating.parts import Paths
from railgauge.locating.suspects import Fewest, Located


def locate(evidence: Evidence) -> Located:
    """The suspects by all results so far."""
    paths = Paths(evidence)
    found = explain(paths)
    nodes = Nodes(paths, [one for one in found if one.part.of_node])
    of_fabric, moments = fabric.suspects(paths, [one for one in found if not one.part.of_node])
    suspects = [*of_fabric, *nodes.suspects(), *pairs.suspects(paths, nodes.ends)]
    suspects.sort(key=lambda s: (not s.confirmed, s.kind == "pair", -s.score, natural(s.name)))
    suspected = {end for suspect in suspects for end in suspect.ends}
    judged = zip(evidence.results, evidence.good)
    good = Counter(end for r, is_good in judged if is_good and not r.quiet for end in r.ends)
    ends = [end for of_node in evidence.ends.values() for end in of_node if end not in suspected]
    fewest = min(ends, key=lambda end: (good[end], natural(end.name)), default=None)
    return Located(
        tuple(suspects),
        tuple(evidence.missing),
        evidence.rounds,
        tuple(evidence.nodes),
        tuple(dict.fromkeys([*evidence.no_evidence, *moments])),
        tuple(paths.mixed),
        fewest and Fewest(good[fewest], fewest.name),
        tuple(evidence.cleared),
        tuple(evidence.unjudged),
    )
