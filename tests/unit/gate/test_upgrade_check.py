"""What this version reads of a site, and what should end before an update."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems
from railgauge.cli import cli
from railgauge.cluster import store
from railgauge.gate import journal, upgrade_check
from railgauge.site.check.line import Line
from tests.command_line import invoke
from tests.unit import measured
from tests.unit.report.feeds.test_schemas import require

LAB = paths.SYSTEMS / "lab"
LAB_REFERENCES = paths.HOME / "results" / "references" / "lab.yaml"


@pytest.fixture
def site(own_systems: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with the description of the lab; its results area."""
    shutil.copytree(LAB, own_systems / "systems" / "lab")
    shutil.copy(LAB_REFERENCES, own_systems / "references")
    results = own_systems / "results"
    results.mkdir()
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(results))
    return results


def lines(status: str) -> list[Line]:
    systems.load.cache_clear()
    return [line for line in upgrade_check.lines() if line.status == status]


def only(status: str, thing: str) -> Line:
    (line,) = [line for line in lines(status) if line.thing == thing]
    return line


def campaign(site: Path, number: int = 1, **changes: Any) -> Path:
    """A campaign, with changes of its record."""
    folder = measured.leave(site, number, {measured.PLACES[0]: 390.0}).folder
    record = folder / "campaign.json"
    document = json.loads(record.read_text())
    document["context"] |= changes.pop("context", {})
    record.write_text(json.dumps({**document, **changes}))
    return folder


def test_a_site_that_is_as_it_should_be_has_no_problem(site: Path) -> None:
    campaign(site)
    assert lines("problem") == []
    assert only("ok", "campaigns").text == "this version reads 1 of 1"


def test_nothing_is_changed(site: Path) -> None:
    campaign(site, state="running")

    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in site.rglob("*")}

    before = state()
    upgrade_check.lines()
    assert state() == before


# --- the site's files -----------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["reframe.yaml", "expected.yaml", "gate.yaml"])
def test_a_file_that_is_not_read_is_a_problem(site: Path, file: str) -> None:
    path = paths.SYSTEMS / "lab" / file
    path.write_text(f"{path.read_text()}\nno_such_key: {{a: [}}\n")
    assert only("problem", f"lab: {file}").next_step


def test_references_that_are_not_read_are_a_problem(site: Path) -> None:
    (paths.references_folder() / "lab.yaml").write_text("measurements: 1\n")
    assert "lab.yaml" in only("problem", "lab: references").text


def test_an_old_name_of_a_key_is_a_warning_with_its_line(site: Path) -> None:
    path = paths.SYSTEMS / "lab" / "gate.yaml"
    path.write_text("max_hold: 2\nteeth: {NodeState: hold}\n")
    line = only("warning", "lab: gate.yaml")
    assert line.text == f"{path}:2: the key teeth is now called enforcement"
    assert line.next_step.startswith("rename it")


# --- campaigns ------------------------------------------------------------------------------------


def test_a_campaign_that_runs_elsewhere_is_a_problem(site: Path) -> None:
    folder = campaign(site, state="running", context={"host": "another"})
    assert folder.name in only("problem", "campaigns").text


def test_a_campaign_that_runs_here_is_a_problem(site: Path) -> None:
    here = {"host": socket.gethostname(), "pid": os.getppid(), "boot_id": None}
    folder = campaign(site, state="running", context=here)
    assert folder.name in only("problem", "campaigns").text


def test_a_campaign_that_broke_off_is_none(site: Path) -> None:
    gone = {"host": socket.gethostname(), "pid": 2**22 + 1}
    campaign(site, state="running", context=gone)
    assert lines("problem") == []


@pytest.mark.parametrize("name", ["campaign.json", "standing.json"])
@pytest.mark.parametrize("text", ["", "{", "[1]", '{"state": 3}'])
def test_a_campaign_that_is_not_read_is_a_warning(site: Path, name: str, text: str) -> None:
    folder = campaign(site)
    (folder / name).write_text(text)
    campaign(site, 2)
    assert folder.name in only("warning", "campaigns").text
    assert only("ok", "campaigns").text == "this version reads 1 of 2"


@pytest.mark.parametrize(
    ("version", "newer"),
    [("999.0.0", True), ("999.0.0+dev", True), ("0.0.9", False), ("", False), ("x", False)],
)
def test_a_campaign_of_a_newer_version_is_a_warning(site: Path, version: str, newer: bool) -> None:
    campaign(site, context={"railgauge": version})
    named = [line.text for line in lines("warning") if line.thing == "campaigns"]
    assert bool(named) is newer


def test_of_many_campaigns_the_newest_are_named(site: Path) -> None:
    names = [campaign(site, n, state="running", context={"host": "x"}).name for n in range(5)]
    assert only("problem", "campaigns").text.endswith(f"{', '.join(names[-3:])} and 2 more")


# --- the store ------------------------------------------------------------------------------------


@pytest.fixture
def gate(site: Path) -> Path:
    store.publish_rules("lab")
    return store.folder("lab")


def test_an_open_gate_run_is_a_problem(gate: Path) -> None:
    run = journal.Run("20261121T100000Z_abcd", "lab", ["n2"], [], store.now(), "somebody")
    run.save()
    assert run.id in only("problem", "gate/lab").text
    run.ended = store.now()
    run.save()
    assert lines("problem") == []


def test_an_open_rolling_update_is_a_problem(gate: Path) -> None:
    roll = journal.Roll("20261124T110000Z_abcd", "lab", "flash", 1, 0, ["n1"], ["n1"], "", "")
    roll.save()
    assert roll.id in only("problem", "gate/lab").text


def test_a_journal_that_is_not_read_is_a_problem(gate: Path) -> None:
    (gate / "runs" / "20261121T100000Z_abcd.json").write_text("{")
    assert "damaged" in only("problem", "gate/lab").text


@pytest.mark.parametrize("text", ["", "{", "{}", '{"node": "n1", "new_field": 1}'])
def test_an_accepted_state_that_is_not_read_is_a_problem(gate: Path, text: str) -> None:
    (gate / "nodes" / "n1.json").write_text(text)
    assert only("problem", "gate/lab").next_step.endswith("--nodes n1")


def test_a_record_that_may_not_be_read_ends_no_other_check(
    gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (gate / "nodes" / "n1.json").write_text("{}")
    monkeypatch.setattr(Path, "read_bytes", refused)
    line = next(line for line in lines("problem") if "accepted state" in line.text)
    assert "n1 (" in line.text and "Permission denied" in line.text
    assert line.next_step.startswith("ls -l ")


def test_a_store_of_a_system_that_is_not_described_is_looked_at(gate: Path) -> None:
    other = gate.with_name("gone")
    shutil.copytree(gate, other)
    (other / "nodes" / "n1.json").write_text("{")
    assert only("problem", "gate/gone").text == "accepted state not read: n1"


# --- the command ----------------------------------------------------------------------------------


def test_the_command_ends_with_1_for_a_problem(site: Path) -> None:
    answer = invoke(cli, ["upgrade-check", "--json"])
    require("upgrade-check", json.loads(answer.stdout))
    assert answer.exit_code == 0
    campaign(site, state="running", context={"host": "another"})
    assert invoke(cli, ["upgrade-check"]).exit_code == 1
