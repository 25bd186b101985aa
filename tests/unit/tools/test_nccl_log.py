"""NCCL's debug logs: what real ones give, no damaged one is believed, and those of rehearsals."""

from __future__ import annotations

import ast
import contextlib
import json
import random
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.lab.replay import debug_log
from railgauge.tools import ParseError, nccl_log
from tests.properties import tries

REPOSITORY = Path(__file__).parents[3]
LOGS = REPOSITORY / "tests" / "data" / "nccl-log"
NAMES = sorted(path.stem for path in LOGS.glob("*.txt"))

QUICK = settings(max_examples=tries(100))
#: Every example reads a whole job.
SLOWER = settings(max_examples=tries(40))


def real(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text(encoding="utf-8")


def by_process(name: str) -> dict[int, str]:
    """The logs of several ranks that one file holds, apart."""
    texts: dict[str, str] = {}
    for line in real(name).splitlines(keepends=True):
        if match := re.match(r"(\S+?:\d+):\d+ ", line):
            texts[match[1]] = texts.get(match[1], "") + line
    ranks = {nccl_log.parse(text).rank: text for text in texts.values()}
    return {rank: text for rank, text in ranks.items() if rank is not None}


# ---- rehearsed jobs --------------------------------------------------------------------------

H100: dict[str, Any] = {
    "nvlink_domain_nodes": 1,
    "nvls": True,
    "hcas": [f"mlx5_{number}" for number in range(8)],
    "link_layer": "RoCE",
    "gdr": True,
    "nccl_version": "2.28.9+cuda13.0",
    "gpu": "NVIDIA H100 80GB HBM3",
}
GB200 = {
    **H100,
    "nvlink_domain_nodes": 18,
    "hcas": ["ibp0", "ibp1", "ibp2", "ibp3"],
    "link_layer": "IB",
    "gpu": "NVIDIA GB200",
}
SPARK = {
    **H100,
    "nvls": False,
    "hcas": ["rocep1s0f0", "roceP2p1s0f0"],
    "gdr": False,
    "gpu": "NVIDIA GB10",
}


def hosts_of(nodes: int, gpus: int) -> dict[int, str]:
    return {rank: f"n{rank // gpus}" for rank in range(nodes * gpus)}


def rehearsed(
    hosts: Mapping[int, str], fabric: dict[str, Any], environment: dict[str, str] | None = None
) -> dict[int, str]:
    texts = {}
    for rank in hosts:
        lines = debug_log.lines(
            rank=rank,
            hosts=list(hosts.values()),
            pid=4000 + rank,
            environment=environment or {},
            fabric=fabric,
        )
        texts[rank] = "".join(f"{line}\n" for line in lines)
    return texts


PAIR = hosts_of(2, 4)
PAIR_LOGS = rehearsed(PAIR, {**H100, "hcas": H100["hcas"][:4]})
PAIR_USED = nccl_log.read(PAIR_LOGS, PAIR)


# ---- one log ---------------------------------------------------------------------------------


def kinds(log: nccl_log.Log) -> set[str]:
    return {connection.kind for connection in log.connections}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvls-one-node", {"P2P"}),
        ("ib-gdrdma-two-nodes", {"P2P", "NET/IB/GDRDMA"}),
        ("ib-gdrdma-one-rank-a-node", {"NET/IB/GDRDMA"}),
        ("ib-without-gdr", {"NET/IB"}),
        ("socket-fallback", {"NET/Socket"}),
        ("shm-without-p2p", {"SHM"}),
        ("mnnvl-gb200", {"P2P"}),
        ("mnnvl-two-trays", set()),
        ("plugin-libfabric", {"P2P", "NET/AWS Libfabric/GDRDMA"}),
        ("hang-merged-nics", {"NET/IB"}),
        ("abort-cuda-failure", set()),
        ("torn-by-other-ranks", set()),
    ],
)
def test_real_logs_give_the_kinds_of_their_connections(name: str, expected: set[str]) -> None:
    log = nccl_log.parse(real(name))
    assert kinds(log) == expected
    assert log.unread == ()


def test_every_real_log_names_its_source() -> None:
    assert all(real(name).startswith("# source: ") for name in NAMES)


def test_a_rank_and_its_communicator_are_read() -> None:
    log = nccl_log.parse(real("nvls-one-node"))
    assert (log.rank, log.ranks) == (2, 8)
    assert log.initialised


def test_nvls_is_known_by_its_channels() -> None:
    text = real("nvls-one-node")
    assert nccl_log.parse(text).nvls
    assert not nccl_log.parse(text.replace("16 nvls channels", "0 nvls channels")).nvls


def test_nvls_that_is_only_available_is_not_set_up() -> None:
    lines = real("mnnvl-two-trays").splitlines(keepends=True)
    assert nccl_log.parse("".join(lines)).nvls
    assert not nccl_log.parse("".join(x for x in lines if "NVLS comm" not in x)).nvls


def test_a_loaded_plugin_is_not_the_network_in_use() -> None:
    log = nccl_log.parse(real("socket-fallback"))
    assert log.networks == ("Socket",)
    assert log.warnings[1] == "NET/OFI Initializing plugin failed"


def test_a_split_communicator_with_the_same_ranks_is_no_second_rank() -> None:
    log = nccl_log.parse(real("socket-fallback"))
    assert (log.rank, log.ranks, log.initialised) == (0, 4, True)


def test_a_second_communicator_that_is_not_complete_is_not_initialised() -> None:
    text = real("socket-fallback")
    begun = text[: text.index("llama-3-8b-node-0-0:152:507 [0] NCCL INFO ncclCommSplit")]
    assert nccl_log.parse(begun).initialised
    complete = "parent 0x562b2c1973d0 splitCount 1 color 2003953581 key 0 - Init COMPLETE"
    assert not nccl_log.parse(text.replace(complete, complete[:-1])).initialised


def test_devices_are_named_in_nccls_order() -> None:
    log = nccl_log.parse(by_process("ib-without-gdr")[1])
    assert [log.names("IB", number) for number in (0, 1)] == [("rocep1s0f1",), ("roceP2p1s0f1",)]


def test_merged_nics_are_taken_apart() -> None:
    log = nccl_log.parse(real("hang-merged-nics"))
    assert log.names("IBext_v8", 0) == ("mlx5_2", "mlx5_3")
    assert log.names("IBext_v8", 1) == ("mlx5_0", "mlx5_1")


IB = "n0:1:1 [0] NCCL INFO Using network IB\nn0:1:1 [0] NCCL INFO NET/IB : "


@pytest.mark.parametrize(
    ("text", "number", "expected"),
    [
        # ports, and what was made of them later
        ("Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.1<0>\n", 1, ("mlx5_1",)),
        ("Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.1<0>\n", 2, ()),
        (
            "Made virtual device [2] name=mlx5_0+mlx5_1 speed=200000 ndevs=2 rail=-1 plane=16385\n",
            2,
            ("mlx5_0", "mlx5_1"),
        ),
        ("GPU Direct RDMA Enabled for HCA 2 'mlx5_4+mlx5_5'\n", 2, ("mlx5_4", "mlx5_5")),
        # one HCA with two ports
        ("Using [0]={[0] mlx4_0:1/IB, [1] mlx4_0:2/IB} ; OOB ib0:10.0.0.1<0>\n", 0, ("mlx4_0",)),
        # a merged pair takes one place, whatever number its neighbour has
        ("Using [0]={[0] a:1/IB, [1] b:1/IB} [2]c:1/IB [RO]; OOB x:1<0>\n", 1, ("c",)),
        ("Using [0]mlx5_0:1:3:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n", 0, ("mlx5_0",)),
        ("Using [0]ibp0:1/IB/SHARP [1]ibp1:1/IB/SHARP [RO]; OOB eth0:1<0>\n", 1, ("ibp1",)),
        # data direct: the same HCA by a second way
        ("Using [0]mlx5_0_dma:1/IB [RO]; OOB eth0:1<0>\n", 0, ("mlx5_0",)),
        ("Using [RO]; OOB eth0:10.0.4.51<0>\n", 0, ()),
        # a number that is missing
        ("Using [0] [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.4.51<0>\n", 0, ()),
        # contradictory
        (
            "Using [0]mlx5_0:1/IB ; OOB a:1<0>\nn0:1:1 [0] NCCL INFO NET/IB : "
            "Using [0]mlx5_7:1/IB ; OOB a:1<0>\n",
            0,
            (),
        ),
    ],
)
def test_names_behind_device_numbers(text: str, number: int, expected: tuple[str, ...]) -> None:
    assert nccl_log.parse(IB + text).names("IB", number) == expected


def connection(path: str, side: str = "") -> nccl_log.Connection | None:
    text = f"n0:1:1 [0] NCCL INFO Channel 03/1 : 0[0] -> 9[1]{side} via {path}\n"
    found = nccl_log.parse(text).connections
    return found[0] if found else None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("P2P/IPC", "P2P"),
        ("P2P/IPC/read", "P2P"),
        ("P2P/CUMEM", "P2P"),
        ("P2P/CUMEM/read", "P2P"),
        ("P2P/CUMEM/CE", "P2P"),
        ("P2P/MNNVL", "P2P"),
        ("P2P/direct pointer", "P2P"),
        ("P2P/direct pointer/read", "P2P"),
        ("P2P/indirect/2[1b000]", "P2P"),
        ("SHM/direct/direct", "SHM"),
        ("SHM/CE/direct", "SHM"),
        ("P2P/direct pointer comm 0x56af43b3a4e0 nRanks 04", "P2P"),
    ],
)
def test_paths_within_a_node(path: str, kind: str) -> None:
    found = connection(path)
    assert found is not None
    assert found.kind == kind
    assert (found.channel, found.index, found.from_rank, found.to_rank) == (3, 1, 0, 9)


@pytest.mark.parametrize(
    ("path", "kind", "device", "proxy"),
    [
        ("NET/IB/0", "NET/IB", 0, None),
        ("NET/IB/12/GDRDMA", "NET/IB/GDRDMA", 12, None),
        ("NET/IB/3(5)/GDRDMA", "NET/IB/GDRDMA", 3, 5),
        ("NET/IB/3(5)/GDRDMA/Shared", "NET/IB/GDRDMA", 3, 5),
        ("NET/IB/1/GDRDMA(PCI)", "NET/IB/GDRDMA", 1, None),
        ("NET/IB/1/Shared", "NET/IB", 1, None),
        ("NET/Socket/0", "NET/Socket", 0, None),
        ("NET/IBext_v8/2/GDRDMA", "NET/IB/GDRDMA", 2, None),
        ("NET/IBext/2(1)", "NET/IB", 2, 1),
        ("NET/IBextra/2/GDRDMA", "NET/IBextra/GDRDMA", 2, None),
        ("NET/NCCL RDMA Plugin v10/0", "NET/IB", 0, None),
        ("NET/Libfabric/0/GDRDMA/flush=None", "NET/Libfabric/GDRDMA", 0, None),
    ],
)
def test_paths_through_a_network(path: str, kind: str, device: int, proxy: int | None) -> None:
    found = connection(path, " [send]")
    assert found is not None
    assert (found.kind, found.device, found.proxy_rank) == (kind, device, proxy)


@pytest.mark.parametrize(
    "path",
    [
        "NET/IB/3/GDRDM",
        "NET/IB/3/GDRDMA/unheard-of",
        "NET/IB",
        "P2P/CUME",
        "P2P/common device",
        "C2C",
        "P2P/IPCn0:2:2 [1]",
    ],
)
def test_a_path_that_is_not_known_is_no_guess(path: str) -> None:
    side = " [send]" if path.startswith("NET") else ""
    text = f"n0:1:1 [0] NCCL INFO Channel 03/1 : 0[0] -> 9[1]{side} via {path}\n"
    log = nccl_log.parse(text)
    assert log.connections == ()
    assert len(log.unread) == 1


def test_a_network_path_without_its_side_is_not_believed() -> None:
    assert connection("NET/IB/0/GDRDMA") is None


def collnet(path: str) -> nccl_log.Log:
    return nccl_log.parse(f"n0:1:1 [0] NCCL INFO CollNet 00/1 : 6 [receive] via {path}\n")


def test_collnet_and_sharp() -> None:
    log = collnet("COLLNET/SHARP/1/GDRDMA(PCI)")
    assert log.unread == ()
    assert log.collnets == (nccl_log.CollNet(0, 6, "receive", "SHARP", 1, gdr=True, index=1),)
    assert log.collnets[0].kind == "COLLNET"


@pytest.mark.parametrize("path", ["COLLNET/SHARP", "COLLNET/SHARP/1/GDR", "COLLN", "NET/IB/0"])
def test_a_collnet_line_that_is_not_whole_is_no_guess(path: str) -> None:
    log = collnet(path)
    assert (log.collnets, len(log.unread)) == ((), 1)


def test_the_plugins_own_name_is_kept() -> None:
    log = nccl_log.parse(real("hang-merged-nics"))
    assert {connection.network for connection in log.connections} == {"IBext_v8"}
    assert log.networks == ("IBext_v8",)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("Init COMPLETE",), False),
        (("Init COMPLETE", "Destroy COMPLETE"), True),
        (("Destroy COMPLETE",), True),
        # the same pointer, for a second communicator
        (("Init COMPLETE", "Destroy COMPLETE", "Init COMPLETE"), False),
    ],
)
def test_a_log_is_whole_where_every_communicator_is_destroyed(
    lines: tuple[str, ...], expected: bool
) -> None:
    communicator = "n0:1:1 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 busId 18000 -"
    text = "".join(f"{communicator} {line}\n" for line in lines)
    assert nccl_log.parse(text).destroyed == expected


def test_the_version_of_a_bare_line() -> None:
    start = "[1,0]<stdout>:NCCL version 2.18.5+cuda12.2\n"
    assert nccl_log.parse(start).version == "2.18.5+cuda12.2"
    assert nccl_log.parse("NCCL version 2.19.3+cuda12.3\n").version == "2.19.3+cuda12.3"


def test_the_version_that_another_program_prints_is_not_that_of_nccl() -> None:
    text = "vLLM found NCCL version 2.21.5\nn0:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
    assert nccl_log.parse(text).version == "2.28.9+cuda13.0"


def test_lines_that_another_rank_has_cut_in_two_are_not_believed() -> None:
    log = nccl_log.parse(real("torn-by-other-ranks"))
    # Only what stands behind the last prefix of a line is whole.
    assert log.seats == (nccl_log.Seat(2, 8),)


def test_a_line_without_its_end_is_not_believed() -> None:
    line = "n0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"
    torn = nccl_log.parse(f"NCCL version 2.28.9+cuda13.0\n{line}")
    assert (torn.connections, torn.unread) == ((), ())
    assert kinds(nccl_log.parse(f"{line}\n")) == {"NET/IB"}


def test_attention_is_a_warning() -> None:
    line = (
        "n0:1:1 [0] init.cc:512 (fillInfo) NCCL ATTN MNNVL busId 0x801000 NVLink fabric health "
        "reports DEGRADED_BANDWIDTH (healthMask 0x1)\n"
    )
    assert "DEGRADED_BANDWIDTH" in nccl_log.parse(line).warnings[0]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "no such file\n", "NCCL INFOrmation\n", "# SIMULATED"]
)
def test_a_text_without_nccl_is_no_log(text: str) -> None:
    with pytest.raises(ParseError, match="found no whole line of NCCL, expected a log"):
        nccl_log.parse(text)


# ---- a job -----------------------------------------------------------------------------------


def test_two_sparks_use_both_hcas_without_gpudirect() -> None:
    logs = by_process("ib-without-gdr")
    used = nccl_log.read(logs, {0: "spark-fb97", 1: "spark-4440"})
    assert used == nccl_log.Used(
        seen={
            "within_nodes": (),
            "between_nodes": ("NET/IB",),
            "network": ("IB",),
            "collnet": (),
            "nvls": False,
            "mnnvl": False,
            "hcas": {
                "spark-4440": ("roceP2p1s0f1", "rocep1s0f1"),
                "spark-fb97": ("roceP2p1s0f1", "rocep1s0f1"),
            },
            "nccl_version": "2.28.9+cuda13.0",
        },
        problems=(),
        simulated=False,
    )


def test_a_fallback_to_shared_memory_is_seen() -> None:
    used = nccl_log.read(by_process("shm-without-p2p"), {0: "ws", 1: "ws"})
    assert used.seen["within_nodes"] == ("SHM",)
    assert used.problems == ("no rank's log has the version of NCCL",)


def test_mnnvl_within_a_single_node_is_not_mnnvl() -> None:
    hosts = hosts_of(1, 4)
    logs = rehearsed(hosts, GB200, {"NCCL_MNNVL_ENABLE": "1"})
    assert nccl_log.parse(logs[0]).mnnvl
    used = nccl_log.read(logs, hosts)
    assert (used.seen["mnnvl"], used.seen["within_nodes"], used.problems) == (False, ("P2P",), ())


def test_domains_that_end_at_the_node_are_not_mnnvl() -> None:
    # Forced on where every tray is a clique of its own.
    hosts = hosts_of(2, 4)
    logs = rehearsed(hosts, {**GB200, "nvlink_domain_nodes": 2})
    alone = {
        rank: text.replace("cliqueSize 8", "cliqueSize 4").replace("localRanks 8", "localRanks 4")
        for rank, text in logs.items()
    }
    assert nccl_log.read(logs, hosts).seen["mnnvl"]
    assert not nccl_log.read(alone, hosts).seen["mnnvl"]


def test_a_domain_smaller_than_the_job_uses_nvlink_and_nics() -> None:
    hosts = hosts_of(4, 4)
    used = nccl_log.read(rehearsed(hosts, {**GB200, "nvlink_domain_nodes": 2}), hosts)
    assert used.seen["between_nodes"] == ("MNNVL", "NET/IB/GDRDMA")
    assert used.seen["mnnvl"]
    assert set(used.seen["hcas"].values()) == {("ibp0", "ibp1", "ibp2", "ibp3")}
    assert used.problems == ()


def test_a_proxy_sends_through_the_hca_of_its_own_node() -> None:
    text = PAIR_LOGS[3].replace("via NET/IB/0(0)/", "via NET/IB/0(4)/")
    assert text != PAIR_LOGS[3]
    other = {
        **PAIR_LOGS,
        3: text,
        4: PAIR_LOGS[4].replace("[0]mlx5_0:1/RoCE", "[0]mlx5_9:1/RoCE"),
    }
    assert "mlx5_9" in nccl_log.read(other, PAIR).seen["hcas"]["n1"]


def test_a_rank_alone_connects_nothing() -> None:
    hosts = hosts_of(1, 1)
    used = nccl_log.read(rehearsed(hosts, SPARK), hosts)
    assert (used.seen["within_nodes"], used.seen["between_nodes"]) == ((), ())
    assert used.problems == ()


def test_what_was_seen_can_be_stored() -> None:
    assert set(json.loads(json.dumps(PAIR_USED.seen))) == {
        "within_nodes",
        "between_nodes",
        "network",
        "collnet",
        "nvls",
        "mnnvl",
        "hcas",
        "nccl_version",
    }


def changed(rank: int, old: str, new: str) -> dict[int, str]:
    assert old in PAIR_LOGS[rank]
    return {**PAIR_LOGS, rank: PAIR_LOGS[rank].replace(old, new)}


def without(rank: int, words: str) -> dict[int, str]:
    lines = PAIR_LOGS[rank].splitlines(keepends=True)
    return {**PAIR_LOGS, rank: "".join(line for line in lines if words not in line)}


INFO = "n0:4001:4001 [1] NCCL INFO"


@pytest.mark.parametrize(
    ("logs", "problem"),
    [
        ({r: t for r, t in PAIR_LOGS.items() if r != 5}, "rank 5 on n1: no log"),
        ({**PAIR_LOGS, 5: ""}, "rank 5 on n1: its log: whole output: found no whole line of NCCL"),
        ({**PAIR_LOGS, 8: PAIR_LOGS[7]}, "there is a log of rank 8, expected ranks 0 to 7"),
        ({**PAIR_LOGS, 5: PAIR_LOGS[4]}, "rank 5 on n1: the log is that of rank 4"),
        (
            {**PAIR_LOGS, 5: PAIR_LOGS[4] + PAIR_LOGS[5]},
            "rank 5 on n1: the log is of several communicators or ranks: rank 4 of 8, rank 5 of 8",
        ),
        (
            {**PAIR_LOGS, 0: rehearsed(hosts_of(1, 1), SPARK)[0]},
            "rank 0 on n0: the communicator has 1 ranks, expected 8",
        ),
        (
            changed(1, "2.28.9+cuda13.0", "2.27.3+cuda12.9"),
            "different versions of NCCL: 2.28.9+cuda13.0 (ranks 0, 2-7); 2.27.3+cuda12.9 (ranks 1)",
        ),
        (without(1, "Init COMPLETE"), "rank 1 on n0: NCCL did not initialise (no Init COMPLETE)"),
        (
            changed(1, "Using network IB", "Using network Socket"),
            "different networks: IB (ranks 0-7); Socket (ranks 1)",
        ),
        (
            changed(1, "Connected all trees\n", f"a\n{INFO[:-4]}WARN Cuda failure 1\n"),
            "rank 1 on n0: NCCL warns: Cuda failure 1",
        ),
        (
            {r: f"{t}{INFO[:-4]}WARN Cuda failure 1\n" for r, t in PAIR_LOGS.items()},
            "ranks 0-7: NCCL warns: Cuda failure 1",
        ),
        (
            changed(1, "Channel 00/0 : 1[1] -> 2[2]", "Channel 00/0 : 1[1] -> 99[2]"),
            "rank 1 on n0: a connection with rank 99, which has no node",
        ),
        (
            changed(1, "Channel 00/0 : 1[1] -> 2[2]", "Channel 00/0 : 3[3] -> 2[2]"),
            "rank 1 on n0: the log has a connection of rank 3 (3 to 2)",
        ),
        (
            changed(1, "via P2P/CUMEM", "via P2P/CU"),
            "rank 1 on n0: a connection that is not understood: "
            "'Channel 00/0 : 1[1] -> 2[2] via P2P/CU'",
        ),
        (
            without(4, "[receive] via NET/IB/0"),
            "rank 4 on n1: the log lacks network connections that the other end has, "
            "4 in all (rank 3 to 4 on channel 0): it is cut",
        ),
        (changed(1, "16 nvls channels", "0 nvls channels"), "NVLS on ranks 0, 2-7 only"),
        (without(1, "Destroy COMPLETE"), "rank 1 on n0: the log is cut: no Destroy COMPLETE"),
        (
            without(1, "Connected all rings"),
            "rank 1 on n0: the log is cut: no 'Connected all rings', which others have",
        ),
        (without(1, " via "), "rank 1 on n0: the log has no connection, where others have some"),
        (
            {**PAIR_LOGS, 1: f"{PAIR_LOGS[1]}{INFO} CollNet 00/0 : 2 [send] via COLLNET/SHARP/0\n"},
            "rank 1 on n0: the log has a CollNet connection of rank 2",
        ),
        (without(1, "# SIMULATED"), "a simulation on ranks 0, 2-7 only"),
        (
            changed(1, "- Destroy COMPLETE", "- Abort COMPLETE"),
            "rank 1 on n0: the communicator was aborted",
        ),
        (
            changed(1, "nNodes 2", "nNodes 1"),
            "rank 1 on n0: NCCL counts nodes: 1, expected 2",
        ),
        (
            changed(0, "[0]mlx5_0:1/RoCE", "[0]"),
            "rank 0 on n0: the log does not name IB device 0, which connects nodes; "
            "NCCL_DEBUG_SUBSYS=INIT,ENV,NET makes NCCL name merged ones",
        ),
    ],
)
def test_contradictions_and_gaps_are_problems(logs: dict[int, str], problem: str) -> None:
    problems = nccl_log.read(logs, PAIR).problems
    assert any(found.startswith(problem) for found in problems), problems


GB200_PAIR = rehearsed(PAIR, GB200)


def cut_after(logs: Mapping[int, str], ranks: Iterable[int], words: str) -> dict[int, str]:
    def cut(text: str) -> str:
        return text[: text.index("\n", text.index(words)) + 1]

    chosen = set(ranks)
    return {rank: cut(text) if rank in chosen else text for rank, text in logs.items()}


def test_logs_cut_after_init_are_a_problem_of_each_rank() -> None:
    used = nccl_log.read(cut_after(GB200_PAIR, range(2, 8), "Init COMPLETE"), PAIR)
    # What was seen is the same: it proves nothing.
    whole = nccl_log.read(GB200_PAIR, PAIR)
    assert used.seen["between_nodes"] == whole.seen["between_nodes"]
    assert whole.problems == ()
    assert "ranks 2-7: the log is cut: no Destroy COMPLETE, which others have" in used.problems
    assert any(p.startswith("ranks 2-7: the log has no connection") for p in used.problems)


def test_a_log_cut_among_its_connections_is_a_problem() -> None:
    used = nccl_log.read(cut_after(GB200_PAIR, [5], " via P2P/MNNVL"), PAIR)
    assert "rank 5 on n1: the log is cut: no Destroy COMPLETE, which others have" in used.problems


@SLOWER
@given(st.sets(st.sampled_from(sorted(PAIR)), min_size=1, max_size=7), st.data())
def test_some_logs_that_are_cut_anywhere_are_a_problem(
    ranks: set[int], data: st.DataObject
) -> None:
    logs = dict(GB200_PAIR)
    for rank in ranks:
        logs[rank] = logs[rank][: data.draw(st.integers(0, len(logs[rank]) - 1))]
    assert nccl_log.read(logs, PAIR).problems


def test_logs_of_2_30_lack_the_end_and_still_show_a_cut() -> None:
    logs = rehearsed(PAIR, {**GB200, "nccl_version": "2.30.7+cuda13.2"})
    assert "Destroy COMPLETE" not in logs[0]
    assert nccl_log.read(logs, PAIR).problems == ()
    problems = nccl_log.read(cut_after(logs, [5], " via P2P/MNNVL"), PAIR).problems
    assert "rank 5 on n1: the log is cut: no 'Connected all rings', which others have" in problems


def test_logs_of_2_30_have_the_end_where_it_is_asked_for() -> None:
    fabric = {**GB200, "nccl_version": "2.30.7+cuda13.2"}
    logs = rehearsed(PAIR, fabric, {"NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,DESTROY"})
    assert all(nccl_log.parse(text).destroyed for text in logs.values())


def test_a_rank_that_only_receives_logs_nothing() -> None:
    # gather within a node: every rank sends to the root, and no ring is connected
    hosts = hosts_of(1, 3)
    logs = strip_connections(strip_connections(rehearsed(hosts, H100), " via "), "Connected all")
    for rank in (1, 2):
        sent = f"n0:1:1 [0] NCCL INFO Channel 00/1 : {rank}[{rank}] -> 0[0] via P2P/CUMEM\n"
        logs[rank] = logs[rank].replace("n0:", f"{sent}n0:", 1)
    assert nccl_log.read(logs, hosts).problems == ()
    problems = nccl_log.read(strip_connections(logs, "Destroy"), hosts).problems
    assert len(problems) == 1
    assert problems[0].startswith("rank 0 on n0: the log has no connection, where others have some")


@pytest.mark.parametrize("name", ["IBext_v8", "IBext_v10", "NCCL RDMA Plugin v10"])
def test_nvidias_plugin_is_ib_under_its_own_name(name: str) -> None:
    logs = {
        rank: text.replace("NET/IB/", f"NET/{name}/").replace("network IB", f"network {name}")
        for rank, text in PAIR_LOGS.items()
    }
    used = nccl_log.read(logs, PAIR)
    assert used.problems == ()
    assert used.seen == {**PAIR_USED.seen, "network": (name,)}


def test_a_plugin_on_some_ranks_only_is_a_problem() -> None:
    problems = nccl_log.read(
        changed(1, "Using network IB", "Using network IBext_v8"), PAIR
    ).problems
    assert "different networks: IB (ranks 0-7); IBext_v8 (ranks 1)" in problems


def with_collnet(logs: Mapping[int, str], ranks: Iterable[int], gdr: str) -> dict[int, str]:
    found = dict(logs)
    for rank in ranks:
        line = f"{INFO} CollNet 00/0 : {rank} [send] via COLLNET/SHARP/0{gdr}\n"
        found[rank] = f"{line}{found[rank]}"
    return found


def test_collnet_hides_no_other_way_between_nodes() -> None:
    used = nccl_log.read(with_collnet(PAIR_LOGS, [0, 4], ""), PAIR)
    assert used.problems == ()
    assert used.seen == {**PAIR_USED.seen, "collnet": ("SHARP",)}


def test_collnet_alone_is_the_way_between_nodes() -> None:
    alone = with_collnet(strip_connections(PAIR_LOGS, "NET/IB/"), [0, 4], "/GDRDMA")
    used = nccl_log.read(alone, PAIR)
    assert used.problems == ()
    assert used.seen["between_nodes"] == ("COLLNET",)
    assert used.seen["collnet"] == ("SHARP/GDRDMA",)


def test_collnet_on_one_node_connects_no_nodes() -> None:
    alone = with_collnet(strip_connections(PAIR_LOGS, "NET/IB/"), [0], "/GDRDMA")
    used = nccl_log.read(alone, PAIR)
    assert used.problems == ("no connection between nodes in the logs of n1",)
    assert used.seen["between_nodes"] == ()


ADVICE = (
    "NUMA auto balancing enabled which can lead to variability in the NCCL performance! Disable by "
    '"sudo sysctl kernel.numa_balancing=0"'
)


@pytest.mark.parametrize(
    "advice",
    [
        ADVICE,
        # What a subnet manager tells all ports: NCCL 2.18 to 2.21, 2.23 and later (net_ib.cc,
        # net_ib/common.cc)
        "NET/IB : mlx5_0:1 Got async event : client reregistration",
        "NET/IB : mlx5_1:1 Got non-fatal async event: client reregistration(17)",
        "NET/IB : mlx5_1:1 Got non-fatal async event: SM change(13)",
        "NET/IB : mlx5_1:1 GID table changed",
        "NET/IB : mlx5_1:1 unknown event type (18)",
        "NET/OFI Could not find ncclGetVersion symbol",
    ],
)
def test_advice_is_no_problem(advice: str) -> None:
    logs = {r: f"{t}n0:1:1 [0] init.cc:9 NCCL WARN {advice}\n" for r, t in PAIR_LOGS.items()}
    assert nccl_log.read(logs, PAIR).problems == ()


@pytest.mark.parametrize(
    "event",
    [
        "NET/IB : mlx5_0:1 Got async event : port error",
        "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)",
        "NET/IB : mlx5_1:1 async fatal event on QP (0x7f): local catastrophic error(7)",
        "NET/IB : mlx5_1:1 unknown event type (19)",
    ],
)
def test_what_breaks_a_port_is_a_problem(event: str) -> None:
    more = f"n0:1:1 [0] net_ib.cc:95 NCCL WARN {event}\n"
    used = nccl_log.read({**PAIR_LOGS, 1: PAIR_LOGS[1] + more}, PAIR)
    assert used.problems == (f"rank 1 on n0: NCCL warns: {event}",)


def test_advice_hides_no_warning() -> None:
    more = f"n0:1:1 [0] NCCL WARN {ADVICE}\nn0:1:1 [0] NCCL WARN Cuda failure 1\n"
    used = nccl_log.read({**PAIR_LOGS, 1: PAIR_LOGS[1] + more}, PAIR)
    assert used.problems == ("rank 1 on n0: NCCL warns: Cuda failure 1",)


def test_a_good_job_has_no_problems() -> None:
    assert PAIR_USED.problems == ()


def strip_connections(logs: Mapping[int, str], words: str) -> dict[int, str]:
    return {
        rank: "".join(x for x in t.splitlines(keepends=True) if words not in x)
        for rank, t in logs.items()
    }


def test_several_ranks_without_any_connection() -> None:
    problems = nccl_log.read(strip_connections(PAIR_LOGS, " via "), PAIR).problems
    assert len(problems) == 1
    assert problems[0].startswith("no rank's log has a connection: the tool used none")


def test_several_nodes_without_a_connection_between_them() -> None:
    problems = nccl_log.read(strip_connections(PAIR_LOGS, "NET/"), PAIR).problems
    assert problems == ("no rank's log has a connection between nodes",)


def test_ranks_of_two_nodes_that_are_one_to_nccl() -> None:
    hosts = hosts_of(1, 4)
    logs = rehearsed(hosts, H100)
    used = nccl_log.read(logs, {0: "n0", 1: "n0", 2: "n1", 3: "n1"})
    assert any(
        "P2P/CUMEM cannot reach from n0 to n1: do they share a host name or NCCL_HOSTID?" in found
        for found in used.problems
    )


def test_no_ranks_at_all_are_a_problem() -> None:
    used = nccl_log.read({}, {})
    assert used.problems == ("no rank is expected",)
    assert (used.seen["nvls"], used.seen["mnnvl"]) == (False, False)


def test_one_missing_log_leaves_nvls_and_mnnvl_unproved() -> None:
    hosts = hosts_of(2, 4)
    logs = rehearsed(hosts, GB200)
    assert nccl_log.read(logs, hosts).seen["mnnvl"]
    del logs[7]
    seen = nccl_log.read(logs, hosts).seen
    assert (seen["nvls"], seen["mnnvl"]) == (False, False)


# ---- damage ----------------------------------------------------------------------------------

TEXTS = [*(real(name) for name in NAMES), PAIR_LOGS[0], PAIR_LOGS[5]]
SNIPPETS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "NCCL INFO ",
            "NCCL WARN ",
            " via NET/IB/0/GDRDMA",
            " - Init COMPLETE\n",
            "Channel 00/0 : 0[0] -> 99999999999999999999[0] via P2P/IPC\n",
            "NET/IB : Using [0]={[0] a:1/IB} [0]={}",
            "rank " + "9" * 5000 + " nranks 2 ",
            "\x00",
            "\n",
        ]
    ),
)


@QUICK
@given(st.sampled_from(TEXTS), st.data())
def test_no_mutation_crashes(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 200)))
        text = text[:start] + data.draw(SNIPPETS) + text[end:]
    with contextlib.suppress(ParseError):
        nccl_log.parse(text)
    assert nccl_log.last_words_of_all({0: text}).isprintable()
    nccl_log.read({**PAIR_LOGS, 0: text}, PAIR)


@QUICK
@given(st.sampled_from(sorted(PAIR)), st.data())
def test_a_log_cut_before_its_end_of_init_is_never_initialised(
    rank: int, data: st.DataObject
) -> None:
    text = PAIR_LOGS[rank]
    end = text.index("Init COMPLETE") + len("Init COMPLETE")
    first_line = text.index("\n", text.index("NCCL INFO ")) + 1
    cut = text[: data.draw(st.integers(first_line, end))]
    assert not nccl_log.parse(cut).initialised


@SLOWER
@given(st.sampled_from(sorted(PAIR)), st.data())
def test_a_cut_log_shows_nothing_that_the_whole_one_does_not(
    rank: int, data: st.DataObject
) -> None:
    text = PAIR_LOGS[rank]
    cut = text[: data.draw(st.integers(0, len(text)))]
    used = nccl_log.read({**PAIR_LOGS, rank: cut}, PAIR)
    for key in ("within_nodes", "between_nodes"):
        assert set(used.seen[key]) <= set(PAIR_USED.seen[key])
    for node, names in used.seen["hcas"].items():
        assert set(names) <= set(PAIR_USED.seen["hcas"][node])


@SLOWER
@given(st.randoms(use_true_random=False))
def test_the_order_of_connections_does_not_matter(order: random.Random) -> None:
    logs = {}
    for rank, text in PAIR_LOGS.items():
        lines = text.splitlines(keepends=True)
        places = [n for n, line in enumerate(lines) if " via " in line]
        moved = order.sample(places, len(places))
        for old, new in zip(places, moved, strict=True):
            lines[old] = text.splitlines(keepends=True)[new]
        logs[rank] = "".join(lines)
    used = nccl_log.read(logs, PAIR)
    assert used.seen == PAIR_USED.seen
    assert used.problems == ()


@SLOWER
@given(st.sampled_from(sorted(PAIR)), st.data())
def test_a_network_connection_that_one_end_lacks_is_a_problem(
    rank: int, data: st.DataObject
) -> None:
    lines = PAIR_LOGS[rank].splitlines(keepends=True)
    over_net = [n for n, line in enumerate(lines) if "via NET/" in line]
    del lines[data.draw(st.sampled_from(over_net))]
    used = nccl_log.read({**PAIR_LOGS, rank: "".join(lines)}, PAIR)
    assert any("lacks network connections" in problem for problem in used.problems)


@SLOWER
@given(st.sets(st.sampled_from(["NET/IB", "Using network", "HCA", "P2P", "[send]", "COMPLETE"])))
def test_lines_taken_away_never_become_another_network(words: Iterable[str]) -> None:
    logs: Mapping[int, str] = PAIR_LOGS
    for word in words:
        logs = strip_connections(logs, word)
    used = nccl_log.read(logs, PAIR)
    assert set(used.seen["between_nodes"]) <= {"NET/IB/GDRDMA"}
    # Without P2P nothing is known of the ways within nodes, which NVLS may replace.
    assert used.problems or not set(words) - {"HCA", "P2P"}


@SLOWER
@given(st.lists(st.tuples(st.integers(0, 10**6), st.text(max_size=30)), max_size=8))
def test_lines_of_other_programs_do_no_harm(foreign: list[tuple[int, str]]) -> None:
    lines = PAIR_LOGS[2].splitlines()
    for place, text in foreign:
        clean = text.replace("\n", " ").replace("NCCL", "").removeprefix("#")
        lines.insert(place % len(lines), clean)
    used = nccl_log.read({**PAIR_LOGS, 2: "".join(f"{line}\n" for line in lines)}, PAIR)
    assert used == PAIR_USED


# ---- last words ------------------------------------------------------------------------------


def last_word(text: str) -> str:
    """What a report of a hang says of a job of one rank."""
    return nccl_log.last_words_of_all({0: text})


def test_last_words_prefer_warnings() -> None:
    words = last_word(real("hang-merged-nics"))
    assert words == "rank 0: NCCL WARN socketFinalizeAccept: wrong type 3 != 4"


def test_last_words_also_of_a_torn_line() -> None:
    text = "n0:1:1 [0] NCCL INFO fine\nn0:1:1 [0] a.cc:1 NCCL WARN Cuda fail"
    assert last_word(text) == "rank 0: NCCL WARN Cuda fail"


def test_last_words_of_another_program_are_none() -> None:
    assert last_word("Segmentation fault\n") == "rank 0: nothing of NCCL"


def test_last_words_can_be_printed() -> None:
    words = last_word("n0:1:1 [0] a.cc:1 NCCL WARN \x1b[31mred\x07 " + "x" * 1000)
    assert words.isprintable()
    assert len(words) < 340


@QUICK
@given(
    st.sampled_from(
        ["KEY", "api_key", "TOKEN", "HF_TOKEN", "password", "Passwd", "MY_SECRET", "AUTH_COOKIE"]
    ),
    st.sampled_from(["=", ": ", " = ", '="', " set by environment to ", " set to ", '": "']),
    st.text(alphabet="abcdefXYZ0123456789+/_-", min_size=6, max_size=40),
    st.sampled_from(["INFO", "WARN"]),
)
def test_last_words_never_hold_a_secret(name: str, sign: str, value: str, level: str) -> None:
    secret = f"s3cr3t{value}"
    text = f"n0:1:1 [0] NCCL {level} NCCL_X_{name}{sign}{secret}\n"
    assert "s3cr3t" not in last_word(text)
    assert all("s3cr3t" not in warning for warning in nccl_log.parse(text).warnings)


@pytest.mark.parametrize(
    "line", ["via https://me:s3cr3t@host/x", "Authorization: Bearer s3cr3ts3cr3ts3cr3t"]
)
def test_last_words_hold_no_credentials_of_addresses(line: str) -> None:
    assert "s3cr3t" not in last_word(f"n0:1:1 [0] NCCL WARN {line}\n")


def test_last_words_keep_what_is_no_secret() -> None:
    line = next(x for x in real("socket-fallback").splitlines() if "key 0 - Init COMPLETE" in x)
    assert last_word(line).endswith("key 0 - Init COMPLETE")


def test_last_words_of_all_show_the_straggler_first() -> None:
    logs = cut_after(rehearsed(hosts_of(2, 4), GB200), [6], "Init START")
    assert nccl_log.last_words_of_all(logs).splitlines() == [
        "rank 6: NCCL INFO ncclCommInitRank comm * rank * nranks 8 cudaDev * nvmlDev * busId * "
        "commId * - Init START",
        "ranks 0-5, 7: NCCL INFO comm * rank * nranks 8 cudaDev * busId * - Destroy COMPLETE",
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Channel 03/1 : 3[3] -> 9[1] [send] via NET/IB/3(5)/GDRDMA", "NET/IB/*/GDRDMA"),
        ("CollNet 00/0 : 3 [send] via COLLNET/SHARP/3/GDRDMA", "COLLNET/SHARP/*/GDRDMA"),
    ],
)
def test_last_words_of_all_list_connections_by_their_kind(message: str, expected: str) -> None:
    words = nccl_log.last_words_of_all({3: f"n0:1:1 [3] NCCL INFO {message}\n"})
    assert words == f"rank 3: NCCL INFO {message.split()[0]} * via {expected}"


def test_last_words_of_all_prefer_warnings_that_are_no_advice() -> None:
    lines = [f"NCCL WARN {ADVICE}", "NCCL WARN socketPoll: peer 10.0.0.7<4711> left", "NCCL INFO a"]
    texts = {0: "".join(f"n0:1:1 [0] {line}\n" for line in lines), 1: f"n0:1:1 [0] {lines[0]}\n"}
    assert nccl_log.last_words_of_all(texts).splitlines() == [
        "rank 0: NCCL WARN socketPoll: peer * left",
        f"rank 1: NCCL WARN {ADVICE}",
    ]


def test_last_words_of_all_are_four_groups_at_most() -> None:
    texts = {rank: f"n0:1:1 [0] NCCL INFO step {rank // 2}\n" for rank in range(13)}
    words = nccl_log.last_words_of_all({**texts, 13: ""}).splitlines()
    assert words == [
        "rank 12: NCCL INFO step 6",
        "rank 13: nothing of NCCL",
        "ranks 0-1: NCCL INFO step 0",
        "ranks 2-3: NCCL INFO step 1",
        "and ranks 4-11, with 4 other lines",
    ]


def test_last_words_of_no_ranks_are_empty() -> None:
    assert nccl_log.last_words_of_all({}) == ""


def test_last_words_of_all_hold_no_secret() -> None:
    text = "n0:1:1 [0] NCCL INFO NCCL_X_TOKEN set by environment to s3cr3t\n"
    assert "s3cr3t" not in nccl_log.last_words_of_all({0: text, 1: text})


# ---- what rehearsals write -------------------------------------------------------------------

ALL_EIGHT = tuple(f"mlx5_{number}" for number in range(8))


@pytest.mark.parametrize(
    ("nodes", "gpus", "fabric", "environment", "within", "between", "nvls", "mnnvl", "hcas"),
    [
        (1, 8, H100, {}, ("P2P",), (), True, False, ()),
        (2, 8, H100, {}, ("P2P",), ("NET/IB/GDRDMA",), True, False, ALL_EIGHT),
        (4, 8, H100, {}, ("P2P",), ("NET/IB/GDRDMA",), True, False, ALL_EIGHT),
        (
            *(2, 8, H100, {"NCCL_IB_HCA": "=mlx5_3"}),
            *(("P2P",), ("NET/IB/GDRDMA",), True, False, ("mlx5_3",)),
        ),
        (2, 8, H100, {"NCCL_IB_DISABLE": "1"}, ("P2P",), ("NET/Socket",), True, False, ()),
        (2, 8, H100, {"NCCL_NET": "Socket"}, ("P2P",), ("NET/Socket",), True, False, ()),
        (2, 8, {**H100, "hcas": []}, {}, ("P2P",), ("NET/Socket",), True, False, ()),
        (
            *(2, 8, H100, {"NCCL_NVLS_ENABLE": "0"}),
            *(("P2P",), ("NET/IB/GDRDMA",), False, False, ALL_EIGHT),
        ),
        (
            *(2, 8, H100, {"NCCL_P2P_DISABLE": "1"}),
            *(("SHM",), ("NET/IB/GDRDMA",), False, False, ALL_EIGHT),
        ),
        (1, 4, GB200, {}, ("P2P",), (), True, False, ()),
        (2, 4, GB200, {}, ("P2P",), ("MNNVL",), True, True, ()),
        (18, 4, GB200, {"NCCL_MNNVL_ENABLE": "1"}, ("P2P",), ("MNNVL",), True, True, ()),
        (
            *(2, 4, GB200, {"NCCL_MNNVL_ENABLE": "0"}),
            *(("P2P",), ("NET/IB/GDRDMA",), True, False, ("ibp0", "ibp1", "ibp2", "ibp3")),
        ),
        (2, 1, SPARK, {}, (), ("NET/IB",), False, False, ("roceP2p1s0f0", "rocep1s0f0")),
    ],
)
def test_a_rehearsed_log_reads_back_as_its_fabric(
    nodes: int,
    gpus: int,
    fabric: dict[str, Any],
    environment: dict[str, str],
    within: tuple[str, ...],
    between: tuple[str, ...],
    nvls: bool,
    mnnvl: bool,
    hcas: tuple[str, ...],
) -> None:
    hosts = hosts_of(nodes, gpus)
    used = nccl_log.read(rehearsed(hosts, fabric, environment), hosts)
    fallback = "IB" if fabric["hcas"] else "Socket"
    assert used.problems == ()
    assert used.simulated
    assert used.seen == {
        "within_nodes": within,
        "between_nodes": between,
        "network": ("Socket",) if "NET/Socket" in between else (fallback,),
        "collnet": (),
        "nvls": nvls,
        "mnnvl": mnnvl,
        "hcas": dict.fromkeys(sorted(set(hosts.values())), hcas),
        "nccl_version": "2.28.9+cuda13.0",
    }


def test_a_rehearsed_node_that_lost_an_hca_uses_the_others() -> None:
    hosts = hosts_of(2, 8)
    logs = rehearsed(hosts, H100)
    fewer = rehearsed(hosts, {**H100, "hcas": H100["hcas"][:7]})
    mixed = {rank: (fewer if host == "n1" else logs)[rank] for rank, host in hosts.items()}
    used = nccl_log.read(mixed, hosts)
    assert used.seen["hcas"] == {"n0": ALL_EIGHT, "n1": ALL_EIGHT[:7]}
    assert used.problems == ()


def test_mnnvl_forced_where_it_cannot_be_ends_with_a_warning() -> None:
    hosts = hosts_of(2, 8)
    used = nccl_log.read(rehearsed(hosts, H100, {"NCCL_MNNVL_ENABLE": "1"}), hosts)
    assert "ranks 0-15: NCCL did not initialise (no Init COMPLETE)" in used.problems
    assert any("MNNVL (cliqueSize 8) is available but not working" in p for p in used.problems)


def test_a_network_that_is_not_there_ends_with_a_warning() -> None:
    hosts = hosts_of(2, 1)
    used = nccl_log.read(rehearsed(hosts, {**SPARK, "hcas": []}, {"NCCL_NET": "IB"}), hosts)
    assert any("Failed to initialize any NET plugin" in problem for problem in used.problems)


def test_the_first_line_of_a_rehearsed_log_says_simulated() -> None:
    assert all(text.startswith("# SIMULATED: ") for text in PAIR_LOGS.values())


def test_a_rehearsed_log_repeats_no_variable_but_those_of_nccl_that_it_knows() -> None:
    hosts = hosts_of(1, 1)
    logs = rehearsed(hosts, SPARK, {"NCCL_X_TOKEN": "s3cr3t", "HOME": "/root"})
    assert "s3cr3t" not in logs[0]


def test_devices_are_named_where_the_subsystem_is_asked_for() -> None:
    hosts = hosts_of(2, 1)
    logs = rehearsed(hosts, SPARK, {"NCCL_DEBUG_SUBSYS": "INIT,NET"})
    assert "NET/IB : GPU Direct RDMA Disabled for HCA 1 'roceP2p1s0f0'\n" in logs[0]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("", ["mlx5_1", "mlx5_10", "ibp0"]),
        ("mlx5_1", ["mlx5_1", "mlx5_10"]),
        ("=mlx5_1", ["mlx5_1"]),
        ("=mlx5_1,ibp0", ["mlx5_1", "ibp0"]),
        ("=mlx5_1:1", ["mlx5_1"]),
        ("=mlx5_1:2", []),
        ("^mlx5_1", ["ibp0"]),
        ("^=mlx5_1", ["mlx5_10", "ibp0"]),
        ("^=mlx5_1:1,ibp", ["mlx5_10", "ibp0"]),
        ("ibp,mlx5_10", ["mlx5_10", "ibp0"]),
    ],
)
def test_chosen_hcas(chosen: str, expected: list[str]) -> None:
    assert debug_log.selected(["mlx5_1", "mlx5_10", "ibp0"], chosen) == expected


def test_the_program_for_nodes_is_python_3_9_with_its_own_library_only() -> None:
    source = Path(debug_log.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 9))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported == ["__future__", "typing"]
