"""`railgauge inventory`: what it prints, and with which exit code it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from railgauge.cli import inventory
from railgauge.cluster import inventories
from railgauge.errors import EnvironmentProblem, RailgaugeError
from railgauge.model.inventory import Inventory
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode
from tests.unit.model.test_inventory import BEFORE, but


def run(*words: str) -> Result:
    return CliRunner().invoke(inventory.group, words)


def written(path: Path, one: Inventory) -> str:
    path.write_text(json.dumps(one.as_dict()))
    return str(path)


@pytest.fixture
def before(tmp_path: Path) -> str:
    return written(tmp_path / "before.json", BEFORE)


def test_this_host_is_shown_with_its_fingerprint() -> None:
    answer = run("show", "--quick")
    assert answer.exit_code == 0 and "fingerprint" in answer.output.splitlines()[0]
    assert "firmware  kernel/release = " in answer.output


def test_what_is_shown_as_json_can_be_compared(tmp_path: Path) -> None:
    file = tmp_path / "now.json"
    file.write_text(run("show", "--quick", "--json").output)
    assert run("diff", str(file), str(file)).exit_code == 0


def test_a_fabric_file_adds_what_serves_the_host(tmp_path: Path) -> None:
    file = tmp_path / "fabric.json"
    devices = {"leaf01": {"firmware": "31.2014.1068"}}
    file.write_text(json.dumps({"schema": "railgauge-fabric-1", "devices": devices}))
    answer = run("show", "--quick", "--fabric", str(file))
    assert "firmware  fabric/leaf01/firmware = 31.2014.1068" in answer.output


def test_the_same_ends_with_0(before: str) -> None:
    answer = run("diff", before, before)
    assert (answer.exit_code, answer.output) == (0, "no field differs\n")


def test_another_field_ends_with_1(before: str, tmp_path: Path) -> None:
    after = written(tmp_path / "after.json", but(net__eth0__mtu_bytes=1500))
    answer = run("diff", before, after)
    assert answer.exit_code == 1
    assert answer.output == "tuning    net/eth0/mtu_bytes was 4200, is 1500\n"


def test_a_field_that_became_unknown_is_not_the_same(before: str, tmp_path: Path) -> None:
    silent = but(unknown={"net/eth0/mtu_bytes": "why"}, net__eth0__mtu_bytes=None)
    answer = run("diff", before, written(tmp_path / "after.json", silent), "--json")
    (change,) = json.loads(answer.output)
    assert (answer.exit_code, change["what"]) == (1, "became unknown")


@pytest.mark.parametrize("name", ["nowhere.json", "20261121T000000Z-lab-000000:n1"])
def test_what_cannot_be_read_is_one_clear_error(before: str, name: str) -> None:
    answer = run("diff", before, name)
    assert isinstance(answer.exception, RailgaugeError)


# ---- nodes, by Slurm ----


@pytest.mark.parametrize(
    ("campaign", "comment"), [("", "railgauge"), ("/r/20261123-lab-1", "railgauge:20261123-lab-1")]
)
def test_every_node_has_a_job_of_its_own_that_says_whose_it_is(
    monkeypatch: pytest.MonkeyPatch, campaign: str, comment: str
) -> None:
    monkeypatch.setenv("RAILGAUGE_CAMPAIGN", campaign)
    asked = []

    def ask(*command: str, limit_s: float = 60) -> str:
        asked.append(command)
        return json.dumps(BEFORE.as_dict())

    monkeypatch.setattr(client, "output", ask)
    monkeypatch.setattr(slurm_nodes, "show", lambda _: {})
    found, failed = inventories.collect("vm-pair", ["vm00", "vm01"])
    assert (len(found), failed) == (2, {})
    assert all({"srun", "--overlap", "--partition=roce"} <= set(words) for words in asked)
    assert all(f"--comment={comment}" in words for words in asked)
    assert {w for words in asked for w in words if "nodelist" in w} == {
        *("--nodelist=vm00", "--nodelist=vm01"),
    }


def test_a_node_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*command: str, limit_s: float = 60) -> str:
        if "--nodelist=vm01" in command:
            raise EnvironmentProblem("srun: error: Unable to allocate resources")
        return json.dumps(BEFORE.as_dict())

    monkeypatch.setattr(client, "output", ask)
    found, failed = inventories.collect("vm-pair", ["vm00", "vm01"])
    assert (len(found), list(failed)) == (1, ["vm01"])
    assert "Unable to allocate" in failed["vm01"]


def test_a_drained_node_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job would wait for it, and never start."""
    drained = SlurmNode("vm01", frozenset({"IDLE", "DRAIN"}), "bad fan", "alice")
    states = {"vm00": SlurmNode("vm00", frozenset({"IDLE"})), "vm01": drained}
    monkeypatch.setattr(slurm_nodes, "show", lambda _: states)
    asked = []

    def ask(*command: str, limit_s: float = 60) -> str:
        asked.append(command)
        return json.dumps(BEFORE.as_dict())

    monkeypatch.setattr(client, "output", ask)
    found, failed = inventories.collect("vm-pair", ["vm00", "vm01"])
    assert (len(found), len(asked)) == (1, 1)
    assert failed == {"vm01": "no job starts on it: drained by alice: bad fan"}


def test_a_node_of_no_partition_is_one_clear_error() -> None:
    with pytest.raises(RailgaugeError, match="vm7 not in vm-pair"):
        inventories.collect("vm-pair", ["vm7"])
