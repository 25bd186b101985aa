"""The parts that may be at fault, and what the paths on each of them say.

A path goes from one end to another. Repeats of one path are one witness of it: it is low where more
than half of its results under some condition are. All paths between two nodes are one witness too,
as the rails of a pair of nodes may share a cause.
"""

from __future__ import annotations

import math
from collections import Counter
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

#: What a node or rail explains that gained less may be low by itself.
_LITTLE = 5.0

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
        self.evidence = evidence
        self.leaf_of = evidence.leaf_of
        levels, unclear = evidence.levels, evidence.unclear
        #: path -> the numbers of its results while others were busy
        self.results: dict[Path, list[int]] = {}
        #: path -> the numbers of its low results
        self.low_results: dict[Path, list[int]] = {}
        for number in evidence.order:
            result = evidence.results[number]
            if result.quiet or number in unclear:
                continue
            path = self._path(result.sender, result.receiver)
            self.results.setdefault(path, []).append(number)
            if levels[number]:
                self.low_results.setdefault(path, []).append(number)
        #: low path that no part explains yet -> its level
        self.open = {p: level for p in self.low_results if (level := self.level(p))}
        #: path that is low now and then, in half of its results or less -> their level
        self.mixed = {
            path: max(levels[number] for number in numbers)
            for path, numbers in self.low_results.items()
            if path not in self.open
        }
        #: low path of a node or rail that was found at fault, which says nothing of its partner ->
        #: its level, and what that gained
        self.explained: dict[Path, tuple[int, float]] = {}
        #: low path of a part of the fabric that was found at fault -> its level
        self.behind: dict[Path, int] = {}
        #: such a part -> how many of its pairs of nodes are low: they are a group of their own
        self.fabric: dict[Part, Count] = {}
        self._fabric_parts: dict[Path, tuple[Part, ...]] = {}
        self._spine = uplinks.bad_spine(evidence)
        self._has_planes = any(len(ends) > 1 for ends in evidence.ends.values())
        self._index()

    def _path(self, sender: End, receiver: End) -> Path:
        if self.evidence.directed or sender.node < receiver.node:
            return sender, receiver
        return receiver, sender

    def level(self, path: Path) -> int:
        """The level that more than half of a path's results reach under some condition."""
        evidence = self.evidence
        by_condition: dict[object, list[int]] = {}
        for number in self.results[path]:
            condition = evidence.results[number].condition
            by_condition.setdefault(condition, []).append(evidence.levels[number])
        return max(map(_of_most, by_condition.values()))

    def _index(self) -> None:
        evidence, leaf_of = self.evidence, self.leaf_of
        ends = {end for path in self.low_results for end in path}
        nodes = {end.node for end in ends}
        uses: dict[Part, int] = {}
        for path in self.open:
            for part in self.fabric_parts(path):
                uses[part] = uses.get(part, 0) + 1
        known_leaves = len(set(leaf_of.values()))
        usual = 4 * len(self.open) / known_leaves if known_leaves >= _MANY_LEAVES else 0.0
        wanted = {
            part
            for part, count in uses.items()
            if count >= _LEAST_LOW.get(part.kind, 2)
            if count > usual or part.kind not in ("leaf", "uplinks") or part.rail is not None
        }
        planes = {part.name: part for part in wanted if part.kind == "plane"}
        of_leaves = wanted.difference(planes.values())
        leaves = {part.name for part in of_leaves if part.end is None}
        destinations = {part.end for part in of_leaves}
        has_spine = any(part.kind == "spine" for part in of_leaves)
        #: part of the fabric -> two nodes -> the paths between them on it
        self.on_part: dict[Part, dict[tuple[str, str], list[Path]]] = {p: {} for p in wanted}
        #: node with a low path -> partner -> the paths that it sends on, and receives on
        self.of_node: dict[str, dict[str, tuple[list[Path], list[Path]]]] = {n: {} for n in nodes}
        #: end of a low path -> node that it was good with -> whether it sent then
        self.good_with: dict[End, dict[str, set[bool]]] = {end: {} for end in ends}
        #: the same -> the number of such a result
        self.good_result: dict[End, dict[str, int]] = {end: {} for end in ends}
        #: group -> its pairs of nodes, ordered and not
        pairs: dict[str, tuple[set[tuple[str, str]], set[tuple[str, str]]]] = {}
        good, directed = evidence.good, evidence.directed
        #: how many ends, leaves and rails there are
        self.ends = sum(map(len, evidence.ends.values()))
        self.leaves = len(set(leaf_of.values())) or 1
        self.rails = len({end.rail for of_node in evidence.ends.values() for end in of_node})
        paths_of: Counter[str] = Counter()
        for path, numbers in self.results.items():
            a, b = path
            node_a, node_b = a.node, b.node
            group = self._base(path)
            paths_of[group] += 1
            ordered, unordered = pairs.setdefault(group, (set(), set()))
            ordered.add((node_a, node_b))
            unordered.add((node_a, node_b) if node_a < node_b else (node_b, node_a))
            if node_a in nodes or node_b in nodes:
                for own, other, sends in ((a, b, True), (b, a, False)):
                    if own.node not in nodes:
                        continue
                    ways = self.of_node[own.node].setdefault(other.node, ([], []))
                    ways[not sends].append(path)
                    if own in ends and any(good[number] for number in numbers):
                        roles = self.good_with[own].setdefault(other.node, set())
                        roles.update((sends,) if directed else (True, False))
                        shown = next(number for number in numbers if good[number])
                        self.good_result[own].setdefault(other.node, shown)
            if a.rail == b.rail and a.rail in planes:
                self.on_part[planes[a.rail]].setdefault((node_a, node_b), []).append(path)
            if (
                has_spine
                or not destinations.isdisjoint(path)
                or not leaves.isdisjoint((leaf_of.get(a), leaf_of.get(b)))
            ):
                for part in self.fabric_parts(path):
                    if part in of_leaves:
                        self.on_part[part].setdefault((node_a, node_b), []).append(path)
        self._pairs = {
            group: (len(two[0]), len(two[1]), paths_of[group]) for group, two in pairs.items()
        }

    def _base(self, path: Path) -> str:
        leaf_a, leaf_b = self.leaf_of.get(path[0]), self.leaf_of.get(path[1])
        if leaf_a is None or leaf_b is None:
            return ""
        return "within" if leaf_a == leaf_b else "between"

    def group(self, path: Path) -> str | Part:
        """The part of the fabric at fault that a path is on, else `within` a leaf or `between` two;
        "" where a leaf is not known.
        """
        if self.fabric:
            for part in self.fabric_parts(path):
                if part in self.fabric:
                    return part
        return self._base(path)

    # ---- parts ----

    def fabric_parts(self, path: Path) -> tuple[Part, ...]:
        """The parts of the fabric that a path is on."""
        known = self._fabric_parts.get(path)
        if known is None:
            known = self._fabric_parts[path] = tuple(self._all_fabric_parts(path))
        return known

    def _all_fabric_parts(self, path: Path) -> Iterator[Part]:
        a, b = path
        rail = a.rail if a.rail is not None and a.rail == b.rail else None
        if rail is not None and self._has_planes:
            yield Part("plane", rail)
        leaf_a, leaf_b = self.leaf_of.get(a), self.leaf_of.get(b)
        if leaf_a is None or leaf_b is None:
            return
        between, directed = leaf_a != leaf_b, self.evidence.directed
        for of_rail in (None, rail) if rail is not None and self._has_planes else (None,):
            for leaf in (leaf_a, leaf_b) if between else (leaf_a,):
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
        if self.evidence.routes is not None:
            for sender, receiver in (path,) if directed else (path, (b, a)):
                leaf = self.leaf_of[sender]
                if spine := self.evidence.routes.spine(leaf, sender, receiver):
                    yield Part("link", leaf, "send", None, None, spine)
                    yield Part("link", self.leaf_of[receiver], "receive", None, None, spine)

    def candidates(self) -> list[Part]:
        """The nodes and rails with open low paths to two partners at least, and the parts of the
        fabric with two at least.
        """
        partners: dict[End, set[str]] = {}
        uses: dict[Part, int] = {}
        for a, b in (*self.open, *self.behind):
            partners.setdefault(a, set()).add(b.node)
            partners.setdefault(b, set()).add(a.node)
        for path in self.open:
            for part in self.fabric_parts(path):
                uses[part] = uses.get(part, 0) + 1
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
        parts.update((p, None) for p, count in uses.items() if count > 1 and p in self.on_part)
        return list(parts)

    def paths_on(self, part: Part) -> Iterator[tuple[tuple[str, str], list[list[Path]]]]:
        """Two nodes -> the paths between them on a part that nothing explains, each way apart."""
        if not part.of_node:
            for nodes, paths in self.on_part[part].items():
                if kept := [path for path in paths if path not in self.explained]:
                    yield nodes, [kept]
            return
        for partner, both in self.of_node[part.node].items():
            ways = []
            for way, paths in zip(("send", "receive"), both):
                if part.way in ("", way):
                    kept = [
                        path
                        for path in paths
                        if path not in self.explained and (part.end is None or part.end in path)
                    ]
                    if kept:
                        ways.append(kept)
            if ways:
                yield (part.node, partner), ways

    def witnesses(self, part: Part) -> list[Witness]:
        """What the paths on a part say: of a node or rail, all paths to another node are one
        witness, low where most of them are; of the fabric, each path is one.
        """
        found = []
        if not part.of_node:
            for nodes, ((*paths,),) in self.paths_on(part):
                found += [
                    Witness(nodes, self.open.get(path, 0), True, self.group(path))
                    for path in paths
                    # What another part explains says nothing of this one.
                    if path not in self.behind
                ]
            return found
        level_of = {**self.behind, **self.open}
        for nodes, ways in self.paths_on(part):
            level = max(_of_most([level_of.get(path, 0) for path in paths]) for paths in ways)
            sound = not level or self.is_sound(part, ways)
            found.append(Witness(nodes, level, sound, self.group(ways[0][0])))
        return found

    def is_good(self, path: Path) -> bool:
        return any(self.evidence.good[number] for number in self.results[path])

    def is_within(self, path: Path, leaf: str) -> bool:
        return self.leaf_of.get(path[0]) == self.leaf_of.get(path[1]) == leaf

    def received(self, end: End) -> Iterator[Path]:
        """The paths on which an end received; it has a low one."""
        for _, received in self.of_node[end.node].values():
            yield from (path for path in received if path[1] == end)

    def is_sound(self, part: Part, ways: Iterable[Iterable[Path]]) -> bool:
        """Whether the partner on a low path is good with another node: with a fault one way, in the
        part that it had here, where it had that elsewhere too.
        """
        node = part.node
        for path in (path for paths in ways for path in paths if path in self.low_results):
            partner = path[1] if path[0].node == node else path[0]
            roles = [r for n, r in self.good_with.get(partner, {}).items() if n != node]
            sends = partner == path[0]
            had = any(
                both[not sends] for met, both in self.of_node[partner.node].items() if met != node
            )
            if roles and (not part.way or not had or any(sends in known for known in roles)):
                return True
        return False

    def others(
        self, part: Part, own: Mapping[str | Part, Count], level: int, strict: bool = False
    ) -> dict[str | Part, Count]:
        """Group -> how many pairs of nodes, or of a part of the fabric paths, are low at a level,
        and how many there are, without those of the part: what healthy ones do. `own` has the
        part's. `strict`, for an accusation: what is low now and then counts too, and what a node or
        rail explains that gained little.
        """
        low_paths = dict(self.open)
        if strict:
            low_paths.update(self.mixed)
            low_paths.update((p, at) for p, (at, gain) in self.explained.items() if gain < _LITTLE)
        ordered = bool(part.way) or not self.evidence.directed
        #: ordered pairs of nodes, unordered ones, or paths
        which = 2 if not part.of_node else int(not ordered)
        low: dict[str | Part, set[object]] = {}
        for path, at in low_paths.items():
            nodes = path[0].node, path[1].node
            if at < level or part.node in nodes:
                continue
            if not part.of_node:
                if part not in self.fabric_parts(path):
                    low.setdefault(self.group(path), set()).add(path)
                continue
            if not ordered and nodes[0] > nodes[1]:
                nodes = nodes[1], nodes[0]
            low.setdefault(self.group(path), set()).add(nodes)
        found: dict[str | Part, Count] = {}
        for group, count in own.items():
            if isinstance(group, Part):
                found[group] = self.fabric[group]
            elif part.kind == "spine":
                # All between leaves is on it.
                known = self._pairs.get("within", (0, 0, 0))[which]
                found[group] = Count(len(low.get("within", ())), known)
            else:
                lows = len(low.get(group, ()))
                found[group] = Count(lows, max(self._pairs[group][which] - count.all, lows))
        return found

    def around_others(self, part: Part, level: int, explained: Iterable[Path]) -> Count:
        """Of the nodes, but the part's, that are low with two or more others: how many of their
        pairs are low, in the part's way. Faults that gather at some nodes, as at a leaf that is not
        known, make a healthy one of these low more often than all nodes are. Of the `explained`
        paths these count too.
        """
        low_paths = {**self.open, **self.mixed}
        low_paths.update((path, self.explained[path][0]) for path in explained)
        low: dict[str, set[str]] = {}
        for (a, b), at in low_paths.items():
            if at < level or part.node in (a.node, b.node):
                continue
            if part.way != "receive":
                low.setdefault(a.node, set()).add(b.node)
            if part.way != "send":
                low.setdefault(b.node, set()).add(a.node)
        often = {node for node, partners in low.items() if len(partners) > 1}
        lows = {frozenset((n, other)) for n in often for other in low[n]}
        pairs = {
            frozenset((n, other))
            for n in often
            for other, ways in self.of_node[n].items()
            if not part.way or ways[part.way == "receive"]
        }
        return Count(len(lows), len(pairs))

    def explain(self, part: Part, lows: Iterable[Path], gain: float) -> None:
        """Take a part for at fault, which explains these low paths."""
        if not part.of_node:
            seen = self.witnesses(part)
            self.fabric[part] = Count(sum(w.level > 0 for w in seen), len(seen))
        for path in lows:
            if path in self.explained:
                continue
            level = self.open.pop(path) if path in self.open else self.behind.pop(path)
            if part.of_node:
                self.explained[path] = level, gain
            else:
                self.behind[path] = level

    def explain_surely(self, lows: Iterable[Path]) -> None:
        """Take these low paths for explained, whatever that gained."""
        for path in lows:
            if path in self.explained:
                self.explained[path] = self.explained[path][0], math.inf


def _of_most(levels: list[int]) -> int:
    """The level that more than half of these reach."""
    return sorted(levels, reverse=True)[len(levels) // 2]
