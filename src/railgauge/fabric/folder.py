"""A fabric as it was read: from files of one folder, each known by what it begins with.

Where rails are subnets of their own, the outputs of each further one are in a folder there that has
the name of the local port by which it was read, such as `mlx5_1:1`.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from railgauge import textfile
from railgauge.common.errors import RailgaugeError
from railgauge.fabric.reading import counters, discover, linkinfo, managers, others, tables
from railgauge.fabric.reading.counters import Counted
from railgauge.fabric.reading.linkinfo import Listed
from railgauge.fabric.reading.managers import Manager
from railgauge.fabric.reading.tables import Tables
from railgauge.fabric.subnet import Device, PortId, PortState, Subnet
from railgauge.tools import ParseError

#: The largest file that is read: the tables of 2,000 hosts and 200 switches have 30 MB.
_LARGEST = 512 * 2**20


class FabricError(RailgaugeError):
    """An input of `railgauge fabric` that cannot be read, or is not enough: exit code 2."""

    exit_code = 2


@dataclasses.dataclass(frozen=True)
class Fabric:
    """A subnet, and what else was read of it; None for what was not. Of several subnets `subnet`
    has the devices of all, and `parts` each by itself: LIDs and managers are those of a part.
    """

    subnet: Subnet
    tables: Tables | None = None
    counted: Counted | None = None
    managers: tuple[Manager, ...] | None = None
    #: LIDs of ports with a subnet manager; None where nothing lists them
    manager_lids: tuple[int, ...] | None = None
    #: what was read, by the name of its tool
    sources: tuple[str, ...] = ()
    several: tuple[Fabric, ...] = ()

    @property
    def parts(self) -> tuple[Fabric, ...]:
        return self.several or (self,)


def from_texts(texts: Mapping[str, str]) -> Fabric:
    """The fabric of outputs by their file names; FabricError names the file and the line. Those of
    one folder are of one subnet.
    """
    by_folder: dict[str, dict[str, str]] = {}
    for name, text in texts.items():
        by_folder.setdefault(name.rpartition("/")[0], {})[name] = text
    fabrics = [_from_texts(of_folder) for of_folder in by_folder.values()]
    return _of_several(fabrics) if len(fabrics) > 1 else _from_texts(texts)


def _from_texts(texts: Mapping[str, str]) -> Fabric:
    read: dict[str, dict[str, object]] = {}
    for name, text in texts.items():
        kind = kind_of(text)
        if kind is None:
            continue
        if kind in read:
            raise FabricError(
                f"two outputs of {kind}, {next(iter(read[kind]))} and {name}; expected one",
                next_step="give each reading a folder of its own",
            )
        try:
            read[kind] = {name: _KINDS[kind][1](text)}
        except ParseError as error:
            raise FabricError(
                f"{name} ({kind}): {error}", next_step=f"save it again: {_AGAIN[kind]}"
            ) from None
    values = {kind: next(iter(of.values())) for kind, of in read.items()}
    return _joined(values)


def from_folder(folder: Path) -> Fabric:
    """The fabric of a folder's files; others than those known are ignored."""
    try:
        files = files_of(folder)
        texts = {}
        for path in files:
            if path.stat().st_size > _LARGEST:
                raise FabricError(
                    f"{path}: {path.stat().st_size / 2**20:.0f} MiB, expected at most "
                    f"{_LARGEST / 2**20:.0f}",
                    next_step="move it elsewhere",
                )
            texts[str(path)] = textfile.read(path, errors="replace")
    except OSError as error:
        raise FabricError(
            f"{error.filename}: {error.strerror}, expected a folder of saved outputs",
            next_step="railgauge fabric show --save FOLDER, on a host with access to the subnet",
        ) from None
    return from_texts(texts)


def files_of(folder: Path) -> list[Path]:
    """The files of a reading: those of the folder, then those of further subnets."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    further = sorted(path for path in folder.iterdir() if _FURTHER.fullmatch(path.name))
    return files + [file for one in further for file in sorted(one.iterdir()) if file.is_file()]


#: The folder of a further subnet: the local port by which it was read.
_FURTHER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*:[0-9]+")


def _of_several(fabrics: Sequence[Fabric]) -> Fabric:
    """Several subnets as one. What was not read of one of them is not known of all."""
    switches: set[int] = set()
    for fabric in fabrics:
        own = {device.guid for device in fabric.subnet.switches()}
        if switches & own:
            name = fabric.subnet.devices[min(switches & own)].name
            raise FabricError(
                f"two readings have the switch {name}: they are of one subnet",
                next_step="read each subnet once: extras.infiniband.more_devices has a local port "
                "of each further one",
            )
        switches |= own
    subnets = [fabric.subnet for fabric in fabrics]
    subnet = Subnet(
        {guid: device for one in reversed(subnets) for guid, device in one.devices.items()},
        tuple(cable for one in subnets for cable in one.cables),
        tuple(clash for one in subnets for clash in one.clashes),
        {guid: port for one in subnets for guid, port in one.port_guids.items()},
        {port: state for one in subnets for port, state in one.states.items()}
        if all(one.states for one in subnets)
        else {},
    )
    tables = [fabric.tables for fabric in fabrics if fabric.tables is not None]
    counted = [fabric.counted for fabric in fabrics if fabric.counted is not None]
    of_port = {port: values for one in counted for port, values in one.of_port.items()}
    managers = [fabric.managers for fabric in fabrics if fabric.managers is not None]
    return Fabric(
        subnet,
        {guid: table for one in tables for guid, table in one.items()}
        if len(tables) == len(fabrics)
        else None,
        Counted(of_port, any(one.thresholds for one in counted), sum(one.nodes for one in counted))
        if len(counted) == len(fabrics)
        else None,
        tuple(itertools.chain(*managers)) if len(managers) == len(fabrics) else None,
        None,
        tuple(dict.fromkeys(source for fabric in fabrics for source in fabric.sources)),
        tuple(fabrics),
    )


#: Tool -> the line that shows its output, and its reader.
_KINDS: Mapping[str, tuple[re.Pattern[str], Callable[[str], object]]] = {
    "ibnetdiscover": (re.compile(r"^# Topology file: generated on ", re.M), discover.topology),
    "ibnetdiscover -p": (
        re.compile(r"^(?:SW|CA|RT) +[0-9]+ +[0-9]+ 0x[0-9a-f]{16} ", re.M),
        discover.ports,
    ),
    "iblinkinfo": (re.compile(r"==>.*\[[^\]]*\] \"", re.M), linkinfo.read),
    "ibqueryerrors": (
        re.compile(r"^## Summary: [0-9]|^Errors for (?:0x|\")|^Data Counters for 0x", re.M),
        counters.queryerrors,
    ),
    "perfquery": (re.compile(r"^# Port (?:extended )?counters: Lid ", re.M), counters.perfquery),
    "dump_fts": (re.compile(r"^Unicast lids \[", re.M), tables.dumped),
    "opensm.fdbs": (re.compile(r"^dump_ucast_routes: ", re.M), tables.fdbs),
    "saquery -s": (re.compile(r"^IsSM ports$", re.M), managers.listed),
    "sminfo": (re.compile(r"^sminfo: sm lid ", re.M), managers.states),
    "opensm-subnet.lst": (re.compile(r"^\{ (?:CA|SW|RT)", re.M), others.subnet_lst),
    "db_csv": (re.compile(r"^START_[A-Z_]+$", re.M), others.database),
    "node-name-map": (
        re.compile(r'^\s*0x[0-9a-fA-F]+\s+"[^"]+"\s*(?:#.*)?$', re.M),
        others.name_map,
    ),
}
_AGAIN: Mapping[str, str] = {
    **{kind: f"{kind} > FILE" for kind in _KINDS},
    "perfquery": "perfquery -x LID PORT > FILE",
    "sminfo": "sminfo LID >> FILE, with the LID of each subnet manager (saquery -s)",
    "opensm.fdbs": "opensm writes it with -D 0x43, to its folder of dumps",
    "opensm-subnet.lst": "opensm writes it to its folder of dumps",
    "db_csv": "ibdiagnet writes it as ibdiagnet2.db_csv",
    "node-name-map": "correct it by hand",
}
#: What shows an output stands within so many characters of its beginning.
_BEGINNING = 4096


def kind_of(text: str) -> str | None:
    """The tool of an output; None where it is none that is read."""
    first = text[:_BEGINNING]
    found = [
        (match.start(), kind) for kind, (mark, _) in _KINDS.items() if (match := mark.search(first))
    ]
    # Below a port, ibqueryerrors --report-port prints a line as iblinkinfo does.
    return min(found)[1] if found else None


def _joined(values: Mapping[str, object]) -> Fabric:
    bases = ("ibnetdiscover", "opensm-subnet.lst", "ibnetdiscover -p")
    base = next((values[kind] for kind in bases if kind in values), None)
    if not isinstance(base, Subnet):
        raise FabricError(
            "no topology among the files, expected an output of ibnetdiscover",
            next_step="ibnetdiscover > FOLDER/ibnetdiscover.txt, or leave --from out",
        )
    subnet = base
    if isinstance(known := values.get("db_csv"), dict):
        subnet = _with_firmware(subnet, known)
    if isinstance(names := values.get("node-name-map"), dict):
        subnet = _named(subnet, names)
    if isinstance(listed := values.get("iblinkinfo"), list):
        subnet = dataclasses.replace(subnet, states=_states(base, listed))
    counted = values.get("ibqueryerrors")
    counted = _by_node(subnet, counted) if isinstance(counted, Counted) else None
    if isinstance(further := values.get("perfquery"), list):
        counted = _with_perfquery(subnet, counted, further)
    table = values.get("dump_fts", values.get("opensm.fdbs"))
    if isinstance(table, dict):
        _require_tables(subnet, table)
    states, lids = values.get("sminfo"), values.get("saquery -s")
    return Fabric(
        subnet,
        table if isinstance(table, dict) else None,
        counted,
        states if isinstance(states, tuple) else None,
        lids if isinstance(lids, tuple) else None,
        tuple(values),
    )


def _require_tables(subnet: Subnet, tables: Tables) -> None:
    """FabricError unless there is a table of each switch, with the LIDs of this reading: a switch
    sends data for its own LID to port 0.
    """
    lacking = [d.name for d in subnet.switches() if d.guid not in tables]
    if lacking:
        raise FabricError(
            f"forwarding tables of {len(lacking)} switches are missing, such as {lacking[0]}; "
            "expected one of each switch",
            next_step="dump_fts > FOLDER/dump_fts.txt",
        )
    for device in subnet.switches():
        if device.lid and tables[device.guid].get(device.lid) != 0:
            raise FabricError(
                f"the forwarding table of {device.name} does not keep its LID {device.lid}, "
                "that of ibnetdiscover: they are of two readings",
                next_step="save both again: railgauge fabric show --save FOLDER",
            )


def _with_firmware(subnet: Subnet, known: Mapping[int, Device]) -> Subnet:
    devices = {
        guid: dataclasses.replace(device, firmware=known[guid].firmware, model=known[guid].model)
        if guid in known
        else device
        for guid, device in subnet.devices.items()
    }
    return dataclasses.replace(subnet, devices=devices)


def _named(subnet: Subnet, names: Mapping[int, str]) -> Subnet:
    devices: dict[int, Device] = {
        guid: dataclasses.replace(device, name=names.get(guid, device.name))
        for guid, device in subnet.devices.items()
    }
    return dataclasses.replace(subnet, devices=devices)


def _states(subnet: Subnet, listed: list[Listed]) -> dict[PortId, PortState]:
    """The states by port; FabricError where a port that has a cable is not among them."""
    states: dict[PortId, PortState] = {}
    for one in listed:
        if (known := subnet.port_guids.get(one.guid)) is not None:
            states[PortId(known.guid, one.port)] = one.state
    for port in subnet.cable_at:
        if port not in states:
            raise FabricError(
                f"iblinkinfo lacks {subnet.end(port)}, where ibnetdiscover has a cable: it lacks "
                "its end, or they are of two readings",
                next_step="save both again: railgauge fabric show --save FOLDER",
            )
    return states


def _by_node(subnet: Subnet, counted: Counted) -> Counted:
    """The counters by the ports of the subnet. Of a switch ibqueryerrors prints its GUID, of an HCA
    that of the port.
    """
    of_port = {}
    strange = []
    for printed, values in counted.of_port.items():
        guid = printed.guid
        if guid not in subnet.devices and guid in subnet.port_guids:
            guid = subnet.port_guids[guid].guid
        if guid not in subnet.devices:
            strange.append(printed)
        of_port[PortId(guid, printed.port)] = values
    if strange and len(strange) == len(of_port):
        raise FabricError(
            f"ibqueryerrors has {strange[0].guid:#018x}, which ibnetdiscover has not: they are of "
            "two subnets",
            next_step="save both again: railgauge fabric show --save FOLDER",
        )
    return counted._replace(of_port=of_port)


def _with_perfquery(
    subnet: Subnet, counted: Counted | None, further: list[counters.OfPort]
) -> Counted:
    of_port = {port: dict(values) for port, values in counted.of_port.items()} if counted else {}
    for one in further:
        device = subnet.port_of_lid.get(one.lid)
        if device is None:
            raise FabricError(
                f"perfquery asked LID {one.lid}, which no device has in ibnetdiscover's output",
                next_step="save both again",
            )
        if one.port != 255:
            values = of_port.setdefault(PortId(device.guid, one.port), {})
            for name, value in one.counters.items():
                # One of 64 bits has gone on where that of 16 bits stands.
                values[name] = max(value, values.get(name, 0))
    return Counted(
        of_port, counted.thresholds if counted else False, counted.nodes if counted else 0
    )
