"""What gate.yaml lets a check do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.cluster.store import GateRules
from railgauge.gate import teeth
from railgauge.yamlfile import load_model

FILES = sorted(paths.HOME.glob("configs/*/*/gate.yaml"))
CHECKS = {
    name
    for path in paths.CHECKS.glob("*.py")
    for name in re.findall(r"^class (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def test_a_new_check_only_records() -> None:
    assert teeth.of(GateRules(), "Brandnew") == "record"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_a_shipped_file_names_checks_that_there_are(path: Path) -> None:
    named = load_model(path, GateRules).teeth
    assert named and set(named) <= CHECKS
