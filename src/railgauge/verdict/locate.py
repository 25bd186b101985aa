"""Who is at fault in a campaign: the one rule, for the verdict, the gate and `railgauge locate`.

What a failure says by itself is evidence of its kind (`own`). Every other value or failure between
two nodes is judged by the engine (`locating`), each check and kind for itself. Whoever measured
nothing accuses nobody.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from railgauge.node.rdma import natural
from railgauge.verdict import locating, own
from railgauge.verdict.compare import Case
from railgauge.verdict.locating import Located, Suspect, campaign, scoring
from railgauge.verdict.locating.campaign import Family, Leaves
from railgauge.verdict.locating.suspects import Measure

#: Alone a node is confirmed where it failed so often, and never passed.
_TIMES = 2

_AGAIN = "once more: one run tells a bad node from a bad moment less surely"


def suspects(
    cases: Sequence[Case],
    leaves: Leaves | None = None,
    standing_out: Collection[Case] = (),
    named: Iterable[Suspect] = (),
) -> list[Suspect]:
    """What explains the cases that failed or stand out, the most certain first.

    `named` are nodes that something else has shown to be at fault.
    """
    odd = {id(case) for case in standing_out}
    first = [*_by_themselves(cases), *named]
    found = [*first, *_alone(cases, first)]
    # Nothing is to be explained of most.
    wanted = {campaign.kind_of(case) for case in cases if case.failed or id(case) in odd}
    to_judge = _to_judge([c for c in cases if campaign.kind_of(c) in wanted], found)
    for family in campaign.families(to_judge, leaves or {}, tolerant=True):
        bad = _places(family, odd)
        found += [s for s in _of_family(family).suspects if _explains(s, bad)]
    return _together([*found, *_cuts(cases, found)])


def locate(
    cases: Sequence[Case], leaves: Leaves | None = None, uplinks: Mapping[str, int] | None = None
) -> Located:
    """All that the results of a campaign say: also what explains no failure. `uplinks` are events
    of the uplinks' own counters, by `leaf2:spine1`.
    """
    first = _by_themselves(cases)
    found = [*first, *_alone(cases, first)]
    families = campaign.families(_to_judge(cases, found), leaves or {})
    for family in families:
        family.evidence.uplink_events = dict(uplinks or {})
    each = [_of_family(family) for family in families]
    found += [suspect for located in each for suspect in located.suspects]
    nodes = {node: None for case in cases for node in case.nodes}
    return Located(
        tuple(_together([*found, *_cuts(cases, found)])),
        tuple(missing for located in each for missing in located.missing),
        max((located.rounds for located in each), default=0),
        tuple(sorted(nodes, key=natural)),
        tuple(dict.fromkeys(why for located in each for why in located.alike)),
        {end: good for located in each for end, good in located.watched.items()},
        tuple(pair for located in each for pair in located.doubtful),
    )


def by_itself(node: str, why: str, checks: tuple[str, ...] = ()) -> Suspect:
    """A node that needs no partner to be known."""
    return Suspect("node", node, scoring.MOST, (node,), (), (), (), why, checks)


def seen_once(node: str, why: str, check: str) -> Suspect:
    """A node that one run of itself alone speaks against."""
    again = (Measure(node, "", _AGAIN),)
    return Suspect("node", node, scoring.MOST, (node,), (), (), again, why, (check,))


def _by_themselves(cases: Sequence[Case]) -> list[Suspect]:
    lost = [
        dataclasses.replace(
            by_itself(one.node, one.why, (one.check,)), kind="rail", name=f"{one.node}:{one.rail}"
        )
        for one in own.lost_rails(cases)
    ]
    return [*(by_itself(node, why) for node, why in own.named(cases).items()), *lost]


def _alone(cases: Sequence[Case], guilty: Sequence[Suspect]) -> list[Suspect]:
    return [
        by_itself(one.node, f"failed alone {one.times} times", (one.check,))
        if one.times >= _TIMES
        else seen_once(one.node, "failed where it was measured alone", one.check)
        for one in own.alone(cases, _nodes(guilty))
    ]


def _cuts(cases: Sequence[Case], guilty: Sequence[Suspect]) -> list[Suspect]:
    return [
        Suspect(
            "pair",
            "-".join(cut.nodes),
            scoring.MOST,
            cut.nodes,
            (),
            (),
            (Measure(*cut.nodes, "the pair once more"),),
            cut.why,
            (cut.check,),
        )
        for cut in own.cuts(cases, _nodes(guilty))
    ]


def _to_judge(cases: Sequence[Case], guilty: Sequence[Suspect]) -> list[Case]:
    return own.unexplained(cases, _nodes(guilty))


def _nodes(found: Iterable[Suspect]) -> set[str]:
    """The nodes that are suspects, or have a rail that is."""
    return {node for s in found if s.kind in ("node", "rail") for node in s.nodes}


def _of_family(family: Family) -> Located:
    located = locating.locate(family.evidence)
    told = f"{family.check} {family.partition}: "
    return dataclasses.replace(
        located,
        suspects=tuple(
            dataclasses.replace(suspect, checks=(family.check,)) for suspect in located.suspects
        ),
        alike=tuple(told + why for why in located.alike),
    )


def _places(family: Family, odd: Collection[int]) -> set[tuple[str, str]]:
    """The ends of each result that failed or stands out."""
    return {
        (o.a.name, o.b.name)
        for o, case in zip(family.evidence.observations, family.cases, strict=True)
        if case.failed or id(case) in odd
    }


def _explains(suspect: Suspect, bad: Collection[tuple[str, str]]) -> bool:
    return any(
        (w.a, w.b) in bad or (w.b, w.a) in bad for w in suspect.evidence if w.says != "clears"
    )


def _together(found: Sequence[Suspect]) -> list[Suspect]:
    """Each once, by what shows it best, with all checks that do.

    Who is named by itself is named for nothing else; a pair is not named for one of its nodes.
    """
    nodes = _nodes(found)
    by_themselves = {s.nodes[0] for s in found if s.said and s.kind == "node"}
    best: dict[tuple[str, str], Suspect] = {}
    for suspect in found:
        if suspect.kind == "pair" and nodes & set(suspect.nodes):
            continue
        of_nodes = suspect.kind in ("node", "rail", "load") and not suspect.said
        if of_nodes and by_themselves & set(suspect.nodes):
            continue
        key = suspect.kind, suspect.name
        known = best.get(key)
        if known is None:
            best[key] = suspect
            continue
        checks = tuple(dict.fromkeys([*known.checks, *suspect.checks]))
        best[key] = dataclasses.replace(min(known, suspect, key=_certainty), checks=checks)
    return sorted(best.values(), key=_certainty)


def _certainty(suspect: Suspect) -> tuple[object, ...]:
    by_score = 0.0 if suspect.said else -suspect.score
    return not suspect.confirmed, not suspect.said, by_score, natural(suspect.name)
