"""What every command of ours ends with: one message and an exit code."""

from __future__ import annotations

import getpass
import sys
import traceback
from typing import NoReturn

import click

from railgauge.errors import EXIT_USAGE, EnvironmentProblem, RailgaugeError


def run(command: click.Command, name: str) -> NoReturn:
    """Run the command; problems that a person can solve end in one message and exit code 3."""
    try:
        command.main(standalone_mode=False, prog_name=name)
    except RailgaugeError as error:
        _fail(name, error)
    except PermissionError as error:
        _fail(name, _closed(error))
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{name}: interrupted", err=True)
        sys.exit(130)
    except Exception:
        # Python's own exit code for it, 1, would be a reject.
        traceback.print_exc()
        click.echo(f"{name}: this is a defect of Railgauge; no verdict", err=True)
        sys.exit(EXIT_USAGE)
    sys.exit(0)


def _fail(name: str, error: RailgaugeError) -> NoReturn:
    click.echo(f"{name}: {error}", err=True)
    sys.exit(error.exit_code)


def _closed(error: PermissionError) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{error.filename}: {error.strerror}, as {getpass.getuser()}",
        next_step="have it opened by its owner; for results: RAILGAUGE_RESULTS=DIR, a folder of "
        "your own that the compute nodes share",
    )
