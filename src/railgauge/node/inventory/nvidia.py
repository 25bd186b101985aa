"""NVIDIA's GPUs: the driver's files in /proc, `nvidia-smi`, and `nvidia-imex-ctl`.

A GPU's number is its place in the order of PCI addresses, as nvidia-smi counts.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from railgauge.node.inventory import gpu_health, gpu_libraries
from railgauge.node.inventory.network import pci_link
from railgauge.node.inventory.sheet import (
    Places,
    Scalar,
    Sheet,
    number,
    raw_text,
    version_in,
    whole_lines,
)
from railgauge.node.system.rdma_devices import FactError, names_in, text_of

_VENDOR = "0x10de"
#: Classes of PCI devices (PCI Code and ID Assignment): VGA and 3D controllers are GPUs; NVSwitches
#: are bridges of the kind "other".
_GPU_CLASSES = ("0x0300", "0x0302")
_SWITCH_CLASS = "0x0680"

#: Field -> place in `nvidia-smi -q -x`, below <gpu>. Where there are several, the first that says
#: something: the names change with the driver.
GPU_FIELDS: Mapping[str, tuple[str, ...]] = {
    "architecture": ("product_architecture",),
    "persistence_mode": ("persistence_mode",),
    "mig_mode": ("mig_mode/current_mig",),
    "mig_mode_pending": ("mig_mode/pending_mig",),
    "serial": ("serial",),
    "uuid": ("uuid",),
    "gsp_firmware": ("gsp_firmware_version",),
    "inforom": ("inforom_version/img_version",),
    "compute_mode": ("compute_mode",),
    "ecc": ("ecc_mode/current_ecc",),
    "ecc_pending": ("ecc_mode/pending_ecc",),
    "retired_pages_pending": ("retired_pages/pending_retirement",),
    "rows_remap_pending": ("remapped_rows/remapped_row_pending",),
    "rows_remap_failure": ("remapped_rows/remapped_row_failure",),
    "power_limit_w": (
        "gpu_power_readings/current_power_limit",
        "gpu_power_readings/enforced_power_limit",
        "power_readings/enforced_power_limit",
        "power_readings/power_limit",
    ),
    "power_limit_most_w": (
        "gpu_power_readings/max_power_limit",
        "power_readings/max_power_limit",
    ),
    "clock_graphics_most_mhz": ("max_clocks/graphics_clock",),
    "clock_memory_most_mhz": ("max_clocks/mem_clock",),
    "fabric_state": ("fabric/state",),
    "fabric_status": ("fabric/status",),
    "fabric_cluster_uuid": ("fabric/clusterUuid", "fabric/cluster_uuid"),
    "fabric_clique_id": ("fabric/cliqueId", "fabric/clique_id"),
}

#: What drivers print since about 570, and older ones do not.
NEWER_FIELDS: Mapping[str, tuple[str, ...]] = {
    "fabric_health": ("fabric/health/summary",),
    "fabric_bandwidth": ("fabric/health/bandwidth",),
    "fabric_route_unhealthy": ("fabric/health/route_unhealthy",),
    "fabric_incorrect_configuration": ("fabric/health/incorrect_configuration",),
    "recovery_action": ("gpu_recovery_action",),
    "channel_repair_pending": ("ecc_errors/channel_repair_pending",),
    "tpc_repair_pending": ("ecc_errors/tpc_repair_pending",),
    "unrepairable_memory": ("ecc_errors/unrepairable_memory",),
    "ecc_sram_threshold_exceeded": ("ecc_errors/aggregate/sram_threshold_exceeded",),
}

#: Reasons for low clocks that are no healthy GPU's; idling and the power limit are.
THROTTLES = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")

_IMEX = ("imex/domain_state", "imex/nodes", "imex/nodes_ready")

#: `nvidia-smi -q -x` that takes longer, in seconds, waits for a GPU: one that hangs, or that the
#: driver starts again for each program without persistence mode. NVIDIA names no time: a choice of
#: ours.
SLOW_SMI_S = 10.0

#: What `nvidia-smi -q -x` says of the node.
_NODE_FIELDS = {"nvidia/driver_smi": "driver_version", "nvidia/cuda_of_driver": "cuda_version"}


def _pci_devices(root: str, classes: tuple[str, ...]) -> list[str]:
    folder = Path(root, "bus/pci/devices")
    addresses = []
    for address in names_in(folder):
        try:
            if text_of(folder / address / "vendor") != _VENDOR:
                continue
            if text_of(folder / address / "class").startswith(classes):
                addresses.append(address.lower())
        except FactError:
            continue
    return addresses


def gpus(places: Places) -> list[str]:
    """The PCI addresses of the GPUs in order, as sysfs or the driver shows them."""
    shown = _pci_devices(places.sys, _GPU_CLASSES)
    by_driver = names_in(Path(places.proc, "driver/nvidia/gpus"))
    return sorted({*shown, *(address.lower() for address in by_driver)})


def look(places: Places) -> Sheet:
    """What sysfs and the driver's own files show."""
    sheet = Sheet()
    addresses = gpus(places)
    sheet.put("gpu/count", _number_of, places, addresses)
    if not addresses:
        return sheet
    switches = _pci_devices(places.sys, (_SWITCH_CLASS,))
    sheet.put("nvswitch/count", _number_of, places, switches)
    driver = Path(places.proc, "driver/nvidia")
    sheet.put("nvidia/driver", lambda: driver_version(text_of(driver / "version")))
    for place, address in enumerate(addresses):
        at = f"gpu/{place}"
        sheet.put(f"{at}/pci_address", str, address)
        pci_link(sheet, at, Path(places.sys, "bus/pci/devices", address), now=False)
        information = driver / "gpus" / address / "information"
        sheet.several(f"{at}/", ["model", "vbios"], _information, information)
    return sheet


def _driver(places: Places) -> str | None:
    """The version of the kernel module; None where none is loaded."""
    with contextlib.suppress(FactError):
        return driver_version(text_of(Path(places.proc, "driver/nvidia/version")))
    return None


def _information(path: Path) -> dict[str, Scalar]:
    return gpu_information(raw_text(path))


def _number_of(places: Places, addresses: list[str]) -> int:
    bus = Path(places.sys, "bus/pci/devices")
    if not addresses and not bus.is_dir():
        raise FactError(f"{bus}: no such folder")
    return len(addresses)


def driver_version(text: str) -> str:
    """570.124.06 of /proc/driver/nvidia/version, also of the open kernel module."""
    for line in text.splitlines():
        if line.startswith("NVRM version:"):
            matched = re.search(r"\s([0-9]+\.[0-9]+(\.[0-9]+)?)\s", line)
            if matched:
                return matched[1]
    raise FactError("/proc/driver/nvidia/version has no NVRM version")


def gpu_information(text: str) -> dict[str, Scalar]:
    """Model and VBIOS of a GPU; question marks stand for what the driver has not asked yet.

    The VBIOS in small letters: nvidia-smi, which is asked as well, writes it in capitals.
    """
    names = {"Model": "model", "Video BIOS": "vbios"}
    facts: dict[str, Scalar] = {}
    for line in whole_lines(text):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if colon and name in names and "?" not in value:
            facts[names[name]] = value.lower() if name == "Video BIOS" else value
    return facts


# ---- tools ----


def sources(places: Places) -> list[Callable[[], Sheet]]:
    """What asks NVIDIA's tools, where there is a GPU."""
    addresses = gpus(places)
    if not addresses:
        return []
    readers = [
        lambda: _smi(places, addresses),
        lambda: _links(places, addresses),
        lambda: _fabric_manager(places),
        lambda: gpu_libraries.sheet(places, _driver(places)),
        lambda: gpu_health.link_sheet(places, len(addresses)),
        lambda: gpu_health.xid_sheet(places),
    ]
    channels = Path(places.root, "etc/nvidia-imex/nodes_config.cfg")
    if channels.exists():
        readers.append(lambda: _imex(places))
    return readers


def _smi(places: Places, addresses: list[str]) -> Sheet:
    sheet = Sheet()
    throttled = (f"throttled_{reason}" for reason in THROTTLES)
    names = [*GPU_FIELDS, *throttled, "processes", *gpu_health.SMI_COUNTERS]
    wanted = [f"gpu/{place}/{name}" for place in range(len(addresses)) for name in names]

    def read() -> dict[str, Scalar]:
        began = time.monotonic()
        text = places.ask(["nvidia-smi", "-q", "-x"])
        slow = time.monotonic() - began > SLOW_SMI_S
        printed = smi(text, places.proc)
        fields: dict[str, Scalar] = {**printed.node, "nvidia/smi_slow": slow}
        for place, address in enumerate(addresses):
            for name, value in printed.gpus.get(short_address(address), {}).items():
                fields[f"gpu/{place}/{name}"] = value
        return fields

    sheet.several("", [*_NODE_FIELDS, "nvidia/smi_slow", *wanted], read)
    return sheet


class SmiOutput:
    """What `nvidia-smi -q -x` says: of the node, and of each GPU by its PCI address."""

    def __init__(self, node: dict[str, Scalar], by_address: dict[str, dict[str, Scalar]]) -> None:
        self.node = node
        self.gpus = by_address


def short_address(address: str) -> str:
    """0000:17:00.0 of nvidia-smi's `00000000:17:00.0`, in small letters."""
    domain, _, rest = address.strip().lower().partition(":")
    return f"{domain[-4:].zfill(4)}:{rest}"


def smi(text: str, proc: str = "/proc") -> SmiOutput:
    """The fields and counters of every GPU; FactError where it is not the whole document. `proc` is
    where processes have their owners.
    """
    try:
        root = xml.fromstring(text)
    except xml.ParseError as error:
        raise FactError(f"nvidia-smi -q -x: not a whole XML document: {error}") from None
    listed = root.findall("gpu")
    attached = root.findtext("attached_gpus", "").strip()
    if root.tag != "nvidia_smi_log" or attached != str(len(listed)):
        raise FactError(f"nvidia-smi -q -x: {attached or 'no'} GPUs attached, {len(listed)} listed")
    node = {field: root.findtext(name, "") for field, name in _NODE_FIELDS.items()}
    by_address = {short_address(gpu.get("id", "")): _gpu(gpu, proc) for gpu in listed}
    return SmiOutput(dict(node), by_address)


def _gpu(gpu: xml.Element, proc: str) -> dict[str, Scalar]:
    facts: dict[str, Scalar] = gpu_health.counters(gpu)
    with contextlib.suppress(FactError):
        facts["processes"] = gpu_health.processes(gpu, proc)
    for field, places in {**GPU_FIELDS, **NEWER_FIELDS}.items():
        text = next((one for p in places if (one := (gpu.findtext(p) or "").strip())), "")
        value: Scalar | None = text
        if field.endswith(("_w", "_mhz")):
            value = number(text)
        if value not in (None, ""):
            facts[field] = value
    facts["model"] = (gpu.findtext("product_name") or "").strip()
    facts["vbios"] = (gpu.findtext("vbios_version") or "").strip().lower()
    # clocks_throttle_reasons until driver 530, clocks_event_reasons since.
    for reason in THROTTLES:
        for group in (
            "clocks_event_reasons/clocks_event",
            "clocks_throttle_reasons/clocks_throttle",
        ):
            text = (gpu.findtext(f"{group}_reason_{reason}") or "").strip()
            if text:
                facts[f"throttled_{reason}"] = text == "Active"
    return facts


def _links(places: Places, addresses: list[str]) -> Sheet:
    names = ("nvlink_links", "nvlink_active", "nvlink_gbytes_s")
    return gpu_health.nvlink_sheet(places, len(addresses), "-s", names, nvlinks)


_ALL_INACTIVE = re.compile(r"Unable to retrieve NVLink information as all links are inActive")


def nvlinks(text: str) -> dict[int, dict[str, Scalar]]:
    """Number of links, of active ones, and the least rate, by GPU, of `nvidia-smi nvlink -s`.

    The text has no end mark. All GPUs of a node have as many links, so that the last one's are
    believed where they are as many as those of the one before. Of a GPU without any active link it
    says that alone.
    """
    rates: dict[int, list[float]] = {}
    inactive: dict[int, dict[str, Scalar]] = {}
    gpu = -1
    for line in whole_lines(text):
        header = re.match(r"GPU ([0-9]{1,4}): ", line)
        link = re.match(r"\s+Link ([0-9]{1,3}): (?:(<inactive>)|([0-9.]{1,12}) GB/s)\s*$", line)
        if header:
            gpu = int(header[1])
            rates[gpu] = []
        elif link and gpu >= 0 and int(link[1]) == len(rates[gpu]):
            rates[gpu].append(float(number(link[3]) or 0.0) if link[3] else 0.0)
        elif gpu >= 0 and _ALL_INACTIVE.search(line) and not rates.get(gpu, [1]):
            inactive[gpu] = {"nvlink_active": 0}
            del rates[gpu]
        elif line.strip() and gpu >= 0:
            raise FactError(f"nvidia-smi nvlink -s: found {line.strip()[:80]!r}")
    counts = [len(links) for links in rates.values()]
    # Of a GPU behind which another stands all links are there.
    if gpu in rates and len(counts) > 1 and counts[-1] != counts[-2]:
        del rates[gpu]
    elif gpu in rates and len(counts) == 1:
        # It is not known whether these are all.
        rates.clear()
    by_gpu = dict(inactive)
    for number_of, links in rates.items():
        active = [rate for rate in links if rate > 0]
        by_gpu[number_of] = {"nvlink_links": len(links), "nvlink_active": len(active)}
        if active:
            by_gpu[number_of]["nvlink_gbytes_s"] = min(active)
    return by_gpu


def _fabric_manager(places: Places) -> Sheet:
    sheet = Sheet()
    if Path(places.root, "usr/bin/nv-fabricmanager").exists():
        sheet.put(
            "nvidia/fabric_manager",
            lambda: fabric_manager(places.ask(["nv-fabricmanager", "--version"])),
        )
        version = sheet.fields.get("nvidia/fabric_manager")
        if version is not None:
            driver = Path(places.proc, "driver/nvidia/version")
            sheet.put(
                "nvidia/fabric_manager_fits",
                lambda: version == driver_version(text_of(driver)),
            )
    return sheet


def fabric_manager(text: str) -> str:
    """535.104.05 of `Fabric Manager version is : 535.104.05`."""
    pattern = r"Fabric Manager version is : ([0-9.]+)"
    return version_in(text, pattern, "nv-fabricmanager --version")


def _imex(places: Places) -> Sheet:
    sheet = Sheet()
    sheet.several("", _IMEX, lambda: imex(places.ask(["nvidia-imex-ctl", "-N", "-j"])))
    return sheet


def imex(text: str) -> dict[str, Scalar]:
    """State of the IMEX domain, of `nvidia-imex-ctl -N -j`."""
    try:
        document: Any = json.loads(text)
        states = [node["status"] for node in document["nodes"].values()]
        domain = document["status"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FactError(f"nvidia-imex-ctl -N -j: not the JSON expected: {error!r}") from None
    if not all(isinstance(state, str) for state in (domain, *states)):
        raise FactError("nvidia-imex-ctl -N -j: a status that is no text")
    return {
        "imex/domain_state": domain,
        "imex/nodes": len(states),
        "imex/nodes_ready": states.count("READY"),
    }
