"""Old names of keys are read for one release, with a line that says what to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge import systems
from railgauge.cluster.store import GateRules
from railgauge.common.errors import ConfigurationError
from railgauge.systems.expected import Expected
from railgauge.systems.schema import Budget, Extras
from railgauge.yamlfile import load_model
from tests.unit.checks.rdma.test_rail import Describe, describe, partition

__all__ = ["describe"]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_an_old_key_is_read_and_named_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "gate.yaml", "max_hold: 1\nteeth:\n  Iperf2Pair: hold\n")
    assert load_model(path, GateRules).enforcement == {"Iperf2Pair": "hold"}
    assert capsys.readouterr().err == (
        f"railgauge: {path}:2: the key teeth is now called enforcement; "
        "next: rename it, the next release does not read teeth\n"
    )


def test_old_keys_of_many_entries_are_one_line_with_the_first_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = "  - {fields: a, why: w,\n     mend: m, least: 2}\n"
    path = written(tmp_path / "expected.yaml", f"expected:\n{entry}{entry}")
    first, second = load_model(path, Expected).expected
    assert (first.fix, first.min, second.fix) == ("m", 2, "m")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("; ")[0] for line in lines] == [
        f"railgauge: {path}:3: the key least is now called min (2 times in this file)",
        f"railgauge: {path}:3: the key mend is now called fix (2 times in this file)",
    ]


def test_a_new_key_is_read_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "budget.yaml", "{counters: a, max: 1, why: w}\n")
    assert load_model(path, Budget).max == 1
    assert capsys.readouterr().err == ""


def test_both_names_of_a_key_are_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "budget.yaml", "{counters: a, max: 1, most: 2, why: w}\n")
    with pytest.raises(ConfigurationError, match=r"give max, and not its old name most as well"):
        load_model(path, Budget)


def test_an_old_key_with_a_wrong_value_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "budget.yaml", "{counters: a, most: -1, why: w}\n")
    with pytest.raises(ConfigurationError, match=r"budget\.yaml:1: most: "):
        load_model(path, Budget)


def test_a_key_that_is_no_old_name_here_stays_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "gate.yaml", "mend: x\n")
    with pytest.raises(ConfigurationError, match="mend"):
        load_model(path, GateRules)


# ---- checks whose judgement another check has taken over ----


def test_an_old_check_that_is_required_is_read_and_named(
    describe: Describe, capsys: pytest.CaptureFixture[str]
) -> None:
    describe(partition(required=["Path", "Iperf2Pair"]))
    assert systems.load("alps").partitions[0].extras.required == ["Iperf2Pair", "NodeState"]
    said = capsys.readouterr().err
    assert "reframe.yaml:1: the check Path is now called NodeState; next: rename it, " in said


def test_an_old_check_next_to_the_new_one_goes(
    describe: Describe, capsys: pytest.CaptureFixture[str]
) -> None:
    describe(partition(required=["Path", "NodeState"]))
    assert systems.load("alps").partitions[0].extras.required == ["NodeState"]
    assert "next: remove it, the next release does not read Path" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("enforcement", "read", "step"),
    [
        (
            "{Path: hold, Iperf2Pair: record}",
            {"NodeState": "hold", "Iperf2Pair": "record"},
            "rename",
        ),
        ("{Path: hold, NodeState: comment}", {"NodeState": "comment"}, "remove"),
    ],
)
def test_an_old_check_keeps_its_enforcement(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    enforcement: str,
    read: dict[str, str],
    step: str,
) -> None:
    path = written(tmp_path / "gate.yaml", f"max_hold: 1\nenforcement: {enforcement}\n")
    assert load_model(path, GateRules).enforcement == read
    assert capsys.readouterr().err == (
        f"railgauge: {path}:2: the check Path is now called NodeState; "
        f"next: {step} it, the next release does not read Path\n"
    )


@pytest.mark.parametrize("value", ["Path", "[[Path], {Path: 1}]", "3"])
def test_what_is_no_list_of_checks_stays_an_error(tmp_path: Path, value: str) -> None:
    path = written(tmp_path / "extras.yaml", f"nodes: n1\nrequired: {value}\n")
    with pytest.raises(ConfigurationError, match=r"extras\.yaml:2: required"):
        load_model(path, Extras)
