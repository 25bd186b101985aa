"""A changed node that was not held is shown until it is held, tested, or as it was accepted."""

from __future__ import annotations

import dataclasses
import datetime
import io
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge.cluster import store
from railgauge.gate import coverage
from railgauge.node import gate as node_gate
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.nodes import SlurmNode

from .cluster import Slurm, document, said, taken

WHY = "changed, and not held: max_hold, 2 in 900 s, is reached: firmware changed: kernel/release"


@pytest.fixture(autouse=True)
def three_changed(area: Path, nodes: Slurm) -> None:
    """Of three changed nodes two are held."""
    for name in ("n1", "n2", "n3"):
        nodes.kernel[name] = "6.13"
    assert said("hold", "--nodes", "n[1-4]", "--act")[1] == 1
    assert nodes.open() == {"n3", "n4"}


def remarks(states: Mapping[str, SlurmNode] = {}) -> list[str]:
    now = datetime.datetime.now(datetime.timezone.utc)
    (line,) = coverage.lines("lab", ["n3"], states, now)
    return line.remarks


def store_words() -> str:
    why = store.not_held("lab", "n3")
    return why and f"changed, and {why}"


def test_status_and_coverage_show_it(nodes: Slurm) -> None:
    words, _ = said("status")
    of_n3 = words.partition("\nn3 ")[2].partition("\nn4 ")[0]
    assert WHY in " ".join(of_n3.split()) and "max_hold, " not in words.replace(of_n3, "")
    assert "n3: changed since it was accepted, and not held\n  next: raise max_hold" in words
    assert any(WHY in remark for remark in remarks())
    assert any(WHY in remark for remark in remarks(nodes.show()))


def test_what_would_be_done_notes_nothing(nodes: Slurm) -> None:
    nodes.kernel["n4"] = "6.13"
    said("hold", "--nodes", "n4")
    assert store.not_held("lab", "n4") == ""


def test_it_is_shown_until_it_is_accepted() -> None:
    store.accept("lab", taken("n3", "6.13"), "run", "a campaign")
    assert WHY not in said("status")[0]


def test_it_is_shown_until_it_is_held(area: Path, nodes: Slurm) -> None:
    (area / node_gate.HOLDS).unlink()
    said("hold", "--nodes", "n3", "--act")
    assert "n3" not in nodes.open() and WHY not in said("status")[0]


def test_it_is_shown_until_it_is_as_it_was_accepted(nodes: Slurm) -> None:
    nodes.kernel["n3"] = "6.12"
    said("hold", "--nodes", "n3", "--act")
    assert WHY not in said("status")[0]


def test_a_damaged_note_is_one(area: Path) -> None:
    node_gate.not_held_path(area, "n3").write_text("[")
    assert "is damaged" in store.not_held("lab", "n3")


def test_a_node_under_test_is_not_noted(area: Path, nodes: Slurm) -> None:
    """Its gate run decides it."""
    for end in ("", slurm_nodes.UNTESTED):
        nodes.reserve(f"railgauge_20261121T100000Z_abcd{end}", ["n4"])
    (outcome,) = node_gate.hold(area, {"n4": document("n4", "6.13")}, act=True)
    assert outcome.why.endswith("left to the gate run")
    assert store.not_held("lab", "n4") == "" and not nodes.show(["n4"])["n4"].drained


@pytest.mark.parametrize("how", ["drained by root: bad fan", "in reservation hpl"])
def test_what_changed_in_another_users_hands_is_shown_once_it_is_back(
    area: Path, nodes: Slurm, how: str
) -> None:
    """They return it untested, and its next start may be months away."""
    if "drained" in how:
        nodes.drain(["n4"], "bad fan", by="")
    else:
        nodes.reserve("hpl", ["n4"])
    node_gate.hold(area, {"n4": document("n4", "6.13")}, act=True)
    assert how not in said("status")[0].partition("n4: changed")[2]
    nodes.flags["n4"] -= {"DRAIN"}
    nodes.reserved.clear()
    assert nodes.show(["n4"])["n4"].in_service
    words = " ".join(said("status")[0].split())
    assert f"changed, and not held: it was {how}" in words
    assert "railgauge gate hold --nodes n[3-4] --act" in words


def test_max_hold_is_no_reason_where_another_user_had_the_node(area: Path, nodes: Slurm) -> None:
    node_gate.not_held_path(area, "n3").unlink()
    nodes.reserve("hpl", ["n4"])
    node_gate.hold(area, {"n4": document("n4", "6.13")}, act=True)
    nodes.reserved.clear()
    assert "and not held\n  next: railgauge gate hold --nodes n4 --act" in said("status")[0]


def test_it_is_not_shown_while_the_node_is_out_of_service(nodes: Slurm) -> None:
    nodes.drain(["n3"], "bad fan", by="")
    assert "and not held" not in said("status")[0]
    assert "and not held" not in said("status", "--json")[0]
    assert not any(WHY in remark for remark in remarks(nodes.show()))
    # It has changed all the same.
    nodes.resume(["n3"])
    assert WHY in " ".join(said("status")[0].split())


def test_it_is_gone_once_a_pass_finds_that_the_gate_drained_the_node(nodes: Slurm) -> None:
    """A gate run has rejected it, or a rolling update drained it."""
    nodes.drain(["n3"], "Iperf2Pair n2 n3: too slow")
    said("hold", "--nodes", "n3")
    assert WHY in store_words()
    said("hold", "--nodes", "n3", "--act")
    assert store_words() == ""


def test_it_is_gone_once_a_patrol_holds_the_node(area: Path, nodes: Slurm) -> None:
    counted = dataclasses.replace(store.rules("lab").counted, max_hold=9)
    node_gate.drain_within_cap(area, counted, {"n3": "too slow"}, act=False)
    assert WHY in store_words()
    node_gate.drain_within_cap(area, counted, {"n3": "too slow"}, act=True)
    assert "n3" not in nodes.open() and store_words() == ""


# ---- a folder of notes that another user has closed ----


@pytest.fixture
def closed(area: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of notes as it is to a user who may not enter it."""

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Any, *more: Any, **named: Any) -> Any:
            if isinstance(path, str | Path) and Path(path).parent == area / "not_held":
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *more, **named)

        return refuse

    for name in ("stat", "unlink"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))
    monkeypatch.setattr(io, "open", refusing(io.open))


def test_a_closed_folder_of_notes_hides_no_change(closed: None, area: Path, nodes: Slurm) -> None:
    (area / node_gate.HOLDS).unlink()
    found = node_gate.hold(area, {n: document(n, "6.13") for n in ("n3", "n4")}, act=True)
    assert [outcome.state for outcome in found] == ["held", "held"]


def test_of_a_closed_folder_of_notes_none_is_known(closed: None) -> None:
    assert store.not_held("lab", "n3") == ""
    assert "damaged" not in said("status")[0]


def test_a_closed_folder_of_notes_keeps_no_node_from_being_accepted(closed: None) -> None:
    store.accept("lab", taken("n3", "6.13"), "run", "a campaign")
    record = store.accepted("lab", "n3")
    assert record is not None and record.fields["kernel/release"] == "6.13"


def test_the_folder_of_notes_is_made_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root makes it on a node otherwise, with a mode of its own."""
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path / "another"))
    store.publish_rules("lab")
    area = store.folder("lab")
    notes, records = area / "not_held", area / "nodes"
    assert (notes.stat().st_mode, notes.stat().st_uid) == (
        records.stat().st_mode,
        records.stat().st_uid,
    )


def test_a_node_makes_no_folder_of_notes(area: Path, nodes: Slurm) -> None:
    shutil.rmtree(area / "not_held")
    nodes.kernel["n4"] = "6.13"
    (outcome,) = node_gate.hold(area, {"n4": document("n4", "6.13")}, act=True)
    assert outcome.state == "alarm" and not (area / "not_held").exists()
