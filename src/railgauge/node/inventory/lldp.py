"""Which port of a switch each interface hangs on, as LLDP's neighbours say: `lldpctl -f json`.

lldpd(8) writes one interface as an object and several as an array of objects (lldpd issue 236), and
a chassis that has sent no name without the name's key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from railgauge.node.inventory.sheet import Places, Sheet
from railgauge.node.system.rdma_devices import FactError

#: Ids of a port that are names; any other is an address or a number that no label shows.
_NAMES = ("ifname", "ifalias", "local")


def sources(places: Places) -> list[Callable[[], Sheet]]:
    """What asks lldpctl; where it is not there, or may not be asked, nothing is known."""
    return [lambda: _look(places)]


def _look(places: Places) -> Sheet:
    sheet = Sheet()
    try:
        neighbours = ports(places.ask(["lldpctl", "-f", "json"]))
    except FactError:
        return sheet
    for interface, port in neighbours.items():
        sheet.fields[f"net/{interface}/switch_port"] = port
    return sheet


def ports(text: str) -> dict[str, str]:
    """Interface -> `leaf1 Ethernet1/3`, its switch and the port of it; FactError where the text is
    none of lldpctl's. An interface with two neighbours that differ is left out.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise FactError("lldpctl -f json printed no JSON") from None
    known: dict[str, set[str]] = {}
    for interface, neighbour in _neighbours(document):
        switch, port = _switch(neighbour.get("chassis")), _port(neighbour.get("port"))
        if switch and port and interface.isprintable() and not set("/ ") & set(interface):
            known.setdefault(interface, set()).add(" ".join(f"{switch} {port}".split())[:200])
    return {interface: min(names) for interface, names in known.items() if len(names) == 1}


def _neighbours(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    lldp = document.get("lldp") if isinstance(document, dict) else None
    if not isinstance(lldp, dict):
        raise FactError("lldpctl -f json printed nothing of `lldp`")
    interfaces = lldp.get("interface", [])
    for one in interfaces if isinstance(interfaces, list) else [interfaces]:
        for name, neighbour in one.items() if isinstance(one, dict) else ():
            if isinstance(neighbour, dict):
                yield name, neighbour


def _switch(chassis: Any) -> str:
    """Its name, or where it has sent none its id; "" where there is neither."""
    if not isinstance(chassis, dict):
        return ""
    names = [name for name, about in chassis.items() if name != "id" and isinstance(about, dict)]
    return _printable(names[0]) if len(names) == 1 else _value(chassis.get("id"))


def _port(port: Any) -> str:
    if not isinstance(port, dict):
        return ""
    name, description = port.get("id"), port.get("descr")
    if isinstance(name, dict) and name.get("type") in _NAMES and _value(name):
        # Some switches have a number for a port's own id, which no label shows.
        is_number = name["type"] == "local" and _value(name).isdecimal()
        if not (is_number and isinstance(description, str) and _printable(description)):
            return _value(name)
    return _printable(description) if isinstance(description, str) else _value(name)


def _value(named: Any) -> str:
    value = named.get("value") if isinstance(named, dict) else None
    return _printable(value) if isinstance(value, str) else ""


def _printable(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
