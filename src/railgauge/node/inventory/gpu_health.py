"""What shows that a GPU is failing: counters of NVIDIA's driver, its Xids, and its processes.

Counters move while a node works, so that they stand apart from the fields of an inventory. Two
readings of a campaign are compared by `railgauge.checks.preflight.gpu_health`.
"""

from __future__ import annotations

import pwd
import re
import xml.etree.ElementTree as xml
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from railgauge.node.inventory.sheet import Places, Scalar, Sheet, number, whole_lines
from railgauge.node.system.rdma_devices import FactError

#: Counter -> place in `nvidia-smi -q -x`, below <gpu>.
_SMI_COUNTERS: Mapping[str, str] = {
    "rows_remapped_correctable": "remapped_rows/remapped_row_corr",
    "rows_remapped_uncorrectable": "remapped_rows/remapped_row_unc",
    "pcie_replays": "pci/replay_counter",
    **{
        f"slowed_{name}_us": f"clocks_event_reasons_counters/clocks_event_reasons_counters_{place}"
        for name, place in (
            ("hw_thermal", "hw_therm_slowdown"),
            ("hw_power_brake", "hw_power_brake"),
            ("sw_thermal", "sw_therm_slowdown"),
        )
    },
}

#: Counters of `nvidia-smi -q -x`, of each GPU.
SMI_COUNTERS = ("ecc_uncorrected", *_SMI_COUNTERS)

#: Counters of `nvidia-smi nvlink -e`, all links of a GPU together.
LINK_COUNTERS = ("nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_crc_errors")

#: As a field says that no program computes on a GPU.
NO_PROCESS = "none"


def counters(gpu: xml.Element) -> dict[str, Scalar]:
    """The counters of one GPU that its driver shows: events since the driver was loaded, of rows
    since the GPU was made; times in microseconds.
    """
    counted: dict[str, Scalar] = {}
    for name, place in _SMI_COUNTERS.items():
        value = number(gpu.findtext(place) or "")
        if value is not None:
            counted[name] = value
    # Drivers part the uncorrectable errors in more and more ways; before Ampere they count bits.
    errors = [
        number(entry.text or "")
        for entry in gpu.findall("ecc_errors/volatile/*")
        if "uncorrectable" in entry.tag
    ] or [number(gpu.findtext("ecc_errors/volatile/double_bit/total") or "")]
    known = [count for count in errors if count is not None]
    # Of a memory that does not have a kind of error the driver prints N/A for it.
    if known:
        counted["ecc_uncorrected"] = sum(known)
    return counted


def processes(gpu: xml.Element, proc: str) -> str:
    """The programs that compute on a GPU, `4711 alice python3`, or `none`; FactError where the
    driver does not list them.
    """
    listed = gpu.find("processes")
    if listed is None or (listed.text or "").strip() == "N/A":
        raise FactError("nvidia-smi -q -x: no list of processes")
    found = []
    for entry in listed.findall("process_info"):
        if "C" in (entry.findtext("type") or "C"):
            pid = (entry.findtext("pid") or "").strip() or "?"
            name = (entry.findtext("process_name") or "").strip() or "?"
            found.append(f"{pid} {owner(pid, proc)} {name}")
    return "; ".join(found) or NO_PROCESS


def owner(pid: str, proc: str) -> str:
    """The user of a process; `?` where another container hides it."""
    try:
        user = Path(proc, str(int(pid))).stat().st_uid
    except (OSError, ValueError):
        return "?"
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def link_errors(text: str) -> dict[int, dict[str, int]]:
    """The error counters of `nvidia-smi nvlink -e` by GPU, all links together.

    The text has no end mark. All GPUs of a node print as many lines, so that the last one's are
    believed where they are as many as those of the one before, and of a single GPU none are.
    """
    counted: dict[int, dict[str, int]] = {}
    lines: dict[int, int] = {}
    gpu = -1
    for line in whole_lines(text):
        if header := re.match(r"GPU ([0-9]{1,4}): ", line):
            gpu = int(header[1])
            counted[gpu], lines[gpu] = {}, 0
        elif gpu >= 0 and (link := re.match(r"\s+Link [0-9]{1,3}: (.+)", line)):
            lines[gpu] += 1
            _count(counted[gpu], link[1])
    order = list(lines)
    if order and (len(order) == 1 or lines[order[-1]] != lines[order[-2]]):
        del counted[order[-1]]
    return {gpu: of_gpu for gpu, of_gpu in counted.items() if of_gpu}


def _count(counted: dict[str, int], line: str) -> None:
    """Add `CRC Errors: 3`, or since another driver `CRC Flit Errors: 3`; other lines are no errors
    of these kinds.
    """
    matched = re.fullmatch(r"(Replay|Recovery|CRC)( Flit| Data)? Errors: ([0-9]{1,18})\s*", line)
    if matched:
        name = f"nvlink_{matched[1].lower()}_errors"
        counted[name] = counted.get(name, 0) + int(matched[3])


def xids(text: str) -> dict[str, int]:
    """How many of each Xid the kernel's log has: {"xid/0000:17:00/79": 1}.

    The log is a ring, so that a later reading may have fewer.
    """
    counted: dict[str, int] = {}
    for line in whole_lines(text):
        matched = re.search(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{1,20})\): ([0-9]{1,6}),", line)
        if matched:
            key = f"xid/{matched[1].lower()}/{matched[2]}"
            counted[key] = counted.get(key, 0) + 1
    return counted


def link_sheet(places: Places, gpus: int) -> Sheet:
    """The counters of NVLink, of each GPU."""
    return nvlink_sheet(places, gpus, "-e", LINK_COUNTERS, link_errors)


def nvlink_sheet(
    places: Places,
    gpus: int,
    option: str,
    names: Sequence[str],
    parse: Callable[[str], Mapping[int, Mapping[str, Scalar]]],
) -> Sheet:
    """What `nvidia-smi nvlink OPTION` prints of each GPU, under these names."""
    sheet = Sheet()
    wanted = [f"gpu/{place}/{name}" for place in range(gpus) for name in names]

    def read() -> dict[str, Scalar]:
        printed = parse(places.ask(["nvidia-smi", "nvlink", option]))
        return {
            f"gpu/{place}/{name}": value
            for place, of_gpu in printed.items()
            for name, value in of_gpu.items()
        }

    sheet.several("", wanted, read)
    return sheet


def xid_sheet(places: Places) -> Sheet:
    """The Xids since the node started. `xid/log` says that the log was read, also where it has
    none; most systems show it to administrators only.
    """
    sheet = Sheet()
    sheet.several("", ["xid/log"], lambda: {"xid/log": 1, **xids(places.ask(["dmesg"]))})
    return sheet
