"""A tool's call on a node, as its exit line tells it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from railgauge.hostlist import fold, fold_numbers


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
        trouble = self._trouble
        return f"{self.tool} ({self.role}) on {self.host}{trouble}" if trouble else None

    @property
    def _trouble(self) -> str:
        """Why it failed, behind the words that tell it from others; "" where it did not."""
        if self.note:
            return f": {self.note}"
        if self.exit_code is None:
            return f" was killed after {self.seconds:.1f} s"
        return f" ended with exit code {self.exit_code}" if self.exit_code else ""


def why_failed(calls: Iterable[Call], more: Callable[[Call], str]) -> list[str]:
    """Why these calls fail their check. Ranks of which the same is to be said are named together: a
    launch has thousands. `more` is what else is known of a call that failed, or "".
    """
    alike: dict[tuple[str, ...], list[tuple[int, Call]]] = {}
    for call in calls:
        if call.failure:
            step, is_rank, number = call.role.rpartition("rank")
            whose = (step,) if is_rank and number.isdecimal() else (call.role, call.host)
            key = (call.tool, *whose, call._trouble, more(call))
            alike.setdefault(key, []).append((int(number) if len(whose) == 1 else 0, call))
    lines = []
    for (*_, trouble, said), members in alike.items():
        (_, call), step = members[0], members[0][1].role.rpartition("rank")[0]
        line = str(call.failure)
        if len(members) > 1:
            ranks = fold_numbers(number for number, _ in members)
            hosts = fold(dict.fromkeys(call.host for _, call in members))
            line = f"{call.tool} ({step}ranks {ranks}) on {hosts}{trouble}"
        lines.append(f"{line}: {said}" if said else line)
    return lines
