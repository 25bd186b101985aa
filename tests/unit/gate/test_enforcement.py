"""What gate.yaml lets a check do."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge import paths
from railgauge.cluster.store import GateRules
from railgauge.gate import enforcement
from railgauge.yamlfile import load_model

FILES = sorted(paths.HOME.glob("configs/*/*/gate.yaml"))


def test_a_new_check_only_records() -> None:
    assert enforcement.of(GateRules(), "Brandnew") == "record"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_a_shipped_file_names_checks_that_there_are(path: Path) -> None:
    assert load_model(path, GateRules).enforcement
