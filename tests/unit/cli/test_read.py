"""`railgauge read`, as typed: what it prints, and its exit codes."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from click.testing import Result

from railgauge import paths, textfiles
from railgauge.cli import cli
from railgauge.common.errors import RailgaugeError
from tests.command_line import invoke

DATA = paths.HOME / "tests" / "data"
GOOD = DATA / "perftest" / "write-client.txt"
WRONG = DATA / "iperf2" / "refused-client.txt"
TEXT = DATA / "iperf3" / "text-3.12-client.txt"
LOG = DATA / "nccl-log" / "socket-fallback.txt"


def typed(*words: object, stdin: bytes | None = None) -> Result:
    return invoke(cli, ["read", *map(str, words)], stdin=stdin)


def test_a_measurement_is_a_line_with_its_share_of_the_limit() -> None:
    answer = typed(GOOD, "--nic", "400g-roce")
    line = answer.output.splitlines()[0]
    words = "bandwidth 64 KiB, write, roce, 1 streams  0.2 Gb/s  0.1% of 392.1 Gb/s"
    assert line == f"{GOOD}:3  perftest  {words}"
    assert answer.exit_code == 0


def test_a_run_that_is_no_result_ends_with_1_and_its_reason() -> None:
    answer = typed(GOOD, WRONG, TEXT)
    assert answer.exit_code == 1
    assert f"wrong: {WRONG}:3  iperf2: output: line 9: found" in answer.output


def test_what_is_not_read_ends_with_2_and_its_reason() -> None:
    answer = typed(GOOD, "-", stdin=b"\x1f\x8b\0")
    assert answer.exit_code == 2
    assert "not read: -: not a whole gzip file" in answer.output


@pytest.mark.parametrize("text", ["", "hello\n", "\0\1\2"])
def test_nothing_recognized_ends_with_2(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    answer = typed(tmp_path)
    assert answer.exit_code == 2
    assert "not read: " in answer.output


def test_an_empty_folder_ends_with_2(tmp_path: Path) -> None:
    answer = typed(tmp_path)
    assert answer.exit_code == 2
    assert f"not read: {tmp_path}: a folder without files\n" in answer.output


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


# ---- large files ----


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file be a large one, in pieces that cut its lines."""
    monkeypatch.setattr(textfiles, "LARGE_FILE", 0)
    monkeypatch.setattr(textfiles, "_PIECE", 977)


LARGE = sorted(
    path
    for pattern in ("iperf3/*", "nccl-log/*", "gpu/ras/*", "perftest/write-*", "gpu/runs/*/out")
    for path in DATA.glob(pattern)
)


@pytest.mark.parametrize("path", LARGE, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_large_file_is_read_as_a_small_one(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = path.read_text(encoding="utf-8").partition("\n")[2]
    (tmp_path / "log").write_text(text, encoding="utf-8")
    whole = json.loads(typed(tmp_path / "log", "--json").output)
    request.getfixturevalue("small_pieces")
    pieces = json.loads(typed(tmp_path / "log", "--json").output)
    for run in (*whole["runs"], *pieces["runs"]):
        # A file of one output begins at its first line.
        run.pop("line")
    assert pieces == whole


def test_a_large_file_that_stops_answering_is_named(
    tmp_path: Path, small_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: textfiles.Large) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / "log").write_text("text\n")
    monkeypatch.setattr(textfiles.Large, "pieces", broken)
    answer = typed(tmp_path)
    assert answer.exit_code == 2
    assert f"not read: {tmp_path / 'log'}: Input/output error" in answer.output


@pytest.mark.parametrize(
    "name", ["p4-3.18-client.json", "bidir-p2-3.22-client.json", "stream-p2-3.22-client.json"]
)
def test_a_large_document_that_is_cut_is_none(
    name: str, tmp_path: Path, small_pieces: None
) -> None:
    text = (DATA / "iperf3" / name).read_text(encoding="utf-8").partition("\n")[2].rstrip()
    for end in range(1, len(text), 211):
        (tmp_path / "log").write_text(text[:end], encoding="utf-8")
        assert typed(tmp_path / "log").exit_code != 0, text[:end][-80:]


def test_a_large_log_with_the_table_of_a_tool_is_that_tools(
    tmp_path: Path, small_pieces: None
) -> None:
    table = (DATA / "gpu" / "runs" / "two-hosts" / "out").read_text(encoding="utf-8")
    (tmp_path / "log").write_text(LOG.read_text(encoding="utf-8") + table, encoding="utf-8")
    [run] = json.loads(typed(tmp_path / "log", "--json").output)["runs"]
    assert run["tool"] == "nccl-tests"


# ---- published numbers ----

GB200 = DATA / "nccl-tests" / "gb200-2x4-mnnvl-16GiB.txt"


def test_published_numbers_stand_below_their_measurement_with_their_source() -> None:
    line, below = typed(GB200).output.splitlines()[:2]
    assert line.endswith("811.71 GB/s")
    assert below.startswith(
        "    published: 191.4 to 882.51 GB/s, 5 numbers; the nearest condition: "
    )
    assert "838.07 GB/s on gb200: 16 GiB, 2 x 4 GPUs" in below and "[NVIDIA/cluster-" in below


def test_a_system_narrows_the_published_numbers() -> None:
    below = typed(GB200, "--system", "h100").output.splitlines()[1]
    assert "GB/s on h100: 16 GiB" in below
    assert below.endswith("; differs: system h100, here NVIDIA GB200, GPUs 16, here 8")
    error = typed(GB200, "--system", "nosuch").exception
    assert isinstance(error, RailgaugeError) and error.exit_code == 3


def test_a_published_number_changes_no_exit_code(tmp_path: Path) -> None:
    slow = GB200.read_text().replace("811.71", "  3.00").replace("810.35", "  3.00")
    assert slow != GB200.read_text()
    (tmp_path / "log").write_text(slow)
    plain = typed(tmp_path / "log", "--system", "dgx-station")
    assert typed(tmp_path / "log").exit_code == plain.exit_code


def test_a_run_that_is_no_result_has_no_published_numbers(tmp_path: Path) -> None:
    text = GB200.read_text()
    (tmp_path / "log").write_text(text[: text.index("# Out of bounds")])
    answer = typed(tmp_path / "log")
    assert answer.exit_code == 1 and "published: " not in answer.output
