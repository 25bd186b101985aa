"""The inventories of nodes, by Slurm's jobs."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from railgauge.cluster import inventories
from railgauge.slurm import client
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import SlurmNode


def test_a_node_that_slurm_does_not_know_hides_no_state_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No job waits a minute for a drained node."""
    known = {"n1": SlurmNode("n1", frozenset({"IDLE", "DRAIN"}), "bad fan", "root")}

    def show(names: Collection[str] = ()) -> dict[str, SlurmNode]:
        if missing := sorted(set(names) - set(known)):
            raise slurm_nodes.UnknownNodesError(missing)
        return known

    def output(*command: str, limit_s: float = 60) -> str:
        assert not [word for word in command if word == "--nodelist=n1"]
        raise SlurmError("srun: error: Invalid node name specified")

    monkeypatch.setattr(slurm_nodes, "show", show)
    monkeypatch.setattr(client, "output", output)
    taken, failed = inventories.collect("lab", ["n1", "n2"])
    assert not taken and failed["n1"] == "no job starts on it: drained by root: bad fan"
    assert "Invalid node name" in failed["n2"]
