"""The inventory of the node that this process runs on, from all its sources."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from railgauge.node.inventory import (
    SCHEMA,
    amd,
    ethtool,
    lldp,
    machine,
    mellanox,
    nccl,
    network,
    nvidia,
    software,
)
from railgauge.node.inventory.kinds import is_counter
from railgauge.node.inventory.sheet import Places, Sheet
from railgauge.node.system.rdma_devices import ask
from railgauge.node.system.tool_call import node_name, read_sysfs

#: What starts no process, in the order in which it is read.
QUICK: tuple[Callable[[Places], Sheet], ...] = (
    machine.look,
    network.look,
    nvidia.look,
    amd.look,
)

_Value = TypeVar("_Value")

#: Tools that run at once: most of them wait for a device.
_AT_ONCE = 8


def _tools(places: Places) -> list[Callable[[], Sheet]]:
    """What asks the tools that are there, each apart from the others."""
    return [
        *software.sources(places),
        *network.sources(places),
        *nccl.sources(places),
        *ethtool.sources(places),
        *lldp.sources(places),
        *mellanox.sources(places),
        *nvidia.sources(places),
        *amd.sources(places),
    ]


def look(places: Places, quick: bool) -> Sheet:
    """All fields of the node that `places` shows."""
    sheet = Sheet()
    for source in QUICK:
        sheet.add(source(places))
    if not quick:
        _ask_tools(sheet, places)
    return sheet


def _ask_tools(sheet: Sheet, places: Places) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for part in pool.map(lambda source: source(), _tools(places)):
            sheet.add(part)


def take(quick: bool = False, sys_root: str = "/sys", proc_root: str = "/proc") -> dict[str, Any]:
    """The document. `boot_id` is empty where the kernel does not say it."""
    started = time.monotonic()
    places = Places(sys_root, proc_root, "/", ask)
    sheet = look(places, quick=True)
    early = sorted({*sheet.fields, *sheet.unknown})
    if not quick:
        _ask_tools(sheet, places)
    fields, counters = _apart(sheet.fields)
    unknown, uncounted = _apart(sheet.unknown)
    return {
        "schema": SCHEMA,
        "node": node_name(),
        "boot_id": read_sysfs(f"{proc_root}/sys/kernel/random/boot_id") or "",
        "taken": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 3),
        "fields": fields,
        "unknown": unknown,
        "counters": counters,
        "uncounted": uncounted,
        "quick": early,
    }


def _apart(entries: Mapping[str, _Value]) -> tuple[dict[str, _Value], dict[str, _Value]]:
    """Those of fields and those of counters, each in order."""
    ordered = sorted(entries.items())
    return (
        {key: value for key, value in ordered if not is_counter(key)},
        {key: value for key, value in ordered if is_counter(key)},
    )
