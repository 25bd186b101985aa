"""What a sweep of pairs measures by itself, for simulations: the rounds of its schedule, and then
those that `railgauge.node.retest` chooses, as the conductor adds them (`railgauge.node.rounds`).

Every node has one end: of several rails each has pairs, and rounds, of its own. A pair is bad that
failed, or is slower than a partition's `peer_spread` allows beside the listed ones; and the
evidence has the spread of a campaign's verdict (`railgauge.verdict.locating.campaign`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from railgauge.checks import pairing, schedule
from railgauge.checks.cases import PairCase
from railgauge.model.leaves import Leaves
from railgauge.model.measurement import STANDS_OUT
from railgauge.node import carried, retest
from railgauge.systems import Sweep
from railgauge.systems.schema import Extras, Schedule
from railgauge.verdict.locating import End, Evidence, Observation, scoring

#: The results of the places of a round, in their order: the server's end first.
Measure = Callable[[list[tuple[End, End]], int], Sequence[Observation]]

#: By default: what equal places differ by in one run, as a share, and what a pair lacks of its
#: peers' rate to be measured again.
SPREAD = float(Extras.model_fields["peer_spread"].default)
SLOWER = round(STANDS_OUT * SPREAD, 3)


def sweep(
    measure: Measure, leaf_of: Mapping[End, str], name: Schedule, most: int | None = None
) -> tuple[Evidence, int]:
    """All that a sweep of this schedule measures, as the verdict has it, and its rounds; at `most`
    so many are added, or as many as a partition has by default.
    """
    ends = {end.node: end for end in leaf_of}
    leaves = Leaves({end.node: leaf for end, leaf in leaf_of.items()})
    settings = Sweep(schedule=name, **({} if most is None else {"locate_rounds": most}))
    cases = [PairCase("p", *pair) for pair in pairing.pairs(list(ends), leaves, settings)]
    listed: list[Observation] = []
    #: the number of a place of the list -> what is compared with it
    within: list[object] = []
    #: the same -> who was measured as like its places
    added: dict[object, list[tuple[int, Observation]]] = {}
    #: the same, of pairs that were measured while all else was quiet
    quiet: dict[object, list[tuple[int, Observation]]] = {}
    number = 0
    #: the numbers of the places of each round
    of_rounds: list[range] = []
    for members in schedule.rounds(cases, settings, leaves):
        of_round = [cases[place] for place in members]
        within += [schedule.within(case, leaves) for case in of_round]
        of_rounds.append(range(len(listed), len(listed) + len(of_round)))
        listed += measure([(ends[case.server], ends[case.client]) for case in of_round], number)
        number += 1
    for left in range(settings.locate_rounds, 0, -1):
        met = [_met(listed, within, key, added.get(key, ())) for key in dict.fromkeys(within)]
        again = retest.choose(met, list(ends), leaves.of_node)
        kept = added
        if not again:
            kept = quiet
            alone = [
                one
                for key in dict.fromkeys(within)
                for one in _met(listed, within, key, quiet.get(key, ()))[within.count(key) :]
            ]
            pair = retest.quiet_pair(itertools.chain(*met), alone, list(ends), leaves.of_node, left)
            again = [pair] if pair is not None else []
        if not again:
            break
        beside = []
        if kept is added:
            of = within[again[0].like]
            of_round = max((r for r in of_rounds if any(within[n] == of for n in r)), key=len)
            beside = _beside(again, listed, of_round, list(ends), leaves.of_node)
        places = [(ends[one.server], ends[one.client]) for one in (*again, *beside)]
        for one, observation in zip(again, measure(places, number), strict=False):
            observation = observation._replace(quiet=kept is quiet)
            kept.setdefault(within[one.like], []).append((one.like, observation))
        number += 1
    evidence = Evidence(leaf_of, SPREAD / scoring.GOOD, STANDS_OUT * SPREAD, directed=True)
    more = itertools.chain(*added.values(), *quiet.values())
    evidence.add([*listed, *(observation for _, observation in more)])
    return evidence, number


def _beside(
    again: Sequence[retest.Again],
    listed: Sequence[Observation],
    of_round: Sequence[int],
    there: Sequence[str],
    leaves: Mapping[str, str],
) -> list[retest.Again]:
    """The pairs that keep the others busy, as `railgauge.node.rounds` chooses them."""
    met = [
        retest.Met(n, listed[n].a.node, listed[n].b.node, bool(listed[n].value)) for n in of_round
    ]
    well = {end.node for o in listed if o.value for end in (o.a, o.b)}
    return retest.beside(again, met, lambda _: "", [n for n in there if n in well], leaves)


def _met(
    listed: Sequence[Observation],
    within: Sequence[object],
    key: object,
    added: Sequence[tuple[int, Observation]],
) -> list[retest.Met]:
    """Who met whom under a condition, and whether that was good beside those of the list."""
    first = [(like, o) for like, o in enumerate(listed) if within[like] == key]
    bound = carried.bound([o.value for _, o in first], SLOWER)
    return [
        retest.Met(like, o.a.node, o.b.node, o.value is not None and o.value >= bound)
        for like, o in (*first, *added)
    ]
