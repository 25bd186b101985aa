"""The lock of all that changes what a gate holds: runs, releases, adoptions, an operator's word."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from typing import Literal

from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.gate import journal

_FILES = {"gate": "run.lock", "patrol": "patrol.lock"}


@contextlib.contextmanager
def alone(system: str, command: Literal["gate", "patrol"] = "gate") -> Iterator[None]:
    """Hold the lock, which ends with the process, however it ends. Journals are read inside of it.
    A patrol has a lock of its own: it tests nodes in service, and the gate those that are not.

    RailgaugeError with the holder's name where another process has it.
    """
    path = store.folder(system) / _FILES[command]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise PrerequisiteError(
            f"{path}: {error.strerror}",
            next_step="make it writable, or set RAILGAUGE_RESULTS to a folder that is",
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 400, 0).decode("utf-8", "replace").strip()
            raise RailgaugeError(
                f"the {command} of {system} is already running ({holder})",
                next_step="wait for it, or look at: railgauge gate status",
            ) from None
        except OSError as error:
            raise PrerequisiteError(f"{path}: cannot be locked: {error.strerror}") from None
        order = " ".join(["railgauge", *sys.argv[1:]])
        os.ftruncate(lock, 0)
        with contextlib.suppress(OSError):  # a full disk: only the holder's name is lost
            words = f"{journal.me()}, since {store.now()}: {order}"
            os.pwrite(lock, words.encode()[:400], 0)
        yield
    finally:
        os.close(lock)
