"""The check of a fabric: against the expected cabling, against peers, and against itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from railgauge.common.names import counted, natural
from railgauge.fabric import balance
from railgauge.fabric.counters import saturated
from railgauge.fabric.expected import Expected
from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.folder import Fabric
from railgauge.fabric.reading.managers import Manager
from railgauge.fabric.subnet import LANE_GBITS, Device, End, PortId, Rate, Subnet, host_of

Cables = Mapping[tuple[End, End], Rate | None]


def check(fabric: Fabric, expected: Expected | None) -> list[FabricFinding]:
    """All findings, faults first; those of devices that are gone stand for their cables."""
    subnet = fabric.subnet
    names = _names(subnet, expected)
    found = [*_clashes(subnet), *_descriptions(subnet, expected)]
    explained: set[str] = set()
    if expected is not None:
        explained = _explained(subnet, names, expected)
        found += _devices(subnet, names, expected, explained)
        found += _cables(subnet, names, expected)
    found += _rates(subnet, names, expected)
    found += _states(subnet)
    for part in fabric.parts:
        found += _masters(part)
        if part.tables is not None:
            found += balance.unbalanced(part.subnet, part.tables)
    gone = {host_of(finding.device) for finding in found if finding.kind == "device-missing"}
    gone |= {host_of(name) for name in explained}
    found += _fewer_hcas(subnet, gone)
    found += _firmware(subnet)
    if fabric.counted is not None:
        found += saturated(subnet, fabric.counted)
    return sorted(found, key=lambda f: (f.weight != "fault", f.kind, natural(f.device), f.port))


def not_checked(fabric: Fabric, expected: Expected | None) -> list[str]:
    """What could not be checked, and what is lacking for it."""
    subnet = fabric.subnet
    lacking = []
    if expected is None:
        lacking.append(
            "cables against the expected ones: none are written (railgauge fabric expect --write)"
        )
    if not subnet.states:
        lacking.append("ports, and what both ends can: no output of iblinkinfo")
    if fabric.tables is None:
        lacking.append("routes: no forwarding tables (dump_fts)")
    if fabric.counted is None:
        lacking.append("counters: no output of ibqueryerrors or perfquery")
    for part in fabric.parts:
        unknown = set(part.manager_lids or ()) - {one.lid for one in part.managers or ()}
        if part.manager_lids is None:
            lacking.append("whether one subnet manager is master: no output of saquery -s")
        elif unknown:
            lids = ", ".join(map(str, sorted(unknown)))
            lacking.append(f"subnet managers with LID {lids}: no output of sminfo LID")
    if not any(device.firmware for device in subnet.switches()):
        lacking.append("firmware of switches: no db_csv of ibdiagnet2")
    return lacking


# ---- which node is which ----


def _names(subnet: Subnet, expected: Expected | None) -> dict[int, str]:
    """GUID -> the name by which a device is compared: the expected one of its GUID, so that a
    device that was renamed keeps its cables; else its own.
    """
    of_guid = {int(d.guid, 16): name for name, d in expected.devices.items()} if expected else {}
    return {guid: of_guid.get(guid, device.name) for guid, device in subnet.devices.items()}


def _end(names: Mapping[int, str], port: PortId) -> End:
    return End(names.get(port.guid, f"{port.guid:#018x}"), port.port)


def _far(subnet: Subnet, port: PortId) -> str:
    cable = subnet.cable_at.get(port)
    return str(subnet.end(cable.other(port))) if cable else ""


def _clashes(subnet: Subnet) -> Iterator[FabricFinding]:
    for clash in subnet.clashes:
        ports = [str(subnet.end(port)) for port in clash.claimed_by]
        name = subnet.devices[clash.port.guid].name
        yield FabricFinding(
            "guid-duplicated",
            *(name, clash.port.port, " and ".join(ports)),
            f"two devices have GUID {clash.port.guid:#018x}; data for one may reach the other",
            "ibstat on both hosts shows the GUID; burn another one: flint -d DEVICE sg",
        )


def _descriptions(subnet: Subnet, expected: Expected | None) -> Iterator[FabricFinding]:
    devices: dict[str, list[Device]] = {}
    for device in subnet.devices.values():
        devices.setdefault(device.name, []).append(device)
    first_port = {port.guid: port for port in sorted(subnet.cable_at, reverse=True)}
    for name, of in devices.items():
        if len(of) > 1:
            at = [
                f"{d.guid:#018x} at {_far(subnet, first_port[d.guid])}"
                for d in of
                if d.guid in first_port
            ]
            shown = ", ".join(at[:3]) + (f" and {len(at) - 3} more" if len(at) > 3 else "")
            yield FabricFinding(
                "name-duplicated",
                *(name, 0, ""),
                f"{len(of)} devices have this description: {shown}",
                "on the host: cat /sys/class/infiniband/*/node_desc; restart rdma-ndd; a switch is "
                "named in the node-name-map",
            )
    if expected is None:
        return
    of_guid = {int(d.guid, 16): name for name, d in expected.devices.items()}
    for guid, device in subnet.devices.items():
        known = of_guid.get(guid)
        if known is not None and known != device.name and len(devices[device.name]) == 1:
            yield FabricFinding(
                "device-renamed",
                *(known, 0, ""),
                f"its description is now {device.name!r}",
                "on the host: cat /sys/class/infiniband/*/node_desc; if it is right: "
                "railgauge fabric expect --write FILE",
            )


# ---- against the expected cabling ----


def _explained(subnet: Subnet, names: Mapping[int, str], expected: Expected) -> set[str]:
    """Expected devices that seem to be gone since their GUID is now another one's: the port where
    they were claims that one.
    """
    claiming = {_end(names, port) for clash in subnet.clashes for port in clash.claimed_by}
    there = set(names.values())
    far_of: dict[str, list[End]] = {}
    for a, b in expected.by_ends():
        far_of.setdefault(a.name, []).append(b)
        far_of.setdefault(b.name, []).append(a)
    return {
        name
        for name in expected.devices.keys() - there
        if claiming.intersection(far_of.get(name, ()))
    }


def _devices(
    subnet: Subnet, names: Mapping[int, str], expected: Expected, explained: set[str]
) -> Iterator[FabricFinding]:
    there = set(names.values())
    at: dict[str, list[tuple[int, End]]] = {}
    for a, b in expected.by_ends():
        at.setdefault(a.name, []).append((a.port, b))
        at.setdefault(b.name, []).append((b.port, a))
    state_of = {_end(names, port): state for port, state in subnet.states.items()}
    for name, wanted in expected.devices.items():
        if name in there or name in explained:
            continue
        cables = sorted(at.get(name, []))
        far = cables[0][1] if cables else None
        state = state_of.get(far) if far else None
        port = f"; that port is {state.state}, {state.physical}" if state else ""
        more = f" and {len(cables) - 1} more" if len(cables) > 1 else ""
        step = (
            "look at its power and fans; then ibnetdiscover"
            if wanted.kind == "switch"
            else f"on {host_of(name)}: ibstat; dmesg | grep mlx5; then look at the cable"
        )
        yield FabricFinding(
            "device-missing",
            *(name, 0, f"{far}{more}" if far else ""),
            f"this {'HCA' if wanted.kind == 'hca' else wanted.kind} is not in the subnet{port}",
            step,
        )
    for guid, name in names.items():
        if name not in expected.devices:
            device = subnet.devices[guid]
            ports = sorted(port for port in subnet.cable_at if port.guid == guid)
            yield FabricFinding(
                "device-unexpected",
                *(name, 0, _far(subnet, ports[0]) if ports else ""),
                f"this {'HCA' if device.kind == 'hca' else device.kind} ({guid:#018x}) is not "
                "expected here",
                "if it belongs there: railgauge fabric expect --write FILE",
            )


def _cables(
    subnet: Subnet, names: Mapping[int, str], expected: Expected
) -> Iterator[FabricFinding]:
    """Missing, additional and moved cables, between devices that are there and expected."""
    there = set(names.values())
    present = {}
    for cable in subnet.cables:
        a, b = _end(names, cable.a), _end(names, cable.b)
        present[min(a, b), max(a, b)] = cable
    clashing = {_end(names, port) for c in subnet.clashes for port in (c.port, *c.claimed_by)}
    wanted = expected.by_ends()
    missing = [
        ends
        for ends in wanted.keys() - present.keys()
        if {ends[0].name, ends[1].name} <= there and not clashing.intersection(ends)
    ]
    added = [
        ends
        for ends in present.keys() - wanted.keys()
        if ends[0].name in expected.devices and ends[1].name in expected.devices
    ]
    level = {names[guid]: level for guid, level in subnet.level.items()}
    moved = _moved(missing, added, level)
    for old, new, kept in moved:
        was, now = (ends[0] if ends[1] == kept else ends[1] for ends in (old, new))
        yield FabricFinding(
            "cable-moved",
            *(kept.name, kept.port, str(now)),
            f"its cable goes to {now}, expected {was}",
            f"move it back to {was}, or if it is right: railgauge fabric expect --write FILE",
        )
    gone = {old for old, _, _ in moved}
    new_ones = {new for _, new, _ in moved}
    states = {_end(names, port): state for port, state in subnet.states.items()}
    for a, b in sorted(set(missing) - gone):
        near, far = (a, b) if level.get(a.name, 0) >= level.get(b.name, 0) else (b, a)
        known = [
            f"{end} is {s.state}, {s.physical}" for end in (near, far) if (s := states.get(end))
        ]
        yield FabricFinding(
            "cable-missing",
            *(near.name, near.port, str(far)),
            f"no link{': ' + '; '.join(known) if known else ''}",
            f"look at the cable at both ends; iblinkinfo shows port {near.port} of {near.name}",
        )
    for a, b in sorted(set(added) - new_ones):
        near, far = (a, b) if level.get(a.name, 0) >= level.get(b.name, 0) else (b, a)
        yield FabricFinding(
            "cable-unexpected",
            *(near.name, near.port, str(far)),
            "this cable is not among the expected ones",
            "take it out, or if it is right: railgauge fabric expect --write FILE",
        )


class Move(NamedTuple):
    """An expected cable, the one that is there in its place, and the end that stayed."""

    old: tuple[End, End]
    new: tuple[End, End]
    kept: End


def _moved(
    missing: list[tuple[End, End]], added: list[tuple[End, End]], level: Mapping[str, int]
) -> list[Move]:
    """Pairs of a missing and an additional cable with one end in common. Of two swapped cables each
    end would do: the lower device keeps its own, a host before a leaf.
    """
    by_end = {end: ends for ends in missing for end in ends}
    moves: list[Move] = []
    used: set[tuple[End, End]] = set()
    options = [
        (level.get(end.name, math.inf), end, new) for new in added for end in new if end in by_end
    ]
    for _, end, new in sorted(options):
        old = by_end[end]
        if old not in used and new not in used:
            used |= {old, new}
            moves.append(Move(old, new, end))
    return moves


# ---- links ----


def _rates(
    subnet: Subnet, names: Mapping[int, str], expected: Expected | None
) -> Iterator[FabricFinding]:
    """Fewer lanes or a lower speed than expected, else than both ends can."""
    wanted: Cables = expected.by_ends() if expected else {}
    for cable in subnet.cables:
        a, b = _end(names, cable.a), _end(names, cable.b)
        want = wanted.get((min(a, b), max(a, b)))
        rate, near = cable.rate, cable.a
        if rate is None:
            continue
        if subnet.level.get(cable.b.guid, 0) > subnet.level.get(cable.a.guid, 0):
            near = cable.b
        # ibnetdiscover and iblinkinfo may differ where a link changed between them.
        state = subnet.states.get(cable.a) or subnet.states.get(cable.b)
        width = want.width if want else 0
        speed = LANE_GBITS[want.speed] if want else 0.0
        can_width = max(width, state.could_width or 0) if state else width
        could = state.could_speed if state else None
        can_speed = max(speed, LANE_GBITS[could] if could else 0.0)
        end = subnet.end(near)
        said = "expected" if want else "both ends can"
        if rate.width < can_width:
            yield FabricFinding(
                "link-width",
                *(end.name, end.port, _far(subnet, near)),
                f"{rate.width} lanes of {can_width} ({rate}, {said} {can_width}x)",
                "seat the cable at both ends, then change it; iblinkinfo shows the width",
            )
        if LANE_GBITS[rate.speed] < can_speed:
            name = next(n for n, gbits in LANE_GBITS.items() if gbits == can_speed)
            yield FabricFinding(
                "link-speed",
                *(end.name, end.port, _far(subnet, near)),
                f"{rate.speed}, {said} {name}",
                "mlxlink -d DEVICE -p PORT shows why; seat or change the cable",
            )


def _states(subnet: Subnet) -> Iterator[FabricFinding]:
    """Links that are up and carry no data: no subnet manager has made them Active."""
    idle = {
        port: state
        for port, state in subnet.states.items()
        if state.is_up and state.state != "Active"
    }
    if not idle:
        return
    up = sum(state.is_up for state in subnet.states.values())
    if len(idle) == up:
        port = min(idle)
        yield FabricFinding(
            "subnet-not-active",
            *(subnet.end(port).name, 0, ""),
            f"none of {up} ports that are up is Active: no subnet manager answers",
            "sminfo; systemctl status opensm, on its host",
        )
        return
    for port, state in idle.items():
        cable = subnet.cable_at.get(port)
        if cable is None:
            continue
        far = cable.other(port)
        # One finding a cable, at its upper end unless that one is Active.
        if far in idle and subnet.level.get(port.guid, 0) < subnet.level.get(far.guid, 0):
            continue
        end = subnet.end(port)
        yield FabricFinding(
            "port-not-active",
            *(end.name, end.port, _far(subnet, port)),
            f"the link is up and {state.state}, expected Active",
            "sminfo; the log of opensm on its host",
        )


def _masters(fabric: Fabric) -> Iterator[FabricFinding]:
    """Several masters. The others are to stand by for that of the highest priority, and of these
    for that of the lowest GUID (InfiniBand Architecture Specification 1, 14.4).
    """
    masters = [one for one in fabric.managers or () if one.state == "master"]
    if len(masters) < 2:
        return
    masters.sort(key=lambda one: (-one.priority, one.port_guid))
    names = [manager_name(fabric.subnet, one) for one in masters]
    places = [f"(LID {one.lid}, priority {one.priority})" for one in masters]
    shown = [f"{name} {place}" for name, place in zip(names, places, strict=True)]
    hosts = ", ".join(host_of(name) for name in names[1:])
    yield FabricFinding(
        "masters-several",
        *(names[0], 0, ""),
        f"{', '.join(shown[:-1])} and {shown[-1]} are master at once: each sets LIDs and routes of "
        "all",
        f"stop the subnet manager on {hosts}; its log says why it does not stand by",
    )


def manager_name(subnet: Subnet, manager: Manager) -> str:
    """The description of the device with a subnet manager, else the GUID of its port."""
    port = subnet.port_guids.get(manager.port_guid)
    device = subnet.devices.get(port.guid if port else manager.port_guid)
    return device.name if device else f"{manager.port_guid:#018x}"


# ---- peers ----


def _fewer_hcas(subnet: Subnet, gone: set[str]) -> Iterator[FabricFinding]:
    """Hosts with fewer HCAs than more than half of all hosts have. An HCA without a description is
    of an unknown host.
    """
    counts = Counter(device.host for device in subnet.hcas() if device.host)
    unnamed = sum(not device.host for device in subnet.hcas())
    maybe = f"; {unnamed} more without a description may be its own" if unnamed else ""
    if not counts:
        return
    usual, hosts = Counter(counts.values()).most_common(1)[0]
    if 2 * hosts <= len(counts):
        return
    for host, count in counts.items():
        if count < usual and host not in gone:
            yield FabricFinding(
                "host-hcas",
                *(host, 0, ""),
                f"{counted(count, 'HCA')} in the subnet; {hosts} of {len(counts)} "
                f"hosts have {usual}{maybe}",
                f"on {host}: ibstat; lspci | grep -i mellanox",
            )


def _firmware(subnet: Subnet) -> Iterator[FabricFinding]:
    """Switches of a model with another firmware than more than half of it has."""
    models: dict[str, list[Device]] = {}
    for device in subnet.switches():
        if device.firmware:
            models.setdefault(device.model, []).append(device)
    for devices in models.values():
        usual, count = Counter(device.firmware for device in devices).most_common(1)[0]
        if 2 * count <= len(devices):
            continue
        for device in devices:
            if device.firmware != usual:
                yield FabricFinding(
                    "switch-firmware",
                    *(device.name, 0, ""),
                    f"firmware {device.firmware}; {count} of {len(devices)} switches of its model "
                    f"have {usual}",
                    f"flint -d lid-{device.lid or 'LID'} q; update it as its peers were",
                )
