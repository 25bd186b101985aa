"""A node's counters: what they are at some time, and what changed between two.

Names: `rdma/<device>/<port>/counters/<name>`, `rdma/<device>/<port>/hw_counters/<name>`,
`rdma/<device>/hw_counters/<name>`, `net/<interface>/<name>` and `ethtool/<interface>/<name>`; what
the whole node sent again by TCP is `tcp/RetransSegs`. `root` stands for `/sys`, next to `/proc`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from railgauge.node.system.rdma_devices import FactError, ask, devices, listed, names_in, ports
from railgauge.node.system.tool_call import read_sysfs

#: `port_rcv_data` and `port_xmit_data` count words of four bytes (Linux,
#: Documentation/ABI/stable/sysfs-class-infiniband: "divided by 4"; for mlx5 on RoCE
#: drivers/infiniband/hw/mlx5/mad.c, which shifts the octets of RDMA traffic right by two).
RDMA_WORD_BYTES = 4

Counts = Mapping[str, int]


class Delta(NamedTuple):
    """What changed between two snapshots.

    `reset` has the counters that went backwards, `gone` and `new` those of one snapshot only: a
    device was reset, removed or made again. Gauges that a driver lists among its counters (queue
    lengths, temperatures) may go backwards too.
    """

    changed: dict[str, int]
    reset: list[str]
    gone: list[str]
    new: list[str]


def delta(before: Counts, after: Counts) -> Delta:
    """The changes from one snapshot to the next.

    InfiniBand's counters stop at their largest value instead of wrapping (IBTA vol. 1, 16.1.3.5),
    so a smaller value is never taken for a wrap.
    """
    common = sorted(before.keys() & after.keys())
    return Delta(
        {name: after[name] - before[name] for name in common if after[name] > before[name]},
        [name for name in common if after[name] < before[name]],
        sorted(before.keys() - after.keys()),
        sorted(after.keys() - before.keys()),
    )


#: The bits of InfiniBand's narrow counters, which stop at their largest value (Linux,
#: drivers/infiniband/core/sysfs.c).
_BITS = {
    **dict.fromkeys(("local_link_integrity_errors", "excessive_buffer_overrun_errors"), 4),
    **dict.fromkeys(("link_error_recovery", "link_downed"), 8),
    **dict.fromkeys(("port_xmit_constraint_errors", "port_rcv_constraint_errors"), 8),
    **dict.fromkeys(("symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors"), 16),
    **dict.fromkeys(("port_rcv_switch_relay_errors", "port_xmit_discards", "VL15_dropped"), 16),
}
_NARROW = re.compile(r"rdma/[^/]+/[0-9]+/counters/(\w+)")


def full(counts: Counts) -> list[str]:
    """The counters that are at their largest value, and count nothing more until they are reset."""
    return [
        name
        for name, count in sorted(counts.items())
        if (of := _NARROW.fullmatch(name)) and count == (1 << _BITS.get(of[1], 64)) - 1
    ]


# ---- snapshots ----


def interfaces(root: str) -> list[str]:
    """The network interfaces but the loopback; `bonding_masters` next to them is a file."""
    folder = Path(root, "class/net")
    return [n for n in names_in(folder) if n != "lo" and (folder / n / "statistics").is_dir()]


def is_physical(interface: str, root: str) -> bool:
    return Path(root, "class/net", interface, "device").exists()


def _folders(root: str) -> Iterator[tuple[str, Path]]:
    """The folders of counters in sysfs, with the beginning of the counters' names."""
    for device in devices(".*", root):
        home = Path(root, "class/infiniband", device)
        yield f"rdma/{device}/hw_counters", home / "hw_counters"
        for port in ports(device, root):
            for kind in ("counters", "hw_counters"):
                yield f"rdma/{device}/{port}/{kind}", home / "ports" / str(port) / kind
    for interface in interfaces(root):
        yield f"net/{interface}", Path(root, "class/net", interface, "statistics")


def _number(path: str) -> int:
    """What a file of sysfs counts. A node has hundreds: by Python's own files each took an emulated
    CPU a millisecond more.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        return int(os.read(file, 32))
    finally:
        os.close(file)


def snapshot(
    root: str = "/sys", drivers: Sequence[str] | None = None
) -> tuple[dict[str, int], list[str]]:
    """All counters of this node by name, and notes on those that could not be read.

    `drivers` are the interfaces that `ethtool` is asked about; all if none.
    """
    counts: dict[str, int] = {}
    unread: dict[str, list[str]] = {}
    for prefix, folder in _folders(root):
        for name in sorted(listed(folder)):
            # How long the driver keeps its counters, in ms: a setting.
            if name == "lifespan":
                continue
            try:
                counts[f"{prefix}/{name}"] = _number(f"{folder}/{name}")
            except OSError as error:
                unread.setdefault(str(error.strerror), []).append(f"{prefix}/{name}")
            except ValueError:
                unread.setdefault("not a whole number", []).append(f"{prefix}/{name}")
    for interface in interfaces(root):
        if drivers is not None and interface not in drivers:
            continue
        try:
            counts.update(_driver_counts(interface, root))
        except FactError as error:
            unread.setdefault(str(error), []).append(f"ethtool/{interface}")
    return counts, [f"not read: {', '.join(names)}: {why}" for why, names in unread.items()]


def _driver_counts(interface: str, root: str) -> dict[str, int]:
    """What the driver of a physical interface counts; a virtual one's would say nothing more."""
    if not is_physical(interface, root):
        return {}
    counts = ethtool_counts(ask(["ethtool", "-S", interface]))
    return {f"ethtool/{interface}/{name}": value for name, value in counts.items()}


def ethtool_counts(text: str) -> dict[str, int]:
    """The lines `name: value` of `ethtool -S` with a whole number; a name given twice is summed."""
    counts: dict[str, int] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s+(\S.*?)\s*:\s*(-?[0-9]{1,20})\s*", line)
        if match:
            name, value = match.groups()
            counts[name] = counts.get(name, 0) + int(value)
    return counts


#: What counts bytes, by the name of what carried them, with the bytes of one count: interfaces,
#: RDMA ports (port counters, or a driver's own where there are none: bnxt_re and efa, irdma,
#: ionic), and RDMA as an interface of mlx5 counts it, which is all of it where two ports are one
#: device (RoCE LAG).
_BYTE_COUNTERS = (
    (re.compile(r"net/(?P<of>[^/]+)/(?P<way>rx|tx)_bytes"), 1),
    (re.compile(r"(?P<of>rdma/.+)/hw_counters/(?P<way>rx|tx)_bytes"), 1),
    (re.compile(r"(?P<of>rdma/.+)/hw_counters/ip4(?P<way>In|Out)Octets"), 1),
    (re.compile(r"(?P<of>rdma/.+)/hw_counters/(?P<way>rx|tx)_rdma_ucast_bytes"), 1),
    (re.compile(r"(?P<of>rdma/.+)/counters/port_(?P<way>rcv|xmit)_data"), RDMA_WORD_BYTES),
    (re.compile(r"(?P<of>ethtool/[^/]+)/(?P<way>rx|tx)_vport_rdma_unicast_bytes"), 1),
)
_WAYS = {"rx": "rx", "rcv": "rx", "In": "rx", "tx": "tx", "xmit": "tx", "Out": "tx"}


def byte_counts(counts: Counts) -> dict[str, dict[str, int]]:
    """The byte counters of a snapshot by what they belong to, then `rx` and `tx`, in bytes.

    `eth0` is an interface, `rdma/mlx5_0/1` a port, `ethtool/eth0` RDMA that an interface counts.
    """
    totals: dict[str, dict[str, int]] = {}
    for pattern, unit_bytes in _BYTE_COUNTERS:
        for name, value in counts.items():
            match = pattern.fullmatch(name)
            if match:
                totals.setdefault(match["of"], {})[_WAYS[match["way"]]] = value * unit_bytes
    return totals


def moved_bytes(before: Counts, after: Counts) -> dict[str, dict[str, int]]:
    """Bytes that each device received and sent, where its counters did not go backwards."""
    began, ended = byte_counts(before), byte_counts(after)
    moved = {
        device: {
            way: ended[device][way] - value
            for way, value in ways.items()
            if ended.get(device, {}).get(way, -1) >= value
        }
        for device, ways in sorted(began.items())
    }
    return {device: ways for device, ways in moved.items() if ways}


def loopback(root: str) -> dict[str, int]:
    """The loopback's byte counters, in the names of a snapshot: what went there crossed no link."""
    folder = Path(root, "class/net/lo/statistics")
    names = ("rx_bytes", "tx_bytes")
    texts = {name: read_sysfs(str(folder / name)) for name in names}
    return {f"net/lo/{name}": int(text) for name, text in texts.items() if text and text.isdigit()}


#: TCP segments that the whole node sent again, in its network namespace.
RESENT = "tcp/RetransSegs"


def resent(root: str) -> dict[str, int]:
    """The segments sent again so far (RFC 4022, tcpRetransSegs; proc_net(5), snmp)."""
    try:
        text = (Path(root).parent / "proc/net/snmp").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return {}
    tcp = [line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:")]
    count = dict(zip(*tcp)).get("RetransSegs", "") if len(tcp) == 2 else ""
    return {RESENT: int(count)} if count.isdigit() else {}
