"""A rolling update whose journal cannot be read: no node that may be in it counts as healthy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.gate import journal, partners, roll, update
from railgauge.gate.installer import MARK
from railgauge.gate.journal import Roll
from railgauge.node import gate as node_gate

from .cluster import Campaigns, Killed, Slurm, held
from .cluster import said as gate

ALL = {"n1", "n2", "n3", "n4", "n5", "n6"}


@pytest.fixture
def good(tests: Campaigns) -> Campaigns:
    tests.bad = set()
    return tests


def left(**fields: object) -> Path:
    """The journal of a rolling update of n1 and n2, whose update has restarted n1: it is in
    service. `fields` are written into it as they are.
    """
    one = Roll("20261124T110000Z_abcd", "lab", "flash", 1, 0, ["n1", "n2"], ["n2"], "", "")
    one.batch, one.phase = ["n1"], "update"
    one.save()
    path = store.folder("lab") / "rolls" / f"{one.id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return path


@pytest.fixture(params=["", "{", '{"id": 3}', "\0\0\0\0"])
def damaged(request: pytest.FixtureRequest, area: Path) -> Path:
    path = left()
    path.write_text(request.param)
    return path


def test_every_node_may_be_in_the_update_of_a_damaged_journal(damaged: Path, nodes: Slurm) -> None:
    assert journal.in_update("lab", nodes.show()).keys() == ALL


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_every_node_may_be_in_the_update_of_a_journal_that_cannot_be_read(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = left()

    def refuses(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes" if kind == "file" else "iterdir", refuses)
    why = journal.in_update("lab", nodes.show())
    assert why.keys() == ALL
    where = path if kind == "file" else path.parent
    assert f"journal {where} cannot be read: Permission denied" in why["n3"]


def test_no_journal_of_a_rolling_update_is_no_update(area: Path, nodes: Slurm) -> None:
    (area / "rolls").rmdir()
    assert journal.in_update("lab", nodes.show()) == {}


def test_a_damaged_journal_that_names_its_nodes_concerns_no_others(
    area: Path, nodes: Slurm
) -> None:
    left(phase="a new one")
    assert journal.in_update("lab", nodes.show()).keys() == {"n1", "n2"}


def test_a_damaged_journal_of_one_that_has_ended_concerns_no_node(area: Path, nodes: Slurm) -> None:
    path = left(phase="a new one", ended="2026-11-24T12:00:00+00:00")
    assert journal.in_update("lab", nodes.show()) == {}
    assert gate("run", "--act")[1] == 0
    assert not path.exists() and path.with_suffix(".damaged").exists()


def test_no_node_is_lent_as_a_partner(damaged: Path, nodes: Slurm) -> None:
    held(nodes, "n2")
    assert partners.lent("lab", ["n2"]) == []


def test_no_node_can_be_named_as_a_partner(damaged: Path, nodes: Slurm, good: Campaigns) -> None:
    held(nodes, "n2")
    assert gate("readmit", "--nodes", "n2", "--with", "n1", "--act")[1] == 3
    assert not good.made and nodes.show(["n2"])["n2"].drained_by_us


@pytest.mark.parametrize("again", [["--again"], []])
def test_no_node_is_adopted(damaged: Path, nodes: Slurm, again: list[str]) -> None:
    node_gate.record_path(store.folder("lab"), "n1").unlink()
    words, code = gate("adopt", *again, "--nodes", "n1", "--act")
    assert code == 3 and str(damaged) in words and store.accepted("lab", "n1") is None


@pytest.mark.parametrize("words", [["run"], ["release", "--why", "x"]])
def test_no_node_is_tested_or_released_by_name(
    damaged: Path, nodes: Slurm, good: Campaigns, words: list[str]
) -> None:
    held(nodes, "n2")
    text, code = gate(*words, "--nodes", "n2", "--act")
    assert code in (1, 3) and f"journal {damaged} is damaged" in text
    assert not good.made and "n2" not in nodes.open()


def test_a_run_tests_no_node_and_says_what_to_type(
    damaged: Path, nodes: Slurm, good: Campaigns
) -> None:
    """Nor does it set the journal aside: then nothing would tell of the update any more."""
    held(nodes, "n2")
    for _ in range(2):
        text, code = gate("run", "--act")
        assert code == 1 and "gate update-done --no-more --nodes THEM --act" in text
        assert not good.made and nodes.open() == {"n1", "n3", "n4"} and damaged.exists()


def broken_off(nodes: Slurm, tests: Campaigns) -> journal.Run:
    """A gate run of n2 next to n1 and n3, killed in the middle of its campaign."""

    def killed() -> None:
        raise Killed

    held(nodes, "n2")
    tests.at_each = killed
    with pytest.raises(Killed):
        gate("run", "--act")
    tests.at_each = lambda: None
    broken = journal.unended("lab")
    assert broken is not None and broken.partners == ["n1", "n3"]
    return broken


@pytest.mark.parametrize("lapsed", [True, False])
@pytest.mark.parametrize("concerned", [None, ["n2"], ["n3"]])
def test_a_run_that_broke_off_waits_for_the_word_of_its_nodes_and_partners(
    area: Path, nodes: Slurm, good: Campaigns, lapsed: bool, concerned: list[str] | None
) -> None:
    """The defect: it went on, without partners, or next to one that may be in update."""
    broken = broken_off(nodes, good)
    if lapsed:
        nodes.lapse()
    path = left(nodes=concerned, size="")
    for words in (["run"], ["run", "--act"], ["run", "--nodes", "n2", "--act"]):
        text, code = gate(*words)
        assert code == 1 and f"journal {path} is damaged" in text
    assert not good.resumed and len(good.made) == 1
    assert broken.untested in nodes.reserved and "n2" not in nodes.open()
    assert gate("update-done", "--no-more", "--act")[1] == 0
    assert gate("run", "--act")[1] == 0 and good.resumed == broken.campaigns
    assert [one.partners for one in journal.runs("lab")] == [["n1", "n3"]]
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and not nodes.reserved


def test_while_a_run_waits_its_reservation_is_not_all_that_keeps_nodes_out(
    damaged: Path, nodes: Slurm, good: Campaigns
) -> None:
    kept = damaged.read_bytes()
    damaged.unlink()
    broken_off(nodes, good)
    damaged.write_bytes(kept)
    assert gate("run", "--act")[1] == 1
    nodes.reserved.clear()
    assert nodes.open() == {"n1", "n3", "n4"}
    assert nodes.show(["n2"])["n2"].reason.startswith("railgauge: firmware changed")


def test_while_a_run_waits_its_nodes_are_drained_before_all_else(
    damaged: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = damaged.read_bytes()
    damaged.unlink()
    broken_off(nodes, good)
    damaged.write_bytes(kept)

    def silent(system: str) -> NoReturn:
        raise PrerequisiteError("the store does not answer", next_step="mount it")

    monkeypatch.setattr(journal, "lost", silent)
    assert gate("run", "--act")[1] == 3
    nodes.reserved.clear()
    assert nodes.open() == {"n1", "n3", "n4"}


def test_a_run_that_broke_off_goes_on_next_to_a_journal_of_other_nodes(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    broken = broken_off(nodes, good)
    left(nodes=["n4"], size="")
    assert gate("run", "--act")[1] == 1
    assert good.resumed == broken.campaigns and nodes.open() == {"n1", "n2", "n3", "n4"}


def test_no_other_rolling_update_begins_or_goes_on(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path
) -> None:
    path = left(nodes=["n1"], ended=None, phase="a new one")
    with pytest.raises(RailgaugeError, match="is damaged"):
        roll.begin("lab", ["n4"], "true", 1, 1, False)
    kept = path.read_bytes()
    path.unlink()
    roll.begin("lab", ["n4"], f"touch {tmp_path}/begun", 1, 1, False)
    path.write_bytes(kept)
    assert gate("run", "--act")[1] == 1 and not (tmp_path / "begun").exists()
    # The first word settles the damaged journal, the second one drops what has not begun.
    assert gate("update-done", "--no-more", "--act")[1] == 0
    assert gate("update-done", "--no-more", "--act")[1] == 0
    assert journal.rolling("lab") is None


def test_status_says_it_of_each_node_and_what_to_type(damaged: Path, nodes: Slurm) -> None:
    text = " ".join(gate("status")[0].split())
    assert text.count(f"not known whether it is in an update: journal {damaged}") == len(ALL)
    assert "next: once you know on which nodes its update was installed" in text


# ---- an operator's word ----


def test_those_that_are_named_are_tested_and_the_others_stay_in_service(
    damaged: Path, nodes: Slurm, good: Campaigns
) -> None:
    assert gate("update-done", "--no-more", "--nodes", "n1", "--act")[1] == 0
    assert nodes.open() == {"n2", "n3", "n4"} and journal.in_update("lab", nodes.show()) == {}
    assert damaged.with_suffix(".damaged").exists()
    assert gate("run", "--act")[1] == 0
    assert [one.scope.nodes["ns"][0] for one in good.made.values()] == ["n1"]


def test_the_word_of_one_node_says_nothing_of_the_others(damaged: Path, nodes: Slurm) -> None:
    text, code = gate("update-done", "--nodes", "n1", "--act")
    assert code == 1 and "--no-more" in text and damaged.exists()


def test_without_act_the_word_is_not_taken(damaged: Path, nodes: Slurm) -> None:
    assert gate("update-done", "--no-more", "--nodes", "n1")[1] == 0
    assert damaged.exists() and journal.in_update("lab", nodes.show()).keys() == ALL


def test_a_node_drained_for_the_update_stays_in_it_by_its_own_reason(
    damaged: Path, nodes: Slurm
) -> None:
    nodes.drain(["n2"], "update by rolling update 20261124T110000Z_abcd")
    assert gate("update-done", "--no-more", "--act")[1] == 0
    assert journal.in_update("lab", nodes.show()).keys() == {"n2"}


def test_a_forced_release_returns_the_node_and_keeps_the_question_of_the_others(
    damaged: Path, nodes: Slurm
) -> None:
    held(nodes, "n2")
    words = ["--force-release", "--why", "replaced by hand", "--act"]
    assert gate("release", "--nodes", "n2", *words)[1] == 0
    assert "n2" in nodes.open() and damaged.exists()


@pytest.mark.parametrize("named", [["--nodes", "n1"], []])
def test_the_word_leaves_another_rolling_update_what_it_has_not_begun(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path, named: list[str]
) -> None:
    """The defect: the batches of the one that goes on were dropped with the old journal."""
    other = roll.begin("lab", ["n2", "n3"], f"echo {{nodes}} >> {tmp_path}/updated", 1, 60, False)
    path = left(nodes=["n1"], phase="a new one")
    text, code = gate("update-done", "--no-more", *named, "--act")
    assert code == 0 and f"rolling update {other.id}" in text and "n[2-3]" in text
    assert path.with_suffix(".damaged").exists()
    kept = journal.rolling("lab")
    assert kept is not None and kept.waiting == ["n2", "n3"] and kept.words == []
    assert gate("run", "--act")[1] == 0
    assert (tmp_path / "updated").read_text().split() == ["n2", "n3"]


@pytest.fixture(params=["its process", "what it started"])
def running(damaged: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """The update itself lives on, on this host."""
    end = damaged.with_suffix(".3.end")
    end.with_suffix(".log").touch()
    program, environment = [sys.executable, "-m", update.PROGRAM, str(end), "true"], {**os.environ}
    if request.param == "what it started":
        program, environment = ["cat"], {**environment, MARK: str(end)}
    with subprocess.Popen(program, stdin=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        # Popen returns as the kernel begins the program, a little before its command line is there.
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            pass
        yield
        process.stdin.close()


def test_while_its_update_runs_here_the_word_is_refused(
    damaged: Path, running: None, nodes: Slurm
) -> None:
    text, code = gate("update-done", "--no-more", "--nodes", "n1", "--act")
    assert code == 3 and "still runs" in text and damaged.exists() and "n1" in nodes.open()
