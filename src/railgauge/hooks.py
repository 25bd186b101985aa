"""Commands of the site's own, each named by a variable, that get what has happened.

`railgauge.notify` calls them, and calls them again after a failure.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

#: How long one may take.
_LIMIT_S = 60

#: What it prints goes to standard error: on standard output stands what our command prints.
_STANDARD_ERROR = 2


#: Shows a line of progress.
Say = Callable[[str], None]


class HookError(Exception):
    """The command could not be run, or did not succeed. The message does not quote the command,
    which may have secrets. `is_late` if it took too long.
    """

    def __init__(self, problem: str, is_late: bool = False) -> None:
        super().__init__(problem)
        self.is_late = is_late


def is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def call(variable: str, arguments: Sequence[str], more: Mapping[str, str]) -> None:
    """Run the command in that variable, in words as a shell has them, with `more` in its
    environment. HookError if it fails, or does not end within a minute: it is killed then, with
    all that it has started in its process group.
    """
    try:
        command = shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise HookError(f"no command: {error}") from None
    if not command:
        raise HookError("is not set")
    try:
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=_STANDARD_ERROR,
            env={**os.environ, **more},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise HookError(getattr(error, "strerror", None) or str(error)) from None
    try:
        code = process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise HookError(f"did not end within {_LIMIT_S:g} s", is_late=True) from None
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code != 0:
        raise HookError(f"ended with exit code {code}")
