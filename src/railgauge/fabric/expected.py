"""The expected cabling: what is there now, written to a file, so that a later state is compared."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pydantic

from railgauge.common.atomic import write_text
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.fabric.subnet import LANE_GBITS, End, Kind, Rate

#: In a system's folder.
FILE = "subnet.json"

_FORMAT = 1


class ExpectedDevice(NamedTuple):
    """GUID as hexadecimal text, kind, number of ports, model and firmware ("": not known)."""

    guid: str
    kind: Kind
    ports: int
    model: str
    firmware: str


class ExpectedCable(NamedTuple):
    """Both ends by description and port, and the lanes and speed of the link."""

    a: str
    a_port: int
    b: str
    b_port: int
    width: int
    speed: str


class Expected(pydantic.BaseModel):
    """Devices by description, and cables."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    format: int = _FORMAT
    devices: dict[str, ExpectedDevice]
    cables: list[ExpectedCable]

    @pydantic.model_validator(mode="after")
    def _cables_are_of_its_devices(self) -> Expected:
        if self.format != _FORMAT:
            raise ValueError(f"format {self.format}, expected {_FORMAT}")
        ends: set[End] = set()
        for cable in self.cables:
            for end in (End(cable.a, cable.a_port), End(cable.b, cable.b_port)):
                if end.name not in self.devices:
                    raise ValueError(f"a cable of {end.name}, which is not among the devices")
                if end in ends:
                    raise ValueError(f"{end} has two cables")
                ends.add(end)
            if cable.speed not in LANE_GBITS:
                raise ValueError(f"speed {cable.speed}, expected {', '.join(LANE_GBITS)}")
        for name, device in self.devices.items():
            try:
                int(device.guid, 16)
            except ValueError:
                raise ValueError(f"{name}: GUID {device.guid}, expected 0x...") from None
        return self

    def by_ends(self) -> dict[tuple[End, End], Rate]:
        """The rate of each cable by its ends, the lesser one first."""
        cables = {}
        for cable in self.cables:
            a, b = End(cable.a, cable.a_port), End(cable.b, cable.b_port)
            cables[min(a, b), max(a, b)] = Rate(cable.width, cable.speed)
        return cables

    def text(self) -> str:
        """JSON with a line a device and a line a cable, so that a diff shows what has changed."""
        devices = ",\n".join(f"  {json.dumps(n)}: {json.dumps(d)}" for n, d in self.devices.items())
        cables = ",\n".join(f"  {json.dumps(cable)}" for cable in self.cables)
        return (
            f'{{"format": {self.format},\n "devices": {{\n{devices}\n }},\n'
            f' "cables": [\n{cables}\n ]}}\n'
        )


def of_fabric(fabric: Fabric) -> Expected:
    """What is there; FabricError where two devices have a name or a GUID in common."""
    subnet = fabric.subnet
    if subnet.clashes:
        raise FabricError(
            f"{subnet.clashes[0].port.guid:#018x} is the GUID of two devices, expected one each",
            next_step="railgauge fabric check names their ports; set another GUID first",
        )
    names = Counter(device.name for device in subnet.devices.values())
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        more = f" (and {len(twice) - 1} more are shared)" if len(twice) > 1 else ""
        raise FabricError(
            f"several devices have the description {twice[0]!r}{more}; an expected cable needs a "
            "name at each end",
            next_step="railgauge fabric check; a node-name-map in the folder names switches",
        )
    devices = {
        d.name: ExpectedDevice(f"{d.guid:#018x}", d.kind, d.ports, d.model, d.firmware)
        for d in sorted(subnet.devices.values(), key=lambda d: d.name)
    }
    cables = []
    for a, b, cable in subnet.ends():
        low, high = min(a, b), max(a, b)
        if cable.rate is not None:
            cables.append(ExpectedCable(*low, *high, *cable.rate))
    return Expected(devices=devices, cables=sorted(cables))


def load(path: Path) -> Expected:
    """The expected cabling of a file; FabricError where it is none."""
    try:
        return Expected.model_validate_json(path.read_bytes())
    except OSError as error:
        raise FabricError(
            f"{path}: {error.strerror}, expected a file of `railgauge fabric expect`",
            next_step=f"railgauge fabric expect --write {path}, while the fabric is well",
        ) from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise FabricError(
            f"{path}: {where + ': ' if where else ''}{first['msg']}, expected a whole file of "
            "`railgauge fabric expect`",
            next_step="railgauge fabric expect --write FILE, while the fabric is well",
        ) from None


def write(expected: Expected, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, expected.text())
    except OSError as error:
        raise FabricError(
            f"{path}: cannot be written: {error.strerror}", next_step="--write another FILE"
        ) from None
