"""Known symptoms: each has an input that fits it, and one that nearly does."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge import paths
from railgauge.common.errors import ConfigurationError
from railgauge.model import signatures
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.nic import Nic
from railgauge.model.signatures import Run

MIB, GIB = 2**20, 2**30
LOGS = paths.HOME / "tests" / "data" / "nccl-log"


def write(value: float, nic: str | None = None, size: int = MIB, **seen: Any) -> Run:
    """A run of ib_write_bw, with the limit of its link where `nic` is given."""
    measurement = Measurement("bandwidth", value, "perftest", "write", "roce", size, 1)
    link = Nic.of(nic) if nic else None
    limit = link.limit(measurement, seen) if link else None
    return Run("log:1", [(measurement, limit)], seen, None, link)


def spark(value: float, device: str = "rocep1s0f0") -> Run:
    return write(value, devices=[device])


def tcp(value: float, nic: str = "100g-tcp", streams: int = 1, **seen: Any) -> Run:
    m = Measurement("bandwidth", value, "iperf3", "tcp", "tcp", None, streams)
    link = Nic.of(nic)
    return Run("log:1", [(m, link.limit(m, seen))], seen, None, link)


def nccl(
    *values: float,
    gpu: str = "NVIDIA H100 80GB HBM3",
    nodes: int = 2,
    ranks: int = 16,
    operation: str = "all_reduce",
    size: int = 8 * GIB,
    metric: str = "busbw",
    nics: int | None = None,
    warmup: int = 5,
) -> Run:
    """A run of nccl-tests: a value for each size, which doubles."""
    link = Nic(400, "roce", nics) if nics else None
    hosts = [f"n{n}" for n in range(nodes)] * (ranks // nodes)
    seen: dict[str, Any] = {"gpu": gpu, "hosts": hosts, "warmup": warmup}
    numbers = [
        Measurement(metric, value, "nccl-tests", operation, "any", size << n, ranks=ranks)
        for n, value in enumerate(values)
    ]
    limits = [link.limit(number, seen) if link else None for number in numbers]
    return Run("log:1", list(zip(numbers, limits)), seen, nodes, link)  # noqa: B905


#: Signature -> a run that fits, and runs that nearly do.
RUNS: dict[str, tuple[Run, list[Run]]] = {
    "spark-power-state": (spark(12.74), [spark(98.0), write(12.74), write(12.74, "100g-roce")]),
    "spark-one-half": (spark(109.3), [spark(12.74), spark(196.0), write(109.3)]),
    "spark-pcie-x2": (spark(50, "roceP2p1s0f0"), [spark(50), spark(98, "roceP2p1s0f0")]),
    "spark-one-hca": (
        nccl(12.25, gpu="NVIDIA GB10", ranks=2),
        [nccl(20.1, gpu="NVIDIA GB10", ranks=2), nccl(12.25)],
    ),
    "spark-nccl-three": (
        nccl(3.04, gpu="NVIDIA GB10", ranks=2, operation="all_gather"),
        [nccl(3.04, operation="all_gather"), nccl(18.94, gpu="NVIDIA GB10", ranks=2)],
    ),
    "spark-switch-detour": (spark(4.85), [spark(8.5), write(4.85)]),
    "cx8-host-memory": (write(225, "400g-roce"), [write(225), write(391, "400g-roce")]),
    "pcie-too-slow": (write(110, "400g-roce"), [write(98, "100g-roce"), write(391, "400g-roce")]),
    "roce-mtu-1500": (
        write(180, active_mtu_bytes=1024),
        [write(180, active_mtu_bytes=4096), write(180)],
    ),
    "tcp-one-stream": (
        tcp(38),
        [tcp(38, streams=8), tcp(24, "25g-tcp"), tcp(95)],
    ),
    "iperf3-one-thread": (
        tcp(45, streams=8, version="iperf 3.12"),
        [
            tcp(45, streams=8, version="iperf 3.16"),
            tcp(45, streams=8, version="iperf 3.22.1"),
            tcp(45, version="iperf 3.12"),
            tcp(98, streams=8, version="iperf 3.12"),
        ],
    ),
    "tcp-mtu-1500": (
        tcp(60, streams=8, mss_bytes=1448),
        [tcp(60, streams=8, mss_bytes=8948), tcp(93, streams=8, mss_bytes=1448)],
    ),
    "nccl-sockets-by-rate": (
        nccl(3.0),
        [nccl(3.0, gpu="NVIDIA GB10"), nccl(441.0), nccl(3.0, size=MIB), nccl(3.0, nodes=1)],
    ),
    "nccl-half": (nccl(193, nics=8), [nccl(390, nics=8), nccl(193), nccl(193, nics=4)]),
    "nccl-above-nics": (
        nccl(487, nics=8),
        [nccl(390, nics=8), nccl(487), nccl(487, nics=8, nodes=4)],
    ),
    "alltoall-above-nic": (
        nccl(79.11, operation="alltoall", nics=8),
        [
            nccl(45, operation="alltoall", nics=8),
            nccl(120, operation="alltoall", nics=8),
            nccl(79.11, operation="alltoall"),
        ],
    ),
    "nccl-dip": (
        nccl(100, 150, 200, 90, 300, 350, size=MIB),
        [
            nccl(100, 150, 200, 250, 300, 350, size=MIB),
            nccl(100, 150, 200, 250, 300, 90, size=MIB),
            nccl(100, 40, 200, 90, 300, 350, size=MIB),
            nccl(200, 90, 300, size=MIB),
        ],
    ),
    "nccl-slow-first-row": (
        nccl(900, 30, 31, metric="time", warmup=1),
        [
            nccl(900, 30, 31, metric="time", warmup=5),
            nccl(40, 30, 31, metric="time", warmup=1),
            nccl(900, metric="time", warmup=1),
        ],
    ),
    "nvls-off": (
        nccl(367.61, nodes=1, ranks=8),
        [nccl(478.87, nodes=1, ranks=8), nccl(367.61), nccl(367.61, gpu="NVIDIA A100", nodes=1)],
    ),
    "roce-without-flow-control": (nccl(0.4), [nccl(12), nccl(0.4, nodes=1), nccl(0.4, size=MIB)]),
}

NCCL = "n1:1:2 [0] NCCL INFO "
#: Signature -> lines that fit, and lines that nearly do.
LINES: dict[str, tuple[list[str], list[str]]] = {
    "perftest-cpu-clock": (
        ["Conflicting CPU frequency values detected: 800.0 != 3500.0"],
        [" Data ex. method : Ethernet"],
    ),
    "perftest-numa-binding": ([" NUMA node       : 1"], ["numa_node=1", "NUMA nodes 2"]),
    "rdma-retry-exceeded": (
        [
            NCCL.replace("INFO", "WARN") + "NET/IB : Got completion from peer 10.0.0.1 with "
            "status=12 opcode=1 len=0 vendor err 129",
            " Failed status 12: wr_id 0 syndrom 0x81",
        ],
        [" Failed status 5: wr_id 0 syndrom 0xf9", NCCL + "NET/IB : Got completion, status=0"],
    ),
    "gdr-access-error": (
        ["net_ib.cu:788 NCCL WARN NET/IB : Got completion with error 4, opcode 1, len 21938"],
        ["net_ib.cu:788 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0"],
    ),
    "nccl-sockets": (
        [NCCL + "Channel 00/0 : 3[0] -> 0[0] [receive] via NET/Socket/0"],
        [NCCL + "Using network Socket", NCCL + "Channel 00 : 0 -> 1 via NET/IB/0/GDRDMA"],
    ),
    "nccl-no-rdma-device": (
        [NCCL + "NET/IB : No device found."],
        [NCCL + "NET/IB : Using [0]mlx5_0:1/RoCE [RO]"],
    ),
    "nccl-plugin-failed": (
        ["n:1:1 [0] nccl_net_ofi_init NCCL WARN NET/OFI Initializing plugin failed"],
        [NCCL + "NET/OFI Initializing aws-ofi-nccl 1.21.1"],
    ),
    "nccl-no-gdr": (
        [
            NCCL + "NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f1'",
            NCCL + "Channel 02/0 : 0[0] -> 1[0] [receive] via NET/IB/0",
            NCCL + "Channel 02/0 : 0[0] -> 1[0] [receive] via NET/IBext_v8/1(3)/Shared",
        ],
        [
            NCCL + "Channel 02/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA",
            NCCL + "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'lo'",
        ],
    ),
    "nccl-no-p2p": (
        [NCCL + "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"],
        [NCCL + "Channel 00 : 0[0] -> 1[1] via P2P/IPC"],
    ),
    "nccl-way-disabled": (
        [NCCL + "NCCL_P2P_DISABLE set by environment to 1."],
        [NCCL + "NCCL_P2P_DISABLE set by environment to 0."],
    ),
    "nccl-hca-prefix": (
        [NCCL + "NCCL_IB_HCA set to mlx5_0,mlx5_1"],
        [NCCL + "NCCL_IB_HCA set to =mlx5_0,mlx5_1", NCCL + "NCCL_IB_HCA set to mlx5_10"],
    ),
    "nccl-no-interface": (
        ["n1:1:2 [0] NCCL WARN Bootstrap : no socket interface found"],
        [NCCL + "Bootstrap : Using eth0:10.0.4.51<0>"],
    ),
    "nccl-shared-memory": (
        ["include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv"],
        [NCCL + "Using shared memory"],
    ),
    "gpu-memory-not-registered": (
        ["Couldn't allocate MR with error=14"],
        ["Couldn't allocate MR", "Couldn't allocate MR with error=12"],
    ),
    "memory-not-locked": (
        [
            " Couldn't allocate MR",
            "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        ],
        [
            "NCCL WARN Call to ibv_reg_mr failed with error Bad address",
            "Couldn't allocate MR with error=14",
        ],
    ),
    "nccl-tuner": (
        [NCCL + "NCCL_TUNER_PLUGIN set by environment to libnccl-tuner.so"],
        [NCCL + "NCCL_TUNER_PLUGIN set by environment to none"],
    ),
    "nccl-tests-less-memory": (
        ["# Reducing maxBytes to 28342671360 due to memory limitation"],
        ["# nThread 1 nGpus 1 minBytes 8 maxBytes 28342671360"],
    ),
}

#: It needs a number and a line.
BOTH = "relaxed-ordering-off"


def names(run: Run) -> set[str]:
    return {hint.name for hint in signatures.of_run(run)}


def names_of(line: str) -> set[str]:
    return {hint.name for hint in signatures.of_lines("log", signatures.lines_of(line))}


def test_every_signature_has_its_test() -> None:
    assert {*RUNS, *LINES, BOTH} == set(signatures.load())
    assert len(signatures.load()) >= 25


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_fits_is_found_and_a_near_miss_is_not(name: str) -> None:
    fits, misses = RUNS[name]
    assert name in names(fits)
    assert [names(miss) for miss in misses if name in names(miss)] == []


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_fits_is_found_and_a_near_miss_is_not(name: str) -> None:
    fits, misses = LINES[name]
    assert [line for line in fits if name not in names_of(line)] == []
    assert [line for line in misses if name in names_of(line)] == []


def test_a_number_and_a_line_must_both_fit() -> None:
    off = signatures.lines_of(" PCIe relax order: OFF\n")
    on = signatures.lines_of(" PCIe relax order: ON\n")
    slow, fast = write(250, "400g-roce"), write(391, "400g-roce")
    assert BOTH in names(dataclasses.replace(slow, lines=off))
    assert BOTH not in names(dataclasses.replace(slow, lines=on))
    assert BOTH not in names(dataclasses.replace(fast, lines=off))
    assert BOTH not in names_of(" PCIe relax order: OFF\n")


def test_a_line_is_named_by_its_number_and_without_its_neighbours() -> None:
    (hint,) = signatures.of_lines("log", signatures.lines_of("a\nb\nCouldn't allocate MR \nc\n"))
    assert (hint.place, hint.line) == ("log:3", signatures.Line(3, "Couldn't allocate MR"))


def test_the_surest_hint_comes_first() -> None:
    hints = signatures.of_run(write(13, "200g-roce", active_mtu_bytes=1024, devices=["mlx5_0"]))
    order = [hint.signature.confidence for hint in hints]
    assert order == sorted(order, key=("high", "medium", "low").index)


def test_a_number_of_a_stand_in_fits_nothing() -> None:
    ((number, limit),) = spark(12.74).numbers
    run = dataclasses.replace(
        spark(12.74), numbers=[(dataclasses.replace(number, simulated=True), limit)]
    )
    assert names(run) == set()


def test_the_limit_of_a_check_says_the_rate_of_the_link() -> None:
    """Records of a campaign have no --nic."""
    number = write(13).numbers[0][0]
    assert "spark-power-state" in names(Run("p", [(number, Limit(196.1, "Gb/s", ""))]))
    assert "spark-power-state" not in names(Run("p", [(number, Limit(392.1, "Gb/s", ""))]))


@pytest.mark.parametrize(
    "good",
    [write(391, "400g-roce"), spark(98.04), nccl(390, nics=8), tcp(95), nccl(478, nodes=1)],
)
def test_good_numbers_show_no_fault(good: Run) -> None:
    assert [hint.name for hint in signatures.of_run(good) if hint.signature.kind == "fault"] == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("socket-fallback.txt", {"nccl-sockets", "nccl-plugin-failed", "nccl-no-rdma-device"}),
        ("ib-without-gdr.txt", {"nccl-no-gdr"}),
        ("shm-without-p2p.txt", {"nccl-no-p2p"}),
        ("ib-gdrdma-two-nodes.txt", set()),
        ("nvls-one-node.txt", set()),
        ("mnnvl-gb200.txt", set()),
    ],
)
def test_recorded_logs_show_their_known_causes(log: str, expected: set[str]) -> None:
    assert names_of((LOGS / log).read_text()) == expected


@given(st.floats(0, 1e4), st.sampled_from([None, "100g-roce", "200g-roce", "400g-ib"]), st.text())
def test_any_number_and_any_text_is_answered(value: float, nic: str | None, text: str) -> None:
    signatures.of_run(write(value, nic, devices=[text], gpu=text))
    lines = signatures.lines_of(text)
    assert all(line.text in text for line in lines.values())


@given(st.lists(st.floats(0, 1e3), max_size=12))
def test_at_most_one_size_is_a_dip(values: list[float]) -> None:
    hints = signatures.of_run(nccl(*values, size=MIB))
    assert all(len(hint.measurements) == 1 for hint in hints if hint.name == "nccl-dip")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("metrics: [speed]", "metric 'speed' is unknown"),
        ("metrics: [busbw]\n        value: {least: 5, most: 3}", "least 5 is above most 3"),
        ("metrics: [busbw]\n        value: {}", "expected `least`, `most` or both"),
        ("metrics: [busbw]\n        from_size: big", "size is 'big'"),
        ("line: '('", "is no regular expression"),
        ("tools: [perftest]", "expected `line` alone, or the `metrics`"),
        ("metrics: [busbw]\n        colour: red", "Extra inputs"),
    ],
)
def test_a_wrong_file_is_one_error_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "signatures.yaml"
    path.write_text(
        f"""\
signatures:
  one:
    symptom: s
    cause: c
    kind: fault
    confidence: low
    when:
      - {text}
    confirm: [a]
    next: [b]
    sources: [https://example.com]
"""
    )
    with pytest.raises(ConfigurationError, match=rf"{path}:[0-9]+: ") as caught:
        signatures.load(path)
    assert complaint in str(caught.value)
