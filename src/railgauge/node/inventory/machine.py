"""The machine and its kernel: /proc, /proc/sys, /sys/devices/system, /sys/class/dmi."""

from __future__ import annotations

import os
import re
from pathlib import Path

from railgauge.common.names import natural
from railgauge.node.inventory.sheet import Places, Scalar, Sheet, chosen, raw_text, words_of
from railgauge.node.system.rdma_devices import (
    FactError,
    int_of,
    memlock_kib,
    names_in,
    text_of,
)

#: Kernel settings that change what a network, or a program's memory, does.
SYSCTLS = (
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.conf.all.arp_announce",
    "net.ipv4.conf.all.arp_filter",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_low_latency",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
)

#: Kernel modules with a version that counts, where they are loaded.
MODULES = (
    *("mlx5_core", "mlx5_ib", "mlx4_core", "ib_core", "ib_uverbs", "rdma_cm", "rdma_rxe"),
    *("bnxt_en", "bnxt_re", "ice", "irdma", "efa", "ena", "cxgb4", "qede", "hfi1", "bonding"),
    *("nvidia", "nvidia_peermem", "nvidia_fs", "gdrdrv", "knem", "xpmem", "lustre"),
)

#: Modules that must have been loaded before a program can use what they give.
LOADED = ("nvidia_peermem", "gdrdrv", "nvidia_fs", "knem", "xpmem")

#: Field -> file of /sys/class/dmi/id; serials and the UUID are shown to root only.
DMI = {
    "bios/vendor": "bios_vendor",
    "bios/version": "bios_version",
    "bios/date": "bios_date",
    "bios/release": "bios_release",
    "bios/ec_firmware": "ec_firmware_release",
    "board/vendor": "board_vendor",
    "board/name": "board_name",
    "board/version": "board_version",
    "board/serial": "board_serial",
    "system/vendor": "sys_vendor",
    "system/product": "product_name",
    "system/version": "product_version",
    "system/serial": "product_serial",
    "system/uuid": "product_uuid",
}

_SECRET = re.compile(r"pass|secret|token|key|auth|cred", re.IGNORECASE)
_SECRET_IN_ADDRESS = re.compile(r"://[^/\s]*@")
HIDDEN = "(not shown)"


def look(places: Places) -> Sheet:
    """All that the kernel shows of the machine, without starting a process."""
    sheet = Sheet()
    _kernel(sheet, Path(places.proc), Path(places.sys))
    _cpu(sheet, Path(places.proc), Path(places.sys))
    _memory(sheet, Path(places.proc), Path(places.sys))
    _firmware(sheet, Path(places.sys))
    sheet.put("limits/memlock_kib", memlock_kib)
    return sheet


def _kernel(sheet: Sheet, proc: Path, sys: Path) -> None:
    sheet.put("kernel/release", text_of, proc / "sys/kernel/osrelease")
    sheet.put("kernel/version", text_of, proc / "sys/kernel/version")
    sheet.put("kernel/page_bytes", lambda: os.sysconf("SC_PAGE_SIZE"))
    clock = sys / "devices/system/clocksource/clocksource0/current_clocksource"
    sheet.put("kernel/clocksource", text_of, clock)
    try:
        parameters = command_line(raw_text(proc / "cmdline"))
    except FactError as error:
        sheet.unknown["kernel/cmdline"] = str(error)
    else:
        sheet.several("kernel/cmdline/", [], lambda: parameters)
    for name in SYSCTLS:
        sheet.put(f"sysctl/{name}", sysctl, proc, name)
    for name in MODULES:
        for what in ("version", "srcversion"):
            path = sys / "module" / name / what
            if path.exists():
                sheet.put(f"module/{name}/{what}", text_of, path)
    if (sys / "module").is_dir():
        for name in LOADED:
            sheet.put(f"module/{name}/loaded", (sys / "module" / name).is_dir)


def sysctl(proc: Path, name: str) -> int | str:
    """A kernel setting; of several numbers the text, with single spaces."""
    text = " ".join(text_of(proc / "sys" / name.replace(".", "/")).split())
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else text


def command_line(text: str) -> dict[str, Scalar]:
    """The kernel's parameters; True for one without a value, all values of one that is repeated.

    What stands behind `--` is for init. Secrets are not kept.
    """
    if not text.endswith("\n"):
        raise FactError("the kernel's command line is broken off")
    options: dict[str, list[str]] = {}
    for word in re.findall(r'(?:"[^"]*"?|[^\s"])+', text):
        if word == "--":
            break
        name, equals, value = word.replace('"', "").partition("=")
        # A "/" would part the key.
        name = name.replace("/", "_")
        if _SECRET.search(name) or _SECRET_IN_ADDRESS.search(value):
            value = HIDDEN
        options.setdefault(name, []).append(value if equals else "")
    return {
        name: True if not any(values) else " ".join(values)
        for name, values in options.items()
        if name
    }


def _cpu(sheet: Sheet, proc: Path, sys: Path) -> None:
    names = ["cpu/model", "cpu/threads"]
    if os.uname().machine in ("x86_64", "i686"):
        names.append("cpu/microcode")
    sheet.several("", names, lambda: processors(raw_text(proc / "cpuinfo")))
    cpu = sys / "devices/system/cpu"
    for key, name in (
        ("cpu/governor", "scaling_governor"),
        ("cpu/frequency_driver", "scaling_driver"),
        ("cpu/frequency_most_khz", "scaling_max_freq"),
    ):
        sheet.put(key, words_of, cpu / "cpufreq", "policy*", name)
    sheet.put("cpu/online", text_of, cpu / "online")
    sheet.put("cpu/isolated", _listed, cpu / "isolated")
    for key, name in (
        ("cpu/smt", "smt/control"),
        ("cpu/idle_driver", "cpuidle/current_driver"),
        ("cpu/turbo_off", "intel_pstate/no_turbo"),
        ("cpu/boost", "cpufreq/boost"),
        ("cpu/energy_preference", "cpufreq/policy0/energy_performance_preference"),
    ):
        # Each is of some processors and drivers only.
        if (cpu / name).exists():
            sheet.put(key, text_of, cpu / name)
    node = sys / "devices/system/node"
    sheet.put("numa/nodes", text_of, node / "online")
    for name in names_in(node):
        if re.fullmatch("node[0-9]+", name):
            cpus = node / name / "cpulist"
            sheet.put(f"numa/{name[4:]}/cpus", _listed, cpus)


def _listed(path: Path) -> str:
    """A list of processors; an empty file says that there are none."""
    return raw_text(path).strip() or "no"


def processors(text: str) -> dict[str, Scalar]:
    """Model, microcode and number of threads of /proc/cpuinfo.

    ARM's has no names: the implementer's and the part's number stand for the model.
    """
    printed: dict[str, set[str]] = {}
    threads = 0
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        threads += name == "processor"
        if colon:
            printed.setdefault(name, set()).add(value)

    def all_of(name: str) -> str:
        return " ".join(sorted(printed.get(name, ()), key=natural))

    model = all_of("model name") or " ".join(
        f"{short} {all_of(name)}"
        for short, name in (
            ("implementer", "CPU implementer"),
            ("part", "CPU part"),
            ("variant", "CPU variant"),
            ("revision", "CPU revision"),
        )
        if name in printed
    )
    if not threads:
        raise FactError("/proc/cpuinfo names no processor")
    facts: dict[str, Scalar] = {"cpu/model": model, "cpu/threads": threads}
    if "microcode" in printed:
        facts["cpu/microcode"] = all_of("microcode")
    return facts


def _memory(sheet: Sheet, proc: Path, sys: Path) -> None:
    sheet.put("memory/total_gib", lambda: memory_gib(raw_text(proc / "meminfo")))
    huge = sys / "kernel/mm/transparent_hugepage/enabled"
    sheet.put("memory/transparent_hugepages", lambda: chosen(text_of(huge)))
    pages = sys / "kernel/mm/hugepages"
    for name in names_in(pages):
        matched = re.fullmatch("hugepages-([0-9]+)kB", name)
        if matched:
            count = pages / name / "nr_hugepages"
            sheet.put(f"memory/hugepages_{matched[1]}kib", int_of, count)


def memory_gib(text: str) -> int:
    """All memory that the kernel has; it keeps some for itself, so not to the last byte."""
    matched = re.search("^MemTotal: +([0-9]{1,15}) kB$", text, re.MULTILINE)
    if not matched:
        raise FactError("/proc/meminfo has no MemTotal")
    return round(int(matched[1]) / 2**20)


def _firmware(sheet: Sheet, sys: Path) -> None:
    for key, name in DMI.items():
        sheet.put(key, text_of, sys / "class/dmi/id" / name)
    # The IPMI driver's view of the BMC (Linux, drivers/char/ipmi/ipmi_msghandler.c).
    devices = sys / "bus/platform/devices"
    controllers = [name for name in names_in(devices) if name.startswith("ipmi_bmc.")]
    home = devices / (controllers[0] if controllers else "ipmi_bmc.0")
    sheet.put("bmc/firmware", text_of, home / "firmware_revision")
    sheet.put("bmc/firmware_more", text_of, home / "aux_firmware_revision")
    sheet.put("bmc/product", text_of, home / "product_id")
