"""What a job left is read once: no file of the stage folder, and no stored number, twice."""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import reframe.core.runtime as rt

from railgauge import paths
from railgauge.model import references
from railgauge.model.call import Call
from railgauge.node import back
from railgauge.site.check import checks
from railgauge.tools import iperf2
from tests.unit.tools import nccl_outputs

IPERF2 = Path(__file__).parents[2] / "data" / "iperf2"

#: A check of every kind, and a system that has a case of it.
KINDS = {
    "Iperf2Pair": "lab",
    "Iperf3Pair": "lab",
    "WdtTransfer": "lab",
    "FtpTransfer": "lab",
    "ScpTransfer": "lab",
    "MpiWorld": "lab",
    "RdmaBandwidth": "lab",
    "RailProbe": "lab",
    "WanTcp": "lab",
    "BondPair": "lab",
    "NicPair": "lab",
    "CablePair": "lab",
    "Path": "lab",
    "NodeState": "dgx-h100",
    "NcclPair": "dgx-h100",
    "MpiBesideTransfer": "eth400g",
}

#: Those of which good outputs are left here: what follows from a result reads nothing again.
RESULTS = ("Iperf2Pair", "WanTcp", "BondPair", "NicPair", "CablePair", "NcclPair")

#: Numbers from 10 on are of no more tasks than the largest case has.
TASKS = range(16)


@pytest.fixture(autouse=True)
def _results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILGAUGE_CAMPAIGN", str(tmp_path / "campaign"))
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    monkeypatch.setenv("RAILGAUGE_LAB_DIR", str(tmp_path / "lab"))
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(tmp_path / "stack"))
    monkeypatch.setenv("RAILGAUGE_SERIES", "1")


@pytest.fixture(params=KINDS)
def check(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A case whose job has completed, and left all that its kind may leave."""
    name, system = request.param, KINDS[request.param]
    # Its classes are those of the session's system.
    for loaded in [module for module in sys.modules if "@" in module]:
        monkeypatch.delitem(sys.modules, loaded)
    with rt.temp_runtime(str(paths.HOME / "configs" / "settings.py"), system):
        checks._of_file.cache_clear()
        known, broken = checks.known(paths.CHECKS)
        assert broken == []
        check = known[name].kind(variant_num=0)
        partition = check.target.partition
        check._current_partition = SimpleNamespace(name=partition, fullname=f"{system}:{partition}")
        check._stagedir = str(tmp_path / "stage")
        nodes = list(check.pinned_nodes)
        check._job = SimpleNamespace(
            **{"jobid": "1", "state": "COMPLETED", "exitcode": 0, "nodelist": nodes},
            **{"stdout": "rfm_job.out", "stderr": "rfm_job.err", "name": "job"},
        )
        if check.tool is iperf2:
            asked = iperf2.Options(streams=4, duration_s=3, drain_s=5)
            monkeypatch.setattr(type(check), "options", asked, raising=True)
        leave(check, tmp_path / "stage")
        yield check
    checks._of_file.cache_clear()


def leave(check: Any, stage: Path) -> None:
    tool = str(getattr(check.tool, "TOOL", ""))
    (stage / back.FOLDER).mkdir(parents=True)
    (stage / "rfm_job.out").write_text("")
    servers = {"server": check.pinned_nodes[0], "client": check.pinned_nodes[-1]}
    for folder in ("", f"{back.FOLDER}/"):
        for side, node in servers.items():
            for number in ("", *TASKS):
                text = (IPERF2 / f"p4-{side}.txt").read_text()
                exit_line(stage, tool, f"{folder}{side}{number}", 0, node, text)
    for prefix in ("rank", "alone", "beside"):
        for rank in TASKS:
            node = check.pinned_nodes[rank * len(check.pinned_nodes) // len(TASKS)]
            exit_line(stage, tool, f"{prefix}{rank}", rank, node, "x\n")
            (stage / f"rank{rank}.nccl.log").write_text("x\n")
    if type(check).__name__ == "NcclPair":
        run = nccl_outputs.Run(check.options)
        outputs = {"rank0.out": nccl_outputs.printed(run)}
        outputs["nccl-tests.json"] = nccl_outputs.json_text(run)
        for file, text in outputs.items():
            for host, node in zip(("node1", "node2"), check.pinned_nodes, strict=True):
                text = text.replace(host, node)
            (stage / file).write_text(text)
    (stage / "inventory.json").write_text("{}")
    (stage / "manifest.json").write_text("{}")


def exit_line(stage: Path, tool: str, role: str, rank: int, node: str, text: str) -> None:
    call = Call(tool, role.rpartition("/")[2], rank, node, 0, 60.0)
    facts = {"span_s": 3.0, "hostname": node, "beside": {"outlasted": True}, "counters": {}}
    content = {"call": vars(call), "facts": facts}
    (stage / f"{role}.json").write_text(json.dumps(content))
    (stage / f"{role}.out").write_text(text)


def test_every_file_of_a_job_is_read_once(
    check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: collections.Counter[str] = collections.Counter()
    text_of, load = Path.read_text, references.load

    def counted(path: Path, *arguments: Any, **options: Any) -> str:
        if path.is_relative_to(tmp_path / "stage"):
            read[str(path.relative_to(tmp_path / "stage"))] += 1
        return text_of(path, *arguments, **options)

    loaded = []
    monkeypatch.setattr(Path, "read_text", counted)
    monkeypatch.setattr(references, "load", lambda name: loaded.append(name) or load(name))
    evidence, found = check._evidence()
    check._store(evidence, found)
    assert evidence.reading is not None, found
    if type(check).__name__ in RESULTS:
        assert evidence.reading.ok, evidence.reading.reason
    # What a tool printed as an error is also searched for what the job's environment lacks.
    again = [name for name, times in read.items() if times > 1 and not name.endswith(".err")]
    assert again == []
    assert len(read) > 1
    assert len(loaded) == 1
