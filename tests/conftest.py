"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def samples() -> Path:
    """Real outputs of tools, kept beside the project: $RAILGAUGE_SAMPLES, or ../shared/samples."""
    folder = Path(os.environ.get("RAILGAUGE_SAMPLES") or HOME.parent / "shared" / "samples")
    if not folder.is_dir():
        pytest.skip(f"{folder}: no sample outputs here; RAILGAUGE_SAMPLES names another folder")
    return folder
