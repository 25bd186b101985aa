"""Run one program on one node: the only side of a place (worker.py).

`argv`, in which {scratch} is a folder of the node's own; `version`; `run_limit_s`; and `result`,
the name of a JSON file that the program leaves in {scratch}, kept without the environments in it.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

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

Spec = dict[str, Any]


def side(spec: Spec, role: str, peer: Peer) -> None:
    """The side of a place of the program `solo`."""
    peer.prepared()
    peer.wait_go()
    os.environ["PATH"] = search_path(spec)
    call, files = run(spec)
    line = exit_line(call, spec["tool"], spec["version"], {"hostname": host_name()}, 0)
    peer.report(call, line, files)
    peer.finished(call.process is not None)


def run(spec: Spec) -> tuple[Call, dict[str, str]]:
    """The program's call, and its result by name, if it left one."""
    full = folders_without_room()
    try:
        folder = tempfile.TemporaryDirectory(prefix="railgauge-")
    except OSError as error:
        note = f"not started: no room in {', '.join(full)}" if full else f"not started: {error}"
        return Call.never_started(ROLE, note), {}
    with folder as scratch:
        call = Call(ROLE, filled(spec["argv"], {"scratch": scratch}))
        try:
            call.wait(spec["run_limit_s"])
        finally:
            call.kill("ended with the job")
        result = result_of(Path(scratch, spec["result"])) if "result" in spec else None
    return call, {} if result is None else {spec["result"]: json.dumps(result)}
