"""Whoever reads what a command prints, and whether it can be written: the exit code is its own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import textfiles
from railgauge.cli import cli
from tests.command_line import invoke
from tests.unit import measured
from tests.unit.verdict.location.test_logs import folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Results of six healthy nodes."""
    pairs = [(a, b) for a in range(6) for b in range(a + 1, 6)]
    path = tmp_path / "healthy.csv"
    path.write_text("a,b,value\n" + "".join(f"n{a},n{b},24.{a}{b}\n" for a, b in pairs))
    return path


def run(
    *words: str, stdout: int, stderr: int = subprocess.PIPE, **env: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "railgauge", *words],
        stdout=stdout,
        stderr=stderr,
        env={**os.environ, **env},
        check=False,
    )


def closed() -> int:
    """A pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.fixture
def full() -> int:
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode), "/dev/full is no device on this machine"
    return os.open("/dev/full", os.O_WRONLY)


def test_a_reader_that_goes_early_changes_no_answer(table: Path) -> None:
    """Of `locate` 1 is suspects, of `verdict` a reject."""
    answer = run("locate", str(table), stdout=closed())
    assert (answer.returncode, answer.stderr) == (0, b"")
    assert run("--help", stdout=closed()).returncode == 0
    assert run("verdict", "nonsense", stdout=closed(), stderr=closed()).returncode == 3


def test_what_cannot_be_written_is_one_error(table: Path, full: int) -> None:
    for words in (("locate", str(table)), ("locate", str(table), "--json"), ("--help",)):
        answer = run(*words, stdout=full)
        assert answer.returncode == 3
        said = answer.stderr.decode()
        assert said.startswith("railgauge: standard output: No space left on device")
        assert "next: make room" in said and "Traceback" not in said


def test_a_log_that_cannot_be_written_changes_no_answer(table: Path, full: int) -> None:
    assert run("locate", str(table), stdout=subprocess.PIPE, stderr=full).returncode == 0
    assert run("verdict", "nonsense", stdout=subprocess.PIPE, stderr=full).returncode == 3
    assert run("locate", str(table), stdout=full, stderr=full).returncode == 3


def test_characters_that_an_encoding_has_not_are_no_error(table: Path, tmp_path: Path) -> None:
    root = tmp_path / "results"
    campaign = measured.leave(root, 1, dict.fromkeys(measured.PLACES, 390.0))
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "RAILGAUGE_RESULTS": str(root)}
    answer = run("verdict", campaign.id, stdout=subprocess.PIPE, **env)
    assert b"Traceback" not in answer.stderr and b"n1:n2" in answer.stdout + answer.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "x", "y", "--margin", "nan"),
        ("trend", "--margin", "nan"),
        ("coverage", "--older-than", "inf"),
        ("gate", "run", "--wait", "nan"),
        ("gate", "run", "--wait", "-1"),
    ],
)
def test_what_is_no_number_is_wrong_usage(words: tuple[str, ...]) -> None:
    assert invoke(cli, words, stderr=["Invalid value for"]).exit_code == 2


def test_a_page_goes_to_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    campaign = measured.leave(tmp_path, 1, dict.fromkeys(measured.PLACES, 390.0))
    answer = invoke(cli, ["report", campaign.id, "-o", "-"])
    assert answer.exit_code == 0 and answer.output.startswith("<!")
    assert not (tmp_path / "-").exists()


def test_an_output_that_is_too_large_to_read_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the one with the fault."""
    monkeypatch.setattr(textfiles, "LARGEST_FILE", 2**20)
    (tmp_path / "trace.log").write_bytes(b"x" * (2**20 + 1))
    for name, text in folder().items():
        (tmp_path / name).write_text(text)
    answer = invoke(cli, ["locate", str(tmp_path)])
    assert "trace.log: more than 1 MiB" in answer.output and answer.exit_code == 2
