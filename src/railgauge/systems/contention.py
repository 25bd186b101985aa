"""`extras.contention` of a partition: measurements next to load."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from railgauge.yamlfile import Strict

#: State of the tool's host while it measures.
HostState = Literal["idle", "busy", "beside", "far"]

Cpus = Annotated[str, pydantic.Field(pattern=r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")]


class Hypervisor(Strict):
    """The machine under a node that is virtual; its `busy` and `beside` are of that machine."""

    host: str = pydantic.Field(pattern=r"^[\w.@-]*\w$")
    """As `ssh` takes it, from the node without a password; it has Python and stress-ng."""
    cpus: Cpus
    """The CPUs of the hypervisor that the virtual CPUs are bound to, such as `0-3,8`."""
    near: Cpus | None = None
    """Its virtual CPUs, as it numbers them, that are bound near its NIC. The tool runs on these;
    for `far`, on others. None if the node sees the NUMA nodes itself.
    """


class Contention(Strict):
    """TCP and the latency of RDMA between hosts that are idle, and busy, each state of its own."""

    states: list[HostState] = pydantic.Field(default=["idle", "busy", "beside"], min_length=2)
    """idle: nothing else runs. busy: stress-ng runs on the CPUs of the tool, a process on each.
    beside: stress-ng runs on all other CPUs, except hardware threads of the cores of the tool.
    far: idle, with the tool on CPUs of another NUMA node than that of the NIC. It is left out where
    a node has only one NUMA node. In the other states the tool runs near the NIC.
    """
    cores: int = pydantic.Field(default=2, ge=1)
    """The CPUs that the tool has on each node."""
    hypervisors: dict[str, Hypervisor] = {}
    """Of nodes that are virtual machines; stressors run in the others themselves."""
    least_share: float = pydantic.Field(default=0.25, gt=0, le=1)
    """Of their CPUs' time, what stressors must have used while the tool ran: less is no busy host.
    """
    most_idle: float = pydantic.Field(default=0.1, ge=0, le=1)
    """Of the tool's CPUs' time, and of that of all CPUs, what other programs may use on a host that
    is to be idle.
    """
    streams: int = pydantic.Field(default=1, ge=1, le=128)
    """TCP streams."""
    duration_s: int = pydantic.Field(default=10, ge=2)
    """Of TCP."""
    pairs: Literal["all", "first"] = "all"
    """Which neighbours: all around the ring, or the first two, where one pair stands for all."""
    series_only: bool = True
    """Measured only when asked for: railgauge accept --series."""

    @pydantic.model_validator(mode="after")
    def _compared_with_idle(self) -> Contention:
        if len(set(self.states)) != len(self.states):
            raise ValueError("states has the same state twice")
        if "idle" not in self.states:
            raise ValueError("states has no idle, which the others are compared with")
        return self
