"""The conductor's side of a sweep: which connections are accepted, and the rounds (rounds.py). A
connection that cannot prove to be an agent of this sweep is counted, and has no other effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from railgauge.node.orchestration import sweep_file
from railgauge.node.orchestration.rounds import Rounds
from railgauge.node.system.tool_call import node_name
from railgauge.node.transport import protocol, results_file

#: Time to prove to be an agent; generous, because thousands of agents connect at once.
PROOF_S = 30.0
#: Connections that may be unproved at once, besides expected agents; beyond that the oldest drop.
MOST_UNPROVED = 512
#: Time that agents, and srun, have to end.
END_S = 10.0
#: Objects that are made before Python looks for reference cycles among them.
_COLLECT_OBJECTS = 100_000
#: How many rejected addresses are recorded.
_NAMED = 10


class Launcher(Protocol):
    """Starts the agents; `unreached` has the nodes on which it could not, and why."""

    unreached: dict[str, str]
    #: those that the job got
    nodes: list[str]

    def start(self, nodes: Sequence[str]) -> None:
        """Start it again, on these nodes."""

    def wait(self) -> int:
        """Its exit code, at its end."""

    def send_signal(self, number: int) -> None: ...


class Listener:
    """Accepts connections; those that prove to be agents are handed to the sweep."""

    def __init__(self, secret: bytes, nodes: tuple[str, ...], welcome: Callable[[AgentEnd], None]):
        self._secret, self._nodes, self._welcome = secret, frozenset(nodes), welcome
        self._unproved: dict[AgentEnd, str] = {}
        self._most = MOST_UNPROVED + len(nodes)
        self.rejected = 0
        self.addresses: list[str] = []

    def open(self) -> AgentEnd:
        return AgentEnd(self._secret, self._nodes, self)

    def on_connect(self, end: AgentEnd, address: str) -> None:
        self._unproved[end] = address
        if len(self._unproved) > self._most:
            next(iter(self._unproved)).close("too many at once")

    def on_authenticated(self, end: AgentEnd) -> None:
        """ProtocolError where that node has an agent already."""
        self._welcome(end)
        self._unproved.pop(end, None)
        # Together they never exceed the open files that this process may have.
        self._most -= 1

    def on_disconnect(self, end: AgentEnd) -> None:
        """A connection ended before it proved to be an agent's."""
        address = self._unproved.pop(end, None)
        if address is None:
            return
        self.rejected += 1
        if len(self.addresses) < _NAMED and address not in self.addresses:
            self.addresses.append(address)

    def close(self) -> None:
        for end in list(self._unproved):
            end.close("the sweep is over")


class AgentEnd(protocol.ConductorLink):
    """An accepted connection."""

    def __init__(self, secret: bytes, nodes: frozenset[str], listener: Listener) -> None:
        super().__init__(secret, nodes, lambda _: listener.on_authenticated(self))
        self._listener = listener
        #: what is done with a message, and with the end of the connection, of an agent
        self.received: Callable[[str, protocol.Message], None] | None = None
        self.ended: Callable[[str, str], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        address = transport.get_extra_info("peername") or ("unknown",)
        self._listener.on_connect(self, str(address[0]))
        if not self.closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(PROOF_S, self._prove_or_go)

    def _prove_or_go(self) -> None:
        if not self.proved:
            self.close(f"no proof within {PROOF_S:g} s")

    def message_received(self, message: protocol.Message) -> None:
        if self.received is not None:
            self.received(self.node, message)

    def lost(self, why: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.proved:
            # Nothing more of a connection without a proof is waited for.
            self.transport.abort()
            self._listener.on_disconnect(self)
        elif self.ended is not None:
            self.ended(self.node, why)


class Conductor:
    """One sweep: its agents, its rounds, its record."""

    def __init__(
        self, orders: sweep_file.Sweep, secret: bytes, write: Callable[[results_file.Event], None]
    ) -> None:
        self.orders, self._write = orders, write
        self.listener = Listener(secret, orders.nodes, self._welcome)
        self.rounds = Rounds(orders, self._send, write, self._drop)
        self._agents: dict[str, AgentEnd] = {}
        self._began = time.monotonic()
        self._met = asyncio.Event()
        #: whether the rounds have begun
        self._going = False
        self._stopped: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    # --- agents ----------------------------------------------------------------------------------

    async def listen(self, listening: socket.socket) -> asyncio.AbstractServer:
        """Accept connections at that socket."""
        backlog = len(self.orders.nodes) + MOST_UNPROVED
        loop = asyncio.get_running_loop()
        return await loop.create_server(self.listener.open, sock=listening, backlog=backlog)

    def _welcome(self, end: AgentEnd) -> None:
        if end.node in self._agents or end.node in self.rounds.lost:
            raise protocol.ProtocolError(f"an agent of {end.node}, which has one, or was given up")
        self._agents[end.node] = end
        end.received, end.ended = self._received, self._left
        seconds = round(time.monotonic() - self._began, 3)
        self._write({"event": "joined", "node": end.node, "seconds": seconds})
        if len(self._agents) + len(self.rounds.lost) == len(self.orders.nodes):
            self._met.set()

    def _left(self, node: str, why: str) -> None:
        """An agent's connection has ended; before the first round another may come in its place."""
        if self._going:
            self.rounds.lose(node, why)
        else:
            self._agents.pop(node, None)

    def _received(self, node: str, message: protocol.Message) -> None:
        if message.get("do") == "terminated":
            self._left(node, results_file.TERMINATED)
        else:
            self.rounds.received(node, message)

    def _send(self, node: str, message: protocol.Message) -> None:
        end = self._agents.get(node)
        if end is not None:
            end.send(message)

    def _drop(self, node: str, why: str) -> None:
        end = self._agents.pop(node, None)
        if end is not None:
            end.close(why)

    # --- the sweep -------------------------------------------------------------------------------

    def stop(self, why: str) -> None:
        """End the sweep before its end."""
        if not self._stopped.done():
            self._stopped.set_result(why)

    def to_start_again(self, unreached: Mapping[str, str]) -> list[str]:
        """The nodes on which to start again after srun ended because it did not reach some; none
        where it ended for another reason, or rounds go on.
        """
        new = [n for n in unreached if n in self.orders.nodes and n not in self.rounds.lost]
        if self._going or not new:
            return []
        for node in new:
            why = unreached[node]
            self.rounds.lose(node, f"srun on {node_name()} started no task there: {why}")
        for end in self._agents.values():
            end.ended = None
            end.close("srun ends its agent")
        self._agents.clear()
        return [node for node in self.orders.nodes if node not in self.rounds.lost]

    def launcher_ended(self, code: int) -> None:
        """No agent will come any more, and those that were there have gone."""
        for node in self.orders.nodes:
            if node not in self._agents:
                self.rounds.lose(node, f"its agent did not start: srun ended with exit code {code}")
        self._met.set()

    async def run(self) -> str:
        """All rounds; why it ended early, "" where it did not."""
        rounds = asyncio.ensure_future(self._rounds())
        both: list[asyncio.Future[Any]] = [rounds, self._stopped]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if rounds.done():
            rounds.result()
            return ""
        rounds.cancel()
        return self._stopped.result()

    async def _rounds(self) -> None:
        limit_s = self.orders.connect_limit_s
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._met.wait(), limit_s)
        for node in self.orders.nodes:
            if node not in self._agents:
                self.rounds.lose(node, f"its agent did not connect within {limit_s:g} s")
        self._going = True
        await self.rounds.run()

    def end(self) -> None:
        """Close the connections of all agents."""
        for end in self._agents.values():
            end.ended = None
            end.send({"do": "end"})
            end.flush()
        self.listener.close()


async def conduct(
    orders: sweep_file.Sweep,
    secret: bytes,
    listening: socket.socket,
    launcher: Launcher,
    writer: results_file.Writer,
) -> int:
    """Run the whole sweep, with agents that `launcher` starts; the exit code."""
    began, loop = time.monotonic(), asyncio.get_running_loop()
    conductor = Conductor(orders, secret, writer.write)
    loop.add_signal_handler(signal.SIGTERM, conductor.stop, "SIGTERM")
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    writer.write({"event": "begin", "host": node_name(), "time": now, "nodes": orders.nodes})
    for node in orders.nodes:
        if node not in launcher.nodes:
            conductor.rounds.lose(node, results_file.NOT_OURS)
    server = await conductor.listen(listening)
    ended = asyncio.ensure_future(_attend(conductor, launcher))
    try:
        why = await conductor.run()
    finally:
        conductor.end()
        server.close()
        await _end(launcher, ended)
    if conductor.listener.rejected:
        count, addresses = conductor.listener.rejected, conductor.listener.addresses
        writer.write({"event": "strangers", "count": count, "from": addresses})
    seconds = round(time.monotonic() - began, 3)
    writer.write({"event": "end", "seconds": seconds, "why": why})
    return 143 if why else 0


def run(
    orders: sweep_file.Sweep,
    secret: bytes,
    listening: socket.socket,
    launcher: Launcher,
    writer: results_file.Writer,
) -> int:
    """As `conduct`, for a program without an event loop."""
    # Messages of thousands of agents form no reference cycles; looking for them costs a tenth of
    # all the work.
    gc.set_threshold(_COLLECT_OBJECTS)
    return asyncio.run(conduct(orders, secret, listening, launcher, writer))


async def _attend(conductor: Conductor, launcher: Launcher) -> None:
    """Wait until srun has ended for good; it is started again without nodes that it missed."""
    loop = asyncio.get_running_loop()
    while True:
        code = await loop.run_in_executor(None, launcher.wait)
        nodes = conductor.to_start_again(launcher.unreached)
        if not nodes:
            conductor.launcher_ended(code)
            return
        launcher.start(nodes)


async def _end(launcher: Launcher, ended: asyncio.Future[None]) -> None:
    """Wait for srun, which ends with its tasks; where one hangs, end it."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            launcher.send_signal(number)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(ended), END_S)
            return
