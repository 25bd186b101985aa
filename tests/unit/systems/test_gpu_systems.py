"""The GPU systems: what is committed of them is true to its sources, and to itself."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from ruamel.yaml import YAML

import reframe
from railgauge import hostlist, paths, systems
from railgauge.common.names import natural
from railgauge.model import limits, references
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Entry, Reference, References
from railgauge.node.inventory import nvidia
from railgauge.systems import NicScale, Partition, Rdma, expected, nccl, reframe_settings
from railgauge.systems.nccl import Nccl, Scale, Transport
from railgauge.tools import nccl_tests

NAMES = ["dgx-b200", "dgx-h100", "dgx-spark", "gb200-nvl72", "gb300-nvl72", "mi300x"]
#: Two racks of NVLink.
NVL72 = ["gb200-nvl72", "gb300-nvl72"]
SCALE: dict[str, Scale] = {
    "NcclNode": "node",
    "NcclPair": "pair",
    "NcclSegment": "segment",
    "NcclAll": "all",
}
GIB = 2**30


def partition(system: str) -> Partition:
    (found,) = systems.load(system).partitions
    return found


def fabric(system: str) -> Nccl:
    found = partition(system).extras.nccl
    assert found is not None
    return found


def rdma(system: str) -> Rdma:
    found = partition(system).extras.rdma
    assert found is not None
    return found


def stored(system: str) -> References:
    return references.load(system, paths.HOME / "results" / "references" / f"{system}.yaml")


def committed(system: str, *parts: str) -> str:
    return paths.SYSTEMS.joinpath(system, *parts).read_text(encoding="utf-8")


def yaml_of(system: str, *parts: str) -> Any:
    return YAML(typ="safe", pure=True).load(committed(system, *parts))


def lines_of(text: str, key: str) -> list[dict[str, str]]:
    """The lines of a Slurm fragment that begin with `key=`, as their options."""
    lines = [line for line in text.splitlines() if line.startswith(f"{key}=")]
    return [dict(word.split("=", 1) for word in line.split()) for line in lines]


ENTRIES = [(system, entry) for system in NAMES for entry in stored(system).entries]


def name_of(value: object) -> str:
    if isinstance(value, Entry):
        # In one order, also in several processes: what is stated is a set.
        parts = [part for _, part in sorted(value.stated.items())]
        return "-".join(str(part) for part in parts if not isinstance(part, dict))
    return str(value)


# ---- the systems ----


def test_reframe_takes_them() -> None:
    schema = Path(reframe.__path__[0], "schemas", "config.json").read_text(encoding="utf-8")
    configuration = {**reframe_settings.site_configuration(), "environments": [{"name": "builtin"}]}
    jsonschema.validate(configuration, json.loads(schema))


@pytest.mark.parametrize("system", NAMES)
def test_features_are_those_of_a_gpu_fabric(system: str) -> None:
    assert {"nccl", "rdma", "mpi", "gpu"} <= set(partition(system).features)
    assert ("mnnvl" in partition(system).features) == (system in NVL72)


@pytest.mark.parametrize(
    ("system", "gpus", "nvlink", "nvls", "domain", "nics", "nic_gbytes_s"),
    [
        ("dgx-h100", 8, 450, True, 1, 8, 50),
        ("dgx-spark", 1, None, None, None, 4, 15.75),
        ("gb200-nvl72", 4, 900, True, 18, 1, 50),
        ("dgx-b200", 8, 900, True, 1, 8, 50),
        ("gb300-nvl72", 4, 900, True, 18, 4, 100),
        # Not NVLink but xGMI, and no switch that reduces.
        ("mi300x", 8, 448, False, 1, 8, 50),
    ],
)
def test_hardware_is_as_its_makers_say(
    system: str,
    gpus: int,
    nvlink: float | None,
    nvls: bool | None,
    domain: int | None,
    nics: int,
    nic_gbytes_s: float,
) -> None:
    described = fabric(system)
    links, cards = described.nvlink, described.nics
    assert cards is not None
    found = (links.gbytes_s, links.nvls, links.domain_nodes) if links else (None, None, None)
    assert described.gpus_per_node == gpus
    assert found == (nvlink, nvls, domain)
    assert (len(cards.devices), cards.device_gbytes_s) == (nics, nic_gbytes_s)


@pytest.mark.parametrize("system", NAMES)
def test_reframe_is_given_as_many_gpus(system: str) -> None:
    (device,) = partition(system).model_dump()["devices"]
    assert device["num_devices"] == fabric(system).gpus_per_node
    assert device["model"] in fabric(system).gpu


@pytest.mark.parametrize("system", NAMES)
def test_nccl_uses_the_rails_that_perftest_measures(system: str) -> None:
    cards, roads = fabric(system).nics, rdma(system)
    assert cards is not None
    assert all(re.fullmatch(roads.devices, device) for device in cards.devices)
    assert len(cards.devices) == roads.rails
    assert cards.link_layer == roads.link_layer


def test_neither_storage_nor_frontend_of_a_dgx_is_a_rail() -> None:
    devices = [f"mlx5_{number}" for number in range(12)]
    cards = fabric("dgx-h100").nics
    assert cards is not None
    rails = [device for device in devices if re.fullmatch(rdma("dgx-h100").devices, device)]
    assert rails == cards.devices
    assert set(devices) - set(rails) == {"mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8"}


def test_rails_of_a_spark_are_numbered_as_its_comment_says() -> None:
    cards = fabric("dgx-spark").nics
    assert cards is not None
    rails = ["roceP2p1s0f0", "roceP2p1s0f1", "rocep1s0f0", "rocep1s0f1"]
    assert sorted(cards.devices, key=natural) == rails


@pytest.mark.parametrize("system", NAMES)
def test_every_variable_says_why_and_where_from(system: str) -> None:
    for variable in fabric(system).variables:
        assert len(variable.why.split()) > 5
        assert "documentation" in variable.source
        assert variable.name in variable.source


@pytest.mark.parametrize("system", NAMES)
def test_every_variable_of_mpi_stands_under_its_reason(system: str) -> None:
    lines = committed(system, "reframe.yaml").splitlines()
    names = [name for name, _ in partition(system).model_dump()["env_vars"]]
    for name in names:
        (place,) = [n for n, line in enumerate(lines) if line.startswith(f"      - [{name},")]
        assert lines[place - 1].lstrip().startswith("#")
    assert "UCX_TLS" in names


@pytest.mark.parametrize("system", NAMES)
def test_no_gid_index_is_fixed(system: str) -> None:
    assert "NCCL_IB_GID_INDEX" not in {variable.name for variable in fabric(system).variables}


@pytest.mark.parametrize("system", NAMES)
def test_launcher_has_what_it_needs(system: str) -> None:
    wanted = {
        "srun": {"--mpi=pmix", "--kill-on-bad-exit=1"},
        "mpirun": {"--map-by", "ppr:1:node"},
    }
    launcher = partition(system).model_dump()["launcher"]
    assert wanted[launcher] <= set(partition(system).extras.launch_options)


@pytest.mark.parametrize("system", NAMES)
def test_required_checks_reach_two_nodes_alone(system: str) -> None:
    required = partition(system).extras.required
    assert {"NodeState", "RdmaBandwidth", "NcclPair"} <= set(required)
    assert not {"NcclSegment", "NcclAll"} & set(required)


@pytest.mark.parametrize("system", NAMES)
def test_a_scale_that_is_measured_has_all_reduce(system: str) -> None:
    assert all("all_reduce" in operations for operations in fabric(system).operations.values())


def test_sizes_of_a_spark_leave_memory_to_the_node() -> None:
    # Three buffers of nccl-tests, in 128 GB that the operating system lives on too.
    assert 3 * fabric("dgx-spark").max_bytes < 16 * GIB


def test_gb200_is_measured_as_the_published_numbers_were() -> None:
    described = fabric("gb200-nvl72")
    assert (described.warmup, described.iterations) == (1, 20)
    assert described.largest_bytes("mnnvl") == 16 * GIB
    assert described.largest_bytes("sockets") == GIB


@pytest.mark.parametrize("system", NVL72)
def test_racks_are_nvlink_domains_blocks_and_segments(system: str) -> None:
    described = fabric(system)
    assert described.nvlink is not None
    (sizes,) = lines_of(committed(system, "slurm", "topology.conf"), "BlockSizes")
    assert int(sizes["BlockSizes"]) == described.segment_nodes == described.nvlink.domain_nodes
    nodes = hostlist.expand(partition(system).extras.nodes)
    racks = [set(nodes[start : start + 18]) for start in range(0, len(nodes), 18)]
    blocks = lines_of(committed(system, "slurm", "topology.conf"), "BlockName")
    assert [set(hostlist.expand(block["Nodes"])) for block in blocks] == racks


@pytest.mark.parametrize("system", NVL72)
def test_both_forms_of_the_topology_say_the_same(system: str) -> None:
    text = committed(system, "slurm", "topology.conf")
    (topology,) = yaml_of(system, "slurm", "topology.yaml")
    (sizes,) = lines_of(text, "BlockSizes")
    assert topology["block"]["block_sizes"] == [int(sizes["BlockSizes"])]
    assert topology["block"]["blocks"] == [
        {"block": line["BlockName"], "nodes": line["Nodes"]} for line in lines_of(text, "BlockName")
    ]


#: What the drivers count: an error, or something that a healthy link shows too.
COUNTED = {
    "dgx-h100": {
        "rdma/mlx5_10/1/counters/symbol_error": True,
        "rdma/mlx5_0/1/counters/link_downed": True,
        "rdma/mlx5_11/1/hw_counters/out_of_sequence": True,
        "rdma/mlx5_0/1/hw_counters/local_ack_timeout_err": True,
        "rdma/mlx5_0/1/hw_counters/duplicate_request": True,
        "ethtool/enp24s0np0/rx_discards_phy": True,
        "ethtool/enp24s0np0/rx_crc_errors_phy": True,
        "ethtool/enp24s0np0/link_down_events_phy": True,
        "ethtool/enp24s0np0/rx_oversize_pkts_phy": True,
        "ethtool/enp24s0np0/rx_fragments_phy": True,
        "ethtool/enp24s0np0/rx_prio3_pause": False,
        "ethtool/enp24s0np0/rx_corrected_bits_phy": False,
        "rdma/mlx5_0/1/hw_counters/np_cnp_sent": False,
        "rdma/mlx5_0/1/counters/port_rcv_data": False,
    },
    "dgx-spark": {
        "rdma/roceP2p1s0f1/1/counters/symbol_error": True,
        "rdma/rocep1s0f0/1/counters/link_downed": True,
        "ethtool/enp1s0f0np0/rx_crc_errors_phy": True,
        "ethtool/enP2p1s0f0np0/link_down_events_phy": True,
        "ethtool/enp1s0f0np0/rx_jabbers_phy": True,
        "ethtool/enp1s0f0np0/tx_errors_phy": True,
        "net/enp1s0f0np0/rx_errors": True,
        "ethtool/enp1s0f0np0/rx_discards_phy": False,
        "rdma/rocep1s0f0/1/hw_counters/out_of_sequence": False,
    },
    "gb200-nvl72": {
        "rdma/mlx5_0/1/counters/symbol_error": True,
        "rdma/mlx5_0/1/counters/link_error_recovery": True,
        "rdma/mlx5_0/1/counters/port_rcv_errors": True,
        "rdma/mlx5_0/1/counters/port_xmit_discards": True,
        "rdma/mlx5_0/1/hw_counters/packet_seq_err": True,
        "rdma/mlx5_0/1/counters/port_xmit_wait": False,
        "rdma/mlx5_0/1/hw_counters/out_of_sequence": False,
    },
}
COUNTED["dgx-b200"] = {
    counter.replace("mlx5_0", "mlx5_15"): judged
    for counter, judged in COUNTED["gb200-nvl72"].items()
}
COUNTED["gb300-nvl72"] = {
    counter.replace("mlx5_0", "mlx5_3"): judged
    for counter, judged in COUNTED["gb200-nvl72"].items()
}
COUNTED["mi300x"] = {
    re.sub("mlx5_1[01]", "mlx5_7", counter): judged
    for counter, judged in COUNTED["dgx-h100"].items()
}


@pytest.mark.parametrize(
    ("system", "counter", "judged"),
    [(name, counter, judged) for name, all_ in COUNTED.items() for counter, judged in all_.items()],
)
def test_counter_is_judged_where_it_is_an_error(system: str, counter: str, judged: bool) -> None:
    budgets = partition(system).extras.counters
    assert any(re.fullmatch(b.counters, counter) for b in budgets) is judged


@pytest.mark.parametrize("system", NAMES)
def test_every_budget_matches_a_counter_that_there_is(system: str) -> None:
    for budget in partition(system).extras.counters:
        assert any(re.fullmatch(budget.counters, counter) for counter in COUNTED[system])


# ---- what they give to Slurm and to their nodes ----


@pytest.mark.parametrize("system", NAMES)
def test_slurm_knows_the_gpus_of_every_node(system: str) -> None:
    detected = lines_of(committed(system, "slurm", "gres.conf"), "NodeName")
    promised = lines_of(committed(system, "slurm", "nodes.conf"), "NodeName")
    gpus = fabric(system).gpus_per_node
    nodes = set(hostlist.expand(partition(system).extras.nodes))
    assert {n for line in detected for n in hostlist.expand(line["NodeName"])} == nodes
    assert {len(hostlist.expand(line["File"])) for line in detected} == {gpus}
    wanted = {f"gpu:{line['Type']}:{gpus}" for line in detected}
    assert {line["Gres"] for line in promised} == wanted
    assert "GresTypes=gpu" in committed(system, "slurm", "railgauge.conf").splitlines()


@pytest.mark.parametrize("system", NVL72)
def test_racks_get_blocks_and_imex_channels_from_slurm(system: str) -> None:
    lines = committed(system, "slurm", "railgauge.conf").splitlines()
    assert "TopologyPlugin=topology/block" in lines
    assert "SwitchType=switch/nvidia_imex" in lines


def test_traffic_class_of_a_dgx_is_one_in_all_places() -> None:
    script = committed("dgx-h100", "tuning", "sbin", "roce-lossless")
    (dscp,) = re.findall("(?m)^dscp=([0-9]+)$", script)
    (mask,) = re.findall("--pfc=([01,]+)", script)
    (told,) = [v.value for v in fabric("dgx-h100").variables if v.name == "NCCL_IB_TC"]
    assert rdma("dgx-h100").traffic_class == int(told) == int(dscp) << 2
    # The priority of a DSCP is its first three bits, and that one alone may be paused.
    assert [n for n, on in enumerate(mask.split(",")) if on == "1"] == [int(dscp) >> 3]


def test_every_rail_of_a_dgx_has_jumbo_frames() -> None:
    ports = yaml_of("dgx-h100", "tuning", "netplan", "60-rails.yaml")["network"]["ethernets"]
    assert len(ports) == rdma("dgx-h100").rails
    assert {port["mtu"] for port in ports.values()} == {9000}


def test_logical_nics_of_a_spark_have_a_subnet_each() -> None:
    nodes = hostlist.expand(partition("dgx-spark").extras.nodes)
    ports = [
        yaml_of("dgx-spark", "tuning", "netplan", f"{node}.yaml")["network"]["ethernets"]
        for node in nodes
    ]
    assert {port["mtu"] for node in ports for port in node.values()} == {
        partition("dgx-spark").extras.mtu_bytes
    }
    addresses = [
        {name: ipaddress.ip_interface(*port["addresses"]) for name, port in node.items()}
        for node in ports
    ]
    first, second = addresses
    assert {name: a.network for name, a in first.items()} == {
        name: a.network for name, a in second.items()
    }
    assert len({a.network for a in first.values()}) == rdma("dgx-spark").rails
    assert set(first.values()).isdisjoint(second.values())


def test_names_of_sparks_lead_to_the_first_cable() -> None:
    hosts = [line.split() for line in committed("dgx-spark", "tuning", "hosts").splitlines()]
    told = {name: address for address, name in (h for h in hosts if h[0] != "#")}
    for node in hostlist.expand(partition("dgx-spark").extras.nodes):
        ports = yaml_of("dgx-spark", "tuning", "netplan", f"{node}.yaml")["network"]["ethernets"]
        (address,) = ports["enp1s0f0np0"]["addresses"]
        assert told[node] == str(ipaddress.ip_interface(address).ip)
    assert dict(partition("dgx-spark").model_dump()["env_vars"])["UCX_NET_DEVICES"] == "enp1s0f0np0"


def test_receive_buffers_of_a_spark_are_the_sources() -> None:
    settings = committed("dgx-spark", "tuning", "sysctl.d", "90-dgx-spark.conf")
    (largest,) = re.findall("(?m)^net.ipv4.tcp_rmem = [0-9]+ [0-9]+ ([0-9]+)$", settings)
    assert int(largest) == 128 * 2**20


def test_every_switch_port_of_the_sparks_is_set_the_same() -> None:
    text = committed("dgx-spark", "tuning", "routeros", "crs804.rsc")
    ports = [line for line in text.splitlines() if line.startswith("set ")]
    # Two cables to each of two nodes.
    assert len(ports) == 4
    for line in ports:
        for setting in ("auto-negotiation=no", "speed=200G-baseCR4", "fec-mode=fec91", "mtu=9000"):
            assert setting in line.split()


# ---- the published numbers ----

#: system, check, what tells the entry apart, metric, value
PUBLISHED: list[tuple[str, str, dict[str, Any], str, float]] = [
    ("gb200-nvl72", "NcclPair", {"transport": "mnnvl"}, "busbw", 811.71),
    ("gb200-nvl72", "NcclPair", {"transport": "mnnvl"}, "busbw_in_place", 810.35),
    ("gb200-nvl72", "NcclPair", {"transport": "default"}, "busbw", 811.71),
    ("gb200-nvl72", "NcclPair", {"transport": "default"}, "busbw_in_place", 810.35),
    ("gb200-nvl72", "NcclPair", {"transport": "one-hca"}, "busbw", 84.52),
    ("gb200-nvl72", "NcclPair", {"transport": "one-hca"}, "busbw_in_place", 85.02),
    ("gb200-nvl72", "NcclPair", {"transport": "mnnvl-off"}, "busbw", 84.52),
    ("gb200-nvl72", "NcclPair", {"transport": "mnnvl-off"}, "busbw_in_place", 85.02),
    ("gb200-nvl72", "NcclPair", {"transport": "sockets", "size_bytes": GIB}, "busbw", 2.00),
    ("gb200-nvl72", "NcclSegment", {"ranks": 72, "size_bytes": 8 * GIB}, "busbw", 834.57),
    ("gb200-nvl72", "NcclAll", {"ranks": 144, "size_bytes": 16 * GIB}, "busbw", 810.41),
    ("gb200-nvl72", "NcclAll", {"ranks": 1440, "size_bytes": 16 * GIB}, "busbw", 405.74),
    ("gb200-nvl72", "NcclAll", {"ranks": 1440}, "busbw_in_place", 404.77),
    ("dgx-h100", "RdmaBandwidth", {"operation": "write"}, "bandwidth", 391),
    ("dgx-h100", "NcclAll", {"operation": "all_reduce", "ranks": 64}, "busbw", 390),
    ("dgx-h100", "NcclAll", {"operation": "all_reduce", "ranks": 64}, "busbw", 389),
    ("dgx-h100", "NcclAll", {"ranks": 64, "size_bytes": 8 * GIB}, "busbw", 386.56),
    ("dgx-h100", "NcclAll", {"operation": "alltoall"}, "busbw", 36.66),
    ("dgx-h100", "NcclAll", {"operation": "alltoall"}, "busbw", 43.48),
    ("dgx-h100", "NcclAll", {"operation": "alltoall"}, "busbw", 50.39),
    ("dgx-h100", "NcclNode", {"ranks": 8, "size_bytes": 16 * GIB}, "busbw", 460),
    ("dgx-h100", "NcclNode", {"ranks": 8, "size_bytes": 8 * GIB}, "busbw_in_place", 478.87),
    ("dgx-b200", "NcclPair", {"ranks": 16, "size_bytes": 8 * GIB}, "busbw", 690),
    ("dgx-b200", "NcclNode", {"ranks": 8}, "busbw", 845.7),
    ("dgx-b200", "RdmaBandwidth", {"operation": "write"}, "bandwidth", 384),
    ("gb300-nvl72", "NcclSegment", {"operation": "all_reduce", "nodes": 8}, "busbw", 923.32),
    ("gb300-nvl72", "NcclSegment", {"operation": "all_gather", "nodes": 8}, "busbw", 698.74),
    ("gb300-nvl72", "NcclSegment", {"operation": "alltoall", "nodes": 8}, "busbw", 678.57),
    ("gb300-nvl72", "NcclSegment", {"transport": "mnnvl-off"}, "busbw", 376.01),
    ("gb300-nvl72", "NcclSegment", {"nodes": 16}, "busbw", 932.09),
    ("gb300-nvl72", "NcclSegment", {"nodes": 18}, "busbw", 937),
    ("mi300x", "NcclPair", {"size_bytes": GIB}, "busbw", 349.95),
    ("mi300x", "NcclPair", {"size_bytes": 2 * GIB}, "busbw", 353.03),
    ("mi300x", "NcclPair", {"size_bytes": 4 * GIB}, "busbw", 355.07),
    ("mi300x", "NcclPair", {"size_bytes": 8 * GIB}, "busbw", 357.04),
    ("mi300x", "NcclPair", {"size_bytes": 16 * GIB}, "busbw", 358.37),
    ("mi300x", "NcclNode", {"size_bytes": 4 * GIB}, "busbw", 312.91),
    ("mi300x", "NcclNode", {"size_bytes": 16 * GIB}, "busbw", 314),
    ("dgx-spark", "Iperf2Pair", {"transport": "tcp"}, "bandwidth", 96),
    ("dgx-spark", "Iperf2Pair", {"transport": "tcp"}, "bandwidth", 98),
    ("dgx-spark", "CablePair", {"transport": "tcp"}, "bandwidth", 177),
    ("dgx-spark", "NicsTogether", {"transport": "tcp"}, "bandwidth", 172),
    ("dgx-spark", "RdmaBandwidth", {"rails": "2-2", "size_bytes": 65536}, "bandwidth", 92.57),
    ("dgx-spark", "RdmaBandwidth", {"rails": "0-0", "size_bytes": 65536}, "bandwidth", 97.28),
    ("dgx-spark", "NcclPair", {"ranks": 2}, "bandwidth", 326),
    ("dgx-spark", "NcclPair", {"ranks": 2}, "bandwidth_peak", 340),
]


@pytest.mark.parametrize(("system", "check", "parts", "metric", "value"), PUBLISHED)
def test_published_number_is_stored_exactly(
    system: str, check: str, parts: dict[str, Any], metric: str, value: float
) -> None:
    numbers = [
        entry.metrics[metric].value
        for entry in stored(system).entries
        if entry.check == check
        and metric in entry.metrics
        and all(getattr(entry, part) == wanted for part, wanted in parts.items())
    ]
    assert value in numbers


@pytest.mark.parametrize("system", NAMES)
def test_all_numbers_are_published_with_their_source(system: str) -> None:
    for entry in stored(system).entries:
        for number in entry.metrics.values():
            assert number.kind == "published"
            assert number.note or not number.is_context
            # Without a date, or with the place where it was read.
            assert re.search(r"read\s+on\s+2026-11-2[17]", number.provenance.source)


def gating(system: str) -> dict[tuple[str, str | None, str], Reference]:
    return {
        (entry.check, entry.transport, metric): number
        for entry in stored(system).entries
        for metric, number in entry.metrics.items()
        if not number.is_context
    }


@pytest.mark.parametrize("system", [name for name in NAMES if name != "gb200-nvl72"])
def test_number_with_a_partly_unknown_condition_gates_nothing(system: str) -> None:
    assert gating(system) == {}


def test_whole_conditions_of_gb200_gate_at_ten_percent() -> None:
    numbers = gating("gb200-nvl72")
    transports = {"mnnvl", "default", "one-hca", "mnnvl-off"}
    assert set(numbers) == {
        ("NcclPair", transport, metric)
        for transport in transports
        for metric in ("busbw", "busbw_in_place")
    }
    assert {(n.lower, n.upper, n.provenance.samples) for n in numbers.values()} == {(-0.1, None, 1)}


def measured(transport: Transport, size_bytes: int, ranks: int = 8) -> Measurement:
    return Measurement(
        "busbw",
        800.0,
        nccl_tests.TOOL,
        "all_reduce",
        transport,
        size_bytes=size_bytes,
        nodes=("a", "b"),
        ranks=ranks,
    )


def test_pair_of_gb200_is_judged_by_the_published_number() -> None:
    found = stored("gb200-nvl72").find("NcclPair", "nvl72", measured("mnnvl", 16 * GIB))
    assert found is not None
    assert found.lowest == pytest.approx(730.539)


@pytest.mark.parametrize(
    "other",
    [measured("mnnvl", 8 * GIB), measured("mnnvl", 16 * GIB, ranks=6), measured("sockets", GIB)],
    ids=["size", "ranks", "sockets"],
)
def test_nearly_the_same_condition_has_no_reference(other: Measurement) -> None:
    assert stored("gb200-nvl72").find("NcclPair", "nvl72", other) is None


def test_sockets_of_gb200_stand_next_to_what_is_measured() -> None:
    beside = stored("gb200-nvl72").context("NcclPair", "nvl72", measured("sockets", GIB))
    assert [number.value for number in beside] == [2.00]


# ---- their conditions are cases of the system ----

NCCL_ENTRIES = [(system, entry) for system, entry in ENTRIES if entry.check in SCALE]


@pytest.mark.parametrize(("system", "entry"), NCCL_ENTRIES, ids=name_of)
def test_condition_is_one_that_the_system_measures(system: str, entry: Entry) -> None:
    described, scale = fabric(system), SCALE[entry.check]
    assert entry.partition == partition(system).name
    # Sockets are context: what the Ethernet is worth as a last resort.
    transports = described.transports(scale, [*partition(system).features, "sockets"])
    assert entry.transport in transports
    assert entry.operation is None or entry.operation in described.operations[scale]
    if entry.transport != "default":
        assert entry.operation == "all_reduce"
    if isinstance(entry.nodes, int):
        assert entry.ranks == entry.nodes * described.gpus_per_node
    if entry.size_bytes is not None and entry.transport in transports:
        assert entry.size_bytes <= described.largest_bytes(entry.transport)


@pytest.mark.parametrize(
    ("system", "entry"),
    [(s, e) for s, e in NCCL_ENTRIES if not all(n.is_context for n in e.metrics.values())],
    ids=name_of,
)
def test_condition_that_gates_is_the_largest_size(system: str, entry: Entry) -> None:
    transport: Any = entry.transport
    assert entry.size_bytes == fabric(system).largest_bytes(transport)
    assert entry.streams is None


#: Checks of logical NICs, and how many of these at once.
NICS_AT_ONCE: dict[str | None, NicScale] = {
    "NicPair": "nic",
    "CablePair": "cable",
    "NicsTogether": "all",
}


@pytest.mark.parametrize("system", NAMES)
def test_ratio_is_context_and_of_this_system(system: str) -> None:
    for ratio in stored(system).ratios:
        assert ratio.is_context
        for side in (ratio.of, ratio.over):
            assert side.partition in (None, partition(system).name)
            if side.state is None and side.check not in NICS_AT_ONCE:
                assert side.transport in get_args(nccl.Transport)


@pytest.mark.parametrize(
    ("system", "name", "value"),
    [
        ("dgx-h100", "alltoall busbw, DLB flowlet over ECMP", 1.186),
        ("dgx-h100", "alltoall busbw, DLB per packet over ECMP", 1.375),
        ("dgx-h100", "all_reduce busbw, VXLAN over eBGP", 0.997),
        ("gb200-nvl72", "all_reduce busbw, MNNVL over one InfiniBand port", 9.5),
        ("dgx-spark", "TCP bandwidth, two cables over one", 0.97),
    ],
)
def test_published_ratio_is_stored_exactly(system: str, name: str, value: float) -> None:
    assert [ratio.value for ratio in stored(system).ratios if ratio.name == name] == [value]


# ---- and physics allows them ----


def limit_of(system: str, entry: Entry, metric: str) -> Limit | None:
    """The limit of a stored number, as the check would compute it."""
    extras, roads = partition(system).extras, rdma(system)
    if entry.check in SCALE and metric.startswith("busbw"):
        transport: Any = entry.transport
        described = fabric(system)
        everyone = len(hostlist.expand(extras.nodes))
        nodes = entry.nodes if isinstance(entry.nodes, int) else everyone
        devices = len(described.devices(transport))
        operation = entry.operation or "all_reduce"
        domains = described.domains(transport, range(nodes))
        return described.limit(operation, transport, nodes, domains, devices, extras.link_gbits)
    if entry.check == "RdmaBandwidth" and roads.line_gbits:
        kind = limits.roce if roads.link_layer == "Ethernet" else limits.infiniband
        return kind(roads.line_gbits, roads.active_mtu_bytes, entry.size_bytes)
    if entry.check in NICS_AT_ONCE and extras.nics:
        gbits = extras.nics.gbits(extras.nics.at_once(NICS_AT_ONCE[entry.check])[0])
        return limits.tcp(gbits, extras.nics.mtu_bytes) if gbits else None
    if entry.check == "Iperf2Pair" and extras.link_gbits and extras.mtu_bytes:
        return limits.tcp(extras.link_gbits, extras.mtu_bytes)
    return None


#: Probably sums over both directions, which no check measures.
SUMS = (326, 340)


@pytest.mark.parametrize(("system", "entry"), ENTRIES, ids=name_of)
def test_published_number_is_within_its_limit(system: str, entry: Entry) -> None:
    for metric, number in entry.metrics.items():
        limit = limit_of(system, entry, metric)
        if entry.transport == "sockets" or metric == "application_time":
            # The Ethernet is not described, and physics knows no program.
            assert limit is None
        elif number.value not in SUMS:
            assert limit is not None
            assert not limit.exceeded_by(number.value)


def test_gb200_over_one_port_is_near_its_limit() -> None:
    limit = fabric("gb200-nvl72").limit("all_reduce", "one-hca", 2, 2, 1, None)
    assert limit is not None
    assert limit.share(84.52) == pytest.approx(0.966, abs=0.001)


def test_a_spark_port_that_came_up_badly_is_far_from_its_limit() -> None:
    roads = rdma("dgx-spark")
    assert roads.line_gbits is not None
    limit = limits.roce(roads.line_gbits, roads.active_mtu_bytes, 65536)
    assert limit.share(13.23) < 0.12 < 0.7 < limit.share(92.57)


# ---- recordings ----


@pytest.mark.parametrize("transport", ["mnnvl", "one-hca"])
def test_recording_of_gb200_is_whole_and_what_the_references_say(transport: Transport) -> None:
    text = committed("gb200-nvl72", "recorded", f"pair-all_reduce-{transport}.txt")
    assert text.startswith("# source: ")
    (result,) = nccl_tests.parse(text)
    (row,) = result.rows
    found = gating("gb200-nvl72")
    assert row.in_place is not None
    assert (row.out_of_place.busbw_gbytes_s, row.in_place.busbw_gbytes_s) == (
        found["NcclPair", transport, "busbw"].value,
        found["NcclPair", transport, "busbw_in_place"].value,
    )
    described = fabric("gb200-nvl72")
    assert {device.name for device in result.devices} == {described.gpu}
    assert len(result.devices) == 2 * described.gpus_per_node
    assert (result.warmup, result.iterations) == (described.warmup, described.iterations)
    assert result.version.startswith(described.binaries.version)
    assert result.concluded and result.out_of_bounds_ok


@pytest.mark.parametrize("system", ["dgx-h100", "gb200-nvl72"])
@pytest.mark.parametrize(
    ("healthy", "broken"),
    [
        ("<summary>N/A", "<summary>Unhealthy"),
        ("<summary>N/A", "<summary>Limited Capacity"),
        ("<bandwidth>N/A", "<bandwidth>Degraded"),
        ("action>None", "action>Drain and Reset"),
        ("<channel_repair_pending>No", "<channel_repair_pending>Yes"),
        ("<unrepairable_memory>No", "<unrepairable_memory>Yes"),
    ],
)
def test_a_gpu_that_says_it_is_broken_is_not_as_expected(
    system: str, healthy: str, broken: str
) -> None:
    """An H100's own output (tests/data/gpu), and the same with what a broken one says."""
    text = Path(__file__).parents[2].joinpath("data/gpu/inventory/nvidia-smi-q-x.xml").read_text()
    entries = [e for e in expected.load(system).expected if e.where_present]  # type: ignore[union-attr]

    def wrong(text: str) -> list[str]:
        (gpu,) = nvidia.smi(text).gpus.values()
        fields = {f"gpu/0/{name}": value for name, value in gpu.items()}
        return [
            key
            for entry in entries
            for key, value in fields.items()
            if re.fullmatch(entry.fields, key) and not entry.admits(value)
        ]

    assert wrong(text) == []
    assert len(wrong(text.replace(healthy, broken))) == 1
