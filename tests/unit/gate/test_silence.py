"""Slurm 24.11 says of a node that it does not answer, for about a second after it was resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge.acceptance import accept
from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError
from railgauge.slurm import nodes as slurm_nodes

from .cluster import Campaigns, Slurm, gate, held, said


@pytest.fixture(autouse=True)
def silent_for_a_second(nodes: Slurm) -> None:
    nodes.silence_s = 1.2


def test_a_released_node_is_looked_at_once_it_answers(area: Path, nodes: Slurm) -> None:
    held(nodes, "n2")
    words, code = said("release", "--nodes", "n2", "--why", "a test", "--act")
    assert code == 0 and words.splitlines()[-1] == "n2: in service, untested (why: a test)"
    record = store.readable("lab", "n2")
    assert record is not None and record.fields["kernel/release"] == "6.13"


def test_a_tested_node_returns_once_it_answers(area: Path, nodes: Slurm, tests: Campaigns) -> None:
    tests.bad = set()
    tests.at_each = lambda: silent_while_tested.extend(nodes.silent)
    silent_while_tested: list[str] = []
    held(nodes, "n1")
    words, code = said("run", "--act")
    assert code == 0 and "n1: accepted, back in service" in words
    assert silent_while_tested == []


def test_a_node_that_is_silent_as_it_returns_is_waited_for(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    """A controller that was restarted takes every node for silent until it has registered."""
    tests.bad = set()
    tests.at_each = lambda: nodes.silent.update(n1=1.2)
    held(nodes, "n1")
    words, code = said("run", "--act")
    assert code == 0 and "n1: accepted, back in service" in words


def test_a_readmitted_node_returns_once_it_answers(
    area: Path, nodes: Slurm, tests: Campaigns
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    words, code = said("readmit", "--nodes", "n1", "--act")
    assert code == 0 and "n1: accepted, back in service" in words


def test_what_is_undone_is_drained_as_before(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        assert not nodes.silent
        raise PrerequisiteError("no room")

    monkeypatch.setattr(accept, "run", full)
    held(nodes, "n1")
    reason = nodes.show(["n1"])["n1"].reason
    words, code = said("run", "--act")
    assert code == 3 and "undone: n1 drained as before" in words
    assert nodes.show(["n1"])["n1"].reason == reason


def test_a_node_that_stays_silent_is_not_waited_for_without_end(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_nodes, "ANSWER_LIMIT_S", 0)
    nodes.silence_s = 1000
    held(nodes, "n1")
    words, code = said("run", "--act")
    assert code == 1 and "n1: stays out: does not answer Slurm (idle+not_responding" in words
    assert gate("release", "--nodes", "n1", "--why", "x", "--act") == 3
