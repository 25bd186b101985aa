"""The process of an update (`railgauge.gate.update`): begins its command at the word, waits until
nothing that it started runs, and leaves how the command ended.

    python -m railgauge.gate.installer END_FILE COMMAND

It imports little: it starts with every batch, and lives as long as the update.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import os
import signal
import subprocess
import sys
from pathlib import Path

from railgauge.node.system.tool_call import write_whole

#: The word.
BEGIN = b"begin"

#: A variable that all that an update starts inherits; it names the update's end file.
MARK = "RAILGAUGE_UPDATE"

#: The orphans of this process's children become its own children: PR_SET_CHILD_SUBREAPER of
#: linux/prctl.h.
_SUBREAPER = 36


def not_begun(end_file: Path, pid: int) -> Path:
    """What a process leaves that begins nothing; of its own, as it may end after the next began."""
    return end_file.with_suffix(f".{pid}.not-begun")


def _main(end_file: Path, line: str) -> int:
    if sys.stdin.buffer.read() != BEGIN:
        not_begun(end_file, os.getpid()).touch()
        return 0
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        # For the command to end by, with this one left to say so: a handler is not inherited.
        signal.signal(number, lambda *_: None)
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    environment = {**os.environ, MARK: str(end_file)}
    code = subprocess.run(
        ["bash", "-c", line], stdin=subprocess.DEVNULL, env=environment, check=False
    ).returncode
    ended = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    end = {"exit_code": code, "ended": ended}
    _record(end_file, {**end, "over": False})
    _reap()
    _record(end_file, {**end, "over": True})
    return code


def _record(end_file: Path, end: dict[str, object]) -> None:
    """Leave how the command ended. Where that cannot be written, the last line of the log says it:
    only a person can then say that the update is done.
    """
    try:
        write_whole(str(end_file), end)
    except OSError as error:
        words = (
            f"railgauge: the command ended with exit code {end['exit_code']}, which could not be "
            f"recorded: {end_file}: {error.strerror}"
        )
        # The log is in the same store.
        with contextlib.suppress(OSError):
            print(words, flush=True)


def _reap() -> None:
    """Wait until all that the command left has ended."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), sys.argv[2]))
