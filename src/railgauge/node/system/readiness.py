"""What a node says of what acceptance needs there, for `railgauge accept` and `system check --run`.

    python3 -m railgauge.node.system.readiness '{"names": {"n2": ["n2", "10.0.0.2"]}, "tools": {}}'

Prints lines of four fields with tabs between them: MARK, the node, what the line is about, a JSON
value. It writes no file: no shared file can report what a node does not share with the login node.

`names` has, for every other node, the names that Slurm knows it by, in the order in which they are
tried; `tools` the argv that asks each tool of the checks for its version, by the tool's program.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any

from railgauge.node.system.tool_call import address_of, node_name, tool_version

MARK = "railgauge-look"

#: What the checks start on nodes, by the module's name in this package.
PROGRAMS = (
    "gate",
    "runners.client_server",
    "runners.file_transfer",
    "runners.mpi_ranks",
    "runners.mpi_world",
)


def line(about: str, value: Any) -> str:
    """One line of the report."""
    return "\t".join((MARK, node_name(), about, json.dumps(value)))


def source_digest(folder: Path) -> str:
    """One SHA-256 over the programs that a checkout has for nodes, by name and content."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        whole.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()


def unresolved(names: dict[str, list[str]]) -> dict[str, str]:
    """The nodes that none of their names leads to, and why."""
    errors = {}
    for node, known in sorted(names.items()):
        if node != node_name():
            try:
                address_of(known)
            except OSError as error:
                errors[node] = str(error)
    return errors


def tools(wanted: dict[str, list[str]]) -> dict[str, str]:
    """The version of each tool by its program, its path where no argv asks for one; "" where the
    node has no such program. Every program of ours is loaded too.
    """
    for name in PROGRAMS:
        importlib.import_module(f"railgauge.node.{name}")
    servers = importlib.import_module("railgauge.node.system.tool_call").SERVER_FOLDERS
    folders = [os.environ.get("PATH", os.defpath), *servers]
    os.environ["PATH"] = os.pathsep.join(folders)
    paths = {program: shutil.which(program) or "" for program in wanted}
    return {
        program: tool_version(argv) if argv and paths[program] else paths[program]
        for program, argv in sorted(wanted.items())
    }


def main() -> int:
    orders = json.loads(sys.argv[1])
    # First, so that the login node's clock, read before and after all of this, brackets it.
    print(line("clock", time.time()), flush=True)
    print(line("python", [list(sys.version_info[:3]), sys.executable, socket.gethostname()]))
    # What a Python without libffi lacks, and MPI is called by.
    importlib.import_module("ctypes")
    print(line("source", source_digest(Path(__file__).parents[1])))
    # One of each in a line: srun may part long ones by those of other nodes (srun_output.py).
    for node, why in unresolved(orders["names"]).items():
        print(line("unresolved", {node: why}))
    # Loading them all takes longer than the rest of this program.
    if orders["tools"]:
        for program, version in tools(orders["tools"]).items():
            print(line("tools", {program: version}))
    # Without it something above ended this program.
    print(line("whole", True), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
