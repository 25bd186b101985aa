"""Time an MPI program on two nodes, alone and while a client/server tool runs between them.

    srun --ntasks=2 ... python3 -m railgauge.node.runners.mpi_under_load orders.json alone
    srun --ntasks=2 ... python3 -m railgauge.node.runners.mpi_under_load orders.json beside

Two steps of one job, as every step can start one MPI world. Exit lines: `alone<rank>` and
`beside<rank>` of the MPI program, `server` and `client` of the tool. Where the program is not on a
node, the facts name it (`missing`). In the second step the MPI program starts when the client's
interface has carried bytes of the transfer; `beside` in the facts says whether the transfer still
ran when the program had ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from railgauge.node.orders.ranks import MpiUnderLoadOrder, ProgramOrder
from railgauge.node.runners import client_server, mpi_ranks
from railgauge.node.system import network_path, processes
from railgauge.node.system.tool_call import (
    Call,
    exit_line,
    leave_files,
    node_name,
    read_sysfs,
    write_whole,
)

#: Bytes by which a transfer has begun; its connection alone moves fewer.
FLOWING_BYTES = 2**20


def mpi(order: ProgramOrder, phase: str, rank: int, facts: dict[str, Any]) -> Call:
    """One rank of the MPI program, to its end; where it is not there, `missing` in the facts."""
    role, argv = f"{phase}{rank}", list(order.argv)
    if lacking := mpi_ranks.missing(argv[:1], os.environ):
        facts["missing"] = lacking
        return Call.never_started(role, f"not started: {lacking[0]} not found on this node")
    program = Call(role, argv)
    try:
        program.wait(order.run_limit_s)
    finally:
        program.kill("ended with the job")
    return program


def leave(order: ProgramOrder, program: Call, rank: int, facts: dict[str, Any]) -> None:
    line = exit_line(program, order.tool, order.version, facts, rank)
    leave_files(program, line)


def wait_for(path: str, limit_s: float, given_up: str = "") -> bool:
    """Whether `path` appeared within the limit; the wait ends early once `given_up` exists."""
    deadline = time.monotonic() + limit_s
    while True:
        # Listing the folder makes an NFS client look again; a stat may be answered from its cache.
        names = {entry.name for entry in Path().iterdir()}
        if path in names:
            return True
        if given_up in names or time.monotonic() >= deadline:
            return False
        time.sleep(client_server.POLL_S)


def sent_bytes(lane: client_server.Lane) -> int:
    """What the interface towards the other node has sent so far."""
    path = f"/sys/class/net/{lane.facts.get('device')}/statistics/tx_bytes"
    return int(read_sysfs(path) or 0)


def run_during(order: ProgramOrder, lane: client_server.Lane, transfer: Call, rank: int) -> Call:
    """The MPI program while `transfer` runs; what became of that is in the facts."""
    before, began = sent_bytes(lane), time.monotonic()
    program = mpi(order, "beside", rank, lane.facts)
    lane.facts["beside"] = {
        "outlasted": not transfer.ended,
        "seconds": round(time.monotonic() - began, 3),
        "sent_bytes": sent_bytes(lane) - before,
    }
    return program


def serve(orders: MpiUnderLoadOrder, lane: client_server.Lane, rank: int) -> tuple[Call, Call]:
    """The server's node: the tool's call, and the MPI program's."""
    idle = Call.never_started(f"beside{rank}", "not started: no transfer to run with")
    server, port = client_server.start_server(lane, time.monotonic() + orders.order.start_limit_s)
    try:
        if port is None:
            if not server.note:
                server.wait(0)
                server.note = f"ended before it listened, exit code {server.exit_code}"
            return server, idle
        write_whole("ready.json", client_server.address_of(lane, port))
        limit_s = 2 * orders.order.start_limit_s
        if not wait_for("flowing.json", limit_s, given_up="client.json"):
            server.wait(10)
            return server, idle
        program = run_during(orders.mpi, lane, server, rank)
        server.wait(orders.order.run_limit_s)
        return server, program
    finally:
        server.kill("ended with the job")


def connect(orders: MpiUnderLoadOrder, lane: client_server.Lane, rank: int) -> tuple[Call, Call]:
    """The client's node, likewise."""
    idle = Call.never_started(f"beside{rank}", "not started: no transfer to run with")
    if not wait_for("ready.json", orders.order.start_limit_s + 5, given_up="server.json"):
        note = f"not started: no server on {orders.hosts['server']}"
        return Call.never_started("client", note), idle
    ready = json.loads(Path("ready.json").read_text(encoding="utf-8"))
    before = sent_bytes(lane)
    client = lane.call("client", server=ready["address"], port=str(ready["port"]))
    try:
        deadline = time.monotonic() + orders.order.start_limit_s
        while sent_bytes(lane) - before < FLOWING_BYTES:
            if client.ended or time.monotonic() >= deadline:
                client.wait(0)
                return client, idle
            time.sleep(client_server.POLL_S)
        write_whole("flowing.json", {})
        program = run_during(orders.mpi, lane, client, rank)
        client.wait(orders.order.run_limit_s)
        return client, program
    finally:
        client.kill("ended with the job")


def alone(orders: MpiUnderLoadOrder, role: str, rank: int) -> bool:
    """The first step's part of this node; whether the program ended well. Also where nothing comes
    after it the way to the other node is known.
    """
    lane = client_server.lanes_of(orders.place)[0]
    with contextlib.suppress(network_path.PathError):
        lane.describe(role)
    program = mpi(orders.mpi, "alone", rank, lane.facts)
    leave(orders.mpi, program, rank, lane.facts)
    return program.exit_code == 0


def during(orders: MpiUnderLoadOrder, role: str, rank: int) -> bool:
    """The second step's part of this node; whether both programs ended well."""
    work = serve if role == "server" else connect
    lane = client_server.lanes_of(orders.place)[0]
    try:
        lane.describe(role)
        with client_server.watched(orders.place, [lane]):
            transfer, program = work(orders, lane, rank)
    except network_path.PathError as error:
        transfer = Call.never_started(role, f"not started: {error}")
        program = Call.never_started(f"beside{rank}", transfer.note)
    lane.facts.update(network_path.state_after(lane.facts))
    line = exit_line(transfer, orders.tool, orders.order.version, lane.facts, rank)
    leave_files(transfer, line)
    leave(orders.mpi, program, rank, {})
    return transfer.exit_code == 0 and program.exit_code == 0


def main() -> int:
    try:
        document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        orders = MpiUnderLoadOrder.read(document)
    except (OSError, ValueError) as error:
        print(f"mpi_under_load.py: {sys.argv[1]}: {error}", file=sys.stderr)
        return 2
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, processes.terminate)
    name = node_name()
    roles = [role for role in ("server", "client") if name == orders.hosts[role]]
    if not roles:
        expected = " or ".join(orders.hosts.values())
        print(f"mpi_under_load.py: this is {name}, expected {expected}", file=sys.stderr)
        return 2
    # The launcher's own number of this task.
    rank = int(os.environ.get(orders.rank_variable, roles[0] == "client"))
    try:
        step = alone if sys.argv[2] == "alone" else during
        return 0 if step(orders, roles[0], rank) else 1
    finally:
        # A signal may come while a tool is being started.
        processes.end_children()


if __name__ == "__main__":
    sys.exit(main())
