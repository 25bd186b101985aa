"""RDMA of a partition as described: a node's rails, and how they are measured."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Literal

import pydantic

from railgauge.common.names import natural
from railgauge.yamlfile import Strict


def _expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


Expression = Annotated[str, pydantic.AfterValidator(_expression)]


#: The rate of a link, or of several together, in Gb/s: what is more was written in bit/s.
MOST_GBITS = 100_000
Gbits = Annotated[float, pydantic.Field(gt=0, le=MOST_GBITS)]


class Perftest(Strict):
    """How long perftest measures here. Software emulation needs less of everything."""

    bandwidth_iterations: int = pydantic.Field(default=5000, ge=5)
    """Messages of one bandwidth run."""
    latency_iterations: int = pydantic.Field(default=10_000, ge=5)
    """Messages of one latency run. Below 10,000 the 99.9th percentile is little more than the
    maximum.
    """
    sweep_iterations: int = pydantic.Field(default=1000, ge=5)
    """Messages of each size of RdmaUsage's `sizes`."""
    queue_pairs: int = pydantic.Field(default=4, ge=2, le=1024)
    """Queue pairs of RdmaUsage's `queue_pairs`."""
    qp_timeout: int | None = pydantic.Field(default=None, ge=1, le=31)
    """A queue pair sends again what is not acknowledged within 4.096 us x 2^this; none for
    perftest's own 14, 67 ms, which software emulation may need for what is under way.
    """
    duration_s: int = pydantic.Field(default=10, ge=2)
    """How long RdmaUsage's `duration` runs."""
    together_s: int = pydantic.Field(default=10, ge=4)
    """How long RdmaRailsTogether runs: of less, starting the rails takes too large a part."""
    probe_s: int | None = pydantic.Field(default=3, ge=2)
    """How long RailProbe looks at each rail before anything else does; none for no RailProbe."""
    same_rails_by_probe: bool = False
    """RdmaBandwidth leaves rails to the same one to RailProbe, where a second look costs too much.
    """
    cuda: bool = False
    """Give buffers in GPU memory (perftest built with CUDA)."""
    data_validation: bool = False
    """RdmaDataValidation compares all bytes that arrive, over each rail (perftest 26.04 or later on
    every node). That needs CPU time and memory, and lowers the bandwidth of its own run.
    """


class Rdma(Strict):
    """The RDMA fabric of a partition, as every one of its nodes must show it."""

    devices: Expression
    """Matches the names of the RDMA devices that carry the fabric; in the order of their names they
    are the node's rails 0, 1, ...
    """
    rails: int = pydantic.Field(ge=1)
    """How many every node has."""
    names: list[str] = []
    """The device of each rail, rail 0 first, one with two ports twice: a device that is not there
    is then missed by its name, and the others keep their rails. Without names a node that has
    another number of devices measures none. Needed where a device is `absent`.
    """
    link_layer: Literal["Ethernet", "InfiniBand"]
    """Ethernet is RoCE."""
    active_mtu_bytes: Literal[256, 512, 1024, 2048, 4096]
    """The MTU that every port must have negotiated."""
    rate: str
    """What `/sys/class/infiniband/*/ports/*/rate` says."""
    line_gbits: Gbits | None = None
    """The raw rate that limits are computed from; none where there is no such thing (Soft-RoCE)."""
    gid_type: Literal["RoCE v2", "IB/RoCE v1"] = "RoCE v2"
    """RoCE only; the index that has it is looked up on every node and port."""
    traffic_class: int | None = pydantic.Field(default=None, ge=0, le=255)
    """What perftest sets; none for its own default."""
    pkey_index: int | None = pydantic.Field(default=None, ge=0)
    """InfiniBand: the partition key that perftest uses."""
    memlock_kib: int | None = pydantic.Field(default=None, ge=64)
    """The least that a job must be able to pin; none for `unlimited`."""
    across_rails: bool = False
    """Pairs of different rails reach each other (through a spine, or a router)."""
    rdma_cm: bool = True
    """perftest may also connect by the RDMA connection manager."""
    perftest: Perftest = Perftest()
    """How long perftest measures here."""

    @pydantic.model_validator(mode="after")
    def _every_rail_has_a_name_or_none(self) -> Rdma:
        if self.names and len(self.names) != self.rails:
            raise ValueError(f"names: found {len(self.names)}, expected {self.rails} (rails)")
        for name in self.names:
            if not re.fullmatch(self.devices, name):
                raise ValueError(f"names: {name} is no device like {self.devices}")
        if self.names != sorted(self.names, key=natural):
            raise ValueError(f"names: expected in their order, {sorted(self.names, key=natural)}")
        return self

    def rails_without(self, devices: Collection[str]) -> tuple[int, ...]:
        """The rails of a node that lacks these devices."""
        if not devices:
            return tuple(range(self.rails))
        return tuple(rail for rail, name in enumerate(self.names) if name not in devices)

    @pydantic.model_validator(mode="after")
    def _something_is_left_to_measure(self) -> Rdma:
        by_probe = self.perftest.same_rails_by_probe
        if by_probe and (self.perftest.probe_s is None or not self.across_rails or self.rails < 2):
            raise ValueError(
                "perftest.same_rails_by_probe needs probe_s, across_rails and two rails: else "
                "RdmaBandwidth would measure nothing"
            )
        return self
