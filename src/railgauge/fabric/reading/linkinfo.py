"""iblinkinfo: the state of each port, as text or with `-l` a line a port (infiniband-diags 44).

Neither ends in a mark. As each cable is there at both ends, an output that lacks a cable's end is
refused. One that ends between two ports may look whole: `railgauge.fabric.folder` asks for every
port that ibnetdiscover has a cable at.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from railgauge.fabric.subnet import SPEED_OF_LANE, PortState, Rate
from railgauge.tools import ParseError


class Listed(NamedTuple):
    """A port by what iblinkinfo prints of it, and the port at the other end of its cable. `guid` is
    that of the switch, or of the HCA's port.
    """

    guid: int
    name: str
    lid: int
    port: int
    state: PortState
    far_name: str
    far_lid: int
    far_port: int


_LINK = (
    r" *(?P<lid>[0-9]+) +(?P<port>[0-9]+)\[[^\]]*\] ==\((?P<rate>[^()]*?)"
    r"(?P<state>[A-Z][A-Za-z]+)/ *(?P<physical>[A-Za-z]+)\)==> *"
    r"(?P<far_guid>0x[0-9a-f]{16})? *(?P<far_lid>[0-9]+)? *(?P<far_port>[0-9]+)?\[[^\]]*\] "
    r'"(?P<far_name>.*)" \((?P<could>[^()]*)\)'
)
_TEXT = re.compile(rf" *(?P<guid>0x[0-9a-f]{{16}})? {_LINK}")
_LINE = re.compile(rf'(?P<guid>0x[0-9a-f]{{16}}) " *(?P<name>[^"]*(?:"[^"]*)*?)" {_LINK}')
_CA = re.compile(r"(?:CA|RT): (?P<name>.*):")
_SWITCH = re.compile(r"Switch: (?P<guid>0x[0-9a-f]{16}) (?P<name>.*):")
_RATE = re.compile(r" *([0-9]+)X +([0-9.]+) Gbps *| *([0-9]+)X +(FDR10) *")
_COULD_WIDTH = re.compile(r"Could be ([0-9]+)X")
_COULD_SPEED = re.compile(r"Could be (?:([0-9.]+) Gbps|(FDR10))")


def read(text: str) -> list[Listed]:
    """The ports of `iblinkinfo`, or of `iblinkinfo -l`; ParseError where it is not whole."""
    lines = text.split("\n")
    if lines[-1]:
        raise ParseError(len(lines), "no end of line", "a whole line")
    listed: list[Listed] = []
    name: str | None = None
    guid = ""
    for number, line in enumerate((line.rstrip() for line in lines), start=1):
        if not line:
            continue
        if found := _CA.fullmatch(line):
            name, guid = found["name"], ""
        elif found := _SWITCH.fullmatch(line):
            name, guid = found["name"], found["guid"]
        elif found := _LINE.fullmatch(line):
            listed.append(_listed(number, found["guid"], found["name"].strip(), found))
        elif name is not None and (found := _TEXT.fullmatch(line)):
            listed.append(_listed(number, found["guid"] or guid, name, found))
        else:
            raise ParseError(number, line[:80], "a port, as iblinkinfo prints it")
    _require_both_ends(listed)
    return listed


def _listed(number: int, guid: str, name: str, found: re.Match[str]) -> Listed:
    if not guid:
        raise ParseError(number, "a port without a GUID", "0x and 16 digits")
    rate = None
    if found["rate"].strip():
        matched = _RATE.fullmatch(found["rate"])
        if matched is None:
            raise ParseError(number, found["rate"].strip(), "a width and a speed")
        rate = Rate(int(matched[1] or matched[3]), matched[4] or _speed(number, matched[2]))
    width, speed = _COULD_WIDTH.search(found["could"]), _COULD_SPEED.search(found["could"])
    state = PortState(
        found["state"],
        found["physical"],
        rate,
        int(width[1]) if width else None,
        (speed[2] or _speed(number, speed[1])) if speed else None,
    )
    far_port = int(found["far_port"] or 0)
    if (far_port > 0) != state.is_up:
        raise ParseError(number, "a cable's end without the other one", "both, or a port down")
    return Listed(
        *(int(guid, 16), name, int(found["lid"]), int(found["port"]), state),
        *(found["far_name"], int(found["far_lid"] or 0), far_port),
    )


def _speed(number: int, gbits: str) -> str:
    try:
        return SPEED_OF_LANE[float(gbits)]
    except (KeyError, ValueError):
        raise ParseError(number, f"{gbits} Gbps", "the speed of a lane, SDR to XDR") from None


def _require_both_ends(listed: list[Listed]) -> None:
    ends = {(one.name, one.lid, one.port) for one in listed}
    if not any(one.far_port for one in listed):
        raise ParseError(0, "no cable", "ports, as iblinkinfo prints them")
    for one in listed:
        far = (one.far_name, one.far_lid, one.far_port)
        if one.far_port and far not in ends:
            raise ParseError(
                0,
                f"a cable to {one.far_name} port {one.far_port}, which is not listed",
                "a whole output: it lacks its end",
            )
