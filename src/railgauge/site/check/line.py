"""One line of `railgauge system check`, and the sum of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

Status = Literal["ok", "problem", "warning", "hint", "not checked"]


@dataclasses.dataclass(frozen=True)
class Line:
    """One thing that was checked, or could not be."""

    status: Status
    thing: str
    text: str
    next_step: str = ""

    def __str__(self) -> str:
        following = f"; next: {self.next_step}" if self.next_step else ""
        return f"{self.status:<11}  {self.thing}: {self.text}{following}"


def summary(name: str, lines: Sequence[Line]) -> str:
    """The last line: how many of each."""
    words: dict[Status, tuple[str, str]] = {
        "ok": ("ok", "ok"),
        "problem": ("problem", "problems"),
        "warning": ("warning", "warnings"),
        "hint": ("hint", "hints"),
        "not checked": ("not checked", "not checked"),
    }
    counts = {status: sum(line.status == status for line in lines) for status in words}
    told = {s: n for s, n in counts.items() if n or s in ("ok", "problem")}
    return f"{name}: " + ", ".join(f"{n} {words[s][n != 1]}" for s, n in told.items())


def failed(lines: Sequence[Line]) -> bool:
    return any(line.status == "problem" for line in lines)
