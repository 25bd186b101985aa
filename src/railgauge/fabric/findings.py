"""What is wrong with a fabric: the kind, the port, the cable's other end, and what to type next."""

from __future__ import annotations

import dataclasses
from typing import Literal


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
