"""Commands of the site that say something of its fabric, run where ReFrame runs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from railgauge import paths


class SiteCommandError(Exception):
    """A command that did not end well; the text says how."""


def printed(command: Sequence[str], limit_s: float = 60) -> str:
    """What a command prints, run in this checkout's folder; SiteCommandError where it fails, or
    takes more than `limit_s` seconds.
    """
    try:
        outcome = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
            cwd=paths.HOME,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SiteCommandError(str(error)) from None
    if outcome.returncode != 0:
        last = outcome.stderr.strip().splitlines()[-1:] or ["nothing on its standard error"]
        raise SiteCommandError(f"exit code {outcome.returncode}: {last[0]}")
    return outcome.stdout
