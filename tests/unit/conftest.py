"""What every unit test starts from."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_lab_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the lab may have gone before on this worker, and their lab may be up."""
    monkeypatch.delenv("RAILGAUGE_LAB_DIR", raising=False)
