"""How every command ends: with one message and an exit code."""

from __future__ import annotations

import getpass
import io
import os
import sys
import traceback
from typing import Any, NoReturn, TextIO

import click

from railgauge.common.errors import EXIT_USAGE, PrerequisiteError, RailgaugeError


def run(command: click.Command, name: str) -> NoReturn:
    """Run the command; problems that a person can solve end in one message and exit code 3."""
    sys.stdout, sys.stderr = _wrap_stream(sys.stdout), _wrap_stream(sys.stderr, is_log=True)
    try:
        code = _code_of(command, name)
        if sys.stdout is not None:
            sys.stdout.flush()
    except PrerequisiteError as error:
        code = _print_error(name, error)
    sys.exit(code)


def _code_of(command: click.Command, name: str) -> Any:
    try:
        command.main(standalone_mode=False, prog_name=name)
    except RailgaugeError as error:
        return _print_error(name, error)
    except PermissionError as error:
        return _print_error(name, _permission_problem(error))
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except SystemExit as stop:
        return stop.code
    except click.UsageError as error:
        typed = error.ctx.command_path if error.ctx else name
        problem = RailgaugeError(error.format_message(), next_step=f"{typed} --help")
        return _print_error(typed, problem)
    except click.ClickException as error:
        return _print_error(name, RailgaugeError(error.format_message()))
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{name}: interrupted", err=True)
        return 130
    except Exception:
        # Python's own exit code for it, 1, would be a reject.
        traceback.print_exc()
        click.echo(f"{name}: this is a defect of Railgauge; no verdict", err=True)
        return EXIT_USAGE
    return 0


def _print_error(name: str, error: RailgaugeError) -> int:
    click.echo(f"{name}: {error}", err=True)
    return error.exit_code


class _Output(io.FileIO):
    """A stream of this process. Its reader may go before its end (`railgauge ... | head`): the
    exit code is that of the command all the same. What cannot be written for another reason is a
    problem, but not of a log.
    """

    def __init__(self, number: int, is_log: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self._is_log = is_log

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            # What is left of it goes nowhere, also at the end of this process.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if not self._is_log and not isinstance(error, BrokenPipeError):
                raise PrerequisiteError(
                    f"standard output: {error.strerror}; what was written is not complete",
                    next_step="make room, or write to another file",
                ) from None
            return len(content)


def _wrap_stream(stream: TextIO, is_log: bool = False) -> TextIO:
    """A standard stream with these ends; characters that its encoding has not become `?`."""
    try:
        number = stream.fileno()
    except (AttributeError, OSError, ValueError):
        # There is none, or it is a test's own.
        return stream
    raw = io.BufferedWriter(_Output(number, is_log))
    return io.TextIOWrapper(
        raw, encoding=stream.encoding, errors="replace", line_buffering=is_log or stream.isatty()
    )


def _permission_problem(error: PermissionError) -> PrerequisiteError:
    return PrerequisiteError(
        f"{error.filename}: {error.strerror}, as {getpass.getuser()}",
        next_step="have it opened by its owner; for results: RAILGAUGE_RESULTS=DIR, a folder of "
        "your own that the compute nodes share",
    )
