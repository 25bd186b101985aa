"""What `ethtool` says of an interface of real or virtual hardware."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from railgauge.node.inventory.network import driver, interfaces
from railgauge.node.inventory.sheet import Places, Scalar, Sheet, whole_lines
from railgauge.node.system.rdma_devices import FactError

#: Drivers of interfaces without a cable: no error correction, no module, no pause frames.
_WITHOUT_CABLE = frozenset({"virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "ena", "gve"})
#: And those without firmware, and with rings that no site sets.
_PLAIN = frozenset({"virtio_net"})

#: Offloads that change what a processor does for a packet: name in `ethtool -k` -> field.
OFFLOADS = {
    "rx-checksumming": "checksum_receive",
    "tx-checksumming": "checksum_transmit",
    "scatter-gather": "scatter_gather",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
    "ntuple-filters": "ntuple",
    "receive-hashing": "receive_hash",
    "hw-tc-offload": "tc_offload",
    "rx-gro-hw": "gro_hardware",
}


def sources(places: Places) -> list[Callable[[], Sheet]]:
    """What asks ethtool, an interface each."""
    readers: list[Callable[[], Sheet]] = []
    for name in interfaces(places.sys):
        home = Path(places.sys, "class/net", name)
        if (home / "device").exists():
            readers.append(partial(_interface, places, name, driver(home)))
    return readers


def _interface(places: Places, name: str, its_driver: str) -> Sheet:
    sheet, at = Sheet(), f"net/{name}/"

    def ask(option: str, fields: list[str], read: Callable[[str], Mapping[str, Scalar]]) -> None:
        sheet.several(at, fields, lambda: read(places.ask(["ethtool", option, name])))

    ask("-k", [f"offload_{field}" for field in OFFLOADS.values()], offloads)
    if its_driver not in _PLAIN:
        ask("-i", ["firmware", "driver_version"], driver_information)
        ask("-g", ["ring_receive", "ring_transmit"], rings)
    if its_driver not in _WITHOUT_CABLE:
        ask("-a", ["pause_receive", "pause_transmit"], pause)
        ask("--show-fec", ["fec_configured", "fec_active"], fec)
        ask("-m", ["module_vendor", "module_part", "module_serial"], module)
    return sheet


def _named(text: str) -> list[tuple[str, str]]:
    """The `name: value` of every whole line, in order."""
    pairs = []
    for line in whole_lines(text):
        name, colon, value = line.partition(":")
        if colon:
            pairs.append((name.strip(), value.strip()))
    return pairs


def driver_information(text: str) -> dict[str, Scalar]:
    """Firmware and the driver's version, of `ethtool -i`."""
    printed = dict(_named(text))
    names = {"firmware-version": "firmware", "version": "driver_version"}
    return {field: printed[name] for name, field in names.items() if printed.get(name)}


def rings(text: str) -> dict[str, Scalar]:
    """Ring sizes now, and the most that there may be, of `ethtool -g`."""
    fields = {"RX": "ring_receive", "TX": "ring_transmit"}
    sizes: dict[str, Scalar] = {}
    suffix = None
    for name, value in _named(text):
        if name == "Pre-set maximums":
            suffix = "_most"
        elif name == "Current hardware settings":
            suffix = ""
        elif name in fields and suffix is not None and re.fullmatch("[0-9]{1,9}", value):
            sizes[fields[name] + suffix] = int(value)
    return sizes


def offloads(text: str) -> dict[str, Scalar]:
    """on or off for each of OFFLOADS, of `ethtool -k`."""
    return {
        f"offload_{OFFLOADS[name]}": value.split()[0]
        for name, value in _named(text)
        if name in OFFLOADS and value.split()[:1] in (["on"], ["off"])
    }


def pause(text: str) -> dict[str, Scalar]:
    """Global pause frames, of `ethtool -a`: off where priorities are paused by themselves."""
    fields = {"Autonegotiate": "pause_autoneg", "RX": "pause_receive", "TX": "pause_transmit"}
    return {
        fields[name]: value
        for name, value in _named(text)
        if name in fields and value in ("on", "off")
    }


def fec(text: str) -> dict[str, Scalar]:
    """Forward error correction as it was set and as it is, of `ethtool --show-fec`."""
    modes: dict[str, Scalar] = {}
    for name, value in _named(text):
        # "Supported/Configured FEC encodings" since ethtool 5.15.
        if name.endswith("onfigured FEC encodings"):
            modes["fec_configured"] = " ".join(value.split())
        elif name == "Active FEC encoding" or name == "Active FEC encodings":
            modes["fec_active"] = " ".join(value.split())
    return modes


def module(text: str) -> dict[str, Scalar]:
    """The transceiver or cable, of `ethtool -m`."""
    fields = {
        "Identifier": "module_type",
        "Vendor name": "module_vendor",
        "Vendor PN": "module_part",
        "Vendor rev": "module_revision",
        "Vendor SN": "module_serial",
    }
    facts: dict[str, Scalar] = {}
    for name, value in _named(text):
        if name in fields and value:
            facts.setdefault(fields[name], value)
    if not facts:
        raise FactError("ethtool -m: no module is described")
    return facts
