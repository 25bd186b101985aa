"""The process of an update (`railgauge.gate.update`): begins its command at the word, waits for it,
and leaves how it ended.

    python -m railgauge.gate.installer END_FILE COMMAND

It imports little: it starts with every batch, and lives as long as the update.
"""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from pathlib import Path

from railgauge.node.calls import write_whole

#: The word.
BEGIN = b"begin"


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
    code = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, check=False).returncode
    ended = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    write_whole(str(end_file), {"exit_code": code, "ended": ended})
    return code


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), sys.argv[2]))
