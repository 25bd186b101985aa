"""`railgauge fabric`, with the outputs that were recorded of a simulated subnet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from prometheus_client.parser import text_string_to_metric_families

from railgauge import paths
from railgauge.cli import cli
from railgauge.fabric.folder import FabricError
from tests.command_line import invoke
from tests.unit.report.feeds.test_schemas import require

DATA = paths.HOME / "tests" / "data" / "infiniband"
FILES = ("ibnetdiscover.txt", "iblinkinfo.txt", "ibqueryerrors.txt", "dump_fts.txt")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    for state in ("healthy", "slow"):
        (tmp_path / state).mkdir()
        for name in FILES:
            shutil.copy(DATA / state / name, tmp_path / state / name)
    return tmp_path


def run(*words: str | Path) -> Result:
    return invoke(cli, ["fabric", *map(str, words)])


def document(schema: str, *words: str | Path) -> Any:
    result = run(*words, "--json")
    assert result.stdout, result.exception
    require(schema, json.loads(result.stdout))
    return json.loads(result.stdout)


def test_show_has_switches_by_level(saved: Path) -> None:
    shown = document("fabric-show", "show", "--from", saved / "healthy")
    assert [(one["name"], one["level"]) for one in shown["switches"]] == [
        ("spine1", 2),
        ("spine2", 2),
        ("leaf1", 1),
        ("leaf2", 1),
    ]
    assert (shown["hosts"], shown["hcas"], shown["links"]) == (4, 8, {"12x QDR": 12})


def test_show_and_metrics_have_the_subnet_managers() -> None:
    masters = paths.HOME / "tests" / "data" / "infiniband" / "masters"
    shown = document("fabric-show", "show", "--from", masters)
    assert [(one["name"], one["lid"], one["state"]) for one in shown["managers"]] == [
        ("headib mlx5_0", 1, "master"),
        ("n8 mlx5_0", 9, "master"),
    ]
    line = "subnet manager n8 mlx5_0 (LID 9, priority 0): master"
    assert line in run("show", "--from", masters).stdout
    result = run("check", "--from", masters, "--prometheus", "-")
    assert 'railgauge_fabric_managers{state="master"} 2' in result.stdout
    assert 'kind="masters-several",device="headib mlx5_0"' in result.stdout


def test_a_healthy_fabric_is_as_it_was_written(saved: Path) -> None:
    file = saved / "expected.json"
    assert run("expect", "--from", saved / "healthy", "--write", file).exit_code == 0
    result = run("check", "--from", saved / "healthy", "--expected", file)
    assert result.exit_code == 0 and "no faults" in result.stdout
    require("fabric-expect", json.loads(file.read_text()))


def test_slow_links_are_faults_with_both_ends(saved: Path) -> None:
    found = document("fabric-check", "check", "--from", saved / "slow")
    faults = {(f["kind"], f["device"], f["port"], f["far"]) for f in found["findings"]}
    assert ("link-width", "leaf1", 3, "n2 mlx5_0 port 1") in faults
    assert ("link-speed", "spine2", 1, "leaf1 port 6") in faults
    assert found["faults"] == 2
    assert run("check", "--from", saved / "slow").exit_code == 1


def test_what_changed_between_two_readings_is_found(saved: Path) -> None:
    found = document("fabric-check", "compare", saved / "healthy", saved / "slow")
    kinds = sorted(f["kind"] for f in found["findings"] if f["weight"] == "fault")
    assert kinds == ["counter-moved"] * 3 + ["link-speed", "link-width"]
    assert run("compare", saved / "healthy", saved / "healthy").exit_code == 0


def test_faults_are_metrics(saved: Path) -> None:
    file = saved / "fabric.prom"
    run("check", "--from", saved / "slow", "--prometheus", file)
    families = {f.name: f for f in text_string_to_metric_families(file.read_text())}
    assert families["railgauge_fabric_faults"].samples[0].value == 2
    infos = families["railgauge_fabric_fault_info"].samples
    assert {info.labels["device"] for info in infos} == {"leaf1", "spine2"}


def test_routes_leaves_and_topology_are_as_their_schemas(saved: Path) -> None:
    routes = document("fabric-routes", "routes", "--from", saved / "healthy")
    assert {"leaf": "leaf1", "destination": "n3:mlx5_1", "spine": "spine2"} in routes
    leaves = document("fabric-leaves", "leaves", "--from", saved / "healthy")
    assert leaves["leaves"] == {"leaf1": "n[1-2]", "leaf2": "n[3-4]"}
    topology = document("fabric-slurm-topology", "slurm-topology", "--from", saved / "healthy")
    assert [one["name"] for one in topology["switches"]] == ["leaf1", "leaf2", "spine1"]


def test_a_topology_conf_is_checked(saved: Path) -> None:
    file = saved / "topology.conf"
    text = run("slurm-topology", "--from", saved / "healthy").stdout
    file.write_text(text)
    assert run("slurm-topology", "--from", saved / "healthy", "--check", file).exit_code == 0
    file.write_text(text.replace("n[1-2]", "n1").replace("n[3-4]", "n[2-4]"))
    result = run("slurm-topology", "--from", saved / "healthy", "--check", file)
    assert result.exit_code == 1 and "n2: its cables lead to leaf1" in result.stdout


@pytest.mark.parametrize("name", FILES)
def test_an_output_that_is_cut_off_is_no_fabric(saved: Path, name: str) -> None:
    file = saved / "healthy" / name
    file.write_text(file.read_text()[:-60])
    result = run("check", "--from", saved / "healthy")
    assert isinstance(result.exception, FabricError) and result.exception.exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--from", "nowhere"),
        ("check", "--from", "{saved}/healthy", "--expected", "nowhere"),
        ("show", "--from", "{saved}"),
        ("show", "--device", "-x"),
        ("compare", "{saved}/healthy", "nowhere"),
    ],
)
def test_an_input_that_is_none_ends_with_2(saved: Path, words: tuple[str, ...]) -> None:
    result = run(*(word.format(saved=saved) for word in words))
    assert isinstance(result.exception, FabricError)
    assert result.exception.exit_code == 2 and result.exception.next_step


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"format": 2, "devices": {}, "cables": []}',
        '{"format": 1, "devices": {"a": ["x", "switch", 1, "", ""]}, "cables": []}',
        '{"format": 1, "devices": {}, "cables": [["a", 1, "b", 1, 4, "HDR"]]}',
    ],
)
def test_an_expected_cabling_that_is_none_is_refused(saved: Path, text: str) -> None:
    (saved / "expected.json").write_text(text)
    result = run("check", "--from", saved / "healthy", "--expected", saved / "expected.json")
    assert isinstance(result.exception, FabricError)
