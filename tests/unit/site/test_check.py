"""A system of one's own: made from one like it, and checked against files, Slurm and references."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge import hostlist, paths, systems
from railgauge.cli.system import system as commands
from railgauge.cluster import check_names
from railgauge.common.errors import ConfigurationError, PrerequisiteError, RailgaugeError
from railgauge.model import references
from railgauge.site import check, host_pattern, mapping, new
from railgauge.site.check import checks
from railgauge.site.check.description import rates, slurm_partition
from railgauge.site.check.fragments import fragment_lines
from railgauge.site.check.hostnames import examples
from railgauge.site.check.line import Line
from railgauge.slurm import client
from railgauge.slurm.nodes import gpus_in
from railgauge.slurm.partitions import Cluster, Run, cluster
from railgauge.systems import expected
from tests.command_line import invoke
from tests.properties import tries

COMMITTED = systems.names()

POD = """\
# Eight GPUs a node, eight rails.
# Source: a paper.
name: pod
descr: a pod
hostnames: ['^pod-login']  # the head
partitions:
  - name: gpu
    scheduler: slurm
    launcher: srun
    # everybody's
    access: [--partition=gpu]
    environs: [builtin]
    features: [tcp, mpi, rdma, wan, nccl, sockets, gpu]
    devices:
      - type: gpu
        num_devices: 8
    extras:
      # all of them
      nodes: pod-n[01-08]
      mtu_bytes: 9000
      link_gbits: 100
      required: [NodeState, Iperf2Pair, NcclPair]
      rdma:
        devices: mlx5_[0-7]
        rails: 8
        link_layer: Ethernet
        active_mtu_bytes: 4096
        rate: 400 Gb/sec (4X NDR)
      wan:
        round_trips_ms: [44]
        reorder_percent: 0
        set: ["tc qdisc replace dev {device} root netem delay {one_way_ms}ms"]
        clear: ["tc qdisc delete dev {device} root"]
      nccl:
        gpus_per_node: 8
        gpu: NVIDIA H100
        nvlink: {gbytes_s: 450, nvls: true}
        nics: {devices: [mlx5_0, mlx5_1], gbits: 400, link_layer: Ethernet}
        binaries: {path: /opt/nccl-tests, version: 2.17.6}
        operations:
          node: [all_reduce]
          pair: [all_reduce, alltoall]
          all: [all_reduce]
"""

#: A published number with its whole condition, under which a case of POD is.
ENTRY = """\
  - check: NcclPair
    partition: gpu
    operation: all_reduce
    transport: default
    nodes: 2
    size_bytes: 17179869184
    metrics:
      busbw:
        value: 390
        unit: GB/s
        kind: published
        provenance: {source: a paper, date: 2026-11-21}
"""

FILE = "# Eight GPUs.\nsystem: pod\nreferences:\n"

NODES_CONF = """\
# slurm.conf: include pod/nodes.conf
NodeName=pod-n[01-08] CPUs=112 RealMemory=1000 \\
  Gres=gpu:h100:8 Feature=h100 State=UNKNOWN  # all
"""
PARTITIONS_CONF = "PartitionName=gpu Nodes=pod-n[01-08] Default=YES State=UP\n"

HOST = "mine-login1"

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _host(own_systems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is of no system, and systems that a test alone sees."""
    monkeypatch.setattr("socket.gethostname", lambda: HOST)


@pytest.fixture
def pod() -> Path:
    """The folder of POD, with its Slurm fragments and a recording."""
    return write_system("pod", POD)


def write_system(name: str, text: str, stored: str | None = None) -> Path:
    folder = paths.SYSTEMS / name
    (folder / "slurm").mkdir(parents=True)
    (folder / "recorded").mkdir()
    (folder / "reframe.yaml").write_text(text)
    (folder / "slurm" / "nodes.conf").write_text(NODES_CONF.replace("pod", name))
    (folder / "slurm" / "partitions.conf").write_text(PARTITIONS_CONF.replace("pod", name))
    (folder / "recorded" / "pair-all_reduce-default.txt").write_text("# pod\n")
    if stored is not None:
        references.path_for(name).write_text(stored)
    return folder


# ---- a Slurm that answers what a test says ----

#: Nodes by partition, Gres and state by node.
Nodes = Mapping[str, tuple[str, str]]


def no_slurm(*_: str) -> str:
    raise PrerequisiteError("scontrol is not on the path: no Slurm here")


def answers(partitions: str, nodes: str) -> Run:
    return lambda *command: partitions if "partition" in command else nodes


def a_slurm(partitions: Mapping[str, str], gres: str = "gpu:h100:8(S:0-1)", **of: str) -> Run:
    """Partitions with their host lists; every node has `gres`, or what `of` says of its name."""
    shown = [
        f"PartitionName={name} AllowGroups=ALL Default=NO Nodes={nodes} State=UP TotalNodes=1"
        for name, nodes in partitions.items()
    ]
    listed = [
        f"NodeName={node} CPUTot=112 AvailableFeatures=h100,ib Gres={of.get(node, gres)} "
        "RealMemory=1000 State=IDLE"
        for nodes in partitions.values()
        if nodes != "(null)"
        for node in hostlist.expand(nodes)
    ]
    return answers("\n".join(shown) + "\n", "\n".join(listed) + "\n")


OURS = {"gpu": "pod-n[01-08]"}


# ---- what Slurm says ----


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:h100:8", 8),
        ("gpu:4", 4),
        ("gpu:h100", 1),
        ("gpu", 1),
        ("gpu:1g.10gb:7", 7),
        ("gpu:1g.10gb", 1),
        ("gpu:no_consume:8", 8),
        ("gpu:h100:no_consume", 1),
        ("gpu:h100:4(S:0,2),gpu:a100:4(S:1)", 8),
        ("nic:cx7:8,gpu:gb200:4(S:0-1),shard:16", 4),
        ("(null)", 0),
        ("", 0),
        ("gpumem:80", 0),
    ],
)
def test_gpus_of_a_node_are_read_from_its_gres(gres: str, gpus: int) -> None:
    assert gpus_in(gres) == gpus


def test_gres_with_a_count_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a number of GPUs"):
        gpus_in("gpu:h100:eight")


KINDS = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=6).filter(
    lambda kind: not kind.isdigit()
)


@settings(max_examples=tries(100))
@given(st.lists(st.tuples(st.sampled_from(["gpu", "nic", "shard"]), KINDS, st.integers(0, 72))))
def test_all_gpus_in_a_gres_are_counted_and_nothing_else(
    items: list[tuple[str, str, int]],
) -> None:
    gres = ",".join(f"{name}:{kind}:{count}(S:0,1)" for name, kind, count in items)
    assert gpus_in(gres) == sum(count for name, _, count in items if name == "gpu")


def test_node_of_several_partitions_is_in_each() -> None:
    found = cluster(a_slurm({"gpu": "n[1-2]", "debug": "n2"}))
    assert found.partitions == {"gpu": ("n1", "n2"), "debug": ("n2",)}


def test_node_names_may_end_in_a_suffix() -> None:
    assert cluster(a_slurm({"gpu": "n[9-10]-ib"})).partitions == {"gpu": ("n9-ib", "n10-ib")}


def test_node_that_only_the_partition_names_is_there_without_facts() -> None:
    found = cluster(answers("PartitionName=gpu Nodes=n[1-2] State=UP\n", ""))
    assert (found.partitions, found.nodes["n1"].gpus) == ({"gpu": ("n1", "n2")}, 0)


@pytest.mark.parametrize("state", ["DOWN*", "IDLE+POWERED_DOWN", "DOWN+DRAIN", "IDLE+CLOUD"])
def test_node_belongs_to_its_partition_in_whatever_state(state: str) -> None:
    line = f"NodeName=n1 CPUTot=4 Gres=(null) RealMemory=100 State={state}\n"
    found = cluster(answers("PartitionName=gpu Nodes=n1\n", line))
    assert found.partitions == {"gpu": ("n1",)}


def test_partition_without_nodes_is_one() -> None:
    assert cluster(a_slurm({"empty": "(null)"})).partitions == {"empty": ()}


def test_slurm_without_partitions_has_none() -> None:
    assert cluster(answers("No partitions in the system\n", "")) == Cluster({}, {})


@pytest.mark.parametrize(
    ("partitions", "nodes", "says"),
    [
        ("slurm_load_partitions error\n", "", "scontrol show partition printed 'slurm_load"),
        ("PartitionName=gpu Nodes=n[1-\n", "", "expected a list of nodes"),
        ("PartitionName=gpu Nodes=n1\n", "n1 gpu\n", "node printed 'n1 gpu', expected NodeName="),
    ],
)
def test_answer_that_is_none_of_slurms_is_reported(partitions: str, nodes: str, says: str) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        cluster(answers(partitions, nodes))
    assert says in str(caught.value)


# ---- checking: the description ----


def lines_of(
    name: str = "pod", ask: Run = no_slurm, host: str = HOST, named_by: str = ""
) -> list[Line]:
    systems.load.cache_clear()
    return check.check(name, ask, host, named_by)


def only(lines: Sequence[Line], status: str, thing: str = "") -> list[str]:
    """The lines of that status about a thing, whatever the folder of the test is called."""
    here = str(paths.SYSTEMS.parent)
    found = [line for line in lines if line.status == status]
    return [str(line) for line in found if thing in line.thing.replace(here, "")]


def change(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def problems_after(pod: Path, before: str, after: str, thing: str = "") -> list[str]:
    change(pod / "reframe.yaml", before, after)
    return only(lines_of(), "problem", thing)


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_system_has_no_problems(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SYSTEMS", paths.HOME / "configs" / "systems")
    monkeypatch.setenv("RAILGAUGE_REFERENCES", str(paths.HOME / "results" / "references"))
    assert only(lines_of(name), "problem") == []


def test_good_system_has_no_problems(pod: Path) -> None:
    references.path_for("pod").write_text(FILE + ENTRY)
    assert only(lines_of(ask=a_slurm(OURS)), "problem") == []


def test_unknown_system_is_wrong_usage_with_a_next_step(pod: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        lines_of("nosuch")
    assert "nosuch/reframe.yaml: no such file; there is: pod" in str(caught.value)
    assert "or: railgauge system new nosuch" in str(caught.value)


def test_description_that_does_not_load_is_a_problem_with_file_and_line(pod: Path) -> None:
    found = problems_after(pod, "mtu_bytes: 9000", "mtu_byts: 9000", "description")
    assert len(found) == 1
    assert re.search(r"pod/reframe\.yaml:\d+: partitions\.0\.extras\.mtu_byts: ", found[0])


def test_what_follows_from_a_broken_description_is_not_checked(pod: Path) -> None:
    change(pod / "reframe.yaml", "mtu_bytes: 9000", "mtu_byts: 9000")
    assert len(only(lines_of(), "not checked", "everything else")) == 1


def test_broken_other_system_is_a_problem(pod: Path) -> None:
    write_system("zoo", "name: zoo\n")
    (found,) = only(lines_of(), "problem", "system zoo")
    assert "does not load, and ReFrame loads all" in found


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ("launcher: srun", "launchr: srun", "ReFrame knows no field 'launchr'"),
        ("descr: a pod", "description: a pod", "ReFrame knows no field 'description'"),
    ],
)
def test_field_that_reframe_does_not_know_is_a_problem(
    pod: Path, before: str, after: str, field: str
) -> None:
    (found,) = problems_after(pod, before, after, "description")
    assert field in found


@pytest.mark.parametrize(
    ("rate", "line_gbits", "says"),
    [
        ("400 Gb/sec (4X NDR)", 400, ""),
        # of PCIe behind the port
        ("200 Gb/sec (4X HDR)", 126, ""),
        ("400 Gb/sec (4X NDR)", 50, "GB/s are eight times as many Gb/s"),
        ("400 Gb/sec (4X NDR)", 400000, "correct one of the two"),
        ("200 Gb/sec (4X HDR)", 400, "correct one of the two"),
        ("400Gb/s", 400, "expected such as '400 Gb/sec (4X NDR)'"),
    ],
)
def test_a_rails_rate_is_reported_where_the_description_contradicts_itself(
    monkeypatch: pytest.MonkeyPatch, rate: str, line_gbits: float, says: str
) -> None:
    monkeypatch.setattr(paths, "SYSTEMS", paths.HOME / "configs" / "systems")
    system = systems.load("dgx-h100")
    (gpu,) = [one for one in system.partitions if one.extras.rdma is not None]
    assert gpu.extras.rdma is not None
    rdma = gpu.extras.rdma.model_copy(update={"rate": rate, "line_gbits": line_gbits})
    extras = gpu.extras.model_copy(update={"rdma": rdma, "nccl": None})
    lines = rates(system, gpu.model_copy(update={"extras": extras}))
    assert [line.status for line in lines] == (["warning"] if says else [])
    assert all(says in str(line) for line in lines)


def test_enforcement_of_an_unknown_check_is_a_problem(pod: Path) -> None:
    (pod / "gate.yaml").write_text("enforcement: {Iperf2Pair: hold, Iperf2Pear: hold}\n")
    (message,) = only(lines_of("pod"), "problem", "gate")
    assert (
        "gate.yaml:1: enforcement.Iperf2Pear: found Iperf2Pear" in message
        and "Iperf2Pair" in message
    )


def test_the_checks_that_a_gate_knows_are_those_that_load() -> None:
    loaded, broken = checks.known(paths.CHECKS)
    assert not broken and check_names.declared(paths.CHECKS) == (set(loaded), ())


def test_two_partitions_of_one_name_are_a_problem(pod: Path) -> None:
    text = (pod / "reframe.yaml").read_text()
    (pod / "reframe.yaml").write_text(text + text.partition("partitions:\n")[2])
    (found,) = only(lines_of(), "problem", "description")
    assert "gpu twice" in found


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("scheduler: slurm", "scheduler: pbs", "gpu: scheduler: found pbs, expected slurm"),
        ("    scheduler: slurm\n", "", "gpu: scheduler: found nothing, expected slurm"),
        ("launcher: srun", "launcher: ibrun", "gpu: launcher: found ibrun, expected srun or"),
        ("environs: [builtin]", "environs: [gnu]", "gpu: environs: found ['gnu'], expected"),
        ("[--partition=gpu]", "[--account=x]", "gpu: access: found ['--account=x'], expected"),
    ],
)
def test_field_that_starts_jobs_must_be_right(
    pod: Path, before: str, after: str, says: str
) -> None:
    (found,) = problems_after(pod, before, after, says.rpartition(": found")[0])
    assert says in found


@pytest.mark.parametrize(
    ("access", "partition"),
    [
        (["--partition=gpu"], "gpu"),
        (["--account=a", "--partition=gpu"], "gpu"),
        (["--account=a --partition gpu"], "gpu"),
        (["-p", "gpu"], "gpu"),
        (["-pgpu"], "gpu"),
        (["--account=a"], None),
        ([], None),
        (None, None),
    ],
)
def test_slurm_partition_is_read_from_the_access_options(
    access: object, partition: str | None
) -> None:
    assert slurm_partition(access) == partition


# ---- checking: whose host is it? ----


def hostnames(pod: Path, patterns: str) -> None:
    change(pod / "reframe.yaml", "['^pod-login']", patterns)


@pytest.mark.parametrize("pattern", [".*", ".+", "[a-z]+", "", "local", "^[a-z0-9-]*$"])
def test_pattern_that_matches_any_host_is_a_problem(pod: Path, pattern: str) -> None:
    hostnames(pod, f"['{pattern}']")
    (found,) = only(lines_of(), "problem", "hostnames")
    assert "matches any host" in found


def test_pattern_that_matches_a_host_of_another_system_is_a_problem(pod: Path) -> None:
    write_system("zoo", POD.replace("pod", "zoo").replace("^zoo-login", "^pod-login[0-9]+$"))
    (found,) = only(lines_of(), "problem", "hostnames")
    assert "'^pod-login' of pod matches 'pod-login0', a host of zoo" in found


def test_pattern_of_another_system_that_matches_our_host_is_a_problem(pod: Path) -> None:
    write_system("zoo", POD.replace("pod", "zoo").replace("^zoo-login", "^pod"))
    (found,) = only(lines_of(), "problem", "hostnames")
    assert "'^pod' of zoo matches 'pod-login', a host of pod" in found


def test_host_of_two_systems_is_a_problem(pod: Path) -> None:
    write_system("zoo", POD.replace("pod", "zoo").replace("^zoo-login", "^mine-(login|head)1"))
    hostnames(pod, "['^mine-.*[0-9]$']")
    (found,) = only(lines_of(), "problem", "hostnames")
    assert f"this host, {HOST}, is of pod and of zoo: every command refuses it" in found


def test_hostnames_that_were_copied_are_a_problem(pod: Path) -> None:
    write_system("zoo", POD.replace("name: pod", "name: zoo"))
    (found,) = only(lines_of(), "problem", "hostnames")
    assert "'^pod-login' is that of zoo too" in found
    assert f"next: edit hostnames in {pod}/reframe.yaml: '^mine-login1$' is exactly" in found


def test_hostnames_of_a_lab_are_no_problem_of_a_sites_system(pod: Path) -> None:
    folder = write_system("zoo", POD.replace("name: pod", "name: zoo").replace("^pod", "^mine"))
    (folder / "lab.yaml").write_text("")
    hostnames(pod, f"['^{HOST}$']")
    (found,) = only(lines_of(), "ok", "hostnames")
    assert f"this host, {HOST}, and no other system's" in found


def test_hostnames_of_this_host_alone_are_good(pod: Path) -> None:
    write_system("zoo", POD.replace("pod", "zoo"))
    hostnames(pod, f"['^{HOST}$']")
    (found,) = only(lines_of(), "ok", "hostnames")
    assert f"this host, {HOST}, and no other system's" in found


def test_host_that_is_none_of_the_system_is_a_hint(pod: Path) -> None:
    assert len(only(lines_of(), "hint", "hostnames")) == 1


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("^vm-?pair", ["vmpair", "vm-pair"]),
        (r"login\d+", ["login0", "login00"]),
        (r"ln[1-4]\.alps(\.ch)?$", ["ln1.alps", "ln1.alps.ch"]),
        ("(one|two)-login", ["one-login", "two-login"]),
        ("head", ["head"]),
        ("a.c", ["axc"]),
        # What no name can be found for has no example.
        ("[^a]x", []),
        ("(?!a)b", []),
    ],
)
def test_names_that_a_pattern_matches_are_found(pattern: str, names: list[str]) -> None:
    assert examples(pattern) == names


@settings(max_examples=tries(100))
@given(st.from_regex(r"\A[a-z][a-z0-9.-]{0,20}\Z"))
def test_pattern_for_a_host_matches_that_host_alone(host: str) -> None:
    pattern = host_pattern(host)
    assert examples(pattern) == [host]
    assert not re.match(pattern, host + "x")


# ---- checking: features and checks ----


def test_feature_that_no_check_uses_is_a_problem(pod: Path) -> None:
    (found,) = problems_after(pod, "[tcp, mpi,", "[tpc, mpi,", "features")
    assert "'tpc' is used by no check" in found


def test_mnnvl_where_nvlink_ends_at_the_node_is_a_problem(pod: Path) -> None:
    (found,) = problems_after(pod, "nccl, sockets, gpu]", "nccl, mnnvl, gpu]", "features")
    assert "domain_nodes above 1" in found


def test_gpus_that_reframe_is_given_must_be_those_of_nccl(pod: Path) -> None:
    (found,) = problems_after(pod, "num_devices: 8", "num_devices: 4", "features")
    assert "devices has 4 GPUs, expected 8" in found


def test_description_of_a_feature_that_is_not_there_is_a_warning(pod: Path) -> None:
    change(pod / "reframe.yaml", "rdma, wan, nccl", "rdma, nccl")
    (found,) = only(lines_of(), "warning", "features")
    assert "extras.wan describes what features does not have" in found


def test_checks_of_a_partition_are_named(pod: Path) -> None:
    (found,) = only(lines_of(), "ok", "gpu: features")
    assert "Iperf2Pair, MpiWorld, NcclAll, NcclNode, NcclPair, RailProbe, RdmaBandwidth" in found
    # POD has no segments, and perftest without CUDA.
    assert "NcclSegment" not in found
    assert "RdmaGpuMemory" not in found


def test_a_tool_that_runs_one_group_at_a_time_is_a_warning(pod: Path) -> None:
    assert only(lines_of(), "warning", "nccl") == []
    change(pod / "reframe.yaml", "version: 2.17.6", "version: 2.13.9")
    (found,) = only(lines_of(), "warning", "nccl")
    assert "2.13.9 runs one group of nodes at a time" in found and "2.14.0" in found


def test_partition_that_no_check_measures_is_a_problem(pod: Path) -> None:
    features = "tcp, mpi, rdma, wan, nccl, sockets, gpu"
    text = POD.partition("      rdma:\n")[0].replace(features, "gpu")
    (pod / "reframe.yaml").write_text(text)
    (found,) = only(lines_of(), "problem", "gpu: features")
    assert "no check has a case here" in found


def test_every_committed_check_says_what_it_measures() -> None:
    found, broken = checks.known(paths.CHECKS)
    assert [c.name for c in found.values() if c.cases is None] == []
    assert broken == []


def test_the_first_parameter_of_a_check_has_its_cases_for_values() -> None:
    for known in checks.known(paths.CHECKS)[0].values():
        (first, *_) = known.kind.param_space.params.values()
        (name, *_) = [c.__name__ for c in known.kind.__mro__ if "cases" in vars(c)]
        assert first.owner == name


CHECKS_OF_A_SITE = """\
import reframe as rfm
from reframe.core.builtins import parameter
from railgauge.checks.framework.check import simple_test
from railgauge.checks.jobs.pairs import RingPairs
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.rdma.rail import RailLinks

class Base(SweepCheck):
    cases = RailLinks("all")
    pair = parameter(cases, loggable=True)

@simple_test
class One(Base):
    metrics = ["bandwidth_65536B", "stream_bandwidth_min"]

@simple_test
class Two(SweepCheck):
    cases = RingPairs("tcp", "x")
    pair = parameter(cases, loggable=True)
    gating = ("jain_index",)

@rfm.simple_test
class Three(rfm.RunOnlyRegressionTest):
    valid_systems = ["+fast %kind=x"]
    valid_prog_environs = ["*"]
    size = parameter([1, 2])
"""


def test_checks_are_classes_that_are_tests(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CHECKS_OF_A_SITE)
    found, broken = checks.known(tmp_path)
    assert broken == []
    assert {name: c.features for name, c in found.items()} == {
        "One": ("rdma",),
        "Two": ("tcp", "x"),
        "Three": ("fast",),
    }
    needed = [found[name].kind.needs_references_of() for name in ("One", "Two")]
    assert needed == [("bandwidth",), ("jain_index",)]


@pytest.mark.parametrize("text", ["class One(\n", "import nosuch\n", "1 / 0\n"])
def test_check_file_that_does_not_load_is_a_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text)
    _, (line,) = checks.known(tmp_path)
    assert (line.status, "a.py: does not load" in line.text) == ("problem", True)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("[Iperf2Piar]", "Iperf2Piar is no check in "),
        ("[BondPair]", "BondPair runs where features has bond"),
        ("[NcclSegment]", "NcclSegment measures what extras.nccl.operations has for segment"),
        ("[RdmaGpuMemory]", "RdmaGpuMemory runs where extras.rdma.perftest.cuda is true"),
    ],
)
def test_required_check_that_never_runs_is_a_problem(pod: Path, names: str, says: str) -> None:
    (found,) = problems_after(pod, "[NodeState, Iperf2Pair, NcclPair]", names, "required")
    assert says in found


def test_required_check_of_more_nodes_than_there_are_is_a_problem(pod: Path) -> None:
    change(pod / "reframe.yaml", "NcclPair]", "NcclAll]")
    (found,) = problems_after(pod, "pod-n[01-08]", "pod-n[01-02]", "gpu: required")
    assert "NcclAll finds no group of nodes: 2 nodes" in found


def test_nothing_required_is_a_warning(pod: Path) -> None:
    change(pod / "reframe.yaml", "      required: [NodeState, Iperf2Pair, NcclPair]\n", "")
    assert len(only(lines_of(), "warning", "required")) == 1


def test_required_check_without_a_reference_needs_a_baseline(pod: Path) -> None:
    references.path_for("pod").write_text(FILE + ENTRY)
    (found,) = only(lines_of(), "hint", "baselines")
    metrics = "bandwidth, retransmits"
    assert f"no reference for Iperf2Pair ({metrics})" in found
    assert found.endswith("next: railgauge accept --mode baseline")


def baselines_of(pod: Path, *parts: str, kind: str = "baseline") -> list[str]:
    """What is said of NcclPair alone with one entry for each part of a condition."""
    change(pod / "reframe.yaml", "[NodeState, Iperf2Pair, NcclPair]", "[NcclPair]")
    entry = ENTRY.replace("kind: published", f"kind: {kind}\n        lower: -0.1")
    entries = [entry.replace("    nodes: 2\n", f"    nodes: 2\n    {part}\n") for part in parts]
    references.path_for("pod").write_text(FILE + "".join(entries))
    return only(lines_of(), "hint", "baselines")


def test_a_load_without_a_baseline_is_a_hint(pod: Path) -> None:
    (found,) = baselines_of(pod, "load: loaded")
    assert "NcclPair has no baseline for load quiet" in found
    assert "accept --mode baseline --schedule quiet --runs 5" in found


@pytest.mark.parametrize("parts", [("load: loaded", "load: quiet"), ("load: null",)])
def test_baselines_that_serve_both_loads_are_enough(pod: Path, parts: tuple[str, ...]) -> None:
    assert baselines_of(pod, *parts) == []


def test_floors_alone_are_a_hint_where_they_do_not_suffice(pod: Path) -> None:
    (found,) = baselines_of(pod, "load: null", kind="floor")
    assert "NcclPair: judged by floors alone" in found and "the gate returns no node" in found
    change(pod / "reframe.yaml", "mtu_bytes: 9000", "mtu_bytes: 9000\n      floors_suffice: a lab")
    assert only(lines_of(), "hint", "baselines") == []


def test_context_is_no_reference(pod: Path) -> None:
    unstated = ENTRY.replace("kind: published", "kind: published\n        condition: unstated")
    references.path_for("pod").write_text(FILE + unstated)
    (found,) = only(lines_of(), "hint", "baselines")
    assert "NcclPair" in found


def test_nodes_that_were_copied_are_a_warning(pod: Path) -> None:
    write_system("zoo", POD.replace("pod", "zoo").replace("zoo-n", "pod-n"))
    (found,) = only(lines_of(), "warning", "gpu: nodes")
    assert "pod-n[01-08] are those of zoo too" in found
    # The lab makes the nodes that its description names.
    (paths.SYSTEMS / "pod" / "lab.yaml").touch()
    assert only(lines_of(), "warning", "gpu: nodes") == []


# ---- checking: references ----


def reference_lines(status: str, before: str, after: str) -> list[str]:
    assert before in ENTRY
    references.path_for("pod").write_text(FILE + ENTRY + ENTRY.replace(before, after))
    return only(lines_of(), status, "references")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("check: NcclPair", "check: NcclPiar", "check 'NcclPiar' is not in "),
        ("check: NcclPair", "check: BondPair", "BondPair runs where features has bond"),
        ("check: NcclPair", "check: NcclSegment", "has for segment; it has node, pair, all"),
        ("partition: gpu", "partition: cpu", "partition 'cpu' is not of pod, which has gpu"),
        ("all_reduce", "all_gather", "has for pair: all_reduce, alltoall"),
        ("transport: default", "transport: mnnvl", "has here: default, one-hca, sockets"),
        ("transport: default", "transport: any", "transport is 'any'"),
        ("17179869184", "34359738368", "(32 GiB), expected one of the sweep's, 8 B to 16 GiB"),
        ("17179869184", "4", "size_bytes is 4 (4 B)"),
        ("nodes: 2", "nodes: 2\n    streams: 4", "streams is stated, expected none"),
        ("nodes: 2", "nodes: 2\n    ranks: 12", "ranks is 12, expected 2 nodes times 8 GPUs"),
    ],
)
def test_reference_that_no_case_is_under_is_a_problem(
    pod: Path, before: str, after: str, says: str
) -> None:
    (found,) = reference_lines("problem", before, after)
    assert says in found
    # The second entry begins there.
    assert f"pod.yaml:{FILE.count(chr(10)) + ENTRY.count(chr(10)) + 1}: " in found


def test_other_transports_are_all_reduces(pod: Path) -> None:
    alltoall = ENTRY.replace("all_reduce", "alltoall").replace("default", "one-hca")
    references.path_for("pod").write_text(FILE + alltoall)
    (found,) = only(lines_of(), "problem", "references")
    assert "expected one that alltoall has here: default" in found


def test_sockets_have_a_sweep_of_their_own(pod: Path) -> None:
    (found,) = reference_lines("problem", "transport: default", "transport: sockets")
    assert "8 B to 1 GiB" in found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nodes: 2", "nodes: 2\n    ranks: 16"),
        ("nodes: 2", "nodes: any"),
        ("transport: default", "transport: one-hca"),
        ("17179869184", "8"),
    ],
)
def test_reference_that_a_case_is_under_is_good(pod: Path, before: str, after: str) -> None:
    assert len(reference_lines("ok", before, after)) == 1


def larger(kind: str) -> str:
    text = ENTRY.replace("NcclPair", "NcclAll").replace("nodes: 2", "nodes: 32")
    return FILE + text.replace("kind: published", f"kind: {kind}\n        lower: -0.1")


def test_published_number_of_a_larger_system_is_a_warning(pod: Path) -> None:
    references.path_for("pod").write_text(larger("published"))
    (found,) = only(lines_of(), "warning", "references")
    assert "nodes is 32, expected 3 to 8" in found


def test_baseline_of_a_larger_system_is_a_problem(pod: Path) -> None:
    references.path_for("pod").write_text(larger("baseline"))
    assert len(only(lines_of(), "problem", "references")) == 1


def test_reference_with_less_nodes_than_all_is_good(pod: Path) -> None:
    references.path_for("pod").write_text(larger("baseline").replace("nodes: 32", "nodes: 4"))
    assert len(only(lines_of(), "ok", "references")) == 1


TRANSFERS = """\
      transfers:
        tools: [iperf3, wdt, scp]
        optional: [lftp]
        file_sets: {large: {files: 1, file_bytes: 1048576}}
        streams: 4
        wdt: {skip_writes: [true]}
      required: """


@pytest.fixture
def moving(pod: Path) -> Path:
    """POD with transfers."""
    change(pod / "reframe.yaml", "sockets, gpu]", "sockets, gpu, transfers]")
    change(pod / "reframe.yaml", "      required: ", TRANSFERS)
    return pod


def test_transfers_are_known_to_every_part(moving: Path) -> None:
    assert only(lines_of(), "problem") == []


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            "[NodeState,",
            "[BbcpTransfer,",
            "BbcpTransfer runs where extras.transfers.tools has bbcp",
        ),
        (
            "[NodeState,",
            "[FtpTransfer,",
            "FtpTransfer is required, and a node that lacks its tool is not measured",
        ),
        (
            "streams: 4\n        wdt: {skip_writes: [true]}\n      required: [NodeState,",
            "pairs: first\n      required: [ScpTransfer,",
            "ScpTransfer is required, and two of 8 nodes are measured",
        ),
        (
            "streams: 4\n        wdt: {skip_writes: [true]}\n      required: [NodeState,",
            "series_only: true\n      required: [ScpTransfer,",
            "ScpTransfer is required, and railgauge accept --series alone measures that",
        ),
    ],
)
def test_required_transfer_that_leaves_nodes_out_is_a_problem(
    moving: Path, before: str, after: str, says: str
) -> None:
    (found,) = problems_after(moving, before, after, "required")
    assert says in found


MORE_IN_THE_SERIES = """\
      applications:
        hpl:
          command: [xhpl]
          limit_s: 60
          converged: {pattern: 'residual (.*)', at_most: 1}
          series_only: true
        bert:
          command: [/opt/bert]
          limit_s: 60
          converged: {pattern: 'residual (.*)', at_most: 1}
          placeholders: [command]
      contention: {pairs: first}
      mpi: {series_only: true}
      nics: {cables: [[eth1, eth2]], mtu_bytes: 9000, series_only: true}
      required: """

_OF_THE_SERIES = "is required, and railgauge accept --series alone measures that; next: fix "


@pytest.fixture
def in_series(pod: Path) -> Path:
    """POD with all that a series may have to itself, its checks required."""
    change(pod / "reframe.yaml", "sockets, gpu]", "sockets, gpu, applications, contention, nics]")
    change(pod / "reframe.yaml", "      required: ", MORE_IN_THE_SERIES)
    return pod


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("ApplicationTime", "extras.applications.hpl.series_only"),
        ("ContentionTcp", "extras.contention.series_only"),
        ("ContentionLatency", "extras.contention.series_only"),
        ("MpiBesideTransfer", "extras.mpi.series_only"),
        ("NicPair", "extras.nics.series_only"),
    ],
)
def test_a_required_check_of_the_series_names_its_own_field(
    in_series: Path, name: str, field: str
) -> None:
    found = problems_after(in_series, "[NodeState,", f"[{name},", "required")
    assert any(f"{name} {_OF_THE_SERIES}{field}, or take" in line for line in found)


def test_what_acceptances_leave_out_is_listed_with_the_fields_that_say_so(in_series: Path) -> None:
    found = only(lines_of(), "hint", "left out")
    (series,) = [line for line in found if "--series" in line]
    for name in ("ApplicationTime", "ContentionTcp", "MpiBesideTransfer", "NicPair"):
        assert name in series
    assert "extras.contention.series_only" in series and "extras.nics.series_only" in series
    assert any("ContentionTcp" in line and "extras.contention.pairs" in line for line in found)


def test_a_program_with_placeholders_is_listed_with_what_a_site_must_fill_in(
    in_series: Path,
) -> None:
    (found,) = [line for line in only(lines_of(), "hint", "left out") if "bert" in line]
    assert "bert never runs: command only stand" in found
    assert "extras.applications.bert.placeholders" in found


@pytest.mark.parametrize(
    ("name", "parts", "says"),
    [
        ("ScpTransfer", "size_bytes: 4", "size_bytes is 4, expected what extras.transfers has"),
        ("ScpTransfer", "streams: 4", "streams is 4, expected what extras.transfers has: 1"),
        ("WdtTransfer", "streams: 8", "streams is 8, expected what extras.transfers has: 4"),
        ("WdtTransfer", "delay_ms: 10", "delay_ms is 10.0, expected"),
    ],
)
def test_condition_of_a_transfer_must_be_possible(
    moving: Path, name: str, parts: str, says: str
) -> None:
    operation = "one-large-file" + ("-discarded" if name == "WdtTransfer" else "")
    entry = OTHER_ENTRY.format(check=name, nodes=2, parts=f"    {parts}\n")
    entry = entry.replace("operation: x", f"operation: {operation}")
    references.path_for("pod").write_text(FILE + entry)
    (found,) = only(lines_of(), "problem", "references")
    assert says in found


def test_what_is_written_is_not_what_is_thrown_away(moving: Path) -> None:
    entry = OTHER_ENTRY.format(check="WdtTransfer", nodes=2, parts="")
    entry = entry.replace("operation: x", "operation: one-large-file")
    references.path_for("pod").write_text(FILE + entry)
    (found,) = only(lines_of(), "problem", "references")
    assert "operation is one-large-file, expected what extras.transfers has: one-large" in found


OTHER_ENTRY = """\
  - check: {check}
    partition: gpu
    operation: x
    transport: x
    nodes: {nodes}
{parts}    metrics:
      bandwidth:
        value: 1
        lower: 0
        unit: Gb/s
        kind: floor
        provenance: {{source: here, date: 2026-11-21}}
"""


@pytest.mark.parametrize(
    ("name", "nodes", "parts", "says"),
    [
        ("Iperf2Pair", "3", "", "nodes is 3, expected 2"),
        ("NodeState", "2", "", "nodes is 2, expected 1"),
        ("MpiWorld", "9", "", "nodes is 9, expected 1 to 8"),
        ("RdmaBandwidth", "2", "rails: 0-8", "rails is '0-8', expected two of 0, 1,"),
        ("WanTcp", "2", "delay_ms: 43", "delay_ms is 43.0, expected one that extras.wan has: 44"),
        ("WanTcp", "2", "congestion: reno", "congestion is reno"),
        ("WanTcp", "2", "window_bytes: 1", "window_bytes is 1"),
    ],
)
def test_condition_of_other_checks_must_be_possible_too(
    pod: Path, name: str, nodes: str, parts: str, says: str
) -> None:
    entry = OTHER_ENTRY.format(check=name, nodes=nodes, parts=f"    {parts}\n" if parts else "")
    references.path_for("pod").write_text(FILE + entry)
    (found,) = only(lines_of(), "problem", "references")
    assert says in found


def test_condition_that_is_possible_is_good(pod: Path) -> None:
    parts = "    rails: 0-7\n"
    entry = OTHER_ENTRY.format(check="RdmaBandwidth", nodes="any", parts=parts)
    parts = "    delay_ms: 44\n    congestion: bbr\n    window_bytes: null\n"
    entry += OTHER_ENTRY.format(check="WanTcp", nodes="2", parts=parts)
    references.path_for("pod").write_text(FILE + entry)
    assert len(only(lines_of(), "ok", "references")) == 1


RATIO = """\
ratios:
  - name: tuned over default
    metric: busbw
    of: {check: NcclPair, operation: alltoall}
    over: {check: NcclPair, operation: all_reduce}
    value: 1.2
    lower: -0.1
    provenance: {source: a paper, date: 2026-11-21}
"""


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("of: {check: NcclPair", "of: {check: Nosuch", "of: check 'Nosuch' is not in "),
        ("operation: all_reduce", "operation: gather", "over: operation is 'gather'"),
        ("over: {check: NcclPair", "over: {partition: cpu, check: NcclPair", "partition 'cpu'"),
    ],
)
def test_ratio_of_what_nothing_measures_is_a_problem(
    pod: Path, before: str, after: str, says: str
) -> None:
    assert before in RATIO
    text = "system: pod\nreferences: []\n" + RATIO.replace(before, after)
    references.path_for("pod").write_text(text)
    (found,) = only(lines_of(), "problem", "references")
    assert says in found
    assert "pod.yaml:4: ratio 'tuned over default'" in found


def test_ratio_of_a_state_is_measured_by_nothing_and_good(pod: Path) -> None:
    text = RATIO.replace("{check: NcclPair, operation: alltoall}", "{state: tuned hosts}")
    text = text.replace("lower: -0.1", "condition: unstated")
    references.path_for("pod").write_text("system: pod\nreferences: []\n" + text)
    assert only(lines_of(), "problem") == []


def test_references_that_do_not_load_are_a_problem_with_file_and_line(pod: Path) -> None:
    references.path_for("pod").write_text(FILE + ENTRY.replace("unit: GB/s", "unit: Gb/s"))
    lines = lines_of()
    (found,) = only(lines, "problem", "references")
    assert re.search(r"pod\.yaml:\d+: references\.0\.metrics: .*expected 'GB/s'", found)
    assert len(only(lines, "not checked", "baselines")) == 1


def test_no_references_yet_are_a_hint(pod: Path) -> None:
    (found,) = only(lines_of(), "hint", "references")
    assert "no number is known yet; next: railgauge accept --mode baseline" in found


# ---- checking: Slurm's files ----


@pytest.mark.parametrize(
    ("file", "before", "after", "says"),
    [
        ("nodes.conf", "n[01-08]", "n[01-09]", "nodes.conf:2: pod-n09 in no partition"),
        ("nodes.conf", "n[01-08]", "n[01-07]", "no NodeName= for pod-n08"),
        ("nodes.conf", "n[01-08]", "n[01-", "nodes.conf:2: 'pod-n[01-': not a host list"),
        ("nodes.conf", "gpu:h100:8", "gpu:h100:4", "nodes.conf:2: 4 GPUs a node, expected 8"),
        ("partitions.conf", "n[01-08]", "n[01-07]", "expected those of gpu: pod-n[01-08]"),
        ("partitions.conf", "Name=gpu", "Name=cpu", "no PartitionName=gpu, to which gpu sends"),
    ],
)
def test_slurm_fragment_about_other_machines_is_a_problem(
    pod: Path, file: str, before: str, after: str, says: str
) -> None:
    change(pod / "slurm" / file, before, after)
    (found,) = only(lines_of(), "problem", "slurm/")
    assert says in found


def test_gpus_of_gres_conf_are_counted(pod: Path) -> None:
    line = "NodeName=pod-n[01-08] Name=gpu Type=h100 File=/dev/nvidia[0-3]\n"
    (pod / "slurm" / "gres.conf").write_text(line)
    (found,) = only(lines_of(), "problem", "gres.conf:1")
    assert "4 GPUs a node, expected 8" in found


def test_slurm_fragments_that_agree_are_good(pod: Path) -> None:
    (pod / "slurm" / "gres.conf").write_text("NodeName=pod-n01 Name=gpu File=/dev/nvidia[0-7]\n")
    lines = lines_of()
    assert (len(only(lines, "ok", "slurm/")), only(lines, "problem")) == (2, [])


def test_absent_node_may_be_missing_in_slurms_files(pod: Path) -> None:
    absent = "      absent: [{node: pod-n08, why: in repair}]\n      mtu_bytes"
    change(pod / "reframe.yaml", "      mtu_bytes", absent)
    change(pod / "slurm" / "nodes.conf", "n[01-08]", "n[01-07]")
    assert only(lines_of(), "problem") == []


def test_partition_of_all_nodes_is_good(pod: Path) -> None:
    change(pod / "slurm" / "partitions.conf", "pod-n[01-08]", "ALL")
    assert only(lines_of(), "problem") == []


def test_folder_without_fragments_is_not_checked(pod: Path) -> None:
    for path in (pod / "slurm").glob("*.conf"):
        path.unlink()
    assert len(only(lines_of(), "not checked", "slurm/")) == 1


def test_line_of_a_fragment_may_go_on_in_the_next() -> None:
    text = "# NodeName=a\nNodeName=n1 \\\n CPUs=4 # four\n\nGresTypes=gpu\n"
    assert fragment_lines(text) == [
        (2, {"nodename": "n1", "cpus": "4"}),
        (5, {"grestypes": "gpu"}),
    ]


# ---- checking: Slurm itself ----


def test_without_slurm_nodes_are_not_checked(pod: Path) -> None:
    (found,) = only(lines_of(), "not checked", "nodes in Slurm")
    assert "no Slurm here" in found
    assert found.endswith("next: on a login node of pod: railgauge system check pod")


@pytest.mark.parametrize(
    ("partitions", "says"),
    [
        ({"cpu": "pod-n[01-08]"}, "Slurm has no partition 'gpu', expected one of cpu (pod-n[01"),
        ({"gpu": "pod-n[01-07]"}, "Slurm knows no pod-n08"),
        ({"gpu": "pod-n[01-07]", "cpu": "pod-n08"}, "pod-n08 not in Slurm's partition gpu"),
    ],
)
def test_nodes_that_slurm_has_otherwise_are_a_problem(
    pod: Path, partitions: dict[str, str], says: str
) -> None:
    (found,) = only(lines_of(ask=a_slurm(partitions)), "problem", "nodes in Slurm")
    assert says in found


def test_node_of_the_partition_that_is_never_measured_is_a_warning(pod: Path) -> None:
    ask = a_slurm({"gpu": "pod-n[01-09]"})
    (found,) = only(lines_of(ask=ask), "warning", "nodes in Slurm")
    assert "pod-n09 of Slurm's partition gpu would never be measured" in found


def test_nodes_that_are_down_are_reported(pod: Path) -> None:
    partitions = "PartitionName=gpu Nodes=pod-n[01-08]\n"
    nodes = "".join(
        f"NodeName=pod-n0{n} Gres=gpu:8 State={'DOWN*' if n == 3 else 'IDLE'}\n"
        for n in range(1, 9)
    )
    (found,) = only(lines_of(ask=answers(partitions, nodes)), "ok", "nodes in Slurm")
    assert "down or drained: pod-n03" in found


@pytest.mark.parametrize(
    ("gres", "of", "says"),
    [
        ("gpu:h100:4", {}, "pod-n[01-08]: Gres is gpu:h100:4, 4 GPUs, expected 8"),
        ("(null)", {}, "pod-n[01-08]: Gres is none, 0 GPUs, expected 8"),
        ("gpu:8", {"pod-n03": "gpu:4"}, "pod-n03: Gres is gpu:4, 4 GPUs, expected 8"),
        ("gpu:h100:x", {}, "expected a number of GPUs"),
    ],
)
def test_gpus_that_slurm_has_otherwise_are_a_problem(
    pod: Path, gres: str, of: dict[str, str], says: str
) -> None:
    (found,) = only(lines_of(ask=a_slurm(OURS, gres, **of)), "problem", "GPUs in Slurm")
    assert says in found


def test_absent_node_may_be_missing_in_slurm(pod: Path) -> None:
    absent = "      absent: [{node: pod-n08, why: in repair}]\n      mtu_bytes"
    change(pod / "reframe.yaml", "      mtu_bytes", absent)
    assert only(lines_of(ask=a_slurm({"gpu": "pod-n[01-07]"})), "problem") == []


def test_slurm_of_another_systems_host_is_not_asked(pod: Path) -> None:
    write_system("zoo", POD.replace("pod", "zoo"))
    lines = lines_of(ask=a_slurm({"zoo": "zoo-n1"}), host="zoo-login")
    (found,) = only(lines, "not checked", "nodes in Slurm")
    assert "this host, zoo-login, is of zoo, and so is its Slurm" in found


def test_slurm_is_asked_where_the_environment_names_the_system(pod: Path) -> None:
    write_system("zoo", POD.replace("pod", "zoo"))
    lines = lines_of(ask=a_slurm(OURS), host="zoo-login", named_by="pod")
    assert len(only(lines, "ok", "nodes in Slurm")) == 1


# ---- making one ----


def made(name: str = "mine", ask: Run | None = None, host: str = HOST, **choices: str) -> list[str]:
    return new.make(name, "pod", host, cluster(ask) if ask else None, choices)


def description(name: str = "mine") -> str:
    return (paths.SYSTEMS / name / "reframe.yaml").read_text()


def left_behind() -> list[str]:
    return sorted(p.name for f in (paths.SYSTEMS, paths.references_folder()) for p in f.iterdir())


def test_new_system_loads(pod: Path) -> None:
    made()
    assert systems.load("mine").partition("gpu").nodes == systems.load("pod").partition("gpu").nodes


def test_new_systems_login_node_is_this_host_alone(pod: Path) -> None:
    made(host="login-1.alps.ch")
    assert systems.load("mine").hostnames == [r"^login-1\.alps\.ch$"]
    assert r"hostnames: ['^login-1\.alps\.ch$'] # the head" in description()


@pytest.mark.parametrize("ask", [None, a_slurm(OURS)], ids=["alone", "from-slurm"])
def test_comments_and_order_are_kept(pod: Path, ask: Run | None) -> None:
    made(ask=ask)
    lines = description().splitlines()[1:]
    changed = {line for line in lines if line not in POD.splitlines()}
    assert changed == {"name: mine", "hostnames: ['^mine-login1$'] # the head"}
    assert len(lines) == len(POD.splitlines())


@pytest.mark.parametrize("like", COMMITTED)
def test_system_like_a_committed_one_has_all_its_comments(
    like: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = paths.HOME / "configs" / "systems" / like
    (paths.SYSTEMS / like).symlink_to(home)
    new.make("mine", like, HOST, None, {})
    comments = [line.strip() for line in description().splitlines() if line.strip().startswith("#")]
    source = (home / "reframe.yaml").read_text().splitlines()
    assert comments[1:] == [line.strip() for line in source if line.strip().startswith("#")]


def test_recordings_are_left_out(pod: Path) -> None:
    made()
    assert sorted(p.name for p in (paths.SYSTEMS / "mine").iterdir()) == ["reframe.yaml", "slurm"]


def test_absent_nodes_are_not_taken_over(pod: Path) -> None:
    absent = "      absent: [{node: pod-n08, why: in repair}]\n      mtu_bytes"
    change(pod / "reframe.yaml", "      mtu_bytes", absent)
    made()
    assert systems.load("mine").partition("gpu").extras.absent == []


def test_copy_of_what_may_not_be_written_can_be(pod: Path) -> None:
    for path in [*pod.rglob("*"), pod]:
        path.chmod(path.stat().st_mode & 0o555)
    made()
    found = [paths.SYSTEMS / "mine", *(paths.SYSTEMS / "mine").rglob("*")]
    assert all(path.stat().st_mode & 0o200 for path in found)


def test_nothing_is_left_next_to_the_new_system(pod: Path) -> None:
    made()
    assert left_behind() == ["mine", "mine.yaml", "pod"]


def test_half_made_system_is_none_that_others_would_load(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    place = new._put_in_place

    def look(*arguments: Any) -> None:
        seen.append(systems.names())
        place(*arguments)

    monkeypatch.setattr(new, "_put_in_place", look)
    made()
    assert seen == [["pod"]]


def test_what_to_do_next_is_said(pod: Path) -> None:
    text = "\n".join(made())
    assert "2. railgauge system check mine\n3. railgauge accept --plan --system mine" in text
    line = description().splitlines().index("      nodes: pod-n[01-08]") + 1
    assert f"mine/reframe.yaml:{line}: gpu: nodes: " in text


def test_files_that_still_speak_of_the_original_are_named(pod: Path) -> None:
    assert any("still about pod: reframe.yaml, slurm/nodes.conf" in line for line in made())


def test_host_that_is_already_another_systems_is_reported(pod: Path) -> None:
    assert any("but this host is of pod too" in line for line in made(host="pod-login"))


@pytest.mark.parametrize(
    "name", ["", "Mine", "-mine", "mi ne", "a/b", "..", "mine\n", "m_1", "1m", "a" * 64, "a" * 300]
)
def test_bad_name_is_refused(pod: Path, name: str) -> None:
    with pytest.raises(RailgaugeError, match="is no name for a system: expected small letters"):
        made(name)
    assert left_behind() == ["pod"]


def test_unknown_original_is_refused_with_the_known_ones(pod: Path) -> None:
    with pytest.raises(RailgaugeError) as caught:
        new.make("mine", "nosuch", HOST, None, {})
    assert "--like nosuch" in str(caught.value)
    assert "there is: pod\n  next: railgauge system new mine --like" in str(caught.value)
    assert "no such template; it has: roce, tcp" in str(caught.value)


def test_system_that_exists_is_not_overwritten(pod: Path) -> None:
    (paths.SYSTEMS / "mine").mkdir()
    with pytest.raises(RailgaugeError, match="systems/mine exists, and nothing is overwritten"):
        made()


def test_references_that_exist_are_not_overwritten(pod: Path) -> None:
    references.path_for("mine").write_text("mine\n")
    with pytest.raises(RailgaugeError, match=r"mine\.yaml exists, and nothing is overwritten"):
        made()
    assert references.path_for("mine").read_text() == "mine\n"


def fail(*_: Any, **__: Any) -> Any:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    "step",
    ["tempfile.mkdtemp", "shutil.copytree", "pathlib.Path.rename", "railgauge.site.new.write_text"],
)
def test_without_permission_nothing_is_made(
    pod: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(step, fail)
    with pytest.raises(PrerequisiteError, match="Permission denied: nothing was made") as caught:
        made()
    assert "next: work in a clone that you may write to" in str(caught.value)
    assert left_behind() == ["pod"]


@pytest.mark.parametrize("step", ["railgauge.systems.load", "railgauge.model.references.load"])
def test_system_that_does_not_load_is_removed_again(
    pod: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real = systems.load if "systems" in step else references.load

    class Broken:
        cache_clear = staticmethod(systems.load.cache_clear)

        def __call__(self, name: str, *arguments: Any) -> Any:
            if name == "mine":
                raise ConfigurationError("mine/reframe.yaml:1: wrong")
            return real(name, *arguments)

    monkeypatch.setattr(step, Broken())
    with pytest.raises(ConfigurationError, match="wrong"):
        made()
    assert left_behind() == ["pod"]


# ---- making one: nodes from Slurm ----


def extras_of(name: str = "gpu") -> Any:
    return systems.load("mine").partition(name).extras


def test_nodes_and_gpus_are_slurms(pod: Path) -> None:
    made(ask=a_slurm({"gpu": "x[1-3]-ib"}, "gpu:h100:4(S:0-1)"))
    assert extras_of().nodes == "x1-ib,x2-ib,x3-ib"
    assert extras_of().nccl.gpus_per_node == 4
    assert "num_devices: 4" in description()


def test_system_from_slurm_agrees_with_slurm(pod: Path) -> None:
    ask = a_slurm({"batch": "x[1-3]"}, "gpu:h100:4(S:0-1)", x2="gpu:h100:4")
    made(ask=ask)
    assert only(lines_of("mine", ask), "problem") == []


def test_only_partition_of_slurm_is_the_only_one_of_ours(pod: Path) -> None:
    made(ask=a_slurm({"batch": "x[1-3]", "empty": "(null)"}))
    assert "access: [--partition=batch]" in description()


def test_partition_of_the_same_name_is_taken(pod: Path) -> None:
    made(ask=a_slurm({"gpu": "x[1-2]", "cpu": "y[1-2]"}))
    assert extras_of().nodes == "x[1-2]"


def test_several_partitions_with_the_same_nodes_must_be_separated(pod: Path) -> None:
    ask = a_slurm({"batch": "x[1-2]", "debug": "x[1-2]"})
    with pytest.raises(RailgaugeError) as caught:
        made(ask=ask)
    assert "Slurm has batch (x[1-2]), debug (x[1-2]); nothing was made" in str(caught.value)
    assert "--partition gpu=ONE_OF_THESE" in str(caught.value)
    made(ask=ask, gpu="debug")
    assert "access: [--partition=debug]" in description()


def test_other_access_options_are_kept(pod: Path) -> None:
    change(pod / "reframe.yaml", "[--partition=gpu]", "[--account=x, --partition=gpu]")
    made(ask=a_slurm({"batch": "x1,x2"}))
    assert "access: [--partition=batch, --account=x]" in description()


def test_partition_without_access_is_given_one(pod: Path) -> None:
    change(pod / "reframe.yaml", "    access: [--partition=gpu]\n", "")
    made(ask=a_slurm({"batch": "x1,x2"}))
    partition = systems.load("mine").partition("gpu")
    assert partition.model_dump()["access"] == ["--partition=batch"]


def two_partitions(pod: Path) -> None:
    second = POD.partition("partitions:\n")[2].replace("name: gpu", "name: cpu")
    (pod / "reframe.yaml").write_text(POD + second.replace("pod-n", "pod-c"))


def test_partition_that_cannot_be_mapped_is_reported(pod: Path) -> None:
    two_partitions(pod)
    change(pod / "reframe.yaml", "name: cpu", "name: fat")
    text = (pod / "reframe.yaml").read_text()
    head, _, tail = text.rpartition("[--partition=gpu]")
    (pod / "reframe.yaml").write_text(f"{head}[--partition=fat]{tail}")
    lines = made(ask=a_slurm({"gpu": "x[1-2]", "debug": "y1"}))
    assert "not mapped: partition fat, still pod's: fill it in, or take it out" in lines
    assert "not used: Slurm's debug" in lines


def test_nodes_that_are_down_are_kept(pod: Path) -> None:
    nodes = "NodeName=x1 Gres=gpu:8 State=IDLE\nNodeName=x2 Gres=gpu:8 State=DOWN*\n"
    lines = made(ask=answers("PartitionName=gpu Nodes=x[1-2]\n", nodes))
    assert extras_of().nodes == "x[1-2]"
    assert any("x2 down, and kept" in line for line in lines)


@pytest.mark.parametrize(
    ("gres", "says"),
    [
        ("gpu:h100:4", "Slurm's Gres has 4 on x2, 8 on x1"),
        ("(null)", "Slurm's Gres has 0 on x2, 8 on x1"),
        ("gpu:h100:x", "x2: Gres is 'gpu:h100:x', expected a number"),
    ],
)
def test_nodes_with_other_gpu_counts_are_reported_and_stay_a_problem(
    pod: Path, gres: str, says: str
) -> None:
    ask = a_slurm({"gpu": "x[1-2]"}, x2=gres)
    lines = made(ask=ask)
    assert any(line.startswith("not mapped: gpus_per_node") and says in line for line in lines)
    assert extras_of().nccl.gpus_per_node == 8
    assert len(only(lines_of("mine", ask), "problem", "GPUs in Slurm")) == 1


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"cpu": "gpu"}, "pod has no partition 'cpu'; it has: gpu"),
        ({"gpu": "fast"}, "Slurm has no partition 'fast' with nodes; it has: gpu (x1)"),
    ],
)
def test_choice_that_names_nothing_is_refused(
    pod: Path, choices: dict[str, str], says: str
) -> None:
    with pytest.raises(RailgaugeError) as caught:
        made(ask=a_slurm({"gpu": "x1"}), **choices)
    assert says in str(caught.value)
    assert left_behind() == ["pod"]


@pytest.mark.parametrize("option", ["gpu", "gpu=", "=gpu", ""])
def test_choice_of_another_form_is_refused(option: str) -> None:
    with pytest.raises(RailgaugeError, match="expected PARTITION=SLURM_PARTITION"):
        mapping.chosen([option])


def test_slurms_files_get_slurms_nodes(pod: Path) -> None:
    made(ask=a_slurm({"batch": "x[1-2]"}, "gpu:b200:4(S:0)"))
    folder = paths.SYSTEMS / "mine" / "slurm"
    line = "PartitionName=batch Nodes=x[1-2] Default=YES State=UP\n"
    assert (folder / "partitions.conf").read_text() == line
    assert (folder / "nodes.conf").read_text() == (
        "# slurm.conf: include mine/nodes.conf\n"
        "NodeName=x[1-2] CPUs=112 RealMemory=1000 \\\n"
        "  Gres=gpu:b200:4 Feature=h100,ib State=UNKNOWN  # all\n"
    )


def test_several_lines_for_the_originals_nodes_become_one(pod: Path) -> None:
    text = "NodeName=pod-n[01-04] CPUs=1\nNodeName=pod-n[05-08] CPUs=1\n"
    (pod / "slurm" / "nodes.conf").write_text(text)
    made(ask=a_slurm({"gpu": "x[1-2]"}))
    assert (paths.SYSTEMS / "mine/slurm/nodes.conf").read_text() == "NodeName=x[1-2] CPUs=112\n"


def test_lines_of_slurms_files_that_stay_the_originals_are_reported(pod: Path) -> None:
    (pod / "slurm" / "topology.conf").write_text("# racks\nBlockName=b1 Nodes=pod-n[01-08]\n")
    lines = made(ask=a_slurm({"gpu": "x[1-2]"}))
    assert "not mapped: slurm/topology.conf:2, still pod's" in lines


def test_partitions_that_share_their_nodes_by_an_alias_are_refused(pod: Path) -> None:
    text = POD.replace("    extras:\n", "    extras: &all\n")
    second = POD.partition("partitions:\n")[2].partition("    extras:\n")[0]
    second = second.replace("name: gpu", "name: fat").replace("partition=gpu", "partition=fat")
    (pod / "reframe.yaml").write_text(f"{text}{second}    extras: *all\n")
    with pytest.raises(RailgaugeError, match="by an alias"):
        made(ask=a_slurm({"gpu": "x[1-2]", "fat": "y[1-2]"}))
    assert left_behind() == ["pod"]


# ---- making one: references ----


def test_file_of_published_numbers_is_taken_over_as_it_is(pod: Path) -> None:
    text = FILE + ENTRY + "\n# what an entry says\n"
    references.path_for("pod").write_text(text)
    made()
    assert references.path_for("mine").read_text() == text.replace("system: pod", "system: mine")


def test_baselines_and_floors_are_dropped(pod: Path) -> None:
    baseline = ENTRY.replace("published", "baseline\n        lower: -0.1")
    floor = baseline.replace("baseline", "floor").replace("nodes: 2", "nodes: any")
    references.path_for("pod").write_text(FILE + baseline + ENTRY + floor)
    lines = made()
    assert [e.metrics["busbw"].kind for e in references.load("mine").entries] == ["published"]
    assert any("1 published numbers of pod; left out" in line for line in lines)


def test_only_the_published_metrics_of_an_entry_are_kept(pod: Path) -> None:
    number = ENTRY.partition("      busbw:\n")[2].replace("published", "floor\n        lower: 0")
    references.path_for("pod").write_text(FILE + ENTRY + "      busbw_in_place:\n" + number)
    made()
    (entry,) = references.load("mine").entries
    assert list(entry.metrics) == ["busbw"]


def test_nothing_published_leaves_an_empty_list(pod: Path) -> None:
    baseline = ENTRY.replace("published", "baseline\n        lower: -0.1")
    references.path_for("pod").write_text(FILE + baseline)
    made()
    text = "# No number is known yet.\nsystem: mine\nreferences: []\n"
    assert references.path_for("mine").read_text() == text


def test_no_references_of_the_original_leave_an_empty_list(pod: Path) -> None:
    made()
    assert references.load("mine").entries == []
    assert references.path_for("mine").exists()


def test_ratios_are_of_another_tuning_and_dropped(pod: Path) -> None:
    references.path_for("pod").write_text(FILE + ENTRY + RATIO)
    lines = made()
    stored = references.load("mine")
    assert (len(stored.entries), stored.ratios) == (1, [])
    assert any("left out, as they are of pod's own machines: 1" in line for line in lines)


@pytest.mark.parametrize("like", COMMITTED)
def test_nothing_that_a_user_chose_for_other_machines_is_taken_over(
    like: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (paths.SYSTEMS / like).symlink_to(paths.HOME / "configs" / "systems" / like)
    lines = new.make("mine", like, HOST, None, {})
    kept = {path.name for path in (paths.SYSTEMS / "mine").iterdir()}
    assert not kept & {"tuning", "spack", "fabric.json", "recorded"}
    assert expected.load("mine") == expected.Expected(expected=[])
    assert f"left out, as they are of {like}'s own machines: " in "\n".join(lines)
    assert only(lines_of("mine"), "problem", "description") == []


def test_kept_number_with_a_dropped_anchor_is_whole(pod: Path) -> None:
    baseline = ENTRY.replace("metrics:\n      busbw:", "metrics:\n      busbw: &first").replace(
        "published", "baseline\n        lower: -0.1"
    )
    head = ENTRY.partition("      busbw:")[0].replace("nodes: 2", "nodes: any")
    merged = head + "      busbw:\n        <<: *first\n        kind: published\n        value: 7\n"
    references.path_for("pod").write_text(FILE + baseline + merged)
    made()
    (entry,) = references.load("mine").entries
    number = entry.metrics["busbw"]
    assert (number.value, number.lower, number.provenance.source) == (7, -0.1, "a paper")


KINDS_OF_NUMBERS = st.lists(
    st.tuples(
        st.sampled_from(["baseline", "published", "floor"]),
        st.integers(1, 10**9),
        st.sampled_from([None, 4, 16]),
    ),
    max_size=6,
)


@settings(max_examples=tries(20))
@given(KINDS_OF_NUMBERS)
def test_all_published_numbers_are_kept_unchanged_and_no_other(
    numbers: list[tuple[str, int, int | None]],
) -> None:
    entries = "".join(
        ENTRY.replace("nodes: 2", f"nodes: {place}")
        .replace("value: 390", f"value: {value / 1000}")
        .replace("size_bytes: 17179869184", f"window_bytes: {window or 'null'}")
        .replace("published", f"{kind}\n        lower: -0.2")
        for place, (kind, value, window) in enumerate(numbers, start=1)
    )
    text = FILE + entries if entries else "system: pod\nreferences: []\n"
    (paths.SYSTEMS / "pod").mkdir(exist_ok=True)
    references.path_for("pod").write_text(text)
    before = references.load("pod").entries
    references.path_for("mine").write_text(new.references_text("mine", "pod")[0])
    kept = [entry for entry in before if entry.metrics["busbw"].kind == "published"]
    assert references.load("mine").entries == kept


# ---- the commands ----


def run(monkeypatch: pytest.MonkeyPatch, ask: Run, *arguments: str) -> Any:
    monkeypatch.setattr(client, "output", ask)
    return invoke(commands, arguments)


def test_check_prints_a_line_each_and_the_sum(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = run(monkeypatch, a_slurm(OURS), "check", "pod")
    lines = answer.output.splitlines()
    assert answer.exit_code == 0
    assert re.fullmatch(r"pod: \d+ ok, 0 problems, 4 hints", lines[-1])
    assert all(re.match("(ok|problem|warning|hint|not checked) ", line) for line in lines[:-1])


def test_check_says_that_accounting_is_off(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_accounting(*command: str, **more: float) -> str:
        if command[0] == "sacct":
            raise client.AccountingError
        return a_slurm(OURS)(*command, **more)

    answer = run(monkeypatch, without_accounting, "check", "pod")
    assert answer.exit_code == 1
    assert "problem      Slurm, accounting: Slurm accounting is off" in answer.output


def test_check_with_problems_exits_with_1(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(pod / "reframe.yaml", "[tcp, mpi,", "[tpc, mpi,")
    answer = run(monkeypatch, no_slurm, "check", "pod")
    assert answer.exit_code == 1
    # Iperf2Pair is required, and needs the feature that was misspelt.
    assert ", 2 problems" in answer.output.splitlines()[-1]


def test_check_of_an_unknown_system_is_usage(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = run(monkeypatch, no_slurm, "check", "nosuch")
    assert isinstance(answer.exception, RailgaugeError)
    assert answer.exception.exit_code == 3


def test_new_makes_and_says_so(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("new", "mine", "--like", "pod", "--from-slurm", "--partition", "gpu=b")
    answer = run(monkeypatch, a_slurm({"a": "x1", "b": "y[1-2]"}), *options)
    assert answer.exit_code == 0, answer.exception
    assert "Slurm: gpu is Slurm's b: 2 nodes, y[1-2], GPUs a node: 8" in answer.output
    assert answer.output.splitlines()[-1] == "3. railgauge accept --plan --system mine"


def test_new_from_slurm_without_slurm_makes_nothing(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = run(monkeypatch, no_slurm, "new", "mine", "--like", "pod", "--from-slurm")
    assert isinstance(answer.exception, PrerequisiteError)
    assert "nothing was made: " in str(answer.exception)
    assert "no Slurm here" in str(answer.exception)
    assert "without it: railgauge system new mine --like pod" in str(answer.exception)
    assert left_behind() == ["pod"]


def test_choice_without_slurm_is_refused(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = run(monkeypatch, no_slurm, "new", "mine", "--like", "pod", "--partition", "gpu=b")
    assert isinstance(answer.exception, RailgaugeError)
    assert "needs --from-slurm" in str(answer.exception)


# --- expected.yaml -------------------------------------------------------------------------------

EXPECTED = "expected: [{fields: kernel/release, is: '6.12', why: w, fix: m%s}]\n"


def test_no_expected_state_is_a_hint(pod: Path) -> None:
    (found,) = only(lines_of(), "hint", "expected state")
    assert "no such file" in found


def test_no_expected_state_is_a_problem_where_it_is_required(pod: Path) -> None:
    rdma = POD[POD.index("      rdma:\n") : POD.index("      wan:\n")]
    change(pod / "reframe.yaml", "mpi, rdma, wan", "mpi, wan")
    (found,) = problems_after(pod, rdma, "", "expected state")
    assert "NodeState is required" in found


def test_rails_alone_are_enough_for_a_required_preflight(pod: Path) -> None:
    assert only(lines_of(), "problem", "expected state") == []


def test_expected_state_of_no_partition_is_a_problem(pod: Path) -> None:
    (pod / "expected.yaml").write_text(EXPECTED % ", partition: other")
    (found,) = only(lines_of(), "problem", "expected state")
    assert "no partition other" in found


def test_expected_state_that_loads_is_well(pod: Path) -> None:
    (pod / "expected.yaml").write_text(EXPECTED % "")
    (found,) = only(lines_of(), "ok", "expected state")
    assert "1 entries" in found
