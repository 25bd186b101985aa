"""A campaign's folder: its record, whose it is, which one is the latest, and what is none."""

from __future__ import annotations

import datetime
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from railgauge import processes
from railgauge.campaign import folder
from railgauge.campaign.folder import ENOUGH, PATROL, Campaign, Requested, RunningError, Scope
from railgauge.cli import cli
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from tests.command_line import invoke

OLDER, NEWER = "20261121T042325Z-lab-91c33c", "20261122T042325Z-lab-0a1b2c"
FUTURE = "29380101T000000Z-lab-0a1b2c"
SCOPE = Scope({"ns": ["n1", "n2"]}, {"ns": ["Iperf2Pair"]}, absent={"n2 mlx5_1": "no cable"})
REQUESTED = Requested(["--partition", "ns"], {"RFM_SYSTEM": "lab", "RAILGAUGE_COMPARE": None}, {})


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all campaigns, of a results root of its own."""
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    (tmp_path / "campaigns").mkdir()
    return tmp_path / "campaigns"


def saved(root: Path, name: str = OLDER, system: str = "lab", **changes: Any) -> Campaign:
    (root / name).mkdir()
    campaign = Campaign(root / name, system, "acceptance", SCOPE, REQUESTED, **changes)
    campaign.save()
    return campaign


def decided(campaign: Campaign, verdict: str) -> None:
    (campaign.folder / "verdict.json").write_text(json.dumps({"verdict": verdict}))


# ---- its record ----


def test_a_campaign_is_read_as_it_was_made(root: Path) -> None:
    made = Campaign.create("lab", "acceptance", SCOPE, ["railgauge", "accept"], REQUESTED)
    assert made.folder.parent == root
    assert folder.load(made.id) == made


def test_a_path_names_a_campaign_too(root: Path) -> None:
    assert folder.load(str(saved(root).folder)).id == OLDER


def test_a_record_that_cannot_be_written_is_left_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = saved(root)
    campaign.end("finished")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        campaign.save()
    assert folder.load(OLDER).state == "running"
    assert [path.name for path in campaign.folder.iterdir()] == ["campaign.json"]


def test_another_session_keeps_what_the_one_before_left(root: Path) -> None:
    campaign = saved(root, state="interrupted", context={"host": "a"}, finished="then")
    (campaign.folder / ENOUGH).write_text("1")
    campaign.begin_again(["railgauge", "accept", "--resume", OLDER])
    found = folder.load(OLDER)
    assert (found.sessions, found.state, found.finished) == (2, "running", None)
    assert (found.earlier[0].state, found.earlier[0].finished) == ("interrupted", "then")
    assert found.contexts[0] == {"host": "a"}
    assert found.session_folder(2).is_dir() and not (campaign.folder / ENOUGH).exists()


def test_results_that_cannot_be_kept_are_an_error_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", "/proc/railgauge")
    with pytest.raises(PrerequisiteError, match="cannot make a campaign's folder") as caught:
        Campaign.create("lab", "acceptance", SCOPE, ["railgauge", "accept"], REQUESTED)
    assert "RAILGAUGE_RESULTS" in str(caught.value.next_step)


# ---- what is no campaign ----


def test_an_unknown_campaign_is_refused_with_the_newest(root: Path) -> None:
    saved(root)
    with pytest.raises(RailgaugeError, match=f"no campaign 'mine'.*1 there; the newest is {OLDER}"):
        folder.load("mine")


def test_the_latest_of_none_is_refused() -> None:
    with pytest.raises(RailgaugeError, match=r"no campaign 'latest'.*0 there"):
        folder.load("latest")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"system": "lab"}'])
def test_what_is_no_record_is_refused_by_its_path(root: Path, text: str) -> None:
    path = saved(root).folder / "campaign.json"
    path.write_text(text)
    with pytest.raises(RailgaugeError, match=str(path)) as refused:
        folder.load(OLDER)
    assert "expected a campaign's record" in refused.value.message
    assert "railgauge campaigns" in str(refused.value.next_step)


@pytest.mark.parametrize("kind", ["a link to nothing", "a folder"])
def test_a_record_that_cannot_be_read_is_refused_by_its_path(root: Path, kind: str) -> None:
    path = saved(root).folder / "campaign.json"
    path.unlink()
    path.mkdir() if kind == "a folder" else path.symlink_to("gone")
    for name in (OLDER, "latest"):
        with pytest.raises(RailgaugeError, match=str(path)) as refused:
            folder.load(name)
        assert "expected a campaign's record" in refused.value.message


@pytest.mark.parametrize("part", ["", "campaigns"])
@pytest.mark.parametrize("kind", ["a link to nowhere", "a file", "below a file"])
def test_results_that_are_not_mounted_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, kind: str
) -> None:
    root = tmp_path / "results"
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(root))
    path = root / part if part else root
    path.parent.mkdir(exist_ok=True)
    if kind == "a link to nowhere":
        path.symlink_to("/nowhere/at/all")
    else:
        path.write_text("")
    if kind == "below a file":
        path = path / "results"
        monkeypatch.setenv("RAILGAUGE_RESULTS", str(path))
    with pytest.raises(PrerequisiteError, match=str(path)) as refused:
        folder.all_folders()
    assert "mount it" in str(refused.value.next_step)


def test_a_record_with_a_wrong_field_is_refused_by_that(root: Path) -> None:
    path = saved(root).folder / "campaign.json"
    path.write_text(path.read_text().replace('"running"', '"over"'))
    with pytest.raises(RailgaugeError, match=r"campaign\.json: state: "):
        folder.load(OLDER)


@pytest.mark.parametrize("text", ["", "{}", "[]", "5", '"accept"'])
def test_what_is_no_verdict_is_refused_by_its_path(root: Path, text: str) -> None:
    campaign = saved(root)
    (campaign.folder / "verdict.json").write_text(text)
    with pytest.raises(RailgaugeError, match=r"verdict\.json: not a verdict"):
        folder.decision(campaign)


def test_a_campaign_without_a_verdict_has_no_decision(root: Path) -> None:
    assert folder.decision(saved(root)) is None


# ---- whose it is ----


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, f"railgauge accept --resume {OLDER}"),
        ({"owner": PATROL}, "railgauge patrol"),
        ({"owner": "20261121T042300Z-gate"}, "railgauge gate run --act"),
        ({"simulated": "healthy"}, "railgauge rehearse lab"),
    ],
    ids=["somebody's", "a patrol's", "a gate run's", "a rehearsal"],
)
def test_the_command_that_continues_a_campaign_is_its_owner(
    root: Path, changes: dict[str, str], command: str
) -> None:
    saved(root, **changes)
    assert folder.load(OLDER).next_command == command


def test_a_campaign_has_one_holder(root: Path) -> None:
    campaign = saved(root, context={"host": "a", "pid": 7})
    with campaign.hold(), pytest.raises(RunningError, match=f"{OLDER} is still running"):
        folder.load(OLDER).hold().__enter__()
    with campaign.hold():
        pass


def test_a_campaign_that_no_process_holds_any_more_broke_off() -> None:
    campaign = Campaign.create("lab", "acceptance", SCOPE, ["railgauge", "accept"], REQUESTED)
    with campaign.hold():
        assert not folder.load(campaign.id).broke_off
    assert folder.load(campaign.id).broke_off
    campaign.end("finished")
    assert not campaign.broke_off


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks."""

    def refuses(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(folder.fcntl, "flock", refuses)


def of_process(pid: int, **context: Any) -> Campaign:
    """A campaign of that process, as it was recorded."""
    campaign = Campaign.create("lab", "acceptance", SCOPE, ["railgauge", "accept"], REQUESTED)
    process = processes.Process.of(pid)
    assert process is not None
    campaign.context |= {"pid": pid, "start_ticks": process.start_ticks, **context}
    campaign.save()
    return folder.load(campaign.id)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_the_process_that_is_recorded_has_it() -> None:
    campaign = of_process(os.getppid())
    assert not campaign.broke_off
    with pytest.raises(RunningError):
        campaign.hold().__enter__()


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("another", [{"start_ticks": 1}, {"boot_id": "another"}])
def test_a_number_that_another_process_has_got_since_holds_nothing(another: dict[str, Any]) -> None:
    campaign = of_process(os.getppid(), **another)
    assert campaign.broke_off
    with campaign.hold():
        pass


def test_a_campaign_of_another_host_may_still_run(root: Path) -> None:
    assert not saved(root, context={"host": "elsewhere", "pid": 7}).broke_off


# ---- which one ----


def test_the_latest_is_the_one_that_began_last(root: Path) -> None:
    saved(root, NEWER)
    saved(root, OLDER)
    (root / "zzz").mkdir()
    (root / f"{NEWER}.copy").mkdir()
    assert folder.load("latest").id == NEWER
    assert [path.name for path in folder.all_folders()] == [OLDER, NEWER]


def test_one_from_the_future_is_older_than_all_others(root: Path) -> None:
    decided(saved(root, FUTURE, state="finished"), "accept")
    decided(saved(root, state="finished"), "accept")
    assert [path.name for path in folder.all_folders()] == [FUTURE, OLDER]
    latest = folder.latest_of("lab")
    assert latest is not None
    assert [folder.load("latest").id, latest.id, folder.last_accepted("lab").id] == [OLDER] * 3


@pytest.mark.parametrize(("minutes", "is_so"), [(-9, False), (4, False), (6, True)])
def test_the_clocks_of_two_hosts_differ_a_little(minutes: int, is_so: bool) -> None:
    then = folder.began(OLDER) - datetime.timedelta(minutes=minutes)
    assert folder.in_future(OLDER, then) is is_so


def test_the_list_says_what_is_from_the_future(root: Path) -> None:
    saved(root, FUTURE)
    saved(root)
    note = "note: counted as older than all others, dated in the future by a clock that was wrong"
    assert invoke(cli, ["campaigns"], stderr=[f"{note}: {FUTURE}"]).exit_code == 0


def test_when_a_campaign_began_is_in_its_name() -> None:
    assert folder.began(OLDER).isoformat() == "2026-11-21T04:23:25+00:00"


def test_a_systems_campaigns_are_those_of_its_name_alone(root: Path) -> None:
    saved(root)
    saved(root, "20261123T042325Z-lab32-0a1b2c", "lab32")
    assert [path.name for path in folder.folders_of("lab")] == [OLDER]


@pytest.mark.parametrize(
    "changes",
    [{"state": "running"}, {"state": "finished", "simulated": "healthy"}],
    ids=["one that runs", "a rehearsal"],
)
def test_the_latest_of_a_system_has_ended_and_was_measured(
    root: Path, changes: dict[str, Any]
) -> None:
    saved(root, state="finished")
    saved(root, NEWER, **changes)
    latest = folder.latest_of("lab")
    assert latest is not None and latest.id == OLDER


def test_a_damaged_campaign_hides_no_other(root: Path) -> None:
    saved(root, state="finished")
    (saved(root, NEWER).folder / "campaign.json").write_text("{")
    latest = folder.latest_of("lab")
    assert latest is not None and latest.id == OLDER


@pytest.mark.parametrize("verdict", ["reject", "inconclusive", "provisional accept"])
def test_the_last_accepted_is_no_other_verdicts(root: Path, verdict: str) -> None:
    decided(saved(root), "accept")
    decided(saved(root, NEWER), verdict)
    assert folder.last_accepted("lab").id == OLDER


def test_the_last_accepted_before_a_campaign_is_older(root: Path) -> None:
    decided(saved(root), "accept")
    decided(saved(root, NEWER), "accept")
    assert folder.last_accepted("lab").id == NEWER
    assert folder.last_accepted("lab", before=NEWER).id == OLDER
    assert folder.last_accepted("lab", besides=[NEWER]).id == OLDER


def test_nothing_accepted_is_an_error(root: Path) -> None:
    decided(saved(root), "reject")
    with pytest.raises(RailgaugeError, match=r"no other campaign .* accepted nodes of lab"):
        folder.last_accepted("lab")
