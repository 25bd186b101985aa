"""Network interfaces, bonds and RDMA devices as sysfs shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from railgauge.node.inventory.sheet import Places, Scalar, Sheet
from railgauge.node.system.rdma_devices import (
    EMPTY_ENTRIES,
    FactError,
    active_mtu_of,
    devices,
    int_of,
    mapped_ipv4,
    names_in,
    netdev,
    numbers_in,
    ports,
    state_of,
    text_of,
)
from railgauge.node.system.tool_call import read_sysfs

#: Interfaces that containers, virtual machines and tunnels make and take away.
_PASSING = re.compile(
    r"lo|(veth|docker|br-|cni|cali|flannel|cilium|lxc|virbr|vnet|tap|tun|podman|kube|nerdctl|vxlan|"
    r"dummy|ifb|sit|gre|erspan|ip6|tunl|ovs|macvlan|macvtap|nodelocaldns|wg|zt|tailscale).*"
)

#: Field of a bond -> file of its folder `bonding`.
_BOND = {
    "bond_mode": "mode",
    "bond_hash": "xmit_hash_policy",
    "bond_lacp_rate": "lacp_rate",
    "bond_monitor_ms": "miimon",
    "bond_links": "slaves",
}


def look(places: Places) -> Sheet:
    """Every lasting interface, and every RDMA device with its ports."""
    sheet = Sheet()
    for name in interfaces(places.sys):
        _interface(sheet, name, Path(places.sys))
    for name in devices(".*", places.sys):
        _device(sheet, name, places.sys)
    if not Path(places.sys, "class/net").is_dir():
        sheet.put("net", _missing, Path(places.sys, "class/net"))
    return sheet


def sources(places: Places) -> list[Callable[[], Sheet]]:
    """Readers of the MTU that each RDMA port has negotiated, which sysfs does not have."""
    there = [
        (device, port) for device in devices(".*", places.sys) for port in ports(device, places.sys)
    ]
    return [partial(_negotiated, places, device, port) for device, port in there]


def _negotiated(places: Places, device: str, port: int) -> Sheet:
    sheet = Sheet()
    key = f"nic/{device}/{port}/active_mtu_bytes"
    sheet.put(key, lambda: active_mtu_of(device, port, places.sys, places.ask)["active_mtu_bytes"])
    return sheet


def _missing(path: Path) -> str:
    raise FactError(f"{path}: no such folder")


def interfaces(root: str) -> list[str]:
    """The interfaces that last: hardware's, bonds, and others that no container made."""
    folder = Path(root, "class/net")

    def lasts(name: str) -> bool:
        home = folder / name
        if (home / "device").exists() or (home / "bonding").is_dir():
            return True
        return (home / "mtu").exists() and not _PASSING.fullmatch(name)

    return [name for name in names_in(folder) if lasts(name)]


def driver(home: Path) -> str:
    """The driver of a device's folder; "" where it is no hardware's."""
    link = home / "device/driver"
    return link.resolve().name if link.exists() else ""


def is_pci(home: Path) -> bool:
    """Whether the device behind a folder is a PCI function, and not virtio or Soft-RoCE."""
    link = home / "device/subsystem"
    return link.exists() and link.resolve().name == "pci"


def _speed(path: Path) -> int:
    speed = int_of(path)
    if speed <= 0:
        raise FactError(f"{path}: {speed}, not known to the driver")
    return speed


def _interface(sheet: Sheet, name: str, sys: Path) -> None:
    home, at = sys / "class/net" / name, f"net/{name}"
    sheet.put(f"{at}/mtu_bytes", int_of, home / "mtu")
    sheet.put(f"{at}/operstate", text_of, home / "operstate")
    sheet.put(f"{at}/speed_mbits", _speed, home / "speed")
    sheet.put(f"{at}/address", text_of, home / "address")
    sheet.put(f"{at}/transmit_queue_frames", int_of, home / "tx_queue_len")
    for way in ("rx", "tx"):
        queues = [q for q in names_in(home / "queues") if q.startswith(f"{way}-")]
        sheet.put(f"{at}/{way}_queues", _number_of, queues)
    if (home / "bonding").is_dir():
        for field, file in _BOND.items():
            path = home / "bonding" / file
            if path.exists():
                sheet.put(f"{at}/{field}", _bond, field, path)
        if _is_lacp(home):
            sheet.put(f"{at}/bond_aggregator", int_of, home / "bonding/ad_aggregator")
    link = home / "bonding_slave"
    if link.is_dir():
        sheet.put(f"{at}/bond_link_status", text_of, link / "mii_status")
        if _is_lacp(home / "master"):
            sheet.put(f"{at}/bond_aggregator", int_of, link / "ad_aggregator_id")
    if (home / "device").exists():
        sheet.put(f"{at}/driver", driver, home)
    if is_pci(home):
        pci_link(sheet, at, home / "device")
    for role in ("roce_np", "roce_rp"):
        # MLNX_OFED's: the priorities on which congestion is notified, and reacted to.
        enabled = home / "ecn" / role / "enable"
        if enabled.is_dir():
            sheet.put(f"{at}/ecn_{role}", _priorities, enabled)


def _number_of(names: list[str]) -> int:
    if not names:
        raise FactError("the kernel shows no queues")
    return len(names)


def _is_lacp(home: Path) -> bool:
    """Whether the bond of a folder has aggregators (Linux, Documentation/networking/bonding)."""
    return (read_sysfs(str(home / "bonding/mode")) or "").startswith("802.3ad")


def _bond(field: str, path: Path) -> Scalar:
    text = text_of(path)
    if field == "bond_links":
        return " ".join(sorted(text.split()))
    word = text.split()[0]
    return int(word) if field.endswith("_ms") else word


def _priorities(folder: Path) -> str:
    on = [str(n) for n in numbers_in(folder) if text_of(folder / str(n)) == "1"]
    return " ".join(on) or "no"


def _rate(path: Path, unit: str) -> float:
    """32.0 of `32.0 GT/s PCIe`, where the unit is GT/s."""
    text = text_of(path)
    matched = re.match(rf"([0-9]+(\.[0-9]+)?) {unit}", text)
    if not matched:
        raise FactError(f"{path}: found {text!r}, expected a rate in {unit}")
    return float(matched[1])


def _lanes(path: Path) -> int:
    lanes = int_of(path)
    # 255 and 63 are what a device that has gone from the bus reads as.
    if not 0 < lanes <= 32:
        raise FactError(f"{path}: found {lanes}, expected 1 to 32 lanes")
    return lanes


def pci_link(sheet: Sheet, at: str, home: Path, now: bool = True) -> None:
    """PCIe speed and width; `now` not of devices that slow down when they are idle (GPUs)."""
    sheet.put(f"{at}/pcie_possible_gts", _rate, home / "max_link_speed", "GT/s")
    sheet.put(f"{at}/pcie_possible_lanes", _lanes, home / "max_link_width")
    if now:
        sheet.put(f"{at}/pcie_now_gts", _rate, home / "current_link_speed", "GT/s")
    sheet.put(f"{at}/pcie_now_lanes", _lanes, home / "current_link_width")
    sheet.put(f"{at}/numa_node", int_of, home / "numa_node")


def pci_address(home: Path) -> str:
    """0000:17:00.0 of a device that is a PCI function."""
    return (home / "device").resolve().name


def _device(sheet: Sheet, name: str, root: str) -> None:
    home, at = Path(root, "class/infiniband", name), f"nic/{name}"
    sheet.put(f"{at}/firmware", text_of, home / "fw_ver")
    sheet.put(f"{at}/model", text_of, home / "hca_type")
    sheet.put(f"{at}/psid", text_of, home / "board_id")
    sheet.put(f"{at}/node_guid", text_of, home / "node_guid")
    if is_pci(home):
        sheet.put(f"{at}/driver", driver, home)
        sheet.put(f"{at}/pci_address", pci_address, home)
        pci_link(sheet, at, home / "device")
    for port in ports(name, root):
        _port(sheet, f"{at}/{port}", name, port, root)
        shared = home / "tc" / str(port) / "traffic_class"
        if shared.exists():
            sheet.put(f"{at}/{port}/traffic_class", _traffic_class, shared)


def _port(sheet: Sheet, at: str, name: str, port: int, root: str) -> None:
    home = Path(root, "class/infiniband", name, "ports", str(port))
    sheet.put(f"{at}/state", state_of, home / "state")
    sheet.put(f"{at}/phys_state", state_of, home / "phys_state")
    sheet.put(f"{at}/link_layer", text_of, home / "link_layer")
    sheet.put(f"{at}/rate", text_of, home / "rate")
    sheet.put(f"{at}/rate_gbits", _rate, home / "rate", "Gb/sec")
    sheet.put(f"{at}/lid", text_of, home / "lid")
    sheet.put(f"{at}/netdev", netdev, name, port, root)
    sheet.several(f"{at}/", ["gid_types", "gid_types_ipv4"], _gid_types, home)


def _gid_types(home: Path) -> dict[str, str]:
    """The types in a port's GID table, and those of its entries with an IPv4 address, each once:
    which entries have them differs by node.
    """
    types: set[str] = set()
    with_ipv4: set[str] = set()
    folder = home / "gid_attrs/types"
    index = empty = 0
    while empty < EMPTY_ENTRIES:
        try:
            kind = (folder / str(index)).read_text(encoding="ascii").strip()
            empty = 0
            types.add(kind)
            if mapped_ipv4(read_sysfs(str(home / "gids" / str(index))) or ""):
                with_ipv4.add(kind)
        except FileNotFoundError:
            break
        except (OSError, UnicodeDecodeError):
            # The type of an empty entry is an error to read (EINVAL).
            empty += 1
        index += 1
    types.discard("")
    if not types:
        raise FactError(f"{folder} has no entry")
    return {
        "gid_types": ", ".join(sorted(types)),
        "gid_types_ipv4": ", ".join(sorted(with_ipv4 - {""})) or "none",
    }


def _traffic_class(path: Path) -> int:
    """MLNX_OFED's `Global tclass=96`."""
    matched = re.search(r"Global tclass=([0-9]{1,3})\b", text_of(path))
    if not matched:
        raise FactError(f"{path} has no global class")
    return int(matched[1])
