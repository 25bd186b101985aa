"""Which two nodes are measured together, by the name of a schedule: (server, client), data going
from client to server. Who only ever sends, or only receives, is half measured: every node is both,
at the price of a pair the other way round where it has one partner alone.

Pairs come in the order of the rounds in which nobody has two partners, as far as a schedule has
such; which of them are measured at once is said in `schedule.rounds`.
"""

from __future__ import annotations

import collections
import itertools
import random
from collections.abc import Sequence
from typing import TypeVar

from railgauge.model.leaves import Leaves
from railgauge.systems import Sweep

Pair = tuple[str, str]

_Item = TypeVar("_Item")


def pairs(nodes: Sequence[str], leaves: Leaves | None, sweep: Sweep) -> list[Pair]:
    """All pairs of a schedule; none of fewer than two nodes.

    `cover` needs leaves; without them it has no pairs.
    """
    return in_both_roles(_met(nodes, leaves, sweep)) if len(nodes) > 1 else []


def _met(nodes: Sequence[str], leaves: Leaves | None, sweep: Sweep) -> list[Pair]:
    if sweep.schedule == "tournament":
        return tournament_of_leaves(leaves.groups(nodes)) if leaves else tournament(nodes)
    if sweep.schedule == "random":
        return random_partners(nodes, sweep.random_rounds, sweep.seed)
    if sweep.schedule == "cover":
        return cover(leaves.groups(nodes)) if leaves else []
    return rings(leaves.groups(nodes)) if leaves else ring(nodes)


def count(nodes: Sequence[str], leaves: Leaves | None, sweep: Sweep) -> int:
    """How many pairs those are at most where every node has many partners, before anybody makes
    millions of them; 0 of rings.
    """
    total = len(nodes)
    if sweep.schedule == "tournament":
        return total * (total - 1) // 2 if total > 2 else 2
    if sweep.schedule == "random":
        # Of two rounds of an odd number those that rest in one have one partner.
        alone = total // 2 if min(sweep.random_rounds, total - 1) == 1 else 2 * (total % 2)
        return total // 2 * sweep.random_rounds + alone
    if sweep.schedule == "cover":
        sizes = [len(members) for members in leaves.groups(nodes)] if leaves else []
        met = sum(max(two) for two in itertools.combinations(sizes, 2))
        return met if len(sizes) > 2 else 2 * met
    return 0


def in_both_roles(found: Sequence[Pair]) -> list[Pair]:
    """The same pairs, and the other way round those of nodes that would be server or client only:
    none where each has two partners.
    """
    servers, clients = (collections.Counter(ends[role] for ends in found) for role in (0, 1))
    if any(servers[n] + clients[n] > 1 for n in servers.keys() ^ clients.keys()):
        found = turned(found)
    serving, sending = ({ends[role] for ends in found} for role in (0, 1))
    made = list(found)
    for server, client in found:
        if server not in sending or client not in serving:
            made.append((client, server))
            sending.add(server)
            serving.add(client)
    return made


def turned(found: Sequence[Pair]) -> list[Pair]:
    """The same pairs in their order, each turned so that nobody is server more than once more often
    than client, or less: along closed walks that use each pair once (an Eulerian orientation).
    """
    partners = collections.Counter(node for ends in found for node in ends)
    # Who has an odd number of them meets nobody too, so that every walk comes back.
    all_of_them = [*found, *((node, "") for node, count in partners.items() if count % 2)]
    at: dict[str, list[int]] = {}
    for number, ends in enumerate(all_of_them):
        for node in ends:
            at.setdefault(node, []).append(number)
    way: dict[int, Pair] = {}
    for start in at:
        here = start
        while at[here]:
            number = at[here].pop()
            if number not in way:
                one, other = all_of_them[number]
                way[number] = (here, other if here == one else one)
                here = way[number][1]
    return [way[number] for number in range(len(found))]


def ring(nodes: Sequence[_Item]) -> list[tuple[_Item, _Item]]:
    """Every two neighbours of a ring; of two nodes both ways.

    Every node serves once and is client once, so a node with a bad link shows in two pairs, and the
    one that both share is found without testing all pairs.
    """
    return list(zip(nodes, (*nodes[1:], nodes[0]), strict=True))


def rings(groups: Sequence[Sequence[str]]) -> list[Pair]:
    """A ring a leaf, so that no uplink between leaves is measured by accident.

    A node with one partner cannot be told from it: those of leaves with fewer than three are a ring
    of their own, across leaves; where they are one or two, between two nodes of other leaves.
    """
    found = [pair for members in groups if len(members) > 2 for pair in ring(members)]
    left = [node for members in groups if len(members) < 3 for node in members]
    if len(left) > 2 or not found:
        return found + (ring(left) if left else [])
    others = [node for members in groups if len(members) > 2 for node in members]
    chain = [others[0], *left, others[-1]]
    return found + (list(itertools.pairwise(chain)) if left else [])


def tournament(items: Sequence[_Item]) -> list[tuple[_Item, _Item]]:
    """Every two, in the order of rounds in which each has one partner."""
    return [pair for number in range(factors(items)) for pair in factor(items, number)]


def factors(items: Sequence[_Item]) -> int:
    """How many rounds a tournament has."""
    return len(items) - 1 + len(items) % 2


def factor(items: Sequence[_Item], number: int) -> list[tuple[_Item, _Item]]:
    """A round of a tournament (a 1-factorization of the complete graph, by the circle method): all
    but the last stand in a circle, and meet across it, whose axis turns by one place a round. Who
    is at its end meets the last, or rests where their number is odd.
    """
    size = factors(items)
    met = [(items[-1], items[number])] if size < len(items) else []
    # Of all rounds that one too is both server and client, as those in the circle are.
    met = [ends[::-1] for ends in met] if number % 2 else met
    ends = ((number + step, number - step) for step in range(1, (size + 1) // 2))
    return met + [(items[one % size], items[other % size]) for one, other in ends]


def between(one: Sequence[str], other: Sequence[str], turn: int) -> list[Pair]:
    """The nodes of two leaves, one to one, those of the larger turned by so many places: every turn
    is other pairs. Every second node of the larger is client, or server where that is `one`, so
    that uplinks carry both directions.
    """
    swapped = len(one) > len(other)
    small, large = (other, one) if swapped else (one, other)
    found = []
    for number, node in enumerate(small):
        place = (number + turn) % len(large)
        pair = (large[place], node)
        found.append(pair if place % 2 == swapped else pair[::-1])
    return found


def cover(groups: Sequence[Sequence[str]]) -> list[Pair]:
    """Every two leaves, by rounds in which each leaf has one partner, and all nodes of the two are
    paired one to one. What a larger leaf has left over meets the smaller one's nodes again.

    Of three leaves one would rest in each round: then nothing tells a slow leaf from a slow moment.
    Where they are alike, each meets both others at once, with half of its nodes.
    """
    sizes = {len(members) for members in groups}
    if len(groups) == 3 and len(sizes) == 1 and all(n > 2 and n % 2 == 0 for n in sizes):
        return _of_three(*groups)
    met = tournament(groups)
    found = [pair for ends in met for pair in between(*ends, 0)]
    for ends in met:
        small, large = sorted(map(len, ends))
        for turn in range(small, large, small):
            # Of the last turn those only that have not met anybody of this leaf.
            found += between(*ends, turn)[: large - turn]
    return found


def _of_three(one: Sequence[str], other: Sequence[str], third: Sequence[str]) -> list[Pair]:
    """Two rounds of all nodes of three leaves of one even size, in each all ways between them."""
    half = len(one) // 2
    # Turned so that whom the first leaf leaves over in a round can meet.
    ab, ac, bc = between(one, other, 0), between(one, third, 0), between(other, third, half)
    first = [*ab[:half], *ac[half:], *bc[half:]]
    return [*first, *ab[half:], *ac[:half], *bc[:half]]


def tournament_of_leaves(groups: Sequence[Sequence[str]]) -> list[Pair]:
    """Every two nodes: those of each leaf, then by turns those of every two leaves."""
    found = [pair for members in groups for pair in tournament(members)]
    met = tournament(groups)
    for turn in range(max(map(len, groups))):
        for one, other in met:
            if turn < max(len(one), len(other)):
                found += between(one, other, turn)
    return found


def random_partners(nodes: Sequence[str], rounds: int, seed: int) -> list[Pair]:
    """Some rounds of a tournament of the nodes in random order: no pair comes twice."""
    chance = random.Random(seed)
    order = list(nodes)
    chance.shuffle(order)
    chosen = chance.sample(range(factors(order)), min(rounds, factors(order)))
    return [pair for number in chosen for pair in factor(order, number)]
