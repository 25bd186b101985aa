"""What is wrong with a fabric: the kind, the port, the cable's other end, and what to type next."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pydantic

from railgauge.common.atomic import write_json

#: Of a reading of a campaign, in the case's folder.
FILE = "subnet_findings.json"


@dataclasses.dataclass(frozen=True)
class FabricFinding:
    """`kind` is one of model/findings.yaml. A fault ends the command with 1, a note does not.
    `device` and `port` are where to look (port 0: the device as a whole), `far` the cable's other
    end, "" where there is none.
    """

    kind: str
    device: str
    port: int
    far: str
    message: str
    next: str
    weight: Literal["fault", "note"] = "fault"

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}"

    @property
    def words(self) -> str:
        """Where it is and what is wrong, without the kind."""
        where = f"{self.device} port {self.port}" if self.port else self.device
        far = f" (cable to {self.far})" if self.far else ""
        return f"{where}{far}: {self.message}"


_LIST = pydantic.TypeAdapter(list[FabricFinding])


def save(found: Sequence[FabricFinding], path: Path) -> None:
    """Keep what was found in a subnet, for the page of the campaign."""
    write_json(path, [dataclasses.asdict(one) for one in found])


def load(path: Path) -> list[FabricFinding]:
    """What `save` kept; OSError or ValueError where it cannot be read."""
    return _LIST.validate_python(json.loads(path.read_bytes()))
