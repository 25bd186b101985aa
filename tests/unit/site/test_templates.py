"""A system from a template: nothing of anybody's machine, filled in from Slurm and the nodes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems
from railgauge.checks.framework import minimum_bounds
from railgauge.cli.system import system as commands
from railgauge.cluster.store import rules
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.model import references
from railgauge.model.measurement import Measurement
from railgauge.node.system import srun_output
from railgauge.site import check, new, propose, templates
from railgauge.site.detect import Seen
from railgauge.site.templates import DescribedPartition
from railgauge.slurm import client
from railgauge.slurm.nodes import SlurmNode
from railgauge.slurm.partitions import Cluster
from railgauge.systems import expected
from tests.command_line import invoke

HOST = "login1"


@pytest.fixture(autouse=True)
def _host(own_systems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The templates are the committed ones."""
    monkeypatch.setattr("socket.gethostname", lambda: HOST)


#: Field of the description -> what nodes of a plain, and of a RoCE cluster, show.
TCP = {"mtu_bytes": 9000, "link_gbits": 25}
ROCE = {
    **TCP,
    "devices": "mlx5_0|mlx5_1",
    "rails": 2,
    "names": ("mlx5_0", "mlx5_1"),
    "link_layer": "Ethernet",
    "active_mtu_bytes": 4096,
    "rate": "200 Gb/sec (4X HDR)",
    "line_gbits": 200,
    "gid_type": "RoCE v2",
}


def made(template: str = "tcp", *described: DescribedPartition) -> list[str]:
    lines = new.make_from_template("mine", template, HOST, described)
    systems.load.cache_clear()
    return lines


def text_of() -> str:
    return (paths.SYSTEMS / "mine" / "reframe.yaml").read_text()


BATCH = DescribedPartition("batch", "c[01-04]", values=TCP)


@pytest.mark.parametrize("name", templates.names())
def test_template_loads_and_is_of_no_machine(name: str) -> None:
    system = templates.load(name)
    (partition,) = system.partitions
    assert system.name == name
    assert partition.extras.nccl is None and partition.extras.bond is None
    kept = {path.name for path in (paths.TEMPLATES / name).iterdir()}
    assert kept == {"reframe.yaml", "expected.yaml", "gate.yaml"}


def test_plain_cluster_is_described_in_about_twenty_lines() -> None:
    made("tcp", BATCH)
    assert len(text_of().splitlines()) <= 25


@pytest.mark.parametrize(("template", "values"), [("tcp", TCP), ("roce", ROCE)])
def test_what_is_known_is_filled_in(template: str, values: dict[str, Any]) -> None:
    lines = made(template, DescribedPartition("batch", "c[01-04]", ("--account=hpc",), values))
    (partition,) = systems.load("mine").partitions
    extras = partition.extras
    assert partition.name == "batch" and extras.nodes == "c[01-04]"
    assert partition.model_dump()["access"] == ["--partition=batch", "--account=hpc"]
    assert (extras.mtu_bytes, extras.link_gbits) == (9000, 25)
    if extras.rdma is not None:
        assert (extras.rdma.rails, extras.rdma.line_gbits) == (2, 200)
        assert extras.rdma.names == ["mlx5_0", "mlx5_1"]
        assert (extras.rdma.devices, extras.rdma.rate) == (ROCE["devices"], ROCE["rate"])
    assert "fill in" not in text_of() and "is open" not in "\n".join(lines)


@pytest.mark.parametrize(("template", "values"), [("tcp", TCP), ("roce", ROCE)])
def test_system_from_a_template_has_no_problems(template: str, values: dict[str, Any]) -> None:
    made(template, DescribedPartition("batch", "c[01-04]", (), values))

    def ask(*command: str) -> str:
        if command[0] == "scontrol":
            return "PartitionName=batch Nodes=c[01-04] State=UP\n"
        return "c[01-04]|batch*|(null)|4|1000|(null)|idle\n"

    lines = check.check("mine", ask, HOST)
    assert [str(line) for line in lines if line.status in ("problem", "warning")] == []
    assert [str(line) for line in lines if line.status == "hint"] == []


def test_what_was_not_seen_is_open_and_said_with_its_reason() -> None:
    partition = DescribedPartition("batch", "c[01-02]", values={"mtu_bytes": 1500})
    lines = made("tcp", dataclasses.replace(partition, missing={"link_gbits": "eth0 is virtual"}))
    assert "batch: link_gbits is open: eth0 is virtual" in lines
    assert "      # fill in: link_gbits: 10" in text_of()
    assert systems.load("mine").partition("batch").extras.link_gbits is None


def test_field_that_must_be_there_is_a_placeholder() -> None:
    made(
        "roce",
        DescribedPartition("batch", "c[01-02]", values=TCP, missing={"rails": "no RDMA device"}),
    )
    assert "        rails: 1  # a placeholder: fill in" in text_of()


def test_placeholder_that_is_left_is_a_problem_with_its_line() -> None:
    made("roce", DescribedPartition("batch", "c[01-02]", values=ROCE))
    assert not problems()
    path = paths.SYSTEMS / "mine" / "reframe.yaml"
    path.write_text(text_of().replace("rails: 2", f"rails: 2  {templates.PLACEHOLDER}"))
    (found,) = problems()
    number = next(n for n, line in enumerate(text_of().splitlines(), 1) if "rails: 2" in line)
    assert f"mine/reframe.yaml:{number}: still a placeholder: rails: 2; next: fill it in" in found


def problems() -> list[str]:
    systems.load.cache_clear()
    return [str(x) for x in check.check("mine", no_slurm, HOST) if x.status == "problem"]


def test_without_slurm_all_is_to_be_filled_in() -> None:
    made("tcp")
    assert "nodes: node[01-02]  # a placeholder: fill in" in text_of()
    assert systems.load("mine").partition("nodes").nodes == ("node01", "node02")


def test_each_of_slurms_partitions_is_one() -> None:
    made("tcp", BATCH, DescribedPartition("big.mem", "m[1-2]", values={}))
    described = systems.load("mine").partitions
    assert [(p.name, p.extras.nodes) for p in described] == [
        ("batch", "c[01-04]"),
        ("big-mem", "m[1-2]"),
    ]
    assert "--partition=big.mem" in text_of()


def test_login_node_is_this_host_alone() -> None:
    made("tcp", BATCH)
    assert systems.load("mine").hostnames == ["^login1$"]


def test_expectations_and_rules_of_the_gate_are_there() -> None:
    made("tcp", BATCH)
    found = expected.load("mine")
    assert found is not None and found.expected == []
    assert found.differs_freely("sysctl/net.ipv4.tcp_rmem")
    assert rules("mine").max_hold == 1


def test_no_number_is_made_up() -> None:
    lines = made("tcp", BATCH)
    assert references.load("mine").entries == []
    assert any("TCP must reach 50% of what 25 Gb/s carry" in line for line in lines)
    assert not any("--link-gbits" in line for line in lines)


def test_open_rate_is_said_with_the_option_that_states_it() -> None:
    lines = made("tcp", dataclasses.replace(BATCH, values={"mtu_bytes": 1500}))
    assert any("until link_gbits is stated (--link-gbits RATE" in line for line in lines)


def test_templates_name_is_no_systems() -> None:
    with pytest.raises(RailgaugeError, match="tcp is the name of a template"):
        new.make_from_template("tcp", "tcp", HOST, ())


def test_nothing_is_left_where_it_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.rename", fail)
    with pytest.raises(PrerequisiteError, match="Permission denied: nothing was made"):
        made("tcp", BATCH)
    assert list(paths.SYSTEMS.iterdir()) == []


# ---- Slurm's partitions ----


def a_slurm(gres: str = "", **partitions: list[str]) -> Cluster:
    idle = frozenset({"IDLE"})
    nodes = {n: SlurmNode(n, idle, gres=gres) for p in partitions.values() for n in p}
    return Cluster(nodes, {name: tuple(members) for name, members in partitions.items()})


def test_partition_with_nodes_of_another_is_left_out_and_reported() -> None:
    known = a_slurm(debug=["c1"], batch=["c1", "c2"], empty=[], fat=["m1"])
    described, lines = templates.partitions(known, [], [], {})
    assert [one.slurm_partition for one in described] == ["batch", "fat"]
    assert lines == ["not described: Slurm's partition debug: batch has its nodes too"]


def test_partition_that_is_asked_for_is_the_only_one() -> None:
    known = a_slurm(debug=["c1"], batch=["c1", "c2"])
    described, lines = templates.partitions(known, ["debug"], ["--qos=x"], {"mtu_bytes": 1500})
    assert (described, lines) == (
        [DescribedPartition("debug", "c1", ("--qos=x",), {"mtu_bytes": 1500})],
        [],
    )


@pytest.mark.parametrize("wanted", [[], ["a", "b"]])
def test_partitions_that_overlap_are_refused_with_what_to_type(wanted: list[str]) -> None:
    known = a_slurm(a=["c1", "c2"], b=["c2", "c3"])
    with pytest.raises(RailgaugeError) as caught:
        templates.partitions(known, wanted, [], {})
    assert "c2 in Slurm's partitions a and b" in str(caught.value)
    assert caught.value.next_step == "--partition a, or --partition b"


def test_unknown_partition_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RailgaugeError, match=r"no partition fast: it has a \(c1\)"):
        templates.partitions(a_slurm(a=["c1"]), ["fast"], [], {})


def test_what_is_stated_wins_over_what_is_seen() -> None:
    partition = DescribedPartition("batch", "c1", values={"link_gbits": 10})
    shown = Seen("batch", ("c1",), {"link_gbits": 25, "mtu_bytes": 9000}, {"rails": "none"})
    found = templates.seen(partition, shown)
    assert found.values == {"link_gbits": 10, "mtu_bytes": 9000}
    assert found.missing == {"rails": "none"}


# ---- what fits ----


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SYSTEMS", paths.HOME / "configs" / "systems")
    systems.load.cache_clear()


def test_every_template_and_system_has_a_line(committed: None) -> None:
    lines = "\n".join(propose.listing())
    for name in (*templates.names(), *systems.names()):
        assert re.search(rf"(?m)^  {name} +\S", lines), name


def seen(**values: Any) -> list[Seen]:
    return [Seen("batch", ("c1",), {"gpus": 0, **values}, {})]


@pytest.mark.parametrize(
    ("gres", "shown", "like"),
    [
        ("", [], "tcp"),
        ("gpu:h100:8(S:0-1)", [], "dgx-h100"),
        ("gpu:gb200:4", [], "gb200-nvl72"),
        ("gpu:a100:4", [], "tcp"),
        ("", seen(), "tcp"),
        ("", seen(devices="mlx5_0", link_layer="Ethernet"), "roce"),
        ("", seen(devices="mlx5_0", link_layer="InfiniBand"), "tcp"),
        ("", seen(gpus=8, gpu="NVIDIA H100 80GB HBM3"), "dgx-h100"),
        ("", seen(gpus=1, gpu="NVIDIA GB10"), "dgx-spark"),
        ("gpu:8", seen(gpus=8, gpu="NVIDIA L40S", devices="mlx5_0"), "tcp"),
    ],
)
def test_what_fits_is_proposed(committed: None, gres: str, shown: list[Seen], like: str) -> None:
    assert propose.proposal(a_slurm(gres, batch=["c1"]), shown)[0] == like


# ---- floors ----


def measured(metric: str) -> Measurement:
    return Measurement(metric, 0, "iperf2", "tcp", "tcp", streams=4)


def test_floors_are_shares_of_what_the_link_carries() -> None:
    made("tcp", BATCH)
    extras = systems.load("mine").partition("batch").extras
    found = minimum_bounds.of_link(measured("bandwidth"), extras, "mine", 3)
    stream = minimum_bounds.of_link(measured("stream_bandwidth_min"), extras, "mine", 3)
    again = minimum_bounds.of_link(measured("retransmits"), extras, "mine", 3)
    assert found is not None and stream is not None and again is not None
    # Of 25 Gb/s (9000 - 52)/(9000 + 38) are payload.
    assert found.lowest == pytest.approx(24.75 / 2, rel=1e-3)
    assert stream.lowest == pytest.approx(24.75 / 2 / 4 / 4, rel=1e-3)
    # 3 s at 24.75 Gb/s are 1.04 million segments of 8948 bytes.
    assert again.highest == pytest.approx(10373, rel=1e-3)
    assert {found.kind, stream.kind, again.kind} == {"floor"}
    assert "function only" in found.note


def test_of_a_fast_link_no_more_is_asked_than_untuned_hosts_reach() -> None:
    made("tcp", dataclasses.replace(BATCH, values={"mtu_bytes": 9000, "link_gbits": 400}))
    extras = systems.load("mine").partition("batch").extras
    found = minimum_bounds.of_link(measured("bandwidth"), extras, "mine", 3)
    assert found is not None and found.lowest == pytest.approx(20)


@pytest.mark.parametrize("field", ["floor_share", "link_gbits", "mtu_bytes"])
def test_no_floor_where_the_description_does_not_say(field: str) -> None:
    made("tcp", BATCH)
    extras = systems.load("mine").partition("batch").extras.model_copy(update={field: None})
    assert minimum_bounds.of_link(measured("bandwidth"), extras, "mine", 3) is None


def test_required_check_with_an_open_link_needs_a_baseline() -> None:
    made("tcp", DescribedPartition("batch", "c[01-04]", values={"mtu_bytes": 1500}))
    lines = [str(line) for line in check.check("mine", no_slurm, HOST)]
    (hint,) = [x for x in lines if "Iperf2Pair (bandwidth, retransmits)" in x]
    assert "next: state link_gbits, which give floors; or railgauge accept --mode" in hint


# ---- the command ----


def no_slurm(*_: str) -> str:
    raise PrerequisiteError("scontrol is not on the path: no Slurm here")


def a_cluster(*command: str, **_: Any) -> str:
    """Slurm with one partition, on whose nodes the job prints what they show."""
    if command[:3] == ("scontrol", "show", "partition"):
        return "PartitionName=batch Nodes=c[01-02] State=UP\n"
    if command[0] == "scontrol":
        node = "CPUTot=4 AvailableFeatures=(null) Gres=(null) RealMemory=1000 State=IDLE\n"
        return f"NodeName=c01 {node}NodeName=c02 {node}"
    document = {
        **{"schema": "railgauge-detect-1", "python": "3.11.2", "bond": [], "ports": {}},
        **{"gpus": 0, "gpu_model": "", "unknown": {}, "link_mbits": 25000},
        "way": {"device": "eth0", "mtu_bytes": 9000},
    }
    said = {n: json.dumps({**document, "node": n}) for n in ("c01", "c02")}
    labelled = [
        [f"{task}: {x}" for x in srun_output.lines(*of)] for task, of in enumerate(said.items())
    ]
    return "\n".join(itertools.chain(*labelled))


def run(monkeypatch: pytest.MonkeyPatch, ask: Any, *arguments: str) -> Any:
    monkeypatch.setattr(client, "output", ask)
    return invoke(commands, ["new", *arguments])


def test_system_is_filled_in_from_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = run(monkeypatch, a_cluster, "mine", "--like", "tcp", "--detect")
    assert answer.exit_code == 0, answer.exception
    extras = systems.load("mine").partition("batch").extras
    assert (extras.nodes, extras.mtu_bytes, extras.link_gbits) == ("c[01-02]", 9000, 25)
    assert "batch: seen on c[01-02]: python 3.11.2, device eth0" in answer.output
    assert answer.output.splitlines()[-1] == "3. railgauge accept --plan --system mine"


def test_rate_can_be_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--detect", "--link-gbits", "2.5", "--mtu-bytes", "4200")
    run(monkeypatch, a_cluster, "mine", "--like", "tcp", *options)
    extras = systems.load("mine").partition("batch").extras
    assert (extras.mtu_bytes, extras.link_gbits) == (4200, 2.5)


@pytest.mark.parametrize("arguments", [(), ("--list",), ("--list", "mine")])
def test_list_says_what_there_is_and_what_fits(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    answer = run(monkeypatch, a_cluster, *arguments)
    assert "  tcp            Ethernet, TCP only" in answer.output
    assert "proposed: --like tcp: Slurm has no GPUs" in answer.output
    assert list(paths.SYSTEMS.iterdir()) == []


@pytest.mark.parametrize("arguments", [("mine",), ("--like", "tcp")])
def test_half_a_command_makes_nothing_and_is_usage(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    answer = run(monkeypatch, a_cluster, *arguments)
    assert isinstance(answer.exception, RailgaugeError)
    assert "nothing was made" in str(answer.exception)
    assert "proposed: " in answer.output


def test_list_without_slurm_proposes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = run(monkeypatch, no_slurm, "--list")
    assert (answer.exit_code, "no proposal: " in answer.output) == (0, True)


def test_rate_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = run(monkeypatch, a_cluster, "mine", "--like", "tcp", "--link-gbits", "-1")
    assert "--link-gbits is -1.0, expected a number above 0" in str(answer.exception)
    assert "next: the same command with --link-gbits 400" in str(answer.exception)


def test_rate_in_bits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = run(monkeypatch, a_cluster, "mine", "--like", "tcp", "--link-gbits", "4e11")
    assert "--link-gbits is 4e+11, expected at most 100,000, as it is in Gb/s" in str(
        answer.exception
    )


@pytest.mark.parametrize(
    "option", [("--link-gbits", "100"), ("--mtu-bytes", "9000"), ("--access", "--account=a")]
)
def test_what_is_of_slurms_partitions_is_not_dropped_in_silence(
    monkeypatch: pytest.MonkeyPatch, option: tuple[str, str]
) -> None:
    answer = run(monkeypatch, no_slurm, "mine", "--like", "tcp", *option)
    assert f"{option[0]} is of the partitions that Slurm has" in str(answer.exception)
