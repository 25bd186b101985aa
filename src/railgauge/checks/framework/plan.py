"""The plan of a session: the selected cases with their places, and what a resumed one is to run."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from reframe.core import runtime
from reframe.core.exceptions import ReframeError

from railgauge import paths
from railgauge.campaign.folder import (
    LEAVES,
    PLAN,
    POSSIBLE,
    REMAINING,
    ROUTES,
    STATIC_ROUTES,
    SWITCH_PORTS,
)
from railgauge.checks.framework import topology
from railgauge.checks.framework.cases import Case, SweepCase
from railgauge.common.atomic import write_json
from railgauge.model import record
from railgauge.model.record import Key, Listed, Place, PlaceKey, Planned, Possible, Remaining


def _longest_s(check: Any) -> float:
    """The longest that a case may take: in the queue, and then by its job's own limit."""
    return _seconds(check.max_pending_time) + _job_limit_s(check)


def _job_limit_s(check: Any) -> float:
    longest = getattr(check, "longest_seconds", None)
    return _seconds(getattr(check, "time_limit", None)) if longest is None else float(longest)


def _seconds(value: Any) -> float:
    """ReFrame's durations are numbers of seconds, or texts such as 1h30m."""
    if not isinstance(value, str):
        return float(value or 0)
    parts = re.findall(r"([0-9]+)([dhms])", value)
    return sum(int(n) * {"d": 86400, "h": 3600, "m": 60, "s": 1}[u] for n, u in parts)


def possible_cases(cases: Sequence[Any]) -> Possible:
    """Check -> partition -> number of its places, selected or not; of each selected check.

    A check without a parameter that names the partition counts on each partition of its cases.
    """
    selected: dict[type[Any], set[str]] = {}
    for case in cases:
        selected.setdefault(type(case.check), set()).add(case.partition.name)
    possible: dict[str, dict[str, int]] = {}
    for check, reached in selected.items():
        counts: dict[str, int] = {}
        for number in range(check.num_variants):
            values = check.get_variant_info(number)["params"].values()
            named = {v.partition: places_in(v) for v in values if isinstance(v, Case)}
            for partition, places in (named or dict.fromkeys(reached, 1)).items():
                counts[partition] = counts.get(partition, 0) + places
        # --repeat makes of every case a class of the same name, each with all variants.
        known = possible.setdefault(check.__name__, {})
        for partition, count in counts.items():
            known[partition] = max(count, known.get(partition, 0))
    return possible


def places_in(case: Case) -> int:
    return case.possible if isinstance(case, SweepCase) else 1


def places_of(check: Any) -> tuple[Place, ...]:
    """The places of a check; a check without places is one place itself."""
    if not isinstance(getattr(check, "target", None), Case):
        return (Place("", tuple(getattr(check, "pinned_nodes", ()))),)
    return tuple(
        Place(
            name=place.place,
            nodes=place.nodes,
            kind=place.kind,
            needs=tuple(check.needs(place)),
            condition=" ".join(map(str, place.condition)),
        )
        for place in check.places
    )


def nodes_of(check: Any) -> tuple[str, ...]:
    """All nodes of a case, also those that it left out."""
    target = getattr(check, "target", None)
    return tuple(target.nodes if isinstance(target, Case) else getattr(check, "pinned_nodes", ()))


def planned_case(case: Any, runs: int) -> Planned:
    """A case for the plan, by which what never ran is missed."""
    check = case.check
    return Planned(
        check=type(check).__name__,
        case=check.display_name,
        unique_name=check.unique_name,
        partition=case.partition.name,
        places=places_of(check),
        limit_s=_longest_s(check),
        depends_on=tuple(sorted({dependency.check.unique_name for dependency in case.deps})),
        runs=runs,
        transfer_tool=getattr(check, "transfer_tool", ""),
        **_schedule(check),
    )


def _schedule(check: Any) -> dict[str, Any]:
    """How the pairs of a sweep follow from its nodes, for those who look at a plan."""
    paired_by = getattr(check, "paired_by", None)
    if paired_by is None:
        return {}
    seed = paired_by.seed if paired_by.schedule == "random" else None
    return {"schedule": paired_by.schedule, "seed": seed}


def listed(case: Any) -> Listed:
    """A case for those who look at a plan: how many places, rounds and seconds."""
    check = case.check
    target = getattr(check, "target", None)
    return Listed(
        case=check.display_name,
        partition=case.partition.name,
        places=len(check.places) if isinstance(target, Case) else 1,
        rounds=getattr(check, "planned_rounds", 1),
        node_count=len(nodes_of(check)),
        seconds=getattr(check, "expected_seconds", None),
        limit_s=_job_limit_s(check),
        **_schedule(check),
    )


def write_list(folder: Path, cases: Sequence[Any]) -> None:
    """Write what would run, without every place of it: for `railgauge accept --plan`."""
    record.write_list(folder / PLAN, map(listed, cases))


def write_plan(cases: Sequence[Any], runs: int = 1) -> None:
    """Write into the campaign's folder what was selected, so that a case which never ran is missed;
    and how many there are, so that one which a filter left out is missed too.
    """
    folder = paths.campaign_folder()
    if folder is None:
        return
    # Before the plan: without a plan nothing is accepted.
    write_json(folder / LEAVES, topology.described(runtime.runtime().system.name))
    if ports := topology.switch_ports(runtime.runtime().system.name):
        write_json(folder / SWITCH_PORTS, ports)
    if routed := topology.statically_routed(runtime.runtime().system.name):
        write_json(folder / STATIC_ROUTES, routed)
    if known := topology.routes(runtime.runtime().system.name):
        write_json(folder / ROUTES, {p: of.model_dump(mode="json") for p, of in known.items()})
    write_json(folder / POSSIBLE, possible_cases(cases))
    record.write_plan(folder / PLAN, [planned_case(case, runs) for case in cases])


# --- a campaign that is resumed ------------------------------------------------------------------


def resume_plan(cases: Sequence[Any], runs: int = 1) -> list[Any]:
    """Those of the selected cases that a resumed session is to run, and its plan.

    ReframeError where the selection is not that of the campaign's first session: what was measured
    then would be taken for something else.
    """
    campaign = paths.campaign_folder()
    assert campaign is not None
    kept = list(cases)
    before = record.read_plan(campaign / PLAN)
    if before is not None:
        refuse_another_plan(before, [planned_case(case, runs) for case in cases])
        lacks = record.read(paths.session_folder() / REMAINING, Remaining.model_validate_json)
        assert lacks is not None
        kept = to_run(cases, lacks.missing, lacks.failed)
    else:
        # The first session died before it had one.
        write_plan(cases, runs)
    record.write_plan(paths.session_folder() / PLAN, [planned_case(case, runs) for case in kept])
    return kept


def refuse_another_plan(before: Sequence[Planned], now: Sequence[Planned]) -> None:
    """Another description of the system, other checks, or another environment than before."""

    def identities(plan: Sequence[Planned]) -> dict[str, object]:
        return {f"{case.case} @{case.partition}": case.identity for case in plan}

    old, new = identities(before), identities(now)
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if changed:
        raise ReframeError(
            f"the selected cases are not those of the campaign's plan: {changed[0]} and "
            f"{len(changed) - 1} others are new, gone or changed; measure again: railgauge accept"
        )


def to_run(
    cases: Sequence[Any], missing: Collection[PlaceKey], failed: Collection[PlaceKey]
) -> list[Any]:
    """The cases with missing places, and the cases that must run again for them: what these places
    need, and the preflight of their nodes, unless that had failed already or waits for what had.
    Each case gets the names of the places that it is to measure (`only`).
    """

    def key(case: Any) -> Key:
        return case.check.unique_name, case.partition.name

    places = {key(case): places_of(case.check) for case in cases}
    wanted: dict[Key, set[str]] = {}
    for unique_name, partition, place in missing:
        wanted.setdefault((unique_name, partition), set()).add(place)
    touched = {
        node
        for case_key, names in wanted.items()
        for place in places.get(case_key, ())
        if place.name in names
        for node in place.nodes
    }
    bad = set(failed)
    # Cases come with their preconditions before them.
    for case in cases:
        _, partition = key(case)
        bad |= {
            (*key(case), place.name)
            for place in places[key(case)]
            if any((name, partition, needed) in bad for name, needed in place.needs)
        }
        if "preflight" in case.check.tags:
            again = {
                place.name
                for place in places[key(case)]
                if touched & set(place.nodes) and (*key(case), place.name) not in bad
            }
            if again:
                wanted.setdefault(key(case), set()).update(again)
    for case in reversed(cases):
        names = wanted.get(key(case), set())
        for measured in places[key(case)]:
            for unique_name, needed in measured.needs if measured.name in names else ():
                wanted.setdefault((unique_name, key(case)[1]), set()).add(needed)
    kept = [case for case in cases if key(case) in wanted]
    for case in cases:
        if key(case) in wanted:
            # ReFrame runs a copy, and repeats the original.
            for check in (case.check, case._check_orig):
                check.only = frozenset(wanted[key(case)])
        else:
            for dependency in case.deps:
                # By this number ReFrame knows when a precondition is needed no more.
                dependency.in_degree -= 1
    # A case may depend on one of which no place is needed again.
    for case in kept:
        case.deps[:] = [dependency for dependency in case.deps if key(dependency) in wanted]
    return kept
