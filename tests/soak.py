"""Many acceptances of a healthy lab in a row, and many starts of MPI: none may fail.

    make soak [ACCEPTS=20] [STARTS=300]
    .venv/bin/python -m tests.soak [--accepts N] [--starts N] [--results FILE]

Another process loads one core all the while. Each outcome is one line of the results' file, so that
a soak that broke off goes on where it was; `--again` starts it anew. Prints a table; the exit code
is 1 where anything failed. Uses the lab of this checkout, and leaves it up if it was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from railgauge import paths

AREA = paths.HOME / "results" / "soak"

#: 16 ranks on two namespace nodes.
RANKS, RANKS_PER_NODE = 16, 8
NODES = "n[1-2]"

#: What an acceptance may take on a slow machine, before it counts as one that hangs.
ACCEPT_LIMIT_S = 1800
START_LIMIT_S = 120

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
    """One `make accept`, and its last line."""
    code, seconds, output = timed(["make", "accept"], ACCEPT_LIMIT_S)
    verdicts = [
        n for n in output.splitlines() if n.startswith(("ACCEPT", "REJECT", "INCONCLUSIVE"))
    ]
    good = code == 0 and len(verdicts) == 1 and verdicts[0].startswith("ACCEPT")
    said = verdicts[-1] if verdicts else output[-2000:]
    return {"good": good, "exit_code": code, "seconds": round(seconds, 1), "said": said}


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
        *("--exclusive", "python3", "-m", "railgauge.node.mpi_world"),
    ]
    environment = {**mpi_environment(), "PYTHONPATH": str(paths.SOURCE)}
    code, seconds, output = timed(command, START_LIMIT_S, **environment)
    whole = sum(line.startswith(f"world of {RANKS}: rank ") for line in output.splitlines())
    good = code == 0 and whole == RANKS
    said = f"{whole} of {RANKS} ranks" if good else output[-2000:]
    return {"good": good, "exit_code": code, "seconds": round(seconds, 1), "said": said}


KINDS = {"make accept": accept, "MPI start": start}


def earlier(results: Path) -> list[dict[str, Any]]:
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| what | runs | good | median | least to most |",
        "|---|---|---|---|---|",
    ]
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        seconds = [row["seconds"] for row in of_kind] or [0.0]
        lines.append(
            f"| {kind} | {len(of_kind)} | {sum(row['good'] for row in of_kind)} "
            f"| {statistics.median(seconds):.1f} s | {min(seconds):.1f} to {max(seconds):.1f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accepts", type=int, default=20)
    parser.add_argument("--starts", type=int, default=300)
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
    for kind, count in (("MPI start", chosen.starts), ("make accept", chosen.accepts)):
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
