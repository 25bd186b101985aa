"""What happened to nodes, as accounting has it."""

from __future__ import annotations

import datetime

import pytest

from railgauge.slurm import client, events
from railgauge.slurm.client import SlurmError

#: As sacctmgr of Slurm 24.11 prints it: `$` is a maintenance.
PRINTED = """\
n1|2026-11-28T01:51:19|DOWN|bad disk|alice(1000)
n2|2026-11-28T01:51:46|DRAIN|railgauge: test|root(0)
n2|2026-11-28T01:51:50|DOWN$|bad fan | left|alice(1000)
n3|2026-11-28T01:51:52|DOWN*|Not responding|slurm(64030)
n4|Unknown|DOWN|odd|alice(1000)
n5|2026-11-28T01:51:46|DOWN|bad fan|alice(1000)
n6|2026-11-28T01:51:46|DOWN|BIOS 2.1 : reboot issued|alice(1000)
n7|2026-11-28T01:51:46|DOWN|BIOS 2.1 : reboot complete|alice(1000)
n8|2026-11-28T01:51:46|DOWN|wait for reboot complete|alice(1000)
n8|2026-11-28T01:51:53|DOWN*|wait for reboot complete : reboot issued|alice(1000)
"""
SINCE = datetime.datetime(2026, 11, 28, 1, 51, 45).astimezone()


def test_only_what_a_person_set_down_since_then_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def output(*command: str) -> str:
        asked.extend(command)
        return PRINTED

    monkeypatch.setattr(client, "output", output)
    found = events.set_down_since(dict.fromkeys(["n3", "n1", "n2"], SINCE))
    assert [(name, node.by, node.reason) for name, node in found.items()] == [
        ("n2", "alice", "bad fan | left")
    ]
    assert {"nodes=n[1-3]", "start=2026-11-28T01:51:45"} <= set(asked)


def test_without_accounting_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "answer", lambda *_, **__: ("", SlurmError("no slurmdbd")))
    with pytest.raises(SlurmError, match="no slurmdbd"):
        events.set_down_since({"n1": SINCE})
    assert events.set_down_since({}) == {}


def test_each_node_has_its_own_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def output(*command: str) -> str:
        asked.extend(command)
        return PRINTED

    monkeypatch.setattr(client, "output", output)
    later = SINCE + datetime.timedelta(seconds=10)
    assert set(events.set_down_since({"n2": SINCE, "n5": later})) == {"n2"}
    assert set(events.set_down_since({"n2": later, "n5": SINCE})) == {"n5"}
    assert asked.count("start=2026-11-28T01:51:45") == 2


def test_a_reboot_that_a_person_issued_sets_no_node_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "output", lambda *_: PRINTED)
    found = events.set_down_since(dict.fromkeys(["n6", "n7", "n8"], SINCE))
    assert {name: node.reason for name, node in found.items()} == {"n8": "wait for reboot complete"}
