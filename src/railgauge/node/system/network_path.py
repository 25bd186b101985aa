"""The way from this node to the other one of a pair: its device, that device's state, and its round
trip time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from railgauge.common.ranges import fold_numbers
from railgauge.node.orders.places import LinkOrder, RailOrder, WanOrder
from railgauge.node.system import processes, rdma_devices
from railgauge.node.system.tool_call import filled, path_facts, read_sysfs

Facts = dict[str, Any]

#: What the kernel lets a socket have, in bytes (tcp(7), socket(7)).
_BUFFERS = {
    "rmem_max_bytes": "core/rmem_max",
    "wmem_max_bytes": "core/wmem_max",
    "tcp_rmem_max_bytes": "ipv4/tcp_rmem",
    "tcp_wmem_max_bytes": "ipv4/tcp_wmem",
}

_ECHO = re.compile(r"icmp_seq=([0-9]+) .*time=([0-9.]+) ms")

#: Echoes of one ping, and pings until one is short enough.
_ECHOES, _PINGS_TRIED = 5, 8


class PathError(Exception):
    """The test cannot be made from here, and why."""


def describe(
    link: LinkOrder, role: str, peer: str, names: Sequence[str], facts: Facts
) -> dict[str, str]:
    """Put what this side says of its way into `facts`; the values for the tool's argv.

    `names` are other names of the peer. Raises PathError where nothing leads to it, or where the
    rail or interface that the side should use is not there.
    """
    facts.update(path_facts(peer, names))
    facts.update(_socket_buffers())
    values: dict[str, str] = {}
    if link.interface:
        facts.update(_interface(link.interface))
        values["own_address"] = facts["address"]
        facts.pop("unresolved", None)
    elif "unresolved" in facts:
        raise PathError(f"no name of {peer} leads to it: {facts['unresolved'][peer]}")
    if link.rdma:
        _find_rail(link.rdma, link.rdma.rails[role], facts)
        values.update(
            device=facts["device"],
            ib_port=str(facts["port"]),
            gid_index=str(facts.get("gid_index", "")),
        )
    elif "device" in facts:
        facts.update(rdma_devices.ipoib_facts(facts["device"]))
    if link.rdma and link.rdma.connection_manager and "rail_address" not in facts:
        # InfiniBand: IP over it, if there is any.
        if "netdev" not in facts:
            raise PathError(f"{facts['device']} has no interface, and so no address for rdma_cm")
        facts["rail_address"] = _interface(facts["netdev"])["address"]
    interface = _interface_of(facts)
    members = members_of(interface)
    ours = (facts.get("device"), *members)
    facts["sampled"] = sorted({name for name in ours if name})
    facts["emulation"] = _emulation_on(members, facts)
    facts["carrier_changes_before"] = carrier_changes(members)
    near = _near_cpus(facts, members)
    if near:
        facts["cpus"] = near
    return values


#: A list of CPUs as the kernel writes it: 0-3,8 (cpuset(7)).
_CPU_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def _near_cpus(facts: Facts, members: list[str]) -> str:
    """The CPUs near the device, of those that this process may use; "" where nothing says it."""
    folders = [f"/sys/class/net/{name}/device" for name in members]
    if "port" in facts:
        folders.insert(0, f"/sys/class/infiniband/{facts['device']}/device")
    lists = [of_device(folder, "local_cpulist") for folder in folders]
    near = cpus_of({"cpus": next((text for text in lists if text), "")})
    return folded(near & os.sched_getaffinity(0))


def of_device(folder: str, name: str) -> str:
    """A file of a device in sysfs, or where it has no such file that of its parent: a virtio device
    lies below its PCI function, which has the place on the bus; "" where neither has it.
    """
    return read_sysfs(f"{folder}/{name}") or read_sysfs(f"{folder}/../{name}") or ""


def cpus_of(facts: Facts) -> frozenset[int]:
    """The CPUs that `facts` name: those to which a tool is bound; none where it is not."""
    cpus: set[int] = set()
    for part in facts.get("cpus", "").split(","):
        matched = _CPU_RANGE.fullmatch(part)
        if matched:
            first = int(matched[1])
            cpus.update(range(first, int(matched[2] or first) + 1))
    return frozenset(cpus)


def folded(cpus: frozenset[int]) -> str:
    """{0, 1, 2, 8} as 0-2,8."""
    return fold_numbers(cpus, ",")


def state_before(facts: Facts) -> Facts:
    """The facts that may have changed since `describe`, because another round was measured
    meanwhile.
    """
    return {"carrier_changes_before": carrier_changes(members_of(_interface_of(facts)))}


def members_of(interface: str | None) -> list[str]:
    """The interface, and the links of it if it is a bond."""
    if interface is None:
        return []
    links = read_sysfs(f"/sys/class/net/{interface}/bonding/slaves") or ""
    return [interface, *links.split()]


def _emulation_on(members: list[str], facts: Facts) -> str:
    """The first emulation on any of them; RoCE must have an interface to look at."""
    if not members and facts.get("link_layer") == "Ethernet":
        return "unknown (no interface)"
    settings = [emulation(name) for name in members]
    return next((words for words in settings if words != "none"), "none")


def _interface_of(facts: Facts) -> str | None:
    """The interface that the data takes; none for InfiniBand without IP over it."""
    name: str | None = facts.get("netdev") if "port" in facts else facts.get("device")
    return name


def _socket_buffers() -> Facts:
    texts = {name: read_sysfs(f"/proc/sys/net/{file}") for name, file in _BUFFERS.items()}
    # tcp_rmem and tcp_wmem are "least default most".
    return {name: int(text.split()[-1]) for name, text in texts.items() if text}


def _interface(name: str) -> Facts:
    """An interface that is to be used, whatever the route to the other node's name is."""
    try:
        addresses = json.loads(rdma_devices.ask(["ip", "-j", "-4", "address", "show", "dev", name]))
        address = next(a["local"] for entry in addresses for a in entry.get("addr_info", []))
    except rdma_devices.FactError as error:
        raise PathError(str(error)) from None
    except (ValueError, KeyError, StopIteration, RecursionError):
        raise PathError(f"{name} has no IPv4 address") from None
    if read_sysfs(f"/sys/class/net/{name}/operstate") == "down":
        raise PathError(f"{name} is down")
    facts: Facts = {"device": name, "address": address}
    mtu = read_sysfs(f"/sys/class/net/{name}/mtu")
    if mtu is not None:
        facts["mtu_bytes"] = int(mtu)
    # Virtual interfaces, and bonds, have none.
    with contextlib.suppress(rdma_devices.FactError):
        facts.update(ring_sizes(rdma_devices.ask(["ethtool", "-g", name])))
    return facts


def ring_sizes(text: str) -> Facts:
    """The ring buffers of an interface as they are set, in packets, from `ethtool -g`."""
    now = text.partition("Current hardware settings:")[2]
    sizes = re.findall(r"^(RX|TX):\s+([0-9]{1,9})$", now, re.MULTILINE)
    return {f"ring_{direction.lower()}": int(packets) for direction, packets in sizes}


def _find_rail(wanted: RailOrder, rail: int, facts: Facts) -> None:
    """Into `facts`: the device behind a rail, its port, the state of that and the GID to use.

    PathError, and the fact `rail_missing`, where it is not there, or is not known.
    """
    there = [(d, p) for d in rdma_devices.devices(wanted.devices) for p in rdma_devices.ports(d)]
    known, names = rdma_devices.rail_ports(wanted.names, there), wanted.names
    found = ", ".join(device for device, _ in there) or "none"
    listed = f"among the RDMA devices like {wanted.devices} ({found})"
    why = ""
    if rail not in known:
        why = f"no {names[rail]}, rail {rail}, {listed}" if names else f"no rail {rail} {listed}"
    elif not names and len(there) != wanted.count:
        why = f"rail {rail} is not identified {listed}, expected {wanted.count} of them"
    if why:
        facts["rail_missing"] = why
        raise PathError(why)
    device, port = known[rail]
    facts.update(rail=rail, device=device, port=port, **rdma_devices.port_facts(device, port))
    if wanted.gid_type is not None:
        try:
            gid = rdma_devices.gid_index(device, port, wanted.gid_type)
        except rdma_devices.FactError as error:
            raise PathError(str(error)) from None
        facts.update(gid_index=gid.number, gid=gid.gid, rail_address=gid.address)


def emulation(interface: str | None) -> str:
    """What tc delays or loses on an interface: `none`, also of no interface, or netem's words."""
    if interface is None:
        return "none"
    try:
        text = rdma_devices.ask(["tc", "qdisc", "show", "dev", interface])
    except rdma_devices.FactError as error:
        return f"unknown ({error})"
    matched = re.search(r"qdisc netem [0-9a-f]+: (?:root|parent \S+) (?:refcnt [0-9]+ )?(.*)", text)
    # The seed of its random numbers says nothing.
    words = re.sub(r"\bseed [0-9]+", "", matched[1]).split() if matched else []
    return " ".join(["netem", *words]) if matched else "none"


def carrier_changes(members: list[str]) -> int | None:
    """How often the carrier of any of them has changed so far; None where that is not known."""
    texts = [read_sysfs(f"/sys/class/net/{name}/carrier_changes") for name in members]
    known = [int(text) for text in texts if text is not None]
    return sum(known) if known else None


def state_after(facts: Facts) -> Facts:
    """The state of the device after the test."""
    interface = _interface_of(facts)
    after: Facts = {}
    before, now = facts.get("carrier_changes_before"), carrier_changes(members_of(interface))
    if before is not None and now is not None:
        after["carrier_changes"] = now - before
    lost = _bonded_links_down(interface)
    if lost:
        after["links_down"] = lost
    if "port" in facts:
        state = rdma_devices.port_state(facts["device"], facts["port"])
        after["state"] = state if state is not None else f"gone: no device {facts['device']}"
    return {"after": after}


def _bonded_links_down(interface: str | None) -> list[str]:
    """The links of a bond that are down; none where the interface is no bond."""
    links = members_of(interface)[1:]
    return [n for n in links if read_sysfs(f"/sys/class/net/{n}/operstate") == "down"]


def round_trip(address: str, most_ms: float) -> Facts:
    """The round trip time of a way (`rtt_ms`) by the least but one of some echoes, and all of them
    in order, by ping; `rtt_unknown` says why where there are none.

    Machines that answer late make some longer: while it is above `most_ms`, more are sent, up to a
    limit. Shorter is what overtakes the others, as netem's reordering lets a packet do, by as much
    as the delay: of 0.02 % one in 500 sets of five has such an echo, one in 600,000 two.
    """
    known: Facts = {}
    for _ in range(_PINGS_TRIED):
        found = _pinged(address)
        if "rtt_unknown" in found:
            return known or found
        if not known or found["rtt_ms"] < known["rtt_ms"]:
            known = found
        if known["rtt_ms"] <= most_ms:
            break
    return known


def _pinged(address: str) -> Facts:
    """The round trip times of some echoes."""
    command = ["ping", "-n", "-c", str(_ECHOES), "-i", "0.2", "-W", "2", address]
    try:
        answer = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return {"rtt_unknown": f"ping: {error}"}
    echoes: dict[str, float] = {}
    for number, text in _ECHO.findall(answer.stdout.decode("utf-8", "replace")):
        # The network may have made two of one.
        echoes.setdefault(number, float(text))
    if not echoes:
        return {"rtt_unknown": f"ping got no answer from {address}"}
    by_length = sorted(echoes.values())
    return {"rtt_ms": by_length[len(by_length) > 2], "rtt_echoes_ms": list(echoes.values())}


@contextlib.contextmanager
def made(wan: WanOrder | None, role: str, facts: Facts) -> Iterator[None]:
    """A long way for as long as what is inside runs; as it was before afterwards. PathError where
    the way cannot be made.
    """
    if wan is None:
        yield
        return
    if "device" not in facts:
        raise PathError(f"no interface leads to the other node: {facts.get('route_unknown')}")
    if facts["emulation"] != "none":
        raise PathError(
            f"{facts['device']} has {facts['emulation']} already; "
            f"to take it away: {'; '.join(wan.clear)}"
        )
    # Without a delay there is nothing to emulate.
    if wan.ends not in ("both", role) or not wan.round_trip_ms:
        yield
        return
    # A program that a signal interrupts while it starts goes on, and may make the way long behind
    # the one that clears it.
    with processes.undisturbed():
        try:
            _run_lines(wan.set, wan, facts)
        except BaseException:
            # It may be half made; why it could not be made is what counts.
            with contextlib.suppress(PathError):
                _run_lines(wan.clear, wan, facts)
            raise
        try:
            with processes.disturbed():
                yield
        finally:
            try:
                _run_lines(wan.clear, wan, facts)
            except PathError as error:
                facts["way_left"] = str(error)


def _run_lines(lines: Sequence[str], wan: WanOrder, facts: Facts) -> None:
    values = {
        "device": facts["device"],
        "one_way_ms": f"{wan.round_trip_ms / 2:g}",
        "round_trip_ms": f"{wan.round_trip_ms:g}",
        "reorder_percent": f"{wan.reorder_percent:g}",
    }
    for line in filled(lines, values):
        try:
            rdma_devices.ask(shlex.split(line))
        except (rdma_devices.FactError, ValueError) as error:
            raise PathError(f"`{line}`: {error}") from None


#: The tables of TCP's sockets: remote address:port and bytes still to be sent are in columns 2, 4.
_SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def unsent(port: int) -> int:
    """Bytes that this node has for that port of others, and that have not arrived; also of sockets
    with a program that has ended.
    """
    waiting = 0
    for table in _SOCKETS:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if int(fields[2].rpartition(":")[2], 16) == port:
                waiting += int(fields[4].partition(":")[0], 16)
    return waiting


def wait_until_sent(port: int, limit_s: float) -> int:
    """Wait for what lies in the kernel's buffers: a sender with large ones ends seconds before its
    last byte has left, and what its interface counts then lacks that. The bytes that are left at
    the limit.
    """
    deadline = time.monotonic() + limit_s
    while left := unsent(port):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.02)
    return 0
