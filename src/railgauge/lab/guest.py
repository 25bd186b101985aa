"""Talking to a VM from outside: QEMU itself (QMP), and the agent inside the guest.

Both speak JSON lines over a UNIX socket (QEMU's "QMP" and "QEMU Guest Agent" protocol references).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from railgauge.common.errors import PrerequisiteError

#: How long QEMU may take to answer: an emulated machine keeps it busy.
_MONITOR_LIMIT_S = 60


class _Line:
    """One connection, one request at a time."""

    def __init__(self, stream: socket.socket, name: str) -> None:
        self._stream = stream
        self._lines = stream.makefile("rb")
        self._name = name

    def receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError:
            raise PrerequisiteError(f"{self._name} does not answer") from None
        except OSError as error:
            raise PrerequisiteError(f"{self._name}: {error.strerror}") from None
        if not line:
            raise PrerequisiteError(f"{self._name} closed the connection")
        # The agent marks the end of what was left from before with this byte.
        try:
            document: dict[str, Any] = json.loads(line.lstrip(b"\xff"))
        except ValueError:
            # Half of an answer to an earlier caller; the sync that follows tells them apart.
            return {}
        return document

    def send(self, document: dict[str, Any]) -> None:
        try:
            self._stream.sendall(json.dumps(document).encode() + b"\n")
        except OSError as error:
            raise PrerequisiteError(f"{self._name}: {error.strerror}") from None

    def ask(self, command: str, **arguments: Any) -> Any:
        """The `return` of a command; PrerequisiteError where it fails."""
        self.send({"execute": command, "arguments": arguments})
        while True:
            answer = self.receive()
            if "error" in answer:
                raise PrerequisiteError(f"{self._name}: {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
            # Anything else is an event that nobody waits for.


@contextlib.contextmanager
def _connection(path: Path, timeout_s: float) -> Iterator[_Line]:
    # By way of the folder's descriptor: a socket's path may not be longer than 107 bytes.
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(timeout_s)
            try:
                stream.connect(f"/proc/self/fd/{folder}/{path.name}")
            except OSError as error:
                raise PrerequisiteError(f"{path.name}: {error.strerror}") from None
            yield _Line(stream, path.name)
    finally:
        os.close(folder)


def monitor(path: Path, command: str, **arguments: Any) -> Any:
    """Ask QEMU, whose QMP socket is at `path`."""
    with _connection(path, _MONITOR_LIMIT_S) as line:
        line.receive()  # the greeting
        line.ask("qmp_capabilities")
        return line.ask(command, **arguments)


def run(path: Path, argv: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command in the guest, through the agent whose socket is at `path`.

    PrerequisiteError where the guest does not answer, or the command does not end in time.
    """
    deadline = time.monotonic() + timeout_s
    with _connection(path, timeout_s) as line:
        # What an earlier caller left unread, and half a request that it may have left unsent.
        mark = secrets.randbelow(2**31)
        line.send({"execute": "guest-sync", "arguments": {"id": mark}})
        while line.receive().get("return") != mark:
            pass
        started = line.ask("guest-exec", path=argv[0], arg=argv[1:], **{"capture-output": True})
        while True:
            status = line.ask("guest-exec-status", pid=started["pid"])
            if status["exited"]:
                break
            if time.monotonic() > deadline:
                raise PrerequisiteError(f"`{' '.join(argv)}` did not end within {timeout_s:g} s")
            time.sleep(0.05)
    output, errors = (
        base64.b64decode(status.get(name, "")).decode("utf-8", "replace")
        for name in ("out-data", "err-data")
    )
    code = status.get("exitcode", 128 + status.get("signal", 0))
    return subprocess.CompletedProcess(argv, code, output, errors)
