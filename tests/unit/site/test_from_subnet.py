"""A new system with what an InfiniBand subnet shows: leaves, switch ports, expected cables."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from railgauge import paths, systems
from railgauge.checks.framework import topology
from railgauge.cli import cli
from railgauge.common.errors import PrerequisiteError
from railgauge.fabric import expected, folder
from railgauge.fabric.check import check
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.site import from_subnet, new
from railgauge.site.detect import Seen
from railgauge.site.templates import DescribedPartition
from tests.command_line import invoke
from tests.unit.site.test_templates import ROCE, a_cluster, no_slurm, run

DATA = paths.HOME / "tests" / "data" / "infiniband"


@pytest.fixture(autouse=True)
def _host(own_systems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "login1")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    (tmp_path / "saved").mkdir()
    for name in ("ibnetdiscover.txt", "iblinkinfo-l.txt"):
        (tmp_path / "saved" / name).write_text((DATA / "healthy" / name).read_text())
    return tmp_path / "saved"


def made(nodes: str, subnet: Fabric) -> list[str]:
    described = DescribedPartition("batch", nodes, values=ROCE)
    lines = new.make_from_template("mine", "roce", "login1", [described], (), subnet)
    systems.load.cache_clear()
    return lines


def test_a_partition_has_the_leaves_and_ports_of_its_cables(saved: Path) -> None:
    subnet = folder.from_folder(saved)
    lines = made("n[1-4]", subnet)
    assert "batch: 2 leaves, and its switch ports, from the subnet" in lines
    partition = systems.load("mine").partition("batch")
    assert partition.extras.leaves == {"leaf1": "n[1-2]", "leaf2": "n[3-4]"}
    assert partition.extras.switch_ports["n3"] == {"mlx5_0": "leaf2 1", "mlx5_1": "leaf2 2"}
    assert partition.features[-1] == "infiniband"
    # The schedules have them.
    leaves = topology.leaves_of(partition)
    assert leaves is not None and leaves.of_node["n4"] == "leaf2"
    wanted = expected.load(paths.SYSTEMS / "mine" / expected.FILE)
    assert check(subnet, wanted) == [] and len(wanted.cables) == 12


def test_a_domain_is_no_part_of_a_host(saved: Path) -> None:
    made("n1.cluster,n2.cluster", folder.from_folder(saved))
    extras = systems.load("mine").partition("batch").extras
    assert extras.leaves == {"leaf1": "n1.cluster,n2.cluster"}


@pytest.mark.parametrize("nodes", ["n[1-5]", "c[01-02]"])
def test_a_partition_with_a_node_elsewhere_stays_as_it_is(saved: Path, nodes: str) -> None:
    lines = made(nodes, folder.from_folder(saved))
    missing = "n5" if nodes.startswith("n") else nodes
    assert f"batch: nothing is taken from the subnet, which lacks {missing}" in lines
    partition = systems.load("mine").partition("batch")
    assert partition.extras.leaves is None and "infiniband" not in partition.features
    assert not (paths.SYSTEMS / "mine" / expected.FILE).exists()


def test_hosts_without_names_leave_nothing_behind(saved: Path) -> None:
    file = saved / "ibnetdiscover.txt"
    file.write_text(file.read_text().replace("n2 mlx5_0", "n1 mlx5_0"))
    with pytest.raises(FabricError, match="2 HCAs have the description 'n1 mlx5_0'"):
        made("n[1-4]", folder.from_folder(saved))
    assert not (paths.SYSTEMS / "mine").exists()


def test_a_system_like_another_one_has_them_too(
    monkeypatch: pytest.MonkeyPatch, saved: Path
) -> None:
    options = ("--detect", "--subnet", str(saved))
    answer = run(monkeypatch, a_cluster, "mine", "--like", "tcp", *options)
    assert answer.exit_code == 0, answer.exception
    assert "batch: nothing is taken from the subnet, which lacks c[01-02]" in answer.output


# ---- read by --detect ----


def seen(**values: str) -> Seen:
    return Seen("batch", ("n1", "n2"), values, {})


def on_node(errors: dict[str, str], **texts: str) -> Callable[..., str]:
    """What srun prints of a node that has read the subnet, or has not."""
    packed = {
        f"{name}.txt": base64.b64encode(zlib.compress(text.encode())).decode()
        for name, text in texts.items()
    }
    document = {"guids": [], "texts": packed, "errors": errors}
    return lambda *command, **_: json.dumps(document) if command[0] == "srun" else ""


@pytest.fixture
def _no_tools_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> dict[str, str]:
        raise FabricError("ibnetdiscover is not installed here")

    monkeypatch.setattr(from_subnet.asking, "ask", refuse)


@pytest.mark.usefixtures("_no_tools_here")
def test_a_node_with_rights_reads_the_subnet(saved: Path) -> None:
    text = (saved / "ibnetdiscover.txt").read_text()
    subnet, lines = from_subnet.read([seen()], (), on_node({}, ibnetdiscover=text))
    assert subnet is not None and len(subnet.subnet.hcas()) == 8
    assert lines == ["the InfiniBand subnet was read on n1"]


@pytest.mark.usefixtures("_no_tools_here")
@pytest.mark.parametrize(
    ("run", "why"),
    [
        (
            on_node({"ibnetdiscover.txt": "ibnetdiscover: exit code 255: can't open MAD port"}),
            "n1: ibnetdiscover: exit code 255: can't open MAD port",
        ),
        (lambda *_, **__: "{", "n1: what it printed of the subnet is not whole"),
        (
            on_node({}, ibnetdiscover="# Topology file: generated on x\n"),
            "n1: ibnetdiscover.txt",
        ),
    ],
    ids=["no rights", "not whole", "part of a text"],
)
def test_one_line_says_why_no_subnet_was_read_and_how_to_give_rights(
    run: Callable[..., str], why: str
) -> None:
    subnet, (line,) = from_subnet.read([seen()], (), run)
    assert subnet is None and "\n" not in line
    assert line.startswith(f"no InfiniBand subnet was read ({why}")
    assert "--subnet FOLDER" in line and 'KERNEL=="umad*", GROUP="rdma"' in line


@pytest.mark.usefixtures("_no_tools_here")
@pytest.mark.parametrize(("link_layer", "said"), [("Ethernet", 0), ("InfiniBand", 1)])
def test_nodes_without_infiniband_and_its_tools_are_not_spoken_of(
    link_layer: str, said: int
) -> None:
    run = on_node({"ibnetdiscover.txt": "ibnetdiscover is not installed"})
    subnet, lines = from_subnet.read([seen(link_layer=link_layer)], (), run)
    assert subnet is None and len(lines) == said


def test_where_no_node_may_this_host_reads(monkeypatch: pytest.MonkeyPatch, saved: Path) -> None:
    def refuse(*_: str, **__: object) -> str:
        raise PrerequisiteError("srun: error: Unable to\nallocate resources")

    texts = {"ibnetdiscover.txt": (saved / "ibnetdiscover.txt").read_text()}
    monkeypatch.setattr(from_subnet.asking, "ask", lambda **_: texts)
    subnet, lines = from_subnet.read([seen()], (), refuse)
    assert subnet is not None and lines == ["the InfiniBand subnet was read on this host"]


def test_detect_reads_the_subnet_by_itself(monkeypatch: pytest.MonkeyPatch, saved: Path) -> None:
    text = (saved / "ibnetdiscover.txt").read_text()
    for number in (1, 2):
        text = text.replace(f'"n{number} ', f'"c0{number} ')
    node = on_node({}, ibnetdiscover=text)

    def ask(*command: str, **more: Any) -> str:
        reads = any("fabric_outputs" in word for word in command)
        return node(*command) if reads else a_cluster(*command, **more)

    answer = run(monkeypatch, ask, "mine", "--like", "tcp", "--detect")
    assert answer.exit_code == 0, answer.exception
    assert "the InfiniBand subnet was read on c01" in answer.output
    systems.load.cache_clear()
    partition = systems.load("mine").partition("batch")
    assert partition.extras.leaves == {"leaf1": "c[01-02]"}
    assert "infiniband" in partition.features


def test_a_folder_that_is_none_makes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = ("--subnet", str(tmp_path / "nothing"))
    answer = run(monkeypatch, no_slurm, "mine", "--like", "tcp", *options)
    assert isinstance(answer.exception, FabricError)
    assert not (paths.SYSTEMS / "mine").exists()


def test_what_fabric_leaves_prints_can_be_put_into_a_description(saved: Path) -> None:
    printed = invoke(cli, ["fabric", "leaves", "--from", str(saved)]).stdout
    lines = made("n[1-4]", folder.from_folder(saved))
    extras = systems.load("mine").partition("batch").extras
    assert lines and yaml.safe_load(printed)["extras"] == {
        "leaves": extras.leaves,
        "switch_ports": extras.switch_ports,
    }
