"""The lines between a sweep's conductor and its agents, authenticated so that none can be forged.

Both know the sweep's secret, which never crosses this connection. Each side says a nonce of its
own; from both and the secret follow two keys, one a direction. From then on a line is

    <HMAC-SHA256 in hexadecimal> <sequence number> <JSON list of messages>

with the MAC over number and list. It needs the secret, and a line that was recorded, left
out or altered ends the connection: nonces and numbers never come twice.

    agent      {"railgauge": 1, "node": "n1", "nonce": "..."}
    conductor  {"nonce": "..."}      then its first line with a MAC, which proves it
    agent      its first line with a MAC, which proves it

The lines are authenticated, not encrypted: a listener on the network between the nodes can read
them, as it could what lies on a shared file system.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import socket
from collections.abc import Callable
from typing import Any, cast

from railgauge.node.transport.results_file import CONNECTION_ENDED

#: Longest line, in bytes, of a connection that has not proved yet that it belongs here.
HELLO_BYTES = 4096
#: Longest line of an agent: some outputs of `calls.OUTPUT_BYTES`, as JSON.
LINE_BYTES = 64 * 2**20

VERSION = 1
_NONCE_BYTES = 16
_MAC_DIGITS = 64

Message = dict[str, Any]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
#: of text without a blank around it; json.loads looks for blanks, and for the encoding of bytes
_decode = json.JSONDecoder().raw_decode


class ProtocolError(Exception):
    """The other end does not belong to this sweep, or does not keep to the protocol."""


class _Mac:
    """HMAC-SHA256 (RFC 2104) by one key, with its two hashes begun once: looking at the key takes
    longer than a short line, and so does `hmac` with what it does in Python.
    """

    _BLOCK_BYTES = 64
    #: each byte with the inner and the outer pad
    _INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))

    def __init__(self, key: bytes) -> None:
        block = key.ljust(self._BLOCK_BYTES, b"\0")
        assert len(block) == self._BLOCK_BYTES, "a longer key is hashed first"
        self._inner = hashlib.sha256(block.translate(self._INNER))
        self._outer = hashlib.sha256(block.translate(self._OUTER))

    def of(self, text: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.hexdigest().encode()


def keys_of(secret: bytes, node: str, agents: str, conductors: str) -> tuple[bytes, bytes]:
    """The keys of what the agent of `node` says, and of what the conductor says, by both nonces."""
    bound = json.dumps([VERSION, node, agents, conductors]).encode()
    agent = hmac.digest(secret, b"agent " + bound, "sha256")
    return agent, hmac.digest(secret, b"conductor " + bound, "sha256")


class Sealer:
    """Makes the lines of one direction."""

    def __init__(self, key: bytes) -> None:
        self._mac = _Mac(key)
        self._number = 0

    def line(self, messages: list[Message]) -> bytes:
        text = f"{self._number} {_encode(messages)}".encode("utf-8", "replace")
        self._number += 1
        return b"%s %s\n" % (self._mac.of(text), text)


class Opener:
    """Reads them; ProtocolError where one is not the next of that direction."""

    def __init__(self, key: bytes) -> None:
        self._mac = _Mac(key)
        self._number = 0

    def messages(self, line: bytes) -> list[Message]:
        mac, body = line[:_MAC_DIGITS], line[_MAC_DIGITS + 1 :]
        if not hmac.compare_digest(mac, self._mac.of(body)):
            raise ProtocolError("a line with a wrong MAC")
        number, _, listed = body.partition(b" ")
        if number != b"%d" % self._number:
            raise ProtocolError("a line out of its order")
        self._number += 1
        try:
            messages, end = _decode(text := listed.decode())
        except ValueError:
            raise ProtocolError("a line that is no JSON") from None
        if end != len(text):
            raise ProtocolError("a line with more than its JSON")
        if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
            raise ProtocolError("a line that is no list of messages")
        return messages


#: What has come, of whichever connection, until it is taken at once. For each look at a socket
#: asyncio's own would be made again, of a size that the C library asks the kernel for: that took a
#: fifth of all the work.
_CAME = memoryview(bytearray(1 << 16))


class Link(asyncio.BufferedProtocol):
    """One end of a connection: whole lines of limited length, and messages that go out together.

    A subclass has the handshake: `line_received` until `open` has been called with both keys.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.limit_bytes = HELLO_BYTES
        self.closed = False
        self._parts: list[bytes] = []
        self._size = 0
        self._waiting: list[Message] = []
        self._sealer: Sealer | None = None
        self._opener: Opener | None = None

    # --- for subclasses ----------------------------------------------------------------------

    def line_received(self, line: bytes) -> None:
        """A line of the handshake; ProtocolError where it is not what belongs there."""
        raise NotImplementedError

    def message_received(self, message: Message) -> None:
        """A message of the authenticated peer; ProtocolError where it makes no sense."""
        raise NotImplementedError

    def lost(self, why: str) -> None:
        """Called when the connection is over."""

    # --- the connection ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            # A machine that is switched off says nothing: found out after 10 + 3 x 5 s.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _CAME

    def buffer_updated(self, nbytes: int) -> None:
        self._received_bytes(bytes(_CAME[:nbytes]))

    def _received_bytes(self, data: bytes) -> None:
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            lines = b"".join((*self._parts, whole)).split(b"\n")
            self._parts, self._size = [], 0
        else:
            lines = []
        self._parts.append(rest)
        self._size += len(rest)
        try:
            for line in lines:
                if self.closed:
                    return
                if len(line) > self.limit_bytes:
                    raise ProtocolError(f"a line of more than {self.limit_bytes} bytes")
                self._received(line)
            if self._size > self.limit_bytes:
                raise ProtocolError(f"a line of more than {self.limit_bytes} bytes")
        except ProtocolError as error:
            self.close(str(error))

    def _received(self, line: bytes) -> None:
        if self._opener is None:
            self.line_received(line)
            return
        for message in self._opener.messages(line):
            if not self.closed:
                self.message_received(message)

    def open(self, sends: bytes, receives: bytes) -> None:
        """From here on every line has a MAC, by these keys."""
        self._sealer, self._opener = Sealer(sends), Opener(receives)

    def say(self, document: Message) -> None:
        """Send a line of the handshake."""
        self.transport.write(_encode(document).encode() + b"\n")

    def send(self, message: Message) -> None:
        """With all else that is sent in this turn of the loop, as one line."""
        if self.closed:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(message)

    def flush(self) -> None:
        if self._waiting and not self.closed and self._sealer is not None:
            self.transport.write(self._sealer.line(self._waiting))
        self._waiting = []

    def close(self, why: str) -> None:
        """End the connection; `lost` gets the reason."""
        if self.closed:
            return
        self.flush()
        self.closed = True
        self._parts = []
        # An end that does not read is not waited for.
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()
        self.lost(why)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed:
            self.closed = True
            self.lost(f"{CONNECTION_ENDED}{f': {error}' if error else ''}")


def document_of(line: bytes) -> Message:
    """A line of the handshake; ProtocolError where it is no JSON object."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise ProtocolError("no JSON") from None
    if not isinstance(document, dict):
        raise ProtocolError("no JSON object")
    return document


def nonce() -> str:
    return os.urandom(_NONCE_BYTES).hex()


def _nonce_of(document: Message) -> str:
    nonce = document.get("nonce")
    if not isinstance(nonce, str) or len(nonce) != 2 * _NONCE_BYTES:
        raise ProtocolError("no nonce")
    return nonce


class AgentLink(Link):
    """The agent's end: `joined` is called when the conductor has proved itself."""

    def __init__(self, secret: bytes, node: str) -> None:
        super().__init__()
        self._secret, self._node, self._nonce = secret, node, nonce()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.say({"railgauge": VERSION, "node": self._node, "nonce": self._nonce})

    def line_received(self, line: bytes) -> None:
        nonce = _nonce_of(document_of(line))
        agent, conductor = keys_of(self._secret, self._node, self._nonce, nonce)
        self.open(sends=agent, receives=conductor)
        self.limit_bytes = LINE_BYTES


class ConductorLink(Link):
    """The conductor's end of a connection, at first of an unknown node.

    `prove` is called with this link when the agent of `node` has proved itself; it may refuse.
    """

    def __init__(
        self, secret: bytes, nodes: frozenset[str], prove: Callable[[ConductorLink], None]
    ) -> None:
        super().__init__()
        self._secret, self._nodes, self._prove = secret, nodes, prove
        self.node = ""
        self.proved = False

    def line_received(self, line: bytes) -> None:
        document = document_of(line)
        node = document.get("node")
        if document.get("railgauge") != VERSION or node not in self._nodes:
            raise ProtocolError("no agent of this sweep")
        self.node = str(node)
        own = nonce()
        self.say({"nonce": own})
        agent, conductor = keys_of(self._secret, self.node, _nonce_of(document), own)
        self.open(sends=conductor, receives=agent)
        self.send({"do": "welcome"})

    def _received(self, line: bytes) -> None:
        if self._opener is not None and not self.proved:
            self._opener.messages(line)
            self._prove(self)
            self.proved = True
            self.limit_bytes = LINE_BYTES
            return
        super()._received(line)
