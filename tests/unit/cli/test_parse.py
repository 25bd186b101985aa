"""`railgauge parse`: one command a tool, and what can be expected of its output by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from railgauge import paths
from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from railgauge.tools import table
from tests.command_line import invoke

DATA = paths.HOME / "tests" / "data"

TOOLS = sorted(table.by_hand())


def typed(*words: str) -> Result:
    return invoke(cli, ["parse", *words])


def error(*words: str) -> RailgaugeError:
    exception = typed(*words).exception
    assert isinstance(exception, RailgaugeError)
    return exception


@pytest.fixture
def empty(tmp_path: Path) -> str:
    (tmp_path / "out").touch()
    return str(tmp_path / "out")


def test_tools_that_people_run_by_hand_have_a_command() -> None:
    assert [
        *("all_reduce_bench", "fabtests", "hp2p", "iperf2", "iperf3", "nccl-log", "nccl-tests"),
        *("ncclras", "nvbandwidth", "osu", "perftest", "qperf", "sockperf", "transferbench"),
        *("ucx_perftest", "wdt"),
    ] == TOOLS


@pytest.mark.parametrize("tool", TOOLS)
def test_the_document_of_the_formats_has_a_line_for_it(tool: str) -> None:
    document = (paths.HOME / "docs" / "tools.md").read_text(encoding="utf-8")
    assert f"\n| `{tool}` | " in document


@pytest.mark.parametrize("tool", TOOLS)
def test_help_names_what_can_be_expected(tool: str) -> None:
    shown = " ".join(typed(tool, "--help").output.split())
    assert ", ".join(table.by_hand()[tool].conditions) in shown


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("word", ["nosuch=4", "streams", "=4", ""])
def test_an_unknown_name_is_answered_with_those_of_the_tool(
    tool: str, word: str, empty: str
) -> None:
    refused = error(tool, empty, "--expect", word)
    assert f"--expect {word}: " in refused.message
    assert ", ".join(table.by_hand()[tool].conditions) in refused.message
    assert f"next: railgauge parse {tool} FILE --expect " in str(refused)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_example_of_an_error_can_be_typed(tool: str, empty: str) -> None:
    words = [word for one in table.by_hand()[tool].example for word in ("--expect", one)]
    assert typed(tool, empty, *words).exit_code == 1


@pytest.mark.parametrize(
    ("tool", "word", "reason"),
    [
        ("iperf2", "streams=four", "'four' is not a whole number"),
        ("iperf2", "streams=-4", "'-4' is not a whole number"),
        ("osu", "size_bytes=64Kb", "size is '64Kb', expected"),
        ("perftest", "sweep=1", "'1' is neither yes nor no"),
        ("wdt", "encryption=", "nothing behind the equals sign"),
        ("nccl-tests", "hosts=n[1", "not a host list"),
    ],
)
def test_a_value_of_another_kind_is_one_clear_error(
    tool: str, word: str, reason: str, empty: str
) -> None:
    assert f"--expect {word}: {reason}" in error(tool, empty, "--expect", word).message


@pytest.mark.parametrize("tool", TOOLS)
def test_a_name_given_twice_is_one_clear_error(tool: str, empty: str) -> None:
    one = table.by_hand()[tool].example[0]
    assert "is there twice" in error(tool, empty, "--expect", one, "--expect", one).message


def test_a_value_that_the_tool_does_not_have_is_one_clear_error() -> None:
    file = str(DATA / "iperf2" / "p4-client.txt")
    words = ["--expect", "streams=4", "--expect", "duration_s=3", "--expect", "direction=up"]
    assert "direction is 'up', expected one of" in error("iperf2", file, *words).message


@pytest.mark.parametrize(
    ("tool", "file", "words", "reason"),
    [
        ("iperf2", "p4-client.txt", ["streams=8", "duration_s=3"], "4 streams, expected 8"),
        ("iperf2", "p4-client.txt", ["streams=4", "duration_s=9"], "ran for 3 s, expected 8.3 to"),
        (
            "iperf2",
            "p4-client.txt",
            ["streams=4", "duration_s=3", "direction=reverse"],
            "streams forward, expected reverse",
        ),
        ("iperf2", "cubic-client.txt", ["streams=4", "duration_s=3", "congestion=bbr"], "bbr"),
        ("iperf3", "p4-3.18-client.json", ["streams=8", "duration_s=3"], "expected 8"),
        (
            "osu",
            "allreduce-7.0-cuda-full.txt",
            ["size_bytes=1MiB", "iterations=100"],
            "expected 1048576 alone",
        ),
        (
            "nccl-tests",
            "gb200-2x4-mnnvl-16GiB.txt",
            ["gpus_per_rank=2"],
            "GPUs per rank 1, expected 2",
        ),
    ],
)
def test_a_condition_that_differs_is_refused_with_both(
    tool: str, file: str, words: list[str], reason: str
) -> None:
    options = [option for word in words for option in ("--expect", word)]
    answer = typed(tool, str(DATA / tool / file), *options)
    assert answer.exit_code == 1
    assert reason in json.loads(answer.output)["reason"]


def test_exit_codes_without_seconds_contradict_nothing() -> None:
    files = [str(DATA / "iperf2" / f"without-last-sum-{side}.txt") for side in ("client", "server")]
    answer = typed("iperf2", *files, "--exit-code", "0", "--exit-code", "0")
    assert (answer.exit_code, json.loads(answer.output)["completeness"]) == (0, "unknown")


def test_more_files_than_a_tool_writes_are_one_clear_error(empty: str) -> None:
    assert "2 files of osu, expected at most 1" in error("osu", empty, empty).message


def test_more_exit_codes_than_a_run_has_are_one_clear_error(empty: str) -> None:
    codes = ["--exit-code", "0"] * 2
    assert "2 exit codes of nccl-tests, expected" in error("nccl-tests", empty, *codes).message


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_an_output_in_utf16_is_refused_by_its_encoding(
    tmp_path: Path, tool: str, encoding: str
) -> None:
    (tmp_path / "out").write_bytes("# nThread 1\n".encode(encoding))
    refused = error(tool, str(tmp_path / "out"))
    assert "out: in UTF-16" in refused.message and "expected UTF-8" in refused.message
    assert str(refused.next_step).startswith("iconv -f UTF-16")
