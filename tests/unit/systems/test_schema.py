"""The systems: every committed one loads, and a host is never taken for another's."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import hostlist, lab, paths, systems
from railgauge.cli import cli
from railgauge.common.errors import ConfigurationError
from railgauge.lab import spec
from railgauge.model import references
from railgauge.systems import reframe_settings
from tests.command_line import invoke

GOOD = """\
name: alps
hostnames: [alps-login]
partitions:
  - name: gpu
    scheduler: slurm
    features: [tcp, gpu]
    extras:
      nodes: n[1-4]
      mtu_bytes: 9000
      required: [Iperf2Pair]
  - name: cpu
    scheduler: slurm
    extras:
      nodes: c[01-02],c09
"""

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _no_memory_of_other_folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    systems.load.cache_clear()
    yield
    systems.load.cache_clear()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Puts a system's reframe.yaml into a folder of systems that this test alone sees."""
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path)

    def write(name: str = "alps", text: str = GOOD) -> Path:
        path = tmp_path / name / "reframe.yaml"
        path.parent.mkdir()
        path.write_text(text)
        return path

    return write


def no_lab(_: Path) -> None:
    return None


def a_lab(_: Path) -> Any:
    return object()


def on_host(monkeypatch: pytest.MonkeyPatch, host: str, lab_up: bool = False) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    monkeypatch.setattr(lab, "first_process", a_lab if lab_up else no_lab)


def load_error(name: str = "alps") -> str:
    with pytest.raises(ConfigurationError) as caught:
        systems.load(name)
    return str(caught.value)


# ---- the committed systems ----


def test_the_lab_is_a_committed_system() -> None:
    assert "lab" in systems.names()


@pytest.mark.parametrize("name", systems.names())
def test_committed_system_loads(name: str) -> None:
    assert systems.load(name).name == name


@pytest.mark.parametrize("name", systems.names())
def test_no_rank_waits_for_one_that_could_not_start(name: str) -> None:
    for partition in systems.load(name).partitions:
        if "mpi" in partition.features and partition.model_dump()["launcher"] == "srun":
            assert "--kill-on-bad-exit=1" in partition.extras.launch_options, partition.name


@pytest.mark.parametrize("name", systems.names())
def test_committed_system_names_each_partition_once(name: str) -> None:
    partitions = [partition.name for partition in systems.load(name).partitions]
    assert len(partitions) == len(set(partitions))


@pytest.mark.parametrize("name", systems.names())
def test_committed_system_has_references_that_load(name: str) -> None:
    path = paths.HOME / "results" / "references" / f"{name}.yaml"
    assert path.exists()
    assert references.load(name, path).system == name


@pytest.mark.parametrize("name", systems.names())
def test_committed_references_are_of_partitions_that_there_are(name: str) -> None:
    stored = references.load(name, paths.HOME / "results" / "references" / f"{name}.yaml")
    sides = [side for ratio in stored.ratios for side in (ratio.of, ratio.over)]
    used = {entry.partition for entry in stored.entries} | {side.partition for side in sides}
    assert used - {None} <= {partition.name for partition in systems.load(name).partitions}


@pytest.mark.parametrize("name", systems.names())
def test_long_ways_of_a_committed_system_are_made_and_taken_away(name: str) -> None:
    for partition in systems.load(name).partitions:
        wan = partition.extras.wan
        for line in [*wan.set, *wan.clear] if wan else []:
            assert "{device}" in shlex.split(line)


@pytest.mark.parametrize("host", ["head", "localhost", "login1", "node01", "vm", "vm00", "n1", ""])
def test_no_other_host_is_taken_for_a_cluster(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    on_host(monkeypatch, host)
    clusters = [name for name in systems.names() if not systems.is_of_lab(name)]
    patterns = [pattern for name in clusters for pattern in systems.load(name).hostnames]
    assert [pattern for pattern in patterns if re.match(pattern, host)] == []


@pytest.mark.parametrize("name", systems.names())
def test_committed_system_knows_its_own_hosts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    of_lab = systems.is_of_lab(name)
    monkeypatch.setattr(lab, "system_here", lambda: name if of_lab else None)
    on_host(monkeypatch, spec.load(spec.file(name)).head.name if of_lab else f"{name}-login")
    assert systems.current() == name


#: What the drivers of these systems count: an error, or something that a healthy link shows too.
COUNTED = {
    "vm-pair": {
        "rdma/mlx5_0/1/counters/symbol_error": True,
        "rdma/mlx5_0/1/counters/link_downed": True,
        "rdma/mlx5_0/1/counters/link_error_recovery": True,
        "rdma/mlx5_0/1/counters/port_rcv_errors": True,
        "rdma/mlx5_0/1/counters/local_link_integrity_errors": True,
        "rdma/mlx5_0/1/counters/port_xmit_discards": True,
        "rdma/mlx5_0/1/counters/port_rcv_data": False,
        "rdma/mlx5_0/1/counters/port_xmit_wait": False,
        "rdma/mlx5_0/1/hw_counters/out_of_sequence": True,
        "rdma/mlx5_0/1/hw_counters/packet_seq_err": True,
        "rdma/mlx5_0/1/hw_counters/local_ack_timeout_err": True,
        "rdma/mlx5_0/1/hw_counters/duplicate_request": True,
        "rdma/mlx5_0/1/hw_counters/rx_icrc_encapsulated": True,
        "rdma/mlx5_0/1/hw_counters/rnr_nak_retry_err": False,
        "rdma/mlx5_0/1/hw_counters/np_cnp_sent": False,
        "rdma/mlx5_0/1/hw_counters/rp_cnp_handled": False,
        "rdma/mlx5_0/1/hw_counters/out_of_buffer": False,
        "rdma/mlx5_0/1/hw_counters/resp_cqe_flush_error": False,
        "rdma/mlx5_0/1/hw_counters/rx_write_requests": False,
        "ethtool/eth1/rx_crc_errors_phy": True,
        "ethtool/eth1/rx_fragments_phy": True,
        "ethtool/eth1/tx_errors_phy": True,
        "ethtool/eth1/rx_discards_phy": True,
        "ethtool/eth1/link_down_events_phy": True,
        "ethtool/eth1/rx_corrected_bits_phy": False,
        "ethtool/eth1/rx_pause_ctrl_phy": False,
        "ethtool/eth1/rx_packets_phy": False,
        "net/eth1/rx_errors": True,
        "net/eth1/rx_crc_errors": True,
        "net/eth1/rx_bytes": False,
        "net/eth1/rx_dropped": False,
    },
    "eth400g": {
        "ethtool/ens1f0np0/rx_crc_errors_phy": True,
        "ethtool/ens2f0np0/rx_symbol_err_phy": True,
        "ethtool/ens2f0np0/link_down_events_phy": True,
        "ethtool/ens1f0np0/rx_oversize_pkts_phy": True,
        "ethtool/ens1f0np0/rx_jabbers_phy": True,
        "ethtool/ens1f0np0/rx_discards_phy": False,
        "ethtool/ens1f0np0/rx_corrected_bits_phy": False,
        "ethtool/ens1f0np0/tx_pause_ctrl_phy": False,
        "net/bond0/rx_errors": True,
        "net/bond0/tx_carrier_errors": True,
        "net/bond0/tx_bytes": False,
        "net/bond0/rx_missed_errors": False,
    },
}


@pytest.mark.parametrize(
    ("system", "counter", "judged"),
    [(name, counter, judged) for name, all_ in COUNTED.items() for counter, judged in all_.items()],
)
def test_counter_is_judged_where_it_is_an_error(system: str, counter: str, judged: bool) -> None:
    (partition,) = systems.load(system).partitions
    matching = [b for b in partition.extras.counters if re.fullmatch(b.counters, counter)]
    assert bool(matching) is judged


@pytest.mark.parametrize("name", COUNTED)
def test_every_budget_matches_a_counter_that_there_is(name: str) -> None:
    (partition,) = systems.load(name).partitions
    idle = [
        budget.counters
        for budget in partition.extras.counters
        if not any(re.fullmatch(budget.counters, counter) for counter in COUNTED[name])
    ]
    assert idle == []


# ---- what a committed system gives to Slurm and to its nodes ----

WITH_SLURM = [name for name in systems.names() if (paths.SYSTEMS / name / "slurm").is_dir()]


def slurm_lines(system: str, file: str, key: str) -> list[dict[str, str]]:
    """The lines of a Slurm fragment that begin with `key=`, as their options."""
    text = (paths.SYSTEMS / system / "slurm" / file).read_text()
    lines = [line for line in text.splitlines() if line.startswith(f"{key}=")]
    return [dict(word.split("=", 1) for word in line.split()) for line in lines]


@pytest.mark.parametrize("name", WITH_SLURM)
def test_slurm_has_the_nodes_of_the_system(name: str) -> None:
    told = {
        node
        for line in slurm_lines(name, "nodes.conf", "NodeName")
        for node in hostlist.expand(line["NodeName"])
    }
    assert told == set(systems.load(name).nodes)


@pytest.mark.parametrize("name", WITH_SLURM)
def test_every_node_has_a_slurm_feature(name: str) -> None:
    assert all(line["Feature"] for line in slurm_lines(name, "nodes.conf", "NodeName"))


@pytest.mark.parametrize("name", WITH_SLURM)
def test_slurm_has_the_partitions_of_the_system(name: str) -> None:
    told = {
        line["PartitionName"]: set(hostlist.expand(line["Nodes"]))
        for line in slurm_lines(name, "partitions.conf", "PartitionName")
    }
    assert told == {p.name: set(p.nodes) for p in systems.load(name).partitions}


@pytest.mark.parametrize("name", WITH_SLURM)
def test_rdma_jobs_may_pin_memory(name: str) -> None:
    folder = paths.SYSTEMS / name / "slurm"
    unlimited = (
        "PropagateResourceLimitsExcept=MEMLOCK" in (folder / "railgauge.conf").read_text(),
        (folder / "slurmd.service.d" / "memlock.conf").exists(),
    )
    rdma = any("rdma" in partition.features for partition in systems.load(name).partitions)
    assert unlimited == (rdma, rdma)


INI_FILES = [
    path
    for path in sorted(paths.SYSTEMS.rglob("*"))
    if path.suffix in (".nmconnection", ".service") or path.name in ("tuned.conf", "memlock.conf")
]
#: Sections that name a thing, and set nothing.
NAMING = ("main", "connection", "ipv4", "Unit", "Install")
SETTING_FILES = [
    *INI_FILES,
    *sorted(paths.SYSTEMS.glob("*/tuning/sysctl.d/*.conf")),
    *sorted(paths.SYSTEMS.glob("*/tuning/hypervisor/kernel-cmdline")),
    *sorted(paths.SYSTEMS.glob("*/tuning/hypervisor/cpupower")),
    *sorted(paths.SYSTEMS.glob("*/slurm/railgauge.conf")),
]


def relative(path: Path) -> str:
    return str(path.relative_to(paths.SYSTEMS))


@pytest.mark.parametrize("path", INI_FILES, ids=relative)
def test_unit_or_profile_is_an_ini_file(path: Path) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(path.read_text())
    assert parser.sections()


@pytest.mark.parametrize("path", sorted(paths.SYSTEMS.rglob("sysctl.d/*.conf")), ids=relative)
def test_sysctl_file_has_one_value_a_key(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    keys = [re.fullmatch(r"((?:\w+\.)+\w+) = (\w+(?: \w+)*)", line) for line in lines]
    assert all(keys)
    assert len({key[1] for key in keys if key}) == len(lines)


@pytest.mark.parametrize("path", SETTING_FILES, ids=relative)
def test_every_setting_stands_under_a_comment_with_its_reason(path: Path) -> None:
    bare, above, section = [], "", ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#") and section not in NAMING:
            bare += [] if above.startswith("#") else [line]
        above = line
    assert bare == []


@pytest.mark.parametrize("path", SETTING_FILES, ids=relative)
def test_setting_says_whether_its_source_states_it(path: Path) -> None:
    assert re.search("source|Slurm|slurmd|ReFrame", path.read_text())


def test_ports_of_a_bond_are_the_links_that_the_system_names() -> None:
    (partition,) = systems.load("eth400g").partitions
    folder = paths.SYSTEMS / "eth400g" / "tuning" / "system-connections"
    ports = {}
    for path in folder.glob("*.nmconnection"):
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(path.read_text())
        ports[parser["connection"]["interface-name"]] = int(parser["ethernet"]["mtu"])
    bond = partition.extras.bond
    assert bond is not None
    assert ports == dict.fromkeys([bond.device, *bond.links], bond.mtu_bytes)


# ---- loading ----


def test_partition_has_all_nodes_of_its_list(write: Write) -> None:
    write()
    assert systems.load("alps").partition("cpu").nodes == ("c01", "c02", "c09")


def test_what_is_reframes_own_passes_through(write: Write) -> None:
    write()
    partition = systems.load("alps").partition("gpu")
    assert partition.model_dump()["scheduler"] == "slurm"


def test_partition_requires_nothing_unless_stated(write: Write) -> None:
    write()
    assert systems.load("alps").partition("cpu").extras.required == []


def test_unknown_system_is_an_error_that_lists_the_known_ones(write: Write) -> None:
    write()
    write("daint", GOOD.replace("alps", "daint"))
    assert "system 'alp' is unknown" in load_error("alp")
    assert "alps, daint" in load_error("alp")


def test_unknown_partition_is_an_error(write: Write) -> None:
    write()
    with pytest.raises(ConfigurationError, match="alps has no partition 'gpus'"):
        systems.load("alps").partition("gpus")


@pytest.mark.parametrize("bad", ["n[1-", "n[4-1]", '""', "n[a-b]"])
def test_bad_host_list_is_named_with_file_and_line(write: Write, bad: str) -> None:
    path = write(text=GOOD.replace("n[1-4]", bad if bad == '""' else f'"{bad}"'))
    assert load_error().startswith(f"{path}:8: partitions.0.extras.nodes: ")


@pytest.mark.parametrize(
    ("good", "bad", "line", "field"),
    [
        ("mtu_bytes: 9000", "mtu_bytes: 90", 9, "partitions.0.extras.mtu_bytes"),
        ("mtu_bytes: 9000", "mtu: 9000", 9, "partitions.0.extras.mtu"),
        ("required: [Iperf2Pair]", "required: Iperf2Pair", 10, "partitions.0.extras.required"),
        ("      nodes: c[01-02],c09", "      required: []", 13, "partitions.1.extras.nodes"),
        ("hostnames: [alps-login]", "hostnames: alps-login", 2, "hostnames"),
        ("[alps-login]", '[alps-login, "*-login"]', 2, "hostnames.1"),
        ("[tcp, gpu]", "tcp", 6, "partitions.0.features"),
    ],
)
def test_wrong_field_is_named_with_file_and_line(
    write: Write, good: str, bad: str, line: int, field: str
) -> None:
    path = write(text=GOOD.replace(good, bad))
    assert load_error().startswith(f"{path}:{line}: {field}: ")


# ---- what a feature needs ----

RDMA = """\
        devices: mlx5_[0-9]+
        rails: 8
        link_layer: Ethernet
        active_mtu_bytes: 4096
        rate: 400 Gb/sec (4X NDR)
"""
WAN = """\
        round_trips_ms: [44]
        reorder_percent: 0.02
        set: ["tc qdisc replace dev {device} root netem delay {one_way_ms}ms"]
        clear: ["tc qdisc delete dev {device} root"]
"""


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        ("optional: [bbcp]", "optional: [wdt]", "wdt is listed twice"),
        ("file_bytes: 512", "file_bytes: 512}, tiny: {files: 3, file_bytes: 512", "two file_sets"),
        ("scratch: /dev/shm", "wdt: {skip_writes: [true, true]}", "the same value twice"),
        ("scratch: /dev/shm", "wdt: {start_port: 65530}", "leaves no 8 ports"),
        ("scratch: /dev/shm", "always: {lftp: large}", "always has lftp"),
        ("scratch: /dev/shm", "always: {iperf3: large}", "always has iperf3"),
        ("scratch: /dev/shm", "always: {wdt: huge}", "always.wdt is huge"),
        ("scratch: /dev/shm", "always: {wdt: large}", "although series_only, which is not set"),
    ],
)
def test_transfers_that_contradict_themselves_are_an_error(
    write: Write, good: str, bad: str, reason: str
) -> None:
    assert good in TRANSFERS
    write(text=with_feature("transfers", TRANSFERS.replace(good, bad)))
    assert reason in load_error()


def test_tools_that_move_files_need_some(write: Write) -> None:
    lines = TRANSFERS.splitlines(keepends=True)
    write(text=with_feature("transfers", "".join(lines[:2])))
    assert "file_sets is empty" in load_error()


BOND = """\
        device: bond0
        links: [eth3, eth4]
        link_gbits: 200
        mtu_bytes: 9000
"""
NICS = """\
        cables: [[eth1, eth2], [eth3]]
        mtu_bytes: 9000
"""
TRANSFERS = """\
        tools: [iperf3, wdt]
        optional: [bbcp]
        file_sets: {large: {files: 1, file_bytes: 4096}, small: {files: 9, file_bytes: 512}}
        scratch: /dev/shm
"""
DESCRIPTIONS = {"rdma": RDMA, "wan": WAN, "bond": BOND, "nics": NICS, "transfers": TRANSFERS}
COUNTERS = """\
      counters:
        - counters: rdma/.*/symbol_error
          max: 0
          why: a dirty or bent cable
"""


def with_feature(name: str, description: str | None = None) -> str:
    """The good system whose first partition has a feature, and describes it."""
    text = GOOD.replace("[tcp, gpu]", f"[tcp, {name}]")
    described = DESCRIPTIONS[name] if description is None else description
    return text.replace("      required:", f"      {name}:\n{described}      required:")


def with_counters(counters: str = COUNTERS) -> str:
    return GOOD.replace("      required:", f"{counters}      required:")


@pytest.mark.parametrize(
    ("jobs", "good"), [("", False), ("max_jobs: 4", False), ("max_jobs: 1", True)]
)
def test_groups_of_a_partition_are_measured_one_after_the_other(
    write: Write, jobs: str, good: bool
) -> None:
    text = with_counters("      sweep: {nodes_per_job: 2}\n")
    write(text=text.replace("    extras:", f"    {jobs}\n    extras:", 1) if jobs else text)
    if good:
        assert systems.load("alps").partitions[0].extras.sweep.nodes_per_job == 2
    else:
        assert "nodes_per_job leaves the other groups to production" in load_error()


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_feature_without_its_description_is_an_error_that_names_it(write: Write, name: str) -> None:
    path = write(text=GOOD.replace("[tcp, gpu]", f"[tcp, {name}]"))
    error = load_error()
    assert error.startswith(f"{path}:4: partitions.0: ")
    assert f"feature {name} needs extras.{name}" in error


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_feature_with_its_description_loads(write: Write, name: str) -> None:
    write(text=with_feature(name))
    assert getattr(systems.load("alps").partition("gpu").extras, name) is not None


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_description_without_the_feature_loads(write: Write, name: str) -> None:
    write(text=with_feature(name).replace(f"[tcp, {name}]", "[tcp]"))
    assert systems.load("alps").partition("gpu").features == ["tcp"]


@pytest.mark.parametrize(
    ("name", "good", "bad", "field"),
    [
        ("rdma", "mlx5_[0-9]+", '"mlx5_["', "devices"),
        ("rdma", "mlx5_[0-9]+", '"*"', "devices"),
        ("rdma", "rails: 8", "rails: 0", "rails"),
        ("rdma", "link_layer: Ethernet", "link_layer: ethernet", "link_layer"),
        ("rdma", "active_mtu_bytes: 4096", "active_mtu_bytes: 9000", "active_mtu_bytes"),
        ("rdma", "rails: 8", "rails: 8\n        memlock_kib: 63", "memlock_kib"),
        ("rdma", "rails: 8", "rails: 8\n        line_gbits: 0", "line_gbits"),
        ("rdma", "rails: 8", "rails: 8\n        traffic_class: 256", "traffic_class"),
        ("rdma", "rails: 8", "rails: 8\n        gid_type: RoCEv2", "gid_type"),
        ("rdma", "rails: 8", "rails: 8\n        gid_index: 3", "gid_index"),
        ("wan", "[44]", "[-1]", "round_trips_ms.0"),
        ("wan", "[44]", "[10001]", "round_trips_ms.0"),
        ("wan", "[44]", "44", "round_trips_ms"),
        ("wan", "[44]", "[44]\n        series_ms: [-1]", "series_ms.0"),
        ("wan", "reorder_percent: 0.02", "reorder_percent: 101", "reorder_percent"),
        ("wan", "reorder_percent: 0.02", "reorder_percent: -1", "reorder_percent"),
        ("wan", '["tc qdisc delete dev {device} root"]', "[]", "clear"),
        ("wan", '["tc qdisc delete dev {device} root"]', "tc qdisc delete", "clear"),
        ("wan", "[44]", "[44]\n        ends: none", "ends"),
        ("wan", "[44]", "[44]\n        duration_s: 2", "duration_s"),
        ("transfers", "[iperf3, wdt]", "[]", "tools"),
        ("transfers", "[iperf3, wdt]", "[iperf3, rsync]", "tools.1"),
        ("transfers", "scratch: /dev/shm", "scratch: shm", "scratch"),
        ("transfers", "scratch: /dev/shm", "scratch: /dev/$HOME", "scratch"),
        ("transfers", "scratch: /dev/shm", "scratch: /dev/shm\n        pairs: some", "pairs"),
        ("transfers", "scratch: /dev/shm", "scratch: /dev/shm\n        streams: 0", "streams"),
        ("bond", "[eth3, eth4]", "[eth3]", "links"),
        ("bond", "link_gbits: 200", "link_gbits: 0", "link_gbits"),
        ("bond", "link_gbits: 200", "link_gbits: .inf", "link_gbits"),
        ("bond", "mtu_bytes: 9000", "mtu_bytes: 500", "mtu_bytes"),
        ("bond", "link_gbits: 200", "link_gbits: 200\n        streams: 1", "streams"),
        ("nics", "[[eth1, eth2], [eth3]]", "[[eth1, eth2], []]", "cables.1"),
        ("nics", "[[eth1, eth2], [eth3]]", "[]", "cables"),
        ("nics", "mtu_bytes: 9000", "mtu_bytes: 9000\n        least_share: 0", "least_share"),
        ("nics", "mtu_bytes: 9000", "mtu_bytes: 9000\n        settings: {}", "settings"),
    ],
)
def test_wrong_part_of_a_description_is_named_with_its_line(
    write: Write, name: str, good: str, bad: str, field: str
) -> None:
    assert good in DESCRIPTIONS[name]
    path = write(text=with_feature(name, DESCRIPTIONS[name].replace(good, bad)))
    lines = path.read_text().splitlines()
    key = f"        {field.partition('.')[0]}:"
    (number,) = [n for n, line in enumerate(lines, start=1) if line.startswith(key)]
    assert load_error().startswith(f"{path}:{number}: partitions.0.extras.{name}.{field}: ")


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("[eth3]", "[eth1]", "cables: eth1 twice"),
        (
            "mtu_bytes: 9000",
            "mtu_bytes: 9000\n        settings: {default: {}, tuned: {}}",
            "default and tuned ask for the same",
        ),
    ],
)
def test_nics_that_contradict_themselves_are_an_error(
    write: Write, good: str, bad: str, says: str
) -> None:
    write(text=with_feature("nics", NICS.replace(good, bad)))
    assert says in load_error()


def test_nics_are_measured_alone_by_cable_and_together_and_no_group_twice() -> None:
    nics = systems.Nics(cables=[["a", "b"], ["c"]], mtu_bytes=9000)
    assert nics.at_once("nic") == [["a"], ["b"], ["c"]]
    assert nics.at_once("cable") == [["a", "b"]]
    assert nics.at_once("all") == [["a", "b", "c"]]
    assert systems.Nics(cables=[["a", "b"]], mtu_bytes=9000).at_once("all") == []


@pytest.mark.parametrize(
    ("names", "gbits"), [(["a"], 126), (["a", "b"], 200), (["a", "c"], 252), (["a", "b", "c"], 252)]
)
def test_nics_at_once_have_the_rate_of_what_they_share(names: list[str], gbits: float) -> None:
    rates = {"nic_gbits": 126, "cable_gbits": 200, "node_gbits": 252}
    nics = systems.Nics(cables=[["a", "b"], ["c"]], mtu_bytes=9000, **rates)
    assert nics.gbits(names) == gbits
    assert systems.Nics(cables=[["a"]], mtu_bytes=9000).gbits(["a"]) is None


@pytest.mark.parametrize("pattern", ['"*"', '"("', '"rdma/[a-"', '"(?P<x"'])
def test_pattern_that_is_no_regular_expression_is_reported_as_such(
    write: Write, pattern: str
) -> None:
    write(text=with_counters(COUNTERS.replace("rdma/.*/symbol_error", pattern)))
    assert "extras.counters.0.counters: Value error, not a regular expression: " in load_error()


@pytest.mark.parametrize(
    ("good", "bad", "field"),
    [
        ("max: 0", "max: -1", "max"),
        ("max: 0", "max: 0.5", "max"),
        ("why: a dirty or bent cable", 'why: ""', "why"),
        ("          why: a dirty or bent cable\n", "", "why"),
        ("max: 0", "least: 0", "max"),
    ],
)
def test_wrong_part_of_a_budget_is_named(write: Write, good: str, bad: str, field: str) -> None:
    write(text=with_counters(COUNTERS.replace(good, bad)))
    assert f"partitions.0.extras.counters.0.{field}: " in load_error()


def test_budgets_keep_their_order(write: Write) -> None:
    second = COUNTERS.partition("\n")[2].replace("symbol_error", "link_downed")
    write(text=with_counters(COUNTERS + second))
    budgets = systems.load("alps").partition("gpu").extras.counters
    assert [budget.counters.rpartition("/")[2] for budget in budgets] == [
        "symbol_error",
        "link_downed",
    ]


def test_long_way_is_measured_with_the_kernels_buffer_and_a_large_one(write: Write) -> None:
    write(text=with_feature("wan"))
    wan = systems.load("alps").partition("gpu").extras.wan
    assert wan is not None
    assert (wan.window_bytes, wan.congestion) == ([None, 128 * 2**20], ["cubic", "bbr"])


def test_system_without_partitions_is_an_error(write: Write) -> None:
    write(text="name: alps\nhostnames: [alps-login]\npartitions: []\n")
    assert "partitions: " in load_error()


def test_system_named_otherwise_than_its_folder_is_an_error(write: Write) -> None:
    write(text=GOOD.replace("name: alps", "name: daint"))
    assert "name is 'daint', expected that of the folder, 'alps'" in load_error()


# ---- which system is this? ----


def test_host_is_known_by_its_hostnames(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    write("daint", GOOD.replace("alps", "daint"))
    on_host(monkeypatch, "daint-login")
    assert systems.current() == "daint"


def test_host_of_two_systems_is_refused_with_both_names(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    write("daint", GOOD.replace("alps", "daint").replace("daint-login", "alps-l.*"))
    on_host(monkeypatch, "alps-login", lab_up=True)
    with pytest.raises(ConfigurationError) as caught:
        systems.current()
    assert "alps/reframe.yaml: " in str(caught.value) and "daint/reframe.yaml: " in str(
        caught.value
    )
    assert "RFM_SYSTEM=alps, or RFM_SYSTEM=daint" in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "accept",
        "accept --plan",
        "accept --resume latest",
        "gate adopt --act",
        "gate hold --act",
        "gate run --act",
        "gate status",
        "gate release --nodes n1 --why tried --act",
        "gate update-done --nodes n1 --act",
        "inventory show --nodes n1",
    ],
)
def test_every_command_refuses_a_host_of_two_systems(
    write: Write, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    write()
    write("daint", GOOD.replace("name: alps", "name: daint"))
    on_host(monkeypatch, "alps-login")
    answer = invoke(cli, words.split())
    assert isinstance(answer.exception, ConfigurationError), answer.output
    assert "host 'alps-login' is of 2 systems" in str(answer.exception)


@pytest.mark.parametrize("option", ["daint", None])
def test_host_of_two_systems_is_chosen_by_option_or_variable(
    write: Write, monkeypatch: pytest.MonkeyPatch, option: str | None
) -> None:
    write()
    write("daint", GOOD.replace("name: alps", "name: daint"))
    on_host(monkeypatch, "alps-login")
    if option is None:
        monkeypatch.setenv("RFM_SYSTEM", "daint")
    assert systems.chosen(option) == "daint"


def test_hostnames_are_patterns(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(text=GOOD.replace("alps-login", "alps-ln\\d+"))
    on_host(monkeypatch, "alps-ln003")
    assert systems.current() == "alps"


@pytest.mark.parametrize("host", ["login", "old-alps-login", "", "alps"])
def test_unknown_host_is_an_error_with_a_next_step(
    write: Write, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    write()
    on_host(monkeypatch, host)
    with pytest.raises(ConfigurationError) as caught:
        systems.current()
    assert f"host {host!r} matches no `hostnames`" in str(caught.value)
    assert "next: `railgauge lab up`" in str(caught.value)


def test_unknown_host_with_the_lab_up_is_the_lab(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write()
    on_host(monkeypatch, "laptop", lab_up=True)
    monkeypatch.setenv("RAILGAUGE_LAB_DIR", str(tmp_path / "labs"))
    (tmp_path / "labs" / "run").mkdir(parents=True)
    (tmp_path / "labs" / "run" / "system").write_text("lab")
    assert systems.current() == "lab"


def test_unknown_host_with_the_lab_of_another_system_up_is_that_one(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write()
    on_host(monkeypatch, "laptop", lab_up=True)
    monkeypatch.setenv("RAILGAUGE_LAB_DIR", str(tmp_path / "labs"))
    (tmp_path / "labs" / "run").mkdir(parents=True)
    (tmp_path / "labs" / "run" / "system").write_text("lab32")
    assert systems.current() == "lab32"


def test_hostnames_win_over_the_lab(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    on_host(monkeypatch, "alps-login", lab_up=True)
    assert systems.current() == "alps"


@pytest.mark.parametrize("name", [name for name in systems.names() if systems.is_of_lab(name)])
def test_a_host_with_the_name_of_a_labs_head_is_not_of_that_lab(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    on_host(monkeypatch, spec.load(spec.file(name)).head.name)
    with pytest.raises(ConfigurationError, match="matches no `hostnames`"):
        systems.current()


@pytest.mark.parametrize("here", [None, "lab"])
def test_a_sites_own_system_wins_over_that_of_the_lab(
    write: Write, monkeypatch: pytest.MonkeyPatch, here: str | None
) -> None:
    write(text=GOOD.replace("alps-login", "^head$"))
    of_lab = write("lab", GOOD.replace("alps-login", "^head$").replace("alps", "lab"))
    of_lab.with_name("lab.yaml").write_text("")
    on_host(monkeypatch, "head")
    monkeypatch.setattr(lab, "system_here", lambda: here)
    assert systems.current() == "alps"


def test_broken_system_is_an_error_also_where_another_would_match(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("aaa", "name: aaa\n")
    write()
    on_host(monkeypatch, "alps-login")
    with pytest.raises(ConfigurationError, match="aaa/reframe"):
        systems.current()


# ---- which system was chosen? ----


@pytest.mark.parametrize(
    ("option", "variable", "chosen"),
    [
        ("daint", "lab", "daint"),
        (None, "lab", "lab"),
        (None, "lab:ns", "lab"),
        (None, "", "alps"),
        (None, None, "alps"),
        ("", "lab", "lab"),
    ],
)
def test_option_wins_over_variable_over_host(
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    variable: str | None,
    chosen: str,
) -> None:
    write()
    for name in ("daint", "lab"):
        write(name, GOOD.replace("alps", name))
    on_host(monkeypatch, "alps-login")
    if variable is not None:
        monkeypatch.setenv("RFM_SYSTEM", variable)
    assert systems.chosen(option) == chosen


@pytest.mark.parametrize(("option", "variable"), [("nosuch", "alps"), (None, "nosuch:ns")])
def test_a_system_without_a_description_is_an_error_with_those_there_are(
    write: Write, monkeypatch: pytest.MonkeyPatch, option: str | None, variable: str
) -> None:
    write()
    monkeypatch.setenv("RFM_SYSTEM", variable)
    with pytest.raises(ConfigurationError, match=r"'nosuch' is unknown; .* has: alps"):
        systems.chosen(option)


# ---- as ReFrame sees them ----


def test_reframe_is_given_every_system(write: Write) -> None:
    write()
    write("daint", GOOD.replace("alps", "daint"))
    assert [entry["name"] for entry in reframe_settings.site_configuration()["systems"]] == [
        "alps",
        "daint",
    ]


def test_reframe_finds_the_system_only_by_its_name(write: Write) -> None:
    write()
    assert reframe_settings.site_configuration()["systems"][0]["hostnames"] == ["alps$"]


def test_broken_system_is_no_site_configuration(write: Write) -> None:
    write(text=GOOD.replace("n[1-4]", '"n[1-"'))
    with pytest.raises(ConfigurationError, match=r"extras\.nodes"):
        reframe_settings.site_configuration()


# ---- host lists ----


@pytest.mark.parametrize(
    ("text", "names"),
    [("n[1-3]", ("n1", "n2", "n3")), ("n[08-10],m1", ("m1", "n08", "n09", "n10")), ("n1", ("n1",))],
)
def test_host_list_names_its_nodes(text: str, names: tuple[str, ...]) -> None:
    assert tuple(sorted(hostlist.expand(text))) == names


@pytest.mark.parametrize("text", ["", "n[", "n[1-", "n[3-1]"])
def test_what_is_no_host_list_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="host list"):
        hostlist.expand(text)


def test_folded_names_expand_to_themselves() -> None:
    names = ("n1", "n2", "n3", "n7")
    assert hostlist.expand(hostlist.fold(names)) == names


@pytest.mark.parametrize(
    ("good", "bad", "told"),
    [
        ("mtu_bytes: 9000", "link_gbits: true", "link_gbits: Value error, expected a number"),
        ("mtu_bytes: 9000", "link_gbits: 400000000000", "less than or equal to 100000"),
        ("- name: gpu", "- name: g pu", "partitions.0.name: String should match pattern"),
        ("name: alps", "name: al:ps", "name: String should match pattern"),
        ("- name: gpu", "- name: 1gpu", "partitions.0.name: String should match pattern"),
        ("scheduler: slurm", "max_jobs: yes", "max_jobs: Input should be a valid integer"),
        ("scheduler: slurm", "max_jobs: true", "max_jobs: Input should be a valid integer"),
        ("scheduler: slurm", "max_jobs: 0", "max_jobs: Input should be greater than or equal to 1"),
    ],
)
def test_what_reframe_or_a_limit_could_not_use_is_named(
    write: Write, good: str, bad: str, told: str
) -> None:
    path = write(text=GOOD.replace(good, bad, 1))
    assert told in (error := load_error()) and str(path) in error


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ("device: mlx5_0", "device"),
        ("device: '-C:1'", "device"),
        ("node: n9", "n9 is none of nodes"),
        ("prefix: sudo", "prefix"),
        ("timeout_s: 1", "timeout_s"),
        ("most_errors: -1", "most_errors"),
    ],
)
def test_a_subnet_that_cannot_be_read_so_is_refused(write: Write, found: str, says: str) -> None:
    write(text=GOOD.replace("required:", f"infiniband: {{{found}}}\n      required:"))
    with pytest.raises(ConfigurationError, match=says):
        systems.load("alps")


def test_a_subnet_needs_no_description(write: Write) -> None:
    write(text=GOOD.replace("features: [tcp, gpu]", "features: [tcp, infiniband]"))
    how = systems.load("alps").partition("gpu").extras.infiniband
    assert (how.device, how.node, how.prefix, how.timeout_s) == ("", "", [], 120)
