"""Completion: each shell that is here completes commands and options by the printed script."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.cli import cli
from tests.command_line import invoke


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`railgauge` on the path."""
    program = tmp_path / "railgauge"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m railgauge "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(paths.SOURCE))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def script(shell: str) -> str:
    answer = invoke(cli, ["completion", shell])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_bash_completes_a_command_of_a_group(program: Path) -> None:
    typed = (
        "COMP_WORDS=(railgauge gate re); COMP_CWORD=2\n"
        '_railgauge_completion railgauge; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    answer = subprocess.run(
        ["bash", "--norc"], input=script("bash") + typed, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["readmit", "release"]


def test_bash_completes_an_option(program: Path) -> None:
    typed = (
        "COMP_WORDS=(railgauge read --js); COMP_CWORD=2\n"
        '_railgauge_completion railgauge; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    answer = subprocess.run(
        ["bash", "--norc"], input=script("bash") + typed, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["--json"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_completes_a_command(program: Path) -> None:
    typed = script("fish") + "\ncomplete --do-complete 'railgauge gate re'\n"
    answer = subprocess.run(
        ["fish", "--no-config"], input=typed, capture_output=True, text=True, check=True
    )
    assert [line.split("\t")[0] for line in answer.stdout.splitlines()] == ["readmit", "release"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_reads_the_script() -> None:
    answer = subprocess.run(["zsh", "-n"], input=script("zsh"), text=True, check=False)
    assert answer.returncode == 0


def test_another_shell_is_wrong_usage() -> None:
    answer = invoke(cli, ["completion", "tcsh"], stderr=["'tcsh' is not one of"])
    assert answer.exit_code != 0
