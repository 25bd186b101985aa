"""What a sweep of pairs measures by itself, for simulations: the rounds of its schedule, and then
those that `railgauge.locating.plan` adds, as the conductor does
(`railgauge.node.orchestration.rounds`).

Every node has one end: of several rails each has pairs, and rounds, of its own. A pair is bad that
failed, or is slower than a partition's `peer_spread` allows next to the listed ones; and the
evidence has the spread of a campaign's verdict (`railgauge.verdict.location.from_campaign`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from railgauge.checks.framework import pairing, schedule
from railgauge.checks.framework.cases import PairCase
from railgauge.locating import End, Evidence, Result, Routes, plan
from railgauge.locating.peers import GOOD
from railgauge.model.leaves import Leaves
from railgauge.model.measurement import STANDS_OUT
from railgauge.node.orchestration import interface_rate
from railgauge.systems import Sweep
from railgauge.systems.schema import Extras, Schedule

#: The results of the pairs of a round, in their order: the sender's end first.
Measure = Callable[[list[tuple[End, End]], int], Sequence[Result]]

#: By default: what equal places differ by in one run, as a share, and what a pair lacks of its
#: peers' rate to be measured again.
SPREAD = float(Extras.model_fields["peer_spread"].default)
SLOWER = round(STANDS_OUT * SPREAD, 3)


def sweep(
    measure: Measure,
    leaf_of: Mapping[End, str],
    name: Schedule,
    most: int | None = None,
    routes: Routes | None = None,
) -> tuple[Evidence, int]:
    """All that a sweep of this schedule measures, as the verdict has it, and its rounds; at `most`
    so many are added, or as many as a partition has by default, by the `routes` if there are any.
    """
    ends = {end.node: end for end in leaf_of}
    leaves = Leaves({end.node: leaf for end, leaf in leaf_of.items()})
    settings = Sweep(schedule=name, **({} if most is None else {"locate_rounds": most}))
    cases = [PairCase("p", *pair) for pair in pairing.pairs(list(ends), leaves, settings)]
    #: what is compared with each other -> the listed results, and those that were added
    listed: dict[object, list[Result]] = {}
    added: dict[object, list[Result]] = {}
    number = 0
    for members in schedule.rounds(cases, settings, leaves):
        of_round = [cases[place] for place in members]
        results = measure([(ends[case.client], ends[case.server]) for case in of_round], number)
        for case, result in zip(of_round, results, strict=True):
            listed.setdefault(schedule.within(case, leaves), []).append(result)
        number += 1
    for tried in range(1, settings.locate_rounds + 1):
        conditions = [
            _good_or_not(listed[key], added.get(key, ()), leaf_of, routes) for key in listed
        ]
        left = settings.locate_rounds - tried + 1
        more = plan.added_round(conditions, list(ends.values()), tried, left)
        if more is None:
            break
        key = list(listed)[more.condition]
        added.setdefault(key, []).extend(
            result._replace(quiet=more.quiet) for result in measure(list(more.pairs), number)
        )
        number += 1
    evidence = Evidence(leaf_of, SPREAD / GOOD, STANDS_OUT * SPREAD, directed=True, routes=routes)
    for key in listed:
        evidence.add([*listed[key], *added.get(key, ())])
    return evidence, number


def _good_or_not(
    listed: Sequence[Result],
    added: Sequence[Result],
    leaf_of: Mapping[End, str],
    routes: Routes | None,
) -> Evidence:
    """What the conductor knows: whether each pair is good next to those of the list."""
    bound = interface_rate.bound([result.value for result in listed], SLOWER)
    evidence = Evidence(leaf_of, directed=True, routes=routes)
    evidence.add(
        result._replace(value=1.0 if result.value and result.value >= bound else None)
        for result in (*listed, *added)
    )
    return evidence
