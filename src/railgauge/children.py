"""How long-lived child processes start, and how they are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any

#: Those that a child inherits as ignored: `nohup`, and a shell's `&`, leave them so.
_INHERITED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)

#: What runs on when this process has ended: a child that nothing refers to is a ResourceWarning.
_LEFT_RUNNING: list[subprocess.Popen[Any]] = []


def leave_running(process: subprocess.Popen[Any]) -> None:
    """Let a child outlive this process. Those that have ended meanwhile are reaped."""
    _LEFT_RUNNING[:] = [one for one in (*_LEFT_RUNNING, process) if one.poll() is None]


def default_signals() -> None:
    """For Popen's `preexec_fn`: a signal that this process ignores still ends the child."""
    for number in _INHERITED:
        signal.signal(number, signal.SIG_DFL)


def end(process: subprocess.Popen[Any], patience_s: float) -> None:
    """End a child that leads its own process group: SIGINT, SIGTERM, then SIGKILL to the group.

    The first two go to the child alone, which ends its own; each has `patience_s` to take effect.
    Returns when the child has ended.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
