"""Run one program on one node: the only side of a place (worker.py).

The program's result, a JSON file in {scratch}, is kept without the environments in it.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from railgauge.node.orders.places import PlaceOrder, SingleNodeOrder
from railgauge.node.runners.mpi_ranks import result_of
from railgauge.node.system.tool_call import (
    Call,
    exit_line,
    filled,
    folders_without_room,
    host_name,
    search_path,
)
from railgauge.node.transport.channel import Peer

ROLE = "rank0"


def side(place: PlaceOrder[SingleNodeOrder], role: str, peer: Peer) -> None:
    """The side of a place of the program `solo`."""
    peer.prepared()
    peer.wait_go()
    os.environ["PATH"] = search_path(place.order.path)
    call, files = run(place.order)
    line = exit_line(call, place.tool, place.order.version, {"hostname": host_name()}, 0)
    peer.report(call, line, files)
    peer.finished(call.process is not None)


def run(order: SingleNodeOrder) -> tuple[Call, dict[str, str]]:
    """The program's call, and its result by name, if it left one."""
    full = folders_without_room()
    try:
        folder = tempfile.TemporaryDirectory(prefix="railgauge-")
    except OSError as error:
        note = f"not started: no room in {', '.join(full)}" if full else f"not started: {error}"
        return Call.never_started(ROLE, note), {}
    with folder as scratch:
        call = Call(ROLE, filled(order.argv, {"scratch": scratch}))
        try:
            call.wait(order.run_limit_s)
        finally:
            call.kill("ended with the job")
        result = result_of(Path(scratch, order.result)) if order.result else None
    return call, {} if result is None else {str(order.result): json.dumps(result)}
