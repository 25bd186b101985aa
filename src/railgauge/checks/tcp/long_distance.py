"""Checks of TCP over a long way, and over a bond."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reframe.core.builtins import variable

from railgauge.checks.framework.cases import Case, WanCase, is_series
from railgauge.checks.framework.observation import Facts
from railgauge.checks.jobs.client_server import PairCases, PairCheck, neighbours
from railgauge.checks.preflight.node_state import of_links
from railgauge.common.spread import jain
from railgauge.model import limits
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.node.orders.places import ClientServerOrder, LinkOrder, WanOrder
from railgauge.systems import Bond, Partition, Wan
from railgauge.tools import Reading, iperf2


def over_long_way(
    order: ClientServerOrder, wan: Wan, round_trip_ms: float, slack_ms: float
) -> ClientServerOrder:
    """The order, over a path that the job makes as long as it should be, and that may be so much
    longer.
    """
    emulated = WanOrder(
        set=tuple(wan.set),
        clear=tuple(wan.clear),
        ends=wan.ends,
        round_trip_ms=round_trip_ms,
        reorder_percent=wan.reorder_percent,
    )
    most_ms = round_trip_ms + slack_ms
    return dataclasses.replace(order, wan=emulated, round_trip_most_ms=most_ms)


def of_another_length(
    client_facts: Mapping[str, Any], nodes: Sequence[str], wanted_ms: float, slack_ms: float
) -> list[Failure]:
    """The way must be as long as was asked for, or every number is about another one.

    `client_facts` are those of the side that measured the round trip.
    """
    measured = client_facts.get("rtt_ms")
    if measured is None:
        return [Failure("condition", f"no round trip: {client_facts.get('rtt_unknown')}")]
    if wanted_ms * 0.98 <= measured <= wanted_ms + slack_ms:
        return []
    return [
        Failure(
            "condition",
            f"the round trip between {' and '.join(nodes)} takes {measured:g} ms, expected "
            f"{wanted_ms:g} to {wanted_ms + slack_ms:g}",
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


class WanCheck(PairCheck):
    """One TCP stream over a way that the job makes as long as it should be.

    A concrete check gives its own `cases = WanCases()`.
    """

    here: WanCase
    tool = iperf2
    metrics = ["bandwidth", "rtt", "time_to_stable"]
    helpers = (("tc", "-V"), ("ping", "-V"))
    #: the round trip may be this much longer than asked for: the path's own, and a busy machine's
    slack_ms = variable(float, value=15.0)

    @property
    def wan(self) -> Wan:
        return _wan(self.partition_data)

    @property
    def round_trip_ms(self) -> float:
        return self.here.round_trip_ms

    @property
    def options(self) -> iperf2.Options:
        return iperf2.Options(
            streams=1,
            duration_s=self.wan.duration_s,
            window_bytes=self.here.window_bytes,
            congestion=self.here.congestion,
            interval_s=0.5,
            drain_s=5,
        )

    def requested(self) -> Mapping[str, Any]:
        return iperf2.requested(self.options)

    def expected_path(self) -> dict[str, Any]:
        # The emulation is the job's own.
        return {n: v for n, v in super().expected_path().items() if n != "emulation"}

    def commands(self) -> Mapping[str, list[str]]:
        return iperf2.commands(self.options)

    def order(self) -> ClientServerOrder:
        return over_long_way(super().order(), self.wan, self.round_trip_ms, self.slack_ms)

    def expected_run_s(self) -> float:
        return self.wan.duration_s + 1

    def run_limit_s(self) -> int:
        return self.wan.duration_s + 30

    # --- what it left --------------------------------------------------------------------------

    def reading(self, calls: Sequence[Call], facts: Facts, prefix: str = "") -> Reading:
        reading = super().reading(calls, facts, prefix)
        measured = [
            dataclasses.replace(m, delay_ms=self.round_trip_ms) for m in reading.measurements
        ]
        round_trip = facts.get(self.client_node, {}).get("rtt_ms")
        if measured and round_trip is not None:
            measured.append(dataclasses.replace(measured[0], metric="rtt", value=round_trip))
        return dataclasses.replace(reading, measurements=tuple(measured))

    def violations(self, calls: Sequence[Call], facts: Facts) -> Sequence[Failure]:
        client_facts, nodes = facts.get(self.client_node, {}), (self.client_node, self.server_node)
        return [
            *super().violations(calls, facts),
            *of_another_length(client_facts, nodes, self.round_trip_ms, self.slack_ms),
        ]

    def limit(self, measurement: Measurement) -> Limit | None:
        """The limit of one window per round trip, or of the link if that is less."""
        if measurement.metric != "bandwidth":
            return None
        path = self.partition_data.extras
        known = []
        if path.link_gbits and path.mtu_bytes:
            known.append(limits.tcp(path.link_gbits, path.mtu_bytes))
        facts = self.observed.facts if self.observed else {}
        echoes = facts.get(self.client_node, {}).get("rtt_echoes_ms")
        window = self._window_bytes(facts)
        if window and echoes:
            # More than by the shortest of all is impossible.
            known.append(limits.tcp_window(window, min(echoes) / 1e3))
        return min(known, key=lambda limit: limit.value, default=None)

    def _window_bytes(self, facts: Facts) -> int | None:
        """The largest window that the kernels' limits allow.

        What a socket asks for is capped by net.core.rmem_max and wmem_max, and doubled (socket(7));
        left alone it grows to the last of tcp_rmem and tcp_wmem (tcp(7)).
        """
        wanted = self.options.window_bytes
        buffers: list[int | None] = []
        for node, kind in ((self.client_node, "wmem"), (self.server_node, "rmem")):
            node_facts = facts.get(node, {})
            if wanted is None:
                buffers.append(node_facts.get(f"tcp_{kind}_max_bytes"))
            elif f"{kind}_max_bytes" in node_facts:
                buffers.append(2 * min(wanted, node_facts[f"{kind}_max_bytes"]))
        known = [size for size in buffers if size is not None]
        return min(known) if len(known) == 2 else None


class BondCheck(PairCheck):
    """Many TCP streams over a bond: both links carry their part.

    A concrete check gives its own `cases = RingPairs("bond")`.
    """

    tool = iperf2
    metrics = ["bandwidth", "jain_index"]
    #: its numbers tell what another firmware or tuning than expected costs
    stopped_by = frozenset({"path"})
    duration_s = variable(int, value=4, loggable=True)

    @property
    def bond(self) -> Bond:
        bond = self.partition_data.extras.bond
        assert bond is not None
        return bond

    @property
    def options(self) -> iperf2.Options:
        return iperf2.Options(streams=self.bond.streams, duration_s=self.duration_s, drain_s=5)

    def needs(self, place: Case) -> Sequence[tuple[str, str]]:
        return of_links(place)

    def requested(self) -> Mapping[str, Any]:
        return iperf2.requested(self.options)

    def expected_path(self) -> dict[str, Any]:
        return {"emulation": "none", "mtu_bytes": self.bond.mtu_bytes}

    def commands(self) -> Mapping[str, list[str]]:
        return iperf2.commands(self.options)

    def link(self) -> LinkOrder:
        return LinkOrder(interface=self.bond.device)

    def expected_run_s(self) -> float:
        return float(self.duration_s) + 1

    def run_limit_s(self) -> int:
        return int(self.duration_s) + 30

    def reading(self, calls: Sequence[Call], facts: Facts, prefix: str = "") -> Reading:
        reading = super().reading(calls, facts, prefix)
        measured = list(reading.measurements)
        # What each link of the sender's bond carried during the test.
        moved = facts.get(self.client_node, {}).get("counters", {}).get("bytes", {})
        sent = [moved[link]["tx"] for link in self.bond.links if "tx" in moved.get(link, {})]
        if measured and len(sent) == len(self.bond.links) and any(sent):
            measured.append(dataclasses.replace(measured[0], metric="jain_index", value=jain(sent)))
        return dataclasses.replace(reading, measurements=tuple(measured))

    def limit(self, measurement: Measurement) -> Limit | None:
        if measurement.unit != "Gb/s":
            return None
        bond = self.bond
        return limits.tcp(bond.link_gbits * len(bond.links), bond.mtu_bytes)
