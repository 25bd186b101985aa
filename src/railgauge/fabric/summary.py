"""A fabric as text, as a document, and as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from railgauge import hostlist
from railgauge.common.names import natural
from railgauge.fabric import routes
from railgauge.fabric.check import manager_name
from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.folder import Fabric
from railgauge.fabric.reading.managers import Manager
from railgauge.fabric.subnet import Subnet


def document(fabric: Fabric) -> dict[str, Any]:
    """As docs/schema/fabric-show.json says."""
    subnet = fabric.subnet
    return {
        "read": list(fabric.sources),
        "switches": [
            {
                "name": device.name,
                "guid": f"{device.guid:#018x}",
                "lid": device.lid,
                "level": subnet.level.get(device.guid),
                "ports": device.ports,
                "cabled": cabled,
                "firmware": device.firmware,
            }
            for device, cabled in _switches(subnet)
        ],
        "leaves": routes.leaves(subnet),
        "hosts": len({device.host for device in subnet.hcas()}),
        "hcas": len(subnet.hcas()),
        "links": _rates(subnet),
        "managers": [_manager(subnet, one) for one in fabric.managers or ()],
    }


def _manager(subnet: Subnet, manager: Manager) -> dict[str, Any]:
    fields = manager._asdict()
    guid = f"{fields.pop('port_guid'):#018x}"
    return {"name": manager_name(subnet, manager), "port_guid": guid, **fields}


def _switches(subnet: Subnet) -> Iterator[tuple[Any, int]]:
    cabled = Counter(port.guid for port in subnet.cable_at)
    order = sorted(subnet.switches(), key=lambda d: (-subnet.level.get(d.guid, 0), natural(d.name)))
    for device in order:
        yield device, cabled[device.guid]


def _rates(subnet: Subnet) -> dict[str, int]:
    """Rate -> links that have it, the most frequent first."""
    return dict(Counter(str(cable.rate) for cable in subnet.cables).most_common())


def lines(fabric: Fabric) -> list[str]:
    """A line a switch, with the hosts of a leaf; and totals."""
    subnet = fabric.subnet
    of_leaf = routes.leaves(subnet)
    names = {1: "leaf", 2: "spine", 3: "core"}
    shown = []
    for device, cabled in _switches(subnet):
        level = names.get(subnet.level.get(device.guid, 0), "switch")
        hosts = of_leaf.get(device.name)
        words = f"  hosts {_hosts(hosts)}" if hosts else ""
        firmware = f"  firmware {device.firmware}" if device.firmware else ""
        shown.append(
            f"{level:<6} {device.name:<24} {cabled} of {device.ports} ports cabled{firmware}{words}"
        )
    shown += [
        f"subnet manager {manager_name(subnet, one)} (LID {one.lid}, priority {one.priority}): "
        f"{one.state}"
        for one in fabric.managers or ()
    ]
    count_of_hosts = len({device.host for device in subnet.hcas()})
    rates = ", ".join(f"{count} at {rate}" for rate, count in _rates(subnet).items())
    shown.append(
        f"{count_of_hosts} hosts, {len(subnet.hcas())} HCAs, {len(subnet.cables)} links: {rates}"
    )
    return shown


def _hosts(hosts: list[str]) -> str:
    try:
        return hostlist.fold(hosts)
    except ValueError:
        return ", ".join(hosts)


def metrics(fabric: Fabric, findings: Sequence[FabricFinding]) -> str:
    """Prometheus text: what is there, faults by kind, and each fault's port."""
    subnet = fabric.subnet
    kinds = Counter(one.kind for one in findings if one.weight == "fault")
    text = [
        "# HELP railgauge_fabric_devices Devices of the InfiniBand subnet.",
        "# TYPE railgauge_fabric_devices gauge",
        *(
            f'railgauge_fabric_devices{{kind="{kind}"}} {count}'
            for kind, count in sorted(Counter(d.kind for d in subnet.devices.values()).items())
        ),
        "# HELP railgauge_fabric_links Links of the InfiniBand subnet, by width and speed.",
        "# TYPE railgauge_fabric_links gauge",
        *(f'railgauge_fabric_links{{rate="{r}"}} {n}' for r, n in _rates(subnet).items()),
        *_managers(fabric),
        "# HELP railgauge_fabric_faults Faults of the last check of the subnet.",
        "# TYPE railgauge_fabric_faults gauge",
        f"railgauge_fabric_faults {sum(kinds.values())}",
    ]
    if kinds:
        text += [
            "# HELP railgauge_fabric_fault_info A fault of the subnet, and its port; always 1.",
            "# TYPE railgauge_fabric_fault_info gauge",
        ]
        samples = {
            f'railgauge_fabric_fault_info{{kind="{one.kind}",device="{_label(one.device)}",'
            f'port="{one.port}",far="{_label(one.far)}"}} 1'
            for one in findings
            if one.weight == "fault"
        }
        text += sorted(samples)
    return "".join(f"{line}\n" for line in text)


def _managers(fabric: Fabric) -> Iterator[str]:
    """How many subnet managers have each state; nothing where that was not read."""
    if fabric.managers is not None:
        yield "# HELP railgauge_fabric_managers Subnet managers, by state; one is master."
        yield "# TYPE railgauge_fabric_managers gauge"
        states = Counter(one.state for one in fabric.managers)
        for state, count in sorted({"master": 0, **states}.items()):
            yield f'railgauge_fabric_managers{{state="{state}"}} {count}'


def _label(text: str) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable.replace("\\", r"\\").replace('"', r"\"")
