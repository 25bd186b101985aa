"""Leaves and spines: network namespaces that route, each held by a process of the lab.

A leaf bridges its nodes and is their gateway. It spreads flows over the spines by a hash of
addresses and ports (ECMP), or in another of `MODES`; the head does ECMP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from railgauge.lab import network
from railgauge.lab.links import VethLinks
from railgauge.lab.network import End
from railgauge.lab.runtime import Runtime
from railgauge.lab.spec import LabSpec, Switch
from railgauge.processes import Process

_BOOT = Path(__file__).parent / "boot"

#: What makes a router of a network namespace, and one that spreads flows over spines.
ROUTING = {
    "net.ipv4.ip_forward": 1,
    # A flow goes by one spine and comes back by another.
    "net.ipv4.conf.all.rp_filter": 0,
    "net.ipv4.conf.default.rp_filter": 0,
    # By addresses, protocol and ports, read from every packet as a switch does it. Policy 1 takes
    # the number that the sending socket has drawn, which crosses veth with the packet: the same
    # ports then go another way with each connection, and after each timeout.
    "net.ipv4.fib_multipath_hash_policy": 3,
    "net.ipv4.fib_multipath_hash_fields": 0x37,
}


#: How leaves spread what their nodes send to other leaves: flows by addresses and ports, or by
#: addresses alone; flowlets, which take the next spine after each pause of a flow; each packet to
#: the next spine (one that is of 64 KiB while it goes from namespace to namespace stays whole).
MODES: Mapping[str, Mapping[str, int | str]] = {
    "ecmp": {"net.ipv4.fib_multipath_hash_policy": 3},
    "ecmp-l3": {"net.ipv4.fib_multipath_hash_policy": 0},
    "flowlet": {"net.ipv4.fib_multipath_hash_policy": 3},
    "packet": {"net.ipv4.fib_multipath_hash_policy": 3},
}

#: The pause after which a flow may take another way: a tick of the kernel (250 Hz).
FLOWLET_MS = 4

#: The n-th spine of a leaf has the mark n, and routing table and priority this plus n.
_BY_MARK = 100


class SwitchLinks(VethLinks[Switch]):
    """Links between leaves and spines; an interface has the name of the switch that it leads to.

    `peers` is the kind of switch at their other ends.
    """

    def __init__(self, peers: str) -> None:
        self._peers = peers

    def interfaces(self, lab: Runtime, rdma: bool = False) -> list[str]:
        peers = [switch.name for switch in lab.spec.all_switches() if switch.kind == self._peers]
        return [] if rdma else peers

    def default_interface(self, lab: Runtime) -> str:
        return self.interfaces(lab)[0]

    def own(self, lab: Runtime, machine: Switch, interface: str) -> End:
        return End(lab.require_machine(machine.name), interface)

    def peer(self, lab: Runtime, machine: Switch, interface: str) -> End:
        return End(lab.require_machine(interface), machine.name)

    def unplugged(self, lab: Runtime, machine: Switch, interface: str) -> End:
        # A leaf's end: it has other ways, a spine's only route to that leaf would end with its own.
        ends = self.own(lab, machine, interface), self.peer(lab, machine, interface)
        return ends[0 if machine.kind == "leaf" else 1]

    def gbits(self, lab: Runtime) -> float:
        assert lab.spec.switches is not None
        return lab.spec.switches.uplink_gbits


KINDS = {"leaf": SwitchLinks("spine"), "spine": SwitchLinks("leaf")}


def missing(lab: Runtime) -> list[Switch]:
    """The switches that do not run; all of them where `start` did not finish."""
    every, complete = lab.spec.all_switches(), _complete(lab).exists()
    return [each for each in every if not complete or lab.machine(each.name) is None]


def start(lab: Runtime, switches: Sequence[Switch]) -> None:
    """Start switches, with their uplinks. The links of a leaf's nodes end with it, and are for the
    caller to make anew.
    """
    _complete(lab).unlink(missing_ok=True)
    for switch in switches:
        half_made = lab.machine(switch.name)
        if half_made is not None:
            half_made.kill()
            half_made.wait_until_ended()
        process = lab.start_process(
            switch.name,
            [
                *("unshare", "--net", str(_BOOT / "switch"), switch.name),
                *(str(lab.folders.run), (lab.folders.run / "rootfs").read_text()),
            ],
        )
        network.set_kernel(process, ROUTING)
        network.ip(process, "link set lo up", *bridge(lab.spec, switch))
    names = {switch.name for switch in switches}
    made = [link for link in lab.spec.uplinks() if names & {link.lower, link.spine}]
    for link in made:
        ends = (
            End(_process(lab, link.lower), link.spine),
            End(_process(lab, link.spine), link.lower),
        )
        network.cable(*ends, lab.spec.network.mtu_bytes, link.gbits)
        for end, address in zip(ends, link.subnet, strict=True):
            network.ip(
                end.process,
                f"address add {address}/{link.subnet.prefixlen} dev {end.device}",
                f"link set {end.device} up",
            )
    if made:
        network.set_kernel(lab.require_up(), ROUTING)
    for name in dict.fromkeys(name for link in made for name in (link.lower, link.spine)):
        network.ip(_process(lab, name), *routes(lab.spec, name))
    _complete(lab).touch()


def set_leaf(lab: Runtime, leaf: Switch, up: bool) -> None:
    """Take all ports of a leaf down, to its nodes and to the spines, or up again, with its routes;
    nothing to do where its process has ended, with all of them.
    """
    if lab.machine(leaf.name) is None:
        return
    process = lab.require_machine(leaf.name)
    # A switched-off node has no port.
    nodes = [n for n in lab.spec.nodes_of(leaf.name) if network.exists(process, network.port(n))]
    spines = [link.spine for link in lab.spec.uplinks() if link.lower == leaf.name]
    devices = [*map(network.port, nodes), *spines]
    lines = [f"link set {device} {'up' if up else 'down'}" for device in devices]
    network.ip(process, *lines, *(routes(lab.spec, leaf.name) if up else []))
    if up:
        near = [End(process, device) for device in [*devices, network.BRIDGE]]
        far = [End(p, "eth0") for node in nodes if (p := lab.machine(node))]
        far += [End(p, leaf.name) for spine in spines if (p := lab.machine(spine))]
        network.wait_until_up([*near, *far])


def spread(lab: Runtime, mode: str) -> None:
    """Let all leaves spread what their nodes send in that mode, until they are started anew."""
    for leaf in (switch for switch in lab.spec.all_switches() if switch.kind == "leaf"):
        process = lab.require_machine(leaf.name)
        network.ip(process, *ways(lab.spec, leaf.name))
        network.set_kernel(process, MODES[mode])
        spines = sum(link.lower == leaf.name for link in lab.spec.uplinks())
        network.mark(process, marking(mode, spines))


def ways(spec: LabSpec, leaf: str) -> list[str]:
    """The commands for `ip -batch` that let what has the mark of a spine go by it: what has none,
    or whose spine is not there, goes by the routes that all have.
    """
    lines = ["rule flush"]
    lines += [f"rule add priority {32766 + n} lookup {name}" for n, name in enumerate(_MAIN)]
    up = [link for link in spec.uplinks() if link.lower == leaf]
    for number, link in enumerate(up, start=1):
        table = _BY_MARK + number
        lines += [
            f"route replace {spec.network.subnet} via {link.subnet[1]} table {table}",
            f"rule add priority {table} fwmark {number} lookup {table}",
        ]
    return lines


#: The tables that come last, of every network namespace.
_MAIN = ("main", "default")


def marking(mode: str, spines: int) -> str:
    """nft's rules for packets from a leaf's nodes; "" where the routes decide."""
    turn = f"numgen inc mod {spines} offset 1"
    ours = f'iifname "{network.BRIDGE}"'
    if mode == "packet":
        return f"    {ours} meta mark set {turn}\n"
    if mode != "flowlet":
        return ""
    flow = "ip saddr . ip daddr . tcp sport . tcp dport"
    # A flow that is known keeps its mark, and has its pause anew.
    return (
        f"    {ours} meta l4proto tcp update @flows {{ {flow} timeout {FLOWLET_MS}ms : {turn} }}\n"
        f"    {ours} meta l4proto tcp meta mark set {flow} map @flows\n"
    )


def _complete(lab: Runtime) -> Path:
    """The file that exists once all switches have their links."""
    return lab.folders.run / "switches"


def _process(lab: Runtime, name: str) -> Process:
    """The process whose network namespace a switch is; for the head the lab's first process."""
    return lab.require_up() if name == lab.spec.head.name else lab.require_machine(name)


def bridge(spec: LabSpec, switch: Switch) -> list[str]:
    """The commands for `ip -batch` that make what a leaf's nodes are on, and their gateway; none
    for a spine.
    """
    if switch.subnet is None:
        return []
    return [
        f"link add {network.BRIDGE} mtu {spec.network.mtu_bytes} type bridge",
        f"address add {switch.subnet[1]}/{switch.subnet.prefixlen} dev {network.BRIDGE}",
        f"link set {network.BRIDGE} up",
    ]


def routes(spec: LabSpec, name: str) -> list[str]:
    """The commands for `ip -batch` that give a switch, or the head, its routes."""
    subnets = {spec.head.name: spec.head_subnet}
    subnets |= {switch.name: switch.subnet for switch in spec.all_switches() if switch.subnet}
    down = [link for link in spec.uplinks() if link.spine == name]
    up = [link for link in spec.uplinks() if link.lower == name]
    lines = [f"route replace {subnets[link.lower]} via {link.subnet[0]}" for link in down]
    if up:
        over = " ".join(f"nexthop via {link.subnet[1]}" for link in up)
        lines.append(f"route replace {spec.network.subnet} src {subnets[name][1]} {over}")
    return lines
