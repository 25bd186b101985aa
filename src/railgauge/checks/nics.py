"""Checks of a node's logical NICs: each alone, and several at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reframe.core.builtins import run_after

from railgauge import limits
from railgauge.checks.base import ExitLine
from railgauge.checks.cases import Mismatch, NicCase, mismatch_of_settings
from railgauge.checks.pair import PairCases, PairCheck, neighbours
from railgauge.checks.wan import is_series, tcp_commands
from railgauge.limits import Limit
from railgauge.measurement import Measurement
from railgauge.model.claim import Claim
from railgauge.model.failure import Failure
from railgauge.node.counters import jain
from railgauge.references import Condition
from railgauge.systems import Nics, NicScale, Partition
from railgauge.tools import Call, Completeness, ParseError, Reading, iperf2


class NicCases(PairCases[NicCase]):
    """The NICs of neighbours, with every setting, as each partition's extras.nics lists them."""

    def __init__(self, scale: NicScale) -> None:
        super().__init__("nics")
        self.scale = scale

    def on(self, partition: Partition) -> Iterable[NicCase]:
        nics = _nics(partition)
        if nics.series_only and not is_series():
            return []
        return [
            NicCase(*pair.ends, tuple(names), setting)
            for pair in neighbours(partition)
            for names in nics.at_once(self.scale)
            for setting in nics.settings
        ]

    def lacks_description(self, partition: Partition) -> str:
        nics = _nics(partition)
        if nics.at_once(self.scale):
            return ""
        return f"finds no such NICs in extras.nics.cables: {nics.cables}"

    def mismatch(self, condition: Condition, partition: Partition, gates: bool) -> Mismatch | None:
        if mismatch := super().mismatch(condition, partition, gates):
            return mismatch
        nics = _nics(partition)
        groups = ["+".join(names) for names in nics.at_once(self.scale)]
        if condition.nics is not None and condition.nics not in groups:
            return Mismatch(f"nics is {condition.nics!r}, expected one of {', '.join(groups)}")
        return mismatch_of_settings(condition, "nics", nics.settings)


def _nics(partition: Partition) -> Nics:
    nics = partition.extras.nics
    assert nics is not None  # a partition with the feature has it
    return nics


class NicsCheck(PairCheck):
    """iperf2 over some logical NICs of two nodes at the same time, over each to its peer.

    A concrete check gives its own `cases = NicCases(...)`. The bandwidth is what all
    of them delivered, divided by the time from the start of the first to the end of the last: it is
    too small where they did not run at once, and never too large.
    """

    tool = iperf2
    metrics = ["bandwidth", "stream_bandwidth_min"]

    @property
    def nics(self) -> Nics:
        return _nics(self.partition_data)

    @property
    def target(self) -> NicCase:
        found = self.pair
        assert isinstance(found, NicCase)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        return self.target.nics

    @property
    def options(self) -> iperf2.Options:
        asked = self.nics.settings[self.target.setting]
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
            {name: self._seen(name, readings) for name in self.expected},
        ), self.calls()

    def _seen(self, name: str, readings: Sequence[Reading]) -> Any:
        """The value that all NICs' readings state, or all values."""
        values = [reading.seen.get(name) for reading in readings]
        return values[0] if _same(values) else dict(zip(self.names, values, strict=True))

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
        found = {}
        for side in ("server", "client"):
            lines = zip(self.names, self.lines(side), strict=True)
            of_nics = {name: line for name, line in lines if line}
            for node in {line.call.host for line in of_nics.values()}:
                found[node] = _merged({name: line.facts for name, line in of_nics.items()})
        return found

    def claims(self, reading: Reading, facts: Mapping[str, Mapping[str, Any]]) -> Sequence[Claim]:
        """Of every NIC its own: all bytes may be there, and have taken another NIC."""
        found = []
        for number in range(len(self.names)):
            moved = self._read(number).moved
            for side, node in (("server", self.server_node), ("client", self.client_node)):
                line = self.lines(side)[number]
                said = line.facts if line else {}
                found.append(self.claim(moved, side, node, side == "server", said))
        return found

    def violations(self, facts: Mapping[str, Mapping[str, Any]]) -> Sequence[Failure]:
        found = [
            failure
            for line in self.sides()
            for failure in super(NicsCheck, self).violations({line.call.host: line.facts})
        ]
        delivered = self.delivered_bytes()
        between = f"{self.client_node} and {self.server_node}"
        carried = {name: delivered.get(name, 0) for name in self.names}
        return [*found, *uneven(between, carried, self.nics.least_share)]

    def limit(self, measurement: Measurement) -> Limit | None:
        if measurement.unit != "Gb/s":
            return None
        gbits = self.nics.gbits(self.names)
        return limits.tcp(gbits, self.nics.mtu_bytes) if gbits else None


def uneven(between: str, carried: Mapping[str, int], least_share: float) -> list[Failure]:
    """NICs that carried nothing, or far less than the busiest in the same time, in bytes."""
    most = max(carried, key=lambda name: carried[name])
    return [
        Failure(
            "nic-slow",
            f"{name} between {between} carried {moved / 1e6:.4g} MB while {most} carried "
            f"{carried[most] / 1e6:.4g} MB: at least {least_share:.0%} of that expected",
            next_step=f"measure {name} alone (NicPair); look at its PCIe link, cable and port",
        )
        for name, moved in carried.items()
        if moved < least_share * carried[most]
    ]


#: What a side says of all its NICs together, with the first.
_SAID_ONCE = ("counters", "span_s")


def _same(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _merged(of_nics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a node says of several NICs as one: a value, or `4200 (eth1), 1500 (eth2)`."""
    merged: dict[str, Any] = {}
    for fact in dict.fromkeys(fact for said in of_nics.values() for fact in said):
        told = {
            name: said.get(fact, "not stated")
            for name, said in of_nics.items()
            if fact in said or fact not in _SAID_ONCE
        }
        if fact == "sampled":
            merged[fact] = sorted({d for said in of_nics.values() for d in said.get(fact, ())})
        elif fact == "clock":
            # Of one node's clock over each call: that over which it was set, if it was.
            watched = [said[fact] for said in of_nics.values() if fact in said]
            merged[fact] = max(watched, key=lambda clock: abs(clock["moved_s"]))
        elif _same(list(told.values())):
            merged[fact] = next(iter(told.values()))
        else:
            merged[fact] = ", ".join(f"{value} ({name})" for name, value in told.items())
    return {**merged, "device": "+".join(of_nics)}
