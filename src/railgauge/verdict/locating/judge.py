"""Makes suspects of what explains the low results: confirmed or not, and what would confirm it.

A node or rail is confirmed when it is low with two partners that are good with others: in two
rounds where these are known, and where leaves are known, not only on ways that one bad uplink
explains. A pair is confirmed when it is low every time, six times, and both its ends are good
elsewhere, four times (an end that is bad now and then is low twice with one partner soon enough).
Each is confirmed only when its score reaches the bar (`scoring`), and an end that is good as well
only when that many low results are no chance beside the others'. For a single bad result the pair
is named, unconfirmed, with what would confirm it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import scipy

from railgauge.model.uplinks import leaf_of
from railgauge.node import retest
from railgauge.node.rdma import natural
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import Evidence
from railgauge.verdict.locating.explain import (
    MOST_RAILS,
    Explanation,
    Part,
    explain,
    passes_of,
    score,
    surprise,
)
from railgauge.verdict.locating.fabric import gatherings, of_rails, planes
from railgauge.verdict.locating.results import End, Low, pair_of
from railgauge.verdict.locating.suspects import Located, Measure, Suspect, Witness
from railgauge.verdict.locating.uplinks import Gathering

#: The most results that are named as evidence, of either kind.
_MOST_NAMED = 8

#: A pair is confirmed where an end at fault a fifth of the time would be low with the other end
#: alone with no more than this probability.
_NOT_AN_END = 1e-3

#: How often both ends of a pair must be good with others: a part with a small loss is now and then.
ENOUGH_GOOD = 4


def locate(evidence: Evidence) -> Located:
    """The suspects by all results so far."""
    fabric = planes(evidence)
    for find in (of_rails, gatherings):
        fabric += find(evidence, {low for gathering in fabric for low in gathering.lows})
    gathered = {low for gathering in fabric for low in gathering.lows}
    lows = [low for low in evidence.lows if low not in gathered]
    explanations, most = explain(evidence, lows)
    judge = _Judge(evidence, lows, explanations, most)
    suspects = [*(_of_fabric(evidence, gathering) for gathering in fabric), *judge.suspects()]
    suspects.sort(key=lambda s: (not s.confirmed, -s.score, natural(s.name)))
    ends = {end for suspect in suspects for end in suspect.ends}
    watched = {
        end: evidence.stands[end].good
        for low in lows
        for end in ((low.a,) if low.event else (low.a, low.b))
        if end not in ends and (low not in judge.named_lows or not evidence.stands[end].good)
    }
    return Located(
        tuple(suspects),
        tuple(evidence.missing),
        evidence.rounds,
        tuple(evidence.nodes),
        tuple(dict.fromkeys(evidence.alike)),
        watched,
        tuple(judge.doubtful),
        min((stand.good for end, stand in evidence.stands.items() if end not in ends), default=0),
        tuple(evidence.cleared),
        tuple(evidence.unjudged),
    )


class _Judge:
    """Makes suspects of explanations."""

    def __init__(
        self,
        evidence: Evidence,
        lows: Sequence[Low],
        explanations: Sequence[Explanation],
        most: float,
    ) -> None:
        self.evidence = evidence
        self.lows = lows
        self.most = most
        self.parts: dict[Part, list[Low]] = {}
        #: the low results that suspects explain
        self.named_lows: set[Low] = set()
        #: pairs of ends that were low with each other and never good, which names nobody yet
        self.doubtful: list[tuple[End, End]] = []
        explained: set[Low] = set()
        for explanation in explanations:
            part = explanation.part
            if explanation.certain and self._has_partners(part, explanation.lows):
                self.parts[part] = list(explanation.lows)
                explained.update(explanation.lows)
        for low in lows:
            if low not in explained and not low.event:
                self.parts.setdefault(Part("pair", pair_of(*low.nodes)), []).append(low)
        self._merge_rails()
        self.accused = {
            end for part in self.parts if part.kind != "pair" for end in self._ends(part)
        }

    def _has_partners(self, part: Part, lows: Sequence[Low]) -> bool:
        """Whether a part is low with two partners, or its own counters say so in two rounds."""
        if part.kind == "pair":
            return True
        partners = {_other(low, part.nodes[0]).node for low in lows if not low.event}
        return len(partners) > 1 or len({low.round for low in lows if low.event}) > 1

    def _stands_out(self, low: Low) -> bool:
        """Whether a run failed, or is too low to be so by chance among all of them."""
        return low.chance * len(self.evidence.observations) < scoring.FALSE_MENTION

    def _merge_rails(self) -> None:
        """Replace several rails of a node, and more than half of its measured ones, by the node."""
        rails: dict[str, list[Part]] = {}
        for part in self.parts:
            if part.kind == "rail":
                rails.setdefault(part.nodes[0], []).append(part)
        for node, parts in rails.items():
            if len(parts) > 1 and len(parts) > MOST_RAILS * len(self.evidence.ends[node]):
                lows = {low: None for part in parts for low in self.parts.pop(part)}
                self.parts[Part("node", (node,))] = list(lows)

    def suspects(self) -> Iterable[Suspect]:
        passes = passes_of(self.evidence, self.parts)
        for part, lows in self.parts.items():
            if part.kind == "pair" and passes[part].count and not self._twice(lows):
                # It was measured again, and was good.
                continue
            part_count = {
                "node": len(self.evidence.ends),
                "rail": len(self.evidence.stands),
                "pair": len(self.evidence.observations),
            }[part.kind]
            reached = score(lows, passes[part], self.most)
            rarity = max(reached, surprise(lows, passes[part]))
            if any(map(self._stands_out, lows)) or rarity >= scoring.bar(
                part_count, scoring.FALSE_MENTION
            ):
                self.named_lows.update(lows)
                yield self._suspect(part, lows, passes[part].count, reached, part_count)
            elif part.kind == "pair":
                self.doubtful += {(low.a, low.b): None for low in lows}

    def _suspect(
        self, part: Part, lows: Sequence[Low], passed: int, reached: float, part_count: int
    ) -> Suspect:
        confirm = self._confirm(part, lows, passed)
        if not confirm and reached < scoring.bar(part_count):
            confirm = self._again(
                part, f"the score is {reached:.1f} of {scoring.bar(part_count):.1f}"
            )
        if not confirm and self._may_be_chance(part, lows, part_count):
            confirm = self._again(part, "more rounds: so few low results may come by themselves")
        kind: Any = part.kind
        missed = self._missed_when_quiet(part, lows)
        if missed is not None and missed < retest.BY_CHANCE:
            kind = "load"
        elif missed is not None and not confirm and not self._added_all(part, lows):
            confirm = self._again(
                part, "while all else is quiet: it was good then, too rarely to tell"
            )
        return Suspect(
            kind,
            part.name,
            reached,
            part.nodes,
            self._ends(part),
            tuple(self._witnesses(part, lows)),
            tuple(confirm),
            only_as=self._only_as(part, lows),
        )

    def _may_be_chance(self, part: Part, lows: Sequence[Low], part_count: int) -> bool:
        """Whether the low results of a node or rail whose ends are good as well may have come by
        themselves: by the chance that some part has as many (the bound C(m, k) p^k of the binomial
        tail), if as large a share of its results comes so as of those of the others, of which
        nothing explains the low ones; one more, as few results say little of that. Of a dozen nodes
        two have soon one end in common.

        One that is low one way only was never good in that part, as one that was never good at all:
        with the one more, no such fault of 16 nodes would be confirmed by three low results.
        """
        if part.kind == "pair" or any(low.event for low in lows) or self._only_as(part, lows):
            return False
        node = part.nodes[0]
        ends = {end for low in lows for end in (low.a, low.b) if end.node == node}
        good = sum(self.evidence.stands[end].count for end in ends)
        own = sum(self.evidence.stands[end].count for end in self.evidence.ends[node]) + len(lows)
        others_low = sum(node not in low.nodes for low in self.by_themselves)
        rate = (others_low + 1) / (len(self.evidence.observations) - own + 1)
        chance = math.comb(good + len(lows), len(lows)) * min(rate, 1.0) ** len(lows)
        return bool(good) and chance * part_count >= scoring.FALSE_ACCUSATION

    @functools.cached_property
    def by_themselves(self) -> frozenset[Low]:
        """The low results that no node or rail explains."""
        return frozenset(
            low for part, lows in self.parts.items() if part.kind == "pair" for low in lows
        )

    def _only_as(self, part: Part, lows: Sequence[Low]) -> Literal["", "server", "client"]:
        """The part in which alone a node or rail was low, where it was good in the other one only;
        "" where that is not so, or not known.
        """
        if part.kind == "pair" or not self.evidence.directed:
            return ""
        ends = self._ends(part)
        served = {low.a in ends for low in lows if not low.event}
        stands = [self.evidence.stands[end] for end in ends]
        good, as_server = sum(s.good for s in stands), sum(s.good_as_server for s in stands)
        if served == {True} and good and not as_server:
            return "server"
        return "client" if served == {False} and as_server and good == as_server else ""

    def _ends(self, part: Part) -> tuple[End, ...]:
        if part.kind == "rail":
            return (End(part.nodes[0], part.rail),)
        if part.kind == "node":
            return tuple(self.evidence.ends[part.nodes[0]])
        return tuple(
            dict.fromkeys(
                end for low in self.parts[part] for end in sorted((low.a, low.b), key=_order)
            )
        )

    def _twice(self, lows: Sequence[Low]) -> bool:
        return len({low.round for low in lows}) > 1

    def _confirm(self, part: Part, lows: Sequence[Low], passed: int) -> list[Measure]:
        """The places that would confirm or clear a part; none where all conditions are met."""
        if part.kind == "pair":
            ends = self._ends(part)
            unknown = [end for end in ends if not self._is_clean(end, part.nodes)]
            # What is between them is bad every time; an end may be bad now and then.
            why = "a partner that is good" if unknown else "the pair was good, too"
            if unknown or passed:
                return [
                    Measure(end.name, self._clean(end, part.nodes), why) for end in unknown or ends
                ]
            again = len({low.round for low in lows}) - 1
            if scoring.SHARE_OF_TIME**again > _NOT_AN_END:
                return self._again(part, "the pair once more")
            rarely = [e for e in ends if self.evidence.stands[e].good < ENOUGH_GOOD]
            if rarely:
                why = f"good {ENOUGH_GOOD} times with others"
                return [Measure(end.name, self._clean(end, part.nodes), why) for end in rarely]
            otherwise = [end for end in ends if not self._is_good_alike(end, lows)]
            why = "good with others as server, or as client, as it was low"
            return [Measure(end.name, self._clean(end, part.nodes), why) for end in otherwise]
        node = part.nodes[0]
        convicting = [
            low for low in lows if not low.event and self._is_clean(_other(low, node), (node,))
        ]
        partners = {_other(low, node).node for low in convicting}
        events = {low.round for low in lows if low.event}
        if len(partners) + len(events) < 2:
            return self._again(part, "a partner that is good with others")
        if not events and not self._is_own(part, convicting):
            return self._again(part, "a partner at its own leaf")
        return [] if self._twice(lows) else self._again(part, "another round")

    def _is_good_alike(self, end: End, lows: Sequence[Low]) -> bool:
        """Whether an end was good in any way in which it was low: as server or client, where that
        is known; and, where some leaves are known and some are not, over as many leaves.
        """
        directed, leaves = self.evidence.directed, self.evidence.leaves
        in_part = bool(leaves) and not all(each in leaves for each in self.evidence.stands)

        def way(serves: bool, crosses: bool | None) -> tuple[bool, bool | None]:
            return directed and serves, crosses if in_part else None

        low_ways = {
            way(low.a == end, self.evidence.crosses(low)) for low in lows if end in (low.a, low.b)
        }
        return any(way(*each) in low_ways for each in self.evidence.stands[end].good_ways)

    def _is_own(self, part: Part, lows: Sequence[Low]) -> bool:
        """Whether the uplinks of its leaf do not explain it: that they are bad so often is unlikely
        by the rate of other ends (the bound C(m, k) p^k of the binomial tail), and so is it that
        results within the leaf were low by chance. Few others say little of the rate p: it is any
        that they may have, by its Beta distribution (A. Gelman et al.: Bayesian Data Analysis, 3rd
        edition, 2.4).
        """
        crossed = [low for low in lows if self.evidence.crosses(low)]
        if not crossed:
            return True
        ends = self._ends(part)
        leaf = self.evidence.leaves[ends[0]]
        stands = [self.evidence.stands[end] for end in ends]
        own_results = len(lows) + sum(stand.count for stand in stands)
        own_crossed = len(crossed) if any(stand.good for stand in stands) else 0
        low = max(self.at_times[leaf] - own_crossed, 0)
        good = max(self.evidence.across[leaf].all - own_results - low, 1)
        of_rate = scipy.special.betaln(low + 1 + len(crossed), good + 1) - scipy.special.betaln(
            low + 1, good + 1
        )
        chance = math.comb(own_results, len(crossed)) * math.exp(of_rate)
        for other in lows:
            if other not in crossed:
                chance *= max(other.chance, scoring.TRANSIENT)
        return chance * self._as_likely(leaf, len(crossed)) < scoring.FALSE_ACCUSATION

    def _as_likely(self, leaf: str, count: int) -> float:
        """How many ends might as well have been low so often over the uplinks of their leaf: those
        of this leaf, and of others as their rates are beside its. A spine makes all leaves lossy.
        """
        across = self.evidence.across
        rates = {name: self.at_times[name] / tally.all for name, tally in across.items()}
        here = max(rates[leaf], 1 / across[leaf].all)
        alike = sum(min(rate / here, 1.0) ** count for name, rate in rates.items() if name != leaf)
        return len(self.evidence.stands) / len(across) * (1 + alike)

    @functools.cached_property
    def at_times(self) -> Counter[str]:
        """Leaf -> its number of low results with other leaves, of ends that are good at times."""
        counts: Counter[str] = Counter()
        for low in self.evidence.lows:
            stands = [self.evidence.stands[end] for end in (low.a, low.b)]
            if not low.event and self.evidence.crosses(low) and all(s.good for s in stands):
                counts.update((self.evidence.leaves[low.a], self.evidence.leaves[low.b]))
        return counts

    def _again(self, part: Part, why: str) -> list[Measure]:
        if part.kind == "pair":
            return [Measure(part.nodes[0], part.nodes[1], why)]
        met = {node for low in self.parts[part] for node in low.nodes}
        return [Measure(part.name, self._clean(self._ends(part)[0], met), why)]

    def _is_clean(self, end: End, without: Sequence[str]) -> bool:
        """Whether an end is good with another node than these, and not accused itself."""
        return end not in self.accused and _good(self.evidence, end, without)

    def _clean(self, end: End, without: Iterable[str]) -> str:
        """The name of a partner of the same rail that is good and was never low, at the same leaf
        if possible; words where there is none.
        """
        excluded = {end.node, *without}
        leaf = self.evidence.leaves.get(end)
        for key in ((end.rail, leaf), (end.rail, None)):
            for other in self.clean.get(key, ()):
                if other.node not in excluded:
                    return other.name
        return "one that is good with others"

    @functools.cached_property
    def clean(self) -> dict[tuple[str | None, str | None], list[End]]:
        """The ends that are good and were never low, by rail and leaf, and by rail alone."""
        low = {end for result in self.lows for end in (result.a, result.b)}
        clean: dict[tuple[str | None, str | None], list[End]] = {}
        for end in self.evidence.stands:
            if end not in low and self._is_clean(end, ()):
                for leaf in {self.evidence.leaves.get(end), None}:
                    clean.setdefault((end.rail, leaf), []).append(end)
        return clean

    def _added_all(self, part: Part, lows: Sequence[Low]) -> bool:
        """Whether a sweep has added all results of its ends while all else was quiet. Too few of
        them, where it broke off, tell no load, and make no certain fault a doubtful one.
        """
        ends = {end for low in lows for end in (low.a, low.b) if end.node in part.nodes}
        return self.evidence.added >= ends

    def _missed_when_quiet(self, part: Part, lows: Sequence[Low]) -> float | None:
        """The chance that a fault which comes and goes was away each time that all else was quiet,
        where each end was measured so and always good, of the end where it is likeliest; None where
        not.
        """
        if any(low.quiet or low.event for low in lows):
            return None
        low_count = Counter(end for low in lows for end in (low.a, low.b) if end.node in part.nodes)
        chances = []
        for end, low_here in low_count.items():
            stand = self.evidence.stands[end]
            if not stand.quiet or stand.quiet_good < stand.quiet:
                return None
            chances.append(retest.away(low_here, low_here + stand.count, stand.quiet))
        return max(chances, default=None)

    def _witnesses(self, part: Part, lows: Sequence[Low]) -> Iterable[Witness]:
        yield from _convicting(self.evidence, lows)
        partners = {
            end: None
            for low in lows
            if not low.event
            for end in (low.a, low.b)
            if part.kind == "pair" or end.node not in part.nodes
        }
        clears = {
            next((n for node, n in good.items() if node not in part.nodes), None): None
            for good in (self.evidence.stands[end].good_with for end in partners)
        }
        for number in [n for n in clears if n is not None][:_MOST_NAMED]:
            yield _witness(self.evidence, number, "clears")


def _convicting(evidence: Evidence, lows: Iterable[Low]) -> Iterable[Witness]:
    """The strongest low results, each once: it is one of either of its ends."""
    strongest = sorted(lows, key=lambda low: -low.always)
    once = {(low.number, low.event): None for low in strongest}
    for number, event in list(once)[:_MOST_NAMED]:
        yield _witness(evidence, number, "counter" if event else "convicts")


def _of_fabric(evidence: Evidence, gathering: Gathering) -> Suspect:
    leaf = leaf_of(gathering.name)
    known = gathering.ends or [end for end, name in evidence.leaves.items() if name == leaf]
    # Of a rail that is low everywhere the leaf may not be known.
    ends = tuple(known) or tuple(dict.fromkeys(e for low in gathering.lows for e in low[1:3]))
    return Suspect(
        gathering.kind,
        gathering.name,
        gathering.score,
        tuple(sorted({end.node for end in ends}, key=natural)),
        ends,
        tuple(_convicting(evidence, gathering.lows)),
        () if gathering.confirmed else tuple(_to_confirm(gathering)),
    )


def _to_confirm(gathering: Gathering) -> Iterable[Measure]:
    for way in gathering.instead:
        part = "server" if way.serves else "client"
        why = f"as {part}, in which part it may be slow itself"
        yield Measure(way.end.name, "nodes of its leaf", why)
    yield Measure(gathering.name, gathering.confirm, "another round")


def _witness(
    evidence: Evidence, number: int, says: Literal["convicts", "clears", "counter"]
) -> Witness:
    o = evidence.observations[number]
    return Witness(o.a.name, o.b.name, o.round, o.value, evidence.expected[number], says)


def _good(evidence: Evidence, end: End, without: Sequence[str]) -> bool:
    return any(partner not in without for partner in evidence.stands[end].good_with)


def _other(low: Low, node: str) -> End:
    return low.b if low.a.node == node else low.a


def _order(end: End) -> tuple[object, ...]:
    return end.order
