"""A running ReFrame session: its output is kept, its progress shown; ended if it hangs."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from railgauge import children, terminal
from railgauge.acceptance.progress import Finished, Progress, finished
from railgauge.campaign.folder import PLAN
from railgauge.common.errors import PrerequisiteError
from railgauge.hooks import Say
from railgauge.model import record
from railgauge.model.record import BrokenRecordError, Planned
from railgauge.slurm.waiting import WAITING

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def plain(line: str) -> str:
    """A line without colours."""
    return _ESCAPES.sub("", line)


class Interrupt:
    """Passes the first SIGINT, SIGTERM or SIGHUP on to the session as the Ctrl-C it understands.

    The session runs in a process group of its own, so that a Ctrl-C at the terminal reaches it
    once; ReFrame cancels its jobs at the first and gives up at the second. One that goes on all the
    same is ended by force. A hangup that this process was started to ignore (`nohup`) is ignored.
    """

    #: For cancelling jobs and writing the report, before a stronger signal.
    PATIENCE_S = 60

    def __init__(self, process: subprocess.Popen[str], say: Say) -> None:
        self.process = process
        self.say = say
        #: what it was, "" while there was none
        self.seen = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.stop(signal.Signals(number).name)

    def stop(self, why: str) -> None:
        if not self.seen:
            self.seen = why
            self.say(f"{why}: cancelling the jobs, keeping what there is")
            ending = [self.process, self.PATIENCE_S]
            threading.Thread(target=children.end, args=ending, daemon=True).start()


class Watchdog:
    """Stops a session in which no case ends within the longest time that one may take.

    A controller that crashed may forget a job, which accounting then shows as running for ever,
    and ReFrame waits as long. A session that waits for a job of another campaign is left alone
    (`waits`).
    """

    #: For Slurm's own work around a job: launch, kill, accounting.
    MARGIN_S = 120

    def __init__(
        self,
        interrupt: Interrupt,
        waits: Callable[[], bool],
        why: Callable[[], str] = lambda: "",
    ) -> None:
        """`why` returns what Slurm says of the session's jobs."""
        #: the session's cases, once they are known
        self.cases: Sequence[Planned] = ()
        self.interrupt = interrupt
        self.waits = waits
        self.why = why
        self._timer: threading.Timer | None = None

    def restart(self) -> None:
        self.stop()
        if not self.cases:
            return
        limit = max(case.limit_s for case in self.cases) + self.MARGIN_S
        self._timer = threading.Timer(limit, self._end, [limit])
        self._timer.daemon = True
        self._timer.start()

    def _end(self, limit: float) -> None:
        with contextlib.suppress(PrerequisiteError):
            if self.waits():
                self.restart()
                return
        why = self.why()
        self.interrupt.stop(f"no case has ended for {limit:.0f} s" + (f" ({why})" if why else ""))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


#: How often `stop` is called.
_LOOK_S = 3.0


class Watch:
    """Stops a session once `stop` says why it is to end; "" while it may go on."""

    def __init__(self, interrupt: Interrupt, stop: Callable[[], str]) -> None:
        self._interrupt = interrupt
        self._stop = stop
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_S):
            with contextlib.suppress(PrerequisiteError):
                if why := self._stop():
                    self._interrupt.stop(why)
                    return


def follow(
    command: list[str],
    environment: Mapping[str, str],
    log: Path,
    say: Say,
    keep_open: Sequence[int] = (),
    waits: Callable[[], bool] = lambda: False,
    why: Callable[[], str] = lambda: "",
    stop: Callable[[], str] = lambda: "",
) -> tuple[int, str]:
    """Run the session, keep its output, report its progress; end it once `stop` says why.

    (exit code, what interrupted it: a signal, or that nothing ended; "" where nothing did)
    """
    with log.open("w", encoding="utf-8") as keep:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=children.default_signals,
            pass_fds=keep_open,
        )
        progress = Progress(log.parent)
        try:
            with (
                Interrupt(process, say) as interrupt,
                Watch(interrupt, stop),
                terminal.moving(progress.words),
            ):
                assert process.stdout is not None
                watchdog = Watchdog(interrupt, waits, why)
                for line in process.stdout:
                    keep.write(plain(line))
                    keep.flush()
                    if "start processing checks" in line:
                        watchdog.cases = progress.cases = _plan(log.with_name(PLAN))
                        watchdog.restart()
                    if line.startswith(WAITING):
                        say(line.rstrip())
                    if (one := finished(line)) is not None:
                        progress.heard(one)
                        say(_line_of(one, watchdog.cases))
                        watchdog.restart()
                code = process.wait()
                watchdog.stop()
                return code, interrupt.seen
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _plan(path: Path) -> Sequence[Planned]:
    """The session's cases, which it has planned before it begins them; none where that is gone."""
    try:
        return record.read_plan(path) or ()
    except BrokenRecordError:
        return ()


def _line_of(one: Finished, cases: Sequence[Planned]) -> str:
    title = next((case.title for case in cases if case.case == one.case), one.case)
    return f"{one.done:>3}/{one.all} {one.word.lower():<5} {title}"
