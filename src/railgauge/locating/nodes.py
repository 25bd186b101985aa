"""Nodes and rails: suspects of what explains low results, confirmed or not, and why not.

A node or rail is confirmed when

1. it is low with two partners or more that are good with others, and with most of such partners;
2. so many low partners are unlikely for any healthy one by what the campaign's other pairs are;
3. no static path of the fabric explains it: it is low with a partner of its own leaf; or as sender
   with two, or as sender and as receiver, while others of its leaf send well to other leaves;
4. it was so in two rounds;
5. it was not good each time that all else was quiet.

Error counters that grow far more often than others' take the place of 1 to 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from railgauge.locating import chance, load
from railgauge.locating.chance import FALSE_ACCUSATION, Count
from railgauge.locating.parts import Part, Path, Paths, Witness, links_of
from railgauge.locating.results import End
from railgauge.locating.suspects import Measure, Need, Suspect, SuspectKind
from railgauge.locating.weigh import Found, by_chance, of_others
from railgauge.locating.witnesses import clearing, convicting, counting, good_partner

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


class _Accused(NamedTuple):
    """A node or rail with what speaks against it: what explains its low paths, these, the results
    in which its error counters grew, and what it is with each partner.
    """

    part: Part
    found: Sequence[Found]
    ends: Sequence[End]
    lows: Sequence[Path]
    events: Sequence[int]
    witnesses: Sequence[Witness]

    @property
    def sound(self) -> list[Witness]:
        """What it is with partners that are good with others."""
        return [witness for witness in self.witnesses if witness.sound]

    @property
    def low(self) -> list[Witness]:
        return [witness for witness in self.sound if witness.level]

    @property
    def low_with_all(self) -> bool:
        """Whether it is low with all of several partners: its low paths are no faulty pairs."""
        return len(self.witnesses) >= _LEAST_MET and all(w.level for w in self.witnesses)


class Nodes:
    """The nodes and rails that explain low paths, or that count errors."""

    def __init__(self, paths: Paths, found: Sequence[Found]) -> None:
        self.paths, self.evidence = paths, paths.evidence
        #: end -> the numbers of the results in which its error counters grew
        self._events: dict[End, list[int]] = {}
        for number in self.evidence.order:
            result = self.evidence.results[number]
            if result.sender_events or result.receiver_events:
                growth = (result.sender_events, result.receiver_events)
                for end, events in zip(result.ends, growth):
                    if events:
                        self._events.setdefault(end, []).append(number)
        #: the ends with counters that grow far more often than others' do
        self._counted = set(self._often_counted())
        self.accused = list(self._accuse(found))

    @property
    def ends(self) -> set[End]:
        return {end for one in self.accused for end in one.ends}

    def suspects(self) -> Iterator[Suspect]:
        return map(self._suspect, self.accused)

    def _often_counted(self) -> Iterator[End]:
        """The ends with error counters that grow far more often than others'."""
        if not self._events:
            return
        uses = Counter(end for result in self.evidence.results for end in result.ends)
        moved, count = sum(map(len, self._events.values())), sum(uses.values())
        for end, numbers in self._events.items():
            others = Count(moved - len(numbers), count - uses[end])
            by_itself = chance.of_as_many(len(numbers), [(others, uses[end])]) * len(uses)
            if len(numbers) > 1 and by_itself < FALSE_ACCUSATION:
                yield end

    def _accuse(self, found: Sequence[Found]) -> Iterator[_Accused]:
        """The nodes and rails, a node in place of more than half of its rails."""
        nodes = dict.fromkeys([one.part.node for one in found])
        nodes.update(dict.fromkeys(end.node for end in self._events if end in self._counted))
        for node in nodes:
            all_ends = self.evidence.ends[node]
            of_end: dict[End, list[Found]] = {end: [] for end in all_ends if end in self._counted}
            for one in found:
                for end in ([one.part.end] if one.part.end else all_ends) * (one.part.node == node):
                    of_end.setdefault(end, []).append(one)
            whole = len(of_end) > MOST_RAILS * len(all_ends)
            if whole and (len(all_ends) > 1 or all_ends[0].rail is None):
                parts = [one for one in found if one.part.node == node]
                yield self._one(Part("node", node), parts, all_ends)
                continue
            for end in sorted(of_end, key=lambda end: end.order):
                yield self._one(Part("rail", end.name, "", end), of_end[end], [end])

    def _one(self, part: Part, found: Sequence[Found], ends: Sequence[End]) -> _Accused:
        lows = list(dict.fromkeys(path for one in found for path in one.lows))
        events = sorted(number for end in ends for number in self._events.get(end, ()))
        return _Accused(part, found, ends, lows, events, self._witnesses(found, lows))

    def _witnesses(self, found: Sequence[Found], lows: Sequence[Path]) -> list[Witness]:
        """Those of all that was found of it. What a part of the fabric may explain as well is in
        its group, also if that part was found later.
        """
        known: dict[str, Witness] = {}
        for witness in (witness for one in found for witness in one.witnesses):
            partner = witness.nodes[1]
            if partner not in known or witness[1:3] > known[partner][1:3]:
                known[partner] = witness
        for path in lows if self.paths.fabric else ():
            group = self.paths.group(path)
            for end in path:
                if isinstance(group, Part) and end.node in known:
                    known[end.node] = known[end.node]._replace(group=group)
        return list(known.values())

    # ---- the suspect ----

    def _suspect(self, one: _Accused) -> Suspect:
        confirm = tuple(self._needs(one))
        kind: SuspectKind = "node" if one.part.kind == "node" else "rail"
        missed = load.missed_when_quiet(self.paths, one.ends, one.lows)
        if missed is not None and missed < load.BY_CHANCE:
            kind = "load"
        elif missed is not None and not confirm and not self.evidence.added >= set(one.ends):
            why = "while all else is quiet: it was good then, too rarely to tell"
            confirm = (self._measure(one, why, "quiet"),)
        partners = [path[path[0].node == one.part.node] for path in one.lows]
        return Suspect(
            kind,
            one.part.name,
            max((found.gain for found in one.found), default=0.0) + 5.0 * bool(one.events),
            (one.part.node,),
            tuple(one.ends),
            (
                *convicting(self.paths, one.lows),
                *counting(self.paths, one.events),
                *clearing(self.paths, partners, {one.part.node}),
            ),
            confirm,
            only_as=self._only_as(one),
            low_with=sum(witness.level > 0 for witness in one.witnesses),
            partners=len(one.witnesses),
        )

    def _only_as(self, one: _Accused) -> Literal["", "sender", "receiver"]:
        """The part in which alone it was low, where it was good in the other one."""
        sent = {path[0] in one.ends for path in one.lows}
        good_with = self.paths.good_with
        good = {sends for end in one.ends for sends in (True, False) if good_with[end, sends]}
        if self.evidence.directed and sent == {True} and good == {False}:
            return "sender"
        return "receiver" if self.evidence.directed and (sent, good) == ({False}, {True}) else ""

    # ---- what confirms it ----

    def _needs(self, one: _Accused) -> Iterator[Measure]:
        """What is still to be measured; nothing where it is confirmed."""
        sound, low = one.sound, one.low
        results = self.evidence.results
        counted = not self._counted.isdisjoint(one.ends)
        events = {results[n].round for n in one.events} if counted else set()
        numbers = [n for path in one.lows for n in self.paths.low_results[path]]
        rounds = {results[n].round for n in (*numbers, *one.events)}
        if len(low) + len(events) < 2:
            yield self._measure(one, "a partner that is good with others")
        elif 2 * len(low) <= len(sound) and len(events) < 2:
            why = f"it is slow with {len(low)} of {len(sound)} partners"
            yield self._measure(one, f"more partners: {why}")
        elif not counted and self._chance(one) >= self._most_chance(one):
            yield self._measure(one, "more partners: so few may be slow by chance")
        elif not counted and (why := self._other_explanation(one)):
            yield self._measure(one, why, "home")
        elif len(rounds) < 2 and None not in rounds:
            yield self._measure(one, "in another round")

    def _measure(self, one: _Accused, why: str, need: Need = "partner") -> Measure:
        met = {node for path in one.lows for node in (path[0].node, path[1].node)}
        leaf = self.paths.leaf_of.get(one.ends[0]) if need == "home" else None
        return Measure(one.part.name, good_partner(self.paths, one.ends[0], met, leaf), why, need)

    def _chance(self, one: _Accused) -> float:
        """The chance that any healthy node or rail is low with so many partners."""
        part = one.found[0].part
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
        return by_chance(self.paths, part, one.sound, {w.level for w in one.low}, alike)

    def _most_chance(self, one: _Accused) -> float:
        """The chance below which it is confirmed."""
        nodes, sound, low = len(self.evidence.ends), one.sound, one.low
        others_low = self.paths.low_results.keys() - set(one.lows)
        for other in self.accused:
            if other.low_with_all:
                others_low -= set(other.lows)
        if nodes <= _FEW_NODES and len(low) == len(sound) and not others_low:
            return _ALL_OF_FEW if len(low) == nodes - 1 else _MOST_OF_FEW
        if len(low) > _NEARLY_ALL * len(sound):
            return FALSE_ACCUSATION
        return FALSE_ACCUSATION * (_PARTLY if self.paths.leaf_of else _PARTLY**2)

    def _other_explanation(self, one: _Accused) -> str:
        """Why static paths of the fabric may explain it as well; "" where they do not."""
        directed, leaf = self.evidence.directed, self.paths.leaf_of.get(one.ends[0])
        sent = {path[1].node for path in one.lows if path[0] in one.ends}
        received = {path[0].node for path in one.lows if path[1] in one.ends}
        if leaf is None:
            # Data to one destination takes one path from all, but those of its own leaf; and half
            # of what a leaf sends may take one uplink.
            met_most = 5 * len(one.low) >= 4 * (len(self.evidence.ends) - 1)
            many = directed and sent and (received or len(sent) >= _SENT_TO)
            if len(one.low) > _NEARLY_ALL * len(one.sound) and (met_most or many):
                return ""
            return "a partner on its own leaf: leaves are not known"
        # A path to one end is not one from it: both would have to be bad.
        enough = directed and (len(sent) > 1 or len(sent | received) > len(sent) > 0)
        if self.paths.leaves < 2 or self._is_low_at_home(one):
            return ""
        # Where routes are known, all of it may be one link.
        links = [set(links_of(self.evidence, self.paths.leaf_of, path)) for path in one.lows]
        enough = enough and not set.intersection(*links)
        return "" if enough and self._leaf_sends_well(one, leaf) else "a partner on its own leaf"

    def _is_low_at_home(self, one: _Accused) -> bool:
        """Whether it is low within its leaf more often than others are by themselves."""
        home = [witness for witness in one.sound if witness.group == "within"]
        low = sum(witness.level > 0 for witness in home)
        if 2 * low <= len(home):
            return False
        # Between leaves pairs are low as often, or more.
        others = of_others(self.paths, one.found[0].part, one.sound)
        return chance.of_as_many(low, [(others, len(home))]) < _AT_HOME

    def _leaf_sends_well(self, one: _Accused, leaf: str) -> bool:
        """Whether two other nodes of the leaf were good senders to other leaves."""
        good = {
            a.node
            for a, b in self.paths.results
            if self.paths.leaf_of[a] == leaf != self.paths.leaf_of[b] and a.node != one.part.node
            if self.paths.is_good((a, b))
        }
        return len(good) > 1
