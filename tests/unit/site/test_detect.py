"""What nodes show of themselves, by one job, for a new system's description."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge.common.errors import PrerequisiteError
from railgauge.node.inventory import detect as on_node
from railgauge.node.system import srun_output
from railgauge.site.detect import Seen, agreed, documents, look
from railgauge.slurm.nodes import SlurmNode
from railgauge.slurm.partitions import Cluster

#: As a node prints it; the ports are mlx5_0 and mlx5_1, of which the second is down.
PORT = {
    "state": "ACTIVE",
    "link_layer": "Ethernet",
    "rate": "100 Gb/sec (4X EDR)",
    "active_mtu_bytes": 4096,
    "hardware": True,
    "gid_types": ["IB/RoCE v1", "RoCE v2"],
}
DOCUMENT: dict[str, Any] = {
    "schema": on_node.SCHEMA,
    "node": "c1",
    "python": "3.11.2",
    "way": {"peer": "c2", "device": "eth0", "address": "10.0.0.1", "mtu_bytes": 9000},
    "link_mbits": 25000,
    "bond": [],
    "ports": {},
    "gpus": 0,
    "gpu_model": "",
    "product": "",
    "unknown": {},
}


def node(name: str = "c1", **changes: Any) -> dict[str, Any]:
    return {**DOCUMENT, "node": name, **changes}


def roce(name: str = "c1", **port: Any) -> dict[str, Any]:
    down = {**PORT, "state": "DOWN"}
    return node(name, ports={"mlx5_0/1": {**PORT, **port}, "mlx5_1/1": down})


def said(name: str) -> list[str]:
    """What srun prints of a node with many ports."""
    ports = {f"mlx5_{number}/1": PORT for number in range(8)}
    return [
        f"{name[1:]}: {x}" for x in srun_output.lines(name, json.dumps(node(name, ports=ports)))
    ]


def test_link_and_mtu_are_those_of_the_way_to_another_node() -> None:
    values = agreed("batch", [node(), node("c2")]).values
    assert (values["link_gbits"], values["mtu_bytes"], values["device"]) == (25, 9000, "eth0")


def test_ports_that_are_down_are_no_rails() -> None:
    values = agreed("batch", [roce()]).values
    assert (values["devices"], values["rails"], values["line_gbits"]) == ("mlx5_0", 1, 100)
    assert (values["gid_type"], values["active_mtu_bytes"]) == ("RoCE v2", 4096)


def test_every_rail_has_the_name_of_its_device() -> None:
    """In the order of their numbers; one with two ports twice."""
    ports = dict.fromkeys(("mlx5_10/1", "mlx5_2/1", "mlx5_2/2"), PORT)
    seen = agreed("batch", [node(ports=ports), node("c2", ports=ports)])
    assert seen.values["names"] == ("mlx5_2", "mlx5_2", "mlx5_10")
    assert "names [mlx5_2, mlx5_2, mlx5_10]" in str(seen)


def test_nodes_with_other_names_of_devices_have_no_names_of_rails() -> None:
    other = node("c2", ports={"mlx5_7/1": PORT})
    seen = agreed("batch", [node(ports={"mlx5_0/1": PORT}), other])
    assert seen.missing["names"] == "the nodes do not agree: [mlx5_0] on c1, [mlx5_7] on c2"


def test_soft_roce_has_no_line_rate() -> None:
    seen = agreed("batch", [roce(hardware=False)])
    assert "line_gbits" in seen.missing and seen.values["rate"] == PORT["rate"]


def test_rails_that_differ_have_no_common_rate() -> None:
    ports = {"mlx5_0/1": PORT, "mlx5_1/1": {**PORT, "rate": "25 Gb/sec (1X EDR)"}}
    assert {"rate", "line_gbits"} <= agreed("batch", [node(ports=ports)]).missing.keys()


def test_what_nodes_do_not_agree_in_is_reported_and_not_taken() -> None:
    way = {**DOCUMENT["way"], "mtu_bytes": 1500}
    seen = agreed("batch", [node("c1"), node("c2"), node("c3", way=way)])
    assert "mtu_bytes" not in seen.values
    assert seen.missing["mtu_bytes"] == ("the nodes do not agree: 9000 on c[1-2], 1500 on c3")
    assert "1500 on c3" in str(seen)


def test_what_a_node_cannot_say_keeps_its_reason() -> None:
    unknown = {"link_mbits": "eth0 is virtual"}
    seen = agreed("batch", [node(link_mbits=None, unknown=unknown)])
    assert seen.missing["link_gbits"] == "eth0 is virtual"


def test_a_node_without_rdma_says_so() -> None:
    assert agreed("batch", [node()]).missing["devices"] == "there is no RDMA device"


def test_other_lines_of_the_job_are_left_out() -> None:
    answer = "\n".join(["Welcome", *said("c2"), "9: c9 1/1 [1, 2]", *said("c1")])
    assert [document["node"] for document in documents(answer, "batch")] == ["c1", "c2"]


def test_long_documents_of_nodes_may_mix() -> None:
    """As srun passed them on of two virtual machines: a line of more than 1,024 bytes in parts."""
    mixed = [line for both in zip(said("c1"), said("c2"), strict=True) for line in both]
    assert len(mixed) > 2
    assert [document["node"] for document in documents("\n".join(mixed), "batch")] == ["c1", "c2"]


def test_a_job_without_a_document_is_an_error() -> None:
    with pytest.raises(PrerequisiteError, match="the job printed no inventory: 'Welcome"):
        documents("Welcome\n", "batch")


# ---- the job ----


def a_slurm(**states: str) -> Cluster:
    nodes = {
        name: SlurmNode(name, frozenset(state.upper().split("+"))) for name, state in states.items()
    }
    return Cluster(nodes, {"batch": tuple(nodes)})


def test_free_nodes_are_asked_by_one_job() -> None:
    asked: list[tuple[str, ...]] = []

    def ask(*command: str, limit_s: float) -> str:
        asked.append(command)
        return "\n".join([*said("c1"), *said("c3")])

    slurm = a_slurm(c1="idle", c2="down", c3="mixed")
    seen = look("batch", slurm, ["--account=hpc"], ask)
    ((*command,),) = asked
    assert seen.nodes == ("c1", "c3")
    assert {"--nodelist=c[1,3]", "--partition=batch", "--account=hpc"} <= set(command)
    assert {"--label", "--lines"} <= set(command)
    assert command[-3:] == ["c1", "c2", "c3"]


def test_a_node_is_found_by_the_names_that_slurm_has_for_it() -> None:
    asked: list[tuple[str, ...]] = []

    def ask(*command: str, limit_s: float) -> str:
        asked.append(command)
        return "\n".join(said("c1"))

    slurm = a_slurm(c1="idle", c2="idle")
    renamed = dataclasses.replace(slurm.nodes["c2"], other_names=("10.0.0.2", "host2"))
    look("batch", dataclasses.replace(slurm, nodes={**slurm.nodes, "c2": renamed}), [], ask)
    assert asked[0][-2:] == ("c1", "c2,10.0.0.2,host2")


def failing(said: str) -> Any:
    def ask(*command: str, limit_s: float) -> str:
        raise PrerequisiteError(f"`{' '.join(command)}` failed: {said}")

    return ask


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        (
            "/usr/bin/python3: Error while finding module specification for "
            "'railgauge.node.inventory.detect' (ModuleNotFoundError: No module named 'railgauge')",
            "a node does not see this checkout at",
        ),
        (
            "env: 'python3': No such file or directory\nsrun: error: c1: task 0: Exited with exit "
            "code 127",
            "a node has no python3",
        ),
        ("SyntaxError: future feature annotations is not defined", "older than 3.9"),
        (
            "srun: error: Unable to allocate resources: Invalid account or account/partition "
            "combination specified",
            "Slurm starts no job there",
        ),
        (
            "srun: error: Unable to allocate resources: Requested nodes are busy",
            "the nodes were not free within",
        ),
        ("slurmstepd: error: no room", "slurmstepd: error: no room"),
    ],
    ids=["checkout", "python", "old-python", "account", "busy", "other"],
)
def test_a_job_that_fails_is_reported_in_plain_words(said: str, meaning: str) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        look("batch", a_slurm(c1="idle"), [], failing(said))
    assert meaning in caught.value.message
    assert said.splitlines()[0] in caught.value.message
    assert caught.value.next_step


def test_no_free_node_is_reported_with_their_states() -> None:
    with pytest.raises(PrerequisiteError) as caught:
        look("batch", a_slurm(c1="down", c2="allocated"), [], failing(""))
    assert "no node of Slurm's partition batch is free: c1 down, c2 allocated" in str(caught.value)


# ---- on the node ----


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the kernel says of the way to another node."""
    facts: dict[str, Any] = {"device": "eth0", "address": "10.0.0.1", "mtu_bytes": 9000}
    monkeypatch.setattr(on_node, "path_facts", lambda peer, names: facts)
    monkeypatch.setenv("SLURMD_NODENAME", "c1")
    return facts


def shown(root: Path) -> dict[str, Any]:
    return on_node.look([["c1"], ["c2"]], str(root), str(root / "proc"))


HARDWARE = {
    "class/net/eth0/mtu": "9000",
    "class/net/eth0/speed": "25000",
    "class/net/eth0/device/vendor": "0x15b3",
}


def test_the_way_is_to_another_node(way: dict[str, Any], tmp_path: Path) -> None:
    document = shown(tree(tmp_path, HARDWARE))
    assert (document["node"], document["way"]["peer"]) == ("c1", "c2")
    assert (document["link_mbits"], document["unknown"]) == (25000, {})


def test_speed_of_a_virtual_interface_is_no_links(way: dict[str, Any], tmp_path: Path) -> None:
    files = {"class/net/eth0/mtu": "1500", "class/net/eth0/speed": "10000"}
    document = shown(tree(tmp_path, files))
    assert document["link_mbits"] is None
    assert "eth0 is virtual" in document["unknown"]["link_mbits"]


def test_speed_of_a_vlan_is_that_of_its_link(way: dict[str, Any], tmp_path: Path) -> None:
    way["device"] = "eth0.7"
    home = tree(tmp_path, {**HARDWARE, "class/net/eth0.7/mtu": "9000"})
    (home / "class/net/eth0.7/lower_eth0").symlink_to("../eth0")
    assert shown(home)["link_mbits"] == 25000


def test_links_of_a_bond_are_named(way: dict[str, Any], tmp_path: Path) -> None:
    way["device"] = "bond0"
    bond = {
        "class/net/bond0/mtu": "9000",
        "class/net/bond0/speed": "50000",
        "class/net/bond0/bonding/slaves": "eth1 eth0",
    }
    document = shown(tree(tmp_path, {**HARDWARE, **bond}))
    assert (document["link_mbits"], document["bond"]) == (50000, ["eth0", "eth1"])


def test_driver_that_does_not_say_its_speed_is_reported(
    way: dict[str, Any], tmp_path: Path
) -> None:
    document = shown(tree(tmp_path, {**HARDWARE, "class/net/eth0/speed": "-1"}))
    assert document["link_mbits"] is None
    assert "does not say its speed" in document["unknown"]["link_mbits"]


def test_name_that_does_not_resolve_is_reported(way: dict[str, Any], tmp_path: Path) -> None:
    way.clear()
    way["route_unknown"] = "gaierror: Name or service not known"
    document = shown(tree(tmp_path, HARDWARE))
    assert (document["way"], document["link_mbits"]) == ({}, None)
    assert document["unknown"]["way"] == "c2: gaierror: Name or service not known"


def test_a_node_with_a_name_of_no_host_is_reached_by_its_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "c1")
    asked: list[str] = []

    def known(name: str) -> str:
        asked.append(name)
        if name == "10.0.0.2":
            return name
        raise OSError("Name or service not known")

    monkeypatch.setattr("socket.gethostbyname", known)
    on_node.look([["c1"], ["c2", "10.0.0.2"]], str(tmp_path), str(tmp_path))
    assert asked == ["c2", "10.0.0.2"]
    unknown = on_node.look([["c1"], ["c3"]], str(tmp_path), str(tmp_path))["unknown"]
    assert unknown["way"] == "no address of c3 is known here (c3: Name or service not known)"


def test_a_partition_of_one_node_has_no_way(way: dict[str, Any], tmp_path: Path) -> None:
    document = on_node.look([["c1"]], str(tmp_path), str(tmp_path))
    assert document["unknown"]["way"] == "the partition has no other node"


def test_ports_are_reported_with_their_gid_types(way: dict[str, Any], tmp_path: Path) -> None:
    at = "class/infiniband/mlx5_0/ports/1"
    gid = "0000:0000:0000:0000:0000:ffff:0a00:0001"
    files = {
        f"{at}/state": "4: ACTIVE",
        f"{at}/rate": "100 Gb/sec (4X EDR)",
        f"{at}/link_layer": "Ethernet",
        f"{at}/gids/0": gid,
        f"{at}/gid_attrs/types/0": "RoCE v2",
    }
    port = shown(tree(tmp_path, {**HARDWARE, **files}))["ports"]["mlx5_0/1"]
    assert (port["state"], port["gid_types"], port["hardware"]) == ("ACTIVE", ["RoCE v2"], False)


def test_seen_is_a_line_for_people() -> None:
    seen = Seen("batch", ("c1", "c2"), {"device": "eth0", "gpu": "", "mtu_bytes": 9000}, {})
    assert str(seen) == "c[1-2]: device eth0, mtu_bytes 9000"
