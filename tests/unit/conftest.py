"""What every unit test starts from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import paths, systems


@pytest.fixture(autouse=True)
def no_lab_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the lab may have gone before on this worker, and their lab may be up."""
    monkeypatch.delenv("RAILGAUGE_LAB_DIR", raising=False)


@pytest.fixture
def no_nodes_in_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm that answers, and knows no node: whether one runs here is no part of a unit test."""
    monkeypatch.setattr("railgauge.acceptance.session.in_lab", lambda system: False)
    monkeypatch.setattr("railgauge.slurm.nodes.show", lambda names=(): {})


@pytest.fixture
def own_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders of systems and references, empty, that this test alone sees; both in `tmp_path`."""
    (tmp_path / "systems").mkdir()
    (tmp_path / "references").mkdir()
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path / "systems")
    monkeypatch.setenv("RAILGAUGE_REFERENCES", str(tmp_path / "references"))
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    systems.load.cache_clear()
    yield tmp_path
    systems.load.cache_clear()
