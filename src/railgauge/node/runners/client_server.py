"""Run a client/server tool between two nodes: a side of a place each (worker.py).

Both sides get the same orders. The server's picks a free port, starts the server, and is prepared
once that listens; both wait until the round begins. Then each starts the counters of its node, the
server's says that it is `ready`, and the client's runs the client. No one sleeps for a guess, and
every wait has a limit. Each side leaves its tool's outputs, and an exit line, without which the run
counts as failed.

`links` lists several links on which the tool runs at the same time, all clients started once all
servers listen. The roles of the first are then `server0` and `client0`, and so on.

In the tools' argv, {port} is the server's port, {server} its address; {own_address} is that of the
`interface` that the side should use; {device}, {ib_port} and {gid_index} are those of the rail that
`rdma` names for the side.

With `contention` the tool runs on CPUs that are kept busy, or next to such CPUs (cpu_load.py).

With `least_gbits` the other direction is measured too where the first was slower (reverse.py);
where the client's node sent more segments again than `most_resent` the pair is bad (rounds.py);
with `unmeasured` the same one once more where a tool says that it could not measure (repeat.py).

A side that finds one of its `programs` neither in the folders of `path` nor on PATH starts nothing
and says so; the check decides what that means. So does a side that does not find the `option` in
what its tool prints of itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge.node.orders.places import ClientServerOrder, LinkOrder, PlaceOrder
from railgauge.node.runners import cpu_load, repeat, reverse
from railgauge.node.system import network_path, rdma_devices
from railgauge.node.system.counter_watch import Watch
from railgauge.node.system.tool_call import (
    Call,
    exit_line,
    filled,
    help_of,
    search_path,
    wait_for_any,
)
from railgauge.node.transport.channel import Peer

POLL_S = 0.02
#: Limit for sending what a client left in its socket.
_DRAIN_S = 10.0
#: How long a server may still run when its client has ended.
_AFTER_S = 10.0

#: The number of a side in its exit line.
_RANKS = {"server": 0, "client": 1}

Pair = PlaceOrder[ClientServerOrder]
Values = dict[str, str]
Facts = dict[str, Any]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether any process of this node listens on the TCP port (proc(5), state 0A)."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with Path(table).open(encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[3] == "0A" and fields[1].endswith(wanted):
                        return True
        except FileNotFoundError:
            continue
    return False


def is_listening_by_cm(port: int, server: Call) -> bool:
    """Whether any process of this node listens on the port of the RDMA connection manager, and the
    server waits for clients.

    The kernel calls it LISTEN before it has a listener on each device (rdma_listen in
    drivers/infiniband/core/cma.c), and refuses clients until then (8, invalid service id); the
    server runs meanwhile.
    """
    try:
        shown = rdma_devices.ask(["rdma", "resource", "show", "cm_id"])
    except rdma_devices.FactError:
        return False
    listening = any(
        re.search(rf"\bstate LISTEN\b.*\bsrc-addr \S*:{port}\b", line)
        for line in shown.splitlines()
    )
    return listening and server.sleeps


class Lane:
    """One of the links on which the tool runs: its order, what this side says of it, its number."""

    def __init__(self, pair: Pair, link: LinkOrder, number: str = "") -> None:
        self.pair, self.link = pair, link
        self.number = number
        self.facts: Facts = {}
        self.values: Values = {}
        #: what belongs to the exit line next to the outputs, by name
        self.files: dict[str, str] = {}

    def call(self, role: str, **values: str) -> Call:
        """Start the tool of `role`, on the CPUs near the way."""
        argv = filled(self.pair.order.argv_of(role), {**self.values, **values})
        return Call(f"{role}{self.number}", argv, cpus=network_path.cpus_of(self.facts))

    def describe(self, role: str) -> None:
        """Look up this side's path to the other node; PathError where there is none."""
        peer = self.pair.hosts["client" if role == "server" else "server"]
        names = self.pair.names.get(peer, ())
        self.values = network_path.describe(self.link, role, peer, names, self.facts)

    @property
    def by_connection_manager(self) -> bool:
        return self.link.rdma is not None and self.link.rdma.connection_manager


def lanes_of(pair: Pair) -> list[Lane]:
    """Of several links each has a number behind the names of its roles; an only one has none."""
    order = pair.order
    if not order.links:
        return [Lane(pair, LinkOrder(order.rdma, order.interface))]
    return [Lane(pair, link, str(number)) for number, link in enumerate(order.links)]


#: what a side does once its ways are described: a call for each way
Work = Callable[[Pair, list[Lane], Peer], list[Call]]


def start_server(
    lane: Lane, deadline: float, prepare: Callable[[Values], None] = lambda values: None
) -> tuple[Call, int | None]:
    """The server, once it listens on a port of its own; a port that was taken is tried again.

    `prepare` gets the values with {port} before each try.
    """
    by_cm = lane.by_connection_manager
    for attempt in range(3):
        port = free_port()
        prepare({**lane.values, "port": str(port)})
        server = lane.call("server", port=str(port))
        while not server.ended and time.monotonic() < deadline:
            if is_listening_by_cm(port, server) if by_cm else is_listening(port):
                return server, port
            server.ends_within(POLL_S)
        if server.process is None or attempt == 2 or time.monotonic() >= deadline:
            break
    server.kill(f"did not listen within {lane.pair.order.start_limit_s:g} s")
    return server, None


@contextlib.contextmanager
def watched(pair: Pair, lanes: list[Lane]) -> Iterator[None]:
    """The counters of this node around what happens inside, kept with the first way."""
    sampled = {name for lane in lanes for name in lane.facts.get("sampled", ())}
    watch = Watch(sorted(sampled), budgets=pair.order.budgets)
    watch.start()
    try:
        yield
    finally:
        lanes[0].facts["counters"] = watch.stop()


@contextlib.contextmanager
def measured(pair: Pair, lanes: list[Lane], role: str, peer: Peer) -> Iterator[None]:
    """What happens inside is the measurement: in its round, with the counters of both nodes on."""
    peer.prepared()
    peer.wait_go()
    for lane in lanes:
        lane.facts.update(network_path.state_before(lane.facts))
    facts = lanes[0].facts
    loaded = cpu_load.made(pair.order.contention, role, facts, peer)
    with watched(pair, lanes), network_path.made(pair.order.wan, role, facts), loaded:
        yield


def serve(pair: Pair, lanes: list[Lane], peer: Peer) -> list[Call]:
    order = pair.order
    deadline = time.monotonic() + order.start_limit_s
    servers, ports = [], []
    try:
        for lane in lanes:
            server, port = start_server(lane, deadline)
            servers.append(server)
            ports.append(port)
        if None in ports:
            _give_up(servers, ports)
            with watched(pair, lanes):
                return servers
        with measured(pair, lanes, "server", peer):
            peer.send("ready", [address_of(lane, port) for lane, port in zip(lanes, ports)])
            # The client may wait as long to start as the server did; then it has its time.
            limit_s = order.start_limit_s + order.run_limit_s + _AFTER_S
            peer.wait(servers, limit_s)
            after(servers, peer)
    finally:
        for server in servers:
            server.kill("ended with the job")
    return servers


def after(servers: Sequence[Call], peer: Peer) -> None:
    """Let servers end that have had a client; those without a client never would."""
    deadline = time.monotonic() + _AFTER_S
    for server in servers:
        if peer.other_ended and not peer.other_ran:
            server.kill("ended: the other side ran no client")
        server.wait(deadline - time.monotonic())


def _give_up(servers: Sequence[Call], ports: Sequence[int | None]) -> None:
    """End the servers that listen, where one of them does not."""
    for server, port in zip(servers, ports):
        if port is not None:
            server.kill("ended: the server of another way did not listen")
        elif not server.note:
            server.wait(0)
            server.note = f"ended before it listened, exit code {server.exit_code}"


def address_of(lane: Lane, port: int | None) -> dict[str, Any]:
    """Where the client finds the server of this way."""
    # The control connection; rdma_cm's is over the rail itself.
    kind = "rail_address" if lane.by_connection_manager else "address"
    return {"address": lane.facts.get(kind) or lane.pair.hosts["server"], "port": port}


def find_servers(lane: Lane, peer: Peer, limit_s: float) -> list[dict[str, Any]]:
    """What the server's side says of each way once its servers listen and its node's counters run;
    PathError where it does not.
    """
    began = time.monotonic()
    ready: list[dict[str, Any]] | None = peer.receive("ready", limit_s)
    if ready is None:
        waited = time.monotonic() - began
        raise network_path.PathError(
            f"no server on {lane.pair.hosts['server']} after {waited:.1f} s"
        )
    most_ms = lane.pair.order.round_trip_most_ms
    if most_ms is not None:
        lane.facts.update(network_path.round_trip(ready[0]["address"], most_ms))
    return ready


def _as_they_end(
    calls: Sequence[Call], lanes: Sequence[Lane], deadline: float
) -> Iterator[tuple[Call, Lane]]:
    """Each call with its lane at the moment when it has ended, by itself or at the deadline."""
    left = list(zip(calls, lanes))
    while left:
        left_s = max(deadline - time.monotonic(), 0.0)
        deadline += wait_for_any([call for call, _ in left], left_s)
        over = time.monotonic() >= deadline
        ended = [(call, lane) for call, lane in left if call.ended or over]
        for call, lane in ended:
            call.wait(0)
            yield call, lane
        left = [one for one in left if one not in ended]


def connect(pair: Pair, lanes: list[Lane], peer: Peer) -> list[Call]:
    clients: list[Call] = []
    with measured(pair, lanes, "client", peer):
        ready = find_servers(lanes[0], peer, pair.order.start_limit_s + 5)
        began = time.monotonic()
        try:
            for lane, there in zip(lanes, ready):
                values = {"server": there["address"], "port": str(there["port"])}
                clients.append(lane.call("client", **values))
            for _, lane in _as_they_end(clients, lanes, began + pair.order.run_limit_s):
                lane.facts["ended_s"] = round(time.monotonic() - began, 3)
            # From the start of the first to the end of the last: what they moved took that long.
            lanes[0].facts["span_s"] = round(time.monotonic() - began, 3)
            for lane, there in zip(lanes, ready):
                left = network_path.wait_until_sent(there["port"], _DRAIN_S)
                if left:
                    lane.facts["unsent_bytes"] = left
        finally:
            for client in clients:
                client.kill("ended with the job")
    return clients


def find_programs(order: ClientServerOrder, role: str, facts: Facts) -> None:
    """PathError, and a fact, where this node lacks a program that its side runs."""
    os.environ["PATH"] = search_path(order.path)
    programs = order.programs_of(role)
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        facts["missing"] = missing
        raise network_path.PathError(f"{', '.join(missing)} not found on this node")


def find_option(order: ClientServerOrder, role: str, facts: Facts) -> None:
    """PathError, and a fact, where the tool of this side has no such option by its --help."""
    program = order.argv_of(role)[0]
    if order.option and order.option not in help_of(program).split():
        facts["no_option"] = f"{program} {order.option}"
        raise network_path.PathError(f"{program} on this node has no {order.option}")


def run(pair: Pair, role: str, peer: Peer, work: Work) -> dict[str, Any]:
    """This side's part; leaves its exit lines, also where the tool could not be started. The line
    of the first way.
    """
    order, lanes = pair.order, lanes_of(pair)
    first = lanes[0]
    try:
        for lane in lanes:
            lane.describe(role)
            cpu_load.place(order.contention, role, lane.facts)
        find_programs(order, role, first.facts)
        find_option(order, role, first.facts)
        calls = work(pair, lanes, peer)
    except network_path.PathError as error:
        note = f"not started: {error}"
        calls = [Call.never_started(f"{role}{lane.number}", note) for lane in lanes]
    if order.unmeasured is not None:
        repeat.note(order.unmeasured, calls, first.facts)
    lines = []
    for lane, call in zip(lanes, calls):
        lane.facts.update(network_path.state_after(lane.facts))
        line = exit_line(call, pair.tool, order.version, lane.facts, _RANKS[role])
        peer.report(call, line, lane.files)
        lines.append(line)
    peer.finished(any(call.process is not None for call in calls))
    return lines[0]


def measure(pair: Pair, role: str, peer: Peer, works: Mapping[str, Work]) -> None:
    """This side of a place: one direction, and what follows it where that is asked for."""

    def again(pair: Pair, role: str, peer: Peer) -> dict[str, Any]:
        return run(pair, role, peer, works[role])

    line, least_gbits = again(pair, role, peer), pair.order.least_gbits
    if pair.order.unmeasured is not None:
        line = repeat.measure(pair, role, peer, line, again)
    if least_gbits is not None:
        reverse.measure(pair, role, peer, line, least_gbits, again)


def side(pair: Pair, role: str, peer: Peer) -> None:
    """A side of a place of the program `client_server`."""
    measure(pair, role, peer, {"server": serve, "client": connect})
