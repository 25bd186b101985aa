"""A changed node that was not held is shown until it is held, tested, or as it was accepted."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path

import pytest

from railgauge.cluster import store
from railgauge.gate import coverage
from railgauge.node import gate as node_gate
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
    shown = [line for line in words.splitlines() if WHY in line]
    assert [line.split()[0] for line in shown] == ["n3"]
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


@pytest.mark.parametrize("how", ["drained by an admin", "in a gate run"])
def test_a_node_out_of_service_is_not_noted(area: Path, nodes: Slurm, how: str) -> None:
    if how == "in a gate run":
        nodes.reserve("railgauge_20261121T100000Z_abcd", ["n4"])
    else:
        nodes.drain(["n4"], "bad fan", by="")
    nodes.kernel["n4"] = "6.13"
    node_gate.hold(area, {"n4": document("n4", "6.13")}, act=True)
    assert store.not_held("lab", "n4") == ""


def test_it_is_not_shown_while_the_node_is_out_of_service(nodes: Slurm) -> None:
    nodes.drain(["n3"], "bad fan", by="")
    assert "and not held" not in said("status")[0]
    assert "and not held" not in said("status", "--json")[0]
    assert not any(WHY in remark for remark in remarks(nodes.show()))
    # It has changed all the same.
    nodes.resume(["n3"])
    assert WHY in said("status")[0]


def test_it_is_gone_once_a_pass_finds_that_the_gate_drained_the_node(nodes: Slurm) -> None:
    """A gate run has rejected it, or a rolling update drained it."""
    nodes.drain(["n3"], "Iperf2Pair n2 n3: too slow")
    said("hold", "--nodes", "n3")
    assert WHY in store_words()
    said("hold", "--nodes", "n3", "--act")
    assert store_words() == ""


def test_it_is_gone_once_a_patrol_holds_the_node(area: Path, nodes: Slurm) -> None:
    counted = dataclasses.replace(store.rules("lab").counted, max_hold=9)
    node_gate.keep_out(area, counted, {"n3": "too slow"}, act=False)
    assert WHY in store_words()
    node_gate.keep_out(area, counted, {"n3": "too slow"}, act=True)
    assert "n3" not in nodes.open() and store_words() == ""
