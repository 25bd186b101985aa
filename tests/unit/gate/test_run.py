"""That nothing untested is ever open, whatever ends a run."""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railgauge.acceptance import accept
from railgauge.cli import cli
from railgauge.cluster import store
from railgauge.common.errors import EXIT_SUSPECT, PrerequisiteError, RailgaugeError
from railgauge.gate import journal, lease, partners, run, testing
from railgauge.gate.lock import alone
from railgauge.node import gate as node_gate
from railgauge.slurm import events
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode
from railgauge.systems import System
from tests.command_line import invoke

from .cluster import Campaigns, Killed, Slurm, gate, go, held, said, taken

# ---- a run, killed at each step ----


def test_a_good_node_returns_and_is_accepted_as_it_is_now(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    ended = go(nodes)
    assert ended.decided == {"n1": ""}
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and not nodes.reserved
    assert len(tests.made) == 1
    record = store.accepted("lab", "n1")
    assert record is not None
    assert (record.fields["kernel/release"], record.how, record.by) == (
        "6.13",
        "run",
        next(iter(tests.made)),
    )


def test_a_bad_node_stays_out_with_the_check_in_its_reason(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n2")
    go(nodes)
    assert nodes.open() == {"n1", "n3", "n4"} and not nodes.reserved
    assert nodes.show(["n2"])["n2"].reason.startswith("railgauge: Iperf2Pair ")
    record = store.accepted("lab", "n2")
    assert record is not None and record.fields["kernel/release"] == "6.12"


def test_a_node_that_failed_next_to_a_bad_node_is_tested_again_without_it(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1", "n2")
    ended = go(nodes)
    assert ended.decided["n1"] == "" and ended.decided["n2"]
    first, second = ({*c.scope.nodes["ns"]} for c in tests.made.values())
    assert "n2" in first and "n2" not in second
    assert nodes.open() == {"n1", "n3", "n4"}


def test_a_node_that_failed_elsewhere_too_gets_no_second_try_for_another_is_bad(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.once = ("n1", "n4")
    held(nodes, "n1", "n2")
    ended = go(nodes)
    assert "Iperf2Pair n1 n4: too slow" in ended.decided["n1"] and ended.decided["n2"]
    assert len(tests.made) == 1 and not {"n1", "n2"} & nodes.open()


def test_a_partner_at_fault_keeps_no_other_node_out(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    ended = go(nodes)
    assert ended.decided == {"n1": ""} and ended.bad_partners == ["n2"]


def test_a_partner_at_fault_is_held_and_a_suspect_until_it_is_accepted(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    go(nodes)
    assert nodes.open() == {"n1", "n3", "n4"}
    assert nodes.show(["n2"])["n2"].reason.startswith(
        "railgauge: suspect: as a partner: Iperf2Pair"
    )
    assert store.suspected("lab", "n2") is not None
    nodes.comment("n2", "suspect")
    nodes.comment("n4", "somebody else's")
    tests.bad = set()
    assert go(nodes).decided == {"n2": ""}
    assert store.suspected("lab", "n2") is None
    assert nodes.comments == {"n2": "", "n4": "somebody else's"}
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


def test_a_suspect_that_is_not_confirmed_stays_out_with_what_is_needed(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.confirms = False
    held(nodes, "n2")
    ended = go(nodes)
    assert "not confirmed: n2: measure n2 with n9 (another round)" in ended.decided["n2"]
    assert nodes.open() == {"n1", "n3", "n4"}


def test_a_partner_that_is_not_confirmed_is_not_held_and_excuses_no_node(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.confirms = False
    held(nodes, "n1")
    ended = go(nodes)
    assert ended.bad_partners == [] and store.suspected("lab", "n2") is None
    assert ended.decided["n1"] and nodes.open() == {"n2", "n3", "n4"}


def test_a_partner_at_fault_beyond_max_hold_stays_in_service_and_is_no_partner(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    now = node_gate.time.time()
    two = [{"node": "n4", "at": now, "why": ""}] * 2
    (area / node_gate.HOLDS).write_text(json.dumps(two))
    held(nodes, "n1")
    said: list[str] = []
    run.finish(run.plan("lab", ["n1"]), [], said.append)
    assert nodes.open() == {"n1", "n2", "n3", "n4"}
    assert any("max_hold" in line for line in said)
    held(nodes, "n1")
    assert run.plan("lab", ["n1"]).partners == ["n3", "n4"]


def test_a_suspect_raises_the_alarm_once(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    monkeypatch.setenv(partners.ALARM_VARIABLE, f"bash -c 'echo \"$0 $1\" >> {told}'")
    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    for _ in range(2):
        partners.accuse(planned, "n2", "too slow", lambda _: None)
    assert told.read_text().splitlines() == ["n2 held: too slow"]


@pytest.mark.parametrize(
    ("names", "lapses"),
    [("", False), ("n1", False), ("n2", False), ("n1 n2", False), ("", True), ("n1", True)],
)
def test_killed_anywhere_no_untested_node_is_open_and_the_next_run_ends_it(
    area: Path, nodes: Slurm, tests: Campaigns, names: str, lapses: bool
) -> None:
    """After every single change of Slurm's state, and before every journal entry, in turn.

    The next run comes soon, or when what has an end has ended: then the partners are back.
    """
    bad = tests.bad = set(names.split())
    save, steps = journal.Run.save, 0
    while True:
        for name in ("n1", "n2"):
            store.accept("lab", taken(name), "adopt", "untested")
        nodes.resume(["n1", "n2", "n3", "n4"])
        held(nodes, "n1", "n2")
        left = steps

        def untested_are_out() -> None:
            good = {
                name
                for name in ("n1", "n2")
                if (record := store.accepted("lab", name))
                and record.fields["kernel/release"] == "6.13"
            }
            assert not nodes.open() & ({"n1", "n2"} - good)

        def step() -> None:
            nonlocal left
            untested_are_out()
            left -= 1
            if left == 0:
                raise Killed

        nodes.at_each = step

        def saving(self: journal.Run, step: Callable[[], None] = step) -> None:
            step()
            save(self)

        journal.Run.save = saving  # type: ignore[method-assign]
        try:
            if left:
                with pytest.raises(Killed):
                    go(nodes)
                    raise StopIteration
                if lapses:
                    nodes.lapse()
                    untested_are_out()
                    assert {"n3", "n4"} <= nodes.open()
            ended = go(nodes)
        except StopIteration:
            return
        finally:
            journal.Run.save = save  # type: ignore[method-assign]
            nodes.at_each = lambda: None
        assert {name for name, why in ended.decided.items() if why} == bad or len(bad) == 2
        assert nodes.open() == {"n1", "n2", "n3", "n4"} - bad
        assert not nodes.reserved
        assert journal.unended("lab") is None
        # What was killed in the middle of a campaign has gone on with it.
        assert all(tests.made[name].state == "finished" for name in ended.campaigns)
        steps += 1


def test_the_reservation_of_the_partners_has_an_end_and_that_of_the_untested_none(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    assert nodes.lease == {planned.untested: None, planned.reservation: lease.LEASE_S}
    assert nodes.reserved[planned.untested] == ("n1",)


def test_a_run_that_lapsed_goes_on_with_other_partners_where_its_own_are_busy(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    broken = run.plan("lab", ["n1"])
    tests.at_each = lambda: (_ for _ in ()).throw(Killed)
    with pytest.raises(Killed):
        run.finish(broken, [], lambda _: None)
    tests.at_each = lambda: None
    nodes.lapse()
    nodes.flags["n2"] |= {"ALLOCATED"}
    assert run.finish(broken, [], lambda _: None).decided == {"n1": ""}
    assert broken.partners == ["n3", "n4"] and len(tests.made) == 2
    assert "n2" in nodes.open() and not nodes.reserved


def test_a_node_that_a_person_set_down_meanwhile_stays_out(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReturnToService=2 has returned it long before the test ends."""
    tests.bad = set()
    down = SlurmNode("n1", frozenset({"DOWN"}), "bad fan", "alice")
    monkeypatch.setattr(events, "set_down_since", lambda since: {"n1": down} if since else {})
    held(nodes, "n1")
    words, code = said("run", "--act")
    assert code == 1 and "n1: stays out: set down by alice during the test: bad fan" in words
    assert "n1" not in nodes.open()
    record = store.accepted("lab", "n1")
    assert record is not None and record.fields["kernel/release"] == "6.12"


def test_what_a_person_did_counts_from_the_last_campaign_that_measured_the_node(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test came after what lies before it. A later round without the node changes nothing, and
    without a campaign the whole run counts.
    """
    asked: list[dict[str, datetime.datetime]] = []

    def ask(since: dict[str, datetime.datetime]) -> dict[str, SlurmNode]:
        asked.append(since)
        return {}

    monkeypatch.setattr(events, "set_down_since", ask)
    rounds = {"20261121T110000Z-lab-000000": ("n1", "n2"), "20261121T120000Z-lab-000001": ("n2",)}
    monkeypatch.setattr(testing, "load", lambda name: name)
    monkeypatch.setattr(testing, "in_campaign", lambda name: {n: taken(n) for n in rounds[name]})
    planned = run.plan("lab", ["n1", "n2", "n3"])
    planned.started = "2026-11-21T10:00:00+00:00"
    planned.campaigns = list(rounds)
    planned.decided = {"n1": "", "n2": "", "n3": "takes no job"}
    nodes.reserve(planned.untested, ["n1", "n2", "n3"])
    run.keep_out_set_down(planned, [], lambda _: None)
    assert {name: when.isoformat() for name, when in asked[0].items()} == {
        "n1": "2026-11-21T11:00:00+00:00",
        "n2": "2026-11-21T12:00:00+00:00",
        "n3": "2026-11-21T10:00:00+00:00",
    }


# ---- a campaign that is interrupted ----


def test_while_accounting_is_silent_no_node_returns(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may have set it down in the test, and Slurm have returned it."""
    tests.bad = set()
    held(nodes, "n1")
    with monkeypatch.context() as silent:
        silent.setattr(events, "set_down_since", refused)
        with pytest.raises(SlurmError):
            go(nodes)
    assert nodes.open() == {"n2", "n3", "n4"}
    record = store.accepted("lab", "n1")
    assert record is not None and record.fields["kernel/release"] == "6.12"
    assert go(nodes).decided == {"n1": ""} and "n1" in nodes.open()
    assert len(tests.made) == 1


@pytest.mark.parametrize("bad", [set(), {"n1"}, {"n3"}])
def test_after_an_interrupt_no_other_campaign_begins(
    area: Path, nodes: Slurm, tests: Campaigns, bad: set[str]
) -> None:
    """Also where one is at fault, and the others would be tested again without it."""
    tests.bad, tests.interrupts = bad, True
    held(nodes, "n1", "n2")
    planned = run.plan("lab", ["n1", "n2"])
    with pytest.raises(KeyboardInterrupt):
        run.finish(planned, [], lambda _: None)
    assert len(tests.made) == 1 and all(planned.decided[name] for name in ("n1", "n2"))
    assert "is interrupted" in nodes.show(["n2"])["n2"].reason
    assert not nodes.open() & {"n1", "n2"} and not nodes.reserved
    assert journal.unended("lab") is None


def test_what_an_interrupted_run_kept_out_is_tested_by_the_next(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad, tests.interrupts = set(), True
    held(nodes, "n1")
    with pytest.raises(KeyboardInterrupt):
        run.finish(run.plan("lab", ["n1"]), [], lambda _: None)
    assert gate("run", "--act") == 0
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


# ---- what fails before anything is measured ----


def refused(*_: object) -> None:
    raise SlurmError("Invalid user id")


def test_a_refused_resume_is_undone(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(nodes, "n1")
    reason = nodes.show(["n1"])["n1"].reason
    monkeypatch.setattr(slurm_nodes, "resume", refused)
    assert gate("run", "--act") == 3
    assert not nodes.reserved and nodes.open() == {"n2", "n3", "n4"}
    assert nodes.show(["n1"])["n1"].reason == reason
    assert journal.unended("lab") is None


def test_a_resume_that_fails_half_way_is_undone(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(nodes, "n1", "n3")
    opened: set[str] = set()
    nodes.at_each = lambda: opened.update(nodes.open())
    real = slurm_nodes.resume
    monkeypatch.setattr(slurm_nodes, "resume", lambda _: (real(["n1"]), refused()))
    assert gate("run", "--act") == 3
    assert not opened & {"n1", "n3"} and not nodes.reserved
    assert nodes.show(["n1"])["n1"].reason.startswith("railgauge: firmware changed")


def test_what_cannot_be_drained_again_stays_reserved_and_the_partners_come_back(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(nodes, "n1")
    real = slurm_nodes.resume
    monkeypatch.setattr(slurm_nodes, "resume", lambda names: (real(names), refused()))
    monkeypatch.setattr(slurm_nodes, "drain", refused)
    words, code = said("run", "--act")
    assert code == 3 and "not undone" in words
    nodes.lapse()
    assert nodes.open() == {"n2", "n3", "n4"}


def test_a_campaign_that_cannot_begin_is_undone_and_the_next_run_tests(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without accounting."""
    tests.bad = set()
    held(nodes, "n1")

    def no_answer(*_: object, **__: object) -> None:
        raise PrerequisiteError("sacct did not answer")

    with monkeypatch.context() as without:
        without.setattr(accept, "run", no_answer)
        assert gate("run", "--act") == 3
    assert not nodes.reserved and nodes.show(["n1"])["n1"].drained_by_us
    assert gate("run", "--act") == 0
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


def test_of_a_campaign_that_breaks_off_the_partners_come_back_at_once(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    """As with a full results area: the next run goes on with it."""
    tests.bad = set()
    held(nodes, "n1")

    def full() -> None:
        raise PrerequisiteError("no room")

    tests.at_each = full
    assert gate("run", "--act") == 3
    assert nodes.open() == {"n2", "n3", "n4"} and not nodes.show(["n1"])["n1"].drained
    tests.at_each = lambda: None
    assert gate("run", "--act") == 0
    assert len(tests.made) == 1 and nodes.open() == {"n1", "n2", "n3", "n4"}


def test_a_campaign_without_its_folder_is_measured_again(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a full results area that was given another file system."""
    tests.bad = set()
    held(nodes, "n1")
    broken = run.plan("lab", ["n1"])
    broken.campaigns.append("gone")
    broken.save()

    def load(name: str) -> Any:
        if name not in tests.made:
            raise RailgaugeError(f"no campaign {name!r}")
        return tests.made[name]

    monkeypatch.setattr(testing, "load", load)
    assert run.finish(broken, [], lambda _: None).decided == {"n1": ""}
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


def broken_off(tests: Campaigns, *names: str) -> journal.Run:
    """A run of these that was killed in its campaign, which cannot be continued."""

    def killed() -> None:
        raise Killed

    planned = run.plan("lab", names)
    tests.at_each = killed
    with pytest.raises(Killed):
        run.finish(planned, [], lambda _: None)
    tests.at_each = lambda: None
    tests.changed = "the references have changed"
    return planned


def test_a_node_that_failed_in_a_campaign_that_cannot_be_continued_stays_out(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    """A fault that comes and goes: it is there in the broken campaign, and would pass a new one."""
    tests.bad, tests.heals = {"n1"}, True
    held(nodes, "n1")
    ended = run.finish(broken_off(tests, "n1"), [], lambda _: None)
    [name] = tests.made
    assert ended.decided["n1"].startswith(f"failed in {name}, which could not be continued: ")
    assert nodes.open() == {"n2", "n3", "n4"} and not nodes.reserved


def test_a_campaign_that_cannot_be_continued_leaves_no_jobs(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    """Whoever has failed in it stays out, and none is measured again."""
    tests.bad = {"n1"}
    held(nodes, "n1")
    run.finish(broken_off(tests, "n1"), [], lambda _: None)
    assert nodes.cancelled == list(tests.made)


def test_a_campaign_that_is_dropped_leaves_no_jobs(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its folder is gone."""
    tests.bad = set()
    held(nodes, "n1")
    planned = broken_off(tests, "n1")
    [dropped] = tests.made
    monkeypatch.setattr(
        testing, "load", lambda name: tests.made[name] if name != dropped else lost()
    )

    def lost() -> None:
        raise RailgaugeError("no campaign")

    run.finish(planned, [], lambda _: None)
    assert dropped in nodes.cancelled and "n1" in nodes.open()


# ---- a run, killed before an update of Railgauge, goes on with the new version ----


def updated(tests: Campaigns) -> None:
    """What `accept.resume` then says: the program is one of the files that a campaign is judged by
    (tests/unit/acceptance/test_resume.py).
    """
    [name] = tests.made
    tests.changed = f"/railgauge has changed since campaign {name} began"


def test_after_an_update_the_next_command_measures_again_and_ends_the_run(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    broken = broken_off(tests, "n1")
    updated(tests)
    words, code = said("run", "--act")
    assert f"{tests.changed}; measuring again" in words and code == 0
    assert len(tests.made) == 2 and tests.resumed == []
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and not nodes.reserved
    assert [one.id for one in journal.runs("lab") if one.ended] == [broken.id]


def test_after_an_update_a_node_that_had_failed_before_stays_out(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad, tests.heals = {"n1"}, True
    held(nodes, "n1")
    broken_off(tests, "n1")
    updated(tests)
    assert gate("run", "--act") == 1
    assert nodes.open() == {"n2", "n3", "n4"} and not nodes.reserved


@pytest.mark.parametrize("newer", [True, False])
def test_a_run_is_continued_by_a_version_with_other_fields_in_its_journal(
    area: Path, nodes: Slurm, tests: Campaigns, newer: bool
) -> None:
    """A newer version has fields that the journal lacks, an older one does not know some."""
    tests.bad = set()
    held(nodes, "n1")
    broken = broken_off(tests, "n1")
    updated(tests)
    path = area / "runs" / f"{broken.id}.json"
    kept = json.loads(path.read_text())
    if newer:
        for key in ("repaired", "undone", "lost"):
            assert not kept.pop(key)
    else:
        kept["of_a_newer_version"] = {"n1": ["a", 1]}
    path.write_text(json.dumps(kept))
    assert gate("run", "--act") == 0
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and not nodes.reserved


@pytest.mark.parametrize("guilty", ["n1", "n3"])
def test_a_node_that_failed_there_next_to_a_node_at_fault_is_tested_without_it(
    area: Path, nodes: Slurm, tests: Campaigns, guilty: str
) -> None:
    """That node stays out, or is a suspect where it is a partner."""
    tests.bad, tests.heals = {guilty}, True
    held(nodes, "n1", "n2")
    ended = run.finish(broken_off(tests, "n1", "n2"), [], lambda _: None)
    assert nodes.open() == {"n1", "n2", "n3", "n4"} - {guilty}
    assert (ended.bad_partners == ["n3"]) == (guilty == "n3")
    _, second = tests.made.values()
    assert guilty not in second.scope.nodes["ns"]


def test_a_former_partner_at_fault_keeps_no_node_out(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    """It is at work for another user by now."""
    tests.bad, tests.heals = {"n2"}, True
    held(nodes, "n1")
    broken = broken_off(tests, "n1")
    nodes.lapse()
    nodes.flags["n2"] |= {"ALLOCATED"}
    assert run.finish(broken, [], lambda _: None).decided == {"n1": ""}
    assert broken.partners == ["n3", "n4"]


def test_where_the_node_at_fault_is_not_known_both_of_a_bad_pair_stay_out(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad, tests.heals, tests.confirms = {"n2"}, True, False
    held(nodes, "n1")
    ended = run.finish(broken_off(tests, "n1"), [], lambda _: None)
    assert ended.decided["n1"].startswith("failed in ") and not ended.bad_partners
    assert "n2" in nodes.open()


def test_a_node_that_a_user_took_over_meanwhile_is_left_to_them(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    broken = run.plan("lab", ["n1"])
    broken.save()
    nodes.drain(["n1"], "bad fan", by="")
    ended = run.finish(broken, [], lambda _: None)
    assert "bad fan" in ended.decided["n1"]
    assert nodes.show(["n1"])["n1"].reason == "bad fan" and not nodes.reserved


@pytest.mark.parametrize("names", [[""], ["_untested"], ["", "_untested"]])
def test_a_reservation_that_a_user_deletes_does_not_open_the_node(
    area: Path, nodes: Slurm, tests: Campaigns, names: list[str]
) -> None:
    held(nodes, "n1")

    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    run.resume(planned, [], lambda _: None)
    for name in names:
        nodes.unreserve(f"{planned.reservation}{name}")
    with pytest.raises(RailgaugeError, match="is gone"):
        testing.test(planned, [], lambda _: None)
    assert "n1" not in nodes.open()
    assert not tests.made


@pytest.mark.parametrize("state", ["DRAIN", "DOWN", "FAIL"])
def test_what_railgauge_did_not_hold_is_not_tested_or_returned(
    area: Path, nodes: Slurm, state: str
) -> None:
    nodes.flags["n1"] |= {state}
    nodes.reason["n1"] = ("bad disk", "alice", "2026-11-21T10:00:00")
    with pytest.raises(RailgaugeError, match=r"not held by railgauge \(.*bad disk") as refused:
        run.candidates("lab", ["n1"])
    # What would take the node over erases the reason of whom it belongs to.
    assert "scontrol update" not in str(refused.value)
    with pytest.raises(RailgaugeError, match="not held by railgauge"):
        run.candidates("lab", ["n2"])
    assert run.candidates("lab", None).nodes == {}


def test_partners_are_idle_in_service_and_accepted(area: Path, nodes: Slurm) -> None:
    held(nodes, "n1")
    nodes.flags["n2"] |= {"MIXED"}
    node_gate.record_path(area, "n3").unlink()
    assert partners.lent("lab", ["n1"]) == ["n4"]


def test_a_node_that_is_to_be_reserved_soon_is_the_last_partner(area: Path, nodes: Slurm) -> None:
    """The gate's reservation would keep its owner's jobs from it. One that is to be reserved every
    day is a partner where there is no other.
    """
    nodes.soon["n2"] = "hpl"
    assert partners.lent("lab", ["n1"]) == ["n3", "n4"]
    nodes.flags["n3"] |= {"MIXED"}
    assert partners.lent("lab", ["n1"]) == ["n4", "n2"]


def test_a_partner_is_accepted_as_it_is_now(area: Path, nodes: Slurm) -> None:
    """One that changed and is in service: beyond max_hold, or not looked at yet."""
    nodes.kernel["n2"] = "6.13"
    assert partners.lent("lab", ["n1"]) == ["n3", "n4"]


def test_one_run_at_a_time(area: Path) -> None:
    with alone("lab"), pytest.raises(RailgaugeError, match="already running"), alone("lab"):
        pass


def test_slurm_that_refuses_leaves_the_node_reserved_or_drained(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(nodes, "n2")

    def refuse(*_: object) -> None:
        raise SlurmError("Access/permission denied")

    real = slurm_nodes.drain
    monkeypatch.setattr(slurm_nodes, "drain", refuse)
    with pytest.raises(SlurmError):
        go(nodes)
    assert "n2" not in nodes.open()
    monkeypatch.setattr(slurm_nodes, "drain", real)
    go(nodes)
    assert nodes.show(["n2"])["n2"].drained and not nodes.reserved


# ---- what Slurm says in the end ----


def last_words(nodes: Slurm, tests: Campaigns, meanwhile: Callable[[], None]) -> tuple[Any, str]:
    """The run of n1, all good, and its last line; `meanwhile` happens in its campaign."""
    tests.bad = set()
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    run.resume(planned, [], lambda _: None)
    tests.at_each = meanwhile
    said: list[str] = []
    ended = run.finish(planned, [], said.append)
    return ended, said[-1]


def test_a_node_that_a_human_drained_meanwhile_is_not_back_in_service(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    ended, last = last_words(nodes, tests, lambda: nodes.drain(["n1"], "bad fan", by=""))
    assert "not in service: drained by root: bad fan" in last
    assert ended.kept_out == ["n1"] and nodes.show(["n1"])["n1"].reason == "bad fan"


def test_a_node_in_a_users_reservation_is_not_back_in_service(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    ended, last = last_words(nodes, tests, lambda: nodes.reserve("hpl", ["n1"]))
    assert "not in service: in reservation hpl" in last and ended.kept_out == ["n1"]


@pytest.mark.parametrize("despite", [False, True])
def test_a_node_with_a_maintenance_that_began_during_the_test_stays_out(
    area: Path, nodes: Slurm, tests: Campaigns, despite: bool
) -> None:
    """Its jobs start in spite of the gate's reservation, and a user may be at work on it."""

    def begins() -> None:
        nodes.reserve("pdu", ["n1"])
        nodes.maintenance.add("pdu")

    tests.bad = set()
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"], despite_reservations=despite)
    run.reserve(planned, [], lambda _: None)
    run.resume(planned, [], lambda _: None)
    tests.at_each = begins
    ended = run.finish(planned, [], lambda _: None)
    assert nodes.show(["n1"])["n1"].drained_by_us != despite
    words = "inside reservation pdu, a maintenance that began during the test"
    assert ended.decided == {"n1": "" if despite else words}


def test_a_failure_before_a_maintenance_is_reported_and_partners_in_one_are_not_accused(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    def begins() -> None:
        nodes.reserve("pdu", ["n1", "n3"])
        nodes.maintenance.add("pdu")

    tests.bad = {"n1", "n3"}
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    run.resume(planned, [], lambda _: None)
    assert "n3" in planned.partners
    tests.at_each = begins
    ended = run.finish(planned, [], lambda _: None)
    why = ended.decided["n1"]
    assert why.endswith("inside reservation pdu, a maintenance that began during the test")
    assert not why.startswith("inside") and nodes.show(["n1"])["n1"].reason.endswith(why)
    assert not ended.bad_partners and store.suspected("lab", "n3") is None


def test_a_partner_that_failed_in_its_maintenance_keeps_no_node_out(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    """It is left out of the next round, as one at fault is, and not accused."""

    def begins() -> None:
        if "pdu" not in nodes.reserved:
            nodes.reserve("pdu", ["n3"])
            nodes.maintenance.add("pdu")

    tests.bad = {"n3"}
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    run.resume(planned, [], lambda _: None)
    tests.at_each = begins
    ended = run.finish(planned, [], lambda _: None)
    assert ended.decided == {"n1": ""} and len(ended.campaigns) == 2
    assert not ended.bad_partners and store.suspected("lab", "n3") is None


def test_a_node_that_went_down_meanwhile_is_not_back_in_service(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    ended, last = last_words(nodes, tests, lambda: nodes.flags["n1"].add("DOWN"))
    assert "not in service: does not answer Slurm" in last and ended.kept_out == ["n1"]


@pytest.mark.parametrize("flag", ["REBOOT_ISSUED", "REBOOT_REQUESTED"])
def test_a_rejected_node_stays_out_after_scontrol_reboot(
    area: Path, nodes: Slurm, tests: Campaigns, flag: str
) -> None:
    """An administrator restarts it in the middle of its test, to be in service then."""
    tests.bad, done = {"n1"}, []
    held(nodes, "n1")

    def restart() -> None:
        if tests.made and not done and not nodes.show(["n1"])["n1"].drained:
            done.append(1)
            nodes.flags["n1"] |= {"DRAIN", flag}
            nodes.next_state["n1"] = "RESUME"
            nodes.reason["n1"] = ("Reboot ASAP : reboot issued", "root", "2026-11-26T10:00:00")

    nodes.at_each = restart
    gate("run", "--act", "--nodes", "n1")
    assert done
    nodes.register("n1")
    node = nodes.show(["n1"])["n1"]
    assert node.drained and node.drained_by_us and not node.in_service


# ---- other users' jobs ----


def test_a_held_node_on_which_a_users_job_still_runs_is_not_tested(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1", "n2")
    nodes.flags["n1"] = {"MIXED", "DRAIN"}
    asked = run.candidates("lab", None, despite_reservations=True)
    assert asked.barred == {"n1": "held, but a job still runs there"}
    # Of a node on which nothing but suspended jobs are left Slurm says idle.
    nodes.flags["n1"], nodes.suspended = {"IDLE", "DRAIN"}, {"n1"}
    barred = run.candidates("lab", None).barred
    assert barred == {"n1": "held, but a job is suspended there"}
    nodes.suspended = set()
    for flag in ("POWER_DOWN", "POWERING_DOWN", "INVALID_REG"):
        nodes.flags["n1"] = {"IDLE", "DRAIN", flag}
        assert "takes no job now" in run.candidates("lab", None).barred["n1"]
    nodes.flags["n1"] = {"ALLOCATED", "DRAIN"}
    assert asked.nodes.keys() == {"n2"}
    with pytest.raises(RailgaugeError, match="a job still runs there") as refused:
        run.candidates("lab", ["n1"])
    assert "squeue -w n1" in str(refused.value.next_step)


# ---- a user's reservation ----


def test_in_a_users_reservation_nothing_is_tested_without_the_word(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    nodes.reserve("hpl", ["n1"])
    assert run.candidates("lab", None).barred.keys() == {"n1"}
    with pytest.raises(RailgaugeError, match="--despite-reservations"):
        run.candidates("lab", ["n1"])
    assert run.candidates("lab", ["n1"], despite_reservations=True).nodes.keys() == {"n1"}


def test_a_reservation_that_begins_before_the_resume_keeps_the_node_drained(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"])
    nodes.reserve("hpl", ["n1"])
    ended = run.finish(planned, [], lambda _: None)
    assert ended.decided == {"n1": "inside reservation hpl"} and not tests.made
    assert nodes.show(["n1"])["n1"].drained_by_us


# ---- dead ends ----


def test_a_lost_reservation_needs_one_more_run(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    tests.bad = set()
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    run.resume(planned, [], lambda _: None)
    planned.step = "resume"
    planned.save()
    nodes.reserved.clear()
    with pytest.raises(RailgaugeError, match="is gone"):
        testing.test(planned, [], lambda _: None)
    assert "n1" not in nodes.open()
    assert gate("run", "--act") == 0
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


def test_what_failed_for_want_of_the_reservation_accuses_no_node(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = {"n3"}
    held(nodes, "n1")
    tests.at_each = nodes.reserved.clear
    assert gate("run", "--act") == 3
    assert nodes.open() == {"n2", "n3", "n4"} and store.suspected("lab", "n3") is None


def test_a_reservation_lost_while_no_run_lives_needs_one_run(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    planned.step = "resume"
    planned.save()
    nodes.reserved.clear()
    assert gate("run", "--act") == 0
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


@pytest.mark.parametrize("content", ["", "{", '{"id": 3}'])
def test_a_damaged_journal_leaves_its_nodes_to_be_tested_again(
    area: Path, nodes: Slurm, tests: Campaigns, content: str
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    planned = run.plan("lab", ["n1"])
    run.reserve(planned, [], lambda _: None)
    run.resume(planned, [], lambda _: None)
    path = area / "runs" / f"{planned.id}.json"
    path.write_text(content)
    opened: set[str] = set()
    nodes.at_each = lambda: opened.update(nodes.open() if not tests.made else ())
    assert gate("status") == 0
    assert gate("run", "--act") == 0
    assert "n1" not in opened
    assert nodes.open() == {"n1", "n2", "n3", "n4"} and not nodes.reserved
    assert not path.exists() and path.with_suffix(".damaged").exists()


@pytest.mark.parametrize("content", ["", "{}", "nul"])
def test_a_damaged_record_of_one_node_stops_no_other_node(
    area: Path, nodes: Slurm, tests: Campaigns, content: str
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    node_gate.record_path(area, "n4").write_text(content)
    assert gate("status") == 0
    assert gate("run", "--act") == 0
    assert gate("adopt", "--nodes", "n[3-4]", "--act") == 3
    assert gate("adopt", "--again", "--nodes", "n4", "--act") == 0
    assert gate("adopt", "--nodes", "n[3-4]", "--act") == 0


def test_what_another_run_left_just_before_is_seen(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journals are read while no other node can write them."""
    tests.bad = set()
    held(nodes, "n1")
    real = fcntl.flock

    def lock(*arguments: Any) -> None:
        real(*arguments)
        if journal.unended("lab") is None and not tests.made:
            left = run.plan("lab", ["n1"])
            run.reserve(left, [], lambda _: None)
            run.resume(left, [], lambda _: None)

    monkeypatch.setattr(fcntl, "flock", lock)
    assert gate("run", "--act") == 0
    assert len(journal.runs("lab")) == 1 and not nodes.reserved


@pytest.mark.parametrize("order", ["release", "adopt", "update-done"])
def test_during_a_run_nothing_is_changed(area: Path, nodes: Slurm, order: str) -> None:
    held(nodes, "n1")
    words = ["--why", "x"] if order == "release" else []
    with alone("lab"):
        assert gate(order, "--nodes", "n1", "--act", *words) == 3
    assert "n1" not in nodes.open()


def test_a_partner_at_fault_has_an_exit_code_of_its_own(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    held(nodes, "n1")
    assert gate("run", "--act") == EXIT_SUSPECT
    answer = invoke(cli, ["gate", "status", "--system", "lab", "--nodes", "n2"])
    assert "suspect, by gate run" in answer.output


def test_a_released_node_is_looked_at(area: Path, nodes: Slurm) -> None:
    held(nodes, "n1")
    nodes.flags["n1"].add("DOWN")
    assert gate("release", "--nodes", "n1", "--why", "x", "--act") == 1


# ---- a run that broke off, and nodes that were changed meanwhile ----


@pytest.mark.parametrize("where", ["judge", "record", "drain", "unreserve"])
@pytest.mark.parametrize("changed", [True, False])
def test_a_node_that_was_changed_since_its_test_does_not_return_by_it(
    area: Path,
    nodes: Slurm,
    tests: Campaigns,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    changed: bool,
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    kill_at(where, nodes)
    if changed:
        nodes.kernel["n1"] = "6.14"
        now = {**testing.in_campaign(None), "n1": taken("n1", "6.14")}  # type: ignore[arg-type]
        first, real = next(iter(tests.made)), testing.in_campaign
        monkeypatch.setattr(
            testing, "in_campaign", lambda campaign: real(campaign) if campaign.id == first else now
        )
    ended = go(nodes)
    record = store.accepted("lab", "n1")
    assert record is not None
    assert record.fields["kernel/release"] == ("6.14" if changed else "6.13")
    assert ended.decided["n1"] == "" and len(tests.made) == 1 + changed
    assert "n1" in nodes.open()


def test_without_a_boot_id_a_node_does_not_return_by_its_test(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been started again since."""
    tests.bad = set()
    held(nodes, "n1")
    kill_at("judge", nodes)
    unknown = dataclasses.replace(taken("n1", "6.13"), boot_id="")
    everything = {**testing.in_campaign(None), "n1": unknown}  # type: ignore[arg-type]
    monkeypatch.setattr(testing, "in_campaign", lambda _: everything)
    collect = testing.inventories.collect

    def without(*words: Any, **named: Any) -> Any:
        seen, silent = collect(*words, **named)
        return [dataclasses.replace(one, boot_id="") for one in seen], silent

    monkeypatch.setattr(testing.inventories, "collect", without)
    go(nodes)
    assert len(tests.made) == 2


def test_a_node_that_a_user_drained_since_it_was_accepted_is_theirs(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    kill_at("record", nodes)
    nodes.drain(["n1"], "a new NIC", by="alice: ")
    assert "a new NIC" in go(nodes).decided["n1"]
    assert "n1" not in nodes.open() and not nodes.reserved


def test_a_node_that_does_not_answer_any_more_does_not_return_by_its_test(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    kill_at("judge", nodes)
    monkeypatch.setattr(testing.inventories, "collect", lambda *_, **__: ([], {"n1": "no answer"}))
    monkeypatch.setattr(run.partners, "lent", lambda *_, **__: ["n2", "n3"])
    go(nodes)
    assert len(tests.made) == 2


def test_a_job_that_a_broken_campaign_left_does_not_make_it_begin_again(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    tests.at_each = killed
    with pytest.raises(Killed):
        go(nodes)
    tests.at_each = lambda: None
    monkeypatch.setattr(testing.inventories, "collect", lambda *_, **__: ([], {"n1": "it is busy"}))
    monkeypatch.setattr(run.partners, "lent", lambda *_, **__: ["n2", "n3"])
    go(nodes)
    assert len(tests.made) == len(tests.resumed) == 1


def test_an_accepted_node_that_left_the_description_is_decided(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    kill_at("unreserve", nodes)
    left = journal.unended("lab")
    assert left is not None
    monkeypatch.setattr(System, "nodes", ["n2", "n3", "n4"])
    monkeypatch.setattr(run.partners, "lent", lambda *_, **__: ["n2", "n3"])
    ended = run.finish(left, [], lambda _: None)
    assert "no longer in the description of lab" in ended.decided["n1"]
    assert not nodes.reserved and "n1" not in nodes.open()


def test_a_node_that_returned_and_was_adopted_since_is_not_recorded_again(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    # All is unreserved, and the journal does not say so yet.
    nodes.at_each = lambda: None if nodes.reserved else killed()
    with pytest.raises(Killed):
        go(nodes)
    nodes.at_each = lambda: None
    assert "n1" in nodes.open() and journal.unended("lab") is not None
    store.accept("lab", taken("n1", "6.14"), "adopt", "alice")
    go(nodes)
    record = store.accepted("lab", "n1")
    assert record is not None
    assert (record.by, record.fields["kernel/release"]) == ("alice", "6.14")


def test_a_node_that_was_adopted_while_nothing_ran_is_not_recorded_as_it_was_tested(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator deleted its reservation after the run was killed."""
    tests.bad = set()
    held(nodes, "n1")
    kill_at("record", nodes)
    nodes.reserved.clear()
    monkeypatch.setattr(store, "now", lambda: "2999-01-01T00:00:00+00:00")
    store.accept("lab", taken("n1", "6.14"), "adopt", "alice")
    go(nodes)
    record = store.accepted("lab", "n1")
    assert record is not None
    assert (record.by, record.fields["kernel/release"]) == ("alice", "6.14")


def killed(*_: object, **__: object) -> None:
    raise Killed


def kill_at(where: str, nodes: Slurm) -> None:
    """A run that is killed as it comes to a step, or to the judgement of its campaign."""
    with pytest.MonkeyPatch.context() as patch:
        if where == "judge":
            patch.setattr(testing, "_judge", killed)
        else:
            steps = tuple(killed if s.__name__ == where else s for s in run.STEPS)
            patch.setattr(run, "STEPS", steps)
        with pytest.raises(Killed):
            go(nodes)
