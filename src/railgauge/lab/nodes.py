"""The kinds of node, behind one small interface.

A kind says how a node is started, how it loses power, and how its link is changed; the rest of the
lab, and Slurm's feature of the same name, know only the kind's name.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Protocol

from railgauge.lab import network
from railgauge.lab.spec import Node
from railgauge.lab.vm import BOOT_LIMIT_S, VmNodes

if TYPE_CHECKING:
    from railgauge.lab.cluster import Lab


class NodeKind(Protocol):
    """What every kind of node can do. All raise EnvironmentProblem where it does not work."""

    def start(self, lab: Lab, node: Node) -> None:
        """Power the node on and give it its link; it registers with Slurm by itself."""

    def wait_until_up(self, lab: Lab, node: Node, timeout_s: float = BOOT_LIMIT_S) -> None:
        """Return once a node that was started runs commands."""

    def power_off(self, lab: Lab, node: Node) -> None:
        """End the node at once, as pulling its plug does."""

    def run(
        self, lab: Lab, node: Node, argv: list[str], timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the node, beside Slurm."""

    def interfaces(self, lab: Lab, rdma: bool = False) -> list[str]:
        """The interfaces of such a node, or those with an RDMA device."""

    def default_interface(self, lab: Lab) -> str:
        """The interface that faults strike where none is named."""

    def shape(self, lab: Lab, node: Node, interface: str, gbits: float) -> None:
        """Let a link of the node carry what Ethernet of `gbits` (10^9 bits per second) does."""

    def unshape(self, lab: Lab, node: Node, interface: str) -> None:
        """Let a link carry what it did at first, also while the node is off."""

    def set_mtu(self, lab: Lab, node: Node, interface: str, mtu_bytes: int) -> None:
        """Give an interface of the node this MTU."""


class NamespaceNodes:
    """A node that is a set of namespaces on this kernel: fast, and without RDMA or netem."""

    def start(self, lab: Lab, node: Node) -> None:
        machine = lab.start_machine("node", node.name, node.gpus)
        try:
            network.connect(
                lab.require_up(),
                node.name,
                machine,
                f"{node.address}/{lab.spec.prefix_length}",
                lab.spec.network.mtu_bytes,
                lab.spec.network.link_gbits,
            )
        except BaseException:
            # Off, rather than on and without a link for ever.
            machine.kill()
            raise

    def wait_until_up(self, lab: Lab, node: Node, timeout_s: float = BOOT_LIMIT_S) -> None:
        lab.require_machine(node.name)

    def power_off(self, lab: Lab, node: Node) -> None:
        machine = lab.require_machine(node.name)
        # The link first: a node without power sends no FIN to its peers.
        network.ip(lab.require_up(), f"link set {network.port(node.name)} down")
        machine.kill()
        machine.wait_until_ended(10)

    def run(
        self, lab: Lab, node: Node, argv: list[str], timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        command = lab.enter(node.name, *argv)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def interfaces(self, lab: Lab, rdma: bool = False) -> list[str]:
        return [] if rdma else ["eth0"]

    def default_interface(self, lab: Lab) -> str:
        return "eth0"

    def shape(self, lab: Lab, node: Node, interface: str, gbits: float) -> None:
        machine = lab.require_machine(node.name)
        network.shape(lab.require_up(), node.name, machine, gbits, lab.spec.network.mtu_bytes)

    def unshape(self, lab: Lab, node: Node, interface: str) -> None:
        # A link that is off is made anew with the node's power.
        if lab.machine(node.name) is not None:
            self.shape(lab, node, interface, lab.spec.network.link_gbits)

    def set_mtu(self, lab: Lab, node: Node, interface: str, mtu_bytes: int) -> None:
        network.ip(lab.require_machine(node.name), f"link set {interface} mtu {mtu_bytes}")


VM = VmNodes()

KINDS: dict[str, NodeKind] = {"namespace": NamespaceNodes(), "vm": VM}
