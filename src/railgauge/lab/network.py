"""Links of the lab: made, shaped and taken away with iproute2 inside the lab's namespaces."""

from __future__ import annotations

import ipaddress
import subprocess

from railgauge.errors import EnvironmentProblem
from railgauge.lab.processes import Process

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
        f"peer name eth0 mtu {mtu} address {_hardware_address(interface.ip)} netns {machine.pid}",
        f"link set {port(node)} master {BRIDGE}",
        f"link set {port(node)} up",
    )
    shape(lab, node, machine, gbits, mtu)
    _receive_on_one_cpu(lab, port(node))
    _receive_on_one_cpu(machine, "eth0")
    ip(machine, "link set lo up", "link set eth0 up", f"address add {address} dev eth0")


def _hardware_address(address: ipaddress.IPv4Address) -> str:
    """A node keeps its MAC over a power cycle, as real ones do: its peers have it cached."""
    return "02:00:" + ":".join(f"{byte:02x}" for byte in address.packed)


def _receive_on_one_cpu(process: Process, device: str) -> None:
    """Keep packets in order: tbf sends from any CPU, and veth would receive on that one.

    Without this a healthy link shows about 1000 retransmits in 3 s at 10 Gb/s, with it a few.
    """
    queue = f"/sys/class/net/{device}/queues/rx-0/rps_cpus"
    # sysfs shows the devices of the network namespace that it was mounted in.
    script = f"mount -t sysfs sysfs /sys && echo 1 >{queue}"
    _run(inside(process, "unshare", "--mount", "sh", "-c", script))


def shape(lab: Process, node: str, machine: Process, gbits: float, mtu: int) -> None:
    """Let the link carry what Ethernet of `gbits` (10^9 bits per second) does, each way.

    tbf counts the Ethernet header and nothing else of the frame, so the rate is lowered by the
    share of the bytes that it does not see.
    """
    share = (mtu + _ETHERNET_HEADER_BYTES) / (mtu + _ETHERNET_HEADER_BYTES + _UNCOUNTED_BYTES)
    rate = round(gbits * share * 1e9)
    # tbf needs a bucket of at least what arrives between two timer ticks (4 ms at 250 Hz).
    burst = max(round(rate / 8 * 0.004), 4 * 65536)
    tbf = f"root tbf rate {rate} burst {burst} latency 10ms"
    for process, device in ((lab, port(node)), (machine, "eth0")):
        _run(inside(process, "tc", "-batch", "-"), f"qdisc replace dev {device} {tbf}\n")
