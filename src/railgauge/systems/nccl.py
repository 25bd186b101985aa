"""How NCCL is measured on a partition: its GPUs, the links between them, and what to run.

`Nccl` is the part of a partition's description that the checks in reframe/nccl.py need. What
follows from it (environment, transports, what a log must show) is computed here, so that checks and
rehearsals see one truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic

from railgauge.model import limits
from railgauge.model.limits import Limit
from railgauge.systems.rdma import Gbits
from railgauge.yamlfile import Strict

#: How many nodes a collective spans: one, two neighbours, a segment (rack, scalable unit), all.
Scale = Literal["node", "pair", "segment", "all"]

#: What NCCL is set to use between nodes, `p2p-off` within one. `default` is its own choice.
Transport = Literal["default", "mnnvl", "mnnvl-off", "one-hca", "sockets", "p2p-off"]

#: What only the series measures: railgauge accept --series.
OF_THE_SERIES: tuple[Transport, ...] = ("p2p-off",)

#: Variables that follow from the rest of the description.
_OWN = ("NCCL_IB_HCA", "NCCL_MNNVL_ENABLE", "NCCL_P2P_DISABLE")

#: The first version that names itself in the tool's output.
_STATES_VERSION = (2, 17, 6)

#: Below this many GPUs that share an NVSwitch NCCL has no use for NVLS.
_NVLS_RANKS = 3


def _operation(name: str) -> str:
    # Its readers take their time to load, and most commands ask for no operation.
    from railgauge.tools import nccl_tests

    if name not in nccl_tests.OPERATIONS:
        raise ValueError(f"not an operation; one of {', '.join(nccl_tests.OPERATIONS)}")
    return name


class Variable(Strict):
    """An environment variable of the GPU programs, and why it is set."""

    name: str = pydantic.Field(pattern="^[A-Z][A-Z0-9_]*$")
    """Its name."""
    value: str
    """Its value."""
    why: str = pydantic.Field(min_length=1)
    """Why it is set."""
    source: str = pydantic.Field(min_length=1)
    """Where to read about it."""


class NvLink(Strict):
    """NVLink between GPUs."""

    gbytes_s: float = pydantic.Field(gt=0)
    """What one GPU can send, in one direction."""
    nvls: bool = False
    """Switches reduce in the network (NVLink SHARP)."""
    domain_nodes: int = pydantic.Field(default=1, ge=1)
    """Nodes that share one NVLink domain: 18 trays in an NVL72, else 1."""


class GpuNics(Strict):
    """The RDMA devices that GPUs of one node use between nodes, in NCCL's words."""

    devices: list[str] = pydantic.Field(min_length=1)
    """Their names."""
    gbits: Gbits
    """Raw link rate of one device."""
    pcie_gbits: Gbits | None = None
    """What its PCIe slot carries, where that is less."""
    node_gbits: Gbits | None = None
    """What all devices of a node carry together, where they share a slot."""
    link_layer: Literal["Ethernet", "InfiniBand"]
    """As `/sys/class/infiniband/*/ports/*/link_layer` says."""
    gpudirect: bool = True
    """The NIC reads and writes GPU memory by itself."""

    @property
    def device_gbytes_s(self) -> float:
        """The raw rate of one device in one direction, in GB/s."""
        return min(self.gbits, self.pcie_gbits or self.gbits) / 8

    def gbytes_s(self, devices: int) -> float:
        """The raw rate of that many devices of one node in one direction, in GB/s."""
        together = devices * self.device_gbytes_s
        return min(together, self.node_gbits / 8) if self.node_gbits else together


class Binaries(Strict):
    """Where nccl-tests comes from: a folder, modules, a Spack spec, or an image by digest."""

    path: str | None = None
    """The folder on the nodes."""
    modules: list[str] = []
    """Environment modules that bring it."""
    spack: str | None = None
    """A spec in the environment of this checkout's spack.yaml."""
    image: str | None = pydantic.Field(default=None, pattern="@sha256:[0-9a-f]{64}$")
    """For pyxis: `docker://...@sha256:...`, which has python3 too."""
    suffix: str = ""
    """What the build appended to the names (NAME_SUFFIX=_mpi)."""
    version: str = pydantic.Field(pattern=r"^2\.[0-9]+\.[0-9]+$")
    """The pinned one: the options that it knows depend on it. Since 2.14.0 one launch measures many
    groups of nodes at once.
    """

    @pydantic.model_validator(mode="after")
    def _one_place(self) -> Binaries:
        given = [self.path, self.modules, self.spack, self.image]
        if sum(map(bool, given)) != 1:
            raise ValueError("give one of path, modules, spack and image")
        return self

    @property
    def has_split(self) -> bool:
        """Whether it runs several groups of nodes at once."""
        from railgauge.tools import nccl_tests

        return nccl_tests.Options("all_reduce", 1, 8, 8, version=self.version).has_split

    def program(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def perf(self, operation: str) -> str:
        """The program that measures `operation`."""
        return self.program(f"{operation}_perf{self.suffix}")


class Nccl(Strict):
    """GPUs of a partition, and how NCCL is measured on them."""

    gpus_per_node: int = pydantic.Field(ge=1, le=72)
    """One rank a GPU."""
    gpu: str
    """The GPU's name, as nccl-tests must show it."""
    nvlink: NvLink | None = None
    """None where GPUs have none."""
    nics: GpuNics | None = None
    """None where NCCL goes over sockets."""
    binaries: Binaries
    """Where nccl-tests comes from."""
    ras: str = "ncclras"
    """The program that asks a hung job for its state."""
    operations: dict[Scale, list[Annotated[str, pydantic.AfterValidator(_operation)]]] = (
        pydantic.Field(min_length=1)
    )
    """What is measured at which scale; a scale that is left out is not run. All with the default
    transport; all_reduce also with every other transport that the features give (mnnvl,
    sockets). hypercube runs where the number of ranks is a power of two.
    """
    segment_nodes: int | None = pydantic.Field(default=None, ge=2)
    """The nodes of one rack or scalable unit: pairs lie within one."""
    segment_option: bool = False
    """Jobs ask Slurm for a segment (--segment, topology/block)."""
    in_network_reduction: bool = False
    """Switches of the network reduce (SHARP): twice as much is possible."""
    min_bytes: int = pydantic.Field(default=8, ge=4)
    """The smallest size of a sweep."""
    max_bytes: int = pydantic.Field(default=16 * 2**30, ge=1024)
    """The largest."""
    sockets_max_bytes: int = pydantic.Field(default=2**30, ge=1024)
    """The largest over sockets, which are slow, as with P2P off: a sweep to 16 GiB takes hours."""
    warmup: int = pydantic.Field(default=5, ge=1)
    """Operations before those that are timed."""
    iterations: int = pydantic.Field(default=20, ge=1)
    """Operations that are timed, at each size."""
    timeout_s: int = pydantic.Field(default=600, ge=1)
    """A launch that takes longer hangs: its state is kept, then it is ended."""
    variables: list[Variable] = []
    """What else the GPU programs find in their environment."""

    @pydantic.model_validator(mode="after")
    def _variables_are_ours_or_theirs(self) -> Nccl:
        names = [variable.name for variable in self.variables]
        own = {n for n in names if n in _OWN or n.startswith("NCCL_DEBUG")}
        if own:
            raise ValueError(f"{', '.join(sorted(own))} follow from the rest: leave them out")
        if len(names) != len(set(names)):
            raise ValueError("a variable is set twice")
        if self.min_bytes > min(self.max_bytes, self.sockets_max_bytes):
            raise ValueError("min_bytes is above max_bytes or sockets_max_bytes")
        return self

    def transports(self, scale: Scale, features: Sequence[str]) -> list[Transport]:
        """What differs on this partition, and matters at this scale."""
        transports: list[Transport] = ["default"]
        if scale == "node":
            return [*transports, "p2p-off"] if self.gpus_per_node > 1 else transports
        if "mnnvl" in features:
            transports += ["mnnvl", "mnnvl-off"]
        if scale == "pair" and self.nics:
            transports.append("one-hca")
        if scale == "pair" and "sockets" in features:
            transports.append("sockets")
        return transports

    def largest_bytes(self, transport: Transport) -> int:
        slow = transport in ("sockets", "p2p-off")
        return min(self.max_bytes, self.sockets_max_bytes if slow else 1 << 62)

    # --- what a run is given, and what it must show ---------------------------------------------

    def _forms_domain(self, transport: Transport) -> bool:
        """Whether NVLink reaches beyond a node under this transport."""
        return (
            self.nvlink is not None
            and self.nvlink.domain_nodes > 1
            and transport in ("default", "mnnvl")
        )

    def domains(self, transport: Transport, places: Sequence[int]) -> int:
        """How many NVLink domains nodes lie in, by their places in the partition's list."""
        size = self.nvlink.domain_nodes if self.nvlink and self._forms_domain(transport) else 1
        return len({place // size for place in places})

    def devices(self, transport: Transport, absent: Sequence[str] = ()) -> tuple[str, ...]:
        """The RDMA devices that NCCL may use on a node, less those declared absent there."""
        if self.nics is None or transport == "sockets":
            return ()
        present = tuple(d for d in self.nics.devices if d not in absent)
        return present[:1] if transport == "one-hca" else present

    def crosses_nics(self, transport: Transport, domains: int) -> bool:
        """Whether anything goes over the RDMA devices."""
        return self.nics is not None and transport != "sockets" and domains > 1

    def environment(self, transport: Transport, absent: Sequence[str] = ()) -> dict[str, str]:
        """NCCL's variables for one node. Their meaning: NVIDIA, NCCL documentation,
        "Environment Variables".
        """
        environment = {variable.name: variable.value for variable in self.variables}
        devices = self.devices(transport, absent)
        if devices:
            # "=" takes the names as they are; without it mlx5_1 would also be mlx5_10.
            environment["NCCL_IB_HCA"] = "=" + ",".join(devices)
        if self.nvlink and self.nvlink.domain_nodes > 1 and transport != "default":
            # Forced on, NCCL fails where it would fall back to the NICs without a word.
            environment["NCCL_MNNVL_ENABLE"] = "1" if transport == "mnnvl" else "0"
        if transport == "p2p-off":
            # With NVLS on, the NVLink switches would go on reducing.
            environment |= {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
        if transport == "sockets" or (self.nics and not devices):
            # Where no device may be used, NCCL would look for one itself.
            environment["NCCL_IB_DISABLE"] = "1"
        return environment

    def expected(self, transport: Transport, nodes: int, domains: int) -> dict[str, Any]:
        """What the tool and NCCL's logs must show, in the words of `nccl_log.Used.seen`.

        `domains` as of the method of that name.
        """
        facts: dict[str, Any] = {"gpu": self.gpu}
        if tuple(map(int, self.binaries.version.split("."))) >= _STATES_VERSION:
            facts["version"] = self.binaries.version
        if self.gpus_per_node == 1:
            facts["within_nodes"] = ()
        elif transport == "p2p-off":
            facts["within_nodes"] = ("SHM",)
        elif self.nvlink:
            facts["within_nodes"] = ("P2P",)
        facts["between_nodes"] = self._between(transport, nodes, domains)
        facts["mnnvl"] = domains < nodes
        # GPUs of one domain, on average: NVLS is on in all of them or in none.
        sharing = self.gpus_per_node * max(nodes // domains, 1)
        if self.nvlink and sharing >= _NVLS_RANKS:
            facts["nvls"] = self.nvlink.nvls and transport != "p2p-off"
        return facts

    def _between(self, transport: Transport, nodes: int, domains: int) -> tuple[str, ...]:
        kinds = []
        if domains < nodes:
            kinds.append("MNNVL")
        if domains > 1:
            if self.nics is None or transport == "sockets":
                kinds.append("NET/Socket")
            else:
                kinds.append("NET/IB/GDRDMA" if self.nics.gpudirect else "NET/IB")
        return tuple(sorted(kinds))

    def limit(
        self,
        operation: str,
        transport: Transport,
        nodes: int,
        domains: int,
        devices: int,
        socket_gbits: float | None,
    ) -> Limit | None:
        """The highest busbw; `devices` are those of the node that has the fewest.

        None where nothing is known of the links in question. `domains` as of that method.
        """
        ranks = nodes * self.gpus_per_node
        if ranks == 1 or transport == "p2p-off":
            # The memory of the hosts is not described.
            return None
        node_gbytes_s = None
        if transport == "sockets" or self.nics is None:
            node_gbytes_s = socket_gbits / 8 if socket_gbits else None
        else:
            node_gbytes_s = self.nics.gbytes_s(devices) or None
        if domains > 1 and node_gbytes_s is None:
            return None
        if self.nvlink is None and nodes == 1:
            return None
        return limits.collective(
            operation,
            nodes=nodes,
            ranks=ranks,
            node_gbytes_s=node_gbytes_s,
            gpu_gbytes_s=self.nvlink.gbytes_s if self.nvlink else None,
            nvls=bool(self.nvlink and self.nvlink.nvls),
            domain_nodes=-(-nodes // domains),
            in_network_reduction=self.in_network_reduction,
        )
