"""Checks of a node's logical NICs: each alone, and several at once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import reframe.core.runtime as rt
from reframe.core.builtins import run_after

from railgauge import limits, systems
from railgauge.checks.base import ExitLine
from railgauge.checks.pair import PairCheck, neighbours
from railgauge.checks.protections import Failure
from railgauge.checks.wan import SERIES_VARIABLE, tcp_commands
from railgauge.limits import Limit
from railgauge.measurement import Measurement
from railgauge.node.counters import jain
from railgauge.systems import Nics, NicScale
from railgauge.tools import Call, Completeness, ParseError, Reading, iperf2

#: What the tool says it moved over a NIC, the NIC itself must have counted, headers beside it.
_COUNTED = 0.99


def nic_cases(scale: NicScale) -> list[str]:
    """`partition:server:client:NIC+NIC:SETTING`, as each partition's extras.nics lists them."""
    series = bool(os.environ.get(SERIES_VARIABLE))
    cases = []
    for pair in neighbours("nics"):
        nics = systems.load(rt.runtime().system.name).partition(pair.partition(":")[0]).extras.nics
        assert nics is not None  # a partition with the feature has it
        if series or not nics.only_series:
            cases += [
                f"{pair}:{'+'.join(names)}:{setting}"
                for names in nics.at_once(scale)
                for setting in nics.settings
            ]
    return cases


class NicsCheck(PairCheck):
    """iperf2 over some logical NICs of two nodes at the same time, over each to its peer.

    A concrete check gives its own `pair = parameter(nic_cases(...))`. The bandwidth is what all of
    them delivered, divided by the time from the start of the first to the end of the last: it is
    too small where they did not run at once, and never too large.
    """

    tool = iperf2
    metrics = ["bandwidth", "stream_bandwidth_min"]

    @property
    def nics(self) -> Nics:
        found = self.partition_data.extras.nics
        assert found is not None
        return found

    @property
    def names(self) -> list[str]:
        return str(self.pair).split(":")[3].split("+")

    @property
    def options(self) -> iperf2.Options:
        asked = self.nics.settings[str(self.pair).split(":")[4]]
        return iperf2.Options(
            streams=asked.streams,
            duration_s=self.nics.duration_s,
            window_bytes=asked.window_bytes,
            congestion=asked.congestion,
            drain_s=5,
        )

    @run_after("setup")
    def expect(self) -> None:
        self.expected = {"streams": self.options.streams}
        if self.options.congestion:
            self.expected["congestion"] = self.options.congestion

    def expected_path(self) -> dict[str, Any]:
        return {"emulation": "none", "mtu_bytes": self.nics.mtu_bytes}

    def commands(self) -> Mapping[str, list[str]]:
        commands = tcp_commands(self.options)
        # For nodes whose routes depend on the sender's address.
        return {**commands, "client": [*commands["client"], "-B", "{own_address}"]}

    def way(self) -> Mapping[str, Any]:
        return {"ways": [{"interface": name} for name in self.names]}

    def expected_run_s(self) -> float:
        return float(self.nics.duration_s) + 1

    def run_limit_s(self) -> int:
        return int(self.nics.duration_s) + 30

    # --- what it left --------------------------------------------------------------------------

    def lines(self, side: str) -> list[ExitLine | None]:
        """The exit lines of a side, NIC by NIC."""
        return [self.exit_line(f"{side}{number}") for number in range(len(self.names))]

    def sides(self) -> list[ExitLine]:
        return [line for side in ("server", "client") for line in self.lines(side) if line]

    def read(self) -> tuple[Reading, Sequence[Call]]:
        readings = [self._read(number) for number in range(len(self.names))]
        refused = [
            f"{name}: {reading.reason}"
            for name, reading in zip(self.names, readings, strict=True)
            if not reading.ok
        ]
        if refused:
            return Reading.refused("; ".join(refused)), self.calls()
        unproved = [r for r in readings if r.completeness is not Completeness.PROVED]
        return Reading(
            True,
            unproved[0].reason if unproved else f"{len(readings)} NICs: {readings[0].reason}",
            unproved[0].completeness if unproved else Completeness.PROVED,
            tuple(self._measured(readings)),
            {name: _together([r.seen.get(name) for r in readings]) for name in self.expected},
        ), self.calls()

    def _read(self, number: int) -> Reading:
        """What went over one NIC."""
        calls = [
            dataclasses.replace(line.call, role=side)
            for side in ("server", "client")
            if (line := self.lines(side)[number])
        ]
        return iperf2.read(
            self.output(f"client{number}"),
            server=self.output(f"server{number}"),
            calls=calls,
            options=self.options,
        )

    def _measured(self, readings: Sequence[Reading]) -> list[Measurement]:
        by_metric: dict[str, list[Measurement]] = {}
        for reading in readings:
            for m in reading.measurements:
                by_metric.setdefault(m.metric, []).append(m)
        like = dataclasses.replace(by_metric["bandwidth"][0], nics="+".join(self.names))
        found = {
            "bandwidth": 8e-9 * sum(self.delivered_bytes().values()) / self._span_s(),
            "stream_bandwidth_min": min(m.value for m in by_metric["stream_bandwidth_min"]),
        }
        again = by_metric.get("retransmits", [])
        if len(again) == len(readings):
            found["retransmits"] = sum(m.value for m in again)
        sent = self._counted_bytes("client", "tx")
        if len(self.names) > 1 and len(sent) == len(self.names) and any(sent.values()):
            found["jain_index"] = jain(list(sent.values()))
        return [dataclasses.replace(like, metric=name, value=v) for name, v in found.items()]

    def _span_s(self) -> float:
        client = self.lines("client")[0]
        span = client.facts.get("span_s", 0) if client else 0
        if not span > 0:
            raise ParseError(0, "no time from the first start to the last end", "span_s")
        return float(span)

    def delivered_bytes(self) -> dict[str, int]:
        """What the server of each NIC received; nothing of a NIC whose output is no result."""
        found = {}
        for number, name in enumerate(self.names):
            try:
                found[name] = iperf2.parse(self.output(f"server{number}")).total.transferred_bytes
            except ParseError:
                continue
        return found

    def _counted_bytes(self, side: str, direction: str) -> dict[str, int]:
        """What each NIC of a side counted itself, where it did."""
        first = self.lines(side)[0]
        moved = first.facts.get("counters", {}).get("bytes", {}) if first else {}
        return {n: moved[n][direction] for n in self.names if direction in moved.get(n, {})}

    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """Of each node once; what differs between its NICs, NIC by NIC."""
        of_node: dict[str, list[Mapping[str, Any]]] = {}
        for line in self.sides():
            of_node.setdefault(line.call.host, []).append(line.facts)
        return {node: _merged(of_nics) for node, of_nics in of_node.items()}

    def violations(self, facts: Mapping[str, Mapping[str, Any]]) -> Sequence[Failure]:
        found = [
            failure
            for line in self.sides()
            for failure in super(NicsCheck, self).violations({line.call.host: line.facts})
        ]
        return [*found, *self._elsewhere(), *self._uneven()]

    def _elsewhere(self) -> list[Failure]:
        """Bytes that took another way than the NIC they were meant for."""
        found = []
        delivered = self.delivered_bytes()
        ends = (("client", "tx", self.client_node), ("server", "rx", self.server_node))
        for side, direction, node in ends:
            counted = self._counted_bytes(side, direction)
            for name, moved in delivered.items():
                if name not in counted:
                    message = f"{name} of {node} has no count of the bytes that it carried"
                    found.append(Failure("nic-uncounted", message, (node,)))
                elif counted[name] < _COUNTED * moved:
                    message = (
                        f"{name} of {node} counted {counted[name] / 1e6:.4g} MB of the "
                        f"{moved / 1e6:.4g} MB that iperf2 moved over it: they took another way"
                    )
                    step = "give every NIC a subnet of its own, or routes by the sender's address"
                    found.append(Failure("nic-bypassed", message, (node,), step))
        return found

    def _uneven(self) -> list[Failure]:
        """A NIC that carried nothing, or far less than its peers in the same time."""
        delivered = self.delivered_bytes()
        carried = {name: delivered.get(name, 0) for name in self.names}
        most = max(carried, key=lambda name: carried[name])
        return [
            Failure(
                "nic-slow",
                f"{name} between {self.client_node} and {self.server_node} carried "
                f"{carried[name] / 1e6:.4g} MB while {most} carried {carried[most] / 1e6:.4g} MB: "
                f"at least {self.nics.least_share:.0%} of that expected",
                next_step=f"measure {name} alone (NicPair), look at its PCIe link, cable and port",
            )
            for name in self.names
            if carried[name] < self.nics.least_share * carried[most]
        ]

    def limit(self, measurement: Measurement) -> Limit | None:
        if measurement.unit != "Gb/s":
            return None
        nics, chosen = self.nics, self.names
        cables = sum(bool(set(cable) & set(chosen)) for cable in nics.cables)
        known = [
            nics.nic_gbits and nics.nic_gbits * len(chosen),
            nics.cable_gbits and nics.cable_gbits * cables,
            nics.node_gbits,
        ]
        gbits = min((rate for rate in known if rate), default=None)
        return limits.tcp(gbits, nics.mtu_bytes) if gbits else None


#: What a side says of all its NICs together, with the first.
_SAID_ONCE = ("counters", "span_s")


def _together(values: Sequence[Any]) -> Any:
    """The one value, or all where they differ."""
    return values[0] if all(value == values[0] for value in values) else list(values)


def _merged(of_nics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a node says of several NICs as one: a value, or `4200 (eth1), 1500 (eth2)`."""
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for said in of_nics for name in said):
        once = name in _SAID_ONCE
        told = [
            (said.get("device", "?"), said.get(name, "not stated"))
            for said in of_nics
            if name in said or not once
        ]
        if name == "device":
            merged[name] = "+".join(device for device, _ in told)
        elif name == "sampled":
            merged[name] = sorted({device for said in of_nics for device in said.get(name, ())})
        elif all(value == told[0][1] for _, value in told):
            merged[name] = told[0][1]
        else:
            merged[name] = ", ".join(f"{value} ({device})" for device, value in told)
    return merged
