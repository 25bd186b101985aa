"""Campaigns that earlier versions wrote are read; tests/data/campaigns has them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result

from railgauge import paths
from railgauge.cli import cli
from railgauge.gate import upgrade_check
from tests.command_line import invoke

DATA = paths.HOME / "tests" / "data" / "campaigns"
#: Commits, as stand-ins for tags, whose campaigns this version reads.
READ = ("58c2993c", "0a7200b4", "6a0944a2")
#: It wrote no file of how a case ended, so its records cannot be trusted.
TOO_OLD = "f7b43bb6"


def results(commit: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A results area with the campaigns of a commit; their ids."""
    folder = shutil.copytree(DATA / commit, root / "campaigns")
    for report in folder.glob("*/report.json"):
        report.write_text(report.read_text().replace("@CAMPAIGNS@", str(folder)))
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(root))
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=READ)
def ids(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    return results(request.param, tmp_path, monkeypatch)


def document(*words: str) -> dict[str, object]:
    answer: Result = invoke(cli, [*words, "--json"], may_say=("of no node the state", "no Slurm"))
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    found: dict[str, object] = json.loads(answer.stdout)
    return found


def test_each_folder_of_the_data_is_read_by_a_test() -> None:
    folders = {path.name for path in DATA.iterdir() if path.is_dir()}
    assert folders == {*READ, TOO_OLD}


def test_the_verdict_counts_every_number(ids: list[str]) -> None:
    assert "3 measurements recorded" in invoke(cli, ["verdict", ids[0]]).stdout


@pytest.mark.parametrize(
    ("place", "value"), [("n1:n2:0-0", "390"), ("n3:n4:0-0", "389.7"), ("n5:n6:0-0", "389.4")]
)
def test_each_number_is_shown(ids: list[str], place: str, value: str) -> None:
    answer = invoke(cli, ["show", ids[0], place, "--check", "RdmaBandwidth"])
    assert f"{value} Gb/s" in answer.stdout.replace(".0 Gb/s", " Gb/s")


def test_the_verdict_has_no_finding_but_the_missing_reference(ids: list[str]) -> None:
    findings = document("verdict", ids[1])["findings"]
    assert findings == []


def test_two_campaigns_are_compared_place_by_place(ids: list[str]) -> None:
    answer = invoke(cli, ["compare", *ids])
    assert "3 cannot tell of 3 places" in answer.stdout
    assert "389.7  387.7 Gb/s" in answer.stdout


def test_a_trend_has_a_number_of_each(ids: list[str]) -> None:
    answer = invoke(cli, ["trend", "RdmaBandwidth", "--system", "lab"])
    lines = [line for line in answer.stdout.splitlines() if any(one in line for one in ids)]
    assert ["389.7" in lines[0], "387.7" in lines[1]] == [True, True]


@pytest.mark.usefixtures("no_nodes_in_slurm")
def test_coverage_takes_no_baseline_for_an_acceptance(ids: list[str]) -> None:
    assert "6 never accepted (n[1-6])" in invoke(cli, ["coverage", "--system", "lab"]).stdout


def test_an_update_finds_no_problem_with_them(ids: list[str]) -> None:
    (line,) = [line for line in upgrade_check.lines() if line.thing == "campaigns"]
    assert (line.status, line.text) == ("ok", "this version reads 2 of 2")


def test_a_record_without_an_end_never_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _) = results(TOO_OLD, tmp_path, monkeypatch)
    answer = invoke(cli, ["verdict", first])
    assert answer.stdout.startswith("INCONCLUSIVE") and "broken-record" in answer.stdout
