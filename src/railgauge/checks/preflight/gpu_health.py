"""What two readings of a node's GPUs, before and after it was measured, say of their health.

The counters are those of `railgauge.node.inventory.gpu_health`. What a GPU or a user never sees is
not compared, and a note says so. What was read before and not after accuses no node, and passes
none.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from railgauge.common.names import natural
from railgauge.model.failure import ENVIRONMENT, Failure
from railgauge.model.inventory import Inventory


class _Most(NamedTuple):
    """What a counter may grow by: so many events at once, and `per_s` more in every second."""

    counters: str
    at_once: float
    per_s: float
    why: str
    next_step: str


#: The first pattern that matches a whole key says what the counter may grow by.
#:
#: - ECC and rows: NVIDIA, "GPU Memory Error Management": an error that was not corrected ends
#:   programs, and a row that is remapped needs a reset of the GPU.
#: - NVLink and PCIe: NVIDIA, DCGM, dcgm_gpu_hardware_limits.h: one replay or recovery, 100 CRC
#:   errors a second (a lower rate does not matter), 8 PCIe replays a minute.
#: - Slowdowns: NVIDIA, NVML API, nvmlClocksEventReasons: "HW Thermal Slowdown" and "HW Power Brake
#:   Slowdown" halve the clocks at least. That of software keeps a GPU in its limits, and is noted.
_MOST: tuple[_Most, ...] = (
    _Most(
        r"(?:amd_)?gpu/[0-9]+/ecc_uncorrected",
        *(0, 0, "errors of its memory were not corrected"),
        "dmesg | grep -i xid; nvidia-smi -q -d ECC,ROW_REMAPPER; reset or replace the GPU",
    ),
    _Most(
        r"(?:amd_)?gpu/[0-9]+/rows_remapped_(correctable|uncorrectable)",
        *(0, 0, "damaged rows of its memory were replaced by spare ones"),
        "nvidia-smi -q -d ROW_REMAPPER; reset the GPU, and replace it if it says failure",
    ),
    _Most(
        r"(?:amd_)?gpu/[0-9]+/nvlink_(replay|recovery)_errors",
        *(0, 0, "NVLink sent data again, or trained again"),
        "nvidia-smi nvlink -e; the NVSwitch or cable behind that link",
    ),
    _Most(
        r"(?:amd_)?gpu/[0-9]+/nvlink_crc_errors",
        *(0, 100, "NVLink damages data at a rate that matters"),
        "nvidia-smi nvlink -e; the NVSwitch or cable behind that link",
    ),
    _Most(
        r"(?:amd_)?gpu/[0-9]+/pcie_replays",
        *(8, 8 / 60, "its PCIe link sends much of its data again"),
        "lspci -vv (LnkSta, DevSta) of the GPU; reseat it, or its riser",
    ),
    _Most(
        r"(?:amd_)?gpu/[0-9]+/slowed_hw_(thermal|power_brake)_us",
        *(0, 0, "heat, or a lack of power, halved its clocks"),
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; fans, coolant and power supplies",
    ),
)

#: Xids that a program brings about, or that follow its end: an exception of its kernels (13), an
#: address that is not its own (31), a channel that was reset (43), cleaning up after it (45). The
#: GPU stays healthy (NVIDIA, "XID Errors"), so they are noted.
_OF_PROGRAMS = ("13", "31", "43", "45")

#: A kind of failure that is the node's.
KIND = "gpu-errors"


class Compared(NamedTuple):
    """The failures of a node's GPUs, and what else is to know."""

    failures: tuple[Failure, ...]
    notes: tuple[str, ...]


def compare(before: Inventory, after: Inventory) -> Compared:
    """What happened to the GPUs of a node between two readings."""
    node = after.node
    if before.boot_id != after.boot_id:
        # The verdict finds the restart by itself; counters begin at 0 with it.
        return Compared((), (f"{node}: restarted, so that counters of its GPUs are not compared",))
    seconds = _seconds_between(before, after)
    failures, notes = [], []
    for most in _MOST:
        for key in _counted_twice(before.counters, after.counters, most.counters):
            grown = after.counters[key] - before.counters[key]
            allowed = most.at_once + most.per_s * seconds
            if grown < 0:
                notes.append(
                    f"{node}: {key} fell from {before.counters[key]:g} to {after.counters[key]:g}: "
                    "the GPU was reset or its driver loaded again"
                )
            elif grown > allowed:
                message = (
                    f"{node}: {key} grew by {grown:g} in {seconds:.0f} s, at most {allowed:g} "
                    f"expected: {most.why}"
                )
                failures.append(Failure(KIND, message, (node,), most.next_step))
    failures += [*_new_xids(before, after), *_lost(before, after)]
    return Compared(tuple(failures), (*notes, *_notes(before, after)))


def _seconds_between(before: Inventory, after: Inventory) -> float:
    """0 where the clock was set back: no rate allows anything then."""
    taken = [datetime.datetime.fromisoformat(one.taken) for one in (before, after)]
    return max((taken[1] - taken[0]).total_seconds(), 0.0)


def _counted_twice(
    before: Mapping[str, float], after: Mapping[str, float], pattern: str
) -> Iterator[str]:
    both = sorted(before.keys() & after.keys(), key=natural)
    yield from (key for key in both if re.fullmatch(pattern, key))


def _new_xids(before: Inventory, after: Inventory) -> Iterator[Failure]:
    for count, address, number in _xids(before, after):
        if number not in _OF_PROGRAMS:
            message = f"{after.node}: Xid {number} of the GPU at {address}, {count:g} times"
            step = f"dmesg | grep -i xid on the node; NVIDIA's page XID Errors explains {number}"
            yield Failure(KIND, message, (after.node,), step)


def _xids(before: Inventory, after: Inventory) -> Iterator[tuple[float, str, str]]:
    """New ones, PCI address and number of every Xid that came between two readings."""
    if "xid/log" not in before.counters or "xid/log" not in after.counters:
        return
    for key in sorted(after.counters, key=natural):
        home, _, rest = key.partition("/")
        address, _, number = rest.rpartition("/")
        new = after.counters[key] - before.counters.get(key, 0)
        if home == "xid" and address and new > 0:
            yield new, address, number


def _notes(before: Inventory, after: Inventory) -> Iterator[str]:
    node = after.node
    for count, address, number in _xids(before, after):
        if number in _OF_PROGRAMS:
            yield (
                f"{node}: Xid {number} of the GPU at {address}, {count:g} times: as a rule a "
                "program's own"
            )
    for key in _counted_twice(
        before.counters, after.counters, r"(?:amd_)?gpu/[0-9]+/slowed_sw_thermal_us"
    ):
        if (grown := after.counters[key] - before.counters[key]) > 0:
            yield f"{node}: {key} grew by {grown:g}: the driver lowered clocks for heat"
    yield from _unread(before, after)


def _unread(before: Inventory, after: Inventory) -> Iterator[str]:
    """One note for all that no reading has, as on GPUs without it, with the first reason."""
    reasons = {**before.uncounted, **after.uncounted}
    missing = sorted(reasons.keys() - before.counters.keys() - after.counters.keys())
    if missing:
        names = ", ".join(
            dict.fromkeys(re.sub(r"(?:amd_)?gpu/[0-9]+/", "", key) for key in missing)
        )
        yield f"{after.node}: GPU counters not compared: {names} ({reasons[missing[0]]})"


def _lost(before: Inventory, after: Inventory) -> Iterator[Failure]:
    """What was read before and not after, so that nothing says what happened meanwhile."""
    lost = [
        key
        for key in sorted(before.counters.keys() - after.counters.keys(), key=natural)
        # One Xid is there only where it came, and an old one may have left the log.
        if not key.startswith("xid/") or key == "xid/log"
    ]
    if lost:
        why = after.uncounted.get(lost[0], "it is not there")
        message = f"{lost[0]} was read before, and not after: {why}"
        yield Failure(ENVIRONMENT, f"{after.node}: {message}", (), "nvidia-smi -q on the node")
