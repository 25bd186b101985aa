"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re

#: As written: `Mb` would be bits to a network's people, and is none of these.
_UNITS = {
    **{"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9},
    **{"KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
}


def parse_size(text: str) -> int:
    """`64KiB` -> 65536, `1MB` -> 1000000, `4096` -> 4096; ValueError for anything else."""
    matched = re.fullmatch(r"\s*([0-9]+)\s*([A-Za-z]*)\s*", text)
    if not matched or matched[2] not in _UNITS or int(matched[1]) == 0:
        raise ValueError(
            f"size is {text!r}, expected a number above 0 with KiB, MiB, GiB, kB, MB, GB or B"
        )
    return int(matched[1]) * _UNITS[matched[2]]


def format_size(size_bytes: int) -> str:
    """The shortest exact form: 2 B, 64 KiB, 8 MiB; the inverse of `parse_size`."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"
