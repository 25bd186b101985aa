"""GpuDomain: nvbandwidth's tests of several nodes, judged pair by pair.

The outputs have the form of nvbandwidth 0.8, as recorded with a stand-in of the driver
(tests/data/nvbandwidth), and were not recorded on GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems
from railgauge.campaign.folder import RESULT_FILE
from railgauge.checks.collectives.gpu_domains import GpuDomainCases
from railgauge.checks.framework import slurm_queue
from railgauge.model.failure import GPU_LINKS
from railgauge.model.record import Record, read_record
from railgauge.node.orders.ranks import LaunchList
from railgauge.tools import nvbandwidth
from tests.unit.checks import ended_jobs
from tests.unit.checks.collectives.nccl_left import outcome, write

TITLES = {
    "multinode_device_to_device_memcpy_read_ce": "memcpy CE GPU(row) -> GPU(column)",
    "multinode_device_to_device_memcpy_write_ce": "memcpy CE GPU(row) <- GPU(column)",
}
NODES = ("gb300-nvl72-r1t01", "gb300-nvl72-r1t02", "gb300-nvl72-r1t03")
GPUS = 4

Speed = Callable[[int, int], float]


def healthy(row: int, column: int) -> float:
    return 780.0 + (row + column) % 3


def slower(applies: Callable[[int, int], bool], share: float = 0.9) -> Speed:
    return lambda r, c: healthy(r, c) * (share if applies(r, c) else 1)


def output(nodes: Sequence[str], speed: Speed = healthy, devices: int = GPUS) -> str:
    """What process 0 prints of a process a GPU; with fewer `devices` processes share them."""
    ranks = range(GPUS * len(nodes))
    lines = ["nvbandwidth Version: v0.8", "Built from Git version: v0.8", ""]
    lines += ["CUDA Runtime Version: 13000", "CUDA Driver Version: 13000"]
    lines += ["Driver Version: 580.82.07", ""]
    lines += [
        f"Process {rank} ({nodes[rank // GPUS]}): device {rank % GPUS % devices}: NVIDIA GB300 "
        f"(0000000{8 + rank % GPUS}:01:00)"
        for rank in ranks
    ]
    for test, title in TITLES.items():
        lines += ["", f"Running {test}.", f"{title} bandwidth (GB/s)"]
        lines += ["".join(f"{rank:10d}" for rank in ranks)]
        total = 0.0
        for row in ranks:
            cells = [None if row == column else speed(row, column) for column in ranks]
            total += sum(round(cell, 2) for cell in cells if cell is not None)
            shown = ["N/A" if cell is None else f"{cell:.2f}" for cell in cells]
            lines += [f"{row:2d}" + "".join(f"{cell:>10}" for cell in shown)]
        lines += ["", f"SUM {test} {total:.2f}"]
    note = "NOTE: The reported results may not reflect the full capabilities of the platform."
    return "\n".join([*lines, "", note, ""])


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """GpuDomain on three nodes of a rack, with a job that has ended."""
    monkeypatch.setattr(slurm_queue.session, "takes_no_job", lambda asked: {})
    chosen = {"RAILGAUGE_NODES": "gb300-nvl72-r1t[01-03]"}
    with ended_jobs.session("gb300-nvl72", tmp_path / "results", **chosen) as known:
        made = ended_jobs.ended(known["GpuDomain"].kind(variant_num=0), tmp_path / "stage")
        monkeypatch.setattr(made, "failed_preconditions", lambda places: {})
        monkeypatch.setattr(made, "_taken_before", lambda places: {})
        made.select_places()
        yield made


def judged(
    check: Any, text: Callable[[tuple[str, ...]], str], ranks: int = 2 * GPUS, **facts: Any
) -> Record:
    """The record where each pair printed `text` of its nodes and left so many exit lines."""
    events: list[Any] = []
    orders = check.orders().document()
    for number, place in enumerate(orders["places"]):
        pair = tuple(place["nodes"])
        events.append(
            {
                **{"event": "launch", "launch": number, "places": [number], "parent": None},
                **{"why": "", "seconds": 30.0, "out": text(pair), "err": "", "files": {}},
            }
        )
        for rank in range(ranks):
            node = pair[rank // GPUS]
            line = ended_jobs.exit_line("nvbandwidth", f"rank{rank}", node, rank, **facts)
            side = ended_jobs.side(line, "" if rank else text(pair))
            events.append(
                {"event": "side", "place": number, "role": f"rank{rank}", **side._asdict()}
            )
        events.append(outcome(number))
    write(check, events)
    ended_jobs.judge(check)
    record = read_record(Path(check.stagedir, RESULT_FILE))
    assert record is not None
    return record


def failed(record: Record) -> Mapping[tuple[str, ...], list[tuple[str, str]]]:
    return {
        tuple(result.nodes): [(failure.kind, failure.message) for failure in result.failures]
        for result in record.results
        if result.failures
    }


def of_second(speed: Speed) -> Callable[[tuple[str, ...]], str]:
    """The pairs are healthy but for the one of the first two nodes."""
    return lambda pair: output(pair, speed if pair == NODES[:2] else healthy)


def test_pairs_are_neighbours_of_one_domain() -> None:
    (partition,) = systems.load("gb300-nvl72").partitions
    pairs = [case.nodes for case in GpuDomainCases().on(partition)]
    assert len(pairs) == 36
    assert all(first.split("t")[0] == second.split("t")[0] for first, second in pairs)
    assert ("gb300-nvl72-r1t18", "gb300-nvl72-r1t01") in pairs


def test_nothing_is_measured_where_no_build_with_mpi_is_described() -> None:
    (partition,) = systems.load("gb300-nvl72").partitions
    assert partition.extras.gpu_links is not None
    links = partition.extras.gpu_links.model_copy(update={"multinode_path": None})
    extras = partition.extras.model_copy(update={"gpu_links": links})
    without = partition.model_copy(update={"extras": extras})
    assert list(GpuDomainCases().on(without)) == []
    assert "multinode_path" in GpuDomainCases().lacks(without)


def test_a_process_is_started_on_each_gpu_of_a_pair(check: Any) -> None:
    orders = LaunchList.read(json.loads(json.dumps(check.orders().document())), "sweep.json")
    (order,) = orders.orders
    assert orders.ranks_per_node == GPUS and order.table is None
    assert order.ranks.argv == (
        *("/opt/nvbandwidth-mpi/nvbandwidth", "--disableAffinity", "--testcase"),
        *TITLES,
    )
    # By these numbers nvidia-smi names them.
    assert order.ranks.environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert f"--gpus-per-node={GPUS}" in check.job.options
    assert check.num_tasks_per_node == GPUS


def test_healthy_pairs_pass_with_their_matrices_in_the_record(check: Any) -> None:
    record = judged(check, output)
    assert failed(record) == {}
    result = record.results[0]
    copies = result.facts[NODES[0]]["copies_between"]
    assert [matrix["test"] for matrix in copies["matrices"]] == list(TITLES)
    assert copies["names"][:5] == [*(f"{NODES[0]}:gpu{n}" for n in range(4)), f"{NODES[1]}:gpu0"]
    gating = [row.measurement.variable for row in result.rows if row.gates]
    assert gating == [f"copy_bandwidth_min_{test}" for test in TITLES]


def test_a_slow_gpu_is_named_by_its_node_and_its_number_there(check: Any) -> None:
    record = judged(check, of_second(slower(lambda r, c: 5 in (r, c))))
    ((kind, message),) = failed(record)[NODES[:2]]
    assert kind == GPU_LINKS
    assert message.startswith("gb300-nvl72-r1t02:gpu1: GPU 5 is slow wherever it reads from")
    assert "GPU 5 is GPU 1 of gb300-nvl72-r1t02" in message
    (part,) = record.results[0].facts[NODES[1]]["copies"]["parts"]
    assert (part["kind"], part["name"], part["nodes"]) == ("gpu", "gpu1", [NODES[1]])


def test_a_slow_link_between_nodes_is_named_by_both_ends(check: Any) -> None:
    record = judged(check, of_second(slower(lambda r, c: {r, c} == {2, 7})))
    ((kind, message),) = failed(record)[NODES[:2]]
    assert kind == GPU_LINKS
    assert message.startswith("gb300-nvl72-r1t01:gpu2-gb300-nvl72-r1t02:gpu3: the link between")
    (part,) = record.results[0].facts[NODES[0]]["copies"]["parts"]
    assert (part["kind"], part["nodes"]) == ("gpu-link", list(NODES[:2]))


def test_copies_that_are_slow_between_the_nodes_only_accuse_both(check: Any) -> None:
    record = judged(check, of_second(slower(lambda r, c: r // GPUS != c // GPUS, 0.8)))
    ((kind, message),) = failed(record)[NODES[:2]]
    assert kind == GPU_LINKS and "copies between them have a median of" in message
    (failure,) = record.results[0].failures
    assert failure.nodes == NODES[:2]


def test_pairs_that_are_slow_as_a_whole_are_below_the_bound(check: Any) -> None:
    record = judged(check, lambda pair: output(pair, lambda r, c: 400.0))
    assert [row.within for row in record.results[0].rows if row.gates] == [False, False]


def test_a_node_that_lost_a_gpu_does_not_pass(check: Any) -> None:
    record = judged(check, lambda pair: output(pair, devices=3))
    assert "2 processes use GPU 0 of gb300-nvl72-r1t01" in failed(record)[NODES[:2]][0][1]


def test_processes_on_other_nodes_do_not_pass(check: Any) -> None:
    record = judged(check, lambda pair: output((pair[0], "gb300-nvl72-r2t09")))
    ((_, message),) = failed(record)[NODES[:2]]
    assert "8 processes on gb300-nvl72-r1t01, gb300-nvl72-r2t09, expected 8 on" in message


def test_hosts_with_their_domain_are_the_nodes(check: Any) -> None:
    record = judged(check, lambda pair: output([f"{node}.example.org" for node in pair]))
    assert failed(record) == {}
    assert record.results[0].facts[NODES[0]]["copies_between"]["names"][0] == f"{NODES[0]}:gpu0"


def test_a_rank_without_exit_line_does_not_pass(check: Any) -> None:
    record = judged(check, output, ranks=2 * GPUS - 1)
    assert NODES[:2] in failed(record)


@pytest.mark.parametrize("cut", [0, 400, -100])
def test_a_cut_output_is_no_result(check: Any, cut: int) -> None:
    record = judged(check, lambda pair: output(pair)[:cut])
    assert NODES[:2] in failed(record)


def test_a_build_without_mpi_does_not_pass(check: Any) -> None:
    said = "nvbandwidth Version: v0.8\n\nERROR: Testcase multinode_x_ce not found!\n\n"
    record = judged(check, lambda pair: said)
    assert "not found!" in failed(record)[NODES[:2]][0][1]


def test_nodes_without_the_program_get_one_line_that_says_what_to_build(check: Any) -> None:
    record = judged(check, lambda pair: "", missing=["/opt/nvbandwidth-mpi/nvbandwidth"])
    left_out = record.results[0].left_out
    assert record.results[0].failures == () and left_out is not None
    assert "cmake -DMULTINODE=1" in left_out.next_step


def test_the_recorded_output_of_two_nodes_is_read_as_the_typed_one_is() -> None:
    file = paths.HOME / "tests" / "data" / "nvbandwidth" / "multinode-stand-in-driver-0.8.txt"
    # Two of its tests: the others are not asked for.
    head, *tests = file.read_text().split("Running ")
    end = tests[-1].partition("NOTE:")
    chosen = [test for test in tests if test.startswith(tuple(f"{name}." for name in TITLES))]
    text = "Running ".join([head, *chosen]) + "".join(end[1:])
    hosts = ("node1",) * 2 + ("node2",) * 2
    reading = nvbandwidth.read(text, options=nvbandwidth.Options(tuple(TITLES), hosts))
    assert reading.ok, reading.reason
    assert nvbandwidth.places(reading.seen, "")[3] == ("node2", 1)
    assert len(nvbandwidth.copies(reading.seen, {})) == 2


@pytest.mark.parametrize("hosts", [(), ("n1",) * 4 + ("n2",) * 4])
def test_prefixes_of_an_output_are_no_whole_one(hosts: tuple[str, ...]) -> None:
    text = output(("n1", "n2"))
    options = nvbandwidth.Options(tuple(TITLES), hosts)
    assert nvbandwidth.read(text, options=options).ok
    end = text.index("SUM multinode_device_to_device_memcpy_write_ce")
    for length in range(0, end, 7):
        assert not nvbandwidth.read(text[:length], options=options).ok
