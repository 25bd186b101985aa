"""What a version of a tool changed in the numbers that it prints."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Change:
    """A change since a version. `stated` names what outputs state of it (`Reading.seen`): where
    both do, these values decide and not the versions. `first_sizes`: it changes the first sizes of
    a run only. `release` is the name of that version where the tool counts otherwise than its
    releases do.
    """

    since: tuple[int, ...]
    what: str
    stated: str = ""
    first_sizes: bool = False
    release: str = ""

    @property
    def named(self) -> str:
        """The version as people know it."""
        return self.release or ".".join(str(part) for part in self.since)

    def is_in(self, version: str) -> bool | None:
        """Whether a version has it; None where the text states none."""
        numbers = _version(version)
        return numbers >= self.since if numbers else None

    def between(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool | None:
        """Whether two runs differ in it; None where that is not known."""
        if self.stated and self.stated in before and self.stated in after:
            return bool(before[self.stated] != after[self.stated])
        versions = [_version(seen.get("version")) for seen in (before, after)]
        if not all(versions):
            return None
        old, new = (version >= self.since for version in versions)
        return old != new


def _version(text: object) -> tuple[int, ...]:
    """`iperf 3.16` and `2.19.6` -> their numbers; () where none is known."""
    found = re.search(r"[0-9]+(?:\.[0-9]+)+", text) if isinstance(text, str) else None
    return tuple(int(part) for part in found[0].split(".")) if found else ()
