"""Error counters: those that stand at their greatest value, and those that moved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.reading.counters import BITS, BITS_OF_OTHERS, TRAFFIC, Counted
from railgauge.fabric.subnet import PortId, Subnet

#: What healthy ports count too: data that congestion has discarded, multicast that goes nowhere.
HARMLESS = frozenset({"PortXmitDiscards", "PortRcvSwitchRelayErrors"})
#: A link that went down, or was trained again: each time counts.
LINK_EVENTS = frozenset({"LinkDownedCounter", "LinkErrorRecoveryCounter"})

_NO_THRESHOLDS = "save the counters again, with ibqueryerrors --threshold-file /dev/null"


def greatest(name: str, *values: int) -> int:
    """The value at which a counter stops, or behind which it wraps. One that was seen above what
    its name allows has 64 bits.
    """
    top = int(2 ** BITS.get(name, BITS_OF_OTHERS) - 1)
    return top if max(values, default=0) <= top else int(2**BITS_OF_OTHERS - 1)


def saturated(subnet: Subnet, counted: Counted) -> Iterator[FabricFinding]:
    """A note for each counter at its greatest value: it says nothing of now."""
    for port, values in counted.of_port.items():
        for name, value in values.items():
            if name in BITS and value == greatest(name, value):
                message = f"{name} stands at its greatest value, {value}: it says nothing of now"
                yield _stands(subnet, port, message)


def moved(
    subnet: Subnet, before: Counted, after: Counted, allowed: int = 0
) -> Iterator[FabricFinding]:
    """A finding for each error counter that moved between two readings: a note where it counted no
    more than `allowed`. A port or counter that is in one reading only counts from 0 there:
    ibqueryerrors leaves out what is 0.
    """
    for port, values in after.of_port.items():
        was: Mapping[str, int] = before.of_port.get(port, {})
        for name, value in values.items():
            if name in TRAFFIC:
                continue
            first = was.get(name, 0)
            if name in BITS and value == first == greatest(name, first, value):
                message = (
                    f"{name} stands at its greatest value, {value}, in both readings: whether it "
                    "moved is not known"
                )
                yield _stands(subnet, port, message)
            elif name not in was and before.thresholds:
                message = (
                    f"{name} is {value}, and was at most the threshold of ibqueryerrors before"
                )
                yield FabricFinding("counter-moved", *_place(subnet, port), message, _NO_THRESHOLDS)
            elif value != first:
                step = (
                    f"perfquery -x {_lid(subnet, port)} {port.port}, twice; then change the cable"
                )
                growth, words = _growth(name, first, value)
                few = growth <= allowed and name not in LINK_EVENTS
                yield FabricFinding(
                    "counter-moved",
                    *_place(subnet, port),
                    f"{name} {words}",
                    step,
                    "note" if few or name in HARMLESS else "fault",
                )


def _growth(name: str, first: int, value: int) -> tuple[float, str]:
    """By how much a counter moved, inf where it stopped; and the same in words. One of up to 16
    bits never goes back by itself; one of 64 bits wraps where it was in the last quarter and is in
    the first one.
    """
    top = greatest(name, first, value)
    wraps = top == 2**BITS_OF_OTHERS - 1
    if value == top and not wraps:
        return math.inf, f"moved by at least {value - first}, to {value}, where it stops"
    if value > first:
        return value - first, f"moved by {value - first}, from {first} to {value}"
    if wraps and first > top - top // 4 and value < top // 4:
        growth = value - first + top + 1
        return growth, f"moved by {growth}, from {first} past its greatest value to {value}"
    return value, f"moved by at least {value}: it was cleared in between, at {first} or more"


def _place(subnet: Subnet, port: PortId) -> tuple[str, int, str]:
    cable, end = subnet.cable_at.get(port), subnet.end(port)
    return end.name, end.port, str(subnet.end(cable.other(port))) if cable else ""


def _lid(subnet: Subnet, port: PortId) -> str:
    device = subnet.devices.get(port.guid)
    return str(device.lid) if device and device.lid else "LID"


def _stands(subnet: Subnet, port: PortId, message: str) -> FabricFinding:
    step = f"perfquery {_lid(subnet, port)} {port.port}; its owner may clear it, and compare then"
    return FabricFinding("counter-saturated", *_place(subnet, port), message, step, "note")
