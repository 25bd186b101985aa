"""The firmware gate with a real Slurm and real faults; `make drill` has all of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railgauge.lab.cluster import Lab

from .drill import drill


@pytest.mark.parametrize(
    "name", ["changed-field", "shaped-link", "killed-in-campaign", "killed-in-update"]
)
def test_no_untested_node_is_ever_open(
    mended: Lab, area: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # What the drill sets is set back afterwards.
    for variable, value in (("RAILGAUGE_RESULTS", str(area)), ("PATH", os.environ["PATH"])):
        monkeypatch.setenv(variable, value)
    drill(mended, area, name)
