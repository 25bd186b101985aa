"""What is at fault in a campaign: the one rule, for the verdict, the gate and `railgauge locate`.

`own` reads what failures say by themselves. The engine (`locating`) judges every other value or
failure between two nodes, separately for each check and kind. A case that measured nothing accuses
no node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from railgauge import locating
from railgauge.common.names import natural
from railgauge.locating import Located, Result, Routes, Suspect
from railgauge.locating.suspects import Fewest
from railgauge.verdict.campaign.cases import Case, passed_nodes
from railgauge.verdict.location import direct_evidence, from_campaign
from railgauge.verdict.location.campaign_routes import CampaignRoutes
from railgauge.verdict.location.from_campaign import Family, Leaves
from railgauge.verdict.location.unnamed import Unnamed, unnamed


@dataclasses.dataclass(frozen=True)
class Named:
    """The suspects that explain the cases that failed or stand out, the most certain first.

    `fewest` is the end that is no suspect with the fewest good results, where some result between
    two nodes is bad that no confirmed suspect explains; None where there is no such one. `unnamed`
    are the bad results in which no suspect has a part.
    """

    suspects: tuple[Suspect, ...]
    fewest: Fewest | None = None
    unnamed: tuple[Unnamed, ...] = ()


def suspects(
    cases: Sequence[Case],
    leaves: Leaves | None = None,
    standing_out: Collection[Case] = (),
    named: Iterable[Suspect] = (),
) -> list[Suspect]:
    """The suspects of `name_suspects` alone."""
    return list(name_suspects(cases, leaves, standing_out, named).suspects)


def name_suspects(
    cases: Sequence[Case],
    leaves: Leaves | None = None,
    standing_out: Collection[Case] = (),
    named: Iterable[Suspect] = (),
    routes: CampaignRoutes | None = None,
) -> Named:
    """Who explains the cases that failed or stand out, and what is left open of them.

    `named` are nodes that something else has shown to be at fault; `routes` those of the subnets.
    """
    standing_out_ids = {id(case) for case in standing_out}
    known = _known(cases, leaves or {}, named)
    # Most kinds of cases have nothing to explain.
    kinds = {
        from_campaign.kind_of(case) for case in cases if case.failed or id(case) in standing_out_ids
    }
    of_kinds = [case for case in cases if from_campaign.kind_of(case) in kinds]
    to_judge = direct_evidence.unexplained(of_kinds, _nodes(known))
    judged: list[tuple[Family, list[Result], Located]] = []
    for family in from_campaign.families(to_judge, leaves or {}, tolerant=True, routes=routes):
        bad = _bad(family, standing_out_ids)
        bad_ends = {(r.sender.name, r.receiver.name) for r in bad}
        located = _locate_family(family)
        known += [suspect for suspect in located.suspects if _explains(suspect, bad_ends)]
        judged.append((family, bad, located))
    merged = _merged([*known, *_cuts(cases, known, leaves or {})])
    sure = {node for suspect in merged if suspect.confirmed for node in suspect.nodes}
    still_open: list[Fewest] = []
    without_suspect: list[Unnamed] = []
    for family, bad, located in judged:
        results = family.evidence.results
        nobody = unnamed(family.check, family.partition, results, bad, merged)
        if nobody is not None:
            without_suspect.append(nobody)
        if located.fewest is None or (nobody is not None and nobody.mostly_bad):
            # Where most is bad, what is good is not known either.
            continue
        if any(sure.isdisjoint(result.nodes) for result in bad):
            still_open.append(located.fewest)
    return Named(tuple(merged), min(still_open, default=None), tuple(without_suspect))


def locate(
    cases: Sequence[Case],
    leaves: Leaves | None = None,
    uplinks: Mapping[str, int] | None = None,
    routes: Routes | CampaignRoutes | None = None,
) -> Located:
    """All suspects of a campaign, also those that explain no failure. `uplinks` are events of the
    uplinks' own counters, by `leaf2:spine1`; `routes` the spines that data takes, from a file or
    as the campaign has recorded them.
    """
    known = _known(cases, leaves or {})
    to_judge = direct_evidence.unexplained(cases, _nodes(known))
    recorded = routes if isinstance(routes, CampaignRoutes) else None
    families = from_campaign.families(to_judge, leaves or {}, routes=recorded)
    for family in families:
        family.evidence.uplink_events.update(uplinks or {})
        if isinstance(routes, Routes):
            family.evidence.routes = routes
    located_families = [_locate_family(family) for family in families]
    known += [suspect for located in located_families for suspect in located.suspects]
    nodes = {node: None for case in cases for node in case.nodes}
    judged = {n for one in located_families for n in one.nodes if n not in one.unjudged}
    unjudged = {n for one in located_families for n in one.unjudged} - judged
    merged = _merged([*known, *_cuts(cases, known, leaves or {})])
    guilty = {node for suspect in merged for node in suspect.failing_nodes}
    # As in the verdict's list: beside one that is at fault, and nowhere else.
    failed = {
        n for case in cases if case.failed and guilty.isdisjoint(case.nodes) for n in case.nodes
    }
    return Located(
        tuple(merged),
        tuple(missing for located in located_families for missing in located.missing),
        max((located.rounds for located in located_families), default=0),
        tuple(sorted(nodes, key=natural)),
        tuple(dict.fromkeys(why for located in located_families for why in located.no_evidence)),
        tuple(pair for located in located_families for pair in located.unrepeated),
        min((one.fewest for one in located_families if one.fewest is not None), default=None),
        tuple(sorted(passed_nodes(cases) - failed, key=natural)),
        tuple(sorted(unjudged, key=natural)),
    )


def _known(cases: Sequence[Case], leaves: Leaves, named: Iterable[Suspect] = ()) -> list[Suspect]:
    """What is known without the values between nodes."""
    known = [*direct_evidence.by_themselves(cases, leaves), *named]
    return [*known, *direct_evidence.alone(cases, _nodes(known))]


def _cuts(cases: Sequence[Case], known: Sequence[Suspect], leaves: Leaves) -> list[Suspect]:
    """The pairs that no job got through, without those that a suspect leaf, uplink or spine
    explains: a spine is on paths between any two leaves.
    """
    of_fabric = [suspect for suspect in known if suspect.kind in ("leaf", "uplink")]
    return [
        cut
        for cut in direct_evidence.cuts(cases, _nodes(known))
        if not any(
            _crosses(suspect, cut.nodes, leaf_of)
            for suspect in of_fabric
            for leaf_of in leaves.values()
        )
    ]


def _crosses(suspect: Suspect, nodes: Collection[str], leaf_of: Mapping[str, str]) -> bool:
    """Whether the path between two nodes crosses from or to a suspect leaf, on which the suspect's
    nodes are; or a spine, of which they are on several.
    """
    between = {leaf_of[node] for node in nodes if node in leaf_of}
    if len(between) < 2:
        return False
    suspected = {leaf_of[node] for node in suspect.nodes if node in leaf_of}
    if len(suspected) > 1:
        return suspect.kind == "uplink"
    return not suspected.isdisjoint(between)


def _nodes(suspects: Iterable[Suspect]) -> set[str]:
    """The nodes among the suspects, those of suspect rails, and of leaves that do not answer."""
    return {node for suspect in suspects if suspect.accuses_nodes for node in suspect.nodes}


def _locate_family(family: Family) -> Located:
    located = locating.locate(family.evidence)
    prefix = f"{family.check} {family.partition}: "
    return dataclasses.replace(
        located,
        suspects=tuple(
            dataclasses.replace(suspect, checks=(family.check,)) for suspect in located.suspects
        ),
        no_evidence=tuple(prefix + why for why in located.no_evidence),
    )


def _bad(family: Family, odd: Collection[int]) -> list[Result]:
    """The results that failed or stand out."""
    return [
        o
        for o, case in zip(family.evidence.results, family.cases, strict=True)
        if case.failed or id(case) in odd
    ]


def _explains(suspect: Suspect, bad: Collection[tuple[str, str]]) -> bool:
    return any(
        (w.a, w.b) in bad or (w.b, w.a) in bad for w in suspect.evidence if w.says != "clears"
    )


def _merged(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Each suspect once, by the strongest evidence, with all checks that show it.

    A node or leaf that is named by itself is named for nothing else. A pair is left out where one
    of its nodes is named.
    """
    nodes = _nodes(suspects)
    own_parts = [each for each in suspects if each.own_reason and each.kind in ("node", "leaf")]
    by_themselves = {node for each in own_parts for node in each.nodes}
    silent_leaves = {each.name for each in own_parts if each.kind == "leaf"}
    best: dict[tuple[str, str], Suspect] = {}
    for suspect in suspects:
        if suspect.kind == "pair" and nodes & set(suspect.nodes):
            continue
        of_nodes = suspect.kind in ("node", "rail", "load") and not suspect.own_reason
        if of_nodes and by_themselves & set(suspect.nodes):
            continue
        if suspect.kind == "leaf" and suspect.name in silent_leaves and not suspect.own_reason:
            continue
        key = suspect.kind, suspect.name
        previous = best.get(key)
        if previous is None:
            best[key] = suspect
            continue
        checks = tuple(dict.fromkeys([*previous.checks, *suspect.checks]))
        best[key] = dataclasses.replace(
            min(previous, suspect, key=_certainty),
            checks=checks,
            only_as=suspect.only_as if suspect.only_as == previous.only_as else "",
        )
    return sorted(best.values(), key=_certainty)


def _certainty(suspect: Suspect) -> tuple[object, ...]:
    by_score = 0.0 if suspect.own_reason else -suspect.score
    of_pair = suspect.kind == "pair" and not suspect.own_reason
    return not suspect.confirmed, not suspect.own_reason, of_pair, by_score, natural(suspect.name)
