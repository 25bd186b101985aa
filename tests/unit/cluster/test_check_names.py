"""A check that gate.yaml names, and that there is none of, is an error: it would only record."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.cluster import check_names
from railgauge.cluster.store import GateRules
from railgauge.common.errors import ConfigurationError
from railgauge.yamlfile import load_model

OWN = """\
import reframe as rfm

class Base(rfm.RunOnlyRegressionTest):
    pass

@rfm.simple_test
class SiteStream(Base):
    pass

made = rfm.core.meta.make_test("SiteMade", (Base,), {})
"""


@pytest.fixture
def gate_yaml(tmp_path: Path) -> Path:
    path = tmp_path / "gate.yaml"
    path.write_text("max_hold: 4\nteeth:\n  Iperf2Pair: hold\n  RdmaQueuePairs: hold\n")
    return path


@pytest.fixture
def site_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "reframe"
    folder.mkdir()
    monkeypatch.setattr(paths, "CHECKS", folder)
    (folder / "own.py").write_text(OWN)
    return folder


def test_a_name_that_is_no_check_is_an_error_with_its_line(gate_yaml: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_model(gate_yaml, GateRules)
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{gate_yaml}:4: teeth.RdmaQueuePairs: found RdmaQueuePairs, expected")


@pytest.mark.parametrize(
    ("name", "near"),
    [("RdmaQueuePairs", "RdmaUsage"), ("RdmaSweep", "RdmaUsage"), ("Iperf2Pear", "Iperf2Pair")],
)
def test_the_nearest_name_is_what_to_write(name: str, near: str) -> None:
    assert f"nearest: {near}" in (told := check_names.unknown(name)) and f"write {near}" in told


def test_a_check_of_the_site_is_known(site_checks: Path) -> None:
    assert check_names.unknown("SiteStream") == check_names.unknown("SiteMade") == ""
    assert check_names.unknown("Base")


def test_a_file_that_is_no_python_is_reported_next_to_a_name_that_it_may_have(
    site_checks: Path,
) -> None:
    (site_checks / "broken.py").write_text("class (:")
    assert check_names.unknown("SiteStream") == ""
    assert "broken.py there is no Python" in check_names.unknown("SiteOther")


def test_reframe_is_not_needed() -> None:
    program = (
        "import sys; sys.modules['reframe'] = None\n"
        "from railgauge.cluster.store import GateRules\n"
        "GateRules(enforcement={'RdmaUsage': 'hold'})"
    )
    subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(paths.SOURCE)}, check=True
    )
