"""AMD's GPUs: sysfs, and `amd-smi` with --json.

A GPU's number is its place in the order of PCI addresses, as amd-smi counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from railgauge.node.inventory.gpu_health import NO_PROCESS, owner
from railgauge.node.inventory.network import pci_link
from railgauge.node.inventory.sheet import Places, Scalar, Sheet
from railgauge.node.system.rdma_devices import FactError, names_in, text_of

_VENDOR = "0x1002"
#: Classes of PCI devices (PCI Code and ID Assignment): processing accelerators, and the display
#: controllers of the kind "other" that MI100 and MI200 are. A display's own GPU is none of these.
_CLASSES = ("0x1200", "0x0380")

#: Counter -> its place in `amd-smi metric --json`, of each GPU.
_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "ecc_uncorrected": ("ecc", "total_uncorrectable_count"),
    "pcie_replays": ("pcie", "replay_count"),
}

#: What `amd-smi process` says in place of a process where there is none.
_NO_PROCESS = "no running processes detected"


def gpus(places: Places) -> list[str]:
    """The PCI addresses of the GPUs in order."""
    folder = Path(places.sys, "bus/pci/devices")
    found = []
    for address in names_in(folder):
        try:
            if text_of(folder / address / "vendor") == _VENDOR and text_of(
                folder / address / "class"
            ).startswith(_CLASSES):
                found.append(address.lower())
        except FactError:
            continue
    return sorted(found)


def look(places: Places) -> Sheet:
    """What sysfs shows; nothing on a node without such a GPU."""
    sheet = Sheet()
    addresses = gpus(places)
    if not addresses:
        return sheet
    sheet.put("amd_gpu/count", len, addresses)
    sheet.put("amd_gpu/driver", text_of, Path(places.sys, "module/amdgpu/version"))
    for place, address in enumerate(addresses):
        at, home = f"amd_gpu/{place}", Path(places.sys, "bus/pci/devices", address)
        sheet.put(f"{at}/pci_address", str, address)
        pci_link(sheet, at, home, now=False)
        sheet.put(f"{at}/vbios", text_of, home / "vbios_version")
    return sheet


def sources(places: Places) -> list[Callable[[], Sheet]]:
    """What asks AMD's tool, where there is a GPU."""
    count = len(gpus(places))
    if not count:
        return []
    return [lambda: _counters(places, count), lambda: _processes(places, count)]


def _counters(places: Places, count: int) -> Sheet:
    sheet = Sheet()
    wanted = [f"amd_gpu/{place}/{name}" for place in range(count) for name in _COUNTERS]
    sheet.several("", wanted, lambda: counters(places.ask(["amd-smi", "metric", "--json"])))
    return sheet


def _processes(places: Places, count: int) -> Sheet:
    sheet = Sheet()
    wanted = [f"amd_gpu/{place}/processes" for place in range(count)]
    sheet.several(
        "", wanted, lambda: processes(places.ask(["amd-smi", "process", "--json"]), places.proc)
    )
    return sheet


def counters(text: str) -> dict[str, Scalar]:
    """The counters of `amd-smi metric --json`: events since the driver was loaded. Of what a GPU
    does not count the tool prints N/A.
    """
    counted: dict[str, Scalar] = {}
    for gpu in _gpus_in(text, "amd-smi metric --json"):
        for name, (part, key) in _COUNTERS.items():
            of_part = gpu.get(part)
            value = of_part.get(key) if isinstance(of_part, dict) else None
            if isinstance(value, dict):
                value = value.get("value")
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                counted[f"amd_gpu/{gpu['gpu']}/{name}"] = value
    return counted


def processes(text: str, proc: str) -> dict[str, Scalar]:
    """The programs on each GPU, `4711 alice python3`, or `none`, of `amd-smi process --json`."""
    found: dict[str, Scalar] = {}
    for gpu in _gpus_in(text, "amd-smi process --json"):
        listed = gpu.get("process_list")
        if not isinstance(listed, list):
            continue
        named = [_process(entry, proc) for entry in listed]
        found[f"amd_gpu/{gpu['gpu']}/processes"] = "; ".join(filter(None, named)) or NO_PROCESS
    return found


def _process(entry: Any, proc: str) -> str:
    """One entry of the list; "" where it says that there is none."""
    information = entry.get("process_info", entry) if isinstance(entry, dict) else entry
    if isinstance(information, str) and information.lower().startswith(_NO_PROCESS):
        return ""
    if not isinstance(information, dict):
        raise FactError("amd-smi process --json: an entry that is no process")
    pid, name = str(information.get("pid", "?")), str(information.get("name", "?"))
    return f"{pid} {owner(pid, proc)} {name}"


def _gpus_in(text: str, command: str) -> list[dict[str, Any]]:
    """The documents of each GPU: a list, since ROCm 7 below `gpu_data`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FactError(f"{command}: not whole JSON: {error}") from None
    listed = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(listed, list) or not listed:
        raise FactError(f"{command}: no list of GPUs")
    for gpu in listed:
        if not isinstance(gpu, dict) or type(gpu.get("gpu")) is not int or gpu["gpu"] < 0:
            raise FactError(f"{command}: an entry without the number of its GPU")
    return listed
