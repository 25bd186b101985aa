"""A campaign's places between two nodes as evidence: a family for each check and kind.

A check that clears a node's NIC does not clear what another check measures, such as NVLink. The
rails of a check are in one family, each as an end of its own.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from railgauge import hostlist
from railgauge.campaign.folder import LEAVES, Campaign
from railgauge.locating import End, Evidence, Missing, Result
from railgauge.locating.peers import GOOD
from railgauge.model import record
from railgauge.model.failure import DIRECTION, NOT_TOLD_APART
from railgauge.model.measurement import METRICS, STANDS_OUT, Measurement
from railgauge.model.record import BrokenRecordError, Row
from railgauge.node.system.rdma_devices import Hca, hca_of
from railgauge.verdict.campaign.cases import Case, Outcome
from railgauge.verdict.campaign.recorded_facts import error_counters
from railgauge.verdict.location.campaign_routes import CampaignRoutes
from railgauge.verdict.location.direct_evidence import is_of_the_suite

#: Partition -> node -> its leaf.
Leaves = Mapping[str, Mapping[str, str]]

#: The server's rail and the client's, in a case's kind.
_RAILS = re.compile(r"([0-9]+)-([0-9]+)")

#: The fields in which two measurements agree that are compared; rail and NIC belong to the place.
_ALIKE = operator.attrgetter(
    *("metric", "tool", "operation", "transport", "size_bytes", "streams", "ranks"),
    *("window_bytes", "congestion", "delay_ms", "simulated"),
)

#: With this operation data goes from the server to the client.
_READ = "read"

#: From so many results on that were alone in their round, next to others, they were so by intent.
_QUIET = 3


class Family(NamedTuple):
    """The evidence of a check on a partition, and the case of each of its results."""

    check: str
    partition: str
    evidence: Evidence
    cases: list[Case]


def _both_ways(measurement: Measurement) -> bool:
    """Whether data went both ways at once, so that a low result says nothing of the direction."""
    return measurement.metric.startswith("busbw") or "bidirectional" in measurement.operation


def read_leaves(campaign: Campaign) -> Leaves:
    """Partition -> node -> its leaf, where that is known; BrokenRecordError where the file is
    damaged.
    """
    by_partition = record.read_leaves(campaign.folder / LEAVES) or {}
    try:
        return {
            partition: {
                node: leaf for leaf, nodes in leaf_nodes.items() for node in hostlist.expand(nodes)
            }
            for partition, leaf_nodes in by_partition.items()
        }
    except ValueError as error:
        raise BrokenRecordError(f"{campaign.folder / LEAVES}: {error}") from None


def families(
    cases: Sequence[Case],
    leaves: Leaves,
    tolerant: bool = False,
    routes: CampaignRoutes | None = None,
) -> list[Family]:
    """The evidence of all cases between two nodes; a case that was not measured is missing.

    `tolerant`: a result that does not stand out, and would not be measured again in a sweep, is
    good. A place counts once, by the largest size that it measured of the metrics that are alike
    everywhere. If that is good, and another of its numbers is not, or a failure speaks against it,
    the place failed. Where the `routes` of a subnet are known of all results of a family, its
    leaves are those of the subnet.
    """
    kinds: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        if len(case.nodes) == 2 and not case.of_job:
            kinds.setdefault(kind_of(case), []).append(case)
    return [
        _family(check, partition, members, leaves.get(partition, {}), tolerant, routes)
        for (check, partition, _), members in sorted(kinds.items())
    ]


def kind_of(case: Case) -> tuple[str, str, str]:
    """Check, partition, and what the case measures, without its rails."""
    return case.check, case.partition, "" if _RAILS.fullmatch(case.kind) else case.kind


def _family(
    check: str,
    partition: str,
    cases: list[Case],
    leaves: Mapping[str, str],
    tolerant: bool,
    routes: CampaignRoutes | None,
) -> Family:
    cases.sort(key=_order)
    devices = _devices(cases)
    rounds: dict[tuple[object, ...], int] = {}
    results: list[Result] = []
    kept_cases: list[Case] = []
    missing: list[Missing] = []
    unknown: list[int] = []
    used: dict[End, set[Hca]] = {}
    one_way = True
    asked_loaded = {name for case in cases if not case.quiet for name in _referenced(case)}
    for case in cases:
        round_number = None
        if case.round is not None:
            when = (case.unique_name, case.session, case.run, case.round)
            round_number = rounds.setdefault(when, len(rounds))
        why = _not_measured(case)
        unjudged = asked_loaded.difference(_referenced(case)) if case.quiet else ()
        if unjudged and not case.failed:
            # It cannot be bad by what made the others bad.
            why = why or f"no reference for {', '.join(sorted(unjudged))} while all else is quiet"
        if why:
            missing.append(Missing(case.place or "-".join(case.nodes), round_number, why))
            continue
        judged = (r for r in case.rows if _is_judged(r))
        row = max(judged, key=lambda r: r.measurement.size_bytes or 0, default=None)
        a, b = _ends(case, row, devices)
        if row is None:
            unknown.append(len(results))
        if row is not None and row.measurement.operation.startswith(_READ):
            # The server is asked for its data.
            a, b = b, a
        for end in (a, b):
            if (hca := hca_of(case.facts.get(end.node, {}))) is not None:
                used.setdefault(end, set()).add(hca)
        results.append(
            Result(
                b,
                a,
                _value(case, row),
                round_number,
                _condition(row, leaves),
                row.reference.lowest if row and row.reference else None,
                _events(case, b),
                _events(case, a),
                case.quiet or bool(row and row.measurement.load == "quiet"),
            )
        )
        kept_cases.append(case)
        one_way &= row is None or not _both_ways(row.measurement)
    # A run that failed before it had a number belongs to the most common condition.
    usual = Counter(o.condition for n, o in enumerate(results) if n not in set(unknown))
    for place in unknown if usual else ():
        results[place] = results[place]._replace(condition=usual.most_common(1)[0][0])
    # Whatever is within this spread of its peers is good.
    spread = max((case.peer_spread for case in cases), default=0.0)
    all_ends = dict.fromkeys(end for result in results for end in result.ends)
    known = routes.between(partition, results, used, one_way) if routes is not None else None
    given = routes.given(partition) if routes is not None and known is None else None
    evidence = Evidence(
        known.leaves if known else {e: leaves[e.node] for e in all_ends if e.node in leaves},
        max(spread / GOOD, 0.01),
        STANDS_OUT * spread if tolerant else 0.0,
        directed=one_way,
        routes=known.routes if known else given,
    )
    results = _with_quiet(results, kept_cases)
    # Those with results that were planned to be quiet are judged by these.
    both = list(zip(results, kept_cases, strict=True))
    planned = {end for r, case in both if r.quiet and not case.quiet for end in r.ends}
    evidence.added = {end for r, case in both if case.quiet for end in r.ends} - planned
    evidence.add(results, missing)
    _add_uplinks(evidence, cases)
    return Family(check, partition, evidence, kept_cases)


def _add_uplinks(evidence: Evidence, cases: Sequence[Case]) -> None:
    """Add what the switches counted during all jobs; every place of a job has the same counts.

    Flows are those of the job with the most: another one's may be the same, on the same uplinks.
    """
    jobs = {(case.unique_name, case.session, case.run): case for case in cases}.values()
    for leaf, (sent, received) in itertools.chain.from_iterable(j.flows.items() for j in jobs):
        flows = evidence.uplink_flows.get(leaf, (0, 0))
        evidence.uplink_flows[leaf] = max(flows[0], sent), max(flows[1], received)
    for uplink in itertools.chain.from_iterable(job.uplinks for job in jobs):
        name = str(uplink)
        sent, received = evidence.uplink_bytes.get(name, (0, 0))
        both = sent + uplink.sent_bytes, received + uplink.received_bytes
        evidence.uplink_bytes[name] = both
        events = evidence.uplink_events.get(name, 0) + uplink.errors
        evidence.uplink_events[name] = events


def _order(case: Case) -> tuple[object, ...]:
    when = (case.session, case.run, -1 if case.round is None else case.round)
    return case.unique_name, *when, case.place, case.nodes


def _not_measured(case: Case) -> str:
    """Why a case is no evidence; "" where it is."""
    if case.passed or case.unreferenced:
        return ""
    if case.outcome is Outcome.UNMEASURED or is_of_the_suite(case):
        messages = (failure.message for failure in case.failures)
        return case.reason or case.damage or next(messages, case.result) or "no result"
    return next((f.message for f in case.failures if f.kind == NOT_TOLD_APART), "")


def _referenced(case: Case) -> list[str]:
    """The variables of a case's numbers that have a reference."""
    return [row.measurement.variable for row in case.rows if row.gates and row.reference]


def _value(case: Case, row: Row | None) -> float | None:
    """The value of a result; None of a run that failed for more than this number being low, and 1
    of a good one that has no number.
    """
    if case.outcome is Outcome.FAILED:
        others = any(failure.kind != DIRECTION for failure in case.failures)
        if row is None or others or not _is_low(row):
            return None
    return row.measurement.value if row else 1.0


def _is_low(row: Row) -> bool:
    lowest = row.reference.lowest if row.reference else None
    return lowest is not None and row.measurement.value < lowest


def _condition(row: Row | None, leaves: Mapping[str, str]) -> Hashable:
    if row is None:
        return ()
    m = row.measurement
    nics = len(m.nics.split("+")) if m.nics else 0
    across = m.rails is not None and len(set(m.rails.split("-"))) > 1
    return (*_ALIKE(m), nics, across, "" if leaves else m.within)


def _is_judged(row: Row) -> bool:
    metric = METRICS[row.measurement.metric]
    return row.gates and metric.comparable and metric.better == "more"


def _rails(case: Case, row: Row | None) -> tuple[str, str] | None:
    """The rail's number of each end."""
    match = _RAILS.fullmatch((row.measurement.rails if row else None) or case.kind)
    return (match[1], match[2]) if match else None


def _devices(cases: Sequence[Case]) -> dict[tuple[str, str], str]:
    """Node and rail's number -> its device, where any of the cases names it."""
    devices: dict[tuple[str, str], str] = {}
    for case in cases:
        row = next((row for row in case.rows if row.measurement.rails), None)
        rails = _rails(case, row)
        for node, rail in zip(case.nodes, rails, strict=True) if rails else ():
            device = case.facts.get(node, {}).get("device")
            if isinstance(device, str):
                devices.setdefault((node, rail), device)
    return devices


def _ends(case: Case, row: Row | None, devices: Mapping[tuple[str, str], str]) -> tuple[End, End]:
    """Both ends of a case: with the rail's device where it is known, else with its number."""
    a, b = case.nodes
    rails = _rails(case, row)
    if rails is None:
        return End(a), End(b)
    return (
        End(a, devices.get((a, rails[0]), rails[0])),
        End(b, devices.get((b, rails[1]), rails[1])),
    )


def _events(case: Case, end: End) -> int:
    """The growth of the error counters of an end's own devices during the measurement."""
    facts = case.facts.get(end.node, {})
    own_devices = facts.get("sampled") or ([end.rail] if end.rail else None)
    return sum(
        growth
        for name, growth in error_counters(facts).items()
        if own_devices is None or set(name.split("/")[1:2]) & set(own_devices)
    )


def _with_quiet(results: Sequence[Result], cases: Sequence[Case]) -> list[Result]:
    """The results with `quiet` only where it was meant: an odd ring has one place a round that
    is alone by chance, and where all are alone there is no other load.
    """
    quiet = sum(o.quiet and not case.quiet for o, case in zip(results, cases, strict=True))
    if _QUIET <= quiet < len(results):
        return list(results)
    return [o._replace(quiet=case.quiet) for o, case in zip(results, cases, strict=True)]
