"""A tool's call on a node, as its exit line reports it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable

from railgauge.hostlist import fold, fold_ranks

#: The role of a rank, behind that of its step.
_RANK = re.compile(r"(.*)rank([0-9]+)")


@dataclasses.dataclass(frozen=True)
class Call:
    """The line that a job writes for every tool call: the proof that the call ended, and how.

    `exit_code` is None when the runner had to kill the tool, or could not start it; `note` then
    says why. `path` is the file that ran, `package` what put it there
    (railgauge.node.system.tool_package); both are empty where nothing ran.
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
        trouble = self._trouble
        return f"{self.tool} ({self.role}) on {self.host}{trouble}" if trouble else None

    @property
    def _trouble(self) -> str:
        """Why it failed, after its tool and step; "" where it did not."""
        if self.note:
            return f": {self.note}"
        if self.exit_code is None:
            return f" was killed after {self.seconds:.1f} s"
        return f" ended with exit code {self.exit_code}" if self.exit_code else ""


def why_failed(calls: Iterable[Call], more: Callable[[Call], str]) -> list[str]:
    """Why these calls fail their check. Ranks that failed in the same way are named together: a
    launch has thousands. `more` is what else is known of a call that failed, or "".
    """
    alike: dict[tuple[str, str | None, str, str, str], list[Call]] = {}
    for call in calls:
        if call.failure:
            of_rank = _RANK.fullmatch(call.role)
            step, side = (of_rank[1], "") if of_rank else (None, f"{call.role} on {call.host}")
            key = (call.tool, step, side, call._trouble, more(call))
            alike.setdefault(key, []).append(call)
    lines = []
    for (tool, step, _, trouble, said), members in alike.items():
        line = str(members[0].failure)
        if step is not None and len(members) > 1:
            ranks = fold_ranks([int(call.role.removeprefix(f"{step}rank")) for call in members])
            hosts = fold(dict.fromkeys(call.host for call in members))
            line = f"{tool} ({step}{ranks}) on {hosts}{trouble}"
        lines.append(f"{line}: {said}" if said else line)
    return lines
