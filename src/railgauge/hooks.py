"""Commands of the site's own, each named by a variable, that are told what has happened."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence

#: How long one may take.
_LIMIT_S = 60

#: What it prints goes to standard error: on standard output stands what our command prints.
_STANDARD_ERROR = 2


#: Shows a line of progress.
Say = Callable[[str], None]


def call(variable: str, arguments: Sequence[str], say: Say) -> None:
    """Run the command in that variable, where there is one, in words as a shell has them.

    What keeps it from being run or from succeeding is said, and is no error of ours.
    """
    text = os.environ.get(variable, "")
    try:
        command = shlex.split(text)
        if not command:
            return
        code = subprocess.run(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=_STANDARD_ERROR,
            timeout=_LIMIT_S,
            check=False,
        ).returncode
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        say(f"{variable}: `{text}`: {error}")
        return
    if code != 0:
        say(f"{variable}: `{text}` ended with exit code {code}")
