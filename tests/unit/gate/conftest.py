"""The gate's fixtures."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from railgauge.acceptance import accept, session
from railgauge.cluster import inventories, store
from railgauge.gate import lease, testing
from railgauge.slurm import client, events, reservations
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes

from .cluster import Answers, Campaigns, Slurm, taken


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    fake = Slurm(["n1", "n2", "n3", "n4", "n5", "n6"])
    monkeypatch.setattr(client, "output", Answers("admin"))
    for name in ("show", "drain", "comment", "reservations"):
        monkeypatch.setattr(slurm_nodes, name, getattr(fake, name))
    monkeypatch.setattr(slurm_nodes, "_set_resumed", fake.resume)
    clock = SimpleNamespace(sleep=fake.sleep, monotonic=lambda: fake.now_s)
    monkeypatch.setattr(slurm_nodes, "time", clock)
    monkeypatch.setattr(events, "set_down_since", lambda *_: {})
    monkeypatch.setattr(slurm_jobs, "suspended_on", fake.suspended_on)
    monkeypatch.setattr(slurm_jobs, "cancel_jobs_of", fake.cancelled.append)
    monkeypatch.setattr(inventories, "collect", fake.collect)
    for name in ("reserve", "renew", "unreserve"):
        monkeypatch.setattr(reservations, name, getattr(fake, name))
    monkeypatch.setattr(reservations, "nodes_of", fake.reserved.get)
    monkeypatch.setattr(lease, "renewed", lambda _: contextlib.nullcontext())
    return fake


@pytest.fixture
def area(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The store of the lab, with n1 to n4 accepted."""
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    store.publish_rules("lab")
    for name in ("n1", "n2", "n3", "n4"):
        store.accept("lab", taken(name), "adopt", "untested")
    folder = store.folder("lab")
    rules = json.loads((folder / "rules.json").read_text())
    (folder / "rules.json").write_text(json.dumps({**rules, "max_hold": 2}))
    return folder


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch, nodes: Slurm) -> Iterator[Campaigns]:
    fake = Campaigns({"n2"}, lambda: nodes.at_each())
    monkeypatch.setattr(accept, "run", fake.run)
    monkeypatch.setattr(accept, "resume", fake.resume)
    monkeypatch.setattr(testing, "load", fake.made.__getitem__)
    monkeypatch.setattr(testing.rules, "decide", fake.verdict)
    as_tested = {node: taken(node, "6.13") for node in ("n1", "n2", "n3")}
    monkeypatch.setattr(testing, "in_campaign", lambda _: as_tested)
    yield fake


@pytest.fixture(autouse=True)
def no_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands stay in this process, where Slurm is ours."""
    monkeypatch.setattr(session, "in_lab", lambda _: False)
