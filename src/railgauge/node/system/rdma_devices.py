"""What a node says of its RDMA devices: `/sys/class/infiniband`, and `ibv_devinfo` for the MTU.

Files and their meaning: Linux, Documentation/ABI/stable/sysfs-class-infiniband. `root` stands for
`/sys`, so that tests can show another machine.
"""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from railgauge.common.names import natural
from railgauge.node.system.tool_call import read_sysfs


class Hca(NamedTuple):
    """An InfiniBand device by its node GUID, and the LID of its port."""

    guid: int
    lid: int


def hca_of(facts: Mapping[str, Any]) -> Hca | None:
    """The HCA that a node used, as its facts name it: `node_guid` and `lid` are texts of sysfs,
    0002:c903:0000:0001 and 0x5. None where they are not there.
    """
    try:
        return Hca(int(facts["node_guid"].replace(":", ""), 16), int(facts["lid"], 16))
    except (KeyError, ValueError, AttributeError, TypeError):
        return None


#: Where tools for the administrator are, which a job's PATH may lack.
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"

#: The path MTUs of InfiniBand and RoCE in bytes, largest first.
MTUS = (4096, 2048, 1024, 512, 256)

#: What the kernel takes off an interface's MTU before it picks a RoCE MTU: GRH 40, UDP 8, BTH 12,
#: XRC 4, AtomicETH 28, ICRC 4 (Linux, include/rdma/ib_addr.h iboe_get_mtu, ib_pack.h).
ROCE_HEADERS_BYTES = 40 + 8 + 12 + 4 + 28 + 4


class FactError(Exception):
    """A fact that cannot be had; the text says why."""


def collect(sources: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The facts that can be had; `unknown` has the others, each with its reason.

    A source that gives several facts gives them as a dict.
    """
    facts: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, source in sources.items():
        try:
            fact = source()
        except FactError as error:
            unknown[name] = str(error)
        # Whatever one source does, the other facts stay.
        except Exception as error:
            unknown[name] = f"{type(error).__name__}: {error}"
        else:
            facts.update(fact if isinstance(fact, dict) else {name: fact})
    return {**facts, "unknown": unknown}


def ask(argv: list[str], limit_s: float = 20) -> str:
    """What a tool prints; FactError where it is not installed, fails or takes longer."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), SYSTEM_FOLDERS])
    try:
        answer = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C", "PATH": path},
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError:
        raise FactError(f"{argv[0]} is not installed") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise FactError(f"{argv[0]}: {error}") from None
    if answer.returncode != 0:
        words = answer.stderr.decode("utf-8", "replace").split("\n")[0].strip()
        raise FactError(f"{' '.join(argv)}: exit code {answer.returncode}: {words}".rstrip(": "))
    return answer.stdout.decode("utf-8", "replace")


def text_of(path: Path) -> str:
    """The text of a sysfs file without the line's end; FactError where there is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise FactError(f"{path}: {error.strerror}") from None
    if not text:
        raise FactError(f"{path} is empty")
    return text


def int_of(path: Path) -> int:
    text = text_of(path)
    try:
        return int(text)
    except ValueError:
        raise FactError(f"{path}: found {text!r}, expected a whole number") from None


def listed(folder: Path) -> list[str]:
    """The entries of a folder as they come; none where there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def names_in(folder: Path) -> list[str]:
    """The entries of a folder in natural order; none where there is no such folder."""
    return sorted(listed(folder), key=natural)


def numbers_in(folder: Path) -> list[int]:
    """The entries of a folder that are numbers, in order: ports, or places in a table, which may
    have a thousand.
    """
    return sorted(int(n) for n in listed(folder) if n.isascii() and n.isdigit())


def devices(pattern: str, root: str = "/sys") -> list[str]:
    """The RDMA devices with a whole name that matches the regular expression, in natural order."""
    return [n for n in names_in(Path(root, "class/infiniband")) if re.fullmatch(pattern, n)]


def ports(device: str, root: str = "/sys") -> list[int]:
    return numbers_in(_home(device, root) / "ports")


def rail_ports(
    names: Sequence[str], there: Sequence[tuple[str, int]]
) -> dict[int, tuple[str, int]]:
    """Device and port of each rail, of those that are `there` in the order of their names.

    By the `names` of the rails' devices, where they are known: one that is not there shifts no
    other. What has none of these names comes behind all rails. Else by their order.
    """
    left = list(there)
    ports = {}
    for rail, name in enumerate(names):
        port = next((one for one in left if one[0] == name), None)
        if port is not None:
            ports[rail] = port
            left.remove(port)
    ports.update(enumerate(left, start=len(names)))
    return ports


def _home(device: str, root: str) -> Path:
    return Path(root, "class/infiniband", device)


def _port(device: str, port: int, root: str) -> Path:
    return _home(device, root) / "ports" / str(port)


def port_facts(device: str, port: int, root: str = "/sys") -> dict[str, Any]:
    """What sysfs and `ibv_devinfo` say of a port; what cannot be had stands under `unknown`.

    `rate`, `lid` and the PCIe speeds are text as in sysfs; `numa_node` is -1 where the machine
    has one node only or does not say. `active_mtu_from`: `ibv_devinfo`, or derived.
    """
    home, at = _home(device, root), _port(device, port, root)
    return collect(
        {
            "state": lambda: state_of(at / "state"),
            "phys_state": lambda: state_of(at / "phys_state"),
            "link_layer": lambda: text_of(at / "link_layer"),
            "rate": lambda: text_of(at / "rate"),
            "lid": lambda: text_of(at / "lid"),
            "netdev": lambda: netdev(device, port, root),
            "active_mtu_bytes": lambda: active_mtu_of(device, port, root, ask),
            "node_guid": lambda: text_of(home / "node_guid"),
            "fw_ver": lambda: text_of(home / "fw_ver"),
            "hca_type": lambda: text_of(home / "hca_type"),
            "board_id": lambda: text_of(home / "board_id"),
            "numa_node": lambda: int_of(home / "device/numa_node"),
            "pcie_current_link_speed": lambda: text_of(home / "device/current_link_speed"),
            "pcie_current_link_width": lambda: int_of(home / "device/current_link_width"),
            "pcie_max_link_speed": lambda: text_of(home / "device/max_link_speed"),
            "pcie_max_link_width": lambda: int_of(home / "device/max_link_width"),
        }
    )


#: The kind of an interface for IP over InfiniBand (Linux, include/uapi/linux/if_arp.h,
#: ARPHRD_INFINIBAND).
_OVER_INFINIBAND = "32"


def ipoib_facts(interface: str, root: str = "/sys") -> dict[str, str]:
    """The node GUID and the LID of the HCA port below an interface for IP over InfiniBand, as texts
    of sysfs; nothing of any other interface.
    """
    home = Path(root, "class/net", interface)
    try:
        if text_of(home / "type") != _OVER_INFINIBAND:
            return {}
        (device,) = listed(home / "device/infiniband")
        port = int_of(home / "dev_port") + 1
        guid = text_of(_home(device, root) / "node_guid")
        return {"node_guid": guid, "lid": text_of(_port(device, port, root) / "lid")}
    except (FactError, ValueError):
        return {}


def state_of(path: Path) -> str:
    """ACTIVE of `4: ACTIVE`."""
    return text_of(path).rpartition(":")[2].strip()


def port_state(device: str, port: int, root: str = "/sys") -> str | None:
    """ACTIVE, DOWN, ...; None where there is no such port."""
    try:
        return state_of(_port(device, port, root) / "state")
    except FactError:
        return None


def netdev(device: str, port: int, root: str = "/sys") -> str:
    """The network interface of a port: that of its first GID, else the one of its PCI function."""
    table = _port(device, port, root) / "gid_attrs/ndevs"
    for index in numbers_in(table):
        # An empty entry of the table is an error to read.
        name = read_sysfs(str(table / str(index)))
        if name:
            return name
    folder = _home(device, root) / "device/net"
    numbers = {name: read_sysfs(str(folder / name / "dev_port")) for name in names_in(folder)}
    # dev_port counts from 0, RDMA ports from 1.
    for name, number in numbers.items():
        if number == str(port - 1) or (number is None and len(numbers) == 1):
            return name
    raise FactError(f"no interface in {table} nor in {folder} for port {port}")


def active_mtu_of(
    device: str, port: int, root: str, asked: Callable[[list[str]], str]
) -> dict[str, Any]:
    """sysfs has no active MTU. `ibv_devinfo` says it; for RoCE it follows from the interface."""
    try:
        mtu_bytes = active_mtu(asked(["ibv_devinfo", "-d", device, "-i", str(port)]), port)
        return {"active_mtu_bytes": mtu_bytes, "active_mtu_from": "ibv_devinfo"}
    except FactError as error:
        unasked = error
    if read_sysfs(str(_port(device, port, root) / "link_layer")) != "Ethernet":
        raise FactError(f"{unasked}; derived only where the link layer is Ethernet")
    interface = netdev(device, port, root)
    mtu = derived_mtu(int_of(Path(root, "class/net", interface, "mtu")))
    return {"active_mtu_bytes": mtu, "active_mtu_from": f"derived from the MTU of {interface}"}


def active_mtu(text: str, port: int) -> int:
    """The active MTU of a port in bytes, from the text of `ibv_devinfo`.

    FactError where the text has no such port, or no MTU of InfiniBand for it.
    """
    current = None
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "port":
            current = value
        elif name == "active_mtu" and current == str(port):
            number = value.partition(" ")[0]
            if number in map(str, MTUS):
                return int(number)
            raise FactError(f"ibv_devinfo: active_mtu of port {port} is {value!r}")
    raise FactError(f"ibv_devinfo: no active_mtu of port {port}")


def derived_mtu(netdev_mtu_bytes: int) -> int:
    """The RoCE MTU that the kernel picks for an interface, in bytes.

    1500 gives 1024, 4200 and 9000 give 4096. Soft-RoCE takes 80 bytes off instead of 96
    (drivers/infiniband/sw/rxe/rxe_param.h), which differs for a few odd interface MTUs only.
    """
    for mtu in MTUS:
        if mtu <= netdev_mtu_bytes - ROCE_HEADERS_BYTES:
            return mtu
    raise FactError(f"an interface MTU of {netdev_mtu_bytes} has no room for RoCE")


class Gid(NamedTuple):
    """An entry of a port's GID table, and all the entries that would do."""

    number: int
    gid: str
    #: IPv4
    address: str
    candidates: tuple[int, ...]


def mapped_ipv4(gid: str) -> str | None:
    """The IPv4 address of a GID such as `0000:...:ffff:0a00:0001`; none for any other text."""
    try:
        packed = socket.inet_pton(socket.AF_INET6, gid)
    except (OSError, ValueError):
        return None
    mapped = packed[:12] == b"\0" * 10 + b"\xff\xff" and any(packed[12:])
    return socket.inet_ntoa(packed[12:]) if mapped else None


#: After this many empty entries the rest of a GID table is taken as empty. Of up to 1024 entries
#: only the first few are filled; reading all would take a slow machine a second.
EMPTY_ENTRIES = 32


def gid_index(
    device: str, port: int, gid_type: str, address: str | None = None, root: str = "/sys"
) -> Gid:
    """The GID of that type (`RoCE v2`) with an IPv4 address: that of `address`, else the lowest.

    The index differs by node and port. FactError where no entry will do.
    """
    at = _port(device, port, root)
    gids = {}
    empty = 0
    for index in numbers_in(at / "gids"):
        # The type of an empty entry is an error to read (EINVAL).
        kind = read_sysfs(str(at / f"gid_attrs/types/{index}"))
        empty = empty + 1 if kind is None else 0
        if empty == EMPTY_ENTRIES:
            break
        if kind == gid_type:
            gid = read_sysfs(str(at / f"gids/{index}")) or ""
            ipv4 = mapped_ipv4(gid)
            if ipv4 is not None:
                gids[index] = (gid, ipv4)
    if not gids:
        raise FactError(f"{device} port {port} has no {gid_type} GID with an IPv4 address")
    same = [index for index, (_, ipv4) in gids.items() if ipv4 == address]
    chosen = min(same or gids)
    return Gid(chosen, *gids[chosen], candidates=tuple(sorted(gids)))


def memlock_kib() -> int | str:
    """How much a process of this job may pin: the soft RLIMIT_MEMLOCK in KiB, or `unlimited`."""
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return "unlimited" if soft == resource.RLIM_INFINITY else soft // 1024
