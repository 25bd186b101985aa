"""`railgauge rehearse`: NCCL's checks through the lab's Slurm, with the replayer for GPUs."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.lab.cluster import Lab
from railgauge.model.record import read_record
from railgauge.node.transport import results_file

from .conftest import PATIENCE_S, Run, area_of, run_command

Verdict = Callable[[], dict[str, Any]]

#: all_reduce of the one pair of two nodes, with transports.
PAIR = r"^all_reduce:({}):"


@pytest.fixture
def verdict(area: Path) -> Verdict:
    def read() -> dict[str, Any]:
        newest = max((area / "rehearsals" / "campaigns").glob("*/verdict.json"))
        document: dict[str, Any] = json.loads(newest.read_text())
        return document

    return read


def rehearse(railgauge: Run, system: str, transports: str, *options: str) -> tuple[int, str]:
    answer = railgauge(
        *("rehearse", system, "--nodes", "n[1-2]", "--places", PAIR.format(transports)),
        *(*options, "--", "-n", "^NcclPair"),
    )
    return answer.returncode, answer.stdout


def test_gb200_gives_the_published_numbers_and_accepts_provisionally(
    railgauge: Run, verdict: Verdict
) -> None:
    code, output = rehearse(railgauge, "gb200-nvl72", "[a-z-]+")
    assert code == 2 and "SIMULATED PROVISIONAL ACCEPT" in output, output
    found = {
        (m["transport"], m["metric"]): m["value"]
        for m in verdict()["measurements"]
        if m["size_bytes"] == 16 * 2**30
    }
    assert found["mnnvl", "busbw"] == pytest.approx(811.71)
    assert found["mnnvl", "busbw_in_place"] == pytest.approx(810.35)
    assert found["one-hca", "busbw"] == pytest.approx(84.52)
    assert found["one-hca", "busbw_in_place"] == pytest.approx(85.02)


@pytest.mark.release
@pytest.mark.parametrize(
    ("system", "options"),
    [("dgx-b200", ()), ("gb300-nvl72", ()), ("mi300x", ("--nodes", "n[1-2]"))],
)
def test_a_system_that_no_machine_has_confirmed_accepts_provisionally(
    railgauge: Run, system: str, options: tuple[str, ...]
) -> None:
    answer = railgauge("rehearse", system, *options)
    assert answer.returncode == 2, answer.stdout
    assert "SIMULATED PROVISIONAL ACCEPT" in answer.stdout


#: What a user has in the environment.
TOKEN = "s3cr3t-of-the-user"


@pytest.fixture(scope="module")
def of_one_pair(cluster: Lab) -> Iterator[tuple[Path, str]]:
    """The area and the output of a rehearsal of one pair."""
    with area_of("of-one-pair") as area:

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            command = [str(paths.HOME / "bin/railgauge"), *words]
            return run_command(command, area, {"NCCL_TOPO_TOKEN": TOKEN}, PATIENCE_S)

        _, output = rehearse(run, "dgx-spark", "default")
        yield area, output


def test_all_of_a_rehearsal_says_simulated(of_one_pair: tuple[Path, str]) -> None:
    area, output = of_one_pair
    assert output.splitlines()[-1].startswith("SIMULATED ")
    campaign = max((area / "rehearsals" / "campaigns").iterdir())
    assert json.loads((campaign / "campaign.json").read_text())["simulated"] == "healthy"
    verdict = json.loads((campaign / "verdict.json").read_text())
    assert verdict["simulated"]
    assert verdict["measurements"] and all(m["simulated"] for m in verdict["measurements"])
    assert "SIMULATED" in (campaign / "verdict.txt").read_text().splitlines()[0]
    (left,) = [results_file.read(path) for path in campaign.glob(f"stage/**/{results_file.FILE}")]
    (sides,) = left.sides.values()
    logs = [side.files[f"{role}.nccl.log"] for role, side in sides.items()]
    assert len(logs) == 2
    for text in (sides["rank0"].out, *logs):
        assert "SIMULATED" in text.splitlines()[0]
    # A stand-in moves nothing: whatever a node counts meanwhile is not of it.
    assert all(s.line["facts"]["counters"] == {"simulated": True} for s in sides.values())
    for name in ("report.html", "summary.md", "junit.xml"):
        assert "SIMULATED" in (campaign / name).read_text()
    results = list(campaign.glob("stage/**/railgauge.jsonl"))
    records = [read_record(path) for path in results]
    assert records and all(record is not None and record.simulated for record in records)
    # Nothing of it where campaigns and their history are.
    assert [path.name for path in area.iterdir()] == ["rehearsals"]


@pytest.mark.release
def test_every_case_of_a_system_that_mpirun_starts_is_measured(
    railgauge: Run, verdict: Verdict
) -> None:
    """dgx-spark has no baseline of these yet, which is all that it lacks."""
    answer = railgauge("rehearse", "dgx-spark", "--provisional")
    assert {m["check"] for m in verdict()["measurements"]} == {"NcclPair"}, answer.stdout
    assert {f["kind"] for f in verdict()["findings"]} == {"no-baseline"}, answer.stdout
    assert answer.returncode == 0 and "PROVISIONAL ACCEPT" in answer.stdout


#: Scenario, system, transport, and what the answer must say.
WRONG = [
    ("wrong-host", "gb200-nvl72", "mnnvl", r"elsewhere"),
    ("sockets", "gb200-nvl72", "one-hca", r"is \('NET/Socket',\), expected \('NET/IB/GDRDMA',\)"),
    ("truncated", "gb200-nvl72", "mnnvl", r"the output breaks off"),
    ("wrong-results", "gb200-nvl72", "mnnvl", r"wrong"),
    ("hang", "gb200-nvl72", "mnnvl", r"ncclras says: SIMULATED.*last words: rank"),
    ("cut-log", "gb200-nvl72", "mnnvl", r"NCCL's log: .*7"),
    ("exit-7", "gb200-nvl72", "mnnvl", r"exit code 7"),
    ("no-memory", "gb200-nvl72", "mnnvl", r"memory of the GPUs ended the sweep at 16777216 bytes"),
    ("no-mnnvl", "gb200-nvl72", "mnnvl", r"is \('NET/IB/GDRDMA',\), expected \('MNNVL',\)"),
    (
        "lost-nic:{second}",
        "dgx-h100",
        "default",
        r"NCCL did not use \S+ on {second}.*{second} is at fault",
    ),
    ("slow", "gb200-nvl72", "mnnvl", r"busbw_17179869184B is 405.*expected at least 730"),
]


#: The same of a launcher that lets every rank start alone.
SINGLETONS = ("singletons", "gb200-nvl72", "mnnvl", r"launcher started every rank of MPI alone")


@pytest.fixture(scope="module")
def rehearsed(cluster: Lab) -> Iterator[dict[str, tuple[int, str, str]]]:
    """Every scenario of WRONG, and SINGLETONS: its exit code, output, and the pattern.

    Two at a time, each on nodes of its own.
    """
    found: dict[str, tuple[int, str, str]] = {}
    waiting = [*reversed(WRONG), SINGLETONS]

    def work(nodes: str, second: str) -> None:
        while waiting:
            scenario, system, transport, reason = waiting.pop()
            answer = run_command(
                [
                    *(str(paths.HOME / "bin/railgauge"), "rehearse", system, "--nodes", nodes),
                    *("--scenario", scenario.format(second=second)),
                    *("--places", PAIR.format(transport), "--", "-n", "^NcclPair"),
                ],
                area,
                {},
                PATIENCE_S,
            )
            pattern = reason.replace("{second}", second)
            found[scenario] = (answer.returncode, answer.stdout, pattern)

    with area_of("rehearsed") as area, ThreadPoolExecutor() as pool:
        for done in [pool.submit(work, "n[1-2]", "n2"), pool.submit(work, "n[3-4]", "n4")]:
            done.result()
    yield found


@pytest.mark.release
def test_ranks_that_start_alone_are_the_launchers_fault_and_no_nodes(
    rehearsed: dict[str, tuple[int, str, str]],
) -> None:
    code, output, reason = rehearsed[SINGLETONS[0]]
    assert code == 2, output
    assert re.search(reason, output, re.DOTALL), output
    assert "SIMULATED INCONCLUSIVE" in output and "set launch_options" in output
    assert "is at fault" not in output


@pytest.mark.parametrize("scenario", [wrong[0] for wrong in WRONG])
def test_what_goes_wrong_is_rejected_with_its_reason(
    rehearsed: dict[str, tuple[int, str, str]], scenario: str
) -> None:
    code, output, reason = rehearsed[scenario]
    assert code == 1, output
    assert re.search(reason, output, re.DOTALL), output
    assert "SIMULATED REJECT" in output


def test_a_sweep_that_memory_ended_is_judged_at_its_largest_size(
    railgauge: Run, verdict: Verdict
) -> None:
    _, output = rehearse(railgauge, "gb200-nvl72", "mnnvl", "--scenario", "less-memory")
    assert "its largest size is 8589934592, not 17179869184" in " ".join(output.split())
    # What was published is of 16 GiB: near is not the same.
    judged_by = {
        m["metric"]: m["reference"] and m["reference"]["kind"]
        for m in verdict()["measurements"]
        if m["size_bytes"] == 8 * 2**30
    }
    assert judged_by["busbw"] == judged_by["busbw_in_place"] == "share"
    assert not [f for f in verdict()["findings"] if "not measured: " in f["message"]]


@pytest.mark.release
def test_every_operation_and_scale_of_a_dgx_runs(railgauge: Run, verdict: Verdict) -> None:
    answer = railgauge(
        "rehearse",
        *("dgx-h100", "--places", r"^(all_reduce|alltoall):"),
        *("--", "-n", "^Nccl(All|Node)"),
    )
    assert "SIMULATED" in answer.stdout
    found = verdict()
    assert {m["check"] for m in found["measurements"]} == {"NcclNode", "NcclAll"}
    assert {m["operation"] for m in found["measurements"]} == {"all_reduce", "alltoall"}
    assert {m["ranks"] for m in found["measurements"]} == {8, 32}
    # What nobody has published needs a baseline first; nothing else is wrong.
    assert {f["kind"] for f in found["findings"]} <= {"no-baseline", "not-measured", "left-out"}


@pytest.mark.release
def test_nccl_with_p2p_off_is_of_the_series_and_lacks_a_number_of_its_own_alone(
    railgauge: Run, area: Path
) -> None:
    answer = railgauge(
        *("rehearse", "dgx-h100", "--series", "--nodes", "n[1-2]", "--places", ":p2p-off:"),
        *("--", "-n", "^NcclNode"),
    )
    assert answer.returncode == 2 and "SIMULATED INCONCLUSIVE" in answer.stdout, answer.stdout
    campaign = max((area / "rehearsals" / "campaigns").iterdir())
    records = [read_record(path) for path in campaign.glob("stage/**/railgauge.jsonl")]
    results = [
        r for record in records if record and record.check == "NcclNode" for r in record.results
    ]
    assert {result.place for result in results} == {f"all_reduce:p2p-off:n{n}" for n in (1, 2)}
    # NVLink would be a failure of kind `condition`.
    assert {failure.kind for r in results for failure in r.failures} == {"no-reference"}
    packed = [
        path for path in campaign.glob(f"stage/**/{results_file.FILE}") if "NcclNode" in str(path)
    ]
    sides = [
        side
        for path in packed
        for of in results_file.read(path).sides.values()
        for side in of.values()
    ]
    logs = [
        text for side in sides for name, text in side.files.items() if name.endswith("nccl.log")
    ]
    assert logs and all("via SHM/" in text and "via P2P/" not in text for text in logs)


def failing(document: dict[str, Any]) -> set[tuple[str, ...]]:
    """The nodes of every place that a finding speaks of."""
    return {tuple(finding["nodes"]) for finding in document["findings"] if finding["nodes"]}


@pytest.mark.parametrize("scenario", ["slow-pair:n2:n3", "hang:n2:n3"])
def test_exactly_the_pair_that_is_bad_is_named(
    railgauge: Run, verdict: Verdict, scenario: str
) -> None:
    """Of four nodes in two rounds: the pairs that share a node or a launch with it pass."""
    answer = railgauge(
        *("rehearse", "gb200-nvl72", "--places", PAIR.format("mnnvl"), "--scenario", scenario),
        *("--", "-n", "^NcclPair"),
    )
    assert answer.returncode == 1, answer.stdout
    assert failing(verdict()) == {("n2", "n3")}, answer.stdout
    assert "the path between n2 and n3" in " ".join(answer.stdout.split())


@pytest.mark.release
def test_pairs_that_are_low_together_alone_do_not_pass_and_accuse_no_node(
    railgauge: Run, verdict: Verdict
) -> None:
    answer = railgauge(
        *("rehearse", "gb200-nvl72", "--places", PAIR.format("mnnvl"), "--scenario", "crowded"),
        *("--", "-n", "^NcclPair"),
    )
    assert answer.returncode == 1, answer.stdout
    kinds = {finding["kind"] for finding in verdict()["findings"]}
    assert {"not-told-apart", "not-run"} <= kinds, answer.stdout
    assert verdict()["measurements"] == []
    assert "is at fault" not in answer.stdout and "the path between" not in answer.stdout


@pytest.mark.release
def test_one_launch_clears_all_pairs_of_a_round(
    railgauge: Run, area: Path, verdict: Verdict
) -> None:
    places = PAIR.format("mnnvl")
    answer = railgauge("rehearse", "gb200-nvl72", "--places", places, "--", "-n", "^NcclPair")
    campaign = max((area / "rehearsals" / "campaigns").iterdir())
    (left,) = [results_file.read(path) for path in campaign.glob(f"stage/**/{results_file.FILE}")]
    assert {launch["launch"] for launch in left.launches.values()} == {0, 1}
    assert {len(launch["places"]) for launch in left.launches.values()} == {2}
    assert "one of 2" in answer.stdout
    assert failing(verdict()) == set(), answer.stdout


def test_no_environment_is_kept(of_one_pair: tuple[Path, str]) -> None:
    area, _ = of_one_pair
    campaign = max((area / "rehearsals" / "campaigns").iterdir())
    (packed,) = campaign.glob(f"stage/**/{results_file.FILE}")
    assert b"nccl-tests.json" in gzip.decompress(packed.read_bytes())
    for path in campaign.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            assert TOKEN.encode() not in content, path


def test_a_rehearsal_variable_lets_nothing_be_accepted(
    railgauge: Run, reframe: Run, cluster: Lab
) -> None:
    answer = railgauge("accept", RAILGAUGE_REHEARSAL="healthy")
    assert answer.returncode == 3
    assert "a rehearsal accepts nothing" in answer.stdout
    answer = reframe("-c", "reframe/", "-l", RAILGAUGE_REHEARSAL="healthy", RFM_SYSTEM="dgx-spark")
    assert answer.returncode != 0
    assert "railgauge rehearse" in answer.stdout
