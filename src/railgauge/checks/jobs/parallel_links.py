"""Several ways between two nodes that a tool runs on at the same time: what each left, and all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from railgauge.checks.framework.observation import ExitLine, Observation
from railgauge.checks.framework.place_run import PlaceOutput
from railgauge.checks.jobs.client_server import SIDES, PairRun, PairTool, link_failures
from railgauge.checks.jobs.pair_counters import side_claims
from railgauge.model.failure import Failure
from railgauge.tools import Reading


@dataclasses.dataclass(frozen=True)
class Lane:
    """The results on one way: its exit lines by side, and the reading of both outputs."""

    name: str
    lines: Mapping[str, ExitLine]
    reading: Reading

    def facts(self, side: str) -> Mapping[str, Any]:
        return self.lines[side].facts if side in self.lines else {}


def lanes_of(left: PlaceOutput, tool: PairTool, names: Iterable[str]) -> list[Lane]:
    """What a place left on its ways, by their names in the order of the orders' `ways`."""
    lanes = []
    for number, name in enumerate(names):
        lines = {side: line for side in SIDES if (line := left.exit_line(f"{side}{number}"))}
        calls = [dataclasses.replace(line.call, role=side) for side, line in lines.items()]
        client, server = (left.output(f"{side}{number}") for side in ("client", "server"))
        reading = tool.module.read(client, server=server, calls=calls, options=tool.options)
        lanes.append(Lane(name, lines, reading))
    return lanes


def observed(
    run: PairRun, lanes: Sequence[Lane], reading: Reading, failures: Sequence[Failure]
) -> Observation:
    """What is known of a place by all of its ways, with `failures` in addition to those of links.

    Each way has claims of its own: its bytes may have taken another one.
    """
    lines = exit_lines(lanes)
    of_links = [f for line in lines for f in link_failures({line.call.host: line.facts})]
    claims = [
        claim
        for lane in lanes
        for side in SIDES
        for claim in side_claims(run, lane.reading, side, lane.facts(side))
    ]
    calls = [line.call for line in lines]
    return Observation(reading, calls, facts_of(lanes), [*of_links, *failures], claims)


def exit_lines(lanes: Sequence[Lane]) -> list[ExitLine]:
    """Those of all servers, then those of all clients."""
    return [lane.lines[side] for side in SIDES for lane in lanes if side in lane.lines]


def facts_of(lanes: Sequence[Lane]) -> dict[str, dict[str, Any]]:
    """What each node states of all its ways, as one."""
    facts = {}
    for side in SIDES:
        stated = {lane.name: lane.lines[side] for lane in lanes if side in lane.lines}
        for node in {line.call.host for line in stated.values()}:
            facts[node] = merged_facts({name: line.facts for name, line in stated.items()})
    return facts


#: What a side says of all its ways together, with the first.
_SAID_ONCE = ("counters", "span_s")
#: What is of each call alone.
_OF_ONE = ("ended_s",)


def _same(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def merged_facts(of_ways: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A node's facts of several ways as one: a value, or `4200 (eth1), 1500 (eth2)`."""
    merged: dict[str, Any] = {}
    facts = dict.fromkeys(fact for of_way in of_ways.values() for fact in of_way)
    for fact in [fact for fact in facts if fact not in _OF_ONE]:
        by_way = {
            name: of_way.get(fact, "not stated")
            for name, of_way in of_ways.items()
            if fact in of_way or fact not in _SAID_ONCE
        }
        if fact == "sampled":
            merged[fact] = sorted({d for of_way in of_ways.values() for d in of_way.get(fact, ())})
        elif fact == "clock":
            # Of one node's clock over each call: that over which it was set, if it was.
            watched = [of_way[fact] for of_way in of_ways.values() if fact in of_way]
            merged[fact] = max(watched, key=lambda clock: abs(clock["moved_s"]))
        elif _same(list(by_way.values())):
            merged[fact] = next(iter(by_way.values()))
        else:
            merged[fact] = ", ".join(f"{value} ({name})" for name, value in by_way.items())
    return {**merged, "device": "+".join(of_ways)}
