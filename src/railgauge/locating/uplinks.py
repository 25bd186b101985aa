"""Which uplink of a leaf at fault it is, by the switches' own counters."""

from __future__ import annotations

import math
import statistics
from collections import Counter

from railgauge.locating.evidence import Evidence

#: An uplink's own counter stands out above so many times the median of the leaf's others.
_OUTSTANDING = 10

#: Of so many leaves at least, and more than half of all, a spine's uplinks must stand out.
_LEAST_LEAVES = 3

#: An uplink is starved that carried less than this share of what each of the others did, where
#: flows that take an uplink at random leave one so little with at most this probability.
_STARVED, _BY_CHANCE = 1 / 3, 1e-3


def by_counters(evidence: Evidence, leaf: str) -> str:
    """The leaf's uplink with counters that stand out, or the leaf."""
    if worst := with_errors(evidence, leaf):
        return worst
    starved = _starved(evidence, leaf)
    leaves = {_leaf(name) for name in evidence.uplink_bytes} - {leaf}
    others = [name for other in leaves if (name := _starved(evidence, other))]
    # What other leaves exchange with this one by its slow uplink crawls on theirs to that spine.
    same_spine = [name for name in others if _spine(name) == _spine(starved)]
    if len(others) > len(same_spine):
        # Flows do not take uplinks at random: static paths leave some with few.
        return leaf
    if 2 * len(same_spine) > len(leaves):
        # It may be the spine: then each of its uplinks carries as little.
        least = min(_share(evidence, name) for name in same_spine)
        starved = starved if starved and _share(evidence, starved) < _STARVED * least else ""
    return starved or leaf


def with_errors(evidence: Evidence, leaf: str) -> str:
    """The uplink of a leaf that counts far more errors than its others; "" if none does."""
    events = {n: count for n, count in evidence.uplink_events.items() if _leaf(n) == leaf}
    if not events:
        return ""
    worst = max(events, key=events.__getitem__)
    others = [count for name, count in events.items() if name != worst]
    usual = statistics.median(others) if others else 0
    return worst if events[worst] > _OUTSTANDING * max(usual, 1) else ""


def bad_spine(evidence: Evidence) -> str:
    """The spine with uplinks that stand out by their errors at most leaves; "" if none."""
    leaves = {_leaf(name) for name in evidence.uplink_events}
    worst = Counter(_spine(name) for leaf in leaves if (name := with_errors(evidence, leaf)))
    ((spine, count),) = worst.most_common(1) or [("", 0)]
    return spine if count >= _LEAST_LEAVES and 2 * count > len(leaves) else ""


def _leaf(name: str) -> str:
    return name.partition(":")[0]


def _spine(name: str) -> str:
    return name.partition(":")[2]


def _starved(evidence: Evidence, leaf: str) -> str:
    """The uplink that carried far less than all others of a leaf at fault, as the flows that take
    it crawl; "" where it is another one in each direction.

    An uplink that is starved in both directions needs less of each: by chance it is so with the
    product of both probabilities (R. A. Fisher, Statistical Methods for Research Workers, 1932,
    21.1).
    """
    carried = {name: both for name, both in evidence.uplink_bytes.items() if _leaf(name) == leaf}
    if len(carried) < 2:
        return ""
    chances: dict[str, list[float]] = {}
    for direction, flows in enumerate(evidence.uplink_flows.get(leaf, (0, 0))):
        moved = {name: both[direction] for name, both in carried.items()}
        least, second = sorted(moved, key=moved.__getitem__)[:2]
        share = moved[least] / max(sum(moved.values()), 1)
        if moved[least] < _STARVED * moved[second]:
            chances.setdefault(least, []).append(chance_of_share(share, flows, len(carried)))
    starved = [
        name
        for name, of_name in chances.items()
        if 2 * len(carried) * min(*of_name, _of_both(of_name)) < _BY_CHANCE
    ]
    return starved[0] if len(starved) == 1 else ""


def _share(evidence: Evidence, name: str) -> float:
    """What an uplink carried, both ways, of all that its leaf's uplinks did."""
    carried = {n: sum(both) for n, both in evidence.uplink_bytes.items() if _leaf(n) == _leaf(name)}
    return carried[name] / max(sum(carried.values()), 1)


def _of_both(chances: list[float]) -> float:
    """How probable a product of so many probabilities is that is as small as theirs, of one or two;
    1 where there is one alone, which has no product.
    """
    product = math.prod(chances)
    return product * (1 - math.log(product)) if len(chances) == 2 and product > 0 else 1.0


def chance_of_share(share: float, flows: int, uplinks: int) -> float:
    """How probably a given uplink gets such a share, or less, of flows that each take one at
    random: the binomial distribution of its flows. It took none where it carried less than half of
    what a flow did on average.
    """
    taken, each = math.floor(share * flows + 0.5), 1 / uplinks
    of_one = sum(
        math.comb(flows, count) * each**count * (1 - each) ** (flows - count)
        for count in range(taken + 1)
    )
    return min(of_one, 1.0)
