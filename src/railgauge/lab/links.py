"""The links of the lab's machines, as faults strike them."""

from __future__ import annotations

import abc
from typing import Generic, Protocol, TypeVar

from railgauge.lab import network
from railgauge.lab.network import End
from railgauge.lab.runtime import Runtime
from railgauge.lab.spec import Node, Switch

#: Whose links they are.
M = TypeVar("M", bound=Node | Switch)
M_contra = TypeVar("M_contra", bound=Node | Switch, contravariant=True)


class Links(Protocol[M_contra]):
    """What can be done to the interfaces of a kind of machine.

    All raise PrerequisiteError where it does not work.
    """

    def interfaces(self, lab: Runtime, rdma: bool = False) -> list[str]:
        """The interfaces of such a machine, or those with an RDMA device."""

    def default_interface(self, lab: Runtime) -> str:
        """The interface that faults strike where none is named."""

    def shape(
        self, lab: Runtime, machine: M_contra, interface: str, gbits: float, both: bool = True
    ) -> None:
        """Let a link carry what Ethernet of `gbits` (10^9 bits per second) does, both ways or only
        what the machine sends.
        """

    def unshape(self, lab: Runtime, machine: M_contra, interface: str) -> None:
        """Let a link carry what it did at first, also while the machine is off."""

    def set_mtu(self, lab: Runtime, machine: M_contra, interface: str, mtu_bytes: int) -> None:
        """Give an interface this MTU."""

    def lose(self, lab: Runtime, machine: M_contra, interface: str, percent: float) -> None:
        """Lose a share of the packets that leave by an interface; with 0 none, also while the
        machine is off.
        """

    def lose_both(self, lab: Runtime, machine: M_contra, interface: str, percent: float) -> None:
        """Lose a share of the packets of a link in both directions; of a VM's what it sends."""

    def set_link(self, lab: Runtime, machine: M_contra, interface: str, up: bool) -> None:
        """Plug the cable in, or pull it: a node sees its carrier come or go."""


class VethLinks(abc.ABC, Generic[M]):
    """Links between two namespaces of this kernel."""

    @abc.abstractmethod
    def own(self, lab: Runtime, machine: M, interface: str) -> End:
        """The interface; PrerequisiteError while the machine is off."""

    @abc.abstractmethod
    def peer(self, lab: Runtime, machine: M, interface: str) -> End:
        """The other end of its link."""

    @abc.abstractmethod
    def unplugged(self, lab: Runtime, machine: M, interface: str) -> End:
        """The end that goes down where the cable is pulled: the other one loses its carrier, and
        no route but its own.
        """

    @abc.abstractmethod
    def gbits(self, lab: Runtime) -> float:
        """What a healthy link carries."""

    def shape(
        self, lab: Runtime, machine: M, interface: str, gbits: float, both: bool = True
    ) -> None:
        own, peer = self.own(lab, machine, interface), self.peer(lab, machine, interface)
        for end in (own, peer) if both else (own,):
            network.shape_device(end.process, end.device, gbits, lab.spec.network.mtu_bytes)

    def unshape(self, lab: Runtime, machine: M, interface: str) -> None:
        # A link that is off is made anew with the machine's power.
        if lab.machine(machine.name) is not None:
            self.shape(lab, machine, interface, self.gbits(lab))

    def set_mtu(self, lab: Runtime, machine: M, interface: str, mtu_bytes: int) -> None:
        own = self.own(lab, machine, interface)
        network.ip(own.process, f"link set {own.device} mtu {mtu_bytes}")

    def lose(self, lab: Runtime, machine: M, interface: str, percent: float) -> None:
        # Packets are lost at the other end, which stays while the machine is off.
        if percent or lab.machine(machine.name) is not None:
            network.segment(self.own(lab, machine, interface), always=percent > 0)
        network.lose(self.peer(lab, machine, interface), percent)

    def lose_both(self, lab: Runtime, machine: M, interface: str, percent: float) -> None:
        self.lose(lab, machine, interface, percent)
        if percent or lab.machine(machine.name) is not None:
            own = self.own(lab, machine, interface)
            network.segment(self.peer(lab, machine, interface), always=percent > 0)
            network.lose(own, percent)

    def set_link(self, lab: Runtime, machine: M, interface: str, up: bool) -> None:
        end = self.unplugged(lab, machine, interface)
        network.ip(end.process, f"link set {end.device} {'up' if up else 'down'}")
        if up:
            ends = self.own(lab, machine, interface), self.peer(lab, machine, interface)
            network.wait_until_up(ends)
