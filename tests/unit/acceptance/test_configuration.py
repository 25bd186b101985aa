"""What ends `railgauge accept` before anything is measured: it is no verdict on any node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.acceptance import accept
from railgauge.campaign.folder import Campaign, Requested, Scope, Session
from railgauge.common.errors import ConfigurationError, PrerequisiteError

#: Of the committed system, which tests do not see.
SOURCE = paths.SYSTEMS / "vm-pair" / "reframe.yaml"

REFUSED = "ERROR: run session stopped: reframe error: no test was selected\n"


@pytest.fixture
def configured(own_systems: Path) -> Path:
    """One system, its references, and what its nodes must show."""
    home = own_systems / "systems" / "vm-pair"
    home.mkdir()
    (home / "reframe.yaml").write_text(SOURCE.read_text())
    return own_systems


def test_good_configuration_is_taken(configured: Path) -> None:
    accept._require_configuration("vm-pair")


@pytest.mark.parametrize(
    "file",
    [
        "systems/vm-pair/expected.yaml",
        "systems/other/reframe.yaml",
        "references/vm-pair.yaml",
    ],
)
def test_broken_file_is_an_error_before_anything_runs(configured: Path, file: str) -> None:
    (configured / file).parent.mkdir(exist_ok=True)
    (configured / file).write_text("nonsense: 1\n")
    with pytest.raises(ConfigurationError) as caught:
        accept._require_configuration("vm-pair")
    assert file in str(caught.value) and caught.value.exit_code == 3


def test_folders_of_cases_have_hashes_whatever_the_environment_says(tmp_path: Path) -> None:
    """ReFrame 4.11 would call one `Path%sweep=ns`, and Slurm writes its output elsewhere then."""
    run = "import os, runpy, sys; runpy.run_path(sys.argv[1]); print(os.environ[sys.argv[2]])"
    name = "RFM_STAGEDIR_HASHES"
    answer = subprocess.run(
        [sys.executable, "-c", run, str(paths.HOME / "configs" / "settings.py"), name],
        env={**os.environ, name: "false", "RAILGAUGE_RESULTS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.stdout, answer.stderr) == ("1\n", "")


def ended(folder: Path, exit_code: int, last_error: str = "") -> Campaign:
    folder.mkdir()
    session = Session(exit_code, last_error)
    return Campaign(
        folder, "lab", "acceptance", Scope({}, {}), Requested([], {}, {}), session=session
    )


def test_session_that_reframe_did_not_begin_is_no_verdict_and_no_campaign(tmp_path: Path) -> None:
    campaign = ended(tmp_path / "one", 1, "failed to load configuration: wrong")
    with pytest.raises(PrerequisiteError) as caught:
        accept._require_begun(campaign, "ERROR: failed to load configuration: wrong\n")
    assert "nothing was measured: failed to load configuration: wrong" in str(caught.value)
    assert not campaign.folder.exists()


def test_option_that_reframe_does_not_know_is_quoted(tmp_path: Path) -> None:
    campaign = ended(tmp_path / "one", 2)
    with pytest.raises(PrerequisiteError, match=r"unrecognized arguments: --x\n  next: reframe -"):
        accept._require_begun(campaign, "usage: ...\nreframe: error: unrecognized arguments: --x\n")


@pytest.mark.parametrize(
    ("exit_code", "output", "planned"),
    [(0, "", True), (1, "ERROR: wrong\n", True), (1, REFUSED, False), (-9, "", False)],
    ids=["well", "planned", "refused", "killed"],
)
def test_other_ends_are_judged(tmp_path: Path, exit_code: int, output: str, planned: bool) -> None:
    campaign = ended(tmp_path / "one", exit_code)
    if planned:
        (campaign.folder / "plan.json").write_text("[]")
    accept._require_begun(campaign, output)
    assert campaign.folder.exists()
