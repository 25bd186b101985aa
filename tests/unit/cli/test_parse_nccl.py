"""`railgauge parse nccl-tests` and `railgauge rehearse`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from railgauge import cli
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.systems import rehearsal
from tests.command_line import invoke

RECORDED = Path(__file__).parents[2] / "data" / "nccl-tests" / "gb200-2x4-mnnvl-16GiB.txt"


def typed(*words: str) -> Result:
    return invoke(cli.cli, [*words])


def test_a_whole_output_is_a_result() -> None:
    answer = typed("parse", "nccl-tests", str(RECORDED))
    assert answer.exit_code == 0
    reading = json.loads(answer.output)
    assert reading["completeness"] == "proved"
    busbw = {m["metric"]: m["value"] for m in reading["measurements"]}
    assert (busbw["busbw"], busbw["busbw_in_place"]) == (811.71, 810.35)


@pytest.mark.parametrize(
    "expected",
    [
        ["operation=all_reduce", "ranks=8", "min_bytes=16GiB", "max_bytes=16GiB"],
        ["warmup=1", "iterations=20", "datatype=float"],
    ],
)
def test_what_was_asked_for_is_compared(expected: list[str]) -> None:
    options = [word for name in expected for word in ("--expect", name)]
    answer = typed("parse", "nccl-tests", str(RECORDED), "--exit-code", "0", *options)
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize(
    ("expected", "says"),
    [
        ("ranks=16", "16"),
        ("operation=all_gather", "all_gather"),
        ("min_bytes=8", "no row of 8 bytes"),
        ("iterations=100", "100"),
    ],
)
def test_another_condition_is_refused(expected: str, says: str) -> None:
    answer = typed("parse", "nccl-tests", str(RECORDED), "--expect", expected)
    assert answer.exit_code == 1
    assert not json.loads(answer.output)["ok"]
    assert says in json.loads(answer.output)["reason"]


def test_a_failed_launcher_is_refused() -> None:
    answer = typed("parse", "nccl-tests", str(RECORDED), "--exit-code", "7")
    assert answer.exit_code == 1
    assert "exit code 7" in json.loads(answer.output)["reason"]


@pytest.mark.parametrize("word", ["ranks", "rank=8", "ranks=abc", "min_bytes=big", "=8"])
def test_a_wrong_expectation_is_one_clear_error(word: str) -> None:
    answer = typed("parse", "nccl-tests", str(RECORDED), "--expect", word)
    assert isinstance(answer.exception, RailgaugeError)
    assert f"--expect {word}" in str(answer.exception)
    assert "next: railgauge parse nccl-tests" in str(answer.exception)


def test_a_rehearsal_without_the_lab_goes_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAILGAUGE_LAB_DIR", str(tmp_path))
    answer = typed("rehearse", "dgx-spark")
    assert isinstance(answer.exception, PrerequisiteError)
    assert "next: railgauge lab up" in str(answer.exception)


def test_an_unknown_scenario_is_reported_with_the_known() -> None:
    answer = typed("rehearse", "dgx-spark", "--scenario", "fire")
    assert isinstance(answer.exception, RailgaugeError)
    assert all(name in str(answer.exception) for name in rehearsal.SCENARIOS)
