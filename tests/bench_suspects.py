"""Figures of a verdict's suspects: their cost on a large campaign, and how often they are wrong.

python -m tests.bench_suspects [--nodes N] [--sweeps N]
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter

from railgauge.model.measurement import Measurement
from railgauge.model.record import Row
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.location.locate import suspects
from tests.unit.verdict.decision.test_rules import REFERENCE
from tests.unit.verdict.location.test_retested import confirmed, names, sweep

_RAILS, _AT_A_LEAF, _GBITS = 8, 72, 9.7


def campaign(count: int, slow: int) -> tuple[list[Case], set[str]]:
    """A ring of so many nodes, rail by rail, with so many rails 30 % slower; noise of 1 %."""
    chance = random.Random(1)
    nodes = [f"n{number:05}" for number in range(count)]
    bad = {(chance.choice(nodes), chance.randrange(_RAILS)) for _ in range(slow)}
    cases = []
    for number, ends in enumerate(zip(nodes, [*nodes[1:], nodes[0]], strict=True)):
        for rail in range(_RAILS):
            share = 0.7 if any((node, rail) in bad for node in ends) else 1.0
            value = _GBITS * (1 + chance.gauss(0, 0.01)) * share
            m = Measurement(
                *("bandwidth", value, "perftest", "write", "rdma", 65536),
                nodes=ends,
                rails=f"{rail}-{rail}",
            )
            row = Row(m, REFERENCE, None)
            cases.append(
                Case(
                    *("RdmaBandwidth", "RdmaBandwidth", "roce", ends, 0),
                    *("fail" if row.within is False else "pass", "", (row,), (), None),
                    kind=f"{rail}-{rail}",
                    place=f"{':'.join(ends)}:{rail}-{rail}",
                    round=number % 2,
                    facts={node: {"device": f"mlx5_{rail}"} for node in ends},
                )
            )
    return cases, {f"{node}:mlx5_{rail}" for node, rail in bad}


def cost(count: int) -> None:
    """CPU seconds until the suspects of a campaign are known, and whether they are right."""
    leaves = {"roce": {f"n{n:05}": f"leaf{n // _AT_A_LEAF}" for n in range(count)}}
    for slow in (0, 8):
        cases, bad = campaign(count, slow)
        began = time.process_time()
        found = suspects(cases, leaves)
        seconds = time.process_time() - began
        right = {s.name for s in found if s.confirmed} == bad and len(found) == len(bad)
        told = "all of them and nobody else" if right else f"{[s.name for s in found]}"
        print(f"{len(cases)} places, {len(bad)} slow rails: {seconds:.2f} s CPU; {told}")


def sweeps(count: int) -> None:
    """Of small rings with up to three bad nodes: who is confirmed, and who is named wrongly."""
    chance = random.Random(5)
    counts: Counter[str] = Counter()
    for _ in range(count):
        size, most = chance.randint(3, 24), chance.choice([0, 1, 1, 2, 2, 3])
        bad = [chance.randrange(size) for _ in range(most)]
        share, seed = chance.choice([0.1, 0.4, 0.7, 0.8]), chance.randrange(10**6)
        found = suspects(sweep(size, bad, share, seed=seed))
        guilty, sure = names(*bad), confirmed(found)
        named = {n for s in found if s.kind in ("node", "rail") for n in s.nodes}
        counts["healthy confirmed"] += bool(sure - guilty)
        counts["healthy named"] += bool(named - guilty)
        nodes = "3 to 5" if size < 6 else "6 to 24"
        counts[f"{len(guilty)} bad of {nodes}"] += 1
        counts[f"{len(guilty)} bad of {nodes}, all confirmed"] += sure == guilty
    for what, times in sorted(counts.items()):
        print(f"{what}: {times} of {count} sweeps")


def figures(nodes: int = 4608, count: int = 4000) -> None:
    cost(nodes)
    sweeps(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4608)
    parser.add_argument("--sweeps", type=int, default=4000)
    asked = parser.parse_args()
    figures(asked.nodes, asked.sweeps)


if __name__ == "__main__":
    main()
