"""A reservation without an end whose gate run has no journal here: it is told, and left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.gate import journal

from .cluster import Campaigns, Killed, Slurm, go, held, said


@pytest.fixture
def killed(area: Path, nodes: Slurm, tests: Campaigns) -> Path:
    """The journal of a gate run of n1 that was killed in mid-test, an hour ago."""
    tests.bad = set()
    held(nodes, "n1")

    def kill() -> None:
        raise Killed

    tests.at_each = kill
    with pytest.raises(Killed):
        go(nodes)
    tests.at_each = lambda: None
    nodes.lapse()
    (path,) = (area / "runs").glob("*.json")
    return path


@pytest.mark.parametrize("command", [["status"], ["run"], ["run", "--act"]])
def test_a_reservation_of_a_gate_run_without_a_journal_is_reported_with_what_to_type(
    killed: Path, nodes: Slurm, command: list[str]
) -> None:
    killed.unlink()
    words = " ".join(said(*command)[0].split())
    name = f"railgauge_{killed.stem}_untested"
    assert f"reservation {name} keeps n1 out" in words
    drained = f'state=drain reason="railgauge: gate run {killed.stem} lost its journal"'
    assert f"scontrol update nodename=n1 {drained}; scontrol delete reservationname={name}" in words


def test_a_gate_run_does_not_end_well_next_to_such_a_reservation(
    killed: Path, nodes: Slurm
) -> None:
    killed.unlink()
    words, code = said("run", "--act")
    assert code == 1 and "nothing to test" not in words


def test_a_node_in_such_a_reservation_is_not_opened(killed: Path, nodes: Slurm) -> None:
    killed.unlink()
    said("run", "--act")
    assert "n1" not in nodes.open() and f"railgauge_{killed.stem}_untested" in nodes.reserved


def test_what_is_to_be_typed_has_the_node_tested(killed: Path, nodes: Slurm) -> None:
    killed.unlink()
    nodes.drain(["n1"], f"gate run {killed.stem} lost its journal")
    nodes.unreserve(f"railgauge_{killed.stem}_untested")
    words, code = said("run", "--act")
    assert code == 0 and "n1: accepted, back in service" in words and "n1" in nodes.open()


@pytest.mark.parametrize("content", [None, "{"])
def test_a_gate_run_that_goes_on_has_its_reservation(
    killed: Path, nodes: Slurm, content: str | None
) -> None:
    if content is not None:
        killed.write_text(content)
    assert "keeps n1 out" not in said("status")[0] + said("run", "--act")[0]


def test_a_gate_run_that_begins_meanwhile_has_its_reservation(
    area: Path, nodes: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = journal.Run("20261121T110000Z_abcd", "lab", ["n1"], [], "", "")
    nodes.reserve(run.untested, ["n1"])
    read = journal.runs

    def then_begins(system: str) -> list[journal.Run]:
        known = read(system)
        run.save()
        return known

    monkeypatch.setattr(journal, "runs", then_begins)
    assert "keeps n1 out" not in said("status")[0]


@pytest.mark.parametrize("name", ["railgauge_20261121T110000Z_abcd", "alices_untested"])
def test_other_reservations_are_not_meant(area: Path, nodes: Slurm, name: str) -> None:
    nodes.reserve(name, ["n1"])
    assert "keeps n1 out" not in said("status")[0]


def test_nodes_of_another_system_are_not_meant(area: Path, nodes: Slurm) -> None:
    nodes.reserve("railgauge_20261121T110000Z_abcd_untested", ["gpu1"])
    assert said("run", "--act") == ("railgauge holds no idle node: nothing to test\n", 0)
