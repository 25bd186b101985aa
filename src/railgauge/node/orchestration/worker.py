"""A side of a place, in a process of its own below the agent of its node.

It is forked, not started again: on an emulated CPU an interpreter takes seconds to start. It
is in a session of its own, adopts what its tools leave behind, and ends all of that when it ends.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from railgauge.node.orders.places import PlaceOrder
from railgauge.node.system import processes
from railgauge.node.system.tool_call import watch_clock
from railgauge.node.transport.channel import Channel, Peer

#: The package of the programs that run at a place (sweep_file.ROLES).
_RUNNERS = "railgauge.node.runners"


def load(programs: Iterable[str]) -> None:
    """The modules of these programs (sweep_file.ROLES), which sides then have from the start:
    those of one list need few of them, and each takes an emulated CPU a tenth of a second.
    """
    for program in programs:
        importlib.import_module(f"{_RUNNERS}.{program}")


def start(program: str, place: PlaceOrder[Any], role: str) -> tuple[int, socket.socket]:
    """Fork the side; its process id, and the agent's end of its socket."""
    ours, its = socket.socketpair()
    parent = os.getpid()
    process = os.fork()
    if process:
        its.close()
        return process, ours
    # Whatever happens, this process never goes back into the agent's loop.
    code = 1
    try:
        _become_worker(parent, keep=its.fileno())
        code = _run(program, place, role, Channel(its))
    finally:
        os._exit(code)


def _become_worker(parent: int, keep: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, processes.terminate)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    os.setsid()
    # Among them the agent's connection, which would stay open with this process.
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) > 2 and int(entry.name) != keep:
            with contextlib.suppress(OSError):
                os.close(int(entry.name))
    processes.adopt_orphans()
    processes.end_with_parent(parent)
    watch_clock()


def _run(program: str, place: PlaceOrder[Any], role: str, channel: Channel) -> int:
    try:
        side = importlib.import_module(f"{_RUNNERS}.{program}").side
        side(place, role, Peer(channel))
        return 0
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        with contextlib.suppress(OSError):
            why = f"{type(error).__name__} at {where}: {error}"
            channel.send({"do": "broken", "why": why})
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # If a signal came before that order, a keeper does its work once this process ends.
        processes.end_children(but_keepers=True)
        sys.stderr.flush()
