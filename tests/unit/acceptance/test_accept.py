"""What an acceptance looks at before it begins."""

from __future__ import annotations

from typing import Any

import pytest

from railgauge import systems
from railgauge.acceptance import accept
from railgauge.campaign.folder import Scope
from railgauge.cluster import ready
from railgauge.slurm import jobs as slurm_jobs


@pytest.mark.parametrize(("owner", "asked"), [(None, {"iperf"}), ("gate run 7", set())])
def test_a_node_without_a_tool_keeps_no_other_from_being_tested_by_the_gate(
    monkeypatch: pytest.MonkeyPatch, owner: str | None, asked: set[str]
) -> None:
    """The look refuses all nodes for one; the check finds that one out by itself."""
    given: list[Any] = []
    monkeypatch.setattr(ready, "require", lambda *words: given.extend(words))
    monkeypatch.setattr(slurm_jobs, "own_nodes", lambda: ())
    scope = Scope({"ns": ["n1", "n2"]}, {"ns": ["Iperf2Pair"]})
    accept._require_ready("lab", scope, [], lambda _: None, owner)
    tools = given[5]
    assert set(tools(systems.load("lab").partition("ns"))) == asked
