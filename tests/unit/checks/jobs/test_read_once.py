"""What a job left is read once: no file of the stage folder, and no stored number, twice."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from railgauge.checks.jobs.client_server import PairRun
from railgauge.checks.jobs.group_launches import GroupLaunches
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.model import references
from railgauge.node.runners import reverse
from railgauge.node.transport import results_file
from railgauge.tools import iperf2
from tests.unit.checks import ended_jobs
from tests.unit.checks.collectives import nccl_left

IPERF2 = Path(__file__).parents[3] / "data" / "iperf2"

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
    "NodeState": "dgx-h100",
    "NcclPair": "dgx-h100",
    "MpiBesideTransfer": "eth400g",
    "ApplicationTime": "lab",
}

#: Those of which good outputs are left here: what follows from a result reads nothing again.
RESULTS = ("Iperf2Pair", "WanTcp", "BondPair", "NicPair", "CablePair", "NcclPair")

#: Numbers from 10 on are of no more tasks than the largest case has.
TASKS = range(16)

#: Numbers of logical NICs that are measured at once.
NICS = range(8)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The systems whose stored numbers were loaded, each time."""
    names: list[str] = []
    load = references.load
    monkeypatch.setattr(references, "load", lambda name: names.append(name) or load(name))
    return names


@pytest.fixture(params=KINDS)
def check(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loaded: list[str],
) -> Iterator[Any]:
    """A case whose job has completed, and left all that its kind may leave."""
    with ended_jobs.session(KINDS[request.param], tmp_path, RAILGAUGE_SERIES="1") as known:
        check = ended_jobs.ended(known[request.param].kind(variant_num=0), tmp_path / "stage")
        check._rfm_dry_run = True  # it asks neither Slurm nor its preconditions
        if check.tool is iperf2:
            monkeypatch.setattr(type(check), "run_at", asked(type(check).run_at))
        # The session's own configuration looks at every system.
        loaded.clear()
        check.select_places()
        if isinstance(getattr(check, "driver", None), GroupLaunches):
            nccl_left.leave(check)
        elif isinstance(check, SweepCheck):
            leave_sweep(check)
        else:
            leave(check, tmp_path / "stage")
        yield check


def asked(run_at: Callable[..., PairRun]) -> Callable[..., PairRun]:
    """The same runs, with the options of the recorded one."""
    options = iperf2.Options(streams=4, duration_s=3, drain_s=5)

    def recorded(check: Any, place: Any, partition: Any) -> PairRun:
        run = run_at(check, place, partition)
        tool = dataclasses.replace(run.tool, options=options)
        states = {**run.states, **iperf2.requested(options)}
        return dataclasses.replace(run, tool=tool, states=states)

    return recorded


def leave_sweep(check: Any) -> None:
    """At each place all roles that any kind of check has there."""
    tool = str(getattr(check.tool, "TOOL", ""))
    files = {"inventory.json": "{}", "manifest.json": "{}"}
    sides = {}
    for place in check.places:
        roles = sides[place.place] = {}
        for name, node in (("server", place.nodes[0]), ("client", place.nodes[-1])):
            text = (IPERF2 / f"p4-{name}.txt").read_text()
            for role in (f"{f}{name}{n}" for f in ("", reverse.PREFIX) for n in ("", *NICS)):
                roles[role] = ended_jobs.side(ended_jobs.exit_line(tool, role, node), text)
        line = ended_jobs.exit_line(tool, "rank0", place.nodes[0])
        roles["rank0"] = ended_jobs.side(line, "x\n", files=files)
    ended_jobs.Left(sides, dict.fromkeys(sides, ended_jobs.DONE)).write(check)


def leave(check: Any, stage: Path) -> None:
    tool = str(getattr(check.tool, "TOOL", ""))
    nodes = check.pinned_nodes
    for name, node in (("server", nodes[0]), ("client", nodes[-1])):
        for number in ("", *TASKS):
            role = f"{name}{number}"
            write(
                stage,
                role,
                ended_jobs.exit_line(tool, role, node),
                (IPERF2 / f"p4-{name}.txt").read_text(),
            )
    for prefix in ("rank", "alone", "beside", *(f"run{n}-rank" for n in (1, 2, 3))):
        for rank in TASKS:
            node = nodes[rank * len(nodes) // len(TASKS)]
            role = f"{prefix}{rank}"
            write(stage, role, ended_jobs.exit_line(tool, role, node, rank), "x\n")


def write(stage: Path, role: str, line: dict[str, Any], text: str) -> None:
    (stage / f"{role}.json").write_text(json.dumps(line))
    (stage / f"{role}.out").write_text(text)


def of_files(read: collections.Counter[str], check: Any) -> Sequence[str]:
    """The files without which nothing could be known of the job."""
    return (
        [results_file.FILE]
        if isinstance(check, SweepCheck)
        else [n for n in read if n.endswith(".json")]
    )


def test_every_file_of_a_job_is_read_once(
    check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: list[str]
) -> None:
    read: collections.Counter[str] = collections.Counter()
    opened = Path.open

    def counted(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.is_relative_to(tmp_path / "stage"):
            read[str(path.relative_to(tmp_path / "stage"))] += 1
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", counted)
    ended_jobs.judge(check)
    assert len(check.results) == len(check.places)
    for judged in check.results:
        reading = judged.evidence.reading
        assert reading is not None, judged.failures
        if type(check).__name__ in RESULTS:
            assert reading.ok, reading.reason
    # What a tool printed as an error is also searched for what the job's environment lacks.
    again = [name for name, times in read.items() if times > 1 and not name.endswith(".err")]
    assert again == []
    needed = of_files(read, check)
    assert needed and set(needed) <= read.keys()
    assert len(loaded) == 1
