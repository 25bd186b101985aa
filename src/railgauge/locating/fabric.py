"""Faults of leaves, uplinks and spines: which the results allow, and what confirms them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from railgauge.common.names import natural
from railgauge.locating import chance, uplinks
from railgauge.locating.chance import Count
from railgauge.locating.parts import Part, Path, Paths
from railgauge.locating.results import End
from railgauge.locating.suspects import Measure
from railgauge.locating.weigh import Found, how_many, of_groups

#: A leaf is low at so many of its nodes, and with so many others, at least.
_LEAST_NODES, _LEAST_FAR = 3, 2

#: A rail is low as a whole at so many nodes at least, and so much of its pairs.
_PLANE, _OF_PLANE = 6, 0.9

#: One of several uplinks makes up to this share of a leaf's pairs low; all of them, or the leaf
#: itself, more than that, and of a leaf more than the second. That a node of it is good as often as
#: it is has a chance of less than `_SPARED`: else it is the other nodes.
_PARTLY, _WHOLE, _SPARED = 0.5, 0.7, 0.01

#: What is at fault has at most this share of its low results in one round.
_OF_ONE_ROUND = 0.75

#: By chance some part of the fabric is low so often with less than this probability.
_BY_CHANCE = 1e-3

#: In a moment, of so many results of a part at least, more than this share is low.
_MOMENT, _OF_MOMENT = 4, 0.9


class Fault(NamedTuple):
    """A leaf, uplink or spine that explains low paths, and what would confirm it."""

    kind: Literal["leaf", "uplink"]
    name: str
    direction: Literal["", "up", "down"]
    ends: tuple[End, ...]
    lows: tuple[Path, ...]
    gain: float
    confirm: tuple[Measure, ...]


class _OfLeaf(NamedTuple):
    """Node of a leaf -> its paths to other leaves, and rail -> the same; the paths within; nodes of
    other leaves that are low with it; and nodes of it that are good with others, and never low.
    """

    between: dict[str, Count]
    rails: dict[str | None, Count]
    within: Count
    far: set[str]
    spared: set[str]


def may_be(paths: Paths, one: Found) -> bool:
    """Whether the results allow a part of the fabric to be at fault."""
    part, low = one.part, one.low
    if part.kind == "plane":
        nodes = {node for witness in low for node in witness.nodes}
        return len(nodes) >= _PLANE and one.share >= _OF_PLANE
    if part.kind == "spine":
        leaves = {paths.leaf_of[end] for path in one.lows for end in path}
        return len(leaves) >= _LEAST_FAR + 1
    if part.kind == "link":
        return len(low) > 2 and len({witness.nodes[0] for witness in low}) > 1
    if part.kind == "inbound":
        beside = any(p.name == part.name and p.way == part.way for p in paths.fabric)
        assert part.end is not None
        return beside or _good_at_home(paths, part.end) or is_path_to(paths, one, part.end)
    if part.kind == "outbound":
        return _good_otherwise(paths, part)
    at = _of_leaf(paths, part)
    least = min(_LEAST_NODES, max(len(at.between), 2))
    if _disjoint(one.lows) < least or len(at.far) < _LEAST_FAR:
        return False
    if part.kind == "leaf" and (one.share < _WHOLE or not 0 < at.within.all <= 2 * at.within.low):
        return False
    # A node or rail that is good with all others speaks against a fault of the whole.
    spares = [list(at.rails.values())]
    if one.share > _PARTLY:
        spares.append(list(at.between.values()))
    return not any(
        not low and (1 - one.share) ** count * len(counts) < _SPARED
        for counts in spares
        for low, count in counts
    )


def _disjoint(lows: Sequence[Path]) -> int:
    """How many low paths there are without a node in common, at least: two slow nodes make no more
    than two of them low.
    """
    seen: set[str] = set()
    count = 0
    for a, b in lows:
        if seen.isdisjoint((a.node, b.node)):
            seen |= {a.node, b.node}
            count += 1
    return count


def _of_leaf(paths: Paths, part: Part) -> _OfLeaf:
    at = _OfLeaf({}, {}, Count(0, 0), set(), set())
    good = set()
    leaf_part = part._replace(kind="leaf", way="", end=None)
    on = dict(paths.paths_on(part))
    if part.kind != "leaf" and leaf_part in paths.on_part:
        # What lies within the leaf is on no uplink.
        on.update(
            (nodes, ways)
            for nodes, ways in paths.paths_on(leaf_part)
            if len({paths.leaf_of.get(end) for end in ways[0][0]}) == 1
        )
    within = at.within
    for path in (path for ways in on.values() for of in ways for path in of):
        low = path in paths.open or path in paths.behind
        here = [end for end in path if paths.leaf_of.get(end) == part.name]
        if len(here) > 1:
            within = Count(within.low + low, within.all + 1)
            continue
        of_rail = at.rails.get(here[0].rail, Count(0, 0))
        at.rails[here[0].rail] = Count(of_rail.low + low, of_rail.all + 1)
        known = at.between.get(here[0].node, Count(0, 0))
        at.between[here[0].node] = Count(known.low + low, known.all + 1)
        if low:
            at.far.update(end.node for end in path if end not in here)
        elif paths.is_good(path):
            good.add(here[0].node)
    spared = {node for node in good if not at.between[node].low}
    return at._replace(within=within, spared=spared)


def _good_at_home(paths: Paths, end: End) -> bool:
    """Whether an end received well from one of its own leaf."""
    leaf = paths.leaf_of[end]
    return any(paths.is_within(path, leaf) and paths.is_good(path) for path in paths.received(end))


def is_path_to(paths: Paths, one: Found, end: End) -> bool:
    """Whether low results may be those of the path to an end from other leaves: it received all of
    them, nothing from its own leaf, and sends well.
    """
    if not paths.evidence.directed or any(path[1] != end for path in one.lows):
        return False
    if any(paths.group(path) == "within" for path in paths.received(end)):
        return False
    between = all(len({paths.leaf_of.get(e) for e in path}) == 2 for path in one.lows)
    sends = any(True in roles for roles in paths.good_with[end].values())
    return paths.leaf_of.get(end) is not None and between and sends


def _good_otherwise(paths: Paths, part: Part) -> bool:
    """Whether the destination received well from elsewhere, and two senders send well elsewhere."""
    end = part.end
    assert end is not None
    received = any(
        paths.leaf_of.get(path[0]) != part.name and paths.is_good(path)
        for path in paths.received(end)
    )
    senders = {a for a, b in paths.open if b == end and paths.leaf_of.get(a) == part.name}
    sound = sum(
        any(True in roles for node, roles in paths.good_with[sender].items() if node != end.node)
        for sender in senders
    )
    return received and sound > 1


# ---- what is named, and confirmed ----


def faults(paths: Paths, found: Sequence[Found]) -> tuple[list[Fault], list[str]]:
    """A fault for each leaf, direction and rail, link or spine; and what was slow for a moment,
    which accuses nothing.
    """
    groups: dict[tuple[str, ...], list[Found]] = {}
    for one in found:
        part = one.part
        kind = "uplink" if part.kind in ("uplinks", "inbound", "outbound", "link") else part.kind
        groups.setdefault((kind, part.name, part.rail or "", part.way, part.spine), []).append(one)
    named, moments = [], []
    for of_part in groups.values():
        if rounds := _moments(paths, of_part):
            many = ", ".join(map(str, sorted(rounds)))
            moments.append(f"{of_part[0].part.name}: nearly all is slow alike in round {many}")
        else:
            named.append(_fault(paths, of_part))
    return named, moments


def _moments(paths: Paths, found: Sequence[Found]) -> set[int]:
    """The rounds in which nearly all on a part was low, where that is all there is: a bad link of
    several makes some results of a round low, and a bad moment all.
    """
    results = paths.evidence.results
    if len(found) > 1:
        return set()
    low, count = Counter[int](), Counter[int]()
    for _, ways in paths.paths_on(found[0].part):
        for path in (path for of in ways for path in of):
            numbers = paths.results[path]
            lows = paths.low_results.get(path, ())
            count.update({r for n in numbers if (r := results[n].round) is not None})
            low.update({r for n in lows if (r := results[n].round) is not None})
    moments = {r for r in low if count[r] >= _MOMENT and low[r] > _OF_MOMENT * count[r]}
    often = [r for r in count if count[r] >= _MOMENT]
    if low and max(low.values()) == sum(low.values()) and len(often) > 1:
        # What is at fault shows in other rounds too.
        moments.update(low)
    steady = [
        path
        for path in found[0].lows
        if any(results[n].round not in moments for n in paths.low_results[path])
    ]
    again = found[0].share > _WHOLE and len(moments) > 1
    return moments if len(steady) < _LEAST_NODES and not again else set()


def _fault(paths: Paths, found: Sequence[Found]) -> Fault:
    part = found[0].part
    lows = tuple(path for one in found for path in one.lows)
    gain = sum(one.gain for one in found)
    if part.kind == "plane":
        return _plane(paths, found, lows, gain)
    if part.kind == "spine":
        ends = tuple(dict.fromkeys(end for path in lows for end in path))
        needs = tuple(_needs(paths, found, lows, "other leaves, more flows"))
        if not any(paths.group(path) == "within" for path in paths.results):
            needs = (Measure(part.name, "nodes of one leaf with each other", "", "paths"),)
        return Fault("uplink", part.name, "", ends, lows, gain, needs)
    direction: Literal["", "up", "down"] = ""
    if part.way:
        direction = "up" if part.way == "send" else "down"
    of_rail = f" rail {part.rail}" if part.rail else ""
    far = {leaf for path in lows for end in path if (leaf := paths.leaf_of[end]) != part.name}
    needs = tuple(_needs(paths, found, lows, "other leaves"))
    at = _of_leaf(paths, part)
    is_leaf = part.kind == "leaf" or (
        part.kind == "uplinks"
        and not part.way
        and found[0].share > _PARTLY
        and at.within.all <= 2 * at.within.low
    )
    name = part.name
    if part.spine:
        name = f"{part.name}:{part.spine}"
    elif not is_leaf or not at.within.all:
        # Where nothing was measured within the leaf, only counters can tell it from its uplinks.
        name = uplinks.by_counters(paths.evidence, part.name)
        is_leaf &= name == part.name
    if not is_leaf and len(far) < 2 and len(set(paths.leaf_of.values())) > 1:
        # The links at the other leaf explain it as well.
        if not direction:
            name = "-".join(sorted((part.name, *far), key=natural))
        needs = needs or (Measure(name, "a third leaf", "data is slow with one alone", "paths"),)
    on_leaf = [
        e for e, of in paths.leaf_of.items() if of == part.name and part.rail in (None, e.rail)
    ]
    shown = {"up": [a for a, _ in lows], "down": [b for _, b in lows]}.get(direction, on_leaf)
    ends = tuple(dict.fromkeys(shown))
    return Fault(
        "leaf" if is_leaf else "uplink", name + of_rail, direction, ends, lows, gain, needs
    )


def _plane(paths: Paths, found: Sequence[Found], lows: tuple[Path, ...], gain: float) -> Fault:
    """A rail that is low at nearly all nodes: its leaf, where that has no other rail."""
    rail = found[0].part.name
    ends = tuple(e for of in paths.evidence.ends.values() for e in of if e.rail == rail)
    leaves = {paths.leaf_of.get(end) for end in ends}
    leaf = leaves.pop() if len(leaves) == 1 else None
    shared = any(of == leaf and end.rail != rail for end, of in paths.leaf_of.items())
    needs = tuple(_needs(paths, found, lows, "other rails"))
    if leaf is None or shared:
        needs = needs or (Measure(f"rail {rail}", "other rails, its leaf known", "", "paths"),)
    return Fault(
        "leaf", f"rail {rail}" if leaf is None or shared else leaf, "", ends, lows, gain, needs
    )


def _needs(
    paths: Paths, found: Sequence[Found], lows: Sequence[Path], others: str
) -> Iterator[Measure]:
    """What is still to be measured; nothing where it is confirmed."""
    part, results = found[0].part, paths.evidence.results
    chances = []
    for one in found:
        groups = of_groups(paths, one.part, one.witnesses, one.level)
        low = sum(own.low for _, own in groups)
        as_many = chance.of_as_many(low, [(count, own.all) for count, own in groups])
        chances.append(as_many * how_many(paths, one.part))
    rounds = Counter(results[n].round for path in lows for n in paths.low_results[path])
    in_one = None not in rounds and max(rounds.values()) > _OF_ONE_ROUND * sum(rounds.values())
    if min(chances) >= _BY_CHANCE:
        yield Measure(part.name, others, "more paths: so few may be slow by chance", "paths")
    elif in_one:
        yield Measure(part.name, others, "in another round", "paths")
    elif unknown := [
        one.part.end
        for one in found
        if one.part.end is not None and one.part.kind == "inbound"
        if not _good_at_home(paths, one.part.end)
    ]:
        yield Measure(unknown[0].name, "a partner on its own leaf", "it may be slow itself", "home")
    elif part.kind in ("uplinks", "leaf") and not _beyond_nodes(paths, found[0]):
        yield Measure(
            part.name, "its nodes with each other", "they may be slow themselves", "paths"
        )


def _beyond_nodes(paths: Paths, one: Found) -> bool:
    """Whether the nodes of a leaf are good apart from what the part explains: with each other; or
    where it is one of several uplinks, in the same way with other leaves. A leaf itself, or all
    that leaves it, where nothing was measured within, is low at all of its nodes, several.
    """
    part, at = one.part, _of_leaf(paths, one.part)
    all_low = len(at.between) >= _LEAST_NODES and not at.spared
    if part.kind == "leaf":
        return all_low
    slow = {
        (end, end == path[0])
        for path in one.lows
        for end in path
        if paths.leaf_of.get(end) == part.name
    }
    if len({end.node for end, _ in slow}) < _LEAST_NODES and len(at.between) >= _LEAST_NODES:
        return False
    if one.share <= _PARTLY:
        good = sum(
            any(sends in roles for roles in paths.good_with[end].values()) for end, sends in slow
        )
        return 2 * good > len(slow)
    if at.within.all <= 2 * at.within.low:
        return not part.way and one.share > _WHOLE and all_low
    within = [path for path in paths.results if paths.is_within(path, part.name)]
    met = {(end, end == path[0]) for path in within for end in path}
    fine = {(end, end == path[0]) for path in within if paths.is_good(path) for end in path}
    if not paths.evidence.directed:
        met, fine = ({(e, s) for e, _ in ends for s in (True, False)} for ends in (met, fine))
    return 2 * len(slow & fine) > len(slow & met)
