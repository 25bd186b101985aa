"""The switch ports of suspects: by the system's data, else by what LLDP said on the node."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from railgauge.campaign.folder import SWITCH_PORTS
from railgauge.locating import End, Suspect
from railgauge.model.inventory import Inventory
from railgauge.model.record import BrokenRecordError
from railgauge.report import located
from railgauge.verdict.location import switch_ports
from railgauge.verdict.location.campaign_routes import CampaignRoutes
from railgauge.verdict.location.direct_evidence import by_itself
from tests.unit.verdict.decision.test_rules import Recorded

PORTS = {"n1": {"mlx5_0": "leaf1 swp1", "mlx5_1": "leaf2 swp1"}, "n2": {"mlx5_0": "leaf1 swp2"}}


def suspect(kind: str, name: str, *ends: End) -> Suspect:
    nodes = tuple(dict.fromkeys(end.node for end in ends))
    whole: dict[str, Any] = {"kind": kind, "name": name, "ends": ends, "nodes": nodes}
    return dataclasses.replace(by_itself(nodes[0], ""), **whole)


def taken(**fields: str) -> Inventory:
    known = {key.replace("__", "/"): value for key, value in fields.items()}
    return Inventory("n1", "", "", 0.0, known, {})


def test_a_rail_has_its_own_port_and_no_other() -> None:
    rail = suspect("rail", "n1:mlx5_1", End("n1", "mlx5_1"))
    assert switch_ports.of_suspect(rail, PORTS) == ("n1:mlx5_1 at leaf2 swp1",)


def test_a_pair_has_those_of_both_ends() -> None:
    pair = suspect("pair", "n1-n2", End("n1", "mlx5_0"), End("n2", "mlx5_0"))
    told = ("n1:mlx5_0 at leaf1 swp1", "n2:mlx5_0 at leaf1 swp2")
    assert switch_ports.of_suspect(pair, PORTS) == told


def test_a_node_that_is_named_by_itself_has_all_of_its_ports() -> None:
    told = ("n1:mlx5_0 at leaf1 swp1", "n1:mlx5_1 at leaf2 swp1")
    assert switch_ports.of_suspect(by_itself("n1", "off"), PORTS) == told


def test_who_is_not_known_and_a_leaf_have_none() -> None:
    assert switch_ports.of_suspect(by_itself("n9", "off"), PORTS) == ()
    leaf = suspect("leaf", "leaf1", End("n1", "mlx5_0"))
    assert switch_ports.of_suspect(leaf, PORTS) == ()


def test_an_interface_under_an_rdma_device_goes_by_that_ones_name() -> None:
    inventory = taken(
        net__eth1__switch_port="leaf1 swp1",
        net__eth0__switch_port="mgmt swp9",
        nic__mlx5_0__1__netdev="eth1",
    )
    assert switch_ports.of_inventory(inventory) == {"mlx5_0": "leaf1 swp1", "eth0": "mgmt swp9"}


def test_a_campaign_tells_what_the_systems_data_says(tmp_path: Path) -> None:
    campaign = Recorded(tmp_path).write()
    (campaign.folder / SWITCH_PORTS).write_text(json.dumps({"n1": {"eth0": "leaf1 swp1"}}))
    (told,) = switch_ports.shown(campaign, [by_itself("n1", "off")], CampaignRoutes(campaign, []))
    assert told.ports == ("n1:eth0 at leaf1 swp1",)
    assert "switch port: n1:eth0 at leaf1 swp1" in list(located.evidence(told))
    assert told.as_dict()["ports"] == ["n1:eth0 at leaf1 swp1"]
    assert "ports" not in by_itself("n2", "off").as_dict()


def test_lldp_tells_where_the_systems_data_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = Recorded(tmp_path).write()
    (campaign.folder / SWITCH_PORTS).write_text(json.dumps({"n1": {"eth0": "leaf1 swp1"}}))
    by_lldp = taken(net__eth0__switch_port="wrong", net__eth1__switch_port="leaf2 swp1")
    monkeypatch.setattr(switch_ports, "in_campaign", lambda campaign: {"n1": by_lldp})
    assert switch_ports.read(campaign) == {"n1": {"eth0": "leaf1 swp1", "eth1": "leaf2 swp1"}}


def test_a_damaged_file_of_ports_is_an_error(tmp_path: Path) -> None:
    campaign = Recorded(tmp_path).write()
    (campaign.folder / SWITCH_PORTS).write_text("[]")
    with pytest.raises(BrokenRecordError, match=SWITCH_PORTS):
        switch_ports.shown(campaign, [by_itself("n1", "off")], CampaignRoutes(campaign, []))
