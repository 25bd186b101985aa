"""The entries of requirements.txt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements.txt"


def entries(text: str) -> Iterator[tuple[Requirement, str]]:
    """Each pinned package of a requirements file, with its lines. ValueError for one without a
    version or without a hash.
    """
    for entry in re.split(r"^(?=[A-Za-z])", text, flags=re.MULTILINE):
        first = entry.partition("\n")[0].removesuffix("\\").strip()
        if not first or first.startswith("#"):
            continue
        requirement = Requirement(first)
        if [one.operator for one in requirement.specifier] != ["=="] or "--hash=" not in entry:
            raise ValueError(f"{first!r}, expected NAME==VERSION and hashes")
        yield requirement, entry
