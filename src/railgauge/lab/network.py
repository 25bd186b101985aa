"""Links of the lab: made, shaped and taken away with iproute2 inside the lab's namespaces."""

from __future__ import annotations

import ipaddress
import subprocess

from railgauge.errors import EnvironmentProblem
from railgauge.lab.spec import LabSpec
from railgauge.processes import Process

#: Every node's eth0 is on this one.
BRIDGE = "br0"

#: What Ethernet sends around each packet that tbf does not count: FCS 4, preamble and gap 20.
_UNCOUNTED_BYTES = 24
_ETHERNET_HEADER_BYTES = 14


def _run(command: list[str], batch: str | None = None) -> None:
    outcome = subprocess.run(command, input=batch, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise EnvironmentProblem(
            f"`{' '.join(command)}` failed: {outcome.stderr.strip() or outcome.returncode}"
            + (f"\n  while running:\n{batch}" if batch else "")
        )


def inside(process: Process, *command: str) -> list[str]:
    """`command` in the network namespace of `process`."""
    return ["nsenter", f"--net=/proc/{process.pid}/ns/net", *command]


def ip(process: Process, *lines: str) -> None:
    """Run `ip` commands, one a line, in the network namespace of `process`."""
    _run(inside(process, "ip", "-batch", "-"), "\n".join(lines) + "\n")


def exists(process: Process, device: str) -> bool:
    command = inside(process, "ip", "link", "show", device)
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def bridge(interface: str) -> str:
    """The bridge that an interface of a node is on: one for all eth0, one a rail or bond link."""
    return f"br{interface.removeprefix('eth')}"


def bridges(spec: LabSpec) -> list[str]:
    """The lab's bridges as `NAME=ADDRESS/PREFIX`, without the address where it has none there.

    The lab's first namespace has the first address of each subnet, and routes between the rails.
    """
    subnets = [spec.network.subnet, *spec.fabric.rail_subnets]
    links = spec.fabric.bond.links if spec.fabric.bond else 0
    return [
        *(f"br{place}={subnet[1]}/{subnet.prefixlen}" for place, subnet in enumerate(subnets)),
        *(f"br{len(subnets) + link}=" for link in range(links)),
    ]


def port(node: str) -> str:
    """The name of a node's port on the bridge; its other end is the node's eth0."""
    return f"p-{node}"


def connect(
    lab: Process, node: str, machine: Process, address: str, mtu: int, gbits: float
) -> None:
    """A link between the bridge and the namespace node, shaped at both ends."""
    interface = ipaddress.IPv4Interface(address)
    # The kernel takes its time to remove the link of a node that has lost power.
    subprocess.run(
        inside(lab, "ip", "link", "delete", port(node)), capture_output=True, check=False
    )
    ip(
        lab,
        f"link add {port(node)} mtu {mtu} type veth "
        f"peer name eth0 mtu {mtu} address {hardware_address(str(interface.ip))} "
        f"netns {machine.pid}",
        f"link set {port(node)} master {BRIDGE}",
        f"link set {port(node)} up",
    )
    shape(lab, node, machine, gbits, mtu)
    _receive_on_one_cpu(lab, port(node))
    _receive_on_one_cpu(machine, "eth0")
    ip(machine, "link set lo up", "link set eth0 up", f"address add {address} dev eth0")


def hardware_address(address: str, interface: int = 0) -> str:
    """A node keeps its MACs over a power cycle, as real ones do: its peers have them cached."""
    packed = ipaddress.IPv4Address(address).packed
    return f"02:{interface:02x}:" + ":".join(f"{byte:02x}" for byte in packed)


def _receive_on_one_cpu(process: Process, device: str) -> None:
    """Keep packets in order: tbf sends from any CPU, and veth would receive on that one.

    Without this a healthy link shows about 1000 retransmits in 3 s at 10 Gb/s, with it a few.
    """
    queue = f"/sys/class/net/{device}/queues/rx-0/rps_cpus"
    # sysfs shows the devices of the network namespace that it was mounted in.
    script = f"mount -t sysfs sysfs /sys && echo 1 >{queue}"
    _run(inside(process, "unshare", "--mount", "sh", "-c", script))


def shape(lab: Process, node: str, machine: Process, gbits: float, mtu: int) -> None:
    """Let a namespace node's link carry what Ethernet of `gbits` does, each way."""
    shape_device(lab, port(node), gbits, mtu)
    shape_device(machine, "eth0", gbits, mtu)


def shape_device(process: Process, device: str, gbits: float, mtu: int) -> None:
    """Let what leaves by `device` be no more than Ethernet of `gbits` carries."""
    command = f"qdisc replace dev {device} {shaper(gbits, mtu)}\n"
    _run(inside(process, "tc", "-batch", "-"), command)


def unshape_device(process: Process, device: str) -> None:
    """Let `device` send as fast as it can; nothing to do where it does."""
    command = inside(process, "tc", "qdisc", "delete", "dev", device, "root")
    subprocess.run(command, capture_output=True, check=False)


def shaper(gbits: float, mtu: int) -> str:
    """tbf's arguments for a link of `gbits` (10^9 bits per second).

    tbf counts the Ethernet header and nothing else of the frame, so the rate is lowered by the
    share of the bytes that it does not see.
    """
    share = (mtu + _ETHERNET_HEADER_BYTES) / (mtu + _ETHERNET_HEADER_BYTES + _UNCOUNTED_BYTES)
    rate = round(gbits * share * 1e9)
    # tbf needs a bucket of at least what arrives between two timer ticks (4 ms at 250 Hz).
    burst = max(round(rate / 8 * 0.004), 4 * 65536)
    return f"root tbf rate {rate} burst {burst} latency 10ms"
