"""`railgauge read`, as typed: what it prints, and its exit codes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from railgauge import paths
from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError

DATA = paths.HOME / "tests" / "data"
GOOD = DATA / "perftest" / "write-client.txt"
WRONG = DATA / "iperf2" / "refused-client.txt"
TEXT = DATA / "iperf3" / "text-3.12-client.txt"


def typed(*words: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["read", *map(str, words)], input=stdin)


def test_a_measurement_is_a_line_with_its_share_of_the_limit() -> None:
    answer = typed(GOOD, "--nic", "400g-roce")
    line = answer.output.splitlines()[0]
    words = "bandwidth 64 KiB, write, roce, 1 streams  0.2 Gb/s  0.1% of 392.1 Gb/s"
    assert line == f"{GOOD}:3  perftest  {words}"
    assert answer.exit_code == 0


def test_a_run_that_is_no_result_ends_with_1_and_its_reason() -> None:
    answer = typed(GOOD, WRONG, TEXT)
    assert answer.exit_code == 1
    assert f"wrong: {WRONG}:3  iperf2: client: line 9: found" in answer.output


def test_what_is_not_read_ends_with_2_and_its_reason() -> None:
    answer = typed(GOOD, TEXT)
    assert answer.exit_code == 2
    assert f"not read: {TEXT}:2: the text of iperf3 is not read" in answer.output


@pytest.mark.parametrize("text", ["", "hello\n", "\0\1\2"])
def test_nothing_recognized_ends_with_2(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    answer = typed(tmp_path)
    assert answer.exit_code == 2
    assert "not read: " in answer.output


def test_an_empty_folder_ends_with_2(tmp_path: Path) -> None:
    answer = typed(tmp_path)
    assert (answer.exit_code, answer.output) == (2, "0 runs in 0 files\n")


@pytest.mark.parametrize("words", [[], ["--nic", "400g"], ["--nics", "8"], ["--nosuch"]])
def test_wrong_usage_is_one_error_with_an_example(words: list[str]) -> None:
    error = typed(*([GOOD, *words] if words else [])).exception
    assert isinstance(error, RailgaugeError)
    assert error.exit_code == 3 and "railgauge read" in str(error.next_step)


def test_a_variable_that_is_not_set_is_not_this_folder() -> None:
    error = typed("").exception
    assert isinstance(error, RailgaugeError) and error.exit_code == 3


def test_standard_input_and_archives_are_read() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as made:
        made.add(GOOD, "logs/client.txt")
    answer = typed("-", stdin=stream.getvalue())
    assert answer.exit_code == 0
    assert answer.output.startswith("-:logs/client.txt:3  perftest  bandwidth")


def test_several_runs_in_a_log_are_each_read(tmp_path: Path) -> None:
    log = tmp_path / "slurm-1.out"
    log.write_text("".join(path.read_text() for path in (GOOD, WRONG, GOOD)))
    answer = typed(log)
    assert answer.output.splitlines()[-1] == (
        "3 runs in 1 file, 2 good, 2 of them not proved to have finished, 1 no valid result"
    )


def test_a_name_cannot_colour_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31mb").write_bytes(GOOD.read_bytes())
    assert "\x1b" not in typed(tmp_path).output


def test_more_than_the_link_carries_is_said() -> None:
    answer = typed(DATA / "iperf2" / "p4-client.txt", "--nic", "10g-tcp")
    assert "more than it allows" in answer.output
    assert answer.exit_code == 1


def test_a_stand_in_says_so(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(f"# SIMULATED: in a rehearsal\n{GOOD.read_text()}")
    answer = typed(tmp_path)
    assert answer.output.splitlines()[0].endswith("  SIMULATED")
    assert answer.exit_code == 1


def test_help_names_the_tools() -> None:
    shown = " ".join(typed("--help").output.split())
    tools = ("hp2p", "iperf2", "iperf3", "nvbandwidth", "osu", "perftest", "ucx_perftest", "wdt")
    assert all(f"{tool}, " in shown or f"{tool}." in shown for tool in tools)
