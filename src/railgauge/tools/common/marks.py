"""By which lines an output is recognized as that of a tool, without any reading of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Mark:
    """A line that a tool prints when it starts."""

    #: must be in the line; a text without any of the words is no tool's
    word: str
    #: what the line begins with, behind blanks and what a launcher puts before it
    pattern: str
    #: the lines directly above that are of the same output, the nearest first; each may be missing
    lead: tuple[str, ...] = ()
    #: it begins an output only where the lines above it are another tool's
    weak: bool = False
    #: why an output that begins so is not read; "" where it is
    unread: str = ""


@dataclasses.dataclass(frozen=True)
class Marks:
    """How to distinguish the outputs of a tool from each other, and from other tools' outputs."""

    begins: tuple[Mark, ...]
    #: whether a mark goes on with the output above it: (that output so far, the line)
    joins: Callable[[str, str], bool] = lambda section, line: False
    #: the lines directly above an output that are its own, as `lead` of a mark, where only the
    #: output shows
    claims: Callable[[str], tuple[str, ...]] = lambda section: ()
    #: one process prints for all others, so that a line of any of them is of its output
    shared: bool = False
    #: why neighbouring outputs, as one text, are none by themselves; "" where they are
    why_one: Callable[[str], str] | None = None
    #: the output's last line, where nothing else may stand in its text: other lines become those
    #: of standard error
    end: re.Pattern[str] | None = None
