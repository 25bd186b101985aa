"""What `gate status` says, and of which store."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge import paths
from railgauge.slurm import nodes as slurm_nodes

from .cluster import Slurm, held, said


def test_nodes_that_slurm_does_not_know_are_one_line(area: Path, nodes: Slurm) -> None:
    del nodes.flags["n4"], nodes.flags["n5"], nodes.flags["n6"]
    words, code = said("status")
    rows, _, last = words.partition("Slurm knows no ")
    assert code == 3 and last.splitlines()[0] == "n[4-6]"
    of_nodes = [line for line in rows.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in of_nodes] == ["n1", "n2", "n3"]


def test_a_command_about_nodes_that_slurm_does_not_know_says_so_once(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(names: object = ()) -> None:
        raise slurm_nodes.UnknownNodesError(["n5", "n6"])

    monkeypatch.setattr(slurm_nodes, "show", show)
    words, code = said("run")
    assert code == 3 and words.splitlines()[0] == "Slurm knows no n[5-6]"


def test_what_a_node_is_held_for_is_said(area: Path, nodes: Slurm) -> None:
    held(nodes, "n2")
    words, code = said("status", "--nodes", "n2")
    assert code == 0 and "firmware changed" in words


def test_a_store_that_was_left_behind_is_said(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "SITE", tmp_path / "checkout")
    own = tmp_path / "checkout" / "results" / "gate" / "lab"
    assert str(own) not in said("status")[0]
    own.mkdir(parents=True)
    (own / "rules.json").touch()
    words, code = said("status")
    assert code == 0 and f"it is {area} here, and {own} does not count" in words


def test_a_damaged_suspect_names_no_gate_run(area: Path, nodes: Slurm) -> None:
    path = area / "suspects" / "n2.json"
    path.write_text("{")
    words, code = said("status", "--nodes", "n2")
    assert code == 0 and f"suspect: {path} is damaged" in " ".join(words.split())
    assert "gate run unknown" not in words
