"""Conduct a sweep: one agent on every node, and one record of all that they measure.

    python3 -m railgauge.node.conductor sweep.json     # in the batch script of a job

It starts the agents with one `srun`, over whose standard input they learn where it listens and the
sweep's secret; runs the rounds of the list (conducting.py, rounds.py); and leaves `raw.jsonl.gz`
(raw.py) beside it.

Exit code 0 where every place came to an event, also a bad one; 143 at SIGTERM; 2 where the list or
this node does not allow a sweep; 1 otherwise.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from railgauge.node import raw, sweep
from railgauge.node.calls import node_name
from railgauge.node.limits import LimitProblem, raise_open_files

#: Beside a connection for each node: strangers, and the files of the sweep itself.
_FILES = 600

_SECRET_BYTES = 32


def launch_argv(orders: sweep.Sweep, file: str) -> list[str]:
    """The srun that starts an agent on every node, one that goes on whatever becomes of some."""
    count, source = len(orders.nodes), Path(__file__).resolve().parents[2]
    return [
        *("srun", "--no-kill", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"),
        *("--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none", "--input=all", *orders.launch),
        *("env", f"PYTHONPATH={source}", "python3", "-m", "railgauge.node.agent", file),
    ]


def launch(
    orders: sweep.Sweep, file: str, secret: bytes
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The socket to which agents will come, and the srun that starts them; OSError without one."""
    listening = socket.create_server(("", 0), backlog=len(orders.nodes))
    host, port = node_name(), listening.getsockname()[1]
    names = orders.names.get(host, [])
    told = {"host": host, "names": names, "port": port, "secret": secret.hex()}
    launcher = subprocess.Popen(launch_argv(orders, file), stdin=subprocess.PIPE)
    assert launcher.stdin is not None
    # How a srun ends that does not take it is seen later.
    with contextlib.suppress(BrokenPipeError), launcher.stdin as stdin:
        stdin.write(json.dumps(told).encode() + b"\n")
    return listening, launcher


def main() -> int:
    file = sys.argv[1]
    try:
        orders = sweep.read(file)
        raise_open_files(_FILES + len(orders.nodes), f"conductor on {node_name()}")
        writer = raw.Writer(raw.FILE)
    except (OSError, ValueError, LimitProblem) as error:
        print(f"conductor: {error}", file=sys.stderr)
        return 2
    secret = os.urandom(_SECRET_BYTES)
    try:
        listening, launcher = launch(orders, file, secret)
        # Its imports take longer than all the rest, while the agents start.
        from railgauge.node import conducting

        code = conducting.run(orders, secret, listening, launcher, writer)
    except FileNotFoundError as error:
        print(
            f"conductor on {node_name()}: srun: {error.strerror}: no Slurm on the path\nnext: run "
            "it in a job's batch script",
            file=sys.stderr,
        )
        code = 1
    finally:
        writer.close()
    if writer.problem is not None:
        folder = Path.cwd()
        print(f"conductor: {raw.FILE} in {folder}: {writer.problem.strerror}", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
