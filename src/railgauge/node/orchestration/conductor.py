"""Conduct a sweep: one agent on every node, and one record of all that they measure.

    python3 -m railgauge.node.orchestration.conductor sweep.json  # in a batch script

It starts the agents with one `srun`. On its standard input they get where it listens and the
sweep's secret; runs the rounds of the list (server.py, rounds.py); and leaves `raw.jsonl.gz`
(results_file.py) next to it.

Exit code 0 where every place came to an event, also a bad one; 143 at SIGTERM; 2 where the list or
this node does not allow a sweep; 1 otherwise.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from railgauge.node.orchestration import startup, sweep_file
from railgauge.node.system import slurm_job
from railgauge.node.system.rlimits import LimitError, raise_open_files
from railgauge.node.system.tool_call import node_name
from railgauge.node.transport import results_file
from railgauge.slurm.nodes import fold

#: Open files besides a connection for each node: rejected connections, and the sweep's own files.
_FILES = 600

_SECRET_BYTES = 32


#: srun's message about a node on which it starts no task; it then ends all other tasks, also those
#: that should go on when one dies.
_UNREACHED = re.compile(rb"Task launch for \S+ failed on node (?P<node>\S+): (?P<why>.*)")


def launch_argv(orders: sweep_file.Sweep, file: str, nodes: Sequence[str]) -> list[str]:
    """The srun that starts an agent on each node, one that goes on whatever becomes of some."""
    count, source = len(nodes), Path(__file__).resolve().parents[3]
    some = [f"--nodelist={fold(nodes)}"] if count < len(orders.nodes) else []
    return [
        *("srun", "--no-kill", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"),
        *("--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none", "--input=all", "--mpi=none"),
        *some,
        *orders.launch,
        *(
            "env",
            f"PYTHONPATH={source}",
            "python3",
            "-S",
            "-m",
            "railgauge.node.orchestration.agent",
            file,
        ),
    ]


def allocated(nodes: Sequence[str]) -> list[str]:
    """The nodes that the job got, which may be fewer than requested if one was taken meanwhile
    (SLURM_JOB_NUM_NODES, sbatch(1)); all where Slurm does not say.
    """
    if os.environ.get("SLURM_JOB_NUM_NODES", "") in ("", str(len(nodes))):
        return list(nodes)
    there = set(slurm_job.nodes())
    return [node for node in nodes if node in there] if there else list(nodes)


class Launcher:
    """The srun that starts the agents, and the nodes that it has not reached."""

    def __init__(self, orders: sweep_file.Sweep, file: str, port: int, secret: bytes) -> None:
        """OSError where there is no srun."""
        host = node_name()
        names = orders.names.get(host, ())
        address = {"host": host, "names": names, "port": port, "secret": secret.hex()}
        self._orders, self._file = orders, file
        self._line = json.dumps(address).encode() + b"\n"
        #: node -> why, in srun's words
        self.unreached: dict[str, str] = {}
        self.nodes = allocated(orders.nodes)
        self.start(self.nodes)

    def start(self, nodes: Sequence[str]) -> None:
        argv = launch_argv(self._orders, self._file, nodes)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stderr=pipe)
        self._words = threading.Thread(target=self._pass_on, name="srun", daemon=True)
        self._words.start()
        assert self._process.stdin is not None
        # How a srun ends that does not take it is seen later.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(self._line)

    def _pass_on(self) -> None:
        """Copy srun's messages to the job's standard error."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            match = _UNREACHED.search(line)
            if match:
                node, why = (match[name].decode("utf-8", "replace") for name in ("node", "why"))
                self.unreached[node] = why

    def wait(self) -> int:
        """The exit code of srun, once it has ended and all of its messages are read."""
        code = self._process.wait()
        self._words.join()
        return code

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)


def main() -> int:
    file = sys.argv[1]
    try:
        orders = sweep_file.read(file)
        raise_open_files(_FILES + len(orders.nodes), f"conductor on {node_name()}")
        writer = results_file.Writer(results_file.FILE)
    except (OSError, ValueError, LimitError) as error:
        print(f"conductor: {error}", file=sys.stderr)
        return 2
    secret = os.urandom(_SECRET_BYTES)
    try:
        listening = socket.create_server(("", 0), backlog=len(orders.nodes))
        launcher = Launcher(orders, file, listening.getsockname()[1], secret)
        # Its imports take longer than all the rest, while the agents start.
        startup.begin()
        from railgauge.node.orchestration import server

        startup.loaded()
        code = server.run(orders, secret, listening, launcher, writer)
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
        print(
            f"conductor: {results_file.FILE} in {folder}: {writer.problem.strerror}",
            file=sys.stderr,
        )
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
