"""What GPUs add to a node's checks beside their tools: NodeState's reading, and GpuLinks.

No GPU is needed. Stand-ins of the tools are programs of their own on PATH: they print an H100's
recorded answer for eight GPUs, after a delay that the figure names. How long the real tools of a
node with eight GPUs take was not recorded.
"""

from __future__ import annotations

import copy
import os
import statistics
import tempfile
import time
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from railgauge import paths
from railgauge.locating import gpu_copies
from railgauge.node.inventory import document
from railgauge.node.inventory.sheet import Places
from railgauge.node.runners import gpu_links
from railgauge.node.system import rdma_devices
from railgauge.node.system.tool_call import Call
from railgauge.tools import nvbandwidth
from tests.unit.checks.preflight.test_gpu_links import output

DATA = paths.HOME / "tests" / "data" / "gpu" / "inventory"
GPUS = 8
RUNS = 5
#: How long the stand-in of nvbandwidth takes, in s.
MATRIX_S = 10.0


def _addresses() -> list[str]:
    return [f"0000:{16 + number:02x}:00.0" for number in range(GPUS)]


def _eight() -> str:
    """`nvidia-smi -q -x` of eight GPUs like the recorded one."""
    root = xml.parse(DATA / "nvidia-smi-q-x.xml").getroot()
    (one,) = root.findall("gpu")
    for address in _addresses():
        another = copy.deepcopy(one)
        another.set("id", f"0000{address.upper()}")
        root.append(another)
    root.remove(one)
    attached = root.find("attached_gpus")
    assert attached is not None
    attached.text = str(GPUS)
    return xml.tostring(root, encoding="unicode")


def _links() -> str:
    lines = []
    for gpu in range(GPUS):
        lines.append(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu})")
        lines += [f"\t Link {link}: 26.562 GB/s" for link in range(18)]
    return "\n".join(lines) + "\n"


def _node(folder: Path, count: int) -> Places:
    """A node with so many GPUs, by sysfs alone; the tools are those on PATH."""
    sys = folder / f"sys{count}"
    for address in _addresses()[:count]:
        device = sys / "bus/pci/devices" / address
        device.mkdir(parents=True)
        for name, text in (
            ("vendor", "0x10de"),
            ("class", "0x030200"),
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "16"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
            ("numa_node", str(int(address > "0000:13"))),
            ("local_cpulist", "0-1"),
        ):
            (device / name).write_text(f"{text}\n")
    (sys / "bus/pci/drivers/nvidia").mkdir(parents=True)
    for address in _addresses()[:count]:
        (sys / "bus/pci/drivers/nvidia" / address).symlink_to(sys / "bus/pci/devices" / address)
    (folder / "root").mkdir(exist_ok=True)
    return Places(str(sys), "/proc", str(folder / "root"), rdma_devices.ask)


@contextmanager
def _tools(folder: Path, delay_s: float) -> Iterator[None]:
    """Stand-ins first on PATH, each of which answers after the delay."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (folder / "smi.xml").write_text(_eight())
    (folder / "links").write_text(_links())
    answers = f'case "$1" in nvlink) cat {folder}/links;; *) cat {folder}/smi.xml;; esac'
    for name, answer in (("nvidia-smi", answers), ("dmesg", ":"), ("nvbandwidth", ":")):
        program = programs / name
        program.write_text(f"#!/bin/sh\nsleep {delay_s}\n{answer}\n")
        program.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{programs}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _spread(values: Sequence[float]) -> str:
    middle = statistics.median(values)
    return f"{middle:.3f} s ({min(values):.3f} to {max(values):.3f}, n={len(values)})"


def _seconds(places: Places) -> float:
    began = time.monotonic()
    document.look(places, quick=False)
    return time.monotonic() - began


def _state(folder: Path, delay_s: float) -> None:
    """The reading of a node with eight GPUs less that of the same node without, in turn."""
    with _tools(folder, delay_s):
        here = folder / f"delay{delay_s:g}"
        here.mkdir()
        without, eight = _node(here, 0), _node(here, GPUS)
        added = [_seconds(eight) - _seconds(without) for _ in range(RUNS)]
    print(
        f"NodeState, {GPUS} GPUs over none, tools that answer after {delay_s:g} s:", _spread(added)
    )


def _matrix(folder: Path) -> None:
    """What the node and the judge add to the time of nvbandwidth."""
    with _tools(folder, MATRIX_S):
        own = []
        for _ in range(2):
            driver = str(folder / "delay0" / f"sys{GPUS}" / "bus/pci/drivers/nvidia")
            began = time.monotonic()
            call = Call("node", ["nvbandwidth"], dict(os.environ))
            gpu_links.watch(call, 60, [driver])
            own.append(time.monotonic() - began - MATRIX_S)
    print(f"GpuLinks on a node beside nvbandwidth, {GPUS} GPUs:", _spread(own))
    text, judging = output(), []
    for _ in range(RUNS):
        began = time.monotonic()
        matrices = nvbandwidth.copies(nvbandwidth.read(text).seen, {})
        gpu_copies.locate_gpus(matrices, even=True, links=18)
        judging.append(time.monotonic() - began)
    print(f"GpuLinks, reading and judging the matrices of {GPUS} GPUs:", _spread(judging))


def figures() -> None:
    """All of them."""
    with tempfile.TemporaryDirectory(prefix="railgauge-bench-") as area:
        for delay_s in (0.0, 0.5):
            _state(Path(area), delay_s)
        _matrix(Path(area))
