"""Checks of a node's logical NICs: each alone, and several at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from railgauge.checks.framework.cases import (
    LeftOut,
    Mismatch,
    NicCase,
    is_series,
    left_to_the_series,
    mismatch_of_settings,
)
from railgauge.checks.framework.observation import Observation, as_one
from railgauge.checks.framework.place_run import BoundBefore, PlaceOutput
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.client_server import PairRun
from railgauge.checks.jobs.pairs import PairCases, neighbours
from railgauge.checks.jobs.parallel_links import Lane, lanes_of, observed
from railgauge.checks.tcp.streams import link_limit, stream_run
from railgauge.common.spread import jain
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition
from railgauge.node.orders.places import LinkOrder
from railgauge.systems import Nics, NicScale, Partition
from railgauge.tools import ParseError, iperf2

#: iperf2, and what tells the speed of a NIC.
PROGRAMS = Programs(iperf2, helpers=[("ethtool", "--version")])


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

    def leaves_out(self, partition: Partition) -> Sequence[LeftOut]:
        only = _nics(partition).series_only
        return (left_to_the_series("extras.nics.series_only"),) if only else ()

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


def nics_run(place: NicCase, partition: Partition) -> PairRun:
    """iperf2 over some logical NICs of two nodes at the same time, over each to its peer.

    The bandwidth is what all of them delivered, divided by the time from the start of the first to
    the end of the last: it is too small where they did not run at once, and never too large.
    """
    nics = _nics(partition)
    setting = nics.settings[place.setting]
    options = iperf2.Options(
        streams=setting.streams,
        duration_s=nics.duration_s,
        window_bytes=setting.window_bytes,
        congestion=setting.congestion,
        drain_s=5,
    )
    run = stream_run(place, partition, options, run_limit_s=int(nics.duration_s) + 30)
    # For nodes whose routes depend on the sender's address.
    client = [*run.tool.client, "-B", "{own_address}"]
    gbits = nics.gbits(place.nics)
    return dataclasses.replace(
        run,
        tool=dataclasses.replace(run.tool, client=client),
        path={"emulation": "none", "mtu_bytes": nics.mtu_bytes},
        links=[LinkOrder(interface=name) for name in place.nics],
        limit_of=link_limit(gbits, nics.mtu_bytes),
        judge=_judge,
    )


def _judge(run: PairRun, left: PlaceOutput, bound: BoundBefore) -> Observation:
    assert isinstance(run.place, NicCase)
    names = run.place.nics
    nics = lanes_of(left, run.tool, names)
    between = f"{run.place.client} and {run.place.server}"
    carried = {nic.name: _delivered_bytes(nic) for nic in nics}
    failures = uneven(between, carried, _nics(run.partition).least_share)
    readings = {nic.name: nic.reading for nic in nics}
    reading = as_one(readings, "NICs", lambda: _measured(nics), run.states)
    return observed(run, nics, reading, failures)


def _measured(nics: Sequence[Lane]) -> list[Measurement]:
    by_metric: dict[str, list[Measurement]] = {}
    for nic in nics:
        for m in nic.reading.measurements:
            by_metric.setdefault(m.metric, []).append(m)
    names = [nic.name for nic in nics]
    like = dataclasses.replace(by_metric["bandwidth"][0], nics="+".join(names))
    # What a side states of all its NICs together stands with the first.
    facts = nics[0].facts("client")
    span_s = facts.get("span_s", 0)
    if not span_s > 0:
        raise ParseError(0, "no time from the first start to the last end", "span_s")
    values = {
        "bandwidth": 8e-9 * sum(map(_delivered_bytes, nics)) / span_s,
        "stream_bandwidth_min": min(m.value for m in by_metric["stream_bandwidth_min"]),
    }
    again = by_metric.get("retransmits", [])
    if len(again) == len(nics):
        values["retransmits"] = sum(m.value for m in again)
    counted = facts.get("counters", {}).get("bytes", {})
    sent = [counted[name]["tx"] for name in names if "tx" in counted.get(name, {})]
    if len(names) > 1 and len(sent) == len(names) and any(sent):
        values["jain_index"] = jain(sent)
    return [dataclasses.replace(like, metric=name, value=v) for name, v in values.items()]


def _delivered_bytes(nic: Lane) -> int:
    """What the server received over a NIC; 0 where an output is no result."""
    return sum(moved.payload_bytes for moved in nic.reading.moved)


def uneven(between: str, carried: Mapping[str, int], least_share: float) -> list[Failure]:
    """Failures of NICs that carried no bytes, or far fewer than the busiest in the same time."""
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
