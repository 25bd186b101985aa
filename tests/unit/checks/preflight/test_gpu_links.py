"""GpuLinks: what nvbandwidth printed and what the PCIe links did, judged node by node.

The outputs are typed from the sources of nvbandwidth and TransferBench and were not recorded on a
GPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths
from railgauge.campaign.folder import RESULT_FILE
from railgauge.checks.framework import slurm_queue
from railgauge.model.failure import ENVIRONMENT, GPU_LINKS
from railgauge.model.measurement import Measurement
from railgauge.model.record import Record, read_record
from railgauge.node.orchestration import sweep_file
from railgauge.systems.gpu_links import GpuLinks
from railgauge.tools import nvbandwidth, transferbench
from tests.unit.checks import ended_jobs

TITLES = {
    "host_to_device_memcpy_ce": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
    "device_to_host_memcpy_ce": "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)",
    "device_to_device_memcpy_read_ce": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
    "device_to_device_memcpy_write_ce": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
}
GPUS = [{"pci": f"0000:{n + 16:02x}:00.0", "near_cpus_allowed": 56} for n in range(8)]

Speed = Callable[[str, int, int], float]


def healthy(test: str, row: int, column: int) -> float:
    return 392.5 + (row + column) % 3 if "device_to_device" in test else 55.36


def output(speed: Speed = healthy, gpus: int = 8) -> str:
    """What `nvbandwidth --json` prints of a node."""
    cases = []
    for test, title in TITLES.items():
        rows = gpus if "device_to_device" in test else 1
        cells = [
            [None if rows > 1 and r == c else speed(test, r, c) for c in range(gpus)]
            for r in range(rows)
        ]
        cases.append(
            {
                "name": test,
                "status": "Passed",
                "bandwidth_description": title,
                "bandwidth_matrix": [
                    ["N/A" if cell is None else f"{cell:.6g}" for cell in row] for row in cells
                ],
                "sum": sum(cell for row in cells for cell in row if cell is not None),
            }
        )
    devices = [f"{n}: NVIDIA H100 80GB HBM3 (00000000:{n + 16:02x}:00): (n1)" for n in range(gpus)]
    run = {"version": "v0.8", "GPU Device list": devices, "testcases": cases}
    return json.dumps({"nvbandwidth": run}, indent=1) + "\n"


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """GpuLinks on two nodes of dgx-h100, with a job that has ended."""
    monkeypatch.setattr(slurm_queue.session, "takes_no_job", lambda asked: {})
    nodes = {"RAILGAUGE_NODES": "dgx-h100-n[01-02]"}
    with ended_jobs.session("dgx-h100", tmp_path / "results", **nodes) as known:
        made = ended_jobs.ended(known["GpuLinks"].kind(variant_num=0), tmp_path / "stage")
        monkeypatch.setattr(made, "failed_preconditions", lambda places: {})
        monkeypatch.setattr(made, "_taken_before", lambda places: {})
        made.select_places()
        yield made


def judged(check: Any, text: str, gpus: list[dict[str, Any]] | None = None, **facts: Any) -> Record:
    """The record, where the second node printed `text` and the first one is healthy."""
    left = {}
    for place in check.places:
        is_second = place.node.endswith("02")
        of_node = facts if is_second else {}
        seen = {"gpus": GPUS if gpus is None or not is_second else gpus, **of_node}
        line = ended_jobs.exit_line("nvbandwidth", "rank0", place.node, **seen)
        side = ended_jobs.side(line, text if is_second else output())
        left[place.place] = {"rank0": side}
    ended_jobs.Left(left, dict.fromkeys(left, ended_jobs.DONE)).write(check)
    ended_jobs.judge(check)
    record = read_record(Path(check.stagedir, RESULT_FILE))
    assert record is not None
    return record


def failed(record: Record) -> Mapping[str, list[tuple[str, str]]]:
    return {
        result.place: [(failure.kind, failure.message) for failure in result.failures]
        for result in record.results
        if result.failures
    }


def second(record: Record) -> list[tuple[str, str]]:
    """What failed at the second node; the first one is good."""
    found = failed(record)
    assert set(found) <= {"dgx-h100-n02"}
    return found.get("dgx-h100-n02", [])


def slower(applies: Callable[[str, int, int], bool], share: float = 0.9) -> Speed:
    return lambda test, r, c: healthy(test, r, c) * (share if applies(test, r, c) else 1)


def test_nodes_are_ordered_to_run_the_tests_of_copy_engines(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(check.orders().document()))
    sweep = sweep_file.read(file)
    assert {place.program for place in sweep.places.values()} == {"gpu_links"}
    assert sweep.orders[0].argv_of("node") == ("nvbandwidth", "--json", "--testcase", *TITLES)


def test_a_healthy_node_passes_with_its_matrices_in_the_record(check: Any) -> None:
    record = judged(check, output())
    assert failed(record) == {}
    copies = record.results[0].facts["dgx-h100-n01"]["copies"]
    assert [matrix["test"] for matrix in copies["matrices"]] == list(TITLES)
    assert "parts" not in copies
    gating = [row.measurement.variable for row in record.results[0].rows if row.gates]
    assert gating == [f"copy_bandwidth_min_{test}" for test in TITLES]


def test_a_slow_gpu_is_named_with_the_cells_that_show_it(check: Any) -> None:
    speed = slower(lambda test, r, c: "device_to_device" in test and 3 in (r, c))
    ((kind, message),) = second(judged(check, output(speed)))
    assert kind == GPU_LINKS and "GPU 3 is slow wherever it reads from another" in message


def test_a_slow_link_is_named_by_its_two_gpus(check: Any) -> None:
    speed = slower(lambda test, r, c: "device_to_device" in test and {r, c} == {2, 5})
    record = judged(check, output(speed))
    ((kind, message),) = second(record)
    assert kind == GPU_LINKS and "the link between GPU 2 and GPU 5 is slow, both ways" in message
    (part,) = record.results[1].facts["dgx-h100-n02"]["copies"]["parts"]
    assert (part["kind"], part["name"]) == ("gpu-link", "gpu2-gpu5")


def test_a_cell_below_its_share_of_the_limit_is_also_a_bad_number(check: Any) -> None:
    speed = slower(lambda test, r, c: test.startswith("host") and c == 1, 0.3)
    record = judged(check, output(speed))
    ((kind, message),) = second(record)
    assert kind == GPU_LINKS and "from the host to GPU 1" in message
    low = [row for row in record.results[1].rows if row.within is False]
    assert [row.measurement.variable for row in low] == [
        "copy_bandwidth_min_host_to_device_memcpy_ce"
    ]


@pytest.mark.parametrize(("name", "value"), [("pcie_gts", 16.0), ("pcie_lanes", 8.0)])
def test_a_pcie_link_that_stayed_slow_or_narrow_under_load_is_named(
    check: Any, name: str, value: float
) -> None:
    well = {"pcie_gts": 32.0, "pcie_lanes": 16.0}
    gpus = [{**gpu, **well, **({name: value} if n == 6 else {})} for n, gpu in enumerate(GPUS)]
    ((kind, message),) = second(judged(check, output(), gpus))
    assert kind == GPU_LINKS
    assert f"GPU 6 (0000:16:00.0) under load: {name} is {value:g}" in message


def test_a_job_without_a_cpu_near_a_gpu_measures_nothing(check: Any) -> None:
    gpus = [{**gpu, "near_cpus_allowed": 0 if n > 3 else 56} for n, gpu in enumerate(GPUS)]
    kinds = [kind for kind, _ in second(judged(check, output(), gpus))]
    assert kinds == [ENVIRONMENT]


def test_a_node_with_a_gpu_less_fails(check: Any) -> None:
    ((kind, message),) = second(judged(check, output(gpus=7)))
    assert kind == "condition" and "gpus is 7, expected 8" in message


@pytest.mark.parametrize("cut", [0, 100, -3])
def test_a_cut_output_is_no_result(check: Any, cut: int) -> None:
    assert [kind for kind, _ in second(judged(check, output()[:cut]))] == ["output"]


def test_a_node_without_nvbandwidth_gets_one_line_that_says_what_to_build(check: Any) -> None:
    record = judged(check, "", missing=["nvbandwidth"])
    left_out = record.results[1].left_out
    assert record.results[1].failures == () and left_out is not None
    assert left_out.kind == "tool-missing"
    assert "spack install nvbandwidth@v0.8 +cuda cuda_arch=90" in left_out.next_step


def test_a_node_without_nvbandwidth_fails_where_the_check_is_required(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(check.programs), "may_be_missing", lambda self, partition: False)
    assert [kind for kind, _ in second(judged(check, "", missing=["nvbandwidth"]))] == [
        "tool-missing"
    ]


@pytest.mark.parametrize(
    ("gts", "lanes", "gbytes_s"), [(8, 16, 15.754), (16, 16, 31.508), (32, 16, 63.015)]
)
def test_pcie_carries_its_rate_without_the_encoding(
    gts: float, lanes: int, gbytes_s: float
) -> None:
    limit = GpuLinks(gpus=1, pcie_gts=gts, pcie_lanes=lanes).host_limit
    assert limit is not None and limit.value == pytest.approx(gbytes_s, abs=1e-3)


def test_half_of_a_pcie_link_is_refused() -> None:
    with pytest.raises(ValueError, match="give pcie_gts and pcie_lanes"):
        GpuLinks(gpus=8, pcie_gts=32)


def test_gpus_are_found_by_their_addresses() -> None:
    seen = nvbandwidth.read(output()).seen
    assert nvbandwidth.gpu_numbers(seen)["0000:13:00"] == 3


# ---- where the host is behind NVLink-C2C, of which no limit is known ----


@pytest.mark.parametrize(("gate", "gates"), [("acceptance", False), ("baseline", True)])
def test_copies_of_an_unknown_limit_become_a_baseline_before_they_gate(
    tmp_path: Path, gate: str, gates: bool
) -> None:
    with ended_jobs.session("gb200-nvl72", tmp_path) as known:
        made = ended_jobs.ended(known["GpuLinks"].kind(variant_num=0), tmp_path / "stage")
        made.gate = gate
        host, gpu = (
            Measurement("copy_bandwidth_min", 200.0, "nvbandwidth", f"copy {test}", "any")
            for test in ("host_to_device_memcpy_ce", "device_to_device_memcpy_read_ce")
        )
        with made.at(made.places[0]):
            assert (made.gates(made.placed(host)), made.gates(made.placed(gpu))) == (gates, True)


def test_the_job_asks_slurm_for_the_gpus(check: Any) -> None:
    assert "--gpus-per-node=8" in check.job.options


def test_pcie_links_that_were_not_seen_are_noted(check: Any) -> None:
    record = judged(check, output(), [])
    assert failed(record) == {}
    assert "seen of 0 of 8 GPUs" in " ".join(record.results[1].notes)


# ---- AMD's GPUs, by TransferBench: typed from PeerToPeer.hpp of 1.62, GPU 3 to GPU 6 is slow ----

TRANSFERBENCH = paths.HOME / "tests" / "data" / "transferbench" / "mi300x-1.62.txt"


@pytest.fixture
def amd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """GpuLinks on a node of mi300x, with a job that has ended."""
    monkeypatch.setattr(slurm_queue.session, "takes_no_job", lambda asked: {})
    with ended_jobs.session("mi300x", tmp_path / "results", RAILGAUGE_NODES="mi300x-n01") as known:
        made = ended_jobs.ended(known["GpuLinks"].kind(variant_num=0), tmp_path / "stage")
        monkeypatch.setattr(made, "failed_preconditions", lambda places: {})
        monkeypatch.setattr(made, "_taken_before", lambda places: {})
        made.select_places()
        yield made


def of_amd(check: Any, text: str, **facts: Any) -> Record:
    (place,) = check.places
    well = [{**gpu, "pcie_gts": 32.0, "pcie_lanes": 16.0} for gpu in GPUS]
    line = ended_jobs.exit_line("transferbench", "rank0", place.node, **{"gpus": well, **facts})
    ended_jobs.Left(
        {place.place: {"rank0": ended_jobs.side(line, text)}}, {place.place: ended_jobs.DONE}
    ).write(check)
    ended_jobs.judge(check)
    record = read_record(Path(check.stagedir, RESULT_FILE))
    assert record is not None
    return record


def test_a_slow_link_of_xgmi_is_named_and_below_its_bound(amd: Any) -> None:
    orders = amd.orders().document()
    assert orders["tool"] == "transferbench"
    assert orders["orders"][0]["argv"] == ["TransferBench", "p2p"]
    (result,) = of_amd(amd, TRANSFERBENCH.read_text()).results
    (failure,) = result.failures
    assert failure.kind == GPU_LINKS
    assert "the link between GPU 3 and GPU 6 is slow, both ways" in failure.message
    assert failure.next_step.startswith("amd-smi xgmi")
    low = [row.measurement.variable for row in result.rows if row.within is False]
    assert low == ["copy_bandwidth_min_p2p_gpu_to_gpu_write"]


def test_a_healthy_node_of_amd_passes(amd: Any) -> None:
    text = TRANSFERBENCH.read_text().replace(" 30.01", " 48.40").replace(" 29.95", " 48.30")
    # Both cells are 18.37 GB/s more, of 56.
    text = text.replace(" 47.94\n", " 48.60\n")
    (result,) = of_amd(amd, text).results
    assert result.failures == ()
    assert all(row.within for row in result.rows if row.gates)
    assert [row.measurement.variable for row in result.rows if row.gates] == [
        f"copy_bandwidth_min_{test}" for test in transferbench.options_of(8).tests
    ]


def test_a_node_of_amd_with_a_gpu_less_fails(amd: Any) -> None:
    text = TRANSFERBENCH.with_name("remote-read-1.52.txt").read_text()
    (result,) = of_amd(amd, text).results
    assert "2 GPUs, expected 8" in result.failures[0].message


def test_a_node_without_transferbench_gets_one_line_that_says_what_to_build(amd: Any) -> None:
    left_out = of_amd(amd, "", missing=["TransferBench"]).results[0].left_out
    assert left_out is not None
    assert "spack install transferbench amdgpu_target=gfx942" in left_out.next_step


def test_links_of_the_other_vendor_are_refused() -> None:
    with pytest.raises(ValueError, match="xgmi_gbytes_s is of other GPUs"):
        GpuLinks(gpus=8, xgmi_gbytes_s=64)
