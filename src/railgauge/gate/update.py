"""The update of a batch: a process that outlives the command that started it, and leaves how it
ended.

`start` writes the journal before the command begins; the process (`railgauge.gate.installer`)
begins it at the word of `start`, waits, and writes the roll's end file. It has a session of its
own: neither a Ctrl-C nor a hang-up of the terminal ends an update in the middle. What it prints
goes into a file, for a terminal or a pipe may be gone before it ends.

An update is over when nothing that it started runs: a command may end before its work does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from railgauge import children, hostlist, processes
from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError
from railgauge.gate.installer import BEGIN, MARK, not_begun
from railgauge.gate.journal import Roll, Update
from railgauge.hooks import Say
from railgauge.processes import Process, boot_id

#: What runs the command, by its name on the command line.
PROGRAM = "railgauge.gate.installer"

_POLL_S = 0.2


@dataclasses.dataclass(frozen=True)
class State:
    """The known state of a batch's update.

    running: its process lives on this host, or something that its command started. elsewhere: it is
    on another host, and cannot be seen from here. ended: nothing of it runs, and it has left its
    exit code (negative for a signal's number). not begun: it has left that the process which
    started it was gone before the command began. unknown: its process is gone, and has left
    nothing.
    """

    word: Literal["running", "elsewhere", "ended", "not begun", "unknown"]
    words: str
    exit_code: int | None = None
    #: what runs on though its command has ended, or its process is gone
    left: str = ""

    @property
    def good(self) -> bool:
        return self.word == "ended" and self.exit_code == 0

    @property
    def how(self) -> str:
        """How its command ended, in words."""
        return _how(self.exit_code or 0)


def start(roll: Roll) -> None:
    """Begin the update of the batch; its journal is written first."""
    line = roll.command.replace("{nodes}", hostlist.fold(roll.batch))
    roll.end_file.unlink(missing_ok=True)
    try:
        log = roll.log_file.open("wb")
    except OSError as error:
        raise PrerequisiteError(f"{roll.log_file}: {error.strerror}; nothing was begun") from None
    program = [sys.executable, "-m", PROGRAM, str(roll.end_file), line]
    with log:
        process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    children.leave_running(process)
    assert process.stdin is not None
    # Closed without the word, by a kill too, it begins nothing.
    with process.stdin:
        ours = Process.of(process.pid)
        if ours is None:
            raise PrerequisiteError(f"`{' '.join(program)}` ended at once: {roll.log_file}")
        not_begun(roll.end_file, ours.pid).unlink(missing_ok=True)  # of one with the same number
        roll.phase = "update"
        roll.update = Update(
            socket.gethostname(), boot_id(), ours.pid, ours.start_ticks, store.now(), line
        )
        try:
            roll.save()
        except BaseException:
            roll.phase, roll.update = "take", None
            raise
        # If it is gone already it has left no end, and its state is unknown. Killed before the word
        # this process leaves one that has not begun.
        with contextlib.suppress(BrokenPipeError):
            os.write(process.stdin.fileno(), BEGIN)


def state(roll: Roll) -> State:
    update = roll.update
    if update is None:
        return State("unknown", "its journal does not say which process installs it")
    process_words = (
        f"process {update.pid} on {update.host}, since {update.started}: `{update.command}` "
        f"(log {roll.log_file})"
    )
    on_this_host = update.host == socket.gethostname()
    same_boot = on_this_host and update.boot_id == boot_id()
    process = Process(update.pid, update.start_ticks)
    alive = same_boot and process.alive
    command_ended = _end(roll.end_file)
    still = ""
    if same_boot and (not alive or command_ended is not None):
        still = _still(processes.started_by(process, f"{MARK}={roll.end_file}"))
    # Read after the look at the processes: what ended in between has written it.
    end = _end(roll.end_file)
    if end is not None and end.over:
        return State("ended", f"ended with {end.words}: {process_words}", end.exit_code)
    if not_begun(roll.end_file, update.pid).exists():
        return State(
            "not begun", f"has not begun: the process that started it was killed: {process_words}"
        )
    if still:
        why = (
            f"its command ended with {end.words}"
            if end
            else f"its supervisor (pid {update.pid} on {update.host}) is gone"
        )
        left = f"{why}, and what it started still runs: {still}"
        return State("running", f"{left}; {process_words}", left=left)
    if alive:
        return State("running", process_words)
    if not on_this_host:
        return State("elsewhere", process_words)
    why = (
        f"its supervisor (pid {update.pid} on {update.host}) is gone"
        if same_boot
        else f"{update.host} was started again since"
    )
    command = f"`{update.command}`, started {update.started} (log {roll.log_file})"
    return State("unknown", f"how its update ended is unknown: {why}; its command: {command}")


def next_step(roll: Roll, state: State) -> str:
    """What to type of the batch in this state; "" where `gate run` goes on by itself."""
    nodes = hostlist.fold(roll.batch)
    done = f"railgauge gate update-done --nodes {nodes} --act"
    if state.word == "elsewhere":
        assert roll.update is not None
        return (
            f"railgauge gate run --act on {roll.update.host}; or, once you know that the update is "
            f"done: {done}"
        )
    if state.word == "unknown":
        return (
            f"look at {roll.log_file} and {nodes}; once you know that the update is done: {done}, "
            "and railgauge gate run --act"
        )
    if state.word == "ended" and not state.good:
        return (
            f"the update failed with {state.how}; look at {roll.log_file}, repair {nodes}, then "
            f"{done}, and railgauge gate run --act"
        )
    return ""


def runs_here(end_file: Path) -> bool:
    """Whether the update with this end file runs on this host, where no journal says which process
    it is.
    """
    installer = processes.running(PROGRAM, str(end_file))
    return bool(installer or processes.marked(f"{MARK}={end_file}"))


def _how(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


@dataclasses.dataclass(frozen=True)
class _End:
    """What the process of an update left: how its command ended, and whether all of it has."""

    exit_code: int
    over: bool

    @property
    def words(self) -> str:
        return _how(self.exit_code)


def _end(path: Path) -> _End | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return _End(int(document["exit_code"]), document.get("over", True) is True)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


#: So many processes are named, and so much of each.
_NAMED, _LONGEST = 5, 80


def _still(running: Mapping[int, str]) -> str:
    named = [f"{line[:_LONGEST]} (pid {pid})" for pid, line in running.items()]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more


def wait(roll: Roll, say: Say) -> State:
    """The state of the batch's update once its process, if it is on this host, has ended.

    Ctrl-C, SIGTERM and SIGHUP are deferred until then; with a second Ctrl-C the update is left to
    itself. All of them end in KeyboardInterrupt.
    """
    with _deferred_interrupts(say) as interrupted:
        said = False
        while (current := state(roll)).word == "running":
            if current.left and not said:
                said = True
                say(f"{hostlist.fold(roll.batch)} in update: {current.left}; waiting for its end")
            time.sleep(_POLL_S)
    if interrupted:
        raise KeyboardInterrupt
    return current


@contextlib.contextmanager
def _deferred_interrupts(say: Say) -> Iterator[list[int]]:
    signals: list[int] = []

    def keep(number: int, _: object) -> None:
        signals.append(number)
        if signals.count(signal.SIGINT) > 1:
            say("the update goes on alone; next: railgauge gate run --act")
            raise KeyboardInterrupt
        say(
            f"{signal.Signals(number).name}: waiting for the end of the update, because an "
            "interrupt may damage the node. No test follows. A second Ctrl-C stops waiting"
        )

    # nohup leaves SIGHUP ignored, and it stays so.
    hears_hangup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    numbers = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hears_hangup else ()))
    before = {number: signal.signal(number, keep) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def last_words(roll: Roll) -> str:
    """The last line that the update printed."""
    try:
        with roll.log_file.open("rb") as log:
            log.seek(max(roll.log_file.stat().st_size - 4096, 0))
            lines = log.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
