"""A tool's call on a node, as its exit line tells it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Call:
    """The line that a job writes for every tool call: the proof that the call ended, and how.

    `exit_code` is None when the runner had to kill the tool, or could not start it; `note` then
    says why. `path` is the file that ran, `package` what put it there (railgauge.node.provenance);
    both are empty where nothing ran.
    """

    tool: str
    role: str
    rank: int
    host: str
    exit_code: int | None
    seconds: float
    version: str = ""
    note: str = ""
    path: str = ""
    package: str = ""

    @property
    def failure(self) -> str | None:
        """Why this call alone fails the check, or None."""
        if self.note:
            return f"{self.tool} ({self.role}) on {self.host}: {self.note}"
        if self.exit_code is None:
            return f"{self.tool} ({self.role}) on {self.host} was killed after {self.seconds:.1f} s"
        if self.exit_code != 0:
            return f"{self.tool} ({self.role}) on {self.host} ended with exit code {self.exit_code}"
        return None
