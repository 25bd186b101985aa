"""Links of the lab: made, shaped and taken away with iproute2 inside the lab's namespaces."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from railgauge.common.errors import PrerequisiteError
from railgauge.lab.spec import LabSpec, Network, Node
from railgauge.processes import Process

#: Every node's eth0 is on this one, of its leaf or of the lab.
BRIDGE = "br0"

#: What Ethernet sends around each packet that tbf does not count: FCS 4, preamble and gap 20.
_UNCOUNTED_BYTES = 24
_ETHERNET_HEADER_BYTES = 14

#: 64 KiB of TCP payload in one, with the headers of its segments.
_LARGEST_PACKET_BYTES = 72 * 1024

#: How finely a share of lost packets can be told.
_LOSS_STEPS = 1_000_000

#: How long links that were set up are waited for.
_CARRIER_S = 5.0


def _run(command: list[str], batch: str | None = None) -> str:
    outcome = subprocess.run(command, input=batch, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise PrerequisiteError(
            f"`{' '.join(command)}` failed: {outcome.stderr.strip() or outcome.returncode}"
            + (f"\n  while running:\n{batch}" if batch else "")
        )
    return outcome.stdout


def inside(process: Process, *command: str) -> list[str]:
    """`command` in the network namespace of `process`."""
    return ["nsenter", f"--net=/proc/{process.pid}/ns/net", *command]


def ip(process: Process, *lines: str) -> None:
    """Run `ip` commands, one a line, in the network namespace of `process`."""
    _run(inside(process, "ip", "-batch", "-"), "\n".join(lines) + "\n")


def set_kernel(process: Process, settings: Mapping[str, int | str]) -> None:
    """Give the network namespace of `process` these settings of the kernel (sysctl)."""
    words = [f"{name}={value}" for name, value in settings.items()]
    _run(inside(process, "sysctl", "--quiet", "--write", *words))


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
    subnets = [spec.head_subnet, *spec.fabric.rail_subnets]
    links = spec.fabric.bond.links if spec.fabric.bond else 0
    return [
        *(f"br{place}={subnet[1]}/{subnet.prefixlen}" for place, subnet in enumerate(subnets)),
        *(f"br{len(subnets) + link}=" for link in range(links)),
    ]


def port(node: str) -> str:
    """The name of a node's port on the bridge; its other end is the node's eth0."""
    return f"p-{node}"


@dataclasses.dataclass(frozen=True)
class End:
    """One end of a link: an interface in the network namespace of a process."""

    process: Process
    device: str


def wait_until_up(ends: Iterable[End]) -> None:
    """Until ends of links that were set up carry. The kernel looks at carriers once a second;
    before that an end sends nothing, and a port of a bridge forwards nothing. One whose other end
    is down never does.
    """
    deadline = time.monotonic() + _CARRIER_S
    of_process: dict[Process, set[str]] = {}
    for end in ends:
        of_process.setdefault(end.process, set()).add(end.device)
    for process, devices in of_process.items():
        command = inside(process, "ip", "-json", "link", "show", "up")
        while time.monotonic() < deadline:
            shown = subprocess.run(command, capture_output=True, check=False)
            # A machine that has ended has no links.
            links = json.loads(shown.stdout) if shown.returncode == 0 else ()
            up = {link["ifname"] for link in links if link["operstate"] == "UP"}
            if not links or up >= devices:
                break
            time.sleep(0.05)


def cable(near: End, far: End, mtu: int, gbits: float | None, options: str = "") -> None:
    """A link between two namespaces, shaped at both ends; `options` are the far interface's."""
    # The kernel takes its time to remove the link of a machine that has lost power.
    for end in (near, far):
        delete = inside(end.process, "ip", "link", "delete", end.device)
        subprocess.run(delete, capture_output=True, check=False)
    ip(
        near.process,
        f"link add {near.device} mtu {mtu} type veth "
        f"peer name {far.device} mtu {mtu} {options} netns {far.process.pid}",
    )
    for end in (near, far):
        if gbits is not None:
            shape_device(end.process, end.device, gbits, mtu)
        _receive_on_one_cpu(end)


def connect(switch: Process, node: Node, machine: Process, network: Network, prefix: int) -> None:
    """A link between the bridge of the node's switch and the namespace node."""
    near = End(switch, port(node.name))
    cable(
        near,
        End(machine, "eth0"),
        network.mtu_bytes,
        network.link_gbits,
        f"address {hardware_address(node.address)}",
    )
    ip(switch, f"link set {near.device} master {BRIDGE} up")
    routes = [f"route add default via {node.gateway}"] if node.gateway else []
    ip(
        machine,
        *("link set lo up", "link set eth0 up"),
        *(f"address add {node.address}/{prefix} dev eth0", *routes),
    )


def hardware_address(address: str, interface: int = 0) -> str:
    """A node keeps its MACs over a power cycle, as real ones do: its peers have them cached."""
    packed = ipaddress.IPv4Address(address).packed
    return f"02:{interface:02x}:" + ":".join(f"{byte:02x}" for byte in packed)


def _receive_on_one_cpu(end: End) -> None:
    """Keep packets in order: tbf sends from any CPU, and veth would receive on that one.

    Without this a healthy link shows about 1000 retransmits in 3 s at 10 Gb/s, with it a few.
    """
    queue = f"/sys/class/net/{end.device}/queues/rx-0/rps_cpus"
    # sysfs shows the devices of the network namespace that it was mounted in.
    script = f"mount -t sysfs sysfs /sys && echo 1 >{queue}"
    _run(inside(end.process, "unshare", "--mount", "sh", "-c", script))


def shape_device(process: Process, device: str, gbits: float, mtu: int) -> None:
    """Let what leaves by `device` be no more than Ethernet of `gbits` carries."""
    command = f"qdisc replace dev {device} {shaper(gbits, mtu)}\n"
    _run(inside(process, "tc", "-batch", "-"), command)


def unshape_device(process: Process, device: str) -> None:
    """Let `device` send as fast as it can; nothing to do where it does."""
    command = inside(process, "tc", "qdisc", "delete", "dev", device, "root")
    subprocess.run(command, capture_output=True, check=False)


def segment(end: End, always: bool) -> None:
    """Let `end` send packets one by one (`always`), or up to 64 KiB of them in one, as at first."""
    ip(end.process, f"link set {end.device} gso_max_segs {1 if always else 65535}")


def lose(arriving: End, percent: float) -> None:
    """Let `percent` of the packets that arrive at `arriving` be lost (nftables); 0 ends it.

    As on a bad cable nobody is told, but for `lost`, as a port counts errors. Packets that arrive
    as one of 64 KiB are lost as one: `segment` the other end.
    """
    _require_nft()
    table = f"netdev {_table(arriving.device)}"
    rules = f"add table {table}\ndelete table {table}\n"
    if percent:
        rules += (
            f"table {table} {{\n"
            "  chain arriving {\n"
            f'    type filter hook ingress device "{arriving.device}" priority 0;\n'
            f"    numgen random mod {_LOSS_STEPS} < {round(percent / 100 * _LOSS_STEPS)} "
            "counter drop\n"
            "  }\n"
            "}\n"
        )
    _run(inside(arriving.process, "nft", "--file", "-"), rules)


def lost(process: Process, devices: Sequence[str]) -> dict[str, int]:
    """Device -> packets that `lose` lost on arrival at it."""
    if shutil.which("nft") is None:
        return dict.fromkeys(devices, 0)
    of_table = lost_by_table(_run(inside(process, "nft", "--json", "--terse", "list", "ruleset")))
    return {device: of_table.get(_table(device), 0) for device in devices}


def lost_by_table(rules: str) -> dict[str, int]:
    """The packets that each table's counters have, of nft's JSON (libnftables-json(5)), in which a
    statement may be a word.
    """
    counts: Counter[str] = Counter()
    for part in json.loads(rules)["nftables"]:
        rule = part.get("rule", {})
        for statement in rule.get("expr", ()):
            if isinstance(statement, dict) and "counter" in statement:
                counts[rule["table"]] += statement["counter"]["packets"]
    return dict(counts)


def _table(device: str) -> str:
    return f"loss_{device.replace('-', '_')}"


def mark(process: Process, rules: str) -> None:
    """Let packets be marked before they are routed, by nftables' rules; none where these are ""."""
    _require_nft()
    table = "table ip spread"
    text = f"add {table}\ndelete {table}\n"
    if rules:
        text += (
            f"{table} {{\n"
            "  map flows {\n"
            "    type ipv4_addr . ipv4_addr . inet_service . inet_service : mark\n"
            "    flags dynamic, timeout\n"
            "    size 65535\n"
            "  }\n"
            "  chain arriving {\n"
            "    type filter hook prerouting priority mangle;\n"
            f"{rules}"
            "  }\n"
            "}\n"
        )
    _run(inside(process, "nft", "--file", "-"), text)


def _require_nft() -> None:
    if shutil.which("nft") is None:
        raise PrerequisiteError("not installed: nft", next_step="apt-get install nftables")


def shaper(gbits: float, mtu: int) -> str:
    """tbf's arguments for a link of `gbits` (10^9 bits per second).

    tbf counts the Ethernet header and nothing else of the frame, so the rate is lowered by the
    share of the bytes that it does not see.
    """
    share = (mtu + _ETHERNET_HEADER_BYTES) / (mtu + _ETHERNET_HEADER_BYTES + _UNCOUNTED_BYTES)
    rate = round(gbits * share * 1e9)
    # tbf needs a bucket of at least what arrives between two timer ticks (4 ms at 250 Hz), and of
    # what the kernel hands it as one packet; on a slow link more would be seen above its limit.
    tick = round(rate / 8 * 0.004)
    burst = max(tick, _LARGEST_PACKET_BYTES)
    queue = round(rate / 8 * 0.010) + max(tick, 4 * 65536)
    return f"root tbf rate {rate} burst {burst} limit {queue}"
