"""The pairs of nodes that are measured, by the name of a schedule: (server, client), with data
going from client to server. A node that only sends, or only receives, is half measured: so every
node has both roles, at the price of a pair the other way round where it has a single partner.

Pairs come in the order of rounds in which no node has two partners, where a schedule has such.
`schedule.rounds` says which of them are measured at once.
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
    """The greatest number of pairs of a schedule in which every node has many partners, without
    making millions of them; 0 for rings.
    """
    total = len(nodes)
    if sweep.schedule == "tournament":
        return total * (total - 1) // 2 if total > 2 else 2
    if sweep.schedule == "random":
        # In two rounds of an odd number of nodes, the one that rests in a round has one partner.
        alone = total // 2 if min(sweep.random_rounds, total - 1) == 1 else 2 * (total % 2)
        return total // 2 * sweep.random_rounds + alone
    if sweep.schedule == "cover":
        sizes = [len(members) for members in leaves.groups(nodes)] if leaves else []
        met = sum(max(two) for two in itertools.combinations(sizes, 2))
        return met if len(sizes) > 2 else 2 * met
    return 0


def in_both_roles(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs, and those of nodes that would have one role only also the other way round; none
    where each node has two partners.
    """
    servers, clients = (collections.Counter(ends[role] for ends in pairs) for role in (0, 1))
    if any(servers[n] + clients[n] > 1 for n in servers.keys() ^ clients.keys()):
        pairs = turned(pairs)
    serving, sending = ({ends[role] for ends in pairs} for role in (0, 1))
    completed = list(pairs)
    for server, client in pairs:
        if server not in sending or client not in serving:
            completed.append((client, server))
            sending.add(server)
            serving.add(client)
    return completed


def turned(met: Sequence[Pair]) -> list[Pair]:
    """The pairs in their order, each turned so that the numbers of a node's roles differ by one at
    most: along closed walks that use each pair once (an Eulerian orientation).
    """
    partners = collections.Counter(node for ends in met for node in ends)
    # A node with an odd number of partners gets an edge to "", so that every walk comes back.
    edges = [*met, *((node, "") for node, count in partners.items() if count % 2)]
    at: dict[str, list[int]] = {}
    for number, ends in enumerate(edges):
        for node in ends:
            at.setdefault(node, []).append(number)
    way: dict[int, Pair] = {}
    for start in at:
        node_here = start
        while at[node_here]:
            number = at[node_here].pop()
            if number not in way:
                first, second = edges[number]
                way[number] = (node_here, second if node_here == first else first)
                node_here = way[number][1]
    return [way[number] for number in range(len(met))]


def ring(nodes: Sequence[_Item]) -> list[tuple[_Item, _Item]]:
    """The neighbours of a ring; two nodes both ways.

    Every node is server once and client once. So a node with a bad link shows in two pairs, and is
    found as the node that both share, without testing all pairs.
    """
    return list(zip(nodes, (*nodes[1:], nodes[0]), strict=True))


def rings(groups: Sequence[Sequence[str]]) -> list[Pair]:
    """A ring for each leaf, so that no uplink between leaves is measured by accident.

    A node with one partner cannot be told from it. So the nodes of leaves with fewer than three are
    a ring of their own, across leaves; one or two of them stand between two nodes of other leaves.
    """
    ring_pairs = [pair for members in groups if len(members) > 2 for pair in ring(members)]
    lone_nodes = [node for members in groups if len(members) < 3 for node in members]
    if len(lone_nodes) > 2 or not ring_pairs:
        return ring_pairs + (ring(lone_nodes) if lone_nodes else [])
    others = [node for members in groups if len(members) > 2 for node in members]
    chain = [others[0], *lone_nodes, others[-1]]
    return ring_pairs + (list(itertools.pairwise(chain)) if lone_nodes else [])


def tournament(items: Sequence[_Item]) -> list[tuple[_Item, _Item]]:
    """All pairs of items, in the order of rounds in which each has one partner."""
    return [pair for number in range(factors(items)) for pair in factor(items, number)]


def factors(items: Sequence[_Item]) -> int:
    """The number of rounds of a tournament."""
    return len(items) - 1 + len(items) % 2


def factor(items: Sequence[_Item], number: int) -> list[tuple[_Item, _Item]]:
    """A round of a tournament (a 1-factorization of the complete graph, by the circle method). All
    items but the last stand in a circle and meet across an axis, which turns by one place a round.
    The item at the end of the axis meets the last one, or rests where their number is odd.
    """
    size = factors(items)
    met = [(items[-1], items[number])] if size < len(items) else []
    # Over all rounds the last item has both roles, too, as those in the circle have.
    met = [ends[::-1] for ends in met] if number % 2 else met
    ends = ((number + step, number - step) for step in range(1, (size + 1) // 2))
    return met + [(items[first % size], items[second % size]) for first, second in ends]


def between(left_leaf: Sequence[str], right_leaf: Sequence[str], turn: int) -> list[Pair]:
    """The nodes of two leaves one to one, with the larger leaf's turned by so many places: every
    turn gives other pairs. Every second node of the larger leaf is client, or server where that is
    `left_leaf`, so that uplinks carry both directions.
    """
    swapped = len(left_leaf) > len(right_leaf)
    small, large = (right_leaf, left_leaf) if swapped else (left_leaf, right_leaf)
    across = []
    for number, node in enumerate(small):
        place = (number + turn) % len(large)
        pair = (large[place], node)
        across.append(pair if place % 2 == swapped else pair[::-1])
    return across


def cover(groups: Sequence[Sequence[str]]) -> list[Pair]:
    """All pairs of leaves, in rounds in which each leaf has one partner, and all nodes of the two
    are paired one to one. The nodes that a larger leaf has left over meet the smaller one's nodes
    again.

    Of three leaves one would rest in each round, and nothing would tell a slow leaf from a slow
    moment. Where they are of one size, each meets both others at once, with half of its nodes.
    """
    sizes = {len(members) for members in groups}
    if len(groups) == 3 and len(sizes) == 1 and all(n > 2 and n % 2 == 0 for n in sizes):
        return _of_three(*groups)
    met = tournament(groups)
    across = [pair for ends in met for pair in between(*ends, 0)]
    for ends in met:
        small, large = sorted(map(len, ends))
        for turn in range(small, large, small):
            # Of the last turn only the nodes that have not met this leaf yet.
            across += between(*ends, turn)[: large - turn]
    return across


def _of_three(
    first_leaf: Sequence[str], second_leaf: Sequence[str], third_leaf: Sequence[str]
) -> list[Pair]:
    """Two rounds of all nodes of three leaves of one even size, each with all ways between them."""
    half = len(first_leaf) // 2
    # Turned so that the nodes that the first leaf leaves over in a round can meet.
    ab, ac, bc = (
        between(first_leaf, second_leaf, 0),
        between(first_leaf, third_leaf, 0),
        between(second_leaf, third_leaf, half),
    )
    first = [*ab[:half], *ac[half:], *bc[half:]]
    return [*first, *ab[half:], *ac[:half], *bc[:half]]


def tournament_of_leaves(groups: Sequence[Sequence[str]]) -> list[Pair]:
    """All pairs of nodes: those within leaves, then by turns those of every two leaves."""
    ordered = [pair for members in groups for pair in tournament(members)]
    met = tournament(groups)
    for turn in range(max(map(len, groups))):
        for leaf_a, leaf_b in met:
            if turn < max(len(leaf_a), len(leaf_b)):
                ordered += between(leaf_a, leaf_b, turn)
    return ordered


def random_partners(nodes: Sequence[str], rounds: int, seed: int) -> list[Pair]:
    """Some rounds of a tournament of the nodes in random order, so that no pair comes twice."""
    chance = random.Random(seed)
    order = list(nodes)
    chance.shuffle(order)
    chosen = chance.sample(range(factors(order)), min(rounds, factors(order)))
    return [pair for number in chosen for pair in factor(order, number)]
