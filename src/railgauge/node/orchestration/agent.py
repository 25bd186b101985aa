"""The part of a sweep that runs on each of its nodes: it starts the sides that the conductor names.

    srun --input=all ... python3 -m railgauge.node.orchestration.agent sweep.json

Where the conductor is, and the sweep's secret, come as one line of JSON on its standard input:
{"host": ..., "names": [...], "port": ..., "secret": <hexadecimal>}. It connects, and then does what
the conductor says (rounds.py) of the list that it has read itself: never a command line. When it
ends, or loses its conductor, so does all that it has started.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from railgauge.node.orchestration import startup
from railgauge.node.system.rlimits import LimitError, raise_open_files, raise_processes

if __name__ == "__main__":
    startup.begin()

import asyncio

from railgauge.node.orchestration import sweep_file, worker
from railgauge.node.orders.places import PlaceOrder
from railgauge.node.system import processes
from railgauge.node.system.tool_call import address_of, look_up, node_name, search_path
from railgauge.node.transport import protocol

#: Time that a side, once ordered to end, has to undo what it changed on the node.
STOP_S = 5.0
#: Time for what clears up after it; Slurm kills all of a job 30 s after its SIGTERM (KillWait).
CLEAR_S = 20.0
#: A side that is still being prepared reports after this time that it is there.
_TAKEN_S = 5.0
#: The longest line on standard input, in bytes.
_ORDERS_BYTES = 65536
#: Descriptors of a side: its socket, and those that come and go while it is started.
_FILES_A_SIDE = 4
_FILES = 64
#: Processes and threads of a side: itself, its tool, the sampler of counters, what it asks; and of
#: the agent and srun's task.
_PROCESSES_A_SIDE = 8
_PROCESSES = 16
_CHUNK_BYTES = 1 << 18

Answered = Callable[[protocol.Message], None]
Ended = Callable[[str], None]


class Side(Protocol):
    """A side of a place that has been started."""

    def send(self, message: protocol.Message) -> None:
        """Pass on a message of the conductor."""

    def stop(self) -> None:
        """Begin to end it; its end is reported later."""


#: Starts a side: its program, its orders, its role, a call for each of its messages, and one for
#: its end with the reason ("" for a normal end; a side that broke has said so before).
Start = Callable[[str, PlaceOrder[Any], str, Answered, Ended], Side]


class ForkedSide:
    """A side in a process of its own."""

    def __init__(
        self, process: int, connection: socket.socket, answered: Answered, ended: Ended
    ) -> None:
        self.process = process
        self._connection = connection
        self._answered, self._ended = answered, ended
        self._parts: list[bytes] = []
        self._unsent = bytearray()
        self._why: str | None = None
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        connection.setblocking(False)
        self._loop.add_reader(connection.fileno(), self._read)

    def send(self, message: protocol.Message) -> None:
        self._unsent += json.dumps(message).encode() + b"\n"
        self._write()

    def _write(self) -> None:
        """Write as much as the socket takes now; the rest waits until it takes more."""
        file = self._connection.fileno()
        # A side that has ended does not need it any more.
        if file < 0:
            return
        try:
            del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
        if self._unsent:
            self._loop.add_writer(file, self._write)
        else:
            self._loop.remove_writer(file)

    def stop(self) -> None:
        self._stopped = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGTERM)
        self._loop.call_later(STOP_S, self.kill)

    def kill(self) -> None:
        if self._why is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)

    def _read(self) -> None:
        try:
            data = self._connection.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._connection.fileno())
            self._loop.remove_writer(self._connection.fileno())
            self._connection.close()
            self._end()
            return
        whole, newline, rest = data.rpartition(b"\n")
        lines = b"".join((*self._parts, whole)).split(b"\n") if newline else []
        self._parts = [rest] if newline else [*self._parts, rest]
        for line in lines:
            message = json.loads(line)
            self._answered(message)

    def reaped(self, status: int) -> None:
        """Called when its process has ended."""
        code = os.waitstatus_to_exitcode(status)
        if code == 0 or self._stopped:
            self._why = ""
        else:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._why = f"its process ended with {how}"
        self._end()

    def _end(self) -> None:
        """Report its end once its process is over and all that it wrote has been read."""
        if self._why is not None and self._connection.fileno() < 0:
            self._ended(self._why)


class Sides:
    """The processes of an agent's sides, and what they leave behind."""

    def __init__(self) -> None:
        self._running: dict[int, ForkedSide] = {}

    def start(
        self, program: str, place: PlaceOrder[Any], role: str, answered: Answered, ended: Ended
    ) -> Side:
        process, connection = worker.start(program, place, role)
        side = ForkedSide(process, connection, answered, ended)
        self._running[process] = side
        return side

    def reap(self) -> None:
        """Reap the sides that have ended, and their orphans; called at SIGCHLD."""
        ended = False
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not process:
                break
            side = self._running.pop(process, None)
            if side is not None:
                ended = True
                side.reaped(status)
        if ended:
            self.end_strays()

    def end_strays(self) -> None:
        """End what a killed side has left behind, which gets a moment to clear up."""
        self._signal_strays(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        loop.call_later(STOP_S, self._signal_strays, signal.SIGKILL)
        loop.call_later(CLEAR_S, self._signal_strays, signal.SIGKILL, True)

    def _signal_strays(self, number: signal.Signals, also_keepers: bool = False) -> None:
        spared = () if also_keepers else processes.keepers()
        for child in processes.children():
            if child not in self._running and child not in spared:
                processes.end_group(child, number)

    async def end(self) -> None:
        """End all sides; no process of theirs is left when it returns."""
        for side in list(self._running.values()):
            side.stop()
        deadline = time.monotonic() + STOP_S
        while self._running and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            self.reap()
        processes.end_children(but_keepers=True)
        deadline = time.monotonic() + CLEAR_S
        while processes.keepers() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            self.reap()
        processes.end_children()


class Agent(protocol.AgentLink):
    """The node's end of the connection to the conductor."""

    def __init__(
        self,
        orders: sweep_file.Sweep,
        node: str,
        secret: bytes,
        start: Start,
        done: Callable[[str], None],
    ) -> None:
        """`done` is called with why it is over, once it has begun: "" where the conductor says that
        all is done.
        """
        super().__init__(secret, node)
        #: "" once the conductor has proved itself; why not, where it has not
        self.met: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._orders = orders
        self._start, self._done = start, done
        self._sides: dict[tuple[int, str], Side] = {}
        self._have_answered: set[tuple[int, str]] = set()
        self._over = False

    def message_received(self, message: protocol.Message) -> None:
        do = message.get("do")
        if do == "welcome":
            self.send({"do": "joined"})
            if not self.met.done():
                self.met.set_result("")
        elif do == "ask":
            self.send({"do": "here"})
        elif do == "end":
            self._over = True
            self.close("")
        elif do == "prepare":
            self._prepare(*self._side_of(message))
        else:
            # It may have ended meanwhile.
            side = self._sides.get(self._side_of(message))
            if side is not None and do == "stop":
                side.stop()
            elif side is not None and do in ("go", "mail", "other_ended"):
                side.send(message)
            elif side is not None:
                raise protocol.ProtocolError(f"the conductor says {do!r}")

    def _side_of(self, message: protocol.Message) -> tuple[int, str]:
        index, role = message.get("place"), message.get("role")
        if not isinstance(index, int) or not isinstance(role, str):
            raise protocol.ProtocolError(f"no place: {index!r} {role!r}")
        place = self._orders.places.get(index)
        if place is None and message.get("do") == "prepare":
            place = self._again(index, message)
        if place is None or place.roles.get(role) != self._node:
            raise protocol.ProtocolError(f"no place of this node: {index} {role}")
        return index, role

    def _again(self, index: int, message: protocol.Message) -> sweep_file.Place:
        """Add a place of the list with other nodes of the list."""
        again = message.get("again")
        if not isinstance(again, dict) or set(again) != {"like", "server", "client"}:
            raise protocol.ProtocolError(f"no place of the list: {index}")
        try:
            return self._orders.again(index, **again)
        except (sweep_file.SweepError, TypeError) as error:
            raise protocol.ProtocolError(str(error)) from None

    def _prepare(self, index: int, role: str) -> None:
        key = (index, role)
        if key in self._sides:
            raise protocol.ProtocolError(f"place {index} is prepared twice")
        program, place = self._orders.places[index].program, self._orders.place_order(index)
        answered, ended = (
            functools.partial(self._answered, key),
            functools.partial(self._ended, key),
        )
        asyncio.get_running_loop().call_later(_TAKEN_S, self._take, key)
        try:
            self._sides[key] = self._start(program, place, role, answered, ended)
        except OSError as error:
            self._ended(key, f"no process for it: {error}")

    def _take(self, key: tuple[int, str]) -> None:
        if key in self._sides and key not in self._have_answered:
            self._answered(key, {"do": "taken"})

    def _answered(self, key: tuple[int, str], message: protocol.Message) -> None:
        self._have_answered.add(key)
        # "role" of an exit line may have a number, and another direction, in it.
        self.send({**message, "place": key[0], "from": key[1]})

    def _ended(self, key: tuple[int, str], why: str) -> None:
        self._sides.pop(key, None)
        self._have_answered.discard(key)
        self.send({"do": "ended", "place": key[0], "from": key[1], "why": why})

    def lost(self, why: str) -> None:
        if self.met.done():
            self._done("" if self._over else why or "the conductor ended")
        else:
            self.met.set_result(why or "its connection ended")


def read_orders(limit_s: float) -> dict[str, Any]:
    """The address of the conductor, from standard input; ValueError where it cannot be read."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLIN)
    line, deadline = b"", time.monotonic() + limit_s
    while not line.endswith(b"\n"):
        if not poll.poll(1000 * max(deadline - time.monotonic(), 0)):
            raise ValueError(f"nothing on standard input within {limit_s:g} s")
        data = os.read(sys.stdin.fileno(), _ORDERS_BYTES)
        line += data
        if not data or len(line) > _ORDERS_BYTES:
            raise ValueError(f"{len(line)} bytes on standard input without an end of line")
    orders = json.loads(line)
    if not isinstance(orders, dict) or {"host", "names", "port", "secret"} - orders.keys():
        raise ValueError("no host, names, port and secret on standard input")
    return orders


def look_ahead(orders: sweep_file.Sweep, node: str) -> None:
    """Look up the versions and packages of all tools of this node now: its sides inherit the
    answers, so that no measurement waits for them or is disturbed.
    """
    before = os.environ.get("PATH", os.defpath)
    roles = {
        (place.order, role)
        for place in orders.places.values()
        for role, host in place.roles.items()
        if host == node
    }
    for number, role in roles:
        order = orders.orders[number]
        os.environ["PATH"] = search_path(order.path)
        argv = order.argv_of(role) or ("",)
        look_up(order.version, argv[0])
        for program in order.programs_of(role):
            look_up((), shutil.which(program) or program)
    os.environ["PATH"] = before


async def connect(address: str, port: int, make: Callable[[], Agent], limit_s: float) -> Agent:
    """A connection to the conductor, which has proved itself; retried where it fails. OSError at
    the limit.
    """
    deadline, pause_s = time.monotonic() + limit_s, 0.05
    loop = asyncio.get_running_loop()
    while True:
        left_s = deadline - time.monotonic()
        try:
            opening = loop.create_connection(make, address, port)
            _, agent = await asyncio.wait_for(opening, max(left_s, 0.1))
            why = await asyncio.wait_for(agent.met, max(left_s, 0.1))
            if not why:
                return agent
        except (OSError, asyncio.TimeoutError) as error:
            why = str(error)
        if time.monotonic() + pause_s > deadline:
            raise OSError(f"no connection within {limit_s:g} s: {why}")
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, 1.0)


async def run(orders: sweep_file.Sweep, node: str, conductor: dict[str, Any]) -> int:
    """Serve the sweep until its end; the exit code."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[str] = loop.create_future()

    def done(why: str) -> None:
        if not over.done():
            over.set_result(why)

    secret = bytes.fromhex(conductor["secret"])
    sides = Sides()
    loop.add_signal_handler(signal.SIGCHLD, sides.reap)
    loop.add_signal_handler(signal.SIGTERM, done, "SIGTERM")
    # On the conductor's own node its name may resolve to the loopback.
    here = conductor["host"] == node
    names = [conductor["host"], *conductor["names"]]
    try:
        address = "127.0.0.1" if here else address_of(names)
        agent = await connect(
            address,
            conductor["port"],
            lambda: Agent(orders, node, secret, sides.start, done),
            orders.connect_limit_s,
        )
    except OSError as error:
        print(
            f"agent on {node}: cannot reach the conductor on {' or '.join(names)}, port "
            f"{conductor['port']}: {error}\nnext: `getent hosts {conductor['host']}` there, and "
            "whether a firewall lets nodes connect to each other",
            file=sys.stderr,
        )
        return 1
    why = await over
    if why == "SIGTERM":
        agent.send({"do": "terminated"})
    # What its sides leave from now on is not of their own doing.
    agent.close(why)
    await sides.end()
    if why:
        print(f"agent on {node}: {why}", file=sys.stderr)
    return 143 if why == "SIGTERM" else 1 if why else 0


def main() -> int:
    node = node_name()
    try:
        orders = sweep_file.read(sys.argv[1])
        if node not in orders.nodes:
            raise sweep_file.SweepError(f"{sys.argv[1]}: this is {node}, expected one of `nodes`")
        sides = orders.most_on_a_node()
        raise_open_files(_FILES + _FILES_A_SIDE * sides, f"agent on {node}")
        raise_processes(_PROCESSES + _PROCESSES_A_SIDE * sides, f"agent on {node}")
        conductor = read_orders(orders.connect_limit_s)
    except (OSError, ValueError, LimitError) as error:
        print(f"agent on {node}: {error}", file=sys.stderr)
        return 2
    processes.adopt_orphans()
    worker.load({place.program for place in orders.places.values() if node in place.roles.values()})
    startup.loaded()
    look_ahead(orders, node)
    return asyncio.run(run(orders, node, conductor))


if __name__ == "__main__":
    sys.exit(main())
