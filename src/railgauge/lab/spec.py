"""What a lab is made of: the `lab.yaml` of a system, or a file of the same form elsewhere."""

from __future__ import annotations

import collections
import ipaddress
from pathlib import Path
from typing import Literal

import pydantic

from railgauge import lab, paths
from railgauge.hostlist import expand
from railgauge.yamlfile import Strict, load_model

#: VM nodes have a kernel of their own; namespace nodes share this machine's.
NodeKindName = Literal["namespace", "vm"]

#: Every leaf, and the head, has such a part of the lab's subnet; the last one is the uplinks'.
_LEAF_PREFIX = 24

#: The last parts of addresses: the leaf's, and what comes before that of its first node.
_GATEWAY, _BEFORE_NODES = 1, 10


class Network(Strict):
    subnet: ipaddress.IPv4Network
    mtu_bytes: int = pydantic.Field(ge=1280, le=9000)
    link_gbits: float = pydantic.Field(gt=0, le=100)


class BondLinks(Strict):
    """Links that every VM node bonds: one bridge each, shaped to `link_gbits`."""

    subnet: ipaddress.IPv4Network
    links: int = pydantic.Field(ge=2, le=4)
    link_gbits: float = pydantic.Field(gt=0, le=10)


class Fabric(Strict):
    """What VM nodes have beside eth0: a Soft-RoCE rail per subnet, and a bond.

    A rail is one bridge; the lab's first namespace routes between rails, as a spine does.
    """

    rail_subnets: list[ipaddress.IPv4Network] = pydantic.Field(max_length=8)
    bond: BondLinks | None = None


class Switches(Strict):
    """Leaves and spines in place of one bridge for all nodes, each a network namespace.

    A leaf has its share of the nodes, in their order, in a subnet of their own, and one link to
    every spine, over which it spreads flows by addresses and ports (ECMP).
    """

    leaves: int = pydantic.Field(ge=1, le=15)
    spines: int = pydantic.Field(ge=1, le=8)
    #: What each link between a leaf and a spine is shaped to.
    uplink_gbits: float = pydantic.Field(gt=0, le=100)


class Infiniband(Strict):
    """A simulated InfiniBand subnet: ibsim in place of switches and HCAs, with the real opensm.

    Nodes are on the leaves in their order, with one link for each HCA. The head has one HCA, on the
    first leaf; opensm uses it.
    """

    leaves: int = pydantic.Field(default=4, ge=1, le=64)
    spines: int = pydantic.Field(default=2, ge=1, le=64)
    hcas: int = pydantic.Field(default=2, ge=1, le=8)


class Head(Strict):
    name: str


class NodeGroup(Strict):
    names: str
    kind: NodeKindName
    cpus: int = pydantic.Field(ge=1)
    memory_mib: int = pydantic.Field(ge=64)
    gpus: int = pydantic.Field(ge=0, le=16)
    #: Of VM nodes: CPUs and memory are parted among so many, and the rails in turn.
    numa_nodes: int = pydantic.Field(default=1, ge=1, le=4)
    #: Of namespace nodes: the GPUs are the NVIDIA ones of this machine, which all nodes share.
    host_gpus: bool = False

    @pydantic.field_validator("names")
    @classmethod
    def _is_hostlist(cls, value: str) -> str:
        expand(value)
        return value

    @pydantic.model_validator(mode="after")
    def _numa_nodes_fit(self) -> NodeGroup:
        if self.numa_nodes > 1 and self.kind != "vm":
            raise ValueError("numa_nodes: of VM nodes only, the others have those of this machine")
        if self.host_gpus and (self.kind == "vm" or not self.gpus):
            raise ValueError("host_gpus: of namespace nodes only, and gpus says how many")
        if self.cpus % self.numa_nodes or self.memory_mib % self.numa_nodes:
            raise ValueError(
                f"{self.cpus} CPUs and {self.memory_mib} MiB, expected multiples of numa_nodes, "
                f"{self.numa_nodes}"
            )
        return self


class Blocks(Strict):
    size: int = pydantic.Field(ge=1)
    members: list[str]


class User(Strict):
    """A user other than root, on every machine. The home folder of `shared` is one for all
    machines, /home/NAME; that of `local` each machine has its own of, /local/NAME.
    """

    name: str = pydantic.Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")
    uid: int = pydantic.Field(ge=1000, le=60000)
    home: Literal["shared", "local"] = "shared"

    @property
    def folder(self) -> str:
        return f"/{'home' if self.home == 'shared' else 'local'}/{self.name}"


class Node(Strict):
    """One node, with the addresses that follow from its place in the list."""

    name: str
    kind: NodeKindName
    #: its place in the list, from 1; on one bridge the last part of all its addresses is 10 + place
    place: int
    address: str
    #: the leaf that it is on, and that leaf's address; None where the lab has no leaves
    leaf: str | None
    gateway: str | None
    cpus: int
    memory_mib: int
    gpus: int
    numa_nodes: int = 1
    host_gpus: bool = False


class Switch(Strict):
    """A leaf or a spine, with the addresses that follow from its place among those."""

    name: str
    kind: Literal["leaf", "spine"]
    #: from 1
    place: int
    #: of a leaf: that of its nodes, in which it has the first address
    subnet: ipaddress.IPv4Network | None = None


class Uplink(Strict):
    """The link of a leaf, or of the head, with a spine. Each end's interface is called after the
    other end.
    """

    lower: str
    spine: str
    #: two addresses: the first is the lower end's
    subnet: ipaddress.IPv4Network
    #: None: not shaped, as the head's, which is no part of what is measured
    gbits: float | None


class LabSpec(Strict):
    network: Network
    switches: Switches | None = None
    fabric: Fabric = Fabric(rail_subnets=[])
    infiniband: Infiniband | None = None
    head: Head
    nodes: list[NodeGroup]
    blocks: Blocks | None = None
    #: Machines are called NAME.DOMAIN, as at many sites; Slurm's names of the nodes stay short.
    domain: str | None = None
    #: False: without MariaDB and slurmdbd, `sacct` answers nothing.
    accounting: bool = True
    #: A cluster of somebody else: the text of its slurm.conf, taken as it is. Its machines do not
    #: see this checkout. Without it the lab makes one, for the partitions of the system.
    slurm_conf: str | None = None
    users: list[User] = []

    @property
    def services(self) -> list[str]:
        """The daemons of the head of every lab, in the order in which they start."""
        subnet = ["ibsim", "opensm"] if self.infiniband else []
        return [*subnet, *(["mariadb", "slurmdbd"] if self.accounting else []), "slurmctld"]

    @property
    def slurm_user(self) -> str:
        """The user of slurmctld and slurmdbd: root in the lab's own slurm.conf."""
        return "slurm" if self.slurm_conf else "root"

    def host_name(self, machine: str) -> str:
        """What the head or a node calls itself."""
        return f"{machine}.{self.domain}" if self.domain else machine

    @property
    def _leaf_subnets(self) -> list[ipaddress.IPv4Network]:
        """The head's, then one a leaf; the last one is that of the uplinks."""
        if self.switches is None:
            return [self.network.subnet]
        every = list(self.network.subnet.subnets(new_prefix=_LEAF_PREFIX))
        return [*every[: self.switches.leaves + 1], every[-1]]

    @property
    def head_subnet(self) -> ipaddress.IPv4Network:
        return self._leaf_subnets[0]

    @property
    def head_address(self) -> str:
        return str(self.head_subnet[_GATEWAY])

    @property
    def prefix_length(self) -> int:
        """Of the subnet that a node's eth0 is in."""
        return self.head_subnet.prefixlen

    def all_nodes(self) -> list[Node]:
        """Every node in the order of the file; the n-th of a leaf, or of a lab without leaves, has
        the address 10 + n of its subnet.
        """
        described = [(name, group) for group in self.nodes for name in expand(group.names)]
        leaves = self.switches.leaves if self.switches else 0
        subnets = self._leaf_subnets
        on_leaf = collections.Counter[int]()
        nodes = []
        for index, (name, group) in enumerate(described):
            # 0 is that of the head, where all are that are on no leaf.
            leaf = 1 + index * leaves // len(described) if leaves else 0
            on_leaf[leaf] += 1
            nodes.append(
                Node(
                    name=name,
                    kind=group.kind,
                    place=index + 1,
                    address=str(subnets[leaf][_BEFORE_NODES + on_leaf[leaf]]),
                    leaf=f"leaf{leaf}" if leaf else None,
                    gateway=str(subnets[leaf][_GATEWAY]) if leaf else None,
                    cpus=group.cpus,
                    memory_mib=group.memory_mib,
                    gpus=group.gpus,
                    numa_nodes=group.numa_nodes,
                    host_gpus=group.host_gpus,
                )
            )
        return nodes

    def all_switches(self) -> list[Switch]:
        """The leaves, then the spines."""
        if self.switches is None:
            return []
        subnets = self._leaf_subnets[1:-1]
        return [
            *(
                Switch(name=f"leaf{place}", kind="leaf", place=place, subnet=subnet)
                for place, subnet in enumerate(subnets, start=1)
            ),
            *(
                Switch(name=f"spine{place}", kind="spine", place=place)
                for place in range(1, self.switches.spines + 1)
            ),
        ]

    def nodes_of(self, leaf: str) -> list[str]:
        """The names of the nodes on a leaf."""
        return [node.name for node in self.all_nodes() if node.leaf == leaf]

    def uplinks(self) -> list[Uplink]:
        """The links of the head and of every leaf with the spines, in this order."""
        if self.switches is None:
            return []
        pairs = self._leaf_subnets[-1].subnets(new_prefix=31)
        leaves = [(s.name, self.switches.uplink_gbits) for s in self.all_switches() if s.subnet]
        return [
            Uplink(lower=lower, spine=f"spine{spine}", subnet=next(pairs), gbits=gbits)
            for lower, gbits in [(self.head.name, None), *leaves]
            for spine in range(1, self.switches.spines + 1)
        ]

    @pydantic.model_validator(mode="after")
    def _infiniband_fits(self) -> LabSpec:
        if self.infiniband and self.slurm_conf:
            raise ValueError("infiniband and slurm_conf: such a cluster does not see the simulator")
        return self

    @pydantic.model_validator(mode="after")
    def _switches_fit(self) -> LabSpec:
        if self.switches is None:
            return self
        if any(group.kind == "vm" for group in self.nodes):
            raise ValueError("switches: namespace nodes only, VM nodes are on the lab's own bridge")
        if self.blocks:
            raise ValueError("switches and blocks: Slurm has one topology, leave one out")
        room = 2 ** max(_LEAF_PREFIX - self.network.subnet.prefixlen, 0)
        needed = self.switches.leaves + 2
        if room < needed:
            raise ValueError(
                f"network.subnet {self.network.subnet} has {room} parts of /{_LEAF_PREFIX}, "
                f"expected {needed}: {self.switches.leaves} for leaves, and those of the head and "
                "the uplinks"
            )
        count = len([name for group in self.nodes for name in expand(group.names)])
        if not self.switches.leaves <= count <= 200 * self.switches.leaves:
            raise ValueError(
                f"{count} nodes on {self.switches.leaves} leaves, expected 1 to 200 on each"
            )
        return self


def file(system: str = lab.SYSTEM) -> Path:
    """The file in which a system that the lab stages describes its cluster."""
    return paths.system_folder(system) / "lab.yaml"


def load(path: Path | None = None) -> LabSpec:
    """The description in `path`, or that of the system `lab`."""
    return load_model(path or file(), LabSpec)
