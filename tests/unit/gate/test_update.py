"""Rolling updates: a node on which an update may still be written is never tested or released."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import processes
from railgauge.cli import cli
from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.gate import journal, partners, roll, update
from railgauge.gate.installer import BEGIN
from railgauge.gate.journal import Roll
from railgauge.node import gate as node_gate
from railgauge.processes import Process
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError

from .cluster import Campaigns, Killed, Slurm, held
from .cluster import said as gate


def begin(nodes: list[str], command: str, size: int = 1) -> Roll:
    return roll.begin("lab", nodes, command, size, 1, False)


@pytest.fixture
def good(tests: Campaigns) -> Campaigns:
    tests.bad = set()
    return tests


@contextlib.contextmanager
def left_in_update(nodes: list[str], command: str, size: int = 1) -> Iterator[Roll]:
    """As after kill -9 of `gate run --update` while the command runs."""
    with pytest.MonkeyPatch.context() as patch:

        def killed(*_: object) -> None:
            raise Killed

        patch.setattr(update, "wait", killed)
        with pytest.raises(Killed):
            roll.go_on(begin(nodes, command, size), [], lambda _: None)
    left = journal.rolling("lab")
    assert left is not None and left.update is not None
    process = Process(left.update.pid, left.update.start_ticks)
    yield left
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def ends(left: Roll) -> None:
    deadline = time.monotonic() + 200
    while update.state(left).word == "running":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def nobody_begins(one: Roll) -> None:
    """Wait until the process that would have begun it has ended."""
    while processes.running("railgauge.gate.installer", str(one.end_file)):
        time.sleep(0.02)


# ---- what is known of an update ----


def test_the_journal_is_written_before_the_command_begins(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Killed as it is written: nothing has begun, and nothing begins."""
    one = begin(["n1"], f"touch {tmp_path}/begun")
    save = Roll.save

    def saving(self: Roll) -> None:
        if self.phase == "update":
            raise Killed
        save(self)

    monkeypatch.setattr(Roll, "save", saving)
    with pytest.raises(Killed):
        roll.go_on(one, [], lambda _: None)
    monkeypatch.setattr(Roll, "save", save)
    left = journal.rolling("lab")
    assert left is not None and left.phase == "take"
    nobody_begins(one)
    assert not (tmp_path / "begun").exists()
    assert [ended.decided for ended in roll.go_on(left, [], lambda _: None)] == [{"n1": ""}]
    assert (tmp_path / "begun").exists()


def test_killed_before_the_word_it_has_not_begun_and_the_next_run_begins_it(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The journal says that it runs, and nobody has told it to."""
    one = begin(["n1", "n2"], f"echo {{nodes}} >> {tmp_path}/begun")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as at_the_word:
        at_the_word.setattr(os, "write", killed)
        with pytest.raises(Killed):
            roll.go_on(one, [], lambda _: None)
    left = journal.rolling("lab")
    assert left is not None and left.phase == "update"
    nobody_begins(left)
    assert update.state(left).word == "not begun"
    assert gate("release", "--nodes", "n1", "--why", "x", "--act")[1] == 3
    said, code = gate("update-done", "--nodes", "n1")
    assert code == 0 and "n1: the update has not begun" in said
    # What another process of the same batch left says nothing of this one.
    assert left.update is not None
    earlier = dataclasses.replace(left.update, pid=left.update.pid + 1)
    assert update.state(dataclasses.replace(left, update=earlier)).word == "unknown"
    assert not (tmp_path / "begun").exists() and nodes.open() == {"n2", "n3", "n4"}
    said, code = gate("run", "--act")
    assert code == 0 and "has not begun" in said
    assert (tmp_path / "begun").read_text().split() == ["n1", "n2"]
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and journal.rolling("lab") is None


def test_a_journal_that_cannot_be_written_begins_nothing(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    one = begin(["n1"], f"touch {tmp_path}/begun")
    monkeypatch.setattr(store, "write_json", full)
    with pytest.raises(PrerequisiteError, match="No space left"):
        roll.go_on(one, [], lambda _: None)
    nobody_begins(one)
    assert not (tmp_path / "begun").exists()


def test_an_update_runs_on_without_its_starter(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path
) -> None:
    go_on = tmp_path / "go on"
    command = f"until test -e {shlex.quote(str(go_on))}; do sleep 0.05; done; echo flashed"
    with left_in_update(["n1"], command) as left:
        assert update.state(left).word == "running"
        go_on.touch()
        assert left.update is not None
        began = datetime.datetime.fromisoformat(left.update.started)
        assert abs((datetime.datetime.now(datetime.timezone.utc) - began).total_seconds()) < 600
        ends(left)
        assert update.state(left).good
        assert update.last_words(left) == "flashed"


@pytest.mark.parametrize(
    ("changed", "word", "words"),
    [
        ({"boot_id": "another"}, "unknown", "was started again since"),
        ({"host": "login2"}, "elsewhere", "login2"),
        ({"start_ticks": 1}, "unknown", ") is gone"),
        ({"pid": 2**22 + 1}, "unknown", ") is gone"),
    ],
    ids=["rebooted", "other host", "number used again", "gone"],
)
def test_what_cannot_be_seen_is_not_taken_for_an_end(
    area: Path,
    nodes: Slurm,
    good: Campaigns,
    changed: dict[str, Any],
    word: str,
    words: str,
) -> None:
    with left_in_update(["n1"], "sleep 600") as left:
        assert left.update is not None
        if "is gone" in words:
            os.killpg(left.update.pid, signal.SIGKILL)
            ends(left)
        left.update = dataclasses.replace(left.update, **changed)
        left.save()
        found = update.state(left)
        assert (found.word, words in found.words) == (word, True)
        said, code = gate("run", "--act")
        assert code == 1 and "gate update-done --nodes n1 --act" in said
        assert nodes.open() == {"n2", "n3", "n4"} and not good.made


def test_how_it_ended_is_known_also_from_elsewhere(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    with left_in_update(["n1"], "true") as left:
        ends(left)
        assert left.update is not None
        left.update = dataclasses.replace(left.update, host="login2", boot_id="another")
        left.save()
        said, code = gate("run", "--act")
    assert code == 0 and "n1: accepted, back in service" in said


def test_a_signal_to_the_update_is_an_end_that_failed(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    """As by scancel of the job that it is in."""
    with left_in_update(["n1"], "echo begun; exec sleep 600") as left:
        assert left.update is not None
        while update.last_words(left) != "begun":
            time.sleep(0.02)
        os.killpg(left.update.pid, signal.SIGTERM)
        ends(left)
        found = update.state(left)
        assert (found.word, found.exit_code) == ("ended", -signal.SIGTERM)


def test_a_killed_update_has_an_unknown_end(area: Path, nodes: Slurm, good: Campaigns) -> None:
    with left_in_update(["n1"], "exec sleep 600") as left:
        assert left.update is not None
        os.killpg(left.update.pid, signal.SIGKILL)
        ends(left)
        assert update.state(left).word == "unknown"
        said, code = gate("run", "--act")
        assert code == 1 and "how its update ended is unknown" in said
        assert not good.made


# ---- an update is over when nothing that it started runs ----


@pytest.fixture
def work(tmp_path: Path) -> Iterator[str]:
    """A command that runs until its file is there, which it is at the latest after the test."""
    (tmp_path / "work").write_text('until test -e "$1"; do sleep 0.05; done\n')
    yield f"bash {tmp_path}/work {tmp_path}/end"
    (tmp_path / "end").touch()


def has_ended(left: Roll) -> None:
    """Wait until the command has ended, and perhaps not all that it started."""
    while not left.end_file.exists():
        time.sleep(0.02)


@pytest.mark.parametrize(
    "command",
    ["{} &", "setsid {} &", "(setsid {} &)", "env -i PATH=$PATH setsid {} &", "nohup setsid -f {}"],
)
def test_an_update_with_a_command_that_returns_early_runs_on(
    area: Path, nodes: Slurm, good: Campaigns, work: str, tmp_path: Path, command: str
) -> None:
    """The defect: the node was tested and returned while the work went on."""
    with left_in_update(["n1"], f"{command.format(work)}\necho started") as left:
        has_ended(left)
        # `env` and `setsid` may not have become the program yet.
        limit = time.monotonic() + 30
        work_runs = re.compile(r"still runs: bash /\S+.* \(pid [0-9]+\)")
        while not work_runs.search((found := update.state(left)).words):
            assert time.monotonic() < limit, found
            time.sleep(0.05)
        assert found.word == "running"
        assert "its command ended with exit code 0, and what it started still runs" in found.words
        assert gate("update-done", "--nodes", "n1", "--act")[1] == 3
        said: list[str] = []

        def ends_once_named(words: str) -> None:
            said.append(words)
            (tmp_path / "end").touch()

        assert update.wait(left, ends_once_named).good
        assert len(said) == 1 and said[0].endswith("; waiting for its end")
        assert gate("run", "--act")[1] == 0 and "n1" in nodes.open()


def test_what_the_command_ended_with_is_kept_while_its_work_goes_on(
    area: Path, nodes: Slurm, good: Campaigns, work: str, tmp_path: Path
) -> None:
    with left_in_update(["n1"], f"{work} & exit 7") as left:
        has_ended(left)
        assert update.state(left).word == "running"
        (tmp_path / "end").touch()
        ends(left)
        assert (update.state(left).word, update.state(left).exit_code) == ("ended", 7)


@pytest.mark.parametrize("command", ["{}", "setsid {} & wait"])
def test_an_update_with_only_its_process_killed_still_runs(
    area: Path, nodes: Slurm, good: Campaigns, work: str, tmp_path: Path, command: str
) -> None:
    with left_in_update(["n1"], f"echo begun; {command.format(work)}") as left:
        assert left.update is not None
        while not any(work in line for line in processes.marked(mark_of(left)).values()):
            time.sleep(0.02)
        os.kill(left.update.pid, signal.SIGKILL)
        Process(left.update.pid, left.update.start_ticks).wait_until_ended()
        found = update.state(left)
        assert found.word == "running" and "is gone, and what it started still runs" in found.words
        said, code = gate("update-done", "--nodes", "n1", "--act")
        assert code == 3 and "still runs: " in said
        (tmp_path / "end").touch()
        ends(left)
        assert update.state(left).word == "unknown"
        assert gate("run", "--act")[1] == 1 and "n1" not in nodes.open()


def mark_of(left: Roll) -> str:
    return f"RAILGAUGE_UPDATE={left.end_file}"


# ---- nobody tests or releases it ----


def test_the_next_run_waits_for_the_update_and_then_tests(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path
) -> None:
    """The defect: it was tested and returned while its firmware was being written."""
    ended = tmp_path / "ended"
    with left_in_update(["n1"], f"sleep 1; touch {ended}"):
        opened_early: list[bool] = []
        nodes.at_each = lambda: opened_early.append("n1" in nodes.open() and not ended.exists())
        said, code = gate("run", "--act")
    assert code == 0 and "n1: accepted, back in service" in said
    assert ended.exists() and not any(opened_early)
    assert "n1" in nodes.open()


def test_the_batches_that_are_left_are_not_forgotten(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    with left_in_update(["n1", "n2", "n3"], f"echo {{nodes}} >> {done}"):
        assert gate("run", "--act")[1] == 0
    assert done.read_text().split() == ["n1", "n2", "n3"]
    assert nodes.open() == {"n1", "n2", "n3", "n4"}
    assert journal.rolling("lab") is None


@pytest.mark.parametrize(
    "words", [["run", "--nodes", "n1", "--act"], ["release", "--nodes", "n1", "--why", "x"]]
)
def test_a_node_in_update_is_neither_tested_nor_released_by_name(
    area: Path, nodes: Slurm, good: Campaigns, words: list[str]
) -> None:
    with left_in_update(["n1"], "sleep 600") as left:
        assert left.update is not None
        left.update = dataclasses.replace(left.update, host="login2")
        left.save()
        said, code = gate(*words)
        assert code in (1, 3) and "gate update-done --nodes n1 --act" in said
        assert nodes.open() == {"n2", "n3", "n4"} and not good.made


def test_a_lost_journal_does_not_open_a_node_in_update(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    """Its own reason in Slurm says that it is in one."""
    with left_in_update(["n1"], "sleep 600"):
        for path in (area / "rolls").iterdir():
            path.unlink()
        said, code = gate("run", "--act")
        assert code == 1 and "n1: not tested: drained for an update" in said
        assert gate("release", "--nodes", "n1", "--why", "x", "--act")[1] == 3
        assert nodes.open() == {"n2", "n3", "n4"} and not good.made


def test_another_reason_does_not_open_a_node_in_update(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    """Its journal says that it is in one."""
    with left_in_update(["n1"], "sleep 600"):
        nodes.drain(["n1"], "firmware changed: x")
        assert journal.in_update("lab", nodes.show()) != {}
        assert gate("release", "--nodes", "n1", "--why", "x", "--act")[1] == 3
        assert "n1" not in nodes.open()


def test_another_update_of_a_node_in_update_is_refused(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    with left_in_update(["n1"], "sleep 600"):
        with pytest.raises(RailgaugeError, match="has not ended"):
            begin(["n1"], "true")
        for path in (area / "rolls").iterdir():
            path.unlink()
        with pytest.raises(RailgaugeError, match="drained for an update"):
            begin(["n1"], "true")


@contextlib.contextmanager
def back_in_update(nodes: Slurm, name: str) -> Iterator[Roll]:
    """A node in service while its update is written from another host: as when the update restarts
    it by `scontrol reboot nextstate=resume`.
    """
    with left_in_update([name], "sleep 600") as left:
        assert left.update is not None
        left.update = dataclasses.replace(left.update, host="login2")
        left.save()
        nodes.resume([name])
        yield left


def test_a_node_in_update_that_came_back_is_no_partner(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    with back_in_update(nodes, "n1"):
        held(nodes, "n2")
        assert partners.lent("lab", ["n2"]) == ["n3", "n4"]
        said, code = gate("run", "--act")
    assert code == 1 and "n2: accepted, back in service" in said
    assert [one.scope.nodes["ns"] for one in good.made.values()] == [["n2", "n3", "n4"]]


def test_a_node_in_update_that_came_back_cannot_be_named_as_a_partner(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    with back_in_update(nodes, "n1") as left:
        held(nodes, "n2")
        said, code = gate("readmit", "--nodes", "n2", "--with", "n1", "--act")
    assert code == 3 and f"--with n1: in rolling update {left.id}" in said
    assert not good.made and nodes.show(["n2"])["n2"].drained_by_us


@pytest.fixture
def before_its_test(area: Path, nodes: Slurm) -> Roll:
    """As after a kill once the update of n2 has ended well, and before n2 was drained again: its
    reboot had put it back in service.
    """
    one = begin(["n2"], "true")
    one.batch, one.waiting, one.phase, one.number = ["n2"], [], "test", 1
    one.save()
    return one


def test_a_node_that_came_back_before_its_test_is_no_partner(
    before_its_test: Roll, nodes: Slurm
) -> None:
    assert journal.in_update("lab", nodes.show()) == {
        "n2": f"in rolling update {before_its_test.id}"
    }
    assert partners.lent("lab", ["n1"]) == ["n3", "n4"]


def test_a_node_that_came_back_before_its_test_is_tested_by_the_next_run(
    before_its_test: Roll, nodes: Slurm, good: Campaigns
) -> None:
    words, code = gate("run", "--act")
    assert code == 0 and "n2: not drained any more, and untested: drained again" in words
    assert "n2: accepted, back in service" in words and journal.rolling("lab") is None


def test_a_batch_with_a_begun_gate_run_is_in_no_update(before_its_test: Roll, nodes: Slurm) -> None:
    begun = journal.Run("20261121T110000Z_abcd", "lab", ["n2"], [], "", "")
    begun.save()
    before_its_test.run = begun.id
    before_its_test.save()
    assert journal.in_update("lab", nodes.show()) == {}


@pytest.mark.parametrize("again", [["--again"], []])
def test_a_node_in_update_is_not_adopted(
    area: Path, nodes: Slurm, good: Campaigns, again: list[str]
) -> None:
    """What is half written would be taken for good."""
    for name in ("n1", "n2"):
        node_gate.record_path(area, name).unlink()
    with left_in_update(["n1"], "sleep 600") as left:
        said, code = gate("adopt", *again, "--nodes", "n[1-2]", "--act")
    assert code == 3 and f"n1: not adopted: in rolling update {left.id}" in said
    assert "gate update-done --nodes n1 --act" in said
    assert store.accepted("lab", "n1") is None and store.accepted("lab", "n2") is not None


def test_other_held_nodes_are_tested_meanwhile(area: Path, nodes: Slurm, good: Campaigns) -> None:
    with left_in_update(["n1"], "exit 7") as left:
        ends(left)
        held(nodes, "n2")
        said, code = gate("run", "--act")
        assert code == 1 and "n2: accepted, back in service" in said
        assert nodes.open() == {"n2", "n3", "n4"}


# ---- an operator's word ----


def test_an_update_that_runs_is_not_said_to_be_done(
    area: Path, nodes: Slurm, good: Campaigns
) -> None:
    with left_in_update(["n1"], "sleep 600"):
        said, code = gate("update-done", "--nodes", "n1", "--act")
        assert code == 3 and "still runs" in said


def test_a_node_that_is_back_by_itself_is_drained_before_the_word_is_kept(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between, nothing but the journal would know that it is updated and untested."""
    with left_in_update(["n1"], "exec sleep 600") as left:
        assert left.update is not None
        os.killpg(left.update.pid, signal.SIGKILL)
        ends(left)
        nodes.flags["n1"], nodes.reason["n1"] = {"IDLE"}, ("", "", "")

        def killed(*_: object) -> None:
            raise Killed

        for target, name in ((Roll, "save"), (slurm_nodes, "drain")):
            with monkeypatch.context() as patch, pytest.raises(Killed):
                patch.setattr(target, name, killed)
                cli.main(
                    ["gate", "update-done", "--system", "lab", "--nodes", "n1", "--act"],
                    standalone_mode=False,
                )
            assert "n1" in journal.in_update("lab", nodes.show())
        assert "n1" not in nodes.open()
        assert gate("update-done", "--nodes", "n1", "--act")[1] == 0
    assert nodes.show(["n1"])["n1"].reason == "railgauge: updated, to be tested"


def test_what_is_said_to_be_done_is_tested_next(area: Path, nodes: Slurm, good: Campaigns) -> None:
    with left_in_update(["n1", "n2"], "exec sleep 600") as left:
        assert left.update is not None
        os.killpg(left.update.pid, signal.SIGKILL)
        ends(left)
        assert gate("update-done", "--nodes", "n1")[1] == 0
        assert journal.in_update("lab", nodes.show()).keys() == {"n1"}
        assert gate("update-done", "--nodes", "n1", "--act")[1] == 0
        assert journal.in_update("lab", nodes.show()) == {}
    rolling = journal.rolling("lab")
    assert rolling is not None and rolling.waiting == ["n2"] and "n1" in rolling.words[0]
    rolling.command = "true"
    rolling.save()
    assert gate("run", "--act")[1] == 0
    assert len(good.made) == 2 and journal.rolling("lab") is None


def test_what_has_not_begun_can_be_dropped(area: Path, nodes: Slurm, good: Campaigns) -> None:
    with left_in_update(["n1", "n2"], "exit 7") as left:
        ends(left)
        assert gate("update-done", "--no-more", "--nodes", "n1", "--act")[1] == 0
    assert journal.rolling("lab") is None
    assert gate("run", "--act")[1] == 0 and nodes.show(["n2"])["n2"].reason == ""


def test_a_forced_release_is_the_operators_word(area: Path, nodes: Slurm, good: Campaigns) -> None:
    with left_in_update(["n1"], "sleep 600"):
        words = ["--force-release", "--why", "replaced by hand", "--act"]
        assert gate("release", "--nodes", "n1", *words)[1] == 0
    record = store.accepted("lab", "n1")
    assert record is not None and (record.how, record.by) == ("release", "replaced by hand")
    assert "n1" in nodes.open() and journal.rolling("lab") is None


def test_a_node_in_no_update_needs_no_word(area: Path, nodes: Slurm) -> None:
    held(nodes, "n1")
    assert gate("update-done", "--nodes", "n1", "--act")[1] == 3


# ---- rolling ----


def test_a_rolling_update_stops_where_the_budget_ends(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "rules", lambda _: store.GateRules(budget=1, partners=2))
    tests.bad = {"n1", "n2"}
    updated = area / "updated"
    with pytest.raises(RailgaugeError, match="budget"):
        roll.go_on(begin(["n1", "n2", "n3"], f"echo {{nodes}} >> {updated}"), [], lambda _: None)
    assert updated.read_text().split() == ["n1"]
    rolling = journal.rolling("lab")
    assert rolling is not None and rolling.waiting == ["n2", "n3"]


def test_what_the_budget_refuses_at_once_is_not_begun_by_a_later_run(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.flags["n4"] |= {"DOWN"}
    monkeypatch.setattr(store, "rules", lambda _: store.GateRules(budget=1))
    with pytest.raises(RailgaugeError, match="budget"):
        roll.go_on(begin(["n1"], "true"), [], lambda _: None)
    assert journal.rolling("lab") is None


def test_an_update_that_fails_leaves_its_nodes_drained(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    with pytest.raises(RailgaugeError, match="exit code 7"):
        roll.go_on(begin(["n1", "n2"], "echo no such firmware; exit 7"), [], lambda _: None)
    assert nodes.show(["n1"])["n1"].reason == "railgauge: update failed with exit code 7"
    assert nodes.open() == {"n2", "n3", "n4"} and not tests.made
    assert gate("run", "--act")[1] == 1 and not tests.made
    said, _ = gate("status")
    assert said.count("\n  next: ") == 1
    step = " ".join(said.partition("\n  next: ")[2].split())
    assert step.startswith("the update failed with exit code 7; look at ")
    assert "repair n1, then railgauge gate update-done --nodes n1 --act" in step


def test_an_end_that_cannot_be_recorded_is_the_last_line_of_the_log(tmp_path: Path) -> None:
    """As where the store is full."""
    lost = tmp_path / "gone" / "1.end"
    ended = subprocess.run(
        [sys.executable, "-m", update.PROGRAM, str(lost), "echo flashed"],
        input=BEGIN,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    *_, last = ended.stdout.decode().splitlines()
    assert last.startswith("railgauge: the command ended with exit code 0, which could not be")
    assert f"{lost}: No such file or directory" in last and b"Traceback" not in ended.stdout


def test_a_batch_with_a_run_that_measured_nothing_is_tested_by_the_next(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise SlurmError("Invalid user id")

    with monkeypatch.context() as without:
        without.setattr(slurm_nodes, "resume", refuse)
        with pytest.raises(SlurmError):
            roll.go_on(begin(["n1", "n2"], "true"), [], lambda _: None)
    assert nodes.open() == {"n2", "n3", "n4"} and not nodes.reserved
    assert gate("run", "--act")[1] == 0
    decided = [ended.decided for ended in journal.runs("lab")]
    assert sorted(decided, key=str) == [{"n1": ""}, {"n2": ""}, {}]
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


def test_a_node_of_another_user_is_not_updated(area: Path, nodes: Slurm) -> None:
    nodes.drain(["n1"], "bad fan", by="")
    with pytest.raises(RailgaugeError, match="bad fan"):
        begin(["n1"], "true")
    nodes.reserve("hpl", ["n2"])
    with pytest.raises(RailgaugeError, match="hpl"):
        begin(["n2"], "true")
    assert journal.rolling("lab") is None


def test_an_update_waits_for_the_jobs_on_its_nodes(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run on in a drained node; nothing is flashed beneath them."""
    nodes.flags["n1"] = {"ALLOCATED"}
    looks: list[bool] = []

    def passes(_: float) -> None:
        looks.append((tmp_path / "begun").exists())
        if len(looks) == 3:
            nodes.flags["n1"] = {"IDLE", "DRAIN"}

    monkeypatch.setattr(roll.time, "sleep", passes)
    one = roll.begin("lab", ["n1"], f"touch {tmp_path}/begun", 1, 60, False)
    roll.go_on(one, [], lambda _: None)
    assert looks[:3] == [False] * 3 and (tmp_path / "begun").exists()


@pytest.mark.parametrize("despite", [False, True])
def test_no_update_begins_in_a_reservation_that_began_while_it_waited(
    area: Path,
    nodes: Slurm,
    good: Campaigns,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    despite: bool,
) -> None:
    nodes.flags["n1"] = {"ALLOCATED"}

    def ends(_: float) -> None:
        nodes.flags["n1"] = {"IDLE", "DRAIN"}
        nodes.reserve("hpl", ["n1"])

    monkeypatch.setattr(roll.time, "sleep", ends)
    one = roll.begin("lab", ["n1"], f"touch {tmp_path}/begun", 1, 60, despite)
    with contextlib.ExitStack() as stack:
        if not despite:
            refused = stack.enter_context(pytest.raises(RailgaugeError, match="reservation hpl"))
        roll.go_on(one, [], lambda _: None)
    assert (tmp_path / "begun").exists() == despite
    assert despite or "--despite-reservations" in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("flags", "suspended"),
    [
        ({"ALLOCATED"}, set()),
        ({"IDLE"}, {"n1"}),
        ({"IDLE", "REBOOT_REQUESTED"}, set()),
        ({"IDLE", "POWERING_UP"}, set()),
    ],
)
def test_a_job_that_does_not_end_keeps_the_update_from_beginning(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path, flags: set[str], suspended: set[str]
) -> None:
    nodes.flags["n1"], nodes.suspended = flags, suspended
    one = roll.begin("lab", ["n1"], f"touch {tmp_path}/begun", 1, 0, False)
    with pytest.raises(RailgaugeError, match=r"n1: jobs still run, .* after 0 s; n1 stay drained"):
        roll.go_on(one, [], lambda _: None)
    assert not (tmp_path / "begun").exists() and "n1" not in nodes.open()


@pytest.mark.parametrize("flag", ["REBOOT_ISSUED", "REBOOT_REQUESTED"])
def test_an_update_that_ends_with_scontrol_reboot_is_tested_before_it_is_open(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    real = update.wait

    def wait(one: Any, say: Any) -> Any:
        ended = real(one, say)
        for node in one.batch:
            nodes.flags[node] |= {flag}
            nodes.next_state[node] = "RESUME"
        return ended

    monkeypatch.setattr(update, "wait", wait)
    roll.go_on(begin(["n1"], "true"), [], lambda _: None)
    assert good.made
    nodes.register("n1")
    assert nodes.show(["n1"])["n1"].in_service


def test_a_node_that_a_user_takes_before_its_batch_is_not_updated(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path
) -> None:
    one = begin(["n1"], f"touch {tmp_path}/begun")
    nodes.drain(["n1"], "bad fan", by="")
    with pytest.raises(RailgaugeError, match="bad fan"):
        roll.go_on(one, [], lambda _: None)
    assert not (tmp_path / "begun").exists()


def test_a_journal_that_cannot_be_read_now_is_not_set_aside(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path
) -> None:
    """Its batches may still be known: only what is damaged is lost."""
    left = begin(["n1", "n2"], f"touch {tmp_path}/begun")
    path = store.folder("lab") / "rolls" / f"{left.id}.json"
    kept = path.read_bytes()
    path.unlink()
    path.mkdir()
    text, code = gate("run", "--act")
    assert code == 3 and f"journal {path} cannot be read: Is a directory" in text
    assert path.is_dir() and not (tmp_path / "begun").exists()
    path.rmdir()
    path.write_bytes(kept)
    assert gate("run", "--act")[1] == 0 and (tmp_path / "begun").exists()


@pytest.mark.parametrize("left", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_hangup_that_nohup_left_ignored_stays_so(left: signal.Handlers) -> None:
    before = signal.signal(signal.SIGHUP, left)
    try:
        with update._deferred_interrupts(lambda _: None):
            ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert ignored == (left is signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("rest", [["n2"], []])
def test_a_node_that_left_during_the_update_is_reported_and_one_back_untested_is_tested(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch, rest: list[str]
) -> None:
    wait = update.wait

    def meanwhile(*arguments: Any) -> update.State:
        state = wait(*arguments)
        nodes.drain(["n1"], "bad fan", by="")
        nodes.resume(rest)
        return state

    monkeypatch.setattr(update, "wait", meanwhile)
    told: list[str] = []
    (ended,) = roll.go_on(begin(["n1", *rest], "true", size=2), [], told.append)
    assert ended.decided == {"n1": "drained by root: bad fan", **dict.fromkeys(rest, "")}
    assert "n1: stays out: drained by root: bad fan" in told
    assert [line for line in told if "drained again" in line] == [
        f"{name}: not drained any more, and untested: drained again" for name in rest
    ]
    assert nodes.show(["n1"])["n1"].reason == "bad fan" and ended.kept_out == ["n1"]
    assert [one.scope.nodes["ns"][0] for one in good.made.values()] == rest
    assert journal.rolling("lab") is None and journal.unended("lab") is None


def test_killed_anywhere_in_a_rolling_update_nothing_in_update_is_open(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After every change of Slurm's state, and before every entry of a journal, in turn."""
    monkeypatch.setattr(update, "_POLL_S", 0.02)
    saves = {kind: kind.save for kind in (journal.Run, Roll)}
    log = tmp_path / "log"
    steps = 1
    while True:
        log.write_text("")
        nodes.resume(["n1", "n2", "n3", "n4"])
        left = steps

        def step() -> None:
            nonlocal left
            for name in ("n1", "n2"):
                begun, ended = (f"{word} {name}" in log.read_text() for word in ("begin", "end"))
                assert not (begun and not ended and name in nodes.open())
            left -= 1
            if left == 0:
                raise Killed

        nodes.at_each = step
        for kind, save in saves.items():

            def saving(self: Any, save: Any = save, step: Any = step) -> None:
                step()
                save(self)

            monkeypatch.setattr(kind, "save", saving)
        command = f"echo begin {{nodes}} >> {log}; sleep 0.05; echo end {{nodes}} >> {log}"
        killed = False
        try:
            roll.go_on(begin(["n1", "n2"], command), [], lambda _: None)
        except Killed:
            killed = True
        nodes.at_each = lambda: None
        for kind, save in saves.items():
            monkeypatch.setattr(kind, "save", save)
        if not killed:
            return
        if journal.rolling("lab") is None and journal.unended("lab") is None:
            # Killed before the first entry: nothing was begun.
            assert log.read_text() == "" or "end n2" in log.read_text()
        said, code = gate("run", "--act")
        assert code == 0, said
        assert journal.rolling("lab") is None and journal.unended("lab") is None
        assert nodes.open() == {"n1", "n2", "n3", "n4"} and not nodes.reserved
        steps += 1


def test_a_first_interrupt_waits_for_the_end_of_the_update(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path
) -> None:
    """As of a job at its time limit: what is left of it would be killed with it."""
    ended = tmp_path / "ended"
    # Who waits for the update keeps SIGTERM, bit 14, some time after it has begun.
    caught = f"sed -n 's/^SigCgt://p' /proc/{os.getpid()}/status"
    waits = f"until [ $((0x$({caught} | tr -d '\\t') & 0x4000)) -ne 0 ]; do sleep 0.02; done"
    signals = f"kill -INT {os.getpid()}; sleep 0.2; kill -TERM {os.getpid()}"
    one = begin(["n1"], f"{waits}; {signals}; sleep 0.5; touch {ended}")
    with pytest.raises(KeyboardInterrupt):
        roll.go_on(one, [], lambda _: None)
    assert ended.exists() and not good.made and "n1" not in nodes.open()
    assert gate("run", "--act")[1] == 0


def test_after_an_interrupted_test_no_other_batch_begins(
    area: Path, nodes: Slurm, good: Campaigns, tmp_path: Path
) -> None:
    good.interrupts = True
    one = begin(["n1", "n2"], f"echo {{nodes}} >> {shlex.quote(str(tmp_path))}/updated")
    with pytest.raises(KeyboardInterrupt):
        roll.go_on(one, [], lambda _: None)
    assert (tmp_path / "updated").read_text().split() == ["n1"] and len(good.made) == 1
    assert nodes.open() == {"n2", "n3", "n4"} and not nodes.reserved
    left = journal.rolling("lab")
    assert left is not None and left.waiting == ["n2"] and not left.batch
    assert gate("run", "--act")[1] == 0
    assert (tmp_path / "updated").read_text().split() == ["n1", "n2"]
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and journal.rolling("lab") is None


def test_an_interrupted_test_that_had_broken_off_is_begun_again_by_the_next_run(
    area: Path, nodes: Slurm, good: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed() -> None:
        raise Killed

    good.at_each = killed
    with pytest.raises(Killed):
        roll.go_on(begin(["n1", "n2"], "true"), [], lambda _: None)
    good.at_each, good.interrupts = lambda: None, True
    nodes.kernel |= {"n1": "6.13", "n2": "6.13"}
    gate("run", "--act")
    assert "n1" not in nodes.open() and len(good.made) == 1
    words, code = gate("run", "--act")
    assert code == 0 and nodes.open() == {"n1", "n2", "n3", "n4"}, words


def test_the_end_of_a_terminal_does_not_reach_the_update(tmp_path: Path) -> None:
    """It has a session of its own."""
    end = tmp_path / "end"
    program = [sys.executable, "-m", "railgauge.gate.installer", str(end), "ps -o sid= -p $$"]
    done = subprocess.run(program, input="begin", capture_output=True, text=True, check=True)
    assert end.exists() and done.stdout.strip().isdigit()


def test_an_update_hears_the_signals_that_its_starter_ignores(tmp_path: Path) -> None:
    """As those of `nohup` and of a shell's `&` do."""
    end = tmp_path / "end"
    program = [sys.executable, "-m", "railgauge.gate.installer", str(end), "cat /proc/self/status"]
    ignores = "import os, signal, sys; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 3, 15)]; "
    outer = [sys.executable, "-c", f"{ignores}os.execv(sys.argv[1], sys.argv[1:])", *program]
    done = subprocess.run(outer, input="begin", capture_output=True, text=True, check=True)
    (ignored,) = re.findall(r"^SigIgn:\s*(\w+)", done.stdout, re.MULTILINE)
    heard = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    assert not any(int(ignored, 16) & 1 << (number - 1) for number in heard)


@pytest.mark.parametrize("rest", [["n2"], []])
def test_a_node_that_a_user_resumes_before_its_test_is_tested(
    area: Path, nodes: Slurm, good: Campaigns, rest: list[str]
) -> None:
    def resumed() -> None:
        if nodes.reason["n1"][0].endswith(journal.UPDATED) and not good.made:
            nodes.at_each = lambda: None
            nodes.resume(["n1"])

    nodes.at_each = resumed
    (ended,) = roll.go_on(begin(["n1", *rest], "true", size=2), [], lambda _: None)
    assert ended.decided == dict.fromkeys(["n1", *rest], "")
    [campaign] = good.made.values()
    assert set(campaign.scope.nodes["ns"]) >= {"n1", *rest}
