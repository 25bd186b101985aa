"""Makes suspects of what explains the low results: confirmed or not, and what would confirm them.

A node or rail is confirmed when

1. it is low with two partners or more that are good with others, and with most of such partners;
2. so many low partners are unlikely for any healthy one by what the campaign's other pairs are;
3. no static path of the fabric explains it: it is low with a partner of its own leaf; or as sender
   with two, or as sender and as receiver, while others of its leaf send well to other leaves;
4. it was so in two rounds;
5. it was not good each time that all else was quiet.

A pair is confirmed when it is low every time, four times, and both its ends are good elsewhere. A
part of the fabric is confirmed by 2 and 4, where its ends are good elsewhere.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from railgauge.common.names import natural
from railgauge.locating import chance, fabric, load
from railgauge.locating.chance import FALSE_ACCUSATION, Count
from railgauge.locating.evidence import Evidence
from railgauge.locating.explain import explain
from railgauge.locating.parts import Part, Path, Paths
from railgauge.locating.parts import Witness as PairWitness
from railgauge.locating.results import End
from railgauge.locating.suspects import (
    Fewest,
    Located,
    Measure,
    Need,
    Suspect,
    SuspectKind,
    Witness,
)
from railgauge.locating.weigh import Found, how_many, of_groups

#: The most results that are named as evidence, of either kind.
_MOST_NAMED = 8

#: A pair is confirmed when it was low so often, and its ends were good with so many others.
PAIR_TIMES, PAIR_OTHERS = 4, 3

#: The chance that some pair is low so often by itself, each time anew, is less.
_PAIR_BY_ITSELF = 0.01

#: Of up to so many nodes there are too few pairs to say how often one is low by itself. Where all
#: pairs without a node are good, it is confirmed by a greater chance: low with all others, or with
#: all that it met.
_FEW_NODES, _ALL_OF_FEW, _MOST_OF_FEW, _LEAST_MET = 8, 0.1, 1e-3, 3

#: Most faults of a node make it low with nearly all partners. One that spares more is rarer by this
#: factor, and by its square where leaves are not known: static paths look the same.
_NEARLY_ALL, _PARTLY = 0.9, 0.1

#: A node is low at home where the chance that a healthy one is so often is less.
_AT_HOME = 0.05

#: Of unknown leaves: all data of a healthy node to so many destinations takes one of two uplinks
#: with a chance of 1 in 256.
_SENT_TO = 8

#: A node of a larger share of bad rails is at fault itself.
MOST_RAILS = 0.5

_ONE_GOOD = "one that is good with others"


def locate(evidence: Evidence) -> Located:
    """The suspects by all results so far."""
    return _Judge(evidence).located()


class _Accused(NamedTuple):
    """A node or rail with what speaks against it."""

    part: Part
    found: tuple[Found, ...]
    ends: tuple[End, ...]
    lows: tuple[Path, ...]
    events: tuple[int, ...]


class _Judge:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.paths = Paths(evidence)
        #: end -> the numbers of the results in which its error counters grew
        self.events: dict[End, list[int]] = {}
        for number in evidence.order:
            result = evidence.results[number]
            if result.sender_events:
                self.events.setdefault(result.sender, []).append(number)
            if result.receiver_events:
                self.events.setdefault(result.receiver, []).append(number)
        found = explain(self.paths)
        self.fabric = [one for one in found if not one.part.of_node]
        self.accused = self._accused([one for one in found if one.part.of_node])
        self.accused_ends = {end for one in self.accused for end in one.ends}
        for one in self.accused:
            if self._is_low_with_all(one):
                self.paths.explain_surely(one.lows)

    def _accused(self, found: Sequence[Found]) -> list[_Accused]:
        """The nodes and rails, a node in place of more than half of its rails."""
        by_node: dict[str, list[Found]] = {}
        for one in found:
            by_node.setdefault(one.part.node, []).append(one)
        counted = {end: numbers for end, numbers in self.events.items() if self._counts(end)}
        for end in counted:
            by_node.setdefault(end.node, [])
        accused = []
        for node, parts in by_node.items():
            all_ends = self.evidence.ends[node]
            ends = {end for one in parts for end in self._ends(one.part)}
            ends.update(end for end in counted if end.node == node)
            whole = len(ends) > MOST_RAILS * len(all_ends)
            if whole and (len(all_ends) > 1 or all_ends[0].rail is None):
                accused.append(self._one(Part("node", node), parts, all_ends))
                continue
            accused += [
                self._one(
                    Part("rail", end.name, "", end),
                    [one for one in parts if end in self._ends(one.part)],
                    [end],
                )
                for end in sorted(ends, key=lambda end: end.order)
            ]
        return accused

    def _one(self, part: Part, found: Sequence[Found], ends: Sequence[End]) -> _Accused:
        lows = dict.fromkeys(path for one in found for path in one.lows)
        events = [number for end in ends for number in self.events.get(end, ())]
        return _Accused(part, tuple(found), tuple(ends), tuple(lows), tuple(sorted(events)))

    def _ends(self, part: Part) -> list[End]:
        return [part.end] if part.end is not None else self.evidence.ends[part.node]

    def _counts(self, end: End) -> bool:
        """Whether an end's error counters grow far more often than others' do, in two rounds."""
        numbers = self.events[end]
        if len({self.evidence.results[n].round for n in numbers}) < 2 and len(numbers) < 2:
            return False
        uses, moved = self._uses, sum(map(len, self.events.values()))
        others = Count(moved - len(numbers), sum(uses.values()) - uses[end])
        return chance.of_as_many(len(numbers), [(others, uses[end])]) * len(uses) < FALSE_ACCUSATION

    @functools.cached_property
    def _uses(self) -> Counter[End]:
        return Counter(end for result in self.evidence.results for end in result.ends)

    # ---- the answer ----

    def located(self) -> Located:
        evidence = self.evidence
        suspects = [*self._of_fabric(), *map(self._of_node, self.accused), *self._pairs()]
        suspects.sort(key=lambda s: (not s.confirmed, s.kind == "pair", -s.score, natural(s.name)))
        ends = {end for suspect in suspects for end in suspect.ends}
        goods: Counter[End] = Counter()
        for number, result in enumerate(evidence.results):
            if evidence.good[number] and not result.quiet:
                goods.update(result.ends)
        all_ends = [end for of_node in evidence.ends.values() for end in of_node]
        others = [Fewest(goods[end], end.name) for end in all_ends if end not in ends]
        unrepeated = [path for path in self.paths.low_results if not self.paths.level(path)]
        return Located(
            tuple(suspects),
            tuple(evidence.missing),
            evidence.rounds,
            tuple(evidence.nodes),
            tuple(dict.fromkeys(evidence.alike)),
            tuple(unrepeated),
            min(others, key=lambda one: (one.good, natural(one.end)), default=None),
            tuple(evidence.cleared),
            tuple(evidence.unjudged),
        )

    # ---- nodes and rails ----

    def _of_node(self, one: _Accused) -> Suspect:
        witnesses = self._witnesses(one)
        low = [witness for witness in witnesses if witness.level]
        confirm = tuple(self._to_confirm(one))
        kind: SuspectKind = "node" if one.part.kind == "node" else "rail"
        numbers = [n for path in one.lows for n in self.paths.low_results[path]]
        missed = load.missed_when_quiet(self.evidence, one.ends, numbers) if numbers else None
        if missed is not None and missed < load.BY_CHANCE:
            kind = "load"
        elif missed is not None and not confirm and not self.evidence.added >= set(one.ends):
            why = "while all else is quiet: it was good then, too rarely to tell"
            confirm = (self._measure(one, why, "quiet"),)
        partners = [path[1] if path[0].node == one.part.node else path[0] for path in one.lows]
        return Suspect(
            kind,
            one.part.name,
            max((found.gain for found in one.found), default=0.0) + 5.0 * bool(one.events),
            (one.part.node,),
            one.ends,
            (*self._convicting(numbers), *self._counters(one), *self._clearing(partners, one)),
            confirm,
            only_as=self._only_as(one),
            low_with=len({w.nodes[1] for w in low}),
            partners=len({w.nodes[1] for w in witnesses}),
        )

    def _witnesses(self, one: _Accused) -> list[PairWitness]:
        """Those of the rail, or of a node all that its parts have. What a part of the fabric may
        explain as well is in its group, also if that part was found later.
        """
        found: dict[tuple[str, str], PairWitness] = {}
        for part in one.found:
            for witness in part.witnesses:
                known = found.get(witness.nodes)
                if known is None or (witness.level, witness.sound) > (known.level, known.sound):
                    found[witness.nodes] = witness
        for path in one.lows if self.paths.fabric else ():
            group = self.paths.group(path)
            nodes = path[0].node, path[1].node
            for both in (nodes, nodes[::-1]):
                if isinstance(group, Part) and both in found:
                    found[both] = found[both]._replace(group=group)
        return list(found.values())

    def _only_as(self, one: _Accused) -> Literal["", "sender", "receiver"]:
        """The part in which alone it was low, where it was good in the other one."""
        if not self.evidence.directed or not one.lows:
            return ""
        sent = {path[0] in one.ends for path in one.lows}
        good = {
            sends
            for end in one.ends
            for roles in self.paths.good_with.get(end, {}).values()
            for sends in roles
        }
        if sent == {True} and good == {False}:
            return "sender"
        return "receiver" if sent == {False} and good == {True} else ""

    def _to_confirm(self, one: _Accused) -> Iterator[Measure]:
        """What is still to be measured for a node or rail; nothing where it is confirmed."""
        witnesses = self._witnesses(one)
        sound = [witness for witness in witnesses if witness.sound]
        low = [witness for witness in sound if witness.level]
        counted = one.events and any(self._counts(end) for end in one.ends if end in self.events)
        events = {self.evidence.results[n].round for n in one.events} if counted else set()
        if len(low) + len(events) < 2:
            yield self._measure(one, "a partner that is good with others")
        elif 2 * len(low) <= len(sound) and len(events) < 2:
            why = f"it is slow with {len(low)} of {len(sound)} partners"
            yield self._measure(one, f"more partners: {why}")
        elif not counted and self._chance(one, sound) >= self._most_chance(one, sound, low):
            yield self._measure(one, "more partners: so few may be slow by chance")
        elif not counted and (why := self._other_explanation(one)):
            yield self._measure(one, why, "home")
        elif not self._in_two_rounds(one):
            yield self._measure(one, "in another round")

    def _chance(self, one: _Accused, sound: Sequence[PairWitness]) -> float:
        """The chance that any healthy node or rail is low with so many partners: the level of loss
        that says most, times the number of levels that were tried.
        """
        part = one.found[0].part
        levels = sorted({witness.level for witness in sound if witness.level})
        if not levels:
            return 1.0
        # Several nodes that are slow one way, and the same way, may be behind one link.
        alike = [
            path
            for other in self.accused
            if other.part.node != part.node
            for found in other.found
            if part.way and found.part.way == part.way
            for path in found.lows
            if path in self.paths.explained
        ]
        chances = []
        for level in levels:
            groups = of_groups(self.paths, part, sound, level, strict=True)
            low = sum(own.low for _, own in groups)
            gathered = self.paths.around_others(part, level, alike)
            count = sum(own.all for _, own in groups)
            chances.append(
                max(
                    chance.of_as_many(low, [(others, own.all) for others, own in groups]),
                    chance.of_as_many(low, [(gathered, count)]) if gathered.low else 0.0,
                )
            )
        return min(chances) * len(levels) * how_many(self.paths, part)

    def _is_low_with_all(self, one: _Accused) -> bool:
        """Whether it is low with all of several partners: its low paths are no faulty pairs."""
        met = self._witnesses(one)
        return len(met) >= _LEAST_MET and all(witness.level for witness in met)

    def _most_chance(
        self, one: _Accused, sound: Sequence[PairWitness], low: Sequence[PairWitness]
    ) -> float:
        """The chance below which it is confirmed."""
        nodes = len(self.evidence.ends)
        others_low = self.paths.low_results.keys() - set(one.lows)
        for other in self.accused:
            if self._is_low_with_all(other):
                others_low -= set(other.lows)
        if nodes <= _FEW_NODES and len(low) == len(sound) and not others_low:
            return _ALL_OF_FEW if len(low) == nodes - 1 else _MOST_OF_FEW
        if len(low) > _NEARLY_ALL * len(sound):
            return FALSE_ACCUSATION
        return FALSE_ACCUSATION * (_PARTLY if self.paths.leaf_of else _PARTLY**2)

    def _in_two_rounds(self, one: _Accused) -> bool:
        results = self.evidence.results
        lows = {results[n].round for path in one.lows for n in self.paths.low_results[path]}
        rounds = lows | {results[n].round for n in one.events}
        return len(rounds) > 1 or None in rounds

    def _other_explanation(self, one: _Accused) -> str:
        """Why static paths of the fabric may explain it as well; "" where they do not."""
        leaf_of, directed = self.paths.leaf_of, self.evidence.directed
        leaf = leaf_of.get(one.ends[0])
        witnesses = [witness for witness in self._witnesses(one) if witness.sound]
        low = [witness for witness in witnesses if witness.level]
        sent = {path[1].node for path in one.lows if path[0] in one.ends}
        received = {path[0].node for path in one.lows if path[1] in one.ends}
        if leaf is None:
            # Data to one destination takes one path from all, but those of its own leaf; and half
            # of what a leaf sends may take one uplink.
            met_most = 5 * len(low) >= 4 * (len(self.evidence.ends) - 1)
            many = directed and sent and (received or len(sent) >= _SENT_TO)
            if len(low) > _NEARLY_ALL * len(witnesses) and (met_most or many):
                return ""
            return "a partner on its own leaf: leaves are not known"
        leaves = {leaf_of.get(end) for of_node in self.evidence.ends.values() for end in of_node}
        if len(leaves) < 2 or self._low_at_home(one, low, witnesses):
            return ""
        # A path to one end is not one from it: both would have to be bad.
        enough = len(sent) > 1 or len(sent | received) > len(sent) > 0
        if directed and enough and self._leaf_sends_well(one, leaf):
            return ""
        return "a partner on its own leaf"

    def _low_at_home(
        self, one: _Accused, low: Sequence[PairWitness], all_: Sequence[PairWitness]
    ) -> bool:
        """Whether it is low within its leaf more often than others are by themselves."""
        home = [witness for witness in all_ if witness.group == "within"]
        home_low = sum(witness in home for witness in low)
        if not home_low or 2 * home_low <= len(home):
            return False
        groups = of_groups(self.paths, one.found[0].part, all_, 1, strict=True)
        # Between leaves pairs are low as often, or more.
        others = Count(sum(count.low for count, _ in groups), sum(count.all for count, _ in groups))
        return chance.of_as_many(home_low, [(others, len(home))]) < _AT_HOME

    def _leaf_sends_well(self, one: _Accused, leaf: str) -> bool:
        """Whether two other nodes of the leaf were good senders to other leaves."""
        good = set()
        for (a, b), numbers in self.paths.results.items():
            if (
                self.paths.leaf_of.get(a) == leaf
                and self.paths.leaf_of.get(b) not in (leaf, None)
                and a.node != one.part.node
                and any(self.evidence.good[n] for n in numbers)
            ):
                good.add(a.node)
        return len(good) > 1

    def _measure(self, one: _Accused, why: str, need: Need = "partner") -> Measure:
        met = {node for path in one.lows for node in (path[0].node, path[1].node)}
        leaf = self.paths.leaf_of.get(one.ends[0]) if need == "home" else None
        return Measure(one.part.name, self._clean(one.ends[0], met, leaf), why, need)

    def _clean(self, end: End, without: Iterable[str], leaf: str | None = None) -> str:
        """A partner on the same rail that is good and was never low, of this leaf or of the end's
        own where possible.
        """
        excluded = {end.node, *without}
        own = leaf or self.paths.leaf_of.get(end)
        clean = [other for other in self._never_low.get(end.rail, ()) if other.node not in excluded]
        at_home = [other for other in clean if self.paths.leaf_of.get(other) == own]
        if at_home or (clean and leaf is None):
            return (at_home or clean)[0].name
        return _ONE_GOOD

    @functools.cached_property
    def _never_low(self) -> dict[str | None, list[End]]:
        """Rail -> its ends that are good and were never low."""
        low = {other for path in self.paths.low_results for other in path}
        found: dict[str | None, list[End]] = {}
        for ends in self.evidence.ends.values():
            for end in ends:
                if end not in low and end in self.evidence.good_ends:
                    found.setdefault(end.rail, []).append(end)
        return found

    # ---- pairs ----

    def _pairs(self) -> Iterator[Suspect]:
        """The low paths that no part explains."""
        pairs: dict[tuple[str, str], list[Path]] = {}
        for path in self.paths.open:
            if self._stands_out(path):
                first, second = sorted((path[0].node, path[1].node), key=natural)
                pairs.setdefault((first, second), []).append(path)
        for nodes, lows in pairs.items():
            ends = tuple(dict.fromkeys(end for path in lows for end in sorted(path, key=_order)))
            numbers = [n for path in lows for n in self.paths.low_results[path]]
            yield Suspect(
                "pair",
                "-".join(nodes),
                float(max(self.paths.open[path] for path in lows)),
                nodes,
                ends,
                (*self._convicting(numbers), *self._clearing(ends, None, nodes)),
                tuple(self._to_confirm_pair(nodes, ends, lows, numbers)),
            )

    def _stands_out(self, path: Path) -> bool:
        """Whether a path is lower than noise makes some result of so many: it is farther below the
        centre than others lie above it.
        """
        evidence = self.evidence
        losses = []
        for number in self.paths.low_results[path]:
            result, expected = evidence.results[number], evidence.expected[number]
            if not result.value or not expected or result.bound is not None:
                return True
            losses.append(expected / result.value)
        return min(losses) > self._noise

    @functools.cached_property
    def _noise(self) -> float:
        """How many times their centre the third highest result is, and a quarter more of that."""
        evidence = self.evidence
        shares = [
            result.value / centre
            for result, centre in zip(evidence.results, evidence.expected)
            if result.value and centre
        ]
        return sorted(shares)[-3] ** 1.25 if len(shares) >= 100 else 1.0

    def _to_confirm_pair(
        self, nodes: tuple[str, str], ends: Sequence[End], lows: Sequence[Path], numbers: list[int]
    ) -> Iterator[Measure]:
        def with_others(end: End, sends: bool) -> int:
            if end in self.accused_ends:
                return 0
            known = self.paths.good_with[end].items()
            return sum(sends in roles for node, roles in known if node not in nodes)

        def others(least: int) -> Iterator[Measure]:
            for end, sends in dict.fromkeys(e for a, b in lows for e in ((a, True), (b, False))):
                if with_others(end, sends) < least:
                    part = f"as {'sender' if sends else 'receiver'} " * self.evidence.directed
                    why = f"{part}with {'others' if least > 1 else 'another'}"
                    yield Measure(end.name, self._clean(end, nodes), why, "partner")

        if lacking := list(others(1)):
            yield from lacking
            return
        rounds = {self.evidence.results[n].round for n in numbers}
        times = len(numbers) if None in rounds else len(rounds)
        all_low = all(len(self.paths.results[p]) == len(self.paths.low_results[p]) for p in lows)
        low = len(self.paths.open) + sum(not self.paths.level(p) for p in self.paths.low_results)
        rate = chance.usual(low - len(lows), max(len(self.paths.results) - len(lows), low))
        by_itself = rate ** (times - 1) * len(self.paths.open)
        if times < PAIR_TIMES or not all_low or by_itself >= _PAIR_BY_ITSELF:
            yield Measure(nodes[0], nodes[1], "the pair again", "pair")
        else:
            yield from others(PAIR_OTHERS)

    # ---- the fabric ----

    def _of_fabric(self) -> Iterator[Suspect]:
        faults, moments = fabric.faults(self.paths, self.fabric)
        self.evidence.alike += moments
        for fault in faults:
            numbers = [n for path in fault.lows for n in self.paths.low_results[path]]
            ends = sorted(fault.ends, key=_order)
            yield Suspect(
                fault.kind,
                fault.name,
                fault.gain,
                tuple(sorted({end.node for end in ends}, key=natural)),
                tuple(ends),
                tuple(self._convicting(numbers)),
                fault.confirm,
                direction=fault.direction,
            )

    # ---- witnesses ----

    def _convicting(self, numbers: Iterable[int]) -> Iterator[Witness]:
        levels, place = self.evidence.levels, {n: k for k, n in enumerate(self.evidence.lows)}
        strongest = sorted(dict.fromkeys(numbers), key=lambda n: (-levels[n], place[n]))
        yield from (self._witness(n, "convicts") for n in strongest[:_MOST_NAMED])

    def _counters(self, one: _Accused) -> Iterator[Witness]:
        for number in one.events[:_MOST_NAMED]:
            yield self._witness(number, "counter")

    def _clearing(
        self, partners: Iterable[End], one: _Accused | None, nodes: Sequence[str] = ()
    ) -> Iterator[Witness]:
        """A good result of each partner with another node."""
        without = {*nodes, *([one.part.node] if one else ())}
        numbers = (
            next((n for node, n in good.items() if node not in without), None)
            for end in dict.fromkeys(partners)
            for good in [self.paths.good_result.get(end, {})]
        )
        shown = dict.fromkeys(number for number in numbers if number is not None)
        yield from (self._witness(number, "clears") for number in list(shown)[:_MOST_NAMED])

    def _witness(self, number: int, says: Literal["convicts", "clears", "counter"]) -> Witness:
        result = self.evidence.results[number]
        a, b = result.ends
        if says == "counter" and not result.sender_events:
            a, b = b, a
        return Witness(
            a.name, b.name, result.round, result.value, self.evidence.expected[number], says
        )


def _order(end: End) -> tuple[object, ...]:
    return end.order
