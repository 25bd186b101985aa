"""Many acceptances of a healthy lab in a row, many starts of MPI and many runs of RDMA over several
queue pairs: none may fail, and no acceptance may accuse anybody, confirmed or not.

    make soak [ACCEPTS=20] [STARTS=300] [RDMA=100]
    .venv/bin/python -m tests.soak [--accepts N] [--starts N] [--rdma N] [--results FILE]

Another process loads one core all the while. Each outcome is one line of the results' file, so that
a soak that broke off goes on where it was; `--again` starts it again. Prints a table; the exit code
is 1 where anything failed. Uses the lab of this checkout, and leaves it up if it was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from railgauge import paths, systems
from railgauge.cli.lab import open_lab
from railgauge.lab.cluster import Lab
from railgauge.lab.nodes import VM
from railgauge.lab.spec import Node
from railgauge.tools import perftest

AREA = paths.HOME / "results" / "soak"

#: 16 ranks on two namespace nodes.
RANKS, RANKS_PER_NODE = 16, 8
NODES = "n[1-2]"

#: What an acceptance may take on a slow machine, before it counts as one that hangs.
ACCEPT_LIMIT_S = 1800
START_LIMIT_S = 120

#: What the server of an RDMA run printed, and its exit code.
_SERVED = "/tmp/soak-served"

#: Loads one core until its parent is gone, or an acceptance at its limit would be over.
_LOAD = f"""
import os, time
parent, end = os.getppid(), time.monotonic() + {ACCEPT_LIMIT_S + 600}
while os.getppid() == parent and time.monotonic() < end:
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def loaded_core() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", _LOAD])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def timed(command: list[str], limit_s: float, **env: str) -> tuple[int | None, float, str]:
    """(exit code, None where it was still running; seconds; output)"""
    began = time.monotonic()
    try:
        answer = subprocess.run(
            command,
            cwd=paths.HOME,
            env={**os.environ, "RAILGAUGE_RESULTS": str(AREA), **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace")
        return None, time.monotonic() - began, said
    return answer.returncode, time.monotonic() - began, answer.stdout


def accept() -> dict[str, Any]:
    """One `make accept`: its last line, and who is suspect by its campaign's verdict.json. An
    accepted campaign may have suspects, as what stands out fails nothing.
    """
    code, seconds, output = timed(["make", "accept"], ACCEPT_LIMIT_S)
    verdicts = [
        n for n in output.splitlines() if n.startswith(("ACCEPT", "REJECT", "INCONCLUSIVE"))
    ]
    row = {"exit_code": code, "seconds": round(seconds, 1)}
    said = verdicts[-1] if verdicts else output[-2000:]
    verdict = verdict_of(said) if verdicts else None
    if verdict is None:
        return {"good": False, **row, "said": f"no verdict.json: {said}"}
    accused = [
        f"{one['kind']} {one['name']}{'' if one['confirmed'] else ', not confirmed'}"
        for one in verdict["suspects"]
    ]
    accepted = code == 0 and len(verdicts) == 1 and verdict["verdict"] == "accept"
    said += f"; accused: {'; '.join(accused)}" if accused else ""
    return {"good": accepted and not accused, **row, "said": said, "accused": accused}


def verdict_of(line: str) -> dict[str, Any] | None:
    """The verdict.json of the campaign whose folder is in brackets at the end of a verdict's line;
    None where it is not there.
    """
    file = paths.HOME / line.rpartition("  (")[2].removesuffix(")") / "verdict.json"
    if not file.is_file():
        return None
    verdict: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return verdict


def mpi_environment() -> Mapping[str, str]:
    """What the lab's description gives to every MPI program of its namespace nodes."""
    described = yaml.safe_load((paths.SYSTEMS / "lab" / "reframe.yaml").read_text())
    (partition,) = [p for p in described["partitions"] if p["name"] == "ns"]
    return {name: str(value) for name, value in partition["env_vars"]}


def start() -> dict[str, Any]:
    """One start of a world of MPI, and a barrier in it."""
    command = [
        *(str(paths.lab_folder() / "bin" / "srun"), "--mpi=pmix", "--kill-on-bad-exit=1"),
        *(f"--nodelist={NODES}", f"--ntasks={RANKS}", f"--ntasks-per-node={RANKS_PER_NODE}"),
        *("--exclusive", "python3", "-m", "railgauge.node.runners.mpi_world"),
    ]
    environment = {**mpi_environment(), "PYTHONPATH": str(paths.SOURCE)}
    code, seconds, output = timed(command, START_LIMIT_S, **environment)
    whole = sum(line.startswith(f"world of {RANKS}: rank ") for line in output.splitlines())
    good = code == 0 and whole == RANKS
    said = f"{whole} of {RANKS} ranks" if good else output[-2000:]
    return {"good": good, "exit_code": code, "seconds": round(seconds, 1), "said": said}


def rdma() -> dict[str, Any]:
    """One ib_write_bw between the VM nodes, as RdmaUsage runs it over their first rail."""
    lab = open_lab()
    fabric = systems.load("lab").partition("vm").extras.rdma
    assert fabric is not None
    tuning = fabric.perftest
    options = perftest.Options(
        *("write", "bw"),
        size_bytes=65536,
        iterations=tuning.bandwidth_iterations,
        queue_pairs=tuning.queue_pairs,
        qp_timeout=tuning.qp_timeout,
    )
    server, client = (node for node in lab.spec.all_nodes() if node.kind == "vm")
    # The first entry of the table is the link-local one, the second that of the IPv4 address.
    way = {"port": "18600", "device": "rxe0", "ib_port": "1", "gid_index": "1"}
    before = _counters(lab, server)
    began = time.monotonic()
    serve = shlex.join(perftest.server_argv(options, **way))
    # In the background: a guest's agent runs one command at a time.
    begin = (
        f"rm -f {_SERVED}; (timeout {START_LIMIT_S} {serve}; echo exit code $?) >{_SERVED} 2>&1 & "
    )
    ready = (
        f"until ss -Hltn 'sport = :{way['port']}' | grep -q . || ! kill -0 $!; do sleep 0.1; done"
    )
    end = f"until tail -n 1 {_SERVED} | grep '^exit code'; do sleep 0.1; done; cat {_SERVED} >&2"
    VM.run(lab, server, ["sh", "-c", begin + ready], START_LIMIT_S)
    asked = VM.run(lab, client, perftest.client_argv(options, server.address, **way), START_LIMIT_S)
    served = VM.run(lab, server, ["sh", "-c", end], START_LIMIT_S)
    seconds = time.monotonic() - began
    after = _counters(lab, server)
    received = after["rcvd_pkts"] - before["rcvd_pkts"]
    twice = after["duplicate_request"] - before["duplicate_request"]
    good = asked.returncode == 0 and served.stdout == "exit code 0\n"
    said = (asked.stdout + asked.stderr + served.stderr)[-2000:]
    return {
        "good": good,
        "exit_code": asked.returncode,
        "seconds": round(seconds, 1),
        "said": f"{twice} of {received} packets came twice" if good else said,
    }


def _counters(lab: Lab, node: Node) -> dict[str, int]:
    """The counters of a VM's first RDMA device."""
    folder = "/sys/class/infiniband/rxe0/ports/1/hw_counters"
    said = VM.run(lab, node, ["sh", "-c", f"cd {folder} && grep -H . *"]).stdout
    return {name: int(value) for name, _, value in (n.partition(":") for n in said.splitlines())}


KINDS = {"MPI start": start, "RDMA run": rdma, "make accept": accept}


def earlier(results: Path) -> list[dict[str, Any]]:
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown; `accused` is how many acceptances had a suspect, of those that have a verdict."""
    lines = [
        "| what | runs | good | median | least to most | accused |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        seconds = [row["seconds"] for row in of_kind] or [0.0]
        judged = [row for row in of_kind if "accused" in row]
        accused = f"{sum(bool(row['accused']) for row in judged)} of {len(judged)}"
        lines.append(
            f"| {kind} | {len(of_kind)} | {sum(row['good'] for row in of_kind)} "
            f"| {statistics.median(seconds):.1f} s | {min(seconds):.1f} to {max(seconds):.1f} "
            f"| {accused if judged else '-'} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accepts", type=int, default=20)
    parser.add_argument("--starts", type=int, default=300)
    parser.add_argument("--rdma", type=int, default=100)
    parser.add_argument("--results", type=Path, default=AREA / "soak.jsonl")
    parser.add_argument("--again", action="store_true", help="forget what was done before")
    chosen = parser.parse_args()
    results = chosen.results
    results.parent.mkdir(parents=True, exist_ok=True)
    if chosen.again:
        results.unlink(missing_ok=True)
    railgauge = str(paths.HOME / "bin" / "railgauge")
    was_up = timed([railgauge, "lab", "status"], START_LIMIT_S)[0] == 0
    # The nodes must see the soak's own results.
    code, _, said = timed([railgauge, "lab", "up"], ACCEPT_LIMIT_S)
    if code != 0:
        sys.exit(said)
    counts = (chosen.starts, chosen.rdma, chosen.accepts)
    for kind, count in zip(KINDS, counts, strict=True):
        done = sum(row["kind"] == kind for row in earlier(results))
        for number in range(done + 1, count + 1):
            with loaded_core():
                row = {"kind": kind, "number": number, **KINDS[kind]()}
            with results.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            word = "ok" if row["good"] else f"FAILED (exit code {row['exit_code']}): {row['said']}"
            print(f"{kind} {number}/{count}: {row['seconds']} s, {word}", flush=True)
    rows = earlier(results)
    print(table(rows))
    if not was_up:
        timed([railgauge, "lab", "down"], START_LIMIT_S)
    return 0 if all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
