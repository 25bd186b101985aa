"""Real faults in the lab, so that the gate is tested against truth: put in place, told, cleared."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence

from railgauge import hostlist
from railgauge.common.atomic import write_json
from railgauge.common.errors import RailgaugeError
from railgauge.lab import subnet
from railgauge.lab.cluster import Lab
from railgauge.lab.fault import Fault, Kind, On
from railgauge.lab.fault_kinds import KINDS, is_on, silenced, strikes
from railgauge.lab.spec import Node, NodeKindName, Switch


def active(lab: Lab) -> list[Fault]:
    """The faults in place, oldest first."""
    path = lab.folders.run / "faults.json"
    if not path.exists():
        return []
    return [Fault(**fields) for fields in json.loads(path.read_text())]


def _save(lab: Lab, faults: list[Fault]) -> None:
    write_json(lab.folders.run / "faults.json", [dataclasses.asdict(f) for f in faults])


def add_typed(lab: Lab, kind: str, words: Sequence[str], process: str | None = None) -> Fault:
    """Put a fault in place, as typed: `uplink-loss leaf1:spine2 2`, `flap n5`, `results-full 4096`.

    RailgaugeError as `add`, and where the words are not what that kind of fault is told.
    """
    described = _kind(kind)
    node = interface = value = None
    rest = list(words)
    if described.on != "lab" and rest:
        node, _, interface = rest.pop(0).partition(":")
    if described.unit is not None and rest:
        value = _number(kind, described.unit, rest.pop(0))
    if rest:
        raise RailgaugeError(f"fault {kind}: {rest[0]!r} is too much, expected {_usage(kind)}")
    return add(lab, kind, node, value, interface or None, process)


def _number(kind: str, unit: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        message = f"fault {kind}: {unit} is {word!r}, expected a number; {_usage(kind)}"
        raise RailgaugeError(message) from None


def _usage(kind: str) -> str:
    return f"{kind} {KINDS[kind].usage}".rstrip()


def _kind(kind: str) -> Kind:
    if kind not in KINDS:
        raise RailgaugeError(f"fault {kind!r} is unknown; one of {', '.join(KINDS)}")
    return KINDS[kind]


def add(
    lab: Lab,
    kind: str,
    node: str | None = None,
    value: float | None = None,
    interface: str | None = None,
    process: str | None = None,
) -> Fault:
    """Put a fault in place; RailgaugeError where it needs another node, interface, process or
    value. `node` may be a switch, whose interfaces have the names of their other ends.
    """
    lab.require_up()
    described = _kind(kind)
    if described.on == "lab" and node is not None:
        raise RailgaugeError(f"fault {kind} concerns no single node")
    if described.on != "lab" and not node:
        raise RailgaugeError(f"fault {kind} needs a place: {_usage(kind)}")
    _require_value(kind, described, value)
    if (described.on == "process") != (process is not None):
        needed = "needs --process" if process is None else "concerns no process"
        raise RailgaugeError(f"fault {kind} {needed}")
    interface = _interface(lab, kind, node, interface)
    value = described.default_value if value is None else value
    fault = Fault(kind, node, value, interface, process)
    with lab.locked():
        present = active(lab)
        if any(strikes(lab, other) & strikes(lab, fault) for other in present):
            raise RailgaugeError(
                f"fault {kind} is in place already", next_step="railgauge lab fault clear"
            )
        described.add(lab, fault)
        if described.clear is not None:
            _save(lab, [*present, fault])
    return fault


def _require_value(kind: str, described: Kind, value: float | None) -> None:
    if value is None:
        if described.needs_value:
            raise RailgaugeError(f"fault {kind} needs {described.unit}: {_usage(kind)}")
        return
    if described.unit is None:
        raise RailgaugeError(f"fault {kind} has no value")
    least = 0 if described.default_value == 0 else math.ulp(0)
    if not (math.isfinite(value) and value >= least):
        raise RailgaugeError(f"{described.unit} is {value:g}, expected a number above 0")
    if described.unit == "PERCENT" and value > 100:
        raise RailgaugeError(f"PERCENT is {value:g}, expected at most 100")


def _interface(lab: Lab, kind: str, name: str | None, interface: str | None) -> str | None:
    """The interface that a fault strikes: the one named, else the usual one of such a machine."""
    on = KINDS[kind].on
    if on == "ib-link":
        if not interface:
            raise RailgaugeError(f"fault {kind} needs a place: {_usage(kind)}")
        subnet.link(lab, name or "", interface)
        return interface
    if on == "ib-switch":
        if interface is not None:
            raise RailgaugeError(f"fault {kind} concerns a whole switch: {_usage(kind)}")
        subnet.switch(lab, name or "")
        return None
    member = _member(lab, kind, name) if name else None
    if name is None or on in ("node", "disk", "process", "leaf"):
        if interface is not None:
            raise RailgaugeError(f"fault {kind} concerns no single interface")
        return None
    links, _ = lab.links(name)
    if interface is None and isinstance(member, Switch) and on != "interface":
        raise RailgaugeError(f"fault {kind} on {name}: which of its links? {_usage(kind)}")
    chosen = interface or links.default_interface(lab)
    rails = links.interfaces(lab, rdma=True) if on == "rail" or kind == "rdma-removed" else []
    # A namespace node has one, and no RDMA.
    known = rails or links.interfaces(lab)
    if chosen not in known:
        raise RailgaugeError(f"fault {kind} on {name}: no interface {chosen!r}; {', '.join(known)}")
    return chosen


#: What some faults strike is of one kind of machine only, as people call it.
_ONLY: dict[On, tuple[NodeKindName, str]] = {
    "vm-interface": ("vm", "VM"),
    "disk": ("namespace", "namespace"),
}


def _member(lab: Lab, kind: str, name: str) -> Node | Switch:
    """The node or switch that a fault strikes, of a kind that it can."""
    on = KINDS[kind].on
    leaves = [switch.name for switch in lab.spec.all_switches() if switch.kind == "leaf"]
    if on in ("uplink", "leaf"):
        if name not in leaves:
            known = hostlist.fold(leaves) if leaves else "this lab has none: lab up --system lab32"
            raise RailgaugeError(f"fault {kind} needs a leaf ({known}), not {name!r}")
        return lab.member(name)
    if on == "interface" or (on == "link-or-uplink" and name in leaves):
        return lab.member(name)
    node = lab.node(name)
    if on in _ONLY and node.kind != _ONLY[on][0]:
        only, called = _ONLY[on]
        able = hostlist.fold(node.name for node in lab.spec.all_nodes() if node.kind == only)
        raise RailgaugeError(
            f"fault {kind} needs a {called} node ({able}); {name} is a {node.kind}"
        )
    return node


def clear(lab: Lab, node: str | None = None) -> list[Fault]:
    """Mend all faults, or those of one node or switch, and wait until Slurm has its nodes back."""
    lab.require_up()
    with lab.locked():
        present = active(lab)
        cleared = [fault for fault in present if node in (None, fault.node)]
        # Power last: what a node is told before that is forgotten, and needs no clearing.
        newest_first = cleared[::-1]
        newest_first.sort(key=lambda fault: fault.kind == "off")
        for fault in newest_first:
            kind = KINDS[fault.kind]
            assert kind.clear is not None
            if kind.outlasts_power or is_on(lab, fault):
                kind.clear(lab, fault)
        _save(lab, [fault for fault in present if fault not in cleared])
        lab.wait_until_idle(nodes_off={node for f in active(lab) for node in silenced(lab, f)})
    return cleared
