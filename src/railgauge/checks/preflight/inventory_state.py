"""A node's inventory against what its system expects: firmware, tuning, rails and bond.

The tool is `railgauge.node.inventory`; it prints one JSON document a node.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railgauge.checks.preflight import rails_and_bond
from railgauge.checks.preflight.rails_and_bond import Difference, Links
from railgauge.common.errors import RailgaugeError
from railgauge.common.names import natural
from railgauge.model import inventory
from railgauge.model.call import Call
from railgauge.model.inventory import Inventory
from railgauge.model.measurement import Measurement
from railgauge.node.inventory.compare import shown
from railgauge.node.inventory.kinds import LASTING, kind
from railgauge.node.inventory.sheet import Scalar
from railgauge.systems import Rdma
from railgauge.systems.expected import Expectation, Expected
from railgauge.tools import Completeness, ParseError, Reading

TOOL = "inventory"


@dataclasses.dataclass(frozen=True)
class Options:
    """The entries of expected.yaml that a node must show, None where there is no such file; and its
    rails and bond.
    """

    expected: tuple[Expectation, ...] | None
    links: Links = dataclasses.field(default_factory=Links)

    @property
    def counts(self) -> Mapping[str, int]:
        """Metric -> its number on a healthy node, of what the node is judged by."""
        entries = {} if self.expected is None else {"expectations": len(self.expected)}
        links = {"links": self.links.count} if self.links.rdma or self.links.bond else {}
        return {**entries, **links}


def argv(file: str) -> list[str]:
    return ["python3", "-S", "-m", "railgauge.node.inventory", "--output", file]


def parse(text: str) -> Inventory:
    """The node's inventory; ParseError where the document is not whole."""
    if not text.strip():
        raise ParseError(0, "nothing", "an inventory")
    try:
        return inventory.load(text)
    except RailgaugeError as error:
        raise ParseError(0, error.message.partition(", expected ")[0], "an inventory") from None


def _matching(node_inventory: Inventory, entry: Expectation) -> list[str]:
    pattern = re.compile(entry.fields)
    return sorted(
        (
            key
            for key in (*node_inventory.fields, *node_inventory.unknown)
            if pattern.fullmatch(key)
        ),
        key=natural,
    )


def _of_entry(node_inventory: Inventory, entry: Expectation) -> Iterator[Difference]:
    keys = _matching(node_inventory, entry)
    if not keys and not entry.where_present:
        yield Difference(
            f"a field like {entry.fields}", "not there", entry.right, entry.fix_for(entry.fields)
        )
    for key in keys:
        if key in node_inventory.unknown:
            actual = f"unknown ({node_inventory.unknown[key]})"
        elif not entry.admits(node_inventory.fields[key]):
            actual = shown(node_inventory.fields[key])
        else:
            continue
        yield Difference(key, actual, entry.right, entry.fix_for(key))


def differences(node_inventory: Inventory, options: Options) -> list[Difference]:
    """All differences from expected.yaml; an unknown field is one, with its reason."""
    return [
        difference
        for entry in options.expected or ()
        for difference in _of_entry(node_inventory, entry)
    ]


def read(node_inventory: Inventory, calls: Sequence[Call], options: Options) -> Reading:
    """The reading of an inventory: the numbers of entries that hold, and of links that are well."""
    good = {
        "expectations": sum(
            not list(_of_entry(node_inventory, entry)) for entry in options.expected or ()
        ),
        "links": rails_and_bond.judge(node_inventory, options.links)[0],
    }
    measured = tuple(
        Measurement(metric, good[metric], TOOL, operation="state", transport="any")
        for metric in options.counts
    )
    reason = ", ".join(f"{m.value:g} {m.metric}" for m in measured)
    ended = bool(calls) and all(call.failure is None for call in calls)
    completeness = Completeness.PROVED if ended else Completeness.UNKNOWN
    return Reading(True, f"{reason} as expected", completeness, measured, {})


# ---- for the comparison with the node's peers ----


def names_of_rails(node_inventory: Inventory, rdma: Rdma) -> dict[str, str]:
    """The names of rails: `nic/mlx5_0` -> `nic/rail0`, also for the interface behind it."""
    names: dict[str, str] = {}
    for rail, (device, port) in rails_and_bond.rails_of(node_inventory, rdma).items():
        names.setdefault(f"nic/{device}", f"nic/rail{rail}")
        netdev = node_inventory.fields.get(f"nic/{device}/{port}/netdev")
        if netdev is not None:
            names[f"net/{netdev}"] = f"net/rail{rail}"
    return names


#: An interface that has its MAC address for a name (systemd.net-naming-scheme): a BMC's over USB.
_OWN = re.compile(r"net/enx[0-9a-f]{12}/")
#: A parameter of the kernel with a MAC, IP or UUID in it is how this node was started; provisioners
#: have names of their own for them.
_COMMAND_LINE = "kernel/cmdline/"
_OWN_VALUE = re.compile(
    r"\b(?:(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|(?:[0-9]{1,3}\.){3}[0-9]{1,3}|"
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b",
    re.IGNORECASE,
)


def agreed(
    node_inventory: Inventory, expected: Expected, rdma: Rdma | None, absent: Sequence[str] = ()
) -> dict[str, Any]:
    """What a node and its peers must agree in: {"fields": {name: value}, "keys": {name: key}}.

    Firmware and tuning, a rail's device by the number of the rail, so that names do not matter;
    `keys` has the node's own key where that is another. A value that is unknown is None. Of the
    rails of `absent` devices nothing is said: they stand under `absent`, as `nic/rail2/`.
    """
    names = names_of_rails(node_inventory, rdma) if rdma else {}
    rails = set(range(rdma.rails)) - set(rdma.rails_without(absent)) if rdma else set()
    left_out = tuple(f"{home}/rail{rail}/" for rail in sorted(rails) for home in ("nic", "net"))
    fields: dict[str, Scalar | None] = {}
    keys = {}
    for key in sorted({*node_inventory.fields, *node_inventory.unknown}, key=natural):
        free = key.startswith("fabric/") or expected.differs_freely(key)
        if kind(key) not in LASTING or free:
            continue
        name = _renamed(key, names)
        if name.startswith(left_out) or _OWN.match(name):
            continue
        value = node_inventory.fields.get(key)
        if name.startswith(_COMMAND_LINE) and _OWN_VALUE.search(str(value)):
            continue
        fields[name] = value
        if name != key:
            keys[name] = key
    return {"fields": fields, "keys": keys, **({"absent": list(left_out)} if left_out else {})}


def _renamed(key: str, names: Mapping[str, str]) -> str:
    home, _, rest = key.partition("/")
    device, _, last = rest.partition("/")
    name = names.get(f"{home}/{device}")
    return f"{name}/{last}" if name else key


def fix_command(key: str, options: Options) -> str:
    """The command that fixes a field, if the system's data has one."""
    entries = options.expected or ()
    return next((e.fix_for(key) for e in entries if re.fullmatch(e.fields, key)), "")
