"""path_state: what a node says of its rails and bonds, and how that differs from what it should be.

The tool is `railgauge.node.system.link_state`; it prints one JSON document a node.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.systems import Bond, Rdma
from railgauge.tools import Completeness, ParseError, Reading

TOOL = "path_state"


@dataclasses.dataclass(frozen=True)
class Options:
    """What the node should have; None where it needs none. `absent` are RDMA devices that it is
    known to lack, or to have out of order: nothing is said of them.
    """

    rdma: Rdma | None
    bond: Bond | None
    absent: tuple[str, ...] = ()

    @property
    def rails(self) -> tuple[int, ...]:
        """The rails that are looked at."""
        return self.rdma.rails_without(self.absent) if self.rdma else ()

    def orders(self) -> dict[str, Any]:
        """What the node program is told, and reads from its argument."""
        rdma, bond = self.rdma, self.bond
        gid_type = rdma.gid_type if rdma and rdma.link_layer == "Ethernet" else None
        return {
            "rdma": {"devices": rdma.devices, "names": rdma.names, "gid_type": gid_type}
            if rdma
            else None,
            "bond": {"device": bond.device} if bond else None,
        }


def argv(orders: str) -> list[str]:
    """`orders` are those of `Options.orders`, as JSON."""
    return ["python3", "-S", "-m", "railgauge.node.system.link_state", orders]


def version_argv() -> list[str]:
    return ["python3", "--version"]


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference from what should be, and the command that fixes it, if one is known."""

    what: str
    found: str
    expected: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.what} is {self.found}, expected {self.expected}"


def parse(text: str) -> dict[str, Any]:
    """The node's document; ParseError where it is not whole."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError(0, f"no JSON document ({error})", "what path_state prints") from None
    if not isinstance(document, dict) or not isinstance(document.get("rails"), list):
        raise ParseError(0, "another document", "an object with rails")
    bond = document.get("bond") or {}
    links = bond.get("links", []) if isinstance(bond, dict) else None
    parts = [document, *document["rails"], bond, *(links if isinstance(links, list) else [None])]
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("unknown", {}), dict):
            raise ParseError(0, ascii(part)[:80], "an object, its `unknown` one too")
    return document


def differences(document: Mapping[str, Any], options: Options) -> list[Difference]:
    """All differences; what the node does not know is one, with its reason."""
    differing: list[Difference] = []
    if options.rdma is not None:
        looked_at = [r for r in document["rails"] if r.get("device") not in options.absent]
        differing += _missing_rails(looked_at, options)
        for rail in looked_at:
            differing += _rail(rail, options.rdma)
        differing += _memlock(document, options.rdma)
    if options.bond is not None:
        differing += _bond(document, options.bond)
    return differing


def _stated_value(facts: Mapping[str, Any], name: str) -> str:
    """The fact as text, or why it is unknown."""
    if facts.get(name) is not None:
        return str(facts[name])
    return f"unknown ({facts.get('unknown', {}).get(name, 'the node does not say')})"


def _missing_rails(rails: Sequence[Mapping[str, Any]], options: Options) -> Iterator[Difference]:
    """The difference of too many or too few rails, with the missing ones where names are known."""
    rdma = options.rdma
    assert rdma is not None
    there = {rail.get("rail") for rail in rails}
    missing = [rail for rail in options.rails if rail not in there] if rdma.names else []
    if missing or len(rails) != len(options.rails):
        names = ", ".join(str(rail.get("device")) for rail in rails) or "none"
        lacks = "".join(f", rail {rail} ({rdma.names[rail]}) is not there" for rail in missing)
        yield Difference(
            f"the number of RDMA devices like {rdma.devices}",
            f"{len(rails)} ({names})",
            f"{len(options.rails)}{lacks}",
            "rdma link; dmesg | grep -i -e rdma -e mlx5",
        )


def _rail(rail: Mapping[str, Any], rdma: Rdma) -> Iterator[Difference]:
    place = f"rail {rail.get('rail')} ({rail.get('device')} port {rail.get('port')})"
    device = f"{rail.get('device')}/{rail.get('port')}"
    interface = rail.get("netdev", "INTERFACE")
    wanted = [
        ("state", "state", "ACTIVE", f"rdma link show {device}; ip link set {interface} up"),
        (
            "phys_state",
            "physical state",
            "LinkUp",
            f"the cable of {interface}; ethtool {interface}",
        ),
        ("link_layer", "link layer", rdma.link_layer, "mlxconfig set LINK_TYPE_P1=..., and reset"),
        ("rate", "rate", rdma.rate, f"ethtool {interface}; the cable, its module, the switch port"),
        (
            "active_mtu_bytes",
            "active MTU",
            str(rdma.active_mtu_bytes),
            f"ip link set {interface} mtu {rdma.active_mtu_bytes + 104} (or more), at both ends "
            "and on the switch",
        ),
    ]
    for name, words, expected, fix in wanted:
        stated = _stated_value(rail, name)
        if stated != expected:
            yield Difference(f"{place}: {words}", stated, expected, fix)
    if rdma.link_layer == "Ethernet" and rail.get("gid_index") is None:
        expected = f"a {rdma.gid_type} entry with an IPv4 address"
        fix = f"ip address show {interface}"
        yield Difference(f"{place}: the GID table", _stated_value(rail, "gid_index"), expected, fix)


def _memlock(document: Mapping[str, Any], rdma: Rdma) -> Iterator[Difference]:
    stated = _stated_value(document, "memlock_kib")
    least = rdma.memlock_kib
    known = document.get("memlock_kib")
    enough = known == "unlimited" or (
        least is not None and isinstance(known, int) and known >= least
    )
    if not enough:
        yield Difference(
            "the memory that a job may lock",
            stated,
            "unlimited" if least is None else f"at least {least} KiB",
            "LimitMEMLOCK=infinity for slurmd, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
        )


def _bond(document: Mapping[str, Any], bond: Bond) -> Iterator[Difference]:
    state = document.get("bond") or {}
    mode = _stated_value(state, "mode")
    if mode != bond.mode:
        yield Difference(f"{bond.device}: mode", mode, bond.mode, f"ip -d link show {bond.device}")
    links = {str(link.get("name")): link for link in state.get("links", [])}
    if set(links) != set(bond.links):
        actual = ", ".join(sorted(links)) or "none"
        fix = f"ip link set LINK master {bond.device}"
        yield Difference(f"{bond.device}: links", actual, ", ".join(sorted(bond.links)), fix)
    for _, link in sorted(links.items()):
        yield from _bonded(link, state, bond)


def _bonded(link: Mapping[str, Any], state: Mapping[str, Any], bond: Bond) -> Iterator[Difference]:
    name = link.get("name")
    if link.get("mii_status") != "up":
        fix = f"the cable of {name}; ethtool {name}"
        yield Difference(f"{bond.device}: link {name}", str(link.get("mii_status")), "up", fix)
    elif bond.mode == "802.3ad" and (
        link.get("aggregator_id") is None
        or link.get("aggregator_id") != state.get("active_aggregator")
    ):
        yield Difference(
            f"{bond.device}: aggregator of {name}",
            str(link.get("aggregator_id")),
            f"{_stated_value(state, 'active_aggregator')}, the active one",
            "LACP on the switch's port",
        )


def read(document: Mapping[str, Any], calls: Sequence[Call], options: Options) -> Reading:
    """The number of rails and bonded links that are as they should be, in what `parse` gives."""
    rdma, bond = options.rdma, options.bond
    good = sum(
        1
        for rail in document["rails"]
        if rdma and rail.get("device") not in options.absent and not list(_rail(rail, rdma))
    )
    state = document.get("bond") or {}
    good += sum(
        1 for link in state.get("links", []) if bond and not list(_bonded(link, state, bond))
    )
    measured = Measurement("links", good, TOOL, operation="state", transport="any")
    ended = bool(calls) and all(call.failure is None for call in calls)
    completeness = Completeness.PROVED if ended else Completeness.UNKNOWN
    return Reading(True, f"{good} links as expected", completeness, (measured,), {})
