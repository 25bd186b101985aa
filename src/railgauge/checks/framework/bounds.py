"""Which bound applies to a number: the whole rule of precedence, and its inputs.

`in_order` is the rule. The first source that has a bound for a number decides:

1. `description`: what the run derives from the system's description (`described`), such as the
   number of links. It holds by definition, and no measurement could replace it.
2. `stored`: the number in `results/references/` for this very condition, a baseline before a
   published number before a floor (`PRECEDENCE` of `model/references.py`). A measured number knows
   more than a derived one.
3. `minimum`: the sanity minimum of the description (`floor`), only where nothing is stored: a site
   replaces it by a stored number, also by a lower one.
4. `share`: the least share of the limit (`model/shares.py`), only of numbers that must have a
   reference. It holds for every system, so it knows least of this one.

Without any of them nothing judges the number. Nothing judges a run that records a baseline.

A floor, `stored` or `minimum`, only rejects where a baseline of the metric is stored for another
condition: it is far below what is known of a healthy system. The share judges what it would accept.

Nodes act on bounds during a job. They get them from the same rule, before the number is measured:

- a pair of nodes gets `least_gbits` and `most_resent` (`checks/jobs/client_server.py`).
  `node/orchestration/rounds.py` takes the higher of `least_gbits` and what peers carry.
- a launch of groups gets `bounds`, and `least` of the share (`checks/collectives/nccl_run.py`).
  `node/orchestration/group_launches.py` compares with peers, too, where `bounds` is empty.

`railgauge promote` makes stored baselines (`verdict/comparison/promotion.py`), and has no part in
this rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from railgauge.model import shares
from railgauge.model.limits import Limit
from railgauge.model.measurement import COUNTS, METRICS, Measurement
from railgauge.model.references import Kind, Reference, References
from railgauge.model.shares import LeastShare

Source = Literal["description", "stored", "minimum", "share"]

Known = Literal["value", "condition", "place"]
"""How much of a number is known.

- value: it was measured, and its bound judges it.
- condition: it is to be measured under this condition.
- place: it is to be measured, and of its condition only `within` and `load` are known for sure.
"""


@dataclasses.dataclass(frozen=True)
class Bound:
    """A bound, and its source. `reference` has value, limits, unit and provenance."""

    source: Source
    reference: Reference

    @property
    def kind(self) -> Kind:
        return self.reference.kind

    @property
    def lowest(self) -> float | None:
        """The least value that is admitted, in the reference's unit."""
        return self.reference.lowest

    @property
    def highest(self) -> float | None:
        """The greatest value that is admitted, in the reference's unit."""
        return self.reference.highest


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What the bounds of a check follow from, at one place."""

    check: str
    partition: str
    gate: str
    """`acceptance`, or `baseline`: nothing is judged."""
    references: References
    least_shares: Sequence[LeastShare]
    """Those of the partition, before those of every system."""
    described: Callable[[Measurement], Reference | None]
    minimum: Callable[[Measurement], Reference | None]
    limit: Callable[[Measurement], Limit | None]
    gates: Callable[[Measurement], bool]
    """Whether a measured number must have a reference."""
    adjust: Callable[[Reference, Measurement], Reference]
    """A stored number as it holds at the place, such as with fewer rails."""


def in_order(of: Inputs, number: Measurement, known: Known = "value") -> Iterator[Bound]:
    """Yield the bounds of a number, the one that applies first.

    Of a number that is not measured yet (`known`) only those on the worse side: nodes act on no
    other. `number.value` counts for nothing then.
    """
    if of.gate == "baseline":
        return
    stored = find_stored(of, number, known)
    rows: tuple[tuple[Source, Callable[[], Reference | None]], ...] = (
        ("description", lambda: of.described(number)),
        ("stored", lambda: stored),
        ("minimum", lambda: of.minimum(number) if stored is None else None),
        ("share", lambda: _find_share(of, number, known)),
    )
    for source, find in rows:
        reference = find()
        if reference is None:
            continue
        if known != "value":
            is_more_better = METRICS[number.metric].better == "more"
            applies = (reference.lowest if is_more_better else reference.highest) is not None
        else:
            applies = source == "description" or not _only_rejects(of, number, reference)
        if applies:
            yield Bound(source, reference)


def find_bound(of: Inputs, number: Measurement, known: Known = "value") -> Bound | None:
    """The bound that applies to a number, or None."""
    return next(in_order(of, number, known), None)


def find_references(of: Inputs, numbers: Sequence[Measurement]) -> dict[str, Reference]:
    """Variable -> what its number is compared with, of those that a bound applies to."""
    found = {number.variable: find_bound(of, number) for number in numbers}
    return {name: bound.reference for name, bound in found.items() if bound is not None}


def find_stored(of: Inputs, number: Measurement, known: Known = "value") -> Reference | None:
    """The stored number of this condition, as it holds at the place.

    Where only the place is known it is the one with the highest bound on the worse side, of all
    conditions that are possible.
    """
    if known == "place":
        return of.references.highest_bound(
            of.check, of.partition, number.metric, number.within, number.load
        )
    found = of.references.find(of.check, of.partition, number)
    return None if found is None else of.adjust(found, number)


def baseline_elsewhere(of: Inputs, number: Measurement) -> str:
    """What the nearest baseline of the metric states that is not as measured: "load loaded".

    "" where none is stored, where one serves this condition, and for counts, which have none.
    """
    if of.gate == "baseline" or number.unit in COUNTS or not of.gates(number):
        return ""
    return of.references.elsewhere(of.check, of.partition, number)


def _find_share(of: Inputs, number: Measurement, known: Known) -> Reference | None:
    # A share is of a whole condition: what is measured how, over what.
    if known == "place" or (known == "value" and not of.gates(number)):
        return None
    return shares.reference(number, of.limit(number), of.least_shares)


def _only_rejects(of: Inputs, number: Measurement, reference: Reference) -> bool:
    """Whether this is a floor that admits the number, and must not accept it."""
    is_floor = reference.kind == "floor"
    return is_floor and reference.admits(number.value) and bool(baseline_elsewhere(of, number))
