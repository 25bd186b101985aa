"""Railgauge's own fields in a system's `reframe.yaml`, by feature."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import pydantic

from railgauge import hostlist
from railgauge.common.errors import ConfigurationError
from railgauge.model.measurement import CONGESTION_CONTROL
from railgauge.model.shares import LeastShare
from railgauge.slurm import client
from railgauge.systems.application import Applications
from railgauge.systems.contention import Contention
from railgauge.systems.fabric import Fabric
from railgauge.systems.gpu_links import GpuLinks
from railgauge.systems.infiniband import Infiniband
from railgauge.systems.nccl import Nccl
from railgauge.systems.rdma import Expression, Gbits, Rdma
from railgauge.systems.wan import Bond, Wan
from railgauge.yamlfile import Strict, read_old_checks


class Budget(Strict):
    """How much a counter may grow on one node during one test."""

    RENAMED = {"most": "max"}

    counters: Expression
    """Matches whole names such as `rdma/mlx5_0/1/counters/symbol_error`,
    `ethtool/eth0/rx_crc_errors_phy` or `net/eth0/rx_errors`; of several budgets that match, the
    first counts.
    """
    max: int = pydantic.Field(ge=0)
    """Events on one node during one test."""
    why: str = pydantic.Field(min_length=1)
    """Why so many are no fault."""


class Tcp(Strict):
    """What a transfer sets of TCP; None leaves it to the kernel."""

    streams: int = pydantic.Field(default=4, ge=1, le=128)
    """Parallel connections."""
    window_bytes: int | None = pydantic.Field(default=None, ge=1024)
    """Socket buffers of each stream; capped by net.core.rmem_max and wmem_max, which a run then
    fails on.
    """
    congestion: str | None = pydantic.Field(default=None, pattern=f"^{CONGESTION_CONTROL}$")
    """The congestion control."""


def _differ(settings: dict[str, Tcp]) -> dict[str, Tcp]:
    for name, other in itertools.combinations(settings, 2):
        if settings[name] == settings[other]:
            raise ValueError(f"{name} and {other} ask for the same")
    return settings


#: What is measured against each other: the kernel's own choice, and what tuning asks for. What no
#: job can change (sysctl, ring buffers) is not here; the nodes' facts say how it was.
Settings = Annotated[
    dict[Annotated[str, pydantic.Field(pattern="^[a-z0-9_-]+$")], Tcp],
    pydantic.Field(min_length=1),
    pydantic.AfterValidator(_differ),
]


#: How many NICs at once: one, those of one cable, those of all cables.
NicScale = Literal["nic", "cable", "all"]


class Nics(Strict):
    """The logical NICs of a partition's nodes, each with an address in a subnet of its own."""

    cables: list[Annotated[list[str], pydantic.Field(min_length=1)]] = pydantic.Field(min_length=1)
    """The interfaces that share a cable, cable by cable."""
    nic_gbits: Gbits | None = None
    """The raw rate of one NIC (its link, or the PCIe lanes behind it) in one direction; none where
    there is no such thing.
    """
    cable_gbits: Gbits | None = None
    """The raw rate of one cable, likewise."""
    node_gbits: Gbits | None = None
    """The raw rate of all NICs of a node together, likewise."""
    mtu_bytes: int = pydantic.Field(ge=576, le=65535)
    """Of every NIC."""
    settings: Settings = {"default": Tcp()}
    """TCP settings to compare, by name."""
    duration_s: int = pydantic.Field(default=10, ge=2)
    """Of one run."""
    least_share: float = pydantic.Field(default=0.5, gt=0, le=1)
    """Of NICs at once, the least that each carries, as a share of what the busiest of them does."""
    series_only: bool = False
    """Measured only when asked for: railgauge accept --series."""

    @pydantic.model_validator(mode="after")
    def _named_once(self) -> Nics:
        names = [name for cable in self.cables for name in cable]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"cables: {', '.join(twice)} twice")
        return self

    def at_once(self, scale: NicScale) -> list[list[str]]:
        """The NICs that are measured together at that scale; no group at two scales."""
        if scale == "nic":
            return [[name] for cable in self.cables for name in cable]
        if scale == "cable":
            return [cable for cable in self.cables if len(cable) > 1]
        everything = [name for cable in self.cables for name in cable]
        return [everything] if len(self.cables) > 1 else []

    def gbits(self, names: Sequence[str]) -> float | None:
        """The raw rate of some NICs at once, in one direction; None where none is known."""
        cables = sum(bool(set(cable) & set(names)) for cable in self.cables)
        known = (
            self.nic_gbits and self.nic_gbits * len(names),
            self.cable_gbits and self.cable_gbits * cables,
            self.node_gbits,
        )
        return min((rate for rate in known if rate), default=None)


class Mpi(Strict):
    """An MPI program that is timed alone, and while a transfer runs between the same nodes."""

    program: Literal["allreduce", "osu_allreduce", "osu_alltoall"] = "allreduce"
    """`allreduce` is ours, by Open MPI's library, and needs no compiler; the OSU micro-benchmarks
    must be on the nodes' path.
    """
    size_bytes: int = pydantic.Field(default=65536, ge=4, le=2**30, multiple_of=4)
    """Of one message."""
    iterations: int = pydantic.Field(default=200, ge=1)
    """Operations that are timed."""
    settings: Settings = {"default": Tcp()}
    """TCP settings of the transfer to compare, by name."""
    transfer_s: int = pydantic.Field(default=10, ge=2)
    """How long the transfer runs; it must outlast the program."""
    series_only: bool = False
    """Not measured unless the series is asked for: railgauge accept --series."""


TransferTool = Literal["iperf3", "wdt", "lftp", "scp", "hpn-scp", "bbcp"]


class FilesOfOneSize(Strict):
    """What a transfer moves: one large file, or a directory of small ones."""

    files: int = pydantic.Field(ge=1, le=100_000)
    """How many."""
    file_bytes: int = pydantic.Field(ge=1)
    """Of each."""


class Wdt(Strict):
    """How WDT is run; its connections are the transfers' `streams`, each to a port of its own."""

    start_port: int | None = pydantic.Field(default=None, ge=1024, le=65535)
    """The first of as many ports as there are streams; none: any that are free."""
    encryption: Literal["aes128gcm", "aes128ctr", "none"] = "aes128gcm"
    """Of the connections."""
    skip_writes: list[bool] = pydantic.Field(default=[False], min_length=1)
    """false: what arrives is written, and verified by its sums. true: it is thrown away, which
    measures the network without the receiver's disk. Both: one case of each.
    """


class Transfers(Strict):
    """Files, and streams by iperf3, between two nodes, by the tools that people move them with."""

    tools: list[TransferTool] = pydantic.Field(min_length=1)
    """The tools that every node must have."""
    optional: list[TransferTool] = []
    """Run where both nodes have them; the verdict says where they were not."""
    file_sets: dict[Annotated[str, pydantic.Field(pattern="^[a-z][a-z0-9]*$")], FilesOfOneSize] = {}
    """Sets of files, by a short name such as `large` or `small`."""
    scratch: str = pydantic.Field(default="/tmp", pattern=r"^(/[\w.+-]+)+$")
    """A folder of each node's own with room for a set of files; what a transfer makes there goes
    with its job.
    """
    path: list[str] = []
    """Folders on the nodes where programs are looked for before PATH."""
    streams: int = pydantic.Field(default=8, ge=1, le=128)
    """Parallel connections, of the tools that have them."""
    duration_s: int = pydantic.Field(default=10, ge=1)
    """Of iperf3."""
    timeout_s: int = pydantic.Field(default=600, ge=5)
    """Longest time of one transfer."""
    pairs: Literal["all", "first"] = "all"
    """Which neighbours: all around the ring, or the first two, where one pair stands for all."""
    series_only: bool = False
    """Nothing here is measured unless the series is asked for: railgauge accept --series."""
    always: dict[TransferTool, str] = {}
    """By tool, the one of file_sets that every acceptance moves although series_only; by an
    optional tool where make stack has built it.
    """
    wdt: Wdt = Wdt()
    """How WDT is run."""

    @pydantic.model_validator(mode="after")
    def _cases_differ(self) -> Transfers:
        everything = [*self.tools, *self.optional]
        twice = sorted({tool for tool in everything if everything.count(tool) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} is listed twice in tools and optional")
        if set(everything) != {"iperf3"} and not self.file_sets:
            raise ValueError("file_sets is empty, and all tools but iperf3 move files")
        for tool, name in self.always.items():
            if tool not in everything or tool == "iperf3":
                raise ValueError(f"always has {tool}, expected one of tools that moves files")
            if name not in self.file_sets:
                raise ValueError(f"always.{tool} is {name}, expected one of file_sets")
        if self.always and not self.series_only:
            raise ValueError("always says what is measured although series_only, which is not set")
        conditions = [(s.files == 1, s.file_bytes) for s in self.file_sets.values()]
        if len(conditions) != len(set(conditions)):
            raise ValueError(
                "two file_sets are one large file, or many small ones, of the same file_bytes: "
                "their numbers could not be distinguished"
            )
        if len(self.wdt.skip_writes) != len(set(self.wdt.skip_writes)):
            raise ValueError("wdt.skip_writes has the same value twice")
        first = self.wdt.start_port
        if first is not None and first + self.streams > 65536:
            raise ValueError(f"wdt.start_port {first} leaves no {self.streams} ports, one a stream")
        return self


Schedule = Literal["neighbours", "quiet", "random", "cover", "shift", "tournament"]


class Sweep(Strict):
    """How many places are measured in one job, in rounds. In a round a node, or a rail of it, has
    at most one partner.
    """

    schedule: Schedule = "neighbours"
    """Which pairs, and how many at once; of one session `railgauge accept --schedule` says it.
    neighbours: every node with the one before and the one behind it, in rings, one a leaf where
    leaves are known; two rounds (three for a ring of an odd number of nodes). quiet: the same
    pairs, one at a time, while all other nodes are idle. random: every node with `random_rounds`
    others. cover: every two leaves, all their nodes one to one, so that all uplinks are loaded.
    shift: as neighbours, and RdmaBandwidth from every rail to every other one. tournament: every
    two nodes.
    """
    random_rounds: int = pydantic.Field(default=3, ge=1)
    """How many partners `random` gives to each node."""
    seed: int = pydantic.Field(default=1, ge=0)
    """The seed of `random`. The same seed gives the same rounds."""
    rails_at_once: bool = False
    """All rails of a node are measured in one round, which is right where no two share a PCIe link
    or cores; else they come one after the other.
    """
    nodes_per_job: int | None = pydantic.Field(default=None, ge=2)
    """The most nodes of one job. A larger partition is measured in groups, one after the other, and
    the other nodes stay free for production. None: all nodes at once.
    """
    locate_rounds: int = pydantic.Field(default=3, ge=0)
    """The most rounds that a sweep adds to find the part at fault. It adds them when pairs failed,
    are far slower than the others, or retransmitted more TCP segments than their reference admits.
    Their nodes are measured with nodes that were good; a node that is good with another partner is
    cleared. If enough rounds are left (8 after three bad results, 3 after 13), a node at fault is
    also measured while all other nodes are quiet, to distinguish load from a fault.
    """


class Absent(Strict):
    """A node, or RDMA devices of it, known to be missing: left out, and named in every verdict."""

    node: str = pydantic.Field(min_length=1)
    """One of `nodes`."""
    devices: list[str] = []
    """Its RDMA devices that NCCL, NodeState and perftest go without; none: the whole node."""
    why: str = pydantic.Field(min_length=1)
    """What every verdict says of it."""


class Extras(Strict):
    """What Railgauge needs to know of a partition."""

    nodes: str
    """A host list of all its nodes, up or down."""
    mtu_bytes: int | None = pydantic.Field(default=None, ge=576, le=65535)
    """The MTU of the path that TCP uses."""
    link_gbits: Gbits | None = None
    """The raw rate of the link that TCP uses; without it no share of a limit is known."""
    floor_share: float | None = pydantic.Field(default=None, gt=0, lt=1)
    """What Iperf2Pair must reach where no number is stored, as a share of what TCP carries over the
    link (`link_gbits`, `mtu_bytes`), but no more than untuned hosts do (5 Gb/s a stream): a
    floor, which proves function only.
    """
    floors_suffice: str | None = pydantic.Field(default=None, min_length=1)
    """Why floors may end in `accept` here, as on an emulated cluster; without it they end in
    `provisional accept` at best. Where a baseline of a metric is stored, no floor of it accepts.
    """
    launch_options: list[str] = []
    """Options that the launcher (srun, mpirun) needs to start and end MPI here. With srun's
    `--kill-on-bad-exit=1` the job does not wait a minute for a rank that could not start.
    """
    keep_variables: list[
        Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*\*?$")]
    ] = []
    """Variables of the caller that jobs get: `SBATCH_ACCOUNT`, or `UCX_*` for all that begin so.
    Without it options of sbatch and srun (`SLURM_*`, `SBATCH_*`, `SRUN_*`) and settings of MPI and
    NCCL (`PMIX_*`, `OMPI_*`, `UCX_*`, `NCCL_*`) do not reach jobs. What is true of the system
    belongs into `access` and `env_vars` of its partition.
    """
    required: Annotated[list[str], pydantic.BeforeValidator(read_old_checks)] = []
    """The checks without which no campaign can end in `accept`."""
    absent: list[Absent] = []
    """Devices known to be missing: left out of all checks."""
    rdma: Rdma | None = None
    """With the feature rdma."""
    counters: list[Budget] = []
    """Budgets for tests between two nodes, and for NCCL's; a counter that none matches is recorded
    and judged by nothing.
    """
    strict_provenance: bool = False
    """If true, a campaign with a tool of no package, or with a changed file of a package, is never
    accepted. If false, the verdict only has a note.
    """
    leaves: dict[str, str] | None = None
    """The nodes of each leaf switch, a host list each: `{leaf1: "n[1-8]", leaf2: "n[9-16]"}`; where
    every rail has a leaf of its own, those of each set of leaves. None for what Slurm's topology
    (topology/tree) says; `{}` where that is not so.
    """
    switch_ports: dict[str, dict[str, str]] = {}
    """What each device hangs on: `{n1: {mlx5_0: leaf1 swp1}}`; of others LLDP there says it."""
    sweep: Sweep = Sweep()
    """How its nodes are measured together."""
    least_shares: list[LeastShare] = []
    """What part of its limit a number must reach where none is stored, before those of
    `configs/least_shares.yaml`: the first that fits judges.
    """
    peer_spread: float = pydantic.Field(default=0.05, ge=0.005, le=0.2)
    """The usual difference of equal places in one run each, as a share: a number 3.5 times as far
    below its peers stands out. A shared machine needs more than the default.
    """
    least_change: float = pydantic.Field(default=0.02, gt=0, le=0.2)
    """The smallest change of a number that matters from one campaign to another, as a share: what
    `railgauge compare`, and `accept --compare`, count as a change.
    """
    wan: Wan | None = None
    """With the feature wan."""
    bond: Bond | None = None
    """With the feature bond."""
    nics: Nics | None = None
    """With the feature nics."""
    mpi: Mpi | None = None
    """With the features mpi and tcp."""
    applications: Applications | None = None
    """With the feature applications: programs of the site that are timed."""
    transfers: Transfers | None = None
    """With the feature transfers."""
    nccl: Nccl | None = None
    """With the feature nccl."""
    gpu_links: GpuLinks | None = None
    """With the feature gpu_links."""
    fabric: Fabric | None = None
    """With the feature fabric."""
    infiniband: Infiniband = Infiniband()
    """With the feature infiniband."""
    contention: Contention | None = None
    """With the feature contention."""

    @pydantic.field_validator("nodes")
    @classmethod
    def _is_hostlist(cls, value: str) -> str:
        hostlist.expand(value)
        return value

    @pydantic.field_validator("leaves")
    @classmethod
    def _each_node_has_one_leaf(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        leaf_of: dict[str, str] = {}
        for leaf, members in (value or {}).items():
            for node in hostlist.expand(members):
                if leaf_of.setdefault(node, leaf) != leaf:
                    raise ValueError(f"{node} is on {leaf_of[node]} and on {leaf}")
        return value

    @pydantic.model_validator(mode="after")
    def _leaves_and_ports_are_of_its_nodes(self) -> Extras:
        if unknown := self.switch_ports.keys() - set(hostlist.expand(self.nodes)):
            raise ValueError(f"switch_ports: {min(unknown)} is none of nodes, {self.nodes}")
        if self.leaves:
            there = {node for members in self.leaves.values() for node in hostlist.expand(members)}
            without = [node for node in hostlist.expand(self.nodes) if node not in there]
            if without:
                raise ValueError(f"leaves: {hostlist.fold(without)} of nodes is on none of them")
        return self

    @pydantic.model_validator(mode="after")
    def _subnet_is_read_by_one_of_its_nodes(self) -> Extras:
        reader = self.infiniband.node
        if reader and reader not in hostlist.expand(self.nodes):
            raise ValueError(f"infiniband: {reader} is none of nodes, {self.nodes}")
        return self

    @pydantic.model_validator(mode="after")
    def _absent_belong_here(self) -> Extras:
        for missing in self.absent:
            if missing.node not in hostlist.expand(self.nodes):
                raise ValueError(f"absent: {missing.node} is not one of nodes, {self.nodes}")
            of_nccl = self.nccl.nics.devices if self.nccl and self.nccl.nics else []
            rails = self.rdma.names if self.rdma else []
            for device in missing.devices:
                where = f"absent: {device} of {missing.node}"
                is_rail = self.rdma and re.fullmatch(self.rdma.devices, device)
                if is_rail and not rails:
                    raise ValueError(f"{where}: rdma.names must say which rail it is")
                if device not in (*of_nccl, *rails):
                    raise ValueError(f"{where} not in nccl.nics.devices, nor in rdma.names")
        if set(self.present) == set():
            raise ValueError("absent leaves no node")
        return self

    @functools.cached_property
    def present(self) -> tuple[str, ...]:
        """The nodes without those that are declared absent."""
        gone = {missing.node for missing in self.absent if not missing.devices}
        return tuple(node for node in hostlist.expand(self.nodes) if node not in gone)

    @property
    def node_gbits(self) -> float | None:
        """What all NICs of a node carry together in one direction, where anything here says it."""
        of_nccl = self.nccl.nics if self.nccl else None
        known = (part.node_gbits for part in (self.nics, of_nccl) if part)
        return min((rate for rate in known if rate), default=None)

    def absent_devices(self, node: str) -> tuple[str, ...]:
        """The RDMA devices that a node is known to lack."""
        return tuple(d for missing in self.absent if missing.node == node for d in missing.devices)

    def rails_of(self, node: str) -> tuple[int, ...]:
        """The rails that a node has, by their numbers."""
        return self.rdma.rails_without(self.absent_devices(node)) if self.rdma else ()

    def of_nodes(self, nodes: Sequence[str]) -> Extras:
        """The same description with some of the nodes only."""
        some = self.model_copy(update={"nodes": hostlist.fold(nodes)})
        # A copy keeps the cached properties of all nodes.
        some.__dict__.pop("present", None)
        return some


#: A partition with one of these features describes it in its extras, in the field of that name.
DESCRIBED = (
    *("rdma", "wan", "bond", "nics", "nccl", "transfers"),
    *("fabric", "applications", "contention", "gpu_links"),
)


def words_of(access: object) -> list[str]:
    """The words of options as `access` lists them; none of what is no list of texts."""
    options = access if isinstance(access, list) else []
    return [word for each in options if isinstance(each, str) for word in each.split()]


class Partition(pydantic.BaseModel):
    """A ReFrame partition: fields not named here pass through to ReFrame, which checks them."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True, defer_build=True)

    name: str = pydantic.Field(pattern="^[a-zA-Z_][a-zA-Z0-9_-]*$")
    """As ReFrame calls it."""
    max_jobs: int = pydantic.Field(default=8, ge=1, strict=True)
    """How many jobs ReFrame has there at once; 1 where each measures all nodes."""
    features: list[str] = []
    """What it has: this chooses the checks."""
    extras: Extras
    """What Railgauge needs to know of it."""

    @pydantic.model_validator(mode="after")
    def _features_are_described(self) -> Partition:
        for name in DESCRIBED:
            if name in self.features and getattr(self.extras, name) is None:
                raise ValueError(f"feature {name} needs extras.{name}, which says what it is")
        return self

    @property
    def access_options(self) -> list[str]:
        """The options of ReFrame's `access`, by which jobs get to its nodes, word by word."""
        return words_of((self.model_extra or {}).get("access"))

    @property
    def loads_modules(self) -> bool:
        """Whether its jobs load environment modules, so that they have other programs on PATH than
        a job without these.
        """
        more = self.model_extra or {}
        return bool(more.get("modules")) or bool({*more.get("environs", ())} - {"builtin"})

    @property
    def slurm_partition(self) -> str | None:
        """The Slurm partition that its jobs are sent to; None where `access` names none."""
        return client.option("partition", "p", self.access_options) or None

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes that can be measured; those declared absent are not among them."""
        return self.extras.present

    def of_nodes(self, nodes: Sequence[str]) -> Partition:
        """The same with some of its nodes only."""
        if tuple(nodes) == self.nodes:
            return self
        return self.model_copy(update={"extras": self.extras.of_nodes(nodes)})


class System(pydantic.BaseModel):
    """A ReFrame system with its partitions."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True, defer_build=True)

    name: str = pydantic.Field(pattern="^[a-zA-Z_][a-zA-Z0-9_-]*$")
    """That of the folder, as ReFrame calls it."""
    hostnames: list[Expression]
    """Regular expressions for the login nodes."""
    partitions: list[Partition] = pydantic.Field(min_length=1)
    """Each with one kind of fabric."""

    @pydantic.model_validator(mode="after")
    def _modules_can_be_loaded(self) -> System:
        system: str = (self.model_extra or {}).get("modules_system", "nomod")
        for partition in self.partitions:
            fabric = partition.extras.nccl
            if fabric and fabric.binaries.modules and system == "nomod":
                raise ValueError(
                    f"{partition.name}: nccl.binaries.modules needs a modules_system other than "
                    "nomod, such as lmod or tmod4"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _groups_come_one_after_the_other(self) -> System:
        for partition in self.partitions:
            jobs = partition.max_jobs
            if partition.extras.sweep.nodes_per_job is not None and jobs != 1:
                raise ValueError(
                    f"{partition.name}: extras.sweep.nodes_per_job leaves the other groups to "
                    f"production: expected max_jobs: 1, found {jobs}"
                )
        return self

    @property
    def nodes(self) -> list[str]:
        """Of all partitions, each once."""
        return sorted({node for partition in self.partitions for node in partition.nodes})

    def partition(self, name: str) -> Partition:
        for partition in self.partitions:
            if partition.name == name:
                return partition
        known = ", ".join(partition.name for partition in self.partitions)
        raise ConfigurationError(
            f"system {self.name} has no partition {name!r}", next_step=f"one of: {known}"
        )
