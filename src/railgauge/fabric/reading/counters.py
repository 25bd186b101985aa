"""Counters of ports: ibqueryerrors (errors, details, `--data`) and perfquery, also `-x`.

ibqueryerrors ends in a summary (infiniband-diags 44). perfquery has no mark: its last counter
shows that it is whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from railgauge.fabric.subnet import PortId
from railgauge.tools import ParseError

#: Bits of the counters of PortCounters (InfiniBand Architecture Specification 1, 16.1.3.5). They
#: stay at their greatest value. PortCountersExtended has counters of the same names with 64 bits,
#: which wrap: newer devices have those, and ibqueryerrors then prints them.
BITS: Mapping[str, int] = {
    "SymbolErrorCounter": 16,
    "LinkErrorRecoveryCounter": 8,
    "LinkDownedCounter": 8,
    "PortRcvErrors": 16,
    "PortRcvRemotePhysicalErrors": 16,
    "PortRcvSwitchRelayErrors": 16,
    "PortXmitDiscards": 16,
    "PortXmitConstraintErrors": 8,
    "PortRcvConstraintErrors": 8,
    "LocalLinkIntegrityErrors": 4,
    "ExcessiveBufferOverrunErrors": 4,
    "QP1Dropped": 16,
    "VL15Dropped": 16,
}
#: Of traffic, not of errors. PortXmitWait counts ticks in which data waited: that is congestion.
TRAFFIC = frozenset(
    f"Port{kind}{way}{what}"
    for kind in ("", "Unicast", "Multicast")
    for way in ("Xmit", "Rcv")
    for what in ("Data", "Pkts")
) | {"PortXmitWait"}
BITS_OF_OTHERS = 64


class Counted(NamedTuple):
    """The counters of ports, by the GUID that was printed: that of a node, or of the port. One that
    is not there is 0, or with `thresholds` it is at most its threshold: ibqueryerrors leaves those
    out.
    """

    of_port: Mapping[PortId, Mapping[str, int]]
    thresholds: bool = False
    #: nodes that ibqueryerrors asked; 0 of perfquery
    nodes: int = 0


#: Errors of an HCA stand below a line without GUID, and then the port's GUID is in their line.
_NODE = re.compile(r'(?:(Errors|Data Counters) for 0x[0-9a-f]{1,16}|(Errors) for) ".*"')
_PORT = re.compile(
    r" +GUID 0x([0-9a-f]{1,16}) port ([0-9]+|ALL):((?: \[[A-Za-z0-9]+ == [^\]]*\])*)"
)
_VALUE = re.compile(r"\[([A-Za-z0-9]+) == ([0-9]+)(?: \([^)]*\))?\]")
_SUMMARY = re.compile(r"## Summary: ([0-9]+) nodes checked, ([0-9]+) bad nodes found")
_PORTS = re.compile(r"## +([0-9]+) ports checked, ([0-9]+) ports have errors beyond threshold")


def queryerrors(text: str) -> Counted:
    """The counters that `ibqueryerrors` printed; ParseError without its summary."""
    lines = text.split("\n")
    if lines[-1] or not any(line.startswith("## Suppressed:") for line in lines[-3:]):
        raise ParseError(0, "no line `## Suppressed:` at its end", "a whole ibqueryerrors")
    of_port: dict[PortId, dict[str, int]] = {}
    nodes, bad, errors, port_count, thresholds = 0, None, 0, None, False
    for number, line in enumerate(lines, start=1):
        if found := _NODE.fullmatch(line):
            errors += "Errors" in (found[1], found[2])
        elif found := _PORT.fullmatch(line):
            if found[2] != "ALL":
                values = {name: int(value) for name, value in _VALUE.findall(found[3])}
                of_port.setdefault(PortId(int(found[1], 16), int(found[2])), {}).update(values)
        elif found := _SUMMARY.fullmatch(line):
            nodes, bad = int(found[1]), int(found[2])
        elif found := _PORTS.fullmatch(line):
            port_count = int(found[1])
        elif line.startswith("## Thresholds:"):
            thresholds = bool(line.removeprefix("## Thresholds:").strip())
        elif line.startswith(("##", "       Link info:", "ibwarn: ")) or not line.strip():
            pass
        else:
            raise ParseError(number, line[:80], "errors of a port, as ibqueryerrors prints them")
    if bad is None or port_count is None:
        raise ParseError(0, "no summary", "`## Summary: N nodes checked`")
    if bad != errors:
        raise ParseError(0, f"errors of {errors} nodes", f"those of {bad}, as its summary says")
    return Counted(of_port, thresholds, nodes)


_HEAD = re.compile(r"# Port (extended )?counters: Lid ([0-9]+) port ([0-9]+) \(.*\)")
_COUNTER = re.compile(r"([A-Za-z0-9_]+):\.*(0x[0-9a-fA-F]+|[0-9]+)")
#: The last counters of each, in infiniband-diags 44.
_LAST = {False: "PortXmitWait", True: "PortMulticastRcvPkts"}
_NO_COUNTERS = ("PortSelect", "CounterSelect", "CounterSelect2")


class OfPort(NamedTuple):
    """The counters of a port by LID; port 255 stands for all ports of a switch."""

    lid: int
    port: int
    counters: Mapping[str, int]


def perfquery(text: str) -> list[OfPort]:
    """What one or several calls of `perfquery` or `perfquery -x` printed."""
    read: list[OfPort] = []
    current: dict[str, int] = {}
    extended, last = False, ""
    lines = text.split("\n")
    if lines[-1]:
        raise ParseError(len(lines), "no end of line", "a whole line")
    for number, line in enumerate(lines, start=1):
        if found := _HEAD.fullmatch(line):
            _require_last(number, read, extended, last)
            current, last, extended = {}, "", bool(found[1])
            read.append(OfPort(int(found[2]), int(found[3]), current))
        elif read and (found := _COUNTER.fullmatch(line)):
            last = found[1]
            if last not in _NO_COUNTERS:
                current[last] = int(found[2], 0)
        elif line and not line.startswith("ibwarn: "):
            raise ParseError(number, line[:80], "a counter, as perfquery prints it")
    if not read:
        raise ParseError(0, "no line `# Port counters`", "an output of perfquery")
    _require_last(0, read, extended, last)
    return read


def _require_last(number: int, read: list[OfPort], extended: bool, last: str) -> None:
    if not read:
        return
    counters = read[-1].counters
    needed = {_LAST[extended]}
    if extended and counters.keys() & BITS.keys():
        # Newer devices have errors with 64 bits too.
        needed |= {"PortXmitWait", "QP1Dropped"}
    if lacking := sorted(needed - counters.keys()):
        raise ParseError(number, f"{last or 'no counter'} at the end", f"also {lacking[0]}")
