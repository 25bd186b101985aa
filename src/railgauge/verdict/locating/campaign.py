"""A campaign's places between two nodes as evidence: a family for each check and kind.

What one check says of a node's NIC clears nothing that another measures, such as NVLink. Rails of a
check are of one family, as ends of their own.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from railgauge import hostlist
from railgauge.campaign.folder import LEAVES, Campaign
from railgauge.model import record
from railgauge.model.failure import DIRECTION, NOT_TOLD_APART
from railgauge.model.measurement import METRICS, STANDS_OUT
from railgauge.model.record import BrokenRecordError, Row
from railgauge.verdict.compare import Case, Outcome
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import End, Evidence, Missing, Observation
from railgauge.verdict.own import is_of_the_suite

#: Partition -> node -> its leaf.
Leaves = Mapping[str, Mapping[str, str]]

#: The server's rail and the client's, in a case's kind.
_RAILS = re.compile(r"([0-9]+)-([0-9]+)")

#: What is alike of two measurements that are compared; which rail or NIC it is, is a place.
_LIKE = operator.attrgetter(
    *("metric", "tool", "operation", "transport", "size_bytes", "streams", "ranks"),
    *("window_bytes", "congestion", "delay_ms", "simulated"),
)

#: Counters of a device that stand still while its link is well.
_ERRORS = re.compile(
    r".*(link_down|link_error_recovery|symbol_err|crc_err|integrity_errors|discards|retrans"
    r"|out_of_sequence|packet_seq_err|local_ack_timeout).*"
)

#: So many results that were alone in their round, beside others, were so by intent.
_QUIET = 3


class Family(NamedTuple):
    """The evidence of a check on a partition, and the case of each of its observations."""

    check: str
    partition: str
    evidence: Evidence
    cases: list[Case]


def read_leaves(campaign: Campaign) -> Leaves:
    """Partition -> node -> its leaf, where that is known; BrokenRecordError where the file is
    damaged.
    """
    known = record.read_leaves(campaign.folder / LEAVES) or {}
    try:
        return {
            partition: {node: leaf for leaf, nodes in of.items() for node in hostlist.expand(nodes)}
            for partition, of in known.items()
        }
    except ValueError as error:
        raise BrokenRecordError(f"{campaign.folder / LEAVES}: {error}") from None


def families(cases: Sequence[Case], leaves: Leaves, tolerant: bool = False) -> list[Family]:
    """The evidence of all cases between two nodes; what was not measured of these is missing.

    `tolerant`: what does not stand out, and would not be measured again in a sweep, is good. A
    place counts once, by the largest size that it measured of what is alike everywhere; where
    that is good, and another of its numbers is not, or a failure speaks against it, it failed.
    """
    kinds: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        if len(case.nodes) == 2 and not case.of_job:
            kinds.setdefault(kind_of(case), []).append(case)
    return [
        _family(check, partition, of_kind, leaves.get(partition, {}), tolerant)
        for (check, partition, _), of_kind in sorted(kinds.items())
    ]


def kind_of(case: Case) -> tuple[str, str, str]:
    """Check, partition, and what it measures beside the rails."""
    return case.check, case.partition, "" if _RAILS.fullmatch(case.kind) else case.kind


def _family(
    check: str, partition: str, cases: list[Case], leaves: Mapping[str, str], tolerant: bool
) -> Family:
    cases.sort(key=_order)
    devices = _devices(cases)
    rounds: dict[tuple[object, ...], int] = {}
    observations: list[Observation] = []
    of: list[Case] = []
    missing: list[Missing] = []
    unknown: list[int] = []
    for case in cases:
        number = None
        if case.round is not None:
            when = (case.unique_name, case.session, case.run, case.round)
            number = rounds.setdefault(when, len(rounds))
        if why := _not_measured(case):
            missing.append(Missing(case.place or "-".join(case.nodes), number, why))
            continue
        row = max((r for r in case.rows if _counts(r)), key=_size, default=None)
        a, b = _ends(case, row, devices)
        if row is None:
            unknown.append(len(observations))
        observations.append(
            Observation(
                a,
                b,
                _value(case, row),
                number,
                _condition(row, leaves),
                row.reference.lowest if row and row.reference else None,
                _events(case, a),
                _events(case, b),
                bool(row and row.measurement.load == "quiet"),
            )
        )
        of.append(case)
    # A run that failed before it had a number is one of those that the others are.
    usual = Counter(o.condition for n, o in enumerate(observations) if n not in set(unknown))
    for place in unknown if usual else ():
        observations[place] = observations[place]._replace(condition=usual.most_common(1)[0][0])
    # Who is within it of the others is good.
    spread = max((case.peer_spread for case in cases), default=0.0)
    ends = {end for o in observations for end in (o.a, o.b)}
    known = {end: leaves[end.node] for end in ends if end.node in leaves}
    evidence = Evidence(
        known, max(spread / scoring.GOOD, 0.01), STANDS_OUT * spread if tolerant else 0.0
    )
    evidence.add(_with_quiet(observations), missing)
    return Family(check, partition, evidence, of)


def _order(case: Case) -> tuple[object, ...]:
    when = (case.session, case.run, -1 if case.round is None else case.round)
    return case.unique_name, *when, case.place, case.nodes


def _not_measured(case: Case) -> str:
    """Why it is no evidence; "" where it is."""
    if case.passed or case.unreferenced:
        return ""
    if case.outcome is Outcome.UNMEASURED or is_of_the_suite(case):
        why = case.reason or case.damage or next((f.message for f in case.failures), case.result)
        return why or "no result"
    told = next((f.message for f in case.failures if f.kind == NOT_TOLD_APART), "")
    return told


def _value(case: Case, row: Row | None) -> float | None:
    """None of a run that failed: for more than that this number is low. What is only good or bad is
    1 where it is good.
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
    return (*_LIKE(m), nics, across, "" if leaves else m.within)


def _size(row: Row) -> int:
    return row.measurement.size_bytes or 0


def _counts(row: Row) -> bool:
    metric = METRICS[row.measurement.metric]
    return row.gates and metric.alike and metric.better == "more"


def _rails(case: Case, row: Row | None) -> tuple[str, str] | None:
    """The rail's number of each end."""
    match = _RAILS.fullmatch((row.measurement.rails if row else None) or case.kind)
    return (match[1], match[2]) if match else None


def _devices(cases: Sequence[Case]) -> dict[tuple[str, str], str]:
    """Node and rail's number -> its device, where any of the cases tells it."""
    found: dict[tuple[str, str], str] = {}
    for case in cases:
        row = next((row for row in case.rows if row.measurement.rails), None)
        rails = _rails(case, row)
        for node, rail in zip(case.nodes, rails, strict=True) if rails else ():
            device = case.facts.get(node, {}).get("device")
            if isinstance(device, str):
                found.setdefault((node, rail), device)
    return found


def _ends(case: Case, row: Row | None, devices: Mapping[tuple[str, str], str]) -> tuple[End, End]:
    """By device where it is known, else by the rail's number."""
    a, b = case.nodes
    rails = _rails(case, row)
    if rails is None:
        return End(a), End(b)
    return (
        End(a, devices.get((a, rails[0]), rails[0])),
        End(b, devices.get((b, rails[1]), rails[1])),
    )


def _events(case: Case, end: End) -> int:
    """How much the counters of errors of an end's own devices grew meanwhile."""
    facts = case.facts.get(end.node, {})
    record = facts.get("counters")
    counted = record.get("counters") if isinstance(record, dict) else None
    if not isinstance(counted, dict) or not counted:
        return 0
    ours = facts.get("sampled") or ([end.rail] if end.rail else None)
    events = 0
    for name, growth in counted.items():
        device = name.split("/")[1:2]
        if _ERRORS.fullmatch(name) and (ours is None or set(device) & set(ours)):
            events += growth
    return events


def _with_quiet(observations: Sequence[Observation]) -> list[Observation]:
    """Quiet is what was measured alone beside others that were not; an odd ring has one such
    place a round, and where all are alone there is no other load.
    """
    quiet = sum(o.quiet for o in observations)
    if _QUIET <= quiet < len(observations):
        return list(observations)
    return [o._replace(quiet=False) if o.quiet else o for o in observations]
