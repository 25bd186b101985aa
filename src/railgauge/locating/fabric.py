"""Faults of leaves, uplinks and spines: which the results allow, and what confirms them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from railgauge.common.names import natural
from railgauge.locating import uplinks
from railgauge.locating.parts import Part, Path, Paths
from railgauge.locating.results import End
from railgauge.locating.suspects import Measure, Need, Suspect, SuspectKind
from railgauge.locating.weigh import Found, by_chance
from railgauge.locating.witnesses import convicting

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

#: So many low paths must be low while they share no link with others: healthy flows that meet on
#: one link are low too.
_LOW_ALONE = 2

#: Healthy flows hardly meet so often that nearly all of a part is low, so many results, while no
#: more than this share of all others is. Of fewer results they are low in so many rounds, and that
#: they met by chance has at most this probability: of each two low results, as two flows meet, that
#: of another result to be low.
_MANY_LOW, _FEW, _LOW_ROUNDS, _MET = 20, 0.1, 3, 1e-9

#: In a moment, of so many results of a part at least, more than this share is low.
_MOMENT, _OF_MOMENT = 4, 0.9


class _AtLeaf:
    """What the paths of a leaf that a part predicts say, and those within the leaf."""

    def __init__(self, paths: Paths, found: Found) -> None:
        part = found.part
        #: node of the leaf, or rail -> whether each of its paths to other leaves is low
        self.nodes: dict[str, list[bool]] = defaultdict(list)
        self.rails: dict[str | None, list[bool]] = defaultdict(list)
        #: the nodes of other leaves that are low with it
        self.far: set[str] = set()
        #: whether each path within the leaf is low
        self.within: list[bool] = []
        on = paths.on(part)
        if part.kind != "leaf":
            # What lies within the leaf is on no uplink.
            inside = paths.on(part._replace(kind="leaf", way="", end=None))
            on = on + [path for path in inside if paths.is_within(path, part.name)]
        good = set()
        for path in on:
            low = path in paths.open or path in paths.behind
            here, *others = sorted(path, key=lambda end: paths.leaf_of[end] != part.name)
            if paths.is_within(path, part.name):
                self.within.append(low)
                continue
            self.nodes[here.node].append(low)
            self.rails[here.rail].append(low)
            if low:
                self.far.update(end.node for end in others)
            elif paths.is_good(path):
                good.add(here.node)
        #: whether it has nodes enough, and none of them is good with others and never low
        self.all_low = len(self.nodes) >= _LEAST_NODES and all(any(self.nodes[n]) for n in good)
        #: whether the paths within are low too, or there are none
        self.low_within = len(self.within) <= 2 * sum(self.within)


# ---- what may be at fault ----


def may_be(paths: Paths, one: Found) -> bool:
    """Whether the results allow a part of the fabric to be at fault."""
    part, low = one.part, one.low
    if part.kind == "plane":
        nodes = {node for witness in low for node in witness.nodes}
        return len(nodes) >= _PLANE and one.share >= _OF_PLANE
    if part.kind == "spine":
        return len({paths.leaf_of[end] for path in one.lows for end in path}) > _LEAST_FAR
    if part.kind == "link":
        return len(low) > 2 and len({witness.nodes[0] for witness in low}) > 1
    if part.end is not None and part.kind == "inbound":
        more = any(p.name == part.name and p.way == part.way for p in paths.fabric)
        return more or _good_at_home(paths, part.end) or is_path_to(paths, one, part.end)
    if part.end is not None:
        return _good_otherwise(paths, one, part.end)
    at = _AtLeaf(paths, one)
    least = min(_LEAST_NODES, max(len(at.nodes), 2))
    if not _are_disjoint(one.lows, least) or len(at.far) < _LEAST_FAR:
        return False
    if part.kind == "leaf" and (one.share < _WHOLE or not at.within or not at.low_within):
        return False
    # A node or rail that is good with all others speaks against a fault of the whole.
    return not any(
        not any(lows) and (1 - one.share) ** len(lows) * len(members) < _SPARED
        for members in (at.rails, at.nodes if one.share > _PARTLY else {})
        for lows in members.values()
    )


def _are_disjoint(lows: Sequence[Path], least: int) -> bool:
    """Whether so many low paths have no node in common: two slow nodes make no more than two of
    them low. The node with the fewest partners comes first (R. Karp, M. Sipser: Maximum Matching in
    Sparse Random Graphs, 1981).
    """
    left = {(a.node, b.node) for a, b in lows}
    for _ in range(least):
        if not left:
            return False
        count = Counter(node for nodes in left for node in nodes)
        taken = min(left, key=lambda nodes: (*sorted(map(count.__getitem__, nodes)), nodes))
        left = {nodes for nodes in left if set(taken).isdisjoint(nodes)}
    return True


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
    group = paths.evidence.group
    if any(group(path) == "within" for path in paths.received(end)):
        return False
    return all(map(paths.is_between, one.lows)) and bool(paths.good_with[end, True])


def _good_otherwise(paths: Paths, one: Found, end: End) -> bool:
    """Whether the destination received well from elsewhere, and two senders send well elsewhere."""
    received = any(
        paths.leaf_of.get(path[0]) != one.part.name and paths.is_good(path)
        for path in paths.received(end)
    )
    sound = {a for a, _ in one.lows if paths.good_with[a, True].keys() - {end.node}}
    return received and len(sound) > 1


# ---- what is named, and confirmed ----


def suspects(paths: Paths, found: Sequence[Found]) -> tuple[list[Suspect], list[str]]:
    """A suspect for each leaf, direction and rail, link or spine; and what was slow for a moment,
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
            moments.append(f"{of_part[0].part.name}: nearly all are slow in round {many}")
        else:
            named.append(_suspect(paths, of_part))
    return named, moments


def _moments(paths: Paths, found: Sequence[Found]) -> set[int]:
    """The rounds in which nearly all on a part was low, where that is all there is: a bad link of
    several makes some results of a round low, and a bad moment all.
    """
    results = paths.evidence.results
    if len(found) > 1:
        return set()
    low, count = Counter[int](), Counter[int]()
    for path in paths.on(found[0].part):
        lows = paths.low_results.get(path, ())
        count.update({r for n in paths.results[path] if (r := results[n].round) is not None})
        low.update({r for n in lows if (r := results[n].round) is not None})
    if found[0].part.kind == "link" and len(low) > 1:
        # A schedule may have nearly all pairs of a link in one round.
        return set()
    often = [r for r in count if count[r] >= _MOMENT]
    moments = {r for r in often if low[r] > _OF_MOMENT * count[r]}
    if len(low) == 1 and len(often) > 1:
        # What is at fault shows in other rounds too.
        moments.update(low)
    steady = [
        path
        for path in found[0].lows
        if any(results[n].round not in moments for n in paths.low_results[path])
    ]
    # It was so in most rounds, or in all with many results.
    again = len(moments) > 2 or (len(moments) == 2 and (found[0].share > _WHOLE or len(often) == 2))
    return moments if len(steady) < _LEAST_NODES and not again else set()


def _suspect(paths: Paths, found: Sequence[Found]) -> Suspect:
    part = found[0].part
    lows = [path for one in found for path in one.lows]
    kind, name, ends = _named(paths, found[0], lows)
    ends = sorted(set(ends), key=lambda end: end.order)
    directions: dict[str, Literal["up", "down"]] = {"send": "up", "receive": "down"}
    return Suspect(
        kind,
        name + (f" rail {part.rail}" if part.rail else ""),
        sum(one.gain for one in found),
        tuple(sorted({end.node for end in ends}, key=natural)),
        tuple(ends),
        tuple(convicting(paths, lows)),
        tuple(_needs(paths, found, lows, kind, name)),
        direction=directions.get(part.way, ""),
    )


def _named(
    paths: Paths, one: Found, lows: Sequence[Path]
) -> tuple[SuspectKind, str, Sequence[End]]:
    """Kind, name and ends of a suspect part."""
    part = one.part
    if part.kind == "plane":
        leaf = _leaf_of_plane(paths, part.name)
        ends = [end for of in paths.evidence.ends.values() for end in of if end.rail == part.name]
        return "leaf", leaf or f"rail {part.name}", ends
    if part.kind == "spine":
        return "uplink", part.name, [end for path in lows for end in path]
    ends = [e for e, of in paths.leaf_of.items() if of == part.name and part.rail in (None, e.rail)]
    if part.way:
        ends = [path[part.way == "receive"] for path in lows]
    if part.spine:
        return "uplink", f"{part.name}:{part.spine}", ends
    at = _AtLeaf(paths, one)
    all_uplinks = part.kind == "uplinks" and not part.way and one.share > _PARTLY
    is_leaf = part.kind == "leaf" or (all_uplinks and at.low_within)
    if is_leaf and at.within:
        return "leaf", part.name, ends
    # Where nothing was measured within the leaf, only counters can tell it from its uplinks.
    name = uplinks.by_counters(paths.evidence, part.name)
    if is_leaf and name == part.name:
        return "leaf", name, ends
    far = {leaf for path in lows for end in path if (leaf := paths.leaf_of[end]) != part.name}
    if len(far) == 1 and paths.leaves > 1 and not part.way:
        # The links at the other leaf explain it as well.
        name = "-".join(sorted((part.name, *far), key=natural))
    return "uplink", name, ends


def _leaf_of_plane(paths: Paths, rail: str) -> str | None:
    """The one leaf of a rail that has no other rail."""
    leaves = {paths.leaf_of.get(e) for of in paths.evidence.ends.values() for e in of}
    of_rail = {leaf: {e.rail for e, of in paths.leaf_of.items() if of == leaf} for leaf in leaves}
    own = [leaf for leaf, rails in of_rail.items() if rail in rails]
    return own[0] if len(own) == 1 and of_rail[own[0]] == {rail} else None


def _needs(
    paths: Paths, found: Sequence[Found], lows: Sequence[Path], kind: SuspectKind, name: str
) -> Iterator[Measure]:
    """What is still to be measured; nothing where it is confirmed."""
    part, results = found[0].part, paths.evidence.results
    others = {"plane": "other rails", "spine": "other leaves, more flows"}
    partners = others.get(part.kind, "other leaves")
    chance = min(by_chance(paths, one.part, one.witnesses, (one.level,)) for one in found)
    rounds = Counter(results[n].round for path in lows for n in paths.low_results[path])
    in_one = None not in rounds and max(rounds.values()) > _OF_ONE_ROUND * sum(rounds.values())
    ends = [one.part.end for one in found if one.part.kind == "inbound"]
    unknown = [end for end in ends if end is not None and not _good_at_home(paths, end)]
    by_itself = _by_itself(paths, part, name)
    sure = lows if by_itself else paths.low_alone(lows)
    far = {leaf for path in sure for end in path if (leaf := paths.leaf_of.get(end)) != part.name}
    if part.kind == "spine" and not paths.has("within"):
        yield Measure(name, "nodes of one leaf with each other", "", "paths")
    elif len(sure) < _LOW_ALONE:
        yield Measure(part.name, partners, "one pair at a time: flows may share a link", "alone")
    elif chance >= _BY_CHANCE:
        yield Measure(part.name, partners, "more paths: so few may be slow by chance", "paths")
    elif in_one:
        yield Measure(part.name, partners, "in another round", "paths")
    elif unknown:
        yield Measure(unknown[0].name, "a partner on its own leaf", "it may be slow itself", "home")
    elif part.kind in ("uplinks", "leaf") and not _beyond_nodes(paths, found[0]):
        others_of_leaf = "its nodes with each other"
        yield Measure(part.name, others_of_leaf, "they may be slow themselves", "paths")
    elif part.kind == "plane" and _leaf_of_plane(paths, part.name) is None:
        yield Measure(name, "other rails, its leaf known", "", "paths")
    elif kind == "uplink" and len(far) < 2 and paths.leaves > 1:
        # Of known routes new pairs cross the link that may be at fault, and share no other one.
        need: Need = "paths" if by_itself or paths.evidence.routes is not None else "alone"
        yield Measure(name, "a third leaf", "data is slow with one alone", need)


def _by_itself(paths: Paths, part: Part, name: str) -> bool:
    """Whether what is low at a part cannot be healthy flows that meet on its links: it is no part
    with several links, counters name the link, or nearly all of many results are low in rounds in
    which nearly all other paths between leaves are good.
    """
    if part.kind in ("leaf", "plane", "spine") or name not in (
        part.name,
        f"{part.name}:{part.spine}",
    ):
        return True
    results, levels = paths.evidence.results, paths.evidence.levels
    own: dict[int | None, list[bool]] = defaultdict(list)
    others: dict[int | None, list[bool]] = defaultdict(list)
    for path, numbers in paths.results.items():
        if paths.is_between(path) and path not in paths.explained:
            of = own if part in paths.fabric_parts(path) else others
            for number in numbers:
                of[results[number].round].append(levels[number] > 0)
    rounds = [number for number, low in own.items() if len(low) > 1]
    low = [is_low for number in rounds for is_low in own[number]]
    elsewhere = [is_low for number in rounds for is_low in others[number]]
    few = sum(elsewhere) <= _FEW * len(elsewhere)
    usual = (sum(elsewhere) + 1) / (len(elsewhere) + 2)
    often = sum(any(own[number]) for number in rounds) >= _LOW_ROUNDS
    many = sum(low) >= _MANY_LOW or (often and usual ** (sum(low) / 2) < _MET)
    return many and few and sum(low) > _WHOLE * len(low)


def _beyond_nodes(paths: Paths, one: Found) -> bool:
    """Whether the nodes of a leaf are good apart from what the part explains: with each other; or
    where it is one of several uplinks, in the same way with other leaves. A leaf itself, or all
    that leaves it, where nothing was measured within, is low at all of its nodes, several.
    """
    part, at = one.part, _AtLeaf(paths, one)
    if part.kind == "leaf":
        return at.all_low
    #: end of the leaf, and whether it sends
    slow = {
        (end, end == path[0])
        for path in one.lows
        for end in path
        if paths.leaf_of.get(end) == part.name
    }
    if len({end.node for end, _ in slow}) < _LEAST_NODES <= len(at.nodes):
        return False
    if one.share <= _PARTLY:
        return 2 * sum(bool(paths.good_with[role]) for role in slow) > len(slow)
    if at.low_within:
        return not part.way and one.share > _WHOLE and at.all_low
    within = [path for path in paths.results if paths.is_within(path, part.name)]
    met = {(end, end == path[0]) for path in within for end in path}
    fine = {(end, end == path[0]) for path in within if paths.is_good(path) for end in path}
    if not paths.evidence.directed:
        met, fine = ({(e, s) for e, _ in ends for s in (True, False)} for ends in (met, fine))
    return 2 * len(slow & fine) > len(slow & met)
