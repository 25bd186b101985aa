"""Inventories on the head: what each field is for, a node's fingerprint, and what has changed.

`railgauge.node.inventory` makes the documents, on the nodes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import pydantic

from railgauge import hostlist, paths
from railgauge.common.errors import RailgaugeError
from railgauge.node.inventory import SCHEMA
from railgauge.node.inventory.compare import Change, changes
from railgauge.node.inventory.kinds import LASTING, kind
from railgauge.node.inventory.sheet import Scalar


@dataclasses.dataclass(frozen=True)
class Inventory:
    """A node's document. `unknown` has the reason for every field that could not be had."""

    node: str
    boot_id: str
    taken: str
    seconds: float
    fields: Mapping[str, Scalar]
    unknown: Mapping[str, str]
    #: the keys that a quick look shows too
    quick: Sequence[str] = ()
    #: what moves while the node works, and why some of it could not be had
    counters: Mapping[str, int | float] = dataclasses.field(default_factory=dict)
    uncounted: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        return {"schema": SCHEMA, **dataclasses.asdict(self)}


class _Document(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    document: Literal["railgauge-inventory-1"] = pydantic.Field(alias="schema")
    node: Annotated[str, pydantic.Field(min_length=1)]
    boot_id: str
    taken: str
    seconds: float
    fields: dict[str, Scalar]
    unknown: dict[str, str]
    quick: list[str]
    counters: dict[str, Annotated[int | float, pydantic.Field(ge=0, allow_inf_nan=False)]] = {}
    uncounted: dict[str, str] = {}

    @pydantic.model_validator(mode="after")
    def _in_one_place(self) -> _Document:
        both = sorted(self.fields.keys() & self.unknown.keys())
        if both:
            raise ValueError(f"{both[0]} is known and unknown")
        endless = [
            k for k, v in self.fields.items() if isinstance(v, float) and not math.isfinite(v)
        ]
        if endless:
            raise ValueError(f"{endless[0]} is no finite number")
        return self


def load(text: str | bytes, source: str = "inventory") -> Inventory:
    """The inventory in a JSON document; RailgaugeError that names `source` and the field."""
    try:
        document = _Document.model_validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise RailgaugeError(
            f"{source}: {place}: {first['msg']}, expected a document of the schema {SCHEMA}",
            next_step="on the node: PYTHONPATH=CHECKOUT/src python3 -m railgauge.node.inventory",
        ) from None
    return Inventory(**document.model_dump(exclude={"document"}))


def read(path: Path) -> Inventory:
    """The inventory in a file."""
    try:
        return load(path.read_bytes(), str(path))
    except OSError as error:
        raise RailgaugeError(f"{path}: {error.strerror}") from None


def fingerprint(inventory: Inventory) -> str:
    """12 hex digits that stand for the firmware and the tuning of a node.

    A field that is unknown counts by its name only.
    """
    lasting = {
        key: json.dumps(inventory.fields.get(key))
        for key in {*inventory.fields, *inventory.unknown}
        if kind(key) in LASTING
    }
    text = "".join(f"{key}={lasting[key]}\n" for key in sorted(lasting))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def diff(before: Inventory, after: Inventory) -> list[Change]:
    """All differences, in the order of the keys."""
    return changes(before.fields, after.fields, before.unknown, after.unknown)


# ---- the fabric between the nodes ----


class FabricDevice(pydantic.BaseModel):
    """A switch, or an NVSwitch tray: what it is, what runs on it, and the nodes that it serves."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kind: Literal["switch", "nvswitch-tray"] = "switch"
    firmware: Annotated[str, pydantic.Field(min_length=1)]
    model: str = ""
    #: a host list; all nodes of the system if none
    nodes: str = ""


class FabricFile(pydantic.BaseModel):
    """What a site says of the devices between its nodes, which no node can ask:

    {"schema": "railgauge-fabric-1", "devices": {"leaf01": {"kind": "switch", "model": "QM9700",
     "firmware": "31.2014.1068", "nodes": "n[1-16]"}}}
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, defer_build=True)

    document: Literal["railgauge-fabric-1"] = pydantic.Field(alias="schema")
    devices: dict[Annotated[str, pydantic.Field(pattern=r"^[^/\s]+$")], FabricDevice]

    def fields_of(self, node: str) -> dict[str, Scalar]:
        """The fields of the devices that serve a node: fabric/leaf01/firmware."""
        fields: dict[str, Scalar] = {}
        for name, device in self.devices.items():
            if not device.nodes or node in hostlist.expand(device.nodes):
                fields[f"fabric/{name}/kind"] = device.kind
                fields[f"fabric/{name}/firmware"] = device.firmware
                if device.model:
                    fields[f"fabric/{name}/model"] = device.model
        return fields

    def beside(self, inventory: Inventory) -> Inventory:
        """The node's inventory with the fields of the fabric devices that serve it."""
        return dataclasses.replace(
            inventory, fields={**inventory.fields, **self.fields_of(inventory.node)}
        )


def fabric(path: Path) -> FabricFile:
    """The file that a site supplies; RailgaugeError with the file and the field."""
    try:
        described = FabricFile.model_validate_json(path.read_bytes())
        for name, device in described.devices.items():
            if device.nodes:
                try:
                    hostlist.expand(device.nodes)
                except ValueError as error:
                    raise RailgaugeError(f"{path}: devices.{name}.nodes: {error}") from None
        return described
    except OSError as error:
        raise RailgaugeError(f"{path}: {error.strerror}") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise RailgaugeError(f"{path}: {place}: {first['msg']}") from None


def fabric_of(system: str) -> FabricFile | None:
    """What the site says of a system's fabric, if it does: configs/systems/<system>/fabric.json."""
    path = paths.system_folder(system) / "fabric.json"
    return fabric(path) if path.exists() else None


#: File that a NodeState case leaves in its stage folder.
FILE = "inventory.json"
