"""Where a lab keeps what is its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Folders:
    """The lab's own folder: `run/` lives as long as the lab, `rootfs/` is the cache."""

    lab: Path

    @property
    def run(self) -> Path:
        return self.lab / "run"

    @property
    def log(self) -> Path:
        return self.run / "log"

    @property
    def machines(self) -> Path:
        return self.run / "machines"

    @property
    def bin(self) -> Path:
        return self.lab / "bin"
