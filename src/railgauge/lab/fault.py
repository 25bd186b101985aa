"""What a fault of the lab is, and what a kind of fault is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from railgauge.lab.cluster import Lab


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault that is in place. `value` is in the unit that its kind names."""

    kind: str
    #: a node, or a switch
    node: str | None = None
    value: float | None = None
    interface: str | None = None
    #: a pattern of command lines, as pgrep's
    process: str | None = None

    @property
    def place(self) -> str:
        """`n5`, `n5:eth1` or `leaf1:spine2`; "" of the lab as a whole."""
        return ":".join(part for part in (self.node, self.interface) if part)

    def __str__(self) -> str:
        value = "" if self.value is None else f"{self.value:g}"
        return " ".join(part for part in (self.kind, self.place, self.process, value) if part)


#: What a fault strikes: the lab as a whole; a node; its disk, or processes of it; the link of a
#: node, or what leaves by it; that of a VM; a rail; an uplink; either of these; a leaf; a link or a
#: switch of the simulated InfiniBand subnet.
On = Literal[
    "lab",
    "node",
    "disk",
    "process",
    "link",
    "interface",
    "vm-interface",
    "rail",
    "uplink",
    "link-or-uplink",
    "leaf",
    "ib-link",
    "ib-switch",
]

#: How its place is typed.
PLACES: dict[On, str] = {
    "lab": "",
    "node": "NODE",
    "disk": "NODE",
    "process": "NODE",
    "link": "NODE[:INTERFACE]",
    "interface": "NODE[:INTERFACE]|SWITCH:SWITCH",
    "vm-interface": "NODE[:INTERFACE]",
    "rail": "NODE[:INTERFACE]",
    "uplink": "LEAF:SPINE",
    "link-or-uplink": "NODE[:INTERFACE]|LEAF:SPINE",
    "leaf": "LEAF",
    "ib-link": "NODE:HCA|SWITCH:SWITCH",
    "ib-switch": "SWITCH",
}

#: The units of values.
Unit = Literal["GBITS", "BYTES", "MS", "PERCENT", "SECONDS", "LANES", "PER_SECOND", "NUMBER"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """How a kind of fault is made and cleared. One without `clear` is over at once. One without
    `unit` has no value, one with `default_value` may be told none.
    """

    description: str
    add: Callable[[Lab, Fault], None]
    clear: Callable[[Lab, Fault], None] | None
    on: On = "lab"
    unit: Unit | None = None
    default_value: float | None = None
    #: most of what a machine was told is forgotten with its power
    outlasts_power: bool = False

    @property
    def needs_value(self) -> bool:
        return self.unit is not None and self.default_value is None

    @property
    def usage(self) -> str:
        """What is typed behind its name."""
        unit = self.unit or ""
        value = unit if self.default_value is None else f"[{unit}]"
        process = "--process PATTERN" if self.on == "process" else ""
        return " ".join(part for part in (PLACES[self.on], value, process) if part)
