"""The kinds of node, behind one small interface.

A kind says how a node is started, how it loses power, and how its link is changed; the rest of the
lab, and Slurm's feature of the same name, know only the kind's name.
"""

from __future__ import annotations

import subprocess
from typing import Protocol

from railgauge.common.errors import PrerequisiteError
from railgauge.lab import network
from railgauge.lab.links import Links, VethLinks
from railgauge.lab.network import End
from railgauge.lab.runtime import Runtime
from railgauge.lab.spec import Node
from railgauge.lab.vm import BOOT_LIMIT_S, COMMAND_LIMIT_S, VmNodes

#: Where a namespace node has the file systems that jobs write to: the one of its /, and /tmp.
_DISKS = "/run/disk /tmp"


class NodeKind(Links[Node], Protocol):
    """What every kind of node can do. All raise PrerequisiteError where it does not work."""

    def start(self, lab: Runtime, node: Node) -> None:
        """Power the node on and give it its link; it registers with Slurm by itself."""

    def wait_until_up(self, lab: Runtime, node: Node, timeout_s: float = BOOT_LIMIT_S) -> None:
        """Return once a node that was started runs commands."""

    def power_off(self, lab: Runtime, node: Node) -> None:
        """End the node at once, as pulling its plug does."""

    def run(
        self, lab: Runtime, node: Node, argv: list[str], timeout_s: float = COMMAND_LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the node, beside Slurm."""


class NamespaceNodes(VethLinks[Node]):
    """A node that is a set of namespaces on this kernel: fast, and without RDMA or netem."""

    def start(self, lab: Runtime, node: Node) -> None:
        machine = lab.start_machine("node", node.name, "host" if node.host_gpus else node.gpus)
        try:
            self.plug(lab, node)
        except BaseException:
            # Off, rather than on and without a link for ever.
            machine.kill()
            raise

    def plug(self, lab: Runtime, node: Node) -> None:
        """Give a node that is on its link."""
        machine = lab.require_machine(node.name)
        network.connect(
            lab.switch_of(node), node, machine, lab.spec.network, lab.spec.prefix_length
        )

    def plug_unless_plugged(self, lab: Runtime, node: Node) -> None:
        if not network.exists(lab.switch_of(node), network.port(node.name)):
            self.plug(lab, node)

    def wait_until_up(self, lab: Runtime, node: Node, timeout_s: float = BOOT_LIMIT_S) -> None:
        lab.require_machine(node.name)

    def power_off(self, lab: Runtime, node: Node) -> None:
        machine = lab.require_machine(node.name)
        # The link first: a node without power sends no FIN to its peers.
        network.ip(lab.switch_of(node), f"link set {network.port(node.name)} down")
        machine.kill()
        machine.wait_until_ended()

    def run(
        self, lab: Runtime, node: Node, argv: list[str], timeout_s: float = COMMAND_LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        command = lab.enter(node.name, *argv)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def interfaces(self, lab: Runtime, rdma: bool = False) -> list[str]:
        return [] if rdma else ["eth0"]

    def default_interface(self, lab: Runtime) -> str:
        return "eth0"

    def fill_disk(self, lab: Runtime, node: Node, left_bytes: int) -> None:
        """Leave so many bytes on the file systems of / and of /tmp, and no more."""
        # A file system of its present size; of none it would be unlimited.
        self._must(
            lab,
            node,
            f"for disk in {_DISKS}; do\n"
            "  head -c 4096 /dev/zero >$disk/full-disk\n"
            "  used=$(df --block-size=1 --output=used $disk | tail -n 1)\n"
            f"  mount -o remount,size=$((used + {left_bytes})) $disk\n"
            "done",
        )

    def empty_disk(self, lab: Runtime, node: Node) -> None:
        """Give the node as much room again as it has at first."""
        self._must(
            lab,
            node,
            f"for disk in {_DISKS}; do\n"
            "  mount -o remount,size=50% $disk\n"
            "  rm -f $disk/full-disk\n"
            "done",
        )

    def _must(self, lab: Runtime, node: Node, script: str) -> None:
        outcome = self.run(lab, node, ["sh", "-e", "-c", script])
        if outcome.returncode != 0:
            raise PrerequisiteError(f"{node.name}: {outcome.stderr.strip()}")

    def own(self, lab: Runtime, machine: Node, interface: str) -> End:
        return End(lab.require_machine(machine.name), interface)

    def peer(self, lab: Runtime, machine: Node, interface: str) -> End:
        return End(lab.switch_of(machine), network.port(machine.name))

    def unplugged(self, lab: Runtime, machine: Node, interface: str) -> End:
        return self.peer(lab, machine, interface)

    def gbits(self, lab: Runtime) -> float:
        return lab.spec.network.link_gbits


VM = VmNodes()
NAMESPACE = NamespaceNodes()

KINDS: dict[str, NodeKind] = {"namespace": NAMESPACE, "vm": VM}
