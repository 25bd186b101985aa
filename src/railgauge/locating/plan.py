"""The next round: the pairs that best separate what is left.

Each end has at most one partner. Ends of suspects meet partners that tell a node from a pair, and
both from the fabric; all other ends meet somebody too, so that the load stays the same, and each
such pair says how often healthy ones are low.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from railgauge.locating import load, sharing
from railgauge.locating.evidence import Evidence
from railgauge.locating.judge import locate
from railgauge.locating.parts import Part, links_of
from railgauge.locating.results import End
from railgauge.locating.suspects import Located, Suspect

Pair = tuple[End, End]

#: So many pairs at most are measured besides those of suspects.
MOST_OTHERS = 128

#: One of so many results is to be within a leaf where several leaves have low pairs.
_WITHIN = 8

#: Of so many links at most, and so many pairs are looked at for each.
_MOST_LINKS, _MOST_TRIED = 16, 100_000

#: What a pair is measured for first: the kind of leaf that the partner is on. A low result between
#: two leaves is first repeated with another end of the partner's leaf, then at home.
_Kind = str


def next_round(
    evidence: Evidence,
    located: Located,
    ends: Sequence[End],
    number: int,
    across: bool = True,
    most_others: int | None = None,
) -> list[Pair]:
    """The (sender, receiver) of each pair of round `number`, of these ends.

    `across`: ends that no suspect needs meet ends of other leaves, else of their own. Of such pairs
    there are `most_others` at most.
    """
    chosen = _Plan(evidence, located, ends, number, across)
    chosen.for_suspects()
    needed = len(chosen.pairs)
    chosen.fill()
    return chosen.pairs[: None if most_others is None else needed + most_others]


class Added(NamedTuple):
    """A round that a sweep adds: of the condition with this number; `quiet`: one pair alone."""

    condition: int
    pairs: Sequence[Pair]
    quiet: bool = False


def added_round(
    conditions: Sequence[Evidence], ends: Sequence[End], number: int, left: int
) -> Added | None:
    """The round that tells most of what is open under some condition, where `left` rounds are left;
    None where nothing is open.
    """
    known = [(place, evidence, locate(evidence)) for place, evidence in enumerate(conditions)]
    unsure = [each for each in known if is_open(each[2]) or open_links(each[1], each[2])]
    if unsure:
        place, evidence, located = max(unsure, key=lambda each: len(each[2].suspects))
        crossed = sum(evidence.group(result.ends) == "between" for result in evidence.results)
        across = 2 * crossed > len(evidence.results)
        pairs = next_round(evidence, located, ends, number, across, MOST_OTHERS)
        return Added(place, pairs) if pairs else None
    for place, evidence, located in known:
        # Where each round had one pair, all were quiet.
        sizes = Counter(result.round for result in evidence.results)
        if max(sizes.values(), default=0) > 1:
            pair = quiet_pair(evidence, located, ends, left)
            if pair is not None:
                return Added(place, [pair], quiet=True)
    return None


def quiet_pair(evidence: Evidence, located: Located, ends: Sequence[End], left: int) -> Pair | None:
    """The pair to measure while all else is quiet: those of a confirmed node in turn, as long as it
    is good with them, and so often that this shows load; and once, after its first, a pair of
    others, to see what is good then.

    None where no node is at fault, or where less than the needed rounds are `left`: a few good
    results show nothing.
    """
    results, there = evidence.results, set(ends)
    quiet = [number for number, result in enumerate(results) if result.quiet]
    nodes = [suspect for suspect in located.suspects if suspect.kind in ("node", "rail")]
    guilty = {end for suspect in nodes for end in suspect.ends}
    for suspect in filter(_is_settled, nodes):
        own = set(suspect.ends)
        lows = [n for n in evidence.lows if not own.isdisjoint(results[n].ends)]
        group = {evidence.group(results[n].ends) for n in lows[:1]}
        loaded = [
            n
            for n, result in enumerate(results)
            if not result.quiet and there.issuperset(result.ends)
            if evidence.group(result.ends) in group
        ]
        known = set(loaded)
        pairs = [results[n].ends for n in lows if n in known]
        pairs = [pair for pair in pairs if guilty.isdisjoint(set(pair) - own)]
        clean = [n for n in loaded if evidence.good[n] and guilty.isdisjoint(results[n].ends)]
        done = [n for n in quiet if not own.isdisjoint(results[n].ends)]
        others = [n for n in quiet if guilty.isdisjoint(results[n].ends)]
        if not pairs or not clean or not all(evidence.good[n] for n in (*done, *others)):
            continue
        needed = load.quiet_needed(len(lows)) - len(done)
        if needed > 0 and needed + (not others) <= left:
            first = results[clean[0]].ends
            return first if done and not others else pairs[len(done) % len(pairs)]
    return None


def is_open(located: Located) -> bool:
    """Whether a suspect is left that more results under load may confirm or clear."""
    return not all(map(_is_settled, located.suspects))


def open_links(evidence: Evidence, located: Located) -> dict[Part, int]:
    """The links of known routes with more low pairs than good ones, and how many more, the worst
    first; without the pairs that a confirmed part explains. Also where no suspect is left: a
    schedule may measure all pairs that cross a link in one round, which may as well have been a bad
    moment.
    """
    if evidence.routes is None or not evidence.directed or not evidence.results:
        return {}
    confirmed = {suspect.name for suspect in located.suspects if suspect.confirmed}
    lows = {evidence.results[number].ends for number in evidence.lows}
    more_low = Counter[Part]()
    for pair in {result.ends: None for result in evidence.results}:
        links = links_of(evidence, evidence.leaf_of, pair)
        parts = {f"{link.name}:{link.spine}" for link in links}
        parts |= {name for end in pair for name in (end.name, end.node)}
        if parts.isdisjoint(confirmed):
            more_low.update(dict.fromkeys(links, 1 if pair in lows else -1))
    found = [link for link, count in more_low.items() if count > 0]
    found.sort(key=lambda link: (-more_low[link], link.name, link.spine, link.way))
    return {link: more_low[link] for link in found}


def _is_settled(suspect: Suspect) -> bool:
    """Whether it is confirmed, but for what quiet results would show."""
    return all(measure.need == "quiet" for measure in suspect.confirm)


class _Plan:
    def __init__(
        self,
        evidence: Evidence,
        located: Located,
        ends: Sequence[End],
        number: int,
        across: bool,
    ) -> None:
        evidence.judge()
        self.evidence, self.located, self.number, self.across = evidence, located, number, across
        self.leaf_of = evidence.leaf_of if evidence.results else evidence.leaves
        self.ends = ends
        self.free = dict.fromkeys(ends)
        self.pairs: list[Pair] = []
        self.open_links = open_links(evidence, located)
        #: how many of the chosen pairs take each link
        self.taken: Counter[sharing.Link] = Counter()
        #: the links of pairs that must not share them
        self.apart: set[sharing.Link] = set()
        #: Of known routes so many pairs may share a link: one where a pair is to be judged, else as
        #: many as the links carry where a fabric is not oversubscribed.
        self.most_on_link: int | None = None
        if evidence.routes is not None and evidence.directed:
            at_leaf = max(Counter(self.leaf_of.values()).values(), default=0)
            carried = max(1, at_leaf // max(evidence.routes.spines, 1))
            self.most_on_link = 1 if is_open(located) else carried
        suspected = {
            end
            for suspect in located.suspects
            for end in suspect.ends
            if suspect.kind in ("node", "rail", "pair")
        }
        #: the pairs with a low result, the newest first
        self.lows = list(dict.fromkeys(evidence.results[n].ends for n in reversed(evidence.lows)))
        low = {end for pair in self.lows for end in pair}
        #: pair of ends -> how often it was measured; end -> how often more it sent than received
        self.met: Counter[Pair] = Counter()
        self.balance: Counter[End] = Counter()
        for result in evidence.results:
            self.met[result.ends] += 1
            self.balance[result.sender] += 1
            self.balance[result.receiver] -= 1
        #: rail -> ends that are good and were never low, other ones each round, then those that are
        #: good
        self.witnesses: dict[str | None, list[End]] = {}
        for rail in {end.rail for end in ends} if located.suspects else ():
            good = [end for end in ends if end.rail == rail and end in evidence.good_ends]
            never = [end for end in good if end not in low]
            turn = number * 7 % max(len(never), 1)
            others = [end for end in good if end in low and end not in suspected]
            self.witnesses[rail] = [*never[turn:], *never[:turn], *others]

    def for_suspects(self) -> None:
        unconfirmed = [suspect for suspect in self.located.suspects if not suspect.confirmed]
        self._alone(unconfirmed)
        # Of several low pairs that cross a link, a new one there tells more than they do again.
        self._cross_links(several=True)
        for suspect in unconfirmed:
            self._for(suspect)
        self._cross_links()

    def _alone(self, suspects: Iterable[Suspect]) -> None:
        """Low pairs between leaves again, so that no two pairs of the round share a link: of a
        suspect first those with leaves with which no pair was low alone.
        """
        results = self.evidence.results
        shared = self.evidence.shared
        done = {result.ends for number, result in enumerate(results) if number not in shared}
        again = []
        for suspect in suspects:
            if any(measure.need == "alone" for measure in suspect.confirm):
                low = [pair for pair in self.lows if self._is_low_pair_of(suspect, pair)]
                known = {self.leaf_of[end] for pair in low if pair in done for end in pair}
                left = [pair for pair in low if pair not in done]
                again += sorted(left, key=lambda pair: known.issuperset(self._leaves(pair)))
        for pair in again:
            links = self.evidence.links(pair)
            if self.free.keys() >= set(pair) and not any(self.taken[link] for link in links):
                self._measure(*pair)
                self.apart.update(links)

    def _leaves(self, pair: Pair) -> set[str]:
        return {self.leaf_of[end] for end in pair}

    def _has_links(self, pair: Pair) -> bool:
        """Whether a pair may be measured by the links that other pairs take."""
        links = self.evidence.links(pair)
        most = self.most_on_link
        return self.apart.isdisjoint(links) and (
            most is None or all(self.taken[link] < most for link in links)
        )

    def _is_low_pair_of(self, suspect: Suspect, pair: Pair) -> bool:
        """Whether a low pair between leaves speaks against a pair, or a leaf's uplinks."""
        if not self.evidence.links(pair):
            return False
        if suspect.kind == "pair":
            return set(suspect.ends).issuperset(pair)
        ends = {"up": pair[:1], "down": pair[1:]}.get(suspect.direction, pair)
        return not set(suspect.ends).isdisjoint(ends)

    def _measure(self, sender: End, receiver: End) -> None:
        self.pairs.append((sender, receiver))
        self.taken.update(self.evidence.links((sender, receiver)))
        del self.free[sender], self.free[receiver]

    # ---- suspects ----

    def _for(self, suspect: Suspect) -> None:
        if suspect.kind in ("uplink", "leaf"):
            self._more_of_leaf(suspect)
            return
        is_pair, own = suspect.kind == "pair", set(suspect.ends)
        #: the low results of its ends, the newest first
        lows = [
            pair
            for pair in self.lows
            if (own.issuperset(pair) if is_pair else not own.isdisjoint(pair))
        ]
        if is_pair and any(measure.need == "pair" for measure in suspect.confirm):
            for pair in lows:
                if self.free.keys() >= set(pair) and self._has_links(pair):
                    self._measure(*pair)
            return
        needy = {measure.a for measure in suspect.confirm}
        for end in suspect.ends:
            if not is_pair or not needy.isdisjoint((end.name, end.node)):
                self._partner(suspect, end, [pair for pair in lows if end in pair])

    def _partner(self, suspect: Suspect, end: End, own: Sequence[Pair]) -> None:
        """Give an end the partner that tells most: in the part in which it was low."""
        if end not in self.free or not own:
            return
        sends = self._sends(suspect, end, own)
        if any(measure.need == "home" for measure in suspect.confirm):
            self._meet(end, own, sends, ["home"])
        if end in self.free:
            is_node = suspect.kind != "pair"
            kinds = self._kinds(end, own, is_node)
            self._meet(end, own, sends, kinds, is_node and not suspect.only_as)

    def _meet(
        self,
        end: End,
        own: Sequence[Pair],
        sends: bool,
        kinds: Sequence[_Kind],
        both_ways: bool = False,
    ) -> None:
        """Give an end a partner of the kind that it has met the least in this part. A fault in
        `both_ways` shows in the other part too, where a new node is a whole witness; one that was
        met already is half a witness.
        """
        tested = Counter(
            kind
            for a, b in self.met
            if end == (a if sends else b)
            for kind in kinds
            if self._is_of(kind, end, b if sends else a, own)
        )
        # The low result itself was with one of the same leaf.
        tested["same"] -= 1
        orders = sorted(kinds, key=lambda kind: (kind == "any", tested[kind]))
        new = [(True, sends), (True, not sends)] if both_ways else []
        for (is_new, out), kind in itertools.product([*new, (False, sends)], orders):
            for partner in self.witnesses.get(end.rail, ()):
                pair = (end, partner) if out else (partner, end)
                fits = partner in self.free and partner.node != end.node and self._has_links(pair)
                met = self.met[pair] or (is_new and self.met[pair[1], pair[0]])
                if fits and not met and self._is_of(kind, end, partner, own):
                    self._measure(*pair)
                    return

    def _sends(self, suspect: Suspect, end: End, own: Sequence[Pair]) -> bool:
        """Whether an end is to send: as it was low; of a node or rail that was low each time, in
        the part that it had less often.
        """
        if suspect.kind in ("node", "rail") and not suspect.only_as:
            parts = Counter(end == a for a, b in self.met if end in (a, b))
            if parts[True] != parts[False] and min(parts[True], parts[False]) < 2:
                return parts[True] < parts[False]
        low = Counter(end == a for a, _ in own)
        return low[True] > low[False] or (low[True] == low[False] and self.number % 2 == 0)

    def _kinds(self, end: End, own: Sequence[Pair], is_node: bool) -> list[_Kind]:
        """The kinds of partners that tell most: of the leaf of a partner with which it was low, of
        its own leaf, and of others. A node is told from the paths to it by one of its own leaf.
        """
        leaf = self.leaf_of.get(end)
        if leaf is None:
            return ["any"]
        if all(self.leaf_of.get(other) == leaf for pair in own for other in pair):
            return ["home", "any"]
        if is_node:
            return ["home", "other", "same", "any"]
        return ["same", "home", "other", "any"]

    def _is_of(self, kind: _Kind, end: End, partner: End, own: Iterable[Pair]) -> bool:
        if kind == "any":
            return True
        leaf = self.leaf_of.get(partner)
        if kind == "home":
            return leaf == self.leaf_of.get(end)
        low = {self.leaf_of.get(other) for pair in own for other in pair if other != end}
        return (leaf in low) == (kind == "same") and leaf != self.leaf_of.get(end)

    def _more_of_leaf(self, suspect: Suspect) -> None:
        """More paths of a leaf in the suspect direction. The destinations that were low meet
        senders of third leaves, and of their own: so what leaves one leaf is told from what enters
        another.
        """
        # A spine, or a rail of many leaves, is at no one leaf.
        leaves_of = {self.leaf_of.get(end) for end in suspect.ends}
        name = leaves_of.pop() if len(leaves_of) == 1 else None
        own = {end for end in self.ends if name and self.leaf_of.get(end) == name}
        lows = [
            pair
            for number in self.evidence.lows
            if not own.isdisjoint(pair := self.evidence.results[number].ends)
        ]
        for sender, receiver in dict.fromkeys(lows):
            if receiver in self.free:
                leaves = {self.leaf_of.get(a) for a, b in self.met if b == receiver}
                third = bool(leaves - {self.leaf_of.get(sender), self.leaf_of.get(receiver)})
                home = suspect.direction == "up" or self.leaf_of.get(receiver) in leaves
                first = ["other"] * (not third) + ["home"] * (not home)
                self._meet(receiver, [(sender, receiver)], False, first or ["same", "other"])
        others = [end for end in self.free if self.leaf_of.get(end) not in (name, None)]
        sent = sum(sender in own for sender, _ in set(lows))
        up = suspect.direction == "up" or (not suspect.direction and 3 * sent >= 2 * len(set(lows)))
        down = suspect.direction == "down" or (not suspect.direction and 3 * sent <= len(set(lows)))
        for place, end in enumerate([end for end in self.free if end in own]):
            for other in others:
                pair = (other, end) if down or (not up and place % 2 == 0) else (end, other)
                fits = other in self.free and other.rail == end.rail and not self.met[pair]
                if fits and self._has_links(pair):
                    self._measure(*pair)
                    break

    # ---- links of known routes ----

    def _cross_links(self, several: bool = False) -> None:
        """Where routes are known: a new pair over each link that may be at fault, in its direction,
        and over no other such link. So the links of a low pair are told from each other. Or only
        over links of `several` low pairs.
        """
        links = [link for link, count in self.open_links.items() if count > (1 if several else 0)]
        low = Counter(end for pair in self.lows for end in pair)
        for link in links[:_MOST_LINKS]:
            near = [end for end in self.free if self.leaf_of.get(end) == link.name]
            # Other ends than those that are low already tell the link from them.
            near.sort(key=lambda end: low[end])
            far = self._in_turn(end for end in self.free if self.leaf_of.get(end) != link.name)
            others = set(links) - {link}
            for one, other in itertools.islice(itertools.product(near, far), _MOST_TRIED):
                pair = (one, other) if link.way == "send" else (other, one)
                if one.rail != other.rail or one.node == other.node or self.met[pair]:
                    continue
                crossed = links_of(self.evidence, self.leaf_of, pair)
                fits = link in crossed and others.isdisjoint(crossed)
                if fits and self._has_links(pair):
                    self._measure(*pair)
                    break

    def _in_turn(self, ends: Iterable[End]) -> list[End]:
        """The ends, one of each leaf in turn: a link is confirmed by two other leaves."""
        leaves: dict[str | None, list[End]] = {}
        for end in ends:
            leaves.setdefault(self.leaf_of.get(end), []).append(end)
        turns = itertools.zip_longest(*leaves.values())
        return [end for turn in turns for end in turn if end is not None]

    # ---- all others ----

    def fill(self) -> None:
        """Pair the free ends, rail by rail, with ends that they have not met. Where a suspect meets
        another leaf, so do they: it needs others to be compared with.
        """
        across = self.across or any(
            self.leaf_of.get(one) != self.leaf_of.get(other) for one, other in self.pairs
        )
        if self.most_on_link is None and (self._suspects_fabric or self._few_within):
            # Flows of other leaves would meet on links, and be low as well.
            across = False
        if across and self.most_on_link is not None:
            self._match_links()
            across = False
        rails: dict[str | None, list[End]] = {}
        for end in self.ends:
            if end in self.free:
                rails.setdefault(end.rail, []).append(end)
        for ends in rails.values():
            if across or not self.leaf_of:
                self._match(sorted(ends, key=lambda end: self.leaf_of.get(end, "")))
            ends = [end for end in ends if end in self.free]
            leaves: dict[str, list[End]] = {}
            for end in ends:
                leaves.setdefault(self.leaf_of.get(end, ""), []).append(end)
            for of_leaf in leaves.values():
                self._match(of_leaf)

    @property
    def _suspects_fabric(self) -> bool:
        suspects = self.located.suspects
        return any(s.kind in ("leaf", "uplink") and not s.confirmed for s in suspects)

    @property
    def _few_within(self) -> bool:
        """Whether pairs of several leaves are low, and nearly none was measured within a leaf: what
        is at fault may be the fabric, or the nodes.
        """
        group = self.evidence.group
        groups = Counter(group(result.ends) for result in self.evidence.results)
        low = {
            self.leaf_of.get(end) for pair in self.lows if group(pair) == "between" for end in pair
        }
        return len(low) > 2 and _WITHIN * groups["within"] < groups["between"]

    def _match_links(self) -> None:
        """Pair free ends with those of other leaves, so that no two pairs share a link."""
        ends = [end for end in self.ends if end in self.free]
        turn = self.number * 7 % max(len(ends), 1)
        tried = 0
        for one in ends:
            for other in ends[turn:] + ends[:turn]:
                if one not in self.free or tried == _MOST_TRIED:
                    break
                tried += 1
                if other not in self.free or one.rail != other.rail or one.node == other.node:
                    continue
                if self.leaf_of.get(one) == self.leaf_of.get(other):
                    continue
                for pair in ((one, other), (other, one)):
                    if not self.met[pair] and self._has_links(pair):
                        self._measure(*pair)
                        break

    def _match(self, ends: list[End]) -> None:
        """Each with one half of all away, in every round another one that it has not met yet."""
        half = len(ends) // 2
        leaves = len({self.leaf_of.get(end) for end in ends})
        step = 2 * half // leaves + 1 if leaves > 1 else 1
        first, second = ends[:half], ends[half:]
        for tried in range(min(len(second), 8)):
            turn = (self.number * step + tried) % len(second)
            pairs = list(zip(first, second[turn:] + second[:turn]))
            if tried == 7 or not any(self.met[p] or self.met[p[1], p[0]] for p in pairs):
                break
        for one, other in pairs if half else ():
            if one.node != other.node:
                sends = (self.balance[one], other.order) <= (self.balance[other], one.order)
                pair = (one, other) if sends else (other, one)
                if self._has_links(pair):
                    self._measure(*pair)
