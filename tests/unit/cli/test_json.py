"""Every command that prints facts prints them as JSON too, as a published schema says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from railgauge import paths
from railgauge.cli import cli, running
from railgauge.cli import lab as lab_commands
from railgauge.lab import fault_kinds, faults, routes, spec
from railgauge.lab.fault import Fault
from railgauge.model.record import Listed
from railgauge.model.routes import Route
from railgauge.model.uplinks import Uplink, document
from tests.command_line import invoke
from tests.unit import measured
from tests.unit.report.feeds.test_schemas import SCHEMAS, require
from tests.unit.verdict.decision.test_rules import Recorded

DATA = paths.HOME / "tests" / "data"

#: What changes something, or writes a file, or shows what is a text of another user's.
NO_FACTS = {
    *("completion", "export", "promote", "report", "system new"),
    *("gate adopt", "gate release", "gate update-done"),
    *(
        "lab up",
        "lab down",
        "lab shell",
        "lab exec",
        "lab logs",
        "lab fault add",
        "lab fault clear",
    ),
    *("stack build", "stack mirror", "stack solve"),
}


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


COMMANDS = dict(commands(cli))


def option_of(command: click.Command) -> str | None:
    """The help of its --json."""
    found = [one for one in command.params if "--json" in one.opts]
    return found[0].help if found and isinstance(found[0], click.Option) else None


def test_every_command_is_known() -> None:
    assert COMMANDS.keys() >= NO_FACTS


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - NO_FACTS))
def test_a_command_that_prints_facts_names_the_schema_of_its_json(name: str) -> None:
    if name.startswith("parse "):
        # It prints nothing else.
        assert (SCHEMAS / "parse.json").exists()
        return
    words = option_of(COMMANDS[name])
    assert words is not None, f"{name} has no --json"
    named = [word for word in words.split() if word.startswith("docs/schema/")]
    assert named and [word for word in named if not (paths.HOME / word.rstrip(",")).exists()] == []


def test_every_schema_is_of_a_command() -> None:
    named = " ".join(filter(None, (option_of(command) for command in COMMANDS.values())))
    others = {p.stem for p in SCHEMAS.glob("*.json") if f"schema/{p.stem}.json" not in named}
    assert others == {"parse"}


def typed(*words: str) -> Any:
    result = invoke(cli, list(words))
    assert result.stdout, result.exception
    return json.loads(result.stdout)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("limit", "limit roce --rate 400"),
        ("limit", "limit tcp --rate 25 --mtu 9000"),
        ("limit", "limit all_reduce --ranks 16 --nodes 2 --nic 400x8 --nvlink 450"),
        ("explain", "explain"),
        ("explain", "explain node-lost floor"),
        ("explain", "explain spark-power-state"),
        ("published", "published"),
        ("published", "published dgx-spark --kind fault"),
        ("symptoms", "explain tests/data/nccl-tests tests/data/nccl-log/socket-fallback.txt"),
        ("read", "read tests/data/nccl-tests"),
        ("power", "power dgx-h100 --runs 3 --noise 0.01"),
        ("power", "power lab --runs 1 --noise 0.9"),
        ("references", "references --system dgx-h100"),
        ("stack-check", "stack check"),
        ("system-check", "system check eth400g"),
    ],
)
def test_facts_of_the_checkout_are_as_their_schema(root: Path, schema: str, words: str) -> None:
    require(schema, typed(*words.split(), "--json"))


def test_references_with_a_campaign_are_as_their_schema(root: Path) -> None:
    campaign = measured.leave(root, 1, dict.fromkeys(measured.PLACES, 390.0), version="7")
    found = typed("references", "--system", "lab", "--json")
    require("references", found)
    assert found["against"] == campaign.id


def test_a_comparison_is_as_its_schema(root: Path) -> None:
    for number, value in ((1, 390.0), (2, 389.0)):
        campaign = measured.leave(root, number, dict.fromkeys(measured.PLACES, value))
    found = typed("compare", measured.name(1), campaign.id, "--json")
    require("compare", found)
    assert len(found["places"]) == len(measured.PLACES)


def test_a_trend_is_as_its_schema(root: Path) -> None:
    for number in range(9):
        values = dict.fromkeys(measured.PLACES, 390.0) | {"n3:n4:0-0": 390.0 - number * 5}
        measured.leave(root, number, values)
    found = typed("trend", measured.CHECK, "--system", "lab", "--json")
    require("trend", found)
    assert found[0]["points"]


def test_suspects_are_as_their_schema(tmp_path: Path) -> None:
    rows = [f"n{a},n{b},{5 if 2 in (a, b) else 10}" for a in range(6) for b in range(a)]
    (tmp_path / "pairs.csv").write_text("\n".join(["a,b,value", *rows, ""]))
    found = typed("locate", str(tmp_path / "pairs.csv"), "--json")
    require("locate", found)
    assert [one["name"] for one in found["suspects"]] == ["n2"]


def test_inventories_and_their_changes_are_as_their_schemas(tmp_path: Path) -> None:
    text = invoke(cli, ["inventory", "show", "--quick", "--json"]).stdout
    require("inventory", json.loads(text))
    before = {**json.loads(text), "fields": {"kernel/release": "6.12"}, "unknown": {}}
    files = []
    for name, release in (("before", "6.12"), ("after", "6.13")):
        path = tmp_path / name
        path.write_text(json.dumps({**before, "fields": {"kernel/release": release}, "quick": []}))
        files.append(str(path))
    found = typed("inventory", "diff", *files, "--json")
    require("inventory-diff", found)
    assert [one["after"] for one in found] == ["6.13"]


@pytest.mark.parametrize("files", ["bounceback-client.txt", "client-terminated-client.txt"])
def test_what_a_tools_output_proves_is_as_its_schema(files: str) -> None:
    require("parse", typed("parse", "iperf2", str(DATA / "iperf2" / files)))


@pytest.mark.parametrize("folder", ["perftest", "nccl-tests", "iperf3"])
def test_what_logs_say_is_as_its_schema(folder: str) -> None:
    found = typed("read", str(DATA / folder), "--nic", "400g-roce", "--nics", "4", "--json")
    require("read", found)
    assert any(measurement["limit"] for run in found["runs"] for measurement in run["measurements"])


def test_a_verdict_read_again_is_as_its_schema(root: Path) -> None:
    (root / "campaigns").mkdir()
    Recorded(root / "campaigns" / "20261122T101655Z-lab-7578a0").write()
    require("verdict", typed("verdict", "latest", "--json"))


def test_a_plan_is_as_its_schema() -> None:
    case = Listed(case="RailProbe", partition="vm", places=4, rounds=2, node_count=2, seconds=None)
    require("plan", running.plan_as_dict([case], simulated=True))


def test_uplinks_are_as_their_schema() -> None:
    require("uplinks", json.loads(document([Uplink("leaf1", "spine1", 7, 8)])))


@pytest.mark.parametrize("states", [{}, {"n1": "idle"}])
def test_the_lab_is_as_its_schema(monkeypatch: pytest.MonkeyPatch, states: dict[str, str]) -> None:
    described = spec.load(spec.file("lab32"))
    cluster = SimpleNamespace(
        system="lab32",
        spec=described,
        require_up=lambda: None,
        machine=lambda name: object() if states else None,
        node_states=lambda: states,
        services=described.services,
        service_runs=lambda name: True,
    )
    fault = Fault("rate", "n1", 10.0, "eth0")
    route = Route("leaf1", "n1", "n9", "spine2")
    monkeypatch.setattr(lab_commands, "open_lab", lambda: cluster)
    monkeypatch.setattr(routes, "static", lambda _: [route])
    monkeypatch.setattr(faults, "active", lambda _: [fault])
    monkeypatch.setattr(fault_kinds, "problem", lambda *_: "")
    found = typed("lab", "status", "--json")
    require("lab-status", found)
    require("lab-routes", routed := typed("lab", "routes", "--json"))
    assert routed == [route._asdict()]
    require("lab-faults", typed("lab", "fault", "list", "--json"))
    assert len(found["nodes"]) == 32 and found["faults"][0]["node"] == "n1"
