"""NVIDIA's (Mellanox') adapters: mlnx_qos, mlxlink, mstflint; and lspci and dcb for all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from railgauge.node.inventory.network import driver, interfaces, is_pci, pci_address
from railgauge.node.inventory.sheet import Places, Scalar, Sheet, whole_lines
from railgauge.node.system.rdma_devices import FactError, devices, ports

_DRIVER = "mlx5_core"


def sources(places: Places) -> list[Callable[[], Sheet]]:
    """What asks for each device, and each of their interfaces."""
    readers: list[Callable[[], Sheet]] = []
    for name in devices(".*", places.sys):
        home = Path(places.sys, "class/infiniband", name)
        if is_pci(home):
            readers.append(partial(_device, places, name, home))
    for name in interfaces(places.sys):
        home = Path(places.sys, "class/net", name)
        if is_pci(home):
            readers.append(partial(_interface, places, name, driver(home)))
    return readers


def _device(places: Places, name: str, home: Path) -> Sheet:
    sheet, at, address = Sheet(), f"nic/{name}/", pci_address(home)
    sheet.several(
        at,
        ["pcie_payload_bytes", "pcie_read_request_bytes"],
        lambda: pcie_sizes(places.ask(["lspci", "-vv", "-D", "-s", address])),
    )
    if driver(home) == _DRIVER:
        sheet.several(
            at, ["firmware_stored"], lambda: flint(places.ask(["mstflint", "-d", address, "q"]))
        )
        for port in ports(name, places.sys):
            sheet.several(
                f"{at}{port}/",
                ["link_fec", "link_lanes"],
                _link,
                places,
                name,
                port,
            )
    return sheet


def _link(places: Places, name: str, port: int) -> dict[str, Scalar]:
    return link(places.ask(["mlxlink", "-d", name, "-p", str(port), "--json"]))


def pcie_sizes(text: str) -> dict[str, Scalar]:
    """Largest payload and read request, as set now, of `lspci -vv`: root is shown them."""
    if "<access denied>" in text:
        raise FactError("lspci -vv: access denied; only root is shown capabilities")
    matched = re.search(
        r"DevCtl:.*?MaxPayload ([0-9]{2,5}) bytes, MaxReadReq ([0-9]{2,5}) bytes", text, re.DOTALL
    )
    if not matched:
        raise FactError("lspci -vv: no DevCtl with MaxPayload and MaxReadReq")
    return {"pcie_payload_bytes": int(matched[1]), "pcie_read_request_bytes": int(matched[2])}


def flint(text: str) -> dict[str, Scalar]:
    """Firmware in the flash, and the rest of `mstflint q`.

    With a new image burnt and no reset yet, `FW Version(Running)` stands next to `FW Version`.
    """
    names = {
        "FW Version": "firmware_stored",
        "Product Version": "firmware_product",
        "Security Attributes": "firmware_security",
        "Image type": "firmware_image",
    }
    facts: dict[str, Scalar] = {}
    for line in whole_lines(text):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if colon and name in names:
            facts[names[name]] = value
    return facts


def link(text: str) -> dict[str, Scalar]:
    """What `mlxlink --json` says of a port, and recommends."""
    try:
        output: Any = json.loads(text)["result"]["output"]
        operation = output["Operational Info"]
        trouble = output.get("Troubleshooting Info", {})
        if not isinstance(operation, dict):
            raise TypeError("Operational Info is no object")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FactError(f"mlxlink --json: not the JSON expected: {error!r}") from None
    names = {"Speed": "link_speed", "Width": "link_lanes", "FEC": "link_fec", "State": "link_state"}
    facts: dict[str, Scalar] = {}
    for name, field in names.items():
        value = operation.get(name)
        # Of a port that is down N/A stands for what it would be.
        if isinstance(value, str) and value != "N/A":
            facts[field] = _lanes(value) if field == "link_lanes" else value
    recommended = trouble.get("Recommendation") if isinstance(trouble, dict) else None
    if isinstance(recommended, str):
        facts["link_trouble"] = recommended
    return facts


def _lanes(text: str) -> int:
    matched = re.fullmatch("([0-9]{1,2})x", text.strip())
    if not matched:
        raise FactError(f"mlxlink --json: Width is {text!r}, expected such as 4x")
    return int(matched[1])


def _interface(places: Places, name: str, its_driver: str) -> Sheet:
    sheet, at = Sheet(), f"net/{name}/"
    if its_driver == _DRIVER:
        sheet.several(at, ["qos_trust", "pfc"], lambda: qos(places.ask(["mlnx_qos", "-i", name])))
    sheet.several(
        at, ["dcb_pfc"], lambda: dcb_pfc(places.ask(["dcb", "-j", "pfc", "show", "dev", name]))
    )
    return sheet


def qos(text: str) -> dict[str, Scalar]:
    """Trust state and the priorities with PFC, of `mlnx_qos -i`."""
    facts: dict[str, Scalar] = {}
    lines = whole_lines(text)
    for place, line in enumerate(lines):
        trust = re.match(r"Priority trust state: (\w+)", line)
        if trust:
            facts["qos_trust"] = trust[1]
        if line.startswith("PFC configuration:"):
            rows = [row.split() for row in lines[place + 1 : place + 4]]
            table = {row[0]: row[1:] for row in rows if row}
            numbers, enabled = table.get("priority", []), table.get("enabled", [])
            if len(numbers) == len(enabled) == 8 and set(enabled) <= {"0", "1"}:
                on = [n for n, is_on in zip(numbers, enabled) if is_on == "1"]
                facts["pfc"] = " ".join(on) or "no"
    return facts


def dcb_pfc(text: str) -> dict[str, Scalar]:
    """The priorities with PFC, of `dcb -j pfc show`."""
    try:
        states = json.loads(text)["prio_pfc"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FactError(f"dcb -j pfc show: not the JSON expected: {error!r}") from None
    # One for each priority, in order (iproute2, dcb/dcb_pfc.c).
    if not isinstance(states, list) or len(states) != 8 or set(map(type, states)) != {bool}:
        raise FactError(
            f"dcb -j pfc show: prio_pfc is {states!r}, expected eight of true and false"
        )
    on = [str(priority) for priority, is_on in enumerate(states) if is_on]
    return {"dcb_pfc": " ".join(on) or "no"}
