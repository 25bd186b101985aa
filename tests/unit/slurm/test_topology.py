"""Slurm's tree of switches, and what it gives to the jobs of a partition."""

from __future__ import annotations

import pytest

from railgauge.slurm import client, partitions, topology
from railgauge.slurm.client import SlurmError

#: As Slurm 24.11 prints it of the lab (railgauge lab up --system lab32), cut to two leaves.
TREE = (
    "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
    "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
    "SwitchName=spines Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2]\n"
)


def told(monkeypatch: pytest.MonkeyPatch, answer: str | Exception) -> None:
    def output(*command: str) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(client, "output", output)


def test_a_leaf_is_a_switch_of_level_0(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, TREE)
    leaves = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}
    assert topology.leaf_of_nodes() == leaves


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "No topology information available\n",
        "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n",
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-\n",
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=(null)\n",
        SlurmError("slurm_load_topo error: Requested operation not supported"),
    ],
)
def test_without_a_tree_no_leaf_is_known(
    monkeypatch: pytest.MonkeyPatch, answer: str | Exception
) -> None:
    told(monkeypatch, answer)
    assert topology.leaf_of_nodes() == {}


def test_a_node_on_two_leaves_is_on_none(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, TREE.replace("n[3-4]", "n[2-4]"))
    assert topology.leaf_of_nodes() == {"n1": "leaf1", "n3": "leaf2", "n4": "leaf2"}


#: As Slurm 25.11 prints a partition with a topology of its own (src/api/partition_info.c, with
#: the line's ends as --oneliner has them), cut.
WITH_TOPOLOGY = "PartitionName=ib Nodes=n[1-4] PreemptMode=OFF Topology={} State=UP TotalNodes=4\n"


@pytest.mark.parametrize(
    ("partition", "shown", "leaf"),
    [
        ("ib", WITH_TOPOLOGY.format("ib"), "ibleaf1"),
        ("ib", WITH_TOPOLOGY.format("blocks"), None),
        ("ns", "PartitionName=ns Nodes=n[1-4] State=UP TotalNodes=4\n", "leaf1"),
        ("", "", "leaf1"),
        ("ns,ib", WITH_TOPOLOGY.format("ib"), None),
        ("ib,ib", WITH_TOPOLOGY.format("ib"), "ibleaf1"),
        ("ns,ns", "PartitionName=ns Nodes=n[1-4] State=UP TotalNodes=4\n", "leaf1"),
        # Its leaves may be other ones.
        ("silent", None, None),
    ],
)
def test_a_partitions_leaves_are_those_of_its_own_topology(
    monkeypatch: pytest.MonkeyPatch, partition: str, shown: str | None, leaf: str | None
) -> None:
    """Since 25.05; `scontrol show topology` alone tells of the cluster's default one."""
    answers = {
        ("topology",): TREE,
        ("topology", "ib"): TREE.replace("leaf", "ibleaf"),
        ("topology", "blocks"): "BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4\n",
        ("partition", "ns"): "PartitionName=ns Nodes=n[1-4] State=UP TotalNodes=4\n",
        **({("partition", partition.split(",")[-1]): shown} if shown else {}),
    }

    def output(*words: str) -> str:
        if words[2:-1] not in answers:
            raise SlurmError("slurm_load_partitions error: Invalid partition name specified")
        return answers[words[2:-1]]

    monkeypatch.setattr(client, "output", output)
    assert topology.leaf_of_nodes(partition).get("n1") == leaf


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("00:30:00", 1800), ("1-00:00:00", 86400), ("2-01:02:03", 176523), ("UNLIMITED", None)],
)
def test_a_partition_gives_to_jobs_so_many_seconds(
    monkeypatch: pytest.MonkeyPatch, limit: str, seconds: int | None
) -> None:
    told(monkeypatch, f"PartitionName=ns Default=YES MaxNodes=UNLIMITED MaxTime={limit} Nodes=n1\n")
    assert partitions.time_limits_s() == ({} if seconds is None else {"ns": seconds})


def test_without_slurm_no_limit_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, SlurmError("scontrol is not on the path"))
    assert partitions.time_limits_s() == {}
