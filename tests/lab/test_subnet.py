"""The simulated InfiniBand subnet: each fault is seen by the real programs, and undone."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import systems
from railgauge.cli.system import system as commands
from railgauge.fabric import folder, routes
from railgauge.lab import faults
from railgauge.lab.cluster import Lab
from tests.command_line import invoke

from .conftest import PATIENCE_S, Run, lab_command, second_lab

Link = Callable[[str, str], str]


@pytest.fixture(scope="module")
def subnet(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with second_lab(cluster, tmp_path_factory.mktemp("ib") / "lab", "lab-ib") as lab:
        answer = lab_command(lab, "up", "--system", "lab-ib")
        assert answer.returncode == 0, answer.stdout
        yield lab


@pytest.fixture
def link(subnet: Lab) -> Iterator[Link]:
    """Prints the link from a switch to a device, as iblinkinfo does on a node; "" without one."""

    def look(switch: str, far: str) -> str:
        answer = lab_command(subnet, "exec", "n3", "iblinkinfo", "--line")
        found = re.search(rf'^.*" *{switch}" .*"{far}".*$', answer.stdout, re.MULTILINE)
        return found[0] if found else ""

    yield look
    faults.clear(subnet)


HEALTHY = "(12X          10.0 Gbps Active/  LinkUp)"


def test_every_link_is_up_and_opensm_is_the_master(subnet: Lab, link: Link) -> None:
    assert HEALTHY in link("leaf1", "n1 mlx5_0")
    assert HEALTHY in link("leaf4", "spine2")
    assert "SMINFO_MASTER" in lab_command(subnet, "exec", "n8", "sminfo").stdout


@pytest.mark.parametrize(
    ("fault", "far", "seen"),
    [
        ("ib-lanes n1:mlx5_0 1", "n1 mlx5_0", "( 1X          10.0 Gbps Active/  LinkUp)"),
        ("ib-lane-rate leaf1:spine2 5", "spine2", "(12X           5.0 Gbps Active/  LinkUp)"),
        ("ib-down n2:mlx5_1", "n2 mlx5_1", ""),
        ("ib-moved n2:mlx5_1 3", "n2 mlx5_1", ""),
        ("ib-switch-off spine1", "spine1", ""),
    ],
)
def test_a_fault_is_seen_and_undone(
    subnet: Lab, link: Link, fault: str, far: str, seen: str
) -> None:
    kind, *words = fault.split()
    faults.add_typed(subnet, kind, words)
    shown = link("leaf1", far)
    assert (seen in shown) if seen else (shown == "")
    faults.clear(subnet)
    # A port that lost its cable is initialized again by opensm's next sweep.
    assert re.search(r"\(12X +10\.0 Gbps (Active|Initialize)/ +LinkUp\)", link("leaf1", far))


def test_a_moved_cable_is_on_the_other_leaf(subnet: Lab, link: Link) -> None:
    faults.add_typed(subnet, "ib-moved", ["n2:mlx5_1", "3"])
    assert "LinkUp" in link("leaf3", "n2 mlx5_1")


def test_a_port_counts_errors(subnet: Lab, link: Link) -> None:
    faults.add_typed(subnet, "ib-errors", ["n5:mlx5_0", "20000"])
    look = "perfquery | grep -q 'SymbolErrorCounter:\\.*[1-9]'"
    command = f"for i in $(seq 60); do {look} && exit; sleep 0.5; done; exit 1"
    assert lab_command(subnet, "exec", "n5", "bash", "-c", command).returncode == 0


def test_opensm_gives_other_lids(subnet: Lab, link: Link) -> None:
    before = lab_command(subnet, "exec", "headib", "sminfo").stdout
    faults.add_typed(subnet, "opensm-lids", [])
    after = lab_command(subnet, "exec", "headib", "sminfo").stdout
    lids = [re.search(r"sm lid (\d+)", text) for text in (before, after)]
    assert all(lids), (before, after)
    assert lids[0][1] != lids[1][1]  # type: ignore[index]


def test_two_masters_are_seen_and_one_is_left(subnet: Lab, link: Link) -> None:
    first = re.search(r"sm lid \d+ ", lab_command(subnet, "exec", "n1", "sminfo").stdout)
    assert first is not None
    faults.add_typed(subnet, "opensm-second", ["n8"])
    listed = lab_command(subnet, "exec", "n1", "saquery", "-s").stdout
    lids = re.findall(r"EndPortLid\.+(\d+)", listed)
    assert len(lids) == 2, listed
    for lid in lids:
        assert "SMINFO_MASTER" in lab_command(subnet, "exec", "n1", "sminfo", lid).stdout
    faults.clear(subnet)
    deadline = time.monotonic() + PATIENCE_S
    while first[0] not in (shown := lab_command(subnet, "exec", "n1", "sminfo").stdout):
        assert time.monotonic() < deadline, shown
        time.sleep(1)
    listed = lab_command(subnet, "exec", "n1", "saquery", "-s").stdout
    assert len(re.findall(r"EndPortLid", listed)) == 1, listed


# ---- acceptance ----

Accept = Callable[..., dict[str, Any]]


@pytest.fixture
def accept(
    subnet: Lab, link: Link, railgauge: Run, verdict: Callable[[], dict[str, Any]]
) -> Accept:
    """The verdict of `railgauge accept` there, without the faults of earlier tests."""
    deadline = time.monotonic() + PATIENCE_S
    while "Initialize" in (shown := lab_command(subnet, "exec", "n3", "iblinkinfo", "-l").stdout):
        assert time.monotonic() < deadline, shown
        time.sleep(1)

    def run(*options: str) -> dict[str, Any]:
        lab = {"RAILGAUGE_LAB_DIR": str(subnet.folders.lab)}
        answer = railgauge("accept", "--system", "lab-ib", *options, **lab)
        found = verdict()
        assert answer.returncode == found["exit_code"], answer.stdout
        return found

    return run


def rejecting(found: dict[str, Any]) -> dict[str, Any]:
    """The one finding that rejects."""
    (finding,) = [one for one in found["findings"] if one["weight"] == "reject"]
    return dict(finding)


def test_a_healthy_subnet_is_accepted(accept: Accept) -> None:
    found = accept()
    assert found["verdict"] == "accept", found["findings"]


def test_a_host_that_lost_lanes_is_rejected(subnet: Lab, accept: Accept) -> None:
    faults.add_typed(subnet, "ib-lanes", ["n1:mlx5_0", "1"])
    found = accept()
    finding = rejecting(found)
    assert (found["verdict"], finding["kind"], finding["nodes"]) == ("reject", "link-width", ["n1"])
    assert "leaf1 port 3 (cable to n1 mlx5_0 port 1): 1 lanes of 12" in finding["message"]
    assert "seat the cable" in finding["next_step"]
    assert [suspect["name"] for suspect in found["suspects"]] == ["n1"]


def test_a_reader_without_a_link_is_named_by_another_one(subnet: Lab, accept: Accept) -> None:
    faults.add_typed(subnet, "ib-down", ["n1:mlx5_0"])
    finding = rejecting(accept("--", "-n", "InfinibandFabric"))
    assert (finding["kind"], finding["nodes"]) == ("device-missing", ["n1"])
    assert "n1 mlx5_0 (cable to leaf1 port 3)" in finding["message"]


def test_two_masters_reject_and_name_no_node(subnet: Lab, accept: Accept) -> None:
    faults.add_typed(subnet, "opensm-second", ["n8"])
    found = accept("--", "-n", "InfinibandFabric")
    finding = rejecting(found)
    assert (finding["kind"], finding["nodes"], found["suspects"]) == ("masters-several", [], [])
    assert "n8 mlx5_0" in finding["message"]


def test_a_link_between_switches_names_no_node(subnet: Lab, accept: Accept) -> None:
    faults.add_typed(subnet, "ib-lanes", ["leaf1:spine2", "1"])
    found = accept("--", "-n", "InfinibandFabric")
    finding = rejecting(found)
    assert (finding["kind"], finding["nodes"], found["suspects"]) == ("link-width", [], [])
    assert "spine2 port 1 (cable to leaf1 port 8): 1 lanes of 12" in finding["message"]


# ---- static routes ----


def test_sweeps_have_the_routes_of_opensm_and_name_no_link_for_data_on_another_nic(
    subnet: Lab, accept: Accept, area: Path
) -> None:
    """The lab's data takes eth0: a slow node is named as ever."""
    faults.add_typed(subnet, "rate", ["n3", "0.3"])
    found = accept("--", "-n", "InfinibandFabric|Iperf2Pair")
    assert [(one["kind"], one["name"]) for one in found["suspects"]] == [("node", "n3")]
    (stage,) = area.glob("campaigns/*/stage/lab-ib/ns/builtin")
    (orders,) = stage.glob("Iperf2Pair_*/sweep.json")
    retests = json.loads(orders.read_text())["retests"]
    # Two HCAs a node, on four leaves; each leaf sends to the twelve HCAs of the others.
    assert len(retests["hcas"]) == 16
    assert sum(len(guids) for *_, guids in retests["routes"]) == 4 * 12
    assert {up for _, up, _, _ in retests["routes"]} == {"spine1", "spine2"}
    (kept,) = stage.glob("InfinibandFabric_*/subnet")
    read = folder.from_folder(kept)
    assert read.tables is not None
    spine_of = {(r.leaf, r.destination): r.spine for r in routes.routes(read.subnet, read.tables)}
    for leaf, up, down, guids in retests["routes"]:
        for guid in guids:
            name = read.subnet.devices[guid].name.replace(" ", ":")
            assert spine_of[leaf, name] == up == down


def test_a_new_system_has_the_leaves_that_a_node_reads(
    subnet: Lab, link: Link, login_node: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{subnet.folders.bin}{os.pathsep}{os.environ['PATH']}")
    words = ["new", "mine", "--like", "tcp", "--detect", "--partition", "ns"]
    answer = invoke(commands, words)
    assert answer.exit_code == 0, answer.exception
    assert "the InfiniBand subnet was read on n1" in answer.output
    extras = systems.load("mine").partition("ns").extras
    assert extras.leaves == {f"leaf{n}": f"n[{2 * n - 1}-{2 * n}]" for n in range(1, 5)}
    assert extras.switch_ports["n3"] == {"mlx5_0": "leaf2 1", "mlx5_1": "leaf2 2"}


def test_errors_that_a_port_counts_meanwhile_are_found(subnet: Lab, accept: Accept) -> None:
    faults.add_typed(subnet, "ib-errors", ["n6:mlx5_0", "200"])
    found = accept("--", "-n", "Infiniband")
    finding = rejecting(found)
    assert (finding["check"], finding["kind"]) == ("InfinibandCounters", "counter-moved")
    assert "n6 mlx5_0 port 1 (cable to leaf3 port 3): SymbolErrorCounter" in finding["message"]
    assert (finding["nodes"], found["suspects"]) == ([], [])
