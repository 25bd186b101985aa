"""ibnetdiscover: the topology file, and the list of ports of `-p` (infiniband-diags 44).

Neither ends in a mark. Both list a cable at each of its ends, and a subnet is connected. So an
output that lacks its end has a cable with one end only, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from railgauge.fabric.subnet import LANE_GBITS, Cable, Clash, Device, Kind, PortId, Rate, Subnet
from railgauge.tools import ParseError

HEADER = "# Topology file: generated on "

_GUID = re.compile(r"(switch|ca|rt)guid=0x([0-9a-f]{1,16})(?:\(([0-9a-f]{1,16})\))?")
_NODE = re.compile(r'(Switch|Ca|Rt)\t([0-9]{1,3}) "([SHR])-([0-9a-f]{16})"\t+# "(.*)"(.*)')
_LID = re.compile(r" base port 0 lid ([0-9]+) | port 0 lid ([0-9]+) ")
_LINK = re.compile(
    r"\[([0-9]{1,3})\](?:\(([0-9a-f]{1,16})\))?(?:\[ext [0-9]+\])? *\t"
    r'"[SHR]-([0-9a-f]{16})"\[([0-9]{1,3})\](?:\(([0-9a-f]{1,16})\))?(?:\[ext [0-9]+\])?[ \t]*'
    r'# (?:lid ([0-9]+) lmc [0-9]+ )?"(.*)" lid ([0-9]+) ([0-9]+)x([A-Z0-9]+)(?: .*)?'
)
_FIELD = re.compile(r"(vendid|devid|sysimgguid)=0x([0-9a-f]{1,16})")
_INITIATED = re.compile(r"# Initiated from node ([0-9a-f]{16}) port ([0-9a-f]{16})")

_KINDS: dict[str, Kind] = {"Switch": "switch", "Ca": "hca", "Rt": "router"}
_PORT_KINDS: dict[str, Kind] = {"SW": "switch", "CA": "hca", "RT": "router"}


class Claim(NamedTuple):
    """A line of one end of a cable: the port that it names at the other end."""

    line: int
    near: PortId
    far: PortId
    rate: Rate


def topology(text: str) -> Subnet:
    """The subnet of `ibnetdiscover`; ParseError of another text, or of one that is not whole."""
    devices: dict[int, Device] = {}
    claims: list[Claim] = []
    port_guids: dict[int, PortId] = {}
    started: int | None = None
    current, model, guid_line = 0, "", None
    for number, line in _lines(text):
        if line.startswith("#") or not line:
            if found := _INITIATED.fullmatch(line):
                started = int(found[1], 16)
        elif found := _FIELD.fullmatch(line):
            if found[1] == "devid":
                model = f"{int(found[2], 16):#x}"
        elif found := _GUID.fullmatch(line):
            guid_line = found
        elif found := _NODE.fullmatch(line):
            current = int(found[4], 16)
            if current in devices:
                raise ParseError(number, f"a second record of {found[3]}-{found[4]}", "one a node")
            lid = _LID.search(found[6])
            devices[current] = Device(
                current,
                _KINDS[found[1]],
                found[5],
                int(found[2]),
                int(lid[1] or lid[2]) if lid else 0,
                model="" if model == "0x0" else model,
            )
            if guid_line is not None and guid_line[3]:
                port_guids[int(guid_line[3], 16)] = PortId(current, 0)
        elif found := _LINK.fullmatch(line):
            claim, device = _claim(number, current, found), devices.get(current)
            if device is None or claim.near.port > device.ports:
                raise ParseError(number, line[:60], "a port of the node above it")
            claims.append(claim)
            if found[2]:
                port_guids[int(found[2], 16)] = claim.near
            if found[6] and not device.lid:
                devices[current] = _with_lid(device, int(found[6]))
        else:
            raise ParseError(number, line[:80], "a node, or a cable of it, as ibnetdiscover prints")
    if started is None:
        raise ParseError(0, "no line `# Initiated from node`", "a topology file of ibnetdiscover")
    if started not in devices:
        raise ParseError(0, f"no record of {started:016x}, where it was started", _WHOLE)
    cables, clashes = paired(claims)
    return Subnet(devices, cables, clashes, port_guids)


_WHOLE = "a whole output: it lacks its end, or the subnet changed while it was discovered"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    lines = text.split("\n")
    if lines[-1]:
        raise ParseError(len(lines), "no end of line", "a whole line")
    return enumerate((line.rstrip() for line in lines), start=1)


def _with_lid(device: Device, lid: int) -> Device:
    return Device(device.guid, device.kind, device.name, device.ports, lid, "", device.model)


def _claim(number: int, guid: int, found: re.Match[str]) -> Claim:
    return Claim(
        number,
        PortId(guid, int(found[1])),
        PortId(int(found[3], 16), int(found[4])),
        _rate(number, found[9], found[10]),
    )


def _rate(number: int, width: str, speed: str) -> Rate:
    if speed not in LANE_GBITS or width not in ("1", "2", "4", "8", "12"):
        raise ParseError(number, f"{width}x{speed}", "1x to 12x, SDR to XDR")
    return Rate(int(width), speed)


def paired(claims: list[Claim]) -> tuple[tuple[Cable, ...], tuple[Clash, ...]]:
    """The cables with both ends listed, and the ports that two ports claim; ParseError
    where an end was not listed.
    """
    at: dict[PortId, Claim] = {}
    for claim in claims:
        if claim.near in at:
            raise ParseError(claim.line, f"port {claim.near.port} a second time", "each port once")
        at[claim.near] = claim
    claimed_by: dict[PortId, list[PortId]] = {}
    cables = []
    for claim in claims:
        back = at.get(claim.far)
        if back is None:
            far = f"{claim.far.guid:016x} port {claim.far.port}"
            raise ParseError(claim.line, f"a cable to {far}, which is not listed", _WHOLE)
        claimed_by.setdefault(claim.far, []).append(claim.near)
        if back.far == claim.near and claim.near < claim.far:
            cables.append(Cable(claim.near, claim.far, claim.rate))
    clashes = [
        Clash(port, tuple(sorted(ports))) for port, ports in claimed_by.items() if len(ports) > 1
    ]
    return tuple(sorted(cables, key=lambda c: (c.a, c.b))), tuple(sorted(clashes, key=_port))


def _port(clash: Clash) -> PortId:
    return clash.port


_PORT = re.compile(
    r"(SW|CA|RT) +([0-9]+) +([0-9]+) 0x([0-9a-f]{16}) +([0-9]+)x ([A-Z0-9]+) "
    r"(?:- (SW|CA|RT) +([0-9]+) +([0-9]+) 0x([0-9a-f]{16}) \( '(.*)' - '(.*)' \)| +'(.*)')"
)


def ports(text: str) -> Subnet:
    """The subnet of `ibnetdiscover -p`. GUIDs are those of ports: of a switch its own, of an HCA
    with two ports one each, so that such an HCA is two devices here.
    """
    devices: dict[int, Device] = {}
    claims: list[Claim] = []
    unused: list[PortId] = []
    for number, line in _lines(text):
        if not line:
            continue
        found = _PORT.fullmatch(line)
        if found is None:
            raise ParseError(number, line[:80], "a port, as ibnetdiscover -p prints it")
        near = PortId(int(found[4], 16), int(found[3]))
        known = devices.get(near.guid)
        most = max(near.port, known.ports if known else 0)
        name = found[11] if found[7] else found[13]
        devices[near.guid] = Device(near.guid, _PORT_KINDS[found[1]], name, most, int(found[2]))
        if found[7]:
            far = PortId(int(found[10], 16), int(found[9]))
            claims.append(Claim(number, near, far, _rate(number, found[5], found[6])))
        else:
            unused.append(near)
    listed: dict[int, set[int]] = {}
    for claim in claims:
        listed.setdefault(claim.near.guid, set()).add(claim.near.port)
    for port in unused:
        listed.setdefault(port.guid, set()).add(port.port)
    for guid, of in listed.items():
        # It lists the ports of a switch from the last one to the first.
        if devices[guid].kind == "switch" and len(of) < devices[guid].ports:
            raise ParseError(0, f"{len(of)} ports of {devices[guid].name}", _WHOLE)
    if not claims:
        raise ParseError(0, "no cable", "ports, as ibnetdiscover -p prints them")
    cables, clashes = paired(claims)
    return Subnet(devices, cables, clashes, {guid: PortId(guid, 0) for guid in devices})
