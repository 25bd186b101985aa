"""Transfers between the lab's nodes: by the tools of its image, by those that `make stack` built
where it did, and WDT by its stand-in.
"""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railgauge.lab.cluster import Lab
from railgauge.model.record import read_record
from railgauge.stack import activation
from railgauge.tools.file_transfer import DISCARDED, PROVIDERS

from .conftest import Run

pytestmark = pytest.mark.release

Verdict = Callable[[], dict[str, Any]]

TRANSFERS = "^(Iperf3Pair|WdtTransfer|FtpTransfer|ScpTransfer|HpnScpTransfer|BbcpTransfer)"

FILES = ("one-large-file", "many-small-files")

#: What Debian has none of, by check: the tool, and its program.
OPTIONAL = {
    "WdtTransfer": ("wdt", "wdt"),
    "HpnScpTransfer": ("hpn-scp", "hpnscp"),
    "BbcpTransfer": ("bbcp", "bbcp"),
}


def on_node(lab: Lab, node: str, *command: str) -> str:
    command_there = lab.enter(node, *command)
    return subprocess.run(command_there, stdout=subprocess.PIPE, text=True, check=False).stdout


def has_built(program: str) -> bool:
    return activation.has_built(program, "lab")


def left_on(lab: Lab) -> str:
    """Folders and servers of a transfer that are still there."""
    look = "ls -d /tmp/railgauge-transfer-*; pgrep -l 'sshd|proftpd|wdt|bbcp'"
    return "".join(on_node(lab, node, "sh", "-c", look) for node in ("n1", "n2"))


def test_files_arrive_by_every_tool_that_is_there(
    railgauge: Run, area: Path, verdict: Verdict, cluster: Lab
) -> None:
    answer = railgauge("accept", "--partition", "ns", "--series", "--", "-n", TRANSFERS)
    found = verdict()
    # Required checks were left out by the filter; nothing else is missing, or wrong.
    assert {f["kind"] for f in found["findings"]} == {"not-measured"}, answer.stdout
    built = {check for check, (_, program) in OPTIONAL.items() if has_built(program)}
    tools = ["scp", "lftp", *(OPTIONAL[check][0] for check in built)]
    operations = {(m["tool"], m["operation"]) for m in found["measurements"] if m["passed"]}
    assert operations == {
        ("iperf3", "tcp"),
        *((tool, f) for tool in tools for f in FILES),
        *(("wdt", f"{f}{DISCARDED}") for f in FILES if "wdt" in tools),
    }
    assert {c["check"] for c in found["left_out"]} == OPTIONAL.keys() - built
    for check in OPTIONAL.keys() - built:
        program = OPTIONAL[check][1]
        assert (activation.bringing(program, "lab") or PROVIDERS[program]) in answer.stdout
    assert left_on(cluster) == ""
    page = railgauge("transfers")
    assert page.returncode == 0
    assert re.search(r"^lftp .*Gb/s .*x", page.stdout, re.MULTILINE), page.stdout
    # Private keys are one block of this kind, wherever they are.
    for path in area.rglob("*"):
        assert not path.is_file() or b"PRIVATE KEY" not in path.read_bytes(), path


def test_every_acceptance_moves_a_file_by_wdt_where_it_was_built(
    railgauge: Run, verdict: Verdict, cluster: Lab
) -> None:
    if not has_built("wdt"):
        pytest.skip("WDT is not there: make stack SYSTEM=lab ONLY=wdt builds it")
    answer = railgauge("accept", "--partition", "ns", "--", "-n", TRANSFERS)
    found = verdict()
    assert {f["kind"] for f in found["findings"]} == {"not-measured"}, answer.stdout
    assert {(m["tool"], m["operation"]) for m in found["measurements"] if m["passed"]} == {
        ("wdt", "one-large-file")
    }
    assert left_on(cluster) == ""


def test_a_receiver_without_room_is_rejected_and_named(
    railgauge: Run, verdict: Verdict, repaired: Lab
) -> None:
    on_node(repaired, "n1", "mount", "-o", "remount,size=16m", "/tmp")
    try:
        options = (
            "--partition",
            "ns",
            "--series",
            "--places",
            ":large:",
            "--",
            "-n",
            "^ScpTransfer",
        )
        answer = railgauge("accept", *options)
    finally:
        on_node(repaired, "n1", "mount", "-o", "remount,size=50%", "/tmp")
    assert answer.returncode == 1, answer.stdout
    reason = r"scp \(server\) on n1: not started: /tmp has 0\.0\d GB free, needs 0\.13"
    assert re.search(reason, answer.stdout), answer.stdout
    assert {f["kind"] for f in verdict()["findings"]} >= {"tool-failed"}


REFERENCES = """\
system: eth400g
references:
  - check: WdtTransfer
    partition: bond
    operation: one-large-file
    transport: tcp-aes128gcm
    nodes: 2
    streams: 32
    size_bytes: 4194304
    metrics:
      bandwidth:
        value: 0.000001
        lower: 0
        unit: Gb/s
        kind: floor
        provenance: {source: a test, date: 2026-11-21}
"""


@pytest.mark.parametrize(
    ("scenario", "code", "reason"),
    [
        ("healthy", 2, r"SIMULATED INCONCLUSIVE .* of 4 places were selected"),
        ("receiver-gone", 1, r"it returned 6 SOCKET_WRITE_ERROR"),
        ("wrong-results", 1, r"changed: large.bin: another sha256"),
    ],
)
def test_wdt_is_rehearsed(
    railgauge: Run, area: Path, scenario: str, code: int, reason: str
) -> None:
    (area / "references").mkdir()
    (area / "references" / "eth400g.yaml").write_text(REFERENCES)
    answer = railgauge(
        *("rehearse", "eth400g", "--nodes", "n[1-2]", "--scenario", scenario),
        *("--", "-n", "^WdtTransfer"),
        RAILGAUGE_REFERENCES=str(area / "references"),
        RAILGAUGE_PLACES=":large:",
    )
    assert answer.returncode == code, answer.stdout
    assert re.search(reason, " ".join(answer.stdout.split())), answer.stdout
    campaign = next((area / "rehearsals" / "campaigns").iterdir())
    record = read_record(next(campaign.glob("stage/**/railgauge.jsonl")))
    assert record is not None
    (result,) = record.results
    assert record.simulated == (scenario != "receiver-gone") or not result.rows
    for path in campaign.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            kept = gzip.decompress(content) if path.suffix == ".gz" else content
            assert not re.search(rb"Enc=2:[0-9a-f]{8}", kept), path
    # Nothing of it where campaigns and their history are.
    assert {path.name for path in area.iterdir()} == {"references", "rehearsals"}
