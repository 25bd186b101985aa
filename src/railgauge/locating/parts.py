"""The hypotheses: which parts may be at fault, which paths each makes low, and what these say.

A path goes from one end to another. Repeats of one path are one witness of it: it is low where more
than half of its results under some condition are. All paths between two nodes are one witness to
a node, as the rails of a pair of nodes may share a cause.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from railgauge.locating import uplinks
from railgauge.locating.chance import Count
from railgauge.locating.evidence import Evidence
from railgauge.locating.results import End

Path = tuple[End, End]

#: So many low paths, or two, are on a part of the fabric that may be at fault.
_LEAST_LOW = {"plane": 6, "leaf": 3, "uplinks": 3, "link": 3}

#: Of so many leaves one at fault has more than twice the low paths of a usual one.
_MANY_LEAVES = 16

#: node, rail: in both ways, or as sender or receiver only.
#: leaf: all that touches it. uplinks: what leaves and enters a leaf, or one of both.
#: inbound: from other leaves to one end. outbound: from one leaf to one end of another one.
#: link: between a leaf and a spine, one way, where routes are known. plane: one rail of all nodes.
#: spine: all between leaves, where the switches' counters of errors stand out at one spine.
Kind = Literal["node", "rail", "leaf", "uplinks", "inbound", "outbound", "link", "plane", "spine"]
Way = Literal["", "send", "receive"]


class Part(NamedTuple):
    """A hypothesis: that this part is at fault. `name` is the node's, leaf's or rail's; `end` the
    rail, or the end to which an inbound or outbound path goes; `rail` that of a leaf which each
    rail has one of its own.
    """

    kind: Kind
    name: str
    way: Way = ""
    end: End | None = None
    rail: str | None = None
    spine: str = ""

    @property
    def of_node(self) -> bool:
        return self.kind in ("node", "rail")

    @property
    def node(self) -> str:
        """The node of a node or rail; "" of other kinds."""
        return (self.end.node if self.end else self.name) if self.of_node else ""


class Witness(NamedTuple):
    """What the paths between two nodes say of a part: the level of their loss, 0 where they are
    good. `sound`: of a node or rail, the partner is good with others. `group` has the paths with
    the same usual share of low ones.
    """

    nodes: tuple[str, str]
    level: int
    sound: bool
    group: str | Part


class Paths:
    """The paths of the evidence, which of them are low, and what explains these so far."""

    def __init__(self, evidence: Evidence) -> None:
        evidence.judge()
        self.evidence, self.leaf_of = evidence, evidence.leaf_of
        #: path -> the numbers of its results while others were busy, and of the low ones
        self.results: dict[Path, list[int]] = {}
        self.low_results: dict[Path, list[int]] = {}
        #: `within` a leaf, `between` two, or "" where a leaf is not known -> its paths
        self._of_group: dict[str, list[Path]] = {}
        for number in evidence.order:
            result = evidence.results[number]
            if result.quiet or number in evidence.unclear:
                continue
            path = result.ends
            if not evidence.directed and path[1].node <= path[0].node:
                path = path[1], path[0]
            numbers = self.results.get(path)
            if numbers is None:
                numbers = self.results[path] = []
                self._of_group.setdefault(evidence.groups[number], []).append(path)
            numbers.append(number)
            if evidence.levels[number]:
                self.low_results.setdefault(path, []).append(number)
        levels = {path: self.level(path) for path in self.low_results}
        #: low path that no part explains yet -> its level
        self.open = {path: level for path, level in levels.items() if level}
        #: path that is low now and then, in half of its results or less -> their level
        self.mixed = {
            path: max(evidence.levels[number] for number in self.low_results[path])
            for path, level in levels.items()
            if not level
        }
        #: low path of a node or rail that was found at fault, which says nothing of its partner ->
        #: its level
        self.explained: dict[Path, int] = {}
        #: low path of a part of the fabric that was found at fault -> its level
        self.behind: dict[Path, int] = {}
        #: such a part -> how many of its paths are low: they are a group of their own
        self.fabric: dict[Part, Count] = {}
        ends = [end for of_node in evidence.ends.values() for end in of_node]
        #: how many ends, leaves and rails there are
        self.ends = len(ends)
        self.leaves = len(set(self.leaf_of.values())) or 1
        self.rails = len({end.rail for end in ends})
        self._spine = uplinks.bad_spine(evidence)
        self._fabric_parts: dict[Path, tuple[Part, ...]] = {}
        self._on: dict[Part, list[Path]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._index()
        #: the parts of the fabric that may be at fault
        self._may_be = set(self._often_low())

    def level(self, path: Path) -> int:
        """The level that more than half of a path's results reach under some condition. Low
        results that may have shared a link count only if there is no other result.
        """
        evidence, numbers = self.evidence, self.results[path]
        by_condition: dict[object, list[int]] = {}
        for number in [n for n in numbers if n not in evidence.shared] or numbers:
            condition = evidence.results[number].condition
            by_condition.setdefault(condition, []).append(evidence.levels[number])
        return max(map(_of_most, by_condition.values()))

    def low_alone(self, lows: Iterable[Path]) -> list[Path]:
        """Those of these low paths that were low in a result that shared no link."""
        shared = self.evidence.shared
        return [path for path in lows if not shared.issuperset(self.low_results[path])]

    def _index(self) -> None:
        """Note what is known of the nodes with a low path."""
        good, directed = self.evidence.good, self.evidence.directed
        nodes = {end.node for path in self.low_results for end in path}
        #: node with a low path -> partner -> the paths that it sends on, and receives on
        self.of_node: dict[str, dict[str, tuple[list[Path], list[Path]]]] = {n: {} for n in nodes}
        #: end, and whether it sent -> node that it was good with -> the number of such a result
        self.good_with: dict[tuple[End, bool], dict[str, int]] = defaultdict(dict)
        touching = [path for path in self.results if path[0].node in nodes or path[1].node in nodes]
        for path in touching:
            shown = next((number for number in self.results[path] if good[number]), None)
            for sends, own, other in ((True, *path), (False, *path[::-1])):
                if own.node not in nodes:
                    continue
                ways = self.of_node[own.node].setdefault(other.node, ([], []))
                ways[not sends].append(path)
                for role in (sends,) if directed else (True, False):
                    if shown is not None:
                        self.good_with[own, role].setdefault(other.node, shown)

    def group(self, path: Path) -> str | Part:
        """The part of the fabric at fault that a path is on, else `within` a leaf or `between` two;
        "" where a leaf is not known.
        """
        for part in self.fabric_parts(path) if self.fabric else ():
            if part in self.fabric:
                return part
        return self.evidence.group(path)

    # ---- what each part makes low ----

    def fabric_parts(self, path: Path) -> tuple[Part, ...]:
        """The parts of the fabric that a path is on."""
        known = self._fabric_parts.get(path)
        if known is None:
            known = self._fabric_parts[path] = tuple(self._predict(path))
        return known

    def _predict(self, path: Path) -> Iterator[Part]:
        a, b = path
        rail = a.rail if self.ends > len(self.evidence.ends) and a.rail == b.rail else None
        if rail is not None:
            yield Part("plane", rail)
        leaf_a, leaf_b = self.leaf_of.get(a), self.leaf_of.get(b)
        if leaf_a is None or leaf_b is None:
            return
        between, directed = leaf_a != leaf_b, self.evidence.directed
        for of_rail in (None, rail) if rail is not None else (None,):
            for leaf in dict.fromkeys((leaf_a, leaf_b)):
                yield Part("leaf", leaf, "", None, of_rail)
                if between:
                    yield Part("uplinks", leaf, "", None, of_rail)
            if between and directed:
                yield Part("uplinks", leaf_a, "send", None, of_rail)
                yield Part("uplinks", leaf_b, "receive", None, of_rail)
        if not between:
            return
        if self._spine:
            yield Part("spine", self._spine)
        if directed:
            yield Part("inbound", leaf_b, "receive", b)
            yield Part("outbound", leaf_a, "send", b)
        else:
            yield Part("inbound", leaf_a, "", a)
            yield Part("inbound", leaf_b, "", b)
        for way in (path,) if directed else (path, (b, a)):
            yield from links_of(self.evidence, self.leaf_of, way)

    def on(self, part: Part) -> list[Path]:
        """The paths on a part of the fabric that no node or rail explains."""
        known = self._on.get(part)
        if known is None:
            near: Iterable[Path] = self.results
            if part.end is not None:
                both = self.of_node[part.end.node].values()
                near = [path for ways in both for paths in ways for path in paths]
            elif part.kind not in ("plane", "spine"):
                near = self._at_leaf[part.name]
            known = self._on[part] = [path for path in near if part in self.fabric_parts(path)]
        return [path for path in known if path not in self.explained]

    @functools.cached_property
    def _at_leaf(self) -> dict[str | None, list[Path]]:
        at_leaf: dict[str | None, list[Path]] = defaultdict(list)
        for path in self.results:
            for leaf in {self.leaf_of.get(path[0]), self.leaf_of.get(path[1])}:
                at_leaf[leaf].append(path)
        return at_leaf

    def with_partners(self, part: Part) -> Iterator[tuple[str, list[list[Path]]]]:
        """Partner of a node or rail -> the paths between them that nothing explains, each way
        apart.
        """
        for partner, both in self.of_node[part.node].items():
            ways = [
                [
                    path
                    for path in paths
                    if path not in self.explained and (part.end is None or part.end in path)
                ]
                for way, paths in zip(("send", "receive"), both)
                if part.way in ("", way)
            ]
            if any(ways):
                yield partner, [paths for paths in ways if paths]

    def _often_low(self) -> Iterator[Part]:
        """The parts of the fabric with so many open low paths that they may be at fault: a plane
        with half of its paths or more.
        """
        usual = 4 * len(self.open) / self.leaves if self.leaves >= _MANY_LEAVES else 0.0
        of_rail = Counter(a.rail for a, b in self.results if a.rail == b.rail)
        for part, count in self._uses().items():
            least = _LEAST_LOW.get(part.kind, 2)
            if part.kind == "plane":
                least = max(least, of_rail[part.name] // 2)
            elif part.kind in ("leaf", "uplinks") and part.rail is None:
                least = max(least, int(usual) + 1)
            if count >= least:
                yield part

    def _uses(self) -> Counter[Part]:
        return Counter(part for path in self.open for part in self.fabric_parts(path))

    def candidates(self) -> list[Part]:
        """The nodes and rails with open low paths to two partners at least, and the parts of the
        fabric with two at least.
        """
        partners: dict[End, set[str]] = {}
        for a, b in (*self.open, *self.behind):
            partners.setdefault(a, set()).add(b.node)
            partners.setdefault(b, set()).add(a.node)
        ways: tuple[Way, ...] = ("", "send", "receive") if self.evidence.directed else ("",)
        parts: dict[Part, None] = {}
        still_open = {end for path in self.open for end in path}
        for end, met in partners.items():
            if len(met) < 2 or end not in still_open:
                continue
            for way in ways:
                if end.rail is not None:
                    parts[Part("rail", end.name, way, end)] = None
                if end.rail is None or len(self.evidence.ends[end.node]) > 1:
                    parts[Part("node", end.node, way)] = None
        uses = self._uses().items()
        return [*parts, *(part for part, count in uses if count > 1 and part in self._may_be)]

    # ---- what the paths say ----

    def witnesses(self, part: Part) -> list[Witness]:
        """What the paths on a part say: of a node or rail, all paths to another node are one
        witness, low where most of them are; of the fabric, each path is one, but for those that
        another part explains.
        """
        if not part.of_node:
            return [
                Witness((a.node, b.node), self.open.get((a, b), 0), True, self.group((a, b)))
                for a, b in self.on(part)
                if (a, b) not in self.behind
            ]
        found = []
        level_of = {**self.behind, **self.open}
        for partner, ways in self.with_partners(part):
            level = max(_of_most([level_of.get(path, 0) for path in paths]) for paths in ways)
            sound = not level or self._is_sound(part, ways)
            found.append(Witness((part.node, partner), level, sound, self.group(ways[0][0])))
        return found

    @functools.cached_property
    def never_low(self) -> dict[str | None, list[End]]:
        """Rail -> its ends that are good and were never low."""
        low = {end for path in self.low_results for end in path}
        found: dict[str | None, list[End]] = defaultdict(list)
        for ends in self.evidence.ends.values():
            for end in ends:
                if end not in low and end in self.evidence.good_ends:
                    found[end.rail].append(end)
        return found

    def is_good(self, path: Path) -> bool:
        return any(self.evidence.good[number] for number in self.results[path])

    def is_within(self, path: Path, leaf: str) -> bool:
        return self.leaf_of.get(path[0]) == self.leaf_of.get(path[1]) == leaf

    def is_between(self, path: Path) -> bool:
        return self.evidence.group(path) == "between"

    def has(self, group: str) -> bool:
        """Whether any path is of a group."""
        return group in self._of_group

    def received(self, end: End) -> Iterator[Path]:
        """The paths on which an end received; it has a low one."""
        for _, received in self.of_node[end.node].values():
            yield from (path for path in received if path[1] == end)

    def _is_sound(self, part: Part, ways: Iterable[Iterable[Path]]) -> bool:
        """Whether the partner on a low path is good with another node: with a fault one way, in the
        part that it had here, where it had that elsewhere too.
        """
        node = part.node
        for path in (path for paths in ways for path in paths if path in self.low_results):
            sends = path[0].node != node
            partner = path[0] if sends else path[1]
            alike = self.good_with[partner, sends].keys() - {node}
            other = self.good_with[partner, not sends].keys() - {node}
            had = any(
                both[not sends] for met, both in self.of_node[partner.node].items() if met != node
            )
            if alike or (other and not (part.way and had)):
                return True
        return False

    def others(
        self, part: Part, own: Mapping[str | Part, Count], level: int, strict: bool = False
    ) -> dict[str | Part, Count]:
        """Group -> how many pairs of nodes, or of a part of the fabric paths, are low at a level,
        and how many there are, without those of the part: what healthy ones do. `own` has the
        part's. `strict`, for an accusation: what is low now and then counts too.
        """
        low_paths = {**self.open, **self.mixed} if strict else self.open
        unit = "path"
        if part.of_node:
            unit = "ordered" if part.way or not self.evidence.directed else "unordered"
        low: dict[str | Part, set[object]] = {}
        for path, at in low_paths.items():
            if part.of_node:
                is_own = part.node in (path[0].node, path[1].node)
            else:
                is_own = part in self.fabric_parts(path)
            if at >= level and not is_own:
                low.setdefault(self.group(path), set()).add(_as(unit, path))
        found: dict[str | Part, Count] = {}
        for group, count in own.items():
            if isinstance(group, Part):
                found[group] = self.fabric[group]
                continue
            # All between leaves is on a spine.
            group_of_others = "within" if part.kind == "spine" else group
            lows = len(low.get(group_of_others, ()))
            mine = 0 if part.kind == "spine" else count.all
            found[group] = Count(lows, max(self._count(group_of_others, unit) - mine, lows))
        return found

    def _count(self, group: str, unit: str) -> int:
        """How many paths, ordered or unordered pairs of nodes a group has."""
        if (group, unit) not in self._counts:
            paths = self._of_group.get(group, [])
            pairs = {(a.node, b.node) for a, b in paths}
            both_ways = sum((b, a) in pairs for a, b in pairs) // 2
            counts = {
                "path": len(paths),
                "ordered": len(pairs),
                "unordered": len(pairs) - both_ways,
            }
            self._counts.update(((group, unit), count) for unit, count in counts.items())
        return self._counts[group, unit]

    def around_others(self, part: Part, level: int, explained: Iterable[Path]) -> Count:
        """Of the nodes, but the part's, that are low with two or more others: how many of their
        pairs are low, in the part's way. Faults that gather at some nodes, as at a leaf that is not
        known, make a healthy one of these low more often than all nodes are. Of the `explained`
        paths these count too.
        """
        low_paths = {**self.open, **self.mixed}
        low_paths.update((path, self.explained[path]) for path in explained)
        low: dict[str, set[str]] = defaultdict(set)
        for (a, b), at in low_paths.items():
            if at < level or part.node in (a.node, b.node):
                continue
            if part.way != "receive":
                low[a.node].add(b.node)
            if part.way != "send":
                low[b.node].add(a.node)
        often = {node for node, partners in low.items() if len(partners) > 1}
        lows = {frozenset((n, other)) for n in often for other in low[n]}
        pairs = {
            frozenset((n, other))
            for n in often
            for other, ways in self.of_node[n].items()
            if not part.way or ways[part.way == "receive"]
        }
        return Count(len(lows), len(pairs))

    # ---- what is found at fault ----

    def explain(self, part: Part, lows: Iterable[Path]) -> None:
        """Take a part for at fault, which explains these low paths."""
        if not part.of_node:
            seen = self.witnesses(part)
            self.fabric[part] = Count(sum(w.level > 0 for w in seen), len(seen))
        explained = self.explained if part.of_node else self.behind
        for path in lows:
            if path not in self.explained:
                explained[path] = (self.open if path in self.open else self.behind).pop(path)


def links_of(evidence: Evidence, leaf_of: Mapping[End, str], path: Path) -> tuple[Part, ...]:
    """The links that data takes between two leaves, up to the spine and down from it; none where
    the routes do not say.
    """
    sender, receiver = path
    up, down = leaf_of.get(sender), leaf_of.get(receiver)
    if evidence.routes is None or up is None or down is None or up == down:
        return ()
    spine = evidence.routes.spine(up, sender, receiver)
    arriving = evidence.routes.arriving_from(up, sender, receiver)
    if not spine or not arriving:
        return ()
    return (
        Part("link", up, "send", None, None, spine),
        Part("link", down, "receive", None, None, arriving),
    )


def _of_most(levels: list[int]) -> int:
    """The level that more than half of these reach."""
    return sorted(levels, reverse=True)[len(levels) // 2]


def _as(unit: str, path: Path) -> object:
    """A path, or its two nodes, ordered or not."""
    a, b = path[0].node, path[1].node
    if unit == "path":
        return path
    return (a, b) if unit == "ordered" or a < b else (b, a)
