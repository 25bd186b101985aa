"""Debug logs of NCCL 2.22 to 2.28, typed by us after what each version's source prints.

Two nodes, two ranks each, two HCAs (one, of each node's ports, where `merged`), and a communicator
that is split off. No outputs of runs: those in tests/data/nccl-log are of 2.21, 2.27, 2.28, 2.30.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.tools import nccl_log

#: The release whose source was read: NVIDIA/nccl, tags vX-1.
VERSIONS = ("2.22.3", "2.23.4", "2.24.3", "2.25.1", "2.26.2", "2.27.3", "2.28.9")

HOSTS = {0: "n1", 1: "n1", 2: "n2", 3: "n2"}


def minor(version: str) -> int:
    return int(version.split(".")[1])


def init(version: str, rank: int, end: str) -> Iterator[str]:
    """Of the job's communicator, and of one that is split from it, as init.cc writes them."""
    comm = f"0x5{rank} rank {rank} nranks 4 cudaDev {rank % 2} nvmlDev {rank % 2} busId 1{rank}000"
    yield f"ncclCommInitRank comm {comm} commId 0x5eed - Init {end}"
    blank = "" if minor(version) >= 23 and end == "START" else " "
    counted = " splitCount 1" if minor(version) >= 24 else ""
    of_22 = " commId 0x5eee" if minor(version) == 22 else ""
    parent = f"parent 0x5{rank}{counted} color 0 key {rank}{of_22}{blank}"
    split = comm.replace("0x5", "0x6", 1)
    yield f"ncclCommSplit comm {split} {parent}- Init {end}"


def devices(version: str, merged: bool) -> Iterator[str]:
    oob = "[RO]; OOB eth0:10.0.0.1<0>"
    if merged and minor(version) <= 23:
        yield f"NET/IB : Using [0]={{[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE}} {oob}"
    else:
        yield f"NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE {oob}"
    if merged and minor(version) >= 24:
        yield "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=400000 ndevs=2"


def lines(version: str, rank: int, merged: bool = False) -> list[str]:
    other, ways = rank ^ 2, "/GDRDMA(PCI)" if minor(version) >= 26 else "/GDRDMA"
    device = (0 if minor(version) <= 23 else 2) if merged else rank % 2
    peer, place = rank ^ 1, f"[{rank % 2}]"
    there, back = f"{rank}{place} -> {other}{place}", f"{other}{place} -> {rank}{place}"
    pxn = ", use ring PXN 0 GDR 1" if minor(version) >= 24 else ""
    nvls = " nvlsRanks 2" if minor(version) >= 27 else ""
    told = [
        f"NCCL version {version}+cuda12.9",
        *devices(version, merged),
        *(["Assigned NET plugin IB to comm"] if minor(version) >= 28 else []),
        "Using network IB",
        *init(version, rank, "START"),
        "MNNVL busId 0x1000 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0",
        f"comm 0x5{rank} rank {rank} nRanks 4 nNodes 2 localRanks 2 localRank {rank % 2} MNNVL 0",
        "2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 1 p2p channels per "
        "peer",
        f"NVLS comm 0x5{rank} headRank {rank % 2} nHeads 2{nvls} buffSize 1048576",
        *init(version, rank, "COMPLETE"),
        f"Channel 00/0 : {there} [send] via NET/IB/{device}{ways}",
        f"Channel 00/0 : {back} [receive] via NET/IB/{device}{ways}/Shared",
        f"Channel 01/0 : {rank}{place} -> {peer}[{peer % 2}] via P2P/CUMEM/read",
        f"Connected all rings{pxn}",
        "Connected all trees",
        *(
            f"comm 0x{n}{rank} rank {rank} nranks 4 cudaDev {rank % 2} busId 1{rank}000 - "
            "Destroy COMPLETE"
            for n in (6, 5)
        ),
    ]
    return [f"{HOSTS[rank]}:{100 + rank}:{200 + rank} [{rank % 2}] NCCL INFO {one}" for one in told]


def log(version: str, rank: int, merged: bool = False) -> str:
    return "".join(f"{line}\n" for line in lines(version, rank, merged))


def logs(version: str, merged: bool = False) -> dict[int, str]:
    return {rank: log(version, rank, merged) for rank in HOSTS}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("merged", [False, True])
def test_a_whole_job_of_each_version_is_read_as_what_it_used(version: str, merged: bool) -> None:
    used = nccl_log.read(logs(version, merged), HOSTS)
    assert used.problems == ()
    assert used.seen == {
        "within_nodes": ("P2P",),
        "between_nodes": ("NET/IB/GDRDMA",),
        "network": ("IB",),
        "collnet": (),
        "nvls": False,
        "mnnvl": False,
        "hcas": {"n1": ("mlx5_0", "mlx5_1"), "n2": ("mlx5_0", "mlx5_1")},
        "nccl_version": f"{version}+cuda12.9",
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cut_log_of_each_version_is_a_problem(version: str) -> None:
    whole = lines(version, 3)
    for kept in range(len(whole)):
        cut = {**logs(version), 3: "".join(f"{line}\n" for line in whole[:kept])}
        assert nccl_log.read(cut, HOSTS).problems, kept


@given(st.sampled_from(VERSIONS), st.integers(0, 3), st.integers(0, 2**31))
def test_a_line_of_any_version_that_is_lost_never_becomes_another_way(
    version: str, rank: int, seed: int
) -> None:
    left = lines(version, rank)
    left.pop(random.Random(seed).randrange(len(left)))
    changed = {**logs(version), rank: "".join(f"{line}\n" for line in left)}
    seen = nccl_log.read(changed, HOSTS).seen
    assert seen["between_nodes"] in ((), ("NET/IB/GDRDMA",)) and not seen["nvls"]


@pytest.mark.parametrize(("one", "other"), [("2.22.3", "2.23.4"), ("2.27.3", "2.28.9")])
def test_two_versions_in_one_job_are_a_problem(one: str, other: str) -> None:
    mixed = {**logs(one), 3: log(other, 3)}
    assert any("different versions" in problem for problem in nccl_log.read(mixed, HOSTS).problems)
