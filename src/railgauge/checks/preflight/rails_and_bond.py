"""The rails and the bond in a node's inventory, against the system's description."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from railgauge.common.names import natural
from railgauge.model.inventory import Inventory
from railgauge.node.system.rdma_devices import rail_ports
from railgauge.systems import Bond, Rdma


@dataclasses.dataclass(frozen=True)
class Links:
    """The rails and the bond that a node should have; None for none. `absent` are RDMA devices
    that it is known to lack, or to have out of order: nothing is said of them.
    """

    rdma: Rdma | None = None
    bond: Bond | None = None
    absent: tuple[str, ...] = ()

    @property
    def rails(self) -> tuple[int, ...]:
        """The rails that are judged."""
        return self.rdma.rails_without(self.absent) if self.rdma else ()

    @property
    def count(self) -> int:
        """The number of rails and bonded links of a healthy node."""
        return len(self.rails) + len(self.bond.links if self.bond else ())


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference from what should be, and the command that fixes it, if one is known."""

    what: str
    found: str
    expected: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.what} is {self.found}, expected {self.expected}"


def judge(taken: Inventory, links: Links) -> tuple[int, list[Difference]]:
    """The number of rails and bonded links without a difference, and all differences.

    A field that is unknown differs, with its reason.
    """
    good, found = 0, list[Difference]()
    if links.rdma is not None:
        ports = rails_of(taken, links.rdma)
        judged = {rail: port for rail, port in ports.items() if port[0] not in links.absent}
        found += _missing_rails(judged, links.rdma, links.rails)
        for rail, port in judged.items():
            of_rail = list(_of_rail(taken, rail, port, links.rdma))
            good += not of_rail
            found += of_rail
        found += _memlock(taken, links.rdma)
    if links.bond is not None:
        there = str(taken.fields.get(f"net/{links.bond.device}/bond_links", "")).split()
        found += _of_bond(taken, there, links.bond)
        for name in there:
            of_link = list(_of_bonded_link(taken, name, links.bond))
            good += not of_link
            found += of_link
    return good, found


def rails_of(taken: Inventory, rdma: Rdma) -> dict[int, tuple[str, int]]:
    """The device and the port of each rail."""
    keys = (re.fullmatch("nic/([^/]+)/([0-9]+)/.+", key) for key in (*taken.fields, *taken.unknown))
    ports = {(key[1], int(key[2])) for key in keys if key and re.fullmatch(rdma.devices, key[1])}
    there = sorted(ports, key=lambda port: (natural(port[0]), port[1]))
    return rail_ports(rdma.names, there)


def _stated(taken: Inventory, key: str) -> str:
    """A field as text, or why it is unknown."""
    if key in taken.fields:
        return str(taken.fields[key])
    return f"unknown ({taken.unknown.get(key, 'the node does not state it')})"


def _missing_rails(
    there: Mapping[int, tuple[str, int]], rdma: Rdma, expected: tuple[int, ...]
) -> Iterator[Difference]:
    """The difference of too many or too few rails, with the missing ones where names are known."""
    missing = [rail for rail in expected if rail not in there] if rdma.names else []
    if missing or len(there) != len(expected):
        names = ", ".join(device for device, _ in there.values()) or "none"
        lacks = "".join(f", rail {rail} ({rdma.names[rail]}) is not there" for rail in missing)
        yield Difference(
            f"the number of RDMA devices like {rdma.devices}",
            f"{len(there)} ({names})",
            f"{len(expected)}{lacks}",
            "rdma link; dmesg | grep -i -e rdma -e mlx5",
        )


def _of_rail(
    taken: Inventory, rail: int, device_and_port: tuple[str, int], rdma: Rdma
) -> Iterator[Difference]:
    device, port = device_and_port
    at = f"nic/{device}/{port}"
    interface = taken.fields.get(f"{at}/netdev", "INTERFACE")
    least = rdma.active_mtu_bytes + 104
    for field, words, expected, fix in (
        ("state", "state", "ACTIVE", f"rdma link show {device}/{port}; ip link set {interface} up"),
        (
            *("phys_state", "physical state", "LinkUp"),
            f"the cable of {interface}; ethtool {interface}",
        ),
        ("link_layer", "link layer", rdma.link_layer, "mlxconfig set LINK_TYPE_P1=..., and reset"),
        ("rate", "rate", rdma.rate, f"ethtool {interface}; the cable, its module, the switch port"),
        (
            *("active_mtu_bytes", "active MTU", str(rdma.active_mtu_bytes)),
            f"ip link set {interface} mtu {least} (or more), at both ends and on the switch",
        ),
    ):
        stated = _stated(taken, f"{at}/{field}")
        if stated != expected:
            yield Difference(f"rail {rail} ({device} port {port}): {words}", stated, expected, fix)
    if rdma.link_layer == "Ethernet":
        stated = _stated(taken, f"{at}/gid_types_ipv4")
        if rdma.gid_type not in stated.split(", "):
            yield Difference(
                f"rail {rail} ({device} port {port}): the type of GIDs with an IPv4 address",
                stated,
                str(rdma.gid_type),
                f"ip address show {interface}",
            )


def _memlock(taken: Inventory, rdma: Rdma) -> Iterator[Difference]:
    least = rdma.memlock_kib
    known = taken.fields.get("limits/memlock_kib")
    enough = known == "unlimited" or (
        least is not None and isinstance(known, int) and known >= least
    )
    if not enough:
        yield Difference(
            "the memory that a job may lock",
            _stated(taken, "limits/memlock_kib"),
            "unlimited" if least is None else f"at least {least} KiB",
            "LimitMEMLOCK=infinity for slurmd, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
        )


def _of_bond(taken: Inventory, there: list[str], bond: Bond) -> Iterator[Difference]:
    mode = _stated(taken, f"net/{bond.device}/bond_mode")
    if mode != bond.mode:
        yield Difference(f"{bond.device}: mode", mode, bond.mode, f"ip -d link show {bond.device}")
    if set(there) != set(bond.links):
        yield Difference(
            f"{bond.device}: links",
            _stated(taken, f"net/{bond.device}/bond_links"),
            " ".join(sorted(bond.links)),
            f"ip link set LINK master {bond.device}",
        )


def _of_bonded_link(taken: Inventory, name: str, bond: Bond) -> Iterator[Difference]:
    status = _stated(taken, f"net/{name}/bond_link_status")
    if status != "up":
        fix = f"the cable of {name}; ethtool {name}"
        yield Difference(f"{bond.device}: link {name}", status, "up", fix)
    elif bond.mode == "802.3ad":
        active = f"net/{bond.device}/bond_aggregator"
        aggregator = taken.fields.get(f"net/{name}/bond_aggregator")
        # The kernel has 0 where no aggregator is active.
        if not aggregator or aggregator != taken.fields.get(active):
            yield Difference(
                f"{bond.device}: aggregator of {name}",
                _stated(taken, f"net/{name}/bond_aggregator"),
                f"{_stated(taken, active)}, the active one",
                "LACP on the switch's port",
            )
