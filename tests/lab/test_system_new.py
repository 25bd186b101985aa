"""`railgauge system new --detect` on the embedded cluster's nodes, which no system describes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from railgauge import paths, systems
from railgauge.lab.cluster import Lab
from railgauge.site.cli import system as commands


@pytest.fixture
def login_node(cluster: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A checkout without systems, where the lab's Slurm is the only one."""
    (tmp_path / "systems").mkdir()
    (tmp_path / "references").mkdir()
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path / "systems")
    monkeypatch.setenv("RAILGAUGE_REFERENCES", str(tmp_path / "references"))
    monkeypatch.setenv("PATH", f"{cluster.folders.bin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    systems.load.cache_clear()
    yield
    systems.load.cache_clear()


def test_a_plain_cluster_is_described_by_its_nodes(login_node: None) -> None:
    words = ["new", "mine", "--like", "tcp", "--detect", "--partition", "ns"]
    answer = CliRunner().invoke(commands, words)
    assert answer.exit_code == 0, answer.exception
    extras = systems.load("mine").partition("ns").extras
    assert (extras.nodes, extras.mtu_bytes, extras.link_gbits) == ("n[1-4]", 4200, None)
    # A veth says 10 Gb/s, whatever it is shaped to.
    assert "link_gbits is open: eth0 is virtual" in answer.output


def test_rails_are_found_on_the_nodes(login_node: None) -> None:
    words = ["new", "mine", "--like", "roce", "--detect", "--partition", "vm"]
    answer = CliRunner().invoke(commands, words)
    assert answer.exit_code == 0, answer.exception
    rdma = systems.load("mine").partition("vm").extras.rdma
    assert rdma is not None
    assert (rdma.devices, rdma.rails, rdma.active_mtu_bytes) == ("rxe0|rxe1", 2, 4096)
    assert (rdma.gid_type, rdma.line_gbits) == ("RoCE v2", None)
