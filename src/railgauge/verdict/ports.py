"""The switch ports that suspects hang on: as the system's data says, else as LLDP did."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from railgauge.campaign.folder import SWITCH_PORTS, Campaign
from railgauge.campaign.inventories import in_campaign
from railgauge.model import record
from railgauge.model.inventory import Inventory
from railgauge.node.rdma import natural
from railgauge.verdict.locating import Suspect

#: Node -> its device -> `leaf1 Ethernet1/3`.
Ports = Mapping[str, Mapping[str, str]]


def shown(campaign: Campaign, suspects: Sequence[Suspect]) -> list[Suspect]:
    """The same suspects; nodes, rails and pairs with the ports of their devices, where these are
    known. BrokenRecordError where the campaign's file of them is damaged.
    """
    if not any(suspect.kind in ("node", "rail", "pair") for suspect in suspects):
        return list(suspects)
    ports = read(campaign)
    return [dataclasses.replace(suspect, ports=of_suspect(suspect, ports)) for suspect in suspects]


def read(campaign: Campaign) -> Ports:
    """Of all nodes of a campaign."""
    told = record.read_switch_ports(campaign.folder / SWITCH_PORTS) or {}
    by_lldp = {node: of_inventory(one) for node, one in in_campaign(campaign).items()}
    return {node: {**by_lldp.get(node, {}), **told.get(node, {})} for node in {*told, *by_lldp}}


def of_inventory(inventory: Inventory) -> dict[str, str]:
    """Device -> its port: an RDMA device by its own name, any other interface by its own."""
    fields = inventory.fields
    found = {
        parts[1]: str(value)
        for key, value in fields.items()
        if len(parts := key.split("/")) == 3 and parts[0] == "net" and parts[2] == "switch_port"
    }
    for key, value in fields.items():
        parts = key.split("/")
        if parts[0] == "nic" and parts[-1] == "netdev" and str(value) in found:
            found[parts[1]] = found.pop(str(value))
    return found


def of_suspect(suspect: Suspect, ports: Ports) -> tuple[str, ...]:
    """`n7:mlx5_3 at leaf4 Ethernet1/7`; of a node without rails all of its devices."""
    if suspect.kind not in ("node", "rail", "pair"):
        return ()
    rails = {(end.node, end.rail) for end in suspect.ends} or {(n, None) for n in suspect.nodes}
    found = [
        (natural(node), natural(device), f"{node}:{device} at {port}")
        for node, rail in rails
        for device, port in ports.get(node, {}).items()
        if rail is None or rail == device
    ]
    return tuple(dict.fromkeys(name for *_, name in sorted(found)))
