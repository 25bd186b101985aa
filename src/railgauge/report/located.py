"""Suspects in a terminal, with the results that convict and clear, and what would confirm them."""

from __future__ import annotations

from collections.abc import Iterator

from railgauge import hostlist
from railgauge.verdict.locating import Located, Suspect, not_excluded
from railgauge.verdict.locating.suspects import Witness

#: How many of the missing results are listed; the others are counted.
_NAMED = 8


def lines(located: Located) -> Iterator[str]:
    """All of it, the most certain suspect first."""
    for suspect in located.suspects:
        yield from _suspect(suspect)
    if located.unjudged:
        why = "no reference, and too few results, its own or of others in the same condition"
        yield f"not judged: {hostlist.fold(located.unjudged)}: {why}"
    elif not located.suspects:
        yield f"nobody: no suspect among {len(located.nodes)} nodes"
    yield from (f"accuses nobody: {why}" for why in located.alike)
    for missing in located.missing[:_NAMED]:
        where = "" if missing.round is None else f", round {missing.round}"
        yield f"missing: {missing.place}{where}: {missing.why}"
    if len(located.missing) > _NAMED:
        yield f"missing: {len(located.missing) - _NAMED} more"
    watched = sorted(located.watched.items(), key=lambda item: (item[1], item[0].order))
    for end, good in watched[:_NAMED]:
        yield (
            f"low and no suspect: {end.name}, good {good} times (so does "
            f"{not_excluded(good):.0%} of what is at fault a fifth of the time)"
            if good
            else f"not known: {end.name} met suspects only"
        )
    if len(watched) > _NAMED:
        yield f"low and no suspect: {len(watched) - _NAMED} more"
    if located.nodes:
        yield left_open(located.fewest)


def left_open(fewest: int | None) -> str:
    """What results cannot exclude, by the fewest good ones that an end has which is no suspect; ""
    where that is not asked.
    """
    if fewest is None:
        return ""
    return (
        f"not excluded: a fault that is there a fifth of the time, {not_excluded(fewest):.0%} by "
        f"{fewest} good results, the fewest of any end"
    )


def name(suspect: Suspect) -> str:
    """As people look for it: a node by its name, `rail n2:mlx5_1`, `the way between n1 and n2`,
    `rail 3` of which no leaf is known, `n2 under load`.
    """
    if suspect.kind == "load":
        return f"{suspect.name} under load"
    if suspect.kind == "pair":
        return f"the way between {' and '.join(suspect.nodes)}"
    if suspect.kind == "node" or suspect.name.startswith("rail "):
        return suspect.name
    return f"{suspect.kind} {suspect.name}"


def look(suspect: Suspect) -> str:
    return "look first at" if suspect.confirmed else "look at"


def evidence(suspect: Suspect, most: int = 3) -> Iterator[str]:
    """The strongest results that convict it, those that clear its partners, and what would confirm
    or clear it; of each so many.
    """
    yield from _ports(suspect, most)
    for says in ("convicts", "counter", "clears"):
        witnesses = [witness for witness in suspect.evidence if witness.says == says]
        yield from (_witness(witness) for witness in witnesses[:most])
        if len(witnesses) > most:
            yield f"{says}: {len(witnesses) - most} more"
    yield from (f"next: measure {measure.words}" for measure in suspect.confirm[:most])


def _ports(suspect: Suspect, most: int) -> Iterator[str]:
    if suspect.ports:
        more = f", and {len(suspect.ports) - most} more" if len(suspect.ports) > most else ""
        yield f"switch port: {', '.join(suspect.ports[:most])}{more}"


def _suspect(suspect: Suspect) -> Iterator[str]:
    state = "confirmed" if suspect.confirmed else "not confirmed"
    yield f"{suspect.kind} {suspect.name}: {state}, score {suspect.score:.1f}"
    if suspect.own_reason:
        yield f"  {suspect.own_reason}"
    yield from (f"  {line}" for line in _ports(suspect, len(suspect.ports)))
    yield from (f"  {_witness(witness)}" for witness in suspect.evidence)
    for measure in suspect.confirm:
        yield f"  next: measure {measure.words}"


def _witness(witness: Witness) -> str:
    where = "" if witness.round is None else f", round {witness.round}"
    if witness.says == "counter":
        return f"counts errors: {witness.a} with {witness.b}{where}"
    if not witness.b:
        return f"{witness.says}: {witness.a}{where}: no answer"
    value = "failed" if witness.value is None else f"{witness.value:.4g}"
    if witness.value is not None and witness.expected:
        share = witness.value / witness.expected - 1
        value += f", {share:+.0%} of {witness.expected:.4g}"
    return f"{witness.says}: {witness.a} with {witness.b}{where}: {value}"
