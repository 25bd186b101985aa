"""The processes below this one: orphans that come back to it, and the end of all of them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NoReturn

#: How long `end_children` tries.
_LIMIT_S = 10.0
_LOOK_S = 0.01

#: prctl(2)
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Orphans of this process's descendants become its children, so that it can end them."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(parent: int) -> None:
    """SIGTERM to this process when its parent, `parent`, dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def terminate(*_: object) -> NoReturn:
    """At the first signal, change back what was changed for the test; undisturbed by others."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def undisturbed() -> contextlib.AbstractContextManager[None]:
    """SIGTERM comes behind what happens inside."""
    return _with_sigterm(signal.SIG_BLOCK)


def disturbed() -> contextlib.AbstractContextManager[None]:
    """SIGTERM comes inside, and what it interrupts is `undisturbed` again behind it."""
    return _with_sigterm(signal.SIG_UNBLOCK)


@contextlib.contextmanager
def _with_sigterm(how: int) -> Iterator[None]:
    before = signal.pthread_sigmask(how, [signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def children() -> list[int]:
    """The process ids of this process's children, also of those that wait to be reaped."""
    try:
        # One file a thread; a node with thousands of processes has as many folders in /proc.
        tasks = list(Path("/proc/self/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return _children_of_all()


def _children_of_all() -> list[int]:
    """The same where the kernel keeps no list of children (CONFIG_PROC_CHILDREN)."""
    children = []
    for process in Path("/proc").glob("[0-9]*"):
        # It may have ended since.
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                children.append(int(process.name))
    return children


def end_group(process: int, number: signal.Signals) -> None:
    """Signal a child and its process group, unless that is this process's own group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(process)
        if group != os.getpgid(0):
            os.killpg(group, number)
        else:
            os.kill(process, number)


#: What a process is called (its first argument) that clears up after another one: it removes a
#: folder and ends.
KEEPER = "railgauge-keeper"


def keepers() -> list[int]:
    """The children of this process that clear up."""
    return [child for child in children() if _is_keeper(child)]


def _is_keeper(process: int) -> bool:
    try:
        return KEEPER.encode() in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        # It has ended since.
        return False


def end_children(spared: Collection[int] = (), but_keepers: bool = False) -> None:
    """Kill every child but some, and what they leave behind, for some seconds."""
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        left = [child for child in children() if child not in spared]
        left = [child for child in left if not (but_keepers and _is_keeper(child))]
        if not left and spared:
            # The kernel's list may lack one while others come and go (proc(5)), and what is spared
            # removes a folder in which it would write.
            left = [child for child in _children_of_all() if child not in spared]
        if not left:
            return
        for child in left:
            end_group(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        time.sleep(_LOOK_S)
