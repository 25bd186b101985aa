"""What a side of a place says to the other one, and hears from it.

A side runs in a process of its own below its node's agent, to which one socket leads: JSON lines.
Between the nodes they are relayed by the conductor, each line authenticated (protocol.py).

    to the agent     {"do": "prepared"}, {"do": "mail", "name": ..., "body": ...},
                     {"do": "side", "role": ..., "line": ..., "out": ..., "err": ..., "files": ...},
                     {"do": "broken", "why": ...} before it ends without a line
    from the agent   {"do": "go"}, {"do": "mail", ...}, {"do": "other_ended"}
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterable
from typing import Any

from railgauge.node.system import processes
from railgauge.node.system.tool_call import Call, wait_for_any
from railgauge.node.transport import protocol

#: The last mail of a side for one direction: its exit lines are there.
_LEFT = "left"

_CHUNK_BYTES = 1 << 16
_LOOK_S = 60.0


class Channel:
    """A side's end of the socket to its agent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.mails: dict[str, Any] = {}
        self.may_go = False
        #: no more mail will come: the other side has ended
        self.other_ended = False
        self._rest = b""

    def send(self, message: protocol.Message) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, limit_s: float) -> None:
        """Take what has come, or comes within the limit."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        while poll.poll(1000 * max(limit_s, 0)):
            limit_s = 0
            data = self.connection.recv(_CHUNK_BYTES)
            if not data:
                # The agent has gone. Its end is a SIGTERM too: a second one must not disturb what
                # changes back what was changed.
                processes.terminate()
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, message: protocol.Message) -> None:
        if message["do"] == "mail":
            self.mails[message["name"]] = message["body"]
        elif message["do"] == "go":
            self.may_go = True
        elif message["do"] == "other_ended":
            self.other_ended = True


class Peer:
    """The other side of a place, for one direction of what is measured.

    `prefix` stands before the names of all that is sent and left: of the other direction.
    """

    def __init__(self, channel: Channel, prefix: str = "") -> None:
        self._channel, self._prefix = channel, prefix

    def within(self, prefix: str) -> Peer:
        """The same side for another direction."""
        return Peer(self._channel, prefix)

    # --- phases ----------------------------------------------------------------------------------

    def prepared(self) -> None:
        """This side can begin at once; go may come."""
        self._channel.send({"do": "prepared"})

    def wait_go(self) -> None:
        """Until the round of this place begins."""
        while not self._channel.may_go:
            self._channel.receive(_LOOK_S)

    # --- mail ------------------------------------------------------------------------------------

    def send(self, name: str, document: Any = True) -> None:
        """To the other side; it hears it by this name, once. Not None: that is no mail."""
        self._channel.send({"do": "mail", "name": self._prefix + name, "body": document})

    def receive(self, name: str, limit_s: float) -> Any | None:
        """What the other side sends by that name; None at the limit, or where it has ended."""
        deadline = time.monotonic() + limit_s
        wanted = self._prefix + name
        while True:
            # What it sent last may lie before its end.
            self._channel.receive(0)
            if wanted in self._channel.mails:
                return self._channel.mails.pop(wanted)
            left_s = deadline - time.monotonic()
            if self.other_ended or left_s <= 0:
                return None
            self._channel.receive(left_s)

    @property
    def other_ended(self) -> bool:
        """Whether the other side has left its exit lines, or will never do so."""
        return self._channel.other_ended or self._prefix + _LEFT in self._channel.mails

    @property
    def other_ran(self) -> bool:
        """Whether the other side has left its exit lines, of tools that it had started."""
        return self._channel.mails.get(self._prefix + _LEFT) is True

    def wait(self, calls: Iterable[Call], limit_s: float) -> None:
        """Return when all calls, or the other side, have ended, or after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while True:
            self._channel.receive(0)
            running = [call for call in calls if not call.ended]
            left_s = deadline - time.monotonic()
            if not running or self.other_ended or left_s <= 0:
                return
            files = (self._channel.connection.fileno(),)
            deadline += wait_for_any(running, left_s, *files)

    # --- what is left ----------------------------------------------------------------------------

    def report(self, call: Call, line: dict[str, Any], files: dict[str, str] | None = None) -> None:
        """A call's exit line and its outputs, for the sweep's record."""
        self._channel.send(
            {
                "do": "side",
                "role": self._prefix + call.role,
                "line": line,
                "out": call.output("out"),
                "err": call.output("err"),
                "files": files or {},
            }
        )

    def finished(self, ran: bool) -> None:
        """All of this side's calls of this direction have ended, and their lines are left; `ran` is
        whether any of them had been started.
        """
        self.send(_LEFT, ran)
