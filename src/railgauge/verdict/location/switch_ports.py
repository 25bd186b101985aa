"""The switch ports of suspects: by the system's data, or else by LLDP."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from railgauge.campaign.folder import SWITCH_PORTS, Campaign
from railgauge.campaign.inventories import in_campaign
from railgauge.common.names import natural
from railgauge.locating import Suspect
from railgauge.model import record
from railgauge.model.inventory import Inventory
from railgauge.verdict.location.campaign_routes import CampaignRoutes

#: Node -> its device -> `leaf1 Ethernet1/3`.
Ports = Mapping[str, Mapping[str, str]]


def shown(campaign: Campaign, suspects: Sequence[Suspect], routes: CampaignRoutes) -> list[Suspect]:
    """The suspects, with the ports of the devices of nodes, rails and pairs, and those of uplinks
    by the subnet, where these are known. BrokenRecordError where the campaign's file of ports is
    damaged.
    """
    kinds = {suspect.kind for suspect in suspects}
    ports = read(campaign) if kinds & {"node", "rail", "pair"} else {}
    of_uplinks = routes.ports() if "uplink" in kinds else {}
    return [
        dataclasses.replace(
            suspect,
            ports=(of_uplinks[suspect.name],)
            if suspect.kind == "uplink" and suspect.name in of_uplinks
            else of_suspect(suspect, ports),
        )
        for suspect in suspects
    ]


def read(campaign: Campaign) -> Ports:
    """Node -> device -> port, of all nodes of a campaign."""
    described = record.read_switch_ports(campaign.folder / SWITCH_PORTS) or {}
    by_lldp = {
        node: of_inventory(node_inventory) for node, node_inventory in in_campaign(campaign).items()
    }
    return {
        node: {**by_lldp.get(node, {}), **described.get(node, {})}
        for node in {*described, *by_lldp}
    }


def of_inventory(inventory: Inventory) -> dict[str, str]:
    """Device -> its port: an RDMA device by its own name, any other interface by its own."""
    fields = inventory.fields
    ports = {
        parts[1]: str(value)
        for key, value in fields.items()
        if len(parts := key.split("/")) == 3 and parts[0] == "net" and parts[2] == "switch_port"
    }
    for key, value in fields.items():
        parts = key.split("/")
        if parts[0] == "nic" and parts[-1] == "netdev" and str(value) in ports:
            ports[parts[1]] = ports.pop(str(value))
    return ports


def of_suspect(suspect: Suspect, ports: Ports) -> tuple[str, ...]:
    """A suspect's ports: `n7:mlx5_3 at leaf4 Ethernet1/7`; without rails those of all devices."""
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
