"""Slow GPUs, and links of GPUs: named in a campaign by the node's facts, and in logs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import paths
from railgauge.cli.locate import locate
from railgauge.locating import Suspect
from railgauge.model.failure import GPU_LINKS, Failure
from railgauge.report.located import sentence
from railgauge.textfiles import Text
from railgauge.tools import nvbandwidth
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.decision.rules import decide
from railgauge.verdict.location import from_logs
from railgauge.verdict.location.locate import suspects
from tests.command_line import invoke
from tests.properties import tries
from tests.unit import measured

DATA = paths.HOME / "tests" / "data" / "nvbandwidth"
GPU = {"kind": "gpu", "name": "gpu3", "gpus": [3], "why": "GPU 3 is slow"}
LINK = {"kind": "gpu-link", "name": "gpu1-gpu2", "gpus": [1, 2], "why": "the link is slow"}


def case(node: str, *parts: dict[str, object], run: int = 0) -> Case:
    failures = tuple(Failure(GPU_LINKS, f"{node}: {p['why']}", (node,)) for p in parts)
    made = Case(
        *("GpuLinks", f"GpuLinks {node}", "h100", (node,), run),
        *("fail" if failures else "pass", "", (), failures, Path("stage")),
        place=node,
        recorded=True,
    )
    made.facts[node] = {"copies": {"matrices": [], "parts": list(parts)}}
    return made


def test_a_slow_gpu_is_named_and_its_node_not_once_more() -> None:
    (only,) = suspects([case("n1"), case("n2", GPU), case("n3")])
    assert (only.kind, only.name, only.nodes) == ("gpu", "n2:gpu3", ("n2",))
    assert only.confirmed and only.failing_nodes == ("n2",)
    assert only.why == "n2: GPU 3 is slow"


def test_outputs_of_transferbench_name_the_slow_link() -> None:
    file = paths.HOME / "tests" / "data" / "transferbench" / "mi300x-1.62.txt"
    answer = invoke(locate, [str(file)])
    assert answer.exit_code == 1
    assert "gpu-link mi300x-1:gpu3-gpu6 is suspected" in answer.output


def test_a_slow_link_between_two_nodes_is_of_both() -> None:
    between = {**LINK, "name": "gpu2-n3:gpu3", "nodes": ["n2", "n3"]}
    (only,) = suspects([case("n1"), case("n2", between)])
    assert (only.name, only.nodes) == ("n2:gpu2-n3:gpu3", ("n2", "n3"))


@pytest.mark.parametrize(("runs", "confirmed"), [((0,), False), ((0, 1), True)])
def test_a_slow_link_is_confirmed_by_another_run(runs: tuple[int, ...], confirmed: bool) -> None:
    (only,) = suspects([case("n1"), *(case("n2", LINK, run=run) for run in runs)])
    assert (only.kind, only.name, only.confirmed) == ("gpu-link", "n2:gpu1-gpu2", confirmed)
    assert only.accuses_nodes


def test_a_failure_without_a_part_names_nobody_by_it() -> None:
    bad = case("n2", GPU)
    bad.facts.clear()
    assert suspects([case("n1"), bad]) == []


def test_a_verdict_names_the_gpu_by_what_the_record_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    place = measured.PLACES[0]
    campaign = measured.leave(
        tmp_path,
        0,
        dict.fromkeys(measured.PLACES, 390.0),
        gate="acceptance",
        failures={place: Failure(GPU_LINKS, "n1: GPU 3 is slow", ("n1",))},
        facts={"n1": {"copies": {"matrices": [], "parts": [GPU]}}},
    )
    verdict = decide(campaign)
    assert verdict.decision == "reject"
    assert [(s.kind, s.name) for s in verdict.suspects] == [("gpu", "n1:gpu3")]
    assert "gpu n1:gpu3 is at fault" in sentence(verdict)


# ---- in logs ----


def located(text: str, name: str = "node7.txt") -> from_logs.LogEvidence:
    return from_logs.read([Text(name, text)])


def of_log(text: str) -> list[Suspect]:
    return [suspect for of_run in located(text).gpus for suspect in of_run.suspects]


def h100(test: str = "") -> str:
    """The typed output, from one test on where it is named."""
    text = (DATA / "h100-0.8.txt").read_text(encoding="utf-8")
    return text[text.index(f"Running {test}.") :] if test else text


def test_a_slow_copy_from_the_host_is_a_link_of_the_node_that_the_file_is_named_after() -> None:
    (link,) = of_log(h100())
    assert (link.kind, link.name, link.confirmed) == ("gpu-link", "node7:gpu3-host", False)


def slowed(rows: list[list[float | None]]) -> str:
    lines = ["nvbandwidth Version: v0.8", "", "Running device_to_device_memcpy_write_ce."]
    lines.append("memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)")
    lines.append("  " + "".join(f"{c:10d}" for c in range(len(rows))))
    for number, row in enumerate(rows):
        cells = "".join("       N/A" if v is None else f"{v:10.2f}" for v in row)
        lines.append(f"{number:2d}{cells}")
    total = sum(round(v, 2) for row in rows for v in row if v is not None)
    lines += ["", f"SUM device_to_device_memcpy_write_ce {total:.2f}", ""]
    lines.append(
        "NOTE: The reported results may not reflect the full capabilities of the platform."
    )
    return "\n".join(lines) + "\n"


def matrix(bad: int | None, share: float = 0.5, gpus: int = 8) -> list[list[float | None]]:
    return [
        [None if r == c else 390.0 * (share if bad in (r, c) else 1) for c in range(gpus)]
        for r in range(gpus)
    ]


@settings(max_examples=tries(50))
@given(st.sampled_from([4, 8]), st.data(), st.floats(0.2, 0.9))
def test_the_slow_gpu_of_a_log_is_named(gpus: int, data: st.DataObject, share: float) -> None:
    bad = data.draw(st.integers(0, gpus - 1))
    (gpu,) = of_log(slowed(matrix(bad, share, gpus)))
    assert (gpu.kind, gpu.name, gpu.confirmed) == ("gpu", f"node7:gpu{bad}", True)


@settings(max_examples=tries(60))
@given(st.integers(0, 2000))
def test_a_cut_log_names_no_gpu(length: int) -> None:
    text = slowed(matrix(3))
    assert of_log(text[: min(length, len(text) - 90)]) == []


def test_processes_of_several_nodes_are_named_by_their_nodes() -> None:
    text = (DATA / "gb200-multinode-0.8.txt").read_text(encoding="utf-8")
    assert [of_run.nodes for of_run in located(text).gpus] == [("node1", "node2")]
    # Processes 1 and 2, both ways: GPU 1 of node1 and GPU 0 of node2.
    low = text.replace("400.40    401.40", "200.40    401.40", 1)
    low = low.replace(" 2    399.40    400.40", " 2    399.40    200.40")
    total = sum(
        float(value)
        for line in low.splitlines()
        if re.match(r" [0-3] ", line)
        for value in line.split()[1:]
        if value != "N/A"
    )
    low = re.sub(r"(SUM \S+) [0-9.]+", rf"\1 {total:.2f}", low)
    (link,) = of_log(low)
    assert link.name == "node1:gpu1-node2:gpu0" and link.nodes == ("node1", "node2")


def test_a_log_of_gpus_on_two_sockets_names_none() -> None:
    rows = [
        [None if r == c else (390.0 if (r < 4) == (c < 4) else 40.0) for c in range(8)]
        for r in range(8)
    ]
    found = located(slowed(rows))
    assert (found.gpus[0].suspects, found.gpus[0].why) == ((), "")


def test_the_command_prints_the_gpu_and_ends_with_1(tmp_path: Path) -> None:
    file = tmp_path / "n7.txt"
    file.write_text(slowed(matrix(3)))
    answer = invoke(locate, [str(file)])
    assert answer.exit_code == 1
    assert "gpu n7:gpu3 is at fault: GPU 3 is slow wherever it writes to" in answer.output


def test_a_log_with_fewer_devices_than_gpus_is_judged() -> None:
    text = (DATA / "gb200-multinode-0.8.txt").read_text(encoding="utf-8")
    text = text.replace("Process 3 (node2): device 1: NVIDIA GB200 (00000008:02:00)\n", "")
    low = re.sub(r"( 3 +)400.40( +)401.40( +)402.40", r"\g<1>100.00\g<2>100.00\g<3>100.00", text)
    total = 4804.80 - 400.40 - 401.40 - 402.40 + 300
    (gpu,) = of_log(low.replace("4804.80", f"{total:.2f}"))
    assert gpu.name == "node7:gpu3"


def test_a_cut_log_of_nvbandwidth_is_left_out_as_no_whole_run() -> None:
    found = located(slowed(matrix(3))[:-200] + "\n")
    assert found.gpus == ()
    assert found.evidence.missing[0].why.startswith("not a whole run")


def test_nodes_of_a_log_where_most_is_slow_are_not_judged(tmp_path: Path) -> None:
    rows = matrix(None)
    for r, row in enumerate(rows):
        for c in range(8):
            if r != c and (r > 2 or c > 2):
                row[c] = 200.0 if (r + c) % 2 else 390.0
    file = tmp_path / "n7.txt"
    file.write_text(slowed(rows))
    answer = invoke(locate, [str(file)])
    assert answer.exit_code == 2
    assert "not judged: n7" in answer.output and "no GPU is named" in answer.output


@settings(max_examples=tries(100))
@given(
    st.lists(st.lists(st.sampled_from([None, 0.5, 50.0, 390.0]), max_size=5), max_size=5),
    st.sampled_from(sorted(nvbandwidth.WAYS)),
    st.sampled_from(sorted(nvbandwidth.WAYS)),
)
def test_a_document_of_any_shape_is_judged_or_left_out(
    cells: list[list[float | None]], first: str, second: str
) -> None:
    cases = [
        {
            "name": name,
            "status": "Passed",
            "bandwidth_description": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix": [["N/A" if v is None else f"{v}" for v in row] for row in of],
            "sum": sum(v or 0 for row in of for v in row),
        }
        for name, of in ((first, cells), (second, cells[::-1][:3]))
    ]
    located(json.dumps({"nvbandwidth": {"testcases": cases}}, indent=1) + "\n")
