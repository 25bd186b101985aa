"""Railgauge's commands in tests: standard error has no line that the test does not expect."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from unittest import mock

import click
from click.testing import CliRunner, Result

from railgauge.cli import cli, commands

#: What click prints before the `Error: ...` of a wrong command line, and how lines begin that go
#: on with the message before them.
_PART = ("Usage: ", "Try '", "  ")


def invoke(
    command: click.Command,
    words: Sequence[str] = (),
    *,
    stderr: Sequence[str] = (),
    may_say: Sequence[str] = (),
    stdin: str | None = None,
    **env: str,
) -> Result:
    """Run a command in this process. `stderr`, `may_say`: see `check_stderr`. An error that
    `bin/railgauge` would print is the result's exception.
    """
    result = CliRunner(env=env).invoke(command, words, input=stdin)
    check_stderr(result.stderr, stderr, may_say)
    return result


def railgauge(*words: str, stderr: Sequence[str] = (), **env: str) -> Result:
    """As `bin/railgauge WORDS` without a process: errors are lines on standard error too."""

    @click.command()
    def typed() -> None:
        with mock.patch.object(sys, "argv", ["railgauge", *words]):
            commands.run(cli, "railgauge")

    return invoke(typed, stderr=stderr, **env)


def check_stderr(printed: str, expected: Sequence[str], allowed: Sequence[str] = ()) -> None:
    """Each message contains a part that is expected or allowed, and each expected part is there."""
    messages = [line for line in printed.splitlines() if line and not line.startswith(_PART)]
    parts = (*expected, *allowed)
    unexpected = [line for line in messages if not any(part in line for part in parts)]
    assert not unexpected, "not expected on standard error:\n" + "\n".join(unexpected)
    missing = [part for part in expected if part not in printed]
    assert not missing, f"not on standard error: {missing}; there is:\n{printed}"
