"""Processes by id and start time."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from railgauge.processes import Process


def test_a_process_is_ended_once_and_its_number_is_left_alone_afterwards() -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        process = Process.of(child.pid)
        assert process is not None and process.alive
        process.kill()
        child.wait()
    assert not process.alive
    process.kill()


def test_a_number_that_a_thread_has_by_now_is_left_alone(tmp_path: Path) -> None:
    """A lab that crashed leaves the number of its first process, which is used again."""
    ready, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        go_on.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        ready.wait()
        (tmp_path / "init.pid").write_text(f"{thread.native_id} 1\n")
        process = Process.read(tmp_path / "init.pid")
        assert process is not None and not process.alive
        process.kill()
        assert thread.is_alive()
    finally:
        go_on.set()
        thread.join()
