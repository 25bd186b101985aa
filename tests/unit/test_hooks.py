"""Commands of the site's own: what they get, and how their end is judged."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import pytest

from railgauge import hooks

NAME = "RAILGAUGE_ON_TEST"


def call(monkeypatch: pytest.MonkeyPatch, command: str, *arguments: str) -> None:
    monkeypatch.setenv(NAME, command)
    hooks.call(NAME, arguments, {"RAILGAUGE_MORE": "more"})


def test_arguments_stand_behind_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "with a blank"
    folder.mkdir()
    program = folder / "tell"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$RAILGAUGE_MORE" >"$(dirname "$0")/told"\n')
    program.chmod(0o755)
    call(monkeypatch, f"{shlex.quote(str(program))} --to 'the ops'", "a b", "c")
    told = (folder / "told").read_text().splitlines()
    assert told == ["--to", "the ops", "a b", "c", "more"]


@pytest.mark.parametrize(("value", "is_set"), [("", False), (" ", False), ("true", True)])
def test_a_blank_variable_is_not_set(
    monkeypatch: pytest.MonkeyPatch, value: str, is_set: bool
) -> None:
    monkeypatch.setenv(NAME, value)
    assert hooks.is_set(NAME) is is_set


def test_what_it_prints_is_not_in_our_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    call(monkeypatch, "echo sent", "to ops")
    assert capfd.readouterr() == ("", "sent to ops\n")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("false --password=secret", "ended with exit code 1"),
        ("/nowhere/secret", "No such file or directory"),
        ("tell 'secret", "No closing quotation"),
        ("tell\0secret", "embedded null byte"),
        (" ", "is not set"),
    ],
)
def test_a_failure_has_its_reason_and_not_the_command(
    monkeypatch: pytest.MonkeyPatch, command: str, problem: str
) -> None:
    if "\0" in command:
        monkeypatch.setattr(os, "environ", {**os.environ, NAME: command})
    else:
        monkeypatch.setenv(NAME, command)
    with pytest.raises(hooks.HookError, match=problem) as raised:
        hooks.call(NAME, [], {})
    assert "secret" not in str(raised.value) and not raised.value.is_late


def test_one_that_hangs_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "_LIMIT_S", 0.5)
    program = tmp_path / "tell"
    program.write_text(f"#!/bin/sh\nsleep 60 & echo $! >{tmp_path}/pid\nwait\n")
    program.chmod(0o755)
    with pytest.raises(hooks.HookError, match=r"did not end within 0\.5 s") as raised:
        call(monkeypatch, shlex.quote(str(program)))
    assert raised.value.is_late
    child = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
    deadline = time.monotonic() + 10
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(child)


def is_running(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
