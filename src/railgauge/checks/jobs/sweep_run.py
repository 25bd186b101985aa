"""The run of a place in a sweep: its order, its times, and the observation of what it left."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from railgauge.checks.framework.bounds import Bound
from railgauge.checks.framework.cases import Case
from railgauge.checks.framework.observation import Facts, Observation
from railgauge.checks.framework.place_run import (
    BoundBefore,
    LimitOf,
    PlaceOutput,
    PlaceRun,
    no_limit,
    no_reference,
)
from railgauge.checks.jobs.sweep_output import SweepOutput
from railgauge.checks.jobs.uplink_counters import Counting
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.node.orders.places import ClientServerOrder, SingleNodeOrder
from railgauge.systems import Partition


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobOutput:
    """What a sweep's job left as a whole. `places` are all of its case, `measured` those that the
    job was to measure, `nodes` all of its nodes. `folder` is the job's own, `counting` what the
    uplinks between its nodes counted, None where they were not asked. `not_run` says why a place
    was not measured, and `error` is what Slurm wrote to the standard error.
    """

    folder: Path
    system: str
    partition: Partition
    nodes: Sequence[str]
    places: Sequence[Case]
    measured: Sequence[Case]
    output: SweepOutput
    counting: Counting | None
    not_run: Mapping[str, str]
    error: str


@dataclasses.dataclass(frozen=True)
class JobNeeds:
    """What a job needs beside its nodes: GPUs on each, modules, options of Slurm, and commands of
    its batch script before the program that measures.
    """

    gpus_per_node: int | None = None
    modules: Sequence[str] = ()
    options: Sequence[str] = ()
    commands: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Whole:
    """The judgement of a job as a whole: its failures and notes are of no single place. `shared` is
    what all places are judged by.
    """

    failures: Sequence[Failure] = ()
    notes: Sequence[str] = ()
    shared: Any = None


class SweepPlace(PlaceOutput, Protocol):
    """What was left at a place of a sweep, and by its job."""

    @property
    def job_output(self) -> JobOutput: ...

    @property
    def whole(self) -> Whole: ...

    def bound_of(self, measurement: Measurement) -> Bound | None:
        """The bound of a number that was measured at the place."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepRun(PlaceRun):
    """The run of a place in a sweep."""

    #: the ranks that run on each of its nodes
    ranks_per_node: int = 1
    limit_of: LimitOf = no_limit
    #: the reference of a measurement that follows from the system's description
    describe: Callable[[Measurement], Reference | None] = no_reference

    @property
    def ranks(self) -> int:
        return len(self.place.nodes) * self.ranks_per_node

    def job_needs(self, nodes: Sequence[str]) -> JobNeeds:
        """The needs of a job on these nodes, the same for each of its places."""
        return JobNeeds()

    @property
    def flows(self) -> Sequence[Sequence[Case]]:
        """Rounds of other places that together are this one, the only place of its case; none as a
        rule.
        """
        return ()

    def counting(self, alone: bool) -> Counting | None:
        """The counting of what uplinks carry during the job; None where they are not asked.
        `alone`: the place is all that the job measures.
        """
        return None

    def observe(self, left: SweepPlace, bound: BoundBefore) -> Observation:
        """The observation of what it left."""
        raise NotImplementedError

    def limit(self, measurement: Measurement, facts: Facts) -> Limit | None:
        return self.limit_of(measurement, facts)

    def described(self, measurement: Measurement) -> Reference | None:
        return self.describe(measurement)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentRun(SweepRun):
    """The run of a place by agents on its nodes."""

    #: the module of railgauge.node.runners that runs on the nodes
    runner: str
    #: how long it takes, about
    expected_run_s: float

    @property
    def nodes(self) -> Mapping[str, str]:
        """Role -> node."""
        raise NotImplementedError

    @property
    def longest_run_s(self) -> float:
        """The longest that it may take."""
        raise NotImplementedError

    @property
    def streams(self) -> int | None:
        """The number of streams between two nodes; None where there are none."""
        return None

    def order(self, bound: BoundBefore) -> ClientServerOrder | SingleNodeOrder:
        """The order for its nodes."""
        raise NotImplementedError


def agent_run(run: PlaceRun) -> AgentRun:
    """A run, which must be one by agents."""
    if not isinstance(run, AgentRun):
        raise NotImplementedError(f"{run.place.place} has no AgentRun, see run_at() of its check")
    return run
