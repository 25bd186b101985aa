"""Further files of a subnet: the node name map, opensm-subnet.lst, and ibdiagnet2's db_csv."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from railgauge.fabric.reading.discover import Claim, paired
from railgauge.fabric.subnet import Device, Kind, PortId, Rate, Subnet
from railgauge.tools import ParseError

_NAME = re.compile(r'\s*(0x[0-9a-fA-F]{1,16})\s+"([^"]+)"\s*(?:#.*)?')


def name_map(text: str) -> dict[int, str]:
    """GUID -> name, of a node name map: lines `0xGUID "name"`; # begins a remark."""
    names: dict[int, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _NAME.fullmatch(line)
        if found is None:
            raise ParseError(number, line[:60], '0xGUID "name"')
        guid = int(found[1], 16)
        if names.setdefault(guid, found[2]) != found[2]:
            raise ParseError(number, f"{found[1]} a second time", "each GUID once")
    return names


_SIDE = (
    r"\{{ (?P<kind{0}>CA|SW|RT)(?:-SM)? Ports:(?P<ports{0}>[0-9A-F]+) SystemGUID:[0-9a-f]{{16}} "
    r"NodeGUID:(?P<guid{0}>[0-9a-f]{{16}}) PortGUID:(?P<port_guid{0}>[0-9a-f]{{16}}) "
    r"VenID:[0-9A-F]+ DevID:(?P<model{0}>[0-9A-F]+) Rev:[0-9A-F]+ \{{(?P<name{0}>.*)\}} "
    r"LID:(?P<lid{0}>[0-9A-F]{{4}}) PN:(?P<port{0}>[0-9A-F]+) \}}"
)
_LST = re.compile(
    rf"{_SIDE.format('1')} {_SIDE.format('2')} PHY=(?P<width>[0-9]+)x "
    r"LOG=[A-Z]+ SPD=(?P<speed>[0-9.]+)"
)
_KINDS: Mapping[str, Kind] = {"SW": "switch", "CA": "hca", "RT": "router"}
#: SPD is Gb/s of a lane, without what follows the point.
_LST_SPEEDS = {"2.5": "SDR", "5": "DDR", "10": "QDR", "14": "FDR", "25": "EDR", "50": "HDR"}
_LST_SPEEDS |= {"100": "NDR", "200": "XDR"}


def subnet_lst(text: str) -> Subnet:
    """The subnet of opensm-subnet.lst (opensm 3.3.23): each cable once from each of its ends."""
    devices: dict[int, Device] = {}
    claims = []
    port_guids = {}
    lines = text.split("\n")
    if lines[-1]:
        raise ParseError(len(lines), "no end of line", "a whole line")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        found = _LST.fullmatch(line)
        if found is None or found["speed"] not in _LST_SPEEDS:
            raise ParseError(number, line[:60], "a cable, as opensm-subnet.lst has it")
        ends = []
        for side in ("1", "2"):
            guid, model = int(found[f"guid{side}"], 16), int(found[f"model{side}"], 16)
            port = PortId(guid, int(found[f"port{side}"], 16))
            ends.append(port)
            kind, ports = _KINDS[found[f"kind{side}"]], int(found[f"ports{side}"], 16)
            devices[guid] = Device(
                *(guid, kind, found[f"name{side}"], ports, int(found[f"lid{side}"], 16)),
                model=f"{model:#x}" if model else "",
            )
            of_port = PortId(guid, 0) if kind == "switch" else port
            port_guids[int(found[f"port_guid{side}"], 16)] = of_port
        rate = Rate(int(found["width"]), _LST_SPEEDS[found["speed"]])
        claims.append(Claim(number, ends[0], ends[1], rate))
    if not claims:
        raise ParseError(0, "no cable", "an opensm-subnet.lst")
    cables, clashes = paired(claims)
    return Subnet(devices, cables, clashes, port_guids)


_NODE_TYPES: Mapping[str, Kind] = {"1": "hca", "2": "switch", "3": "router"}
_NODES = ("NodeDesc", "NumPorts", "NodeType", "NodeGUID", "DeviceID")
_FIRMWARE = ("FWInfo_Extended_Major", "FWInfo_Extended_Minor", "FWInfo_Extended_SubMinor")


def database(text: str) -> dict[int, Device]:
    """Nodes by GUID, with their firmware, of `ibdiagnet2.db_csv`. Typed from its public format:
    sections between START_NAME and END_NAME, each a CSV table with a header.
    """
    sections = _sections(text)
    if "NODES" not in sections:
        raise ParseError(0, "no section NODES", "a whole db_csv")
    for number, row in sections["NODES"]:
        if lacking := [column for column in _NODES if row.get(column) is None]:
            raise ParseError(number, f"no {lacking[0]}", "a column of NODES")
    firmware = {}
    for number, row in sections.get("NODES_INFO", []):
        parts = [row.get(column) or "N/A" for column in _FIRMWARE]
        if "N/A" not in parts:
            guid = _number(number, row.get("NodeGUID") or "")
            firmware[guid] = ".".join(str(_number(number, part)) for part in parts)
    devices = {}
    for number, row in sections["NODES"]:
        guid, kind = _number(number, row["NodeGUID"]), _NODE_TYPES.get(row["NodeType"])
        if kind is None:
            raise ParseError(number, f"NodeType {row['NodeType']}", "1, 2 or 3")
        devices[guid] = Device(
            *(guid, kind, row["NodeDesc"], _number(number, row["NumPorts"])),
            firmware=firmware.get(guid, ""),
            model=f"{_number(number, row['DeviceID']):#x}",
        )
    return devices


def _sections(text: str) -> dict[str, list[tuple[int, dict[str, str]]]]:
    sections: dict[str, list[tuple[int, dict[str, str]]]] = {}
    name = ""
    header: list[str] = []
    lines = text.split("\n")
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r")
        if not name:
            if line.startswith("START_"):
                name, header = line.removeprefix("START_"), []
                if name in sections:
                    raise ParseError(number, f"a second section {name}", "each section once")
                sections[name] = []
        elif line == f"END_{name}":
            name = ""
        else:
            try:
                cells = next(csv.reader([line], strict=True), [])
            except csv.Error as error:
                raise ParseError(number, str(error), "a row of CSV") from None
            if not header:
                header = [cell.strip() for cell in cells]
            elif cells:
                if len(cells) != len(header):
                    raise ParseError(number, f"{len(cells)} cells", f"{len(header)} of {name}")
                sections[name].append((number, dict(zip(header, cells, strict=True))))
    if name:
        raise ParseError(0, f"no END_{name}", "a whole db_csv")
    return sections


def _number(line: int, text: str) -> int:
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise ParseError(line, text[:40] or "nothing", "a number") from None
