"""What counts as a change, and what is held for it."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.node import gate as node_gate
from railgauge.node.gate import Rules, StoreError, changes
from railgauge.node.inventory.compare import Change
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode

from .cluster import Slurm, document, said, taken

RULES = Rules(("kernel/ignored",), max_hold=2, window_s=600)

ONELINE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=8 State=IDLE+DRAIN ThreadsPerCore=1 "
    "BootTime=2026-11-21T07:59:39 CurrentWatts=0  "
    "Reason=railgauge: firmware changed: nic/mlx5_0/firmware 1 -> 2 [root@2026-11-21T14:55:39]\n"
    "NodeName=n2 Arch=x86_64 CoresPerSocket=8 State=IDLE* ThreadsPerCore=1 CurrentWatts=0 \n"
    "NodeName=n3 Arch=x86_64 State=MIXED+DRAIN+RESERVED ThreadsPerCore=1  "
    "Reason=bad disk [root] [alice@2026-11-20T10:00:00] Comment=x\n"
)


def seen(**fields: Any) -> dict[str, Any]:
    return {"fields": {k.replace("__", "/"): v for k, v in fields.items()}, "unknown": {}}


def accepted(**fields: Any) -> dict[str, Any]:
    return {**seen(**fields), "unknown": []}


def test_what_is_advised_for_a_node_starts_without_an_installation(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "login1")
    words, code = said("hold")
    command = shlex.split(words.partition("or on a node: ")[2].splitlines()[0])
    assert code == 3 and str(area) in command
    ended = subprocess.run(
        ["/usr/bin/env", "-i", f"PATH={os.environ['PATH']}", *command, "--help"],
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


# ---- Slurm's words ----


def test_the_states_of_nodes_are_read() -> None:
    nodes = slurm_nodes.parse(ONELINE)
    assert nodes["n1"].drained_by_us and not nodes["n1"].busy
    assert nodes["n1"].reason.endswith("1 -> 2")
    assert (nodes["n1"].by, nodes["n1"].since) == ("root", "2026-11-21T14:55:39")
    assert not nodes["n2"].answers and not nodes["n2"].in_service
    assert nodes["n3"].drained and nodes["n3"].busy and not nodes["n3"].drained_by_us
    assert nodes["n3"].reason == "bad disk [root]"


def test_only_a_reason_that_begins_so_is_ours() -> None:
    drained = frozenset({"IDLE", "DRAIN"})
    assert not SlurmNode("n1", drained, "alice on railgauge: testing").drained_by_us
    assert not SlurmNode("n1", frozenset({"IDLE"}), "railgauge: left over").drained_by_us


# ---- what counts as a change ----


def test_a_field_of_another_value_is_a_change() -> None:
    found = changes(accepted(nic__a__firmware="1"), seen(nic__a__firmware="2"), RULES)
    assert found == [Change("nic/a/firmware", "1", "2")]
    assert found[0].brief == "nic/a/firmware 1 -> 2"


def test_a_part_that_was_replaced_is_a_change() -> None:
    assert changes(accepted(nic__a__node_guid="1"), seen(nic__a__node_guid="2"), RULES)
    assert changes(accepted(gpu__0__serial="1"), seen(gpu__0__serial="2"), RULES)


def test_a_device_that_is_gone_or_new_is_a_change() -> None:
    gone = changes(accepted(nic__a__firmware="1"), seen(), RULES)
    new = changes(accepted(), seen(nic__b__firmware="1"), RULES)
    assert [c.brief for c in gone] == ["nic/a/firmware is gone (was 1)"]
    assert [c.brief for c in new] == ["nic/b/firmware is new (1)"]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (accepted(nic__a__firmware="1"), {"fields": {}, "unknown": {"nic/a/firmware": "EACCES"}}),
        ({"fields": {}, "unknown": ["nic/a/firmware"]}, seen(nic__a__firmware="1")),
        (accepted(kernel__ignored="1"), seen(kernel__ignored="2")),
        (accepted(net__eth0__speed_mbits=1), seen(net__eth0__speed_mbits=2)),
        (accepted(), seen(net__eth0__operstate="up")),
    ],
    ids=["now unknown", "unknown before", "ignored", "state", "new state"],
)
def test_unknown_and_ignored_are_no_change(before: dict[str, Any], now: dict[str, Any]) -> None:
    assert changes(before, now, RULES) == []


def states(outcomes: Sequence[node_gate.HoldOutcome]) -> dict[str, str]:
    return {outcome.node: outcome.state for outcome in outcomes}


def test_a_changed_node_is_drained_with_the_field_in_its_reason(area: Path, nodes: Slurm) -> None:
    outcomes = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert states(outcomes) == {"n1": "held"}
    assert nodes.show(["n1"])["n1"].reason == (
        "railgauge: firmware changed: kernel/release 6.12 -> 6.13"
    )


def test_a_changed_node_that_a_user_set_down_does_not_come_back_by_itself(
    area: Path, nodes: Slurm
) -> None:
    """As it would when it registers, with ReturnToService=2."""
    nodes.flags["n1"], nodes.reason["n1"] = {"DOWN"}, ("bad fan", "root", "")
    (outcome,) = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert outcome.state == "alarm" and "bad fan; down until a user resumes it" in outcome.why
    assert nodes.show(["n1"])["n1"].drained
    (held,) = json.loads((area / node_gate.HOLDS).read_text())
    assert held["node"] == "n1"


@pytest.mark.parametrize("drained", [{"DRAIN"}, set()])
@pytest.mark.parametrize("after", ["UNDRAIN", "RESUME", ""])
@pytest.mark.parametrize("reason", ["railgauge: updated", "BIOS 2.1", "Reboot ASAP"])
def test_a_changed_node_stays_out_after_scontrol_reboot(
    area: Path, nodes: Slurm, drained: set[str], after: str, reason: str
) -> None:
    """Slurm takes the drain of a node away that it restarted to be in service then."""
    nodes.flags["n1"] = {"DOWN", "REBOOT_ISSUED", *drained}
    nodes.reason["n1"] = (f"{reason} : reboot issued", "root", "2026-11-21T10:00:00")
    nodes.next_state["n1"] = after
    (outcome,) = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    nodes.register("n1")
    node = nodes.show(["n1"])["n1"]
    assert node.drained, outcome
    # Who drained it before keeps it; else the gate tests it.
    kept = bool(drained) and not after and not reason.startswith("railgauge")
    assert node.drained_by_us is not kept
    assert outcome.state == ("alarm" if kept else "was held" if drained and not after else "held")


def test_a_node_that_is_to_be_down_after_its_reboot_is_not_held(area: Path, nodes: Slurm) -> None:
    nodes.flags["n1"] = {"DOWN", "REBOOT_ISSUED"}
    nodes.reason["n1"] = ("RMA 4711 : reboot issued", "bob", "2026-11-21T10:00:00")
    nodes.next_state["n1"] = "DOWN"
    (outcome,) = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    nodes.register("n1")
    assert outcome.state == "alarm" and not nodes.show(["n1"])["n1"].in_service


def test_a_partner_that_changed_during_a_test_is_held(area: Path, nodes: Slurm) -> None:
    """The run returns it as it borrowed it, and looks at it no more."""
    nodes.reserve("railgauge_20261121T100000Z_abcd_untested", ["n1"])
    nodes.reserve("railgauge_20261121T100000Z_abcd", ["n1", "n2"])
    found = node_gate.hold(area, {n: document(n, "6.13") for n in ("n1", "n2")}, act=True)
    nodes.reserved.clear()
    assert states(found) == {"n1": "alarm", "n2": "held"} and "n2" not in nodes.open()


def test_without_act_nothing_is_drained(area: Path, nodes: Slurm) -> None:
    outcomes = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=False)
    assert states(outcomes) == {"n1": "changed"}
    assert nodes.open() == {"n1", "n2", "n3", "n4"}


def test_where_nothing_changed_slurm_is_not_asked(
    area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "output", lambda *_: pytest.fail("asked"))
    assert states(node_gate.hold(area, {"n1": document("n1")}, act=True)) == {"n1": "unchanged"}


def test_a_node_never_accepted_is_reported_and_not_held(area: Path, nodes: Slurm) -> None:
    node_gate.record_path(area, "n1").unlink()
    assert states(node_gate.hold(area, {"n1": document("n1")}, act=True)) == {"n1": "unadopted"}
    assert "n1" in nodes.open()


def test_beyond_max_hold_there_is_only_the_alarm(area: Path, nodes: Slurm) -> None:
    everyone = {name: document(name, "6.13") for name in ("n1", "n2", "n3", "n4")}
    outcomes = node_gate.hold(area, everyone, act=True)
    assert sorted(states(outcomes).values()) == ["alarm", "alarm", "held", "held"]
    assert len(nodes.open()) == 2


def test_what_was_held_a_moment_ago_counts_whatever_became_of_it(area: Path, nodes: Slurm) -> None:
    """Returned, or drained again with another reason, as by gate runs in between."""
    for name in ("n3", "n4"):
        assert states(node_gate.hold(area, {name: document(name, "6.13")}, act=True)) == {
            name: "held"
        }
    nodes.resume(["n3"])
    nodes.drain(["n4"], "Iperf2Pair n3 n4: too slow")
    assert states(node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)) == {"n1": "alarm"}


def test_what_was_held_before_the_window_does_not_count(area: Path, nodes: Slurm) -> None:
    old = node_gate.time.time() - 901
    held_then = [{"node": name, "at": old, "why": ""} for name in ("n3", "n4")]
    (area / node_gate.HOLDS).write_text(json.dumps(held_then))
    assert states(node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)) == {"n1": "held"}
    assert len(json.loads((area / node_gate.HOLDS).read_text())) == 1


def test_what_a_wrong_clock_dated_far_in_the_future_does_not_count(
    area: Path, nodes: Slurm
) -> None:
    then = node_gate.time.time() + 1e8
    held_then = [{"node": name, "at": then, "why": ""} for name in ("n3", "n4")]
    (area / node_gate.HOLDS).write_text(json.dumps(held_then))
    assert states(node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)) == {"n1": "held"}


def test_slurm_is_asked_while_others_may_count(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage all nodes of a cluster come at once, and scontrol takes its time."""
    show = slurm_nodes.show

    def shown() -> dict[str, SlurmNode]:
        with (area / "hold.lock").open("w") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return show()

    monkeypatch.setattr(slurm_nodes, "show", shown)
    assert states(node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)) == {"n1": "held"}


def test_a_pass_waits_for_another_up_to_a_limit(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_gate, "LOCK_LIMIT_S", 0.2)
    with (area / "hold.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="taken for more than"):
            node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert "n1" in nodes.open()


def test_a_run_that_had_to_wait_looks_again(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator's pass has drained the node meanwhile: it is not counted twice."""
    others: list[str] = []
    with (area / "hold.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def wait(_: float) -> None:
            if not others:
                others.append("n1")
                nodes.drain(["n1"], "firmware changed: kernel/release")
                fcntl.flock(other, fcntl.LOCK_UN)

        monkeypatch.setattr(node_gate.time, "sleep", wait)
        found = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert states(found) == {"n1": "was held"} and others
    assert not (area / node_gate.HOLDS).exists()


def test_holds_that_cannot_be_counted_are_alarms(area: Path, nodes: Slurm) -> None:
    (area / node_gate.HOLDS).write_text('[{"node": "n')
    found = node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert states(found) == {"n1": "alarm"} and "holds.json" in str(found[0])
    assert "n1" in nodes.open()


def test_a_node_of_another_user_is_left_alone(area: Path, nodes: Slurm) -> None:
    nodes.drain(["n1"], "bad disk", by="")
    nodes.reserve("other", ["n2"])
    everyone = {name: document(name, "6.13") for name in ("n1", "n2")}
    assert set(states(node_gate.hold(area, everyone, act=True)).values()) == {"alarm"}
    assert nodes.show(["n1"])["n1"].reason == "bad disk"


def test_a_store_that_is_not_there_changes_nothing(tmp_path: Path, nodes: Slurm) -> None:
    with pytest.raises(StoreError, match=r"gate adopt --act"):
        node_gate.hold(tmp_path / "gone", {"n1": document("n1")}, act=True)
    assert "n1" in nodes.open()


def test_a_store_that_hangs_changes_nothing(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = node_gate.record_path(area, "n1")
    record.unlink()
    # Reading a FIFO that nobody writes waits for ever, as a file server may.
    node_gate.os.mkfifo(record)
    monkeypatch.setattr(node_gate, "STORE_LIMIT_S", 0.2)
    with pytest.raises(StoreError, match="no answer within"):
        node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert "n1" in nodes.open()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ignore": 3}', "nul"])
def test_damaged_rules_change_nothing(area: Path, nodes: Slurm, content: str) -> None:
    (area / "rules.json").write_text(content)
    with pytest.raises(StoreError):
        node_gate.hold(area, {"n1": document("n1", "6.13")}, act=True)
    assert "n1" in nodes.open()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"fields": 3, "unknown": []}', "nul"])
def test_a_damaged_record_concerns_its_own_node(area: Path, nodes: Slurm, content: str) -> None:
    node_gate.record_path(area, "n1").write_text(content)
    found = node_gate.hold(area, {name: document(name, "6.13") for name in ("n1", "n2")}, act=True)
    assert states(found) == {"n1": "alarm", "n2": "held"}
    assert "gate adopt --again --act --nodes n1" in str(found[0])
    assert "n1" in nodes.open()


def test_damaged_records_are_named(area: Path) -> None:
    node_gate.record_path(area, "n1").write_text("{}")
    with pytest.raises(RailgaugeError, match=r"n1\.json"):
        store.accepted("lab", "n1")


def test_an_unwritable_store_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gate").write_text("a file where the folder should be")
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    with pytest.raises(PrerequisiteError, match="RAILGAUGE_RESULTS"):
        store.publish_rules("lab")


# ---- what sets the nodes of a gate run apart ----


def test_only_what_a_gate_run_accepted_may_differ(area: Path) -> None:
    store.accept("lab", taken("n2", "6.13"), "run", "a campaign")
    store.accept("lab", taken("n3", "6.14"), "release", "a word")
    found = store.tested("lab", {"ns": ["n1", "n2", "n3", "n4"]})
    assert found == {"n2": {"kernel/release": "6.13"}}


def test_what_a_partner_was_accepted_with_may_differ_however_it_was_accepted(area: Path) -> None:
    store.accept("lab", taken("n2", "6.13"), "release", "a word")
    found = store.tested("lab", {"ns": ["n1", "n2", "n3"]}, partners=["n1"])
    assert found == {"n1": {"kernel/release": "6.12"}}


def test_where_all_records_agree_nothing_may_differ(area: Path) -> None:
    for name in ("n1", "n2", "n3", "n4"):
        store.accept("lab", taken(name, "6.13"), "run", "a campaign")
    assert store.tested("lab", {"ns": ["n1", "n2", "n3", "n4"]}) == {}


def test_a_damaged_record_lets_nothing_differ(area: Path) -> None:
    store.accept("lab", taken("n2", "6.13"), "run", "a campaign")
    node_gate.record_path(area, "n2").write_text("")
    assert store.tested("lab", {"ns": ["n1", "n2"]}) == {}
