"""Slurm's own description of the network (topology/tree), where it has one."""

from __future__ import annotations

from collections.abc import Mapping

from railgauge import hostlist
from railgauge.slurm import client
from railgauge.slurm.client import SlurmError
from railgauge.slurm.nodes import fields_of


def leaf_of_nodes(partition: str = "") -> Mapping[str, str]:
    """Node -> its leaf switch, for the jobs of a Slurm partition, "" for the default one. Nothing
    where Slurm knows of no tree, or does not answer: most clusters have none, and `scontrol` then
    prints an error or other lines; nor of several partitions, with commas between them, of
    different topologies.

    Since Slurm 25.05 there may be several topologies (topology.yaml(5)). A partition has
    one of them by name (slurm.conf(5), Topology), else the cluster's default.

    A leaf is a switch of level 0, `SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-8]`. A node that
    is on two is left out: which of them it uses is not known.
    """
    try:
        names = set()
        for each in partition.split(","):
            shown = (
                client.output("scontrol", "show", "partition", each, "--oneliner") if each else ""
            )
            names.add(fields_of(shown).get("Topology", ""))
        if len(names) > 1:
            return {}
        chosen = [name for name in names if name]
        answer = client.output("scontrol", "show", "topology", *chosen, "--oneliner")
    except SlurmError:
        return {}
    leaves: dict[str, set[str]] = {}
    for line in answer.splitlines():
        fields = fields_of(line)
        if fields.get("Level") != "0" or not fields.get("SwitchName") or not fields.get("Nodes"):
            continue
        try:
            members = hostlist.expand(fields["Nodes"])
        except ValueError:
            continue
        for node in members:
            leaves.setdefault(node, set()).add(fields["SwitchName"])
    return {node: next(iter(names)) for node, names in leaves.items() if len(names) == 1}
