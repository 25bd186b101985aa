"""From a package on the nodes to the verdict: which build was measured, and was it the reference's?

The prefix is a stand-in: the image's own iperf, with the records that Spack would leave next to it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.lab.cluster import Lab
from railgauge.stack import activation, manifest

from .conftest import Run

pytestmark = pytest.mark.release

HASH = "standinstandinstandinstandinstan"


def stand_in(lab: Lab, stack: Path) -> str:
    """A stack of the lab with one tool, as `make stack` leaves it; the prefix."""
    prefix = stack / "opt/iperf2-stand-in"
    (prefix / "bin").mkdir(parents=True)
    (prefix / ".spack").mkdir()
    tool = prefix / "bin/iperf"
    assert lab.on_head("cp", "/usr/bin/iperf", str(tool)).returncode == 0
    about = {"name": "iperf2-stand-in", "version": "2.2.1", "hash": HASH}
    digest = base64.b32encode(hashlib.sha1(tool.read_bytes()).digest()).decode()
    for name, document in (
        ("spec.json", {"spec": {"_meta": {"version": 5}, "nodes": [about]}}),
        ("install_manifest.json", {str(prefix / ".spack"): {}, str(tool): {"hash": digest}}),
    ):
        (prefix / ".spack" / name).write_text(json.dumps(document))
    path = {"action": "prepend", "name": "PATH", "value": str(prefix / "bin"), "separator": ":"}
    root = {**about, "prefix": str(prefix), "root": True, "installed": True}
    root["run_environment"] = [path]
    activation.write(manifest.read("lab"), [root], stack / "lab")
    return str(prefix)


def test_what_make_stack_built_is_measured_and_named_by_its_hash(
    cluster: Lab, railgauge: Run, area: Path, verdict: Callable[[], dict[str, Any]]
) -> None:
    prefix = stand_in(cluster, area / "stack")
    stored = (paths.HOME / "results/references/lab.yaml").read_text()
    (area / "references").mkdir()
    (area / "references/lab.yaml").write_text(stored.replace("iperf2: 2.2.1", "iperf2: 2.1.9"))
    answer = railgauge(
        *("accept", "--partition", "ns", "--nodes", "n1,n2"),
        RAILGAUGE_REFERENCES=str(area / "references"),
    )
    assert answer.returncode == 0, answer.stdout
    found = verdict()
    (iperf2,) = [tool for tool in found["tools"] if tool["tool"] == "iperf2"]
    assert iperf2["package"] == f"spack iperf2-stand-in@2.2.1/{HASH}"
    assert (iperf2["path"], iperf2["nodes"]) == (f"{prefix}/bin/iperf", ["n1", "n2"])
    # Another version speaks against no node.
    (notice,) = found["notices"]
    assert "Iperf2Pair measured with iperf2 2.1.9, this campaign used 2.2.1" in notice["message"]
    assert f"note: {notice['message']}" in answer.stdout


def test_a_packaged_tool_with_a_changed_file_is_noted(
    cluster: Lab, railgauge: Run, area: Path, verdict: Callable[[], dict[str, Any]]
) -> None:
    tool = Path(stand_in(cluster, area / "stack"), "bin/iperf")
    with tool.open("ab") as stream:
        stream.write(b"\0")
    answer = railgauge(
        *("accept", "--partition", "ns", "--nodes", "n1,n2", "--", "-n", "Iperf2Pair")
    )
    (notice,) = [n for n in verdict()["notices"] if n["kind"] == "tool-changed"]
    assert "not as packaged: unknown (changed since spack iperf2-stand-in" in notice["message"]
    assert f"note: {notice['message']}" in answer.stdout
