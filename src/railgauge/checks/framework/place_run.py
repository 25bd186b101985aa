"""What runs at one place of a check, and what its result must have: values, without ReFrame.

A check makes the run of a place in `run_at()`. A kind of run (`jobs/client_server.py`) adds the
order for the nodes, and how what they left is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from railgauge.checks.framework.bounds import Bound
from railgauge.checks.framework.cases import Case
from railgauge.checks.framework.observation import ExitLine, Facts
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.systems import Budget, Partition

#: The bound of a metric that is known before the run, by the number of streams; None where there is
#: none.
BoundBefore = Callable[[str, "int | None"], "Bound | None"]

#: The physical limit of a measurement, by what the nodes stated; None where it is not known.
LimitOf = Callable[[Measurement, Facts], "Limit | None"]


class PlaceOutput(Protocol):
    """What was left at a place."""

    def exit_line(self, role: str) -> ExitLine | None: ...
    def text(self, file: str) -> str: ...
    def output(self, role: str) -> str: ...


def no_limit(measurement: Measurement, facts: Facts) -> Limit | None:
    return None


def no_reference(measurement: Measurement) -> Reference | None:
    return None


def no_bound(metric: str, streams: int | None) -> Bound | None:
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlaceRun:
    """The run of a place, as all checks judge it."""

    place: Case
    partition: Partition
    #: the performance variables of a complete result; None for `metrics` of the check
    required: Sequence[str] | None = None
    #: the variables that must have a reference; None for `gating` of the check
    gated: Sequence[str] | None = None
    #: the values that the tool's own output must state
    states: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: whether a number must have a reference only where its limit or a stored number says what it
    #: must be, and while a baseline is recorded: elsewhere its peers judge it
    has_peers: bool = False
    #: kind of failure -> the metric that counts what is well: other checks may be measured in spite
    #: of it (Preconditions.stopped_by)
    aspects: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def described(self, measurement: Measurement) -> Reference | None:
        """The reference that follows from the system's description, not from measurements."""
        return None

    def limit(self, measurement: Measurement, facts: Facts) -> Limit | None:
        """The physical limit of a measurement, by what the nodes stated."""
        return None

    def adjusted(self, stored: Reference, measurement: Measurement) -> Reference:
        """A stored number as it holds at this place."""
        return stored

    @property
    def states_of_nodes(self) -> Mapping[str, Any]:
        """The values that every node must state of itself."""
        return {}

    @property
    def counted(self) -> bool:
        """Whether the nodes count what the tool moves, so that its rates need a claim."""
        return False

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """How much the nodes' counters may grow during the run."""
        return ()

    def missing(self, facts: Facts) -> Failure | None:
        """The failure of nodes on which nothing could run, apart from a missing program."""
        return None

    def may_be_left_out(self, facts: Facts) -> bool:
        """Whether the place fails nothing where its nodes lack what it needs."""
        return False
