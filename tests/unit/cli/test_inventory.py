"""`railgauge inventory`: what it prints, and with which exit code it ends."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import Result

from railgauge.cli import inventory
from railgauge.cluster import inventories
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.model.inventory import Inventory
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode
from tests.command_line import invoke
from tests.unit.model.test_inventory import BEFORE, but


def run(*words: str) -> Result:
    return invoke(inventory.group, words)


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
def test_a_node_that_slurm_says_nothing_of_has_a_job_of_its_own_that_names_it(
    monkeypatch: pytest.MonkeyPatch, campaign: str, comment: str
) -> None:
    monkeypatch.setenv("RAILGAUGE_CAMPAIGN", campaign)
    asked = []

    def ask(*command: str, limit_s: float = 60) -> str:
        asked.append(command)
        return json.dumps(BEFORE.as_dict())

    monkeypatch.setattr(client, "output", ask)
    monkeypatch.setattr(slurm_nodes, "show", dict)
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
            raise PrerequisiteError("srun: error: Unable to allocate resources")
        return json.dumps(BEFORE.as_dict())

    monkeypatch.setattr(client, "output", ask)
    found, failed = inventories.collect("vm-pair", ["vm00", "vm01"])
    assert (len(found), list(failed)) == (1, ["vm01"])
    assert "Unable to allocate" in failed["vm01"]


def test_a_drained_node_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job would wait for it, and never start."""
    drained = SlurmNode("vm01", frozenset({"IDLE", "DRAIN"}), "bad fan", "alice")
    states = {"vm00": SlurmNode("vm00", frozenset({"IDLE"})), "vm01": drained}
    monkeypatch.setattr(slurm_nodes, "show", lambda: states)
    asked = []

    def ask(*command: str, limit_s: float = 60) -> str:
        asked.append(command)
        return json.dumps(BEFORE.as_dict())

    monkeypatch.setattr(client, "output", ask)
    found, failed = inventories.collect("vm-pair", ["vm00", "vm01"])
    assert (len(found), len(asked)) == (1, 1)
    assert failed == {"vm01": "no job starts on it: drained by alice: bad fan"}


IDLE = {name: SlurmNode(name, frozenset({"IDLE"})) for name in ("vm00", "vm01", "vm02")}


def lines(node: str, whole: bool = True, task: int | None = None) -> list[str]:
    """What a node prints of its inventory, in parts, labelled; the last one may be lost."""
    text = json.dumps({**BEFORE.as_dict(), "node": node})
    parts = [text[at : at + 100] for at in range(0, len(text), 100)]
    label = int(node[-1]) if task is None else task
    printed = [f"{label}: {node} {n}/{len(parts)} {part}" for n, part in enumerate(parts, start=1)]
    return printed if whole else printed[:-1]


@dataclasses.dataclass
class Jobs:
    """Slurm, whose job of several nodes prints `printed` and fails for `problem`."""

    printed: list[str]
    problem: client.SlurmError | None = None
    of_all: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    alone: list[str] = dataclasses.field(default_factory=list)

    def answer(self, *command: str, limit_s: float) -> tuple[str, client.SlurmError | None]:
        self.of_all.append(command)
        return "\n".join(self.printed), self.problem

    def output(self, *command: str, limit_s: float = 60) -> str:
        (node,) = (word.partition("=")[2] for word in command if word.startswith("--nodelist="))
        self.alone.append(node)
        return json.dumps({**BEFORE.as_dict(), "node": node})


def collected(monkeypatch: pytest.MonkeyPatch, jobs: Jobs, busy: str = "") -> list[str]:
    states = dict(IDLE)
    if busy:
        states[busy] = SlurmNode(busy, frozenset({"ALLOCATED"}))
    monkeypatch.setattr(client, "answer", jobs.answer)
    monkeypatch.setattr(client, "output", jobs.output)
    monkeypatch.setattr(slurm_nodes, "show", lambda: states)
    found, failed = inventories.collect("vm-pair", ["vm00", "vm01"])
    assert failed == {}
    return [one.node for one in found]


def test_idle_nodes_have_one_job_for_all_and_its_lines_may_mix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixed = [line for both in zip(lines("vm00"), lines("vm01"), strict=True) for line in both]
    jobs = Jobs(["srun: a remark of Slurm's", *mixed])
    assert collected(monkeypatch, jobs) == ["vm00", "vm01"]
    (words,) = jobs.of_all
    assert {"--nodes=2", "--nodelist=vm[00-01]", "--no-kill", "--lines"} <= set(words)
    assert jobs.alone == []


@pytest.mark.parametrize(
    "printed",
    [lines("vm00") + lines("vm01", whole=False), lines("vm00"), lines("vm00") + lines("vm02")],
    ids=["cut", "silent", "a stranger"],
)
def test_a_node_that_does_not_answer_in_it_whole_is_asked_alone(
    monkeypatch: pytest.MonkeyPatch, printed: list[str]
) -> None:
    jobs = Jobs(printed, client.SlurmError("srun failed"))
    assert collected(monkeypatch, jobs) == ["vm00", "vm01"]
    assert jobs.alone == ["vm01"]


def test_no_node_speaks_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to its own words, or in place of the other's."""
    jobs = Jobs(lines("vm00") + lines("vm01", task=0) + lines("vm01"))
    assert collected(monkeypatch, jobs) == ["vm00", "vm01"]
    assert sorted(jobs.alone) == ["vm00", "vm01"]


def test_a_busy_node_keeps_no_other_node_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs([])
    collected(monkeypatch, jobs, busy="vm01")
    assert jobs.of_all == [] and sorted(jobs.alone) == ["vm00", "vm01"]


def test_a_node_of_no_partition_is_one_clear_error() -> None:
    with pytest.raises(RailgaugeError, match="vm7 not in vm-pair"):
        inventories.collect("vm-pair", ["vm7"])
