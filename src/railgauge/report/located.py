"""Suspects in a terminal, with the results against them, and what would confirm them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from railgauge import hostlist
from railgauge.locating import Located, Suspect, not_excluded
from railgauge.locating.suspects import SHARE_OF_TIME, Fewest, Witness
from railgauge.report.visible import clean

if TYPE_CHECKING:
    from railgauge.verdict.decision.verdict import Verdict

#: How many of the missing results, and of pairs, are listed; the others are counted.
_NAMED = 8

#: The least chance of a missed fault that is reported.
_WORTH_SAYING = 0.01

_SAYS = {"convicts": "slow", "clears": "good", "counter": "counts errors"}


def lines(located: Located, of_logs: bool = False) -> Iterator[str]:
    """All of it: what is confirmed, suspected, cleared, and not measured. Of logs each file that
    was left out is named.
    """
    for suspect in located.suspects:
        yield from _suspect(suspect)
    if not located.suspects and not located.unjudged:
        yield f"no suspect among {len(located.nodes)} nodes"
    if located.passing_nodes and located.suspects:
        yield f"cleared: {hostlist.fold(located.passing_nodes)}"
    if located.unjudged:
        why = "no reference, and too few results, its own or of others in the same condition"
        yield f"not judged: {hostlist.fold(located.unjudged)}: {why}"
    yield from (f"no evidence: {why}" for why in located.no_evidence)
    if of_logs:
        yield from (f"left out: {clean(one.place)}: {clean(one.why)}" for one in located.missing)
    for missing in () if of_logs else located.missing[:_NAMED]:
        where = "" if missing.round is None else f", round {missing.round}"
        yield f"not measured: {missing.place}{where}: {missing.why}"
    if len(located.missing) > _NAMED and not of_logs:
        yield f"not measured: {len(located.missing) - _NAMED} more"
    for one, other in located.unrepeated[:_NAMED]:
        yield f"not repeated: {one.name} with {other.name} was low, and good when measured again"
    if len(located.unrepeated) > _NAMED:
        yield f"not repeated: {len(located.unrepeated) - _NAMED} more pairs"
    if located.nodes and (line := left_open(located.fewest)):
        yield line


def left_open(fewest: Fewest | None) -> str:
    """The fault that the results cannot exclude; "" where that is not asked, and where there is no
    good result.
    """
    if fewest is None or not fewest.good or not_excluded(fewest.good) < _WORTH_SAYING:
        return ""
    results = "good result" if fewest.good == 1 else "good results"
    return (
        f"An intermittent fault ({100 * SHARE_OF_TIME:.0f} % of the time) would have been missed "
        f"with probability {100 * not_excluded(fewest.good):.0f} % on {fewest.end}, which has only "
        f"{fewest.good} {results}."
    )


def name(suspect: Suspect) -> str:
    """As people look for it: a node by its name, `rail n2:mlx5_1`, `the path between n1 and n2`,
    `rail 3` with a leaf that is not known, `n2 under load`.
    """
    if suspect.kind == "load":
        return f"{suspect.name} under load"
    if suspect.kind == "pair":
        return f"the path between {' and '.join(suspect.nodes)}"
    if suspect.kind == "node" or suspect.name.startswith("rail "):
        return suspect.name
    return f"{suspect.kind} {suspect.name}"


def sentence(verdict: Verdict) -> str:
    """The verdict's reason, and the part that is at fault or suspected."""
    if not verdict.suspects:
        return f"{verdict.reason}."
    # The most certain come first.
    certainty = state(verdict.suspects[0])
    first = [name(s) for s in verdict.suspects if state(s) == certainty]
    names = ", ".join(first[:5]) + (f" and {len(first) - 5} more" if len(first) > 5 else "")
    verb = certainty if len(first) == 1 else certainty.replace("is", "are", 1)
    return f"{verdict.reason}; {names} {verb}."


def state(suspect: Suspect) -> str:
    """What a sentence says of it: `is at fault`, or `is suspected`."""
    if suspect.kind == "load":
        return "is slow" if suspect.confirmed else "is suspected"
    return "is at fault" if suspect.confirmed else "is suspected"


def evidence(suspect: Suspect, most: int = 3) -> Iterator[str]:
    """The strongest results that convict it, those that clear its partners, and what would confirm
    or clear it; of each so many.
    """
    yield from _ports(suspect, most)
    for says in ("convicts", "counter", "clears"):
        witnesses = [witness for witness in suspect.evidence if witness.says == says]
        yield from (_witness(witness) for witness in witnesses[:most])
        if len(witnesses) > most:
            yield f"{_SAYS[says]}: {len(witnesses) - most} more"
    yield from (f"next: measure {measure.words}" for measure in suspect.confirm[:most])


def _ports(suspect: Suspect, most: int) -> Iterator[str]:
    if suspect.ports:
        more = f", and {len(suspect.ports) - most} more" if len(suspect.ports) > most else ""
        yield f"switch port: {', '.join(suspect.ports[:most])}{more}"


def _suspect(suspect: Suspect) -> Iterator[str]:
    state = "is at fault" if suspect.confirmed else "is suspected"
    subject = f"node {suspect.name}" if suspect.kind == "node" else name(suspect)
    if suspect.kind == "load":
        subject, state = f"node {suspect.name}", "is slow for the load alone"
    yield f"{subject} {state}: {suspect.why}"
    yield from (f"  {line}" for line in _ports(suspect, len(suspect.ports)))
    yield from (f"  {_witness(witness)}" for witness in suspect.evidence)
    for measure in suspect.confirm:
        yield f"  next: measure {measure.words}"


def _witness(witness: Witness) -> str:
    where = "" if witness.round is None else f", round {witness.round}"
    if witness.says == "counter":
        return f"{_SAYS[witness.says]}: {witness.a} with {witness.b}{where}"
    if not witness.b:
        return f"{witness.a}{where}: no answer"
    value = "failed" if witness.value is None else f"{witness.value:.4g}"
    if witness.value is not None and witness.expected:
        share = witness.value / witness.expected - 1
        value += f", {share:+.0%} of {witness.expected:.4g}"
    return f"{_SAYS[witness.says]}: {witness.a} to {witness.b}{where}: {value}"
