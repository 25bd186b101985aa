"""Checks that measure many places in one job: a sweep.

The job's first node runs the conductor (railgauge.node.conductor), which starts an agent on every
node and has them measure the places in rounds. What it leaves is read here, place by place.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.builtins import run_before

from railgauge import hostlist, paths
from railgauge.checks import protections, queue
from railgauge.checks.base import NOT_PASSED, ExitLine, Judged, StrictCheck
from railgauge.checks.cases import Case, SweepCase
from railgauge.checks.protections import Evidence
from railgauge.checks.schedule import rounds
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.references import Reference
from railgauge.node import raw
from railgauge.node.sweep import FILE as ORDERS
from railgauge.slurm import nodes as slurm_nodes

#: What the conductor, its agents and Slurm's own work take beside the places.
_MARGIN_S = 120
#: So long an agent may take to come, on a node that is slow to start a Python.
_CONNECT_S = 60

#: ReFrame's own report names so many of the places that failed.
_SHOWN = 5


class SweepCheck(StrictCheck):
    """One job over all nodes of its places, which it measures in rounds.

    A concrete check gives its own `cases`, and `sweep = parameter(cases.sweeps, loggable=True)`. A
    kind of check says what is to be run at the place at hand: `program`, `roles()` and `order()`.
    """

    sweep: SweepCase
    num_tasks_per_node = 1
    #: what runs at a place, of railgauge.node: pair, transfer or solo
    program: str
    #: what the reasons are for which a node was left out of this job
    _absent: Mapping[str, Failure]
    _rounds: Sequence[Sequence[Case]] = ()

    # --- for subclasses ----------------------------------------------------------------------

    def roles(self) -> Mapping[str, str]:
        """The role of each node at the place at hand."""
        raise NotImplementedError

    def order(self) -> Mapping[str, Any]:
        """What the nodes are told of the place at hand, beside their roles."""
        raise NotImplementedError

    def expected_run_s(self) -> float:
        """About how long the place at hand takes."""
        raise NotImplementedError

    def longest_run_s(self) -> float:
        """The longest that the place at hand may take."""
        raise NotImplementedError

    # --- the case ------------------------------------------------------------------------------

    @property
    def target(self) -> SweepCase:
        return self.sweep

    @property
    def places(self) -> Sequence[Case]:
        return self.sweep.places

    @property
    def ranks(self) -> int:
        return len(self.here.nodes)

    def nodes_here(self) -> tuple[str, ...]:
        return self.here.nodes

    def rounds_of(self, places: Sequence[Case]) -> list[list[Case]]:
        sweep = self.partition_data.extras.sweep
        return [[places[n] for n in numbers] for numbers in rounds(places, sweep)]

    @functools.cached_property
    def _all_rounds(self) -> Sequence[Sequence[Case]]:
        """Those of all places, whether or not this session measures them."""
        return self.rounds_of(self.places)

    @property
    def planned_rounds(self) -> int:
        return len(self._all_rounds)

    @property
    def expected_seconds(self) -> float:
        total = 0.0
        for places in self._all_rounds:
            self.here = places[0]
            total += self.expected_run_s()
        # Starting the agents, and Slurm's own second for a job.
        return total + 2

    # --- the job -------------------------------------------------------------------------------

    def choose_places(self) -> None:
        """Without those whose preconditions failed, and those on nodes that take no job."""
        wanted = [p for p in self.places if self.only is None or p.place in self.only]
        self._absent = {}
        if not self.is_dry_run():
            for place in wanted:
                if wanting := self.unmet(place):
                    self.not_run[place.place] = f"{NOT_PASSED}{'; '.join(wanting)}"
            wanted = [place for place in wanted if place.place not in self.not_run]
            if not wanted:
                self.skip(next(iter(self.not_run.values())))
            nodes = {node for place in wanted for node in place.nodes}
            self._absent = queue.session.takes_no_job(nodes)
            if nodes <= self._absent.keys():
                # Nothing is left of it; the queue says why.
                self._absent = {}
        chosen = [place for place in wanted if not self._absent.keys() & set(place.nodes)]
        self._rounds = self.rounds_of(chosen)
        there = {node for place in chosen for node in place.nodes}
        self.pinned_nodes = [node for node in self.sweep.nodes if node in there]
        self.num_tasks = len(self.pinned_nodes)
        self.time_limit = f"{int(self._longest_s(self._rounds)) + 1}s"

    def _longest_s(self, rounds_of_job: Sequence[Sequence[Case]]) -> float:
        longest = 0.0
        for places in rounds_of_job:
            self.here = places[0]
            longest += self.longest_run_s()
        return longest + _CONNECT_S + _MARGIN_S

    @property
    def longest_seconds(self) -> float:
        """The longest that its job may take, with all of its places."""
        return self._longest_s(self._all_rounds)

    @run_before("run")
    def start_sweep(self) -> None:
        orders = self.orders()
        Path(self.stagedir, ORDERS).write_text(json.dumps(orders), encoding="utf-8")
        # The conductor starts the agents itself.
        self.job.launcher = getlauncher("local")()
        source = shlex.quote(str(paths.SOURCE))
        self.executable = "env"
        self.executable_opts = [
            *(f"PYTHONPATH={source}", "python3", "-m", "railgauge.node.conductor", ORDERS),
        ]

    def orders(self) -> Mapping[str, Any]:
        """What the conductor and its agents are told (railgauge.node.conductor)."""
        places: list[dict[str, Any]] = []
        known: dict[str, int] = {}
        specs: list[Mapping[str, Any]] = []
        numbers = []
        for members in self._rounds:
            first = len(places)
            for place in members:
                self.here = place
                spec = self.order()
                text = json.dumps(spec, sort_keys=True)
                if text not in known:
                    known[text] = len(specs)
                    specs.append(spec)
                places.append(
                    {
                        "name": place.place,
                        "program": self.program,
                        "roles": self.roles(),
                        "order": known[text],
                    }
                )
            numbers.append(list(range(first, len(places))))
        return {
            "tool": self.tool_name,
            "nodes": list(self.pinned_nodes),
            "names": slurm_nodes.names_of(self.pinned_nodes),
            "launch": [],
            "rounds": numbers,
            "places": places,
            "orders": specs,
            "connect_limit_s": _CONNECT_S,
        }

    @property
    def tool_name(self) -> str:
        return str(self.tool.TOOL)

    # --- what it left --------------------------------------------------------------------------

    @functools.cached_property
    def _raw(self) -> raw.Raw:
        return raw.read(Path(self.stagedir, raw.FILE))

    @functools.cached_property
    def _numbers(self) -> Mapping[str, int]:
        """The numbers that the conductor has for the places of this job."""
        chosen = [place for members in self._rounds for place in members]
        return {place.place: number for number, place in enumerate(chosen)}

    def _sides(self) -> Mapping[str, raw.Side]:
        return self._raw.sides.get(self._numbers.get(self.here.place, -1), {})

    def exit_line(self, role: str) -> ExitLine | None:
        side = self._sides().get(role)
        if side is None:
            return None
        try:
            return ExitLine(Call(**side.line["call"]), side.line["facts"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{role} of {self.here.place}: no exit line: {error!r}") from None

    def text(self, file: str) -> str:
        sides = self._sides()
        role, _, kind = file.rpartition(".")
        if role in sides and kind in ("out", "err"):
            return sides[role].out if kind == "out" else sides[role].err
        return next((side.files[file] for side in sides.values() if file in side.files), "")

    def places_to_judge(self) -> Sequence[Case]:
        """Those that came to an end; of the others it is said why not."""
        judged = []
        for place in self.places:
            if self._absent.keys() & set(place.nodes):
                judged.append(place)
                continue
            if place.place in self.not_run or place.place not in self._numbers:
                continue
            event = self._raw.places.get(self._numbers[place.place])
            if event is None:
                self.not_run[place.place] = "its job ended before it"
            elif event["outcome"] == "refused":
                self.not_run[place.place] = event["why"]
            else:
                judged.append(place)
        return judged

    def judge_place(self, place: Case) -> Judged:
        absent = [self._absent[node] for node in place.nodes if node in self._absent]
        if not absent:
            return super().judge_place(place)
        self.here = place
        evidence = dataclasses.replace(self._whole(), nodes=place.nodes)
        return Judged(place, evidence, absent)

    def is_settled(self) -> bool:
        return True

    def _evidence(self) -> tuple[Evidence, list[Failure]]:
        evidence, found = super()._evidence()
        event = self._raw.places[self._numbers[self.here.place]]
        if event["outcome"] != "done" and not evidence.missing_program:
            lost = tuple(node for node in self.here.nodes if node in self._raw.lost)
            kind = "silent-node" if lost else "no-exit-line"
            step = f"scontrol show node {hostlist.fold(lost)}" if lost else ""
            found.append(Failure(kind, f"{event['outcome']}: {event['why']}", lost, step))
        return evidence, found

    def job_failures(self) -> Sequence[Failure]:
        """Of a job that did not come to its own end."""
        end = self._raw.end
        if end is None and not self._raw.places:
            # Nothing of it began.
            return protections.failures_of_job(self._whole(), began=False)
        found = protections.failures_of_job(self._whole(), began=True)
        if not found and (end is None or end["why"]):
            why = end["why"] if end else "it left no end"
            found.append(Failure("no-exit-line", f"the conductor of the sweep: {why}"))
        return found

    def _whole(self) -> Evidence:
        """What is known of the job, without its places."""
        calls = [
            Call(**side.line["call"])
            for sides in self._raw.sides.values()
            for side in sides.values()
            if isinstance(side.line.get("call"), dict)
        ]
        return Evidence(
            job_id=self.job.jobid,
            job_state=self._job_state,
            job_exit_code=self.job.exitcode,
            job_error=self._job_error,
            tool_errors={},
            left_output=self._left_output,
            failed_nodes=self._failed_nodes(tuple(self.pinned_nodes)),
            nodes=tuple(self.pinned_nodes),
            ranks=0,
            calls=tuple(calls),
            reading=None,
            expected={},
            expected_on={},
            seen_on={},
            required=(),
            limits={},
            references={},
            recorded=frozenset(),
            budgets=(),
            acceptance=self.gate == "acceptance",
        )

    # --- for ReFrame ---------------------------------------------------------------------------

    def complaints(self) -> list[str]:
        bad = [judged for judged in self.results if judged.failures]
        told = [f"{j.place.place}: {j.failures[0].message}" for j in bad[:_SHOWN]]
        more = [f"and {len(bad) - _SHOWN} more places"] if len(bad) > _SHOWN else []
        reasons = dict.fromkeys(self.not_run.values())
        left = [
            f"{sum(r == why for r in self.not_run.values())} places not measured: {why}"
            for why in reasons
        ]
        return [*told, *more, *left]

    def numbers(self) -> Mapping[str, tuple[float, str, Reference | None]]:
        """Of each condition the worst, the median, and how many places failed."""
        measured: dict[str, list[tuple[float, str, Reference | None]]] = {}
        for judged in self.results:
            label = "_".join(_word(part) for part in judged.place.condition if part is not None)
            for m in judged.evidence.measurements:
                name = f"{m.variable}_{label}" if label else m.variable
                reference = judged.evidence.references.get(m.variable)
                measured.setdefault(name, []).append((m.value, m.unit, reference))
        shown: dict[str, tuple[float, str, Reference | None]] = {}
        for name, numbers in measured.items():
            worst = min(numbers, key=_margin)
            shown[f"{name}_worst"] = worst
            shown[f"{name}_median"] = (statistics.median(n for n, _, _ in numbers), worst[1], None)
        failed = sum(not judged.passed for judged in self.results)
        shown["places_failed"] = (failed + len(self.not_run), "1", None)
        return shown


def _word(part: object) -> str:
    text = "+".join(map(str, part)) if isinstance(part, tuple) else str(part)
    return "".join(c if c.isalnum() else "_" for c in text)


def _margin(number: tuple[float, str, Reference | None]) -> float:
    """How far a number is within its bounds, as a share of its reference; the least is worst."""
    value, _, reference = number
    if reference is None or not reference.value:
        return value
    away = [
        (value - reference.lowest) if reference.lowest is not None else None,
        (reference.highest - value) if reference.highest is not None else None,
    ]
    known = [distance for distance in away if distance is not None]
    return min(known) / abs(reference.value) if known else value
