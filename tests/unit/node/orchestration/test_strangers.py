"""Who does not belong to a sweep cannot join, stop, delay or falsify it: over real sockets."""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.orchestration import agent, sweep_file
from railgauge.node.orchestration import server as conductor_server
from railgauge.node.orchestration.agent import Agent, Side
from railgauge.node.orders.places import ClientServerOrder
from railgauge.node.runners.client_server import Pair
from railgauge.node.transport import protocol, results_file
from tests.unit.node.sweeping import PATIENCE_S

NODES = ("n1", "n2")

PLACES: list[dict[str, Any]] = [
    {
        "name": "n1:n2",
        "program": "client_server",
        "roles": {"server": "n1", "client": "n2"},
        "order": 0,
    }
]
ORDER = ClientServerOrder(
    start_limit_s=1, run_limit_s=1, budgets=(), server=("s",), client=("c",), version=()
)


def orders() -> sweep_file.Sweep:
    places = {index: sweep_file.Place(index, **one) for index, one in enumerate(PLACES)}
    return sweep_file.Sweep("tool", NODES, {}, (), [(0,)], places, (ORDER,), 5.0)


class Asleep:
    """A side that does nothing but say that it has done all."""

    def __init__(self, role: str, said: Callable[[Any], None], ended: Callable[[str], None]):
        self._role, self._said, self._ended = role, said, ended
        said({"do": "prepared"})

    def send(self, message: protocol.Message) -> None:
        if message["do"] == "go":
            line = {"call": {"role": self._role, "seconds": 0.1}, "facts": {}}
            side = {"do": "side", "role": self._role, "line": line, "out": "", "err": ""}
            self._said({**side, "files": {}})
            self._ended("")

    def stop(self) -> None:
        self._ended("")


def start(program: str, place: Any, role: str, said: Any, ended: Any) -> Side:
    return Asleep(role, said, ended)


class Running:
    """A conductor that listens, and what it has written."""

    def __init__(self, secret: bytes = b"secret") -> None:
        self.events: list[results_file.Event] = []
        self.secret = secret
        self.conductor = conductor_server.Conductor(orders(), secret, self.events.append)
        self.port = 0
        self._ended: list[str] = []

    async def listen(self) -> asyncio.AbstractServer:
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        return await self.conductor.listen(listening)

    async def join(self, node: str) -> Agent:
        """The agent of a node, as it is."""

        def make() -> Agent:
            return Agent(orders(), node, self.secret, start, self._ended.append)

        loop = asyncio.get_running_loop()
        _, agent = await loop.create_connection(make, "127.0.0.1", self.port)
        return agent

    async def finish(self) -> float:
        """Both agents join, and the sweep is run to its end; the seconds that took."""
        began = time.monotonic()
        for node in NODES:
            await self.join(node)
        assert await asyncio.wait_for(self.conductor.run(), PATIENCE_S) == ""
        return time.monotonic() - began

    def of(self, kind: str) -> list[results_file.Event]:
        return [event for event in self.events if event["event"] == kind]

    def is_good(self) -> bool:
        """All that two agents leave is there, and nothing else."""
        sides = {event["role"] for event in self.of("side")}
        outcomes = [event["outcome"] for event in self.of("place")]
        return sides == {"server", "client"} and outcomes == ["done"] and not self.of("lost")


def with_conductor(attack: Callable[[Running], Awaitable[None]]) -> Running:
    """Let something happen to a conductor that waits for its agents; then they join."""

    async def all_of_it() -> Running:
        running = Running()
        server = await running.listen()
        await attack(running)
        await running.finish()
        running.conductor.end()
        server.close()
        return running

    return asyncio.run(all_of_it())


async def until(holds: Callable[[], object]) -> None:
    """Wait for what comes at once on a machine that does not stand still."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def connection(running: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", running.port)


#: Before the conductor ends the connection of whoever has proved nothing.
AT_ONCE_S = conductor_server.PROOF_S - 5


async def is_sent_away(reader: asyncio.StreamReader) -> bool:
    """Whether the conductor ends the connection."""
    try:
        while await asyncio.wait_for(reader.read(1024), AT_ONCE_S):
            pass
    except (ConnectionError, asyncio.TimeoutError) as error:
        return isinstance(error, ConnectionError)
    return True


def hello(node: str = "n1") -> bytes:
    return json.dumps({"railgauge": 1, "node": node, "nonce": protocol.nonce()}).encode() + b"\n"


def test_a_sweep_without_rejected_connections_reports_none() -> None:
    async def nothing(running: Running) -> None:
        pass

    running = with_conductor(nothing)
    assert running.is_good() and running.conductor.listener.rejected == 0


def test_one_with_another_secret_does_not_join() -> None:
    async def attack(running: Running) -> None:
        loop = asyncio.get_running_loop()
        made = Agent(orders(), "n1", b"another secret", start, lambda why: None)
        await loop.create_connection(lambda: made, "127.0.0.1", running.port)
        # It finds out that this is not its conductor, before the conductor does.
        assert await made.met == "a line with a wrong MAC"
        await until(lambda: running.conductor.listener.rejected)
        assert running.of("joined") == []

    running = with_conductor(attack)
    assert running.is_good() and running.conductor.listener.rejected == 1


def test_one_that_makes_up_a_proof_is_sent_away() -> None:
    async def attack(running: Running) -> None:
        reader, writer = await connection(running)
        writer.write(hello())
        await reader.readline()
        writer.write(b"0" * 64 + b' 0 [{"do":"joined"}]\n')
        assert await is_sent_away(reader)

    assert with_conductor(attack).is_good()


def test_a_conversation_that_was_recorded_does_not_join_again() -> None:
    async def attack(running: Running) -> None:
        # What a good agent of n1 says, seen by a user in the middle.
        seen = bytearray()
        reader, writer = await connection(running)

        class Recorded(Agent):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                say = transport.write  # type: ignore[attr-defined]
                transport.write = lambda data: (seen.extend(data), say(data))  # type: ignore
                super().connection_made(transport)

        other = Running()
        server = await other.listen()
        made = Recorded(orders(), "n1", running.secret, start, lambda why: None)
        await asyncio.get_running_loop().create_connection(lambda: made, "127.0.0.1", other.port)
        await until(lambda: other.of("joined"))
        server.close()
        writer.write(bytes(seen))
        assert await is_sent_away(reader)
        assert running.of("joined") == []

    assert with_conductor(attack).is_good()


def test_an_agents_line_that_comes_twice_ends_that_agent_and_changes_no_result() -> None:
    async def attack(running: Running) -> None:
        agent = await running.join("n1")
        await until(lambda: running.of("joined"))
        sealer = agent._sealer
        assert sealer is not None
        line = sealer.line([])
        agent.transport.write(line + line)
        await until(lambda: agent.closed)
        assert running.of("side") == []

    # No round had begun: another agent may come for that node.
    running = with_conductor(attack)
    assert running.is_good() and len(running.of("joined")) == 3


def test_a_line_that_was_altered_on_its_way_is_not_believed() -> None:
    key = b"key"
    line = protocol.Sealer(key).line([{"do": "side", "out": "9.41 Gb/s"}]).rstrip(b"\n")
    with pytest.raises(protocol.ProtocolError, match="wrong MAC"):
        protocol.Opener(key).messages(line.replace(b"9.41", b"9.42"))


def test_a_line_that_was_left_out_is_noticed() -> None:
    sealer, opener = protocol.Sealer(b"key"), protocol.Opener(b"key")
    sealer.line([])
    with pytest.raises(protocol.ProtocolError, match="out of its order"):
        opener.messages(sealer.line([]).rstrip(b"\n"))


def test_what_the_conductor_says_cannot_be_said_back_to_it() -> None:
    agent, own = protocol.keys_of(b"secret", "n1", "a", "b")
    line = protocol.Sealer(own).line([{"do": "joined"}]).rstrip(b"\n")
    with pytest.raises(protocol.ProtocolError, match="wrong MAC"):
        protocol.Opener(agent).messages(line)


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01" * 50 + b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n",
        b"[]\n",
        b'{"railgauge": 1, "node": ["n1"], "nonce": "0"}\n',
        b'{"railgauge": 1, "node": "n9", "nonce": "00000000000000000000000000000000"}\n',
        b'{"railgauge": 2, "node": "n1", "nonce": "00000000000000000000000000000000"}\n',
        b"{" * 3000 + b"\n",
    ],
)
def test_whatever_an_unproved_connection_says_it_is_closed(said: bytes) -> None:
    async def attack(running: Running) -> None:
        reader, writer = await connection(running)
        writer.write(said)
        assert await is_sent_away(reader)

    running = with_conductor(attack)
    assert running.is_good() and running.conductor.listener.rejected == 1


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_that_is_too_long_is_not_waited_for(end: bytes) -> None:
    async def attack(running: Running) -> None:
        reader, writer = await connection(running)
        writer.write(b"x" * 5000 + end)
        assert await is_sent_away(reader)

    assert with_conductor(attack).is_good()


def test_a_connection_without_a_proof_may_not_say_more_after_its_hello() -> None:
    async def attack(running: Running) -> None:
        reader, writer = await connection(running)
        writer.write(hello() + b"x" * 5000)
        assert await is_sent_away(reader)

    assert with_conductor(attack).is_good()


def test_an_agent_that_is_sent_away_before_it_has_proved_itself_comes_again() -> None:
    async def again() -> Running:
        running = Running()
        server = await running.listen()
        connect = running.conductor.listener.on_connect
        sent_away: list[str] = []

        def on_connect(end: conductor_server.AgentEnd, address: str) -> None:
            connect(end, address)
            if not sent_away:
                sent_away.append(address)
                end.close("too many at once")

        running.conductor.listener.on_connect = on_connect  # type: ignore[method-assign]

        def make() -> Agent:
            return Agent(orders(), "n1", running.secret, start, lambda why: None)

        await agent.connect("127.0.0.1", running.port, make, 10)
        await until(lambda: running.of("joined"))
        server.close()
        return running

    running = asyncio.run(again())
    assert [event["node"] for event in running.of("joined")] == ["n1"]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(conductor_server, "PROOF_S", 0.5)
    yield


def test_half_open_connections_by_the_hundred_keep_no_node_out(
    soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor_server, "MOST_UNPROVED", 100)
    kept = []

    async def attack(running: Running) -> None:
        for _ in range(400):
            kept.append(socket.create_connection(("127.0.0.1", running.port)))
            await asyncio.sleep(0)
        await until(lambda: running.conductor.listener.rejected >= 298)
        assert len(running.conductor.listener._unproved) <= 100 + len(NODES)
        monkeypatch.undo()

    running = with_conductor(attack)
    for one in kept:
        one.close()
    assert running.is_good() and running.conductor.listener.rejected >= 298


def test_a_connection_with_its_hello_byte_by_byte_is_closed_in_time(
    soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def attack(running: Running) -> None:
        reader, writer = await connection(running)
        for byte in hello():
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
            if reader.at_eof() or running.conductor.listener.rejected:
                break
        else:
            pytest.fail("all of it was waited for")
        assert await is_sent_away(reader)
        # Of the two agents that come now no node is that quick on a busy machine.
        monkeypatch.undo()

    assert with_conductor(attack).is_good()


def test_a_second_agent_of_a_node_is_sent_away_and_the_first_one_stays() -> None:
    async def second() -> Running:
        running = Running()
        server = await running.listen()
        first = await running.join("n1")
        await until(lambda: running.of("joined"))
        again = await running.join("n1")
        await until(lambda: again.closed)
        assert not first.closed
        await running.join("n2")
        await asyncio.wait_for(running.conductor.run(), PATIENCE_S)
        running.conductor.end()
        server.close()
        return running

    running = asyncio.run(second())
    assert running.is_good() and len(running.of("joined")) == 2
    assert running.conductor.listener.rejected == 1


@pytest.mark.parametrize(
    "message",
    [
        {"do": "prepare", "place": 0, "role": "client"},
        {"do": "prepare", "place": 1, "role": "server"},
        {"do": "prepare", "place": "0", "role": "server"},
        {"do": "prepare", "place": 0, "role": "server", "argv": ["sh"], "twice": True},
        {"do": "run", "argv": ["sh", "-c", "id"]},
    ],
)
def test_an_agent_does_nothing_but_what_its_list_has_for_its_node(message: dict[str, Any]) -> None:
    started: list[str] = []

    def noted(program: str, place: Pair, role: str, said: Any, ended: Any) -> Side:
        started.append(role)
        assert place.order.server == ("s",)
        return Asleep(role, said, ended)

    async def told() -> None:
        running = Running()
        server = await running.listen()

        def make() -> Agent:
            return Agent(orders(), "n1", running.secret, noted, lambda why: None)

        loop = asyncio.get_running_loop()
        _, agent = await loop.create_connection(make, "127.0.0.1", running.port)
        await until(lambda: running.of("joined"))
        for _ in range(2 if message.pop("twice", False) else 1):
            running.conductor._send("n1", message)
        await until(lambda: agent.closed)
        server.close()

    asyncio.run(told())
    assert started == (["server"] if "argv" in message and "place" in message else [])


AGAIN = {"like": 0, "server": "n1", "client": "n2"}


@pytest.mark.parametrize(
    ("retests", "again", "taken"),
    [
        (1, AGAIN, True),
        (0, AGAIN, False),
        (1, {**AGAIN, "like": 1}, False),
        (1, {**AGAIN, "like": "0"}, False),
        (1, {**AGAIN, "like": [0]}, False),
        (1, {**AGAIN, "client": "n9"}, False),
        (1, {**AGAIN, "client": "n1"}, False),
        (1, {**AGAIN, "client": ["n2"]}, False),
        (1, {**AGAIN, "server": "n2", "client": "n1"}, False),
        (1, {**AGAIN, "order": {"server": ["sh"]}}, False),
        (1, {"like": 0, "server": "n1"}, False),
        (1, "0", False),
        (1, None, False),
    ],
    ids=str,
)
def test_a_pair_that_is_measured_again_is_of_the_list_and_its_nodes(
    retests: int, again: Any, taken: bool
) -> None:
    started: list[Any] = []

    def noted(program: str, place: Pair, role: str, said: Any, ended: Any) -> Side:
        started.append((program, role, place.order.server, place.hosts["client"]))
        return Asleep(role, said, ended)

    async def told() -> None:
        listed = orders()._replace(retests=sweep_file.Retests(retests, 0.2))
        running = Running()
        server = await running.listen()

        def make() -> Agent:
            return Agent(listed, "n1", running.secret, noted, lambda why: None)

        loop = asyncio.get_running_loop()
        _, agent = await loop.create_connection(make, "127.0.0.1", running.port)
        await until(lambda: running.of("joined"))
        message = {"do": "prepare", "place": 1, "role": "server", "again": again}
        running.conductor._send("n1", message)
        # The conductor of this test knows no such place, and sends who speaks of it away.
        await until(lambda: agent.closed)
        server.close()

    asyncio.run(told())
    assert started == ([("client_server", "server", ("s",), "n2")] if taken else [])


def test_of_rejected_connections_a_count_and_the_first_addresses_are_kept() -> None:
    async def attack(running: Running) -> None:
        for _ in range(3):
            reader, writer = await connection(running)
            writer.write(b"rm -rf\n")
            await is_sent_away(reader)

    running = with_conductor(attack)
    listener = running.conductor.listener
    assert (listener.rejected, listener.addresses) == (3, ["127.0.0.1"])
    assert "rm -rf" not in json.dumps(running.events)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_the_mac_of_a_line_is_hmac_sha256(key: bytes, text: bytes) -> None:
    assert protocol._Mac(key).of(text) == hmac.new(key, text, "sha256").hexdigest().encode()


def test_a_line_with_more_than_its_list_is_refused() -> None:
    key = bytes(32)
    text = b'0 [{"do": "here"}] [{"do": "end"}]'
    line = b"%s %s" % (hmac.new(key, text, "sha256").hexdigest().encode(), text)
    with pytest.raises(protocol.ProtocolError, match="more than its JSON"):
        protocol.Opener(key).messages(line)
