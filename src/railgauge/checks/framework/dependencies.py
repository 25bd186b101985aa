"""The places of one check that another check waits for."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import reframe.core.runtime as rt

from railgauge import paths
from railgauge.campaign import variables
from railgauge.checks.framework.cases import Case, Cases
from railgauge.systems import Partition

#: By what other checks know of a place of a preflight: its case's unique name, and its own.
Known = Mapping[Hashable, tuple[str, str]]

NODE = attrgetter("partition", "node")


def known_places(
    check: str, cases: Callable[[], Cases[Any]], key: Callable[[Any], Hashable]
) -> Known:
    """The places of a preflight in this session, which the other checks need, by their `key`."""
    system = rt.runtime().system.name
    chosen = (variables.NODES, variables.SCHEDULE, variables.SEED)
    told = tuple(os.environ.get(name) for name in chosen)
    return _known_places(check, cases, key, system, told, paths.SYSTEMS)


@functools.cache
def _known_places(
    check: str,
    cases: Callable[[], Cases[Any]],
    key: Callable[[Any], Hashable],
    system: str,
    variables: tuple[str | None, ...],
    folder: Path,
) -> Known:
    """The same by its key: the system, the session's variables, and the systems' folder."""
    sweeps = cases().sweeps
    known: dict[Hashable, tuple[str, str]] = {}
    for number, sweep in enumerate(sweeps):
        name = numbered(check, number, len(sweeps))
        known.update((key(place), (name, place.place)) for place in sweep.places)
    return known


def numbered(check: str, number: int, count: int) -> str:
    """The unique name of a check's case, as ReFrame's RegressionTestMeta.variant_name numbers the
    values of its only parameter.
    """
    return check if count == 1 else f"{check}_{number:0{len(str(count))}}"


def cases_of(preflights: Iterable[Known]) -> set[str]:
    """The cases that these places are of."""
    return {case for known in preflights for case, _ in known.values()}


def nodes_in(known: Known, place: Case) -> list[tuple[str, str]]:
    """The places of a place's nodes, by NODE."""
    wanted = [(place.partition, node) for node in place.nodes]
    return [known[key] for key in wanted if key in known]


#: Of the failures of a node's preflight those of rails and bond: the numbers of a pair tell what
#: another firmware or tuning than expected costs.
LINKS_ALONE = frozenset({"path"})


class Preconditions:
    """The places of other checks that the places of a check need; none."""

    #: the kinds of failures of a node's preflight that keep a check from the node
    stopped_by: ClassVar[frozenset[str]] = frozenset({"path", "state"})

    def finder(self, partition: Partition) -> Callable[[Case], Sequence[tuple[str, str]]]:
        """What finds the needs of a place: unique names of cases, and their places. It is made
        once: a large partition has a hundred thousand places that ask.
        """
        return lambda place: ()

    def cases(self) -> Collection[str] | None:
        """All cases that any place can need; None where that is not known."""
        return None
