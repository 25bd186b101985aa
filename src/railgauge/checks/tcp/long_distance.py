"""Checks of TCP over a long way, and over a bond."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from railgauge.checks.framework.cases import PairCase, WanCase, is_series
from railgauge.checks.framework.observation import Facts
from railgauge.checks.framework.place_run import PlaceOutput
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.client_server import PairRun, RunPart
from railgauge.checks.jobs.pairs import PairCases, neighbours
from railgauge.checks.tcp.streams import link_limit, stream_run
from railgauge.common.spread import jain
from railgauge.model import limits
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.node.orders.places import ClientServerOrder, LinkOrder, WanOrder
from railgauge.systems import Partition, Wan
from railgauge.tools import Reading, iperf2

#: iperf2, and what makes a way long and measures how long it is.
WAN_PROGRAMS = Programs(iperf2, helpers=[("tc", "-V"), ("ping", "-V")])

#: A round trip may be this much longer than asked for: the path's own, and a busy machine's.
_SLACK_MS = 15.0


@dataclasses.dataclass(frozen=True)
class LongWay(RunPart):
    """A path that the job makes as long as it should be, between these nodes."""

    place: PairCase
    wan: Wan
    round_trip_ms: float
    #: whether no round trip is a failure also where a program is missing, and nothing ran
    always: bool = True

    def order(self, order: ClientServerOrder) -> ClientServerOrder:
        wan = self.wan
        emulated = WanOrder(
            set=tuple(wan.set),
            clear=tuple(wan.clear),
            ends=wan.ends,
            round_trip_ms=self.round_trip_ms,
            reorder_percent=wan.reorder_percent,
        )
        most_ms = self.round_trip_ms + _SLACK_MS
        return dataclasses.replace(order, wan=emulated, round_trip_most_ms=most_ms)

    def reading(self, reading: Reading, facts: Facts) -> Reading:
        delayed = tuple(
            dataclasses.replace(m, delay_ms=self.round_trip_ms) for m in reading.measurements
        )
        return dataclasses.replace(reading, measurements=delayed)

    def failures(self, calls: Sequence[Call], facts: Facts, left: PlaceOutput) -> Sequence[Failure]:
        if not self.always and any("missing" in node_facts for node_facts in facts.values()):
            return ()
        nodes = self.place.client, self.place.server
        client_facts = facts.get(self.place.client, {})
        return of_another_length(client_facts, nodes, self.round_trip_ms)


@dataclasses.dataclass(frozen=True)
class NumberOfNodes(RunPart):
    """A number that follows from what nodes stated, in addition to those of the tool."""

    metric: str
    #: its value; None where they did not state it
    find: Callable[[Facts], float | None]

    def reading(self, reading: Reading, facts: Facts) -> Reading:
        value = self.find(facts)
        if value is None or not reading.measurements:
            return reading
        number = dataclasses.replace(reading.measurements[0], metric=self.metric, value=value)
        return dataclasses.replace(reading, measurements=(*reading.measurements, number))


def of_another_length(
    client_facts: Mapping[str, Any], nodes: Sequence[str], wanted_ms: float
) -> list[Failure]:
    """The way must be as long as was asked for, or every number is about another one.

    `client_facts` are those of the side that measured the round trip.
    """
    measured = client_facts.get("rtt_ms")
    if measured is None:
        return [Failure("condition", f"no round trip: {client_facts.get('rtt_unknown')}")]
    if wanted_ms * 0.98 <= measured <= wanted_ms + _SLACK_MS:
        return []
    return [
        Failure(
            "condition",
            f"the round trip between {' and '.join(nodes)} takes {measured:g} ms, expected "
            f"{wanted_ms:g} to {wanted_ms + _SLACK_MS:g}",
        )
    ]


class WanCases(PairCases[WanCase]):
    """Long ways between neighbours, as each partition's data lists them.

    With RAILGAUGE_SERIES set, the series of round trips is measured too.
    """

    described = "one that extras.wan has"

    def __init__(self) -> None:
        super().__init__("wan")

    def on(self, partition: Partition) -> Iterable[WanCase]:
        wan = _wan(partition)
        round_trips = sorted({*wan.round_trips_ms, *(wan.series_ms if is_series() else ())})
        return [
            WanCase(*pair.ends, *way)
            for pair in neighbours(partition)
            for way in itertools.product(round_trips, wan.window_bytes, wan.congestion)
        ]

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        wan = _wan(partition)
        return {
            "delay_ms": [*wan.round_trips_ms, *wan.series_ms, "any"],
            "window_bytes": wan.window_bytes,
            "congestion": wan.congestion,
        }


def _wan(partition: Partition) -> Wan:
    wan = partition.extras.wan
    assert wan is not None  # a partition with the feature has it
    return wan


def wan_run(place: WanCase, partition: Partition) -> PairRun:
    """One TCP stream over a way that the job makes as long as it should be."""
    wan = _wan(partition)
    round_trip = NumberOfNodes("rtt", lambda facts: facts.get(place.client, {}).get("rtt_ms"))
    options = iperf2.Options(
        streams=1,
        duration_s=wan.duration_s,
        window_bytes=place.window_bytes,
        congestion=place.congestion,
        interval_s=0.5,
        drain_s=5,
    )
    run = stream_run(
        *(place, partition, options),
        run_limit_s=wan.duration_s + 30,
        limit_of=functools.partial(_wan_limit, place, partition),
        parts=(LongWay(place, wan, place.round_trip_ms), round_trip),
    )
    return without_emulation(run)


def without_emulation(run: PairRun) -> PairRun:
    """The run, whose emulation is the job's own: no fact of the nodes' path."""
    path = {name: value for name, value in run.states_of_nodes.items() if name != "emulation"}
    return dataclasses.replace(run, path=path)


def _wan_limit(
    place: WanCase, partition: Partition, measurement: Measurement, facts: Facts
) -> Limit | None:
    """The limit of one window per round trip, or of the link if that is less."""
    if measurement.metric != "bandwidth":
        return None
    path = partition.extras
    known = []
    if path.link_gbits and path.mtu_bytes:
        known.append(limits.tcp(path.link_gbits, path.mtu_bytes))
    echoes = facts.get(place.client, {}).get("rtt_echoes_ms")
    window = _window_bytes(place, facts)
    if window and echoes:
        # More than by the shortest of all is impossible.
        known.append(limits.tcp_window(window, min(echoes) / 1e3))
    return min(known, key=lambda limit: limit.value, default=None)


def _window_bytes(place: WanCase, facts: Facts) -> int | None:
    """The largest window that the kernels' limits allow.

    What a socket asks for is capped by net.core.rmem_max and wmem_max, and doubled (socket(7));
    left alone it grows to the last of tcp_rmem and tcp_wmem (tcp(7)).
    """
    wanted = place.window_bytes
    buffers: list[int | None] = []
    for node, kind in ((place.client, "wmem"), (place.server, "rmem")):
        node_facts = facts.get(node, {})
        if wanted is None:
            buffers.append(node_facts.get(f"tcp_{kind}_max_bytes"))
        elif f"{kind}_max_bytes" in node_facts:
            buffers.append(2 * min(wanted, node_facts[f"{kind}_max_bytes"]))
    known = [size for size in buffers if size is not None]
    return min(known) if len(known) == 2 else None


def _balance(client: str, links: Sequence[str], facts: Facts) -> float | None:
    """Jain's index of what each link of the sender's bond carried during the test."""
    moved = facts.get(client, {}).get("counters", {}).get("bytes", {})
    sent = [moved[link]["tx"] for link in links if "tx" in moved.get(link, {})]
    return jain(sent) if len(sent) == len(links) and any(sent) else None


def bond_run(place: PairCase, partition: Partition, duration_s: int) -> PairRun:
    """Many TCP streams over a bond."""
    bond = partition.extras.bond
    assert bond is not None
    return stream_run(
        *(place, partition),
        iperf2.Options(streams=bond.streams, duration_s=duration_s, drain_s=5),
        run_limit_s=duration_s + 30,
        path={"emulation": "none", "mtu_bytes": bond.mtu_bytes},
        link=LinkOrder(interface=bond.device),
        parts=[NumberOfNodes("jain_index", functools.partial(_balance, place.client, bond.links))],
        limit_of=link_limit(bond.link_gbits * len(bond.links), bond.mtu_bytes),
    )
