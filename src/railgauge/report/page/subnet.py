"""The InfiniBand subnet of a campaign: which switch is cabled to which, and the ports of each."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from railgauge import textfile
from railgauge.common.names import counted, natural
from railgauge.fabric import asking, findings
from railgauge.fabric import folder as folders
from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.fabric.reading.counters import TRAFFIC
from railgauge.fabric.subnet import Cable, Device, PortId
from railgauge.verdict.decision.verdict import Verdict

#: What the page shows of a subnet at most. Switches with faults come first.
MOST_CELLS, MOST_PORTS = 6_000, 2_000

#: The page draws no routes, and their tables are the largest output.
_FILES = tuple(name for name in asking.COMMANDS if name != "dump_fts.txt")

#: The end of a cable as a finding has it, also the first one of several.
_END = re.compile(r"(.*) port ([0-9]+)(?: and [0-9]+ more)?")

_COLUMNS = ("port", "cable to", "link", "both ends can", "findings", "counters", "state")

_LEVELS = {1: "leaves", 2: "spines", 3: "cores"}


class Cell(NamedTuple):
    """What lies between two switches, or a leaf and its hosts: `good`, `bad` or `none`."""

    kind: str
    words: str


class Row(NamedTuple):
    """A switch, its links to hosts, and its links to each switch of the map's columns."""

    name: str
    hosts: Cell
    cells: tuple[Cell, ...]


class Map(NamedTuple):
    """The switches of a level by those of the next level: the ones that are connected."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Ports(NamedTuple):
    """The ports of a switch, by `SubnetOf.columns`, and whether each has a fault; how many have."""

    name: str
    about: str
    faults: int
    rows: tuple[tuple[tuple[str, ...], bool], ...]


@dataclasses.dataclass(frozen=True)
class SubnetOf:
    """The subnet of a partition, as the last reading of the campaign shows it. `problem` is why
    there is nothing to show, `command` what to type for all of it.
    """

    partition: str
    command: str
    problem: str = ""
    about: str = ""
    maps: tuple[Map, ...] = ()
    ports: tuple[Ports, ...] = ()
    #: what is wrong at no port of a switch
    others: tuple[str, ...] = ()
    rows_left_out: int = 0
    ports_left_out: int = 0
    #: of a switch's ports
    columns: tuple[str, ...] = _COLUMNS

    @functools.cached_property
    def numbers(self) -> dict[str, int]:
        """Switch -> the number of its ports in the page."""
        return {ports.name: number for number, ports in enumerate(self.ports, start=1)}


def subnets(verdict: Verdict) -> list[SubnetOf]:
    """The subnet of each partition that has a reading."""
    readings: dict[str, dict[Path, str]] = {}
    for case in verdict.cases:
        folder, known = case.folder, readings.get(case.partition, {})
        if folder and folder not in known and (folder / asking.FOLDER / _FILES[0]).is_file():
            readings.setdefault(case.partition, {})[folder] = case.check
    return [_of_partition(name, readings[name]) for name in sorted(readings, key=natural)]


def _of_partition(partition: str, readings: dict[Path, str]) -> SubnetOf:
    """The last reading of a partition, with what all of them found."""
    folders_in_order = sorted(
        readings, key=lambda folder: (folder / asking.FOLDER / _FILES[0]).stat().st_mtime
    )
    last = folders_in_order[-1] / asking.FOLDER
    command = f"railgauge fabric check --from {last}"
    try:
        kept = [path for path in folders.files_of(last) if path.name in _FILES]
        fabric = folders.from_texts({str(path): textfile.read(path) for path in kept})
        found = {
            one: None
            for folder in folders_in_order
            if (folder / findings.FILE).is_file()
            for one in findings.load(folder / findings.FILE)
        }
    except (FabricError, OSError, ValueError) as error:
        return SubnetOf(partition, command, problem=f"its reading cannot be shown: {error}")
    read_by = " and ".join(dict.fromkeys(readings[folder] for folder in folders_in_order))
    return dataclasses.replace(
        drawn(fabric, tuple(found), read_by), partition=partition, command=command
    )


def drawn(fabric: Fabric, found: Sequence[FabricFinding], read_by: str) -> SubnetOf:
    """A subnet with what was found in it, without partition and command."""
    drawing = _Drawing(fabric, found)
    subnet, faults = fabric.subnet, sum(one.weight == "fault" for one in found)
    hosts = len({device.host for device in subnet.hcas()})
    rates = Counter(str(cable.rate) for cable in subnet.cables).most_common()
    links = ", ".join(f"{count} at {rate}" for rate, count in rates)
    about = (
        f"{counted(faults, 'fault', 'no')}; {len(subnet.switches())} switches, {hosts} hosts, "
        f"{len(subnet.hcas())} HCAs; links: {links or 'none'}; read by {read_by}"
    )
    maps, rows_left_out = drawing.maps()
    ports, ports_left_out = drawing.ports()
    others = tuple(f"{one.device}, {_words(one)}" for one in drawing.others)
    return SubnetOf("", "", "", about, maps, ports, others, rows_left_out, ports_left_out)


class _Drawing:
    def __init__(self, fabric: Fabric, found: Sequence[FabricFinding]) -> None:
        self.fabric, self.subnet = fabric, fabric.subnet
        self.level = self.subnet.level
        #: (GUID, GUID) of a switch and a neighbour -> the cables between them
        self.cables: dict[tuple[int, int], list[Cable]] = {}
        for cable in self.subnet.cables:
            for guid, other in ((cable.a.guid, cable.b.guid), (cable.b.guid, cable.a.guid)):
                self.cables.setdefault((guid, other), []).append(cable)
        guids: dict[str, list[int]] = {}
        for guid, device in self.subnet.devices.items():
            guids.setdefault(device.name, []).append(guid)
        #: port of a switch -> what was found there, or at the HCA that is cabled to it
        self.at: dict[PortId, list[FabricFinding]] = {}
        #: what was found elsewhere
        self.others: list[FabricFinding] = []
        #: names of two devices, or of one and "", in order -> faults
        self.faults: Counter[tuple[str, str]] = Counter()
        for one in found:
            if one.weight == "fault":
                far = _END.fullmatch(one.far)
                self.faults[_in_order(one.device, far[1] if far else "")] += 1
            ports = list(dict.fromkeys(self._ports(one, guids)))
            for port in ports:
                self.at.setdefault(port, []).append(one)
            if not ports:
                self.others.append(one)
        self.switches = {device.name for device in self.subnet.switches()}
        self.switches |= {one.device for one in found if one.message.startswith("this switch ")}

    def _ports(self, one: FabricFinding, guids: Mapping[str, Sequence[int]]) -> Iterator[PortId]:
        """The ports of switches at which a finding is shown: both ends of its cable."""
        far = _END.fullmatch(one.far)
        for name, number in ((one.device, one.port), (far[1], int(far[2])) if far else ("", 0)):
            of_name = guids.get(name, ())
            if number and len(of_name) == 1:
                port = PortId(of_name[0], number)
                cable = self.subnet.cable_at.get(port)
                ends = [port, *([cable.other(port)] if cable is not None else [])]
                yield from (end for end in ends if not self.subnet.is_hca(end.guid))

    # ---- the maps ----

    def maps(self) -> tuple[tuple[Map, ...], int]:
        """The maps, rows with faults first where room is short, and the number of other rows."""
        made = [
            made
            for level in range(1, max(max(self.level.values(), default=0), 2))
            for made in self._of_level(level)
        ]
        order = sorted(made, key=lambda one: not any(map(_has_fault, one.rows)))
        room, left_out, shown = MOST_CELLS, 0, []
        for one in order:
            # A column for the hosts.
            many = max(room // (len(one.columns) + 1), 0)
            rows = sorted(one.rows, key=lambda row: not _has_fault(row))[:many]
            left_out += len(one.rows) - len(rows)
            room -= len(rows) * (len(one.columns) + 1)
            if rows:
                shown.append(one._replace(rows=tuple(row for row in one.rows if row in rows)))
        return tuple(one for one in shown), left_out

    def _of_level(self, level: int) -> Iterator[Map]:
        """A map for each group of switches that are connected between two levels."""
        rest = [guid for guid, of in self.level.items() if of == level]
        rest.sort(key=lambda guid: natural(self.subnet.devices[guid].name))
        groups, seen = [], set[int]()
        for first in rest:
            if first not in seen:
                group, front = {first}, [first]
                while front:
                    near = self.subnet.neighbours.get(front.pop(), ())
                    beyond = [g for g in near if self.level.get(g) in (level, level + 1)]
                    front += [guid for guid in beyond if guid not in group]
                    group.update(beyond)
                seen |= group
                groups.append(group)
        lower, upper = (_LEVELS.get(of, f"level {of}") for of in (level, level + 1))
        for number, group in enumerate(groups, start=1):
            of = [
                sorted(
                    (self.subnet.devices[guid] for guid in group if self.level[guid] == one),
                    key=lambda device: natural(device.name),
                )
                for one in (level, level + 1)
            ]
            title = f"{lower} by {upper}".capitalize()
            title += f", group {number}" if len(groups) > 1 else ""
            rows = [
                Row(low.name, self._hosts(low), tuple(self._between(low, up) for up in of[1]))
                for low in of[0]
            ]
            yield Map(title, tuple(up.name for up in of[1]), tuple(rows))

    def _hosts(self, leaf: Device) -> Cell:
        """The hosts of a switch, with the faults of their cables."""
        hcas = [g for g in self.subnet.neighbours.get(leaf.guid, ()) if self.subnet.is_hca(g)]
        faults = sum(
            count
            for pair, count in self.faults.items()
            if leaf.name in pair and "" not in pair and not self.switches.issuperset(pair)
        )
        if not hcas and not faults:
            return Cell("none", "no link")
        hosts = len({self.subnet.devices[guid].host for guid in hcas})
        return _cell(counted(hosts, "host"), faults)

    def _between(self, low: Device, up: Device) -> Cell:
        cables = self.cables.get((low.guid, up.guid), [])
        faults = self.faults[_in_order(low.name, up.name)]
        if not cables and not faults:
            return Cell("none", "no link")
        rates = Counter(str(cable.rate or "rate unknown") for cable in cables).most_common()
        words = ", ".join(rate if count == 1 else f"{count} of {rate}" for rate, count in rates)
        return _cell(words or "no link", faults)

    # ---- the ports ----

    def ports(self) -> tuple[tuple[Ports, ...], int]:
        """The ports of the switches that there is room for, and the number of other switches."""
        switches = self.subnet.switches()
        switches.sort(key=lambda d: (self.level.get(d.guid, 99), natural(d.name)))
        numbers: dict[int, set[int]] = {device.guid: set() for device in switches}
        for port in itertools.chain(self.subnet.cable_at, self.at):
            if port.guid in numbers:
                numbers[port.guid].add(port.port)
        made = [self._of_switch(device, sorted(numbers[device.guid])) for device in switches]
        room, shown = MOST_PORTS, set[int]()
        for one in sorted(made, key=lambda one: not one.faults):
            room -= len(one.rows)
            if room >= 0:
                shown.add(id(one))
        kept = tuple(one for one in made if id(one) in shown)
        return kept, len(made) - len(kept)

    def _of_switch(self, device: Device, numbers: Collection[int]) -> Ports:
        rows = []
        for number in numbers:
            port = PortId(device.guid, number)
            found = self.at.get(port, ())
            cable = self.subnet.cable_at.get(port)
            state = self.subnet.states.get(port)
            rate = cable.rate if cable else None
            could = "-"
            if state is not None and rate is not None:
                could = f"{state.could_width or rate.width}x {state.could_speed or rate.speed}"
            cells = (
                str(number),
                str(self.subnet.end(cable.other(port))) if cable else "no link",
                str(rate or "-"),
                could,
                "; ".join(map(_words, found)),
                self._counters(port, cable),
                f"{state.state}, {state.physical}" if state else "-",
            )
            rows.append((cells, any(one.weight == "fault" for one in found)))
        firmware = f", firmware {device.firmware}" if device.firmware else ""
        lid = f", LID {device.lid}" if device.lid else ""
        cabled = sum(PortId(device.guid, number) in self.subnet.cable_at for number in numbers)
        about = f"{cabled} of {device.ports} ports cabled{lid}{firmware}"
        return Ports(device.name, about, sum(is_bad for _, is_bad in rows), tuple(rows))

    def _counters(self, port: PortId, cable: Cable | None) -> str:
        """The error counters that are not 0, of a port and of the HCA that is cabled to it."""
        known = self.fabric.counted
        if known is None:
            return "not read"
        far = cable.other(port) if cable else None
        shown = []
        for where, one in (("", port), ("of the HCA: ", far)):
            if one is None or (one != port and not self.subnet.is_hca(one.guid)):
                continue
            values = known.of_port.get(one, {})
            words = [f"{n} {value}" for n, value in values.items() if value and n not in TRAFFIC]
            shown += [where + ", ".join(words)] if words else []
        return "; ".join(shown) or "-"


def _words(one: FabricFinding) -> str:
    note = "" if one.weight == "fault" else "note: "
    return f"{note}{one.kind}: {one.message}; next: {one.next}"


def _in_order(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _cell(words: str, faults: int) -> Cell:
    return Cell("bad", f"{words}, {counted(faults, 'fault')}") if faults else Cell("good", words)


def _has_fault(row: Row) -> bool:
    return any(cell.kind == "bad" for cell in (row.hosts, *row.cells))
