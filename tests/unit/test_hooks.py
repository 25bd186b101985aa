"""Commands of the site's own: what they are given, and that none of them decides anything."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from railgauge import hooks

NAME = "RAILGAUGE_ON_TEST"


def called(monkeypatch: pytest.MonkeyPatch, command: str, *arguments: str) -> list[str]:
    """What is said of it."""
    said: list[str] = []
    monkeypatch.setenv(NAME, command)
    hooks.call(NAME, arguments, said.append)
    return said


def test_what_is_told_stands_behind_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "with a blank"
    folder.mkdir()
    program = folder / "tell"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$(dirname "$0")/told"\n')
    program.chmod(0o755)
    said = called(monkeypatch, f"{shlex.quote(str(program))} --to 'the ops'", "a b", "c")
    assert said == []
    assert (folder / "told").read_text().splitlines() == ["--to", "the ops", "a b", "c"]


def test_without_a_command_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, " ") == []


def test_what_it_prints_is_not_in_our_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    called(monkeypatch, "echo sent", "to ops")
    assert capfd.readouterr() == ("", "sent to ops\n")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("false --loudly", "`false --loudly` ended with exit code 1"),
        ("/nowhere/tell", "No such file or directory"),
        ("tell 'half", "No closing quotation"),
    ],
)
def test_one_that_fails_is_said_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, command: str, words: str
) -> None:
    (line,) = called(monkeypatch, command)
    assert line.startswith(f"{NAME}: `{command}`") and words in line


def test_one_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_LIMIT_S", 0.2)
    (line,) = called(monkeypatch, "sleep 60")
    assert "timed out" in line
