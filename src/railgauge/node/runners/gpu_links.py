"""Run a program that loads the GPUs of one node: the only side of a place (worker.py).

While it runs the PCIe links of the GPUs are read again and again: an idle GPU lowers their speed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railgauge.node.orders.places import PlaceOrder, SingleNodeOrder
from railgauge.node.runners.single_node import ROLE
from railgauge.node.system.network_path import cpus_of
from railgauge.node.system.tool_call import Call, exit_line, host_name, read_sysfs, search_path
from railgauge.node.transport.channel import Peer

#: Between two looks at the links. One copy of a matrix takes longer.
_LOOK_S = 0.25

#: Where the drivers of NVIDIA's and AMD's GPUs list their devices.
DRIVERS = "/sys/bus/pci/drivers/nvidia", "/sys/bus/pci/drivers/amdgpu"


def side(place: PlaceOrder[SingleNodeOrder], role: str, peer: Peer) -> None:
    """The side of a place of the program `gpu_links`."""
    peer.prepared()
    peer.wait_go()
    order = place.order
    os.environ["PATH"] = search_path(order.path)
    facts: dict[str, Any] = {"hostname": host_name()}
    if shutil.which(order.argv[0]) is None:
        facts["missing"] = [order.argv[0]]
        call = Call.never_started(ROLE, f"not started: {order.argv[0]} is not there")
    else:
        # Numbers are then those of nvidia-smi (CUDA C++ Programming Guide, environment variables).
        call = Call(ROLE, list(order.argv), {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
        try:
            facts["gpus"] = watch(call, order.run_limit_s, DRIVERS)
        finally:
            call.kill("ended with the job")
    peer.report(call, exit_line(call, place.tool, order.version, facts, 0), {})
    peer.finished(call.process is not None)


def watch(call: Call, limit_s: float, drivers: Sequence[str]) -> list[dict[str, Any]]:
    """Wait for the call's end; what was seen of each GPU meanwhile: its PCI address, NUMA node,
    whether this process may use a CPU near it, and the best PCIe speed (GT/s) and width.
    """
    homes = sorted(home for driver in drivers for home in Path(driver).glob("????*:??:??.?"))
    gpus = {home.name: home for home in homes}
    best: dict[str, dict[str, float]] = {address: {} for address in gpus}
    deadline = time.monotonic() + limit_s
    while not call.ends_within(min(_LOOK_S, max(deadline - time.monotonic(), 0.0))):
        if time.monotonic() >= deadline:
            break
        for address, home in gpus.items():
            _keep_best(best[address], home)
    call.wait(max(deadline - time.monotonic(), 0.0))
    allowed = os.sched_getaffinity(0)
    return [
        {"pci": address, **_placed(home, allowed), **best[address]}
        for address, home in gpus.items()
    ]


def _keep_best(best: dict[str, float], home: Path) -> None:
    for name, file in (("pcie_gts", "current_link_speed"), ("pcie_lanes", "current_link_width")):
        text = (read_sysfs(str(home / file)) or "").partition(" ")[0]
        if text.replace(".", "", 1).isdigit():
            best[name] = max(best.get(name, 0.0), float(text))


def _placed(home: Path, allowed: set[int]) -> dict[str, Any]:
    placed: dict[str, Any] = {}
    node = read_sysfs(str(home / "numa_node")) or ""
    if node.isdigit():
        placed["numa_node"] = int(node)
    near = cpus_of({"cpus": read_sysfs(str(home / "local_cpulist")) or ""})
    if near:
        placed["near_cpus_allowed"] = len(allowed.intersection(near))
    return placed
