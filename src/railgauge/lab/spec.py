"""What a lab is made of: `configs/systems/lab/lab.yaml`, or a file of the same form elsewhere."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal

import pydantic

from railgauge import paths
from railgauge.hostlist import expand
from railgauge.yamlfile import Strict, load_model

FILE = paths.SYSTEMS / "lab" / "lab.yaml"

#: VM nodes have a kernel of their own; namespace nodes share this machine's.
NodeKindName = Literal["namespace", "vm"]


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


class Head(Strict):
    name: str


class NodeGroup(Strict):
    names: str
    kind: NodeKindName
    cpus: int = pydantic.Field(ge=1)
    memory_mib: int = pydantic.Field(ge=64)
    gpus: int = pydantic.Field(ge=0, le=16)

    @pydantic.field_validator("names")
    @classmethod
    def _is_hostlist(cls, value: str) -> str:
        expand(value)
        return value


class Blocks(Strict):
    size: int = pydantic.Field(ge=1)
    members: list[str]


class User(Strict):
    """Somebody who is not root, on every machine. The home folder of `shared` is one for all
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
    #: its place in the list, from 1; the last part of all its addresses is 10 + place
    place: int
    address: str
    cpus: int
    memory_mib: int
    gpus: int


class LabSpec(Strict):
    network: Network
    fabric: Fabric = Fabric(rail_subnets=[])
    head: Head
    nodes: list[NodeGroup]
    blocks: Blocks | None = None
    #: Machines are called NAME.DOMAIN, as at many sites; Slurm's names of the nodes stay short.
    domain: str | None = None
    #: False: without MariaDB and slurmdbd, `sacct` answers nothing.
    accounting: bool = True
    #: A cluster of somebody else: the text of its slurm.conf, taken as it is. Its machines do not
    #: see this checkout. Without it the lab makes one, for the partitions of the system `lab`.
    slurm_conf: str | None = None
    users: list[User] = []

    @property
    def services(self) -> list[str]:
        """The daemons of the head, in the order in which they start."""
        return [*(["mariadb", "slurmdbd"] if self.accounting else []), "slurmctld"]

    @property
    def slurm_user(self) -> str:
        """Whose slurmctld and slurmdbd are: root's in the lab's own slurm.conf."""
        return "slurm" if self.slurm_conf else "root"

    def host_name(self, machine: str) -> str:
        """What the head or a node calls itself."""
        return f"{machine}.{self.domain}" if self.domain else machine

    @property
    def head_address(self) -> str:
        return str(self.network.subnet[1])

    @property
    def prefix_length(self) -> int:
        return self.network.subnet.prefixlen

    def all_nodes(self) -> list[Node]:
        """Every node in the order of the file; the n-th has the subnet's address 10 + n."""
        described = [(name, group) for group in self.nodes for name in expand(group.names)]
        return [
            Node(
                name=name,
                kind=group.kind,
                place=place,
                address=str(self.network.subnet[10 + place]),
                cpus=group.cpus,
                memory_mib=group.memory_mib,
                gpus=group.gpus,
            )
            for place, (name, group) in enumerate(described, start=1)
        ]


def load(path: Path = FILE) -> LabSpec:
    return load_model(path, LabSpec)
